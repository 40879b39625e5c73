// Common parts of SpGEMM of dense blocks.
#pragma once
#include "spgemm.h"

// Block sizes `outer` x `inner` times `inner` x `width`, known at compile time, or at run time.
template <int OUTER, int INNER, int WIDTH> struct Fixed {
    static DEVICE int outer() { return OUTER; }
    static DEVICE int inner() { return INNER; }
    static DEVICE int width() { return WIDTH; }
};
struct Dynamic {
    i32 rows, terms, cols;
    DEVICE int outer() const { return rows; }
    DEVICE int inner() const { return terms; }
    DEVICE int width() const { return cols; }
};

// Sums and columns of a row of C that fit into the shared memory of a team of N lanes.
template <int N> struct BlockCapacity;
template <> struct BlockCapacity<32> {
    static constexpr int SUMS = 512;
    static constexpr int COLUMNS = 64;
};
template <> struct BlockCapacity<256> {
    static constexpr int SUMS = 4096;
    static constexpr int COLUMNS = 512;
};

// Calls DO for every compiled block size, and for `dynamic`.
#define SHAPE_COMMA ,
#define FOR_SHAPES(DO, N, T) \
    DO(N, 3_3_3, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 3>(), T) \
    DO(N, 3_3_6, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    DO(N, 6_3_6, Fixed<6 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    DO(N, 6_6_6, Fixed<6 SHAPE_COMMA 6 SHAPE_COMMA 6>(), T) \
    DO(N, any, dynamic, T)
