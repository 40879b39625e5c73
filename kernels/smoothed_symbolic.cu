// Symbolic phase of smoothed prolongators: the pattern of P; see smoothed.h.
#include "smoothed.h"

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

// Rows of P that exceed a thread's capacity `cap`, by 32 lanes: the number of their aggregates, or without `counts`
// the aggregates. When counting, rows of A with too many entries go to the list `longs`, whose first element is its
// length.
KERNEL(smoothed_pattern_wide, i64 rows, i32 cap, In<i64> offsets, In<i32> columns, In<i32> aggregates, Out<i32> counts, Out<i32> longs,
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

// Begins and ends of the rows of P_0 if its blocks are numbered like the nodes. Rows of nodes without aggregate are
// empty.
KERNEL(tentative_rows, i64 nodes, In<i32> aggregates, Out<i64> begins, Out<i64> ends) {
    const i64 node = global_index();
    if (node < nodes) {
        begins[node] = node;
        ends[node] = node + (aggregates[node] != OUTSIDE ? 1 : 0);
    }
}
