//! The kernels of [`super::simd`] for processors with AVX-512.
//!
//! They are generic over storage S, vector X and column I, and exist for results in f64 (`wide`, eight lanes) and f32 (`narrow`, sixteen).
//! Callers come through [`row_products`] and [`block_row_products`], which find the types at run time: each kernel is compiled once.

pub mod block_rows;
pub mod blocks;
pub mod expand;
mod rows;
pub mod stencil;
pub mod tile;

use super::prefetch::{AHEAD, prefetch};
use super::registers::{Registers, registers};
use super::simd::{MAX_BLOCK, Rows};
use crate::scalar::{NumbersRef, SliceMut};
use crate::sparse::{Block, ColumnsRef, GROUP};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// Whether this processor has what the kernels need, and may use it.
pub fn is_present() -> bool {
    registers() == Registers::Avx512
}

/// What all kernels read alike, of any type.
pub struct Lines<'a> {
    /// As in [`Rows`].
    pub offsets: &'a [usize],
    /// As in [`Rows`].
    pub columns: ColumnsRef<'a>,
    /// As in [`Rows`].
    pub shift: i32,
}

/// Entries of a short row, on average.
const SHORT: usize = 8;

/// Runs the kernel for these types; false when there is none, or the portable code is as fast. Only where [`is_present`].
pub fn row_products(lines: &Lines<'_>, values: NumbersRef<'_>, x: NumbersRef<'_>, sums: SliceMut<'_>) -> bool {
    fn with_values<S: Value>(lines: &Lines<'_>, values: &[S], x: NumbersRef<'_>, sums: SliceMut<'_>) -> bool {
        match x {
            NumbersRef::F64(x) => with_vector(lines, values, x, sums),
            NumbersRef::F32(x) => with_vector(lines, values, x, sums),
            _ => false,
        }
    }
    fn with_vector<S: Value, X: Vector>(lines: &Lines<'_>, values: &[S], x: &[X], sums: SliceMut<'_>) -> bool {
        // Gathers take signed 32-bit indices. Rows without entries are checked as if they had the first column.
        if x.is_empty() || x.len() > i32::MAX as usize {
            return false;
        }
        match lines.columns {
            ColumnsRef::I32(columns) => with_columns(lines, columns, values, x, sums),
            ColumnsRef::U16(columns) => with_columns(lines, columns, values, x, sums),
        }
    }
    fn with_columns<S: Value, X: Vector, I: Index>(
        lines: &Lines<'_>,
        columns: &[I],
        values: &[S],
        x: &[X],
        sums: SliceMut<'_>,
    ) -> bool {
        let rows = Rows { offsets: lines.offsets, columns, values, shift: lines.shift };
        // SAFETY (both): the caller has found the processor's features.
        let inside = match sums {
            SliceMut::F64(sums) => unsafe { rows::wide(&rows, x, sums) },
            SliceMut::F32(sums) => unsafe { rows::narrow(&rows, x, sums) },
        };
        assert!(inside, "a column lies outside of the vector");
        true
    }
    // A gather takes as long as loads one by one, for f64 longer: what it is used for are conversions, and sums of long rows.
    let entries = lines.offsets.last().zip(lines.offsets.first()).map_or(0, |(end, begin)| end.saturating_sub(*begin));
    let is_short = entries <= SHORT * (lines.offsets.len() - 1);
    match values {
        NumbersRef::F16(values) => with_values(lines, values, x, sums),
        NumbersRef::F32(values) if !is_short => with_values(lines, values, x, sums),
        NumbersRef::BF16(values) if !is_short => with_values(lines, values, x, sums),
        _ => false,
    }
}

/// [`row_products`] for blocks.
pub fn block_row_products(
    lines: &Lines<'_>,
    block: Block,
    values: NumbersRef<'_>,
    x: NumbersRef<'_>,
    sums: SliceMut<'_>,
) -> bool {
    fn with_values<S: Value>(
        lines: &Lines<'_>,
        block: Block,
        values: &[S],
        x: NumbersRef<'_>,
        sums: SliceMut<'_>,
    ) -> bool {
        match x {
            NumbersRef::F64(x) => with_vector(lines, block, values, x, sums),
            NumbersRef::F32(x) => with_vector(lines, block, values, x, sums),
            _ => false,
        }
    }
    fn with_vector<S: Value, X: Vector>(
        lines: &Lines<'_>,
        block: Block,
        values: &[S],
        x: &[X],
        sums: SliceMut<'_>,
    ) -> bool {
        let ColumnsRef::I32(columns) = lines.columns else { return false };
        let rows = Rows { offsets: lines.offsets, columns, values, shift: lines.shift };
        // The smallest of the listed numbers of registers that holds a block.
        macro_rules! registers {
            ($kernel:ident, $lanes:literal, $sums:ident, $($n:literal)*) => {
                match block.len().div_ceil($lanes) {
                    // SAFETY: the caller has found the processor's features.
                    $(..=$n => unsafe { $kernel::<$n, S, X>(&rows, block, x, $sums) },)*
                    _ => return false,
                }
            };
        }
        match sums {
            SliceMut::F64(sums) => registers!(wide_blocks, 8, sums, 1 2 3 5 8),
            SliceMut::F32(sums) => registers!(narrow_blocks, 16, sums, 1 2 4),
        }
        true
    }
    if block.rows > MAX_BLOCK || block.cols > MAX_BLOCK {
        return false;
    }
    match values {
        NumbersRef::F64(values) => with_values(lines, block, values, x, sums),
        NumbersRef::F32(values) => with_values(lines, block, values, x, sums),
        NumbersRef::F16(values) => with_values(lines, block, values, x, sums),
        NumbersRef::BF16(values) => with_values(lines, block, values, x, sums),
    }
}

