/* Matrices, functions and interpolation vectors of hypre, as Terrace takes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

static int on_host(hypre_CSRMatrix *part) { return hypre_GetActualMemLocation(hypre_CSRMatrixMemoryLocation(part)) == hypre_MEMORY_HOST; }

/** Why a matrix is left to hypre, the same on every rank; NULL where Terrace takes it. */
const char *shim_unfit(hypre_ParCSRMatrix *A)
{
    if (hypre_ParCSRMatrixGlobalNumRows(A) != hypre_ParCSRMatrixGlobalNumCols(A))
        return "the matrix is not square";
    if (hypre_ParCSRMatrixGlobalNumRows(A) == 0)
        return "the matrix is empty";
    if (!shim_all(hypre_ParCSRMatrixComm(A), on_host(hypre_ParCSRMatrixDiag(A)) && on_host(hypre_ParCSRMatrixOffd(A))))
        return "the matrix is not in host memory";
    return NULL;
}

/** A copy, with its ranks where there are several. The program may change or free its arrays before it destroys the solver. */
terrace_status shim_matrix(terrace_context *context, hypre_ParCSRMatrix *A, terrace_matrix **matrix)
{
    hypre_CSRMatrix *diagonal = hypre_ParCSRMatrixDiag(A), *rest = hypre_ParCSRMatrixOffd(A);
    HYPRE_Int rows = hypre_CSRMatrixNumRows(diagonal);
    if (shim_ranks(hypre_ParCSRMatrixComm(A)) == 1)
        return terrace_matrix_create_csr(context, rows, hypre_CSRMatrixNumCols(diagonal), SHIM_INDEX, hypre_CSRMatrixI(diagonal), SHIM_INDEX, hypre_CSRMatrixJ(diagonal),
                                         SHIM_VALUE, hypre_CSRMatrixData(diagonal), 0, TERRACE_COPY, matrix);
    terrace_status status = shim_set_ranks(context, hypre_ParCSRMatrixComm(A));
    if (status != TERRACE_SUCCESS)
        return status;
    return terrace_matrix_create_parcsr(context, hypre_ParCSRMatrixGlobalNumRows(A), hypre_ParCSRMatrixFirstRowIndex(A), rows, SHIM_INDEX, hypre_CSRMatrixI(diagonal),
                                        hypre_CSRMatrixJ(diagonal), hypre_CSRMatrixI(rest), hypre_CSRMatrixJ(rest), hypre_CSRMatrixNumCols(rest), SHIM_BIG_INDEX,
                                        hypre_ParCSRMatrixColMapOffd(A), SHIM_VALUE, hypre_CSRMatrixData(diagonal), hypre_CSRMatrixData(rest), matrix);
}

static int64_t entries_of(hypre_CSRMatrix *part) { return hypre_CSRMatrixI(part)[hypre_CSRMatrixNumRows(part)]; }

