//! The largest eigenvalue of D^-1 A, where D is the diagonal of A or its diagonal blocks, by a few Lanczos or power
//! steps. Both need nothing but products with A and D^-1: they run in the inner product of D, in which D^-1 A is
//! symmetric when A is.

use super::distributed::sums::Sums;
use super::stencil::{product, setup};
use super::strength::norm2;
use super::vector::{block_width, dot_piece, multiply_blocks};
use super::{Host, spmv};
use crate::backend::Backend;
use crate::backend::parameters::Estimate;
use crate::backend::spectrum::Largest;
use crate::comm::DividedLevel;
use crate::error::{Result, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView, SharedStencil};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows that stay in the cache of a processor while they are used for two things.
const STRIP: usize = 128;

impl Estimate {
    /// Estimates the largest eigenvalue of D^-1 A; never more than it when A and D are symmetric and D is definite.
    /// `inverse` is D^-1, one value for each scalar row or one block for each block row. 0 when D^-1 or A is zero.
    ///
    /// With an estimate of an earlier matrix, few steps tell whether this one is like it: the first Ritz values are
    /// moments of the whole spectrum, and a change in a few rows, which they would not show, shows in the largest row
    /// sum. Where the largest row sum is close to what the first steps lead to expect, they suffice.
    pub(crate) fn largest<T: Scalar>(
        &self,
        host: &Host,
        a: &dyn Products<T>,
        inverse: &[T],
        earlier: Option<&Largest>,
    ) -> Result<Largest> {
        match self.lanczos {
            true => lanczos(host, a, inverse, self.steps, earlier),
            false => power(host, a, inverse, self.steps),
        }
    }
}

/// Row i of D^-1 A in absolute values, summed, or in products of Frobenius norms where there are blocks: no eigenvalue
/// exceeds the largest.
fn row_sum<T: Scalar>(a: &CsrView<'_, T>, inverse: &[T], width: usize, i: usize) -> f64 {
    if a.block == Block::SCALAR {
        let sum: T = a.values[a.row_range(i)].iter().fold(T::ZERO, |sum, v| sum + v.abs());
        return inverse[i].to_f64().abs() * sum.to_f64();
    }
    let n = a.block.rows;
    let sum: f64 = a.row_range(i).map(|k| norm2(a, k).sqrt()).sum();
    let inverse = inverse[i * n * width..][..n * width].iter().map(|v| v.to_f64().abs());
    sum * if width == 1 { inverse.fold(0.0, f64::max) } else { inverse.map(|v| v * v).sum::<f64>().sqrt() }
}

/// y = alpha A x, and the largest row sum of D^-1 A: the rows of A are read from memory once for both.
fn product_and_bound<T: Scalar>(a: &CsrView<'_, T>, inverse: &[T], alpha: T, x: &[T], y: &mut [T]) -> f64 {
    let (n, width) = (a.block.rows, block_width(inverse, y));
    // Numbers that are not negative are ordered as their bits.
    let bound = AtomicU64::new(0);
    par::for_each_row_mut(y, n, par::ROW_GRAIN, |start, y| {
        let mut largest = 0.0;
        for (k, y) in y.chunks_mut(STRIP * n).enumerate() {
            let first = start + k * STRIP;
            let rows = first..first + y.len() / n;
            spmv::apply(&a.some_rows(rows.clone()), alpha, x, T::ZERO, y);
            largest = rows.map(|i| row_sum(a, inverse, width, i)).fold(largest, f64::max);
        }
        bound.fetch_max(largest.to_bits(), Ordering::Relaxed);
    });
    f64::from_bits(bound.into_inner())
}

/// A matrix that an eigenvalue is estimated for.
pub(crate) trait Products<T: Scalar>: Sync {
    /// Rows of all ranks.
    fn scalar_rows(&self) -> usize;
    /// y = alpha A x.
    fn apply(&self, alpha: T, x: &[T], y: &mut [T]);
    /// The same, and the largest row sum of D^-1 A.
    fn apply_and_bound(&self, inverse: &[T], alpha: T, x: &[T], y: &mut [T]) -> Result<f64>;
    /// Where the rows are divided among ranks, the part that is here.
    fn divided(&self) -> Option<&DividedProducts<'_, T>> {
        None
    }
}

/// The rows of this rank of a matrix. Vectors have own elements alone, but for those that are multiplied: they have as
/// many elements as there are local numbers.
pub(crate) struct DividedProducts<'a, T> {
    level: DividedLevel<'a>,
    /// The own rows.
    a: CsrView<'a, T>,
    sums: Sums<'a>,
}

