// Strength of connection: a flag for each entry of a matrix, 1 if the coupling is strong, and the number of strong
// entries of each row; then the graph of strong couplings. A tile of lanes for each row.
#include "numbers.h"
#include "tile.h"

template <class T, int N>
DEVICE void strength_classical(i64 rows, f64 threshold, f64 max_row_sum, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                               const Out<u8> &strong, const Out<i32> &counts) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    const i64 begin = is_row ? offsets[i] : 0, end = is_row ? offsets[i + 1] : 0, first = begin + Tile<N>::rank();
    T diagonal = 0, highest = 0, lowest = 0;
    const auto visit = [&](i32 column, T value) {
        if (column == i) {
            diagonal = value;
        } else {
            highest = value > highest ? value : highest;
            lowest = value < lowest ? value : lowest;
        }
    };
    // Most rows have no more entries than the tile has lanes, and are read once.
    const i32 own_column = first < end ? columns.once(first) : static_cast<i32>(i);
    const T own_value = first < end ? values.once(first) : 0;
    visit(own_column, own_value);
    for (i64 k = first + N; k < end; k += N) {
        visit(columns[k], values[k]);
    }
    diagonal = tile_sum<N>(diagonal);
    const T largest = diagonal < 0 ? tile_max<N>(highest) : tile_max<N>(-lowest);
    const T sign = diagonal < 0 ? 1 : -1;
    bool any = largest > 0;
    const T limit = As<T>::of(max_row_sum);
    if (limit < 1) {
        T sum = 0;
        for (i64 start = begin; Tile<N>::any(start < end); start += N) {
            const i64 k = start + Tile<N>::rank();
            const T value = k < end ? values[k] : 0;
            for (int lane = 0; lane < N; ++lane) {
                sum += Tile<N>::shuffle(value, lane);
            }
        }
        const T size = sum < 0 ? -sum : sum, bound = times(limit, diagonal < 0 ? -diagonal : diagonal);
        any = any && !(size > bound);
    }
    const T bound = times(As<T>::of(threshold), largest);
    int count = 0;
    const auto decide = [&](i64 k, i32 column, T value) {
        const T coupling = sign * value;
        const bool is_strong = any && column != i && coupling > 0 && coupling >= bound;
        strong[k] = is_strong;
        count += is_strong;
    };
    if (first < end) {
        decide(first, own_column, own_value);
    }
    for (i64 k = first + N; k < end; k += N) {
        decide(k, columns[k], values[k]);
    }
    count = tile_sum<N>(count);
    if (is_row && Tile<N>::rank() == 0) {
        counts[i] = count;
    }
}

// Sets `flag` if a row has more than `longest` entries or a coupling that is neither zero nor strong.
template <class T, int N>
DEVICE void strength_uniform(i64 rows, f64 threshold, i64 longest, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                             const Out<i32> &flag) {
    if (Tile<N>::any(flag[0] != 0)) {
        return;
    }
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    const i64 begin = is_row ? offsets[i] : 0, end = is_row ? offsets[i + 1] : 0;
    T diagonal = 0, highest = 0, lowest = 0;
    for (i64 k = begin + Tile<N>::rank(); k < end; k += N) {
        const T value = values[k];
        if (columns[k] == i) {
            diagonal = value;
        } else {
            highest = value > highest ? value : highest;
            lowest = value < lowest ? value : lowest;
        }
    }
    diagonal = tile_sum<N>(diagonal);
    const T sign = diagonal < 0 ? 1 : -1;
    const T bound = times(As<T>::of(threshold), diagonal < 0 ? tile_max<N>(highest) : tile_max<N>(-lowest));
    bool weak = end - begin > longest;
    for (i64 k = begin + Tile<N>::rank(); k < end; k += N) {
        const T coupling = sign * values[k];
        weak = weak || (columns[k] != i && coupling != 0 && !(coupling > 0 && coupling >= bound));
    }
    if (weak) {
        flag[0] = 1;
    }
}

// As same_sign in src/host/strength.rs: the sum over a sample of the rows, and their number.
template <class T, int N>
DEVICE void strength_signs(i64 rows, i64 step, i64 shares, f64 largest, f64 units, const In<i64> &offsets, const In<i32> &columns,
                           const In<T> &values, const Out<i64> &sums) {
    const bool is_row = global_index() / N < rows;
    const i64 i = global_index() / N * step;
    const i64 begin = is_row ? offsets[i] : 0, end = is_row ? offsets[i + 1] : 0;
    T diagonal = 0;
    for (i64 k = begin + Tile<N>::rank(); k < end; k += N) {
        diagonal = columns[k] == i ? values[k] : diagonal;
    }
    diagonal = tile_sum<N>(diagonal);
    i64 same = 0, all = 0;
    for (i64 k = begin + Tile<N>::rank(); k < end; k += N) {
        const f64 ratio = to_f64(values[k]) / to_f64(diagonal), size = magnitude(ratio);
        const i64 counted = columns[k] != i && size <= largest ? static_cast<i64>(times(size, units)) : 0;
        all += counted;
        same += ratio > 0 ? counted : 0;
    }
    all = tile_sum<N>(all);
    same = tile_sum<N>(same);
    if (Tile<N>::rank() == 0 && all > 0) {
        atomic_add(sums[0], same * shares / all);
        atomic_add(sums[1], static_cast<i64>(1));
    }
}

