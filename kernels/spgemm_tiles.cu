// SpGEMM of matrices in 4 x 4 tiles. A block of threads computes two tile rows of C. It finds their tiles in a hash
// table in shared memory, from the bitmaps of both factors. A group of 32 lanes then adds up two tiles of each tile
// row, 8 x 8 values, in registers: one step of the matrix cores for each tile column of A, in ascending order. A pair
// of tile rows that exceeds the table goes to a list; a kernel with a larger table computes the pairs of the list.
#include "matrix_tiles.h"

constexpr int PAIR_ROWS = 2 * TILE_SIDE;
constexpr int TILE_LANES = 32;
constexpr int TILE_TEAMS = BLOCK / TILE_LANES;
// Tile columns of A that a group searches at once, and steps whose loads are issued together.
constexpr int TILES_AHEAD = 64;
constexpr int STEPS_UNDER_WAY = 4;

// Tile columns of a pair of tile rows of A: the positions of its two tiles (the tile of zeros for a missing one),
// their bitmaps, and the tile row of B.
template <class Indices, class Words> struct InnerTiles {
    Indices &above, &below;
    Words &maps;
    Indices &begins, &lengths;
};
template <class I, class W> DEVICE InnerTiles<I, W> inner_tiles(I &above, I &below, W &maps, I &begins, I &lengths) {
    return InnerTiles<I, W>{above, below, maps, begins, lengths};
}

// Tile columns in packs of four, and access to single ones.
using FourColumns = Pack<i32, 4>;
template <class Packs> struct OneByOne {
    Packs &packs;
    DEVICE i32 &operator[](i64 i) const { return packs[i / 4].of[i % 4]; }
};
template <class Packs> DEVICE OneByOne<Packs> one_by_one(Packs &packs) { return OneByOne<Packs>{packs}; }

// Lower bound: the first position from `start` to `end` whose number is not below `wanted`.
template <class Sorted> DEVICE i64 first_not_below(const Sorted &sorted, i64 start, i64 end, i32 wanted) {
    while (start < end) {
        const i64 middle = (start + end) / 2;
        const bool is_below = sorted[middle] < wanted;
        start = is_below ? middle + 1 : start;
        end = is_below ? end : middle;
    }
    return start;
}

// Merges the tile columns of two tile rows. Returns their number, which may exceed MAX_INNER.
template <int MAX_INNER, class Inner, class Columns, class Sums>
DEVICE int merge_rows(const MatrixTiles &a, const MatrixTiles &b, i64 pair, i64 tile_rows, const Inner &inner, const Columns &columns,
                      Sums &sums) {
    const i64 start = a.offsets[2 * pair];
    const i64 next = a.offsets[2 * pair + 1];
    const i64 end = 2 * pair + 2 <= tile_rows ? a.offsets[2 * pair + 2] : next;
    if (end - start > 2 * MAX_INNER) {
        return MAX_INNER + 1;
    }
    const int first = static_cast<int>(next - start);
    const int all = static_cast<int>(end - start);
    const i32 zero = static_cast<i32>(a.columns.len);
    for (int t = thread_index(); t < all; t += BLOCK) {
        columns[t] = a.columns[start + t];
    }
    barrier();
    // Columns so far that both rows have: those of the upper row in the lower half, those of the lower row in the
    // upper half.
    i64 matched = 0;
    for (int base = 0; base < all; base += BLOCK) {
        const int t = base + thread_index();
        const bool is_above = t < first;
        i32 column = EMPTY;
        int partner = -1, before = 0;
        if (t < all) {
            column = columns[t];
            const int from = is_above ? first : 0;
            const int to = is_above ? all : first;
            const int at = static_cast<int>(first_not_below(columns, from, to, column));
            before = at - from;
            partner = at < to && columns[at] == column ? at : -1;
        }
        i64 total;
        const i64 matched_before = matched + block_sum_before(sums, partner < 0 ? 0 : is_above ? 1 : 1ll << 32, total);
        matched += total;
        // The number of smaller columns in both rows, common ones counted once.
        const int position = is_above ? t + before - static_cast<int>(matched_before & 0xffffffff)
                                   : t - first + before - static_cast<int>(matched_before >> 32);
        if (t < all && (is_above || partner < 0) && position < MAX_INNER) {
            const i32 own = static_cast<i32>(start) + t;
            const i32 other = partner >= 0 ? static_cast<i32>(start) + partner : zero;
            inner.above[position] = is_above ? own : zero;
            inner.below[position] = is_above ? other : own;
            const u32 below = is_above ? (partner >= 0 ? a.maps[other] : 0) : a.maps[own];
            inner.maps[position] = (is_above ? a.maps[own] : 0u) | below << TILE_SIZE;
            const i64 begin = b.offsets[column];
            inner.begins[position] = static_cast<i32>(begin);
            inner.lengths[position] = static_cast<i32>(b.offsets[column + 1] - begin);
        }
    }
    barrier();
    return all - static_cast<int>(matched & 0xffffffff);
}

