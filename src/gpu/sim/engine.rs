//! The functions of `kernels/sim.cpp`.

use crate::error::{Result, fail};
use crate::gpu::runtime::{Arguments, Kernel, MAX_ARGUMENTS};
use std::ffi::{CStr, CString, c_int, c_longlong, c_void};
use terrace_kernels::sim::Functions;

/// Fibers for the threads of a block. One launch runs at a time.
pub(super) struct Engine {
    fibers: *mut c_void,
    reverse: bool,
    functions: Functions,
}

// SAFETY: the fibers are used through a mutable reference alone.
unsafe impl Send for Engine {}

/// Capacity for the arguments of a launch, in units of 8 bytes.
const WORDS: usize = 128;

/// A launch with copies of its arguments, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Launch {
    kernel: Kernel,
    blocks: usize,
    values: [u64; WORDS],
    sizes: [u8; MAX_ARGUMENTS],
    count: usize,
}

/// Units that an argument of so many bytes takes.
fn words(bytes: u8) -> usize {
    usize::from(bytes).div_ceil(size_of::<u64>())
}

impl Launch {
    /// # Safety
    /// Each pointer leads to a value of its size.
    pub unsafe fn new(kernel: Kernel, blocks: usize, arguments: &Arguments) -> Launch {
        let Arguments { pointers, sizes, count, .. } = arguments;
        let mut values = [0; WORDS];
        let mut at = 0;
        for (pointer, size) in pointers[..*count].iter().zip(sizes) {
            let room = &mut values[at..][..words(*size)];
            // SAFETY: by this function's contract, and there is room.
            unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), room.as_mut_ptr().cast(), (*size).into()) };
            at += room.len();
        }
        Launch { kernel, blocks, values, sizes: *sizes, count: *count }
    }

    /// Pointers to the arguments.
    fn pointers(&self) -> [*mut c_void; MAX_ARGUMENTS] {
        let mut at = 0;
        let mut pointers = [std::ptr::null_mut(); MAX_ARGUMENTS];
        for (pointer, size) in pointers[..self.count].iter_mut().zip(self.sizes) {
            *pointer = self.values[at..].as_ptr().cast_mut().cast();
            at += words(size);
        }
        pointers
    }
}

impl Engine {
    /// `reverse` reverses the order of blocks, warps and lanes.
    pub fn new(reverse: bool) -> Result<Engine> {
        let Some(functions) = terrace_kernels::sim::functions() else {
            return fail!(
                Device,
                "this build has no simulated GPU: it is for tests, which build it with the feature \"sim\""
            );
        };
        // SAFETY: allocates and nothing else.
        let fibers = unsafe { (functions.create)() };
        if fibers.is_null() {
            return fail!(OutOfMemory, "the fibers of a simulated GPU could not be allocated");
        }
        Ok(Engine { fibers, reverse, functions })
    }

    /// A kernel by its name.
    pub fn find(&self, name: &str) -> Result<Kernel> {
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: a text that ends.
        let entry = unsafe { (self.functions.find)(c_name.as_ptr()) };
        if entry.is_null() {
            return fail!(Unsupported, "there is no kernel {name}");
        }
        Ok(Kernel(entry.addr()))
    }

    /// Runs all blocks of a launch. The arrays among its arguments are alive, as who launched it promised.
    pub fn run(&mut self, launch: &Launch) -> Result<()> {
        let mut pointers = launch.pointers();
        let mut message = [0_u8; 512];
        // SAFETY: nobody else uses the fibers; values and sizes are those of the launch, and the message has its
        // length.
        let status = unsafe {
            (self.functions.launch)(
                self.fibers,
                launch.kernel.0 as *const c_void,
                launch.blocks as c_longlong,
                pointers.as_mut_ptr(),
                launch.sizes.as_ptr(),
                launch.count,
                c_int::from(self.reverse),
                message.as_mut_ptr().cast(),
                message.len(),
            )
        };
        if status == 0 {
            return Ok(());
        }
        let text = CStr::from_bytes_until_nul(&message).map(CStr::to_string_lossy).unwrap_or_default();
        fail!(Internal, "{text}")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: `create` made it, and nothing uses it any more.
        unsafe { (self.functions.destroy)(self.fibers) };
    }
}
