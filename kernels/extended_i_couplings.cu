// Couplings of each fine unknown to coarse ones, which extended+i interpolation reads of its neighbours: a small part
// of a row.
#include "extended_i.h"

// Entry flags, bitmaps and couplings of all fine rows. A tile of lanes for each row.
template <class T, int N>
DEVICE void extended_i_couplings(i64 rows, const Entries<T> &a, const In<i64> &strong_offsets, const In<i32> &strong_columns, const Out<u8> &kinds,
                                 const Out<u64> &fine, const Couplings<T> &to) {
    const i64 k = global_index() / N;
    const int rank = Tile<N>::rank();
    const bool is_fine = k < rows && a.number[k] < 0;
    const i64 begin = is_fine ? a.offsets[k] : 0, end = is_fine ? a.offsets[k + 1] : 0;
    const i64 strong_begin = is_fine ? strong_offsets[k] : 0, strong_end = is_fine ? strong_offsets[k + 1] : 0;
    // Most diagonals are positive, and in many rows all other entries are strong. This is assumed, and a row for
    // which it is wrong is repeated.
    bool is_positive = true, all_strong = strong_end - strong_begin == end - begin - 1;
    int strongs, weaks, diagonal;
    InterleavedSum<T, N> sum;
    ROLLED
    for (bool is_so = false; !is_so;) {
        StrongRow<N> strong{strong_begin, strong_end};
        const bool searches = Tile<N>::any(is_fine && !all_strong);
        bool has_positive = false;
        diagonal = -1;
        u64 word = 0;
        strongs = weaks = 0;
        sum = InterleavedSum<T, N>{};
        ROLLED
        for (i64 start = begin; Tile<N>::any(start < end); start += N) {
            const i64 at = start + rank;
            const i32 l = at < end ? a.columns[at] : -1;
            const T v = at < end ? a.values[at] : 0;
            const i32 number = l >= 0 ? a.number[l] : -1;
            const bool found = searches && strong.next(strong_columns, l);
            const bool is_strong = all_strong ? l >= 0 && l != k : found;
            const bool counts = (v < 0) == is_positive;
            diagonal = l >= 0 && l == k ? static_cast<int>(at - begin) : diagonal;
            has_positive = has_positive || (l == k && v > 0);
            if (l >= 0) {
                kinds[at] = (is_strong ? ENTRY_STRONG : 0) | (number >= 0 ? ENTRY_COARSE : 0);
            }
            const int bit = static_cast<int>(start - begin) % WORD;
            word = (bit == 0 ? 0 : word) | Tile<N>::ballot(is_strong && number < 0) << bit;
            if (rank == 0 && start < end && (bit + N == WORD || start + N >= end)) {
                fine[first_word(k, begin) + (start - begin) / WORD] = word;
            }
            const bool is_one = number >= 0 && is_strong, is_weak = number >= 0 && !is_strong && counts;
            const T coupling = counts ? v : 0;
            const u64 all = Tile<N>::ballot(is_one), all_weak = Tile<N>::ballot(is_weak);
            if (is_one || is_weak) {
                const int position = is_one ? strongs + Tile<N>::rank_among(all) : weaks + Tile<N>::rank_among(all_weak);
                const bool is_packed = position < PACKED && (is_one ? 0 : 1) < to.kinds;
                const i64 there = is_packed ? to.packed(k, is_one ? 0 : 1) + position : is_one ? begin + position : end - 1 - position;
                (is_packed ? to.packed_columns : to.columns)[there] = number;
                (is_packed ? to.packed_values : to.values)[there] = coupling;
            }
            sum.add(is_one ? coupling : 0);
            strongs += count_bits(all);
            weaks += count_bits(all_weak);
        }
        diagonal = tile_max<N>(diagonal);
        has_positive = Tile<N>::ballot(has_positive) != 0;
        is_so = !Tile<N>::any(is_fine && (has_positive != is_positive || (all_strong && diagonal < 0)));
        is_positive = has_positive;
        all_strong = all_strong && diagonal >= 0;
    }
    const T part = sum.sum();
    diagonal = diagonal < 0 ? 0 : diagonal;
    const int kind = rank / PACKED, position = rank % PACKED;
    if (is_fine && kind < to.kinds && position >= (kind == 0 ? strongs : weaks)) {
        to.packed_columns[to.packed(k, kind) + position] = COUPLING_NONE;
        to.packed_values[to.packed(k, kind) + position] = 0;
    }
    if (is_fine && rank == 0) {
        to.heads.put(HEAD * k, Pack<i64, 2>{reach_of(strongs, weaks, is_positive), bits_of(As<f64>::of(part))});
        to.heads.put(HEAD * k + 2, Pack<i64, 2>{begin, static_cast<i64>(diagonal) << 32 | (end - begin)});
    }
}

// Compacts rows that were written with space for `most` entries each.
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
    KERNEL_OF(5, extended_i_couplings_##T##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, \
              In<i64> strong_offsets, In<i32> strong_columns, Out<u8> kinds, Out<u64> fine, EXTENDED_I_COUPLED(T)) { \
        extended_i_couplings<T, N>(rows, Entries<T>{offsets, columns, values, number}, strong_offsets, strong_columns, kinds, fine, \
                                   EXTENDED_I_COUPLINGS_OF(T)); \
    }
#define EXTENDED_I_FOR(T) \
    EXTENDED_I_COUPLINGS(T, 8) \
    EXTENDED_I_COUPLINGS(T, 32) \
    KERNEL(extended_i_gather_##T, i64 rows, i32 most, In<i32> columns, In<T> values, In<i64> offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        extended_i_gather<T>(rows, most, columns, values, offsets, to_columns, to_values); \
    }
EXTENDED_I_FOR(f64)
EXTENDED_I_FOR(f32)
