// Steps of conjugate gradients that read each vector once. Numbers go from one to another in device memory.
#include "step.h"

// Where the numbers are.
constexpr int ZR = 0;
constexpr int ZQ = 1;
constexpr int BEFORE = 2;
constexpr int BETA = 3;
constexpr int PQ = 4;
constexpr int ALPHA = 5;

// z·r from its parts, and beta: 0 in the first iteration, z·r over the one before, or with z·q, whose parts are behind those of z·r, where
// that is `flexible`.
KERNEL(find_beta, i64 count, In<f64> parts, i32 first, i32 flexible, Out<f64> numbers) {
    const f64 zr = parts_sum(parts, 0, count);
    barrier();
    const f64 zq = parts_sum(parts, count, flexible ? 2 * count : count);
    if (thread_index() == 0) {
        const f64 before = numbers[ZR];
        numbers[ZR] = zr;
        numbers[ZQ] = zq;
        numbers[BEFORE] = before;
        numbers[BETA] = first ? 0.0 : (flexible ? -numbers[ALPHA] * zq : zr) / before;
    }
}

// p·q from its parts, and alpha: 0 where there is no step to take.
KERNEL(find_alpha, i64 count, In<f64> parts, Out<f64> numbers) {
    const f64 pq = parts_sum(parts, 0, count);
    if (thread_index() == 0) {
        numbers[PQ] = pq;
        numbers[ALPHA] = numbers[ZR] > 0.0 && pq > 0.0 ? numbers[ZR] / pq : 0.0;
    }
}

// p = z + beta p; p is not read when beta is 0. `z` gives an element.
template <class T, class Z> DEVICE void turn_to(i64 n, const Z &z, T beta, const Out<T> &p) {
    T to[ELEMENTS];
    T by[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        to[e] = i < n ? z(i) : T(0);
        by[e] = i < n && beta != T(0) ? p[i] : T(0);
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            p[i] = beta == T(0) ? to[e] : to[e] + beta * by[e];
        }
    }
}

#define TURN(T) \
    KERNEL(turn_##T, i64 n, In<f64> numbers, In<T> z, Out<T> p) { \
        turn_to<T>(n, [&](i64 i) { return z[i]; }, As<T>::of(numbers[BETA]), p); \
    }
TURN(f64) TURN(f32)

#define STEP(T) \
    KERNEL(step_##T, i64 n, In<f64> numbers, In<T> p, In<T> q, In<u64> place, Out<T> r, Out<f64> parts) { \
        const T alpha = As<T>::of(numbers[ALPHA]); \
        const f64 sum = block_sum(step_part<T>(n, alpha, p, q, found<T>(n, place), r, [](i64, T) {})); \
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
KERNEL(step_apart, i64 n, In<f64> numbers, In<f64> p, In<f64> q, In<u64> place, Out<f64> r, f64 factor, i32 scaled, In<f32> d,
       Out<f32> b, Out<f64> parts) {
    const Apart apart{factor, scaled, d};
    f64 largest = 0.0;
    const f64 sum = block_sum(step_part<f64>(n, numbers[ALPHA], p, q, found<f64>(n, place), r, [&](i64 k, f64 v) {
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
KERNEL(turn_apart, i64 n, In<f64> numbers, f64 factor, In<f64> divisor, i32 scaled, In<f32> d, In<f32> w, Out<f64> p) {
    const Apart apart{divided(factor, divisor), scaled, d};
    turn_to<f64>(n, [&](i64 i) { return apart.of(i, to_f64(w[i])); }, numbers[BETA], p);
}
