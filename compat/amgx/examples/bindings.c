/*
 * What bindings of AmgX for Python and Julia call, one object after the other:
 *
 *     bindings MODE CONFIGURATION
 */
#include "common.h"

int main(int argc, char **argv) {
    const int rows[] = {0, 2, 5, 7}, columns[] = {0, 1, 0, 1, 2, 1, 2};
    const double values[] = {2, -1, -1, 2, -1, -1, 2}, right[] = {1, 0, 1};
    int back_rows[4], back_columns[7], n, bx, by, nnz;
    double solution[3], back[7];
    void *diagonal;
    AMGX_Mode mode;
    AMGX_config_handle config;
    AMGX_resources_handle resources;
    AMGX_matrix_handle a;
    AMGX_vector_handle b, x;
    AMGX_solver_handle solver;
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODE CONFIGURATION\n", argv[0]);
        return 1;
    }
    mode = mode_of(argv[1]);
    AMGX_SAFE_CALL(AMGX_initialize());
    AMGX_SAFE_CALL(AMGX_initialize_plugins());
    AMGX_SAFE_CALL(AMGX_install_signal_handler());
    AMGX_SAFE_CALL(AMGX_register_print_callback(print_callback));
    AMGX_SAFE_CALL(AMGX_config_create(&config, argv[2]));
    AMGX_SAFE_CALL(AMGX_resources_create_simple(&resources, config));
    AMGX_SAFE_CALL(AMGX_matrix_create(&a, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&b, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&x, resources, mode));
    AMGX_SAFE_CALL(AMGX_solver_create(&solver, resources, mode, config));
    AMGX_SAFE_CALL(AMGX_pin_memory((void *)values, sizeof values));
    AMGX_SAFE_CALL(AMGX_matrix_upload_all(a, 3, 7, 1, 1, rows, columns, values, NULL));
    AMGX_SAFE_CALL(AMGX_unpin_memory((void *)values));
    AMGX_SAFE_CALL(AMGX_vector_upload(b, 3, 1, right));
    AMGX_SAFE_CALL(AMGX_vector_set_zero(x, 3, 1));
    AMGX_SAFE_CALL(AMGX_matrix_get_size(a, &n, &bx, &by));
    AMGX_SAFE_CALL(AMGX_matrix_get_nnz(a, &nnz));
    AMGX_SAFE_CALL(AMGX_matrix_download_all(a, back_rows, back_columns, back, &diagonal));
    AMGX_SAFE_CALL(AMGX_solver_setup(solver, a));
    AMGX_SAFE_CALL(AMGX_solver_solve_with_0_initial_guess(solver, b, x));
    print_end(solver);
    AMGX_SAFE_CALL(AMGX_vector_download(x, solution));
    printf("%g %g %g\n", solution[0], solution[1], solution[2]); /* 1 1 1 */
    AMGX_SAFE_CALL(AMGX_solver_destroy(solver));
    AMGX_SAFE_CALL(AMGX_vector_destroy(x));
    AMGX_SAFE_CALL(AMGX_vector_destroy(b));
    AMGX_SAFE_CALL(AMGX_matrix_destroy(a));
    AMGX_SAFE_CALL(AMGX_resources_destroy(resources));
    AMGX_SAFE_CALL(AMGX_config_destroy(config));
    AMGX_SAFE_CALL(AMGX_reset_signal_handler());
    AMGX_SAFE_CALL(AMGX_finalize_plugins());
    AMGX_SAFE_CALL(AMGX_finalize());
    return 0;
}