// Bytes that are cleared with one store.
using SixteenBytes = Pack<u8, 16>;

// Capacity of a kernel's shared memory: slots of the hash table, and tile columns of A. Small tables store for each
// slot and tile column the position of the tile of B in its tile row, plus one. Large tables search for it.
struct SmallTables {
    static constexpr int SLOTS = 256;
    static constexpr int MAX_INNER = TILES_AHEAD;
    static constexpr int MAX_TILE_ROW = 255;
    static constexpr bool HAS_POSITIONS = true;
};
struct LargeTables {
    static constexpr int SLOTS = 1024;
    static constexpr int MAX_INNER = 384;
    static constexpr int MAX_TILE_ROW = 1 << 30;
    static constexpr bool HAS_POSITIONS = false;
};

// For the symbolic phase, which needs no positions.
template <class Size> struct WithoutPositions : Size {
    static constexpr bool HAS_POSITIONS = false;
};

// Finds the tiles of a pair of tile rows of C and their bitmaps. Returns their number, or at least TABLE_FULL.
template <class Size, class Inner, class Keys, class Maps, class PositionTable, class Sums>
DEVICE i64 find_tiles(const MatrixTiles &b, const Inner &inner, int count, Keys &keys, Maps &maps, PositionTable &positions, Sums &sums) {
    // Lanes that share a tile row of B.
    constexpr int N = 16;
    for (int s = thread_index(); s < Size::SLOTS; s += BLOCK) {
        keys[s] = EMPTY;
        maps[s] = 0;
    }
    if constexpr (Size::HAS_POSITIONS) {
        for (int p = thread_index(); p < Size::SLOTS * Size::MAX_INNER / 16; p += BLOCK) {
            positions[p] = SixteenBytes{};
        }
    }
    barrier();
    int found = 0;
    for (int k = thread_index() / N; k < count && found < TABLE_FULL; k += BLOCK / N) {
        const u32 above = inner.maps[k];
        const i64 begin = inner.begins[k];
        const int length = inner.lengths[k];
        if (length > Size::MAX_TILE_ROW) {
            found = TABLE_FULL;
        }
        for (int t = thread_index() % N; t < length && found < TABLE_FULL; t += N) {
            const u32 map = product_map(above, b.maps[begin + t]);
            if (map != 0) {
                const int slot = slot_of<Size::SLOTS>(keys, 0, b.columns[begin + t], found);
                if (slot < 0) {
                    found = TABLE_FULL;
                } else {
                    atomic_or(maps[slot], map);
                    if constexpr (Size::HAS_POSITIONS) {
                        positions[(slot * Size::MAX_INNER + k) / 16].of[k % 16] = static_cast<u8>(t + 1);
                    }
                }
            }
        }
    }
    i64 total;
    block_sum_before(sums, found, total);
    return total;
}

