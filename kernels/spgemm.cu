// Products of sparse matrices; see spgemm.h. Rows of C are computed in the order of their tables and put where there is room; spgemm_sort.cu brings
// them to their places, by columns. A row that does not fit its table goes to a list, which a kernel with larger ones takes next.
#include "spgemm_rooms.h"

// Rows of C as they lie in their tables. Those that do not fit go to `more`, behind their number.
template <int N, int SLOTS, bool VALUES, class T>
DEVICE void spgemm_found(const Rows &rows, const Factors &f, const In<T> &left, const In<T> &right, const Rooms<T> &to,
                         const Out<i32> &more) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(T, values, VALUES ? TEAMS * SLOTS : 1);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(T, factors, VALUES ? BLOCK : 1);
    SHARED(i64, sums, BLOCK / WARP);
    SHARED(i64, taken, 1);
    const auto entries = at_hand(begins, lengths, factors);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * SLOTS;
    const i64 count = rows.count();
    for (i64 group = block_index() * TEAMS; group < count; group += block_count() * TEAMS) {
        const i64 team = group + thread_index() / N;
        const bool is_row = team < count;
        const i64 row = is_row ? rows[team] : 0;
        const bool tries = is_row && (N == BLOCK || f.offsets[row + 1] - f.offsets[row] <= MOST_NAMED * N);
        const int found = add_row<N, SLOTS, VALUES>(f, left, right, tries, row, keys, values, entries);
        const int total = Team<N>::sum(sums, found);
        const bool fits = tries && total < NO_ROOM;
        if (is_row && !fits && lane == 0) {
            more[1 + atomic_add(more[0], 1)] = static_cast<i32>(row);
            if constexpr (N == BLOCK) {
                atomic_add(to.used[ROWS_TOO_LONG], static_cast<i64>(1));
                to.begins[row] = 0;
                to.ends[row] = 0;
                if (to.counts.len > 0) {
                    to.counts[row] = 0;
                }
            }
        }
        i64 begin = 0;
        if (to.placed) {
            begin = fits ? to.begins[row] : 0;
        } else if constexpr (N < BLOCK) {
            begin = take_room<N>(to.used, fits ? total : 0);
        } else {
            if (lane == 0) {
                taken[0] = fits ? atomic_add(to.used[ROOM_TAKEN], static_cast<i64>(total)) : 0;
            }
            barrier();
            begin = taken[0];
        }
        const bool has_room = begin + total <= to.columns.len;
        if (fits && lane == 0) {
            to.begins[row] = has_room ? begin : 0;
            to.ends[row] = has_room ? begin + total : 0;
            if (to.counts.len > 0) {
                to.counts[row] = total;
            }
            if (!has_room) {
                atomic_add(to.used[ROWS_MISSED], static_cast<i64>(1));
            }
        }
        const bool writes = fits && has_room;
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

// The values of rows of C whose columns are there. With `fill` a zero on the diagonal becomes a one.
template <int N, int SLOTS, class T>
DEVICE void spgemm_known(const Rows &rows, const Factors &f, const In<T> &left, const In<T> &right, const In<i64> &to, const In<i32> &columns,
                         const Out<T> &to_values, bool fill, const Out<i32> &more) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(T, values, TEAMS *SLOTS);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(T, factors, BLOCK);
    SHARED(i64, sums, BLOCK / WARP);
    const auto entries = at_hand(begins, lengths, factors);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * SLOTS;
    const i64 count = rows.count();
    for (i64 group = block_index() * TEAMS; group < count; group += block_count() * TEAMS) {
        const i64 team = group + thread_index() / N;
        const i64 row = team < count ? rows[team] : 0;
        const i64 start = to[row];
        const i64 length = to[row + 1] - start;
        const bool is_row = team < count && length <= SLOTS;
        const int found = add_row<N, SLOTS, true>(f, left, right, is_row, row, keys, values, entries);
        const bool fits = Team<N>::sum(sums, found) < NO_ROOM;
        if (team < count && !(is_row && fits) && lane == 0) {
            more[1 + atomic_add(more[0], 1)] = static_cast<i32>(row);
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

// Entries of B that a first-level cache holds in any order, and how far apart in B those may be that neighbouring rows of A name: a thread that merges reads a part of each row
// in turn, with those of all other threads in between.
constexpr i64 CACHED_ENTRIES = 1 << 13;
constexpr i64 NEAR_ENTRIES = 1 << 10;

// Whether the rows of B that a row of A names are ascending, and near enough to those of the next row to be merged by a thread. The lanes of a team look at one each.
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

// What rows are like, of which `wanted` are looked at: stats[0] adds up their columns, stats[1 + b] counts those with at most so many, and stats[4 + b] those that can be
// merged from at most so many rows of B. Rows that fit no table, or are too long for a team, count as one that is full.
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
    // Multiples of the golden ratio are spread evenly, and with no regard to the planes of a grid.
    const u64 spread = hash_of(static_cast<i32>(team), 0xffffffffu);
    const i64 row = !is_row ? 0 : wanted == rows ? team : static_cast<i64>(spread * static_cast<u64>(rows) >> 32);
    const In<f32> none{nullptr, 0};
    const Factors f{offsets, columns, begins, ends, right_columns};
    const auto entries = at_hand(row_begins, lengths, factors);
    const i64 start = is_row ? offsets[row] : 0;
    const i64 named = is_row ? offsets[row + 1] - start : 0;
    const bool looks = named <= MOST_NAMED * N;
    const int found = Team<N>::sum(sums, add_row<N, SLOTS, false>(f, none, none, is_row && looks, row, keys, values, entries));
    const int total = looks ? found : NO_ROOM;
    const bool can = can_merge<N>(f, rows, row, start, named);
    const bool merges = can && total <= MERGED_COLUMNS;
    if (is_row && Team<N>::rank() == 0) {
        const i32 limits[] = {first, second, third};
        const i32 lists[] = {fewest, few};
        atomic_add(stats[0], static_cast<i64>(total < NO_ROOM ? total : SLOTS));
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

// Lanes of teams, and slots of their tables.
#define FOR_TABLES(DO, ...) DO(4, 56, __VA_ARGS__) DO(8, 112, __VA_ARGS__) DO(32, 448, __VA_ARGS__) DO(256, 3072, __VA_ARGS__)

#define SPGEMM_FOUND(N, SLOTS, NAME, VALUES, T) \
    KERNEL_OF(4, spgemm_##NAME##_##N##_##T, i64 n, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, Out<i64> to_begins, Out<i64> to_ends, Out<i32> counts, Out<i32> to_columns, \
              Out<T> to_values, Out<i64> used, i32 placed, Out<i32> more) { \
        spgemm_found<N, SLOTS, VALUES, T>(Rows{n, rows}, Factors{offsets, columns, begins, ends, right_columns}, left, right, \
                                          Rooms<T>{to_begins, to_ends, counts, to_columns, to_values, used, placed != 0}, more); \
    }
#define SPGEMM_KNOWN(N, SLOTS, T) \
    KERNEL_OF(4, spgemm_known_##N##_##T, i64 n, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
              In<i32> right_columns, In<T> left, In<T> right, In<i64> to, In<i32> to_columns, Out<T> to_values, i32 fill, Out<i32> more) { \
        spgemm_known<N, SLOTS, T>(Rows{n, rows}, Factors{offsets, columns, begins, ends, right_columns}, left, right, to, to_columns, \
                                  to_values, fill != 0, more); \
    }
FOR_TABLES(SPGEMM_FOUND, found, true, f64)
FOR_TABLES(SPGEMM_FOUND, found, true, f32)
FOR_TABLES(SPGEMM_KNOWN, f64)
FOR_TABLES(SPGEMM_KNOWN, f32)
// The type of values that are not there is of no account.
FOR_TABLES(SPGEMM_FOUND, pattern, false, f32)
