// Aggregation from a distance-2 maximal independent set: as in src/host/mis2.rs, a kernel for each of its loops.
#include "numbers.h"

// Keys of decided unknowns.
constexpr u64 MIS2_OUT = 0;
constexpr u64 MIS2_IN = ~0ull;
constexpr i32 NO_AGGREGATE = -1;

DEVICE bool mis2_open(u64 key) { return key != MIS2_OUT && key != MIS2_IN; }

// Neighbours whose loads a lane issues together.
constexpr int MIS2_BATCH = 8;

// Calls `work` for each row of this group of N lanes.
template <int N, class Work> DEVICE void each_row(i64 n, const Work &work) {
    for (i64 i = global_index() / N; i < n; i += block_count() * (BLOCK / N)) {
        work(i);
    }
}

// The largest of `own` and the values of a row's neighbours; all lanes get it.
template <int N, class Values> DEVICE u64 largest_near(i64 start, i64 end, const In<i32> &columns, const Values &values, u64 own) {
    for (i64 k = start + Group<N>::rank(); k < end; k += MIS2_BATCH * N) {
        i32 column[MIS2_BATCH];
        UNROLL
        for (int b = 0; b < MIS2_BATCH; ++b) {
            column[b] = k + b * N < end ? columns[k + b * N] : -1;
        }
        UNROLL
        for (int b = 0; b < MIS2_BATCH; ++b) {
            const u64 value = column[b] >= 0 ? values[column[b]] : 0;
            own = value > own ? value : own;
        }
    }
    return group_max<N>(own);
}

// `alone` counts the unknowns without couplings.
KERNEL(mis2_keys, i64 n, i64 seed, In<i64> offsets, Out<u64> key, Out<i64> alone) {
    const i64 i = global_index();
    const bool coupled = i < n && offsets[i] < offsets[i + 1];
    if (i < n) {
        const u64 random = hash(static_cast<u64>(i), static_cast<u64>(seed)) >> 33;
        key[i] = coupled ? random << 32 | static_cast<u64>(i + 1) : MIS2_OUT;
    }
    const int without = count_bits(Group<WARP>::ballot(i < n && !coupled));
    if (without > 0 && Group<WARP>::rank() == 0) {
        atomic_add(alone[0], static_cast<i64>(without));
    }
}

// Rounds after this one look at lists of the rows that can still change; before, most rows can.
constexpr int MIS2_LAST_DENSE = 1;

// The rows of a round: all, or those of a list of the round before.
struct Mis2Rows {
    i64 count;
    bool listed;
    In<i32> from;
    DEVICE Mis2Rows(i64 n, int round, const Out<i64> &counts, const In<i32> &list)
        : count(round > MIS2_LAST_DENSE ? counts[round] : n), listed(round > MIS2_LAST_DENSE), from(list) {}
    DEVICE i64 operator[](i64 at) const { return listed ? from[at] : at; }
};

// Appends the rows that threads name to a list of `count` rows; their order in the list is any. All threads of the
// block take part.
DEVICE void append_rows(bool named, i64 row, const Out<i32> &list, i64 &count) {
    constexpr int WARPS = BLOCK / WARP;
    SHARED(i64, firsts, WARPS);
    const u64 those = Group<WARP>::ballot(named);
    barrier(); // an earlier use may still be read
    if (Group<WARP>::rank() == 0) {
        firsts[thread_index() / WARP] = count_bits(those);
    }
    barrier();
    if (thread_index() == 0) {
        i64 all = 0;
        for (int w = 0; w < WARPS; ++w) {
            const i64 own = firsts[w];
            firsts[w] = all;
            all += own;
        }
        const i64 first = all > 0 ? atomic_add(count, all) : 0;
        for (int w = 0; w < WARPS; ++w) {
            firsts[w] += first;
        }
    }
    barrier();
    if (named) {
        list[firsts[thread_index() / WARP] + rank_among<WARP>(those)] = static_cast<i32>(row);
    }
}

