//! The GPU backend: vectors are device memory, operators are kernels of `kernels/`, in the order of the calls on one stream at a time. What differs
//! between CUDA, HIP and the simulation on the CPU is behind `runtime::Runtime`.
//!
//! Operations that return nothing keep their failure; [`crate::backend::Backend::status`] and everything that can fail tell it.

mod arnoldi;
mod bicgstab_step;
mod bsr;
mod budget;
mod cg_step;
mod csr;
mod csr_balanced;
mod dense;
mod device;
mod driver;
mod format;
mod give;
mod given;
mod graphs;
mod layout;
mod memory;
mod multicolour;
mod place;
mod product;
mod profile;
mod refill;
mod rounded;
mod runtime;
mod scan;
pub(crate) mod setup;
mod signature;
mod sim;
mod slices;
mod staging;
mod turn;
mod vector;

pub use arnoldi::DeviceArnoldiBasis;
pub use bicgstab_step::DeviceBicgstabStep;
pub use budget::Usage;
pub(crate) use cg_step::Conversion;
pub use cg_step::DeviceCgStep;
pub(crate) use format::{Format, Wanted};
pub(crate) use given::Indices;
pub(crate) use graphs::Graphs;
pub(crate) use layout::to_scalar;
pub use memory::{Buffer, Slice};
pub use place::Narrower;
pub use product::Finish;
pub use profile::{Step, Times};
pub(crate) use staging::Staging;

use crate::device_kind::DeviceKind;
use crate::error::{Error, Result, fail};
use crate::sync::lock;
use budget::Budget;
use driver::Vendor;
use profile::Profile;
use runtime::{Argument, Arguments, Kernel, MAX_ARGUMENTS, Memory, Runtime};
use signature::Type;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use turn::{Exclusive, Turn};

/// A GPU with a stream, its own or the caller's. Clones share both. Several threads may use one: its operations are done one after the other.
#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
    scratch: Arc<Scratch>,
}

struct Inner {
    runtime: Box<dyn Runtime>,
    /// Who may use the runtime.
    turn: Turn,
    vectors: vector::Kernels,
    budget: Budget,
    /// The first failure of an operation that could not return it.
    error: Mutex<Option<Error>>,
    /// Whether work is on a stream of the caller's.
    lent_stream: AtomicBool,
    /// Whether launches become part of a graph.
    capturing: AtomicBool,
    /// How often the host has waited for the device.
    waits: AtomicUsize,
    profile: Profile,
}

/// Room for the parts of an inner product, and after them the whole. They stay there from one launch to the next, so each solver and hierarchy has
/// its own: two threads may work with two of them on one device.
struct Scratch {
    inner: Arc<Inner>,
    address: u64,
}

impl Scratch {
    fn new(inner: &Arc<Inner>) -> Result<Arc<Scratch>> {
        let address = inner.turn.take(&*inner.runtime).allocate(vector::ROOM * size_of::<f64>())?;
        Ok(Arc::new(Scratch { inner: Arc::clone(inner), address }))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.inner.turn.take(&*self.inner.runtime).free(self.address);
    }
}

impl Gpu {
    /// The device of this kind and number; for `sim` the number is the width of a warp.
    pub(crate) fn open(kind: DeviceKind, number: usize) -> Result<Gpu> {
        Gpu::with(match kind {
            DeviceKind::Host => return fail!(Device, "the host is not a GPU"),
            DeviceKind::Cuda => Box::new(device::Device::open(Vendor::Cuda, number)?),
            DeviceKind::Hip => Box::new(device::Device::open(Vendor::Hip, number)?),
            DeviceKind::Sim => Box::new(sim::Sim::new(number, false)?),
        })
    }

    /// The simulation with blocks, warps and lanes in the opposite order.
    #[cfg(test)]
    pub(crate) fn reversed_sim(warp: usize) -> Result<Gpu> {
        Gpu::with(Box::new(sim::Sim::new(warp, true)?))
    }

    fn with(runtime: Box<dyn Runtime>) -> Result<Gpu> {
        let profile = Profile::default();
        let vectors = vector::Kernels::new(|name| profile.find(name, || runtime.kernel(name)))?;
        let (budget, error, lent_stream) = (Budget::default(), Mutex::new(None), AtomicBool::new(false));
        let (capturing, waits) = (AtomicBool::new(false), AtomicUsize::new(0));
        let turn = Turn::default();
        let inner = Arc::new(Inner { runtime, turn, vectors, budget, error, lent_stream, capturing, waits, profile });
        Ok(Gpu { scratch: Scratch::new(&inner)?, inner })
    }

    /// The same device with scratch for reductions that no other handle has.
    pub(crate) fn with_own_scratch(&self) -> Result<Gpu> {
        Ok(Gpu { scratch: Scratch::new(&self.inner)?, inner: Arc::clone(&self.inner) })
    }

    /// Bytes of the device that nobody uses, when what the context does not use is given back; none where that is not known.
    pub fn free_memory(&self) -> Result<Option<usize>> {
        self.runtime().trim();
        self.runtime().free_memory()
    }

    /// Device memory that the context holds; a few bytes of its own do not count.
    pub fn memory(&self) -> Usage {
        self.inner.budget.usage()
    }

    /// Counts the most that is in use from here on.
    pub fn forget_peak(&self) {
        self.inner.budget.forget_peak();
    }

