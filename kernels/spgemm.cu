// Products of sparse matrices; see spgemm.h. Rows are sorted into bins by the size of the table that they need. The first pass counts the columns of each
// row of C, the second one computes them.
#include "spgemm.h"

// For each row how many terms it has, or the largest number if there are more. A group of `lanes` threads for each row.
KERNEL(spgemm_bounds, i64 rows, i32 lanes, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, Out<i32> bounds) {
    const i64 row = global_index() / lanes;
    const int lane = thread_index() & (lanes - 1);
    i64 sum = 0;
    if (row < rows) {
        const i64 end = offsets[row + 1];
        for (i64 k = offsets[row] + lane; k < end; k += lanes) {
            const i64 j = columns[k];
            sum += ends[j] - begins[j];
        }
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
        sum += shuffle_xor(sum, mask);
    }
    if (row < rows && lane == 0) {
        bounds[row] = sum < 0x7fffffff ? static_cast<i32>(sum) : 0x7fffffff;
    }
}

// Bins of rows, by the most that a row of one may need; what needs more is in the last one. Rows need room for their terms where there is a bin for
// those, up to `most`, and else for their columns.
constexpr int BINS = 8;
struct Binning {
    In<i32> bounds;
    i32 most;
    In<i32> counts;
    i32 limits[BINS - 1];
    DEVICE int bin(i64 row) const {
        const i32 bound = bounds[row];
        const i32 size = bound <= most ? bound : counts.len > 0 ? most + counts[row] : bound;
        int bin = 0;
        UNROLL
        for (int b = 0; b < BINS - 1; ++b) {
            bin += size > limits[b] ? 1 : 0;
        }
        return bin;
    }
};

// How many rows each bin has, which start as zeros; behind them goes the last of `offsets`, if there are any, so that one copy tells both.
KERNEL(spgemm_count_bins, i64 rows, In<i32> bounds, i32 most, In<i32> counts, i32 l0, i32 l1, i32 l2, i32 l3, i32 l4, i32 l5, i32 l6,
       In<i64> offsets, Out<i64> bins) {
    SHARED(i32, found, BINS);
    if (thread_index() < BINS) {
        found[thread_index()] = 0;
    }
    barrier();
    const Binning binning{bounds, most, counts, {l0, l1, l2, l3, l4, l5, l6}};
    // Neighbours are mostly alike, and only changes of the bin are told to others.
    int bin = -1;
    int count = 0;
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 row = first_element() + e * BLOCK;
        if (row < rows) {
            const int next = binning.bin(row);
            if (next != bin && count > 0) {
                atomic_add(found[bin], count);
                count = 0;
            }
            bin = next;
            ++count;
        }
    }
    if (count > 0) {
        atomic_add(found[bin], count);
    }
    barrier();
    if (thread_index() < BINS && found[thread_index()] > 0) {
        atomic_add(bins[thread_index()], static_cast<i64>(found[thread_index()]));
    }
    if (global_index() == 0 && offsets.len > 0) {
        bins[BINS] = offsets[offsets.len - 1];
    }
}

// The rows of each bin, one bin behind the other, neighbours together. `next` starts with where each bin begins.
KERNEL(spgemm_list_bins, i64 rows, In<i32> bounds, i32 most, In<i32> counts, i32 l0, i32 l1, i32 l2, i32 l3, i32 l4, i32 l5, i32 l6,
       i32 present, Out<i32> next, Out<i32> list) {
    SHARED(i64, sums, BLOCK / WARP);
    SHARED(i32, reserved, 1);
    const Binning binning{bounds, most, counts, {l0, l1, l2, l3, l4, l5, l6}};
    const i64 row = global_index();
    const int own = row < rows ? binning.bin(row) : -1;
    for (int b = 0; b < BINS; ++b) {
        if ((present >> b & 1) == 0) {
            continue;
        }
        i64 total;
        const i64 before = block_sum_before(sums, own == b ? 1 : 0, total);
        if (thread_index() == 0) {
            reserved[0] = total > 0 ? atomic_add(next[b], static_cast<i32>(total)) : 0;
        }
        barrier();
        if (own == b) {
            list[reserved[0] + before] = static_cast<i32>(row);
        }
    }
}

