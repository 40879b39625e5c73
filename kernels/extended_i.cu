// Rows of extended+i interpolation; see src/host/extended_i.rs for the formula and the order of sums. A tile of N
// lanes computes a row with Ĉ_i in a hash accumulator. It goes through the strong fine neighbours one by one, and
// each lane takes one of a neighbour's couplings at a time. On levels with many short rows a tile is a single thread.
#include "extended_i.h"
#include "thread_accumulator.h"

// Four couplings of an unknown: each lane has every N-th, from its rank on.
template <class T, int N> struct FourCouplings {
    i32 columns[4 / N];
    T values[4 / N];

    // The number of coupling j of this lane.
    static DEVICE int number(int start, int j) { return start + Tile<N>::rank() + N * j; }

    // Loads four couplings from `start` on, of the `count` couplings of k of a kind.
    template <bool VALUES> DEVICE void load(const Couplings<T> &from, i64 k, int kind, int start, int count, i64 begin, i64 end) {
        if (start == 0 && kind < from.kinds) {
            const i64 at = from.packed(k, kind);
            if constexpr (N == 1) {
                const Pack<i32, 4> pack = from.packed_columns.template pack<4>(at);
                UNROLL
                for (int j = 0; j < 4; ++j) {
                    columns[j] = pack.of[j];
                }
                if (VALUES) {
                    const Pack<T, 2> low = from.packed_values.template pack<2>(at), high = from.packed_values.template pack<2>(at + 2);
                    values[0] = low.of[0];
                    values[1] = low.of[1];
                    values[2] = high.of[0];
                    values[3] = high.of[1];
                }
            } else {
                UNROLL
                for (int j = 0; j < 4 / N; ++j) {
                    columns[j] = from.packed_columns[at + number(0, j)];
                    values[j] = VALUES ? from.packed_values[at + number(0, j)] : 0;
                }
            }
            return;
        }
        UNROLL
        for (int j = 0; j < 4 / N; ++j) {
            const int t = number(start, j);
            const i64 at = kind == 0 ? begin + t : end - 1 - t;
            columns[j] = t < count ? from.columns[at] : COUPLING_NONE;
            values[j] = VALUES && t < count ? from.values[at] : 0;
        }
    }
};

// A queue of slots: those of the packed strong couplings of the first neighbours of a row, BITS for each neighbour.
template <int BITS> struct SlotQueue {
    static constexpr int LENGTH = 256 / BITS;
    u32 words[8];
    // Pushes `bits`, and pops the oldest ones.
    DEVICE u32 push(u32 bits) {
        const u32 out = words[7] >> (32 - BITS);
        UNROLL
        for (int k = 7; k > 0; --k) {
            words[k] = words[k] << BITS | words[k - 1] >> (32 - BITS);
        }
        words[0] = words[0] << BITS | bits;
        return out;
    }
};

// Calls visit(is_one, position) for the strong fine neighbours of each tile's row, one by one.
template <int N, class Visit> DEVICE void each_fine_neighbour(const In<u64> &words, i64 first, int length, const Visit &visit) {
    ROLLED
    for (int start = 0; Tile<N>::any(start < length); start += WORD) {
        ROLLED
        for (u64 rest = start < length ? words[first + start / WORD] : 0; Tile<N>::any(rest != 0); rest &= rest - 1) {
            visit(rest != 0, rest != 0 ? start + lowest_bit(rest) : 0);
        }
    }
}

