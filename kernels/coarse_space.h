// The near-null space of a coarse level, as kernels of prolongators read it.
#pragma once
#include "numbers.h"

// `k` vectors of `m` numbers for each of `count` aggregates or coarse unknowns.
struct CoarseSpace {
    i64 count;
    int m;
    int k;
    In<f64> vectors;
    // Row r of vector c on an aggregate.
    DEVICE f64 at(i32 aggregate, int r, int c) const { return vectors[c * count * m + static_cast<i64>(aggregate) * m + r]; }
};
