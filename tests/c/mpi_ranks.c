/* Ranks of MPI: an error of one is an error of all, and one that gives up does not leave the others waiting. */
#include "terrace_mpi.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

/* One row of the identity for each rank; rank 1 has a column too many. */
static terrace_status create(terrace_context *context, int rank, int ranks, int64_t column, terrace_matrix **matrix) {
    const int64_t offsets[2] = {0, 1};
    const double value = 2.0;
    return terrace_matrix_create_csr_distributed(context, ranks, rank, 1, TERRACE_I64, offsets, TERRACE_I64, &column, TERRACE_F64,
                                                 &value, 0, TERRACE_COPY, matrix);
}

int main(int argc, char **argv) {
    int rank = 0, ranks = 1;
    char sentence[256] = "";
    terrace_context *context = NULL;
    terrace_matrix *matrix = NULL;
    terrace_solver *solver = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(terrace_context_create("host:1", &context) == TERRACE_SUCCESS);
    CHECK(terrace_context_set_mpi_fortran(context, MPI_Comm_c2f(MPI_COMM_WORLD)) == TERRACE_SUCCESS);

    CHECK(create(context, rank, ranks, rank == 1 ? 99 : rank, &matrix) == TERRACE_ERROR_MATRIX_STRUCTURE);
    CHECK(terrace_last_error(context, sentence, sizeof sentence, NULL) == TERRACE_SUCCESS);
    CHECK(strstr(sentence, "row 1 has column 99") != NULL && (rank == 1 || strstr(sentence, "rank 1 of 3: ") == sentence));

    CHECK(create(context, rank, ranks, rank, &matrix) == TERRACE_SUCCESS);
    CHECK(terrace_solver_create(context, NULL, &solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_setup(solver, matrix) == TERRACE_SUCCESS);
    const double b = 4.0;
    double x = 0.0;
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, rank == 2 ? NULL : &b, &x, TERRACE_ZERO_GUESS) == TERRACE_ERROR_NULL_ARGUMENT);
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, &b, &x, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(x > 1.999999 && x < 2.000001);

    /* New values, and two right-hand sides in one call. */
    const double four = 4.0, two[2] = {4.0, 8.0};
    double both[2] = {0.0, 0.0};
    CHECK(terrace_matrix_update_values(context, matrix, TERRACE_F64, &four, 1) == TERRACE_SUCCESS);
    CHECK(terrace_solver_update(solver) == TERRACE_SUCCESS);
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 2, two, both, TERRACE_ZERO_GUESS) == TERRACE_SUCCESS);
    CHECK(both[0] > 0.999999 && both[0] < 1.000001 && both[1] > 1.999999 && both[1] < 2.000001);
    CHECK(terrace_solver_solve(solver, TERRACE_F64, rank == 1 ? 2 : 1, two, both, TERRACE_ZERO_GUESS) == TERRACE_ERROR_SIZE_MISMATCH);
    CHECK(terrace_solver_destroy(solver) == TERRACE_SUCCESS);

    /* A hierarchy without a solver: what one rank gives wrong is wrong on all, and the next application is right. */
    terrace_amg *amg = NULL;
    double z = 0.0;
    CHECK(terrace_amg_setup(context, matrix, NULL, &amg) == TERRACE_SUCCESS);
    CHECK(terrace_amg_apply(amg, rank == 1 ? TERRACE_I32 : TERRACE_F64, &b, &z) == TERRACE_ERROR_INVALID_ARGUMENT);
    CHECK(terrace_amg_apply(amg, TERRACE_F64, rank == 2 ? NULL : &b, &z) == TERRACE_ERROR_NULL_ARGUMENT);
    CHECK(terrace_amg_apply(amg, TERRACE_F64, &b, &z) == TERRACE_SUCCESS && z == 1.0);
    CHECK(terrace_matrix_update_values(context, matrix, TERRACE_F64, &two[1], 1) == TERRACE_SUCCESS);
    CHECK(terrace_amg_update(amg) == TERRACE_SUCCESS);
    CHECK(terrace_amg_apply(amg, TERRACE_F64, &b, &z) == TERRACE_SUCCESS && z == 0.5);
    CHECK(terrace_amg_destroy(amg) == TERRACE_SUCCESS);
    CHECK(terrace_matrix_destroy(matrix) == TERRACE_SUCCESS);
    CHECK(terrace_context_set_mpi(context, MPI_COMM_NULL) == TERRACE_SUCCESS);
    CHECK(terrace_context_destroy(context) == TERRACE_SUCCESS);

    terrace_communicator table;
    CHECK(terrace_mpi_table(MPI_COMM_WORLD, &table) == 0);
    CHECK(table.barrier(table.user) == 0);
    /* All have left that one, which a revocation would end, too. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        table.revoke(table.user);
    } else {
        const int64_t own = 1;
        int64_t all = 0;
        void *request = NULL;
        char message[8];
        CHECK(table.receive(table.user, message, sizeof message, 1, 5, &request) == 0);
        CHECK(table.wait_all(table.user, 1, &request) != 0);
        CHECK(table.all_reduce(table.user, &own, &all, 1, TERRACE_MAX) != 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    table.free(table.user);

    /* A message that never comes. Rank 0 has no limit, and learns from rank 2 that its time is up. */
    CHECK(terrace_mpi_table(MPI_COMM_WORLD, &table) == 0);
    CHECK(table.timeout(table.user, rank == 2 ? 0.2 : 0.0) == 0);
    if (rank != 1) {
        void *request = NULL;
        char message[8];
        CHECK(table.receive(table.user, message, sizeof message, 1, 5, &request) == 0);
        CHECK(table.wait_all(table.user, 1, &request) != 0);
        CHECK(table.barrier(table.user) != 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    table.free(table.user);
    if (rank == 0) {
        puts("all is well");
    }
    MPI_Finalize();
    return 0;
}
