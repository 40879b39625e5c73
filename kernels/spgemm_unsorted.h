// Output of SpGEMM rows whose lengths are not known before.
#pragma once
#include "spgemm.h"

// Counters: entries allocated, rows without space, and rows that exceed every hash table. Rows of the last two kinds
// are left empty.
constexpr int ENTRIES_ALLOCATED = 0;
constexpr int ROWS_WITHOUT_SPACE = 1;
constexpr int ROWS_TOO_LONG = 2;

// Row i of C is from begins[i] to ends[i] of `columns` and `values`, in the order of its hash table. With
// `has_begins` rows begin where an earlier product put them; else their space is allocated.
template <class T> struct UnsortedRows {
    Out<i64> begins;
    Out<i64> ends;
    Out<i32> counts;
    Out<i32> columns;
    Out<T> values;
    Out<i64> counters;
    bool has_begins;
};

// Allocates exactly `need` entries for each team of a warp. Returns their position.
template <int N> DEVICE i64 allocate_entries(const Out<i64> &counters, int need) {
    const int lane = Group<WARP>::rank();
    const int own = Tile<N>::rank() == 0 ? need : 0;
    int upto = own;
    UNROLL
    for (int step = 1; step < WARP; step *= 2) {
        const int before = shuffle(upto, lane >= step ? lane - step : lane);
        upto += lane >= step ? before : 0;
    }
    const i64 all = shuffle(upto, WARP - 1);
    i64 got = 0;
    if (lane == 0 && all > 0) {
        got = atomic_add(counters[ENTRIES_ALLOCATED], all);
    }
    return shuffle(got, 0) + Tile<N>::shuffle(upto - own, 0);
}