// First half of a round: the largest key within one edge, which is recomputed if that key is decided. open[round] tells
// whether the round has work; the first one always has. Rows whose largest key is undecided are listed for the next
// round.
template <int N>
DEVICE void mis2_near(i64 n, int round, const In<i64> &open, const Out<i64> &counts, const In<i32> &from, const Out<i32> &to,
                      const In<i64> &offsets, const In<i32> &columns, const In<u64> &key, const Out<u64> &near) {
    if (round > 0 && open[round] == 0) {
        return;
    }
    const Mis2Rows rows(n, round, counts, from);
    for (i64 base = block_index() * (BLOCK / N); base < rows.count; base += block_count() * (BLOCK / N)) {
        const i64 at = base + thread_index() / N;
        const bool is_row = at < rows.count;
        const i64 i = is_row ? rows[at] : 0;
        const u64 before = is_row && round > 0 ? near[i] : MIS2_OUT;
        bool stays = mis2_open(before);
        // The low half of a key is the number of its unknown, from 1 on.
        if (is_row && (round == 0 || (stays && key[static_cast<i64>(before & 0xffffffffull) - 1] != before))) {
            const u64 largest = largest_near<N>(offsets[i], offsets[i + 1], columns, key, key[i]);
            stays = mis2_open(largest);
            if (Group<N>::rank() == 0) {
                near[i] = largest;
            }
        }
        if (round >= MIS2_LAST_DENSE) {
            append_rows(stays && Group<N>::rank() == 0, i, to, counts[round + 1]);
        }
    }
}

// Second half: an unknown with the largest key within two edges is a root; one with a root in reach is not. Undecided
// ones are listed for the next round; before lists are used, open[round + 1] becomes 1 if there is one.
template <int N>
DEVICE void mis2_decide(i64 n, int round, const Out<i64> &open, const In<i32> &from, const Out<i32> &to, const In<i64> &offsets,
                        const In<i32> &columns, const In<u64> &near, const Out<u64> &key) {
    if (round > 0 && open[round] == 0) {
        return;
    }
    const Mis2Rows rows(n, round, open, from);
    bool left = false;
    for (i64 base = block_index() * (BLOCK / N); base < rows.count; base += block_count() * (BLOCK / N)) {
        const i64 at = base + thread_index() / N;
        const i64 i = at < rows.count ? rows[at] : 0;
        const u64 own = at < rows.count ? key[i] : MIS2_OUT;
        bool stays = false;
        if (mis2_open(own)) {
            const u64 largest = largest_near<N>(offsets[i], offsets[i + 1], columns, near, near[i]);
            stays = largest != MIS2_IN && largest != own;
            if (!stays && Group<N>::rank() == 0) {
                key[i] = largest == MIS2_IN ? MIS2_OUT : MIS2_IN;
            }
        }
        left = left || stays;
        if (round >= MIS2_LAST_DENSE) {
            append_rows(stays && Group<N>::rank() == 0, i, to, open[round + 1]);
        }
    }
    const u64 any = Group<WARP>::ballot(left);
    if (round < MIS2_LAST_DENSE && any != 0 && Group<WARP>::rank() == 0 && open[round + 1] == 0) {
        open[round + 1] = 1;
    }
}

