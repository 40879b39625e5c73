//! `terrace_fsai`: a factorised sparse approximate inverse that is set up; one apply is one preconditioner application.

use super::amg::{apply, config_or_defaults};
use super::boundary::{self, ContextState, Exclusive, Handle, call, out, required, text, text_out};
use super::types::terrace_type;
use super::{terrace_config, terrace_context, terrace_matrix, terrace_report, terrace_status};
use crate::error::Result;
use crate::matrix::Side;
use crate::preconditioner::Fsai;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// A factorised sparse approximate inverse (FSAI) that is set up for a matrix A: M = Gᵀ G with a sparse lower triangular G for which G A Gᵀ is
/// close to the identity, or, where A is not symmetric, M = Hᵀ G with G A Hᵀ close to it. It uses the threads and the log of its context.
pub struct terrace_fsai {
    state: Arc<ContextState>,
    /// Length of a vector.
    rows: usize,
    fsai: Exclusive<Fsai>,
}

impl Handle for terrace_fsai {
    fn state(&self) -> &ContextState {
        &self.state
    }
}

/// Computes the factor G of a symmetric positive definite matrix, or the factors G and H of one that is not symmetric, by the options that
/// begin with "fsai.". They are stored in the format of the option "precision.smoother" and applied to vectors of "precision.vector"; with
/// 16 bits they are scaled by the diagonal of the matrix.
///
/// Where the matrix is not positive definite on the pattern of a row, or has no pivots there if it is not symmetric, a row of a static pattern
/// has its diagonal entry alone, and an adaptive one keeps the entries that it had; the key "fsai_breakdowns" of a report counts these rows.
///
/// - `context`: not NULL.
/// - `matrix`: not NULL; it may be destroyed afterwards, arrays that it borrowed must stay.
/// - `config`: options that are copied; NULL for all defaults. Options of AMG and of the Krylov method have no meaning here.
/// - `fsai`: host, written on success; destroy it with `terrace_fsai_destroy`.
///
/// With a matrix of `terrace_matrix_create_csr_distributed` it is collective, as `terrace_amg_setup`.
///
/// Returns when the factor is computed. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH` (not
/// square), `TERRACE_ERROR_MATRIX_VALUES` (a diagonal entry that is missing or zero, or negative in a symmetric matrix, and values that are not finite, as for `terrace_amg_setup`),
/// `TERRACE_ERROR_OPTION_VALUE` (over ranks: options that differ), `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_PRECISION_LOST`,
/// `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; the matrix
/// may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_setup(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    config: *const terrace_config,
    fsai: *mut *mut terrace_fsai,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        let out = out!(fsai);
        // SAFETY: null or alive, as the documentation asks.
        let config = unsafe { config_or_defaults(config) }?;
        let fsai = Fsai::setup(&context.state.context, matrix, &config)?;
        let fsai = terrace_fsai { state: Arc::clone(&context.state), rows: matrix.rows(), fsai: Exclusive::new(fsai) };
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(fsai))) };
        Ok(())
    })
}

/// Takes over changed values of the matrix: the factor is computed again on the same pattern, also where that was adaptive.
///
/// - `fsai`: not NULL.
///
/// Returns when the factor is computed; when it fails everything is as before. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_MATRIX_VALUES` (borrowed values that were changed in place are checked again), `TERRACE_ERROR_PRECISION_LOST`,
/// `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_update(fsai: *mut terrace_fsai) -> terrace_status {
    call!(fsai, |fsai| {
        let mut state = fsai.fsai.enter("fsai")?;
        state.update()
    })
}

