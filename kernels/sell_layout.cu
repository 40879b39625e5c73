// Conversion from CSR to SELL chunks (see sell.cu). A group of 32 lanes traverses the rows of a chunk together: a slot holds the next
// entry of each row whose column offset from the lowest of these columns fits its bits.
#include "sell_layout.h"

constexpr i32 NO_COLUMN = 0x7fffffff;

// Rows of a window, within which rows are sorted by length; as in `src/gpu/sell_chunks.rs`.
constexpr int WINDOW = 512;

// The K rows of a lane, CHUNK_LANES apart. The column after the next one is loaded ahead. I is the type of positions.
template <int K, class I> struct Cursor {
    I at[K];
    I end[K];
    i32 column[K];
    i32 ahead[K];
    bool occupied[K];
    i32 base;

    // Loads the first columns; `at` and `end` are set.
    template <class Columns> DEVICE void begin(const Columns &columns) {
        UNROLL
        for (int k = 0; k < K; ++k) {
            column[k] = at[k] < end[k] ? columns[at[k]] : NO_COLUMN;
            ahead[k] = at[k] + 1 < end[k] ? columns[at[k] + 1] : NO_COLUMN;
        }
    }

    // Starts the next slot; false after the last one.
    DEVICE bool next(i32 reach) {
        base = column[0];
        UNROLL
        for (int k = 1; k < K; ++k) {
            base = column[k] < base ? column[k] : base;
        }
        base = Group<CHUNK_LANES>::least(base);
        UNROLL
        for (int k = 0; k < K; ++k) {
            occupied[k] = column[k] != NO_COLUMN && column[k] - base < reach;
        }
        return base != NO_COLUMN;
    }

    // Advances beyond the entries of this slot. There is no branch: it is faster, and with one ptxas 13.0 generates code that reads one
    // entry beyond shared memory.
    template <class Columns> DEVICE void leave(const Columns &columns) {
        UNROLL
        for (int k = 0; k < K; ++k) {
            const I behind = at[k] + 2;
            const i32 read = occupied[k] && behind < end[k] ? columns[behind] : NO_COLUMN;
            column[k] = occupied[k] ? ahead[k] : column[k];
            ahead[k] = occupied[k] ? read : ahead[k];
            at[k] += occupied[k] ? 1 : 0;
        }
    }
};

// A traversal of the rows of a chunk in global memory.
template <int K>
DEVICE Cursor<K, i64> cursor_of(i64 chunk, i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<i32> &order) {
    Cursor<K, i64> cursor;
    i64 row[K];
    bool is_row[K];
    UNROLL
    for (int k = 0; k < K; ++k) {
        const i64 place = chunk * (K * CHUNK_LANES) + k * CHUNK_LANES + Group<CHUNK_LANES>::rank();
        is_row[k] = place < rows;
        row[k] = is_row[k] && order.len > 0 ? order[place] : place;
    }
    UNROLL
    for (int k = 0; k < K; ++k) {
        cursor.at[k] = is_row[k] ? offsets[row[k]] : 0;
        cursor.end[k] = is_row[k] ? offsets[row[k] + 1] : 0;
    }
    cursor.begin(columns);
    return cursor;
}

// A traversal of the rows of chunk `s` of a tile, in shared memory.
template <int K, class Begins, class Columns> DEVICE Cursor<K, i32> cursor_in(int s, const Begins &begins, const Columns &columns) {
    Cursor<K, i32> cursor;
    UNROLL
    for (int k = 0; k < K; ++k) {
        const int r = (s * K + k) * CHUNK_LANES + Group<CHUNK_LANES>::rank();
        cursor.at[k] = begins[r];
        cursor.end[k] = begins[r + 1];
    }
    cursor.begin(columns);
    return cursor;
}

// The number of the chunk that is number `at` of a sample of every `step`th window.
template <int K> DEVICE i64 chunk_at(i64 at, i32 step) {
    constexpr int CHUNKS = WINDOW / (K * CHUNK_LANES);
    return at / CHUNKS * step * CHUNKS + at % CHUNKS;
}

