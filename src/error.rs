//! Statuses and errors: one table of code, name, class and sentence.
//!
//! The table emits the Rust constants here, the C enum (through `capi::types`, checked by a test) and the Fortran
//! parameters. Numbers are stable: a retired code stays reserved and is never given to another meaning.

use crate::huge_pages::{Plain, advise, is_zero, zeroed};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What kind of condition a status is; lets a caller react to a family of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// All went well.
    Success,
    /// The result is usable, but not what was asked for.
    Condition,
    /// An argument, option or call order is wrong; nothing was changed.
    Argument,
    /// The matrix handed over is malformed.
    Matrix,
    /// The numbers did not allow the operation.
    Numeric,
    /// Memory, files or devices.
    Resource,
    /// A defect of the library or of a user's callback.
    Internal,
}

/// One row of the status table.
pub struct StatusRow {
    /// The status.
    pub status: Status,
    /// Number in the C ABI.
    pub code: i32,
    /// Name of the C constant and of the Fortran parameter.
    pub name: &'static str,
    /// Family.
    pub class: Class,
    /// What it means, without the details of a particular failure.
    pub sentence: &'static str,
}

macro_rules! statuses {
    ($($variant:ident = $code:literal, $name:literal, $class:ident, $sentence:literal;)*) => {
        /// Result of every exported function: 0 success, positive a condition that a caller may accept, negative an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum Status {
            $(#[doc = $sentence] $variant = $code,)*
        }

        /// The status table, in order of declaration.
        pub const STATUSES: &[StatusRow] = &[
            $(StatusRow {
                status: Status::$variant, code: $code, name: $name, class: Class::$class, sentence: $sentence,
            },)*
        ];
    };
}

statuses! {
    Success = 0, "TERRACE_SUCCESS", Success, "the call succeeded";
    NotConverged = 1, "TERRACE_NOT_CONVERGED", Condition,
        "the iterations ended before the tolerance was reached; the best iterate was returned";
    Stagnated = 2, "TERRACE_STAGNATED", Condition,
        "the residual norm no longer falls and has not reached the tolerance; the best iterate was returned";
    NotAttempted = 3, "TERRACE_NOT_ATTEMPTED", Condition,
        "a right-hand side was not attempted; only reports have this status";
    Stopped = 4, "TERRACE_STOPPED", Condition,
        "a monitor of the caller ended the solve; the iterate at that moment was returned";
    NullArgument = -1, "TERRACE_ERROR_NULL_ARGUMENT", Argument, "an argument that must not be null is null";
    InvalidArgument = -2, "TERRACE_ERROR_INVALID_ARGUMENT", Argument, "an argument has a value outside of what is accepted";
    SizeMismatch = -3, "TERRACE_ERROR_SIZE_MISMATCH", Argument, "sizes that must agree do not";
    UnknownOption = -4, "TERRACE_ERROR_UNKNOWN_OPTION", Argument, "no option has this key";
    OptionValue = -5, "TERRACE_ERROR_OPTION_VALUE", Argument, "the option does not accept this value";
    Unsupported = -6, "TERRACE_ERROR_UNSUPPORTED", Argument, "the chosen backend or this version cannot do this";
    NotSetUp = -7, "TERRACE_ERROR_NOT_SET_UP", Argument, "the object has not been set up yet";
    MatrixStructure = -8, "TERRACE_ERROR_MATRIX_STRUCTURE", Matrix, "the row offsets or columns of the matrix are malformed";
    MatrixValues = -9, "TERRACE_ERROR_MATRIX_VALUES", Matrix,
        "a value of the matrix is not finite, a diagonal entry that AMG needs is missing or zero, or the diagonal is negative";
    Breakdown = -10, "TERRACE_ERROR_BREAKDOWN", Numeric,
        "the Krylov method broke down; the matrix or the preconditioner lacks a property that the method needs";
    NonFinite = -11, "TERRACE_ERROR_NON_FINITE", Numeric, "a non-finite number appeared in the solve";
    OutOfMemory = -12, "TERRACE_ERROR_OUT_OF_MEMORY", Resource, "memory could not be allocated";
    Device = -13, "TERRACE_ERROR_DEVICE", Resource, "the device string names no device that this library can use";
    Io = -14, "TERRACE_ERROR_IO", Resource, "a file could not be read or written";
    Parse = -15, "TERRACE_ERROR_PARSE", Argument, "a text is not in the expected format";
    Callback = -16, "TERRACE_ERROR_CALLBACK", Internal, "a callback of the caller returned a non-zero value";
    PrecisionLost = -18, "TERRACE_ERROR_PRECISION_LOST", Numeric,
        "a level cannot be stored in the precision that was asked for";
    Diverged = -19, "TERRACE_ERROR_DIVERGED", Numeric,
        "the residual norm grew far beyond that of the right-hand side; the best iterate was returned";
    Internal = -17, "TERRACE_ERROR_INTERNAL", Internal, "an internal error was caught at the boundary of the library";
}

