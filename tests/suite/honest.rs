//! Defaults that look at the matrix, and statuses that say what x is: divergence, stagnation, what f32 can reach.

use crate::common::devices::{devices, rotating_devices};
use std::sync::Arc;
use terrace::solver::{SliceMut, SliceRef};
use terrace::sparse::Csr;
use terrace::{Config, Context, Guess, Matrix, Solver, Status, gallery, presets};

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

fn set_up(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> terrace::Result<Solver> {
    let mut solver = Solver::new(&Context::new(device)?, &config(options));
    solver.setup(Some(matrix))?;
    Ok(solver)
}

fn all_devices() -> impl Iterator<Item = &'static str> {
    std::iter::once("host:2").chain(devices())
}

/// |b - A x| / |b| for b = 1, in f64.
fn residual(matrix: &Matrix, x: &[f64]) -> f64 {
    let a = matrix.shared::<f64>().unwrap();
    let mut product = vec![0.0; matrix.rows()];
    let view = a.view();
    let (rows, cols) = (view.block.rows, view.block.cols);
    for i in 0..view.rows {
        for (j, block) in view.row(i) {
            for (e, v) in block.iter().enumerate() {
                product[i * rows + e / cols] += v * x[j * cols + e % cols];
            }
        }
    }
    let squares: f64 = product.iter().map(|p| (1.0 - p) * (1.0 - p)).sum();
    (squares / matrix.rows() as f64).sqrt()
}

