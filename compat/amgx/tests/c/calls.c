/* Every function of the API, well called and badly called, in the mode of the first argument; the second is a folder for files. */
#include "check.h"
#include <amgx_eig_c.h>
#include <stdint.h>

#define BAD AMGX_RC_BAD_PARAMETERS

static AMGX_Mode mode;
static char file_name[1024];
static const char *folder;

static const char *path(const char *name) {
    snprintf(file_name, sizeof file_name, "%s/%s", folder, name);
    return file_name;
}

/* Numbers in the formats of the mode. */
static int is_float_vector(void) { return AMGX_GET_MODE_VAL(AMGX_VecPrecision, mode) == AMGX_vecFloat; }
static int is_float_matrix(void) { return AMGX_GET_MODE_VAL(AMGX_MatPrecision, mode) == AMGX_matFloat; }

typedef union {
    double wide[64];
    float narrow[64];
} numbers;

static const void *put(numbers *to, const double *from, int n, int narrow) {
    int i;
    for (i = 0; i < n; ++i) {
        if (narrow) to->narrow[i] = (float)from[i];
        else to->wide[i] = from[i];
    }
    return to;
}

static double get(const numbers *from, int i, int narrow) { return narrow ? from->narrow[i] : from->wide[i]; }

static int printed;
static void keep(const char *text, int length) {
    CHECK((int)strlen(text) == length);
    printed += length;
}

/* The matrix [4 -1 0; -1 4 -1; 0 -2 4]. */
static const int offsets[] = {0, 2, 5, 7}, columns[] = {0, 1, 0, 1, 2, 1, 2};
static const double entries[] = {4, -1, -1, 4, -1, -2, 4};

static void library(void) {
    int major = 0, minor = -1;
    char *version = NULL, *date = NULL, *time = NULL, text[8] = "";
    OK(AMGX_initialize());
    OK(AMGX_initialize());
    OK(AMGX_initialize_plugins());
    OK(AMGX_get_api_version(&major, &minor));
    CHECK(major == 2 && minor == 0);
    OK(AMGX_get_build_info_strings(&version, &date, &time));
    CHECK(strstr(version, "Terrace") != NULL && date != NULL && time != NULL);
    OK(AMGX_get_error_string(AMGX_RC_IO_ERROR, text, sizeof text));
    CHECK(strlen(text) == 7);
    FAILS(BAD, AMGX_get_error_string(AMGX_RC_IO_ERROR, NULL, 10));
    FAILS(BAD, AMGX_get_error_string(AMGX_RC_IO_ERROR, text, 0));
    CHECK(says((AMGX_RC)99, "no code"));
    OK(AMGX_pin_memory(text, sizeof text));
    OK(AMGX_unpin_memory(text));
    FAILS(BAD, AMGX_pin_memory(NULL, 1));
    OK(AMGX_install_signal_handler());
    OK(AMGX_reset_signal_handler());
    OK(AMGX_register_print_callback(keep));
    OK(AMGX_solver_register_print_callback(keep));
}

