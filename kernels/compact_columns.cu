// 16-bit columns: offsets from the lowest column of their row, the base. Eight lanes for each row.
#include "groups.h"

constexpr int SHORTENING = 8;

// The lowest column of a row, and the highest; those of an empty row are 0.
DEVICE void column_range(i64 start, i64 end, const In<i32> &columns, i32 &low, i32 &high) {
    low = 0x7fffffff;
    high = 0;
    for (i64 k = start + Group<SHORTENING>::rank(); k < end; k += SHORTENING) {
        const i32 column = columns[k];
        low = column < low ? column : low;
        high = column > high ? column : high;
    }
    low = start < end ? Group<SHORTENING>::least(low) : 0;
    high = -Group<SHORTENING>::least(-high);
}

// Adds the number of rows whose columns span more than 16 bits to `total`. Returns at once if `longest`, if given, is more than `most`.
KERNEL(count_far_rows, i64 rows, In<i64> offsets, In<i32> columns, Out<i64> total, In<i64> longest, i64 most) {
    if (longest.len > 0 && longest[0] > most) {
        return;
    }
    const i64 row = global_index() / SHORTENING;
    const bool is_row = row < rows;
    i32 low;
    i32 high;
    column_range(is_row ? offsets[row] : 0, is_row ? offsets[row + 1] : 0, columns, low, high);
    const bool is_far = high - low > 0xffff && Group<SHORTENING>::rank() == 0;
    const u64 far = Group<WARP>::ballot(is_far);
    if (far != 0 && Group<WARP>::rank() == 0) {
        atomic_add(total[0], static_cast<i64>(count_bits(far)));
    }
}

KERNEL(compact_columns, i64 rows, In<i64> offsets, In<i32> columns, Out<i32> bases, Out<u16> to) {
    const i64 row = global_index() / SHORTENING;
    if (row >= rows) {
        return;
    }
    const i64 start = offsets[row];
    const i64 end = offsets[row + 1];
    i32 low;
    i32 high;
    column_range(start, end, columns, low, high);
    if (Group<SHORTENING>::rank() == 0) {
        bases[row] = low;
    }
    for (i64 k = start + Group<SHORTENING>::rank(); k < end; k += SHORTENING) {
        to[k] = static_cast<u16>(columns[k] - low);
    }
}
