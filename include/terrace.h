/*
 * terrace.h: the C interface of Terrace, algebraic multigrid. Generated from src/capi; do not edit.
 *
 * Memory: pointers are to host memory, but where a function says that it takes device memory, too. Handles are made by the library and destroyed by the function that ends in _destroy; objects may
 * be destroyed in any order. An argument that must not be NULL and is gives TERRACE_ERROR_NULL_ARGUMENT. Any other pointer must be valid
 * during the call, and aligned as C aligns its type.
 *
 * Errors: every function returns a terrace_status. terrace_last_error has the sentence of the last call of a context that did not succeed.
 * When a call fails, nothing that was passed to it has changed, but for the vectors of a solve. The library does not abort, exit, print or
 * install signal handlers; panics inside become TERRACE_ERROR_INTERNAL.
 *
 * Processes: in a child of fork the objects of the parent give TERRACE_ERROR_INVALID_ARGUMENT, since threads and devices are not in it; it
 * makes a context of its own. Matrices on the host may be used there, and everything may be destroyed.
 *
 * Arithmetic: a program may trap floating-point exceptions, flush small numbers to zero or round in another direction. The library computes
 * in the default environment and restores the caller's at the end of each call, and during callbacks.
 *
 * Blocking: every call returns when its work is done, but for vectors in device memory and a stream of the caller's; see
 * terrace_context_set_stream.
 *
 * Threads: a context, and the objects made from it, are used by one thread at a time; different contexts are used freely at the same time. A
 * solver or hierarchy that is in use, as in its own callbacks, gives TERRACE_ERROR_INVALID_ARGUMENT. A matrix may be used through several contexts at the same time, as long as nobody changes it meanwhile.
 *
 * Text out: functions that give a text take (char *buf, size_t len, size_t *needed). needed, which may be NULL, gets the bytes that the text
 * takes with its final NUL. At most len bytes are written, always with a final NUL when len is not 0; a text that does not fit is cut, and
 * the call still succeeds. buf may be NULL when len is 0. Text is UTF-8.
 */

/*
 * Keys of a report, for terrace_report_get_int, _real and _str:
 *
 *   index not used:
 *   levels                         number of levels
 *   operator_complexity            stored values of all level matrices over those of the finest
 *   grid_complexity                rows of all levels over those of the finest
 *   bytes                          bytes that the library holds for hierarchy and solver, with its copy of the solver's matrix; lent arrays do not count
 *   device_bytes                   bytes of device memory that the context holds, with all that was made from it; 0 on the host
 *   device_peak_bytes              the most of them at one time
 *   device                         device of the context
 *   threads                        threads of the context
 *   solver                         Krylov method, or direct, and its precision
 *   factorisation                  how the matrix was factorised by solver.type direct, or by auto after or instead of iterations of the Krylov method, with what the pivots tell about it; empty where it was not
 *   factor_nonzeros                entries of the triangular factors; 0 where the matrix was not factorised
 *   fsai_nonzeros                  entries of the factors of an FSAI preconditioner; 0 without one
 *   fsai_precision                 storage of these factors; empty without one
 *   fsai_breakdowns                rows of these factors, or of those of the smoothers of all levels, on whose pattern the matrix is not positive definite, or has no pivots if it is not symmetric: with a pattern that is given, as in updates, such a row is that of its diagonal; an adaptive one keeps the entries that it had
 *   right_hand_sides               right-hand sides of the last solve
 *   setup_seconds                  whole set-up or update
 *   promotions                     what precision auto gave wider formats since set-up, and why, one to a line
 *   update_kept_levels             levels whose coarse unknowns the last update kept: all but the coarsest, or with amg.update.coarsening recheck those above the first for which the new values lead to others; 0 before the first update
 *   update_anew                    1 when the last update set up anew from the level after these on, else 0
 *   preconditioner_age             changes of the values of the matrix since the last set-up or update of the preconditioner: calls of terrace_matrix_update_values, and solves that found borrowed values changed in place
 *   setup_choice                   which components of AMG the matrix has led to, and why; empty where an option names one
 *   setup_place                    where the hierarchy was computed: host, with the reason when the context is on a GPU, or device, with how often the host waited for it
 *   reorder                        whether the unknowns were renumbered (amg.reorder), with the locality before and after; empty where set-up did not look
 *   reordered                      1 where the unknowns were renumbered, else 0
 *   locality_before                bytes of x that a chunk of 1024 rows touches for each row in the caller's order, in cache lines of 64 bytes; 0 where set-up did not look
 *   locality_after                 the same in the order of a breadth-first search, whether that was chosen or not; 0 where it was not computed
 *   ranks                          ranks that have rows of the matrix; 1 without a communicator
 *   rank_rows_min                  the fewest rows of the matrix on a rank; 0 without ranks
 *   rank_rows_mean                 the mean of the rows of the matrix on a rank; 0 without ranks
 *   rank_rows_max                  the most rows of the matrix on a rank; 0 without ranks
 *   rank_nonzeros_min              the fewest stored values of these rows; 0 without ranks
 *   rank_nonzeros_mean             the mean of the stored values of these rows; 0 without ranks
 *   rank_nonzeros_max              the most stored values of these rows; 0 without ranks
 *   rank_halo_min                  the fewest elements that a rank receives for a product with the matrix; 0 without ranks
 *   rank_halo_mean                 the mean of the elements that a rank receives for a product with the matrix; 0 without ranks
 *   rank_halo_max                  the most elements that a rank receives for a product with the matrix; 0 without ranks
 *   rank_neighbours_min            the fewest ranks that it receives them from; 0 without ranks
 *   rank_neighbours_mean           the mean of the ranks that it receives them from; 0 without ranks
 *   rank_neighbours_max            the most ranks that it receives them from; 0 without ranks
 *   rank_bytes_min                 the fewest bytes that the library holds on a rank after set-up; 0 without ranks
 *   rank_bytes_mean                the mean of the bytes that the library holds on a rank after set-up; 0 without ranks
 *   rank_bytes_max                 the most bytes that the library holds on a rank after set-up; 0 without ranks
 *   setup_reorder_seconds          measure of locality, and renumbering
 *   setup_grid_seconds             search for a grid that the rows of the matrix show, and its copy as a stencil
 *   setup_plan_seconds             choice of number formats
 *   setup_strength_seconds         strength of connection
 *   setup_coarsen_seconds          choice of coarse unknowns
 *   setup_interpolation_seconds    interpolation and its transpose
 *   setup_galerkin_seconds         coarse matrices
 *   setup_smoother_seconds         smoothers
 *   setup_fsai_seconds             factors of an FSAI preconditioner
 *   setup_coarsest_seconds         factorisation of the coarsest level
 *   solve_seconds                  whole last solve
 *   solve_operator_seconds         products with the matrix in the Krylov method
 *   solve_preconditioner_seconds   preconditioner applications
 *   solve_factorisation_seconds    factorisation after the Krylov method failed
 *
 *   index is the level, 0 the finest:
 *   rows                           rows
 *   nonzeros                       stored values of the matrix
 *   level_bytes                    bytes that the library holds for the level
 *   format                         storage format of the matrix
 *   matrix_precision               storage of the matrix
 *   vector_precision               working vectors
 *   transfer_precision             storage of interpolation and restriction to the next level; that of the matrix on the coarsest level, which has none
 *   smoother_precision             storage of the smoother's data
 *   precision_reason               why the formats are what they are, where the options left them open; else empty
 *   smoother                       smoother, or solver of the coarsest level
 *   level_rank_rows_min            the least on a rank of the rows of the level; 0 without ranks
 *   level_rank_rows_mean           the mean over ranks of the rows of the level; 0 without ranks
 *   level_rank_rows_max            the most on a rank of the rows of the level; 0 without ranks
 *   level_rank_nonzeros_min        the least on a rank of the stored values of its rows of the matrix; 0 without ranks
 *   level_rank_nonzeros_mean       the mean over ranks of the stored values of its rows of the matrix; 0 without ranks
 *   level_rank_nonzeros_max        the most on a rank of the stored values of its rows of the matrix; 0 without ranks
 *   level_rank_received_bytes_min  the least on a rank of the bytes that it receives for a product with the matrix of the level; 0 without ranks
 *   level_rank_received_bytes_mean the mean over ranks of the bytes that it receives for a product with the matrix of the level; 0 without ranks
 *   level_rank_received_bytes_max  the most on a rank of the bytes that it receives for a product with the matrix of the level; 0 without ranks
 *   level_rank_neighbours_min      the least on a rank of the ranks that it receives them from; 0 without ranks
 *   level_rank_neighbours_mean     the mean over ranks of the ranks that it receives them from; 0 without ranks
 *   level_rank_neighbours_max      the most on a rank of the ranks that it receives them from; 0 without ranks
 *   level_rank_bytes_min           the least on a rank of the bytes that the library holds for the level there; 0 without ranks
 *   level_rank_bytes_mean          the mean over ranks of the bytes that the library holds for the level there; 0 without ranks
 *   level_rank_bytes_max           the most on a rank of the bytes that the library holds for the level there; 0 without ranks
 *   pre_sweeps                     sweeps before the coarse correction, or the first half of them where a coarsest level is swept; 0 where it is factorised
 *   post_sweeps                    sweeps after the coarse correction, or the second half
 *
 *   index is the right-hand side of the last solve:
 *   status                         how its solve ended, a number of the status table: TERRACE_NOT_ATTEMPTED where an error of another kind than numeric ended the call before it
 *   iterations                     iterations of the Krylov method, and solves with the factors of the matrix, refinement included
 *   direct_solves                  solves with the factors of the matrix among them: all with solver.type direct, some where auto turned from the Krylov method to a factorisation
 *   method                         what it was solved by: the Krylov method, direct, or both, as in "cg, then direct"
 *   converged                      1 when the tolerance was reached, else 0
 *   true_residual                  norm of b - A x, recomputed, over the norm of b
 */

#ifndef TERRACE_H
#define TERRACE_H

#include <stddef.h>
#include <stdint.h>

/** Version of this header; terrace_version gives that of the loaded library. */
#define TERRACE_VERSION_STRING "0.1.0"
#define TERRACE_VERSION_MAJOR 0
#define TERRACE_VERSION_MINOR 1
#define TERRACE_VERSION_PATCH 0

/** the call succeeded */
#define TERRACE_SUCCESS 0

/** the iterations ended before the tolerance was reached; the best iterate was returned */
#define TERRACE_NOT_CONVERGED 1

/** the residual norm no longer falls and has not reached the tolerance; the best iterate was returned */
#define TERRACE_STAGNATED 2

/** a right-hand side was not attempted; only reports have this status */
#define TERRACE_NOT_ATTEMPTED 3

/** a monitor of the caller ended the solve; the iterate at that moment was returned */
#define TERRACE_STOPPED 4

/** argument error: an argument that must not be null is null */
#define TERRACE_ERROR_NULL_ARGUMENT (-1)

/** argument error: an argument has a value outside of what is accepted */
#define TERRACE_ERROR_INVALID_ARGUMENT (-2)

/** argument error: sizes that must agree do not */
#define TERRACE_ERROR_SIZE_MISMATCH (-3)

/** argument error: no option has this key */
#define TERRACE_ERROR_UNKNOWN_OPTION (-4)

/** argument error: the option does not accept this value */
#define TERRACE_ERROR_OPTION_VALUE (-5)

/** argument error: the chosen backend or this version cannot do this */
#define TERRACE_ERROR_UNSUPPORTED (-6)

/** argument error: the object has not been set up yet */
#define TERRACE_ERROR_NOT_SET_UP (-7)

/** matrix error: the row offsets or columns of the matrix are malformed */
#define TERRACE_ERROR_MATRIX_STRUCTURE (-8)

/** matrix error: a value of the matrix is not finite, a diagonal entry that AMG needs is missing or zero, or the diagonal is negative */
#define TERRACE_ERROR_MATRIX_VALUES (-9)

/** numeric error: the Krylov method broke down; the matrix or the preconditioner lacks a property that the method needs */
#define TERRACE_ERROR_BREAKDOWN (-10)

/** numeric error: a non-finite number appeared in the solve */
#define TERRACE_ERROR_NON_FINITE (-11)

/** resource error: memory could not be allocated */
#define TERRACE_ERROR_OUT_OF_MEMORY (-12)

