//! Pages of large arrays. Zeros come from the system untouched, so that the threads that use the pages also place them. Transparent huge pages
//! have fewer page faults and fewer misses of the translation buffer than pages of 4 KiB; Linux provides pages of 2 MiB after `madvise`.

use std::alloc::{Layout, alloc_zeroed};

/// A type that is all data: it has no padding, and zero bytes are a value of it.
///
/// # Safety
/// What the sentence above says.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => {
        $(
            // SAFETY: a number, or a truth value whose zero is `false`.
            unsafe impl Plain for $type {}
        )*
    };
}

plain!(u8, u16, u32, u64, usize, i8, i16, i32, i64, f32, f64, bool, half::f16, half::bf16);

// SAFETY: it has no bytes.
unsafe impl Plain for () {}

// SAFETY: elements lie side by side, each without padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Whether a value consists of zero bytes.
pub(crate) fn is_zero<T: Plain>(value: &T) -> bool {
    // SAFETY: a plain value is all data, of this many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) };
    bytes.iter().all(|byte| *byte == 0)
}

/// An array of zeros; none when memory runs out.
pub(crate) fn zeroed<T: Plain>(n: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(n).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout has a size.
    let address = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if address.is_null() {
        return None;
    }
    // SAFETY: memory of the global allocator with the layout of `n` elements, which are values since their bytes are zero.
    let mut array = unsafe { Vec::from_raw_parts(address, n, n) };
    advise(&mut array);
    Some(array)
}

/// Smallest array in bytes. In smaller ones the unused part of a huge page is too large a share.
const MIN_BYTES: usize = 8 << 20;

/// Advises huge pages for the capacity of `array`, which should not have been written yet. Does nothing on other systems.
pub(crate) fn advise<T>(array: &mut Vec<T>) {
    let bytes = array.capacity().saturating_mul(size_of::<T>());
    if bytes < MIN_BYTES {
        return;
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 4096;
        let address = array.as_mut_ptr().cast::<u8>();
        let skip = address.align_offset(PAGE);
        let whole = (bytes - skip) / PAGE * PAGE;
        // SAFETY: the range lies in the vector's own allocation, and the advice does not change its content. A failure is
        // harmless.
        unsafe {
            libc::madvise(address.add(skip).cast(), whole, libc::MADV_HUGEPAGE);
        }
    }
}
