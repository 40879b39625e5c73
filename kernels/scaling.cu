// Scaling of levels by powers of two, and storage in other formats: as in src/host/scaling.rs, with its bits.
#include "grid_transfer.h"
#include "numbers.h"
#include "scalar_row.h"
#include "stencil.h"
#include "storage_counts.h"

// The power of two nearest to the root of a positive number, from its exponent; zero for all others.
DEVICE f64 power_near_root(f64 value) {
    if (!(value > 0.0) || !is_finite(value)) {
        return 0.0;
    }
    const bool subnormal = bits_of(value) >> 52 == 0;
    const int exponent = static_cast<int>(bits_of(subnormal ? value * 0x1p54 : value) >> 52) - (subnormal ? 1077 : 1023);
    return f64_of(static_cast<i64>(((exponent + 1) >> 1) + 1023) << 52);
}

// Replaces each s by the power of two near its root, or by 1 if it is zero and that is `allowed`. `seen` gets n - i
// for the first i without one, and as ordered bits the largest power and the largest reciprocal.
KERNEL(scaling_roots, i64 n, i32 allowed, Out<f64> s, Out<u64> seen) {
    u64 first = 0;
    u64 high = 0;
    u64 low = 0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        const f64 of = s[i];
        const f64 power = allowed && of == 0.0 ? 1.0 : power_near_root(of);
        s[i] = power;
        if (power == 0.0) {
            first = first == 0 ? static_cast<u64>(n - i) : first;
        } else {
            const u64 up = ordered(power);
            const u64 down = ordered(reciprocal_of_power(power));
            high = up > high ? up : high;
            low = down > low ? down : low;
        }
    }
    first = group_max<WARP>(first);
    high = group_max<WARP>(high);
    low = group_max<WARP>(low);
    if (Group<WARP>::rank() == 0) {
        if (first != 0) {
            atomic_max(seen[0], first);
        }
        atomic_max(seen[2], high);
        atomic_max(seen[3], low);
    }
}

// middle / s, for powers of two.
KERNEL(scaling_inverse, i64 n, f64 middle, In<f64> s, Out<f32> inverse) {
    const i64 i = global_index();
    if (i < n) {
        inverse[i] = to_f32(middle * reciprocal_of_power(s[i]));
    }
}

// One power of two for each scalar row or column, by which values are multiplied or divided; an empty array means
// ones.
struct Powers {
    In<f64> s;
    i32 divides;
    DEVICE f64 operator[](i64 i) const {
        if (s.len == 0) {
            return 1.0;
        }
        const f64 power = s[i];
        return divides != 0 ? reciprocal_of_power(power) : power;
    }
};

// Values whose loads a lane issues together.
constexpr int SCALING_BATCH = 4;

// Calls `work` for each value of a row with its position among all values and the value, scaled by the factors of row
// and column. N lanes share a row.
template <class T, int N> struct ScalarRows {
    static constexpr int LANES = N;

    template <class Work>
    static DEVICE void each(i64 row, int, int, const Powers &left, const Powers &right, const In<i64> &offsets,
                            const In<i32> &columns, const In<T> &values, const Work &work) {
        const i64 end = offsets[row + 1];
        const f64 own = left[row];
        for (i64 base = offsets[row] + Group<N>::rank(); base < end; base += N * SCALING_BATCH) {
            i32 column[SCALING_BATCH];
            f64 value[SCALING_BATCH];
            UNROLL
            for (int b = 0; b < SCALING_BATCH; ++b) {
                const bool is_here = base + b * N < end;
                column[b] = is_here ? columns[base + b * N] : 0;
                value[b] = is_here ? to_f64(values.once(base + b * N)) : 0.0;
            }
            UNROLL
            for (int b = 0; b < SCALING_BATCH; ++b) {
                value[b] = value[b] * own * right[column[b]];
            }
            UNROLL
            for (int b = 0; b < SCALING_BATCH; ++b) {
                if (base + b * N < end) {
                    work(base + b * N, value[b]);
                }
            }
        }
    }
};

