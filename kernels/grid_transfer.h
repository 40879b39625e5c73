// Transfers between a grid and a coarser one, as stencils: one array over the coarse cells for each step to a fine cell and each unknown.
#pragma once
#include "portability.h"

struct TransferShape {
    // Cells of the finer and the coarser grid along x, y and z.
    i32 fine[3];
    i32 coarse[3];
    i32 periodic[3];
    // Axes along which the coarser grid is coarser.
    i32 axes[3];
    // The smallest step from a coarse cell to a fine one: 0 or -1.
    i32 low;
    // Unknowns of a cell.
    i32 block;
};

// Steps along an axis, and the number of a step among them.
DEVICE int steps_along(const TransferShape &g, int axis) { return g.axes[axis] ? 2 - g.low : 1; }
DEVICE int step_number(const TransferShape &g, int axis, int d) { return g.axes[axis] ? d - g.low : 0; }

// Coarse cell `which`, 0 or 1, that a fine one interpolates from along an axis, and the step from there; -1 where there is none.
DEVICE int parent(const TransferShape &g, int axis, int fine, int which, int &d) {
    d = 0;
    if (!g.axes[axis] || fine % 2 == 0) {
        const int own = g.axes[axis] ? fine / 2 : fine;
        return which == 0 ? own : -1;
    }
    d = which == 0 ? 1 : -1;
    if (which == 0) {
        return fine / 2;
    }
    if (g.low == 0) {
        return -1;
    }
    const int right = fine / 2 + 1;
    if (right < g.coarse[axis]) {
        return right;
    }
    return g.periodic[axis] ? 0 : -1;
}

// The fine cell at step d from a coarse one along an axis, or -1.
DEVICE int child(const TransferShape &g, int axis, int coarse, int d) {
    if (!g.axes[axis]) {
        return coarse;
    }
    const int n = g.fine[axis], to = 2 * coarse + d;
    if (to >= 0 && to < n) {
        return to;
    }
    return to < 0 && g.periodic[axis] && n % 2 == 0 ? n - 1 : -1;
}

// Cells of the coarser grid.
DEVICE i64 coarse_cells(const TransferShape &g) { return static_cast<i64>(g.coarse[0]) * g.coarse[1] * g.coarse[2]; }

// The number of a step from a coarse cell.
DEVICE int number_of(const TransferShape &g, int dx, int dy, int dz) {
    return step_number(g, 0, dx) + steps_along(g, 0) * (step_number(g, 1, dy) + steps_along(g, 1) * step_number(g, 2, dz));
}

// Lines of cells along y of which all planes follow each other in `tiled_point_of`.
constexpr u32 TILE_LINES = 8;

// The place of a cell in a grid in another order: by tiles of lines, and plane after plane in each. What neighbouring planes read is still in a cache then.
DEVICE void tiled_point_of(const i32 *dims, i64 cell, int *at) {
    const u32 number = static_cast<u32>(cell), nx = static_cast<u32>(dims[0]), ny = static_cast<u32>(dims[1]), nz = static_cast<u32>(dims[2]);
    const u32 line = number / nx, tile = line / (TILE_LINES * nz), in_tile = line - tile * TILE_LINES * nz, first = tile * TILE_LINES;
    const u32 height = ny - first < TILE_LINES ? ny - first : TILE_LINES, plane = in_tile / height;
    at[0] = static_cast<int>(number - line * nx);
    at[1] = static_cast<int>(first + in_tile - plane * height);
    at[2] = static_cast<int>(plane);
}

// The place of a cell in a grid, whose cells have numbers of 31 bits.
DEVICE void point_of(const i32 *dims, i64 cell, int *at) {
    const u32 number = static_cast<u32>(cell), nx = static_cast<u32>(dims[0]), ny = static_cast<u32>(dims[1]);
    const u32 line = number / nx, plane = line / ny;
    at[0] = static_cast<int>(number - line * nx);
    at[1] = static_cast<int>(line - plane * ny);
    at[2] = static_cast<int>(plane);
}