// Counts the columns of n rows of C: those of `rows`, or the first n where that is empty. Rows whose table is full go to `long_rows`, behind
// their number.
template <int N, int SLOTS>
DEVICE void spgemm_symbolic(i64 n, int lanes, const In<i32> &rows, const Factors &f, const Out<i32> &counts, const Out<i32> &long_rows) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(Four, keys, TEAMS *SLOTS / 4);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(i64, sums, BLOCK / WARP);
    const i64 team = global_index() / N;
    if (team >= n) {
        return;
    }
    const int lane = team_rank<N>();
    const int own = thread_index() - lane;
    const int first = thread_index() / N * SLOTS;
    for (int b = lane; b < SLOTS / 4; b += N) {
        keys[first / 4 + b] = Four{{EMPTY, EMPTY, EMPTY, EMPTY}};
    }
    const i64 row = rows.len > 0 ? rows[team] : team;
    const i64 start = f.offsets[row];
    const i64 entries = f.offsets[row + 1] - start;
    const int steps = N / lanes; // at once
    const int sub = lane & (lanes - 1);
    const int step = lane / lanes;
    int found = 0;
    bool full = false;
    for (i64 base = 0; base < entries; base += N) {
        const int count = entries - base < N ? static_cast<int>(entries - base) : N;
        team_barrier<N>();
        if (lane < count) {
            const i64 j = f.columns[start + base + lane];
            const i64 begin = f.begins[j];
            begins[own + lane] = begin;
            lengths[own + lane] = static_cast<i32>(f.ends[j] - begin);
        }
        team_barrier<N>();
        for (int s = 0; s < count; s += STEPS * steps) {
            i32 column[STEPS];
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                const int k = s + u * steps + step;
                column[u] = k < count && sub < lengths[own + k] ? f.right_columns[begins[own + k] + sub] : EMPTY;
            }
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                const int k = s + u * steps + step;
                if (column[u] == EMPTY || full) {
                    continue;
                }
                const i64 begin = begins[own + k];
                const int length = lengths[own + k];
                i32 c = column[u];
                for (int t = sub;;) {
                    found += put_column<SLOTS>(keys, first, c, full) ? 1 : 0;
                    t += lanes;
                    if (t >= length || full) {
                        break;
                    }
                    c = f.right_columns[begin + t];
                }
            }
        }
    }
    if constexpr (N == BLOCK) {
        if (team_any<N>(sums, full)) {
            if (lane == 0) {
                long_rows[1 + atomic_add(long_rows[0], 1)] = static_cast<i32>(row);
            }
            return;
        }
    }
    int total;
    team_sum_before<N>(sums, found, total);
    if (lane == 0) {
        counts[row] = total;
    }
}

