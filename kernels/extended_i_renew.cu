// Rows of extended+i interpolation for other values, by their scripts: no member is looked for, and weights are computed for the columns that stay alone. Every
// sum is added in the order of src/host/extended_i.rs. See extended_i_renew.h.
#include "extended_i_renew.h"

// What the neighbours of each fine unknown ask for; rows of coarse unknowns are written. A tile of lanes for each row.
template <class T, int N>
DEVICE void extended_i_heads(i64 rows, const In<i64> &offsets, const In<T> &values, const In<i32> &number, const In<u8> &roles,
                             const In<i64> &to_offsets, const Out<T> &to_values, const Out<i64> &heads) {
    const i64 k = global_index() / N;
    const int rank = Tile<N>::rank();
    const bool is_coarse = k < rows && number[k] >= 0;
    const bool is_fine = k < rows && !is_coarse;
    if (is_coarse && rank == 0) {
        to_values[to_offsets[k]] = 1;
    }
    const i64 begin = is_fine ? offsets[k] : 0, end = is_fine ? offsets[k + 1] : 0;
    // Most diagonals are positive: where one is not, that is seen on the way, and the row begun again.
    bool is_positive = true, is_changed = false;
    Quarters<T, N> sum;
    ROLLED
    for (bool is_so = false; !is_so;) {
        bool has_positive = false;
        is_changed = false;
        sum = Quarters<T, N>{};
        ROLLED
        for (i64 start = begin; Tile<N>::any(start < end); start += N) {
            const i64 at = start + rank;
            const int role = at < end ? roles[at] & ROLE_TO_OTHERS : 0;
            const T v = at < end ? values[at] : 0;
            const bool counts = (v < 0) == is_positive;
            has_positive = has_positive || (role == ROLE_ITSELF && v > 0);
            is_changed = is_changed || (counts ? role == ROLE_DID_NOT_COUNT : role == ROLE_WEAK);
            sum.add(role == ROLE_STRONG && counts ? v : 0);
        }
        has_positive = Tile<N>::ballot(has_positive) != 0;
        is_so = !Tile<N>::any(is_fine && has_positive != is_positive);
        is_positive = has_positive;
    }
    is_changed = Tile<N>::ballot(is_changed) != 0;
    const T part = sum.sum();
    if (is_fine && rank == 0) {
        const i64 flags = (is_positive ? HEAD_POSITIVE : 0) | (is_changed ? HEAD_CHANGED : 0);
        heads.put(RENEWED_HEAD * k, Pack<i64, RENEWED_HEAD>{begin | flags, bits_of(As<f64>::of(part))});
    }
}

// ā_kl for an entry of row k.
template <class T> DEVICE T coupling_of(T v, i64 head) { return (v < 0) == ((head & HEAD_POSITIVE) != 0) ? v : 0; }

// The sum of the values of all lanes, one after the other, after `sum`.
template <class T, int N> DEVICE T add_in_order(T sum, T v) {
    UNROLL
    for (int lane = 0; lane < N; ++lane) {
        sum += Tile<N>::shuffle(v, lane);
    }
    return sum;
}

