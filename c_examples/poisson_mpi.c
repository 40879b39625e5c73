/* poisson_ranks.c over MPI:
 *
 *   mpicc -Iinclude c_examples/poisson_mpi.c -lterrace -o poisson_mpi && mpirun -n 4 ./poisson_mpi [n]
 */
#define USE_MPI
#include "poisson_ranks.c"
