// Exclusive scan over the threads of a block.
#pragma once
#include "portability.h"

// The sum of v over the threads before this one; `total` is the sum over all. All threads of the block take part; a
// block may call it several times. `sums` is shared memory for one number of each warp.
template <class Sums> DEVICE i64 block_sum_before(Sums &sums, i64 v, i64 &total) {
    constexpr int WARPS = BLOCK / WARP;
    const int lane = Group<WARP>::rank();
    i64 upto = v;
    UNROLL
    for (int step = 1; step < WARP; step *= 2) {
        const i64 before = Group<WARP>::shuffle(upto, lane >= step ? lane - step : lane);
        upto += lane >= step ? before : 0;
    }
    barrier(); // an earlier use may still be read
    if (lane == WARP - 1) {
        sums[thread_index() / WARP] = upto;
    }
    barrier();
    i64 before = 0;
    total = 0;
    UNROLL
    for (int w = 0; w < WARPS; ++w) {
        before += w < thread_index() / WARP ? sums[w] : 0;
        total += sums[w];
    }
    return before + upto - v;
}
DEVICE i64 block_sum_before(i64 v, i64 &total) {
    SHARED(i64, sums, BLOCK / WARP);
    return block_sum_before(sums, v, total);
}
