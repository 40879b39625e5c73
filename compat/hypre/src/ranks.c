/* Programs with several ranks. Every rank calls these functions in the same order. */
#include "shim.h"
#ifndef HYPRE_SEQUENTIAL
#include "terrace_mpi.h"
#endif

int shim_ranks(MPI_Comm comm)
{
    HYPRE_Int ranks = 1;
    hypre_MPI_Comm_size(comm, &ranks);
    return (int)ranks;
}

int shim_least(MPI_Comm comm, int here)
{
    HYPRE_Int own = here, least = own;
    if (shim_ranks(comm) > 1)
        hypre_MPI_Allreduce(&own, &least, 1, HYPRE_MPI_INT, hypre_MPI_MIN, comm);
    return (int)least;
}

int shim_all(MPI_Comm comm, int here) { return shim_least(comm, here != 0); }

/** Adds numbers over the ranks. At most 8. */
void shim_sum(MPI_Comm comm, double *numbers, int count)
{
    HYPRE_Real own[8], all[8];
    if (shim_ranks(comm) == 1)
        return;
    for (int i = 0; i < count; i++)
        own[i] = (HYPRE_Real)numbers[i];
    hypre_MPI_Allreduce(own, all, count, HYPRE_MPI_REAL, hypre_MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        numbers[i] = (double)all[i];
}

/** Gives a context the ranks of a matrix. What was made with it before keeps its own. */
terrace_status shim_set_ranks(terrace_context *context, MPI_Comm comm)
{
#ifdef HYPRE_SEQUENTIAL
    (void)context;
    (void)comm;
    return TERRACE_SUCCESS;
#else
    return terrace_context_set_mpi(context, comm);
#endif
}
