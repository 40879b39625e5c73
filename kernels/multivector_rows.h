// Rows of multivectors, of which a thread has four vectors, and the epilogue of a product with them.
#pragma once
#include "multivector.h"
#include "spmv_epilogue.h"

// Vectors of a thread.
constexpr int OWN = 4;
constexpr int OWN_SHIFT = 2;

// Elements of a pack.
template <class T> constexpr int PACK = 16 / sizeof(T);

// The threads of a row, and the number of this one among them.
struct RowThreads {
    int shift;
    int lanes;
    int lane;
    DEVICE explicit RowThreads(int shift) : shift(shift), lanes(1 << (shift - OWN_SHIFT)), lane(thread_index() & (lanes - 1)) {}
    // Own vector j.
    template <class T> DEVICE int vector(int j) const { return (j / PACK<T> * lanes + lane) * PACK<T> + j % PACK<T>; }
    template <class T> DEVICE i64 element(i64 row, int j) const { return (row << shift) + vector<T>(j); }
    // Row `row` of x, for the own vectors.
    template <class T, class X> DEVICE void load(const X &x, i64 row, T *to) const {
        UNROLL
        for (int j = 0; j < OWN; j += PACK<T>) {
            const Pack<T, PACK<T>> pack = x.template pack<PACK<T>>(element<T>(row, j));
            UNROLL
            for (int e = 0; e < PACK<T>; ++e) {
                to[j + e] = pack.of[e];
            }
        }
    }
    // The same to x.
    template <class T> DEVICE void store(const Out<T> &x, i64 row, const T *from) const {
        UNROLL
        for (int j = 0; j < OWN; j += PACK<T>) {
            Pack<T, PACK<T>> pack;
            UNROLL
            for (int e = 0; e < PACK<T>; ++e) {
                pack.of[e] = from[j + e];
            }
            x.template put<PACK<T>>(element<T>(row, j), pack);
        }
    }
};

// Stores the partial sums of a block of threads, one for each vector. All threads call this, after all rows.
template <class T> DEVICE void store_epilogue_sums(const Epilogue &f, const RowThreads &threads, f64 *shares) {
    if (!f.summed) {
        return;
    }
    SHARED(f64, sums, (BLOCK / WARP) * VECTORS);
    const int own = thread_index() % WARP;
    UNROLL
    for (int j = 0; j < OWN; ++j) {
        for (int mask = WARP / 2; mask >= threads.lanes; mask /= 2) {
            shares[j] += shuffle_xor(shares[j], mask);
        }
        if (own < threads.lanes) {
            sums[thread_index() / WARP * VECTORS + threads.vector<T>(j)] = shares[j];
        }
    }
    barrier();
    if (thread_index() < 1 << threads.shift) {
        f64 sum = 0.0;
        for (int i = 0; i < BLOCK / WARP; ++i) {
            sum += sums[i * VECTORS + thread_index()];
        }
        f.parts[(block_index() << threads.shift) + thread_index()] = sum;
    }
}

// The epilogue of a pack: `ax` are the products of a row with neighbouring vectors, from element i on. Adds their terms to the inner products.
template <class T> DEVICE void apply_to_pack(const Epilogue &f, i64 i, i64 row, const T *ax, f64 *shares) {
    constexpr int N = PACK<T>;
    T result[N];
    T other[N];
    if (f.form == PRODUCT || f.form == ADD) {
        if (f.form == ADD) {
            load_packs<N>(f.z, f.format, i, other);
        }
        UNROLL
        for (int e = 0; e < N; ++e) {
            result[e] = As<T>::of(f.alpha) * ax[e];
            result[e] = f.form == ADD ? result[e] + As<T>::of(f.beta) * other[e] : result[e];
        }
    } else {
        load_packs<N>(f.b, f.format, i, other);
        UNROLL
        for (int e = 0; e < N; ++e) {
            result[e] = other[e] - ax[e];
        }
        if (f.form != RESIDUAL) {
            const T d = load_any<T>(f.d, f.diagonal, row);
            T p[N];
            load_packs<N>(f.z, f.format, i, other);
            if (is_chebyshev(f.form) && f.beta != 0.0) {
                load_packs<N>(f.p, f.format, i, p);
            }
            UNROLL
            for (int e = 0; e < N; ++e) {
                T dr = d * result[e];
                if (is_chebyshev(f.form)) {
                    dr = f.beta != 0.0 ? dr + As<T>::of(f.beta) * p[e] : dr;
                    p[e] = dr;
                    dr = As<T>::of(f.alpha) * dr;
                }
                result[e] = other[e] + dr;
            }
            if (f.form == CHEBYSHEV) {
                store_packs<N>(f.p, f.format, i, p);
            }
        }
    }
    store_packs<N>(f.y, f.format, i, result);
    if (f.summed == WITH_W) {
        load_packs<N>(f.w, f.format, i, other);
    }
    if (f.summed) {
        UNROLL
        for (int e = 0; e < N; ++e) {
            const f64 stored = to_f64(rounded(f.format, result[e]));
            shares[e] += f.summed == SQUARES ? stored * stored : to_f64(result[e]) * to_f64(other[e]);
        }
    }
}

// The results of a row for the own vectors.
template <class T> DEVICE void apply_to_row(const Epilogue &f, const RowThreads &threads, i64 row, const T *sums, f64 *shares) {
    UNROLL
    for (int j = 0; j < OWN; j += PACK<T>) {
        apply_to_pack<T>(f, threads.element<T>(row, j), row, sums + j, shares + j);
    }
}
