//! Lines of cells of a stencil times lines of a vector, for processors with AVX-512.

use super::{Value, first8, first16};
use crate::host::stencil::Term;
use crate::scalar::{NumbersRef, SliceMut, SliceRef};
use std::arch::x86_64::*;

/// Registers that are summed at a time.
const REGISTERS: usize = 4;

/// Bytes from a value to the one that is fetched into the cache with it. A product reads as many arrays as the stencil has offsets, more than
/// processors follow by themselves.
const AHEAD: usize = 256;

/// Adds the products of all terms to `sums`, or subtracts them; `x` and `sums` have the same type. Only where
/// [`is_present`](super::is_present).
pub fn multiply_add<const SUBTRACT: bool>(
    values: &NumbersRef<'_>,
    terms: &[Term],
    x: SliceRef<'_>,
    sums: SliceMut<'_>,
) {
    fn with_values<S: Value, const SUBTRACT: bool>(values: &[S], terms: &[Term], x: SliceRef<'_>, sums: SliceMut<'_>) {
        // SAFETY (both): the caller has found the processor's features.
        match (x, sums) {
            (SliceRef::F64(x), SliceMut::F64(sums)) => unsafe { wide::<S, SUBTRACT>(values, terms, x, sums) },
            (SliceRef::F32(x), SliceMut::F32(sums)) => unsafe { narrow::<S, SUBTRACT>(values, terms, x, sums) },
            _ => unreachable!("x and the sums have the same type"),
        }
    }
    match values {
        NumbersRef::F64(values) => with_values::<_, SUBTRACT>(values, terms, x, sums),
        NumbersRef::F32(values) => with_values::<_, SUBTRACT>(values, terms, x, sums),
        NumbersRef::F16(values) => with_values::<_, SUBTRACT>(values, terms, x, sums),
        NumbersRef::BF16(values) => with_values::<_, SUBTRACT>(values, terms, x, sums),
    }
}

