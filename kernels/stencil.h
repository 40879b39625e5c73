// Matrices on structured grids: one array over all cells for each entry of the stencil. Lines of cells along x begin at multiples of `pitch` in an
// array, so that threads read packs of neighbouring cells; in vectors they follow each other.
#pragma once
#include "reduce.h"

// Lines of cells that a stencil reaches.
constexpr int MAX_LINES = 9;

struct StencilShape {
    // Cells along x, y and z, and whether the last along an axis is beside the first.
    i32 dims[3];
    i32 periodic[3];
    // Elements of a line of values.
    i32 pitch;
    // Unknowns of a cell.
    i32 block;
    // The lines in the order of the sums: steps along y and z, and for steps -1, 0 and 1 along x the number of the offset, or -1.
    i32 lines;
    i32 dy[MAX_LINES];
    i32 dz[MAX_LINES];
    i32 number[3 * MAX_LINES];
    // Bit l: line l is left out, as those that a sweep from zero has not reached.
    i32 left_out;
    // Whether the vector that is multiplied is in the format of sums and aligned, and its lines are of whole packs. In set-up: whether pairs of values are
    // aligned.
    i32 aligned;
};

// A step along an axis of n cells, or -1 where it leads out of the grid.
DEVICE int grid_step(int n, int periodic, int at, int step) {
    const int to = at + step;
    if (to >= 0 && to < n) {
        return to;
    }
    if (!periodic) {
        return -1;
    }
    return to < 0 ? n - 1 : 0;
}

DEVICE i64 grid_lines(const StencilShape &g) { return static_cast<i64>(g.dims[1]) * g.dims[2]; }

// Elements of an array.
DEVICE i64 array_size(const StencilShape &g) { return grid_lines(g) * g.pitch; }

// A cell of a line. Grids have less than 2^31 cells, and divisions of 64 bits take several times as long as those of 32.
struct Cell {
    i64 line;
    int x, y, z;
};

// That of a number, where lines have so many.
DEVICE Cell cell_of(const StencilShape &g, int of_line, i64 number) {
    const u32 line = static_cast<u32>(number) / static_cast<u32>(of_line), z = line / static_cast<u32>(g.dims[1]);
    return Cell{line, static_cast<int>(static_cast<u32>(number) - line * static_cast<u32>(of_line)), static_cast<int>(line - z * static_cast<u32>(g.dims[1])),
                static_cast<int>(z)};
}

// The number of the line that line l of the stencil leads to from y and z, or -1.
DEVICE i64 line_at(const StencilShape &g, int l, int y, int z) {
    if (g.left_out >> l & 1) {
        return -1;
    }
    const int to_y = grid_step(g.dims[1], g.periodic[1], y, g.dy[l]);
    const int to_z = grid_step(g.dims[2], g.periodic[2], z, g.dz[l]);
    return to_y < 0 || to_z < 0 ? -1 : to_y + static_cast<i64>(g.dims[1]) * to_z;
}

// A vector that is computed with in type A: stored as that, or in a format that is told at run time.
template <class A> struct Plain {
    In<A> x;
    DEVICE A operator[](i64 i) const { return x[i]; }
    template <int N> DEVICE Pack<A, N> pack(i64 i) const { return x.template pack<N>(i); }
};
template <class A> struct Told {
    Any x;
    i32 format;
    DEVICE A operator[](i64 i) const { return load_any<A>(x, format, i); }
    template <int N> DEVICE Pack<A, N> pack(i64 i) const { return x.in<A>().template pack<N>(i); }
};
template <class A> struct Format;
template <> struct Format<f64> {
    static constexpr int VALUE = F64;
};
template <> struct Format<f32> {
    static constexpr int VALUE = F32;
};

// Cells of a thread along a line: packs of 16 bytes of values, or of 8 where more sums would leave too few threads.
template <class S, class A> constexpr int CELLS = sizeof(S) == 2 ? 4 : 16 / sizeof(S);