// A row of the interpolation, that of unknown i, which a tile computes in three passes; tiles without a row have
// length 0. SINGLE_PASS requires that there are no weak couplings to coarse unknowns. Then all couplings are to Ĉ_i,
// which need not be found in a pass of its own. A row that has weak ones does not fit. The loops end early for a row
// that does not fit.
template <class T, int N, bool SINGLE_PASS, class M> struct RowPasses {
    static constexpr bool QUEUES_SLOTS = !SINGLE_PASS;
    static constexpr int BITS = QUEUES_SLOTS ? M::SLOT_BITS * (4 / N) : 16;
    const ExtendedI<T> &e;
    M &m;
    i64 i;
    i64 begin;
    int length;
    int diagonal_position;
    In<i32> columns;
    In<T> values;
    // Whether Ĉ_i fits into the accumulator.
    bool fits;
    SlotQueue<BITS> queue;
    int seen;
    ThreadInterleavedSum<T, N> diagonal, own_total;
    T to_coarse;
    // Strong fine neighbours so far.
    int number;

    DEVICE i64 words() const { return first_word(i, begin); }

    // Pass 1: the columns that strong fine neighbours add to Ĉ_i.
    DEVICE void find_columns() {
        const Couplings<T> &to = e.couplings;
        each_fine_neighbour<N>(e.fine, words(), length, [&](bool is_there, int position) {
            const bool is_one = is_there && fits;
            const i64 k = is_one ? columns[position] : 0;
            FourCouplings<T, N> its;
            int count = 0;
            u32 slots = 0;
            i64 from = 0;
            ROLLED
            for (int start = 0; start == 0 || Tile<N>::any(start < count); start += 4) {
                if (is_one && (start == 0 || start < count)) {
                    its.template load<false>(to, k, 0, start, count, from, 0);
                    UNROLL
                    for (int j = 0; j < 4 / N; ++j) {
                        if (its.columns[j] != COUPLING_NONE) {
                            const int slot = m.slot_of(its.columns[j], true);
                            fits = fits && slot >= 0;
                            slots |= start == 0 && slot >= 0 ? static_cast<u32>(slot) << j * M::SLOT_BITS : 0;
                        }
                    }
                }
                if (start == 0) {
                    // Few have more than four couplings; only these load their number.
                    const bool more = Tile<N>::ballot(is_one && its.columns[4 / N - 1] != COUPLING_NONE) >> (N - 1) != 0;
                    count = more ? strong_of(to.heads[HEAD * k]) : 0;
                    from = more ? to.heads[HEAD * k + 2] : 0;
                } else if (!fits) {
                    count = 0;
                }
            }
            if (QUEUES_SLOTS && is_one && seen < SlotQueue<BITS>::LENGTH) {
                queue.push(slots & ((1u << BITS % 32) - 1));
                ++seen;
            }
        });
        ROLLED
        for (int queued = seen; QUEUES_SLOTS && Tile<N>::any(queued < SlotQueue<BITS>::LENGTH); ++queued) {
            if (queued < SlotQueue<BITS>::LENGTH) {
                queue.push(0);
            }
        }
        m.barrier();
        length = fits ? length : 0;
    }

    // Pass 2: the row itself. Couplings to Ĉ_i are weights; other weak ones are added to the diagonal.
    DEVICE void add_own_entries() {
        ROLLED
        for (int start = 0; Tile<N>::any(start < length); start += WORD) {
            const int many = length - start;
            u64 rest = many >= WORD ? ~0ull : many > 0 ? (1ull << many) - 1 : 0;
            rest &= ~(many > 0 ? e.fine[words() + start / WORD] : 0);
            rest &= (N == 1 ? ~0ull : N == 2 ? 0x5555555555555555ull : 0x1111111111111111ull) << Tile<N>::rank();
            ROLLED
            for (; Tile<N>::any(rest != 0); rest &= rest - 1) {
                if (rest == 0) {
                    continue;
                }
                const int position = start + lowest_bit(rest);
                const u8 kind = e.kinds[begin + position];
                const T value = values[position];
                int slot = -1;
                if ((kind & ENTRY_COARSE) != 0) {
                    const bool is_strong = (kind & ENTRY_STRONG) != 0;
                    slot = m.slot_of(e.a.number[columns[position]], is_strong);
                    fits = fits && (is_strong ? slot >= 0 : !SINGLE_PASS);
                }
                if (slot >= 0) {
                    m.weight(slot) = value;
                }
                diagonal.add(position, slot >= 0 ? 0 : value);
                own_total.add(position, slot >= 0 ? value : 0);
            }
        }
        m.barrier();
    }

    // A strong fine neighbour k: its couplings, and the slots of the first weak ones. The values of these are loaded
    // again, because registers are short.
    struct Neighbour {
        i64 k;
        i64 from;
        i64 end;
        int strong;
        int weak;
        int first[4 / N];
    };

    // The sum of k's couplings to Ĉ_i. All strong couplings are to Ĉ_i, but not all to C_i.
    DEVICE T sum_couplings(Neighbour &its, f64 strong_sum) {
        T others = 0;
        UNROLL
        for (int j = 0; j < 4 / N; ++j) {
            its.first[j] = -1;
        }
        if (SINGLE_PASS || e.extended) {
            others = As<T>::of(strong_sum);
        }
        if (SINGLE_PASS) {
            fits = fits && its.weak == 0;
        } else {
            ROLLED
            for (int kind = e.extended ? 1 : 0; kind < 2; ++kind) {
                const int many = kind == 0 ? its.strong : its.weak;
                ThreadInterleavedSum<T, N> part;
                ROLLED
                for (int start = 0; Tile<N>::any(start < many); start += 4) {
                    if (start < many) {
                        FourCouplings<T, N> some;
                        some.template load<true>(e.couplings, its.k, kind, start, many, its.from, its.end);
                        UNROLL
                        for (int j = 0; j < 4 / N; ++j) {
                            const i32 c = some.columns[j];
                            const int slot = c == COUPLING_NONE ? -1 : m.slot_of(c, false);
                            part.part[j] += slot >= 0 ? some.values[j] : 0;
                            its.first[j] = start == 0 && kind == 1 ? slot : its.first[j];
                        }
                    }
                }
                others += part.sum();
            }
        }
        return others;
    }

    // Adds `share` times the strong couplings of k, of which `loaded` has the first if SINGLE_PASS. `slots` are those of
    // the first couplings if `is_known`.
    DEVICE void add_strong(const Neighbour &its, bool is_any, T share, FourCouplings<T, N> &loaded, bool is_known, u32 slots) {
        int spread = is_any ? its.strong : 0;
        ROLLED
        for (int start = 0; Tile<N>::any(start < spread); start += 4) {
            if (start < spread) {
                if (!SINGLE_PASS || start > 0) {
                    loaded.template load<true>(e.couplings, its.k, 0, start, its.strong, its.from, its.end);
                }
                UNROLL
                for (int j = 0; j < 4 / N; ++j) {
                    const i32 c = loaded.columns[j];
                    if (c != COUPLING_NONE) {
                        const u32 known = slots >> j * M::SLOT_BITS & ((1u << M::SLOT_BITS) - 1);
                        const int slot = is_known && start == 0 ? static_cast<int>(known) : m.slot_of(c, SINGLE_PASS);
                        fits = fits && (!SINGLE_PASS || slot >= 0);
                        if (slot >= 0) {
                            m.weight(slot) += times(share, loaded.values[j]);
                        }
                    }
                }
                spread = SINGLE_PASS && !fits ? 0 : spread;
            }
        }
    }

    // Adds `share` times the weak couplings of k to Ĉ_i.
    DEVICE void add_weak(const Neighbour &its, bool is_any, T share, FourCouplings<T, N> &loaded) {
        const Couplings<T> &to = e.couplings;
        if (is_any && its.weak > 0) {
            loaded.template load<true>(to, its.k, 1, 0, its.weak, its.from, its.end);
            UNROLL
            for (int j = 0; j < 4 / N; ++j) {
                if (its.first[j] >= 0) {
                    m.weight(its.first[j]) += times(share, loaded.values[j]);
                }
            }
        }
        ROLLED
        for (int t = 4 + Tile<N>::rank(); Tile<N>::any(is_any && t < its.weak); t += N) {
            const int slot = is_any && t < its.weak ? m.slot_of(to.columns[its.end - 1 - t], false) : -1;
            if (slot >= 0) {
                m.weight(slot) += times(share, to.values[its.end - 1 - t]);
            }
        }
    }

    // Pass 3: each a_ik is distributed over Ĉ_i and i in proportion to ā_kl.
    DEVICE void distribute() {
        const Couplings<T> &to = e.couplings;
        each_fine_neighbour<N>(e.fine, words(), length, [&](bool is_there, int position) {
            const bool is_one = is_there && (!SINGLE_PASS || fits);
            const i64 k = is_one ? columns[position] : 0;
            const Pack<i64, 2> head = is_one ? to.heads.template pack<2>(HEAD * k) : Pack<i64, 2>{};
            const Pack<i64, 2> its_row = is_one ? to.heads.template pack<2>(HEAD * k + 2) : Pack<i64, 2>{};
            const i64 from = its_row.of[0], end = from + static_cast<i32>(its_row.of[1]);
            const T a_ik = is_one ? values[position] : 0;
            Neighbour its{k, from, end, strong_of(head.of[0]), weak_of(head.of[0]), {}};
            const bool is_known = QUEUES_SLOTS && number < seen;
            const u32 slots = QUEUES_SLOTS && is_one ? queue.push(0) : 0;
            FourCouplings<T, N> loaded;
            if (SINGLE_PASS && is_one) {
                loaded.template load<true>(to, k, 0, 0, its.strong, from, end);
            }
            // Entry (k, i) is about as far from the diagonal as (i, k), on the other side.
            const i64 guess = from + (its_row.of[1] >> 32) + diagonal_position - position;
            const T back = is_one && e.extended ? e.back(from, end, (head.of[0] & 1) != 0, static_cast<i32>(i), guess) : 0;
            const T others = sum_couplings(its, f64_of(head.of[1]));
            const T sum = others + back, share = sum == 0 ? 0 : a_ik / sum;
            if (is_one) {
                diagonal.add_next(number, sum == 0 ? a_ik : times(share, back));
                to_coarse += times(share, others);
                ++number;
            }
            add_strong(its, sum != 0, share, loaded, is_known, slots);
            if (!SINGLE_PASS) {
                add_weak(its, sum != 0, share, loaded);
            }
            m.barrier();
        });
    }
};

