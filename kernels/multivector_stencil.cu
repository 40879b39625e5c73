// Stencils, transfers between their grids, and Gauss-Seidel on them for multivectors, with one unknown for each cell. A thread has four vectors of one
// cell, or of two neighbours of a line: it reads an entry once for all of them. Sums are those for one vector. Lines along x are not periodic.
#include "grid_transfer.h"
#include "multivector_rows.h"
#include "stencil_colours.h"

// Blocks of threads that are to fit on a multiprocessor. Sums of two cells in f64 take more registers than four leave.
template <class T> constexpr int BLOCKS = sizeof(T) == 8 ? 3 : 4;

// Adds the products of the cells at x0 and x0 + 1 of a line with line l of the stencil.
template <class Lines, class S, class T, class X>
DEVICE void add_to_pair(const StencilShape &g, int l, const Cell &cell, int x0, const RowThreads &threads, const In<S> &values, const X &x,
                        T (*sums)[OWN]) {
    const int nx = g.dims[0];
    const i64 to = Lines::at(g, l, cell.y, cell.z), own = cell.line * g.pitch + x0, size = array_size(g);
    if (to < 0) {
        return;
    }
    T value[3][2] = {};
    // Cells x0 - 1 to x0 + 2.
    T window[4][OWN] = {};
    UNROLL
    for (int d = 0; d < 3; ++d) {
        const int number = Lines::number(g, l, d);
        if (number >= 0) {
            value[d][0] = As<T>::of(values[number * size + own]);
            value[d][1] = x0 + 1 < nx ? As<T>::of(values[number * size + own + 1]) : T(0);
        }
    }
    UNROLL
    for (int w = 0; w < 4; ++w) {
        const int there = x0 - 1 + w;
        // The steps from both cells that lead there.
        const bool is_read = (w < 3 && Lines::number(g, l, w < 3 ? w : 0) >= 0) || (w > 0 && Lines::number(g, l, w > 0 ? w - 1 : 0) >= 0);
        if (is_read && there >= 0 && there < nx) {
            threads.template load<T>(x, to * nx + there, window[w]);
        }
    }
    UNROLL
    for (int d = 0; d < 3; ++d) {
        UNROLL
        for (int q = 0; q < 2; ++q) {
            UNROLL
            for (int j = 0; j < OWN; ++j) {
                sums[q][j] += value[d][q] * window[q + d][j];
            }
        }
    }
}

// The same with all lines of the stencil but `without`.
template <class Lines, class S, class T, class X>
DEVICE void add_lines_to_pair(const StencilShape &g, int without, const Cell &cell, int x0, const RowThreads &threads, const In<S> &values, const X &x,
                              T (*sums)[OWN]) {
    if (Lines::COUNT > 0) {
        UNROLL
        for (int l = 0; l < Lines::COUNT; ++l) {
            if (l != without) {
                add_to_pair<Lines, S, T>(g, l, cell, x0, threads, values, x, sums);
            }
        }
    } else {
        ROLLED
        for (int l = 0; l < g.lines; ++l) {
            if (l != without) {
                add_to_pair<Lines, S, T>(g, l, cell, x0, threads, values, x, sums);
            }
        }
    }
}

// Products: a thread has two cells.
template <class Lines, class S, class T> DEVICE void product(int shift, const StencilShape &g, const In<S> &values, const In<T> &x, const Epilogue &f) {
    const RowThreads threads(shift);
    const int nx = g.dims[0], pairs = (nx + 1) / 2;
    const Cell cell = cell_of(g, pairs, global_index() >> (shift - OWN_SHIFT));
    const i64 line = cell.line;
    const int x0 = 2 * cell.x;
    f64 shares[OWN] = {};
    if (line < grid_lines(g)) {
        T sums[2][OWN] = {};
        add_lines_to_pair<Lines, S, T>(g, -1, cell, x0, threads, values, x, sums);
        apply_to_row<T>(f, threads, line * nx + x0, sums[0], shares);
        if (x0 + 1 < nx) {
            apply_to_row<T>(f, threads, line * nx + x0 + 1, sums[1], shares);
        }
    }
    store_epilogue_sums<T>(f, threads, shares);
}

