// Scalar rows put together to nodes: `size` rows of a node become one row of `size` x `size` blocks, whose columns ascend. A row has no column
// twice, which was checked when its matrix was made.
#include "scan.h"

// Entries of a row that a lane walks over; nodes with longer ones are a matter of all threads of a block.
constexpr int WALKED = 1024;

// Block columns that a block of threads finds at a time, as bits.
constexpr int COLUMN_WORDS = 1024;

// Behind all columns.
constexpr i32 NO_NODE = 0x7fffffff;

// The distinct block columns of nodes: how many there are (`counts`), or where those are known themselves (FILL). N lanes for each node have a row
// each and go to the smallest column that is next for any of them. Nodes whose rows do not ascend, as the walk shows, or are long, follow.
template <int N, bool FILL>
DEVICE void gather_nodes(i64 nodes, i32 size, const In<i64> &offsets, const In<i32> &columns, const Out<i32> &counts,
                         const In<i64> &to_offsets, const Out<i32> &to_columns) {
    constexpr int NODES = BLOCK / N;
    constexpr int WORDS = COLUMN_WORDS / BLOCK;
    using G = Group<N>;
    SHARED(i32, left, 1 + NODES);
    SHARED(u32, bits, COLUMN_WORDS);
    SHARED(i32, next, 1);
    SHARED(i64, sums, BLOCK / WARP);
    const int thread = thread_index();
    const int lane = G::rank();
    if (thread == 0) {
        left[0] = 0;
    }
    barrier();
    const i64 own = global_index() / N;
    if (own < nodes) {
        i64 at = lane < size ? offsets[own * size + lane] : 0;
        const i64 end = lane < size ? offsets[own * size + lane + 1] : 0;
        const i64 to = FILL ? to_offsets[own] : 0;
        // A walk over rows that do not ascend may take more steps than there are columns.
        const i64 to_end = FILL ? to_offsets[own + 1] : 0;
        bool in_order = end - at <= WALKED;
        i32 count = 0;
        if (G::ballot(!in_order) == 0) {
            i32 column = at < end ? columns[at] / size : NO_NODE;
            for (i32 least = G::least(column); least != NO_NODE; least = G::least(column)) {
                if (FILL && lane == 0 && to + count < to_end) {
                    to_columns[to + count] = least;
                }
                ++count;
                while (column == least) {
                    ++at;
                    column = at < end ? columns[at] / size : NO_NODE;
                }
                in_order = in_order && column > least;
            }
        }
        const bool done = G::ballot(!in_order) == 0;
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
        const i64 node = block_index() * NODES + left[1 + l];
        const i64 start = offsets[node * size];
        const i64 end = offsets[(node + 1) * size];
        const i64 to = FILL ? to_offsets[node] : 0;
        // Columns from here on have not been found yet.
        i64 first = 0;
        i64 found = 0;
        for (;;) {
            // Windows begin at the lowest column that is left, so that none is empty. There is a largest of negatives, and none of positives.
            if (thread == 0) {
                next[0] = -NO_NODE;
            }
            for (int w = thread; w < COLUMN_WORDS; w += BLOCK) {
                bits[w] = 0;
            }
            barrier();
            i32 lowest = -NO_NODE;
            for (i64 k = start + thread; k < end; k += BLOCK) {
                const i32 column = columns[k] / size;
                lowest = column >= first && -column > lowest ? -column : lowest;
            }
            atomic_max(next[0], lowest);
            barrier();
            first = -static_cast<i64>(next[0]);
            if (first == NO_NODE) {
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
            i64 place = to + found + block_sum_before(sums, count, total);
            for (int w = 0; FILL && w < WORDS; ++w) {
                const i64 word = thread * WORDS + w;
                for (u32 rest = bits[word]; rest != 0; rest &= rest - 1) {
                    to_columns[place] = static_cast<i32>(first + word * 32 + lowest_bit(rest));
                    ++place;
                }
            }
            found += total;
            first += COLUMN_WORDS * 32;
            barrier();
        }
        if (!FILL && thread == 0) {
            counts[node] = static_cast<i32>(found);
        }
        barrier();
    }
}

#define GATHER_NODES(N) \
    KERNEL(gather_nodes_count_##N, i64 nodes, i32 size, In<i64> offsets, In<i32> columns, Out<i32> counts) { \
        gather_nodes<N, false>(nodes, size, offsets, columns, counts, In<i64>{nullptr, 0}, Out<i32>{nullptr, 0}); \
    } \
    KERNEL(gather_nodes_columns_##N, i64 nodes, i32 size, In<i64> offsets, In<i32> columns, In<i64> to_offsets, \
           Out<i32> to_columns) { \
        gather_nodes<N, true>(nodes, size, offsets, columns, Out<i32>{nullptr, 0}, to_offsets, to_columns); \
    }
GATHER_NODES(2)
GATHER_NODES(4)
GATHER_NODES(8)

// Entries of a row for each of its lanes; all threads of a block put the values of longer ones.
constexpr int PUT_BY_LANE = 64;

// From scalar rows to blocks that were zero and whose columns are known. V has the size of values, which are not looked at.
template <class V> struct NodeValues {
    i32 size;
    In<i64> offsets;
    In<i32> columns;
    In<V> values;
    In<i64> to_offsets;
    In<i32> to_columns;
    Out<V> to_values;

    // Every `step`th value of a row, from `from` on.
    DEVICE void put(i64 row, int from, int step) const {
        const i64 node = row / size;
        const i64 first = to_offsets[node];
        const i64 last = to_offsets[node + 1];
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

// A group of `lanes` neighbouring threads, at least 4, for each scalar row.
template <class V> DEVICE void gather_nodes_values(i64 rows, i32 lanes, const NodeValues<V> &all) {
    SHARED(i32, left, 1 + BLOCK / 4);
    const int thread = thread_index();
    if (thread == 0) {
        left[0] = 0;
    }
    barrier();
    const i64 row = global_index() / lanes;
    if (row < rows) {
        const int lane = thread & (lanes - 1);
        if (all.offsets[row + 1] - all.offsets[row] <= PUT_BY_LANE * lanes) {
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

#define GATHER_NODES_VALUES(V) \
    KERNEL(gather_nodes_values_##V, i64 rows, i32 size, i32 lanes, In<i64> offsets, In<i32> columns, In<V> values, \
           In<i64> to_offsets, In<i32> to_columns, Out<V> to_values) { \
        gather_nodes_values(rows, lanes, NodeValues<V>{size, offsets, columns, values, to_offsets, to_columns, to_values}); \
    }
GATHER_NODES_VALUES(u64)
GATHER_NODES_VALUES(u32)
