// Where entries of a row are, and which of them are strong.
#pragma once
#include "tile.h"

// Of an entry: its coupling is strong, its column is coarse.
constexpr u8 ENTRY_STRONG = 1;
constexpr u8 ENTRY_COARSE = 2;

template <class T> struct Entries {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    // Number of each coarse unknown on the coarse level, -1 for fine ones.
    In<i32> number;
};

// Where column i stands from `from` to `end`, or -1. It is sought at `guess` first; columns need not ascend.
DEVICE i64 place_of(i32 i, const In<i32> &columns, i64 from, i64 end, i64 guess) {
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

// Which entries are strong, step by step: the strong columns stand in the order of the row.
template <int N> struct StrongRow {
    i64 at;
    i64 end;
    // Whether the next entry of this lane, in column j, is.
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
