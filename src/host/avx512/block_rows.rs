//! The kernels of [`crate::host::block_rows`]: square blocks of N x N values, one lane for each node, which is a block row.
//!
//! Vectors hold the N unknowns of a node together. A kernel reads the N registers that hold those of as many nodes as a
//! register has lanes, and deals their elements out so that each register gets one unknown of every node; results are
//! put together again.

use super::{Value, first8, first16, lanes_inside};
use crate::host::prefetch::prefetch;
use crate::scalar::{NumbersRef, SliceMut};
use crate::sparse::BLOCK_ROWS;
use std::arch::x86_64::*;

/// Runs `$kernel` for blocks of `$n` rows; gives up for other sizes.
macro_rules! for_widths {
    ($n:expr, $kernel:ident::<$s:ty>$arguments:tt, $($width:literal)*) => {
        match $n {
            // SAFETY: the caller has found the processor's features.
            $($width => unsafe { $kernel::<$width, $s>$arguments },)*
            _ => return false,
        }
    };
}

/// The products of a group of nodes by diagonals; false when there is no kernel for these types. Only where the
/// processor has the features.
pub fn diagonal_products(
    n: usize,
    distances: &[i32],
    values: NumbersRef<'_>,
    first: usize,
    x: NumbersRef<'_>,
    sums: SliceMut<'_>,
) -> bool {
    fn with_values<S: Value>(
        n: usize,
        distances: &[i32],
        values: &[S],
        first: usize,
        x: NumbersRef<'_>,
        sums: SliceMut<'_>,
    ) -> bool {
        match (x, sums) {
            (NumbersRef::F64(x), SliceMut::F64(sums)) => {
                for_widths!(n, wide_diagonals::<S>(distances, values, first, x, sums), 2 3 4 5 6 7 8);
            }
            (NumbersRef::F32(x), SliceMut::F32(sums)) => {
                for_widths!(n, narrow_diagonals::<S>(distances, values, first, x, sums), 2 3 4 5 6 7 8);
            }
            _ => return false,
        }
        true
    }
    match values {
        NumbersRef::F64(_) => false,
        NumbersRef::F32(values) => with_values(n, distances, values, first, x, sums),
        NumbersRef::F16(values) => with_values(n, distances, values, first, x, sums),
        NumbersRef::BF16(values) => with_values(n, distances, values, first, x, sums),
    }
}

/// The products of blocks with the part of x that belongs to each; false when there is no kernel for these types. Only
/// where the processor has the features.
pub fn block_diagonal_products(n: usize, d: NumbersRef<'_>, x: NumbersRef<'_>, sums: SliceMut<'_>) -> bool {
    fn with_values<S: Value>(n: usize, d: &[S], x: NumbersRef<'_>, sums: SliceMut<'_>) -> bool {
        match (x, sums) {
            (NumbersRef::F64(x), SliceMut::F64(sums)) => {
                for_widths!(n, wide_block_diagonal::<S>(d, x, sums), 2 3 4 5 6 7 8);
            }
            (NumbersRef::F32(x), SliceMut::F32(sums)) => {
                for_widths!(n, narrow_block_diagonal::<S>(d, x, sums), 2 3 4 5 6 7 8);
            }
            _ => return false,
        }
        true
    }
    match d {
        NumbersRef::F64(d) => with_values(n, d, x, sums),
        NumbersRef::F32(d) => with_values(n, d, x, sums),
        NumbersRef::F16(d) => with_values(n, d, x, sums),
        NumbersRef::BF16(d) => with_values(n, d, x, sums),
    }
}

/// Bytes between the values in use and those asked for.
const AHEAD_BYTES: usize = 2048;

