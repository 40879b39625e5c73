//! The way in and out: catches panics, stores the sentence of a failure, checks pointers and moves text.

mod float_environment;

use super::terrace_status;
use crate::context::{self, Context};
use crate::error::{Error, Result, Status, fail};
use crate::solver::Unsolved;
use crate::sync::Process;
use float_environment::Held;
pub(super) use float_environment::in_callers;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char};
use std::fmt::{self, Display, Formatter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};

/// What a context shares with the objects made from it. It lives as long as the last of them.
pub(super) struct ContextState {
    pub context: Context,
    last_error: Mutex<String>,
    process: Process,
}

impl ContextState {
    pub fn new(context: Context) -> ContextState {
        // Room for every sentence of the status table, so that a solve that does not converge reports it without an allocation.
        ContextState { context, last_error: Mutex::new(String::with_capacity(512)), process: Process::current() }
    }

    fn last_error(&self) -> MutexGuard<'_, String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object of the C ABI that knows its context.
pub(super) trait Handle {
    fn state(&self) -> &ContextState;
}

/// What the body of an exported function returns on success.
pub(super) trait Outcome {
    /// The status, and of one other than success the sentence, where there is a better one than that of the table.
    fn told(self) -> (Status, Option<Unsolved>);
}

impl Outcome for () {
    fn told(self) -> (Status, Option<Unsolved>) {
        (Status::Success, None)
    }
}

impl Outcome for (Status, Option<Unsolved>) {
    fn told(self) -> (Status, Option<Unsolved>) {
        self
    }
}

thread_local! {
    /// How many exported functions this thread is inside of; more than one when a callback calls the library.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Where the last panic inside an exported function happened.
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
    /// Sentence of the last call of this thread that did not succeed, with a context or without one.
    static THREAD_ERROR: RefCell<Sentence> = const { RefCell::new(Sentence::Table("")) };
}

/// Why a call did not succeed. Only that of an error is a text of its own: a solve that does not converge allocates nothing.
enum Sentence {
    Table(&'static str),
    Unsolved(Unsolved),
    Error(String),
}

impl Display for Sentence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Sentence::Table(sentence) => f.write_str(sentence),
            Sentence::Unsolved(unsolved) => unsolved.fmt(f),
            Sentence::Error(message) => f.write_str(message),
        }
    }
}

/// Runs the body of an exported function on a handle. A panic becomes `TERRACE_ERROR_INTERNAL`; the sentence of any result but success
/// is stored as that of the thread, and in the handle's context unless the handle is null.
pub(super) fn call_on<H: Handle, S: Outcome>(
    handle: Option<&H>,
    name: &str,
    body: impl FnOnce(&H) -> Result<S>,
) -> terrace_status {
    guard(handle.map(H::state), || match handle {
        Some(handle) if handle.state().process.was_left() => fail!(
            InvalidArgument,
            "{name} belongs to the process that this one was forked from, and its threads and devices stayed there; make a context here"
        ),
        Some(handle) => body(handle),
        None => null(name),
    })
}

/// [`call_on`] for functions that have no handle.
pub(super) fn guard<S: Outcome>(state: Option<&ContextState>, body: impl FnOnce() -> Result<S>) -> terrace_status {
    let mut body = Some(body);
    guard_once(state, &mut || match body.take() {
        Some(body) => body().map(S::told),
        None => unreachable!("the body runs once"),
    })
}

/// [`guard`] for any body, compiled once.
fn guard_once(
    state: Option<&ContextState>,
    body: &mut dyn FnMut() -> Result<(Status, Option<Unsolved>)>,
) -> terrace_status {
    let _held = Held::hold();
    install_hook();
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(internal(&*payload)));
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    match result {
        Ok((Status::Success, _)) => Status::Success.code(),
        Ok((condition, unsolved)) => {
            let sentence = unsolved.map_or(Sentence::Table(condition.row().sentence), Sentence::Unsolved);
            remember(state, sentence);
            condition.code()
        }
        Err(error) => {
            remember(state, Sentence::Error(error.message));
            error.status.code()
        }
    }
}

fn remember(state: Option<&ContextState>, sentence: Sentence) {
    if let Some(state) = state {
        let mut text = state.last_error();
        text.clear();
        let _ = write!(text, "{sentence}");
    }
    // A thread that is ending has no text any more; the status alone is returned.
    drop(THREAD_ERROR.try_with(|text| text.replace(sentence)));
}

/// The sentence of the last result that was not success, of a context or, without one, of this thread.
pub(super) fn last_error(state: Option<&ContextState>) -> String {
    match state {
        Some(state) => state.last_error().clone(),
        None => THREAD_ERROR.try_with(|text| text.borrow().to_string()).unwrap_or_default(),
    }
}

fn internal(payload: &(dyn Any + Send)) -> Error {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let at = PANICKED_AT.try_with(RefCell::take).unwrap_or_default();
    Error::new(Status::Internal, format!("internal error{at}: {text}"))
}

