//! Work that is launched again and again with the same vectors, captured as a graph the second time.

use super::runtime::Graph;
use super::{Gpu, Slice};
use crate::error::Result;

/// Graphs that are kept; Krylov methods apply a preconditioner to a few vectors in turn.
const KEPT: usize = 4;

/// Work that reads one vector and writes another.
type Work<'a, T> = dyn FnMut(&Slice<T>, &mut Slice<T>) -> Result<()> + 'a;

/// Graphs by the vectors that they read and write.
pub(crate) struct Graphs {
    known: Vec<Known>,
}

struct Known {
    /// Addresses of the vectors, and the size of an element.
    key: (u64, u64, usize),
    /// None when the work was done once only.
    graph: Option<Box<dyn Graph>>,
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
        gpu.failed()?;
        let key = (b.view().address, x.view().address, size_of::<T>());
        let Some(known) = self.known.iter_mut().find(|known| known.key == key) else {
            work(b, x)?;
            if self.known.len() == KEPT {
                self.known.remove(0);
            }
            self.known.push(Known { key, graph: None });
            return Ok(());
        };
        if let Some(graph) = &known.graph {
            return graph.replay();
        }
        let graph = gpu.runtime().capture(&mut || work(b, x))?;
        gpu.failed()?;
        graph.replay()?;
        known.graph = Some(graph);
        Ok(())
    }
}
