// Smoothed prolongators, P = (I + factor D^-1 A) P_0: numeric phase. P_0 has one block in the row of each node that
// belongs to an aggregate, so a row of P has a block for each aggregate among the neighbours of its node. Products
// are added in the order of A's row, with the bits of src/host/smoothed.rs.
#include "numbers.h"
#include "scan.h"

constexpr i32 OUTSIDE = -1;

// The filtered matrix: weak couplings are dropped and added to the diagonal. N lanes for a row. Strong couplings are
// in the order of A's row.
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
    // A missing diagonal is stored last.
    i64 slot = strong_end + row;
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
        slot = here != 0 ? Lanes::shuffle(at, lowest_bit(here)) : slot;
        to += count_bits(kept);
        next += count_bits(Lanes::ballot(strong));
    }
    if (rank == 0) {
        to_columns[slot] = static_cast<i32>(row);
        to_values[slot] = diagonal;
    }
}

#define FILTER_ROWS(T, N) \
    KERNEL(filter_rows_##T##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i64> strong_offsets, \
           In<i32> strong_columns, Out<i64> to_offsets, Out<i32> to_columns, Out<T> to_values) { \
        filter_rows<T, N>(rows, offsets, columns, values, strong_offsets, strong_columns, to_offsets, to_columns, to_values); \
    }
#define FILTER_ROWS_(T) FILTER_ROWS(T, 8) FILTER_ROWS(T, 32)
FOR_SETUP(FILTER_ROWS_)

// Longest row of A whose aggregates 32 lanes hold in shared memory; the same as in `src/gpu/setup/smoothed.rs`.
constexpr int MAX_SHARED_ROW = 192;

// The count of a row that exceeds a thread's capacity.
constexpr i32 WIDE = -1;

// Per-thread accumulator: at most CAP aggregates of a row's neighbours in registers, in the order in which they
// occur.
template <int CAP> struct RegisterAccumulator {
    i32 of[CAP];
    int count;
    bool fits;
    DEVICE void clear() {
        UNROLL
        for (int d = 0; d < CAP; ++d) {
            of[d] = OUTSIDE;
        }
        count = 0;
        fits = true;
    }
    // The slot of an aggregate, which is appended if it is new; CAP if the accumulator is full.
    DEVICE int slot_of(i32 aggregate) {
        int at = CAP;
        UNROLL
        for (int d = 0; d < CAP; ++d) {
            at = of[d] == aggregate ? d : at;
        }
        if (at == CAP) {
            UNROLL
            for (int d = 0; d < CAP; ++d) {
                of[d] = d == count ? aggregate : of[d];
            }
            fits = fits && count < CAP;
            at = count < CAP ? count : CAP;
            count += count < CAP ? 1 : 0;
        }
        return at;
    }
    // The rank of an aggregate in ascending order.
    DEVICE int before(i32 aggregate) const {
        int smaller = 0;
        UNROLL
        for (int d = 0; d < CAP; ++d) {
            smaller += d < count && of[d] < aggregate ? 1 : 0;
        }
        return smaller;
    }
};

// Entries whose loads a thread issues together.
constexpr int SMOOTHED_BATCH = 8;

// Loads the aggregates of the next neighbours, from position k on.
DEVICE void load_aggregates(i64 k, i64 end, const In<i32> &columns, const In<i32> &aggregates, i32 *to) {
    i32 column[SMOOTHED_BATCH];
    UNROLL
    for (int b = 0; b < SMOOTHED_BATCH; ++b) {
        column[b] = k + b < end ? columns[k + b] : OUTSIDE;
    }
    UNROLL
    for (int b = 0; b < SMOOTHED_BATCH; ++b) {
        to[b] = column[b] != OUTSIDE ? aggregates[column[b]] : OUTSIDE;
    }
}

