// Matrices in rows on a structured grid as stencils.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// Entries of a row that a sample has room for: those of a stencil, and one more.
constexpr i64 SAMPLED = 28;

// For some rows the number of their entries, and the columns of the first ones.
KERNEL(sample_rows, i64 count, In<i64> rows, In<i64> offsets, In<i32> columns, Out<i32> sample) {
    const i64 i = global_index(), slot = i % (SAMPLED + 1), which = i / (SAMPLED + 1);
    if (which < count) {
        const i64 first = offsets[rows[which]], entries = offsets[rows[which] + 1] - first;
        if (slot == 0) {
            sample[i] = static_cast<i32>(entries < SAMPLED ? entries : SAMPLED);
        } else {
            sample[i] = slot <= entries ? columns[first + slot - 1] : -1;
        }
    }
}

// The values of a cell by offsets, from a row whose columns ascend. Sets `flag` where the row has an entry that the stencil has not. No axis is periodic.
template <class T>
DEVICE void stencil_of_rows(
    i64 cells, const StencilShape &g, const StencilNumbers &numbers, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<T> &to, const Out<i32> &flag
) {
    const i64 cell = global_index();
    if (cell >= cells) {
        return;
    }
    int at[3];
    point_of(g.dims, cell, at);
    const Neighbours near(g, at, g.dims[0]);
    const i64 own = place_of(g, cell), size = array_size(g), end = offsets[cell + 1];
    const int width = g.block * g.block;
    i64 p = offsets[cell];
    UNROLL
    for (int code = 0; code < 27; ++code) {
        const int k = numbers.of[code];
        if (k < 0) {
            continue;
        }
        const bool here = near[code] >= 0 && p < end && columns[p] == near[code];
        for (int e = 0; e < width; ++e) {
            to[(static_cast<i64>(k) * width + e) * size + own] = here ? values[p * width + e] : T(0);
        }
        p += here ? 1 : 0;
    }
    if (p < end) {
        flag[0] = 1;
    }
}

#define STENCIL_OF_ROWS(T) \
    KERNEL(stencil_of_rows_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<i64> offsets, In<i32> columns, In<T> values, Out<T> to, Out<i32> flag) { \
        stencil_of_rows<T>(cells, g, numbers, offsets, columns, values, to, flag); \
    }
FOR_SETUP(STENCIL_OF_ROWS)
