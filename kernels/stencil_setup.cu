// Multigrid on structured grids: couplings along the axes, interpolation weights and scaling of stencils, with the bits of the host.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// For each block of threads three sums over cells: couplings along x, y and z in relation to the strongest axis of each unknown.
template <class T> DEVICE void couplings(i64 cells, const StencilShape &g, const StencilNumbers &numbers, const In<T> &values, const Out<f64> &parts) {
    f64 sums[3] = {};
    const int b = g.block;
    for (i64 i = global_index(); i < cells * b; i += block_count() * BLOCK) {
        const i64 c = i / cells, own = place_of(g, i - c * cells), size = array_size(g);
        f64 sides[3][2] = {};
        UNROLL
        for (int code = 0; code < 27; ++code) {
            const int k = numbers.of[code];
            if (k >= 0 && code != 13) {
                const f64 value = to_f64(values[((static_cast<i64>(k) * b + c) * b + c) * size + own]);
                UNROLL
                for (int axis = 0; axis < 3; ++axis) {
                    const int step = step_of(code, axis);
                    sides[axis][0] += step < 0 ? value : 0.0;
                    sides[axis][1] += step > 0 ? value : 0.0;
                }
            }
        }
        f64 sizes[3], largest = 0.0;
        UNROLL
        for (int axis = 0; axis < 3; ++axis) {
            sizes[axis] = magnitude(sides[axis][0]) + magnitude(sides[axis][1]);
            largest = sizes[axis] > largest ? sizes[axis] : largest;
        }
        UNROLL
        for (int axis = 0; axis < 3; ++axis) {
            sums[axis] += largest > 0.0 ? sizes[axis] / largest : 0.0;
        }
    }
    for (int axis = 0; axis < 3; ++axis) {
        const f64 sum = block_sum(sums[axis]);
        if (thread_index() == 0) {
            parts[3 * block_index() + axis] = sum;
        }
        barrier();
    }
}

// Weights that do not depend on the matrix: ones (constant) or halves (linear).
template <class T> DEVICE void plain_weights(const TransferShape &g, int linear, const Out<T> &weights) {
    const i64 cells = coarse_cells(g), array = global_index() / cells, cell = global_index() - array * cells;
    const int number = static_cast<int>(array / g.block);
    const int steps[3] = {steps_along(g, 0), steps_along(g, 1), steps_along(g, 2)};
    if (number >= steps[0] * steps[1] * steps[2]) {
        return;
    }
    const int at_step[3] = {number % steps[0], number / steps[0] % steps[1], number / (steps[0] * steps[1])};
    int at[3];
    point_of(g.coarse, cell, at);
    f64 weight = 1.0;
    for (int axis = 0; axis < 3; ++axis) {
        const int d = g.axes[axis] ? at_step[axis] + g.low : 0, fine = child(g, axis, at[axis], d);
        if (fine < 0) {
            return;
        }
        int step;
        const int count = (parent(g, axis, fine, 0, step) >= 0 ? 1 : 0) + (parent(g, axis, fine, 1, step) >= 0 ? 1 : 0);
        weight = linear ? times(weight, 1.0 / count) : weight;
    }
    weights[array * cells + cell] = As<T>::of(weight);
}

// The equation of a cell from the symmetric part of the matrix, entries along other axes than ODD added up: b by offsets, the diagonal, and the sums of
// all entries and of their absolute values.
struct CellEquation {
    f64 b[27];
    f64 diagonal, all, absolute;
};