// The number of aggregates in each row of P, or WIDE if there are more than CAP. A thread for each row.
template <int CAP>
DEVICE void smoothed_count(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<i32> &aggregates,
                           const Out<i32> &counts) {
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    RegisterAccumulator<CAP> accumulator;
    accumulator.clear();
    const i64 end = offsets[row + 1];
    for (i64 k = offsets[row]; k < end && accumulator.fits; k += SMOOTHED_BATCH) {
        i32 g[SMOOTHED_BATCH];
        load_aggregates(k, end, columns, aggregates, g);
        UNROLL
        for (int b = 0; b < SMOOTHED_BATCH; ++b) {
            if (g[b] != OUTSIDE) {
                accumulator.slot_of(g[b]);
            }
        }
    }
    counts[row] = accumulator.fits ? accumulator.count : WIDE;
}

// Accumulator of 32 lanes: the aggregates of a row's neighbours in shared memory, in the order in which they occur.
// All lanes of the group take part in every operation.
template <class List> struct GroupAccumulator {
    List &list;
    int start;
    int count;

    // The slot of this lane's aggregate. If it is new, the lane that leads those with the same aggregate appends it.
    DEVICE int slot_of(i32 aggregate, bool leads) {
        int at = -1;
        for (int d = 0; d < count; ++d) {
            at = list[start + d] == aggregate ? d : at;
        }
        const bool is_new = leads && at < 0;
        const u64 appended = Group<32>::ballot(is_new);
        // Lanes load four entries at a time, possibly beyond the end, so nothing is appended before all lanes have
        // loaded.
        Group<32>::barrier();
        if (is_new) {
            at = count + rank_among<32>(appended);
            list[start + at] = aggregate;
        }
        count += count_bits(appended);
        Group<32>::barrier();
        return at;
    }
};

// Whether this lane is the first of its group with its aggregate, and has one.
DEVICE bool leads_aggregate(i32 aggregate) {
    bool leads = aggregate != OUTSIDE;
    UNROLL
    for (int m = 0; m < 32; ++m) {
        const i32 other = Group<32>::shuffle(aggregate, m);
        leads = leads && (m >= Group<32>::rank() || other != aggregate);
    }
    return leads;
}

// Calls `work` with rank, slot and aggregate of the entries of an accumulator, in ascending order. Each lane handles
// some of them.
template <class List, class Work> DEVICE void each_ascending(const List &list, int start, int count, const Work &work) {
    // The trip count is uniform, so that all lanes reach the next barrier.
    for (int first = 0; first < count; first += 32) {
        const int d = first + Group<32>::rank();
        if (d < count) {
            const i32 mine = list[start + d];
            int before = 0;
            for (int other = 0; other < count; ++other) {
                before += list[start + other] < mine ? 1 : 0;
            }
            work(before, d, mine);
        }
    }
}

// Calls `work` for the rows of a group of 32 lanes: one row each, or with a `cap` those of 32 neighbouring rows that
// are wide.
template <class Wide, class Work> DEVICE void each_row_of_group(i64 rows, int cap, const Wide &is_wide, const Work &work) {
    const i64 group = global_index() / 32;
    if (cap == 0) {
        if (group < rows) {
            work(group);
        }
        return;
    }
    const i64 row = group * 32 + Group<32>::rank();
    for (u64 wide = Group<32>::ballot(row < rows && is_wide(row)); wide != 0; wide &= wide - 1) {
        work(group * 32 + lowest_bit(wide));
    }
}

