/*
 * terrace_petsc.h: Terrace as a preconditioner of PETSc, `-pc_type terrace`. For PETSc 3.18 or newer with real numbers.
 *
 * Call TerracePetscRegister() after PetscInitialize(), and link with libterrace. Programs that cannot be compiled again load
 * libterrace_petsc.so, made by `make compat-petsc`, with -dll_append. docs/migrating.md has the options and what differs.
 *
 * Matrices: AIJ, BAIJ and SBAIJ, on any number of processes, which have one thread each unless -pc_terrace_device says otherwise; on
 * several they are stored in scalar rows. They are copied, so that a preconditioner that is reused stays as it is. A matrix whose
 * nonzero pattern has not changed is updated (terrace_amg_update). On one process AIJ with a block size of 2 to 8 is stored in blocks where
 * these are at least half full.
 *
 * Near-null space: the vectors of MatSetNearNullSpace(), else the rigid-body modes of PCSetCoordinates() where there are as many unknowns
 * in a block as dimensions, else the constant of each unknown of a block.
 */

#ifndef TERRACE_PETSC_H
#define TERRACE_PETSC_H

#include <petsc/private/pcimpl.h>
#include <petscksp.h>
#include <stdio.h>
#include <string.h>

#include "terrace.h"
#include "terrace_petsc_arrays.h"
#if !defined(PETSC_HAVE_MPIUNI)
#include "terrace_mpi.h"
#endif

#if PETSC_VERSION_LT(3, 18, 0)
#error "terrace_petsc.h needs PETSc 3.18 or newer"
#endif
#if defined(PETSC_USE_COMPLEX) || defined(PETSC_USE_REAL___FLOAT128) || defined(PETSC_USE_REAL___FP16)
#error "terrace_petsc.h needs a PETSc with real numbers in double or single precision"
#endif

/** The type, for PCSetType(). */
#define PCTERRACE "terrace"

#if PETSC_VERSION_LT(3, 23, 0)
typedef PetscOptionItems *TerracePetscItems;
#else
typedef PetscOptionItems TerracePetscItems;
#endif

/* What pc->data points to. */
typedef struct {
  terrace_context *context;
  terrace_config  *config;
  terrace_matrix  *matrix;     /* copy of the matrix */
  terrace_amg     *amg;        /* one of these two is set up */
  terrace_fsai    *fsai;
  PetscReal       *coordinates; /* of nodes, x0 y0 z0 x1 ...; NULL without */
  PetscInt         dimension, nodes;
  PetscObjectId    near_null_space; /* that of the last set-up; 0 without */
  PetscBool        is_stale;        /* options or coordinates have changed since set-up */
} PC_Terrace;

/* Whether something is so on any process. */
static inline PetscErrorCode PCTerraceAny_Private(PC pc, PetscBool *any)
{
  PetscMPIInt here = *any ? 1 : 0, there = here;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Allreduce(&here, &there, 1, MPI_INT, MPI_MAX, TERRACE_PETSC_COMM(pc)));
  *any = there ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(0);
}

/* A context on a device, with the processes of the preconditioner where it has several. These have one thread each unless the device tells. */
static inline PetscErrorCode PCTerraceContext_Private(PC pc, const char device[], terrace_context **context)
{
  PetscMPIInt      processes;
  PetscBool        failed;
  terrace_context *made = NULL;
  terrace_status   status;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(TERRACE_PETSC_COMM(pc), &processes));
  status = terrace_context_create(device ? device : processes > 1 ? "host:1" : "host", &made);
  failed = (PetscBool)(status != TERRACE_SUCCESS);
  PetscCall(PCTerraceAny_Private(pc, &failed));
#if !defined(PETSC_HAVE_MPIUNI)
  if (processes > 1 && !failed) status = terrace_context_set_mpi(made, TERRACE_PETSC_COMM(pc));
#endif
  /* The sentence of an error is that of the thread, and stays without the context. */
  if (failed || status != TERRACE_SUCCESS) terrace_context_destroy(made);
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "device of PCTERRACE", status);
  PetscCheck(!failed, TERRACE_PETSC_COMM(pc), PETSC_ERR_LIB, "device of PCTERRACE: another process could not open its device");
  *context = made;
  PetscFunctionReturn(0);
}

