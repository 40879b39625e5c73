// Sums over lanes and blocks, in an order that depends on nothing but their size.
#pragma once
#include "portability.h"

// The sum over groups of LANES neighbouring lanes, a power of two; each lane of a group gets it.
template <int LANES, class T> DEVICE T lanes_sum(T v) {
    UNROLL
    for (int mask = LANES / 2; mask > 0; mask /= 2) {
        v += shuffle_xor(v, mask);
    }
    return v;
}

// The sum over the block; thread 0 gets it. Every thread of the block takes part.
DEVICE f64 block_sum(f64 v) {
    SHARED(f64, partial, BLOCK / WARP);
    v = lanes_sum<WARP>(v);
    if (thread_index() % WARP == 0) {
        partial[thread_index() / WARP] = v;
    }
    barrier();
    f64 sum = 0.0;
    if (thread_index() == 0) {
        for (int i = 0; i < BLOCK / WARP; ++i) {
            sum += partial[i];
        }
    }
    return sum;
}

// The sum of parts from `first` on, in an order that follows from their number; thread 0 gets it. Every thread of the block takes part.
DEVICE f64 parts_sum(const In<f64> &parts, i64 first, i64 end) {
    f64 sum = 0.0;
    for (i64 i = first + thread_index(); i < end; i += ELEMENTS * BLOCK) {
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            sum += i + e * BLOCK < end ? parts[i + e * BLOCK] : 0.0;
        }
    }
    return block_sum(sum);
}

// The larger of two absolute values; NaN stays.
DEVICE f64 larger(f64 a, f64 b) { return a >= b || a != a ? a : b; }

// The largest over the block; every thread gets it.
DEVICE f64 block_largest(f64 v) {
    SHARED(f64, partial, BLOCK / WARP);
    UNROLL
    for (int mask = WARP / 2; mask > 0; mask /= 2) {
        v = larger(v, shuffle_xor(v, mask));
    }
    if (thread_index() % WARP == 0) {
        partial[thread_index() / WARP] = v;
    }
    barrier();
    f64 largest = 0.0;
    for (int i = 0; i < BLOCK / WARP; ++i) {
        largest = larger(largest, partial[i]);
    }
    return largest;
}
