//! Flags and counts of kernels that set-up looks at when it is through, all of them with one wait.

use crate::error::Result;
use crate::gpu::{Buffer, Gpu, Slice};

/// Numbers of one piece of memory.
const PIECE: usize = 256;

/// What is done with the numbers of one question.
type Look = Box<dyn FnOnce(&[u64]) -> Result<()> + Send>;

/// Questions to the device, whose answers are numbers that kernels have made from zeros.
pub(crate) struct Checks {
    gpu: Gpu,
    pieces: Vec<Buffer<u64>>,
    /// Numbers of the last piece that are taken.
    taken: usize,
    /// Where the answer lies, its numbers, and who looks at them.
    asked: Vec<(usize, usize, Look)>,
}

impl Checks {
    pub fn new(gpu: &Gpu) -> Checks {
        Checks { gpu: gpu.clone(), pieces: Vec::new(), taken: PIECE, asked: Vec::new() }
    }

    /// `count` zeros for a kernel to write an answer to, which `look` gets.
    pub fn ask(
        &mut self,
        count: usize,
        look: impl FnOnce(&[u64]) -> Result<()> + Send + 'static,
    ) -> Result<&Slice<u64>> {
        assert!(count <= PIECE);
        if self.taken + count > PIECE {
            self.pieces.push(self.gpu.zeroed(PIECE)?);
            self.taken = 0;
        }
        let piece = self.pieces.len() - 1;
        self.asked.push((piece * PIECE + self.taken, count, Box::new(look)));
        self.taken += count;
        Ok(self.pieces[piece].piece(self.taken - count, count))
    }

    /// Looks at all answers in the order of the questions, up to the first that is refused. Waits for the device.
    pub fn look(self) -> Result<()> {
        let mut answers = Vec::new();
        for piece in &self.pieces {
            answers.extend(self.gpu.fetch(piece)?);
        }
        self.asked.into_iter().try_for_each(|(at, count, look)| look(&answers[at..at + count]))
    }
}
