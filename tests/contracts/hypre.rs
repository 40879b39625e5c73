//! Programs for hypre run with `libterrace_hypre.so` as they do without it. `compat/hypre/tests/run.sh` has the checks.

use crate::common;
use std::process::Command;

/// What the script ends with where hypre or MPI are not installed.
const NOT_INSTALLED: i32 = 77;

#[test]
fn a_program_for_hypre_is_served_by_terrace() {
    let mut script = Command::new(common::root().join("compat/hypre/tests/run.sh"));
    let output = script.arg(common::library()).arg(common::scratch("hypre")).output().expect("the script starts");

    let told = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(NOT_INSTALLED) {
        common::skip::skipped("programs for hypre with libterrace_hypre.so", told.trim());
        return;
    }
    assert!(output.status.success(), "{}\n{told}{}", output.status, String::from_utf8_lossy(&output.stderr));
}
