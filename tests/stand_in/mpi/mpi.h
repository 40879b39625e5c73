/* The part of MPI that terrace_mpi.h uses, for one process that stands for one of many ranks: tests/c/mpi_stand_in.c says what it does. */
#ifndef TERRACE_STAND_IN_MPI_H
#define TERRACE_STAND_IN_MPI_H

#include <stdint.h>

typedef int MPI_Comm;
typedef int MPI_Fint;
typedef int MPI_Op;
typedef int MPI_Datatype;
typedef int MPI_Request;
typedef int MPI_Status;
typedef int MPI_Errhandler;

enum { MPI_SUCCESS = 0, MPI_COMM_NULL = -1, MPI_REQUEST_NULL = -1, MPI_ANY_SOURCE = -1, MPI_ANY_TAG = -1 };
enum { MPI_BYTE, MPI_INT64_T, MPI_SUM, MPI_MIN, MPI_MAX, MPI_ERRORS_RETURN };
enum { MPI_THREAD_SINGLE, MPI_THREAD_SERIALIZED };
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)

int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
MPI_Comm MPI_Comm_f2c(MPI_Fint comm);
int MPI_Query_thread(int *provided);
int MPI_Finalized(int *flag);
double MPI_Wtime(void);
int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request);
int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request);
int MPI_Iallreduce(const void *own, void *all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request);
int MPI_Iallgatherv(const void *own, int count, MPI_Datatype type, void *all, const int *counts, const int *offsets, MPI_Datatype of_all,
                    MPI_Comm comm, MPI_Request *request);
int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request);
int MPI_Testall(int count, MPI_Request *requests, int *done, MPI_Status *statuses);
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status);
int MPI_Cancel(MPI_Request *request);
int MPI_Wait(MPI_Request *request, MPI_Status *status);
int MPI_Request_free(MPI_Request *request);

#endif
