// SpMV in CSR: a group of 1 << shift lanes for each row, at most 32. Columns have 32 bits, or 16 as offsets from the lowest column of
// their row, the base.
#include "csr.h"
#include "spmv_epilogue.h"

// SHIFT is the shift if it is a compile-time constant, else negative.
template <class S, class C, class X, class A, int SHIFT>
DEVICE void csr(i64 rows, int shift, const In<i64> &offsets, const In<i32> &bases, const In<C> &columns, const In<S> &values,
                const In<X> &x, const Epilogue &f) {
    shift = SHIFT < 0 ? shift : SHIFT;
    const int lanes = 1 << shift;
    const int whole = whole_rows(f, BLOCK >> shift);
    const i64 row = thread_index() >> shift < whole ? block_index() * whole + (thread_index() >> shift) : rows;
    const int lane = thread_index() & (lanes - 1);
    A sum = 0;
    if (row < rows) {
        const i64 start = offsets[row];
        const int count = static_cast<int>(offsets[row + 1] - start);
        const In<X> part = x.from(sizeof(C) == sizeof(u16) ? bases[row] : 0);
        sum = row_part<A>(lane, lanes, count, columns.from(start), values.from(start), part);
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
        sum += shuffle_xor(sum, mask);
    }
    if (f.width > 1) {
        // A group has at least two lanes.
        exchange_and_apply_block_epilogue<BLOCK / 2>(f, row < rows && lane == 0, row, thread_index() >> shift, sum);
        return;
    }
    f64 share = 0.0;
    if (row < rows && lane == 0) {
        share = apply_epilogue(f, row, sum);
    }
    store_epilogue_sum(f, share);
}

#define CSR(S, X, A) \
    KERNEL_OF(4, csr_##S##_##X##_##A, i64 rows, i32 shift, In<i64> offsets, In<i32> columns, In<S> values, In<X> x, Epilogue f) { \
        csr<S, i32, X, A, -1>(rows, shift, offsets, columns, columns, values, x, f); \
    } \
    KERNEL_OF(4, csr16_##S##_##X##_##A, i64 rows, i32 shift, In<i64> offsets, In<i32> bases, In<u16> columns, In<S> values, In<X> x, Epilogue f) { \
        if (shift == 3) { \
            csr<S, u16, X, A, 3>(rows, shift, offsets, bases, columns, values, x, f); \
        } else if (shift == 4) { \
            csr<S, u16, X, A, 4>(rows, shift, offsets, bases, columns, values, x, f); \
        } else { \
            csr<S, u16, X, A, -1>(rows, shift, offsets, bases, columns, values, x, f); \
        } \
    }
FOR_STORAGE_VECTOR_AND_SUM(CSR)
