// Values of a product C = A B of dense blocks, where the terms of each block of C are known: a thread for each of its elements goes through them in the
// order of the row of A, as the host does, and keeps the sum. Nothing is looked up, and threads wait for nobody.
#include "spgemm_blocks.h"

// Terms of block `out` of C from starts[out] on: which entry of its row of A, and which block of B. With `fill` zeros on the diagonal become ones.
template <class Shape, class T>
DEVICE void terms_blocks(i64 outputs, const In<i64> &offsets, const In<T> &left, const In<T> &right, const In<i32> &row_of, const In<i64> &starts,
                         const In<u16> &of_left, const In<u32> &of_right, const Shape &shape, const In<i32> &to_columns, const Out<T> &values,
                         int fill) {
    const int width = shape.width(), inner = shape.inner(), block = shape.outer() * width;
    const i64 element = global_index();
    const i64 out = element / block;
    if (out >= outputs) {
        return;
    }
    const int in_block = static_cast<int>(element - out * block);
    const i32 row = row_of[out];
    const i64 start = starts[out];
    const int count = static_cast<int>(starts[out + 1] - start);
    const In<T> a = left.from(offsets[row] * (shape.outer() * inner) + in_block / width * inner);
    const In<T> b = right.from(in_block % width);
    T sum = 0;
    // Where the next term is, known before it is multiplied.
    i64 from_left = 0, from_right = 0;
    const auto next = [&](int term) {
        if (term < count) {
            from_left = static_cast<i64>(of_left[start + term]) * (shape.outer() * inner);
            from_right = static_cast<i64>(of_right[start + term]) * (inner * width);
        }
    };
    next(0);
    ROLLED
    for (int term = 0; term < count; ++term) {
        const i64 at_left = from_left, at_right = from_right;
        next(term + 1);
        UNROLL
        for (int q = 0; q < inner; ++q) {
            sum += times(a[at_left + q], b[at_right + q * width]);
        }
    }
    const bool is_empty = fill != 0 && sum == T(0) && in_block / width == in_block % width && to_columns[out] == row;
    values[element] = is_empty ? T(1) : sum;
}

#define TERMS_BLOCKS(N, NAME, SHAPE, T) \
    KERNEL_OF(N, terms_blocks_##NAME##_##T, i64 outputs, In<i64> offsets, In<T> left, In<T> right, In<i32> row_of, In<i64> starts, In<u16> of_left, \
              In<u32> of_right, i32 outer, i32 inner, i32 width, In<i32> to_columns, Out<T> values, i32 fill) { \
        [[maybe_unused]] const Dynamic dynamic{outer, inner, width}; \
        terms_blocks(outputs, offsets, left, right, row_of, starts, of_left, of_right, SHAPE, to_columns, values, fill); \
    }
FOR_SHAPES(TERMS_BLOCKS, 5, f64)
FOR_SHAPES(TERMS_BLOCKS, 5, f32)

// Finds them. A team of N lanes for each row, with a table of its columns, goes along the row of A, and counts the terms of each block, or writes them where
// there are starts. Rows that are longer than three quarters of a table are left to another kernel, and so are those of up to `from` columns.
template <int N, int SLOTS>
DEVICE void terms_find_blocks(i64 rows, int from, const Factors &f, const In<i64> &to, const In<i32> &to_columns, const Out<i32> &counts,
                              const Out<i32> &row_of, const In<i64> &starts, const Out<u16> &of_left, const Out<u32> &of_right) {
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
                    of_left[term] = static_cast<u16>(k - f.offsets[row]);
                    of_right[term] = static_cast<u32>(at);
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
           In<i64> to, In<i32> to_columns, Out<i32> counts, Out<i32> row_of, In<i64> starts, Out<u16> of_left, Out<u32> of_right) { \
        terms_find_blocks<N, SLOTS>(rows, from, Factors{offsets, columns, begins, ends, right_columns}, to, to_columns, counts, row_of, starts, \
                                    of_left, of_right); \
    }
TERMS_FIND_BLOCKS(32, 352)
TERMS_FIND_BLOCKS(256, 3072)
