// Conjugate gradients: each kernel reads a vector once. The scalars stay in device memory.
#include "krylov_step.h"

// Index of each scalar; the order is that of `CgScalars` in src/backend/krylov.rs.
constexpr int ZR = 0;
constexpr int ZQ = 1;
constexpr int PREVIOUS_ZR = 2;
constexpr int BETA = 3;
constexpr int PQ = 4;
constexpr int ALPHA = 5;

// z·r from its `count` partial sums, and beta: 0 in the first iteration, otherwise z·r over the previous z·r. A `flexible` method
// computes beta from z·q, whose partial sums follow those of z·r.
KERNEL(cg_beta, i64 count, In<f64> parts, i32 first, i32 flexible, Out<f64> scalars) {
    const f64 zr = parts_sum(parts, 0, count);
    barrier();
    const f64 zq = parts_sum(parts, count, flexible ? 2 * count : count);
    if (thread_index() == 0) {
        const f64 previous = scalars[ZR];
        scalars[ZR] = zr;
        scalars[ZQ] = zq;
        scalars[PREVIOUS_ZR] = previous;
        scalars[BETA] = first ? 0.0 : (flexible ? -scalars[ALPHA] * zq : zr) / previous;
    }
}

// p·q from its `count` partial sums, and alpha: 0 where z·r or p·q is not positive.
KERNEL(cg_alpha, i64 count, In<f64> parts, Out<f64> scalars) {
    const f64 pq = parts_sum(parts, 0, count);
    if (thread_index() == 0) {
        scalars[PQ] = pq;
        scalars[ALPHA] = scalars[ZR] > 0.0 && pq > 0.0 ? scalars[ZR] / pq : 0.0;
    }
}

// p = z + beta p; p is not read when beta is 0. `z` returns an element.
template <class T, class Z> DEVICE void update_direction(i64 n, const Z &z, T beta, const Out<T> &p) {
    T new_z[ELEMENTS];
    T old_p[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        new_z[e] = i < n ? z(i) : T(0);
        old_p[e] = i < n && beta != T(0) ? p[i] : T(0);
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            p[i] = beta == T(0) ? new_z[e] : new_z[e] + beta * old_p[e];
        }
    }
}

#define CG_DIRECTION(T) \
    KERNEL(cg_direction_##T, i64 n, In<f64> scalars, In<T> z, Out<T> p) { \
        update_direction<T>(n, [&](i64 i) { return z[i]; }, As<T>::of(scalars[BETA]), p); \
    }
CG_DIRECTION(f64) CG_DIRECTION(f32)

#define CG_STEP(T) \
    KERNEL(cg_step_##T, i64 n, In<f64> scalars, In<T> p, In<T> q, In<u64> x_address, Out<T> r, Out<f64> parts) { \
        const T alpha = As<T>::of(scalars[ALPHA]); \
        const f64 sum = block_sum(krylov_step<T>(n, alpha, p, q, vector_at<T>(n, x_address), r, [](i64, T) {})); \
        if (thread_index() == 0) { \
            parts[block_index()] = sum; \
        } \
    }
CG_STEP(f64) CG_STEP(f32)

// The conversion between vectors of CG in f64 and those of a preconditioner in f32: b = factor D r and z = factor D w. D is a diagonal,
// the identity when `scaled` is 0.
struct Conversion {
    f64 factor;
    i32 scaled;
    In<f32> d;

    DEVICE f64 of(i64 i, f64 v) const { return factor * (scaled ? v * to_f64(d[i]) : v); }
};

// The factor of z, divided by the power of two that brought b into range, if there is one.
DEVICE f64 divided(f64 factor, const In<f64> &divisor) { return divisor.len > 0 ? factor / divisor[0] : factor; }

// The step, and b = factor D r for the preconditioner. The partial sums of r·r are followed by the largest |b| of each block, before it is
// rounded.
KERNEL(cg_step_narrow, i64 n, In<f64> scalars, In<f64> p, In<f64> q, In<u64> x_address, Out<f64> r, f64 factor, i32 scaled, In<f32> d,
       Out<f32> b, Out<f64> parts) {
    const Conversion conversion{factor, scaled, d};
    f64 largest = 0.0;
    const f64 sum = block_sum(krylov_step<f64>(n, scalars[ALPHA], p, q, vector_at<f64>(n, x_address), r, [&](i64 k, f64 v) {
        v = conversion.of(k, v);
        largest = larger(largest, v < 0.0 ? -v : v);
        b[k] = As<f32>::of(v);
    }));
    largest = block_largest(largest);
    if (thread_index() == 0) {
        parts[block_index()] = sum;
        parts[block_count() + block_index()] = largest;
    }
}

// Each block's partial sum of z·r, followed by those of z·q where there is a q.
KERNEL(cg_dots_narrow, i64 n, f64 factor, In<f64> divisor, i32 scaled, In<f32> d, In<f32> w, In<f64> r, In<f64> q, Out<f64> parts) {
    const Conversion conversion{divided(factor, divisor), scaled, d};
    const bool both = q.len > 0;
    f64 zr[ELEMENTS] = {};
    f64 zq[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            if (k < n) {
                const f64 z = conversion.of(k, to_f64(w[k]));
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
KERNEL(cg_direction_narrow, i64 n, In<f64> scalars, f64 factor, In<f64> divisor, i32 scaled, In<f32> d, In<f32> w, Out<f64> p) {
    const Conversion conversion{divided(factor, divisor), scaled, d};
    update_direction<f64>(n, [&](i64 i) { return conversion.of(i, to_f64(w[i])); }, scalars[BETA], p);
}
