// Parallel modified independent set; see src/host/pmis.rs. The graph without its transpose is enough: of two
// undecided neighbours the one with the smaller weight is marked as beaten, whichever of them has the edge.
//
// The state of an unknown is one byte. Within a kernel it changes only between values with the same meaning there:
// while edges are visited, between undecided states; while unknowns are decided, from "not beaten" to coarse and from
// "beaten" to fine.
#include "numbers.h"
#include "scan.h"
#include "tile.h"

constexpr u8 PMIS_UNDECIDED = 0;
constexpr u8 PMIS_COARSE = 1;
constexpr u8 PMIS_FINE = 2;
// Beaten in this round: one value for odd and one for even rounds. An undecided unknown was beaten in the round
// before.
constexpr u8 PMIS_BEATEN = 3;

DEVICE bool pmis_is_open(u8 state) { return state == PMIS_UNDECIDED || state >= PMIS_BEATEN; }

// Longest row that one thread counts.
constexpr int PMIS_SHORT_ROW = 64;

// The number of rows that have each column. A thread for each row, because neighbouring rows often have neighbouring
// columns, whose atomics are combined. The threads of a block share the rest of long rows.
KERNEL(pmis_dependents, i64 rows, In<i64> offsets, In<i32> columns, Out<i32> dependents) {
    SHARED(i64, begins, BLOCK);
    SHARED(i64, ends, BLOCK);
    SHARED(i32, is_long, 1);
    if (thread_index() == 0) {
        is_long[0] = 0;
    }
    barrier();
    const i64 i = global_index();
    const i64 begin = i < rows ? offsets[i] : 0, end = i < rows ? offsets[i + 1] : 0;
    begins[thread_index()] = begin + PMIS_SHORT_ROW;
    ends[thread_index()] = end;
    if (end - begin > PMIS_SHORT_ROW) {
        is_long[0] = 1;
    }
    for (i64 k = begin; k < end && k < begin + PMIS_SHORT_ROW; ++k) {
        atomic_add(dependents[columns[k]], 1);
    }
    barrier();
    for (int row = 0; is_long[0] != 0 && row < BLOCK; ++row) {
        for (i64 k = begins[row] + thread_index(); k < ends[row]; k += BLOCK) {
            atomic_add(dependents[columns[k]], 1);
        }
    }
}

// Weights: the number of dependents plus a random part below one. An unknown without dependents is fine.
KERNEL(pmis_begin, i64 rows, i64 seed, In<i32> dependents, Out<u64> weights, Out<u8> state) {
    const i64 i = global_index();
    if (i < rows) {
        const u64 count = static_cast<u64>(dependents[i]);
        weights[i] = count << 40 | hash(static_cast<u64>(i), static_cast<u64>(seed)) >> 24;
        state[i] = count == 0 ? PMIS_FINE : PMIS_UNDECIDED;
    }
}

struct Pmis {
    In<i64> offsets;
    In<i32> columns;
    In<u64> weights;
    Out<u8> state;
};

// Marks the beaten ones among unknown i and its neighbours; i is -1 for tiles without one.
template <int N> DEVICE void pmis_mark_beaten(const Pmis &g, i64 i, u8 beaten) {
    const u64 own = i >= 0 ? g.weights[i] : 0;
    bool is_beaten = false;
    for (i64 k = i >= 0 ? g.offsets[i] + Tile<N>::rank() : 0; i >= 0 && k < g.offsets[i + 1]; k += N) {
        const i64 j = g.columns[k];
        if (pmis_is_open(g.state[j])) {
            const u64 other = g.weights[j];
            if (own > other || (own == other && i > j)) {
                g.state[j] = beaten;
            } else {
                is_beaten = true;
            }
        }
    }
    if (Tile<N>::ballot(is_beaten) != 0 && Tile<N>::rank() == 0) {
        g.state[i] = beaten;
    }
}

// Decides unknown i: one that is not beaten is coarse, one that depends on a coarse one is fine. Returns whether it
// is still undecided.
template <int N> DEVICE bool pmis_decide(const Pmis &g, i64 i, u8 beaten) {
    const bool is_beaten = i >= 0 && g.state[i] == beaten;
    bool covered = false;
    for (i64 k = is_beaten ? g.offsets[i] + Tile<N>::rank() : 0; is_beaten && k < g.offsets[i + 1] && !covered; k += N) {
        const u8 state = g.state[g.columns[k]];
        covered = state == PMIS_COARSE || (pmis_is_open(state) && state != beaten);
    }
    const bool fine = Tile<N>::ballot(covered) != 0;
    if (i >= 0 && Tile<N>::rank() == 0 && (fine || !is_beaten)) {
        g.state[i] = fine ? PMIS_FINE : PMIS_COARSE;
    }
    return is_beaten && !fine;
}

// First step of round `round`: the unknowns of `list`, whose number the round before left in `counts`; in round 0 all
// unknowns.
template <int N>
DEVICE void pmis_mark(i64 rows, i32 round, const Pmis &g, const In<i32> &list, const In<i32> &counts) {
    const i64 count = round == 0 ? rows : counts[round];
    for (i64 at = global_index() / N; Tile<N>::any(at < count); at += block_count() * (BLOCK / N)) {
        const i64 i = at >= count ? -1 : round == 0 ? at : list[at];
        pmis_mark_beaten<N>(g, i >= 0 && (round != 0 || g.state[i] != PMIS_FINE) ? i : -1, PMIS_BEATEN + round % 2);
    }
}

