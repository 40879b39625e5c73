/* What fortran/terrace_mpi.f90 calls: compiled by the program's own MPI compiler, beside the module. */
#include "terrace_mpi.h"

int32_t terrace_fortran_set_mpi(terrace_context *context, MPI_Fint comm);

int32_t terrace_fortran_set_mpi(terrace_context *context, MPI_Fint comm) {
    return terrace_context_set_mpi_fortran(context, comm);
}
