//! Applications of the transpose of AMG and FSAI, on the host and on GPUs.

use crate::common::devices::{devices, rotating_devices};
use std::ops::DerefMut;
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::preconditioner::Inverse;
use terrace::sparse::{Csr, Grid};
use terrace::{Amg, Config, Context, Fsai, Matrix, gallery};

type Options<'a> = &'a [(&'a str, &'a str)];

/// Components that are the same whatever the matrix looks like.
const CLASSICAL: Options<'_> =
    &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi"), ("amg.coarsest.max_rows", "10")];

fn all_devices() -> Vec<&'static str> {
    std::iter::once("host:2").chain(devices()).collect()
}

fn config(options: Options<'_>) -> Config {
    let mut config = Config::new();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    config
}

fn csr(name: &str) -> Csr<f64> {
    gallery::parse(name).unwrap().matrix
}

/// Nonsymmetric, of 100 rows.
fn convection() -> Csr<f64> {
    csr("convection_diffusion:10")
}

fn matrix(a: &Csr<f64>) -> Arc<Matrix> {
    Arc::new(Matrix::from_csr(a.clone()).unwrap())
}

/// Other values in the same pattern, not symmetric.
fn changed(a: &Csr<f64>) -> Csr<f64> {
    let mut a = a.clone();
    a.values.iter_mut().enumerate().for_each(|(k, v)| *v *= 1.0 + 0.1 * (k % 3) as f64);
    a
}

/// By sorting triplets.
fn transpose(a: &Csr<f64>) -> Csr<f64> {
    let row = |i: usize| a.view().row(i).map(move |(j, v)| (j, i, v[0])).collect::<Vec<_>>();
    let entries: Vec<_> = (0..a.rows).flat_map(row).collect();
    Csr::from_triplets(a.cols, a.rows, &entries).unwrap()
}

fn vector(n: usize, shift: f64) -> Vec<f64> {
    (0..n).map(|i| (0.7 * i as f64 + shift).sin()).collect()
}

fn plain(inverse: &mut impl DerefMut<Target = Inverse>, b: &[f64]) -> Vec<f64> {
    let mut x = vec![f64::NAN; b.len()];
    inverse.apply(b, &mut x).unwrap();
    x
}

fn transposed(inverse: &mut impl DerefMut<Target = Inverse>, b: &[f64]) -> Vec<f64> {
    let mut x = vec![f64::NAN; b.len()];
    inverse.apply_transposed(b, &mut x).unwrap();
    x
}

/// |y·M b - b·Mᵀ y| relative to the norms.
fn defect(fsai: &mut Fsai, n: usize) -> f64 {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let (b, y) = (vector(n, 0.0), vector(n, 2.0));
    let (x, z) = (plain(fsai, &b), transposed(fsai, &y));
    (dot(&y, &x) - dot(&b, &z)).abs() / (dot(&x, &x) * dot(&y, &y)).sqrt()
}

#[test]
fn factors_of_a_nonsymmetric_matrix_are_applied_as_their_transpose() {
    let cases: [(Options<'_>, f64); 4] = [
        (&[], 1e-14),
        (&[("fsai.pattern", "static")], 1e-14),
        (&[("precision", "single")], 1e-6),
        // Values are rounded, the same in both; vectors in f32.
        (&[("precision.smoother", "f16"), ("precision.vector", "f32")], 1e-5),
    ];
    for (case, (options, tolerance)) in cases.into_iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(case)) {
            let mut a = convection();
            let (n, matrix) = (a.rows, matrix(&a));
            let mut fsai = Fsai::setup(&Context::new(device).unwrap(), &matrix, &config(options)).unwrap();
            let bytes = fsai.report().bytes;
            let found = defect(&mut fsai, n);
            assert!(found < tolerance, "{device} {options:?}: {found:.1e}");
            let both = fsai.report().bytes;
            assert!(both > bytes + bytes / 2 && both < 3 * bytes, "{device} {options:?}: {bytes}, then {both}");
            // New values on the pattern of the first ones.
            for _ in 0..2 {
                let before = transposed(&mut fsai, &vector(n, 0.0));
                a = changed(&a);
                matrix.update_values(Values::from(a.values.clone())).unwrap();
                assert_eq!(transposed(&mut fsai, &vector(n, 0.0)), before, "{device}: before the update");
                fsai.update().unwrap();
                let found = defect(&mut fsai, n);
                assert!(found < tolerance, "{device} {options:?}: {found:.1e} after an update");
                assert_ne!(transposed(&mut fsai, &vector(n, 0.0)), before, "{device}: after the update");
            }
        }
    }
}