impl Status {
    /// This status's row of the table.
    pub fn row(self) -> &'static StatusRow {
        STATUSES.iter().find(|row| row.status == self).expect("the macro gives every variant a row")
    }

    /// The status of a number of the C ABI, if there is one.
    pub fn from_code(code: i32) -> Option<Status> {
        STATUSES.iter().find(|row| row.code == code).map(|row| row.status)
    }

    /// Number in the C ABI.
    pub fn code(self) -> i32 {
        self as i32
    }
}

/// A failure: its status, and the sentence that names the argument, the value and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which failure.
    pub status: Status,
    /// The details.
    pub message: String,
}

impl Error {
    /// An error with its details.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Error { status, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.row().name, self.message)
    }
}

impl std::error::Error for Error {}

/// Result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// `Err` with a status and a formatted message.
macro_rules! fail {
    ($status:ident, $($message:tt)*) => {
        Err($crate::error::Error::new($crate::error::Status::$status, format!($($message)*)))
    };
}
pub(crate) use fail;

/// The beginning of a text of the caller's, short enough for a sentence.
pub fn excerpt(text: &str) -> String {
    let text = text.trim_end();
    let mut beginning: String = text.chars().take(60).collect();
    if beginning.len() < text.len() {
        beginning.push_str("...");
    }
    beginning
}

/// A vector of `n` copies of `value`, or `OutOfMemory`. Every array whose size follows from a caller's matrix is made by one of the
/// functions below, because Rust's ordinary allocation aborts the process when memory runs out. Zeros are not written.
pub(crate) fn try_vec<T: Plain>(n: usize, value: T) -> Result<Vec<T>> {
    if is_zero(&value) {
        return zeroed(n).filter(leaves_reserve).map_or_else(|| no_memory::<T, _>(n), Ok);
    }
    try_filled(n, value)
}

/// An empty vector with room for `n` elements, or `OutOfMemory`.
pub(crate) fn try_capacity<T>(n: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    match v.try_reserve_exact(n) {
        Ok(()) if leaves_reserve(&v) => {
            advise(&mut v);
            Ok(v)
        }
        _ => no_memory::<T, _>(n),
    }
}

/// A vector of what an iterator gives, or `OutOfMemory`. One that knows its length is asked for it, others let the vector grow.
pub(crate) fn try_collect<T>(elements: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut v = Vec::new();
    try_extend(&mut v, elements)?;
    Ok(v)
}

/// [`try_vec`] for elements of any kind; all of them are written.
pub(crate) fn try_filled<T: Clone>(n: usize, value: T) -> Result<Vec<T>> {
    let mut v = try_capacity(n)?;
    v.resize(n, value);
    Ok(v)
}

/// A copy of an array, or `OutOfMemory`.
pub(crate) fn try_copy<T: Copy>(from: &[T]) -> Result<Vec<T>> {
    let mut v = try_capacity(from.len())?;
    v.extend_from_slice(from);
    Ok(v)
}

