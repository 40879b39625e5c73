// SpMV with a stencil: threads run over cells. A thread has R neighbouring cells of a line of scalars, or one or two cells of a grid with blocks.
#include "spmv_epilogue.h"
#include "stencil.h"

// Sums are added as on the host: by lines, then along x, then over the unknowns of the other cell.
template <class Lines, int R, class S, class A, class V>
DEVICE void scalar_product(const StencilShape &g, const In<S> &values, const V &x, const Epilogue &f) {
    const int nx = g.dims[0];
    const Cell cell = cell_of(g, g.pitch / R, global_index());
    const int x0 = cell.x * R;
    A sums[R] = {};
    f64 share = 0.0;
    // A line may be padded by more than its last pack.
    if (cell.line < grid_lines(g) && x0 < nx) {
        add_lines<Lines, R>(g, -1, cell, x0, values, x, sums);
        const i64 row = cell.line * nx + x0;
        if (R > 1 && can_pack(f) && nx % R == 0) {
            share = apply_epilogue_to_rows<R>(f, row, sums);
        } else {
            UNROLL
            for (int q = 0; q < R; ++q) {
                if (x0 + q < nx) {
                    share += apply_epilogue(f, row + q, sums[q]);
                }
            }
        }
    }
    store_epilogue_sum(f, share);
}

// The epilogue of the rows of a cell with blocks of d, which are the cell's.
template <int N, class A> DEVICE void cell_epilogue(const Epilogue &f, i64 row, const A *sums) {
    A residuals[N];
    UNROLL_SMALL
    for (int r = 0; r < N; ++r) {
        if (r < f.width) {
            residuals[r] = residual_of(f, row + r, sums[r]);
        }
    }
    UNROLL_SMALL
    for (int r = 0; r < N; ++r) {
        if (r < f.width) {
            A dr = 0;
            UNROLL_SMALL
            for (int c = 0; c < N; ++c) {
                if (c < f.width) {
                    dr += load_any<A>(f.d, f.diagonal, (row + r) * f.width + c) * residuals[c];
                }
            }
            store(f.y, f.format, row + r, is_chebyshev(f.form) ? chebyshev(f, row + r, dr) : load<A>(f.z, f.format, row + r) + dr);
        }
    }
}

// Blocks of N x N, or for an N of 8 smaller ones.
template <int N, class S, class A, class V>
DEVICE void block_product(const StencilShape &g, const In<S> &values, const V &x, const Epilogue &f) {
    const int n = N == 8 ? g.block : N;
    const i64 row = global_index() * n;
    const Cell cell = cell_of(g, g.dims[0], global_index());
    f64 share = 0.0;
    if (cell.line < grid_lines(g)) {
        A sums[N] = {};
        for (int l = 0; l < g.lines; ++l) {
            const i64 to = line_at(g, l, cell.y, cell.z);
            if (to >= 0) {
                add_blocks<N>(n, g, l, to, cell.line, cell.x, values, x, sums);
            }
        }
        if (f.width > 1) {
            cell_epilogue<N>(f, row, sums);
        } else {
            UNROLL_SMALL
            for (int r = 0; r < N; ++r) {
                if (r < n) {
                    share += apply_epilogue(f, row + r, sums[r]);
                }
            }
        }
    }
    store_epilogue_sum(f, share);
}

// Blocks of N x N, and R cells of a line for a thread.
template <int N, int R, class S, class A, class V>
DEVICE void cells_product(const StencilShape &g, const In<S> &values, const V &x, const Epilogue &f) {
    const int nx = g.dims[0];
    const Cell cell = cell_of(g, g.pitch / R, global_index());
    const int x0 = cell.x * R;
    f64 share = 0.0;
    // A line may be padded by more than its last pack.
    if (cell.line < grid_lines(g) && x0 < nx) {
        A sums[R][N] = {};
        ROLLED
        for (int l = 0; l < g.lines; ++l) {
            const i64 to = line_at(g, l, cell.y, cell.z);
            if (to >= 0) {
                add_cells<N, R>(g, l, to, cell.line, x0, values, x, sums);
            }
        }
        UNROLL
        for (int q = 0; q < R; ++q) {
            if (x0 + q < nx) {
                const i64 row = (cell.line * nx + x0 + q) * N;
                if (f.width > 1) {
                    cell_epilogue<N>(f, row, sums[q]);
                } else {
                    UNROLL
                    for (int r = 0; r < N; ++r) {
                        share += apply_epilogue(f, row + r, sums[q][r]);
                    }
                }
            }
        }
    }
    store_epilogue_sum(f, share);
}

#define STENCIL_OF(NAME, S, A, ...) \
    KERNEL_OF(4, stencil##NAME##_##S##_##A, StencilShape g, In<S> values, i32 format, Any v, Epilogue f) { \
        const Told<A> x{v, format}; \
        __VA_ARGS__(g, values, x, f); \
    }
// The vector of those with known lines is in the format of sums.
#define STENCIL(S, A) \
    STENCIL_OF(, S, A, scalar_product<AnyLines, 1, S, A>) \
    STENCIL_OF(_blocks3, S, A, block_product<3, S, A>) \
    STENCIL_OF(_blocks4, S, A, block_product<4, S, A>) \
    STENCIL_OF(_blocks, S, A, block_product<8, S, A>) \
    STENCIL_OF(_packed, S, A, scalar_product<AnyLines, CELLS<S, A>, S, A>) \
    STENCIL_OF_LINES(_box, BoxLines, S, A) \
    STENCIL_OF_LINES(_star, StarLines, S, A)
#define STENCIL_OF_LINES(NAME, LINES, S, A) \
    KERNEL_OF(4, stencil##NAME##_##S##_##A, StencilShape g, In<S> values, i32 format, Any v, Epilogue f) { \
        scalar_product<LINES, CELLS<S, A>, S, A>(g, values, Plain<A>{v.in<A>()}, f); \
    }
FOR_STORAGE(STENCIL, f64) FOR_STORAGE(STENCIL, f32)

// Pairs of cells: for values of 8 bytes loads are wide enough without.
#define STENCIL_OF_PAIRS(N, S, A) \
    KERNEL(stencil_pairs##N##_##S##_##A, StencilShape g, In<S> values, i32 format, Any v, Epilogue f) { \
        const Told<A> x{v, format}; \
        cells_product<N, 2, S, A>(g, values, x, f); \
    }
#define STENCIL_PAIRS(S) STENCIL_OF_PAIRS(3, S, f64) STENCIL_OF_PAIRS(3, S, f32) STENCIL_OF_PAIRS(4, S, f64) STENCIL_OF_PAIRS(4, S, f32)
STENCIL_PAIRS(f32) STENCIL_PAIRS(f16) STENCIL_PAIRS(bf16)