/// Defines the kernels for results of type `$of`, of which a register has `$lanes`.
macro_rules! kernels {
    (
        $of:ident, $lanes:literal, $register:ident, $index:ident, $mask:ident, $tables:ident, $diagonals:ident, $block_diagonal:ident,
        $deal:ident, $gather:ident, $first:ident, $load:ident, $zero:ident, $add:ident, $mul:ident, $store:ident,
        $load_index:ident, $permute:ident, $mask_permute:ident
    ) => {
        /// Where the lanes come from when N registers with the unknowns of `$lanes` nodes, node by node, are dealt out
        /// by unknown, and back; and what belongs to the values of `$lanes` blocks, which fill N times N registers.
        struct $tables<const N: usize>;

        impl<const N: usize> $tables<N> {
            /// Lane of unknown c of each node, in whichever register it is.
            const FROM: [[$index; $lanes]; N] = {
                let mut t = [[0; $lanes]; N];
                let mut k = 0;
                while k < N * $lanes {
                    t[k % N][k / N] = (k % $lanes) as $index;
                    k += 1;
                }
                t
            };
            /// Nodes whose unknown c is in register s.
            const IN: [[$mask; N]; N] = {
                let mut t = [[0; N]; N];
                let mut k = 0;
                while k < N * $lanes {
                    t[k % N][k / $lanes] |= 1 << (k / N);
                    k += 1;
                }
                t
            };
            /// Node of each lane of register s.
            const NODE: [[$index; $lanes]; N] = {
                let mut t = [[0; $lanes]; N];
                let mut k = 0;
                while k < N * $lanes {
                    t[k / $lanes][k % $lanes] = (k / N) as $index;
                    k += 1;
                }
                t
            };
            /// Lanes of register s that hold unknown c.
            const OF: [[$mask; N]; N] = {
                let mut t = [[0; N]; N];
                let mut k = 0;
                while k < N * $lanes {
                    t[k / $lanes][k % N] |= 1 << (k % $lanes);
                    k += 1;
                }
                t
            };
            /// The first unknown that register s N + k of the blocks needs. All that it needs fit into a register.
            const BEGIN: [[usize; N]; N] = {
                let mut t = [[N * $lanes; N]; N];
                let mut k = 0;
                while k < N * N * $lanes {
                    let begin = &mut t[k / $lanes / N][k / $lanes % N];
                    let unknown = k / (N * N) * N + k % N;
                    if unknown < *begin {
                        *begin = unknown;
                    }
                    k += 1;
                }
                t
            };
            /// For each of its lanes the unknown, counted from that one.
            const UNKNOWN: [[[$index; $lanes]; N]; N] = {
                let mut t = [[[0; $lanes]; N]; N];
                let mut k = 0;
                while k < N * N * $lanes {
                    let (s, r) = (k / $lanes / N, k / $lanes % N);
                    t[s][r][k % $lanes] = (k / (N * N) * N + k % N - Self::BEGIN[s][r]) as $index;
                    k += 1;
                }
                t
            };
        }

        /// One register for each unknown from N registers with all unknowns of each node.
        #[inline]
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $deal<const N: usize>(mixed: &[$register; N]) -> [$register; N] {
            let mut out = [$zero(); N];
            for (c, out) in out.iter_mut().enumerate() {
                // SAFETY: the table has as many lanes as the register.
                let from = unsafe { $load_index($tables::<N>::FROM[c].as_ptr()) };
                for (s, mixed) in mixed.iter().enumerate() {
                    *out = $mask_permute(*out, $tables::<N>::IN[c][s], from, *mixed);
                }
            }
            out
        }

        /// The opposite.
        #[inline]
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $gather<const N: usize>(unknowns: &[$register; N]) -> [$register; N] {
            let mut out = [$zero(); N];
            for (s, out) in out.iter_mut().enumerate() {
                // SAFETY: the table has as many lanes as the register.
                let node = unsafe { $load_index($tables::<N>::NODE[s].as_ptr()) };
                for (c, unknown) in unknowns.iter().enumerate() {
                    *out = $mask_permute(*out, $tables::<N>::OF[s][c], node, *unknown);
                }
            }
            out
        }

        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $diagonals<const N: usize, S: Value>(
            distances: &[i32],
            values: &[S],
            first: usize,
            x: &[$of],
            sums: &mut [$of],
        ) {
            for (part, sums) in sums[..N * BLOCK_ROWS].chunks_exact_mut(N * $lanes).enumerate() {
                let mut all = [$zero(); N];
                for (k, distance) in distances.iter().enumerate() {
                    let values = &values[k * N * N * BLOCK_ROWS..][..N * N * BLOCK_ROWS];
                    if part == 0 {
                        for line in (0..N * N * BLOCK_ROWS).step_by(64 / size_of::<S>()) {
                            prefetch(values, line + AHEAD_BYTES / size_of::<S>());
                        }
                    }
                    // Unknowns of nodes before the first or behind the last are not read.
                    let begin = (first + part * $lanes) as i64 + i64::from(*distance);
                    let begin = begin * N as i64;
                    let whole = begin >= 0 && begin + (N * $lanes) as i64 <= x.len() as i64;
                    let mut mixed = [$zero(); N];
                    for (s, mixed) in mixed.iter_mut().enumerate() {
                        let begin = begin + (s * $lanes) as i64;
                        let mask = if whole { <$mask>::MAX } else { lanes_inside(begin, x.len(), $lanes) as $mask };
                        // SAFETY: the mask has the lanes that lie in x.
                        *mixed = unsafe { $of::$load(mask, x.as_ptr().wrapping_offset(begin as isize)) };
                    }
                    let x = $deal(&mixed);
                    for (r, all) in all.iter_mut().enumerate() {
                        let mut of_block = $zero();
                        for (c, x) in x.iter().enumerate() {
                            let at = (r * N + c) * BLOCK_ROWS + part * $lanes;
                            // SAFETY: the slice has BLOCK_ROWS values for each place in the block.
                            let term = $mul(unsafe { S::$load(<$mask>::MAX, values.as_ptr().add(at)) }, *x);
                            of_block = if c == 0 { term } else { $add(of_block, term) };
                        }
                        *all = $add(*all, of_block);
                    }
                }
                for (sums, all) in sums.chunks_exact_mut($lanes).zip($gather(&all)) {
                    // SAFETY: the slice is as long as the register.
                    unsafe { $store(sums.as_mut_ptr(), <$mask>::MAX, all) };
                }
            }
        }

        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn $block_diagonal<const N: usize, S: Value>(d: &[S], x: &[$of], sums: &mut [$of]) {
            assert!(d.len() == N * sums.len() && x.len() == sums.len());
            let groups = d.chunks(N * N * $lanes).zip(x.chunks(N * $lanes)).zip(sums.chunks_mut(N * $lanes));
            for ((d, x), sums) in groups {
                for s in 0..N {
                    let mut terms = [$zero(); N];
                    for (k, term) in terms.iter_mut().enumerate() {
                        let at = (s * N + k) * $lanes;
                        let begin = $tables::<N>::BEGIN[s][k];
                        // SAFETY: the masks end with the slices.
                        unsafe {
                            let values = S::$load($first(d.len().saturating_sub(at)), d.as_ptr().wrapping_add(at));
                            let x = $of::$load($first(x.len().saturating_sub(begin)), x.as_ptr().wrapping_add(begin));
                            *term = $mul(values, $permute($load_index($tables::<N>::UNKNOWN[s][k].as_ptr()), x));
                        }
                    }
                    let terms = $deal(&terms);
                    let mut sum = terms[0];
                    for term in &terms[1..] {
                        sum = $add(sum, *term);
                    }
                    let left = sums.len().saturating_sub(s * $lanes);
                    // SAFETY: the mask ends with the slice.
                    unsafe { $store(sums.as_mut_ptr().wrapping_add(s * $lanes), $first(left), sum) };
                }
            }
        }
    };
}

kernels!(
    f64,
    8,
    __m512d,
    i64,
    u8,
    WideTables,
    wide_diagonals,
    wide_block_diagonal,
    deal_wide,
    gather_wide,
    first8,
    load_wide,
    _mm512_setzero_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_mask_storeu_pd,
    _mm512_loadu_epi64,
    _mm512_permutexvar_pd,
    _mm512_mask_permutexvar_pd
);
kernels!(
    f32,
    16,
    __m512,
    i32,
    u16,
    NarrowTables,
    narrow_diagonals,
    narrow_block_diagonal,
    deal_narrow,
    gather_narrow,
    first16,
    load_narrow,
    _mm512_setzero_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_mask_storeu_ps,
    _mm512_loadu_epi32,
    _mm512_permutexvar_ps,
    _mm512_mask_permutexvar_ps
);
