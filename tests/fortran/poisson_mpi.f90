! Solves [-1 2 -1] on n unknowns over the ranks of MPI:
!
!   mpirun -n 2 poisson_mpi
program poisson_mpi
  use, intrinsic :: iso_c_binding
  use mpi
  use terrace
  use terrace_mpi
  implicit none
  integer(c_int64_t), parameter :: n = 1000
  type(terrace_context) :: context
  type(terrace_matrix) :: matrix
  type(terrace_solver) :: solver
  integer(c_int64_t), allocatable :: row_offsets(:), columns(:)
  real(c_double), allocatable :: values(:), b(:), x(:)
  integer(c_int64_t) :: first, last, row, k
  integer :: rank, ranks, error
  real(c_double) :: own, largest

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  first = n * rank / ranks + 1
  last = n * (rank + 1) / ranks
  allocate (row_offsets(last - first + 2), columns(3 * (last - first + 1)), values(3 * (last - first + 1)))
  allocate (b(last - first + 1), x(last - first + 1))
  k = 1
  do row = first, last
    row_offsets(row - first + 1) = k
    if (row > 1) call put(row - 1, -1.0_c_double)
    call put(row, 2.0_c_double)
    if (row < n) call put(row + 1, -1.0_c_double)
  end do
  row_offsets(last - first + 2) = k
  b = 1.0_c_double

  call terrace_context_create('host:1', context)
  call terrace_context_set_mpi(context, MPI_COMM_WORLD)
  call terrace_matrix_create_csr_distributed(context, n, first, row_offsets, columns, values, matrix)
  call terrace_solver_create(context, solver)
  call terrace_solver_setup(solver, matrix)
  call terrace_solver_solve(solver, b, x)
  call terrace_solver_destroy(solver)
  call terrace_matrix_destroy(matrix)
  call terrace_context_destroy(context)

  ! The solution is i (n + 1 - i) / 2, at most 125250.
  own = maxval([0.0_c_double, x])
  call MPI_Reduce(own, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a, f10.1)', 'the largest element is ', largest
  call MPI_Finalize(error)

contains

  subroutine put(column, value)
    integer(c_int64_t), intent(in) :: column
    real(c_double), intent(in) :: value
    columns(k) = column
    values(k) = value
    k = k + 1
  end subroutine
end program
