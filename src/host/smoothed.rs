//! Smoothing of a tentative prolongator by one damped Jacobi step: P = (I - w/λ D^-1 A_F) P_0, where D is the diagonal
//! of A_F, or has its diagonal blocks.
//!
//! For scalar matrices A_F is A without its weak couplings, which are added to the diagonal so that row sums stay;
//! block matrices are used whole, because adding blocks to the diagonal would only keep translations.

use super::diagonal;
use super::distributed::divided::{self, DividedMatrix, DividedPattern};
use super::distributed::tentative as divided_tentative;
use super::spgemm::{self, Shape, multiply_block, with_shape};
use super::spgemm_symbolic::{SpgemmSymbolic, Values};
use super::{Host, HostMatrix, HostPattern, tentative};
use crate::backend::common::MAX_BLOCK;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::parameters::Estimate;
use crate::backend::spectrum::Largest;
use crate::comm::{Distribution, DividedLevel, LocalNumbers, Numbering};
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph, NearNullSpace, SharedCsr, Structure};
use std::sync::Arc;

/// A damped Jacobi step, by which P_0 is multiplied.
pub struct Step<'a, T> {
    a: CsrView<'a, T>,
    /// A_F where it is not A.
    filtered: Option<Csr<T>>,
    /// D^-1 of own rows, and the first of these.
    inverse: Vec<T>,
    first: usize,
    /// -w/λ.
    factor: T,
    /// λ, the largest eigenvalue of D^-1 A_F.
    largest: Largest,
}

/// Symbolic data of a smoothed prolongator.
pub struct SmoothingSymbolic<T> {
    tentative: Csr<T>,
    terms: SpgemmSymbolic,
    /// The position in the row of P of the only entry of P_0.
    own: Vec<u32>,
}

impl<T: Scalar> SmoothingSymbolic<T> {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let Csr { offsets, columns, values, .. } = &self.tentative;
        size_of_val(&offsets[..])
            + size_of_val(&columns[..])
            + size_of_val(&values[..])
            + size_of_val(&self.own[..])
            + self.terms.bytes()
    }
}

