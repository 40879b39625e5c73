// Entries of a row: positions of columns, and which entries are strong.
#pragma once
#include "tile.h"

// Flags of an entry: the coupling is strong; the column is a coarse unknown.
constexpr u8 ENTRY_STRONG = 1;
constexpr u8 ENTRY_COARSE = 2;

template <class T> struct Entries {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    // The coarse number of each coarse unknown, -1 for fine ones.
    In<i32> number;
};

// The position of column i between `from` and `end`, or -1. The search begins at `guess`; columns may be in any
// order.
DEVICE i64 position_of(i32 i, const In<i32> &columns, i64 from, i64 end, i64 guess) {
    if (guess >= from && guess < end && columns[guess] == i) {
        return guess;
    }
    i64 low = from, high = end;
    ROLLED
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        const i32 j = columns[middle];
        if (j == i) {
            return middle;
        }
        if (j < i) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    ROLLED
    for (i64 at = from; at < end; ++at) {
        if (columns[at] == i) {
            return at;
        }
    }
    return -1;
}

// Finds the strong entries of a row, N at a time. Strong columns are in the order of the row.
template <int N> struct StrongRow {
    i64 at;
    i64 end;
    // Whether this lane's next entry, in column j, is strong.
    DEVICE bool next(const In<i32> &columns, i32 j) {
        const int lane = Tile<N>::rank();
        const i32 strong = at + lane < end ? columns[at + lane] : 2147483647;
        const i32 before = Tile<N>::shuffle(strong, lane > 0 ? lane - 1 : 0);
        bool is_strong = false;
        if (!Tile<N>::any(lane > 0 && before > strong)) {
            int low = 0;
            UNROLL
            for (int step = N / 2; step > 0; step /= 2) {
                const i32 candidate = Tile<N>::shuffle(strong, low + step - 1);
                low += candidate < j ? step : 0;
            }
            const i32 candidate = Tile<N>::shuffle(strong, low);
            is_strong = candidate == j;
        } else {
            for (int other = 0; other < N; ++other) {
                const i32 candidate = Tile<N>::shuffle(strong, other);
                is_strong = is_strong || candidate == j;
            }
        }
        at += count_bits(Tile<N>::ballot(is_strong));
        return is_strong;
    }
};
