// Smoothed prolongators, P = (I + factor D^-1 A) P_0, where P_0 has one block in the row of each node that belongs to an aggregate: a row of P has
// a block for each aggregate among the neighbours of its node. What src/host/smoothed.rs does, with its bits: terms are added in the order of
// A's row.
#include "numbers.h"
#include "scan.h"

constexpr i32 OUTSIDE = -1;

// A without its weak couplings, which are added to the diagonal. N lanes for a row. The strong ones are in the order of A's row.
template <class T, int N>
DEVICE void filter_rows(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                        const In<i64> &strong_offsets, const In<i32> &strong_columns, const Out<i64> &to_offsets,
                        const Out<i32> &to_columns, const Out<T> &to_values) {
    using Lanes = Group<N>;
    const i64 row = global_index() / N;
    if (row > rows) {
        return;
    }
    const int rank = Lanes::rank();
    i64 next = strong_offsets[row];
    const i64 first = next + row;
    if (rank == 0) {
        to_offsets[row] = first;
    }
    if (row == rows) {
        return;
    }
    const i64 strong_end = strong_offsets[row + 1];
    const i64 end = offsets[row + 1];
    i64 to = first;
    // The last place is left where no diagonal is stored.
    i64 place = strong_end + row;
    T diagonal = 0;
    for (i64 base = offsets[row]; base < end; base += N) {
        const i64 k = base + rank;
        const i32 column = k < end ? columns.once(k) : OUTSIDE;
        const T value = k < end ? values.once(k) : T(0);
        const i32 candidate = next + rank < strong_end ? strong_columns[next + rank] : OUTSIDE;
        bool strong = false;
        UNROLL
        for (int m = 0; m < N; ++m) {
            const i32 other = Lanes::shuffle(candidate, m);
            strong = strong || other == column;
        }
        strong = strong && column != OUTSIDE;
        const bool own = column == row;
        const T weak = strong ? T(0) : value;
        UNROLL
        for (int m = 0; m < N; ++m) {
            diagonal += Lanes::shuffle(weak, m);
        }
        const u64 kept = Lanes::ballot(strong || own);
        const i64 at = to + rank_among<N>(kept);
        if (strong) {
            to_columns[at] = column;
            to_values[at] = value;
        }
        const u64 here = Lanes::ballot(own);
        place = here != 0 ? Lanes::shuffle(at, lowest_bit(here)) : place;
        to += count_bits(kept);
        next += count_bits(Lanes::ballot(strong));
    }
    if (rank == 0) {
        to_columns[place] = static_cast<i32>(row);
        to_values[place] = diagonal;
    }
}

#define FILTER_ROWS(T, N) \
    KERNEL(filter_rows_##T##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i64> strong_offsets, \
           In<i32> strong_columns, Out<i64> to_offsets, Out<i32> to_columns, Out<T> to_values) { \
        filter_rows<T, N>(rows, offsets, columns, values, strong_offsets, strong_columns, to_offsets, to_columns, to_values); \
    }
#define FILTER_ROWS_(T) FILTER_ROWS(T, 8) FILTER_ROWS(T, 32)
FOR_SETUP(FILTER_ROWS_)

// Most entries of a row of A whose aggregates N lanes keep in shared memory; `src/gpu/setup/smoothed.rs` has it, too.
template <int N> constexpr int KEPT = 6 * N;

// The aggregates of a row's neighbours, found by N lanes and kept in shared memory in the order in which they come. Every lane of the group takes
// part in everything.
template <int N, class List> struct Found {
    List &list;
    int start;
    int count;

    // The place of this lane's aggregate, which is appended where it is not found; lanes with the same one get the same place.
    DEVICE int place(i32 aggregate, bool leads) {
        int at = -1;
        for (int d = 0; d < count; ++d) {
            at = list[start + d] == aggregate ? d : at;
        }
        const bool is_new = leads && at < 0;
        const u64 appended = Group<N>::ballot(is_new);
        if (is_new) {
            at = count + rank_among<N>(appended);
            list[start + at] = aggregate;
        }
        count += count_bits(appended);
        Group<N>::barrier();
        return at;
    }
};