// The same for rows of blocks of at most 8 x 8, with factors for scalar rows and columns.
template <class T, int BATCH> struct BlockRows {
    static constexpr int LANES = 32;

    template <class Work>
    static DEVICE void each(i64 row, int br, int bc, const Powers &left, const Powers &right, const In<i64> &offsets,
                            const In<i32> &columns, const In<T> &values, const Work &work) {
        const int width = br * bc;
        const i64 start = offsets[row] * width;
        const i64 end = offsets[row + 1] * width;
        // (n * over) >> 16 is n / bc for n up to 64.
        const int over = 65536 / bc + 1;
        const int blocks_of_step = LANES / width;
        const int rest_of_step = LANES % width;
        // The block of a value and its position in it; each step advances them.
        i64 block = offsets[row] + Group<LANES>::rank() / width;
        int within = Group<LANES>::rank() % width;
        for (i64 base = start + Group<LANES>::rank(); base < end; base += LANES * BATCH) {
            int line[BATCH];
            i64 column[BATCH];
            f64 value[BATCH];
            UNROLL
            for (int b = 0; b < BATCH; ++b) {
                const bool is_here = base + b * LANES < end;
                line[b] = within * over >> 16;
                value[b] = is_here ? to_f64(values.once(base + b * LANES)) : 0.0;
                column[b] = is_here ? static_cast<i64>(columns[block]) * bc + (within - line[b] * bc) : 0;
                within += rest_of_step;
                block += blocks_of_step + (within >= width ? 1 : 0);
                within -= within >= width ? width : 0;
            }
            UNROLL
            for (int b = 0; b < BATCH; ++b) {
                value[b] = value[b] * left[row * br + line[b]] * right[column[b]];
            }
            UNROLL
            for (int b = 0; b < BATCH; ++b) {
                if (base + b * LANES < end) {
                    work(base + b * LANES, value[b]);
                }
            }
        }
    }
};

// The largest |v| of each scalar row and column, as ordered bits in `largest`.
template <class T>
DEVICE void largest_of_lines(i64 rows, int br, int bc, const In<i64> &offsets, const In<i32> &columns,
                             const In<T> &values, const Out<u64> &largest) {
    constexpr int N = 8;
    const i64 row = global_index() / N;
    if (row >= rows) {
        return;
    }
    const int width = br * bc;
    for (i64 k = offsets[row]; k < offsets[row + 1]; ++k) {
        for (int e = Group<N>::rank(); e < width; e += N) {
            const f64 size = magnitude(to_f64(values[k * width + e]));
            const u64 bits = size == size ? ordered(size) : 0;
            const i64 lines[2] = {row * br + e / bc, static_cast<i64>(columns[k]) * bc + e % bc};
            // The stored maximum only grows, so an old value decides correctly.
            UNROLL
            for (int l = 0; l < 2; ++l) {
                if (bits > largest[lines[l]]) {
                    atomic_max(largest[lines[l]], bits);
                }
            }
        }
    }
}

#define LARGEST_OF_LINES(T) \
    KERNEL(largest_of_lines_##T, i64 rows, i32 br, i32 bc, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<u64> largest) { \
        largest_of_lines<T>(rows, br, bc, offsets, columns, values, largest); \
    }
FOR_SETUP(LARGEST_OF_LINES)

