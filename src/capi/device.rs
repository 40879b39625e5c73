//! `terrace_context` on a GPU: its stream and its memory.

use super::boundary::{Out, call};
use super::{terrace_context, terrace_status};
use crate::error::fail;
use std::ffi::c_void;

/// Puts the work of a context on a GPU on a stream of the caller's.
///
/// - `context`: not NULL; on a GPU.
/// - `stream`: a `CUstream`, `cudaStream_t` or `hipStream_t` of the context's GPU, as the address that it is; the default stream of the
///   legacy kind is `CU_STREAM_LEGACY`, the address 1. It must live until another is set, or until the context and all objects made from it
///   are destroyed. NULL goes back to a stream of the library's own, which is how a context begins. A simulated GPU takes any address as the
///   name of a stream, and holds back what is on it until something waits for it.
///
/// From then on everything that the objects of the context do on the device is done on this stream, in the order of the calls, and after all
/// that they began before. With vectors in device memory:
///
/// - `terrace_amg_apply` comes after what was on the stream when it was called, before what the caller puts there afterwards, and returns when
///   it is on the stream: it does not wait, and allocates nothing. A cycle of the type k does wait, for inner products.
/// - `terrace_solver_solve` waits for the residual norms that it looks at; what it does to x after the last of them is on the stream when it
///   returns.
///
/// Errors of the device in work that is under way are told by a later call, at the latest by `terrace_context_synchronize`. Calls with arrays
/// on the host return when their results are there, as without a stream; so do set-up and update.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED` (the context is on the host), `TERRACE_ERROR_DEVICE` (not a stream of
/// this device). One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_set_stream(
    context: *mut terrace_context,
    stream: *mut c_void,
) -> terrace_status {
    call!(context, |context| match context.state.context.gpu() {
        // SAFETY: a stream of this device that lives long enough, as the documentation asks.
        Some(gpu) => unsafe { gpu.set_stream(stream) },
        None => fail!(Unsupported, "the context is on the host, which has no streams"),
    })
}

/// Waits until everything that the objects of a context have begun on its device is done. On the host there is nothing to wait for.
///
/// - `context`: not NULL.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_DEVICE` (of work that was under way). One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_synchronize(context: *mut terrace_context) -> terrace_status {
    call!(context, |context| context.state.context.gpu().map_or(Ok(()), crate::gpu::Gpu::synchronize))
}

/// Limits the device memory that the objects of a context hold together. What would exceed it fails with `TERRACE_ERROR_OUT_OF_MEMORY` and
/// leaves everything as it was.
///
/// - `context`: not NULL; on a GPU.
/// - `bytes`: 1 or more; 0 is no limit but the memory of the device, which is how a context begins. A limit below what is held only refuses
///   more.
///
/// Memory comes from a pool of the context's own. What is freed stays there for the next set-up, and goes back to the system when the last
/// object that holds any is destroyed.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED` (the context is on the host). One
/// thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_set_memory_limit(context: *mut terrace_context, bytes: i64) -> terrace_status {
    call!(context, |context| {
        let Some(gpu) = context.state.context.gpu() else {
            return fail!(Unsupported, "the context is on the host, whose memory is not limited here");
        };
        let Ok(limit) = usize::try_from(bytes) else {
            return fail!(InvalidArgument, "bytes is {bytes}; accepted: 1 or more, or 0 for no limit");
        };
        gpu.set_memory_limit(Some(limit).filter(|limit| *limit > 0));
        Ok(())
    })
}

