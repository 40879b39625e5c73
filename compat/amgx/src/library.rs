//! What has no handle: versions, errors, initialisation, memory, output.

use crate::boundary::{call, fail, required, sentence, write_optional};
use crate::printing::{self, AMGX_print_callback};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The version of the API that this library has; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_get_api_version(major: *mut c_int, minor: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: null or valid for a write, as the header asks.
        unsafe {
            write_optional(major, 2);
            write_optional(minor, 0);
        }
        Ok(())
    })
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!("Terrace ", env!("CARGO_PKG_VERSION"), "\0").as_bytes())
{
    Ok(text) => text,
    Err(_) => c"",
};

/// Texts about the build; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_get_build_info_strings(
    version: *mut *mut c_char,
    date: *mut *mut c_char,
    time: *mut *mut c_char,
) -> c_int {
    call(|| {
        // SAFETY: null or valid for a write, as the header asks. A build is the same at any time, so that it has no date.
        unsafe {
            write_optional(version, VERSION.as_ptr().cast_mut());
            write_optional(date, c"".as_ptr().cast_mut());
            write_optional(time, c"".as_ptr().cast_mut());
        }
        Ok(())
    })
}

/// The sentence of a code; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_get_error_string(err: c_int, buf: *mut c_char, buf_len: c_int) -> c_int {
    let text = sentence(err);
    call(|| {
        required(buf, "buf")?;
        if buf_len < 1 {
            return fail!(BadParameters, "buf_len is {buf_len}; accepted: 1 or more");
        }
        let mut end = text.len().min(buf_len as usize - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: a buffer of `buf_len` bytes, as the header asks; `end` is less.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buf, end);
            buf.add(end).write(0);
        }
        Ok(())
    })
}

/// Nothing is to be done before the first call.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_initialize() -> c_int {
    0
}

/// There are no plugins.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_initialize_plugins() -> c_int {
    0
}

/// Objects that are left are valid until they are destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_finalize() -> c_int {
    printing::set_callback(None);
    0
}

/// There are no plugins.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_finalize_plugins() -> c_int {
    0
}

/// Ends the process, which is what it is for.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_abort(_rsrc: *mut c_void, err: c_int) {
    // SAFETY: the caller asks for the end of the process.
    unsafe { libc::exit(err) }
}

/// Memory need not be pinned; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_pin_memory(ptr: *mut c_void, _bytes: c_uint) -> c_int {
    call(|| required(ptr, "ptr"))
}

/// As `AMGX_pin_memory`.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_unpin_memory(ptr: *mut c_void) -> c_int {
    call(|| required(ptr, "ptr"))
}

/// The library leaves signals alone.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_install_signal_handler() -> c_int {
    0
}

/// The library leaves signals alone.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_reset_signal_handler() -> c_int {
    0
}

/// Sends all output to a function; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_register_print_callback(func: AMGX_print_callback) -> c_int {
    printing::set_callback(func);
    0
}

/// The same by an older name.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_solver_register_print_callback(func: AMGX_print_callback) -> c_int {
    printing::set_callback(func);
    0
}
