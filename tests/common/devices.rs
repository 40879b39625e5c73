//! The GPUs that tests run on: simulated ones, and `cuda:0` where TERRACE_TEST_CUDA is set.

use super::skip::skipped;

/// Device strings.
pub fn devices() -> Vec<&'static str> {
    let mut all = if terrace_kernels::SIM { vec!["sim"] } else { Vec::new() };
    if std::env::var_os("TERRACE_TEST_CUDA").is_some() {
        all.push("cuda:0");
    } else {
        skipped("tests on cuda:0", "TERRACE_TEST_CUDA is not set");
    }
    all
}

/// For the cases of a test that has many: the simulated device with threads in one order and in the other, and real ones always.
pub fn rotating_devices(case: usize) -> Vec<&'static str> {
    let in_order = |device| if device == "sim" { ["sim:0", "sim:1"][case % 2] } else { device };
    devices().into_iter().map(in_order).collect()
}
