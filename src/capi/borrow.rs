//! Arrays of the caller. Everything that reads memory which a caller keeps goes through [`Borrowed`].

use super::boundary::null;
use crate::context::Context;
use crate::error::{Result, fail, try_capacity};
use crate::gpu::Slice;
use crate::par;
use crate::scalar::Element;
use crate::sparse::Storage;
use std::ffi::c_void;
use std::sync::Arc;

/// An array that the caller lent. Only the address is kept; each use makes a new slice, so a caller may change elements between calls.
#[derive(Clone, Copy)]
pub(super) struct Borrowed<T> {
    pointer: *const T,
    len: usize,
}

// SAFETY: the array is only read, and who made it promised that nobody writes to it during a call that uses it.
unsafe impl<T: Sync> Send for Borrowed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Borrowed<T> {}

impl<T> Borrowed<T> {
    /// An array of `len` elements; a null pointer is accepted when there are none.
    ///
    /// # Safety
    /// The array is valid for reads as long as the result or what is made of it is used, and unchanged during each use.
    pub unsafe fn new(pointer: *const c_void, len: usize, argument: &str) -> Result<Borrowed<T>> {
        Ok(Borrowed { pointer: checked(pointer, len, argument)?, len })
    }
}

impl<T: Send + Sync> Storage<T> for Borrowed<T> {
    fn as_slice(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `new` checked for null, alignment and size; validity is its caller's promise.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    fn owned_bytes(&self) -> usize {
        0
    }
}

/// An array of the caller's on the host, or a copy of one in the memory of the context's GPU.
pub(super) enum Lent<T> {
    Host(Borrowed<T>),
    Fetched(Vec<T>),
}

impl<T: Element> Lent<T> {
    /// An array of `len` elements in either memory; a null pointer is accepted when there are none. What the caller has begun on the device
    /// comes first, as [`crate::gpu::Gpu::holds`] says.
    ///
    /// # Safety
    /// As for [`Borrowed::new`].
    pub unsafe fn new(context: &Context, pointer: *const c_void, len: usize, argument: &str) -> Result<Lent<T>> {
        // SAFETY: by this function's contract; the array is only looked at when it is on the host.
        let borrowed = unsafe { Borrowed::new(pointer, len, argument) }?;
        match context.gpu() {
            Some(gpu) if len > 0 && gpu.holds(pointer, argument)? => {
                // SAFETY: by this function's contract.
                let on_device = unsafe { Slice::borrowed(pointer.addr() as u64, len) };
                Ok(Lent::Fetched(gpu.fetch(on_device)?))
            }
            _ => Ok(Lent::Host(borrowed)),
        }
    }

    pub fn as_slice(&self) -> &[T] {
        match self {
            Lent::Host(lent) => lent.as_slice(),
            Lent::Fetched(copy) => copy,
        }
    }

    /// The lent array itself or a copy of it; one of device memory is a copy already.
    pub fn keep(self, borrow: bool) -> Result<Arc<dyn Storage<T>>> {
        Ok(match self {
            Lent::Host(lent) if borrow => Arc::new(lent),
            Lent::Host(lent) => Arc::new(copy(lent.as_slice(), |v| v)?),
            Lent::Fetched(copy) => Arc::new(copy),
        })
    }
}

/// An array that is read during one call.
///
/// # Safety
/// The array is null or valid for reads and unchanged as long as the slice is used.
pub(super) unsafe fn slice<'a, T>(pointer: *const c_void, len: usize, argument: &str) -> Result<&'a [T]> {
    let pointer = checked(pointer, len, argument)?;
    // SAFETY: `checked` looked at null, alignment and size; validity is this function's contract.
    Ok(if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, len) } })
}

/// An array that is written during one call.
///
/// # Safety
/// The array is null or valid for reads and writes, and nothing else uses it as long as the slice is used.
pub(super) unsafe fn slice_mut<'a, T>(pointer: *mut c_void, len: usize, argument: &str) -> Result<&'a mut [T]> {
    let pointer = checked::<T>(pointer, len, argument)?.cast_mut();
    // SAFETY: `checked` looked at null, alignment and size; validity is this function's contract.
    Ok(if len == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(pointer, len) } })
}

/// The vectors of a solve or an application: `b` to read, `x` to write. They must not overlap.
///
/// # Safety
/// As for [`slice`] and [`slice_mut`].
pub(super) unsafe fn vectors<'a, T>(b: *const c_void, x: *mut c_void, len: usize) -> Result<(&'a [T], &'a mut [T])> {
    check_disjoint::<T>(b, x, len)?;
    // SAFETY: by this function's contract; that they do not overlap was just checked.
    unsafe { Ok((slice(b, len, "b")?, slice_mut(x, len, "x")?)) }
}

