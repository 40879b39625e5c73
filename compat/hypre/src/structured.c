/* PFMG and SMG of hypre's Struct interface: the functions that the library takes over, set-up, update and cycles. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "structured.h"

#ifndef SHIM_HAS_STRUCTURED
void shim_structured_release(struct shim_structured *structured, int ends)
{
    (void)structured;
    (void)ends;
}
#else

#define EXPORT __attribute__((visibility("default")))

typedef HYPRE_Int create_function(MPI_Comm, HYPRE_StructSolver *);
typedef HYPRE_Int destroy_function(HYPRE_StructSolver);
typedef HYPRE_Int solve_function(HYPRE_StructSolver, HYPRE_StructMatrix, HYPRE_StructVector, HYPRE_StructVector);
typedef HYPRE_Int count_function(HYPRE_StructSolver, HYPRE_Int *);
typedef HYPRE_Int real_function(HYPRE_StructSolver, HYPRE_Real *);
typedef HYPRE_Int weight_function(HYPRE_StructSolver, HYPRE_Real);

#define REAL(type, name) ((type *)shim_real(name))

/** When cycles end. */
struct rule {
    double tolerance;
    HYPRE_Int max_iterations, zero_guess, relative_change;
};

/** The object at an address, where this file takes care of it. */
static struct shim_object *find(HYPRE_StructSolver solver)
{
    struct shim_object *object = shim_object_find(solver);
    return object && object->structured ? object : NULL;
}

static HYPRE_Int create(MPI_Comm comm, HYPRE_StructSolver *solver, enum shim_kind kind, const char *name)
{
    HYPRE_Int error = REAL(create_function, name)(comm, solver);
    struct shim_structured *structured = solver && *solver ? calloc(1, sizeof *structured) : NULL;
    struct shim_object *object = structured ? shim_object_add(*solver, kind) : NULL;
    if (object)
        object->structured = structured;
    else
        free(structured);
    return error;
}

static HYPRE_Int destroy(HYPRE_StructSolver solver, const char *name)
{
    shim_object_end(solver);
    return REAL(destroy_function, name)(solver);
}

void shim_structured_release(struct shim_structured *structured, int ends)
{
    if (!structured)
        return;
    free(structured->from);
    free(structured->to);
    if (structured->residual)
        HYPRE_StructVectorDestroy(structured->residual);
    structured->from = structured->to = NULL;
    structured->residual = NULL;
    if (ends)
        free(structured);
}

static HYPRE_Int by_hypre(struct shim_object *object, const char *name, const char *what, HYPRE_StructSolver solver, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x)
{
    if (shim_is_refused(object))
        return HYPRE_GetError();
    double start = shim_seconds();
    HYPRE_Int error = REAL(solve_function, name)(solver, A, b, x);
    shim_served_by_hypre(object, what, shim_seconds() - start);
    return error;
}

/** Sets up anew. */
static terrace_status set_up(struct shim_object *object, terrace_context *context, const terrace_config *config, const struct shim_grid *grid, const HYPRE_Complex *values)
{
    struct shim_structured *structured = object->structured;
    struct shim_operator *operator = &object->forward;
    shim_structured_release(structured, 0);
    terrace_amg_destroy(operator->amg);
    terrace_matrix_destroy(operator->matrix);
    memset(operator, 0, sizeof *operator);
    memcpy(&structured->grid, grid, sizeof *grid); /* padding, too: grids are compared by bytes */
    structured->from = malloc(shim_grid_cells(grid) * sizeof *values);
    structured->to = malloc(shim_grid_cells(grid) * sizeof *values);
    if (!structured->from || !structured->to)
        return TERRACE_ERROR_OUT_OF_MEMORY;
    terrace_status status = terrace_matrix_create_stencil(context, grid->dims, grid->periodic, 1, grid->count, grid->offsets, SHIM_VALUE, values, TERRACE_BY_OFFSET,
                                                          TERRACE_COPY, &operator->matrix);
    if (status == TERRACE_SUCCESS)
        status = terrace_amg_setup(context, operator->matrix, config, &operator->amg);
    return status;
}

/** Takes over new values of the same grid and stencil. */
static terrace_status update(struct shim_object *object, terrace_context *context, const HYPRE_Complex *values)
{
    int64_t count = (int64_t)shim_grid_cells(&object->structured->grid) * object->structured->grid.count;
    terrace_status status = terrace_matrix_update_values(context, object->forward.matrix, SHIM_VALUE, values, count);
    return status == TERRACE_SUCCESS ? terrace_amg_update(object->forward.amg) : status;
}

