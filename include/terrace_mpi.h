/*
 * terrace_mpi.h: the ranks of an MPI communicator for Terrace. Header only: it is compiled by the program's own MPI compiler, as C99 or
 * C++17, so that libterrace.so itself needs no MPI.
 *
 *     terrace_context_set_mpi(context, MPI_COMM_WORLD);
 *
 * is collective, like everything that is then done with a matrix of terrace_matrix_create_csr_distributed. MPI must be initialised with
 * MPI_Init, or, for contexts with several threads, with MPI_Init_thread and at least MPI_THREAD_SERIALIZED: set-up calls MPI on one of the
 * threads while the caller waits. Everything else is called on the thread that calls the library. The communicator is duplicated, so that messages of the library and of the program do not meet, and its errors are returned.
 * Destroy contexts, matrices and solvers before MPI_Finalize.
 *
 * Where a rank cannot go on, for lack of memory say, it tells the others by a message on a second communicator. They look for it while they
 * wait, and then fail with TERRACE_ERROR_CALLBACK instead of waiting for ever.
 */
#ifndef TERRACE_MPI_H
#define TERRACE_MPI_H

#include "terrace.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define TERRACE_MPI_FUNCTION static __attribute__((unused))
#else
#define TERRACE_MPI_FUNCTION static
#endif

/* One rank: its communicator, that of the last messages, whether it was revoked, and the seconds that it waits, 0 without end. */
typedef struct {
    MPI_Comm data, last;
    int revoked;
    double timeout;
} terrace_mpi_rank;

