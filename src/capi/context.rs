//! `terrace_context`: the device, its threads, the log and the last error.

use super::boundary::{self, ContextState, Handle, call, guard, in_callers, out, text, text_out};
use super::terrace_status;
use super::types::{log_level, terrace_log_callback, terrace_log_level};
use crate::context::{Context, LogLevel, LogSink, most_threads};
use crate::error::{Result, fail};
use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

/// A device with its threads, its log and the sentence of its last error. One thread at a time uses a context and the objects made from
/// it; different contexts are independent. Objects made from a context stay valid when it is destroyed.
pub struct terrace_context {
    pub(super) state: Arc<ContextState>,
}

impl Handle for terrace_context {
    fn state(&self) -> &ContextState {
        &self.state
    }
}

/// Makes a context.
///
/// - `device`: NUL-terminated text, host: "host" for the CPU with every core that the process may use, "host:N" for N threads, as many as `terrace_context_set_threads` accepts; "cuda" or
///   "cuda:N" for an NVIDIA GPU by its number, "hip" or "hip:N" for an AMD GPU; "sim" for a simulated GPU, "sim:1" for one that runs threads in the opposite order. On a GPU,
///   set-up, update and solve run there; a set-up of which a component is for the host alone runs on every core and is copied there (option
///   "amg.setup"). NULL is "host".
/// - `context`: host, written on success; destroy it with `terrace_context_destroy`.
///
/// Returns when its threads are started. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_DEVICE`,
/// `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_OUT_OF_MEMORY`; as there is no context yet, their sentence is read with
/// `terrace_last_error(NULL, ...)` on the same thread. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_create(
    device: *const c_char,
    context: *mut *mut terrace_context,
) -> terrace_status {
    guard(None, || {
        let out = out!(context);
        let device = if device.is_null() { "host" } else { text!(device) };
        let state = Arc::new(ContextState::new(Context::new(device)?));
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(terrace_context { state }))) };
        Ok(())
    })
}

/// Destroys a context.
///
/// - `context`: NULL is fine. Objects made from it stay valid and keep its threads, its log and its last error until they are destroyed.
///
/// Does not fail. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_destroy(context: *mut terrace_context) -> terrace_status {
    // SAFETY: made by `terrace_context_create`, and not used again as the documentation asks.
    unsafe { boundary::destroy(context) }
}

/// Changes the number of threads. Results do not depend on it, to the bit.
///
/// - `context`: not NULL.
/// - `threads`: 1 to 256, or up to 4 for each processor of the machine where that is more; 1 runs everything on the calling thread.
///
/// Returns when the threads are started. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_OUT_OF_MEMORY`. One thread at a time
/// for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_set_threads(context: *mut terrace_context, threads: i32) -> terrace_status {
    call!(context, |context| match usize::try_from(threads) {
        Ok(threads) => context.state.context.set_threads(threads),
        Err(_) => fail!(InvalidArgument, "threads is {threads}; accepted: 1 to {}", most_threads()),
    })
}

/// The number of threads.
///
/// - `context`: not NULL.
/// - `threads`: host, written.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_get_threads(
    context: *const terrace_context,
    threads: *mut i32,
) -> terrace_status {
    call!(context, |context| {
        let out = out!(threads);
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(context.state.context.threads() as i32) };
        Ok(())
    })
}

/// Sends log lines to a callback. A new context has no log, and the library never writes to stdout or stderr.
///
/// - `context`: not NULL.
/// - `level`: `TERRACE_LOG_OFF`, `TERRACE_LOG_WARNING`, `TERRACE_LOG_INFO` or `TERRACE_LOG_DEBUG`.
/// - `callback`: receives the lines, see `terrace_log_callback`; NULL is silence.
/// - `user`: handed to the callback as it is; it must stay valid until another log is set or the context and all objects made from it
///   are destroyed.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_set_log(
    context: *mut terrace_context,
    level: terrace_log_level,
    callback: terrace_log_callback,
    user: *mut c_void,
) -> terrace_status {
    call!(context, |context| {
        let level = log_level(level)?;
        let sink = callback.map(|function| -> LogSink {
            let target = LogTarget { function, user };
            Box::new(move |level, line| target.send(level, line))
        });
        context.state.context.set_log(level, sink);
        Ok(())
    })
}