// The block size of C: scalars, or a size known at run time.
struct AsScalars {
    static DEVICE int height() { return 1; }
    static DEVICE int width() { return 1; }
    static DEVICE i64 by_height(i64 n) { return n; }
    static DEVICE i32 by_width(i32 n) { return n; }
};
struct AsBlocks {
    i32 rows, cols;
    // 2^bits / size, rounded up, with the most bits for which that is at most 2^32.
    i64 of_rows, of_cols;
    i32 row_bits, col_bits;
    DEVICE int height() const { return rows; }
    DEVICE int width() const { return cols; }
    // Quotients of numbers below 2^31.
    DEVICE i64 by_height(i64 n) const { return n * of_rows >> row_bits; }
    DEVICE i32 by_width(i32 n) const { return static_cast<i32>(n * of_cols >> col_bits); }
};

// Symbolic phase: entries or blocks of each row of C; zero for rows that exceed the table.
template <class Size>
DEVICE void spgemm_tiles_count(const Rows &pairs, i64 rows, const AsBlocks &shape, const MatrixTiles &a, const MatrixTiles &b,
                               const Out<i32> &counts, const Out<i32> &overflow) {
    SHARED(i32, keys, Size::SLOTS);
    SHARED(u32, maps, Size::SLOTS);
    SHARED(FourColumns, unsorted, 2 * Size::MAX_INNER / 4);
    const auto columns = one_by_one(unsorted);
    SHARED(i32, above, Size::MAX_INNER);
    SHARED(i32, below, Size::MAX_INNER);
    SHARED(u32, inner_maps, Size::MAX_INNER);
    SHARED(i32, begins, Size::MAX_INNER);
    SHARED(i32, lengths, Size::MAX_INNER);
    SHARED(i64, sums, BLOCK / WARP);
    SHARED(SixteenBytes, positions, 1);
    const auto inner = inner_tiles(above, below, inner_maps, begins, lengths);
    const i64 tile_rows = a.offsets.len - 1;
    const i64 count = pairs.count();
    for (i64 p = block_index(); p < count; p += block_count()) {
        const i64 pair = pairs[p];
        const int merged = merge_rows<Size::MAX_INNER>(a, b, pair, tile_rows, inner, columns, sums);
        const bool fits = merged <= Size::MAX_INNER && find_tiles<WithoutPositions<Size>>(b, inner, merged, keys, maps, positions, sums) < TABLE_FULL;
        if (!fits && thread_index() == 0) {
            overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(pair);
        }
        // Each group counts one row.
        const int r = thread_index() / TILE_LANES;
        int own = 0;
        for (int s = Group<TILE_LANES>::rank(); fits && s < Size::SLOTS; s += TILE_LANES) {
            own += count_bits(maps[s] >> TILE_SIDE * r & 15u);
        }
        own = group_sum<TILE_LANES>(own);
        const i64 row = pair * PAIR_ROWS + r;
        const i64 block_row = shape.by_height(row);
        if (Group<TILE_LANES>::rank() == 0 && row < rows && row == block_row * shape.height()) {
            counts[block_row] = shape.by_width(own);
        }
        barrier();
    }
}

// One step of a group: a tile of A and a tile of B.
using TileStep = Pack<i32, 2>;

// Sorts the tiles of a table by column: `order` gets their slots. The position of a tile is the number of smaller columns.
template <int SLOTS, class Keys, class Unsorted, class Columns, class Slots, class Sums>
DEVICE void sort_tiles(int tiles, const Keys &keys, const Unsorted &unsorted, const Columns &columns, Slots &occupied, Slots &order, Sums &sums) {
    int listed = 0;
    for (int s = thread_index(); s < SLOTS; s += BLOCK) {
        const bool is_one = keys[s] != EMPTY;
        int all;
        const int before = team_rank_among<BLOCK>(sums, is_one, all);
        if (is_one) {
            const int at = listed + before;
            columns[at] = keys[s];
            occupied[at] = static_cast<u16>(s);
        }
        listed += all;
    }
    const int padded = (tiles + 3) / 4;
    if (thread_index() < padded * 4 - tiles) {
        columns[tiles + thread_index()] = 0x7fffffff;
    }
    barrier();
    for (int t = thread_index(); t < tiles; t += BLOCK) {
        const i32 own = columns[t];
        int position = 0;
        for (int b = 0; b < padded; ++b) {
            const FourColumns other = unsorted[b];
            UNROLL
            for (int i = 0; i < 4; ++i) {
                position += other.of[i] < own ? 1 : 0;
            }
        }
        order[position] = occupied[t];
    }
    barrier();
}

