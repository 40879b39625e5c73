// What becomes of a row's product: the forms in which a matrix is applied, and sums over the result.
#pragma once
#include "reduce.h"

constexpr int PRODUCT = 0;
constexpr int ADD = 1;
constexpr int RESIDUAL = 2;
constexpr int SWEEP = 3;

// y_i = alpha ax, alpha ax + beta z_i, b_i - ax, or z_i + d_i (b_i - ax). z may be y.
struct Finish {
    i32 form;
    // Of b, w, y and z. One for which the sums are f64 is f64.
    i32 format;
    // Of d.
    i32 diagonal;
    // Whether the sum of y_i w_i is wanted, one part from each block of threads; and whether all vectors begin where packs of rows may.
    i32 summed;
    i32 packed;
    i32 reserved;
    f64 alpha;
    f64 beta;
    Any b;
    Any d;
    Any w;
    Any y;
    Any z;
    Out<f64> parts;
};

// `ax` is the sum over row i. Branches on formats are the same for all threads, and taken once a row. Returns y_i w_i where it is summed.
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
        }
    }
    store(f.y, f.format, i, result);
    return f.summed ? to_f64(result) * to_f64(load<A>(f.w, f.format, i)) : 0.0;
}

// The same for N neighbouring rows from i on, where vectors are packed.
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
