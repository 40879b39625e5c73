// Numbers as on the host.
#pragma once
#include "groups.h"

// The types of set-up.
#ifndef FOR_SETUP
#define FOR_SETUP(DO) DO(f64) DO(f32)
#endif

// |v|, also of zero.
DEVICE f64 magnitude(f64 v) { return f64_of(bits_of(v) & 0x7fffffffffffffffll); }
// |v| with the sign of `of`.
DEVICE f64 with_sign(f64 v, f64 of) { return f64_of(bits_of(magnitude(v)) | (bits_of(of) & ~0x7fffffffffffffffll)); }
DEVICE f64 inverse_or_zero(f64 d) { return d == 0.0 ? 0.0 : 1.0 / d; }
DEVICE bool is_finite(f64 v) { return v - v == 0.0; }

// 1/s for a power of two far from the ends of the range.
DEVICE f64 reciprocal_of_power(f64 s) { return f64_of((2046ll << 52) - bits_of(s)); }

// The bits of a number that is not negative, which are ordered like the numbers, as an integer for atomic maxima.
DEVICE u64 ordered(f64 v) { return static_cast<u64>(bits_of(v)); }

// The host's hash of an index and a seed, as in src/host/mod.rs.
DEVICE u64 hash(u64 index, u64 seed) {
    u64 z = index + seed * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

// The place of a number in an ascending list, or -1.
DEVICE i32 place_of(const In<i32> &list, i32 count, i32 number) {
    i32 low = 0, high = count;
    while (low < high) {
        const i32 middle = low + (high - low) / 2;
        if (list[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && list[low] == number ? low : -1;
}
