// Stencils of a caller in device memory: brought into arrays with padded lines, checked, and looked at for symmetry.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// Values of one array after the other, or of one cell after the other, into arrays of lines with a pitch. `count` is that of arrays.
template <class T> DEVICE void import_stencil(i64 cells, const StencilShape &g, i64 count, i32 by_cell, const In<T> &from, const Out<T> &to) {
    const i64 cell = global_index();
    if (cell >= cells) {
        return;
    }
    const i64 own = place_of(g, cell), size = array_size(g);
    for (i64 e = 0; e < count; ++e) {
        to[e * size + own] = by_cell != 0 ? from[cell * count + e] : from[e * cells + cell];
    }
}

// Sets `flag` for values that are not finite, or not zero where they lead out of the grid, and for zeros on the diagonal.
template <class T> DEVICE void check_stencil(i64 cells, const StencilShape &g, const StencilOffsets &offsets, const In<T> &values, const Out<i32> &flag) {
    const i64 cell = global_index();
    if (cell >= cells) {
        return;
    }
    const i64 own = place_of(g, cell), size = array_size(g);
    int at[3];
    point_of(g.dims, cell, at);
    bool wrong = false, has_diagonal = false;
    const int width = g.block * g.block;
    for (int k = 0; k < offsets.count; ++k) {
        const bool inside = neighbour(g, offsets.code[k], at) >= 0, centre = offsets.code[k] == 13;
        has_diagonal = has_diagonal || centre;
        for (int e = 0; e < width; ++e) {
            // v - v is NaN for infinity and NaN.
            const T v = values[(static_cast<i64>(k) * width + e) * size + own];
            wrong = wrong || (inside ? v - v != T(0) : v != T(0));
            wrong = wrong || (centre && e / g.block == e % g.block && v == T(0));
        }
    }
    if (wrong || !has_diagonal) {
        flag[0] = 1;
    }
}

// For each block of threads: the squares of differences from the mirrored entries, the squares of entries, and positive and negative diagonal
// entries. An offset is compared with the opposite one, so that each array is read once.
template <class T> DEVICE void stencil_symmetry(i64 cells, const StencilShape &g, const StencilNumbers &numbers, const In<T> &values, const Out<f64> &sums) {
    f64 own_sums[4] = {};
    const i64 size = array_size(g), width = g.block * g.block;
    for (i64 cell = global_index(); cell < cells; cell += block_count() * BLOCK) {
        int at[3];
        point_of(g.dims, cell, at);
        const Neighbours near(g, at, g.pitch);
        const i64 own = near.own();
        UNROLL
        for (int code = 0; code < 27; ++code) {
            const int k = numbers.of[code], opposite = numbers.of[26 - code];
            const i64 there = near[code];
            if (k < 0 || (code < 13 && opposite >= 0) || there < 0) {
                continue;
            }
            for (int r = 0; r < g.block; ++r) {
                for (int c = 0; c < g.block; ++c) {
                    const f64 v = to_f64(values[(k * width + r * g.block + c) * size + own]);
                    if (code == 13 && r == c) {
                        own_sums[2] += v > 0.0 ? 1.0 : 0.0;
                        own_sums[3] += v < 0.0 ? 1.0 : 0.0;
                        continue;
                    }
                    const f64 mirror = opposite < 0 ? 0.0 : to_f64(values[(opposite * width + c * g.block + r) * size + there]);
                    const f64 difference = times(v - mirror, v - mirror);
                    // The diagonal blocks are seen from both sides, other pairs from one.
                    const bool both = code != 13 && opposite >= 0;
                    own_sums[0] += both ? 2.0 * difference : difference;
                    own_sums[1] += times(v, v) + (both ? times(mirror, mirror) : 0.0);
                }
            }
        }
    }
    UNROLL
    for (int s = 0; s < 4; ++s) {
        const f64 sum = block_sum(own_sums[s]);
        if (thread_index() == 0) {
            sums[4 * block_index() + s] = sum;
        }
        barrier();
    }
}

#define STENCIL_IMPORT(T) \
    KERNEL(import_stencil_##T, i64 cells, StencilShape g, i64 count, i32 by_cell, In<T> from, Out<T> to) { \
        import_stencil<T>(cells, g, count, by_cell, from, to); \
    } \
    KERNEL(check_stencil_##T, i64 cells, StencilShape g, StencilOffsets offsets, In<T> values, Out<i32> flag) { \
        check_stencil<T>(cells, g, offsets, values, flag); \
    } \
    KERNEL(stencil_symmetry_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<T> values, Out<f64> sums) { \
        stencil_symmetry<T>(cells, g, numbers, values, sums); \
    }
FOR_SETUP(STENCIL_IMPORT)
