// SpGEMM with hash accumulators in shared memory; see spgemm.h. A row of C is written in the order of its hash table
// to any free space. spgemm_sort.cu then sorts and compacts the rows. A row that exceeds its table goes to a list; a
// kernel with larger tables computes the rows of the list.
#include "spgemm_unsorted.h"

// Fused symbolic and numeric phase: rows of C in the order of their hash tables; without VALUES the pattern alone. A
// row that does not fit goes to the list `overflow`, whose first element is its length.
template <int N, int SLOTS, bool VALUES, class T>
DEVICE void spgemm_unsorted(const Rows &rows, const Factors &f, const In<T> &left, const In<T> &right, const UnsortedRows<T> &to,
                         const Out<i32> &overflow) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(T, values, VALUES ? TEAMS * SLOTS : 1);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(T, factors, VALUES ? BLOCK : 1);
    SHARED(i64, sums, BLOCK / WARP);
    SHARED(i64, taken, 1);
    const auto entries = staged_entries(begins, lengths, factors);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * SLOTS;
    const i64 count = rows.count();
    for (i64 group = block_index() * TEAMS; group < count; group += block_count() * TEAMS) {
        const i64 team = group + thread_index() / N;
        const bool is_row = team < count;
        const i64 row = is_row ? rows[team] : 0;
        const bool tries = is_row && (N == BLOCK || f.offsets[row + 1] - f.offsets[row] <= MAX_ENTRIES_PER_LANE * N);
        const int found = accumulate_row<N, SLOTS, VALUES>(f, left, right, tries, row, keys, values, entries);
        const int total = Team<N>::sum(sums, found);
        const bool fits = tries && total < TABLE_FULL;
        if (is_row && !fits && lane == 0) {
            overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(row);
            if constexpr (N == BLOCK) {
                atomic_add(to.counters[ROWS_TOO_LONG], static_cast<i64>(1));
                to.begins[row] = 0;
                to.ends[row] = 0;
                if (to.counts.len > 0) {
                    to.counts[row] = 0;
                }
            }
        }
        i64 begin = 0;
        if (to.has_begins) {
            begin = fits ? to.begins[row] : 0;
        } else if constexpr (N < BLOCK) {
            begin = allocate_entries<N>(to.counters, fits ? total : 0);
        } else {
            if (lane == 0) {
                taken[0] = fits ? atomic_add(to.counters[ENTRIES_ALLOCATED], static_cast<i64>(total)) : 0;
            }
            barrier();
            begin = taken[0];
        }
        const bool has_space = begin + total <= to.columns.len;
        if (fits && lane == 0) {
            to.begins[row] = has_space ? begin : 0;
            to.ends[row] = has_space ? begin + total : 0;
            if (to.counts.len > 0) {
                to.counts[row] = total;
            }
            if (!has_space) {
                atomic_add(to.counters[ROWS_WITHOUT_SPACE], static_cast<i64>(1));
            }
        }
        const bool writes = fits && has_space;
        const auto write = [&](i64 at, int slot) {
            to.columns[at] = keys[slot];
            if constexpr (VALUES) {
                to.values[at] = values[slot];
            }
        };
        if constexpr (N < BLOCK) {
            int written = 0;
            for (int s = first + lane; s < first + SLOTS; s += N) {
                const bool is_one = writes && keys[s] != EMPTY;
                const u64 all = Tile<N>::ballot(is_one);
                if (is_one) {
                    write(begin + written + Tile<N>::rank_among(all), s);
                }
                written += count_bits(all);
            }
        } else {
            for (int s = lane; s < SLOTS; s += BLOCK) {
                const bool is_one = writes && keys[s] != EMPTY;
                i64 all;
                const i64 before = block_sum_before(sums, is_one ? 1 : 0, all);
                if (is_one) {
                    write(begin + before, s);
                }
                begin += all;
            }
        }
        Team<N>::barrier();
    }
}

// Numeric phase: values of rows of C with known columns. With `fill` a zero on the diagonal becomes a one.
template <int N, int SLOTS, class T>
DEVICE void spgemm_hash_numeric(const Rows &rows, const Factors &f, const In<T> &left, const In<T> &right, const In<i64> &to, const In<i32> &columns,
                         const Out<T> &to_values, bool fill, const Out<i32> &overflow) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(T, values, TEAMS *SLOTS);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(T, factors, BLOCK);
    SHARED(i64, sums, BLOCK / WARP);
    const auto entries = staged_entries(begins, lengths, factors);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * SLOTS;
    const i64 count = rows.count();
    for (i64 group = block_index() * TEAMS; group < count; group += block_count() * TEAMS) {
        const i64 team = group + thread_index() / N;
        const i64 row = team < count ? rows[team] : 0;
        const i64 start = to[row];
        const i64 length = to[row + 1] - start;
        const bool is_row = team < count && length <= SLOTS;
        const int found = accumulate_row<N, SLOTS, true>(f, left, right, is_row, row, keys, values, entries);
        const bool fits = Team<N>::sum(sums, found) < TABLE_FULL;
        if (team < count && !(is_row && fits) && lane == 0) {
            overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(row);
        }
        for (int e = lane; is_row && fits && e < length; e += N) {
            const i32 column = columns[start + e];
            int none = 0;
            const T value = values[slot_of<SLOTS>(keys, first, column, none)];
            to_values[start + e] = fill && column == row && value == T(0) ? T(1) : value;
        }
        Team<N>::barrier();
    }
}

// Entries of B that a first-level cache holds in any order, and the largest distance in B between rows of B that
// neighbouring rows of A use. A merging thread reads rows of B piece by piece, interleaved with the reads of all
// other threads.
constexpr i64 CACHED_ENTRIES = 1 << 13;
constexpr i64 NEAR_ENTRIES = 1 << 10;

