// SpMV with SELL (sliced ELL) chunks. A chunk is a group of rows, and a slot is one column of it: one entry of each row, with a common base column
// and for each row the offset of its column from the base, and the value. Padding has the value 0. With `order` the rows are permuted by length
// (SELL-C-sigma).
#include "chunks.h"

// Neighbouring rows of a thread: four for narrow values with f32 sums, so that enough bytes are in flight.
template <class S, class O, class A> constexpr int ROWS = sizeof(S) == 2 && sizeof(O) == 1 && sizeof(A) == 4 ? 4 : 2;

// Slots whose loads are in flight at the same time; more of them cost occupancy.
template <class S, class O, class A> constexpr int BATCH = sizeof(S) == 8 || ROWS<S, O, A> == 4 ? 4 : 2;

// Least number of blocks on a multiprocessor, for KERNEL_OF.
template <class S> constexpr int FIT = sizeof(S) == 2 ? 0 : 1;

// Adds N slots from k on to the sums of R rows, from row r of the chunk on. All arrays begin at the chunk.
template <int N, int R, class S, class O, class X, class A>
DEVICE void add_slots(int k, int r, const In<i32> &bases, const In<O> &offsets, const In<S> &values, const In<X> &x,
                      A *sums) {
    i32 base[N];
    Pack<O, R> offset[N];
    Pack<S, R> value[N];
    UNROLL
    for (int j = 0; j < N; ++j) {
        base[j] = bases[k + j];
        offset[j] = offsets.template pack_once<R>((k + j) * (GROUP * R) + r);
        value[j] = values.template pack_once<R>((k + j) * (GROUP * R) + r);
    }
    X other[N][R];
    UNROLL
    for (int j = 0; j < N; ++j) {
        UNROLL
        for (int q = 0; q < R; ++q) {
            other[j][q] = x[base[j] + static_cast<i32>(offset[j].of[q])];
        }
    }
    UNROLL
    for (int j = 0; j < N; ++j) {
        UNROLL
        for (int q = 0; q < R; ++q) {
            sums[q] += As<A>::of(value[j].of[q]) * As<A>::of(other[j][q]);
        }
    }
}

// Adds slots `first` to `end`, B at a time.
template <int B, int R, class S, class O, class X, class A>
DEVICE void add_all(int first, int end, int r, const In<i32> &bases, const In<O> &offsets, const In<S> &values,
                    const In<X> &x, A *sums) {
    int k = first;
    for (; k + B <= end; k += B) {
        add_slots<B, R>(k, r, bases, offsets, values, x, sums);
    }
    if (B > 2 && end - k == 3) {
        add_slots<3, R>(k, r, bases, offsets, values, x, sums);
    } else if (B > 2 && end - k == 2) {
        add_slots<2, R>(k, r, bases, offsets, values, x, sums);
    } else if (k < end) {
        add_slots<1, R>(k, r, bases, offsets, values, x, sums);
    }
}

template <class S, class O, class X, class A>
DEVICE void chunks(i64 rows, const In<i64> &starts, const In<i32> &bases, const In<O> &offsets, const In<S> &values,
                   const In<i32> &order, const In<X> &x, const Epilogue &f) {
    constexpr int R = ROWS<S, O, A>;
    constexpr int HEIGHT = GROUP * R;
    const int r = thread_index() % GROUP * R;
    const i64 chunk = global_index() / GROUP;
    A sums[R] = {};
    if (chunk * HEIGHT < rows) {
        const i64 start = starts[chunk];
        const int count = static_cast<int>(starts[chunk + 1] - start);
        add_all<BATCH<S, O, A>, R>(0, count, r, bases.from(start), offsets.from(start * HEIGHT),
                                values.from(start * HEIGHT), x, sums);
    }
    f64 share = 0.0;
    const i64 row = chunk * HEIGHT + r;
    if (can_pack(f) && order.len == 0 && row + R <= rows) {
        share = apply_epilogue_to_rows<R>(f, row, sums);
    } else {
        UNROLL
        for (int q = 0; q < R; ++q) {
            if (row + q < rows) {
                share += apply_epilogue(f, order.len > 0 ? order[row + q] : row + q, sums[q]);
            }
        }
    }
    store_epilogue_sum(f, share);
}

#define SELL_BITS(S, X, A, BITS) \
    KERNEL_OF(FIT<S>, sell##BITS##_##S##_##X##_##A, i64 rows, In<i64> starts, In<i32> bases, In<u##BITS> offsets, In<S> values, \
           In<i32> order, In<X> x, Epilogue f) { \
        chunks<S, u##BITS, X, A>(rows, starts, bases, offsets, values, order, x, f); \
    }
#define SELL_KERNELS(S, X, A) SELL_BITS(S, X, A, 8) SELL_BITS(S, X, A, 16)
FOR_STORAGE_VECTOR_AND_SUM(SELL_KERNELS)

// The same for few rows: chunks of 32, each shared by `units` groups of lanes, a divisor of the 8 groups of a block.
template <class S, class X, class A>
DEVICE void shared_sell(i64 rows, int units, const In<i64> &starts, const In<i32> &bases, const In<u16> &offsets,
                          const In<S> &values, const In<i32> &order, const In<X> &x, const Epilogue &f) {
    const int r = thread_index() % GROUP;
    const i64 group = global_index() / GROUP;
    const i64 chunk = group / units;
    const int unit = static_cast<int>(group % units);
    A sum = 0;
    if (chunk * GROUP < rows) {
        const i64 start = starts[chunk];
        const int count = static_cast<int>(starts[chunk + 1] - start);
        add_all<4, 1>(count * unit / units, count * (unit + 1) / units, r, bases.from(start), offsets.from(start * GROUP),
                      values.from(start * GROUP), x, &sum);
    }
    SHARED(A, partial, BLOCK);
    partial[thread_index()] = sum;
    barrier();
    f64 share = 0.0;
    const i64 row = chunk * GROUP + r;
    if (unit == 0 && row < rows) {
        for (int i = 1; i < units; ++i) {
            sum += partial[thread_index() + i * GROUP];
        }
        share = apply_epilogue(f, order.len > 0 ? order[row] : row, sum);
    }
    store_epilogue_sum(f, share);
}

#define SHARED_SELL(S, X, A) \
    KERNEL_OF(6, shared_sell_##S##_##X##_##A, i64 rows, i32 units, In<i64> starts, In<i32> bases, In<u16> offsets, \
           In<S> values, In<i32> order, In<X> x, Epilogue f) { \
        shared_sell<S, X, A>(rows, units, starts, bases, offsets, values, order, x, f); \
    }
FOR_STORAGE_VECTOR_AND_SUM(SHARED_SELL)
