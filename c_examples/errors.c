/* Every kind of mistake and the sentence that it gets. Nothing here ends the program: each call returns a status, the objects stay
 * as they were, and the last lines solve a system with them. errors.out holds the expected output. */
#include "terrace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static terrace_context *context = NULL;
static int surprises = 0;

static void show(const char *mistake, terrace_status expected, terrace_status status) {
    char sentence[1024] = "";
    terrace_last_error(context, sentence, sizeof sentence, NULL);
    printf("%s\n    %s: %s\n", mistake, terrace_status_name(status), sentence);
    if (status != expected) {
        printf("    expected was %s\n", terrace_status_name(expected));
        ++surprises;
    }
}

/* Calls that must succeed for the rest to make sense. */
static void must(terrace_status status) {
    if (status != TERRACE_SUCCESS) {
        show("a call that should have succeeded", TERRACE_SUCCESS, status);
        exit(EXIT_FAILURE);
    }
}

/* A 3x3 matrix with 32-bit indices, f64 values and base 0, which should be refused. */
static terrace_status create(const int32_t *row_offsets, const int32_t *columns, const double *values,
                             terrace_matrix_flags flags) {
    terrace_matrix *matrix = NULL;
    terrace_status status = terrace_matrix_create_csr(context, 3, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns,
                                                      TERRACE_F64, values, 0, flags, &matrix);
    terrace_matrix_destroy(matrix);
    return status;
}

/* AMG for such a matrix, which is sound, but not for AMG. */
static terrace_status set_up(const int32_t *row_offsets, const int32_t *columns, const double *values) {
    terrace_matrix *matrix = NULL;
    terrace_amg *amg = NULL;
    must(terrace_matrix_create_csr(context, 3, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64, values, 0,
                                   TERRACE_COPY, &matrix));
    terrace_status status = terrace_amg_setup(context, matrix, NULL, &amg);
    terrace_matrix_destroy(matrix);
    return status;
}

static int32_t failing_callback(int64_t n, const void *x, void *y, void *user) {
    (void)n, (void)x, (void)y, (void)user;
    return 42;
}

/* The tridiagonal matrix (-1, 2, -1), which is sound. */
static const int32_t row_offsets[] = {0, 2, 5, 7};
static const int32_t columns[] = {0, 1, 0, 1, 2, 1, 2};
static const double values[] = {2, -1, -1, 2, -1, -1, 2};

static void arguments(void) {
    terrace_matrix *matrix = NULL;
    terrace_context *none = NULL;
    terrace_status status = terrace_context_create("gpu:0", &none);
    char sentence[512] = "";
    terrace_last_error(NULL, sentence, sizeof sentence, NULL); /* no context yet: the thread keeps the sentence */
    printf("unknown device\n    %s: %s\n", terrace_status_name(status), sentence);
    surprises += status != TERRACE_ERROR_DEVICE;

    show("null argument", TERRACE_ERROR_NULL_ARGUMENT, create(row_offsets, columns, NULL, TERRACE_COPY));
    show("number of threads", TERRACE_ERROR_INVALID_ARGUMENT, terrace_context_set_threads(context, 0));
    show("index type that is none", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_create_csr(context, 3, 3, TERRACE_F64, row_offsets, TERRACE_I32, columns, TERRACE_F64, values, 0,
                                   TERRACE_COPY, &matrix));
    show("precision of a later version", TERRACE_ERROR_UNSUPPORTED,
         terrace_matrix_create_csr(context, 3, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F16, values, 0,
                                   TERRACE_COPY, &matrix));
    show("base", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_create_csr(context, 3, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64, values, 2,
                                   TERRACE_COPY, &matrix));
    show("unknown flag", TERRACE_ERROR_INVALID_ARGUMENT, create(row_offsets, columns, values, 64));
    show("negative size", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_create_csr(context, -3, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64, values, 0,
                                   TERRACE_COPY, &matrix));
    show("block size", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_create_bsr(context, 3, 3, 9, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64, values, 0,
                                   TERRACE_COPY, &matrix));
}

