// Sliced ELL in slots, times vector. A slice has 32 rows, and a slot one entry of each: one base column for all, and for each row the offset
// of its column from the base, and the value. Rows without an entry in a slot have the value 0 there. `units` groups of 32 threads share the
// slots of a slice, a divisor of the 8 groups of a block.
#include "finish.h"
#include "reduce.h"

constexpr int SLICE = 32;

template <class S, class O, class X, class Y>
DEVICE void sliced_ell(i64 rows, int units, int form, f64 alpha, f64 beta, const In<i64> &starts,
                       const In<i32> &bases, const In<O> &offsets, const In<S> &values, const In<X> &x,
                       const In<Y> &b, const Out<Y> &y) {
    const int r = thread_index() % SLICE;
    const i64 group = global_index() / SLICE;
    const i64 slice = group / units;
    const int unit = static_cast<int>(group % units);
    const i64 row = slice * SLICE + r;
    Y sum = 0;
    if (slice * SLICE < rows) {
        const i64 end = starts[slice + 1];
        UNROLL_BY_4
        for (i64 k = starts[slice] + unit; k < end; k += units) {
            const i64 at = k * SLICE + r;
            sum += Wide<Y>::of(values.once(at)) * Wide<Y>::of(x[bases[k] + static_cast<i32>(offsets.once(at))]);
        }
    }
    if (units > 1) {
        SHARED(Y, partial, BLOCK);
        partial[thread_index()] = sum;
        barrier();
        if (unit == 0) {
            for (int i = 1; i < units; ++i) {
                sum += partial[thread_index() + i * SLICE];
            }
        }
    }
    if (unit == 0 && row < rows) {
        finish(form, alpha, beta, b, y, row, sum);
    }
}

#define SLICED_ELL_OFFSETS(S, X, Y, BITS) \
    KERNEL(sliced_ell##BITS##_##S##_##X##_##Y, i64 rows, i32 units, i32 form, f64 alpha, f64 beta, In<i64> starts, \
           In<i32> bases, In<u##BITS> offsets, In<S> values, In<X> x, In<Y> b, Out<Y> y) { \
        sliced_ell<S, u##BITS, X, Y>(rows, units, form, alpha, beta, starts, bases, offsets, values, x, b, y); \
    }
#define SLICED_ELL(S, X, Y) SLICED_ELL_OFFSETS(S, X, Y, 8) SLICED_ELL_OFFSETS(S, X, Y, 16)
FOR_STORAGE_AND_VECTORS(SLICED_ELL)