/** resource error: the device string names no device that this library can use */
#define TERRACE_ERROR_DEVICE (-13)

/** resource error: a file could not be read or written */
#define TERRACE_ERROR_IO (-14)

/** argument error: a text is not in the expected format */
#define TERRACE_ERROR_PARSE (-15)

/** internal error: a callback of the caller returned a non-zero value */
#define TERRACE_ERROR_CALLBACK (-16)

/** numeric error: a level cannot be stored in the precision that was asked for */
#define TERRACE_ERROR_PRECISION_LOST (-18)

/** numeric error: the residual norm grew far beyond that of the right-hand side; the best iterate was returned */
#define TERRACE_ERROR_DIVERGED (-19)

/** internal error: an internal error was caught at the boundary of the library */
#define TERRACE_ERROR_INTERNAL (-17)



/**
 * As the level of `terrace_config_set_level`: all levels below the last one named.
 */
#define TERRACE_LAST (-1)

/**
 * The sum of numbers.
 */
#define TERRACE_SUM 0

/**
 * The smallest number.
 */
#define TERRACE_MIN 1

/**
 * The largest number.
 */
#define TERRACE_MAX 2

/**
 * An algebraic multigrid hierarchy that is set up for a matrix. It uses the threads and the log of its context.
 */
typedef struct terrace_amg terrace_amg;

/**
 * A set of option values; what was not set has its default. Keys, accepted values and defaults are in `docs/options.md` and printed by
 * `terrace options`. Solvers and hierarchies take a copy, so a change does not reach those that exist.
 */
typedef struct terrace_config terrace_config;

/**
 * A device with its threads, its log and the sentence of its last error. One thread at a time uses a context and the objects made from
 * it; different contexts are independent. Objects made from a context stay valid when it is destroyed.
 */
typedef struct terrace_context terrace_context;

/**
 * A factorised sparse approximate inverse (FSAI) that is set up for a matrix A: M = Gᵀ G with a sparse lower triangular G for which G A Gᵀ is
 * close to the identity, or, where A is not symmetric, M = Hᵀ G with G A Hᵀ close to it. It uses the threads and the log of its context.
 */
typedef struct terrace_fsai terrace_fsai;

/**
 * A sparse matrix. It does not belong to a context: any number of contexts, solvers and threads may use it at once, as long as nobody
 * changes or destroys it meanwhile. What was set up with it keeps what it needs when it is destroyed; borrowed arrays must stay.
 */
typedef struct terrace_matrix terrace_matrix;

/**
 * A snapshot of what a set-up and the last solve did; it does not change when the solver goes on. Its keys are listed at the
 * top of this file.
 */
typedef struct terrace_report terrace_report;

/**
 * A Krylov method with its preconditioner. It uses the threads and the log of its context.
 */
typedef struct terrace_solver terrace_solver;

/**
 * Result of every function: 0 (`TERRACE_SUCCESS`) is success, positive a condition that a caller may accept, negative an error. The
 * sentence that names the argument and what would be accepted is in `terrace_last_error`.
 */
typedef int32_t terrace_status;

/**
 * How much a context reports to its log callback; each level includes the ones before it.
 */
typedef int32_t terrace_log_level;

/**
 * Receives log lines, one call for each, without a line end. `message` is valid during the call only. Called on the thread that called
 * the library. It must return normally: no `longjmp`, no C++ exception, no call that uses the same object.
 */
typedef void (*terrace_log_callback)(terrace_log_level level, const char *message, void *user);

/**
 * Number format of an array: `TERRACE_F64`, `TERRACE_F32` for values, `TERRACE_I32`, `TERRACE_I64` for indices; for
 * `terrace_config_set_level` also `TERRACE_F16`, `TERRACE_BF16`, `TERRACE_INPUT` and `TERRACE_AUTO`.
 */
typedef int32_t terrace_type;

/**
 * How a matrix takes its arrays: bits of `TERRACE_COPY`, `TERRACE_BORROW` and `TERRACE_SORTED`, joined with `|`.
 */
typedef uint32_t terrace_matrix_flags;

/**
 * Gives the rank or the number of ranks.
 */
typedef int32_t (*terrace_rank_callback)(void *user);

/**
 * Begins to send a message. The bytes stay until `wait_all` of the request has returned.
 */
typedef int32_t (*terrace_send_callback)(void *user,
                                         const void *data,
                                         size_t bytes,
                                         int32_t to,
                                         int32_t tag,
                                         void **request);

/**
 * Begins to receive a message of so many bytes, which are written when `wait_all` of the request returns.
 */
typedef int32_t (*terrace_receive_callback)(void *user,
                                            void *data,
                                            size_t bytes,
                                            int32_t from,
                                            int32_t tag,
                                            void **request);

/**
 * Waits for all of these requests. Once it has returned, also with an error, none of them writes to its bytes any more: these are then freed.
 */
typedef int32_t (*terrace_wait_all_callback)(void *user, int32_t count, void **requests);

/**
 * Reduces each of `count` numbers over all ranks, by `TERRACE_SUM`, `TERRACE_MIN` or `TERRACE_MAX`.
 */
typedef int32_t (*terrace_all_reduce_callback)(void *user,
                                               const int64_t *own,
                                               int64_t *all,
                                               int32_t count,
                                               int32_t operation);

/**
 * Gathers the bytes of all ranks: those of rank r are `lengths[r]` and go to `all + offsets[r]`.
 */
typedef int32_t (*terrace_all_gather_callback)(void *user,
                                               const void *own,
                                               size_t bytes,
                                               void *all,
                                               const size_t *lengths,
                                               const size_t *offsets);

/**
 * Returns when every rank has called it.
 */
typedef int32_t (*terrace_barrier_callback)(void *user);

/**
 * Makes a communicator of the same ranks, whose messages do not meet those of this one, in `copy`, which is a
 * `terrace_communicator *`.
 */
typedef int32_t (*terrace_duplicate_callback)(void *user, void *copy);

/**
 * Ends the use of a communicator, or makes it fail on all ranks.
 */
typedef void (*terrace_end_callback)(void *user);

/**
 * Lets each later wait of this rank take at most so many seconds; 0 is without end.
 */
typedef int32_t (*terrace_timeout_callback)(void *user, double seconds);

/**
 * Communication of the ranks of a program, as a table of functions. `include/terrace_mpi.h` fills it for an MPI communicator,
 * `terrace_threads_communicator` for the threads of one process. Each function gets `user`. Where a function returns a number other than 0,
 * the call of the library fails with `TERRACE_ERROR_CALLBACK`, and the communicator is of no more use; nothing is aborted.
 *
 * The functions are called on the thread that called the library; with a context of several threads, those of set-up on one of these, while
 * the caller waits. No two are called at a time, but for `free`. `send`, `receive` and `wait_all` concern two ranks; messages
 * between two of them with one tag arrive in the order in which they were sent. The others but `rank`, `size`, `revoke`, `timeout` and `free` are
 * collective: every rank calls them, in the same order.
 */
typedef struct {
    /**
     * Handed to each function as it is.
     */
    void *user;
    /**
     * This rank, from 0 on.
     */
    terrace_rank_callback rank;
    /**
     * The number of ranks.
     */
    terrace_rank_callback size;
    /**
     * Begins to send.
     */
    terrace_send_callback send;
    /**
     * Begins to receive.
     */
    terrace_receive_callback receive;
    /**
     * Waits for messages.
     */
    terrace_wait_all_callback wait_all;
    /**
     * Reduces numbers.
     */
    terrace_all_reduce_callback all_reduce;
    /**
     * Gathers bytes.
     */
    terrace_all_gather_callback all_gather;
    /**
     * Waits for all ranks.
     */
    terrace_barrier_callback barrier;
    /**
     * Makes another communicator.
     */
    terrace_duplicate_callback duplicate;
    /**
     * Called when this rank cannot go on: what other ranks wait for in this communicator then fails, now and later, as do the messages of this
     * rank that are under way. NULL where that cannot be done; a failure on one rank may then leave it and the others waiting.
     */
    terrace_end_callback revoke;
    /**
     * Frees what `user` leads to.
     */
    terrace_end_callback free;
    /**
     * Called before set-up and solves with the seconds of the option `comm.timeout`: what takes longer then fails, on this rank and on the
     * others. NULL where that cannot be done; the option is then refused.
     */
    terrace_timeout_callback timeout;
} terrace_communicator;

/**
 * Order of the values of a stencil: `TERRACE_BY_OFFSET` or `TERRACE_BY_CELL`.
 */
typedef int32_t terrace_stencil_layout;

/**
 * Part of a level whose precision can be chosen: one of the `TERRACE_LEVEL_` constants.
 */
typedef int32_t terrace_level_part;

/**
 * y = A x (operator) or y = M x (preconditioner) of the caller. x and y have n elements in the precision of the solver (option
 * `solver.precision`); y is overwritten and not initialised. They are on the host, and with a context on a GPU in its memory: what the
 * callback launches on the stream of `terrace_context_set_stream` is in order; where the context has no stream of the caller's, x is
 * complete when the callback begins, and what it launches on the default stream comes before what follows, so that it need not wait. A
 * result other than 0 ends the solve with `TERRACE_ERROR_CALLBACK`. Called on the thread that called `terrace_solver_solve`. It must return
 * normally: no `longjmp`, no C++ exception, no call that uses the same solver.
 */
typedef int32_t (*terrace_apply_callback)(int64_t n, const void *x, void *y, void *user);

/**
 * Told the norm of the residual over that of b after each iteration, and before the first one as iteration 0, for the right-hand side of
 * this index. A result other than 0 ends the solve of this right-hand side with `TERRACE_STOPPED`. Called on the thread that called
 * `terrace_solver_solve`. It must return normally: no `longjmp`, no C++ exception, no call that uses the same solver.
 */
typedef int32_t (*terrace_monitor_callback)(int64_t right_hand_side, int64_t iteration, double residual, void *user);

/**
 * Where a solve starts.
 */
typedef int32_t terrace_guess;

/**
 * IEEE 754 binary64, `double`.
 */
#define TERRACE_F64 0

/**
 * IEEE 754 binary32, `float`.
 */
#define TERRACE_F32 1

/**
 * IEEE 754 binary16, for parts of levels. No array of a caller has it: there it gives `TERRACE_ERROR_UNSUPPORTED`.
 */
#define TERRACE_F16 2

/**
 * bfloat16, for parts of levels. No array of a caller has it: there it gives `TERRACE_ERROR_UNSUPPORTED`.
 */
#define TERRACE_BF16 3

/**
 * `int32_t`.
 */
#define TERRACE_I32 16

/**
 * `int64_t`.
 */
#define TERRACE_I64 17

/**
 * Precision of a level: chosen by set-up.
 */
#define TERRACE_AUTO (-1)

/**
 * Precision of a level: that of the matrix that is handed over.
 */
#define TERRACE_INPUT (-2)

/**
 * The level's matrix.
 */
#define TERRACE_LEVEL_MATRIX 0

/**
 * The working vectors of the cycle.
 */
#define TERRACE_LEVEL_VECTOR 1

/**
 * The smoother's data.
 */
#define TERRACE_LEVEL_SMOOTHER 2

/**
 * Interpolation to and restriction from this level and the next coarser one.
 */
#define TERRACE_LEVEL_TRANSFER 3

/**
 * Nothing.
 */
#define TERRACE_LOG_OFF 0

/**
 * What a caller should look at, though the call succeeds.
 */
#define TERRACE_LOG_WARNING 1

/**
 * One line for each phase.
 */
#define TERRACE_LOG_INFO 2

/**
 * One line for each level and iteration.
 */
#define TERRACE_LOG_DEBUG 3

/**
 * The arrays are copied; they may be changed or freed when the call returns.
 */
#define TERRACE_COPY 0

/**
 * The arrays are used where they are. They must stay allocated until the matrix and everything set up with it are destroyed. Values
 * may be changed between calls (see `terrace_matrix_update_values`), offsets and columns not.
 */
#define TERRACE_BORROW 1

/**
 * Promise that the columns ascend in each row; it is checked.
 */
#define TERRACE_SORTED 2

/**
 * One array over all cells for each offset and each entry of its blocks, row by row.
 */
#define TERRACE_BY_OFFSET 0

/**
 * All values of a cell together, offset by offset, each block row by row.
 */
#define TERRACE_BY_CELL 1

