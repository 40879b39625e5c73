/*
 * Reads a system from a file, looks at it, solves it, and writes it with its solution:
 *
 *     read_and_solve MODE CONFIGURATION FILE WRITTEN
 *
 * The calls are those of AmgX's example for one GPU, in the same order.
 */
#include "common.h"

int main(int argc, char **argv) {
    int major, minor, n, block_dimx, block_dimy, size, block, dominant, structure, symmetric, iterations, i;
    char *version, *date, *time;
    AMGX_Mode mode;
    AMGX_config_handle config;
    AMGX_resources_handle resources;
    AMGX_matrix_handle a;
    AMGX_vector_handle b, x;
    AMGX_solver_handle solver;
    double norm[8], *solution, residual;
    float *narrow = (float *)norm;
    int is_float;
    if (argc != 5) {
        fprintf(stderr, "usage: %s MODE CONFIGURATION FILE WRITTEN\n", argv[0]);
        return 1;
    }
    mode = mode_of(argv[1]);
    is_float = AMGX_GET_MODE_VAL(AMGX_VecPrecision, mode) == AMGX_vecFloat;

    AMGX_SAFE_CALL(AMGX_initialize());
    AMGX_SAFE_CALL(AMGX_register_print_callback(print_callback));
    AMGX_SAFE_CALL(AMGX_install_signal_handler());
    AMGX_SAFE_CALL(AMGX_get_api_version(&major, &minor));
    AMGX_SAFE_CALL(AMGX_get_build_info_strings(&version, &date, &time));
    printf("API %d.%d, %s\n", major, minor, version);

    AMGX_SAFE_CALL(AMGX_config_create(&config, argv[2]));
    AMGX_SAFE_CALL(AMGX_resources_create_simple(&resources, config));
    AMGX_SAFE_CALL(AMGX_matrix_create(&a, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&x, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&b, resources, mode));
    AMGX_SAFE_CALL(AMGX_solver_create(&solver, resources, mode, config));

    AMGX_SAFE_CALL(AMGX_read_system(a, b, x, argv[3]));
    AMGX_SAFE_CALL(AMGX_matrix_get_size(a, &n, &block_dimx, &block_dimy));
    AMGX_SAFE_CALL(AMGX_vector_get_size(x, &size, &block));
    if (size == 0) AMGX_SAFE_CALL(AMGX_vector_set_zero(x, n, block_dimx));
    AMGX_SAFE_CALL(AMGX_matrix_check_diag_dominant(a, &dominant));
    AMGX_SAFE_CALL(AMGX_matrix_check_symmetry(a, &structure, &symmetric));
    printf("%d rows, dominant %d, symmetric %d %d\n", n, dominant, structure, symmetric);
    AMGX_SAFE_CALL(AMGX_solver_calculate_residual_norm(solver, a, b, x, norm));

    AMGX_SAFE_CALL(AMGX_solver_setup(solver, a));
    AMGX_SAFE_CALL(AMGX_solver_solve(solver, b, x));
    print_end(solver);
    AMGX_SAFE_CALL(AMGX_solver_get_iterations_number(solver, &iterations));
    for (i = 0; i <= iterations; ++i) {
        AMGX_SAFE_CALL(AMGX_solver_get_iteration_residual(solver, i, 0, &residual));
        printf("%d %.6e\n", i, residual);
    }
    AMGX_SAFE_CALL(AMGX_solver_calculate_residual_norm(solver, a, b, x, norm));
    printf("final norm %.6e\n", is_float ? narrow[0] : norm[0]);
    solution = malloc(sizeof(double) * (size_t)(n * block_dimx));
    if (solution == NULL) return 1;
    AMGX_SAFE_CALL(AMGX_vector_download(x, solution));
    AMGX_SAFE_CALL(AMGX_write_system(a, b, x, argv[4]));
    free(solution);

    AMGX_SAFE_CALL(AMGX_solver_destroy(solver));
    AMGX_SAFE_CALL(AMGX_vector_destroy(x));
    AMGX_SAFE_CALL(AMGX_vector_destroy(b));
    AMGX_SAFE_CALL(AMGX_matrix_destroy(a));
    AMGX_SAFE_CALL(AMGX_resources_destroy(resources));
    AMGX_SAFE_CALL(AMGX_config_destroy(config));
    AMGX_SAFE_CALL(AMGX_finalize());
    return 0;
}
