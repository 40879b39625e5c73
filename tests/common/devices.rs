//! The GPUs that tests run on: simulated ones, and `cuda:0` where TERRACE_TEST_CUDA is set.

use terrace::Context;

/// Device strings. Without a C++ compiler there is no simulated GPU.
pub fn devices() -> Vec<&'static str> {
    let mut all = Vec::new();
    for device in ["sim:32", "sim:64"] {
        match Context::new(device) {
            Ok(_) => all.push(device),
            Err(error) => assert!(error.message.contains("no C++ compiler"), "{error}"),
        }
    }
    if std::env::var_os("TERRACE_TEST_CUDA").is_some() {
        all.push("cuda:0");
    }
    all
}
