// Offsets from counts, in three steps: sums of pieces, sums of what comes before a piece, and offsets.
#include "scan.h"

// Counts of a piece, for one block; `src/gpu/scan.rs` has it, too.
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

// For one block: each of `pieces` sums becomes that of those before it, and the one behind them that of all, which goes to `all` as well if that is there.
KERNEL(scan_sums, i64 pieces, Out<i64> sums, Out<i64> all) {
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
        if (all.len > 0) {
            all[0] = before;
        }
    }
}

KERNEL(scan_offsets, i64 n, In<i32> counts, In<i64> sums, Out<i64> offsets) {
    i64 before = sums[block_index()];
    for (int k = 0; k < SCAN_PER_THREAD; ++k) {
        const i64 i = block_index() * SCAN_PIECE + k * BLOCK + thread_index();
        i64 total;
        const i64 sum = block_sum_before(i < n ? counts[i] : 0, total);
        if (i < n) {
            offsets[i] = before + sum;
        }
        if (i == n - 1) {
            offsets[n] = before + sum + counts[i];
        }
        before += total;
    }
}