static void configurations(void) {
    AMGX_config_handle cfg = NULL, other;
    int rings = 0;
    FILE *file;
    FAILS(BAD, AMGX_config_create(NULL, ""));
    OK(AMGX_config_create(&cfg, NULL));
    OK(AMGX_config_get_default_number_of_rings(cfg, &rings));
    CHECK(rings == 2);
    OK(AMGX_config_add_parameters(&cfg, "config_version=2, algorithm=AGGREGATION"));
    OK(AMGX_config_get_default_number_of_rings(cfg, &rings));
    CHECK(rings == 1);
    FAILS(AMGX_RC_BAD_CONFIGURATION, AMGX_config_add_parameters(&cfg, "tolerence=1"));
    CHECK(says(AMGX_RC_BAD_CONFIGURATION, "the nearest is \"tolerance\""));
    FAILS(BAD, AMGX_config_add_parameters(NULL, "tolerance=1"));
    FAILS(BAD, AMGX_config_add_parameters(&cfg, NULL));
    FAILS(BAD, AMGX_config_get_default_number_of_rings(cfg, NULL));
    other = cfg;
    OK(AMGX_config_destroy(cfg));
    FAILS(BAD, AMGX_config_destroy(other));
    CHECK(says(BAD, "destroyed"));
    FAILS(BAD, AMGX_config_destroy(NULL));
    FAILS(BAD, AMGX_config_add_parameters(&other, "tolerance=1"));

    file = fopen(path("configuration.json"), "w");
    CHECK(file != NULL);
    fputs("{\"config_version\": 2, \"solver\": {\"scope\": \"main\", \"solver\": \"PCG\", \"max_iters\": 7}}", file);
    fclose(file);
    OK(AMGX_config_create_from_file(&cfg, path("configuration.json")));
    OK(AMGX_config_destroy(cfg));
    OK(AMGX_config_create_from_file_and_string(&cfg, path("configuration.json"), "main:max_iters=9"));
    OK(AMGX_config_destroy(cfg));
    FAILS(AMGX_RC_IO_ERROR, AMGX_config_create_from_file(&cfg, path("no such file")));
    FAILS(BAD, AMGX_config_create_from_file(&cfg, NULL));
    FAILS(BAD, AMGX_config_create_from_file_and_string(&cfg, path("configuration.json"), NULL));

    OK(AMGX_write_parameters_description((char *)path("keys.json"), AMGX_GET_PARAMS_DESC_JSON_TO_FILE));
    OK(AMGX_write_parameters_description((char *)path("keys.txt"), AMGX_GET_PARAMS_DESC_TEXT_TO_FILE));
    FAILS(AMGX_RC_NOT_IMPLEMENTED,
          AMGX_write_parameters_description((char *)path("keys.txt"), AMGX_GET_PARAMS_DESC_TEXT_TO_STRING));
    FAILS(AMGX_RC_IO_ERROR, AMGX_write_parameters_description((char *)path("no/folder"), AMGX_GET_PARAMS_DESC_JSON_TO_FILE));
    FAILS(BAD, AMGX_write_parameters_description(NULL, AMGX_GET_PARAMS_DESC_JSON_TO_FILE));
}

static void resources(void) {
    AMGX_config_handle cfg;
    AMGX_resources_handle rsc, second;
    AMGX_matrix_handle mtx;
    int device[] = {0, 1};
    OK(AMGX_config_create(&cfg, ""));
    OK(AMGX_resources_create(&rsc, cfg, NULL, 1, device));
    FAILS(AMGX_RC_NOT_SUPPORTED_TARGET, AMGX_resources_create(&second, cfg, NULL, 2, device));
    FAILS(BAD, AMGX_resources_create(&second, cfg, NULL, 1, NULL));
    FAILS(BAD, AMGX_resources_create(NULL, cfg, NULL, 1, device));
    FAILS(BAD, AMGX_resources_create_simple(&second, NULL));
    FAILS(BAD, AMGX_resources_create_simple(NULL, cfg));
    /* A handle of another type. */
    FAILS(BAD, AMGX_resources_create_simple(&second, (AMGX_config_handle)(void *)rsc));
    FAILS(AMGX_RC_BAD_MODE, AMGX_matrix_create(&mtx, rsc, AMGX_mode_dZZI));
    FAILS(AMGX_RC_BAD_MODE, AMGX_matrix_create(&mtx, rsc, (AMGX_Mode)12345));
    CHECK(says(AMGX_RC_BAD_MODE, "hDDI (8192)"));
    OK(AMGX_resources_destroy(rsc));
    FAILS(BAD, AMGX_resources_destroy(rsc));
    FAILS(BAD, AMGX_matrix_create(&mtx, rsc, mode));
    OK(AMGX_config_destroy(cfg));
}

static AMGX_config_handle config;
static AMGX_resources_handle rsrc;

static AMGX_matrix_handle small_matrix(void) {
    AMGX_matrix_handle mtx;
    numbers data;
    OK(AMGX_matrix_create(&mtx, rsrc, mode));
    OK(AMGX_matrix_upload_all(mtx, 3, 7, 1, 1, offsets, columns, put(&data, entries, 7, is_float_matrix()), NULL));
    return mtx;
}

