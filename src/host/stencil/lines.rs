//! Lines of cells along x: what a stencil or a transfer multiplies at once, without gathers.
//!
//! A line of a vector is brought into a buffer first, in the precision of the sums, one unknown of the cells after the other and with the
//! neighbours of its ends. Then every entry of the stencil is a product of two contiguous arrays. Sums are added in the order of the terms.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::host::avx512;
use crate::scalar::{Number, NumbersRef, Scalar};
use crate::sparse::Grid;

/// Elements of a buffer of sums: a few kilobytes, so that all stay in the L1 cache.
pub const SUMS: usize = 1024;

/// Elements of a buffer for a line of x, with both neighbours of the ends for each unknown.
pub const LINE: usize = SUMS + 16;

/// The most terms of a sum that are added at once.
pub const TERMS: usize = 24;

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
        avx512::stencil::multiply_add(values, terms, W::slice_ref(x), W::slice_mut(sums));
        return;
    }
    portable(values, terms, x, sums);
}

fn portable<W: Scalar>(values: &NumbersRef<'_>, terms: &[Term], x: &[W], sums: &mut [W]) {
    fn with_values<S: Number, W: Scalar>(values: &[S], terms: &[Term], x: &[W], sums: &mut [W]) {
        for term in terms {
            let (a, x) = (&values[term.a..][..sums.len()], &x[term.x..][..sums.len()]);
            for ((sum, a), x) in sums.iter_mut().zip(a).zip(x) {
                *sum += a.cast::<W>() * *x;
            }
        }
    }
    match values {
        NumbersRef::F64(values) => with_values(values, terms, x, sums),
        NumbersRef::F32(values) => with_values(values, terms, x, sums),
        NumbersRef::F16(values) => with_values(values, terms, x, sums),
        NumbersRef::BF16(values) => with_values(values, terms, x, sums),
    }
}

/// Converts values of a matrix from `first` on to the precision of the sums.
pub fn widen<W: Scalar>(values: &NumbersRef<'_>, first: usize, to: &mut [W]) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;
    use crate::host::testing::skip_without_avx512;
    use half::{bf16, f16};

    fn number(i: usize, seed: u64) -> f64 {
        (hash(i, seed) % 2001) as f64 / 1000.0 - 1.0
    }

    fn check<S: Number, W: Scalar>() {
        for n in [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 130] {
            let values: Vec<S> = (0..600).map(|i| S::from_f64(number(i, 1))).collect();
            let x: Vec<W> = (0..400).map(|i| W::from_f64(number(i, 2))).collect();
            let terms = [Term { a: 3, x: 0 }, Term { a: 200, x: 1 }, Term { a: 600 - n, x: 400 - n }];
            let (mut fast, mut slow) = (vec![W::ONE; n], vec![W::ONE; n]);
            multiply_add(&S::numbers(&values), &terms, &x, &mut fast);
            portable(&S::numbers(&values), &terms, &x, &mut slow);
            assert_eq!(fast, slow, "{n}");
            for (k, sum) in slow.iter().enumerate() {
                let expected: f64 = terms.iter().map(|t| values[t.a + k].to_f64() * x[t.x + k].to_f64()).sum();
                assert!((sum.to_f64() - 1.0 - expected).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn vector_registers_and_portable_code_give_the_same_bits() {
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
