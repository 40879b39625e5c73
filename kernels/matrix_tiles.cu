// Converts rows of entries to 4 x 4 tiles. A team of lanes converts one tile row with a hash table of its tiles in
// shared memory. A tile row that exceeds the table goes to a list; a kernel with a larger table converts the list.
// Entries of a row are in any order.
#include "matrix_tiles.h"

// The four scalar rows of a tile row.
struct TileRow {
    i64 starts[TILE_SIDE + 1];
};

DEVICE TileRow tile_row_of(const In<i64> &offsets, i64 rows, i64 tile_row) {
    TileRow found;
    UNROLL
    for (int r = 0; r <= TILE_SIDE; ++r) {
        const i64 row = tile_row * TILE_SIDE + r;
        found.starts[r] = offsets[row < rows ? row : rows];
    }
    return found;
}

// Calls `use` with the position, column and row within the tile row of each entry of this lane. Four loads are issued
// together.
template <int N, class Use> DEVICE void for_entries(const TileRow &row, const In<i32> &columns, const Use &use) {
    constexpr int UNDER_WAY = 4;
    const i64 end = row.starts[TILE_SIDE];
    for (i64 base = row.starts[0] + Team<N>::rank(); base < end; base += UNDER_WAY * N) {
        i32 column[UNDER_WAY];
        UNROLL
        for (int u = 0; u < UNDER_WAY; ++u) {
            column[u] = base + u * N < end ? columns[base + u * N] : EMPTY;
        }
        UNROLL
        for (int u = 0; u < UNDER_WAY; ++u) {
            if (column[u] != EMPTY) {
                const i64 at = base + u * N;
                const int r = (at >= row.starts[1] ? 1 : 0) + (at >= row.starts[2] ? 1 : 0) + (at >= row.starts[3] ? 1 : 0);
                use(at, column[u], r);
            }
        }
    }
}

// Clears the table and finds the tiles of a tile row. Returns their number, or at least TABLE_FULL. Calls `use` with
// slot, column and row within the tile row of each entry.
template <int N, int SLOTS, class Keys, class Sums, class Use>
DEVICE i64 tiles_of(const TileRow &row, const In<i32> &columns, Keys &keys, Sums &sums, const Use &use) {
    const int first = thread_index() / N * SLOTS;
    for (int s = Team<N>::rank(); s < SLOTS; s += N) {
        keys[first + s] = EMPTY;
    }
    team_barrier<N>();
    int found = 0;
    for_entries<N>(row, columns, [&](i64, i32 column, int r) {
        // A full table needs no more probes.
        const int slot = found < TABLE_FULL ? slot_of<SLOTS>(keys, first, column / TILE_SIDE, found) : -1;
        if (slot < 0) {
            found = TABLE_FULL;
        } else {
            use(slot, column, r);
        }
    });
    return team_sum<N>(sums, found);
}

template <int N, int SLOTS>
DEVICE void tiles_count(const Rows &tile_rows, i64 rows, const In<i64> &offsets, const In<i32> &columns, const Out<i32> &counts,
                        const Out<i32> &overflow) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(i64, sums, BLOCK / WARP);
    const i64 count = tile_rows.count();
    for (i64 team = global_index() / N; team < count; team += block_count() * TEAMS) {
        const i64 tile_row = tile_rows[team];
        const i64 tiles = tiles_of<N, SLOTS>(tile_row_of(offsets, rows, tile_row), columns, keys, sums, [](int, i32, int) {});
        if (Team<N>::rank() == 0) {
            counts[tile_row] = tiles < TABLE_FULL ? static_cast<i32>(tiles) : 0;
            if (tiles >= TABLE_FULL) {
                overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(tile_row);
            }
        }
        team_barrier<N>();
    }
}