// Adds the `entries` of a cell, in arrays of `array` values; where the matrix is `symmetric`, its own entries are the symmetric part.
template <class T, int ODD>
DEVICE void add_equation(int symmetric, const StencilNumbers &numbers, const Neighbours &near, i64 array, const In<T> &entries, CellEquation &equation) {
    const i64 own = near.own();
    UNROLL
    for (int plane = 0; plane < 27; plane += 9) {
        // All values of a plane of offsets are loaded before they are added; those that are not there from addresses that are.
        T here[9], there[9];
        UNROLL
        for (int q = 0; q < 9; ++q) {
            const int k = numbers.of[plane + q];
            here[q] = entries[(k >= 0 ? k * array : 0) + own];
            there[q] = here[q];
        }
        if (!symmetric) {
            UNROLL
            for (int q = 0; q < 9; ++q) {
                const int opposite = numbers.of[26 - plane - q];
                const i64 to = near[plane + q];
                const T other = entries[opposite >= 0 && to >= 0 ? opposite * array + to : own];
                there[q] = opposite >= 0 ? other : T(0);
            }
        }
        UNROLL
        for (int q = 0; q < 9; ++q) {
            const int code = plane + q;
            if (numbers.of[code] >= 0) {
                const f64 entry = near[code] >= 0 ? times(0.5, to_f64(here[q]) + to_f64(there[q])) : 0.0;
                equation.all += entry;
                equation.absolute += magnitude(entry);
                equation.diagonal = code == 13 ? entry : equation.diagonal;
                equation.b[13 + (ODD & 1 ? code % 3 - 1 : 0) + (ODD & 2 ? 3 * (code / 3 % 3 - 1) : 0) + (ODD & 4 ? 9 * (code / 9 - 1) : 0)] += entry;
            }
        }
    }
}

// Black-box weights of the fine cells that lie between coarse ones along the axes ODD, a bit for each; those of fewer axes are there. The axes are known
// when it is compiled, so that b stays in registers. Without axes these are the coarse cells themselves.
template <class T, int ODD>
DEVICE void black_box_along(i64 index, const TransferShape &g, f64 rounding, int symmetric, const StencilShape &s, const StencilNumbers &numbers,
                            const In<T> &values, const Out<T> &weights) {
    // The coordinates of the cell: along the axes ODD the odd ones, along other coarsened axes the even ones.
    i32 dims[3];
    i64 count = 1;
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        dims[axis] = !g.axes[axis] ? g.fine[axis] : ODD >> axis & 1 ? g.fine[axis] / 2 : (g.fine[axis] + 1) / 2;
        count *= dims[axis];
    }
    if (index >= count * s.block) {
        return;
    }
    const int c = static_cast<int>(index / count);
    int at[3];
    tiled_point_of(dims, index - c * count, at);
    // Positions of the coarse cells at both sides along each axis, -1 where there is none, and numbers of steps from these.
    i64 corners[3][2];
    int unit[3], centre = 0;
    f64 corner_count = 1.0;
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        const i64 of_coarse = axis == 0 ? 1 : axis == 1 ? g.coarse[0] : static_cast<i64>(g.coarse[0]) * g.coarse[1];
        unit[axis] = axis == 0 ? 1 : unit[axis - 1] * (g.axes[axis - 1] ? 3 : 1);
        centre += g.axes[axis] ? unit[axis] : 0;
        const int left = at[axis], right = grid_step(g.coarse[axis], g.periodic[axis], left, 1);
        corners[axis][0] = left * of_coarse;
        corners[axis][1] = right < 0 ? -1 : right * of_coarse;
        corner_count *= (ODD >> axis & 1) && right >= 0 ? 2.0 : 1.0;
        at[axis] = g.axes[axis] ? 2 * at[axis] + (ODD >> axis & 1) : at[axis];
    }
    const i64 cells = coarse_cells(g);
    if (ODD == 0) {
        weights[(static_cast<i64>(centre) * s.block + c) * cells + corners[0][0] + corners[1][0] + corners[2][0]] = T(1);
        return;
    }
    const Neighbours near(s, at, s.pitch);
    const i64 array = static_cast<i64>(s.block) * s.block * array_size(s);
    const In<T> entries = values.from((static_cast<i64>(c) * s.block + c) * array_size(s));
    CellEquation equation = {};
    add_equation<T, ODD>(symmetric, numbers, near, array, entries, equation);
    const auto &b = equation.b;
    const f64 diagonal = equation.diagonal, all = equation.all, absolute = equation.absolute;
    const f64 sum = magnitude(all) <= times(rounding, absolute) ? 0.0 : all;
    f64 others = 0.0;
    UNROLL
    for (int q = 0; q < 27; ++q) {
        others += q == 13 ? 0.0 : b[q];
    }
    const f64 b_0 = sum - others;
    const bool usable = times(b_0, diagonal) > 0.0 && magnitude(b_0) > times(rounding, absolute);
    // Where the weights of a corner are for some steps towards the cell along the axes of `part`; -1 where there is no such corner.
    const auto position = [&](int bits, int part) -> i64 {
        const i64 x = corners[0][bits & 1], y = corners[1][bits >> 1 & 1], z = corners[2][bits >> 2];
        int number = centre;
        UNROLL
        for (int axis = 0; axis < 3; ++axis) {
            number += !(part >> axis & 1) ? 0 : bits >> axis & 1 ? -unit[axis] : unit[axis];
        }
        return x < 0 || y < 0 || z < 0 ? -1 : (static_cast<i64>(number) * s.block + c) * cells + x + y + z;
    };
    // All corners before any is stored: loads do not wait for stores then.
    f64 found[8];
    UNROLL
    for (int bits = 0; bits < 8; ++bits) {
        if (bits & ~ODD) {
            continue;
        }
        // All steps towards the corner: its side along some of the axes. The corner itself has weight 1.
        f64 total = 0.0;
        UNROLL
        for (int part = 1; part < 8; ++part) {
            if (part & ~ODD) {
                continue;
            }
            int q = 13;
            UNROLL
            for (int axis = 0, step = 1; axis < 3; ++axis, step *= 3) {
                q += !(part >> axis & 1) ? 0 : bits >> axis & 1 ? step : -step;
            }
            const i64 from = part == ODD ? -1 : position(bits, ODD & ~part);
            total += part == ODD ? b[q] : times(b[q], from >= 0 ? to_f64(weights[from]) : 0.0);
        }
        found[bits] = usable ? -total / b_0 : 1.0 / corner_count;
    }
    UNROLL
    for (int bits = 0; bits < 8; ++bits) {
        if (!(bits & ~ODD) && position(bits, ODD) >= 0) {
            weights[position(bits, ODD)] = As<T>::of(found[bits]);
        }
    }
}

