/* The functions that the library takes over from hypre. Everything else of hypre, its setters among it, is called as before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "shim.h"

#define EXPORT __attribute__((visibility("default")))

typedef HYPRE_Int create_function(HYPRE_Solver *);
typedef HYPRE_Int destroy_function(HYPRE_Solver);
typedef HYPRE_Int solve_function(HYPRE_Solver, HYPRE_ParCSRMatrix, HYPRE_ParVector, HYPRE_ParVector);
typedef HYPRE_Int residual_function(HYPRE_Solver, HYPRE_ParVector *);
typedef HYPRE_Int hierarchy_function(HYPRE_Solver, HYPRE_Int *);

void *shim_real(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) {
        shim_log_once("hypre's own %s was not found: link hypre as a shared library, after this one", name);
        abort();
    }
    return function;
}

#define REAL(type, name) ((type *)shim_real(name))

static HYPRE_Int create(HYPRE_Solver *solver, enum shim_kind kind, const char *name)
{
    HYPRE_Int error = REAL(create_function, name)(solver);
    if (solver && *solver)
        shim_object_add(*solver, kind);
    return error;
}

static HYPRE_Int destroy(HYPRE_Solver solver, const char *name)
{
    shim_object_end(solver);
    return REAL(destroy_function, name)(solver);
}

/** Calls hypre; an object whose set-up failed has nothing to be solved with. */
static HYPRE_Int by_hypre(struct shim_object *object, const char *name, const char *what, HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x)
{
    if (shim_is_refused(object))
        return HYPRE_GetError();
    double start = shim_seconds();
    HYPRE_Int error = REAL(solve_function, name)(solver, A, b, x);
    shim_served_by_hypre(object, what, shim_seconds() - start);
    return error;
}

static HYPRE_Int setup(HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x, const char *name)
{
    struct shim_object *object = shim_object_find(solver);
    int served = object && A ? shim_setup(object, A) : 0;
    if (object)
        object->server = served > 0 ? SHIM_TERRACE : served == 0 ? SHIM_HYPRE : SHIM_REFUSED;
    if (object && served <= 0)
        shim_release(object);
    if (served != 0)
        return HYPRE_GetError();
    return by_hypre(object, name, "set-up", solver, A, b, x);
}

/** Whether Terrace serves a solve. Vectors with several columns, and the transpose over ranks, go to hypre, which is then set up, too. */
static int serves(struct shim_object *object, int transposed, HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x, const char *setup_name)
{
    if (!object || object->server != SHIM_TERRACE || !A || !b || !x)
        return 0;
    const char *reason = NULL;
    if (hypre_VectorNumVectors(hypre_ParVectorLocalVector((hypre_ParVector *)b)) != 1)
        reason = "vectors with several columns";
    else if (transposed && shim_ranks(hypre_ParCSRMatrixComm((hypre_ParCSRMatrix *)A)) > 1)
        reason = "the transpose of a matrix over several ranks";
    if (!reason)
        return 1;
    shim_log_once("%s is served by hypre: %s", shim_kind_name(object->kind), reason);
    by_hypre(object, setup_name, "set-up", solver, A, b, x);
    object->server = SHIM_HYPRE;
    return 0;
}

static HYPRE_Int boomeramg(HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x, int transposed)
{
    const char *name = transposed ? "HYPRE_BoomerAMGSolveT" : "HYPRE_BoomerAMGSolve";
    struct shim_object *object = shim_object_find(solver);
    if (!serves(object, transposed, solver, A, b, x, "HYPRE_BoomerAMGSetup"))
        return by_hypre(object, name, NULL, solver, A, b, x);
    hypre_ParAMGData *amg = (hypre_ParAMGData *)solver;
    struct shim_stop stop = {.tolerance = hypre_ParAMGDataTol(amg),
                             .max_iterations = hypre_ParAMGDataMaxIter(amg),
                             .min_iterations = hypre_ParAMGDataMinIter(amg),
                             .want_residual = hypre_ParAMGDataLogging(amg) > 1 || hypre_ParAMGDataPrintLevel(amg) > 1,
                             .weight = 1};
#ifdef hypre_ParAMGDataConvergeType
    stop.relative_to_initial = hypre_ParAMGDataConvergeType(amg) != 0;
#endif
    HYPRE_Int error = shim_solve(object, transposed, (hypre_ParCSRMatrix *)A, (hypre_ParVector *)b, (hypre_ParVector *)x, &stop);
    /* Where hypre's getters look. */
    hypre_ParAMGDataNumIterations(amg) = stop.iterations;
    hypre_ParAMGDataRelativeResidualNorm(amg) = stop.relative;
#ifdef CUMNUMIT
    hypre_ParAMGDataCumNumIterations(amg) += stop.iterations;
#endif
    if (hypre_ParAMGDataPrintLevel(amg) > 1)
        hypre_printf("BoomerAMG by Terrace: %d cycles, relative residual %e\n", stop.iterations, stop.relative);
    return error;
}

