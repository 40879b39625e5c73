// Multivectors: 1 << shift interleaved vectors, 4 or 8. Element i of vector c has index (i << shift) + c, so neighbouring threads have the
// elements of a row.
#pragma once
#include "reduce.h"

// Most vectors.
constexpr int VECTORS = 8;

// A scalar of each vector.
struct PerVector {
    f64 of[VECTORS];
};

// The sums over the threads of a block with the same vector, which is that of their index; the first 1 << shift threads get them. Every thread of
// the block takes part.
DEVICE f64 vector_sum(int shift, f64 v) {
    SHARED(f64, sums, (BLOCK / WARP) * VECTORS);
    for (int mask = WARP / 2; mask >= 1 << shift; mask /= 2) {
        v += shuffle_xor(v, mask);
    }
    const int lane = thread_index() % WARP;
    if (lane < 1 << shift) {
        sums[thread_index() / WARP * VECTORS + lane] = v;
    }
    barrier();
    f64 sum = 0.0;
    if (thread_index() < 1 << shift) {
        for (int i = 0; i < BLOCK / WARP; ++i) {
            sum += sums[i * VECTORS + thread_index()];
        }
    }
    return sum;
}

// Stores the partial sums of a block: those of all vectors lie together.
DEVICE void store_vector_sums(int shift, f64 v, const Out<f64> &parts, i64 block) {
    const f64 sum = vector_sum(shift, v);
    if (thread_index() < 1 << shift) {
        parts[(block << shift) + thread_index()] = sum;
    }
}
