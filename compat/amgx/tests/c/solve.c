/* Solves the system of a file: solve MODE CONFIGURATION FILE. Prints iterations, status and the share of the residual that is left. With a fourth
   argument the values of the matrix are doubled after the solve, and it is solved again after AMGX_solver_resetup. */
#include "check.h"

static AMGX_Mode mode;

/* Of all components, each of which has its own norm unless use_scalar_norm is set. */
static double norm(AMGX_solver_handle slv, AMGX_matrix_handle mtx, AMGX_vector_handle b, AMGX_vector_handle x) {
    double norms[8] = {0}, sum = 0;
    int i;
    OK(AMGX_solver_calculate_residual_norm(slv, mtx, b, x, norms));
    for (i = 0; i < 8; ++i) {
        double own = AMGX_GET_MODE_VAL(AMGX_VecPrecision, mode) == AMGX_vecFloat ? ((float *)norms)[i] : norms[i];
        sum += own * own;
    }
    return sqrt(sum);
}

static void solve(AMGX_solver_handle slv, AMGX_matrix_handle mtx, AMGX_vector_handle b, AMGX_vector_handle x) {
    AMGX_SOLVE_STATUS status;
    double before, after;
    int iterations, n, block;
    OK(AMGX_vector_get_size(b, &n, &block));
    OK(AMGX_vector_set_zero(x, n, block));
    before = norm(slv, mtx, b, x);
    OK(AMGX_solver_solve(slv, b, x));
    after = norm(slv, mtx, b, x);
    OK(AMGX_solver_get_iterations_number(slv, &iterations));
    OK(AMGX_solver_get_status(slv, &status));
    printf("RESULT %d %d %.3e\n", iterations, (int)status, after / before);
}

int main(int argc, char **argv) {
    AMGX_config_handle cfg;
    AMGX_resources_handle rsc;
    AMGX_matrix_handle mtx;
    AMGX_vector_handle b, x;
    AMGX_solver_handle slv;
    AMGX_RC code;
    char text[2048];
    CHECK(argc == 4 || argc == 5);
    mode = (AMGX_Mode)atoi(argv[1]);
    OK(AMGX_initialize());
    code = AMGX_config_create(&cfg, argv[2]);
    if (code == AMGX_RC_OK) {
        code = AMGX_resources_create_simple(&rsc, cfg);
    }
    if (code == AMGX_RC_OK) {
        code = AMGX_solver_create(&slv, rsc, mode, cfg);
    }
    if (code != AMGX_RC_OK) {
        OK(AMGX_get_error_string(code, text, sizeof text));
        printf("REFUSED %d %s\n", (int)code, text);
        return 0;
    }
    OK(AMGX_matrix_create(&mtx, rsc, mode));
    OK(AMGX_vector_create(&b, rsc, mode));
    OK(AMGX_vector_create(&x, rsc, mode));
    OK(AMGX_read_system(mtx, b, x, argv[3]));
    OK(AMGX_solver_setup(slv, mtx));
    solve(slv, mtx, b, x);
    if (argc == 5) {
        int n, nnz, bx, by, k, *rows, *columns;
        double *values;
        void *diagonal;
        OK(AMGX_matrix_get_size(mtx, &n, &bx, &by));
        OK(AMGX_matrix_get_nnz(mtx, &nnz));
        rows = malloc(sizeof(int) * (size_t)(n + 1));
        columns = malloc(sizeof(int) * (size_t)nnz);
        values = malloc(sizeof(double) * (size_t)(nnz * bx * by));
        CHECK(rows && columns && values);
        OK(AMGX_matrix_download_all(mtx, rows, columns, values, &diagonal));
        for (k = 0; k < nnz * bx * by; ++k) {
            if (AMGX_GET_MODE_VAL(AMGX_MatPrecision, mode) == AMGX_matFloat) ((float *)values)[k] *= 2;
            else values[k] *= 2;
        }
        OK(AMGX_matrix_replace_coefficients(mtx, n, nnz, values, NULL));
        OK(AMGX_solver_resetup(slv, mtx));
        solve(slv, mtx, b, x);
        free(rows), free(columns), free(values);
    }
    OK(AMGX_solver_destroy(slv));
    OK(AMGX_vector_destroy(x));
    OK(AMGX_vector_destroy(b));
    OK(AMGX_matrix_destroy(mtx));
    OK(AMGX_resources_destroy(rsc));
    OK(AMGX_config_destroy(cfg));
    OK(AMGX_finalize());
    return 0;
}
