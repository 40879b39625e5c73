//! NVIDIA GPUs through the driver's own interface, loaded at run time. A missing driver, device or symbol is a status; errors of the driver
//! are told in its own words.

use super::runtime::{Arguments, BLOCK, Graph, Kernel, Runtime};
use crate::context::lock;
use crate::error::{Error, Result, Status, fail};
use cudarc::driver::sys;
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::{Arc, Mutex};

/// The kernels, for the architectures that the build names.
#[repr(align(16))]
struct Image<const N: usize>([u8; N]);
static IMAGE: Image<{ include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")).len() }> =
    Image(*include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")));

/// Everything of the driver that is called here. cudarc panics at a symbol that a driver lacks, so they are looked up before.
const SYMBOLS: &[&str] = &[
    "cuInit",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventDestroy_v2",
    "cuPointerGetAttribute",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD8Async",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuLaunchKernel",
];

/// Bytes of pinned memory, through which short results go.
const PINNED: usize = 256;

/// A result of the driver as one of this crate.
fn check(result: sys::CUresult, what: &str) -> Result<()> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |get: unsafe fn(sys::CUresult, *mut *const std::ffi::c_char) -> sys::CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver points to a text of its own.
        match unsafe { get(result, &mut text) } {
            // SAFETY: as above.
            sys::CUresult::CUDA_SUCCESS => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            _ => format!("error {}", result as u32),
        }
    };
    let status = match result {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Status::OutOfMemory,
        _ => Status::Device,
    };
    let (name, sentence) = (text(sys::cuGetErrorName), text(sys::cuGetErrorString));
    Err(Error::new(status, format!("CUDA, {what}: {sentence} ({name})")))
}

/// Loads and starts the driver.
fn start() -> Result<()> {
    // SAFETY: loads the driver's library, whose initialisers are its own affair.
    if !unsafe { sys::is_culib_present() } {
        return fail!(Device, "no CUDA driver: libcuda could not be loaded");
    }
    // SAFETY: the library was just found.
    let library = unsafe { sys::culib() };
    for symbol in SYMBOLS {
        // SAFETY: only looked up, not called.
        if unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_err() {
            return fail!(Device, "the CUDA driver is too old: it has no {symbol}");
        }
    }
    // SAFETY: any thread may do this at any time.
    check(unsafe { sys::cuInit(0) }, "start")
}

/// Names of the devices.
pub(super) fn devices() -> Result<Vec<String>> {
    start()?;
    let mut count: c_int = 0;
    // SAFETY: writes one number.
    check(unsafe { sys::cuDeviceGetCount(&mut count) }, "count of devices")?;
    (0..count).map(|number| device(number).map(|(_, name)| name)).collect()
}

fn device(number: c_int) -> Result<(sys::CUdevice, String)> {
    let mut device = 0;
    let mut name = [0_u8; 256];
    // SAFETY: each writes what its arguments have room for.
    unsafe {
        check(sys::cuDeviceGet(&mut device, number), "device")?;
        check(sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, device), "name of a device")?;
    }
    let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy).unwrap_or_default();
    Ok((device, name.into_owned()))
}

/// A device with the primary context that it shares with the rest of the program, and a stream.
pub(super) struct Cuda {
    shared: Arc<Shared>,
    module: sys::CUmodule,
    /// What the caller had begun when a call came.
    caller: sys::CUevent,
    name: String,
    /// Pinned memory; one result at a time goes through it.
    pinned: Mutex<Pinned>,
}

struct Pinned(*mut c_void);

/// What captured graphs need, too.
struct Shared {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
}

// SAFETY: handles of the driver, which any thread may use.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Cuda {}
// SAFETY: as above; the pinned memory is behind a lock.
unsafe impl Sync for Cuda {}
// SAFETY: memory that any thread may use, behind a lock.
unsafe impl Send for Pinned {}

