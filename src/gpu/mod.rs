//! The GPU backend. Vectors are in device memory, operators are kernels of `kernels/`, and all work is in order on one stream. CUDA, HIP and the
//! simulation on the CPU implement `runtime::Runtime`.
//!
//! Operations that return nothing store their failure. [`crate::backend::Backend::status`] and operations that can fail return it.

mod arnoldi;
mod bicgstab_step;
mod bsr;
mod budget;
mod cg_step;
mod checksum;
mod csr;
mod csr_balanced;
mod csr_export;
mod csr_import;
mod dense;
mod device;
mod distributed;
mod driver;
mod format;
mod graphs;
mod grid_transfer;
mod line_relaxation;
mod memory;
mod multicolour;
mod multivector;
mod product;
mod profile;
mod reentrant_lock;
mod rounded_sums;
mod runtime;
mod scan;
mod sell;
mod sell_chunks;
mod sell_layout;
mod sell_update;
pub(crate) mod setup;
mod signature;
mod sim;
mod staging;
mod stencil;
mod stencil_import;
mod stencil_of_rows;
mod stencil_sweep;
mod storage_factory;
mod to_scalar;
mod vector;

pub use arnoldi::DeviceArnoldiBasis;
pub use bicgstab_step::DeviceBicgstabStep;
pub use budget::Usage;
pub(crate) use cg_step::Conversion;
pub use cg_step::DeviceCgStep;
pub(crate) use csr_import::Indices;
pub(crate) use format::{Format, FormatQuery};
pub(crate) use graphs::Graphs;
pub use memory::{Buffer, Slice};
pub use product::Epilogue;
pub use profile::{Step, Times};
pub(crate) use staging::Staging;
pub(crate) use stencil::DeviceStencil;
pub use storage_factory::Narrower;
pub(crate) use to_scalar::to_scalar;

use crate::device_kind::DeviceKind;
use crate::error::{Error, Result, fail};
use crate::sync::lock;
use budget::Budget;
use driver::Vendor;
use profile::Profile;
use reentrant_lock::{Exclusive, ReentrantLock};
use runtime::{Argument, Arguments, Kernel, MAX_ARGUMENTS, Memory, Runtime};
use signature::Type;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Whether this build has kernels. Without them no GPU can be opened, and what is guarded by this is not compiled.
pub(crate) const IS_BUILT: bool = terrace_kernels::ANY;

/// A GPU with a stream, its own or the caller's. Clones share both. Threads may share one; its operations are serialised.
#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
    scratch: Arc<Scratch>,
    /// What it is one of several ranks for.
    ranks: Option<Arc<distributed::RanksFor>>,
}

struct Inner {
    runtime: Box<dyn Runtime>,
    /// Held by the thread that uses the runtime.
    lock: ReentrantLock,
    vectors: vector::Kernels,
    budget: Budget,
    /// The first failure of an operation that could not return it.
    error: Mutex<Option<Error>>,
    /// Whether work is launched on a stream of the caller.
    caller_stream: AtomicBool,
    /// Whether launches are being captured.
    capturing: AtomicBool,
    /// Number of synchronisations.
    waits: AtomicUsize,
    profile: Profile,
}

/// Device memory for reductions: partial sums, and the result. It is in use from one launch to the next, so each solver and hierarchy has its own, and
/// two threads may use two of them on one device.
struct Scratch {
    inner: Arc<Inner>,
    address: u64,
    /// Formats are chosen as for matrices with so many times the rows: more than 1 where a matrix is a sample.
    times: usize,
}

impl Scratch {
    fn new(inner: &Arc<Inner>, times: usize) -> Result<Arc<Scratch>> {
        let address = inner.lock.acquire(&*inner.runtime).allocate(vector::SCRATCH * size_of::<f64>())?;
        Ok(Arc::new(Scratch { inner: Arc::clone(inner), address, times }))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.inner.lock.acquire(&*self.inner.runtime).free(self.address);
    }
}

impl Gpu {
    /// The device of this kind and number.
    pub(crate) fn open(kind: DeviceKind, number: usize) -> Result<Gpu> {
        Gpu::with(match kind {
            DeviceKind::Host => return fail!(Device, "the host is not a GPU"),
            DeviceKind::Cuda => Box::new(device::Device::open(Vendor::Cuda, number)?),
            DeviceKind::Hip => Box::new(device::Device::open(Vendor::Hip, number)?),
            DeviceKind::Sim => Box::new(sim::Sim::open(number)?),
        })
    }

