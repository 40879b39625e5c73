// Vector operations. A thread handles a few elements; loads of all of them are under way before the first is used.
#include "reduce.h"

// Does `WORK`, in brackets, with the type T of a format that is told at run time.
#define AS_FORMAT_(tag, type, T, WORK) \
    case tag: { \
        using T = type; \
        WORK; \
        break; \
    }
#define IN_FORMAT(format, T, WORK) \
    switch (format) { \
        AS_FORMAT_(F64, f64, T, WORK) \
        AS_FORMAT_(F32, f32, T, WORK) \
        AS_FORMAT_(F16, f16, T, WORK) \
        AS_FORMAT_(BF16, bf16, T, WORK) \
    }

#define FILL(T) \
    KERNEL(fill_##T, i64 n, f64 value, Out<T> x) { \
        UNROLL \
        for (int e = 0; e < ELEMENTS; ++e) { \
            const i64 i = first_element() + e * BLOCK; \
            if (i < n) { \
                x[i] = As<T>::of(value); \
            } \
        } \
    }
FOR_FORMATS(FILL)

// y = x, in the format of y.
template <class X, class Y> DEVICE void cast(i64 n, const In<X> &x, const Out<Y> &y) {
    X v[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            v[e] = x[i];
        }
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            y[i] = As<Y>::of(v[e]);
        }
    }
}

#define CAST(X) \
    KERNEL(cast_##X, i64 n, In<X> x, i32 format, Any y) { \
        IN_FORMAT(format, Y, (cast<X, Y>(n, x, y.out<Y>()))) \
    }
FOR_FORMATS(CAST)

#define SCALE_(T) \
    KERNEL(scale_##T, i64 n, f64 alpha, Out<T> x) { \
        UNROLL \
        for (int e = 0; e < ELEMENTS; ++e) { \
            const i64 i = first_element() + e * BLOCK; \
            if (i < n) { \
                x[i] = As<T>::of(As<Wide<T>>::of(x[i]) * As<Wide<T>>::of(alpha)); \
            } \
        } \
    }
FOR_FORMATS(SCALE_)

// y = alpha x + beta y; y is not read when beta is 0.
template <class T> DEVICE void axpby(i64 n, Wide<T> alpha, const In<T> &x, Wide<T> beta, const Out<T> &y) {
    using A = Wide<T>;
    A ax[ELEMENTS];
    A by[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        ax[e] = i < n ? As<A>::of(x[i]) : A(0);
        by[e] = i < n && beta != A(0) ? As<A>::of(y[i]) : A(0);
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            y[i] = As<T>::of(beta == A(0) ? alpha * ax[e] : alpha * ax[e] + beta * by[e]);
        }
    }
}

#define AXPBY(T) \
    KERNEL(axpby_##T, i64 n, f64 alpha, In<T> x, f64 beta, Out<T> y) { \
        axpby<T>(n, As<Wide<T>>::of(alpha), x, As<Wide<T>>::of(beta), y); \
    }
FOR_FORMATS(AXPBY)

// y = D x or y += D x for square blocks of `width` rows, each stored row by row. Vectors are multivectors of 1 << shift interleaved vectors.
template <class S, class T>
DEVICE void diagonal(i64 n, int shift, int width, int add, const In<S> &d, const In<T> &x, const Out<T> &y) {
    using A = Wide<T>;
    A dx[ELEMENTS];
    A old[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        dx[e] = 0;
        old[e] = 0;
        if (i >= n) {
            continue;
        }
        const i64 row = i >> shift;
        if (width == 1) {
            dx[e] = As<A>::of(d[row]) * As<A>::of(x[i]);
        } else {
            const i64 first = i - ((row % width) << shift);
            for (int c = 0; c < width; ++c) {
                dx[e] += As<A>::of(d[row * width + c]) * As<A>::of(x[first + (static_cast<i64>(c) << shift)]);
            }
        }
        if (add) {
            old[e] = As<A>::of(y[i]);
        }
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            y[i] = As<T>::of(add ? old[e] + dx[e] : dx[e]);
        }
    }
}

#define DIAGONAL(S, T) \
    KERNEL(diagonal_##S##_##T, i64 n, i32 shift, i32 width, i32 add, In<S> d, In<T> x, Out<T> y) { \
        diagonal<S, T>(n, shift, width, add, d, x, y); \
    }
