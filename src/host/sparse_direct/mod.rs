//! A sparse direct solver on the host: minimum degree ordering, multifrontal LLᵀ or LDLᵀ for symmetric matrices, LU with
//! threshold pivoting for others, the same for full matrices without an ordering, and iterative refinement.
//!
//! The matrix is scaled by powers of two from both sides, so that its units do not matter. [`Plan`] tells the cost
//! before any numeric work. Results do not depend on the number of threads.

mod cholesky;
mod dense_cholesky;
pub(super) mod dense_inverse;
mod dense_lu;
mod front;
mod inverse;
mod lu;
mod ordering;
mod pattern;
mod residual;
mod scales;
mod symbolic;
pub(super) mod symmetric_inverse;
#[cfg(feature = "unit-tests")]
mod tests;

pub use cholesky::ZeroPivots;
pub use inverse::SparseInverse;

use super::transpose::transpose;
use crate::error::{Error, Result, Status, try_vec};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView};
use cholesky::{Analysis, Cholesky, Failure};
use dense_cholesky::DenseCholesky;
use dense_lu::DenseLu;
use lu::Lu;
use pattern::{Pattern, columns_of};
use residual::Sum;
use scales::Scales;
use std::sync::Arc;
use symbolic::{Symbolic, Tree};

/// A matrix is symmetric when entries (i, j) and (j, i) differ by at most this share of the root of the product of their
/// diagonal entries, or of the larger one where that is larger.
const SYMMETRY: f64 = 1e-10;

/// The diagonal is the pivot of LU down to this share of the largest entry, for a matrix whose diagonal has no zeros and
/// whose pattern is close to symmetric; otherwise down to `GENERAL`.
const DIAGONAL: f64 = 0.01;
const GENERAL: f64 = 0.1;

/// A matrix is full when it has this share of all entries, and more than a few rows. A search for zeros would then find few.
const FULL: f64 = 0.25;
const FULL_ROWS: usize = 64;

/// Most steps of iterative refinement.
const REFINEMENTS: usize = 10;

/// The order of elimination, and what a factorisation costs. It depends on the pattern, and on whether the values are
/// symmetric.
pub struct Plan {
    /// Rows of the matrix, in scalars.
    rows: usize,
    /// Stored values of the matrix.
    entries: usize,
    order: Order,
    /// Entries of the triangular factors.
    fill: usize,
    flops: f64,
}

enum Order {
    /// For LLᵀ and LDLᵀ.
    Symmetric(Arc<Analysis>),
    /// Columns for LU, and the threshold for pivots on the diagonal.
    Columns(Vec<i32>, f64),
    /// That of the matrix, for the dense factorisations.
    Dense {
        /// Whether it is for LLᵀ and LDLᵀ.
        symmetric: bool,
    },
}

/// What a factorisation is, as reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// LLᵀ of a symmetric positive definite matrix.
    Cholesky,
    /// LDLᵀ of a symmetric matrix with so many negative pivots.
    Ldl {
        /// Negative eigenvalues of the matrix.
        negative: usize,
    },
    /// LU of any other matrix.
    Lu,
    /// LLᵀ of a full matrix.
    DenseCholesky,
    /// LDLᵀ of a full matrix.
    DenseLdl {
        /// Negative eigenvalues of the matrix.
        negative: usize,
    },
    /// LU of a full matrix.
    DenseLu,
}

impl Method {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Cholesky => "sparse Cholesky",
            Method::Ldl { .. } => "sparse LDLᵀ",
            Method::Lu => "sparse LU",
            Method::DenseCholesky => "dense Cholesky",
            Method::DenseLdl { .. } => "dense LDLᵀ",
            Method::DenseLu => "dense LU",
        }
    }

    /// Negative eigenvalues of a symmetric matrix; 0 where they are not known.
    pub fn negative(self) -> usize {
        match self {
            Method::Ldl { negative } | Method::DenseLdl { negative } => negative,
            _ => 0,
        }
    }
}

