// Steps of Krylov methods that read each vector once.
#include "reduce.h"

// x += alpha p, r -= alpha q, and of each block a part of r·r that follows from the number of blocks. `keep` gets each element of r.
template <class T, class Keep>
DEVICE f64 step_part(i64 n, T alpha, const In<T> &p, const In<T> &q, const Out<T> &x, const Out<T> &r, const Keep &keep) {
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
                keep(k, new_r[e]);
                sums[e] += to_f64(new_r[e]) * to_f64(new_r[e]);
            }
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#define STEP(T) \
    KERNEL(step_##T, i64 n, f64 alpha, In<T> p, In<T> q, Out<T> x, Out<T> r, Out<f64> parts) { \
        const f64 sum = block_sum(step_part<T>(n, static_cast<T>(alpha), p, q, x, r, [](i64, T) {})); \
        if (thread_index() == 0) { \
            parts[block_index()] = sum; \
        } \
    }
STEP(f64) STEP(f32)

// A preconditioner in f32 works on factor D r and gives z = D w times the factor, divided by what r was multiplied with to be in the range of
// its vectors, if that is there; D is a diagonal, or absent when `scaled` is 0.
struct Apart {
    f64 factor;
    i32 scaled;
    In<f32> d;

    DEVICE f64 of(i64 i, f64 v) const { return factor * (scaled ? v * to_f64(d[i]) : v); }
};

DEVICE f64 divided(f64 factor, const In<f64> &divisor) { return divisor.len > 0 ? factor / divisor[0] : factor; }

// The step, b = factor D r for the preconditioner, and behind the parts of r·r the largest of b in each block, before it is rounded.
KERNEL(step_apart, i64 n, f64 alpha, In<f64> p, In<f64> q, Out<f64> x, Out<f64> r, f64 factor, i32 scaled, In<f32> d, Out<f32> b,
       Out<f64> parts) {
    const Apart apart{factor, scaled, d};
    f64 largest = 0.0;
    const f64 sum = block_sum(step_part<f64>(n, alpha, p, q, x, r, [&](i64 k, f64 v) {
        v = apart.of(k, v);
        largest = larger(largest, v < 0.0 ? -v : v);
        b[k] = As<f32>::of(v);
    }));
    largest = block_largest(largest);
    if (thread_index() == 0) {
        parts[block_index()] = sum;
        parts[block_count() + block_index()] = largest;
    }
}

// Of each block a part of z·r, and of z·q where there is a q, behind all of the first.
KERNEL(dots_apart, i64 n, f64 factor, In<f64> divisor, i32 scaled, In<f32> d, In<f32> w, In<f64> r, In<f64> q, Out<f64> parts) {
    const Apart apart{divided(factor, divisor), scaled, d};
    const bool both = q.len > 0;
    f64 zr[ELEMENTS] = {};
    f64 zq[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            if (k < n) {
                const f64 z = apart.of(k, to_f64(w[k]));
                zr[e] += z * r[k];
                zq[e] += both ? z * q[k] : 0.0;
            }
        }
    }
    const f64 first = block_sum((zr[0] + zr[1]) + (zr[2] + zr[3]));
    barrier();
    const f64 second = block_sum((zq[0] + zq[1]) + (zq[2] + zq[3]));
    if (thread_index() == 0) {
        parts[block_index()] = first;
        parts[block_count() + block_index()] = second;
    }
}

// p = z + beta p.
KERNEL(add_apart, i64 n, f64 factor, In<f64> divisor, i32 scaled, In<f32> d, In<f32> w, f64 beta, Out<f64> p) {
    const Apart apart{divided(factor, divisor), scaled, d};
    f64 z[ELEMENTS];
    f64 by[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        z[e] = i < n ? apart.of(i, to_f64(w[i])) : 0.0;
        by[e] = i < n ? p[i] : 0.0;
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            p[i] = z[e] + beta * by[e];
        }
    }
}
