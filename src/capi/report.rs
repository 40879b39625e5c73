//! `terrace_report`: a snapshot of what set-up and solve did, read by key.

use super::borrow::slice_mut;
use super::boundary::{self, ContextState, Handle, Out, call, out, text, text_out, written_out};
use super::terrace_status;
use crate::error::{Result, excerpt, fail};
use crate::report::{FACTS, Fact, Report, Scope};
use std::ffi::c_char;
use std::sync::Arc;

/// A snapshot of what a set-up and the last solve did; it does not change when the solver goes on. Its keys are listed at the
/// top of this file.
pub struct terrace_report {
    state: Arc<ContextState>,
    report: Report,
}

impl terrace_report {
    pub(super) fn new(state: &Arc<ContextState>, report: Report) -> terrace_report {
        terrace_report { state: Arc::clone(state), report }
    }

    /// A fact, or a sentence that says which argument has none.
    fn fact(&self, key: &str, index: i64) -> Result<Fact> {
        let Some(row) = FACTS.iter().find(|row| row.key == key) else {
            let keys: Vec<&str> = FACTS.iter().map(|row| row.key).collect();
            return fail!(InvalidArgument, "key is \"{}\"; accepted: {}", excerpt(key), keys.join(", "));
        };
        let counted = match row.scope {
            Scope::Whole => return Ok(self.report.fact(key, 0).expect("a fact of the whole is always there")),
            Scope::Level => "levels",
            Scope::RightHandSide => "right-hand sides",
        };
        match usize::try_from(index).ok().and_then(|index| self.report.fact(key, index)) {
            Some(fact) => Ok(fact),
            None => {
                let count = self.report.count(row.scope);
                fail!(InvalidArgument, "index is {index}; \"{key}\" counts {counted}, of which there are {count}")
            }
        }
    }
}

impl Handle for terrace_report {
    fn state(&self) -> &ContextState {
        &self.state
    }
}

/// A whole number of a report.
///
/// - `report`: not NULL.
/// - `key`: host, NUL-terminated, like "levels", "iterations", "rows"; the top of this file lists them.
/// - `index`: the level (0 the finest) for keys of levels, the right-hand side for keys of those; not used for the others.
/// - `value`: host, written on success.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (unknown key, index out of range, or a key of another type;
/// the sentence says which and what is accepted). One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_report_get_int(
    report: *const terrace_report,
    key: *const c_char,
    index: i64,
    value: *mut i64,
) -> terrace_status {
    call!(report, |report| {
        let (key, out) = (text!(key), out!(value));
        let number = match report.fact(key, index)? {
            Fact::Int(number) => number,
            Fact::Real(_) => {
                return fail!(InvalidArgument, "\"{key}\" is a real number: terrace_report_get_real reads it");
            }
            Fact::Text(_) => return fail!(InvalidArgument, "\"{key}\" is a text: terrace_report_get_str reads it"),
        };
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(number) };
        Ok(())
    })
}

/// A number of a report, whole or real. Times are in seconds.
///
/// - `report`: not NULL.
/// - `key`, `index`: as in `terrace_report_get_int`.
/// - `value`: host, written on success.
///
/// Errors and threads: as `terrace_report_get_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_report_get_real(
    report: *const terrace_report,
    key: *const c_char,
    index: i64,
    value: *mut f64,
) -> terrace_status {
    call!(report, |report| {
        let (key, out) = (text!(key), out!(value));
        let number = match report.fact(key, index)? {
            Fact::Int(number) => number as f64,
            Fact::Real(number) => number,
            Fact::Text(_) => return fail!(InvalidArgument, "\"{key}\" is a text: terrace_report_get_str reads it"),
        };
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(number) };
        Ok(())
    })
}

/// A text of a report.
///
/// - `report`: not NULL.
/// - `key`, `index`: as in `terrace_report_get_int`.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors and threads: as `terrace_report_get_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_report_get_str(
    report: *const terrace_report,
    key: *const c_char,
    index: i64,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    call!(report, |report| {
        let key = text!(key);
        match report.fact(key, index)? {
            // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
            Fact::Text(text) => unsafe { text_out(&text, buf, len, needed) },
            _ => fail!(InvalidArgument, "\"{key}\" is a number: terrace_report_get_real reads it"),
        }
    })
}

/// The residual norms of one right-hand side of the last solve, relative to the norm of the right-hand side: one before the first
/// iteration and one after each.
///
/// - `report`: not NULL.
/// - `index`: the right-hand side.
/// - `history`: host, room for `len` numbers; NULL is accepted when `len` is 0. A short array gets the beginning.
/// - `needed`: host, gets the number of norms; may be NULL.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_report_get_history(
    report: *const terrace_report,
    index: i64,
    history: *mut f64,
    len: i64,
    needed: *mut i64,
) -> terrace_status {
    call!(report, |report| {
        let solves = &report.report.solves;
        let Some(solve) = usize::try_from(index).ok().and_then(|index| solves.get(index)) else {
            let count = solves.len();
            return fail!(InvalidArgument, "index is {index}; it counts right-hand sides, of which there are {count}");
        };
        let Ok(len) = usize::try_from(len) else {
            return fail!(InvalidArgument, "len is {len}; accepted: 0 or more");
        };
        let written = len.min(solve.history.len());
        if history.is_null() && len > 0 {
            return fail!(NullArgument, "history is null though len is {len}; null is accepted with len 0");
        }
        // SAFETY: room for `len` numbers, as the documentation asks.
        unsafe { slice_mut::<f64>(history.cast(), written, "history") }?.copy_from_slice(&solve.history[..written]);
        // SAFETY: null or valid for a write, as the documentation asks.
        unsafe { Out::optional(needed).set(solve.history.len() as i64) };
        Ok(())
    })
}

