/* Parameters of hypre's objects as options of Terrace. The table of docs/migrating.md says the same in words. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shim.h"

/** Sets an option. */
void shim_option(struct shim_options *options, const char *key, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int entry = options->count++;
    options->entries[entry].key = key;
    vsnprintf(options->entries[entry].value, sizeof options->entries[entry].value, format, arguments);
    va_end(arguments);
}

static void join(char *list, size_t size, const char *format, va_list arguments)
{
    size_t used = strlen(list);
    if (used > 0 && used + 3 < size)
        used += (size_t)snprintf(list + used, size - used, "; ");
    vsnprintf(list + used, size - used, format, arguments);
}

/** Takes note of what Terrace does in another way of the same kind. */
void shim_replaced(struct shim_options *options, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    join(options->replaced, sizeof options->replaced, format, arguments);
    va_end(arguments);
}

/** Takes note of what only hypre does. */
void shim_missing(struct shim_options *options, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    join(options->missing, sizeof options->missing, format, arguments);
    va_end(arguments);
}

static void coarsening(hypre_ParAMGData *amg, struct shim_options *options, int ranks, int *two_passes)
{
    int type = hypre_ParAMGDataCoarsenType(amg);
    /* The first pass of Ruge-Stueben goes through the unknowns one after the other. */
    const char *hmis = ranks > 1 ? "pmis" : "hmis";
    *two_passes = 0;
    switch (type) {
    case 8:
        shim_option(options, "amg.coarsening.type", "pmis");
        break;
    case 10:
    case 11: /* one pass of Ruge-Stueben, which is HMIS on one rank */
        shim_option(options, "amg.coarsening.type", hmis);
        if (ranks > 1)
            shim_replaced(options, "CoarsenType %d by pmis over ranks", type);
        break;
    case 0:
    case 1:
    case 3:
    case 6:
        shim_option(options, "amg.coarsening.type", hmis);
        shim_replaced(options, hypre_ParAMGDataInterpType(amg) == 0 ? "CoarsenType %d with InterpType 0 by %s with extended+i" : "CoarsenType %d by %s", type, hmis);
        *two_passes = 1;
        break;
    default:
        shim_missing(options, "CoarsenType %d", type);
    }
    int levels = hypre_ParAMGDataAggNumLevels(amg);
    if (levels > 0) {
        shim_option(options, "amg.coarsening.aggressive_levels", "%d", levels < 64 ? levels : 64);
        int aggressive = hypre_ParAMGDataAggInterpType(amg);
        if (aggressive == 4)
            shim_option(options, "amg.interpolation.aggressive", "multipass");
        else
            shim_option(options, "amg.interpolation.aggressive", "two_stage");
        if (aggressive != 1 && aggressive != 4 && aggressive != 6)
            shim_replaced(options, "AggInterpType %d by two stages of extended+i", aggressive);
        if (hypre_ParAMGDataNumPaths(amg) > 1)
            shim_replaced(options, "NumPaths %d by 1", (int)hypre_ParAMGDataNumPaths(amg));
        int entries = hypre_ParAMGDataAggPMaxElmts(amg);
        if (entries > 0 && entries != hypre_ParAMGDataPMaxElmts(amg))
            shim_replaced(options, "AggPMaxElmts by PMaxElmts");
        if (hypre_ParAMGDataAggTruncFactor(amg) != 0)
            shim_replaced(options, "AggTruncFactor by TruncFactor");
    }
}

static void interpolation(hypre_ParAMGData *amg, struct shim_options *options, int two_passes)
{
    int type = hypre_ParAMGDataInterpType(amg);
    const char *name = NULL, *instead = NULL;
    switch (type) {
    case 0:
        /* Without Ruge-Stueben's second pass an unknown may share no coarse neighbour with a strong one, which classical interpolation needs. */
        name = two_passes ? "extended_i" : "classical_modified";
        break;
    case 3:
    case 15:
        name = "direct";
        break;
    case 6:
        name = "extended_i";
        break;
    case 16:
        name = "mm_ext";
        break;
    case 17:
        name = "mm_ext_i";
        break;
    case 14:
        name = instead = "mm_ext";
        break;
    case 7:
    case 8:
    case 9:
    case 12:
    case 13:
    case 18:
        name = instead = "extended_i";
        break;
    default:
        shim_missing(options, "InterpType %d", type);
        return;
    }
    shim_option(options, "amg.interpolation.type", "%s", name);
    if (instead)
        shim_replaced(options, "InterpType %d by %s", type, instead);
    /* Extended interpolation reaches further than the classical one: without a limit its coarse matrices would fill up. */
    int entries = hypre_ParAMGDataPMaxElmts(amg);
    shim_option(options, "amg.interpolation.max_entries", "%d", type == 0 && two_passes && entries == 0 ? 4 : entries);
    shim_option(options, "amg.interpolation.truncation", "%.17g", (double)hypre_ParAMGDataTruncFactor(amg));
}

