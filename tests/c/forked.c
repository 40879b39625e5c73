/* In a child of fork the objects of the parent give an error and can be destroyed, and a context of its own works. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

/* The exit code of a child that runs a function; a child that hangs is ended by its alarm. */
#define IN_CHILD(...)                                                                                                  \
    do {                                                                                                               \
        int outcome = 0;                                                                                               \
        pid_t child = fork();                                                                                          \
        CHECK(child >= 0);                                                                                             \
        if (child == 0) {                                                                                              \
            alarm(60);                                                                                                 \
            __VA_ARGS__;                                                                                               \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        CHECK(waitpid(child, &outcome, 0) == child);                                                                   \
        CHECK(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);                                                        \
    } while (0)

typedef struct {
    problem p;
    double *b;
    double *x;
    terrace_context *context;
    terrace_matrix *matrix;
    terrace_solver *solver;
} objects;

static objects make(const char *device, int64_t n) {
    objects o;
    o.p = problem_create(n);
    o.b = problem_right_hand_side(&o.p);
    o.x = malloc((size_t)o.p.rows * sizeof *o.x);
    o.context = NULL;
    o.solver = NULL;
    CHECK(o.x);
    CHECK(terrace_context_create(device, &o.context) == TERRACE_SUCCESS);
    o.matrix = problem_matrix(o.context, &o.p, TERRACE_COPY);
    CHECK(terrace_solver_create(o.context, NULL, &o.solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_setup(o.solver, o.matrix) == TERRACE_SUCCESS);
    return o;
}

static void solve(const objects *o) {
    CHECK(terrace_solver_solve(o->solver, TERRACE_F64, 1, o->b, o->x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(problem_is_solved(&o->p, o->x, 1e-4));
}

static void destroy(objects *o) {
    CHECK(terrace_solver_destroy(o->solver) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_destroy(o->matrix) == TERRACE_SUCCESS);
    CHECK(terrace_context_destroy(o->context) == TERRACE_SUCCESS);
    problem_destroy(&o->p);
    free(o->b);
    free(o->x);
}

static void refused(const objects *o) {
    terrace_matrix *transposed = NULL;
    const terrace_status status = terrace_solver_solve(o->solver, TERRACE_F64, 1, o->b, o->x, TERRACE_ZERO_GUESS);
    CHECK(status == TERRACE_ERROR_INVALID_ARGUMENT);
    CHECK(error_has(o->context, "fork"));
    CHECK(terrace_solver_setup(o->solver, o->matrix) == TERRACE_ERROR_INVALID_ARGUMENT);
    CHECK(terrace_context_set_threads(o->context, 3) == TERRACE_ERROR_INVALID_ARGUMENT);
    CHECK(terrace_matrix_transpose(o->context, o->matrix, &transposed) == TERRACE_ERROR_INVALID_ARGUMENT);
}

static void in_child(const char *device, int64_t n, objects *inherited) {
    objects own;
    refused(inherited);
    own = make(device, n);
    solve(&own);
    /* The matrix is memory of the process, which a child has, too. */
    CHECK(terrace_solver_setup(own.solver, inherited->matrix) == TERRACE_SUCCESS);
    solve(&own);
    destroy(&own);
    refused(inherited);
    destroy(inherited);
}

static void with_device(const char *device, int64_t n) {
    objects o = make(device, n);
    solve(&o);
    IN_CHILD(in_child(device, n, &o));
    solve(&o);
    destroy(&o);
}

int main(void) {
    with_device("host:3", 150);
    with_device("host:1", 20);
    with_device("sim", 12);
    return 0;
}