// Rows of P that exceed a thread's capacity `cap`, by 32 lanes: the number of their aggregates, or without `counts`
// the aggregates. When counting, rows of A with too many entries go to the list `longs`, whose first element is its
// length.
KERNEL(smoothed_wide, i64 rows, i32 cap, In<i64> offsets, In<i32> columns, In<i32> aggregates, Out<i32> counts, Out<i32> longs,
       In<i64> to_offsets, Out<i32> to_columns) {
    using Lanes = Group<32>;
    SHARED(i32, list, BLOCK / 32 * MAX_SHARED_ROW);
    const int rank = Lanes::rank();
    const int start = thread_index() / 32 * MAX_SHARED_ROW;
    const bool counting = counts.len > 0;
    const auto is_wide = [&](i64 row) { return counting ? counts[row] == WIDE : to_offsets[row + 1] - to_offsets[row] > cap; };
    each_row_of_group(rows, cap, is_wide, [&](i64 row) {
        const i64 begin = offsets[row];
        const i64 end = offsets[row + 1];
        if (end - begin > MAX_SHARED_ROW) {
            if (counting && rank == 0) {
                longs[1 + atomic_add(longs[0], 1)] = static_cast<i32>(row);
            }
            return;
        }
        GroupAccumulator<decltype(list)> found{list, start, 0};
        for (i64 base = begin; base < end; base += 32) {
            const i64 k = base + rank;
            const i32 own = k < end ? aggregates[columns[k]] : OUTSIDE;
            const bool leads = leads_aggregate(own);
            if (counting && end - begin <= 32) {
                found.count = count_bits(Lanes::ballot(leads));
            } else {
                found.slot_of(own, leads);
            }
        }
        if (counting) {
            if (rank == 0) {
                counts[row] = found.count;
            }
        } else {
            const i64 to = to_offsets[row];
            each_ascending(list, start, found.count,
                           [&](int before, int, i32 aggregate) { to_columns[to + before] = aggregate; });
        }
        Lanes::barrier();
    });
}

