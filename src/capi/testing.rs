//! Helpers of the unit tests of the C ABI.

use super::*;
use std::ffi::c_char;
use std::ptr::null_mut;

/// Calls an exported function from a test, whose pointers are all null or alive.
macro_rules! abi {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: tests pass null or pointers to what they hold.
        unsafe { $function($($argument),*) }
    };
}
pub(super) use abi;

/// A context with one thread, destroyed with the test.
pub(super) struct TestContext(pub *mut terrace_context);

impl TestContext {
    pub fn new() -> TestContext {
        let mut context = null_mut();
        assert_eq!(abi!(terrace_context_create(c"host:1".as_ptr(), &mut context)), 0);
        TestContext(context)
    }

    pub fn last_error(&self) -> String {
        last_error(self.0)
    }
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
