/*
 * terrace_petsc_arrays.h: errors of Terrace as errors of PETSc, and the arrays of PETSc's matrices in the form that Terrace takes. Part of terrace_petsc.h, which
 * includes it.
 */

#ifndef TERRACE_PETSC_ARRAYS_H
#define TERRACE_PETSC_ARRAYS_H

#include <petsc/private/pcimpl.h>
#include <petscksp.h>

#include "terrace.h"

/* Blocks are used where they have at most this many values for each that AIJ stores. */
#define TERRACE_PETSC_FILL 2

#define TERRACE_PETSC_INDEX (sizeof(PetscInt) == 8 ? TERRACE_I64 : TERRACE_I32)
#define TERRACE_PETSC_SCALAR (sizeof(PetscScalar) == 8 ? TERRACE_F64 : TERRACE_F32)

/* The arrays of a matrix in compressed rows, of scalars or of blocks with their values row by row. */
typedef struct {
  Mat             mat;               /* AIJ or BAIJ */
  PetscBool       is_converted;      /* mat was made here */
  PetscBool       is_blocked;        /* mat is BAIJ */
  const PetscInt *ia, *ja;           /* arrays of mat */
  PetscScalar    *a;
  PetscInt        rows, block;       /* rows of blocks; 1 for scalars */
  PetscInt       *offsets, *columns; /* made here; NULL where those of mat serve */
  PetscScalar    *values;
  /* Of several processes: the columns that are rows of others, with a map to their numbers; scalar rows. */
  Mat             rest;              /* NULL on one process */
  const PetscInt *rest_ia, *rest_ja, *map;
  PetscScalar    *rest_a;
  PetscInt        map_count, first, total;
  Mat             owner;             /* what was converted, to be destroyed */
} TerracePetscArrays;

/* The error code of PETSc that is nearest to a status. */
static inline PetscErrorCode TerracePetscCode(terrace_status status)
{
  switch (status) {
  case TERRACE_ERROR_OUT_OF_MEMORY: return PETSC_ERR_MEM;
  case TERRACE_ERROR_UNSUPPORTED: return PETSC_ERR_SUP;
  case TERRACE_ERROR_SIZE_MISMATCH: return PETSC_ERR_ARG_SIZ;
  case TERRACE_ERROR_UNKNOWN_OPTION:
  case TERRACE_ERROR_OPTION_VALUE:
  case TERRACE_ERROR_PARSE: return PETSC_ERR_USER_INPUT;
  case TERRACE_ERROR_INVALID_ARGUMENT: return PETSC_ERR_ARG_OUTOFRANGE;
  case TERRACE_ERROR_NOT_SET_UP: return PETSC_ERR_ARG_WRONGSTATE;
  case TERRACE_ERROR_MATRIX_STRUCTURE:
  case TERRACE_ERROR_MATRIX_VALUES: return PETSC_ERR_ARG_WRONG;
  case TERRACE_ERROR_BREAKDOWN:
  case TERRACE_ERROR_NON_FINITE:
  case TERRACE_ERROR_DIVERGED:
  case TERRACE_ERROR_PRECISION_LOST: return PETSC_ERR_FP;
  default: return PETSC_ERR_LIB;
  }
}

/* Calls the library; anything but success is an error of PETSc with the library's sentence after `what`. */
#define PetscCallTerrace(comm, what, ...) \
  do { \
    terrace_status status_ = __VA_ARGS__; \
    if (PetscUnlikely(status_ != TERRACE_SUCCESS)) { \
      char sentence_[1024]; \
      terrace_last_error(NULL, sentence_, sizeof(sentence_), NULL); \
      SETERRQ(comm, TerracePetscCode(status_), "%s: %s (%s)", what, sentence_, terrace_status_name(status_)); \
    } \
  } while (0)

#define TERRACE_PETSC_COMM(pc) PetscObjectComm((PetscObject)(pc))