// `classes` sets of axes, three bits of `odd` for each. Neighbouring blocks of threads have different sets, so that the matrix is read from memory about once.
template <class T>
DEVICE void black_box(const TransferShape &g, int classes, int odd, f64 rounding, int symmetric, const StencilShape &s, const StencilNumbers &numbers,
                      const In<T> &values, const Out<T> &weights) {
    const i64 round = block_index() / classes, index = round * BLOCK + thread_index();
    switch (odd >> 3 * static_cast<int>(block_index() - round * classes) & 7) {
    case 0: return black_box_along<T, 0>(index, g, rounding, symmetric, s, numbers, values, weights);
    case 1: return black_box_along<T, 1>(index, g, rounding, symmetric, s, numbers, values, weights);
    case 2: return black_box_along<T, 2>(index, g, rounding, symmetric, s, numbers, values, weights);
    case 3: return black_box_along<T, 3>(index, g, rounding, symmetric, s, numbers, values, weights);
    case 4: return black_box_along<T, 4>(index, g, rounding, symmetric, s, numbers, values, weights);
    case 5: return black_box_along<T, 5>(index, g, rounding, symmetric, s, numbers, values, weights);
    case 6: return black_box_along<T, 6>(index, g, rounding, symmetric, s, numbers, values, weights);
    default: return black_box_along<T, 7>(index, g, rounding, symmetric, s, numbers, values, weights);
    }
}

