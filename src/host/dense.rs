//! The coarsest level: a dense inverse, applied as one dense product.

use super::Host;
use super::multivector;
use super::sparse_direct::{dense_inverse, symmetric_inverse};
use super::spmv::Epilogue;
use crate::backend::Operator;
use crate::backend::common::{TINY, rounding_bound};
use crate::error::{Result, try_capacity, try_vec};
use crate::par;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::CsrView;
use std::ops::Range;
use std::sync::Arc;

/// A dense matrix in storage format `S`, row by row.
pub struct Dense<S> {
    pub(super) host: Host,
    pub(super) n: usize,
    pub(super) values: Vec<S>,
}

/// The inverse of a small matrix, row by row, computed in f64. For a matrix that is singular to rounding it is a
/// generalised inverse, which solves consistent systems.
pub fn inverse<T: Scalar, S: Number>(a: &CsrView<'_, T>) -> Result<Vec<S>> {
    let n = a.scalar_rows();
    let mut dense = try_vec(n * n, 0.0)?;
    let (br, bc) = (a.block.rows, a.block.cols);
    par::for_each_row_mut(&mut dense, br * n, 16, |first, piece| {
        for (i, rows) in (first..).zip(piece.chunks_exact_mut(br * n)) {
            for (j, block) in a.row(i) {
                for (row, block) in rows.chunks_exact_mut(n).zip(block.chunks_exact(bc)) {
                    row[j * bc..].iter_mut().zip(block).for_each(|(to, v)| *to += v.to_f64());
                }
            }
        }
    });
    let tiny = rounding_bound::<T>(n);
    let inverse = if n > UNBLOCKED {
        by_blocks(dense, n, tiny)?
    } else {
        match sweep(&dense, n, tiny)? {
            Some(inverse) => inverse,
            None => gauss_jordan(dense, n)?,
        }
    };
    let mut values = try_vec(n * n, S::ZERO)?;
    par::for_each_mut(&mut values, par::GRAIN, |start, values| {
        values.iter_mut().zip(&inverse[start..]).for_each(|(to, from)| *to = S::from_f64(*from));
    });
    Ok(values)
}

/// A matrix of more rows is inverted by blocks. Up to here GPUs compute the same bits.
const UNBLOCKED: usize = 300;

/// The inverse of a large matrix, with the same meaning as that of a small one.
fn by_blocks(mut a: Vec<f64>, n: usize, tiny: f64) -> Result<Vec<f64>> {
    if is_symmetric(&a, n)? && symmetric_inverse::invert(&mut a, n, tiny)? {
        return Ok(a);
    }
    let bound = smallest_pivot(&a, n)?;
    dense_inverse::inverse(a, n, bound)
}

/// Whether elements (i, j) and (j, i) are the same to rounding. They are compared by tiles, which stay in the cache.
fn is_symmetric(a: &[f64], n: usize) -> Result<bool> {
    const TILE: usize = 32;
    let largest = largest(a)?;
    let symmetric = |i: usize, j: usize| (a[i * n + j] - a[j * n + i]).abs() <= 1e-10 * largest;
    let tiles = par::map_ranges(n, TILE, |rows| {
        let mut columns = (0..rows.end).step_by(TILE).map(|first| first..first + TILE);
        Ok(columns.all(|columns| rows.clone().all(|i| (columns.start..i.min(columns.end)).all(|j| symmetric(i, j)))))
    })?;
    Ok(tiles.into_iter().all(|symmetric| symmetric))
}

/// The largest magnitude.
fn largest(a: &[f64]) -> Result<f64> {
    let largest = |range: Range<usize>| Ok(a[range].iter().fold(0.0_f64, |m, v| m.max(v.abs())));
    Ok(par::map_ranges(a.len(), 8 * par::GRAIN, largest)?.into_iter().fold(0.0, f64::max))
}

impl<S: Number> Dense<S> {
    /// Of `n` rows and columns.
    pub fn new(host: &Host, n: usize, values: Vec<S>) -> Dense<S> {
        assert_eq!(values.len(), n * n);
        Dense { host: host.clone(), n, values }
    }

