// SpGEMM by merging, for short rows of A and ascending rows of B. A thread merges the rows of B that its row of A
// uses. It finds the columns of a row of C in ascending order, and a mask of one byte for each: bit k tells whether
// entry k of the row of A contributes. The numeric phase goes by these masks. It adds products in the order of the
// row of A, as the host does, without a hash table and without sorting. Neighbouring rows of a grid use neighbouring
// rows of B, which are in the cache. A row that cannot be merged goes to a list, like one that exceeds a hash table.
#include "spgemm_unsorted.h"

// Follows the last column of a row.
constexpr i32 LIST_END = 0x7fffffff;

// Words of the masks of a row of C, one byte for each column. A stride of one word more avoids bank conflicts in
// shared memory.
constexpr int MASK_WORDS = MERGED_COLUMNS / 4;
constexpr int MASK_STRIDE = MASK_WORDS + 1;

// Entries of C that a warp collects in shared memory before it writes them. They belong to neighbouring rows, so
// whole memory sectors are written.
constexpr int MERGE_CAPACITY = 416 * WARP / 32;

// Symbolic phase of one row of C: finds its columns and stores their masks from word `first` on. The next two columns
// of each row of B are prefetched. Returns the number of columns, or -1 if the row cannot be merged.
template <int K, class Masks> DEVICE int merge_columns(const Factors &f, bool is_row, i64 row, Masks &masks, int first) {
    u32 at[K];
    u32 left[K];
    i32 head[K];
    i32 second[K];
    const i64 start = is_row ? f.offsets[row] : 0;
    const i64 entries = is_row ? f.offsets[row + 1] - start : 0;
    if (entries > K) {
        return -1;
    }
    UNROLL
    for (int k = 0; k < K; ++k) {
        const i32 j = k < entries ? f.columns[start + k] : EMPTY;
        at[k] = j != EMPTY ? static_cast<u32>(f.begins[j]) : 0;
        left[k] = j != EMPTY ? static_cast<u32>(f.ends[j]) - at[k] : 0;
    }
    UNROLL
    for (int k = 0; k < K; ++k) {
        head[k] = left[k] > 0 ? f.right_columns[at[k]] : LIST_END;
        second[k] = left[k] > 1 ? f.right_columns[at[k] + 1] : LIST_END;
    }
    bool ascending = true;
    int count = 0;
    u32 word = 0;
    while (true) {
        i32 column = head[0];
        UNROLL
        for (int k = 1; k < K; ++k) {
            column = head[k] < column ? head[k] : column;
        }
        if (column == LIST_END || count == MERGED_COLUMNS) {
            ascending = ascending && column == LIST_END;
            break;
        }
        u32 terms = 0;
        UNROLL
        for (int k = 0; k < K; ++k) {
            if (head[k] == column) {
                terms |= 1u << k;
                ++at[k];
                --left[k];
                head[k] = second[k];
                second[k] = LIST_END;
                if (left[k] > 1) {
                    second[k] = f.right_columns[at[k] + 1];
                }
                ascending = ascending && head[k] > column;
            }
        }
        word |= terms << 8 * (count % 4);
        if (count % 4 == 3) {
            masks[first + count / 4] = word;
            word = 0;
        }
        ++count;
    }
    if (count % 4 != 0) {
        masks[first + count / 4] = word;
    }
    return ascending ? count : -1;
}

