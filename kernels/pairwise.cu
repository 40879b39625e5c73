// Aggregation by pairwise matching: as in src/host/pairwise.rs, with the bits of its scores.
#include "numbers.h"

constexpr i32 UNMATCHED = -1;

// Lanes for a row of the matrix.
constexpr int PAIR_LANES = 8;

// Half the norms of the strong couplings, in their order, and the norm of the diagonal; blocks have the Frobenius
// norm.
template <class T>
DEVICE void pair_half_norms(i64 rows, int size, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                        const In<i64> &strong_offsets, const In<i32> &strong_columns, const Out<f64> &half_norms,
                        const Out<f64> &diagonal) {
    using Lanes = Group<PAIR_LANES>;
    const i64 row = global_index() / PAIR_LANES;
    if (row >= rows) {
        return;
    }
    const int rank = Lanes::rank();
    const auto norm = [&](i64 k) {
        f64 square = 0.0;
        for (int e = 0; e < size; ++e) {
            const f64 v = to_f64(values[k * size + e]);
            square += times(v, v);
        }
        return square_root(square);
    };
    i64 next = strong_offsets[row];
    const i64 strong_end = strong_offsets[row + 1];
    const i64 end = offsets[row + 1];
    i64 at = -1;
    for (i64 base = offsets[row]; base < end; base += PAIR_LANES) {
        const i32 column = base + rank < end ? columns[base + rank] : UNMATCHED;
        const i32 candidate = next + rank < strong_end ? strong_columns[next + rank] : UNMATCHED;
        bool strong = false;
        UNROLL
        for (int m = 0; m < PAIR_LANES; ++m) {
            const i32 other = Lanes::shuffle(candidate, m);
            strong = strong || other == column;
        }
        strong = strong && column != UNMATCHED;
        const u64 kept = Lanes::ballot(strong);
        if (strong) {
            half_norms[next + rank_among<PAIR_LANES>(kept)] = 0.5 * norm(base + rank);
        }
        const u64 own = Lanes::ballot(column == row);
        at = at < 0 && own != 0 ? base + lowest_bit(own) : at;
        next += count_bits(kept);
    }
    if (rank == 0) {
        diagonal[row] = at < 0 ? 0.0 : norm(at);
    }
}

#define PAIR_HALF_NORMS(T) \
    KERNEL(pair_half_norms_##T, i64 rows, i32 size, In<i64> offsets, In<i32> columns, In<T> values, In<i64> strong_offsets, \
           In<i32> strong_columns, Out<f64> half_norms, Out<f64> diagonal) { \
        pair_half_norms<T>(rows, size, offsets, columns, values, strong_offsets, strong_columns, half_norms, diagonal); \
    }
FOR_SETUP(PAIR_HALF_NORMS)

// Adds both directions of each coupling, for a graph that has both and whose rows ascend. A thread for each row.
// `other` becomes 1 if the graph is not so.
KERNEL(pair_both, i64 rows, In<i64> offsets, In<i32> columns, In<f64> half_norms, Out<i64> to_offsets, Out<i32> to_columns,
       Out<f64> to_values, Out<i64> other) {
    const i64 row = global_index();
    if (row > rows) {
        return;
    }
    const i64 begin = offsets[row];
    to_offsets[row] = begin;
    if (row == rows) {
        return;
    }
    const i64 end = offsets[row + 1];
    i32 before = -1;
    bool fits = true;
    for (i64 k = begin; k < end; ++k) {
        const i32 j = columns[k];
        fits = fits && j > before;
        before = j;
        // The position of this row among the neighbours of j.
        i64 low = offsets[j];
        const i64 high_end = offsets[j + 1];
        for (i64 high = high_end; high - low > 1;) {
            const i64 middle = (low + high) / 2;
            (columns[middle] <= row ? low : high) = middle;
        }
        const bool there = low < high_end && columns[low] == row;
        fits = fits && there;
        to_columns[k] = j;
        to_values[k] = half_norms[k] + (there ? half_norms[low] : 0.0);
    }
    if (!fits) {
        other[0] = 1;
    }
}