static void malformed_matrices(void) {
    const int32_t decreasing[] = {0, 5, 2, 7}, late[] = {1, 2, 5, 7};
    const int32_t out_of_range[] = {0, 1, 0, 1, 3, 1, 2}, negative[] = {0, 1, -1, 1, 2, 1, 2};
    const int32_t unsorted[] = {0, 1, 0, 1, 2, 2, 1}, twice[] = {0, 1, 0, 1, 1, 1, 2};
    const double not_a_number[] = {2, -1, -1, 2, NAN, -1, 2}, infinite[] = {2, -1, -1, 2, -1, -INFINITY, 2};
    const double zero_diagonal[] = {2, -1, -1, 2, -1, -1, 0};
    const int32_t short_offsets[] = {0, 2, 4, 6}, no_diagonal[] = {0, 1, 0, 2, 1, 2};

    show("offsets that decrease", TERRACE_ERROR_MATRIX_STRUCTURE, create(decreasing, columns, values, TERRACE_COPY));
    show("offsets that do not begin at the base", TERRACE_ERROR_MATRIX_STRUCTURE,
         create(late, columns, values, TERRACE_COPY));
    show("column out of range", TERRACE_ERROR_MATRIX_STRUCTURE, create(row_offsets, out_of_range, values, TERRACE_COPY));
    show("negative column", TERRACE_ERROR_MATRIX_STRUCTURE, create(row_offsets, negative, values, TERRACE_COPY));
    show("unsorted columns where sorted ones are promised", TERRACE_ERROR_MATRIX_STRUCTURE,
         create(row_offsets, unsorted, values, TERRACE_SORTED));
    show("column that appears twice", TERRACE_ERROR_MATRIX_STRUCTURE, create(row_offsets, twice, values, TERRACE_COPY));
    show("value that is not a number", TERRACE_ERROR_MATRIX_VALUES,
         create(row_offsets, columns, not_a_number, TERRACE_COPY));
    show("infinite value", TERRACE_ERROR_MATRIX_VALUES, create(row_offsets, columns, infinite, TERRACE_COPY));
    show("AMG for a matrix without a diagonal entry", TERRACE_ERROR_MATRIX_VALUES,
         set_up(short_offsets, no_diagonal, values));
    show("AMG for a zero on the diagonal", TERRACE_ERROR_MATRIX_VALUES, set_up(row_offsets, columns, zero_diagonal));
}

static void matrix_attributes(terrace_matrix *matrix) {
    const double replacement[] = {1, 1, 1, 1, 1, 1, 1}, vectors[] = {1, 1, 1}, zeros[] = {0, 0, 0};
    const float narrow[] = {1, 1, 1, 1, 1, 1, 1};
    show("new values, too few", TERRACE_ERROR_SIZE_MISMATCH,
         terrace_matrix_update_values(context, matrix, TERRACE_F64, replacement, 6));
    show("new values of another type", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_update_values(context, matrix, TERRACE_F32, narrow, 7));
    show("near-null space with nodes that do not divide the rows", TERRACE_ERROR_SIZE_MISMATCH,
         terrace_matrix_set_near_null_space(context, matrix, 2, 1, vectors));
    show("near-null space of a negative number of vectors", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_set_near_null_space(context, matrix, 1, -1, vectors));
    show("near-null-space vector of zeros", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_set_near_null_space(context, matrix, 1, 1, zeros));
    show("coordinates of the wrong number of nodes", TERRACE_ERROR_SIZE_MISMATCH,
         terrace_matrix_set_coordinates(context, matrix, 3, 2, replacement));
    const int32_t diagonal[] = {0, 1, 2, 3};
    const double identities[] = {1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1};
    terrace_matrix *blocks = NULL;
    must(terrace_matrix_create_bsr(context, 3, 3, 2, TERRACE_I32, diagonal, TERRACE_I32, diagonal, TERRACE_F64, identities,
                                   0, TERRACE_COPY, &blocks));
    show("coordinates with another dimension than the blocks", TERRACE_ERROR_SIZE_MISMATCH,
         terrace_matrix_set_coordinates(context, blocks, 3, 2, replacement));
    terrace_matrix_destroy(blocks);
    show("coordinates in four dimensions", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_matrix_set_coordinates(context, matrix, 4, 3, replacement));
}