impl<'a, T: Scalar> Step<'a, T> {
    /// The step with weight w for a matrix with these strong couplings; `earlier` is the eigenvalue of an earlier
    /// matrix.
    pub fn new(
        host: &Host,
        a: &CsrView<'a, T>,
        s: &Graph,
        how: (f64, Estimate),
        earlier: Option<&Largest>,
    ) -> Result<Step<'a, T>> {
        Step::over(host, a, None, s, how, earlier)
    }

    /// The same where the level may be divided among ranks. Collective.
    pub(crate) fn over(
        host: &Host,
        a: &CsrView<'a, T>,
        level: Option<DividedLevel<'_>>,
        s: &Graph,
        how: (f64, Estimate),
        earlier: Option<&Largest>,
    ) -> Result<Step<'a, T>> {
        // Usually every coupling is strong, and A itself will do.
        let all = |count: usize| level.map_or(Ok(count), |level| divided::sum(level.over, count));
        let rows = level.map_or(a.rows, |level| level.numbers.total);
        let weak = a.block == Block::SCALAR && all(s.columns.len())? + rows < all(a.nnz() * a.block.len())?;
        let filtered = if weak { Some(filter(a, s, level.is_some())?) } else { None };
        Step::by(host, a, filtered, level, how, earlier)
    }

    /// The same with all couplings.
    pub fn whole(
        host: &Host,
        a: &CsrView<'a, T>,
        how: (f64, Estimate),
        earlier: Option<&Largest>,
    ) -> Result<Step<'a, T>> {
        Step::by(host, a, None, None, how, earlier)
    }

    fn by(
        host: &Host,
        a: &CsrView<'a, T>,
        filtered: Option<Csr<T>>,
        level: Option<DividedLevel<'_>>,
        (weight, estimate): (f64, Estimate),
        earlier: Option<&Largest>,
    ) -> Result<Step<'a, T>> {
        let used = filtered.as_ref().map_or(*a, Csr::view);
        let inverse: Vec<T> = diagonal::inverse(&used, a.block.rows, diagonal::AS_IT_IS)?;
        let inverse = match level {
            Some(level) => divided::of_own(level.numbers, inverse)?,
            None => inverse,
        };
        let largest = host.largest_of_rows(&estimate, &used, level, &inverse, earlier)?;
        let first = level.map_or(0, |level| level.numbers.inside().start);
        let factor = if largest.value > 0.0 { T::from_f64(-weight / largest.value) } else { T::ZERO };
        Ok(Step { a: *a, filtered, inverse, first, factor, largest })
    }

    /// λ.
    pub fn largest(&self) -> &Largest {
        &self.largest
    }

    /// D^-1.
    pub fn into_inverse(self) -> Vec<T> {
        self.inverse
    }

    /// D^-1 where A_F is A, so that λ and D are A's.
    pub fn into_inverse_of_a(self) -> Option<Vec<T>> {
        self.filtered.is_none().then_some(self.inverse)
    }

    fn matrix(&self) -> CsrView<'_, T> {
        self.filtered.as_ref().map_or(self.a, Csr::view)
    }

    /// P.
    pub fn smooth(&self, tentative: &Csr<T>) -> Result<Csr<T>> {
        let p0 = tentative.view();
        spgemm::multiply_and(&self.matrix(), &p0, &|i, columns, values| {
            self.finish(&p0, i, values, |j| position(columns, j));
        })
    }

    /// Symbolic phase for the pattern of P.
    pub fn symbolic(&self, tentative: Csr<T>, p: &Structure) -> Result<SmoothingSymbolic<T>> {
        let p0 = (&tentative.offsets[..], &tentative.columns[..]);
        let terms = SpgemmSymbolic::new(&self.matrix(), (p0, tentative.block), p.own_arrays(), p.cols)?;
        let (offsets, columns) = p.own_arrays();
        let mut own = try_vec(p.rows, 0_u32)?;
        par::for_each_mut(&mut own, par::ROW_GRAIN, |start, own| {
            for (own, i) in own.iter_mut().zip(start..) {
                let row = &columns[offsets[i] as usize..offsets[i + 1] as usize];
                // Where set-up is divided, rows of other ranks are empty.
                if let Some((j, _)) = tentative.view().row(i).next().filter(|_| !row.is_empty()) {
                    *own = position(row, j) as u32;
                }
            }
        });
        Ok(SmoothingSymbolic { tentative, terms, own })
    }

    /// Numeric phase: P with its pattern.
    pub fn numeric(&self, symbolic: &SmoothingSymbolic<T>, p: &Arc<Structure>) -> Result<SharedCsr<T>> {
        let p0 = symbolic.tentative.view();
        let factor = Values { offsets: &symbolic.tentative.offsets, values: p0.values, block: p0.block };
        let values = symbolic.terms.numeric(&self.matrix(), factor, p.own_arrays().0, |i, values| {
            self.finish(&p0, i, values, |_| symbolic.own[i] as usize);
        })?;
        Ok(SharedCsr { structure: Arc::clone(p), values: Arc::new(values) })
    }

    /// Turns row `i` of A_F P_0 into that of P. `position` gives that of a column in the row.
    #[inline(always)]
    fn finish(&self, p0: &CsrView<'_, T>, i: usize, values: &mut [T], position: impl Fn(usize) -> usize) {
        // Where set-up is divided, rows of other ranks are empty.
        if values.is_empty() {
            return;
        }
        let (n, cols, width) = (p0.block.rows, p0.block.cols, p0.block.len());
        let inverse = &self.inverse[(i - self.first) * n * n..][..n * n];
        if n == 1 {
            let scale = self.factor * inverse[0];
            values.iter_mut().for_each(|v| *v *= scale);
        } else {
            with_shape!((n, n, cols), shape => self.scale_blocks(shape, inverse, values));
        }
        for (j, start) in p0.row(i) {
            for (v, s) in values[position(j) * width..][..width].iter_mut().zip(start) {
                *v += *s;
            }
        }
    }

    /// Multiplies each of the blocks by an inverse and by the factor.
    #[inline(always)]
    fn scale_blocks(&self, shape: impl Shape, inverse: &[T], values: &mut [T]) {
        for block in values.chunks_exact_mut(shape.rows() * shape.cols()) {
            let mut product = [T::ZERO; MAX_BLOCK * MAX_BLOCK];
            multiply_block(shape, inverse, block, &mut product);
            for (v, product) in block.iter_mut().zip(product) {
                *v = self.factor * product;
            }
        }
    }
}

/// The position in a row of P of a column that P_0 has in the same row: it is there because the diagonal of A is
/// stored.
fn position(columns: &[i32], column: usize) -> usize {
    columns.iter().position(|c| *c as usize == column).expect("the diagonal is stored")
}