/* The context and the options, made at first use. */
static inline PetscErrorCode PCTerraceBegin_Private(PC pc)
{
  PC_Terrace *terrace = (PC_Terrace *)pc->data;

  PetscFunctionBegin;
  if (!terrace->context) PetscCall(PCTerraceContext_Private(pc, NULL, &terrace->context));
  if (!terrace->config) PetscCallTerrace(TERRACE_PETSC_COMM(pc), "PCTERRACE", terrace_config_create(terrace->context, &terrace->config));
  PetscFunctionReturn(0);
}

/* Frees what set-up made, and keeps options and coordinates. */
static inline PetscErrorCode PCReset_Terrace(PC pc)
{
  PC_Terrace *terrace = (PC_Terrace *)pc->data;

  PetscFunctionBegin;
  terrace_amg_destroy(terrace->amg);
  terrace_fsai_destroy(terrace->fsai);
  terrace_matrix_destroy(terrace->matrix);
  terrace->amg    = NULL;
  terrace->fsai   = NULL;
  terrace->matrix = NULL;
  PetscFunctionReturn(0);
}

static inline PetscErrorCode PCTerraceCheck_Private(PC pc)
{
  PetscBool is_terrace;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscCall(PetscObjectTypeCompare((PetscObject)pc, PCTERRACE, &is_terrace));
  PetscCheck(is_terrace, TERRACE_PETSC_COMM(pc), PETSC_ERR_ARG_WRONG, "the preconditioner is of type %s; this function is for type terrace", ((PetscObject)pc)->type_name ? ((PetscObject)pc)->type_name : "none");
  PetscCall(PCTerraceBegin_Private(pc));
  PetscFunctionReturn(0);
}

/**
 * Chooses the device, as terrace_context_create: "host", "host:N" for N threads, "cuda:0", "hip:0". It frees the hierarchy; vectors stay on the host.
 */
static inline PetscErrorCode PCTerraceSetDevice(PC pc, const char device[])
{
  terrace_context *context;
  PC_Terrace      *terrace;

  PetscFunctionBegin;
  PetscCall(PCTerraceCheck_Private(pc));
  terrace = (PC_Terrace *)pc->data;
  PetscCall(PCTerraceContext_Private(pc, device, &context));
  PetscCall(PCReset_Terrace(pc));
  terrace_context_destroy(terrace->context);
  terrace->context  = context;
  terrace->is_stale = PETSC_TRUE;
  PetscFunctionReturn(0);
}

/* The key of Terrace that a name of PETSc stands for: the name, or one with dots for some underscores, as solver_type for solver.type. */
static inline PetscErrorCode PCTerraceKey_Private(PC pc, const char name[], char key[], size_t length)
{
  PC_Terrace *terrace = (PC_Terrace *)pc->data;
  size_t      places[8], count = 0, i;
  unsigned    choice;

  PetscFunctionBegin;
  PetscCall(PetscStrncpy(key, name, length));
  for (i = 0; key[i]; i++) {
    if (key[i] == '_' && count < 8) places[count++] = i;
  }
  for (choice = 0; choice < 1u << count; choice++) {
    for (i = 0; i < count; i++) key[places[i]] = choice >> i & 1 ? '.' : '_';
    if (terrace_config_get_str(terrace->config, key, NULL, 0, NULL) == TERRACE_SUCCESS) PetscFunctionReturn(0);
  }
  /* Unknown. The library names the nearest key, which it finds among names with dots. */
  for (i = 0; i < count; i++) key[places[i]] = '_';
  if (count && !strchr(key, '.')) key[places[0]] = '.';
  PetscFunctionReturn(0);
}

/**
 * Sets an option of Terrace, as -pc_terrace_<key> does. Keys are those of docs/options.md; dots may be underscores. Takes effect at the next
 * PCSetUp() for which the matrix has changed. The options "solver" are PETSc's to choose and refused, but for solver.preconditioner, "amg" or
 * "fsai".
 */
