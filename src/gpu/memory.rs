//! Vectors and other arrays in device memory.

use super::Gpu;
use super::runtime::View;
use crate::error::{Result, fail, try_vec};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

/// A piece of device memory: the library's own, or lent by the caller.
pub struct Slice<T> {
    address: u64,
    len: usize,
    of: PhantomData<T>,
}

impl<T> Slice<T> {
    /// Device memory of the caller.
    ///
    /// # Safety
    /// `len` elements lie at `address` on the device of the context, and stay there as long as the slice is used.
    pub(crate) unsafe fn lent(address: u64, len: usize) -> Slice<T> {
        Slice { address, len, of: PhantomData }
    }

    /// `len` elements from `start` on.
    pub(crate) fn piece(&self, start: usize, len: usize) -> Slice<T> {
        assert!(start + len <= self.len);
        Slice { address: self.address + (start * size_of::<T>()) as u64, len, of: PhantomData }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is, as a program that uses the device itself takes it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// As kernels take it.
    pub(super) fn view(&self) -> View {
        View { address: self.address, len: self.len as i64, bytes: (self.len * size_of::<T>()) as u64 }
    }
}

/// Device memory that ends with its owner, or is lent by the caller.
pub struct Buffer<T> {
    slice: Slice<T>,
    gpu: Gpu,
    lent: bool,
}

impl<T> Buffer<T> {
    /// Whether it is the caller's.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Bytes that the library holds for it.
    pub(crate) fn owned_bytes(&self) -> usize {
        if self.lent { 0 } else { self.slice.len * size_of::<T>() }
    }
}

impl<T> Deref for Buffer<T> {
    type Target = Slice<T>;
    fn deref(&self) -> &Slice<T> {
        &self.slice
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut Slice<T> {
        &mut self.slice
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.slice.address != 0 && !self.lent {
            self.gpu.give_back(self.slice.address, self.slice.len * size_of::<T>());
        }
    }
}

impl Gpu {
    /// When nothing is left, neither does the pool keep anything: until then freed memory is what the next set-up gets.
    fn give_back(&self, address: u64, bytes: usize) {
        self.runtime().free(address);
        if self.inner.budget.give_back(bytes) {
            self.runtime().trim();
        }
    }

    /// Room for `len` elements, whose content is undefined.
    pub(super) fn room<T>(&self, len: usize) -> Result<Buffer<T>> {
        let Some(bytes) = len.checked_mul(size_of::<T>()) else {
            return fail!(OutOfMemory, "{len} elements are more than memory can hold");
        };
        let address = if bytes == 0 { 0 } else { self.inner.budget.take(bytes, || self.runtime().allocate(bytes))? };
        Ok(Buffer { slice: Slice { address, len, of: PhantomData }, gpu: self.clone(), lent: false })
    }

    /// An array of the caller's, which stays as long as it is used.
    pub(super) fn lent<T>(&self, slice: &Slice<T>) -> Buffer<T> {
        Buffer { slice: slice.piece(0, slice.len), gpu: self.clone(), lent: true }
    }

    /// `len` elements whose bits are zero.
    pub(super) fn zeroed<T>(&self, len: usize) -> Result<Buffer<T>> {
        let buffer = self.room::<T>(len)?;
        if len > 0 {
            self.runtime().clear(buffer.address, len * size_of::<T>())?;
        }
        Ok(buffer)
    }

    /// An empty list with room for `len` elements, which follow their number.
    pub(super) fn list(&self, len: usize) -> Result<Buffer<i32>> {
        let list = self.room::<i32>(1 + len)?;
        self.runtime().clear(list.address, size_of::<i32>())?;
        Ok(list)
    }

    /// A copy of an array of the host.
    pub(crate) fn upload<T: Copy>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.room::<T>(values.len())?;
        self.write(values, &mut buffer)?;
        Ok(buffer)
    }

    /// Copies from the host, when all work before it is done.
    pub(crate) fn write<T: Copy>(&self, from: &[T], to: &mut Slice<T>) -> Result<()> {
        assert_eq!(from.len(), to.len);
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: values of the formats and integers that kernels take, which have no padding.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), size_of_val(from)) };
        self.inner.waits.fetch_add(1, Ordering::Relaxed);
        self.runtime().copy_in(bytes, to.address)
    }

    /// A copy on the host.
    pub(crate) fn fetch<T: Copy + Default>(&self, from: &Slice<T>) -> Result<Vec<T>> {
        let mut to = try_vec(from.len, T::default())?;
        self.read(from, &mut to)?;
        Ok(to)
    }

    /// Copies to the host, when all work on `from` is done.
    pub(crate) fn read<T: Copy>(&self, from: &Slice<T>, to: &mut [T]) -> Result<()> {
        assert_eq!(from.len, to.len());
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: as in `write`, and every pattern of bits is a value of these types.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), size_of_val(to)) };
        self.inner.waits.fetch_add(1, Ordering::Relaxed);
        self.runtime().copy_out(from.address, bytes)
    }
}
