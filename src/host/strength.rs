//! Strength of connection on the host.

use super::distributed::divided::DividedMatrix;
use super::{Host, HostMatrix, rows};
use crate::backend::common::{LARGEST_RATIO, RATIO_UNITS, SHARES, Sampled, mean};
use crate::backend::components::{Strength, StrengthInput};
use crate::backend::parameters::Threshold;
use crate::comm::{DividedLevel, Reduction};
use crate::error::{Result, try_collect, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView, Graph};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Classical measure: j is strong for i when -a_ij is at least `theta` times the largest -a_ik of the row, signs taken
/// relative to the diagonal. A row whose sum exceeds `max_row_sum` times its diagonal (both in absolute value) is so dominant that the
/// smoother solves it alone: it has no strong couplings. From 1 upward that rule is off. For scalar matrices.
pub fn classical<T: Scalar>(a: &CsrView<'_, T>, theta: f64, max_row_sum: f64) -> Result<Graph> {
    let (theta, limit) = (T::from_f64(theta), T::from_f64(max_row_sum));
    graph(a, |i, out| {
        let (mut diagonal, mut sum) = (T::ZERO, T::ZERO);
        let (mut highest, mut lowest) = (T::ZERO, T::ZERO);
        for k in a.row_range(i) {
            let value = a.values[k];
            sum += value;
            if a.col(k) == i {
                diagonal += value;
            } else if value > highest {
                highest = value;
            } else if value < lowest {
                lowest = value;
            }
        }
        if limit < T::ONE && sum.abs() > limit * diagonal.abs() {
            return 0;
        }
        let (sign, largest) = if diagonal < T::ZERO { (T::ONE, highest) } else { (-T::ONE, -lowest) };
        if largest <= T::ZERO {
            return 0;
        }
        select(a, i, out, |k, _| {
            let coupling = sign * a.values[k];
            coupling > T::ZERO && coupling >= theta * largest
        })
    })
}

/// Whether every coupling of a scalar matrix that is not zero is strong by the classical measure, and no row has more than `longest` entries.
pub fn is_uniform<T: Scalar>(a: &CsrView<'_, T>, theta: f64, longest: usize) -> bool {
    let theta = T::from_f64(theta);
    let is_uniform_row = |i: usize| {
        let others = || a.row_range(i).filter(|k| a.col(*k) != i).map(|k| a.values[k]);
        let diagonal = a.row_range(i).find(|k| a.col(*k) == i).map_or(T::ZERO, |k| a.values[k]);
        let sign = if diagonal < T::ZERO { T::ONE } else { -T::ONE };
        let largest = others().map(|v| sign * v).fold(T::ZERO, |m, c| if c > m { c } else { m });
        let bound = theta * largest;
        a.row_range(i).len() <= longest && others().all(|v| v == T::ZERO || (sign * v > T::ZERO && sign * v >= bound))
    };
    let found = AtomicBool::new(false);
    par::for_each_range(a.rows, par::ROW_GRAIN, |rows| {
        if !found.load(Ordering::Relaxed) && !rows.into_iter().all(is_uniform_row) {
            found.store(true, Ordering::Relaxed);
        }
    });
    !found.into_inner()
}

/// For rows of a scalar matrix that have couplings, of a sample, the sum of the shares of their couplings with the sign of the diagonal, in
/// units of 1/[`SHARES`], and the number of these rows. Integers, so that the order of the sums does not matter.
pub(crate) fn same_sign<T: Scalar>(a: &CsrView<'_, T>) -> (i64, i64) {
    same_sign_among(a, &Sampled::of(a.rows))
}

