/* Solves the 7-point Poisson problem on an n x n x n grid with conjugate gradients, preconditioned by AMG.
 *
 *   poisson [n]      n is 64 unless given
 */
#include "terrace.h"

#include <stdio.h>
#include <stdlib.h>

/* Stops with the library's sentence when a call fails. Positive statuses are conditions, not errors. */
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

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "%zu bytes could not be allocated\n", bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* -Laplace with zero boundary values and mesh width 1, rows in lexicographic order. Returns the number of nonzeros. */
static int32_t assemble(int32_t n, int32_t *row_offsets, int32_t *columns, double *values) {
    int32_t row = 0, k = 0;
    for (int32_t z = 0; z < n; ++z) {
        for (int32_t y = 0; y < n; ++y) {
            for (int32_t x = 0; x < n; ++x, ++row) {
                row_offsets[row] = k;
                if (z > 0) { columns[k] = row - n * n; values[k++] = -1.0; }
                if (y > 0) { columns[k] = row - n; values[k++] = -1.0; }
                if (x > 0) { columns[k] = row - 1; values[k++] = -1.0; }
                columns[k] = row; values[k++] = 6.0;
                if (x < n - 1) { columns[k] = row + 1; values[k++] = -1.0; }
                if (y < n - 1) { columns[k] = row + n; values[k++] = -1.0; }
                if (z < n - 1) { columns[k] = row + n * n; values[k++] = -1.0; }
            }
        }
    }
    row_offsets[row] = k;
    return k;
}

static void print_report(terrace_context *context, const terrace_solver *solver) {
    terrace_report *report = NULL;
    CHECK(terrace_solver_report(solver, &report));

    size_t needed = 0;
    CHECK(terrace_report_to_text(report, NULL, 0, &needed));
    char *text = allocate(needed);
    CHECK(terrace_report_to_text(report, text, needed, NULL));
    fputs(text, stdout);
    free(text);

    int64_t length = 0;
    CHECK(terrace_report_get_history(report, 0, NULL, 0, &length));
    double *history = allocate((size_t)length * sizeof *history);
    CHECK(terrace_report_get_history(report, 0, history, length, NULL));
    printf("\niteration  relative residual\n");
    for (int64_t i = 0; i < length; ++i) {
        printf("%9lld  %.3e\n", (long long)i, history[i]);
    }
    free(history);

    double setup_seconds = 0.0, solve_seconds = 0.0;
    CHECK(terrace_report_get_real(report, "setup_seconds", 0, &setup_seconds));
    CHECK(terrace_report_get_real(report, "solve_seconds", 0, &solve_seconds));
    printf("\nset-up and solve took %.3f s\n", setup_seconds + solve_seconds);
    CHECK(terrace_report_destroy(report));
}

int main(int argc, char **argv) {
    int32_t n = argc > 1 ? atoi(argv[1]) : 64;
    if (n < 1 || n > 600) {
        fprintf(stderr, "n must be from 1 to 600\n");
        return EXIT_FAILURE;
    }
    int32_t rows = n * n * n;
    int32_t *row_offsets = allocate(((size_t)rows + 1) * sizeof *row_offsets);
    int32_t *columns = allocate(7 * (size_t)rows * sizeof *columns);
    double *values = allocate(7 * (size_t)rows * sizeof *values);
    int32_t nonzeros = assemble(n, row_offsets, columns, values);
    double *b = allocate((size_t)rows * sizeof *b);
    double *x = allocate((size_t)rows * sizeof *x);
    for (int32_t i = 0; i < rows; ++i) {
        b[i] = 1.0;
    }
    printf("Poisson, %d^3 = %d unknowns, %d nonzeros\n\n", (int)n, (int)rows, (int)nonzeros);

    terrace_context *context = NULL;
    CHECK(terrace_context_create("host", &context));

    /* Borrowed: the library reads the three arrays where they are, so they live until solver and matrix are destroyed. */
    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_csr(context, rows, rows, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64,
                                    values, 0, TERRACE_BORROW | TERRACE_SORTED, &matrix));

    terrace_config *config = NULL;
    CHECK(terrace_config_create(context, &config));
    CHECK(terrace_config_set_real(config, "solver.tolerance", 1e-8));
    CHECK(terrace_config_set_int(config, "solver.max_iterations", 200));

    terrace_solver *solver = NULL;
    CHECK(terrace_solver_create(context, config, &solver));
    CHECK(terrace_solver_setup(solver, matrix));
    terrace_status status = terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS);
    CHECK(status);
    print_report(context, solver);

    CHECK(terrace_solver_destroy(solver));
    CHECK(terrace_config_destroy(config));
    CHECK(terrace_matrix_destroy(matrix));
    CHECK(terrace_context_destroy(context));
    free(x);
    free(b);
    free(values);
    free(columns);
    free(row_offsets);
    return status == TERRACE_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