static void options(terrace_config *config) {
    show("unknown option", TERRACE_ERROR_UNKNOWN_OPTION, terrace_config_set_real(config, "solver.tolerence", 1e-6));
    show("value out of range", TERRACE_ERROR_OPTION_VALUE, terrace_config_set_int(config, "amg.max_levels", 0));
    show("value of another type", TERRACE_ERROR_OPTION_VALUE, terrace_config_set_real(config, "solver.type", 1.5));
    show("unknown choice", TERRACE_ERROR_OPTION_VALUE, terrace_config_set_str(config, "solver.preconditioner", "ilu"));
    show("option with a precision that is none", TERRACE_ERROR_OPTION_VALUE,
         terrace_config_set_str(config, "precision.vector", "f64,f8"));
    show("level with a precision that is none", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_config_set_level(config, 1, TERRACE_LEVEL_VECTOR, TERRACE_I32));
    show("level out of range", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_config_set_level(config, 99, TERRACE_LEVEL_MATRIX, TERRACE_F32));
    show("part of a level that is none", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_config_set_level(config, 1, 7, TERRACE_F32));
    show("sweeps out of range", TERRACE_ERROR_OPTION_VALUE, terrace_config_set_level_sweeps(config, 1, 101, 1));
    show("text that is not JSON", TERRACE_ERROR_PARSE, terrace_config_load_json(config, "{\"solver.type\": cg}"));
    show("JSON that is not an object", TERRACE_ERROR_PARSE, terrace_config_load_json(config, "[1, 2]"));
    show("unknown preset", TERRACE_ERROR_OPTION_VALUE, terrace_config_load_preset(config, "laplace"));
}