template <int N, int SLOTS, int MODE, class T>
DEVICE void spgemm_numeric(i64 n, int lanes, const In<i32> &rows, const Factors &f, const In<T> &left, const In<T> &right,
                           const Result<T> &c) {
    constexpr int TEAMS = BLOCK / N;
    constexpr int FOURS = SLOTS / 4;
    SHARED(Four, keys, TEAMS *FOURS);
    SHARED(T, values, MODE == PATTERN ? 1 : TEAMS * SLOTS);
    SHARED(u16, slots, MODE == AS_FOUND ? 1 : TEAMS * SLOTS);
    SHARED(i64, begins, BLOCK);
    SHARED(T, factors, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(i64, sums, BLOCK / WARP);
    const i64 team = global_index() / N;
    if (team >= n) {
        return;
    }
    const int lane = team_rank<N>();
    const int own = thread_index() - lane;
    const int first = thread_index() / N * FOURS;
    const int first_slot = first * 4;
    for (int b = lane; b < FOURS; b += N) {
        keys[first + b] = Four{{EMPTY, EMPTY, EMPTY, EMPTY}};
    }
    if constexpr (MODE != PATTERN) {
        for (int s = lane; s < SLOTS; s += N) {
            values[first_slot + s] = 0;
        }
    }
    const i64 row = rows.len > 0 ? rows[team] : team;
    const i64 start = f.offsets[row];
    const i64 entries = f.offsets[row + 1] - start;
    const i64 to = c.begins[row];
    int count_of_row = 0;
    if constexpr (MODE == KNOWN) {
        count_of_row = static_cast<int>(c.begins[row + 1] - to);
        team_barrier<N>();
        for (int k = lane; k < count_of_row; k += N) {
            slots[first_slot + k] = static_cast<u16>(slot_of<SLOTS>(keys, first_slot, c.columns[to + k]));
        }
    }
    for (i64 base = 0; base < entries; base += N) {
        const int count = entries - base < N ? static_cast<int>(entries - base) : N;
        team_barrier<N>();
        int length = 0;
        if (lane < count) {
            const i64 j = f.columns[start + base + lane];
            if constexpr (MODE != PATTERN) {
                factors[own + lane] = left[start + base + lane];
            }
            const i64 begin = f.begins[j];
            begins[own + lane] = begin;
            length = static_cast<i32>(f.ends[j] - begin);
            lengths[own + lane] = length;
        }
        // Steps that are longer than their lanes come one after the other.
        const int width = lanes < N && team_any<N>(sums, length > lanes) ? N : lanes;
        const int steps = N / width;
        const int sub = lane & (width - 1);
        const int step = lane / width;
        team_barrier<N>();
        for (int s = 0; s < count; s += STEPS * steps) {
            i32 column[STEPS];
            T value[STEPS];
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                const int k = s + u * steps + step;
                const bool is_there = k < count && sub < lengths[own + k];
                const i64 at = is_there ? begins[own + k] + sub : 0;
                column[u] = is_there ? f.right_columns[at] : EMPTY;
                if constexpr (MODE != PATTERN) {
                    value[u] = is_there ? times(factors[own + k], right[at]) : T(0);
                }
            }
            int slot[STEPS];
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                slot[u] = column[u] == EMPTY ? 0 : first_slot + slot_of<SLOTS>(keys, first_slot, column[u]);
            }
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                for (int now = 0; MODE != PATTERN && now < steps; ++now) {
                    if (step == now && column[u] != EMPTY) {
                        values[slot[u]] = values[slot[u]] + value[u];
                    }
                    team_barrier<N>();
                }
                const int k = s + u * steps;
                if (steps == 1 && k < count && lengths[own + k] > N) {
                    for (int t = N + lane; t < lengths[own + k]; t += N) {
                        const i64 at = begins[own + k] + t;
                        const int more = first_slot + slot_of<SLOTS>(keys, first_slot, f.right_columns[at]);
                        if constexpr (MODE != PATTERN) {
                            values[more] = values[more] + times(factors[own + k], right[at]);
                        }
                    }
                    team_barrier<N>();
                }
            }
        }
    }
    team_barrier<N>();
    if constexpr (MODE == KNOWN) {
        for (int k = lane; k < count_of_row; k += N) {
            c.put(to + k, row, c.columns[to + k], values[first_slot + slots[first_slot + k]]);
        }
        return;
    }

    // Each lane has some slots, four by four.
    constexpr int OWN = (FOURS + N - 1) / N;
    Four here[OWN];
    int found = 0;
    UNROLL
    for (int b = 0; b < OWN; ++b) {
        here[b] = lane * OWN + b < FOURS ? keys[first + lane * OWN + b] : Four{{EMPTY, EMPTY, EMPTY, EMPTY}};
        UNROLL
        for (int i = 0; i < 4; ++i) {
            found += here[b].of[i] != EMPTY ? 1 : 0;
        }
    }
    int total;
    int before = team_sum_before<N>(sums, found, total);
    if constexpr (MODE == AS_FOUND) {
        UNROLL
        for (int b = 0; b < OWN; ++b) {
            UNROLL
            for (int i = 0; i < 4; ++i) {
                if (here[b].of[i] != EMPTY) {
                    c.columns[to + before] = here[b].of[i];
                    c.values[to + before] = values[first_slot + (lane * OWN + b) * 4 + i];
                    ++before;
                }
            }
        }
        if (lane == 0) {
            c.ends[row] = to + total;
        }
        return;
    }

    // The columns move to the front of the table, and the place of each is the number of smaller ones.
    team_barrier<N>();
    UNROLL
    for (int b = 0; b < OWN; ++b) {
        UNROLL
        for (int i = 0; i < 4; ++i) {
            if (here[b].of[i] != EMPTY) {
                keys[first + before / 4].of[before % 4] = here[b].of[i];
                slots[first_slot + before] = static_cast<u16>((lane * OWN + b) * 4 + i);
                ++before;
            }
        }
    }
    const int padded = (total + 3) / 4;
    if (lane < padded * 4 - total) {
        keys[first + padded - 1].of[(total + lane) % 4] = 0x7fffffff;
    }
    team_barrier<N>();
    constexpr int MINE = 4;
    for (int k = lane; k < total; k += MINE * N) {
        i32 mine[MINE];
        int place[MINE] = {0, 0, 0, 0};
        UNROLL
        for (int m = 0; m < MINE; ++m) {
            const int at = k + m * N;
            mine[m] = at < total ? keys[first + at / 4].of[at % 4] : 0;
        }
        for (int b = 0; b < padded; ++b) {
            const Four other = keys[first + b];
            UNROLL
            for (int m = 0; m < MINE; ++m) {
                UNROLL
                for (int i = 0; i < 4; ++i) {
                    place[m] += other.of[i] < mine[m] ? 1 : 0;
                }
            }
        }
        UNROLL
        for (int m = 0; m < MINE; ++m) {
            const int at = k + m * N;
            if (at < total) {
                c.columns[to + place[m]] = mine[m];
                if constexpr (MODE == SORTED) {
                    c.put(to + place[m], row, mine[m], values[first_slot + slots[first_slot + at]]);
                }
            }
        }
    }
}