// Counts the slots of a chunk, by the lanes of a group: into `counts`, and added to `total`. Either may be empty.
template <int K, class I, class Columns>
DEVICE void count_chunk(Cursor<K, I> cursor, i32 reach, const Columns &columns, i64 at, const Out<i32> &counts,
                        const Out<i64> &total) {
    i32 count = 0;
    for (; cursor.next(reach); ++count) {
        cursor.leave(columns);
    }
    if (Group<CHUNK_LANES>::rank() == 0) {
        if (counts.len > 0) {
            counts[at] = count;
        }
        if (total.len > 0) {
            atomic_add(total[0], static_cast<i64>(count));
        }
    }
}

// Slots of each of `chunks` chunks, in every `step`th window.
template <int K>
DEVICE void count_slots(i64 chunks, i64 rows, i32, i32 step, i32 reach, const In<i64> &offsets,
                        const In<i32> &columns, const In<i32> &order, const Out<i32> &counts, const Out<i64> &total) {
    const i64 at = global_index() / CHUNK_LANES;
    if (at < chunks) {
        count_chunk(cursor_of<K>(chunk_at<K>(at, step), rows, offsets, columns, order), reach, columns, at, counts, total);
    }
}

// Entries of a tile in shared memory: columns alone, and columns with values. The bytes are in `src/gpu/sell_chunks.rs` and
// `src/gpu/sell_layout.rs`.
constexpr int COUNT_CAPACITY = 32768 / 4;
template <class V> constexpr int FILL_CAPACITY = 45056 / (4 + static_cast<int>(sizeof(V)));

// The same for long rows: a block of threads has a tile of `of_tile` chunks of one window, a power of two.
template <int K>
DEVICE void count_tiles(i64 chunks, i64 rows, i32 of_tile, i32 step, i32 reach, const In<i64> &offsets,
                        const In<i32> &columns, const In<i32> &order, const Out<i32> &counts, const Out<i64> &total) {
    SHARED(i64, starts, TILE);
    SHARED(i32, begins, TILE + 1);
    SHARED(i32, copied, COUNT_CAPACITY);
    const i64 first = block_index() * of_tile;
    const i64 chunk = chunk_at<K>(first, step);
    const int count = of_tile * (K * CHUNK_LANES);
    const bool fits = find_rows(chunk * (K * CHUNK_LANES), count, rows, offsets, order, starts, begins) <= COUNT_CAPACITY;
    barrier();
    if (fits) {
        copy_rows(order.len == 0, starts, begins, columns, copied);
    }
    barrier();
    const int s = thread_index() / CHUNK_LANES;
    if (s >= of_tile || first + s >= chunks) {
        return;
    }
    if (fits) {
        count_chunk(cursor_in<K>(s, begins, copied), reach, copied, first + s, counts, total);
    } else {
        count_chunk(cursor_of<K>(chunk + s, rows, offsets, columns, order), reach, columns, first + s, counts, total);
    }
}

// Returns at once if `longest`, if given, is more than `most`: SELL does not suit such a row, and traversing it takes long.
#define COUNT_SLOTS(NAME, K) \
    KERNEL(NAME##_##K, i64 chunks, i64 rows, i32 of_tile, i32 step, i32 reach, In<i64> offsets, In<i32> columns, \
           In<i32> order, Out<i32> counts, Out<i64> total, In<i64> longest, i64 most) { \
        if (longest.len > 0 && longest[0] > most) { \
            return; \
        } \
        NAME<K>(chunks, rows, of_tile, step, reach, offsets, columns, order, counts, total); \
    }
#define COUNT_BOTH(K) COUNT_SLOTS(count_slots, K) COUNT_SLOTS(count_tiles, K)
COUNT_BOTH(1)
COUNT_BOTH(2)
COUNT_BOTH(4)

// Values of a block that are copied at a time.
constexpr int STAGED_VALUES = 9;

