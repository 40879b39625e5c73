//! Lines of cells along x: what a stencil or a transfer multiplies at once, without gathers.
//!
//! A line of a vector is brought into a buffer first, in the precision of the sums, one unknown of the cells after the other and with the
//! neighbours of its ends. Then every entry of the stencil is a product of two contiguous arrays. Sums are added in the order of the terms.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::host::avx512;
use crate::host::registers::{Call, with_avx2};
use crate::scalar::{Number, NumbersRef, Scalar, with_numbers};
use crate::sparse::Grid;

/// Elements of a buffer of sums: a few kilobytes, so that all stay in the L1 cache.
pub const SUMS: usize = 1024;

/// Elements of a buffer for a line of x, with both neighbours of the ends for each unknown.
pub const LINE: usize = SUMS + 16;

/// Cells of a scalar grid whose products with all lines around them are added in one pass.
pub const GROUP: usize = 256;

/// Elements of a buffer for all lines of x around these, and no fewer than of one for a line.
pub const AROUND: usize = 9 * (GROUP + 2);
const _: () = assert!(AROUND >= LINE);

/// The most terms of a sum that are added at once.
pub const TERMS: usize = 27;

/// A product of two arrays: where it begins in the values of the matrix, and in the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Term {
    /// In the matrix.
    pub a: usize,
    /// In the buffer.
    pub x: usize,
}

/// Terms of a sum.
pub struct Terms {
    all: [Term; TERMS],
    count: usize,
}

impl Terms {
    pub fn new() -> Terms {
        Terms { all: [Term::default(); TERMS], count: 0 }
    }

    pub fn push(&mut self, a: usize, x: usize) {
        self.all[self.count] = Term { a, x };
        self.count += 1;
    }

    pub fn as_slice(&self) -> &[Term] {
        &self.all[..self.count]
    }
}

/// Adds the products of all terms to `sums`.
pub fn multiply_add<W: Scalar>(values: &NumbersRef<'_>, terms: &[Term], x: &[W], sums: &mut [W]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        avx512::stencil::multiply_add::<false>(values, terms, W::slice_ref(x), W::slice_mut(sums));
        return;
    }
    with_avx2(Call(
        #[inline(always)]
        || portable(values, terms, x, sums, false),
    ));
}

/// The same, subtracted.
pub fn multiply_subtract<W: Scalar>(values: &NumbersRef<'_>, terms: &[Term], x: &[W], sums: &mut [W]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        avx512::stencil::multiply_add::<true>(values, terms, W::slice_ref(x), W::slice_mut(sums));
        return;
    }
    with_avx2(Call(
        #[inline(always)]
        || portable(values, terms, x, sums, true),
    ));
}

