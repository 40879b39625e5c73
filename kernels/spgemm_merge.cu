// Products C = A B with few entries in a row of A and ascending rows of B: a thread merges the rows of B that its row of A names, which gives the columns of a row of C in order,
// and for each a byte that tells which entries of A have a term there. By this script the row is computed: the terms of a sum are added in the order of the row of A, as on the
// host, without a table, and there is nothing to sort. Neighbouring rows of a grid name neighbouring rows of B, which caches serve. Rows that cannot be merged go to a list, as
// those that do not fit a table do.
#include "spgemm_rooms.h"

// Behind the last column of a row.
constexpr i32 LIST_END = 0x7fffffff;

// Words of a script, a byte for each column of a row of C: bit k tells whether entry k of the row of A has a term there. In shared memory one more keeps lanes in different banks.
constexpr int SCRIPT_WORDS = MERGED_COLUMNS / 4;
constexpr int SCRIPT_STRIDE = SCRIPT_WORDS + 1;

// Entries of C that a warp puts together in shared memory before it writes them: those of neighbouring rows, so that sectors of memory are written as a whole.
constexpr int MERGE_ROOM = 416 * WARP / 32;

// Finds the columns of a row of C and notes its script, from word `first` on. With the next column of each row of B, and the one after that, which is under way from memory.
// Gives their number, or -1 where the row cannot be merged.
template <int K, class Scripts> DEVICE int merge_columns(const Factors &f, bool is_row, i64 row, Scripts &scripts, int first) {
    u32 at[K];
    u32 left[K];
    i32 head[K];
    i32 second[K];
    const i64 start = is_row ? f.offsets[row] : 0;
    const i64 named = is_row ? f.offsets[row + 1] - start : 0;
    if (named > K) {
        return -1;
    }
    UNROLL
    for (int k = 0; k < K; ++k) {
        const i32 j = k < named ? f.columns[start + k] : EMPTY;
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
            scripts[first + count / 4] = word;
            word = 0;
        }
        ++count;
    }
    if (count % 4 != 0) {
        scripts[first + count / 4] = word;
    }
    return ascending ? count : -1;
}