// A + B for rows with ascending columns, a thread for each row: the numbers of entries, or without `counts` the
// entries.
KERNEL(pair_add, i64 rows, In<i64> a_offsets, In<i32> a_columns, In<f64> a_values, In<i64> b_offsets, In<i32> b_columns,
       In<f64> b_values, Out<i32> counts, In<i64> offsets, Out<i32> columns, Out<f64> values) {
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    i64 k = a_offsets[row];
    i64 l = b_offsets[row];
    const i64 k_end = a_offsets[row + 1];
    const i64 l_end = b_offsets[row + 1];
    const bool counting = counts.len > 0;
    i64 at = counting ? 0 : offsets[row];
    for (; k < k_end || l < l_end; ++at) {
        const bool first = l == l_end || (k < k_end && a_columns[k] <= b_columns[l]);
        const bool second = k == k_end || (l < l_end && b_columns[l] <= a_columns[k]);
        if (!counting) {
            columns[at] = first ? a_columns[k] : b_columns[l];
            values[at] = first && second ? a_values[k] + b_values[l] : first ? a_values[k] : b_values[l];
        }
        k += first ? 1 : 0;
        l += second ? 1 : 0;
    }
    if (counting) {
        counts[row] = static_cast<i32>(at);
    }
}

// A coupling with its score; the best of all couplings is the same for both of its ends.
struct Coupling {
    i32 neighbour;
    u32 is_free;
    f32 score;
    u64 random;
    DEVICE bool better(const Coupling &other, i32 own) const {
        if (neighbour < 0 || other.neighbour < 0) {
            return other.neighbour < 0 && neighbour >= 0;
        }
        if (is_free != other.is_free) {
            return is_free > other.is_free;
        }
        if (score != other.score) {
            return score > other.score;
        }
        if (random != other.random) {
            return random > other.random;
        }
        const i32 low = own < neighbour ? own : neighbour;
        const i32 other_low = own < other.neighbour ? own : other.neighbour;
        return low != other_low ? low > other_low : neighbour + own - low > other.neighbour + own - other_low;
    }
};

DEVICE f32 score_of(f64 weight, f64 own, f64 other) {
    const f64 larger = own > other || other != other ? own : other;
    return larger > 0.0 ? to_f32(weight / larger) : 0.0f;
}

// Couplings whose loads a lane issues together.
constexpr int PAIR_BATCH = 4;

// Proposals: each unknown without aggregate chooses its best free neighbour; without free neighbours it joins the
// aggregate of its best neighbour. N lanes for each. `scored` is 0 in late rounds. open[round] tells whether the
// round has work; the first one always has.
template <int N>
DEVICE void pair_choose(i64 n, int round, int scored, u64 seed, const In<i64> &open, const In<i64> &offsets,
                        const In<i32> &columns, const In<f64> &weights, const In<f64> &diagonal, const In<i32> &roots,
                        const Out<i32> &offers, const Out<i32> &joins) {
    using Lanes = Group<N>;
    if (round > 0 && open[round] == 0) {
        return;
    }
    for (i64 i = global_index() / N; i < n; i += block_count() * (BLOCK / N)) {
        if (roots[i] != UNMATCHED) {
            continue;
        }
        const i32 own = static_cast<i32>(i);
        const i64 end = offsets[i + 1];
        Coupling best{UNMATCHED, 0, 0.0f, 0};
        for (i64 k = offsets[i] + Lanes::rank(); k < end; k += PAIR_BATCH * N) {
            i32 j[PAIR_BATCH];
            f64 weight[PAIR_BATCH];
            UNROLL
            for (int b = 0; b < PAIR_BATCH; ++b) {
                j[b] = k + b * N < end ? columns[k + b * N] : own;
                weight[b] = scored && k + b * N < end ? weights[k + b * N] : 0.0;
            }
            bool is_free[PAIR_BATCH];
            UNROLL
            for (int b = 0; b < PAIR_BATCH; ++b) {
                is_free[b] = roots[j[b]] == UNMATCHED;
            }
            UNROLL
            for (int b = 0; b < PAIR_BATCH; ++b) {
                if (j[b] != own) {
                    const u64 low = static_cast<u64>(own < j[b] ? own : j[b]);
                    const u64 high = static_cast<u64>(own < j[b] ? j[b] : own);
                    const f32 score = scored ? score_of(weight[b], diagonal[i], diagonal[j[b]]) : 0.0f;
                    const Coupling next{j[b], is_free[b] ? 1u : 0u, score, hash(low, hash(high, seed))};
                    best = next.better(best, own) ? next : best;
                }
            }
        }
        UNROLL
        for (int step = N / 2; step > 0; step /= 2) {
            const int from = Lanes::rank() ^ step;
            const Coupling other{Lanes::shuffle(best.neighbour, from), Lanes::shuffle(best.is_free, from),
                                 Lanes::shuffle(best.score, from), Lanes::shuffle(best.random, from)};
            best = other.better(best, own) ? other : best;
        }
        if (Lanes::rank() == 0) {
            const bool joining = best.neighbour >= 0 && best.is_free == 0;
            offers[i] = best.is_free != 0 ? best.neighbour : UNMATCHED;
            joins[i] = joining ? roots[best.neighbour] : UNMATCHED;
        }
    }
}