static inline PetscErrorCode PCTerraceSetOption(PC pc, const char name[], const char value[])
{
  char        key[256], what[320];
  PC_Terrace *terrace;

  PetscFunctionBegin;
  PetscCall(PCTerraceCheck_Private(pc));
  terrace = (PC_Terrace *)pc->data;
  PetscCall(PCTerraceKey_Private(pc, name, key, sizeof(key)));
  PetscCall(PetscSNPrintf(what, sizeof(what), "-pc_terrace_%s", name));
  PetscCheck(strncmp(key, "solver.", 7) || !strcmp(key, "solver.preconditioner"), TERRACE_PETSC_COMM(pc), PETSC_ERR_USER_INPUT, "%s: the Krylov method is PETSc's; use -ksp_type, -ksp_rtol, -ksp_max_it and their siblings", what);
  PetscCheck(strcmp(key, "solver.preconditioner") || !strcmp(value, "amg") || !strcmp(value, "fsai"), TERRACE_PETSC_COMM(pc), PETSC_ERR_USER_INPUT, "%s: %s is not accepted here; accepted: amg, fsai", what, value);
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), what, terrace_config_set_str(terrace->config, key, value));
  terrace->is_stale = PETSC_TRUE;
  PetscFunctionReturn(0);
}

/** Sets the options of a preset, such as "elasticity"; see docs/presets.md. What a preset says about Krylov methods has no meaning here. */
static inline PetscErrorCode PCTerraceSetPreset(PC pc, const char name[])
{
  PC_Terrace *terrace;

  PetscFunctionBegin;
  PetscCall(PCTerraceCheck_Private(pc));
  terrace = (PC_Terrace *)pc->data;
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "-pc_terrace_preset", terrace_config_load_preset(terrace->config, name));
  terrace->is_stale = PETSC_TRUE;
  PetscFunctionReturn(0);
}

/** Sets every option of a JSON text, as terrace_config_load_json. Nothing is changed when any of it is refused. */
static inline PetscErrorCode PCTerraceSetJSON(PC pc, const char json[])
{
  PC_Terrace     *terrace;
  terrace_config *trial = NULL;
  terrace_status  status;
  char            text[8192], sentence[1024], *key = NULL, method[32];

  PetscFunctionBegin;
  PetscCall(PCTerraceCheck_Private(pc));
  terrace = (PC_Terrace *)pc->data;
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "-pc_terrace_json", terrace_config_create(terrace->context, &trial));
  status = terrace_config_load_json(trial, json);
  if (status == TERRACE_SUCCESS) status = terrace_config_to_json(trial, text, sizeof(text), NULL);
  if (status == TERRACE_SUCCESS) status = terrace_config_get_str(trial, "solver.preconditioner", method, sizeof(method), NULL);
  if (status != TERRACE_SUCCESS) terrace_last_error(NULL, sentence, sizeof(sentence), NULL);
  terrace_config_destroy(trial);
  PetscCheck(status == TERRACE_SUCCESS, TERRACE_PETSC_COMM(pc), TerracePetscCode(status), "-pc_terrace_json: %s (%s)", sentence, terrace_status_name(status));
  PetscCheck(!strcmp(method, "amg") || !strcmp(method, "fsai"), TERRACE_PETSC_COMM(pc), PETSC_ERR_USER_INPUT, "-pc_terrace_json: solver.preconditioner %s is not accepted here; accepted: amg, fsai", method);
  /* A preset in the text may name options of the solver, the text itself may not. */
  if (strstr(json, "\"solver")) {
    for (key = strstr(text, "\"solver."); key && !strncmp(key, "\"solver.preconditioner\"", 23); key = strstr(key + 1, "\"solver.")) { }
  }
  if (key) key[1 + strcspn(key + 1, "\"")] = 0;
  PetscCheck(!key, TERRACE_PETSC_COMM(pc), PETSC_ERR_USER_INPUT, "-pc_terrace_json: %s: the Krylov method is PETSc's; use -ksp_type, -ksp_rtol, -ksp_max_it and their siblings", key + 1);
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "-pc_terrace_json", terrace_config_load_json(terrace->config, json));
  terrace->is_stale = PETSC_TRUE;
  PetscFunctionReturn(0);
}

