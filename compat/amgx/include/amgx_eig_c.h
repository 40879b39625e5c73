/* amgx_eig_c.h: eigensolvers of the C API of AmgX. Terrace has none: every function gives AMGX_RC_NOT_IMPLEMENTED. */
#ifndef TERRACE_AMGX_EIG_C_H
#define TERRACE_AMGX_EIG_C_H

#include "amgx_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct AMGX_eigensolver_handle_struct *AMGX_eigensolver_handle;

AMGX_RC AMGX_eigensolver_create(AMGX_eigensolver_handle *ret, AMGX_resources_handle rsc, AMGX_Mode mode,
                                const AMGX_config_handle config_eigensolver);
AMGX_RC AMGX_eigensolver_setup(AMGX_eigensolver_handle eigensolver, AMGX_matrix_handle mtx);
AMGX_RC AMGX_eigensolver_pagerank_setup(AMGX_eigensolver_handle eigensolver, AMGX_vector_handle a);
AMGX_RC AMGX_eigensolver_solve(AMGX_eigensolver_handle eigensolver, AMGX_vector_handle x);
AMGX_RC AMGX_eigensolver_destroy(AMGX_eigensolver_handle obj);

#ifdef __cplusplus
}
#endif

#endif