// The ordered bits of the largest |v| outside of the diagonal in `count` rows, which are `step` apart.
template <class T>
DEVICE void largest_off_diagonal(i64 count, i64 step, int br, int bc, const In<i64> &offsets, const In<i32> &columns,
                                 const In<T> &values, const Out<u64> &seen) {
    constexpr int N = 8;
    const int width = br * bc;
    u64 largest = 0;
    for (i64 row = global_index() / N * step; row < count * step; row += block_count() * (BLOCK / N) * step) {
        const i64 start = offsets[row] * width;
        const i64 end = offsets[row + 1] * width;
        for (i64 at = start + Group<N>::rank(); at < end; at += N) {
            const i64 k = at / width;
            const int e = static_cast<int>(at - k * width);
            const bool is_off = row * br + e / bc != static_cast<i64>(columns[k]) * bc + e % bc;
            const f64 size = is_off ? magnitude(to_f64(values[at])) : 0.0;
            const u64 bits = size == size ? ordered(size) : 0;
            largest = bits > largest ? bits : largest;
        }
    }
    largest = group_max<WARP>(largest);
    if (Group<WARP>::rank() == 0) {
        atomic_max(seen[0], largest);
    }
}

#define LARGEST_OFF_DIAGONAL(T) \
    KERNEL(largest_off_diagonal_##T, i64 count, i64 step, i32 br, i32 bc, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<u64> seen) { \
        largest_off_diagonal<T>(count, step, br, bc, offsets, columns, values, seen); \
    }
FOR_SETUP(LARGEST_OFF_DIAGONAL)

// The ordered bits of the largest |v| / (s_i s_j), in seen[1].
template <class T, class Rows>
DEVICE void largest_scaled(i64 rows, int br, int bc, const In<f64> &s, const In<i64> &offsets, const In<i32> &columns,
                           const In<T> &values, const Out<u64> &seen) {
    const Powers by{s, 1};
    u64 largest = 0;
    for (i64 row = global_index() / Rows::LANES; row < rows; row += block_count() * (BLOCK / Rows::LANES)) {
        Rows::each(row, br, bc, by, by, offsets, columns, values, [&](i64, f64 v) {
            const u64 bits = v == v ? ordered(magnitude(v)) : 0;
            largest = bits > largest ? bits : largest;
        });
    }
    largest = group_max<WARP>(largest);
    if (Group<WARP>::rank() == 0) {
        atomic_max(seen[1], largest);
    }
}

// Calls `work` for the entries of a cell of a scalar stencil, as `each_of_cell`. Nine values and factors are waited for together; those that are not there are
// read where there are some.
template <class T, class Work>
DEVICE void each_of_scalar_cell(i64 cell, const StencilShape &g, const StencilNumbers &numbers, const Neighbours &near, const Powers &left,
                                const Powers &right, const In<T> &values, const Work &work) {
    const i64 size = array_size(g), own = place_of(g, cell);
    const f64 of_row = left[cell];
    UNROLL
    for (int plane = 0; plane < 3; ++plane) {
        T value[9];
        f64 of_column[9];
        UNROLL
        for (int i = 0; i < 9; ++i) {
            const int k = numbers.of[9 * plane + i];
            const i64 to = near[9 * plane + i];
            value[i] = values[k >= 0 ? k * size + own : own];
            of_column[i] = right[to >= 0 ? to : cell];
        }
        UNROLL
        for (int i = 0; i < 9; ++i) {
            const int k = numbers.of[9 * plane + i];
            if (k >= 0) {
                work(k * size + own, near[9 * plane + i] < 0 ? 0.0 : times(times(to_f64(value[i]), of_row), of_column[i]));
            }
        }
    }
}

// Calls `work` for the entries of a cell of a stencil with its place among all values and the value, scaled by the factors of row and column; zero where
// it leads out of the grid.
template <class T, class Work>
DEVICE void each_of_cell(i64 cell, const StencilShape &g, const StencilNumbers &numbers, const Powers &left, const Powers &right, const In<T> &values,
                         const Work &work) {
    const int b = g.block;
    const i64 size = array_size(g), own = place_of(g, cell);
    int at[3];
    point_of(g.dims, cell, at);
    if (b == 1) {
        each_of_scalar_cell(cell, g, numbers, Neighbours(g, at, g.dims[0]), left, right, values, work);
        return;
    }
    ROLLED
    for (int code = 0; code < 27; ++code) {
        const int k = numbers.of[code];
        const i64 to = k < 0 ? -1 : neighbour(g, code, at);
        for (int e = 0; k >= 0 && e < b * b; ++e) {
            const i64 place = (static_cast<i64>(k) * b * b + e) * size + own;
            work(place, to < 0 ? 0.0 : times(times(to_f64(values[place]), left[cell * b + e / b]), right[to * b + e % b]));
        }
    }
}

