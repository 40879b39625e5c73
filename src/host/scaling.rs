//! Scaling of a finished hierarchy, so that 16-bit numbers can hold it.
//!
//! With S = diag(s_i), level by level, A becomes S^-1 A S^-1, P becomes S P S_c^-1 and R its transpose counterpart
//! S_c^-1 R S. The coarse matrix of the scaled matrices is the scaled coarse matrix, so the levels below never see that
//! the levels above were scaled. All s_i are powers of two: in f64 and f32 the scaled cycle computes the same numbers
//! as the unscaled one, but for l1 sums and underflow. Before that, all matrices are multiplied by one number
//! (`unit_of`), so that rounding does not depend on their units.

use super::diagonal;
use super::registers::widely;
use crate::backend::common::sample;
use crate::error::{Result, try_capacity, try_collect, try_vec};
use crate::par::{self, Failure};
use crate::precision::{
    FAR_ABOVE, MATRIX, MATTERS, beyond_range, check_lost, check_lost_in_f32, does_not_fit, is_narrower, is_too_small,
    lift_of, middle_of, not_by_diagonal,
};
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::{Block, CsrView, SharedCsr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest entry outside of the diagonal in a sample of the rows, in absolute value; 0 where there is none.
pub(crate) fn largest_off_diagonal<T: Scalar>(a: &CsrView<'_, T>) -> Result<f64> {
    let (br, bc) = (a.block.rows, a.block.cols);
    let (count, step) = sample(a.rows);
    let largest = par::map_ranges(count, par::ROW_GRAIN, |range| {
        let mut largest = 0.0_f64;
        for i in range.map(|k| k * step) {
            for (j, block) in a.row(i) {
                let off = |(e, _): &(usize, &T)| i * br + e / bc != j * bc + e % bc;
                largest = block.iter().enumerate().filter(off).fold(largest, |max, (_, v)| max.max(v.to_f64().abs()));
            }
        }
        Ok(largest)
    })?;
    Ok(largest.into_iter().fold(0.0, f64::max))
}

/// One s for each scalar row of a level's matrix, by the scaling that `precision.scaling` names, which is not `none`.
pub(crate) fn factors<T: Scalar>(a: &SharedCsr<T>, scaling: &str) -> Result<Vec<f64>> {
    let a = a.view();
    let s = match scaling {
        "diagonal" => match by_diagonal(&a)? {
            Ok(s) => s,
            Err(i) => return not_by_diagonal(i),
        },
        "equilibrate" => by_largest(&a)?,
        _ => match by_diagonal(&a)? {
            Ok(s) => match largest_scaled(&a, &s)? {
                largest if largest <= FAR_ABOVE => return Ok(lift(s, largest)),
                _ => by_largest(&a)?,
            },
            Err(_) => by_largest(&a)?,
        },
    };
    if let Some(i) = s.iter().position(|s| !s.is_normal()) {
        return beyond_range(i);
    }
    let largest = largest_scaled(&a, &s)?;
    Ok(lift(s, largest))
}

/// Powers of two near the root of the diagonal, or the first row whose diagonal is not positive.
fn by_diagonal<T: Scalar>(a: &CsrView<'_, T>) -> Result<std::result::Result<Vec<f64>, usize>> {
    let mut s = diagonal::entries(a)?;
    par::for_each_mut(&mut s, par::GRAIN, |_, s| s.iter_mut().for_each(|s| *s = power_near_root(*s)));
    Ok(match s.iter().position(|s| !s.is_normal()) {
        Some(i) => Err(i),
        None => Ok(s),
    })
}

/// Powers of two near the root of the largest entry of row and column: no scaled entry is above 2, whatever the
/// diagonal. 1 where all are zero.
fn by_largest<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<f64>> {
    let (br, bc) = (a.block.rows, a.block.cols);
    let mut largest = try_vec(a.scalar_rows(), 0.0_f64)?;
    for i in 0..a.rows {
        for (j, block) in a.row(i) {
            for (e, v) in block.iter().enumerate() {
                let size = v.to_f64().abs();
                for at in [i * br + e / bc, j * bc + e % bc] {
                    largest[at] = largest[at].max(size);
                }
            }
        }
    }
    for s in &mut largest {
        *s = if *s == 0.0 { 1.0 } else { power_near_root(*s) };
    }
    Ok(largest)
}

/// The power of two nearest to the root of a positive number, by its exponent; zero for all others.
pub(super) fn power_near_root(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 0.0;
    }
    let (normal, shift) = if value.is_normal() { (value, 0) } else { (value * 54_f64.exp2(), 54) };
    let exponent = (normal.to_bits() >> 52) as i64 - 1023 - shift;
    f64::from_bits((((exponent + 1) >> 1) + 1023) as u64 * (1 << 52))
}