// Fine rows of at most PAIRS strong fine neighbours, all of them or those of `list`. What a script does not tell for these values, or that has none, goes to
// `more`.
template <class T, int N, int PAIRS>
DEVICE void extended_i_renewed(i64 count, const In<i32> &list, const In<i32> &fine, const In<i32> &starts, const In<u16> &script,
                               const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<u8> &roles, const Out<i64> &heads,
                               const In<i64> &to_offsets, const Out<T> &to_values, const Out<i32> &more, const Out<i32> &left) {
    static_assert(N >= RENEWED_KEPT, "a lane for each column that is kept");
    constexpr int TILES = BLOCK / N;
    SHARED(T, shares, TILES *PAIRS);
    SHARED(i64, rows, TILES *PAIRS);
    SHARED(T, own, TILES *FOLLOWED);
    const int rank = Tile<N>::rank(), tile = thread_index() / N;
    const i64 at = global_index() / N;
    const bool is_there = at < count;
    const i64 f = !is_there ? 0 : list.len > 0 ? list[at] : at;
    const i64 i = is_there ? fine[f] : 0;
    const i64 start = is_there ? static_cast<i64>(starts[f]) * SCRIPT_UNIT : 0;
    const bool has_script = is_there && starts[f + 1] > starts[f];
    const Pack<u16, SCRIPT_UNIT> first = has_script ? script.template pack_once<SCRIPT_UNIT>(start) : Pack<u16, SCRIPT_UNIT>{};
    const int pairs = has_script ? first.of[0] & 255 : 0;
    // Other kernels do those.
    const bool is_row = has_script && pairs <= PAIRS;
    const bool has_weak = is_row && (first.of[0] & HAS_WEAK) != 0;
    const i64 begin = is_row ? offsets[i] : 0, end = is_row ? offsets[i + 1] : 0;
    for (int c = rank; c < FOLLOWED; c += N) {
        own[tile * FOLLOWED + c] = 0;
    }
    Tile<N>::barrier();

    // What the row has itself.
    Quarters<T, N> diagonal, total;
    ROLLED
    for (i64 base = begin; Tile<N>::any(base < end); base += N) {
        const bool is_entry = base + rank < end;
        const int role = is_entry ? roles[base + rank] & ROLE_OWN : ROLE_FINE;
        const T v = is_entry ? values[base + rank] : 0;
        if (role < FOLLOWED) {
            own[tile * FOLLOWED + role] = v;
        }
        diagonal.add(role == ROLE_DIAGONAL ? v : 0);
        total.add(role <= ROLE_MEMBER ? v : 0);
    }

    // How each a_ik is spread.
    T to_members = 0;
    bool is_told = true;
    i64 weak_code = start + SCRIPT_UNIT + 2 * pairs;
    ROLLED
    for (int base = 0; Tile<N>::any(is_row && base < pairs); base += N) {
        const int n = base + rank;
        const bool is_one = is_row && n < pairs;
        T share = 0, back = 0, others = 0, a_ik = 0;
        i64 head = 0;
        int weak = 0;
        if (is_one) {
            const int code = script[start + SCRIPT_UNIT + n];
            const i64 entry = begin + (code & 255);
            const i64 k = columns[entry];
            a_ik = values[entry];
            const Pack<i64, RENEWED_HEAD> its = heads.template pack<RENEWED_HEAD>(RENEWED_HEAD * k);
            head = its.of[0];
            others = As<T>::of(f64_of(its.of[1]));
            is_told = is_told && (head & HEAD_CHANGED) == 0;
            const int place = code >> 8;
            back = place != NO_PLACE ? coupling_of(values[(head & HEAD_BEGIN) + place], head) : 0;
            weak = has_weak ? script[start + SCRIPT_UNIT + pairs + n] : 0;
        }
        if (Tile<N>::any(has_weak)) {
            int upto = weak;
            UNROLL
            for (int step = 1; step < N; step *= 2) {
                const int before = Tile<N>::shuffle(upto, rank >= step ? rank - step : rank);
                upto += rank >= step ? before : 0;
            }
            T part[4] = {};
            ROLLED
            for (int t = upto - weak; t < upto; ++t) {
                const int code = script[weak_code + t];
                const T v = values[(head & HEAD_BEGIN) + (code & 255)];
                UNROLL
                for (int r = 0; r < 4; ++r) {
                    part[r] += code >> PART_SHIFT == r ? v : 0;
                }
            }
            others += (part[0] + part[2]) + (part[1] + part[3]);
            weak_code += Tile<N>::shuffle(upto, N - 1);
        }
        const T sum = others + back;
        share = sum == 0 ? 0 : a_ik / sum;
        if (is_one) {
            shares[tile * PAIRS + n] = share;
            rows[tile * PAIRS + n] = head;
        }
        diagonal.add(!is_one ? 0 : sum == 0 ? a_ik : times(share, back));
        to_members = add_in_order<T, N>(to_members, is_one ? times(share, others) : 0);
    }
    Tile<N>::barrier();

    // The columns that are followed, a lane for each; the first has another one where there are not lanes enough.
    const u32 of_four = static_cast<u32>(first.of[1]) | static_cast<u32>(first.of[2]) << 16;
    const auto follow = [&](int column) {
        i64 term = has_weak ? weak_code : start + SCRIPT_UNIT + pairs;
        UNROLL
        for (int c = 0; c < RENEWED_KEPT; ++c) {
            term += c < column ? of_four >> 8 * c & 255 : 0;
        }
        const i64 last = term + (column == WITNESS ? first.of[3] : of_four >> 8 * column & 255);
        T w = own[tile * FOLLOWED + column];
        ROLLED
        for (; term < last; ++term) {
            const int code = script[term];
            const int n = tile * PAIRS + (code & 255);
            const i64 head = rows[n];
            w += times(shares[n], coupling_of(values[(head & HEAD_BEGIN) + (code >> 8)], head));
        }
        return w;
    };
    T w = is_row && rank < FOLLOWED ? follow(rank) : 0, witness;
    if constexpr (N > WITNESS) {
        witness = Tile<N>::shuffle(w, WITNESS);
    } else {
        const T followed = is_row && rank == 0 ? follow(WITNESS) : 0;
        witness = Tile<N>::shuffle(followed, 0);
    }
    const T pivot = diagonal.sum(), scale = pivot == 0 ? 0 : -1 / pivot, all = (total.sum() + to_members) * scale;
    w = w * scale;
    const bool has_dropped = (first.of[0] & HAS_DROPPED) != 0;
    const bool drops = has_dropped && witness * scale != 0;
    // When the one that is followed is zero, others that are dropped may not be.
    is_told = Tile<N>::ballot(!is_told) == 0 && (drops || !has_dropped);
    const i64 to = is_row ? to_offsets[i] : 0;
    const int kept = is_row ? static_cast<int>(to_offsets[i + 1] - to) : 0;
    T sum = 0;
    UNROLL
    for (int c = 0; c < RENEWED_KEPT; ++c) {
        const T next = Tile<N>::shuffle(w, c);
        sum += c < kept ? next : 0;
    }
    if (rank < kept) {
        to_values[to + rank] = drops ? w * row_scale(sum, all) : w;
    }
    if (rank == 0 && is_there && (has_script ? is_row && !is_told : list.len == 0)) {
        more[atomic_add(left[LEFT_FIRST], 1)] = static_cast<i32>(i);
    }
}