// The same for a stencil.
template <class T>
DEVICE void largest_scaled_stencil(i64 cells, const StencilShape &g, const StencilNumbers &numbers, const In<f64> &s, const In<T> &values,
                                   const Out<u64> &seen) {
    const Powers by{s, 1};
    u64 largest = 0;
    for (i64 cell = global_index(); cell < cells; cell += block_count() * BLOCK) {
        each_of_cell(cell, g, numbers, by, by, values, [&](i64, f64 scaled) {
            const u64 bits = scaled == scaled ? ordered(magnitude(scaled)) : 0;
            largest = bits > largest ? bits : largest;
        });
    }
    largest = group_max<WARP>(largest);
    if (Group<WARP>::rank() == 0) {
        atomic_max(seen[1], largest);
    }
}

// The same for cells of a stencil. `ones` has no elements.
template <class T>
DEVICE void largest_off_diagonal_stencil(i64 count, i64 step, const StencilShape &g, const StencilNumbers &numbers, const In<f64> &ones,
                                         const In<T> &values, const Out<u64> &seen) {
    constexpr int CENTRE = 13;
    const Powers by{ones, 0};
    const i64 size = array_size(g);
    const int b = g.block, centre = numbers.of[CENTRE];
    u64 largest = 0;
    for (i64 cell = global_index() * step; cell < count * step; cell += block_count() * BLOCK * step) {
        each_of_cell(cell, g, numbers, by, by, values, [&](i64 place, f64 v) {
            const int array = static_cast<int>(place / size);
            const int e = array % (b * b);
            const bool is_diagonal = array / (b * b) == centre && e / b == e % b;
            const u64 bits = v == v && !is_diagonal ? ordered(magnitude(v)) : 0;
            largest = bits > largest ? bits : largest;
        });
    }
    largest = group_max<WARP>(largest);
    if (Group<WARP>::rank() == 0) {
        atomic_max(seen[0], largest);
    }
}

#define LARGEST_OFF_DIAGONAL_STENCIL(T) \
    KERNEL_OF(2, largest_off_diagonal_stencil_##T, i64 count, i64 step, StencilShape g, StencilNumbers numbers, In<f64> ones, In<T> values, \
              Out<u64> seen) { \
        largest_off_diagonal_stencil<T>(count, step, g, numbers, ones, values, seen); \
    }
FOR_SETUP(LARGEST_OFF_DIAGONAL_STENCIL)

#define LARGEST_SCALED_STENCIL(T) \
    KERNEL_OF(2, largest_scaled_stencil_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<f64> s, In<T> values, Out<u64> seen) { \
        largest_scaled_stencil<T>(cells, g, numbers, s, values, seen); \
    }
FOR_SETUP(LARGEST_SCALED_STENCIL)

// Whether a stored number is too small for its format: zero, or subnormal in f32, of which nothing is left when it is inverted.
DEVICE bool is_too_small(f16 v) { return to_f32(v) == 0.0f; }
DEVICE bool is_too_small(bf16 v) { return to_f32(v) == 0.0f; }
DEVICE bool is_too_small(f32 v) { return v < 1.17549435e-38f && v > -1.17549435e-38f; }
DEVICE bool is_too_small(f64 v) { return v == 0.0; }