/// The largest absolute value of the scaled matrix.
fn largest_scaled<T: Scalar>(a: &CsrView<'_, T>, s: &[f64]) -> Result<f64> {
    let inverse = try_collect(s.iter().map(|s| 1.0 / s))?;
    let largest = par::map_ranges(a.rows, par::ROW_GRAIN, |range| {
        let mut largest = 0.0_f64;
        for i in range {
            each_scaled(a, i, &inverse, &inverse, |_, value| largest = largest.max(value.abs()));
        }
        Ok(largest)
    })?;
    Ok(largest.into_iter().fold(0.0, f64::max))
}

/// Calls `put` for every value of block row i, multiplied by the factors of its row and column, with its place in the
/// block row.
#[inline(always)]
fn each_scaled<T: Scalar>(a: &CsrView<'_, T>, i: usize, left: &[f64], right: &[f64], mut put: impl FnMut(usize, f64)) {
    let (br, bc) = (a.block.rows, a.block.cols);
    let first = a.row_range(i).start;
    if a.block == Block::SCALAR {
        let left = left[i];
        for k in a.row_range(i) {
            put(k - first, a.values[k].to_f64() * left * right[a.col(k)]);
        }
        return;
    }
    for r in 0..br {
        let left = left[i * br + r];
        for k in a.row_range(i) {
            let j = a.col(k) * bc;
            for (c, v) in a.block_at(k)[r * bc..][..bc].iter().enumerate() {
                put((k - first) * br * bc + r * bc + c, v.to_f64() * left * right[j + c]);
            }
        }
    }
}

/// The factors, made smaller by one power of two.
fn lift(mut s: Vec<f64>, largest: f64) -> Vec<f64> {
    let shift = lift_of(largest);
    par::for_each_mut(&mut s, par::GRAIN, |_, s| s.iter_mut().for_each(|s| *s *= shift));
    s
}

/// The matrix with rows multiplied by `left` and columns by `right`; without factors they stay.
pub(crate) fn apply<T: Scalar>(
    a: &SharedCsr<T>,
    left: impl Fn(usize) -> f64 + Sync,
    right: impl Fn(usize) -> f64 + Sync,
) -> Result<SharedCsr<T>> {
    let view = a.view();
    multiplied(a, &evaluated(view.scalar_rows(), &left)?, &evaluated(view.scalar_cols(), &right)?)
}

/// A factor for each row or column.
fn evaluated(count: usize, factor: &(dyn Fn(usize) -> f64 + Sync)) -> Result<Vec<f64>> {
    let mut factors = try_vec(count, 0.0)?;
    par::for_each_mut(&mut factors, par::GRAIN, |start, factors| {
        factors.iter_mut().enumerate().for_each(|(k, to)| *to = factor(start + k));
    });
    Ok(factors)
}

/// [`apply`] with one number for each row and column.
fn multiplied<T: Scalar>(a: &SharedCsr<T>, left: &[f64], right: &[f64]) -> Result<SharedCsr<T>> {
    let view = a.view();
    let len = view.block.len();
    let mut values = try_vec(view.entries(), T::ZERO)?;
    let offsets = par::offsets(view.rows, |i| view.row_range(i).len())?;
    par::for_each_segment_mut(&mut values, &offsets, len, par::ROW_GRAIN, |range, values| {
        let mut values = values;
        for i in range {
            let (row, rest) = values.split_at_mut(view.row_range(i).len() * len);
            values = rest;
            each_scaled(&view, i, left, right, |place, value| row[place] = T::from_f64(value));
        }
    });
    Ok(SharedCsr { structure: Arc::clone(&a.structure), values: Arc::new(values) })
}

