// Stencils and transfers between grids as matrices in rows, as on the host: columns ascending. Where several offsets lead to the same column, along a
// short periodic axis, their values are added.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// Columns of a row, each with the number of its array.
struct GridRow {
    i64 column[27];
    i32 number[27];
    int count;

    // Adds an entry behind those with smaller columns, or with the same column and a smaller number.
    DEVICE void insert(i64 to, int k) {
        int at = count++;
        for (; at > 0 && (column[at - 1] > to || (column[at - 1] == to && number[at - 1] > k)); --at) {
            column[at] = column[at - 1];
            number[at] = number[at - 1];
        }
        column[at] = to;
        number[at] = k;
    }

    DEVICE bool is_new(int k) const { return k == 0 || column[k] != column[k - 1]; }

    DEVICE int columns() const {
        int all = 0;
        for (int k = 0; k < count; ++k) {
            all += is_new(k) ? 1 : 0;
        }
        return all;
    }
};

DEVICE GridRow row_of(const StencilShape &g, const StencilOffsets &offsets, i64 cell) {
    GridRow row;
    row.count = 0;
    int at[3];
    point_of(g.dims, cell, at);
    for (int k = 0; k < offsets.count; ++k) {
        const i64 to = neighbour(g, offsets.code[k], at);
        if (to >= 0) {
            row.insert(to, k);
        }
    }
    return row;
}

KERNEL(stencil_row_counts, i64 cells, StencilShape g, StencilOffsets offsets, Out<i32> counts) {
    const i64 cell = global_index();
    if (cell < cells) {
        counts[cell] = row_of(g, offsets, cell).columns();
    }
}

#define STENCIL_ROWS(T) \
    KERNEL(stencil_rows_##T, i64 cells, StencilShape g, StencilOffsets offsets, In<T> values, In<i64> starts, Out<i32> columns, Out<T> rows) { \
        const i64 cell = global_index(); \
        if (cell < cells) { \
            const GridRow row = row_of(g, offsets, cell); \
            const i64 size = array_size(g), own = place_of(g, cell); \
            const int width = g.block * g.block; \
            i64 to = starts[cell] - 1; \
            for (int k = 0; k < row.count; ++k) { \
                to += row.is_new(k) ? 1 : 0; \
                columns[to] = static_cast<i32>(row.column[k]); \
                for (int e = 0; e < width; ++e) { \
                    const T value = values[(static_cast<i64>(row.number[k]) * width + e) * size + own]; \
                    rows[to * width + e] = row.is_new(k) ? value : As<T>::of(to_f64(rows[to * width + e]) + to_f64(value)); \
                } \
            } \
        } \
    } \
    /* The diagonal blocks alone, as a matrix. */ \
    KERNEL(stencil_diagonal_##T, i64 cells, StencilShape g, i32 centre, In<T> values, Out<i64> starts, Out<i32> columns, Out<T> rows) { \
        const i64 cell = global_index(); \
        if (cell <= cells) { \
            starts[cell] = cell; \
        } \
        if (cell < cells) { \
            columns[cell] = static_cast<i32>(cell); \
            const i64 size = array_size(g), own = place_of(g, cell); \
            const int width = g.block * g.block; \
            for (int e = 0; e < width; ++e) { \
                rows[cell * width + e] = centre < 0 ? T(0) : values[(static_cast<i64>(centre) * width + e) * size + own]; \
            } \
        } \
    }
FOR_SETUP(STENCIL_ROWS)

// The coarse cells that a fine one interpolates from.
DEVICE GridRow parents_of(const TransferShape &g, i64 cell) {
    GridRow row;
    row.count = 0;
    int at[3], d[3];
    point_of(g.fine, cell, at);
    for (int w = 0; w < 2; ++w) {
        const int z = parent(g, 2, at[2], w, d[2]);
        for (int v = 0; z >= 0 && v < 2; ++v) {
            const int y = parent(g, 1, at[1], v, d[1]);
            for (int u = 0; y >= 0 && u < 2; ++u) {
                const int x = parent(g, 0, at[0], u, d[0]);
                if (x >= 0) {
                    row.insert(x + g.coarse[0] * (y + static_cast<i64>(g.coarse[1]) * z), number_of(g, d[0], d[1], d[2]));
                }
            }
        }
    }
    return row;
}

// Rows are scalar: one for each unknown of each fine cell.
KERNEL(grid_transfer_counts, i64 rows, TransferShape g, Out<i32> counts) {
    const i64 row = global_index();
    if (row < rows) {
        counts[row] = parents_of(g, row / g.block).count;
    }
}

#define TRANSFER_ROWS(T) \
    KERNEL(grid_transfer_rows_##T, i64 rows, TransferShape g, In<T> weights, In<i64> starts, Out<i32> columns, Out<T> values) { \
        const i64 row = global_index(); \
        if (row < rows) { \
            const GridRow parents = parents_of(g, row / g.block); \
            const int c = static_cast<int>(row % g.block); \
            for (int k = 0; k < parents.count; ++k) { \
                columns[starts[row] + k] = static_cast<i32>(parents.column[k] * g.block + c); \
                values[starts[row] + k] = weights[(static_cast<i64>(parents.number[k]) * g.block + c) * coarse_cells(g) + parents.column[k]]; \
            } \
        } \
    }
FOR_SETUP(TRANSFER_ROWS)