// Scales rows by `left` and columns by `right`, rounds to T and stores as S. Overflow and underflow of a narrower S are
// counted.
template <class T, class S, class Rows>
DEVICE void store_scaled_rows(i64 rows, int br, int bc, const Powers &left, const Powers &right, const In<i64> &offsets,
                              const In<i32> &columns, const In<T> &values, const Out<S> &out, const Out<i64> &counts) {
    i64 too_large = 0;
    i64 vanished = 0;
    for (i64 row = global_index() / Rows::LANES; row < rows; row += block_count() * (BLOCK / Rows::LANES)) {
        Rows::each(row, br, bc, left, right, offsets, columns, values, [&](i64 at, f64 v) {
            const T exact = As<T>::of(v);
            const S stored = As<S>::of(exact);
            out[at] = stored;
            if (sizeof(S) < sizeof(T)) {
                too_large += is_finite(to_f64(stored)) ? 0 : 1;
                vanished += is_too_small(stored) && exact != T(0) ? 1 : 0;
            }
        });
    }
    if (sizeof(S) < sizeof(T)) {
        add_counts(too_large, vanished, counts);
    }
}

#define LARGEST_SCALED(T, NAME, ...) \
    KERNEL(largest_scaled_##T##_##NAME, i64 rows, i32 br, i32 bc, In<f64> s, In<i64> offsets, In<i32> columns, \
           In<T> values, Out<u64> seen) { \
        largest_scaled<T, __VA_ARGS__>(rows, br, bc, s, offsets, columns, values, seen); \
    }
#define STORE_SCALED(T, NAME, ...) \
    KERNEL_OF(4, store_scaled_rows_##T##_##NAME, i64 rows, i32 br, i32 bc, In<f64> left, i32 over_left, In<f64> right, \
           i32 over_right, In<i64> offsets, In<i32> columns, In<T> values, i32 format, Any out, Out<i64> counts) { \
        const Powers by_row{left, over_left}; \
        const Powers by_column{right, over_right}; \
        if (format == F16) { \
            store_scaled_rows<T, f16, __VA_ARGS__>(rows, br, bc, by_row, by_column, offsets, columns, values, out.out<f16>(), counts); \
        } else if (format == BF16) { \
            store_scaled_rows<T, bf16, __VA_ARGS__>(rows, br, bc, by_row, by_column, offsets, columns, values, out.out<bf16>(), counts); \
        } else if (format == F32) { \
            store_scaled_rows<T, f32, __VA_ARGS__>(rows, br, bc, by_row, by_column, offsets, columns, values, out.out<f32>(), counts); \
        } else { \
            store_scaled_rows<T, f64, __VA_ARGS__>(rows, br, bc, by_row, by_column, offsets, columns, values, out.out<f64>(), counts); \
        } \
    }
#define SCALING_ROWS(T, N) LARGEST_SCALED(T, N, ScalarRows<T, N>) STORE_SCALED(T, N, ScalarRows<T, N>)
// Kernels that store need more registers.
#define SCALING_(T) \
    SCALING_ROWS(T, 2) \
    SCALING_ROWS(T, 8) \
    SCALING_ROWS(T, 32) \
    LARGEST_SCALED(T, blocks, BlockRows<T, 8>) \
    STORE_SCALED(T, blocks, BlockRows<T, 4>)
FOR_SETUP(SCALING_)

// out = x in a narrower format.
template <class T, class S> DEVICE void store_counting(i64 n, const In<T> &x, const Out<S> &out, const Out<i64> &counts) {
    i64 too_large = 0;
    i64 vanished = 0;
    // Elements that a thread waits for together.
    constexpr int TOGETHER = 4;
    const i64 step = block_count() * BLOCK;
    for (i64 first = global_index(); first < n; first += TOGETHER * step) {
        T exact[TOGETHER];
        UNROLL
        for (int e = 0; e < TOGETHER; ++e) {
            const i64 i = first + e * step;
            exact[e] = x.once(i < n ? i : first);
        }
        UNROLL
        for (int e = 0; e < TOGETHER; ++e) {
            const i64 i = first + e * step;
            if (i < n) {
                const S stored = As<S>::of(to_f64(exact[e]));
                out[i] = stored;
                too_large += is_finite(to_f64(stored)) ? 0 : 1;
                vanished += is_too_small(stored) && exact[e] != T(0) ? 1 : 0;
            }
        }
    }
    add_counts(too_large, vanished, counts);
}