/// How values are rounded to 16 bits.
#[derive(Clone, Copy)]
pub(crate) enum Rounding<'a> {
    /// Each by itself.
    Nearest,
    /// So that the product with this vector stays.
    Keeping(&'a [f64]),
}

/// The matrix in another format; an error if values are out of range, but for small ones where they may vanish.
pub(crate) fn store<T: Scalar, S: Number>(
    a: &SharedCsr<T>,
    (what, may_vanish): (&str, bool),
    rounding: Rounding<'_>,
) -> Result<SharedCsr<S>> {
    if const { !is_narrower::<T, S>() } {
        return a.cast::<S>();
    }
    let from = a.values.as_slice();
    let (stored, lost) = match rounding {
        Rounding::Keeping(vector) if const { !S::PRECISION.is_scalar() } => {
            let stored = keeping::<T, S>(a, vector)?;
            let lost = lost_in(from, stored.values.as_slice())?;
            (stored, lost)
        }
        _ => {
            let (mut values, lost) = (try_vec(from.len(), S::ZERO)?, Lost::default());
            par::for_each_mut(&mut values, par::GRAIN, |start, to| {
                let from = &from[start..][..to.len()];
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from.cast());
                lost.add(from, to);
            });
            (SharedCsr { structure: Arc::clone(&a.structure), values: Arc::new(values) }, lost.counts())
        }
    };
    check_counts::<S>((what, may_vanish), from.len(), lost, &|| rows_lost(&a.view(), &stored.view()))?;
    Ok(stored)
}

/// The matrix with rows and columns multiplied, in another format: [`apply`] and [`store`] in one pass.
pub(crate) fn store_scaled<T: Scalar, S: Number>(
    a: &SharedCsr<T>,
    (left, right): (&[f64], &[f64]),
    which: (&str, bool),
) -> Result<SharedCsr<S>> {
    if const { !is_narrower::<T, S>() } || which.0 == MATRIX {
        return store(&multiplied(a, left, right)?, which, Rounding::Nearest);
    }
    let view = a.view();
    let len = view.block.len();
    let (mut values, lost) = (try_vec(view.entries(), S::ZERO)?, Lost::default());
    let offsets = par::offsets(view.rows, |i| view.row_range(i).len())?;
    par::for_each_segment_mut(&mut values, &offsets, len, par::ROW_GRAIN, |range, values| {
        let from = &view.values[view.row_range(range.start).start * len..][..values.len()];
        let mut rest = &mut *values;
        for i in range {
            let (row, next) = rest.split_at_mut(view.row_range(i).len() * len);
            rest = next;
            each_scaled(&view, i, left, right, |place, value| row[place] = T::from_f64(value).cast());
        }
        lost.add(from, values);
    });
    check_counts::<S>(which, values.len(), lost.counts(), &|| Ok(0))?;
    Ok(SharedCsr { structure: Arc::clone(&a.structure), values: Arc::new(values) })
}

/// Entries that are too large for a format, and too small.
#[derive(Default)]
struct Lost {
    too_large: AtomicU64,
    too_small: AtomicU64,
}

impl Lost {
    /// Adds those of a piece that was converted.
    fn add<T: Scalar, S: Number>(&self, from: &[T], to: &[S]) {
        let (mut too_large, mut too_small) = (0, 0);
        widely(
            #[inline(always)]
            || (too_large, too_small) = count_lost(from, to),
        );
        self.too_large.fetch_add(too_large, Ordering::Relaxed);
        self.too_small.fetch_add(too_small, Ordering::Relaxed);
    }

    fn counts(&self) -> (u64, u64) {
        (self.too_large.load(Ordering::Relaxed), self.too_small.load(Ordering::Relaxed))
    }
}

/// How many numbers are too large in another format, and too small.
#[inline(always)]
fn count_lost<T: Scalar, S: Number>(from: &[T], to: &[S]) -> (u64, u64) {
    let (mut too_large, mut too_small) = (0, 0);
    for (from, to) in from.iter().zip(to) {
        too_large += u64::from(!to.widen().is_finite());
        too_small += u64::from(is_too_small(*to) && *from != T::ZERO);
    }
    (too_large, too_small)
}