// All rounds of a small graph, by one block of threads.
template <int N>
DEVICE void mis2_rounds(i64 n, const In<i64> &offsets, const In<i32> &columns, const Out<u64> &key, const Out<u64> &near) {
    constexpr i64 ROWS = BLOCK / N;
    const i64 first = thread_index() / N;
    const bool leads = Group<N>::rank() == 0;
    SHARED(i32, is_left, 1);
    for (bool is_first = true;; is_first = false) {
        for (i64 i = first; i < n; i += ROWS) {
            const u64 before = is_first ? MIS2_OUT : near[i];
            if (is_first || (mis2_open(before) && key[static_cast<i64>(before & 0xffffffffull) - 1] != before)) {
                const u64 largest = largest_near<N>(offsets[i], offsets[i + 1], columns, key, key[i]);
                if (leads) {
                    near[i] = largest;
                }
            }
        }
        if (thread_index() == 0) {
            is_left[0] = 0;
        }
        barrier();
        for (i64 i = first; i < n; i += ROWS) {
            const u64 own = key[i];
            if (!mis2_open(own)) {
                continue;
            }
            const u64 largest = largest_near<N>(offsets[i], offsets[i + 1], columns, near, near[i]);
            if (largest != MIS2_IN && largest != own) {
                is_left[0] = 1;
            } else if (leads) {
                key[i] = largest == MIS2_IN ? MIS2_OUT : MIS2_IN;
            }
        }
        barrier();
        const bool ends = is_left[0] == 0;
        barrier(); // before it is set again
        if (ends) {
            return;
        }
    }
}

// The same over ranks, with lists of the rows of none: keys have global numbers, own ones from `first` on, behind `below` ghosts.
constexpr int MIS2_LANES = 4;

KERNEL(mis2_own_keys, i64 own, i64 first, i64 below, i64 seed, In<i64> offsets, Out<u64> key) {
    const i64 i = global_index();
    if (i < own) {
        const u64 random = hash(static_cast<u64>(first + i), static_cast<u64>(seed)) >> 33;
        key[below + i] = offsets[below + i] < offsets[below + i + 1] ? random << 32 | static_cast<u64>(first + i + 1) : MIS2_OUT;
    }
}

// The largest key within one edge, of rows where that key has changed; all of them in the first round.
KERNEL(mis2_own_near, i64 own, i64 first, i64 below, i32 is_first, i32 count, In<i32> ghosts, In<i64> offsets, In<i32> columns, In<u64> key,
       Out<u64> near) {
    each_row<MIS2_LANES>(own, [&](i64 row) {
        const i64 i = below + row;
        const u64 before = near[i];
        bool is_changed = is_first != 0;
        if (!is_changed && mis2_open(before)) {
            const i64 at = static_cast<i64>(before & 0xffffffffull) - 1 - first;
            const i32 ghost = at >= 0 && at < own ? 0 : place_of(ghosts, count, static_cast<i32>(at + first));
            const i64 unknown = at >= 0 && at < own ? below + at : ghost < below ? ghost : ghost + own;
            is_changed = ghost < 0 || key[unknown] != before;
        }
        if (is_changed) {
            const u64 largest = largest_near<MIS2_LANES>(offsets[i], offsets[i + 1], columns, key, key[i]);
            if (Group<MIS2_LANES>::rank() == 0) {
                near[i] = largest;
            }
        }
    });
}

KERNEL(mis2_own_decide, i64 own, i64 below, In<i64> offsets, In<i32> columns, In<u64> near, Out<u64> key, Out<i32> left) {
    each_row<MIS2_LANES>(own, [&](i64 row) {
        const i64 i = below + row;
        const u64 before = key[i];
        if (mis2_open(before)) {
            const u64 largest = largest_near<MIS2_LANES>(offsets[i], offsets[i + 1], columns, near, near[i]);
            if (Group<MIS2_LANES>::rank() == 0) {
                if (largest == MIS2_IN || largest == before) {
                    key[i] = largest == MIS2_IN ? MIS2_OUT : MIS2_IN;
                } else {
                    left[0] = 1;
                }
            }
        }
    });
}

KERNEL(mis2_roots, i64 n, In<u64> key, Out<i32> roots) {
    const i64 i = global_index();
    if (i < n) {
        roots[i] = key[i] == MIS2_IN ? 1 : 0;
    }
}

// `total` gets the number of roots.
KERNEL(mis2_number, i64 n, In<u64> key, In<i64> before, Out<i32> aggregates, Out<i64> total) {
    const i64 i = global_index();
    if (i < n) {
        aggregates[i] = key[i] == MIS2_IN ? static_cast<i32>(before[i]) : NO_AGGREGATE;
    }
    if (i == 0) {
        total[0] = before[n];
    }
}

