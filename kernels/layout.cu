// Making slices of a matrix in rows (see slices.cu). A group of 32 lanes walks over the rows of a slice together: in each slot every row has its
// next entry, if its column is in reach of the lowest.
#include "portability.h"

constexpr int LAYOUT = 32;
constexpr i32 NO_COLUMN = 0x7fffffff;

// The rows of a slice that a lane has, K of them, LAYOUT apart.
template <int K> struct Walk {
    i64 at[K];
    i64 end[K];
    i32 column[K];
    bool taken[K];
    i32 base;

    DEVICE Walk(i64 slice, i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<i32> &order) {
        UNROLL
        for (int k = 0; k < K; ++k) {
            const i64 place = slice * (K * LAYOUT) + k * LAYOUT + Group<LAYOUT>::rank();
            const i64 row = place < rows && order.len > 0 ? order[place] : place;
            at[k] = place < rows ? offsets[row] : 0;
            end[k] = place < rows ? offsets[row + 1] : 0;
            column[k] = at[k] < end[k] ? columns[at[k]] : NO_COLUMN;
        }
    }

    // Goes to the next slot; false behind the last one.
    DEVICE bool next(i32 reach) {
        base = column[0];
        UNROLL
        for (int k = 1; k < K; ++k) {
            base = column[k] < base ? column[k] : base;
        }
        UNROLL
        for (int mask = LAYOUT / 2; mask > 0; mask /= 2) {
            const i32 other = Group<LAYOUT>::shuffle(base, Group<LAYOUT>::rank() ^ mask);
            base = other < base ? other : base;
        }
        UNROLL
        for (int k = 0; k < K; ++k) {
            taken[k] = column[k] != NO_COLUMN && column[k] - base < reach;
        }
        return base != NO_COLUMN;
    }

    // Leaves the entries of this slot.
    DEVICE void leave(const In<i32> &columns) {
        UNROLL
        for (int k = 0; k < K; ++k) {
            if (taken[k]) {
                ++at[k];
                column[k] = at[k] < end[k] ? columns[at[k]] : NO_COLUMN;
            }
        }
    }
};

// Slots of each slice.
template <int K>
DEVICE void count_slots(i64 rows, i32 reach, const In<i64> &offsets, const In<i32> &columns, const In<i32> &order,
                        const Out<i32> &counts) {
    const i64 slice = global_index() / LAYOUT;
    if (slice >= counts.len) {
        return;
    }
    Walk<K> walk(slice, rows, offsets, columns, order);
    i32 count = 0;
    for (; walk.next(reach); ++count) {
        walk.leave(columns);
    }
    if (Group<LAYOUT>::rank() == 0) {
        counts[slice] = count;
    }
}

#define COUNT_SLOTS(K) \
    KERNEL(count_slots_##K, i64 rows, i32 reach, In<i64> offsets, In<i32> columns, In<i32> order, Out<i32> counts) { \
        count_slots<K>(rows, reach, offsets, columns, order, counts); \
    }
COUNT_SLOTS(1)
COUNT_SLOTS(2)
COUNT_SLOTS(4)

// Base columns, offsets and values, whose type V has their size and is not looked at; `width` of them for each block.
template <int K, class O, class V>
DEVICE void fill_slots(i64 slices, i64 rows, i32 width, const In<i64> &offsets, const In<i32> &columns,
                       const In<V> &values, const In<i32> &order, const In<i64> &starts, const Out<i32> &bases,
                       const Out<O> &to_offsets, const Out<V> &to_values) {
    constexpr int HEIGHT = K * LAYOUT;
    const i64 slice = global_index() / LAYOUT;
    if (slice >= slices) {
        return;
    }
    const int lane = Group<LAYOUT>::rank();
    Walk<K> walk(slice, rows, offsets, columns, order);
    for (i64 slot = starts[slice]; walk.next(sizeof(O) == 1 ? 1 << 8 : 1 << 16); ++slot) {
        if (lane == 0) {
            bases[slot] = walk.base;
        }
        UNROLL
        for (int k = 0; k < K; ++k) {
            const int row = k * LAYOUT + lane;
            to_offsets[slot * HEIGHT + row] = walk.taken[k] ? static_cast<O>(walk.column[k] - walk.base) : O(0);
            for (int q = 0; q < width; ++q) {
                to_values[(slot * width + q) * HEIGHT + row] = walk.taken[k] ? values[walk.at[k] * width + q] : V(0);
            }
        }
        walk.leave(columns);
    }
}

