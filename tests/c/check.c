#include "check.h"

void check_failed(const char *file, int line, const char *condition) {
    const char *path = getenv("CHECK_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s:%d: %s\n", file, line, condition);
        fclose(log);
    }
    exit(1);
}

int error_has(const terrace_context *context, const char *part) {
    char text[1024];
    CHECK(terrace_last_error(context, text, sizeof text, NULL) == TERRACE_SUCCESS);
    return strstr(text, part) != NULL;
}

static void problem_add(problem *p, int32_t *entry, int64_t column, double value) {
    p->columns[*entry] = (int32_t)column;
    p->values[*entry] = value;
    *entry += 1;
}

problem problem_create(int64_t n) {
    problem p;
    int64_t i, j;
    int32_t entry = 0;
    p.rows = n * n;
    p.offsets = malloc((size_t)(p.rows + 1) * sizeof *p.offsets);
    p.columns = malloc((size_t)(5 * p.rows) * sizeof *p.columns);
    p.values = malloc((size_t)(5 * p.rows) * sizeof *p.values);
    CHECK(p.offsets && p.columns && p.values);
    p.offsets[0] = 0;
    for (i = 0; i < n; ++i) {
        for (j = 0; j < n; ++j) {
            int64_t row = i * n + j;
            if (i > 0) problem_add(&p, &entry, row - n, -1.0);
            if (j > 0) problem_add(&p, &entry, row - 1, -1.0);
            problem_add(&p, &entry, row, 4.0);
            if (j < n - 1) problem_add(&p, &entry, row + 1, -1.0);
            if (i < n - 1) problem_add(&p, &entry, row + n, -1.0);
            p.offsets[row + 1] = entry;
        }
    }
    return p;
}

void problem_destroy(problem *p) {
    free(p->offsets);
    free(p->columns);
    free(p->values);
}

terrace_matrix *problem_matrix(terrace_context *context, const problem *p, terrace_matrix_flags flags) {
    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_csr(context, p->rows, p->rows, TERRACE_I32, p->offsets, TERRACE_I32, p->columns,
                                    TERRACE_F64, p->values, 0, flags | TERRACE_SORTED, &matrix) == TERRACE_SUCCESS);
    return matrix;
}

static double problem_solution(int64_t i) { return 1.0 + (double)(i % 7); }

double *problem_right_hand_side(const problem *p) {
    int64_t i;
    int32_t k;
    double *b = malloc((size_t)p->rows * sizeof *b);
    CHECK(b);
    for (i = 0; i < p->rows; ++i) {
        b[i] = 0.0;
        for (k = p->offsets[i]; k < p->offsets[i + 1]; ++k) {
            b[i] += p->values[k] * problem_solution(p->columns[k]);
        }
    }
    return b;
}

int problem_is_solved(const problem *p, const double *x, double tolerance) {
    int64_t i;
    for (i = 0; i < p->rows; ++i) {
        double error = x[i] - problem_solution(i);
        if (!(error < tolerance && error > -tolerance)) return 0;
    }
    return 1;
}
