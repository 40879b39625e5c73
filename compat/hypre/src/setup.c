/* Set-up and update. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

static void destroy(struct shim_operator *operator)
{
    terrace_amg_destroy(operator->amg);
    terrace_fsai_destroy(operator->fsai);
    terrace_matrix_destroy(operator->matrix);
    memset(operator, 0, sizeof *operator);
}

/** Frees what was set up for an object. */
void shim_release(struct shim_object *object)
{
    shim_lock();
    destroy(&object->forward);
    shim_structured_release(object->structured, 0);
    shim_unlock();
    free(object->config);
    object->config = NULL;
    if (object->residual)
        hypre_ParVectorDestroy(object->residual);
    if (object->correction)
        hypre_ParVectorDestroy(object->correction);
    object->residual = object->correction = NULL;
}

static terrace_status build(struct shim_object *object, terrace_context *context, const terrace_config *config, struct shim_operator *operator)
{
    if (object->kind == SHIM_FSAI)
        return terrace_fsai_setup(context, operator->matrix, config, &operator->fsai);
    return terrace_amg_setup(context, operator->matrix, config, &operator->amg);
}

static terrace_status set_up(struct shim_object *object, terrace_context *context, const terrace_config *config, hypre_ParCSRMatrix *A)
{
    struct shim_operator fresh = {0};
    terrace_status status = shim_matrix(context, A, &fresh.matrix);
    if (status == TERRACE_SUCCESS && object->kind == SHIM_BOOMERAMG)
        status = shim_modes(context, fresh.matrix, object->solver, A);
    if (status == TERRACE_SUCCESS)
        status = build(object, context, config, &fresh);
    if (status == TERRACE_SUCCESS) {
        destroy(&object->forward);
        object->forward = fresh;
    } else {
        destroy(&fresh);
    }
    return status;
}

static terrace_status update(struct shim_object *object, terrace_context *context, hypre_ParCSRMatrix *A)
{
    terrace_status status = shim_new_values(context, A, object->forward.matrix);
    if (!shim_all(hypre_ParCSRMatrixComm(A), status == TERRACE_SUCCESS) && status == TERRACE_SUCCESS)
        status = TERRACE_ERROR_CALLBACK;
    if (status != TERRACE_SUCCESS)
        return status;
    return object->kind == SHIM_FSAI ? terrace_fsai_update(object->forward.fsai) : terrace_amg_update(object->forward.amg);
}

char *shim_json(const terrace_config *config)
{
    size_t needed = 0;
    terrace_config_to_json(config, NULL, 0, &needed);
    char *json = malloc(needed + 1);
    if (json)
        terrace_config_to_json(config, json, needed, NULL);
    return json;
}

/** Leaves an object to hypre, or is an error where TERRACE_HYPRE_STRICT asks for that. */
int shim_leave(struct shim_object *object, const char *reason)
{
    if (shim_strict())
        return shim_error("%s: %s: hypre would serve it (TERRACE_HYPRE_STRICT)", shim_name(object), reason);
    shim_log_once("%s is served by hypre: %s", shim_kind_name(object->kind), reason);
    return 0;
}

/** The table of levels. */
void shim_print_levels(struct shim_object *object)
{
    terrace_report *report = NULL;
    char text[8000];
    if (terrace_amg_report(object->forward.amg, &report) == TERRACE_SUCCESS && terrace_report_to_text(report, text, sizeof text, NULL) == TERRACE_SUCCESS)
        hypre_printf("\n\n%s by Terrace\n%s\n", shim_kind_name(object->kind), text);
    terrace_report_destroy(report);
}

/** Whether the set-up of an object failed, which is told: there is nothing to be solved with. */
int shim_is_refused(const struct shim_object *object)
{
    if (!object || object->server != SHIM_REFUSED)
        return 0;
    shim_error("%s: its set-up failed", shim_name(object));
    return 1;
}

/** Takes note of a call of hypre's; `what` is told, unless it is null. */
void shim_served_by_hypre(struct shim_object *object, const char *what, double seconds)
{
    if (!object)
        return;
    object->fallen++;
    object->hypre_seconds += seconds;
    if (what)
        shim_log("%s: %s by hypre, %.6f s", shim_name(object), what, seconds);
}

