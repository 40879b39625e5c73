// Numeric-only update of extended+i interpolation: rows for other values from their symbolic data. No column is
// searched, and only the weights of the kept columns are computed. Sums are added in the order of
// src/host/extended_i.rs. See extended_i_numeric.h.
#include "extended_i_numeric.h"

// The head of each fine unknown, and its couplings to coarse unknowns from listed[k] on, with zeros for those that do
// not count. Rows of coarse unknowns are written. A tile of lanes for each row.
template <class T, int N>
DEVICE void extended_i_heads(i64 rows, const In<i64> &offsets, const In<T> &values, const In<i32> &number, const In<u8> &roles,
                             const In<i32> &listed, const In<i64> &to_offsets, const Out<T> &to_values, const Out<i64> &heads,
                             const Out<T> &couplings) {
    const i64 k = global_index() / N;
    const int rank = Tile<N>::rank();
    const bool is_coarse = k < rows && number[k] >= 0;
    const bool is_fine = k < rows && !is_coarse;
    if (is_coarse && rank == 0) {
        to_values[to_offsets[k]] = 1;
    }
    const i64 begin = is_fine ? offsets[k] : 0, end = is_fine ? offsets[k + 1] : 0;
    const i64 first = is_fine ? listed[k] : 0;
    const bool is_listed = is_fine && listed[k + 1] > first;
    // Most diagonals are positive. This is assumed, and a row for which it is wrong is repeated.
    bool is_positive = true, is_changed = false;
    InterleavedSum<T, N> sum;
    ROLLED
    for (bool is_so = false; !is_so;) {
        bool has_positive = false;
        is_changed = false;
        sum = InterleavedSum<T, N>{};
        i64 to = first;
        ROLLED
        for (i64 start = begin; Tile<N>::any(start < end); start += N) {
            const i64 at = start + rank;
            const int role = at < end ? roles[at] & ROLE_TO_OTHERS : 0;
            const T v = at < end ? values[at] : 0;
            const bool counts = (v < 0) == is_positive;
            has_positive = has_positive || (role == ROLE_ITSELF && v > 0);
            is_changed = is_changed || (counts ? role == ROLE_DID_NOT_COUNT : role == ROLE_WEAK);
            sum.add(role == ROLE_STRONG && counts ? v : 0);
            const bool is_coarse = is_listed && role >= ROLE_STRONG && role <= ROLE_DID_NOT_COUNT;
            const u64 all = Tile<N>::ballot(is_coarse);
            if (is_coarse) {
                couplings[to + Tile<N>::rank_among(all)] = counts ? v : 0;
            }
            to += count_bits(all);
        }
        has_positive = Tile<N>::ballot(has_positive) != 0;
        is_so = !Tile<N>::any(is_fine && has_positive != is_positive);
        is_positive = has_positive;
    }
    is_changed = Tile<N>::ballot(is_changed) != 0;
    const T part = sum.sum();
    if (is_fine && rank == 0) {
        const i64 flags = (is_positive ? HEAD_POSITIVE : 0) | (is_changed ? HEAD_CHANGED : 0);
        heads.put(NUMERIC_HEAD * k, Pack<i64, NUMERIC_HEAD>{begin | flags, bits_of(As<f64>::of(part))});
    }
}

// ā_kl for an entry of row k.
template <class T> DEVICE T coupling_of(T v, i64 head) { return (v < 0) == ((head & HEAD_POSITIVE) != 0) ? v : 0; }

// Adds the values of all lanes to `sum`, in order.
template <class T, int N> DEVICE T add_in_order(T sum, T v) {
    UNROLL
    for (int lane = 0; lane < N; ++lane) {
        sum += Tile<N>::shuffle(v, lane);
    }
    return sum;
}

// Loads that are issued together, to hide memory latency.
constexpr int ENTRIES_AT_ONCE = 2;
constexpr int PRODUCTS_AT_ONCE = 4;

