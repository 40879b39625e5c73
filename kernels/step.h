// A step of x along a direction, with the residual after it.
#pragma once
#include "reduce.h"

// x is where the caller has it, which is told in device memory: launches that are repeated for another x stay the same.
template <class T> DEVICE Out<T> found(i64 n, const In<u64> &place) { return Out<T>{device_address<T>(place[0]), n}; }

// x += alpha p, r -= alpha q, and of each block a part of r·r that follows from the number of blocks. `keep` gets each element of r.
// Without MOVES x and r stay as they are, whatever is in p and q.
template <bool MOVES, class T, class Keep>
DEVICE f64 step_elements(i64 n, T alpha, const In<T> &p, const In<T> &q, const Out<T> &x, const Out<T> &r, const Keep &keep) {
    f64 sums[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        T new_x[ELEMENTS];
        T new_r[ELEMENTS];
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            new_x[e] = k < n ? (MOVES ? x[k] + alpha * p[k] : x[k]) : T(0);
            new_r[e] = k < n ? (MOVES ? r[k] - alpha * q[k] : r[k]) : T(0);
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

template <class T, class Keep>
DEVICE f64 step_part(i64 n, T alpha, const In<T> &p, const In<T> &q, const Out<T> &x, const Out<T> &r, const Keep &keep) {
    return alpha != T(0) ? step_elements<true>(n, alpha, p, q, x, r, keep) : step_elements<false>(n, alpha, p, q, x, r, keep);
}
