// Transfers between a grid and a coarser one: weights without indices. A thread has one row of the result.
#include "grid_transfer.h"
#include "spmv_epilogue.h"
#include "stencil.h"

template <class S, class A, class V>
DEVICE A interpolated(const TransferShape &g, i64 cell, int c, const In<S> &weights, const V &x) {
    const i64 cells = coarse_cells(g);
    int at[3];
    point_of(g.fine, cell, at);
    A sum = 0;
    int dx, dy, dz;
    for (int w = 0; w < 2; ++w) {
        const int z = parent(g, 2, at[2], w, dz);
        for (int v = 0; z >= 0 && v < 2; ++v) {
            const int y = parent(g, 1, at[1], v, dy);
            for (int u = 0; y >= 0 && u < 2; ++u) {
                const int x0 = parent(g, 0, at[0], u, dx);
                if (x0 >= 0) {
                    const i64 coarse = x0 + g.coarse[0] * (y + static_cast<i64>(g.coarse[1]) * z);
                    const int number = number_of(g, dx, dy, dz);
                    sum += As<A>::of(weights[(static_cast<i64>(number) * g.block + c) * cells + coarse]) * x[coarse * g.block + c];
                }
            }
        }
    }
    return sum;
}

template <class S, class A, class V>
DEVICE A restricted(const TransferShape &g, i64 cell, int c, const In<S> &weights, const V &x) {
    const i64 cells = coarse_cells(g);
    int at[3];
    point_of(g.coarse, cell, at);
    A sum = 0;
    for (int w = 0; w < steps_along(g, 2); ++w) {
        const int z = child(g, 2, at[2], g.axes[2] ? w + g.low : 0);
        for (int v = 0; z >= 0 && v < steps_along(g, 1); ++v) {
            const int y = child(g, 1, at[1], g.axes[1] ? v + g.low : 0);
            for (int u = 0; y >= 0 && u < steps_along(g, 0); ++u) {
                const int x0 = child(g, 0, at[0], g.axes[0] ? u + g.low : 0);
                if (x0 >= 0) {
                    const i64 fine = x0 + g.fine[0] * (y + static_cast<i64>(g.fine[1]) * z);
                    const int number = u + steps_along(g, 0) * (v + steps_along(g, 1) * w);
                    sum += As<A>::of(weights.once((static_cast<i64>(number) * g.block + c) * cells + cell)) * x[fine * g.block + c];
                }
            }
        }
    }
    return sum;
}

#define TRANSFER_OF(NAME, S, A, FUNCTION) \
    KERNEL(NAME##_##S##_##A, i64 rows, TransferShape g, In<S> weights, i32 format, Any v, Epilogue f) { \
        const i64 row = global_index(); \
        f64 share = 0.0; \
        if (row < rows) { \
            const i64 cell = row / g.block; \
            const int c = static_cast<int>(row - cell * g.block); \
            share = apply_epilogue(f, row, FUNCTION<S, A>(g, cell, c, weights, Told<A>{v, format})); \
        } \
        store_epilogue_sum(f, share); \
    }
#define TRANSFER(S, A) TRANSFER_OF(grid_interpolation, S, A, interpolated) TRANSFER_OF(grid_restriction, S, A, restricted)
FOR_STORAGE(TRANSFER, f64) FOR_STORAGE(TRANSFER, f32)
