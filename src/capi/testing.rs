//! Helpers of the unit tests of the C ABI.

use super::*;
use crate::error::STATUSES;
use crate::gpu::{Buffer, Gpu};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::LazyLock;

#[path = "../../tests/common/documented.rs"]
mod documented;

/// Calls an exported function from a test, whose pointers are all null or alive. The comment of the function must name the status that it
/// returns.
macro_rules! abi {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: tests pass null or pointers to what they hold.
        $crate::capi::testing::told(stringify!($function), unsafe { $function($($argument),*) })
    };
}
pub(super) use abi;

/// What an exported function returns: a status, or a text.
pub(super) trait Told {
    fn status(&self) -> Option<terrace_status>;
}

impl Told for terrace_status {
    fn status(&self) -> Option<terrace_status> {
        Some(*self)
    }
}

impl Told for *const c_char {
    fn status(&self) -> Option<terrace_status> {
        None
    }
}

/// Checks that the header names a status.
pub(super) fn told<T: Told>(function: &str, told: T) -> T {
    static DOCUMENTED: LazyLock<BTreeMap<String, BTreeSet<i32>>> = LazyLock::new(|| {
        // Part of the program: it also runs where the sources are not.
        let header = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/include/terrace.h"));
        let statuses: Vec<_> = STATUSES.iter().map(|row| (row.name, row.code)).collect();
        documented::documented(header, &statuses)
    });
    if let Some(status) = told.status()
        && !DOCUMENTED[function].contains(&status)
        && !std::thread::panicking()
    {
        panic!("{function} returned {status}, which its comment in the header does not name");
    }
    told
}

/// A context with one thread, destroyed with the test.
pub(super) struct TestContext(pub *mut terrace_context);

impl TestContext {
    pub fn new() -> TestContext {
        TestContext::on(c"host:1")
    }

    pub fn on(device: &CStr) -> TestContext {
        let mut context = null_mut();
        assert_eq!(abi!(terrace_context_create(device.as_ptr(), &mut context)), 0);
        TestContext(context)
    }

    pub fn last_error(&self) -> String {
        last_error(self.0)
    }

    /// The GPU of a context that is on one.
    pub fn gpu(&self) -> Gpu {
        // SAFETY: the context is alive.
        unsafe { &*self.0 }.state.context.gpu().unwrap().clone()
    }
}

/// Device memory as C passes it.
pub(super) fn pointer<T>(buffer: &Buffer<T>) -> *mut c_void {
    buffer.address() as *mut c_void
}

impl Drop for TestContext {
    fn drop(&mut self) {
        abi!(terrace_context_destroy(self.0));
    }
}

/// The sentence of a context, or of this thread for null.
pub(super) fn last_error(context: *const terrace_context) -> String {
    text_of(|buf, len, needed| abi!(terrace_last_error(context, buf, len, needed)))
}

/// Reads a text in the way a C program does: ask for the need, then for the text.
pub(super) fn text_of(get: impl Fn(*mut c_char, usize, *mut usize) -> terrace_status) -> String {
    let mut needed = 0;
    assert_eq!(get(null_mut(), 0, &mut needed), 0);
    let mut buf = vec![0_u8; needed];
    assert_eq!(get(buf.as_mut_ptr().cast(), needed, null_mut()), 0);
    assert_eq!(buf.pop(), Some(0));
    String::from_utf8(buf).unwrap()
}

/// A square CSR matrix of `i32` and `f64` arrays, or the status of the refusal.
pub(super) fn csr(
    context: &TestContext,
    offsets: &[i32],
    columns: &[i32],
    values: &[f64],
    base: i32,
    flags: terrace_matrix_flags,
) -> Result<*mut terrace_matrix, terrace_status> {
    let rows = offsets.len() as i64 - 1;
    let (mut matrix, ctx) = (null_mut(), context.0);
    let (offsets, columns, values) = (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
    let (i, f) = (TERRACE_I32, TERRACE_F64);
    match abi!(terrace_matrix_create_csr(ctx, rows, rows, i, offsets, i, columns, f, values, base, flags, &mut matrix))
    {
        0 => Ok(matrix),
        status => Err(status),
    }
}

/// tridiag(-1, 2, -1) with `n` rows.
pub(super) fn laplacian(context: &TestContext, n: usize) -> *mut terrace_matrix {
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in 0..n as i32 {
        for j in (i - 1).max(0)..(i + 2).min(n as i32) {
            columns.push(j);
            values.push(if i == j { 2.0 } else { -1.0 });
        }
        offsets.push(columns.len() as i32);
    }
    csr(context, &offsets, &columns, &values, 0, TERRACE_SORTED).unwrap()
}
