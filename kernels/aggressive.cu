// Aggressive coarsening: the graph of coarse unknowns that are connected by one or two strong couplings, as a product
// L R, and the unknowns that a second splitting leaves. A row of L has a coarse unknown and its strong neighbours; a
// row of R has the coarse ones among the strong neighbours of any unknown; their values are ones. Each kernel runs
// twice: first to count, without `offsets`, then to write.
#include "portability.h"


KERNEL(aggressive_left, i64 rows, In<i64> strong_offsets, In<i32> strong_columns, In<i32> number, In<i64> offsets, Out<i32> columns,
       Out<f32> values, Out<i32> counts) {
    const i64 i = global_index();
    if (i >= rows || number[i] < 0) {
        return;
    }
    const i64 begin = strong_offsets[i], end = strong_offsets[i + 1];
    if (offsets.len == 0) {
        counts[number[i]] = static_cast<i32>(1 + end - begin);
        return;
    }
    const i64 to = offsets[number[i]];
    columns[to] = static_cast<i32>(i);
    values[to] = 1;
    for (i64 k = begin; k < end; ++k) {
        columns[to + 1 + k - begin] = strong_columns[k];
        values[to + 1 + k - begin] = 1;
    }
}

KERNEL(aggressive_right, i64 rows, In<i64> strong_offsets, In<i32> strong_columns, In<i32> number, In<i64> offsets, Out<i32> columns,
       Out<f32> values, Out<i32> counts) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const i64 start = offsets.len == 0 ? 0 : offsets[i];
    i32 count = 0;
    for (i64 k = strong_offsets[i]; k < strong_offsets[i + 1]; ++k) {
        const i32 c = number[strong_columns[k]];
        if (c >= 0) {
            if (offsets.len > 0) {
                columns[start + count] = c;
                values[start + count] = 1;
            }
            ++count;
        }
    }
    if (offsets.len == 0) {
        counts[i] = count;
    }
}

// Removes edges from an unknown to itself.
KERNEL(aggressive_strip, i64 rows, In<i64> from_offsets, In<i32> from_columns, In<i64> offsets, Out<i32> columns, Out<i32> counts) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const i64 start = offsets.len == 0 ? 0 : offsets[i];
    i32 count = 0;
    for (i64 k = from_offsets[i]; k < from_offsets[i + 1]; ++k) {
        const i32 j = from_columns[k];
        if (j != i) {
            if (offsets.len > 0) {
                columns[start + count] = j;
            }
            ++count;
        }
    }
    if (offsets.len == 0) {
        counts[i] = count;
    }
}

// 1 for the unknowns that stay coarse: those of the second splitting, and those without a coarse unknown in reach.
KERNEL(aggressive_thin, i64 rows, In<i32> number, In<i64> far_offsets, In<u8> chosen, Out<u8> stays) {
    const i64 i = global_index();
    if (i < rows) {
        const i32 c = number[i];
        stays[i] = c >= 0 && (chosen[c] != 0 || far_offsets[c] == far_offsets[c + 1]);
    }
}
