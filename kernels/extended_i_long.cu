// Rows of extended+i interpolation that exceed the accumulators of tiles: a block of threads for each; see
// src/host/extended_i.rs for the formula and the order of sums. Threads share the couplings of all neighbours of a
// row. Terms of an ordered sum are first written to shared memory in order; then one thread adds them, or each thread
// those of its own weights.
#include "extended_i.h"
#include "scan.h"

// Slots of an accumulator in shared memory; the same as in `src/gpu/setup/extended_i.rs`. Longer rows have an
// accumulator in global memory.
constexpr int SHARED_SLOTS = 2048;

// A hash accumulator for one row that a block of threads fills: open addressing, at most half full.
template <class T, class Keys, class Weights> struct BlockAccumulator {
    Keys keys;
    Weights weights;
    // The begin of the table, and its size, a power of two.
    i64 base;
    int slots;

    DEVICE i32 &key(int slot) const { return keys[base + slot]; }
    DEVICE T &weight(int slot) const { return weights[base + slot]; }
    DEVICE void clear() const {
        for (int slot = thread_index(); slot < slots; slot += BLOCK) {
            key(slot) = -1;
            weight(slot) = 0;
        }
        barrier();
    }
    DEVICE void insert(i32 c) const {
        for (int slot = first_slot(c, slots);; slot = (slot + 1) & (slots - 1)) {
            const i32 there = atomic_swap_if(key(slot), -1, c);
            if (there == -1 || there == c) {
                return;
            }
        }
    }
    // The slot of c, or -1, once all are inserted.
    DEVICE int find(i32 c) const {
        for (int slot = first_slot(c, slots);; slot = (slot + 1) & (slots - 1)) {
            const i32 there = key(slot);
            if (there == c || there == -1) {
                return there == c ? slot : -1;
            }
        }
    }
};
template <class T, class K, class W> DEVICE BlockAccumulator<T, K, W> block_accumulator(K keys, W weights, i64 base, int slots) {
    return BlockAccumulator<T, K, W>{keys, weights, base, slots};
}

// A strong fine neighbour k: the begin and length of its row, the number of its strong couplings, and the number of
// its first coupling among those of all neighbours in this step.
struct FineNeighbour {
    i64 from;
    i64 first;
    i32 k;
    i32 length;
    i32 strong;
};

// Shared memory: a neighbour and its share for each thread, terms of sums, and the sums of scans.
template <class T, class Neighbours, class Values, class Slots, class Sums> struct BlockScratch {
    Neighbours neighbours;
    Values shares;
    Values terms;
    Values others;
    Slots slots;
    Sums sums;

    // Publishes this thread's neighbour, which has `count` couplings. Returns the sum of the counts.
    DEVICE i64 publish(FineNeighbour neighbour, i64 count) {
        i64 total;
        neighbour.first = block_sum_before(sums, count, total);
        neighbours[thread_index()] = neighbour;
        barrier();
        return total;
    }
    // The neighbour that coupling number t belongs to.
    DEVICE int owner(i64 t) const {
        int low = 0;
        UNROLL
        for (int step = BLOCK / 2; step > 0; step /= 2) {
            low += neighbours[low + step].first <= t ? step : 0;
        }
        return low;
    }
    // The number of threads for which a predicate holds.
    DEVICE int count(bool predicate) {
        i64 total;
        block_sum_before(sums, predicate ? 1 : 0, total);
        return static_cast<int>(total);
    }
    // Adds the first `n` terms, one of each thread, in order to `sum`. All threads get the result.
    DEVICE T add_in_order(T sum, int n) const {
        barrier();
        for (int u = 0; u < n; ++u) {
            sum += terms[u];
        }
        barrier();
        return sum;
    }
};
template <class T, class N, class V, class S, class U> DEVICE BlockScratch<T, N, V, S, U> block_scratch(N neighbours, V shares, V terms, V others, S slots, U sums) {
    return BlockScratch<T, N, V, S, U>{neighbours, shares, terms, others, slots, sums};
}

DEVICE int at_most_block(i64 n) { return n < BLOCK ? static_cast<int>(n) : BLOCK; }