/// One preconditioner application x = M b. Allocates nothing, but at the first call with vectors of another precision than its own; on a GPU
/// the second call with the same vectors is captured as a graph, for which the driver takes some memory of its own.
///
/// - `fsai`: not NULL.
/// - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
/// - `b`: an element for every scalar row. Host, or in the memory of the context's GPU. There it is read in the order of the caller's stream,
///   see `terrace_context_set_stream`; without one, what was begun on the default stream comes first, and work on other streams must be
///   done.
/// - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
///
/// Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream. Errors:
/// `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_CALLBACK` (a communicator),
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`, and `TERRACE_ERROR_PRECISION_LOST` where the factor or its vectors are narrower than the matrix and x would not be
/// finite; with a stream of the caller's this is not looked at, because nothing is waited for. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_apply(
    fsai: *mut terrace_fsai,
    vector_type: terrace_type,
    b: *const c_void,
    x: *mut c_void,
) -> terrace_status {
    call!(fsai, |fsai| {
        let mut inverse = fsai.fsai.enter("fsai")?;
        // SAFETY: arrays of `rows` elements, as the documentation asks.
        unsafe { apply(&fsai.state, &mut inverse, fsai.rows, vector_type, (b, x), Side::Plain) }
    })
}

/// One application of the transpose: x = Mᵀ b. Where the matrix is symmetric, up to rounding, it is
/// `terrace_fsai_apply`. Otherwise M = Hᵀ G, and x = Gᵀ H b.
///
/// The first call tests whether the matrix is symmetric; where it is not, it computes both factors on their pattern
/// again, of the values that the matrix has then, and stores the transposes. That takes the time of
/// `terrace_fsai_update`, and as much memory as the factors, which the key "bytes" of a report counts. The first call
/// after `terrace_fsai_update` does the same. The other calls allocate nothing, as those of `terrace_fsai_apply`.
///
/// - `fsai`: not NULL.
/// - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
/// - `b`: an element for every scalar row. Host, or in the memory of the context's GPU, as for `terrace_fsai_apply`.
/// - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
///
/// Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream;
/// a call that computes factors waits for that. When that fails, the next call tries again. Errors: those of
/// `terrace_fsai_apply` and of `terrace_fsai_update`, the latter with "transposed matrix: " before the sentence:
/// `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_MATRIX_VALUES`,
/// `TERRACE_ERROR_UNSUPPORTED` (also over ranks, on every rank), `TERRACE_ERROR_PRECISION_LOST`,
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_apply_transposed(
    fsai: *mut terrace_fsai,
    vector_type: terrace_type,
    b: *const c_void,
    x: *mut c_void,
) -> terrace_status {
    call!(fsai, |fsai| {
        let mut inverse = fsai.fsai.enter("fsai")?;
        // SAFETY: arrays of `rows` elements, as the documentation asks.
        unsafe { apply(&fsai.state, &mut inverse, fsai.rows, vector_type, (b, x), Side::Transposed) }
    })
}

/// The number of scalar rows of the matrix that it was set up for: the length of the vectors of `terrace_fsai_apply`.
///
/// - `fsai`: not NULL.
/// - `rows`: host, written on success.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_get_rows(fsai: *const terrace_fsai, rows: *mut i64) -> terrace_status {
    call!(fsai, |fsai| {
        let out = out!(rows);
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(fsai.rows as i64) };
        Ok(())
    })
}

/// Bytes that `terrace_fsai_setup` of this matrix with these options would hold, estimated from the set-up of a sample of at most
/// 20,000 rows, or 160,000 where rows are very long or most couplings lead out of it. With a context on a GPU, the
/// most device memory that it would take at one time beside what is held already, estimated from
/// samples of at most 1,048,576 rows, or fewer where the device has no room for these; exact for matrices that are not larger. The limit of
/// the context's memory does not count while samples are set up. Nothing is held afterwards.
///
/// - `context`: not NULL.
/// - `matrix`: not NULL.
/// - `config`: NULL for all defaults.
/// - `bytes`: host, written.
///
/// Returns when the estimate is made. Errors: as `terrace_fsai_setup`, `TERRACE_ERROR_OUT_OF_MEMORY` when there is no room even for a sample of a few
/// thousand rows. One thread at a time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_memory_estimate(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    config: *const terrace_config,
    bytes: *mut i64,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        let out = out!(bytes);
        // SAFETY: null or alive, as the documentation asks.
        let config = unsafe { config_or_defaults(config) }?;
        let estimate = Fsai::memory_estimate(&context.state.context, matrix, &config)?;
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(i64::try_from(estimate).unwrap_or(i64::MAX)) };
        Ok(())
    })
}

/// The value of an option as the last set-up used it: what was set, or what `auto` and defaults became for this matrix and device.
///
/// - `fsai`: not NULL.
/// - `key`: host, NUL-terminated.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNKNOWN_OPTION`.
/// One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_get_option(
    fsai: *const terrace_fsai,
    key: *const c_char,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    call!(fsai, |fsai| {
        let value = fsai.fsai.enter("fsai")?.option(text!(key))?;
        // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
        unsafe { text_out(&value, buf, len, needed) }
    })
}