/// A summary for people: table of levels, complexities, iterations, times, memory.
///
/// - `report`: not NULL.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_report_to_text(
    report: *const terrace_report,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
    call!(report, |report| unsafe { written_out(|out| report.report.write_text(out), buf, len, needed) })
}

/// Everything in the report as one JSON object.
///
/// - `report`: not NULL.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_report_to_json(
    report: *const terrace_report,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
    call!(report, |report| unsafe { written_out(|out| report.report.write_json(out), buf, len, needed) })
}

/// Destroys a report.
///
/// - `report`: NULL is fine.
///
/// Does not fail. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_report_destroy(report: *mut terrace_report) -> terrace_status {
    // SAFETY: made by `terrace_amg_report` or `terrace_solver_report`, and not used again as the documentation asks.
    unsafe { boundary::destroy(report) }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::error::Status;
    use crate::report::SolveReport;
    use std::ptr::{null, null_mut};

    fn example(context: &TestContext) -> *mut terrace_report {
        let history = vec![1.0, 0.5, 0.25];
        let solve =
            SolveReport { iterations: 2, converged: true, true_residual: 0.25, history, ..SolveReport::default() };
        let report = Report { solves: vec![solve], solver: "cg f64".to_string(), ..Report::default() };
        // SAFETY: the context is alive.
        let state = unsafe { &(*context.0).state };
        Box::into_raw(Box::new(terrace_report::new(state, report)))
    }

    #[test]
    fn facts_are_read_by_type_key_and_index() {
        let context = TestContext::new();
        let report = example(&context);
        let (mut int, mut real) = (-1, -1.0);

        assert_eq!(abi!(terrace_report_get_int(report, c"iterations".as_ptr(), 0, &mut int)), 0);
        assert_eq!(int, 2);
        assert_eq!(abi!(terrace_report_get_int(report, c"levels".as_ptr(), 99, &mut int)), 0);
        assert_eq!(int, 0);
        assert_eq!(abi!(terrace_report_get_real(report, c"true_residual".as_ptr(), 0, &mut real)), 0);
        assert_eq!(real, 0.25);
        assert_eq!(abi!(terrace_report_get_real(report, c"iterations".as_ptr(), 0, &mut real)), 0);
        assert_eq!(real, 2.0);
        let solver = c"solver".as_ptr();
        assert_eq!(text_of(|b, l, n| abi!(terrace_report_get_str(report, solver, 0, b, l, n))), "cg f64");
        assert!(text_of(|b, l, n| abi!(terrace_report_to_json(report, b, l, n))).contains("\"iterations\":2"));
        assert!(text_of(|b, l, n| abi!(terrace_report_to_text(report, b, l, n))).contains("2 iterations"));
        assert_eq!(abi!(terrace_report_destroy(report)), 0);
    }

    #[test]
    fn wrong_keys_indices_and_types_are_explained() {
        let context = TestContext::new();
        let report = example(&context);
        let mut int = -1;
        let mut refused = |key: &std::ffi::CStr, index, text: &str| {
            let code = abi!(terrace_report_get_int(report, key.as_ptr(), index, &mut int));
            assert_eq!(code, Status::InvalidArgument.code());
            assert!(context.last_error().contains(text), "{}", context.last_error());
        };
        refused(c"iteration", 0, "accepted: levels, operator_complexity");
        refused(c"iterations", 1, "index is 1; \"iterations\" counts right-hand sides, of which there are 1");
        refused(c"iterations", -1, "index is -1");
        refused(c"rows", 0, "counts levels, of which there are 0");
        refused(c"true_residual", 0, "terrace_report_get_real");
        refused(c"solver", 0, "terrace_report_get_str");
        let number = abi!(terrace_report_get_str(report, c"levels".as_ptr(), 0, null_mut(), 0, null_mut()));
        assert_eq!(number, Status::InvalidArgument.code());
        assert_eq!(int, -1);
        assert_eq!(abi!(terrace_report_destroy(report)), 0);
    }

    #[test]
    fn a_history_is_cut_to_the_array() {
        let context = TestContext::new();
        let report = example(&context);
        let mut history = [-1.0; 4];
        let mut needed = 0;
        assert_eq!(abi!(terrace_report_get_history(report, 0, null_mut(), 0, &mut needed)), 0);
        assert_eq!(needed, 3);
        assert_eq!(abi!(terrace_report_get_history(report, 0, history.as_mut_ptr(), 2, null_mut())), 0);
        assert_eq!(history, [1.0, 0.5, -1.0, -1.0]);
        assert_eq!(abi!(terrace_report_get_history(report, 0, history.as_mut_ptr(), 4, null_mut())), 0);
        assert_eq!(history, [1.0, 0.5, 0.25, -1.0]);
        let get = |index, p, len| abi!(terrace_report_get_history(report, index, p, len, null_mut()));
        assert_eq!(get(1, null_mut(), 0), Status::InvalidArgument.code());
        assert_eq!(get(0, null_mut(), 1), Status::NullArgument.code());
        assert_eq!(get(0, history.as_mut_ptr(), -1), Status::InvalidArgument.code());
        assert_eq!(abi!(terrace_report_get_history(null(), 0, null_mut(), 0, null_mut())), Status::NullArgument.code());
        assert_eq!(abi!(terrace_report_destroy(report)), 0);
    }
}