// A cell of the finer grid: the coarse cells that it interpolates from.
template <class S, class T> DEVICE void interpolate(const TransferShape &g, i64 cell, const RowThreads &threads, const In<S> &weights, const In<T> &x, T *sums) {
    const i64 cells = coarse_cells(g);
    int at[3];
    point_of(g.fine, cell, at);
    int dx, dy, dz;
    for (int w = 0; w < 2; ++w) {
        const int z = parent(g, 2, at[2], w, dz);
        for (int v = 0; z >= 0 && v < 2; ++v) {
            const int y = parent(g, 1, at[1], v, dy);
            T weight[2] = {}, value[2][OWN] = {};
            UNROLL
            for (int u = 0; u < 2; ++u) {
                const int x0 = y >= 0 ? parent(g, 0, at[0], u, dx) : -1;
                if (x0 >= 0) {
                    const i64 coarse = x0 + g.coarse[0] * (y + static_cast<i64>(g.coarse[1]) * z);
                    weight[u] = As<T>::of(weights[number_of(g, dx, dy, dz) * cells + coarse]);
                    threads.template load<T>(x, coarse, value[u]);
                }
            }
            UNROLL
            for (int u = 0; u < 2; ++u) {
                UNROLL
                for (int j = 0; j < OWN; ++j) {
                    sums[j] += weight[u] * value[u][j];
                }
            }
        }
    }
}

// A cell of the coarser grid: the fine cells around it.
template <class S, class T> DEVICE void restrict_to(const TransferShape &g, i64 cell, const RowThreads &threads, const In<S> &weights, const In<T> &x, T *sums) {
    const i64 cells = coarse_cells(g);
    int at[3];
    point_of(g.coarse, cell, at);
    const int steps = steps_along(g, 0);
    for (int w = 0; w < steps_along(g, 2); ++w) {
        const int z = child(g, 2, at[2], g.axes[2] ? w + g.low : 0);
        for (int v = 0; z >= 0 && v < steps_along(g, 1); ++v) {
            const int y = child(g, 1, at[1], g.axes[1] ? v + g.low : 0);
            T weight[3] = {}, value[3][OWN] = {};
            UNROLL
            for (int u = 0; u < 3; ++u) {
                const int x0 = y >= 0 && u < steps ? child(g, 0, at[0], g.axes[0] ? u + g.low : 0) : -1;
                if (x0 >= 0) {
                    weight[u] = As<T>::of(weights[(u + steps * (v + static_cast<i64>(steps_along(g, 1)) * w)) * cells + cell]);
                    threads.template load<T>(x, x0 + g.fine[0] * (y + static_cast<i64>(g.fine[1]) * z), value[u]);
                }
            }
            UNROLL
            for (int u = 0; u < 3; ++u) {
                UNROLL
                for (int j = 0; j < OWN; ++j) {
                    sums[j] += weight[u] * value[u][j];
                }
            }
        }
    }
}

// A strip of a line of cells: the most that are swept together, and how often the threads of a line go over its pairs of cells.
constexpr int STRIP = 1024;
constexpr int ROUNDS = STRIP / 2 * (VECTORS / OWN) / BLOCK;

// The cells of a line that are swept, and what is known of them.
template <class S, class T> struct LineOfCells {
    const StencilShape &g;
    const RowThreads &threads;
    In<S> values, inverse;
    Out<T> x;
    i64 line;
    // The number of the line among those of the stencil, or -1.
    int own;
    // The strip, and whether cells of the other parity in it, before it and behind it have values.
    int first, end;
    bool in_strip, before, behind;

    DEVICE bool is_known(int cell) const { return cell < first ? before : cell < end ? in_strip : behind; }

    // Solves a cell for its unknowns. `rest` are the right-hand sides without the products with other lines. From zero its own value is not known.
    DEVICE void solve(int cell, bool from_zero, T *rest) const {
        const int nx = g.dims[0];
        T near[3][OWN] = {}, entries[3] = {};
        UNROLL
        for (int d = 0; d < 3; ++d) {
            const int number = own < 0 ? -1 : g.number[3 * own + d], to = cell + d - 1;
            if (number >= 0 && to >= 0 && to < nx) {
                entries[d] = As<T>::of(values[number * array_size(g) + line * g.pitch + cell]);
            }
            if (to >= 0 && to < nx && (d == 1 ? !from_zero : number >= 0 && is_known(to))) {
                threads.template load<T>(x, line * nx + to, near[d]);
            }
        }
        const T diagonal = As<T>::of(inverse[line * nx + cell]);
        UNROLL
        for (int j = 0; j < OWN; ++j) {
            UNROLL
            for (int d = 0; d < 3; ++d) {
                rest[j] -= entries[d] * near[d][j];
            }
            near[1][j] += diagonal * rest[j];
        }
        threads.template store<T>(x, line * nx + cell, near[1]);
    }
};

