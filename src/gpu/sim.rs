//! The simulation: the kernels of `kernels/`, compiled for the CPU by the C++ compiler, where every thread of a block
//! is a fiber. See `kernels/sim.h` for what it checks. Device memory is host memory.
//!
//! Work is deferred until a synchronisation, so a read without one finds old values. The address of a caller's stream
//! is only a name. Tests launch work of a caller on the default stream. It is done when the library's stream waits for
//! that one, so a read that does not wait finds old values, too.

mod engine;

use super::runtime::{Arguments, Graph, Kernel, Memory, Runtime};
use super::signature;
use crate::error::{Result, fail};
use crate::sync::lock;
use engine::{Engine, Launch};
use std::alloc::Layout;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// A simulated GPU.
pub(super) struct Sim {
    is_reversed: bool,
    state: Arc<Mutex<State>>,
}

struct State {
    engine: Engine,
    /// Layouts of the allocations, by address.
    memory: BTreeMap<u64, Layout>,
    /// The declarations of kernels that were found, by handle.
    declared: HashMap<usize, &'static terrace_kernels::Kernel>,
    /// A capture that is under way.
    capture: Option<Capture>,
    /// Deferred work of the stream.
    held: Vec<Work>,
    /// Deferred work of callers on the default stream.
    #[cfg(feature = "unit-tests")]
    default_stream: Vec<Box<dyn FnOnce() + Send + Sync>>,
}

/// A capture.
#[derive(Default)]
struct Capture {
    work: Vec<Work>,
    /// An operation that cannot be captured.
    spoiled: Option<&'static str>,
}

/// Work of a stream.
enum Work {
    Launch(Box<Launch>),
    Clear(u64, usize),
    Free(u64),
    /// Work of the caller that the stream waits for.
    #[cfg(feature = "unit-tests")]
    Caller(Box<dyn FnOnce() + Send + Sync>),
}

impl Sim {
    /// Number 0 runs blocks, warps and lanes in their order, number 1 in the opposite order: a result that changes with it
    /// is a race.
    pub fn open(number: usize) -> Result<Sim> {
        if number > 1 {
            return fail!(Device, "there is no simulated GPU {number}; there are 0 and 1");
        }
        let is_reversed = number == 1;
        let engine = Engine::new(is_reversed)?;
        let state = State {
            engine,
            memory: BTreeMap::new(),
            declared: HashMap::new(),
            capture: None,
            held: Vec::new(),
            #[cfg(feature = "unit-tests")]
            default_stream: Vec::new(),
        };
        Ok(Sim { is_reversed, state: Arc::new(Mutex::new(state)) })
    }
}

impl State {
    /// Work of the stream, or of a graph.
    fn add(&mut self, work: Work) {
        match &mut self.capture {
            Some(capture) => capture.work.push(work),
            None => self.held.push(work),
        }
    }

    /// Fails during a capture, and makes the capture fail, as a driver does.
    fn outside_of_captures(&mut self, what: &'static str) -> Result<()> {
        match &mut self.capture {
            Some(capture) => {
                capture.spoiled = Some(what);
                fail!(Device, "{what} during a capture")
            }
            None => Ok(()),
        }
    }

    fn execute(&mut self, work: Work) -> Result<()> {
        match work {
            Work::Launch(launch) => self.engine.run(&launch),
            Work::Clear(address, bytes) => {
                // SAFETY: memory of this runtime, as the contract says.
                unsafe { (address as *mut u8).write_bytes(0, bytes) };
                Ok(())
            }
            Work::Free(address) => {
                if let Some(layout) = self.memory.remove(&address) {
                    // SAFETY: allocated with this layout, and removed from the table.
                    unsafe { std::alloc::dealloc(address as *mut u8, layout) };
                }
                Ok(())
            }
            #[cfg(feature = "unit-tests")]
            Work::Caller(work) => {
                work();
                Ok(())
            }
        }
    }

    /// Does all deferred work, and returns the first failure.
    fn catch_up(&mut self) -> Result<()> {
        let mut result = Ok(());
        for work in std::mem::take(&mut self.held) {
            // Memory is freed also after a failure.
            if result.is_ok() || matches!(work, Work::Free(_)) {
                result = result.and(self.execute(work));
            }
        }
        result
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // A failure cannot be returned from here.
        let _ = self.catch_up();
        while let Some((&address, _)) = self.memory.first_key_value() {
            let _ = self.execute(Work::Free(address));
        }
    }
}

