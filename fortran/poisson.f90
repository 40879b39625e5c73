! Solves the 7-point Poisson problem on an n x n x n grid: the Fortran twin of c_examples/poisson.c.
!
!   poisson [n]      n is 64 unless given
program poisson
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use terrace
  implicit none

  type(terrace_context) :: context
  type(terrace_matrix) :: matrix
  type(terrace_config) :: config
  type(terrace_solver) :: solver
  integer(int32), allocatable, target :: row_offsets(:), columns(:)
  real(real64), allocatable, target :: values(:)
  real(real64), allocatable :: b(:), x(:)
  integer :: status
  integer :: n, rows
  character(16) :: argument

  n = 64
  call get_command_argument(1, argument, status=status)
  if (status == 0) read (argument, *) n
  if (n < 1 .or. n > 600) error stop 'n must be from 1 to 600'
  rows = n**3
  call assemble()
  allocate(b(rows), source=1.0_real64)
  allocate(x(rows))
  print '(a,i0,a,i0,a,i0,a/)', 'Poisson, ', n, '^3 = ', rows, ' unknowns, ', row_offsets(rows + 1) - 1, ' nonzeros'

  ! A call that fails stops the program with the library's sentence; with `status` as its next argument the program goes on.
  call terrace_context_create('host', context)
  ! Borrowed: the library reads the three arrays where they are.
  call terrace_matrix_create_csr(context, row_offsets, columns, values, matrix, borrow=.true., sorted=.true.)
  call terrace_config_create(context, config)
  call terrace_config_set_real(config, 'solver.tolerance', 1e-8_real64)
  call terrace_config_set_int(config, 'solver.max_iterations', 200)

  call terrace_solver_create(context, config, solver)
  call terrace_solver_setup(solver, matrix)
  call terrace_solver_solve(solver, b, x)
  call print_report()

  call terrace_solver_destroy(solver)
  call terrace_config_destroy(config)
  call terrace_matrix_destroy(matrix)
  call terrace_context_destroy(context)
  deallocate(row_offsets, columns, values, b, x)

contains

  ! -Laplace with zero boundary values and mesh width 1, rows in lexicographic order, counted from 1.
  subroutine assemble()
    integer :: x, y, z, row, k
    allocate(row_offsets(n**3 + 1), columns(7 * n**3), values(7 * n**3))
    row = 0
    k = 0
    do z = 1, n
      do y = 1, n
        do x = 1, n
          row = row + 1
          row_offsets(row) = k + 1
          if (z > 1) call add(row - n * n, -1.0_real64, k)
          if (y > 1) call add(row - n, -1.0_real64, k)
          if (x > 1) call add(row - 1, -1.0_real64, k)
          call add(row, 6.0_real64, k)
          if (x < n) call add(row + 1, -1.0_real64, k)
          if (y < n) call add(row + n, -1.0_real64, k)
          if (z < n) call add(row + n * n, -1.0_real64, k)
        end do
      end do
    end do
    row_offsets(n**3 + 1) = k + 1
  end subroutine

  subroutine add(column, value, k)
    integer, intent(in) :: column
    real(real64), intent(in) :: value
    integer, intent(inout) :: k
    k = k + 1
    columns(k) = column
    values(k) = value
  end subroutine

  subroutine print_report()
    type(terrace_report) :: report
    character(:), allocatable :: text
    real(real64), allocatable :: history(:)
    real(real64) :: setup_seconds, solve_seconds
    integer :: i
    call terrace_solver_report(solver, report)
    call terrace_report_to_text(report, text)
    print '(a)', text
    call terrace_report_get_history(report, history)
    print '(a)', 'iteration  relative residual'
    do i = 1, size(history)
      print '(i9,2x,es9.3)', i - 1, history(i)
    end do
    call terrace_report_get_real(report, 'setup_seconds', setup_seconds)
    call terrace_report_get_real(report, 'solve_seconds', solve_seconds)
    print '(/a,f6.3,a)', 'set-up and solve took ', setup_seconds + solve_seconds, ' s'
    call terrace_report_destroy(report)
  end subroutine
end program
