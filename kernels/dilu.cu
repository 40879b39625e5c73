// The pivots of DILU for the rows of one colour, as in src/host/dilu.rs: a thread for each row. Rows of a colour are not coupled, so that none reads
// what another one writes.
#include "numbers.h"

// Rows `first` to `first + count` of those in the order of the colours. `done` tells which rows are of earlier colours.
template <class T>
DEVICE void dilu_pivots(i64 first, i64 count, f64 smallest, const In<i32> &rows, const In<i64> &offsets, const In<i32> &columns,
                        const In<T> &values, const Out<i32> &done, const Out<T> &inverse, const Out<T> &lost) {
    const i64 position = global_index();
    if (position >= count) {
        return;
    }
    const i64 row = rows[first + position];
    T own = 0;
    T sum = 0;
    bool has_positive = false;
    bool has_negative = false;
    for (i64 k = offsets[row]; k < offsets[row + 1]; ++k) {
        const i64 column = columns[k];
        if (column == row) {
            own = values[k];
            continue;
        }
        has_positive = has_positive || values[k] > 0;
        has_negative = has_negative || values[k] < 0;
        if (done[column] != 0) {
            T back = 0;
            for (i64 p = offsets[column]; p < offsets[column + 1]; ++p) {
                if (columns[p] == row) {
                    back = values[p];
                    break;
                }
            }
            sum += values[k] * inverse[column] * back;
        }
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