// Moves the entries of the first `count` slots for which `keep` holds to the front, in their order, and scales them.
// Returns their number.
template <class T, class M, class R, class Keep> DEVICE int compact_entries(const M &m, R &scratch, int count, T scale, const Keep &keep) {
    int kept = 0;
    for (int start = 0; start < count; start += BLOCK) {
        const int slot = start + thread_index();
        const i32 c = slot < count ? m.key(slot) : -1;
        const T w = c >= 0 ? m.weight(slot) * scale : 0;
        const bool stays = c >= 0 && keep(w, c);
        i64 total;
        const i64 before = block_sum_before(scratch.sums, stays ? 1 : 0, total);
        if (stays) {
            m.key(kept + static_cast<int>(before)) = c;
            m.weight(kept + static_cast<int>(before)) = w;
        }
        kept += static_cast<int>(total);
    }
    barrier();
    return kept;
}

// The largest of n entries; with `is_last` the next one after that of this size and column. n is not 0.
template <class T, class M, class R> DEVICE void next_largest(const M &m, R &scratch, int n, bool is_last, T &last_size, i32 &last_column) {
    constexpr int WARPS = BLOCK / WARP;
    T size = -1;
    i32 column = 0;
    for (int e = thread_index(); e < n; e += BLOCK) {
        const T other = size_of(m.weight(e));
        const i32 c = m.key(e);
        if ((!is_last || stays_before(last_size, last_column, other, c)) && stays_before(other, c, size, column)) {
            size = other;
            column = c;
        }
    }
    const auto better = [&](T other, i32 c) {
        if (stays_before(other, c, size, column)) {
            size = other;
            column = c;
        }
    };
    UNROLL
    for (int step = WARP / 2; step > 0; step /= 2) {
        const T other = Group<WARP>::shuffle(size, Group<WARP>::rank() ^ step);
        const i32 c = Group<WARP>::shuffle(column, Group<WARP>::rank() ^ step);
        better(other, c);
    }
    if (Group<WARP>::rank() == 0) {
        scratch.terms[thread_index() / WARP] = size;
        scratch.slots[thread_index() / WARP] = column;
    }
    barrier();
    UNROLL
    for (int w = 0; w < WARPS; ++w) {
        better(scratch.terms[w], scratch.slots[w]);
    }
    barrier();
    last_size = size;
    last_column = column;
}

// Sorts the first n entries by column with a bitonic sort. All comparisons ascend, so n need not be a power of two.
template <class T, class M> DEVICE void sort_entries(const M &m, int n) {
    const auto step = [&](int mask) {
        for (int e = thread_index(); e < n; e += BLOCK) {
            const int other = e ^ mask;
            if (other > e && other < n && m.key(other) < m.key(e)) {
                const i32 c = m.key(e);
                const T w = m.weight(e);
                m.key(e) = m.key(other);
                m.weight(e) = m.weight(other);
                m.key(other) = c;
                m.weight(other) = w;
            }
        }
        barrier();
    };
    for (int size = 2; size / 2 < n; size *= 2) {
        step(size - 1);
        for (int mask = size / 4; mask > 0; mask /= 2) {
            step(mask);
        }
    }
}

// Counts or writes the entries, times `scale`, truncated.
template <class T, class M, class R> DEVICE void write_long_row(const M &m, R &scratch, i64 row, T scale, T total, const Target<T> &p) {
    const int n = compact_entries(m, scratch, m.slots, scale, [](T w, i32) { return w != 0; });
    const bool limited = p.most > 0 && n > p.most;
    T size = 0;
    i32 column = 0;
    if (n > 0) {
        next_largest(m, scratch, n, false, size, column);
    }
    const T bound = times(p.factor, size);
    for (int picked = 1; limited && picked < p.most && size >= bound; ++picked) {
        next_largest(m, scratch, n, true, size, column);
    }
    const int kept = compact_entries(m, scratch, n, T(1), [&](T w, i32 c) {
        return size_of(w) >= bound && !(limited && stays_before(size, column, size_of(w), c));
    });
    if (thread_index() == 0 && p.counting()) {
        p.counts[row] = kept;
    }
    if (p.mode == ROW_COUNT) {
        return;
    }
    sort_entries<T>(m, kept);
    T sum = 0;
    for (int first = 0; kept < n && first < kept; first += BLOCK) {
        const int e = first + thread_index();
        scratch.terms[thread_index()] = e < kept ? m.weight(e) : 0;
        sum = scratch.add_in_order(sum, at_most_block(kept - first));
    }
    const T rescaled = kept < n ? row_scale(sum, total) : 1;
    const i64 start = p.start(row);
    for (int e = thread_index(); e < kept; e += BLOCK) {
        p.columns[start + e] = m.key(e);
        p.values[start + e] = kept < n ? m.weight(e) * rescaled : m.weight(e);
    }
}