/// A with its weak couplings added to the diagonal. Where set-up is divided, rows of other ranks stay empty.
fn filter<T: Scalar>(a: &CsrView<'_, T>, s: &Graph, divided: bool) -> Result<Csr<T>> {
    // A row has its strong couplings and the diagonal.
    let is_elsewhere = |i: usize| divided && a.row_range(i).is_empty();
    let offsets = par::offsets(a.rows, |i| if is_elsewhere(i) { 0 } else { s.row(i).len() + 1 })?;
    let entries = offsets[a.rows] as usize;
    let (mut columns, mut values) = (try_vec(entries, 0_i32)?, try_vec(entries, T::ZERO)?);
    par::for_each_segment_mut2(&mut columns, (&mut values, 1), &offsets, par::ROW_GRAIN, |range, columns, values| {
        let first = offsets[range.start];
        for i in range {
            let row = (offsets[i] - first) as usize..(offsets[i + 1] - first) as usize;
            if row.is_empty() {
                continue;
            }
            filter_row(a, i, s.row(i), &mut columns[row.clone()], &mut values[row]);
        }
    });
    Ok(Csr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values })
}

/// Row `i` of [`filter`]. Strong couplings cannot be predicted, so there is no branch on them: an entry that is
/// dropped is overwritten.
#[inline(always)]
fn filter_row<T: Scalar>(a: &CsrView<'_, T>, i: usize, strong: &[i32], columns: &mut [i32], values: &mut [T]) {
    let mut diagonal = T::ZERO;
    // Without a diagonal in A it is the last entry.
    let mut position = columns.len() - 1;
    let (mut next, mut at) = (0, 0);
    for k in a.row_range(i) {
        let (j, v) = (a.col(k), a.values[k]);
        let is_strong = strong.get(next).is_some_and(|s| *s as usize == j);
        let is_diagonal = j == i;
        if let (Some(column), Some(value)) = (columns.get_mut(at), values.get_mut(at)) {
            (*column, *value) = (j as i32, v);
        }
        position = if is_diagonal { at } else { position };
        diagonal = if is_strong { diagonal } else { diagonal + v };
        next += usize::from(is_strong);
        at += usize::from(is_strong || is_diagonal);
    }
    columns[position] = i as i32;
    values[position] = diagonal;
}

/// The component.
pub struct SmoothedAggregation;

/// What it keeps for updates.
struct SmoothedSymbolic<T> {
    /// Of A without its weak couplings.
    largest: Largest,
    /// Made in the first update, because most hierarchies are never updated.
    numeric: Option<Arc<NumericSmoothing<T>>>,
}

struct NumericSmoothing<T> {
    symbolic: SmoothingSymbolic<T>,
    /// That of the coarse level, which follows from aggregates alone.
    near_null_space: Arc<NearNullSpace>,
}

impl<T: Scalar> InterpolationSymbolic<Host> for SmoothedSymbolic<T> {
    fn bytes(&self) -> usize {
        let of = |n: &Arc<NumericSmoothing<T>>| n.symbolic.bytes() + size_of_val(n.near_null_space.vectors.as_slice());
        self.numeric.as_ref().map_or(0, of)
    }
}

