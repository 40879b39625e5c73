// The near-null space of a coarse level, as kernels of prolongators read it.
#pragma once
#include "numbers.h"

// Vectors are columns of `k` numbers for each of `count` aggregates.
struct CoarseSpace {
    i64 count;
    int k;
    In<f64> vectors;
    // Row r of vector c on an aggregate.
    DEVICE f64 at(i32 aggregate, int r, int c) const { return vectors[c * count * k + static_cast<i64>(aggregate) * k + r]; }
};
