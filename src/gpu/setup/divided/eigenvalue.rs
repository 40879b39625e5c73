//! The largest eigenvalue of D^-1 A where rows are divided among ranks: the steps of [`crate::host::eigenvalue`] with vectors on the device and their
//! inner products over all ranks. These are added in another order; estimates are rounded, so that they are the same.

use super::DeviceDivided;
use crate::backend::parameters::Estimate;
use crate::backend::spectrum::Largest;
use crate::backend::{Backend, Operator};
use crate::comm::Distribution;
use crate::error::Result;
use crate::gpu::runtime::BLOCK;
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::{Scalar, Sums};
use std::sync::Arc;

/// Threads of a row of the kernel for row sums, and most blocks of it.
const LANES: usize = 4;
const MAX_BLOCKS: usize = 1024;

/// A vector u of the dual space and z = D^-1 u.
struct Pair<'a, T: Scalar> {
    to: Gpu,
    over: &'a Arc<Distribution>,
    inverse: &'a Slice<T>,
    u: Buffer<T>,
    z: Buffer<T>,
}

impl<T: Scalar> Pair<'_, T> {
    /// Sets z, and gives u z.
    fn complete(&mut self) -> Result<f64> {
        let Pair { to, inverse, u, z, .. } = self;
        to.fill(T::ZERO, z);
        to.add_scaled_by(1, *inverse, u, z);
        self.dot(&self.u)
    }

    /// The product of z with a vector.
    fn dot(&self, q: &Slice<T>) -> Result<f64> {
        let product = self.to.dot(&*self.z, q);
        self.over.ranks.status()?;
        Ok(product)
    }
}

/// As [`super::super::eigenvalue::largest`]; `inverse` is that of the own rows. Collective.
pub(crate) fn largest<T: Scalar>(
    gpu: &Gpu,
    (over, a): (&Arc<Distribution>, &DeviceDivided<T>),
    estimate: &Estimate,
    inverse: &Slice<T>,
    earlier: Option<&Largest>,
) -> Result<Largest> {
    let to = gpu.over(over)?;
    let operator: Box<dyn Operator<Gpu, T>> = to.divided_operator(over, a, Sums::Wide)?;
    let n = a.rows.total * a.matrix.block.rows;
    let own = operator.rows();
    let first = over.own(n).start;
    let (u, z) = (gpu.allocate::<T>(own)?, gpu.allocate::<T>(own)?);
    let width = inverse.len() / own.max(1);
    let kernel = gpu.kernel(&format!("divided_eigen_start_{}", T::PRECISION.name()))?;
    gpu.launch(kernel, own, &[&(own as i64), &(first as i64), &(width as i32), &inverse.view(), &u.view()])?;
    let bound = bound(gpu, over, a, inverse, width)?;
    let mut pair = Pair { to, over, inverse, u, z };
    let mut square = pair.complete()?;
    let (mut q, mut previous) = (gpu.zeroed::<T>(own)?, gpu.zeroed::<T>(own)?);
    let of = |number: f64| T::from_f64(number);

    if !estimate.lanczos {
        let mut norm = square.abs().sqrt();
        for _ in 0..estimate.steps {
            if norm == 0.0 || !norm.is_finite() {
                norm = 0.0;
                break;
            }
            operator.apply(of(1.0 / norm), &pair.z, T::ZERO, &mut q)?;
            std::mem::swap(&mut pair.u, &mut q);
            norm = pair.complete()?.abs().sqrt();
        }
        return Ok(Largest::from_power::<T>(norm, bound));
    }
    // A negative definite A has a negative definite D: the estimate is that of -A.
    let sign = square.signum();
    let (mut beta, mut previous_beta) = ((sign * square).sqrt(), 1.0);
    let (mut alphas, mut betas): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let steps = if beta == 0.0 { 0 } else { estimate.steps.min(n) };
    for step in 0..steps {
        operator.apply(of(1.0 / beta), &pair.z, T::ZERO, &mut q)?;
        let alpha = sign * pair.dot(&q)? / beta;
        alphas.push(alpha);
        if let Some(largest) = earlier.and_then(|earlier| earlier.carried_over::<T>(&alphas, &betas, bound)) {
            return Ok(largest);
        }
        let settled = Largest::may_settle(step, steps, n).then(|| Largest::settled::<T>(&alphas, &betas, bound));
        if let Some(largest) = settled.flatten() {
            return Ok(largest);
        }
        if step + 1 == steps {
            break;
        }
        std::mem::swap(&mut pair.u, &mut previous);
        let (of_v, of_previous) = (of(alpha / beta), of(beta / previous_beta));
        pair.to.axpby(T::ONE, &q, -of_previous, &mut pair.u);
        pair.to.axpby(-of_v, &previous, T::ONE, &mut pair.u);
        square = pair.complete()?;
        previous_beta = beta;
        beta = (sign * square).sqrt();
        // Also ends where D is not definite, and its inner product none.
        if beta.is_nan() || beta <= 1e-10 * alpha.abs() || beta.is_infinite() {
            break;
        }
        betas.push(beta);
    }
    Ok(Largest::from_lanczos::<T>(&alphas, &betas, bound))
}

/// The largest row sum of D^-1 A. Collective.
fn bound<T: Scalar>(
    gpu: &Gpu,
    over: &Distribution,
    a: &DeviceDivided<T>,
    inverse: &Slice<T>,
    width: usize,
) -> Result<f64> {
    let own = a.own_matrix(gpu)?;
    let bound = gpu.zeroed::<u64>(1)?;
    let kernel = gpu.kernel(&format!("eigen_bound_{}_{LANES}", T::PRECISION.name()))?;
    let (rows, n, width) = (own.rows as i64, own.block.rows as i32, width as i32);
    let views = [own.offsets.view(), own.values.view(), inverse.view(), bound.view()];
    let [offsets, values, inverse, to] = &views;
    let blocks = (own.rows * LANES).div_ceil(BLOCK).min(MAX_BLOCKS);
    gpu.launch_blocks(kernel, blocks, &[&rows, &n, &width, offsets, values, inverse, to])?;
    let largest = over.max(f64::from_bits(gpu.fetch(&bound)?[0]));
    over.ranks.status()?;
    Ok(largest)
}