/**
 * From zero; the content of x is not read.
 */
#define TERRACE_ZERO_GUESS 0

/**
 * From the content of x.
 */
#define TERRACE_GIVEN_GUESS 1

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that is loaded; compare it with `TERRACE_VERSION_MAJOR` and its siblings, which are those of the header.
 *
 * - `major`, `minor`, `patch`: host, written; each may be NULL.
 *
 * Does not fail. May be called from any thread at any time.
 */
terrace_status terrace_version(int32_t *major,
                               int32_t *minor,
                               int32_t *patch);

/**
 * The name of a status, like "TERRACE_ERROR_NULL_ARGUMENT".
 *
 * Returns a static text, never NULL; "TERRACE_ERROR_UNKNOWN" for a number that is no status. Do not free it. May be called from any
 * thread at any time.
 */
const char *terrace_status_name(terrace_status status);

/**
 * What a status means in general; the details of a failure are in `terrace_last_error`.
 *
 * Returns a static text, never NULL. Do not free it. May be called from any thread at any time.
 */
const char *terrace_status_sentence(terrace_status status);

/**
 * Makes a context.
 *
 * - `device`: NUL-terminated text, host: "host" for the CPU with every core that the process may use, "host:N" for N threads, as many as `terrace_context_set_threads` accepts; "cuda" or
 *   "cuda:N" for an NVIDIA GPU by its number, "hip" or "hip:N" for an AMD GPU; "sim" for a simulated GPU, "sim:1" for one that runs threads in the opposite order. On a GPU,
 *   set-up, update and solve run there; a set-up of which a component is for the host alone runs on every core and is copied there (option
 *   "amg.setup"). NULL is "host".
 * - `context`: host, written on success; destroy it with `terrace_context_destroy`.
 *
 * Returns when its threads are started. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_DEVICE`,
 * `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_OUT_OF_MEMORY`; as there is no context yet, their sentence is read with
 * `terrace_last_error(NULL, ...)` on the same thread. May be called from any thread.
 */
terrace_status terrace_context_create(const char *device,
                                      terrace_context **context);

/**
 * Destroys a context.
 *
 * - `context`: NULL is fine. Objects made from it stay valid and keep its threads, its log and its last error until they are destroyed.
 *
 * Does not fail. One thread at a time for each context.
 */
terrace_status terrace_context_destroy(terrace_context *context);

/**
 * Changes the number of threads. Results do not depend on it, to the bit.
 *
 * - `context`: not NULL.
 * - `threads`: 1 to 256, or up to 4 for each processor of the machine where that is more; 1 runs everything on the calling thread.
 *
 * Returns when the threads are started. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_OUT_OF_MEMORY`. One thread at a time
 * for each context.
 */
terrace_status terrace_context_set_threads(terrace_context *context,
                                           int32_t threads);

/**
 * The number of threads.
 *
 * - `context`: not NULL.
 * - `threads`: host, written.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_context_get_threads(const terrace_context *context, int32_t *threads);

/**
 * Sends log lines to a callback. A new context has no log, and the library never writes to stdout or stderr.
 *
 * - `context`: not NULL.
 * - `level`: `TERRACE_LOG_OFF`, `TERRACE_LOG_WARNING`, `TERRACE_LOG_INFO` or `TERRACE_LOG_DEBUG`.
 * - `callback`: receives the lines, see `terrace_log_callback`; NULL is silence.
 * - `user`: handed to the callback as it is; it must stay valid until another log is set or the context and all objects made from it
 *   are destroyed.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_context_set_log(terrace_context *context,
                                       terrace_log_level level,
                                       terrace_log_callback callback,
                                       void *user);

/**
 * Describes the library and the context as a JSON object: version, device, threads, architecture, SIMD instruction sets, devices, and what
 * the build has for GPUs.
 *
 * - `context`: not NULL.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_context_info(const terrace_context *context,
                                    char *buf,
                                    size_t len,
                                    size_t *needed);

/**
 * The sentence of the last call that did not return `TERRACE_SUCCESS`: which argument, which value, what would be accepted. A
 * successful call leaves it as it is, and so does this function. It is empty when there was no such call.
 *
 * - `context`: the context that was passed to that call, or that the object of the call was made from. NULL asks for the calls of this
 *   thread, whatever their context: this is the way to the sentence of `terrace_context_create`, and of a call whose first argument was
 *   NULL, and the simplest way directly after any call.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT` for a NULL `buf` with a `len` other than 0. One thread at a time for each context; it may be
 * called from a callback.
 */
terrace_status terrace_last_error(const terrace_context *context,
                                  char *buf,
                                  size_t len,
                                  size_t *needed);

/**
 * Panics inside the library, to check that a build turns panics into errors: returns `TERRACE_ERROR_INTERNAL`, prints nothing, and the
 * context works as before.
 *
 * - `context`: not NULL.
 *
 * One thread at a time for each context.
 */
terrace_status terrace_context_raise_panic(terrace_context *context);

/**
 * Makes a sentence of a wrapper in another language the last error of a context, so that what the wrapper checks reads like
 * what the library checks.
 *
 * - `context`: not NULL.
 * - `status`: the error, a negative number of the status table.
 * - `message`: host, which argument, which value, what would be accepted; copied.
 *
 * Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
 * context.
 */
terrace_status terrace_context_set_error(terrace_context *context,
                                         terrace_status status,
                                         const char *message);

/**
 * Puts the work of a context on a GPU on a stream of the caller's.
 *
 * - `context`: not NULL; on a GPU.
 * - `stream`: a `CUstream`, `cudaStream_t` or `hipStream_t` of the context's GPU, as the address that it is; the default stream of the
 *   legacy kind is `CU_STREAM_LEGACY`, the address 1. It must live until another is set, or until the context and all objects made from it
 *   are destroyed. NULL goes back to a stream of the library's own, which is how a context begins. A simulated GPU takes any address as the
 *   name of a stream, and holds back what is on it until something waits for it.
 *
 * From then on everything that the objects of the context do on the device is done on this stream, in the order of the calls, and after all
 * that they began before. With vectors in device memory:
 *
 * - `terrace_amg_apply` comes after what was on the stream when it was called, before what the caller puts there afterwards, and returns when
 *   it is on the stream: it does not wait, and allocates nothing. A cycle of the type k does wait, for inner products.
 * - `terrace_solver_solve` waits for the residual norms that it looks at; what it does to x after the last of them is on the stream when it
 *   returns.
 *
 * Errors of the device in work that is under way are told by a later call, at the latest by `terrace_context_synchronize`. Calls with arrays
 * on the host return when their results are there, as without a stream; so do set-up and update.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED` (the context is on the host), `TERRACE_ERROR_DEVICE` (not a stream of
 * this device). One thread at a time for each context.
 */
terrace_status terrace_context_set_stream(terrace_context *context,
                                          void *stream);

/**
 * Waits until everything that the objects of a context have begun on its device is done. On the host there is nothing to wait for.
 *
 * - `context`: not NULL.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_DEVICE` (of work that was under way). One thread at a time for each context.
 */
terrace_status terrace_context_synchronize(terrace_context *context);

/**
 * Limits the device memory that the objects of a context hold together. What would exceed it fails with `TERRACE_ERROR_OUT_OF_MEMORY` and
 * leaves everything as it was.
 *
 * - `context`: not NULL; on a GPU.
 * - `bytes`: 1 or more; 0 is no limit but the memory of the device, which is how a context begins. A limit below what is held only refuses
 *   more.
 *
 * Memory comes from a pool of the context's own. What is freed stays there for the next set-up, and goes back to the system when the last
 * object that holds any is destroyed.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED` (the context is on the host). One
 * thread at a time for each context.
 */
terrace_status terrace_context_set_memory_limit(terrace_context *context,
                                                int64_t bytes);

/**
 * Bytes of device memory that the objects of a context hold together; 0 on the host.
 *
 * - `context`: not NULL.
 * - `used` (now), `peak` (the most at one time), `limit` (0 is none): host, written; each may be NULL.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_context_get_memory(const terrace_context *context, int64_t *used, int64_t *peak, int64_t *limit);

/**
 * Makes a matrix from compressed sparse rows.
 *
 * - `context`: not NULL; its threads check and copy the arrays. The matrix does not belong to it.
 * - `rows`, `cols`: 0 to 2147483647.
 * - `offset_type`: `TERRACE_I32` or `TERRACE_I64`.
 * - `row_offsets`: `rows + 1` elements that begin with `base` and do not decrease; row i has the entries from `row_offsets[i]` to
 *   `row_offsets[i + 1] - 1`, counted from `base`.
 * - `column_type`: `TERRACE_I32` or `TERRACE_I64`.
 * - `columns`: the column of each entry, counted from `base`, each at most once in a row. NULL is accepted when there are none.
 * - `value_type`: `TERRACE_F64` or `TERRACE_F32`.
 * - `values`: the value of each entry, finite. AMG also needs a diagonal without zeros, which its set-up checks. NULL is accepted when
 *   there are none.
 * - `base`: 0 or 1.
 * - `flags`: `TERRACE_COPY` or `TERRACE_BORROW`, with `| TERRACE_SORTED` as a promise that columns ascend in each row. With
 *   `TERRACE_BORROW` nothing is copied, but for columns of `TERRACE_I64`: they are 32-bit inside, so those are narrowed into a copy
 *   while offsets and values stay borrowed.
 * - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
 *
 * Each array is on the host or in the memory of the context's GPU, where it is read in the order of the caller's stream, or else after the
 * default stream. A matrix whose values are in device memory stays there and is set up there, copied or borrowed; offsets, and columns that are
 * not `TERRACE_I32` with base 0, are brought into the library's form in any case.
 *
 * Values that are borrowed may be changed in place between calls, without a call that says so: set-up and `terrace_solver_solve` check and use
 * them as they are, and `terrace_amg_update` and `terrace_solver_update` take them over. In device memory these need this context.
 *
 * Returns when the matrix is checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
 * `TERRACE_ERROR_MATRIX_STRUCTURE` and `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the row, counted from `base`),
 * `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`,
 * `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
 */
terrace_status terrace_matrix_create_csr(terrace_context *context,
                                         int64_t rows,
                                         int64_t cols,
                                         terrace_type offset_type,
                                         const void *row_offsets,
                                         terrace_type column_type,
                                         const void *columns,
                                         terrace_type value_type,
                                         const void *values,
                                         int32_t base,
                                         terrace_matrix_flags flags,
                                         terrace_matrix **matrix);

/**
 * Makes a matrix from coordinates: entries in any order, of which those at the same place are added in the order in which they come, as
 * an assembly leaves them.
 *
 * - `context`: not NULL. The matrix does not belong to it.
 * - `rows`, `cols`: 0 to 2147483647.
 * - `count`: number of entries, 0 or more.
 * - `index_type`: `TERRACE_I32` or `TERRACE_I64`.
 * - `row_indices`, `column_indices`: row and column of each entry, counted from `base`.
 * - `value_type`: `TERRACE_F64` or `TERRACE_F32`.
 * - `values`: the value of each entry; the sums are finite.
 * - `base`: 0 or 1.
 * - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
 *
 * Each array is on the host or in the memory of the context's GPU, and copied; NULL is accepted when there are no entries. The matrix is
 * on the host. `terrace_matrix_update_values` takes its values in the order of `terrace_matrix_get_arrays`: rows, and ascending columns.
 *
 * Returns when the matrix is made. Errors: as `terrace_matrix_create_csr`. One thread at a time for each context.
 */
terrace_status terrace_matrix_create_coo(terrace_context *context,
                                         int64_t rows,
                                         int64_t cols,
                                         int64_t count,
                                         terrace_type index_type,
                                         const void *row_indices,
                                         const void *column_indices,
                                         terrace_type value_type,
                                         const void *values,
                                         int32_t base,
                                         terrace_matrix **matrix);

/**
 * Makes a matrix from compressed sparse rows of square dense blocks.
 *
 * - `context`: not NULL; its threads check and copy the arrays. The matrix does not belong to it.
 * - `block_rows`, `block_cols`: rows and columns of blocks; times `block_size` at most 2147483647.
 * - `block_size`: rows and columns of a block, 1 to 8.
 * - `row_offsets`, `columns`, `base`, `flags`, `matrix` and the types: as in `terrace_matrix_create_csr`, counting blocks.
 * - `values`: `block_size * block_size` values for each block, row by row.
 *
 * Blocking, errors and threads: as `terrace_matrix_create_csr`; rows in sentences are block rows.
 */
