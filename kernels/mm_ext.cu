// The factors of extended and extended+i interpolation in matrix-matrix form; see src/host/mm_ext.rs. They are
// computed from the couplings that `extended_i_couplings` stored. Each kernel runs twice: first to count, without
// offsets, then to write.
#include "extended_i.h"

// R and its row sums: the strong couplings of fine unknowns to coarse ones, and the identity. A thread for each row.
template <class T>
DEVICE void mm_ext_right(i64 rows, const In<i64> &offsets, const In<i32> &number, const In<i32> &coarse, const In<T> &weights,
                         const In<i64> &heads, const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<T> &to_values,
                         const Out<i32> &counts, const Out<T> &beta) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const bool writes = to_offsets.len > 0, is_fine = number[i] < 0;
    const i64 to = writes ? to_offsets[i] : 0;
    if (writes && !is_fine) {
        to_columns[to] = number[i];
        to_values[to] = 1;
    }
    int count = is_fine ? 0 : 1;
    T sum = 0;
    for (i64 at = offsets[i], end = is_fine ? at + strong_of(heads[HEAD * i]) : at; at < end; ++at) {
        const i32 c = coarse[at];
        const T v = weights[at];
        if (v != 0) {
            if (writes) {
                to_columns[to + count] = c;
                to_values[to + count] = v;
            }
            sum += v;
            ++count;
        }
    }
    if (!writes) {
        counts[i] = count;
        beta[i] = sum;
    }
}

// L: the couplings of an unknown to its coarse neighbours and through its fine neighbours. A tile of lanes for each
// row.
template <class T, int N>
DEVICE void mm_ext_left(i64 rows, bool plus_i, const Entries<T> &a, const In<u8> &kinds, const In<i64> &heads, const In<T> &beta,
                        const In<i32> &only, const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<T> &to_values,
                        const Out<i32> &counts) {
    const i64 row = global_index() / N;
    const bool writes = to_offsets.len > 0, is_row = row < rows;
    const i64 i = !is_row ? 0 : only.len > 0 ? only[row] : row;
    const bool is_fine = is_row && a.number[i] < 0;
    const i64 begin = is_fine ? a.offsets[i] : 0, end = is_fine ? a.offsets[i + 1] : 0;
    const bool is_positive = is_fine && (heads[HEAD * i] & 1) != 0;
    // The part of an entry that belongs to the diagonal, and b_ik, which is 0 if it is no entry of L.
    const auto visit = [&](i64 at, i32 &k, T &a_ik, T &b_ik) {
        k = a.columns[at];
        a_ik = a.values[at];
        b_ik = 0;
        const u8 kind = kinds[at];
        if ((kind & ENTRY_STRONG) == 0 || (a_ik < 0) != is_positive) {
            return a_ik;
        }
        if ((kind & ENTRY_COARSE) != 0) {
            return T(0);
        }
        T a_ki = 0;
        if (plus_i) {
            const i64 from = a.offsets[k], upto = a.offsets[k + 1];
            const i64 found = position_of(static_cast<i32>(i), a.columns, from, upto, upto - 1 - (at - begin));
            const T v = found < 0 ? 0 : a.values[found];
            a_ki = found >= 0 && (kinds[found] & ENTRY_STRONG) != 0 && (v < 0) == ((heads[HEAD * static_cast<i64>(k)] & 1) != 0) ? v : 0;
        }
        b_ik = beta[k] + a_ki;
        return b_ik == 0 ? a_ik : times(a_ik, a_ki) / b_ik;
    };
    InterleavedSum<T, N> diagonal;
    int count = 1;
    for (i64 start = begin; Tile<N>::any(start < end); start += N) {
        const i64 at = start + Tile<N>::rank();
        i32 k;
        T a_ik, b_ik = 0;
        diagonal.add(at < end ? visit(at, k, a_ik, b_ik) : 0);
        count += count_bits(Tile<N>::ballot(b_ik != 0));
    }
    if (!writes) {
        if (is_row && Tile<N>::rank() == 0) {
            counts[row] = count;
        }
        return;
    }
    const T pivot = diagonal.sum(), scale = !is_fine ? 1 : pivot == 0 ? 0 : -1 / pivot;
    i64 to = is_row ? to_offsets[row] : 0;
    if (is_row && Tile<N>::rank() == 0) {
        to_columns[to] = static_cast<i32>(i);
        to_values[to] = scale;
    }
    ++to;
    for (i64 start = begin; Tile<N>::any(start < end); start += N) {
        const i64 at = start + Tile<N>::rank();
        i32 k = 0;
        T a_ik = 0, b_ik = 0;
        if (at < end) {
            visit(at, k, a_ik, b_ik);
        }
        const u64 all = Tile<N>::ballot(b_ik != 0);
        if (b_ik != 0) {
            to_columns[to + Tile<N>::rank_among(all)] = k;
            to_values[to + Tile<N>::rank_among(all)] = a_ik / b_ik * scale;
        }
        to += count_bits(all);
    }
}

#define MM_EXT_LEFT(T, N) \
    KERNEL(mm_ext_left_##T##_##N, i64 rows, i32 plus_i, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, \
           In<i64> heads, In<T> beta, In<i32> only, In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, Out<i32> counts) { \
        mm_ext_left<T, N>(rows, plus_i != 0, Entries<T>{offsets, columns, values, number}, kinds, heads, beta, only, to_offsets, to_columns, \
                          to_values, counts); \
    }
#define MM_EXT(T) \
    KERNEL(mm_ext_right_##T, i64 rows, In<i64> offsets, In<i32> number, In<i32> coarse, In<T> weights, In<i64> heads, In<i64> to_offsets, \
           Out<i32> to_columns, Out<T> to_values, Out<i32> counts, Out<T> beta) { \
        mm_ext_right<T>(rows, offsets, number, coarse, weights, heads, to_offsets, to_columns, to_values, counts, beta); \
    } \
    MM_EXT_LEFT(T, 8) \
    MM_EXT_LEFT(T, 32)
MM_EXT(f64)
MM_EXT(f32)
