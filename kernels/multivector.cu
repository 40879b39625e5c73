// Conjugate gradients on multivectors, with scalars for each vector.
#include "multivector.h"

// Vector c of x becomes factor v.
#define PUT_VECTOR(V, T) \
    KERNEL(put_vector_##V##_##T, i64 n, i32 shift, i32 c, f64 factor, In<V> v, Out<T> x) { \
        const i64 i = global_index(); \
        if (i < n) { \
            x[(i << shift) + c] = As<T>::of(factor * to_f64(v[i])); \
        } \
    }
PUT_VECTOR(f64, f64) PUT_VECTOR(f32, f64) PUT_VECTOR(f64, f32) PUT_VECTOR(f32, f32)

// v becomes factor times vector c of x.
#define TAKE_VECTOR(T) \
    KERNEL(take_vector_##T, i64 n, i32 shift, i32 c, f64 factor, In<T> x, Out<T> v) { \
        const i64 i = global_index(); \
        if (i < n) { \
            v[i] = As<T>::of(factor * to_f64(x[(i << shift) + c])); \
        } \
    }
TAKE_VECTOR(f64) TAKE_VECTOR(f32)

// Partial sums of z·r of each vector, followed by those of z·q where there is a q. The number of elements of a wave is a multiple of the number of
// vectors, so each thread has one vector.
template <class T> DEVICE void multivector_dots(i64 n, int shift, const In<T> &z, const In<T> &r, const In<T> &q, const Out<f64> &parts) {
    const bool both = q.len > 0;
    f64 zr[ELEMENTS] = {};
    f64 zq[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            if (k < n) {
                const f64 v = to_f64(z[k]);
                zr[e] += v * to_f64(r[k]);
                zq[e] += both ? v * to_f64(q[k]) : 0.0;
            }
        }
    }
    store_vector_sums(shift, (zr[0] + zr[1]) + (zr[2] + zr[3]), parts, block_index());
    barrier();
    store_vector_sums(shift, (zq[0] + zq[1]) + (zq[2] + zq[3]), parts, block_count() + block_index());
}

#define MULTIVECTOR_DOTS(T) \
    KERNEL(multivector_dots_##T, i64 n, i32 shift, In<T> z, In<T> r, In<T> q, Out<f64> parts) { \
        multivector_dots<T>(n, shift, z, r, q, parts); \
    }
MULTIVECTOR_DOTS(f64) MULTIVECTOR_DOTS(f32)

// Each block adds `count` partial sums of all vectors.
KERNEL(multivector_sums, i64 count, i32 shift, In<f64> parts, Out<f64> sums) {
    const i64 length = count << shift;
    const In<f64> own = parts.from(block_index() * length);
    f64 sum = 0.0;
    for (i64 i = thread_index(); i < length; i += BLOCK) {
        sum += own[i];
    }
    store_vector_sums(shift, sum, sums, block_index());
}

// p = z + beta p; p is not read where beta is 0.
#define MULTIVECTOR_DIRECTION(T) \
    KERNEL(multivector_direction_##T, i64 n, i32 shift, In<T> z, PerVector beta, Out<T> p) { \
        UNROLL \
        for (int e = 0; e < ELEMENTS; ++e) { \
            const i64 i = first_element() + e * BLOCK; \
            if (i < n) { \
                const T own = As<T>::of(beta.of[i & ((1 << shift) - 1)]); \
                p[i] = own == T(0) ? z[i] : z[i] + own * p[i]; \
            } \
        } \
    }
MULTIVECTOR_DIRECTION(f64) MULTIVECTOR_DIRECTION(f32)

// x += alpha p, r -= alpha q, and partial sums of r·r of each vector. Where alpha is 0, p and q are not read.
template <class T>
DEVICE void multivector_step(i64 n, int shift, const PerVector &alpha, const In<T> &p, const In<T> &q, const Out<T> &x, const Out<T> &r,
                             const Out<f64> &parts) {
    const T own = As<T>::of(alpha.of[thread_index() & ((1 << shift) - 1)]);
    f64 sum = 0.0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        T residual = r[i];
        if (own != T(0)) {
            x[i] += own * p[i];
            residual -= own * q[i];
            r[i] = residual;
        }
        sum += to_f64(residual) * to_f64(residual);
    }
    store_vector_sums(shift, sum, parts, block_index());
}

#define MULTIVECTOR_STEP(T) \
    KERNEL(multivector_step_##T, i64 n, i32 shift, PerVector alpha, In<T> p, In<T> q, Out<T> x, Out<T> r, Out<f64> parts) { \
        multivector_step<T>(n, shift, alpha, p, q, x, r, parts); \
    }
MULTIVECTOR_STEP(f64) MULTIVECTOR_STEP(f32)