// Writes the weights, times `scale`, of the columns of a known pattern, and rescales them if others are dropped.
template <class T, class M, class R> DEVICE void write_long_pattern(const M &m, R &scratch, i64 row, T scale, T total, const Target<T> &p) {
    const i64 start = p.start(row), n = p.offsets[row + 1] - start;
    i64 left = 0, all_left;
    for (int slot = thread_index(); slot < m.slots; slot += BLOCK) {
        left += m.key(slot) >= 0 && m.weight(slot) * scale != 0;
    }
    T sum = 0;
    for (i64 first = 0; first < n; first += BLOCK) {
        const i64 e = first + thread_index();
        T w = 0;
        if (e < n) {
            const int slot = m.find(p.columns[start + e]);
            w = slot < 0 ? 0 : m.weight(slot) * scale;
            p.values[start + e] = w;
        }
        left -= w != 0;
        scratch.terms[thread_index()] = w;
        sum = scratch.add_in_order(sum, at_most_block(n - first));
    }
    block_sum_before(scratch.sums, left, all_left);
    const T rescaled = row_scale(sum, total);
    for (i64 e = thread_index(); all_left > 0 && e < n; e += BLOCK) {
        p.values[start + e] = p.values[start + e] * rescaled;
    }
}

// Inserts Ĉ_i: the strong coarse neighbours of i and those of its strong fine neighbours.
template <class T, class M, class R> DEVICE void insert_coarse(const ExtendedI<T> &e, i64 begin, i64 length, const M &m, R &scratch) {
    const Couplings<T> &to = e.couplings;
    const int own = thread_index();
    const auto kind_of = [&](i64 at) { return at < length ? e.kinds[begin + at] : u8(0); };
    for (i64 start = 0; start < length; start += BLOCK) {
        const i64 at = start + own;
        const u8 kind = kind_of(at);
        const i32 j = (kind & ENTRY_STRONG) != 0 ? e.a.columns[begin + at] : 0;
        if (kind == (ENTRY_STRONG | ENTRY_COARSE)) {
            m.insert(e.a.number[j]);
        }
        if (e.extended) {
            const bool is_one = kind == ENTRY_STRONG;
            const int strong = is_one ? strong_of(to.heads[HEAD * static_cast<i64>(j)]) : 0;
            const i64 from = strong > 0 ? to.heads[HEAD * static_cast<i64>(j) + 2] : 0;
            const i64 total = scratch.publish(FineNeighbour{from, 0, j, 0, strong}, strong);
            for (i64 t = own; t < total; t += BLOCK) {
                const FineNeighbour n = scratch.neighbours[scratch.owner(t)];
                m.insert(to.columns_of(n.k, 0, static_cast<int>(t - n.first), n.from, 0));
            }
        }
    }
    barrier();
}

// The sum of the couplings of neighbour k of a thread to Ĉ_i, beside those that `others` has. Its `count` couplings begin
// at number `mine` of the `total` of all threads, strong ones first.
template <class T, class M, class R>
DEVICE T add_couplings(const ExtendedI<T> &e, const M &m, R &scratch, i64 total, i64 mine, int strong, i64 count, T others) {
    const Couplings<T> &to = e.couplings;
    const int own = thread_index();
    ThreadInterleavedSum<T, 1> of_strong, of_weak;
    const i64 first_asked = mine + (e.extended ? strong : 0);
    const bool asks = scratch.count(mine + count > first_asked) > 0;
    for (i64 first = 0; asks && first < total; first += BLOCK) {
        T v = 0;
        if (first + own < total) {
            const FineNeighbour n = scratch.neighbours[scratch.owner(first + own)];
            const i64 t = first + own - n.first;
            const int kind = t < n.strong ? 0 : 1, position = static_cast<int>(kind == 0 ? t : t - n.strong);
            if (kind == 1 || !e.extended) {
                const i64 end = n.from + n.length;
                v = m.find(to.columns_of(n.k, kind, position, n.from, end)) >= 0 ? to.values_of(n.k, kind, position, n.from, end) : 0;
            }
        }
        scratch.terms[own] = v;
        barrier();
        const i64 last = mine + count < first + BLOCK ? mine + count : first + BLOCK;
        for (i64 t = first_asked > first ? first_asked : first; t < last; ++t) {
            if (t < mine + strong) {
                of_strong.add_next(0, scratch.terms[t - first]);
            } else {
                of_weak.add_next(0, scratch.terms[t - first]);
            }
        }
        barrier();
    }
    others += of_strong.sum();
    others += of_weak.sum();
    return others;
}

