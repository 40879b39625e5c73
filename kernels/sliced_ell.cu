// Sliced ELL in slots, times vector. A slice has 32 rows, and a slot one entry of each: one base column for all, and for each row the offset
// of its column from the base, and the value. Rows without an entry in a slot have the value 0 there. UNITS groups of 32 threads share the
// slots of a slice, a divisor of the 8 groups of a block.
#include "finish.h"
#include "reduce.h"

constexpr int SLICE = 32;

// Slots whose loads are under way at the same time: what a thread waits for is memory. Wide values take twice the registers, and with more of
// them fewer threads fit.
template <class S> constexpr int BATCH = sizeof(S) == 8 ? 4 : 8;

// The sum over slots first, first + STEP, ... of `count`; all arrays begin at the first slot of the slice.
template <int STEP, class S, class O, class X, class A>
DEVICE A slots_sum(int first, int count, int r, const In<i32> &bases, const In<O> &offsets, const In<S> &values,
                   const In<X> &x) {
    A sum = 0;
    for (int k = first; k < count; k += BATCH<S> * STEP) {
        S value[BATCH<S>];
        i32 column[BATCH<S>];
        UNROLL
        for (int j = 0; j < BATCH<S>; ++j) {
            const int slot = k + j * STEP;
            if (slot < count) {
                column[j] = bases[slot] + static_cast<i32>(offsets.once(slot * SLICE + r));
                value[j] = values.once(slot * SLICE + r);
            }
        }
        UNROLL
        for (int j = 0; j < BATCH<S>; ++j) {
            if (k + j * STEP < count) {
                sum += As<A>::of(value[j]) * As<A>::of(x[column[j]]);
            }
        }
    }
    return sum;
}

template <int UNITS, class S, class O, class X, class A>
DEVICE void sliced_ell(i64 rows, const In<i64> &starts, const In<i32> &bases, const In<O> &offsets, const In<S> &values,
                       const In<X> &x, const Finish &f) {
    const int r = thread_index() % SLICE;
    const i64 group = global_index() / SLICE;
    const i64 slice = group / UNITS;
    const int unit = static_cast<int>(group % UNITS);
    const i64 row = slice * SLICE + r;
    A sum = 0;
    if (slice * SLICE < rows) {
        const i64 start = starts[slice];
        const int count = static_cast<int>(starts[slice + 1] - start);
        sum = slots_sum<UNITS, S, O, X, A>(unit, count, r, bases.from(start), offsets.from(start * SLICE),
                                           values.from(start * SLICE), x);
    }
    if (UNITS > 1) {
        SHARED(A, partial, BLOCK);
        partial[thread_index()] = sum;
        barrier();
        if (unit == 0) {
            UNROLL
            for (int i = 1; i < UNITS; ++i) {
                sum += partial[thread_index() + i * SLICE];
            }
        }
    }
    if (unit == 0 && row < rows) {
        finish(f, row, sum);
    }
}

#define SLICED_ELL_UNITS(S, X, A, BITS, UNITS) \
    KERNEL(sliced_ell##BITS##_##S##_##X##_##A##_##UNITS, i64 rows, In<i64> starts, In<i32> bases, \
           In<u##BITS> offsets, In<S> values, In<X> x, Finish f) { \
        sliced_ell<UNITS, S, u##BITS, X, A>(rows, starts, bases, offsets, values, x, f); \
    }
#define SLICED_ELL_BITS(S, X, A, BITS) \
    SLICED_ELL_UNITS(S, X, A, BITS, 1) SLICED_ELL_UNITS(S, X, A, BITS, 2) SLICED_ELL_UNITS(S, X, A, BITS, 8)
#define SLICED_ELL(S, X, A) SLICED_ELL_BITS(S, X, A, 8) SLICED_ELL_BITS(S, X, A, 16)
FOR_STORAGE_VECTOR_AND_SUM(SLICED_ELL)