/// The same of the sampled rows that are here.
pub(crate) fn same_sign_among<T: Scalar>(a: &CsrView<'_, T>, sampled: &Sampled) -> (i64, i64) {
    let (shares, rows) = (AtomicI64::new(0), AtomicI64::new(0));
    par::for_each_range(sampled.count, par::ROW_GRAIN, |range| {
        let (mut sum, mut count) = (0, 0);
        for i in range.map(|k| sampled.row(k)) {
            let diagonal = a.row_range(i).find(|k| a.col(*k) == i).map_or(0.0, |k| a.values[k].to_f64());
            let (mut same, mut all) = (0_i64, 0_i64);
            for k in a.row_range(i).filter(|k| a.col(*k) != i) {
                let ratio = a.values[k].to_f64() / diagonal;
                // What is not a number counts as zero.
                let size = if ratio.abs() <= LARGEST_RATIO { (ratio.abs() * RATIO_UNITS) as i64 } else { 0 };
                all += size;
                same += if ratio > 0.0 { size } else { 0 };
            }
            if all > 0 {
                sum += same * SHARES / all;
                count += 1;
            }
        }
        shares.fetch_add(sum, Ordering::Relaxed);
        rows.fetch_add(count, Ordering::Relaxed);
    });
    (shares.into_inner(), rows.into_inner())
}

/// Absolute measure: j is strong for i when |a_ij| is at least `theta` times the largest |a_ik| of the row. Blocks are measured by
/// their Frobenius norm.
pub fn absolute<T: Scalar>(a: &CsrView<'_, T>, theta: f64) -> Result<Graph> {
    let theta2 = theta * theta;
    graph(a, |i, out| {
        let others = || a.row_range(i).filter(|k| a.col(*k) != i);
        let largest = others().map(|k| norm2(a, k)).fold(0.0, f64::max);
        select(a, i, out, |k, _| norm2(a, k) > 0.0 && norm2(a, k) >= theta2 * largest)
    })
}

/// Squared Frobenius norm of the block at position `k`.
#[inline(always)]
pub fn norm2<T: Scalar>(a: &CsrView<'_, T>, k: usize) -> f64 {
    let square = |v: T| v.to_f64() * v.to_f64();
    if a.block == Block::SCALAR { square(a.values[k]) } else { a.block_at(k).iter().map(|v| square(*v)).sum() }
}

/// Symmetric measure: j is strong for i when |a_ij| is at least a threshold times sqrt(|a_ii a_jj|). Blocks are measured by their
/// Frobenius norm.
pub struct Symmetric<'a, T> {
    a: CsrView<'a, T>,
    /// Norm of each diagonal block.
    diagonal: Vec<f64>,
    /// Where the rows are divided among ranks.
    level: Option<DividedLevel<'a>>,
    sampled: Sampled,
}

impl<'a, T: Scalar> Symmetric<'a, T> {
    /// The measure for a matrix.
    pub fn new(a: &CsrView<'a, T>) -> Result<Symmetric<'a, T>> {
        Symmetric::among(a, None)
    }

    /// The same of a level that may be divided among ranks. Collective.
    pub(crate) fn among(a: &CsrView<'a, T>, level: Option<DividedLevel<'a>>) -> Result<Symmetric<'a, T>> {
        let mut diagonal = diagonal_norms(a)?;
        let sampled = match level {
            Some(DividedLevel { over, numbers }) => {
                numbers.exchange(over, 1, &mut diagonal)?;
                Sampled::of_ranks(numbers)
            }
            None => Sampled::of(a.rows),
        };
        Ok(Symmetric { a: *a, diagonal, level, sampled })
    }

    /// The couplings that are strong by the threshold `theta`.
    pub fn graph(&self, theta: f64) -> Result<Graph> {
        let (a, diagonal) = (&self.a, &self.diagonal);
        let theta2 = theta * theta;
        graph(a, |i, out| {
            let own = theta2 * diagonal[i];
            select(a, i, out, |k, j| {
                let n = norm2(a, k);
                n > 0.0 && n >= own * diagonal[j]
            })
        })
    }

    /// The share of the couplings of an even sample of the rows that are strong by the threshold `theta`, or half of
    /// the mean of the strongest if that is less. Of a whole matrix.
    pub fn strong_share(&self, theta: f64) -> Result<f64> {
        let (strong, all) = self.sampled(theta.min(0.5 * self.scale()?));
        Ok(strong as f64 / all.max(1) as f64)
    }