/// Solves the cells of a parity of a scalar line for their unknowns: x, with a neighbour before and one behind the line, gets the inverse of the
/// diagonal times the residual, which is `sums` less the products of the line with itself. The inverse begins at `first`. Cells of a parity are not
/// coupled.
pub fn solve_parity<W: Scalar>(
    (values, terms): (&NumbersRef<'_>, &[Term]),
    (inverse, first): (&NumbersRef<'_>, usize),
    parity: usize,
    sums: &[W],
    x: &mut [W],
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        let (sums, x) = (W::slice_ref(sums), W::slice_mut(x));
        avx512::stencil::solve_parity((values, terms), (inverse, first), parity, sums, x);
        return;
    }
    with_avx2(Call(
        #[inline(always)]
        || portable_parity((values, terms), (inverse, first), parity, sums, x),
    ));
}

#[inline(always)]
fn portable_parity<W: Scalar>(
    (values, terms): (&NumbersRef<'_>, &[Term]),
    (inverse, first): (&NumbersRef<'_>, usize),
    parity: usize,
    sums: &[W],
    x: &mut [W],
) {
    let (mut residuals, mut diagonal) = ([W::ZERO; SUMS], [W::ZERO; SUMS]);
    let n = sums.len();
    residuals[..n].copy_from_slice(sums);
    portable(values, terms, x, &mut residuals[..n], true);
    portable_widen(inverse, first, &mut diagonal[..n]);
    for k in (parity..n).step_by(2) {
        x[k + 1] += diagonal[k] * residuals[k];
    }
}

#[inline(always)]
fn portable<W: Scalar>(values: &NumbersRef<'_>, terms: &[Term], x: &[W], sums: &mut [W], subtract: bool) {
    #[inline(always)]
    fn with_values<S: Number, W: Scalar>(values: &[S], terms: &[Term], x: &[W], sums: &mut [W], subtract: bool) {
        for term in terms {
            let (a, x) = (&values[term.a..][..sums.len()], &x[term.x..][..sums.len()]);
            let products = sums.iter_mut().zip(a).zip(x);
            match subtract {
                true => products.for_each(|((sum, a), x)| *sum -= a.cast::<W>() * *x),
                false => products.for_each(|((sum, a), x)| *sum += a.cast::<W>() * *x),
            }
        }
    }
    match values {
        NumbersRef::F64(values) => with_values(values, terms, x, sums, subtract),
        NumbersRef::F32(values) => with_values(values, terms, x, sums, subtract),
        NumbersRef::F16(values) => with_values(values, terms, x, sums, subtract),
        NumbersRef::BF16(values) => with_values(values, terms, x, sums, subtract),
    }
}

/// Converts values of a matrix from `first` on to the precision of the sums.
pub fn widen<W: Scalar>(values: &NumbersRef<'_>, first: usize, to: &mut [W]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        avx512::stencil::widen(values, first, W::slice_mut(to));
        return;
    }
    with_avx2(Call(
        #[inline(always)]
        || portable_widen(values, first, to),
    ));
}

#[inline(always)]
fn portable_widen<W: Scalar>(values: &NumbersRef<'_>, first: usize, to: &mut [W]) {
    #[inline(always)]
    fn with_values<S: Number, W: Scalar>(values: &[S], to: &mut [W]) {
        to.iter_mut().zip(values).for_each(|(to, from)| *to = from.cast());
    }
    match values {
        NumbersRef::F64(values) => with_values(&values[first..], to),
        NumbersRef::F32(values) => with_values(&values[first..], to),
        NumbersRef::F16(values) => with_values(&values[first..], to),
        NumbersRef::BF16(values) => with_values(&values[first..], to),
    }
}

/// Copies unknown `c` of the cells from `first` on to a buffer, in the precision of the sums. Not generic over the vector: a call for each line
/// costs nothing, but loops for each combination of types cost compile time.
pub type Load<'a, W> = dyn Fn(usize, usize, &mut [W]) + Sync + 'a;

/// [`Load`] of a vector with `b` unknowns for each cell.
pub fn load<X: Number, W: Scalar>(x: &[X], b: usize) -> impl Fn(usize, usize, &mut [W]) + Sync + '_ {
    move |first, c, to| match b {
        1 => to.iter_mut().zip(&x[first..]).for_each(|(to, x)| *to = x.cast()),
        _ => to.iter_mut().zip(x[first * b + c..].iter().step_by(b)).for_each(|(to, x)| *to = x.cast()),
    }
}

/// [`load`] of a vector in any format.
pub fn load_any<W: Scalar>(x: NumbersRef<'_>, b: usize) -> impl Fn(usize, usize, &mut [W]) + Sync + '_ {
    move |first, c, to| with_numbers!(x, x => load(x, b)(first, c, to))
}

/// The cells from `x` on of a line, whose first cell is `line`, into a buffer: before them their left neighbour and behind them the right one,
/// zero where there is none.
pub fn load_with_ends<W: Scalar>(load: &Load<'_, W>, grid: &Grid, line: usize, x: usize, c: usize, to: &mut [W]) {
    let last = to.len() - 1;
    load(line + x, c, &mut to[1..last]);
    match grid.step(0, x, -1) {
        Some(left) => load(line + left, c, &mut to[..1]),
        None => to[0] = W::ZERO,
    }
    match grid.step(0, x + last - 2, 1) {
        Some(right) => load(line + right, c, &mut to[last..]),
        None => to[last] = W::ZERO,
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::testing::{numbers, same_with_each, skip_without_avx512, to_f64};
    use half::{bf16, f16};

    fn check<S: Number, W: Scalar>() {
        for n in [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 130] {
            let (values, x): (Vec<S>, Vec<W>) = (numbers(600, 1), numbers(400, 2));
            let terms = [Term { a: 3, x: 0 }, Term { a: 200, x: 1 }, Term { a: 600 - n, x: 400 - n }];
            let (exact_values, exact_x) = (to_f64(&values), to_f64(&x));
            let ones = vec![W::ONE; n];
            let sums = same_with_each(&ones, &|y| multiply_add(&S::numbers(&values), &terms, &x, y));
            for (k, sum) in to_f64(&sums).into_iter().enumerate() {
                let expected: f64 = terms.iter().map(|t| exact_values[t.a + k] * exact_x[t.x + k]).sum();
                assert!((sum - 1.0 - expected).abs() < 1e-5);
            }
            let less = same_with_each(&sums, &|y| multiply_subtract(&S::numbers(&values), &terms, &x, y));
            assert!(to_f64(&less).into_iter().all(|y| (y - 1.0).abs() < 1e-5), "{n}");
            let wide = same_with_each(&ones, &|y| widen(&S::numbers(&values), 5, y));
            let cast: Vec<f64> = values[5..5 + n].iter().map(|v| v.cast::<W>().to_f64()).collect();
            assert_eq!(to_f64(&wide), cast, "{n}");
            let own = [Term { a: 10, x: 0 }, Term { a: 150, x: 1 }, Term { a: 600 - n, x: 2 }];
            let rhs = to_f64(&sums);
            for parity in [0, 1] {
                let solve = |x: &mut [W]| {
                    let values = S::numbers(&values);
                    solve_parity((&values, &own), (&values, 7), parity, &sums, x);
                };
                let solved = to_f64(&same_with_each(&x[..n + 2], &solve));
                for k in 0..n {
                    let products = own.iter().map(|t| exact_values[t.a + k] * solved[t.x + k]).sum::<f64>();
                    let change = exact_values[7 + k] * (rhs[k] - products);
                    let expected = exact_x[k + 1] + if k % 2 == parity { change } else { 0.0 };
                    let own_change = exact_values[own[1].a + k] * (solved[k + 1] - exact_x[k + 1]);
                    let corrected = expected + if k % 2 == parity { exact_values[7 + k] * own_change } else { 0.0 };
                    assert!((solved[k + 1] - corrected).abs() < 1e-5, "{n} {k}");
                }
            }
        }
    }

    #[test]
    fn all_registers_give_the_same_bits() {
        skip_without_avx512();
        check::<f64, f64>();
        check::<f32, f64>();
        check::<f16, f64>();
        check::<bf16, f64>();
        check::<f64, f32>();
        check::<f32, f32>();
        check::<f16, f32>();
        check::<bf16, f32>();
    }
}