/** The values of A for a matrix with its pattern. */
terrace_status shim_new_values(terrace_context *context, hypre_ParCSRMatrix *A, terrace_matrix *matrix)
{
    hypre_CSRMatrix *diagonal = hypre_ParCSRMatrixDiag(A), *rest = hypre_ParCSRMatrixOffd(A);
    if (shim_ranks(hypre_ParCSRMatrixComm(A)) == 1)
        return terrace_matrix_update_values(context, matrix, SHIM_VALUE, hypre_CSRMatrixData(diagonal), entries_of(diagonal));
    size_t first = (size_t)entries_of(diagonal), second = (size_t)entries_of(rest);
    HYPRE_Complex *values = malloc((first + second + 1) * sizeof(HYPRE_Complex));
    if (!values)
        return TERRACE_ERROR_OUT_OF_MEMORY;
    if (first > 0)
        memcpy(values, hypre_CSRMatrixData(diagonal), first * sizeof(HYPRE_Complex));
    if (second > 0)
        memcpy(values + first, hypre_CSRMatrixData(rest), second * sizeof(HYPRE_Complex));
    terrace_status status = terrace_matrix_update_values(context, matrix, SHIM_VALUE, values, (int64_t)(first + second));
    free(values);
    return status;
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

static uint64_t part_fingerprint(uint64_t hash, hypre_CSRMatrix *part)
{
    hash = fingerprint(hash, hypre_CSRMatrixI(part), ((size_t)hypre_CSRMatrixNumRows(part) + 1) * sizeof(HYPRE_Int));
    return fingerprint(hash, hypre_CSRMatrixJ(part), (size_t)entries_of(part) * sizeof(HYPRE_Int));
}

uint64_t shim_pattern_fingerprint(hypre_ParCSRMatrix *A)
{
    hypre_CSRMatrix *rest = hypre_ParCSRMatrixOffd(A);
    uint64_t hash = part_fingerprint(0xcbf29ce484222325u, hypre_ParCSRMatrixDiag(A));
    if (shim_ranks(hypre_ParCSRMatrixComm(A)) == 1)
        return hash;
    HYPRE_BigInt first = hypre_ParCSRMatrixFirstRowIndex(A);
    hash = part_fingerprint(fingerprint(hash, &first, sizeof first), rest);
    return fingerprint(hash, hypre_ParCSRMatrixColMapOffd(A), (size_t)hypre_CSRMatrixNumCols(rest) * sizeof(HYPRE_BigInt));
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

static size_t own_rows(hypre_ParCSRMatrix *A) { return (size_t)hypre_CSRMatrixNumRows(hypre_ParCSRMatrixDiag(A)); }

/** Whether the unknowns of a point are consecutive rows of this rank. */
static int has_points(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A)
{
    HYPRE_Int count = hypre_ParAMGDataNumFunctions(amg);
    const HYPRE_Int *functions = functions_of(amg);
    size_t rows = own_rows(A);
    if (rows % (size_t)count != 0 || hypre_ParCSRMatrixFirstRowIndex(A) % count != 0)
        return 0;
    for (size_t row = 0; functions && row < rows; row++)
        if (functions[row] != (HYPRE_Int)(row % (size_t)count))
            return 0;
    return 1;
}

/** Whether interpolation vectors are there that aggregation can use: the unknowns of a point must be consecutive rows, at most 8. The same on every rank. */
int shim_has_modes(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A)
{
    HYPRE_Int count = hypre_ParAMGDataNumFunctions(amg);
    if (hypre_ParAMGNumInterpVectors(amg) < 1 || count < 1 || count > 8)
        return 0;
    return shim_all(hypre_ParCSRMatrixComm(A), has_points(amg, A));
}

uint64_t shim_modes_fingerprint(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A)
{
    size_t rows = own_rows(A);
    HYPRE_Int count = hypre_ParAMGDataNumFunctions(amg);
    uint64_t hash = fingerprint(0xcbf29ce484222325u, &count, sizeof count);
    if (count > 1 && functions_of(amg))
        hash = fingerprint(hash, functions_of(amg), rows * sizeof(HYPRE_Int));
    for (int i = 0; i < hypre_ParAMGNumInterpVectors(amg); i++)
        hash = fingerprint(hash, interpolation_vector(amg, i), rows * sizeof(HYPRE_Complex));
    return hash;
}

/** Whether a vector lies in the span of orthonormal ones, up to 1e-6 of its norm; otherwise what is orthogonal to them is stored as the next of them. */
static int in_span(MPI_Comm comm, double *basis, int count, size_t rows, const double *vector)
{
    double *next = basis + (size_t)count * rows, norms[2] = {0, 0};
    if (rows > 0)
        memcpy(next, vector, rows * sizeof(double));
    for (size_t row = 0; row < rows; row++)
        norms[0] += vector[row] * vector[row];
    for (int twice = 0; twice < 2; twice++) {
        double products[8] = {0};
        for (int i = 0; i < count; i++)
            for (size_t row = 0; row < rows; row++)
                products[i] += next[row] * basis[(size_t)i * rows + row];
        shim_sum(comm, products, count);
        for (int i = 0; i < count; i++)
            for (size_t row = 0; row < rows; row++)
                next[row] -= products[i] * basis[(size_t)i * rows + row];
    }
    for (size_t row = 0; row < rows; row++)
        norms[1] += next[row] * next[row];
    shim_sum(comm, norms, 2);
    if (!(norms[1] > 1e-12 * norms[0]))
        return 1;
    for (size_t row = 0; row < rows; row++)
        next[row] /= sqrt(norms[1]);
    return 0;
}

/**
 * The near-null space: hypre interpolates the constants of each function by itself, so that programs give the other modes alone, or all of them, as
 * PETSc does. The modes are made orthonormal, which leaves their span as it is.
 */
static terrace_status near_null_space(terrace_context *context, terrace_matrix *matrix, hypre_ParAMGData *amg, hypre_ParCSRMatrix *A)
{
    MPI_Comm comm = hypre_ParCSRMatrixComm(A);
    HYPRE_Int functions = hypre_ParAMGDataNumFunctions(amg);
    size_t rows = own_rows(A);
    double *basis = malloc(9 * (rows + 1) * sizeof(double)), *vector = malloc((rows + 1) * sizeof(double));
    int count = 0, has_room = shim_all(comm, basis && vector);
    for (int i = 0; has_room && i < functions + hypre_ParAMGNumInterpVectors(amg) && count < 8; i++) {
        const HYPRE_Complex *given = i < functions ? NULL : interpolation_vector(amg, i - functions);
        for (size_t row = 0; row < rows; row++)
            vector[row] = given ? (double)given[row] : (HYPRE_Int)(row % (size_t)functions) == i ? 1.0 : 0.0;
        if (!in_span(comm, basis, count, rows, vector))
            count++;
    }
    terrace_status status = TERRACE_ERROR_OUT_OF_MEMORY;
    if (has_room)
        status = terrace_matrix_set_near_null_space(context, matrix, (int32_t)functions, count, basis);
    free(basis);
    free(vector);
    return status;
}

/** Gives functions and near-null space of a BoomerAMG object to its matrix. */
terrace_status shim_modes(terrace_context *context, terrace_matrix *matrix, hypre_ParAMGData *amg, hypre_ParCSRMatrix *A)
{
    size_t rows = own_rows(A);
    HYPRE_Int count = hypre_ParAMGDataNumFunctions(amg);
    if (shim_has_modes(amg, A))
        return near_null_space(context, matrix, amg, A);
    if (count <= 1)
        return TERRACE_SUCCESS;
    int32_t *functions = malloc((rows + 1) * sizeof(int32_t));
    if (!shim_all(hypre_ParCSRMatrixComm(A), functions != NULL)) {
        free(functions);
        return TERRACE_ERROR_OUT_OF_MEMORY;
    }
    for (size_t row = 0; row < rows; row++)
        functions[row] = (int32_t)function_of(functions_of(amg), count, functions_of(amg) ? (HYPRE_BigInt)row : hypre_ParCSRMatrixFirstRowIndex(A) + (HYPRE_BigInt)row);
    terrace_status status = terrace_matrix_set_functions(context, matrix, (int32_t)count, functions);
    free(functions);
    return status;
}