impl<'a, T: Scalar> DividedProducts<'a, T> {
    /// Of a matrix with rows of ghosts, too, which are empty.
    pub fn new(level: DividedLevel<'a>, a: &CsrView<'a, T>) -> Result<DividedProducts<'a, T>> {
        let starts = level.over.starts(level.numbers.total * a.block.rows)?;
        let sums = Sums::new(level.over, starts);
        Ok(DividedProducts { level, a: a.some_rows(level.numbers.inside()), sums })
    }

    /// Where the own elements are among those of all local numbers.
    fn inside(&self) -> Range<usize> {
        let (inside, n) = (self.level.numbers.inside(), self.a.block.rows);
        inside.start * n..inside.end * n
    }
}

impl<T: Scalar> Products<T> for DividedProducts<'_, T> {
    fn scalar_rows(&self) -> usize {
        self.level.numbers.total * self.a.block.rows
    }

    fn apply(&self, alpha: T, x: &[T], y: &mut [T]) {
        spmv::apply(&self.a, alpha, x, T::ZERO, y);
    }

    fn apply_and_bound(&self, inverse: &[T], alpha: T, x: &[T], y: &mut [T]) -> Result<f64> {
        let over = self.level.over;
        let bound = over.max(product_and_bound(&self.a, inverse, alpha, x, y));
        over.ranks.status().map(|()| bound)
    }

    fn divided(&self) -> Option<&DividedProducts<'_, T>> {
        Some(self)
    }
}

impl<T: Scalar> Products<T> for CsrView<'_, T> {
    fn scalar_rows(&self) -> usize {
        CsrView::scalar_rows(self)
    }

    fn apply(&self, alpha: T, x: &[T], y: &mut [T]) {
        spmv::apply(self, alpha, x, T::ZERO, y);
    }

    fn apply_and_bound(&self, inverse: &[T], alpha: T, x: &[T], y: &mut [T]) -> Result<f64> {
        Ok(product_and_bound(self, inverse, alpha, x, y))
    }
}

impl<T: Scalar> Products<T> for SharedStencil<T> {
    fn scalar_rows(&self) -> usize {
        self.pattern.scalar_rows()
    }

    fn apply(&self, alpha: T, x: &[T], y: &mut [T]) {
        product::apply(self, alpha, x, y);
    }

    fn apply_and_bound(&self, inverse: &[T], alpha: T, x: &[T], y: &mut [T]) -> Result<f64> {
        product::apply(self, alpha, x, y);
        setup::row_bound(self, inverse)
    }
}

/// A vector u of the dual space and z = D^-1 u.
struct Pair<'a, T> {
    a: &'a dyn Products<T>,
    inverse: &'a [T],
    width: usize,
    u: Vec<T>,
    z: Vec<T>,
    /// Where the elements of u are in z.
    inside: Range<usize>,
}

