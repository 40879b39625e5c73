// Products of Lanczos and power iterations with a scalar matrix on a structured grid.
#include "eigenvalue.h"
#include "stencil.h"

// The sums of absolute values of R cells.
template <int R, class T> DEVICE void row_sizes(const StencilShape &g, i64 own, const In<T> &values, T *sizes) {
    const i64 size = array_size(g);
    for (int k = 0; k < 3 * g.lines; ++k) {
        if (g.number[k] >= 0) {
            const Pack<T, R> value = values.template pack_once<R>(g.number[k] * size + own);
            UNROLL
            for (int q = 0; q < R; ++q) {
                sizes[q] += value.of[q] < 0 ? -value.of[q] : value.of[q];
            }
        }
    }
}

// q = A z / beta, and the partial sums of z q, as `eigen_product`. The first product also computes the largest row sum of D^-1 A. A thread has R cells of a
// line.
template <int R, class T>
DEVICE void stencil_eigen_product(const StencilShape &g, i64 step, int power, const In<T> &values, const In<T> &inverse, const In<T> &z, const In<f64> &before,
                                  const Recurrence &known, const Out<T> &q, const Out<f64> &parts, const Out<u64> &bound) {
    T scale = 0;
    if (!begin_product(step, power, before, known, scale)) {
        return;
    }
    const int runs = g.pitch / R, nx = g.dims[0];
    const i64 tasks = grid_lines(g) * runs;
    const Plain<T> x{z};
    f64 share = 0.0;
    u64 largest = 0;
    for (i64 task = global_index(); task < tasks; task += block_count() * BLOCK) {
        const Cell cell = cell_of(g, runs, task);
        const i64 line = cell.line;
        const int x0 = cell.x * R;
        if (x0 >= nx) {
            continue;
        }
        T sums[R] = {}, sizes[R] = {};
        add_lines<AnyLines, R>(g, -1, cell, x0, values, x, sums);
        if (step == 0) {
            row_sizes<R>(g, line * g.pitch + x0, values, sizes);
        }
        UNROLL
        for (int c = 0; c < R; ++c) {
            const i64 row = line * nx + x0 + c;
            if (x0 + c < nx) {
                const T product = scale * sums[c];
                q[row] = product;
                share += to_f64(product) * to_f64(z[row]);
                if (step == 0) {
                    largest = larger_bits(largest, magnitude(to_f64(inverse[row])) * to_f64(sizes[c]));
                }
            }
        }
    }
    if (step == 0) {
        put_largest(largest, bound);
    }
    put_part(share, parts);
}

#define STENCIL_EIGEN_OF(R, T) \
    KERNEL(stencil_eigen_product_##T##_##R, StencilShape g, i64 step, i64 steps, i32 power, In<T> values, In<T> inverse, In<T> z, In<f64> before, Out<f64> state, \
           Out<T> q, Out<f64> parts, Out<u64> bound) { \
        stencil_eigen_product<R, T>(g, step, power, values, inverse, z, before, Recurrence{state, steps}, q, parts, bound); \
    }
STENCIL_EIGEN_OF(1, f64) STENCIL_EIGEN_OF(2, f64) STENCIL_EIGEN_OF(1, f32) STENCIL_EIGEN_OF(4, f32)
