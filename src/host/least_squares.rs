//! Adaptive least-squares interpolation (the BAMG of Brandt, Brannick, Kahl and Livshits, 2011, with the two stopping
//! tests of Chronos): the weights of a fine unknown i fit the rows of the near-null space V,
//!
//! v_i = Σ_j w_j v_j,  j∈C_i,  with the least Σ_j w_j² / σ_j.
//!
//! C_i are the coarse unknowns that strong couplings reach in l steps, and σ_j is the share of random walks from i, by
//! probabilities proportional to |a_ik|, that have come to j after them. So with constants alone the weights are these
//! shares, and with more vectors the least change of them. The distance l grows, row by row, until the residual of the fit
//! is small and the weights are bounded. A walk goes on from a neighbour that has its weights from where that got to. A row
//! that fails at the largest distance becomes a coarse unknown.
//!
//! The normal equations V_Cᵀ Σ V_C y = v_i are small. Before, a vector that does not vanish on i leads, and multiples of
//! it are taken from the others so that they vanish on i: they then are differences between neighbours, as in y_j - y_i,
//! and the equations lose no digits to a distant origin of coordinates. Where the vectors are more than the coarse
//! unknowns, the weights are those of least squares, with each vector in units of its own size.

mod smoothing;

use super::extended_i::coarse_numbers;
use super::setup::Splitting;
use super::truncate::{self, Truncation};
use super::{Host, rows, spgemm};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::least_squares::{JOINS, REFINEMENTS, RIDGE, Rules, Smoothing};
use crate::backend::setup::{Coarse, NearNullVectors};
use crate::backend::spectrum::Largest;
use crate::error::{Result, try_capacity, try_copy, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph, NearNullSpace, Structure};
use std::sync::Arc;

/// Most vectors of a near-null space.
const MOST: usize = 8;

/// Values of all vectors.
type Values = [f64; MOST];

/// The fit of a row.
struct Fit<'a, T> {
    space: &'a NearNullSpace,
    /// The unknown of each column of the candidates.
    unknowns: &'a [i32],
    columns: &'a [i32],
    /// σ.
    shares: &'a [T],
    /// The row.
    i: usize,
    /// The vector that leads; none where all vanish, or are much larger on coarse unknowns.
    lead: Option<usize>,
    /// How many times the leading one is taken from each of the others.
    multiples: Values,
    /// Largest value of each vector on the row and its coarse unknowns.
    largest: Values,
    /// The solution of the normal equations.
    solution: Values,
}

