// What becomes of a row's product: the forms in which a matrix is applied, and sums over the result.
#pragma once
#include "reduce.h"

constexpr int PRODUCT = 0;
constexpr int ADD = 1;
constexpr int RESIDUAL = 2;
constexpr int SWEEP = 3;
constexpr int CHEBYSHEV = 4;

// Sums that are wanted: none, that of y_i w_i, or that of y_i y_i.
constexpr int WITH_W = 1;
constexpr int SQUARES = 2;

// y_i = alpha ax, alpha ax + beta z_i, b_i - ax, z_i + d_i (b_i - ax), or z_i + alpha p_i with p_i = d_i (b_i - ax) + beta p_i, which is not read when beta
// is 0. z may be y, unless it is x; p is no other vector.
struct Finish {
    i32 form;
    // Of b, p, w, y and z. One for which the sums are f64 is f64.
    i32 format;
    // Of d.
    i32 diagonal;
    // The sum that is wanted, one part from each block of threads; and whether all vectors begin where packs of rows may.
    i32 summed;
    i32 packed;
    // Rows of the blocks of d, each stored row by row; 1 is a diagonal.
    i32 width;
    f64 alpha;
    f64 beta;
    Any b;
    Any d;
    Any p;
    Any w;
    Any y;
    Any z;
    Out<f64> parts;
};

// z_i + alpha p_i with p_i = dr + beta p_i. What is loaded does not wait for what is stored.
template <class A> DEVICE A chebyshev(const Finish &f, i64 i, A dr) {
    const A z = load<A>(f.z, f.format, i);
    if (f.beta != 0.0) {
        dr += As<A>::of(f.beta) * load<A>(f.p, f.format, i);
    }
    store(f.p, f.format, i, dr);
    return z + As<A>::of(f.alpha) * dr;
}

// What row i has of the sum.
template <class A> DEVICE f64 share_of(const Finish &f, i64 i, A result) {
    if (f.summed == SQUARES) {
        const f64 stored = to_f64(rounded(f.format, result));
        return stored * stored;
    }
    return f.summed == WITH_W ? to_f64(result) * to_f64(load<A>(f.w, f.format, i)) : 0.0;
}

// `ax` is the sum over row i, and d has no blocks. Branches on formats are the same for all threads, and taken once a row. Returns what the row has of the
// sum.
template <class A> DEVICE f64 finish(const Finish &f, i64 i, A ax) {
    A result;
    if (f.form == PRODUCT) {
        result = As<A>::of(f.alpha) * ax;
    } else if (f.form == ADD) {
        result = As<A>::of(f.alpha) * ax + As<A>::of(f.beta) * load<A>(f.z, f.format, i);
    } else {
        result = load<A>(f.b, f.format, i) - ax;
        if (f.form == SWEEP) {
            result = load<A>(f.z, f.format, i) + load_any<A>(f.d, f.diagonal, i) * result;
        } else if (f.form == CHEBYSHEV) {
            result = chebyshev(f, i, load_any<A>(f.d, f.diagonal, i) * result);
        }
    }
    store(f.y, f.format, i, result);
    return share_of(f, i, result);
}

// Where d has blocks, all rows of one are those of one block of threads, which leave their residuals in shared memory: each thread leaves those of its rows,
// and after a barrier takes what it needs.

// Rows of a block of threads with room for so many: all, or whole blocks of d.
DEVICE int whole_rows(const Finish &f, int rows) { return f.width > 1 ? rows / f.width * f.width : rows; }

// What is left of row i.
template <class A> DEVICE A residual_of(const Finish &f, i64 i, A ax) { return load<A>(f.b, f.format, i) - ax; }

// The same as `finish` for row i, with the residuals of the rows of its block of d from `first` on at steps of `step`; the form is SWEEP or CHEBYSHEV, of which
// nothing is summed.
template <class A, class Room> DEVICE void finish_with(const Finish &f, i64 i, const Room &residuals, int first, int step) {
    A dr = 0;
    for (int c = 0; c < f.width; ++c) {
        dr += load_any<A>(f.d, f.diagonal, i * f.width + c) * residuals[first + c * step];
    }
    store(f.y, f.format, i, f.form == CHEBYSHEV ? chebyshev(f, i, dr) : load<A>(f.z, f.format, i) + dr);
}

// The same for kernels that have one row at a time: row i, number `row` of the ROWS that a block of threads has at most, and none where `has` is false. Every
// thread takes part.
template <int ROWS, class A> DEVICE void finish_whole(const Finish &f, bool has, i64 i, int row, A ax) {
    SHARED(A, residuals, ROWS);
    if (has) {
        residuals[row] = residual_of(f, i, ax);
    }
    barrier();
    if (has) {
        finish_with<A>(f, i, residuals, row - row % f.width, 1);
    }
}

// The same for N neighbouring rows from i on, where vectors are packed. Chebyshev steps and sums of squares are not made so: that would take registers from all
// other forms.
DEVICE bool in_packs(const Finish &f) { return f.packed && f.form != CHEBYSHEV && f.summed != SQUARES; }
template <int N, class A> DEVICE f64 finish_rows(const Finish &f, i64 i, const A *ax) {
    A result[N];
    if (f.form == PRODUCT) {
        UNROLL
        for (int k = 0; k < N; ++k) {
            result[k] = As<A>::of(f.alpha) * ax[k];
        }
    } else if (f.form == ADD) {
        A z[N];
        load_packs<N>(f.z, f.format, i, z);
        UNROLL
        for (int k = 0; k < N; ++k) {
            result[k] = As<A>::of(f.alpha) * ax[k] + As<A>::of(f.beta) * z[k];
        }
    } else {
        A b[N];
        load_packs<N>(f.b, f.format, i, b);
        UNROLL
        for (int k = 0; k < N; ++k) {
            result[k] = b[k] - ax[k];
        }
        if (f.form == SWEEP) {
            A d[N];
            A z[N];
            load_packs<N>(f.d, f.diagonal, i, d);
            load_packs<N>(f.z, f.format, i, z);
            UNROLL
            for (int k = 0; k < N; ++k) {
                result[k] = z[k] + d[k] * result[k];
            }
        }
    }
    store_packs<N>(f.y, f.format, i, result);
    f64 share = 0.0;
    if (f.summed) {
        A w[N];
        load_packs<N>(f.w, f.format, i, w);
        UNROLL
        for (int k = 0; k < N; ++k) {
            share += to_f64(result[k]) * to_f64(w[k]);
        }
    }
    return share;
}

// After all rows of the block; every thread takes part.
DEVICE void finish_block(const Finish &f, f64 sum) {
    if (f.summed) {
        sum = block_sum(sum);
        if (thread_index() == 0) {
            f.parts[block_index()] = sum;
        }
    }
}
