// Multigrid on structured grids: couplings along the axes, interpolation weights, Galerkin products and scaling of stencils, with the bits of the host.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// For each block of threads three sums over cells: couplings along x, y and z in relation to the strongest axis of each unknown.
template <class T> DEVICE void couplings(i64 cells, const StencilShape &g, const StencilOffsets &offsets, const In<T> &values, const Out<f64> &parts) {
    f64 sums[3] = {};
    const int b = g.block;
    for (i64 i = global_index(); i < cells * b; i += block_count() * BLOCK) {
        const i64 cell = i / b, own = place_of(g, cell), size = array_size(g);
        const int c = static_cast<int>(i - cell * b);
        f64 sides[3][2] = {};
        for (int k = 0; k < offsets.count; ++k) {
            const f64 value = to_f64(values[((static_cast<i64>(k) * b + c) * b + c) * size + own]);
            UNROLL
            for (int axis = 0; axis < 3; ++axis) {
                const int step = step_of(offsets.code[k], axis);
                sides[axis][0] += step < 0 ? value : 0.0;
                sides[axis][1] += step > 0 ? value : 0.0;
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

// Weights that do not depend on the matrix: ones (constant, and those of the coarse cells themselves), or halves (linear).
template <class T> DEVICE void plain_weights(const TransferShape &g, int linear, int centre_alone, const Out<T> &weights) {
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
        if (fine < 0 || (centre_alone && d != 0)) {
            return;
        }
        int step;
        const int count = (parent(g, axis, fine, 0, step) >= 0 ? 1 : 0) + (parent(g, axis, fine, 1, step) >= 0 ? 1 : 0);
        weight = linear ? times(weight, 1.0 / count) : weight;
    }
    weights[array * cells + cell] = As<T>::of(weight);
}

// Whether offset q steps along the axes ODD alone.
template <int ODD> DEVICE bool steps_along_odd(int q) {
    return (step_of(q, 0) == 0 || (ODD & 1)) && (step_of(q, 1) == 0 || (ODD & 2)) && (step_of(q, 2) == 0 || (ODD & 4));
}

// Black-box weights of the fine cells that lie between coarse ones along the axes ODD, a bit for each; those of fewer axes are there. The axes are
// known when it is compiled, so that b stays in registers.
template <class T, int ODD>
DEVICE void black_box_along(i64 count, const TransferShape &g, f64 rounding, const StencilShape &s, const StencilOffsets &offsets,
                            const In<T> &values, const Out<T> &weights) {
    const i64 number = global_index() / s.block;
    const int c = static_cast<int>(global_index() - number * s.block);
    if (number >= count) {
        return;
    }
    // The place of the cell: along the axes ODD the odd ones, along other coarsened axes the even ones.
    int at[3];
    i32 dims[3];
    for (int axis = 0; axis < 3; ++axis) {
        dims[axis] = !g.axes[axis] ? g.fine[axis] : ODD >> axis & 1 ? g.fine[axis] / 2 : (g.fine[axis] + 1) / 2;
    }
    point_of(dims, number, at);
    for (int axis = 0; axis < 3; ++axis) {
        at[axis] = g.axes[axis] ? 2 * at[axis] + (ODD >> axis & 1) : at[axis];
    }
    // The equation of the cell from the symmetric part of the matrix, entries along other axes added up.
    const i64 size = array_size(s), own = at[0] + s.pitch * (at[1] + static_cast<i64>(g.fine[1]) * at[2]);
    f64 b[27] = {};
    f64 diagonal = 0.0, all = 0.0, absolute = 0.0;
    for (int k = 0; k < offsets.count; ++k) {
        const i64 to = neighbour_place(s, offsets.code[k], at);
        if (to < 0) {
            continue;
        }
        const auto entry_of = [&](int k, i64 place) { return to_f64(values[((static_cast<i64>(k) * s.block + c) * s.block + c) * size + place]); };
        const f64 there = offsets.opposite[k] < 0 ? 0.0 : entry_of(offsets.opposite[k], to);
        const f64 entry = times(0.5, entry_of(k, own) + there);
        all += entry;
        absolute += magnitude(entry);
        diagonal = offsets.code[k] == 13 ? entry : diagonal;
        int projected = 13;
        for (int axis = 0, unit = 1; axis < 3; ++axis, unit *= 3) {
            projected += ODD >> axis & 1 ? unit * step_of(offsets.code[k], axis) : 0;
        }
        UNROLL
        for (int q = 0; q < 27; ++q) {
            if (steps_along_odd<ODD>(q)) {
                b[q] += q == projected ? entry : 0.0;
            }
        }
    }
    const f64 sum = magnitude(all) <= times(rounding, absolute) ? 0.0 : all;
    f64 others = 0.0;
    UNROLL
    for (int q = 0; q < 27; ++q) {
        others += q == 13 ? 0.0 : b[q];
    }
    const f64 b_0 = sum - others;
    const bool usable = times(b_0, diagonal) > 0.0 && magnitude(b_0) > times(rounding, absolute);
    const i64 cells = coarse_cells(g);
    // Corners that exist, and then the weight of each.
    f64 corners = 0.0;
    for (int pass = 0; pass < 2; ++pass) {
        UNROLL
        for (int bits = 0; bits < 8; ++bits) {
            if (bits & ~ODD) {
                continue;
            }
            int side[3], corner[3], step;
            bool exists = true;
            UNROLL
            for (int axis = 0; axis < 3; ++axis) {
                const int right = bits >> axis & 1, is_odd = ODD >> axis & 1;
                corner[axis] = parent(g, axis, at[axis], is_odd ? right : 0, step);
                side[axis] = is_odd ? (right ? 1 : -1) : 0;
                exists = exists && corner[axis] >= 0;
            }
            if (!exists) {
                continue;
            }
            if (pass == 0) {
                corners += 1.0;
                continue;
            }
            const i64 coarse = corner[0] + g.coarse[0] * (corner[1] + static_cast<i64>(g.coarse[1]) * corner[2]);
            f64 weight = 1.0 / corners;
            if (usable) {
                // All steps towards the corner: its side along some of the axes.
                f64 total = 0.0;
                UNROLL
                for (int part = 1; part < 8; ++part) {
                    if (part & ~ODD) {
                        continue;
                    }
                    int q = 13, left[3];
                    UNROLL
                    for (int axis = 0, unit = 1; axis < 3; ++axis, unit *= 3) {
                        q += part >> axis & 1 ? unit * side[axis] : 0;
                        left[axis] = (ODD & ~part) >> axis & 1 ? -side[axis] : 0;
                    }
                    const i64 array = (static_cast<i64>(number_of(g, left[0], left[1], left[2])) * s.block + c) * cells;
                    total += times(b[q], to_f64(weights[array + coarse]));
                }
                weight = -total / b_0;
            }
            weights[(static_cast<i64>(number_of(g, -side[0], -side[1], -side[2])) * s.block + c) * cells + coarse] = As<T>::of(weight);
        }
    }
}

template <class T>
DEVICE void black_box(i64 count, const TransferShape &g, int odd, f64 rounding, const StencilShape &s, const StencilOffsets &offsets,
                      const In<T> &values, const Out<T> &weights) {
    switch (odd) {
    case 1: return black_box_along<T, 1>(count, g, rounding, s, offsets, values, weights);
    case 2: return black_box_along<T, 2>(count, g, rounding, s, offsets, values, weights);
    case 3: return black_box_along<T, 3>(count, g, rounding, s, offsets, values, weights);
    case 4: return black_box_along<T, 4>(count, g, rounding, s, offsets, values, weights);
    case 5: return black_box_along<T, 5>(count, g, rounding, s, offsets, values, weights);
    case 6: return black_box_along<T, 6>(count, g, rounding, s, offsets, values, weights);
    default: return black_box_along<T, 7>(count, g, rounding, s, offsets, values, weights);
    }
}

// The step that leads from one coarse cell to another along an axis.
DEVICE int coarse_step(const StencilShape &g, int axis, int from, int to) {
    if (from == to) {
        return 0;
    }
    return grid_step(g.dims[axis], g.periodic[axis], from, 1) == to ? 1 : -1;
}

// R A P: an entry for a coarse cell, an offset of the coarse stencil and an entry of the blocks; ones for zeros on the diagonal. The sum is in the
// order of the host: over steps of R along z and y, lines of A, offsets of a line, steps of R along x, and coarse cells of P.
template <class T>
DEVICE void galerkin(const TransferShape &g, const StencilShape &s, const StencilShape &to, const StencilOffsets &offsets, const In<T> &r,
                     const In<T> &a, const In<T> &p, const Out<T> &out) {
    const i64 cells = coarse_cells(g), array = global_index() / cells, cell = global_index() - array * cells;
    const int b = s.block, e = static_cast<int>(array % (b * b)), offset = static_cast<int>(array / (b * b));
    if (offset >= offsets.count) {
        return;
    }
    const int code = offsets.code[offset];
    const i64 size = array_size(s);
    int at[3];
    point_of(g.coarse, cell, at);
    T sum = 0;
    for (int w = 0; w < steps_along(g, 2); ++w) {
        const int fz = child(g, 2, at[2], g.axes[2] ? w + g.low : 0);
        for (int v = 0; fz >= 0 && v < steps_along(g, 1); ++v) {
            const int fy = child(g, 1, at[1], g.axes[1] ? v + g.low : 0);
            for (int l = 0; fy >= 0 && l < s.lines; ++l) {
                const int jy = grid_step(s.dims[1], s.periodic[1], fy, s.dy[l]), jz = grid_step(s.dims[2], s.periodic[2], fz, s.dz[l]);
                if (jy < 0 || jz < 0) {
                    continue;
                }
                // Coarse lines of P that lead to the offset, at most two along each axis.
                int cy[2], cz[2], sy[2], sz[2];
                bool any = false;
                for (int i = 0; i < 2; ++i) {
                    cz[i] = parent(g, 2, jz, i, sz[i]);
                    cz[i] = cz[i] >= 0 && coarse_step(to, 2, at[2], cz[i]) == step_of(code, 2) ? cz[i] : -1;
                    cy[i] = parent(g, 1, jy, i, sy[i]);
                    cy[i] = cy[i] >= 0 && coarse_step(to, 1, at[1], cy[i]) == step_of(code, 1) ? cy[i] : -1;
                }
                any = (cz[0] >= 0 || cz[1] >= 0) && (cy[0] >= 0 || cy[1] >= 0);
                for (int d = 0; any && d < 3; ++d) {
                    const int k = s.number[3 * l + d];
                    for (int u = 0; k >= 0 && u < steps_along(g, 0); ++u) {
                        const int fx = child(g, 0, at[0], g.axes[0] ? u + g.low : 0);
                        const int jx = fx < 0 ? -1 : grid_step(s.dims[0], s.periodic[0], fx, d - 1);
                        if (jx < 0) {
                            continue;
                        }
                        const i64 step = u + steps_along(g, 0) * (v + steps_along(g, 1) * static_cast<i64>(w));
                        const i64 line = fy + static_cast<i64>(s.dims[1]) * fz;
                        bool has_product = false;
                        T product = 0;
                        for (int i = 0; i < 2; ++i) {
                            for (int j = 0; cz[i] >= 0 && j < 2; ++j) {
                                for (int h = 0; cy[j] >= 0 && h < 2; ++h) {
                                    int sx;
                                    const int cx = parent(g, 0, jx, h, sx);
                                    if (cx < 0 || coarse_step(to, 0, at[0], cx) != step_of(code, 0)) {
                                        continue;
                                    }
                                    if (!has_product) {
                                        product = times(r[(step * b + e / b) * cells + cell],
                                                        a[(static_cast<i64>(k) * b * b + e) * size + line * s.pitch + fx]);
                                        has_product = true;
                                    }
                                    const i64 coarse = cx + g.coarse[0] * (cy[j] + static_cast<i64>(g.coarse[1]) * cz[i]);
                                    const i64 number = number_of(g, sx, sy[j], sz[i]);
                                    sum += times(product, p[(number * b + e % b) * cells + coarse]);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    const bool is_diagonal = code == 13 && e / b == e % b;
    out[array * array_size(to) + place_of(to, cell)] = is_diagonal && sum == T(0) ? T(1) : sum;
}

// The same where x is not periodic, and coarsened by interpolation (COARSER) or not at all: a thread has the entries for all steps along x of a line of
// offsets of the coarse stencil. What depends on x is known when it is compiled.
template <class T, bool COARSER>
DEVICE void galerkin_lines(const TransferShape &g, const StencilShape &s, const StencilShape &to, const In<T> &r, const In<T> &a, const In<T> &p,
                           const Out<T> &out) {
    const i64 cells = coarse_cells(g), array = global_index() / cells, cell = global_index() - array * cells;
    const int b = s.block, e = static_cast<int>(array % (b * b)), line = static_cast<int>(array / (b * b));
    if (line >= to.lines) {
        return;
    }
    constexpr int STEPS = COARSER ? 3 : 1;
    int at[3];
    point_of(g.coarse, cell, at);
    const int x0 = COARSER ? 2 * at[0] : at[0];
    const i64 size = array_size(s);
    T sums[3] = {};
    for (int w = 0; w < steps_along(g, 2); ++w) {
        const int fz = child(g, 2, at[2], g.axes[2] ? w + g.low : 0);
        for (int v = 0; fz >= 0 && v < steps_along(g, 1); ++v) {
            const int fy = child(g, 1, at[1], g.axes[1] ? v + g.low : 0);
            if (fy < 0) {
                continue;
            }
            T weights[STEPS];
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                const i64 step = u + STEPS * (v + steps_along(g, 1) * static_cast<i64>(w));
                weights[u] = r[(step * b + e / b) * cells + cell];
            }
            const i64 own = (fy + static_cast<i64>(s.dims[1]) * fz) * s.pitch;
            for (int l = 0; l < s.lines; ++l) {
                const int jy = grid_step(s.dims[1], s.periodic[1], fy, s.dy[l]), jz = grid_step(s.dims[2], s.periodic[2], fz, s.dz[l]);
                // The coarse line of P that leads to the line of offsets, at most two along each axis.
                for (int i = 0; jy >= 0 && jz >= 0 && i < 2; ++i) {
                    int sz, sy;
                    const int cz = parent(g, 2, jz, i, sz);
                    for (int j = 0; cz >= 0 && coarse_step(to, 2, at[2], cz) == to.dz[line] && j < 2; ++j) {
                        const int cy = parent(g, 1, jy, j, sy);
                        if (cy < 0 || coarse_step(to, 1, at[1], cy) != to.dy[line]) {
                            continue;
                        }
                        const i64 there = at[0] + g.coarse[0] * (cy + static_cast<i64>(g.coarse[1]) * cz);
                        const i64 lines = step_number(g, 1, sy) + steps_along(g, 1) * static_cast<i64>(step_number(g, 2, sz));
                        // The weight of the coarse cell `dx` cells away for its step number `u` along x.
                        const auto weight = [&](int dx, int u) {
                            const int x = at[0] + dx;
                            return x < 0 || x >= g.coarse[0] ? T(0) : p[((u + STEPS * lines) * b + e % b) * cells + there + dx];
                        };
                        const T left = weight(-1, COARSER ? 1 : 0), middle = weight(0, COARSER ? 1 : 0), right = weight(1, COARSER ? 1 : 0);
                        const T left_up = COARSER ? weight(-1, 2) : T(0), middle_down = COARSER ? weight(0, 0) : T(0);
                        const T middle_up = COARSER ? weight(0, 2) : T(0), right_down = COARSER ? weight(1, 0) : T(0);
                        UNROLL
                        for (int d = 0; d < 3; ++d) {
                            const int k = s.number[3 * l + d];
                            UNROLL
                            for (int u = 0; u < STEPS; ++u) {
                                const int du = COARSER ? u - 1 : 0, fx = x0 + du, jx = fx + d - 1;
                                if (k < 0 || fx < 0 || fx >= s.dims[0] || jx < 0 || jx >= s.dims[0]) {
                                    continue;
                                }
                                const T product = times(weights[u], a[(static_cast<i64>(k) * b * b + e) * size + own + fx]);
                                // Steps from the fine cell of the coarse one: even ones lead to a coarse cell, odd ones between two.
                                const int f = COARSER ? du + d - 1 : 2 * (d - 1);
                                if (f == -2) {
                                    sums[0] += times(product, left);
                                } else if (f == -1) {
                                    sums[0] += times(product, left_up);
                                    sums[1] += times(product, middle_down);
                                } else if (f == 0) {
                                    sums[1] += times(product, middle);
                                } else if (f == 1) {
                                    sums[1] += times(product, middle_up);
                                    sums[2] += times(product, right_down);
                                } else {
                                    sums[2] += times(product, right);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    const bool is_own = to.dy[line] == 0 && to.dz[line] == 0 && e / b == e % b;
    UNROLL
    for (int d = 0; d < 3; ++d) {
        const int number = to.number[3 * line + d];
        if (number >= 0) {
            out[(static_cast<i64>(number) * b * b + e) * array_size(to) + place_of(to, cell)] = is_own && d == 1 && sums[d] == T(0) ? T(1) : sums[d];
        }
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
    KERNEL(stencil_couplings_##T, i64 cells, StencilShape g, StencilOffsets offsets, In<T> values, Out<f64> parts) { \
        couplings<T>(cells, g, offsets, values, parts); \
    } \
    KERNEL(grid_weights_##T, TransferShape g, i32 linear, i32 centre_alone, Out<T> weights) { plain_weights<T>(g, linear, centre_alone, weights); } \
    KERNEL(black_box_##T, i64 count, TransferShape g, i32 odd, f64 rounding, StencilShape s, StencilOffsets offsets, In<T> values, Out<T> weights) { \
        black_box<T>(count, g, odd, rounding, s, offsets, values, weights); \
    } \
    KERNEL(stencil_galerkin_##T, TransferShape g, StencilShape s, StencilShape to, StencilOffsets offsets, In<T> r, In<T> a, In<T> p, Out<T> out) { \
        galerkin<T>(g, s, to, offsets, r, a, p, out); \
    } \
    KERNEL(stencil_galerkin_coarser_##T, TransferShape g, StencilShape s, StencilShape to, In<T> r, In<T> a, In<T> p, Out<T> out) { \
        galerkin_lines<T, true>(g, s, to, r, a, p, out); \
    } \
    KERNEL(stencil_galerkin_same_##T, TransferShape g, StencilShape s, StencilShape to, In<T> r, In<T> a, In<T> p, Out<T> out) { \
        galerkin_lines<T, false>(g, s, to, r, a, p, out); \
    } \
    KERNEL(scale_stencil_##T, i64 cells, StencilShape g, StencilOffsets offsets, In<T> values, In<f64> left, i32 over_left, In<f64> right, \
           i32 over_right, Out<T> out) { \
        scale_stencil<T>(cells, g, offsets, values, left, over_left, right, over_right, out); \
    } \
    KERNEL(scale_transfer_##T, TransferShape g, In<T> values, In<f64> fine, i32 over_fine, In<f64> coarse, i32 over_coarse, Out<T> out) { \
        scale_transfer<T>(g, values, fine, over_fine, coarse, over_coarse, out); \
    }
FOR_SETUP(STENCIL_SETUP)