/* AIJ with a block size as compressed rows of blocks, with zeros where blocks are not full. Leaves the arrays as they are where blocks would be too empty. */
static inline PetscErrorCode TerracePetscToBlocks(TerracePetscArrays *arrays, PetscInt size)
{
  const PetscInt *ia = arrays->ia, *ja = arrays->ja;
  const size_t    area = (size_t)(size * size);
  PetscInt        rows = arrays->rows / size, row, i, k, blocks = 0, *offsets, *columns, *place;
  PetscScalar    *values;

  PetscFunctionBegin;
  PetscCall(PetscMalloc2(rows + 1, &offsets, rows, &place));
  for (row = 0; row < rows; row++) place[row] = -1;
  for (row = 0, offsets[0] = 0; row < rows; row++) {
    for (k = ia[row * size]; k < ia[(row + 1) * size]; k++) {
      i = ja[k] / size;
      if (place[i] != row) blocks++;
      place[i] = row;
    }
    offsets[row + 1] = blocks;
  }
  if ((size_t)blocks * area > TERRACE_PETSC_FILL * (size_t)ia[arrays->rows]) {
    PetscCall(PetscFree2(offsets, place));
    PetscFunctionReturn(0);
  }
  PetscCall(PetscMalloc1(rows + 1, &arrays->offsets));
  PetscCall(PetscArraycpy(arrays->offsets, offsets, rows + 1));
  PetscCall(PetscMalloc1(blocks, &columns));
  PetscCall(PetscCalloc1((size_t)blocks * area, &values));
  for (row = 0; row < rows; row++) place[row] = -1;
  for (row = 0, blocks = 0; row < rows; row++) {
    for (k = ia[row * size]; k < ia[(row + 1) * size]; k++) {
      i = ja[k] / size;
      if (place[i] < offsets[row]) {
        place[i]          = blocks;
        columns[blocks++] = i;
      }
    }
    PetscCall(PetscSortInt(blocks - offsets[row], columns + offsets[row]));
    for (k = offsets[row]; k < blocks; k++) place[columns[k]] = k;
    for (i = 0; i < size; i++) {
      for (k = ia[row * size + i]; k < ia[row * size + i + 1]; k++) values[(size_t)place[ja[k] / size] * area + (size_t)(i * size + ja[k] % size)] = arrays->a[k];
    }
  }
  PetscCall(PetscFree2(offsets, place));
  arrays->rows    = rows;
  arrays->block   = size;
  arrays->columns = columns;
  arrays->values  = values;
  PetscFunctionReturn(0);
}

/* The arrays of a matrix on several processes: of AIJ as they are, of other types converted to it. */
static inline PetscErrorCode TerracePetscGetParts(PC pc, TerracePetscArrays *arrays)
{
  MPI_Comm           comm = TERRACE_PETSC_COMM(pc);
  PetscBool          is_aij, is_baij, is_sbaij, done, also;
  PetscInt           rows;
  Mat                mat = pc->pmat;
  MatType            type;
  const PetscScalar *a, *rest;

  PetscFunctionBegin;
  PetscCall(MatGetType(mat, &type));
  PetscCall(PetscStrbeginswith(type, MATMPIAIJ, &is_aij));
  PetscCall(PetscStrbeginswith(type, MATMPIBAIJ, &is_baij));
  PetscCall(PetscStrbeginswith(type, MATMPISBAIJ, &is_sbaij));
  PetscCheck(is_aij || is_baij || is_sbaij, comm, PETSC_ERR_SUP, "PCTERRACE: the matrix is of type %s; accepted on several processes: aij, baij, sbaij, and what is derived from aij", type);
  if (!is_aij) {
    PetscCall(MatConvert(mat, MATMPIAIJ, MAT_INITIAL_MATRIX, &arrays->owner));
    mat = arrays->owner;
  }
  PetscCall(MatMPIAIJGetSeqAIJ(mat, &arrays->mat, &arrays->rest, &arrays->map));
  PetscCall(MatGetOwnershipRange(mat, &arrays->first, NULL));
  PetscCall(MatGetSize(mat, &arrays->total, NULL));
  PetscCall(MatGetSize(arrays->rest, NULL, &arrays->map_count));
  PetscCall(MatGetRowIJ(arrays->mat, 0, PETSC_FALSE, PETSC_FALSE, &arrays->rows, &arrays->ia, &arrays->ja, &done));
  PetscCall(MatGetRowIJ(arrays->rest, 0, PETSC_FALSE, PETSC_FALSE, &rows, &arrays->rest_ia, &arrays->rest_ja, &also));
  PetscCheck(done && also, comm, PETSC_ERR_SUP, "PCTERRACE: the matrix of type %s does not give its rows", type);
  PetscCall(MatSeqAIJGetArrayRead(arrays->mat, &a));
  PetscCall(MatSeqAIJGetArrayRead(arrays->rest, &rest));
  arrays->a      = (PetscScalar *)a;
  arrays->rest_a = (PetscScalar *)rest;
  arrays->block  = 1;
  PetscFunctionReturn(0);
}