    /// Counts an earlier peak again, after one that was told apart.
    pub(crate) fn recall_peak(&self, peak: usize) {
        self.inner.budget.recall_peak(peak);
    }

    /// Bytes of device memory that the context may hold; `None` is what the device has.
    pub fn set_memory_limit(&self, limit: Option<usize>) {
        self.inner.budget.set_limit(limit);
    }

    /// The device, for people.
    pub fn description(&self) -> String {
        self.runtime().description()
    }

    /// Lets a library of CUDA work on the device, which is that of this thread meanwhile, and on the stream that is handed over.
    pub fn on_cuda(&self, work: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        self.runtime().on_cuda(work)
    }

    /// Waits for all work.
    pub fn synchronize(&self) -> Result<()> {
        self.failed()?;
        self.inner.waits.fetch_add(1, Ordering::Relaxed);
        self.runtime().synchronize()
    }

    /// How often the host has waited for the device.
    pub(crate) fn waits(&self) -> usize {
        self.inner.waits.load(Ordering::Relaxed)
    }

    /// Whether both are the same device, stream and memory.
    pub(crate) fn is_same(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// What works on the device, while no other thread does.
    fn runtime(&self) -> Exclusive<'_> {
        self.inner.turn.take(&*self.inner.runtime)
    }

    /// Keeps the first failure for who can return it.
    fn keep(&self, result: Result<()>) {
        if let Err(error) = result {
            lock(self.inner.error.lock()).get_or_insert(error);
        }
    }

    /// The failure of an earlier operation. A device does not recover from one, so it stays.
    fn failed(&self) -> Result<()> {
        match &*lock(self.inner.error.lock()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Runs a kernel with one thread for each of `threads` units of work. The arguments are those of the kernel of this name in `kernels/`.
    fn launch(&self, kernel: Kernel, threads: usize, arguments: &[&dyn Argument]) -> Result<()> {
        self.launch_blocks(kernel, threads.div_ceil(runtime::BLOCK), arguments)
    }

    /// A kernel by its name.
    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.inner.profile.find(name, || self.runtime().kernel(name))
    }

    /// From here on each launch waits for its end, and its time is added to those of its kernel. Graphs are not looked into, unless they are to
    /// be taken `apart`: then what they are made of is launched in place of them.
    pub fn start_profile(&self, apart: bool) {
        self.inner.profile.start(apart);
    }

    /// Ends that; tells what each kernel took, the most first.
    pub fn end_profile(&self) -> Vec<Times> {
        self.inner.profile.end()
    }

    /// Times belong to this step from here on.
    pub(crate) fn begin_step(&self, level: Option<usize>, name: &'static str) {
        self.inner.profile.step(level, name);
    }

    /// Runs a kernel with so many blocks of threads, or not at all without any.
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
        // A capture ends with a wait: its launches are timed when the graph runs, as one.
        if self.inner.capturing.load(Ordering::Relaxed) {
            return run();
        }
        self.inner.profile.time(&*self.runtime(), kernel, arguments, &mut run)
    }

    /// Whether an array of the caller's is in the memory of this device; that of another one is refused. Whoever reads or writes an array of the
    /// caller's asks this first, so what the caller has begun there comes before what is launched from here on.
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

    /// Puts all work that follows on a stream of the caller's, after the work before it; null goes back to a stream of its own.
    ///
    /// # Safety
    /// A stream of this device, which lives until another is set or everything of the context has ended.
    pub(crate) unsafe fn set_stream(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.runtime().use_stream(stream.addr()) }?;
        self.inner.lent_stream.store(!stream.is_null(), Ordering::Relaxed);
        Ok(())
    }

    /// Before work on device memory of the caller's: it comes after what the caller has begun, on the caller's stream or else on the default
    /// stream. [`Gpu::holds`] does this for arrays of a call, and a matrix that borrows values when they are read.
    pub(crate) fn begin_call(&self) -> Result<()> {
        if self.inner.lent_stream.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.runtime().follow_default_stream()
    }

    /// Puts a write of a caller's on the default stream of a simulated GPU, where it is done when something waits for that stream: what reads the
    /// array without waiting finds what was there before.
    #[cfg(test)]
    pub(crate) fn write_on_default_stream<T: Copy + Send + Sync + 'static>(&self, from: Vec<T>, to: &Slice<T>) {
        assert_eq!(from.len(), to.len());
        let address = to.address();
        self.runtime().begin_on_default_stream(Box::new(move || {
            // SAFETY: device memory of the simulation is that of the host, and tests keep the array until the work is done.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), address as *mut T, from.len()) };
        }));
    }

    /// Whether work is on a stream of the caller's, who need not wait for it.
    pub(crate) fn has_lent_stream(&self) -> bool {
        self.inner.lent_stream.load(Ordering::Relaxed)
    }

    /// After it: a caller with a stream finds the result there in its order; others find it when the call returns.
    pub(crate) fn end_call(&self) -> Result<()> {
        if self.has_lent_stream() {
            return self.failed();
        }
        self.synchronize()
    }
}

/// What this build can do with GPUs, and what the machine has.
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
        devices.extend(["sim:32".to_string(), "sim:64".to_string()]);
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

#[cfg(test)]
mod krylov_tests;
#[cfg(test)]
mod tests;
