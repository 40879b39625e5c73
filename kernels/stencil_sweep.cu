// Gauss-Seidel on a stencil, in place, one launch for each colour of cells. Cells of a colour are not coupled, so none reads what another one writes.
#include "stencil_colours.h"

// A cell of n unknowns, at most N, that is solved for them.
template <int N, class S, class A> struct SweptCell {
    // The right-hand side without the couplings with other lines, and the unknowns of the cell and of its neighbours along x.
    A rest[N], near[3][N];
    // Where the entries of these begin, or -1; and the first row.
    i64 arrays[3], row;

    DEVICE void load_cell(int n, const StencilShape &g, i64 line, int x0, int y, int z, const In<S> &values, int format, const Any &b,
                          const Changing<A> &x) {
        UNROLL_SMALL
        for (int r = 0; r < N; ++r) {
            rest[r] = 0;
        }
        int own = -1;
        for (int l = 0; l < g.lines; ++l) {
            if (g.dy[l] == 0 && g.dz[l] == 0) {
                own = l;
                continue;
            }
            const i64 to = line_at(g, l, y, z);
            if (to >= 0) {
                add_blocks<N>(n, g, l, to, line, x0, values, x, rest);
            }
        }
        row = (line * g.dims[0] + x0) * n;
        UNROLL_SMALL
        for (int d = 0; d < 3; ++d) {
            const int there = grid_step(g.dims[0], g.periodic[0], x0, d - 1);
            const int number = own < 0 || there < 0 ? -1 : g.number[3 * own + d];
            arrays[d] = number < 0 ? -1 : static_cast<i64>(number) * n * n * array_size(g) + line * g.pitch + x0;
            UNROLL_SMALL
            for (int c = 0; c < N; ++c) {
                near[d][c] = c < n && there >= 0 ? x[(line * g.dims[0] + there) * n + c] : A(0);
            }
        }
        UNROLL_SMALL
        for (int r = 0; r < N; ++r) {
            if (r < n) {
                rest[r] = load<A>(b, format, row + r) - rest[r];
            }
        }
    }

    // At once by the inverse of its block where `whole`, or else one unknown after the other. Sums are those of the host: first the other lines, then the
    // left neighbour, the cell, and the right one.
    DEVICE void solve(int n, int whole, int backward, const StencilShape &g, const In<S> &values, const In<S> &inverse) {
        const i64 size = array_size(g);
        // Whole blocks need all residuals first.
        UNROLL_SMALL
        for (int k = 0; k < N; ++k) {
            UNROLL_SMALL
            for (int r = 0; r < N; ++r) {
                if (k < n && r == (backward ? n - 1 - k : k)) {
                    UNROLL_SMALL
                    for (int d = 0; d < 3; ++d) {
                        if (arrays[d] >= 0) {
                            UNROLL_SMALL
                            for (int c = 0; c < N; ++c) {
                                if (c < n) {
                                    rest[r] -= As<A>::of(values[arrays[d] + (r * n + c) * size]) * near[d][c];
                                }
                            }
                        }
                    }
                    if (!whole) {
                        near[1][r] += As<A>::of(inverse[row + r]) * rest[r];
                    }
                }
            }
        }
        if (whole) {
            UNROLL_SMALL
            for (int r = 0; r < N; ++r) {
                if (r < n) {
                    A change = 0;
                    UNROLL_SMALL
                    for (int c = 0; c < N; ++c) {
                        if (c < n) {
                            change += As<A>::of(inverse[(row + r) * n + c]) * rest[c];
                        }
                    }
                    near[1][r] += change;
                }
            }
        }
    }

    DEVICE void store_cell(int n, int format, const Any &x) const {
        UNROLL_SMALL
        for (int r = 0; r < N; ++r) {
            if (r < n) {
                store(x, format, row + r, near[1][r]);
            }
        }
    }
};