// Entries of a row of A, and where the next terms of each are in B. Rows of B are taken from their beginning, or backwards from their end.
template <int K, bool VALUES, class T> struct Taken {
    u32 at[K];
    T value[VALUES ? K : 1];
    T factor[VALUES ? K : 1];

    DEVICE void open(const Factors &f, const In<T> &left, const In<T> &right, bool is_row, i64 row, bool from_end) {
        const i64 start = is_row ? f.offsets[row] : 0;
        const i64 named = is_row ? f.offsets[row + 1] - start : 0;
        UNROLL
        for (int k = 0; k < K; ++k) {
            const i32 j = k < named ? f.columns[start + k] : EMPTY;
            at[k] = j == EMPTY ? 0 : from_end ? static_cast<u32>(f.ends[j]) - 1 : static_cast<u32>(f.begins[j]);
            if constexpr (VALUES) {
                factor[k] = j == EMPTY ? T(0) : left[start + k];
                value[k] = j == EMPTY ? T(0) : load(right, at[k]);
            }
        }
    }

    // What is behind the last entry is not used.
    static DEVICE T load(const In<T> &right, u32 at) {
        const u32 last = static_cast<u32>(right.len) - 1;
        return right[at < last ? at : last];
    }

    // The sum of these terms; `from` is where one of them is.
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

// Where rows of C go. With `fill` a zero on the diagonal becomes a one.
template <class T> struct Merged {
    Out<i32> columns;
    Out<T> values;
    bool fill;
};

// Computes and writes rows of C by their scripts, for each lane of a warp the one of its rank from `first_row` on, if it is to be written; these lie one behind the other. A
// lane has a row, or where so many do not fit, half of one: the next lane begins at its end.
template <int K, bool COLUMNS, bool VALUES, class T, class Scripts, class C, class V>
DEVICE void write_merged(const Factors &f, const In<T> &left, const In<T> &right, i64 first_row, bool writes, i64 begin, int length,
                         const Merged<T> &to, const Scripts &scripts, C &columns, V &values) {
    const int lane = Group<WARP>::rank();
    const int own = thread_index() / WARP * MERGE_ROOM;
    u64 todo = Group<WARP>::ballot(writes);
    while (todo != 0) {
        const int first = lowest_bit(todo);
        const i64 base = shuffle(begin, first);
        const bool fits = writes && lane >= first && begin + length - base <= MERGE_ROOM;
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
        Taken<K, VALUES, T> taken;
        taken.open(f, left, right, share > 0, row, from_end);
        const int script = (thread_index() / WARP * WARP + from) * SCRIPT_STRIDE;
        // A column is under way from memory while the next sum is computed.
        i32 column = EMPTY;
        T sum = 0;
        const auto put = [&](int place) {
            if constexpr (COLUMNS) {
                columns[place] = column;
            }
            if constexpr (VALUES) {
                values[place] = to.fill && column == row && sum == T(0) ? T(1) : sum;
            }
        };
        const int step = from_end ? -1 : 1;
        const int start = own + its_begin;
        int at = from_end ? its_length - 1 : 0;
        for (int rest = share; rest > 0; --rest) {
            u32 entry = 0;
            const T next = taken.take(right, scripts[script + at / 4] >> 8 * (at % 4), from_end, entry);
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

DEVICE void leave(const Out<i32> &more, i64 row) { more[1 + atomic_add(more[0], 1)] = static_cast<i32>(row); }

// Calls `copy` for the words of scripts of the rows of a warp: with the place in global memory, and that in shared memory.
template <class Copy> DEVICE void copy_scripts(i64 n, i64 row, const Copy &copy) {
    const int lane = Group<WARP>::rank();
    const int first = thread_index() / WARP * WARP * SCRIPT_STRIDE;
    UNROLL
    for (int part = 0; part < SCRIPT_WORDS; ++part) {
        const int word = part * WARP + lane;
        const i64 there = (row - lane) * SCRIPT_WORDS + word;
        if (there < n * SCRIPT_WORDS) {
            copy(there, first + word / SCRIPT_WORDS * SCRIPT_STRIDE + word % SCRIPT_WORDS);
        }
    }
}

// Lengths and scripts of rows of C. Those that cannot be merged have none: their script begins with a zero.
template <int K>
DEVICE void merge_count(i64 n, const Factors &f, const Out<i32> &counts, const Out<u32> &all_scripts, const Out<i64> &used,
                        const Out<i32> &more) {
    SHARED(u32, scripts, BLOCK *SCRIPT_STRIDE);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        const int own = thread_index() * SCRIPT_STRIDE;
        const int count = merge_columns<K>(f, row < n, row, scripts, own);
        if (row < n) {
            counts[row] = count < 0 ? 0 : count;
        }
        if (count <= 0) {
            scripts[own] = 0;
        }
        if (count < 0) {
            atomic_add(used[ROWS_TOO_LONG], static_cast<i64>(1));
            leave(more, row);
        }
        Tile<WARP>::barrier();
        copy_scripts(n, row, [&](i64 there, int here) { all_scripts[there] = scripts[here]; });
        Tile<WARP>::barrier();
    }
}

// Rows of C where their offsets are, by scripts that are known.
template <int K, class T>
DEVICE void merge_sorted(i64 n, const Factors &f, const In<T> &left, const In<T> &right, const In<u32> &all_scripts, const In<i64> &to,
                         const Merged<T> &merged) {
    SHARED(u32, scripts, BLOCK *SCRIPT_STRIDE);
    SHARED(i32, columns, BLOCK / WARP *MERGE_ROOM);
    SHARED(T, values, BLOCK / WARP *MERGE_ROOM);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        copy_scripts(n, row, [&](i64 there, int here) { scripts[here] = all_scripts.once(there); });
        Tile<WARP>::barrier();
        const i64 begin = row < n ? to[row] : 0;
        const i64 length = row < n ? to[row + 1] - begin : 0;
        const bool writes = row < n && (length == 0 || scripts[thread_index() * SCRIPT_STRIDE] != 0);
        write_merged<K, true, true>(f, left, right, row - Group<WARP>::rank(), writes, begin, static_cast<int>(length), merged, scripts, columns,
                                    values);
    }
}

// The values of rows of C, whose columns are known.
template <int K, class T>
DEVICE void merge_known(i64 n, const Factors &f, const In<T> &left, const In<T> &right, const In<i64> &to, const Merged<T> &merged,
                        const Out<i32> &more) {
    SHARED(u32, scripts, BLOCK *SCRIPT_STRIDE);
    SHARED(i32, columns, 1);
    SHARED(T, values, BLOCK / WARP *MERGE_ROOM);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        const int count = merge_columns<K>(f, row < n, row, scripts, thread_index() * SCRIPT_STRIDE);
        if (count < 0) {
            leave(more, row);
        }
        const i64 begin = row < n ? to[row] : 0;
        Tile<WARP>::barrier();
        write_merged<K, false, true>(f, left, right, row - Group<WARP>::rank(), row < n && count >= 0, begin, count, merged, scripts, columns, values);
    }
}

// Rows of C where there is room. A warp takes that of all of its rows at once.
template <int K, bool VALUES, class T>
DEVICE void merge_found(i64 n, const Factors &f, const In<T> &left, const In<T> &right, const Rooms<T> &to, const Out<i32> &more) {
    SHARED(u32, scripts, BLOCK *SCRIPT_STRIDE);
    SHARED(i32, columns, BLOCK / WARP *MERGE_ROOM);
    SHARED(T, values, VALUES ? BLOCK / WARP * MERGE_ROOM : 1);
    for (i64 group = block_index() * BLOCK; group < n; group += block_count() * BLOCK) {
        const i64 row = group + thread_index();
        const int count = merge_columns<K>(f, row < n, row, scripts, thread_index() * SCRIPT_STRIDE);
        const bool fits = row < n && count >= 0;
        if (count < 0) {
            leave(more, row);
        }
        i64 begin;
        if (to.placed) {
            begin = fits ? to.begins[row] : 0;
        } else {
            begin = take_room<1>(to.used, fits ? count : 0);
        }
        const bool has_room = begin + count <= to.columns.len;
        if (fits) {
            to.begins[row] = has_room ? begin : 0;
            to.ends[row] = has_room ? begin + count : 0;
            if (to.counts.len > 0) {
                to.counts[row] = count;
            }
            if (!has_room) {
                atomic_add(to.used[ROWS_MISSED], static_cast<i64>(1));
            }
        }
        Tile<WARP>::barrier();
        write_merged<K, true, VALUES>(f, left, right, row - Group<WARP>::rank(), fits && has_room, begin, count,
                                      Merged<T>{to.columns, to.values, false}, scripts, columns, values);
    }
}

// Entries of rows of A up to which a kernel merges, at most 8; `src/gpu/setup/spgemm.rs` has them, too.
#define FOR_LISTS(DO, ...) DO(5, __VA_ARGS__) DO(7, __VA_ARGS__)

#define MERGE_COUNT(K, ...) \
    KERNEL_OF(4, spgemm_count_merge##K, i64 n, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns, \
              Out<i32> counts, Out<u32> scripts, Out<i64> used, Out<i32> more) { \
        merge_count<K>(n, Factors{offsets, columns, begins, ends, right_columns}, counts, scripts, used, more); \
    }
#define MERGE_SORTED(K, T) \
    KERNEL_OF(3, spgemm_sorted_merge##K##_##T, i64 n, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns, \
              In<T> left, In<T> right, In<u32> scripts, In<i64> to, Out<i32> to_columns, Out<T> to_values, i32 fill) { \
        merge_sorted<K, T>(n, Factors{offsets, columns, begins, ends, right_columns}, left, right, scripts, to, \
                           Merged<T>{to_columns, to_values, fill != 0}); \
    }
// These take what kernels with tables take. A list of rows, and the size of chunks, are not for them: merging comes first, and takes the room that it needs.
#define MERGE_KNOWN(K, T) \
    KERNEL_OF(3, spgemm_known_merge##K##_##T, i64 n, In<i32>, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, In<i64> to, In<i32>, Out<T> to_values, i32 fill, Out<i32> more) { \
        merge_known<K, T>(n, Factors{offsets, columns, begins, ends, right_columns}, left, right, to, \
                          Merged<T>{Out<i32>{nullptr, 0}, to_values, fill != 0}, more); \
    }
#define MERGE_FOUND(K, NAME, VALUES, T) \
    KERNEL_OF(4, spgemm_##NAME##_merge##K##_##T, i64 n, In<i32>, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, Out<i64> to_begins, Out<i64> to_ends, Out<i32> counts, Out<i32> to_columns, \
              Out<T> to_values, Out<i64> used, i32 placed, Out<i32> more) { \
        merge_found<K, VALUES, T>(n, Factors{offsets, columns, begins, ends, right_columns}, left, right, \
                                  Rooms<T>{to_begins, to_ends, counts, to_columns, to_values, used, placed != 0}, more); \
    }
FOR_LISTS(MERGE_COUNT, )
FOR_LISTS(MERGE_SORTED, f64)
FOR_LISTS(MERGE_SORTED, f32)
FOR_LISTS(MERGE_KNOWN, f64)
FOR_LISTS(MERGE_KNOWN, f32)
FOR_LISTS(MERGE_FOUND, found, true, f64)
FOR_LISTS(MERGE_FOUND, found, true, f32)
// The type of values that are not there is of no account.
FOR_LISTS(MERGE_FOUND, pattern, false, f32)
