// Checksums of values, which tell whether a caller has changed them: the same as those of src/matrix/changes.rs.
#include "numbers.h"

// Adds the hashes of all values and their places to `sum`, which is 0 before. Integers wrap, so the order does not matter.
template <class T> DEVICE void checksum(i64 n, const In<T> &values, const Out<i64> &sum) {
    u64 own = 0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        own += hash(static_cast<u64>(i), static_cast<u64>(bits_of(to_f64(values[i]))));
    }
    own = group_sum<WARP>(own);
    if (thread_index() % WARP == 0) {
        atomic_add(sum[0], static_cast<i64>(own));
    }
}

KERNEL(checksum_f64, i64 n, In<f64> values, Out<i64> sum) { checksum<f64>(n, values, sum); }
KERNEL(checksum_f32, i64 n, In<f32> values, Out<i64> sum) { checksum<f32>(n, values, sum); }