    /// The couplings of an even sample of the rows: those that are strong by this threshold, and all.
    fn sampled(&self, theta: f64) -> (i64, i64) {
        let (a, diagonal) = (&self.a, &self.diagonal);
        let (strong, all) = (AtomicI64::new(0), AtomicI64::new(0));
        par::for_each_range(self.sampled.count, par::ROW_GRAIN, |range| {
            let (mut strong_here, mut all_here) = (0, 0);
            for i in range.map(|k| self.sampled.row(k)) {
                let own = theta * theta * diagonal[i];
                for k in a.row_range(i).filter(|k| a.col(*k) != i) {
                    let n = norm2(a, k);
                    strong_here += i64::from(n > 0.0 && n >= own * diagonal[a.col(k)]);
                    all_here += 1;
                }
            }
            strong.fetch_add(strong_here, Ordering::Relaxed);
            all.fetch_add(all_here, Ordering::Relaxed);
        });
        (strong.into_inner(), all.into_inner())
    }

    /// The strongest coupling of row `i`.
    fn strongest(&self, i: usize) -> f64 {
        let (a, diagonal) = (&self.a, &self.diagonal);
        let couplings = a.row_range(i).filter(|k| a.col(*k) != i);
        let squared = couplings.map(|k| norm2(a, k) / (diagonal[i] * diagonal[a.col(k)]));
        squared.fold(0.0, |m: f64, s| if s.is_finite() { m.max(s) } else { m }).sqrt()
    }
}

/// Over the rows of all ranks.
impl<T: Scalar> Symmetric<'_, T> {
    /// Mean over the rows of the strongest coupling, which a threshold can be compared with. It is 1/6 for the 7-point and 1/26 for the
    /// 27-point Laplacian.
    pub fn scale(&self) -> Result<f64> {
        let (sampled, strongest) = (&self.sampled, |k: usize| self.strongest(self.sampled.row(k)));
        let Some(level) = self.level else { return Ok(mean(sampled.count, strongest)) };
        let (all, _) = level.over.ranks.gather(&try_collect((0..sampled.count).map(strongest))?)?;
        Ok(mean(sampled.all, |k| all[k]))
    }

    /// Mean over a sample of the rows of the number of couplings that are strong by this threshold.
    pub fn mean_strong(&self, theta: f64) -> Result<f64> {
        let (own, _) = self.sampled(theta);
        let strong = match self.level {
            Some(level) => level.over.ranks.reduce(own, Reduction::Sum)?,
            None => own,
        };
        Ok(strong as f64 / self.sampled.all.max(1) as f64)
    }
}

/// Norm of each diagonal block, 0 where there is none.
fn diagonal_norms<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<f64>> {
    let mut diagonal = try_vec(a.rows, 0.0)?;
    par::for_each_mut(&mut diagonal, par::ROW_GRAIN, |start, d| {
        for (k, d) in d.iter_mut().enumerate() {
            let own = a.row_range(start + k).find(|p| a.col(*p) == start + k);
            *d = own.map_or(0.0, |p| norm2(a, p).sqrt());
        }
    });
    Ok(diagonal)
}

