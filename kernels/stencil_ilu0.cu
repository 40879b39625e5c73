// ILU(0) of a stencil with one unknown in each cell, with the bits of the host: the cells of one colour in each launch.
#include "grid_transfer.h"
#include "numbers.h"
#include "stencil.h"

// The order in which Gauss-Seidel solves cells.
struct CellColours {
    // Whether two colours of lines are enough; for each axis whether the last cell is a class of its own; classes of lines along y.
    i32 two;
    i32 last[3];
    i32 classes;
};

// The class of a cell along an axis.
DEVICE int class_of(const StencilShape &g, const CellColours &colours, int axis, int at) {
    const int n = g.dims[axis];
    return colours.last[axis] && n > 1 && at + 1 == n ? 2 : at % 2;
}

DEVICE int colour_of(const StencilShape &g, const CellColours &colours, const int *at) {
    const int line = colours.two ? (at[1] + at[2]) % 2 : class_of(g, colours, 1, at[1]) + colours.classes * class_of(g, colours, 2, at[2]);
    const int cell = class_of(g, colours, 0, at[0]);
    // Where the last cell is a class, it comes between the even and the odd ones.
    return colours.last[0] ? 3 * line + (cell == 0 ? 0 : 3 - cell) : 2 * line + cell;
}

// The cell that an offset leads to; false where that is outside of the grid.
DEVICE bool step_to(const StencilShape &g, int code, const int *at, int *to) {
    bool inside = true;
    UNROLL
    for (int axis = 0; axis < 3; ++axis) {
        to[axis] = grid_step(g.dims[axis], g.periodic[axis], at[axis], step_of(code, axis));
        inside = inside && to[axis] >= 0;
    }
    return inside;
}

DEVICE i64 cell_at(const i32 *dims, i64 line, const int *at) { return at[0] + line * (at[1] + static_cast<i64>(dims[1]) * at[2]); }

template <class T>
DEVICE void ilu0(i64 cells, int colour, f64 smallest, const StencilShape &g, const StencilOffsets &offsets, const StencilNumbers &numbers,
                 const CellColours &colours, const Out<T> &values, const Out<T> &inverse) {
    const i64 cell = global_index(), size = array_size(g);
    int at[3];
    point_of(g.dims, cell < cells ? cell : 0, at);
    if (cell >= cells || colour_of(g, colours, at) != colour) {
        return;
    }
    const i64 own = cell_at(g.dims, g.pitch, at);
    T row[27];
    for (int k = 0; k < offsets.count; ++k) {
        row[k] = values[k * size + own];
    }
    const int centre = numbers.of[13];
    const T diagonal = centre < 0 ? T(0) : row[centre];
    // Neighbours of earlier colours, colour after colour.
    for (int c = 0; c < colour; ++c) {
        for (int k = 0; k < offsets.count; ++k) {
            int there[3];
            if (k == centre || !step_to(g, offsets.code[k], at, there) || colour_of(g, colours, there) != c) {
                continue;
            }
            const T factor = times(row[k], inverse[cell_at(g.dims, g.dims[0], there)]);
            const i64 from = cell_at(g.dims, g.pitch, there);
            for (int k2 = 0; k2 < offsets.count; ++k2) {
                bool is_near = true;
                int code = 0;
                for (int axis = 0, unit = 1; axis < 3; ++axis, unit *= 3) {
                    const int step = step_of(offsets.code[k], axis) + step_of(offsets.code[k2], axis);
                    is_near = is_near && step >= -1 && step <= 1;
                    code += unit * (step + 1);
                }
                int to[3];
                if (is_near && numbers.of[code] >= 0 && step_to(g, offsets.code[k2], there, to) && colour_of(g, colours, to) > c) {
                    row[numbers.of[code]] -= times(factor, values[k2 * size + from]);
                }
            }
        }
    }
    if (centre >= 0) {
        // A share that is not a number is not above the bound either.
        if (!(row[centre] / diagonal > As<T>::of(smallest))) {
            row[centre] = diagonal;
        }
        inverse[cell] = diagonal == T(0) ? T(0) : T(1) / row[centre];
    }
    for (int k = 0; k < offsets.count; ++k) {
        values[k * size + own] = row[k];
    }
}

#define STENCIL_ILU0(T) \
    KERNEL(stencil_ilu0_##T, i64 cells, i32 colour, f64 smallest, StencilShape g, StencilOffsets offsets, StencilNumbers numbers, CellColours colours, \
           Out<T> values, Out<T> inverse) { \
        ilu0<T>(cells, colour, smallest, g, offsets, numbers, colours, values, inverse); \
    }
FOR_SETUP(STENCIL_ILU0)
