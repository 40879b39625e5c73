/* When memory runs out, a call returns TERRACE_ERROR_OUT_OF_MEMORY and everything works on. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Lets the process have so many bytes of address space more than it has now. */
static void limit_to(rlim_t more) {
    struct rlimit limit;
    char line[256];
    long pages = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    while (fgets(line, sizeof line, status)) {
        if (sscanf(line, "VmSize: %ld kB", &pages) == 1) break;
    }
    fclose(status);
    CHECK(pages > 0);
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = (rlim_t)pages * 1024 + more;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* Success, or the one error that a lack of memory is. */
static int ends_well(terrace_status status) {
    CHECK(status == TERRACE_SUCCESS || status == TERRACE_ERROR_OUT_OF_MEMORY);
    return status == TERRACE_SUCCESS;
}

/* Everything that needs memory, in a process that has `more` bytes left. */
static void work_with(const problem *p, rlim_t more) {
    terrace_context *context = NULL;
    terrace_matrix *matrix = NULL;
    terrace_matrix *result = NULL;
    terrace_solver *solver = NULL;
    int64_t bytes;
    CHECK(terrace_context_create("host:1", &context) == TERRACE_SUCCESS);
    matrix = problem_matrix(context, p, TERRACE_BORROW);
    limit_to(more);
    if (ends_well(terrace_matrix_transpose(context, matrix, &result))) terrace_matrix_destroy(result);
    result = NULL;
    if (ends_well(terrace_matrix_multiply(context, matrix, matrix, &result))) terrace_matrix_destroy(result);
    ends_well(terrace_amg_memory_estimate(context, matrix, NULL, &bytes));
    CHECK(terrace_solver_create(context, NULL, &solver) == TERRACE_SUCCESS);
    if (ends_well(terrace_solver_setup(solver, matrix))) ends_well(terrace_solver_update(solver));
    terrace_solver_destroy(solver);
    terrace_matrix_destroy(matrix);
    terrace_context_destroy(context);
}

/* No limit ends the process. */
static void under_many_limits(void) {
    problem p = problem_create(250);
    int step;
    for (step = 1; step <= 32; ++step) {
        int outcome = 0;
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            work_with(&p, (rlim_t)step * 1300 * 1000);
            _exit(0);
        }
        CHECK(waitpid(child, &outcome, 0) == child);
        CHECK(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    }
    problem_destroy(&p);
}

int main(void) {
    /* A diagonal matrix large enough that its copy does not fit below the limit: 4 + 4 + 8 bytes for each row. */
    const int64_t rows = 8 * 1000 * 1000;
    int64_t i;
    terrace_context *context = NULL;
    terrace_matrix *matrix = NULL;
    terrace_matrix *borrowed = NULL;
    terrace_solver *solver = NULL;
    problem small = problem_create(10);
    int32_t *indices = malloc((size_t)(rows + 1) * sizeof *indices);
    double *values = malloc((size_t)rows * sizeof *values);
    double *b = problem_right_hand_side(&small);
    double *x = malloc((size_t)small.rows * sizeof *x);
    CHECK(indices && values && x);
    under_many_limits();
    for (i = 0; i <= rows; ++i) indices[i] = (int32_t)i;
    for (i = 0; i < rows; ++i) values[i] = 1.0;
    CHECK(terrace_context_create("host:2", &context) == TERRACE_SUCCESS);

    limit_to(32 * 1024 * 1024);
    CHECK(terrace_matrix_create_csr(context, rows, rows, TERRACE_I32, indices, TERRACE_I32, indices, TERRACE_F64, values, 0,
                                    TERRACE_COPY, &matrix) == TERRACE_ERROR_OUT_OF_MEMORY);
    CHECK(matrix == NULL && error_has(context, "could not be allocated"));

    /* Borrowing needs no memory; a set-up does. */
    CHECK(terrace_matrix_create_csr(context, rows, rows, TERRACE_I32, indices, TERRACE_I32, indices, TERRACE_F64, values, 0,
                                    TERRACE_BORROW, &borrowed) == TERRACE_SUCCESS);
    CHECK(terrace_solver_create(context, NULL, &solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_setup(solver, borrowed) == TERRACE_ERROR_OUT_OF_MEMORY);
    CHECK(error_has(context, "could not be allocated"));

    matrix = problem_matrix(context, &small, TERRACE_COPY);
    CHECK(terrace_solver_setup(solver, matrix) == TERRACE_SUCCESS);
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(problem_is_solved(&small, x, 1e-5));

    terrace_solver_destroy(solver);
    terrace_matrix_destroy(matrix);
    terrace_matrix_destroy(borrowed);
    terrace_context_destroy(context);
    problem_destroy(&small);
    free(indices);
    free(values);
    free(b);
    free(x);
    return 0;
}
