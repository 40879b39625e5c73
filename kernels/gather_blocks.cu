// CSR to BSR: gathers `size` scalar rows into one row of `size` x `size` blocks with ascending columns. A scalar row
// has no column twice, which was checked when the matrix was made.
#include "scan.h"

// Longest scalar row that a lane merges. Block rows with a longer one are computed by a block of threads.
constexpr int MAX_MERGED_ROW = 1024;

// Words of the bitmap of block columns of a block of threads.
constexpr int COLUMN_WORDS = 1024;

// Follows the last block column of a row.
constexpr i32 COLUMN_END = 0x7fffffff;

// Merges the scalar rows of a block row, a lane for each: counts the block columns, and with FILL writes them. False if
// scalar rows are unsorted or long.
template <int N, bool FILL>
DEVICE bool merge_block_row(i64 block_row, i32 size, const In<i64> &offsets, const In<i32> &columns, const In<i64> &to_offsets,
                            const Out<i32> &to_columns, i32 &count) {
    using G = Group<N>;
    const int lane = G::rank();
    i64 at = lane < size ? offsets[block_row * size + lane] : 0;
    const i64 end = lane < size ? offsets[block_row * size + lane + 1] : 0;
    const i64 to = FILL ? to_offsets[block_row] : 0;
    // A merge of unsorted rows may take more steps than there are columns.
    const i64 to_end = FILL ? to_offsets[block_row + 1] : 0;
    bool in_order = end - at <= MAX_MERGED_ROW;
    count = 0;
    if (G::ballot(!in_order) == 0) {
        i32 column = at < end ? columns[at] / size : COLUMN_END;
        for (i32 least = G::least(column); least != COLUMN_END; least = G::least(column)) {
            if (FILL && lane == 0 && to + count < to_end) {
                to_columns[to + count] = least;
            }
            ++count;
            while (column == least) {
                ++at;
                column = at < end ? columns[at] / size : COLUMN_END;
            }
            in_order = in_order && column > least;
        }
    }
    return G::ballot(!in_order) == 0;
}

// Finds the block columns of entries `start` to `end` with a bitmap, by a block of threads. Returns their number; with FILL
// writes them from `to` on.
template <bool FILL, class Bits, class Next, class Sums>
DEVICE i64 find_block_columns(i64 start, i64 end, i32 size, const In<i32> &columns, Bits &bits, Next &next, Sums &sums, i64 to,
                              const Out<i32> &to_columns) {
    constexpr int WORDS = COLUMN_WORDS / BLOCK;
    const int thread = thread_index();
    // Columns below this one are done.
    i64 first = 0;
    i64 found = 0;
    for (;;) {
        // The bitmap begins at the smallest column that is left, so that it is never empty. Negated columns turn
        // the minimum into a maximum, for which there is an atomic.
        if (thread == 0) {
            next[0] = -COLUMN_END;
        }
        for (int w = thread; w < COLUMN_WORDS; w += BLOCK) {
            bits[w] = 0;
        }
        barrier();
        i32 lowest = -COLUMN_END;
        for (i64 k = start + thread; k < end; k += BLOCK) {
            const i32 column = columns[k] / size;
            lowest = column >= first && -column > lowest ? -column : lowest;
        }
        atomic_max(next[0], lowest);
        barrier();
        first = -static_cast<i64>(next[0]);
        if (first == COLUMN_END) {
            break;
        }
        for (i64 k = start + thread; k < end; k += BLOCK) {
            const i64 bit = columns[k] / size - first;
            if (bit >= 0 && bit < COLUMN_WORDS * 32) {
                atomic_or(bits[bit / 32], 1u << bit % 32);
            }
        }
        barrier();
        int count = 0;
        for (int w = 0; w < WORDS; ++w) {
            count += count_bits(bits[thread * WORDS + w]);
        }
        i64 total;
        i64 position = to + found + block_sum_before(sums, count, total);
        for (int w = 0; FILL && w < WORDS; ++w) {
            const i64 word = thread * WORDS + w;
            for (u32 rest = bits[word]; rest != 0; rest &= rest - 1) {
                to_columns[position] = static_cast<i32>(first + word * 32 + lowest_bit(rest));
                ++position;
            }
        }
        found += total;
        first += COLUMN_WORDS * 32;
        barrier();
    }
    return found;
}

