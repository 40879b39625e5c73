/* Parameters of PFMG and SMG as options of Terrace. The table of docs/migrating.md says the same in words. */
#include <string.h>

#include "structured.h"

#ifdef SHIM_HAS_STRUCTURED

static void of_pfmg(HYPRE_StructSolver solver, const struct shim_structured *structured, struct shim_options *options)
{
    HYPRE_Int relaxation = 1, products = 0, levels = 0, skips = 1;
    HYPRE_StructPFMGGetRelaxType(solver, &relaxation);
    HYPRE_StructPFMGGetRAPType(solver, &products);
    HYPRE_StructPFMGGetMaxLevels(solver, &levels);
    HYPRE_StructPFMGGetSkipRelax(solver, &skips);
    if (levels > 0)
        shim_option(options, "amg.max_levels", "%d", levels < 64 ? (int)levels : 64);
    if (relaxation == 2 || relaxation == 3) {
        shim_option(options, "amg.smoother.type", "gauss_seidel");
        /* Forward before and backward after the coarse correction, which together are symmetric, or the same order in both. */
        if (relaxation == 3)
            shim_replaced(options, "RelaxType 3 by 2");
    } else if (relaxation == 0 || relaxation == 1) {
        shim_option(options, "amg.smoother.type", "jacobi");
        if (relaxation == 0)
            shim_option(options, "amg.smoother.jacobi.weight", "1");
        else if (structured->has_weight)
            shim_option(options, "amg.smoother.jacobi.weight", "%.17g", structured->weight);
    } else {
        shim_missing(options, "RelaxType %d of PFMG", (int)relaxation);
    }
    if (products != 0)
        shim_replaced(options, "RAPType %d by Galerkin products", (int)products);
    if (skips == 0)
        shim_replaced(options, "SkipRelax 0 by 1");
    if (structured->has_widths)
        shim_replaced(options, "Dxyz by the couplings of the matrix");
}

/** The options for a PFMG or SMG object. */
void shim_options_of_structured(struct shim_object *object, struct shim_options *options)
{
    HYPRE_StructSolver solver = object->solver;
    HYPRE_Int before = 1, after = 1;
    memset(options, 0, sizeof *options);
    shim_option(options, "amg.type", "structured");
    shim_option(options, "amg.update.coarsening", "recheck");
    if (object->kind == SHIM_PFMG) {
        HYPRE_StructPFMGGetNumPreRelax(solver, &before);
        HYPRE_StructPFMGGetNumPostRelax(solver, &after);
        of_pfmg(solver, object->structured, options);
    } else {
        HYPRE_StructSMGGetNumPreRelax(solver, &before);
        HYPRE_StructSMGGetNumPostRelax(solver, &after);
        shim_option(options, "amg.smoother.type", "gauss_seidel");
        shim_replaced(options, "the planes of SMG by Gauss-Seidel sweeps and coarsening along the axes of strong couplings");
    }
    shim_option(options, "amg.smoother.pre_sweeps", "%d", (int)before);
    shim_option(options, "amg.smoother.post_sweeps", "%d", (int)after);
}

#endif
