// Exclusive scan, from counts to offsets: sums of pieces, a scan of these sums if there are many, and offsets.
#include "scan.h"

// Counts of a piece, which one block scans; the same as in `src/gpu/scan.rs`.
constexpr int SCAN_PER_THREAD = 16;
constexpr int SCAN_PIECE = BLOCK * SCAN_PER_THREAD;

KERNEL(scan_pieces, i64 n, In<i32> counts, Out<i64> sums) {
    i64 sum = 0;
    UNROLL
    for (int k = 0; k < SCAN_PER_THREAD; ++k) {
        const i64 i = block_index() * SCAN_PIECE + k * BLOCK + thread_index();
        sum += i < n ? counts[i] : 0;
    }
    i64 total;
    block_sum_before(sum, total);
    if (thread_index() == 0) {
        sums[block_index()] = total;
    }
}

// One block of threads: exclusive scan of `pieces` sums, followed by the total.
KERNEL(scan_sums, i64 pieces, Out<i64> sums) {
    i64 before = 0;
    for (i64 start = 0; start < pieces; start += BLOCK) {
        const i64 i = start + thread_index();
        i64 total;
        const i64 sum = block_sum_before(i < pieces ? sums[i] : 0, total);
        if (i < pieces) {
            sums[i] = before + sum;
        }
        before += total;
    }
    if (thread_index() == 0) {
        sums[pieces] = before;
    }
}

// `summed` tells whether `sums` is scanned already. The total is the last offset; it also goes to `all` if that is
// given. Each warp has a part of a piece, whose loads are issued together.
KERNEL(scan_offsets, i64 n, i32 summed, In<i32> counts, In<i64> sums, Out<i64> offsets, Out<i64> all) {
    using Lanes = Group<WARP>;
    const int lane = Lanes::rank();
    const i64 first = block_index() * SCAN_PIECE + thread_index() / WARP * (WARP * SCAN_PER_THREAD) + lane;
    i32 count[SCAN_PER_THREAD];
    UNROLL
    for (int k = 0; k < SCAN_PER_THREAD; ++k) {
        const i64 i = first + k * WARP;
        count[k] = i < n ? counts[i] : 0;
    }
    i64 of_pieces = 0;
    if (summed == 0) {
        for (i64 piece = thread_index(); piece < block_index(); piece += BLOCK) {
            of_pieces += sums[piece];
        }
    }
    i64 upto[SCAN_PER_THREAD];
    i64 own = 0;
    UNROLL
    for (int k = 0; k < SCAN_PER_THREAD; ++k) {
        upto[k] = count[k];
        UNROLL
        for (int step = 1; step < WARP; step *= 2) {
            const i64 other = Lanes::shuffle(upto[k], lane >= step ? lane - step : lane);
            upto[k] += lane >= step ? other : 0;
        }
        upto[k] += own;
        own = Lanes::shuffle(upto[k], WARP - 1);
    }
    i64 total;
    i64 before = block_sum_before(lane == WARP - 1 ? own : 0, total);
    block_sum_before(of_pieces, total);
    before += summed != 0 ? sums[block_index()] : total;
    UNROLL
    for (int k = 0; k < SCAN_PER_THREAD; ++k) {
        const i64 i = first + k * WARP;
        if (i < n) {
            offsets[i] = before + upto[k] - count[k];
        }
        if (i == n - 1) {
            offsets[n] = before + upto[k];
            if (all.len > 0) {
                all[0] = before + upto[k];
            }
        }
    }
}
