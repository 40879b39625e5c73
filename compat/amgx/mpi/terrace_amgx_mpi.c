/*
 * libterrace_amgx_mpi.so: what libamgxsh.so needs of MPI. Handles and constants differ from one MPI to another, so that
 * this file is compiled by the MPI compiler of the programs, and libamgxsh.so loads it when a program passes a
 * communicator. The numbers of the interface are those of compat/amgx/src/mpi.rs.
 */
#include "terrace_mpi.h"

#if defined(__GNUC__) || defined(__clang__)
#define SHOWN __attribute__((visibility("default")))
#else
#define SHOWN
#endif

SHOWN int32_t terrace_amgx_mpi_is_open_mpi(void);
SHOWN int32_t terrace_amgx_mpi_size(const void *comm);
SHOWN int32_t terrace_amgx_mpi_open(const void *comm, size_t bytes, void *table, int32_t *ranks_here, int32_t *may_thread);

/* Whether this was compiled for Open MPI, whose handles are pointers, or for another MPI. */
int32_t terrace_amgx_mpi_is_open_mpi(void) {
#ifdef OPEN_MPI
    return 1;
#else
    return 0;
#endif
}

/* The ranks of the communicator that comm points to; 0 where MPI is not initialised, or cannot tell. */
int32_t terrace_amgx_mpi_size(const void *comm) {
    int initialised = 0, finalised = 0, size = 0;
    if (MPI_Initialized(&initialised) != MPI_SUCCESS || !initialised) return 0;
    if (MPI_Finalized(&finalised) != MPI_SUCCESS || finalised) return 0;
    return MPI_Comm_size(*(const MPI_Comm *)comm, &size) == MPI_SUCCESS ? size : 0;
}

/*
 * Writes the table of a duplicate, a terrace_communicator of so many bytes, how many of its ranks are on this machine,
 * and whether MPI may be called by any thread, one at a time. Collective. 0 is success.
 */
int32_t terrace_amgx_mpi_open(const void *comm, size_t bytes, void *table, int32_t *ranks_here, int32_t *may_thread) {
    const MPI_Comm given = *(const MPI_Comm *)comm;
    MPI_Comm here;
    int provided = MPI_THREAD_SINGLE, size = 1;
    if (bytes != sizeof(terrace_communicator)) return -1;
    if (terrace_mpi_table(given, (terrace_communicator *)table) != 0) return -2;
    if (MPI_Comm_split_type(given, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) == MPI_SUCCESS) {
        MPI_Comm_size(here, &size);
        MPI_Comm_free(&here);
    }
    MPI_Query_thread(&provided);
    *ranks_here = size;
    *may_thread = provided >= MPI_THREAD_SERIALIZED;
    return 0;
}
