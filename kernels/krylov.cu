// Steps of Krylov methods that read each vector once.
#include "reduce.h"

// x += alpha p, r -= alpha q, and of each block a part of r·r that follows from the number of blocks.
template <class T>
DEVICE f64 step_part(i64 n, T alpha, const In<T> &p, const In<T> &q, const Out<T> &x, const Out<T> &r) {
    f64 sums[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        T new_x[ELEMENTS];
        T new_r[ELEMENTS];
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            new_x[e] = k < n ? x[k] + alpha * p[k] : T(0);
            new_r[e] = k < n ? r[k] - alpha * q[k] : T(0);
        }
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            if (k < n) {
                x[k] = new_x[e];
                r[k] = new_r[e];
                sums[e] += to_f64(new_r[e]) * to_f64(new_r[e]);
            }
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#define STEP(T) \
    KERNEL(step_##T, i64 n, f64 alpha, In<T> p, In<T> q, Out<T> x, Out<T> r, Out<f64> parts) { \
        const f64 sum = block_sum(step_part<T>(n, static_cast<T>(alpha), p, q, x, r)); \
        if (thread_index() == 0) { \
            parts[block_index()] = sum; \
        } \
    }
STEP(f64) STEP(f32)
