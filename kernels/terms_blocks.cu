// Values of a product C = A B of dense blocks, where it is known to which block of its row each term is added: a byte for each entry of A and each of the
// row of B that it is multiplied with. As spgemm_blocks.cu, where columns are looked up: a team of lanes for each row, with the sums of the row in
// shared memory, and within a step the elements of all blocks of a row of B.
#include "spgemm_blocks.h"
#include "terms.h"

// The values of rows; those that do not fit go to `more`, behind their number. With `fill` zeros on the diagonal become ones.
template <int N, class Shape, class T>
DEVICE void terms_blocks(const Rows &rows, const In<i64> &offsets, const In<i32> &columns, const In<i64> &right_offsets, const In<T> &left,
                         const In<T> &right, const In<i64> &begins_of, const In<u8> &places, const Shape &shape, const In<i64> &to,
                         const In<i32> &to_columns, const Out<T> &values, int fill, const Out<i32> &more) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(T, sums, TEAMS *BlockRoom<N>::SUMS);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    const int lane = Team<N>::rank();
    const int own = thread_index() - lane;
    const int first = thread_index() / N * BlockRoom<N>::SUMS;
    const int width = shape.width();
    const int inner = shape.inner();
    const int block = shape.outer() * width;
    const i64 all = rows.count();
    for (i64 team = global_index() / N; team < all; team += block_count() * TEAMS) {
        const i64 row = rows[team];
        const i64 start = to[row];
        const i64 length = to[row + 1] - start;
        if (length * block > BlockRoom<N>::SUMS) {
            if (lane == 0) {
                more[1 + atomic_add(more[0], 1)] = static_cast<i32>(row);
            }
            continue;
        }
        const int count = static_cast<int>(length) * block;
        for (int e = lane; e < count; e += N) {
            sums[first + e] = 0;
        }
        const i64 from = offsets[row];
        const i64 entries = offsets[row + 1] - from;
        i64 term = begins_of[row];
        for (i64 base = 0; base < entries; base += N) {
            const int steps = entries - base < N ? static_cast<int>(entries - base) : N;
            team_barrier<N>();
            if (lane < steps) {
                const i64 j = columns[from + base + lane];
                begins[own + lane] = right_offsets[j];
                lengths[own + lane] = static_cast<int>(right_offsets[j + 1] - right_offsets[j]);
            }
            team_barrier<N>();
            for (int s = 0; s < steps; ++s) {
                const int blocks = lengths[own + s];
                const i64 a = (from + base + s) * (shape.outer() * inner);
                const i64 b = begins[own + s] * (inner * width);
                for (int e = lane; e < blocks * block; e += N) {
                    const int t = e / block;
                    const int in_block = e % block;
                    const int at = first + places[term + t] * block + in_block;
                    const i64 a_row = a + in_block / width * inner;
                    const i64 b_column = b + t * (inner * width) + in_block % width;
                    T sum = sums[at];
                    UNROLL
                    for (int q = 0; q < inner; ++q) {
                        sum += times(left[a_row + q], right[b_column + q * width]);
                    }
                    sums[at] = sum;
                }
                term += blocks;
                team_barrier<N>();
            }
        }
        team_barrier<N>();
        for (int e = lane; e < count; e += N) {
            const int in_block = e % block;
            const T sum = sums[first + e];
            const bool is_empty =
                fill != 0 && sum == T(0) && in_block / width == in_block % width && to_columns[start + e / block] == row;
            values[start * block + e] = is_empty ? T(1) : sum;
        }
        team_barrier<N>();
    }
}

#define TERMS_BLOCKS(N, NAME, SHAPE, T) \
    KERNEL_OF(4, terms_blocks_##N##_##NAME##_##T, i64 n, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> right_offsets, In<T> left, \
              In<T> right, In<i64> begins, In<u8> places, i32 outer, i32 inner, i32 width, In<i64> to, In<i32> to_columns, \
              Out<T> to_values, i32 fill, Out<i32> more) { \
        [[maybe_unused]] const Dynamic dynamic{outer, inner, width}; \
        terms_blocks<N>(Rows{n, rows}, offsets, columns, right_offsets, left, right, begins, places, SHAPE, to, to_columns, to_values, fill, \
                        more); \
    }
FOR_SHAPES(TERMS_BLOCKS, 32, f64)
FOR_SHAPES(TERMS_BLOCKS, 256, f64)
FOR_SHAPES(TERMS_BLOCKS, 32, f32)
FOR_SHAPES(TERMS_BLOCKS, 256, f32)
