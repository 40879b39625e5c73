// The halves of an iteration of BiCGStab. Numbers go from one to another in device memory.
#include "numbers.h"
#include "step.h"

namespace halves {

// Where the numbers are; the names are those of `HalfNumbers` in src/backend.rs.
constexpr int RHO = 0;
constexpr int SHADOW = 1;
constexpr int TARGET = 2;
constexpr int BETA = 3;
constexpr int SIGMA = 4;
constexpr int VV = 5;
constexpr int ALPHA = 6;
constexpr int SS = 7;
constexpr int TS = 8;
constexpr int TT = 9;
constexpr int OMEGA = 10;
constexpr int RR = 11;

// `dividend` / `divisor`, or 0 where `product`, an inner product of vectors with these squared norms, is rounding or not a number.
DEVICE f64 quotient(f64 dividend, f64 divisor, f64 product, f64 xx, f64 yy) {
    // As in src/backend.rs.
    constexpr f64 ORTHOGONAL = 1e-15;
    return magnitude(product) > ORTHOGONAL * square_root(xx) * square_root(yy) ? dividend / divisor : 0.0;
}

// p = r + beta (p - omega v).
template <class T> DEVICE void turn(i64 n, const In<f64> &numbers, const In<T> &r, const In<T> &v, const Out<T> &p) {
    const T beta = As<T>::of(numbers[BETA]);
    const T back = As<T>::of(-numbers[BETA] * numbers[OMEGA]);
    T to[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        to[e] = i < n ? r[i] + (back * v[i] + beta * p[i]) : T(0);
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            p[i] = to[e];
        }
    }
}

// Of each block a part of x·y, and behind all of them one of y·y.
template <class T> DEVICE void dots(i64 n, const In<T> &x, const In<T> &y, const Out<f64> &parts) {
    f64 xy[ELEMENTS] = {};
    f64 yy[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            if (i + e * step < n) {
                const f64 element = to_f64(y[i + e * step]);
                xy[e] += to_f64(x[i + e * step]) * element;
                yy[e] += element * element;
            }
        }
    }
    const f64 first = block_sum((xy[0] + xy[1]) + (xy[2] + xy[3]));
    barrier();
    const f64 second = block_sum((yy[0] + yy[1]) + (yy[2] + yy[3]));
    if (thread_index() == 0) {
        parts[block_index()] = first;
        parts[block_count() + block_index()] = second;
    }
}

// x += factor z, r -= factor q, and of each block a part of r·r, and of r with the shadow, if there is one, behind all of the first. With a
// factor of 0 nothing moves.
template <class T>
DEVICE void step(i64 n, const In<f64> &factor, const In<T> &z, const In<T> &q, const In<T> &shadow, const Out<T> &x,
                 const Out<T> &r, const Out<f64> &parts) {
    const bool both = shadow.len > 0;
    f64 share = 0.0;
    const f64 first = block_sum(step_part<T>(n, As<T>::of(factor[0]), z, q, x, r, [&](i64 k, T v) {
        share += both ? to_f64(shadow[k]) * to_f64(v) : 0.0;
    }));
    barrier();
    const f64 second = block_sum(share);
    if (thread_index() == 0) {
        parts[block_index()] = first;
        parts[block_count() + block_index()] = second;
    }
}

} // namespace halves

#define HALVES(T) \
    KERNEL(halves_turn_##T, i64 n, In<f64> numbers, In<T> r, In<T> v, Out<T> p) { halves::turn<T>(n, numbers, r, v, p); } \
    KERNEL(halves_dots_##T, i64 n, In<T> x, In<T> y, Out<f64> parts) { halves::dots<T>(n, x, y, parts); } \
    KERNEL(halves_step_##T, i64 n, In<f64> factor, In<T> z, In<T> q, In<T> shadow, In<u64> place, Out<T> r, Out<f64> parts) { \
        halves::step<T>(n, factor, z, q, shadow, found<T>(n, place), r, parts); \
    }
HALVES(f64) HALVES(f32)

// The product of the shadow with v, v·v, and alpha: 0 where there is no step to take.
KERNEL(halves_alpha, i64 count, In<f64> parts, Out<f64> numbers) {
    const f64 sigma = parts_sum(parts, 0, count);
    barrier();
    const f64 vv = parts_sum(parts, count, 2 * count);
    if (thread_index() == 0) {
        numbers[halves::SIGMA] = sigma;
        numbers[halves::VV] = vv;
        numbers[halves::ALPHA] = halves::quotient(numbers[halves::RHO], sigma, sigma, numbers[halves::SHADOW], vv);
    }
}

// s·t, t·t, and omega: 0 where there is no step to take, or none is wanted because there was none in the first half or that reached the target.
KERNEL(halves_omega, i64 count, In<f64> parts, Out<f64> numbers) {
    const f64 ts = parts_sum(parts, 0, count);
    barrier();
    const f64 tt = parts_sum(parts, count, 2 * count);
    if (thread_index() == 0) {
        const f64 ss = numbers[halves::SS];
        const bool wanted = numbers[halves::ALPHA] != 0.0 && square_root(ss) > numbers[halves::TARGET];
        numbers[halves::TS] = ts;
        numbers[halves::TT] = tt;
        numbers[halves::OMEGA] = wanted ? halves::quotient(ts, tt, ts, ss, tt) : 0.0;
    }
}

// r·r after both halves, the product of the shadow with r, and beta of the next iteration.
KERNEL(halves_beta, i64 count, In<f64> parts, Out<f64> numbers) {
    const f64 rr = parts_sum(parts, 0, count);
    barrier();
    const f64 rho = parts_sum(parts, count, 2 * count);
    if (thread_index() == 0) {
        numbers[halves::RR] = rr;
        numbers[halves::BETA] = (rho / numbers[halves::RHO]) * (numbers[halves::ALPHA] / numbers[halves::OMEGA]);
        numbers[halves::RHO] = rho;
    }
}
