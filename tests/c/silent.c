/* The library prints nothing: neither in a whole solve nor when every function is called wrongly. */
#include "check.h"

#include <math.h>

static terrace_context *context;

/* A call that must fail with this status and a sentence in the context. */
#define FAILS(status, part, call)                                                                                      \
    do {                                                                                                               \
        CHECK((call) == (status));                                                                                     \
        CHECK(error_has(context, part));                                                                               \
    } while (0)

static void wrong_matrices(const problem *p) {
    terrace_matrix *m = NULL;
    const int32_t decreasing[] = {0, 2, 1, 3};
    const int32_t offsets[] = {0, 1, 2, 3};
    const int32_t columns[] = {0, 1, 2};
    const int32_t outside[] = {0, 1, 3};
    const double values[] = {1.0, 1.0, 1.0};
    const double infinite[] = {1.0, INFINITY, 1.0};
#define CREATE(rows, o_type, o, c_type, c, v_type, v, base, flags)                                                     \
    terrace_matrix_create_csr(context, rows, 3, o_type, o, c_type, c, v_type, v, base, flags, &m)
    FAILS(TERRACE_ERROR_MATRIX_STRUCTURE, "row 1", CREATE(3, TERRACE_I32, decreasing, TERRACE_I32, columns, TERRACE_F64, values, 0, 0));
    FAILS(TERRACE_ERROR_MATRIX_STRUCTURE, "row 2", CREATE(3, TERRACE_I32, offsets, TERRACE_I32, outside, TERRACE_F64, values, 0, 0));
    FAILS(TERRACE_ERROR_MATRIX_VALUES, "row 1", CREATE(3, TERRACE_I32, offsets, TERRACE_I32, columns, TERRACE_F64, infinite, 0, 0));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "rows is -1", CREATE(-1, TERRACE_I32, offsets, TERRACE_I32, columns, TERRACE_F64, values, 0, 0));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "offset_type", CREATE(3, 99, offsets, TERRACE_I32, columns, TERRACE_F64, values, 0, 0));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "column_type", CREATE(3, TERRACE_I32, offsets, TERRACE_F64, columns, TERRACE_F64, values, 0, 0));
    FAILS(TERRACE_ERROR_UNSUPPORTED, "value_type", CREATE(3, TERRACE_I32, offsets, TERRACE_I32, columns, TERRACE_BF16, values, 0, 0));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "base is 7", CREATE(3, TERRACE_I32, offsets, TERRACE_I32, columns, TERRACE_F64, values, 7, 0));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "flags", CREATE(3, TERRACE_I32, offsets, TERRACE_I32, columns, TERRACE_F64, values, 0, 64));
    FAILS(TERRACE_ERROR_NULL_ARGUMENT, "values is null", CREATE(3, TERRACE_I32, offsets, TERRACE_I32, columns, TERRACE_F64, NULL, 0, 0));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "block_size is 9",
          terrace_matrix_create_bsr(context, 3, 3, 9, TERRACE_I32, offsets, TERRACE_I32, columns, TERRACE_F64, values, 0, 0, &m));
    CHECK(m == NULL);

    m = problem_matrix(context, p, TERRACE_COPY);
    FAILS(TERRACE_ERROR_SIZE_MISMATCH, "count is 1", terrace_matrix_update_values(context, m, TERRACE_F64, p->values, 1));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "count is -1", terrace_matrix_set_near_null_space(context, m, 1, -1, p->values));
    FAILS(TERRACE_ERROR_SIZE_MISMATCH, "nodes is 3", terrace_matrix_set_coordinates(context, m, 2, 3, p->values));
    FAILS(TERRACE_ERROR_NULL_ARGUMENT, "matrix is null", terrace_matrix_get_size(context, NULL, NULL, NULL, NULL, NULL));
    terrace_matrix_destroy(m);
}

static void wrong_options(void) {
    terrace_config *config = NULL;
    CHECK(terrace_config_create(context, &config) == TERRACE_SUCCESS);
    FAILS(TERRACE_ERROR_UNKNOWN_OPTION, "solver.tolerance", terrace_config_set_real(config, "solver.tolerence", 1e-6));
    FAILS(TERRACE_ERROR_OPTION_VALUE, "1 to 64", terrace_config_set_int(config, "amg.max_levels", 0));
    FAILS(TERRACE_ERROR_OPTION_VALUE, "cg", terrace_config_set_str(config, "solver.type", "sor"));
    FAILS(TERRACE_ERROR_OPTION_VALUE, "f16", terrace_config_set_str(config, "precision.vector", "f64,f8"));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "TERRACE_AUTO",
          terrace_config_set_level(config, TERRACE_LAST, TERRACE_LEVEL_SMOOTHER, TERRACE_I64));
    FAILS(TERRACE_ERROR_PARSE, "JSON", terrace_config_load_json(config, "{"));
    FAILS(TERRACE_ERROR_OPTION_VALUE, "poisson, elasticity", terrace_config_load_preset(config, "laplace"));
    FAILS(TERRACE_ERROR_NULL_ARGUMENT, "key is null", terrace_config_set_str(config, NULL, "x"));
    FAILS(TERRACE_ERROR_NULL_ARGUMENT, "buf is null", terrace_config_to_json(config, NULL, 5, NULL));
    terrace_config_destroy(config);
}

