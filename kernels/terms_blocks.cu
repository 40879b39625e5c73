// Values of a product C = A B of dense blocks, where the terms of each block of C are known: threads go through them in the order of the row of A, as the
// host does, and keep sums. Nothing is looked up, and threads wait for nobody.
#include "spgemm_blocks.h"

// The part of a block of C that a thread has: so many neighbouring rows and columns, whose factors it reads once for all of them, neighbours at once.
template <class Shape> struct Strip {
    static constexpr int HIGH = 1, WIDE = 1, INNER = 0;
};
template <int OUTER, int INNER_, int WIDTH> struct Strip<Fixed<OUTER, INNER_, WIDTH>> {
    static constexpr int HIGH = OUTER % 2 == 0 ? 2 : 1, WIDE = WIDTH % 2 == 0 ? 2 : 1, INNER = INNER_;
};

// N neighbours from `at` on, which is even where N is.
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

// Terms of block `out` of C from starts[out] on: which entry of its row of A, and which block of B. With `fill` zeros on the diagonal become ones.
template <class Shape, class T>
DEVICE void terms_blocks(i64 outputs, const In<i64> &offsets, const Out<T> &left, const Out<T> &right, const In<i32> &row_of, const In<i64> &starts,
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
    // Where the next term is, known before it is multiplied.
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

#define TERMS_BLOCKS(N, NAME, SHAPE, T) \
    KERNEL_OF(N, terms_blocks_##NAME##_##T, i64 outputs, In<i64> offsets, Out<T> left, Out<T> right, In<i32> row_of, In<i64> starts, \
              In<u16> of_left, In<u32> of_right, i32 outer, i32 inner, i32 width, In<i32> to_columns, Out<T> values, i32 fill) { \
        [[maybe_unused]] const Dynamic dynamic{outer, inner, width}; \
        terms_blocks(outputs, offsets, left, right, row_of, starts, of_left, of_right, SHAPE, to_columns, values, fill); \
    }
#define TERMS_BLOCKS_OF(T) \
    TERMS_BLOCKS(4, 3_3_3, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 3>(), T) \
    TERMS_BLOCKS(4, 3_3_6, Fixed<3 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    TERMS_BLOCKS(4, 6_3_6, Fixed<6 SHAPE_COMMA 3 SHAPE_COMMA 6>(), T) \
    TERMS_BLOCKS(3, 6_6_6, Fixed<6 SHAPE_COMMA 6 SHAPE_COMMA 6>(), T) \
    TERMS_BLOCKS(4, any, dynamic, T)
TERMS_BLOCKS_OF(f64)
TERMS_BLOCKS_OF(f32)

// Finds them. A team of N lanes for each row, with a table of its columns, goes along the row of A, and counts the terms of each block, or writes them where
// there are starts, as terms_small.cu has them where there is room for codes. Rows that are longer than three quarters of a table are left to another kernel, and so are those of up to `from` columns.
template <int N, int SLOTS>
DEVICE void terms_find_blocks(i64 rows, int from, const Factors &f, const In<i64> &to, const In<i32> &to_columns, const Out<i32> &counts,
                              const Out<i32> &row_of, const In<i64> &starts, const Out<u16> &of_left, const Out<u32> &of_right,
                              const Out<u32> &codes) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(i32, places, TEAMS *SLOTS);
    SHARED(i32, used, TEAMS *SLOTS);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * SLOTS;
    for (i64 row = global_index() / N; row < rows; row += block_count() * TEAMS) {
        const i64 start = to[row], length = to[row + 1] - start;
        if (length <= from || length > SLOTS * 3 / 4) {
            continue;
        }
        for (int s = lane; s < SLOTS; s += N) {
            keys[first + s] = EMPTY;
            used[first + s] = 0;
        }
        team_barrier<N>();
        int found = 0;
        for (int e = lane; e < length; e += N) {
            places[slot_of<SLOTS>(keys, first, to_columns[start + e], found)] = e;
        }
        team_barrier<N>();
        for (i64 k = f.offsets[row]; k < f.offsets[row + 1]; ++k) {
            const i64 column = f.columns[k];
            for (i64 at = f.begins[column] + lane; at < f.ends[column]; at += N) {
                const int place = places[slot_of<SLOTS>(keys, first, f.right_columns[at], found)];
                if (starts.len > 0) {
                    const i64 term = starts[start + place] + used[first + place];
                    const i64 entry = k - f.offsets[row];
                    if (codes.len > 0) {
                        codes[term] = static_cast<u32>(entry) | static_cast<u32>(at - f.begins[column]) << 16;
                    } else {
                        of_left[term] = static_cast<u16>(entry);
                        of_right[term] = static_cast<u32>(at);
                    }
                }
                used[first + place] += 1;
            }
            team_barrier<N>();
        }
        for (int e = lane; starts.len == 0 && e < length; e += N) {
            counts[start + e] = used[first + e];
            row_of[start + e] = static_cast<i32>(row);
        }
        team_barrier<N>();
    }
}

#define TERMS_FIND_BLOCKS(N, SLOTS) \
    KERNEL(terms_find_blocks_##N, i64 rows, i32 from, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns, \
           In<i64> to, In<i32> to_columns, Out<i32> counts, Out<i32> row_of, In<i64> starts, Out<u16> of_left, Out<u32> of_right, \
           Out<u32> codes) { \
        terms_find_blocks<N, SLOTS>(rows, from, Factors{offsets, columns, begins, ends, right_columns}, to, to_columns, counts, row_of, starts, \
                                    of_left, of_right, codes); \
    }
TERMS_FIND_BLOCKS(32, 352)
TERMS_FIND_BLOCKS(256, 3072)