/// The products of a group of rows by diagonals; false when there is no kernel for these types.
pub fn diagonal_products(
    distances: &[i32],
    values: NumbersRef<'_>,
    first: usize,
    x: NumbersRef<'_>,
    sums: SliceMut<'_>,
) -> bool {
    fn with_values<S: Value>(
        distances: &[i32],
        values: &[S],
        first: usize,
        x: NumbersRef<'_>,
        sums: SliceMut<'_>,
    ) -> bool {
        match x {
            NumbersRef::F64(x) => with_vector(distances, values, first, x, sums),
            NumbersRef::F32(x) => with_vector(distances, values, first, x, sums),
            _ => false,
        }
    }
    fn with_vector<S: Value, X: Value>(
        distances: &[i32],
        values: &[S],
        first: usize,
        x: &[X],
        sums: SliceMut<'_>,
    ) -> bool {
        // SAFETY (both): the caller has found the processor's features.
        match sums {
            SliceMut::F64(sums) => unsafe { wide_diagonals(distances, values, first, x, sums) },
            SliceMut::F32(sums) => unsafe { narrow_diagonals(distances, values, first, x, sums) },
        }
        true
    }
    match values {
        NumbersRef::F64(values) => with_values(distances, values, first, x, sums),
        NumbersRef::F32(values) => with_values(distances, values, first, x, sums),
        NumbersRef::F16(values) => with_values(distances, values, first, x, sums),
        NumbersRef::BF16(values) => with_values(distances, values, first, x, sums),
    }
}

/// Functions that use the kernels' instructions and are compiled into them. None of them reads what its mask leaves out.
macro_rules! lanes {
    ($(fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty { $body:expr })*) => {
        $(
            #[inline]
            #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
            unsafe fn $name($($argument: $of),*) -> $result {
                // SAFETY: the caller's mask ends with what lies behind the pointer, and its indices lie in the slice.
                unsafe { $body }
            }
        )*
    };
}

/// A type of stored columns.
trait Index: Copy {
    unsafe fn eight(mask: u8, from: *const Self) -> __m256i;
    unsafe fn sixteen(mask: u16, from: *const Self) -> __m512i;
}

impl Index for i32 {
    lanes! {
        fn eight(mask: u8, from: *const Self) -> __m256i { _mm256_maskz_loadu_epi32(mask, from) }
        fn sixteen(mask: u16, from: *const Self) -> __m512i { _mm512_maskz_loadu_epi32(mask, from) }
    }
}

impl Index for u16 {
    lanes! {
        fn eight(mask: u8, from: *const Self) -> __m256i {
            _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(mask, from.cast()))
        }
        fn sixteen(mask: u16, from: *const Self) -> __m512i {
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from.cast()))
        }
    }
}

/// A type of stored values, converted when they are loaded.
trait Value: Copy {
    unsafe fn load_wide(mask: u8, from: *const Self) -> __m512d;
    unsafe fn load_eight(mask: u8, from: *const Self) -> __m256;
    unsafe fn load_narrow(mask: u16, from: *const Self) -> __m512;
}

impl Value for f64 {
    lanes! {
        fn load_wide(mask: u8, from: *const Self) -> __m512d { _mm512_maskz_loadu_pd(mask, from) }
        fn load_eight(mask: u8, from: *const Self) -> __m256 { _mm512_cvtpd_ps(Self::load_wide(mask, from)) }
        fn load_narrow(mask: u16, from: *const Self) -> __m512 {
            both(Self::load_eight(mask as u8, from), Self::load_eight((mask >> 8) as u8, from.wrapping_add(8)))
        }
    }
}

impl Value for f32 {
    lanes! {
        fn load_wide(mask: u8, from: *const Self) -> __m512d { _mm512_cvtps_pd(Self::load_eight(mask, from)) }
        fn load_eight(mask: u8, from: *const Self) -> __m256 { _mm256_maskz_loadu_ps(mask, from) }
        fn load_narrow(mask: u16, from: *const Self) -> __m512 { _mm512_maskz_loadu_ps(mask, from) }
    }
}

