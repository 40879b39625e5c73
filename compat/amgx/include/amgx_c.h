/*
 * amgx_c.h: the C API of AmgX, for Terrace. Programs that were written for AmgX are compiled against this header and linked with libamgxsh.so or
 * libamgx.a. docs/migrating.md of Terrace says what differs.
 *
 * Every function but AMGX_abort returns an AMGX_RC; AMGX_get_error_string has the sentence of the last failure of the calling thread. A handle that is
 * NULL, destroyed or of another type gives AMGX_RC_BAD_PARAMETERS. Objects are destroyed in any order. Arrays are on the host, or for the modes
 * beginning with d in the memory of the GPU; they are copied. Counts of rows and entries are counts of blocks; blocks are stored row by row.
 */
#ifndef TERRACE_AMGX_C_H
#define TERRACE_AMGX_C_H

#include <stdio.h>
#include <stdlib.h>
#include "amgx_config.h"

#define AMGX_API

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    AMGX_RC_OK = 0,
    AMGX_RC_BAD_PARAMETERS = 1,
    AMGX_RC_UNKNOWN = 2,
    AMGX_RC_NOT_SUPPORTED_TARGET = 3, /* no GPU for a mode beginning with d; not there over ranks */
    AMGX_RC_NOT_SUPPORTED_BLOCKSIZE = 4,
    AMGX_RC_CUDA_FAILURE = 5,
    AMGX_RC_THRUST_FAILURE = 6,
    AMGX_RC_NO_MEMORY = 7,
    AMGX_RC_IO_ERROR = 8,
    AMGX_RC_BAD_MODE = 9,
    AMGX_RC_CORE = 10,
    AMGX_RC_PLUGIN = 11,
    AMGX_RC_BAD_CONFIGURATION = 12,
    AMGX_RC_NOT_IMPLEMENTED = 13,
    AMGX_RC_LICENSE_NOT_FOUND = 14,
    AMGX_RC_INTERNAL = 15
} AMGX_RC;

/* How a solve ended. Without monitor_residual=1 a solve that was not broken off is a success. */
typedef enum {
    AMGX_SOLVE_SUCCESS = 0,
    AMGX_SOLVE_FAILED = 1,
    AMGX_SOLVE_DIVERGED = 2,
    AMGX_SOLVE_NOT_CONVERGED = 3
} AMGX_SOLVE_STATUS;

/* Forms of AMGX_write_parameters_description. */
typedef enum {
    AMGX_GET_PARAMS_DESC_JSON_TO_FILE = 0,
    AMGX_GET_PARAMS_DESC_JSON_TO_STRING = 1,
    AMGX_GET_PARAMS_DESC_TEXT_TO_FILE = 2,
    AMGX_GET_PARAMS_DESC_TEXT_TO_STRING = 3
} AMGX_GET_PARAMS_DESC_FLAG;

/* Kinds of partitions. */
typedef enum { AMGX_DIST_PARTITION_VECTOR = 0, AMGX_DIST_PARTITION_OFFSETS = 1 } AMGX_DIST_PARTITION_INFO;

typedef enum {
    SOLVE_STATS = 1,
    GRID_STATS = 2,
    CONFIG = 4,
    PROFILE_STATS = 8,
    VISDATA = 16,
    RESIDUAL_HISTORY = 32
} AMGX_FLAGS;

typedef struct AMGX_config_handle_struct *AMGX_config_handle;
typedef struct AMGX_resources_handle_struct *AMGX_resources_handle;
typedef struct AMGX_matrix_handle_struct *AMGX_matrix_handle;
typedef struct AMGX_vector_handle_struct *AMGX_vector_handle;
typedef struct AMGX_solver_handle_struct *AMGX_solver_handle;
typedef struct AMGX_distribution_handle_struct *AMGX_distribution_handle;

/* Receives output: a text and its length. */
typedef void (*AMGX_print_callback)(const char *msg, int length);