/// Rust prints every panic to stderr before it unwinds; a library must not. The hook is silent for panics that end at this boundary:
/// those on a thread inside an exported function and those of pool workers, which rayon carries to the caller.
fn install_hook() {
    static HOOK: Once = Once::new();
    // The hook cannot be changed while this thread unwinds, as when a destructor of a Rust caller destroys a handle.
    if HOOK.is_completed() || std::thread::panicking() {
        return;
    }
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if DEPTH.try_with(Cell::get).unwrap_or(0) > 0 {
                if let Some(at) = info.location() {
                    let _ =
                        PANICKED_AT.try_with(|text| *text.borrow_mut() = format!(" at {}:{}", at.file(), at.line()));
                }
            } else if !context::is_worker() {
                previous(info);
            }
        }));
    });
}

/// An error that a wrapper found.
pub(super) fn wrapper_error(status: terrace_status, message: &str) -> Result<Error> {
    match Status::from_code(status) {
        Some(known) if status < 0 => Ok(Error::new(known, message)),
        _ => fail!(InvalidArgument, "status is {status}; accepted: an error of the status table"),
    }
}

pub(super) fn null<T>(argument: &str) -> Result<T> {
    fail!(NullArgument, "{argument} is null")
}

/// An object behind a pointer that must not be null.
///
/// # Safety
/// `pointer` is null or valid for reads as long as the reference is used.
pub(super) unsafe fn object<'a, T>(pointer: *const T, argument: &str) -> Result<&'a T> {
    // SAFETY: by this function's contract.
    match unsafe { pointer.as_ref() } {
        Some(object) => Ok(object),
        None => null(argument),
    }
}

/// A place for a result. It is checked before any work is done and written only on success.
pub(super) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub fn required(pointer: *mut T, argument: &str) -> Result<Out<T>> {
        if pointer.is_null() { null(argument) } else { Ok(Out(pointer)) }
    }

    pub fn optional(pointer: *mut T) -> Out<T> {
        Out(pointer)
    }

    /// # Safety
    /// The pointer is null or valid for a write.
    pub unsafe fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: by this function's contract; `write` does not read or drop what C left there.
            unsafe { self.0.write(value) };
        }
    }
}

/// A text argument.
///
/// # Safety
/// `pointer` is null or points to a NUL-terminated string that stays as it is while the reference is used.
pub(super) unsafe fn text_in<'a>(pointer: *const c_char, argument: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return null(argument);
    }
    // SAFETY: by this function's contract.
    match unsafe { CStr::from_ptr(pointer) }.to_str() {
        Ok(text) => Ok(text),
        Err(error) => fail!(InvalidArgument, "{argument} is not UTF-8 after byte {}", error.valid_up_to()),
    }
}

/// Writes a text with its final NUL. A buffer that is too short gets the beginning, cut between characters.
///
/// # Safety
/// `buf` is null or valid for writes of `len` bytes; `needed` is null or valid for a write.
pub(super) unsafe fn text_out(text: &str, buf: *mut c_char, len: usize, needed: *mut usize) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe { written_out(|out| out.write_str(text), buf, len, needed) }
}

/// The same with what `write` writes, piece by piece: a text of any length needs no memory but the buffer.
///
/// # Safety
/// As for [`text_out`].
pub(super) unsafe fn written_out(
    write: impl FnOnce(&mut dyn Write) -> fmt::Result,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> Result<()> {
    if buf.is_null() && len > 0 {
        return fail!(NullArgument, "buf is null though len is {len}; a null buf is accepted with len 0");
    }
    let mut out = TextOut { buf, capacity: len.saturating_sub(1), end: 0, length: 0, has_ended: false };
    write(&mut out).map_err(|_| Error::new(Status::Internal, "a text could not be written"))?;
    if len > 0 {
        // SAFETY: `end` is at most `capacity`, which is less than `len`.
        unsafe { buf.add(out.end).write(0) };
    }
    // SAFETY: by this function's contract.
    unsafe { Out::optional(needed).set(out.length + 1) };
    Ok(())
}

/// A caller's buffer, of which `capacity` bytes take text.
struct TextOut {
    buf: *mut c_char,
    capacity: usize,
    /// Bytes that are written.
    end: usize,
    /// Bytes of the text, with those that do not fit.
    length: usize,
    /// A text with a NUL inside ends there for C.
    has_ended: bool,
}

impl Write for TextOut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let until_nul = text.split('\0').next().unwrap_or_default();
        if self.has_ended {
            return Ok(());
        }
        self.has_ended = until_nul.len() < text.len();
        if self.end == self.length {
            let mut fits = until_nul.len().min(self.capacity - self.end);
            while !until_nul.is_char_boundary(fits) {
                fits -= 1;
            }
            if fits > 0 {
                // SAFETY: these bytes end within `capacity`, which is less than the length of the buffer.
                unsafe { std::ptr::copy_nonoverlapping(until_nul.as_ptr().cast(), self.buf.add(self.end), fits) };
            }
            self.end += fits;
        }
        self.length += until_nul.len();
        Ok(())
    }
}

