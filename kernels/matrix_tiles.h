// Matrices of scalars in tiles of 4 x 4: those tiles that hold an entry, by tile rows, their columns ascending. A tile has its 16 values row by row, zeros
// among them, and a bit for each of its entries, 4 r + c of row r and column c.
#pragma once
#include "groups.h"
#include "spgemm.h"

constexpr int TILE_SIDE = 4;
constexpr int TILE_SIZE = TILE_SIDE * TILE_SIDE;

// The pattern.
struct MatrixTiles {
    In<i64> offsets;
    In<i32> columns;
    In<u16> maps;
};

// Entries of A B for tiles one above the other of A, TILE_SIDE bits for each of their rows, and a tile of B.
DEVICE u32 product_map(u32 above, u32 right) {
    u32 map = 0;
    UNROLL
    for (int k = 0; k < TILE_SIDE; ++k) {
        map |= (above >> k & 0x11111111u) * (right >> TILE_SIDE * k & 15u);
    }
    return map;
}

// The sum over a team of lanes. `sums` is as in block_sum_before.
template <int N, class Sums> DEVICE i64 team_sum(Sums &sums, i64 v) {
    if constexpr (N < BLOCK) {
        return group_sum<N>(v);
    } else {
        i64 total;
        block_sum_before(sums, v, total);
        return total;
    }
}

// Among the lanes of a team, those of a smaller rank for which a predicate holds, and all of them.
template <int N, class Sums> DEVICE int team_rank_among(Sums &sums, bool predicate, int &all) {
    if constexpr (N < BLOCK) {
        const u64 ballot = Group<N>::ballot(predicate);
        all = count_bits(ballot);
        return rank_among<N>(ballot);
    } else {
        i64 total;
        const i64 before = block_sum_before(sums, predicate ? 1 : 0, total);
        all = static_cast<int>(total);
        return static_cast<int>(before);
    }
}