/** What set-up did, as terrace_amg_report; destroy it with terrace_report_destroy(). */
static inline PetscErrorCode PCTerraceGetReport(PC pc, terrace_report **report)
{
  PC_Terrace *terrace;

  PetscFunctionBegin;
  PetscCall(PCTerraceCheck_Private(pc));
  terrace = (PC_Terrace *)pc->data;
  PetscCheck(terrace->amg || terrace->fsai, TERRACE_PETSC_COMM(pc), PETSC_ERR_ARG_WRONGSTATE, "the preconditioner is not set up; call PCSetUp() first");
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "PCTERRACE", terrace->amg ? terrace_amg_report(terrace->amg, report) : terrace_fsai_report(terrace->fsai, report));
  PetscFunctionReturn(0);
}

/* The text of -pc_terrace_json: what was given if it is an object, else the content of the file of that name. To be freed. */
static inline PetscErrorCode PCTerraceReadJSON_Private(PC pc, const char given[], char **json)
{
  FILE  *file;
  size_t length = 0, room = 4096, read;

  PetscFunctionBegin;
  if (given[strspn(given, " \t\n")] == '{') {
    PetscCall(PetscStrallocpy(given, json));
    PetscFunctionReturn(0);
  }
  file = fopen(given, "r");
  PetscCheck(file, TERRACE_PETSC_COMM(pc), PETSC_ERR_FILE_OPEN, "-pc_terrace_json: %s is neither an object in braces nor a file that can be read", given);
  PetscCall(PetscMalloc1(room, json));
  while ((read = fread(*json + length, 1, room - length - 1, file)) > 0) {
    length += read;
    if (length + 1 == room) PetscCall(PetscRealloc(room *= 2, json));
  }
  fclose(file);
  (*json)[length] = 0;
  PetscFunctionReturn(0);
}

/* Options for which Terrace has no key. */
static inline PetscBool PCTerraceIsOwnName_Private(const char name[])
{
  return (PetscBool)(!strcmp(name, "device") || !strcmp(name, "preset") || !strcmp(name, "json"));
}

static inline PetscErrorCode PCSetFromOptions_Terrace(PC pc, TerracePetscItems PetscOptionsObject)
{
  char        own[256], *all, *value, *json, *token, *next, flag[320];
  const char *prefix;
  size_t      length, skip;
  PetscBool   is_set;
  PetscOptions options = ((PetscObject)pc)->options;

  PetscFunctionBegin;
  PetscCall(PCTerraceCheck_Private(pc));
  PetscOptionsHeadBegin(PetscOptionsObject, "Terrace options");
  PetscCall(PetscOptionsString("-pc_terrace_device", "host, host:N for N threads, cuda:N or hip:N", "PCTerraceSetDevice", "host", own, sizeof(own), &is_set));
  if (is_set) PetscCall(PCTerraceSetDevice(pc, own));
  PetscCall(PetscOptionsString("-pc_terrace_preset", "options for a kind of problem, such as elasticity", "PCTerraceSetPreset", "none", own, sizeof(own), &is_set));
  if (is_set) PetscCall(PCTerraceSetPreset(pc, own));
  /* The values are read below; this is for -help. */
  PetscCall(PetscOptionsString("-pc_terrace_json", "options as a JSON object, or a file with one", "PCTerraceSetJSON", "none", own, sizeof(own), NULL));
  PetscCall(PetscOptionsName("-pc_terrace_<option>", "any option that docs/options.md or `terrace options` lists, such as -pc_terrace_amg.smoother.type", "PCTerraceSetOption", NULL));
  PetscOptionsHeadEnd();

  PetscCall(PetscObjectGetOptionsPrefix((PetscObject)pc, &prefix));
  PetscCall(PetscOptionsGetAll(options, &all));
  PetscCall(PetscStrlen(all, &length));
  PetscCall(PetscMalloc1(length + 1, &value));
  PetscCall(PetscOptionsGetString(options, prefix, "-pc_terrace_json", value, length + 1, &is_set));
  if (is_set) {
    PetscCall(PCTerraceReadJSON_Private(pc, value, &json));
    PetscCall(PCTerraceSetJSON(pc, json));
    PetscCall(PetscFree(json));
  }
  PetscCall(PetscSNPrintf(own, sizeof(own), "-%spc_terrace_", prefix ? prefix : ""));
  skip = strlen(own);
  for (token = all; token; token = next) {
    token += strspn(token, " ");
    next = strchr(token, ' ');
    if (strncmp(token, own, skip)) continue;
    if (next) *next++ = 0;
    if (PCTerraceIsOwnName_Private(token + skip)) continue;
    PetscCall(PetscSNPrintf(flag, sizeof(flag), "-pc_terrace_%s", token + skip));
    PetscCall(PetscOptionsGetString(options, prefix, flag, value, length + 1, &is_set));
    if (is_set) PetscCall(PCTerraceSetOption(pc, token + skip, value));
  }
  PetscCall(PetscFree(value));
  PetscCall(PetscFree(all));
  PetscFunctionReturn(0);
}

