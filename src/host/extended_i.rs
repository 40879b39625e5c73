//! Extended+i interpolation (De Sterck, Falgout, Nolting and Yang, 2008) with truncation.
//!
//! For a fine unknown i, C_i are its strong coarse neighbours, F_i its strong fine ones, and Ĉ_i adds to C_i the strong
//! coarse neighbours of F_i. With ā_kl = a_kl where its sign differs from that of a_kk, and 0 elsewhere,
//!
//! w_ij = -1/ã_ii (a_ij + Σ_{k∈F_i} a_ik ā_kj / b_ik),    b_ik = Σ_{l∈Ĉ_i∪{i}} ā_kl,
//! ã_ii = a_ii + Σ_{weak n∉Ĉ_i} a_in + Σ_{k∈F_i} a_ik ā_ki / b_ik.

use super::distributed::divided::DividedMatrix;
use super::distributed::surroundings::Surroundings;
use super::interleaved_sum::InterleavedSum;
use super::truncate::{self, Truncation};
use super::two_stage::{self, Stages};
use super::{Host, HostMatrix, HostPattern, rows};
use crate::backend::common::Formula;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::setup::Coarse;
use crate::comm::Distribution;
use crate::error::{Result, try_extend, try_push, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph, Structure};
use std::sync::Arc;

/// Interpolation from the coarse unknowns to all, or to the unknowns of `only`. With `pattern` (a result of the same
/// graph and splitting), each row keeps the columns that it has there, whatever the size of the new weights.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    only: Option<&[u32]>,
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    by_formula(Formula::ExtendedI, a, s, coarse, only, truncation, pattern)
}

/// The same where coarse unknowns have these numbers on the coarse level, which ties are broken by.
pub(super) fn interpolate_numbered<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    only: &[u32],
    (truncation, numbers): (Truncation, &[i32]),
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    let number = |column: i32| numbers[column as usize];
    rows_by_formula(Formula::ExtendedI, a, s, coarse, Some(only), (truncation, &number), pattern)
}

/// The same by either formula.
pub fn by_formula<T: Scalar>(
    formula: Formula,
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    only: Option<&[u32]>,
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    rows_by_formula(formula, a, s, coarse, only, (truncation, &|column| column), pattern)
}

/// The number on the coarse level of a coarse unknown.
type CoarseNumber<'a> = &'a (dyn Fn(i32) -> i32 + Sync);

fn rows_by_formula<T: Scalar>(
    formula: Formula,
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    only: Option<&[u32]>,
    truncation: (Truncation, CoarseNumber<'_>),
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let count = only.map_or(a.rows, <[u32]>::len);
    let level = Level::new(a, s, coarse)?;
    let pattern = pattern.map(|p| p.view::<T>(&[]));
    let (offsets, columns, values) = rows::build(count, 1, |range, out| {
        let mut row = Row::new(level.coarse_count)?;
        for at in range {
            let i = only.map_or(at, |only| only[at] as usize);
            if coarse[i] {
                out.push(level.number[i], T::ONE)?;
            } else {
                row.compute(&level, formula, i)?;
                match &pattern {
                    Some(p) => row.keep_columns(p.row_range(at).map(|k| p.col(k) as i32))?,
                    None => row.truncate(truncation)?,
                }
                out.extend(&row.kept)?;
            }
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: count, cols: level.coarse_count, block: Block::SCALAR, offsets, columns, values })
}

/// Input of all rows.
struct Level<'a, T> {
    a: &'a CsrView<'a, T>,
    s: &'a Graph,
    coarse: &'a [bool],
    /// Number of each coarse unknown on the coarse level.
    number: Vec<i32>,
    coarse_count: usize,
    positive: Vec<bool>,
    /// For each fine unknown k its coarse l with ā_kl: first those on which k depends strongly, by the number of l,
    /// then others whose ā_kl is not 0, by that number with all bits inverted. Every neighbour of k asks for them, and
    /// they are a small part of its row. Each row begins with how many are strong, and the sum of these.
    couplings: rows::Pieces<T>,
}

impl<'a, T: Scalar> Level<'a, T> {
    fn new(a: &'a CsrView<'a, T>, s: &'a Graph, coarse: &'a [bool]) -> Result<Level<'a, T>> {
        let (number, coarse_count) = coarse_numbers(coarse)?;
        let positive = positive_diagonals(a)?;
        let couplings = rows::pieces(a.rows, 1, |range, out| {
            let mut weak = Vec::new();
            for k in range {
                let mut strong = s.row(k).iter().peekable();
                let (head, mut sum) = (out.columns.len(), InterleavedSum::ZERO);
                let entries = if coarse[k] { 0..0 } else { a.row_range(k) };
                out.reserve(entries.len() + 1, 1)?;
                out.columns.push(0);
                out.values.push(T::ZERO);
                for (place, at) in entries.enumerate() {
                    let (l, v) = (a.col(at), a.values[at]);
                    let is_strong = strong.next_if(|next| **next as usize == l).is_some();
                    let counts = (v < T::ZERO) == positive[k];
                    if coarse[l] && is_strong {
                        let coupling = if counts { v } else { T::ZERO };
                        out.columns.push(number[l]);
                        out.values.push(coupling);
                        sum.add(place, coupling);
                    } else if coarse[l] && counts {
                        try_push(&mut weak, (!number[l], v))?;
                    }
                }
                out.columns[head] = (out.columns.len() - head - 1) as i32;
                out.values[head] = sum.sum();
                out.columns.extend(weak.iter().map(|w| w.0));
                out.values.extend(weak.drain(..).map(|w| w.1));
                out.end_row();
            }
            Ok(())
        })?;
        Ok(Level { a, s, coarse, number, coarse_count, positive, couplings })
    }

    /// ā_ki.
    fn back(&self, k: usize, i: usize) -> T {
        let range = self.a.row_range(k);
        let columns = &self.a.columns[range.clone()];
        let column = i as i32 + self.a.base;
        // Rows need not ascend.
        let at = columns.binary_search(&column).ok().or_else(|| columns.iter().position(|c| *c == column));
        let v = at.map_or(T::ZERO, |at| self.a.values[range.start + at]);
        if (v < T::ZERO) == self.positive[k] { v } else { T::ZERO }
    }
}

