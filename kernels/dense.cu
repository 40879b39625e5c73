// A dense matrix of n rows and columns, row by row, times vector: 32 lanes for each row.
#include "spmv_epilogue.h"

#define DENSE(S, X) \
    KERNEL(dense_##S##_##X, i64 n, In<S> values, In<X> x, Epilogue f) { \
        using A = Wide<X>; \
        const i64 row = global_index() / 32; \
        A sum = 0; \
        if (row < n) { \
            for (i64 c = thread_index() % 32; c < n; c += 32) { \
                sum += As<A>::of(values[row * n + c]) * As<A>::of(x[c]); \
            } \
        } \
        sum = lanes_sum<32>(sum); \
        f64 share = 0.0; \
        if (row < n && thread_index() % 32 == 0) { \
            share = apply_epilogue(f, row, sum); \
        } \
        store_epilogue_sum(f, share); \
    }
FOR_STORAGE_AND_VECTOR(DENSE)