/// A matrix with its factors.
pub struct SparseDirect {
    plan: Plan,
    a: Csr<f64>,
    /// Its transpose, from the first solve with that on.
    transpose: Option<Csr<f64>>,
    /// Whether solves and residuals are those of the transpose.
    is_transposed: bool,
    factor: Factor,
    scales: Scales,
    zero_pivots: ZeroPivots,
    /// The residual, and what is solved in place.
    r: Vec<f64>,
    work: Vec<f64>,
    better: Vec<f64>,
}

enum Factor {
    Cholesky(Cholesky),
    DenseCholesky(DenseCholesky),
    Lu(Lu),
    DenseLu(DenseLu),
}

/// The result of a solve.
#[derive(Clone, Copy, Debug)]
pub struct Solution {
    /// |b - A x| / |b| in the 2-norm; 0 where b is zero.
    pub residual: f64,
    /// Steps of iterative refinement that made it smaller.
    pub refinements: usize,
    /// The residuals after the first solve and after each of these steps.
    pub residuals: [f64; REFINEMENTS + 1],
    /// |b|.
    pub norm_b: f64,
}

impl Plan {
    /// Orders a square matrix.
    pub fn new<T: Scalar>(a: &CsrView<'_, T>) -> Result<Plan> {
        Scalars::new(a).and_then(|scalars| Plan::of_scalars(&scalars))
    }

    /// The same for a copy of the matrix that is at hand.
    pub fn of_scalars(Scalars { a, transpose }: &Scalars) -> Result<Plan> {
        Plan::of(a, transpose, is_symmetric(a, transpose))
    }

    fn of(a: &Csr<f64>, transpose: &Csr<f64>, symmetric: bool) -> Result<Plan> {
        let (rows, entries) = (a.rows, a.columns.len());
        if rows >= FULL_ROWS && entries as f64 >= FULL * (rows as f64).powi(2) {
            let (fill, factor) = if symmetric { (rows * (rows + 1) / 2, 1.0) } else { (rows * rows, 2.0) };
            let flops = factor / 3.0 * (rows as f64).powi(3);
            return Ok(Plan { rows, entries, order: Order::Dense { symmetric }, fill, flops });
        }
        if symmetric {
            let pattern = Pattern::sum(a, transpose)?;
            let tree = Tree::new(&pattern, &ordering::minimum_degree(&pattern)?)?;
            let (fill, flops) = (tree.fill(), tree.flops());
            let analysis = Analysis::new(a, Symbolic::new(&pattern, tree)?)?;
            return Ok(Plan { rows, entries, order: Order::Symmetric(Arc::new(analysis)), fill, flops });
        }
        let (pattern, threshold) = if prefers_diagonal(a, transpose) {
            (Pattern::sum(a, transpose)?, DIAGONAL)
        } else {
            let dense = (10.0 * (rows as f64).sqrt()).max(16.0) as usize;
            (Pattern::product(a, transpose, dense)?, GENERAL)
        };
        let tree = Tree::new(&pattern, &ordering::minimum_degree(&pattern)?)?;
        let (fill, flops) = (2 * tree.fill() - rows, 2.0 * tree.flops());
        Ok(Plan { rows, entries, order: Order::Columns(tree.order, threshold), fill, flops })
    }

    /// Whether the matrix is symmetric.
    pub fn is_symmetric(&self) -> bool {
        matches!(self.order, Order::Symmetric(_) | Order::Dense { symmetric: true })
    }

    /// Entries of the triangular factors. Exact for a symmetric matrix, an estimate for LU.
    pub fn fill(&self) -> usize {
        self.fill
    }

    /// Floating-point operations of the factorisation. Exact for a symmetric matrix, an estimate for LU.
    pub fn flops(&self) -> f64 {
        self.flops
    }

