/* Eight threads, each with a context of its own on a GPU, share one matrix: they set up, solve and apply at the same time, some on a stream, some
   at the limit of their memory. The GPU is the one that the argument names, or simulated ones with threads in both orders. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, ROUNDS = 2 };

static problem shared_problem;
static terrace_matrix *shared_matrix;
static double *right_hand_side;

typedef struct {
    int number;
    const char *device;
    double *x;
    double *z;
    int64_t iterations;
} job;

static int64_t memory_used(const terrace_context *context) {
    int64_t used = -1;
    CHECK(terrace_context_get_memory(context, &used, NULL, NULL) == TERRACE_SUCCESS);
    return used;
}

static void *work(void *argument) {
    job *j = argument;
    int round;
    for (round = 0; round < ROUNDS; ++round) {
        terrace_context *context = NULL;
        terrace_solver *solver = NULL;
        terrace_amg *amg = NULL;
        terrace_report *report = NULL;
        CHECK(terrace_context_create(j->device, &context) == TERRACE_SUCCESS);
        CHECK(terrace_context_set_threads(context, 1 + j->number % 2) == TERRACE_SUCCESS);
        /* A simulated GPU takes any address as the name of a stream, CUDA's default stream is 1. */
        if (j->number % 4 == 1) CHECK(terrace_context_set_stream(context, (void *)(size_t)1) == TERRACE_SUCCESS);
        CHECK(terrace_solver_create(context, NULL, &solver) == TERRACE_SUCCESS);
        if (j->number % 4 == 2) {
            CHECK(terrace_context_set_memory_limit(context, 10000) == TERRACE_SUCCESS);
            CHECK(terrace_solver_setup(solver, shared_matrix) == TERRACE_ERROR_OUT_OF_MEMORY);
            CHECK(error_has(context, "limit of the context is 10000 bytes"));
            CHECK(memory_used(context) == 0);
            CHECK(terrace_context_set_memory_limit(context, 0) == TERRACE_SUCCESS);
        }
        CHECK(terrace_solver_setup(solver, shared_matrix) == TERRACE_SUCCESS);
        CHECK(terrace_amg_setup(context, shared_matrix, NULL, &amg) == TERRACE_SUCCESS);
        CHECK(memory_used(context) > 0);
        CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, right_hand_side, j->x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
        CHECK(problem_is_solved(&shared_problem, j->x, 1e-4));
        if (round == 1) CHECK(terrace_context_raise_panic(context) == TERRACE_ERROR_INTERNAL);
        CHECK(terrace_amg_apply(amg, TERRACE_F64, right_hand_side, j->z) == TERRACE_SUCCESS);
        CHECK(terrace_solver_report(solver, &report) == TERRACE_SUCCESS);
        CHECK(terrace_report_get_int(report, "iterations", 0, &j->iterations) == TERRACE_SUCCESS);
        CHECK(terrace_context_synchronize(context) == TERRACE_SUCCESS);
        terrace_report_destroy(report);
        terrace_amg_destroy(amg);
        terrace_solver_destroy(solver);
        CHECK(memory_used(context) == 0);
        terrace_context_destroy(context);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    job jobs[THREADS];
    terrace_context *context = NULL;
    int i;
    size_t bytes;
    const char *named = argc > 1 ? argv[1] : NULL;
    CHECK(terrace_context_create(named ? named : "sim", &context) == TERRACE_SUCCESS);
    shared_problem = problem_create(24);
    right_hand_side = problem_right_hand_side(&shared_problem);
    bytes = (size_t)shared_problem.rows * sizeof(double);
    shared_matrix = problem_matrix(context, &shared_problem, TERRACE_BORROW);
    CHECK(terrace_context_destroy(context) == TERRACE_SUCCESS);

    for (i = 0; i < THREADS; ++i) {
        jobs[i].number = i;
        jobs[i].device = named ? named : i < THREADS / 2 ? "sim:0" : "sim:1";
        jobs[i].x = malloc(bytes);
        jobs[i].z = malloc(bytes);
        CHECK(jobs[i].x && jobs[i].z);
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);

    /* The same bits from every thread. */
    for (i = 0; i < THREADS; ++i) {
        CHECK(jobs[i].iterations == jobs[0].iterations);
        CHECK(memcmp(jobs[i].x, jobs[0].x, bytes) == 0);
        CHECK(memcmp(jobs[i].z, jobs[0].z, bytes) == 0);
    }
    for (i = 0; i < THREADS; ++i) {
        free(jobs[i].x);
        free(jobs[i].z);
    }
    CHECK(terrace_matrix_destroy(shared_matrix) == TERRACE_SUCCESS);
    problem_destroy(&shared_problem);
    free(right_hand_side);
    return 0;
}
