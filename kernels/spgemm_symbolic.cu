// Symbolic phase of SpGEMM for numeric-only updates: finds once for a pattern to which sum of C each product is
// added; see spgemm_numeric.cu.
#include "spgemm_numeric.h"

// Chunks of each row.
KERNEL(spgemm_chunk_counts, i64 rows, In<i64> begins, In<i64> ends, Out<i32> counts) {
    const i64 row = global_index();
    if (row < rows) {
        counts[row] = static_cast<i32>((ends[row] - begins[row] + CHUNK - 1) / CHUNK);
    }
}

// Offsets in 32 bits, for totals that fit.
KERNEL(spgemm_narrow_offsets, i64 n, In<i64> from, Out<i32> to) {
    const i64 at = global_index();
    if (at < n) {
        to[at] = static_cast<i32>(from[at]);
    }
}

// Position words of each row of C. A tile of 8 lanes for each row.
KERNEL(spgemm_position_counts, i64 rows, In<i64> offsets, In<i32> columns, In<i32> chunks, Out<i32> counts) {
    constexpr int N = 8;
    const i64 row = global_index() / N;
    i32 count = 0;
    for (i64 k = row < rows ? offsets[row] + Tile<N>::rank() : 0; row < rows && k < offsets[row + 1]; k += N) {
        const i64 column = columns[k];
        count += chunks[column + 1] - chunks[column];
    }
    count = tile_sum<N>(count);
    if (row < rows && Tile<N>::rank() == 0) {
        counts[row] = count;
    }
}

// Counts the rows longer than 16, 32, 64, 128 and 255, and finds the length of the longest.
constexpr int LIMITS = 5;
KERNEL(spgemm_row_lengths, i64 rows, In<i64> begins, In<i64> ends, Out<i32> seen) {
    i32 longer[LIMITS] = {}, longest = 0;
    for (i64 row = global_index(); row < rows; row += block_count() * BLOCK) {
        const i64 length = ends[row] - begins[row];
        UNROLL
        for (int limit = 0; limit < LIMITS; ++limit) {
            longer[limit] += length > (limit + 1 == LIMITS ? MAX_BYTE_POSITION : SUMS_PER_LANE << limit);
        }
        const i32 bounded = length > 0x7fffffff ? 0x7fffffff : static_cast<i32>(length);
        longest = bounded > longest ? bounded : longest;
    }
    UNROLL
    for (int limit = 0; limit < LIMITS; ++limit) {
        const i32 all = tile_sum<WARP>(longer[limit]);
        if (Group<WARP>::rank() == 0 && all > 0) {
            atomic_add(seen[limit], all);
        }
    }
    const i32 all = tile_max<WARP>(longest);
    if (Group<WARP>::rank() == 0) {
        atomic_max(seen[LIMITS], all);
    }
}

// Lists the rows longer than `limit`. The first element of the list is its length.
KERNEL(spgemm_list_long_rows, i64 rows, In<i64> begins, In<i64> ends, i32 limit, Out<i32> list) {
    const i64 row = global_index();
    if (row < rows && ends[row] - begins[row] > limit) {
        list[1 + atomic_add(list[0], 1)] = static_cast<i32>(row);
    }
}

// The position words of rows of C, whose columns are known, in any order. A tile of N lanes has a hash table of the
// columns of its row; each lane takes one entry of A at a time. Another kernel computes rows with at most `from`
// columns, and rows with more columns than three quarters of the table.
template <int N, int SLOTS, class W>
DEVICE void spgemm_symbolic(i64 rows, int from, const Factors &f, const In<i32> &chunks, const In<i64> &begins, const In<i64> &to, const In<i64> &to_ends,
                       const In<i32> &to_columns, const Out<W> &words) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(i32, positions, TEAMS *SLOTS);
    const int lane = Tile<N>::rank();
    const int first = thread_index() / N * SLOTS;
    for (i64 group = block_index() * TEAMS; group < rows; group += block_count() * TEAMS) {
        const i64 row = group + thread_index() / N;
        const i64 start = row < rows ? to[row] : 0;
        const i64 length = row < rows ? to_ends[row] - start : 0;
        const bool is_row = row < rows && length > from && length <= SLOTS * 3 / 4;
        if (!Tile<N>::any(is_row)) {
            continue;
        }
        for (int s = lane; s < SLOTS; s += N) {
            keys[first + s] = EMPTY;
        }
        Tile<N>::barrier();
        int found = 0;
        for (int e = lane; is_row && e < length; e += N) {
            positions[slot_of<SLOTS>(keys, first, to_columns[start + e], found)] = e;
        }
        Tile<N>::barrier();
        const i64 end = is_row ? f.offsets[row + 1] : 0;
        i64 word = !is_row ? 0 : begins.len > 0 ? begins[row] : f.offsets[row];
        for (i64 base = is_row ? f.offsets[row] : 0; Tile<N>::any(base < end); base += N) {
            const i64 k = base + lane;
            const i64 column = k < end ? f.columns[k] : 0;
            const i64 from_entry = k < end ? f.begins[column] : 0, to_entry = k < end ? f.ends[column] : 0;
            // An empty row of B has one chunk where every row is one chunk.
            const i32 count = k >= end ? 0 : chunks.len > 0 ? chunks[column + 1] - chunks[column] : 1;
            i32 upto = count;
            UNROLL
            for (int step = 1; step < N; step *= 2) {
                const i32 before = Tile<N>::shuffle(upto, lane >= step ? lane - step : lane);
                upto += lane >= step ? before : 0;
            }
            for (int q = 0; q < count; ++q) {
                W all = 0;
                UNROLL
                for (int e = 0; e < CHUNK; ++e) {
                    const i64 at = from_entry + q * CHUNK + e;
                    W position = Positions<W>::PADDING;
                    if (at < to_entry) {
                        int none = 0;
                        position = static_cast<W>(positions[slot_of<SLOTS>(keys, first, f.right_columns[at], none)]);
                    }
                    all |= position << Positions<W>::BITS * e;
                }
                words[word + upto - count + q] = all;
            }
            word += Tile<N>::shuffle(upto, N - 1);
        }
        Tile<N>::barrier();
    }
}

#define SPGEMM_SYMBOLIC(NAME, N, SLOTS, W) \
    KERNEL(spgemm_symbolic_##NAME, i64 rows, i32 from, In<i64> offsets, In<i32> columns, In<i64> right_begins, In<i64> right_ends, In<i32> right_columns, \
           In<i32> chunks, In<i64> begins, In<i64> to, In<i64> to_ends, In<i32> to_columns, Out<W> words) { \
        spgemm_symbolic<N, SLOTS, W>(rows, from, Factors{offsets, columns, right_begins, right_ends, right_columns}, chunks, begins, to, to_ends, \
                             to_columns, words); \
    }
SPGEMM_SYMBOLIC(8, 8, 96, u32)
SPGEMM_SYMBOLIC(32, 32, 352, u32)
SPGEMM_SYMBOLIC(wide, 32, 704, u64)
