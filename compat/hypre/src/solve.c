/* Cycles with the tolerance and the limits of BoomerAMG. */
#include <math.h>
#include <string.h>

#include "shim.h"

static HYPRE_Complex *data_of(hypre_ParVector *vector) { return hypre_VectorData(hypre_ParVectorLocalVector(vector)); }

/** Whether a vector is in host memory, where the matrix is. Device memory of hypre is what its build makes it. */
static int on_host(hypre_ParVector *vector)
{
    return hypre_GetActualMemLocation(hypre_VectorMemoryLocation(hypre_ParVectorLocalVector(vector))) == hypre_MEMORY_HOST;
}

/** Elements on this rank. */
static size_t rows_of(hypre_ParVector *vector) { return (size_t)hypre_VectorSize(hypre_ParVectorLocalVector(vector)); }

/** A vector like another one, kept in the object. */
static int prepare(hypre_ParVector **vector, hypre_ParVector *like)
{
    int same = *vector && hypre_ParVectorGlobalSize(*vector) == hypre_ParVectorGlobalSize(like) && rows_of(*vector) == rows_of(like);
    if (shim_all(hypre_ParVectorComm(like), same))
        return 1;
    if (*vector)
        hypre_ParVectorDestroy(*vector);
    *vector = hypre_ParVectorCreate(hypre_ParVectorComm(like), hypre_ParVectorGlobalSize(like), hypre_ParVectorPartitioning(like));
#ifdef hypre_ParVectorOwnsPartitioning
    hypre_ParVectorOwnsPartitioning(*vector) = 0;
#endif
    hypre_ParVectorInitialize(*vector);
    return shim_all(hypre_ParVectorComm(like), data_of(*vector) != NULL || rows_of(*vector) == 0);
}

/** Whether a vector is zero on every rank. */
static int is_zero(hypre_ParVector *vector)
{
    size_t row = 0;
    while (row < rows_of(vector) && data_of(vector)[row] == 0)
        row++;
    return shim_all(hypre_ParVectorComm(vector), row == rows_of(vector));
}

static terrace_status apply(struct shim_operator *operator, int transposed, const HYPRE_Complex *b, HYPRE_Complex *x)
{
    if (operator->fsai)
        return terrace_fsai_apply(operator->fsai, SHIM_VALUE, b, x);
    if (transposed)
        return terrace_amg_apply_transposed(operator->amg, SHIM_VALUE, b, x);
    return terrace_amg_apply(operator->amg, SHIM_VALUE, b, x);
}

/** r = b - A x with the program's matrix, whose values may have changed since set-up; its norm. */
static double residual(int transposed, hypre_ParCSRMatrix *A, hypre_ParVector *b, hypre_ParVector *x, hypre_ParVector *r)
{
    if (rows_of(b) > 0)
        memcpy(data_of(r), data_of(b), rows_of(b) * sizeof(HYPRE_Complex));
    if (transposed)
        hypre_ParCSRMatrixMatvecT(-1.0, A, x, 1.0, r);
    else
        hypre_ParCSRMatrixMatvec(-1.0, A, x, 1.0, r);
    return sqrt(hypre_ParVectorInnerProd(r, r));
}

/** Repeats x += weight M (b - A x), where M is a cycle or FSAI. */
static terrace_status iterate(struct shim_object *object, int transposed, hypre_ParCSRMatrix *A, hypre_ParVector *b, hypre_ParVector *x, struct shim_stop *stop)
{
    struct shim_operator *operator = &object->forward;
    int watch = stop->tolerance > 0 || stop->want_residual;
    if (stop->zero_guess && rows_of(x) > 0)
        memset(data_of(x), 0, rows_of(x) * sizeof(HYPRE_Complex));
    int zero = stop->zero_guess || is_zero(x), computed = 0;
    double scale = 1;
    if (!(zero && !watch && stop->max_iterations == 1 && stop->weight == 1) && !(prepare(&object->residual, b) && prepare(&object->correction, b)))
        return TERRACE_ERROR_OUT_OF_MEMORY;
    stop->relative = 1;
    if (watch) {
        double norm = residual(transposed, A, b, x, object->residual);
        double of_b = stop->relative_to_initial ? norm : sqrt(hypre_ParVectorInnerProd(b, b));
        scale = of_b > 0 ? of_b : 1;
        stop->relative = norm / scale;
        computed = 1;
    }
    while ((!(stop->relative < stop->tolerance) || stop->iterations < stop->min_iterations) && stop->iterations < stop->max_iterations) {
        terrace_status status;
        if (zero && stop->weight == 1) {
            status = apply(operator, transposed, data_of(b), data_of(x));
        } else {
            if (!computed)
                residual(transposed, A, b, x, object->residual);
            status = apply(operator, transposed, data_of(object->residual), data_of(object->correction));
            if (status == TERRACE_SUCCESS)
                hypre_ParVectorAxpy(stop->weight, object->correction, x);
        }
        if (status != TERRACE_SUCCESS)
            return status;
        zero = computed = 0;
        stop->iterations++;
        if (watch) {
            stop->relative = residual(transposed, A, b, x, object->residual) / scale;
            computed = 1;
            if (!isfinite(stop->relative))
                return TERRACE_ERROR_NON_FINITE;
        }
    }
    return TERRACE_SUCCESS;
}

HYPRE_Int shim_solve(struct shim_object *object, int transposed, hypre_ParCSRMatrix *A, hypre_ParVector *b, hypre_ParVector *x, struct shim_stop *stop)
{
    double start = shim_seconds();
    terrace_status status = TERRACE_SUCCESS;
    if (!on_host(b) || !on_host(x)) {
        shim_error("%s: the matrix is in host memory, and a vector is not", shim_name(object));
        return HYPRE_GetError();
    }
    shim_lock();
    status = iterate(object, transposed, A, b, x, stop);
    shim_unlock();
    object->solves++;
    object->cycles += stop->iterations;
    object->solve_seconds += shim_seconds() - start;
    if (status == TERRACE_ERROR_NON_FINITE)
        shim_error("%s: the residual is not finite after %d iterations", shim_name(object), (int)stop->iterations);
    else if (status != TERRACE_SUCCESS)
        shim_error("%s: %s", shim_name(object), shim_last_error());
    else if (stop->tolerance > 0 && !(stop->relative < stop->tolerance))
        hypre_error(HYPRE_ERROR_CONV);
    return HYPRE_GetError();
}