// The entries of a row of A, and a cursor into each of their rows of B. Cursors run from the beginning of a row of B,
// or backwards from its end.
template <int K, bool VALUES, class T> struct RowCursors {
    u32 at[K];
    T value[VALUES ? K : 1];
    T factor[VALUES ? K : 1];

    DEVICE void open(const Factors &f, const In<T> &left, const In<T> &right, bool is_row, i64 row, bool from_end) {
        const i64 start = is_row ? f.offsets[row] : 0;
        const i64 entries = is_row ? f.offsets[row + 1] - start : 0;
        UNROLL
        for (int k = 0; k < K; ++k) {
            const i32 j = k < entries ? f.columns[start + k] : EMPTY;
            at[k] = j == EMPTY ? 0 : from_end ? static_cast<u32>(f.ends[j]) - 1 : static_cast<u32>(f.begins[j]);
            if constexpr (VALUES) {
                factor[k] = j == EMPTY ? T(0) : left[start + k];
                value[k] = j == EMPTY ? T(0) : load(right, at[k]);
            }
        }
    }

    // A load beyond the last entry is clamped; its value is not used.
    static DEVICE T load(const In<T> &right, u32 at) {
        const u32 last = static_cast<u32>(right.len) - 1;
        return right[at < last ? at : last];
    }

    // The sum of the products that the mask selects. `from` is the position of one of them.
    DEVICE T take(const In<T> &right, u32 terms, bool from_end, u32 &from) {
        T sum = 0;
        UNROLL
        for (int k = 0; k < K; ++k) {
            if ((terms >> k & 1) != 0) {
                from = at[k];
                at[k] = from_end ? at[k] - 1 : at[k] + 1;
                if constexpr (VALUES) {
                    sum += times(factor[k], value[k]);
                    value[k] = load(right, at[k]);
                }
            }
        }
        return sum;
    }
};

// Output rows. With `fill` a zero on the diagonal becomes a one.
template <class T> struct Merged {
    Out<i32> columns;
    Out<T> values;
    bool fill;
};

// Numeric phase for the rows of a warp: lane r computes row `first_row` + r if it `writes`. Output rows are
// contiguous. A lane computes one row; if the rows of all lanes exceed MERGE_CAPACITY, two lanes share a row, and the
// second begins at its end.
template <int K, bool COLUMNS, bool VALUES, class T, class Masks, class C, class V>
DEVICE void write_merged(const Factors &f, const In<T> &left, const In<T> &right, i64 first_row, bool writes, i64 begin, int length,
                         const Merged<T> &to, const Masks &masks, C &columns, V &values) {
    const int lane = Group<WARP>::rank();
    const int own = thread_index() / WARP * MERGE_CAPACITY;
    u64 todo = Group<WARP>::ballot(writes);
    while (todo != 0) {
        const int first = lowest_bit(todo);
        const i64 base = shuffle(begin, first);
        const bool fits = writes && lane >= first && begin + length - base <= MERGE_CAPACITY;
        const u64 others = ~(Group<WARP>::ballot(fits) >> first);
        const int run = others != 0 ? lowest_bit(others) : 64;
        const bool whole = run >= WARP;
        const int rows = whole || run < WARP / 2 ? run : WARP / 2;
        const int mine = whole ? lane : lane / 2;
        const bool from_end = !whole && lane % 2 == 1;
        const int from = mine < rows ? first + mine : first;
        const int its_begin = static_cast<int>(shuffle(begin, from) - base);
        const int its_length = shuffle(length, from);
        const int total = static_cast<int>(shuffle(begin + length, first + rows - 1) - base);
        int share = whole ? its_length : (its_length + (from_end ? 0 : 1)) / 2;
        share = mine < rows ? share : 0;
        const i64 row = first_row + from;
        RowCursors<K, VALUES, T> cursors;
        cursors.open(f, left, right, share > 0, row, from_end);
        const int mask = (thread_index() / WARP * WARP + from) * MASK_STRIDE;
        // The column is prefetched while the next sum is computed.
        i32 column = EMPTY;
        T sum = 0;
        const auto put = [&](int position) {
            if constexpr (COLUMNS) {
                columns[position] = column;
            }
            if constexpr (VALUES) {
                values[position] = to.fill && column == row && sum == T(0) ? T(1) : sum;
            }
        };
        const int step = from_end ? -1 : 1;
        const int start = own + its_begin;
        int at = from_end ? its_length - 1 : 0;
        for (int rest = share; rest > 0; --rest) {
            u32 entry = 0;
            const T next = cursors.take(right, masks[mask + at / 4] >> 8 * (at % 4), from_end, entry);
            if (rest < share) {
                put(start + at - step);
            }
            sum = next;
            column = COLUMNS || to.fill ? f.right_columns[entry] : EMPTY;
            at += step;
        }
        if (share > 0) {
            put(start + at - step);
        }
        Tile<WARP>::barrier();
        for (int e = lane - static_cast<int>(base % WARP); e < total; e += WARP) {
            if (e >= 0) {
                if constexpr (COLUMNS) {
                    to.columns[base + e] = columns[own + e];
                }
                if constexpr (VALUES) {
                    to.values[base + e] = values[own + e];
                }
            }
        }
        Tile<WARP>::barrier();
        const int done = first + rows;
        todo = done < 64 ? todo >> done << done : 0;
    }
}

