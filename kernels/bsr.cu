// SpMV in BSR with N x N blocks, N = 2 or 4: a group of 1 << shift lanes, N to 32, for each block row. A lane has a row of a block;
// neighbouring lanes have neighbouring rows of neighbouring blocks, so loads are coalesced. Tiles of a scalar matrix are such blocks.
// The last tiles may exceed the matrix; they are zero there.
#include "spmv_epilogue.h"

// N values from `at` on, a multiple of N, read once, in loads of at most 16 bytes.
template <int N, class S> DEVICE Pack<S, N> row_once(const In<S> &values, i64 at) {
    if constexpr (sizeof(S) * N <= 16) {
        return values.template pack_once<N>(at);
    } else {
        const Pack<S, N / 2> first = values.template pack_once<N / 2>(at);
        const Pack<S, N / 2> second = values.template pack_once<N / 2>(at + N / 2);
        Pack<S, N> row;
        UNROLL
        for (int c = 0; c < N / 2; ++c) {
            row.of[c] = first.of[c];
            row.of[N / 2 + c] = second.of[c];
        }
        return row;
    }
}

// The elements of x for a block in this column. `packed`: x is aligned for vector loads.
template <int N, class X> DEVICE Pack<X, N> part_of(const In<X> &x, i32 column, bool packed) {
    constexpr int HALF = sizeof(X) * N <= 16 ? N : N / 2;
    const i64 at = static_cast<i64>(column) * N;
    Pack<X, N> part;
    if (packed && at + N <= x.len) {
        UNROLL
        for (int c = 0; c < N; c += HALF) {
            const Pack<X, HALF> piece = x.template pack<HALF>(at + c);
            UNROLL
            for (int q = 0; q < HALF; ++q) {
                part.of[c + q] = piece.of[q];
            }
        }
    } else {
        // Beyond the end the values of the column are zero; any finite number will do.
        UNROLL
        for (int c = 0; c < N; ++c) {
            part.of[c] = x[at + c < x.len ? at + c : x.len - 1];
        }
    }
    return part;
}

template <int N, class S, class X, class A>
DEVICE void bsr(i64 rows, int shift, int packed, const In<i64> &offsets, const In<i32> &columns, const In<S> &values, const In<X> &x,
                const Epilogue &f) {
    // Blocks of a lane whose loads are in flight at the same time.
    constexpr int BATCH = sizeof(S) * N <= 16 ? 4 : 2;
    const i64 block_row = block_index() * (BLOCK >> shift) + (thread_index() >> shift);
    const int lane = thread_index() & ((1 << shift) - 1);
    const int step = (1 << shift) / N;
    const int r = lane % N;
    A sum = 0;
    if (block_row * N < rows) {
        const i64 start = offsets[block_row];
        const int count = static_cast<int>(offsets[block_row + 1] - start);
        const In<i32> own_columns = columns.from(start);
        const In<S> own_values = values.from(start * (N * N));
        for (int k = lane / N; k < count; k += BATCH * step) {
            i32 column[BATCH];
            Pack<S, N> value[BATCH];
            UNROLL
            for (int j = 0; j < BATCH; ++j) {
                if (k + j * step < count) {
                    column[j] = own_columns[k + j * step];
                    value[j] = row_once<N>(own_values, (k + j * step) * static_cast<i64>(N * N) + r * N);
                }
            }
            UNROLL
            for (int j = 0; j < BATCH; ++j) {
                if (k + j * step < count) {
                    const Pack<X, N> part = part_of<N>(x, column[j], packed != 0);
                    UNROLL
                    for (int c = 0; c < N; ++c) {
                        sum += As<A>::of(value[j].of[c]) * As<A>::of(part.of[c]);
                    }
                }
            }
        }
    }
    for (int mask = (1 << shift) / 2; mask >= N; mask /= 2) {
        sum += shuffle_xor(sum, mask);
    }
    const i64 row = block_row * N + r;
    if (f.width > 1) {
        // Blocks of d are those of the matrix. A group has 2 N lanes at least.
        exchange_and_apply_block_epilogue<BLOCK / 2>(f, lane < N && row < rows, row, (thread_index() >> shift) * N + r, sum);
        return;
    }
    f64 share = 0.0;
    if (lane < N && row < rows) {
        share = apply_epilogue(f, row, sum);
    }
    store_epilogue_sum(f, share);
}

#define BSR_OF(N, S, X, A) \
    KERNEL_OF(4, bsr##N##_##S##_##X##_##A, i64 rows, i32 shift, i32 packed, In<i64> offsets, In<i32> columns, In<S> values, In<X> x, \
              Epilogue f) { \
        bsr<N, S, X, A>(rows, shift, packed, offsets, columns, values, x, f); \
    }
#define BSR(S, X, A) BSR_OF(2, S, X, A) BSR_OF(4, S, X, A)
FOR_STORAGE_VECTOR_AND_SUM(BSR)