/// Numbers in a narrower format, and how many of them are too large and too small for it, in one pass.
pub(super) fn narrowed<T: Scalar, S: Number>(from: &[T]) -> Result<(Vec<S>, (u64, u64))> {
    let (mut values, lost) = (try_vec(from.len(), S::ZERO)?, Lost::default());
    par::for_each_mut(&mut values, par::GRAIN, |start, values| {
        let from = &from[start..][..values.len()];
        widely(
            #[inline(always)]
            || convert(from, values),
        );
        lost.add(from, values);
    });
    Ok((values, lost.counts()))
}

#[inline(always)]
fn convert<T: Scalar, S: Number>(from: &[T], to: &mut [S]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.cast());
}

/// What is lost in a conversion.
fn lost_in<T: Scalar, S: Number>(from: &[T], to: &[S]) -> Result<(u64, u64)> {
    let lost = Lost::default();
    par::map_ranges(from.len(), par::GRAIN, |range| {
        lost.add(&from[range.clone()], &to[range]);
        Ok(())
    })?;
    Ok(lost.counts())
}

/// An error if so many of all entries are too large and too small for format `S`.
pub(super) fn check_counts<S: Number>(
    (what, may_vanish): (&str, bool),
    entries: usize,
    lost: (u64, u64),
    rows_lost: &dyn Fn() -> Result<u64>,
) -> Result<()> {
    if S::PRECISION == Precision::F32 {
        let rows = if what == MATRIX && lost.1 > 0 { rows_lost()? } else { 0 };
        return check_lost_in_f32(what, entries, [lost.0, lost.1, rows]);
    }
    check_lost::<S>(what, may_vanish, entries, lost)
}

/// An error if values in another format are out of range, but for small ones where they may vanish. `rows_lost` counts rows of which all are too
/// small.
pub(super) fn check_stored<T: Scalar, S: Number>(
    from: &[T],
    to: &[S],
    (what, may_vanish): (&str, bool),
    rows_lost: &dyn Fn() -> Result<u64>,
) -> Result<()> {
    if const { !is_narrower::<T, S>() } {
        return Ok(());
    }
    check_counts::<S>((what, may_vanish), from.len(), lost_in(from, to)?, rows_lost)
}

/// Scalar rows of which all entries are too small for the format that they are stored in.
fn rows_lost<T: Scalar, S: Number>(exact: &CsrView<'_, T>, stored: &CsrView<'_, S>) -> Result<u64> {
    let (br, bc) = (stored.block.rows, stored.block.cols);
    let counts = par::map_ranges(stored.rows, par::ROW_GRAIN, |range| {
        let mut lost = 0;
        for (i, r) in range.flat_map(|i| (0..br).map(move |r| (i, r))) {
            let had = exact.row_range(i).flat_map(|k| &exact.block_at(k)[r * bc..][..bc]).any(|v| *v != T::ZERO);
            let kept = stored.row_range(i).flat_map(|k| &stored.block_at(k)[r * bc..][..bc]).any(|v| !is_too_small(*v));
            lost += u64::from(had && !kept);
        }
        Ok(lost)
    })?;
    Ok(counts.into_iter().sum())
}

/// Rounds the entries of a row, each with its place and its factor in a product, from the largest to the smallest, and carries the error in
/// the product to the next one.
pub(super) fn round_row<S: Number>(row: &mut [(f64, usize, f64)], to: &mut [S]) {
    sort_by_size(row);
    let mut carry = 0.0;
    for (exact, place, weight) in row.iter().filter(|(exact, _, weight)| *exact != 0.0 && *weight != 0.0) {
        let rounded = S::from_f64(exact + carry / weight);
        carry += (exact - rounded.to_f64()) * weight;
        to[*place] = rounded;
    }
}

fn sort_by_size(row: &mut [(f64, usize, f64)]) {
    row.sort_unstable_by(|a, b| (b.0 * b.2).abs().total_cmp(&(a.0 * a.2).abs()).then(a.1.cmp(&b.1)));
}