// Copies the values of one block for each lane, `width` of them from `at` on, or zeros, to `to` at stride `height`. Lanes
// read neighbouring values and exchange them in `stage`, which has STAGED_VALUES for each lane: read by one lane each, a
// block would cost a transaction for every value. All lanes of the group take part.
template <class V, class I, class Stage>
DEVICE void copy_blocks(Stage &stage, int first, I at, bool occupied, i32 width, const In<V> &values, const Out<V> &to_values, i64 to, i32 height) {
    const int lane = Group<CHUNK_LANES>::rank();
    for (i32 q = 0; q < width; q += STAGED_VALUES) {
        const int count = width - q < STAGED_VALUES ? width - q : STAGED_VALUES;
        V value[STAGED_VALUES];
        UNROLL
        for (int t = 0; t < STAGED_VALUES; ++t) {
            const int e = t * CHUNK_LANES + lane;
            const int owner = count == STAGED_VALUES ? e / STAGED_VALUES : e / count;
            const I begin = Group<CHUNK_LANES>::shuffle(at, owner & (CHUNK_LANES - 1));
            const i32 has = Group<CHUNK_LANES>::shuffle(static_cast<i32>(occupied), owner & (CHUNK_LANES - 1));
            value[t] = t < count && has != 0 ? values[begin * width + q + e - owner * count] : V(0);
        }
        Group<CHUNK_LANES>::barrier(); // an earlier use may still be read
        UNROLL
        for (int t = 0; t < STAGED_VALUES; ++t) {
            if (t < count) {
                stage[first + t * CHUNK_LANES + lane] = value[t];
            }
        }
        Group<CHUNK_LANES>::barrier();
        for (int t = 0; t < count; ++t) {
            to_values[to + static_cast<i64>(q + t) * height + lane] = stage[first + lane * count + t];
        }
    }
}

// Copies a value for each row of a slot, which has the size of V, bitwise.
template <int K, class Values, class V> DEVICE auto copy_values(const Values &values, const Out<V> &to_values) {
    return [&](i64 slot, const auto &cursor) {
        V value[K];
        UNROLL
        for (int k = 0; k < K; ++k) {
            value[k] = cursor.occupied[k] ? values[cursor.at[k]] : V(0);
        }
        UNROLL
        for (int k = 0; k < K; ++k) {
            to_values[slot * (K * CHUNK_LANES) + k * CHUNK_LANES + Group<CHUNK_LANES>::rank()] = value[k];
        }
    };
}

// Writes base columns and offsets of a chunk, and with `copy` the values of each slot. If `occupied` is given, it gets a bit for each
// row of a slot: entry or padding, K words for each slot.
template <int K, class O, class I, class Columns, class Copy>
DEVICE void fill_chunk(Cursor<K, I> cursor, i64 slot, const Columns &columns, const Out<i32> &bases, const Out<O> &to_offsets,
                       const Out<u32> &occupied, const Copy &copy) {
    constexpr int HEIGHT = K * CHUNK_LANES;
    const int lane = Group<CHUNK_LANES>::rank();
    for (; cursor.next(sizeof(O) == 1 ? 1 << 8 : 1 << 16); ++slot) {
        if (lane == 0) {
            bases[slot] = cursor.base;
        }
        UNROLL
        for (int k = 0; k < K; ++k) {
            const int row = k * CHUNK_LANES + lane;
            const u64 its = occupied.len > 0 ? Group<CHUNK_LANES>::ballot(cursor.occupied[k]) : 0;
            if (occupied.len > 0 && lane == 0) {
                occupied[slot * K + k] = static_cast<u32>(its);
            }
            to_offsets[slot * HEIGHT + row] = cursor.occupied[k] ? static_cast<O>(cursor.column[k] - cursor.base) : O(0);
        }
        copy(slot, cursor);
        cursor.leave(columns);
    }
}