    /// Bytes of matrix, factor and work vectors.
    pub fn bytes(&self) -> usize {
        let vectors = 5 * self.rows * size_of::<f64>();
        let matrix = self.entries * (size_of::<f64>() + size_of::<i32>()) + (self.rows + 1) * size_of::<i64>();
        let factor = match &self.order {
            Order::Symmetric(analysis) => analysis.stored() * size_of::<f64>() + analysis.bytes(),
            // Threshold pivoting fills more than the estimate, and columns grow by doubling.
            Order::Columns(..) => 5 * self.fill / 3 * (size_of::<f64>() + size_of::<i32>()) + 24 * self.rows,
            Order::Dense { symmetric: true } => dense_cholesky::stored(self.rows) * size_of::<f64>(),
            Order::Dense { symmetric: false } => (self.fill + self.rows) * size_of::<f64>(),
        };
        vectors + matrix + factor
    }

    /// Bytes that the numeric phase takes beside them.
    pub fn temporary_bytes(&self) -> usize {
        match &self.order {
            Order::Symmetric(analysis) => analysis.stack * size_of::<f64>(),
            Order::Dense { symmetric: true } => dense_cholesky::temporary(self.rows) * size_of::<f64>(),
            Order::Columns(..) | Order::Dense { symmetric: false } => 0,
        }
    }

    /// Factorises the matrix that it was made for, or one with the same pattern.
    pub fn factorise<T: Scalar>(self, a: &CsrView<'_, T>, zero_pivots: ZeroPivots) -> Result<SparseDirect> {
        self.factorise_scalars(Scalars::new(a)?, zero_pivots)
    }

    /// The same for a copy of the matrix that is at hand.
    pub fn factorise_scalars(self, Scalars { a, transpose }: Scalars, zero_pivots: ZeroPivots) -> Result<SparseDirect> {
        let n = a.rows;
        let scales = Scales::new(n)?;
        let (r, work, better) = (try_vec(n, 0.0)?, try_vec(n, 0.0)?, try_vec(n, 0.0)?);
        let (plan, factor, scales) = factorise(self, &a, &transpose, scales, zero_pivots, None)?;
        let (transpose, is_transposed) = (None, false);
        Ok(SparseDirect { plan, a, transpose, is_transposed, factor, scales, zero_pivots, r, work, better })
    }
}

/// The factor of a matrix; a symmetric one that needs pivoting for size is factorised as any other. An earlier factor
/// with the same plan gives its memory.
fn factorise(
    mut plan: Plan,
    a: &Csr<f64>,
    transpose: &Csr<f64>,
    mut scales: Scales,
    zero_pivots: ZeroPivots,
    earlier: Option<Factor>,
) -> Result<(Plan, Factor, Scales)> {
    if plan.is_symmetric() {
        scales.by_diagonal(a);
        let scale = &*scales.rows;
        let made = match (&plan.order, earlier) {
            (_, Some(Factor::Cholesky(mut factor))) => {
                factor.numeric(a, scale, zero_pivots).map(|()| Factor::Cholesky(factor))
            }
            (_, Some(Factor::DenseCholesky(mut factor))) => {
                factor.numeric((a, transpose), scale, zero_pivots).map(|()| Factor::DenseCholesky(factor))
            }
            (Order::Symmetric(analysis), _) => Cholesky::new(analysis, a, scale, zero_pivots).map(Factor::Cholesky),
            _ => DenseCholesky::new((a, transpose), scale, zero_pivots).map(Factor::DenseCholesky),
        };
        match made {
            Ok(factor) => return Ok((plan, factor, scales)),
            Err(Failure::NeedsPivoting) => plan = Plan::of(a, transpose, false)?,
            Err(failure) => return Err(error(failure)),
        }
    }
    scales.by_largest(a, transpose);
    let by = (&*scales.rows, &*scales.columns);
    let factor = match &plan.order {
        Order::Columns(order, threshold) => {
            let lu = Lu::new(transpose, order, by, *threshold).map_err(error)?;
            plan.fill = lu.fill();
            Factor::Lu(lu)
        }
        Order::Dense { .. } => Factor::DenseLu(DenseLu::new(transpose, by).map_err(error)?),
        Order::Symmetric(_) => unreachable!("the plan is for any matrix"),
    };
    Ok((plan, factor, scales))
}