#define PAIR_CHOOSE(N) \
    KERNEL(pair_choose_##N, i64 n, i32 round, i32 scored, i64 seed, In<i64> open, In<i64> offsets, In<i32> columns, \
           In<f64> weights, In<f64> diagonal, In<i32> roots, Out<i32> offers, Out<i32> joins) { \
        pair_choose<N>(n, round, scored, static_cast<u64>(seed), open, offsets, columns, weights, diagonal, roots, offers, \
                       joins); \
    }
PAIR_CHOOSE(1) PAIR_CHOOSE(8)

// Two unknowns that chose each other form an aggregate, whose root is the first of them. open[round + 1] becomes 1 if
// an unknown is left.
KERNEL(pair_match, i64 n, i32 round, Out<i64> open, In<i32> offers, In<i32> joins, Out<i32> roots) {
    const i64 i = global_index();
    if (round > 0 && open[round] == 0) {
        return;
    }
    bool left = false;
    if (i < n && roots[i] == UNMATCHED) {
        const i32 j = offers[i];
        if (j != UNMATCHED) {
            left = offers[j] != i;
            if (!left) {
                roots[i] = j < i ? j : static_cast<i32>(i);
            }
        } else if (joins[i] != UNMATCHED) {
            roots[i] = joins[i];
        }
    }
    if (Group<WARP>::ballot(left) != 0 && Group<WARP>::rank() == 0 && open[round + 1] == 0) {
        open[round + 1] = 1;
    }
}

KERNEL(pair_begin, i64 n, Out<i32> roots) {
    const i64 i = global_index();
    if (i < n) {
        roots[i] = UNMATCHED;
    }
}

// Flags the roots, to be numbered. With `keep`, an unknown without couplings is an aggregate by itself once nothing
// is open. `alone` counts the unknowns of no aggregate.
KERNEL(pair_roots, i64 n, i32 keep, In<i64> open, Out<i32> roots, Out<i32> flags, Out<i64> alone) {
    const i64 i = global_index();
    bool without = false;
    if (i < n) {
        if (roots[i] == UNMATCHED && keep && open[0] == 0) {
            roots[i] = static_cast<i32>(i);
        }
        without = roots[i] == UNMATCHED;
        flags[i] = roots[i] == i ? 1 : 0;
    }
    const int count = count_bits(Group<WARP>::ballot(without));
    if (count > 0 && Group<WARP>::rank() == 0) {
        atomic_add(alone[0], static_cast<i64>(count));
    }
}

// `total` gets the number of aggregates.
KERNEL(pair_number, i64 n, In<i32> roots, In<i64> before, Out<i32> aggregates, Out<i64> total) {
    const i64 i = global_index();
    if (i < n) {
        aggregates[i] = roots[i] == UNMATCHED ? UNMATCHED : static_cast<i32>(before[roots[i]]);
    }
    if (i == 0) {
        total[0] = before[n];
    }
}

KERNEL(pair_compose, i64 n, In<i32> pass, Out<i32> aggregates) {
    const i64 i = global_index();
    if (i < n && aggregates[i] != UNMATCHED) {
        aggregates[i] = pass[aggregates[i]];
    }
}

// The sum of the diagonals of an aggregate.
KERNEL(pair_diagonals, i64 count, In<i64> starts, In<i32> members, In<f64> diagonal, Out<f64> sums) {
    const i64 g = global_index();
    if (g < count) {
        f64 sum = 0.0;
        for (i64 m = starts[g]; m < starts[g + 1]; ++m) {
            sum += diagonal[members[m]];
        }
        sums[g] = sum;
    }
}
