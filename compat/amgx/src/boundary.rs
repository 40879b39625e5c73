//! The way in and out: codes, the sentence of the last failure, panics, and pointers of the caller.

use crate::printing;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use terrace::{Error, Status};

/// Result codes, with the numbers of AmgX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    BadParameters = 1,
    NotSupportedTarget = 3,
    NotSupportedBlocksize = 4,
    CudaFailure = 5,
    NoMemory = 7,
    IoError = 8,
    BadMode = 9,
    Core = 10,
    BadConfiguration = 12,
    NotImplemented = 13,
    Internal = 15,
}

impl Code {
    /// The code with this number.
    pub fn from_number(number: i64) -> Code {
        use Code::*;
        let all = [
            Ok,
            BadParameters,
            NotSupportedTarget,
            NotSupportedBlocksize,
            CudaFailure,
            NoMemory,
            IoError,
            BadMode,
            Core,
            BadConfiguration,
            NotImplemented,
        ];
        all.into_iter().find(|code| *code as i64 == number).unwrap_or(Internal)
    }
}

/// What each code means in general; the index is the code.
pub const MEANINGS: [&str; 16] = [
    "no error",
    "a parameter is not valid",
    "unknown error",
    "this is not supported on the device or for this number of ranks",
    "this block size is not supported",
    "the GPU or its driver failed",
    "the GPU failed in an algorithm",
    "there is not enough memory",
    "a file could not be read or written",
    "the mode is not valid here",
    "the solver failed",
    "a plugin failed",
    "the configuration is not valid",
    "this is not implemented",
    "no license was found",
    "internal error",
];

/// Why a call fails.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

/// Returns a failure: a code and a sentence with its numbers.
macro_rules! fail {
    ($code:ident, $($text:tt)*) => {
        Err($crate::boundary::Failure { code: $crate::boundary::Code::$code, message: format!($($text)*) })
    };
}
pub(crate) use fail;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { code: code_of(error.status), message: error.message }
    }
}

/// The code for a status of Terrace that is an error.
pub fn code_of(status: Status) -> Code {
    match status {
        Status::UnknownOption | Status::OptionValue | Status::Parse => Code::BadConfiguration,
        Status::Unsupported => Code::NotSupportedTarget,
        Status::OutOfMemory => Code::NoMemory,
        Status::Device => Code::CudaFailure,
        Status::Io => Code::IoError,
        Status::Internal | Status::Callback => Code::Internal,
        Status::Breakdown | Status::NonFinite | Status::PrecisionLost | Status::Diverged => Code::Core,
        _ => Code::BadParameters,
    }
}

thread_local! {
    /// The last failure of this thread.
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// Whether failures end the process, as the configuration key `exception_handling` asks.
static ENDS_PROCESS: AtomicBool = AtomicBool::new(false);

/// Makes every failure from here on end the process.
pub fn end_process_on_failure() {
    ENDS_PROCESS.store(true, Ordering::Relaxed);
}

/// Runs the body of an exported function.
pub fn call(body: impl FnOnce() -> Result<()>) -> c_int {
    let mut body = Some(body);
    call_once(&mut || match body.take() {
        Some(body) => body(),
        None => Ok(()),
    })
}

/// [`call`] for any body, compiled once.
fn call_once(body: &mut dyn FnMut() -> Result<()>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        fail!(Internal, "internal error: {text}")
    });
    let Err(failure) = result else { return Code::Ok as c_int };
    if ENDS_PROCESS.load(Ordering::Relaxed) {
        printing::print(&format!("AMGX error {}: {}\n", failure.code as i32, failure.message));
        // SAFETY: the configuration asks for the end of the process.
        unsafe { libc::exit(failure.code as c_int) };
    }
    let code = failure.code as c_int;
    let _ = LAST.try_with(|last| last.replace(Some((code, failure.message))));
    code
}

/// The sentence for a code: that of the last failure of this thread if it had this code, with the general meaning before it.
pub fn sentence(code: c_int) -> String {
    let meaning = usize::try_from(code).ok().and_then(|code| MEANINGS.get(code));
    let Some(meaning) = meaning else { return format!("{code} is no code of this library") };
    let last = LAST.try_with(|last| last.borrow().clone()).ok().flatten();
    match last {
        Some((of, message)) if of == code && code != 0 => format!("{meaning}: {message}"),
        _ => meaning.to_string(),
    }
}

/// A pointer to something to be written, which must not be null.
///
/// # Safety
/// `pointer` is null or valid for a write.
pub unsafe fn write<T>(pointer: *mut T, argument: &str, value: T) -> Result<()> {
    if pointer.is_null() {
        return fail!(BadParameters, "{argument} is NULL");
    }
    // SAFETY: by this function's contract.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes where the pointer is not null.
///
/// # Safety
/// `pointer` is null or valid for a write.
pub unsafe fn write_optional<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: by this function's contract.
        unsafe { pointer.write(value) };
    }
}

/// Refuses a null pointer.
pub fn required<T>(pointer: *const T, argument: &str) -> Result<()> {
    if pointer.is_null() { fail!(BadParameters, "{argument} is NULL") } else { Ok(()) }
}

/// A text argument.
///
/// # Safety
/// `pointer` is null or a NUL-terminated text that stays while the result is used.
pub unsafe fn text<'a>(pointer: *const c_char, argument: &str) -> Result<&'a str> {
    required(pointer, argument)?;
    // SAFETY: by this function's contract.
    match unsafe { CStr::from_ptr(pointer) }.to_str() {
        Ok(text) => Ok(text),
        Err(error) => fail!(BadParameters, "{argument} is not UTF-8 after byte {}", error.valid_up_to()),
    }
}

/// A count that must not be negative.
pub fn count(value: c_int, argument: &str) -> Result<usize> {
    match usize::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => fail!(BadParameters, "{argument} is {value}; accepted: 0 or more"),
    }
}
