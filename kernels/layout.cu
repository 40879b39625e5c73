// Making slices of a matrix in rows (see slices.cu). A group of 32 lanes walks over the rows of a slice together: in each slot every row has its
// next entry, if its column is in reach of the lowest.
#include "portability.h"

constexpr int LAYOUT = 32;
constexpr i32 NO_COLUMN = 0x7fffffff;

// The rows of a slice that a lane has, K of them, LAYOUT apart. The column behind the next one is read ahead.
template <int K> struct Walk {
    i64 at[K];
    i64 end[K];
    i32 column[K];
    i32 ahead[K];
    bool taken[K];
    i32 base;

    DEVICE Walk(i64 slice, i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<i32> &order) {
        i64 row[K];
        bool is_row[K];
        UNROLL
        for (int k = 0; k < K; ++k) {
            const i64 place = slice * (K * LAYOUT) + k * LAYOUT + Group<LAYOUT>::rank();
            is_row[k] = place < rows;
            row[k] = is_row[k] && order.len > 0 ? order[place] : place;
        }
        UNROLL
        for (int k = 0; k < K; ++k) {
            at[k] = is_row[k] ? offsets[row[k]] : 0;
            end[k] = is_row[k] ? offsets[row[k] + 1] : 0;
        }
        UNROLL
        for (int k = 0; k < K; ++k) {
            column[k] = at[k] < end[k] ? columns[at[k]] : NO_COLUMN;
            ahead[k] = at[k] + 1 < end[k] ? columns[at[k] + 1] : NO_COLUMN;
        }
    }

    // Goes to the next slot; false behind the last one.
    DEVICE bool next(i32 reach) {
        base = column[0];
        UNROLL
        for (int k = 1; k < K; ++k) {
            base = column[k] < base ? column[k] : base;
        }
        base = Group<LAYOUT>::least(base);
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
                column[k] = ahead[k];
                ahead[k] = at[k] + 1 < end[k] ? columns[at[k] + 1] : NO_COLUMN;
            }
        }
    }
};

// Slices of a window, among whose rows an order by length is made.
constexpr int WINDOW = 512;

// Groups of the launch. They are few and take slices in turn: the rows of all that are under way stay in the caches, whose lines a walk takes a
// piece of in each slot.
DEVICE i64 all_groups() { return block_count() * (BLOCK / LAYOUT); }

// Slots of each slice; of every `step`th window only, where that is more than 1, one after the other in `counts`.
template <int K>
DEVICE void count_slots(i64 rows, i32 step, i32 reach, const In<i64> &offsets, const In<i32> &columns,
                        const In<i32> &order, const Out<i32> &counts) {
    constexpr int SLICES = WINDOW / (K * LAYOUT);
    for (i64 at = global_index() / LAYOUT; at < counts.len; at += all_groups()) {
        Walk<K> walk(at / SLICES * step * SLICES + at % SLICES, rows, offsets, columns, order);
        i32 count = 0;
        for (; walk.next(reach); ++count) {
            walk.leave(columns);
        }
        if (Group<LAYOUT>::rank() == 0) {
            counts[at] = count;
        }
    }
}

#define COUNT_SLOTS(K) \
    KERNEL(count_slots_##K, i64 rows, i32 step, i32 reach, In<i64> offsets, In<i32> columns, In<i32> order, \
           Out<i32> counts) { \
        count_slots<K>(rows, step, reach, offsets, columns, order, counts); \
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
    const int lane = Group<LAYOUT>::rank();
    for (i64 slice = global_index() / LAYOUT; slice < slices; slice += all_groups()) {
        Walk<K> walk(slice, rows, offsets, columns, order);
        for (i64 slot = starts[slice]; walk.next(sizeof(O) == 1 ? 1 << 8 : 1 << 16); ++slot) {
            if (lane == 0) {
                bases[slot] = walk.base;
            }
            UNROLL
            for (int k = 0; k < K; ++k) {
                const int row = k * LAYOUT + lane;
                to_offsets[slot * HEIGHT + row] = walk.taken[k] ? static_cast<O>(walk.column[k] - walk.base) : O(0);
            }
            for (int q = 0; q < width; ++q) {
                V value[K];
                UNROLL
                for (int k = 0; k < K; ++k) {
                    value[k] = walk.taken[k] ? values[walk.at[k] * width + q] : V(0);
                }
                UNROLL
                for (int k = 0; k < K; ++k) {
                    to_values[(slot * width + q) * HEIGHT + k * LAYOUT + lane] = value[k];
                }
            }
            walk.leave(columns);
        }
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

// The rows, inside of each window the longest first, of equal ones the first first; of every `step`th window, each sorted by one block in a
// bitonic network. Rows beyond 65535 entries count as that long.
KERNEL(order_by_length, i64 rows, i32 step, In<i64> offsets, Out<i32> order) {
    SHARED(u32, keys, WINDOW);
    const i64 first = block_index() * step * WINDOW;
    const int count = static_cast<int>(rows - first < WINDOW ? rows - first : WINDOW);
    for (int i = thread_index(); i < WINDOW; i += BLOCK) {
        const i64 length = i < count ? offsets[first + i + 1] - offsets[first + i] : -1;
        const u32 place = 0xffff - static_cast<u32>(length < 0xffff ? length : 0xffff);
        keys[i] = (length < 0 ? 0xffffu << 16 : place << 16) | static_cast<u32>(i);
    }
    barrier();
    for (int size = 2; size <= WINDOW; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            const int t = thread_index();
            const int low = t / stride * (2 * stride) + t % stride;
            const u32 a = keys[low];
            const u32 b = keys[low + stride];
            const bool ascending = (low & size) == 0;
            if ((a > b) == ascending) {
                keys[low] = b;
                keys[low + stride] = a;
            }
            barrier();
        }
    }
    for (int i = thread_index(); i < count; i += BLOCK) {
        order[first + i] = static_cast<i32>(first + static_cast<i64>(keys[i] & 0xffff));
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
