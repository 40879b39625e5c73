// Indices of a matrix in the type and with the base that a caller wants.
#include "portability.h"

template <class I, class O> DEVICE void give_indices(i64 n, i32 base, const In<I> &from, const Out<O> &to) {
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            to[i] = static_cast<O>(from[i] + base);
        }
    }
}

#define GIVE_INDICES(I, O) \
    KERNEL(give_##I##_as_##O, i64 n, i32 base, In<I> from, Out<O> to) { give_indices<I, O>(n, base, from, to); }
GIVE_INDICES(i64, i64)
GIVE_INDICES(i64, i32)
GIVE_INDICES(i32, i64)
GIVE_INDICES(i32, i32)
