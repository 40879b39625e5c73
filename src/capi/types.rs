//! The number types of the C ABI and their constants. Enumerations cross the boundary as plain integers and are checked here, so that
//! no value from C is ever undefined behaviour. The status constants are not here: the header takes them from the table in
//! `error.rs`.

use crate::config::LevelPart;
use crate::context::LogLevel;
use crate::error::{Result, fail};
use crate::scalar::Precision;
use crate::solver::Guess;
use std::ffi::{c_char, c_void};

/// Result of every function: 0 (`TERRACE_SUCCESS`) is success, positive a condition that a caller may accept, negative an error. The
/// sentence that names the argument and what would be accepted is in `terrace_last_error`.
pub type terrace_status = i32;

/// Number format of an array: `TERRACE_F64`, `TERRACE_F32` for values, `TERRACE_I32`, `TERRACE_I64` for indices; for
/// `terrace_config_set_level` also `TERRACE_F16`, `TERRACE_BF16`, `TERRACE_INPUT` and `TERRACE_AUTO`.
pub type terrace_type = i32;

/// IEEE 754 binary64, `double`.
pub const TERRACE_F64: terrace_type = 0;
/// IEEE 754 binary32, `float`.
pub const TERRACE_F32: terrace_type = 1;
/// IEEE 754 binary16, for parts of levels. No array of a caller has it: there it gives `TERRACE_ERROR_UNSUPPORTED`.
pub const TERRACE_F16: terrace_type = 2;
/// bfloat16, for parts of levels. No array of a caller has it: there it gives `TERRACE_ERROR_UNSUPPORTED`.
pub const TERRACE_BF16: terrace_type = 3;
/// `int32_t`.
pub const TERRACE_I32: terrace_type = 16;
/// `int64_t`.
pub const TERRACE_I64: terrace_type = 17;
/// Precision of a level: chosen by set-up.
pub const TERRACE_AUTO: terrace_type = -1;
/// Precision of a level: that of the matrix that is handed over.
pub const TERRACE_INPUT: terrace_type = -2;

/// Part of a level whose precision can be chosen: one of the `TERRACE_LEVEL_` constants.
pub type terrace_level_part = i32;

/// The level's matrix.
pub const TERRACE_LEVEL_MATRIX: terrace_level_part = 0;
/// The working vectors of the cycle.
pub const TERRACE_LEVEL_VECTOR: terrace_level_part = 1;
/// The smoother's data.
pub const TERRACE_LEVEL_SMOOTHER: terrace_level_part = 2;
/// Interpolation to and restriction from this level and the next coarser one.
pub const TERRACE_LEVEL_TRANSFER: terrace_level_part = 3;

/// As the level of `terrace_config_set_level`: all levels below the last one named.
pub const TERRACE_LAST: i32 = -1;

/// How much a context reports to its log callback; each level includes the ones before it.
pub type terrace_log_level = i32;

/// Nothing.
pub const TERRACE_LOG_OFF: terrace_log_level = 0;
/// What a caller should look at, though the call succeeds.
pub const TERRACE_LOG_WARNING: terrace_log_level = 1;
/// One line for each phase.
pub const TERRACE_LOG_INFO: terrace_log_level = 2;
/// One line for each level and iteration.
pub const TERRACE_LOG_DEBUG: terrace_log_level = 3;

/// How a matrix takes its arrays: bits of `TERRACE_COPY`, `TERRACE_BORROW` and `TERRACE_SORTED`, joined with `|`.
pub type terrace_matrix_flags = u32;

/// The arrays are copied; they may be changed or freed when the call returns.
pub const TERRACE_COPY: terrace_matrix_flags = 0;
/// The arrays are used where they are. They must stay allocated until the matrix and everything set up with it are destroyed. Values
/// may be changed between calls (see `terrace_matrix_update_values`), offsets and columns not.
pub const TERRACE_BORROW: terrace_matrix_flags = 1;
/// Promise that the columns ascend in each row; it is checked.
pub const TERRACE_SORTED: terrace_matrix_flags = 2;

/// Order of the values of a stencil: `TERRACE_BY_OFFSET` or `TERRACE_BY_CELL`.
pub type terrace_stencil_layout = i32;

/// One array over all cells for each offset and each entry of its blocks, row by row.
pub const TERRACE_BY_OFFSET: terrace_stencil_layout = 0;
/// All values of a cell together, offset by offset, each block row by row.
pub const TERRACE_BY_CELL: terrace_stencil_layout = 1;

/// Where a solve starts.
pub type terrace_guess = i32;

/// From zero; the content of x is not read.
pub const TERRACE_ZERO_GUESS: terrace_guess = 0;
/// From the content of x.
pub const TERRACE_GIVEN_GUESS: terrace_guess = 1;

/// Receives log lines, one call for each, without a line end. `message` is valid during the call only. Called on the thread that called
/// the library. It must return normally: no `longjmp`, no C++ exception, no call that uses the same object.
pub type terrace_log_callback =
    Option<unsafe extern "C" fn(level: terrace_log_level, message: *const c_char, user: *mut c_void)>;

/// y = A x (operator) or y = M x (preconditioner) of the caller. x and y have n elements in the precision of the solver (option
/// `solver.precision`); y is overwritten and not initialised. They are on the host, and with a context on a GPU in its memory: what the
/// callback launches on the stream of `terrace_context_set_stream` is in order; where the context has no stream of the caller's, x is
/// complete when the callback begins, and what it launches on the default stream comes before what follows, so that it need not wait. A
/// result other than 0 ends the solve with `TERRACE_ERROR_CALLBACK`. Called on the thread that called `terrace_solver_solve`. It must return
/// normally: no `longjmp`, no C++ exception, no call that uses the same solver.
pub type terrace_apply_callback =
    Option<unsafe extern "C" fn(n: i64, x: *const c_void, y: *mut c_void, user: *mut c_void) -> i32>;

