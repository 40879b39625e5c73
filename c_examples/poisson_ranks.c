/* Solves the 7-point Poisson problem on an n x n x n grid over ranks, each with some planes of the grid.
 *
 *   poisson_ranks [n [ranks]]              ranks are threads of this process: n is 32 and there are 2 ranks unless given
 *   mpirun -n 2 poisson_ranks [n]          built with mpicc and -DUSE_MPI
 *
 * The solution has the same bits for any number of ranks; the last line shows them.
 */
#include "terrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef USE_MPI
#include "terrace_mpi.h"
#else
#include <pthread.h>
#endif

/* Stops with the library's sentence when a call fails. Where a call is collective, it fails on all ranks. */
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        terrace_status status_ = (call);                                                                               \
        if (status_ < 0) {                                                                                             \
            char sentence_[512] = "";                                                                                  \
            terrace_last_error(context, sentence_, sizeof sentence_, NULL);                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, terrace_status_name(status_), sentence_);           \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "%zu bytes could not be allocated\n", bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* Rows of -Laplace for the planes from `first` to `last` - 1, with global columns. */
static void assemble(int64_t n, int64_t first, int64_t last, int64_t *row_offsets, int64_t *columns, double *values) {
    int64_t row = first * n * n, k = 0, i = 0;
    for (int64_t z = first; z < last; ++z) {
        for (int64_t y = 0; y < n; ++y) {
            for (int64_t x = 0; x < n; ++x, ++row) {
                row_offsets[i++] = k;
                if (z > 0) { columns[k] = row - n * n; values[k++] = -1.0; }
                if (y > 0) { columns[k] = row - n; values[k++] = -1.0; }
                if (x > 0) { columns[k] = row - 1; values[k++] = -1.0; }
                columns[k] = row; values[k++] = 6.0;
                if (x < n - 1) { columns[k] = row + 1; values[k++] = -1.0; }
                if (y < n - 1) { columns[k] = row + n; values[k++] = -1.0; }
                if (z < n - 1) { columns[k] = row + n * n; values[k++] = -1.0; }
            }
        }
    }
    row_offsets[i] = k;
}

/* What one rank does with its context. Returns the sum of the bits of its part of the solution. */
static uint64_t solve(terrace_context *context, int64_t n, int rank, int ranks) {
    const int64_t first = n * rank / ranks, last = n * (rank + 1) / ranks, rows = (last - first) * n * n;
    int64_t *row_offsets = allocate((size_t)(rows + 1) * sizeof *row_offsets);
    int64_t *columns = allocate(7 * (size_t)rows * sizeof *columns);
    double *values = allocate(7 * (size_t)rows * sizeof *values);
    double *b = allocate((size_t)rows * sizeof *b);
    double *x = allocate((size_t)rows * sizeof *x);
    assemble(n, first, last, row_offsets, columns, values);
    for (int64_t i = 0; i < rows; ++i) {
        b[i] = 1.0;
    }

    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_csr_distributed(context, n * n * n, first * n * n, rows, TERRACE_I64, row_offsets, TERRACE_I64,
                                                columns, TERRACE_F64, values, 0, TERRACE_COPY | TERRACE_SORTED, &matrix));
    terrace_solver *solver = NULL;
    CHECK(terrace_solver_create(context, NULL, &solver));
    CHECK(terrace_solver_setup(solver, matrix));
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));

    /* Reports are the same on all ranks, but for times and bytes. */
    if (rank == 0) {
        terrace_report *report = NULL;
        int64_t iterations = 0, levels = 0;
        double residual = 0.0;
        CHECK(terrace_solver_report(solver, &report));
        CHECK(terrace_report_get_int(report, "iterations", 0, &iterations));
        CHECK(terrace_report_get_int(report, "levels", 0, &levels));
        CHECK(terrace_report_get_real(report, "true_residual", 0, &residual));
        CHECK(terrace_report_destroy(report));
        printf("%lld^3 unknowns: %lld levels, %lld iterations, relative residual %.3e\n", (long long)n, (long long)levels,
               (long long)iterations, residual);
    }
    uint64_t sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
        uint64_t bits = 0;
        memcpy(&bits, &x[i], sizeof bits);
        sum += bits;
    }

    CHECK(terrace_solver_destroy(solver));
    CHECK(terrace_matrix_destroy(matrix));
    free(x);
    free(b);
    free(values);
    free(columns);
    free(row_offsets);
    return sum;
}

#ifdef USE_MPI

int main(int argc, char **argv) {
    int rank = 0, ranks = 1;
    terrace_context *context = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int64_t n = argc > 1 ? atoi(argv[1]) : 32;
    CHECK(terrace_context_create("host:1", &context));
    CHECK(terrace_context_set_mpi(context, MPI_COMM_WORLD));
    uint64_t own = solve(context, n, rank, ranks), all = 0;
    CHECK(terrace_context_destroy(context));
    MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("sum of the bits of x: %016llx\n", (unsigned long long)all);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}

#else

typedef struct {
    const terrace_communicator *communicator;
    int64_t n;
    int rank, ranks;
    uint64_t sum;
} task;

static void *work(void *user) {
    task *own = user;
    terrace_context *context = NULL;
    CHECK(terrace_context_create("host:1", &context));
    CHECK(terrace_context_set_communicator(context, own->communicator));
    own->sum = solve(context, own->n, own->rank, own->ranks);
    CHECK(terrace_context_destroy(context));
    return NULL;
}

int main(int argc, char **argv) {
    const int64_t n = argc > 1 ? atoi(argv[1]) : 32;
    const int ranks = argc > 2 ? atoi(argv[2]) : 2;
    terrace_context *context = NULL; /* none yet: an error is one of this thread */
    if (n < 1 || n > 600 || ranks < 1 || ranks > 64) {
        fprintf(stderr, "n must be from 1 to 600, and ranks from 1 to 64\n");
        return EXIT_FAILURE;
    }
    terrace_communicator communicators[64];
    pthread_t threads[64];
    task tasks[64];
    uint64_t sum = 0;
    CHECK(terrace_threads_communicator(ranks, communicators));
    for (int rank = 0; rank < ranks; ++rank) {
        tasks[rank] = (task){&communicators[rank], n, rank, ranks, 0};
        if (pthread_create(&threads[rank], NULL, work, &tasks[rank]) != 0) {
            fprintf(stderr, "thread %d could not be started\n", rank);
            return EXIT_FAILURE;
        }
    }
    for (int rank = 0; rank < ranks; ++rank) {
        pthread_join(threads[rank], NULL);
        sum += tasks[rank].sum;
        communicators[rank].free(communicators[rank].user);
    }
    printf("sum of the bits of x: %016llx\n", (unsigned long long)sum);
    return EXIT_SUCCESS;
}

#endif
