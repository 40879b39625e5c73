//! Arrays in device memory.

use super::Gpu;
use super::runtime::View;
use crate::error::{Result, fail, try_vec};
use crate::scalar::Element;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

/// A slice of an array in device memory, as `[T]` is of one in host memory. References borrow from the owner, a
/// [`Buffer`] or the caller of the library.
///
/// A reference is the device address and the length. The elements that Rust sees have no size, so nothing is ever read
/// through it on the host.
#[repr(transparent)]
pub struct Slice<T> {
    elements: [PhantomData<T>],
}

impl<T> Slice<T> {
    /// A pointer to `len` elements at an address of the device; that of an empty array may be 0.
    fn at(address: u64, len: usize) -> *mut Slice<T> {
        assert!(address != 0 || len == 0, "an array of {len} elements at a null address");
        let first = std::ptr::without_provenance_mut::<PhantomData<T>>((address as usize).max(1));
        std::ptr::slice_from_raw_parts_mut(first, len) as *mut Slice<T>
    }

    /// A slice of device memory of the caller.
    ///
    /// # Safety
    /// `len` elements lie at `address` on the device of the context, and stay there unchanged by others as long as the
    /// slice is used.
    pub(crate) unsafe fn borrowed<'a>(address: u64, len: usize) -> &'a Slice<T> {
        // SAFETY: not null, and elements without size need no memory; that the device has it is this function's
        // contract.
        unsafe { &*Slice::at(address, len) }
    }

    /// The same to be written.
    ///
    /// # Safety
    /// As for [`Slice::borrowed`], and nothing else uses the memory as long as the slice is used.
    pub(crate) unsafe fn borrowed_mut<'a>(address: u64, len: usize) -> &'a mut Slice<T> {
        // SAFETY: as in `borrowed`.
        unsafe { &mut *Slice::at(address, len) }
    }

    /// The address of `len` elements from `start` on, which are in the array.
    fn address_of(&self, start: usize, len: usize) -> u64 {
        assert!(start <= self.len() && len <= self.len() - start, "{len} elements from {start} on of {}", self.len());
        if len == 0 { 0 } else { self.address() + (start * size_of::<T>()) as u64 }
    }

    /// `len` elements from `start` on.
    pub(crate) fn subslice(&self, start: usize, len: usize) -> &Slice<T> {
        // SAFETY: a part of an array that is borrowed as long as the result.
        unsafe { Slice::borrowed(self.address_of(start, len), len) }
    }

    /// The same to be written.
    pub(crate) fn subslice_mut(&mut self, start: usize, len: usize) -> &mut Slice<T> {
        // SAFETY: a part of an array that nothing else uses as long as the result is used.
        unsafe { Slice::borrowed_mut(self.address_of(start, len), len) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The device address; 0 when it is empty.
    pub fn address(&self) -> u64 {
        if self.is_empty() { 0 } else { self.elements.as_ptr().addr() as u64 }
    }

    /// Bytes of its elements.
    fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }
}

impl<T: Element> Slice<T> {
    /// The argument of a kernel, to read or to write. Launches are ordered on the stream, so a kernel that writes to a
    /// shared array is no race.
    pub(super) fn view(&self) -> View<'_> {
        View::of(self)
    }

    /// The same array, if this is the type of its elements.
    pub(super) fn downcast<U: Element>(&self) -> Option<&Slice<U>> {
        // SAFETY: the same memory with elements of the same type, borrowed as long as the result.
        (T::TYPE == U::TYPE).then(|| unsafe { Slice::borrowed(self.address(), self.len()) })
    }

    /// The same to be written.
    pub(super) fn downcast_mut<U: Element>(&mut self) -> Option<&mut Slice<U>> {
        // SAFETY: as above, and nothing else uses it as long as the result is used.
        (T::TYPE == U::TYPE).then(|| unsafe { Slice::borrowed_mut(self.address(), self.len()) })
    }
}

/// An array in device memory: owned, and freed on drop, or borrowed from the caller.
pub struct Buffer<T> {
    address: u64,
    len: usize,
    gpu: Gpu,
    borrowed: bool,
    of: PhantomData<T>,
}

impl<T> Buffer<T> {
    /// Whether it is borrowed from the caller.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    /// Bytes that the library holds for it.
    pub(crate) fn owned_bytes(&self) -> usize {
        if self.borrowed { 0 } else { self.bytes() }
    }
}