// Every other cell of the lines of a colour. With whole lines, as many as a block of threads has cells for: the even cells, then the odd ones, or backward
// the odd ones first, so that neighbours read the entries of all cells once; `even_only` leaves out the odd ones.
template <int N, class S, class A>
DEVICE void sweep_cells(int n, int whole, int whole_lines, int even_only, int backward, const StencilShape &g, const ColourCells &cells, const In<S> &values,
                        const In<S> &inverse, int format, const Any &b, const Any &x) {
    SHARED(A, solved, BLOCK * N);
    // Threads without a cell have addresses that can be read: a compiler may move loads from constant arrays before the condition.
    SweptCell<N, S, A> cell = {};
    int y = 0, z = 0;
    const int of_block = BLOCK / cells.count[0], own = thread_index() / cells.count[0];
    const u32 index = static_cast<u32>(global_index()), along_x = static_cast<u32>(cells.count[0]), line_of_index = index / along_x;
    const i64 number = whole_lines ? block_index() * of_block + own : line_of_index;
    const int position = whole_lines ? thread_index() - own * cells.count[0] : static_cast<int>(index - line_of_index * along_x);
    const int x0 = whole_lines ? position : cells.start[0] + 2 * position;
    const bool has = !(whole_lines && own >= of_block) && line_of(g, cells, number, y, z) && x0 < g.dims[0];
    if (has) {
        cell.load_cell(n, g, y + static_cast<i64>(g.dims[1]) * z, x0, y, z, values, format, b, Changing<A>{x, format});
    }
    // Odd cells come first backward. Without whole lines all cells of the launch are swept in the first pass.
    const int pass_of_cell = whole_lines ? (x0 & 1) ^ (backward ? 1 : 0) : 0;
    const bool is_solved = has && !(whole_lines && even_only && (x0 & 1));
    ROLLED
    for (int pass = 0; pass < (whole_lines ? 2 : 1); ++pass) {
        if (pass == 1) {
            UNROLL_SMALL
            for (int c = 0; c < N; ++c) {
                solved[thread_index() * N + c] = has && c < n ? rounded(format, cell.near[1][c]) : A(0);
            }
            // Nobody writes before all have read, and neighbours see what was solved.
            barrier();
        }
        if (is_solved && pass == pass_of_cell) {
            UNROLL_SMALL
            for (int c = 0; pass == 1 && c < N; ++c) {
                cell.near[0][c] = x0 > 0 ? solved[(thread_index() - 1) * N + c] : A(0);
                cell.near[2][c] = x0 + 1 < g.dims[0] ? solved[(thread_index() + 1) * N + c] : A(0);
            }
            cell.solve(n, whole, backward, g, values, inverse);
        }
    }
    if (has) {
        cell.store_cell(n, format, x);
    }
}

