//! Capture and replay of graphs. Work with the same vectors is launched the first time, captured the second time, and
//! replayed from then on.

use super::runtime::Graph;
use super::{Gpu, Slice};
use crate::error::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// Capacity of the cache of graphs. Krylov methods apply a preconditioner to a few pairs of vectors.
const MAX_GRAPHS: usize = 4;

/// Work that reads one vector and writes another.
type Work<'a, T> = dyn FnMut(&Slice<T>, &mut Slice<T>) -> Result<()> + 'a;

/// A cache of graphs. The key is the addresses of the vectors that a graph reads and writes, and the size of an
/// element.
pub(crate) struct Graphs {
    known: Vec<((u64, u64, usize), Replay)>,
}

impl Default for Graphs {
    fn default() -> Graphs {
        // Allocated here, because an application must not allocate.
        Graphs { known: Vec::with_capacity(MAX_GRAPHS) }
    }
}

impl Graphs {
    /// Runs `work`, which reads `b` and writes `x`. Its launches depend on the addresses alone.
    pub fn run<T>(&mut self, gpu: &Gpu, b: &Slice<T>, x: &mut Slice<T>, work: &mut Work<'_, T>) -> Result<()> {
        let key = (b.address(), x.address(), size_of::<T>());
        let index = self.known.iter().position(|known| known.0 == key).unwrap_or_else(|| {
            if self.known.len() == MAX_GRAPHS {
                self.known.remove(0);
            }
            self.known.push((key, Replay::default()));
            self.known.len() - 1
        });
        self.known[index].1.run(gpu, &mut || work(b, x))
    }
}

/// Work whose launches are the same every time, and its graph.
#[derive(Default)]
pub(super) struct Replay {
    done: bool,
    graph: Option<Box<dyn Graph>>,
}

impl Replay {
    pub fn run(&mut self, gpu: &Gpu, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        gpu.failed()?;
        // Within a larger capture, or while single launches are timed.
        if gpu.inner.capturing.load(Ordering::Relaxed) || gpu.inner.profile.is_expanded() {
            return work();
        }
        if let Some(graph) = &self.graph {
            return gpu.replay(&**graph);
        }
        if !self.done {
            work()?;
            self.done = true;
            return Ok(());
        }
        let graph = gpu.capture(work)?;
        gpu.failed()?;
        gpu.replay(&*graph)?;
        self.graph = Some(graph);
        Ok(())
    }
}

/// Resets the flag when the capture ends, also by a panic.
struct Capturing<'a>(&'a AtomicBool);

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Gpu {
    /// Captures the launches of `work`. Other threads that use the device wait meanwhile.
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>> {
        let runtime = self.runtime();
        self.inner.capturing.store(true, Ordering::Relaxed);
        let _capturing = Capturing(&self.inner.capturing);
        runtime.capture(work)
    }

    fn replay(&self, graph: &dyn Graph) -> Result<()> {
        let _runtime = self.runtime();
        graph.replay()
    }
}

/// Runs work of an object that stores the graph of this work itself; `replay` returns it.
pub(super) fn run_captured<S>(
    with: &mut S,
    gpu: &Gpu,
    replay: fn(&mut S) -> &mut Replay,
    work: &mut dyn FnMut(&mut S) -> Result<()>,
) -> Result<()> {
    let mut taken = std::mem::take(replay(with));
    let result = taken.run(gpu, &mut || work(with));
    *replay(with) = taken;
    result
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::error::fail;
    use crate::gpu::tests::devices;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    #[test]
    fn a_capture_ends_with_a_panic_or_an_error_in_it() {
        for gpu in devices() {
            let (mut x, mut replay) = (gpu.upload(&[1.0_f64; 4]).unwrap(), Replay::default());
            let mut double = |replay: &mut Replay, end: &dyn Fn() -> Result<()>| {
                replay.run(&gpu, &mut || {
                    gpu.scale(2.0, &mut x);
                    end()
                })?;
                gpu.fetch(&x)
            };
            assert_eq!(double(&mut replay, &|| Ok(())).unwrap(), [2.0; 4]);
            let panicked = catch_unwind(AssertUnwindSafe(|| double(&mut replay, &|| panic!("within a capture"))));
            assert!(panicked.is_err());
            // What follows is launched, and not part of the graph that was begun.
            assert_eq!(double(&mut Replay::default(), &|| Ok(())).unwrap(), [4.0; 4]);
            let failed = double(&mut replay, &|| fail!(Internal, "within a capture"));
            assert!(failed.unwrap_err().message.contains("within a capture"));
            assert_eq!(double(&mut Replay::default(), &|| Ok(())).unwrap(), [8.0; 4]);
            // Captured, and replayed.
            assert_eq!(double(&mut replay, &|| Ok(())).unwrap(), [16.0; 4]);
            assert_eq!(double(&mut replay, &|| Ok(())).unwrap(), [32.0; 4]);
        }
    }

    #[test]
    fn what_another_thread_copies_or_frees_is_not_part_of_a_graph() {
        for gpu in devices() {
            let (mut x, mut replay) = (gpu.upload(&[1.0_f64; 4]).unwrap(), Replay::default());
            let (shared, mut last) =
                (gpu.upload(&[7.0_f64; 1000]).unwrap(), Some(gpu.upload(&[8.0_f64; 1000]).unwrap()));
            replay.run(&gpu, &mut || gpu.status()).unwrap();
            std::thread::scope(|scope| {
                replay
                    .run(&gpu, &mut || {
                        gpu.scale(2.0, &mut x);
                        let (gpu, shared, last) = (&gpu, &shared, last.take());
                        scope.spawn(move || {
                            assert_eq!(gpu.fetch(shared).unwrap(), [7.0; 1000]);
                            let zeros = gpu.zeroed::<f64>(10).unwrap();
                            assert_eq!(gpu.fetch(&zeros).unwrap(), [0.0; 10]);
                            drop(last);
                        });
                        // Time for the other thread to come in between.
                        std::thread::sleep(Duration::from_millis(50));
                        gpu.scale(2.0, &mut x);
                        gpu.status()
                    })
                    .unwrap();
            });
            assert_eq!(gpu.fetch(&x).unwrap(), [4.0; 4]);
            replay.run(&gpu, &mut || fail!(Internal, "the graph is there")).unwrap();
            assert_eq!(gpu.fetch(&x).unwrap(), [16.0; 4]);
        }
    }
}
