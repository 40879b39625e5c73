// What the products of sparse matrices share: a team of lanes for each row of C = A B, a table of its columns in shared memory, and the steps of
// a row.
//
// A team has its lanes in steps over the entries a_ik of the row, and within a step over row k of B, whose columns differ: so sums need no
// atomics, and are added in the order of the row of A, as on the host. Where rows of B are shorter than the team several steps look up their
// columns at once, and add one after the other.
#pragma once
#include "scan.h"

// A row of C has a table of SLOTS columns.
constexpr i32 EMPTY = -1;
// Slots that are read or cleared at once.
using Four = Pack<i32, 4>;

DEVICE u32 hash_of(i32 column, u32 of) { return static_cast<u32>(static_cast<u64>(static_cast<u32>(column) * 0x9e3779b1u) * of >> 32); }

// The slot of a column in the table from slot `first` on, where it is put if it is new; -1 when there is no room. Four slots fill from the front, then the next
// four: for tables that get rather full. The read before the exchange spares most of these.
template <int SLOTS, class Keys> DEVICE int slot_of(Keys &keys, int first, i32 column) {
    constexpr u32 FOURS = SLOTS / 4;
    const u32 home = hash_of(column, FOURS);
    u32 four = home;
    for (;;) {
        const Four here = keys[first / 4 + four];
        int place = 4;
        i32 key = EMPTY;
        UNROLL
        for (int i = 3; i >= 0; --i) {
            const bool fits = here.of[i] == column || here.of[i] == EMPTY;
            place = fits ? i : place;
            key = fits ? here.of[i] : key;
        }
        if (place < 4) {
            if (key == EMPTY) {
                key = atomic_swap_if(keys[first / 4 + four].of[place], EMPTY, column);
            }
            if (key == EMPTY || key == column) {
                return static_cast<int>(four * 4) + place;
            }
            continue; // another column was quicker
        }
        four = four + 1 == FOURS ? 0 : four + 1;
        if (four == home) {
            return -1;
        }
    }
}

// Puts a column into a table; tells whether it was new, and whether there was no room. Slot after slot: for tables that stay rather empty.
template <int SLOTS, class Keys> DEVICE bool put_column(Keys &keys, int first, i32 column, bool &full) {
    const u32 home = hash_of(column, SLOTS);
    u32 slot = home;
    for (;;) {
        const u32 at = first + slot;
        i32 key = keys[at / 4].of[at % 4];
        if (key == EMPTY) {
            key = atomic_swap_if(keys[at / 4].of[at % 4], EMPTY, column);
            if (key == EMPTY) {
                return true;
            }
        }
        if (key == column) {
            return false;
        }
        slot = slot + 1 == SLOTS ? 0 : slot + 1;
        if (slot == home) {
            full = true;
            return false;
        }
    }
}

// Operations of a team: a group of lanes of a warp, or the block.
template <int N> DEVICE int team_rank() { return thread_index() & (N - 1); }
template <int N> DEVICE void team_barrier() {
    if constexpr (N <= 32) {
        Group<N>::barrier();
    } else {
        barrier();
    }
}
// The sum of v over the lanes before this one; `total` is that of all. `sums` is as in block_sum_before.
template <int N> DEVICE int group_sum_before(int v, int &total) {
    const int lane = Group<N>::rank();
    int upto = v;
    UNROLL
    for (int step = 1; step < N; step *= 2) {
        const int before = Group<N>::shuffle(upto, lane >= step ? lane - step : lane);
        upto += lane >= step ? before : 0;
    }
    total = Group<N>::shuffle(upto, N - 1);
    return upto - v;
}
template <int N, class Sums> DEVICE int team_sum_before(Sums &sums, int v, int &total) {
    if constexpr (N <= 32) {
        return group_sum_before<N>(v, total);
    } else {
        i64 all;
        const i64 before = block_sum_before(sums, v, all);
        total = static_cast<int>(all);
        return static_cast<int>(before);
    }
}
template <int N, class Sums> DEVICE bool team_any(Sums &sums, bool v) {
    if constexpr (N <= 32) {
        return Group<N>::ballot(v) != 0;
    } else {
        int total;
        team_sum_before<N>(sums, v ? 1 : 0, total);
        return total > 0;
    }
}

// Patterns of the factors. Row k of B is from begins[k] to ends[k]: the offsets, and the offsets from the second one on, unless there is room
// between rows.
struct Factors {
    In<i64> offsets;
    In<i32> columns;
    In<i64> begins;
    In<i64> ends;
    In<i32> right_columns;
};

// Steps whose loads are under way together.
constexpr int STEPS = 4;

// What becomes of a row: it is written as it lies in the table, behind which there may be room, and `ends` says where it ends; or by columns; or
// the columns are there already, and only values are written; or only columns are.
constexpr int AS_FOUND = 0;
constexpr int SORTED = 1;
constexpr int KNOWN = 2;
constexpr int PATTERN = 3;

// C, of n rows as above. With `fill` a zero on the diagonal becomes a one.
template <class T> struct Result {
    In<i64> begins;
    Out<i64> ends;
    Out<i32> columns;
    Out<T> values;
    i32 fill;
    DEVICE void put(i64 at, i64 row, i32 column, T value) const {
        values[at] = fill != 0 && column == row && value == T(0) ? T(1) : value;
    }
};
