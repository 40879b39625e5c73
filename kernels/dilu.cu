// The pivots of DILU for the rows of one colour, as in src/host/dilu.rs: a group of lanes for each row. Rows of a colour are not coupled, so that
// none reads what another one writes.
#include "groups.h"
#include "strong_entries.h"

// Lanes for a row, as in src/gpu/setup/dilu.rs.
constexpr int DILU_LANES = 8;

// Rows `first` to `first + count` of those in the order of the colours. `done` tells which rows are of earlier colours.
template <class T>
DEVICE void dilu_pivots(i64 first, i64 count, f64 smallest, const In<i32> &rows, const In<i64> &offsets, const In<i32> &columns,
                        const In<T> &values, const Out<i32> &done, const Out<T> &inverse, const Out<T> &lost) {
    using Lanes = Group<DILU_LANES>;
    const i64 position = global_index() / DILU_LANES;
    if (position >= count) {
        return;
    }
    const i32 row = rows[first + position];
    const i64 end = offsets[row + 1];
    T own = 0;
    T sum = 0;
    bool is_positive = false;
    bool is_negative = false;
    for (i64 base = offsets[row]; base < end; base += DILU_LANES) {
        const i64 k = base + Lanes::rank();
        T term = 0;
        if (k < end && columns[k] == row) {
            own = values[k];
        } else if (k < end) {
            const i32 column = columns[k];
            const T value = values[k];
            is_positive = is_positive || value > 0;
            is_negative = is_negative || value < 0;
            if (done[column] != 0) {
                const i64 back = position_of(row, columns, offsets[column], offsets[column + 1], -1);
                term = back >= 0 ? times(times(value, inverse[column]), values[back]) : 0;
            }
        }
        // In the order of the entries; the zeros of other lanes change no sum.
        UNROLL
        for (int lane = 0; lane < DILU_LANES; ++lane) {
            sum += Lanes::shuffle(term, lane);
        }
    }
    const bool has_positive = Lanes::ballot(is_positive) != 0;
    const bool has_negative = Lanes::ballot(is_negative) != 0;
    own = group_sum<DILU_LANES>(own);
    if (Lanes::rank() != 0) {
        return;
    }
    if (own != 0) {
        const bool is_large = (own - sum) / own > static_cast<T>(smallest);
        const bool is_of_m_matrix = own > 0 ? !has_positive : !has_negative;
        sum = is_large && is_of_m_matrix ? sum : 0;
        inverse[row] = 1 / (own - sum);
        lost[row] = sum;
    }
    done[row] = 1;
}

#define DILU(T) \
    KERNEL(dilu_pivots_##T, i64 first, i64 count, f64 smallest, In<i32> rows, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<i32> done, Out<T> inverse, Out<T> lost) { \
        dilu_pivots<T>(first, count, smallest, rows, offsets, columns, values, done, inverse, lost); \
    }
DILU(f64)
DILU(f32)
