// Gauss-Seidel on a stencil with 3 x 3 blocks, in place, one launch for each colour of lines: a thread has an even cell and the odd one behind it, so that
// it reads values in pairs.
#include "stencil_colours.h"

// The entries of a cell in its own line, and the inverse of its diagonal block, or of its diagonal in the first elements.
template <int N, class S> struct CellEntries {
    S along[3][N * N];
    S inverse[N * N];
};

// Solves a cell for its unknowns, at once by the inverse of its block where `whole`, or else one after the other. `rest` is the right-hand side without the
// couplings with other lines. Sums are those of the host: first the other lines, then the left neighbour, the cell, and the right one.
template <int N, class S, class A>
DEVICE void solve_cell(int whole, int backward, const CellEntries<N, S> &a, A (&rest)[N], const A (&left)[N], A (&own)[N], const A (&right)[N]) {
    UNROLL
    for (int k = 0; k < N; ++k) {
        UNROLL
        for (int r = 0; r < N; ++r) {
            if (r == (backward ? N - 1 - k : k)) {
                UNROLL
                for (int c = 0; c < N; ++c) {
                    rest[r] -= As<A>::of(a.along[0][r * N + c]) * left[c];
                }
                UNROLL
                for (int c = 0; c < N; ++c) {
                    rest[r] -= As<A>::of(a.along[1][r * N + c]) * own[c];
                }
                UNROLL
                for (int c = 0; c < N; ++c) {
                    rest[r] -= As<A>::of(a.along[2][r * N + c]) * right[c];
                }
                if (!whole) {
                    own[r] += As<A>::of(a.inverse[r]) * rest[r];
                }
            }
        }
    }
    if (whole) {
        UNROLL
        for (int r = 0; r < N; ++r) {
            A change = 0;
            UNROLL
            for (int c = 0; c < N; ++c) {
                change += As<A>::of(a.inverse[r * N + c]) * rest[c];
            }
            own[r] += change;
        }
    }
}

// Loads the entries of two neighbouring cells from x0 on, of which the second may be behind the end of the line.
template <int N, class S>
DEVICE void load_entries(int whole, const StencilShape &g, int own, i64 line, int x0, const In<S> &values, const In<S> &inverse, CellEntries<N, S> *a) {
    const i64 size = array_size(g), cell = line * g.dims[0] + x0;
    UNROLL
    for (int d = 0; d < 3; ++d) {
        const int number = own < 0 ? -1 : g.number[3 * own + d];
        if (number >= 0) {
            const i64 from = static_cast<i64>(number) * N * N * size + line * g.pitch + x0;
            UNROLL
            for (int e = 0; e < N * N; ++e) {
                const Pack<S, 2> pair = values.template pack_once<2>(from + e * size);
                a[0].along[d][e] = pair.of[0];
                a[1].along[d][e] = pair.of[1];
            }
        }
    }
    UNROLL
    for (int q = 0; q < 2; ++q) {
        if (x0 + q < g.dims[0]) {
            UNROLL
            for (int e = 0; e < N * N; ++e) {
                if (whole) {
                    a[q].inverse[e] = inverse[(cell + q) * N * N + e];
                } else if (e < N) {
                    a[q].inverse[e] = inverse[(cell + q) * N + e];
                }
            }
        }
    }
}

// Whole lines of a colour, as many as a block of threads has pairs for: the even cells, then the odd ones, or backward the odd ones first; `even_only` leaves
// out the odd ones. Lines are not periodic.
template <int N, class S, class A>
DEVICE void sweep_pairs(int whole, int even_only, int backward, const StencilShape &g, const ColourCells &cells, const In<S> &values,
                        const In<S> &inverse, int format, const Any &b, const Any &v) {
    SHARED(A, solved, BLOCK * N);
    const int nx = g.dims[0], pairs = (nx + 1) / 2, of_block = BLOCK / pairs, own_line = thread_index() / pairs;
    int y = 0, z = 0;
    const bool has = own_line < of_block && line_of(g, cells, block_index() * of_block + own_line, y, z);
    const int x0 = 2 * (thread_index() - own_line * pairs);
    const i64 line = y + static_cast<i64>(g.dims[1]) * z, row = (line * nx + x0) * N;
    const Changing<A> x{v, format};
    const bool has_odd = has && x0 + 1 < nx;
    // The unknowns of the two cells are between those of their neighbours.
    A rest[2][N] = {}, near[4][N] = {};
    CellEntries<N, S> a[2] = {};
    if (has) {
        int own = -1;
        ROLLED
        for (int l = 0; l < g.lines; ++l) {
            if (g.dy[l] == 0 && g.dz[l] == 0) {
                own = l;
                continue;
            }
            const i64 to = line_at(g, l, y, z);
            if (to >= 0) {
                add_cells<N, 2>(g, l, to, line, x0, values, x, rest);
            }
        }
        load_entries<N, S>(whole, g, own, line, x0, values, inverse, a);
        UNROLL
        for (int k = 0; k < 4; ++k) {
            const int there = x0 + k - 1;
            UNROLL
            for (int c = 0; c < N; ++c) {
                near[k][c] = there >= 0 && there < nx ? x[(line * nx + there) * N + c] : A(0);
            }
        }
        UNROLL
        for (int q = 0; q < 2; ++q) {
            UNROLL
            for (int r = 0; r < N; ++r) {
                rest[q][r] = q == 0 || has_odd ? load<A>(b, format, row + q * N + r) - rest[q][r] : A(0);
            }
        }
    }
    if (!backward) {
        solve_cell<N>(whole, 0, a[0], rest[0], near[0], near[1], near[2]);
    } else if (!even_only) {
        solve_cell<N>(whole, 1, a[1], rest[1], near[1], near[2], near[3]);
    }
    UNROLL
    for (int c = 0; c < N; ++c) {
        A &first = backward ? near[2][c] : near[1][c];
        first = rounded(format, first);
        solved[thread_index() * N + c] = first;
    }
    // Nobody writes before all have read, and neighbours see what was solved.
    barrier();
    if (!has) {
        return;
    }
    UNROLL
    for (int c = 0; c < N; ++c) {
        if (backward) {
            near[0][c] = x0 > 0 ? solved[(thread_index() - 1) * N + c] : A(0);
        } else {
            near[3][c] = x0 + 2 < nx ? solved[(thread_index() + 1) * N + c] : A(0);
        }
    }
    if (backward) {
        solve_cell<N>(whole, 1, a[0], rest[0], near[0], near[1], near[2]);
    } else if (!even_only) {
        solve_cell<N>(whole, 0, a[1], rest[1], near[1], near[2], near[3]);
    }
    UNROLL
    for (int q = 0; q < 2; ++q) {
        UNROLL
        for (int r = 0; r < N; ++r) {
            if (q == 0 || has_odd) {
                store(v, format, row + q * N + r, near[1 + q][r]);
            }
        }
    }
}

// Sums in f64 take so many registers that pairs are no faster.
#define SWEEP_PAIRS(S, A) \
    KERNEL(stencil_sweep_pairs3_##S##_##A, StencilShape g, ColourCells cells, i32 whole, i32 even_only, i32 backward, In<S> values, In<S> inverse, \
           i32 format, Any b, Any x) { \
        sweep_pairs<3, S, A>(whole, even_only, backward, g, cells, values, inverse, format, b, x); \
    }
SWEEP_PAIRS(f32, f32) SWEEP_PAIRS(f16, f32) SWEEP_PAIRS(bf16, f32)
