// Rows of extended+i interpolation; see src/host/extended_i.rs for the formula and the order of sums. A tile of N lanes computes a row, with the
// members of Ĉ_i in a table. The strong fine neighbours come one after the other, and each lane has one of a neighbour's couplings at a time. On
// levels with many short rows a tile is a single thread.
#include "extended_i.h"
#include "thread_accumulator.h"

// Couplings of an unknown, four at a time: each lane has every N-th, from its rank on.
template <class T, int N> struct FourCouplings {
    i32 columns[4 / N];
    T values[4 / N];

    // Number of coupling j of this lane.
    static DEVICE int number(int start, int j) { return start + Tile<N>::rank() + N * j; }

    // Those from `start` on, of `count` that k has of a kind.
    template <bool VALUES> DEVICE void load(const Couplings<T> &from, i64 k, int kind, int start, int count, i64 begin, i64 end) {
        if (start == 0 && kind < from.kinds) {
            const i64 at = from.near(k, kind);
            if constexpr (N == 1) {
                const Pack<i32, 4> pack = from.near_columns.template pack<4>(at);
                UNROLL
                for (int j = 0; j < 4; ++j) {
                    columns[j] = pack.of[j];
                }
                if (VALUES) {
                    const Pack<T, 2> low = from.near_values.template pack<2>(at), high = from.near_values.template pack<2>(at + 2);
                    values[0] = low.of[0];
                    values[1] = low.of[1];
                    values[2] = high.of[0];
                    values[3] = high.of[1];
                }
            } else {
                UNROLL
                for (int j = 0; j < 4 / N; ++j) {
                    columns[j] = from.near_columns[at + number(0, j)];
                    values[j] = VALUES ? from.near_values[at + number(0, j)] : 0;
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

// Slots of the near strong couplings of the first neighbours of a row, BITS for each neighbour, first in, first out.
template <int BITS> struct Ring {
    static constexpr int LENGTH = 256 / BITS;
    u32 words[8];
    // Takes the last ones in at the front, and gives those away that have gone all the way.
    DEVICE u32 turn(u32 bits) {
        const u32 out = words[7] >> (32 - BITS);
        UNROLL
        for (int k = 7; k > 0; --k) {
            words[k] = words[k] << BITS | words[k - 1] >> (32 - BITS);
        }
        words[0] = words[0] << BITS | bits;
        return out;
    }
};

// Calls look(is_one, place) for the strong fine neighbours of each tile's row, one after the other.
template <int N, class Look> DEVICE void each_fine(const In<u64> &words, i64 first, int length, const Look &look) {
    ROLLED
    for (int start = 0; Tile<N>::any(start < length); start += WORD) {
        ROLLED
        for (u64 rest = start < length ? words[first + start / WORD] : 0; Tile<N>::any(rest != 0); rest &= rest - 1) {
            look(rest != 0, rest != 0 ? start + lowest_bit(rest) : 0);
        }
    }
}

// Row `row` of the interpolation, that of unknown i, for each tile; row is -1 where there is none. Whether Ĉ_i fits into the table. ONCE tells that
// there are no weak couplings to coarse unknowns: then the strong ones, all of which lead to members, need not be gone through to know
// these first. Rows that have some all the same do not fit. What does not fit, however long it is, is not gone through to its end.
template <class T, int N, bool ONCE, class M>
DEVICE bool extended_i_row(const ExtendedI<T> &e, i64 i, i64 row, M &m, const Target<T> &p) {
    const Couplings<T> &to = e.couplings;
    const int rank = Tile<N>::rank();
    const Pack<i64, 2> own = row >= 0 ? to.heads.template pack<2>(HEAD * i + 2) : Pack<i64, 2>{};
    const i64 begin = own.of[0];
    int length = static_cast<i32>(own.of[1]);
    const int diagonal_place = static_cast<i32>(own.of[1] >> 32);
    const i64 words = first_word(i, begin);
    const In<i32> columns = e.a.columns.from(begin);
    const In<T> values = e.a.values.from(begin);
    bool fits = true;
    m.clear();
    constexpr bool REMEMBERS = !ONCE;
    constexpr int BITS = REMEMBERS ? M::SLOT_BITS * (4 / N) : 16;
    Ring<BITS> ring{};
    int seen = 0;

    // What F_i adds to C_i.
    if (!ONCE && e.extended) {
        each_fine<N>(e.fine, words, length, [&](bool is_there, int place) {
            const bool is_one = is_there && fits;
            const i64 k = is_one ? columns[place] : 0;
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
                    // Few have more, and only these need to be told how many.
                    const bool more = Tile<N>::ballot(is_one && its.columns[4 / N - 1] != COUPLING_NONE) >> (N - 1) != 0;
                    count = more ? strong_of(to.heads[HEAD * k]) : 0;
                    from = more ? to.heads[HEAD * k + 2] : 0;
                } else if (!fits) {
                    count = 0;
                }
            }
            if (REMEMBERS && is_one && seen < Ring<BITS>::LENGTH) {
                ring.turn(slots & ((1u << BITS % 32) - 1));
                ++seen;
            }
        });
        ROLLED
        for (int turns = seen; REMEMBERS && Tile<N>::any(turns < Ring<BITS>::LENGTH); ++turns) {
            if (turns < Ring<BITS>::LENGTH) {
                ring.turn(0);
            }
        }
        m.barrier();
        length = fits ? length : 0;
    }

    // What the row has itself: couplings to members are weights, other ones that are weak join the diagonal.
    Parts<T, N> diagonal, own_total;
    ROLLED
    for (int start = 0; Tile<N>::any(start < length); start += WORD) {
        const int many = length - start;
        u64 rest = many >= WORD ? ~0ull : many > 0 ? (1ull << many) - 1 : 0;
        rest &= ~(many > 0 ? e.fine[words + start / WORD] : 0);
        rest &= (N == 1 ? ~0ull : N == 2 ? 0x5555555555555555ull : 0x1111111111111111ull) << rank;
        ROLLED
        for (; Tile<N>::any(rest != 0); rest &= rest - 1) {
            if (rest == 0) {
                continue;
            }
            const int place = start + lowest_bit(rest);
            const u8 kind = e.kinds[begin + place];
            const T value = values[place];
            int slot = -1;
            if ((kind & ENTRY_COARSE) != 0) {
                const bool is_strong = (kind & ENTRY_STRONG) != 0;
                slot = m.slot_of(e.a.number[columns[place]], is_strong);
                fits = fits && (is_strong ? slot >= 0 : !ONCE);
            }
            if (slot >= 0) {
                m.weight(slot) = value;
            }
            diagonal.add(place, slot >= 0 ? 0 : value);
            own_total.add(place, slot >= 0 ? value : 0);
        }
    }
    m.barrier();

    // Each a_ik is spread over Ĉ_i and i in proportion to ā_kl.
    const T coupled = own_total.sum();
    T to_members = 0;
    int number = 0;
    each_fine<N>(e.fine, words, length, [&](bool is_there, int place) {
        const bool is_one = is_there && (!ONCE || fits);
        const i64 k = is_one ? columns[place] : 0;
        const Pack<i64, 2> head = is_one ? to.heads.template pack<2>(HEAD * k) : Pack<i64, 2>{};
        const Pack<i64, 2> its_row = is_one ? to.heads.template pack<2>(HEAD * k + 2) : Pack<i64, 2>{};
        const i64 from = its_row.of[0], end = from + static_cast<i32>(its_row.of[1]);
        const T a_ik = is_one ? values[place] : 0;
        const int strong = strong_of(head.of[0]), weak = weak_of(head.of[0]);
        const bool is_known = REMEMBERS && number < seen;
        const u32 slots = REMEMBERS && is_one ? ring.turn(0) : 0;
        FourCouplings<T, N> its;
        if (ONCE && is_one) {
            its.template load<true>(to, k, 0, 0, strong, from, end);
        }
        // Entry (k, i) is about as far from the diagonal as (i, k), on the other side.
        const i64 guess = from + (its_row.of[1] >> 32) + diagonal_place - place;
        const T back = is_one && e.extended ? e.back(from, end, (head.of[0] & 1) != 0, static_cast<i32>(i), guess) : 0;
        T others = 0;
        // Slots of the first weak ones. Their values are loaded again: there are not registers enough to keep them.
        int first[4 / N];
        UNROLL
        for (int j = 0; j < 4 / N; ++j) {
            first[j] = -1;
        }
        if (ONCE || e.extended) {
            others = As<T>::of(f64_of(head.of[1]));
        }
        if (ONCE) {
            fits = fits && weak == 0;
        } else {
            // All strong ones are members of Ĉ_i, but not of C_i.
            ROLLED
            for (int kind = e.extended ? 1 : 0; kind < 2; ++kind) {
                const int many = kind == 0 ? strong : weak;
                Parts<T, N> part;
                ROLLED
                for (int start = 0; Tile<N>::any(start < many); start += 4) {
                    if (start < many) {
                        FourCouplings<T, N> some;
                        some.template load<true>(to, k, kind, start, many, from, end);
                        UNROLL
                        for (int j = 0; j < 4 / N; ++j) {
                            const i32 c = some.columns[j];
                            const int slot = c == COUPLING_NONE ? -1 : m.slot_of(c, false);
                            part.part[j] += slot >= 0 ? some.values[j] : 0;
                            first[j] = start == 0 && kind == 1 ? slot : first[j];
                        }
                    }
                }
                others += part.sum();
            }
        }
        const T sum = others + back, share = sum == 0 ? 0 : a_ik / sum;
        if (is_one) {
            diagonal.add_next(number, sum == 0 ? a_ik : times(share, back));
            to_members += times(share, others);
            ++number;
        }
        int spread = sum == 0 ? 0 : strong;
        ROLLED
        for (int start = 0; Tile<N>::any(start < spread); start += 4) {
            if (start < spread) {
                if (!ONCE || start > 0) {
                    its.template load<true>(to, k, 0, start, strong, from, end);
                }
                UNROLL
                for (int j = 0; j < 4 / N; ++j) {
                    const i32 c = its.columns[j];
                    if (c != COUPLING_NONE) {
                        const u32 known = slots >> j * M::SLOT_BITS & ((1u << M::SLOT_BITS) - 1);
                        const int slot = is_known && start == 0 ? static_cast<int>(known) : m.slot_of(c, ONCE);
                        fits = fits && (!ONCE || slot >= 0);
                        if (slot >= 0) {
                            m.weight(slot) += times(share, its.values[j]);
                        }
                    }
                }
                spread = ONCE && !fits ? 0 : spread;
            }
        }
        if (!ONCE) {
            if (sum != 0 && weak > 0) {
                its.template load<true>(to, k, 1, 0, weak, from, end);
                UNROLL
                for (int j = 0; j < 4 / N; ++j) {
                    if (first[j] >= 0) {
                        m.weight(first[j]) += times(share, its.values[j]);
                    }
                }
            }
            ROLLED
            for (int t = 4 + rank; Tile<N>::any(sum != 0 && t < weak); t += N) {
                const int slot = sum != 0 && t < weak ? m.slot_of(to.columns[end - 1 - t], false) : -1;
                if (slot >= 0) {
                    m.weight(slot) += times(share, to.values[end - 1 - t]);
                }
            }
        }
        m.barrier();
    });
    fits = Tile<N>::ballot(!fits) == 0;
    const T pivot = diagonal.sum(), scale = pivot == 0 ? 0 : -1 / pivot, sum = (coupled + to_members) * scale;
    if (p.mode == ROW_PATTERN) {
        write_pattern(m, fits ? row : -1, scale, sum, p);
    } else {
        write_row(m, fits ? row : -1, scale, sum, p);
    }
    return fits;
}

// At most this many members, each counted as often as it is found, and no more than can be counted.
template <class T, int N> DEVICE i32 extended_i_bound(const ExtendedI<T> &e, bool wanted, i64 i) {
    i64 bound = 0;
    for (i64 at = wanted ? e.a.offsets[i] + Tile<N>::rank() : 0; wanted && at < e.a.offsets[i + 1]; at += N) {
        bound += e.members_by(at);
    }
    bound = tile_sum<N>(bound);
    return bound < 2147483647 ? static_cast<i32>(bound) : 2147483647;
}

// All rows by single threads. A block has `piece` neighbouring rows, at most twice as many as threads; those of coarse unknowns are written at once,
// and the others are put together, so that few threads are idle; if they are SORTED, by the number of their strong fine neighbours, so that
// threads of a warp have about as much to do.
template <class T, int SLOTS, bool ONCE, bool SORTED>
DEVICE void extended_i_own(i64 rows, i32 piece, ExtendedI<T> e, const In<i32> &only, const Target<T> &p, const Out<i32> &more,
                           const Out<i32> &left) {
    SHARED(i32, keys, SLOTS * BLOCK);
    SHARED(T, weights, SLOTS * BLOCK);
    // Behind a list of rows, how many rows have each number of strong fine neighbours, and how many have fewer.
    // Classical interpolation, modified, is left to tiles: this one knows what it is at compile time.
    e.extended = true;
    constexpr int BINS = 64, MANY = 2 * BLOCK, FEWER = MANY + BINS;
    if (thread_index() < BINS) {
        keys[MANY + thread_index()] = 0;
    }
    barrier();
    const i64 base = block_index() * piece;
    int bin[2], place[2];
    UNROLL
    for (int turn = 0; turn < 2; ++turn) {
        const int at = turn * BLOCK + thread_index();
        const i64 row = base + at;
        const bool is_row = at < piece && row < rows;
        const i64 i = is_row ? only.len > 0 ? only[row] : row : 0;
        const i32 number = is_row ? e.a.number[i] : -1;
        bin[turn] = -1;
        if (is_row && number >= 0) {
            p.identity(row, number);
        } else if (is_row) {
            const int neighbours = SORTED ? count_bits(e.fine[first_word(i, e.a.offsets[i])]) : 0;
            bin[turn] = neighbours < BINS ? neighbours : BINS - 1;
            place[turn] = atomic_add(keys[MANY + bin[turn]], 1);
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
    for (int turn = 0; turn < 2; ++turn) {
        if (bin[turn] >= 0) {
            keys[keys[FEWER + bin[turn]] + place[turn]] = turn * BLOCK + thread_index();
        }
    }
    const int many = keys[FEWER + BINS - 1] + keys[MANY + BINS - 1], second = BLOCK + thread_index();
    barrier();
    const i32 mine[2] = {thread_index() < many ? keys[thread_index()] : -1, second < many ? keys[second] : -1};
    barrier();
    auto m = thread_accumulator<T, SLOTS>(keys, weights);
    for (int turn = 0; turn < 2; ++turn) {
        const i64 row = (turn == 0 ? mine[0] : mine[1]) < 0 ? -1 : base + (turn == 0 ? mine[0] : mine[1]);
        if (!Tile<1>::any(row >= 0)) {
            break;
        }
        if (!extended_i_row<T, 1, ONCE>(e, row < 0 ? 0 : only.len > 0 ? only[row] : row, row, m, p)) {
            more[atomic_add(left[LEFT_FIRST], 1)] = static_cast<i32>(row);
        }
    }
}

// Which rows tiles compute: all of them, and then others; those that are left, after which there are no others; all, and no others.
constexpr int TURN_FIRST = 0;
constexpr int TURN_SECOND = 1;
constexpr int TURN_ONLY = 2;

// Rows with tables of SLOTS in shared memory: all of them, or those of `list`. What does not fit goes to `more`.
template <class T, int N, int SLOTS>
DEVICE void extended_i_rows(i64 rows, int turn, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const Out<i32> &list,
                            const Out<i32> &more, const Out<i32> &left) {
    constexpr int TILES = BLOCK / N;
    SHARED(i32, keys, TILES * SLOTS);
    SHARED(T, weights, TILES * SLOTS);
    const int tile = thread_index() / N;
    auto members = hash_accumulator<T, N>(keys, weights, tile * SLOTS, SLOTS);
    const i64 count = turn == TURN_SECOND ? left[LEFT_FIRST] : rows;
    const i64 step = block_count() * TILES;
    for (i64 at = block_index() * TILES + tile; Tile<N>::any(at < count); at += step) {
        i64 row = at >= count ? -1 : turn == TURN_SECOND ? list[at] : at;
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
        const bool fits = extended_i_row<T, N, false>(e, i, row, members, p);
        if (Tile<N>::any(!fits)) {
            const i32 bound = turn != TURN_FIRST ? extended_i_bound<T, N>(e, !fits, i) : 0;
            if (!fits && Tile<N>::rank() == 0) {
                more[atomic_add(left[turn == TURN_FIRST ? LEFT_FIRST : LEFT_SECOND], 1)] = static_cast<i32>(row);
                atomic_max(left[LEFT_LARGEST], bound);
            }
        }
    }
}

#define EXTENDED_I_OWN(T, NAME, ONCE) \
    KERNEL_OF(3, extended_i_##NAME##_##T, i64 rows, i32 piece, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), Out<i32> more, \
              Out<i32> left) { \
        extended_i_own<T, 16, ONCE, !ONCE>(rows, piece, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), more, left); \
    }
#define EXTENDED_I_ROWS(T, N, SLOTS) \
    KERNEL_OF(SLOTS == 32 ? 5 : 4, extended_i_##T##_##N##_##SLOTS, i64 rows, i32 turn, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), \
              Out<i32> list, Out<i32> more, Out<i32> left) { \
        extended_i_rows<T, N, SLOTS>(rows, turn, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), list, more, left); \
    }
#define EXTENDED_I(T) \
    EXTENDED_I_OWN(T, once, true) \
    EXTENDED_I_OWN(T, own, false) \
    EXTENDED_I_ROWS(T, 4, 32) \
    EXTENDED_I_ROWS(T, 4, 64)
EXTENDED_I(f64)
EXTENDED_I(f32)
