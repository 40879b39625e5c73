//! Rows of a sparse matrix times a vector, eight entries at a time.
//!
//! A row is summed in [`LANES`] partial sums, which are then added in pairs. In a scalar matrix entry k goes to sum k mod 8, in a block matrix
//! column c of every block to sum c. Processors with AVX-512 do that in one register; the portable code adds in the same order, so that
//! both give the same bits.

use super::prefetch::{AHEAD, prefetch};
use crate::scalar::{Number, Scalar};
use crate::sparse::Block;

/// Partial sums of a row, and the largest dimension of a block.
pub const LANES: usize = 8;

/// The rows of a matrix from `first` on; in blocks, if it has them.
pub struct Rows<'a, S, O> {
    /// Offset of each row, counted from 0.
    pub offset: O,
    /// The first row.
    pub first: usize,
    /// Columns of the whole matrix.
    pub columns: &'a [i32],
    /// Values of the whole matrix.
    pub values: &'a [S],
    /// First number of the columns.
    pub base: i32,
}

impl<S, O: Fn(usize) -> usize> Rows<'_, S, O> {
    /// Positions of row `first + k`.
    fn range(&self, k: usize) -> std::ops::Range<usize> {
        (self.offset)(self.first + k)..(self.offset)(self.first + k + 1)
    }
}

/// Calls `put(i, sum)` with row `first + i` times `x`, for `count` rows. Panics when a column lies outside of `x`.
pub fn row_products<S: Number, X: Scalar, Y: Scalar>(
    rows: &Rows<'_, S, impl Fn(usize) -> usize>,
    x: &[X],
    count: usize,
    mut put: impl FnMut(usize, Y),
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() && avx512::row_products(rows, x, count, &mut put) {
        return;
    }
    portable(rows, x, count, put);
}

/// [`row_products`] for blocks: `put` gets the scalar row, counted from the first of row `first`.
pub fn block_row_products<S: Number, X: Scalar, Y: Scalar>(
    rows: &Rows<'_, S, impl Fn(usize) -> usize>,
    block: Block,
    x: &[X],
    count: usize,
    mut put: impl FnMut(usize, Y),
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() && avx512::block_row_products(rows, block, x, count, &mut put) {
        return;
    }
    portable_blocks(rows, block, x, count, put);
}

fn portable_blocks<S: Number, X: Scalar, Y: Scalar>(
    rows: &Rows<'_, S, impl Fn(usize) -> usize>,
    block: Block,
    x: &[X],
    count: usize,
    mut put: impl FnMut(usize, Y),
) {
    let width = block.len();
    for k in 0..count {
        let mut lanes = [[Y::ZERO; LANES]; LANES];
        for p in rows.range(k) {
            let values = &rows.values[p * width..][..width];
            let x = &x[(rows.columns[p] - rows.base) as usize * block.cols..][..block.cols];
            for line in (0..width).step_by(LANES) {
                prefetch(rows.values, p * width + line + AHEAD);
            }
            for (lanes, values) in lanes.iter_mut().zip(values.chunks_exact(block.cols)) {
                for (lane, (v, x)) in lanes.iter_mut().zip(values.iter().zip(x)) {
                    *lane += v.cast::<Y>() * x.cast();
                }
            }
        }
        for (r, lanes) in lanes.into_iter().take(block.rows).enumerate() {
            put(k * block.rows + r, add(lanes));
        }
    }
}

