//! Functions of unknowns that the caller names, against the interleaved numbering of `amg.functions`.

use crate::common::devices::devices;
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::report::Report;
use terrace::sparse::Csr;
use terrace::{Amg, Config, Context, Guess, Matrix, Solver, Status, gallery};

/// With the elements along an edge of a cube: simulated GPUs are slow, and one of them is enough.
fn all_devices() -> Vec<(&'static str, usize)> {
    let gpus = devices().into_iter().map(|device| (device, 4));
    std::iter::once(("host:2", 8)).chain(gpus).collect()
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    config.set_int("amg.coarsest.max_rows", 30).unwrap();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    config
}

/// Elasticity of a cube with the displacements of a node one after the other.
fn elasticity(n: usize) -> Csr<f64> {
    gallery::parse(&format!("elasticity:{n}")).unwrap().matrix.view().to_scalar().unwrap()
}

/// Where each unknown goes: a permutation that looks random.
fn permutation(n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|i| (*i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).wrapping_mul(0xbf58_476d));
    let mut to = vec![0; n];
    order.into_iter().enumerate().for_each(|(new, old)| to[old] = new);
    to
}

fn permuted(a: &Csr<f64>, to: &[usize]) -> Csr<f64> {
    let row = |i: usize| a.view().row(i).map(move |(j, v)| (to[i], to[j], v[0])).collect::<Vec<_>>();
    let entries: Vec<_> = (0..a.rows).flat_map(row).collect();
    Csr::from_triplets(a.rows, a.cols, &entries).unwrap()
}

/// Of each new unknown.
fn functions(to: &[usize]) -> Vec<i32> {
    let mut functions = vec![0; to.len()];
    to.iter().enumerate().for_each(|(old, new)| functions[*new] = (old % 3) as i32);
    functions
}