/** Takes note of a set-up or an update with these options, which the object keeps. */
void shim_served(struct shim_object *object, char *json, int updated, double seconds, const char *size)
{
    free(object->config);
    object->config = json;
    object->setups++;
    object->updates += updated;
    object->setup_seconds += seconds;
    shim_log("%s: %s by Terrace, %s, %.6f s%s%s", shim_name(object), updated ? "update" : "set-up", size, seconds, updated ? "" : ", ", updated || !json ? "" : json);
}

static int serve(struct shim_object *object, terrace_context *context, terrace_config *config, void *matrix)
{
    hypre_ParCSRMatrix *A = matrix;
    char size[80];
    char *json = shim_json(config);
    uint64_t pattern = shim_pattern_fingerprint(A);
    uint64_t modes = object->kind == SHIM_BOOMERAMG ? shim_modes_fingerprint(object->solver, A) : 0;
    int same = object->forward.matrix && pattern == object->pattern && modes == object->modes && json && object->config && strcmp(json, object->config) == 0;
    double start = shim_seconds();
    terrace_status status = TERRACE_ERROR_INTERNAL;
    if (shim_all(hypre_ParCSRMatrixComm(A), same))
        status = update(object, context, A);
    int updated = status == TERRACE_SUCCESS;
    if (!updated)
        status = set_up(object, context, config, A);
    if (status != TERRACE_SUCCESS) {
        destroy(&object->forward);
        free(json);
        return shim_leave(object, shim_last_error());
    }
    double seconds = shim_seconds() - start;
    object->pattern = pattern;
    object->modes = modes;
    hypre_CSRMatrix *diagonal = hypre_ParCSRMatrixDiag(A);
    snprintf(size, sizeof size, "%lld rows, %lld entries", (long long)hypre_CSRMatrixNumRows(diagonal), (long long)hypre_CSRMatrixI(diagonal)[hypre_CSRMatrixNumRows(diagonal)]);
    shim_served(object, json, updated, seconds, size);
    /* Where the print level of the program asks for what set-up did. */
    if (object->kind == SHIM_BOOMERAMG && hypre_ParAMGDataPrintLevel((hypre_ParAMGData *)object->solver) % 2 != 0)
        shim_print_levels(object);
    return 1;
}

/** The options of a set-up and the context that it is made with, and as shim_setup where Terrace does not serve the object; for this rank alone. */
static int prepare(struct shim_object *object, const struct shim_options *options, terrace_context **context, terrace_config **config)
{
    if (*options->missing)
        return shim_leave(object, options->missing);
    if (*options->replaced) {
        if (shim_strict())
            return shim_error("%s: Terrace replaces %s (TERRACE_HYPRE_STRICT)", shim_name(object), options->replaced);
        shim_log_once("Terrace replaces %s", options->replaced);
    }
    const char *wrong = shim_context(context);
    if (!wrong)
        wrong = shim_config(options, *context, config);
    return wrong ? shim_error("%s", wrong) : 1;
}

/** What all ranks do, of what each of them would: an error of one is one of all, and what one leaves to hypre, all do. */
static int agree(struct shim_object *object, MPI_Comm comm, int here)
{
    int all = shim_least(comm, here);
    if (all < 0 && here >= 0)
        return shim_error("%s: its set-up failed on another rank", shim_name(object));
    if (all == 0 && here > 0)
        shim_log_once("%s is served by hypre: another rank leaves it to hypre", shim_kind_name(object->kind));
    return all;
}

int shim_serve(struct shim_object *object, MPI_Comm comm, const struct shim_options *options, shim_serve_function *serve, void *matrix)
{
    terrace_context *context = NULL;
    terrace_config *config = NULL;
    shim_lock();
    int served = agree(object, comm, prepare(object, options, &context, &config));
    if (served > 0)
        served = agree(object, comm, serve(object, context, config, matrix));
    terrace_config_destroy(config);
    shim_unlock();
    return served;
}

int shim_setup(struct shim_object *object, hypre_ParCSRMatrix *A)
{
    struct shim_options options = {0};
    const char *unfit = shim_unfit(A);
    if (unfit)
        shim_missing(&options, "%s", unfit);
#ifdef SHIM_HAS_FSAI
    else if (object->kind == SHIM_FSAI)
        shim_options_of_fsai(object->solver, &options);
#endif
    else
        shim_options_of_boomeramg(object->solver, A, &options);
    return shim_serve(object, hypre_ParCSRMatrixComm(A), &options, serve, A);
}