#[test]
fn nonsymmetric_matrices_get_gmres() {
    let matrix = problem("convection_diffusion:20");
    for device in all_devices() {
        let mut solver = set_up(device, &matrix, &[]).unwrap();
        let mut x = vec![0.0; matrix.rows()];
        assert_eq!(solver.solve(&vec![1.0; x.len()], &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
        let report = solver.report();
        assert_eq!(report.solver, "gmres f64", "{device}");
        assert!(report.levels[0].smoother.contains("gauss_seidel"), "{}", report.levels[0].smoother);
        assert!(report.solves[0].iterations < 20 && residual(&matrix, &x) < 1e-8, "{device}");
    }
    let name = |options: &[(&str, &str)]| set_up("host:2", &matrix, options).unwrap().report().solver;
    assert_eq!(name(&[("precision", "single")]), "fgmres f64");
    assert_eq!(name(&[("amg.cycle.type", "k")]), "fgmres f64");
    assert_eq!(name(&[("solver.preconditioner", "none")]), "gmres f64");
    // What was set stays, but for a cycle that gmres cannot have.
    assert_eq!(name(&[("solver.type", "gmres"), ("precision", "single")]), "gmres f64");
    assert_eq!(name(&[("solver.type", "gmres"), ("amg.cycle.type", "k")]), "fgmres f64");
    assert_eq!(name(&[("solver.type", "cg")]), "cg f64");
    let scaled = ("amg.cycle.error_scaling", "residual");
    assert_eq!(name(&[scaled]), "fgmres f64");
    assert_eq!(name(&[("solver.type", "gmres"), scaled]), "fgmres f64");
    assert_eq!(name(&[("solver.type", "cg"), scaled]), "fcg f64");
}

#[test]
fn a_negative_definite_matrix_is_to_be_negated() {
    let mut a = gallery::parse("poisson5:20").unwrap().matrix;
    a.values.iter_mut().for_each(|v| *v = -*v);
    let matrix = Arc::new(Matrix::from_csr(a).unwrap());
    for device in all_devices() {
        let error = set_up(device, &matrix, &[]).err().unwrap();
        assert_eq!(error.status, Status::MatrixValues, "{device}");
        assert!(error.message.contains("negate"), "{error}");
        let mut solver = set_up(device, &matrix, &[("solver.type", "gmres")]).unwrap();
        let mut x = vec![0.0; matrix.rows()];
        assert_eq!(solver.solve(&vec![1.0; x.len()], &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
    }
}

/// The Laplacian of a line with Neumann conditions.
fn neumann(n: usize) -> Arc<Matrix> {
    weighted_neumann(n, |_, _| 1.0)
}

/// The same, with weights of rows and columns.
fn weighted_neumann(n: usize, weight: impl Fn(usize, usize) -> f64) -> Arc<Matrix> {
    let mut entries = Vec::new();
    for i in 0..n {
        let ends = usize::from(i == 0) + usize::from(i + 1 == n);
        let value = |j: usize, v: f64| (i, j, v * weight(i, j));
        entries.push(value(i, 2.0 - ends as f64));
        entries.extend((i > 0).then(|| value(i - 1, -1.0)));
        entries.extend((i + 1 < n).then(|| value(i + 1, -1.0)));
    }
    Arc::new(Matrix::from_csr(Csr::from_triplets(n, n, &entries).unwrap()).unwrap())
}

#[test]
fn a_solve_that_diverges_says_so_and_returns_nothing_worse_than_the_guess() {
    let matrix = problem("convection_diffusion:20");
    let n = matrix.rows();
    let b = vec![1.0; n];
    let mut good = set_up("host:2", &matrix, &[]).unwrap();
    for (k, method) in ["cg", "fcg"].into_iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(k)) {
            let options = [("solver.type", method), ("solver.divergence_tolerance", "1e4")];
            let mut solver = set_up(device, &matrix, &options).unwrap();
            let mut x = vec![0.0; n];
            let end = solver.solve(&b, &mut x, Guess::Zero);
            let what = format!("{method} on {device}: {end:?}");
            if let Err(error) = &end {
                assert!([Status::Diverged, Status::Breakdown].contains(&error.status), "{what}");
                assert!(error.message.contains("gmres"), "{what}");
            }
            assert_ne!(end, Ok(Status::Success), "{what}");
            let told = solver.report().solves[0].true_residual;
            assert!(told <= 1.0 && (residual(&matrix, &x) - told).abs() < 1e-10, "{what}: {told}");
            // From the solution there is nowhere to go but away.
            good.solve(&b, &mut x, Guess::Zero).unwrap();
            let _ = solver.solve(&b, &mut x, Guess::Given);
            assert!(residual(&matrix, &x) < 1e-7, "{what}");
        }
    }
    let mut solver = set_up(
        "host:2",
        &matrix,
        &[("solver.type", "richardson"), ("amg.smoother.type", "jacobi"), ("amg.smoother.jacobi.weight", "2")],
    )
    .unwrap();
    let mut x = vec![0.0; n];
    let error = solver.solve(&b, &mut x, Guess::Zero).unwrap_err();
    assert_eq!(error.status, Status::Diverged, "{error}");
    assert_eq!(x, vec![0.0; n]);
}

/// A Laplacian with Neumann conditions, which maps constants to zero, and b that is no difference.
#[test]
fn a_right_hand_side_that_a_singular_matrix_does_not_reach_is_explained() {
    let n = 400;
    let matrix = neumann(n);
    let b: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
    for device in all_devices() {
        let options = [("solver.type", "fgmres"), ("solver.max_iterations", "60"), ("amg.coarsest.solver", "sweeps")];
        let mut solver = set_up(device, &matrix, &options).unwrap();
        let mut x = vec![0.0; n];
        let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
        assert_ne!(status, Status::Success, "{device}");
        let sentence = solver.unsolved().unwrap().to_string();
        assert!(sentence.contains("solver.null_space"), "{device}: {sentence}");
        assert!(sentence.contains("iterations") && sentence.contains("relative residual"), "{sentence}");
        // Defaults grow along the constant vector.
        let mut solver = set_up(device, &matrix, &[]).unwrap();
        let sentence = match solver.solve(&b, &mut x, Guess::Zero) {
            Ok(_) => solver.unsolved().unwrap().to_string(),
            Err(error) => error.message,
        };
        assert!(sentence.contains("solver.null_space"), "{device}: {sentence}");
    }
}

#[test]
fn what_was_not_solved_is_named_with_its_residual() {
    let matrix = problem("poisson7:12");
    let n = matrix.rows();
    let mut solver = set_up("host:2", &matrix, &[("solver.max_iterations", "2")]).unwrap();
    assert_eq!(solver.unsolved(), None);
    let mut b = vec![0.0; 3 * n];
    b[n..2 * n].fill(1.0);
    let mut x = vec![0.0; 3 * n];
    assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::NotConverged);
    let sentence = solver.unsolved().unwrap().to_string();
    assert!(sentence.starts_with("right-hand side 1 of 3: not converged after 2 iterations"), "{sentence}");
    assert!(sentence.contains("solver.max_iterations"), "{sentence}");
    assert_eq!(solver.solve(&b[..n], &mut x[..n], Guess::Zero).unwrap(), Status::Success);
    assert_eq!(solver.unsolved(), None);
}

#[test]
fn f32_reaches_its_tolerance_and_claims_no_more() {
    for (p, name) in ["poisson5:24", "poisson7:8", "anisotropic:20", "elasticity:3"].into_iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(p)) {
            let a = gallery::parse(name).unwrap().matrix;
            let narrow = Csr::<f32> {
                rows: a.rows,
                cols: a.cols,
                block: a.block,
                offsets: a.offsets.clone(),
                columns: a.columns.clone(),
                values: a.values.iter().map(|v| *v as f32).collect(),
            };
            let matrix = Arc::new(Matrix::from_csr(narrow).unwrap());
            let (n, b) = (matrix.rows(), vec![1.0_f32; matrix.rows()]);
            let mut solver = set_up(device, &matrix, &[]).unwrap();
            let (mut x, mut rounded) = (vec![0.0; n], vec![0.0_f32; n]);
            assert_eq!(solver.solve(&vec![1.0; n], &mut x, Guess::Zero).unwrap(), Status::Success);
            assert!(residual(&matrix, &x) <= 1e-8, "{name} on {device}");
            assert_eq!(solver.solve(&b, &mut rounded, Guess::Zero).unwrap(), Status::Success);
            assert_eq!(rounded, x.iter().map(|v| *v as f32).collect::<Vec<_>>(), "{name} on {device}");

            for tolerance in ["auto", "1e-4", "1e-6", "3e-7", "1e-8"] {
                let options = [("solver.precision", "f32"), ("solver.tolerance", tolerance)];
                let mut solver = set_up(device, &matrix, &options).unwrap();
                let mut x = vec![0.0_f32; n];
                let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
                let x: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
                let (bound, found) = (tolerance.parse().unwrap_or(1e-5), residual(&matrix, &x));
                let what = format!("{name} to {tolerance} on {device}: {status:?}, {found:e}");
                assert!(status == Status::Success || tolerance != "1e-4", "{what}");
                assert!(status != Status::Success || found <= bound, "{what}");
            }
        }
    }
}

