//! The simulated GPU, which runs the kernels on the CPU: the functions of `sim.cpp`, which is compiled once for each width of a warp.

use std::ffi::{c_char, c_int, c_longlong, c_void};

/// The functions for one width of a warp.
#[derive(Clone, Copy)]
pub struct Functions {
    /// Allocates the fibers for the threads of a block; null when there is no memory.
    pub create: unsafe extern "C" fn() -> *mut c_void,
    /// Frees what `create` gave.
    pub destroy: unsafe extern "C" fn(fibers: *mut c_void),
    /// The kernel of a name that ends with NUL, or null.
    pub find: unsafe extern "C" fn(name: *const c_char) -> *const c_void,
    /// Runs all blocks of a launch, one launch at a time on the same fibers. Returns 0, or 1 with a message when the kernel did something wrong.
    pub launch: unsafe extern "C" fn(
        fibers: *mut c_void,
        kernel: *const c_void,
        blocks: c_longlong,
        arguments: *mut *mut c_void,
        sizes: *const u8,
        count: usize,
        reverse: c_int,
        message: *mut c_char,
        len: usize,
    ) -> c_int,
}

/// Folder of the static libraries `terrace_sim32` and `terrace_sim64`, for test programs in C++ that use them; none in a build without them.
pub const FOLDER: Option<&str> = option_env!("TERRACE_SIM_FOLDER");

#[cfg(terrace_sim)]
macro_rules! functions {
    ($create:ident, $destroy:ident, $find:ident, $launch:ident) => {{
        unsafe extern "C" {
            fn $create() -> *mut c_void;
            fn $destroy(fibers: *mut c_void);
            fn $find(name: *const c_char) -> *const c_void;
            fn $launch(
                fibers: *mut c_void,
                kernel: *const c_void,
                blocks: c_longlong,
                arguments: *mut *mut c_void,
                sizes: *const u8,
                count: usize,
                reverse: c_int,
                message: *mut c_char,
                len: usize,
            ) -> c_int;
        }
        Some(Functions { create: $create, destroy: $destroy, find: $find, launch: $launch })
    }};
}

/// Those for warps of 32 or 64 lanes; none for another width, and in a build without the simulated GPU.
#[cfg(terrace_sim)]
pub fn functions(warp: usize) -> Option<Functions> {
    match warp {
        32 => functions!(terrace_sim32_create, terrace_sim32_destroy, terrace_sim32_find, terrace_sim32_launch),
        64 => functions!(terrace_sim64_create, terrace_sim64_destroy, terrace_sim64_find, terrace_sim64_launch),
        _ => None,
    }
}

/// None: this build has no simulated GPU.
#[cfg(not(terrace_sim))]
pub fn functions(_: usize) -> Option<Functions> {
    None
}
