//! Line relaxation on structured grids: Gauss-Seidel whose blocks are lines of cells. The unknowns of a line are solved for together, lines that are not
//! coupled have a colour, and one colour comes after the other: zebra order where two colours are enough. It smooths errors along a line however strong the
//! couplings along it are.

use super::gauss_seidel::{GaussSeidel, WEIGHT};
use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::setup::Store;
use crate::backend::{Backend, Colours, Smoother};
use crate::error::{Result, fail};
use crate::scalar::{Number, Scalar};

/// The lines along several axes, one axis after the other.
struct Alternating<B: Backend, V: Number>(Vec<Box<dyn Colours<B, V>>>);

impl<B: Backend, V: Number> Colours<B, V> for Alternating<B, V> {
    fn count(&self) -> usize {
        self.0.iter().map(|lines| lines.count()).sum()
    }

    fn solves_exactly(&self) -> bool {
        self.0.iter().all(|lines| lines.solves_exactly())
    }

    fn pass(
        &self,
        backend: &B,
        count: usize,
        backward: bool,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut B::Buffer<V>,
    ) -> Result<()> {
        for k in 0..self.0.len() {
            let k = if backward { self.0.len() - 1 - k } else { k };
            // Those of its colours that are among the first `count` of all.
            let earlier: usize = self.0[..k].iter().map(|lines| lines.count()).sum();
            let share = self.0[k].count().min(count.saturating_sub(earlier));
            self.0[k].pass(backend, share, backward, b, x, scratch)?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|lines| lines.bytes()).sum()
    }
}

/// The component.
pub struct LineSetup;

impl<S: Store<B>, B: Backend> SmootherSetup<S, B> for LineSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let weight = input.parameters.real(WEIGHT);
        if weight != 1.0 {
            return fail!(
                OptionValue,
                "{WEIGHT} is {weight}, and lines are solved for without a weight (option amg.smoother.type); set it to 1, or use \
                 \"gauss_seidel\""
            );
        }
        let lines = input.lines::<N, V>(&input.parameters.text("amg.smoother.line.axis"))?;
        Ok(GaussSeidel::boxed(Box::new(Alternating(lines)), weight, input.parameters))
    }
}
