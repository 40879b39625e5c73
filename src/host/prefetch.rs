//! Asking for memory ahead of its use. A row of a sparse matrix is short, so the hardware's own prefetching sees little
//! but interruptions.

/// Entries that lie between the one in use and the one asked for: far enough to arrive in time, near enough to stay in
/// the first cache.
pub const AHEAD: usize = 512;

/// Starts loading the cache line of `data[index]`. An index behind the end does no harm.
#[inline(always)]
pub fn prefetch<T>(data: &[T], index: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint and faults on no address; the address is made without claiming that it lies in
        // the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().wrapping_add(index).cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (data, index);
}