/// A snapshot of what set-up did: the keys "fsai_nonzeros", "fsai_precision" and "fsai_breakdowns" tell about the factors.
///
/// - `fsai`: not NULL.
/// - `report`: host, written on success; destroy it with `terrace_report_destroy`.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_report(
    fsai: *const terrace_fsai,
    report: *mut *mut terrace_report,
) -> terrace_status {
    call!(fsai, |fsai| {
        let out = out!(report);
        let report = terrace_report::new(&fsai.state, fsai.fsai.enter("fsai")?.report());
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(report))) };
        Ok(())
    })
}

/// Makes a sentence of a wrapper in another language the last error of the context of an FSAI, so that what the wrapper checks reads like
/// what the library checks.
///
/// - `fsai`: not NULL.
/// - `status`: the error, a negative number of the status table.
/// - `message`: host, which argument, which value, what would be accepted; copied.
///
/// Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
/// context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_set_error(
    fsai: *mut terrace_fsai,
    status: terrace_status,
    message: *const c_char,
) -> terrace_status {
    call!(fsai, |_| -> Result<()> { Err(boundary::wrapper_error(status, text!(message))?) })
}

/// Destroys an FSAI.
///
/// - `fsai`: NULL is fine.
///
/// Does not fail. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_fsai_destroy(fsai: *mut terrace_fsai) -> terrace_status {
    // SAFETY: made by `terrace_fsai_setup`, and not used again as the documentation asks.
    unsafe { boundary::destroy(fsai) }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::testing::*;
    use super::super::*;
    use super::*;
    use crate::error::Status;
    use std::ptr::{null, null_mut};

    #[test]
    fn a_factor_is_applied_in_either_precision_updated_and_outlives_its_makers() {
        let context = TestContext::new();
        let matrix = laplacian(&context, 4);
        let (mut fsai, mut bytes) = (null_mut(), 0);
        assert_eq!(abi!(terrace_fsai_memory_estimate(context.0, matrix, null(), &mut bytes)), 0);
        assert!(bytes > 0);
        assert_eq!(abi!(terrace_fsai_setup(context.0, null(), null(), &mut fsai)), Status::NullArgument.code());
        assert_eq!(abi!(terrace_fsai_setup(context.0, matrix, null(), &mut fsai)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        let mut rows = -1;
        assert_eq!((abi!(terrace_fsai_get_rows(fsai, &mut rows)), rows), (0, 4));

        // Four rows grow to the whole triangle, so one application is exact.
        let (b, mut x) = ([1.0, 0.0, 0.0, 1.0], [f64::NAN; 4]);
        assert_eq!(abi!(terrace_fsai_apply(fsai, TERRACE_F64, b.as_ptr().cast(), x.as_mut_ptr().cast())), 0);
        assert!(x.iter().all(|v| (v - 1.0).abs() < 1e-12), "{x:?}");
        let (b, mut x) = ([1.0_f32, 0.0, 0.0, 1.0], [f32::NAN; 4]);
        assert_eq!(abi!(terrace_fsai_apply(fsai, TERRACE_F32, b.as_ptr().cast(), x.as_mut_ptr().cast())), 0);
        assert!(x.iter().all(|v| (v - 1.0).abs() < 1e-5), "{x:?}");
        let wrong = abi!(terrace_fsai_apply(fsai, TERRACE_I64, b.as_ptr().cast(), x.as_mut_ptr().cast()));
        assert_eq!(wrong, Status::InvalidArgument.code());
        assert_eq!(abi!(terrace_fsai_set_error(fsai, -3, c"a sentence".as_ptr())), -3);
        assert_eq!(context.last_error(), "a sentence");
        drop(context);
        assert_eq!(abi!(terrace_fsai_update(fsai)), 0);
        let (mut report, mut nonzeros, mut breakdowns) = (null_mut(), 0, -1);
        assert_eq!(abi!(terrace_fsai_report(fsai, &mut report)), 0);
        assert_eq!(abi!(terrace_fsai_destroy(fsai)), 0);
        assert_eq!(abi!(terrace_report_get_int(report, c"fsai_nonzeros".as_ptr(), 0, &mut nonzeros)), 0);
        assert_eq!(abi!(terrace_report_get_int(report, c"fsai_breakdowns".as_ptr(), 0, &mut breakdowns)), 0);
        assert_eq!((nonzeros, breakdowns), (10, 0));
        assert!(text_of(|b, l, n| abi!(terrace_report_to_text(report, b, l, n))).contains("10 entries in the factor"));
        assert_eq!(abi!(terrace_report_destroy(report)), 0);
    }
}