// Computes row `row` of the interpolation, that of unknown i; row is -1 for tiles without one. Returns whether Ĉ_i
// fits into the accumulator.
template <class T, int N, bool SINGLE_PASS, class M>
DEVICE bool extended_i_row(const ExtendedI<T> &e, i64 i, i64 row, M &m, const Target<T> &p) {
    const Pack<i64, 2> own = row >= 0 ? e.couplings.heads.template pack<2>(HEAD * i + 2) : Pack<i64, 2>{};
    const i64 begin = own.of[0];
    m.clear();
    RowPasses<T, N, SINGLE_PASS, M> passes{
        e, m, i, begin, static_cast<i32>(own.of[1]), static_cast<i32>(own.of[1] >> 32), e.a.columns.from(begin), e.a.values.from(begin), true, {}, 0, {}, {}, 0, 0};
    if (!SINGLE_PASS && e.extended) {
        passes.find_columns();
    }
    passes.add_own_entries();
    const T coupled = passes.own_total.sum();
    passes.distribute();
    const bool fits = Tile<N>::ballot(!passes.fits) == 0;
    const T pivot = passes.diagonal.sum(), scale = pivot == 0 ? 0 : -1 / pivot, sum = (coupled + passes.to_coarse) * scale;
    if (p.mode == ROW_PATTERN) {
        write_pattern(m, fits ? row : -1, scale, sum, p);
    } else {
        write_row(m, fits ? row : -1, scale, sum, p);
    }
    return fits;
}

