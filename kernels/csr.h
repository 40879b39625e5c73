// What a lane has of the product of a row and a vector.
#pragma once
#include "portability.h"

// Entries of a lane whose loads are under way at the same time.
constexpr int CSR_BATCH = 6;

// The sum over every `lanes`th of `count` entries, from `lane` on, in type A.
template <class A, class S, class C, class X>
DEVICE A row_part(int lane, int lanes, int count, const In<C> &columns, const In<S> &values, const In<X> &x) {
    A sum = 0;
    for (int k = lane; k < count; k += CSR_BATCH * lanes) {
        S value[CSR_BATCH];
        C column[CSR_BATCH];
        UNROLL
        for (int j = 0; j < CSR_BATCH; ++j) {
            // Behind the end it is the last entry again: loads that depend on nothing are all under way at once.
            const int at = k + j * lanes < count ? k + j * lanes : count - 1;
            column[j] = columns.once(at);
            value[j] = values.once(at);
        }
        UNROLL
        for (int j = 0; j < CSR_BATCH; ++j) {
            if (k + j * lanes < count) {
                sum += As<A>::of(value[j]) * As<A>::of(x[column[j]]);
            }
        }
    }
    return sum;
}