// Both parities of scalar lines of a colour in one pass over the matrix: the even cells of a line, then the odd ones, or backward the odd ones first.
// 1 << shift threads share a line, R cells each, strip after strip.
template <class Lines, int R, class S, class A, bool FROM_ZERO, class V>
DEVICE void sweep_lines(int shift, int backward, int even_only, const StencilShape &g, const ColourCells &cells,
                        const In<S> &values, const In<S> &inverse, int format, const V &b, const V &x) {
    SHARED(A, ends, BLOCK);
    const int threads = 1 << shift, t = thread_index() & (threads - 1), nx = g.dims[0];
    int y = 0, z = 0;
    const bool has_line = line_of(g, cells, global_index() >> shift, y, z);
    const i64 line = y + static_cast<i64>(g.dims[1]) * z, at = line * nx, size = array_size(g);
    const int own = Lines::own(g);
    const int strip = threads * R, strips = (nx + strip - 1) / strip;
    for (int k = 0; k < strips; ++k) {
        const int x0 = (backward ? strips - 1 - k : k) * strip + t * R;
        const bool has = has_line && x0 < nx;
        A rest[R] = {}, entries[3][R] = {}, inverses[R] = {}, window[R + 2] = {};
        if (has) {
            add_lines<Lines, R>(g, own, Cell{line, x0, y, z}, x0, values, x, rest);
            UNROLL
            for (int d = 0; d < 3; ++d) {
                const int number = own < 0 ? -1 : Lines::number(g, own, d);
                if (number >= 0) {
                    const Pack<S, R> value = values.template pack_once<R>(number * size + line * g.pitch + x0);
                    UNROLL
                    for (int q = 0; q < R; ++q) {
                        entries[d][q] = As<A>::of(value.of[q]);
                    }
                }
            }
            A right[R] = {};
            cells_along<R>(g, at, x0, b, right);
            if (g.aligned) {
                const Pack<S, R> value = inverse.template pack_once<R>(at + x0);
                UNROLL
                for (int q = 0; q < R; ++q) {
                    inverses[q] = As<A>::of(value.of[q]);
                }
            } else {
                UNROLL
                for (int q = 0; q < R; ++q) {
                    inverses[q] = x0 + q < nx ? As<A>::of(inverse[at + x0 + q]) : A(0);
                }
            }
            UNROLL
            for (int q = 0; q < R; ++q) {
                rest[q] = right[q] - rest[q];
            }
            // From zero, only the neighbour in the strip before is known.
            if (!FROM_ZERO) {
                cells_along<R>(g, at, x0, x, window + 1);
            }
            if (!FROM_ZERO || (k > 0 && t == 0 && backward == 0)) {
                window[0] = before<A>(g, at, x0, x);
            }
            if (!FROM_ZERO || (k > 0 && t + 1 == threads && backward != 0)) {
                window[R + 1] = along<A>(g, at, x0 + R, x);
            }
        }
        const auto solve = [&](int parity) {
            UNROLL
            for (int q = 0; q < R; ++q) {
                if ((q & 1) == parity) {
                    const A residual = rest[q] - entries[0][q] * window[q] - entries[1][q] * window[q + 1] - entries[2][q] * window[q + 2];
                    window[q + 1] += inverses[q] * residual;
                }
            }
        };
        if (!(backward && even_only)) {
            solve(backward ? 1 : 0);
        }
        ends[thread_index()] = backward ? window[R] : window[1];
        // Nobody writes before all have read, and neighbours see the new ends.
        barrier();
        if (backward && t > 0) {
            window[0] = ends[thread_index() - 1];
        }
        if (!backward && t + 1 < threads && x0 + R < nx) {
            window[R + 1] = ends[thread_index() + 1];
        }
        if (backward || !even_only) {
            solve(backward ? 0 : 1);
        }
        if (has && g.aligned) {
            constexpr int P = R * sizeof(A) <= 16 ? R : 16 / sizeof(A);
            UNROLL
            for (int q = 0; q < R; q += P) {
                store_pack<P, A>(x.x, at + x0 + q, window + 1 + q);
            }
        } else if (has) {
            UNROLL
            for (int q = 0; q < R; ++q) {
                if (x0 + q < nx) {
                    store(x.x, format, at + x0 + q, window[q + 1]);
                }
            }
        }
        barrier();
    }
}

// The residuals after a pass from zero: less the products with cells that came later. Even cells of a line are solved before the odd ones, backward the odd
// ones first. An inverse of 16 bits solves for another diagonal, 1 / inverse.
template <class Lines, int R, class S, class A, class V>
DEVICE void residual_from_zero(const StencilShape &g, const LaterLines &later, int backward, const In<S> &values, const In<S> &inverse, int format, const V &x,
                               const Any &r) {
    const int nx = g.dims[0];
    const Cell cell = cell_of(g, g.pitch / R, global_index());
    const int x0 = cell.x * R;
    if (cell.line >= grid_lines(g) || x0 >= nx) {
        return;
    }
    const i32 which = later_lines(later, cell.y, cell.z);
    const int own = Lines::own(g);
    const i64 at = cell.line * nx, size = array_size(g);
    A sums[R] = {};
    const int diagonal = own < 0 ? -1 : Lines::number(g, own, 1);
    if (sizeof(S) == 2 && diagonal >= 0) {
        A solved[R] = {};
        cells_along<R>(g, at, x0, x, solved);
        const Pack<S, R> value = values.template pack_once<R>(diagonal * size + cell.line * g.pitch + x0);
        UNROLL
        for (int q = 0; q < R; ++q) {
            const A d = x0 + q < nx ? As<A>::of(inverse[at + x0 + q]) : A(0);
            sums[q] = d != A(0) ? (As<A>::of(value.of[q]) - A(1) / d) * solved[q] : A(0);
        }
    }
    const auto add = [&](int l) {
        if (l != own) {
            if (which >> l & 1) {
                add_line<Lines, R>(g, l, cell, x0, values, x, sums);
            }
            return;
        }
        // The cells that were solved first are left out of x: they have products with the others alone.
        A window[R + 2] = {};
        cells_along<R>(g, at, x0, x, window + 1);
        UNROLL
        for (int q = 0; q < R; ++q) {
            window[q + 1] = (q & 1) == backward ? A(0) : window[q + 1];
        }
        window[0] = backward ? A(0) : before<A>(g, at, x0, x);
        window[R + 1] = backward ? along<A>(g, at, x0 + R, x) : A(0);
        UNROLL
        for (int d = 0; d < 3; d += 2) {
            const int number = Lines::number(g, l, d);
            if (number >= 0) {
                const Pack<S, R> value = values.template pack_once<R>(number * size + cell.line * g.pitch + x0);
                UNROLL
                for (int q = 0; q < R; ++q) {
                    sums[q] += As<A>::of(value.of[q]) * window[q + d];
                }
            }
        }
    };
    if (Lines::COUNT > 0) {
        UNROLL
        for (int l = 0; l < Lines::COUNT; ++l) {
            add(l);
        }
    } else {
        ROLLED
        for (int l = 0; l < g.lines; ++l) {
            add(l);
        }
    }
    UNROLL
    for (int q = 0; q < R; ++q) {
        sums[q] = -sums[q];
    }
    if (g.aligned) {
        constexpr int P = R * sizeof(A) <= 16 ? R : 16 / sizeof(A);
        UNROLL
        for (int q = 0; q < R; q += P) {
            store_pack<P, A>(r, at + x0 + q, sums + q);
        }
    } else {
        UNROLL
        for (int q = 0; q < R; ++q) {
            if (x0 + q < nx) {
                store(r, format, at + x0 + q, sums[q]);
            }
        }
    }
}