// Adds the shares of all threads' neighbours in their `total` couplings to the weights of Ĉ_i, in order.
template <class T, class M, class R> DEVICE void distribute(const Couplings<T> &to, const M &m, R &scratch, i64 total) {
    const int own = thread_index();
    for (i64 first = 0; first < total; first += BLOCK) {
        int slot = -1;
        if (first + own < total) {
            const int owner = scratch.owner(first + own);
            const FineNeighbour n = scratch.neighbours[owner];
            const T its_share = scratch.shares[owner];
            if (its_share != 0) {
                const i64 t = first + own - n.first, end = n.from + n.length;
                const int kind = t < n.strong ? 0 : 1, position = static_cast<int>(kind == 0 ? t : t - n.strong);
                slot = m.find(to.columns_of(n.k, kind, position, n.from, end));
                scratch.terms[own] = times(its_share, to.values_of(n.k, kind, position, n.from, end));
            }
        }
        scratch.slots[own] = slot;
        barrier();
        for (int u = 0; u < at_most_block(total - first); ++u) {
            const int its_slot = scratch.slots[u];
            if (its_slot >= 0 && its_slot % BLOCK == own) {
                m.weight(its_slot) += scratch.terms[u];
            }
        }
        barrier();
    }
}

// Computes row `row` of the interpolation, that of unknown i.
template <class T, class M, class R> DEVICE void extended_i_long_row(const ExtendedI<T> &e, i64 i, i64 row, const M &m, R &scratch, const Target<T> &p) {
    const Couplings<T> &to = e.couplings;
    const int own = thread_index();
    const i64 begin = e.a.offsets[i], length = e.a.offsets[i + 1] - begin;
    const i64 diagonal_position = to.heads[HEAD * i + 3] >> 32;
    const auto kind_of = [&](i64 at) { return at < length ? e.kinds[begin + at] : u8(0); };
    m.clear();

    // Pass 1: Ĉ_i.
    insert_coarse(e, begin, length, m, scratch);

    // Pass 2: the row itself. Couplings to Ĉ_i are weights; other weak ones are added to the diagonal. Four threads
    // have one part of each sum.
    T diagonal = 0, coupled = 0, to_coarse = 0;
    for (i64 start = 0; start < length; start += BLOCK) {
        const i64 at = start + own;
        const u8 kind = kind_of(at);
        const T value = at < length ? e.a.values[begin + at] : 0;
        const int slot = (kind & ENTRY_COARSE) != 0 ? m.find(e.a.number[e.a.columns[begin + at]]) : -1;
        if (slot >= 0) {
            m.weight(slot) = value;
        }
        scratch.terms[own] = slot >= 0 || kind == ENTRY_STRONG ? 0 : value;
        scratch.others[own] = slot >= 0 ? value : 0;
        barrier();
        for (int u = own; own < 4 && u < BLOCK; u += 4) {
            diagonal += scratch.terms[u];
            coupled += scratch.others[u];
        }
        barrier();
    }

    // Pass 3: each a_ik is distributed over Ĉ_i and i in proportion to ā_kl.
    i64 seen = 0;
    for (i64 start = 0; start < length; start += BLOCK) {
        const i64 at = start + own;
        const bool is_one = kind_of(at) == ENTRY_STRONG;
        const i64 k = is_one ? e.a.columns[begin + at] : 0;
        const Pack<i64, 2> head = is_one ? to.heads.template pack<2>(HEAD * k) : Pack<i64, 2>{};
        const Pack<i64, 2> its_row = is_one ? to.heads.template pack<2>(HEAD * k + 2) : Pack<i64, 2>{};
        const int its_length = static_cast<i32>(its_row.of[1]), strong = strong_of(head.of[0]), weak = weak_of(head.of[0]);
        const i64 from = its_row.of[0], count = static_cast<i64>(strong) + weak;
        const i64 total = scratch.publish(FineNeighbour{from, 0, static_cast<i32>(k), its_length, strong}, count);
        const i64 mine = scratch.neighbours[own].first;
        i64 neighbours;
        const i64 number = block_sum_before(scratch.sums, is_one ? 1 : 0, neighbours);

        // The sum of k's couplings to Ĉ_i. All strong ones are to Ĉ_i, but not all to C_i.
        T others = is_one && e.extended ? As<T>::of(f64_of(head.of[1])) : 0;
        others = add_couplings(e, m, scratch, total, mine, strong, count, others);
        // Entry (k, i) is about as far from the diagonal as (i, k), on the other side.
        const i64 guess = from + (its_row.of[1] >> 32) + diagonal_position - at;
        const T back = is_one && e.extended ? e.back(from, from + its_length, (head.of[0] & 1) != 0, static_cast<i32>(i), guess) : 0;
        const T a_ik = is_one ? e.a.values[begin + at] : 0, sum = others + back, share = sum == 0 ? 0 : a_ik / sum;
        scratch.shares[own] = share;
        if (is_one) {
            scratch.terms[number] = sum == 0 ? a_ik : times(share, back);
            scratch.others[number] = times(share, others);
        }
        barrier();
        for (i64 u = (own - seen) & 3; own < 4 && u < neighbours; u += 4) {
            diagonal += scratch.terms[u];
        }
        for (i64 u = 0; own == WARP && u < neighbours; ++u) {
            to_coarse += scratch.others[u];
        }
        seen += neighbours;
        barrier();

        distribute(to, m, scratch, total);
    }
    if (own < 4) {
        scratch.terms[own] = diagonal;
        scratch.others[own] = coupled;
    }
    if (own == WARP) {
        scratch.shares[0] = to_coarse;
    }
    barrier();
    const auto four = [](const auto &of) { return (of[0] + of[2]) + (of[1] + of[3]); };
    const T pivot = four(scratch.terms), scale = pivot == 0 ? 0 : -1 / pivot, sum = (four(scratch.others) + scratch.shares[0]) * scale;
    barrier();
    if (p.mode == ROW_PATTERN) {
        write_long_pattern(m, scratch, row, scale, sum, p);
    } else {
        write_long_row(m, scratch, row, scale, sum, p);
    }
    barrier();
}

