// Scalar rows of block matrices.
#pragma once
#include "portability.h"

// A scalar row of a BSR matrix: the position of its entry e in the values, and its scalar column.
struct ScalarRow {
    i64 start;
    i64 entries;
    int r;
    int br;
    int bc;
    DEVICE i64 at(i64 e) const { return ((start + e / bc) * br + r) * bc + e % bc; }
    DEVICE i64 column(i64 e, const In<i32> &columns) const { return static_cast<i64>(columns[start + e / bc]) * bc + e % bc; }
};
