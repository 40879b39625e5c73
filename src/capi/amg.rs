//! `terrace_amg`: a hierarchy that is set up; one apply is one preconditioner application.

use super::borrow::{device_vectors, vectors};
use super::boundary::{self, ContextState, Exclusive, Handle, call, out, required, text, text_out};
use super::types::{precision, terrace_type};
use super::{terrace_config, terrace_context, terrace_matrix, terrace_report, terrace_status};
use crate::config::Config;
use crate::error::Result;
use crate::matrix::Side;
use crate::preconditioner::{Amg, Inverse};
use crate::scalar::with_precision;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// An algebraic multigrid hierarchy that is set up for a matrix. It uses the threads and the log of its context.
pub struct terrace_amg {
    state: Arc<ContextState>,
    /// Length of a vector.
    rows: usize,
    amg: Exclusive<Amg>,
}

impl Handle for terrace_amg {
    fn state(&self) -> &ContextState {
        &self.state
    }
}

/// Builds the hierarchy of a square matrix.
///
/// - `context`: not NULL.
/// - `matrix`: not NULL; it may be destroyed afterwards, arrays that it borrowed must stay.
/// - `config`: options that are copied; NULL for all defaults. Options of the Krylov method concern only
///   `terrace_solver`.
/// - `amg`: host, written on success; destroy it with `terrace_amg_destroy`.
///
/// With a matrix of `terrace_matrix_create_csr_distributed` it is collective, and so are updates and applications: every rank calls them, with the
/// same options, and has its rows of the vectors, in the same kind of memory. What fails on one rank fails on all.
///
/// Returns when the hierarchy is built. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH` (not square),
/// `TERRACE_ERROR_MATRIX_VALUES` (a diagonal entry that is missing or zero, and values that are not finite in a product or in arrays that were changed in place), `TERRACE_ERROR_OPTION_VALUE`, `TERRACE_ERROR_UNSUPPORTED`,
/// `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a
/// time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_setup(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    config: *const terrace_config,
    amg: *mut *mut terrace_amg,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        let out = out!(amg);
        // SAFETY: null or alive, as the documentation asks.
        let config = unsafe { config_or_defaults(config) }?;
        let amg = Amg::setup(&context.state.context, matrix, &config)?;
        let amg = terrace_amg { state: Arc::clone(&context.state), rows: matrix.rows(), amg: Exclusive::new(amg) };
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(amg))) };
        Ok(())
    })
}

/// Takes over changed values of the matrix: numeric work only; strong couplings, coarse unknowns and patterns stay. With the option
/// "amg.update.coarsening" = "recheck" strong couplings and coarse unknowns are found anew on each level: where they are the same, the level
/// is updated; from the first level on where they are not, the hierarchy is set up anew. The keys "update_kept_levels" and "update_anew" of
/// a report tell what was done.
///
/// - `amg`: not NULL.
///
/// Returns when the hierarchy is updated; when it fails the hierarchy is as before. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_MATRIX_VALUES` (borrowed values that were changed in place are checked again),
/// `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a
/// time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_update(amg: *mut terrace_amg) -> terrace_status {
    call!(amg, |amg| {
        let mut state = amg.amg.enter("amg")?;
        state.update()
    })
}