/// A graph from the strong columns that `row` puts first into an array as long as the matrix's row, and counts.
pub(super) fn graph<T: Scalar>(a: &CsrView<'_, T>, row: impl Fn(usize, &mut [i32]) -> usize + Sync) -> Result<Graph> {
    let (offsets, columns, _) = rows::build::<()>(a.rows, 0, |range, out| {
        let longest = range.clone().map(|i| a.row_range(i).len()).max().unwrap_or(0);
        let mut strong = try_vec(longest, 0_i32)?;
        out.reserve(range.clone().map(|i| a.row_range(i).len()).sum(), 0)?;
        for i in range {
            let count = row(i, &mut strong);
            out.columns.extend_from_slice(&strong[..count]);
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Graph { offsets, columns })
}

/// Puts the columns of row `i` that are strong first into `out`, in the order of the row. Whether one is cannot be foretold, so there is no
/// branch on it.
#[inline(always)]
pub(super) fn select<T: Scalar>(
    a: &CsrView<'_, T>,
    i: usize,
    out: &mut [i32],
    strong: impl Fn(usize, usize) -> bool,
) -> usize {
    let mut count = 0;
    for k in a.row_range(i) {
        let j = a.col(k);
        out[count] = j as i32;
        count += usize::from(j != i && strong(k, j));
    }
    count
}

/// The component [`classical`].
pub struct ClassicalStrength;

impl<T: Scalar> Strength<Host, T> for ClassicalStrength {
    fn graph(&self, input: &StrengthInput<'_, Host, T>) -> Result<Graph> {
        input.check_scalar("classical")?;
        let (HostMatrix::Rows(a) | HostMatrix::Divided(DividedMatrix { matrix: a, .. })) = input.a else {
            return Graph::empty();
        };
        classical(&a.view(), input.share(), input.parameters.real("amg.strength.max_row_sum"))
    }
}

/// The component [`absolute`].
pub struct AbsoluteStrength;

impl<T: Scalar> Strength<Host, T> for AbsoluteStrength {
    fn graph(&self, input: &StrengthInput<'_, Host, T>) -> Result<Graph> {
        let (HostMatrix::Rows(a) | HostMatrix::Divided(DividedMatrix { matrix: a, .. })) = input.a else {
            return Graph::empty();
        };
        absolute(&a.view(), input.share())
    }
}

/// The component [`Symmetric`].
pub struct SymmetricStrength;

impl<T: Scalar> Strength<Host, T> for SymmetricStrength {
    fn graph(&self, input: &StrengthInput<'_, Host, T>) -> Result<Graph> {
        let (HostMatrix::Rows(a) | HostMatrix::Divided(DividedMatrix { matrix: a, .. })) = input.a else {
            return Graph::empty();
        };
        let a = a.view();
        let level = input.setup.divided(input.a).map(|(over, a)| a.level(over));
        let measure = Symmetric::among(&a, level)?;
        measure.graph(match Threshold::named(input.parameters)? {
            Some(threshold) => threshold.value(&|theta| measure.mean_strong(theta))?,
            None => Threshold::usual(a.block, input.level, measure.scale()?),
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::sparse::Csr;

    #[test]
    fn classical_strength_is_relative_to_the_largest_negative_coupling() {
        let t =
            [(0, 0, 4.0), (0, 1, -2.0), (0, 2, -0.4), (0, 3, 3.0), (1, 1, 1.0), (2, 2, -4.0), (2, 0, 1.0), (3, 3, 1.0)];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        let s = classical(&a.view(), 0.25, 1.0).unwrap();
        assert_eq!(s.row(0), [1]);
        assert!(s.row(1).is_empty());
        assert_eq!(s.row(2), [0]);
        assert_eq!(classical(&a.view(), 0.2, 1.0).unwrap().row(0), [1, 2]);
    }

    #[test]
    fn couplings_are_uniform_where_all_are_strong_and_no_row_is_long() {
        let uniform = |t: &[(usize, usize, f64)], longest: usize| {
            is_uniform(&Csr::from_triplets(3, 3, t).unwrap().view(), 0.25, longest)
        };
        let line =
            |weak: f64| [(0, 0, 2.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 2.0), (1, 2, weak), (2, 2, -1.0), (2, 1, 1.0)];
        assert!(uniform(&line(-1.0), 3));
        assert!(!uniform(&line(-1.0), 2), "a row of three entries");
        assert!(uniform(&line(-0.25), 3));
        assert!(!uniform(&line(-0.24), 3), "a weak coupling");
        assert!(!uniform(&line(0.5), 3), "a coupling with the sign of the diagonal");
        assert!(uniform(&line(0.0), 3), "a stored zero couples nothing");
    }

    #[test]
    fn a_row_that_its_diagonal_dominates_has_no_strong_couplings() {
        let t = [(0, 0, 10.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 10.0), (1, 2, -1.0), (2, 1, 1.0), (2, 2, -10.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        let rows = |limit: f64| {
            let s = classical(&a.view(), 0.25, limit).unwrap();
            [s.row(0).to_vec(), s.row(1).to_vec(), s.row(2).to_vec()]
        };
        assert_eq!(rows(0.95), [vec![1], vec![0, 2], vec![1]]);
        assert_eq!(rows(0.85), [vec![], vec![0, 2], vec![]]);
        assert!(rows(0.5).iter().all(Vec::is_empty));
        assert_eq!(rows(1.0), rows(0.95));
    }

    #[test]
    fn absolute_strength_takes_both_signs_and_measures_blocks_by_their_norm() {
        let t = [(0, 0, 9.0), (0, 1, -2.0), (0, 2, -0.4), (0, 3, 4.0), (1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        assert_eq!(absolute(&a.view(), 0.25).unwrap().row(0), [1, 3]);
        assert_eq!(absolute(&a.view(), 0.1).unwrap().row(0), [1, 2, 3]);
        // In blocks of 2x2 the norms are sqrt(0.4^2 + 4^2) for (0, 1) and nothing for (1, 0).
        let blocks = a.view().to_blocks(2).unwrap();
        assert_eq!(absolute(&blocks.view(), 1.0).unwrap(), Graph { offsets: vec![0, 1, 1], columns: vec![1] });
    }

    #[test]
    fn the_scale_is_the_mean_of_the_strongest_couplings() {
        let t = [(0, 0, 4.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 1.0), (2, 2, 1.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        assert!((Symmetric::new(&a.view()).unwrap().scale().unwrap() - (0.5 + 0.5 + 0.0) / 3.0).abs() < 1e-15);
        let empty = Csr::<f64>::from_triplets(0, 0, &[]).unwrap();
        assert_eq!(Symmetric::new(&empty.view()).unwrap().scale().unwrap(), 0.0);
    }

    /// How many couplings of a row are strong on average, by the graph itself.
    fn mean_row(graph: &Graph, rows: usize) -> f64 {
        graph.columns.len() as f64 / rows as f64
    }

    #[test]
    fn a_threshold_by_connections_is_the_highest_that_leaves_them() {
        for name in ["jumps:9", "lognormal:9", "rotated_anisotropic:30", "elasticity:5"] {
            let a = crate::gallery::parse(name).unwrap().matrix;
            let measure = Symmetric::new(&a.view()).unwrap();
            let mean_with = |theta: f64| mean_row(&measure.graph(theta).unwrap(), a.rows);
            for wanted in [1, 3, 5] {
                let theta = Threshold::Connections(wanted).value(&|theta| measure.mean_strong(theta)).unwrap();
                assert!(theta > 0.0 && mean_with(theta) >= wanted as f64, "{name}, {wanted}: {theta}");
                assert!(
                    theta == 1.0 || mean_with(theta * 0.25_f64.exp2()) < wanted as f64,
                    "{name}, {wanted}: {theta}"
                );
            }
            // More than there are.
            assert_eq!(Threshold::Connections(200).value(&|theta| measure.mean_strong(theta)).unwrap(), 0.0);
        }
    }

    #[test]
    fn symmetric_strength_compares_with_both_diagonals() {
        let t = [(0, 0, 1.0), (0, 1, 1.0), (0, 2, 0.5), (1, 0, 1.0), (1, 1, 100.0), (2, 0, 0.5), (2, 2, 1.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        let measure = Symmetric::new(&a.view()).unwrap();
        let s = measure.graph(0.2).unwrap();
        assert_eq!(s.row(0), [2]);
        assert!(s.row(1).is_empty());
        assert_eq!(measure.graph(0.09).unwrap().row(0), [1, 2]);
    }
}
