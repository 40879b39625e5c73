//! `AMGX_vector_handle`: a vector on the host or on the device, by its mode.

use crate::boundary::{Result, call, count, fail, required, write, write_optional};
use crate::handles::{self, lock};
use crate::matrix::Matrix;
use crate::mode::Mode;
use crate::native::zeros;
use crate::resources::Resources;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard};
use terrace::capi::{ContextVector, TERRACE_F32};

/// A vector.
pub struct Vector {
    pub resources: Arc<Resources>,
    pub mode: Mode,
    state: Mutex<State>,
}

/// Its elements, once it has any.
#[derive(Default)]
pub struct State {
    pub values: Option<ContextVector>,
    /// Elements of a block.
    pub block: usize,
}

impl State {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.values.as_ref().map_or(0, ContextVector::len)
    }

    /// The elements; the vector must have as many as the matrix has rows.
    pub fn of_length(&mut self, rows: usize, argument: &str) -> Result<&mut ContextVector> {
        let len = self.len();
        match &mut self.values {
            Some(values) if len == rows => Ok(values),
            Some(_) => fail!(BadParameters, "{argument} has {len} elements, and the matrix {rows} rows"),
            None => fail!(BadParameters, "{argument} has no elements yet: upload it, or set it to zero"),
        }
    }
}

impl Vector {
    /// The elements, for one call at a time.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Makes it a vector of so many elements, whose values do not matter.
    pub fn resize(&self, len: usize, block: usize) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.values.is_none() || state.len() != len {
            // The old memory is free before the new one is taken.
            state.values = None;
            let context = self.resources.context(self.mode)?;
            state.values = Some(ContextVector::zeros(context.state(), self.mode.vector, len)?);
        }
        state.block = block;
        Ok(state)
    }

    /// Sets it from numbers on the host.
    pub fn set(&self, block: usize, values: &[f64]) -> Result<()> {
        let mut state = self.resize(values.len(), block)?;
        let Some(own) = &mut state.values else { return Ok(()) };
        // SAFETY: arrays of the length and format of the vector.
        unsafe {
            if self.mode.vector == TERRACE_F32 {
                let mut narrow = zeros::<f32>(values.len())?;
                narrow.iter_mut().zip(values).for_each(|(to, from)| *to = *from as f32);
                return Ok(own.copy_from(narrow.as_ptr().cast())?);
            }
            Ok(own.copy_from(values.as_ptr().cast())?)
        }
    }

    /// Its elements on the host.
    pub fn get(&self) -> Result<Vec<f64>> {
        let state = self.state();
        match &state.values {
            Some(values) => to_host(values),
            None => Ok(Vec::new()),
        }
    }
}

/// The elements of a vector on the host.
pub fn to_host(values: &ContextVector) -> Result<Vec<f64>> {
    let mut wide = zeros::<f64>(values.len())?;
    // SAFETY: arrays of the length and format of the vector.
    unsafe {
        if values.vector_type() == TERRACE_F32 {
            let mut narrow = zeros::<f32>(values.len())?;
            values.copy_to(narrow.as_mut_ptr().cast())?;
            wide.iter_mut().zip(&narrow).for_each(|(to, from)| *to = f64::from(*from));
        } else {
            values.copy_to(wide.as_mut_ptr().cast())?;
        }
    }
    Ok(wide)
}

/// Elements of `n` blocks.
fn length(n: c_int, block_dim: c_int) -> Result<(usize, usize)> {
    let (n, block) = (count(n, "n")?, count(block_dim, "block_dim")?);
    if !(1..=8).contains(&block) {
        return fail!(NotSupportedBlocksize, "block_dim is {block}; accepted: 1 to 8");
    }
    Ok((n * block, block))
}

/// Makes a vector; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_create(vec: *mut *mut c_void, rsc: *mut c_void, mode: c_int) -> c_int {
    call(|| {
        required(vec, "vec")?;
        let (resources, mode) = (handles::get::<Resources>(rsc, "rsc")?, Mode::new(mode)?);
        resources.context(mode)?;
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe { write(vec, "vec", handles::insert(Vector { resources, mode, state: Mutex::default() })) }
    })
}

/// Ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_destroy(vec: *mut c_void) -> c_int {
    call(|| handles::remove::<Vector>(vec, "vec"))
}

/// Copies an array; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_upload(
    vec: *mut c_void,
    n: c_int,
    block_dim: c_int,
    data: *const c_void,
) -> c_int {
    call(|| {
        let vector = handles::get::<Vector>(vec, "vec")?;
        let (len, block) = length(n, block_dim)?;
        if len > 0 {
            required(data, "data")?;
        }
        let mut state = vector.resize(len, block)?;
        if let Some(values) = &mut state.values {
            // SAFETY: an array of this length in either memory, as the header asks.
            unsafe { values.copy_from(data) }?;
        }
        Ok(())
    })
}

/// Makes a vector of zeros; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_set_zero(vec: *mut c_void, n: c_int, block_dim: c_int) -> c_int {
    call(|| {
        let vector = handles::get::<Vector>(vec, "vec")?;
        let (len, block) = length(n, block_dim)?;
        let context = vector.resources.context(vector.mode)?;
        let mut state = vector.state();
        state.values = None;
        state.values = Some(ContextVector::zeros(context.state(), vector.mode.vector, len)?);
        state.block = block;
        Ok(())
    })
}

/// Makes a vector of random numbers; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_set_random(vec: *mut c_void, n: c_int) -> c_int {
    call(|| {
        let vector = handles::get::<Vector>(vec, "vec")?;
        let mut values = zeros::<f64>(count(n, "n")?)?;
        // Hashes of the index, so that they are the same every time.
        for (i, value) in values.iter_mut().enumerate() {
            let mut bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *value = ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        }
        vector.set(1, &values)
    })
}

/// Copies to an array; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_download(vec: *mut c_void, data: *mut c_void) -> c_int {
    call(|| {
        let vector = handles::get::<Vector>(vec, "vec")?;
        let state = vector.state();
        match &state.values {
            None => fail!(BadParameters, "vec has no elements yet"),
            Some(values) if values.is_empty() => Ok(()),
            Some(values) => {
                required(data, "data")?;
                // SAFETY: an array of this length in either memory, as the header asks.
                Ok(unsafe { values.copy_to(data) }?)
            }
        }
    })
}

/// The size; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_get_size(vec: *mut c_void, n: *mut c_int, block_dim: *mut c_int) -> c_int {
    call(|| {
        let vector = handles::get::<Vector>(vec, "vec")?;
        let state = vector.state();
        let block = state.block.max(1);
        // SAFETY: null or valid for a write, as the header asks.
        unsafe {
            write_optional(n, (state.len() / block) as c_int);
            write_optional(block_dim, block as c_int);
        }
        Ok(())
    })
}

/// Tells that a vector belongs to a matrix; nothing follows from it, since a rank has the same rows of both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_vector_bind(vec: *mut c_void, mtx: *mut c_void) -> c_int {
    call(|| {
        let (vector, matrix) = (handles::get::<Vector>(vec, "vec")?, handles::get::<Matrix>(mtx, "mtx")?);
        vector.mode.must_be(matrix.mode, "vec and mtx")
    })
}
