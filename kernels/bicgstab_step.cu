// An iteration of BiCGStab in two half steps. The scalars stay in device memory.
#include "krylov_step.h"
#include "numbers.h"

namespace bicgstab {

// Index of each scalar; the order is that of `BicgstabScalars` in src/backend/krylov.rs.
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

// `dividend` / `divisor`, or 0 where the inner product `product` is NaN or negligible beside the norms of its vectors, whose squares are xx and yy.
DEVICE f64 quotient(f64 dividend, f64 divisor, f64 product, f64 xx, f64 yy) {
    // As in src/backend/krylov.rs.
    constexpr f64 ORTHOGONAL = 1e-15;
    return magnitude(product) > ORTHOGONAL * square_root(xx) * square_root(yy) ? dividend / divisor : 0.0;
}

// p = r + beta (p - omega v).
template <class T> DEVICE void update_direction(i64 n, const In<f64> &scalars, const In<T> &r, const In<T> &v, const Out<T> &p) {
    const T beta = As<T>::of(scalars[BETA]);
    const T back = As<T>::of(-scalars[BETA] * scalars[OMEGA]);
    T new_p[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        new_p[e] = i < n ? r[i] + (back * v[i] + beta * p[i]) : T(0);
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            p[i] = new_p[e];
        }
    }
}

// Each block's partial sum of x·y, followed by those of y·y.
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

// x += factor z, r -= factor q, and each block's partial sum of r·r, followed by those of shadow·r where there is a shadow residual. With a
// factor of 0, x and r do not change.
template <class T>
DEVICE void step(i64 n, const In<f64> &factor, const In<T> &z, const In<T> &q, const In<T> &shadow, const Out<T> &x,
                 const Out<T> &r, const Out<f64> &parts) {
    const bool both = shadow.len > 0;
    f64 share = 0.0;
    const f64 first = block_sum(krylov_step<T>(n, As<T>::of(factor[0]), z, q, x, r, [&](i64 k, T v) {
        share += both ? to_f64(shadow[k]) * to_f64(v) : 0.0;
    }));
    barrier();
    const f64 second = block_sum(share);
    if (thread_index() == 0) {
        parts[block_index()] = first;
        parts[block_count() + block_index()] = second;
    }
}

} // namespace bicgstab

#define BICGSTAB(T) \
    KERNEL(bicgstab_direction_##T, i64 n, In<f64> scalars, In<T> r, In<T> v, Out<T> p) { bicgstab::update_direction<T>(n, scalars, r, v, p); } \
    KERNEL(bicgstab_dots_##T, i64 n, In<T> x, In<T> y, Out<f64> parts) { bicgstab::dots<T>(n, x, y, parts); } \
    KERNEL(bicgstab_step_##T, i64 n, In<f64> factor, In<T> z, In<T> q, In<T> shadow, In<u64> x_address, Out<T> r, Out<f64> parts) { \
        bicgstab::step<T>(n, factor, z, q, shadow, vector_at<T>(n, x_address), r, parts); \
    }
BICGSTAB(f64) BICGSTAB(f32)

// sigma = shadow·v, v·v, and alpha: 0 where sigma is negligible.
KERNEL(bicgstab_alpha, i64 count, In<f64> parts, Out<f64> scalars) {
    const f64 sigma = parts_sum(parts, 0, count);
    barrier();
    const f64 vv = parts_sum(parts, count, 2 * count);
    if (thread_index() == 0) {
        scalars[bicgstab::SIGMA] = sigma;
        scalars[bicgstab::VV] = vv;
        scalars[bicgstab::ALPHA] = bicgstab::quotient(scalars[bicgstab::RHO], sigma, sigma, scalars[bicgstab::SHADOW], vv);
    }
}

// t·s, t·t, and omega: 0 where t·s is negligible, where alpha is 0, and where the first half step reached the target.
KERNEL(bicgstab_omega, i64 count, In<f64> parts, Out<f64> scalars) {
    const f64 ts = parts_sum(parts, 0, count);
    barrier();
    const f64 tt = parts_sum(parts, count, 2 * count);
    if (thread_index() == 0) {
        const f64 ss = scalars[bicgstab::SS];
        const bool wanted = scalars[bicgstab::ALPHA] != 0.0 && square_root(ss) > scalars[bicgstab::TARGET];
        scalars[bicgstab::TS] = ts;
        scalars[bicgstab::TT] = tt;
        scalars[bicgstab::OMEGA] = wanted ? bicgstab::quotient(ts, tt, ts, ss, tt) : 0.0;
    }
}

// r·r after both half steps, rho = shadow·r, and beta of the next iteration.
KERNEL(bicgstab_beta, i64 count, In<f64> parts, Out<f64> scalars) {
    const f64 rr = parts_sum(parts, 0, count);
    barrier();
    const f64 rho = parts_sum(parts, count, 2 * count);
    if (thread_index() == 0) {
        scalars[bicgstab::RR] = rr;
        scalars[bicgstab::BETA] = (rho / scalars[bicgstab::RHO]) * (scalars[bicgstab::ALPHA] / scalars[bicgstab::OMEGA]);
        scalars[bicgstab::RHO] = rho;
    }
}