// Whether this lane is the first of its group with its aggregate, and has one.
template <int N> DEVICE bool leads_aggregate(i32 aggregate) {
    bool leads = aggregate != OUTSIDE;
    UNROLL
    for (int m = 0; m < N; ++m) {
        const i32 other = Group<N>::shuffle(aggregate, m);
        leads = leads && (m >= Group<N>::rank() || other != aggregate);
    }
    return leads;
}

// Calls `work` with the aggregates of a row that fits, ascending, and their places: each lane with some of them.
template <int N, class List, class Work> DEVICE void each_ascending(const List &list, int start, int count, const Work &work) {
    for (int d = Group<N>::rank(); d < count; d += N) {
        const i32 mine = list[start + d];
        int before = 0;
        for (int other = 0; other < count; ++other) {
            before += list[start + other] < mine ? 1 : 0;
        }
        work(before, d, mine);
    }
}

// Rows of P: the number of their aggregates, or where `counts` is empty the aggregates themselves. Rows of A that do not fit go to `longs`, after
// their number, when they are counted.
template <int N>
DEVICE void smoothed_pattern(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<i32> &aggregates,
                             const Out<i32> &counts, const Out<i32> &longs, const In<i64> &to_offsets,
                             const Out<i32> &to_columns) {
    using Lanes = Group<N>;
    SHARED(i32, list, BLOCK / N * KEPT<N>);
    const i64 row = global_index() / N;
    if (row >= rows) {
        return;
    }
    const int rank = Lanes::rank();
    const i64 begin = offsets[row];
    const i64 end = offsets[row + 1];
    const bool counting = counts.len > 0;
    if (end - begin > KEPT<N>) {
        if (counting && rank == 0) {
            longs[1 + atomic_add(longs[0], 1)] = static_cast<i32>(row);
        }
        return;
    }
    const int start = thread_index() / N * KEPT<N>;
    Found<N, decltype(list)> found{list, start, 0};
    for (i64 base = begin; base < end; base += N) {
        const i64 k = base + rank;
        const i32 own = k < end ? aggregates[columns[k]] : OUTSIDE;
        const bool leads = leads_aggregate<N>(own);
        if (counting && end - begin <= N) {
            found.count = count_bits(Lanes::ballot(leads));
        } else {
            found.place(own, leads);
        }
    }
    if (counting) {
        if (rank == 0) {
            counts[row] = found.count;
        }
        return;
    }
    const i64 to = to_offsets[row];
    each_ascending<N>(list, start, found.count, [&](int before, int, i32 aggregate) { to_columns[to + before] = aggregate; });
}

#define SMOOTHED_PATTERN(N) \
    KERNEL(smoothed_pattern_##N, i64 rows, In<i64> offsets, In<i32> columns, In<i32> aggregates, Out<i32> counts, \
           Out<i32> longs, In<i64> to_offsets, Out<i32> to_columns) { \
        smoothed_pattern<N>(rows, offsets, columns, aggregates, counts, longs, to_offsets, to_columns); \
    }
SMOOTHED_PATTERN(8)
SMOOTHED_PATTERN(32)

// The same for long rows, a block for each at a time, which has a bit for each of `count` aggregates in `bits`; all of them are zero before
// and after.
KERNEL(smoothed_pattern_long, i64 count, In<i64> offsets, In<i32> columns, In<i32> aggregates, In<i32> longs, Out<u32> bits,
       Out<i32> counts, In<i64> to_offsets, Out<i32> to_columns) {
    const i64 words = (count + 31) / 32;
    const i64 own = block_index() * words;
    for (i64 at = block_index(); at < longs[0]; at += block_count()) {
        const i64 row = longs[1 + at];
        const i64 begin = offsets[row];
        const i64 end = offsets[row + 1];
        i64 fresh = 0;
        for (i64 k = begin + thread_index(); k < end; k += BLOCK) {
            const i32 g = aggregates[columns[k]];
            if (g != OUTSIDE) {
                const u32 bit = 1u << (g % 32);
                fresh += (atomic_or(bits[own + g / 32], bit) & bit) == 0 ? 1 : 0;
            }
        }
        i64 total;
        block_sum_before(fresh, total);
        if (counts.len > 0) {
            if (thread_index() == 0) {
                counts[row] = static_cast<i32>(total);
            }
        } else {
            i64 to = to_offsets[row];
            for (i64 base = 0; base < words; base += BLOCK) {
                const i64 w = base + thread_index();
                // As others have changed it, not as a cache may still have it.
                u32 word = w < words ? atomic_or(bits[own + w], 0u) : 0;
                i64 set;
                i64 place = to + block_sum_before(count_bits(word), set);
                for (; word != 0; word &= word - 1) {
                    to_columns[place] = static_cast<i32>(w * 32 + lowest_bit(word));
                    ++place;
                }
                to += set;
            }
        }
        barrier();
        for (i64 k = begin + thread_index(); k < end; k += BLOCK) {
            const i32 g = aggregates[columns[k]];
            if (g != OUTSIDE) {
                bits[own + g / 32] = 0;
            }
        }
        barrier();
    }
}

