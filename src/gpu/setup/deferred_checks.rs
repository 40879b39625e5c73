//! Flags and counters of kernels that set-up checks at its end, with one wait for the device.

use crate::error::{Result, try_extend};
use crate::gpu::{Buffer, Gpu, Slice};

/// Numbers of one allocation.
const PIECE: usize = 256;

/// Checks the numbers of one request.
type Check = Box<dyn FnOnce(&[u64]) -> Result<()> + Send>;

/// Numbers that kernels write, from zeros, and that are checked later.
pub(crate) struct DeferredChecks {
    gpu: Gpu,
    pieces: Vec<Buffer<u64>>,
    /// Numbers of the last allocation that are in use.
    taken: usize,
    /// Position, count and check of each request.
    pending: Vec<(usize, usize, Check)>,
}

impl DeferredChecks {
    pub fn new(gpu: &Gpu) -> DeferredChecks {
        DeferredChecks { gpu: gpu.clone(), pieces: Vec::new(), taken: PIECE, pending: Vec::new() }
    }

    /// `count` zeros for a kernel to write to; `check` gets them.
    pub fn add(
        &mut self,
        count: usize,
        check: impl FnOnce(&[u64]) -> Result<()> + Send + 'static,
    ) -> Result<&Slice<u64>> {
        assert!(count <= PIECE);
        if self.taken + count > PIECE {
            self.pieces.push(self.gpu.zeroed(PIECE)?);
            self.taken = 0;
        }
        let piece = self.pieces.len() - 1;
        self.pending.push((piece * PIECE + self.taken, count, Box::new(check)));
        self.taken += count;
        Ok(self.pieces[piece].subslice(self.taken - count, count))
    }

    /// Runs all checks in order, up to the first that fails. Waits for the device.
    pub fn verify(self) -> Result<()> {
        let mut answers = Vec::new();
        for piece in &self.pieces {
            try_extend(&mut answers, self.gpu.fetch(piece)?)?;
        }
        self.pending.into_iter().try_for_each(|(at, count, check)| check(&answers[at..at + count]))
    }
}