struct LogTarget {
    function: unsafe extern "C" fn(terrace_log_level, *const c_char, *mut c_void),
    user: *mut c_void,
}

// SAFETY: lines are sent on the thread that called the library, where the caller promised that `user` may be used.
unsafe impl Send for LogTarget {}
// SAFETY: as above.
unsafe impl Sync for LogTarget {}

impl LogTarget {
    fn send(&self, level: LogLevel, line: &str) {
        let message = CString::new(line.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the message lives through the call; the rest is the caller's promise at `terrace_context_set_log`.
        in_callers(|| unsafe { (self.function)(level as i32, message.as_ptr(), self.user) });
    }
}

/// Describes the library and the context as a JSON object: version, device, threads, architecture, SIMD instruction sets, devices, and what
/// the build has for GPUs.
///
/// - `context`: not NULL.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_info(
    context: *const terrace_context,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    call!(context, |context| {
        let info = crate::info::to_json(&context.state.context);
        // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
        unsafe { text_out(&info, buf, len, needed) }
    })
}

/// The sentence of the last call that did not return `TERRACE_SUCCESS`: which argument, which value, what would be accepted. A
/// successful call leaves it as it is, and so does this function. It is empty when there was no such call.
///
/// - `context`: the context that was passed to that call, or that the object of the call was made from. NULL asks for the calls of this
///   thread, whatever their context: this is the way to the sentence of `terrace_context_create`, and of a call whose first argument was
///   NULL, and the simplest way directly after any call.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT` for a NULL `buf` with a `len` other than 0. One thread at a time for each context; it may be
/// called from a callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_last_error(
    context: *const terrace_context,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    guard(None, || {
        // SAFETY: null or alive, as the documentation asks.
        let state = unsafe { context.as_ref() }.map(|context| &*context.state);
        let sentence = boundary::last_error(state);
        // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
        unsafe { text_out(&sentence, buf, len, needed) }
    })
}

/// Panics inside the library, to check that a build turns panics into errors: returns `TERRACE_ERROR_INTERNAL`, prints nothing, and the
/// context works as before.
///
/// - `context`: not NULL.
///
/// One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_raise_panic(context: *mut terrace_context) -> terrace_status {
    call!(context, |_| -> Result<()> { panic!("terrace_context_raise_panic was called") })
}