impl Shared {
    /// Makes the context that of this thread.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as this.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "context")
    }

    fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives as long as this.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "wait")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // An error of the driver has nowhere to go; it was told when it occurred.
        if self.enter().is_ok() {
            // SAFETY: nothing uses them any more.
            unsafe {
                let _ = sys::cuStreamDestroy_v2(self.stream);
            }
        }
        // SAFETY: retained once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

impl Cuda {
    /// Device `number` of the driver.
    pub fn open(number: usize) -> Result<Cuda> {
        let count = devices()?.len();
        if number >= count {
            return fail!(Device, "there is no device cuda:{number}; this machine has {count}");
        }
        let (device, name) = device(number as c_int)?;
        let mut context = std::ptr::null_mut();
        // SAFETY: retained here, released when `Shared` ends.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) }, "context")?;
        let mut shared = Shared { device, context, stream: std::ptr::null_mut() };
        shared.enter()?;
        // Not ordered with the default stream: what a caller does there must not end a capture.
        let kind = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is that of this thread.
        check(unsafe { sys::cuStreamCreate(&mut shared.stream, kind) }, "stream")?;
        let untimed = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let mut caller = std::ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { sys::cuEventCreate(&mut caller, untimed) }, "event")?;
        let mut pinned = std::ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { sys::cuMemHostAlloc(&mut pinned, PINNED, 0) }, "pinned memory")?;
        let mut cuda = Cuda {
            shared: Arc::new(shared),
            module: std::ptr::null_mut(),
            caller,
            name,
            pinned: Mutex::new(Pinned(pinned)),
        };
        // SAFETY: an image that nvcc made, aligned as it must be.
        let loaded = unsafe { sys::cuModuleLoadData(&mut cuda.module, IMAGE.0.as_ptr().cast()) };
        check(loaded, &format!("kernels for {}", cuda.name))?;
        Ok(cuda)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.shared.enter().is_ok() {
            let _ = self.shared.synchronize();
            // SAFETY: made by `open`, and no work uses them any more.
            unsafe {
                let _ = sys::cuMemFreeHost(lock(self.pinned.get_mut()).0);
                let _ = sys::cuEventDestroy_v2(self.caller);
                if !self.module.is_null() {
                    let _ = sys::cuModuleUnload(self.module);
                }
            }
        }
    }
}

impl Runtime for Cuda {
    fn description(&self) -> String {
        self.name.clone()
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.shared.enter()?;
        let mut address = 0;
        // SAFETY: the stream is alive.
        let result = unsafe { sys::cuMemAllocAsync(&mut address, bytes, self.shared.stream) };
        check(result, &format!("{bytes} bytes of memory"))?;
        Ok(address)
    }

    fn free(&self, address: u64) {
        if self.shared.enter().is_ok() {
            // SAFETY: allocated on the same stream, so that work which uses it comes first.
            let _ = unsafe { sys::cuMemFreeAsync(address, self.shared.stream) };
        }
    }

    fn clear(&self, address: u64, bytes: usize) -> Result<()> {
        self.shared.enter()?;
        // SAFETY: memory of this runtime, as the contract says.
        check(unsafe { sys::cuMemsetD8Async(address, 0, bytes, self.shared.stream) }, "zeros")
    }