// What the host wants to know: the entries of P, and how many rows are long.
KERNEL(smoothed_total, i64 rows, In<i64> offsets, In<i32> longs, Out<i64> status) {
    if (global_index() == 0) {
        status[0] = offsets[rows];
        status[1] = longs[0];
    }
}

// P_0, and what turns A P_0 into P.
template <class T> struct Smoothing {
    In<i32> aggregates;
    // The entry of each node, or empty where it is the node's number.
    In<i64> entries;
    In<T> tentative;
    In<T> inverse;
    T factor;
    DEVICE i64 entry(i64 node) const { return entries.len > 0 ? entries[node] : node; }
};

// Scalar P: N lanes for a row of A that fits. Columns are written, too, unless `to_columns` is empty.
template <class T, int N>
DEVICE void smoothed_rows(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const Smoothing<T> &p, const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<T> &to_values) {
    using Lanes = Group<N>;
    SHARED(i32, list, BLOCK / N * KEPT<N>);
    SHARED(T, sums, BLOCK / N * KEPT<N>);
    const i64 row = global_index() / N;
    if (row >= rows) {
        return;
    }
    const int rank = Lanes::rank();
    const i64 begin = offsets[row];
    const i64 end = offsets[row + 1];
    if (end - begin > KEPT<N>) {
        return;
    }
    const i32 own_aggregate = p.aggregates[row];
    const T own = own_aggregate != OUTSIDE ? p.tentative[p.entry(row)] : T(0);
    const T scale = times(p.factor, p.inverse[row]);
    const i64 to = to_offsets[row];
    const auto put = [&](int place, i32 aggregate, T sum) {
        const T scaled = times(sum, scale);
        if (to_columns.len > 0) {
            to_columns[to + place] = aggregate;
        }
        to_values[to + place] = aggregate == own_aggregate ? scaled + own : scaled;
    };
    const int start = thread_index() / N * KEPT<N>;
    Found<N, decltype(list)> found{list, start, 0};
    for (i64 base = begin; base < end; base += N) {
        const i64 k = base + rank;
        i32 g = OUTSIDE;
        T term = 0;
        if (k < end) {
            const i64 node = columns.once(k);
            const T value = values.once(k);
            g = p.aggregates[node];
            term = g != OUTSIDE ? times(value, p.tentative[p.entry(node)]) : T(0);
        }
        bool leads = g != OUTSIDE;
        T sum = 0;
        int place = 0;
        if (end - begin <= N) {
            UNROLL
            for (int m = 0; m < N; ++m) {
                const i32 other = Lanes::shuffle(g, m);
                const T theirs = Lanes::shuffle(term, m);
                leads = leads && (m >= rank || other != g);
                sum = other == g ? sum + theirs : sum;
            }
            for (u64 leaders = Lanes::ballot(leads); leaders != 0; leaders &= leaders - 1) {
                const i32 other = Lanes::shuffle(g, lowest_bit(leaders));
                place += other < g ? 1 : 0;
            }
            if (leads) {
                put(place, g, sum);
            }
            return;
        }
        const int before = found.count;
        leads = leads_aggregate<N>(g);
        place = found.place(g, leads);
        sum = leads && place < before ? sums[start + place] : T(0);
        UNROLL
        for (int m = 0; m < N; ++m) {
            const i32 other = Lanes::shuffle(g, m);
            const T theirs = Lanes::shuffle(term, m);
            sum = other == g ? sum + theirs : sum;
        }
        if (leads) {
            sums[start + place] = sum;
        }
        Lanes::barrier();
    }
    each_ascending<N>(list, start, found.count,
                      [&](int before, int d, i32 aggregate) { put(before, aggregate, sums[start + d]); });
}

