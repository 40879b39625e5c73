//! Multicolour Gauss-Seidel: rows that are not coupled have the same colour and are solved at the same time, colour after colour. It
//! is Gauss-Seidel in another order of the rows, so it converges for every SPD matrix.

use super::{Setup, Smoother, Sweep, stored};
use crate::amg::scaling::{self, Rounding};
use crate::backend::{Backend, Operator};
use crate::error::Result;
use crate::host::multicolour::{self, Colouring};
use crate::host::{Host, diagonal};
use crate::scalar::{Number, Scalar};
use crate::sparse::SharedCsr;

/// Names of the directions, as the options spell them.
pub const DIRECTIONS: &[&str] = &["forward", "backward", "symmetric"];

/// Order of the colours before the coarse correction; after it they come in the opposite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
    /// Forward and then backward in each sweep.
    Symmetric,
}

impl Direction {
    fn from_name(name: &str) -> Direction {
        match name {
            "forward" => Direction::Forward,
            "backward" => Direction::Backward,
            "symmetric" => Direction::Symmetric,
            _ => unreachable!("the options table accepts only the names of the directions, not {name}"),
        }
    }
}

struct GaussSeidel<S> {
    matrix: SharedCsr<S>,
    /// The inverse of the diagonal or of the diagonal blocks.
    inverse: Vec<S>,
    colouring: Colouring,
    direction: Direction,
    /// Whether the matrix is the level's own, which is counted there.
    shared: bool,
}

impl<S: Number, V: Number> Smoother<Host, V> for GaussSeidel<S> {
    fn sweep(
        &self,
        backend: &Host,
        _: &dyn Operator<Host, V>,
        b: &[V],
        x: &mut [V],
        scratch: &mut [Vec<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let a = self.matrix.view();
        if sweep.zero_guess {
            backend.fill(V::ZERO, x);
        }
        let count = self.colouring.count();
        let mut pass = |colours, backward| {
            let order = (colours, backward);
            multicolour::sweep(&a, &self.inverse, &self.colouring, order, b, x, &mut scratch[0]);
        };
        backend.run(a.entries(), || match self.direction {
            Direction::Forward => pass(0..count, sweep.adjoint),
            Direction::Backward => pass(0..count, !sweep.adjoint),
            Direction::Symmetric => {
                pass(0..count, false);
                // Where the last colour has just been solved for exactly, a second time would change nothing.
                let exact = a.block.rows == 1 || self.inverse.len() > a.scalar_rows();
                pass(0..if exact { count.saturating_sub(1) } else { count }, true);
            }
        });
        Ok(())
    }

    fn is_symmetric(&self) -> bool {
        self.direction == Direction::Symmetric
    }

    fn scratch(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        let matrix = if self.shared { 0 } else { self.matrix.owned_bytes() };
        size_of_val(self.inverse.as_slice()) + self.colouring.bytes() + matrix
    }
}

/// Keeps the matrix in the smoother's precision, which costs nothing where that is the precision of set-up.
pub(super) fn build<T: Scalar, S: Number, V: Number>(setup: &Setup<'_, T>) -> Result<Box<dyn Smoother<Host, V>>> {
    let inverse: Vec<T> = diagonal::inverse(&setup.a, setup.diagonal_width(), diagonal::AS_IT_IS)?;
    Ok(Box::new(GaussSeidel {
        inverse: stored::<T, S>(&inverse, 1.0)?,
        colouring: Colouring::new(&setup.a)?,
        direction: Direction::from_name(&setup.config.text("amg.smoother.gauss_seidel.direction")),
        matrix: scaling::store::<T, S>(setup.matrix, "smoother's matrix", Rounding::Nearest)?,
        shared: S::PRECISION == T::PRECISION,
    }))
}