    fn with(runtime: Box<dyn Runtime>) -> Result<Gpu> {
        let profile = Profile::default();
        let vectors = vector::Kernels::new(|name| profile.find(name, || runtime.kernel(name)))?;
        let (budget, error, caller_stream) = (Budget::default(), Mutex::new(None), AtomicBool::new(false));
        let (capturing, waits) = (AtomicBool::new(false), AtomicUsize::new(0));
        let access = ReentrantLock::default();
        let inner =
            Arc::new(Inner { runtime, lock: access, vectors, budget, error, caller_stream, capturing, waits, profile });
        Ok(Gpu { scratch: Scratch::new(&inner, 1)?, inner, ranks: None })
    }

    /// The same device with scratch for reductions that no other handle has.
    pub(crate) fn with_own_scratch(&self) -> Result<Gpu> {
        Ok(Gpu { scratch: Scratch::new(&self.inner, self.times())?, ..self.clone() })
    }

    /// The same device for a sample: formats are chosen as for matrices with so many times the rows.
    pub(crate) fn for_sample(&self, times: usize) -> Result<Gpu> {
        Ok(Gpu { scratch: Scratch::new(&self.inner, times.max(1))?, ..self.clone() })
    }

    /// That number; 1 where matrices are no samples.
    fn times(&self) -> usize {
        self.scratch.times
    }

    /// Trims the pool, and returns the free bytes of the device; `None` where the driver does not know.
    pub fn free_memory(&self) -> Result<Option<usize>> {
        self.runtime().trim();
        self.runtime().free_memory()
    }

    /// Device memory that the context holds, without the scratch of reductions.
    pub fn memory(&self) -> Usage {
        self.inner.budget.usage()
    }

    /// Restarts the measurement of the peak.
    pub fn reset_peak(&self) {
        self.inner.budget.reset_peak();
    }

    /// Raises the peak to an earlier one, after a separate measurement.
    pub(crate) fn restore_peak(&self, peak: usize) {
        self.inner.budget.restore_peak(peak);
    }

    /// The limit of device memory in bytes; `None` for no limit.
    pub fn set_memory_limit(&self, limit: Option<usize>) {
        self.inner.budget.set_limit(limit);
    }

    /// Name of the device, for messages.
    pub fn description(&self) -> String {
        self.runtime().description()
    }

    /// Calls `work` with the handle of the stream, with the device current in this thread: for CUDA libraries.
    pub fn on_cuda(&self, work: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        self.runtime().on_cuda(work)
    }

    /// Waits for all work.
    pub fn synchronize(&self) -> Result<()> {
        self.failed()?;
        self.inner.waits.fetch_add(1, Ordering::Relaxed);
        self.runtime().synchronize()
    }

    /// Number of synchronisations.
    pub(crate) fn waits(&self) -> usize {
        self.inner.waits.load(Ordering::Relaxed)
    }

    /// Whether both are the same device, stream and memory.
    pub(crate) fn is_same(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Exclusive access to the runtime.
    fn runtime(&self) -> Exclusive<'_> {
        self.inner.lock.acquire(&*self.inner.runtime)
    }

    /// Stores the first failure of operations that return nothing.
    fn keep(&self, result: Result<()>) {
        if let Err(error) = result {
            lock(self.inner.error.lock()).get_or_insert(error);
        }
    }

    /// The stored failure. It stays, because a device does not recover from one.
    fn failed(&self) -> Result<()> {
        match &*lock(self.inner.error.lock()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Launches a kernel with at least this many threads.
    fn launch(&self, kernel: Kernel, threads: usize, arguments: &[&dyn Argument]) -> Result<()> {
        self.launch_blocks(kernel, threads.div_ceil(runtime::BLOCK), arguments)
    }

    /// A kernel by its name.
    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.inner.profile.find(name, || self.runtime().kernel(name))
    }

    /// Starts to time kernels: each launch is followed by a synchronisation. A graph is timed as one launch, unless graphs are `expanded` to their
    /// launches.
    pub fn start_profile(&self, expanded: bool) {
        self.inner.profile.start(expanded);
    }

    /// Ends the profile. Returns the times of the kernels, longest first.
    pub fn end_profile(&self) -> Vec<Times> {
        self.inner.profile.end()
    }

    /// Attributes the times from here on to this step.
    pub(crate) fn begin_step(&self, level: Option<usize>, name: &'static str) {
        self.inner.profile.step(level, name);
    }

    /// Launches a kernel with this many blocks; does nothing with 0.
    fn launch_blocks(&self, kernel: Kernel, blocks: usize, arguments: &[&dyn Argument]) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let mut all = Arguments {
            pointers: [std::ptr::null_mut(); MAX_ARGUMENTS],
            sizes: [0; MAX_ARGUMENTS],
            types: [Type::Array(None); MAX_ARGUMENTS],
            count: arguments.len(),
        };
        for (i, argument) in arguments.iter().enumerate() {
            (all.pointers[i], all.sizes[i]) = argument.parts();
            all.types[i] = argument.kind();
        }
        // SAFETY: callers mirror the declarations in `kernels/`, which `sim` compares in every launch; arrays are freed on the same stream.
        let mut run = || unsafe { self.runtime().launch(kernel, blocks, &mut all) };
        // A synchronisation would end the capture; the graph is timed when it is replayed.
        if self.inner.capturing.load(Ordering::Relaxed) {
            return run();
        }
        self.inner.profile.time(&*self.runtime(), kernel, arguments, &mut run)
    }

