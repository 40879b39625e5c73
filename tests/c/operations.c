/* Products, transposes and products with vectors, on the host and on a simulated GPU, and the arrays of what came out. */
#include "check.h"

static void operate(const char *device) {
    problem p = problem_create(12);
    const size_t n = (size_t)p.rows;
    terrace_context *context = NULL;
    terrace_matrix *a, *square = NULL, *turned = NULL;
    int64_t rows = 0, cols = 0, nonzeros = 0;
    int32_t block_size = 0;
    double *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y), *z = malloc(n * sizeof *z);
    int64_t *offsets;
    int32_t *columns;
    double *values;
    size_t i, k;

    CHECK(x && y && z);
    CHECK(terrace_context_create(device, &context) == TERRACE_SUCCESS);
    a = problem_matrix(context, &p, TERRACE_COPY);
    CHECK(terrace_matrix_multiply(context, a, a, &square) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_transpose(context, square, &turned) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_get_size(context, turned, &rows, &cols, &nonzeros, &block_size) == TERRACE_SUCCESS);
    CHECK(rows == p.rows && cols == p.rows && block_size == 1);

    /* A (A x) and the square times x; the matrix is symmetric. */
    for (i = 0; i < n; ++i) x[i] = 1.0 + (double)(i % 7);
    CHECK(terrace_matrix_apply(context, a, TERRACE_F64, 1.0, x, 0.0, y) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_apply(context, a, TERRACE_F64, 1.0, y, 0.0, z) == TERRACE_SUCCESS);
    for (i = 0; i < n; ++i) y[i] = 1.0;
    CHECK(terrace_matrix_apply(context, turned, TERRACE_F64, -2.0, x, 3.0, y) == TERRACE_SUCCESS);
    for (i = 0; i < n; ++i) CHECK(y[i] == 3.0 - 2.0 * z[i]);

    offsets = malloc((n + 1) * sizeof *offsets);
    columns = malloc((size_t)nonzeros * sizeof *columns);
    values = malloc((size_t)nonzeros * sizeof *values);
    CHECK(offsets && columns && values);
    CHECK(terrace_matrix_get_arrays(context, turned, TERRACE_I64, offsets, TERRACE_I32, columns, TERRACE_F64, values, 0) ==
          TERRACE_SUCCESS);
    CHECK(offsets[0] == 0 && offsets[n] == nonzeros);
    for (i = 0; i < n; ++i) {
        double sum = 0.0;
        for (k = (size_t)offsets[i]; k < (size_t)offsets[i + 1]; ++k) {
            CHECK(k == (size_t)offsets[i] || columns[k] > columns[k - 1]);
            sum += values[k] * x[columns[k]];
        }
        CHECK(sum == z[i]);
    }
    CHECK(terrace_matrix_get_arrays(context, turned, TERRACE_I64, offsets, TERRACE_I32, NULL, TERRACE_F64, NULL, 1) ==
          TERRACE_SUCCESS);
    CHECK(offsets[0] == 1 && offsets[n] == nonzeros + 1);
    CHECK(terrace_matrix_multiply(context, a, NULL, &square) == TERRACE_ERROR_NULL_ARGUMENT && error_has(context, "right is null"));

    CHECK(terrace_matrix_destroy(a) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_destroy(square) == TERRACE_SUCCESS);
    CHECK(terrace_context_destroy(context) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_destroy(turned) == TERRACE_SUCCESS);
    problem_destroy(&p);
    free(x);
    free(y);
    free(z);
    free(offsets);
    free(columns);
    free(values);
}

int main(void) {
    operate("host:2");
    operate("sim");
    return 0;
}
