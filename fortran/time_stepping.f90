! Implicit Euler for the heat equation with a conductivity that changes in time: the Fortran twin of c_examples/time_stepping.c.
!
!   time_stepping [n [steps]]      n x n grid, n is 64 and steps is 10 unless given
program time_stepping
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use terrace
  implicit none

  real(real64), parameter :: dt = 0.005_real64
  type(terrace_context) :: context
  type(terrace_matrix) :: matrix
  type(terrace_solver) :: solver
  type(terrace_report) :: report
  integer(int32), allocatable :: row_offsets(:), columns(:)
  real(real64), allocatable :: values(:), b(:), u(:)
  real(real64) :: h, update_seconds
  integer(int32) :: iterations, first, most
  integer :: n, steps, step, nonzeros

  n = argument(1, 64)
  steps = argument(2, 10)
  if (n < 2 .or. n > 10000 .or. steps < 1) error stop 'n must be from 2 to 10000, steps at least 1'
  h = 1.0_real64 / (n + 1)
  allocate(row_offsets(n * n + 1), columns(5 * n * n), values(5 * n * n), b(n * n))
  allocate(u(n * n), source=1.0_real64)
  call assemble(0.0_real64)

  call terrace_context_create('host', context)
  call terrace_matrix_create_csr(context, row_offsets, columns, values, matrix, sorted=.true.)
  call terrace_solver_create(context, solver)
  call terrace_solver_setup(solver, matrix)

  first = 0
  most = 0
  do step = 1, steps
    call assemble(0.3_real64 * step)
    call terrace_matrix_update_values(context, matrix, values(:nonzeros))
    call terrace_solver_update(solver)

    b = h**2 / dt * u
    ! The old temperature is the first guess of the new one.
    call terrace_solver_solve(solver, b, u, guess=TERRACE_GIVEN_GUESS)

    call terrace_solver_report(solver, report)
    call terrace_report_get_int(report, 'iterations', iterations)
    call terrace_report_get_real(report, 'setup_seconds', update_seconds)
    call terrace_report_destroy(report)
    print '(a,i2,a,i2,a,f8.6,a,f6.4,a)', 'step ', step, ': ', iterations, ' iterations, heat ', h**2 * sum(u), &
      ', update ', update_seconds, ' s'
    if (step == 1) first = iterations
    most = max(most, iterations)
  end do
  print '(a,i0,a,i0)', 'iterations: ', first, ' in the first step, at most ', most

  call terrace_solver_destroy(solver)
  call terrace_matrix_destroy(matrix)
  call terrace_context_destroy(context)
  deallocate(row_offsets, columns, values, b, u)

contains

  integer function argument(position, default)
    integer, intent(in) :: position, default
    character(16) :: text
    integer :: missing
    argument = default
    call get_command_argument(position, text, status=missing)
    if (missing == 0) read (text, *) argument
  end function

  ! A well-conducting spot circles around the middle of the unit square.
  pure real(real64) function conductivity(x, y, angle)
    real(real64), intent(in) :: x, y, angle
    real(real64) :: r2
    r2 = (x - 0.5_real64 - 0.3_real64 * cos(angle))**2 + (y - 0.5_real64 - 0.3_real64 * sin(angle))**2
    conductivity = 1 + 20 * exp(-40 * r2)
  end function

  ! h^2 (1 / dt - div(k grad)) on the n x n interior points of the unit square, zero on the boundary.
  subroutine assemble(angle)
    real(real64), intent(in) :: angle
    real(real64) :: x, y, south, north, west, east
    integer :: i, j, row
    nonzeros = 0
    do j = 1, n
      do i = 1, n
        row = (j - 1) * n + i
        x = i * h
        y = j * h
        south = conductivity(x, y - h / 2, angle)
        north = conductivity(x, y + h / 2, angle)
        west = conductivity(x - h / 2, y, angle)
        east = conductivity(x + h / 2, y, angle)
        row_offsets(row) = nonzeros + 1
        if (j > 1) call add(row - n, -south)
        if (i > 1) call add(row - 1, -west)
        call add(row, h**2 / dt + south + north + west + east)
        if (i < n) call add(row + 1, -east)
        if (j < n) call add(row + n, -north)
      end do
    end do
    row_offsets(n * n + 1) = nonzeros + 1
  end subroutine

  subroutine add(column, value)
    integer, intent(in) :: column
    real(real64), intent(in) :: value
    nonzeros = nonzeros + 1
    columns(nonzeros) = column
    values(nonzeros) = value
  end subroutine
end program