#define STORE_COUNTING(T) \
    KERNEL(store_counting_##T, i64 n, In<T> x, i32 format, Any out, Out<i64> counts) { \
        if (format == F16) { \
            store_counting<T, f16>(n, x, out.out<f16>(), counts); \
        } else if (format == F32) { \
            store_counting<T, f32>(n, x, out.out<f32>(), counts); \
        } else { \
            store_counting<T, bf16>(n, x, out.out<bf16>(), counts); \
        } \
    }
FOR_SETUP(STORE_COUNTING)

// A number that is stored in a narrower format.
template <class S, class T> DEVICE void store_and_count(T exact, S &to, i64 &too_large, i64 &vanished) {
    to = As<S>::of(exact);
    too_large += is_finite(to_f64(to)) ? 0 : 1;
    vanished += is_too_small(to) && exact != T(0) ? 1 : 0;
}

// The same for a stencil whose rows and columns are scaled. Padding stays as it is.
template <class T, class S>
DEVICE void store_scaled_stencil(i64 cells, const StencilShape &g, const StencilNumbers &numbers, const Powers &left, const Powers &right,
                                 const In<T> &values, const Out<S> &out, const Out<i64> &counts) {
    i64 too_large = 0, vanished = 0;
    for (i64 cell = global_index(); cell < cells; cell += block_count() * BLOCK) {
        each_of_cell(cell, g, numbers, left, right, values,
                     [&](i64 place, f64 scaled) { store_and_count(As<T>::of(scaled), out[place], too_large, vanished); });
    }
    add_counts(too_large, vanished, counts);
}

// The same for a transfer between grids, one thread for an unknown of a coarse cell.
template <class T, class S>
DEVICE void store_scaled_transfer(const TransferShape &g, const Powers &fine, const Powers &coarse, const In<T> &values, const Out<S> &out,
                                  const Out<i64> &counts) {
    const i64 cells = coarse_cells(g);
    i64 too_large = 0, vanished = 0;
    for (i64 i = global_index(); i < cells * g.block; i += block_count() * BLOCK) {
        const i64 c = i / cells, cell = i - c * cells;
        int at[3], to[3][3];
        point_of(g.coarse, cell, at);
        UNROLL
        for (int axis = 0; axis < 3; ++axis) {
            UNROLL
            for (int step = 0; step < 3; ++step) {
                to[axis][step] = step < steps_along(g, axis) ? child(g, axis, at[axis], g.axes[axis] ? step + g.low : 0) : -1;
            }
        }
        const f64 by_coarse = coarse[cell * g.block + c];
        UNROLL
        for (int w = 0; w < 3; ++w) {
            UNROLL
            for (int v = 0; v < 3; ++v) {
                UNROLL
                for (int u = 0; u < 3; ++u) {
                    if (u < steps_along(g, 0) && v < steps_along(g, 1) && w < steps_along(g, 2)) {
                        const i64 number = u + steps_along(g, 0) * (v + static_cast<i64>(steps_along(g, 1)) * w), place = (number * g.block + c) * cells + cell;
                        const bool exists = to[0][u] >= 0 && to[1][v] >= 0 && to[2][w] >= 0;
                        const i64 there = to[0][u] + g.fine[0] * (to[1][v] + static_cast<i64>(g.fine[1]) * to[2][w]);
                        const f64 scaled = exists ? times(times(to_f64(values[place]), fine[there * g.block + c]), by_coarse) : 0.0;
                        store_and_count(As<T>::of(scaled), out[place], too_large, vanished);
                    }
                }
            }
        }
    }
    add_counts(too_large, vanished, counts);
}