/// Number of each coarse unknown on the coarse level (unspecified for fine ones), and how many there are.
pub fn coarse_numbers(coarse: &[bool]) -> Result<(Vec<i32>, usize)> {
    let mut number = try_vec(coarse.len(), 0)?;
    let mut count = 0;
    for (n, c) in number.iter_mut().zip(coarse) {
        *n = count;
        count += i32::from(*c);
    }
    Ok((number, count as usize))
}

/// Whether a_kk is positive, for each row.
pub fn positive_diagonals<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<bool>> {
    let mut positive = try_vec(a.rows, false)?;
    par::for_each_mut(&mut positive, par::ROW_GRAIN, |start, piece| {
        for (k, positive) in piece.iter_mut().enumerate() {
            *positive = a.row(start + k).any(|(j, v)| j == start + k && v[0] > T::ZERO);
        }
    });
    Ok(positive)
}

/// Scratch space for one row. Coarse unknowns have their numbers on the coarse level.
struct Row<T> {
    /// Position in `pattern` plus one, 0 outside of Ĉ_i.
    position: Vec<u32>,
    /// Ĉ_i, the columns that row i interpolates from.
    pattern: Vec<i32>,
    /// Weights of Ĉ_i from 1 on; the first collects those of columns outside of it.
    weights: Vec<T>,
    /// The sum of all weights.
    total: T,
    /// Strong fine neighbours and the couplings to them.
    spread: Vec<(usize, T)>,
    /// Coarse columns and weights after truncation, ascending.
    kept: Vec<(i32, T)>,
}

