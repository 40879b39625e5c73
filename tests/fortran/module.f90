! Calls every specific procedure behind the generic names of the Fortran module, and what only this module checks.
module callbacks
  use, intrinsic :: iso_c_binding
  use terrace, only: terrace_text
  implicit none
  character(:), allocatable :: last_line

contains

  subroutine remember(level, message, user) bind(c)
    integer(c_int32_t), value :: level
    type(c_ptr), value :: message
    type(c_ptr), value :: user
    integer, pointer :: lines
    call c_f_pointer(user, lines)
    if (level > 0) lines = lines + 1
    last_line = terrace_text(message)
  end subroutine

  function double_f32(n, x, y, user) result(failure) bind(c)
    integer(c_int64_t), value :: n
    real(c_float), intent(in) :: x(n)
    real(c_float), intent(out) :: y(n)
    type(c_ptr), value :: user
    integer(c_int32_t) :: failure
    y = 2 * x
    failure = merge(1, 0, c_associated(user))
  end function

  ! Counts in `user`, and ends the solve when the count is 3.
  function count_to_three(right_hand_side, iteration, residual, user) result(stop_here) bind(c)
    integer(c_int64_t), value :: right_hand_side, iteration
    real(c_double), value :: residual
    type(c_ptr), value :: user
    integer(c_int32_t) :: stop_here
    integer, pointer :: calls
    call c_f_pointer(user, calls)
    if (right_hand_side == 0 .and. iteration >= 0 .and. residual >= 0) calls = calls + 1
    stop_here = merge(1, 0, calls == 3)
  end function

  function same_f32(n, x, y, user) result(failure) bind(c)
    integer(c_int64_t), value :: n
    real(c_float), intent(in) :: x(n)
    real(c_float), intent(out) :: y(n)
    type(c_ptr), value :: user
    integer(c_int32_t) :: failure
    y = x
    failure = merge(1, 0, c_associated(user))
  end function
end module

program module_test
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use callbacks
  use terrace
  implicit none

  ! The tridiagonal matrix (-1, 2, -1); its solution for b = (1, 0, 1) is all ones.
  integer(int32), parameter :: offsets(4) = [1, 3, 6, 8], columns(7) = [1, 2, 1, 2, 3, 2, 3]
  real(real64), parameter :: values(7) = [2, -1, -1, 2, -1, -1, 2]
  type(terrace_context) :: context
  type(terrace_config) :: defaults
  integer(int32) :: status

  call terrace_context_create('nowhere   ', context, status)
  call expect(status == TERRACE_ERROR_DEVICE, 'an unknown device is refused')
  call expect(index(terrace_last_error(context), 'device "nowhere" is unknown') == 1, 'the name is trimmed')
  call terrace_context_create('host:2', context, status)
  call succeeded(status)

  call general()
  call csr()
  call bsr()
  call options()
  call reports()
  call vectors()
  call sizes()
  call copies_of_handles()
  call sections()
  call defaults_without_a_config()
  call without_status()
  call coordinate_input()
  call options_read_back()
  call monitors_and_other_matrices()
  call narrow_callbacks()
  call operations()

  call terrace_context_destroy(context, status)
  call succeeded(status)
  call terrace_context_destroy(context, status)
  call succeeded(status)
  print '(a)', 'all is well'

