//! Work that is launched again and again with the same vectors, captured as a graph the second time.

use super::runtime::Graph;
use super::{Gpu, Slice};
use crate::error::Result;

/// Graphs that are kept; Krylov methods apply a preconditioner to a few vectors in turn.
const KEPT: usize = 4;

/// Graphs by the vectors that they read and write.
#[derive(Default)]
pub(crate) struct Graphs {
    /// Addresses with the size of an element, and the graph unless the work was done once only.
    known: Vec<((u64, u64, usize), Option<Box<dyn Graph>>)>,
}

impl Graphs {
    /// Does `work`, which reads `b` and writes `x` and whose launches depend on nothing but where they are.
    pub fn run<T>(
        &mut self,
        gpu: &Gpu,
        b: &Slice<T>,
        x: &mut Slice<T>,
        work: &mut dyn FnMut(&Slice<T>, &mut Slice<T>) -> Result<()>,
    ) -> Result<()> {
        gpu.failed()?;
        let key = (b.view().address, x.view().address, size_of::<T>());
        match self.known.iter_mut().find(|(known, _)| *known == key) {
            Some((_, Some(graph))) => graph.replay(),
            Some((_, graph)) => {
                let made = gpu.runtime().capture(&mut || work(b, x))?;
                gpu.failed()?;
                made.replay()?;
                *graph = Some(made);
                Ok(())
            }
            None => {
                work(b, x)?;
                if self.known.len() == KEPT {
                    self.known.remove(0);
                }
                self.known.push((key, None));
                Ok(())
            }
        }
    }
}
