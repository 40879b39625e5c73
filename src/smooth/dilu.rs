//! Multicolour DILU: x += w M⁻¹ (b - A x) with M = (E + L) E⁻¹ (E + U), in the order of the colours of multicolour Gauss-Seidel, whose passes it is made of.
//!
//! The pass with E⁻¹ instead of the inverse diagonal D⁻¹ solves (E + L) y = r from y = 0. Backward, it subtracts from y_i the terms of all neighbours
//! and of a_ii y_i, so that (D + L) y is the right-hand side that leaves those of later colours. That is r + (D - E) y, because (E + L) y = r.

use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::dilu::{DiluPivots, Pivots};
use crate::backend::setup::{Rounding, Setup, Store, Stored};
use crate::backend::{Backend, Colours, Operator, Smoother, Sweep};
use crate::error::Result;
use crate::scalar::{Number, Scalar};

struct Dilu<B: Backend, S: Number, V: Number> {
    /// The matrix by colours, with E⁻¹.
    colours: Box<dyn Colours<B, V>>,
    /// D - E; none where the diagonal of the matrix is E.
    lost: Option<B::Buffer<S>>,
    rows: usize,
    weight: f64,
}

impl<B: Backend, S: Number, V: Number> Smoother<B, V> for Dilu<B, S, V> {
    fn sweep(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let [r, y, work] = scratch else { unreachable!("three vectors were asked for") };
        if sweep.zero_guess {
            backend.copy(b, r);
        } else {
            a.residual(b, x, r)?;
        }
        let count = self.colours.count();
        backend.fill(V::ZERO, y);
        self.colours.pass(backend, count, false, r, y, work)?;
        if let Some(lost) = &self.lost {
            backend.add_scaled_by(1, lost, y, r);
        }
        // The last colour has no later ones.
        self.colours.pass(backend, count.saturating_sub(1), true, r, y, work)?;
        let beta = if sweep.zero_guess { V::Wide::ZERO } else { V::Wide::ONE };
        backend.axpby(V::Wide::from_f64(self.weight), y, beta, x);
        Ok(())
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        3
    }

    fn bytes(&self) -> usize {
        self.colours.bytes() + self.rows * S::PRECISION.bytes()
    }
}

/// The sweep with factors whose diagonal is E, with E⁻¹ for passes.
pub(super) fn with_factors<B: Backend, S: Number, V: Number>(
    colours: Box<dyn Colours<B, V>>,
    weight: f64,
) -> Box<dyn Smoother<B, V>> {
    Box::new(Dilu::<B, S, V> { colours, lost: None, rows: 0, weight })
}

/// The component. Block matrices are converted to scalar ones.
pub struct DiluSetup;

impl<S: Store<B> + DiluPivots, B: Backend> SmootherSetup<S, B> for DiluSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let is_shared = input.stores_matrix && input.is_as_given() && N::PRECISION == T::PRECISION;
        let weight = input.parameters.real("amg.smoother.dilu.weight");
        let factors = stored::<S, B, T, N>(input)?;
        made(input.setup, input.to, factors, is_shared, (input.scalar_rows(), weight))
    }
}

/// The matrix and the pivots in the smoother's format.
type Factors<S, N> = (<S as Setup>::Matrix<N>, Pivots<<S as Setup>::Colouring, <S as Backend>::Buffer<N>>);

/// What does not depend on the vectors.
fn stored<S: Store<B> + DiluPivots, B: Backend, T: Scalar, N: Number>(
    input: &SmootherInput<'_, S, B, T>,
) -> Result<Factors<S, N>> {
    let setup = input.setup;
    let a = setup.to_scalar(input.matrix()?)?;
    let Pivots { colouring, inverse, lost } = setup.dilu_pivots(&a)?;
    let which = Stored { what: "smoother's matrix", level: input.level, may_vanish: true };
    let matrix = setup.stored::<T, N>(&a, Rounding::PLAIN, which, input.checks)?;
    let inverse = setup.stored_array::<T, N>(&inverse, 1.0, input.level, input.checks)?;
    let lost = setup.stored_array::<T, N>(&lost, 1.0, input.level, input.checks)?;
    Ok((matrix, Pivots { colouring, inverse, lost }))
}

/// What does not depend on the precision of set-up.
fn made<S: Store<B> + DiluPivots, B: Backend, N: Number, V: Number>(
    setup: &S,
    to: &B,
    (matrix, pivots): Factors<S, N>,
    is_shared: bool,
    (rows, weight): (usize, f64),
) -> Result<Box<dyn Smoother<B, V>>> {
    let Pivots { colouring, inverse, lost } = pivots;
    let colours = setup.colours(to, matrix, inverse, Some(colouring), is_shared)?;
    Ok(Box::new(Dilu::<B, N, V> { colours, lost: Some(setup.array(to, lost)?), rows, weight }))
}