/// Rounds the entries of each row from the largest to the smallest, and carries the error in the product with `vector`
/// to the next entry. The product is off by the rounding of the smallest entry alone.
fn keeping<T: Scalar, S: Number>(a: &SharedCsr<T>, vector: &[f64]) -> Result<SharedCsr<S>> {
    let view = a.view();
    let (br, bc) = (view.block.rows, view.block.cols);
    let mut values = try_vec(view.entries(), S::ZERO)?;
    let offsets = par::offsets(view.rows, |i| view.row_range(i).len())?;
    let longest = (0..view.rows).map(|i| view.row_range(i).len()).max().unwrap_or(0) * bc;
    let failure = Failure::default();
    let round = |range: Range<usize>, to: &mut [S]| {
        let first = view.row_range(range.start).start;
        let mut row: Vec<(f64, usize, f64)> = try_capacity(longest)?;
        for i in range {
            for r in 0..br {
                row.clear();
                for p in view.row_range(i) {
                    for (c, v) in view.block_at(p)[r * bc..][..bc].iter().enumerate() {
                        let at = (p - first) * br * bc + r * bc + c;
                        row.push((v.to_f64(), at, vector[view.col(p) * bc + c]));
                    }
                }
                round_row(&mut row, to);
            }
        }
        Ok(())
    };
    par::for_each_segment_mut(&mut values, &offsets, br * bc, par::ROW_GRAIN, |range, to| {
        failure.keep(round(range, to));
    });
    failure.check()?;
    Ok(SharedCsr { structure: Arc::clone(&a.structure), values: Arc::new(values) })
}

/// S⁻¹ of the finest level as a power of two times one f32 power of two per row.
pub(crate) fn inverse_scaling(s: &[f64]) -> Result<(f64, Vec<f32>)> {
    let (low, high) = s.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(*s), high.max(*s)));
    let middle = middle_of(low, high)?;
    let mut inverse = try_vec(s.len(), 0.0_f32)?;
    for (to, s) in inverse.iter_mut().zip(s) {
        *to = (middle / s) as f32;
    }
    Ok((1.0 / middle, inverse))
}