FOR_STORAGE_AND_VECTOR(DIAGONAL)

// A step of the Chebyshev recurrence: p = D r + beta p and x += alpha p, with D as above in any format. p is not read when beta is 0, and x is not read with `zero_guess`.
// p is written if it is to be kept.
template <class T>
DEVICE void chebyshev_update(i64 n, int shift, int width, int format, const Any &d, const In<T> &r, Wide<T> beta, const Out<T> &p, int keep,
                             Wide<T> alpha, int zero_guess, const Out<T> &x) {
    using A = Wide<T>;
    A dr[ELEMENTS];
    A old_p[ELEMENTS];
    A old_x[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        dr[e] = 0;
        old_p[e] = i < n && beta != A(0) ? As<A>::of(p[i]) : A(0);
        old_x[e] = i < n && !zero_guess ? As<A>::of(x[i]) : A(0);
        if (i < n) {
            const i64 row = i >> shift;
            const i64 first = i - ((row % width) << shift);
            for (int c = 0; c < width; ++c) {
                dr[e] += load_any<A>(d, format, row * width + c) * As<A>::of(r[first + (static_cast<i64>(c) << shift)]);
            }
        }
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            const A new_p = beta == A(0) ? dr[e] : dr[e] + beta * old_p[e];
            if (keep) {
                p[i] = As<T>::of(new_p);
            }
            x[i] = As<T>::of(zero_guess ? alpha * new_p : old_x[e] + alpha * new_p);
        }
    }
}

#define CHEBYSHEV_UPDATE(T) \
    KERNEL(chebyshev_update_##T, i64 n, i32 shift, i32 width, i32 format, Any d, In<T> r, f64 beta, Out<T> p, i32 keep, f64 alpha, i32 zero_guess, \
           Out<T> x) { \
        chebyshev_update<T>(n, shift, width, format, d, r, As<Wide<T>>::of(beta), p, keep, As<Wide<T>>::of(alpha), zero_guess, x); \
    }
FOR_FORMATS(CHEBYSHEV_UPDATE)

// factor D x_i, multiplied in f64; D is a diagonal, or absent when `scaled` is 0.
template <class X> DEVICE f64 rescaled(f64 factor, int scaled, const In<f32> &d, const In<X> &x, i64 i) {
    const f64 v = to_f64(x[i]);
    return factor * (scaled ? v * to_f64(d[i]) : v);
}

// y = factor D x.
template <class X, class Y>
DEVICE void rescale(i64 n, f64 factor, int scaled, const In<f32> &d, const In<X> &x, const Out<Y> &y) {
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            y[i] = As<Y>::of(rescaled(factor, scaled, d, x, i));
        }
    }
}

// The factor is divided by the element of `divisor`, if it has one.
#define RESCALE(X) \
    KERNEL(rescale_##X, i64 n, f64 factor, In<f64> divisor, i32 scaled, In<f32> d, In<X> x, i32 format, Any y) { \
        if (divisor.len > 0) { \
            factor /= divisor[0]; \
        } \
        IN_FORMAT(format, Y, (rescale<X, Y>(n, factor, scaled, d, x, y.out<Y>()))) \
    }
FOR_FORMATS(RESCALE)

// y = factor D x. Returns the largest absolute value of the elements of this thread, before they are rounded.
template <class X, class Y>
DEVICE f64 rescale_with_max(i64 n, f64 factor, int scaled, const In<f32> &d, const In<X> &x, const Out<Y> &y) {
    f64 largest = 0.0;
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        f64 v[ELEMENTS];
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            if (i + e * step < n) {
                v[e] = rescaled(factor, scaled, d, x, i + e * step);
            }
        }
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            if (i + e * step < n) {
                largest = larger(largest, v[e] < 0.0 ? -v[e] : v[e]);
                y[i + e * step] = As<Y>::of(v[e]);
            }
        }
    }
    return largest;
}

// y = shift D x, and the largest absolute value of each block: the first pass of a conversion into the range of a format.
#define CONVERT_INTO_RANGE(X) \
    KERNEL(convert_into_range_##X, i64 n, f64 shift, i32 scaled, In<f32> d, In<X> x, i32 format, Any y, Out<f64> parts) { \
        f64 largest = 0.0; \
        IN_FORMAT(format, Y, (largest = rescale_with_max<X, Y>(n, shift, scaled, d, x, y.out<Y>()))) \
        largest = block_largest(largest); \
        if (thread_index() == 0) { \
            parts[block_index()] = largest; \
        } \
    }