terrace_status terrace_matrix_create_bsr(terrace_context *context,
                                         int64_t block_rows,
                                         int64_t block_cols,
                                         int32_t block_size,
                                         terrace_type offset_type,
                                         const void *row_offsets,
                                         terrace_type column_type,
                                         const void *columns,
                                         terrace_type value_type,
                                         const void *values,
                                         int32_t base,
                                         terrace_matrix_flags flags,
                                         terrace_matrix **matrix);

/**
 * Destroys a matrix.
 *
 * - `matrix`: NULL is fine. Hierarchies and solvers that were set up with it keep what they need of it; arrays that it borrowed must
 *   stay until those are destroyed, too.
 *
 * Does not fail. No other thread may use the matrix meanwhile.
 */
terrace_status terrace_matrix_destroy(terrace_matrix *matrix);

/**
 * The size of a matrix in scalars, whatever its blocks.
 *
 * - `context`: not NULL; receives the sentence of an error.
 * - `matrix`: not NULL.
 * - `rows`, `cols`, `nonzeros` (stored values), `block_size`: host, written; each may be NULL.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context; the matrix may be shared.
 */
terrace_status terrace_matrix_get_size(terrace_context *context,
                                       const terrace_matrix *matrix,
                                       int64_t *rows,
                                       int64_t *cols,
                                       int64_t *nonzeros,
                                       int32_t *block_size);

/**
 * Replaces the values and keeps the structure. The next `terrace_solver_solve` of a solver that was set up with the matrix solves with the
 * new values. Preconditioners take them over with `terrace_amg_update` and `terrace_solver_update`, and stay as they are until then. Nothing
 * is changed on failure.
 *
 * - `context`: not NULL; its threads check and copy the values.
 * - `matrix`: not NULL.
 * - `value_type`: as at creation.
 * - `values`: host, or in the memory of the context's GPU, in the order of creation; copied or borrowed as at creation. For values that were borrowed and changed in place, pass
 *   the same array: this checks them.
 * - `count`: number of values, all that the matrix stores.
 *
 * Returns when the values are checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
 * `TERRACE_ERROR_SIZE_MISMATCH`, `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the row), `TERRACE_ERROR_UNSUPPORTED`,
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread
 * at a time for each context; no other call may use the matrix meanwhile.
 */
terrace_status terrace_matrix_update_values(terrace_context *context,
                                            terrace_matrix *matrix,
                                            terrace_type value_type,
                                            const void *values,
                                            int64_t count);

/**
 * Tells which vectors the matrix maps to almost nothing, for problems whose near-null space is more than the constant. Aggregation
 * represents them exactly on every level. They take effect at the next set-up.
 *
 * - `context`: not NULL; receives the sentence of an error.
 * - `matrix`: not NULL.
 * - `dofs_per_node`: unknowns of a node, which are consecutive rows: 1 to 8, the block size when that is more than 1.
 * - `count`: number of vectors, 1 to 8; 0 removes vectors or coordinates that were given before, and the rest is not used.
 * - `vectors`: host, or in the memory of the context's GPU: `count` vectors one after the other, each with an element for every scalar row; copied.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
 * `TERRACE_ERROR_CALLBACK` (the communicator of a matrix over ranks, where each rank gives what belongs to its rows, in a collective call),
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; no other call may use the matrix meanwhile.
 */
terrace_status terrace_matrix_set_near_null_space(terrace_context *context,
                                                  terrace_matrix *matrix,
                                                  int32_t dofs_per_node,
                                                  int32_t count,
                                                  const double *vectors);

/**
 * Gives the coordinates of the nodes of an elasticity problem with one displacement for each dimension, in the order of the coordinates:
 * the near-null space is then made of the rigid-body modes. It takes effect at the next set-up.
 *
 * - `context`: not NULL; receives the sentence of an error.
 * - `matrix`: not NULL.
 * - `dimension`: 2 or 3; the block size when that is more than 1.
 * - `nodes`: number of nodes; times `dimension` the number of scalar rows.
 * - `coordinates`: host, or in the memory of the context's GPU: `dimension` for each node one after the other: x0 y0 z0 x1 y1 z1 ...; copied.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
 * `TERRACE_ERROR_CALLBACK` (the communicator of a matrix over ranks, where each rank gives what belongs to its rows, in a collective call),
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; no other call may use the matrix meanwhile.
 */
terrace_status terrace_matrix_set_coordinates(terrace_context *context,
                                              terrace_matrix *matrix,
                                              int32_t dimension,
                                              int64_t nodes,
                                              const double *coordinates);

/**
 * Names the function that each unknown belongs to, such as one of several displacements or a pressure, whatever the numbering (hypre's SetDofFunc, with
 * SetNumFunctions). Classical coarsening and interpolation then leave out couplings between functions; coarse matrices are made with all. They take effect at the
 * next set-up, where they replace the interleaved numbering of the option "amg.functions", which must be 0 or `count`. "amg.coarsening.type" must be "auto", which
 * is then "pmis", or one of "pmis" and "hmis".
 *
 * - `context`: not NULL; receives the sentence of an error.
 * - `matrix`: not NULL.
 * - `count`: how many functions there are, 1 to 64; 0 removes functions that were given before, and the rest is not used.
 * - `functions`: host, or in the memory of the context's GPU: an element for every scalar row, from 0 to `count` - 1; copied.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_CALLBACK` (the communicator of a matrix over ranks, where each rank gives what belongs to its rows, in a collective call),
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each
 * context; no other call may use the matrix meanwhile.
 */
terrace_status terrace_matrix_set_functions(terrace_context *context,
                                            terrace_matrix *matrix,
                                            int32_t count,
                                            const int32_t *functions);

/**
 * Makes communicators whose ranks are threads of this process: for tests, and for programs without MPI. Each rank is used by one thread, with
 * a context of its own; see `terrace_context_set_communicator`.
 *
 * - `size`: number of ranks, 1 to 1024.
 * - `ranks`: host, `size` tables, written on success. Free each with its `free` function when contexts no longer need it.
 *
 * What a rank that was freed would have had to answer fails on the others with `TERRACE_ERROR_CALLBACK`.
 *
 * Returns at once. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`; their sentence is read with
 * `terrace_last_error(NULL, ...)` on the same thread. May be called from any thread.
 */
terrace_status terrace_threads_communicator(int32_t size,
                                            terrace_communicator *ranks);

/**
 * Makes a context that of one rank of a communicator. Collective: every rank calls it. What is made from the context later may be spread over
 * the ranks.
 *
 * - `context`: not NULL. On a GPU set-up and solves run on the device, FSAI is set up on the host; ranks may share a device.
 * - `communicator`: host, duplicated with its own function; NULL makes it a context without ranks again.
 *
 * Returns when all ranks have called it. Errors: `TERRACE_ERROR_NULL_ARGUMENT` (also a function of the table, other than `revoke` and `timeout`),
 * `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_CALLBACK`, `TERRACE_ERROR_OUT_OF_MEMORY`. One
 * thread at a time for each context.
 */
terrace_status terrace_context_set_communicator(terrace_context *context,
                                                const terrace_communicator *communicator);

/**
 * Makes a square matrix of which each rank has contiguous rows, those of rank 0 first. Collective: every rank of the context's communicator
 * calls it, and where it fails on one it fails on all. A rank may have no rows.
 *
 * - `context`: not NULL, with a communicator (`terrace_context_set_communicator`); the matrix keeps using that.
 * - `total_rows`: rows, and columns, of the whole matrix; the same on all ranks. Preconditioners need at most 2147483647.
 * - `first_row`: the first row of this rank, counted from `base`.
 * - `rows`: rows of this rank, 0 or more.
 * - `offset_type`, `row_offsets`: as in `terrace_matrix_create_csr`, for the rows of this rank: the first offset is `base`.
 * - `column_type`, `columns`: the columns in the whole matrix, counted from `base`, `TERRACE_I32` or `TERRACE_I64`.
 * - `value_type`, `values`: the values, in the same format on all ranks.
 * - `base`: 0 or 1.
 * - `flags`: as in `terrace_matrix_create_csr`; `TERRACE_BORROW` concerns the values, and pattern arrays are copied in any case.
 * - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
 *
 * A solver that is set up with it is collective in set-up, update and solve, and so are `terrace_amg` and `terrace_fsai`, with vectors that hold the rows of this rank. Results have the
 * same bits for any number of ranks. What is not there over ranks is refused with `TERRACE_ERROR_UNSUPPORTED`; `docs/distributed.md` has a
 * list. `terrace_matrix_get_size` gives the rows of this rank and the columns of the whole. `terrace_matrix_update_values` takes the values of
 * this rank, and is not collective.
 *
 * Returns when the ranks agree. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP` (no
 * communicator), `TERRACE_ERROR_SIZE_MISMATCH` (rows of the ranks that do not make up the matrix), `TERRACE_ERROR_MATRIX_STRUCTURE`,
 * `TERRACE_ERROR_MATRIX_VALUES`, `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_CALLBACK` (the communicator failed), `TERRACE_ERROR_OUT_OF_MEMORY`. A
 * sentence of another rank begins with "rank". One thread at a time for each context.
 */
terrace_status terrace_matrix_create_csr_distributed(terrace_context *context,
                                                     int64_t total_rows,
                                                     int64_t first_row,
                                                     int64_t rows,
                                                     terrace_type offset_type,
                                                     const void *row_offsets,
                                                     terrace_type column_type,
                                                     const void *columns,
                                                     terrace_type value_type,
                                                     const void *values,
                                                     int32_t base,
                                                     terrace_matrix_flags flags,
                                                     terrace_matrix **matrix);

/**
 * Makes a square matrix of blocks of which each rank has contiguous rows of blocks, those of rank 0 first. Collective, and otherwise as
 * `terrace_matrix_create_csr_distributed`. The blocks are stored as scalar rows: near-null space, coordinates, functions and vectors concern these.
 *
 * - `context`: not NULL, with a communicator (`terrace_context_set_communicator`).
 * - `total_block_rows`: rows, and columns, of blocks of the whole matrix; the same on all ranks.
 * - `first_block_row`: the first of this rank, counted from `base`.
 * - `block_rows`: rows of blocks of this rank, 0 or more.
 * - `block_size`: rows and columns of a block, 1 to 8; the same on all ranks.
 * - `offset_type`, `row_offsets`, `column_type`, `columns`: as in `terrace_matrix_create_csr_distributed`, for blocks.
 * - `value_type`, `values`: `block_size * block_size` for each block, row by row.
 * - `base`: 0 or 1.
 * - `flags`: `TERRACE_COPY`, also with `TERRACE_SORTED`; values are copied in any case, and `TERRACE_BORROW` is refused.
 * - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
 *
 * `terrace_matrix_update_values` takes the values of this rank as they are given here, and is not collective.
 *
 * Returns when the ranks agree. Errors: those of `terrace_matrix_create_csr_distributed`. One thread at a time for each context.
 */
terrace_status terrace_matrix_create_bsr_distributed(terrace_context *context,
                                                     int64_t total_block_rows,
                                                     int64_t first_block_row,
                                                     int64_t block_rows,
                                                     int32_t block_size,
                                                     terrace_type offset_type,
                                                     const void *row_offsets,
                                                     terrace_type column_type,
                                                     const void *columns,
                                                     terrace_type value_type,
                                                     const void *values,
                                                     int32_t base,
                                                     terrace_matrix_flags flags,
                                                     terrace_matrix **matrix);