impl<'a, T: Scalar> Fit<'a, T> {
    /// Fits row `i` by row `of` of the candidates.
    fn new(space: &'a NearNullSpace, unknowns: &'a [i32], candidates: &CsrView<'a, T>, i: usize) -> Fit<'a, T> {
        let range = candidates.row_range(i);
        let (columns, shares) = (&candidates.columns[range.clone()], &candidates.values[range]);
        let (zeros, lead) = ([0.0; MOST], None);
        let mut fit =
            Fit { space, unknowns, columns, shares, i, lead, multiples: zeros, largest: zeros, solution: zeros };
        for c in 0..space.count {
            let own = fit.of(i, c).abs();
            fit.largest[c] = columns.iter().fold(own, |m, j| m.max(fit.of(unknowns[*j as usize] as usize, c).abs()));
            if fit.lead.is_none() && own > 0.0 && 2.0 * own >= fit.largest[c] {
                fit.lead = Some(c);
            }
        }
        if let Some(lead) = fit.lead {
            for c in (0..space.count).filter(|c| *c != lead) {
                fit.multiples[c] = fit.of(i, c) / fit.of(i, lead);
            }
        }
        let factors = fit.factors();
        for _ in 0..=REFINEMENTS {
            let correction = fit.solve(&factors, &fit.residual());
            for (y, correction) in fit.solution.iter_mut().zip(correction) {
                *y += correction;
            }
        }
        fit
    }

    /// Vector `c` on an unknown.
    #[inline(always)]
    fn of(&self, unknown: usize, c: usize) -> f64 {
        self.space.vectors[c * (self.space.vectors.len() / self.space.count) + unknown]
    }

    /// All vectors on a coarse unknown, without the multiples of the leading one.
    #[inline(always)]
    fn row(&self, column: i32) -> Values {
        let unknown = self.unknowns[column as usize] as usize;
        let first = self.lead.map_or(0.0, |lead| self.of(unknown, lead));
        let mut row = [0.0; MOST];
        for (c, to) in row[..self.space.count].iter_mut().enumerate() {
            *to = self.of(unknown, c) - self.multiples[c] * first;
        }
        row
    }

    /// The Cholesky factor of the normal equations, scaled to a unit diagonal with a ridge, and the roots of the diagonal before.
    fn factors(&self) -> ([Values; MOST], Values) {
        let k = self.space.count;
        let (mut m, mut roots) = ([[0.0; MOST]; MOST], [0.0; MOST]);
        for (j, share) in self.columns.iter().zip(self.shares) {
            let (row, share) = (self.row(*j), share.to_f64());
            for c in 0..k {
                let scaled = share * row[c];
                for d in 0..=c {
                    m[c][d] += scaled * row[d];
                }
            }
        }
        for c in 0..k {
            roots[c] = m[c][c].sqrt();
        }
        for c in 0..k {
            for d in 0..=c {
                let scale = roots[c] * roots[d];
                m[c][d] = if scale > 0.0 { m[c][d] / scale } else { 0.0 };
            }
        }
        for c in 0..k {
            let mut pivot = m[c][c] + RIDGE;
            m[c][..c].iter().for_each(|v| pivot -= v * v);
            m[c][c] = pivot.sqrt();
            let of_pivot = m[c];
            for row in &mut m[c + 1..k] {
                let mut v = row[c];
                row[..c].iter().zip(&of_pivot).for_each(|(a, b)| v -= a * b);
                row[c] = v / of_pivot[c];
            }
        }
        (m, roots)
    }

    /// The solution of the normal equations.
    fn solve(&self, (l, roots): &([Values; MOST], Values), b: &Values) -> Values {
        let k = self.space.count;
        let mut y = [0.0; MOST];
        for c in 0..k {
            let mut v = if roots[c] > 0.0 { b[c] / roots[c] } else { 0.0 };
            for e in 0..c {
                v -= l[c][e] * y[e];
            }
            y[c] = v / l[c][c];
        }
        for c in (0..k).rev() {
            let mut v = y[c];
            for e in c + 1..k {
                v -= l[e][c] * y[e];
            }
            y[c] = v / l[c][c];
        }
        for c in 0..k {
            y[c] = if roots[c] > 0.0 { y[c] / roots[c] } else { 0.0 };
        }
        y
    }

    /// The weight of a coarse unknown with these values.
    #[inline(always)]
    fn weight(&self, share: T, row: &Values) -> f64 {
        let mut sum = 0.0;
        row[..self.space.count].iter().zip(&self.solution).for_each(|(value, y)| sum += value * y);
        share.to_f64() * sum
    }

    /// What the weights leave of each vector on the row, without the multiples of the leading one.
    fn residual(&self) -> Values {
        let mut residual = [0.0; MOST];
        for (c, to) in residual[..self.space.count].iter_mut().enumerate() {
            *to = if self.lead.is_none_or(|lead| lead == c) { self.of(self.i, c) } else { 0.0 };
        }
        for (j, share) in self.columns.iter().zip(self.shares) {
            let row = self.row(*j);
            let weight = self.weight(*share, &row);
            for c in 0..self.space.count {
                residual[c] -= weight * row[c];
            }
        }
        residual
    }

    /// The weights.
    fn weights(&self) -> impl Iterator<Item = f64> + '_ {
        self.columns.iter().zip(self.shares).map(|(j, share)| self.weight(*share, &self.row(*j)))
    }

