/* Solves a diffusion problem on a structured grid, given as a stencil: one array of values for each neighbour, and no
 * index. Multigrid works on stencils as well, in 16 bits where that is asked for.
 *
 *   stencil [n [precision]]      n is 64 unless given, and the precision of the hierarchy "dp"; try "(sp,hp)"
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

/* The cell itself and its neighbours along x, y and z. */
static const int32_t offsets[7][3] = {{0, 0, 0},  {-1, 0, 0}, {1, 0, 0}, {0, -1, 0},
                                      {0, 1, 0}, {0, 0, -1}, {0, 0, 1}};

/* A coefficient that differs by three orders of magnitude between two halves of the grid. */
static double coefficient(int64_t n, int64_t x) { return 2 * x < n ? 1.0 : 1e3; }

/* Finite volumes, zero on the boundary. values[k * cells + cell] is the entry of offset k; it is zero where the neighbour
 * would lie outside of the grid. */
static void assemble(int64_t n, double *values) {
    int64_t cells = n * n * n, cell = 0;
    for (int64_t z = 0; z < n; ++z) {
        for (int64_t y = 0; y < n; ++y) {
            for (int64_t x = 0; x < n; ++x, ++cell) {
                double own = coefficient(n, x), sum = 0.0;
                for (int k = 1; k < 7; ++k) {
                    int64_t i = x + offsets[k][0], j = y + offsets[k][1], l = z + offsets[k][2];
                    int inside = i >= 0 && i < n && j >= 0 && j < n && l >= 0 && l < n;
                    double other = inside ? coefficient(n, i) : own;
                    double face = inside ? 2.0 * own * other / (own + other) : 2.0 * own;
                    values[k * cells + cell] = inside ? -face : 0.0;
                    sum += face;
                }
                values[cell] = sum;
            }
        }
    }
}

int main(int argc, char **argv) {
    int64_t n = argc > 1 ? atoi(argv[1]) : 64;
    const char *precision = argc > 2 ? argv[2] : "dp";
    if (n < 1 || n > 500) {
        fprintf(stderr, "n must be from 1 to 500\n");
        return EXIT_FAILURE;
    }
    size_t cells = (size_t)(n * n * n);
    double *values = malloc(7 * cells * sizeof *values);
    double *b = malloc(cells * sizeof *b), *x = malloc(cells * sizeof *x);
    if (values == NULL || b == NULL || x == NULL) {
        fprintf(stderr, "there is not enough memory\n");
        return EXIT_FAILURE;
    }
    assemble(n, values);
    for (size_t i = 0; i < cells; ++i) {
        b[i] = 1.0;
    }

    terrace_context *context = NULL;
    CHECK(terrace_context_create("host", &context));

    /* Borrowed: products read the values where they are. */
    int64_t dims[3] = {n, n, n};
    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_stencil(context, dims, NULL, 1, 7, &offsets[0][0], TERRACE_F64, values,
                                        TERRACE_BY_OFFSET, TERRACE_BORROW, &matrix));

    terrace_config *config = NULL;
    CHECK(terrace_config_create(context, &config));
    CHECK(terrace_config_set_str(config, "precision", precision));

    terrace_solver *solver = NULL;
    CHECK(terrace_solver_create(context, config, &solver));
    CHECK(terrace_solver_setup(solver, matrix));
    terrace_status status = terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS);
    CHECK(status);

    terrace_report *report = NULL;
    CHECK(terrace_solver_report(solver, &report));
    int64_t iterations = 0;
    double residual = 0.0;
    char format[64] = "";
    CHECK(terrace_report_get_int(report, "iterations", 0, &iterations));
    CHECK(terrace_report_get_real(report, "true_residual", 0, &residual));
    CHECK(terrace_report_get_str(report, "format", 0, format, sizeof format, NULL));
    printf("%lld^3 cells, finest level %s: %lld iterations, residual below 1e-8: %s\n", (long long)n, format,
           (long long)iterations, residual <= 1e-8 ? "yes" : "no");

    CHECK(terrace_report_destroy(report));
    CHECK(terrace_solver_destroy(solver));
    CHECK(terrace_config_destroy(config));
    CHECK(terrace_matrix_destroy(matrix));
    CHECK(terrace_context_destroy(context));
    free(x);
    free(b);
    free(values);
    return status == TERRACE_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
