/* Matrices, functions and interpolation vectors of hypre, as Terrace takes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/** Why a matrix is left to hypre; NULL where Terrace takes it. */
const char *shim_unfit(hypre_ParCSRMatrix *A)
{
    HYPRE_Int ranks = 1;
    hypre_MPI_Comm_size(hypre_ParCSRMatrixComm(A), &ranks);
    if (ranks != 1)
        return "the matrix is distributed over several ranks";
    if (hypre_ParCSRMatrixGlobalNumRows(A) != hypre_ParCSRMatrixGlobalNumCols(A))
        return "the matrix is not square";
    if (hypre_ParCSRMatrixGlobalNumRows(A) == 0)
        return "the matrix is empty";
    if (hypre_GetActualMemLocation(hypre_CSRMatrixMemoryLocation(hypre_ParCSRMatrixDiag(A))) != hypre_MEMORY_HOST)
        return "the matrix is not in host memory";
    return NULL;
}

/** A copy of the diagonal part, which is the whole matrix on one rank. The program may change or free its arrays before it destroys the solver. */
terrace_status shim_matrix(terrace_context *context, hypre_ParCSRMatrix *A, terrace_matrix **matrix)
{
    hypre_CSRMatrix *diagonal = hypre_ParCSRMatrixDiag(A);
    return terrace_matrix_create_csr(context, hypre_CSRMatrixNumRows(diagonal), hypre_CSRMatrixNumCols(diagonal), SHIM_INDEX, hypre_CSRMatrixI(diagonal), SHIM_INDEX,
                                     hypre_CSRMatrixJ(diagonal), SHIM_VALUE, hypre_CSRMatrixData(diagonal), 0, TERRACE_COPY, matrix);
}

/** FNV-1a over 64-bit words, the rest by bytes. */
static uint64_t fingerprint(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    for (; bytes > 0; bytes--, at++)
        hash = (hash ^ *at) * 0x100000001b3u;
    return hash;
}

uint64_t shim_pattern_fingerprint(hypre_ParCSRMatrix *A)
{
    hypre_CSRMatrix *diagonal = hypre_ParCSRMatrixDiag(A);
    size_t rows = (size_t)hypre_CSRMatrixNumRows(diagonal), entries = (size_t)hypre_CSRMatrixI(diagonal)[rows];
    uint64_t hash = fingerprint(0xcbf29ce484222325u, hypre_CSRMatrixI(diagonal), (rows + 1) * sizeof(HYPRE_Int));
    return fingerprint(hash, hypre_CSRMatrixJ(diagonal), entries * sizeof(HYPRE_Int));
}

/** The function of each unknown, as the program gave it; NULL where it did not. */
static const HYPRE_Int *functions_of(hypre_ParAMGData *amg)
{
#ifdef hypre_IntArrayData
    return hypre_ParAMGDataDofFunc(amg) ? hypre_IntArrayData(hypre_ParAMGDataDofFunc(amg)) : NULL;
#else
    return hypre_ParAMGDataDofFunc(amg);
#endif
}

static HYPRE_Int function_of(const HYPRE_Int *functions, HYPRE_Int count, HYPRE_BigInt row) { return functions ? functions[row] : (HYPRE_Int)(row % count); }

static const HYPRE_Complex *interpolation_vector(hypre_ParAMGData *amg, int i) { return hypre_VectorData(hypre_ParVectorLocalVector(hypre_ParAMGInterpVectors(amg)[i])); }

/** Whether interpolation vectors are there that aggregation can use: the unknowns of a point must be consecutive rows, at most 8. */
int shim_has_modes(hypre_ParAMGData *amg, HYPRE_BigInt rows)
{
    HYPRE_Int count = hypre_ParAMGDataNumFunctions(amg);
    const HYPRE_Int *functions = functions_of(amg);
    if (hypre_ParAMGNumInterpVectors(amg) < 1 || count < 1 || count > 8 || rows % count != 0)
        return 0;
    for (HYPRE_BigInt row = 0; functions && row < rows; row++)
        if (functions[row] != row % count)
            return 0;
    return 1;
}