// The block columns of each block row: their number (`counts`), or with FILL the columns. N lanes merge the scalar
// rows of a block row, one each. Block rows with unsorted or long scalar rows are computed afterwards by the whole
// block of threads, with a bitmap.
template <int N, bool FILL>
DEVICE void gather_blocks(i64 block_rows, i32 size, const In<i64> &offsets, const In<i32> &columns, const Out<i32> &counts,
                         const In<i64> &to_offsets, const Out<i32> &to_columns) {
    constexpr int BLOCK_ROWS = BLOCK / N;
    SHARED(i32, left, 1 + BLOCK_ROWS);
    SHARED(u32, bits, COLUMN_WORDS);
    SHARED(i32, next, 1);
    SHARED(i64, sums, BLOCK / WARP);
    const int thread = thread_index();
    const int lane = Group<N>::rank();
    if (thread == 0) {
        left[0] = 0;
    }
    barrier();
    const i64 own = global_index() / N;
    if (own < block_rows) {
        i32 count;
        const bool done = merge_block_row<N, FILL>(own, size, offsets, columns, to_offsets, to_columns, count);
        if (lane == 0 && !done) {
            left[1 + atomic_add(left[0], 1)] = thread / N;
        }
        if (!FILL && lane == 0 && done) {
            counts[own] = count;
        }
    }
    barrier();
    const int others = left[0];
    for (int l = 0; l < others; ++l) {
        const i64 block_row = block_index() * BLOCK_ROWS + left[1 + l];
        const i64 start = offsets[block_row * size];
        const i64 end = offsets[(block_row + 1) * size];
        const i64 to = FILL ? to_offsets[block_row] : 0;
        const i64 found = find_block_columns<FILL>(start, end, size, columns, bits, next, sums, to, to_columns);
        if (!FILL && thread == 0) {
            counts[block_row] = static_cast<i32>(found);
        }
        barrier();
    }
}

#define GATHER_BLOCKS(N) \
    KERNEL(gather_blocks_count_##N, i64 block_rows, i32 size, In<i64> offsets, In<i32> columns, Out<i32> counts) { \
        gather_blocks<N, false>(block_rows, size, offsets, columns, counts, In<i64>{nullptr, 0}, Out<i32>{nullptr, 0}); \
    } \
    KERNEL(gather_blocks_columns_##N, i64 block_rows, i32 size, In<i64> offsets, In<i32> columns, In<i64> to_offsets, \
           Out<i32> to_columns) { \
        gather_blocks<N, true>(block_rows, size, offsets, columns, Out<i32>{nullptr, 0}, to_offsets, to_columns); \
    }
GATHER_BLOCKS(2)
GATHER_BLOCKS(4)
GATHER_BLOCKS(8)

// Entries of a scalar row per lane; a block of threads writes the values of longer rows.
constexpr int MAX_ENTRIES_PER_LANE = 64;

// Scatters scalar rows into blocks that are zero and whose columns are known. V has the size of the values, which are
// copied bitwise.
template <class V> struct BlockValues {
    i32 size;
    In<i64> offsets;
    In<i32> columns;
    In<V> values;
    In<i64> to_offsets;
    In<i32> to_columns;
    Out<V> to_values;

    // Scatters every `step`th value of a row, from `from` on.
    DEVICE void put(i64 row, int from, int step) const {
        const i64 block_row = row / size;
        const i64 first = to_offsets[block_row];
        const i64 last = to_offsets[block_row + 1];
        const i64 end = offsets[row + 1];
        for (i64 k = offsets[row] + from; k < end; k += step) {
            const i32 column = columns.once(k);
            const i32 block = column / size;
            i64 low = first;
            i64 high = last - 1;
            while (low < high) {
                const i64 middle = (low + high) / 2;
                if (to_columns[middle] < block) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            to_values[(low * size + row % size) * size + column - block * size] = values.once(k);
        }
    }
};

// `lanes` neighbouring threads, at least 4, for each scalar row.
template <class V> DEVICE void gather_blocks_values(i64 rows, i32 lanes, const BlockValues<V> &all) {
    SHARED(i32, left, 1 + BLOCK / 4);
    const int thread = thread_index();
    if (thread == 0) {
        left[0] = 0;
    }
    barrier();
    const i64 row = global_index() / lanes;
    if (row < rows) {
        const int lane = thread & (lanes - 1);
        if (all.offsets[row + 1] - all.offsets[row] <= MAX_ENTRIES_PER_LANE * lanes) {
            all.put(row, lane, lanes);
        } else if (lane == 0) {
            left[1 + atomic_add(left[0], 1)] = thread / lanes;
        }
    }
    barrier();
    for (int l = 0; l < left[0]; ++l) {
        all.put(block_index() * (BLOCK / lanes) + left[1 + l], thread, BLOCK);
    }
}

#define GATHER_BLOCKS_VALUES(V) \
    KERNEL(gather_blocks_values_##V, i64 rows, i32 size, i32 lanes, In<i64> offsets, In<i32> columns, In<V> values, \
           In<i64> to_offsets, In<i32> to_columns, Out<V> to_values) { \
        gather_blocks_values(rows, lanes, BlockValues<V>{size, offsets, columns, values, to_offsets, to_columns, to_values}); \
    }
GATHER_BLOCKS_VALUES(u64)
GATHER_BLOCKS_VALUES(u32)
