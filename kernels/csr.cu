// CSR times vector: a group of LANES neighbouring lanes for each row.
#include "finish.h"
#include "reduce.h"

template <class S, class X, class Y, int LANES>
DEVICE void csr(i64 rows, int form, f64 alpha, f64 beta, const In<i64> &offsets, const In<i32> &columns,
                const In<S> &values, const In<X> &x, const In<Y> &b, const Out<Y> &y) {
    const i64 row = global_index() / LANES;
    const int lane = thread_index() % LANES;
    Y sum = 0;
    if (row < rows) {
        const i64 end = offsets[row + 1];
        for (i64 k = offsets[row] + lane; k < end; k += LANES) {
            sum += Wide<Y>::of(values.once(k)) * Wide<Y>::of(x[columns.once(k)]);
        }
    }
    sum = lanes_sum<LANES>(sum);
    if (row < rows && lane == 0) {
        finish(form, alpha, beta, b, y, row, sum);
    }
}

#define CSR_LANES(S, X, Y, LANES) \
    KERNEL(csr_##S##_##X##_##Y##_##LANES, i64 rows, i32 form, f64 alpha, f64 beta, In<i64> offsets, In<i32> columns, \
           In<S> values, In<X> x, In<Y> b, Out<Y> y) { \
        csr<S, X, Y, LANES>(rows, form, alpha, beta, offsets, columns, values, x, b, y); \
    }
#define CSR(S, X, Y) \
    CSR_LANES(S, X, Y, 2) CSR_LANES(S, X, Y, 4) CSR_LANES(S, X, Y, 8) CSR_LANES(S, X, Y, 16) CSR_LANES(S, X, Y, 32)
FOR_STORAGE_AND_VECTORS(CSR)
