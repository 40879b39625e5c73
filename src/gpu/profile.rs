//! Kernels by name, and their times where someone asks for them.

use super::runtime::{Kernel, Runtime};
use crate::context::lock;
use crate::error::Result;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The kernels that were asked for, and what they took since the times were last asked for.
#[derive(Default)]
pub(super) struct Profile {
    kernels: Mutex<HashMap<String, Kernel>>,
    on: AtomicBool,
    /// Launches and seconds, by kernel.
    times: Mutex<HashMap<usize, (usize, f64)>>,
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

    pub fn end(&self) -> Vec<(String, usize, f64)> {
        self.on.store(false, Ordering::Relaxed);
        let (times, kernels) = (lock(self.times.lock()), lock(self.kernels.lock()));
        let of = |(name, kernel): (&String, &Kernel)| {
            times.get(&kernel.0).map(|(count, seconds)| (name.clone(), *count, *seconds))
        };
        let mut all: Vec<_> = kernels.iter().filter_map(of).collect();
        all.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// Runs a kernel, alone where times are asked for.
    pub fn time(&self, runtime: &dyn Runtime, kernel: Kernel, run: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if !self.on.load(Ordering::Relaxed) {
            return run();
        }
        runtime.synchronize()?;
        let start = Instant::now();
        run()?;
        runtime.synchronize()?;
        let mut times = lock(self.times.lock());
        let (count, seconds) = times.entry(kernel.0).or_default();
        *count += 1;
        *seconds += start.elapsed().as_secs_f64();
        Ok(())
    }
}