/** A matrix and its grid. */
struct on_grid {
    hypre_StructMatrix *A;
    struct shim_grid grid;
};

static int serve(struct shim_object *object, terrace_context *context, terrace_config *config, void *matrix)
{
    const struct shim_grid *grid = &((struct on_grid *)matrix)->grid;
    hypre_StructMatrix *A = ((struct on_grid *)matrix)->A;
    char size[120];
    double start = shim_seconds();
    char *json = shim_json(config);
    HYPRE_Complex *values = shim_grid_values(A, grid);
    int same = object->forward.amg && json && object->config && strcmp(json, object->config) == 0 && memcmp(grid, &object->structured->grid, sizeof *grid) == 0;
    terrace_status status = TERRACE_ERROR_INTERNAL;
    if (values && same)
        status = update(object, context, values);
    int updated = status == TERRACE_SUCCESS;
    if (values && !updated)
        status = set_up(object, context, config, grid, values);
    free(values);
    if (status != TERRACE_SUCCESS) {
        free(json);
        return shim_leave(object, values ? shim_last_error() : "no memory for a copy of the matrix");
    }
    snprintf(size, sizeof size, "%lld x %lld x %lld cells, %d points", (long long)grid->dims[0], (long long)grid->dims[1], (long long)grid->dims[2], (int)grid->count);
    shim_served(object, json, updated, shim_seconds() - start, size);
    HYPRE_Int print = 0;
    object->kind == SHIM_PFMG ? HYPRE_StructPFMGGetPrintLevel(object->solver, &print) : HYPRE_StructSMGGetPrintLevel(object->solver, &print);
    if (print > 0)
        shim_print_levels(object);
    return 1;
}

/** As shim_setup. */
static int set_up_object(struct shim_object *object, hypre_StructMatrix *A)
{
    struct shim_options options = {0};
    struct on_grid matrix = {.A = A};
    const char *unfit = shim_grid_of(A, &matrix.grid);
    if (unfit)
        shim_missing(&options, "%s", unfit);
    else
        shim_options_of_structured(object, &options);
    return shim_serve(object, hypre_StructMatrixComm(A), &options, serve, &matrix);
}

static HYPRE_Int setup(HYPRE_StructSolver solver, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x, const char *name)
{
    struct shim_object *object = find(solver);
    int served = object && A ? set_up_object(object, A) : 0;
    if (object)
        object->server = served > 0 ? SHIM_TERRACE : served == 0 ? SHIM_HYPRE : SHIM_REFUSED;
    if (object && served <= 0)
        shim_release(object);
    if (served != 0)
        return HYPRE_GetError();
    return by_hypre(object, name, "set-up", solver, A, b, x);
}

static double norm(const HYPRE_Complex *vector, size_t cells)
{
    double squares = 0;
    for (size_t cell = 0; cell < cells; cell++)
        squares += (double)vector[cell] * (double)vector[cell];
    return sqrt(squares);
}

/** from = b - A x with the program's matrix, whose values may have changed since set-up; its norm. */
static double residual(struct shim_structured *structured, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x)
{
    if (!structured->residual) {
        HYPRE_StructVectorCreate(hypre_StructMatrixComm(A), hypre_StructMatrixGrid(A), &structured->residual);
        HYPRE_StructVectorInitialize(structured->residual);
        HYPRE_StructVectorAssemble(structured->residual);
    }
    HYPRE_StructVectorCopy(b, structured->residual);
    HYPRE_StructMatrixMatvec(-1.0, A, x, 1.0, structured->residual);
    shim_grid_gather(structured->residual, &structured->grid, structured->from);
    return norm(structured->from, shim_grid_cells(&structured->grid));
}

/** Begins cycles: from = b - A x, and the norm of b. Returns whether x is zero. */
static int begin(struct shim_structured *structured, const struct rule *rule, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x, double *of_b)
{
    size_t cells = shim_grid_cells(&structured->grid), cell = 0;
    if (!rule->zero_guess)
        shim_grid_gather(x, &structured->grid, structured->to);
    while (!rule->zero_guess && cell < cells && structured->to[cell] == 0)
        cell++;
    int zero = rule->zero_guess || cell == cells;
    structured->relative = 1;
    shim_grid_gather(b, &structured->grid, structured->from);
    if (zero && rule->tolerance <= 0 && rule->max_iterations <= 1)
        return zero; /* one application */
    *of_b = norm(structured->from, cells);
    if (*of_b == 0)
        structured->relative = 0;
    double size = zero ? *of_b : residual(structured, A, b, x);
    if (*of_b > 0)
        structured->relative = size / *of_b;
    return zero;
}