/// One preconditioner application x = M b: one cycle that starts from zero. Allocates nothing, but at the first call with vectors of another
/// precision than those of the finest level; on a GPU the second call with the same vectors is captured as a graph, for which the driver
/// takes some memory of its own.
///
/// - `amg`: not NULL.
/// - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
/// - `b`: an element for every scalar row. Host, or in the memory of the context's GPU. There it is read in the order of the caller's stream,
///   see `terrace_context_set_stream`; without one, what was begun on the default stream comes first, and work on other streams must be
///   done.
/// - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
///
/// Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream. Errors:
/// `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_CALLBACK` (a communicator),
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`, and `TERRACE_ERROR_PRECISION_LOST` where a level is narrower than the matrix and x would not be finite; with a stream of
/// the caller's this is not looked at, because nothing is waited for. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_apply(
    amg: *mut terrace_amg,
    vector_type: terrace_type,
    b: *const c_void,
    x: *mut c_void,
) -> terrace_status {
    call!(amg, |amg| {
        let mut inverse = amg.amg.enter("amg")?;
        // SAFETY: arrays of `rows` elements, as the documentation asks.
        unsafe { apply(&amg.state, &mut inverse, amg.rows, vector_type, (b, x), Side::Plain) }
    })
}

/// One application of the preconditioner of the transposed matrix: x ≈ A⁻ᵀ b. Where the matrix is symmetric, up to
/// rounding, it is `terrace_amg_apply`. Otherwise a second hierarchy, with the same options, is that of Aᵀ: x is one
/// cycle of it from zero. It is not the adjoint of the cycle of this one, whose coarse levels and sweeps are others.
///
/// The first call tests whether the matrix is symmetric, and sets up the second hierarchy of the values that it has
/// then. That takes the time of `terrace_amg_setup`, and as much memory again, which the key "bytes" of a report
/// counts, with a copy of Aᵀ. The first call after `terrace_amg_update` updates it. The other calls allocate nothing,
/// as those of `terrace_amg_apply`.
///
/// - `amg`: not NULL.
/// - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
/// - `b`: an element for every scalar row. Host, or in the memory of the context's GPU, as for `terrace_amg_apply`.
/// - `x`: where `b` is, as long, not overlapping it; overwritten, its content is not read.
///
/// Returns when x is written, or, in device memory with a stream of the caller's, when that is under way on the stream;
/// a call that sets up or updates waits for that. When that fails, the next call tries again. Errors: those of
/// `terrace_amg_apply` and of `terrace_amg_setup`, the latter with "transposed matrix: " before the sentence:
/// `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_MATRIX_VALUES`,
/// `TERRACE_ERROR_UNSUPPORTED` (also over ranks, on every rank), `TERRACE_ERROR_PRECISION_LOST`,
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_apply_transposed(
    amg: *mut terrace_amg,
    vector_type: terrace_type,
    b: *const c_void,
    x: *mut c_void,
) -> terrace_status {
    call!(amg, |amg| {
        let mut inverse = amg.amg.enter("amg")?;
        // SAFETY: arrays of `rows` elements, as the documentation asks.
        unsafe { apply(&amg.state, &mut inverse, amg.rows, vector_type, (b, x), Side::Transposed) }
    })
}

/// One application to vectors of `rows` elements, of the preconditioner or of that of the transposed matrix.
///
/// # Safety
/// The arrays are as the documentation of `terrace_amg_apply` asks.
pub(super) unsafe fn apply(
    state: &ContextState,
    inverse: &mut Inverse,
    rows: usize,
    vector_type: terrace_type,
    (b, x): (*const c_void, *mut c_void),
    side: Side,
) -> Result<()> {
    if side == Side::Transposed {
        inverse.check_transposed()?;
    }
    let precision = match precision("vector_type", vector_type) {
        Ok(precision) => precision,
        Err(error) => return inverse.agree(Err(error)),
    };
    with_precision!(precision, T => {
        // SAFETY (both): by this function's contract.
        let on_device = unsafe { device_vectors::<T>(&state.context, b, x, rows) };
        let given = on_device.and_then(|on_device| match on_device {
            Some(on_device) => Ok((Some(on_device), None)),
            None => unsafe { vectors::<T>(b, x, rows) }.map(|on_host| (None, Some(on_host))),
        });
        let given = inverse.agree(given)?;
        let inverse = match side {
            Side::Plain => inverse,
            Side::Transposed => inverse.transposed()?,
        };
        match given {
            (_, Some((b, x))) => inverse.apply(b, x),
            (on_device, None) => {
                let Some((b, x)) = on_device else { unreachable!("the vectors are somewhere") };
                inverse.apply_on_device(b, x)?;
                let Some(gpu) = state.context.gpu() else { unreachable!("the vectors are on one") };
                // A caller with a stream waits for nothing here, and sees numbers that are not finite in the result.
                if !gpu.has_caller_stream() {
                    inverse.check_precision(b, x)?;
                }
                gpu.end_call()
            }
        }
    })
}

/// The number of scalar rows of the matrix that a hierarchy was set up for: the length of the vectors of `terrace_amg_apply`.
///
/// - `amg`: not NULL.
/// - `rows`: host, written on success.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_get_rows(amg: *const terrace_amg, rows: *mut i64) -> terrace_status {
    call!(amg, |amg| {
        let out = out!(rows);
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(amg.rows as i64) };
        Ok(())
    })
}

/// Bytes that `terrace_amg_setup` of this matrix with these options would hold, estimated from the set-up of a sample of at most
/// 20,000 rows, or 160,000 where rows are very long or most couplings lead out of it. With a context on a GPU, the
/// most device memory that it would take at one time beside what is held already, estimated from
/// samples of at most 1,048,576 rows, or fewer where the device has no room for these; exact for matrices that are not larger.
///
/// On a GPU the figure is not below what set-up takes, and at most 15 % above it where rows are of the same kind all over the matrix, apart from rows
/// without couplings. Where they are not, as with several meshes, or rows with very many entries, more is added the less the sample is like the
/// matrix. The limit of the context's memory does not count while samples are set up, for whether a set-up keeps to it is what the figure tells;
/// `terrace_context_get_memory` counts them in its peak. Nothing is held afterwards.
///
/// - `context`: not NULL.
/// - `matrix`: not NULL.
/// - `config`: NULL for all defaults.
/// - `bytes`: host, written.
///
/// Returns when the estimate is made. Errors: as `terrace_amg_setup`, `TERRACE_ERROR_OUT_OF_MEMORY` when there is no room even for a sample of a few
/// thousand rows. One thread at a time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_memory_estimate(
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
        let estimate = Amg::memory_estimate(&context.state.context, matrix, &config)?;
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(i64::try_from(estimate).unwrap_or(i64::MAX)) };
        Ok(())
    })
}

/// The value of an option as the last set-up used it: what was set, or what `auto` and defaults became for this matrix and device.
///
/// - `amg`: not NULL.
/// - `key`: host, NUL-terminated.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// What differs from level to level, such as thresholds, may still be "auto"; the report tells what levels have.
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNKNOWN_OPTION`.
/// One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_get_option(
    amg: *const terrace_amg,
    key: *const c_char,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    call!(amg, |amg| {
        let value = amg.amg.enter("amg")?.option(text!(key))?;
        // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
        unsafe { text_out(&value, buf, len, needed) }
    })
}

