! Solves a diffusion problem on a structured grid, given as a stencil: the Fortran twin of c_examples/stencil.c.
!
!   stencil [n [precision]]      n is 64 unless given, and the precision of the hierarchy 'dp'; try '(sp,hp)'
program stencil
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use terrace
  implicit none

  ! The cell itself and its neighbours along x, y and z.
  integer(int32), target :: offsets(3, 7) = reshape( &
    [0, 0, 0, -1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 1], [3, 7])
  type(terrace_context) :: context
  type(terrace_matrix) :: matrix
  type(terrace_config) :: config
  type(terrace_solver) :: solver
  type(terrace_report) :: report
  real(real64), allocatable, target :: values(:, :, :, :)
  real(real64), allocatable :: b(:), x(:)
  character(:), allocatable :: format
  character(32) :: argument, precision
  integer(int64) :: iterations
  real(real64) :: residual
  integer :: n, status

  n = 64
  precision = 'dp'
  call get_command_argument(1, argument, status=status)
  if (status == 0) read (argument, *) n
  call get_command_argument(2, argument, status=status)
  if (status == 0) precision = argument
  if (n < 1 .or. n > 500) error stop 'n must be from 1 to 500'
  call assemble()
  allocate(b(n**3), source=1.0_real64)
  allocate(x(n**3))

  call terrace_context_create('host', context)
  ! Borrowed: products read the values where they are.
  call terrace_matrix_create_stencil(context, offsets, values, matrix, borrow=.true.)
  call terrace_config_create(context, config)
  call terrace_config_set_str(config, 'precision', trim(precision))
  call terrace_solver_create(context, config, solver)
  call terrace_solver_setup(solver, matrix)
  call terrace_solver_solve(solver, b, x)

  call terrace_solver_report(solver, report)
  call terrace_report_get_int(report, 'iterations', iterations)
  call terrace_report_get_real(report, 'true_residual', residual)
  call terrace_report_get_str(report, 'format', format)
  print '(i0,a,a,a,i0,a,a)', n, '^3 cells, finest level ', format, ': ', iterations, &
    ' iterations, residual below 1e-8: ', trim(merge('yes', 'no ', residual <= 1e-8_real64))

  call terrace_report_destroy(report)
  call terrace_solver_destroy(solver)
  call terrace_config_destroy(config)
  call terrace_matrix_destroy(matrix)
  call terrace_context_destroy(context)

contains

  ! A coefficient that differs by three orders of magnitude between two halves of the grid.
  pure function coefficient(x) result(k)
    integer, intent(in) :: x
    real(real64) :: k
    k = merge(1.0_real64, 1e3_real64, 2 * (x - 1) < n)
  end function

  ! Finite volumes, zero on the boundary. values(x, y, z, k) is the entry of offset k, zero where the neighbour would lie outside.
  subroutine assemble()
    integer :: x, y, z, k, at(3)
    real(real64) :: own, other, face
    allocate(values(n, n, n, 7), source=0.0_real64)
    do z = 1, n
      do y = 1, n
        do x = 1, n
          own = coefficient(x)
          do k = 2, 7
            at = [x, y, z] + offsets(:, k)
            if (all(at >= 1 .and. at <= n)) then
              other = coefficient(at(1))
              face = 2 * own * other / (own + other)
              values(x, y, z, k) = -face
            else
              face = 2 * own
            end if
            values(x, y, z, 1) = values(x, y, z, 1) + face
          end do
        end do
      end do
    end do
  end subroutine
end program
