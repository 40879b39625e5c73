// The Arnoldi process of GMRES. The addresses of the basis vectors and their number are in device memory, so that one captured graph serves
// every iteration.
#include "numbers.h"
#include "reduce.h"

namespace arnoldi {

// Index of each scalar: the index of the newest basis vector, the norm of the next one before it is normalised, and the column of the Hessenberg
// matrix. The projections of one Gram-Schmidt pass follow the column.
constexpr int NEWEST = 0;
constexpr int NORM = 1;
constexpr int COLUMN = 2;

// Basis vectors whose inner products with w are accumulated in one pass over w.
constexpr int DOTS_PER_PASS = 8;

// Basis vectors whose elements a thread loads before it subtracts them.
constexpr int LOADS_AHEAD = 4;

template <class T> DEVICE In<T> vector(i64 n, const In<u64> &addresses, i64 k) { return In<T>{device_address<T>(addresses[k]), n}; }

// v = w / |w|, and a copy of it as the newest basis vector.
template <class T>
DEVICE void append(i64 n, const In<f64> &scalars, const In<u64> &addresses, const In<T> &w, const Out<T> &v) {
    const T by = As<T>::of(1.0 / scalars[NORM]);
    const Out<T> newest{device_address<T>(addresses[static_cast<i64>(scalars[NEWEST])]), n};
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            const T element = by * w[i];
            v[i] = element;
            newest[i] = element;
        }
    }
}

// Stores z = M v of the newest basis vector v.
template <class T> DEVICE void store(i64 n, const In<f64> &scalars, const In<u64> &addresses, const In<T> &z) {
    const Out<T> newest{device_address<T>(addresses[static_cast<i64>(scalars[NEWEST])]), n};
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            newest[i] = z[i];
        }
    }
}

// Each block's partial sums of the inner products of w with all basis vectors, vector by vector. The order is that of `dot_part` and
// `block_sum`.
template <class T>
DEVICE void dots(i64 n, const In<f64> &scalars, const In<u64> &addresses, const In<T> &w, const Out<f64> &parts) {
    constexpr int WARPS = BLOCK / WARP;
    SHARED(f64, partial, DOTS_PER_PASS * WARPS);
    const int count = static_cast<int>(scalars[NEWEST]) + 1;
    const i64 step = block_count() * BLOCK;
    ROLLED
    for (int first = 0; first < count; first += DOTS_PER_PASS) {
        In<T> v[DOTS_PER_PASS];
        UNROLL
        for (int k = 0; k < DOTS_PER_PASS; ++k) {
            v[k] = vector<T>(n, addresses, first + k < count ? first + k : first);
        }
        f64 sums[DOTS_PER_PASS][ELEMENTS] = {};
        for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
            f64 by[ELEMENTS];
            UNROLL
            for (int e = 0; e < ELEMENTS; ++e) {
                by[e] = i + e * step < n ? to_f64(w[i + e * step]) : 0.0;
            }
            UNROLL
            for (int k = 0; k < DOTS_PER_PASS; ++k) {
                if (first + k < count) {
                    UNROLL
                    for (int e = 0; e < ELEMENTS; ++e) {
                        if (i + e * step < n) {
                            sums[k][e] += to_f64(v[k][i + e * step]) * by[e];
                        }
                    }
                }
            }
        }
        UNROLL
        for (int k = 0; k < DOTS_PER_PASS; ++k) {
            const f64 sum = lanes_sum<WARP>((sums[k][0] + sums[k][1]) + (sums[k][2] + sums[k][3]));
            if (thread_index() % WARP == 0) {
                partial[k * WARPS + thread_index() / WARP] = sum;
            }
        }
        barrier();
        const int k = thread_index();
        if (k < DOTS_PER_PASS && first + k < count) {
            f64 sum = 0.0;
            for (int i = 0; i < WARPS; ++i) {
                sum += partial[k * WARPS + i];
            }
            parts[(first + k) * block_count() + block_index()] = sum;
        }
        barrier();
    }
}

