//! Large pages for large arrays. Streaming through a matrix in pages of 4 KiB costs a fault for each of them when they are first touched and
//! an address translation every time; Linux hands out pages of 2 MiB to those who ask.

/// Arrays from this size on. Below it, the part of a large page that stays unused counts.
const LARGE: usize = 8 << 20;

/// Asks for large pages under the room of `array`, which must not have been touched for that to help. Does nothing where there are none.
pub(crate) fn prefer_large<T>(array: &mut Vec<T>) {
    let bytes = array.capacity().saturating_mul(size_of::<T>());
    if bytes < LARGE {
        return;
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 4096;
        let address = array.as_mut_ptr().cast::<u8>();
        let skip = address.align_offset(PAGE);
        let whole = (bytes - skip) / PAGE * PAGE;
        // SAFETY: the range lies in the vector's own allocation, and the advice changes how it is backed, not what it holds. A refusal
        // is no error.
        unsafe {
            libc::madvise(address.add(skip).cast(), whole, libc::MADV_HUGEPAGE);
        }
    }
}
