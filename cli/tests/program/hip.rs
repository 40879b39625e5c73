//! The code that talks to AMD's driver, run with a stand-in for that driver: `tests/stand_in/hip.cpp`, which runs the kernels on the CPU and looks
//! into the code objects that the library has. No AMD GPU is needed, and none has run this.

use crate::common::scratch;
use crate::common::skip::skipped;
use crate::common::stand_in::{driver, stand_in};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A driver that has no function but the first.
fn old_driver() -> PathBuf {
    let source = scratch("old-driver").join("old.cpp");
    std::fs::write(&source, "extern \"C\" int hipInit(unsigned) { return 0; }").expect("the program can be written");
    driver("old-driver", &source, &[])
}

fn terrace(folder: &Path, devices: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.env("LD_LIBRARY_PATH", folder).env("STAND_IN_DEVICES", devices).args(arguments);
    command.output().expect("the program starts")
}

/// Whether this build has code objects; where it has none, it must say so.
fn built() -> bool {
    let info = terrace(&scratch("no-driver"), "1", &["info"]);
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("hip")).unwrap_or_else(|| panic!("nothing on hip: {text}"));
    let built = !line.contains("not built: there was no clang for AMD GPUs");
    assert!(!built || line.contains("gfx942"), "{line}");
    let clang = Command::new("clang++-19").arg("--version").output().is_ok_and(|o| o.status.success());
    let asked = std::env::var_os("TERRACE_HIP_CLANG").is_some();
    assert!(
        built || asked || !clang,
        "clang++-19 is there, and the build has no kernels for AMD GPUs: is lld-19 missing?"
    );
    assert!(!built || std::env::var_os("LD_LIBRARY_PATH").is_some() || line.contains("no HIP driver"), "{line}");
    if !built {
        skipped("HIP with a stand-in for the driver", line.trim());
    }
    built
}

#[test]
fn solves_are_those_of_the_simulation() {
    if !built() {
        return;
    }
    let folder = stand_in();
    for problem in ["poisson5:24", "elasticity:4"] {
        let solve = |device: &str| {
            let output = terrace(folder, "2", &["solve", "--device", device, "--problem", problem]);
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{device}: {complaint}");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().find(|line| line.contains("right-hand side 0")).unwrap_or_default();
            assert!(line.contains(" converged"), "{device}: {text}");
            line.to_string()
        };
        let expected = solve("sim");
        assert_eq!(solve("hip"), expected);
        assert_eq!(solve("hip:1"), expected);
    }
}

#[test]
fn what_is_missing_is_a_status_with_its_reason() {
    if !built() {
        return;
    }
    let (none, old, folder) = (scratch("no-driver"), old_driver(), stand_in());
    for (folder, devices, device, reason) in [
        (none.as_path(), "1", "hip:0", "no HIP driver: libamdhip64.so could not be loaded"),
        (old.as_path(), "1", "hip:0", "the HIP driver is too old: it has no hipGetDeviceCount"),
        (folder, "0", "hip:0", "HIP, start: no ROCm-capable device is detected (hipErrorNoDevice)"),
        (folder, "1", "hip:1", "there is no HIP device 1; this machine has 1"),
    ] {
        let output = terrace(folder, devices, &["solve", "--device", device, "--problem", "poisson5:8"]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{reason}");
        assert!(complaint.contains(reason) && !complaint.contains("panicked"), "{complaint} should contain {reason}");
    }
    let info = String::from_utf8_lossy(&terrace(folder, "2", &["info"]).stdout).into_owned();
    assert!(info.contains("stand-in 0, stand-in 1") && info.contains("hip:1"), "{info}");
}

#[test]
fn a_capture_that_fails_is_an_error_and_does_not_stay_under_way() {
    if !built() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.env("LD_LIBRARY_PATH", stand_in()).env("STAND_IN_DEVICES", "1").env("STAND_IN_CAPTURE_FAILS", "1");
    let output = command.args(["solve", "--device", "hip", "--problem", "poisson5:24"]).output().expect("it starts");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && complaint.contains("hipErrorOutOfMemory"), "{complaint}");
    assert!(!complaint.contains("under way") && !complaint.contains("panicked"), "{complaint}");
}
