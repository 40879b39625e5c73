//! The simulated GPU, which runs the kernels on the CPU: the functions of `sim.cpp`.

use std::ffi::{c_char, c_int, c_longlong, c_void};

/// Its functions.
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

/// Folder of the static library `terrace_sim`, for test programs in C++ that use it; none in a build without it.
pub const FOLDER: Option<&str> = option_env!("TERRACE_SIM_FOLDER");

/// The functions; none in a build without the simulated GPU.
#[cfg(terrace_sim)]
pub fn functions() -> Option<Functions> {
    unsafe extern "C" {
        fn terrace_sim_create() -> *mut c_void;
        fn terrace_sim_destroy(fibers: *mut c_void);
        fn terrace_sim_find(name: *const c_char) -> *const c_void;
        fn terrace_sim_launch(
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
    Some(Functions {
        create: terrace_sim_create,
        destroy: terrace_sim_destroy,
        find: terrace_sim_find,
        launch: terrace_sim_launch,
    })
}

/// None: this build has no simulated GPU.
#[cfg(not(terrace_sim))]
pub fn functions() -> Option<Functions> {
    None
}
