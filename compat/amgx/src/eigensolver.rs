//! The eigensolver of AmgX, which this library does not have.

use crate::boundary::{call, fail};
use std::ffi::{c_int, c_void};

fn missing() -> c_int {
    call(|| fail!(NotImplemented, "eigensolvers are not implemented"))
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_eigensolver_create(
    _ret: *mut *mut c_void,
    _rsc: *mut c_void,
    _mode: c_int,
    _config_eigensolver: *mut c_void,
) -> c_int {
    missing()
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_eigensolver_setup(_eigensolver: *mut c_void, _mtx: *mut c_void) -> c_int {
    missing()
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_eigensolver_pagerank_setup(_eigensolver: *mut c_void, _a: *mut c_void) -> c_int {
    missing()
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_eigensolver_solve(_eigensolver: *mut c_void, _x: *mut c_void) -> c_int {
    missing()
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn AMGX_eigensolver_destroy(_obj: *mut c_void) -> c_int {
    missing()
}
