//! The simulation: the kernels of `kernels/`, compiled for the CPU by the C++ compiler, where every thread of a block is a fiber. See
//! `kernels/sim.h` for what it checks. Device memory is host memory.
//!
//! On its own stream every launch is done when it returns. On a stream of the caller's, whose address is only a name, work is held back until
//! something waits for it: what looks at a result too early finds the old one.

mod engine;

use super::runtime::{Arguments, Graph, Kernel, Memory, Runtime};
use crate::error::{Result, fail};
use crate::sync::lock;
use engine::{Engine, Launch};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A simulated GPU.
pub(super) struct Sim {
    warp: usize,
    state: Arc<Mutex<State>>,
}

struct State {
    engine: Engine,
    /// Layouts of what is allocated, by address.
    memory: BTreeMap<u64, Layout>,
    /// Launches of a capture that is under way.
    captured: Option<Vec<Launch>>,
    /// Work that is held back; none on the own stream.
    held: Option<Vec<Work>>,
}

/// What a stream does.
enum Work {
    Launch(Box<Launch>),
    Clear(u64, usize),
    Free(u64),
}

impl Sim {
    /// Warps of 32 or 64 lanes; `reverse` turns the order of blocks, warps and lanes round.
    pub fn new(warp: usize, reverse: bool) -> Result<Sim> {
        let engine = Engine::new(warp, reverse)?;
        let state = State { engine, memory: BTreeMap::new(), captured: None, held: None };
        Ok(Sim { warp, state: Arc::new(Mutex::new(state)) })
    }
}

impl State {
    fn launch(&mut self, launch: &Launch) -> Result<()> {
        match &mut self.held {
            Some(held) => {
                held.push(Work::Launch(Box::new(*launch)));
                Ok(())
            }
            None => self.engine.run(launch),
        }
    }

    /// Does the work, or holds it back.
    fn add(&mut self, work: Work) -> Result<()> {
        match &mut self.held {
            Some(held) => {
                held.push(work);
                Ok(())
            }
            None => self.execute(work),
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
        }
    }

    /// Does everything that is held back, and tells the first failure.
    fn catch_up(&mut self) -> Result<()> {
        let held = self.held.as_mut().map(std::mem::take).unwrap_or_default();
        let mut result = Ok(());
        for work in held {
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
        // A failure has nowhere to go.
        let _ = self.catch_up();
        while let Some((&address, _)) = self.memory.first_key_value() {
            let _ = self.execute(Work::Free(address));
        }
    }
}

impl Runtime for Sim {
    fn description(&self) -> String {
        format!("simulated GPU, warps of {} lanes", self.warp)
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
        lock(self.state.lock()).memory.insert(address, layout);
        Ok(address)
    }

    fn free(&self, address: u64) {
        // Freeing does not fail.
        let _ = lock(self.state.lock()).add(Work::Free(address));
    }

    fn trim(&self) {
        // What fails is told by the next call that waits.
        let _ = self.synchronize();
    }

    fn free_memory(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    fn clear(&self, address: u64, bytes: usize) -> Result<()> {
        lock(self.state.lock()).add(Work::Clear(address, bytes))
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
        Ok(())
    }

    unsafe fn use_stream(&self, stream: usize) -> Result<()> {
        let mut state = lock(self.state.lock());
        state.catch_up()?;
        state.held = (stream != 0).then(Vec::new);
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        lock(self.state.lock()).catch_up()
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        lock(self.state.lock()).engine.find(name)
    }

    unsafe fn launch(&self, kernel: Kernel, blocks: usize, arguments: &mut Arguments) -> Result<()> {
        // SAFETY: the caller's promise.
        let launch = unsafe { Launch::new(kernel, blocks, arguments) };
        let mut state = lock(self.state.lock());
        match &mut state.captured {
            Some(captured) => {
                captured.push(launch);
                Ok(())
            }
            None => state.launch(&launch),
        }
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>> {
        lock(self.state.lock()).captured = Some(Vec::new());
        let result = work();
        let launches = lock(self.state.lock()).captured.take().unwrap_or_default();
        result?;
        Ok(Box::new(Captured { state: Arc::clone(&self.state), launches }))
    }
}

/// Launches to repeat.
struct Captured {
    state: Arc<Mutex<State>>,
    launches: Vec<Launch>,
}

impl Graph for Captured {
    fn replay(&self) -> Result<()> {
        let mut state = lock(self.state.lock());
        self.launches.iter().try_for_each(|launch| state.launch(launch))
    }
}