/// Makes a sentence of a wrapper in another language the last error of a context, so that what the wrapper checks reads like
/// what the library checks.
///
/// - `context`: not NULL.
/// - `status`: the error, a negative number of the status table.
/// - `message`: host, which argument, which value, what would be accepted; copied.
///
/// Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
/// context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_set_error(
    context: *mut terrace_context,
    status: terrace_status,
    message: *const c_char,
) -> terrace_status {
    call!(context, |_| -> Result<()> { Err(boundary::wrapper_error(status, text!(message))?) })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::error::Status;
    use std::ptr::null_mut;
    use std::sync::Mutex;

    #[test]
    fn a_panic_becomes_a_status_with_its_message() {
        let context = TestContext::new();
        assert_eq!(abi!(terrace_context_raise_panic(context.0)), Status::Internal.code());
        let sentence = context.last_error();
        assert!(sentence.contains("terrace_context_raise_panic was called"), "{sentence}");
        assert!(sentence.contains("context.rs:"), "{sentence}");
        assert_eq!(abi!(terrace_context_set_threads(context.0, 1)), 0);
    }

    #[test]
    fn bad_devices_and_null_handles_are_explained_without_a_context() {
        let mut context = null_mut();
        assert_eq!(abi!(terrace_context_create(c"cuda:9999".as_ptr(), &mut context)), Status::Device.code());
        assert!(context.is_null());
        assert!(last_error(null_mut()).contains("cuda:9999"));
        assert_eq!(abi!(terrace_context_create(c"host".as_ptr(), null_mut())), Status::NullArgument.code());
        assert_eq!(abi!(terrace_context_set_threads(null_mut(), 1)), Status::NullArgument.code());
        assert_eq!(last_error(null_mut()), "context is null");
        assert_eq!(abi!(terrace_context_destroy(null_mut())), 0);
    }

    #[test]
    fn a_thread_has_the_sentence_of_its_last_call_whatever_the_context() {
        let context = TestContext::new();
        assert_eq!(abi!(terrace_context_set_threads(context.0, -3)), Status::InvalidArgument.code());
        let sentence = context.last_error();
        assert!(sentence.starts_with("threads is -3"), "{sentence}");
        assert_eq!(last_error(null_mut()), sentence);
        assert_eq!(std::thread::spawn(|| last_error(null_mut())).join().unwrap(), "");
        assert_eq!(abi!(terrace_context_set_threads(null_mut(), 1)), Status::NullArgument.code());
        assert_eq!(last_error(null_mut()), "context is null");
        assert_eq!(context.last_error(), sentence);
    }

    #[test]
    fn a_wrapper_can_leave_its_own_sentence() {
        let context = TestContext::new();
        let status = Status::SizeMismatch.code();
        assert_eq!(abi!(terrace_context_set_error(context.0, status, c"b is short".as_ptr())), status);
        assert_eq!(context.last_error(), "b is short");
        for none in [0, 1, -9999] {
            let refused = abi!(terrace_context_set_error(context.0, none, c"b is short".as_ptr()));
            assert_eq!(refused, Status::InvalidArgument.code());
        }
        assert!(context.last_error().contains("status is -9999"));
    }

    #[test]
    fn success_keeps_the_last_error() {
        let context = TestContext::new();
        assert_eq!(context.last_error(), "");
        assert_eq!(abi!(terrace_context_set_threads(context.0, -3)), Status::InvalidArgument.code());
        let mut threads = 0;
        assert_eq!(abi!(terrace_context_get_threads(context.0, &mut threads)), 0);
        assert_eq!(threads, 1);
        assert_eq!(context.last_error(), format!("threads is -3; accepted: 1 to {}", most_threads()));
    }

    #[test]
    fn text_is_cut_to_the_buffer_and_ended_with_nul() {
        let context = TestContext::new();
        abi!(terrace_context_set_threads(context.0, -3));
        let mut buf = [0x7f as c_char; 12];
        let mut needed = 0;
        assert_eq!(abi!(terrace_last_error(context.0, buf.as_mut_ptr(), 8, &mut needed)), 0);
        assert_eq!(needed, context.last_error().len() + 1);
        assert_eq!(buf.map(|c| c as u8), *b"threads\0\x7f\x7f\x7f\x7f");
        assert_eq!(abi!(terrace_last_error(context.0, null_mut(), 0, null_mut())), 0);
        let refused = abi!(terrace_last_error(context.0, null_mut(), 8, null_mut()));
        assert_eq!(refused, Status::NullArgument.code());
    }

    #[test]
    fn info_is_json_with_the_threads() {
        let context = TestContext::new();
        let info = text_of(|buf, len, needed| abi!(terrace_context_info(context.0, buf, len, needed)));
        let json: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(json["threads"], 1);
        assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn log_lines_reach_the_callback_with_its_user_pointer() {
        unsafe extern "C" fn keep(level: i32, message: *const c_char, user: *mut c_void) {
            // SAFETY: the test passes this Mutex as user; the message is NUL-terminated.
            let (seen, line) = unsafe { (&*user.cast::<Mutex<Vec<String>>>(), std::ffi::CStr::from_ptr(message)) };
            seen.lock().unwrap().push(format!("{level} {}", line.to_str().unwrap()));
        }
        let context = TestContext::new();
        let seen: Mutex<Vec<String>> = Mutex::default();
        let user = (&raw const seen).cast_mut().cast();
        assert_eq!(abi!(terrace_context_set_log(context.0, 9, Some(keep), user)), Status::InvalidArgument.code());
        assert_eq!(abi!(terrace_context_set_log(context.0, 2, Some(keep), user)), 0);
        // SAFETY: the context is alive.
        let state = unsafe { &(*context.0).state };
        state.context.log(LogLevel::Info, || "a\0b".to_string());
        assert_eq!(abi!(terrace_context_set_log(context.0, 2, None, null_mut())), 0);
        state.context.log(LogLevel::Info, || "unheard".to_string());
        assert_eq!(*seen.lock().unwrap(), ["2 a b"]);
    }
}