/* As TerracePetscHandOver, for arrays of several processes. */
static inline terrace_status TerracePetscHandOverParts(PC_Terrace *terrace, const TerracePetscArrays *arrays, PetscBool update)
{
  const size_t   first = (size_t)arrays->ia[arrays->rows], second = (size_t)arrays->rest_ia[arrays->rows];
  PetscScalar   *values;
  terrace_status status;

  if (!update) return terrace_matrix_create_parcsr(terrace->context, arrays->total, arrays->first, arrays->rows, TERRACE_PETSC_INDEX, arrays->ia, arrays->ja, arrays->rest_ia, arrays->rest_ja, arrays->map_count, TERRACE_PETSC_INDEX, arrays->map, TERRACE_PETSC_SCALAR, arrays->a, arrays->rest_a, &terrace->matrix);
  if (PetscMalloc1(first + second + 1, &values)) return TERRACE_ERROR_OUT_OF_MEMORY;
  if (first) memcpy(values, arrays->a, first * sizeof(PetscScalar));
  if (second) memcpy(values + first, arrays->rest_a, second * sizeof(PetscScalar));
  status = terrace_matrix_update_values(terrace->context, terrace->matrix, TERRACE_PETSC_SCALAR, values, (int64_t)(first + second));
  if (PetscFree(values)) return TERRACE_ERROR_INTERNAL;
  return status;
}

/* Hands the arrays over: as a new matrix, or as new values of the one that is there. */
static inline terrace_status TerracePetscHandOver(PC_Terrace *terrace, const TerracePetscArrays *arrays, PetscBool update)
{
  const PetscInt *offsets = arrays->offsets ? arrays->offsets : arrays->ia, *columns = arrays->columns ? arrays->columns : arrays->ja;
  const void     *values  = arrays->values ? arrays->values : arrays->a;
  const int64_t   count   = (int64_t)offsets[arrays->rows] * arrays->block * arrays->block;

  if (arrays->rest) return TerracePetscHandOverParts(terrace, arrays, update);
  if (update) return terrace_matrix_update_values(terrace->context, terrace->matrix, TERRACE_PETSC_SCALAR, values, count);
  if (arrays->block > 1) return terrace_matrix_create_bsr(terrace->context, arrays->rows, arrays->rows, (int32_t)arrays->block, TERRACE_PETSC_INDEX, offsets, TERRACE_PETSC_INDEX, columns, TERRACE_PETSC_SCALAR, values, 0, TERRACE_COPY, &terrace->matrix);
  return terrace_matrix_create_csr(terrace->context, arrays->rows, arrays->rows, TERRACE_PETSC_INDEX, offsets, TERRACE_PETSC_INDEX, columns, TERRACE_PETSC_SCALAR, values, 0, TERRACE_COPY, &terrace->matrix);
}

/* The near-null space of the matrix, or the rigid-body modes of coordinates, or the constant of each unknown of a block, for the copy of the matrix. Set-up knows them
 * for blocks anyway, but chooses a better smoother where they are given. */