    /// Whether both tests hold.
    fn is_accepted(&self, rules: &Rules) -> bool {
        let residual = self.residual();
        let fits = (0..self.space.count).all(|c| residual[c].abs() <= rules.tolerance * self.largest[c]);
        let mut squares = 0.0;
        self.weights().for_each(|w| squares += w * w);
        fits && squares <= rules.norm * rules.norm
    }
}

/// An interpolation, the distance that each fine unknown took its weights from, and the splitting where fine unknowns
/// became coarse ones.
pub struct Fitted<T> {
    /// The prolongator.
    pub p: Csr<T>,
    /// 0 for coarse unknowns and those without strong couplings, `JOINS` for those that became coarse.
    pub reach: Vec<u8>,
    /// The splitting, if it is another one.
    pub coarse: Option<Vec<bool>>,
}

/// What a level is interpolated by.
struct Level<'a, T> {
    a: &'a CsrView<'a, T>,
    s: &'a Graph,
    space: &'a NearNullSpace,
    truncation: Truncation,
    pattern: Option<&'a Structure>,
}

/// Interpolation from the coarse unknowns to all. `earlier` has the distances of an earlier one with the splitting that it left,
/// and its pattern.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    space: &NearNullSpace,
    (rules, truncation): (Rules, Truncation),
    earlier: Option<(&[u8], &Structure)>,
) -> Result<Fitted<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let level = Level { a, s, space, truncation, pattern: earlier.map(|(_, pattern)| pattern) };
    let mut reach = match earlier {
        Some((reach, _)) => try_copy(reach)?,
        None => level.without_fit(coarse)?,
    };
    let (number, count) = coarse_numbers(coarse)?;
    let unknowns = unknowns(coarse, count)?;
    let mut walks = starts(coarse, &reach, &number, count)?;
    for distance in 1..=rules.farthest {
        if reach.iter().all(|reach| *reach < distance) {
            break;
        }
        walks = spgemm::multiply(&level.step(&reach, distance)?.view(), &walks.view())?;
        if earlier.is_none() && distance >= rules.nearest {
            level.judge(&walks, &unknowns, &rules, distance, &mut reach)?;
        }
    }
    let joining = earlier.is_none() && reach.contains(&JOINS);
    let mut joined = None;
    if joining {
        let mut all = try_copy(coarse)?;
        all.iter_mut().zip(&reach).for_each(|(coarse, reach)| *coarse |= *reach == JOINS);
        joined = Some(all);
    }
    let p = level.prolongator(&walks, &unknowns, joined.as_deref().unwrap_or(coarse))?;
    Ok(Fitted { p, reach, coarse: joined })
}

/// The coarse unknowns.
fn unknowns(coarse: &[bool], count: usize) -> Result<Vec<i32>> {
    let mut unknowns = try_capacity(count)?;
    unknowns.extend(coarse.iter().enumerate().filter(|(_, coarse)| **coarse).map(|(i, _)| i as i32));
    Ok(unknowns)
}

