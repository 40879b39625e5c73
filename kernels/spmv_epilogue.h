// The SpMV epilogue: what a product does with a row in the same pass, and sums over the result.
#pragma once
#include "reduce.h"

constexpr int PRODUCT = 0;
constexpr int ADD = 1;
constexpr int RESIDUAL = 2;
constexpr int SWEEP = 3;
constexpr int CHEBYSHEV = 4;
// A Chebyshev step after which p is not needed.
constexpr int LAST_CHEBYSHEV = 5;
DEVICE bool is_chebyshev(int form) { return form >= CHEBYSHEV; }

// Inner products: none, w·y, or y·y.
constexpr int WITH_W = 1;
constexpr int SQUARES = 2;

// y_i = alpha ax, alpha ax + beta z_i, b_i - ax, z_i + d_i (b_i - ax), or z_i + alpha p_i with p_i = d_i (b_i - ax) + beta p_i, which is not read when beta
// is 0. z may be y, unless it is x; p is no other vector, or z in a last step, where it is not written.
struct Epilogue {
    i32 form;
    // Format of b, p, w, y and z; f64 where sums are f64.
    i32 format;
    // Format of d.
    i32 diagonal;
    // The inner product, with one partial sum per block of threads; and whether all vectors are aligned for packs of rows.
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

// z_i + alpha p_i with p_i = dr + beta p_i. All loads come before the store.
template <class A> DEVICE A chebyshev(const Epilogue &f, i64 i, A dr) {
    const A z = load<A>(f.z, f.format, i);
    if (f.beta != 0.0) {
        dr += As<A>::of(f.beta) * load<A>(f.p, f.format, i);
    }
    if (f.form == CHEBYSHEV) {
        store(f.p, f.format, i, dr);
    }
    return z + As<A>::of(f.alpha) * dr;
}

// The term of row i in the inner product.
template <class A> DEVICE f64 sum_term(const Epilogue &f, i64 i, A result) {
    if (f.summed == SQUARES) {
        const f64 stored = to_f64(rounded(f.format, result));
        return stored * stored;
    }
    return f.summed == WITH_W ? to_f64(result) * to_f64(load<A>(f.w, f.format, i)) : 0.0;
}

// Applies the epilogue to ax = (A x)_i, where d has no blocks. Branches on formats are uniform, one per row. Returns the term of the row in the inner
// product. In a multivector, i is an element of row `row`.
template <class A> DEVICE f64 apply_epilogue(const Epilogue &f, i64 i, A ax, i64 row) {
    A result;
    if (f.form == PRODUCT) {
        result = As<A>::of(f.alpha) * ax;
    } else if (f.form == ADD) {
        result = As<A>::of(f.alpha) * ax + As<A>::of(f.beta) * load<A>(f.z, f.format, i);
    } else {
        result = load<A>(f.b, f.format, i) - ax;
        if (f.form == SWEEP) {
            result = load<A>(f.z, f.format, i) + load_any<A>(f.d, f.diagonal, row) * result;
        } else if (is_chebyshev(f.form)) {
            result = chebyshev(f, i, load_any<A>(f.d, f.diagonal, row) * result);
        }
    }
    store(f.y, f.format, i, result);
    return sum_term(f, i, result);
}
template <class A> DEVICE f64 apply_epilogue(const Epilogue &f, i64 i, A ax) { return apply_epilogue(f, i, ax, i); }

// Where d has blocks, the rows of one belong to one block of threads. The threads exchange their residuals through shared memory.

// Rows of a block of threads: `rows`, rounded down to whole blocks of d.
DEVICE int whole_rows(const Epilogue &f, int rows) { return f.width > 1 ? rows / f.width * f.width : rows; }

// The residual of row i.
template <class A> DEVICE A residual_of(const Epilogue &f, i64 i, A ax) { return load<A>(f.b, f.format, i) - ax; }

// The epilogue of row i with a block of d. The residuals of its rows are `residuals`, from `first` on at stride `step`. The form is SWEEP or a Chebyshev step,
// without an inner product.
template <class A, class Residuals> DEVICE void apply_block_epilogue(const Epilogue &f, i64 i, const Residuals &residuals, int first, int step) {
    A dr = 0;
    for (int c = 0; c < f.width; ++c) {
        dr += load_any<A>(f.d, f.diagonal, i * f.width + c) * residuals[first + c * step];
    }
    store(f.y, f.format, i, is_chebyshev(f.form) ? chebyshev(f, i, dr) : load<A>(f.z, f.format, i) + dr);
}

// The same for kernels with one row at a time: row i, the `row`th of at most ROWS of a block of threads; none where `has` is false. All threads call
// this.
template <int ROWS, class A> DEVICE void exchange_and_apply_block_epilogue(const Epilogue &f, bool has, i64 i, int row, A ax) {
    SHARED(A, residuals, ROWS);
    if (has) {
        residuals[row] = residual_of(f, i, ax);
    }
    barrier();
    if (has) {
        apply_block_epilogue<A>(f, i, residuals, row - row % f.width, 1);
    }
}

// The epilogue of N neighbouring rows from i on, with aligned vectors. Chebyshev steps and y·y are excluded: they would cost the other forms
// registers.
DEVICE bool can_pack(const Epilogue &f) { return f.packed && !is_chebyshev(f.form) && f.summed != SQUARES; }
template <int N, class A> DEVICE f64 apply_epilogue_to_rows(const Epilogue &f, i64 i, const A *ax) {
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

// Stores the partial sum of a block of threads. All threads call this, after all rows.
DEVICE void store_epilogue_sum(const Epilogue &f, f64 sum) {
    if (f.summed) {
        sum = block_sum(sum);
        if (thread_index() == 0) {
            f.parts[block_index()] = sum;
        }
    }
}
