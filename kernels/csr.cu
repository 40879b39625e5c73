// CSR times vector: a group of LANES neighbouring lanes for each row.
#include "finish.h"
#include "reduce.h"

template <class S, class X, class A, int LANES>
DEVICE void csr(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<S> &values, const In<X> &x,
                const Finish &f) {
    const i64 row = global_index() / LANES;
    const int lane = thread_index() % LANES;
    A sum = 0;
    if (row < rows) {
        const i64 end = offsets[row + 1];
        for (i64 k = offsets[row] + lane; k < end; k += LANES) {
            sum += As<A>::of(values.once(k)) * As<A>::of(x[columns.once(k)]);
        }
    }
    sum = lanes_sum<LANES>(sum);
    if (row < rows && lane == 0) {
        finish(f, row, sum);
    }
}

#define CSR_LANES(S, X, A, LANES) \
    KERNEL(csr_##S##_##X##_##A##_##LANES, i64 rows, In<i64> offsets, In<i32> columns, In<S> values, In<X> x, Finish f) { \
        csr<S, X, A, LANES>(rows, offsets, columns, values, x, f); \
    }
#define CSR(S, X, A) \
    CSR_LANES(S, X, A, 2) CSR_LANES(S, X, A, 4) CSR_LANES(S, X, A, 8) CSR_LANES(S, X, A, 16) CSR_LANES(S, X, A, 32)
FOR_STORAGE_VECTOR_AND_SUM(CSR)