fn solved(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> Report {
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    let (b, mut x) = (vec![1.0; matrix.rows()], vec![0.0; matrix.rows()]);
    assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    solver.report()
}

fn sizes(report: &Report) -> Vec<(usize, usize)> {
    report.levels.iter().map(|level| (level.rows, level.nonzeros)).collect()
}

#[test]
fn interleaved_functions_are_those_of_the_option() {
    for (device, n) in all_devices() {
        let a = elasticity(n);
        let to: Vec<usize> = (0..a.rows).collect();
        let by_option = Arc::new(Matrix::from_csr(a.clone()).unwrap());
        let by_array = Arc::new(Matrix::from_csr(a.clone()).unwrap());
        by_array.set_functions(3, &functions(&to)).unwrap();
        let expected = solved(device, &by_option, &[("amg.coarsening.type", "pmis"), ("amg.functions", "3")]);
        for options in [&[][..], &[("amg.functions", "3")], &[("amg.coarsening.type", "pmis")]] {
            let found = solved(device, &by_array, options);
            assert_eq!(sizes(&found), sizes(&expected), "{device} {options:?}");
            assert_eq!(found.solves[0].history, expected.solves[0].history, "{device} {options:?}");
        }
        by_array.remove_functions();
        let other = solved(device, &by_array, &[("amg.coarsening.type", "pmis")]);
        assert_ne!(sizes(&other), sizes(&expected), "{device}: one function");
    }
}

#[test]
fn functions_make_the_numbering_free() {
    for (device, n) in all_devices() {
        let a = elasticity(n);
        let to = permutation(a.rows);
        let interleaved = Arc::new(Matrix::from_csr(a.clone()).unwrap());
        let mixed = Arc::new(Matrix::from_csr(permuted(&a, &to)).unwrap());
        let options = [("amg.coarsening.type", "pmis"), ("amg.functions", "3")];
        let expected = solved(device, &interleaved, &options);
        // Without the array, unknowns are taken for others.
        mixed.remove_functions();
        let blind = solved(device, &mixed, &options);
        mixed.set_functions(3, &functions(&to)).unwrap();
        let found = solved(device, &mixed, &options);
        let (found_its, expected_its) = (found.solves[0].iterations, expected.solves[0].iterations);
        assert!(found_its.abs_diff(expected_its) <= 3, "{device}: {found_its} and {expected_its} iterations");
        let blind_its = blind.solves[0].iterations;
        assert!(n < 8 || 2 * blind_its > 3 * expected_its, "{device}: {blind_its} and {expected_its} iterations");
        assert_eq!(found.levels.len(), expected.levels.len(), "{device}");
        for (found, expected) in found.levels.iter().zip(&expected.levels).filter(|_| n >= 8) {
            assert!(10 * found.rows.abs_diff(expected.rows) <= expected.rows + 50, "{device}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn updates_keep_the_functions_of_their_set_up_and_copies_have_them() {
    for (device, n) in all_devices() {
        let a = elasticity(n);
        let to = permutation(a.rows);
        let a = permuted(&a, &to);
        let context = Context::new(device).unwrap();
        let matrix = Matrix::from_csr(a.clone()).unwrap();
        matrix.set_functions(3, &functions(&to)).unwrap();
        // A copy in device memory has them, too.
        let matrix = Arc::new(if context.gpu().is_some() { matrix.to_device(&context).unwrap() } else { matrix });
        let mut amg = Amg::setup(&context, &matrix, &config(&[])).unwrap();
        let before = sizes(&amg.report());
        let (b, mut first, mut second) = (vec![1.0_f64; a.rows], vec![0.0_f64; a.rows], vec![0.0_f64; a.rows]);
        amg.apply(&b, &mut first).unwrap();
        matrix.remove_functions();
        matrix.update_values(Values::from(a.values.iter().map(|v| 2.0 * v).collect::<Vec<_>>())).unwrap();
        amg.update().unwrap();
        assert_eq!(sizes(&amg.report()), before, "{device}");
        amg.apply(&b, &mut second).unwrap();
        assert!(first.iter().zip(&second).all(|(a, b)| (a - 2.0 * b).abs() <= 1e-10 * a.abs()), "{device}");
        // Values times a power of two, in which extreme matrices are solved, are such a copy.
        matrix.set_functions(3, &functions(&to)).unwrap();
        let tiny: Vec<f64> = a.values.iter().map(|v| 2.0_f64.powi(-600) * v).collect();
        matrix.update_values(Values::from(tiny)).unwrap();
        assert_eq!(sizes(&solved(device, &matrix, &[])), before, "{device}");
        let estimate = Amg::memory_estimate(&context, &matrix, &config(&[])).unwrap();
        assert!(estimate > 0);
    }
}

#[test]
fn options_that_do_not_go_with_functions_are_refused() {
    let a = elasticity(4);
    let to: Vec<usize> = (0..a.rows).collect();
    let matrix = Arc::new(Matrix::from_csr(a).unwrap());
    matrix.set_functions(3, &functions(&to)).unwrap();
    let context = Context::new("host:2").unwrap();
    for (options, text) in [
        (
            ("amg.functions", "2"),
            "amg.functions is 2, and the functions of the unknowns that were set on the matrix are 3",
        ),
        (("amg.functions", "1"), "accepted: 0 or 3"),
        (("amg.coarsening.type", "mis2"), "accepted with them: \"pmis\" or \"hmis\""),
    ] {
        let error = Amg::setup(&context, &matrix, &config(&[options])).map(|_| ()).unwrap_err();
        assert!(error.status == Status::OptionValue && error.message.contains(text), "{error}");
        let estimate = Amg::memory_estimate(&context, &matrix, &config(&[options])).unwrap_err();
        assert_eq!(estimate, error);
    }
    // Blocks may belong to functions as well.
    let blocks = Arc::new(gallery::parse("elasticity:4").unwrap().into_matrix().unwrap());
    let to: Vec<usize> = (0..blocks.rows()).collect();
    blocks.set_functions(3, &functions(&to)).unwrap();
    let amg = Amg::setup(&context, &blocks, &config(&[])).unwrap();
    assert!(amg.report().levels.len() > 1);
}
