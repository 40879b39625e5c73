// CSR times vector: a group of neighbouring lanes for each row, a power of two up to 32.
#include "finish.h"

// Entries of a lane whose loads are under way at the same time.
constexpr int CSR_BATCH = 4;

template <class S, class X, class A>
DEVICE void csr(i64 rows, int lanes, const In<i64> &offsets, const In<i32> &columns, const In<S> &values,
                const In<X> &x, const Finish &f) {
    const i64 row = global_index() / lanes;
    const int lane = thread_index() & (lanes - 1);
    A sum = 0;
    if (row < rows) {
        const i64 start = offsets[row];
        const int count = static_cast<int>(offsets[row + 1] - start);
        const In<i32> own_columns = columns.from(start);
        const In<S> own_values = values.from(start);
        for (int k = lane; k < count; k += CSR_BATCH * lanes) {
            S value[CSR_BATCH];
            i32 column[CSR_BATCH];
            UNROLL
            for (int j = 0; j < CSR_BATCH; ++j) {
                if (k + j * lanes < count) {
                    column[j] = own_columns.once(k + j * lanes);
                    value[j] = own_values.once(k + j * lanes);
                }
            }
            UNROLL
            for (int j = 0; j < CSR_BATCH; ++j) {
                if (k + j * lanes < count) {
                    sum += As<A>::of(value[j]) * As<A>::of(x[column[j]]);
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
    KERNEL(csr_##S##_##X##_##A, i64 rows, i32 lanes, In<i64> offsets, In<i32> columns, In<S> values, In<X> x, Finish f) { \
        csr<S, X, A>(rows, lanes, offsets, columns, values, x, f); \
    }
FOR_STORAGE_VECTOR_AND_SUM(CSR)