/// Told the norm of the residual over that of b after each iteration, and before the first one as iteration 0, for the right-hand side of
/// this index. A result other than 0 ends the solve of this right-hand side with `TERRACE_STOPPED`. Called on the thread that called
/// `terrace_solver_solve`. It must return normally: no `longjmp`, no C++ exception, no call that uses the same solver.
pub type terrace_monitor_callback =
    Option<unsafe extern "C" fn(right_hand_side: i64, iteration: i64, residual: f64, user: *mut c_void) -> i32>;

/// Width of an index array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Index {
    I32,
    I64,
}

impl Index {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Index::I32 => size_of::<i32>(),
            Index::I64 => size_of::<i64>(),
        }
    }
}

/// The format of an array of values.
pub(super) fn precision(argument: &str, value: terrace_type) -> Result<Precision> {
    match value {
        TERRACE_F64 => Ok(Precision::F64),
        TERRACE_F32 => Ok(Precision::F32),
        TERRACE_F16 | TERRACE_BF16 => {
            fail!(Unsupported, "{argument} is {}; this version accepts TERRACE_F64 and TERRACE_F32", type_name(value))
        }
        _ => fail!(InvalidArgument, "{argument} is {}; accepted: TERRACE_F64, TERRACE_F32", type_name(value)),
    }
}

/// The precision of a level, as the options spell it.
pub(super) fn level_precision(value: terrace_type) -> Result<&'static str> {
    match value {
        TERRACE_INPUT => Ok("input"),
        TERRACE_AUTO => Ok("auto"),
        TERRACE_F64 => Ok("f64"),
        TERRACE_F32 => Ok("f32"),
        TERRACE_F16 => Ok("f16"),
        TERRACE_BF16 => Ok("bf16"),
        _ => fail!(
            InvalidArgument,
            "precision is {}; accepted: TERRACE_INPUT, TERRACE_AUTO, TERRACE_F64, TERRACE_F32, TERRACE_F16, TERRACE_BF16",
            type_name(value)
        ),
    }
}

/// The width of an index array.
pub(super) fn index(argument: &str, value: terrace_type) -> Result<Index> {
    match value {
        TERRACE_I32 => Ok(Index::I32),
        TERRACE_I64 => Ok(Index::I64),
        _ => fail!(InvalidArgument, "{argument} is {}; accepted: TERRACE_I32, TERRACE_I64", type_name(value)),
    }
}

/// The part of a level.
pub(super) fn level_part(value: terrace_level_part) -> Result<LevelPart> {
    match value {
        TERRACE_LEVEL_MATRIX => Ok(LevelPart::Matrix),
        TERRACE_LEVEL_VECTOR => Ok(LevelPart::Vector),
        TERRACE_LEVEL_SMOOTHER => Ok(LevelPart::Smoother),
        TERRACE_LEVEL_TRANSFER => Ok(LevelPart::Transfer),
        _ => fail!(
            InvalidArgument,
            "part is {value}; accepted: TERRACE_LEVEL_MATRIX, TERRACE_LEVEL_VECTOR, TERRACE_LEVEL_SMOOTHER, \
             TERRACE_LEVEL_TRANSFER"
        ),
    }
}

/// The level of a log.
pub(super) fn log_level(value: terrace_log_level) -> Result<LogLevel> {
    match value {
        TERRACE_LOG_OFF => Ok(LogLevel::Off),
        TERRACE_LOG_WARNING => Ok(LogLevel::Warning),
        TERRACE_LOG_INFO => Ok(LogLevel::Info),
        TERRACE_LOG_DEBUG => Ok(LogLevel::Debug),
        _ => fail!(
            InvalidArgument,
            "level is {value}; accepted: TERRACE_LOG_OFF, TERRACE_LOG_WARNING, TERRACE_LOG_INFO, TERRACE_LOG_DEBUG"
        ),
    }
}

/// Where a solve starts.
pub(super) fn guess(value: terrace_guess) -> Result<Guess> {
    match value {
        TERRACE_ZERO_GUESS => Ok(Guess::Zero),
        TERRACE_GIVEN_GUESS => Ok(Guess::Given),
        _ => fail!(InvalidArgument, "guess is {value}; accepted: TERRACE_ZERO_GUESS, TERRACE_GIVEN_GUESS"),
    }
}

fn type_name(value: terrace_type) -> String {
    let name = match value {
        TERRACE_F64 => "TERRACE_F64",
        TERRACE_F32 => "TERRACE_F32",
        TERRACE_F16 => "TERRACE_F16",
        TERRACE_BF16 => "TERRACE_BF16",
        TERRACE_I32 => "TERRACE_I32",
        TERRACE_I64 => "TERRACE_I64",
        TERRACE_AUTO => "TERRACE_AUTO",
        TERRACE_INPUT => "TERRACE_INPUT",
        _ => return value.to_string(),
    };
    name.to_string()
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn every_unknown_number_is_refused_with_the_accepted_names() {
        let refused = [
            precision("value_type", 99).unwrap_err(),
            level_precision(99).map(|_| ()).unwrap_err(),
            index("offset_type", TERRACE_F64).map(|_| ()).unwrap_err(),
            level_part(-7).unwrap_err(),
            log_level(4).unwrap_err(),
            guess(2).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.status, Status::InvalidArgument);
            assert!(error.message.contains("accepted: TERRACE_"), "{error}");
        }
        assert_eq!(precision("value_type", TERRACE_BF16).unwrap_err().status, Status::Unsupported);
    }
}