impl<T: Scalar> Row<T> {
    fn new(coarse_count: usize) -> Result<Row<T>> {
        let (pattern, weights, kept, spread) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Row { position: rows::scratch(coarse_count)?, pattern, weights, total: T::ZERO, spread, kept })
    }

    fn compute(&mut self, level: &Level<'_, T>, formula: Formula, i: usize) -> Result<()> {
        let Level { a, s, coarse, number, couplings, .. } = level;
        for m in self.pattern.drain(..) {
            self.position[m as usize] = 0;
        }
        for &j in s.row(i) {
            if coarse[j as usize] {
                self.add(number[j as usize])?;
            } else if formula == Formula::ExtendedI {
                let columns = couplings.row(j as usize, 1).0;
                for &l in &columns[1..][..columns[0] as usize] {
                    self.add(l)?;
                }
            }
        }
        self.weights.clear();
        try_extend(&mut self.weights, std::iter::repeat_n(T::ZERO, self.pattern.len() + 1))?;
        self.total = T::ZERO;
        if self.pattern.is_empty() {
            return Ok(());
        }

        // The row itself, then the distribution of its strong fine neighbours.
        let (mut diagonal, mut total) = (InterleavedSum::ZERO, InterleavedSum::ZERO);
        // The strong columns stand in the order of the matrix's row, so one pass over both tells which entries are
        // strong.
        let mut strong = s.row(i).iter().peekable();
        self.spread.clear();
        for (at, k) in a.row_range(i).enumerate() {
            let j = a.col(k);
            let value = a.values[k];
            let is_strong = strong.next_if(|next| **next as usize == j).is_some();
            let position = if coarse[j] { self.position[number[j] as usize] } else { 0 };
            if position != 0 {
                self.weights[position as usize] = value;
                total.add(at, value);
            } else if is_strong {
                try_push(&mut self.spread, (j, value))?;
            } else {
                diagonal.add(at, value);
            }
        }
        let mut to_pattern = T::ZERO;
        let spread = std::mem::take(&mut self.spread);
        for (at, (k, a_ik)) in spread.iter().enumerate() {
            let back = if formula == Formula::ExtendedI { level.back(*k, i) } else { T::ZERO };
            let (own, others) = self.distribute(formula, couplings.row(*k, 1), back, *a_ik);
            diagonal.add(at, own);
            to_pattern += others;
        }
        self.spread = spread;
        let (diagonal, total) = (diagonal.sum(), total.sum() + to_pattern);
        let scale = if diagonal == T::ZERO { T::ZERO } else { -T::ONE / diagonal };
        self.total = total * scale;
        for w in &mut self.weights {
            *w *= scale;
        }
        Ok(())
    }

    fn add(&mut self, number: i32) -> Result<()> {
        if self.position[number as usize] == 0 {
            try_push(&mut self.pattern, number)?;
            self.position[number as usize] = self.pattern.len() as u32;
        }
        Ok(())
    }

    /// Distributes a_ik to Ĉ_i and i in proportion to ā_kl; ā_ki is `own`. Returns the shares of i and of Ĉ_i.
    fn distribute(&mut self, formula: Formula, (columns, values): (&[i32], &[T]), own: T, a_ik: T) -> (T, T) {
        let number = |c: i32| if c < 0 { !c } else { c } as usize;
        let (strong, sum_of_strong) = (columns[0] as usize, values[0]);
        let (columns, values) = (&columns[1..], &values[1..]);
        let of_pattern = |columns: &[i32], values: &[T]| {
            let mut sum = InterleavedSum::ZERO;
            for (at, (c, v)) in columns.iter().zip(values).enumerate() {
                sum.add(at, if self.position[number(*c)] != 0 { *v } else { T::ZERO });
            }
            sum.sum()
        };
        let strong_couplings = match formula {
            // All strong couplings of k lead into Ĉ_i: their sum is the same for every i.
            Formula::ExtendedI => sum_of_strong,
            Formula::ClassicalModified => of_pattern(&columns[..strong], &values[..strong]),
        };
        let others = strong_couplings + of_pattern(&columns[strong..], &values[strong..]);
        let sum = others + own;
        if sum == T::ZERO {
            return (a_ik, T::ZERO);
        }
        let share = a_ik / sum;
        for (c, v) in columns.iter().zip(values) {
            self.weights[self.position[number(*c)] as usize] += share * *v;
        }
        (share * own, share * others)
    }

    /// Columns and weights of Ĉ_i.
    fn weights(&self) -> impl Iterator<Item = (i32, T)> + '_ {
        self.pattern.iter().copied().zip(self.weights.iter().skip(1).copied())
    }

    /// Keeps the largest weights and rescales them to the row sum.
    fn truncate(&mut self, (truncation, number): (Truncation, CoarseNumber<'_>)) -> Result<()> {
        let mut kept = std::mem::take(&mut self.kept);
        kept.clear();
        try_extend(&mut kept, self.weights().filter(|(_, w)| *w != T::ZERO))?;
        truncate::truncate_to(&mut kept, self.total, truncation, number);
        self.kept = kept;
        Ok(())
    }

    fn keep_columns(&mut self, columns: impl Iterator<Item = i32>) -> Result<()> {
        let mut kept = std::mem::take(&mut self.kept);
        truncate::keep_columns_to(&mut kept, columns, self.weights(), self.total)?;
        self.kept = kept;
        Ok(())
    }
}

/// The component, on aggressive levels in two stages.
pub struct ExtendedI;

/// Where set-up is divided, the rows of other ranks that weights depend on.
struct OfOtherRanks(Arc<Surroundings>);

