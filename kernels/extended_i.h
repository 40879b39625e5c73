// Input of extended+i interpolation: the couplings of each fine unknown to coarse ones.
#pragma once
#include "strong_entries.h"
#include "truncate.h"

// No coupling.
constexpr i32 COUPLING_NONE = -1;

// Couplings of a kind that are packed.
constexpr int PACKED = 4;

// Couplings ā_kl of each fine unknown k to coarse l, in the order of the row: strong ones, and weak ones that are not
// 0. The first PACKED of each kind are in arrays of their own, so that one load reads them. The others spill into
// arrays with the size of the matrix: strong ones from the begin of row k on, weak ones from its end backwards.
template <class T> struct Couplings {
    // PACKED strong couplings of each k, and if the level has weak ones, as many of these.
    Out<i32> packed_columns;
    Out<T> packed_values;
    Out<i32> columns;
    Out<T> values;
    // HEAD words for each k.
    Out<i64> heads;
    // Kinds that are packed: 1 for strong couplings alone, 2 for both.
    int kinds;

    // The position of the packed couplings of a kind.
    DEVICE i64 packed(i64 k, int kind) const { return (k * kinds + kind) * PACKED; }
    // The position of coupling t of a kind if it is not packed. The row of k is from `from` to `end`.
    static DEVICE i64 spilled(int kind, int t, i64 from, i64 end) { return kind == 0 ? from + t : end - 1 - t; }
    DEVICE bool is_packed(int kind, int t) const { return t < PACKED && kind < kinds; }
    DEVICE i32 columns_of(i64 k, int kind, int t, i64 from, i64 end) const {
        return is_packed(kind, t) ? packed_columns[packed(k, kind) + t] : columns[spilled(kind, t, from, end)];
    }
    DEVICE T values_of(i64 k, int kind, int t, i64 from, i64 end) const {
        return is_packed(kind, t) ? packed_values[packed(k, kind) + t] : values[spilled(kind, t, from, end)];
    }
};

// The number of packed kinds, from the size of the packed arrays.
DEVICE int packed_kinds(i64 positions, i64 rows) { return (positions >= PACKED * rows ? 1 : 0) + (positions >= 2 * PACKED * rows ? 1 : 0); }

// Words of the head of a fine unknown: `reach_of`; the bits of the sum of its strong couplings, in f64; the begin of
// its row; the length of its row, and in the upper half the position of the diagonal in it.
constexpr int HEAD = 4;

// The numbers of strong and weak couplings, and whether a_kk is positive.
DEVICE i64 reach_of(int strong, int weak, bool is_positive) {
    return static_cast<i64>(weak) << 32 | static_cast<i64>(strong) << 1 | (is_positive ? 1 : 0);
}
DEVICE int strong_of(i64 reach) { return static_cast<int>(static_cast<u32>(reach) >> 1); }
DEVICE int weak_of(i64 reach) { return static_cast<int>(reach >> 32); }

// A bitmap of the strong couplings of a row to fine unknowns. The bitmap of each row begins with a new word: this
// one.
constexpr int WORD = 64;
DEVICE i64 first_word(i64 row, i64 begin) { return begin / WORD + row; }

template <class T> struct ExtendedI {
    Entries<T> a;
    In<u8> kinds;
    In<u64> fine;
    Couplings<T> couplings;
    // Extended+i interpolation, with Ĉ_i and i; otherwise modified classical interpolation, with C_i and without i.
    bool extended;

    // An upper bound of the coarse unknowns that entry `at` of a row adds to Ĉ_i.
    DEVICE int columns_by(i64 at) const {
        const u8 kind = kinds[at];
        if (kind != ENTRY_STRONG) {
            return kind == (ENTRY_STRONG | ENTRY_COARSE) ? 1 : 0;
        }
        return extended ? strong_of(couplings.heads[HEAD * static_cast<i64>(a.columns[at])]) : 0;
    }

    // ā_ki from row k. The search begins at `guess` and follows ascending columns.
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

// `InterleavedSum` for N < 4 lanes: each lane has 4 / N of the parts, every N-th from its rank on.
template <class T, int N> struct ThreadInterleavedSum {
    T part[4 / N] = {};
    // Adds term number `at`, which belongs to a part of this lane.
    DEVICE void add(int at, T v) {
        UNROLL
        for (int k = 0; k < 4 / N; ++k) {
            part[k] += N == 4 || at / N % (4 / N) == k ? v : 0;
        }
    }
    // Adds the next term, number `at`, which all lanes know. A single thread rotates its parts; their sum is the same
    // for any rotation.
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

// Counters of rows that did not fit: after the first kernel, after the second, and the largest bound of the latter.
constexpr int LEFT_FIRST = 0;
constexpr int LEFT_SECOND = 1;
constexpr int LEFT_LARGEST = 2;

// Parameters of the row kernels. `how` is the mode of the row, plus 4 for modified classical interpolation.
#define EXTENDED_I_COUPLED(T) Out<i32> packed_columns, Out<T> packed_values, Out<i32> spilled_columns, Out<T> spilled_values, Out<i64> heads
#define EXTENDED_I_LEVEL(T) \
    In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, In<u64> fine, EXTENDED_I_COUPLED(T), In<i32> only, \
        In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, Out<i32> counts
#define EXTENDED_I_COUPLINGS_OF(T) \
    Couplings<T>{packed_columns, packed_values, spilled_columns, spilled_values, heads, packed_kinds(packed_columns.len, offsets.len - 1)}
#define EXTENDED_I_OF(T) \
    ExtendedI<T>{Entries<T>{offsets, columns, values, number}, kinds, fine, EXTENDED_I_COUPLINGS_OF(T), (how & 4) == 0}
#define EXTENDED_I_TO(T) Target<T>{how & 3, most, As<T>::of(factor), to_offsets, to_columns, to_values, counts}
