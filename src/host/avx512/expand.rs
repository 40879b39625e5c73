//! Rows of a sparse product by the bits of [`crate::host::spgemm_masks`]: a register gets the numbers of its eight sums
//! by expanding those that are next in B.

use crate::host::prefetch::prefetch;
use crate::host::spgemm_masks::{LANES, WORD, bytes_of};
use crate::scalar::{NumbersRef, SliceMut};
use std::arch::x86_64::*;

/// A row of A, and B.
pub struct Factors<'a> {
    /// Columns of the row of A.
    pub columns: &'a [i32],
    /// The first column's number.
    pub base: i32,
    /// Values of the row of A.
    pub a: NumbersRef<'a>,
    /// Columns whose rows of B are asked for while those of `columns` are used, if any.
    pub ahead: &'a [i32],
    /// Row offsets of B.
    pub offsets: &'a [i64],
    /// Values of B.
    pub b: NumbersRef<'a>,
}

/// The values of a row of C. `bits` has [`bytes_of`] bytes for each entry of the row of A. Values are f64 or f32, and
/// all alike. Only where [`is_present`](super::is_present).
pub fn row(factors: &Factors<'_>, bits: &[u8], sums: SliceMut<'_>) {
    // SAFETY (both): the caller has found the processor's features.
    match (&factors.a, &factors.b, sums) {
        (NumbersRef::F64(a), NumbersRef::F64(b), SliceMut::F64(sums)) => unsafe { wide(factors, a, b, bits, sums) },
        (NumbersRef::F32(a), NumbersRef::F32(b), SliceMut::F32(sums)) => unsafe { narrow(factors, a, b, bits, sums) },
        _ => unreachable!("values of a product are of one type"),
    }
}

macro_rules! kernels {
    ($name:ident, $pass:ident, $type:ident, $zero:ident, $set:ident, $expand:ident, $mul:ident, $add:ident, $store:ident) => {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,popcnt")]
        fn $name(factors: &Factors<'_>, a: &[$type], b: &[$type], bits: &[u8], sums: &mut [$type]) {
            assert!(a.len() == factors.columns.len() && bits.len() == a.len() * bytes_of(sums.len()));
            match sums.len().div_ceil(LANES) {
                0 => (),
                1 => $pass::<1, 1>(factors, a, b, (bits, 1, 0), sums),
                2 => $pass::<2, 2>(factors, a, b, (bits, 2, 0), sums),
                3 => $pass::<3, 4>(factors, a, b, (bits, 4, 0), sums),
                4 => $pass::<4, 4>(factors, a, b, (bits, 4, 0), sums),
                5 => $pass::<5, WORD>(factors, a, b, (bits, WORD, 0), sums),
                6 => $pass::<6, WORD>(factors, a, b, (bits, WORD, 0), sums),
                _ => {
                    let stride = bytes_of(sums.len());
                    for (k, sums) in sums.chunks_mut(WORD * LANES).enumerate() {
                        $pass::<WORD, WORD>(factors, a, b, (bits, stride, k * WORD), sums);
                    }
                }
            }
        }

        /// The sums that `W` of the `stride` bytes of each entry of A stand for, from byte `first` on, in `R`
        /// registers.
        #[inline]
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,popcnt")]
        fn $pass<const R: usize, const W: usize>(
            factors: &Factors<'_>,
            a: &[$type],
            b: &[$type],
            (bits, stride, first): (&[u8], usize, usize),
            sums: &mut [$type],
        ) {
            let mut registers = [$zero(); R];
            for (k, ((j, x), bits)) in factors.columns.iter().zip(a).zip(bits.chunks_exact(stride)).enumerate() {
                if let Some(j) = factors.ahead.get(k) {
                    let from = factors.offsets[(*j - factors.base) as usize] as usize;
                    prefetch(b, from);
                    prefetch(b, from + LANES - 1);
                }
                let (before, now) = bits[..first + W].split_at(first);
                let before: usize = before.iter().map(|byte| byte.count_ones() as usize).sum();
                let mut word = [0; WORD];
                word[..W].copy_from_slice(now);
                let word = u64::from_le_bytes(word);
                let from = factors.offsets[(*j - factors.base) as usize] as usize + before;
                assert!(from + word.count_ones() as usize <= b.len(), "a row ends behind its matrix");
                let x = $set(*x);
                for (r, register) in registers.iter_mut().enumerate() {
                    let mask = (word >> (8 * r)) as u8;
                    let from = from + (word & ((1 << (8 * r)) - 1)).count_ones() as usize;
                    // SAFETY: no number is loaded but those of the bits, which end inside of b.
                    let y = unsafe { $expand(mask, b.as_ptr().add(from)) };
                    *register = $add(*register, mask, *register, $mul(x, y));
                }
            }
            for (sums, register) in sums.chunks_mut(LANES).zip(registers) {
                // SAFETY: the mask has as many bits as there are sums.
                unsafe { $store(sums.as_mut_ptr(), super::first8(sums.len()), register) };
            }
        }
    };
}

kernels!(
    wide,
    pass_wide,
    f64,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_maskz_expandloadu_pd,
    _mm512_mul_pd,
    _mm512_mask_add_pd,
    _mm512_mask_storeu_pd
);
kernels!(
    narrow,
    pass_narrow,
    f32,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_maskz_expandloadu_ps,
    _mm256_mul_ps,
    _mm256_mask_add_ps,
    _mm256_mask_storeu_ps
);