/* Prints the sentence of a failure and ends the process. */
#define AMGX_SAFE_CALL(call)                                                                  \
    do {                                                                                      \
        AMGX_RC amgx_code_ = (call);                                                          \
        if (amgx_code_ != AMGX_RC_OK) {                                                       \
            char amgx_text_[4096];                                                            \
            AMGX_get_error_string(amgx_code_, amgx_text_, (int)sizeof amgx_text_);            \
            fprintf(stderr, "AMGX error in %s, line %d: %s\n", __FILE__, __LINE__, amgx_text_); \
            AMGX_abort(NULL, 1);                                                              \
        }                                                                                     \
    } while (0)

/* --- library --- */

/* Version of the API: 2.0. */
AMGX_RC AMGX_get_api_version(int *major, int *minor);
/* Static texts: the version of Terrace; date and time are empty. */
AMGX_RC AMGX_get_build_info_strings(char **version, char **date, char **time);
/* What a code means; for the code of the last failure of this thread, why it failed. Cut to buf_len bytes with the final NUL. */
AMGX_RC AMGX_get_error_string(AMGX_RC err, char *buf, int buf_len);
/* Need not be called; may be called several times. Plugins do not exist. */
AMGX_RC AMGX_initialize(void);
AMGX_RC AMGX_initialize_plugins(void);
AMGX_RC AMGX_finalize(void);
AMGX_RC AMGX_finalize_plugins(void);
/* Ends the process with this status. */
void AMGX_abort(AMGX_resources_handle rsrc, int err);
/* Accepted; copies work as well without. */
AMGX_RC AMGX_pin_memory(void *ptr, unsigned int bytes);
AMGX_RC AMGX_unpin_memory(void *ptr);
/* Accepted; the library leaves signals alone. */
AMGX_RC AMGX_install_signal_handler(void);
AMGX_RC AMGX_reset_signal_handler(void);
/* Where output goes; NULL is standard output. It must return normally. */
AMGX_RC AMGX_register_print_callback(AMGX_print_callback func);
AMGX_RC AMGX_solver_register_print_callback(AMGX_print_callback func);

/* --- configuration --- */

/* From JSON, or from entries scope:key(scope of the solver)=value between commas, semicolons or line ends; NULL is all defaults. A key or value without
   a meaning here is AMGX_RC_BAD_CONFIGURATION, with the nearest that has one. Options of Terrace itself: the scope terrace, as in
   terrace:precision=dp-sp, or the JSON object "terrace". */
AMGX_RC AMGX_config_create(AMGX_config_handle *cfg, const char *options);
AMGX_RC AMGX_config_create_from_file(AMGX_config_handle *cfg, const char *param_file);
/* The text wins over the file. */
AMGX_RC AMGX_config_create_from_file_and_string(AMGX_config_handle *cfg, const char *param_file, const char *options);
/* Solvers of the configuration take changes over at their next set-up or solve, which sets them up again. */
AMGX_RC AMGX_config_add_parameters(AMGX_config_handle *cfg, const char *options);
/* 2 for classical AMG, otherwise 1. */
AMGX_RC AMGX_config_get_default_number_of_rings(AMGX_config_handle cfg, int *num_import_rings);
AMGX_RC AMGX_config_destroy(AMGX_config_handle cfg);
/* Writes every key with its meaning to a file. Forms in memory are AMGX_RC_NOT_IMPLEMENTED. */
AMGX_RC AMGX_write_parameters_description(char *filename, AMGX_GET_PARAMS_DESC_FLAG mode);

/* --- resources --- */

AMGX_RC AMGX_resources_create_simple(AMGX_resources_handle *rsc, AMGX_config_handle cfg);
/* comm is NULL or points to an MPI_Comm, and MPI is initialised; device_num is 1, and devices[0] the number of the
   GPU. Several ranks need libterrace_amgx_mpi.so, which `make compat-amgx` builds for the MPI that is installed. With
   MPI_Init a rank has one thread; with MPI_Init_thread and MPI_THREAD_SERIALIZED its share of the machine.
   Collective. Objects end before MPI_Finalize. */
AMGX_RC AMGX_resources_create(AMGX_resources_handle *rsc, AMGX_config_handle cfg, void *comm, int device_num,
                              const int *devices);
AMGX_RC AMGX_resources_destroy(AMGX_resources_handle rsc);