impl InterpolationSymbolic<Host> for OfOtherRanks {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// The rows of this rank. Collective.
fn divided<T: Scalar>(
    (over, a): (&Arc<Distribution>, &DividedMatrix<T>),
    input: &InterpolationInput<'_, Host, T>,
) -> Result<Interpolated<Host, T>> {
    let surroundings = match input.symbolic::<OfOtherRanks>() {
        Some(OfOtherRanks(surroundings)) => Arc::clone(surroundings),
        None => Arc::new(Surroundings::new(over, a, input.graph, input.splitting("extended_i")?)?),
    };
    let p = match input.pattern() {
        Some(HostPattern::Divided(pattern)) => surroundings.update(over, a, input.graph, pattern)?,
        _ => surroundings.interpolate(over, a, input.graph, input.truncation)?,
    };
    let symbolic: Arc<dyn InterpolationSymbolic<Host>> = Arc::new(OfOtherRanks(surroundings));
    Ok(Interpolated { symbolic: Some(symbolic), ..Interpolated::alone(HostMatrix::Divided(p)) })
}

/// The patterns of the stages of an aggressive level. The first update computes them, because most hierarchies are
/// never updated.
struct StagePatterns(Stages);

impl InterpolationSymbolic<Host> for StagePatterns {
    fn bytes(&self) -> usize {
        [&self.0.to_first, &self.0.to_all].map(|structure| structure.owned_bytes()).iter().sum()
    }
}

impl<T: Scalar> Interpolation<Host, T> for ExtendedI {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        if let Some(divided_a) = input.setup.divided(input.a) {
            return divided(divided_a, input);
        }
        let (a, s, truncation) = (&input.a.view(), input.graph, input.truncation);
        let pattern = input.pattern().map(|pattern| &**pattern.rows());
        let Coarse::TwoPass(first, second) = input.coarse else {
            let p = interpolate(a, s, input.splitting("extended_i")?, None, truncation, pattern)?;
            return Ok(Interpolated::alone(p.into_shared().into()));
        };
        let stages = input.symbolic::<StagePatterns>().map(|StagePatterns(stages)| stages);
        let (p, stages) =
            two_stage::interpolate(first, second, truncation, pattern, stages, |coarse, only, pattern| {
                interpolate(a, s, coarse, only, truncation, pattern)
            })?;
        let symbolic: Option<Arc<dyn InterpolationSymbolic<Host>>> = match pattern {
            None => None,
            Some(_) => Some(Arc::new(StagePatterns(stages))),
        };
        Ok(Interpolated { symbolic, ..Interpolated::alone(p.into_shared().into()) })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::strength;

    const ALL: Truncation = Truncation::new(0, 0.0);

    /// [-1 2 -1] on five unknowns, the outer ones coupled to the boundary.
    fn line() -> Csr<f64> {
        let mut t = Vec::new();
        for i in 0..5_usize {
            t.push((i, i, 2.0));
            if i > 0 {
                t.push((i, i - 1, -1.0));
                t.push((i - 1, i, -1.0));
            }
        }
        Csr::from_triplets(5, 5, &t).unwrap()
    }

    #[test]
    fn a_line_is_interpolated_linearly_across_two_fine_unknowns() {
        let a = line();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let p = interpolate(&a.view(), &s, &[true, false, false, true, false], None, ALL, None).unwrap();
        let row = |i: usize| p.view().row(i).map(|(j, v)| (j, v[0])).collect::<Vec<_>>();
        assert_eq!(row(0), [(0, 1.0)]);
        // Unknown 1 sees 0 directly and 3 through 2: the "+i" part makes it exact for the linear function.
        let close = |got: Vec<(usize, f64)>, want: [(usize, f64); 2]| {
            got.iter().zip(want).all(|(g, w)| g.0 == w.0 && (g.1 - w.1).abs() < 1e-15) && got.len() == 2
        };
        assert!(close(row(1), [(0, 2.0 / 3.0), (1, 1.0 / 3.0)]), "{:?}", row(1));
        assert!(close(row(2), [(0, 1.0 / 3.0), (1, 2.0 / 3.0)]), "{:?}", row(2));
        assert_eq!(row(4), [(1, 0.5)]);
        let only = interpolate(&a.view(), &s, &[true, false, false, true, false], Some(&[2, 4]), ALL, None).unwrap();
        let some = |i: usize| only.view().row(i).map(|(j, v)| (j, v[0])).collect::<Vec<_>>();
        assert_eq!((only.rows, some(0), some(1)), (2, row(2), row(4)));
    }

    #[test]
    fn truncation_keeps_the_row_sum_and_a_kept_pattern_gives_the_same_weights() {
        let a = line();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let coarse = [true, false, false, true, false];
        let one = Truncation::new(1, 0.0);
        let p = interpolate(&a.view(), &s, &coarse, None, one, None).unwrap();
        assert_eq!(p.offsets, [0, 1, 2, 3, 4, 5]);
        assert!((p.values[1] - 1.0).abs() < 1e-15 && (p.values[2] - 1.0).abs() < 1e-15);
        let shared = p.clone().into_shared();
        let again = interpolate(&a.view(), &s, &coarse, None, ALL, Some(&shared.structure)).unwrap();
        assert_eq!(again, p);
    }
}