/// Walks of no steps: the coarse unknowns themselves. Those that joined are where walks go through.
fn starts<T: Scalar>(coarse: &[bool], reach: &[u8], number: &[i32], count: usize) -> Result<Csr<T>> {
    let (offsets, columns, values) = rows::build(coarse.len(), 1, |range, out| {
        for i in range {
            if coarse[i] && reach[i] == 0 {
                out.push(number[i], T::ONE)?;
            }
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: coarse.len(), cols: count, block: Block::SCALAR, offsets, columns, values })
}

impl<T: Scalar> Level<'_, T> {
    /// No distance yet for fine unknowns with strong couplings.
    fn without_fit(&self, coarse: &[bool]) -> Result<Vec<u8>> {
        let mut reach = try_vec(coarse.len(), 0)?;
        for (i, reach) in reach.iter_mut().enumerate() {
            *reach = if coarse[i] || self.s.row(i).is_empty() { 0 } else { JOINS };
        }
        Ok(reach)
    }

    /// One step of the walks of the rows that reach so far; the others stay.
    fn step(&self, reach: &[u8], distance: u8) -> Result<Csr<T>> {
        let (offsets, columns, values) = rows::build(self.a.rows, 1, |range, out| {
            for i in range {
                if reach[i] < distance {
                    out.push(i as i32, T::ONE)?;
                } else {
                    self.step_of(i, out)?;
                }
                out.end_row();
            }
            Ok(())
        })?;
        Ok(Csr { rows: self.a.rows, cols: self.a.rows, block: Block::SCALAR, offsets, columns, values })
    }

    /// The probabilities of a step from `i`.
    fn step_of(&self, i: usize, out: &mut rows::RowBuilder<T>) -> Result<()> {
        let start = out.values.len();
        let mut total = T::ZERO;
        // The strong columns stand in the order of the matrix's row.
        let mut strong = self.s.row(i).iter().peekable();
        for k in self.a.row_range(i) {
            let j = self.a.col(k) as i32;
            if strong.next_if(|next| **next == j).is_some() {
                let size = self.a.values[k].abs();
                total += size;
                out.push(j, size)?;
            }
        }
        for value in &mut out.values[start..] {
            *value = if total > T::ZERO { *value / total } else { T::ONE };
        }
        Ok(())
    }

    /// The coarse unknowns that rows may be interpolated from, with their shares.
    fn candidates(&self, walks: &Csr<T>) -> Result<Csr<T>> {
        truncate::all_rows(&walks.view(), self.truncation, None)
    }

    /// Notes the distance for the rows whose fit is accepted.
    fn judge(&self, walks: &Csr<T>, unknowns: &[i32], rules: &Rules, distance: u8, reach: &mut [u8]) -> Result<()> {
        let candidates = self.candidates(walks)?;
        let view = candidates.view();
        par::for_each_mut(reach, rows::grain(self.a.rows), |start, piece| {
            for (i, reach) in (start..).zip(piece).filter(|(_, reach)| **reach == JOINS) {
                if Fit::new(self.space, unknowns, &view, i).is_accepted(rules) {
                    *reach = distance;
                }
            }
        });
        Ok(())
    }

    /// The prolongator to the unknowns of a splitting that has the columns of the walks, and perhaps more.
    fn prolongator(&self, walks: &Csr<T>, unknowns: &[i32], coarse: &[bool]) -> Result<Csr<T>> {
        let (number, count) = coarse_numbers(coarse)?;
        let candidates = match self.pattern {
            // Its columns are those of the splitting that this row has joined: columns of the walks are the same then.
            Some(pattern) => truncate::all_rows(&walks.view(), self.truncation, Some(pattern))?,
            None => self.candidates(walks)?,
        };
        let view = candidates.view();
        let (offsets, columns, values) = rows::build(self.a.rows, 1, |range, out| {
            for i in range {
                if coarse[i] {
                    out.push(number[i], T::ONE)?;
                } else {
                    let fit = Fit::new(self.space, unknowns, &view, i);
                    for (j, w) in fit.columns.iter().zip(fit.weights()) {
                        out.push(number[unknowns[*j as usize] as usize], T::from_f64(w))?;
                    }
                }
                out.end_row();
            }
            Ok(())
        })?;
        Ok(Csr { rows: self.a.rows, cols: count, block: Block::SCALAR, offsets, columns, values })
    }
}

/// The component.
pub struct LeastSquares;

/// What it keeps for updates.
struct Kept {
    /// The distances.
    reach: Arc<Vec<u8>>,
    /// Where the interpolation is smoothed: the largest eigenvalue of D^-1 A, and the pattern before.
    smoothed: Option<(Largest, Arc<Structure>)>,
}