#[test]
fn a_matrix_without_a_diagonal_is_solved_without_amg() {
    // A saddle point.
    let t = [(0, 0, 2.0), (0, 2, 1.0), (1, 1, 3.0), (1, 2, 1.0), (2, 0, 1.0), (2, 1, 1.0)];
    let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(3, 3, &t).unwrap()).unwrap());
    for device in all_devices() {
        let error = set_up(device, &matrix, &[("solver.type", "gmres")]).err().unwrap();
        assert_eq!(error.status, Status::MatrixValues, "{device}");
        assert!(error.message.contains("row 2 has no diagonal entry"), "{error}");
        let mut solver =
            set_up(device, &matrix, &[("solver.type", "gmres"), ("solver.preconditioner", "none")]).unwrap();
        let mut x = [0.0; 3];
        assert_eq!(solver.solve(&[1.0; 3], &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
        assert!(residual(&matrix, &x) < 1e-8, "{device}");
    }
}

/// The factors are those of `solver.type` direct; options that name a preconditioner are respected.
#[test]
fn auto_factorises_a_saddle_point() {
    let n = 40;
    let mut t: Vec<_> = (0..n).flat_map(|i| [(i, i, 2.0), (i, (i + 1) % n, -0.5)]).collect();
    t.extend((0..n / 4).flat_map(|i| [(n + i, 4 * i, 1.0), (4 * i, n + i, 1.0)]));
    let rows = n + n / 4;
    let a = Csr::from_triplets(rows, rows, &t).unwrap();
    let first: Vec<f64> = a.values.clone();
    let matrix = Arc::new(Matrix::from_csr(a).unwrap());
    for device in all_devices() {
        let mut solver = set_up(device, &matrix, &[]).unwrap();
        assert_eq!(solver.option("solver.type").unwrap(), "direct", "{device}");
        for scale in [1.0, 3.0] {
            let values: Vec<f64> = first.iter().map(|v| v * scale).collect();
            matrix.update_values(values.into()).unwrap();
            solver.update().unwrap();
            let mut x = vec![0.0; rows];
            assert_eq!(solver.solve(&vec![1.0; rows], &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
            assert!(residual(&matrix, &x) < 1e-8, "{device}");
        }
        let context = Context::new(device).unwrap();
        let estimate = Solver::memory_estimate(&context, &matrix, &Config::new(), true).unwrap();
        assert!(context.gpu().is_some() || estimate >= solver.report().bytes, "{device}: {estimate}");
        let named = set_up(device, &matrix, &[("solver.preconditioner", "amg")]).err().unwrap();
        assert!(named.message.contains("row 40 has no diagonal entry"), "{named}");
    }
}

/// A preconditioner may be built from a matrix in any units, and a hierarchy computed in f32 from values that f32 cannot hold.
#[test]
fn other_matrices_and_set_up_in_f32_work_in_any_units() {
    let iterations = |device: &str, scale: f64, setup: &str| {
        let matrix = problem("poisson5:20");
        let mut other = gallery::parse("poisson5:20").unwrap();
        other.matrix.values.iter_mut().for_each(|v| *v *= scale);
        let other = Arc::new(other.into_matrix().unwrap());
        let mut config = Config::new();
        config.set_str("precision.setup", setup).unwrap();
        let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
        let system = if setup == "f32" { &other } else { &matrix };
        solver.set_preconditioner_matrix(Some(&other).filter(|_| setup == "f64"));
        solver.setup(Some(system)).unwrap_or_else(|error| panic!("{device} {scale:e}: {error}"));
        let mut x = vec![0.0; matrix.rows()];
        let status = solver.solve(&vec![1.0; x.len()], &mut x, Guess::Zero).unwrap();
        assert_eq!(status, Status::Success, "{device} {scale:e} {setup}");
        assert!(residual(system, &x) <= 1e-8, "{device} {scale:e} {setup}");
        solver.report().solves[0].iterations
    };
    for device in all_devices() {
        for setup in ["f64", "f32"] {
            let expected = iterations(device, 1.0, setup);
            for scale in [1e-290, 1e-60, 1e60, 1e290] {
                assert_eq!(iterations(device, scale, setup), expected, "{device} {scale:e} {setup}");
            }
        }
    }
}

#[test]
fn every_preset_solves_on_every_device() {
    for (k, preset) in presets::PRESETS.iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(k)) {
            let matrix = match preset.name {
                "convection" => problem("convection_diffusion:12"),
                "elasticity" | "mechanics" | "mechanics_robust" => problem("elasticity:3"),
                "singular" => neumann(100),
                _ => problem("poisson5:24"),
            };
            let mut config = Config::new();
            config.load_preset(preset.name).unwrap();
            let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
            solver.setup(Some(&matrix)).unwrap_or_else(|error| panic!("{} on {device}: {error}", preset.name));
            let mut x = vec![0.0; matrix.rows()];
            // What a singular matrix reaches beside the constant part, which is removed.
            let is_singular = preset.name == "singular";
            let b: Vec<f64> = (0..x.len()).map(|i| if is_singular { (i % 3) as f64 } else { 1.0 }).collect();
            let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
            assert_eq!(status, Status::Success, "{} on {device}", preset.name);
            if is_singular {
                let mean = b.iter().sum::<f64>() / b.len() as f64;
                let rest: f64 = (0..b.len())
                    .map(|i| {
                        let along = |j: usize| x[i] - x[j];
                        let product = (if i > 0 { along(i - 1) } else { 0.0 })
                            + (if i + 1 < x.len() { along(i + 1) } else { 0.0 });
                        (b[i] - mean - product).powi(2)
                    })
                    .sum();
                let size: f64 = b.iter().map(|b| (b - mean).powi(2)).sum();
                assert!(rest.sqrt() <= 1e-8 * size.sqrt(), "{} on {device}", preset.name);
                assert!(x.iter().sum::<f64>().abs() <= 1e-8 * x.iter().map(|x| x.abs()).sum::<f64>(), "{device}");
            } else {
                assert!(residual(&matrix, &x) <= 1e-8, "{} on {device}", preset.name);
            }
        }
    }
}

/// What one solve left of its right-hand side, in words, and its status.
fn sentence(solver: &mut Solver, b: &[f64]) -> (Status, String) {
    let mut x = vec![0.0; b.len()];
    match solver.solve(b, &mut x, Guess::Zero) {
        Ok(status) => (status, solver.unsolved().map_or(String::new(), |unsolved| unsolved.to_string())),
        Err(error) => (error.status, error.message),
    }
}

type Callbacks = fn(&mut Solver, &Arc<Matrix>);

/// A set-up by name, with its options.
type Setup = (&'static str, Callbacks, &'static [(&'static str, &'static str)]);

/// y = A x by the matrix itself.
fn operator(solver: &mut Solver, matrix: &Arc<Matrix>) {
    let a = matrix.shared::<f64>().unwrap();
    let apply = move |x: SliceRef<'_>, y: SliceMut<'_>| match (x, y) {
        (SliceRef::F64(x), SliceMut::F64(y)) => {
            for (i, y) in y.iter_mut().enumerate() {
                *y = a.view().row(i).map(|(j, v)| v[0] * x[j]).sum();
            }
            0
        }
        _ => 1,
    };
    solver.set_operator(matrix.rows(), Box::new(apply));
}

fn preconditioner(solver: &mut Solver, _: &Arc<Matrix>) {
    let apply = |r: SliceRef<'_>, z: SliceMut<'_>| match (r, z) {
        (SliceRef::F64(r), SliceMut::F64(z)) => {
            z.copy_from_slice(r);
            0
        }
        _ => 1,
    };
    solver.set_preconditioner(Box::new(apply));
}

fn other_matrix(solver: &mut Solver, matrix: &Arc<Matrix>) {
    solver.set_preconditioner_matrix(Some(matrix));
}

/// A set-up takes what its hints name, and no hint names what the set-up has or has tried.
#[test]
fn hints_name_nothing_that_is_refused_or_was_tried() {
    const ENDS: &[(&[(&str, &str)], Status)] = &[
        (&[("solver.max_iterations", "1")], Status::NotConverged),
        (&[("solver.stagnation_window", "1"), ("solver.preconditioner", "none")], Status::Stagnated),
        (
            &[
                ("solver.stagnation_window", "1"),
                ("amg.smoother.jacobi.weight", "0.02"),
                ("amg.smoother.type", "jacobi"),
                ("amg.max_levels", "1"),
                ("amg.coarsest.solver", "sweeps"),
                ("amg.coarsest.sweeps", "1"),
            ],
            Status::Stagnated,
        ),
        (&[("solver.divergence_tolerance", "1"), ("solver.preconditioner", "none")], Status::Diverged),
    ];
    let none: Callbacks = |_, _| {};
    let setups: &[Setup] = &[
        ("plain", none, &[]),
        ("operator", operator, &[]),
        ("preconditioner", preconditioner, &[]),
        ("matrix of the preconditioner", other_matrix, &[]),
        ("null space", none, &[("solver.null_space", "constant")]),
        ("norm", none, &[("solver.norm", "preconditioned")]),
        ("initial residual", none, &[("solver.relative_to", "initial_residual")]),
        ("difficult", none, &[("preset", "difficult")]),
    ];
    let (mut seen, mut named) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for method in ["auto", "cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson"] {
        for (what, callbacks, own) in setups {
            for (end, wanted) in ENDS {
                let options: Vec<_> = own.iter().chain(*end).chain(&[("solver.type", method)]).copied().collect();
                let make = |more: &[(&str, &str)]| {
                    let mut made = Config::new();
                    for (key, value) in options.iter().chain(more) {
                        if *key == "preset" {
                            made.load_preset(value).unwrap()
                        } else {
                            made.set_str(key, value).unwrap()
                        }
                    }
                    let matrix = match *what {
                        "null space" => neumann(200),
                        _ => problem("jumps:10"),
                    };
                    let mut solver = Solver::new(&Context::new("host:1").unwrap(), &made);
                    callbacks(&mut solver, &matrix);
                    solver.setup(Some(&matrix)).map(|()| (solver, matrix))
                };
                let Ok((mut solver, matrix)) = make(&[]) else { continue };
                let b: Vec<f64> = (0..matrix.rows()).map(|i| 1.0 + (i % 5) as f64).collect();
                let (status, said) = sentence(&mut solver, &b);
                if status != *wanted {
                    continue;
                }
                let what = format!("{what}, {options:?}: {status:?}, {said}");
                seen.insert((status.row().name, method));
                assert!(!said.contains("max_iterations") || status == Status::NotConverged, "{what}");
                for preset in ["difficult", "convection"].into_iter().filter(|preset| said.contains(preset)) {
                    assert!(preset == "difficult" || !["cg", "fcg", "auto"].contains(&method), "{what}");
                    assert!(
                        preset == "convection" || !["gmres", "fgmres", "bicgstab", "idr"].contains(&method),
                        "{what}"
                    );
                    let has_other = options.contains(&("amg.smoother.type", "jacobi"));
                    assert!(has_other || !own.contains(&("preset", preset)), "{what}");
                    assert!(!options.contains(&("solver.preconditioner", "none")), "{what}");
                    assert!(make(&[("preset", preset)]).is_ok(), "{what}");
                    named.insert(preset);
                }
                for other in ["direct", "cg", "gmres"] {
                    let hints = said.split_once("solver.type").map_or("", |(_, hints)| hints);
                    if hints.split([' ', ';', ',']).any(|word| word == other) {
                        let norm = said.contains("solver.norm to true").then_some(("solver.norm", "true"));
                        let more: Vec<_> = norm.into_iter().chain([("solver.type", other)]).collect();
                        assert!(make(&more).is_ok(), "{what}: {other}");
                        named.insert(other);
                    }
                }
            }
        }
    }
    for method in ["cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson"] {
        assert!(seen.contains(&("TERRACE_NOT_CONVERGED", method)), "{method}: {seen:?}");
        assert!(method == "richardson" || seen.contains(&("TERRACE_STAGNATED", method)), "{method}: {seen:?}");
    }
    assert_eq!(named.into_iter().collect::<Vec<_>>(), ["cg", "convection", "difficult", "direct", "gmres"]);
}

/// The null space is not that of constants, so that nothing but the residual tells.
#[test]
fn auto_does_not_name_the_factors_that_it_has_tried() {
    let n = 300;
    let weight = |i: usize| 1.0 + (i % 4) as f64;
    let nonsymmetric = weighted_neumann(n, |i, j| weight(i) * (1.0 + (j % 3) as f64));
    let matrices = [weighted_neumann(n, |i, j| weight(i) * weight(j)), nonsymmetric];
    let b: Vec<f64> = (0..n).map(|i| 1.0 + (i % 5) as f64).collect();
    for device in all_devices() {
        for matrix in &matrices {
            let mut solver = set_up(device, matrix, &[("solver.stagnation_window", "60")]).unwrap();
            let (status, said) = sentence(&mut solver, &b);
            println!("{device}: {status:?}, {said}");
            assert!(![Status::Success, Status::NotConverged].contains(&status), "{device}: {said}");
            assert!(!said.contains("direct"), "{device}: {status:?}, {said}");
        }
    }
}

#[test]
fn a_guess_whose_residual_overflows_is_named() {
    let matrix = problem("poisson5:9");
    for device in all_devices() {
        for method in ["cg", "gmres", "bicgstab"] {
            let mut solver = set_up(device, &matrix, &[("solver.type", method)]).unwrap();
            for guess in [1e300, f64::NAN] {
                let mut x = vec![guess; matrix.rows()];
                let error = solver.solve(&vec![1.0; x.len()], &mut x, Guess::Given).unwrap_err();
                assert_eq!(error.status, Status::NonFinite, "{method} on {device}: {error}");
                assert!(error.message.contains("initial guess"), "{method} on {device}: {error}");
            }
            let mut x = vec![0.0; matrix.rows()];
            assert_eq!(solver.solve(&vec![1.0; x.len()], &mut x, Guess::Zero).unwrap(), Status::Success);
        }
    }
}