/* The arrays of the matrix that the preconditioner is made from. */
static inline PetscErrorCode TerracePetscGetArrays(PC pc, TerracePetscArrays *arrays)
{
  MPI_Comm    comm = TERRACE_PETSC_COMM(pc);
  PetscMPIInt processes;
  PetscBool   is_aij, is_sbaij, done;
  PetscInt    size, block, row, i, j;
  size_t      k;
  MatType     type;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(arrays, sizeof(*arrays)));
  PetscCallMPI(MPI_Comm_size(comm, &processes));
  if (processes > 1) {
    PetscCall(TerracePetscGetParts(pc, arrays));
    PetscFunctionReturn(0);
  }
  PetscCall(MatGetDiagonalBlock(pc->pmat, &arrays->mat));
  PetscCall(MatGetType(arrays->mat, &type));
  PetscCall(PetscStrbeginswith(type, MATSEQAIJ, &is_aij));
  PetscCall(PetscStrbeginswith(type, MATSEQBAIJ, &arrays->is_blocked));
  PetscCall(PetscStrbeginswith(type, MATSEQSBAIJ, &is_sbaij));
  PetscCheck(is_aij || arrays->is_blocked || is_sbaij, comm, PETSC_ERR_SUP, "PCTERRACE: the matrix is of type %s; accepted: aij, baij, sbaij, and what is derived from aij", type);
  PetscCall(MatGetBlockSize(pc->pmat, &size));
  if (is_sbaij) {
    PetscCall(MatConvert(arrays->mat, MATSEQAIJ, MAT_INITIAL_MATRIX, &arrays->mat));
    arrays->is_converted = PETSC_TRUE;
  }
  PetscCall(MatGetRowIJ(arrays->mat, 0, PETSC_FALSE, arrays->is_blocked, &arrays->rows, &arrays->ia, &arrays->ja, &done));
  PetscCheck(done, comm, PETSC_ERR_SUP, "PCTERRACE: the matrix of type %s does not give its rows", type);
  arrays->block = 1;
  if (!arrays->is_blocked) {
    const PetscScalar *a;
    PetscCall(MatSeqAIJGetArrayRead(arrays->mat, &a));
    arrays->a = (PetscScalar *)a;
    if (size > 1 && size <= 8) PetscCall(TerracePetscToBlocks(arrays, size));
    PetscFunctionReturn(0);
  }
  PetscCall(MatSeqBAIJGetArray(arrays->mat, &arrays->a));
  arrays->block = block = size;
  if (size == 1) PetscFunctionReturn(0);
  /* PETSc stores blocks column by column. */
  PetscCall(PetscMalloc1((size_t)arrays->ia[arrays->rows] * (size_t)(block * block), &arrays->values));
  for (row = 0; row < arrays->ia[arrays->rows]; row++) {
    k = (size_t)row * (size_t)(block * block);
    for (i = 0; i < block; i++) {
      for (j = 0; j < block; j++) arrays->values[k + (size_t)(i * block + j)] = arrays->a[k + (size_t)(j * block + i)];
    }
  }
  PetscFunctionReturn(0);
}

static inline PetscErrorCode TerracePetscRestoreArrays(TerracePetscArrays *arrays)
{
  PetscInt          rows;
  PetscBool         done;
  const PetscScalar *a = arrays->a, *rest = arrays->rest_a;

  PetscFunctionBegin;
  if (arrays->rest) {
    PetscCall(MatSeqAIJRestoreArrayRead(arrays->rest, &rest));
    PetscCall(MatRestoreRowIJ(arrays->rest, 0, PETSC_FALSE, PETSC_FALSE, &rows, &arrays->rest_ia, &arrays->rest_ja, &done));
  }
  PetscCall(PetscFree(arrays->offsets));
  PetscCall(PetscFree(arrays->columns));
  PetscCall(PetscFree(arrays->values));
  if (arrays->is_blocked) PetscCall(MatSeqBAIJRestoreArray(arrays->mat, &arrays->a));
  else PetscCall(MatSeqAIJRestoreArrayRead(arrays->mat, &a));
  PetscCall(MatRestoreRowIJ(arrays->mat, 0, PETSC_FALSE, arrays->is_blocked, &rows, &arrays->ia, &arrays->ja, &done));
  if (arrays->is_converted) PetscCall(MatDestroy(&arrays->mat));
  PetscCall(MatDestroy(&arrays->owner));
  PetscFunctionReturn(0);
}

/* Whether A x and its transpose's product agree for a random x, unless the program has said what the matrix is. Not every type can compare its entries. */
static inline PetscErrorCode TerracePetscIsSymmetric(Mat mat, PetscBool *is_symmetric)
{
  PetscRandom random;
  PetscBool   is_known;
  PetscReal   norm, difference;
  Vec         x, y, z;

  PetscFunctionBegin;
  PetscCall(MatIsSymmetricKnown(mat, &is_known, is_symmetric));
  if (is_known) PetscFunctionReturn(0);
  PetscCall(MatCreateVecs(mat, &x, &y));
  PetscCall(VecDuplicate(y, &z));
  PetscCall(PetscRandomCreate(PetscObjectComm((PetscObject)mat), &random));
  PetscCall(VecSetRandom(x, random));
  PetscCall(PetscRandomDestroy(&random));
  PetscCall(MatMult(mat, x, y));
  PetscCall(MatMultTranspose(mat, x, z));
  PetscCall(VecNorm(y, NORM_2, &norm));
  PetscCall(VecAXPY(z, -1.0, y));
  PetscCall(VecNorm(z, NORM_2, &difference));
  *is_symmetric = (PetscBool)(difference <= (sizeof(PetscScalar) == 8 ? 1e-10 : 1e-4) * norm);
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&z));
  PetscFunctionReturn(0);
}

#endif
