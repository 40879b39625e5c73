//! SciPy and PyAMG as oracles: sparse products and transposes, the matrices of hierarchies, and iterations on the same systems.
//!
//! `tools/setup.sh test` puts both packages into the folder `oracles` of the target folder. Where they cannot be had the tests say that they
//! are skipped; with `TERRACE_ORACLES=required` that is a failure.

use crate::common;
use crate::common::skip::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;
use terrace::host::{spgemm, transpose};
use terrace::io::matrix_market::write_matrix;
use terrace::sparse::Csr;

/// A Python that has SciPy and PyAMG.
fn python() -> Option<PathBuf> {
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder for tests lies in the target folder");
    let works = |python: &PathBuf| {
        let run = Command::new(python).args(["-c", "import scipy.sparse, pyamg; scipy.sparse.diags_array"]).output();
        run.is_ok_and(|output| output.status.success())
    };
    let found = [target.join("oracles/bin/python"), PathBuf::from("python3")].into_iter().find(works);
    if found.is_none() {
        let required = std::env::var_os("TERRACE_ORACLES").is_some_and(|value| value == "required");
        assert!(!required, "SciPy and PyAMG are required and not there; `tools/setup.sh test` installs them");
        skipped("SciPy and PyAMG as oracles", "no Python has them (tools/setup.sh test installs them)");
    }
    found
}

/// What the script prints.
fn ask(python: &Path, arguments: &[&str]) -> usize {
    let mut command = Command::new(python);
    command.arg(common::root().join("cli/tests/program/oracles.py")).args(arguments).env("OPENBLAS_NUM_THREADS", "1");
    let output = common::succeed(command);
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("the script prints a number")
}

fn terrace(arguments: &[&str]) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.args(arguments);
    serde_json::from_slice(&common::succeed(command).stdout).unwrap_or_default()
}

/// A folder that is empty at first.
fn fresh(name: &str) -> PathBuf {
    let folder = common::scratch("oracles").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Numbers that look random: the low bits of a linear congruential generator are dropped.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// About `share` hundredths of the entries; every third row is empty.
    fn matrix(&mut self, rows: usize, cols: usize, share: usize) -> Csr<f64> {
        let mut triplets = Vec::new();
        for i in (0..rows).filter(|i| i % 3 != 1) {
            for j in 0..cols {
                if self.below(100) < share {
                    triplets.push((i, j, self.below(2001) as f64 / 7.0 - 140.0));
                }
            }
        }
        Csr::from_triplets(rows, cols, &triplets).unwrap()
    }
}

#[test]
fn products_and_transposes_are_those_of_scipy() {
    let Some(python) = python() else { return };
    let folder = fresh("products");
    let shapes = [(1, 1, 1), (5, 3, 4), (4, 50, 3), (60, 7, 80), (200, 150, 90), (3000, 40, 30)];
    let mut random = Random(7);
    for (k, (rows, inner, cols)) in shapes.into_iter().enumerate() {
        let (a, b) = (random.matrix(rows, inner, 12), random.matrix(inner, cols, 20));
        let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
        let t = transpose::transpose(&a.view()).unwrap();
        for (letter, matrix) in [("A", &a), ("B", &b), ("C", &c), ("T", &t)] {
            write_matrix(&folder.join(format!("{letter}{k}.mtx")), &matrix.view(), "").unwrap();
        }
    }
    assert_eq!(ask(&python, &["products", folder.to_str().unwrap()]), shapes.len());
}

#[test]
fn coarse_matrices_are_the_products_that_scipy_computes() {
    let Some(python) = python() else { return };
    let cases: &[(&str, &[&str], bool)] = &[
        ("poisson7:14", &["amg.coarsening.type=pmis"], true),
        ("jumps:12", &["amg.coarsening.type=hmis", "amg.interpolation.type=classical_modified"], false),
        ("poisson5:40", &["amg.coarsening.type=pmis", "amg.interpolation.type=direct"], true),
        ("poisson7:14", &["amg.coarsening.type=pmis", "amg.coarsening.aggressive_levels=1"], false),
        ("poisson5:40", &["amg.coarsening.type=mis2"], false),
        ("poisson5:40", &["amg.coarsening.type=pairwise", "amg.interpolation.type=tentative"], false),
        ("elasticity:6", &[], false),
    ];
    for (k, (problem, options, constants)) in cases.iter().enumerate() {
        let folder = fresh(&format!("levels-{k}"));
        let folder = folder.to_str().unwrap();
        let json = terrace(&[&["solve", "--json", "-p", problem, "--dump-levels", folder], *options].concat());
        let told = if *constants { &["levels", folder, "constants"][..] } else { &["levels", folder] };
        let steps = ask(&python, told);
        assert!(steps >= 1, "{problem} {options:?} has one level");
        assert_eq!(json["levels"].as_u64().unwrap() as usize, steps + 1, "{problem} {options:?}");
    }
}

/// Iterations may be PyAMG's and three more.
#[test]
fn iterations_are_about_those_of_pyamg() {
    let Some(python) = python() else { return };
    let folder = fresh("iterations");
    let cases = [
        ("poisson5:60", "ruge_stuben", "poisson"),
        ("poisson7:16", "ruge_stuben", "poisson"),
        ("poisson7:16", "smoothed_aggregation", "elasticity"),
        ("elasticity:8", "smoothed_aggregation", "elasticity"),
        ("elasticity_tet:7", "smoothed_aggregation", "elasticity"),
    ];
    let mut failures = String::new();
    for (problem, method, preset) in cases {
        let (matrix, coordinates) = (folder.join("A.mtx"), folder.join("xyz.mtx"));
        let (matrix, coordinates) = (matrix.to_str().unwrap(), coordinates.to_str().unwrap());
        let elastic = problem.starts_with("elasticity");
        let extra: &[&str] = if elastic { &["--coordinates", coordinates] } else { &[] };
        terrace(&[&["gallery", problem, "-o", matrix], extra].concat());
        let told: &[&str] =
            if elastic { &["iterations", matrix, method, coordinates] } else { &["iterations", matrix, method] };
        let theirs = ask(&python, told);
        let json = terrace(&["solve", "--json", "-p", problem, "--preset", preset]);
        let ours = json["right_hand_side"][0]["iterations"].as_u64().unwrap() as usize;
        let line = format!("{problem}: {ours} iterations, {theirs} with {method} of PyAMG\n");
        print!("{line}");
        if ours > theirs + 3 {
            failures += &line;
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