#define EXTENDED_I_RENEWED(T, N, PAIRS) \
    KERNEL_OF(4, extended_i_renewed_##T##_##N##_##PAIRS, i64 count, In<i32> list, In<i32> fine, In<i32> starts, In<u16> script, In<i64> offsets, \
              In<i32> columns, In<T> values, In<u8> roles, Out<i64> heads, In<i64> to_offsets, Out<T> to_values, Out<i32> more, \
              Out<i32> left) { \
        extended_i_renewed<T, N, PAIRS>(count, list, fine, starts, script, offsets, columns, values, roles, heads, to_offsets, to_values, \
                                        more, left); \
    }
#define EXTENDED_I_HEADS(T, N) \
    KERNEL(extended_i_heads_##T##_##N, i64 rows, In<i64> offsets, In<T> values, In<i32> number, In<u8> roles, In<i64> to_offsets, \
           Out<T> to_values, Out<i64> heads) { \
        extended_i_heads<T, N>(rows, offsets, values, number, roles, to_offsets, to_values, heads); \
    }
#define EXTENDED_I_RENEW(T) \
    EXTENDED_I_HEADS(T, 4) \
    EXTENDED_I_HEADS(T, 8) \
    EXTENDED_I_RENEWED(T, 4, 16) \
    EXTENDED_I_RENEWED(T, 4, 32) \
    EXTENDED_I_RENEWED(T, 8, 64) \
    EXTENDED_I_RENEWED(T, 32, 256)
EXTENDED_I_RENEW(f64)
EXTENDED_I_RENEW(f32)