// An upper bound of the size of Ĉ_i: duplicates count, and the bound saturates.
template <class T, int N> DEVICE i32 extended_i_bound(const ExtendedI<T> &e, bool wanted, i64 i) {
    i64 bound = 0;
    for (i64 at = wanted ? e.a.offsets[i] + Tile<N>::rank() : 0; wanted && at < e.a.offsets[i + 1]; at += N) {
        bound += e.columns_by(at);
    }
    bound = tile_sum<N>(bound);
    return bound < 2147483647 ? static_cast<i32>(bound) : 2147483647;
}

// All rows, one thread for each. A block has `piece` neighbouring rows, at most twice as many as threads. Rows of
// coarse unknowns are written at once; the others are compacted, so that few threads are idle. If SORTED, they are
// ordered by the number of their strong fine neighbours, so that the threads of a warp have about equal work.
template <class T, int SLOTS, bool SINGLE_PASS, bool SORTED>
DEVICE void extended_i_threads(i64 rows, i32 piece, ExtendedI<T> e, const In<i32> &only, const Target<T> &p, const Out<i32> &more,
                           const Out<i32> &left) {
    SHARED(i32, keys, SLOTS * BLOCK);
    SHARED(T, weights, SLOTS * BLOCK);
    // Tiles compute modified classical interpolation; here `extended` is a compile-time constant. `keys` holds a list
    // of rows first, then how many rows have each number of strong fine neighbours, and how many have fewer.
    e.extended = true;
    constexpr int BINS = 64, MANY = 2 * BLOCK, FEWER = MANY + BINS;
    if (thread_index() < BINS) {
        keys[MANY + thread_index()] = 0;
    }
    barrier();
    const i64 base = block_index() * piece;
    int bin[2], position[2];
    UNROLL
    for (int pass = 0; pass < 2; ++pass) {
        const int at = pass * BLOCK + thread_index();
        const i64 row = base + at;
        const bool is_row = at < piece && row < rows;
        const i64 i = is_row ? only.len > 0 ? only[row] : row : 0;
        const i32 number = is_row ? e.a.number[i] : -1;
        bin[pass] = -1;
        if (is_row && number >= 0) {
            p.identity(row, number);
        } else if (is_row) {
            const int neighbours = SORTED ? count_bits(e.fine[first_word(i, e.a.offsets[i])]) : 0;
            bin[pass] = neighbours < BINS ? neighbours : BINS - 1;
            position[pass] = atomic_add(keys[MANY + bin[pass]], 1);
        }
    }
    barrier();
    if (thread_index() < BINS) {
        int fewer = 0;
        ROLLED
        for (int other = 0; other < thread_index(); ++other) {
            fewer += keys[MANY + other];
        }
        keys[FEWER + thread_index()] = fewer;
    }
    barrier();
    UNROLL
    for (int pass = 0; pass < 2; ++pass) {
        if (bin[pass] >= 0) {
            keys[keys[FEWER + bin[pass]] + position[pass]] = pass * BLOCK + thread_index();
        }
    }
    const int many = keys[FEWER + BINS - 1] + keys[MANY + BINS - 1], second = BLOCK + thread_index();
    barrier();
    const i32 mine[2] = {thread_index() < many ? keys[thread_index()] : -1, second < many ? keys[second] : -1};
    barrier();
    auto m = thread_accumulator<T, SLOTS>(keys, weights);
    for (int pass = 0; pass < 2; ++pass) {
        const i64 row = (pass == 0 ? mine[0] : mine[1]) < 0 ? -1 : base + (pass == 0 ? mine[0] : mine[1]);
        if (!Tile<1>::any(row >= 0)) {
            break;
        }
        if (!extended_i_row<T, 1, SINGLE_PASS>(e, row < 0 ? 0 : only.len > 0 ? only[row] : row, row, m, p)) {
            more[atomic_add(left[LEFT_FIRST], 1)] = static_cast<i32>(row);
        }
    }
}