// Element x0 of a line of a vector that begins at `at`, with the first behind the last where the line is periodic, and zero elsewhere behind it.
template <class A, class V> DEVICE A along(const StencilShape &g, i64 at, int x0, const V &x) {
    const int nx = g.dims[0];
    if (x0 < nx) {
        return x[at + x0];
    }
    return x0 == nx && g.periodic[0] ? x[at] : A(0);
}

// R elements from x0 on.
template <int R, class A, class V> DEVICE void cells_along(const StencilShape &g, i64 at, int x0, const V &x, A *to) {
    constexpr int P = R * sizeof(A) <= 16 ? R : 16 / sizeof(A);
    if (R > 1 && g.aligned) {
        UNROLL
        for (int q = 0; q < R; q += P) {
            const Pack<A, P> part = x.template pack<P>(at + x0 + q);
            UNROLL
            for (int k = 0; k < P; ++k) {
                to[q + k] = part.of[k];
            }
        }
        return;
    }
    UNROLL
    for (int q = 0; q < R; ++q) {
        to[q] = along<A>(g, at, x0 + q, x);
    }
}

// The element before it.
template <class A, class V> DEVICE A before(const StencilShape &g, i64 at, int x0, const V &x) {
    const int to = grid_step(g.dims[0], g.periodic[0], x0, -1);
    return to >= 0 ? x[at + to] : A(0);
}

// The lines of a stencil, and the numbers of their offsets: looked up.
struct AnyLines {
    // How many where that is known when a kernel is compiled, or 0.
    static constexpr int COUNT = 0;
    static DEVICE i64 at(const StencilShape &g, int l, int y, int z) { return line_at(g, l, y, z); }
    static DEVICE int number(const StencilShape &g, int l, int d) { return g.number[3 * l + d]; }
    // That of the cell's own line, or -1.
    static DEVICE int own(const StencilShape &g) {
        int own = -1;
        for (int l = 0; l < g.lines; ++l) {
            own = g.dy[l] == 0 && g.dz[l] == 0 ? l : own;
        }
        return own;
    }
};

// The line that some steps lead to, on a grid that is not periodic.
DEVICE i64 line_by(const StencilShape &g, int l, int y, int z) {
    const bool is_there = y >= 0 && y < g.dims[1] && z >= 0 && z < g.dims[2] && !(g.left_out >> l & 1);
    return is_there ? y + static_cast<i64>(g.dims[1]) * z : -1;
}

// All neighbours of a cell, on a grid that is not periodic: 27 points.
struct BoxLines {
    static constexpr int COUNT = 9;
    static DEVICE i64 at(const StencilShape &g, int l, int y, int z) { return line_by(g, l, y + l % 3 - 1, z + l / 3 - 1); }
    static DEVICE int number(const StencilShape &, int l, int d) { return 3 * l + d; }
    static DEVICE int own(const StencilShape &) { return 4; }
};

// The neighbours along the axes: 7 points.
struct StarLines {
    static constexpr int COUNT = 5;
    static DEVICE i64 at(const StencilShape &g, int l, int y, int z) {
        return line_by(g, l, y + (l == 1 ? -1 : l == 3 ? 1 : 0), z + (l == 0 ? -1 : l == 4 ? 1 : 0));
    }
    static DEVICE int number(const StencilShape &, int l, int d) { return l == 2 ? 2 + d : d != 1 ? -1 : l < 2 ? l : l + 2; }
    static DEVICE int own(const StencilShape &) { return 2; }
};

