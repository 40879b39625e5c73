// Extended+i interpolation; see src/host/extended_i.rs for the formula and the order of sums. A first kernel notes for each fine unknown what
// its neighbours ask for; then a group of lanes computes a row, with the members of Ĉ_i in a table.
#include "truncate.h"

// Of an entry: its coupling is strong, its column is coarse.
constexpr u8 ENTRY_STRONG = 1;
constexpr u8 ENTRY_COARSE = 2;

template <class T> struct Couplings {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    // Number of each coarse unknown on the coarse level, -1 for fine ones.
    In<i32> number;
};

// Which entries of a row are strong, step by step: the strong columns stand in the order of the row.
template <int N> struct StrongRow {
    i64 at;
    i64 end;
    DEVICE StrongRow(const In<i64> &offsets, i64 i) : at(offsets[i]), end(offsets[i + 1]) {}
    // Whether the next entry of this lane, in column j, is.
    DEVICE bool next(const In<i32> &columns, i32 j) {
        const int lane = Group<N>::rank();
        const i32 strong = at + lane < end ? columns[at + lane] : -1;
        bool is_strong = false;
        for (int other = 0; other < N && at + other < end; ++other) {
            const i32 candidate = Group<N>::shuffle(strong, other);
            is_strong = is_strong || candidate == j;
        }
        at += count_bits(Group<N>::ballot(is_strong));
        return is_strong;
    }
};

// For the rows of fine unknowns k: `kinds` of entries, and the couplings to coarse l with ā_kl, as far as they are strong or that is not 0. They
// stand where the row of the matrix does: the number of l where k depends strongly on it, and else that number with all bits inverted. `reach`
// is twice their number, and 1 more where a_kk is positive.
template <class T, int N>
DEVICE void extended_i_couplings(i64 rows, const Couplings<T> &a, const In<i64> &strong_offsets, const In<i32> &strong_columns,
                                 const Out<u8> &kinds, const Out<i32> &coarse, const Out<T> &weights, const Out<i32> &reach) {
    const i64 k = global_index() / N;
    if (k >= rows || a.number[k] >= 0) {
        return;
    }
    const i64 begin = a.offsets[k], end = a.offsets[k + 1], first = begin + Group<N>::rank();
    const i32 own_column = first < end ? a.columns[first] : -1;
    const T own_value = first < end ? a.values[first] : 0;
    bool is_positive = own_column == k && own_value > 0;
    for (i64 at = first + N; at < end; at += N) {
        is_positive = is_positive || (a.columns[at] == k && a.values[at] > 0);
    }
    is_positive = Group<N>::ballot(is_positive) != 0;
    StrongRow<N> strong(strong_offsets, k);
    int count = 0;
    for (i64 start = begin; start < end; start += N) {
        const i64 at = start + Group<N>::rank();
        const i32 l = at == first ? own_column : at < end ? a.columns[at] : -1;
        const T v = at == first ? own_value : at < end ? a.values[at] : 0;
        const bool is_strong = strong.next(strong_columns, l) && l >= 0;
        const i32 number = l >= 0 ? a.number[l] : -1;
        const bool counts = (v < 0) == is_positive;
        const bool matters = number >= 0 && (is_strong || counts);
        if (l >= 0) {
            kinds[at] = (is_strong ? ENTRY_STRONG : 0) | (number >= 0 ? ENTRY_COARSE : 0);
        }
        const u64 all = Group<N>::ballot(matters);
        if (matters) {
            const i64 to = begin + count + rank_among<N>(all);
            coarse[to] = is_strong ? number : ~number;
            weights[to] = counts ? v : 0;
        }
        count += count_bits(all);
    }
    if (Group<N>::rank() == 0) {
        reach[k] = count << 1 | (is_positive ? 1 : 0);
    }
}