// Gauss-Seidel over the lines of a colour, in place: the even cells of a line, then the odd ones, or backward the odd ones first; `even_only` leaves out
// the odd ones. 1 << team threads share a line, two cells each, round after round. The products with other lines are computed once for both cells.
template <class S, class T>
DEVICE void sweep(int shift, int team, int strip, int even_only, int backward, int from_zero, const StencilShape &g, const ColourCells &cells,
                  const In<S> &values, const In<S> &inverse, const In<T> &b, const Out<T> &x) {
    const RowThreads threads(shift);
    const int at_once = 1 << (team - (shift - OWN_SHIFT)), place = (thread_index() & ((1 << team) - 1)) >> (shift - OWN_SHIFT), nx = g.dims[0];
    int y = 0, z = 0;
    const bool has_line = line_of(g, cells, global_index() >> team, y, z);
    const int own = AnyLines::own(g);
    const i64 line = y + static_cast<i64>(g.dims[1]) * z;
    const int strips = (nx + strip - 1) / strip;
    ROLLED
    for (int k = 0; k < strips; ++k) {
        const int first = (backward ? strips - 1 - k : k) * strip, end = first + strip < nx ? first + strip : nx;
        const int rounds = ((end - first + 1) / 2 + at_once - 1) / at_once;
        LineOfCells<S, T> cell{g, threads, values, inverse, x, line, own, first, end, !from_zero, !from_zero || !backward, !from_zero || backward};
        // The right-hand sides of the cells that are solved second.
        T later[ROUNDS][OWN];
        ROLLED
        for (int round = 0; round < rounds; ++round) {
            const int x0 = first + 2 * (round * at_once + place);
            if (has_line && x0 < end) {
                T rest[2][OWN] = {};
                add_lines_to_pair<AnyLines, S, T>(g, own, Cell{line, x0, y, z}, x0, threads, values, x, rest);
                UNROLL
                for (int q = 0; q < 2; ++q) {
                    T right[OWN] = {};
                    if (x0 + q < end) {
                        threads.template load<T>(b, line * nx + x0 + q, right);
                    }
                    UNROLL
                    for (int j = 0; j < OWN; ++j) {
                        rest[q][j] = right[j] - rest[q][j];
                    }
                }
                UNROLL
                for (int j = 0; j < OWN; ++j) {
                    later[round][j] = rest[backward ? 0 : 1][j];
                    rest[0][j] = rest[backward ? 1 : 0][j];
                }
                const int odd = backward ? 1 : 0;
                if (x0 + odd < end && !(odd && even_only)) {
                    cell.solve(x0 + odd, from_zero, rest[0]);
                }
            }
        }
        // Cells of one parity write while those of the other are read.
        barrier();
        cell.in_strip = true;
        ROLLED
        for (int round = 0; round < rounds; ++round) {
            const int odd = backward ? 0 : 1, now = first + 2 * (round * at_once + place) + odd;
            if (has_line && now < end && !(odd && even_only)) {
                cell.solve(now, from_zero, later[round]);
            }
        }
        barrier();
    }
}

// Rows of transfers.
#define TRANSFER_OF(NAME, S, T, FUNCTION) \
    KERNEL(multivector_##NAME##_##S##_##T, i64 rows, i32 shift, TransferShape g, In<S> weights, In<T> x, Epilogue f) { \
        const RowThreads threads(shift); \
        const i64 row = global_index() >> (shift - OWN_SHIFT); \
        f64 shares[OWN] = {}; \
        if (row < rows) { \
            T sums[OWN] = {}; \
            FUNCTION<S, T>(g, row, threads, weights, x, sums); \
            apply_to_row<T>(f, threads, row, sums, shares); \
        } \
        store_epilogue_sums<T>(f, threads, shares); \
    }
#define STENCIL_OF(NAME, LINES, S, T) \
    KERNEL_OF(BLOCKS<T>, multivector_stencil##NAME##_##S##_##T, i32 shift, StencilShape g, In<S> values, In<T> x, Epilogue f) { \
        product<LINES, S, T>(shift, g, values, x, f); \
    }
// Sweeps with known lines would need more registers, and take longer.
#define STENCILS(S, T) \
    STENCIL_OF(, AnyLines, S, T) \
    STENCIL_OF(_box, BoxLines, S, T) \
    STENCIL_OF(_star, StarLines, S, T) \
    KERNEL_OF(BLOCKS<T>, multivector_stencil_sweep_##S##_##T, i32 shift, i32 team, i32 strip, i32 even_only, i32 backward, i32 from_zero, \
              StencilShape g, ColourCells cells, In<S> values, In<S> inverse, In<T> b, Out<T> x) { \
        sweep<S, T>(shift, team, strip, even_only, backward, from_zero, g, cells, values, inverse, b, x); \
    } \
    TRANSFER_OF(grid_restriction, S, T, restrict_to) \
    TRANSFER_OF(grid_interpolation, S, T, interpolate)
FOR_STORAGE(STENCILS, f64) FOR_STORAGE(STENCILS, f32)
