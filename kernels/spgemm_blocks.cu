// Numeric phase of SpGEMM with dense blocks, C = A B, for a known pattern of C. A team of lanes computes one row of C
// with its sums in shared memory. In each step the lanes share the elements of all blocks of one row of B.
#include "spgemm_blocks.h"

// Computes the values of rows of C. A row that exceeds the capacity goes to the list `overflow`, whose first element
// is its length. With `fill` a zero on the diagonal becomes a one.
template <int N, class Shape, class T>
DEVICE void spgemm_blocks(const Rows &rows, const Factors &f, const In<T> &left, const In<T> &right, const Shape &shape, const In<i64> &to,
                          const In<i32> &columns, const Out<T> &values, int fill, const Out<i32> &overflow) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(T, sums, TEAMS *BlockCapacity<N>::SUMS);
    SHARED(i32, wanted, TEAMS *BlockCapacity<N>::COLUMNS);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    const int lane = Team<N>::rank();
    const int own = thread_index() - lane;
    const int first = thread_index() / N * BlockCapacity<N>::SUMS;
    const int first_column = thread_index() / N * BlockCapacity<N>::COLUMNS;
    const int width = shape.width();
    const int inner = shape.inner();
    const int block = shape.outer() * width;
    const i64 all = rows.count();
    for (i64 team = global_index() / N; team < all; team += block_count() * TEAMS) {
        const i64 row = rows[team];
        const i64 start = to[row];
        const i64 length = to[row + 1] - start;
        if (length > BlockCapacity<N>::COLUMNS || length * block > BlockCapacity<N>::SUMS) {
            if (lane == 0) {
                overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(row);
            }
            continue;
        }
        const int count = static_cast<int>(length);
        for (int k = lane; k < count; k += N) {
            wanted[first_column + k] = columns[start + k];
        }
        for (int e = lane; e < count * block; e += N) {
            sums[first + e] = 0;
        }
        const i64 from = f.offsets[row];
        const i64 entries = f.offsets[row + 1] - from;
        for (i64 base = 0; base < entries; base += N) {
            const int steps = entries - base < N ? static_cast<int>(entries - base) : N;
            team_barrier<N>();
            if (lane < steps) {
                const i64 j = f.columns[from + base + lane];
                begins[own + lane] = f.begins[j];
                lengths[own + lane] = static_cast<int>(f.ends[j] - f.begins[j]);
            }
            team_barrier<N>();
            for (int s = 0; s < steps; ++s) {
                const i64 begin = begins[own + s];
                const i64 a = (from + base + s) * (shape.outer() * inner);
                for (int e = lane; e < lengths[own + s] * block; e += N) {
                    const int t = e / block;
                    const int in_block = e % block;
                    const i32 column = f.right_columns[begin + t];
                    int position = 0;
                    for (int end = count; position + 1 < end;) {
                        const int middle = (position + end) / 2;
                        const bool is_right = wanted[first_column + middle] <= column;
                        position = is_right ? middle : position;
                        end = is_right ? end : middle;
                    }
                    const i64 b = (begin + t) * (inner * width) + in_block % width;
                    T sum = sums[first + position * block + in_block];
                    UNROLL
                    for (int q = 0; q < inner; ++q) {
                        sum += times(left[a + in_block / width * inner + q], right[b + q * width]);
                    }
                    sums[first + position * block + in_block] = sum;
                }
                team_barrier<N>();
            }
        }
        team_barrier<N>();
        for (int e = lane; e < count * block; e += N) {
            const int in_block = e % block;
            const T sum = sums[first + e];
            const bool is_empty =
                fill != 0 && sum == T(0) && in_block / width == in_block % width && wanted[first_column + e / block] == row;
            values[start * block + e] = is_empty ? T(1) : sum;
        }
        team_barrier<N>();
    }
}

#define SPGEMM_BLOCKS(N, NAME, SHAPE, T) \
    KERNEL_OF(4, spgemm_blocks_##N##_##NAME##_##T, i64 n, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
           In<i32> right_columns, In<T> left, In<T> right, i32 outer, i32 inner, i32 width, In<i64> to, In<i32> to_columns, \
           Out<T> to_values, i32 fill, Out<i32> overflow) { \
        [[maybe_unused]] const Dynamic dynamic{outer, inner, width}; \
        spgemm_blocks<N>(Rows{n, rows}, Factors{offsets, columns, begins, ends, right_columns}, left, right, SHAPE, to, to_columns, \
                         to_values, fill, overflow); \
    }
FOR_SHAPES(SPGEMM_BLOCKS, 32, f64)
FOR_SHAPES(SPGEMM_BLOCKS, 256, f64)
FOR_SHAPES(SPGEMM_BLOCKS, 32, f32)
FOR_SHAPES(SPGEMM_BLOCKS, 256, f32)