    fn copy_in(&self, from: &[u8], to: u64) -> Result<()> {
        self.shared.enter()?;
        // SAFETY: memory of this runtime, as the contract says; `from` lives until the wait is over.
        let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), self.shared.stream) };
        check(result, "copy to the device")?;
        self.shared.synchronize()
    }

    fn copy_out(&self, from: u64, to: &mut [u8]) -> Result<()> {
        self.shared.enter()?;
        if to.len() > PINNED {
            // SAFETY: memory of this runtime, as the contract says; `to` lives until the wait is over.
            let result =
                unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, to.len(), self.shared.stream) };
            check(result, "copy to the host")?;
            return self.shared.synchronize();
        }
        let pinned = lock(self.pinned.lock());
        // SAFETY: at most as long as the pinned memory.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(pinned.0, from, to.len(), self.shared.stream) }, "copy to the host")?;
        self.shared.synchronize()?;
        // SAFETY: the copy is done, and nobody else has the lock.
        to.copy_from_slice(unsafe { std::slice::from_raw_parts(pinned.0.cast(), to.len()) });
        Ok(())
    }

    fn holds(&self, address: u64) -> bool {
        let mut kind: u32 = 0;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: writes one number; the address is only looked up.
        let found = self.shared.enter().is_ok()
            && unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), attribute, address) }
                == sys::CUresult::CUDA_SUCCESS;
        found && kind == sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32
    }

    fn follow_default_stream(&self) -> Result<()> {
        self.shared.enter()?;
        // SAFETY: event and streams are alive; the legacy default stream has this number.
        unsafe {
            check(sys::cuEventRecord(self.caller, 1 as sys::CUstream), "event")?;
            check(sys::cuStreamWaitEvent(self.shared.stream, self.caller, 0), "event")
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.shared.enter()?;
        self.shared.synchronize()
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.shared.enter()?;
        let c_name = CString::new(name).unwrap_or_default();
        let mut function = std::ptr::null_mut();
        // SAFETY: a text that ends, and a module that is loaded.
        match unsafe { sys::cuModuleGetFunction(&mut function, self.module, c_name.as_ptr()) } {
            sys::CUresult::CUDA_ERROR_NOT_FOUND => fail!(Unsupported, "there is no kernel {name}"),
            result => check(result, name).map(|()| Kernel(function.addr())),
        }
    }

    unsafe fn launch(&self, kernel: Kernel, blocks: usize, arguments: &mut Arguments) -> Result<()> {
        let Ok(blocks) = u32::try_from(blocks) else {
            return fail!(Unsupported, "{blocks} blocks are more than a launch can have");
        };
        self.shared.enter()?;
        // SAFETY: the caller's promise; the arguments are copied before the call returns.
        let result = unsafe {
            sys::cuLaunchKernel(
                kernel.0 as sys::CUfunction,
                blocks,
                1,
                1,
                BLOCK as u32,
                1,
                1,
                0,
                self.shared.stream,
                arguments.pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check(result, "launch")
    }

    fn cuda_stream(&self) -> Option<usize> {
        Some(self.shared.stream.addr())
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>> {
        self.shared.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        check(unsafe { sys::cuStreamBeginCapture_v2(self.shared.stream, mode) }, "capture")?;
        let worked = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: ends what was begun above, whatever happened in between.
        let ended = check(unsafe { sys::cuStreamEndCapture(self.shared.stream, &mut graph) }, "capture");
        worked?;
        ended?;
        let mut instance = std::ptr::null_mut();
        // SAFETY: the graph was just captured, and is not needed once there is an instance.
        let made = unsafe {
            let made = sys::cuGraphInstantiateWithFlags(&mut instance, graph, 0);
            let _ = sys::cuGraphDestroy(graph);
            made
        };
        check(made, "graph")?;
        Ok(Box::new(Captured { shared: Arc::clone(&self.shared), instance }))
    }
}

/// A graph that is ready to run.
struct Captured {
    shared: Arc<Shared>,
    instance: sys::CUgraphExec,
}

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Captured {}
// SAFETY: as above.
unsafe impl Sync for Captured {}

impl Graph for Captured {
    fn replay(&self) -> Result<()> {
        self.shared.enter()?;
        // SAFETY: instance and stream are alive.
        check(unsafe { sys::cuGraphLaunch(self.instance, self.shared.stream) }, "graph")
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if self.shared.enter().is_ok() {
            // SAFETY: made by `capture`; the driver waits for launches that are under way.
            let _ = unsafe { sys::cuGraphExecDestroy(self.instance) };
        }
    }
}
