// BSR times vector, blocks of br x bc values stored row by row: 32 lanes for each block row. Lane l works on row l / w of the blocks, with
// w = 32 / br lanes for each, which share the columns of the block row: neighbouring lanes read neighbouring values.
#include "finish.h"
#include "reduce.h"

constexpr int GROUP = 32;
// Entries whose loads are under way at the same time.
constexpr int BSR_BATCH = 4;

template <class S, class X, class A>
DEVICE void bsr(i64 rows, int br, int bc, const In<i64> &offsets, const In<i32> &columns, const In<S> &values,
                const In<X> &x, const Finish &f) {
    const i64 row = global_index() / GROUP;
    const int lane = thread_index() % GROUP;
    const int width = GROUP / br;
    const int r = lane / width;
    const int w = lane % width;
    A sum = 0;
    if (row < rows && r < br) {
        const i64 start = offsets[row];
        const int count = static_cast<int>(offsets[row + 1] - start);
        const In<i32> own_columns = columns.from(start);
        const In<S> own_values = values.from(start * br * bc);
        const int next_k = width / bc;
        const int next_c = width % bc;
        int k = w / bc;
        int c = w % bc;
        while (k < count) {
            S value[BSR_BATCH];
            i64 column[BSR_BATCH];
            int taken = 0;
            UNROLL
            for (int j = 0; j < BSR_BATCH; ++j) {
                if (k < count) {
                    column[j] = static_cast<i64>(own_columns[k]) * bc + c;
                    value[j] = own_values.once((k * br + r) * bc + c);
                    taken = j + 1;
                }
                k += next_k;
                c += next_c;
                if (c >= bc) {
                    c -= bc;
                    k += 1;
                }
            }
            UNROLL
            for (int j = 0; j < BSR_BATCH; ++j) {
                if (j < taken) {
                    sum += As<A>::of(value[j]) * As<A>::of(x[column[j]]);
                }
            }
        }
    }
    // A tree over the w lanes of a row; lanes beyond the last of them contribute nothing.
    const int base = thread_index() % WARP;
    for (int step = 16; step > 0; step /= 2) {
        if (step < width) {
            const A other = shuffle(sum, base + step < WARP ? base + step : base);
            if (w < step && w + step < width && r < br) {
                sum += other;
            }
        }
    }
    if (row < rows && r < br && w == 0) {
        finish(f, row * br + r, sum);
    }
}

#define BSR(S, X, A) \
    KERNEL(bsr_##S##_##X##_##A, i64 rows, i32 br, i32 bc, In<i64> offsets, In<i32> columns, In<S> values, In<X> x, \
           Finish f) { \
        bsr<S, X, A>(rows, br, bc, offsets, columns, values, x, f); \
    }
FOR_STORAGE_VECTOR_AND_SUM(BSR)
