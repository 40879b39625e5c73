//! The table of kernels by name, and their times while a profile runs.

use super::runtime::{Argument, Kernel, Runtime};
use crate::error::Result;
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The kernels that were looked up, and their times in the current profile.
#[derive(Default)]
pub(super) struct Profile {
    kernels: Mutex<HashMap<String, Kernel>>,
    on: AtomicBool,
    /// Whether graphs are replaced by their launches.
    expanded: AtomicBool,
    /// The current step.
    step: Mutex<Step>,
    times: Mutex<HashMap<(Step, usize), Times>>,
}

/// A step of set-up: a name, and the level where it belongs to one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    /// The level.
    pub level: Option<usize>,
    /// The name.
    pub name: &'static str,
}

/// The launches of a kernel in a step.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The step.
    pub step: Step,
    /// The kernel.
    pub name: String,
    /// Number of launches.
    pub launches: usize,
    /// Seconds, each launch alone.
    pub seconds: f64,
    /// The arrays among their arguments, by address and bytes.
    pub arrays: HashSet<(u64, u64)>,
    /// Bytes of the arrays among the arguments, summed over the launches.
    pub bytes: u64,
}

impl Profile {
    /// A kernel from the table; `find` looks it up the first time.
    pub fn find(&self, name: &str, find: impl FnOnce() -> Result<Kernel>) -> Result<Kernel> {
        let mut kernels = lock(self.kernels.lock());
        if let Some(kernel) = kernels.get(name) {
            return Ok(*kernel);
        }
        let kernel = find()?;
        kernels.insert(name.to_string(), kernel);
        Ok(kernel)
    }

    /// Whether a profile runs.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Whether a profile runs with graphs expanded to their launches.
    pub fn is_expanded(&self) -> bool {
        self.is_on() && self.expanded.load(Ordering::Relaxed)
    }

    pub fn start(&self, expanded: bool) {
        lock(self.times.lock()).clear();
        self.expanded.store(expanded, Ordering::Relaxed);
        self.on.store(true, Ordering::Relaxed);
    }

    /// Begins a step.
    pub fn step(&self, level: Option<usize>, name: &'static str) {
        if self.is_on() {
            *lock(self.step.lock()) = Step { level, name };
        }
    }

    pub fn end(&self) -> Vec<Times> {
        self.on.store(false, Ordering::Relaxed);
        let (times, kernels) = (lock(self.times.lock()), lock(self.kernels.lock()));
        let names: HashMap<usize, &String> = kernels.iter().map(|(name, kernel)| (kernel.0, name)).collect();
        let of = |((step, kernel), times): (&(Step, usize), &Times)| {
            let name = names.get(kernel).map_or_else(String::new, |name| (*name).clone());
            Times { step: step.clone(), name, ..times.clone() }
        };
        let mut all: Vec<_> = times.iter().map(of).collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// Runs a kernel; in a profile with a synchronisation before and after.
    pub fn time(
        &self,
        runtime: &dyn Runtime,
        kernel: Kernel,
        arguments: &[&dyn Argument],
        run: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if !self.is_on() {
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
        let arrays = arguments.iter().filter_map(|argument| argument.view()).map(|view| view.span());
        let arrays: HashSet<_> = arrays.collect();
        times.bytes += arrays.iter().map(|(_, bytes)| bytes).sum::<u64>();
        times.arrays.extend(arrays);
        Ok(())
    }
}
