//! Kernels by name, and their times where someone asks for them.

use super::runtime::{Argument, Kernel, Runtime};
use crate::context::lock;
use crate::error::Result;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The kernels that were asked for, and what they took since the times were last asked for.
#[derive(Default)]
pub(super) struct Profile {
    kernels: Mutex<HashMap<String, Kernel>>,
    on: AtomicBool,
    /// What is being done.
    step: Mutex<Step>,
    times: Mutex<HashMap<(Step, usize), Times>>,
}

/// A step of set-up: the level and a name; no level where it is one of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    /// The level.
    pub level: Option<usize>,
    /// The name.
    pub name: &'static str,
}

/// What the launches of a kernel took together in a step.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The step.
    pub step: Step,
    /// The kernel.
    pub name: String,
    /// How many they were.
    pub launches: usize,
    /// Seconds, each launch alone.
    pub seconds: f64,
    /// The arrays that they were given, by address and bytes.
    pub arrays: HashSet<(u64, u64)>,
}

impl Profile {
    /// A kernel that was found before, or else the one that `find` finds.
    pub fn find(&self, name: &str, find: impl FnOnce() -> Result<Kernel>) -> Result<Kernel> {
        let mut kernels = lock(self.kernels.lock());
        if let Some(kernel) = kernels.get(name) {
            return Ok(*kernel);
        }
        let kernel = find()?;
        kernels.insert(name.to_string(), kernel);
        Ok(kernel)
    }

    pub fn start(&self) {
        lock(self.times.lock()).clear();
        self.on.store(true, Ordering::Relaxed);
    }

    /// Another step begins.
    pub fn step(&self, level: Option<usize>, name: &'static str) {
        if self.on.load(Ordering::Relaxed) {
            *lock(self.step.lock()) = Step { level, name };
        }
    }

    pub fn end(&self) -> Vec<Times> {
        self.on.store(false, Ordering::Relaxed);
        let (times, kernels) = (lock(self.times.lock()), lock(self.kernels.lock()));
        let names: HashMap<usize, &String> = kernels.iter().map(|(name, kernel)| (kernel.0, name)).collect();
        let of = |((step, kernel), times): (&(Step, usize), &Times)| {
            // Those of vectors were found before anyone asked.
            let name = names.get(kernel).map_or_else(|| "others".to_string(), |name| (*name).clone());
            Times { step: step.clone(), name, ..times.clone() }
        };
        let mut all: Vec<_> = times.iter().map(of).collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// Runs a kernel; alone where times are asked for.
    pub fn time(
        &self,
        runtime: &dyn Runtime,
        kernel: Kernel,
        arguments: &[&dyn Argument],
        run: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if !self.on.load(Ordering::Relaxed) {
            return run();
        }
        runtime.synchronize()?;
        let start = Instant::now();
        run()?;
        runtime.synchronize()?;
        let mut times = lock(self.times.lock());
        let times = times.entry((lock(self.step.lock()).clone(), kernel.0)).or_default();
        times.launches += 1;
        times.seconds += start.elapsed().as_secs_f64();
        times
            .arrays
            .extend(arguments.iter().filter_map(|argument| argument.view()).map(|view| (view.address, view.bytes)));
        Ok(())
    }
}
