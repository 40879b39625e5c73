// The recurrence of Lanczos and power iterations, which stays on the device; see eigenvalue.cu.
#pragma once
#include "numbers.h"
#include "reduce.h"

// The sum of the partial sums; all threads of the block get it.
DEVICE f64 sum_of_parts(const In<f64> &parts) {
    SHARED(f64, whole, 1);
    f64 sum = 0.0;
    for (i64 i = thread_index(); i < parts.len; i += BLOCK) {
        sum += parts[i];
    }
    sum = block_sum(sum);
    if (thread_index() == 0) {
        whole[0] = sum;
    }
    barrier();
    return whole[0];
}

DEVICE void put_part(f64 sum, const Out<f64> &parts) {
    barrier(); // an earlier sum of the block may still be read
    sum = block_sum(sum);
    if (thread_index() == 0) {
        parts[block_index()] = sum;
    }
}

// The recurrence: the number of steps, whether it has ended, the sign of D, and alpha and beta of each step.
struct Recurrence {
    Out<f64> state;
    i64 steps;
    DEVICE f64 &done() const { return state[0]; }
    DEVICE f64 &ended() const { return state[1]; }
    DEVICE f64 &sign() const { return state[2]; }
    DEVICE f64 &alpha(i64 step) const { return state[3 + step]; }
    DEVICE f64 &beta(i64 step) const { return state[3 + steps + step]; }
};

// Begins the product of a step: the factor of A z, or false where the recurrence has ended. Beta is the norm from the partial sums before.
template <class T> DEVICE bool begin_product(i64 step, int power, const In<f64> &before, const Recurrence &known, T &scale) {
    if (known.ended() != 0.0) {
        return false;
    }
    const f64 square = sum_of_parts(before);
    const f64 sign = power || step == 0 ? with_sign(1.0, square) : known.sign();
    const f64 beta = square_root(sign * square);
    // Also if D is not definite, so that its inner product is none.
    const f64 least = power || step == 0 ? 0.0 : 1e-10 * magnitude(known.alpha(step - 1));
    const bool ends = !is_finite(beta) || beta <= least;
    if (global_index() == 0) {
        known.sign() = sign;
        known.beta(step) = beta;
        if (ends) {
            known.ended() = 1.0;
        }
    }
    scale = As<T>::of(1.0 / beta);
    return !ends;
}

DEVICE u64 larger_bits(u64 largest, f64 v) {
    const u64 bits = v == v ? ordered(v) : 0;
    return bits > largest ? bits : largest;
}

// All threads of the block take part.
DEVICE void put_largest(u64 largest, const Out<u64> &bound) {
    largest = group_max<WARP>(largest);
    if (Group<WARP>::rank() == 0 && largest > bound[0]) {
        atomic_max(bound[0], largest);
    }
}