// A factor of a row or column: one where there is none, or its inverse.
DEVICE f64 factor_of(const In<f64> &s, int over, i64 i) { return s.len == 0 ? 1.0 : over ? 1.0 / s[i] : s[i]; }

template <class T>
DEVICE void scale_stencil(i64 cells, const StencilShape &g, const StencilOffsets &offsets, const In<T> &values, const In<f64> &left, int over_left,
                          const In<f64> &right, int over_right, const Out<T> &out) {
    const i64 cell = global_index();
    if (cell >= cells) {
        return;
    }
    const int b = g.block;
    const i64 size = array_size(g), own = place_of(g, cell);
    int at[3];
    point_of(g.dims, cell, at);
    for (int k = 0; k < offsets.count; ++k) {
        const i64 to = neighbour(g, offsets.code[k], at);
        for (int e = 0; to >= 0 && e < b * b; ++e) {
            const i64 place = (static_cast<i64>(k) * b * b + e) * size + own;
            const f64 by_row = times(to_f64(values[place]), factor_of(left, over_left, cell * b + e / b));
            out[place] = As<T>::of(times(by_row, factor_of(right, over_right, to * b + e % b)));
        }
    }
}

template <class T>
DEVICE void scale_transfer(const TransferShape &g, const In<T> &values, const In<f64> &fine, int over_fine, const In<f64> &coarse, int over_coarse,
                           const Out<T> &out) {
    const i64 cells = coarse_cells(g), array = global_index() / cells, cell = global_index() - array * cells;
    const int number = static_cast<int>(array / g.block), c = static_cast<int>(array % g.block);
    const int steps[3] = {steps_along(g, 0), steps_along(g, 1), steps_along(g, 2)};
    if (number >= steps[0] * steps[1] * steps[2]) {
        return;
    }
    const int at_step[3] = {number % steps[0], number / steps[0] % steps[1], number / (steps[0] * steps[1])};
    int at[3];
    point_of(g.coarse, cell, at);
    for (int axis = 0; axis < 3; ++axis) {
        at[axis] = child(g, axis, at[axis], g.axes[axis] ? at_step[axis] + g.low : 0);
        if (at[axis] < 0) {
            return;
        }
    }
    const i64 there = at[0] + g.fine[0] * (at[1] + static_cast<i64>(g.fine[1]) * at[2]), place = array * cells + cell;
    const f64 by_fine = times(to_f64(values[place]), factor_of(fine, over_fine, there * g.block + c));
    out[place] = As<T>::of(times(by_fine, factor_of(coarse, over_coarse, cell * g.block + c)));
}

#define STENCIL_SETUP(T) \
    KERNEL(stencil_couplings_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<T> values, Out<f64> parts) { \
        couplings<T>(cells, g, numbers, values, parts); \
    } \
    KERNEL(grid_weights_##T, TransferShape g, i32 linear, Out<T> weights) { plain_weights<T>(g, linear, weights); } \
    KERNEL_OF(2, black_box_##T, TransferShape g, i32 classes, i32 odd, f64 rounding, i32 symmetric, StencilShape s, StencilNumbers numbers, In<T> values, Out<T> weights) { \
        black_box<T>(g, classes, odd, rounding, symmetric, s, numbers, values, weights); \
    } \
    KERNEL(scale_stencil_##T, i64 cells, StencilShape g, StencilOffsets offsets, In<T> values, In<f64> left, i32 over_left, In<f64> right, \
           i32 over_right, Out<T> out) { \
        scale_stencil<T>(cells, g, offsets, values, left, over_left, right, over_right, out); \
    } \
    KERNEL(scale_transfer_##T, TransferShape g, In<T> values, In<f64> fine, i32 over_fine, In<f64> coarse, i32 over_coarse, Out<T> out) { \
        scale_transfer<T>(g, values, fine, over_fine, coarse, over_coarse, out); \
    }
FOR_SETUP(STENCIL_SETUP)