// Positions of the tiles in the row of each group.
template <int STRIDE, class Maps, class Slots, class Starts>
DEVICE void find_starts(int tiles, int team, const Maps &maps, const Slots &order, Starts &starts) {
    using Lanes = Group<TILE_LANES>;
    const int lane = Lanes::rank();
    int before = 0;
    for (int base = 0; base < tiles; base += TILE_LANES) {
        const int t = base + lane;
        const int own = t < tiles ? count_bits(maps[order[t]] >> TILE_SIDE * team & 15u) : 0;
        int upto = own;
        UNROLL
        for (int step = 1; step < TILE_LANES; step *= 2) {
            const int other = Lanes::shuffle(upto, lane >= step ? lane - step : lane);
            upto += lane >= step ? other : 0;
        }
        if (t < tiles) {
            starts[team * STRIDE + t] = static_cast<u16>(before + upto - own);
        }
        before += Lanes::shuffle(upto, TILE_LANES - 1);
    }
    barrier();
}

// Lists the products of tiles of A and B for two tiles of C, over inner tiles `from` to `from + TILES_AHEAD`: from `own`
// on in `steps`, padded with `nothing`. Returns their number.
template <class Size, class Inner, class Keys, class Positions, class Steps>
DEVICE int list_steps(const MatrixTiles &b, const Inner &inner, const Keys &keys, const Positions &positions, const int (&slots)[2], int from,
                      int merged, int own, const TileStep &nothing, Steps &steps) {
    using Lanes = Group<TILE_LANES>;
    const int lane = Lanes::rank();
    int taken = 0;
    UNROLL
    for (int half = 0; half < TILES_AHEAD; half += TILE_LANES) {
        const int k = from + half + lane;
        i32 tile[2] = {nothing.of[1], nothing.of[1]};
        UNROLL
        for (int i = 0; i < 2; ++i) {
            if (k < merged && slots[i] >= 0) {
                if constexpr (Size::HAS_POSITIONS) {
                    const int position = positions[(slots[i] * Size::MAX_INNER + k) / 16].of[k % 16];
                    tile[i] = position > 0 ? inner.begins[k] + position - 1 : tile[i];
                } else {
                    const i32 wanted = keys[slots[i]];
                    const i64 end = inner.begins[k] + inner.lengths[k];
                    const i64 at = first_not_below(b.columns, inner.begins[k], end, wanted);
                    tile[i] = at < end && b.columns[at] == wanted ? static_cast<i32>(at) : tile[i];
                }
            }
        }
        const bool is_step = tile[0] != nothing.of[1] || tile[1] != nothing.of[1];
        const u64 all = Lanes::ballot(is_step);
        if (is_step) {
            const int at = own + taken + rank_among<TILE_LANES>(all);
            steps[2 * at] = TileStep{{inner.above[k], tile[0]}};
            steps[2 * at + 1] = TileStep{{inner.below[k], tile[1]}};
        }
        taken += count_bits(all);
    }
    const int rounded = (taken + STEPS_UNDER_WAY - 1) / STEPS_UNDER_WAY * STEPS_UNDER_WAY;
    if (lane < 2 * (rounded - taken)) {
        steps[2 * (own + taken) + lane] = nothing;
    }
    Lanes::barrier();
    return rounded;
}

// Adds the products of `count` steps to the results of a lane.
template <class T, class Steps>
DEVICE void multiply_steps(const In<T> &left_lane, const In<T> &right_lane, const Steps &steps, int own, int count, f64 (&results)[2]) {
    const int lane = Group<TILE_LANES>::rank();
    for (int s = own; s < own + count; s += STEPS_UNDER_WAY) {
        f64 of_a[STEPS_UNDER_WAY], of_b[STEPS_UNDER_WAY];
        UNROLL
        for (int u = 0; u < STEPS_UNDER_WAY; ++u) {
            const TileStep step = steps[2 * (s + u) + lane / TILE_SIZE];
            of_a[u] = to_f64(left_lane[static_cast<i64>(step.of[0]) * TILE_SIZE]);
            of_b[u] = to_f64(right_lane[static_cast<i64>(step.of[1]) * TILE_SIZE]);
        }
        UNROLL
        for (int u = 0; u < STEPS_UNDER_WAY; ++u) {
            matrix_step(results[0], results[1], of_b[u], of_a[u]);
        }
    }
}