// The same for long rows of A. A block of threads computes one row with a bitmap of `count` aggregates in `bits`,
// which is zero before and after.
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
                // An atomic read: a cached value could be old.
                u32 word = w < words ? atomic_or(bits[own + w], 0u) : 0;
                i64 set;
                i64 slot = to + block_sum_before(count_bits(word), set);
                for (; word != 0; word &= word - 1) {
                    to_columns[slot] = static_cast<i32>(w * 32 + lowest_bit(word));
                    ++slot;
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

// The numbers of entries of P and of long rows, for the host.
KERNEL(smoothed_total, i64 rows, In<i64> offsets, In<i32> longs, Out<i64> status) {
    if (global_index() == 0) {
        status[0] = offsets[rows];
        status[1] = longs[0];
    }
}

// P_0 and the smoothing factors.
template <class T> struct Smoothing {
    In<i32> aggregates;
    // The entry of each node; empty if it is the node's number.
    In<i64> entries;
    In<T> tentative;
    In<T> inverse;
    T factor;
    DEVICE i64 entry(i64 node) const { return entries.len > 0 ? entries[node] : node; }
};

// Rows of P with at most CAP aggregates, a thread for each: the columns, unless `to_columns` is empty, and with
// VALUES scalar values. A block collects them in shared memory and writes them contiguously.
template <class T, int CAP, bool VALUES>
DEVICE void smoothed_rows(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const Smoothing<T> &p, const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<T> &to_values) {
    SHARED(i32, made, BLOCK * CAP);
    SHARED(T, numbers, VALUES ? BLOCK * CAP : 1);
    const i64 row = global_index();
    const i64 first = block_index() * BLOCK;
    const i64 block_start = to_offsets[first];
    const i64 block_end = to_offsets[first + BLOCK < rows ? first + BLOCK : rows];
    UNROLL
    for (int d = 0; d < CAP; ++d) {
        made[d * BLOCK + thread_index()] = OUTSIDE;
    }
    barrier();
    const i64 to = row < rows ? to_offsets[row] : 0;
    if (row < rows && to_offsets[row + 1] - to <= CAP) {
        RegisterAccumulator<CAP> accumulator;
        accumulator.clear();
        T sum[CAP];
        UNROLL
        for (int d = 0; d < CAP; ++d) {
            sum[d] = 0;
        }
        const i64 end = offsets[row + 1];
        for (i64 k = offsets[row]; k < end; k += SMOOTHED_BATCH) {
            i32 node[SMOOTHED_BATCH];
            T term[SMOOTHED_BATCH];
            UNROLL
            for (int b = 0; b < SMOOTHED_BATCH; ++b) {
                node[b] = k + b < end ? columns[k + b] : OUTSIDE;
                if constexpr (VALUES) {
                    term[b] = k + b < end ? values[k + b] : T(0);
                }
            }
            i32 g[SMOOTHED_BATCH];
            UNROLL
            for (int b = 0; b < SMOOTHED_BATCH; ++b) {
                g[b] = node[b] != OUTSIDE ? p.aggregates[node[b]] : OUTSIDE;
                if constexpr (VALUES) {
                    const bool has = node[b] != OUTSIDE && (p.entries.len == 0 || g[b] != OUTSIDE);
                    term[b] = has ? times(term[b], p.tentative[p.entry(node[b])]) : T(0);
                }
            }
            UNROLL
            for (int b = 0; b < SMOOTHED_BATCH; ++b) {
                if (g[b] != OUTSIDE) {
                    const int at = accumulator.slot_of(g[b]);
                    UNROLL
                    for (int d = 0; d < CAP; ++d) {
                        if constexpr (VALUES) {
                            sum[d] = d == at ? sum[d] + term[b] : sum[d];
                        }
                    }
                }
            }
        }
        i32 own_aggregate = OUTSIDE;
        T own = 0;
        T scale = 0;
        if constexpr (VALUES) {
            own_aggregate = p.aggregates[row];
            own = own_aggregate != OUTSIDE ? p.tentative[p.entry(row)] : T(0);
            scale = times(p.factor, p.inverse[row]);
        }
        UNROLL
        for (int d = 0; d < CAP; ++d) {
            if (d < accumulator.count) {
                const i64 at = to + accumulator.before(accumulator.of[d]);
                const T scaled = times(sum[d], scale);
                const T v = accumulator.of[d] == own_aggregate ? scaled + own : scaled;
                if (at - block_start < BLOCK * CAP) {
                    made[at - block_start] = accumulator.of[d];
                    if constexpr (VALUES) {
                        numbers[at - block_start] = v;
                    }
                } else {
                    if (to_columns.len > 0) {
                        to_columns[at] = accumulator.of[d];
                    }
                    if constexpr (VALUES) {
                        to_values[at] = v;
                    }
                }
            }
        }
    }
    barrier();
    for (i64 e = thread_index(); e < block_end - block_start && e < BLOCK * CAP; e += BLOCK) {
        const i32 column = made[e];
        if (column != OUTSIDE) {
            if (to_columns.len > 0) {
                to_columns[block_start + e] = column;
            }
            if constexpr (VALUES) {
                to_values[block_start + e] = numbers[e];
            }
        }
    }
}

#define SMOOTHED_ROWS(T, CAP) \
    KERNEL(smoothed_rows_##T##_##CAP, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_rows<T, CAP, true>(rows, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
#define SMOOTHED_ROWS_(T) SMOOTHED_ROWS(T, 8) SMOOTHED_ROWS(T, 12)
FOR_SETUP(SMOOTHED_ROWS_)

#define SMOOTHED_PATTERN(CAP) \
    KERNEL(smoothed_count_##CAP, i64 rows, In<i64> offsets, In<i32> columns, In<i32> aggregates, Out<i32> counts) { \
        smoothed_count<CAP>(rows, offsets, columns, aggregates, counts); \
    } \
    KERNEL(smoothed_columns_##CAP, i64 rows, In<i64> offsets, In<i32> columns, In<i32> aggregates, In<i64> to_offsets, \
           Out<i32> to_columns) { \
        const Smoothing<f32> p{aggregates, In<i64>{nullptr, 0}, In<f32>{nullptr, 0}, In<f32>{nullptr, 0}, 0.0f}; \
        smoothed_rows<f32, CAP, false>(rows, offsets, columns, In<f32>{nullptr, 0}, p, to_offsets, to_columns, \
                                       Out<f32>{nullptr, 0}); \
    }
SMOOTHED_PATTERN(8)
SMOOTHED_PATTERN(12)

// Scalar P: rows that exceed a thread's capacity, by 32 lanes. Columns are written unless `to_columns` is empty.
template <class T>
DEVICE void smoothed_wide_rows(i64 rows, int cap, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                               const Smoothing<T> &p, const In<i64> &to_offsets, const Out<i32> &to_columns,
                               const Out<T> &to_values) {
    using Lanes = Group<32>;
    SHARED(i32, list, BLOCK / 32 * MAX_SHARED_ROW);
    SHARED(T, sums, BLOCK / 32 * MAX_SHARED_ROW);
    const int rank = Lanes::rank();
    const int start = thread_index() / 32 * MAX_SHARED_ROW;
    const auto is_wide = [&](i64 row) { return to_offsets[row + 1] - to_offsets[row] > cap; };
    each_row_of_group(rows, cap, is_wide, [&](i64 row) {
        const i64 begin = offsets[row];
        const i64 end = offsets[row + 1];
        if (end - begin > MAX_SHARED_ROW) {
            return;
        }
        const i32 own_aggregate = p.aggregates[row];
        const T own = own_aggregate != OUTSIDE ? p.tentative[p.entry(row)] : T(0);
        const T scale = times(p.factor, p.inverse[row]);
        const i64 to = to_offsets[row];
        GroupAccumulator<decltype(list)> found{list, start, 0};
        for (i64 base = begin; base < end; base += 32) {
            const i64 k = base + rank;
            i32 g = OUTSIDE;
            T term = 0;
            if (k < end) {
                const i64 node = columns.once(k);
                const T value = values.once(k);
                g = p.aggregates[node];
                term = g != OUTSIDE ? times(value, p.tentative[p.entry(node)]) : T(0);
            }
            const int before = found.count;
            const bool leads = leads_aggregate(g);
            const int slot = found.slot_of(g, leads);
            T sum = leads && slot < before ? sums[start + slot] : T(0);
            UNROLL
            for (int m = 0; m < 32; ++m) {
                const i32 other = Lanes::shuffle(g, m);
                const T theirs = Lanes::shuffle(term, m);
                sum = other == g ? sum + theirs : sum;
            }
            if (leads) {
                sums[start + slot] = sum;
            }
            Lanes::barrier();
        }
        each_ascending(list, start, found.count, [&](int before, int d, i32 aggregate) {
            const T scaled = times(sums[start + d], scale);
            if (to_columns.len > 0) {
                to_columns[to + before] = aggregate;
            }
            to_values[to + before] = aggregate == own_aggregate ? scaled + own : scaled;
        });
        Lanes::barrier();
    });
}

#define SMOOTHED_WIDE_ROWS(T) \
    KERNEL(smoothed_wide_rows_##T, i64 rows, i32 cap, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_wide_rows<T>(rows, cap, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
FOR_SETUP(SMOOTHED_WIDE_ROWS)

// Scalar P with known columns: rows of A with too many entries and rows of P with more than `cap` aggregates, a block
// of threads for each. Blocks search all rows for them.
template <class T>
DEVICE void smoothed_long(i64 rows, int cap, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const Smoothing<T> &p, const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    SHARED(i32, owners, BLOCK);
    SHARED(T, terms, BLOCK);
    SHARED(i32, longs, BLOCK);
    const int thread = thread_index();
    for (i64 first = block_index() * BLOCK; first < rows; first += block_count() * BLOCK) {
        const i64 candidate = first + thread;
        const bool is_long = candidate < rows && offsets[candidate + 1] - offsets[candidate] > MAX_SHARED_ROW &&
                             to_offsets[candidate + 1] - to_offsets[candidate] > cap;
        i64 total;
        const i64 before = block_sum_before(is_long ? 1 : 0, total);
        if (is_long) {
            longs[before] = thread;
        }
        barrier();
        for (i64 l = 0; l < total; ++l) {
            const i64 row = first + longs[l];
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
    KERNEL(smoothed_long_##T, i64 rows, i32 cap, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, In<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_long<T>(rows, cap, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
FOR_SETUP(SMOOTHED_LONG)

// Begins and ends of the rows of P_0 if its blocks are numbered like the nodes. Rows of nodes without aggregate are
// empty.
KERNEL(tentative_rows, i64 nodes, In<i32> aggregates, Out<i64> begins, Out<i64> ends) {
    const i64 node = global_index();
    if (node < nodes) {
        begins[node] = node;
        ends[node] = node + (aggregates[node] != OUTSIDE ? 1 : 0);
    }
}

// Values of blocks of A and P_0 that 32 lanes stage in shared memory at a time: those of 27 neighbours with three
// unknowns and six modes.
constexpr int STAGED_VALUES = 736;

// P of n x c blocks with known columns, for A of n x n blocks; ROWS and COLS are n and c if they are known at compile
// time. 32 lanes for a row of any length. A lane has the same elements of all blocks of a row, so it reads only what
// it has written.
template <class T, int ROWS, int COLS>
DEVICE void smoothed_blocks(i64 rows, int rows_of_block, int cols_of_block, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                            const Smoothing<T> &p, const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    using Lanes = Group<32>;
    // Elements of a block per lane; blocks have at most 64.
    constexpr int ELEMENTS_PER_LANE = ROWS > 0 ? (ROWS * COLS + 31) / 32 : 2;
    const int n = ROWS > 0 ? ROWS : rows_of_block;
    const int c = COLS > 0 ? COLS : cols_of_block;
    SHARED(T, stage, BLOCK / 32 * STAGED_VALUES);
    const i64 row = global_index() / 32;
    if (row >= rows) {
        return;
    }
    const int rank = Lanes::rank();
    const int square = n * n;
    const int width = n * c;
    const int capacity = STAGED_VALUES / (square + width) < 32 ? STAGED_VALUES / (square + width) : 32;
    const int of_a = thread_index() / 32 * STAGED_VALUES;
    const int of_p = of_a + capacity * square;
    const i64 begin = offsets[row];
    const i64 end = offsets[row + 1];
    const i64 to = to_offsets[row];
    const i64 to_end = to_offsets[row + 1];
    const i32 own = p.aggregates[row];
    const i32 first_columns = to + rank < to_end ? to_columns[to + rank] : OUTSIDE;
    int r[ELEMENTS_PER_LANE];
    int col[ELEMENTS_PER_LANE];
    UNROLL
    for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
        r[u] = (rank + 32 * u) / c;
        col[u] = (rank + 32 * u) % c;
    }
    // Turns a block of A P_0 into a block of P.
    const auto finish = [&](i64 block, bool is_own, const T *sums) {
        T products[ELEMENTS_PER_LANE];
        UNROLL
        for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
            products[u] = 0;
        }
        for (int d = 0; d < n; ++d) {
            UNROLL
            for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
                const int from = d * c + col[u];
                T factor = Lanes::shuffle(sums[0], from & 31);
                if constexpr (ELEMENTS_PER_LANE > 1) {
                    const T high = Lanes::shuffle(sums[1], from & 31);
                    factor = from < 32 ? factor : high;
                }
                const T d_inverse = rank + 32 * u < width ? p.inverse[(row * n + r[u]) * n + d] : T(0);
                products[u] += times(d_inverse, factor);
            }
        }
        UNROLL
        for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
            const int e = rank + 32 * u;
            if (e < width) {
                const T v = n == 1 ? times(sums[u], times(p.factor, p.inverse[row])) : times(p.factor, products[u]);
                to_values[block * width + e] = is_own ? v + p.tentative[p.entry(row) * width + e] : v;
            }
        }
    };
    const bool at_once = end - begin <= capacity;
    for (i64 e = to * width + rank; !at_once && e < to_end * width; e += 32) {
        to_values[e] = T(0);
    }
    Lanes::barrier();
    for (i64 base = begin; base < end; base += capacity) {
        const int count = end - base < capacity ? static_cast<int>(end - base) : capacity;
        const i64 node = rank < count ? columns[base + rank] : 0;
        const i32 g = rank < count ? p.aggregates[node] : OUTSIDE;
        const i64 entry = g != OUTSIDE ? p.entry(node) : 0;
        for (int e = rank; e < count * square; e += 32) {
            stage[of_a + e] = values.once(base * square + e);
        }
        for (int start = 0; start < count * width; start += 32) {
            const int e = start + rank;
            const int which = e / width;
            const i64 from = Lanes::shuffle(entry, which < 32 ? which : 0) * width;
            if (e < count * width && p.tentative.len > 0) {
                stage[of_p + e] = p.tentative[from + (e - which * width)];
            }
        }
        Lanes::barrier();
        for (u64 left = Lanes::ballot(g != OUTSIDE); left != 0;) {
            const i32 aggregate = Lanes::shuffle(g, lowest_bit(left));
            const u64 members = Lanes::ballot(g == aggregate);
            left &= ~members;
            const u64 near = Lanes::ballot(first_columns == aggregate);
            i64 block = near != 0 ? to + lowest_bit(near) : -1;
            for (i64 b = to + 32; block < 0; b += 32) {
                const u64 hit = Lanes::ballot(b + rank < to_end && to_columns[b + rank] == aggregate);
                block = hit != 0 ? b + lowest_bit(hit) : -1;
            }
            T sums[ELEMENTS_PER_LANE];
            UNROLL
            for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
                const int e = rank + 32 * u;
                sums[u] = at_once || e >= width ? T(0) : to_values[block * width + e];
            }
            for (u64 m = members; m != 0; m &= m - 1) {
                const int which = lowest_bit(m);
                UNROLL
                for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
                    if (rank + 32 * u < width) {
                        for (int d = 0; d < n; ++d) {
                            sums[u] += times(stage[of_a + which * square + r[u] * n + d],
                                             stage[of_p + which * width + d * c + col[u]]);
                        }
                    }
                }
            }
            if (at_once) {
                finish(block, aggregate == own, sums);
            } else {
                UNROLL
                for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
                    if (rank + 32 * u < width) {
                        to_values[block * width + rank + 32 * u] = sums[u];
                    }
                }
            }
        }
        Lanes::barrier();
    }
    for (i64 block = to; !at_once && block < to_end; ++block) {
        T sums[ELEMENTS_PER_LANE];
        UNROLL
        for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
            sums[u] = rank + 32 * u < width ? to_values[block * width + rank + 32 * u] : T(0);
        }
        finish(block, to_columns[block] == own, sums);
    }
}

#define SMOOTHED_BLOCKS(T, name, ROWS, COLS) \
    KERNEL_OF(ROWS > 0 ? 3 : 2, smoothed_blocks_##T##_##name, i64 rows, i32 n, i32 c, In<i64> offsets, In<i32> columns, In<T> values, \
              In<i32> aggregates, In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, \
              In<i32> to_columns, Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_blocks<T, ROWS, COLS>(rows, n, c, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
#define SMOOTHED_BLOCKS_(T) \
    SMOOTHED_BLOCKS(T, any, 0, 0) SMOOTHED_BLOCKS(T, 3x6, 3, 6) SMOOTHED_BLOCKS(T, 6x6, 6, 6)
FOR_SETUP(SMOOTHED_BLOCKS_)
