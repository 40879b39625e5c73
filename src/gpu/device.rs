//! A GPU behind its vendor's driver: memory from a pool of its own, a stream, and graphs.

use super::driver::{Driver, Entered, Handle, NOT_FOUND, PoolProperties, SUCCESS, Vendor};
use super::runtime::{Arguments, BLOCK, Graph, Kernel, Memory, Runtime};
use crate::error::{Error, Result, fail};
use crate::sync::lock;
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use terrace_kernels::Images;

/// Bytes of the pinned buffer for small copies to the host.
const PINNED: usize = 8192;

/// Flag of non-blocking streams: work of the caller on the default stream would end a capture on a blocking one.
const NON_BLOCKING: u32 = 1;

/// Flag of events without timing.
const UNTIMED: u32 = 2;

/// Mode of a capture that other threads do not affect.
const THREAD_LOCAL: c_int = 1;

/// Attributes of a pointer: kind of memory, and number of the device.
const MEMORY_TYPE: c_int = 2;
const DEVICE_ORDINAL: c_int = 9;

/// Attribute of a pool: free bytes that it retains.
const RELEASE_THRESHOLD: c_int = 4;

/// A device with its stream, pool and kernels.
pub(super) struct Device {
    shared: Arc<Shared>,
    name: String,
    /// The pinned buffer, for one copy at a time.
    pinned: Mutex<Handle>,
}

/// The part that captured graphs share.
struct Shared {
    driver: Arc<Driver>,
    device: c_int,
    /// As [`Driver::retain`] gave it.
    current: usize,
    own_stream: Handle,
    /// The current stream: its own, or one of the caller.
    stream: AtomicUsize,
    /// Orders one stream after another.
    event: Handle,
    pool: Handle,
    /// One for each kernel file.
    modules: Vec<Handle>,
}

// SAFETY: handles of the driver, which any thread may use.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Device {}
// SAFETY: as above; the pinned memory is behind a lock.
unsafe impl Sync for Device {}

impl Shared {
    fn enter(&self) -> Result<Entered<'_>> {
        self.driver.enter(self.current)
    }

    fn stream(&self) -> Handle {
        self.stream.load(Ordering::Relaxed) as Handle
    }

    fn check(&self, result: c_int, what: &str) -> Result<()> {
        self.driver.check(result, what)
    }

    fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        self.check(unsafe { (self.driver.functions.stream_synchronize)(self.stream()) }, "wait")
    }

    /// Makes `later` wait for the current work of `earlier`.
    fn order(&self, earlier: Handle, later: Handle) -> Result<()> {
        // SAFETY: event and streams are alive.
        unsafe {
            self.check((self.driver.functions.event_record)(self.event, earlier), "event")?;
            self.check((self.driver.functions.stream_wait_event)(later, self.event, 0), "event")
        }
    }

    /// The part of `open` with the device current. After a failure `drop` releases what was made.
    fn prepare(&mut self, number: usize, images: &Images, name: &str) -> Result<()> {
        let functions = &self.driver.functions;
        let properties = PoolProperties {
            allocation_type: 1,
            handle_types: 0,
            location_type: 1,
            location_id: number as c_int,
            security_attributes: null_mut(),
            max_size: 0,
            reserved: [0; 56],
        };
        let mut all = u64::MAX;
        // SAFETY: each writes a handle.
        unsafe {
            self.driver.check((functions.stream_create)(&mut self.own_stream, NON_BLOCKING), "stream")?;
            *self.stream.get_mut() = self.own_stream.addr();
            self.driver.check((functions.event_create)(&mut self.event, UNTIMED), "event")?;
            self.driver.check((functions.pool_create)(&mut self.pool, &properties), "memory pool")?;
            let kept = (functions.pool_set_attribute)(self.pool, RELEASE_THRESHOLD, (&raw mut all).cast());
            self.driver.check(kept, "memory pool")?;
        }
        // The driver loads images of the architecture of its device alone, so the first image of another fails.
        let mut result = NOT_FOUND;
        for architecture in images.architectures {
            for image in architecture.units {
                let mut module = null_mut();
                // SAFETY: writes a handle; what the vendor's compiler made, aligned as it must be.
                result = unsafe { (functions.module_load)(&mut module, image.0.as_ptr().cast()) };
                if result != SUCCESS {
                    break;
                }
                self.modules.push(module);
            }
            if result == SUCCESS || !self.modules.is_empty() {
                break;
            }
        }
        self.driver.check(result, &format!("kernels for {name}"))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Errors cannot be returned from here.
        if let Ok(_entered) = self.driver.enter(self.current) {
            let functions = &self.driver.functions;
            let end = |handle: Handle, end: unsafe extern "C" fn(Handle) -> c_int| {
                if !handle.is_null() {
                    // SAFETY: made by `prepare`, and nothing uses it any more.
                    let _ = unsafe { end(handle) };
                }
            };
            self.modules.iter().for_each(|module| end(*module, functions.module_unload));
            end(self.event, functions.event_destroy);
            end(self.pool, functions.pool_destroy);
            end(self.own_stream, functions.stream_destroy);
        }
        self.driver.release(self.device);
    }
}

