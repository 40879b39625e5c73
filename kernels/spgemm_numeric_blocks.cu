// Numeric phase of SpGEMM of dense blocks, C = A B, with the list of products of each block of C that the symbolic
// phase stored (spgemm_symbolic_blocks.cu). A thread adds the products in the order of the row of A, as the host
// does. There is no searching and no barrier.
#include "spgemm_blocks.h"

// The part of a block of C that one thread computes: HIGH rows and WIDE columns. It reads their factors once, with
// vector loads.
template <class Shape> struct Strip {
    static constexpr int HIGH = 1, WIDE = 1, INNER = 0;
};
template <int OUTER, int INNER_, int WIDTH> struct Strip<Fixed<OUTER, INNER_, WIDTH>> {
    static constexpr int HIGH = OUTER % 2 == 0 ? 2 : 1, WIDE = WIDTH % 2 == 0 ? 2 : 1, INNER = INNER_;
};

// Loads N neighbouring values; `at` is even if N is.
template <int N, class T> DEVICE void load_factors(const Out<T> &from, i64 at, T *to) {
    constexpr int AT_ONCE = N % 2 == 0 ? 2 : 1;
    UNROLL
    for (int e = 0; e < N; e += AT_ONCE) {
        const Pack<T, AT_ONCE> pack = from.template pack<AT_ONCE>(at + e);
        UNROLL
        for (int n = 0; n < AT_ONCE; ++n) {
            to[e + n] = pack.of[n];
        }
    }
}

// The products of block `out` of C are from starts[out] on: the entry in its row of A, and the block of B. With
// `fill` a zero on the diagonal becomes a one.
template <class Shape, class T>
DEVICE void spgemm_numeric_blocks(i64 outputs, const In<i64> &offsets, const Out<T> &left, const Out<T> &right, const In<i32> &row_of, const In<i64> &starts,
                         const In<u16> &of_left, const In<u32> &of_right, const Shape &shape, const In<i32> &to_columns, const Out<T> &values,
                         int fill) {
    constexpr int HIGH = Strip<Shape>::HIGH, WIDE = Strip<Shape>::WIDE, INNER = Strip<Shape>::INNER;
    const int width = shape.width(), inner = shape.inner(), outer = shape.outer(), across = width / WIDE, strips = outer / HIGH * across;
    const i64 strip = global_index();
    const i64 out = strip / strips;
    if (out >= outputs) {
        return;
    }
    const int of_block = static_cast<int>(strip - out * strips);
    const int first_row = of_block / across * HIGH, first_column = of_block % across * WIDE;
    const i32 row = row_of[out];
    const i64 start = starts[out];
    const int count = static_cast<int>(starts[out + 1] - start);
    const i64 a = offsets[row] * (outer * inner) + first_row * inner;
    T sum[HIGH][WIDE] = {};
    // Positions of the next product are loaded before the current one is computed.
    i64 from_left = 0, from_right = 0;
    const auto next = [&](int term) {
        if (term < count) {
            from_left = a + static_cast<i64>(of_left[start + term]) * (outer * inner);
            from_right = static_cast<i64>(of_right[start + term]) * (inner * width) + first_column;
        }
    };
    next(0);
    ROLLED
    for (int term = 0; term < count; ++term) {
        const i64 at_left = from_left, at_right = from_right;
        next(term + 1);
        if constexpr (INNER > 0) {
            T x[HIGH * INNER], y[INNER][WIDE];
            load_factors<HIGH * INNER>(left, at_left, x);
            UNROLL
            for (int q = 0; q < INNER; ++q) {
                load_factors<WIDE>(right, at_right + q * width, y[q]);
            }
            UNROLL
            for (int e = 0; e < HIGH * WIDE; ++e) {
                UNROLL
                for (int q = 0; q < INNER; ++q) {
                    sum[e / WIDE][e % WIDE] += times(x[e / WIDE * INNER + q], y[q][e % WIDE]);
                }
            }
        } else {
            for (int q = 0; q < inner; ++q) {
                sum[0][0] += times(left[at_left + q], right[at_right + q * width]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < HIGH; ++r) {
        Pack<T, WIDE> pack;
        UNROLL
        for (int c = 0; c < WIDE; ++c) {
            const bool is_empty = fill != 0 && sum[r][c] == T(0) && first_row + r == first_column + c && to_columns[out] == row;
            pack.of[c] = is_empty ? T(1) : sum[r][c];
        }
        values.put(out * (outer * width) + (first_row + r) * width + first_column, pack);
    }
}

#define SPGEMM_NUMERIC_BLOCKS(N, NAME, SHAPE, T) \
    KERNEL_OF(N, spgemm_numeric_blocks_##NAME##_##T, i64 outputs, In<i64> offsets, Out<T> left, Out<T> right, In<i32> row_of, In<i64> starts, \
              In<u16> of_left, In<u32> of_right, i32 outer, i32 inner, i32 width, In<i32> to_columns, Out<T> values, i32 fill) { \
        [[maybe_unused]] const Dynamic dynamic{outer, inner, width}; \
        spgemm_numeric_blocks(outputs, offsets, left, right, row_of, starts, of_left, of_right, SHAPE, to_columns, values, fill); \
    }
#define SPGEMM_NUMERIC_BLOCKS_OF(T) \
    SPGEMM_NUMERIC_BLOCKS(4, 3_3_3, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 3>(), T) \
    SPGEMM_NUMERIC_BLOCKS(4, 3_3_6, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    SPGEMM_NUMERIC_BLOCKS(4, 6_3_6, Fixed<6 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    SPGEMM_NUMERIC_BLOCKS(3, 6_6_6, Fixed<6 SHAPE_COMMA 6 SHAPE_COMMA 6>(), T) \
    SPGEMM_NUMERIC_BLOCKS(4, any, dynamic, T)
SPGEMM_NUMERIC_BLOCKS_OF(f64)
SPGEMM_NUMERIC_BLOCKS_OF(f32)