impl Value for f16 {
    lanes! {
        fn load_wide(mask: u8, from: *const Self) -> __m512d { _mm512_cvtps_pd(Self::load_eight(mask, from)) }
        fn load_eight(mask: u8, from: *const Self) -> __m256 {
            _mm256_cvtph_ps(_mm_maskz_loadu_epi16(mask, from.cast()))
        }
        fn load_narrow(mask: u16, from: *const Self) -> __m512 {
            _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.cast()))
        }
    }
}

/// The upper halves of f32.
impl Value for bf16 {
    lanes! {
        fn load_wide(mask: u8, from: *const Self) -> __m512d { _mm512_cvtps_pd(Self::load_eight(mask, from)) }
        fn load_eight(mask: u8, from: *const Self) -> __m256 {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(u16::eight(mask, from.cast())))
        }
        fn load_narrow(mask: u16, from: *const Self) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(u16::sixteen(mask, from.cast())))
        }
    }
}

/// A type of the vectors that a matrix is multiplied with: also a stored one, for blocks, whose part of x lies together.
trait Vector: Value {
    unsafe fn gather_wide(mask: u8, at: __m256i, from: *const Self) -> __m512d;
    unsafe fn gather_eight(mask: u8, at: __m256i, from: *const Self) -> __m256;
    unsafe fn gather_narrow(mask: u16, at: __m512i, from: *const Self) -> __m512;
}

impl Vector for f64 {
    lanes! {
        fn gather_wide(mask: u8, at: __m256i, from: *const Self) -> __m512d {
            _mm512_mask_i32gather_pd::<8>(_mm512_setzero_pd(), mask, at, from)
        }
        fn gather_eight(mask: u8, at: __m256i, from: *const Self) -> __m256 {
            _mm512_cvtpd_ps(Self::gather_wide(mask, at, from))
        }
        fn gather_narrow(mask: u16, at: __m512i, from: *const Self) -> __m512 {
            both(
                Self::gather_eight(mask as u8, _mm512_castsi512_si256(at), from),
                Self::gather_eight((mask >> 8) as u8, _mm512_extracti64x4_epi64::<1>(at), from),
            )
        }
    }
}

impl Vector for f32 {
    lanes! {
        fn gather_wide(mask: u8, at: __m256i, from: *const Self) -> __m512d {
            _mm512_cvtps_pd(Self::gather_eight(mask, at, from))
        }
        fn gather_eight(mask: u8, at: __m256i, from: *const Self) -> __m256 {
            _mm256_mmask_i32gather_ps::<4>(_mm256_setzero_ps(), mask, at, from)
        }
        fn gather_narrow(mask: u16, at: __m512i, from: *const Self) -> __m512 {
            _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), mask, at, from)
        }
    }
}

/// A register of two halves.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn both(low: __m256, high: __m256) -> __m512 {
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
}

/// The first `n` lanes of up to eight.
fn first8(n: usize) -> u8 {
    if n >= 8 { u8::MAX } else { (1 << n) - 1 }
}

/// The first `n` lanes of up to sixteen.
fn first16(n: usize) -> u16 {
    if n >= 16 { u16::MAX } else { (1 << n) - 1 }
}

/// Which of the elements from `begin` on, of which a register has `lanes`, lie in a slice of this length.
fn lanes_inside(begin: i64, length: usize, lanes: i64) -> u16 {
    let below = |n: i64| (1_u32 << n.clamp(0, lanes)) - 1;
    (below(length as i64 - begin) & !below(-begin)) as u16
}

/// Defines a kernel for a group of rows by diagonals: its sums stay in registers, and everything is loaded in whole ones. Elements that a diagonal
/// would need from outside of x are not read.
macro_rules! diagonals {
    ($name:ident, $of:ty, $lanes:literal, $load:ident, $mask:ident, $zero:ident, $add:ident, $mul:ident, $store:ident) => {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $name<S: Value, X: Value>(distances: &[i32], values: &[S], first: usize, x: &[X], sums: &mut [$of]) {
            const REGISTERS: usize = GROUP / $lanes;
            let mut all = [$zero(); REGISTERS];
            for (k, distance) in distances.iter().enumerate() {
                prefetch(values, k * GROUP + 8 * GROUP);
                let values = &values[k * GROUP..][..GROUP];
                let begin = first as i64 + i64::from(*distance);
                let whole = begin >= 0 && begin + GROUP as i64 <= x.len() as i64;
                for (r, sum) in all.iter_mut().enumerate() {
                    let begin = begin + (r * $lanes) as i64;
                    let mask = if whole { <$mask>::MAX } else { lanes_inside(begin, x.len(), $lanes) as $mask };
                    // SAFETY: there are GROUP values, of which the registers are parts; the mask has the lanes that lie in x.
                    let (value, x) = unsafe {
                        let value = S::$load(<$mask>::MAX, values.as_ptr().add(r * $lanes));
                        (value, X::$load(mask, x.as_ptr().wrapping_offset(begin as isize)))
                    };
                    *sum = $add(*sum, $mul(value, x));
                }
            }
            for (sums, all) in sums.chunks_exact_mut($lanes).zip(all) {
                // SAFETY: the slice is as long as the register.
                unsafe { $store(sums.as_mut_ptr(), all) };
            }
        }
    };
}