/** Repeats x += M (b - A x), at least once, as hypre does. With a right-hand side of zero and a tolerance x is zero. */
static terrace_status iterate(struct shim_object *object, const struct rule *rule, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x)
{
    struct shim_structured *structured = object->structured;
    size_t cells = shim_grid_cells(&structured->grid);
    double of_b = 0, change = 0;
    int zero = begin(structured, rule, A, b, x, &of_b), small = 0;
    if ((rule->tolerance > 0 && of_b == 0) || (rule->max_iterations == 0 && rule->zero_guess)) {
        memset(structured->to, 0, cells * sizeof(HYPRE_Complex));
        shim_grid_scatter(structured->to, 0, x, &structured->grid);
        return TERRACE_SUCCESS;
    }
    while (!small && structured->iterations < rule->max_iterations) {
        terrace_status status = terrace_amg_apply(object->forward.amg, SHIM_VALUE, structured->from, structured->to);
        if (status != TERRACE_SUCCESS)
            return status;
        shim_grid_scatter(structured->to, !zero, x, &structured->grid);
        structured->iterations++;
        zero = 0;
        if (rule->tolerance <= 0 && structured->iterations == rule->max_iterations)
            break;
        if (rule->relative_change) {
            double of_change = norm(structured->to, cells);
            shim_grid_gather(x, &structured->grid, structured->to);
            double of_x = norm(structured->to, cells);
            change = of_x > 0 ? of_change / of_x : 0;
        }
        structured->relative = residual(structured, A, b, x) / (of_b > 0 ? of_b : 1);
        if (!isfinite(structured->relative))
            return TERRACE_ERROR_NON_FINITE;
        small = structured->relative < rule->tolerance && (!rule->relative_change || change < rule->tolerance);
    }
    return TERRACE_SUCCESS;
}

static HYPRE_Int solve(HYPRE_StructSolver solver, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x, const struct rule *rule, const char *name)
{
    struct shim_object *object = find(solver);
    if (!object || object->server != SHIM_TERRACE || !A || !b || !x)
        return by_hypre(object, name, NULL, solver, A, b, x);
    double start = shim_seconds();
    const char *misfit = shim_grid_misfit(b, &object->structured->grid);
    if (!misfit)
        misfit = shim_grid_misfit(x, &object->structured->grid);
    if (misfit) {
        shim_error("%s: %s", shim_name(object), misfit);
        return HYPRE_GetError();
    }
    object->structured->iterations = 0;
    shim_lock();
    terrace_status status = iterate(object, rule, A, b, x);
    shim_unlock();
    object->solves++;
    object->cycles += object->structured->iterations;
    object->solve_seconds += shim_seconds() - start;
    if (status == TERRACE_ERROR_NON_FINITE)
        shim_error("%s: the residual is not finite after %d iterations", shim_name(object), (int)object->structured->iterations);
    else if (status != TERRACE_SUCCESS)
        shim_error("%s: %s", shim_name(object), shim_last_error());
    return HYPRE_GetError();
}

/** The iterations of the last solve, where Terrace served it. */
static HYPRE_Int iterations(HYPRE_StructSolver solver, HYPRE_Int *count, const char *name)
{
    struct shim_object *object = find(solver);
    if (!object || object->server != SHIM_TERRACE || !count)
        return REAL(count_function, name)(solver, count);
    *count = object->structured->iterations;
    return HYPRE_GetError();
}

static HYPRE_Int final_norm(HYPRE_StructSolver solver, HYPRE_Real *relative, const char *name)
{
    struct shim_object *object = find(solver);
    if (!object || object->server != SHIM_TERRACE || !relative)
        return REAL(real_function, name)(solver, relative);
    *relative = (HYPRE_Real)object->structured->relative;
    return HYPRE_GetError();
}

EXPORT HYPRE_Int HYPRE_StructPFMGCreate(MPI_Comm comm, HYPRE_StructSolver *solver) { return create(comm, solver, SHIM_PFMG, "HYPRE_StructPFMGCreate"); }