#define SMOOTHED_ROWS(T, N) \
    KERNEL(smoothed_rows_##T##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_rows<T, N>(rows, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
#define SMOOTHED_ROWS_(T) SMOOTHED_ROWS(T, 8) SMOOTHED_ROWS(T, 32)
FOR_SETUP(SMOOTHED_ROWS_)

// Scalar P whose columns are known, for rows of A with more than `fits` entries: a block for each. Blocks look for them among all rows.
template <class T>
DEVICE void smoothed_long(i64 rows, int fits, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const Smoothing<T> &p, const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    SHARED(i32, owners, BLOCK);
    SHARED(T, terms, BLOCK);
    SHARED(u32, is_long, BLOCK / 32);
    const int thread = thread_index();
    for (i64 first = block_index() * BLOCK; first < rows; first += block_count() * BLOCK) {
        if (thread < BLOCK / 32) {
            is_long[thread] = 0;
        }
        barrier();
        if (first + thread < rows && offsets[first + thread + 1] - offsets[first + thread] > fits) {
            atomic_or(is_long[thread / 32], 1u << (thread % 32));
        }
        barrier();
        for (int r = 0; r < BLOCK && first + r < rows; ++r) {
            if ((is_long[r / 32] >> (r % 32) & 1) == 0) {
                continue;
            }
            const i64 row = first + r;
            const i64 to = to_offsets[row];
            const i64 to_end = to_offsets[row + 1];
            for (i64 e = to + thread; e < to_end; e += BLOCK) {
                to_values[e] = T(0);
            }
            barrier();
            for (i64 base = offsets[row]; base < offsets[row + 1]; base += BLOCK) {
                const i64 k = base + thread;
                const i64 node = k < offsets[row + 1] ? columns[k] : 0;
                const i32 g = k < offsets[row + 1] ? p.aggregates[node] : OUTSIDE;
                owners[thread] = g;
                terms[thread] = g != OUTSIDE ? times(values[k], p.tentative[p.entry(node)]) : T(0);
                barrier();
                bool leads = g != OUTSIDE;
                for (int m = 0; m < thread && leads; ++m) {
                    leads = owners[m] != g;
                }
                if (leads) {
                    i64 low = to;
                    for (i64 high = to_end; high - low > 1;) {
                        const i64 middle = (low + high) / 2;
                        (to_columns[middle] <= g ? low : high) = middle;
                    }
                    T sum = to_values[low];
                    for (int m = thread; m < BLOCK; ++m) {
                        sum = owners[m] == g ? sum + terms[m] : sum;
                    }
                    to_values[low] = sum;
                }
                barrier();
            }
            const T scale = times(p.factor, p.inverse[row]);
            const i32 own = p.aggregates[row];
            for (i64 e = to + thread; e < to_end; e += BLOCK) {
                const T scaled = times(to_values[e], scale);
                to_values[e] = to_columns[e] == own ? scaled + p.tentative[p.entry(row)] : scaled;
            }
            barrier();
        }
        barrier();
    }
}

#define SMOOTHED_LONG(T) \
    KERNEL(smoothed_long_##T, i64 rows, i32 fits, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, In<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_long<T>(rows, fits, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
FOR_SETUP(SMOOTHED_LONG)

// Numbers of a block that each of 32 lanes has: blocks have at most 64.
constexpr int LANE_NUMBERS = 2;

// P of n x c blocks whose columns are known, for A of n x n blocks: 32 lanes for a row of any length. A lane has the same numbers of all blocks of
// a row, so that it alone reads what it has written.
template <class T>
DEVICE void smoothed_blocks(i64 rows, int n, int c, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                            const Smoothing<T> &p, const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    using Lanes = Group<32>;
    SHARED(T, tiles, BLOCK / 32 * 32 * LANE_NUMBERS);
    const i64 row = global_index() / 32;
    if (row >= rows) {
        return;
    }
    const int rank = Lanes::rank();
    const int tile = thread_index() / 32 * 32 * LANE_NUMBERS;
    const int width = n * c;
    const i64 begin = offsets[row];
    const i64 end = offsets[row + 1];
    const i64 to = to_offsets[row];
    const i64 to_end = to_offsets[row + 1];
    const i32 own = p.aggregates[row];
    int r[LANE_NUMBERS];
    int col[LANE_NUMBERS];
    UNROLL
    for (int u = 0; u < LANE_NUMBERS; ++u) {
        r[u] = (rank + 32 * u) / c;
        col[u] = (rank + 32 * u) % c;
    }
    // Makes a block of A P_0 that of P.
    const auto finish = [&](i64 block, const T *sums) {
        UNROLL
        for (int u = 0; u < LANE_NUMBERS; ++u) {
            tiles[tile + rank + 32 * u] = sums[u];
        }
        Lanes::barrier();
        UNROLL
        for (int u = 0; u < LANE_NUMBERS; ++u) {
            const int e = rank + 32 * u;
            if (e < width) {
                T v;
                if (n == 1) {
                    v = times(sums[u], times(p.factor, p.inverse[row]));
                } else {
                    T product = 0;
                    for (int d = 0; d < n; ++d) {
                        product += times(p.inverse[(row * n + r[u]) * n + d], tiles[tile + d * c + col[u]]);
                    }
                    v = times(p.factor, product);
                }
                to_values[block * width + e] = to_columns[block] == own ? v + p.tentative[p.entry(row) * width + e] : v;
            }
        }
        Lanes::barrier();
    };
    const bool at_once = end - begin <= 32;
    for (i64 e = to * width + rank; !at_once && e < to_end * width; e += 32) {
        to_values[e] = T(0);
    }
    Lanes::barrier();
    for (i64 base = begin; base < end; base += 32) {
        const i64 node = base + rank < end ? columns[base + rank] : 0;
        const i32 g = base + rank < end ? p.aggregates[node] : OUTSIDE;
        const i64 entry = g != OUTSIDE ? p.entry(node) : 0;
        for (u64 left = Lanes::ballot(g != OUTSIDE); left != 0;) {
            const i32 aggregate = Lanes::shuffle(g, lowest_bit(left));
            const u64 members = Lanes::ballot(g == aggregate);
            left &= ~members;
            i64 block = -1;
            for (i64 b = to; block < 0; b += 32) {
                const u64 hit = Lanes::ballot(b + rank < to_end && to_columns[b + rank] == aggregate);
                block = hit != 0 ? b + lowest_bit(hit) : -1;
            }
            T sums[LANE_NUMBERS];
            UNROLL
            for (int u = 0; u < LANE_NUMBERS; ++u) {
                const int e = rank + 32 * u;
                sums[u] = at_once || e >= width ? T(0) : to_values[block * width + e];
            }
            for (u64 m = members; m != 0; m &= m - 1) {
                const int which = lowest_bit(m);
                const i64 factor = Lanes::shuffle(entry, which) * width;
                const i64 block_of_a = (base + which) * n * n;
                UNROLL
                for (int u = 0; u < LANE_NUMBERS; ++u) {
                    if (rank + 32 * u < width) {
                        for (int d = 0; d < n; ++d) {
                            sums[u] += times(values[block_of_a + r[u] * n + d], p.tentative[factor + d * c + col[u]]);
                        }
                    }
                }
            }
            if (at_once) {
                finish(block, sums);
            } else {
                UNROLL
                for (int u = 0; u < LANE_NUMBERS; ++u) {
                    if (rank + 32 * u < width) {
                        to_values[block * width + rank + 32 * u] = sums[u];
                    }
                }
            }
        }
    }
    for (i64 block = to; !at_once && block < to_end; ++block) {
        T sums[LANE_NUMBERS];
        UNROLL
        for (int u = 0; u < LANE_NUMBERS; ++u) {
            sums[u] = rank + 32 * u < width ? to_values[block * width + rank + 32 * u] : T(0);
        }
        finish(block, sums);
    }
}

#define SMOOTHED_BLOCKS(T) \
    KERNEL(smoothed_blocks_##T, i64 rows, i32 n, i32 c, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, In<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_blocks<T>(rows, n, c, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
FOR_SETUP(SMOOTHED_BLOCKS)