// Columns, bitmaps and values of tiles, which begin at `to` in each tile row. A tile of zeros follows the last one. T
// has the size of the values, which are copied bitwise.
template <int N, int SLOTS, class T>
DEVICE void tiles_fill(const Rows &tile_rows, i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<i64> &to,
                       const Out<i32> &to_columns, const Out<u16> &to_maps, const Out<T> &to_values, const Out<i32> &overflow) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(u32, maps, TEAMS *SLOTS);
    SHARED(i32, occupied, TEAMS *SLOTS);
    SHARED(i64, sums, BLOCK / WARP);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * SLOTS;
    if (global_index() < TILE_SIZE) {
        to_values[to_values.len - TILE_SIZE + thread_index()] = T(0);
    }
    const i64 count = tile_rows.count();
    for (i64 team = global_index() / N; team < count; team += block_count() * TEAMS) {
        const i64 tile_row = tile_rows[team];
        const i64 begin = to[tile_row];
        const int tiles = static_cast<int>(to[tile_row + 1] - begin);
        const TileRow row = tile_row_of(offsets, rows, tile_row);
        for (int s = lane; s < SLOTS; s += N) {
            maps[first + s] = 0;
        }
        const i64 found = tiles_of<N, SLOTS>(row, columns, keys, sums, [&](int slot, i32 column, int r) {
            atomic_or(maps[slot], 1u << (TILE_SIDE * r + column % TILE_SIDE));
        });
        if (found >= TABLE_FULL) {
            if (lane == 0) {
                overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(tile_row);
            }
            team_barrier<N>();
            continue;
        }
        for (int e = lane; e < tiles * TILE_SIZE; e += N) {
            to_values[begin * TILE_SIZE + e] = T(0);
        }
        int listed = 0;
        for (int s = lane; s < SLOTS; s += N) {
            const bool is_one = keys[first + s] != EMPTY;
            int all;
            const int before = team_rank_among<N>(sums, is_one, all);
            if (is_one) {
                occupied[first + listed + before] = s;
            }
            listed += all;
        }
        team_barrier<N>();
        // The position of a tile is the number of smaller columns.
        for (int t = lane; t < tiles; t += N) {
            const int slot = first + occupied[first + t];
            const i32 own = keys[slot];
            int position = 0;
            for (int other = 0; other < tiles; ++other) {
                position += keys[first + occupied[first + other]] < own ? 1 : 0;
            }
            to_columns[begin + position] = own;
            to_maps[begin + position] = static_cast<u16>(maps[slot]);
            maps[slot] = static_cast<u32>(position);
        }
        team_barrier<N>();
        int none = 0;
        for_entries<N>(row, columns, [&](i64 at, i32 column, int r) {
            const int slot = slot_of<SLOTS>(keys, first, column / TILE_SIDE, none);
            to_values[(begin + maps[slot]) * TILE_SIZE + TILE_SIDE * r + column % TILE_SIDE] = values[at];
        });
        team_barrier<N>();
    }
}

// Statistics of a sample of `wanted` tile rows: stats[0] is the number of tiles, stats[1] the number of scalar
// entries of a block matrix. A tile row that exceeds the small table counts as if each entry had a tile of its own.
KERNEL(tiles_sample, i64 rows, i32 height, i32 width, i64 wanted, In<i64> offsets, In<i32> columns, Out<i64> stats) {
    constexpr int N = 32, SLOTS = 256;
    SHARED(i32, keys, BLOCK / N *SLOTS);
    const int first_slot = thread_index() / N * SLOTS;
    for (int s = Team<N>::rank(); s < SLOTS; s += N) {
        keys[first_slot + s] = EMPTY;
    }
    team_barrier<N>();
    const i64 team = global_index() / N;
    const i64 tile_rows = (rows * height + TILE_SIDE - 1) / TILE_SIDE;
    // A golden-ratio sequence samples rows evenly and ignores the planes of a grid.
    const u64 spread = static_cast<u64>(static_cast<u32>(team) * 0x9e3779b9u);
    const i64 tile_row = wanted < tile_rows ? static_cast<i64>(spread * static_cast<u64>(tile_rows) >> 32) : team;
    const i64 start = tile_row * TILE_SIDE;
    const i64 end = start + TILE_SIDE < rows * height ? start + TILE_SIDE : rows * height;
    int found = 0;
    i64 entries = 0;
    for (i64 row = start / height; team < wanted && row * height < end; ++row) {
        const i64 above = row * height < start ? start : row * height;
        const i64 below = (row + 1) * height < end ? (row + 1) * height : end;
        const i64 last = offsets[row + 1];
        entries += (below - above) * (last - offsets[row]) * width;
        for (i64 at = offsets[row] + Team<N>::rank(); at < last && found < TABLE_FULL; at += N) {
            const i64 left = static_cast<i64>(columns[at]) * width;
            for (i64 tile = left / TILE_SIDE; tile * TILE_SIDE < left + width; ++tile) {
                if (slot_of<SLOTS>(keys, first_slot, static_cast<i32>(tile), found) < 0) {
                    found = TABLE_FULL;
                }
            }
        }
    }
    const i64 tiles = group_sum<N>(static_cast<i64>(found));
    if (team < wanted && Team<N>::rank() == 0) {
        atomic_add(stats[0], tiles < TABLE_FULL ? tiles : entries);
        atomic_add(stats[1], entries);
    }
}

#define TILES_COUNT(N, SLOTS) \
    KERNEL(tiles_count_##N, i64 n, In<i32> list, i64 rows, In<i64> offsets, In<i32> columns, Out<i32> counts, Out<i32> overflow) { \
        tiles_count<N, SLOTS>(Rows{n, list}, rows, offsets, columns, counts, overflow); \
    }
TILES_COUNT(32, 256)
TILES_COUNT(256, 3072)

#define TILES_FILL(N, SLOTS, T) \
    KERNEL(tiles_fill_##N##_##T, i64 n, In<i32> list, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i64> to, \
           Out<i32> to_columns, Out<u16> to_maps, Out<T> to_values, Out<i32> overflow) { \
        tiles_fill<N, SLOTS, T>(Rows{n, list}, rows, offsets, columns, values, to, to_columns, to_maps, to_values, overflow); \
    }
#define TILES_FILL_BOTH(T) TILES_FILL(32, 256, T) TILES_FILL(256, 3072, T)
TILES_FILL_BOTH(u64)
TILES_FILL_BOTH(u32)
TILES_FILL_BOTH(u16)
