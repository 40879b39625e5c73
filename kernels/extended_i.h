// What rows of extended+i interpolation are computed from.
#pragma once
#include "strong_entries.h"
#include "truncate.h"

// No coupling.
constexpr i32 COUPLING_NONE = -1;

// Of the couplings of a kind, so many have places of their own.
constexpr int NEAR = 4;

// Couplings ā_kl of each fine unknown k to coarse l, strong ones and weak ones that are not 0, both in the order of the row. The first few of each kind
// have places of their own, so that one load brings them; the others stand in the places of the row of the matrix, strong ones from its
// begin on, weak ones from its end backwards.
template <class T> struct Couplings {
    // NEAR strong ones, and where a level has weak ones, as many of them.
    Out<i32> near_columns;
    Out<T> near_values;
    Out<i32> columns;
    Out<T> values;
    // HEAD words for each k.
    Out<i64> heads;
    // Kinds that have places of their own.
    int kinds;

    // Where the near ones of a kind are.
    DEVICE i64 near(i64 k, int kind) const { return (k * kinds + kind) * NEAR; }
    // Where number t of a kind is, if it is not near; the row of k is from `from` to `end`.
    static DEVICE i64 far(int kind, int t, i64 from, i64 end) { return kind == 0 ? from + t : end - 1 - t; }
    DEVICE bool is_near(int kind, int t) const { return t < NEAR && kind < kinds; }
    DEVICE i32 columns_of(i64 k, int kind, int t, i64 from, i64 end) const {
        return is_near(kind, t) ? near_columns[near(k, kind) + t] : columns[far(kind, t, from, end)];
    }
    DEVICE T values_of(i64 k, int kind, int t, i64 from, i64 end) const {
        return is_near(kind, t) ? near_values[near(k, kind) + t] : values[far(kind, t, from, end)];
    }
};

// Kinds that have places of their own, of two, from the number of these places.
DEVICE int near_kinds(i64 places, i64 rows) { return (places >= NEAR * rows ? 1 : 0) + (places >= 2 * NEAR * rows ? 1 : 0); }

// What else is known of a fine unknown: see `reach_of`; the bits of the sum of its strong couplings, in f64; where its row begins; and its length, and
// 2^32 times the place of the diagonal in it.
constexpr int HEAD = 4;

// How many couplings are strong and weak, and whether a_kk is positive.
DEVICE i64 reach_of(int strong, int weak, bool is_positive) {
    return static_cast<i64>(weak) << 32 | static_cast<i64>(strong) << 1 | (is_positive ? 1 : 0);
}
DEVICE int strong_of(i64 reach) { return static_cast<int>(static_cast<u32>(reach) >> 1); }
DEVICE int weak_of(i64 reach) { return static_cast<int>(reach >> 32); }

// A bit for each entry of a row tells whether it is a strong coupling to a fine unknown. Rows begin with a word of their own: this one.
constexpr int WORD = 64;
DEVICE i64 first_word(i64 row, i64 begin) { return begin / WORD + row; }

template <class T> struct ExtendedI {
    Entries<T> a;
    In<u8> kinds;
    In<u64> fine;
    Couplings<T> couplings;
    // Whether a row is made of Ĉ_i, with i; otherwise it is one of classical interpolation, modified: of C_i, without i.
    bool extended;

    // So many members come from entry `at` of a row, some of them perhaps also from others.
    DEVICE int members_by(i64 at) const {
        const u8 kind = kinds[at];
        if (kind != ENTRY_STRONG) {
            return kind == (ENTRY_STRONG | ENTRY_COARSE) ? 1 : 0;
        }
        return extended ? strong_of(couplings.heads[HEAD * static_cast<i64>(a.columns[at])]) : 0;
    }

    // ā_ki, from row k, which is sought from `guess` on: columns that ascend lead there.
    DEVICE T back(i64 from, i64 end, bool is_positive, i32 i, i64 guess) const {
        i64 at = guess < from ? from : guess >= end ? end - 1 : guess, found = -1;
        ROLLED
        for (int step = 0; step < 8 && at >= from && at < end; ++step) {
            const i32 j = a.columns[at];
            if (j == i) {
                found = at;
                break;
            }
            at += j < i ? 1 : -1;
        }
        found = found >= 0 ? found : position_of(i, a.columns, from, end, -1);
        const T v = found < 0 ? 0 : a.values[found];
        return (v < 0) == is_positive ? v : 0;
    }
};

// `InterleavedSum` where each lane has 4 / N of the parts: every N-th, from its rank on.
template <class T, int N> struct Parts {
    T part[4 / N] = {};
    // Term number `at`, which is of a part that this lane has.
    DEVICE void add(int at, T v) {
        UNROLL
        for (int k = 0; k < 4 / N; ++k) {
            part[k] += N == 4 || at / N % (4 / N) == k ? v : 0;
        }
    }
    // The next term of all, number `at`, which all lanes know. The parts of a single thread go round: their sum is the same wherever the first
    // stands.
    DEVICE void add_next(int at, T v) {
        if constexpr (N == 1) {
            const T next = part[0] + v;
            part[0] = part[1];
            part[1] = part[2];
            part[2] = part[3];
            part[3] = next;
        } else {
            UNROLL
            for (int k = 0; k < 4 / N; ++k) {
                part[k] += (at & 3) == Tile<N>::rank() + k * N ? v : 0;
            }
        }
    }
    DEVICE T sum() const {
        if constexpr (N == 1) {
            return (part[0] + part[2]) + (part[1] + part[3]);
        } else {
            T half;
            if constexpr (N == 2) {
                half = part[0] + part[1];
            } else {
                half = part[0] + Tile<N>::shuffle(part[0], Tile<N>::rank() ^ 2);
            }
            return half + Tile<N>::shuffle(half, Tile<N>::rank() ^ 1);
        }
    }
};

// What is left over: how many rows did not fit, twice, and the largest bound of those that did not the second time.
constexpr int LEFT_FIRST = 0;
constexpr int LEFT_SECOND = 1;
constexpr int LEFT_LARGEST = 2;

// Arguments of the kernels for rows; `how` is what becomes of a row, and 4 more for classical interpolation, modified.
#define EXTENDED_I_COUPLED(T) Out<i32> near_columns, Out<T> near_values, Out<i32> far_columns, Out<T> far_values, Out<i64> heads
#define EXTENDED_I_LEVEL(T) \
    In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, In<u64> fine, EXTENDED_I_COUPLED(T), In<i32> only, \
        In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, Out<i32> counts
#define EXTENDED_I_COUPLINGS_OF(T) \
    Couplings<T>{near_columns, near_values, far_columns, far_values, heads, near_kinds(near_columns.len, offsets.len - 1)}
#define EXTENDED_I_OF(T) \
    ExtendedI<T>{Entries<T>{offsets, columns, values, number}, kinds, fine, EXTENDED_I_COUPLINGS_OF(T), (how & 4) == 0}
#define EXTENDED_I_TO(T) Target<T>{how & 3, most, As<T>::of(factor), to_offsets, to_columns, to_values, counts}
