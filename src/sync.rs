//! Locks that a panic does not close for good.

/// The guard of a lock, whether or not a panicking thread held it: the data behind every lock of this crate is replaced as a whole.
pub(crate) fn lock<G>(result: std::result::Result<G, std::sync::PoisonError<G>>) -> G {
    result.unwrap_or_else(std::sync::PoisonError::into_inner)
}