/// Bytes of device memory that the objects of a context hold together; 0 on the host.
///
/// - `context`: not NULL.
/// - `used` (now), `peak` (the most at one time), `limit` (0 is none): host, written; each may be NULL.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_get_memory(
    context: *const terrace_context,
    used: *mut i64,
    peak: *mut i64,
    limit: *mut i64,
) -> terrace_status {
    call!(context, |context| {
        let usage = context.state.context.gpu().map(crate::gpu::Gpu::memory).unwrap_or_default();
        // SAFETY: null or valid for a write, as the documentation asks.
        unsafe {
            Out::optional(used).set(usage.used as i64);
            Out::optional(peak).set(usage.peak as i64);
            Out::optional(limit).set(usage.limit.unwrap_or(0) as i64);
        }
        Ok(())
    })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::testing::*;
    use super::super::*;
    use super::*;
    use crate::error::Status;
    use crate::gpu::Buffer;
    use std::ptr::null_mut;

    const ROWS: usize = 300;

    /// Memory of a simulated GPU as it is now, whatever is under way.
    fn now(vector: &Buffer<f64>) -> Vec<f64> {
        // SAFETY: device memory is host memory there, and nothing runs meanwhile.
        unsafe { std::slice::from_raw_parts(pointer(vector).cast::<f64>(), vector.len()) }.to_vec()
    }

    fn amg(context: &TestContext) -> *mut terrace_amg {
        let (matrix, mut amg) = (laplacian(context, ROWS), null_mut());
        let mut config = null_mut();
        assert_eq!(abi!(terrace_config_create(context.0, &mut config)), 0);
        assert_eq!(abi!(terrace_config_set_int(config, c"amg.coarsest.max_rows".as_ptr(), 20)), 0);
        assert_eq!(abi!(terrace_amg_setup(context.0, matrix, config, &mut amg)), 0);
        assert_eq!(abi!(terrace_config_destroy(config)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        amg
    }

    fn used(context: &TestContext) -> i64 {
        let mut used = -1;
        assert_eq!(abi!(terrace_context_get_memory(context.0, &mut used, null_mut(), null_mut())), 0);
        used
    }

    #[test]
    fn on_a_stream_of_the_caller_an_application_waits_for_nothing_and_allocates_nothing() {
        let context = TestContext::on(c"sim");
        let (gpu, amg) = (context.gpu(), amg(&context));
        let (ones, nans) = (vec![1.0_f64; ROWS], vec![f64::NAN; ROWS]);
        let (b, mut x) = (gpu.upload(&ones).unwrap(), gpu.upload(&nans).unwrap());
        let apply = || abi!(terrace_amg_apply(amg, TERRACE_F64, pointer(&b), pointer(&x)));
        assert_eq!(apply(), 0);
        let expected = now(&x);
        assert!(expected.iter().all(|v| v.is_finite()));

        let stream: *mut c_void = (&raw const context).cast_mut().cast();
        assert_eq!(abi!(terrace_context_set_stream(context.0, stream)), 0);
        let before = used(&context);
        // Launched, captured, replayed.
        for _ in 0..3 {
            gpu.write(&nans, &mut x).unwrap();
            let apply = || abi!(terrace_amg_apply(amg, TERRACE_F64, pointer(&b), pointer(&x)));
            assert_eq!(apply(), 0);
            assert!(now(&x).iter().all(|v| v.is_nan()), "the call waited for its result");
            assert_eq!(abi!(terrace_context_synchronize(context.0)), 0);
            assert_eq!(now(&x), expected);
        }
        assert_eq!(used(&context), before);

        // Back on a stream of its own, after what is under way.
        gpu.write(&nans, &mut x).unwrap();
        assert_eq!(abi!(terrace_amg_apply(amg, TERRACE_F64, pointer(&b), pointer(&x))), 0);
        assert_eq!(abi!(terrace_context_set_stream(context.0, null_mut())), 0);
        assert_eq!(now(&x), expected);
        assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
    }

    #[test]
    fn a_solve_on_a_stream_of_the_caller_is_the_same_solve() {
        let context = TestContext::on(c"sim");
        let gpu = context.gpu();
        let (matrix, mut solver) = (laplacian(&context, ROWS), null_mut());
        assert_eq!(abi!(terrace_solver_create(context.0, std::ptr::null(), &mut solver)), 0);
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0);
        let b = gpu.upload(&vec![1.0_f64; ROWS]).unwrap();
        let solve = || {
            let x = gpu.upload(&vec![f64::NAN; ROWS]).unwrap();
            let (b, to) = (pointer(&b), pointer(&x));
            assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 1, b, to, TERRACE_ZERO_GUESS)), 0);
            assert_eq!(abi!(terrace_context_synchronize(context.0)), 0);
            now(&x)
        };
        let expected = solve();
        assert_eq!(abi!(terrace_context_set_stream(context.0, (&raw const b).cast_mut().cast())), 0);
        assert_eq!(solve(), expected);
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
    }

    #[test]
    fn vectors_in_two_memories_and_vectors_that_overlap_are_refused() {
        let context = TestContext::on(c"sim:1");
        let (gpu, amg) = (context.gpu(), amg(&context));
        let (on_device, mut on_host) = (gpu.upload(&vec![1.0_f64; ROWS]).unwrap(), vec![0.0_f64; ROWS]);
        let refused = |b: *const c_void, x: *mut c_void, text: &str| {
            assert_eq!(abi!(terrace_amg_apply(amg, TERRACE_F64, b, x)), Status::InvalidArgument.code());
            assert!(context.last_error().contains(text), "{}", context.last_error());
        };
        refused(pointer(&on_device), on_host.as_mut_ptr().cast(), "b is in device memory and x is not");
        refused(on_host.as_ptr().cast(), pointer(&on_device), "x is in device memory and b is not");
        refused(pointer(&on_device), pointer(&on_device).wrapping_byte_add(8), "overlaps");
        assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
    }

    #[test]
    fn a_limit_of_memory_is_kept_and_a_refusal_leaves_nothing_behind() {
        let context = TestContext::on(c"sim");
        let matrix = laplacian(&context, ROWS);
        let mut solver = null_mut();
        assert_eq!(abi!(terrace_solver_create(context.0, std::ptr::null(), &mut solver)), 0);
        let memory = || {
            let (mut used, mut peak, mut limit) = (-1, -1, -1);
            assert_eq!(abi!(terrace_context_get_memory(context.0, &mut used, &mut peak, &mut limit)), 0);
            (used, peak, limit)
        };
        assert_eq!(memory(), (0, 0, 0));
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0);
        let (needed, peak, _) = memory();
        assert!(needed > 0 && peak >= needed);
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(memory(), (0, peak, 0));

        assert_eq!(abi!(terrace_solver_create(context.0, std::ptr::null(), &mut solver)), 0);
        for limit in [1, needed / 4, needed / 2, needed - 1] {
            assert_eq!(abi!(terrace_context_set_memory_limit(context.0, limit)), 0);
            assert_eq!(abi!(terrace_solver_setup(solver, matrix)), Status::OutOfMemory.code());
            let sentence = context.last_error();
            assert!(sentence.contains(&format!("the limit of the context is {limit} bytes")), "{sentence}");
            assert_eq!(memory(), (0, peak, limit), "what was allocated is released");
        }
        // Set-up needs more on its way than it leaves.
        assert_eq!(abi!(terrace_context_set_memory_limit(context.0, peak)), 0);
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0, "{}", context.last_error());

        // A set-up that fails leaves the one before.
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), Status::OutOfMemory.code());
        assert_eq!(memory().0, needed);
        assert_eq!(abi!(terrace_context_set_memory_limit(context.0, 0)), 0);
        let (b, mut x) = (vec![1.0_f64; ROWS], vec![0.0_f64; ROWS]);
        let (b, x): (*const c_void, *mut c_void) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
        assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS)), 0);

        let mut report = null_mut();
        assert_eq!(abi!(terrace_solver_report(solver, &mut report)), 0);
        let mut bytes = 0;
        assert_eq!(abi!(terrace_report_get_int(report, c"device_bytes".as_ptr(), 0, &mut bytes)), 0);
        assert_eq!(bytes, memory().0);
        assert_eq!(abi!(terrace_report_destroy(report)), 0);
        assert_eq!(abi!(terrace_context_set_memory_limit(context.0, -1)), Status::InvalidArgument.code());
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
    }

    #[test]
    fn the_host_has_no_streams_and_holds_no_device_memory() {
        let context = TestContext::new();
        assert_eq!(abi!(terrace_context_set_stream(context.0, null_mut())), Status::Unsupported.code());
        assert_eq!(abi!(terrace_context_set_memory_limit(context.0, 1)), Status::Unsupported.code());
        assert_eq!(abi!(terrace_context_synchronize(context.0)), 0);
        assert_eq!(used(&context), 0);
    }
}