#define SPGEMM_SYMBOLIC(N, SLOTS) \
    KERNEL(spgemm_symbolic_##N##_##SLOTS, i64 n, i32 lanes, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, \
           In<i64> ends, In<i32> right_columns, Out<i32> counts, Out<i32> long_rows) { \
        spgemm_symbolic<N, SLOTS>(n, lanes, rows, Factors{offsets, columns, begins, ends, right_columns}, counts, long_rows); \
    }
SPGEMM_SYMBOLIC(32, 1024)
SPGEMM_SYMBOLIC(256, 8192)

#define SPGEMM_NUMERIC(NAME, MODE, N, SLOTS, T) \
    KERNEL(spgemm_##NAME##_##N##_##SLOTS##_##T, i64 n, i32 lanes, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, \
           In<i64> ends, In<i32> right_columns, In<T> left, In<T> right, In<i64> to, Out<i64> to_ends, Out<i32> to_columns, \
           Out<T> to_values, i32 fill) { \
        spgemm_numeric<N, SLOTS, MODE, T>(n, lanes, rows, Factors{offsets, columns, begins, ends, right_columns}, left, right, \
                                          Result<T>{to, to_ends, to_columns, to_values, fill}); \
    }
#define SPGEMM_MODES(N, SLOTS, T) \
    SPGEMM_NUMERIC(sorted, SORTED, N, SLOTS, T) \
    SPGEMM_NUMERIC(known, KNOWN, N, SLOTS, T)
#define SPGEMM_TABLES(T) \
    SPGEMM_NUMERIC(as_found, AS_FOUND, 32, 384, T) \
    SPGEMM_NUMERIC(as_found, AS_FOUND, 256, 3072, T) \
    SPGEMM_MODES(32, 256, T) \
    SPGEMM_MODES(32, 384, T) \
    SPGEMM_MODES(256, 3072, T)
SPGEMM_TABLES(f64)
SPGEMM_TABLES(f32)

// The type of values that are not there is of no account.
#define SPGEMM_PATTERN(N, SLOTS) SPGEMM_NUMERIC(pattern, PATTERN, N, SLOTS, f32)
SPGEMM_PATTERN(32, 256)
SPGEMM_PATTERN(32, 384)
SPGEMM_PATTERN(256, 3072)