impl Device {
    /// Device `number` of a driver, with the kernels that it accepts.
    pub fn open(vendor: Vendor, number: usize) -> Result<Device> {
        let Some(images) = vendor.images() else {
            let compiler = vendor.compiler();
            return fail!(
                Device,
                "this build has no kernels for {}: {compiler} was not found when it was built",
                vendor.name()
            );
        };
        let driver = Arc::new(Driver::load(vendor)?);
        let count = driver.devices()?.len();
        if number >= count {
            return fail!(Device, "there is no {} device {number}; this machine has {count}", vendor.name());
        }
        let (device, name) = driver.device(number as c_int)?;
        let current = driver.retain(device)?;
        let mut shared = Shared {
            driver: Arc::clone(&driver),
            device,
            current,
            own_stream: null_mut(),
            stream: AtomicUsize::new(0),
            event: null_mut(),
            pool: null_mut(),
            modules: Vec::new(),
        };
        let _entered = driver.enter(current)?;
        shared.prepare(number, images, &name)?;
        let mut pinned = null_mut();
        // SAFETY: writes a pointer.
        let allocated = unsafe { (driver.functions.pinned_allocate)(&mut pinned, PINNED, 0) };
        driver.check(allocated, "pinned memory")?;
        Ok(Device { shared: Arc::new(shared), name, pinned: Mutex::new(pinned) })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Ok(_entered) = self.shared.enter() {
            let _ = self.shared.synchronize();
            // SAFETY: allocated by `open`, and no copy uses it any more.
            let _ = unsafe { (self.shared.driver.functions.pinned_free)(*lock(self.pinned.get_mut())) };
        }
    }
}

impl Runtime for Device {
    fn description(&self) -> String {
        self.name.clone()
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let _entered = self.shared.enter()?;
        let mut address = 0;
        // SAFETY: pool and stream are alive.
        let result = unsafe {
            (self.shared.driver.functions.allocate)(&mut address, bytes, self.shared.pool, self.shared.stream())
        };
        self.shared.check(result, &format!("{bytes} bytes of memory"))?;
        Ok(address)
    }

    fn free(&self, address: u64) {
        if let Ok(_entered) = self.shared.enter() {
            // SAFETY: work that uses it is on the same stream, or was ordered before it when the stream changed.
            let _ = unsafe { (self.shared.driver.functions.free)(address, self.shared.stream()) };
        }
    }

    fn trim(&self) {
        if let Ok(_entered) = self.shared.enter() {
            // Memory is trimmed only after its last use.
            let _ = self.shared.synchronize();
            // SAFETY: the pool is alive.
            let _ = unsafe { (self.shared.driver.functions.pool_trim)(self.shared.pool, 0) };
        }
    }

    fn free_memory(&self) -> Result<Option<usize>> {
        let _entered = self.shared.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both numbers are written.
        let result = unsafe { (self.shared.driver.functions.memory_info)(&mut free, &mut total) };
        self.shared.check(result, "look at memory")?;
        Ok(Some(free))
    }