template <class T> struct ExtendedI {
    Couplings<T> a;
    In<u8> kinds;
    In<i32> coarse;
    In<T> weights;
    In<i32> reach;

    // ā_ki, from row k. Rows need not ascend.
    DEVICE T back(i64 from, i64 end, bool is_positive, i32 i) const {
        i64 low = from, high = end, found = -1;
        while (low < high) {
            const i64 middle = low + (high - low) / 2;
            const i32 j = a.columns[middle];
            if (j == i) {
                found = middle;
                break;
            }
            if (j < i) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        for (i64 at = from; found < 0 && at < end; ++at) {
            found = a.columns[at] == i ? at : -1;
        }
        const T v = found < 0 ? 0 : a.values[found];
        return (v < 0) == is_positive ? v : 0;
    }
};

// Puts Ĉ_i into the table; whether all of it fits. `any` tells whether there is any.
template <class T, int N, class K, class W> DEVICE bool extended_i_members(const ExtendedI<T> &e, i64 i, const Members<T, N, K, W> &m, bool &any) {
    bool fits = true;
    any = false;
    for (i64 at = e.a.offsets[i] + Group<N>::rank(); at < e.a.offsets[i + 1] && fits; at += N) {
        const u8 kind = e.kinds[at];
        if ((kind & ENTRY_STRONG) == 0) {
            continue;
        }
        const i32 j = e.a.columns[at];
        if ((kind & ENTRY_COARSE) != 0) {
            fits = m.insert(e.a.number[j]);
            any = true;
            continue;
        }
        const i64 from = e.a.offsets[j];
        const int count = e.reach[j] >> 1;
        for (int k = 0; k < count && fits; ++k) {
            const i32 c = e.coarse[from + k];
            if (c >= 0) {
                fits = m.insert(c);
                any = true;
            }
        }
    }
    any = Group<N>::ballot(any) != 0;
    fits = Group<N>::ballot(!fits) == 0;
    m.meet();
    return fits;
}

// The sums of a row that is not scaled yet.
template <class T> struct RowSums {
    // ã_ii.
    T diagonal;
    // Of all weights.
    T total;
};

// What the row has itself: couplings to members are weights, other ones that are weak join the diagonal.
template <class T, int N, class K, class W> DEVICE RowSums<T> extended_i_direct(const ExtendedI<T> &e, i64 i, const Members<T, N, K, W> &m) {
    Quarters<T, N> weak, direct;
    const i64 end = e.a.offsets[i + 1];
    for (i64 start = e.a.offsets[i]; start < end; start += N) {
        const i64 at = start + Group<N>::rank();
        T to_diagonal = 0, to_member = 0;
        if (at < end) {
            const u8 kind = e.kinds[at];
            const T value = e.a.values[at];
            const int slot = (kind & ENTRY_COARSE) != 0 ? m.find(e.a.number[e.a.columns[at]]) : -1;
            if (slot >= 0) {
                m.weight(slot) = value;
                to_member = value;
            } else if ((kind & ENTRY_STRONG) == 0) {
                to_diagonal = value;
            }
        }
        weak.add(to_diagonal);
        direct.add(to_member);
    }
    m.meet();
    return RowSums<T>{weak.sum(), direct.sum()};
}

// Spreads a_ik over Ĉ_i and i in proportion to ā_kl, of which ā_ki is `own`; the couplings of k are `count` from `from` on.
template <class T, int N, class K, class W>
DEVICE void extended_i_spread(const ExtendedI<T> &e, const Members<T, N, K, W> &m, i64 from, int count, T own, T a_ik, RowSums<T> &sums) {
    // Couplings of a lane that stay in registers.
    constexpr int KEPT = N == 1 ? 4 : 2;
    int slots[KEPT];
    T values[KEPT];
    const auto look = [&](int at, int &slot, T &value) {
        slot = -1;
        value = 0;
        if (at < count) {
            const i32 c = e.coarse[from + at];
            value = e.weights[from + at];
            slot = m.find(c < 0 ? ~c : c);
        }
    };
    Quarters<T, N> others;
    UNROLL
    for (int k = 0; k < KEPT; ++k) {
        slots[k] = -1;
        values[k] = 0;
        if (k == 0 || k * N < count) {
            look(k * N + Group<N>::rank(), slots[k], values[k]);
            others.add(slots[k] >= 0 ? values[k] : 0);
        }
    }
    for (int start = KEPT * N; start < count; start += N) {
        int slot;
        T value;
        look(start + Group<N>::rank(), slot, value);
        others.add(slot >= 0 ? value : 0);
    }
    const T all = others.sum(), sum = all + own;
    if (sum == 0) {
        sums.diagonal += a_ik;
        return;
    }
    const T share = a_ik / sum;
    sums.diagonal += times(share, own);
    sums.total += times(share, all);
    UNROLL
    for (int k = 0; k < KEPT; ++k) {
        if (slots[k] >= 0) {
            m.weight(slots[k]) += times(share, values[k]);
        }
    }
    for (int start = KEPT * N; start < count; start += N) {
        int slot;
        T value;
        look(start + Group<N>::rank(), slot, value);
        if (slot >= 0) {
            m.weight(slot) += times(share, value);
        }
    }
    m.meet();
}

// What the strong fine neighbours of the row pass on, one after the other.
template <class T, int N, class K, class W>
DEVICE void extended_i_passed_on(const ExtendedI<T> &e, i64 i, const Members<T, N, K, W> &m, RowSums<T> &sums) {
    const i64 end = e.a.offsets[i + 1];
    for (i64 start = e.a.offsets[i]; start < end; start += N) {
        const i64 at = start + Group<N>::rank();
        const bool spreads = at < end && e.kinds[at] == ENTRY_STRONG;
        i64 from = 0;
        int count = 0;
        T a_ik = 0, own = 0;
        if (spreads) {
            const i32 k = e.a.columns[at];
            from = e.a.offsets[k];
            const i32 reach = e.reach[k];
            count = reach >> 1;
            a_ik = e.a.values[at];
            own = e.back(from, e.a.offsets[k + 1], (reach & 1) != 0, static_cast<i32>(i));
        }
        for (u64 all = Group<N>::ballot(spreads); all != 0; all &= all - 1) {
            const int lane = lowest_bit(all);
            extended_i_spread(e, m, Group<N>::shuffle(from, lane), Group<N>::shuffle(count, lane), Group<N>::shuffle(own, lane),
                              Group<N>::shuffle(a_ik, lane), sums);
        }
    }
}

// Row `row` of the interpolation, that of unknown i; whether Ĉ_i fits into the table.
template <class T, int N, class K, class W>
DEVICE bool extended_i_row(const ExtendedI<T> &e, i64 i, i64 row, const Members<T, N, K, W> &m, const Target<T> &p) {
    m.clear();
    bool any;
    if (!extended_i_members(e, i, m, any)) {
        return false;
    }
    if (!any && p.mode != ROW_PATTERN) {
        if (Group<N>::rank() == 0) {
            p.count(row, 0);
        }
        return true;
    }
    RowSums<T> sums = extended_i_direct(e, i, m);
    extended_i_passed_on(e, i, m, sums);
    const T scale = sums.diagonal == 0 ? 0 : -1 / sums.diagonal;
    const T total = sums.total * scale;
    if (p.mode == ROW_PATTERN) {
        write_pattern(m, row, scale, total, p);
        return true;
    }
    const int n = m.compact(scale);
    if (p.mode == ROW_SHORT) {
        write_short(m, n, row, total, p);
    } else {
        write_long(m, n, row, total, p);
    }
    return true;
}

// At most this many members, each counted as often as it is found.
template <class T, int N> DEVICE i32 extended_i_bound(const ExtendedI<T> &e, i64 i) {
    i32 bound = 0;
    for (i64 at = e.a.offsets[i] + Group<N>::rank(); at < e.a.offsets[i + 1]; at += N) {
        const u8 kind = e.kinds[at];
        if ((kind & ENTRY_STRONG) != 0) {
            bound += (kind & ENTRY_COARSE) != 0 ? 1 : e.reach[e.a.columns[at]] >> 1;
        }
    }
    return group_sum<N>(bound);
}

// What is left over: how many rows did not fit, twice, and the largest bound of those that did not the second time.
constexpr int LEFT_FIRST = 0;
constexpr int LEFT_SECOND = 1;
constexpr int LEFT_LARGEST = 2;

// Rows with tables of SLOTS in shared memory: all of them, or those that `list` names for the second time. What does not fit, or is too long for so
// few lanes, goes to `more`.
template <class T, int N, int SLOTS>
DEVICE void extended_i_rows(i64 rows, bool again, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const Out<i32> &list,
                            const Out<i32> &more, const Out<i32> &left) {
    constexpr int GROUPS = BLOCK / N, PROBES = SLOTS < 64 ? SLOTS : 64;
    SHARED(i32, keys, GROUPS * SLOTS);
    SHARED(T, weights, GROUPS * SLOTS);
    const i64 count = again ? left[LEFT_FIRST] : rows;
    for (i64 at = global_index() / N; at < count; at += block_count() * GROUPS) {
        const i64 row = again ? list[at] : at;
        const i64 i = only.len > 0 ? only[row] : row;
        const i32 number = e.a.number[i];
        if (number >= 0) {
            if (Group<N>::rank() == 0) {
                p.identity(row, number);
            }
            continue;
        }
        bool fits = again || e.a.offsets[i + 1] - e.a.offsets[i] <= 32 * N;
        if (fits) {
            const auto table = members_of<T, N>(keys, weights, thread_index() / N * SLOTS, SLOTS, PROBES, false);
            fits = extended_i_row(e, i, row, table, p);
        }
        if (!fits) {
            const i32 bound = again ? extended_i_bound<T, N>(e, i) : 0;
            if (Group<N>::rank() == 0) {
                more[atomic_add(left[again ? LEFT_SECOND : LEFT_FIRST], 1)] = static_cast<i32>(row);
                atomic_max(left[LEFT_LARGEST], bound);
            }
        }
    }
}

// The rows of `list`, with tables of `slots` in global memory, one for each group.
template <class T, int N>
DEVICE void extended_i_far(i64 count, i32 slots, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const In<i32> &list,
                           const Out<i32> &keys, const Out<T> &weights) {
    const i64 group = global_index() / N;
    for (i64 at = group; at < count; at += block_count() * (BLOCK / N)) {
        const i64 row = list[at];
        const auto table = members_of<T, N>(keys, weights, group * slots, slots, slots, true);
        extended_i_row(e, only.len > 0 ? only[row] : row, row, table, p);
    }
}

// Rows that were written where there is room for `most` entries each, put together.
template <class T>
DEVICE void extended_i_gather(i64 rows, i32 most, const In<i32> &columns, const In<T> &values, const In<i64> &offsets, const Out<i32> &to_columns,
                              const Out<T> &to_values) {
    const i64 at = global_index(), row = at / most, entry = at % most;
    if (row < rows) {
        const i64 start = offsets[row];
        if (start + entry < offsets[row + 1]) {
            to_columns[start + entry] = columns.once(at);
            to_values[start + entry] = values.once(at);
        }
    }
}

#define EXTENDED_I_COUPLINGS(T, N) \
    KERNEL_OF(4, extended_i_couplings_##T##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, \
              In<i64> strong_offsets, In<i32> strong_columns, Out<u8> kinds, Out<i32> coarse, Out<T> weights, Out<i32> reach) { \
        extended_i_couplings<T, N>(rows, Couplings<T>{offsets, columns, values, number}, strong_offsets, strong_columns, kinds, coarse, \
                                   weights, reach); \
    }
#define EXTENDED_I_ROWS(T, N, SLOTS) \
    KERNEL_OF(4, extended_i_##T##_##N##_##SLOTS, i64 rows, i32 again, i32 mode, i32 most, f64 factor, In<i64> offsets, In<i32> columns, \
              In<T> values, In<i32> number, In<u8> kinds, In<i32> coarse, In<T> weights, In<i32> reach, In<i32> only, In<i64> to_offsets, \
              Out<i32> to_columns, Out<T> to_values, Out<i32> counts, Out<i32> list, Out<i32> more, Out<i32> left) { \
        extended_i_rows<T, N, SLOTS>(rows, again != 0, \
                                     ExtendedI<T>{Couplings<T>{offsets, columns, values, number}, kinds, coarse, weights, reach}, only, \
                                     Target<T>{mode, most, As<T>::of(factor), to_offsets, to_columns, to_values, counts}, list, more, left); \
    }
#define EXTENDED_I(T) \
    EXTENDED_I_COUPLINGS(T, 4) \
    EXTENDED_I_COUPLINGS(T, 8) \
    EXTENDED_I_COUPLINGS(T, 16) \
    EXTENDED_I_COUPLINGS(T, 32) \
    EXTENDED_I_ROWS(T, 1, 16) \
    EXTENDED_I_ROWS(T, 4, 32) \
    EXTENDED_I_ROWS(T, 8, 64) \
    EXTENDED_I_ROWS(T, 16, 128) \
    EXTENDED_I_ROWS(T, 32, 512) \
    KERNEL(extended_i_far_##T, i64 count, i32 slots, i32 mode, i32 most, f64 factor, In<i64> offsets, In<i32> columns, \
           In<T> values, In<i32> number, In<u8> kinds, In<i32> coarse, In<T> weights, In<i32> reach, In<i32> only, In<i64> to_offsets, \
           Out<i32> to_columns, Out<T> to_values, Out<i32> counts, In<i32> list, Out<i32> keys, Out<T> table_weights) { \
        extended_i_far<T, 32>(count, slots, \
                              ExtendedI<T>{Couplings<T>{offsets, columns, values, number}, kinds, coarse, weights, reach}, only, \
                              Target<T>{mode, most, As<T>::of(factor), to_offsets, to_columns, to_values, counts}, list, keys, table_weights); \
    } \
    KERNEL(extended_i_gather_##T, i64 rows, i32 most, In<i32> columns, In<T> values, In<i64> offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        extended_i_gather<T>(rows, most, columns, values, offsets, to_columns, to_values); \
    }
EXTENDED_I(f64)
EXTENDED_I(f32)
