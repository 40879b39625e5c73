/* A program that traps floating-point exceptions can use every component: no call raises SIGFPE, and the traps are as they were after it,
   and during callbacks. */
#define _GNU_SOURCE
#include "check.h"
#include <fenv.h>

#define TRAPS (FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW)

static int logged = 0;

static void keep(terrace_log_level level, const char *message, void *user) {
    (void)level, (void)message, (void)user;
    if (fegetexcept() == TRAPS) logged += 1;
}

static void solve(const char *device, const problem *p, const char *options) {
    terrace_context *context = NULL;
    terrace_config *config = NULL;
    terrace_solver *solver = NULL;
    terrace_matrix *matrix, *transposed = NULL, *product = NULL;
    double *b = problem_right_hand_side(p);
    double *x = malloc((size_t)p->rows * sizeof *x);
    terrace_status status;
    CHECK(x);
    CHECK(terrace_context_create(device, &context) == TERRACE_SUCCESS);
    CHECK(terrace_context_set_log(context, TERRACE_LOG_DEBUG, keep, NULL) == TERRACE_SUCCESS);
    matrix = problem_matrix(context, p, TERRACE_COPY);
    CHECK(terrace_config_create(context, &config) == TERRACE_SUCCESS);
    CHECK(terrace_config_load_json(config, options) == TERRACE_SUCCESS);
    CHECK(terrace_solver_create(context, config, &solver) == TERRACE_SUCCESS);
    status = terrace_solver_setup(solver, matrix);
    CHECK(fegetexcept() == TRAPS);
    /* What a device does not have is refused. */
    CHECK(status == TERRACE_SUCCESS || (status == TERRACE_ERROR_UNSUPPORTED && strcmp(device, "sim") == 0));
    if (status == TERRACE_SUCCESS) {
        CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
        CHECK(problem_is_solved(p, x, 1e-4));
        CHECK(terrace_solver_update(solver) == TERRACE_SUCCESS);
        CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
        CHECK(problem_is_solved(p, x, 1e-4));
    }
    CHECK(terrace_matrix_transpose(context, matrix, &transposed) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_multiply(context, matrix, transposed, &product) == TERRACE_SUCCESS);
    CHECK(fegetexcept() == TRAPS);
    terrace_matrix_destroy(product);
    terrace_matrix_destroy(transposed);
    terrace_matrix_destroy(matrix);
    terrace_solver_destroy(solver);
    terrace_config_destroy(config);
    terrace_context_destroy(context);
    free(b);
    free(x);
}

int main(void) {
    static const char *const options[] = {
        "{}",
        "{\"amg.coarsening.type\": \"pmis\", \"amg.interpolation.type\": \"direct\"}",
        "{\"amg.coarsening.type\": \"pmis\", \"amg.interpolation.type\": \"classical_modified\"}",
        "{\"amg.coarsening.type\": \"hmis\", \"amg.interpolation.type\": \"mm_ext_i\", \"amg.smoother.type\": \"l1_gauss_seidel\"}",
        "{\"amg.coarsening.type\": \"pmis\", \"amg.interpolation.type\": \"mm_ext\", \"amg.smoother.type\": \"jacobi\"}",
        "{\"amg.coarsening.type\": \"pmis\", \"amg.coarsening.aggressive_levels\": 1, \"amg.interpolation.aggressive\": \"multipass\"}",
        "{\"amg.coarsening.type\": \"pmis\", \"amg.coarsening.aggressive_levels\": 1, \"amg.smoother.type\": \"l1_jacobi\"}",
        "{\"amg.coarsening.type\": \"mis2\", \"amg.smoother.type\": \"chebyshev\", \"solver.type\": \"gmres\"}",
        "{\"amg.coarsening.type\": \"pairwise\", \"amg.smoother.type\": \"gauss_seidel\", \"solver.type\": \"bicgstab\"}",
        "{\"amg.cycle.type\": \"k\", \"solver.type\": \"fgmres\", \"precision\": \"dp-sp-hp\"}",
        "{\"amg.coarsening.type\": \"mis2\", \"amg.interpolation.type\": \"energy\", \"amg.smoother.type\": \"fsai\", \"amg.reorder\": \"on\"}",
        "{\"amg.coarsening.type\": \"pmis\", \"amg.smoother.type\": \"dilu\", \"precision\": \"auto\"}",
        "{\"solver.type\": \"direct\"}",
        "{\"amg.type\": \"structured\", \"precision\": \"dp-sp-hp\"}",
        "{\"amg.type\": \"structured\", \"amg.smoother.type\": \"line\"}",
        "{\"amg.type\": \"structured\", \"amg.smoother.type\": \"ilu0\"}",
        "{\"amg.coarsening.type\": \"pmis\", \"amg.interpolation.type\": \"least_squares\", \"amg.strength.type\": \"affinity\", \"amg.near_null_space.random\": 2, \"amg.near_null_space.steps\": 3}",
        "{\"amg.cycle.type\": \"w\", \"solver.type\": \"fcg\", \"precision\": \"single\"}",
    };
    problem large = problem_create(110);
    problem small = problem_create(16);
    size_t i;
    CHECK(feenableexcept(TRAPS) != -1);
    CHECK(fegetexcept() == TRAPS);
    for (i = 0; i < sizeof options / sizeof *options; ++i) {
        solve("host:2", &large, options[i]);
        solve("sim", &small, options[i]);
    }
    CHECK(logged > 0);
    problem_destroy(&large);
    problem_destroy(&small);
    return 0;
}
