//! Kernels by name, and their times where someone asks for them.

use super::runtime::{Argument, Kernel, Runtime};
use crate::error::Result;
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The kernels that were asked for, and what they took since the times were last asked for.
#[derive(Default)]
pub(super) struct Profile {
    kernels: Mutex<HashMap<String, Kernel>>,
    on: AtomicBool,
    /// Whether graphs are not replayed meanwhile, but what they are made of is launched.
    apart: AtomicBool,
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
    /// Bytes of the arrays that each was given, all launches together.
    pub bytes: u64,
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

    /// Whether times are asked for.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Whether times are asked for, also of what graphs are made of.
    pub fn takes_apart(&self) -> bool {
        self.is_on() && self.apart.load(Ordering::Relaxed)
    }

    pub fn start(&self, apart: bool) {
        lock(self.times.lock()).clear();
        self.apart.store(apart, Ordering::Relaxed);
        self.on.store(true, Ordering::Relaxed);
    }

    /// Another step begins.
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

    /// Runs a kernel; alone where times are asked for.
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
