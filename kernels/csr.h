// Partial sum of a lane in the product of a row and a vector.
#pragma once
#include "portability.h"

// Entries of a lane whose loads are in flight at the same time.
constexpr int CSR_BATCH = 6;

// The sum over every `lanes`th of `count` entries, from `lane` on, in type A. Arrays are `In`, or have its interface.
template <class A, class C, class S, class X>
DEVICE A row_part(int lane, int lanes, int count, const C &columns, const S &values, const X &x) {
    A sum = 0;
    for (int k = lane; k < count; k += CSR_BATCH * lanes) {
        decltype(values.once(0)) value[CSR_BATCH];
        decltype(columns.once(0)) column[CSR_BATCH];
        UNROLL
        for (int j = 0; j < CSR_BATCH; ++j) {
            // Beyond the end the last entry is loaded again: unconditional loads are all in flight at once.
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