static void vectors(void) {
    AMGX_vector_handle vec;
    AMGX_matrix_handle mtx = small_matrix();
    const double values[] = {1, 2, 3, 4, 5, 6};
    numbers data, back;
    int n = -1, block = -1, i;
    FAILS(BAD, AMGX_vector_create(NULL, rsrc, mode));
    FAILS(AMGX_RC_BAD_MODE, AMGX_vector_create(&vec, rsrc, AMGX_mode_hIDI));
    OK(AMGX_vector_create(&vec, rsrc, mode));
    OK(AMGX_vector_get_size(vec, &n, &block));
    CHECK(n == 0 && block == 1);
    FAILS(BAD, AMGX_vector_download(vec, &back));
    OK(AMGX_vector_bind(vec, mtx));
    FAILS(BAD, AMGX_vector_bind(vec, NULL));
    OK(AMGX_vector_upload(vec, 3, 2, put(&data, values, 6, is_float_vector())));
    OK(AMGX_vector_get_size(vec, &n, &block));
    CHECK(n == 3 && block == 2);
    OK(AMGX_vector_download(vec, &back));
    for (i = 0; i < 6; ++i) CHECK(get(&back, i, is_float_vector()) == values[i]);
    FAILS(BAD, AMGX_vector_upload(vec, 3, 2, NULL));
    FAILS(BAD, AMGX_vector_upload(vec, -3, 2, &data));
    FAILS(AMGX_RC_NOT_SUPPORTED_BLOCKSIZE, AMGX_vector_upload(vec, 1, 9, &data));
    FAILS(BAD, AMGX_vector_download(vec, NULL));
    OK(AMGX_vector_set_zero(vec, 3, 1));
    OK(AMGX_vector_download(vec, &back));
    CHECK(get(&back, 2, is_float_vector()) == 0);
    OK(AMGX_vector_set_random(vec, 4));
    OK(AMGX_vector_download(vec, &back));
    for (i = 0; i < 4; ++i) CHECK(get(&back, i, is_float_vector()) > 0 && get(&back, i, is_float_vector()) < 1);
    OK(AMGX_matrix_destroy(mtx));
    OK(AMGX_vector_destroy(vec));
    FAILS(BAD, AMGX_vector_destroy(vec));
    FAILS(BAD, AMGX_vector_upload(vec, 3, 1, &data));
}

