// Whether a matrix is symmetric: the sums of src/host/symmetry.rs, up to their order.
#include "numbers.h"
#include "reduce.h"

// Lanes per row.
constexpr int SYMMETRY_LANES = 8;

// The host's hash of an index, whose halves are elements of the random vectors x and y.
DEVICE u32 symmetry_hash(i64 index, i32 seed) {
    u32 h = static_cast<u32>(index) ^ static_cast<u32>(seed);
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

// A signed half of a hash.
DEVICE f64 upper_half(u32 h) { return static_cast<f64>(static_cast<i32>(h) >> 16); }
DEVICE f64 lower_half(u32 h) { return upper_half(h << 16); }

// For each block of threads: the sum of a_ij w_ij and that of their squares, with w_ij = x_i y_j - y_i x_j for random vectors x and y,
// and the numbers of positive and of negative diagonal entries. Blocks are N x N, or of any size if N is 0: divisions by a
// size that the compiler does not know would take most of the time.
template <class T, int N>
DEVICE void symmetry(i64 rows, i32 any_height, i32 any_width, i32 seed, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                     const Out<f64> &sums) {
    f64 difference = 0.0, squares = 0.0, positive = 0.0, negative = 0.0;
    const i64 step = block_count() * BLOCK / SYMMETRY_LANES;
    const i32 height = N > 0 ? N : any_height, width = N > 0 ? N : any_width, size = height * width;
    for (i64 i = global_index() / SYMMETRY_LANES; i < rows; i += step) {
        const i64 begin = offsets[i];
        const i32 length = static_cast<i32>(offsets[i + 1] - begin) * size;
        for (i32 l = thread_index() % SYMMETRY_LANES; l < length; l += SYMMETRY_LANES) {
            const i32 block = l / size, place = l - block * size;
            const i64 row = i * height + place / width, column = static_cast<i64>(columns[begin + block]) * width + place % width;
            const f64 value = to_f64(values[begin * size + l]);
            if (row == column) {
                positive += value > 0.0 ? 1.0 : 0.0;
                negative += value < 0.0 ? 1.0 : 0.0;
                continue;
            }
            const u32 of_row = symmetry_hash(row, seed), of_column = symmetry_hash(column, seed);
            const f64 weight = times(upper_half(of_row), lower_half(of_column)) - times(lower_half(of_row), upper_half(of_column));
            const f64 term = times(value, weight * 9.313225746154785e-10); // 2^-30
            difference += term;
            squares += term * term;
        }
    }
    const f64 own[4] = {difference, squares, positive, negative};
    UNROLL
    for (int s = 0; s < 4; ++s) {
        const f64 sum = block_sum(own[s]);
        if (thread_index() == 0) {
            sums[4 * block_index() + s] = sum;
        }
        barrier();
    }
}

#define SYMMETRY(T) \
    KERNEL(symmetry_##T, i64 rows, i32 height, i32 width, i32 seed, In<i64> offsets, In<i32> columns, In<T> values, Out<f64> sums) { \
        if (height == 1 && width == 1) { \
            symmetry<T, 1>(rows, height, width, seed, offsets, columns, values, sums); \
        } else if (height == 3 && width == 3) { \
            symmetry<T, 3>(rows, height, width, seed, offsets, columns, values, sums); \
        } else { \
            symmetry<T, 0>(rows, height, width, seed, offsets, columns, values, sums); \
        } \
    }
SYMMETRY(f64)
SYMMETRY(f32)