static inline PetscErrorCode PCTerraceNearNullSpace_Private(PC pc, MatNullSpace space, PetscInt rows, PetscInt size)
{
  PC_Terrace        *terrace = (PC_Terrace *)pc->data;
  MPI_Comm           comm    = TERRACE_PETSC_COMM(pc);
  PetscBool          has_constant = PETSC_FALSE, has_coordinates;
  PetscInt           count = 0, given, i, k, block;
  const Vec         *vectors = NULL;
  const PetscScalar *array;
  double            *all, *numbers;
  terrace_status     status;

  PetscFunctionBegin;
  block = size <= 8 ? size : 1;
  if (space) PetscCall(MatNullSpaceGetVecs(space, &has_constant, &count, &vectors));
  given = has_constant ? count + 1 : count;
  if (!count && block == 1) PetscFunctionReturn(0); /* the constant is what scalar problems have in any case */
  has_coordinates = (PetscBool)(terrace->coordinates != NULL);
  PetscCall(PCTerraceAny_Private(pc, &has_coordinates));
  if (!given && has_coordinates && terrace->dimension == block) {
    PetscCall(PetscMalloc1(terrace->dimension * terrace->nodes, &numbers));
    for (k = 0; k < terrace->dimension * terrace->nodes; k++) numbers[k] = (double)terrace->coordinates[k];
    status = terrace_matrix_set_coordinates(terrace->context, terrace->matrix, (int32_t)terrace->dimension, terrace->nodes, numbers);
    PetscCall(PetscFree(numbers));
    PetscCallTerrace(comm, "coordinates of PCSetCoordinates()", status);
    PetscFunctionReturn(0);
  }
  PetscCall(PetscCalloc1((size_t)rows * (size_t)(given ? given : block), &all));
  if (!given) {
    for (k = 0; k < rows; k++) all[(size_t)(k % block) * (size_t)rows + (size_t)k] = 1.0;
    given = block;
  } else {
    for (i = 0; i < count; i++) {
      PetscCall(VecGetArrayRead(vectors[i], &array));
      for (k = 0; k < rows; k++) all[(size_t)i * (size_t)rows + (size_t)k] = (double)array[k];
      PetscCall(VecRestoreArrayRead(vectors[i], &array));
    }
    for (k = 0; has_constant && k < rows; k++) all[(size_t)count * (size_t)rows + (size_t)k] = 1.0;
  }
  status = terrace_matrix_set_near_null_space(terrace->context, terrace->matrix, (int32_t)block, (int32_t)given, all);
  PetscCall(PetscFree(all));
  PetscCallTerrace(comm, "near-null space of the matrix", status);
  PetscFunctionReturn(0);
}

/* The options of a set-up: where the matrix is not symmetric and no component is chosen, classical coarsening with Gauss-Seidel sweeps, or l1-Jacobi sweeps on several
 * processes. To be destroyed. */
static inline PetscErrorCode PCTerraceEffective_Private(PC pc, terrace_config **effective)
{
  static const char *const components[] = {"\"amg.coarsening.", "\"amg.strength.", "\"amg.interpolation.", "\"amg.functions", "\"amg.smoother.", "\"amg.cycle."};
  PC_Terrace              *terrace = (PC_Terrace *)pc->data;
  MPI_Comm                 comm    = TERRACE_PETSC_COMM(pc);
  char                     text[8192];
  PetscBool                is_symmetric;
  PetscMPIInt              processes;
  size_t                   i;

  PetscFunctionBegin;
  PetscCallTerrace(comm, "PCTERRACE", terrace_config_to_json(terrace->config, text, sizeof(text), NULL));
  PetscCallTerrace(comm, "PCTERRACE", terrace_config_create(terrace->context, effective));
  PetscCallTerrace(comm, "PCTERRACE", terrace_config_load_json(*effective, text));
  for (i = 0; i < sizeof(components) / sizeof(*components); i++) {
    if (strstr(text, components[i])) PetscFunctionReturn(0);
  }
  PetscCall(TerracePetscIsSymmetric(pc->pmat, &is_symmetric));
  if (is_symmetric) PetscFunctionReturn(0);
  PetscCallTerrace(comm, "PCTERRACE", terrace_config_set_str(*effective, "solver.type", "gmres"));
  PetscCallTerrace(comm, "PCTERRACE", terrace_config_set_str(*effective, "amg.coarsening.type", "pmis"));
  PetscCallMPI(MPI_Comm_size(comm, &processes));
  PetscCallTerrace(comm, "PCTERRACE", terrace_config_set_str(*effective, "amg.smoother.type", processes > 1 ? "l1_jacobi" : "any_gauss_seidel"));
  PetscFunctionReturn(0);
}

