/* The log reaches the callback up to its level, on the calling thread, with the user's pointer; without a callback there is silence. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

typedef struct {
    pthread_t thread;
    int lines[4];
    int failures;
} seen;

static void keep(terrace_log_level level, const char *message, void *user) {
    seen *s = user;
    if (!pthread_equal(s->thread, pthread_self()) || level < 1 || level > 3 || message[0] == '\0') s->failures += 1;
    if (strchr(message, '\n')) s->failures += 1;
    s->lines[level] += 1;
}

static void work(terrace_context *context, const terrace_matrix *matrix, const double *b, double *x) {
    terrace_solver *solver = NULL;
    CHECK(terrace_solver_create(context, NULL, &solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_setup(solver, matrix) == TERRACE_SUCCESS);
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(terrace_solver_destroy(solver) == TERRACE_SUCCESS);
}

int main(void) {
    problem p = problem_create(64);
    double *b = problem_right_hand_side(&p);
    double *x = malloc((size_t)p.rows * sizeof *x);
    terrace_context *context = NULL;
    terrace_matrix *matrix;
    seen info = {0}, debug = {0};
    CHECK(x);
    info.thread = debug.thread = pthread_self();
    CHECK(terrace_context_create("host:2", &context) == TERRACE_SUCCESS);
    matrix = problem_matrix(context, &p, TERRACE_BORROW);

    work(context, matrix, b, x);
    CHECK(terrace_context_set_log(context, TERRACE_LOG_INFO, keep, &info) == TERRACE_SUCCESS);
    work(context, matrix, b, x);
    CHECK(info.failures == 0 && info.lines[TERRACE_LOG_INFO] > 0 && info.lines[TERRACE_LOG_DEBUG] == 0);

    CHECK(terrace_context_set_log(context, TERRACE_LOG_DEBUG, keep, &debug) == TERRACE_SUCCESS);
    work(context, matrix, b, x);
    CHECK(debug.failures == 0 && debug.lines[TERRACE_LOG_DEBUG] > 0);

    CHECK(terrace_context_set_log(context, 17, keep, &debug) == TERRACE_ERROR_INVALID_ARGUMENT);
    CHECK(error_has(context, "level is 17"));
    CHECK(terrace_context_set_log(context, TERRACE_LOG_OFF, keep, &info) == TERRACE_SUCCESS);
    info.lines[TERRACE_LOG_INFO] = 0;
    work(context, matrix, b, x);
    CHECK(info.lines[TERRACE_LOG_INFO] == 0);

    terrace_matrix_destroy(matrix);
    terrace_context_destroy(context);
    problem_destroy(&p);
    free(b);
    free(x);
    return 0;
}
