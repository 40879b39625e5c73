//! Work that is launched again and again with the same vectors, captured as a graph the second time.

use super::runtime::Graph;
use super::{Gpu, Slice};
use crate::error::Result;
use std::sync::atomic::Ordering;

/// Graphs that are kept; Krylov methods apply a preconditioner to a few vectors in turn.
const KEPT: usize = 4;

/// Work that reads one vector and writes another.
type Work<'a, T> = dyn FnMut(&Slice<T>, &mut Slice<T>) -> Result<()> + 'a;

/// Graphs by the vectors that they read and write: their addresses, and the size of an element.
pub(crate) struct Graphs {
    known: Vec<((u64, u64, usize), Replay)>,
}

impl Default for Graphs {
    fn default() -> Graphs {
        // An application allocates nothing.
        Graphs { known: Vec::with_capacity(KEPT) }
    }
}

impl Graphs {
    /// Does `work`, which reads `b` and writes `x` and whose launches depend on nothing but where they are.
    pub fn run<T>(&mut self, gpu: &Gpu, b: &Slice<T>, x: &mut Slice<T>, work: &mut Work<'_, T>) -> Result<()> {
        let key = (b.address(), x.address(), size_of::<T>());
        let place = self.known.iter().position(|known| known.0 == key).unwrap_or_else(|| {
            if self.known.len() == KEPT {
                self.known.remove(0);
            }
            self.known.push((key, Replay::default()));
            self.known.len() - 1
        });
        self.known[place].1.run(gpu, &mut || work(b, x))
    }
}

/// Work whose launches are the same every time: the first time it is done, the second time captured, and from then on its graph is run.
#[derive(Default)]
pub(super) struct Replay {
    done: bool,
    graph: Option<Box<dyn Graph>>,
}

impl Replay {
    pub fn run(&mut self, gpu: &Gpu, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        gpu.failed()?;
        // Part of a larger graph, or launches that are looked at one by one.
        if gpu.inner.capturing.load(Ordering::Relaxed) || gpu.inner.profile.takes_apart() {
            return work();
        }
        if let Some(graph) = &self.graph {
            return graph.replay();
        }
        if !self.done {
            work()?;
            self.done = true;
            return Ok(());
        }
        gpu.inner.capturing.store(true, Ordering::Relaxed);
        let graph = gpu.runtime().capture(work);
        gpu.inner.capturing.store(false, Ordering::Relaxed);
        let graph = graph?;
        gpu.failed()?;
        graph.replay()?;
        self.graph = Some(graph);
        Ok(())
    }
}

/// Does work with something that holds the graph of this work itself, where `replay` finds it.
pub(super) fn repeat<S>(
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