static inline PetscErrorCode PCSetUp_Terrace(PC pc)
{
  PC_Terrace        *terrace = (PC_Terrace *)pc->data;
  TerracePetscArrays arrays;
  MatNullSpace       space;
  PetscObjectId      id     = 0;
  terrace_config    *config = NULL;
  terrace_status     status;
  char               method[32];
  PetscInt           rows, size;
  PetscBool          update, failed;

  PetscFunctionBegin;
  PetscCall(PCTerraceBegin_Private(pc));
  PetscCall(MatGetNearNullSpace(pc->pmat, &space));
  if (space) PetscCall(PetscObjectGetId((PetscObject)space, &id));
  update = (PetscBool)((terrace->amg || terrace->fsai) && pc->flag == SAME_NONZERO_PATTERN && !terrace->is_stale && id == terrace->near_null_space);
  if (!update) PetscCall(PCReset_Terrace(pc));
  PetscCall(TerracePetscGetArrays(pc, &arrays));
  status = TerracePetscHandOver(terrace, &arrays, update);
  if (status == TERRACE_SUCCESS && !update) PetscCall(PCTerraceEffective_Private(pc, &config));
  PetscCall(TerracePetscRestoreArrays(&arrays));
  failed = (PetscBool)(status != TERRACE_SUCCESS);
  PetscCall(PCTerraceAny_Private(pc, &failed));
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "matrix of PCTERRACE", status);
  PetscCheck(!failed, TERRACE_PETSC_COMM(pc), PETSC_ERR_LIB, "matrix of PCTERRACE: another process could not hand over its rows");
  if (update) {
    PetscCallTerrace(TERRACE_PETSC_COMM(pc), "update of PCTERRACE", terrace->amg ? terrace_amg_update(terrace->amg) : terrace_fsai_update(terrace->fsai));
    PetscFunctionReturn(0);
  }
  PetscCall(MatGetLocalSize(pc->pmat, &rows, NULL));
  PetscCall(MatGetBlockSize(pc->pmat, &size));
  PetscCall(PCTerraceNearNullSpace_Private(pc, space, rows, size));
  status = terrace_config_get_str(config, "solver.preconditioner", method, sizeof(method), NULL);
  if (status == TERRACE_SUCCESS) status = strcmp(method, "fsai") ? terrace_amg_setup(terrace->context, terrace->matrix, config, &terrace->amg) : terrace_fsai_setup(terrace->context, terrace->matrix, config, &terrace->fsai);
  terrace_config_destroy(config);
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "set-up of PCTERRACE", status);
  terrace->near_null_space = id;
  terrace->is_stale        = PETSC_FALSE;
  PetscFunctionReturn(0);
}

static inline PetscErrorCode PCTerraceApply_Private(PC pc, Vec b, Vec x, PetscBool transposed)
{
  PC_Terrace        *terrace = (PC_Terrace *)pc->data;
  const PetscScalar *from;
  PetscScalar       *to;
  terrace_status     status;

  PetscFunctionBegin;
  PetscCall(VecGetArrayRead(b, &from));
  PetscCall(VecGetArrayWrite(x, &to));
  if (transposed) status = terrace->amg ? terrace_amg_apply_transposed(terrace->amg, TERRACE_PETSC_SCALAR, from, to) : terrace_fsai_apply_transposed(terrace->fsai, TERRACE_PETSC_SCALAR, from, to);
  else status = terrace->amg ? terrace_amg_apply(terrace->amg, TERRACE_PETSC_SCALAR, from, to) : terrace_fsai_apply(terrace->fsai, TERRACE_PETSC_SCALAR, from, to);
  PetscCall(VecRestoreArrayWrite(x, &to));
  PetscCall(VecRestoreArrayRead(b, &from));
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "application of PCTERRACE", status);
  PetscFunctionReturn(0);
}

static inline PetscErrorCode PCApply_Terrace(PC pc, Vec b, Vec x)
{
  PetscFunctionBegin;
  PetscCall(PCTerraceApply_Private(pc, b, x, PETSC_FALSE));
  PetscFunctionReturn(0);
}

/* With the preconditioner of the transposed matrix: where the matrix is not symmetric, the first call sets it up. */
static inline PetscErrorCode PCApplyTranspose_Terrace(PC pc, Vec b, Vec x)
{
  PetscFunctionBegin;
  PetscCall(PCTerraceApply_Private(pc, b, x, PETSC_TRUE));
  PetscFunctionReturn(0);
}

