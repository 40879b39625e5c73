// A dense matrix of n rows and columns, row by row, times vector: 32 lanes for each row.
#include "finish.h"
#include "reduce.h"

#define DENSE(S, V) \
    KERNEL(dense_##S##_##V, i64 n, i32 form, f64 alpha, f64 beta, In<S> values, In<V> x, In<V> b, Out<V> y) { \
        const i64 row = global_index() / 32; \
        V sum = 0; \
        if (row < n) { \
            for (i64 c = thread_index() % 32; c < n; c += 32) { \
                sum += Wide<V>::of(values[row * n + c]) * x[c]; \
            } \
        } \
        sum = lanes_sum<32>(sum); \
        if (row < n && thread_index() % 32 == 0) { \
            finish(form, alpha, beta, b, y, row, sum); \
        } \
    }
FOR_STORAGE_AND_VECTOR(DENSE)