static void matrices(void) {
    AMGX_matrix_handle mtx = small_matrix(), empty;
    AMGX_vector_handle x, y;
    const double ones[] = {1, 1, 1}, symmetric[] = {4, -1, -1, 4, -1, -1, 4};
    const int outside[] = {0, 1, 0, 1, 7, 1, 2}, unsorted[] = {1, 0, 1, 0, 2, 2, 1};
    int n, bx, by, nnz, pattern = -1, same = -1, dominant = -1, rows[4], cols[7], colours[] = {0, 1, 0}, i;
    double coordinates[3] = {0, 1, 2};
    numbers data, back;
    void *diagonal = &data;
    OK(AMGX_matrix_get_size(mtx, &n, &bx, &by));
    CHECK(n == 3 && bx == 1 && by == 1);
    OK(AMGX_matrix_get_nnz(mtx, &nnz));
    CHECK(nnz == 7);
    FAILS(BAD, AMGX_matrix_get_nnz(mtx, NULL));
    OK(AMGX_matrix_download_all(mtx, rows, cols, &back, &diagonal));
    CHECK(diagonal == NULL && rows[3] == 7 && cols[4] == 2 && get(&back, 5, is_float_matrix()) == -2);
    OK(AMGX_matrix_check_symmetry(mtx, &pattern, &same));
    CHECK(pattern == 1 && same == 0);
    OK(AMGX_matrix_check_diag_dominant(mtx, &dominant));
    CHECK(dominant == 1);
    FAILS(BAD, AMGX_matrix_check_diag_dominant(mtx, NULL));
    OK(AMGX_matrix_replace_coefficients(mtx, 3, 7, put(&data, symmetric, 7, is_float_matrix()), NULL));
    OK(AMGX_matrix_check_symmetry(mtx, &pattern, &same));
    CHECK(pattern == 1 && same == 1);
    FAILS(BAD, AMGX_matrix_replace_coefficients(mtx, 3, 6, &data, NULL));
    FAILS(BAD, AMGX_matrix_replace_coefficients(mtx, 3, 7, NULL, NULL));
    FAILS(BAD, AMGX_matrix_replace_coefficients(mtx, 3, 7, &data, &data));
    OK(AMGX_matrix_attach_geometry(mtx, coordinates, coordinates, NULL, 3));
    FAILS(BAD, AMGX_matrix_attach_geometry(mtx, coordinates, coordinates, NULL, 2));
    OK(AMGX_matrix_attach_coloring(mtx, colours, 3, 2));
    FAILS(BAD, AMGX_matrix_attach_coloring(mtx, colours, 3, 1));
    OK(AMGX_matrix_set_boundary_separation(mtx, 1));
    FAILS(BAD, AMGX_matrix_set_boundary_separation(mtx, 2));

    OK(AMGX_vector_create(&x, rsrc, mode));
    OK(AMGX_vector_create(&y, rsrc, mode));
    FAILS(BAD, AMGX_matrix_vector_multiply(mtx, x, y));
    OK(AMGX_vector_upload(x, 3, 1, put(&data, ones, 3, is_float_vector())));
    OK(AMGX_matrix_vector_multiply(mtx, x, y));
    OK(AMGX_vector_download(y, &back));
    CHECK(get(&back, 0, is_float_vector()) == 3 && get(&back, 1, is_float_vector()) == 2);
    FAILS(BAD, AMGX_matrix_vector_multiply(mtx, x, x));

    OK(AMGX_matrix_create(&empty, rsrc, mode));
    FAILS(BAD, AMGX_matrix_vector_multiply(empty, x, y));
    FAILS(BAD, AMGX_matrix_check_symmetry(empty, &pattern, &same));
    put(&data, entries, 7, is_float_matrix());
    FAILS(BAD, AMGX_matrix_upload_all(empty, 3, 6, 1, 1, offsets, columns, &data, NULL));
    CHECK(says(BAD, "row_ptrs[3] is 7, and nnz 6"));
    FAILS(BAD, AMGX_matrix_upload_all(empty, 3, 7, 1, 1, offsets, outside, &data, NULL));
    FAILS(BAD, AMGX_matrix_upload_all(empty, 3, 7, 1, 1, NULL, columns, &data, NULL));
    FAILS(BAD, AMGX_matrix_upload_all(empty, 3, 7, 1, 1, offsets, columns, NULL, NULL));
    FAILS(AMGX_RC_NOT_SUPPORTED_BLOCKSIZE, AMGX_matrix_upload_all(empty, 3, 7, 2, 1, offsets, columns, &data, NULL));
    FAILS(AMGX_RC_NOT_SUPPORTED_BLOCKSIZE, AMGX_matrix_upload_all(empty, 3, 7, 9, 9, offsets, columns, &data, NULL));
    OK(AMGX_matrix_upload_all(empty, 3, 7, 1, 1, offsets, unsorted, &data, NULL));
    OK(AMGX_matrix_download_all(empty, rows, cols, &back, &diagonal));
    for (i = 0; i < 7; ++i) CHECK(cols[i] == unsorted[i]);

    /* Other ranks. */
    FAILS(AMGX_RC_NOT_SUPPORTED_TARGET, AMGX_matrix_comm_from_maps_one_ring(mtx, 1, 1, NULL, NULL, NULL, NULL, NULL));
    OK(AMGX_matrix_comm_from_maps_one_ring(mtx, 1, 0, NULL, NULL, NULL, NULL, NULL));
    OK(AMGX_matrix_comm_from_maps(mtx, 1, 1, 0, NULL, NULL, NULL, NULL, NULL));
    FAILS(AMGX_RC_NOT_SUPPORTED_TARGET, AMGX_matrix_comm_from_maps(mtx, 1, 1, 2, NULL, NULL, NULL, NULL, NULL));
    OK(AMGX_vector_destroy(x));
    OK(AMGX_vector_destroy(y));
    OK(AMGX_matrix_destroy(empty));
    OK(AMGX_matrix_destroy(mtx));
    FAILS(BAD, AMGX_matrix_get_size(mtx, &n, &bx, &by));
}