#define STORE_SCALED_ON_GRIDS(T) \
    KERNEL_OF(2, store_scaled_stencil_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<f64> left, i32 over_left, In<f64> right, i32 over_right, \
           In<T> values, i32 format, Any out, Out<i64> counts) { \
        const Powers rows{left, over_left}, columns{right, over_right}; \
        if (format == F16) { \
            store_scaled_stencil<T, f16>(cells, g, numbers, rows, columns, values, out.out<f16>(), counts); \
        } else if (format == F32) { \
            store_scaled_stencil<T, f32>(cells, g, numbers, rows, columns, values, out.out<f32>(), counts); \
        } else { \
            store_scaled_stencil<T, bf16>(cells, g, numbers, rows, columns, values, out.out<bf16>(), counts); \
        } \
    } \
    KERNEL(store_scaled_transfer_##T, TransferShape g, In<f64> fine, i32 over_fine, In<f64> coarse, i32 over_coarse, In<T> values, i32 format, Any out, \
           Out<i64> counts) { \
        const Powers rows{fine, over_fine}, columns{coarse, over_coarse}; \
        if (format == F16) { \
            store_scaled_transfer<T, f16>(g, rows, columns, values, out.out<f16>(), counts); \
        } else if (format == F32) { \
            store_scaled_transfer<T, f32>(g, rows, columns, values, out.out<f32>(), counts); \
        } else { \
            store_scaled_transfer<T, bf16>(g, rows, columns, values, out.out<bf16>(), counts); \
        } \
    }
FOR_SETUP(STORE_SCALED_ON_GRIDS)

// Adds to counts[2] the scalar rows of which all entries are too small in f32. Without any such entry, which counts[1]
// tells, there is nothing to do.
KERNEL(rows_lost, i64 rows, i32 br, i32 bc, In<i64> offsets, In<f64> exact, In<f32> stored, Out<i64> counts) {
    if (counts[1] == 0) {
        return;
    }
    i64 lost = 0;
    for (i64 line = global_index(); line < rows * br; line += block_count() * BLOCK) {
        const i64 row = line / br;
        const i64 start = offsets[row];
        const i64 end = offsets[row + 1];
        bool kept = false;
        bool had = false;
        for (i64 k = start; k < end && !kept; ++k) {
            for (int c = 0; c < bc; ++c) {
                const i64 at = (k * br + line % br) * bc + c;
                had = had || exact[at] != 0.0;
                kept = kept || !is_too_small(stored[at]);
            }
        }
        lost += had && !kept ? 1 : 0;
    }
    lost = group_sum<WARP>(lost);
    if (Group<WARP>::rank() == 0 && lost != 0) {
        atomic_add(counts[2], lost);
    }
}

// The same for the rows of a stencil.
KERNEL(stencil_rows_lost, i64 rows, StencilShape g, StencilOffsets offsets, In<f64> exact, In<f32> stored, Out<i64> counts) {
    if (counts[1] == 0) {
        return;
    }
    i64 lost = 0;
    for (i64 row = global_index(); row < rows; row += block_count() * BLOCK) {
        const i64 size = array_size(g), own = place_of(g, row / g.block), r = row % g.block;
        bool kept = false;
        bool had = false;
        for (i64 k = 0; k < offsets.count * g.block && !kept; ++k) {
            const i64 at = ((k / g.block * g.block + r) * g.block + k % g.block) * size + own;
            had = had || exact[at] != 0.0;
            kept = kept || !is_too_small(stored[at]);
        }
        lost += had && !kept ? 1 : 0;
    }
    lost = group_sum<WARP>(lost);
    if (Group<WARP>::rank() == 0 && lost != 0) {
        atomic_add(counts[2], lost);
    }
}
