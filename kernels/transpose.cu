// Transposition: entries are counted and ranked by column with atomics in any order, scattered, and each row of the
// transpose is sorted. The result depends on the matrix alone.
#include "scan.h"

// `ranks` gets the number of entries of the same column that came before; `counts` starts as zeros.
KERNEL(transpose_count, i64 n, In<i32> columns, Out<i32> counts, Out<i32> ranks) {
    i32 column[ELEMENTS];
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 k = first_element() + e * BLOCK;
        column[e] = k < n ? columns[k] : 0;
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 k = first_element() + e * BLOCK;
        if (k < n) {
            ranks[k] = atomic_add(counts[column[e]], 1);
        }
    }
}

// `lanes` neighbouring threads for each row of A. A key has the row in its upper half. For matrices its lower half
// identifies the entry: by its position among all entries if 32 bits hold it (`narrow`), or else in the row.
template <class Key>
DEVICE void transpose_scatter(i64 rows, i32 lanes, i32 narrow, const In<i64> &offsets, const In<i32> &columns,
                              const In<i32> &ranks, const In<i64> &to, const Out<Key> &keys) {
    const i64 row = global_index() / lanes;
    if (row >= rows) {
        return;
    }
    const i64 start = offsets[row];
    const i64 end = offsets[row + 1];
    for (i64 k = start + (thread_index() & (lanes - 1)); k < end; k += lanes) {
        const i64 at = to[columns.once(k)] + ranks.once(k);
        if constexpr (sizeof(Key) == 8) {
            keys[at] = static_cast<u64>(row) << 32 | static_cast<u32>(narrow != 0 ? k : k - start);
        } else {
            keys[at] = static_cast<i32>(row);
        }
    }
}

// For a graph, which has rows alone, and for a matrix, with the same parameters.
#define TRANSPOSE_SCATTER(OF, Key) \
    KERNEL(transpose_scatter_##OF, i64 rows, i32 lanes, i32 narrow, In<i64> offsets, In<i32> columns, In<i32> ranks, In<i64> to, \
           Out<Key> keys) { \
        transpose_scatter<Key>(rows, lanes, narrow, offsets, columns, ranks, to, keys); \
    }
TRANSPOSE_SCATTER(graph, i32)
TRANSPOSE_SCATTER(matrix, u64)

// Output of the sort. `sources` are positions in A, of 32 or 64 bits; `from` are the row offsets of A, which only
// 64-bit ones need.
struct Transposed {
    Out<i32> columns;
    Any sources;
    In<i64> from;
    i32 narrow;
    DEVICE void put(i64 at, i32 key) const { columns[at] = key; }
    DEVICE void put(i64 at, u64 key) const {
        const i64 row = static_cast<i64>(key >> 32);
        columns[at] = static_cast<i32>(row);
        if (narrow != 0) {
            sources.out<u32>()[at] = static_cast<u32>(key);
        } else {
            sources.out<i64>()[at] = from[row] + static_cast<u32>(key);
        }
    }
};

DEVICE i32 row_of(i32 key) { return key; }
DEVICE i32 row_of(u64 key) { return static_cast<i32>(key >> 32); }

// Keys of a row per lane, in shared memory; transpose_long sorts longer rows.
constexpr int KEYS_OF_LANE = 16;

// N lanes for each row: the rank of a key is the number of smaller keys.
template <int N, class Key>
DEVICE void transpose_sort(i64 rows, const In<i64> &offsets, const In<Key> &keys, const Transposed &to, const Out<i32> &long_rows) {
    constexpr int LONGEST = KEYS_OF_LANE * N;
    SHARED(Key, all, KEYS_OF_LANE *BLOCK);
    const i64 row = global_index() / N;
    const int lane = Group<N>::rank();
    const int own = thread_index() / N * LONGEST;
    const i64 start = row < rows ? offsets[row] : 0;
    const i64 length = row < rows ? offsets[row + 1] - start : 0;
    if (length > LONGEST) {
        if (lane == 0) {
            long_rows[1 + atomic_add(long_rows[0], 1)] = static_cast<i32>(row);
        }
        return;
    }
    const int count = static_cast<int>(length);
    // The trip count is uniform, so that all lanes reach the barrier.
    for (int first = 0; first < count; first += N) {
        const int k = first + lane;
        if (k < count) {
            all[own + k] = keys.once(start + k);
        }
    }
    Group<N>::barrier();
    for (int k = lane; k < count; k += N) {
        const Key key = all[own + k];
        int place = 0;
        for (int j = 0; j < count; ++j) {
            place += row_of(all[own + j]) < row_of(key) ? 1 : 0;
        }
        to.put(start + place, key);
    }
}

// Rows of A in the bitmap by which a long row of the transpose is sorted.
constexpr int WINDOW_WORDS = 4096;

