// Export of the indices of a matrix, in the index type and with the base of the caller.
#include "portability.h"

template <class I, class O> DEVICE void export_indices(i64 n, i32 base, const In<I> &from, const Out<O> &to) {
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            to[i] = static_cast<O>(from[i] + base);
        }
    }
}

#define EXPORT_INDICES(I, O) \
    KERNEL(export_##I##_as_##O, i64 n, i32 base, In<I> from, Out<O> to) { export_indices<I, O>(n, base, from, to); }
EXPORT_INDICES(i64, i64)
EXPORT_INDICES(i64, i32)
EXPORT_INDICES(i32, i64)
EXPORT_INDICES(i32, i32)