// Entries `begin` to `end` of a row: those of tracked columns go to `own`, the others are added to the diagonal or to the
// sum of couplings to coarse neighbours.
template <class T, int N, class Own>
DEVICE void add_own_row(i64 begin, i64 end, const In<u8> &roles, const In<T> &values, Own &own, int tile, InterleavedSum<T, N> &diagonal,
                        InterleavedSum<T, N> &total) {
    const int rank = Tile<N>::rank();
    ROLLED
    for (i64 base = begin; Tile<N>::any(base < end); base += ENTRIES_AT_ONCE * N) {
        int role[ENTRIES_AT_ONCE];
        T v[ENTRIES_AT_ONCE];
        UNROLL
        for (int u = 0; u < ENTRIES_AT_ONCE; ++u) {
            const i64 entry = base + u * N + rank;
            role[u] = entry < end ? roles[entry] & ROLE_OWN : ROLE_FINE;
            v[u] = entry < end ? values[entry] : 0;
        }
        UNROLL
        for (int u = 0; u < ENTRIES_AT_ONCE; ++u) {
            if (role[u] < TRACKED) {
                own[tile * TRACKED + role[u]] = v[u];
            }
            diagonal.add(role[u] == ROLE_DIAGONAL ? v[u] : 0);
            total.add(role[u] <= ROLE_COARSE ? v[u] : 0);
        }
    }
}

// The sum of the weak couplings of a lane's neighbour, whose couplings begin at `list`. All lanes' codes begin at `codes`,
// which is moved behind them.
template <class T, int N> DEVICE T add_weak(int weak, i64 &codes, const In<u16> &symbolic, const In<T> &couplings, i32 list) {
    const int rank = Tile<N>::rank();
    int upto = weak;
    UNROLL
    for (int step = 1; step < N; step *= 2) {
        const int before = Tile<N>::shuffle(upto, rank >= step ? rank - step : rank);
        upto += rank >= step ? before : 0;
    }
    T part[4] = {};
    ROLLED
    for (int t = upto - weak; t < upto; ++t) {
        const int code = symbolic[codes + t];
        const T v = couplings[static_cast<i64>(list) + (code & 255)];
        UNROLL
        for (int r = 0; r < 4; ++r) {
            part[r] += code >> PART_SHIFT == r ? v : 0;
        }
    }
    const T sum = (part[0] + part[2]) + (part[1] + part[3]);
    codes += Tile<N>::shuffle(upto, N - 1);
    return sum;
}

// Adds the products of shares and couplings of a tracked column to w: `count` codes from `term` on, `step` apart.
template <class T, int PAIRS, class Shares, class Lists>
DEVICE T add_products(T w, i64 term, int count, int step, const In<u16> &symbolic, const In<T> &couplings, const Shares &shares, const Lists &lists,
                      int tile) {
    ROLLED
    for (int t = 0; t < count; t += PRODUCTS_AT_ONCE) {
        int code[PRODUCTS_AT_ONCE];
        T v[PRODUCTS_AT_ONCE], share[PRODUCTS_AT_ONCE];
        UNROLL
        for (int u = 0; u < PRODUCTS_AT_ONCE; ++u) {
            code[u] = t + u < count ? symbolic[term + static_cast<i64>(t + u) * step] : NO_PRODUCT;
        }
        UNROLL
        for (int u = 0; u < PRODUCTS_AT_ONCE; ++u) {
            const int n = tile * PAIRS + (code[u] & 255);
            share[u] = code[u] != NO_PRODUCT ? shares[n] : 0;
            v[u] = code[u] != NO_PRODUCT ? couplings[static_cast<i64>(lists[n]) + (code[u] >> 8)] : 0;
        }
        UNROLL
        for (int u = 0; u < PRODUCTS_AT_ONCE; ++u) {
            w = code[u] != NO_PRODUCT ? w + times(share[u], v[u]) : w;
        }
    }
    return w;
}

// Strong fine neighbours k of a lane: symbolic data, heads of rows k, a_ik, and the lists of their couplings.
template <class T> struct StrongNeighbours {
    bool is_one[ENTRIES_AT_ONCE];
    Pack<u16, SYMBOLIC_UNIT> unit[ENTRIES_AT_ONCE];
    Pack<i64, NUMERIC_HEAD> its[ENTRIES_AT_ONCE];
    T a_ik[ENTRIES_AT_ONCE];
    i32 list_of[ENTRIES_AT_ONCE];

    // Numbers `base` to `base + ENTRIES_AT_ONCE * N` of `pairs`, whose symbolic data is at `start` and whose row at `begin`.
    template <int N>
    DEVICE void load(int base, int pairs, bool is_row, i64 start, i64 begin, const In<u16> &symbolic, const Out<i64> &heads, const In<T> &values,
                     const In<i32> &listed) {
        const int rank = Tile<N>::rank();
        UNROLL
        for (int u = 0; u < ENTRIES_AT_ONCE; ++u) {
            const int n = base + u * N + rank;
            is_one[u] = is_row && n < pairs;
            unit[u] = is_one[u] ? symbolic.template pack_once<SYMBOLIC_UNIT>(start + SYMBOLIC_UNIT * (1 + n)) : Pack<u16, SYMBOLIC_UNIT>{};
        }
        UNROLL
        for (int u = 0; u < ENTRIES_AT_ONCE; ++u) {
            const i64 k = static_cast<i64>(unit[u].of[2]) | static_cast<i64>(unit[u].of[3]) << 16;
            its[u] = is_one[u] ? heads.template pack<NUMERIC_HEAD>(NUMERIC_HEAD * k) : Pack<i64, NUMERIC_HEAD>{};
            a_ik[u] = is_one[u] ? values[begin + (unit[u].of[0] & 255)] : 0;
            list_of[u] = is_one[u] ? listed[k] : 0;
        }
    }
};

