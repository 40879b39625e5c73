// Strength of connection by affinity; see src/host/affinity.rs. A tile of lanes for each row.
#include "numbers.h"
#include "tile.h"

// As in src/backend/affinity.rs.
constexpr f64 NEAREST = 1e-12;

// The near-null space and what was found of it before.
struct Affinities {
    i64 rows;
    // Scalar rows of a node, and vectors.
    int size, count;
    In<f64> vectors, norms;

    DEVICE f64 product(i64 i, i64 j) const {
        f64 sum = 0;
        for (int c = 0; c < count; ++c) {
            const i64 of_vector = c * rows * size;
            for (int r = 0; r < size; ++r) {
                sum += times(vectors[of_vector + i * size + r], vectors[of_vector + j * size + r]);
            }
        }
        return sum;
    }

    DEVICE f64 distance(i64 i, i64 j) const {
        const f64 of_both = times(norms[i], norms[j]);
        if (!(of_both > 0)) {
            return 1;
        }
        const f64 dot = product(i, j), found = 1.0 - times(dot, dot) / of_both;
        return found > NEAREST ? found : NEAREST;
    }
};

// Whether a block has an entry that is not zero, to f64.
template <class T> DEVICE bool couples(const In<T> &values, i64 at, int width) {
    f64 sum = 0;
    for (int k = 0; k < width; ++k) {
        const f64 v = to_f64(values[at * width + k]);
        sum += times(v, v);
    }
    return sum > 0;
}

// |x_i|². A thread has a row.
KERNEL(affinity_norms, i64 rows, i32 size, i32 count, In<f64> vectors, Out<f64> norms) {
    const i64 i = global_index();
    if (i < rows) {
        norms[i] = Affinities{rows, size, count, vectors, {}}.product(i, i);
    }
}

// The least distance of each row to one that it is coupled with, at most 1.
template <class T, int N>
DEVICE void affinity_nearest(i64 rows, const Affinities &of, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                             const Out<f64> &nearest) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    f64 least = 1;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; is_row && k < offsets[i + 1]; k += N) {
        const i32 j = columns[k];
        if (j != i && couples(values, k, of.size * of.size)) {
            const f64 distance = of.distance(i, j);
            least = distance < least ? distance : least;
        }
    }
    least = -tile_max<N>(-least);
    if (is_row && Tile<N>::rank() == 0) {
        nearest[i] = least;
    }
}

template <class T>
DEVICE bool affinity_is_strong(i64 i, i64 k, f64 threshold, const Affinities &of, const In<f64> &nearest, const In<i32> &columns,
                               const In<T> &values) {
    const i32 j = columns[k];
    if (j == i || !couples(values, k, of.size * of.size)) {
        return false;
    }
    const f64 distance = of.distance(i, j);
    return times(times(threshold, threshold), times(distance, distance)) <= times(nearest[i], nearest[j]);
}

template <class T, int N>
DEVICE void affinity_mark(i64 rows, f64 threshold, const Affinities &of, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const In<f64> &nearest, const Out<u8> &strong, const Out<i32> &counts) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    int count = 0;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; is_row && k < offsets[i + 1]; k += N) {
        const bool is_strong = affinity_is_strong(i, k, threshold, of, nearest, columns, values);
        strong[k] = is_strong;
        count += is_strong;
    }
    count = tile_sum<N>(count);
    if (is_row && Tile<N>::rank() == 0) {
        counts[i] = count;
    }
}

// The number of strong couplings of the rows whose number is a multiple of `step`.
template <class T, int N>
DEVICE void affinity_sampled(i64 sampled, i64 step, f64 threshold, const Affinities &of, const In<i64> &offsets, const In<i32> &columns,
                             const In<T> &values, const In<f64> &nearest, const Out<i64> &sum) {
    const i64 at = global_index() / N, i = at * step;
    const bool is_row = at < sampled;
    i64 strong = 0;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; is_row && k < offsets[i + 1]; k += N) {
        strong += affinity_is_strong(i, k, threshold, of, nearest, columns, values) ? 1 : 0;
    }
    strong = tile_sum<N>(strong);
    if (is_row && Tile<N>::rank() == 0) {
        atomic_add(sum[0], strong);
    }
}

#define AFFINITY(T, N) \
    KERNEL(strength_affinity_nearest_##T##_##N, i64 rows, i32 size, i32 count, In<i64> offsets, In<i32> columns, In<T> values, \
           In<f64> vectors, In<f64> norms, Out<f64> nearest) { \
        affinity_nearest<T, N>(rows, Affinities{rows, size, count, vectors, norms}, offsets, columns, values, nearest); \
    } \
    KERNEL(strength_affinity_mark_##T##_##N, i64 rows, i32 size, i32 count, f64 threshold, In<i64> offsets, In<i32> columns, In<T> values, \
           In<f64> vectors, In<f64> norms, In<f64> nearest, Out<u8> strong, Out<i32> counts) { \
        affinity_mark<T, N>(rows, threshold, Affinities{rows, size, count, vectors, norms}, offsets, columns, values, nearest, strong, counts); \
    } \
    KERNEL(strength_affinity_sampled_##T##_##N, i64 sampled, i64 step, i64 rows, i32 size, i32 count, f64 threshold, In<i64> offsets, \
           In<i32> columns, In<T> values, In<f64> vectors, In<f64> norms, In<f64> nearest, Out<i64> sum) { \
        affinity_sampled<T, N>(sampled, step, threshold, Affinities{rows, size, count, vectors, norms}, offsets, columns, values, nearest, \
                               sum); \
    }
#define AFFINITY_OF(N) AFFINITY(f64, N) AFFINITY(f32, N)
AFFINITY_OF(2)
AFFINITY_OF(4)
AFFINITY_OF(8)
AFFINITY_OF(16)