// Columns and values of C, whose rows or block rows begin at `to`.
template <class Size, class Shape, class T>
DEVICE void spgemm_tiles_fill(const Rows &pairs, i64 rows, const Shape &shape, const MatrixTiles &a, const In<T> &left, const MatrixTiles &b, const In<T> &right,
                              const In<i64> &to, const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &overflow) {
    constexpr int SLOTS = Size::SLOTS;
    // The stride avoids bank conflicts.
    constexpr int STRIDE = SLOTS + 2;
    SHARED(i32, keys, SLOTS);
    SHARED(u32, maps, SLOTS);
    SHARED(SixteenBytes, positions, Size::HAS_POSITIONS ? SLOTS * Size::MAX_INNER / 16 : 1);
    // Tile columns of A first, of C later.
    SHARED(FourColumns, unsorted, (2 * Size::MAX_INNER > SLOTS ? 2 * Size::MAX_INNER : SLOTS) / 4);
    const auto columns = one_by_one(unsorted);
    SHARED(u16, occupied, SLOTS);
    SHARED(u16, order, SLOTS);
    SHARED(u16, starts, PAIR_ROWS *STRIDE);
    SHARED(i32, above, Size::MAX_INNER);
    SHARED(i32, below, Size::MAX_INNER);
    SHARED(u32, inner_maps, Size::MAX_INNER);
    SHARED(i32, begins, Size::MAX_INNER);
    SHARED(i32, lengths, Size::MAX_INNER);
    SHARED(TileStep, steps, TILE_TEAMS * 2 * TILES_AHEAD);
    SHARED(i64, sums, BLOCK / WARP);
    using Lanes = Group<TILE_LANES>;
    const auto inner = inner_tiles(above, below, inner_maps, begins, lengths);
    const int lane = Lanes::rank();
    const int team = thread_index() / TILE_LANES;
    const i64 tile_rows = a.offsets.len - 1;
    const i64 count = pairs.count();
    const TileStep nothing{{static_cast<i32>(a.columns.len), static_cast<i32>(b.columns.len)}};
    for (i64 p = block_index(); p < count; p += block_count()) {
        const i64 pair = pairs[p];
        const int merged = merge_rows<Size::MAX_INNER>(a, b, pair, tile_rows, inner, columns, sums);
        const i64 found = merged <= Size::MAX_INNER ? find_tiles<Size>(b, inner, merged, keys, maps, positions, sums) : TABLE_FULL;
        if (found >= TABLE_FULL) {
            if (thread_index() == 0) {
                overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(pair);
            }
            barrier();
            continue;
        }
        const int tiles = static_cast<int>(found);
        sort_tiles<SLOTS>(tiles, keys, unsorted, columns, occupied, order, sums);
        find_starts<STRIDE>(tiles, team, maps, order, starts);
        // A lane holds column lane / 4 of the two tiles, in two rows.
        const int column = lane / TILE_SIDE;
        const int row = lane % TILE_SIDE * 2;
        i64 row_begins[2];
        int in_block[2];
        UNROLL
        for (int i = 0; i < 2; ++i) {
            const i64 own = pair * PAIR_ROWS + row + i;
            const i64 block_row = shape.by_height(own);
            row_begins[i] = own < rows ? to[block_row] : 0;
            in_block[i] = static_cast<int>(own - block_row * shape.height());
        }
        const In<T> left_lane = left.from(lane % TILE_SIZE);
        const In<T> right_lane = right.from(lane % TILE_SIDE * TILE_SIDE + column % TILE_SIDE);
        for (int first = 2 * team; first < tiles; first += 2 * TILE_TEAMS) {
            const int slots[2] = {order[first], first + 1 < tiles ? order[first + 1] : -1};
            f64 results[2] = {0, 0};
            for (int from = 0; from < merged; from += TILES_AHEAD) {
                const int own = team * TILES_AHEAD;
                const int rounded = list_steps<Size>(b, inner, keys, positions, slots, from, merged, own, nothing, steps);
                multiply_steps(left_lane, right_lane, steps, own, rounded, results);
                Lanes::barrier();
            }
            const int position = first + column / TILE_SIDE;
            if (position < tiles) {
                const int slot = column < TILE_SIDE ? slots[0] : slots[1];
                const u32 map = maps[slot];
                const i32 to_column = keys[slot] * TILE_SIDE + column % TILE_SIDE;
                UNROLL
                for (int i = 0; i < 2; ++i) {
                    const u32 bits = map >> TILE_SIDE * (row + i) & 15u;
                    if ((bits >> column % TILE_SIDE & 1u) != 0) {
                        const int rank = count_bits(bits & ((1u << column % TILE_SIDE) - 1));
                        // The position of the entry in its row. Blocks are complete, so it gives the block.
                        const int number = starts[(row + i) * STRIDE + position] + rank;
                        const int block = shape.by_width(number);
                        if (in_block[i] == 0 && number == block * shape.width()) {
                            to_columns[row_begins[i] + block] = shape.by_width(to_column);
                        }
                        const i64 at = (row_begins[i] + block) * shape.height() + in_block[i] - block;
                        to_values[at * shape.width() + number] = As<T>::of(results[i]);
                    }
                }
            }
        }
        barrier();
    }
}