// All chunks, in a grid-stride loop. Few blocks are launched for long rows, so that the cache lines of all current rows, of which each
// slot reads a part, stay in the caches.
template <int K, class O, class V>
DEVICE void fill_slots(i64 chunks, i64 rows, i32, const In<i64> &offsets, const In<i32> &columns,
                       const In<V> &values, const In<i32> &order, const In<i64> &starts, const Out<i32> &bases,
                       const Out<O> &to_offsets, const Out<u32> &occupied, const Out<V> &to_values) {
    for (i64 chunk = global_index() / CHUNK_LANES; chunk < chunks; chunk += block_count() * (BLOCK / CHUNK_LANES)) {
        const Cursor<K, i64> cursor = cursor_of<K>(chunk, rows, offsets, columns, order);
        fill_chunk<K, O>(cursor, starts[chunk], columns, bases, to_offsets, occupied, copy_values<K>(values, to_values));
    }
}

// The same for blocks of `width` values.
template <int K, class O, class V>
DEVICE void fill_blocks(i64 chunks, i64 rows, i32 width, const In<i64> &offsets, const In<i32> &columns,
                        const In<V> &values, const In<i32> &order, const In<i64> &starts, const Out<i32> &bases,
                        const Out<O> &to_offsets, const Out<u32> &occupied, const Out<V> &to_values) {
    SHARED(V, stage, BLOCK *STAGED_VALUES);
    const int first = thread_index() / CHUNK_LANES * (CHUNK_LANES * STAGED_VALUES);
    const auto copy = [&](i64 slot, const Cursor<K, i64> &cursor) {
        UNROLL
        for (int k = 0; k < K; ++k) {
            const i64 to = slot * width * (K * CHUNK_LANES) + k * CHUNK_LANES;
            copy_blocks(stage, first, cursor.at[k], cursor.occupied[k], width, values, to_values, to, K * CHUNK_LANES);
        }
    };
    for (i64 chunk = global_index() / CHUNK_LANES; chunk < chunks; chunk += block_count() * (BLOCK / CHUNK_LANES)) {
        const Cursor<K, i64> cursor = cursor_of<K>(chunk, rows, offsets, columns, order);
        fill_chunk<K, O>(cursor, starts[chunk], columns, bases, to_offsets, occupied, copy);
    }
}

// The same for long scalar rows: a tile of `of_tile` chunks for each block of threads.
template <int K, class O, class V>
DEVICE void fill_tiles(i64 chunks, i64 rows, i32 of_tile, const In<i64> &offsets, const In<i32> &columns,
                       const In<V> &values, const In<i32> &order, const In<i64> &starts, const Out<i32> &bases,
                       const Out<O> &to_offsets, const Out<u32> &occupied, const Out<V> &to_values) {
    SHARED(i64, row_starts, TILE);
    SHARED(i32, begins, TILE + 1);
    SHARED(i32, copied, FILL_CAPACITY<V>);
    SHARED(V, copied_values, FILL_CAPACITY<V>);
    const i64 first = block_index() * of_tile;
    const int count = of_tile * (K * CHUNK_LANES);
    const bool fits = find_rows(first * (K * CHUNK_LANES), count, rows, offsets, order, row_starts, begins) <= FILL_CAPACITY<V>;
    barrier();
    if (fits) {
        copy_rows(order.len == 0, row_starts, begins, columns, copied);
        copy_rows(order.len == 0, row_starts, begins, values, copied_values);
    }
    barrier();
    const int s = thread_index() / CHUNK_LANES;
    if (s >= of_tile || first + s >= chunks) {
        return;
    }
    const i64 slot = starts[first + s];
    if (fits) {
        fill_chunk<K, O>(cursor_in<K>(s, begins, copied), slot, copied, bases, to_offsets, occupied, copy_values<K>(copied_values, to_values));
    } else {
        const Cursor<K, i64> cursor = cursor_of<K>(first + s, rows, offsets, columns, order);
        fill_chunk<K, O>(cursor, slot, columns, bases, to_offsets, occupied, copy_values<K>(values, to_values));
    }
}

