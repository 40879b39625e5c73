/*
 * Implicit steps of the heat equation on a cube: the pattern stays and the values change. The matrix is uploaded as one of several ranks would do it:
 *
 *     time_steps MODE CONFIGURATION POINTS
 *
 * The calls are those of the wrappers of AmgX for PETSc, OpenFOAM and MFEM.
 */
#include "common.h"
#include <stdint.h>

static int points, n, nnz;
static int *rows;
static int64_t *columns;
static double *values;

/* (1 + step) on the diagonal in addition to the Laplacian. */
static void assemble(double step) {
    int i, j, k, at = 0, row = 0;
    for (k = 0; k < points; ++k) {
        for (j = 0; j < points; ++j) {
            for (i = 0; i < points; ++i, ++row) {
                const int place[3] = {i, j, k}, stride[3] = {1, points, points * points};
                int axis;
                rows[row] = at;
                for (axis = 2; axis >= 0; --axis) {
                    if (place[axis] > 0) columns[at] = row - stride[axis], values[at++] = -1;
                }
                columns[at] = row, values[at++] = 7 + step;
                for (axis = 0; axis < 3; ++axis) {
                    if (place[axis] < points - 1) columns[at] = row + stride[axis], values[at++] = -1;
                }
            }
        }
    }
    rows[n] = nnz = at;
}

int main(int argc, char **argv) {
    AMGX_Mode mode;
    AMGX_config_handle config;
    AMGX_resources_handle resources;
    AMGX_distribution_handle distribution;
    AMGX_matrix_handle a;
    AMGX_vector_handle b, x;
    AMGX_solver_handle solver;
    int64_t range[2];
    double *u;
    int device = 0, rings, step, i, *narrow;
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODE CONFIGURATION POINTS\n", argv[0]);
        return 1;
    }
    mode = mode_of(argv[1]);
    points = atoi(argv[3]);
    n = points * points * points;
    rows = malloc(sizeof(int) * (size_t)(n + 1));
    columns = malloc(sizeof(int64_t) * (size_t)(7 * n));
    narrow = malloc(sizeof(int) * (size_t)(7 * n));
    values = malloc(sizeof(double) * (size_t)(7 * n));
    u = malloc(sizeof(double) * (size_t)n);
    if (!rows || !columns || !narrow || !values || !u) return 1;

    AMGX_SAFE_CALL(AMGX_initialize());
    AMGX_SAFE_CALL(AMGX_config_create(&config, argv[2]));
    AMGX_SAFE_CALL(AMGX_config_add_parameters(&config, "exception_handling=1"));
    AMGX_SAFE_CALL(AMGX_resources_create(&resources, config, NULL, 1, &device));
    AMGX_SAFE_CALL(AMGX_matrix_create(&a, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&x, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&b, resources, mode));
    AMGX_SAFE_CALL(AMGX_solver_create(&solver, resources, mode, config));
    AMGX_SAFE_CALL(AMGX_config_get_default_number_of_rings(config, &rings));

    assemble(0);
    range[0] = 0;
    range[1] = n;
    AMGX_SAFE_CALL(AMGX_distribution_create(&distribution, config));
    AMGX_SAFE_CALL(AMGX_distribution_set_partition_data(distribution, AMGX_DIST_PARTITION_OFFSETS, range));
    AMGX_SAFE_CALL(AMGX_matrix_upload_distributed(a, n, n, nnz, 1, 1, rows, columns, values, NULL, distribution));
    AMGX_SAFE_CALL(AMGX_distribution_destroy(distribution));
    AMGX_SAFE_CALL(AMGX_solver_setup(solver, a));
    AMGX_SAFE_CALL(AMGX_vector_bind(x, a));
    AMGX_SAFE_CALL(AMGX_vector_bind(b, a));
    for (i = 0; i < n; ++i) u[i] = 1;
    for (step = 0; step < 3; ++step) {
        if (step > 0) {
            assemble(step);
            AMGX_SAFE_CALL(AMGX_matrix_replace_coefficients(a, n, nnz, values, NULL));
            AMGX_SAFE_CALL(AMGX_solver_resetup(solver, a));
        }
        AMGX_SAFE_CALL(AMGX_vector_upload(b, n, 1, u));
        AMGX_SAFE_CALL(AMGX_vector_upload(x, n, 1, u));
        AMGX_SAFE_CALL(AMGX_solver_solve(solver, b, x));
        print_end(solver);
        AMGX_SAFE_CALL(AMGX_vector_download(x, u));
    }
    /* The same with 32-bit columns and a new tolerance. */
    for (i = 0; i < nnz; ++i) narrow[i] = (int)columns[i];
    AMGX_SAFE_CALL(AMGX_matrix_upload_all_global_32(a, n, n, nnz, 1, 1, rows, narrow, values, NULL, rings, rings, NULL));
    AMGX_SAFE_CALL(AMGX_config_add_parameters(&config, "config_version=2, main:tolerance=1e-10"));
    AMGX_SAFE_CALL(AMGX_solver_setup(solver, a));
    AMGX_SAFE_CALL(AMGX_solver_solve_with_0_initial_guess(solver, b, x));
    print_end(solver);

    AMGX_SAFE_CALL(AMGX_solver_destroy(solver));
    AMGX_SAFE_CALL(AMGX_matrix_destroy(a));
    AMGX_SAFE_CALL(AMGX_vector_destroy(b));
    AMGX_SAFE_CALL(AMGX_vector_destroy(x));
    AMGX_SAFE_CALL(AMGX_resources_destroy(resources));
    AMGX_SAFE_CALL(AMGX_config_destroy(config));
    AMGX_SAFE_CALL(AMGX_finalize());
    free(rows);
    free(columns);
    free(narrow);
    free(values);
    free(u);
    return 0;
}