EXPORT HYPRE_Int HYPRE_BoomerAMGCreate(HYPRE_Solver *solver) { return create(solver, SHIM_BOOMERAMG, "HYPRE_BoomerAMGCreate"); }

EXPORT HYPRE_Int HYPRE_BoomerAMGDestroy(HYPRE_Solver solver) { return destroy(solver, "HYPRE_BoomerAMGDestroy"); }

EXPORT HYPRE_Int HYPRE_BoomerAMGSetup(HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x) { return setup(solver, A, b, x, "HYPRE_BoomerAMGSetup"); }

EXPORT HYPRE_Int HYPRE_BoomerAMGSolve(HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x) { return boomeramg(solver, A, b, x, 0); }

EXPORT HYPRE_Int HYPRE_BoomerAMGSolveT(HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x) { return boomeramg(solver, A, b, x, 1); }

/** The residual of the last solve, which is kept with logging above 1, as in hypre, and where the tolerance is above 0. */
EXPORT HYPRE_Int HYPRE_BoomerAMGGetResidual(HYPRE_Solver solver, HYPRE_ParVector *vector)
{
    struct shim_object *object = shim_object_find(solver);
    if (!object || object->server != SHIM_TERRACE || !vector)
        return REAL(residual_function, "HYPRE_BoomerAMGGetResidual")(solver, vector);
    *vector = (HYPRE_ParVector)object->residual;
    return HYPRE_GetError();
}

EXPORT HYPRE_Int HYPRE_BoomerAMGGetGridHierarchy(HYPRE_Solver solver, HYPRE_Int *levels)
{
    struct shim_object *object = shim_object_find(solver);
    if (!object || object->server != SHIM_TERRACE)
        return REAL(hierarchy_function, "HYPRE_BoomerAMGGetGridHierarchy")(solver, levels);
    shim_error("%s: HYPRE_BoomerAMGGetGridHierarchy needs a hierarchy of hypre's own", shim_name(object));
    return HYPRE_GetError();
}

#ifdef SHIM_HAS_FSAI
EXPORT HYPRE_Int HYPRE_FSAICreate(HYPRE_Solver *solver) { return create(solver, SHIM_FSAI, "HYPRE_FSAICreate"); }

EXPORT HYPRE_Int HYPRE_FSAIDestroy(HYPRE_Solver solver) { return destroy(solver, "HYPRE_FSAIDestroy"); }

EXPORT HYPRE_Int HYPRE_FSAISetup(HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x) { return setup(solver, A, b, x, "HYPRE_FSAISetup"); }

EXPORT HYPRE_Int HYPRE_FSAISolve(HYPRE_Solver solver, HYPRE_ParCSRMatrix A, HYPRE_ParVector b, HYPRE_ParVector x)
{
    struct shim_object *object = shim_object_find(solver);
    if (!serves(object, 0, solver, A, b, x, "HYPRE_FSAISetup"))
        return by_hypre(object, "HYPRE_FSAISolve", NULL, solver, A, b, x);
    hypre_ParFSAIData *fsai = (hypre_ParFSAIData *)solver;
    struct shim_stop stop = {.tolerance = hypre_ParFSAIDataTolerance(fsai),
                             .max_iterations = hypre_ParFSAIDataMaxIterations(fsai),
                             .zero_guess = hypre_ParFSAIDataZeroGuess(fsai) != 0,
                             .weight = hypre_ParFSAIDataOmega(fsai)};
    HYPRE_Int error = shim_solve(object, 0, (hypre_ParCSRMatrix *)A, (hypre_ParVector *)b, (hypre_ParVector *)x, &stop);
    hypre_ParFSAIDataNumIterations(fsai) = stop.iterations;
    hypre_ParFSAIDataRelResNorm(fsai) = stop.relative;
    return error;
}
#endif
