// The basis of GMRES: its vectors lie where an array of addresses says, and how many there are is a number in device memory, so that launches are
// the same for each of them.
#include "numbers.h"
#include "reduce.h"

namespace basis {

// Where the numbers are: the place of the newest vector, the length of the one that will be next, and the column of the Hessenberg matrix, after
// whose room the projections of one pass follow.
constexpr int NEWEST = 0;
constexpr int LENGTH = 1;
constexpr int COLUMN = 2;

// Vectors whose inner products with w are summed in one pass over it.
constexpr int TOGETHER = 8;

// Vectors whose elements are on their way at the same time when a combination of them is subtracted.
constexpr int AHEAD = 4;

template <class T> DEVICE In<T> vector(i64 n, const In<u64> &places, i64 k) { return In<T>{device_address<T>(places[k]), n}; }

// v = w over its length, and a copy of it at the place of the newest vector.
template <class T>
DEVICE void append(i64 n, const In<f64> &numbers, const In<u64> &places, const In<T> &w, const Out<T> &v) {
    const T by = As<T>::of(1.0 / numbers[LENGTH]);
    const Out<T> newest{device_address<T>(places[static_cast<i64>(numbers[NEWEST])]), n};
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

// A copy of z at the place of the newest vector.
template <class T> DEVICE void keep(i64 n, const In<f64> &numbers, const In<u64> &places, const In<T> &z) {
    const Out<T> newest{device_address<T>(places[static_cast<i64>(numbers[NEWEST])]), n};
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            newest[i] = z[i];
        }
    }
}

// Of each block a part of the inner product of w with each vector up to the newest, vector by vector; summed as in `dot_part` and `block_sum`.
template <class T>
DEVICE void dots(i64 n, const In<f64> &numbers, const In<u64> &places, const In<T> &w, const Out<f64> &parts) {
    constexpr int WARPS = BLOCK / WARP;
    SHARED(f64, partial, TOGETHER * WARPS);
    const int count = static_cast<int>(numbers[NEWEST]) + 1;
    const i64 step = block_count() * BLOCK;
    ROLLED
    for (int first = 0; first < count; first += TOGETHER) {
        In<T> v[TOGETHER];
        UNROLL
        for (int k = 0; k < TOGETHER; ++k) {
            v[k] = vector<T>(n, places, first + k < count ? first + k : first);
        }
        f64 sums[TOGETHER][ELEMENTS] = {};
        for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
            f64 by[ELEMENTS];
            UNROLL
            for (int e = 0; e < ELEMENTS; ++e) {
                by[e] = i + e * step < n ? to_f64(w[i + e * step]) : 0.0;
            }
            UNROLL
            for (int k = 0; k < TOGETHER; ++k) {
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
        for (int k = 0; k < TOGETHER; ++k) {
            const f64 sum = lanes_sum<WARP>((sums[k][0] + sums[k][1]) + (sums[k][2] + sums[k][3]));
            if (thread_index() % WARP == 0) {
                partial[k * WARPS + thread_index() / WARP] = sum;
            }
        }
        barrier();
        const int k = thread_index();
        if (k < TOGETHER && first + k < count) {
            f64 sum = 0.0;
            for (int i = 0; i < WARPS; ++i) {
                sum += partial[k * WARPS + i];
            }
            parts[(first + k) * block_count() + block_index()] = sum;
        }
        barrier();
    }
}

// w -= h_k v_k for each vector up to the newest, in their order, and of each block a part of w·w that follows from the number of blocks.
template <class T>
DEVICE f64 subtract(i64 n, int count, const In<f64> &h, const In<u64> &places, const Out<T> &w) {
    f64 sums[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        T rest[ELEMENTS];
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            rest[e] = i + e * step < n ? w[i + e * step] : T(0);
        }
        ROLLED
        for (int first = 0; first < count; first += AHEAD) {
            T by[AHEAD];
            T element[AHEAD][ELEMENTS];
            UNROLL
            for (int k = 0; k < AHEAD; ++k) {
                const bool there = first + k < count;
                by[k] = there ? As<T>::of(h[first + k]) : T(0);
                const In<T> v = vector<T>(n, places, there ? first + k : first);
                UNROLL
                for (int e = 0; e < ELEMENTS; ++e) {
                    element[k][e] = there && i + e * step < n ? v[i + e * step] : T(0);
                }
            }
            UNROLL
            for (int k = 0; k < AHEAD; ++k) {
                UNROLL
                for (int e = 0; e < ELEMENTS; ++e) {
                    rest[e] -= by[k] * element[k][e];
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

} // namespace basis

#define BASIS(T) \
    KERNEL(basis_append_##T, i64 n, In<f64> numbers, In<u64> places, In<T> w, Out<T> v) { \
        basis::append<T>(n, numbers, places, w, v); \
    } \
    KERNEL(basis_keep_##T, i64 n, In<f64> numbers, In<u64> places, In<T> z) { basis::keep<T>(n, numbers, places, z); } \
    KERNEL(basis_dots_##T, i64 n, In<f64> numbers, In<u64> places, In<T> w, Out<f64> parts) { \
        basis::dots<T>(n, numbers, places, w, parts); \
    } \
    KERNEL(basis_subtract_##T, i64 n, In<f64> newest, In<f64> h, In<u64> places, Out<T> w, Out<f64> parts) { \
        const f64 sum = block_sum(basis::subtract<T>(n, static_cast<int>(newest[0]) + 1, h, places, w)); \
        if (thread_index() == 0) { \
            parts[block_index()] = sum; \
        } \
    }
BASIS(f64) BASIS(f32)

// Inner products from `count` parts each, a block for each vector: the projections of this pass, which in the second one are added to the column
// that the first one made. A column has `room` numbers.
KERNEL(basis_column, i64 count, In<f64> parts, i32 again, i64 room, Out<f64> numbers) {
    const i64 k = block_index();
    if (k > static_cast<i64>(numbers[basis::NEWEST])) {
        return;
    }
    const f64 sum = parts_sum(parts, k * count, (k + 1) * count);
    if (thread_index() == 0) {
        f64 &column = numbers[basis::COLUMN + k];
        column = again ? column + sum : sum;
        numbers[basis::COLUMN + room + k] = sum;
    }
}

// The length of w from the parts of w·w, after which it is the next vector.
KERNEL(basis_length, i64 count, In<f64> parts, Out<f64> numbers) {
    const f64 sum = parts_sum(parts, 0, count);
    if (thread_index() == 0) {
        numbers[basis::LENGTH] = square_root(sum);
        numbers[basis::NEWEST] += 1.0;
    }
}
