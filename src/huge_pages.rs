//! Transparent huge pages for large arrays: fewer page faults and fewer misses of the translation buffer than pages of 4 KiB. Linux provides pages
//! of 2 MiB after `madvise`.

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