    fn product<X: Number, Y: Number>(&self, x: &[X], y: &mut [Y], epilogue: Epilogue<'_, Y>) {
        const ROWS: usize = 64;
        let n = self.n;
        assert!(x.len() == n && y.len() == n);
        self.host.run(n * n, || {
            par::for_each_mut(y, ROWS, |start, y| {
                let mut sums = [Y::Wide::ZERO; ROWS];
                for (k, sum) in sums[..y.len()].iter_mut().enumerate() {
                    let row = &self.values[(start + k) * n..][..n];
                    *sum = row.iter().zip(x).map(|(v, x)| v.cast::<Y::Wide>() * x.cast()).sum();
                }
                epilogue.store(start, &sums, y);
            });
        });
    }
}

impl<S: Number, X: Number, Y: Number> Operator<Host, X, Y> for Dense<S> {
    fn rows(&self) -> usize {
        self.n
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        self.product(x, y, Epilogue::new(alpha, beta));
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        self.product(x, r, Epilogue::Residual(b));
        Ok(())
    }

    fn for_multivectors(self: Arc<Self>, k: usize) -> Option<Arc<dyn Operator<Host, X, Y>>> {
        multivector::interleaved(self, k)
    }

    fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    fn format(&self) -> String {
        "dense".to_string()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}

/// The inverse of a symmetric positive semidefinite matrix by the sweep operator, exactly symmetric; `None` when the
/// matrix is not symmetric or a pivot is negative. Pivots up to `tiny` times their diagonal entry are left out; the
/// largest in that measure are taken first, so that those of a singular matrix, which are rounding, come last and none
/// of them is divided by.
fn sweep(a: &[f64], n: usize, tiny: f64) -> Result<Option<Vec<f64>>> {
    if !is_symmetric(a, n)? {
        return Ok(None);
    }
    let mut m = try_vec(n * n, 0.0)?;
    for i in 0..n {
        for j in 0..n {
            m[i * n + j] = 0.5 * (a[i * n + j] + a[j * n + i]);
        }
    }
    let mut diagonal = try_capacity(n)?;
    diagonal.extend((0..n).map(|k| a[k * n + k].abs()));
    // The diagonal that is left; NaN for what is swept.
    let mut left = try_capacity(n)?;
    left.extend((0..n).map(|k| m[k * n + k]));
    let mut panel = Panel { steps: Vec::new(), rows: try_vec(PANEL * n, 0.0)?, factors: try_vec(PANEL * n, 0.0)? };
    loop {
        panel.find(&m, n, (&diagonal, tiny), &mut left);
        par::for_each_row_mut(&mut m, n, 16, |start, piece| {
            for (r, row) in piece.chunks_exact_mut(n).enumerate() {
                panel.sweep(start + r, row);
            }
        });
        if panel.steps.len() < PANEL {
            break;
        }
    }
    if (0..n).any(|k| left[k] < -tiny * diagonal[k]) {
        return Ok(None);
    }
    for i in 0..n {
        for j in 0..n {
            m[i * n + j] = if left[i].is_nan() && left[j].is_nan() { -m[i * n + j] } else { 0.0 };
        }
    }
    Ok(Some(m))
}

/// Pivots that are found before all elements are updated. Each element is then read and written once for all of them.
const PANEL: usize = 16;

/// Elements of a row that are updated at a time.
const CHUNK: usize = 256;

/// Some steps of the sweep operator: positions and values of their pivots, and their rows and columns as they are at
/// their turn, the columns over the pivot. The kernels of GPUs do the same operations in the same order.
struct Panel {
    steps: Vec<(usize, f64)>,
    rows: Vec<f64>,
    factors: Vec<f64>,
}

impl Panel {
    /// Finds the next pivots. Of those above `tiny` times their diagonal entry, the one that is largest in relation to
    /// it comes first, of equal ones that of the first row.
    fn find(&mut self, m: &[f64], n: usize, (diagonal, tiny): (&[f64], f64), left: &mut [f64]) {
        self.steps.clear();
        while self.steps.len() < PANEL {
            let share = |k: &usize| left[*k] / diagonal[*k];
            let candidates = (0..n).filter(|k| left[*k] > tiny * diagonal[*k]);
            // `max_by` prefers the last of equal ones.
            let Some(k) = candidates.rev().max_by(|i, j| share(i).total_cmp(&share(j))) else { return };
            let (pivot, found) = (left[k], self.steps.len());
            let (earlier_rows, rows) = self.rows.split_at_mut(found * n);
            let (earlier_factors, factors) = self.factors.split_at_mut(found * n);
            let (rows, factors) = (&mut rows[..n], &mut factors[..n]);
            rows.copy_from_slice(&m[k * n..(k + 1) * n]);
            for (factor, row) in factors.iter_mut().zip(m.chunks_exact(n)) {
                *factor = row[k];
            }
            for (s, (place, earlier)) in self.steps.iter().enumerate() {
                let (of_rows, of_factors) = (&earlier_rows[s * n..][..n], &earlier_factors[s * n..][..n]);
                let (of_row, of_column, column) = (of_factors[k], of_rows[k], factors[*place]);
                for j in 0..n {
                    rows[j] -= of_row * of_rows[j];
                    factors[j] -= of_factors[j] * of_column;
                }
                (rows[*place], factors[*place]) = (of_row, column / earlier);
            }
            for j in 0..n {
                factors[j] /= pivot;
                left[j] -= factors[j] * rows[j];
            }
            left[k] = f64::NAN;
            self.steps.push((k, pivot));
        }
    }

