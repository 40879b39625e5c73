/* Matrices and vectors of hypre's Struct interface, as Terrace takes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "structured.h"

#ifdef SHIM_HAS_STRUCTURED

/** Whether memory of hypre's is the host's. Device memory is what its build makes it. */
#ifdef hypre_StructMatrixMemoryLocation
static int on_host(HYPRE_MemoryLocation location) { return hypre_GetActualMemLocation(location) == hypre_MEMORY_HOST; }
#endif

/** Cells of a box along an axis; 1 beyond its dimensions. */
static int64_t cells_along(hypre_Box *box, int axis) { return axis < hypre_BoxNDim(box) ? (int64_t)hypre_BoxIMaxD(box, axis) - hypre_BoxIMinD(box, axis) + 1 : 1; }

size_t shim_grid_cells(const struct shim_grid *grid) { return (size_t)grid->dims[0] * (size_t)grid->dims[1] * (size_t)grid->dims[2]; }

/** The offsets of the stencil; NULL, or why not. */
static const char *stencil_of(hypre_StructMatrix *A, struct shim_grid *grid)
{
    hypre_StructStencil *stencil = hypre_StructMatrixStencil(A);
    int dimensions = hypre_StructMatrixNDim(A), has_diagonal = 0;
    if (hypre_StructStencilSize(stencil) > 27)
        return "a stencil of more than 27 points";
    grid->count = (int32_t)hypre_StructStencilSize(stencil);
    for (int entry = 0; entry < grid->count; entry++) {
        int32_t *offset = grid->offsets + 3 * entry;
        for (int axis = 0; axis < 3; axis++) {
            offset[axis] = axis < dimensions ? (int32_t)hypre_StructStencilShape(stencil)[entry][axis] : 0;
            if (offset[axis] < -1 || offset[axis] > 1)
                return "a stencil that reaches further than to the next cell";
        }
        has_diagonal |= offset[0] == 0 && offset[1] == 0 && offset[2] == 0;
    }
    return has_diagonal ? NULL : "a stencil without the diagonal";
}

const char *shim_grid_of(hypre_StructMatrix *A, struct shim_grid *grid)
{
    hypre_StructGrid *of = hypre_StructMatrixGrid(A);
    memset(grid, 0, sizeof *grid);
    if (shim_ranks(hypre_StructMatrixComm(A)) > 1)
        return "a grid over several ranks";
    if (hypre_StructGridNumBoxes(of) != 1)
        return "a grid of several boxes";
    if (hypre_StructGridNDim(of) > 3)
        return "a grid of more than three dimensions";
#ifdef hypre_StructMatrixMemoryLocation
    if (!on_host(hypre_StructMatrixMemoryLocation(A)))
        return "the matrix is not in host memory";
#endif
    for (int axis = 0; axis < 3; axis++) {
        HYPRE_Int period = axis < hypre_StructGridNDim(of) ? hypre_StructGridPeriodic(of)[axis] : 0;
        grid->dims[axis] = cells_along(hypre_StructGridBox(of, 0), axis);
        grid->periodic[axis] = period != 0;
        if (period != 0 && period != grid->dims[axis])
            return "a period that is not the size of the grid";
    }
    if (grid->dims[0] < 1 || grid->dims[1] < 1 || grid->dims[2] < 1)
        return "an empty grid";
    return stencil_of(A, grid);
}

/** Where the line of cells (0..nx, y, z) of a box begins in data that also has ghost layers. */
static int64_t line_start(hypre_Box *box, hypre_Box *data, int64_t y, int64_t z)
{
    int64_t at[3] = {0, y, z}, start = 0;
    for (int axis = hypre_BoxNDim(box) - 1; axis >= 0; axis--)
        start = start * cells_along(data, axis) + at[axis] + hypre_BoxIMinD(box, axis) - hypre_BoxIMinD(data, axis);
    return start;
}

/** Whether an entry is the same in all cells, and stored once. */
static int is_constant(hypre_StructMatrix *A, const int32_t *offset)
{
    int constant = hypre_StructMatrixConstantCoefficient(A);
    return constant == 1 || (constant == 2 && (offset[0] != 0 || offset[1] != 0 || offset[2] != 0));
}