    fn clear(&self, address: u64, bytes: usize) -> Result<()> {
        let _entered = self.shared.enter()?;
        // SAFETY: memory of this runtime, as the contract says.
        let result = unsafe { (self.shared.driver.functions.clear)(address, 0, bytes, self.shared.stream()) };
        self.shared.check(result, "zeros")
    }

    fn copy_in(&self, from: &[u8], to: u64) -> Result<()> {
        let _entered = self.shared.enter()?;
        // SAFETY: memory of this runtime, as the contract says; `from` lives until the wait is over.
        let result = unsafe {
            (self.shared.driver.functions.copy_in)(to, from.as_ptr().cast(), from.len(), self.shared.stream())
        };
        self.shared.check(result, "copy to the device")?;
        self.shared.synchronize()
    }

    fn copy_out(&self, from: u64, to: &mut [u8]) -> Result<()> {
        let _entered = self.shared.enter()?;
        let copy = |to: *mut c_void, bytes: usize| -> Result<()> {
            // SAFETY: memory of this runtime, as the contract says; `to` has room, and lives until the wait is over.
            let result = unsafe { (self.shared.driver.functions.copy_out)(to, from, bytes, self.shared.stream()) };
            self.shared.check(result, "copy to the host")?;
            self.shared.synchronize()
        };
        if to.len() > PINNED {
            return copy(to.as_mut_ptr().cast(), to.len());
        }
        let pinned = lock(self.pinned.lock());
        copy(*pinned, to.len())?;
        // SAFETY: the copy is done, and nobody else has the lock.
        to.copy_from_slice(unsafe { std::slice::from_raw_parts(pinned.cast(), to.len()) });
        Ok(())
    }

    fn locate(&self, address: u64) -> Memory {
        let Ok(_entered) = self.shared.enter() else { return Memory::Host };
        let attribute = |which: c_int| -> Option<c_int> {
            let mut value: c_int = 0;
            let get = self.shared.driver.functions.pointer_attribute;
            // SAFETY: writes one number; the address is only looked up.
            (unsafe { get((&raw mut value).cast(), which, address) } == SUCCESS).then_some(value)
        };
        // The driver knows nothing of ordinary memory of the host.
        if attribute(MEMORY_TYPE) != Some(self.shared.driver.device_memory()) {
            return Memory::Host;
        }
        match attribute(DEVICE_ORDINAL) {
            Some(number) if number != self.shared.device => Memory::Device(number as usize),
            _ => Memory::Here,
        }
    }

    fn follow_default_stream(&self) -> Result<()> {
        let _entered = self.shared.enter()?;
        self.shared.order(null_mut(), self.shared.stream())
    }