// Adds the products of R cells from x0 on of line `line`, at y and z, with line l of the stencil.
template <class Lines, int R, class S, class A, class V>
DEVICE void add_line(const StencilShape &g, int l, const Cell &cell, int x0, const In<S> &values, const V &x, A *sums) {
    const i64 to = Lines::at(g, l, cell.y, cell.z), own = cell.line * g.pitch + x0, size = array_size(g);
    Pack<S, R> value[3] = {};
    // Elements x0 - 1 to x0 + R.
    A window[R + 2] = {};
    if (to >= 0) {
        UNROLL
        for (int d = 0; d < 3; ++d) {
            const int number = Lines::number(g, l, d);
            if (number >= 0) {
                value[d] = values.template pack_once<R>(number * size + own);
            }
        }
        const i64 at = to * g.dims[0];
        cells_along<R>(g, at, x0, x, window + 1);
        if (Lines::number(g, l, 0) >= 0) {
            window[0] = before<A>(g, at, x0, x);
        }
        if (Lines::number(g, l, 2) >= 0) {
            window[R + 1] = along<A>(g, at, x0 + R, x);
        }
    }
    UNROLL
    for (int d = 0; d < 3; ++d) {
        UNROLL
        for (int q = 0; q < R; ++q) {
            sums[q] += As<A>::of(value[d].of[q]) * window[q + d];
        }
    }
}

// The same with all lines of the stencil but `without`. Few registers, and so many threads, hide the latency of memory better than several lines at once.
template <class Lines, int R, class S, class A, class V>
DEVICE void add_lines(const StencilShape &g, int without, const Cell &cell, int x0, const In<S> &values, const V &x, A *sums) {
    if (Lines::COUNT > 0) {
        UNROLL
        for (int l = 0; l < Lines::COUNT; ++l) {
            if (l != without) {
                add_line<Lines, R>(g, l, cell, x0, values, x, sums);
            }
        }
    } else {
        ROLLED
        for (int l = 0; l < g.lines; ++l) {
            if (l != without) {
                add_line<Lines, R>(g, l, cell, x0, values, x, sums);
            }
        }
    }
}

// The same for a cell of n unknowns, at most N.
template <int N, class A, class Values, class V>
DEVICE void add_blocks(int n, const StencilShape &g, int l, i64 to, i64 line, int x0, const Values &values, const V &x, A *sums) {
    const i64 own = line * g.pitch + x0, size = array_size(g);
    for (int d = 0; d < 3; ++d) {
        const int number = g.number[3 * l + d], there = grid_step(g.dims[0], g.periodic[0], x0, d - 1);
        if (number < 0 || there < 0) {
            continue;
        }
        const i64 other = (to * g.dims[0] + there) * n, entries = static_cast<i64>(number) * n * n * size + own;
        UNROLL_SMALL
        for (int c = 0; c < N; ++c) {
            if (c < n) {
                const A v = x[other + c];
                UNROLL_SMALL
                for (int r = 0; r < N; ++r) {
                    if (r < n) {
                        sums[r] += As<A>::of(values.once(entries + (r * n + c) * size)) * v;
                    }
                }
            }
        }
    }
}

// The same for R neighbouring cells from x0 on, a multiple of R, with N unknowns each: threads read packs of values. Lines are of whole packs.
template <int N, int R, class S, class A, class V>
DEVICE void add_cells(const StencilShape &g, int l, i64 to, i64 line, int x0, const In<S> &values, const V &x, A (*sums)[N]) {
    const i64 size = array_size(g), at = to * g.dims[0];
    const int nx = g.dims[0];
    // The unknowns of cells x0 - 1 to x0 + R.
    A window[R + 2][N];
    UNROLL
    for (int k = 0; k < R + 2; ++k) {
        // The first cell of a periodic line is behind its last one.
        const int next = x0 + k - 1 < nx ? x0 + k - 1 : x0 + k - 1 == nx && g.periodic[0] ? 0 : -1;
        const int cell = k == 0 ? grid_step(nx, g.periodic[0], x0, -1) : next;
        const bool is_read = cell >= 0 && (k > 0 || g.number[3 * l] >= 0) && (k < R + 1 || g.number[3 * l + 2] >= 0);
        UNROLL
        for (int c = 0; c < N; ++c) {
            window[k][c] = is_read ? x[(at + cell) * N + c] : A(0);
        }
    }
    UNROLL
    for (int d = 0; d < 3; ++d) {
        const int number = g.number[3 * l + d];
        if (number < 0) {
            continue;
        }
        const i64 entries = static_cast<i64>(number) * N * N * size + line * g.pitch + x0;
        UNROLL
        for (int c = 0; c < N; ++c) {
            Pack<S, R> value[N];
            UNROLL
            for (int r = 0; r < N; ++r) {
                value[r] = values.template pack_once<R>(entries + (r * N + c) * size);
            }
            UNROLL
            for (int r = 0; r < N; ++r) {
                UNROLL
                for (int q = 0; q < R; ++q) {
                    sums[q][r] += As<A>::of(value[r].of[q]) * window[q + d][c];
                }
            }
        }
    }
}