/** The weight that holds for all levels; NaN where levels differ. */
static double same_weight(const HYPRE_Real *levels, HYPRE_Int count, double otherwise)
{
    if (!levels)
        return otherwise;
    for (HYPRE_Int i = 1; i < count; i++)
        if (levels[i] != levels[0])
            return NAN;
    return levels[0];
}

static int exact(int type) { return type == 9 || type == 19 || type == 29 || type == 98 || type == 99 || type == 198 || type == 199; }

/** `key` is the option that names the smoother. */
static void gauss_seidel(struct shim_options *options, const char *key, int down, int up, double weight)
{
    int forward = down == 3 || down == 13, backward = up == 4 || up == 14;
    if (down == 6 || down == 8) {
        shim_option(options, key, "gauss_seidel");
        shim_option(options, "amg.smoother.gauss_seidel.direction", "symmetric");
    } else if (!forward && !backward) {
        shim_option(options, key, "gauss_seidel");
        shim_option(options, "amg.smoother.gauss_seidel.direction", "backward");
    } else {
        shim_option(options, key, "any_gauss_seidel");
        if (forward != backward)
            shim_replaced(options, "RelaxType %d before and %d after the coarse correction by 13 and 14", down, up);
    }
    if (weight < 0.01 || weight > 1.99)
        shim_missing(options, "RelaxWt %g of Gauss-Seidel", weight);
    else if (weight != 1)
        shim_option(options, "amg.smoother.gauss_seidel.weight", "%.17g", weight);
}

