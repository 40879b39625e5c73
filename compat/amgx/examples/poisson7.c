/*
 * Makes the 7-point Laplacian of a cube and solves it, then with new values again:
 *
 *     poisson7 MODE CONFIGURATION POINTS
 *
 * The calls are those of AmgX's example for several ranks, in the same order, on one.
 */
#define _POSIX_C_SOURCE 199309L
#include "common.h"
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    int device = 0, rings, points, n, nnz, block_dimx, block_dimy, k, *rows, *columns;
    AMGX_Mode mode;
    AMGX_config_handle config;
    AMGX_resources_handle resources;
    AMGX_matrix_handle a;
    AMGX_vector_handle b, x;
    AMGX_solver_handle solver;
    double *values, begin, between;
    void *diagonal;
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODE CONFIGURATION POINTS\n", argv[0]);
        return 1;
    }
    mode = mode_of(argv[1]);
    points = atoi(argv[3]);

    AMGX_SAFE_CALL(AMGX_initialize());
    AMGX_SAFE_CALL(AMGX_register_print_callback(print_callback));
    AMGX_SAFE_CALL(AMGX_install_signal_handler());
    AMGX_SAFE_CALL(AMGX_config_create(&config, argv[2]));
    AMGX_SAFE_CALL(AMGX_resources_create(&resources, config, NULL, 1, &device));
    AMGX_SAFE_CALL(AMGX_matrix_create(&a, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&b, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&x, resources, mode));
    AMGX_SAFE_CALL(AMGX_solver_create(&solver, resources, mode, config));
    AMGX_SAFE_CALL(AMGX_config_get_default_number_of_rings(config, &rings));
    AMGX_SAFE_CALL(AMGX_generate_distributed_poisson_7pt(a, b, x, rings, rings, points, points, points, 1, 1, 1));
    AMGX_SAFE_CALL(AMGX_matrix_get_size(a, &n, &block_dimx, &block_dimy));
    AMGX_SAFE_CALL(AMGX_vector_bind(x, a));
    AMGX_SAFE_CALL(AMGX_vector_bind(b, a));
    AMGX_SAFE_CALL(AMGX_vector_set_zero(x, n, block_dimx));

    begin = seconds();
    AMGX_SAFE_CALL(AMGX_solver_setup(solver, a));
    between = seconds();
    AMGX_SAFE_CALL(AMGX_solver_solve(solver, b, x));
    print_end(solver);
    fprintf(stderr, "set-up %.4f s, solve %.4f s\n", between - begin, seconds() - between);

    AMGX_SAFE_CALL(AMGX_matrix_get_nnz(a, &nnz));
    rows = malloc(sizeof(int) * (size_t)(n + 1));
    columns = malloc(sizeof(int) * (size_t)nnz);
    values = malloc(sizeof(double) * (size_t)nnz);
    if (!rows || !columns || !values) return 1;
    AMGX_SAFE_CALL(AMGX_matrix_download_all(a, rows, columns, values, &diagonal));
    for (k = 0; k < nnz; ++k) {
        if (AMGX_GET_MODE_VAL(AMGX_MatPrecision, mode) == AMGX_matFloat) ((float *)values)[k] *= 4;
        else values[k] *= 4;
    }
    AMGX_SAFE_CALL(AMGX_matrix_replace_coefficients(a, n, nnz, values, NULL));
    AMGX_SAFE_CALL(AMGX_vector_set_zero(x, n, block_dimx));
    begin = seconds();
    AMGX_SAFE_CALL(AMGX_solver_resetup(solver, a));
    between = seconds();
    AMGX_SAFE_CALL(AMGX_solver_solve(solver, b, x));
    print_end(solver);
    fprintf(stderr, "resetup %.4f s, solve %.4f s\n", between - begin, seconds() - between);
    free(rows);
    free(columns);
    free(values);

    AMGX_SAFE_CALL(AMGX_solver_destroy(solver));
    AMGX_SAFE_CALL(AMGX_vector_destroy(x));
    AMGX_SAFE_CALL(AMGX_vector_destroy(b));
    AMGX_SAFE_CALL(AMGX_matrix_destroy(a));
    AMGX_SAFE_CALL(AMGX_resources_destroy(resources));
    AMGX_SAFE_CALL(AMGX_config_destroy(config));
    AMGX_SAFE_CALL(AMGX_finalize());
    return 0;
}
