// CSR times vector: a group of 1 << shift neighbouring lanes for each row, at most 32. Columns have 32 bits, or 16 that are counted from the lowest of
// their row, its base.
#include "finish.h"

// Entries of a lane whose loads are under way at the same time.
constexpr int CSR_BATCH = 6;

// SHIFT is the shift where that is known to the compiler, and negative elsewhere.
template <class S, class C, class X, class A, int SHIFT>
DEVICE void csr(i64 rows, int shift, const In<i64> &offsets, const In<i32> &bases, const In<C> &columns, const In<S> &values,
                const In<X> &x, const Finish &f) {
    shift = SHIFT < 0 ? shift : SHIFT;
    const int lanes = 1 << shift;
    const i64 row = block_index() * (BLOCK >> shift) + (thread_index() >> shift);
    const int lane = thread_index() & (lanes - 1);
    A sum = 0;
    if (row < rows) {
        const i64 start = offsets[row];
        const int count = static_cast<int>(offsets[row + 1] - start);
        const In<X> part = x.from(sizeof(C) == sizeof(u16) ? bases[row] : 0);
        const In<C> own_columns = columns.from(start);
        const In<S> own_values = values.from(start);
        for (int k = lane; k < count; k += CSR_BATCH * lanes) {
            S value[CSR_BATCH];
            C column[CSR_BATCH];
            UNROLL
            for (int j = 0; j < CSR_BATCH; ++j) {
                // Behind the end it is the last entry again: loads that depend on nothing are all under way at once.
                const int at = k + j * lanes < count ? k + j * lanes : count - 1;
                column[j] = own_columns.once(at);
                value[j] = own_values.once(at);
            }
            UNROLL
            for (int j = 0; j < CSR_BATCH; ++j) {
                if (k + j * lanes < count) {
                    sum += As<A>::of(value[j]) * As<A>::of(part[column[j]]);
                }
            }
        }
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
        sum += shuffle_xor(sum, mask);
    }
    f64 share = 0.0;
    if (row < rows && lane == 0) {
        share = finish(f, row, sum);
    }
    finish_block(f, share);
}

#define CSR(S, X, A) \
    KERNEL_OF(4, csr_##S##_##X##_##A, i64 rows, i32 shift, In<i64> offsets, In<i32> columns, In<S> values, In<X> x, Finish f) { \
        csr<S, i32, X, A, -1>(rows, shift, offsets, columns, columns, values, x, f); \
    } \
    KERNEL_OF(4, csr16_##S##_##X##_##A, i64 rows, i32 shift, In<i64> offsets, In<i32> bases, In<u16> columns, In<S> values, In<X> x, Finish f) { \
        if (shift == 3) { \
            csr<S, u16, X, A, 3>(rows, shift, offsets, bases, columns, values, x, f); \
        } else if (shift == 4) { \
            csr<S, u16, X, A, 4>(rows, shift, offsets, bases, columns, values, x, f); \
        } else { \
            csr<S, u16, X, A, -1>(rows, shift, offsets, bases, columns, values, x, f); \
        } \
    }
FOR_STORAGE_VECTOR_AND_SUM(CSR)