/// The error of a failed factorisation.
fn error(failure: Failure) -> Error {
    let message = match failure {
        Failure::Error(error) => return error,
        Failure::NeedsPivoting => unreachable!("LU chooses pivots by size"),
        Failure::Singular(row) => format!(
            "the matrix is singular to rounding: no pivot is left for unknown {row} in its sparse factorisation; a \
             consistent system is solved by a Krylov method, with solver.null_space where its null space is known"
        ),
    };
    Error::new(Status::Breakdown, message)
}

impl SparseDirect {
    /// Orders and factorises a square matrix.
    pub fn new<T: Scalar>(a: &CsrView<'_, T>, zero_pivots: ZeroPivots) -> Result<SparseDirect> {
        let scalars = Scalars::new(a)?;
        Plan::of_scalars(&scalars)?.factorise_scalars(scalars, zero_pivots)
    }

    /// Factorises new values of the matrix; the pattern is the same. The order is kept, unless the matrix has become or
    /// is no longer symmetric. It is consumed because a factor of the old values is of no use after a failure.
    pub fn update<T: Scalar>(self, a: &CsrView<'_, T>) -> Result<SparseDirect> {
        let SparseDirect { plan, factor, scales, zero_pivots, r, work, better, .. } = self;
        let Scalars { a, transpose } = Scalars::new(a)?;
        let symmetric = is_symmetric(&a, &transpose);
        let (plan, earlier) = match (factor, symmetric) {
            (factor @ (Factor::Cholesky(_) | Factor::DenseCholesky(_)), true) => (plan, Some(factor)),
            (Factor::Lu(_) | Factor::DenseLu(_), false) => (plan, None),
            (_, symmetric) => (Plan::of(&a, &transpose, symmetric)?, None),
        };
        let (plan, factor, scales) = factorise(plan, &a, &transpose, scales, zero_pivots, earlier)?;
        let (transpose, is_transposed) = (None, false);
        Ok(SparseDirect { plan, a, transpose, is_transposed, factor, scales, zero_pivots, r, work, better })
    }

    /// Solves with the transpose from now on, by the same factors, or with the matrix again. The first time the matrix is
    /// transposed, for residuals; the copy is kept until an update.
    pub fn set_transposed(&mut self, is_transposed: bool) -> Result<()> {
        if is_transposed && self.transpose.is_none() {
            self.transpose = Some(transpose(&self.a.view())?);
        }
        self.is_transposed = is_transposed;
        Ok(())
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.a.rows
    }

    /// The kind of factorisation.
    pub fn method(&self) -> Method {
        match &self.factor {
            Factor::Cholesky(factor) if factor.inertia.negative == 0 => Method::Cholesky,
            Factor::Cholesky(factor) => Method::Ldl { negative: factor.inertia.negative },
            Factor::DenseCholesky(factor) if factor.inertia.negative == 0 => Method::DenseCholesky,
            Factor::DenseCholesky(factor) => Method::DenseLdl { negative: factor.inertia.negative },
            Factor::Lu(_) => Method::Lu,
            Factor::DenseLu(_) => Method::DenseLu,
        }
    }

    /// Zero pivots that were left out.
    pub fn left_out(&self) -> usize {
        match &self.factor {
            Factor::Cholesky(factor) => factor.inertia.left_out,
            Factor::DenseCholesky(factor) => factor.inertia.left_out,
            Factor::Lu(_) | Factor::DenseLu(_) => 0,
        }
    }

    /// The smallest pivot of the scaled matrix, whose diagonal or largest entries are about 1.
    pub fn smallest_pivot(&self) -> f64 {
        match &self.factor {
            Factor::Cholesky(factor) => factor.inertia.smallest,
            Factor::DenseCholesky(factor) => factor.inertia.smallest,
            Factor::Lu(factor) => factor.smallest(),
            Factor::DenseLu(factor) => factor.smallest(),
        }
    }