// Whether a thread can merge the rows of B that a row of A uses: their columns must ascend, and they must be near
// those of the next row of A. Each lane of a team checks one row of B.
template <int N> DEVICE bool can_merge(const Factors &f, i64 rows, i64 row, i64 start, i64 count) {
    const int lane = Team<N>::rank();
    bool ascending = count <= N;
    bool near = true;
    if (ascending && lane < count) {
        const i32 k = f.columns[start + lane];
        const i64 begin = f.begins[k];
        if (row + 1 < rows && start + count + lane < f.offsets[row + 2] && f.right_columns.len > CACHED_ENTRIES) {
            const i64 distance = f.begins[f.columns[start + count + lane]] - begin;
            near = distance < NEAR_ENTRIES && -distance < NEAR_ENTRIES;
        }
        const i64 end = f.ends[k];
        for (i64 t = begin + 1; t < end && t <= begin + MERGED_COLUMNS; ++t) {
            ascending = ascending && f.right_columns[t - 1] < f.right_columns[t];
        }
    }
    const u64 in_no_order = Tile<N>::ballot(!ascending);
    const u64 far = Tile<N>::ballot(!near);
    return in_no_order == 0 && 2 * count_bits(far) <= count;
}

// Statistics of a sample of `wanted` rows of C: stats[0] is the sum of their lengths, stats[1 + b] the number of rows
// within limit b, stats[4 + b] the number of rows that can be merged from at most so many rows of B. A row that
// exceeds every table, or is too long for a team, counts as a full table.
KERNEL(spgemm_sample, i64 rows, i64 wanted, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns, i32 first,
       i32 second, i32 third, i32 fewest, i32 few, Out<i64> stats) {
    constexpr int N = 32, SLOTS = 1024, TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(f32, values, 1);
    SHARED(i64, row_begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(f32, factors, 1);
    SHARED(i64, sums, BLOCK / WARP);
    const i64 team = global_index() / N;
    const bool is_row = team < wanted;
    // A golden-ratio sequence samples rows evenly and ignores the planes of a grid.
    const u64 spread = hash_of(static_cast<i32>(team), 0xffffffffu);
    const i64 row = !is_row ? 0 : wanted == rows ? team : static_cast<i64>(spread * static_cast<u64>(rows) >> 32);
    const In<f32> none{nullptr, 0};
    const Factors f{offsets, columns, begins, ends, right_columns};
    const auto entries = staged_entries(row_begins, lengths, factors);
    const i64 start = is_row ? offsets[row] : 0;
    const i64 named = is_row ? offsets[row + 1] - start : 0;
    const bool looks = named <= MAX_ENTRIES_PER_LANE * N;
    const int found = Team<N>::sum(sums, accumulate_row<N, SLOTS, false>(f, none, none, is_row && looks, row, keys, values, entries));
    const int total = looks ? found : TABLE_FULL;
    const bool can = can_merge<N>(f, rows, row, start, named);
    const bool merges = can && total <= MERGED_COLUMNS;
    if (is_row && Team<N>::rank() == 0) {
        const i32 limits[] = {first, second, third};
        const i32 lists[] = {fewest, few};
        atomic_add(stats[0], static_cast<i64>(total < TABLE_FULL ? total : SLOTS));
        UNROLL
        for (int b = 0; b < 3; ++b) {
            if (total <= limits[b]) {
                atomic_add(stats[1 + b], static_cast<i64>(1));
            }
        }
        UNROLL
        for (int b = 0; b < 2; ++b) {
            if (merges && named <= lists[b]) {
                atomic_add(stats[4 + b], static_cast<i64>(1));
            }
        }
    }
}

// Lanes of a team, and slots of its hash table.
#define FOR_TABLES(DO, ...) DO(4, 56, __VA_ARGS__) DO(8, 112, __VA_ARGS__) DO(32, 448, __VA_ARGS__) DO(256, 3072, __VA_ARGS__)

#define SPGEMM_UNSORTED(N, SLOTS, NAME, VALUES, T) \
    KERNEL_OF(4, spgemm_##NAME##_hash##N##_##T, i64 n, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, Out<i64> to_begins, Out<i64> to_ends, Out<i32> counts, Out<i32> to_columns, \
              Out<T> to_values, Out<i64> counters, i32 has_begins, Out<i32> overflow) { \
        spgemm_unsorted<N, SLOTS, VALUES, T>(Rows{n, rows}, Factors{offsets, columns, begins, ends, right_columns}, left, right, \
                                          UnsortedRows<T>{to_begins, to_ends, counts, to_columns, to_values, counters, has_begins != 0}, overflow); \
    }
#define SPGEMM_HASH_NUMERIC(N, SLOTS, T) \
    KERNEL_OF(4, spgemm_numeric_hash##N##_##T, i64 n, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, In<i64> to, In<i32> to_columns, Out<T> to_values, i32 fill, Out<i32> overflow) { \
        spgemm_hash_numeric<N, SLOTS, T>(Rows{n, rows}, Factors{offsets, columns, begins, ends, right_columns}, left, right, to, to_columns, \
                                  to_values, fill != 0, overflow); \
    }
FOR_TABLES(SPGEMM_UNSORTED, unsorted, true, f64)
FOR_TABLES(SPGEMM_UNSORTED, unsorted, true, f32)
FOR_TABLES(SPGEMM_HASH_NUMERIC, f64)
FOR_TABLES(SPGEMM_HASH_NUMERIC, f32)
// Kernels without values use no value type; f32 stands in for it.
FOR_TABLES(SPGEMM_UNSORTED, pattern, false, f32)
