// Vector operations. One thread handles one element, except in the inner product.
#include "reduce.h"

#define FILL(T) \
    KERNEL(fill_##T, i64 n, f64 value, Out<T> x) { \
        const i64 i = global_index(); \
        if (i < n) { \
            x[i] = static_cast<T>(value); \
        } \
    }
FOR_VECTORS(FILL)

#define CAST(X, Y) \
    KERNEL(cast_##X##_##Y, i64 n, In<X> x, Out<Y> y) { \
        const i64 i = global_index(); \
        if (i < n) { \
            y[i] = Wide<Y>::of(x[i]); \
        } \
    }
CAST(f64, f64) CAST(f64, f32) CAST(f32, f64) CAST(f32, f32)

#define SCALE_(T) \
    KERNEL(scale_##T, i64 n, f64 alpha, Out<T> x) { \
        const i64 i = global_index(); \
        if (i < n) { \
            x[i] *= static_cast<T>(alpha); \
        } \
    }
FOR_VECTORS(SCALE_)

// y = alpha x + beta y; y is not read when beta is 0.
#define AXPBY(T) \
    KERNEL(axpby_##T, i64 n, f64 alpha, In<T> x, f64 beta, Out<T> y) { \
        const i64 i = global_index(); \
        if (i >= n) { \
            return; \
        } \
        const T ax = static_cast<T>(alpha) * x[i]; \
        y[i] = beta == 0.0 ? ax : ax + static_cast<T>(beta) * y[i]; \
    }
FOR_VECTORS(AXPBY)

// y = D x or y += D x for square blocks of `width` rows, each stored row by row.
template <class S, class T>
DEVICE void diagonal(i64 n, int width, int add, const In<S> &d, const In<T> &x, const Out<T> &y) {
    const i64 i = global_index();
    if (i >= n) {
        return;
    }
    T sum = 0;
    const i64 first = width == 1 ? i : i / width * width;
    for (int c = 0; c < width; ++c) {
        sum += Wide<T>::of(d[i * width + c]) * x[first + c];
    }
    y[i] = add ? y[i] + sum : sum;
}

#define DIAGONAL(S, T) \
    KERNEL(diagonal_##S##_##T, i64 n, i32 width, i32 add, In<S> d, In<T> x, Out<T> y) { \
        diagonal<S, T>(n, width, add, d, x, y); \
    }
FOR_STORAGE_AND_VECTOR(DIAGONAL)

// Each block sums a part of x·y that follows from the number of blocks; `dot_finish` adds the parts.
#define DOT(T) \
    KERNEL(dot_##T, i64 n, In<T> x, In<T> y, Out<f64> parts) { \
        f64 sum = 0.0; \
        for (i64 i = global_index(); i < n; i += block_count() * BLOCK) { \
            sum += to_f64(x[i]) * to_f64(y[i]); \
        } \
        sum = block_sum(sum); \
        if (thread_index() == 0) { \
            parts[block_index()] = sum; \
        } \
    }
FOR_VECTORS(DOT)

KERNEL(dot_finish, i64 count, In<f64> parts, Out<f64> result) {
    f64 sum = 0.0;
    for (i64 i = thread_index(); i < count; i += BLOCK) {
        sum += parts[i];
    }
    sum = block_sum(sum);
    if (thread_index() == 0) {
        result[0] = sum;
    }
}
