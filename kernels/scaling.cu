// Scaling of levels by powers of two, and storage in other formats: what src/amg/scaling.rs does, with its bits.
#include "numbers.h"

// The power of two nearest to the root of a positive number, by its exponent; zero for all others.
DEVICE f64 power_near_root(f64 value) {
    if (!(value > 0.0) || !is_finite(value)) {
        return 0.0;
    }
    const bool subnormal = bits_of(value) >> 52 == 0;
    const int exponent = static_cast<int>(bits_of(subnormal ? value * 0x1p54 : value) >> 52) - (subnormal ? 1077 : 1023);
    return f64_of(static_cast<i64>(((exponent + 1) >> 1) + 1023) << 52);
}

// 1/s for a power of two far from the ends of the range.
DEVICE f64 reciprocal_of_power(f64 s) { return f64_of((2046ll << 52) - bits_of(s)); }

// s becomes the power of two near its root, 1 where it is zero and that is `allowed`. `seen` gets n - i for the first i without one.
KERNEL(scaling_roots, i64 n, i32 allowed, Out<f64> s, Out<u64> seen) {
    const i64 i = global_index();
    if (i < n) {
        const f64 power = allowed && s[i] == 0.0 ? 1.0 : power_near_root(s[i]);
        s[i] = power;
        if (power == 0.0) {
            atomic_max(seen[0], static_cast<u64>(n - i));
        }
    }
}

KERNEL(scaling_reciprocals, i64 n, In<f64> s, Out<f64> inverse) {
    const i64 i = global_index();
    if (i < n) {
        inverse[i] = 1.0 / s[i];
    }
}

// Calls `work` for each value of a block row with its place among all values, its scalar row and its scalar column.
template <int N, class Work>
DEVICE void each_value(i64 row, int br, int bc, const In<i64> &offsets, const In<i32> &columns, const Work &work) {
    const i64 start = offsets[row];
    const i64 end = offsets[row + 1];
    if (br * bc == 1) {
        for (i64 k = start + Group<N>::rank(); k < end; k += N) {
            work(k, row, columns[k]);
        }
        return;
    }
    const int width = br * bc;
    for (i64 e = Group<N>::rank(); e < (end - start) * width; e += N) {
        const i64 k = e / width;
        const int within = static_cast<int>(e - k * width);
        work(start * width + e, row * br + within / bc, static_cast<i64>(columns[start + k]) * bc + within % bc);
    }
}

// The largest |v| of each scalar row and column, which `largest` holds as ordered bits.
template <class T, int N>
DEVICE void largest_of_lines(i64 rows, int br, int bc, const In<i64> &offsets, const In<i32> &columns,
                             const In<T> &values, const Out<u64> &largest) {
    const i64 row = global_index() / N;
    if (row >= rows) {
        return;
    }
    each_value<N>(row, br, bc, offsets, columns, [&](i64 at, i64 i, i64 j) {
        const f64 size = magnitude(to_f64(values[at]));
        const u64 bits = size == size ? ordered(size) : 0;
        // What is there only grows, so that an old value decides as well.
        if (bits > largest[i]) {
            atomic_max(largest[i], bits);
        }
        if (bits > largest[j]) {
            atomic_max(largest[j], bits);
        }
    });
}

// The ordered bits of the largest |v| / (s_i s_j), in seen[1].
template <class T, int N>
DEVICE void largest_scaled(i64 rows, int br, int bc, const In<f64> &s, const In<i64> &offsets, const In<i32> &columns,
                           const In<T> &values, const Out<u64> &seen) {
    u64 largest = 0;
    for (i64 row = global_index() / N; row < rows; row += block_count() * (BLOCK / N)) {
        each_value<N>(row, br, bc, offsets, columns, [&](i64 at, i64 i, i64 j) {
            const f64 v = to_f64(values.once(at)) * reciprocal_of_power(s[i]) * reciprocal_of_power(s[j]);
            const u64 bits = v == v ? ordered(magnitude(v)) : 0;
            largest = bits > largest ? bits : largest;
        });
    }
    largest = group_max<WARP>(largest);
    if (Group<WARP>::rank() == 0) {
        atomic_max(seen[1], largest);
    }
}

// Rows times `left`, columns times `right`; an empty one has only ones.
template <class T, int N>
DEVICE void scaling_apply(i64 rows, int br, int bc, const In<f64> &left, const In<f64> &right, const In<i64> &offsets,
                          const In<i32> &columns, const In<T> &values, const Out<T> &out) {
    const i64 row = global_index() / N;
    if (row >= rows) {
        return;
    }
    const bool has_left = left.len > 0;
    const bool has_right = right.len > 0;
    each_value<N>(row, br, bc, offsets, columns, [&](i64 at, i64 i, i64 j) {
        f64 v = to_f64(values.once(at));
        v = has_left ? v * left[i] : v;
        v = has_right ? v * right[j] : v;
        out[at] = As<T>::of(v);
    });
}

