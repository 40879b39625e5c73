// Matrices in rows on a structured grid as stencils.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// Entries of a row that a sample holds: those of a stencil, and one more.
constexpr i64 SAMPLED = 28;

// For some rows the number of their entries, and columns and values of the first ones; of blocks their first entry.
template <class T>
DEVICE void sample_rows(
    i64 count, i32 width, const In<i64> &rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<i32> &lengths, const Out<i32> &sampled, const Out<f64> &numbers
) {
    const i64 i = global_index(), slot = i % SAMPLED, which = i / SAMPLED;
    if (which >= count) {
        return;
    }
    const i64 first = offsets[rows[which]], entries = offsets[rows[which] + 1] - first;
    if (slot == 0) {
        lengths[which] = static_cast<i32>(entries < SAMPLED ? entries : SAMPLED);
    }
    sampled[i] = slot < entries ? columns[first + slot] : -1;
    numbers[i] = slot < entries ? to_f64(values[(first + slot) * width]) : 0.0;
}

// Rows of a block of threads, and entries that it stages in shared memory.
constexpr int ROWS = BLOCK / 2, STAGED_ENTRIES = ROWS * 27;

// The values of a cell by offsets, from a row whose columns ascend and whose entries are p to end of these arrays. Whether it has no entry that the
// stencil has not. No axis is periodic.
template <class T, class Columns, class Values>
DEVICE bool stencil_of_row(i64 cell, const StencilShape &g, int width, const StencilNumbers &numbers, i64 p, i64 end, const Columns &columns, const Values &values, const Out<T> &to) {
    int at[3];
    point_of(g.dims, cell, at);
    const Neighbours near(g, at, g.dims[0]);
    const i64 own = place_of(g, cell), size = array_size(g);
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
    return p == end;
}

// A stencil of a matrix in rows. Sets `flag` where that has other entries.
template <class T>
DEVICE void stencil_of_rows(
    i64 cells, const StencilShape &g, const StencilNumbers &numbers, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<T> &to, const Out<i32> &flag
) {
    const i64 cell = global_index();
    if (cell < cells && !stencil_of_row(cell, g, g.block * g.block, numbers, offsets[cell], offsets[cell + 1], columns, values, to)) {
        flag[0] = 1;
    }
}

// The same for long rows of scalars, by way of shared memory, so that neighbouring threads load neighbouring entries.
template <class T>
DEVICE void stencil_of_long_rows(
    i64 cells, const StencilShape &g, const StencilNumbers &numbers, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<T> &to, const Out<i32> &flag
) {
    SHARED(i32, staged_columns, STAGED_ENTRIES);
    SHARED(T, staged_values, STAGED_ENTRIES);
    const i64 first_row = block_index() * ROWS, last_row = first_row + ROWS < cells ? first_row + ROWS : cells;
    const i64 first = offsets[first_row], last = offsets[last_row];
    const bool fits = last - first <= STAGED_ENTRIES;
    for (i64 p = first + thread_index(); fits && p < last; p += BLOCK) {
        staged_columns[p - first] = columns[p];
        staged_values[p - first] = values[p];
    }
    barrier();
    const i64 cell = first_row + thread_index();
    if (thread_index() >= ROWS || cell >= last_row) {
        return;
    }
    if (!fits || !stencil_of_row(cell, g, 1, numbers, offsets[cell] - first, offsets[cell + 1] - first, staged_columns, staged_values, to)) {
        flag[0] = 1;
    }
}

#define STENCIL_OF_ROWS(T) \
    KERNEL(sample_rows_##T, i64 count, i32 width, In<i64> rows, In<i64> offsets, In<i32> columns, In<T> values, Out<i32> lengths, Out<i32> sampled, Out<f64> numbers) { \
        sample_rows<T>(count, width, rows, offsets, columns, values, lengths, sampled, numbers); \
    } \
    KERNEL(stencil_of_rows_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<i64> offsets, In<i32> columns, In<T> values, Out<T> to, Out<i32> flag) { \
        stencil_of_rows<T>(cells, g, numbers, offsets, columns, values, to, flag); \
    } \
    KERNEL(stencil_of_long_rows_##T, i64 cells, StencilShape g, StencilNumbers numbers, In<i64> offsets, In<i32> columns, In<T> values, Out<T> to, Out<i32> flag) { \
        stencil_of_long_rows<T>(cells, g, numbers, offsets, columns, values, to, flag); \
    }
FOR_SETUP(STENCIL_OF_ROWS)