impl<T> Deref for Buffer<T> {
    type Target = Slice<T>;
    fn deref(&self) -> &Slice<T> {
        // SAFETY: the buffer has this memory as long as it lives, or it was borrowed for so long.
        unsafe { Slice::borrowed(self.address, self.len) }
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut Slice<T> {
        // SAFETY: as above, and who may write to the buffer is alone with it.
        unsafe { Slice::borrowed_mut(self.address, self.len) }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.address != 0 && !self.borrowed {
            self.gpu.free(self.address, self.bytes());
        }
    }
}

impl Gpu {
    /// Frees memory to the pool. The pool is trimmed when the last buffer is freed; until then later allocations reuse
    /// it.
    fn free(&self, address: u64, bytes: usize) {
        self.runtime().free(address);
        if self.inner.budget.release(bytes) {
            self.runtime().trim();
        }
    }

    /// An array of `len` elements, not initialised.
    pub fn allocate<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let Some(bytes) = len.checked_mul(size_of::<T>()) else {
            return fail!(OutOfMemory, "{len} elements are more than memory can hold");
        };
        let address =
            if bytes == 0 { 0 } else { self.inner.budget.allocate(bytes, || self.runtime().allocate(bytes))? };
        Ok(Buffer { address, len, gpu: self.clone(), borrowed: false, of: PhantomData })
    }

    /// A buffer that borrows an array of the caller and does not free it.
    ///
    /// # Safety
    /// The array stays as long as the buffer, and nothing changes it meanwhile.
    pub(super) unsafe fn borrowed<T: Element>(&self, slice: &Slice<T>) -> Buffer<T> {
        Buffer { address: slice.address(), len: slice.len(), gpu: self.clone(), borrowed: true, of: PhantomData }
    }

    /// An array of `len` elements, initialised to zero.
    pub fn zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let buffer = self.allocate::<T>(len)?;
        if len > 0 {
            self.runtime().clear(buffer.address, buffer.bytes())?;
        }
        Ok(buffer)
    }

    /// An empty list with capacity for `len` elements: their number, followed by the elements.
    pub(super) fn list(&self, len: usize) -> Result<Buffer<i32>> {
        let list = self.allocate::<i32>(1 + len)?;
        self.runtime().clear(list.address, size_of::<i32>())?;
        Ok(list)
    }

    /// A copy of an array of the host.
    pub fn upload<T: Element>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.allocate::<T>(values.len())?;
        self.write(values, &mut buffer)?;
        Ok(buffer)
    }

    /// Copies from the host. Synchronises.
    pub(crate) fn write<T: Element>(&self, from: &[T], to: &mut Slice<T>) -> Result<()> {
        assert_eq!(from.len(), to.len());
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: elements have no padding.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), size_of_val(from)) };
        self.inner.waits.fetch_add(1, Ordering::Relaxed);
        self.runtime().copy_in(bytes, to.address())
    }

    /// A copy on the host. Synchronises.
    pub(crate) fn fetch<T: Element>(&self, from: &Slice<T>) -> Result<Vec<T>> {
        let mut to = try_vec(from.len(), T::default())?;
        self.read(from, &mut to)?;
        Ok(to)
    }

    /// Copies to the host. Synchronises.
    pub(crate) fn read<T: Element>(&self, from: &Slice<T>, to: &mut [T]) -> Result<()> {
        assert_eq!(from.len(), to.len());
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: elements have no padding, and every pattern of bits is one.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), size_of_val(to)) };
        self.inner.waits.fetch_add(1, Ordering::Relaxed);
        self.runtime().copy_out(from.address(), bytes)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gpu::tests::devices;
    use crate::unit_tests::assert_panics;

    #[test]
    fn a_piece_is_a_part_of_its_array() {
        for gpu in devices() {
            let mut x = gpu.upload(&[1_i32, 2, 3, 4, 5]).unwrap();
            assert_eq!(gpu.fetch(x.subslice(1, 3)).unwrap(), [2, 3, 4]);
            gpu.write(&[30, 40], x.subslice_mut(1, 3).subslice_mut(1, 2)).unwrap();
            assert_eq!(gpu.fetch(&x).unwrap(), [1, 2, 30, 40, 5]);
            assert_eq!(x.subslice(2, 1).address() - x.address(), 8);
            // Empty slices at the end of an array, and of an empty one.
            assert!(x.subslice(5, 0).is_empty() && gpu.allocate::<f64>(0).unwrap().subslice(0, 0).address() == 0);
            assert!(x.downcast::<u32>().is_none() && x.downcast::<i32>().is_some());
        }
    }

    #[test]
    fn a_piece_ends_with_its_array() {
        // SAFETY: never read.
        let five = unsafe { Slice::<f64>::borrowed(256, 5) };
        assert_panics("3 elements from 3 on of 5", || {
            five.subslice(3, 3);
        });
    }
}
