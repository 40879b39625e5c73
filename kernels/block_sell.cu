// SpMV with SELL chunks of a BSR matrix with blocks of br x bc. A slot has one block of each block row of the chunk; its values lie
// position by position, each for all block rows, so that neighbouring threads read neighbours. Each row of the blocks has its own group of
// threads, and `units` of them share the slots.
#include "chunks.h"

// Neighbouring block rows of a thread.
template <class S> constexpr int BLOCK_ROWS = sizeof(S) == 2 ? 2 : 1;

// Adds N slots from k on, each `step` after the one before. BC is the number of columns, or 0 for any, which are then added one by one.
template <int N, int BC, int R, class S, class X, class A>
DEVICE void add_blocks(int k, int step, int r, int row, int br, int bc, const In<i32> &bases, const In<u16> &offsets,
                       const In<S> &values, const In<X> &x, A *sums) {
    constexpr int HEIGHT = GROUP * R;
    if (BC == 0) {
        for (int j = 0; j < N; ++j) {
            const int slot = k + j * step;
            const Pack<u16, R> offset = offsets.template pack_once<R>(slot * HEIGHT + r);
            for (int c = 0; c < bc; ++c) {
                const i64 place = (static_cast<i64>(slot) * br + row) * bc + c;
                const Pack<S, R> value = values.template pack_once<R>(place * HEIGHT + r);
                for (int q = 0; q < R; ++q) {
                    const i64 column = static_cast<i64>(bases[slot] + static_cast<i32>(offset.of[q])) * bc + c;
                    sums[q] += As<A>::of(value.of[q]) * As<A>::of(x[column]);
                }
            }
        }
        return;
    }
    constexpr int COLUMNS = BC == 0 ? 1 : BC;
    i32 base[N];
    Pack<u16, R> offset[N];
    Pack<S, R> value[N][COLUMNS];
    UNROLL
    for (int j = 0; j < N; ++j) {
        const int slot = k + j * step;
        base[j] = bases[slot];
        offset[j] = offsets.template pack_once<R>(slot * HEIGHT + r);
        UNROLL
        for (int c = 0; c < COLUMNS; ++c) {
            const i64 place = (static_cast<i64>(slot) * br + row) * COLUMNS + c;
            value[j][c] = values.template pack_once<R>(place * HEIGHT + r);
        }
    }
    UNROLL
    for (int j = 0; j < N; ++j) {
        UNROLL
        for (int q = 0; q < R; ++q) {
            const In<X> part = x.from(static_cast<i64>(base[j] + static_cast<i32>(offset[j].of[q])) * COLUMNS);
            UNROLL
            for (int c = 0; c < COLUMNS; ++c) {
                sums[q] += As<A>::of(value[j][c].of[q]) * As<A>::of(part[c]);
            }
        }
    }
}

template <int BC, class S, class X, class A>
DEVICE void block_sell(i64 rows, int br, int bc, int units, const In<i64> &starts, const In<i32> &bases,
                         const In<u16> &offsets, const In<S> &values, const In<i32> &order, const In<X> &x,
                         const Epilogue &f) {
    constexpr int R = BLOCK_ROWS<S>;
    constexpr int HEIGHT = GROUP * R;
    const int r = thread_index() % GROUP * R;
    const i64 group = global_index() / GROUP;
    const int unit = static_cast<int>(group % units);
    const i64 chunk = group / units / br;
    const int row = static_cast<int>(group / units % br);
    A sums[R] = {};
    if (chunk * HEIGHT < rows) {
        const i64 start = starts[chunk];
        const int count = static_cast<int>(starts[chunk + 1] - start);
        const In<i32> own_bases = bases.from(start);
        const In<u16> own_offsets = offsets.from(start * HEIGHT);
        const In<S> own_values = values.from(start * HEIGHT * br * bc);
        int k = unit;
        for (; k + units < count; k += 2 * units) {
            add_blocks<2, BC, R>(k, units, r, row, br, bc, own_bases, own_offsets, own_values, x, sums);
        }
        if (k < count) {
            add_blocks<1, BC, R>(k, units, r, row, br, bc, own_bases, own_offsets, own_values, x, sums);
        }
    }
    SHARED(A, partial, BLOCK * R);
    UNROLL
    for (int q = 0; q < R; ++q) {
        partial[thread_index() * R + q] = sums[q];
    }
    barrier();
    f64 share = 0.0;
    UNROLL
    for (int q = 0; q < R; ++q) {
        const i64 block_row = chunk * HEIGHT + r + q;
        if (unit == 0 && block_row < rows) {
            for (int i = 1; i < units; ++i) {
                sums[q] += partial[(thread_index() + i * GROUP) * R + q];
            }
            share += apply_epilogue(f, (order.len > 0 ? order[block_row] : block_row) * br + row, sums[q]);
        }
    }
    store_epilogue_sum(f, share);
}

#define BLOCK_SELL_COLUMNS(S, X, A, BC) \
    KERNEL(block_sell##BC##_##S##_##X##_##A, i64 rows, i32 br, i32 bc, i32 units, In<i64> starts, In<i32> bases, \
           In<u16> offsets, In<S> values, In<i32> order, In<X> x, Epilogue f) { \
        block_sell<BC, S, X, A>(rows, br, bc, units, starts, bases, offsets, values, order, x, f); \
    }
#define BLOCK_SELL(S, X, A) \
    BLOCK_SELL_COLUMNS(S, X, A, 0) BLOCK_SELL_COLUMNS(S, X, A, 3) BLOCK_SELL_COLUMNS(S, X, A, 6)
FOR_STORAGE_VECTOR_AND_SUM(BLOCK_SELL)
