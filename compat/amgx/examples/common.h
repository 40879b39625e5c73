/* What the examples share: modes by name. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <amgx_c.h>
#include <string.h>

static inline AMGX_Mode mode_of(const char *name) {
    if (strcmp(name, "hDDI") == 0) return AMGX_mode_hDDI;
    if (strcmp(name, "hDFI") == 0) return AMGX_mode_hDFI;
    if (strcmp(name, "hFFI") == 0) return AMGX_mode_hFFI;
    if (strcmp(name, "dDDI") == 0) return AMGX_mode_dDDI;
    if (strcmp(name, "dDFI") == 0) return AMGX_mode_dDFI;
    if (strcmp(name, "dFFI") == 0) return AMGX_mode_dFFI;
    fprintf(stderr, "unknown mode %s\n", name);
    exit(1);
}

static inline void print_callback(const char *message, int length) { printf("%.*s", length, message); }

/* Prints how a solve ended. */
static inline void print_end(AMGX_solver_handle solver) {
    AMGX_SOLVE_STATUS status;
    int iterations;
    AMGX_SAFE_CALL(AMGX_solver_get_status(solver, &status));
    AMGX_SAFE_CALL(AMGX_solver_get_iterations_number(solver, &iterations));
    printf("status %d, %d iterations\n", (int)status, iterations);
}

#endif