diagonals!(wide_diagonals, f64, 8, load_wide, u8, _mm512_setzero_pd, _mm512_add_pd, _mm512_mul_pd, _mm512_storeu_pd);
diagonals!(
    narrow_diagonals,
    f32,
    16,
    load_narrow,
    u16,
    _mm512_setzero_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_storeu_ps
);

lanes! {
    fn sum_eight_wide(mask: u8, from: *const f64) -> f64 {{
        let eight = _mm512_maskz_loadu_pd(mask, from);
        let four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd::<1>(eight));
        let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }}
    fn sum_eight_narrow(mask: u8, from: *const f32) -> f32 {{
        let eight = _mm256_maskz_loadu_ps(mask, from);
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }}
}

/// Kernels for blocks whose values fill at most `N` registers, row after row: x is repeated as often as the block has rows, and every value of
/// the block has a lane of its own, which is summed over the blocks of a row.
macro_rules! block_kernel {
    ($name:ident, $result:ty, $lanes:literal, $first:ident, $zero:ident, $mul:ident, $add:ident, $load:ident, $store:ident, $sum:ident, $repeat:expr) => {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $name<const N: usize, S: Value, X: Vector>(
            rows: &Rows<'_, S, i32>,
            block: Block,
            x: &[X],
            sums: &mut [$result],
        ) {
            let (width, cols) = (block.len(), block.cols);
            let mut mask = [0; N];
            for (n, mask) in mask.iter_mut().enumerate() {
                *mask = $first(width.saturating_sub(n * $lanes));
            }
            let mut pattern = [[0; $lanes]; N];
            let mut column = 0;
            for lane in pattern.as_flattened_mut() {
                *lane = column;
                column = if column as usize + 1 == cols { 0 } else { column + 1 };
            }
            for (range, sums) in rows.offsets.windows(2).zip(sums.chunks_exact_mut(block.rows)) {
                let range = range[0]..range[1];
                let mut lanes = [$zero(); N];
                let blocks = rows.values[range.start * width..range.end * width].chunks_exact(width);
                for (p, (column, values)) in range.clone().zip(rows.columns[range].iter().zip(blocks)) {
                    for line in (0..width).step_by(64 / size_of::<S>()) {
                        prefetch(rows.values, p * width + line + AHEAD);
                    }
                    let x = &x[(*column + rows.shift) as usize * cols..][..cols];
                    // SAFETY: the masks end with the block; that for x is as long as the slice.
                    unsafe {
                        let x = X::$load($first(cols), x.as_ptr());
                        for n in 0..N {
                            let values = S::$load(mask[n], values.as_ptr().wrapping_add(n * $lanes));
                            lanes[n] = $add(lanes[n], $mul(values, $repeat(&pattern[n], x)));
                        }
                    }
                }
                let mut of_block = [[0.0; $lanes]; N];
                for (to, lanes) in of_block.iter_mut().zip(lanes) {
                    // SAFETY: the array has as many elements as the register.
                    unsafe { $store(to.as_mut_ptr(), lanes) };
                }
                for (sum, lanes) in sums.iter_mut().zip(of_block.as_flattened().chunks_exact(cols)) {
                    // SAFETY: the mask is as long as the slice.
                    *sum = unsafe { $sum(first8(cols), lanes.as_ptr()) };
                }
            }
        }
    };
}

block_kernel!(
    wide_blocks,
    f64,
    8,
    first8,
    _mm512_setzero_pd,
    _mm512_mul_pd,
    _mm512_add_pd,
    load_wide,
    _mm512_storeu_pd,
    sum_eight_wide,
    |pattern: &[i64; 8], x| _mm512_permutexvar_pd(_mm512_loadu_epi64(pattern.as_ptr()), x)
);
block_kernel!(
    narrow_blocks,
    f32,
    16,
    first16,
    _mm512_setzero_ps,
    _mm512_mul_ps,
    _mm512_add_ps,
    load_narrow,
    _mm512_storeu_ps,
    sum_eight_narrow,
    |pattern: &[i32; 16], x| _mm512_permutexvar_ps(_mm512_loadu_epi32(pattern.as_ptr()), x)
);