static inline PetscErrorCode PCSetCoordinates_Terrace(PC pc, PetscInt dimension, PetscInt nodes, PetscReal coordinates[])
{
  PC_Terrace *terrace = (PC_Terrace *)pc->data;

  PetscFunctionBegin;
  PetscCall(PetscFree(terrace->coordinates));
  if (coordinates) {
    PetscCall(PetscMalloc1(dimension * nodes, &terrace->coordinates));
    PetscCall(PetscArraycpy(terrace->coordinates, coordinates, dimension * nodes));
  }
  terrace->dimension = dimension;
  terrace->nodes     = nodes;
  terrace->is_stale  = PETSC_TRUE;
  PetscFunctionReturn(0);
}

/* The options that were set and the table of levels. */
static inline PetscErrorCode PCView_Terrace(PC pc, PetscViewer viewer)
{
  PC_Terrace     *terrace = (PC_Terrace *)pc->data;
  terrace_report *report  = NULL;
  size_t          needed  = 0;
  char           *text, *line, *end, options[2048];
  PetscBool       is_ascii;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &is_ascii));
  if (!is_ascii || !terrace->config) PetscFunctionReturn(0);
  PetscCallTerrace(TERRACE_PETSC_COMM(pc), "PCTERRACE", terrace_config_to_json(terrace->config, options, sizeof(options), NULL));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  Terrace %s, options %s\n", TERRACE_VERSION_STRING, options));
  if (!terrace->amg && !terrace->fsai) PetscFunctionReturn(0);
  PetscCall(PCTerraceGetReport(pc, &report));
  terrace_report_to_text(report, NULL, 0, &needed);
  PetscCall(PetscMalloc1(needed + 1, &text));
  terrace_report_to_text(report, text, needed, NULL);
  terrace_report_destroy(report);
  for (line = text; line && *line; line = end) {
    end = strchr(line, '\n');
    if (end) *end++ = 0;
    PetscCall(PetscViewerASCIIPrintf(viewer, "    %s\n", line));
  }
  PetscCall(PetscFree(text));
  PetscFunctionReturn(0);
}

/* -pc_view, after each solve of KSP as -ksp_view. */
static inline PetscErrorCode PCPostSolve_Terrace(PC pc, KSP ksp, Vec b, Vec x)
{
  PetscFunctionBegin;
  (void)ksp, (void)b, (void)x;
  PetscCall(PCViewFromOptions(pc, NULL, "-pc_view"));
  PetscFunctionReturn(0);
}

static inline PetscErrorCode PCDestroy_Terrace(PC pc)
{
  PC_Terrace *terrace = (PC_Terrace *)pc->data;

  PetscFunctionBegin;
  PetscCall(PCReset_Terrace(pc));
  terrace_config_destroy(terrace->config);
  terrace_context_destroy(terrace->context);
  PetscCall(PetscFree(terrace->coordinates));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, "PCSetCoordinates_C", NULL));
  PetscCall(PetscFree(pc->data));
  PetscFunctionReturn(0);
}

static inline PetscErrorCode PCCreate_Terrace(PC pc)
{
  PC_Terrace *terrace;

  PetscFunctionBegin;
  PetscCall(PetscNew(&terrace));
  pc->data                = (void *)terrace;
  pc->ops->setup          = PCSetUp_Terrace;
  pc->ops->apply          = PCApply_Terrace;
  pc->ops->applytranspose = PCApplyTranspose_Terrace;
  pc->ops->setfromoptions = PCSetFromOptions_Terrace;
  pc->ops->view           = PCView_Terrace;
  pc->ops->postsolve      = PCPostSolve_Terrace;
  pc->ops->reset          = PCReset_Terrace;
  pc->ops->destroy        = PCDestroy_Terrace;
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, "PCSetCoordinates_C", PCSetCoordinates_Terrace));
  PetscFunctionReturn(0);
}

/** Makes `-pc_type terrace` known. Call it after PetscInitialize(); a second call does nothing new. */
static inline PetscErrorCode TerracePetscRegister(void)
{
  PetscFunctionBegin;
  PetscCall(PCRegister(PCTERRACE, PCCreate_Terrace));
  PetscFunctionReturn(0);
}

#endif