/**
 * Makes a square matrix of which each rank has contiguous rows in two parts, as hypre's ParCSR and PETSc's MPIAIJ hold them: the columns that
 * are rows of the same rank, and the others, with a map to their numbers in the whole matrix. Collective, and otherwise as
 * `terrace_matrix_create_csr_distributed`. All indices are counted from 0, and all arrays are copied.
 *
 * - `context`: not NULL, with a communicator (`terrace_context_set_communicator`).
 * - `total_rows`: rows, and columns, of the whole matrix; the same on all ranks.
 * - `first_row`: the first row of this rank.
 * - `rows`: rows of this rank, 0 or more.
 * - `index_type`: of offsets and columns of both parts, `TERRACE_I32` or `TERRACE_I64`.
 * - `diagonal_offsets`, `diagonal_columns`: host or device; the first part. Column 0 is the first row of this rank. Columns need no order.
 * - `off_diagonal_offsets`, `off_diagonal_columns`: the second part. Column k is `column_map[k]`.
 * - `map_count`: columns of the second part; those that no row has are fine.
 * - `map_type`, `column_map`: their numbers in the whole matrix, none of which belongs to this rank, in any order.
 * - `value_type`, `diagonal_values`, `off_diagonal_values`: the values of both, in the same format on all ranks.
 * - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
 *
 * A part without entries may have NULL for columns and values. Results are those of the same rows in one part, to the bit.
 * `terrace_matrix_update_values` takes the values of the first part followed by those of the second, and is not collective.
 *
 * Returns when the ranks agree. Errors: those of `terrace_matrix_create_csr_distributed`. One thread at a time for each context.
 */
terrace_status terrace_matrix_create_parcsr(terrace_context *context,
                                            int64_t total_rows,
                                            int64_t first_row,
                                            int64_t rows,
                                            terrace_type index_type,
                                            const void *diagonal_offsets,
                                            const void *diagonal_columns,
                                            const void *off_diagonal_offsets,
                                            const void *off_diagonal_columns,
                                            int64_t map_count,
                                            terrace_type map_type,
                                            const void *column_map,
                                            terrace_type value_type,
                                            const void *diagonal_values,
                                            const void *off_diagonal_values,
                                            terrace_matrix **matrix);

/**
 * Makes a matrix on a logically rectangular grid from a stencil, without any index. Everything that takes a matrix takes this one. AMG on it is
 * multigrid for structured grids, unless the option "amg.type" says otherwise.
 *
 * - `context`: not NULL; its threads check and copy the values. The matrix does not belong to it.
 * - `dims`: host, three numbers: the cells along x, y and z, each at least 1; a grid in two dimensions has 1 along z. Cell (x, y, z) has the number
 *   `x + dims[0] * (y + dims[1] * z)`, and its unknowns are consecutive rows. At most 2147483647 rows.
 * - `periodic`: host, three numbers, not 0 for each axis along which the last cell is a neighbour of the first. NULL for none.
 * - `dofs_per_cell`: unknowns of a cell, 1 to 8; every entry of the stencil is a block of so many rows and columns.
 * - `offsets_count`: offsets of the stencil, 1 to 27.
 * - `offsets`: host, three numbers for each offset: the steps along x, y and z from a cell to its neighbour, each -1, 0 or 1. No offset appears
 *   twice. AMG needs the offset (0, 0, 0), the diagonal.
 * - `value_type`: `TERRACE_F64` or `TERRACE_F32`.
 * - `values`: one block for each offset and cell, in the order of `layout`, finite. Blocks that reach outside of the grid are stored, too, and must
 *   be zero. On the host, or in the memory of the context's GPU, where they stay and are checked.
 * - `layout`: `TERRACE_BY_OFFSET`: `values[offset][row][column][cell]`, one array over all cells for each entry. `TERRACE_BY_CELL`:
 *   `values[cell][offset][row][column]`, all of a cell together; these are brought into the other order.
 * - `flags`: `TERRACE_COPY` or `TERRACE_BORROW`. Only values in the order of `TERRACE_BY_OFFSET` can be borrowed.
 * - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
 *
 * `terrace_matrix_update_values` takes values in the same order. `terrace_matrix_get_arrays` and products of matrices give rows of blocks with
 * column indices, without what reaches outside of the grid.
 *
 * Returns when the matrix is checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
 * `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the cell), `TERRACE_ERROR_UNSUPPORTED`,
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
 */
terrace_status terrace_matrix_create_stencil(terrace_context *context,
                                             const int64_t *dims,
                                             const int32_t *periodic,
                                             int32_t dofs_per_cell,
                                             int32_t offsets_count,
                                             const int32_t *offsets,
                                             terrace_type value_type,
                                             const void *values,
                                             terrace_stencil_layout layout,
                                             terrace_matrix_flags flags,
                                             terrace_matrix **matrix);

/**
 * Says that the unknowns of a matrix in rows are the cells of a logically rectangular grid, whose couplings reach to neighbours at most. The option
 * "amg.type" then makes AMG on it multigrid for structured grids, unless it says otherwise; products still read the rows. It takes effect at the next set-up.
 *
 * - `context`: not NULL; its threads look at the pattern.
 * - `matrix`: not NULL, square, with as many block rows as there are cells.
 * - `dims`, `periodic`: as in `terrace_matrix_create_stencil`. `dims` NULL takes back an earlier grid, and `periodic` is not used.
 *
 * Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
 * `TERRACE_ERROR_MATRIX_STRUCTURE` (the sentence names the first row that couples cells which are not neighbours),
 * `TERRACE_ERROR_UNSUPPORTED` (a matrix over ranks), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; no other call may use the matrix meanwhile.
 */
terrace_status terrace_matrix_set_grid(terrace_context *context,
                                       terrace_matrix *matrix,
                                       const int64_t *dims,
                                       const int32_t *periodic);

/**
 * The product C = A B of two sparse matrices, columns ascending in each row.
 *
 * - `context`: not NULL; its threads or its GPU compute the product, which is in the context's memory.
 * - `left`, `right`: not NULL; `left` has as many columns as `right` has rows, and blocks of the same size. They may be the same matrix, and on the host or on
 *   a GPU; what is not in the context's memory is copied there.
 * - `product`: host, written on success; destroy it with `terrace_matrix_destroy`. f64 unless both are f32; entries whose sum is zero are
 *   kept. It may be used like any other matrix: what set-up asks of its values is checked at set-up.
 *
 * Sums are added in the order of the row of `left`, so that every device gives the same bits, with one exception: a GPU multiplies matrices whose entries lie in
 * dense tiles of 4 x 4, like those of elasticity, on its matrix cores, where each sum is a chain of fused multiplications and additions in f64, in the order of
 * `left`'s columns. Those are the same bits every time, and differ from the host's by rounding. Returns when the product is computed, or, with a
 * stream of the caller's, when that is under way on the stream. Errors:
 * `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`, `TERRACE_ERROR_UNSUPPORTED` (a matrix over ranks), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time
 * for each context; the factors may be shared.
 */
terrace_status terrace_matrix_multiply(terrace_context *context,
                                       const terrace_matrix *left,
                                       const terrace_matrix *right,
                                       terrace_matrix **product);

/**
 * The transpose of a matrix, columns ascending in each row.
 *
 * - `context`: not NULL; its threads or its GPU compute the transpose, which is in the context's memory.
 * - `matrix`: not NULL; on the host or on a GPU; copied where it is not in the context's memory.
 * - `transpose`: host, written on success; destroy it with `terrace_matrix_destroy`. Blocks are transposed, too.
 *
 * Returns when the transpose is computed, or, with a stream of the caller's, when that is under way on the stream. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED` (a matrix over ranks), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for
 * each context; the matrix may be shared.
 */
terrace_status terrace_matrix_transpose(terrace_context *context,
                                        const terrace_matrix *matrix,
                                        terrace_matrix **transpose);

/**
 * The product with a vector, y = alpha A x + beta y.
 *
 * - `context`: not NULL; its threads or its GPU compute the product.
 * - `matrix`: not NULL. The first product on a GPU brings it into the format that suits it there, which is kept with the matrix until its
 *   values change, unless the matrix borrows values in device memory, which may change at any time.
 * - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
 * - `alpha`, `beta`: finite. With a `beta` of 0 `y` is not read.
 * - `x`: an element for every scalar column. Host, or in the memory of the context's GPU. There it is read in the order of the caller's
 *   stream, see `terrace_context_set_stream`; without one, what was begun on the default stream comes first, and work on other streams must
 *   be done.
 * - `y`: an element for every scalar row, where `x` is, not overlapping it; overwritten.
 *
 * Returns when y is written, or, in device memory with a stream of the caller's, when that is under way on the stream. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
 * `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; the matrix may be shared.
 */
terrace_status terrace_matrix_apply(terrace_context *context,
                                    const terrace_matrix *matrix,
                                    terrace_type vector_type,
                                    double alpha,
                                    const void *x,
                                    double beta,
                                    void *y);

/**
 * The product of the transposed matrix with a vector, y = alpha A^T x + beta y.
 *
 * - `context`: not NULL; its threads or its GPU compute the product.
 * - `matrix`: not NULL. Threads multiply with it as it is, and take up to 16 vectors of memory for the call, fewer the closer the entries are to the diagonal. The
 *   first product on a GPU makes a transposed copy there, which is kept as the copy of `terrace_matrix_apply` is.
 * - `vector_type`, `alpha`, `beta`: as there.
 * - `x`: an element for every scalar row; otherwise as there.
 * - `y`: an element for every scalar column, where `x` is, not overlapping it; overwritten.
 *
 * Every call gives the same bits, for any number of threads; a GPU adds in another order than the host. Returns, and has errors, as `terrace_matrix_apply`. One
 * thread at a time for each context; the matrix may be shared.
 */
terrace_status terrace_matrix_apply_transposed(terrace_context *context,
                                               const terrace_matrix *matrix,
                                               terrace_type vector_type,
                                               double alpha,
                                               const void *x,
                                               double beta,
                                               void *y);

/**
 * Copies the arrays of a matrix into those of the caller, whose lengths `terrace_matrix_get_size` tells. A stencil has fewer entries in rows, without
 * those that reach outside of the grid: their number is the last row offset less the base.
 *
 * - `context`: not NULL.
 * - `matrix`: not NULL.
 * - `offset_type`, `row_offsets`: `TERRACE_I32` or `TERRACE_I64`; an element for every row of blocks and one more.
 * - `column_type`, `columns`: `TERRACE_I32` or `TERRACE_I64`; an element for every block.
 * - `value_type`, `values`: `TERRACE_F64` or `TERRACE_F32`, to which values are rounded; an element for every stored scalar, blocks row by row.
 * - `base`: 0 or 1, from which offsets and columns count.
 *
 * Each of the three arrays may be NULL when it is not wanted, and is on the host or in the memory of the context's GPU, where it is written in the order of the caller's
 * stream, or else after the default stream. Returns when they are written, or, in device memory with a stream of the caller's, when that is under way.
 * None of them may overlap an array that the matrix borrows.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH` (more entries than offsets of 32
 * bits can count), `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each
 * context; the matrix may be shared.
 */
terrace_status terrace_matrix_get_arrays(terrace_context *context,
                                         const terrace_matrix *matrix,
                                         terrace_type offset_type,
                                         void *row_offsets,
                                         terrace_type column_type,
                                         void *columns,
                                         terrace_type value_type,
                                         void *values,
                                         int32_t base);

/**
 * Makes a set of option values with all defaults.
 *
 * - `context`: not NULL; receives the sentences of errors of the calls with `config`.
 * - `config`: host, written on success; destroy it with `terrace_config_destroy`.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_config_create(terrace_context *context, terrace_config **config);

/**
 * Destroys a set of option values.
 *
 * - `config`: NULL is fine.
 *
 * Does not fail. One thread at a time for each context.
 */
terrace_status terrace_config_destroy(terrace_config *config);

/**
 * Sets any option from text, written as in the reference: numbers, names and lists.
 *
 * - `config`: not NULL.
 * - `key`, `value`: host, NUL-terminated.
 *
 * Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION` (the sentence names the nearest
 * key), `TERRACE_ERROR_OPTION_VALUE` (it names what is accepted). What a device cannot do is refused at set-up. One thread at a time for each context.
 */
terrace_status terrace_config_set_str(terrace_config *config,
                                      const char *key,
                                      const char *value);

/**
 * Sets an option that accepts whole numbers or real numbers.
 *
 * - `config`: not NULL.
 * - `key`: host, NUL-terminated.
 * - `value`: in the range of the option.
 *
 * Failure, errors and threads: as `terrace_config_set_str`.
 */
terrace_status terrace_config_set_int(terrace_config *config, const char *key, int64_t value);

/**
 * Sets an option that accepts real numbers.
 *
 * - `config`: not NULL.
 * - `key`: host, NUL-terminated.
 * - `value`: in the range of the option.
 *
 * Failure, errors and threads: as `terrace_config_set_str`.
 */