// The offsets of a stencil in the order of their arrays: 1 + x + 3 (1 + y) + 9 (1 + z), and the number of the opposite offset, or -1.
struct StencilOffsets {
    i32 count;
    i32 code[27];
    i32 opposite[27];
};

// The numbers of offsets by their codes, or -1.
struct StencilNumbers {
    i32 of[27];
};

// The step of an offset along an axis.
DEVICE int step_of(int code, int axis) { return code / (axis == 0 ? 1 : axis == 1 ? 3 : 9) % 3 - 1; }

// The cell that an offset leads to from x, y and z, or -1.
DEVICE i64 neighbour(const StencilShape &g, int code, const int *at) {
    int to[3];
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        to[axis] = grid_step(g.dims[axis], g.periodic[axis], at[axis], step_of(code, axis));
        if (to[axis] < 0) {
            return -1;
        }
    }
    return to[0] + g.dims[0] * (to[1] + static_cast<i64>(g.dims[1]) * to[2]);
}

// Where the value of the cell is in an array that an offset leads to from x, y and z, or -1.
DEVICE i64 neighbour_place(const StencilShape &g, int code, const int *at) {
    int to[3];
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        to[axis] = grid_step(g.dims[axis], g.periodic[axis], at[axis], step_of(code, axis));
        if (to[axis] < 0) {
            return -1;
        }
    }
    return to[0] + g.pitch * (to[1] + static_cast<i64>(g.dims[1]) * to[2]);
}

// The places of the cells next to one, in an array whose lines have so many elements. Codes of offsets that are known when it is compiled cost two additions.
struct Neighbours {
    // Along each axis, at steps -1, 0 and 1; -1 where there is none.
    i64 along[3][3];

    DEVICE Neighbours(const StencilShape &g, const int *at, int line) {
        UNROLL
        for (int axis = 0; axis < 3; ++axis) {
            const i64 unit = axis == 0 ? 1 : axis == 1 ? line : static_cast<i64>(line) * g.dims[1];
            UNROLL
            for (int step = -1; step <= 1; ++step) {
                const int to = grid_step(g.dims[axis], g.periodic[axis], at[axis], step);
                along[axis][step + 1] = to < 0 ? -1 : to * unit;
            }
        }
    }

    // The cell itself.
    DEVICE i64 own() const { return along[0][1] + along[1][1] + along[2][1]; }

    // The one that an offset leads to, or -1.
    DEVICE i64 operator[](int code) const {
        const i64 x = along[0][code % 3], y = along[1][code / 3 % 3], z = along[2][code / 9];
        return x < 0 || y < 0 || z < 0 ? -1 : x + y + z;
    }
};

// Where the value of a cell is in an array.
DEVICE i64 place_of(const StencilShape &g, i64 cell) {
    const u32 number = static_cast<u32>(cell), nx = static_cast<u32>(g.dims[0]), line = number / nx;
    return static_cast<i64>(line) * g.pitch + (number - line * nx);
}
