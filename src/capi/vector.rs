//! Vectors in the memory that a context works in, for libraries over this one whose callers see no arrays, such as the drop-in for AmgX. They are
//! no part of the C ABI, whose callers have arrays of their own.

use super::borrow::{Lent, slice, slice_mut};
use super::types::{precision, terrace_type};
use super::{TERRACE_F32, TERRACE_F64, terrace_context};
use crate::backend::Backend;
use crate::context::Context;
use crate::error::{Result, try_copy, try_vec};
use crate::gpu::{self, Buffer, Gpu};
use crate::host::Host;
use crate::scalar::{Element, Number, Precision};
use crate::sparse::Storage;
use std::ffi::c_void;

/// A vector on the host, or in the memory of the GPU of its context.
pub struct ContextVector {
    context: Context,
    values: Values,
}

enum Values {
    HostF64(Vec<f64>),
    HostF32(Vec<f32>),
    GpuF64(Buffer<f64>),
    GpuF32(Buffer<f32>),
}

/// Runs the same code for each kind of vector.
macro_rules! each {
    ($values:expr, $host:ident => $on_host:expr, $gpu:ident => $on_gpu:expr) => {
        match $values {
            Values::HostF64($host) => $on_host,
            Values::HostF32($host) => $on_host,
            Values::GpuF64($gpu) => $on_gpu,
            Values::GpuF32($gpu) => $on_gpu,
        }
    };
}

impl ContextVector {
    /// A vector of zeros.
    pub fn zeros(context: &terrace_context, vector_type: terrace_type, len: usize) -> Result<ContextVector> {
        let context = context.state.context.clone();
        let values = match (context.gpu(), precision("vector_type", vector_type)?) {
            (None, Precision::F32) => Values::HostF32(try_vec(len, 0.0)?),
            (None, _) => Values::HostF64(try_vec(len, 0.0)?),
            (Some(gpu), Precision::F32) => Values::GpuF32(gpu.zeroed(len)?),
            (Some(gpu), _) => Values::GpuF64(gpu.zeroed(len)?),
        };
        Ok(ContextVector { context, values })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        each!(&self.values, v => v.len(), v => v.len())
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `TERRACE_F64` or `TERRACE_F32`.
    pub fn vector_type(&self) -> terrace_type {
        match self.values {
            Values::HostF64(_) | Values::GpuF64(_) => TERRACE_F64,
            Values::HostF32(_) | Values::GpuF32(_) => TERRACE_F32,
        }
    }

    /// Its address, in the memory that it is in.
    pub fn as_ptr(&self) -> *const c_void {
        each!(&self.values, v => v.as_ptr().cast(), v => std::ptr::without_provenance(v.address() as usize))
    }

    /// Its address, to be written to.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        each!(&mut self.values, v => v.as_mut_ptr().cast(), v => std::ptr::without_provenance_mut(v.address() as usize))
    }

    /// Copies an array of as many elements on the host, or in the memory of the context's GPU.
    ///
    /// # Safety
    /// The array has this length and format.
    pub unsafe fn copy_from(&mut self, array: *const c_void) -> Result<()> {
        let len = self.len();
        // SAFETY: by this function's contract.
        unsafe {
            each!(&mut self.values,
                v => v.copy_from_slice(slice(array, len, "data")?),
                v => upload(on_gpu(&self.context)?, array, v)?)
        }
        Ok(())
    }

    /// Copies to an array of as many elements on the host, or in the memory of the context's GPU.
    ///
    /// # Safety
    /// The array has this length and format.
    pub unsafe fn copy_to(&self, array: *mut c_void) -> Result<()> {
        let len = self.len();
        // SAFETY: by this function's contract.
        unsafe {
            each!(&self.values,
                v => slice_mut(array, len, "data")?.copy_from_slice(v),
                v => download(on_gpu(&self.context)?, v, array)?)
        }
        Ok(())
    }