impl InterpolationSymbolic<Host> for Kept {
    fn bytes(&self) -> usize {
        self.reach.len() + self.smoothed.as_ref().map_or(0, |(_, pattern)| pattern.owned_bytes())
    }
}

impl<T: Scalar> Interpolation<Host, T> for LeastSquares {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let (coarse, space) = input.splitting_and_space("least_squares")?;
        let (how, earlier) = ((Rules::new(input.parameters)?, input.truncation), input.symbolic::<Kept>());
        let smoothed_before = earlier.and_then(|earlier| earlier.smoothed.as_ref());
        let pattern = smoothed_before.map(|(_, pattern)| &**pattern).or(input.pattern().map(|p| &**p.rows()));
        let before = earlier.and_then(|earlier| Some((&earlier.reach[..], pattern?)));
        let Fitted { p, reach, coarse: joined } =
            interpolate(&input.a.view(), input.graph, coarse, space, how, before)?;
        let joined = joined.map(Splitting::from);
        let reach = earlier.map_or_else(|| Arc::new(reach), |earlier| Arc::clone(&earlier.reach));
        let (mut smoothed, mut largest_eigenvalue, mut near_null_space) = (None, None, None);
        let p = match Smoothing::asked(input.parameters) {
            None => p.into_shared(),
            Some(smoothing) => {
                let coarse = joined.as_ref().unwrap_or(coarse);
                let coarse_space = Arc::new(space.injected(input.setup, coarse)?);
                let known = smoothed_before.map(|(largest, _)| largest);
                let found = smoothing::smooth(smoothing, input, (coarse, &coarse_space), &p, known)?;
                smoothed = Some((found.largest.clone(), p.into_shared().structure));
                (largest_eigenvalue, near_null_space) = (Some((found.largest, found.inverse)), Some(coarse_space));
                found.p
            }
        };
        Ok(Interpolated {
            near_null_space,
            largest_eigenvalue,
            symbolic: Some(Arc::new(Kept { reach, smoothed })),
            coarse: joined.map(Coarse::Splitting),
            ..Interpolated::alone(p.into())
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::host::{pmis, strength};

    const RULES: Rules = Rules { nearest: 1, farthest: 4, tolerance: 1e-9, norm: 2.0 };
    const ALL: Truncation = Truncation::new(0, 0.0);

    /// Bilinear elements on a grid whose coordinates have a distant origin, with vectors 1, x and y.
    fn problem() -> (Csr<f64>, NearNullSpace) {
        let a = gallery::poisson9(13, 11).unwrap();
        let n = a.rows;
        let of = |c: usize, i: usize| [1.0, 1000.0 + (i % 13) as f64, (i / 13) as f64 - 500.0][c];
        let vectors = (0..3).flat_map(|c| (0..n).map(move |i| of(c, i))).collect();
        (a, NearNullSpace { dofs_per_node: 1, count: 3, vectors })
    }

    /// The shares of walks of row `i` after so many steps, over all coarse unknowns; `reach` as in the result.
    fn shares(a: &Csr<f64>, s: &Graph, coarse: &[bool], reach: &[u8], i: usize, steps: u8) -> Vec<f64> {
        if coarse[i] {
            return (0..a.rows).map(|j| f64::from(u8::from(j == i))).collect();
        }
        let mut sum = vec![0.0; a.rows];
        let steps = steps.min(reach[i]);
        if steps > 0 {
            let size = |j: i32| a.view().row(i).find(|(c, _)| *c == j as usize).unwrap().1[0].abs();
            let total: f64 = s.row(i).iter().map(|j| size(*j)).sum();
            for j in s.row(i) {
                let of_next = shares(a, s, coarse, reach, *j as usize, steps - 1);
                sum.iter_mut().zip(of_next).for_each(|(sum, next)| *sum += size(*j) / total * next);
            }
        }
        sum
    }

    /// The weights with the least Σ w²/σ among those with the least residual, by an orthogonal basis of the columns of Σ^½ V_C,
    /// and the residual. Independent of normal equations.
    fn by_basis(space: &NearNullSpace, i: usize, of: &[(usize, f64)]) -> (Vec<f64>, f64) {
        let (k, n) = (space.count, space.vectors.len() / space.count);
        // Coordinates are measured from unknown i.
        let v = |c: usize, j: usize| space.vectors[c * n + j] - if c == 0 { 0.0 } else { space.vectors[c * n + i] };
        let (mut basis, mut r): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        for c in 0..k {
            let mut column: Vec<f64> = of.iter().map(|(j, share)| share.sqrt() * v(c, *j)).collect();
            let before = column.iter().map(|x| x * x).sum::<f64>().sqrt();
            let mut factors = vec![0.0; k];
            for _ in 0..2 {
                for (b, q) in basis.iter().enumerate() {
                    let part: f64 = q.iter().zip(&column).map(|(x, y)| x * y).sum();
                    factors[b] += part;
                    column.iter_mut().zip(q).for_each(|(x, q)| *x -= part * q);
                }
            }
            let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
            let depends = norm <= 1e-7 * before;
            factors[c] = if depends { 0.0 } else { norm };
            column.iter_mut().for_each(|x| *x = if depends { 0.0 } else { *x / norm });
            basis.push(column);
            r.push(factors);
        }
        let mut z = vec![0.0; k];
        for c in 0..k {
            let v: f64 = v(c, i) - (0..c).map(|b| r[c][b] * z[b]).sum::<f64>();
            z[c] = if r[c][c] > 0.0 { v / r[c][c] } else { 0.0 };
        }
        let weight = |at: usize| of[at].1.sqrt() * (0..k).map(|c| basis[c][at] * z[c]).sum::<f64>();
        let weights: Vec<f64> = (0..of.len()).map(weight).collect();
        let left = |c: usize| v(c, i) - of.iter().zip(&weights).map(|((j, _), w)| w * v(c, *j)).sum::<f64>();
        let residual = (0..k).map(|c| left(c).abs()).fold(0.0, f64::max);
        (weights, residual)
    }

    #[test]
    fn weights_are_those_of_an_independent_dense_computation() {
        let (a, space) = problem();
        let s = strength::absolute(&a.view(), 0.5).unwrap();
        let coarse = pmis::split(&s, &s.transpose().unwrap(), 3).unwrap();
        let fitted = interpolate(&a.view(), &s, &coarse, &space, (RULES, ALL), None).unwrap();
        let after = fitted.coarse.as_ref().unwrap_or(&coarse);
        let mut distances = [0; 5];
        for i in (0..a.rows).filter(|i| !coarse[*i]) {
            assert_eq!(fitted.reach[i] == JOINS, after[i]);
            distances[usize::from(fitted.reach[i].min(4))] += 1;
            // Rejected before, accepted now.
            for distance in 1..=fitted.reach[i].min(RULES.farthest) {
                let all = shares(&a, &s, &coarse, &fitted.reach, i, distance);
                let of: Vec<(usize, f64)> = all.into_iter().enumerate().filter(|(_, share)| *share > 0.0).collect();
                let (weights, residual) = by_basis(&space, i, &of);
                let norm = weights.iter().map(|w| w * w).sum::<f64>().sqrt();
                let is_accepted = residual < 1e-7 && norm <= RULES.norm;
                assert_eq!(is_accepted, distance == fitted.reach[i], "row {i} at {distance}: {residual}, {norm}");
                if is_accepted {
                    let row: Vec<(usize, f64)> = fitted.p.view().row(i).map(|(j, w)| (j, w[0])).collect();
                    assert_eq!(row.len(), of.len());
                    for ((j, w), ((unknown, _), expected)) in row.iter().zip(of.iter().zip(&weights)) {
                        assert_eq!(after[..*unknown].iter().filter(|c| **c).count(), *j);
                        assert!((w - expected).abs() < 1e-10, "row {i}: {w} {expected}");
                    }
                }
            }
        }
        assert!(distances[1] > 0 && distances[2] > 0, "{distances:?}");
    }

    #[test]
    fn with_constants_alone_weights_are_the_shares_of_walks() {
        let a = gallery::poisson5(9, 8).unwrap();
        let s = strength::absolute(&a.view(), 0.1).unwrap();
        let coarse = pmis::split(&s, &s.transpose().unwrap(), 1).unwrap();
        let space = NearNullSpace::constants(a.rows, 1).unwrap();
        let rules = Rules { nearest: 2, ..RULES };
        let fitted = interpolate(&a.view(), &s, &coarse, &space, (rules, ALL), None).unwrap();
        for i in (0..a.rows).filter(|i| !coarse[*i]) {
            assert_eq!(fitted.reach[i], 2);
            let shares: Vec<f64> =
                shares(&a, &s, &coarse, &fitted.reach, i, 2).into_iter().filter(|s| *s > 0.0).collect();
            let total: f64 = shares.iter().sum();
            let row: Vec<f64> = fitted.p.view().row(i).map(|(_, w)| w[0]).collect();
            assert!(row.iter().zip(&shares).all(|(w, share)| (w - share / total).abs() < 1e-14), "row {i}");
        }
    }

    #[test]
    fn an_unknown_that_nothing_fits_becomes_a_coarse_one() {
        // A path 0-1-2, and a pair 3-4 of which one is coarse; 5 is alone. Unknown 4 cannot be linear in 3.
        let t = [(0, 1), (1, 2), (3, 4)];
        let couplings = t.iter().flat_map(|(i, j)| [(*i, *j, -1.0), (*j, *i, -1.0)]);
        let entries: Vec<_> = couplings.chain((0..6).map(|i| (i, i, 2.0))).collect();
        let a = Csr::from_triplets(6, 6, &entries).unwrap();
        let s = strength::absolute(&a.view(), 0.5).unwrap();
        let vectors = (0..12).map(|i| if i < 6 { 1.0 } else { f64::from(i) }).collect();
        let space = NearNullSpace { dofs_per_node: 1, count: 2, vectors };
        let coarse = [true, false, true, true, false, false];
        let fitted = interpolate(&a.view(), &s, &coarse, &space, (RULES, ALL), None).unwrap();
        let joined = fitted.coarse.unwrap();
        assert_eq!(joined, [true, false, true, true, true, false]);
        assert_eq!(fitted.reach, [0, 1, 0, 0, JOINS, 0]);
        assert_eq!(
            (&fitted.p.offsets[..], &fitted.p.columns[..]),
            (&[0, 1, 3, 4, 5, 6, 6][..], &[0, 0, 1, 1, 2, 3][..])
        );
        let expected = [1.0, 0.5, 0.5, 1.0, 1.0, 1.0];
        assert!(fitted.p.values.iter().zip(expected).all(|(w, e)| (w - e).abs() < 1e-15), "{:?}", fitted.p.values);

        // An update with other vectors keeps distances and pattern. Unknown 1 is nearer to 2 now.
        let mut moved = space.vectors.clone();
        moved[7] = 7.75;
        let moved = NearNullSpace { dofs_per_node: 1, count: 2, vectors: moved };
        let structure = fitted.p.clone().into_shared().structure;
        let earlier = Some((&fitted.reach[..], &*structure));
        let updated = interpolate(&a.view(), &s, &joined, &moved, (RULES, ALL), earlier).unwrap();
        assert_eq!((&updated.p.columns, updated.coarse), (&fitted.p.columns, None));
        assert!((updated.p.values[1] - 0.125).abs() < 1e-14 && (updated.p.values[2] - 0.875).abs() < 1e-14);
        let same = interpolate(&a.view(), &s, &joined, &space, (RULES, ALL), earlier).unwrap();
        assert!(same.p == fitted.p);
    }
}