/// Appends what an iterator gives, or fails with `OutOfMemory` in the middle.
pub(crate) fn try_extend<T>(v: &mut Vec<T>, elements: impl IntoIterator<Item = T>) -> Result<()> {
    let mut elements = elements.into_iter();
    if let (n, Some(most)) = elements.size_hint()
        && n == most
    {
        try_reserve(v, n)?;
        v.extend(elements);
        return Ok(());
    }
    elements.try_for_each(|element| try_push(v, element))
}

/// Appends an element, or fails with `OutOfMemory`.
#[inline(always)]
pub(crate) fn try_push<T>(v: &mut Vec<T>, element: T) -> Result<()> {
    if v.len() == v.capacity() {
        try_reserve(v, 1)?;
    }
    v.push(element);
    Ok(())
}

/// Appends the last element that a vector gets: room is made for no more.
pub(crate) fn try_push_last<T>(v: &mut Vec<T>, element: T) -> Result<()> {
    if v.try_reserve_exact(1).is_err() {
        return no_memory::<T, _>(v.len().saturating_add(1));
    }
    v.push(element);
    Ok(())
}

/// Room for `n` more elements, or `OutOfMemory`. A vector that grows by pieces doubles its room.
#[inline]
pub(crate) fn try_reserve<T>(v: &mut Vec<T>, n: usize) -> Result<()> {
    if n <= v.capacity() - v.len() {
        return Ok(());
    }
    grow(v, n)
}

#[cold]
fn grow<T>(v: &mut Vec<T>, n: usize) -> Result<()> {
    if v.try_reserve(n).is_err() || !leaves_reserve(v) {
        return no_memory::<T, _>(v.len().saturating_add(n));
    }
    Ok(())
}

/// Bytes of arrays since room was last looked for.
static UNCHECKED: AtomicUsize = AtomicUsize::new(0);

/// Whether small allocations, which abort the process when they fail, still have room beside this array. Room is looked for once for every
/// 64 KiB of arrays: it takes a microsecond, less than the first use of as many bytes.
fn leaves_reserve<T>(v: &Vec<T>) -> bool {
    has_reserve(v.capacity().saturating_mul(size_of::<T>()))
}

/// The part of [`leaves_reserve`] that does not depend on the elements' type.
fn has_reserve(bytes: usize) -> bool {
    const CHECKED: usize = 64 << 10;
    const RESERVE: usize = 256 << 10;
    if UNCHECKED.fetch_add(bytes, Relaxed).saturating_add(bytes) < CHECKED {
        return true;
    }
    UNCHECKED.store(0, Relaxed);
    std::hint::black_box(&mut Vec::<u8>::new()).try_reserve_exact(RESERVE).is_ok()
}

#[cold]
fn no_memory<T, R>(n: usize) -> Result<R> {
    Err(too_many(n, size_of::<T>()))
}

fn too_many(n: usize, size: usize) -> Error {
    let bytes = n.saturating_mul(size);
    Error::new(Status::OutOfMemory, format!("{bytes} bytes for {n} elements could not be allocated"))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique_and_signs_follow_the_class() {
        for (i, row) in STATUSES.iter().enumerate() {
            assert!(STATUSES[..i].iter().all(|other| other.code != row.code && other.name != row.name));
            let expected = match row.class {
                Class::Success => 0,
                Class::Condition => 1,
                _ => -1,
            };
            assert_eq!(row.code.signum(), expected, "{}", row.name);
            assert_eq!(Status::from_code(row.code), Some(row.status));
        }
        assert_eq!(Status::from_code(-9999), None);
    }

    #[test]
    fn an_impossible_allocation_is_an_error() {
        let error = try_vec(usize::MAX / 16, 0.0_f64).unwrap_err();
        assert_eq!(error.status, Status::OutOfMemory);
        assert!(error.message.contains("elements"));
    }
}