#define FILL_SLOTS(K, O, V) \
    KERNEL(fill_slots_##K##_##O##_##V, i64 slices, i64 rows, i32 width, In<i64> offsets, In<i32> columns, In<V> values, \
           In<i32> order, In<i64> starts, Out<i32> bases, Out<O> to_offsets, Out<V> to_values) { \
        fill_slots<K, O, V>(slices, rows, width, offsets, columns, values, order, starts, bases, to_offsets, to_values); \
    }
#define FILL_SLOTS_OF(K, O) FILL_SLOTS(K, O, u64) FILL_SLOTS(K, O, u32) FILL_SLOTS(K, O, u16)
FILL_SLOTS_OF(1, u16)
FILL_SLOTS_OF(2, u16)
FILL_SLOTS_OF(2, u8)
FILL_SLOTS_OF(4, u8)

// Rows among which an order by length is made, by one block; `src/gpu/layout.rs` has it, too.
constexpr int WINDOW = 512;

// The rows, inside of each window the longest first, of equal ones the first first.
KERNEL(order_by_length, i64 rows, In<i64> offsets, Out<i32> order) {
    SHARED(i32, lengths, WINDOW);
    const i64 first = block_index() * WINDOW;
    const int count = static_cast<int>(rows - first < WINDOW ? rows - first : WINDOW);
    for (int i = thread_index(); i < WINDOW; i += BLOCK) {
        lengths[i] = i < count ? static_cast<i32>(offsets[first + i + 1] - offsets[first + i]) : -1;
    }
    barrier();
    for (int i = thread_index(); i < count; i += BLOCK) {
        const i32 own = lengths[i];
        int rank = 0;
        for (int j = 0; j < count; ++j) {
            rank += lengths[j] > own || (lengths[j] == own && j < i);
        }
        order[first + rank] = static_cast<i32>(first + i);
    }
}

// Blocks taken apart: scalar row i of the result has the entries of row i % height of its blocks. A thread has a block.
template <class V>
DEVICE void take_apart(i64 rows, i32 height, i32 width, const In<i64> &offsets, const In<i32> &columns,
                       const In<V> &values, const Out<i64> &to_offsets, const Out<i32> &to_columns,
                       const Out<V> &to_values) {
    const i64 row = global_index() / LAYOUT;
    if (row >= rows) {
        return;
    }
    const i64 first = offsets[row];
    const i64 count = offsets[row + 1] - first;
    for (int r = Group<LAYOUT>::rank(); r < height; r += LAYOUT) {
        to_offsets[row * height + r + 1] = (first * height + (r + 1) * count) * width;
    }
    if (row == 0 && Group<LAYOUT>::rank() == 0) {
        to_offsets[0] = 0;
    }
    for (i64 e = Group<LAYOUT>::rank(); e < count * width * height; e += LAYOUT) {
        const i64 r = e / (count * width);
        const i64 k = e % (count * width) / width;
        const i64 c = e % width;
        to_columns[first * width * height + e] = static_cast<i32>(columns[first + k] * width + c);
        to_values[first * width * height + e] = values[((first + k) * height + r) * width + c];
    }
}

#define TAKE_APART(V) \
    KERNEL(take_apart_##V, i64 rows, i32 height, i32 width, In<i64> offsets, In<i32> columns, In<V> values, \
           Out<i64> to_offsets, Out<i32> to_columns, Out<V> to_values) { \
        take_apart<V>(rows, height, width, offsets, columns, values, to_offsets, to_columns, to_values); \
    }
TAKE_APART(u64)
TAKE_APART(u32)
TAKE_APART(u16)
