// Stencils of a caller in device memory: brought into arrays with padded lines, checked, and looked at in one pass.
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

// What a thread finds in one pass over a matrix: the squares of differences from the mirrored entries, the squares of entries, and positive and negative
// diagonal entries; couplings along x, y and z in relation to the strongest axis of each unknown, as `stencil_couplings`; and whether f16, bf16 and f32
// do not hold every value exactly, and whether an entry differs from the mirrored one.
struct Examined {
    static constexpr int SUMS = 11;
    f64 sums[SUMS] = {};
    // Formats that do not hold every value exactly, a bit for each, and one for a difference from the mirrored entries.
    u32 inexact = 0;

    // An entry and the mirrored one; with `both` they are looked at once. The diagonal blocks are seen from both sides, other pairs from one.
    DEVICE void pair(bool diagonal, bool both, f64 v, f64 mirror) {
        if (diagonal) {
            sums[2] += v > 0.0 ? 1.0 : 0.0;
            sums[3] += v < 0.0 ? 1.0 : 0.0;
            return;
        }
        const f64 difference = times(v - mirror, v - mirror);
        inexact |= v != mirror ? 8u : 0u;
        sums[0] += both ? 2.0 * difference : difference;
        sums[1] += times(v, v) + (both ? times(mirror, mirror) : 0.0);
    }

    // Numbers that are zero, or from 2^-14 to below 2^16: no format has subnormal numbers there or overflows, and the last bits decide, which takes no
    // conversions. They are collected here.
    u64 last_bits = 0;

    DEVICE void formats(f64 v) {
        const u64 bits = static_cast<u64>(bits_of(v));
        const u32 exponent = static_cast<u32>(bits >> 52) & 0x7ffu;
        if (exponent - 1009u <= 29u || v == 0.0) {
            last_bits |= bits;
        } else {
            const f32 narrow = to_f32(v);
            inexact |= (to_f64(to_f16(narrow)) != v ? 1u : 0u) | (to_f64(to_bf16(narrow)) != v ? 2u : 0u) | (to_f64(narrow) != v ? 4u : 0u);
        }
    }

    // Behind the last number.
    DEVICE void end() {
        inexact |= ((last_bits & 0x3ffffffffffULL) != 0 ? 1u : 0u) | ((last_bits & 0x1fffffffffffULL) != 0 ? 2u : 0u) | ((last_bits & 0x1fffffffULL) != 0 ? 4u : 0u);
    }

    DEVICE void couplings(const f64 (&sides)[3][2]) {
        f64 sizes[3], largest = 0.0;
        UNROLL
        for (int axis = 0; axis < 3; ++axis) {
            sizes[axis] = magnitude(sides[axis][0]) + magnitude(sides[axis][1]);
            largest = sizes[axis] > largest ? sizes[axis] : largest;
        }
        // One division, unless its result could overflow.
        const f64 share = largest > 1e-300 ? 1.0 / largest : 0.0;
        UNROLL
        for (int axis = 0; axis < 3; ++axis) {
            sums[4 + axis] += largest > 1e-300 ? times(sizes[axis], share) : largest > 0.0 ? sizes[axis] / largest : 0.0;
        }
    }
};

// Adds the entry of an offset to the couplings of its sides.
DEVICE void add_side(int code, f64 value, f64 (&sides)[3][2]) {
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        const int step = step_of(code, axis);
        sides[axis][0] += step < 0 ? value : 0.0;
        sides[axis][1] += step > 0 ? value : 0.0;
    }
}

// A cell of a scalar matrix. All values of a plane of offsets are loaded before they are looked at; those that are not there from places that are.
template <class T> DEVICE void examine_scalar(const StencilShape &g, const StencilNumbers &numbers, const Neighbours &near, const In<T> &values, Examined &found) {
    const i64 size = array_size(g), own = near.own();
    f64 sides[3][2] = {};
    UNROLL
    for (int plane = 0; plane < 27; plane += 9) {
        T v[9], mirror[9];
        UNROLL
        for (int q = 0; q < 9; ++q) {
            const int code = plane + q, k = numbers.of[code], opposite = numbers.of[26 - code];
            v[q] = values[k >= 0 ? k * size + own : own];
            mirror[q] = T(0);
            if (code > 13) {
                const bool is_pair = k >= 0 && opposite >= 0 && near[code] >= 0;
                const T other = values[is_pair ? opposite * size + near[code] : own];
                mirror[q] = is_pair ? other : T(0);
            }
        }
        UNROLL
        for (int q = 0; q < 9; ++q) {
            const int code = plane + q;
            const bool has_opposite = numbers.of[26 - code] >= 0;
            if (numbers.of[code] >= 0) {
                const f64 value = to_f64(v[q]);
                found.formats(value);
                if (code != 13) {
                    add_side(code, value, sides);
                }
                if (near[code] >= 0 && !(code < 13 && has_opposite)) {
                    found.pair(code == 13, code != 13 && has_opposite, value, to_f64(mirror[q]));
                }
            }
        }
    }
    found.couplings(sides);
}

// A cell with several unknowns.
template <class T> DEVICE void examine_block(const StencilShape &g, const StencilNumbers &numbers, const Neighbours &near, const In<T> &values, Examined &found) {
    const i64 size = array_size(g), width = g.block * g.block, own = near.own();
    for (int c = 0; c < g.block; ++c) {
        f64 sides[3][2] = {};
        for (int code = 0; code < 27; ++code) {
            const int k = numbers.of[code];
            if (k >= 0 && code != 13) {
                add_side(code, to_f64(values[(k * width + c * g.block + c) * size + own]), sides);
            }
        }
        found.couplings(sides);
    }
    UNROLL
    for (int code = 0; code < 27; ++code) {
        const int k = numbers.of[code], opposite = numbers.of[26 - code];
        const i64 there = near[code];
        for (int e = 0; k >= 0 && e < width; ++e) {
            const f64 v = to_f64(values[(k * width + e) * size + own]);
            found.formats(v);
            if ((code < 13 && opposite >= 0) || there < 0) {
                continue;
            }
            const int r = e / g.block, c = e % g.block;
            const f64 mirror = opposite < 0 ? 0.0 : to_f64(values[(opposite * width + c * g.block + r) * size + there]);
            found.pair(code == 13 && r == c, code != 13 && opposite >= 0, v, mirror);
        }
    }
}

// For each block of threads the sums of what its threads find. An offset is compared with the opposite one.
template <class T> DEVICE void examine_stencil(i64 cells, const StencilShape &g, const StencilNumbers &numbers, const In<T> &values, const Out<f64> &sums) {
    Examined found;
    for (i64 cell = global_index(); cell < cells; cell += block_count() * BLOCK) {
        int at[3];
        point_of(g.dims, cell, at);
        const Neighbours near(g, at, g.pitch);
        if (g.block == 1) {
            examine_scalar(g, numbers, near, values, found);
        } else {
            examine_block(g, numbers, near, values, found);
        }
    }
    found.end();
    UNROLL
    for (int format = 0; format < 4; ++format) {
        found.sums[7 + format] = (found.inexact >> format & 1) != 0 ? 1.0 : 0.0;
    }
    UNROLL
    for (int s = 0; s < Examined::SUMS; ++s) {
        const f64 sum = block_sum(found.sums[s]);
        if (thread_index() == 0) {
            sums[Examined::SUMS * block_index() + s] = sum;
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
    KERNEL_OF(2, examine_stencil_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<T> values, Out<f64> sums) { \
        examine_stencil<T>(cells, g, numbers, values, sums); \
    }
FOR_SETUP(STENCIL_IMPORT)