/* --- matrix --- */

AMGX_RC AMGX_matrix_create(AMGX_matrix_handle *mtx, AMGX_resources_handle rsc, AMGX_Mode mode);
AMGX_RC AMGX_matrix_destroy(AMGX_matrix_handle mtx);
/* n block rows with nnz square blocks of 1 to 8 rows. With diag_data the diagonal blocks are there, and not among the
   others. On several ranks: after maps a part of a matrix over ranks, with columns of this rank first and those of
   the maps after them; without maps a matrix of this rank alone. */
AMGX_RC AMGX_matrix_upload_all(AMGX_matrix_handle mtx, int n, int nnz, int block_dimx, int block_dimy,
                               const int *row_ptrs, const int *col_indices, const void *data, const void *diag_data);
/* New values for the same pattern; with a diagonal of its own, either array may be NULL and then stays. Solves use them at once, the hierarchy after
   AMGX_solver_resetup or AMGX_solver_setup. */
AMGX_RC AMGX_matrix_replace_coefficients(AMGX_matrix_handle mtx, int n, int nnz, const void *data,
                                         const void *diag_data);
AMGX_RC AMGX_matrix_get_size(const AMGX_matrix_handle mtx, int *n, int *block_dimx, int *block_dimy);
AMGX_RC AMGX_matrix_get_nnz(const AMGX_matrix_handle mtx, int *nnz);
/* *diag_data is NULL, or an array for free() when the diagonal was given by itself. */
AMGX_RC AMGX_matrix_download_all(const AMGX_matrix_handle mtx, int *row_ptrs, int *col_indices, void *data,
                                 void **diag_data);
/* Over ranks on the host, with all of x on every rank. */
AMGX_RC AMGX_matrix_vector_multiply(AMGX_matrix_handle mtx, AMGX_vector_handle x, AMGX_vector_handle y);
/* Whether the pattern, and the values to the last bit, are symmetric. Not there over ranks. */
AMGX_RC AMGX_matrix_check_symmetry(AMGX_matrix_handle mtx, int *structurally_symmetric, int *symmetric);
AMGX_RC AMGX_matrix_check_diag_dominant(const AMGX_matrix_handle mtx, int *diag_dominant);
/* Checked, and not used: no selector here needs coordinates, and colours are chosen by the library. */
AMGX_RC AMGX_matrix_attach_geometry(AMGX_matrix_handle mtx, double *geox, double *geoy, double *geoz, int n);
AMGX_RC AMGX_matrix_attach_coloring(AMGX_matrix_handle mtx, int *row_coloring, int num_rows, int num_colors);

/* --- vector --- */

AMGX_RC AMGX_vector_create(AMGX_vector_handle *vec, AMGX_resources_handle rsc, AMGX_Mode mode);
AMGX_RC AMGX_vector_destroy(AMGX_vector_handle vec);
AMGX_RC AMGX_vector_upload(AMGX_vector_handle vec, int n, int block_dim, const void *data);
AMGX_RC AMGX_vector_set_zero(AMGX_vector_handle vec, int n, int block_dim);
/* n numbers from 0 to 1, the same every time. */
AMGX_RC AMGX_vector_set_random(AMGX_vector_handle vec, int n);
AMGX_RC AMGX_vector_download(const AMGX_vector_handle vec, void *data);
AMGX_RC AMGX_vector_get_size(const AMGX_vector_handle vec, int *n, int *block_dim);
/* Compares the modes; a vector has the rows of this rank, in their order, with or without it. */
AMGX_RC AMGX_vector_bind(AMGX_vector_handle vec, const AMGX_matrix_handle mtx);

/* --- solver --- */

AMGX_RC AMGX_solver_create(AMGX_solver_handle *slv, AMGX_resources_handle rsc, AMGX_Mode mode,
                           const AMGX_config_handle cfg_solver);