TERRACE_MPI_FUNCTION int32_t terrace_mpi_rank_of(void *user) {
    int rank = -1;
    return MPI_Comm_rank(((terrace_mpi_rank *)user)->data, &rank) == MPI_SUCCESS ? rank : -1;
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_size_of(void *user) {
    int size = 0;
    return MPI_Comm_size(((terrace_mpi_rank *)user)->data, &size) == MPI_SUCCESS ? size : 0;
}

/* A message under way; whether it is one that this rank receives. */
typedef struct {
    MPI_Request request;
    int receives;
} terrace_mpi_message;

TERRACE_MPI_FUNCTION void terrace_mpi_revoke(void *user);

/* Waits for requests, and for a last message of a rank that cannot go on. Fails then, where MPI fails, and where the time is up; what is not
   complete is in the list. */
TERRACE_MPI_FUNCTION int32_t terrace_mpi_wait(terrace_mpi_rank *rank, int count, MPI_Request *requests) {
    const double start = rank->timeout > 0.0 ? MPI_Wtime() : 0.0;
    for (;;) {
        int done = 0, gone = 0;
        int error = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (error == MPI_SUCCESS && done) return 0;
        if (error == MPI_SUCCESS) error = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, rank->last, &gone, MPI_STATUS_IGNORE);
        if (rank->timeout > 0.0 && MPI_Wtime() - start > rank->timeout) terrace_mpi_revoke(rank);
        if (error == MPI_SUCCESS && !gone && !rank->revoked) continue;
        rank->revoked = rank->revoked || gone;
        return error != MPI_SUCCESS ? error : -1;
    }
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_post(terrace_mpi_rank *rank, void *data, size_t bytes, int other, int tag, int receives, void **request) {
    *request = NULL;
    if (bytes > INT_MAX || rank->revoked) return -1;
    terrace_mpi_message *message = (terrace_mpi_message *)malloc(sizeof *message);
    if (message == NULL) return -1;
    message->receives = receives;
    const int error = receives ? MPI_Irecv(data, (int)bytes, MPI_BYTE, other, tag, rank->data, &message->request)
                               : MPI_Isend(data, (int)bytes, MPI_BYTE, other, tag, rank->data, &message->request);
    if (error != MPI_SUCCESS) {
        free(message);
        return error;
    }
    *request = message;
    return 0;
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_send(void *user, const void *data, size_t bytes, int32_t to, int32_t tag, void **request) {
    return terrace_mpi_post((terrace_mpi_rank *)user, (void *)data, bytes, to, tag, 0, request);
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_receive(void *user, void *data, size_t bytes, int32_t from, int32_t tag, void **request) {
    return terrace_mpi_post((terrace_mpi_rank *)user, data, bytes, from, tag, 1, request);
}

/* After a failure no message may be written to buffers that the library then frees: a receive is cancelled, and MPI_Wait returns for one that
   is, whatever the other ranks do. It may wait for a receiver, where a send cannot be cancelled, so that a send is left to MPI. */
TERRACE_MPI_FUNCTION int32_t terrace_mpi_wait_all(void *user, int32_t count, void **requests) {
    MPI_Request few[64], *all = few;
    int32_t error = 0;
    if (count > 64) all = (MPI_Request *)malloc((size_t)count * sizeof *all);
    for (int32_t i = 0; all != NULL && i < count; ++i) all[i] = ((terrace_mpi_message *)requests[i])->request;
    error = all == NULL ? -1 : terrace_mpi_wait((terrace_mpi_rank *)user, count, all);
    for (int32_t i = 0; i < count; ++i) {
        terrace_mpi_message *message = (terrace_mpi_message *)requests[i];
        MPI_Request left = all == NULL ? message->request : all[i];
        if (error != 0 && left != MPI_REQUEST_NULL) {
            MPI_Cancel(&left);
            if (message->receives) (void)MPI_Wait(&left, MPI_STATUS_IGNORE);
            else MPI_Request_free(&left);
        }
        free(message);
    }
    if (all != few) free(all);
    return error;
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_all_reduce(void *user, const int64_t *own, int64_t *all, int32_t count, int32_t operation) {
    terrace_mpi_rank *rank = (terrace_mpi_rank *)user;
    const MPI_Op op = operation == TERRACE_SUM ? MPI_SUM : operation == TERRACE_MIN ? MPI_MIN : MPI_MAX;
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank->revoked || count < 1) return rank->revoked ? -1 : 0;
    int64_t *buffers = (int64_t *)malloc(2 * (size_t)count * sizeof *buffers);
    if (buffers == NULL) return -1;
    memcpy(buffers, own, (size_t)count * sizeof *own);
    int32_t error = MPI_Iallreduce(buffers, buffers + count, count, MPI_INT64_T, op, rank->data, &request);
    /* A collective operation cannot be cancelled, so that after a failure its buffers stay. */
    if (error == MPI_SUCCESS) error = terrace_mpi_wait(rank, 1, &request);
    if (error != 0) return error;
    memcpy(all, buffers + count, (size_t)count * sizeof *all);
    free(buffers);
    return 0;
}

/* MPI counts with int, so that bytes are gathered in pieces: at most so many from each rank, and so many from all of them. */
#define TERRACE_MPI_PIECE ((size_t)1 << 20)
#define TERRACE_MPI_PIECES ((size_t)1 << 28)

TERRACE_MPI_FUNCTION int32_t terrace_mpi_all_gather(void *user, const void *own, size_t bytes, void *all, const size_t *lengths,
                                                    const size_t *offsets) {
    terrace_mpi_rank *rank = (terrace_mpi_rank *)user;
    const int32_t size = terrace_mpi_size_of(user);
    size_t longest = 0;
    if (rank->revoked || size < 1) return -1;
    for (int32_t i = 0; i < size; ++i) {
        if (lengths[i] > longest) longest = lengths[i];
    }
    size_t piece = longest < TERRACE_MPI_PIECE ? longest : TERRACE_MPI_PIECE;
    if (piece > TERRACE_MPI_PIECES / (size_t)size) piece = TERRACE_MPI_PIECES / (size_t)size;
    if (longest > 0 && piece == 0) return -1;
    int *numbers = (int *)malloc(2 * (size_t)size * sizeof *numbers);
    char *buffers = (char *)malloc(((size_t)size + 1) * piece + 1);
    if (numbers == NULL || buffers == NULL) {
        free(numbers);
        free(buffers);
        return -1;
    }
    for (size_t begin = 0; begin < longest; begin += piece) {
        MPI_Request request = MPI_REQUEST_NULL;
        int total = 0, here = 0;
        for (int32_t i = 0; i < size; ++i) {
            const size_t left = lengths[i] > begin ? lengths[i] - begin : 0;
            numbers[i] = (int)(left < piece ? left : piece);
            numbers[size + i] = total;
            total += numbers[i];
        }
        if (bytes > begin) {
            here = (int)(bytes - begin < piece ? bytes - begin : piece);
            memcpy(buffers, (const char *)own + begin, (size_t)here);
        }
        int32_t error = MPI_Iallgatherv(buffers, here, MPI_BYTE, buffers + piece, numbers, numbers + size, MPI_BYTE, rank->data, &request);
        if (error == MPI_SUCCESS) error = terrace_mpi_wait(rank, 1, &request);
        if (error != 0) return error;
        for (int32_t i = 0; i < size; ++i) {
            if (numbers[i] > 0) memcpy((char *)all + offsets[i] + begin, buffers + piece + numbers[size + i], (size_t)numbers[i]);
        }
    }
    free(buffers);
    free(numbers);
    return 0;
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_barrier(void *user) {
    terrace_mpi_rank *rank = (terrace_mpi_rank *)user;
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank->revoked) return -1;
    const int error = MPI_Ibarrier(rank->data, &request);
    return error != MPI_SUCCESS ? error : terrace_mpi_wait(rank, 1, &request);
}

TERRACE_MPI_FUNCTION void terrace_mpi_revoke(void *user) {
    terrace_mpi_rank *rank = (terrace_mpi_rank *)user;
    const int32_t own = terrace_mpi_rank_of(user), size = terrace_mpi_size_of(user);
    if (rank->revoked) return;
    rank->revoked = 1;
    for (int32_t to = 0; to < size; ++to) {
        MPI_Request sent = MPI_REQUEST_NULL;
        if (to == own) continue;
        if (MPI_Isend(NULL, 0, MPI_BYTE, to, 0, rank->last, &sent) == MPI_SUCCESS) MPI_Request_free(&sent);
    }
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_timeout(void *user, double seconds) {
    ((terrace_mpi_rank *)user)->timeout = seconds;
    return 0;
}

TERRACE_MPI_FUNCTION void terrace_mpi_free(void *user) {
    terrace_mpi_rank *rank = (terrace_mpi_rank *)user;
    int finalized = 0;
    MPI_Finalized(&finalized);
    /* MPI_Comm_free may wait for the other ranks, which a revoked communicator must not. */
    if (!finalized && !rank->revoked) {
        MPI_Comm_free(&rank->data);
        MPI_Comm_free(&rank->last);
    }
    free(rank);
}

TERRACE_MPI_FUNCTION int32_t terrace_mpi_table(MPI_Comm comm, terrace_communicator *table);

TERRACE_MPI_FUNCTION int32_t terrace_mpi_duplicate(void *user, void *copy) {
    return terrace_mpi_table(((terrace_mpi_rank *)user)->data, (terrace_communicator *)copy);
}

/* A table for a duplicate of an MPI communicator. Collective. */
TERRACE_MPI_FUNCTION int32_t terrace_mpi_table(MPI_Comm comm, terrace_communicator *table) {
    terrace_mpi_rank *rank = (terrace_mpi_rank *)malloc(sizeof *rank);
    if (rank == NULL) return -1;
    rank->revoked = 0;
    rank->timeout = 0.0;
    int error = MPI_Comm_dup(comm, &rank->data);
    if (error == MPI_SUCCESS) error = MPI_Comm_dup(comm, &rank->last);
    if (error != MPI_SUCCESS) {
        free(rank);
        return error;
    }
    MPI_Comm_set_errhandler(rank->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(rank->last, MPI_ERRORS_RETURN);
    table->user = rank;
    table->rank = terrace_mpi_rank_of;
    table->size = terrace_mpi_size_of;
    table->send = terrace_mpi_send;
    table->receive = terrace_mpi_receive;
    table->wait_all = terrace_mpi_wait_all;
    table->all_reduce = terrace_mpi_all_reduce;
    table->all_gather = terrace_mpi_all_gather;
    table->barrier = terrace_mpi_barrier;
    table->duplicate = terrace_mpi_duplicate;
    table->revoke = terrace_mpi_revoke;
    table->free = terrace_mpi_free;
    table->timeout = terrace_mpi_timeout;
    return 0;
}

/*
 * Makes a context that of one rank of an MPI communicator, which is duplicated. Collective: every rank of the communicator calls it.
 * MPI_COMM_NULL makes it a context without ranks again. Errors: those of terrace_context_set_communicator; TERRACE_ERROR_CALLBACK where MPI
 * fails, TERRACE_ERROR_UNSUPPORTED where it was initialised for fewer threads than the context has.
 */
TERRACE_MPI_FUNCTION terrace_status terrace_context_set_mpi(terrace_context *context, MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) return terrace_context_set_communicator(context, NULL);
    int provided = MPI_THREAD_SINGLE;
    int32_t threads = 1;
    MPI_Query_thread(&provided);
    const terrace_status asked = terrace_context_get_threads(context, &threads);
    if (asked != TERRACE_SUCCESS) return asked;
    if (threads > 1 && provided < MPI_THREAD_SERIALIZED) {
        return terrace_context_set_error(context, TERRACE_ERROR_UNSUPPORTED,
                                         "the context has several threads and MPI was initialised for one; make the context with the device "
                                         "\"host:1\", or call MPI_Init_thread with MPI_THREAD_SERIALIZED");
    }
    terrace_communicator table;
    if (terrace_mpi_table(comm, &table) != 0) {
        return terrace_context_set_error(context, TERRACE_ERROR_CALLBACK, "MPI_Comm_dup failed, or there was no memory for its result");
    }
    const terrace_status status = terrace_context_set_communicator(context, &table);
    terrace_mpi_free(table.user);
    return status;
}

/*
 * The same for the integer handle of a communicator of Fortran: comm%MPI_VAL of mpi_f08, or that of `use mpi`.
 */
TERRACE_MPI_FUNCTION terrace_status terrace_context_set_mpi_fortran(terrace_context *context, MPI_Fint comm) {
    return terrace_context_set_mpi(context, MPI_Comm_f2c(comm));
}

#endif