    unsafe fn use_stream(&self, stream: usize) -> Result<()> {
        let _entered = self.shared.enter()?;
        let wanted = if stream == 0 { self.shared.own_stream } else { stream as Handle };
        if wanted != self.shared.stream() {
            self.shared.order(self.shared.stream(), wanted)?;
            self.shared.stream.store(wanted.addr(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        let _entered = self.shared.enter()?;
        self.shared.synchronize()
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        let _entered = self.shared.enter()?;
        let module = terrace_kernels::find(name).and_then(|kernel| self.shared.modules.get(usize::from(kernel.unit)));
        let Some(module) = module else { return fail!(Unsupported, "there is no kernel {name}") };
        let c_name = CString::new(name).unwrap_or_default();
        let mut function = null_mut();
        let get = self.shared.driver.functions.module_function;
        // SAFETY: a text that ends, and a module that is loaded.
        match unsafe { get(&mut function, *module, c_name.as_ptr()) } {
            NOT_FOUND => fail!(Unsupported, "there is no kernel {name}"),
            result => self.shared.check(result, name).map(|()| Kernel(function.addr())),
        }
    }

    unsafe fn launch(&self, kernel: Kernel, blocks: usize, arguments: &mut Arguments) -> Result<()> {
        let Ok(blocks) = u32::try_from(blocks) else {
            return fail!(Unsupported, "{blocks} blocks are more than a launch can have");
        };
        let _entered = self.shared.enter()?;
        let (function, stream) = (kernel.0 as Handle, self.shared.stream());
        let values = arguments.pointers.as_mut_ptr();
        let launch = self.shared.driver.functions.launch;
        // SAFETY: the caller's promise; the arguments are copied before the call returns.
        let result = unsafe { launch(function, blocks, 1, 1, BLOCK as u32, 1, 1, 0, stream, values, null_mut()) };
        self.shared.check(result, "launch")
    }

    fn on_cuda(&self, work: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        if self.shared.driver.vendor != Vendor::Cuda {
            return fail!(Unsupported, "this needs a CUDA device, not {}", self.name);
        }
        let _entered = self.shared.enter()?;
        work(self.shared.stream().addr())
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>> {
        let _entered = self.shared.enter()?;
        let capturing = Capturing::begin(&self.shared)?;
        let worked = work();
        let (ended, graph) = capturing.end();
        let functions = &self.shared.driver.functions;
        let mut instance = null_mut();
        let made = worked.and(ended).and_then(|()| {
            // SAFETY: the graph was just captured.
            self.shared.check(unsafe { (functions.graph_instantiate)(&mut instance, graph, 0) }, "graph")
        });
        if !graph.is_null() {
            // SAFETY: not needed once there is an instance.
            let _ = unsafe { (functions.graph_destroy)(graph) };
        }
        made?;
        Ok(Box::new(Captured { shared: Arc::clone(&self.shared), instance }))
    }
}

/// A running capture. A panic discards it.
struct Capturing<'a> {
    shared: &'a Shared,
    /// The stream of the work around the capture.
    before: usize,
}

impl<'a> Capturing<'a> {
    /// Captures on the runtime's own stream, because not every stream of a caller can be captured. No work runs there,
    /// so the order holds.
    fn begin(shared: &'a Shared) -> Result<Capturing<'a>> {
        let own = shared.own_stream;
        // SAFETY: the stream is alive.
        shared.check(unsafe { (shared.driver.functions.begin_capture)(own, THREAD_LOCAL) }, "capture")?;
        Ok(Capturing { shared, before: shared.stream.swap(own.addr(), Ordering::Relaxed) })
    }

    /// The graph; null where the driver rejected an operation.
    fn end(self) -> (Result<()>, Handle) {
        let ended = self.stop();
        std::mem::forget(self);
        ended
    }

    fn stop(&self) -> (Result<()>, Handle) {
        self.shared.stream.store(self.before, Ordering::Relaxed);
        let mut graph = null_mut();
        let end = self.shared.driver.functions.end_capture;
        // SAFETY: ends what `begin` began, whatever happened in between.
        let ended = self.shared.check(unsafe { end(self.shared.own_stream, &mut graph) }, "capture");
        (ended, graph)
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        let (_, graph) = self.stop();
        if !graph.is_null() {
            // SAFETY: nobody else has it.
            let _ = unsafe { (self.shared.driver.functions.graph_destroy)(graph) };
        }
    }
}

/// An instantiated graph.
struct Captured {
    shared: Arc<Shared>,
    instance: Handle,
}

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Captured {}
// SAFETY: as above.
unsafe impl Sync for Captured {}

impl Graph for Captured {
    fn replay(&self) -> Result<()> {
        let _entered = self.shared.enter()?;
        let launch = self.shared.driver.functions.graph_launch;
        // SAFETY: instance and stream are alive.
        self.shared.check(unsafe { launch(self.instance, self.shared.stream()) }, "graph")
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if let Ok(_entered) = self.shared.enter() {
            // SAFETY: made by `capture`; the driver waits for launches that are under way.
            let _ = unsafe { (self.shared.driver.functions.graph_instance_destroy)(self.instance) };
        }
    }
}

/// Names of a vendor's devices on this machine.
pub(super) fn devices(vendor: Vendor) -> std::result::Result<Vec<String>, Error> {
    Driver::load(vendor)?.devices()
}
