/* Callbacks in a solve. First an operator that is never assembled, preconditioned by AMG of a simpler matrix; then an operator and a
 * preconditioner that are both the caller's own.
 *
 *   callback [n]      n x n grid, n is 64 unless given
 */
#include "terrace.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        terrace_status status_ = (call);                                                                               \
        if (status_ < 0) {                                                                                             \
            char sentence_[512] = "";                                                                                  \
            terrace_last_error(context, sentence_, sizeof sentence_, NULL);                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, terrace_status_name(status_), sentence_);           \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

/* What the callbacks need; the library hands the pointer through. */
typedef struct {
    int n;
    int calls;
} grid;

static double at(const double *x, int n, int i, int j) {
    return i < 0 || j < 0 || i >= n || j >= n ? 0.0 : x[j * n + i];
}

/* y = A x with the compact nine-point Laplacian, which is of fourth order on harmonic functions. */
static int32_t nine_point(int64_t rows, const void *x_, void *y_, void *user) {
    grid *g = user;
    const double *x = x_;
    double *y = y_;
    const int n = g->n;
    if (rows != (int64_t)n * n) return 1; /* anything but 0 ends the solve with TERRACE_ERROR_CALLBACK */
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < n; ++i) {
            const double edges = at(x, n, i - 1, j) + at(x, n, i + 1, j) + at(x, n, i, j - 1) + at(x, n, i, j + 1);
            const double corners =
                at(x, n, i - 1, j - 1) + at(x, n, i + 1, j - 1) + at(x, n, i - 1, j + 1) + at(x, n, i + 1, j + 1);
            y[j * n + i] = (20.0 * x[j * n + i] - 4.0 * edges - corners) / 6.0;
        }
    ++g->calls;
    return 0;
}

/* z = M r with a symmetric Gauss-Seidel sweep of the five-point Laplacian. */
static int32_t gauss_seidel(int64_t rows, const void *r_, void *z_, void *user) {
    grid *g = user;
    const double *r = r_;
    double *z = z_;
    const int n = g->n;
    if (rows != (int64_t)n * n) return 1;
    for (int k = 0; k < n * n; ++k) z[k] = 0.0;
    for (int sweep = 0; sweep < 2; ++sweep)
        for (int s = 0; s < n * n; ++s) {
            const int k = sweep == 0 ? s : n * n - 1 - s, i = k % n, j = k / n;
            z[k] = (r[k] + at(z, n, i - 1, j) + at(z, n, i + 1, j) + at(z, n, i, j - 1) + at(z, n, i, j + 1)) / 4.0;
        }
    ++g->calls;
    return 0;
}

static int five_point(int n, int32_t *row_offsets, int32_t *columns, double *values) {
    int k = 0;
    for (int row = 0; row < n * n; ++row) {
        const int i = row % n, j = row / n;
        row_offsets[row] = k;
        if (j > 0) { columns[k] = row - n; values[k++] = -1.0; }
        if (i > 0) { columns[k] = row - 1; values[k++] = -1.0; }
        columns[k] = row; values[k++] = 4.0;
        if (i < n - 1) { columns[k] = row + 1; values[k++] = -1.0; }
        if (j < n - 1) { columns[k] = row + n; values[k++] = -1.0; }
    }
    row_offsets[n * n] = k;
    return k;
}

/* Solves, prints a line and tells whether the tolerance was reached. */
static int solve(terrace_context *context, const char *what, terrace_solver *solver, const double *b, double *x) {
    terrace_status status = terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS);
    CHECK(status);
    terrace_report *report = NULL;
    int64_t iterations = 0;
    double residual = 0.0;
    CHECK(terrace_solver_report(solver, &report));
    CHECK(terrace_report_get_int(report, "iterations", 0, &iterations));
    CHECK(terrace_report_get_real(report, "true_residual", 0, &residual));
    CHECK(terrace_report_destroy(report));
    printf("%s: %d iterations, true relative residual %.2e\n", what, (int)iterations, residual);
    return status == TERRACE_SUCCESS;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 64;
    if (n < 1 || n > 10000) {
        fprintf(stderr, "n must be from 1 to 10000\n");
        return EXIT_FAILURE;
    }
    const int rows = n * n;
    int32_t *row_offsets = malloc(((size_t)rows + 1) * sizeof *row_offsets);
    int32_t *columns = malloc(5 * (size_t)rows * sizeof *columns);
    double *values = malloc(5 * (size_t)rows * sizeof *values);
    double *b = malloc((size_t)rows * sizeof *b);
    double *x = malloc((size_t)rows * sizeof *x);
    if (!row_offsets || !columns || !values || !b || !x) {
        fprintf(stderr, "memory could not be allocated\n");
        return EXIT_FAILURE;
    }
    five_point(n, row_offsets, columns, values);
    for (int i = 0; i < rows; ++i) b[i] = 1.0;

    terrace_context *context = NULL;
    CHECK(terrace_context_create("host", &context));
    grid operator_data = {n, 0}, preconditioner_data = {n, 0};

    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_csr(context, rows, rows, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64,
                                    values, 0, TERRACE_BORROW | TERRACE_SORTED, &matrix));
    terrace_solver *with_amg = NULL;
    CHECK(terrace_solver_create(context, NULL, &with_amg));
    CHECK(terrace_solver_set_operator(with_amg, rows, nine_point, &operator_data));
    CHECK(terrace_solver_setup(with_amg, matrix));
    int solved = solve(context, "nine-point operator, AMG of the five-point matrix", with_amg, b, x);

    terrace_solver *matrix_free = NULL;
    CHECK(terrace_solver_create(context, NULL, &matrix_free));
    CHECK(terrace_solver_set_operator(matrix_free, rows, nine_point, &operator_data));
    CHECK(terrace_solver_set_preconditioner(matrix_free, gauss_seidel, &preconditioner_data));
    CHECK(terrace_solver_setup(matrix_free, NULL));
    solved &= solve(context, "nine-point operator, Gauss-Seidel of the caller", matrix_free, b, x);
    printf("the operator was called %d times, the preconditioner %d times\n", operator_data.calls,
           preconditioner_data.calls);

    CHECK(terrace_solver_destroy(matrix_free));
    CHECK(terrace_solver_destroy(with_amg));
    CHECK(terrace_matrix_destroy(matrix));
    CHECK(terrace_context_destroy(context));
    free(x);
    free(b);
    free(values);
    free(columns);
    free(row_offsets);
    return solved ? EXIT_SUCCESS : EXIT_FAILURE;
}
