//! The GPU backend: vectors are device memory, operators are kernels of `kernels/`, in the order of the calls on one stream. What differs
//! between CUDA and the simulation on the CPU is behind `runtime::Runtime`.
//!
//! Operations that return nothing keep their failure; [`crate::backend::Backend::status`] and everything that can fail tell it.

mod csr;
#[cfg(terrace_cuda)]
mod cuda;
#[cfg(terrace_cuda)]
pub mod cusparse;
mod dense;
mod format;
mod fused;
mod graphs;
mod memory;
mod multicolour;
mod place;
mod product;
mod rounded;
mod runtime;
#[cfg(terrace_sim)]
mod sim;
mod slices;
mod staging;
mod vector;

pub(crate) use graphs::Graphs;
pub use memory::{Buffer, Slice};
pub use product::Finish;
pub(crate) use staging::Staging;

use crate::context::{DeviceKind, lock};
use crate::error::{Error, Result, fail};
use runtime::{Argument, Arguments, Kernel, MAX_ARGUMENTS, Runtime};
use std::sync::{Arc, Mutex};

/// A GPU with a stream of its own. Clones share both.
#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Box<dyn Runtime>,
    vectors: vector::Kernels,
    /// Parts of an inner product, and after them the whole.
    parts: u64,
    /// The first failure of an operation that could not return it.
    error: Mutex<Option<Error>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.runtime.free(self.parts);
    }
}

impl Gpu {
    /// The device of this kind and number; for `sim` the number is the width of a warp.
    pub(crate) fn open(kind: DeviceKind, number: usize) -> Result<Gpu> {
        Gpu::with(match kind {
            DeviceKind::Host => return fail!(Device, "the host is not a GPU"),
            DeviceKind::Cuda => cuda(number)?,
            DeviceKind::Sim => sim(number, false)?,
        })
    }

    /// The simulation with blocks, warps and lanes in the opposite order.
    #[cfg(all(test, terrace_sim))]
    pub(crate) fn reversed_sim(warp: usize) -> Result<Gpu> {
        Gpu::with(sim(warp, true)?)
    }

    fn with(runtime: Box<dyn Runtime>) -> Result<Gpu> {
        let vectors = vector::Kernels::new(&*runtime)?;
        let parts = runtime.allocate(vector::ROOM * size_of::<f64>())?;
        Ok(Gpu { inner: Arc::new(Inner { runtime, vectors, parts, error: Mutex::new(None) }) })
    }

    /// The device, for people.
    pub fn description(&self) -> String {
        self.runtime().description()
    }

    /// Waits for all work.
    pub fn synchronize(&self) -> Result<()> {
        self.failed()?;
        self.runtime().synchronize()
    }

    fn runtime(&self) -> &dyn Runtime {
        &*self.inner.runtime
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
        let blocks = threads.div_ceil(runtime::BLOCK);
        if blocks == 0 {
            return Ok(());
        }
        self.launch_blocks(kernel, blocks, arguments)
    }

    fn launch_blocks(&self, kernel: Kernel, blocks: usize, arguments: &[&dyn Argument]) -> Result<()> {
        let mut all = Arguments {
            pointers: [std::ptr::null_mut(); MAX_ARGUMENTS],
            sizes: [0; MAX_ARGUMENTS],
            count: arguments.len(),
        };
        for (i, argument) in arguments.iter().enumerate() {
            (all.pointers[i], all.sizes[i]) = argument.parts();
        }
        // SAFETY: callers mirror the declarations in `kernels/`, which `sim` compares in every launch; arrays are freed on the same stream.
        unsafe { self.runtime().launch(kernel, blocks, &mut all) }
    }

    /// Whether an address is one of device memory.
    pub(crate) fn holds(&self, address: *const std::ffi::c_void) -> bool {
        self.runtime().holds(address.addr() as u64)
    }

    /// Lets the work that follows wait for what the caller has begun on the default stream.
    pub(crate) fn follow_caller(&self) -> Result<()> {
        self.runtime().follow_default_stream()
    }
}

#[cfg(terrace_cuda)]
fn cuda(number: usize) -> Result<Box<dyn Runtime>> {
    Ok(Box::new(cuda::Cuda::open(number)?))
}

#[cfg(not(terrace_cuda))]
fn cuda(_: usize) -> Result<Box<dyn Runtime>> {
    fail!(Device, "this build has no kernels for CUDA: nvcc was not found when it was built")
}

#[cfg(terrace_sim)]
fn sim(warp: usize, reverse: bool) -> Result<Box<dyn Runtime>> {
    Ok(Box::new(sim::Sim::new(warp, reverse)?))
}

#[cfg(not(terrace_sim))]
fn sim(_: usize, _: bool) -> Result<Box<dyn Runtime>> {
    fail!(Device, "this build has no simulated GPU: there was no C++ compiler when it was built")
}

/// What this build can do with GPUs, and what the machine has.
pub(crate) struct Facts {
    /// Device strings that a context accepts here.
    pub devices: Vec<String>,
    /// Compiler and architectures of the CUDA kernels, and the devices or why there are none.
    pub cuda: String,
    /// Whether there is a simulated GPU.
    pub sim: &'static str,
}

/// Looks for devices.
pub(crate) fn facts() -> Facts {
    let (cuda, count) = cuda_facts();
    let mut devices: Vec<String> = (0..count).map(|i| format!("cuda:{i}")).collect();
    let sim = if cfg!(terrace_sim) {
        devices.extend(["sim:32".to_string(), "sim:64".to_string()]);
        "built"
    } else {
        "not built: there was no C++ compiler"
    };
    Facts { devices, cuda, sim }
}

#[cfg(terrace_cuda)]
fn cuda_facts() -> (String, usize) {
    let built = concat!("nvcc ", env!("TERRACE_NVCC_VERSION"), ", ", env!("TERRACE_CUDA_ARCHITECTURES"), " and PTX");
    match cuda::devices() {
        Ok(names) => (format!("{built}; {}", names.join(", ")), names.len()),
        Err(error) => (format!("{built}; {}", error.message), 0),
    }
}

#[cfg(not(terrace_cuda))]
fn cuda_facts() -> (String, usize) {
    ("not built: there was no nvcc".to_string(), 0)
}

#[cfg(test)]
mod tests;