// Second step of a round. Unknowns that stay undecided go to the list of the next round.
template <int N>
DEVICE void pmis_decide(i64 rows, i32 round, const Pmis &g, const In<i32> &list, const Out<i32> &next, const Out<i32> &counts) {
    SHARED(i32, start, 1);
    const i64 count = round == 0 ? rows : counts[round];
    const i64 tiles = block_count() * (BLOCK / N);
    for (i64 first = block_index() * (BLOCK / N); first < count; first += tiles) {
        const i64 at = first + thread_index() / N;
        const i64 i = at >= count ? -1 : round == 0 ? at : list[at];
        const bool is_open = i >= 0 && (round != 0 || g.state[i] != PMIS_FINE);
        const bool stays = pmis_decide<N>(g, is_open ? i : -1, PMIS_BEATEN + round % 2) && Tile<N>::rank() == 0;
        i64 total;
        const i64 before = block_sum_before(stays, total);
        if (thread_index() == 0 && total > 0) {
            start[0] = atomic_add(counts[round + 1], static_cast<i32>(total));
        }
        barrier();
        if (stays) {
            next[start[0] + before] = static_cast<i32>(i);
        }
    }
}

// All remaining rounds in one block of threads, once at most `few` unknowns are undecided; counts[round] is their
// number.
KERNEL(pmis_remaining_rounds, i32 round, i32 few, In<i64> offsets, In<i32> columns, In<u64> weights, Out<u8> state, Out<i32> list, Out<i32> next,
       Out<i32> counts) {
    constexpr int N = 8;
    SHARED(i32, found, 1);
    const Pmis g{offsets, columns, weights, state};
    i64 count = counts[round];
    if (count > few) {
        return;
    }
    for (int pass = round; count > 0; ++pass) {
        const Out<i32> from = (pass - round) % 2 == 0 ? list : next;
        const Out<i32> to = (pass - round) % 2 == 0 ? next : list;
        barrier(); // the states of the round before are written
        for (i64 at = thread_index() / N; Tile<N>::any(at < count); at += BLOCK / N) {
            pmis_mark_beaten<N>(g, at < count ? from[at] : -1, PMIS_BEATEN + pass % 2);
        }
        if (thread_index() == 0) {
            found[0] = 0;
        }
        barrier();
        for (i64 at = thread_index() / N; Tile<N>::any(at < count); at += BLOCK / N) {
            const i32 i = at < count ? from[at] : -1;
            if (pmis_decide<N>(g, i, PMIS_BEATEN + pass % 2) && Tile<N>::rank() == 0) {
                to[atomic_add(found[0], 1)] = i;
            }
        }
        barrier();
        count = found[0];
    }
    if (thread_index() == 0) {
        counts[round] = 0;
    }
}

// As pmis_begin for own unknowns, the first of which has the global number `first`, behind `below` ghosts; undecided ones are listed.
KERNEL(pmis_begin_own, i64 own, i64 first, i64 below, i64 seed, In<i32> dependents, Out<u64> weights, Out<u8> state, Out<i32> list, Out<i32> count) {
    const i64 i = global_index();
    if (i < own) {
        const u64 found = static_cast<u64>(dependents[below + i]);
        weights[below + i] = found << 40 | hash(static_cast<u64>(first + i), static_cast<u64>(seed)) >> 24;
        state[below + i] = found == 0 ? PMIS_FINE : PMIS_UNDECIDED;
        if (found != 0) {
            list[atomic_add(count[0], 1)] = static_cast<i32>(below + i);
        }
    }
}

// Takes over what other ranks have found beaten in a round.
KERNEL(pmis_take_beaten, i64 n, i64 below, i32 round, In<i32> elements, In<u8> found, Out<u8> state) {
    const i64 i = global_index();
    const u8 beaten = PMIS_BEATEN + round % 2;
    if (i < n && found[i] == beaten) {
        state[below + elements[i]] = beaten;
    }
}

// 1 for coarse unknowns, 0 for all others.
KERNEL(pmis_end, i64 rows, Out<u8> state) {
    const i64 i = global_index();
    if (i < rows) {
        state[i] = state[i] == PMIS_COARSE;
    }
}

#define PMIS(N) \
    KERNEL(pmis_mark_##N, i64 rows, i32 round, In<i64> offsets, In<i32> columns, In<u64> weights, Out<u8> state, In<i32> list, \
           In<i32> counts) { \
        pmis_mark<N>(rows, round, Pmis{offsets, columns, weights, state}, list, counts); \
    } \
    KERNEL(pmis_decide_##N, i64 rows, i32 round, In<i64> offsets, In<i32> columns, In<u64> weights, Out<u8> state, In<i32> list, \
           Out<i32> next, Out<i32> counts) { \
        pmis_decide<N>(rows, round, Pmis{offsets, columns, weights, state}, list, next, counts); \
    }
PMIS(1)
PMIS(2)
PMIS(4)
PMIS(8)
PMIS(16)
PMIS(32)