#define SWEEP_OF(NAME, N, COUNT, S, A) \
    KERNEL(stencil_sweep##NAME##_##S##_##A, StencilShape g, ColourCells cells, i32 whole, i32 whole_lines, i32 even_only, i32 backward, \
           In<S> values, In<S> inverse, i32 format, Any b, Any x) { \
        sweep_cells<N, S, A>(COUNT, whole, whole_lines, even_only, backward, g, cells, values, inverse, format, b, x); \
    }
// The vectors of those with known lines are in the format of sums.
#define SWEEP_LINES_OF(NAME, FROM_ZERO, LINES, VECTOR, S, A) \
    KERNEL_OF(4, stencil_sweep_##NAME##_##S##_##A, StencilShape g, ColourCells cells, i32 shift, i32 even_only, i32 backward, In<S> values, \
              In<S> inverse, i32 format, Any b, Any x) { \
        sweep_lines<LINES, CELLS<S, A>, S, A, FROM_ZERO>(shift, backward, even_only, g, cells, values, inverse, format, VECTOR<A>{b, format}, \
                                                         VECTOR<A>{x, format}); \
    }
#define SWEEP_LINES(NAME, FROM_ZERO, S, A) \
    SWEEP_LINES_OF(NAME, FROM_ZERO, AnyLines, Changing, S, A) \
    SWEEP_LINES_OF(NAME##_box, FROM_ZERO, BoxLines, PlainChanging, S, A) \
    SWEEP_LINES_OF(NAME##_star, FROM_ZERO, StarLines, PlainChanging, S, A)
#define RESIDUAL_OF(NAME, LINES, S, A, ...) \
    KERNEL_OF(4, stencil_residual_from_zero##NAME##_##S##_##A, StencilShape g, LaterLines later, i32 backward, In<S> values, In<S> inverse, i32 format, Any v, \
              Any r) { \
        const __VA_ARGS__; \
        residual_from_zero<LINES, CELLS<S, A>, S, A>(g, later, backward, values, inverse, format, x, r); \
    }
#define RESIDUALS(S, A) \
    RESIDUAL_OF(, AnyLines, S, A, Told<A> x{v, format}) \
    RESIDUAL_OF(_box, BoxLines, S, A, Plain<A> x{v.in<A>()}) \
    RESIDUAL_OF(_star, StarLines, S, A, Plain<A> x{v.in<A>()})
#define SWEEPS(S, A) \
    SWEEP_OF(, 1, 1, S, A) \
    SWEEP_OF(_blocks3, 3, 3, S, A) \
    SWEEP_OF(_blocks4, 4, 4, S, A) \
    SWEEP_OF(_blocks, 8, g.block, S, A) \
    SWEEP_LINES(lines, false, S, A) \
    SWEEP_LINES(lines_from_zero, true, S, A) \
    RESIDUALS(S, A)
FOR_STORAGE(SWEEPS, f64) FOR_STORAGE(SWEEPS, f32)