// For `fill_blocks` the third argument is the number of values of a block, for `fill_tiles` the number of chunks of a tile.
#define FILL_SLOTS(NAME, K, O, V) \
    KERNEL(NAME##_##K##_##O##_##V, i64 chunks, i64 rows, i32 number, In<i64> offsets, In<i32> columns, In<V> values, \
           In<i32> order, In<i64> starts, Out<i32> bases, Out<O> to_offsets, Out<u32> occupied, Out<V> to_values) { \
        NAME<K, O, V>(chunks, rows, number, offsets, columns, values, order, starts, bases, to_offsets, occupied, to_values); \
    }
#define FILL_ALL(K, O, V) FILL_SLOTS(fill_slots, K, O, V) FILL_SLOTS(fill_tiles, K, O, V)
#define FILL_SLOTS_OF(K, O) FILL_ALL(K, O, u64) FILL_ALL(K, O, u32) FILL_ALL(K, O, u16)
FILL_SLOTS_OF(1, u16)
FILL_SLOTS_OF(2, u16)
FILL_SLOTS_OF(2, u8)
// Four rows at a time in formats of 16 bits alone.
FILL_ALL(4, u8, u16)
// As the products of block_sell.cu read them: offsets of 16 bits, and two rows at a time in formats of 16 bits alone.
FILL_SLOTS(fill_blocks, 1, u16, u64)
FILL_SLOTS(fill_blocks, 1, u16, u32)
FILL_SLOTS(fill_blocks, 2, u16, u16)

// Sorts the rows of every `step`th window by descending length, stably: a bitonic sort by a block of threads for each window. Rows with
// more than 65535 entries count as that long.
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

// Block rows that a block of threads converts at a time.
constexpr int CONVERTED_ROWS = 8;

// BSR to CSR: scalar row i has the entries of row i % height of its blocks.
template <class V>
DEVICE void bsr_to_csr(i64 rows, i32 height, i32 width, const In<i64> &offsets, const In<i32> &columns,
                       const In<V> &values, const Out<i64> &to_offsets, const Out<i32> &to_columns,
                       const Out<V> &to_values) {
    SHARED(i64, starts, CONVERTED_ROWS + 1);
    const int scalars = width * height;
    for (i64 row = block_index() * CONVERTED_ROWS; row < rows; row += block_count() * CONVERTED_ROWS) {
        const int count = static_cast<int>(row + CONVERTED_ROWS < rows ? CONVERTED_ROWS : rows - row);
        if (thread_index() <= count) {
            starts[thread_index()] = offsets[row + thread_index()];
        }
        barrier();
        for (int r = thread_index(); r < count * height; r += BLOCK) {
            const i64 first = starts[r / height];
            const i64 length = starts[r / height + 1] - first;
            to_offsets[row * height + r + 1] = (first * height + (r % height + 1) * length) * width;
        }
        if (row == 0 && thread_index() == 0) {
            to_offsets[0] = 0;
        }
        // A scalar column of a block for each thread.
        const i64 entries = (starts[count] - starts[0]) * width;
        for (i64 e = thread_index(); e < entries; e += BLOCK) {
            const i64 k = starts[0] + (e < 0x7fffffff ? static_cast<i32>(e) / width : e / width);
            const i32 c = static_cast<i32>(e - (k - starts[0]) * width);
            int own = 0;
            while (starts[own + 1] <= k) {
                ++own;
            }
            const i64 first = starts[own];
            const i64 length = (starts[own + 1] - first) * width;
            const i32 column = columns[k] * width + c;
            for (int r = 0; r < height; ++r) {
                const i64 to = first * scalars + r * length + (k - first) * width + c;
                to_columns[to] = column;
                to_values[to] = values[k * scalars + r * width + c];
            }
        }
        barrier();
    }
}

#define BSR_TO_CSR(V) \
    KERNEL(bsr_to_csr_##V, i64 rows, i32 height, i32 width, In<i64> offsets, In<i32> columns, In<V> values, \
           Out<i64> to_offsets, Out<i32> to_columns, Out<V> to_values) { \
        bsr_to_csr<V>(rows, height, width, offsets, columns, values, to_offsets, to_columns, to_values); \
    }
BSR_TO_CSR(u64)
BSR_TO_CSR(u32)
BSR_TO_CSR(u16)
