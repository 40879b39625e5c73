//! The list of the library's unit tests, which `tests/unit.rs` runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A unit test.
pub struct UnitTest {
    /// The module it stands in.
    pub module: &'static str,
    /// The name of its function.
    pub name: &'static str,
    /// What it does: it panics when it fails.
    pub function: fn(),
}

inventory::collect!(UnitTest);

/// All unit tests.
pub fn all() -> impl Iterator<Item = &'static UnitTest> {
    inventory::iter::<UnitTest>.into_iter()
}

/// Passes where `action` panics with a message that contains `expected`.
pub(crate) fn assert_panics(expected: &str, action: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(action)).expect_err("it must panic");
    let message = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    assert!(message.is_some_and(|message| message.contains(expected)), "{message:?}");
}