// Writes the weights w of the `kept` columns of a row, one for each lane, from `to` on. They are rescaled to the sum `all` if
// other columns are dropped.
template <class T, int N> DEVICE void write_kept(T w, i64 to, int kept, bool drops, T all, const Out<T> &to_values) {
    const int rank = Tile<N>::rank();
    T sum = 0;
    UNROLL
    for (int c = 0; c < MAX_KEPT; ++c) {
        const T next = Tile<N>::shuffle(w, c);
        sum += c < kept ? next : 0;
    }
    if (rank < kept) {
        to_values[to + rank] = drops ? w * row_scale(sum, all) : w;
    }
}

// Fine rows of at most PAIRS strong fine neighbours: all of them, or those of `list`. A row without symbolic data, or
// whose symbolic data does not hold for these values, goes to `more`.
template <class T, int N, int PAIRS>
DEVICE void extended_i_numeric(i64 count, const In<i32> &list, const In<i32> &fine, const In<i32> &starts, const In<u16> &symbolic,
                               const In<i64> &offsets, const In<T> &values, const In<u8> &roles, const Out<i64> &heads, const In<i32> &listed,
                               const In<T> &couplings, const In<i64> &to_offsets, const Out<T> &to_values, const Out<i32> &more, const Out<i32> &left) {
    static_assert(N >= MAX_KEPT, "a lane for each column that is kept");
    constexpr int TILES = BLOCK / N;
    SHARED(T, shares, TILES *PAIRS);
    SHARED(i32, lists, TILES *PAIRS);
    SHARED(T, own, TILES *TRACKED);
    const int rank = Tile<N>::rank(), tile = thread_index() / N;
    const i64 at = global_index() / N;
    const bool is_there = at < count;
    const i64 f = !is_there ? 0 : list.len > 0 ? list[at] : at;
    const i64 i = is_there ? fine[f] : 0;
    const i64 start = is_there ? static_cast<i64>(starts[f]) * SYMBOLIC_UNIT : 0;
    const bool has_symbolic = is_there && starts[f + 1] > starts[f];
    const Pack<u16, SYMBOLIC_UNIT> first = has_symbolic ? symbolic.template pack_once<SYMBOLIC_UNIT>(start) : Pack<u16, SYMBOLIC_UNIT>{};
    const int pairs = has_symbolic ? first.of[0] & 255 : 0;
    // Other kernels compute longer rows.
    const bool is_row = has_symbolic && pairs <= PAIRS;
    const bool has_weak = is_row && (first.of[0] & HAS_WEAK) != 0;
    const i64 begin = is_row ? offsets[i] : 0, end = is_row ? offsets[i + 1] : 0;
    for (int c = rank; c < TRACKED; c += N) {
        own[tile * TRACKED + c] = 0;
    }
    Tile<N>::barrier();

    // The row itself.
    InterleavedSum<T, N> diagonal, total;
    add_own_row<T, N>(begin, end, roles, values, own, tile, diagonal, total);

    // The distribution of each a_ik.
    T to_coarse = 0;
    bool is_told = true;
    i64 weak_code = start + SYMBOLIC_UNIT * (1 + pairs);
    ROLLED
    for (int base = 0; Tile<N>::any(is_row && base < pairs); base += ENTRIES_AT_ONCE * N) {
        StrongNeighbours<T> k;
        k.template load<N>(base, pairs, is_row, start, begin, symbolic, heads, values, listed);
        T back[ENTRIES_AT_ONCE];
        UNROLL
        for (int u = 0; u < ENTRIES_AT_ONCE; ++u) {
            const i64 head = k.its[u].of[0];
            const int position = k.unit[u].of[0] >> 8;
            is_told = is_told && (head & HEAD_CHANGED) == 0;
            back[u] = k.is_one[u] && position != NO_POSITION ? coupling_of(values[(head & HEAD_BEGIN) + position], head) : 0;
        }
        UNROLL
        for (int u = 0; u < ENTRIES_AT_ONCE; ++u) {
            const int n = base + u * N + rank, weak = k.unit[u].of[1];
            T others = k.is_one[u] ? As<T>::of(f64_of(k.its[u].of[1])) : 0;
            if (Tile<N>::any(has_weak)) {
                others += add_weak<T, N>(weak, weak_code, symbolic, couplings, k.list_of[u]);
            }
            const T sum = others + back[u];
            const T share = sum == 0 ? 0 : k.a_ik[u] / sum;
            if (k.is_one[u]) {
                shares[tile * PAIRS + n] = share;
                lists[tile * PAIRS + n] = k.list_of[u];
            }
            diagonal.add(!k.is_one[u] ? 0 : sum == 0 ? k.a_ik[u] : times(share, back[u]));
            to_coarse = add_in_order<T, N>(to_coarse, k.is_one[u] ? times(share, others) : 0);
        }
    }
    Tile<N>::barrier();

    // The tracked columns, one for each lane. Where there are too few lanes, the first one also has the witness.
    const int rounds = is_row ? first.of[1] : 0;
    const i64 terms = start + SYMBOLIC_UNIT * (1 + pairs) + first.of[3];
    const auto follow = [&](int column) {
        const bool is_kept = column < WITNESS;
        const i64 term = is_kept ? terms + column : terms + MAX_KEPT * rounds;
        const int count = is_kept ? rounds : first.of[2], step = is_kept ? MAX_KEPT : 1;
        return add_products<T, PAIRS>(own[tile * TRACKED + column], term, count, step, symbolic, couplings, shares, lists, tile);
    };
    T w = is_row && rank < TRACKED ? follow(rank) : 0, witness;
    if constexpr (N > WITNESS) {
        witness = Tile<N>::shuffle(w, WITNESS);
    } else {
        const T followed = is_row && rank == 0 ? follow(WITNESS) : 0;
        witness = Tile<N>::shuffle(followed, 0);
    }
    const T pivot = diagonal.sum(), scale = pivot == 0 ? 0 : -1 / pivot, all = (total.sum() + to_coarse) * scale;
    w = w * scale;
    const bool has_dropped = (first.of[0] & HAS_DROPPED) != 0;
    const bool drops = has_dropped && witness * scale != 0;
    // If the witness is zero, other dropped columns may not be; then the row is computed anew.
    is_told = Tile<N>::ballot(!is_told) == 0 && (drops || !has_dropped);
    const i64 to = is_row ? to_offsets[i] : 0;
    const int kept = is_row ? static_cast<int>(to_offsets[i + 1] - to) : 0;
    write_kept<T, N>(w, to, kept, drops, all, to_values);
    if (rank == 0 && is_there && (has_symbolic ? is_row && !is_told : list.len == 0)) {
        more[atomic_add(left[LEFT_FIRST], 1)] = static_cast<i32>(i);
    }
}