// The rows of `list` that fit an accumulator in shared memory with at most half of its slots; or the others, with
// accumulators of `slots` in global memory, one for each block. There are `cols` coarse unknowns.
template <class T, bool IS_SHARED, class M, class R>
DEVICE void extended_i_long(i64 cols, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const In<i32> &list, const M &m, R &scratch) {
    for (i64 at = block_index(); at < list.len; at += block_count()) {
        const i64 row = list[at], i = only.len > 0 ? only[row] : row;
        i64 own = 0, bound;
        for (i64 entry = e.a.offsets[i] + thread_index(); entry < e.a.offsets[i + 1]; entry += BLOCK) {
            own += e.columns_by(entry);
        }
        block_sum_before(scratch.sums, own, bound);
        if (((bound < cols ? bound : cols) <= SHARED_SLOTS / 2) == IS_SHARED) {
            extended_i_long_row(e, i, row, m, scratch, p);
        }
    }
}

#define EXTENDED_I_LONG_SCRATCH(T) \
    SHARED(FineNeighbour, neighbours, BLOCK); \
    SHARED(T, shares, BLOCK); \
    SHARED(T, terms, BLOCK); \
    SHARED(T, others, BLOCK); \
    SHARED(i32, slots_of, BLOCK); \
    SHARED(i64, sums, BLOCK / WARP); \
    auto scratch = block_scratch<T>(neighbours, shares, terms, others, slots_of, sums)
#define EXTENDED_I_LONG(T) \
    KERNEL(extended_i_long_##T, i64 cols, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), In<i32> list) { \
        SHARED(i32, keys, SHARED_SLOTS); \
        SHARED(T, weights, SHARED_SLOTS); \
        EXTENDED_I_LONG_SCRATCH(T); \
        const auto m = block_accumulator<T>(keys, weights, 0, SHARED_SLOTS); \
        extended_i_long<T, true>(cols, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), list, m, scratch); \
    } \
    KERNEL(extended_i_longest_##T, i64 cols, i32 slots, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), In<i32> list, \
           Out<i32> keys, Out<T> weights) { \
        EXTENDED_I_LONG_SCRATCH(T); \
        const auto m = block_accumulator<T>(keys, weights, block_index() * slots, slots); \
        extended_i_long<T, false>(cols, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), list, m, scratch); \
    }
EXTENDED_I_LONG(f64)
EXTENDED_I_LONG(f32)