    /// Whether an array of the caller is in the memory of this device; an array on another device is an error. Every access to an array of the caller
    /// calls this first. It orders the work that follows after what the caller has launched.
    pub(crate) fn holds(&self, address: *const c_void, argument: &str) -> Result<bool> {
        match self.runtime().locate(address.addr() as u64) {
            Memory::Host => Ok(false),
            Memory::Here => self.begin_call().map(|()| true),
            Memory::Device(number) => fail!(
                InvalidArgument,
                "{argument} is in the memory of device {number}, and the context is on {}",
                self.description()
            ),
        }
    }

    /// Launches all further work on a stream of the caller, after earlier work. Null returns to the context's own stream.
    ///
    /// # Safety
    /// A stream of this device, which lives until another is set or everything of the context has ended.
    pub(crate) unsafe fn set_stream(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.runtime().use_stream(stream.addr()) }?;
        self.inner.caller_stream.store(!stream.is_null(), Ordering::Relaxed);
        Ok(())
    }

    /// Orders further work after what the caller has launched, on the caller's stream or else on the default stream. [`Gpu::holds`] does this for the
    /// arrays of a call; a matrix that borrows values does it when they are read.
    pub(crate) fn begin_call(&self) -> Result<()> {
        if self.inner.caller_stream.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.runtime().follow_default_stream()
    }

    /// Launches a write on the default stream of a simulated GPU. It is done when something waits for that stream, so a read that does not wait finds
    /// the old values.
    #[cfg(feature = "unit-tests")]
    pub(crate) fn write_on_default_stream<T: Copy + Send + Sync + 'static>(&self, from: Vec<T>, to: &Slice<T>) {
        assert_eq!(from.len(), to.len());
        let address = to.address();
        self.runtime().begin_on_default_stream(Box::new(move || {
            // SAFETY: device memory of the simulation is that of the host, and tests keep the array until the work is done.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), address as *mut T, from.len()) };
        }));
    }

    /// Before a callback of the caller: what was launched comes first, on the caller's stream by its order, otherwise because it is done.
    pub(crate) fn begin_callback(&self) -> Result<()> {
        if self.has_caller_stream() && self.runtime().is_stream_ordered() {
            return self.failed();
        }
        self.synchronize()
    }

    /// Whether work is launched on a stream of the caller.
    pub(crate) fn has_caller_stream(&self) -> bool {
        self.inner.caller_stream.load(Ordering::Relaxed)
    }

    /// Ends a call. With a caller's stream the result is ordered on that stream; otherwise it is complete when the call returns.
    pub(crate) fn end_call(&self) -> Result<()> {
        if self.has_caller_stream() {
            return self.failed();
        }
        self.synchronize()
    }
}

/// GPU support of this build, and the devices of this machine.
pub(crate) struct Facts {
    /// Device strings that a context accepts here.
    pub devices: Vec<String>,
    /// Compiler and architectures of the CUDA kernels, and the devices or why there are none.
    pub cuda: String,
    /// The same of the HIP kernels.
    pub hip: String,
    /// Whether there is a simulated GPU.
    pub sim: &'static str,
}

/// Looks for devices.
pub(crate) fn facts() -> Facts {
    let ((cuda, cudas), (hip, hips)) = (vendor_facts(Vendor::Cuda), vendor_facts(Vendor::Hip));
    let mut devices: Vec<String> = (0..cudas).map(|i| format!("cuda:{i}")).collect();
    devices.extend((0..hips).map(|i| format!("hip:{i}")));
    let sim = if terrace_kernels::SIM {
        devices.extend(["sim:0".to_string(), "sim:1".to_string()]);
        "built"
    } else {
        "not built: it is for tests, which build it with the feature \"sim\""
    };
    Facts { devices, cuda, hip, sim }
}

/// Compiler, architectures and devices of a vendor, for people, and how many devices there are.
fn vendor_facts(vendor: Vendor) -> (String, usize) {
    let Some(images) = vendor.images() else { return (format!("not built: there was no {}", vendor.compiler()), 0) };
    let built = format!("{}, {}", images.compiler, images.names);
    match device::devices(vendor) {
        Ok(names) => (format!("{built}; {}", names.join(", ")), names.len()),
        Err(error) => (format!("{built}; {}", error.message), 0),
    }
}

#[cfg(feature = "unit-tests")]
mod krylov_tests;
#[cfg(feature = "unit-tests")]
mod tests;