AMGX_RC AMGX_solver_destroy(AMGX_solver_handle slv);
AMGX_RC AMGX_solver_setup(AMGX_solver_handle slv, AMGX_matrix_handle mtx);
/* For new values of the same matrix: an update of the hierarchy. For another matrix, or one that was uploaded anew, a set-up. */
AMGX_RC AMGX_solver_resetup(AMGX_solver_handle slv, AMGX_matrix_handle mtx);
/* From the content of sol. A solve that does not reach its tolerance is AMGX_RC_OK: see AMGX_solver_get_status. */
AMGX_RC AMGX_solver_solve(AMGX_solver_handle slv, AMGX_vector_handle rhs, AMGX_vector_handle sol);
AMGX_RC AMGX_solver_solve_with_0_initial_guess(AMGX_solver_handle slv, AMGX_vector_handle rhs, AMGX_vector_handle sol);
AMGX_RC AMGX_solver_get_iterations_number(AMGX_solver_handle slv, int *n);
/* The norm of the residual after iteration it, 0 for the initial one, with store_res_history=1; idx is 0. */
AMGX_RC AMGX_solver_get_iteration_residual(AMGX_solver_handle slv, int it, int idx, double *res);
AMGX_RC AMGX_solver_get_status(AMGX_solver_handle slv, AMGX_SOLVE_STATUS *st);
/* One norm in the format of vectors with use_scalar_norm=1, otherwise one for each component of a block. */
AMGX_RC AMGX_solver_calculate_residual_norm(AMGX_solver_handle solver, AMGX_matrix_handle mtx, AMGX_vector_handle rhs,
                                            AMGX_vector_handle x, void *norm_vector);

/* --- files --- */

/* Matrix Market with the line %%AMGX, or the binary form. Each handle may be NULL, not all. A right-hand side that is not in the file is ones, or
   A times ones with rhs_from_a=1; a solution that is not in it is zeros. */
AMGX_RC AMGX_read_system(AMGX_matrix_handle mtx, AMGX_vector_handle rhs, AMGX_vector_handle sol, const char *filename);
/* In the form that matrix_writer names; rhs and sol may be NULL. A matrix over ranks is gathered, and
   written by rank 0. */
AMGX_RC AMGX_write_system(const AMGX_matrix_handle mtx, const AMGX_vector_handle rhs, const AMGX_vector_handle sol,
                          const char *filename);

/* --- several ranks --- */

/* Every rank makes these calls, and set-up, solve and residual of what they make, in the same order. What is wrong on
   one rank, but for a handle, is an error on all; on the others the sentence begins with the rank. Rows are numbered by
   rank and then as the caller numbers them, so that any partition will do; a rank may have no rows. docs/distributed.md
   says what is not there over ranks. */

AMGX_RC AMGX_distribution_create(AMGX_distribution_handle *dist, AMGX_config_handle cfg);
AMGX_RC AMGX_distribution_destroy(AMGX_distribution_handle dist);
/* The rank of each row of the whole matrix, or the first row of each rank and the number of all rows, as wide as
   columns. The array must stay until it is replaced or the distribution is destroyed; NULL is none: then rank 0 has
   the first rows, and so on. */
AMGX_RC AMGX_distribution_set_partition_data(AMGX_distribution_handle dist, AMGX_DIST_PARTITION_INFO info,
                                             const void *partition_data);
AMGX_RC AMGX_distribution_set_32bit_colindices(AMGX_distribution_handle dist, int use32bit);
/* Columns have 64 bits, with _32 32 bits, and in the last as the distribution says. A rank gives its rows in
   ascending order. */
AMGX_RC AMGX_matrix_upload_all_global(AMGX_matrix_handle mtx, int n_global, int n, int nnz, int block_dimx,
                                      int block_dimy, const int *row_ptrs, const void *col_indices_global,
                                      const void *data, const void *diag_data, int allocated_halo_depth,
                                      int num_import_rings, const int *partition_vector);
AMGX_RC AMGX_matrix_upload_all_global_32(AMGX_matrix_handle mtx, int n_global, int n, int nnz, int block_dimx,
                                         int block_dimy, const int *row_ptrs, const void *col_indices_global,
                                         const void *data, const void *diag_data, int allocated_halo_depth,
                                         int num_import_rings, const int *partition_vector);