impl<'a, T: Scalar> Pair<'a, T> {
    /// A random start that weighs all rows alike: u is random over the root of D^-1's diagonal. Also gives u z.
    fn start(a: &'a dyn Products<T>, inverse: &'a [T]) -> Result<(Pair<'a, T>, f64)> {
        // Random numbers are those of global numbers.
        let (inside, first, length) = match a.divided() {
            None => (0..a.scalar_rows(), 0, a.scalar_rows()),
            Some(divided) => (divided.inside(), divided.sums.own().start, divided.a.scalar_cols()),
        };
        let (u, z) = (try_vec(inside.len(), T::ZERO)?, try_vec(length, T::ZERO)?);
        let mut pair = Pair { a, inverse, width: block_width(inverse, &u), u, z, inside };
        let width = pair.width;
        let square = pair.fill(|start, u| {
            for (k, u) in u.iter_mut().enumerate() {
                let i = start + k;
                let random = (hash(first + i, 0) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
                let d = inverse[i * width + i % width].to_f64().abs();
                *u = T::from_f64(if d == 0.0 { 0.0 } else { random / d.sqrt() });
            }
        })?;
        Ok((pair, square))
    }

    /// Lets `work` set u, sets z and gives u z, all in one pass where the vectors are whole.
    fn fill(&mut self, work: impl Fn(usize, &mut [T]) + Sync) -> Result<f64> {
        let (of, inverse, width) = (self.a, self.inverse, self.width);
        let set = |start: usize, u: &mut [T], z: &mut [T]| {
            work(start, u);
            multiply_blocks(width, &inverse[start * width..], u, z, |du, z| *z = du);
        };
        let grain = par::GRAIN / width * width;
        let Some(DividedProducts { level, a, sums }) = of.divided() else {
            return Ok(par::sum_mut2(&mut self.u, &mut self.z, grain, |start, u, z| {
                set(start, u, z);
                dot_piece(u, z)
            }));
        };
        par::for_each_mut2(&mut self.u, &mut self.z[self.inside.clone()], grain, set);
        level.numbers.exchange(level.over, a.block.rows, &mut self.z)?;
        sums.dot(&self.u, &self.z[self.inside.clone()], grain)
    }

    /// z · q.
    fn dot(&self, host: &Host, q: &[T]) -> Result<f64> {
        match self.a.divided() {
            None => Ok(host.dot(&self.z, q)),
            Some(divided) => divided.sums.dot(&self.z[self.inside.clone()], q, par::GRAIN),
        }
    }
}

/// The largest eigenvalue of the tridiagonal matrix of α and β, where with v = u/β
/// q = A D^-1 v, α = v D^-1 q, the next u = q - α v - β v', and the next β is the norm of u.
fn lanczos<T: Scalar>(
    host: &Host,
    a: &dyn Products<T>,
    inverse: &[T],
    steps: usize,
    earlier: Option<&Largest>,
) -> Result<Largest> {
    let n = a.scalar_rows();
    let (mut pair, square) = Pair::start(a, inverse)?;
    let here = pair.u.len();
    // A negative definite A has a negative definite D: the estimate is that of -A.
    let sign = square.signum();
    let mut beta = (sign * square).sqrt();
    let mut previous = try_vec(here, T::ZERO)?;
    let mut previous_beta = 1.0;
    let mut q = try_vec(here, T::ZERO)?;
    let (mut alphas, mut betas): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let steps = if beta == 0.0 { 0 } else { steps.min(n) };
    let mut bound = 0.0;
    for step in 0..steps {
        let factor = T::from_f64(1.0 / beta);
        match step {
            0 => bound = a.apply_and_bound(inverse, factor, &pair.z, &mut q)?,
            _ => a.apply(factor, &pair.z, &mut q),
        }
        let alpha = sign * pair.dot(host, &q)? / beta;
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
        let (of_v, of_previous) = (T::from_f64(alpha / beta), T::from_f64(beta / previous_beta));
        let (v, q) = (&previous, &q);
        let square = pair.fill(|start, u| {
            for ((u, v), q) in u.iter_mut().zip(&v[start..]).zip(&q[start..]) {
                *u = *q - of_v * *v - of_previous * *u;
            }
        })?;
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

/// The growth of a vector's norm in the last product with D^-1 A.
fn power<T: Scalar>(host: &Host, a: &dyn Products<T>, inverse: &[T], steps: usize) -> Result<Largest> {
    let (mut pair, square) = Pair::start(a, inverse)?;
    let mut q = host.zeros(pair.u.len())?;
    let mut norm = square.abs().sqrt();
    let mut bound = 0.0;
    for step in 0..steps {
        if norm == 0.0 || !norm.is_finite() {
            norm = 0.0;
            break;
        }
        let factor = T::from_f64(1.0 / norm);
        match step {
            0 => bound = a.apply_and_bound(inverse, factor, &pair.z, &mut q)?,
            _ => a.apply(factor, &pair.z, &mut q),
        }
        let q = &q;
        norm = pair.fill(|start, u| u.copy_from_slice(&q[start..start + u.len()]))?.abs().sqrt();
    }
    Ok(Largest::from_power::<T>(norm, bound))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::diagonal;
    use crate::sparse::Csr;

    fn host() -> Host {
        Host::new(&Context::new("host:1").unwrap())
    }

    #[test]
    fn the_estimate_of_a_laplacian_is_close_from_below_whatever_its_sign_and_scaling() {
        let n = 200;
        for sign in [1.0, -1.0] {
            let d = |i: usize| 10.0_f64.powi((i % 7) as i32 - 3);
            let mut t = Vec::new();
            for i in 0..n {
                t.push((i, i, 2.0 * sign * d(i) * d(i)));
                if i > 0 {
                    let v = -sign * d(i) * d(i - 1);
                    t.extend([(i, i - 1, v), (i - 1, i, v)]);
                }
            }
            let a = Csr::from_triplets(n, n, &t).unwrap();
            let inverse = diagonal::inverse::<f64, f64>(&a.view(), 1, diagonal::AS_IT_IS).unwrap();
            for (lanczos, steps, least) in [(true, 12, 1.9), (true, 40, 1.99), (false, 12, 1.75), (false, 200, 1.98)] {
                let estimate = Estimate { lanczos, steps }.largest(&host(), &a.view(), &inverse, None).unwrap().value;
                assert!(estimate > least && estimate < 2.0, "{lanczos} {steps}: {estimate}");
            }
        }
    }

    #[test]
    fn blocks_are_taken_into_account() {
        // Diagonal blocks (2 1; 1 2), coupled by c times the same block: the eigenvalues of D^-1 A are 1 + c and 1 - c.
        let t: Vec<_> = (0..4)
            .flat_map(|i| (0..4).map(move |j| (i, j)))
            .map(|(i, j)| (i, j, (if i % 2 == j % 2 { 2.0 } else { 1.0 }) * if i / 2 == j / 2 { 1.0 } else { 0.25 }))
            .collect();
        let a = Csr::from_triplets(4, 4, &t).unwrap().view().to_blocks(2).unwrap();
        let inverse = diagonal::inverse::<f64, f64>(&a.view(), 2, diagonal::AS_IT_IS).unwrap();
        for (lanczos, steps) in [(true, 12), (false, 60)] {
            let estimate = Estimate { lanczos, steps }.largest(&host(), &a.view(), &inverse, None).unwrap().value;
            assert!((estimate - 1.25).abs() < 1e-6, "{estimate}");
        }
    }

    #[test]
    fn point_and_block_estimates_of_elasticity_bound_the_rayleigh_quotients_of_their_own_scaling() {
        let a = gallery::elasticity_hex8(4, gallery::Layers::NONE, true).unwrap().matrix;
        for width in [1, 3] {
            let inverse = diagonal::inverse::<f64, f64>(&a.view(), width, diagonal::AS_IT_IS).unwrap();
            let few = Estimate { lanczos: true, steps: 12 }.largest(&host(), &a.view(), &inverse, None).unwrap().value;
            let many =
                Estimate { lanczos: false, steps: 2000 }.largest(&host(), &a.view(), &inverse, None).unwrap().value;
            assert!(few <= many * (1.0 + 1e-6) && few > 0.95 * many, "{few} {many}");
        }
    }

    #[test]
    fn nothing_has_no_eigenvalue() {
        let a = Csr::<f64>::from_triplets(2, 2, &[(0, 1, 1.0), (1, 0, 1.0)]).unwrap();
        for lanczos in [true, false] {
            let largest = Estimate { lanczos, steps: 12 }.largest(&host(), &a.view(), &[0.0; 2], None).unwrap();
            assert_eq!(largest.value, 0.0);
        }
    }

    /// 5-point Laplacian with this coupling in the second direction, and D^-1.
    fn laplacian(coupling: f64) -> (Csr<f64>, Vec<f64>) {
        let mut a = gallery::poisson5(60, 60).unwrap();
        for i in 0..a.rows {
            for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                let far = a.columns[k].abs_diff(i as i32) > 1;
                a.values[k] = if a.columns[k] as usize == i {
                    2.0 + 2.0 * coupling
                } else if far {
                    -coupling
                } else {
                    -1.0
                };
            }
        }
        let inverse = diagonal::inverse::<f64, f64>(&a.view(), 1, diagonal::AS_IT_IS).unwrap();
        (a, inverse)
    }

    #[test]
    fn an_estimate_is_carried_over_to_a_matrix_like_the_earlier_one_only() {
        let estimate = Estimate { lanczos: true, steps: 12 };
        let find = |(a, inverse): &(Csr<f64>, Vec<f64>), earlier: Option<&Largest>| {
            estimate.largest(&host(), &a.view(), inverse, earlier).unwrap()
        };
        let carried = |from: &Largest, to: &Largest| std::sync::Arc::ptr_eq(&from.found, &to.found);
        let usual = laplacian(1.0);
        let first = find(&usual, None);

        let again = find(&usual, Some(&first));
        assert!(carried(&first, &again) && again.value.to_bits() == first.value.to_bits());
        assert!(carried(&first, &find(&laplacian(1.02), Some(&first))));

        // All rows change, or a single one in a way that moves the largest eigenvalue.
        let other = laplacian(0.1);
        let anew = find(&other, Some(&first));
        assert!(!carried(&first, &anew) && anew.value.to_bits() == find(&other, None).value.to_bits());
        let (a, mut inverse) = laplacian(1.0);
        inverse[1800] *= 2.0;
        let anew = find(&(a, inverse), Some(&first));
        assert!(!carried(&first, &anew) && anew.value > 2.2, "{}", anew.value);
    }
}