contains

  subroutine expect(truth, what)
    logical, intent(in) :: truth
    character(*), intent(in) :: what
    if (truth) return
    print '(4a)', 'failed: ', what, '; last error: ', terrace_last_error(context)
    error stop 1
  end subroutine

  subroutine succeeded(status)
    integer(int32), intent(in) :: status
    call expect(status == TERRACE_SUCCESS, terrace_status_name(status))
  end subroutine

  ! The square of the tridiagonal matrix and its transpose, in both precisions and with indices of both kinds.
  subroutine operations()
    type(terrace_matrix) :: matrix, square, turned
    integer(int32) :: rows32(4), columns32(9)
    integer(int64) :: rows64(4), columns64(9)
    real(real64) :: values64(9), y64(3)
    real(real32) :: values32(9), y32(3)
    call terrace_matrix_create_csr(context, offsets, columns, values, matrix, status, base=1)
    call succeeded(status)
    call terrace_matrix_multiply(context, matrix, matrix, square, status)
    call succeeded(status)
    call terrace_matrix_transpose(context, square, turned, status)
    call succeeded(status)
    call terrace_matrix_get_arrays(context, turned, rows32, columns64, values64, status, base=1)
    call succeeded(status)
    call expect(all(rows32 == [1, 4, 7, 10]) .and. all(columns64 == [1, 2, 3, 1, 2, 3, 1, 2, 3]), 'the pattern of a square')
    call expect(all(nint(values64) == [5, -4, 1, -4, 6, -4, 1, -4, 5]), 'the values of a square')
    call terrace_matrix_get_arrays(context, turned, rows64, columns32, values32, status, base=0)
    call succeeded(status)
    call expect(all(rows64 == [0, 3, 6, 9]) .and. all(columns32 == columns64 - 1), 'other kinds')
    call expect(all(nint(values32) == nint(values64)), 'narrow values')
    call terrace_matrix_get_arrays(context, turned, rows32, columns32, values64, status)
    call succeeded(status)
    call terrace_matrix_get_arrays(context, turned, rows32, columns32, values32, status)
    call succeeded(status)
    call terrace_matrix_get_arrays(context, turned, rows32, columns64, values32, status)
    call succeeded(status)
    call terrace_matrix_get_arrays(context, turned, rows64, columns32, values64, status)
    call succeeded(status)
    call terrace_matrix_get_arrays(context, turned, rows64, columns64, values32, status)
    call succeeded(status)
    call terrace_matrix_get_arrays(context, turned, rows64, columns64, values64, status)
    call succeeded(status)
    call terrace_matrix_get_arrays(context, turned, rows64(:3), columns64, values64, status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'row_offsets that are too short')
    y64 = 1
    call terrace_matrix_apply(context, square, 2.0_real64, [real(real64) :: 1, 1, 1], -1.0_real64, y64, status)
    call succeeded(status)
    call expect(all(nint(y64) == [3, -5, 3]), 'a product with a vector')
    call terrace_matrix_apply(context, square, 1.0_real64, [real(real32) :: 1, 0, 0], 0.0_real64, y32, status)
    call succeeded(status)
    call expect(all(nint(y32) == [5, -4, 1]), 'a product with a narrow vector')
    call terrace_matrix_apply(context, square, 1.0_real64, [real(real32) :: 1, 0], 0.0_real64, y32, status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'a vector that is too short')
    call terrace_matrix_apply_transposed(context, square, 1.0_real64, [real(real64) :: 0, 1, 0], 0.0_real64, y64, status)
    call succeeded(status)
    call expect(all(nint(y64) == [-4, 6, -4]), 'a product of the transpose')
    call terrace_matrix_apply_transposed(context, square, 1.0_real64, [real(real32) :: 1, 0, 0], 0.0_real64, y32, status)
    call succeeded(status)
    call expect(all(nint(y32) == [5, -4, 1]), 'a product of the transpose with a narrow vector')
    call terrace_matrix_apply_transposed(context, square, 1.0_real64, [real(real32) :: 1, 0], 0.0_real64, y32, status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'a vector that is too short for the transpose')
    call terrace_matrix_destroy(turned)
    call terrace_matrix_destroy(square)
    call terrace_matrix_destroy(matrix)
  end subroutine

  subroutine general()
    integer(int32) :: major, minor, patch, threads
    character(32) :: version
    integer(int64) :: used, peak, limit
    character(:), allocatable :: text
    integer, target :: lines
    call terrace_version(major, minor, patch, status)
    call succeeded(status)
    write (version, '(i0,".",i0,".",i0)') major, minor, patch
    call expect(trim(version) == TERRACE_VERSION_STRING, 'the version of the library is that of the module')
    call expect(terrace_status_name(TERRACE_ERROR_PARSE) == 'TERRACE_ERROR_PARSE', 'names of statuses')
    call expect(len(terrace_status_sentence(TERRACE_SUCCESS)) == len('the call succeeded'), 'texts have their own length')
    call terrace_context_set_threads(context, 3, status)
    call succeeded(status)
    call terrace_context_get_threads(context, threads, status)
    call succeeded(status)
    call expect(threads == 3, 'threads')
    call terrace_context_info(context, text, status)
    call succeeded(status)
    call expect(text(1:1) == '{' .and. text(len(text):) == '}', 'info is JSON')
    call terrace_context_set_stream(context, c_null_ptr, status)
    call expect(status == TERRACE_ERROR_UNSUPPORTED, 'the host has no streams')
    call terrace_context_set_memory_limit(context, 1000_int64, status)
    call expect(status == TERRACE_ERROR_UNSUPPORTED, 'the host has no limit of memory')
    call terrace_context_synchronize(context, status)
    call succeeded(status)
    call terrace_context_get_memory(context, used, peak, limit, status)
    call succeeded(status)
    call expect(used == 0 .and. peak == 0 .and. limit == 0, 'no device memory on the host')
    call terrace_context_raise_panic(context, status)
    call expect(status == TERRACE_ERROR_INTERNAL, 'a panic is an error')

    lines = 0
    call terrace_context_set_log(context, TERRACE_LOG_DEBUG, remember, status, user=c_loc(lines))
    call succeeded(status)
    call solve_f64(offsets, columns, 1)
    call expect(lines > 0 .and. len(last_line) > 0, 'the log has lines')
    call terrace_context_set_log(context, TERRACE_LOG_OFF, remember, status)
    call succeeded(status)
  end subroutine

  subroutine solve_f64(row_offsets, cols, base)
    integer(int32), intent(in) :: row_offsets(:), cols(:)
    integer, intent(in) :: base
    type(terrace_matrix) :: matrix
    call terrace_matrix_create_csr(context, row_offsets, cols, values, matrix, status, base=base)
    call succeeded(status)
    call expect(solves(matrix), 'a solve')
    call terrace_matrix_destroy(matrix)
  end subroutine

  logical function solves(matrix)
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_solver) :: solver
    real(real64) :: b(3), x(3)
    b = [1, 0, 1]
    call terrace_solver_create(context, defaults, solver, status)
    call succeeded(status)
    call terrace_solver_setup(solver, matrix, status)
    call succeeded(status)
    call terrace_solver_solve(solver, b, x, status)
    call succeeded(status)
    solves = all(abs(x - 1) < 1e-6)
    call terrace_solver_destroy(solver)
  end function

  subroutine csr()
    type(terrace_matrix) :: matrix
    integer(int64) :: rows, cols, nonzeros
    integer(int32) :: block_size
    real(real64), target :: lent(7)
    integer(int32), target :: lent_offsets(4), lent_columns(7)
    call solve_f64(offsets - 1, columns - 1, 0)

    call terrace_matrix_create_csr(context, int(offsets, int32), int(columns, int32), real(values, real32), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_csr(context, int(offsets, int32), int(columns, int32), real(values, real64), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_csr(context, int(offsets, int32), int(columns, int64), real(values, real32), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_csr(context, int(offsets, int32), int(columns, int64), real(values, real64), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_csr(context, int(offsets, int64), int(columns, int32), real(values, real32), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_csr(context, int(offsets, int64), int(columns, int32), real(values, real64), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_csr(context, int(offsets, int64), int(columns, int64), real(values, real32), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_csr(context, int(offsets, int64), int(columns, int64), real(values, real64), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)

    call terrace_matrix_create_csr(context, offsets(:3), columns, values, matrix, status, cols=3)
    call succeeded(status)
    call terrace_matrix_get_size(context, matrix, rows, cols, nonzeros, block_size, status)
    call expect(rows == 2 .and. cols == 3 .and. nonzeros == 5, 'a matrix that is not square')
    call terrace_matrix_destroy(matrix)

    lent = values
    lent_offsets = offsets
    lent_columns = columns
    call terrace_matrix_create_csr(context, lent_offsets, lent_columns, lent, matrix, status, borrow=.true., sorted=.true.)
    call succeeded(status)
    call expect(solves(matrix), 'a solve with lent arrays')
    call terrace_matrix_update_values(context, matrix, values(:6), status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'too few new values')
    call terrace_matrix_update_values(context, matrix, real(values, real32), status)
    call expect(status == TERRACE_ERROR_INVALID_ARGUMENT, 'new values of another kind')
    call terrace_matrix_destroy(matrix)
  end subroutine

  subroutine check_size(matrix, expected_rows, expected_nonzeros, expected_block)
    type(terrace_matrix), intent(inout) :: matrix
    integer(int64), intent(in) :: expected_rows, expected_nonzeros
    integer, intent(in) :: expected_block
    integer(int64) :: rows, cols, nonzeros
    integer(int32) :: block_size
    call succeeded(status)
    call terrace_matrix_get_size(context, matrix, rows, cols, nonzeros, block_size, status)
    call succeeded(status)
    call expect(rows == expected_rows .and. cols == rows .and. nonzeros == expected_nonzeros, 'sizes')
    call expect(block_size == expected_block, 'block size')
    call terrace_matrix_destroy(matrix, status)
    call succeeded(status)
  end subroutine

  ! Two 2x2 blocks on the diagonal, [2 1; 0 2] each: row-major in memory, so the 1 is values(2, 1, :).
  subroutine bsr()
    integer(int32), parameter :: starts(3) = [1, 2, 3], diagonal(2) = [1, 2]
    real(real64) :: blocks(2, 2, 2), b(4), x(4)
    type(terrace_matrix) :: matrix
    type(terrace_config) :: config
    type(terrace_solver) :: solver
    blocks = 0
    blocks(1, 1, :) = 2
    blocks(2, 2, :) = 2
    blocks(2, 1, :) = 1
    call terrace_matrix_create_bsr(context, int(starts, int32), int(diagonal, int32), real(blocks, real32), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)
    call terrace_matrix_create_bsr(context, int(starts, int32), int(diagonal, int32), real(blocks, real64), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)
    call terrace_matrix_create_bsr(context, int(starts, int32), int(diagonal, int64), real(blocks, real32), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)
    call terrace_matrix_create_bsr(context, int(starts, int32), int(diagonal, int64), real(blocks, real64), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)
    call terrace_matrix_create_bsr(context, int(starts, int64), int(diagonal, int32), real(blocks, real32), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)
    call terrace_matrix_create_bsr(context, int(starts, int64), int(diagonal, int32), real(blocks, real64), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)
    call terrace_matrix_create_bsr(context, int(starts, int64), int(diagonal, int64), real(blocks, real32), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)
    call terrace_matrix_create_bsr(context, int(starts, int64), int(diagonal, int64), real(blocks, real64), matrix, status)
    call check_size(matrix, 4_int64, 8_int64, 2)

    call terrace_matrix_create_bsr(context, starts, diagonal, blocks, matrix, status)
    call succeeded(status)
    call terrace_matrix_update_values(context, matrix, 2 * blocks, status)
    call succeeded(status)
    call terrace_config_create(context, config, status)
    call succeeded(status)
    call terrace_config_set_str(config, 'solver.type', 'gmres', status)
    call succeeded(status)
    call terrace_config_set_str(config, 'solver.preconditioner', 'none', status)
    call succeeded(status)
    call terrace_solver_create(context, config, solver, status)
    call succeeded(status)
    call terrace_solver_setup(solver, matrix, status)
    call succeeded(status)
    b = [6, 4, 6, 4]
    call terrace_solver_solve(solver, b, x, status)
    call succeeded(status)
    call expect(all(abs(x - 1) < 1e-6), 'blocks are stored by rows')
    call terrace_solver_destroy(solver)
    call terrace_config_destroy(config)
    call terrace_matrix_destroy(matrix)
  end subroutine

  subroutine options()
    type(terrace_config) :: config
    character(:), allocatable :: json
    call terrace_config_create(context, config, status)
    call succeeded(status)
    call terrace_config_set_int(config, 'solver.max_iterations   ', 7_int32, status)
    call succeeded(status)
    call terrace_config_set_int(config, 'solver.restart', 8_int64, status)
    call succeeded(status)
    call terrace_config_set_real(config, 'solver.tolerance', 0.5_real32, status)
    call succeeded(status)
    call terrace_config_set_real(config, 'solver.absolute_tolerance', 0.25_real64, status)
    call succeeded(status)
    call terrace_config_set_level(config, TERRACE_LAST, TERRACE_LEVEL_MATRIX, TERRACE_F32, status)
    call succeeded(status)
    call terrace_config_set_level_sweeps(config, TERRACE_LAST, 2, 3, status)
    call succeeded(status)
    call terrace_config_load_json(config, '{"solver.type": "fcg"}', status)
    call succeeded(status)
    call terrace_config_load_preset(config, 'singular', status)
    call succeeded(status)
    call terrace_config_load_preset(config, 'no such preset', status)
    call expect(status == TERRACE_ERROR_OPTION_VALUE, 'an unknown preset is refused')
    call terrace_config_to_json(config, json, status)
    call succeeded(status)
    call expect(json == '{"amg.smoother.post_sweeps":"3","amg.smoother.pre_sweeps":"2","precision.matrix":"f32",' // &
      '"solver.absolute_tolerance":0.25,"solver.max_iterations":7,"solver.null_space":"constant",' // &
      '"solver.restart":8,"solver.tolerance":0.5,"solver.type":"fcg"}', json)
    call terrace_config_destroy(config)
    call terrace_config_to_json(config, json, status)
    call expect(status == TERRACE_ERROR_NULL_ARGUMENT .and. json == '', 'a destroyed config is null')
  end subroutine

  subroutine reports()
    type(terrace_matrix) :: matrix
    type(terrace_amg) :: amg
    type(terrace_report) :: report
    character(:), allocatable :: text
    integer(int64) :: bytes
    integer(int32) :: levels
    real(real64) :: complexity
    real(real64), allocatable :: history(:)
    call terrace_matrix_create_csr(context, offsets, columns, values, matrix, status)
    call succeeded(status)
    call terrace_amg_memory_estimate(context, matrix, defaults, bytes, status)
    call succeeded(status)
    call terrace_amg_setup(context, matrix, defaults, amg, status)
    call succeeded(status)
    call terrace_amg_update(amg, status)
    call succeeded(status)
    call terrace_amg_get_option(amg, 'amg.cycle.type', text, status)
    call succeeded(status)
    call expect(text == 'v', 'an option of a hierarchy')
    call terrace_amg_report(amg, report, status)
    call succeeded(status)
    call terrace_report_get_int(report, 'levels', levels, status)
    call succeeded(status)
    call terrace_report_get_int(report, 'bytes', bytes, status)
    call succeeded(status)
    call expect(levels == 1 .and. bytes > 0, 'whole numbers of a report')
    call terrace_report_get_real(report, 'operator_complexity', complexity, status)
    call succeeded(status)
    call expect(abs(complexity - 1) < 1e-12, 'real numbers of a report')
    call terrace_report_get_str(report, 'format', text, status, index=0)
    call succeeded(status)
    call expect(text == 'csr' .and. len(text) == 3, 'texts of a report')
    call terrace_report_get_str(report, 'format', text, status, index=5)
    call expect(status == TERRACE_ERROR_INVALID_ARGUMENT .and. text == '', 'a level that is not there')
    call terrace_report_get_history(report, history, status)
    call expect(status < 0 .and. size(history) == 0, 'a hierarchy alone has no history')
    call terrace_report_to_json(report, text, status)
    call succeeded(status)
    call expect(text(1:1) == '{', 'a report as JSON')
    call terrace_report_to_text(report, text, status)
    call succeeded(status)
    call expect(index(text, 'operator complexity') > 0, 'a report as text')
    call terrace_report_destroy(report)
    call terrace_amg_destroy(amg)
    call terrace_matrix_destroy(matrix)
  end subroutine

  subroutine vectors()
    type(terrace_matrix) :: matrix
    type(terrace_solver) :: solver
    type(terrace_amg) :: amg
    real(real32) :: b(3), x(3), several_b(3, 2), several_x(3, 2)
    real(real64) :: wide(3, 2)
    call terrace_matrix_create_csr(context, offsets, columns, real(values, real32), matrix, status)
    call succeeded(status)
    call terrace_matrix_set_near_null_space(context, matrix, 1, reshape([1.0_real64, 1.0_real64, 1.0_real64], [3, 1]), status)
    call succeeded(status)
    call terrace_solver_create(context, defaults, solver, status)
    call succeeded(status)
    call terrace_solver_setup(solver, matrix, status)
    call succeeded(status)
    b = [1, 0, 1]
    call terrace_solver_solve(solver, b, x, status)
    call expect(status >= 0 .and. all(abs(x - 1) < 1e-4), 'f32')
    several_b(:, 1) = b
    several_b(:, 2) = 2 * b
    several_x = 0
    call terrace_solver_solve(solver, several_b, several_x, status, guess=TERRACE_GIVEN_GUESS)
    call expect(status >= 0 .and. all(abs(several_x(:, 2) - 2) < 1e-4), 'two right-hand sides')
    wide = 0
    call terrace_solver_solve(solver, real(several_b, real64), wide)
    call expect(all(abs(wide(:, 2) - 2) < 1e-6), 'an f32 matrix with f64 vectors')
    call terrace_solver_destroy(solver)

    call terrace_amg_setup(context, matrix, defaults, amg, status)
    call succeeded(status)
    call terrace_amg_apply(amg, b, x, status)
    call succeeded(status)
    call expect(all(abs(x - 1) < 1e-4), 'one level is solved exactly')
    call terrace_amg_apply(amg, [1.0_real64, 0.0_real64, 1.0_real64], wide(:, 1), status)
    call succeeded(status)
    call expect(all(abs(wide(:, 1) - 1) < 1e-4), 'f64 vectors for an f32 hierarchy')
    x = 0
    call terrace_amg_apply_transposed(amg, b, x, status)
    call succeeded(status)
    call expect(all(abs(x - 1) < 1e-4), 'a symmetric matrix is its transpose')
    call terrace_amg_destroy(amg)
    call terrace_matrix_destroy(matrix)
  end subroutine

  ! Arrays that do not fit are refused before anything is read.
  subroutine sizes()
    type(terrace_matrix) :: matrix
    type(terrace_solver) :: solver
    type(terrace_matrix) :: other
    type(terrace_amg) :: amg
    real(real64) :: b(4), x(4)
    real(real32) :: narrow(3)
    b = 0
    call terrace_matrix_create_csr(context, offsets, columns(:6), values, matrix, status)
    call mismatch('columns has 6 elements; 7 are needed')
    call terrace_matrix_create_csr(context, offsets, columns, values(:6), matrix, status)
    call mismatch('values has 6 elements; 7 are needed')
    call terrace_matrix_create_bsr(context, [1, 2], [1], reshape([1.0_real64, 2.0_real64], [1, 2, 1]), matrix, status)
    call mismatch('the second dimension of values has 2 elements; 1 are needed')
    call terrace_matrix_create_csr(context, offsets, columns, values, matrix, status)
    call succeeded(status)
    call terrace_matrix_set_functions(context, matrix, 2, [0, 1, 0], status)
    call succeeded(status)
    call terrace_matrix_set_functions(context, matrix, 2, [0, 2, 0], status)
    call expect(status == TERRACE_ERROR_INVALID_ARGUMENT, 'a function that is not there')
    call terrace_matrix_set_functions(context, matrix, 2, [0, 1], status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'too few functions')
    call terrace_matrix_set_functions(context, matrix, 0, [integer ::], status)
    call succeeded(status)
    call terrace_matrix_set_grid(context, matrix, [2, 2, 1], status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'a grid of four cells')
    call terrace_matrix_set_grid(context, matrix, [3, 1, 1], status)
    call succeeded(status)
    call terrace_matrix_create_stencil(context, reshape([0, 0, 0], [3, 1]), reshape(values(:2), [1, 1, 1, 2]), other, status)
    call mismatch('the last dimension of values has 2 elements; 1 are needed')
    call terrace_matrix_create_stencil(context, reshape([0, 0, 0], [3, 1]), reshape(values(:2), [1, 2, 1, 1]), other, status, &
      periodic=[.false., .true., .false.])
    call succeeded(status)
    call terrace_matrix_destroy(other, status)
    call terrace_matrix_create_stencil(context, reshape([0, 0, 0], [3, 1]), reshape(values(:4), [2, 2, 1, 1, 1, 1]), other, status)
    call succeeded(status)
    call terrace_matrix_destroy(other, status)
    call terrace_matrix_set_near_null_space(context, matrix, 1, reshape(values(:2), [2, 1]), status)
    call mismatch('the first dimension of vectors has 2 elements; 3 are needed')
    call terrace_matrix_set_coordinates(context, matrix, reshape(values(:6), [3, 2]), status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'coordinates')
    call terrace_solver_create(context, defaults, solver, status)
    call succeeded(status)
    call terrace_solver_solve(solver, b, x, status)
    call expect(status == TERRACE_ERROR_NOT_SET_UP, 'solve before set-up')
    call terrace_solver_setup(solver, matrix, status)
    call succeeded(status)
    call terrace_solver_solve(solver, b, x, status)
    call mismatch('b has 4 elements; 3 are needed')
    call terrace_solver_solve(solver, b(:2), x(:2), status)
    call mismatch('b has 2 elements; 3 are needed')
    call terrace_solver_solve(solver, b(:3), x, status)
    call mismatch('x has 4 elements; 3 are needed')
    call terrace_solver_solve(solver, real(b(:3), real32), narrow, status)
    call expect(status == TERRACE_ERROR_INVALID_ARGUMENT, 'vectors of another kind')
    call terrace_solver_destroy(solver)
    call terrace_amg_setup(context, matrix, defaults, amg, status)
    call succeeded(status)
    call terrace_amg_apply(amg, b, x(:3), status)
    call mismatch('b has 4 elements; 3 are needed')
    call terrace_amg_apply(amg, b(:3), x(:2), status)
    call mismatch('x has 2 elements; 3 are needed')
    call terrace_amg_destroy(amg)
    call terrace_matrix_destroy(matrix)
  end subroutine

  ! A copy of a handle is the same object, whenever it was made: sizes are those that the library knows.
  subroutine copies_of_handles()
    type(terrace_matrix) :: matrix
    type(terrace_solver) :: solver, earlier
    real(real64) :: b(3), x(3)
    integer(int64) :: rows
    b = [1, 0, 1]
    x = 7
    call terrace_matrix_create_csr(context, offsets, columns, values, matrix)
    call terrace_solver_create(context, solver)
    earlier = solver
    call terrace_solver_get_rows(earlier, rows, status)
    call expect(status == TERRACE_ERROR_NOT_SET_UP, 'rows before set-up')
    call terrace_solver_setup(solver, matrix)
    call terrace_solver_get_rows(earlier, rows)
    call expect(rows == 3, 'the rows of a solver')
    call terrace_solver_solve(earlier, b(1:1), x(1:1), status)
    call mismatch('b has 1 elements; 3 are needed')
    call expect(all(abs(x - 7) < 1e-12), 'nothing is written past an array')
    call terrace_solver_solve(earlier, b, x)
    call expect(all(abs(x - 1) < 1e-6), 'a solve with the copy of a handle')
    ! An operator for another number of rows counts from the next set-up on.
    call terrace_solver_set_operator_f32(solver, 5, double_f32)
    call terrace_solver_solve(solver, b(1:1), x(1:1), status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH .or. status == TERRACE_ERROR_NOT_SET_UP, 'another operator')
    call terrace_solver_destroy(solver)
    call terrace_matrix_destroy(matrix)
  end subroutine

  ! Sections with gaps are copied where the matrix copies, and refused where it borrows.
  subroutine sections()
    type(terrace_matrix) :: matrix
    real(real64), target :: gaps(14), blocks(2, 2, 4)
    integer(int32), target :: lent_offsets(4), lent_columns(7), starts(3), diagonal(2), wide_offsets(8), wide_columns(14)
    gaps = 9
    gaps(1::2) = values
    lent_offsets = offsets
    lent_columns = columns
    wide_offsets(1::2) = offsets
    wide_columns(1::2) = columns
    call terrace_matrix_create_csr(context, lent_offsets, lent_columns, gaps(1::2), matrix)
    call expect(solves(matrix), 'a section with gaps is copied')
    gaps(1::2) = 2 * values
    call terrace_matrix_update_values(context, matrix, gaps(1::2))
    gaps(1::2) = values
    call terrace_matrix_update_values(context, matrix, gaps(1::2))
    call expect(solves(matrix), 'new values in a section with gaps')
    call terrace_matrix_destroy(matrix)
    call terrace_matrix_create_csr(context, wide_offsets(1::2), wide_columns(1::2), gaps(1::2), matrix)
    call expect(solves(matrix), 'three sections with gaps')
    call terrace_matrix_destroy(matrix)

    call terrace_matrix_create_csr(context, lent_offsets, lent_columns, gaps(1::2), matrix, status, borrow=.true.)
    call refused('values')
    call terrace_matrix_create_csr(context, lent_offsets, wide_columns(1::2), values, matrix, status, borrow=.true.)
    call refused('columns')
    call terrace_matrix_create_csr(context, wide_offsets(1::2), lent_columns, values, matrix, status, borrow=.true.)
    call refused('row_offsets')
    call terrace_matrix_destroy(matrix)

    ! Borrowed values are read where they are: new ones take effect without a copy.
    gaps(:7) = 2 * values
    call terrace_matrix_create_csr(context, lent_offsets, lent_columns, gaps(:7), matrix, borrow=.true.)
    gaps(:7) = values
    call expect(solves(matrix), 'lent values')
    call terrace_matrix_update_values(context, matrix, gaps(1:14:2), status)
    call refused('values')
    call terrace_matrix_update_values(context, matrix, gaps(:7))
    call terrace_matrix_destroy(matrix)

    starts = [1, 2, 3]
    diagonal = [1, 2]
    blocks = 0
    blocks(1, 1, :) = 2
    blocks(2, 2, :) = 2
    call terrace_matrix_create_bsr(context, starts, diagonal, blocks(:, :, 1::2), matrix, status, borrow=.true.)
    call refused('values')
    call terrace_matrix_create_bsr(context, starts, diagonal, blocks(:, :, 1::2), matrix)
    call terrace_matrix_update_values(context, matrix, blocks(:, :, 1::2))
    call terrace_matrix_destroy(matrix)
    call terrace_matrix_create_bsr(context, starts, diagonal, blocks(:, :, :2), matrix, borrow=.true.)
    call terrace_matrix_update_values(context, matrix, blocks(:, :, 1::2), status)
    call refused('values')
    call terrace_matrix_destroy(matrix)
  end subroutine

  subroutine refused(name)
    character(*), intent(in) :: name
    call expect(status == TERRACE_ERROR_INVALID_ARGUMENT, name // ' with gaps: ' // terrace_status_name(status))
    call expect(index(terrace_last_error(context), name // ' is a section that is not contiguous') == 1, &
      name // ', not ' // terrace_last_error(context))
  end subroutine

  subroutine defaults_without_a_config()
    type(terrace_matrix) :: matrix
    type(terrace_amg) :: amg
    type(terrace_fsai) :: fsai
    type(terrace_solver) :: solver
    type(terrace_report) :: report
    integer(int64) :: bytes, same, rows
    character(:), allocatable :: text
    real(real64) :: b(3), x(3)
    b = [1, 0, 1]
    call terrace_matrix_create_csr(context, offsets, columns, values, matrix)
    call terrace_solver_memory_estimate(context, matrix, .true., bytes)
    call terrace_solver_memory_estimate(context, matrix, defaults, .true., same)
    call expect(bytes > 0 .and. bytes == same, 'estimate of a solver')
    call terrace_amg_memory_estimate(context, matrix, bytes)
    call terrace_amg_memory_estimate(context, matrix, defaults, same)
    call expect(bytes == same .and. bytes > 0, 'an estimate without a config')
    call terrace_amg_setup(context, matrix, amg)
    call terrace_amg_get_rows(amg, rows)
    call expect(rows == 3, 'the rows of a hierarchy')
    call terrace_amg_apply(amg, b, x)
    call terrace_fsai_memory_estimate(context, matrix, bytes)
    call terrace_fsai_memory_estimate(context, matrix, defaults, same)
    call expect(bytes == same .and. bytes > 0, 'the estimate of an FSAI')
    call terrace_fsai_setup(context, matrix, fsai)
    call terrace_fsai_get_rows(fsai, rows)
    call terrace_fsai_update(fsai)
    x = 0
    call terrace_fsai_apply(fsai, b, x)
    call expect(rows == 3 .and. maxval(abs(x - 1)) < 1e-12, 'an FSAI of the whole triangle')
    call terrace_fsai_apply(fsai, b(:2), x, status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'a vector that is too short for an FSAI')
    call terrace_fsai_get_option(fsai, 'fsai.steps', text)
    call expect(text == '15', 'an option of an FSAI')
    call terrace_fsai_get_option(fsai, 'fsai.step', text, status)
    call expect(status == TERRACE_ERROR_UNKNOWN_OPTION, 'an option that is not there')
    call terrace_fsai_apply_transposed(fsai, b(:2), x, status)
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, 'a vector that is too short for the transpose of an FSAI')
    x = 0
    call terrace_fsai_apply_transposed(fsai, b, x)
    call expect(maxval(abs(x - 1)) < 1e-12, 'the transpose of an FSAI without a status')
    call terrace_fsai_report(fsai, report)
    call terrace_report_get_int(report, 'fsai_nonzeros', bytes)
    call expect(bytes == 6, 'the entries of the factor')
    call terrace_report_destroy(report)
    call terrace_fsai_destroy(fsai)
    call terrace_solver_create(context, solver, status)
    call succeeded(status)
    call terrace_solver_setup(solver, status)
    call expect(index(terrace_last_error(), 'neither a matrix nor an operator') == 1, 'set-up without a matrix')
    call expect(terrace_last_error() == terrace_last_error(context), 'the sentence of this thread')
    call terrace_solver_destroy(solver)
    call terrace_amg_destroy(amg)
    call terrace_matrix_destroy(matrix)
  end subroutine

  ! Every procedure may be called without `status`; tests/fortran/stop.f90 has what fails then.
  subroutine without_status()
    type(terrace_context) :: own
    type(terrace_config) :: config
    type(terrace_matrix) :: matrix, square
    type(terrace_solver) :: solver
    type(terrace_report) :: report
    integer(int32) :: major, minor, patch, threads, levels, block_size
    integer(int64) :: rows, cols, nonzeros, used, peak, limit
    real(real64) :: b(3), x(3), seconds
    real(real64), allocatable :: history(:)
    character(:), allocatable :: text
    b = [1, 0, 1]
    call terrace_version(major, minor, patch)
    call terrace_context_create('host', own)
    call terrace_context_set_threads(own, 2)
    call terrace_context_get_threads(own, threads)
    call terrace_context_get_memory(own, used, peak, limit)
    call terrace_context_synchronize(own)
    call terrace_context_info(own, text)
    call terrace_config_create(own, config)
    call terrace_config_set_str(config, 'solver.type', 'cg')
    call terrace_config_set_int(config, 'solver.max_iterations', 50)
    call terrace_config_set_real(config, 'solver.tolerance', 1e-8_real64)
    call terrace_config_load_json(config, '{"solver.type": "fcg"}')
    call terrace_config_to_json(config, text)
    call terrace_matrix_create_csr(own, offsets, columns, values, matrix)
    call terrace_matrix_get_size(own, matrix, rows, cols, nonzeros, block_size)
    call terrace_matrix_multiply(own, matrix, matrix, square)
    call terrace_matrix_apply(own, square, 1.0_real64, b, 0.0_real64, x)
    call terrace_solver_create(own, config, solver)
    call terrace_solver_setup(solver, matrix)
    call terrace_solver_update(solver)
    call terrace_solver_solve(solver, b, x, guess=TERRACE_ZERO_GUESS)
    call expect(all(abs(x - 1) < 1e-6), 'a solve without a status')
    call terrace_solver_solve_transposed(solver, b, x)
    call expect(all(abs(x - 1) < 1e-6), 'a transposed solve without a status')
    call terrace_solver_report(solver, report)
    call terrace_report_get_int(report, 'levels', levels)
    call terrace_report_get_real(report, 'setup_seconds', seconds)
    call terrace_report_get_str(report, 'format', text, index=0)
    call terrace_report_get_history(report, history)
    call expect(levels == 1 .and. size(history) > 0 .and. text == 'csr', 'a report without a status')
    ! A wrapper leaves a sentence, and the program goes on.
    call terrace_context_set_error(own, TERRACE_ERROR_SIZE_MISMATCH, 'b is short')
    call expect(terrace_last_error(own) == 'b is short', 'the sentence of a wrapper')
    call terrace_report_destroy(report)
    call terrace_solver_destroy(solver)
    call terrace_matrix_destroy(square)
    call terrace_matrix_destroy(matrix)
    call terrace_config_destroy(config)
    call terrace_context_destroy(own)
  end subroutine

  ! The tridiagonal matrix from its entries in any order, the middle of the diagonal in two parts.
  subroutine coordinate_input()
    integer(int32), parameter :: rows(8) = [3, 2, 1, 2, 3, 2, 1, 2], cols(8) = [3, 2, 2, 1, 2, 3, 1, 2]
    real(real64), parameter :: parts(8) = [2, 1, -1, -1, -1, -1, 2, 1]
    type(terrace_matrix) :: matrix
    call terrace_matrix_create_coo(context, 3, 3, rows, cols, parts, matrix)
    call expect(solves(matrix), 'coordinates')
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_coo(context, 3, 3, int(rows - 1, int64), int(cols - 1, int64), parts, matrix, base=0)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_coo(context, 3, 3, rows, cols, real(parts, real32), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_coo(context, 3, 3, int(rows, int64), int(cols, int64), real(parts, real32), matrix, status)
    call check_size(matrix, 3_int64, 7_int64, 1)
    call terrace_matrix_create_coo(context, 3, 3, rows, cols(:7), parts, matrix, status)
    call mismatch('column_indices has 7 elements; 8 are needed')
    call terrace_matrix_create_coo(context, 3, 3, rows, cols, parts(:7), matrix, status)
    call mismatch('values has 7 elements; 8 are needed')
  end subroutine

  subroutine options_read_back()
    type(terrace_config) :: config
    character(:), allocatable :: text
    integer(int64) :: whole
    real(real64) :: number
    call terrace_config_create(context, config)
    call terrace_config_set_real(config, 'solver.tolerance', 0.25_real64)
    call terrace_config_get_real(config, 'solver.tolerance', number)
    call terrace_config_get_int(config, 'solver.restart', whole)
    call terrace_config_set_str(config, 'solver.type', 'fcg')
    call terrace_config_get_str(config, 'solver.type', text)
    call expect(abs(number - 0.25_real64) < 1e-12 .and. whole > 0 .and. text == 'fcg' .and. len(text) == 3, 'options')
    call terrace_config_get_str(config, 'solver.typ', text, status)
    call expect(status == TERRACE_ERROR_UNKNOWN_OPTION .and. text == '', 'an option that is none')
    call terrace_config_destroy(config)
  end subroutine

  subroutine monitors_and_other_matrices()
    type(terrace_matrix) :: matrix, other, none
    type(terrace_config) :: config
    type(terrace_solver) :: solver
    character(:), allocatable :: text
    real(real64) :: b(3), x(3)
    integer, target :: calls
    b = [1, 0, 1]
    call terrace_matrix_create_csr(context, offsets, columns, values, matrix)
    call terrace_matrix_create_csr(context, offsets, columns, 3 * values, other)
    call terrace_config_create(context, config)
    call terrace_config_set_str(config, 'solver.type', 'fgmres')
    call terrace_solver_create(context, config, solver)
    call terrace_solver_set_preconditioner_matrix(solver, other)
    call terrace_solver_setup(solver, matrix)
    call terrace_solver_get_option(solver, 'solver.type', text)
    call expect(text == 'fgmres', 'an option of a solver')
    calls = 0
    call terrace_solver_set_monitor(solver, count_to_three, user=c_loc(calls))
    call terrace_solver_solve(solver, b, x)
    call expect(calls > 0 .and. calls < 3 .and. all(abs(x - 1) < 1e-6), 'a monitor')
    calls = 2
    call terrace_solver_solve(solver, b, x, status)
    call expect(status == TERRACE_STOPPED .and. calls == 3, 'a monitor that ends the solve')
    call terrace_solver_set_monitor(solver)
    call terrace_solver_solve(solver, b, x)
    call expect(calls == 3 .and. all(abs(x - 1) < 1e-6), 'no monitor')
    call terrace_solver_set_preconditioner_matrix(solver, none)
    call terrace_solver_remove_operator(solver)
    call terrace_solver_remove_preconditioner(solver)
    call terrace_solver_setup(solver, matrix)
    call terrace_solver_solve(solver, b, x)
    call expect(all(abs(x - 1) < 1e-6), 'one matrix for both')
    call terrace_solver_destroy(solver)
    call terrace_config_destroy(config)
    call terrace_matrix_destroy(other)
    call terrace_matrix_destroy(matrix)
  end subroutine

  subroutine mismatch(sentence)
    character(*), intent(in) :: sentence
    call expect(status == TERRACE_ERROR_SIZE_MISMATCH, sentence // ': ' // terrace_status_name(status))
    call expect(terrace_last_error(context) == sentence, sentence // ', not ' // terrace_last_error(context))
  end subroutine

  subroutine narrow_callbacks()
    type(terrace_config) :: config
    type(terrace_solver) :: solver
    real(real32) :: b(5), x(5)
    b = 4
    call terrace_config_create(context, config, status)
    call succeeded(status)
    call terrace_config_set_str(config, 'solver.precision', 'f32', status)
    call succeeded(status)
    call terrace_solver_create(context, config, solver, status)
    call succeeded(status)
    call terrace_solver_set_operator_f32(solver, 5, double_f32, status)
    call succeeded(status)
    call terrace_solver_set_preconditioner_f32(solver, same_f32, status)
    call succeeded(status)
    call terrace_solver_setup(solver, status)
    call succeeded(status)
    call terrace_solver_solve(solver, b, x, status)
    call succeeded(status)
    call expect(all(abs(x - 2) < 1e-5), 'callbacks in f32')
    call terrace_solver_update(solver, status)
    call succeeded(status)
    call terrace_solver_destroy(solver)
    call terrace_config_destroy(config)
  end subroutine
end program
