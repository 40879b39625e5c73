! Generated from fortran/terrace.f90.in and include/terrace.h.
! The Fortran module of Terrace. Names and meanings are those of include/terrace.h, which documents every function; here is
! what differs.
!
! - Every subroutine has an optional `status`: 0 success, positive a condition, negative an error. `terrace_last_error()` is the
!   sentence of the last call of this thread that was not a success, `terrace_last_error(context)` that of a context. Without
!   `status`, anything but success writes the sentence to error_unit and stops the program with a non-zero code; a program that
!   accepts conditions, such as TERRACE_NOT_CONVERGED, gives `status`. Optional arguments come after it and are given by keyword.
! - Handles are null until created and null again after destroy. Copies of a handle are the same object: destroy it once.
! - A config is left out where all options have their defaults: terrace_solver_create(context, solver) or
!   terrace_solver_create(context, config, solver). A config that was never created means the same.
! - Number formats follow from the arrays: integer(int32) or (int64) for offsets and columns, real(real32) or (real64) for
!   values. Sizes follow from them too. An array that does not fit gives TERRACE_ERROR_SIZE_MISMATCH.
! - CSR and BSR count from 1 unless `base=0` is given. Levels and right-hand sides are counted from 0, as reports print them.
! - The values of BSR are values(j, i, k): row i, column j of block k, because C stores blocks by rows.
! - Matrices copy their arrays unless `borrow=.true.` is given; then the arrays must have the TARGET attribute and live until
!   everything made from the matrix is destroyed. A section that is not contiguous, such as values(1::2), cannot be borrowed and
!   gives TERRACE_ERROR_INVALID_ARGUMENT; neither can an expression, which no compiler lets the library see. All other arrays may
!   be any sections: the compiler copies them where it must.
! - Text arguments lose their trailing blanks; text results are allocatable and have exactly the length of the text.
module terrace
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private

  ! the call succeeded
  integer(c_int32_t), parameter, public :: TERRACE_SUCCESS = 0
  ! the iterations ended before the tolerance was reached; the best iterate was returned
  integer(c_int32_t), parameter, public :: TERRACE_NOT_CONVERGED = 1
  ! the residual norm no longer falls and has not reached the tolerance; the best iterate was returned
  integer(c_int32_t), parameter, public :: TERRACE_STAGNATED = 2
  ! a right-hand side was not attempted; only reports have this status
  integer(c_int32_t), parameter, public :: TERRACE_NOT_ATTEMPTED = 3
  ! a monitor of the caller ended the solve; the iterate at that moment was returned
  integer(c_int32_t), parameter, public :: TERRACE_STOPPED = 4
  ! an argument that must not be null is null
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_NULL_ARGUMENT = -1
  ! an argument has a value outside of what is accepted
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_INVALID_ARGUMENT = -2
  ! sizes that must agree do not
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_SIZE_MISMATCH = -3
  ! no option has this key
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_UNKNOWN_OPTION = -4
  ! the option does not accept this value
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_OPTION_VALUE = -5
  ! the chosen backend or this version cannot do this
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_UNSUPPORTED = -6
  ! the object has not been set up yet
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_NOT_SET_UP = -7
  ! the row offsets or columns of the matrix are malformed
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_MATRIX_STRUCTURE = -8
  ! a value of the matrix is not finite, a diagonal entry that AMG needs is missing or zero, or the diagonal is negative
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_MATRIX_VALUES = -9
  ! the Krylov method broke down; the matrix or the preconditioner lacks a property that the method needs
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_BREAKDOWN = -10
  ! a non-finite number appeared in the solve
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_NON_FINITE = -11
  ! memory could not be allocated
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_OUT_OF_MEMORY = -12
  ! the device string names no device that this library can use
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_DEVICE = -13
  ! a file could not be read or written
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_IO = -14
  ! a text is not in the expected format
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_PARSE = -15
  ! a callback of the caller returned a non-zero value
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_CALLBACK = -16
  ! a level cannot be stored in the precision that was asked for
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_PRECISION_LOST = -18
  ! the residual norm grew far beyond that of the right-hand side; the best iterate was returned
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_DIVERGED = -19
  ! an internal error was caught at the boundary of the library
  integer(c_int32_t), parameter, public :: TERRACE_ERROR_INTERNAL = -17
  character(*), parameter, public :: TERRACE_VERSION_STRING = '0.1.0'
  integer(c_int32_t), parameter, public :: TERRACE_VERSION_MAJOR = 0
  integer(c_int32_t), parameter, public :: TERRACE_VERSION_MINOR = 1
  integer(c_int32_t), parameter, public :: TERRACE_VERSION_PATCH = 0
  integer(c_int32_t), parameter, public :: TERRACE_LAST = -1
  integer(c_int32_t), parameter, public :: TERRACE_SUM = 0
  integer(c_int32_t), parameter, public :: TERRACE_MIN = 1
  integer(c_int32_t), parameter, public :: TERRACE_MAX = 2
  integer(c_int32_t), parameter, public :: TERRACE_F64 = 0
  integer(c_int32_t), parameter, public :: TERRACE_F32 = 1
  integer(c_int32_t), parameter, public :: TERRACE_F16 = 2
  integer(c_int32_t), parameter, public :: TERRACE_BF16 = 3
  integer(c_int32_t), parameter, public :: TERRACE_I32 = 16
  integer(c_int32_t), parameter, public :: TERRACE_I64 = 17
  integer(c_int32_t), parameter, public :: TERRACE_AUTO = -1
  integer(c_int32_t), parameter, public :: TERRACE_INPUT = -2
  integer(c_int32_t), parameter, public :: TERRACE_LEVEL_MATRIX = 0
  integer(c_int32_t), parameter, public :: TERRACE_LEVEL_VECTOR = 1
  integer(c_int32_t), parameter, public :: TERRACE_LEVEL_SMOOTHER = 2
  integer(c_int32_t), parameter, public :: TERRACE_LEVEL_TRANSFER = 3
  integer(c_int32_t), parameter, public :: TERRACE_LOG_OFF = 0
  integer(c_int32_t), parameter, public :: TERRACE_LOG_WARNING = 1
  integer(c_int32_t), parameter, public :: TERRACE_LOG_INFO = 2
  integer(c_int32_t), parameter, public :: TERRACE_LOG_DEBUG = 3
  integer(c_int32_t), parameter, public :: TERRACE_COPY = 0
  integer(c_int32_t), parameter, public :: TERRACE_BORROW = 1
  integer(c_int32_t), parameter, public :: TERRACE_SORTED = 2
  integer(c_int32_t), parameter, public :: TERRACE_BY_OFFSET = 0
  integer(c_int32_t), parameter, public :: TERRACE_BY_CELL = 1
  integer(c_int32_t), parameter, public :: TERRACE_ZERO_GUESS = 0
  integer(c_int32_t), parameter, public :: TERRACE_GIVEN_GUESS = 1

  type, public :: terrace_context
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: terrace_matrix
    type(c_ptr) :: handle = c_null_ptr
    logical, private :: borrows = .false.
  end type
  type, public :: terrace_config
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: terrace_amg
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: terrace_fsai
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: terrace_solver
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: terrace_report
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! The table of functions of include/terrace.h.
  type, bind(c), public :: terrace_communicator
    type(c_ptr) :: user
    type(c_funptr) :: rank, size, send, receive, wait_all, all_reduce, all_gather, barrier, duplicate, revoke, free, timeout
  end type

  abstract interface
    ! y = A x or y = M x for a solver in f64. A result other than 0 ends the solve with TERRACE_ERROR_CALLBACK.
    function terrace_apply_callback(n, x, y, user) result(failure) bind(c)
      import :: c_int64_t, c_int32_t, c_double, c_ptr
      integer(c_int64_t), value :: n
      real(c_double), intent(in) :: x(n)
      real(c_double), intent(out) :: y(n)
      type(c_ptr), value :: user
      integer(c_int32_t) :: failure
    end function

    ! The same for a solver in f32, see terrace_solver_set_operator_f32.
    function terrace_apply_callback_f32(n, x, y, user) result(failure) bind(c)
      import :: c_int64_t, c_int32_t, c_float, c_ptr
      integer(c_int64_t), value :: n
      real(c_float), intent(in) :: x(n)
      real(c_float), intent(out) :: y(n)
      type(c_ptr), value :: user
      integer(c_int32_t) :: failure
    end function

    ! Told the residual norm over that of b after each iteration. A result other than 0 ends the solve with TERRACE_STOPPED.
    function terrace_monitor_callback(right_hand_side, iteration, residual, user) result(stop_here) bind(c)
      import :: c_int64_t, c_int32_t, c_double, c_ptr
      integer(c_int64_t), value :: right_hand_side, iteration
      real(c_double), value :: residual
      type(c_ptr), value :: user
      integer(c_int32_t) :: stop_here
    end function

    ! `terrace_text(message)` is the line.
    subroutine terrace_log_callback(level, message, user) bind(c)
      import :: c_int32_t, c_ptr
      integer(c_int32_t), value :: level
      type(c_ptr), value :: message
      type(c_ptr), value :: user
    end subroutine
  end interface
  public :: terrace_apply_callback, terrace_apply_callback_f32, terrace_monitor_callback, terrace_log_callback

  interface misfit
    module procedure context_misfit
    module procedure amg_misfit
    module procedure fsai_misfit
    module procedure solver_misfit
  end interface

  public :: terrace_version, terrace_status_name, terrace_status_sentence, terrace_last_error, terrace_text
  public :: terrace_context_create, terrace_context_set_threads, terrace_context_get_threads, terrace_context_set_log
  public :: terrace_context_set_stream, terrace_context_synchronize, terrace_context_set_memory_limit, terrace_context_get_memory
  public :: terrace_context_raise_panic, terrace_context_set_communicator, terrace_threads_communicator
  public :: terrace_matrix_create_csr, terrace_matrix_create_bsr, terrace_matrix_create_coo
  public :: terrace_matrix_create_stencil, terrace_matrix_set_grid, terrace_matrix_create_csr_distributed
  public :: terrace_matrix_create_bsr_distributed, terrace_matrix_create_parcsr
  public :: terrace_matrix_get_size, terrace_matrix_update_values
  public :: terrace_matrix_set_near_null_space, terrace_matrix_set_coordinates, terrace_matrix_set_functions
  public :: terrace_matrix_multiply, terrace_matrix_transpose, terrace_matrix_get_arrays
  public :: terrace_matrix_apply, terrace_matrix_apply_transposed
  public :: terrace_config_create, terrace_config_set_str, terrace_config_set_int, terrace_config_set_real
  public :: terrace_config_get_str, terrace_config_get_int, terrace_config_get_real
  public :: terrace_config_set_level, terrace_config_set_level_sweeps, terrace_config_load_json, terrace_config_load_preset
  public :: terrace_amg_setup, terrace_amg_update, terrace_amg_apply, terrace_amg_get_rows
  public :: terrace_amg_apply_transposed, terrace_amg_memory_estimate
  public :: terrace_fsai_setup, terrace_fsai_update, terrace_fsai_apply, terrace_fsai_get_rows
  public :: terrace_fsai_apply_transposed, terrace_fsai_memory_estimate
  public :: terrace_solver_create, terrace_solver_memory_estimate
  public :: terrace_solver_set_operator, terrace_solver_set_operator_f32
  public :: terrace_solver_set_preconditioner, terrace_solver_set_preconditioner_f32
  public :: terrace_solver_remove_operator, terrace_solver_remove_preconditioner
  public :: terrace_solver_set_preconditioner_matrix, terrace_solver_set_monitor, terrace_solver_get_option
  public :: terrace_solver_setup, terrace_solver_update, terrace_solver_get_rows
  public :: terrace_solver_solve, terrace_solver_solve_transposed
  public :: terrace_solver_report, terrace_amg_report, terrace_fsai_report
  public :: terrace_amg_get_option, terrace_fsai_get_option
  public :: terrace_context_set_error
  public :: terrace_amg_set_error
  public :: terrace_fsai_set_error
  public :: terrace_solver_set_error
  public :: terrace_report_get_int, terrace_report_get_real, terrace_report_get_str, terrace_report_get_history
  public :: terrace_context_destroy
  public :: terrace_matrix_destroy
  public :: terrace_config_destroy
  public :: terrace_amg_destroy
  public :: terrace_fsai_destroy
  public :: terrace_solver_destroy
  public :: terrace_report_destroy
  public :: terrace_context_info
  public :: terrace_config_to_json
  public :: terrace_report_to_text
  public :: terrace_report_to_json

  interface terrace_matrix_create_csr
    module procedure create_csr_i32_i32_f64
    module procedure create_csr_i32_i32_f32
    module procedure create_csr_i32_i64_f64
    module procedure create_csr_i32_i64_f32
    module procedure create_csr_i64_i32_f64
    module procedure create_csr_i64_i32_f32
    module procedure create_csr_i64_i64_f64
    module procedure create_csr_i64_i64_f32
  end interface

  interface terrace_matrix_create_csr_distributed
    module procedure create_distributed_i32_i32_f64
    module procedure create_distributed_i32_i32_f32
    module procedure create_distributed_i32_i64_f64
    module procedure create_distributed_i32_i64_f32
    module procedure create_distributed_i64_i32_f64
    module procedure create_distributed_i64_i32_f32
    module procedure create_distributed_i64_i64_f64
    module procedure create_distributed_i64_i64_f32
  end interface

  interface terrace_matrix_create_bsr_distributed
    module procedure create_blocks_i32_i32_f64
    module procedure create_blocks_i32_i32_f32
    module procedure create_blocks_i32_i64_f64
    module procedure create_blocks_i32_i64_f32
    module procedure create_blocks_i64_i32_f64
    module procedure create_blocks_i64_i32_f32
    module procedure create_blocks_i64_i64_f64
    module procedure create_blocks_i64_i64_f32
  end interface

  interface terrace_matrix_create_parcsr
    module procedure create_parcsr_i32_i32_f64
    module procedure create_parcsr_i32_i32_f32
    module procedure create_parcsr_i32_i64_f64
    module procedure create_parcsr_i32_i64_f32
    module procedure create_parcsr_i64_i32_f64
    module procedure create_parcsr_i64_i32_f32
    module procedure create_parcsr_i64_i64_f64
    module procedure create_parcsr_i64_i64_f32
  end interface

  interface terrace_matrix_create_bsr
    module procedure create_bsr_i32_i32_f64
    module procedure create_bsr_i32_i32_f32
    module procedure create_bsr_i32_i64_f64
    module procedure create_bsr_i32_i64_f32
    module procedure create_bsr_i64_i32_f64
    module procedure create_bsr_i64_i32_f32
    module procedure create_bsr_i64_i64_f64
    module procedure create_bsr_i64_i64_f32
  end interface

  interface terrace_matrix_create_stencil
    module procedure create_stencil_f64, create_block_stencil_f64
    module procedure create_stencil_f32, create_block_stencil_f32
  end interface

  interface terrace_matrix_create_coo
    module procedure create_coo_i32_f64
    module procedure create_coo_i32_f32
    module procedure create_coo_i64_f64
    module procedure create_coo_i64_f32
  end interface

  interface terrace_matrix_update_values
    module procedure update_values_f64, update_blocks_f64
    module procedure update_values_f32, update_blocks_f32
  end interface

  interface terrace_matrix_apply
    module procedure matrix_apply_f64
    module procedure matrix_apply_f32
  end interface

  interface terrace_matrix_apply_transposed
    module procedure matrix_apply_transposed_f64
    module procedure matrix_apply_transposed_f32
  end interface

  interface terrace_matrix_get_arrays
    module procedure get_arrays_i32_i32_f64
    module procedure get_arrays_i32_i32_f32
    module procedure get_arrays_i32_i64_f64
    module procedure get_arrays_i32_i64_f32
    module procedure get_arrays_i64_i32_f64
    module procedure get_arrays_i64_i32_f32
    module procedure get_arrays_i64_i64_f64
    module procedure get_arrays_i64_i64_f32
  end interface

  interface terrace_config_set_int
    module procedure config_set_int_i32
    module procedure config_set_int_i64
  end interface

  interface terrace_config_set_real
    module procedure config_set_real_f64
    module procedure config_set_real_f32
  end interface

  interface terrace_amg_setup
    module procedure amg_setup, amg_setup_defaults
  end interface

  interface terrace_amg_memory_estimate
    module procedure amg_memory_estimate, amg_memory_estimate_defaults
  end interface

  interface terrace_fsai_setup
    module procedure fsai_setup, fsai_setup_defaults
  end interface

  interface terrace_fsai_memory_estimate
    module procedure fsai_memory_estimate, fsai_memory_estimate_defaults
  end interface

  interface terrace_solver_memory_estimate
    module procedure solver_memory_estimate, solver_memory_estimate_defaults
  end interface

  interface terrace_solver_create
    module procedure solver_create, solver_create_defaults
  end interface

  interface terrace_solver_setup
    module procedure solver_setup, solver_setup_callbacks
  end interface

  interface terrace_amg_apply
    module procedure amg_apply_f64
    module procedure amg_apply_f32
  end interface

  interface terrace_amg_apply_transposed
    module procedure amg_apply_transposed_f64
    module procedure amg_apply_transposed_f32
  end interface

  interface terrace_fsai_apply
    module procedure fsai_apply_f64
    module procedure fsai_apply_f32
  end interface

  interface terrace_fsai_apply_transposed
    module procedure fsai_apply_transposed_f64
    module procedure fsai_apply_transposed_f32
  end interface

  interface terrace_solver_solve
    module procedure solve_one_f64, solve_several_f64
    module procedure solve_one_f32, solve_several_f32
  end interface

  interface terrace_solver_solve_transposed
    module procedure solve_one_transposed_f64, solve_several_transposed_f64
    module procedure solve_one_transposed_f32, solve_several_transposed_f32
  end interface

  interface terrace_report_get_int
    module procedure report_get_int_i32, report_get_int_i64
  end interface

  interface
    function c_version(major, minor, patch) &
        result(outcome) bind(c, name='terrace_version')
      import
      integer(c_int32_t), intent(inout) :: major
      integer(c_int32_t), intent(inout) :: minor
      integer(c_int32_t), intent(inout) :: patch
      integer(c_int32_t) :: outcome
    end function

    function c_status_name(status) &
        result(outcome) bind(c, name='terrace_status_name')
      import
      integer(c_int32_t), value :: status
      type(c_ptr) :: outcome
    end function

    function c_status_sentence(status) &
        result(outcome) bind(c, name='terrace_status_sentence')
      import
      integer(c_int32_t), value :: status
      type(c_ptr) :: outcome
    end function

    function c_context_create(device, context) &
        result(outcome) bind(c, name='terrace_context_create')
      import
      character(kind=c_char), intent(in) :: device(*)
      type(c_ptr), intent(inout) :: context
      integer(c_int32_t) :: outcome
    end function

    function c_context_destroy(context) &
        result(outcome) bind(c, name='terrace_context_destroy')
      import
      type(c_ptr), value :: context
      integer(c_int32_t) :: outcome
    end function

    function c_context_set_threads(context, threads) &
        result(outcome) bind(c, name='terrace_context_set_threads')
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: threads
      integer(c_int32_t) :: outcome
    end function

    function c_context_get_threads(context, threads) &
        result(outcome) bind(c, name='terrace_context_get_threads')
      import
      type(c_ptr), value :: context
      integer(c_int32_t), intent(inout) :: threads
      integer(c_int32_t) :: outcome
    end function

    function c_context_set_log(context, level, callback, user) &
        result(outcome) bind(c, name='terrace_context_set_log')
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: level
      type(c_funptr), value :: callback
      type(c_ptr), value :: user
      integer(c_int32_t) :: outcome
    end function

    function c_context_info(context, buf, len, needed) &
        result(outcome) bind(c, name='terrace_context_info')
      import
      type(c_ptr), value :: context
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_last_error(context, buf, len, needed) &
        result(outcome) bind(c, name='terrace_last_error')
      import
      type(c_ptr), value :: context
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_context_raise_panic(context) &
        result(outcome) bind(c, name='terrace_context_raise_panic')
      import
      type(c_ptr), value :: context
      integer(c_int32_t) :: outcome
    end function

    function c_context_set_error(context, status, message) &
        result(outcome) bind(c, name='terrace_context_set_error')
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: status
      character(kind=c_char), intent(in) :: message(*)
      integer(c_int32_t) :: outcome
    end function

    function c_context_set_stream(context, stream) &
        result(outcome) bind(c, name='terrace_context_set_stream')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: stream
      integer(c_int32_t) :: outcome
    end function

    function c_context_synchronize(context) &
        result(outcome) bind(c, name='terrace_context_synchronize')
      import
      type(c_ptr), value :: context
      integer(c_int32_t) :: outcome
    end function

    function c_context_set_memory_limit(context, bytes) &
        result(outcome) bind(c, name='terrace_context_set_memory_limit')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), value :: bytes
      integer(c_int32_t) :: outcome
    end function

    function c_context_get_memory(context, used, peak, limit) &
        result(outcome) bind(c, name='terrace_context_get_memory')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), intent(inout) :: used
      integer(c_int64_t), intent(inout) :: peak
      integer(c_int64_t), intent(inout) :: limit
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_create_csr(context, rows, cols, offset_type, row_offsets, column_type, columns, value_type, &
        values, base, flags, matrix) &
        result(outcome) bind(c, name='terrace_matrix_create_csr')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), value :: rows
      integer(c_int64_t), value :: cols
      integer(c_int32_t), value :: offset_type
      type(c_ptr), value :: row_offsets
      integer(c_int32_t), value :: column_type
      type(c_ptr), value :: columns
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int32_t), value :: base
      integer(c_int32_t), value :: flags
      type(c_ptr), intent(inout) :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_create_coo(context, rows, cols, count, index_type, row_indices, column_indices, value_type, &
        values, base, matrix) &
        result(outcome) bind(c, name='terrace_matrix_create_coo')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), value :: rows
      integer(c_int64_t), value :: cols
      integer(c_int64_t), value :: count
      integer(c_int32_t), value :: index_type
      type(c_ptr), value :: row_indices
      type(c_ptr), value :: column_indices
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int32_t), value :: base
      type(c_ptr), intent(inout) :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_create_bsr(context, block_rows, block_cols, block_size, offset_type, row_offsets, column_type, &
        columns, value_type, values, base, flags, matrix) &
        result(outcome) bind(c, name='terrace_matrix_create_bsr')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), value :: block_rows
      integer(c_int64_t), value :: block_cols
      integer(c_int32_t), value :: block_size
      integer(c_int32_t), value :: offset_type
      type(c_ptr), value :: row_offsets
      integer(c_int32_t), value :: column_type
      type(c_ptr), value :: columns
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int32_t), value :: base
      integer(c_int32_t), value :: flags
      type(c_ptr), intent(inout) :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_destroy(matrix) &
        result(outcome) bind(c, name='terrace_matrix_destroy')
      import
      type(c_ptr), value :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_get_size(context, matrix, rows, cols, nonzeros, block_size) &
        result(outcome) bind(c, name='terrace_matrix_get_size')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int64_t), intent(inout) :: rows
      integer(c_int64_t), intent(inout) :: cols
      integer(c_int64_t), intent(inout) :: nonzeros
      integer(c_int32_t), intent(inout) :: block_size
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_update_values(context, matrix, value_type, values, count) &
        result(outcome) bind(c, name='terrace_matrix_update_values')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int64_t), value :: count
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_set_near_null_space(context, matrix, dofs_per_node, count, vectors) &
        result(outcome) bind(c, name='terrace_matrix_set_near_null_space')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int32_t), value :: dofs_per_node
      integer(c_int32_t), value :: count
      type(c_ptr), value :: vectors
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_set_coordinates(context, matrix, dimension, nodes, coordinates) &
        result(outcome) bind(c, name='terrace_matrix_set_coordinates')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int32_t), value :: dimension
      integer(c_int64_t), value :: nodes
      type(c_ptr), value :: coordinates
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_set_functions(context, matrix, count, functions) &
        result(outcome) bind(c, name='terrace_matrix_set_functions')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int32_t), value :: count
      type(c_ptr), value :: functions
      integer(c_int32_t) :: outcome
    end function

    function c_threads_communicator(size, ranks) &
        result(outcome) bind(c, name='terrace_threads_communicator')
      import
      integer(c_int32_t), value :: size
      type(c_ptr), value :: ranks
      integer(c_int32_t) :: outcome
    end function

    function c_context_set_communicator(context, communicator) &
        result(outcome) bind(c, name='terrace_context_set_communicator')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: communicator
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_create_csr_distributed(context, total_rows, first_row, rows, offset_type, row_offsets, &
        column_type, columns, value_type, values, base, flags, matrix) &
        result(outcome) bind(c, name='terrace_matrix_create_csr_distributed')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), value :: total_rows
      integer(c_int64_t), value :: first_row
      integer(c_int64_t), value :: rows
      integer(c_int32_t), value :: offset_type
      type(c_ptr), value :: row_offsets
      integer(c_int32_t), value :: column_type
      type(c_ptr), value :: columns
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int32_t), value :: base
      integer(c_int32_t), value :: flags
      type(c_ptr), intent(inout) :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_create_bsr_distributed(context, total_block_rows, first_block_row, block_rows, block_size, &
        offset_type, row_offsets, column_type, columns, value_type, values, base, flags, matrix) &
        result(outcome) bind(c, name='terrace_matrix_create_bsr_distributed')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), value :: total_block_rows
      integer(c_int64_t), value :: first_block_row
      integer(c_int64_t), value :: block_rows
      integer(c_int32_t), value :: block_size
      integer(c_int32_t), value :: offset_type
      type(c_ptr), value :: row_offsets
      integer(c_int32_t), value :: column_type
      type(c_ptr), value :: columns
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int32_t), value :: base
      integer(c_int32_t), value :: flags
      type(c_ptr), intent(inout) :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_create_parcsr(context, total_rows, first_row, rows, index_type, diagonal_offsets, &
        diagonal_columns, off_diagonal_offsets, off_diagonal_columns, map_count, map_type, column_map, value_type, &
        diagonal_values, off_diagonal_values, matrix) &
        result(outcome) bind(c, name='terrace_matrix_create_parcsr')
      import
      type(c_ptr), value :: context
      integer(c_int64_t), value :: total_rows
      integer(c_int64_t), value :: first_row
      integer(c_int64_t), value :: rows
      integer(c_int32_t), value :: index_type
      type(c_ptr), value :: diagonal_offsets
      type(c_ptr), value :: diagonal_columns
      type(c_ptr), value :: off_diagonal_offsets
      type(c_ptr), value :: off_diagonal_columns
      integer(c_int64_t), value :: map_count
      integer(c_int32_t), value :: map_type
      type(c_ptr), value :: column_map
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: diagonal_values
      type(c_ptr), value :: off_diagonal_values
      type(c_ptr), intent(inout) :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_create_stencil(context, dims, periodic, dofs_per_cell, offsets_count, offsets, value_type, &
        values, layout, flags, matrix) &
        result(outcome) bind(c, name='terrace_matrix_create_stencil')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: dims
      type(c_ptr), value :: periodic
      integer(c_int32_t), value :: dofs_per_cell
      integer(c_int32_t), value :: offsets_count
      type(c_ptr), value :: offsets
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int32_t), value :: layout
      integer(c_int32_t), value :: flags
      type(c_ptr), intent(inout) :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_set_grid(context, matrix, dims, periodic) &
        result(outcome) bind(c, name='terrace_matrix_set_grid')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      type(c_ptr), value :: dims
      type(c_ptr), value :: periodic
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_multiply(context, left, right, product) &
        result(outcome) bind(c, name='terrace_matrix_multiply')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: left
      type(c_ptr), value :: right
      type(c_ptr), intent(inout) :: product
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_transpose(context, matrix, transpose) &
        result(outcome) bind(c, name='terrace_matrix_transpose')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      type(c_ptr), intent(inout) :: transpose
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_apply(context, matrix, vector_type, alpha, x, beta, y) &
        result(outcome) bind(c, name='terrace_matrix_apply')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int32_t), value :: vector_type
      real(c_double), value :: alpha
      type(c_ptr), value :: x
      real(c_double), value :: beta
      type(c_ptr), value :: y
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_apply_transposed(context, matrix, vector_type, alpha, x, beta, y) &
        result(outcome) bind(c, name='terrace_matrix_apply_transposed')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int32_t), value :: vector_type
      real(c_double), value :: alpha
      type(c_ptr), value :: x
      real(c_double), value :: beta
      type(c_ptr), value :: y
      integer(c_int32_t) :: outcome
    end function

    function c_matrix_get_arrays(context, matrix, offset_type, row_offsets, column_type, columns, value_type, values, &
        base) &
        result(outcome) bind(c, name='terrace_matrix_get_arrays')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      integer(c_int32_t), value :: offset_type
      type(c_ptr), value :: row_offsets
      integer(c_int32_t), value :: column_type
      type(c_ptr), value :: columns
      integer(c_int32_t), value :: value_type
      type(c_ptr), value :: values
      integer(c_int32_t), value :: base
      integer(c_int32_t) :: outcome
    end function

    function c_config_create(context, config) &
        result(outcome) bind(c, name='terrace_config_create')
      import
      type(c_ptr), value :: context
      type(c_ptr), intent(inout) :: config
      integer(c_int32_t) :: outcome
    end function

    function c_config_destroy(config) &
        result(outcome) bind(c, name='terrace_config_destroy')
      import
      type(c_ptr), value :: config
      integer(c_int32_t) :: outcome
    end function

    function c_config_set_str(config, key, value) &
        result(outcome) bind(c, name='terrace_config_set_str')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: key(*)
      character(kind=c_char), intent(in) :: value(*)
      integer(c_int32_t) :: outcome
    end function

    function c_config_set_int(config, key, value) &
        result(outcome) bind(c, name='terrace_config_set_int')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), value :: value
      integer(c_int32_t) :: outcome
    end function

    function c_config_set_real(config, key, value) &
        result(outcome) bind(c, name='terrace_config_set_real')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: key(*)
      real(c_double), value :: value
      integer(c_int32_t) :: outcome
    end function

    function c_config_set_level(config, level, part, precision) &
        result(outcome) bind(c, name='terrace_config_set_level')
      import
      type(c_ptr), value :: config
      integer(c_int32_t), value :: level
      integer(c_int32_t), value :: part
      integer(c_int32_t), value :: precision
      integer(c_int32_t) :: outcome
    end function

    function c_config_set_level_sweeps(config, level, pre, post) &
        result(outcome) bind(c, name='terrace_config_set_level_sweeps')
      import
      type(c_ptr), value :: config
      integer(c_int32_t), value :: level
      integer(c_int32_t), value :: pre
      integer(c_int32_t), value :: post
      integer(c_int32_t) :: outcome
    end function

    function c_config_load_json(config, json) &
        result(outcome) bind(c, name='terrace_config_load_json')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: json(*)
      integer(c_int32_t) :: outcome
    end function

    function c_config_load_preset(config, name) &
        result(outcome) bind(c, name='terrace_config_load_preset')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t) :: outcome
    end function

    function c_config_to_json(config, buf, len, needed) &
        result(outcome) bind(c, name='terrace_config_to_json')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_config_get_str(config, key, buf, len, needed) &
        result(outcome) bind(c, name='terrace_config_get_str')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: key(*)
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_config_get_int(config, key, value) &
        result(outcome) bind(c, name='terrace_config_get_int')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), intent(inout) :: value
      integer(c_int32_t) :: outcome
    end function

    function c_config_get_real(config, key, value) &
        result(outcome) bind(c, name='terrace_config_get_real')
      import
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: key(*)
      real(c_double), intent(inout) :: value
      integer(c_int32_t) :: outcome
    end function

    function c_amg_setup(context, matrix, config, amg) &
        result(outcome) bind(c, name='terrace_amg_setup')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      type(c_ptr), value :: config
      type(c_ptr), intent(inout) :: amg
      integer(c_int32_t) :: outcome
    end function

    function c_amg_update(amg) &
        result(outcome) bind(c, name='terrace_amg_update')
      import
      type(c_ptr), value :: amg
      integer(c_int32_t) :: outcome
    end function

    function c_amg_apply(amg, vector_type, b, x) &
        result(outcome) bind(c, name='terrace_amg_apply')
      import
      type(c_ptr), value :: amg
      integer(c_int32_t), value :: vector_type
      type(c_ptr), value :: b
      type(c_ptr), value :: x
      integer(c_int32_t) :: outcome
    end function

    function c_amg_apply_transposed(amg, vector_type, b, x) &
        result(outcome) bind(c, name='terrace_amg_apply_transposed')
      import
      type(c_ptr), value :: amg
      integer(c_int32_t), value :: vector_type
      type(c_ptr), value :: b
      type(c_ptr), value :: x
      integer(c_int32_t) :: outcome
    end function

    function c_amg_get_rows(amg, rows) &
        result(outcome) bind(c, name='terrace_amg_get_rows')
      import
      type(c_ptr), value :: amg
      integer(c_int64_t), intent(inout) :: rows
      integer(c_int32_t) :: outcome
    end function

    function c_amg_memory_estimate(context, matrix, config, bytes) &
        result(outcome) bind(c, name='terrace_amg_memory_estimate')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      type(c_ptr), value :: config
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int32_t) :: outcome
    end function

    function c_amg_get_option(amg, key, buf, len, needed) &
        result(outcome) bind(c, name='terrace_amg_get_option')
      import
      type(c_ptr), value :: amg
      character(kind=c_char), intent(in) :: key(*)
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_amg_report(amg, report) &
        result(outcome) bind(c, name='terrace_amg_report')
      import
      type(c_ptr), value :: amg
      type(c_ptr), intent(inout) :: report
      integer(c_int32_t) :: outcome
    end function

    function c_amg_set_error(amg, status, message) &
        result(outcome) bind(c, name='terrace_amg_set_error')
      import
      type(c_ptr), value :: amg
      integer(c_int32_t), value :: status
      character(kind=c_char), intent(in) :: message(*)
      integer(c_int32_t) :: outcome
    end function

    function c_amg_destroy(amg) &
        result(outcome) bind(c, name='terrace_amg_destroy')
      import
      type(c_ptr), value :: amg
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_setup(context, matrix, config, fsai) &
        result(outcome) bind(c, name='terrace_fsai_setup')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      type(c_ptr), value :: config
      type(c_ptr), intent(inout) :: fsai
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_update(fsai) &
        result(outcome) bind(c, name='terrace_fsai_update')
      import
      type(c_ptr), value :: fsai
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_apply(fsai, vector_type, b, x) &
        result(outcome) bind(c, name='terrace_fsai_apply')
      import
      type(c_ptr), value :: fsai
      integer(c_int32_t), value :: vector_type
      type(c_ptr), value :: b
      type(c_ptr), value :: x
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_apply_transposed(fsai, vector_type, b, x) &
        result(outcome) bind(c, name='terrace_fsai_apply_transposed')
      import
      type(c_ptr), value :: fsai
      integer(c_int32_t), value :: vector_type
      type(c_ptr), value :: b
      type(c_ptr), value :: x
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_get_rows(fsai, rows) &
        result(outcome) bind(c, name='terrace_fsai_get_rows')
      import
      type(c_ptr), value :: fsai
      integer(c_int64_t), intent(inout) :: rows
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_memory_estimate(context, matrix, config, bytes) &
        result(outcome) bind(c, name='terrace_fsai_memory_estimate')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      type(c_ptr), value :: config
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_get_option(fsai, key, buf, len, needed) &
        result(outcome) bind(c, name='terrace_fsai_get_option')
      import
      type(c_ptr), value :: fsai
      character(kind=c_char), intent(in) :: key(*)
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_report(fsai, report) &
        result(outcome) bind(c, name='terrace_fsai_report')
      import
      type(c_ptr), value :: fsai
      type(c_ptr), intent(inout) :: report
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_set_error(fsai, status, message) &
        result(outcome) bind(c, name='terrace_fsai_set_error')
      import
      type(c_ptr), value :: fsai
      integer(c_int32_t), value :: status
      character(kind=c_char), intent(in) :: message(*)
      integer(c_int32_t) :: outcome
    end function

    function c_fsai_destroy(fsai) &
        result(outcome) bind(c, name='terrace_fsai_destroy')
      import
      type(c_ptr), value :: fsai
      integer(c_int32_t) :: outcome
    end function

    function c_solver_create(context, config, solver) &
        result(outcome) bind(c, name='terrace_solver_create')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: config
      type(c_ptr), intent(inout) :: solver
      integer(c_int32_t) :: outcome
    end function

    function c_solver_memory_estimate(context, matrix, config, updates, bytes) &
        result(outcome) bind(c, name='terrace_solver_memory_estimate')
      import
      type(c_ptr), value :: context
      type(c_ptr), value :: matrix
      type(c_ptr), value :: config
      integer(c_int32_t), value :: updates
      integer(c_int64_t), intent(inout) :: bytes
      integer(c_int32_t) :: outcome
    end function

    function c_solver_set_operator(solver, rows, callback, user) &
        result(outcome) bind(c, name='terrace_solver_set_operator')
      import
      type(c_ptr), value :: solver
      integer(c_int64_t), value :: rows
      type(c_funptr), value :: callback
      type(c_ptr), value :: user
      integer(c_int32_t) :: outcome
    end function

    function c_solver_set_preconditioner(solver, callback, user) &
        result(outcome) bind(c, name='terrace_solver_set_preconditioner')
      import
      type(c_ptr), value :: solver
      type(c_funptr), value :: callback
      type(c_ptr), value :: user
      integer(c_int32_t) :: outcome
    end function

    function c_solver_set_preconditioner_matrix(solver, matrix) &
        result(outcome) bind(c, name='terrace_solver_set_preconditioner_matrix')
      import
      type(c_ptr), value :: solver
      type(c_ptr), value :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_solver_set_monitor(solver, callback, user) &
        result(outcome) bind(c, name='terrace_solver_set_monitor')
      import
      type(c_ptr), value :: solver
      type(c_funptr), value :: callback
      type(c_ptr), value :: user
      integer(c_int32_t) :: outcome
    end function

    function c_solver_get_option(solver, key, buf, len, needed) &
        result(outcome) bind(c, name='terrace_solver_get_option')
      import
      type(c_ptr), value :: solver
      character(kind=c_char), intent(in) :: key(*)
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_solver_setup(solver, matrix) &
        result(outcome) bind(c, name='terrace_solver_setup')
      import
      type(c_ptr), value :: solver
      type(c_ptr), value :: matrix
      integer(c_int32_t) :: outcome
    end function

    function c_solver_update(solver) &
        result(outcome) bind(c, name='terrace_solver_update')
      import
      type(c_ptr), value :: solver
      integer(c_int32_t) :: outcome
    end function

    function c_solver_solve(solver, vector_type, count, b, x, guess) &
        result(outcome) bind(c, name='terrace_solver_solve')
      import
      type(c_ptr), value :: solver
      integer(c_int32_t), value :: vector_type
      integer(c_int64_t), value :: count
      type(c_ptr), value :: b
      type(c_ptr), value :: x
      integer(c_int32_t), value :: guess
      integer(c_int32_t) :: outcome
    end function

    function c_solver_solve_transposed(solver, vector_type, count, b, x, guess) &
        result(outcome) bind(c, name='terrace_solver_solve_transposed')
      import
      type(c_ptr), value :: solver
      integer(c_int32_t), value :: vector_type
      integer(c_int64_t), value :: count
      type(c_ptr), value :: b
      type(c_ptr), value :: x
      integer(c_int32_t), value :: guess
      integer(c_int32_t) :: outcome
    end function

    function c_solver_get_rows(solver, rows) &
        result(outcome) bind(c, name='terrace_solver_get_rows')
      import
      type(c_ptr), value :: solver
      integer(c_int64_t), intent(inout) :: rows
      integer(c_int32_t) :: outcome
    end function

    function c_solver_report(solver, report) &
        result(outcome) bind(c, name='terrace_solver_report')
      import
      type(c_ptr), value :: solver
      type(c_ptr), intent(inout) :: report
      integer(c_int32_t) :: outcome
    end function

    function c_solver_set_error(solver, status, message) &
        result(outcome) bind(c, name='terrace_solver_set_error')
      import
      type(c_ptr), value :: solver
      integer(c_int32_t), value :: status
      character(kind=c_char), intent(in) :: message(*)
      integer(c_int32_t) :: outcome
    end function

    function c_solver_destroy(solver) &
        result(outcome) bind(c, name='terrace_solver_destroy')
      import
      type(c_ptr), value :: solver
      integer(c_int32_t) :: outcome
    end function

    function c_report_get_int(report, key, index, value) &
        result(outcome) bind(c, name='terrace_report_get_int')
      import
      type(c_ptr), value :: report
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), value :: index
      integer(c_int64_t), intent(inout) :: value
      integer(c_int32_t) :: outcome
    end function

    function c_report_get_real(report, key, index, value) &
        result(outcome) bind(c, name='terrace_report_get_real')
      import
      type(c_ptr), value :: report
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), value :: index
      real(c_double), intent(inout) :: value
      integer(c_int32_t) :: outcome
    end function

    function c_report_get_str(report, key, index, buf, len, needed) &
        result(outcome) bind(c, name='terrace_report_get_str')
      import
      type(c_ptr), value :: report
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), value :: index
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_report_get_history(report, index, history, len, needed) &
        result(outcome) bind(c, name='terrace_report_get_history')
      import
      type(c_ptr), value :: report
      integer(c_int64_t), value :: index
      real(c_double), intent(inout) :: history(*)
      integer(c_int64_t), value :: len
      integer(c_int64_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_report_to_text(report, buf, len, needed) &
        result(outcome) bind(c, name='terrace_report_to_text')
      import
      type(c_ptr), value :: report
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_report_to_json(report, buf, len, needed) &
        result(outcome) bind(c, name='terrace_report_to_json')
      import
      type(c_ptr), value :: report
      character(kind=c_char), intent(inout) :: buf(*)
      integer(c_size_t), value :: len
      integer(c_size_t), intent(inout) :: needed
      integer(c_int32_t) :: outcome
    end function

    function c_report_destroy(report) &
        result(outcome) bind(c, name='terrace_report_destroy')
      import
      type(c_ptr), value :: report
      integer(c_int32_t) :: outcome
    end function

  end interface

contains

  subroutine terrace_version(major, minor, patch, status)
    integer(c_int32_t), intent(out) :: major, minor, patch
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_version(major, minor, patch), status)
  end subroutine

  function terrace_status_name(status) result(text)
    integer(c_int32_t), intent(in) :: status
    character(:), allocatable :: text
    text = terrace_text(c_status_name(status))
  end function

  function terrace_status_sentence(status) result(text)
    integer(c_int32_t), intent(in) :: status
    character(:), allocatable :: text
    text = terrace_text(c_status_sentence(status))
  end function

  ! The sentence of the last call with this context that was not a success; of this thread without a context, or with one that
  ! was never created.
  function terrace_last_error(context) result(text)
    type(terrace_context), intent(in), optional :: context
    character(:), allocatable :: text
    character(1) :: nothing
    type(c_ptr) :: handle
    integer(c_size_t) :: needed
    integer(c_int32_t) :: status
    handle = c_null_ptr
    if (present(context)) handle = context%handle
    needed = 1
    status = c_last_error(handle, nothing, 0_c_size_t, needed)
    allocate(character(needed) :: text)
    status = c_last_error(handle, text, needed, needed)
    if (status == TERRACE_SUCCESS) then
      text = text(:len(text) - 1)
    else
      text = terrace_status_sentence(status)
    end if
  end function

  ! A text of C as Fortran has it.
  function terrace_text(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(:), allocatable :: text
    character(kind=c_char), dimension(:), pointer :: characters
    integer :: i, length
    if (.not. c_associated(pointer)) then
      text = ''
      return
    end if
    call c_f_pointer(pointer, characters, [huge(0)])
    length = 0
    do while (characters(length + 1) /= c_null_char)
      length = length + 1
    end do
    allocate(character(length) :: text)
    do i = 1, length
      text(i:i) = characters(i)
    end do
  end function

  subroutine terrace_context_info(context, text, status)
    type(terrace_context), intent(in) :: context
    character(:), allocatable, intent(out) :: text
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_context_info(context%handle, nothing, 0_c_size_t, needed)
    allocate(character(needed) :: text)
    if (outcome == TERRACE_SUCCESS) outcome = c_context_info(context%handle, text, needed, needed)
    text = without_nul(outcome, text)
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_config_to_json(config, text, status)
    type(terrace_config), intent(in) :: config
    character(:), allocatable, intent(out) :: text
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_config_to_json(config%handle, nothing, 0_c_size_t, needed)
    allocate(character(needed) :: text)
    if (outcome == TERRACE_SUCCESS) outcome = c_config_to_json(config%handle, text, needed, needed)
    text = without_nul(outcome, text)
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_report_to_text(report, text, status)
    type(terrace_report), intent(in) :: report
    character(:), allocatable, intent(out) :: text
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_report_to_text(report%handle, nothing, 0_c_size_t, needed)
    allocate(character(needed) :: text)
    if (outcome == TERRACE_SUCCESS) outcome = c_report_to_text(report%handle, text, needed, needed)
    text = without_nul(outcome, text)
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_report_to_json(report, text, status)
    type(terrace_report), intent(in) :: report
    character(:), allocatable, intent(out) :: text
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_report_to_json(report%handle, nothing, 0_c_size_t, needed)
    allocate(character(needed) :: text)
    if (outcome == TERRACE_SUCCESS) outcome = c_report_to_json(report%handle, text, needed, needed)
    text = without_nul(outcome, text)
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_context_destroy(context, status)
    type(terrace_context), intent(inout) :: context
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_context_destroy(context%handle)
    context = terrace_context()
    if (present(status)) status = outcome
  end subroutine

  subroutine terrace_matrix_destroy(matrix, status)
    type(terrace_matrix), intent(inout) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_matrix_destroy(matrix%handle)
    matrix = terrace_matrix()
    if (present(status)) status = outcome
  end subroutine

  subroutine terrace_config_destroy(config, status)
    type(terrace_config), intent(inout) :: config
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_config_destroy(config%handle)
    config = terrace_config()
    if (present(status)) status = outcome
  end subroutine

  subroutine terrace_amg_destroy(amg, status)
    type(terrace_amg), intent(inout) :: amg
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_amg_destroy(amg%handle)
    amg = terrace_amg()
    if (present(status)) status = outcome
  end subroutine

  subroutine terrace_fsai_destroy(fsai, status)
    type(terrace_fsai), intent(inout) :: fsai
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_fsai_destroy(fsai%handle)
    fsai = terrace_fsai()
    if (present(status)) status = outcome
  end subroutine

  subroutine terrace_solver_destroy(solver, status)
    type(terrace_solver), intent(inout) :: solver
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_solver_destroy(solver%handle)
    solver = terrace_solver()
    if (present(status)) status = outcome
  end subroutine

  subroutine terrace_report_destroy(report, status)
    type(terrace_report), intent(inout) :: report
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_report_destroy(report%handle)
    report = terrace_report()
    if (present(status)) status = outcome
  end subroutine

  subroutine terrace_context_create(device, context, status)
    character(*), intent(in) :: device
    type(terrace_context), intent(out) :: context
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_create(c_text(device), context%handle), status)
  end subroutine

  subroutine terrace_context_set_threads(context, threads, status)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in) :: threads
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_set_threads(context%handle, threads), status)
  end subroutine

  subroutine terrace_context_set_stream(context, stream, status)
    type(terrace_context), intent(in) :: context
    type(c_ptr), intent(in) :: stream
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_set_stream(context%handle, stream), status)
  end subroutine

  ! Collective. `communicator` is c_loc of a terrace_communicator, or c_null_ptr.
  subroutine terrace_context_set_communicator(context, communicator, status)
    type(terrace_context), intent(in) :: context
    type(c_ptr), intent(in) :: communicator
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_set_communicator(context%handle, communicator), status)
  end subroutine

  ! Ranks that are threads of this process, one for each element of `ranks`.
  subroutine terrace_threads_communicator(ranks, status)
    type(terrace_communicator), intent(out), target :: ranks(:)
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_threads_communicator(int(size(ranks), c_int32_t), c_loc(ranks)), status)
  end subroutine

  subroutine terrace_context_synchronize(context, status)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_synchronize(context%handle), status)
  end subroutine

  subroutine terrace_context_set_memory_limit(context, bytes, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: bytes
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_set_memory_limit(context%handle, bytes), status)
  end subroutine

  subroutine terrace_context_get_memory(context, used, peak, limit, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(out) :: used, peak, limit
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_get_memory(context%handle, used, peak, limit), status)
  end subroutine

  subroutine terrace_context_get_threads(context, threads, status)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(out) :: threads
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_get_threads(context%handle, threads), status)
  end subroutine

  ! The names of dummy procedures have the prefix of the library because some compilers see them as global names. `user` reaches
  ! a callback as it is: c_loc of a variable, c_f_pointer in the callback.
  subroutine terrace_context_set_log(context, level, terrace_callback, status, user)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in) :: level
    procedure(terrace_log_callback) :: terrace_callback
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr), intent(in), optional :: user
    call conclude(c_context_set_log(context%handle, level, c_funloc(terrace_callback), or_null(user)), status)
  end subroutine

  subroutine terrace_context_raise_panic(context, status)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_context_raise_panic(context%handle), status)
  end subroutine

  ! Square unless `cols` is given; as many rows as row_offsets has elements, less one.
  recursive subroutine create_csr_i32_i32_f64(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i32_i32_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I32, c_loc(row_offsets), &
        TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_csr_i32_i32_f32(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i32_i32_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I32, c_loc(row_offsets), &
        TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_csr_i32_i64_f64(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i32_i64_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I32, c_loc(row_offsets), &
        TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_csr_i32_i64_f32(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i32_i64_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I32, c_loc(row_offsets), &
        TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_csr_i64_i32_f64(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i64_i32_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I64, c_loc(row_offsets), &
        TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_csr_i64_i32_f32(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i64_i32_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I64, c_loc(row_offsets), &
        TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_csr_i64_i64_f64(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i64_i64_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I64, c_loc(row_offsets), &
        TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_csr_i64_i64_f32(context, row_offsets, columns, values, matrix, status, base, borrow, sorted, cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_csr_i64_i64_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, sorted, cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_csr(context%handle, rows, cols_of(rows, cols), TERRACE_I64, c_loc(row_offsets), &
        TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  ! Collective: the rows of this rank of a square matrix with total_rows rows; they are copied. What is wrong here must be an error
  ! on the other ranks, too, so that it is left to the library, which gets no arrays then.
  recursive subroutine create_distributed_i32_i32_f64(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, &
      TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_distributed_i32_i32_f32(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, &
      TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_distributed_i32_i64_f64(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, &
      TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_distributed_i32_i64_f32(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, &
      TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_distributed_i64_i32_f64(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, &
      TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_distributed_i64_i32_f32(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, &
      TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_distributed_i64_i64_f64(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, &
      TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_distributed_i64_i64_f32(context, total_rows, first_row, row_offsets, columns, values, matrix, &
      status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. min(size(columns, kind=c_int64_t), size(values, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_csr_distributed(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, &
      TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    end if
    call conclude(outcome, status)
  end subroutine

  ! The same for rows of blocks: values(j, i, k) is row i, column j of block k.
  recursive subroutine create_blocks_i32_i32_f64(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I32, offsets, TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_blocks_i32_i32_f32(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I32, offsets, TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_blocks_i32_i64_f64(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I32, offsets, TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_blocks_i32_i64_f32(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int32_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I32, offsets, TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_blocks_i64_i32_f64(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I64, offsets, TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_blocks_i64_i32_f32(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int32_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I64, offsets, TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_blocks_i64_i64_f64(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_double), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I64, offsets, TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_blocks_i64_i64_f32(context, total_block_rows, first_block_row, row_offsets, columns, values, &
      matrix, status, base, sorted)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_block_rows, first_block_row
    integer(c_int64_t), intent(in), target, contiguous :: row_offsets(:)
    integer(c_int64_t), intent(in), target, contiguous :: columns(:)
    real(c_float), intent(in), target, contiguous :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    logical, intent(in), optional :: sorted
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    offsets = c_null_ptr
    if (rows >= 0 .and. size(values, 1) == size(values, 2) .and. &
      min(size(columns, kind=c_int64_t), size(values, 3, kind=c_int64_t)) >= entries) offsets = c_loc(row_offsets)
    outcome = c_matrix_create_bsr_distributed(context%handle, total_block_rows, first_block_row, rows, &
      int(size(values, 1), c_int32_t), TERRACE_I64, offsets, TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), &
      base_of(base), flags_of(.false., sorted), matrix%handle)
    if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  ! The same in two parts, as hypre's ParCSR and PETSc's MPIAIJ hold them, counted from 0.
  recursive subroutine create_parcsr_i32_i32_f64(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I32, c_loc(column_map), &
      TERRACE_F64, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_parcsr_i32_i32_f32(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I32, c_loc(column_map), &
      TERRACE_F32, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_parcsr_i32_i64_f64(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I64, c_loc(column_map), &
      TERRACE_F64, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_parcsr_i32_i64_f32(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int32_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I32, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I64, c_loc(column_map), &
      TERRACE_F32, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_parcsr_i64_i32_f64(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I32, c_loc(column_map), &
      TERRACE_F64, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_parcsr_i64_i32_f32(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int32_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I32, c_loc(column_map), &
      TERRACE_F32, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_parcsr_i64_i64_f64(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_double), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I64, c_loc(column_map), &
      TERRACE_F64, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_parcsr_i64_i64_f32(context, total_rows, first_row, diagonal_offsets, diagonal_columns, &
      diagonal_values, off_diagonal_offsets, off_diagonal_columns, off_diagonal_values, column_map, matrix, status)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in) :: total_rows, first_row
    integer(c_int64_t), intent(in), target, contiguous :: diagonal_offsets(:), diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: off_diagonal_offsets(:), off_diagonal_columns(:)
    real(c_float), intent(in), target, contiguous :: off_diagonal_values(:)
    integer(c_int64_t), intent(in), target, contiguous :: column_map(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: offsets
    integer(c_int64_t) :: rows, own, others, of_own, of_others
    integer(c_int32_t) :: outcome
    rows = size(diagonal_offsets, kind=c_int64_t) - 1
    own = 0
    others = 0
    if (rows >= 0) own = int(diagonal_offsets(rows + 1), c_int64_t)
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1) others = int(off_diagonal_offsets(rows + 1), c_int64_t)
    of_own = min(size(diagonal_columns, kind=c_int64_t), size(diagonal_values, kind=c_int64_t))
    of_others = min(size(off_diagonal_columns, kind=c_int64_t), size(off_diagonal_values, kind=c_int64_t))
    offsets = c_null_ptr
    if (rows >= 0 .and. size(off_diagonal_offsets) == rows + 1 .and. of_own >= own .and. of_others >= others) &
      offsets = c_loc(diagonal_offsets)
    outcome = c_matrix_create_parcsr(context%handle, total_rows, first_row, rows, TERRACE_I64, offsets, c_loc(diagonal_columns), &
      c_loc(off_diagonal_offsets), c_loc(off_diagonal_columns), size(column_map, kind=c_int64_t), TERRACE_I64, c_loc(column_map), &
      TERRACE_F32, c_loc(diagonal_values), c_loc(off_diagonal_values), matrix%handle)
    if (of_own < own) then
      outcome = misfit(context, 'diagonal_columns', of_own, own)
    else if (of_others < others) then
      outcome = misfit(context, 'off_diagonal_columns', of_others, others)
    else if (size(off_diagonal_offsets) /= rows + 1) then
      outcome = misfit(context, 'off_diagonal_offsets', size(off_diagonal_offsets, kind=c_int64_t), rows + 1)
    end if
    call conclude(outcome, status)
  end subroutine

  ! values(j, i, k) is row i, column j of block k: blocks are stored by rows.
  recursive subroutine create_bsr_i32_i32_f64(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i32_i32_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I32, c_loc(row_offsets), TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_bsr_i32_i32_f32(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i32_i32_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I32, c_loc(row_offsets), TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_bsr_i32_i64_f64(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i32_i64_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I32, c_loc(row_offsets), TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_bsr_i32_i64_f32(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i32_i64_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I32, c_loc(row_offsets), TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_bsr_i64_i32_f64(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i64_i32_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I64, c_loc(row_offsets), TERRACE_I32, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_bsr_i64_i32_f32(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int32_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i64_i32_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I64, c_loc(row_offsets), TERRACE_I32, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_bsr_i64_i64_f64(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_double), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i64_i64_f64(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I64, c_loc(row_offsets), TERRACE_I64, c_loc(columns), TERRACE_F64, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_bsr_i64_i64_f32(context, row_offsets, columns, values, matrix, status, base, borrow, &
      sorted, block_cols)
    type(terrace_context), intent(in) :: context
    integer(c_int64_t), intent(in), target :: row_offsets(:)
    integer(c_int64_t), intent(in), target :: columns(:)
    real(c_float), intent(in), target :: values(:, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base, block_cols
    logical, intent(in), optional :: borrow, sorted
    integer(c_int64_t) :: rows, entries
    integer(c_int32_t) :: outcome
    rows = size(row_offsets, kind=c_int64_t) - 1
    entries = 0
    if (rows >= 0) entries = int(row_offsets(rows + 1), c_int64_t) - base_of(base)
    outcome = sections(context, borrow, is_contiguous(row_offsets), is_contiguous(columns), is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_bsr_i64_i64_f32(context, (row_offsets), (columns), (values), matrix, status, base, borrow, &
        sorted, block_cols)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(columns, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, 3, kind=c_int64_t) < entries) then
      outcome = misfit(context, 'the last dimension of values', size(values, 3, kind=c_int64_t), entries)
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      outcome = c_matrix_create_bsr(context%handle, rows, cols_of(rows, block_cols), size(values, 1, kind=c_int32_t), &
        TERRACE_I64, c_loc(row_offsets), TERRACE_I64, c_loc(columns), TERRACE_F32, c_loc(values), base_of(base), &
        flags_of(borrow, sorted), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  ! Entries in any order; those at the same place are added. Counts from 1 unless `base=0` is given.
  subroutine create_coo_i32_f64(context, rows, cols, row_indices, column_indices, values, matrix, status, base)
    type(terrace_context), intent(in) :: context
    integer, intent(in) :: rows, cols
    integer(c_int32_t), intent(in), contiguous, target :: row_indices(:), column_indices(:)
    real(c_double), intent(in), contiguous, target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: entries
    integer(c_int32_t) :: outcome
    entries = size(row_indices, kind=c_int64_t)
    if (size(column_indices, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'column_indices', size(column_indices, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_coo(context%handle, int(rows, c_int64_t), int(cols, c_int64_t), entries, TERRACE_I32, &
        c_loc(row_indices), c_loc(column_indices), TERRACE_F64, c_loc(values), base_of(base), matrix%handle)
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine create_coo_i32_f32(context, rows, cols, row_indices, column_indices, values, matrix, status, base)
    type(terrace_context), intent(in) :: context
    integer, intent(in) :: rows, cols
    integer(c_int32_t), intent(in), contiguous, target :: row_indices(:), column_indices(:)
    real(c_float), intent(in), contiguous, target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: entries
    integer(c_int32_t) :: outcome
    entries = size(row_indices, kind=c_int64_t)
    if (size(column_indices, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'column_indices', size(column_indices, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_coo(context%handle, int(rows, c_int64_t), int(cols, c_int64_t), entries, TERRACE_I32, &
        c_loc(row_indices), c_loc(column_indices), TERRACE_F32, c_loc(values), base_of(base), matrix%handle)
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine create_coo_i64_f64(context, rows, cols, row_indices, column_indices, values, matrix, status, base)
    type(terrace_context), intent(in) :: context
    integer, intent(in) :: rows, cols
    integer(c_int64_t), intent(in), contiguous, target :: row_indices(:), column_indices(:)
    real(c_double), intent(in), contiguous, target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: entries
    integer(c_int32_t) :: outcome
    entries = size(row_indices, kind=c_int64_t)
    if (size(column_indices, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'column_indices', size(column_indices, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_coo(context%handle, int(rows, c_int64_t), int(cols, c_int64_t), entries, TERRACE_I64, &
        c_loc(row_indices), c_loc(column_indices), TERRACE_F64, c_loc(values), base_of(base), matrix%handle)
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine create_coo_i64_f32(context, rows, cols, row_indices, column_indices, values, matrix, status, base)
    type(terrace_context), intent(in) :: context
    integer, intent(in) :: rows, cols
    integer(c_int64_t), intent(in), contiguous, target :: row_indices(:), column_indices(:)
    real(c_float), intent(in), contiguous, target :: values(:)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: entries
    integer(c_int32_t) :: outcome
    entries = size(row_indices, kind=c_int64_t)
    if (size(column_indices, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'column_indices', size(column_indices, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), entries)
    else
      outcome = c_matrix_create_coo(context%handle, int(rows, c_int64_t), int(cols, c_int64_t), entries, TERRACE_I64, &
        c_loc(row_indices), c_loc(column_indices), TERRACE_F32, c_loc(values), base_of(base), matrix%handle)
    end if
    call conclude(outcome, status)
  end subroutine

  ! values(x, y, z, k) is the entry of offset k in cell (x, y, z): one array over all cells for each offset. offsets(:, k) are
  ! the steps along x, y and z to its neighbour.
  recursive subroutine create_stencil_f64(context, offsets, values, matrix, status, periodic, borrow)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), contiguous, target :: offsets(:, :)
    real(c_double), intent(in), target :: values(:, :, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    logical, intent(in), optional :: periodic(3), borrow
    integer(c_int32_t), target :: wraps(3)
    integer(c_int64_t), target :: dims(3)
    integer(c_int32_t) :: outcome
    outcome = sections(context, borrow, .true., .true., is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_stencil_f64(context, offsets, (values), matrix, status, periodic, borrow)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(offsets, 1) /= 3) then
      outcome = misfit(context, 'the first dimension of offsets', size(offsets, 1, kind=c_int64_t), 3_c_int64_t)
    else if (size(values, 4) /= size(offsets, 2)) then
      outcome = misfit(context, 'the last dimension of values', size(values, 4, kind=c_int64_t), size(offsets, 2, kind=c_int64_t))
    else
      dims = [size(values, 1, kind=c_int64_t), size(values, 2, kind=c_int64_t), size(values, 3, kind=c_int64_t)]
      wraps = wraps_of(periodic)
      outcome = c_matrix_create_stencil(context%handle, c_loc(dims), c_loc(wraps), 1_c_int32_t, size(offsets, 2, kind=c_int32_t), &
        c_loc(offsets), TERRACE_F64, c_loc(values), TERRACE_BY_OFFSET, flags_of(borrow, .false.), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  ! values(j, i, k, x, y, z) is row i, column j of the block of offset k in cell (x, y, z): all of a cell together; copied.
  recursive subroutine create_block_stencil_f64(context, offsets, values, matrix, status, periodic)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), contiguous, target :: offsets(:, :)
    real(c_double), intent(in), target :: values(:, :, :, :, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    logical, intent(in), optional :: periodic(3)
    integer(c_int32_t), target :: wraps(3)
    integer(c_int64_t), target :: dims(3)
    integer(c_int32_t) :: outcome
    if (.not. is_contiguous(values)) then
      call create_block_stencil_f64(context, offsets, (values), matrix, status, periodic)
      return
    else if (size(offsets, 1) /= 3) then
      outcome = misfit(context, 'the first dimension of offsets', size(offsets, 1, kind=c_int64_t), 3_c_int64_t)
    else if (size(values, 3) /= size(offsets, 2)) then
      outcome = misfit(context, 'the third dimension of values', size(values, 3, kind=c_int64_t), size(offsets, 2, kind=c_int64_t))
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      dims = [size(values, 4, kind=c_int64_t), size(values, 5, kind=c_int64_t), size(values, 6, kind=c_int64_t)]
      wraps = wraps_of(periodic)
      outcome = c_matrix_create_stencil(context%handle, c_loc(dims), c_loc(wraps), size(values, 1, kind=c_int32_t), &
        size(offsets, 2, kind=c_int32_t), c_loc(offsets), TERRACE_F64, c_loc(values), TERRACE_BY_CELL, TERRACE_COPY, matrix%handle)
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine create_stencil_f32(context, offsets, values, matrix, status, periodic, borrow)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), contiguous, target :: offsets(:, :)
    real(c_float), intent(in), target :: values(:, :, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    logical, intent(in), optional :: periodic(3), borrow
    integer(c_int32_t), target :: wraps(3)
    integer(c_int64_t), target :: dims(3)
    integer(c_int32_t) :: outcome
    outcome = sections(context, borrow, .true., .true., is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call create_stencil_f32(context, offsets, (values), matrix, status, periodic, borrow)
      return
    else if (outcome < TERRACE_SUCCESS) then
      continue
    else if (size(offsets, 1) /= 3) then
      outcome = misfit(context, 'the first dimension of offsets', size(offsets, 1, kind=c_int64_t), 3_c_int64_t)
    else if (size(values, 4) /= size(offsets, 2)) then
      outcome = misfit(context, 'the last dimension of values', size(values, 4, kind=c_int64_t), size(offsets, 2, kind=c_int64_t))
    else
      dims = [size(values, 1, kind=c_int64_t), size(values, 2, kind=c_int64_t), size(values, 3, kind=c_int64_t)]
      wraps = wraps_of(periodic)
      outcome = c_matrix_create_stencil(context%handle, c_loc(dims), c_loc(wraps), 1_c_int32_t, size(offsets, 2, kind=c_int32_t), &
        c_loc(offsets), TERRACE_F32, c_loc(values), TERRACE_BY_OFFSET, flags_of(borrow, .false.), matrix%handle)
      matrix%borrows = is_true(borrow)
    end if
    call conclude(outcome, status)
  end subroutine

  ! values(j, i, k, x, y, z) is row i, column j of the block of offset k in cell (x, y, z): all of a cell together; copied.
  recursive subroutine create_block_stencil_f32(context, offsets, values, matrix, status, periodic)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in), contiguous, target :: offsets(:, :)
    real(c_float), intent(in), target :: values(:, :, :, :, :, :)
    type(terrace_matrix), intent(out) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    logical, intent(in), optional :: periodic(3)
    integer(c_int32_t), target :: wraps(3)
    integer(c_int64_t), target :: dims(3)
    integer(c_int32_t) :: outcome
    if (.not. is_contiguous(values)) then
      call create_block_stencil_f32(context, offsets, (values), matrix, status, periodic)
      return
    else if (size(offsets, 1) /= 3) then
      outcome = misfit(context, 'the first dimension of offsets', size(offsets, 1, kind=c_int64_t), 3_c_int64_t)
    else if (size(values, 3) /= size(offsets, 2)) then
      outcome = misfit(context, 'the third dimension of values', size(values, 3, kind=c_int64_t), size(offsets, 2, kind=c_int64_t))
    else if (size(values, 1) /= size(values, 2)) then
      outcome = misfit(context, 'the second dimension of values', size(values, 2, kind=c_int64_t), size(values, 1, kind=c_int64_t))
    else
      dims = [size(values, 4, kind=c_int64_t), size(values, 5, kind=c_int64_t), size(values, 6, kind=c_int64_t)]
      wraps = wraps_of(periodic)
      outcome = c_matrix_create_stencil(context%handle, c_loc(dims), c_loc(wraps), size(values, 1, kind=c_int32_t), &
        size(offsets, 2, kind=c_int32_t), c_loc(offsets), TERRACE_F32, c_loc(values), TERRACE_BY_CELL, TERRACE_COPY, matrix%handle)
    end if
    call conclude(outcome, status)
  end subroutine

  ! The cells of the grid along x, y and z, and the axes that are periodic.
  subroutine terrace_matrix_set_grid(context, matrix, dims, status, periodic)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer, intent(in) :: dims(3)
    integer(c_int32_t), intent(out), optional :: status
    logical, intent(in), optional :: periodic(3)
    integer(c_int32_t), target :: wraps(3)
    integer(c_int64_t), target :: cells(3)
    cells = int(dims, c_int64_t)
    wraps = wraps_of(periodic)
    call conclude(c_matrix_set_grid(context%handle, matrix%handle, c_loc(cells), c_loc(wraps)), status)
  end subroutine

  function wraps_of(periodic) result(wraps)
    logical, intent(in), optional :: periodic(3)
    integer(c_int32_t) :: wraps(3)
    wraps = 0
    if (present(periodic)) wraps = merge(1_c_int32_t, 0_c_int32_t, periodic)
  end function

  subroutine terrace_matrix_get_size(context, matrix, rows, cols, nonzeros, block_size, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(out) :: rows, cols, nonzeros
    integer(c_int32_t), intent(out) :: block_size
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size), status)
  end subroutine

  recursive subroutine update_values_f64(context, matrix, values, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_double), intent(in), target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = sections(context, matrix%borrows, .true., .true., is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call update_values_f64(context, matrix, (values), status)
      return
    else if (outcome == TERRACE_SUCCESS) then
      outcome = c_matrix_update_values(context%handle, matrix%handle, TERRACE_F64, c_loc(values), size(values, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine update_blocks_f64(context, matrix, values, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_double), intent(in), target :: values(:, :, :)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = sections(context, matrix%borrows, .true., .true., is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call update_blocks_f64(context, matrix, (values), status)
      return
    else if (outcome == TERRACE_SUCCESS) then
      outcome = c_matrix_update_values(context%handle, matrix%handle, TERRACE_F64, c_loc(values), size(values, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine update_values_f32(context, matrix, values, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_float), intent(in), target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = sections(context, matrix%borrows, .true., .true., is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call update_values_f32(context, matrix, (values), status)
      return
    else if (outcome == TERRACE_SUCCESS) then
      outcome = c_matrix_update_values(context%handle, matrix%handle, TERRACE_F32, c_loc(values), size(values, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  recursive subroutine update_blocks_f32(context, matrix, values, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_float), intent(in), target :: values(:, :, :)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = sections(context, matrix%borrows, .true., .true., is_contiguous(values))
    if (outcome > TERRACE_SUCCESS) then
      call update_blocks_f32(context, matrix, (values), status)
      return
    else if (outcome == TERRACE_SUCCESS) then
      outcome = c_matrix_update_values(context%handle, matrix%handle, TERRACE_F32, c_loc(values), size(values, kind=c_int64_t))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_matrix_multiply(context, left, right, product, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: left, right
    type(terrace_matrix), intent(out) :: product
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_matrix_multiply(context%handle, left%handle, right%handle, product%handle), status)
  end subroutine

  subroutine terrace_matrix_transpose(context, matrix, transpose, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_matrix), intent(out) :: transpose
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_matrix_transpose(context%handle, matrix%handle, transpose%handle), status)
  end subroutine

  ! y = alpha A x + beta y, or with the transpose of A.
  subroutine matrix_apply_f64(context, matrix, alpha, x, beta, y, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_double), intent(in) :: alpha, beta
    real(c_double), intent(in), contiguous, target :: x(:)
    real(c_double), intent(inout), contiguous, target :: y(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows, cols, nonzeros
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(x, kind=c_int64_t) /= cols) then
      outcome = misfit(context, 'x', size(x, kind=c_int64_t), cols)
    else if (size(y, kind=c_int64_t) /= rows) then
      outcome = misfit(context, 'y', size(y, kind=c_int64_t), rows)
    else
      outcome = c_matrix_apply( &
          context%handle, matrix%handle, TERRACE_F64, alpha, c_loc(x), beta, c_loc(y))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine matrix_apply_f32(context, matrix, alpha, x, beta, y, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_double), intent(in) :: alpha, beta
    real(c_float), intent(in), contiguous, target :: x(:)
    real(c_float), intent(inout), contiguous, target :: y(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows, cols, nonzeros
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(x, kind=c_int64_t) /= cols) then
      outcome = misfit(context, 'x', size(x, kind=c_int64_t), cols)
    else if (size(y, kind=c_int64_t) /= rows) then
      outcome = misfit(context, 'y', size(y, kind=c_int64_t), rows)
    else
      outcome = c_matrix_apply( &
          context%handle, matrix%handle, TERRACE_F32, alpha, c_loc(x), beta, c_loc(y))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine matrix_apply_transposed_f64(context, matrix, alpha, x, beta, y, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_double), intent(in) :: alpha, beta
    real(c_double), intent(in), contiguous, target :: x(:)
    real(c_double), intent(inout), contiguous, target :: y(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows, cols, nonzeros
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(context, 'x', size(x, kind=c_int64_t), rows)
    else if (size(y, kind=c_int64_t) /= cols) then
      outcome = misfit(context, 'y', size(y, kind=c_int64_t), cols)
    else
      outcome = c_matrix_apply_transposed( &
          context%handle, matrix%handle, TERRACE_F64, alpha, c_loc(x), beta, c_loc(y))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine matrix_apply_transposed_f32(context, matrix, alpha, x, beta, y, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_double), intent(in) :: alpha, beta
    real(c_float), intent(in), contiguous, target :: x(:)
    real(c_float), intent(inout), contiguous, target :: y(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows, cols, nonzeros
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(context, 'x', size(x, kind=c_int64_t), rows)
    else if (size(y, kind=c_int64_t) /= cols) then
      outcome = misfit(context, 'y', size(y, kind=c_int64_t), cols)
    else
      outcome = c_matrix_apply_transposed( &
          context%handle, matrix%handle, TERRACE_F32, alpha, c_loc(x), beta, c_loc(y))
    end if
    call conclude(outcome, status)
  end subroutine

  ! Copies of the arrays, whose lengths terrace_matrix_get_size tells.
  subroutine get_arrays_i32_i32_f64(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int32_t), intent(inout), contiguous, target :: columns(:)
    real(c_double), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I32, c_loc(row_offsets), TERRACE_I32, c_loc(columns), &
        TERRACE_F64, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine get_arrays_i32_i32_f32(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int32_t), intent(inout), contiguous, target :: columns(:)
    real(c_float), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I32, c_loc(row_offsets), TERRACE_I32, c_loc(columns), &
        TERRACE_F32, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine get_arrays_i32_i64_f64(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int64_t), intent(inout), contiguous, target :: columns(:)
    real(c_double), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I32, c_loc(row_offsets), TERRACE_I64, c_loc(columns), &
        TERRACE_F64, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine get_arrays_i32_i64_f32(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int64_t), intent(inout), contiguous, target :: columns(:)
    real(c_float), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I32, c_loc(row_offsets), TERRACE_I64, c_loc(columns), &
        TERRACE_F32, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine get_arrays_i64_i32_f64(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int32_t), intent(inout), contiguous, target :: columns(:)
    real(c_double), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I64, c_loc(row_offsets), TERRACE_I32, c_loc(columns), &
        TERRACE_F64, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine get_arrays_i64_i32_f32(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int32_t), intent(inout), contiguous, target :: columns(:)
    real(c_float), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I64, c_loc(row_offsets), TERRACE_I32, c_loc(columns), &
        TERRACE_F32, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine get_arrays_i64_i64_f64(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int64_t), intent(inout), contiguous, target :: columns(:)
    real(c_double), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I64, c_loc(row_offsets), TERRACE_I64, c_loc(columns), &
        TERRACE_F64, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine get_arrays_i64_i64_f32(context, matrix, row_offsets, columns, values, status, base)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(inout), contiguous, target :: row_offsets(:)
    integer(c_int64_t), intent(inout), contiguous, target :: columns(:)
    real(c_float), intent(inout), contiguous, target :: values(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: base
    integer(c_int64_t) :: rows, cols, nonzeros, entries
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      call conclude(outcome, status)
      return
    end if
    entries = nonzeros / (block_size * block_size)
    if (size(row_offsets, kind=c_int64_t) /= rows / block_size + 1) then
      outcome = misfit(context, 'row_offsets', size(row_offsets, kind=c_int64_t), rows / block_size + 1)
    else if (size(columns, kind=c_int64_t) /= entries) then
      outcome = misfit(context, 'columns', size(columns, kind=c_int64_t), entries)
    else if (size(values, kind=c_int64_t) /= nonzeros) then
      outcome = misfit(context, 'values', size(values, kind=c_int64_t), nonzeros)
    else
      outcome = c_matrix_get_arrays(context%handle, matrix%handle, TERRACE_I64, c_loc(row_offsets), TERRACE_I64, c_loc(columns), &
        TERRACE_F32, c_loc(values), base_of(base))
    end if
    call conclude(outcome, status)
  end subroutine

  ! vectors(:, v) is near-null-space vector v over all rows. No vector removes those that were given, and coordinates.
  subroutine terrace_matrix_set_near_null_space(context, matrix, dofs_per_node, vectors, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(in) :: dofs_per_node
    real(c_double), intent(in), contiguous, target :: vectors(:, :)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows, cols, nonzeros
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(vectors, 1, kind=c_int64_t) /= rows) then
      outcome = misfit(context, 'the first dimension of vectors', size(vectors, 1, kind=c_int64_t), rows)
    else
      outcome = c_matrix_set_near_null_space(context%handle, matrix%handle, dofs_per_node, size(vectors, 2, kind=c_int32_t), &
        c_loc(vectors))
    end if
    call conclude(outcome, status)
  end subroutine

  ! coordinates(:, k) is the place of node k in 2 or 3 dimensions.
  subroutine terrace_matrix_set_coordinates(context, matrix, coordinates, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    real(c_double), intent(in), contiguous, target :: coordinates(:, :)
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_matrix_set_coordinates(context%handle, matrix%handle, size(coordinates, 1, kind=c_int32_t), &
      size(coordinates, 2, kind=c_int64_t), c_loc(coordinates)), status)
  end subroutine

  ! functions(i) is the function of unknown i, from 0 to count - 1. A count of 0 removes those that were given.
  subroutine terrace_matrix_set_functions(context, matrix, count, functions, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(in) :: count
    integer(c_int32_t), intent(in), contiguous, target :: functions(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows, cols, nonzeros
    integer(c_int32_t) :: block_size, outcome
    outcome = c_matrix_get_size(context%handle, matrix%handle, rows, cols, nonzeros, block_size)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (count /= 0 .and. size(functions, kind=c_int64_t) /= rows) then
      outcome = misfit(context, 'functions', size(functions, kind=c_int64_t), rows)
    else
      outcome = c_matrix_set_functions(context%handle, matrix%handle, count, c_loc(functions))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_config_create(context, config, status)
    type(terrace_context), intent(in) :: context
    type(terrace_config), intent(out) :: config
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_create(context%handle, config%handle), status)
  end subroutine

  subroutine terrace_config_set_str(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key, value
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_set_str(config%handle, c_text(key), c_text(value)), status)
  end subroutine

  subroutine config_set_int_i32(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key
    integer(c_int32_t), intent(in) :: value
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_set_int(config%handle, c_text(key), int(value, c_int64_t)), status)
  end subroutine

  subroutine config_set_int_i64(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key
    integer(c_int64_t), intent(in) :: value
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_set_int(config%handle, c_text(key), int(value, c_int64_t)), status)
  end subroutine

  subroutine config_set_real_f64(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key
    real(c_double), intent(in) :: value
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_set_real(config%handle, c_text(key), real(value, c_double)), status)
  end subroutine

  subroutine config_set_real_f32(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key
    real(c_float), intent(in) :: value
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_set_real(config%handle, c_text(key), real(value, c_double)), status)
  end subroutine

  subroutine terrace_config_get_str(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key
    character(:), allocatable, intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_config_get_str(config%handle, c_text(key), nothing, 0_c_size_t, needed)
    allocate(character(needed) :: value)
    if (outcome == TERRACE_SUCCESS) outcome = c_config_get_str(config%handle, c_text(key), value, needed, needed)
    value = without_nul(outcome, value)
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_config_get_int(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key
    integer(c_int64_t), intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    value = 0
    call conclude(c_config_get_int(config%handle, c_text(key), value), status)
  end subroutine

  subroutine terrace_config_get_real(config, key, value, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: key
    real(c_double), intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    value = 0
    call conclude(c_config_get_real(config%handle, c_text(key), value), status)
  end subroutine

  subroutine terrace_config_set_level(config, level, part, precision, status)
    type(terrace_config), intent(in) :: config
    integer(c_int32_t), intent(in) :: level, part, precision
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_set_level(config%handle, level, part, precision), status)
  end subroutine

  subroutine terrace_config_set_level_sweeps(config, level, pre, post, status)
    type(terrace_config), intent(in) :: config
    integer(c_int32_t), intent(in) :: level, pre, post
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_set_level_sweeps(config%handle, level, pre, post), status)
  end subroutine

  subroutine terrace_config_load_json(config, json, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: json
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_load_json(config%handle, c_text(json)), status)
  end subroutine

  subroutine terrace_config_load_preset(config, name, status)
    type(terrace_config), intent(in) :: config
    character(*), intent(in) :: name
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_config_load_preset(config%handle, c_text(name)), status)
  end subroutine

  subroutine amg_setup(context, matrix, config, amg, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_config), intent(in) :: config
    type(terrace_amg), intent(out) :: amg
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_amg_setup(context%handle, matrix%handle, config%handle, amg%handle), status)
  end subroutine

  subroutine amg_setup_defaults(context, matrix, amg, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_amg), intent(out) :: amg
    integer(c_int32_t), intent(out), optional :: status
    call amg_setup(context, matrix, terrace_config(), amg, status)
  end subroutine

  subroutine terrace_amg_update(amg, status)
    type(terrace_amg), intent(in) :: amg
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_amg_update(amg%handle), status)
  end subroutine

  subroutine fsai_setup(context, matrix, config, fsai, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_config), intent(in) :: config
    type(terrace_fsai), intent(out) :: fsai
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_fsai_setup(context%handle, matrix%handle, config%handle, fsai%handle), status)
  end subroutine

  subroutine fsai_setup_defaults(context, matrix, fsai, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_fsai), intent(out) :: fsai
    integer(c_int32_t), intent(out), optional :: status
    call fsai_setup(context, matrix, terrace_config(), fsai, status)
  end subroutine

  subroutine terrace_fsai_update(fsai, status)
    type(terrace_fsai), intent(in) :: fsai
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_fsai_update(fsai%handle), status)
  end subroutine

  subroutine amg_apply_f64(amg, b, x, status)
    type(terrace_amg), intent(in) :: amg
    real(c_double), intent(in), contiguous, target :: b(:)
    real(c_double), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_amg_get_rows(amg%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_amg_apply(amg%handle, TERRACE_F64, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine amg_apply_f32(amg, b, x, status)
    type(terrace_amg), intent(in) :: amg
    real(c_float), intent(in), contiguous, target :: b(:)
    real(c_float), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_amg_get_rows(amg%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_amg_apply(amg%handle, TERRACE_F32, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine amg_apply_transposed_f64(amg, b, x, status)
    type(terrace_amg), intent(in) :: amg
    real(c_double), intent(in), contiguous, target :: b(:)
    real(c_double), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_amg_get_rows(amg%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_amg_apply_transposed(amg%handle, TERRACE_F64, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine amg_apply_transposed_f32(amg, b, x, status)
    type(terrace_amg), intent(in) :: amg
    real(c_float), intent(in), contiguous, target :: b(:)
    real(c_float), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_amg_get_rows(amg%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(amg, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_amg_apply_transposed(amg%handle, TERRACE_F32, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine fsai_apply_f64(fsai, b, x, status)
    type(terrace_fsai), intent(in) :: fsai
    real(c_double), intent(in), contiguous, target :: b(:)
    real(c_double), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_fsai_get_rows(fsai%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_fsai_apply(fsai%handle, TERRACE_F64, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine fsai_apply_f32(fsai, b, x, status)
    type(terrace_fsai), intent(in) :: fsai
    real(c_float), intent(in), contiguous, target :: b(:)
    real(c_float), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_fsai_get_rows(fsai%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_fsai_apply(fsai%handle, TERRACE_F32, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine fsai_apply_transposed_f64(fsai, b, x, status)
    type(terrace_fsai), intent(in) :: fsai
    real(c_double), intent(in), contiguous, target :: b(:)
    real(c_double), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_fsai_get_rows(fsai%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_fsai_apply_transposed(fsai%handle, TERRACE_F64, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine fsai_apply_transposed_f32(fsai, b, x, status)
    type(terrace_fsai), intent(in) :: fsai
    real(c_float), intent(in), contiguous, target :: b(:)
    real(c_float), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int64_t) :: rows
    integer(c_int32_t) :: outcome
    outcome = c_fsai_get_rows(fsai%handle, rows)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (size(b, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'b', size(b, kind=c_int64_t), rows)
    else if (size(x, kind=c_int64_t) /= rows) then
      outcome = misfit(fsai, 'x', size(x, kind=c_int64_t), rows)
    else
      outcome = c_fsai_apply_transposed(fsai%handle, TERRACE_F32, c_loc(b), c_loc(x))
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine amg_memory_estimate(context, matrix, config, bytes, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_config), intent(in) :: config
    integer(c_int64_t), intent(out) :: bytes
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_amg_memory_estimate(context%handle, matrix%handle, config%handle, bytes), status)
  end subroutine

  subroutine amg_memory_estimate_defaults(context, matrix, bytes, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(out) :: bytes
    integer(c_int32_t), intent(out), optional :: status
    call amg_memory_estimate(context, matrix, terrace_config(), bytes, status)
  end subroutine

  subroutine fsai_memory_estimate(context, matrix, config, bytes, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_config), intent(in) :: config
    integer(c_int64_t), intent(out) :: bytes
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_fsai_memory_estimate(context%handle, matrix%handle, config%handle, bytes), status)
  end subroutine

  subroutine fsai_memory_estimate_defaults(context, matrix, bytes, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(out) :: bytes
    integer(c_int32_t), intent(out), optional :: status
    call fsai_memory_estimate(context, matrix, terrace_config(), bytes, status)
  end subroutine

  subroutine solver_memory_estimate(context, matrix, config, updates, bytes, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    type(terrace_config), intent(in) :: config
    logical, intent(in) :: updates
    integer(c_int64_t), intent(out) :: bytes
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_memory_estimate(context%handle, matrix%handle, config%handle, &
        merge(1_c_int32_t, 0_c_int32_t, updates), bytes), status)
  end subroutine

  subroutine solver_memory_estimate_defaults(context, matrix, updates, bytes, status)
    type(terrace_context), intent(in) :: context
    type(terrace_matrix), intent(in) :: matrix
    logical, intent(in) :: updates
    integer(c_int64_t), intent(out) :: bytes
    integer(c_int32_t), intent(out), optional :: status
    call solver_memory_estimate(context, matrix, terrace_config(), updates, bytes, status)
  end subroutine

  subroutine solver_create(context, config, solver, status)
    type(terrace_context), intent(in) :: context
    type(terrace_config), intent(in) :: config
    type(terrace_solver), intent(out) :: solver
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_create(context%handle, config%handle, solver%handle), status)
  end subroutine

  subroutine solver_create_defaults(context, solver, status)
    type(terrace_context), intent(in) :: context
    type(terrace_solver), intent(out) :: solver
    integer(c_int32_t), intent(out), optional :: status
    call solver_create(context, terrace_config(), solver, status)
  end subroutine

  subroutine terrace_solver_set_operator(solver, rows, terrace_callback, status, user)
    type(terrace_solver), intent(in) :: solver
    integer, intent(in) :: rows
    procedure(terrace_apply_callback) :: terrace_callback
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr), intent(in), optional :: user
    call conclude(c_solver_set_operator(solver%handle, int(rows, c_int64_t), c_funloc(terrace_callback), or_null(user)), status)
  end subroutine

  subroutine terrace_solver_set_preconditioner(solver, terrace_callback, status, user)
    type(terrace_solver), intent(in) :: solver
    procedure(terrace_apply_callback) :: terrace_callback
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr), intent(in), optional :: user
    call conclude(c_solver_set_preconditioner(solver%handle, c_funloc(terrace_callback), or_null(user)), status)
  end subroutine

  subroutine terrace_solver_set_operator_f32(solver, rows, terrace_callback, status, user)
    type(terrace_solver), intent(in) :: solver
    integer, intent(in) :: rows
    procedure(terrace_apply_callback_f32) :: terrace_callback
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr), intent(in), optional :: user
    call conclude(c_solver_set_operator(solver%handle, int(rows, c_int64_t), c_funloc(terrace_callback), or_null(user)), status)
  end subroutine

  subroutine terrace_solver_set_preconditioner_f32(solver, terrace_callback, status, user)
    type(terrace_solver), intent(in) :: solver
    procedure(terrace_apply_callback_f32) :: terrace_callback
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr), intent(in), optional :: user
    call conclude(c_solver_set_preconditioner(solver%handle, c_funloc(terrace_callback), or_null(user)), status)
  end subroutine

  ! The matrix of set-up is multiplied with again.
  subroutine terrace_solver_remove_operator(solver, status)
    type(terrace_solver), intent(in) :: solver
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_set_operator(solver%handle, 0_c_int64_t, c_null_funptr, c_null_ptr), status)
  end subroutine

  ! The option solver.preconditioner holds again.
  subroutine terrace_solver_remove_preconditioner(solver, status)
    type(terrace_solver), intent(in) :: solver
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_set_preconditioner(solver%handle, c_null_funptr, c_null_ptr), status)
  end subroutine

  ! A matrix that was never created means that of set-up again.
  subroutine terrace_solver_set_preconditioner_matrix(solver, matrix, status)
    type(terrace_solver), intent(in) :: solver
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_set_preconditioner_matrix(solver%handle, matrix%handle), status)
  end subroutine

  ! No callback removes the monitor.
  subroutine terrace_solver_set_monitor(solver, terrace_callback, status, user)
    type(terrace_solver), intent(in) :: solver
    procedure(terrace_monitor_callback), optional :: terrace_callback
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr), intent(in), optional :: user
    type(c_funptr) :: monitor
    monitor = c_null_funptr
    if (present(terrace_callback)) monitor = c_funloc(terrace_callback)
    call conclude(c_solver_set_monitor(solver%handle, monitor, or_null(user)), status)
  end subroutine

  subroutine terrace_solver_get_option(solver, key, value, status)
    type(terrace_solver), intent(in) :: solver
    character(*), intent(in) :: key
    character(:), allocatable, intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_solver_get_option(solver%handle, c_text(key), nothing, 0_c_size_t, needed)
    allocate(character(needed) :: value)
    if (outcome == TERRACE_SUCCESS) outcome = c_solver_get_option(solver%handle, c_text(key), value, needed, needed)
    value = without_nul(outcome, value)
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_amg_get_option(amg, key, value, status)
    type(terrace_amg), intent(in) :: amg
    character(*), intent(in) :: key
    character(:), allocatable, intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_amg_get_option(amg%handle, c_text(key), nothing, 0_c_size_t, needed)
    allocate(character(needed) :: value)
    if (outcome == TERRACE_SUCCESS) outcome = c_amg_get_option(amg%handle, c_text(key), value, needed, needed)
    value = without_nul(outcome, value)
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_fsai_get_option(fsai, key, value, status)
    type(terrace_fsai), intent(in) :: fsai
    character(*), intent(in) :: key
    character(:), allocatable, intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_fsai_get_option(fsai%handle, c_text(key), nothing, 0_c_size_t, needed)
    allocate(character(needed) :: value)
    if (outcome == TERRACE_SUCCESS) outcome = c_fsai_get_option(fsai%handle, c_text(key), value, needed, needed)
    value = without_nul(outcome, value)
    call conclude(outcome, status)
  end subroutine

  subroutine solver_setup(solver, matrix, status)
    type(terrace_solver), intent(in) :: solver
    type(terrace_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_setup(solver%handle, matrix%handle), status)
  end subroutine

  ! Without a matrix, or with one that was never created: accepted with callbacks in its place.
  subroutine solver_setup_callbacks(solver, status)
    type(terrace_solver), intent(in) :: solver
    integer(c_int32_t), intent(out), optional :: status
    call solver_setup(solver, terrace_matrix(), status)
  end subroutine

  subroutine terrace_solver_update(solver, status)
    type(terrace_solver), intent(in) :: solver
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_update(solver%handle), status)
  end subroutine

  ! b(:, r) and x(:, r) belong to right-hand side r, also when they come as one long array.
  subroutine solve_one_f64(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_double), intent(in), contiguous, target :: b(:)
    real(c_double), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F64, .false., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve_several_f64(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_double), intent(in), contiguous, target :: b(:, :)
    real(c_double), intent(inout), contiguous, target :: x(:, :)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F64, .false., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve_one_f32(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_float), intent(in), contiguous, target :: b(:)
    real(c_float), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F32, .false., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve_several_f32(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_float), intent(in), contiguous, target :: b(:, :)
    real(c_float), intent(inout), contiguous, target :: x(:, :)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F32, .false., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve_one_transposed_f64(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_double), intent(in), contiguous, target :: b(:)
    real(c_double), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F64, .true., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve_several_transposed_f64(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_double), intent(in), contiguous, target :: b(:, :)
    real(c_double), intent(inout), contiguous, target :: x(:, :)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F64, .true., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve_one_transposed_f32(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_float), intent(in), contiguous, target :: b(:)
    real(c_float), intent(inout), contiguous, target :: x(:)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F32, .true., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve_several_transposed_f32(solver, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    real(c_float), intent(in), contiguous, target :: b(:, :)
    real(c_float), intent(inout), contiguous, target :: x(:, :)
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    call solve(solver, TERRACE_F32, .true., size(b, kind=c_int64_t), size(x, kind=c_int64_t), c_loc(b), c_loc(x), status, guess)
  end subroutine

  subroutine solve(solver, vector_type, transposed, b_size, x_size, b, x, status, guess)
    type(terrace_solver), intent(in) :: solver
    integer(c_int32_t), intent(in) :: vector_type
    logical, intent(in) :: transposed
    integer(c_int64_t), intent(in) :: b_size, x_size
    type(c_ptr), intent(in) :: b, x
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t), intent(in), optional :: guess
    integer(c_int64_t) :: rows, count
    integer(c_int32_t) :: start, outcome
    start = TERRACE_ZERO_GUESS
    if (present(guess)) start = guess
    rows = 0
    outcome = c_solver_get_rows(solver%handle, rows)
    count = 1
    if (rows > 0) count = max(b_size / rows, count)
    if (outcome /= TERRACE_SUCCESS) then
      continue
    else if (b_size /= count * rows) then
      outcome = misfit(solver, 'b', b_size, count * rows)
    else if (x_size /= b_size) then
      outcome = misfit(solver, 'x', x_size, b_size)
    else if (transposed) then
      outcome = c_solver_solve_transposed(solver%handle, vector_type, count, b, x, start)
    else
      outcome = c_solver_solve(solver%handle, vector_type, count, b, x, start)
    end if
    call conclude(outcome, status)
  end subroutine

  subroutine terrace_amg_get_rows(amg, rows, status)
    type(terrace_amg), intent(in) :: amg
    integer(c_int64_t), intent(out) :: rows
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_amg_get_rows(amg%handle, rows), status)
  end subroutine

  subroutine terrace_amg_report(amg, report, status)
    type(terrace_amg), intent(in) :: amg
    type(terrace_report), intent(out) :: report
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_amg_report(amg%handle, report%handle), status)
  end subroutine

  subroutine terrace_fsai_get_rows(fsai, rows, status)
    type(terrace_fsai), intent(in) :: fsai
    integer(c_int64_t), intent(out) :: rows
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_fsai_get_rows(fsai%handle, rows), status)
  end subroutine

  subroutine terrace_fsai_report(fsai, report, status)
    type(terrace_fsai), intent(in) :: fsai
    type(terrace_report), intent(out) :: report
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_fsai_report(fsai%handle, report%handle), status)
  end subroutine

  subroutine terrace_solver_get_rows(solver, rows, status)
    type(terrace_solver), intent(in) :: solver
    integer(c_int64_t), intent(out) :: rows
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_get_rows(solver%handle, rows), status)
  end subroutine

  subroutine terrace_solver_report(solver, report, status)
    type(terrace_solver), intent(in) :: solver
    type(terrace_report), intent(out) :: report
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_solver_report(solver%handle, report%handle), status)
  end subroutine

  subroutine report_get_int_i64(report, key, value, status, index)
    type(terrace_report), intent(in) :: report
    character(*), intent(in) :: key
    integer(c_int64_t), intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: index
    call conclude(c_report_get_int(report%handle, c_text(key), index_of(index), value), status)
  end subroutine

  subroutine report_get_int_i32(report, key, value, status, index)
    type(terrace_report), intent(in) :: report
    character(*), intent(in) :: key
    integer(c_int32_t), intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: index
    integer(c_int64_t) :: wide
    integer(c_int32_t) :: outcome
    value = 0
    wide = 0
    outcome = c_report_get_int(report%handle, c_text(key), index_of(index), wide)
    if (abs(wide) <= huge(value)) then
      value = int(wide, c_int32_t)
      call conclude(outcome, status)
    else
      call conclude(TERRACE_ERROR_SIZE_MISMATCH, status, key // ' does not fit into 32 bits; pass an integer(int64)')
    end if
  end subroutine

  subroutine terrace_report_get_real(report, key, value, status, index)
    type(terrace_report), intent(in) :: report
    character(*), intent(in) :: key
    real(c_double), intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: index
    call conclude(c_report_get_real(report%handle, c_text(key), index_of(index), value), status)
  end subroutine

  subroutine terrace_report_get_str(report, key, value, status, index)
    type(terrace_report), intent(in) :: report
    character(*), intent(in) :: key
    character(:), allocatable, intent(out) :: value
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: index
    character(1) :: nothing
    integer(c_size_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 1
    outcome = c_report_get_str(report%handle, c_text(key), index_of(index), nothing, 0_c_size_t, needed)
    allocate(character(needed) :: value)
    if (outcome == TERRACE_SUCCESS) then
      outcome = c_report_get_str(report%handle, c_text(key), index_of(index), value, needed, needed)
    end if
    value = without_nul(outcome, value)
    call conclude(outcome, status)
  end subroutine

  ! history(1) belongs to the first guess, history(i + 1) to iteration i.
  subroutine terrace_report_get_history(report, history, status, index)
    type(terrace_report), intent(in) :: report
    real(c_double), allocatable, intent(out) :: history(:)
    integer(c_int32_t), intent(out), optional :: status
    integer, intent(in), optional :: index
    real(c_double) :: nothing(1)
    integer(c_int64_t) :: needed
    integer(c_int32_t) :: outcome
    needed = 0
    outcome = c_report_get_history(report%handle, index_of(index), nothing, 0_c_int64_t, needed)
    if (outcome /= TERRACE_SUCCESS) needed = 0
    allocate(history(needed))
    if (outcome == TERRACE_SUCCESS) outcome = c_report_get_history(report%handle, index_of(index), history, needed, needed)
    call conclude(outcome, status)
  end subroutine

  ! The end of every call: hands the outcome to the caller, or ends the program when it was not asked for and is not success.
  subroutine conclude(outcome, status, sentence)
    integer(c_int32_t), intent(in) :: outcome
    integer(c_int32_t), intent(out), optional :: status
    character(*), intent(in), optional :: sentence
    if (present(status)) then
      status = outcome
    else if (outcome /= TERRACE_SUCCESS) then
      if (present(sentence)) then
        write (error_unit, '(3a)') terrace_status_name(outcome), ': ', sentence
      else
        write (error_unit, '(3a)') terrace_status_name(outcome), ': ', terrace_last_error()
      end if
      flush (error_unit)
      error stop 1
    end if
  end subroutine

  ! Success where all arrays are contiguous. Where one is not: a positive number when copies of them will do, an error when they
  ! are to be borrowed.
  function sections(context, borrow, row_offsets, columns, values) result(outcome)
    type(terrace_context), intent(in) :: context
    logical, intent(in), optional :: borrow
    logical, intent(in) :: row_offsets, columns, values
    integer(c_int32_t) :: outcome
    character(:), allocatable :: name
    outcome = TERRACE_SUCCESS
    if (row_offsets .and. columns .and. values) return
    outcome = 1
    if (.not. is_true(borrow)) return
    name = 'values'
    if (.not. columns) name = 'columns'
    if (.not. row_offsets) name = 'row_offsets'
    call terrace_context_set_error(context, TERRACE_ERROR_INVALID_ARGUMENT, name // ' is a section that is not contiguous, ' // &
      'which cannot be borrowed; accepted: a contiguous array, or a matrix that copies its arrays', outcome)
  end function

  pure logical function is_true(flag)
    logical, intent(in), optional :: flag
    is_true = .false.
    if (present(flag)) is_true = flag
  end function

  ! A text that C wrote; empty when it did not.
  pure function without_nul(outcome, text) result(cut)
    integer(c_int32_t), intent(in) :: outcome
    character(*), intent(in) :: text
    character(:), allocatable :: cut
    cut = ''
    if (outcome == TERRACE_SUCCESS) cut = text(:len(text) - 1)
  end function

  pure function c_text(text) result(terminated)
    character(*), intent(in) :: text
    character(:), allocatable :: terminated
    terminated = trim(text) // c_null_char
  end function

  pure function base_of(base) result(number)
    integer, intent(in), optional :: base
    integer(c_int32_t) :: number
    number = 1
    if (present(base)) number = base
  end function

  pure function index_of(index) result(number)
    integer, intent(in), optional :: index
    integer(c_int64_t) :: number
    number = 0
    if (present(index)) number = index
  end function

  pure function cols_of(rows, cols) result(number)
    integer(c_int64_t), intent(in) :: rows
    integer, intent(in), optional :: cols
    integer(c_int64_t) :: number
    number = rows
    if (present(cols)) number = cols
  end function

  pure function flags_of(borrow, sorted) result(flags)
    logical, intent(in), optional :: borrow, sorted
    integer(c_int32_t) :: flags
    flags = TERRACE_COPY
    if (is_true(borrow)) flags = ior(flags, TERRACE_BORROW)
    if (is_true(sorted)) flags = ior(flags, TERRACE_SORTED)
  end function

  pure function or_null(pointer) result(passed)
    type(c_ptr), intent(in), optional :: pointer
    type(c_ptr) :: passed
    passed = c_null_ptr
    if (present(pointer)) passed = pointer
  end function

  ! `status` is `error` afterwards, as it is for the calls of the library. Without `status` the program goes on.
  subroutine terrace_context_set_error(context, error, message, status)
    type(terrace_context), intent(in) :: context
    integer(c_int32_t), intent(in) :: error
    character(*), intent(in) :: message
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_context_set_error(context%handle, error, c_text(message))
    if (present(status) .or. outcome /= error) call conclude(outcome, status)
  end subroutine

  ! Makes a sentence about a size that does not fit the last error.
  function context_misfit(context, argument, given, needed) result(status)
    type(terrace_context), intent(in) :: context
    character(*), intent(in) :: argument
    integer(c_int64_t), intent(in) :: given, needed
    integer(c_int32_t) :: status
    character(128) :: numbers
    write (numbers, '(a,i0,a,i0,a)') ' has ', given, ' elements; ', needed, ' are needed'
    call terrace_context_set_error(context, TERRACE_ERROR_SIZE_MISMATCH, argument // numbers, status)
  end function

  ! `status` is `error` afterwards, as it is for the calls of the library. Without `status` the program goes on.
  subroutine terrace_amg_set_error(amg, error, message, status)
    type(terrace_amg), intent(in) :: amg
    integer(c_int32_t), intent(in) :: error
    character(*), intent(in) :: message
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_amg_set_error(amg%handle, error, c_text(message))
    if (present(status) .or. outcome /= error) call conclude(outcome, status)
  end subroutine

  ! Makes a sentence about a size that does not fit the last error.
  function amg_misfit(amg, argument, given, needed) result(status)
    type(terrace_amg), intent(in) :: amg
    character(*), intent(in) :: argument
    integer(c_int64_t), intent(in) :: given, needed
    integer(c_int32_t) :: status
    character(128) :: numbers
    write (numbers, '(a,i0,a,i0,a)') ' has ', given, ' elements; ', needed, ' are needed'
    call terrace_amg_set_error(amg, TERRACE_ERROR_SIZE_MISMATCH, argument // numbers, status)
  end function

  ! `status` is `error` afterwards, as it is for the calls of the library. Without `status` the program goes on.
  subroutine terrace_fsai_set_error(fsai, error, message, status)
    type(terrace_fsai), intent(in) :: fsai
    integer(c_int32_t), intent(in) :: error
    character(*), intent(in) :: message
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_fsai_set_error(fsai%handle, error, c_text(message))
    if (present(status) .or. outcome /= error) call conclude(outcome, status)
  end subroutine

  ! Makes a sentence about a size that does not fit the last error.
  function fsai_misfit(fsai, argument, given, needed) result(status)
    type(terrace_fsai), intent(in) :: fsai
    character(*), intent(in) :: argument
    integer(c_int64_t), intent(in) :: given, needed
    integer(c_int32_t) :: status
    character(128) :: numbers
    write (numbers, '(a,i0,a,i0,a)') ' has ', given, ' elements; ', needed, ' are needed'
    call terrace_fsai_set_error(fsai, TERRACE_ERROR_SIZE_MISMATCH, argument // numbers, status)
  end function

  ! `status` is `error` afterwards, as it is for the calls of the library. Without `status` the program goes on.
  subroutine terrace_solver_set_error(solver, error, message, status)
    type(terrace_solver), intent(in) :: solver
    integer(c_int32_t), intent(in) :: error
    character(*), intent(in) :: message
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_solver_set_error(solver%handle, error, c_text(message))
    if (present(status) .or. outcome /= error) call conclude(outcome, status)
  end subroutine

  ! Makes a sentence about a size that does not fit the last error.
  function solver_misfit(solver, argument, given, needed) result(status)
    type(terrace_solver), intent(in) :: solver
    character(*), intent(in) :: argument
    integer(c_int64_t), intent(in) :: given, needed
    integer(c_int32_t) :: status
    character(128) :: numbers
    write (numbers, '(a,i0,a,i0,a)') ' has ', given, ' elements; ', needed, ' are needed'
    call terrace_solver_set_error(solver, TERRACE_ERROR_SIZE_MISMATCH, argument // numbers, status)
  end function

end module
