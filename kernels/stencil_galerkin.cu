// Galerkin products R A P of stencils, with the bits of the host. The sum of an entry runs over s = d + o along z, for a step d of R and an offset o of A,
// and over d; then over the same along y; then over offsets and steps along x.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// The step that leads from one coarse cell to another along an axis.
DEVICE int coarse_step(const StencilShape &g, int axis, int from, int to) {
    if (from == to) {
        return 0;
    }
    return grid_step(g.dims[axis], g.periodic[axis], from, 1) == to ? 1 : -1;
}

// Any grids and transfers: an entry for a coarse cell, an offset of the coarse stencil and an entry of the blocks; ones for zeros on the diagonal.
template <class T>
DEVICE void galerkin(const TransferShape &g, const StencilShape &s, const StencilShape &to, const StencilOffsets &offsets,
                     const StencilNumbers &numbers, const In<T> &r, const In<T> &a, const In<T> &p, const Out<T> &out) {
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
    // Adds what goes over step number w of R and offset oz along z, and v and oy along y.
    const auto add = [&](int w, int oz, int v, int oy) {
        const int fz = child(g, 2, at[2], g.axes[2] ? w + g.low : 0), fy = child(g, 1, at[1], g.axes[1] ? v + g.low : 0);
        const int jy = fy < 0 ? -1 : grid_step(s.dims[1], s.periodic[1], fy, oy), jz = fz < 0 ? -1 : grid_step(s.dims[2], s.periodic[2], fz, oz);
        if (jy < 0 || jz < 0) {
            return;
        }
        // Coarse lines of P that lead to the offset, at most two along each axis.
        int cy[2], cz[2], sy[2], sz[2];
        for (int i = 0; i < 2; ++i) {
            cz[i] = parent(g, 2, jz, i, sz[i]);
            cz[i] = cz[i] >= 0 && coarse_step(to, 2, at[2], cz[i]) == step_of(code, 2) ? cz[i] : -1;
            cy[i] = parent(g, 1, jy, i, sy[i]);
            cy[i] = cy[i] >= 0 && coarse_step(to, 1, at[1], cy[i]) == step_of(code, 1) ? cy[i] : -1;
        }
        const bool any = (cz[0] >= 0 || cz[1] >= 0) && (cy[0] >= 0 || cy[1] >= 0);
        for (int d = 0; any && d < 3; ++d) {
            const int k = numbers.of[d + 3 * (oy + 1) + 9 * (oz + 1)];
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
                                product = times(r[(step * b + e / b) * cells + cell], a[(static_cast<i64>(k) * b * b + e) * size + line * s.pitch + fx]);
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
    };
    for (int z = -2; z <= 2; ++z) {
        for (int w = 0; w < steps_along(g, 2); ++w) {
            const int oz = z - (g.axes[2] ? w + g.low : 0);
            for (int y = -2; oz >= -1 && oz <= 1 && y <= 2; ++y) {
                for (int v = 0; v < steps_along(g, 1); ++v) {
                    const int oy = y - (g.axes[1] ? v + g.low : 0);
                    if (oy >= -1 && oy <= 1) {
                        add(w, oz, v, oy);
                    }
                }
            }
        }
    }
    const bool is_diagonal = code == 13 && e / b == e % b;
    out[array * array_size(to) + place_of(to, cell)] = is_diagonal && sum == T(0) ? T(1) : sum;
}

// The cells around a coarse one along an axis. Where there is none, weights are not read, and entries that are multiplied by zero are those of the
// nearest cell.
struct AlongAxis {
    // Coarse cells at steps -1, 0 and 1, or -1.
    int coarse[3];
    // Fine cells at the steps of R.
    int fine[3];
};

DEVICE AlongAxis along_axis(const TransferShape &g, int axis, int at) {
    AlongAxis cells;
    UNROLL
    for (int step = -1; step <= 1; ++step) {
        cells.coarse[step + 1] = grid_step(g.coarse[axis], g.periodic[axis], at, step);
        const int fine = child(g, axis, at, g.axes[axis] ? step : 0);
        cells.fine[step + 1] = fine >= 0 ? fine : g.axes[axis] ? 2 * at : at;
    }
    return cells;
}

// The numbers of the offsets with a step along z.
DEVICE void numbers_of_plane(const StencilNumbers &numbers, int step, i32 (&of)[9]) {
    UNROLL
    for (int k = 0; k < 9; ++k) {
        of[k] = step < 0 ? numbers.of[k] : step == 0 ? numbers.of[9 + k] : numbers.of[18 + k];
    }
}

// One entry of the blocks of a coarse cell, and what it reads.
template <class T> struct GalerkinCell {
    AlongAxis x, y;
    In<T> r, a, p;
    // Cells of the coarse grid along x.
    int coarse_x;
    // Elements between the weights of one step and the next, between the arrays of two offsets, and of a line.
    i64 weights, entries, pitch;
};

// Adds what goes over the lines of one plane of fine cells, which begins at `plane`, to the sums for the coarse planes of TARGETS places of P along z: 9 for
// each, by steps along y and x. `r` and `p` are places of weights, those of p without lines and cells; -1 where there is no such plane.
template <class T, bool X, bool Y, int TARGETS>
DEVICE void add_plane(const GalerkinCell<T> &c, const i32 (&numbers)[9], i64 r, i64 plane, const i64 *p, T (&low)[9], T (&high)[9]) {
    constexpr int STEPS_X = X ? 3 : 1, STEPS_Y = Y ? 3 : 1, FAR = Y ? 2 : 1;
    UNROLL
    for (int s = -FAR; s <= FAR; ++s) {
        // A line of fine cells between two coarse ones along y has weights of both.
        const bool between = Y && s % 2 != 0;
        UNROLL
        for (int v = 0; v < STEPS_Y; ++v) {
            const int oy = s - (Y ? v - 1 : 0);
            if (oy < -1 || oy > 1) {
                continue;
            }
            const i32 *number = numbers + 3 * (oy + 1);
            if (number[0] < 0 && number[1] < 0 && number[2] < 0) {
                continue;
            }
            const i64 line = plane + c.y.fine[Y ? v : 1] * c.pitch;
            T products[3][STEPS_X];
            UNROLL
            for (int d = 0; d < 3; ++d) {
                UNROLL
                for (int u = 0; u < STEPS_X; ++u) {
                    const T entry = number[d] >= 0 ? c.a[number[d] * c.entries + line + c.x.fine[X ? u : 1]] : T(0);
                    products[d][u] = times(c.r[r + (u + STEPS_X * v) * c.weights], entry);
                }
            }
            UNROLL
            for (int t = 0; t < TARGETS; ++t) {
                UNROLL
                for (int i = 0; i < (between ? 2 : 1); ++i) {
                    // The coarse line, and the number of the step of P from there.
                    const int to = Y ? (between ? (s - 1) / 2 + i : s / 2) : s;
                    const int step = Y ? (between ? (i == 0 ? 2 : 0) : 1) : 0;
                    const int cy = c.y.coarse[to + 1];
                    const i64 weights = p[t] + STEPS_X * step * c.weights + static_cast<i64>(cy) * c.coarse_x;
                    const auto weight = [&](int dx, int u) {
                        const int cx = c.x.coarse[dx + 1];
                        return p[t] >= 0 && cy >= 0 && cx >= 0 ? c.p[weights + u * c.weights + cx] : T(0);
                    };
                    constexpr int CENTRE = X ? 1 : 0;
                    const T at[3] = {weight(-1, CENTRE), weight(0, CENTRE), weight(1, CENTRE)};
                    const T right_of[2] = {X ? weight(-1, 2) : T(0), X ? weight(0, 2) : T(0)};
                    const T left_of[2] = {X ? weight(0, 0) : T(0), X ? weight(1, 0) : T(0)};
                    T *sums = (t == 0 ? low : high) + 3 * (to + 1);
                    UNROLL
                    for (int d = 0; d < 3; ++d) {
                        UNROLL
                        for (int u = 0; u < STEPS_X; ++u) {
                            // Steps from the fine cell of the coarse one: even ones lead to a coarse cell, odd ones between two.
                            const int f = X ? u - 1 + d - 1 : 2 * (d - 1);
                            if (f == -1 || f == 1) {
                                const int k = f == -1 ? 0 : 1;
                                sums[k] += times(products[d][u], right_of[k]);
                                sums[k + 1] += times(products[d][u], left_of[k]);
                            } else {
                                sums[f / 2 + 1] += times(products[d][u], at[f / 2 + 1]);
                            }
                        }
                    }
                }
            }
        }
    }
}

// Transfers with steps from -1 on, coarser along x (X), y (Y) and z or not; no odd or short rings. A thread has all offsets of a coarse cell and an entry of
// the blocks. It goes through the planes of fine cells from the lowest on, and has the sums for two coarse planes at a time.
template <class T, bool X, bool Y>
DEVICE void galerkin_box(const TransferShape &g, const StencilShape &s, const StencilShape &to, const StencilNumbers &of_a,
                         const StencilNumbers &of_out, const In<T> &r, const In<T> &a, const In<T> &p, const Out<T> &out) {
    constexpr int STEPS_X = X ? 3 : 1, STEPS_Y = Y ? 3 : 1;
    const int b = s.block, mx = g.coarse[0], my = g.coarse[1], mz = g.coarse[2];
    const i64 cells = coarse_cells(g), entry = global_index() / cells, number = global_index() - entry * cells;
    if (entry >= b * b) {
        return;
    }
    const int e = static_cast<int>(entry);
    int at[3];
    tiled_point_of(g.coarse, number, at);
    const i64 cell = at[0] + mx * (at[1] + static_cast<i64>(my) * at[2]), size = array_size(s);
    const GalerkinCell<T> here{along_axis(g, 0, at[0]), along_axis(g, 1, at[1]), r, a, p, mx, b * cells, b * b * size, s.pitch};
    const int coarser = g.axes[2], far = coarser ? 2 : 1, steps = coarser ? 3 : 1;
    const i64 to_size = array_size(to), place = e * to_size + place_of(to, cell);
    T low[9] = {}, high[9] = {};
    ROLLED
    for (int z = -far; z <= far; ++z) {
        const bool between = coarser && z % 2 != 0;
        const int below = coarser ? (z + 2) / 2 - 1 : z;
        ROLLED
        for (int w = 0; w < steps; ++w) {
            const int d = coarser ? w - 1 : 0, oz = z - d, fz = child(g, 2, at[2], d);
            if (oz < -1 || oz > 1 || fz < 0 || grid_step(s.dims[2], s.periodic[2], fz, oz) < 0) {
                continue;
            }
            // Places of P along z: the plane below, or the one of that very place, and where it lies between two the one above.
            const auto weights = [&](int coarse, int step) {
                const int cz = grid_step(mz, g.periodic[2], at[2], coarse);
                return cz < 0 ? -1 : (static_cast<i64>(step) * STEPS_X * STEPS_Y * b + e % b) * cells + static_cast<i64>(cz) * mx * my;
            };
            const i64 of_r = (static_cast<i64>(w) * STEPS_X * STEPS_Y * b + e / b) * cells + cell;
            const i64 plane = e * size + static_cast<i64>(fz) * s.dims[1] * s.pitch;
            i32 numbers[9];
            numbers_of_plane(of_a, oz, numbers);
            if (between) {
                const i64 both[2] = {weights(below, 2), weights(below + 1, 0)};
                add_plane<T, X, Y, 2>(here, numbers, of_r, plane, both, low, high);
            } else {
                const i64 one[1] = {weights(below, coarser ? 1 : 0)};
                add_plane<T, X, Y, 1>(here, numbers, of_r, plane, one, low, high);
            }
        }
        // An even place above leads to the plane that was the upper one.
        if (coarser && !between && z < far) {
            continue;
        }
        i32 numbers[9];
        numbers_of_plane(of_out, below, numbers);
        UNROLL
        for (int k = 0; k < 9; ++k) {
            if (numbers[k] >= 0) {
                const bool is_diagonal = below == 0 && k == 4 && e / b == e % b;
                out[numbers[k] * (b * b * to_size) + place] = is_diagonal && low[k] == T(0) ? T(1) : low[k];
            }
            low[k] = high[k];
            high[k] = T(0);
        }
    }
}

#define GALERKIN_BOX(NAME, T, X, Y) \
    KERNEL_OF(2, stencil_galerkin_##NAME##_##T, TransferShape g, StencilShape s, StencilShape to, StencilNumbers of_a, StencilNumbers of_out, In<T> r, In<T> a, \
           In<T> p, Out<T> out) { \
        galerkin_box<T, X, Y>(g, s, to, of_a, of_out, r, a, p, out); \
    }
#define STENCIL_GALERKIN(T) \
    KERNEL(stencil_galerkin_##T, TransferShape g, StencilShape s, StencilShape to, StencilOffsets offsets, StencilNumbers numbers, In<T> r, In<T> a, \
           In<T> p, Out<T> out) { \
        galerkin<T>(g, s, to, offsets, numbers, r, a, p, out); \
    } \
    GALERKIN_BOX(xy, T, true, true)
FOR_SETUP(STENCIL_GALERKIN)
// Semicoarsening in set-up in f32 is too rare for kernels of its own.
GALERKIN_BOX(x, f64, true, false)
GALERKIN_BOX(y, f64, false, true)
GALERKIN_BOX(same, f64, false, false)