    /// The Euclidean norm.
    pub fn norm(&self) -> Result<f64> {
        let host = Host::new(&self.context);
        Ok(each!(&self.values, v => self.context.run(v.len(), || host.norm(v)), v => {
            let gpu = on_gpu(&self.context)?;
            let norm = gpu.norm(v);
            gpu.synchronize()?;
            norm
        }))
    }
}

fn on_gpu(context: &Context) -> Result<&Gpu> {
    match context.gpu() {
        Some(gpu) => Ok(gpu),
        None => unreachable!("vectors in device memory belong to a context with a GPU"),
    }
}

/// # Safety
/// An array of the length of `to` in either memory.
unsafe fn upload<T: Number>(gpu: &Gpu, array: *const c_void, to: &mut Buffer<T>) -> Result<()> {
    let len = to.len();
    // SAFETY: by this function's contract.
    unsafe {
        if len > 0 && gpu.holds(array, "data")? {
            gpu.copy(gpu::Slice::<T>::borrowed(array.addr() as u64, len), to);
            return gpu.synchronize();
        }
        gpu.write(slice(array, len, "data")?, to)
    }
}

/// # Safety
/// An array of the length of `from` in either memory.
unsafe fn download<T: Number>(gpu: &Gpu, from: &Buffer<T>, array: *mut c_void) -> Result<()> {
    let len = from.len();
    // SAFETY: by this function's contract.
    unsafe {
        if len > 0 && gpu.holds(array, "data")? {
            gpu.copy(from, gpu::Slice::<T>::borrowed_mut(array.addr() as u64, len));
            return gpu.synchronize();
        }
        gpu.read(from, slice_mut(array, len, "data")?)
    }
}

/// A copy of an array of the caller's on the host, or in the memory of the context's GPU.
///
/// # Safety
/// The array has this length and format.
pub unsafe fn fetch<T: Element>(
    context: &terrace_context,
    array: *const c_void,
    len: usize,
    argument: &str,
) -> Result<Vec<T>> {
    // SAFETY: by this function's contract.
    match unsafe { Lent::new(&context.state.context, array, len, argument) }? {
        Lent::Host(lent) => try_copy(lent.as_slice()),
        Lent::Fetched(copy) => Ok(copy),
    }
}

/// Copies to an array of the caller's on the host, or in the memory of the context's GPU.
///
/// # Safety
/// The array has this length and format.
pub unsafe fn store<T: Element>(context: &terrace_context, values: &[T], array: *mut c_void) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe {
        match context.state.context.gpu() {
            Some(gpu) if !values.is_empty() && gpu.holds(array, "data")? => {
                gpu.write(values, gpu::Slice::borrowed_mut(array.addr() as u64, values.len()))
            }
            _ => {
                slice_mut(array, values.len(), "data")?.copy_from_slice(values);
                Ok(())
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::capi::testing::abi;
    use crate::capi::{terrace_context_create, terrace_context_destroy};
    use std::ptr::null_mut;

    #[test]
    fn a_vector_comes_back_from_every_memory_with_its_norm() {
        for device in [c"host:1", c"sim"] {
            let mut context = null_mut();
            assert_eq!(abi!(terrace_context_create(device.as_ptr(), &mut context)), 0);
            // SAFETY: made above, and destroyed at the end.
            let state = unsafe { &*context };
            let mut vector = ContextVector::zeros(state, TERRACE_F32, 2).unwrap();
            let mut other = ContextVector::zeros(state, TERRACE_F32, 2).unwrap();
            let mut back = [1.0_f32; 2];
            // SAFETY: arrays of two elements.
            unsafe {
                vector.copy_from([3.0_f32, 4.0].as_ptr().cast()).unwrap();
                other.copy_from(vector.as_ptr()).unwrap();
                vector.copy_to(other.as_mut_ptr()).unwrap();
                other.copy_to(back.as_mut_ptr().cast()).unwrap();
            }
            assert_eq!((back, other.norm().unwrap(), other.len()), ([3.0, 4.0], 5.0, 2));
            drop((vector, other));
            assert_eq!(abi!(terrace_context_destroy(context)), 0);
        }
    }
}
