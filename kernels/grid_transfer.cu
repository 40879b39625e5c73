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

// Where all axes are coarsened and steps begin with -1: a thread has a coarse cell, and the fine cells from it on, two along each axis. Sums are those of
// `interpolated`.
template <class S, class A, class V>
DEVICE f64 interpolate_box(const TransferShape &g, i64 cell, int c, const In<S> &weights, const V &x, const Epilogue &f) {
    const i64 cells = coarse_cells(g);
    int at[3];
    point_of(g.coarse, cell, at);
    // The coarse cells at both ends along each axis; -1 where there is none.
    i64 ends[3][2];
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        const i64 unit = axis == 0 ? 1 : axis == 1 ? g.coarse[0] : static_cast<i64>(g.coarse[0]) * g.coarse[1];
        const int right = at[axis] + 1 < g.coarse[axis] ? at[axis] + 1 : g.periodic[axis] ? 0 : -1;
        ends[axis][0] = at[axis] * unit;
        ends[axis][1] = right < 0 ? -1 : right * unit;
    }
    const auto corner = [&](int number) {
        const i64 a = ends[0][number & 1], b = ends[1][number >> 1 & 1], d = ends[2][number >> 2];
        return a < 0 || b < 0 || d < 0 ? -1 : a + b + d;
    };
    A values[8];
    UNROLL
    for (int k = 0; k < 8; ++k) {
        values[k] = corner(k) < 0 ? A(0) : x[corner(k) * g.block + c];
    }
    // All weights are waited for together, before results are stored; those that are not there are read where there are some.
    A sums[4][2] = {};
    UNROLL
    for (int bits = 0; bits < 8; ++bits) {
        UNROLL
        for (int k = 0; k < 8; ++k) {
            // Corners at the far end of axes along which the cell lies between two.
            if ((k & ~bits) == 0) {
                int number = 13;
                UNROLL
                for (int axis = 0, unit = 1; axis < 3; ++axis, unit *= 3) {
                    number += !(bits >> axis & 1) ? 0 : k >> axis & 1 ? -unit : unit;
                }
                const i64 from = corner(k);
                const A weight = As<A>::of(weights[(static_cast<i64>(number) * g.block + c) * cells + (from < 0 ? cell : from)]);
                sums[bits >> 1][bits & 1] += (from < 0 ? A(0) : weight) * values[k];
            }
        }
    }
    f64 share = 0.0;
    UNROLL
    for (int odd = 0; odd < 4; ++odd) {
        const int y = 2 * at[1] + (odd & 1), z = 2 * at[2] + (odd >> 1);
        if (y >= g.fine[1] || z >= g.fine[2]) {
            continue;
        }
        const i64 row = 2 * at[0] + g.fine[0] * (y + static_cast<i64>(g.fine[1]) * z);
        if (g.block == 1 && g.fine[0] % 2 == 0 && can_pack(f)) {
            share += apply_epilogue_to_rows<2>(f, row, sums[odd]);
        } else {
            share += apply_epilogue(f, row * g.block + c, sums[odd][0]);
            share += 2 * at[0] + 1 < g.fine[0] ? apply_epilogue(f, (row + 1) * g.block + c, sums[odd][1]) : 0.0;
        }
    }
    return share;
}

// The sums of `restricted`, for the same transfers.
template <class S, class A, class V>
DEVICE A restrict_box(const TransferShape &g, i64 cell, int c, const In<S> &weights, const V &x) {
    const i64 cells = coarse_cells(g);
    int at[3];
    point_of(g.coarse, cell, at);
    i64 to[3][3];
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        const i64 unit = axis == 0 ? 1 : axis == 1 ? g.fine[0] : static_cast<i64>(g.fine[0]) * g.fine[1];
        UNROLL
        for (int step = 0; step < 3; ++step) {
            const int fine = child(g, axis, at[axis], step - 1);
            to[axis][step] = fine < 0 ? -1 : fine * unit;
        }
    }
    A sum = 0;
    UNROLL
    for (int number = 0; number < 27; ++number) {
        const i64 a = to[0][number % 3], b = to[1][number / 3 % 3], d = to[2][number / 9];
        const A value = a >= 0 && b >= 0 && d >= 0 ? x[(a + b + d) * g.block + c] : A(0);
        sum += As<A>::of(weights.once((static_cast<i64>(number) * g.block + c) * cells + cell)) * value;
    }
    return sum;
}

#define TRANSFER_OF(NAME, S, A, FUNCTION) \
    KERNEL(NAME##_##S##_##A, i64 rows, TransferShape g, In<S> weights, i32 format, Any v, Epilogue f) { \
        const i64 row = global_index(); \
        f64 share = 0.0; \
        if (row < rows) { \
            const i64 cell = static_cast<u32>(row) / static_cast<u32>(g.block); \
            const int c = static_cast<int>(row - cell * g.block); \
            share = apply_epilogue(f, row, FUNCTION<S, A>(g, cell, c, weights, Told<A>{v, format})); \
        } \
        store_epilogue_sum(f, share); \
    }
// A vector in the format of the sums has loads without branches, which wait for memory together.
#define BOX_OF(NAME, S, A, RESULT) \
    KERNEL(NAME##_##S##_##A, i64 threads, TransferShape g, In<S> weights, i32 format, Any v, Epilogue f) { \
        const i64 i = global_index(), cell = static_cast<u32>(i) / static_cast<u32>(g.block); \
        const int c = static_cast<int>(i - cell * g.block); \
        f64 share = 0.0; \
        if (i < threads && format == Format<A>::VALUE) { \
            const Plain<A> x{v.in<A>()}; \
            share = RESULT; \
        } else if (i < threads) { \
            const Told<A> x{v, format}; \
            share = RESULT; \
        } \
        store_epilogue_sum(f, share); \
    }
#define TRANSFER(S, A) \
    TRANSFER_OF(grid_interpolation, S, A, interpolated) \
    TRANSFER_OF(grid_restriction, S, A, restricted) \
    BOX_OF(grid_interpolation_box, S, A, (interpolate_box<S, A>(g, cell, c, weights, x, f))) \
    BOX_OF(grid_restriction_box, S, A, (apply_epilogue(f, i, restrict_box<S, A>(g, cell, c, weights, x))))
FOR_STORAGE(TRANSFER, f64) FOR_STORAGE(TRANSFER, f32)