/** One entry in the cells of a line; zero where it reaches outside of the grid. */
static void line_of_entry(const HYPRE_Complex *from, int constant, const struct shim_grid *grid, const int32_t *offset, int64_t y, int64_t z, HYPRE_Complex *into)
{
    int64_t nx = grid->dims[0], next[3] = {0, y + offset[1], z + offset[2]};
    for (int axis = 1; axis < 3; axis++)
        if (!grid->periodic[axis] && (next[axis] < 0 || next[axis] >= grid->dims[axis])) {
            memset(into, 0, (size_t)nx * sizeof *into);
            return;
        }
    if (constant)
        for (int64_t x = 0; x < nx; x++)
            into[x] = *from;
    else
        memcpy(into, from, (size_t)nx * sizeof *into);
    if (!grid->periodic[0] && offset[0] != 0)
        into[offset[0] < 0 ? 0 : nx - 1] = 0;
}

HYPRE_Complex *shim_grid_values(hypre_StructMatrix *A, const struct shim_grid *grid)
{
    hypre_Box *box = hypre_StructGridBox(hypre_StructMatrixGrid(A), 0), *data = hypre_StructMatrixBox(A, 0);
    HYPRE_Complex *values = malloc((size_t)grid->count * shim_grid_cells(grid) * sizeof *values), *into = values;
    for (int entry = 0; values && entry < grid->count; entry++) {
        const int32_t *offset = grid->offsets + 3 * entry;
        const HYPRE_Complex *from = hypre_StructMatrixBoxData(A, 0, entry);
        int constant = is_constant(A, offset);
        for (int64_t z = 0; z < grid->dims[2]; z++)
            for (int64_t y = 0; y < grid->dims[1]; y++, into += grid->dims[0])
                line_of_entry(constant ? from : from + line_start(box, data, y, z), constant, grid, offset, y, z, into);
    }
    return values;
}

/** Why a vector does not go with a grid; NULL where it does. */
const char *shim_grid_misfit(hypre_StructVector *vector, const struct shim_grid *grid)
{
    hypre_StructGrid *of = hypre_StructVectorGrid(vector);
    if (hypre_StructGridNumBoxes(of) != 1)
        return "a vector has several boxes, and the matrix one";
    for (int axis = 0; axis < 3; axis++)
        if (cells_along(hypre_StructGridBox(of, 0), axis) != grid->dims[axis])
            return "a vector has another grid than the matrix";
#ifdef hypre_StructVectorMemoryLocation
    if (!on_host(hypre_StructVectorMemoryLocation(vector)))
        return "the matrix is in host memory, and a vector is not";
#endif
    return NULL;
}

void shim_grid_gather(hypre_StructVector *vector, const struct shim_grid *grid, HYPRE_Complex *into)
{
    hypre_Box *box = hypre_StructGridBox(hypre_StructVectorGrid(vector), 0), *data = hypre_StructVectorBox(vector, 0);
    const HYPRE_Complex *from = hypre_StructVectorBoxData(vector, 0);
    for (int64_t z = 0; z < grid->dims[2]; z++)
        for (int64_t y = 0; y < grid->dims[1]; y++, into += grid->dims[0])
            memcpy(into, from + line_start(box, data, y, z), (size_t)grid->dims[0] * sizeof *into);
}

void shim_grid_scatter(const HYPRE_Complex *from, int adds, hypre_StructVector *vector, const struct shim_grid *grid)
{
    hypre_Box *box = hypre_StructGridBox(hypre_StructVectorGrid(vector), 0), *data = hypre_StructVectorBox(vector, 0);
    for (int64_t z = 0; z < grid->dims[2]; z++)
        for (int64_t y = 0; y < grid->dims[1]; y++, from += grid->dims[0]) {
            HYPRE_Complex *into = hypre_StructVectorBoxData(vector, 0) + line_start(box, data, y, z);
            for (int64_t x = 0; x < grid->dims[0]; x++)
                into[x] = adds ? into[x] + from[x] : from[x];
        }
}

#endif
