! One call without `status` that fails, named by the argument: the program stops with the sentence of the library.
program stop
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use terrace
  implicit none

  integer(int32), parameter :: offsets(4) = [1, 3, 6, 8], columns(7) = [1, 2, 1, 2, 3, 2, 3]
  real(real64), parameter :: values(7) = [2, -1, -1, 2, -1, -1, 2]
  type(terrace_context) :: context
  type(terrace_matrix) :: matrix
  type(terrace_config) :: config
  type(terrace_solver) :: solver
  type(terrace_report) :: report
  real(real64) :: b(3) = [1, 0, 1], x(3)
  integer(int32) :: number
  character(16) :: mistake

  call get_command_argument(1, mistake)
  if (mistake == 'device') call terrace_context_create('nowhere', context)
  call terrace_context_create('host:1', context)
  call terrace_matrix_create_csr(context, offsets, columns, values, matrix)
  call terrace_config_create(context, config)
  if (mistake == 'option') call terrace_config_set_str(config, 'solver.typ', 'cg')
  call terrace_config_set_str(config, 'solver.type', 'cg')
  call terrace_config_set_str(config, 'solver.preconditioner', 'none')
  call terrace_config_set_int(config, 'solver.max_iterations', 1)
  call terrace_config_set_real(config, 'solver.tolerance', 1e-12_real64)
  call terrace_solver_create(context, config, solver)
  if (mistake == 'early') call terrace_solver_solve(solver, b, x)
  call terrace_solver_setup(solver, matrix)
  if (mistake == 'size') call terrace_solver_solve(solver, b(:2), x)
  b = [1, 2, 4]
  if (mistake == 'condition') call terrace_solver_solve(solver, b, x)
  call terrace_solver_solve(solver, b, x, number)
  call terrace_solver_report(solver, report)
  if (mistake == 'key') call terrace_report_get_int(report, 'levls', number)
  call terrace_report_destroy(report)
  call terrace_solver_destroy(solver)
  call terrace_config_destroy(config)
  call terrace_matrix_destroy(matrix)
  call terrace_context_destroy(context)
  print '(a)', 'all is well'
end program