// A block of threads for each long row; `long_rows` has their number, and then the rows. The rank of a key is the
// number of bits before its own.
template <class Key>
DEVICE void transpose_long(const In<i64> &offsets, const In<Key> &keys, const Transposed &to, const In<i32> &long_rows) {
    constexpr int WORDS = WINDOW_WORDS / BLOCK;
    SHARED(u32, bits, WINDOW_WORDS);
    SHARED(i32, before, WINDOW_WORDS);
    SHARED(i32, next, 1);
    const int thread = thread_index();
    for (i64 l = block_index(); l < long_rows[0]; l += block_count()) {
        const i64 start = offsets[long_rows[1 + l]];
        const i64 end = offsets[long_rows[1 + l] + 1];
        // Keys below this row are done, and their number is the next position.
        i64 first = 0;
        i64 put = start;
        while (put < end) {
            // The bitmap begins at the smallest row that is left, so that it is never empty. Negated rows turn the
            // minimum into a maximum, for which there is an atomic.
            if (thread == 0) {
                next[0] = -0x7fffffff;
            }
            for (int w = thread; w < WINDOW_WORDS; w += BLOCK) {
                bits[w] = 0;
            }
            barrier();
            i32 lowest = -0x7fffffff;
            for (i64 k = start + thread; k < end; k += BLOCK) {
                const i32 row = row_of(keys[k]);
                lowest = row >= first && -row > lowest ? -row : lowest;
            }
            atomic_max(next[0], lowest);
            barrier();
            first = -static_cast<i64>(next[0]);
            for (i64 k = start + thread; k < end; k += BLOCK) {
                const i64 bit = row_of(keys[k]) - first;
                if (bit >= 0 && bit < WINDOW_WORDS * 32) {
                    atomic_or(bits[bit / 32], 1u << bit % 32);
                }
            }
            barrier();
            int count = 0;
            for (int w = 0; w < WORDS; ++w) {
                count += count_bits(bits[thread * WORDS + w]);
            }
            i64 total;
            i64 sum = block_sum_before(count, total);
            for (int w = 0; w < WORDS; ++w) {
                before[thread * WORDS + w] = static_cast<i32>(sum);
                sum += count_bits(bits[thread * WORDS + w]);
            }
            barrier();
            for (i64 k = start + thread; k < end; k += BLOCK) {
                const Key key = keys[k];
                const i64 bit = row_of(key) - first;
                if (bit >= 0 && bit < WINDOW_WORDS * 32) {
                    const u32 lower = bits[bit / 32] & ((1u << bit % 32) - 1);
                    to.put(put + before[bit / 32] + count_bits(lower), key);
                }
            }
            first += WINDOW_WORDS * 32;
            put += total;
            barrier();
        }
    }
}

#define TRANSPOSE_SORT(N, OF, Key) \
    KERNEL(transpose_sort_##OF##_##N, i64 rows, In<i64> offsets, In<Key> keys, Out<i32> columns, Any sources, In<i64> from, \
           i32 narrow, Out<i32> long_rows) { \
        transpose_sort<N>(rows, offsets, keys, Transposed{columns, sources, from, narrow}, long_rows); \
    }
#define TRANSPOSE_ROWS(OF, Key) \
    TRANSPOSE_SORT(4, OF, Key) \
    TRANSPOSE_SORT(8, OF, Key) \
    TRANSPOSE_SORT(16, OF, Key) \
    TRANSPOSE_SORT(32, OF, Key) \
    KERNEL(transpose_long_##OF, In<i64> offsets, In<Key> keys, Out<i32> columns, Any sources, In<i64> from, i32 narrow, \
           In<i32> long_rows) { \
        transpose_long(offsets, keys, Transposed{columns, sources, from, narrow}, long_rows); \
    }
TRANSPOSE_ROWS(graph, i32)
TRANSPOSE_ROWS(matrix, u64)

// Values of the transpose from those of A; blocks of the transpose have these dimensions.
template <class T>
DEVICE void transpose_values(i64 n, i32 rows, i32 cols, i32 narrow, const Any &sources, const In<T> &from, const Out<T> &to) {
    const int len = rows * cols;
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 k = first_element() + e * BLOCK;
        if (k >= n) {
            return;
        }
        const i64 entry = len == 1 ? k : k / len;
        const i64 source = narrow != 0 ? sources.in<u32>().once(entry) : sources.in<i64>().once(entry);
        const int in_block = static_cast<int>(k - entry * len);
        to[k] = from[source * len + in_block % cols * rows + in_block / cols];
    }
}

#define TRANSPOSE_VALUES(T) \
    KERNEL(transpose_values_##T, i64 n, i32 rows, i32 cols, i32 narrow, Any sources, In<T> from, Out<T> to) { \
        transpose_values<T>(n, rows, cols, narrow, sources, from, to); \
    }
TRANSPOSE_VALUES(f64)
TRANSPOSE_VALUES(f32)