// Block sizes as kernel parameters.
#define TILES_SHAPE i32 height, i32 width, i64 of_height, i64 of_width, i32 height_bits, i32 width_bits

#define SPGEMM_TILES_COUNT(NAME, SIZE) \
    KERNEL_OF(8, spgemm_tiles_count_##NAME, i64 n, In<i32> list, i64 rows, TILES_SHAPE, In<i64> offsets, In<i32> columns, In<u16> maps, \
              In<i64> right_offsets, In<i32> right_columns, In<u16> right_maps, Out<i32> counts, Out<i32> overflow) { \
        const AsBlocks shape{height, width, of_height, of_width, height_bits, width_bits}; \
        spgemm_tiles_count<SIZE>(Rows{n, list}, rows, shape, MatrixTiles{offsets, columns, maps}, \
                                 MatrixTiles{right_offsets, right_columns, right_maps}, counts, overflow); \
    }
SPGEMM_TILES_COUNT(small, SmallTables)
SPGEMM_TILES_COUNT(large, LargeTables)

#define SPGEMM_TILES_FILL(NAME, SIZE, SHAPE, BLOCKS, T) \
    KERNEL_OF(BLOCKS, spgemm_tiles_##NAME##_##T, i64 n, In<i32> list, i64 rows, TILES_SHAPE, In<i64> offsets, In<i32> columns, In<u16> maps, \
              In<T> left, In<i64> right_offsets, In<i32> right_columns, In<u16> right_maps, In<T> right, In<i64> to, Out<i32> to_columns, \
              Out<T> to_values, Out<i32> overflow) { \
        [[maybe_unused]] const AsBlocks blocks{height, width, of_height, of_width, height_bits, width_bits}; \
        spgemm_tiles_fill<SIZE>(Rows{n, list}, rows, SHAPE, MatrixTiles{offsets, columns, maps}, left, \
                                MatrixTiles{right_offsets, right_columns, right_maps}, right, to, to_columns, to_values, overflow); \
    }
#define SPGEMM_TILES_FILLS(SIZE, NAME, BLOCKS, T) \
    SPGEMM_TILES_FILL(NAME##_scalars, SIZE, AsScalars{}, BLOCKS, T) \
    SPGEMM_TILES_FILL(NAME##_blocks, SIZE, blocks, BLOCKS, T)
SPGEMM_TILES_FILLS(SmallTables, small, 5, f64)
SPGEMM_TILES_FILLS(LargeTables, large, 4, f64)
SPGEMM_TILES_FILLS(SmallTables, small, 5, f32)
SPGEMM_TILES_FILLS(LargeTables, large, 4, f32)
