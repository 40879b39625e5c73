/*
 * What the parts of libterrace_hypre.so share. The library takes over BoomerAMG, FSAI, PFMG and SMG of hypre by their names. The objects, and everything
 * that setters store in them, stay hypre's: set-up reads the parameters out of the real object, so that none is missed.
 */
#ifndef TERRACE_HYPRE_SHIM_H
#define TERRACE_HYPRE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "_hypre_parcsr_ls.h"
#include "terrace.h"

#ifdef HYPRE_COMPLEX
#error "hypre was built for complex numbers, which Terrace does not have"
#endif
#ifdef HYPRE_LONG_DOUBLE
#error "hypre was built for long double, which Terrace does not have"
#endif

/** Number format of matrices and vectors, and of HYPRE_Int. */
#ifdef HYPRE_SINGLE
#define SHIM_VALUE TERRACE_F32
#else
#define SHIM_VALUE TERRACE_F64
#endif
#define SHIM_INDEX (sizeof(HYPRE_Int) == 8 ? TERRACE_I64 : TERRACE_I32)
#define SHIM_BIG_INDEX (sizeof(HYPRE_BigInt) == 8 ? TERRACE_I64 : TERRACE_I32)

/** FSAI came with hypre 2.25. */
#if HYPRE_RELEASE_NUMBER >= 22500
#define SHIM_HAS_FSAI 1
#endif

enum shim_kind { SHIM_BOOMERAMG, SHIM_FSAI, SHIM_PFMG, SHIM_SMG };

/** Which library serves an object: decided by each set-up, which may also fail. */
enum shim_server { SHIM_NOBODY, SHIM_TERRACE, SHIM_HYPRE, SHIM_REFUSED };

/** A matrix with what was set up for it. */
struct shim_operator {
    terrace_matrix *matrix;
    terrace_amg *amg;
    terrace_fsai *fsai;
};

/** One solver object of the program. */
struct shim_object {
    void *solver;
    enum shim_kind kind;
    enum shim_server server;
    int number;
    struct shim_operator forward;
    char *config;            /* options of the set-up as JSON */
    uint64_t pattern, modes; /* fingerprints of the pattern, and of functions and near-null space */
    hypre_ParVector *residual, *correction;
    struct shim_structured *structured; /* of PFMG and SMG */
    int setups, updates, solves, fallen;
    int64_t cycles;
    double setup_seconds, solve_seconds, hypre_seconds;
    struct shim_object *next;
};

/** What the parameters of an object become: options of Terrace, what is done otherwise than hypre would, and what only hypre can do. */
struct shim_options {
    struct {
        const char *key;
        char value[40];
    } entries[48];
    int count;
    char replaced[800];
    char missing[240];
};

/* objects.c */
struct shim_object *shim_object_add(void *solver, enum shim_kind kind);
struct shim_object *shim_object_find(void *solver);
int shim_object_end(void *solver); /* tells what it did, and frees it; whether there was one */
void shim_lock(void);
void shim_unlock(void);

/* options.c */
void shim_options_of_boomeramg(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A, struct shim_options *options);
#ifdef SHIM_HAS_FSAI
void shim_options_of_fsai(hypre_ParFSAIData *fsai, struct shim_options *options);
#endif
void shim_option(struct shim_options *options, const char *key, const char *format, ...);
void shim_replaced(struct shim_options *options, const char *format, ...);
void shim_missing(struct shim_options *options, const char *format, ...);

/* unused.c */
void shim_unused(hypre_ParAMGData *amg, int has_modes, struct shim_options *options);

/* config.c: NULL, or why not */
const char *shim_context(terrace_context **context);
const char *shim_config(const struct shim_options *options, terrace_context *context, terrace_config **config);
int shim_strict(void);

/* ranks.c */
int shim_ranks(MPI_Comm comm);
int shim_least(MPI_Comm comm, int here); /* the least number of all ranks */
int shim_all(MPI_Comm comm, int here);   /* whether it is so on every rank */
void shim_sum(MPI_Comm comm, double *numbers, int count);
terrace_status shim_set_ranks(terrace_context *context, MPI_Comm comm);

/* convert.c */
const char *shim_unfit(hypre_ParCSRMatrix *A);
terrace_status shim_matrix(terrace_context *context, hypre_ParCSRMatrix *A, terrace_matrix **matrix);
terrace_status shim_new_values(terrace_context *context, hypre_ParCSRMatrix *A, terrace_matrix *matrix);
terrace_status shim_modes(terrace_context *context, terrace_matrix *matrix, hypre_ParAMGData *amg, hypre_ParCSRMatrix *A);
uint64_t shim_pattern_fingerprint(hypre_ParCSRMatrix *A);
uint64_t shim_modes_fingerprint(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A);
int shim_has_modes(hypre_ParAMGData *amg, hypre_ParCSRMatrix *A);

/* setup.c: 1 when Terrace serves the object from now on, 0 when hypre is to, -1 when the error flag was set; the same on every rank */
int shim_setup(struct shim_object *object, hypre_ParCSRMatrix *A);
void shim_release(struct shim_object *object);
/* What the kinds of objects share. `serve` is called with the lock held, and returns as shim_setup. */
typedef int shim_serve_function(struct shim_object *object, terrace_context *context, terrace_config *config, void *matrix);
int shim_serve(struct shim_object *object, MPI_Comm comm, const struct shim_options *options, shim_serve_function *serve, void *matrix);
char *shim_json(const terrace_config *config);
void shim_served(struct shim_object *object, char *json, int updated, double seconds, const char *size);
int shim_leave(struct shim_object *object, const char *reason); /* to hypre */
int shim_is_refused(const struct shim_object *object);
void shim_served_by_hypre(struct shim_object *object, const char *what, double seconds);
void shim_print_levels(struct shim_object *object);

/* interpose.c: the function of this name in hypre itself */
void *shim_real(const char *name);

/* structured.c: frees what belongs to a set-up; with `ends` all */
void shim_structured_release(struct shim_structured *structured, int ends);

/* solve.c */
struct shim_stop {
    double tolerance;
    HYPRE_Int max_iterations, min_iterations;
    int relative_to_initial; /* of the residual, instead of the right-hand side */
    int want_residual;       /* also where the tolerance does not need it */
    int zero_guess;          /* x is not read */
    double weight;           /* of each correction */
    HYPRE_Int iterations;    /* written */
    double relative;         /* written */
};
HYPRE_Int shim_solve(struct shim_object *object, int transposed, hypre_ParCSRMatrix *A, hypre_ParVector *b, hypre_ParVector *x, struct shim_stop *stop);

/* log.c */
double shim_seconds(void);
const char *shim_kind_name(enum shim_kind kind);
const char *shim_name(const struct shim_object *object);
void shim_log(const char *format, ...);      /* with TERRACE_HYPRE_LOG */
void shim_log_once(const char *format, ...); /* each line once, unless TERRACE_HYPRE_LOG is 0 */
int shim_error(const char *format, ...);     /* a line, and the error flag of hypre; returns -1 */
const char *shim_last_error(void);

#endif
