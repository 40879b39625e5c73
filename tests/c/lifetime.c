/* Objects may be destroyed in any order: the context first, the matrix before what was set up with it. */
#include "check.h"

int main(void) {
    problem p = problem_create(20);
    double *b = problem_right_hand_side(&p);
    double *x = malloc((size_t)p.rows * sizeof *x);
    char text[256];
    terrace_context *context = NULL;
    terrace_matrix *matrix;
    terrace_config *config = NULL;
    terrace_solver *solver = NULL;
    terrace_amg *amg = NULL;
    terrace_report *report = NULL;
    int64_t value = 0;

    CHECK(x);
    CHECK(terrace_context_create("host:2", &context) == TERRACE_SUCCESS);
    matrix = problem_matrix(context, &p, TERRACE_COPY);
    problem_destroy(&p);
    CHECK(terrace_config_create(context, &config) == TERRACE_SUCCESS);
    CHECK(terrace_solver_create(context, config, &solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_setup(solver, matrix) == TERRACE_SUCCESS);
    CHECK(terrace_amg_setup(context, matrix, config, &amg) == TERRACE_SUCCESS);

    CHECK(terrace_context_destroy(context) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_destroy(matrix) == TERRACE_SUCCESS);
    CHECK(terrace_config_destroy(config) == TERRACE_SUCCESS);

    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(x[0] > 0.99 && x[0] < 1.01);
    CHECK(terrace_amg_apply(amg, TERRACE_F64, b, x) == TERRACE_SUCCESS);
    CHECK(terrace_solver_update(solver) == TERRACE_SUCCESS);
    CHECK(terrace_amg_update(amg) == TERRACE_SUCCESS);

    CHECK(terrace_solver_report(solver, &report) == TERRACE_SUCCESS);
    CHECK(terrace_solver_destroy(solver) == TERRACE_SUCCESS);
    CHECK(terrace_report_get_int(report, "iterations", 0, &value) == TERRACE_SUCCESS && value > 0);
    CHECK(terrace_report_get_str(report, "format", 0, text, sizeof text, NULL) == TERRACE_SUCCESS);
    CHECK(strcmp(text, "csr") == 0);
    CHECK(terrace_report_destroy(report) == TERRACE_SUCCESS);
    CHECK(terrace_amg_destroy(amg) == TERRACE_SUCCESS);

    CHECK(terrace_context_destroy(NULL) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_destroy(NULL) == TERRACE_SUCCESS);
    CHECK(terrace_config_destroy(NULL) == TERRACE_SUCCESS);
    CHECK(terrace_amg_destroy(NULL) == TERRACE_SUCCESS);
    CHECK(terrace_solver_destroy(NULL) == TERRACE_SUCCESS);
    CHECK(terrace_report_destroy(NULL) == TERRACE_SUCCESS);
    free(b);
    free(x);
    return 0;
}