    /// Updates row `i` of the matrix.
    fn sweep(&self, i: usize, row: &mut [f64]) {
        let n = row.len();
        for (c, chunk) in row.chunks_mut(CHUNK).enumerate() {
            let begin = c * CHUNK;
            for (s, (place, pivot)) in self.steps.iter().enumerate() {
                let own = place.checked_sub(begin).filter(|at| *at < chunk.len());
                if i == *place {
                    chunk.iter_mut().for_each(|v| *v /= pivot);
                    if let Some(own) = own {
                        chunk[own] = -1.0 / pivot;
                    }
                    continue;
                }
                let factor = self.factors[s * n + i];
                if factor != 0.0 {
                    for (v, p) in chunk.iter_mut().zip(&self.rows[s * n + begin..]) {
                        *v -= factor * p;
                    }
                }
                if let Some(own) = own {
                    chunk[own] = factor;
                }
            }
        }
    }
}

/// Pivots up to this are zero.
fn smallest_pivot(a: &[f64], n: usize) -> Result<f64> {
    Ok(TINY * n as f64 * largest(a)?)
}

/// The inverse by Gauss-Jordan elimination with row pivoting; columns without a usable pivot are left out.
fn gauss_jordan(mut a: Vec<f64>, n: usize) -> Result<Vec<f64>> {
    let bound = smallest_pivot(&a, n)?;
    let mut inverse = try_vec(n * n, 0.0)?;
    for i in 0..n {
        inverse[i * n + i] = 1.0;
    }
    let (mut a_row, mut inverse_row) = (try_vec(n, 0.0)?, try_vec(n, 0.0)?);
    for k in 0..n {
        let best = (k..n).max_by(|i, j| a[i * n + k].abs().total_cmp(&a[j * n + k].abs())).unwrap_or(k);
        if a[best * n + k].abs() <= bound {
            inverse[k * n..(k + 1) * n].fill(0.0);
            continue;
        }
        for j in 0..n {
            a.swap(k * n + j, best * n + j);
            inverse.swap(k * n + j, best * n + j);
        }
        let pivot = a[k * n + k];
        for j in 0..n {
            a[k * n + j] /= pivot;
            inverse[k * n + j] /= pivot;
        }
        a_row.copy_from_slice(&a[k * n..(k + 1) * n]);
        inverse_row.copy_from_slice(&inverse[k * n..(k + 1) * n]);
        par::for_each_mut2(&mut a, &mut inverse, 64 * n, |start, a, inverse| {
            for (r, (a, inverse)) in a.chunks_exact_mut(n).zip(inverse.chunks_exact_mut(n)).enumerate() {
                let factor = a[k];
                if start / n + r != k && factor != 0.0 {
                    for j in 0..n {
                        a[j] -= factor * a_row[j];
                        inverse[j] -= factor * inverse_row[j];
                    }
                }
            }
        });
    }
    Ok(inverse)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::hash::hash;
    use crate::sparse::Csr;

    fn solve(t: &[(usize, usize, f64)], b: &[f64]) -> Vec<f64> {
        let a = Csr::from_triplets(b.len(), b.len(), t).unwrap();
        let host = Host::new(&Context::new("host:1").unwrap());
        let inverse = Dense::<f64>::new(&host, b.len(), super::inverse(&a.view()).unwrap());
        let mut x = vec![f64::NAN; b.len()];
        inverse.apply(1.0, b, 0.0, &mut x).unwrap();
        x
    }

    fn close(x: &[f64], y: &[f64]) -> bool {
        x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-13)
    }

