// The update of solution and residual that CG and BiCGStab share: x += alpha p, r -= alpha q, with r·r in the same pass.
#pragma once
#include "reduce.h"

// The caller's x. Its address is in device memory, so that one captured graph serves every x.
template <class T> DEVICE Out<T> vector_at(i64 n, const In<u64> &address) { return Out<T>{device_address<T>(address[0]), n}; }

// The update, and this block's partial sum of r·r. `visit` is called with each element of the new r. With UPDATES false, x and r are
// only read, also where p or q are not finite.
template <bool UPDATES, class T, class Visit>
DEVICE f64 step_elements(i64 n, T alpha, const In<T> &p, const In<T> &q, const Out<T> &x, const Out<T> &r, const Visit &visit) {
    f64 sums[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        T new_x[ELEMENTS];
        T new_r[ELEMENTS];
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            new_x[e] = k < n ? (UPDATES ? x[k] + alpha * p[k] : x[k]) : T(0);
            new_r[e] = k < n ? (UPDATES ? r[k] - alpha * q[k] : r[k]) : T(0);
        }
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            if (k < n) {
                x[k] = new_x[e];
                r[k] = new_r[e];
                visit(k, new_r[e]);
                sums[e] += to_f64(new_r[e]) * to_f64(new_r[e]);
            }
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <class T, class Visit>
DEVICE f64 krylov_step(i64 n, T alpha, const In<T> &p, const In<T> &q, const Out<T> &x, const Out<T> &r, const Visit &visit) {
    return alpha != T(0) ? step_elements<true>(n, alpha, p, q, x, r, visit) : step_elements<false>(n, alpha, p, q, x, r, visit);
}