// Which rows a kernel of tiles computes: all, with another kernel after it; or those that are left, as the last
// kernel. Otherwise all rows, as the last kernel.
constexpr int PASS_FIRST = 0;
constexpr int PASS_REST = 1;

// Rows with accumulators of SLOTS in shared memory: all of them, or those of `list`. A row that does not fit goes to
// `more`.
template <class T, int N, int SLOTS>
DEVICE void extended_i_rows(i64 rows, int pass, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const Out<i32> &list,
                            const Out<i32> &more, const Out<i32> &left) {
    constexpr int TILES = BLOCK / N;
    SHARED(i32, keys, TILES * SLOTS);
    SHARED(T, weights, TILES * SLOTS);
    const int tile = thread_index() / N;
    auto accumulator = hash_accumulator<T, N>(keys, weights, tile * SLOTS, SLOTS);
    const i64 count = pass == PASS_REST ? left[LEFT_FIRST] : rows;
    const i64 step = block_count() * TILES;
    for (i64 at = block_index() * TILES + tile; Tile<N>::any(at < count); at += step) {
        i64 row = at >= count ? -1 : pass == PASS_REST ? list[at] : at;
        const i64 i = row < 0 ? 0 : only.len > 0 ? only[row] : row;
        const i32 number = row < 0 ? -1 : e.a.number[i];
        if (number >= 0) {
            if (Tile<N>::rank() == 0) {
                p.identity(row, number);
            }
            row = -1;
        }
        if (!Tile<N>::any(row >= 0)) {
            continue;
        }
        const bool fits = extended_i_row<T, N, false>(e, i, row, accumulator, p);
        if (Tile<N>::any(!fits)) {
            const i32 bound = pass != PASS_FIRST ? extended_i_bound<T, N>(e, !fits, i) : 0;
            if (!fits && Tile<N>::rank() == 0) {
                more[atomic_add(left[pass == PASS_FIRST ? LEFT_FIRST : LEFT_SECOND], 1)] = static_cast<i32>(row);
                atomic_max(left[LEFT_LARGEST], bound);
            }
        }
    }
}

#define EXTENDED_I_THREADS(T, NAME, SINGLE_PASS) \
    KERNEL_OF(3, extended_i_##NAME##_##T, i64 rows, i32 piece, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), Out<i32> more, \
              Out<i32> left) { \
        extended_i_threads<T, 16, SINGLE_PASS, !SINGLE_PASS>(rows, piece, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), more, left); \
    }
#define EXTENDED_I_ROWS(T, N, SLOTS) \
    KERNEL_OF(SLOTS == 32 ? 5 : 4, extended_i_##T##_##N##_##SLOTS, i64 rows, i32 pass, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), \
              Out<i32> list, Out<i32> more, Out<i32> left) { \
        extended_i_rows<T, N, SLOTS>(rows, pass, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), list, more, left); \
    }
#define EXTENDED_I(T) \
    EXTENDED_I_THREADS(T, single_pass, true) \
    EXTENDED_I_THREADS(T, threads, false) \
    EXTENDED_I_ROWS(T, 4, 32) \
    EXTENDED_I_ROWS(T, 4, 64)
EXTENDED_I(f64)
EXTENDED_I(f32)
