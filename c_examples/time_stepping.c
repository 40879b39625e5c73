/* Implicit Euler for the heat equation with a conductivity that changes in time: in every step the matrix has new values in the
 * old pattern. terrace_solver_update renews the hierarchy without choosing coarse unknowns anew.
 *
 *   time_stepping [n [steps]]      n x n grid, n is 64 and steps is 10 unless given
 */
#include "terrace.h"

#include <math.h>
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

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) {
        fprintf(stderr, "%zu elements could not be allocated\n", count);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* A well-conducting spot circles around the middle of the unit square. */
static double conductivity(double x, double y, double angle) {
    const double cx = 0.5 + 0.3 * cos(angle), cy = 0.5 + 0.3 * sin(angle);
    const double r2 = (x - cx) * (x - cx) + (y - cy) * (y - cy);
    return 1.0 + 20.0 * exp(-40.0 * r2);
}

/* h^2 (1 / dt - div(k grad)) on the n x n interior points of the unit square, zero on the boundary, base 1. The pattern is the same
 * wherever the spot is. */
static int assemble(int n, double dt, double angle, int32_t *row_offsets, int32_t *columns, double *values) {
    const double h = 1.0 / (n + 1);
    int k = 0;
    for (int j = 0; j < n; ++j) {
        for (int i = 0; i < n; ++i) {
            const int row = j * n + i + 1;
            const double x = (i + 1) * h, y = (j + 1) * h;
            const double south = conductivity(x, y - 0.5 * h, angle), north = conductivity(x, y + 0.5 * h, angle);
            const double west = conductivity(x - 0.5 * h, y, angle), east = conductivity(x + 0.5 * h, y, angle);
            row_offsets[row - 1] = k + 1;
            if (j > 0) { columns[k] = row - n; values[k++] = -south; }
            if (i > 0) { columns[k] = row - 1; values[k++] = -west; }
            columns[k] = row; values[k++] = h * h / dt + south + north + west + east;
            if (i < n - 1) { columns[k] = row + 1; values[k++] = -east; }
            if (j < n - 1) { columns[k] = row + n; values[k++] = -north; }
        }
    }
    row_offsets[n * n] = k + 1;
    return k;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 64;
    const int steps = argc > 2 ? atoi(argv[2]) : 10;
    if (n < 2 || n > 10000 || steps < 1) {
        fprintf(stderr, "n must be from 2 to 10000, steps at least 1\n");
        return EXIT_FAILURE;
    }
    const int rows = n * n;
    const double dt = 0.005, h2 = 1.0 / ((n + 1.0) * (n + 1.0));
    int32_t *row_offsets = allocate((size_t)rows + 1, sizeof *row_offsets);
    int32_t *columns = allocate(5 * (size_t)rows, sizeof *columns);
    double *values = allocate(5 * (size_t)rows, sizeof *values);
    double *b = allocate((size_t)rows, sizeof *b);
    double *u = allocate((size_t)rows, sizeof *u);
    const int nonzeros = assemble(n, dt, 0.0, row_offsets, columns, values);
    for (int i = 0; i < rows; ++i) u[i] = 1.0;

    terrace_context *context = NULL;
    CHECK(terrace_context_create("host", &context));
    /* Copied, so that the arrays may be written while the matrix exists. */
    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_csr(context, rows, rows, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64,
                                    values, 1, TERRACE_COPY | TERRACE_SORTED, &matrix));
    terrace_solver *solver = NULL;
    CHECK(terrace_solver_create(context, NULL, &solver));
    CHECK(terrace_solver_setup(solver, matrix));

    int64_t first = 0, most = 0;
    for (int step = 1; step <= steps; ++step) {
        assemble(n, dt, 0.3 * step, row_offsets, columns, values);
        CHECK(terrace_matrix_update_values(context, matrix, TERRACE_F64, values, nonzeros));
        CHECK(terrace_solver_update(solver));

        for (int i = 0; i < rows; ++i) b[i] = h2 / dt * u[i];
        /* The old temperature is the first guess of the new one. */
        terrace_status status = terrace_solver_solve(solver, TERRACE_F64, 1, b, u, TERRACE_GIVEN_GUESS);
        CHECK(status);
        if (status != TERRACE_SUCCESS) {
            fprintf(stderr, "step %d did not converge\n", step);
            return EXIT_FAILURE;
        }

        terrace_report *report = NULL;
        int64_t iterations = 0;
        double update_seconds = 0.0;
        CHECK(terrace_solver_report(solver, &report));
        CHECK(terrace_report_get_int(report, "iterations", 0, &iterations));
        CHECK(terrace_report_get_real(report, "setup_seconds", 0, &update_seconds));
        CHECK(terrace_report_destroy(report));
        double heat = 0.0;
        for (int i = 0; i < rows; ++i) heat += h2 * u[i];
        printf("step %2d: %2d iterations, heat %.6f, update %.4f s\n", step, (int)iterations, heat, update_seconds);
        if (step == 1) first = iterations;
        if (iterations > most) most = iterations;
    }
    printf("iterations: %d in the first step, at most %d\n", (int)first, (int)most);

    CHECK(terrace_solver_destroy(solver));
    CHECK(terrace_matrix_destroy(matrix));
    CHECK(terrace_context_destroy(context));
    free(u);
    free(b);
    free(values);
    free(columns);
    free(row_offsets);
    return EXIT_SUCCESS;
}