terrace_status terrace_config_set_real(terrace_config *config, const char *key, double value);

/**
 * Sets the entry of a level in one of the options "precision.matrix", "precision.vector", "precision.smoother" and "precision.transfer".
 * They are lists, whose last entry holds for all levels below, too: an entry below the last one named holds for its level and all below it,
 * and levels between get what was the last entry. An entry further up holds for its level alone.
 *
 * - `config`: not NULL.
 * - `level`: 0 (the finest) to 63, or `TERRACE_LAST` for all levels below the last one named, for all levels where none was named.
 * - `part`: `TERRACE_LEVEL_MATRIX`, `TERRACE_LEVEL_VECTOR`, `TERRACE_LEVEL_SMOOTHER` or `TERRACE_LEVEL_TRANSFER`.
 * - `precision`: `TERRACE_F64`, `TERRACE_F32`, `TERRACE_F16`, `TERRACE_BF16`, `TERRACE_INPUT` for that of the matrix that is handed over, or
 *   `TERRACE_AUTO` for what set-up finds good enough. Whether a level fits into it is found at set-up.
 *
 * Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each
 * context.
 */
terrace_status terrace_config_set_level(terrace_config *config,
                                        int32_t level,
                                        terrace_level_part part,
                                        terrace_type precision);

/**
 * Sets the entries of a level in the options "amg.smoother.pre_sweeps" and "amg.smoother.post_sweeps", which are lists as those of
 * `terrace_config_set_level`.
 *
 * - `config`: not NULL.
 * - `level`: as there.
 * - `pre`, `post`: sweeps before and after the coarse correction, 0 to 100.
 *
 * Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (the level),
 * `TERRACE_ERROR_OPTION_VALUE` (the sweeps). One thread at a time for each context.
 */
terrace_status terrace_config_set_level_sweeps(terrace_config *config,
                                               int32_t level,
                                               int32_t pre,
                                               int32_t post);

/**
 * Sets every option of a JSON object. Keys may be dotted or nested: {"solver.tolerance": 1e-6} or {"solver": {"tolerance": 1e-6}}; an
 * option that is there both ways is refused. Lists may be arrays: {"precision.matrix": ["f64", "f32"]}. The key "preset" names a preset,
 * which is loaded before the rest.
 *
 * - `config`: not NULL.
 * - `json`: the text itself, host, NUL-terminated.
 *
 * Nothing is changed when any of it is refused. Errors: those of `terrace_config_set_str`, and `TERRACE_ERROR_PARSE`. One thread at a
 * time for each context.
 */
terrace_status terrace_config_load_json(terrace_config *config,
                                        const char *json);

/**
 * Sets every option of a preset: a named set of values for a kind of problem, see `docs/presets.md` and `terrace options --presets`. Options
 * that it does not name keep their values; what is set afterwards wins.
 *
 * - `config`: not NULL.
 * - `name`: like "poisson" or "elasticity"; host, NUL-terminated.
 *
 * Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_OPTION_VALUE` (the sentence lists the names). One
 * thread at a time for each context.
 */
terrace_status terrace_config_load_preset(terrace_config *config,
                                          const char *name);

/**
 * The values that were set, as one JSON object that `terrace_config_load_json` reads back.
 *
 * - `config`: not NULL.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_config_to_json(const terrace_config *config, char *buf, size_t len, size_t *needed);

/**
 * The value of an option as text: what was set, or its default.
 *
 * - `config`: not NULL.
 * - `key`: host, NUL-terminated.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION`. One thread at a time for each context.
 */
terrace_status terrace_config_get_str(const terrace_config *config,
                                      const char *key,
                                      char *buf,
                                      size_t len,
                                      size_t *needed);

/**
 * The value of an option that is a whole number: what was set, or its default.
 *
 * - `config`: not NULL.
 * - `key`: host, NUL-terminated.
 * - `value`: host, written on success.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION`, `TERRACE_ERROR_OPTION_VALUE` (the value is no whole number).
 * One thread at a time for each context.
 */
terrace_status terrace_config_get_int(const terrace_config *config,
                                      const char *key,
                                      int64_t *value);

/**
 * The value of an option that is a number: what was set, or its default.
 *
 * - `config`: not NULL.
 * - `key`: host, NUL-terminated.
 * - `value`: host, written on success.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION`, `TERRACE_ERROR_OPTION_VALUE` (the value is no number, such as
 * "auto"). One thread at a time for each context.
 */
terrace_status terrace_config_get_real(const terrace_config *config,
                                       const char *key,
                                       double *value);

/**
 * Builds the hierarchy of a square matrix.
 *
 * - `context`: not NULL.
 * - `matrix`: not NULL; it may be destroyed afterwards, arrays that it borrowed must stay.
 * - `config`: options that are copied; NULL for all defaults. Options of the Krylov method concern only
 *   `terrace_solver`.
 * - `amg`: host, written on success; destroy it with `terrace_amg_destroy`.
 *
 * With a matrix of `terrace_matrix_create_csr_distributed` it is collective, and so are updates and applications: every rank calls them, with the
 * same options, and has its rows of the vectors, in the same kind of memory. What fails on one rank fails on all.
 *
 * Returns when the hierarchy is built. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH` (not square),
 * `TERRACE_ERROR_MATRIX_VALUES` (a diagonal entry that is missing or zero, and values that are not finite in a product or in arrays that were changed in place), `TERRACE_ERROR_OPTION_VALUE`, `TERRACE_ERROR_UNSUPPORTED`,
 * `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a
 * time for each context; the matrix may be shared.
 */
terrace_status terrace_amg_setup(terrace_context *context,
                                 const terrace_matrix *matrix,
                                 const terrace_config *config,
                                 terrace_amg **amg);

/**
 * Takes over changed values of the matrix: numeric work only; strong couplings, coarse unknowns and patterns stay. With the option
 * "amg.update.coarsening" = "recheck" strong couplings and coarse unknowns are found anew on each level: where they are the same, the level
 * is updated; from the first level on where they are not, the hierarchy is set up anew. The keys "update_kept_levels" and "update_anew" of
 * a report tell what was done.
 *
 * - `amg`: not NULL.
 *
 * Returns when the hierarchy is updated; when it fails the hierarchy is as before. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
 * `TERRACE_ERROR_MATRIX_VALUES` (borrowed values that were changed in place are checked again),
 * `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a
 * time for each context.
 */
terrace_status terrace_amg_update(terrace_amg *amg);

/**
 * One preconditioner application x = M b: one cycle that starts from zero. Allocates nothing, but at the first call with vectors of another
 * precision than those of the finest level; on a GPU the second call with the same vectors is captured as a graph, for which the driver
 * takes some memory of its own.
 *
 * - `amg`: not NULL.
 * - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
 * - `b`: an element for every scalar row. Host, or in the memory of the context's GPU. There it is read in the order of the caller's stream,
 *   see `terrace_context_set_stream`; without one, what was begun on the default stream comes first, and work on other streams must be
 *   done.
 * - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
 *
 * Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream. Errors:
 * `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_CALLBACK` (a communicator),
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`, and `TERRACE_ERROR_PRECISION_LOST` where a level is narrower than the matrix and x would not be finite; with a stream of
 * the caller's this is not looked at, because nothing is waited for. One thread at a time for each context.
 */
terrace_status terrace_amg_apply(terrace_amg *amg,
                                 terrace_type vector_type,
                                 const void *b,
                                 void *x);

/**
 * One application of the preconditioner of the transposed matrix: x ≈ A⁻ᵀ b. Where the matrix is symmetric, up to
 * rounding, it is `terrace_amg_apply`. Otherwise a second hierarchy, with the same options, is that of Aᵀ: x is one
 * cycle of it from zero. It is not the adjoint of the cycle of this one, whose coarse levels and sweeps are others.
 *
 * The first call tests whether the matrix is symmetric, and sets up the second hierarchy of the values that it has
 * then. That takes the time of `terrace_amg_setup`, and as much memory again, which the key "bytes" of a report
 * counts, with a copy of Aᵀ. The first call after `terrace_amg_update` updates it. The other calls allocate nothing,
 * as those of `terrace_amg_apply`.
 *
 * - `amg`: not NULL.
 * - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
 * - `b`: an element for every scalar row. Host, or in the memory of the context's GPU, as for `terrace_amg_apply`.
 * - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
 *
 * Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream;
 * a call that sets up or updates waits for that. When that fails, the next call tries again. Errors: those of
 * `terrace_amg_apply` and of `terrace_amg_setup`, the latter with "transposed matrix: " before the sentence:
 * `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_MATRIX_VALUES`,
 * `TERRACE_ERROR_UNSUPPORTED` (also over ranks, on every rank), `TERRACE_ERROR_PRECISION_LOST`,
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
 */
terrace_status terrace_amg_apply_transposed(terrace_amg *amg, terrace_type vector_type, const void *b, void *x);

/**
 * The number of scalar rows of the matrix that a hierarchy was set up for: the length of the vectors of `terrace_amg_apply`.
 *
 * - `amg`: not NULL.
 * - `rows`: host, written on success.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_amg_get_rows(const terrace_amg *amg,
                                    int64_t *rows);

/**
 * Bytes that `terrace_amg_setup` of this matrix with these options would hold, estimated from the set-up of a sample of at most
 * 20,000 rows, or 160,000 where rows are very long or most couplings lead out of it. With a context on a GPU, the
 * most device memory that it would take at one time beside what is held already, estimated from
 * samples of at most 1,048,576 rows, or fewer where the device has no room for these; exact for matrices that are not larger.
 *
 * On a GPU the figure is not below what set-up takes, and at most 15 % above it where rows are of the same kind all over the matrix, apart from rows
 * without couplings. Where they are not, as with several meshes, or rows with very many entries, more is added the less the sample is like the
 * matrix. The limit of the context's memory does not count while samples are set up, for whether a set-up keeps to it is what the figure tells;
 * `terrace_context_get_memory` counts them in its peak. Nothing is held afterwards.
 *
 * - `context`: not NULL.
 * - `matrix`: not NULL.
 * - `config`: NULL for all defaults.
 * - `bytes`: host, written.
 *
 * Returns when the estimate is made. Errors: as `terrace_amg_setup`, `TERRACE_ERROR_OUT_OF_MEMORY` when there is no room even for a sample of a few
 * thousand rows. One thread at a time for each context; the matrix may be shared.
 */
terrace_status terrace_amg_memory_estimate(terrace_context *context,
                                           const terrace_matrix *matrix,
                                           const terrace_config *config,
                                           int64_t *bytes);

/**
 * The value of an option as the last set-up used it: what was set, or what `auto` and defaults became for this matrix and device.
 *
 * - `amg`: not NULL.
 * - `key`: host, NUL-terminated.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * What differs from level to level, such as thresholds, may still be "auto"; the report tells what levels have.
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNKNOWN_OPTION`.
 * One thread at a time for each context.
 */
terrace_status terrace_amg_get_option(const terrace_amg *amg,
                                      const char *key,
                                      char *buf,
                                      size_t len,
                                      size_t *needed);

/**
 * A snapshot of what set-up did.
 *
 * - `amg`: not NULL.
 * - `report`: host, written on success; destroy it with `terrace_report_destroy`.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_amg_report(const terrace_amg *amg, terrace_report **report);

/**
 * Makes a sentence of a wrapper in another language the last error of the amg's context, so that what the wrapper checks reads like
 * what the library checks.
 *
 * - `amg`: not NULL.
 * - `status`: the error, a negative number of the status table.
 * - `message`: host, which argument, which value, what would be accepted; copied.
 *
 * Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
 * context.
 */
terrace_status terrace_amg_set_error(terrace_amg *amg,
                                     terrace_status status,
                                     const char *message);

/**
 * Destroys a hierarchy.
 *
 * - `amg`: NULL is fine.
 *
 * Does not fail. One thread at a time for each context.
 */
terrace_status terrace_amg_destroy(terrace_amg *amg);