/// Checks the addresses of the vectors of a solve or an application, and that they do not overlap, in either memory.
fn check_disjoint<T>(b: *const c_void, x: *const c_void, len: usize) -> Result<()> {
    let (b, x) = (checked::<T>(b, len, "b")?, checked::<T>(x, len, "x")?);
    if b.addr().abs_diff(x.addr()) < len * size_of::<T>() {
        return fail!(InvalidArgument, "x overlaps b; they must be separate arrays");
    }
    Ok(())
}

/// The vectors of a solve or an application when they are in the memory of the context's GPU; `None` when they are on the host. What the
/// caller has begun comes first, as [`crate::gpu::Gpu::holds`] says.
///
/// # Safety
/// Arrays of `len` elements in one of the two memories, which nothing else uses as long as the slices are used.
pub(super) unsafe fn device_vectors<'a, T>(
    context: &Context,
    b: *const c_void,
    x: *mut c_void,
    len: usize,
) -> Result<Option<(&'a Slice<T>, &'a mut Slice<T>)>> {
    let Some(gpu) = context.gpu() else { return Ok(None) };
    match (gpu.holds(b, "b")?, gpu.holds(x, "x")?) {
        (false, false) => return Ok(None),
        (true, true) => {}
        (b, _) => {
            let (on_device, on_host) = if b { ("b", "x") } else { ("x", "b") };
            return fail!(
                InvalidArgument,
                "{on_device} is in device memory and {on_host} is not; they must be in the same"
            );
        }
    }
    check_disjoint::<T>(b, x, len)?;
    // SAFETY: by this function's contract.
    unsafe { Ok(Some((Slice::borrowed(b.addr() as u64, len), Slice::borrowed_mut(x.addr() as u64, len)))) }
}

fn checked<T>(pointer: *const c_void, len: usize, argument: &str) -> Result<*const T> {
    let pointer: *const T = pointer.cast();
    if len == 0 {
        return Ok(pointer);
    }
    if pointer.is_null() {
        return null(argument);
    }
    if !pointer.is_aligned() {
        let bytes = align_of::<T>();
        return fail!(InvalidArgument, "{argument} is not aligned to the {bytes} bytes of its elements");
    }
    if len > isize::MAX as usize / size_of::<T>() {
        return fail!(SizeMismatch, "{argument} would have {len} elements, more than memory can hold");
    }
    Ok(pointer)
}

/// A copy with each element converted. Its pages are first touched by the threads that fill them.
pub(super) fn copy<T: Copy + Sync, U: Copy + Send>(from: &[T], convert: impl Fn(T) -> U + Sync) -> Result<Vec<U>> {
    let mut to = try_capacity(from.len())?;
    par::for_each_mut(&mut to.spare_capacity_mut()[..from.len()], par::GRAIN, |start, piece| {
        for (to, from) in piece.iter_mut().zip(&from[start..]) {
            to.write(convert(*from));
        }
    });
    // SAFETY: the loop above wrote each of these elements, which have no destructor to run should it have panicked.
    unsafe { to.set_len(from.len()) };
    Ok(to)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn a_change_by_the_owner_between_two_uses_is_seen() {
        let mut array = [1.0, 2.0];
        let pointer = array.as_mut_ptr();
        // SAFETY: the array outlives its borrower.
        let lent: Borrowed<f64> = unsafe { Borrowed::new(pointer.cast(), 2, "values") }.unwrap();
        assert_eq!(lent.as_slice(), [1.0, 2.0]);
        // SAFETY: no slice of the array is alive.
        unsafe { pointer.write(3.0) };
        assert_eq!(lent.as_slice(), [3.0, 2.0]);
        assert_eq!(lent.owned_bytes(), 0);
    }

    #[test]
    fn bad_arrays_are_refused_before_they_are_read() {
        let array = [0.0_f64; 4];
        let start: *const c_void = array.as_ptr().cast();
        let status = |pointer, len| checked::<f64>(pointer, len, "b").err().map(|e| e.status);
        assert_eq!(status(std::ptr::null(), 1), Some(Status::NullArgument));
        assert_eq!(status(std::ptr::null(), 0), None);
        assert_eq!(status(start.wrapping_byte_add(4), 1), Some(Status::InvalidArgument));
        assert_eq!(status(start, usize::MAX / 8), Some(Status::SizeMismatch));
        // SAFETY: the arrays are valid; the overlap is found before references are made.
        let overlap =
            unsafe { vectors::<f64>(start, start.wrapping_byte_add(8).cast_mut(), 2) }.map(|_| ()).unwrap_err();
        assert!(overlap.message.contains("overlaps"));
    }

    #[test]
    fn copies_convert_each_element() {
        let from: Vec<i64> = (0..20_000).collect();
        assert_eq!(copy(&from, |v| v as i32).unwrap(), (0..20_000).collect::<Vec<i32>>());
    }
}