/// A snapshot of what set-up did.
///
/// - `amg`: not NULL.
/// - `report`: host, written on success; destroy it with `terrace_report_destroy`.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_report(
    amg: *const terrace_amg,
    report: *mut *mut terrace_report,
) -> terrace_status {
    call!(amg, |amg| {
        let out = out!(report);
        let report = terrace_report::new(&amg.state, amg.amg.enter("amg")?.report());
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(report))) };
        Ok(())
    })
}

/// Makes a sentence of a wrapper in another language the last error of the amg's context, so that what the wrapper checks reads like
/// what the library checks.
///
/// - `amg`: not NULL.
/// - `status`: the error, a negative number of the status table.
/// - `message`: host, which argument, which value, what would be accepted; copied.
///
/// Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
/// context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_set_error(
    amg: *mut terrace_amg,
    status: terrace_status,
    message: *const c_char,
) -> terrace_status {
    call!(amg, |_| -> Result<()> { Err(boundary::wrapper_error(status, text!(message))?) })
}

/// Destroys a hierarchy.
///
/// - `amg`: NULL is fine.
///
/// Does not fail. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_amg_destroy(amg: *mut terrace_amg) -> terrace_status {
    // SAFETY: made by `terrace_amg_setup`, and not used again as the documentation asks.
    unsafe { boundary::destroy(amg) }
}