static void solves(const terrace_matrix *matrix, terrace_config *config) {
    const double b[] = {1, -1, 1}, bad[] = {1, NAN, 1};
    double x[3];
    terrace_solver *solver = NULL;
    must(terrace_solver_create(context, config, &solver));
    show("solve before set-up", TERRACE_ERROR_NOT_SET_UP,
         terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
    show("set-up without matrix and operator", TERRACE_ERROR_NOT_SET_UP, terrace_solver_setup(solver, NULL));
    terrace_matrix *wide = NULL;
    must(terrace_matrix_create_csr(context, 2, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64, values, 0,
                                   TERRACE_COPY, &wide));
    show("matrix that is not square", TERRACE_ERROR_SIZE_MISMATCH, terrace_solver_setup(solver, wide));
    terrace_matrix_destroy(wide);
    must(terrace_solver_setup(solver, matrix));
    show("vectors of another type", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_solver_solve(solver, TERRACE_F32, 1, b, x, TERRACE_ZERO_GUESS));
    show("number of right-hand sides", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_solver_solve(solver, TERRACE_F64, 0, b, x, TERRACE_ZERO_GUESS));
    show("guess that is none", TERRACE_ERROR_INVALID_ARGUMENT, terrace_solver_solve(solver, TERRACE_F64, 1, b, x, 5));
    show("right-hand side that is not a number", TERRACE_ERROR_NON_FINITE,
         terrace_solver_solve(solver, TERRACE_F64, 1, bad, x, TERRACE_ZERO_GUESS));

    terrace_report *report = NULL;
    int64_t whole = 0;
    must(terrace_solver_report(solver, &report));
    show("fact that no report has", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_report_get_int(report, "iterationes", 0, &whole));
    show("level that the hierarchy does not have", TERRACE_ERROR_INVALID_ARGUMENT,
         terrace_report_get_int(report, "rows", 17, &whole));
    terrace_report_destroy(report);

    must(terrace_solver_set_operator(solver, 3, failing_callback, NULL));
    must(terrace_solver_setup(solver, matrix));
    show("callback that fails", TERRACE_ERROR_CALLBACK,
         terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
    must(terrace_solver_set_operator(solver, 4, failing_callback, NULL));
    show("operator of another size", TERRACE_ERROR_SIZE_MISMATCH, terrace_solver_setup(solver, matrix));
    terrace_solver_destroy(solver);
}

static void numbers(const terrace_matrix *matrix, terrace_config *config) {
    const int32_t full_offsets[] = {0, 2, 4}, full_columns[] = {0, 1, 0, 1};
    const double indefinite[] = {1, 2, 2, 1};
    const double along[] = {1, -1}, b[] = {1, 0, 0}, third[] = {0.1, 0.7, 0.3};
    double x[3];
    terrace_matrix *saddle = NULL;
    terrace_solver *solver = NULL;
    must(terrace_config_set_str(config, "solver.preconditioner", "none"));
    must(terrace_config_set_str(config, "solver.type", "cg"));

    must(terrace_matrix_create_csr(context, 2, 2, TERRACE_I32, full_offsets, TERRACE_I32, full_columns, TERRACE_F64,
                                   indefinite, 0, TERRACE_COPY, &saddle));
    must(terrace_solver_create(context, config, &solver));
    must(terrace_solver_setup(solver, saddle));
    show("conjugate gradients on an indefinite matrix", TERRACE_ERROR_BREAKDOWN,
         terrace_solver_solve(solver, TERRACE_F64, 1, along, x, TERRACE_ZERO_GUESS));
    terrace_solver_destroy(solver);
    terrace_matrix_destroy(saddle);

    must(terrace_config_set_int(config, "solver.max_iterations", 1));
    must(terrace_solver_create(context, config, &solver));
    must(terrace_solver_setup(solver, matrix));
    show("too few iterations", TERRACE_NOT_CONVERGED,
         terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
    terrace_solver_destroy(solver);

    must(terrace_config_set_int(config, "solver.max_iterations", 1000));
    must(terrace_config_set_real(config, "solver.tolerance", 0));
    must(terrace_solver_create(context, config, &solver));
    must(terrace_solver_setup(solver, matrix));
    show("a tolerance that rounding does not allow", TERRACE_STAGNATED,
         terrace_solver_solve(solver, TERRACE_F64, 1, third, x, TERRACE_ZERO_GUESS));
    terrace_solver_destroy(solver);

    must(terrace_config_set_str(config, "solver.type", "gmres"));
    must(terrace_config_set_str(config, "solver.norm", "preconditioned"));
    must(terrace_solver_create(context, config, &solver));
    show("norm that the method does not have", TERRACE_ERROR_OPTION_VALUE, terrace_solver_setup(solver, matrix));
    terrace_solver_destroy(solver);
}

int main(void) {
    terrace_matrix *matrix = NULL;
    terrace_config *config = NULL;
    terrace_solver *solver = NULL;
    const double b[] = {1, 0, 1};
    double x[3];
    must(terrace_context_create("host:1", &context));
    must(terrace_matrix_create_csr(context, 3, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64, values, 0,
                                   TERRACE_BORROW | TERRACE_SORTED, &matrix));
    must(terrace_config_create(context, &config));

    arguments();
    malformed_matrices();
    matrix_attributes(matrix);
    options(config);
    solves(matrix, config);
    numbers(matrix, config);

    must(terrace_solver_create(context, NULL, &solver));
    must(terrace_solver_setup(solver, matrix));
    must(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
    printf("after all this the solution is still %.6f %.6f %.6f\n", x[0], x[1], x[2]);

    terrace_solver_destroy(solver);
    terrace_config_destroy(config);
    terrace_matrix_destroy(matrix);
    terrace_context_destroy(context);
    return surprises == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
