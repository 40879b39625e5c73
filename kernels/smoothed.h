// Common parts of smoothed prolongators, P = (I + factor D^-1 A) P_0. P_0 has one block in the row of each node that
// belongs to an aggregate, so a row of P has a block for each aggregate among the neighbours of its node.
#pragma once
#include "numbers.h"
#include "scan.h"

// The aggregate of a node that belongs to none.
constexpr i32 OUTSIDE = -1;

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