FOR_FORMATS(CONVERT_INTO_RANGE)

// The power of two that brings `norm` to 2^target; 1 where it is between `low` and `high`, 0 or not finite. Where these are the same, the
// number that brings it to 2^target itself.
DEVICE f64 power_into_range(f64 norm, f64 low, f64 high, int target) {
    if ((norm >= low && norm < high) || norm == 0.0 || norm != norm || norm - norm != 0.0) {
        return 1.0;
    }
    constexpr int LARGEST = 1000;
    if (low == high) {
        const f64 factor = f64_of(static_cast<i64>(target + 1023) << 52) / norm;
        return factor > 0x1p1000 ? 0x1p1000 : factor < 0x1p-1000 ? 0x1p-1000 : factor;
    }
    const int exponent = target - (static_cast<int>(bits_of(norm) >> 52) - 1023);
    const int kept = exponent > LARGEST ? LARGEST : exponent < -LARGEST ? -LARGEST : exponent;
    return f64_of(static_cast<i64>(kept + 1023) << 52);
}

// The second pass: every block reduces the maxima of the first pass to the factor. Where it is not 1, y is computed again.
#define CORRECT_RANGE(X) \
    KERNEL(correct_range_##X, i64 n, f64 shift, i32 scaled, In<f32> d, In<X> x, i32 format, Any y, In<f64> parts, f64 low, \
           f64 high, i32 target, Out<f64> factor) { \
        f64 norm = 0.0; \
        for (i64 i = thread_index(); i < parts.len; i += BLOCK) { \
            norm = larger(norm, parts[i]); \
        } \
        const f64 power = power_into_range(block_largest(norm), low, high, target); \
        if (global_index() == 0) { \
            factor[0] = power; \
        } \
        if (power != 1.0) { \
            IN_FORMAT(format, Y, (rescale_with_max<X, Y>(n, power * shift, scaled, d, x, y.out<Y>()))) \
        } \
    }
FOR_FORMATS(CORRECT_RANGE)

#define MAX_NORM(T) \
    KERNEL(max_norm_##T, i64 n, In<T> x, Out<f64> parts) { \
        f64 largest = 0.0; \
        for (i64 i = global_index(); i < n; i += block_count() * BLOCK) { \
            const f64 v = to_f64(x[i]); \
            largest = larger(largest, v < 0.0 ? -v : v); \
        } \
        largest = block_largest(largest); \
        if (thread_index() == 0) { \
            parts[block_index()] = largest; \
        } \
    }
FOR_FORMATS(MAX_NORM)

KERNEL(max_norm_finish, i64 count, In<f64> parts, Out<f64> result) {
    f64 largest = 0.0;
    for (i64 i = thread_index(); i < count; i += BLOCK) {
        largest = larger(largest, parts[i]);
    }
    largest = block_largest(largest);
    if (thread_index() == 0) {
        result[0] = largest;
    }
}

// Each block's partial sum of x·y, which depends on the number of blocks alone; `dot_finish` adds the partial sums.
template <class T> DEVICE f64 dot_part(i64 n, const In<T> &x, const In<T> &y) {
    f64 sums[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            if (i + e * step < n) {
                sums[e] += to_f64(x[i + e * step]) * to_f64(y[i + e * step]);
            }
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#define DOT(T) \
    KERNEL(dot_##T, i64 n, In<T> x, In<T> y, Out<f64> parts) { \
        const f64 sum = block_sum(dot_part<T>(n, x, y)); \
        if (thread_index() == 0) { \
            parts[block_index()] = sum; \
        } \
    }
FOR_FORMATS(DOT)

// Partial sums that a block adds.
constexpr i64 PARTS = 4096;

// Each block adds its share of the partial sums.
KERNEL(dot_finish, i64 count, In<f64> parts, Out<f64> result) {
    const i64 first = block_index() * PARTS;
    const i64 end = first + PARTS < count ? first + PARTS : count;
    const f64 sum = parts_sum(parts, first, end);
    if (thread_index() == 0) {
        result[block_index()] = sum;
    }
}
