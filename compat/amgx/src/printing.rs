//! Output: to the callback of the program, or to its standard output, as AmgX does. Nothing else of the library prints.

use std::ffi::{CString, c_char, c_int};
use std::sync::Mutex;

/// Receives a text and its length.
pub type AMGX_print_callback = Option<unsafe extern "C" fn(msg: *const c_char, length: c_int)>;

static CALLBACK: Mutex<AMGX_print_callback> = Mutex::new(None);

/// Sets the callback; none is standard output.
pub fn set_callback(callback: AMGX_print_callback) {
    *crate::handles::lock(&CALLBACK) = callback;
}

/// Prints a text that ends with a line end.
pub fn print(text: &str) {
    let callback = *crate::handles::lock(&CALLBACK);
    let Ok(text) = CString::new(text.replace('\0', "")) else { return };
    let length = c_int::try_from(text.count_bytes()).unwrap_or(c_int::MAX);
    match callback {
        // SAFETY: a NUL-terminated text of this length, for a function that the caller gave for it.
        Some(function) => unsafe { function(text.as_ptr(), length) },
        // SAFETY: the format takes one text. C's own buffer keeps the order with what the program prints.
        None => drop(unsafe { libc::printf(c"%s".as_ptr(), text.as_ptr()) }),
    }
}
