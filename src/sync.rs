//! Locks that a panic does not close for good, and the process that an object belongs to.

/// The guard of a lock, whether or not a panicking thread held it: the data behind every lock of this crate is replaced as a whole.
pub(crate) fn lock<G>(result: std::result::Result<G, std::sync::PoisonError<G>>) -> G {
    result.unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The process that made an object. Threads and device contexts do not follow into a child of `fork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Process {
        Process(std::process::id())
    }

    /// Whether this is not the process any more that made the object, but a child of it.
    pub(crate) fn was_left(self) -> bool {
        self != Process::current()
    }
}