/* The diagonal beside the other entries, in blocks of two rows. */
static void external_diagonal(void) {
    const int rows[] = {0, 1, 2}, cols[] = {1, 0}, inside[] = {0, 0};
    const double off[] = {-1, 0, 0, -1, -1, 0.5, 0, -1}, diag[] = {4, 1, 1, 4, 5, 0, 0, 5}, other[] = {6, 1, 1, 6, 7, 0, 0, 7};
    const double ones[] = {1, 1, 1, 1};
    AMGX_matrix_handle mtx;
    AMGX_vector_handle x, y;
    numbers values, diagonal, back;
    int back_rows[3], back_cols[2], nnz, i;
    void *back_diagonal = NULL;
    OK(AMGX_matrix_create(&mtx, rsrc, mode));
    put(&values, off, 8, is_float_matrix());
    put(&diagonal, diag, 8, is_float_matrix());
    FAILS(BAD, AMGX_matrix_upload_all(mtx, 2, 2, 2, 2, rows, inside, &values, &diagonal));
    CHECK(says(BAD, "row 0 has a diagonal entry"));
    OK(AMGX_matrix_upload_all(mtx, 2, 2, 2, 2, rows, cols, &values, &diagonal));
    OK(AMGX_matrix_get_nnz(mtx, &nnz));
    CHECK(nnz == 2);
    OK(AMGX_vector_create(&x, rsrc, mode));
    OK(AMGX_vector_create(&y, rsrc, mode));
    OK(AMGX_vector_upload(x, 2, 2, put(&back, ones, 4, is_float_vector())));
    OK(AMGX_matrix_vector_multiply(mtx, x, y));
    OK(AMGX_vector_download(y, &back));
    CHECK(get(&back, 0, is_float_vector()) == 4 && get(&back, 2, is_float_vector()) == 4.5);
    OK(AMGX_matrix_replace_coefficients(mtx, 2, 2, NULL, put(&diagonal, other, 8, is_float_matrix())));
    OK(AMGX_matrix_vector_multiply(mtx, x, y));
    OK(AMGX_vector_download(y, &back));
    CHECK(get(&back, 0, is_float_vector()) == 6 && get(&back, 2, is_float_vector()) == 6.5);
    OK(AMGX_matrix_replace_coefficients(mtx, 2, 2, put(&values, other, 8, is_float_matrix()), NULL));
    OK(AMGX_matrix_download_all(mtx, back_rows, back_cols, &back, &back_diagonal));
    CHECK(back_rows[2] == 2 && back_cols[0] == 1 && back_cols[1] == 0 && back_diagonal != NULL);
    for (i = 0; i < 8; ++i) {
        CHECK(get(&back, i, is_float_matrix()) == other[i]);
        CHECK(get(back_diagonal, i, is_float_matrix()) == other[i]);
    }
    free(back_diagonal);
    OK(AMGX_matrix_destroy(mtx));
    OK(AMGX_vector_destroy(x));
    OK(AMGX_vector_destroy(y));
}