#define EXTENDED_I_NUMERIC_ROWS(T, N, PAIRS) \
    KERNEL_OF(4, extended_i_numeric_##T##_##N##_##PAIRS, i64 count, In<i32> list, In<i32> fine, In<i32> starts, In<u16> symbolic, In<i64> offsets, \
              In<T> values, In<u8> roles, Out<i64> heads, In<i32> listed, In<T> couplings, In<i64> to_offsets, Out<T> to_values, Out<i32> more, \
              Out<i32> left) { \
        extended_i_numeric<T, N, PAIRS>(count, list, fine, starts, symbolic, offsets, values, roles, heads, listed, couplings, to_offsets, \
                                        to_values, more, left); \
    }
#define EXTENDED_I_HEADS(T, N) \
    KERNEL(extended_i_heads_##T##_##N, i64 rows, In<i64> offsets, In<T> values, In<i32> number, In<u8> roles, In<i32> listed, \
           In<i64> to_offsets, Out<T> to_values, Out<i64> heads, Out<T> couplings) { \
        extended_i_heads<T, N>(rows, offsets, values, number, roles, listed, to_offsets, to_values, heads, couplings); \
    }
#define EXTENDED_I_NUMERIC(T) \
    EXTENDED_I_HEADS(T, 4) \
    EXTENDED_I_HEADS(T, 8) \
    EXTENDED_I_NUMERIC_ROWS(T, 4, 16) \
    EXTENDED_I_NUMERIC_ROWS(T, 4, 32) \
    EXTENDED_I_NUMERIC_ROWS(T, 8, 64) \
    EXTENDED_I_NUMERIC_ROWS(T, 32, 256)
EXTENDED_I_NUMERIC(f64)
EXTENDED_I_NUMERIC(f32)