/// Data of a smoother times `factor` in its storage format; an error if values are out of range.
pub(crate) fn stored<T: Scalar, S: Number>(exact: &[T], factor: f64) -> Result<Vec<S>> {
    let mut data = try_vec(exact.len(), S::ZERO)?;
    par::for_each_mut(&mut data, par::GRAIN, |start, data| {
        for (to, from) in data.iter_mut().zip(&exact[start..]) {
            *to = S::from_f64(factor * from.to_f64());
        }
    });
    if !is_narrower::<T, S>() {
        return Ok(data);
    }
    // Numbers that are small relative to the largest may underflow: many of those in blocks are rounding errors.
    let matters = exact.iter().fold(0.0, |m: f64, v| m.max(v.to_f64().abs())) * MATTERS;
    let lost = |(from, to): (&T, &S)| {
        !to.to_f64().is_finite() || (*to == S::ZERO && from.to_f64() != 0.0 && from.to_f64().abs() >= matters)
    };
    if exact.iter().zip(&data).any(lost) {
        return does_not_fit::<S, _>();
    }
    Ok(data)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::gallery;
    use crate::precision::{LIFT, unit_of};
    use crate::sparse::Csr;
    use half::f16;

    #[test]
    fn diagonals_become_alike_and_products_stay_exact() {
        let mut a = gallery::poisson5(12, 12).unwrap();
        for i in 0..a.rows {
            let d = 10_f64.powi((i % 13) as i32 - 6);
            for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                a.values[k] *= d * 10_f64.powi((a.columns[k] % 13) - 6);
            }
        }
        let a = a.into_shared();
        let s = factors(&a, "diagonal").unwrap();
        let scaled = apply(&a, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
        let g = f64::from(2 * LIFT).exp2();
        for i in 0..144 {
            for (j, v) in scaled.view().row(i) {
                let size = v[0].abs();
                assert!(if i == j { (0.5 * g..=2.0 * g).contains(&size) } else { size < 2.0 * g });
            }
        }
        let back = apply(&scaled, |i| s[i], |j| s[j]).unwrap();
        assert_eq!(back.values.as_slice(), a.values.as_slice(), "powers of two are exact");
        store::<f64, f16>(&scaled, ("matrix", false), Rounding::Nearest).unwrap();
        assert_eq!(
            store::<f64, f16>(&a, ("matrix", false), Rounding::Nearest).err().unwrap().status,
            Status::PrecisionLost
        );
    }

    #[test]
    fn matrices_in_all_units_are_the_same_times_their_unit() {
        let of = |s: f64| {
            let mut a = gallery::poisson7(3, 3, 3).unwrap();
            a.values.iter_mut().for_each(|v| *v *= s);
            let unit = unit_of(largest_off_diagonal(&a.view()).unwrap());
            a.values.iter().map(|v| v * unit).collect::<Vec<f64>>()
        };
        for s in [1.1, 3.0, 1e-30, 1e30, 1.9999, f64::MIN_POSITIVE] {
            let power = s.log2().floor().exp2();
            for (v, w) in of(s).into_iter().zip(of(1.0)) {
                assert!((v / power - w).abs() <= 1e-15 * w.abs(), "{s}: {v} {w}");
            }
        }
        assert!([0.0, f64::NAN, 1.0, 0.25].iter().all(|largest| unit_of(*largest) == 1.0));
        let diagonal = Csr::from_triplets(2, 2, &[(0, 0, 3.0), (1, 1, 5.0)]).unwrap();
        assert_eq!(largest_off_diagonal(&diagonal.view()).unwrap(), 0.0);
    }

    #[test]
    fn roots_are_powers_of_two_by_exponent() {
        for e in -1074..=1023_i32 {
            let value = if e < -1022 { f64::from_bits(1 << (e + 1074)) } else { f64::from(e).exp2() };
            let expected = f64::from((e + 1).div_euclid(2)).exp2();
            assert_eq!(power_near_root(value), expected, "2^{e}");
            if e >= -1022 {
                assert_eq!(power_near_root(value * (2.0 - f64::EPSILON)), expected, "just below 2^{}", e + 1);
            }
        }
        assert!([0.0, -0.0, -1.0, f64::INFINITY, f64::NAN].iter().all(|v| power_near_root(*v) == 0.0));
    }

    #[test]
    fn rounding_can_keep_the_product_with_a_vector() {
        let a = gallery::parse("jumps:6").unwrap().into_matrix().unwrap().shared::<f64>().unwrap();
        let s = factors(&a, "auto").unwrap();
        let scaled = apply(&a, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
        let lost = |stored: &SharedCsr<f16>| {
            let product = |i: usize, value: &dyn Fn(usize) -> f64| {
                scaled.view().row_range(i).map(|p| value(p) * s[scaled.view().col(p)]).sum::<f64>()
            };
            let (exact, rounded) = (scaled.values.as_slice(), stored.values.as_slice());
            let of_row = |i: usize| (product(i, &|p| rounded[p].to_f64()) - product(i, &|p| exact[p])).abs();
            (0..scaled.view().rows).map(of_row).fold(0.0, f64::max)
        };
        let nearest = lost(&store(&scaled, ("matrix", false), Rounding::Nearest).unwrap());
        let keeping = lost(&store(&scaled, ("matrix", false), Rounding::Keeping(&s)).unwrap());
        assert!(nearest > 0.0 && keeping < 0.1 * nearest, "{nearest} {keeping}");
    }

    #[test]
    fn a_row_that_is_not_dominant_lowers_the_scale_and_a_zero_diagonal_is_refused() {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1e4), (1, 0, 1e4), (1, 1, 1.0)]).unwrap().into_shared();
        let s = factors(&a, "diagonal").unwrap();
        let scaled = apply(&a, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
        assert!(scaled.values.as_slice().iter().all(|v| *v <= 32768.0));
        store::<f64, f16>(&scaled, ("matrix", false), Rounding::Nearest).unwrap();
        let zero = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (1, 0, 1.0)]).unwrap().into_shared();
        let error = factors(&zero, "diagonal").unwrap_err();
        assert!(error.status == Status::PrecisionLost && error.message.contains("row 1"), "{error}");
        for scaling in ["equilibrate", "auto"] {
            let s = factors(&zero, scaling).unwrap();
            let scaled = apply(&zero, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
            assert!(scaled.values.as_slice().iter().all(|v| (512.0..=2048.0).contains(v)), "{scaling}");
        }
    }
}