/// A copy of the options, or all defaults.
///
/// # Safety
/// `config` is null or alive.
pub(super) unsafe fn config_or_defaults(config: *const terrace_config) -> Result<Config> {
    // SAFETY: by this function's contract.
    unsafe { config.as_ref() }.map_or(Ok(Config::new()), terrace_config::get)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::testing::*;
    use super::super::*;
    use super::*;
    use crate::error::Status;
    use std::ptr::{null, null_mut};

    #[test]
    fn a_hierarchy_is_applied_in_either_precision_and_outlives_its_makers() {
        let context = TestContext::new();
        let matrix = laplacian(&context, 4);
        let (mut amg, mut bytes) = (null_mut(), 0);
        assert_eq!(abi!(terrace_amg_memory_estimate(context.0, matrix, null(), &mut bytes)), 0);
        assert!(bytes > 0);
        assert_eq!(abi!(terrace_amg_setup(context.0, null(), null(), &mut amg)), Status::NullArgument.code());
        assert_eq!(abi!(terrace_amg_setup(context.0, matrix, null(), &mut amg)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        let mut rows = -1;
        assert_eq!((abi!(terrace_amg_get_rows(amg, &mut rows)), rows), (0, 4));
        assert_eq!(abi!(terrace_amg_get_rows(amg, null_mut())), Status::NullArgument.code());

        // Four rows are solved by the dense factorisation of the coarsest level, so one application is exact.
        let (b, mut x) = ([1.0, 0.0, 0.0, 1.0], [f64::NAN; 4]);
        assert_eq!(abi!(terrace_amg_apply(amg, TERRACE_F64, b.as_ptr().cast(), x.as_mut_ptr().cast())), 0);
        assert!(x.iter().all(|v| (v - 1.0).abs() < 1e-12), "{x:?}");
        let (b, mut x) = ([1.0_f32, 0.0, 0.0, 1.0], [f32::NAN; 4]);
        assert_eq!(abi!(terrace_amg_apply(amg, TERRACE_F32, b.as_ptr().cast(), x.as_mut_ptr().cast())), 0);
        assert!(x.iter().all(|v| (v - 1.0).abs() < 1e-5), "{x:?}");

        let wrong = abi!(terrace_amg_apply(amg, TERRACE_I64, b.as_ptr().cast(), x.as_mut_ptr().cast()));
        assert_eq!(wrong, Status::InvalidArgument.code());
        let longer = [0.0_f32; 5];
        let unaligned = longer.as_ptr().wrapping_byte_add(2).cast();
        let refused = abi!(terrace_amg_apply(amg, TERRACE_F32, unaligned, x.as_mut_ptr().cast()));
        assert_eq!(
            (refused, context.last_error().contains("b is not aligned")),
            (Status::InvalidArgument.code(), true)
        );
        drop(context);
        assert_eq!(abi!(terrace_amg_update(amg)), 0);
        let mut report = null_mut();
        assert_eq!(abi!(terrace_amg_report(amg, &mut report)), 0);
        assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
        assert!(text_of(|b, l, n| abi!(terrace_report_to_text(report, b, l, n))).contains("operator complexity"));
        assert_eq!(abi!(terrace_report_destroy(report)), 0);
    }

    #[test]
    fn an_estimate_refuses_what_set_up_refuses() {
        let context = TestContext::new();
        for (rows, cols) in [(2, 3), (3, 2), (0, 5)] {
            let (offsets, columns, values) = ([0, 1, 2, 2], [0, 1], [1.0, 1.0]);
            let (mut matrix, mut amg, mut bytes) = (null_mut(), null_mut(), -1);
            let created = abi!(terrace_matrix_create_csr(
                context.0,
                rows,
                cols,
                TERRACE_I32,
                offsets.as_ptr().cast(),
                TERRACE_I32,
                columns.as_ptr().cast(),
                TERRACE_F64,
                values.as_ptr().cast(),
                0,
                TERRACE_SORTED,
                &mut matrix
            ));
            assert_eq!(created, 0, "{}", context.last_error());
            let status = Status::SizeMismatch.code();
            assert_eq!(abi!(terrace_amg_setup(context.0, matrix, null(), &mut amg)), status);
            let sentence = context.last_error();
            assert_eq!(abi!(terrace_amg_memory_estimate(context.0, matrix, null(), &mut bytes)), status);
            assert_eq!((context.last_error(), bytes), (sentence, -1));
            assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        }
    }
}