    /// Entries of the triangular factors.
    pub fn fill(&self) -> usize {
        self.plan.fill
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let of = |a: &Csr<f64>| {
            size_of_val(a.values.as_slice()) + size_of_val(a.columns.as_slice()) + size_of_val(a.offsets.as_slice())
        };
        let matrix = of(&self.a) + self.transpose.as_ref().map_or(0, of);
        let factor = match &self.factor {
            Factor::Cholesky(factor) => factor.bytes(),
            Factor::DenseCholesky(factor) => factor.bytes(),
            Factor::Lu(factor) => factor.bytes(),
            Factor::DenseLu(factor) => factor.bytes(),
        };
        matrix + factor + 5 * size_of_val(self.r.as_slice())
    }

    /// A⁻¹ b by the factors alone, without refinement.
    pub fn inverse_times(&mut self, b: impl Iterator<Item = f64>) -> &[f64] {
        self.r.iter_mut().zip(b).for_each(|(to, b)| *to = b);
        self.backsolve();
        &self.work
    }

    /// r = b - A x, or with the transpose. Returns the largest row of |A| |x| + |b|.
    fn subtract(&mut self, b: &[f64], x: &[f64], sum: Sum) -> f64 {
        let a = self.transpose.as_ref().filter(|_| self.is_transposed).unwrap_or(&self.a);
        residual::residual(a, b, x, &mut self.r, sum)
    }

    /// Solves for one right-hand side in f64, and refines until the residual is at most `tolerance` times |b| and no
    /// larger than the rounding of A x, or no longer falls. Where it stops falling above the tolerance, residuals are
    /// computed with compensated sums from there on. Allocates nothing.
    pub fn solve(&mut self, b: &[f64], x: &mut [f64], tolerance: f64) -> Solution {
        assert!(b.len() == self.rows() && x.len() == self.rows());
        let size = max_norm(b);
        if size == 0.0 || !size.is_finite() {
            x.fill(if size == 0.0 { 0.0 } else { f64::NAN });
            return Solution { residual: size, refinements: 0, residuals: [size; REFINEMENTS + 1], norm_b: size };
        }
        let relative_b = norm(b, size);
        x.fill(0.0);
        self.r.copy_from_slice(b);
        let norm_b = size * relative_b;
        let residuals = [f64::INFINITY; REFINEMENTS + 1];
        let mut solution = Solution { residual: f64::INFINITY, refinements: 0, residuals, norm_b };
        let mut sum = Sum::Plain;
        for step in 0..=REFINEMENTS {
            self.backsolve();
            for ((better, x), d) in self.better.iter_mut().zip(&*x).zip(&self.work) {
                *better = x + d;
            }
            let better = std::mem::take(&mut self.better);
            let rounding = self.subtract(b, &better, sum);
            self.better = better;
            let next = norm(&self.r, size) / relative_b;
            if next.is_nan() {
                break;
            }
            let slow = next > 0.5 * solution.residual;
            if next < solution.residual {
                x.copy_from_slice(&self.better);
                (solution.residual, solution.refinements) = (next, step);
            }
            solution.residuals[step] = solution.residual;
            let is_exact = next <= tolerance && max_norm(&self.r) <= 4.0 * f64::EPSILON * rounding;
            if is_exact || slow && (sum == Sum::Compensated || solution.residual <= tolerance) {
                break;
            }
            if slow && sum == Sum::Plain {
                // The rounding of the residual is what is left of it.
                sum = Sum::Compensated;
                self.subtract(b, x, sum);
                solution.residual = norm(&self.r, size) / relative_b;
            }
        }
        solution
    }

    /// |b - A x| / |b|.
    pub fn residual(&mut self, b: &[f64], x: &[f64]) -> f64 {
        self.subtract(b, x, Sum::Plain);
        let size = max_norm(b);
        norm(&self.r, size) / norm(b, size)
    }

