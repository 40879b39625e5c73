/*
 * Parameters that a program has set and that are not among those which options.c maps: each is named in the line about what Terrace replaces, with the
 * value that holds instead. What was set is what differs from a new object of the same hypre.
 */
#include <string.h>

#include "shim.h"

#define DIFFERS(field) (field(amg) != field(fresh))

/** Names a whole number that was set. */
#define NAME(name, field)  \
    if (DIFFERS(field))    \
    shim_replaced(options, name " %d by %d", (int)field(amg), (int)field(fresh))

/** Names a real number that was set. */
#define NAME_REAL(name, field) \
    if (DIFFERS(field))        \
    shim_replaced(options, name " %g by %g", (double)field(amg), (double)field(fresh))

static void coarsening(hypre_ParAMGData *amg, hypre_ParAMGData *fresh, struct shim_options *options)
{
    if (hypre_ParAMGDataCoarsenType(amg) != 8)
        NAME("MeasureType", hypre_ParAMGDataMeasureType);
    if (hypre_ParAMGDataInterpType(amg) == 0 || hypre_ParAMGDataInterpType(amg) == 3 || hypre_ParAMGDataInterpType(amg) == 15)
        NAME("SepWeight", hypre_ParAMGDataSepWeight);
    if (hypre_ParAMGDataAggNumLevels(amg) > 0) {
        NAME("AggP12MaxElmts", hypre_ParAMGDataAggP12MaxElmts);
        NAME_REAL("AggP12TruncFactor", hypre_ParAMGDataAggP12TruncFactor);
    }
    if (hypre_ParAMGDataNumFunctions(amg) > 1 && hypre_ParAMGDataNodal(amg) != 0) {
        NAME("NodalLevels", hypre_ParAMGDataNodalLevels);
        NAME("NodalDiag", hypre_ParAMGDataNodalDiag);
#ifdef hypre_ParAMGDataKeepSameSign
        NAME("KeepSameSign", hypre_ParAMGDataKeepSameSign);
#endif
    }
}

static void smoother(hypre_ParAMGData *amg, hypre_ParAMGData *fresh, struct shim_options *options)
{
    const HYPRE_Int *types = hypre_ParAMGDataGridRelaxType(amg);
    if (types && types[1] == 16) {
        NAME("ChebyVariant", hypre_ParAMGDataChebyVariant);
        NAME("ChebyScale", hypre_ParAMGDataChebyScale);
    }
    /* Where RelaxOrder is set, hypre makes them itself. */
    if (hypre_ParAMGDataGridRelaxPoints(amg) && hypre_ParAMGDataRelaxOrder(amg) == 0)
        shim_replaced(options, "GridRelaxPoints by sweeps over all points");
}

/** With near-null space vectors Terrace chooses the components. */
static void with_modes(hypre_ParAMGData *amg, hypre_ParAMGData *fresh, struct shim_options *options)
{
    NAME("InterpVecVariant", hypre_ParAMGInterpVecVariant);
    NAME("InterpVecQMax", hypre_ParAMGInterpVecQMax);
    NAME_REAL("InterpVecAbsQTrunc", hypre_ParAMGInterpVecAbsQTrunc);
    NAME("SmoothInterpVectors", hypre_ParAMGSmoothInterpVectors);
    NAME("InterpRefine", hypre_ParAMGInterpRefine);
    NAME("NodalDiag", hypre_ParAMGDataNodalDiag);
    NAME_REAL("StrongThreshold", hypre_ParAMGDataStrongThreshold);
    NAME_REAL("MaxRowSum", hypre_ParAMGDataMaxRowSum);
    NAME("CoarsenType", hypre_ParAMGDataCoarsenType);
    NAME("InterpType", hypre_ParAMGDataInterpType);
    NAME("PMaxElmts", hypre_ParAMGDataPMaxElmts);
    NAME_REAL("TruncFactor", hypre_ParAMGDataTruncFactor);
    NAME("AggNumLevels", hypre_ParAMGDataAggNumLevels);
    NAME("RelaxOrder", hypre_ParAMGDataRelaxOrder);
    NAME("SmoothNumLevels", hypre_ParAMGDataSmoothNumLevels);
    NAME_REAL("RelaxWt", hypre_ParAMGDataUserRelaxWeight);
    const HYPRE_Int *types = hypre_ParAMGDataGridRelaxType(amg);
    if (types && types[1] != 16)
        shim_replaced(options, "RelaxType %d by 16", (int)types[1]);
}

/** Names of parameters about time, memory and output, which change no result; empty where none was set. */
static void without_effect(hypre_ParAMGData *amg, hypre_ParAMGData *fresh, char *names, size_t size)
{
    *names = 0;
#define HINT(name, field)                                 \
    if (DIFFERS(field) && strlen(names) + 24 < size)      \
    strcat(strcat(names, *names ? ", " : ""), name)
    HINT("KeepTranspose", hypre_ParAMGDataKeepTranspose);
    HINT("RAP2", hypre_ParAMGDataRAP2);
#ifdef hypre_ParAMGDataModularizedMatMat
    HINT("ModuleRAP2", hypre_ParAMGDataModularizedMatMat);
#endif
    HINT("Redundant", hypre_ParAMGDataRedundant);
    HINT("SeqThreshold", hypre_ParAMGDataSeqThreshold);
    HINT("DebugFlag", hypre_ParAMGDataDebugFlag);
    HINT("PlotGrids", hypre_ParAMGDataPlotGrids);
#ifdef hypre_ParAMGDataSCommPkgSwitch
    HINT("SCommPkgSwitch", hypre_ParAMGDataSCommPkgSwitch);
#endif
#ifdef HYPRE_USING_DSUPERLU
    HINT("DSLUThreshold", hypre_ParAMGDataDSLUThreshold);
#endif
}

/** Takes note of parameters that were set and have no option. */
void shim_unused(hypre_ParAMGData *amg, int has_modes, struct shim_options *options)
{
    char names[160];
    hypre_ParAMGData *fresh = hypre_BoomerAMGCreate();
    if (!fresh)
        return;
    if (has_modes) {
        with_modes(amg, fresh, options);
    } else {
        coarsening(amg, fresh, options);
        smoother(amg, fresh, options);
    }
    without_effect(amg, fresh, names, sizeof names);
    if (*names)
        shim_log_once("no result depends on these in Terrace: %s", names);
    hypre_BoomerAMGDestroy(fresh);
}
