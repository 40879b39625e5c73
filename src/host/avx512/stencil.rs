//! Lines of cells of a stencil times lines of a vector, for processors with AVX-512.

use super::{Value, first8, first16};
use crate::host::stencil::Term;
use crate::scalar::{NumbersRef, SliceMut, SliceRef};
use std::arch::x86_64::*;

/// Registers that are summed at a time.
const REGISTERS: usize = 4;

/// Adds the products of all terms to `sums`; `x` and `sums` have the same type. Only where [`is_present`](super::is_present).
pub fn multiply_add(values: &NumbersRef<'_>, terms: &[Term], x: SliceRef<'_>, sums: SliceMut<'_>) {
    fn with_values<S: Value>(values: &[S], terms: &[Term], x: SliceRef<'_>, sums: SliceMut<'_>) {
        // SAFETY (both): the caller has found the processor's features.
        match (x, sums) {
            (SliceRef::F64(x), SliceMut::F64(sums)) => unsafe { wide(values, terms, x, sums) },
            (SliceRef::F32(x), SliceMut::F32(sums)) => unsafe { narrow(values, terms, x, sums) },
            _ => unreachable!("x and the sums have the same type"),
        }
    }
    match values {
        NumbersRef::F64(values) => with_values(values, terms, x, sums),
        NumbersRef::F32(values) => with_values(values, terms, x, sums),
        NumbersRef::F16(values) => with_values(values, terms, x, sums),
        NumbersRef::BF16(values) => with_values(values, terms, x, sums),
    }
}

macro_rules! kernel {
    ($name:ident, $of:ty, $lanes:literal, $value:ident, $first:ident, $all:expr, $load:ident, $add:ident, $mul:ident, $store:ident) => {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $name<S: Value>(values: &[S], terms: &[Term], x: &[$of], sums: &mut [$of]) {
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
                            let (a, x) = (S::$value($all, a.add(r * $lanes)), $load($all, x.add(r * $lanes)));
                            *sum = $add(*sum, $mul(a, x));
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
                        sum = $add(sum, $mul(S::$value(mask, a), $load(mask, x)));
                    }
                    $store(to, mask, sum);
                }
                k += $lanes;
            }
        }
    };
}

kernel!(
    wide,
    f64,
    8,
    load_wide,
    first8,
    u8::MAX,
    _mm512_maskz_loadu_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_mask_storeu_pd
);
kernel!(
    narrow,
    f32,
    16,
    load_narrow,
    first16,
    u16::MAX,
    _mm512_maskz_loadu_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_mask_storeu_ps
);