EXPORT HYPRE_Int HYPRE_StructPFMGDestroy(HYPRE_StructSolver solver) { return destroy(solver, "HYPRE_StructPFMGDestroy"); }

EXPORT HYPRE_Int HYPRE_StructPFMGSetup(HYPRE_StructSolver solver, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x) { return setup(solver, A, b, x, "HYPRE_StructPFMGSetup"); }

EXPORT HYPRE_Int HYPRE_StructPFMGSolve(HYPRE_StructSolver solver, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x)
{
    struct rule rule = {0};
    HYPRE_Real tolerance = 0;
    HYPRE_StructPFMGGetTol(solver, &tolerance);
    HYPRE_StructPFMGGetMaxIter(solver, &rule.max_iterations);
    HYPRE_StructPFMGGetZeroGuess(solver, &rule.zero_guess);
    HYPRE_StructPFMGGetRelChange(solver, &rule.relative_change);
    rule.tolerance = tolerance;
    return solve(solver, A, b, x, &rule, "HYPRE_StructPFMGSolve");
}

/** Takes note of the weight, too, which the real object does not tell apart from its own choice. */
EXPORT HYPRE_Int HYPRE_StructPFMGSetJacobiWeight(HYPRE_StructSolver solver, HYPRE_Real weight)
{
    struct shim_object *object = find(solver);
    if (object) {
        object->structured->has_weight = 1;
        object->structured->weight = weight;
    }
    return REAL(weight_function, "HYPRE_StructPFMGSetJacobiWeight")(solver, weight);
}

EXPORT HYPRE_Int HYPRE_StructPFMGSetDxyz(HYPRE_StructSolver solver, HYPRE_Real *widths)
{
    struct shim_object *object = find(solver);
    if (object)
        object->structured->has_widths = 1;
    return REAL(real_function, "HYPRE_StructPFMGSetDxyz")(solver, widths);
}

EXPORT HYPRE_Int HYPRE_StructPFMGGetNumIterations(HYPRE_StructSolver solver, HYPRE_Int *count) { return iterations(solver, count, "HYPRE_StructPFMGGetNumIterations"); }

EXPORT HYPRE_Int HYPRE_StructPFMGGetFinalRelativeResidualNorm(HYPRE_StructSolver solver, HYPRE_Real *relative)
{
    return final_norm(solver, relative, "HYPRE_StructPFMGGetFinalRelativeResidualNorm");
}

EXPORT HYPRE_Int HYPRE_StructSMGCreate(MPI_Comm comm, HYPRE_StructSolver *solver) { return create(comm, solver, SHIM_SMG, "HYPRE_StructSMGCreate"); }

EXPORT HYPRE_Int HYPRE_StructSMGDestroy(HYPRE_StructSolver solver) { return destroy(solver, "HYPRE_StructSMGDestroy"); }

EXPORT HYPRE_Int HYPRE_StructSMGSetup(HYPRE_StructSolver solver, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x) { return setup(solver, A, b, x, "HYPRE_StructSMGSetup"); }

EXPORT HYPRE_Int HYPRE_StructSMGSolve(HYPRE_StructSolver solver, HYPRE_StructMatrix A, HYPRE_StructVector b, HYPRE_StructVector x)
{
    struct rule rule = {0};
    HYPRE_Real tolerance = 0;
    HYPRE_StructSMGGetTol(solver, &tolerance);
    HYPRE_StructSMGGetMaxIter(solver, &rule.max_iterations);
    HYPRE_StructSMGGetZeroGuess(solver, &rule.zero_guess);
    HYPRE_StructSMGGetRelChange(solver, &rule.relative_change);
    rule.tolerance = tolerance;
    return solve(solver, A, b, x, &rule, "HYPRE_StructSMGSolve");
}

EXPORT HYPRE_Int HYPRE_StructSMGGetNumIterations(HYPRE_StructSolver solver, HYPRE_Int *count) { return iterations(solver, count, "HYPRE_StructSMGGetNumIterations"); }

EXPORT HYPRE_Int HYPRE_StructSMGGetFinalRelativeResidualNorm(HYPRE_StructSolver solver, HYPRE_Real *relative)
{
    return final_norm(solver, relative, "HYPRE_StructSMGGetFinalRelativeResidualNorm");
}

#endif