static void right_and_wrong_solves(const problem *p) {
    terrace_matrix *matrix = problem_matrix(context, p, TERRACE_BORROW);
    terrace_solver *solver = NULL;
    terrace_config *config = NULL;
    terrace_report *report = NULL;
    terrace_amg *amg = NULL;
    double *b = problem_right_hand_side(p);
    double *x = calloc((size_t)p->rows, sizeof *x);
    double history[4];
    int64_t value = 0, needed = 0, bytes = 0;
    double real = 0.0;
    char text[8];
    size_t size = 0;
    CHECK(x);

    CHECK(terrace_config_create(context, &config) == TERRACE_SUCCESS);
    CHECK(terrace_solver_create(context, config, &solver) == TERRACE_SUCCESS);
    FAILS(TERRACE_ERROR_NOT_SET_UP, "terrace_solver_setup",
          terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
    CHECK(terrace_solver_update(solver) < 0);
    CHECK(terrace_solver_setup(solver, NULL) < 0);
    CHECK(terrace_solver_set_operator(NULL, 5, NULL, NULL) == TERRACE_ERROR_NULL_ARGUMENT && error_has(NULL, "solver is null"));
    CHECK(terrace_solver_set_preconditioner(NULL, NULL, NULL) == TERRACE_ERROR_NULL_ARGUMENT && error_has(NULL, "solver is null"));
    CHECK(terrace_solver_set_monitor(NULL, NULL, NULL) == TERRACE_ERROR_NULL_ARGUMENT && error_has(NULL, "solver is null"));
    CHECK(terrace_solver_setup(solver, matrix) == TERRACE_SUCCESS);
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "count is 0", terrace_solver_solve(solver, TERRACE_F64, 0, b, x, TERRACE_ZERO_GUESS));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "guess is 5", terrace_solver_solve(solver, TERRACE_F64, 1, b, x, 5));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "overlaps", terrace_solver_solve(solver, TERRACE_F64, 1, x, x, TERRACE_ZERO_GUESS));
    FAILS(TERRACE_ERROR_NULL_ARGUMENT, "b is null", terrace_solver_solve(solver, TERRACE_F64, 1, NULL, x, TERRACE_ZERO_GUESS));
    FAILS(TERRACE_ERROR_SIZE_MISMATCH, "b is long", terrace_solver_set_error(solver, TERRACE_ERROR_SIZE_MISMATCH, "b is long"));
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(problem_is_solved(p, x, 1e-4));

    CHECK(terrace_solver_report(solver, &report) == TERRACE_SUCCESS);
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "accepted: levels", terrace_report_get_int(report, "nonsense", 0, &value));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "index is 1", terrace_report_get_real(report, "iterations", 1, &real));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "len is -1", terrace_report_get_history(report, 0, history, -1, NULL));
    CHECK(terrace_report_get_history(report, 0, history, 4, &needed) == TERRACE_SUCCESS && needed > 1);
    CHECK(history[0] == 1.0);
    CHECK(terrace_report_to_text(report, text, sizeof text, &size) == TERRACE_SUCCESS && size > sizeof text);
    CHECK(strlen(text) == sizeof text - 1);
    CHECK(terrace_report_to_json(report, NULL, 0, &size) == TERRACE_SUCCESS && size > 2);
    terrace_report_destroy(report);
    terrace_solver_destroy(solver);

    /* Too few iterations are a condition, not an error: x is the best that was found. */
    CHECK(terrace_config_set_int(config, "solver.max_iterations", 1) == TERRACE_SUCCESS);
    CHECK(terrace_solver_create(context, config, &solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_setup(solver, matrix) == TERRACE_SUCCESS);
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_NOT_CONVERGED);
    CHECK(TERRACE_NOT_CONVERGED > 0 && error_has(context, "not converged after 1 iterations"));
    terrace_solver_destroy(solver);

    CHECK(terrace_amg_memory_estimate(context, matrix, NULL, &bytes) == TERRACE_SUCCESS && bytes > 0);
    CHECK(terrace_amg_setup(context, matrix, NULL, &amg) == TERRACE_SUCCESS);
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "vector_type", terrace_amg_apply(amg, TERRACE_I32, b, x));
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "status is 1", terrace_amg_set_error(amg, TERRACE_NOT_CONVERGED, "x is long"));
    CHECK(terrace_amg_report(amg, &report) == TERRACE_SUCCESS);
    CHECK(terrace_report_get_int(report, "bytes", 0, &value) == TERRACE_SUCCESS);
    CHECK(bytes > value / 2 && bytes < value * 2);
    terrace_report_destroy(report);
    terrace_amg_destroy(amg);
    terrace_config_destroy(config);
    terrace_matrix_destroy(matrix);
    free(b);
    free(x);
}

int main(void) {
    problem p = problem_create(50);
    int32_t major = -1;
    size_t size = 0;
    CHECK(terrace_version(&major, NULL, NULL) == TERRACE_SUCCESS && major == TERRACE_VERSION_MAJOR);
    CHECK(strcmp(terrace_status_name(TERRACE_ERROR_PARSE), "TERRACE_ERROR_PARSE") == 0);
    CHECK(terrace_context_create("gpu", &context) == TERRACE_ERROR_DEVICE);
    CHECK(context == NULL && error_has(NULL, "\"gpu\""));
    CHECK(terrace_context_create("host:2", &context) == TERRACE_SUCCESS);
    FAILS(TERRACE_ERROR_INVALID_ARGUMENT, "threads is 0", terrace_context_set_threads(context, 0));
    CHECK(terrace_context_info(context, NULL, 0, &size) == TERRACE_SUCCESS && size > 10);
    CHECK(terrace_context_raise_panic(context) == TERRACE_ERROR_INTERNAL);
    FAILS(TERRACE_ERROR_PARSE, "line 3", terrace_context_set_error(context, TERRACE_ERROR_PARSE, "line 3"));
    wrong_matrices(&p);
    wrong_options();
    right_and_wrong_solves(&p);
    terrace_context_destroy(context);
    problem_destroy(&p);
    return 0;
}