/// State that one call at a time may use. C cannot promise that to the compiler, so it is checked: a second thread, or a callback that
/// comes back to the object it was called from, gets an error.
pub(super) struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub fn new(state: T) -> Exclusive<T> {
        Exclusive(Mutex::new(state))
    }

    pub fn enter(&self, argument: &str) -> Result<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::WouldBlock) => fail!(
                InvalidArgument,
                "{argument} is in use by another call; it is used by one thread at a time and not from its own callbacks"
            ),
            Err(TryLockError::Poisoned(_)) => {
                fail!(
                    Internal,
                    "an internal error interrupted an earlier call on {argument}; destroy it and make a new one"
                )
            }
        }
    }
}

/// [`call_on`] with the argument's name.
macro_rules! call {
    ($handle:ident, $body:expr) => {{
        // SAFETY: the documentation of every exported function asks for handles that are null or alive; they are only ever borrowed
        // shared.
        let handle = unsafe { $handle.as_ref() };
        $crate::capi::boundary::call_on(handle, stringify!($handle), $body)
    }};
}

/// [`object`] with the argument's name.
macro_rules! required {
    ($pointer:ident) => {
        // SAFETY: the documentation of every exported function asks for pointers that are null or valid during the call.
        unsafe { $crate::capi::boundary::object($pointer, stringify!($pointer)) }?
    };
}

/// [`text_in`] with the argument's name.
macro_rules! text {
    ($pointer:ident) => {
        // SAFETY: the documentation of every exported function asks for text that is null or NUL-terminated.
        unsafe { $crate::capi::boundary::text_in($pointer, stringify!($pointer)) }?
    };
}

/// [`Out::required`] with the argument's name.
macro_rules! out {
    ($pointer:ident) => {
        $crate::capi::boundary::Out::required($pointer, stringify!($pointer))?
    };
}

pub(super) use {call, out, required, text};

/// Destroys an object; null is fine.
///
/// # Safety
/// `handle` is null or came from `Box::into_raw` and is not used again.
pub(super) unsafe fn destroy<H>(handle: *mut H) -> terrace_status {
    guard(None, || {
        if !handle.is_null() {
            // SAFETY: by this function's contract.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(())
    })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let mut buf = [1 as c_char; 4];
        let mut needed = 0;
        // SAFETY: a buffer of this length and a local.
        unsafe { text_out("aé€", buf.as_mut_ptr(), 3, &mut needed) }.unwrap();
        assert_eq!((buf.map(|c| c as u8), needed), ([b'a', 0, 1, 1], 7));
        // SAFETY: as above.
        unsafe { text_out("aé€", buf.as_mut_ptr(), 4, std::ptr::null_mut()) }.unwrap();
        assert_eq!(&buf.map(|c| c as u8), "aé\0".as_bytes());
    }

    #[test]
    fn pieces_make_one_text_that_is_cut_once_and_ends_at_a_nul() {
        let pieces = ["ab", "", "c€", "d", "e\0f", "g"];
        let write = |out: &mut dyn Write| pieces.iter().try_for_each(|piece| out.write_str(piece));
        for (len, expected) in [(0, ""), (1, ""), (3, "ab"), (5, "abc"), (6, "abc"), (7, "abc€"), (20, "abc€de")] {
            let (mut buf, mut needed) = ([1 as c_char; 20], 0);
            // SAFETY: a buffer of at least this length and a local.
            unsafe { written_out(write, buf.as_mut_ptr(), len, &mut needed) }.unwrap();
            let end = if len > 0 { expected.len() + 1 } else { 0 };
            let text: Vec<u8> = buf[..expected.len()].iter().map(|c| *c as u8).collect();
            assert_eq!((needed, &text[..]), (9, expected.as_bytes()), "{len}");
            assert!(len == 0 || buf[end - 1] == 0);
            assert!(buf[end..].iter().all(|c| *c == 1), "{len}: nothing else is written");
        }
    }

    #[test]
    fn state_is_entered_once_at_a_time_and_never_after_a_panic() {
        let state = Exclusive::new(0);
        let entered = state.enter("solver").unwrap();
        let again = state.enter("solver").map(|_| ()).unwrap_err();
        assert_eq!((again.status, again.message.contains("solver is in use")), (Status::InvalidArgument, true));
        drop(entered);

        let status = guard(None, || -> Result<()> {
            let _entered = state.enter("solver")?;
            panic!("half done")
        });
        assert_eq!(status, Status::Internal.code());
        assert!(last_error(None).ends_with("half done"), "{}", last_error(None));
        assert_eq!(state.enter("solver").map(|_| ()).unwrap_err().status, Status::Internal);
    }

    // Miri does not accept the memory reclamation of rayon's queues.
    #[cfg_attr(miri, ignore)]
    #[test]
    fn a_panic_of_a_pool_worker_reaches_the_caller() {
        let context = Context::new("host:2").unwrap();
        let state = ContextState::new(context.clone());
        let status = guard(Some(&state), || -> Result<()> { context.run(usize::MAX, || panic!("worker {}", 7)) });
        assert_eq!(status, Status::Internal.code());
        assert_eq!(last_error(Some(&state)), "internal error: worker 7");
    }
}
