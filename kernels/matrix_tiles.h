// Scalar matrices in 4 x 4 tiles: the tiles that hold an entry, by tile rows, columns ascending. A tile has 16 values
// row by row, zeros included, and a bitmap of its entries: bit 4 r + c for row r and column c.
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

// The bitmap of A B for two tiles of A, one above the other, and a tile of B. Each row has TILE_SIDE bits.
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

// The number of lanes of smaller rank in the team for which a predicate holds; `all` is the number of all of them.
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
