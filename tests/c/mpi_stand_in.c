/* terrace_mpi.h over a stand-in of MPI: more ranks than a test can start, and failures that no MPI makes on demand. */
#include "check.h"
#include "terrace_mpi.h"

#include <stdio.h>

enum { RANKS = 5000, LONGEST = 3 << 19, MESSAGES = 70 };

/* The byte of a rank at a place. */
static unsigned char byte_of(int rank, size_t place) { return (unsigned char)(rank * 7 + (int)(place % 251)); }

/* Only three ranks have bytes. */
static size_t length_of(int rank) { return rank == 0 ? LONGEST : rank == 2500 ? LONGEST / 2 + 1 : rank == RANKS - 1 ? 5 : 0; }

/* How far each rank is in what it gathers, what is under way, and what became of it. */
static size_t gathered[RANKS];
static int testall_fails, is_done, state[2 * MESSAGES], messages;
enum { FREE, RECEIVES, SENDS, CANCELLED_RECEIVE, CANCELLED_SEND, WAITED, LEFT };

int MPI_Comm_rank(MPI_Comm comm, int *rank) { return (void)comm, *rank = 0, MPI_SUCCESS; }
int MPI_Comm_size(MPI_Comm comm, int *size) { return (void)comm, *size = RANKS, MPI_SUCCESS; }
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy) { return *copy = comm, MPI_SUCCESS; }
int MPI_Comm_free(MPI_Comm *comm) { return *comm = MPI_COMM_NULL, MPI_SUCCESS; }
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) { return (void)comm, (void)handler, MPI_SUCCESS; }
MPI_Comm MPI_Comm_f2c(MPI_Fint comm) { return comm; }
int MPI_Query_thread(int *provided) { return *provided = MPI_THREAD_SERIALIZED, MPI_SUCCESS; }
int MPI_Finalized(int *flag) { return *flag = 0, MPI_SUCCESS; }
double MPI_Wtime(void) { return 0.0; }

static int post(int what, MPI_Request *request) {
    state[messages] = what;
    *request = messages++;
    return MPI_SUCCESS;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) {
    (void)data, (void)count, (void)type, (void)to, (void)tag, (void)comm;
    return post(SENDS, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    (void)data, (void)count, (void)type, (void)from, (void)tag, (void)comm;
    return post(RECEIVES, request);
}

int MPI_Iallreduce(const void *own, void *all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request) {
    (void)own, (void)all, (void)count, (void)type, (void)op, (void)comm, (void)request;
    return 1;
}

int MPI_Iallgatherv(const void *own, int count, MPI_Datatype type, void *all, const int *counts, const int *offsets, MPI_Datatype of_all,
                    MPI_Comm comm, MPI_Request *request) {
    (void)type, (void)of_all, (void)comm;
    CHECK(count == counts[0] && (count == 0 || ((const unsigned char *)own)[0] == byte_of(0, gathered[0])));
    for (int rank = 0; rank < RANKS; ++rank) {
        for (int k = 0; k < counts[rank]; ++k) ((unsigned char *)all)[offsets[rank] + k] = byte_of(rank, gathered[rank] + (size_t)k);
        gathered[rank] += (size_t)counts[rank];
    }
    *request = 0;
    return MPI_SUCCESS;
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) { return (void)comm, (void)request, 1; }

int MPI_Testall(int count, MPI_Request *requests, int *done, MPI_Status *statuses) {
    (void)statuses;
    *done = is_done;
    /* The first message is complete, and the second has an error. */
    if (testall_fails || is_done) requests[0] = MPI_REQUEST_NULL;
    for (int i = 1; is_done && i < count; ++i) requests[i] = MPI_REQUEST_NULL;
    return testall_fails ? 18 : MPI_SUCCESS;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    return (void)from, (void)tag, (void)comm, (void)status, *flag = 0, MPI_SUCCESS;
}

int MPI_Cancel(MPI_Request *request) {
    CHECK(state[*request] == RECEIVES || state[*request] == SENDS);
    state[*request] = state[*request] == RECEIVES ? CANCELLED_RECEIVE : CANCELLED_SEND;
    return MPI_SUCCESS;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    (void)status;
    CHECK(state[*request] == CANCELLED_RECEIVE);
    state[*request] = WAITED;
    return *request = MPI_REQUEST_NULL, MPI_SUCCESS;
}

int MPI_Request_free(MPI_Request *request) {
    CHECK(state[*request] == CANCELLED_SEND);
    state[*request] = LEFT;
    return *request = MPI_REQUEST_NULL, MPI_SUCCESS;
}

/* More than 2^31 bytes would lie between the parts of the first rank and the last, if each were a MiB long. */
static void gathers(const terrace_communicator *table) {
    size_t *lengths = (size_t *)calloc(2 * RANKS, sizeof *lengths), *offsets = lengths + RANKS, total = 0;
    for (int rank = 0; rank < RANKS; ++rank) {
        lengths[rank] = length_of(rank);
        offsets[rank] = total;
        total += lengths[rank];
    }
    unsigned char *own = (unsigned char *)malloc(LONGEST), *all = (unsigned char *)malloc(total);
    for (size_t k = 0; k < LONGEST; ++k) own[k] = byte_of(0, k);
    is_done = 1;
    CHECK(table->all_gather(table->user, own, lengths[0], all, lengths, offsets) == 0);
    for (int rank = 0; rank < RANKS; ++rank) {
        for (size_t k = 0; k < lengths[rank]; ++k) CHECK(all[offsets[rank] + k] == byte_of(rank, k));
    }
    free(lengths);
    free(own);
    free(all);
}

/* Where MPI fails, receives end before the call returns. */
static void ends_what_it_receives(const terrace_communicator *table) {
    void *requests[2 * MESSAGES];
    char bytes[1] = {0};
    is_done = 0;
    testall_fails = 1;
    messages = 0;
    for (int k = 0; k < MESSAGES; ++k) {
        CHECK(table->receive(table->user, bytes, 1, 1, 0, &requests[k]) == 0);
        CHECK(table->send(table->user, bytes, 1, 1, 0, &requests[MESSAGES + k]) == 0);
    }
    CHECK(table->wait_all(table->user, 2 * MESSAGES, requests) != 0);
    CHECK(state[0] == RECEIVES);
    for (int k = 1; k < 2 * MESSAGES; ++k) CHECK(state[k] == (k % 2 == 0 ? WAITED : LEFT));
}

int main(void) {
    terrace_communicator table;
    CHECK(terrace_mpi_table(0, &table) == 0);
    gathers(&table);
    ends_what_it_receives(&table);
    table.free(table.user);
    printf("all is well\n");
    return 0;
}
