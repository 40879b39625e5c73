/* Eight threads, each with a context of its own, share one matrix: set up, solve, read reports, fail on purpose, at the same time. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, ROUNDS = 3 };

static problem shared_problem;
static terrace_matrix *shared_matrix;
static double *right_hand_side;

typedef struct {
    int number;
    double *x;
    int64_t iterations;
} job;

static void *work(void *argument) {
    job *j = argument;
    char name[32];
    int round;
    for (round = 0; round < ROUNDS; ++round) {
        terrace_context *context = NULL;
        terrace_solver *solver = NULL;
        terrace_report *report = NULL;
        char device[16];
        sprintf(device, "host:%d", 1 + j->number % 3);
        sprintf(name, "no.such.option.%d", j->number);
        CHECK(terrace_context_create(device, &context) == TERRACE_SUCCESS);
        CHECK(terrace_solver_create(context, NULL, &solver) == TERRACE_SUCCESS);
        CHECK(terrace_solver_setup(solver, shared_matrix) == TERRACE_SUCCESS);
        {
            terrace_config *config = NULL;
            CHECK(terrace_config_create(context, &config) == TERRACE_SUCCESS);
            CHECK(terrace_config_set_int(config, name, 1) == TERRACE_ERROR_UNKNOWN_OPTION);
            CHECK(terrace_config_destroy(config) == TERRACE_SUCCESS);
        }
        CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, right_hand_side, j->x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
        CHECK(problem_is_solved(&shared_problem, j->x, 1e-4));
        CHECK(error_has(context, name));
        if (round == 1) CHECK(terrace_context_raise_panic(context) == TERRACE_ERROR_INTERNAL);
        CHECK(terrace_solver_report(solver, &report) == TERRACE_SUCCESS);
        CHECK(terrace_report_get_int(report, "iterations", 0, &j->iterations) == TERRACE_SUCCESS);
        terrace_report_destroy(report);
        terrace_solver_destroy(solver);
        terrace_context_destroy(context);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    job jobs[THREADS];
    terrace_context *context = NULL;
    int i;
    size_t bytes;
    shared_problem = problem_create(80);
    right_hand_side = problem_right_hand_side(&shared_problem);
    bytes = (size_t)shared_problem.rows * sizeof(double);
    CHECK(terrace_context_create("host:1", &context) == TERRACE_SUCCESS);
    shared_matrix = problem_matrix(context, &shared_problem, TERRACE_BORROW);
    CHECK(terrace_context_destroy(context) == TERRACE_SUCCESS);

    for (i = 0; i < THREADS; ++i) {
        jobs[i].number = i;
        jobs[i].x = malloc(bytes);
        CHECK(jobs[i].x);
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);

    /* The same bits from every thread, whatever its number of workers. */
    for (i = 1; i < THREADS; ++i) {
        CHECK(jobs[i].iterations == jobs[0].iterations);
        CHECK(memcmp(jobs[i].x, jobs[0].x, bytes) == 0);
    }
    for (i = 0; i < THREADS; ++i) free(jobs[i].x);
    CHECK(terrace_matrix_destroy(shared_matrix) == TERRACE_SUCCESS);
    problem_destroy(&shared_problem);
    free(right_hand_side);
    return 0;
}