// The squared Frobenius norm of a block.
template <class T> DEVICE f64 norm2(const In<T> &values, i64 at, int size) {
    f64 sum = 0;
    for (int k = 0; k < size; ++k) {
        const f64 v = to_f64(values[at * size + k]);
        sum += times(v, v);
    }
    return sum;
}

template <class T, int N>
DEVICE void strength_absolute(i64 rows, int size, f64 threshold, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                              const Out<u8> &strong, const Out<i32> &counts) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    const i64 end = is_row ? offsets[i + 1] : 0, first = (is_row ? offsets[i] : 0) + Tile<N>::rank();
    const f64 own = first < end ? norm2(values, first, size) : 0;
    const i32 own_column = first < end ? columns[first] : static_cast<i32>(i);
    f64 largest = own_column == i ? 0 : own;
    for (i64 k = first + N; k < end; k += N) {
        const f64 norm = columns[k] == i ? 0 : norm2(values, k, size);
        largest = norm > largest ? norm : largest;
    }
    const f64 bound = times(times(threshold, threshold), tile_max<N>(largest));
    int count = 0;
    for (i64 k = first; k < end; k += N) {
        const i32 column = k == first ? own_column : columns[k];
        const f64 norm = k == first ? own : norm2(values, k, size);
        const bool is_strong = column != i && norm > 0 && norm >= bound;
        strong[k] = is_strong;
        count += is_strong;
    }
    count = tile_sum<N>(count);
    if (is_row && Tile<N>::rank() == 0) {
        counts[i] = count;
    }
}

// The norm of each diagonal block, 0 if it is missing.
template <class T, int N>
DEVICE void strength_diagonal(i64 rows, int size, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<f64> &norms) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    f64 norm = 0;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; is_row && k < offsets[i + 1]; k += N) {
        if (columns[k] == i) {
            norm = square_root(norm2(values, k, size));
        }
    }
    norm = tile_sum<N>(norm);
    if (is_row && Tile<N>::rank() == 0) {
        norms[i] = norm;
    }
}

template <class T, int N>
DEVICE void strength_symmetric(i64 rows, int size, f64 threshold, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                               const In<f64> &diagonal, const Out<u8> &strong, const Out<i32> &counts) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    const f64 own = is_row ? times(times(threshold, threshold), diagonal[i]) : 0;
    int count = 0;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; is_row && k < offsets[i + 1]; k += N) {
        const i32 column = columns[k];
        const f64 norm = norm2(values, k, size);
        const bool is_strong = column != i && norm > 0 && norm >= times(own, diagonal[column]);
        strong[k] = is_strong;
        count += is_strong;
    }
    count = tile_sum<N>(count);
    if (is_row && Tile<N>::rank() == 0) {
        counts[i] = count;
    }
}

// The strongest coupling by the symmetric measure, of each `step`-th row from `first` on.
template <class T, int N>
DEVICE void strength_strongest(i64 count, i64 first, i64 step, int size, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                               const In<f64> &diagonal, const Out<f64> &strongest) {
    const i64 at = global_index() / N, i = first + at * step;
    const bool is_row = at < count;
    f64 squared = 0;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; is_row && k < offsets[i + 1]; k += N) {
        const i32 column = columns[k];
        const f64 ratio = norm2(values, k, size) / times(diagonal[i], diagonal[column]);
        const bool finite = ratio - ratio == 0;
        squared = column != i && finite && ratio > squared ? ratio : squared;
    }
    squared = tile_max<N>(squared);
    if (is_row && Tile<N>::rank() == 0) {
        strongest[at] = square_root(squared);
    }
}

