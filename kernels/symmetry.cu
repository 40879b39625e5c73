// Whether a matrix is symmetric: the sums of src/host/symmetry.rs, up to their order.
#include "numbers.h"
#include "reduce.h"

// Lanes per row.
constexpr int SYMMETRY_LANES = 8;

// An element of a random vector between -2^31 and 2^31: half of a hash.
DEVICE f64 half_of(u64 bits) { return static_cast<f64>(static_cast<i32>(static_cast<u32>(bits))); }

// For each block of threads: the sum of a_ij w_ij and that of their squares, with w_ij = x_i y_j - y_i x_j for random vectors x and y,
// and the numbers of positive and of negative diagonal entries.
template <class T>
DEVICE void symmetry(i64 rows, i32 height, i32 width, i64 seed, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                     const Out<f64> &sums) {
    f64 difference = 0.0, squares = 0.0, positive = 0.0, negative = 0.0;
    const i64 step = block_count() * BLOCK / SYMMETRY_LANES;
    const i32 size = height * width;
    for (i64 i = global_index() / SYMMETRY_LANES; i < rows; i += step) {
        for (i64 k = offsets[i] * size + thread_index() % SYMMETRY_LANES; k < offsets[i + 1] * size; k += SYMMETRY_LANES) {
            const i32 place = static_cast<i32>(k % size);
            const i64 row = i * height + place / width, column = static_cast<i64>(columns[k / size]) * width + place % width;
            const f64 value = to_f64(values[k]);
            if (row == column) {
                positive += value > 0.0 ? 1.0 : 0.0;
                negative += value < 0.0 ? 1.0 : 0.0;
                continue;
            }
            const u64 of_row = hash(static_cast<u64>(row), static_cast<u64>(seed));
            const u64 of_column = hash(static_cast<u64>(column), static_cast<u64>(seed));
            const f64 weight = times(half_of(of_row >> 32), half_of(of_column)) - times(half_of(of_row), half_of(of_column >> 32));
            const f64 term = times(value, weight * 2.168404344971009e-19); // 2^-62
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
    KERNEL(symmetry_##T, i64 rows, i32 height, i32 width, i64 seed, In<i64> offsets, In<i32> columns, In<T> values, Out<f64> sums) { \
        symmetry<T>(rows, height, width, seed, offsets, columns, values, sums); \
    }
SYMMETRY(f64)
SYMMETRY(f32)
