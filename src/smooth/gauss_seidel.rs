//! Multicolour Gauss-Seidel: rows that are not coupled have the same colour and are solved at the same time, colour
//! after colour. It is Gauss-Seidel in another order of the rows, so it converges for every SPD matrix. With a weight ω it is SOR: each unknown goes ω
//! times as far, x_i += ω D_i⁻¹ (b - A x)_i, which converges for 0 < ω < 2, too, and whose adjoint is the sweep in the opposite order with the same ω.

use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::parameters::Parameters;
use crate::backend::setup::Store;
use crate::backend::{Backend, Colours, Operator, Smoother, Sweep};
use crate::error::Result;
use crate::scalar::{Number, Scalar};

/// The option of ω.
pub const WEIGHT: &str = "amg.smoother.gauss_seidel.weight";

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

pub(super) struct GaussSeidel<B: Backend, V: Number> {
    colours: Box<dyn Colours<B, V>>,
    direction: Direction,
    /// Whether the inverse diagonal of the colours is multiplied by a weight.
    is_weighted: bool,
}

impl<B: Backend, V: Number> GaussSeidel<B, V> {
    /// In the direction that the options name. `weight` is that of the inverse diagonal of the colours.
    pub fn boxed(colours: Box<dyn Colours<B, V>>, weight: f64, parameters: &dyn Parameters) -> Box<dyn Smoother<B, V>> {
        let direction = Direction::from_name(&parameters.text("amg.smoother.gauss_seidel.direction"));
        Box::new(GaussSeidel { colours, direction, is_weighted: weight != 1.0 })
    }
}

impl<B: Backend, V: Number> Smoother<B, V> for GaussSeidel<B, V> {
    fn sweep(
        &self,
        backend: &B,
        _: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let (count, scratch) = (self.colours.count(), &mut scratch[0]);
        let backward = match self.direction {
            Direction::Forward => sweep.adjoint,
            Direction::Backward => !sweep.adjoint,
            Direction::Symmetric => false,
        };
        match sweep.zero_guess {
            true => self.colours.pass_from_zero(backend, count, backward, b, x, scratch)?,
            false => self.colours.pass(backend, count, backward, b, x, scratch)?,
        }
        if self.direction == Direction::Symmetric {
            // Where the last colour has just been solved for exactly, a second time would change nothing.
            let is_exact = self.colours.solves_exactly() && !self.is_weighted;
            let count = if is_exact { count.saturating_sub(1) } else { count };
            self.colours.pass(backend, count, true, b, x, scratch)?;
        }
        Ok(())
    }

    fn residual_from_zero(&self, backend: &B, x: &B::Slice<V>, r: &mut B::Slice<V>) -> Result<bool> {
        if self.is_weighted || self.direction == Direction::Symmetric {
            return Ok(false);
        }
        self.colours.residual_from_zero(backend, self.direction == Direction::Backward, x, r)
    }

    fn takes_multivectors(&self) -> bool {
        self.colours.takes_multivectors()
    }

    fn is_symmetric(&self) -> bool {
        self.direction == Direction::Symmetric
    }

    fn scratch(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        self.colours.bytes()
    }
}

/// The component. Keeps the matrix in the smoother's precision, which costs nothing where that is the precision of
/// set-up and both backends are the host.
pub struct GaussSeidelSetup;

impl<S: Store<B>, B: Backend> SmootherSetup<S, B> for GaussSeidelSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let weight = input.parameters.real(WEIGHT);
        Ok(GaussSeidel::boxed(input.colours::<N, V>(weight)?, weight, input.parameters))
    }
}