// An unknown without aggregate joins that of its first neighbour that has one. `left` becomes 1 if an unknown with
// couplings still has none.
template <int N>
DEVICE void mis2_join(i64 n, const In<i64> &offsets, const In<i32> &columns, const In<i32> &before, const Out<i32> &after,
                      const Out<i64> &left) {
    using Lanes = Group<N>;
    each_row<N>(n, [&](i64 i) {
        i32 own = before[i];
        if (own == NO_AGGREGATE) {
            const i64 start = offsets[i];
            const i64 end = offsets[i + 1];
            for (i64 base = start; base < end && own == NO_AGGREGATE; base += MIS2_BATCH * N) {
                i32 theirs[MIS2_BATCH];
                UNROLL
                for (int b = 0; b < MIS2_BATCH; ++b) {
                    const i64 k = base + b * N + Lanes::rank();
                    theirs[b] = k < end ? columns[k] : -1;
                }
                UNROLL
                for (int b = 0; b < MIS2_BATCH; ++b) {
                    theirs[b] = theirs[b] >= 0 ? before[theirs[b]] : NO_AGGREGATE;
                }
                // The first neighbour of each lane, as the complement of its position above its aggregate, so that
                // the maximum is the first of all.
                u64 first = 0;
                UNROLL
                for (int b = MIS2_BATCH; b-- > 0;) {
                    const u64 place = static_cast<u64>(b * N + Lanes::rank()) << 32;
                    first = theirs[b] != NO_AGGREGATE ? ~(place | static_cast<u32>(theirs[b])) : first;
                }
                first = group_max<N>(first);
                own = first != 0 ? static_cast<i32>(~first & 0xffffffffull) : own;
            }
            if (own == NO_AGGREGATE && start < end && Lanes::rank() == 0) {
                left[0] = 1;
            }
        }
        if (Lanes::rank() == 0) {
            after[i] = own;
        }
    });
}

#define MIS2(N) \
    KERNEL(mis2_near_##N, i64 n, i32 round, In<i64> open, Out<i64> counts, In<i32> from, Out<i32> to, In<i64> offsets, In<i32> columns, \
           In<u64> key, Out<u64> near) { \
        mis2_near<N>(n, round, open, counts, from, to, offsets, columns, key, near); \
    } \
    KERNEL(mis2_decide_##N, i64 n, i32 round, Out<i64> open, In<i32> from, Out<i32> to, In<i64> offsets, In<i32> columns, In<u64> near, \
           Out<u64> key) { \
        mis2_decide<N>(n, round, open, from, to, offsets, columns, near, key); \
    } \
    KERNEL(mis2_rounds_##N, i64 n, In<i64> offsets, In<i32> columns, Out<u64> key, Out<u64> near) { \
        mis2_rounds<N>(n, offsets, columns, key, near); \
    } \
    KERNEL(mis2_join_##N, i64 n, In<i64> offsets, In<i32> columns, In<i32> before, Out<i32> after, Out<i64> left) { \
        mis2_join<N>(n, offsets, columns, before, after, left); \
    }
MIS2(1) MIS2(4) MIS2(32)

// Flags the unknowns with couplings and without aggregate: they are counted, and then form aggregates of their own.
KERNEL(mis2_left, i64 n, In<i64> offsets, In<i32> aggregates, Out<i32> left) {
    const i64 i = global_index();
    if (i < n) {
        left[i] = aggregates[i] == NO_AGGREGATE && offsets[i] < offsets[i + 1] ? 1 : 0;
    }
}
KERNEL(mis2_alone, i64 n, i64 roots, In<i32> left, In<i64> before, Out<i32> aggregates) {
    const i64 i = global_index();
    if (i < n && left[i] != 0) {
        aggregates[i] = static_cast<i32>(roots + before[i]);
    }
}