/// Solves the cells of a parity of a scalar line, as [`solve_parity`](crate::host::stencil::solve_parity). Only where
/// [`is_present`](super::is_present).
pub fn solve_parity(
    (values, terms): (&NumbersRef<'_>, &[Term]),
    (inverse, first): (&NumbersRef<'_>, usize),
    parity: usize,
    sums: SliceRef<'_>,
    x: SliceMut<'_>,
) {
    fn with_values<S: Value>(
        (values, terms): (&[S], &[Term]),
        inverse: &[S],
        parity: usize,
        sums: SliceRef<'_>,
        x: SliceMut<'_>,
    ) {
        // SAFETY (both): the caller has found the processor's features.
        match (sums, x) {
            (SliceRef::F64(sums), SliceMut::F64(x)) => unsafe { solve_wide(values, terms, inverse, parity, sums, x) },
            (SliceRef::F32(sums), SliceMut::F32(x)) => unsafe { solve_narrow(values, terms, inverse, parity, sums, x) },
            _ => unreachable!("x and the sums have the same type"),
        }
    }
    match (values, inverse) {
        (NumbersRef::F64(a), NumbersRef::F64(d)) => with_values((a, terms), &d[first..], parity, sums, x),
        (NumbersRef::F32(a), NumbersRef::F32(d)) => with_values((a, terms), &d[first..], parity, sums, x),
        (NumbersRef::F16(a), NumbersRef::F16(d)) => with_values((a, terms), &d[first..], parity, sums, x),
        (NumbersRef::BF16(a), NumbersRef::BF16(d)) => with_values((a, terms), &d[first..], parity, sums, x),
        _ => unreachable!("the matrix and the inverse of its diagonal have the same type"),
    }
}

/// Converts values from `first` on to the type of `to`. Only where [`is_present`](super::is_present).
pub fn widen(values: &NumbersRef<'_>, first: usize, to: SliceMut<'_>) {
    fn with_values<S: Value>(values: &[S], to: SliceMut<'_>) {
        // SAFETY (both): the caller has found the processor's features.
        match to {
            SliceMut::F64(to) => unsafe { widen_wide(values, to) },
            SliceMut::F32(to) => unsafe { widen_narrow(values, to) },
        }
    }
    match values {
        NumbersRef::F64(values) => with_values(&values[first..], to),
        NumbersRef::F32(values) => with_values(&values[first..], to),
        NumbersRef::F16(values) => with_values(&values[first..], to),
        NumbersRef::BF16(values) => with_values(&values[first..], to),
    }
}

macro_rules! kernel {
    ([$name:ident, $solve:ident, $widen:ident], $of:ty, $lanes:literal, $value:ident, $first:ident, $all:expr, $load:ident, $add:ident, $sub:ident, $mul:ident, $store:ident) => {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $name<S: Value, const SUBTRACT: bool>(values: &[S], terms: &[Term], x: &[$of], sums: &mut [$of]) {
            let n = sums.len();
            for term in terms {
                assert!(term.a + n <= values.len() && term.x + n <= x.len(), "a term ends behind its array");
            }
            let mut k = 0;
            while k + REGISTERS * $lanes <= n {
                // SAFETY: as checked above, all of these elements lie in their arrays.
                unsafe {
                    let to = sums.as_mut_ptr().add(k);
                    let mut all: [_; REGISTERS] = std::array::from_fn(|r| $load($all, to.add(r * $lanes)));
                    for term in terms {
                        let (a, x) = (values.as_ptr().add(term.a + k), x.as_ptr().add(term.x + k));
                        for (r, sum) in all.iter_mut().enumerate() {
                            let (a, x) = (a.add(r * $lanes), x.add(r * $lanes));
                            _mm_prefetch::<_MM_HINT_T0>(a.cast::<i8>().wrapping_add(AHEAD));
                            let (a, x) = (S::$value($all, a), $load($all, x));
                            *sum = if SUBTRACT { $sub(*sum, $mul(a, x)) } else { $add(*sum, $mul(a, x)) };
                        }
                    }
                    for (r, sum) in all.into_iter().enumerate() {
                        $store(to.add(r * $lanes), $all, sum);
                    }
                }
                k += REGISTERS * $lanes;
            }
            while k < n {
                let mask = $first(n - k);
                // SAFETY: the mask ends with the sums, and with them the arrays.
                unsafe {
                    let to = sums.as_mut_ptr().add(k);
                    let mut sum = $load(mask, to);
                    for term in terms {
                        let (a, x) = (values.as_ptr().add(term.a + k), x.as_ptr().add(term.x + k));
                        let product = $mul(S::$value(mask, a), $load(mask, x));
                        sum = if SUBTRACT { $sub(sum, product) } else { $add(sum, product) };
                    }
                    $store(to, mask, sum);
                }
                k += $lanes;
            }
        }

        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $solve<S: Value>(values: &[S], terms: &[Term], inverse: &[S], parity: usize, sums: &[$of], x: &mut [$of]) {
            let n = sums.len();
            for term in terms {
                assert!(term.a + n <= values.len() && term.x + n <= x.len(), "a term ends behind its array");
            }
            assert!(n <= inverse.len() && n < x.len(), "a line ends behind its array");
            // The cells of the parity among those of a register, which begins with an even one.
            let wanted = if parity == 0 { $all / 3 } else { $all / 3 * 2 };
            for k in (0..n).step_by($lanes) {
                let mask = $first(n - k);
                // SAFETY: the mask ends with the sums, and with them all arrays, as checked above.
                unsafe {
                    let mut residual = $load(mask, sums.as_ptr().add(k));
                    for term in terms {
                        let (a, x) = (values.as_ptr().add(term.a + k), x.as_ptr().add(term.x + k));
                        residual = $sub(residual, $mul(S::$value(mask, a), $load(mask, x)));
                    }
                    let change = $mul(S::$value(mask, inverse.as_ptr().add(k)), residual);
                    let to = x.as_mut_ptr().add(k + 1);
                    $store(to, mask & wanted, $add($load(mask, to), change));
                }
            }
        }

        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $widen<S: Value>(values: &[S], to: &mut [$of]) {
            let n = to.len();
            assert!(n <= values.len(), "the values end before the line");
            for k in (0..n).step_by($lanes) {
                let mask = $first(n - k);
                // SAFETY: the mask ends with both arrays.
                unsafe { $store(to.as_mut_ptr().add(k), mask, S::$value(mask, values.as_ptr().add(k))) };
            }
        }
    };
}

kernel!(
    [wide, solve_wide, widen_wide],
    f64,
    8,
    load_wide,
    first8,
    u8::MAX,
    _mm512_maskz_loadu_pd,
    _mm512_add_pd,
    _mm512_sub_pd,
    _mm512_mul_pd,
    _mm512_mask_storeu_pd
);
kernel!(
    [narrow, solve_narrow, widen_narrow],
    f32,
    16,
    load_narrow,
    first16,
    u16::MAX,
    _mm512_maskz_loadu_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_mask_storeu_ps
);