/** Sweeps of each level: those of the first levels with a smoother of their own are another number. */
static void sweeps(hypre_ParAMGData *amg, struct shim_options *options, int own_levels)
{
    const HYPRE_Int *counts = hypre_ParAMGDataNumGridSweeps(amg);
    int own = hypre_ParAMGDataSmoothNumSweeps(amg);
    const char *keys[] = {"amg.smoother.pre_sweeps", "amg.smoother.post_sweeps"};
    for (int side = 0; side < 2; side++) {
        int others = counts ? (int)counts[1 + side] : 1;
        /* As many numbers as fit into the value of an option; deeper levels hardly count. */
        char list[32] = "";
        for (int level = 0; level < own_levels && own != others && strlen(list) + 8 < sizeof list; level++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%d,", own);
        shim_option(options, keys[side], "%s%d", list, own_levels >= hypre_ParAMGDataMaxLevels(amg) ? own : others);
    }
}

static void smoother(hypre_ParAMGData *amg, struct shim_options *options, int ranks)
{
    const HYPRE_Int *types = hypre_ParAMGDataGridRelaxType(amg);
    const HYPRE_Int *counts = hypre_ParAMGDataNumGridSweeps(amg);
    int own_levels = 0;
    int down = types ? types[1] : 13, up = types ? types[2] : 14, coarsest = types ? types[3] : 9;
    double weight = same_weight(hypre_ParAMGDataRelaxWeight(amg), hypre_ParAMGDataMaxLevels(amg), hypre_ParAMGDataUserRelaxWeight(amg));
    double outer = same_weight(hypre_ParAMGDataOmega(amg), hypre_ParAMGDataMaxLevels(amg), hypre_ParAMGDataOuterWt(amg));
    int family = down == 13 || down == 14 || down == 4 ? 3 : down == 8 ? 6 : down == 0 ? 7 : down;
    int family_up = up == 13 || up == 14 || up == 4 ? 3 : up == 8 ? 6 : up == 0 ? 7 : up;
    const char *key = "amg.smoother.type";
    if (isnan(weight) || isnan(outer))
        shim_missing(options, "weights that differ from level to level");
    else if (outer != 1)
        shim_missing(options, "OuterWt %g", outer);
    if (family != family_up)
        shim_missing(options, "RelaxType %d before and %d after the coarse correction", down, up);
    if (hypre_ParAMGDataSmoothNumLevels(amg) > 0) {
#ifdef hypre_ParAMGDataFSAIMaxSteps
        if (hypre_ParAMGDataSmoothType(amg) == 4) {
            shim_option(options, key, "fsai");
            shim_option(options, "fsai.steps", "%d", (int)hypre_ParAMGDataFSAIMaxSteps(amg));
            shim_option(options, "fsai.entries_per_step", "%d", (int)hypre_ParAMGDataFSAIMaxStepSize(amg));
            shim_option(options, "fsai.tolerance", "%.17g", (double)hypre_ParAMGDataFSAIKapTolerance(amg));
            own_levels = hypre_ParAMGDataSmoothNumLevels(amg);
            if (hypre_ParAMGDataFSAIEigMaxIters(amg) < 1)
                shim_replaced(options, "FSAIEigMaxIters 0 by an estimate of the largest eigenvalue");
            if (hypre_ParAMGDataSmoothNumLevels(amg) < hypre_ParAMGDataMaxLevels(amg)) {
                shim_option(options, "amg.smoother.levels", "%d", (int)hypre_ParAMGDataSmoothNumLevels(amg));
                key = "amg.smoother.coarse_type";
            } else {
                family = -1;
            }
        } else
#endif
            shim_missing(options, "SmoothType %d", (int)hypre_ParAMGDataSmoothType(amg));
    }
    switch (family) {
    case -1:
        break;
    case 3:
    case 6:
        if (ranks > 1) {
            shim_option(options, key, "l1_jacobi");
            shim_replaced(options, "RelaxType %d by 18 over ranks", down);
            if (weight != 1)
                shim_replaced(options, "RelaxWt %g by 1 there", weight);
            break;
        }
        gauss_seidel(options, key, down, up, weight);
        break;
    case 7:
        shim_option(options, key, "jacobi");
        if (weight > 0)
            shim_option(options, "amg.smoother.jacobi.weight", "%.17g", weight);
        break;
    case 18:
        shim_option(options, key, "l1_jacobi");
        if (weight > 0)
            shim_option(options, "amg.smoother.l1_jacobi.weight", "%.17g", weight);
        break;
    case 16:
        shim_option(options, key, "chebyshev");
        shim_option(options, "amg.smoother.chebyshev.degree", "%d", (int)hypre_ParAMGDataChebyOrder(amg));
        shim_option(options, "amg.smoother.chebyshev.eigenvalue_ratio", "%.17g", 1 / (double)hypre_ParAMGDataChebyFraction(amg));
        /* 10 steps of CG are hypre's default, 12 of Lanczos, which is the same iteration, Terrace's. */
        int steps = hypre_ParAMGDataChebyEigEst(amg);
        if (steps < 1)
            shim_replaced(options, "ChebyEigEst 0, bounds of row sums, by an estimate");
        else if (steps != 10)
            shim_option(options, "amg.eigenvalue.steps", "%d", steps < 1000 ? steps : 1000);
        break;
    default:
        shim_missing(options, "RelaxType %d", down);
    }
    if (hypre_ParAMGDataRelaxOrder(amg) != 0)
        shim_replaced(options, "RelaxOrder %d by 0", (int)hypre_ParAMGDataRelaxOrder(amg));
    sweeps(amg, options, own_levels);

    int rows = hypre_ParAMGDataMaxCoarseSize(amg) > hypre_ParAMGDataMinCoarseSize(amg) ? hypre_ParAMGDataMaxCoarseSize(amg) : hypre_ParAMGDataMinCoarseSize(amg);
    if (!exact(coarsest)) {
        shim_option(options, "amg.coarsest.solver", "sweeps");
        shim_option(options, "amg.coarsest.sweeps", "%d", counts && counts[3] > 0 ? (int)counts[3] : 1);
        shim_option(options, "amg.coarsest.max_rows", "%d", rows < 1 ? 1 : rows < 5000 ? rows : 5000);
    } else if (rows > 200) {
        /* Below that, Terrace's own bound: the level is solved exactly in either case. */
        shim_option(options, "amg.coarsest.max_rows", "%d", rows < 5000 ? rows : 5000);
    }
}

static void functions(hypre_ParAMGData *amg, struct shim_options *options)
{
    int count = hypre_ParAMGDataNumFunctions(amg);
    if (count > 1 && hypre_ParAMGDataNodal(amg) != 0)
        shim_replaced(options, "Nodal %d by the unknown approach", (int)hypre_ParAMGDataNodal(amg));
}

static void refused(hypre_ParAMGData *amg, struct shim_options *options)
{
    if (hypre_ParAMGDataAdditive(amg) >= 0 || hypre_ParAMGDataMultAdditive(amg) >= 0 || hypre_ParAMGDataSimple(amg) >= 0)
        shim_missing(options, "an additive cycle");
    if (hypre_ParAMGDataGSMG(amg) != 0)
        shim_missing(options, "GSMG");
    if (hypre_ParAMGDataPostInterpType(amg) != 0)
        shim_missing(options, "PostInterpType %d", (int)hypre_ParAMGDataPostInterpType(amg));
#ifdef hypre_ParAMGDataRestriction
    if (hypre_ParAMGDataRestriction(amg) != 0)
        shim_missing(options, "Restriction %d", (int)hypre_ParAMGDataRestriction(amg));
#endif
#ifdef hypre_ParAMGDataADropTol
    if (hypre_ParAMGDataADropTol(amg) > 0)
        shim_missing(options, "ADropTol %g", (double)hypre_ParAMGDataADropTol(amg));
#endif
#ifdef hypre_ParAMGDataNumCPoints
    if (hypre_ParAMGDataNumCPoints(amg) > 0)
        shim_missing(options, "CPoints");
#endif
#ifdef hypre_ParAMGDataNumFPoints
    if (hypre_ParAMGDataNumFPoints(amg) > 0 || hypre_ParAMGDataNumIsolatedFPoints(amg) > 0)
        shim_missing(options, "FPoints");
#endif
#ifdef hypre_ParAMGDataCoarsenCutFactor
    if (hypre_ParAMGDataCoarsenCutFactor(amg) > 0)
        shim_missing(options, "CoarsenCutFactor %d", (int)hypre_ParAMGDataCoarsenCutFactor(amg));
#endif
    if (hypre_ParAMGDataNonGalerkinTol(amg) > 0 || hypre_ParAMGDataNonGalTolArray(amg) || hypre_ParAMGDataNonGalerkNumTol(amg) > 0)
        shim_replaced(options, "NonGalerkinTol by Galerkin products");
}

/** The options for a BoomerAMG object. */
void shim_options_of_boomeramg(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A, struct shim_options *options)
{
    int two_passes = 0, ranks = shim_ranks(hypre_ParCSRMatrixComm(A));
    memset(options, 0, sizeof *options);
    refused(amg, options);
    int levels = hypre_ParAMGDataMaxLevels(amg);
    shim_option(options, "amg.max_levels", "%d", levels < 1 ? 1 : levels < 64 ? levels : 64);
    shim_option(options, "amg.update.coarsening", "recheck");
    if (hypre_ParAMGDataFCycle(amg) != 0)
        shim_option(options, "amg.cycle.type", "f");
    else if (hypre_ParAMGDataCycleType(amg) == 1 || hypre_ParAMGDataCycleType(amg) == 2)
        shim_option(options, "amg.cycle.type", hypre_ParAMGDataCycleType(amg) == 2 ? "w" : "v");
    else
        shim_missing(options, "CycleType %d", (int)hypre_ParAMGDataCycleType(amg));
    if (shim_has_modes(amg, A)) {
        shim_option(options, "amg.coarsening.type", "mis2");
        shim_replaced(options, "classical AMG with InterpVectors by smoothed aggregation with a Chebyshev smoother");
        sweeps(amg, options, 0);
        shim_unused(amg, 1, options);
        return;
    }
    if (hypre_ParAMGNumInterpVectors(amg) > 0)
        shim_replaced(options, "InterpVectors by the unknown approach, because unknowns are not numbered point by point");
    coarsening(amg, options, ranks, &two_passes);
    interpolation(amg, options, two_passes);
    double sum = hypre_ParAMGDataMaxRowSum(amg);
    shim_option(options, "amg.strength.threshold", "%.17g", (double)hypre_ParAMGDataStrongThreshold(amg));
    shim_option(options, "amg.strength.max_row_sum", "%.17g", sum < 1 ? sum : 1.0);
#ifdef hypre_ParAMGDataSabs
    if (hypre_ParAMGDataSabs(amg) != 0)
        shim_option(options, "amg.strength.type", "absolute");
#endif
    smoother(amg, options, ranks);
    functions(amg, options);
    shim_unused(amg, 0, options);
}

#ifdef SHIM_HAS_FSAI
/** The options for an FSAI object. */
void shim_options_of_fsai(hypre_ParFSAIData *fsai, struct shim_options *options)
{
    memset(options, 0, sizeof *options);
    shim_option(options, "fsai.pattern", "adaptive");
    shim_option(options, "fsai.steps", "%d", (int)hypre_ParFSAIDataMaxSteps(fsai));
    shim_option(options, "fsai.entries_per_step", "%d", (int)hypre_ParFSAIDataMaxStepSize(fsai));
    shim_option(options, "fsai.tolerance", "%.17g", (double)hypre_ParFSAIDataKapTolerance(fsai));
    if (hypre_ParFSAIDataAlgoType(fsai) != 1 && hypre_ParFSAIDataAlgoType(fsai) != 2)
        shim_missing(options, "AlgoType %d of FSAI", (int)hypre_ParFSAIDataAlgoType(fsai));
    if (hypre_ParFSAIDataPrintLevel(fsai) > 0)
        shim_log_once("no result depends on these in Terrace: PrintLevel of FSAI");
    if (hypre_ParFSAIDataEigMaxIters(fsai) > 0)
        shim_missing(options, "EigMaxIters %d of FSAI", (int)hypre_ParFSAIDataEigMaxIters(fsai));
}
#endif