#[test]
fn a_hierarchy_of_a_nonsymmetric_matrix_is_applied_as_that_of_the_transpose() {
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        let mut a = convection();
        let (n, b) = (a.rows, vector(a.rows, 0.0));
        let (matrix, other) = (matrix(&a), self::matrix(&transpose(&a)));
        let mut amg = Amg::setup(&context, &matrix, &config(CLASSICAL)).unwrap();
        let mut expected = Amg::setup(&context, &other, &config(CLASSICAL)).unwrap();
        let (forward, bytes) = (plain(&mut amg, &b), amg.report().bytes);
        assert_eq!(transposed(&mut amg, &b), plain(&mut expected, &b), "{device}");
        assert_ne!(transposed(&mut amg, &b), forward, "{device}");
        assert_eq!(plain(&mut amg, &b), forward, "{device}: the hierarchy itself is as it was");
        let (both, second) = (amg.report().bytes, expected.report().bytes);
        assert!(both >= bytes + second && both < bytes + 3 * second, "{device}: {bytes}, {second} and {both}");
        let mut held = Vec::new();
        for _ in 0..2 {
            a = changed(&a);
            matrix.update_values(Values::from(a.values.clone())).unwrap();
            other.update_values(Values::from(transpose(&a).values)).unwrap();
            amg.update().unwrap();
            expected.update().unwrap();
            assert_eq!(transposed(&mut amg, &b), plain(&mut expected, &b), "{device}: after an update");
            held.push(amg.report().bytes);
        }
        // The first update keeps symbolic data.
        assert!(held[0] == held[1] && held[0] < 2 * both, "{device}: {both}, then {held:?}");

        // As a preconditioner.
        let a = convection();
        let mut amg = Amg::setup(&context, &self::matrix(&a), &config(CLASSICAL)).unwrap();
        let (at, mut x) = (transpose(&a), vec![0.0; n]);
        let residual = |x: &[f64]| -> Vec<f64> {
            (0..n).map(|i| b[i] - at.view().row(i).map(|(j, v)| v[0] * x[j]).sum::<f64>()).collect()
        };
        for _ in 0..20 {
            let correction = transposed(&mut amg, &residual(&x));
            x.iter_mut().zip(correction).for_each(|(x, c)| *x += c);
        }
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        assert!(norm(&residual(&x)) < 1e-3 * norm(&b), "{device}: {:.1e}", norm(&residual(&x)) / norm(&b));
    }
}

#[test]
fn symmetric_matrices_need_nothing_more() {
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        // The squares of small values are zero in f64.
        for scale in [1.0, 1e-200] {
            let mut a = csr("poisson5:10");
            a.values.iter_mut().for_each(|v| *v *= scale);
            let (matrix, b) = (matrix(&a), vector(a.rows, 0.0));
            let mut amg = Amg::setup(&context, &matrix, &config(CLASSICAL)).unwrap();
            let mut fsai = Fsai::setup(&context, &matrix, &config(&[])).unwrap();
            let bytes = (amg.report().bytes, fsai.report().bytes);
            assert_eq!(transposed(&mut amg, &b), plain(&mut amg, &b), "{device} {scale}");
            assert_eq!(transposed(&mut fsai, &b), plain(&mut fsai, &b), "{device} {scale}");
            assert_eq!((amg.report().bytes, fsai.report().bytes), bytes, "{device} {scale}");
        }
    }
}

/// Symmetric, then not, and back.
#[test]
fn symmetry_is_that_of_the_values_of_an_update() {
    let symmetric = csr("poisson5:10");
    let (n, b) = (symmetric.rows, vector(symmetric.rows, 0.0));
    for device in all_devices() {
        let matrix = matrix(&symmetric);
        let mut fsai = Fsai::setup(&Context::new(device).unwrap(), &matrix, &config(&[])).unwrap();
        for is_symmetric in [true, false, true, false] {
            let values = if is_symmetric { symmetric.values.clone() } else { changed(&symmetric).values };
            matrix.update_values(Values::from(values)).unwrap();
            fsai.update().unwrap();
            assert!(defect(&mut fsai, n) < 1e-14, "{device}");
            assert_eq!(transposed(&mut fsai, &b) == plain(&mut fsai, &b), is_symmetric, "{device}");
        }
    }
}

/// A structured grid, blocks, and vectors of f32.
#[test]
fn grids_blocks_and_narrow_vectors_have_transposes() {
    let blocks = matrix(&changed(&csr("elasticity:2")));
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    for (name, matrix) in [("structured", matrix(&convection())), ("unstructured", blocks)] {
        for device in all_devices() {
            let context = Context::new(device).unwrap();
            let transpose = Arc::new(matrix.transpose(&context).unwrap());
            if name == "structured" {
                matrix.set_grid(Grid::new([10, 10, 1])).unwrap();
                transpose.set_grid(Grid::new([10, 10, 1])).unwrap();
            }
            let options = [("amg.type", name), ("amg.coarsest.max_rows", "10"), ("solver.type", "gmres")];
            let mut amg = Amg::setup(&context, &matrix, &config(&options)).unwrap();
            let mut expected = Amg::setup(&context, &transpose, &config(&options)).unwrap();
            assert!(amg.report().levels.len() > 1, "{name}");
            let b = vector(matrix.rows(), 0.0);
            let wide = transposed(&mut amg, &b);
            assert_eq!(wide, plain(&mut expected, &b), "{name} on {device}");
            let (b, mut x) = (b.iter().map(|b| *b as f32).collect::<Vec<_>>(), vec![f32::NAN; b.len()]);
            amg.apply_transposed(&b, &mut x).unwrap();
            let difference: Vec<f64> = x.iter().zip(&wide).map(|(x, y)| f64::from(*x) - y).collect();
            assert!(norm(&difference) < 1e-5 * norm(&wide), "{name} on {device}");
        }
    }
}