#define SCALING(T, N) \
    KERNEL(largest_of_lines_##T##_##N, i64 rows, i32 br, i32 bc, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<u64> largest) { \
        largest_of_lines<T, N>(rows, br, bc, offsets, columns, values, largest); \
    } \
    KERNEL(largest_scaled_##T##_##N, i64 rows, i32 br, i32 bc, In<f64> s, In<i64> offsets, In<i32> columns, \
           In<T> values, Out<u64> seen) { \
        largest_scaled<T, N>(rows, br, bc, s, offsets, columns, values, seen); \
    } \
    KERNEL(scaling_apply_##T##_##N, i64 rows, i32 br, i32 bc, In<f64> left, In<f64> right, In<i64> offsets, \
           In<i32> columns, In<T> values, Out<T> out) { \
        scaling_apply<T, N>(rows, br, bc, left, right, offsets, columns, values, out); \
    }
#define SCALING_(T) SCALING(T, 8) SCALING(T, 32)
FOR_SETUP(SCALING_)

// Adds to counts[0] how many of the stored numbers are not finite, and to counts[1] how many became zero.
DEVICE void add_counts(i64 too_large, i64 vanished, const Out<i64> &counts) {
    too_large = group_sum<WARP>(too_large);
    vanished = group_sum<WARP>(vanished);
    if (Group<WARP>::rank() == 0) {
        if (too_large != 0) {
            atomic_add(counts[0], too_large);
        }
        if (vanished != 0) {
            atomic_add(counts[1], vanished);
        }
    }
}

// out = x in 16 bits.
template <class T, class S> DEVICE void store_counting(i64 n, const In<T> &x, const Out<S> &out, const Out<i64> &counts) {
    i64 too_large = 0;
    i64 vanished = 0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        const f64 exact = to_f64(x.once(i));
        const S stored = As<S>::of(exact);
        out[i] = stored;
        too_large += is_finite(to_f64(stored)) ? 0 : 1;
        vanished += to_f32(stored) == 0.0f && exact != 0.0 ? 1 : 0;
    }
    add_counts(too_large, vanished, counts);
}

#define STORE_COUNTING(T) \
    KERNEL(store_counting_##T, i64 n, In<T> x, i32 format, Any out, Out<i64> counts) { \
        if (format == F16) { \
            store_counting<T, f16>(n, x, out.out<f16>(), counts); \
        } else { \
            store_counting<T, bf16>(n, x, out.out<bf16>(), counts); \
        } \
    }
FOR_SETUP(STORE_COUNTING)

// A scalar row of a matrix of blocks: the place of its entry e among all values, and its scalar column.
struct ScalarRow {
    i64 start;
    i64 entries;
    int r;
    int br;
    int bc;
    DEVICE i64 at(i64 e) const { return ((start + e / bc) * br + r) * bc + e % bc; }
    DEVICE i64 column(i64 e, const In<i32> &columns) const { return static_cast<i64>(columns[start + e / bc]) * bc + e % bc; }
};

// Entries of a row that are put into order in shared memory, by a warp.
constexpr int KEPT_ENTRIES = 160;

// out = x in 16 bits, so that the product with `vector` stays: the entries of each row are rounded from the largest to the smallest, in terms of
// the product, and each carries what it adds to the product on to the next. A row that does not fit into shared memory is searched for the
// next entry each time.
template <class T, class S>
DEVICE void store_keeping(i64 rows, int br, int bc, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const In<f64> &vector, const Out<S> &out, const Out<i64> &counts) {
    using Lanes = Group<32>;
    SHARED(u64, keys, BLOCK / 32 * KEPT_ENTRIES);
    SHARED(i32, places, BLOCK / 32 * KEPT_ENTRIES);
    const int first = thread_index() / 32 * KEPT_ENTRIES;
    i64 too_large = 0;
    i64 vanished = 0;
    for (i64 line = global_index() / 32; line < rows * br; line += block_count() * (BLOCK / 32)) {
        const i64 row = line / br;
        const i64 start = offsets[row];
        const ScalarRow own{start, (offsets[row + 1] - start) * bc, static_cast<int>(line % br), br, bc};
        const auto key_of = [&](i64 e) {
            return ordered(magnitude(to_f64(values[own.at(e)]) * vector[own.column(e, columns)]));
        };
        const bool fits = own.entries <= KEPT_ENTRIES;
        for (i64 e = Lanes::rank(); fits && e < own.entries; e += 32) {
            keys[first + e] = key_of(e);
        }
        Lanes::barrier();
        // The place of each by the number of those before it.
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