static void solvers(void) {
    AMGX_matrix_handle mtx = small_matrix(), other;
    AMGX_vector_handle b, x;
    AMGX_solver_handle slv;
    AMGX_SOLVE_STATUS status = AMGX_SOLVE_FAILED;
    const double right[] = {3, 2, 2};
    numbers data, norm;
    double residual = -1;
    int n = -1;
    FAILS(BAD, AMGX_solver_create(NULL, rsrc, mode, config));
    FAILS(BAD, AMGX_solver_create(&slv, NULL, mode, config));
    FAILS(BAD, AMGX_solver_create(&slv, rsrc, mode, NULL));
    FAILS(AMGX_RC_BAD_MODE, AMGX_solver_create(&slv, rsrc, AMGX_mode_hCCI, config));
    OK(AMGX_solver_create(&slv, rsrc, mode, config));
    OK(AMGX_vector_create(&b, rsrc, mode));
    OK(AMGX_vector_create(&x, rsrc, mode));
    OK(AMGX_vector_upload(b, 3, 1, put(&data, right, 3, is_float_vector())));
    /* Not set up, and without a solve. */
    FAILS(BAD, AMGX_solver_solve(slv, b, x));
    FAILS(BAD, AMGX_solver_get_status(slv, &status));
    FAILS(BAD, AMGX_solver_get_iterations_number(slv, &n));
    OK(AMGX_matrix_create(&other, rsrc, mode));
    FAILS(BAD, AMGX_solver_setup(slv, other));
    FAILS(BAD, AMGX_solver_setup(slv, NULL));
    OK(AMGX_matrix_destroy(other));
    OK(AMGX_matrix_create(&other, rsrc, AMGX_mode_hDDI == mode ? AMGX_mode_hFFI : AMGX_mode_hDDI));
    FAILS(AMGX_RC_BAD_MODE, AMGX_solver_setup(slv, other));
    OK(AMGX_matrix_destroy(other));
    OK(AMGX_solver_setup(slv, mtx));
    /* The solution has no size. */
    FAILS(BAD, AMGX_solver_solve(slv, b, x));
    FAILS(BAD, AMGX_solver_solve(slv, b, b));
    OK(AMGX_solver_solve_with_0_initial_guess(slv, b, x));
    OK(AMGX_solver_get_status(slv, &status));
    CHECK(status == AMGX_SOLVE_SUCCESS);
    OK(AMGX_vector_download(x, &data));
    CHECK(fabs(get(&data, 0, is_float_vector()) - 1) < 1e-4 && fabs(get(&data, 2, is_float_vector()) - 1) < 1e-4);
    OK(AMGX_solver_get_iterations_number(slv, &n));
    CHECK(n > 0);
    OK(AMGX_solver_get_iteration_residual(slv, 0, 0, &residual));
    CHECK(fabs(residual - sqrt(17.0)) < 1e-5);
    OK(AMGX_solver_get_iteration_residual(slv, n, 0, &residual));
    CHECK(residual < 1e-4);
    FAILS(BAD, AMGX_solver_get_iteration_residual(slv, n + 1, 0, &residual));
    FAILS(BAD, AMGX_solver_get_iteration_residual(slv, 0, 1, &residual));
    FAILS(BAD, AMGX_solver_get_iteration_residual(slv, 0, 0, NULL));
    FAILS(BAD, AMGX_solver_get_status(slv, NULL));
    OK(AMGX_solver_calculate_residual_norm(slv, mtx, b, x, &norm));
    CHECK(get(&norm, 0, is_float_vector()) < 1e-4);
    FAILS(BAD, AMGX_solver_calculate_residual_norm(slv, mtx, b, x, NULL));
    /* A guess that is the solution. */
    OK(AMGX_solver_solve(slv, b, x));
    OK(AMGX_vector_set_zero(x, 4, 1));
    FAILS(BAD, AMGX_solver_solve(slv, b, x));
    CHECK(says(BAD, "sol has 4 elements, and the matrix 3 rows"));
    OK(AMGX_matrix_replace_coefficients(mtx, 3, 7, put(&data, entries, 7, is_float_matrix()), NULL));
    OK(AMGX_solver_resetup(slv, mtx));
    /* Objects that a solver uses may be destroyed before it. */
    OK(AMGX_matrix_destroy(mtx));
    FAILS(BAD, AMGX_solver_resetup(slv, mtx));
    OK(AMGX_solver_solve_with_0_initial_guess(slv, b, x));
    OK(AMGX_vector_destroy(x));
    FAILS(BAD, AMGX_solver_solve_with_0_initial_guess(slv, b, x));
    OK(AMGX_vector_destroy(b));
    OK(AMGX_solver_destroy(slv));
    FAILS(BAD, AMGX_solver_destroy(slv));
    FAILS(BAD, AMGX_solver_get_status(slv, &status));
}

