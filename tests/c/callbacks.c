/* The caller's operator and preconditioner: the user's pointer arrives, failures end the solve, and a callback that comes back to the
   solver it was called from is refused. */
#include "check.h"

typedef struct {
    const problem *p;
    terrace_solver *solver;
    int calls;
    int fail_at;
    terrace_status inner;
} state;

static int32_t apply(int64_t n, const void *x, void *y, void *user) {
    state *s = user;
    const double *in = x;
    double *out = y;
    int64_t i;
    int32_t k;
    if (n != s->p->rows) return 2;
    s->calls += 1;
    if (s->calls == s->fail_at) return 7;
    if (s->solver) s->inner = terrace_solver_solve(s->solver, TERRACE_F64, 1, x, y, TERRACE_ZERO_GUESS);
    for (i = 0; i < n; ++i) {
        out[i] = 0.0;
        for (k = s->p->offsets[i]; k < s->p->offsets[i + 1]; ++k) out[i] += s->p->values[k] * in[s->p->columns[k]];
    }
    return 0;
}

static int32_t jacobi(int64_t n, const void *r, void *z, void *user) {
    const double *in = r;
    double *out = z;
    int64_t i;
    *(int *)user += 1;
    for (i = 0; i < n; ++i) out[i] = in[i] / 4.0;
    return 0;
}

int main(void) {
    problem p = problem_create(16);
    double *b = problem_right_hand_side(&p);
    double *x = malloc((size_t)p.rows * sizeof *x);
    terrace_context *context = NULL;
    terrace_solver *solver = NULL;
    state s = {0};
    int preconditioned = 0;
    CHECK(x);
    s.p = &p;
    CHECK(terrace_context_create("host:2", &context) == TERRACE_SUCCESS);
    CHECK(terrace_solver_create(context, NULL, &solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_set_operator(solver, -5, apply, &s) == TERRACE_ERROR_INVALID_ARGUMENT);
    CHECK(terrace_solver_set_operator(solver, p.rows, apply, &s) == TERRACE_SUCCESS);
    CHECK(terrace_solver_set_preconditioner(solver, jacobi, &preconditioned) == TERRACE_SUCCESS);
    CHECK(terrace_solver_setup(solver, NULL) == TERRACE_SUCCESS);

    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(problem_is_solved(&p, x, 1e-4) && s.calls > 0 && preconditioned > 0);

    s.solver = solver;
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(s.inner == TERRACE_ERROR_INVALID_ARGUMENT && error_has(context, "solver is in use"));

    s.solver = NULL;
    s.calls = 0;
    s.fail_at = 3;
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_ERROR_CALLBACK);
    CHECK(error_has(context, "7"));
    s.fail_at = 0;
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);

    terrace_solver_destroy(solver);
    terrace_context_destroy(context);
    problem_destroy(&p);
    free(b);
    free(x);
    return 0;
}
