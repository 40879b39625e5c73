// Vectors of which each rank has a part: inner products that do not depend on the order of their terms, with the numbers of
// src/comm/sum.rs, and packing of the elements that other ranks need.
#include "reduce.h"

// Bits of a bin, bins of a sum, and the lowest and the highest first bin.
constexpr int WIDTH = 20;
constexpr int PARTS = 4;
constexpr int LOWEST = -47;
constexpr int HIGHEST = 48;
// Numbers that a sum is stored as: bin, special value, parts.
constexpr int NUMBERS = PARTS + 2;

// The product, rounded: no fused operation may replace it.
DEVICE f64 rounded_product(f64 a, f64 b) {
#if defined(TERRACE_SIM) || defined(__HIP__) || defined(TERRACE_SIGNATURES)
    return a * b;
#else
    return __dmul_rn(a, b);
#endif
}

// The unit of a bin.
DEVICE f64 unit_of(int bin) { return f64_of(static_cast<i64>(1023 + WIDTH * bin) << 52); }

// The bin of the first part of a number that is not zero, by the bits of its absolute value.
DEVICE int bin_of(i64 bits) {
    const int above = static_cast<int>(bits >> 52) - 1022 + WIDTH;
    const int bin = (above >= 0 ? above / WIDTH : -((WIDTH - 1 - above) / WIDTH)) - 1;
    return bin > LOWEST ? bin : LOWEST;
}

// NaN before infinity before 0.
DEVICE f64 worse(f64 a, f64 b) { return a != a || b != b ? a + b : (a > b ? a : b); }

struct BinnedSum {
    f64 special;
    f64 parts[PARTS];
    int top;

    DEVICE void clear() {
        special = 0.0;
        top = LOWEST;
        for (int k = 0; k < PARTS; ++k) {
            parts[k] = 0.0;
        }
    }

    // Makes a higher bin the first; the lowest parts are dropped.
    DEVICE void raise(int bin) {
        while (top < bin) {
            for (int k = PARTS - 1; k > 0; --k) {
                parts[k] = parts[k - 1];
            }
            parts[0] = 0.0;
            ++top;
        }
    }

    DEVICE void add(f64 x) {
        const i64 bits = bits_of(x) & 0x7fffffffffffffffLL;
        if (bits == 0) {
            return;
        }
        const bool is_finite = bits < 0x7ff0000000000000LL;
        const int bin = bin_of(bits);
        if (!is_finite || bin > HIGHEST) {
            special = worse(special, x != x ? x : f64_of(0x7ff0000000000000LL));
            return;
        }
        raise(bin);
        for (int k = 0; k < PARTS; ++k) {
            // Adding this number rounds away the bits below the unit.
            const f64 shift = 6755399441055744.0 * unit_of(top - k);
            const f64 high = (x + shift) - shift;
            parts[k] += high;
            x -= high;
        }
    }

    DEVICE void merge(const BinnedSum &other) {
        raise(other.top);
        const int lower = top - other.top;
        for (int k = 0; k + lower < PARTS; ++k) {
            parts[k + lower] += other.parts[k];
        }
        special = worse(special, other.special);
    }
};

// Merges the sums of a block, and thread 0 stores the result. Every thread of the block takes part.
DEVICE void store_block(const BinnedSum &sum, const Out<f64> &to, i64 at) {
    SHARED(BinnedSum, sums, BLOCK);
    sums[thread_index()] = sum;
    barrier();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (thread_index() < half) {
            sums[thread_index()].merge(sums[thread_index() + half]);
        }
        barrier();
    }
    if (thread_index() == 0) {
        to[at] = sums[0].top;
        to[at + 1] = sums[0].special;
        for (int k = 0; k < PARTS; ++k) {
            to[at + 2 + k] = sums[0].parts[k];
        }
    }
}

#define BINNED_DOT(T) \
    KERNEL(binned_dot_##T, i64 n, In<T> x, In<T> y, Out<f64> sums) { \
        BinnedSum sum; \
        sum.clear(); \
        for (i64 i = block_index() * BLOCK + thread_index(); i < n; i += block_count() * BLOCK) { \
            sum.add(rounded_product(to_f64(x[i]), to_f64(y[i]))); \
        } \
        store_block(sum, sums, NUMBERS * block_index()); \
    }
FOR_FORMATS(BINNED_DOT)

// The sum of `count` sums, by one block.
KERNEL(binned_dot_finish, i64 count, In<f64> sums, Out<f64> result) {
    BinnedSum sum;
    sum.clear();
    for (i64 i = thread_index(); i < count; i += BLOCK) {
        BinnedSum other;
        other.top = static_cast<int>(sums[NUMBERS * i]);
        other.special = sums[NUMBERS * i + 1];
        for (int k = 0; k < PARTS; ++k) {
            other.parts[k] = sums[NUMBERS * i + 2 + k];
        }
        sum.merge(other);
    }
    store_block(sum, result, 0);
}

// The elements of x that other ranks need.
#define PACK_(T) \
    KERNEL(pack_##T, i64 n, In<i32> elements, In<T> x, Out<T> packed) { \
        UNROLL \
        for (int e = 0; e < ELEMENTS; ++e) { \
            const i64 i = first_element() + e * BLOCK; \
            if (i < n) { \
                packed[i] = x[elements[i]]; \
            } \
        } \
    }
FOR_FORMATS(PACK_)