DEVICE void defer(const Out<i32> &overflow, i64 row) { overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(row); }

// Calls `copy` for each word of the masks of a warp's rows, with its position in global and in shared memory.
template <class Copy> DEVICE void copy_masks(i64 n, i64 row, const Copy &copy) {
    const int lane = Group<WARP>::rank();
    const int first = thread_index() / WARP * WARP * MASK_STRIDE;
    UNROLL
    for (int part = 0; part < MASK_WORDS; ++part) {
        const int word = part * WARP + lane;
        const i64 there = (row - lane) * MASK_WORDS + word;
        if (there < n * MASK_WORDS) {
            copy(there, first + word / MASK_WORDS * MASK_STRIDE + word % MASK_WORDS);
        }
    }
}

// Symbolic phase: lengths and masks of rows of C. A row that cannot be merged has length zero, and its mask begins
// with a zero.
template <int K>
DEVICE void merge_count(i64 n, const Factors &f, const Out<i32> &counts, const Out<u32> &all_masks, const Out<i64> &counters,
                        const Out<i32> &overflow) {
    SHARED(u32, masks, BLOCK *MASK_STRIDE);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        const int own = thread_index() * MASK_STRIDE;
        const int count = merge_columns<K>(f, row < n, row, masks, own);
        if (row < n) {
            counts[row] = count < 0 ? 0 : count;
        }
        if (count <= 0) {
            masks[own] = 0;
        }
        if (count < 0) {
            atomic_add(counters[ROWS_TOO_LONG], static_cast<i64>(1));
            defer(overflow, row);
        }
        Tile<WARP>::barrier();
        copy_masks(n, row, [&](i64 there, int here) { all_masks[there] = masks[here]; });
        Tile<WARP>::barrier();
    }
}

// Numeric phase: columns and values of rows of C at their offsets, from the masks of the symbolic phase.
template <int K, class T>
DEVICE void merge_sorted(i64 n, const Factors &f, const In<T> &left, const In<T> &right, const In<u32> &all_masks, const In<i64> &to,
                         const Merged<T> &merged) {
    SHARED(u32, masks, BLOCK *MASK_STRIDE);
    SHARED(i32, columns, BLOCK / WARP *MERGE_CAPACITY);
    SHARED(T, values, BLOCK / WARP *MERGE_CAPACITY);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        copy_masks(n, row, [&](i64 there, int here) { masks[here] = all_masks.once(there); });
        Tile<WARP>::barrier();
        const i64 begin = row < n ? to[row] : 0;
        const i64 length = row < n ? to[row + 1] - begin : 0;
        const bool writes = row < n && (length == 0 || masks[thread_index() * MASK_STRIDE] != 0);
        write_merged<K, true, true>(f, left, right, row - Group<WARP>::rank(), writes, begin, static_cast<int>(length), merged, masks, columns,
                                    values);
    }
}

// Values of rows of C with known columns.
template <int K, class T>
DEVICE void merge_numeric(i64 n, const Factors &f, const In<T> &left, const In<T> &right, const In<i64> &to, const Merged<T> &merged,
                        const Out<i32> &overflow) {
    SHARED(u32, masks, BLOCK *MASK_STRIDE);
    SHARED(i32, columns, 1);
    SHARED(T, values, BLOCK / WARP *MERGE_CAPACITY);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        const int count = merge_columns<K>(f, row < n, row, masks, thread_index() * MASK_STRIDE);
        if (count < 0) {
            defer(overflow, row);
        }
        const i64 begin = row < n ? to[row] : 0;
        Tile<WARP>::barrier();
        write_merged<K, false, true>(f, left, right, row - Group<WARP>::rank(), row < n && count >= 0, begin, count, merged, masks, columns, values);
    }
}

