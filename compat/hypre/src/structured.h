/* What PFMG and SMG have beside what shim.h says: a grid, its stencil, and vectors without ghost layers. */
#ifndef TERRACE_HYPRE_STRUCTURED_H
#define TERRACE_HYPRE_STRUCTURED_H

#include "shim.h"

/** hypre 3 stores matrices of its Struct interface in another way, which this library has not been tried with. */
#if HYPRE_RELEASE_NUMBER >= 22000 && HYPRE_RELEASE_NUMBER < 30000
#define SHIM_HAS_STRUCTURED 1
#include "_hypre_struct_ls.h"

/** A matrix on one box, as terrace_matrix_create_stencil takes it. Rows are its cells, x running fastest. */
struct shim_grid {
    int64_t dims[3];
    int32_t periodic[3], count, offsets[3 * 27];
};

struct shim_structured {
    struct shim_grid grid;
    HYPRE_Complex *from, *to; /* vectors of an application */
    HYPRE_StructVector residual;
    int has_weight, has_widths; /* whether the program set JacobiWeight and Dxyz, which hypre's object does not tell */
    double weight;
    HYPRE_Int iterations; /* of the last solve */
    double relative;
};

/* structured_convert.c */
const char *shim_grid_of(hypre_StructMatrix *A, struct shim_grid *grid); /* NULL, or why hypre has to serve it */
size_t shim_grid_cells(const struct shim_grid *grid);
HYPRE_Complex *shim_grid_values(hypre_StructMatrix *A, const struct shim_grid *grid); /* by offset; to be freed, NULL without memory */
const char *shim_grid_misfit(hypre_StructVector *vector, const struct shim_grid *grid);
void shim_grid_gather(hypre_StructVector *vector, const struct shim_grid *grid, HYPRE_Complex *into);
void shim_grid_scatter(const HYPRE_Complex *from, int adds, hypre_StructVector *vector, const struct shim_grid *grid);

/* structured_options.c */
void shim_options_of_structured(struct shim_object *object, struct shim_options *options);

#endif
#endif