// w -= h_k v_k for the first `count` basis vectors, in ascending order, and this block's partial sum of w·w.
template <class T>
DEVICE f64 subtract(i64 n, int count, const In<f64> &h, const In<u64> &addresses, const Out<T> &w) {
    f64 sums[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        T rest[ELEMENTS];
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            rest[e] = i + e * step < n ? w[i + e * step] : T(0);
        }
        ROLLED
        for (int first = 0; first < count; first += LOADS_AHEAD) {
            T factor[LOADS_AHEAD];
            T element[LOADS_AHEAD][ELEMENTS];
            UNROLL
            for (int k = 0; k < LOADS_AHEAD; ++k) {
                const bool valid = first + k < count;
                factor[k] = valid ? As<T>::of(h[first + k]) : T(0);
                const In<T> v = vector<T>(n, addresses, valid ? first + k : first);
                UNROLL
                for (int e = 0; e < ELEMENTS; ++e) {
                    element[k][e] = valid && i + e * step < n ? v[i + e * step] : T(0);
                }
            }
            UNROLL
            for (int k = 0; k < LOADS_AHEAD; ++k) {
                UNROLL
                for (int e = 0; e < ELEMENTS; ++e) {
                    rest[e] -= factor[k] * element[k][e];
                }
            }
        }
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            if (i + e * step < n) {
                w[i + e * step] = rest[e];
                sums[e] += to_f64(rest[e]) * to_f64(rest[e]);
            }
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

} // namespace arnoldi

#define ARNOLDI(T) \
    KERNEL(arnoldi_append_##T, i64 n, In<f64> scalars, In<u64> addresses, In<T> w, Out<T> v) { \
        arnoldi::append<T>(n, scalars, addresses, w, v); \
    } \
    KERNEL(arnoldi_store_##T, i64 n, In<f64> scalars, In<u64> addresses, In<T> z) { arnoldi::store<T>(n, scalars, addresses, z); } \
    KERNEL(arnoldi_dots_##T, i64 n, In<f64> scalars, In<u64> addresses, In<T> w, Out<f64> parts) { \
        arnoldi::dots<T>(n, scalars, addresses, w, parts); \
    } \
    KERNEL(arnoldi_subtract_##T, i64 n, In<f64> newest, In<f64> h, In<u64> addresses, Out<T> w, Out<f64> parts) { \
        const f64 sum = block_sum(arnoldi::subtract<T>(n, static_cast<int>(newest[0]) + 1, h, addresses, w)); \
        if (thread_index() == 0) { \
            parts[block_index()] = sum; \
        } \
    }
ARNOLDI(f64) ARNOLDI(f32)

// The inner products from `count` partial sums each, one block per basis vector. They are the projections of this Gram-Schmidt pass; the second
// pass adds them to the column of the first. A column has `capacity` elements.
KERNEL(arnoldi_column, i64 count, In<f64> parts, i32 second_pass, i64 capacity, Out<f64> scalars) {
    const i64 k = block_index();
    if (k > static_cast<i64>(scalars[arnoldi::NEWEST])) {
        return;
    }
    const f64 sum = parts_sum(parts, k * count, (k + 1) * count);
    if (thread_index() == 0) {
        f64 &column = scalars[arnoldi::COLUMN + k];
        column = second_pass ? column + sum : sum;
        scalars[arnoldi::COLUMN + capacity + k] = sum;
    }
}

// |w| from the partial sums of w·w. The next basis vector is then the newest.
KERNEL(arnoldi_norm, i64 count, In<f64> parts, Out<f64> scalars) {
    const f64 sum = parts_sum(parts, 0, count);
    if (thread_index() == 0) {
        scalars[arnoldi::NORM] = square_root(sum);
        scalars[arnoldi::NEWEST] += 1.0;
    }
}
