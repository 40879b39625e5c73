//! The simulation: the kernels of `kernels/`, compiled for the CPU by the C++ compiler, where every thread of a block is a fiber. See
//! `kernels/sim.h` for what it checks. Device memory is host memory; every launch is done when it returns.

use super::runtime::{Arguments, Graph, Kernel, MAX_ARGUMENTS, Runtime};
use crate::context::lock;
use crate::error::{Result, fail};
use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::sync::{Arc, Mutex};

type Find = unsafe extern "C" fn(*const c_char) -> *const c_void;
type Launch = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    c_longlong,
    *mut *mut c_void,
    *const u8,
    usize,
    c_int,
    *mut c_char,
    usize,
) -> c_int;

unsafe extern "C" {
    fn terrace_sim32_create() -> *mut c_void;
    fn terrace_sim32_destroy(engine: *mut c_void);
    fn terrace_sim32_find(name: *const c_char) -> *const c_void;
    fn terrace_sim32_launch(
        engine: *mut c_void,
        kernel: *const c_void,
        blocks: c_longlong,
        arguments: *mut *mut c_void,
        sizes: *const u8,
        count: usize,
        reverse: c_int,
        message: *mut c_char,
        len: usize,
    ) -> c_int;
    fn terrace_sim64_create() -> *mut c_void;
    fn terrace_sim64_destroy(engine: *mut c_void);
    fn terrace_sim64_find(name: *const c_char) -> *const c_void;
    fn terrace_sim64_launch(
        engine: *mut c_void,
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

/// A simulated GPU.
pub(super) struct Sim {
    shared: Arc<Shared>,
}

/// What captured graphs need, too.
struct Shared {
    warp: usize,
    reverse: bool,
    find: Find,
    launch: Launch,
    destroy: unsafe extern "C" fn(*mut c_void),
    state: Mutex<State>,
}

struct State {
    engine: *mut c_void,
    /// Layouts of what is allocated.
    memory: HashMap<u64, Layout>,
    /// Launches of a capture that is under way.
    captured: Option<Vec<Launched>>,
}

// SAFETY: the engine is used by one launch at a time, behind the lock.
unsafe impl Send for State {}

/// Units of 8 bytes in which an argument of this size fits.
fn words(size: u8) -> usize {
    usize::from(size).div_ceil(size_of::<u64>())
}

/// A launch with copies of its arguments, one after the other.
struct Launched {
    kernel: Kernel,
    blocks: usize,
    values: Vec<u64>,
    sizes: [u8; MAX_ARGUMENTS],
    count: usize,
}

impl Sim {
    /// Warps of 32 or 64 lanes; `reverse` turns the order of blocks, warps and lanes round.
    pub fn new(warp: usize, reverse: bool) -> Result<Sim> {
        // SAFETY: `create` allocates and nothing else.
        let (engine, find, launch, destroy) = match warp {
            32 => unsafe {
                (
                    terrace_sim32_create(),
                    terrace_sim32_find as Find,
                    terrace_sim32_launch as Launch,
                    terrace_sim32_destroy as _,
                )
            },
            64 => unsafe {
                (
                    terrace_sim64_create(),
                    terrace_sim64_find as Find,
                    terrace_sim64_launch as Launch,
                    terrace_sim64_destroy as _,
                )
            },
            _ => return fail!(Device, "a simulated GPU has warps of 32 or 64 lanes, not {warp}"),
        };
        if engine.is_null() {
            return fail!(OutOfMemory, "the fibers of a simulated GPU could not be allocated");
        }
        let state = Mutex::new(State { engine, memory: HashMap::new(), captured: None });
        Ok(Sim { shared: Arc::new(Shared { warp, reverse, find, launch, destroy, state }) })
    }
}

impl Shared {
    /// # Safety
    /// As for [`Runtime::launch`].
    unsafe fn launch(&self, kernel: Kernel, blocks: usize, pointers: *mut *mut c_void, sizes: &[u8]) -> Result<()> {
        let state = lock(self.state.lock());
        let mut message = [0_u8; 512];
        // SAFETY: the engine is this thread's while the lock is held; the rest is the caller's promise.
        let status = unsafe {
            (self.launch)(
                state.engine,
                kernel.0 as *const c_void,
                blocks as c_longlong,
                pointers,
                sizes.as_ptr(),
                sizes.len(),
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

impl Drop for Shared {
    fn drop(&mut self) {
        let state = lock(self.state.get_mut());
        // SAFETY: `create` made it, and nothing uses it any more.
        unsafe { (self.destroy)(state.engine) };
        for (address, layout) in state.memory.drain() {
            // SAFETY: allocated with this layout.
            unsafe { std::alloc::dealloc(address as *mut u8, layout) };
        }
    }
}

impl Runtime for Sim {
    fn description(&self) -> String {
        format!("simulated GPU, warps of {} lanes", self.shared.warp)
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let Ok(layout) = Layout::from_size_align(bytes.max(1), 256) else {
            return fail!(OutOfMemory, "{bytes} bytes are more than memory can hold");
        };
        // SAFETY: the layout is not empty.
        let pointer = unsafe { std::alloc::alloc(layout) };
        if pointer.is_null() {
            return fail!(OutOfMemory, "{bytes} bytes of simulated device memory could not be allocated");
        }
        // SAFETY: just allocated. NaN in every format: a kernel that reads what nothing wrote shows.
        unsafe { pointer.write_bytes(0xff, bytes) };
        lock(self.shared.state.lock()).memory.insert(pointer.addr() as u64, layout);
        Ok(pointer.expose_provenance() as u64)
    }

    fn free(&self, address: u64) {
        if let Some(layout) = lock(self.shared.state.lock()).memory.remove(&address) {
            // SAFETY: allocated with this layout, and removed from the table.
            unsafe { std::alloc::dealloc(address as *mut u8, layout) };
        }
    }

    fn clear(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: memory of this runtime, as the contract says.
        unsafe { (address as *mut u8).write_bytes(0, bytes) };
        Ok(())
    }

    fn copy_in(&self, from: &[u8], to: u64) -> Result<()> {
        // SAFETY: memory of this runtime, as the contract says.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        Ok(())
    }

    fn copy_out(&self, from: u64, to: &mut [u8]) -> Result<()> {
        // SAFETY: memory of this runtime, as the contract says.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn holds(&self, _: u64) -> bool {
        // Device memory is host memory, and used as such.
        false
    }

    fn follow_default_stream(&self) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: a text that ends.
        let entry = unsafe { (self.shared.find)(c_name.as_ptr()) };
        if entry.is_null() {
            return fail!(Unsupported, "there is no kernel {name}");
        }
        Ok(Kernel(entry.addr()))
    }

    unsafe fn launch(&self, kernel: Kernel, blocks: usize, arguments: &mut Arguments) -> Result<()> {
        let Arguments { pointers, sizes, count } = arguments;
        if let Some(captured) = &mut lock(self.shared.state.lock()).captured {
            let mut values = vec![0_u64; sizes[..*count].iter().map(|size| words(*size)).sum()];
            let mut start = 0;
            for (pointer, size) in pointers[..*count].iter().zip(sizes.iter()) {
                let to = &mut values[start..start + words(*size)];
                // SAFETY: each argument has its size, for which there is room.
                unsafe {
                    std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), to.as_mut_ptr().cast(), usize::from(*size));
                }
                start += words(*size);
            }
            captured.push(Launched { kernel, blocks, values, sizes: *sizes, count: *count });
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.shared.launch(kernel, blocks, pointers.as_mut_ptr(), &sizes[..*count]) }
    }

    #[cfg(terrace_cuda)]
    fn cuda_stream(&self) -> Option<usize> {
        None
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>> {
        lock(self.shared.state.lock()).captured = Some(Vec::new());
        let result = work();
        let launches = lock(self.shared.state.lock()).captured.take().unwrap_or_default();
        result?;
        Ok(Box::new(Captured { shared: Arc::clone(&self.shared), launches }))
    }
}

/// Launches to repeat.
struct Captured {
    shared: Arc<Shared>,
    launches: Vec<Launched>,
}

impl Graph for Captured {
    fn replay(&self) -> Result<()> {
        for launch in &self.launches {
            let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_ARGUMENTS];
            let mut start = 0;
            for (pointer, size) in pointers[..launch.count].iter_mut().zip(&launch.sizes) {
                *pointer = launch.values[start..].as_ptr().cast_mut().cast();
                start += words(*size);
            }
            let sizes = &launch.sizes[..launch.count];
            // SAFETY: the same launch as when it was captured, whose arrays live as long as the graph is used.
            unsafe { self.shared.launch(launch.kernel, launch.blocks, pointers.as_mut_ptr(), sizes) }?;
        }
        Ok(())
    }
}