static void files(const char *writer) {
    AMGX_config_handle cfg;
    AMGX_resources_handle rsc;
    AMGX_matrix_handle mtx, back;
    AMGX_vector_handle b, x;
    AMGX_distribution_handle dist;
    char options[64];
    int n, nnz, bx, by, neighbours, *rows, *cols, *sizes, **maps, partition[] = {0, 0, 0}, wrong[] = {0, 1, 0};
    int64_t global[] = {0, 1, 0, 1, 2, 1, 2}, range[] = {0, 3}, part[] = {0, 2};
    const double right[] = {1, 2, 3};
    void *data, *diag, *rhs, *sol, *wide;
    numbers values, out;
    snprintf(options, sizeof options, "matrix_writer=%s, rhs_from_a=1", writer);
    OK(AMGX_config_create(&cfg, options));
    OK(AMGX_resources_create_simple(&rsc, cfg));
    OK(AMGX_matrix_create(&mtx, rsc, mode));
    OK(AMGX_matrix_create(&back, rsc, mode));
    OK(AMGX_vector_create(&b, rsc, mode));
    OK(AMGX_vector_create(&x, rsc, mode));
    put(&values, entries, 7, is_float_matrix());
    FAILS(BAD, AMGX_write_system(mtx, NULL, NULL, path("system")));
    OK(AMGX_matrix_upload_all(mtx, 3, 7, 1, 1, offsets, columns, &values, NULL));
    OK(AMGX_write_system(mtx, NULL, NULL, path("system")));
    OK(AMGX_read_system(back, b, x, path("system")));
    OK(AMGX_vector_download(b, &out));
    CHECK(get(&out, 0, is_float_vector()) == 3 && get(&out, 1, is_float_vector()) == 2);
    OK(AMGX_vector_upload(b, 3, 1, put(&out, right, 3, is_float_vector())));
    OK(AMGX_write_system(mtx, b, x, path("system")));
    OK(AMGX_read_system(back, b, x, path("system")));
    OK(AMGX_vector_download(b, &out));
    CHECK(get(&out, 2, is_float_vector()) == 3);
    OK(AMGX_matrix_get_nnz(back, &nnz));
    CHECK(nnz == 7);
    OK(AMGX_read_system(NULL, b, NULL, path("system")));
    FAILS(BAD, AMGX_read_system(NULL, NULL, NULL, path("system")));
    FAILS(AMGX_RC_IO_ERROR, AMGX_read_system(back, b, x, path("no such file")));
    FAILS(AMGX_RC_IO_ERROR, AMGX_read_system(back, b, x, path("configuration.json")));
    FAILS(BAD, AMGX_read_system(back, b, x, NULL));
    FAILS(AMGX_RC_IO_ERROR, AMGX_write_system(mtx, b, x, path("no/folder")));
    FAILS(BAD, AMGX_write_system(NULL, b, x, path("system")));
    OK(AMGX_write_system_distributed(mtx, b, x, path("system"), 1, 1, NULL, 3, partition));
    OK(AMGX_read_system_distributed(back, b, x, path("system"), 1, 1, NULL, 3, partition));
    OK(AMGX_read_system_distributed(back, b, x, path("system"), 1, 2, NULL, 0, NULL));
    FAILS(BAD, AMGX_read_system_distributed(back, b, x, path("system"), 1, -1, NULL, 0, NULL));
    FAILS(BAD, AMGX_write_system_distributed(mtx, b, x, path("system"), 1, 1, NULL, 3, wrong));

    OK(AMGX_read_system_maps_one_ring(&n, &nnz, &bx, &by, &rows, &cols, &data, &diag, &rhs, &sol, &neighbours, &sizes,
                                      &sizes, &maps, &sizes, &maps, rsc, mode, path("system"), 1, 1, NULL, 0, NULL));
    CHECK(n == 3 && nnz == 7 && bx == 1 && by == 1 && neighbours == 0 && cols[4] == 2 && diag == NULL);
    CHECK(get(data, 5, is_float_matrix()) == -2 && get(rhs, 2, is_float_vector()) == 3);
    OK(AMGX_matrix_upload_all(back, n, nnz, bx, by, rows, cols, data, diag));
    FAILS(BAD, AMGX_free_system_maps_one_ring(rows, cols, data, diag, rhs, sol, 1, NULL, NULL, NULL, NULL, NULL));
    OK(AMGX_free_system_maps_one_ring(rows, cols, data, diag, rhs, sol, 0, NULL, NULL, NULL, NULL, NULL));
    OK(AMGX_read_system_global(&n, &nnz, &bx, &by, &rows, &wide, &data, &diag, &rhs, &sol, rsc, mode, path("system"), 1,
                               1, NULL, 0, NULL));
    CHECK(((int64_t *)wide)[4] == 2);
    OK(AMGX_matrix_upload_all_global(back, n, n, nnz, bx, by, rows, wide, data, diag, 1, 1, partition));
    FAILS(BAD, AMGX_matrix_upload_all_global(back, n + 1, n, nnz, bx, by, rows, wide, data, diag, 1, 1, NULL));
    FAILS(BAD, AMGX_matrix_upload_all_global(back, n, n, nnz, bx, by, rows, wide, data, diag, 1, 1, wrong));
    free(rows), free(wide), free(data), free(rhs), free(sol);
    OK(AMGX_matrix_upload_all_global_32(back, 3, 3, 7, 1, 1, offsets, columns, &values, NULL, 1, 1, NULL));

    FAILS(BAD, AMGX_distribution_create(NULL, cfg));
    OK(AMGX_distribution_create(&dist, cfg));
    OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_OFFSETS, range));
    OK(AMGX_matrix_upload_distributed(back, 3, 3, 7, 1, 1, offsets, global, &values, NULL, dist));
    OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_OFFSETS, part));
    FAILS(BAD, AMGX_matrix_upload_distributed(back, 3, 3, 7, 1, 1, offsets, global, &values, NULL, dist));
    OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_VECTOR, partition));
    OK(AMGX_distribution_set_32bit_colindices(dist, 1));
    OK(AMGX_matrix_upload_distributed(back, 3, 3, 7, 1, 1, offsets, columns, &values, NULL, dist));
    FAILS(BAD, AMGX_distribution_set_partition_data(dist, (AMGX_DIST_PARTITION_INFO)7, partition));
    OK(AMGX_distribution_destroy(dist));
    FAILS(BAD, AMGX_distribution_set_32bit_colindices(dist, 0));
    FAILS(BAD, AMGX_matrix_upload_distributed(back, 3, 3, 7, 1, 1, offsets, columns, &values, NULL, dist));

    OK(AMGX_generate_distributed_poisson_7pt(back, b, x, 1, 1, 2, 3, 4, 1, 1, 1));
    OK(AMGX_matrix_get_size(back, &n, &bx, &by));
    OK(AMGX_vector_get_size(b, &nnz, &bx));
    CHECK(n == 24 && nnz == 24);
    FAILS(BAD, AMGX_generate_distributed_poisson_7pt(back, b, x, 1, 1, 2, 2, 2, 2, 1, 1));
    FAILS(BAD, AMGX_generate_distributed_poisson_7pt(back, b, x, 1, 1, -2, 2, 2, 1, 1, 1));
    /* In any order. */
    OK(AMGX_config_destroy(cfg));
    OK(AMGX_resources_destroy(rsc));
    OK(AMGX_vector_destroy(x));
    OK(AMGX_matrix_destroy(mtx));
    OK(AMGX_vector_destroy(b));
    OK(AMGX_matrix_destroy(back));
}