uint64_t shim_modes_fingerprint(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A)
{
    size_t rows = (size_t)hypre_ParCSRMatrixGlobalNumRows(A);
    HYPRE_Int count = hypre_ParAMGDataNumFunctions(amg);
    uint64_t hash = fingerprint(0xcbf29ce484222325u, &count, sizeof count);
    if (count > 1 && functions_of(amg))
        hash = fingerprint(hash, functions_of(amg), rows * sizeof(HYPRE_Int));
    for (int i = 0; i < hypre_ParAMGNumInterpVectors(amg); i++)
        hash = fingerprint(hash, interpolation_vector(amg, i), rows * sizeof(HYPRE_Complex));
    return hash;
}

/** Whether a vector lies in the span of orthonormal ones, up to 1e-6 of its norm; otherwise what is orthogonal to them is stored as the next of them. */
static int in_span(double *basis, int count, size_t rows, const double *vector)
{
    double *next = basis + (size_t)count * rows, norm = 0, rest = 0;
    memcpy(next, vector, rows * sizeof(double));
    for (size_t row = 0; row < rows; row++)
        norm += vector[row] * vector[row];
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < count; i++) {
            const double *other = basis + (size_t)i * rows;
            double product = 0;
            for (size_t row = 0; row < rows; row++)
                product += next[row] * other[row];
            for (size_t row = 0; row < rows; row++)
                next[row] -= product * other[row];
        }
    for (size_t row = 0; row < rows; row++)
        rest += next[row] * next[row];
    if (!(rest > 1e-12 * norm))
        return 1;
    for (size_t row = 0; row < rows; row++)
        next[row] /= sqrt(rest);
    return 0;
}

/**
 * The near-null space: hypre interpolates the constants of each function by itself, so that programs give the other modes alone, or all of them, as
 * PETSc does. The modes are made orthonormal, which leaves their span as it is.
 */
static terrace_status near_null_space(terrace_context *context, terrace_matrix *matrix, hypre_ParAMGData *amg, size_t rows)
{
    HYPRE_Int functions = hypre_ParAMGDataNumFunctions(amg);
    double *basis = malloc(9 * rows * sizeof(double)), *vector = malloc(rows * sizeof(double));
    int count = 0;
    for (int i = 0; basis && vector && i < functions + hypre_ParAMGNumInterpVectors(amg) && count < 8; i++) {
        const HYPRE_Complex *given = i < functions ? NULL : interpolation_vector(amg, i - functions);
        for (size_t row = 0; row < rows; row++)
            vector[row] = given ? (double)given[row] : (HYPRE_Int)(row % (size_t)functions) == i ? 1.0 : 0.0;
        if (!in_span(basis, count, rows, vector))
            count++;
    }
    terrace_status status = TERRACE_ERROR_OUT_OF_MEMORY;
    if (basis && vector)
        status = terrace_matrix_set_near_null_space(context, matrix, (int32_t)functions, count, basis);
    free(basis);
    free(vector);
    return status;
}

/** Gives functions and near-null space of a BoomerAMG object to its matrix. */
terrace_status shim_modes(terrace_context *context, terrace_matrix *matrix, hypre_ParAMGData *amg, hypre_ParCSRMatrix *A)
{
    size_t rows = (size_t)hypre_ParCSRMatrixGlobalNumRows(A);
    HYPRE_Int count = hypre_ParAMGDataNumFunctions(amg);
    if (shim_has_modes(amg, (HYPRE_BigInt)rows))
        return near_null_space(context, matrix, amg, rows);
    if (count <= 1)
        return TERRACE_SUCCESS;
    int32_t *functions = malloc(rows * sizeof(int32_t));
    if (!functions)
        return TERRACE_ERROR_OUT_OF_MEMORY;
    for (size_t row = 0; row < rows; row++)
        functions[row] = (int32_t)function_of(functions_of(amg), count, (HYPRE_BigInt)row);
    terrace_status status = terrace_matrix_set_functions(context, matrix, (int32_t)count, functions);
    free(functions);
    return status;
}
