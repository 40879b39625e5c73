! Callbacks in a solve: the Fortran twin of c_examples/callback.c. A nine-point operator that is never assembled, preconditioned first
! by AMG of the five-point matrix, then by a Jacobi step of the caller.
!
!   callback [n]      n x n grid, n is 64 unless given
module nine_point
  use, intrinsic :: iso_c_binding
  implicit none

  ! What the callbacks need; the library hands its address through.
  type :: grid
    integer :: n = 0
    integer :: calls = 0
  end type

contains

  ! y = A x with the compact nine-point Laplacian.
  function apply_operator(n, x, y, user) result(failure) bind(c)
    integer(c_int64_t), value :: n
    real(c_double), intent(in) :: x(n)
    real(c_double), intent(out) :: y(n)
    type(c_ptr), value :: user
    integer(c_int32_t) :: failure
    type(grid), pointer :: g
    real(c_double), allocatable :: padded(:, :)
    integer :: i, j, m
    call c_f_pointer(user, g)
    m = g%n
    failure = 1 ! anything but 0 ends the solve with TERRACE_ERROR_CALLBACK
    if (n /= int(m, c_int64_t)**2) return
    allocate(padded(0:m + 1, 0:m + 1), source=0.0_c_double)
    padded(1:m, 1:m) = reshape(x, [m, m])
    do j = 1, m
      do i = 1, m
        y((j - 1) * m + i) = (20 * padded(i, j) &
          - 4 * (padded(i - 1, j) + padded(i + 1, j) + padded(i, j - 1) + padded(i, j + 1)) &
          - padded(i - 1, j - 1) - padded(i + 1, j - 1) - padded(i - 1, j + 1) - padded(i + 1, j + 1)) / 6
      end do
    end do
    g%calls = g%calls + 1
    failure = 0
  end function

  ! y = M x with the inverse of the operator's diagonal.
  function apply_jacobi(n, x, y, user) result(failure) bind(c)
    integer(c_int64_t), value :: n
    real(c_double), intent(in) :: x(n)
    real(c_double), intent(out) :: y(n)
    type(c_ptr), value :: user
    integer(c_int32_t) :: failure
    type(grid), pointer :: g
    call c_f_pointer(user, g)
    y = 6 * x / 20
    g%calls = g%calls + 1
    failure = 0
  end function
end module

program callback
  use, intrinsic :: iso_c_binding, only: c_loc
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use nine_point
  use terrace
  implicit none

  type(terrace_context) :: context
  type(terrace_matrix) :: matrix
  type(terrace_solver) :: with_amg, matrix_free
  type(grid), target :: operator_data, preconditioner_data
  integer(int64), allocatable :: row_offsets(:)
  integer(int32), allocatable :: columns(:)
  real(real64), allocatable :: values(:), b(:), x(:)
  integer(int32) :: status
  integer :: n
  character(16) :: argument

  n = 64
  call get_command_argument(1, argument, status=status)
  if (status == 0) read (argument, *) n
  if (n < 1 .or. n > 10000) error stop 'n must be from 1 to 10000'
  operator_data%n = n
  preconditioner_data%n = n
  call five_point()
  allocate(b(n * n), source=1.0_real64)
  allocate(x(n * n))

  call terrace_context_create('host', context)
  call terrace_matrix_create_csr(context, row_offsets, columns, values, matrix)
  call terrace_solver_create(context, with_amg)
  call terrace_solver_set_operator(with_amg, n * n, apply_operator, user=c_loc(operator_data))
  call terrace_solver_setup(with_amg, matrix)
  call solve('nine-point operator, AMG of the five-point matrix', with_amg)

  call terrace_solver_create(context, matrix_free)
  call terrace_solver_set_operator(matrix_free, n * n, apply_operator, user=c_loc(operator_data))
  call terrace_solver_set_preconditioner(matrix_free, apply_jacobi, user=c_loc(preconditioner_data))
  call terrace_solver_setup(matrix_free)
  call solve('nine-point operator, Jacobi of the caller', matrix_free)
  print '(a,i0,a,i0,a)', 'the operator was called ', operator_data%calls, ' times, the preconditioner ', &
    preconditioner_data%calls, ' times'

  call terrace_solver_destroy(matrix_free)
  call terrace_solver_destroy(with_amg)
  call terrace_matrix_destroy(matrix)
  call terrace_context_destroy(context)
  deallocate(row_offsets, columns, values, b, x)

contains

  subroutine solve(what, solver)
    character(*), intent(in) :: what
    type(terrace_solver), intent(in) :: solver
    type(terrace_report) :: report
    integer(int32) :: iterations
    real(real64) :: residual
    call terrace_solver_solve(solver, b, x)
    call terrace_solver_report(solver, report)
    call terrace_report_get_int(report, 'iterations', iterations)
    call terrace_report_get_real(report, 'true_residual', residual)
    call terrace_report_destroy(report)
    print '(2a,i0,a,es8.2)', what, ': ', iterations, ' iterations, true relative residual ', residual
  end subroutine

  subroutine five_point()
    integer :: row, k
    allocate(row_offsets(n * n + 1), columns(5 * n * n), values(5 * n * n))
    k = 0
    do row = 1, n * n
      row_offsets(row) = k + 1
      if (row > n) call add(row - n, -1.0_real64, k)
      if (mod(row - 1, n) > 0) call add(row - 1, -1.0_real64, k)
      call add(row, 4.0_real64, k)
      if (mod(row, n) > 0) call add(row + 1, -1.0_real64, k)
      if (row <= n * n - n) call add(row + n, -1.0_real64, k)
    end do
    row_offsets(n * n + 1) = k + 1
  end subroutine

  subroutine add(column, value, k)
    integer, intent(in) :: column
    real(real64), intent(in) :: value
    integer, intent(inout) :: k
    k = k + 1
    columns(k) = column
    values(k) = value
  end subroutine
end program