// The numbers of strong couplings and of all, of each `step`-th row from `first` on.
template <class T, int N>
DEVICE void strength_sampled(i64 count, i64 first, i64 step, int size, f64 threshold, const In<i64> &offsets, const In<i32> &columns,
                             const In<T> &values, const In<f64> &diagonal, const Out<i64> &sums) {
    const i64 at = global_index() / N, i = first + at * step;
    const bool is_row = at < count;
    const f64 own = is_row ? times(times(threshold, threshold), diagonal[i]) : 0;
    i64 strong = 0, all = 0;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; is_row && k < offsets[i + 1]; k += N) {
        const i32 column = columns[k];
        const f64 norm = column == i ? 0 : norm2(values, k, size);
        strong += norm > 0 && norm >= times(own, diagonal[column]) ? 1 : 0;
        all += column == i ? 0 : 1;
    }
    strong = tile_sum<N>(strong);
    all = tile_sum<N>(all);
    if (is_row && Tile<N>::rank() == 0) {
        atomic_add(sums[0], strong);
        atomic_add(sums[1], all);
    }
}

// The columns of strong couplings, in the order of the matrix rows.
template <int N>
DEVICE void strength_columns(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<u8> &strong, const In<i64> &starts,
                             const Out<i32> &to) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    const i64 begin = is_row ? offsets[i] : 0, end = is_row ? offsets[i + 1] : 0;
    i64 at = is_row ? starts[i] : 0;
    for (i64 start = begin; Tile<N>::any(start < end); start += N) {
        const i64 k = start + Tile<N>::rank();
        const bool is_strong = k < end && strong.once(k) != 0;
        const i32 column = k < end ? columns.once(k) : 0;
        const u64 all = Tile<N>::ballot(is_strong);
        if (is_strong) {
            to[at + Tile<N>::rank_among(all)] = column;
        }
        at += count_bits(all);
    }
}

#define STRENGTH(T, N) \
    KERNEL_OF(5, strength_classical_##T##_##N, i64 rows, f64 threshold, f64 max_row_sum, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<u8> strong, Out<i32> counts) { \
        strength_classical<T, N>(rows, threshold, max_row_sum, offsets, columns, values, strong, counts); \
    } \
    KERNEL(strength_uniform_##T##_##N, i64 rows, f64 threshold, i64 longest, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<i32> flag) { \
        strength_uniform<T, N>(rows, threshold, longest, offsets, columns, values, flag); \
    } \
    KERNEL(strength_signs_##T##_##N, i64 rows, i64 step, i64 shares, f64 largest, f64 units, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<i64> sums) { \
        strength_signs<T, N>(rows, step, shares, largest, units, offsets, columns, values, sums); \
    } \
    KERNEL(strength_absolute_##T##_##N, i64 rows, i32 size, f64 threshold, In<i64> offsets, In<i32> columns, In<T> values, Out<u8> strong, \
           Out<i32> counts) { \
        strength_absolute<T, N>(rows, size, threshold, offsets, columns, values, strong, counts); \
    } \
    KERNEL(strength_diagonal_##T##_##N, i64 rows, i32 size, In<i64> offsets, In<i32> columns, In<T> values, Out<f64> norms) { \
        strength_diagonal<T, N>(rows, size, offsets, columns, values, norms); \
    } \
    KERNEL(strength_symmetric_##T##_##N, i64 rows, i32 size, f64 threshold, In<i64> offsets, In<i32> columns, In<T> values, \
           In<f64> diagonal, Out<u8> strong, Out<i32> counts) { \
        strength_symmetric<T, N>(rows, size, threshold, offsets, columns, values, diagonal, strong, counts); \
    } \
    KERNEL(strength_strongest_##T##_##N, i64 count, i64 first, i64 step, i32 size, In<i64> offsets, In<i32> columns, In<T> values, In<f64> diagonal, \
           Out<f64> strongest) { \
        strength_strongest<T, N>(count, first, step, size, offsets, columns, values, diagonal, strongest); \
    } \
    KERNEL(strength_sampled_##T##_##N, i64 count, i64 first, i64 step, i32 size, f64 threshold, In<i64> offsets, In<i32> columns, In<T> values, \
           In<f64> diagonal, Out<i64> sums) { \
        strength_sampled<T, N>(count, first, step, size, threshold, offsets, columns, values, diagonal, sums); \
    }
#define STRENGTH_COLUMNS(N) \
    KERNEL_OF(8, strength_columns_##N, i64 rows, In<i64> offsets, In<i32> columns, In<u8> strong, In<i64> starts, Out<i32> to) { \
        strength_columns<N>(rows, offsets, columns, strong, starts, to); \
    }
#define STRENGTH_OF(N) \
    STRENGTH(f64, N) \
    STRENGTH(f32, N) \
    STRENGTH_COLUMNS(N)
STRENGTH(f64, 2)
STRENGTH(f32, 2)
STRENGTH_OF(4)
STRENGTH_OF(8)
STRENGTH_OF(16)
STRENGTH_COLUMNS(32)
