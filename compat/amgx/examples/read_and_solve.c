/*
 * Reads a system from a file, looks at it, solves it, and writes it with its solution:
 *
 *     read_and_solve MODE CONFIGURATION FILE WRITTEN [MORE]
 *
 * CONFIGURATION is a text or, where it ends with ".json", a file; MORE is a text that is added to it. The calls are those of AmgX's example for
 * one GPU, in the same order.
 */
#include "common.h"

static AMGX_config_handle read_configuration(const char *given, const char *more) {
    AMGX_config_handle config;
    const char *ending = strrchr(given, '.');
    if (ending == NULL || strcmp(ending, ".json") != 0)
        AMGX_SAFE_CALL(AMGX_config_create(&config, given));
    else if (more == NULL)
        AMGX_SAFE_CALL(AMGX_config_create_from_file(&config, given));
    else
        AMGX_SAFE_CALL(AMGX_config_create_from_file_and_string(&config, given, more));
    AMGX_SAFE_CALL(AMGX_config_add_parameters(&config, "exception_handling=0"));
    return config;
}

/* Places and colours of the rows. */
static void attach(AMGX_matrix_handle a, int n) {
    double *places = malloc(sizeof(double) * (size_t)n);
    int *colours = malloc(sizeof(int) * (size_t)n), i;
    if (places == NULL || colours == NULL) exit(1);
    for (i = 0; i < n; ++i) {
        places[i] = i;
        colours[i] = i % 2;
    }
    AMGX_SAFE_CALL(AMGX_matrix_attach_geometry(a, places, places, places, n));
    AMGX_SAFE_CALL(AMGX_matrix_attach_coloring(a, colours, n, 2));
    free(places);
    free(colours);
}

/* A right-hand side of ones, where the file has none. */
static void make_right_hand_side(AMGX_vector_handle b, int n, int block, int is_float) {
    double *ones = malloc(sizeof(double) * (size_t)(n * block));
    int i;
    if (ones == NULL) exit(1);
    for (i = 0; i < n * block; ++i)
        is_float ? (void)(((float *)ones)[i] = 1) : (void)(ones[i] = 1);
    AMGX_SAFE_CALL(AMGX_vector_upload(b, n, block, ones));
    free(ones);
}

int main(int argc, char **argv) {
    int major, minor, n, block_dimx, block_dimy, size, block, dominant, structure, symmetric, iterations, i;
    char *version, *date, *time, sentence[100];
    AMGX_Mode mode;
    AMGX_config_handle config;
    AMGX_resources_handle resources;
    AMGX_matrix_handle a;
    AMGX_vector_handle b, x;
    AMGX_solver_handle solver;
    double norm[8], *solution, residual;
    float *narrow = (float *)norm;
    int is_float;
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: %s MODE CONFIGURATION FILE WRITTEN [MORE]\n", argv[0]);
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

    AMGX_SAFE_CALL(AMGX_get_error_string(AMGX_RC_OK, sentence, (int)sizeof sentence));
    config = read_configuration(argv[2], argc == 6 ? argv[5] : NULL);
    AMGX_SAFE_CALL(AMGX_resources_create_simple(&resources, config));
    AMGX_SAFE_CALL(AMGX_matrix_create(&a, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&x, resources, mode));
    AMGX_SAFE_CALL(AMGX_vector_create(&b, resources, mode));
    AMGX_SAFE_CALL(AMGX_solver_create(&solver, resources, mode, config));

    AMGX_SAFE_CALL(AMGX_read_system(a, b, x, argv[3]));
    AMGX_SAFE_CALL(AMGX_matrix_get_size(a, &n, &block_dimx, &block_dimy));
    attach(a, n);
    AMGX_SAFE_CALL(AMGX_vector_get_size(b, &size, &block));
    if (size == 0) make_right_hand_side(b, n, block_dimx, is_float);
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