impl Runtime for Sim {
    fn description(&self) -> String {
        let order = if self.is_reversed { ", threads in the opposite order" } else { "" };
        format!("simulated GPU{order}")
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
        let address = pointer.expose_provenance() as u64;
        let mut state = lock(self.state.lock());
        state.memory.insert(address, layout);
        state.outside_of_captures("memory was allocated").map(|()| address)
    }

    fn free(&self, address: u64) {
        let mut state = lock(self.state.lock());
        // The capture fails.
        let _ = state.outside_of_captures("memory was freed");
        state.held.push(Work::Free(address));
    }

    fn trim(&self) {
        // The next synchronisation returns a failure.
        let _ = self.synchronize();
    }

    fn free_memory(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    fn clear(&self, address: u64, bytes: usize) -> Result<()> {
        lock(self.state.lock()).add(Work::Clear(address, bytes));
        Ok(())
    }

    fn copy_in(&self, from: &[u8], to: u64) -> Result<()> {
        self.synchronize()?;
        // SAFETY: memory of this runtime, as the contract says.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        Ok(())
    }

    fn copy_out(&self, from: u64, to: &mut [u8]) -> Result<()> {
        self.synchronize()?;
        // SAFETY: memory of this runtime, as the contract says.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn locate(&self, address: u64) -> Memory {
        let state = lock(self.state.lock());
        let before = state.memory.range(..=address).next_back();
        match before {
            Some((start, layout)) if address - start < layout.size() as u64 => Memory::Here,
            _ => Memory::Host,
        }
    }

    fn follow_default_stream(&self) -> Result<()> {
        #[cfg(feature = "unit-tests")]
        {
            let mut state = lock(self.state.lock());
            let begun = std::mem::take(&mut state.default_stream);
            state.held.extend(begun.into_iter().map(Work::Caller));
        }
        Ok(())
    }

    #[cfg(feature = "unit-tests")]
    fn begin_on_default_stream(&self, work: Box<dyn FnOnce() + Send + Sync>) {
        lock(self.state.lock()).default_stream.push(work);
    }

    unsafe fn use_stream(&self, _: usize) -> Result<()> {
        self.synchronize()
    }

    fn is_stream_ordered(&self) -> bool {
        false
    }

    fn synchronize(&self) -> Result<()> {
        let mut state = lock(self.state.lock());
        state.outside_of_captures("something waited")?;
        state.catch_up()
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        let mut state = lock(self.state.lock());
        let kernel = state.engine.find(name)?;
        let Some(declared) = terrace_kernels::find(name) else {
            return fail!(Internal, "kernel {name} is not in the table of declarations");
        };
        state.declared.insert(kernel.0, declared);
        Ok(kernel)
    }

    unsafe fn launch(&self, kernel: Kernel, blocks: usize, arguments: &mut Arguments) -> Result<()> {
        let mut state = lock(self.state.lock());
        if let Some(declared) = state.declared.get(&kernel.0) {
            signature::check(declared.name, declared.parameters, &arguments.types[..arguments.count])?;
        }
        // SAFETY: the caller's promise.
        let launch = unsafe { Launch::new(kernel, blocks, arguments) };
        state.add(Work::Launch(Box::new(launch)));
        Ok(())
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>> {
        /// Ends the capture with itself, also by a panic.
        struct Capturing<'a>(&'a Mutex<State>);
        impl Capturing<'_> {
            fn end(&self) -> Capture {
                lock(self.0.lock()).capture.take().unwrap_or_default()
            }
        }
        impl Drop for Capturing<'_> {
            fn drop(&mut self) {
                self.end();
            }
        }
        lock(self.state.lock()).capture = Some(Capture::default());
        let capturing = Capturing(&self.state);
        work()?;
        let Capture { work, spoiled } = capturing.end();
        match spoiled {
            Some(what) => fail!(Device, "{what} during a capture"),
            None => Ok(Box::new(Captured { state: Arc::clone(&self.state), work })),
        }
    }
}

/// Captured work.
struct Captured {
    state: Arc<Mutex<State>>,
    work: Vec<Work>,
}

impl Graph for Captured {
    fn replay(&self) -> Result<()> {
        let again = |work: &Work| match work {
            Work::Launch(launch) => Work::Launch(launch.clone()),
            Work::Clear(address, bytes) => Work::Clear(*address, *bytes),
            _ => unreachable!("a graph neither frees memory nor waits for a caller"),
        };
        lock(self.state.lock()).held.extend(self.work.iter().map(again));
        Ok(())
    }
}
