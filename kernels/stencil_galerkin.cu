// Galerkin products R A P of stencils, with the bits of the host. R A comes first: for a coarse cell it has an entry for each fine cell at s = d + o,
// the sum over steps d of R and offsets o of A, in the order of d along z, of d along y and of o along x. R A P is the sum over s along z, y and x.
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

// The fine cells at s from a coarse one along an axis.
struct FinePlace {
    // The fine cells of the steps of R that lead there over an offset of A, by their numbers; -1 for others.
    int fine[3];
    // The coarse cells that it interpolates from at one offset of the coarse stencil, or -1, and the steps of P from there.
    int coarse[2];
    int step[2];

    DEVICE FinePlace(const TransferShape &g, const StencilShape &s, const StencilShape &to, int axis, int at, int sum, int offset) {
        coarse[0] = coarse[1] = -1;
        UNROLL
        for (int u = 0; u < 3; ++u) {
            const int o = sum - step_at(g, axis, u);
            fine[u] = u < steps_along(g, axis) && o >= -1 && o <= 1 ? child(g, axis, at, step_at(g, axis, u)) : -1;
            const int there = fine[u] < 0 ? -1 : grid_step(s.dims[axis], s.periodic[axis], fine[u], o);
            if (there < 0) {
                fine[u] = -1;
                continue;
            }
            UNROLL
            for (int i = 0; i < 2; ++i) {
                const int cell = parent(g, axis, there, i, step[i]);
                coarse[i] = cell >= 0 && coarse_step(to, axis, at, cell) == offset ? cell : -1;
            }
        }
    }
    // Step number u of R.
    static DEVICE int step_at(const TransferShape &g, int axis, int u) { return g.axes[axis] ? u + g.low : 0; }
    DEVICE bool is_needed() const { return coarse[0] >= 0 || coarse[1] >= 0; }
};

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
    // R A for the fine cells at x, y and z.
    const auto r_times_a = [&](const FinePlace &px, int x, const FinePlace &py, int y, const FinePlace &pz, int z) {
        T of_fine = 0;
        for (int w = 0; w < 3; ++w) {
            for (int v = 0; pz.fine[w] >= 0 && v < 3; ++v) {
                const int oz = z - FinePlace::step_at(g, 2, w), oy = y - FinePlace::step_at(g, 1, v);
                for (int u = 2; py.fine[v] >= 0 && u >= 0; --u) {
                    const int k = px.fine[u] < 0 ? -1 : numbers.of[x - FinePlace::step_at(g, 0, u) + 1 + 3 * (oy + 1) + 9 * (oz + 1)];
                    if (k >= 0) {
                        const i64 step = u + steps_along(g, 0) * (v + steps_along(g, 1) * static_cast<i64>(w));
                        const i64 line = py.fine[v] + static_cast<i64>(s.dims[1]) * pz.fine[w];
                        of_fine += times(r[(step * b + e / b) * cells + cell], a[(static_cast<i64>(k) * b * b + e) * size + line * s.pitch + px.fine[u]]);
                    }
                }
            }
        }
        return of_fine;
    };
    for (int z = -2; z <= 2; ++z) {
        const FinePlace pz(g, s, to, 2, at[2], z, step_of(code, 2));
        for (int y = -2; pz.is_needed() && y <= 2; ++y) {
            const FinePlace py(g, s, to, 1, at[1], y, step_of(code, 1));
            if (!py.is_needed()) {
                continue;
            }
            T of_fine[5];
            for (int x = -2; x <= 2; ++x) {
                const FinePlace px(g, s, to, 0, at[0], x, step_of(code, 0));
                of_fine[x + 2] = px.is_needed() ? r_times_a(px, x, py, y, pz, z) : T(0);
            }
            for (int ij = 0; ij < 4; ++ij) {
                const int i = ij / 2, j = ij % 2;
                for (int x = -2; pz.coarse[i] >= 0 && py.coarse[j] >= 0 && x <= 2; ++x) {
                    const FinePlace px(g, s, to, 0, at[0], x, step_of(code, 0));
                    for (int h = 0; h < 2; ++h) {
                        if (px.coarse[h] >= 0) {
                            const i64 coarse = px.coarse[h] + g.coarse[0] * (py.coarse[j] + static_cast<i64>(g.coarse[1]) * pz.coarse[i]);
                            const i64 number = number_of(g, px.step[h], py.step[j], pz.step[i]);
                            sum += times(of_fine[x + 2], p[(number * b + e % b) * cells + coarse]);
                        }
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
    // Whether the fine cell of the coarse one and the next can be read at once.
    bool in_pairs;
};

// Adds to R A for fine cells at -2 to 2 along x and S along y what goes over one plane of fine cells, which begins at `plane`; `r` is the place of its
// weights. The grid is coarser along x (X) and y (Y) or not.
template <class T, bool X, bool Y>
DEVICE void r_times_a(const GalerkinCell<T> &c, const i32 (&numbers)[9], int S, i64 r, i64 plane, T (&of_fine)[5]) {
    constexpr int STEPS_X = X ? 3 : 1, STEPS_Y = Y ? 3 : 1;
    UNROLL
    for (int v = 0; v < STEPS_Y; ++v) {
        const int oy = S - (Y ? v - 1 : 0);
        if (oy < -1 || oy > 1) {
            continue;
        }
        const i32 *number = numbers + 3 * (oy + 1);
        if (number[0] < 0 && number[1] < 0 && number[2] < 0) {
            continue;
        }
        const i64 line = plane + c.y.fine[Y ? v : 1] * c.pitch;
        // All loads of a line before the sums.
        T weights[STEPS_X], entries[3][STEPS_X];
        UNROLL
        for (int u = 0; u < STEPS_X; ++u) {
            weights[u] = c.r[r + (u + STEPS_X * v) * c.weights];
        }
        // Those of offsets that are not there from another one.
        const auto array = [&](int d) { return c.a.from((number[d] < 0 ? 0 : number[d]) * c.entries + line); };
        if (X && c.in_pairs) {
            UNROLL
            for (int d = 0; d < 3; ++d) {
                const Pack<T, 2> pair = array(d).template pack<2>(c.x.fine[1]);
                entries[d][0] = array(d)[c.x.fine[0]];
                entries[d][STEPS_X / 2] = pair.of[0];
                entries[d][STEPS_X - 1] = pair.of[1];
            }
        } else {
            UNROLL
            for (int d = 0; d < 3; ++d) {
                UNROLL
                for (int u = 0; u < STEPS_X; ++u) {
                    entries[d][u] = array(d)[c.x.fine[X ? u : 1]];
                }
            }
        }
        UNROLL
        for (int d = 0; d < 3; ++d) {
            UNROLL
            for (int u = 0; u < STEPS_X; ++u) {
                of_fine[X ? u + d : d + 1] += number[d] < 0 ? T(0) : times(weights[u], entries[d][u]);
            }
        }
    }
}

// Adds R A P to the 9 sums of a coarse plane, by steps along y and x. `p` is the place of the weights of P of that plane.
template <class T, bool X, bool Y> DEVICE void times_p(const GalerkinCell<T> &c, int S, i64 p, const T (&of_fine)[5], T (&sums)[9]) {
    constexpr int STEPS_X = X ? 3 : 1, CENTRE = X ? 1 : 0;
    // A line of fine cells between two coarse ones along y has weights of both.
    const bool between = Y && S % 2 != 0;
    UNROLL
    for (int i = 0; i < (between ? 2 : 1); ++i) {
        // The coarse line, and the number of the step of P from there.
        const int to = Y ? (between ? (S - 1) / 2 + i : S / 2) : S;
        const int step = Y ? (between ? (i == 0 ? 2 : 0) : 1) : 0;
        const int cy = c.y.coarse[to + 1];
        const i64 weights = p + STEPS_X * step * c.weights + static_cast<i64>(cy) * c.coarse_x;
        T weight[3][STEPS_X];
        UNROLL
        for (int t = 0; t < 3; ++t) {
            UNROLL
            for (int u = 0; u < STEPS_X; ++u) {
                const int s = X ? 2 * (t - 1) + u - 1 : t - 1;
                const bool is_there = s >= -2 && s <= 2 && cy >= 0 && c.x.coarse[t] >= 0;
                weight[t][u] = is_there ? c.p[weights + u * c.weights + c.x.coarse[t]] : T(0);
            }
        }
        UNROLL
        for (int t = 0; t < 3; ++t) {
            UNROLL
            for (int u = 0; u < STEPS_X; ++u) {
                const int s = X ? 2 * (t - 1) + u - CENTRE : t - 1;
                if (s >= -2 && s <= 2) {
                    sums[3 * (to + 1) + t] += times(of_fine[s + 2], weight[t][u]);
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
    constexpr int STEPS_X = X ? 3 : 1, STEPS_Y = Y ? 3 : 1, FAR = Y ? 2 : 1;
    const int b = s.block, mx = g.coarse[0], my = g.coarse[1], mz = g.coarse[2];
    const i64 cells = coarse_cells(g), entry = global_index() / cells, number = global_index() - entry * cells;
    if (entry >= b * b) {
        return;
    }
    const int e = static_cast<int>(entry);
    int at[3];
    tiled_point_of(g.coarse, number, at);
    const i64 cell = at[0] + mx * (at[1] + static_cast<i64>(my) * at[2]), size = array_size(s);
    const GalerkinCell<T> here{along_axis(g, 0, at[0]), along_axis(g, 1, at[1]), r, a, p, mx, b * cells, b * b * size, s.pitch, s.aligned != 0};
    const int coarser = g.axes[2], far = coarser ? 2 : 1, steps = coarser ? 3 : 1;
    const i64 to_size = array_size(to), place = e * to_size + place_of(to, cell);
    T low[9] = {}, high[9] = {};
    ROLLED
    for (int z = -far; z <= far; ++z) {
        const bool between = coarser && z % 2 != 0;
        const int below = coarser ? (z + 2) / 2 - 1 : z;
        // Weights of P along z: of the plane below, or the one of that very place, and where it lies between two of the one above.
        const auto weights = [&](int coarse, int step) {
            const int cz = grid_step(mz, g.periodic[2], at[2], coarse);
            return cz < 0 ? -1 : (static_cast<i64>(step) * STEPS_X * STEPS_Y * b + e % b) * cells + static_cast<i64>(cz) * mx * my;
        };
        const i64 of_low = weights(below, between ? 2 : coarser ? 1 : 0), of_high = between ? weights(below + 1, 0) : -1;
        UNROLL
        for (int y = -FAR; y <= FAR; ++y) {
            T of_fine[5] = {};
            ROLLED
            for (int w = 0; w < steps; ++w) {
                const int d = coarser ? w - 1 : 0, oz = z - d, fz = child(g, 2, at[2], d);
                if (oz < -1 || oz > 1 || fz < 0 || grid_step(s.dims[2], s.periodic[2], fz, oz) < 0) {
                    continue;
                }
                const i64 of_r = (static_cast<i64>(w) * STEPS_X * STEPS_Y * b + e / b) * cells + cell;
                i32 numbers[9];
                numbers_of_plane(of_a, oz, numbers);
                r_times_a<T, X, Y>(here, numbers, y, of_r, e * size + static_cast<i64>(fz) * s.dims[1] * s.pitch, of_fine);
            }
            if (of_low >= 0) {
                times_p<T, X, Y>(here, y, of_low, of_fine, low);
            }
            if (of_high >= 0) {
                times_p<T, X, Y>(here, y, of_high, of_fine, high);
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