static void eigensolvers(void) {
    AMGX_eigensolver_handle eig = NULL;
    FAILS(AMGX_RC_NOT_IMPLEMENTED, AMGX_eigensolver_create(&eig, rsrc, mode, config));
    FAILS(AMGX_RC_NOT_IMPLEMENTED, AMGX_eigensolver_setup(eig, NULL));
    FAILS(AMGX_RC_NOT_IMPLEMENTED, AMGX_eigensolver_pagerank_setup(eig, NULL));
    FAILS(AMGX_RC_NOT_IMPLEMENTED, AMGX_eigensolver_solve(eig, NULL));
    FAILS(AMGX_RC_NOT_IMPLEMENTED, AMGX_eigensolver_destroy(eig));
    CHECK(says(AMGX_RC_NOT_IMPLEMENTED, "eigensolvers are not implemented"));
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    mode = (AMGX_Mode)atoi(argv[1]);
    folder = argv[2];
    library();
    configurations();
    resources();
    OK(AMGX_config_create(&config,
                          "solver=FGMRES, preconditioner=BLOCK_JACOBI, monitor_residual=1, convergence=RELATIVE_INI,"
                          "tolerance=1e-5, store_res_history=1, print_solve_stats=1, print_config=1, obtain_timings=1"));
    OK(AMGX_resources_create_simple(&rsrc, config));
    vectors();
    matrices();
    external_diagonal();
    solvers();
    CHECK(printed > 100);
    files("MATRIXMARKET");
    files("BINARY");
    eigensolvers();
    OK(AMGX_resources_destroy(rsrc));
    OK(AMGX_config_destroy(config));
    OK(AMGX_finalize_plugins());
    OK(AMGX_finalize());
    OK(AMGX_finalize());
    /* Nothing but a sentence before the end. */
    AMGX_abort(NULL, 0);
    return 1;
}
