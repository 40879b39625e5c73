// Storage in 16 bits that keeps the product with a vector: as in src/host/scaling.rs, with its bits.
#include "numbers.h"
#include "scalar_row.h"
#include "storage_counts.h"

// Longest row that a warp sorts in shared memory.
constexpr int MAX_SORTED_ROW = 160;

// out = x in 16 bits, so that the product with `vector` is preserved: the entries of a row are rounded from the
// largest to the smallest contribution to the product, and the rounding error of each is carried to the next. A row
// that does not fit into shared memory is searched for the next entry each time.
template <class T, class S>
DEVICE void store_keeping(i64 rows, int br, int bc, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const In<f64> &vector, const Out<S> &out, const Out<i64> &counts) {
    using Lanes = Group<32>;
    SHARED(u64, keys, BLOCK / 32 * MAX_SORTED_ROW);
    SHARED(i32, places, BLOCK / 32 * MAX_SORTED_ROW);
    const int first = thread_index() / 32 * MAX_SORTED_ROW;
    i64 too_large = 0;
    i64 vanished = 0;
    for (i64 line = global_index() / 32; line < rows * br; line += block_count() * (BLOCK / 32)) {
        const i64 row = line / br;
        const i64 start = offsets[row];
        const ScalarRow own{start, (offsets[row + 1] - start) * bc, static_cast<int>(line % br), br, bc};
        const auto key_of = [&](i64 e) {
            return ordered(magnitude(to_f64(values[own.at(e)]) * vector[own.column(e, columns)]));
        };
        const bool fits = own.entries <= MAX_SORTED_ROW;
        for (i64 e = Lanes::rank(); fits && e < own.entries; e += 32) {
            keys[first + e] = key_of(e);
        }
        Lanes::barrier();
        // The rank of an entry is the number of entries before it.
        for (i64 e = Lanes::rank(); fits && e < own.entries; e += 32) {
            const u64 mine = keys[first + e];
            int before = 0;
            for (int other = 0; other < own.entries; ++other) {
                const u64 theirs = keys[first + other];
                before += theirs > mine || (theirs == mine && other < e) ? 1 : 0;
            }
            places[first + before] = static_cast<i32>(e);
        }
        Lanes::barrier();
        f64 carry = 0.0;
        u64 last_key = ~0ull;
        i64 last = -1;
        for (i64 k = 0; k < own.entries; ++k) {
            i64 e;
            if (fits) {
                e = places[first + k];
            } else {
                u64 best = 0;
                u64 nearest = 0;
                for (i64 other = Lanes::rank(); other < own.entries; other += 32) {
                    const u64 theirs = key_of(other);
                    const bool comes = theirs < last_key || (theirs == last_key && other > last);
                    if (comes && (nearest == 0 || theirs > best)) {
                        best = theirs;
                        nearest = static_cast<u64>(own.entries - other);
                    }
                }
                last_key = group_max<32>(nearest == 0 ? 0 : best);
                last = own.entries - static_cast<i64>(group_max<32>(nearest != 0 && best == last_key ? nearest : 0));
                e = last;
            }
            const f64 exact = to_f64(values[own.at(e)]);
            const f64 weight = vector[own.column(e, columns)];
            S stored = As<S>::of(0.0);
            if (exact != 0.0 && weight != 0.0) {
                stored = As<S>::of(exact + carry / weight);
                carry += times(exact - to_f64(stored), weight);
            }
            if (Lanes::rank() == 0) {
                out[own.at(e)] = stored;
                too_large += is_finite(to_f64(stored)) ? 0 : 1;
                vanished += to_f32(stored) == 0.0f && exact != 0.0 ? 1 : 0;
            }
        }
        Lanes::barrier();
    }
    add_counts(too_large, vanished, counts);
}

#define STORE_KEEPING(T) \
    KERNEL(store_keeping_##T, i64 rows, i32 br, i32 bc, In<i64> offsets, In<i32> columns, In<T> values, In<f64> vector, \
           i32 format, Any out, Out<i64> counts) { \
        if (format == F16) { \
            store_keeping<T, f16>(rows, br, bc, offsets, columns, values, vector, out.out<f16>(), counts); \
        } else { \
            store_keeping<T, bf16>(rows, br, bc, offsets, columns, values, vector, out.out<bf16>(), counts); \
        } \
    }
FOR_SETUP(STORE_KEEPING)