/**
 * Computes the factor G of a symmetric positive definite matrix, or the factors G and H of one that is not symmetric, by the options that
 * begin with "fsai.". They are stored in the format of the option "precision.smoother" and applied to vectors of "precision.vector"; with
 * 16 bits they are scaled by the diagonal of the matrix.
 *
 * Where the matrix is not positive definite on the pattern of a row, or has no pivots there if it is not symmetric, a row of a static pattern
 * has its diagonal entry alone, and an adaptive one keeps the entries that it had; the key "fsai_breakdowns" of a report counts these rows.
 *
 * - `context`: not NULL.
 * - `matrix`: not NULL; it may be destroyed afterwards, arrays that it borrowed must stay.
 * - `config`: options that are copied; NULL for all defaults. Options of AMG and of the Krylov method have no meaning here.
 * - `fsai`: host, written on success; destroy it with `terrace_fsai_destroy`.
 *
 * With a matrix of `terrace_matrix_create_csr_distributed` it is collective, as `terrace_amg_setup`.
 *
 * Returns when the factor is computed. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH` (not
 * square), `TERRACE_ERROR_MATRIX_VALUES` (a diagonal entry that is missing or zero, or negative in a symmetric matrix, and values that are not finite, as for `terrace_amg_setup`),
 * `TERRACE_ERROR_OPTION_VALUE` (over ranks: options that differ), `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_PRECISION_LOST`,
 * `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; the matrix
 * may be shared.
 */
terrace_status terrace_fsai_setup(terrace_context *context,
                                  const terrace_matrix *matrix,
                                  const terrace_config *config,
                                  terrace_fsai **fsai);

/**
 * Takes over changed values of the matrix: the factor is computed again on the same pattern, also where that was adaptive.
 *
 * - `fsai`: not NULL.
 *
 * Returns when the factor is computed; when it fails everything is as before. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
 * `TERRACE_ERROR_MATRIX_VALUES` (borrowed values that were changed in place are checked again), `TERRACE_ERROR_PRECISION_LOST`,
 * `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
 */
terrace_status terrace_fsai_update(terrace_fsai *fsai);

/**
 * One preconditioner application x = M b. Allocates nothing, but at the first call with vectors of another precision than its own; on a GPU
 * the second call with the same vectors is captured as a graph, for which the driver takes some memory of its own.
 *
 * - `fsai`: not NULL.
 * - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
 * - `b`: an element for every scalar row. Host, or in the memory of the context's GPU. There it is read in the order of the caller's stream,
 *   see `terrace_context_set_stream`; without one, what was begun on the default stream comes first, and work on other streams must be
 *   done.
 * - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
 *
 * Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream. Errors:
 * `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_CALLBACK` (a communicator),
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`, and `TERRACE_ERROR_PRECISION_LOST` where the factor or its vectors are narrower than the matrix and x would not be
 * finite; with a stream of the caller's this is not looked at, because nothing is waited for. One thread at a time for each context.
 */
terrace_status terrace_fsai_apply(terrace_fsai *fsai,
                                  terrace_type vector_type,
                                  const void *b,
                                  void *x);

/**
 * One application of the transpose: x = Mᵀ b. Where the matrix is symmetric, up to rounding, it is
 * `terrace_fsai_apply`. Otherwise M = Hᵀ G, and x = Gᵀ H b.
 *
 * The first call tests whether the matrix is symmetric; where it is not, it computes both factors on their pattern
 * again, of the values that the matrix has then, and stores the transposes. That takes the time of
 * `terrace_fsai_update`, and as much memory as the factors, which the key "bytes" of a report counts. The first call
 * after `terrace_fsai_update` does the same. The other calls allocate nothing, as those of `terrace_fsai_apply`.
 *
 * - `fsai`: not NULL.
 * - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
 * - `b`: an element for every scalar row. Host, or in the memory of the context's GPU, as for `terrace_fsai_apply`.
 * - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
 *
 * Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream;
 * a call that computes factors waits for that. When that fails, the next call tries again. Errors: those of
 * `terrace_fsai_apply` and of `terrace_fsai_update`, the latter with "transposed matrix: " before the sentence:
 * `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_MATRIX_VALUES`,
 * `TERRACE_ERROR_UNSUPPORTED` (also over ranks, on every rank), `TERRACE_ERROR_PRECISION_LOST`,
 * `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
 */
terrace_status terrace_fsai_apply_transposed(terrace_fsai *fsai, terrace_type vector_type, const void *b, void *x);

/**
 * The number of scalar rows of the matrix that it was set up for: the length of the vectors of `terrace_fsai_apply`.
 *
 * - `fsai`: not NULL.
 * - `rows`: host, written on success.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_fsai_get_rows(const terrace_fsai *fsai, int64_t *rows);

/**
 * Bytes that `terrace_fsai_setup` of this matrix with these options would hold, estimated from the set-up of a sample of at most
 * 20,000 rows, or 160,000 where rows are very long or most couplings lead out of it. With a context on a GPU, the
 * most device memory that it would take at one time beside what is held already, estimated from
 * samples of at most 1,048,576 rows, or fewer where the device has no room for these; exact for matrices that are not larger. The limit of
 * the context's memory does not count while samples are set up. Nothing is held afterwards.
 *
 * - `context`: not NULL.
 * - `matrix`: not NULL.
 * - `config`: NULL for all defaults.
 * - `bytes`: host, written.
 *
 * Returns when the estimate is made. Errors: as `terrace_fsai_setup`, `TERRACE_ERROR_OUT_OF_MEMORY` when there is no room even for a sample of a few
 * thousand rows. One thread at a time for each context; the matrix may be shared.
 */
terrace_status terrace_fsai_memory_estimate(terrace_context *context,
                                            const terrace_matrix *matrix,
                                            const terrace_config *config,
                                            int64_t *bytes);

/**
 * The value of an option as the last set-up used it: what was set, or what `auto` and defaults became for this matrix and device.
 *
 * - `fsai`: not NULL.
 * - `key`: host, NUL-terminated.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNKNOWN_OPTION`.
 * One thread at a time for each context.
 */
terrace_status terrace_fsai_get_option(const terrace_fsai *fsai,
                                       const char *key,
                                       char *buf,
                                       size_t len,
                                       size_t *needed);

/**
 * A snapshot of what set-up did: the keys "fsai_nonzeros", "fsai_precision" and "fsai_breakdowns" tell about the factors.
 *
 * - `fsai`: not NULL.
 * - `report`: host, written on success; destroy it with `terrace_report_destroy`.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_fsai_report(const terrace_fsai *fsai,
                                   terrace_report **report);

/**
 * Makes a sentence of a wrapper in another language the last error of the context of an FSAI, so that what the wrapper checks reads like
 * what the library checks.
 *
 * - `fsai`: not NULL.
 * - `status`: the error, a negative number of the status table.
 * - `message`: host, which argument, which value, what would be accepted; copied.
 *
 * Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
 * context.
 */
terrace_status terrace_fsai_set_error(terrace_fsai *fsai,
                                      terrace_status status,
                                      const char *message);

/**
 * Destroys an FSAI.
 *
 * - `fsai`: NULL is fine.
 *
 * Does not fail. One thread at a time for each context.
 */
terrace_status terrace_fsai_destroy(terrace_fsai *fsai);

/**
 * Makes a solver; nothing is computed yet.
 *
 * - `context`: not NULL.
 * - `config`: options that are copied; NULL for all defaults.
 * - `solver`: host, written on success; destroy it with `terrace_solver_destroy`.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_solver_create(terrace_context *context, const terrace_config *config, terrace_solver **solver);

/**
 * Bytes that a solver of this matrix with these options would hold: hierarchy, vectors of the Krylov method, and reports. Estimated as by
 * `terrace_amg_memory_estimate`; with a context on a GPU, the most device memory at one time. It is not below what is held, and at most 30 %
 * above it where rows are of the same kind all over the matrix.
 *
 * - `context`: not NULL.
 * - `matrix`: not NULL.
 * - `config`: NULL for all defaults.
 * - `updates`: not 0 where `terrace_solver_update` will be called: the first update stores where each term of a product goes.
 * - `bytes`: host, written.
 *
 * It is for vectors in the precision of the matrix and one right-hand side at a time. Where the option "solver.columns" is set, also to its
 * default, what so many right-hand sides together take counts, too: the first call with several allocates vectors for them. Not counted are two
 * vectors to convert those of a caller in another precision, the hierarchy of solves with the transpose of a matrix that is not symmetric, which
 * takes as much again, callbacks, and the factors of a matrix that the Krylov method fails to solve. With the option "solver.type" "direct" it is what
 * the factorisation holds on the host, and 0 with a context on a GPU. Returns when the estimate is made, and holds nothing then. Errors: as
 * `terrace_amg_memory_estimate`. One thread at a time for each context; the matrix may be shared.
 */
terrace_status terrace_solver_memory_estimate(terrace_context *context,
                                              const terrace_matrix *matrix,
                                              const terrace_config *config,
                                              int32_t updates,
                                              int64_t *bytes);

/**
 * Replaces the matrix in the Krylov method by y = A x of the caller. The matrix given to `terrace_solver_setup` then only builds the
 * preconditioner. The solver must be set up again: what it was set up with is dropped, and a solve before that is
 * `TERRACE_ERROR_NOT_SET_UP`. The removal of a callback that is not there changes nothing.
 *
 * - `solver`: not NULL.
 * - `rows`: length of x and y, 0 to 2147483647; not used without a callback.
 * - `callback`: see `terrace_apply_callback`; NULL for the matrix again.
 * - `user`: handed to the callback as it is; it must stay valid until the solver is destroyed or another operator is set.
 *
 * Where the option "solver.type" is "auto", the symmetry of the matrix that builds the preconditioner tells whether A is taken for
 * symmetric; without any matrix it is. A may be in any units as long as A x and A M x can be represented for an x of size 1: where a solve
 * fails because inner products leave the range of numbers, it multiplies A by a power of two and begins again, and so do the solves after it
 * from their beginning. The option "solver.type" "richardson", whose iteration depends on the units, does not, and fails or stagnates
 * there.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_solver_set_operator(terrace_solver *solver,
                                           int64_t rows,
                                           terrace_apply_callback callback,
                                           void *user);

/**
 * Replaces the preconditioner by y = M x of the caller; `solver.preconditioner` is then not used. The solver must be set up again, as after
 * `terrace_solver_set_operator`.
 *
 * - `solver`: not NULL.
 * - `callback`: see `terrace_apply_callback`; NULL for what `solver.preconditioner` says again.
 * - `user`: handed to the callback as it is; it must stay valid until the solver is destroyed or another preconditioner is set.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_solver_set_preconditioner(terrace_solver *solver,
                                                 terrace_apply_callback callback,
                                                 void *user);

/**
 * Builds the preconditioner from another matrix than the one that is solved with, such as one of lower order or without weak couplings.
 * The solver must be set up again, as after `terrace_solver_set_operator`, and set-up says whether the matrix fits.
 *
 * - `solver`: not NULL.
 * - `matrix`: square, with as many rows as the matrix given to `terrace_solver_setup`; it may be destroyed afterwards, arrays that it borrowed must
 *   stay. NULL for the same matrix again.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context; the matrix may be shared.
 */
terrace_status terrace_solver_set_preconditioner_matrix(terrace_solver *solver,
                                                        const terrace_matrix *matrix);

/**
 * Calls a function of the caller with the residual norm of each iteration, which may end the solve.
 *
 * - `solver`: not NULL.
 * - `callback`: see `terrace_monitor_callback`; NULL for none.
 * - `user`: handed to the callback as it is; it must stay valid until the solver is destroyed or another monitor is set.
 *
 * Takes effect at the next solve. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_solver_set_monitor(terrace_solver *solver,
                                          terrace_monitor_callback callback,
                                          void *user);

/**
 * The value of an option as the last set-up used it: what was set, or what `auto` and defaults became for this matrix and device.
 *
 * - `solver`: not NULL, set up.
 * - `key`: host, NUL-terminated.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * What differs from level to level, such as thresholds, may still be "auto"; the report tells what levels have. Errors:
 * `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`, `TERRACE_ERROR_UNKNOWN_OPTION`. One thread at a time for each context.
 */
terrace_status terrace_solver_get_option(const terrace_solver *solver,
                                         const char *key,
                                         char *buf,
                                         size_t len,
                                         size_t *needed);

