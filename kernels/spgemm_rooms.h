// Room for rows of a product whose lengths are not known before.
#pragma once
#include "spgemm.h"

// Of what becomes of rows: entries that are taken, rows for which there was no room, and rows that fit no table. Both kinds of rows are empty.
constexpr int ROOM_TAKEN = 0;
constexpr int ROWS_MISSED = 1;
constexpr int ROWS_TOO_LONG = 2;

// Where rows are put: each begins and ends somewhere among `columns` and `values`, where it has begun before if they are `placed`.
template <class T> struct Rooms {
    Out<i64> begins;
    Out<i64> ends;
    Out<i32> counts;
    Out<i32> columns;
    Out<T> values;
    Out<i64> used;
    bool placed;
};

// Room for `need` entries of each team of a warp: just as much, so that what is taken in all is what the rows need.
template <int N> DEVICE i64 take_room(const Out<i64> &used, int need) {
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
        got = atomic_add(used[ROOM_TAKEN], all);
    }
    return shuffle(got, 0) + Tile<N>::shuffle(upto - own, 0);
}
