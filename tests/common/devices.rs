//! The GPUs that tests run on: simulated ones, and `cuda:0` where TERRACE_TEST_CUDA is set.

use super::skip::skipped;

/// Device strings.
pub fn devices() -> Vec<&'static str> {
    let mut all = if terrace_kernels::SIM { vec!["sim:32", "sim:64"] } else { Vec::new() };
    if std::env::var_os("TERRACE_TEST_CUDA").is_some() {
        all.push("cuda:0");
    } else {
        skipped("tests on cuda:0", "TERRACE_TEST_CUDA is not set");
    }
    all
}

/// One simulated device after the other, for the cases of a test that has many, and real ones always.
pub fn rotating_devices(case: usize) -> Vec<&'static str> {
    let left_out = if case.is_multiple_of(2) { "sim:64" } else { "sim:32" };
    devices().into_iter().filter(|device| *device != left_out).collect()
}