    /// Solves A `work` = `r`, or with the transpose.
    fn backsolve(&mut self) {
        let SparseDirect { factor, scales, r, work, is_transposed, .. } = self;
        let (mut row_scale, mut column_scale) = (&scales.rows, &scales.columns);
        if *is_transposed {
            std::mem::swap(&mut row_scale, &mut column_scale);
        }
        match factor {
            Factor::Cholesky(factor) => {
                let analysis = Arc::clone(&factor.analysis);
                let order = &analysis.symbolic.tree.order;
                // The solution is in the order of elimination, so r holds it until it is copied back.
                for (to, i) in work.iter_mut().zip(order) {
                    *to = r[*i as usize] * row_scale[*i as usize];
                }
                factor.solve(work);
                r.copy_from_slice(work);
                for (v, i) in r.iter().zip(order) {
                    work[*i as usize] = v * row_scale[*i as usize];
                }
            }
            Factor::DenseCholesky(_) | Factor::Lu(_) | Factor::DenseLu(_) => {
                for ((to, r), scale) in work.iter_mut().zip(&*r).zip(row_scale) {
                    *to = r * scale;
                }
                match (factor, is_transposed) {
                    (Factor::DenseCholesky(factor), _) => factor.solve(work),
                    (Factor::Lu(factor), true) => factor.solve_transposed(work),
                    (Factor::Lu(factor), false) => factor.solve(work),
                    (Factor::DenseLu(factor), true) => factor.solve_transposed(work),
                    (Factor::DenseLu(factor), false) => factor.solve(work),
                    (Factor::Cholesky(_), _) => unreachable!("it has another order"),
                }
                work.iter_mut().zip(column_scale).for_each(|(v, scale)| *v *= scale);
            }
        }
    }
}

fn max_norm(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |m, v| if v.abs() > m || v.is_nan() { v.abs() } else { m })
}

/// The 2-norm, of numbers about as large as `size`, over `size`.
fn norm(x: &[f64], size: f64) -> f64 {
    x.iter().map(|v| (v / size).powi(2)).sum::<f64>().sqrt()
}

/// A copy of a matrix in scalars and f64 with sorted rows, and its transpose.
pub struct Scalars {
    a: Csr<f64>,
    transpose: Csr<f64>,
}

impl Scalars {
    /// Copies a matrix.
    pub fn new<T: Scalar>(a: &CsrView<'_, T>) -> Result<Scalars> {
        let mut own = a.to_owned_as::<f64>()?;
        if own.block != Block::SCALAR {
            own = own.view().to_scalar()?;
        }
        let transposed = transpose(&own.view())?;
        if !(0..own.rows).all(|i| columns_of(&own, i).is_sorted()) {
            own = transpose(&transposed.view())?;
        }
        Ok(Scalars { a: own, transpose: transposed })
    }
}

fn entry(a: &Csr<f64>, i: usize, j: usize) -> f64 {
    match columns_of(a, i).binary_search(&(j as i32)) {
        Ok(k) => a.values[a.offsets[i] as usize + k],
        Err(_) => 0.0,
    }
}

/// Whether values are symmetric to rounding.
fn is_symmetric(a: &Csr<f64>, transpose: &Csr<f64>) -> bool {
    let n = a.rows;
    (0..n).all(|i| {
        let of = |a: &Csr<f64>| a.offsets[i] as usize..a.offsets[i + 1] as usize;
        let same = columns_of(a, i) == columns_of(transpose, i) && a.values[of(a)] == transpose.values[of(transpose)];
        if same {
            return true;
        }
        let own = entry(a, i, i).abs().sqrt();
        let entries = a.offsets[i] as usize..a.offsets[i + 1] as usize;
        entries.into_iter().all(|k| {
            let j = a.columns[k] as usize;
            let (v, mirrored) = (a.values[k], entry(transpose, i, j));
            let size = || (own * entry(a, j, j).abs().sqrt()).max(v.abs()).max(mirrored.abs());
            v == mirrored || (v - mirrored).abs() <= SYMMETRY * size()
        })
    })
}

/// Whether no diagonal entry is zero and most entries have a mirrored one.
fn prefers_diagonal(a: &Csr<f64>, transpose: &Csr<f64>) -> bool {
    let mirrored: usize = (0..a.rows)
        .map(|i| columns_of(a, i).iter().filter(|j| columns_of(transpose, i).binary_search(j).is_ok()).count())
        .sum();
    2 * mirrored >= a.columns.len() && (0..a.rows).all(|i| entry(a, i, i) != 0.0)
}