    #[test]
    fn symmetric_and_other_systems_are_solved() {
        let spd = [(0, 0, 4.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 3.0)];
        assert!(close(&solve(&spd, &[1.0, 2.0]), &[1.0 / 11.0, 7.0 / 11.0]));
        // Needs a row exchange, and is not symmetric.
        let general = [(0, 1, 2.0), (1, 0, 1.0), (1, 1, 1.0), (2, 2, -5.0), (2, 0, 1.0)];
        assert!(close(&solve(&general, &[2.0, 3.0, -3.0]), &[2.0, 1.0, 1.0]));
        let indefinite = [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0)];
        assert!(close(&solve(&indefinite, &[3.0, 3.0]), &[1.0, 1.0]));
    }

    #[test]
    fn a_system_that_is_singular_in_several_ways_and_scales_is_solved() {
        // Rings of three and of four unknowns, numbered in turn, the second 1e6 times stiffer.
        let mut t = Vec::new();
        for (ring, v) in [(vec![0, 2, 4], 1.0), (vec![1, 3, 5, 6], 1e6)] {
            for (k, &i) in ring.iter().enumerate() {
                let j = ring[(k + 1) % ring.len()];
                t.extend([(i, j, -v), (j, i, -v), (i, i, v), (j, j, v)]);
            }
        }
        let b = [1.0, 3.0, -2.0, 0.0, 1.0, -4.0, 1.0];
        let x = solve(&t, &b);
        let a = Csr::from_triplets(7, 7, &t).unwrap();
        for (i, b) in b.iter().enumerate() {
            let ax: f64 = a.view().row(i).map(|(j, v)| v[0] * x[j]).sum();
            assert!((ax - b).abs() < 1e-12, "row {i}: {ax} {b}");
        }
        assert!(x.iter().all(|x| x.abs() < 10.0), "{x:?}");
    }

    /// Systems of more rows than are inverted element by element, of all kinds: x solves A x = A y.
    #[test]
    fn large_systems_are_solved_by_blocks() {
        let n = UNBLOCKED + 50;
        let random = |i: usize, j: usize| hash(i * n + j, 3) as i64 as f64 / i64::MAX as f64;
        let symmetric = |i: usize, j: usize| random(i.max(j), i.min(j));
        let row = |i: usize| (0..n).filter(|j| *j != i).map(|j| symmetric(i, j).abs()).sum::<f64>();
        type Entry<'a> = &'a dyn Fn(usize, usize) -> f64;
        let kinds: [(&str, Entry); 7] = [
            ("definite", &|i, j| if i == j { row(i) + 1.0 } else { symmetric(i, j) }),
            ("semidefinite", &|i, j| if i == j { row(i) } else { -symmetric(i, j).abs() }),
            ("indefinite", &|i, j| if i == j { 0.1 } else { symmetric(i, j) }),
            ("diagonal", &|i, j| if i == j { (i % 4) as f64 } else { 0.0 }),
            ("not symmetric", &random),
            ("singular", &|i, j| random(i, if j == n - 3 { 7 } else { j })),
            ("singular and indefinite", &|i, j| if i % 9 == 4 || j % 9 == 4 { 0.0 } else { symmetric(i, j) }),
        ];
        let y: Vec<f64> = (0..n).map(|i| random(i, i + 1)).collect();
        for (name, entry) in kinds {
            let t: Vec<_> = (0..n * n).map(|k| (k / n, k % n, entry(k / n, k % n))).collect();
            let product =
                |x: &[f64]| -> Vec<f64> { (0..n).map(|i| (0..n).map(|j| entry(i, j) * x[j]).sum()).collect() };
            let b = product(&y);
            let again = product(&solve(&t, &b));
            assert!(again.iter().zip(&b).all(|(v, b)| (v - b).abs() < 1e-8), "{name}");
        }
    }

    #[test]
    fn a_consistent_singular_system_is_solved() {
        let neumann = [(0, 0, 1.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 2.0), (1, 2, -1.0), (2, 1, -1.0), (2, 2, 1.0)];
        let x = solve(&neumann, &[1.0, 0.0, -1.0]);
        assert!(((x[0] - x[1]) - 1.0).abs() < 1e-13 && ((x[1] - x[2]) - 1.0).abs() < 1e-13);
    }
}