/**
 * Builds the preconditioner and the workspace.
 *
 * - `solver`: not NULL.
 * - `matrix`: the matrix; it may be destroyed afterwards, arrays that it borrowed must stay. NULL is accepted only with an operator
 *   callback and either a preconditioner callback or the option "solver.preconditioner" = "none".
 *
 * With a matrix of `terrace_matrix_create_csr_distributed` it is collective: every rank calls it, with the same options.
 *
 * The matrix may be in any units. Where its values are above 2^250 or below 2^-250 (2^50 and 2^-50 in f32), set-up and solves work with a copy
 * times a power of two, which rounds nothing: iterations and the relative residual are those of ordinary units. Over ranks there is no
 * such copy.
 *
 * Returns when everything is built; when it fails the solver is as before. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP` (neither a matrix nor an operator),
 * `TERRACE_ERROR_SIZE_MISMATCH`, `TERRACE_ERROR_MATRIX_VALUES` (a diagonal that a component needs, and values that are not finite, as for `terrace_amg_setup`;
 * with the option "solver.type" "auto" also a symmetric matrix with a negative diagonal, which is to be negated), `TERRACE_ERROR_OPTION_VALUE`,
 * `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time
 * for each context; the matrix may be shared.
 */
terrace_status terrace_solver_setup(terrace_solver *solver,
                                    const terrace_matrix *matrix);

/**
 * Takes over changed values of the matrix in the preconditioner: numeric work only, as `terrace_amg_update`, which the option
 * "amg.update.coarsening" concerns, too. Without it, solves go on with the preconditioner of the old values, see `terrace_solver_solve`.
 *
 * - `solver`: not NULL.
 *
 * Over ranks it is collective, also where the values of some ranks alone have changed: each rank computes what belongs to its rows, by the coarse
 * unknowns and patterns of set-up. What fails on one rank fails on all.
 *
 * Returns when the preconditioner is updated. When it fails, the preconditioner is as before; the factors of the option "solver.type" "direct" are then lost, and
 * a solve is `TERRACE_ERROR_NOT_SET_UP` until an update or a set-up succeeds. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`,
 * `TERRACE_ERROR_MATRIX_VALUES` (borrowed values that were changed in place are checked again), `TERRACE_ERROR_OPTION_VALUE` (a null space that the new values do not
 * have), `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
 */
terrace_status terrace_solver_update(terrace_solver *solver);

/**
 * Solves A x = b for one or several right-hand sides. A is the matrix as it is now: values that were replaced by
 * `terrace_matrix_update_values`, or borrowed and changed in place, are used. The preconditioner is as old as the last set-up or update: a
 * lagged preconditioner, which saves its update while values change little. The key "preconditioner_age" of the report counts the changes
 * since then. New values that need other units than those of set-up (see `terrace_solver_setup`), or are 2^50 times as large or small where
 * set-up needed units, are the exception: the solve sets up wholly, in time and memory, and the age is 0 again.
 *
 * Every call begins a new report, also one that fails before it solves: its right-hand sides are `TERRACE_NOT_ATTEMPTED` and not converged
 * until they are solved. Where an argument is refused the report may have none. Nothing of an earlier solve is left.
 *
 * Several right-hand sides are solved together, up to 8 at a time (option "solver.columns"), where the method allows it. Each matrix of the
 * hierarchy is read once for all of them. Each right-hand side is then finished and checked by itself, with a status and a report of its own. Its x has the same bits for any number of threads, and may differ from that of a call of its own as far as the tolerance allows.
 *
 * Over ranks it is collective, b and x hold the rows of this rank, and `count` is the same on all ranks. Right-hand sides are solved one after the
 * other, each with the bits of a call of its own. The status is the same on all ranks.
 *
 * Allocates nothing, but: the operator for values that have changed; vectors for the first solve of several right-hand sides together after
 * set-up or update, and for the first one with vectors in another precision, which are kept; a report of more than 64 right-hand sides; a
 * vector where b, or the matrix, is so large or small that inner products could leave the range of numbers, since such a system is solved
 * in other units; two vectors to find out why a solve stagnates; and the factors where "auto" turns to a factorisation. On a GPU also: two
 * vectors of device memory for the first solve with b and x on the host, which are kept; and what the driver takes for graphs of an
 * iteration, which the second and third iteration record, and again after an update.
 *
 * - `solver`: not NULL, set up.
 * - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; that of the solver, f64 unless the option "solver.precision" says
 *   otherwise. With an f32 matrix a solver of f64 accepts f32 vectors, too; x is then rounded, and the report is about x before that.
 * - `count`: number of right-hand sides, 1 or more.
 * - `b`: `count` right-hand sides one after the other, each with an element for every scalar row. Host, or in the memory of the context's
 *   GPU. There they are read in the order of the caller's stream, see `terrace_context_set_stream`; without one, what was begun on the
 *   default stream comes first, and work on other streams must be done.
 * - `x`: where `b` is, as long, not overlapping it; the solutions.
 * - `guess`: `TERRACE_ZERO_GUESS`, which does not read x, or `TERRACE_GIVEN_GUESS`, which starts from the content of x.
 *
 * `TERRACE_STOPPED` when the monitor of `terrace_solver_set_monitor` ended the solve: x is then the iterate at that moment. Right-hand sides after that one are
 * solved all the same.
 *
 * Returns when x is written, or, in device memory with a stream of the caller's, when what writes it is on the stream.
 * Where the option "solver.type" is "auto" and the Krylov method fails, the matrix is factorised if that is affordable; the key "method" of the
 * report tells. `TERRACE_NOT_CONVERGED` when at least one right-hand side was not solved to the tolerance within the
 * iteration limit, `TERRACE_STAGNATED` when its residual no longer fell; the first that was not solved decides, and
 * `terrace_last_error` says how far it came and what may help. x is then the best iterate that was stored, never worse than the initial
 * guess. A right-hand side that fails with `TERRACE_ERROR_BREAKDOWN`, `TERRACE_ERROR_DIVERGED`, `TERRACE_ERROR_NON_FINITE` or
 * `TERRACE_ERROR_PRECISION_LOST` does not keep the others from being solved: the call returns the first such error, and the key "status"
 * of the report has that of each. Any other error ends the call; the status of those after it is `TERRACE_NOT_ATTEMPTED`, and their x is
 * not written. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`,
 * `TERRACE_ERROR_BREAKDOWN`, `TERRACE_ERROR_DIVERGED`, `TERRACE_ERROR_NON_FINITE`, `TERRACE_ERROR_PRECISION_LOST`,
 * `TERRACE_ERROR_MATRIX_VALUES` (borrowed values
 * that were changed in place are checked), `TERRACE_ERROR_OPTION_VALUE` (a null space that they do not have), `TERRACE_ERROR_CALLBACK`,
 * `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
 */
terrace_status terrace_solver_solve(terrace_solver *solver,
                                    terrace_type vector_type,
                                    int64_t count,
                                    const void *b,
                                    void *x,
                                    terrace_guess guess);

/**
 * Solves A^T x = b for one or several right-hand sides, with the same options. Where the matrix is symmetric, up to rounding (1e-10 of its entries, 1e-4 in f32), this is
 * `terrace_solver_solve`. Where the matrix is factorised (`solver.type` "direct", or "auto" after the Krylov method has failed), its factors serve for the transpose, too:
 * the first call makes a transposed copy of the matrix. Otherwise the first call makes a second solver for the transpose, and later ones use it:
 *
 * - It takes the time of a set-up, and as much memory as this solver and a transposed copy of the matrix, until this solver is set up again or destroyed.
 * - Its preconditioner is made from the values that the matrix has at that call, with the near-null space of the matrix. New values are transposed at the next
 *   call. After `terrace_solver_update`, the next call updates its preconditioner, too; without that, it is lagged as that of this solver is.
 * - A matrix of `terrace_solver_set_preconditioner_matrix` is transposed, too. A null space of the options must be one of the transpose.
 * - After such a call `terrace_solver_report` tells about the set-up and the solve of the second solver; "bytes" counts both.
 *
 * With an operator callback the status is `TERRACE_ERROR_UNSUPPORTED`, and so it is with a preconditioner callback, unless the matrix is symmetric: the transpose
 * of a callback is not known. Set up a solver of its own then, with callbacks for the transpose.
 *
 * Arguments, what is returned, and errors: as `terrace_solver_solve`, to which the errors of a set-up for the transpose belong, too. The sentences of these begin
 * with "transposed matrix". One thread at a time for each context.
 */
terrace_status terrace_solver_solve_transposed(terrace_solver *solver,
                                               terrace_type vector_type,
                                               int64_t count,
                                               const void *b,
                                               void *x,
                                               terrace_guess guess);

/**
 * The number of scalar rows of the system that a solver was set up for: the length of each right-hand side of `terrace_solver_solve`.
 *
 * - `solver`: not NULL, set up.
 * - `rows`: host, written on success.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`, `TERRACE_ERROR_INVALID_ARGUMENT` (from a callback of the same
 * solver). One thread at a time for each context.
 */
terrace_status terrace_solver_get_rows(const terrace_solver *solver,
                                       int64_t *rows);

/**
 * A snapshot of what set-up and the last solve did. A solve that fails, too, is the last one, see `terrace_solver_solve`.
 *
 * - `solver`: not NULL.
 * - `report`: host, written on success; destroy it with `terrace_report_destroy`.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_OUT_OF_MEMORY`. One thread at a time for each context.
 */
terrace_status terrace_solver_report(const terrace_solver *solver,
                                     terrace_report **report);

/**
 * Makes a sentence of a wrapper in another language the last error of the solver's context, so that what the wrapper checks reads like
 * what the library checks.
 *
 * - `solver`: not NULL.
 * - `status`: the error, a negative number of the status table.
 * - `message`: host, which argument, which value, what would be accepted; copied.
 *
 * Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
 * context.
 */
terrace_status terrace_solver_set_error(terrace_solver *solver,
                                        terrace_status status,
                                        const char *message);

/**
 * Destroys a solver.
 *
 * - `solver`: NULL is fine.
 *
 * Does not fail. One thread at a time for each context.
 */
terrace_status terrace_solver_destroy(terrace_solver *solver);

/**
 * A whole number of a report.
 *
 * - `report`: not NULL.
 * - `key`: host, NUL-terminated, like "levels", "iterations", "rows"; the top of this file lists them.
 * - `index`: the level (0 the finest) for keys of levels, the right-hand side for keys of those; not used for the others.
 * - `value`: host, written on success.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (unknown key, index out of range, or a key of another type;
 * the sentence says which and what is accepted). One thread at a time for each context.
 */
terrace_status terrace_report_get_int(const terrace_report *report,
                                      const char *key,
                                      int64_t index,
                                      int64_t *value);

/**
 * A number of a report, whole or real. Times are in seconds.
 *
 * - `report`: not NULL.
 * - `key`, `index`: as in `terrace_report_get_int`.
 * - `value`: host, written on success.
 *
 * Errors and threads: as `terrace_report_get_int`.
 */
terrace_status terrace_report_get_real(const terrace_report *report, const char *key, int64_t index, double *value);

/**
 * A text of a report.
 *
 * - `report`: not NULL.
 * - `key`, `index`: as in `terrace_report_get_int`.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors and threads: as `terrace_report_get_int`.
 */
terrace_status terrace_report_get_str(const terrace_report *report,
                                      const char *key,
                                      int64_t index,
                                      char *buf,
                                      size_t len,
                                      size_t *needed);

/**
 * The residual norms of one right-hand side of the last solve, relative to the norm of the right-hand side: one before the first
 * iteration and one after each.
 *
 * - `report`: not NULL.
 * - `index`: the right-hand side.
 * - `history`: host, room for `len` numbers; NULL is accepted when `len` is 0. A short array gets the beginning.
 * - `needed`: host, gets the number of norms; may be NULL.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_report_get_history(const terrace_report *report,
                                          int64_t index,
                                          double *history,
                                          int64_t len,
                                          int64_t *needed);

/**
 * A summary for people: table of levels, complexities, iterations, times, memory.
 *
 * - `report`: not NULL.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_report_to_text(const terrace_report *report, char *buf, size_t len, size_t *needed);

/**
 * Everything in the report as one JSON object.
 *
 * - `report`: not NULL.
 * - `buf`, `len`, `needed`: text out, see the top of this file.
 *
 * Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
 */
terrace_status terrace_report_to_json(const terrace_report *report, char *buf, size_t len, size_t *needed);

/**
 * Destroys a report.
 *
 * - `report`: NULL is fine.
 *
 * Does not fail. One thread at a time for each context.
 */
terrace_status terrace_report_destroy(terrace_report *report);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_H */