/// The sum of all lanes.
fn add<Y: Scalar>([a, b, c, d, e, f, g, h]: [Y; LANES]) -> Y {
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

fn portable<S: Number, X: Scalar, Y: Scalar>(
    rows: &Rows<'_, S, impl Fn(usize) -> usize>,
    x: &[X],
    count: usize,
    mut put: impl FnMut(usize, Y),
) {
    for k in 0..count {
        let range = rows.range(k);
        let mut lanes = [Y::ZERO; LANES];
        let (columns, values) = (rows.columns[range.clone()].chunks(LANES), rows.values[range.clone()].chunks(LANES));
        for (step, (columns, values)) in columns.zip(values).enumerate() {
            prefetch(rows.columns, range.start + step * LANES + AHEAD);
            prefetch(rows.values, range.start + step * LANES + AHEAD);
            for (lane, (c, v)) in lanes.iter_mut().zip(columns.iter().zip(values)) {
                *lane += v.cast::<Y>() * x[(*c - rows.base) as usize].cast();
            }
        }
        put(k, add(lanes));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512 {
    use super::{LANES, Rows};
    use crate::host::prefetch::{AHEAD, prefetch};
    use crate::scalar::{Number, NumbersRef, Precision, Scalar, SliceRef};
    use crate::sparse::Block;
    use half::{bf16, f16};
    use std::arch::x86_64::*;

    /// Whether this processor has what the kernels need.
    pub fn is_present() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
    }

    /// Runs the kernel for these types; false when there is none. Only where [`is_present`].
    pub fn row_products<S: Number, X: Scalar, Y: Scalar>(
        rows: &Rows<'_, S, impl Fn(usize) -> usize>,
        x: &[X],
        count: usize,
        put: &mut impl FnMut(usize, Y),
    ) -> bool {
        // Gathers take signed 32-bit indices.
        if x.len() > i32::MAX as usize {
            return false;
        }
        let Rows { offset, first, columns, base, .. } = rows;
        let lines = Lines { offset, first: *first, count, columns, base: *base };
        let in_range = match (S::numbers(rows.values), X::slice_ref(x), Y::PRECISION) {
            // SAFETY (all): the caller has found the processor's features.
            (NumbersRef::F64(v), SliceRef::F64(x), Precision::F64) => unsafe { f64_kernel(lines, v, x, put) },
            (NumbersRef::F32(v), SliceRef::F64(x), Precision::F64) => unsafe { mixed_kernel(lines, v, x, put) },
            (NumbersRef::F16(v), SliceRef::F64(x), Precision::F64) => unsafe { f16_f64_kernel(lines, v, x, put) },
            (NumbersRef::BF16(v), SliceRef::F64(x), Precision::F64) => unsafe { bf16_f64_kernel(lines, v, x, put) },
            (NumbersRef::F32(v), SliceRef::F32(x), Precision::F32) => unsafe { f32_kernel(lines, v, x, put) },
            (NumbersRef::F16(v), SliceRef::F32(x), Precision::F32) => unsafe { f16_kernel(lines, v, x, put) },
            (NumbersRef::BF16(v), SliceRef::F32(x), Precision::F32) => unsafe { bf16_kernel(lines, v, x, put) },
            _ => return false,
        };
        assert!(in_range, "a column lies outside of the vector");
        true
    }

    /// [`row_products`] for blocks.
    pub fn block_row_products<S: Number, X: Scalar, Y: Scalar>(
        rows: &Rows<'_, S, impl Fn(usize) -> usize>,
        block: Block,
        x: &[X],
        count: usize,
        put: &mut impl FnMut(usize, Y),
    ) -> bool {
        if block.rows > LANES || block.cols > LANES {
            return false;
        }
        let Rows { offset, first, columns, base, .. } = rows;
        let lines = Lines { offset, first: *first, count, columns, base: *base };
        macro_rules! for_rows {
            ($kernel:ident, $v:ident, $x:ident) => {
                // SAFETY: the caller has found the processor's features.
                unsafe {
                    match block.rows {
                        1 => $kernel::<1, Y>(lines, block.cols, $v, $x, put),
                        2 => $kernel::<2, Y>(lines, block.cols, $v, $x, put),
                        3 => $kernel::<3, Y>(lines, block.cols, $v, $x, put),
                        4 => $kernel::<4, Y>(lines, block.cols, $v, $x, put),
                        5 => $kernel::<5, Y>(lines, block.cols, $v, $x, put),
                        6 => $kernel::<6, Y>(lines, block.cols, $v, $x, put),
                        7 => $kernel::<7, Y>(lines, block.cols, $v, $x, put),
                        _ => $kernel::<8, Y>(lines, block.cols, $v, $x, put),
                    }
                }
            };
        }
        match (S::numbers(rows.values), X::slice_ref(x), Y::PRECISION) {
            (NumbersRef::F64(v), SliceRef::F64(x), Precision::F64) => for_rows!(f64_blocks, v, x),
            (NumbersRef::F32(v), SliceRef::F64(x), Precision::F64) => for_rows!(mixed_blocks, v, x),
            (NumbersRef::F16(v), SliceRef::F64(x), Precision::F64) => for_rows!(f16_f64_blocks, v, x),
            (NumbersRef::BF16(v), SliceRef::F64(x), Precision::F64) => for_rows!(bf16_f64_blocks, v, x),
            (NumbersRef::F32(v), SliceRef::F32(x), Precision::F32) => for_rows!(f32_blocks, v, x),
            (NumbersRef::F16(v), SliceRef::F32(x), Precision::F32) => for_rows!(f16_blocks, v, x),
            (NumbersRef::BF16(v), SliceRef::F32(x), Precision::F32) => for_rows!(bf16_blocks, v, x),
            _ => return false,
        }
        true
    }

    /// What all kernels read alike.
    struct Lines<'a, O> {
        offset: &'a O,
        first: usize,
        count: usize,
        columns: &'a [i32],
        base: i32,
    }

    /// A kernel: eight entries are loaded by `$load`, multiplied with what `$gather` finds in x, and added up. Entries behind the end of the
    /// row and columns outside of x are masked out, so nothing beyond the slices is touched; the result says whether all columns were inside.
    macro_rules! kernel {
        ($name:ident, $value:ty, $vector:ty, $zero:ident, $mul:ident, $add:ident, $load:expr, $gather:expr, $sum:ident) => {
            #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
            fn $name<Y: Scalar>(
                rows: Lines<'_, impl Fn(usize) -> usize>,
                values: &[$value],
                x: &[$vector],
                put: &mut impl FnMut(usize, Y),
            ) -> bool {
                let columns = rows.columns;
                assert_eq!(columns.len(), values.len());
                let length = _mm256_set1_epi32(x.len() as i32);
                let base = _mm256_set1_epi32(rows.base);
                let mut outside = 0_u8;
                let mut at = (rows.offset)(rows.first);
                for k in 0..rows.count {
                    let end = (rows.offset)(rows.first + k + 1);
                    assert!(at <= end && end <= columns.len(), "row offsets are not in order");
                    let mut lanes = $zero();
                    while at < end {
                        prefetch(columns, at + AHEAD);
                        prefetch(values, at + AHEAD);
                        let left = end - at;
                        let mask = if left >= LANES { u8::MAX } else { (1_u8 << left) - 1 };
                        // SAFETY: the mask ends with the row, which lies in both slices; the gather's mask leaves indices below the
                        // length of x.
                        unsafe {
                            let column = _mm256_maskz_loadu_epi32(mask, columns.as_ptr().add(at));
                            let column = _mm256_sub_epi32(column, base);
                            let inside = _mm256_mask_cmplt_epu32_mask(mask, column, length);
                            outside |= mask & !inside;
                            let value = $load(mask, values.as_ptr().add(at));
                            let from = $gather(inside, column, x.as_ptr());
                            lanes = $add(lanes, $mul(value, from));
                        }
                        at += LANES;
                    }
                    put(k, Y::from_f64($sum(lanes).to_f64()));
                    at = end;
                }
                outside == 0
            }
        };
    }

    /// A kernel for blocks of `R` rows: a row of a block is loaded by `$load`, multiplied with the part of x that `$load_x` loads, and added
    /// up lane by lane.
    macro_rules! block_kernel {
        ($name:ident, $value:ty, $vector:ty, $zero:ident, $mul:ident, $add:ident, $load:expr, $load_x:expr, $sum:ident) => {
            #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
            fn $name<const R: usize, Y: Scalar>(
                rows: Lines<'_, impl Fn(usize) -> usize>,
                cols: usize,
                values: &[$value],
                x: &[$vector],
                put: &mut impl FnMut(usize, Y),
            ) {
                let mask = if cols == LANES { u8::MAX } else { (1_u8 << cols) - 1 };
                let width = R * cols;
                let mut begin = (rows.offset)(rows.first);
                for k in 0..rows.count {
                    let end = (rows.offset)(rows.first + k + 1);
                    let mut lanes = [$zero(); R];
                    let blocks = values[begin * width..end * width].chunks_exact(width);
                    for (p, (column, block)) in rows.columns[begin..end].iter().zip(blocks).enumerate() {
                        for line in (0..width).step_by(LANES) {
                            prefetch(values, (begin + p) * width + line + AHEAD);
                        }
                        let x = &x[(*column - rows.base) as usize * cols..][..cols];
                        // SAFETY: the mask is as long as x and as a row of the block, which has R of them.
                        unsafe {
                            let x = $load_x(mask, x.as_ptr());
                            for (r, lanes) in lanes.iter_mut().enumerate() {
                                let value = $load(mask, block.as_ptr().add(r * cols));
                                *lanes = $add(*lanes, $mul(value, x));
                            }
                        }
                    }
                    for (r, lanes) in lanes.into_iter().enumerate() {
                        put(k * R + r, Y::from_f64($sum(lanes).to_f64()));
                    }
                    begin = end;
                }
            }
        };
    }

    /// The kernels of a storage format for vectors of f64.
    macro_rules! wide {
        ($rows:ident, $blocks:ident, $value:ty, $load:expr) => {
            kernel!(
                $rows,
                $value,
                f64,
                _mm512_setzero_pd,
                _mm512_mul_pd,
                _mm512_add_pd,
                $load,
                |mask, at, from| _mm512_mask_i32gather_pd::<8>(_mm512_setzero_pd(), mask, at, from),
                sum_f64
            );
            block_kernel!(
                $blocks,
                $value,
                f64,
                _mm512_setzero_pd,
                _mm512_mul_pd,
                _mm512_add_pd,
                $load,
                |mask, from| _mm512_maskz_loadu_pd(mask, from),
                sum_f64
            );
        };
    }

    /// The kernels of a storage format for vectors of f32.
    macro_rules! narrow {
        ($rows:ident, $blocks:ident, $value:ty, $load:expr) => {
            kernel!(
                $rows,
                $value,
                f32,
                _mm256_setzero_ps,
                _mm256_mul_ps,
                _mm256_add_ps,
                $load,
                |mask, at, from| _mm256_mmask_i32gather_ps::<4>(_mm256_setzero_ps(), mask, at, from),
                sum_f32
            );
            block_kernel!(
                $blocks,
                $value,
                f32,
                _mm256_setzero_ps,
                _mm256_mul_ps,
                _mm256_add_ps,
                $load,
                |mask, from| _mm256_maskz_loadu_ps(mask, from),
                sum_f32
            );
        };
    }

    wide!(f64_kernel, f64_blocks, f64, |mask, from| _mm512_maskz_loadu_pd(mask, from));
    wide!(mixed_kernel, mixed_blocks, f32, |mask, from| _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, from)));
    wide!(f16_f64_kernel, f16_f64_blocks, f16, |mask, from| _mm512_cvtps_pd(f16_lanes(mask, from)));
    wide!(bf16_f64_kernel, bf16_f64_blocks, bf16, |mask, from| _mm512_cvtps_pd(bf16_lanes(mask, from)));
    narrow!(f32_kernel, f32_blocks, f32, |mask, from| _mm256_maskz_loadu_ps(mask, from));
    narrow!(f16_kernel, f16_blocks, f16, |mask, from| f16_lanes(mask, from));
    narrow!(bf16_kernel, bf16_blocks, bf16, |mask, from| bf16_lanes(mask, from));

    /// Eight halves as f32; what the mask leaves out is not read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
    unsafe fn f16_lanes(mask: u8, from: *const f16) -> __m256 {
        // SAFETY: the caller's mask ends with what lies behind the pointer.
        unsafe { _mm256_maskz_cvtph_ps(mask, _mm_maskz_loadu_epi16(mask, from.cast())) }
    }

    /// Eight numbers as f32, of which they are the upper halves; what the mask leaves out is not read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
    unsafe fn bf16_lanes(mask: u8, from: *const bf16) -> __m256 {
        // SAFETY: the caller's mask ends with what lies behind the pointer.
        let halves = unsafe { _mm_maskz_loadu_epi16(mask, from.cast()) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
    }

    /// The sum of all lanes, in the order of the portable code.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
    fn sum_f64(lanes: __m512d) -> f64 {
        let four = _mm256_add_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd::<1>(lanes));
        let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }

    /// The sum of all lanes, in the order of the portable code.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
    fn sum_f32(lanes: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::hash;
    use half::{bf16, f16};

    fn check<S: Number, X: Scalar, Y: Scalar>() {
        let lengths: Vec<usize> = (0..40).chain([100, 0, 7, 8, 9]).collect();
        let offsets: Vec<usize> = std::iter::once(0)
            .chain(lengths.iter().scan(0, |total, n| {
                *total += n;
                Some(*total)
            }))
            .collect();
        let n = offsets[lengths.len()];
        let number = |i: usize, seed: u64| (hash(i, seed) % 2001) as f64 / 1000.0 - 1.0;
        let columns: Vec<i32> = (0..n).map(|k| (hash(k, 1) % 50) as i32 + 1).collect();
        let values: Vec<S> = (0..n).map(|k| S::from_f64(number(k, 2))).collect();
        let x: Vec<X> = (0..50).map(|i| X::from_f64(number(i, 3))).collect();
        let rows = Rows { offset: |i| offsets[i], first: 2, columns: &columns, values: &values, base: 1 };
        let (mut fast, mut slow) = (vec![Y::ONE; 43], vec![Y::ZERO; 43]);
        row_products(&rows, &x, 43, |k, sum| fast[k] = sum);
        portable(&rows, &x, 43, |k, sum| slow[k] = sum);
        assert_eq!(fast, slow);
        for (i, sum) in slow.iter().enumerate() {
            let terms =
                (offsets[i + 2]..offsets[i + 3]).map(|k| values[k].to_f64() * x[columns[k] as usize - 1].to_f64());
            assert!((sum.to_f64() - terms.sum::<f64>()).abs() < 1e-4);
        }
    }

    fn check_blocks<S: Number, X: Scalar, Y: Scalar>() {
        let offsets = [0, 3, 3, 4, 9];
        let number = |i: usize, seed: u64| (hash(i, seed) % 2001) as f64 / 1000.0 - 1.0;
        let columns: Vec<i32> = (0..9).map(|k| (hash(k, 1) % 5) as i32 + 1).collect();
        for (br, bc) in (1..=LANES).flat_map(|r| (1..=LANES).map(move |c| (r, c))) {
            let values: Vec<S> = (0..9 * br * bc).map(|k| S::from_f64(number(k, 2))).collect();
            let x: Vec<X> = (0..5 * bc).map(|i| X::from_f64(number(i, 3))).collect();
            let rows = Rows { offset: |i| offsets[i], first: 1, columns: &columns, values: &values, base: 1 };
            let (mut fast, mut slow) = (vec![Y::ONE; 3 * br], vec![Y::ZERO; 3 * br]);
            block_row_products(&rows, Block { rows: br, cols: bc }, &x, 3, |k, sum| fast[k] = sum);
            portable_blocks(&rows, Block { rows: br, cols: bc }, &x, 3, |k, sum| slow[k] = sum);
            assert_eq!(fast, slow, "{br}x{bc}");
        }
    }

    #[test]
    fn vector_registers_and_portable_code_give_the_same_bits() {
        check_blocks::<f64, f64, f64>();
        check_blocks::<f32, f64, f64>();
        check_blocks::<f32, f32, f32>();
        check_blocks::<f64, f32, f32>();
        check_blocks::<f16, f32, f32>();
        check_blocks::<f16, f64, f64>();
        check_blocks::<bf16, f32, f32>();
        check_blocks::<bf16, f64, f64>();
        check::<f16, f32, f32>();
        check::<f16, f64, f64>();
        check::<bf16, f32, f32>();
        check::<bf16, f64, f64>();
        check::<f64, f64, f64>();
        check::<f32, f64, f64>();
        check::<f32, f32, f32>();
        check::<f64, f32, f32>();
        check::<f32, f32, f64>();
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn a_column_outside_of_the_vector_is_not_read() {
        let offsets = [0, 2];
        let rows = Rows { offset: |i| offsets[i], first: 0, columns: &[0, 3], values: &[1.0, 1.0], base: 0 };
        if cfg!(not(all(target_arch = "x86_64", not(miri)))) || !is_x86_feature_detected!("avx512f") {
            panic!("outside: the portable code indexes a slice");
        }
        row_products(&rows, &[1.0, 2.0, 3.0], 1, |_, _: f64| ());
    }
}
