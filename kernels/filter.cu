// The filtered matrix of smoothed aggregation.
#include "groups.h"
#include "numbers.h"

constexpr i32 NO_COLUMN = -1;

// The filtered matrix: weak couplings are dropped and added to the diagonal. N lanes for a row. Strong couplings are
// in the order of A's row.
template <class T, int N>
DEVICE void filter_rows(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                        const In<i64> &strong_offsets, const In<i32> &strong_columns, const Out<i64> &to_offsets,
                        const Out<i32> &to_columns, const Out<T> &to_values) {
    using Lanes = Group<N>;
    const i64 row = global_index() / N;
    if (row > rows) {
        return;
    }
    const int rank = Lanes::rank();
    i64 next = strong_offsets[row];
    const i64 first = next + row;
    if (rank == 0) {
        to_offsets[row] = first;
    }
    if (row == rows) {
        return;
    }
    const i64 strong_end = strong_offsets[row + 1];
    const i64 end = offsets[row + 1];
    i64 to = first;
    // A missing diagonal is stored last.
    i64 slot = strong_end + row;
    T diagonal = 0;
    for (i64 base = offsets[row]; base < end; base += N) {
        const i64 k = base + rank;
        const i32 column = k < end ? columns.once(k) : NO_COLUMN;
        const T value = k < end ? values.once(k) : T(0);
        const i32 candidate = next + rank < strong_end ? strong_columns[next + rank] : NO_COLUMN;
        bool strong = false;
        UNROLL
        for (int m = 0; m < N; ++m) {
            const i32 other = Lanes::shuffle(candidate, m);
            strong = strong || other == column;
        }
        strong = strong && column != NO_COLUMN;
        const bool own = column == row;
        const T weak = strong ? T(0) : value;
        UNROLL
        for (int m = 0; m < N; ++m) {
            diagonal += Lanes::shuffle(weak, m);
        }
        const u64 kept = Lanes::ballot(strong || own);
        const i64 at = to + rank_among<N>(kept);
        if (strong) {
            to_columns[at] = column;
            to_values[at] = value;
        }
        const u64 here = Lanes::ballot(own);
        slot = here != 0 ? Lanes::shuffle(at, lowest_bit(here)) : slot;
        to += count_bits(kept);
        next += count_bits(Lanes::ballot(strong));
    }
    if (rank == 0) {
        to_columns[slot] = static_cast<i32>(row);
        to_values[slot] = diagonal;
    }
}

#define FILTER_ROWS(T, N) \
    KERNEL(filter_rows_##T##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i64> strong_offsets, \
           In<i32> strong_columns, Out<i64> to_offsets, Out<i32> to_columns, Out<T> to_values) { \
        filter_rows<T, N>(rows, offsets, columns, values, strong_offsets, strong_columns, to_offsets, to_columns, to_values); \
    }
#define FILTER_ROWS_(T) FILTER_ROWS(T, 8) FILTER_ROWS(T, 32)
FOR_SETUP(FILTER_ROWS_)