// Rows of C in any free space. A warp allocates the space of all of its rows at once.
template <int K, bool VALUES, class T>
DEVICE void merge_unsorted(i64 n, const Factors &f, const In<T> &left, const In<T> &right, const UnsortedRows<T> &to, const Out<i32> &overflow) {
    SHARED(u32, masks, BLOCK *MASK_STRIDE);
    SHARED(i32, columns, BLOCK / WARP *MERGE_CAPACITY);
    SHARED(T, values, VALUES ? BLOCK / WARP * MERGE_CAPACITY : 1);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        const int count = merge_columns<K>(f, row < n, row, masks, thread_index() * MASK_STRIDE);
        const bool fits = row < n && count >= 0;
        if (count < 0) {
            defer(overflow, row);
        }
        i64 begin;
        if (to.has_begins) {
            begin = fits ? to.begins[row] : 0;
        } else {
            begin = allocate_entries<1>(to.counters, fits ? count : 0);
        }
        const bool has_space = begin + count <= to.columns.len;
        if (fits) {
            to.begins[row] = has_space ? begin : 0;
            to.ends[row] = has_space ? begin + count : 0;
            if (to.counts.len > 0) {
                to.counts[row] = count;
            }
            if (!has_space) {
                atomic_add(to.counters[ROWS_WITHOUT_SPACE], static_cast<i64>(1));
            }
        }
        Tile<WARP>::barrier();
        write_merged<K, true, VALUES>(f, left, right, row - Group<WARP>::rank(), fits && has_space, begin, count,
                                      Merged<T>{to.columns, to.values, false}, masks, columns, values);
    }
}

// Largest numbers of entries of a row of A, at most 8; the same as in `src/gpu/setup/spgemm_merge.rs`.
#define FOR_WIDTHS(DO, ...) DO(5, __VA_ARGS__) DO(7, __VA_ARGS__)

#define MERGE_COUNT(K, ...) \
    KERNEL_OF(4, spgemm_count_merge##K, i64 n, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns, \
              Out<i32> counts, Out<u32> masks, Out<i64> counters, Out<i32> overflow) { \
        merge_count<K>(n, Factors{offsets, columns, begins, ends, right_columns}, counts, masks, counters, overflow); \
    }
#define MERGE_SORTED(K, T) \
    KERNEL_OF(3, spgemm_sorted_merge##K##_##T, i64 n, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns, \
              In<T> left, In<T> right, In<u32> masks, In<i64> to, Out<i32> to_columns, Out<T> to_values, i32 fill) { \
        merge_sorted<K, T>(n, Factors{offsets, columns, begins, ends, right_columns}, left, right, masks, to, \
                           Merged<T>{to_columns, to_values, fill != 0}); \
    }
// These have the parameters of the hash kernels, and ignore the list of rows: merging comes first and takes all rows.
#define MERGE_NUMERIC(K, T) \
    KERNEL_OF(3, spgemm_numeric_merge##K##_##T, i64 n, In<i32>, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, In<i64> to, In<i32>, Out<T> to_values, i32 fill, Out<i32> overflow) { \
        merge_numeric<K, T>(n, Factors{offsets, columns, begins, ends, right_columns}, left, right, to, \
                          Merged<T>{Out<i32>{nullptr, 0}, to_values, fill != 0}, overflow); \
    }
#define MERGE_UNSORTED(K, NAME, VALUES, T) \
    KERNEL_OF(4, spgemm_##NAME##_merge##K##_##T, i64 n, In<i32>, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, Out<i64> to_begins, Out<i64> to_ends, Out<i32> counts, Out<i32> to_columns, \
              Out<T> to_values, Out<i64> counters, i32 has_begins, Out<i32> overflow) { \
        merge_unsorted<K, VALUES, T>(n, Factors{offsets, columns, begins, ends, right_columns}, left, right, \
                                  UnsortedRows<T>{to_begins, to_ends, counts, to_columns, to_values, counters, has_begins != 0}, overflow); \
    }
FOR_WIDTHS(MERGE_COUNT, )
FOR_WIDTHS(MERGE_SORTED, f64)
FOR_WIDTHS(MERGE_SORTED, f32)
FOR_WIDTHS(MERGE_NUMERIC, f64)
FOR_WIDTHS(MERGE_NUMERIC, f32)
FOR_WIDTHS(MERGE_UNSORTED, unsorted, true, f64)
FOR_WIDTHS(MERGE_UNSORTED, unsorted, true, f32)
// Kernels without values use no value type; f32 stands in for it.
FOR_WIDTHS(MERGE_UNSORTED, pattern, false, f32)
