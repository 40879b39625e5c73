// What products of dense blocks share.
#pragma once
#include "spgemm.h"

// Dimensions of blocks, `outer` x `inner` times `inner` x `width`, known when the kernel is compiled, or not.
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

// Room for sums, and for columns, of each row of C.
template <int N> struct BlockRoom;
template <> struct BlockRoom<32> {
    static constexpr int SUMS = 512;
    static constexpr int COLUMNS = 64;
};
template <> struct BlockRoom<256> {
    static constexpr int SUMS = 4096;
    static constexpr int COLUMNS = 512;
};

// Every shape of blocks that kernels are compiled for, and all others; kernels call theirs `dynamic`.
#define SHAPE_COMMA ,
#define FOR_SHAPES(DO, N, T) \
    DO(N, 3_3_3, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 3>(), T) \
    DO(N, 3_3_6, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    DO(N, 6_3_6, Fixed<6 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    DO(N, 6_6_6, Fixed<6 SHAPE_COMMA 6 SHAPE_COMMA 6>(), T) \
    DO(N, any, dynamic, T)
