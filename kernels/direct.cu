// Direct interpolation; see src/host/direct.rs. A tile of lanes writes the weights of a row, not yet truncated, from
// the begin of the matrix row on, with space for one entry more in each row.
#include "strong_entries.h"

// The factor from a coupling to C_i to its weight, for one sign: the sum of all couplings over the sum of those to
// C_i, and over the diagonal.
template <class T> DEVICE T direct_scale(T all, T coarse, T diagonal) {
    return coarse == 0 || diagonal == 0 ? 0 : -all / coarse / diagonal;
}

template <class T, int N>
DEVICE void direct_rows(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<i32> &number,
                        const In<i64> &strong_offsets, const In<i32> &strong_columns, const Out<i32> &to_columns, const Out<T> &to_values,
                        const Out<i32> &lengths) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows, is_fine = is_row && number[i] < 0;
    const i64 begin = is_row ? offsets[i] : 0, end = is_fine ? offsets[i + 1] : begin, to = begin + i;
    if (is_row && !is_fine && Tile<N>::rank() == 0) {
        to_columns[to] = number[i];
        to_values[to] = 1;
        lengths[i] = 1;
    }
    StrongRow<N> strong{is_fine ? strong_offsets[i] : 0, is_fine ? strong_offsets[i + 1] : 0};
    InterleavedSum<T, N> diagonal, negative, negative_coarse, positive, positive_coarse;
    int count = 0;
    for (i64 start = begin; Tile<N>::any(start < end); start += N) {
        const i64 at = start + Tile<N>::rank();
        const i32 j = at < end ? columns[at] : -1;
        const T v = at < end ? values[at] : 0;
        const i32 c = j >= 0 ? number[j] : -1;
        const bool is_strong = strong.next(strong_columns, j), is_other = j >= 0 && j != i, is_member = is_other && is_strong && c >= 0;
        diagonal.add(j == i ? v : 0);
        negative.add(is_other && v < 0 ? v : 0);
        positive.add(is_other && !(v < 0) ? v : 0);
        negative_coarse.add(is_member && v < 0 ? v : 0);
        positive_coarse.add(is_member && !(v < 0) ? v : 0);
        const u64 all = Tile<N>::ballot(is_member);
        if (is_member) {
            const i64 place = to + count + Tile<N>::rank_among(all);
            to_columns[place] = c;
            to_values[place] = v;
        }
        count += count_bits(all);
    }
    const T minus = negative.sum(), minus_coarse = negative_coarse.sum(), plus = positive.sum(), plus_coarse = positive_coarse.sum();
    T pivot = diagonal.sum();
    pivot = minus_coarse == 0 ? pivot + minus : pivot;
    pivot = plus_coarse == 0 ? pivot + plus : pivot;
    const T for_minus = direct_scale(minus, minus_coarse, pivot), for_plus = direct_scale(plus, plus_coarse, pivot);
    Tile<N>::barrier();
    for (int k = Tile<N>::rank(); k < count; k += N) {
        const T v = to_values[to + k];
        to_values[to + k] = v * (v < 0 ? for_minus : for_plus);
    }
    if (is_fine && Tile<N>::rank() == 0) {
        lengths[i] = count;
    }
}

#define DIRECT(T, N) \
    KERNEL(direct_##T##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<i64> strong_offsets, \
           In<i32> strong_columns, Out<i32> to_columns, Out<T> to_values, Out<i32> lengths) { \
        direct_rows<T, N>(rows, offsets, columns, values, number, strong_offsets, strong_columns, to_columns, to_values, lengths); \
    }
DIRECT(f64, 8)
DIRECT(f64, 32)
DIRECT(f32, 8)
DIRECT(f32, 32)
