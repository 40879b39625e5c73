//! Smoothing with a factorised sparse approximate inverse: x += w Gᵀ G (b - A x), where G A Gᵀ ≈ I. The weight keeps the
//! eigenvalues of w G A Gᵀ below 2.

use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::fsai::{Adaptive, FsaiFactor};
use crate::backend::parameters::Estimate;
use crate::backend::setup::{SetupMatrix, StorageHint, Store};
use crate::backend::spectrum::Largest;
use crate::backend::{Backend, Columns, Operator, Smoother, Sweep};
use crate::error::Result;
use crate::scalar::{Number, Scalar, Sums};

/// The weight times the largest eigenvalue of G A Gᵀ. Lanczos comes close to it from below.
const LARGEST: f64 = 1.7;

struct Fsai<B: Backend, V: Number> {
    g: Box<dyn Operator<B, V>>,
    transposed: Box<dyn Operator<B, V>>,
    weight: f64,
}

impl<B: Backend, V: Number> Smoother<B, V> for Fsai<B, V> {
    fn sweep(
        &self,
        _: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let [r, product] = scratch else { unreachable!("two vectors were asked for") };
        let (one, zero, weight) = (V::Wide::ONE, V::Wide::ZERO, V::Wide::from_f64(self.weight));
        if sweep.zero_guess {
            self.g.apply(one, b, zero, product)?;
            return self.transposed.apply(weight, product, zero, x);
        }
        a.residual(b, x, r)?;
        self.g.apply(one, r, zero, product)?;
        self.transposed.apply(weight, product, one, x)
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        2
    }

    fn bytes(&self) -> usize {
        self.g.bytes() + self.transposed.bytes()
    }
}

/// The component.
pub struct FsaiSetup;

impl<S: Store<B> + Store<S> + FsaiFactor, B: Backend> SmootherSetup<S, B> for FsaiSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let setup = input.setup;
        let a = setup.to_scalar(input.matrix()?)?;
        let g = setup.fsai_factor(&a, &Adaptive::new(input.parameters))?;
        let transposed = setup.transpose(&g)?;
        let largest = match input.spectrum.estimated.get() {
            Some(largest) => largest.value,
            None => {
                let largest = largest_eigenvalue(setup, Estimate::new(input.parameters).steps, &a, &g, &transposed)?;
                input.spectrum.estimated.get_or_init(|| largest).value
            }
        };
        let weight = if largest > LARGEST { LARGEST / largest } else { 1.0 };
        let (g, transposed) = (input.own_operator::<N, V>(&g)?, input.own_operator::<N, V>(&transposed)?);
        Ok(Box::new(Fsai { g, transposed, weight }))
    }
}

/// The largest eigenvalue of G A Gᵀ by Lanczos steps: with v = u/β, q = G A Gᵀ v, α = v·q, the next u is q - α v - β v' and the
/// next β its norm.
fn largest_eigenvalue<S: Store<S>, T: Scalar>(
    setup: &S,
    steps: usize,
    a: &S::Matrix<T>,
    g: &S::Matrix<T>,
    transposed: &S::Matrix<T>,
) -> Result<Largest> {
    let operator = |m: &S::Matrix<T>| {
        let hint = StorageHint { columns: Columns::Shared, sums: Sums::Wide };
        Store::<S>::operator::<T, T, T>(setup, setup, m.clone(), hint, &mut None)
    };
    let n = a.scalar_rows();
    let (u_start, [a, g, transposed]) =
        (setup.random_right_hand_side(a)?.1, [operator(a)?, operator(g)?, operator(transposed)?]);
    let mut vectors = [setup.zeros::<T>(n)?, setup.zeros::<T>(n)?, setup.zeros::<T>(n)?, setup.zeros::<T>(n)?];
    let [u, previous, q, work] = &mut vectors;
    // G maps a residual to numbers without a unit.
    setup.copy::<f64, T>(&u_start, work);
    g.apply(T::ONE, work, T::ZERO, u)?;
    let (mut alphas, mut betas): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut beta = setup.norm(u);
    for step in 0..steps.min(n) {
        if !(beta > 0.0 && beta.is_finite()) {
            break;
        }
        setup.scale(T::from_f64(1.0 / beta), u);
        transposed.apply(T::ONE, u, T::ZERO, q)?;
        a.apply(T::ONE, q, T::ZERO, work)?;
        g.apply(T::ONE, work, T::ZERO, q)?;
        let alpha = setup.dot(u, q);
        alphas.push(alpha);
        if step + 1 == steps.min(n) {
            break;
        }
        setup.axpby(T::from_f64(-alpha), u, T::ONE, q);
        if step > 0 {
            setup.axpby(T::from_f64(-beta), previous, T::ONE, q);
        }
        beta = setup.norm(q);
        let goes_on = beta > 1e-10 * alpha.abs();
        if !goes_on {
            break;
        }
        betas.push(beta);
        std::mem::swap(previous, u);
        std::mem::swap(u, q);
    }
    betas.truncate(alphas.len().saturating_sub(1));
    Ok(Largest::from_lanczos::<T>(&alphas, &betas, f64::INFINITY))
}