impl<T: Scalar> Interpolation<Host, T> for SmoothedAggregation {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let (aggregates, space) = input.aggregates("smoothed")?;
        let earlier = input.symbolic::<SmoothedSymbolic<T>>();
        let how = (input.parameters.real("amg.interpolation.weight"), Estimate::new(input.parameters));
        let (a, divided) = (input.a.view(), input.setup.divided(input.a));
        let level = divided.map(|(over, a)| a.level(over));
        let earlier_largest = earlier.map(|earlier| &earlier.largest);
        let step = Step::over(input.setup, &a, level, input.graph, how, earlier_largest)?;
        let tentative = |p: Option<&DividedPattern>| match level {
            Some(level) => divided_tentative::prolongator(level, aggregates, space, p.map(|p| &**p.columns)),
            None => {
                let (p0, space) = tentative::prolongator(&aggregates.of, aggregates.count, space)?;
                Ok((p0, None, space))
            }
        };
        let (p, near_null_space, numeric) = match input.pattern() {
            None => {
                let (p0, columns, space) = tentative(None)?;
                let p = step.smooth(&p0)?;
                let p = match (divided, columns) {
                    (Some((over, a)), Some(columns)) => {
                        HostMatrix::Divided(of_ranks(over, a, p, (aggregates.count, &columns))?)
                    }
                    _ => p.into_shared().into(),
                };
                (p, Arc::new(space), None)
            }
            Some(pattern) => {
                let known = match pattern {
                    HostPattern::Divided(pattern) => Some(pattern),
                    _ => None,
                };
                let numeric = match earlier.and_then(|earlier| earlier.numeric.clone()) {
                    Some(numeric) => numeric,
                    None => {
                        let (p0, _, space) = tentative(known)?;
                        let near_null_space = Arc::new(space);
                        Arc::new(NumericSmoothing { symbolic: step.symbolic(p0, pattern.rows())?, near_null_space })
                    }
                };
                let p = step.numeric(&numeric.symbolic, pattern.rows())?;
                let p = match known {
                    Some(pattern) => HostMatrix::Divided(pattern.with_shared(p.values)),
                    None => p.into(),
                };
                (p, Arc::clone(&numeric.near_null_space), Some(numeric))
            }
        };
        let largest = step.largest().clone();
        let largest_eigenvalue = step.into_inverse_of_a().map(|inverse| (largest.clone(), inverse));
        let symbolic: Arc<dyn InterpolationSymbolic<Host>> = Arc::new(SmoothedSymbolic { largest, numeric });
        let near_null_space = Some(near_null_space);
        Ok(Interpolated { near_null_space, largest_eigenvalue, symbolic: Some(symbolic), ..Interpolated::alone(p) })
    }
}

/// A prolongator whose columns have these numbers, with numbers for those alone that it has. Collective.
fn of_ranks<T: Scalar>(
    over: &Arc<Distribution>,
    a: &DividedMatrix<T>,
    p: Csr<T>,
    (total, from): (usize, &LocalNumbers),
) -> Result<DividedMatrix<T>> {
    let Csr { block, offsets, mut columns, values, .. } = p;
    let starts = over.block_starts(total, block.cols)?;
    let numbers = Arc::new(Numbering::of_local(over, &starts, from, &mut columns)?);
    let own = a.rows.of_own(&offsets);
    DividedMatrix::of_own_rows(Arc::clone(&a.rows), numbers, block, (own, columns, values))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::context::Context;
    use crate::host::strength;

    #[test]
    fn interior_rows_keep_the_constant_and_weak_couplings_are_lumped() {
        // Strong couplings along a line, weak ones two apart.
        let n = 30;
        let mut t = Vec::new();
        for i in 0..n {
            for (d, v) in [(1, -1.0), (2, -0.001)] {
                if i + d < n {
                    t.extend([(i, i + d, v), (i + d, i, v), (i, i, -v), (i + d, i + d, -v)]);
                }
            }
        }
        let a = Csr::from_triplets(n, n, &t).unwrap();
        let s = strength::Symmetric::new(&a.view()).unwrap().graph(0.08).unwrap();
        assert_eq!(s.row(5), [4, 6]);
        let aggregates: Vec<i32> = (0..n as i32).map(|i| i / 3).collect();
        let space = NearNullSpace::constants(n, 1).unwrap();
        let (p0, _) = tentative::prolongator(&aggregates, 10, &space).unwrap();
        let host = Host::new(&Context::new("host:1").unwrap());

        let how = (4.0 / 3.0, Estimate::new(&Config::new()));
        let step = Step::new(&host, &a.view(), &s, how, None).unwrap();
        let p = step.smooth(&p0).unwrap().into_shared();

        // A 1 = 0, so smoothing leaves the constant alone, and only neighbours of an aggregate's edge gain entries.
        let sums: Vec<f64> = (0..n).map(|i| p.view().row(i).map(|(_, v)| v[0]).sum()).collect();
        assert!(sums.iter().all(|s| (s - 1.0 / 3.0_f64.sqrt()).abs() < 1e-14));
        assert_eq!((p.view().row_range(4).len(), p.view().row_range(3).len()), (1, 2));

        // The numeric phase gives the same bits.
        let again = Step::new(&host, &a.view(), &s, how, Some(step.largest())).unwrap();
        let symbolic = again.symbolic(p0, &p.structure).unwrap();
        assert_eq!(again.numeric(&symbolic, &p.structure).unwrap().values.as_slice(), p.values.as_slice());
        assert!(step.into_inverse_of_a().is_none(), "A was not needed");
    }
}