AMGX_RC AMGX_matrix_upload_distributed(AMGX_matrix_handle mtx, int n_global, int n, int nnz, int block_dimx,
                                       int block_dimy, const int *row_ptrs, const void *col_indices_global,
                                       const void *data, const void *diag_data, AMGX_distribution_handle distribution);
/* For the next AMGX_matrix_upload_all: the rows that go to each neighbour, and the columns from n on that come from
   it. Maps of further rings are refused; the library fetches what it needs. */
AMGX_RC AMGX_matrix_comm_from_maps(AMGX_matrix_handle mtx, int allocated_halo_depth, int num_import_rings,
                                   int max_num_neighbors, const int *neighbors, const int *send_ptrs,
                                   const int *send_maps, const int *recv_ptrs, const int *recv_maps);
AMGX_RC AMGX_matrix_comm_from_maps_one_ring(AMGX_matrix_handle mtx, int allocated_halo_depth, int num_neighbors,
                                            const int *neighbors, const int *send_sizes, const int **send_maps,
                                            const int *recv_sizes, const int **recv_maps);
AMGX_RC AMGX_matrix_set_boundary_separation(AMGX_matrix_handle mtx, int boundary_separation);
/* The 7-point Laplacian, diagonal 6, of px x py x pz boxes of nx x ny x nz points, one for each rank, with a
   right-hand side of ones and a solution of zeros; rhs and sol may be NULL. */
AMGX_RC AMGX_generate_distributed_poisson_7pt(AMGX_matrix_handle mtx, AMGX_vector_handle rhs, AMGX_vector_handle sol,
                                              int allocated_halo_depth, int num_import_rings, int nx, int ny, int nz,
                                              int px, int py, int pz);
/* The rows that partition_vector gives to this rank; without one, ranges of partition_sizes rows, or even ones. Of
   several partitions for each rank, consecutive ones are its. Every rank reads the file. */
AMGX_RC AMGX_read_system_distributed(AMGX_matrix_handle mtx, AMGX_vector_handle rhs, AMGX_vector_handle sol,
                                     const char *filename, int allocated_halo_depth, int num_partitions,
                                     const int *partition_sizes, int partition_vector_size,
                                     const int *partition_vector);
/* Rank 0 writes the rows in the order of the whole matrix. After maps the partition says what that is. */
AMGX_RC AMGX_write_system_distributed(const AMGX_matrix_handle mtx, const AMGX_vector_handle rhs,
                                      const AMGX_vector_handle sol, const char *filename, int allocated_halo_depth,
                                      int num_partitions, const int *partition_sizes, int partition_vector_size,
                                      const int *partition_vector);
/* The same rows as arrays on the host for free(); columns are int64_t. */
AMGX_RC AMGX_read_system_global(int *n, int *nnz, int *block_dimx, int *block_dimy, int **row_ptrs,
                                void **col_indices_global, void **data, void **diag_data, void **rhs, void **sol,
                                AMGX_resources_handle rsc, AMGX_Mode mode, const char *filename,
                                int allocated_halo_depth, int num_partitions, const int *partition_sizes,
                                int partition_vector_size, const int *partition_vector);
/* The same with local columns and maps, for AMGX_free_system_maps_one_ring. On one rank there are no neighbours. */
AMGX_RC AMGX_read_system_maps_one_ring(int *n, int *nnz, int *block_dimx, int *block_dimy, int **row_ptrs,
                                       int **col_indices, void **data, void **diag_data, void **rhs, void **sol,
                                       int *num_neighbors, int **neighbors, int **send_sizes, int ***send_maps,
                                       int **recv_sizes, int ***recv_maps, AMGX_resources_handle rsc, AMGX_Mode mode,
                                       const char *filename, int allocated_halo_depth, int num_partitions,
                                       const int *partition_sizes, int partition_vector_size,
                                       const int *partition_vector);
AMGX_RC AMGX_free_system_maps_one_ring(int *row_ptrs, int *col_indices, void *data, void *diag_data, void *rhs,
                                       void *sol, int num_neighbors, int *neighbors, int *send_sizes, int **send_maps,
                                       int *recv_sizes, int **recv_maps);

#ifdef __cplusplus
}
#endif

#endif
