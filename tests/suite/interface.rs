//! Monitors, a matrix of the preconditioner, options as set-up used them, and configurations in JSON.

use crate::common::devices::{devices, rotating_devices};
use std::sync::{Arc, Mutex};
use terrace::matrix::Values;
use terrace::solver::{DeviceVectors, Progress, SliceMut, SliceRef};
use terrace::sparse::SharedCsr;
use terrace::{Amg, Config, Context, Guess, Matrix, Solver, Status, gallery};

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn all_devices() -> impl Iterator<Item = &'static str> {
    std::iter::once("host:2").chain(devices())
}

#[test]
fn a_monitor_sees_every_iteration_and_may_end_the_solve() {
    let matrix = problem("poisson5:20");
    let n = matrix.rows();
    for device in all_devices() {
        for method in ["cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson"] {
            let mut config = Config::new();
            config.set_str("solver.type", method).unwrap();
            let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
            solver.setup(Some(&matrix)).unwrap();
            let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
            let (told, caller) = (Arc::clone(&seen), std::thread::current().id());
            solver.set_monitor(Some(Box::new(move |progress| {
                assert_eq!(std::thread::current().id(), caller);
                told.lock().unwrap().push(progress);
                progress.right_hand_side == 1 && progress.iteration == 2
            })));
            let (b, mut x) = (vec![1.0; 2 * n], vec![0.0; 2 * n]);
            let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
            assert_eq!(status, Status::Stopped, "{method} on {device}");
            let report = solver.report();
            let ends: Vec<_> = report.solves.iter().map(|s| (s.status, s.iterations == 2)).collect();
            assert_eq!(ends, [(Status::Success, false), (Status::Stopped, true)], "{method} on {device}");
            // The iterate is that of the last norm.
            let (told, left) = (report.solves[1].history[2], report.solves[1].true_residual);
            assert!((told - left).abs() < 1e-6 * told && told < 1.0, "{method} on {device}: {told}, {left}");
            let seen = seen.lock().unwrap();
            for (index, solve) in report.solves.iter().enumerate() {
                let of = seen.iter().filter(|p| p.right_hand_side == index);
                let norms: Vec<f64> = of.map(|p| p.residual).collect();
                assert_eq!(norms, solve.history, "{method} on {device}");
            }
            drop(seen);
            solver.set_monitor(None);
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{method} on {device}");
        }
    }
}

#[test]
fn the_preconditioner_may_have_a_matrix_of_its_own() {
    let (matrix, other) = (problem("poisson9:20"), problem("poisson5:20"));
    let n = matrix.rows();
    let b = vec![1.0; n];
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        let mut plain = Solver::new(&context, &Config::new());
        plain.setup(Some(&matrix)).unwrap();
        let mut wanted = vec![0.0_f64; n];
        plain.solve(&b, &mut wanted, Guess::Zero).unwrap();

        let mut solver = Solver::new(&context, &Config::new());
        solver.set_preconditioner_matrix(Some(&other));
        for update in [false, true] {
            if update {
                solver.update().unwrap()
            } else {
                solver.setup(Some(&matrix)).unwrap()
            }
            let mut x = vec![0.0_f64; n];
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
            assert!(x.iter().zip(&wanted).all(|(x, y)| (x - y).abs() < 1e-5 * y.abs()), "{device}");
            assert_eq!(solver.report().levels[0].nonzeros, other.entries(), "{device}");
        }
        solver.set_preconditioner_matrix(None);
        solver.setup(Some(&matrix)).unwrap();
        assert_eq!(solver.report().levels[0].nonzeros, matrix.entries(), "{device}");
        solver.set_preconditioner_matrix(Some(&problem("poisson5:19")));
        assert_eq!(solver.setup(Some(&matrix)).unwrap_err().status, Status::SizeMismatch, "{device}");
    }
}

/// What only builds the preconditioner tells what the callback is like.
#[test]
fn auto_looks_at_the_matrix_beside_an_operator_callback() {
    for device in all_devices() {
        for (name, expected) in [("poisson5:12", "cg"), ("convection_diffusion:12", "gmres")] {
            let matrix = problem(name);
            let mut solver = Solver::new(&Context::new(device).unwrap(), &Config::new());
            set_operator(&mut solver, device, &matrix, 1.0);
            solver.setup(Some(&matrix)).unwrap();
            assert_eq!(solver.option("solver.type").unwrap(), expected, "{name} on {device}");
            let (b, mut x) = (vec![1.0; matrix.rows()], vec![0.0; matrix.rows()]);
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{name} on {device}");
            // A matrix for the preconditioner alone comes before the other.
            solver.set_preconditioner_matrix(Some(&matrix));
            solver.setup(None).unwrap();
            assert_eq!(solver.option("solver.type").unwrap(), expected, "{name} on {device}");
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{name} on {device}");
            // Without any matrix the callback is taken for symmetric.
            let mut config = Config::new();
            config.set_str("solver.preconditioner", "none").unwrap();
            let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
            set_operator(&mut solver, device, &matrix, 1.0);
            solver.setup(None).unwrap();
            assert_eq!(solver.option("solver.type").unwrap(), "cg", "{name} on {device}");
        }
    }
}

/// y = factor A x by the rows of a matrix.
fn multiply(a: &SharedCsr<f64>, factor: f64, x: &[f64], y: &mut [f64]) {
    for (i, y) in y.iter_mut().enumerate() {
        *y = a.view().row(i).map(|(j, v)| factor * v[0] * x[j]).sum();
    }
}

/// As a callback. Vectors of a simulated GPU are in the memory of the host.
fn set_operator(solver: &mut Solver, device: &str, matrix: &Matrix, factor: f64) {
    let (n, a) = (matrix.rows(), matrix.shared::<f64>().unwrap());
    if device.starts_with("host") {
        let apply = move |x: SliceRef<'_>, y: SliceMut<'_>| match (x, y) {
            (SliceRef::F64(x), SliceMut::F64(y)) => {
                multiply(&a, factor, x, y);
                0
            }
            _ => 1,
        };
        return solver.set_operator(n, Box::new(apply));
    }
    let apply = move |vectors: DeviceVectors| {
        // SAFETY: device memory of a simulated GPU is that of this process.
        let x = unsafe { std::slice::from_raw_parts(vectors.x as *const f64, n) };
        // SAFETY: as above.
        let y = unsafe { std::slice::from_raw_parts_mut(vectors.y as *mut f64, n) };
        multiply(&a, factor, x, y);
        0
    };
    solver.set_device_operator(n, Box::new(apply));
}

#[test]
fn operator_callbacks_may_be_in_any_units() {
    for (k, method) in ["cg", "fcg", "gmres", "fgmres", "bicgstab"].into_iter().enumerate() {
        let simulated = rotating_devices(k).into_iter().filter(|device| device.starts_with("sim"));
        for device in std::iter::once("host:2").chain(simulated) {
            // A simulated GPU takes its time.
            let size = if device.starts_with("sim") { 6 } else { 12 };
            let kind = if method.ends_with("cg") { "poisson5" } else { "convection_diffusion" };
            let matrix = &problem(&format!("{kind}:{size}"));
            let n = matrix.rows();
            // Without a preconditioner, with AMG of the matrix in its units, and in units of its own.
            for (preconditioner, given) in [("none", None), ("amg", Some(true)), ("amg", Some(false))] {
                let mut wanted = None;
                for factor in [1.0, 1e200, 1e-200] {
                    let what = format!("{method}, {preconditioner} {given:?} times {factor:e} on {device}");
                    let mut config = Config::new();
                    config.set_str("solver.type", method).unwrap();
                    config.set_str("solver.preconditioner", preconditioner).unwrap();
                    let Values::F64(values) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
                    let values: Vec<f64> = values.as_slice().iter().map(|v| v * factor).collect();
                    let in_units = problem(&format!("{kind}:{size}"));
                    in_units.update_values(values.into()).unwrap();
                    let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
                    set_operator(&mut solver, device, matrix, factor);
                    let given = given.map(|in_its_units| if in_its_units { &in_units } else { matrix });
                    solver.setup(given).unwrap();
                    let b: Vec<f64> = (0..n).map(|i| factor * (1.0 + (i % 7) as f64)).collect();
                    for guess in [Guess::Zero, Guess::Given] {
                        let mut x = vec![0.5; n];
                        let status = solver.solve(&b, &mut x, guess);
                        assert_eq!(status, Ok(Status::Success), "{what} {guess:?}");
                        let solves = solver.report().solves;
                        assert!(solves[0].true_residual <= 1e-8, "{what} {guess:?}: {}", solves[0].true_residual);
                        let (iterations, x) = (solves[0].iterations, x);
                        if guess == Guess::Zero {
                            let (first, wanted) = wanted.get_or_insert((iterations, x.clone()));
                            let same = x.iter().zip(&*wanted).all(|(x, y)| (x - y).abs() <= 1e-6 * y.abs());
                            assert!(same, "{what}: {} {}", x[0], wanted[0]);
                            assert!(
                                first.abs_diff(iterations) <= 2,
                                "{what}: {iterations} iterations instead of {first}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Richardson's iteration depends on units. What it says of extreme ones is not about the null space, which overflows hide.
#[test]
fn richardson_says_that_a_callback_leaves_the_range() {
    for factor in [1e200, 1e-200] {
        let (matrix, mut config) = (problem("convection_diffusion:12"), Config::new());
        config.set_str("solver.type", "richardson").unwrap();
        config.set_str("solver.preconditioner", "none").unwrap();
        let mut solver = Solver::new(&Context::new("host:1").unwrap(), &config);
        set_operator(&mut solver, "host:1", &matrix, factor);
        solver.setup(None).unwrap();
        let (b, mut x) = (vec![factor; matrix.rows()], vec![0.0; matrix.rows()]);
        let said = match solver.solve(&b, &mut x, Guess::Zero) {
            Ok(status) => format!("{status:?}: {}", solver.unsolved().unwrap()),
            Err(error) => error.to_string(),
        };
        assert!(!said.contains("null_space"), "{factor:e}: {said}");
        assert!(x.iter().all(|x| x.is_finite()), "{factor:e}: {said}");
    }
}

#[test]
fn a_solver_tells_what_auto_became() {
    for device in all_devices() {
        let mut solver = Solver::new(&Context::new(device).unwrap(), &Config::new());
        assert_eq!(solver.option("solver.type").unwrap_err().status, Status::NotSetUp);
        assert_eq!(solver.option("solver.typ").unwrap_err().status, Status::UnknownOption);
        let gauss_seidel = if device.starts_with("host") { "l1_gauss_seidel" } else { "gauss_seidel" };
        let symmetric = [
            ("solver.type", "cg"),
            ("solver.precision", "f64"),
            ("solver.tolerance", "0.00000001"),
            ("amg.coarsening.type", "mis2"),
            ("amg.interpolation.type", "smoothed"),
            ("amg.smoother.type", "chebyshev"),
            ("solver.restart", "30"),
        ];
        let other = [
            ("solver.type", "gmres"),
            ("amg.coarsening.type", "pmis"),
            ("amg.strength.type", "classical"),
            ("amg.smoother.type", gauss_seidel),
        ];
        for (name, expected) in [("poisson5:20", &symmetric[..]), ("convection_diffusion:20", &other)] {
            solver.setup(Some(&problem(name))).unwrap();
            for (key, value) in expected {
                assert_eq!(solver.option(key).unwrap(), *value, "{key} of {name} on {device}");
            }
            let amg = Amg::setup(&Context::new(device).unwrap(), &problem(name), &Config::new()).unwrap();
            // Alone it is not known which Krylov method is around it, so its smoother is another one for the second problem.
            for (key, value) in expected.iter().filter(|(key, _)| key.starts_with("amg.") && !key.contains("smoother"))
            {
                assert_eq!(amg.option(key).unwrap(), *value, "{key} of a hierarchy of {name} on {device}");
            }
        }
    }
}

#[test]
fn json_has_presets_and_arrays_and_no_option_twice() {
    let mut config = Config::new();
    config.load_json(r#"{"solver.restart": 7, "preset": "convection", "precision.matrix": ["f64", "f32"]}"#).unwrap();
    for (key, value) in [
        ("solver.restart", "7"),
        ("amg.smoother.type", "any_gauss_seidel"),
        ("precision.matrix", "f64,f32"),
        ("precision", "default"),
        ("solver.norm", "true"),
    ] {
        assert_eq!(config.get(key).unwrap(), value, "{key}");
    }
    let before = config.to_json();
    for (text, status, part) in [
        (r#"{"solver.restart": 5, "solver": {"restart": 5}}"#, Status::OptionValue, "solver.restart"),
        (r#"{"precision": "auto", "precision.preset": "auto"}"#, Status::OptionValue, "precision.preset"),
        (r#"{"preset": 5}"#, Status::OptionValue, "poisson"),
        (r#"{"preset": "nonsense", "solver.restart": 5}"#, Status::OptionValue, "nonsense"),
        (r#"{"solver.restart": [5, 6]}"#, Status::OptionValue, "solver.restart"),
        (r#"{"precision.matrix": [["f64"]]}"#, Status::OptionValue, "precision.matrix"),
        (r#"{"precision.matrix": ["f64", "f8"]}"#, Status::OptionValue, "f8"),
    ] {
        let error = config.load_json(text).unwrap_err();
        assert_eq!(error.status, status, "{text}");
        assert!(error.message.contains(part), "{error}");
    }
    assert_eq!(config.to_json(), before);
    // One vocabulary.
    for (name, same) in [("f64-f16", "dp-hp"), ("(f64-f32,bf16)", "(dp-sp,bf)")] {
        let set = |value: &str| {
            let mut config = Config::new();
            config.set_str("precision", value).unwrap();
            let mut solver = Solver::new(&Context::new("host:1").unwrap(), &config);
            solver.setup(Some(&problem("poisson5:30"))).unwrap();
            let levels = solver.report().levels;
            levels.iter().map(|l| (l.vector_precision, l.matrix_precision)).collect::<Vec<_>>()
        };
        assert_eq!(set(name), set(same));
    }
}

/// On a simulated GPU, whose memory is that of the host.
#[test]
fn callbacks_of_a_gpu_get_device_memory() {
    let matrix = problem("poisson5:16");
    let (n, a) = (matrix.rows(), matrix.shared::<f64>().unwrap());
    for device in devices().into_iter().filter(|device| device.starts_with("sim")) {
        for method in ["cg", "gmres", "bicgstab"] {
            let mut config = Config::new();
            config.set_str("solver.type", method).unwrap();
            let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
            let a = a.clone();
            solver.set_device_operator(
                n,
                Box::new(move |vectors| {
                    assert_eq!((vectors.n, vectors.precision), (n, terrace::Precision::F64));
                    // SAFETY: device memory of a simulated GPU is that of this process.
                    let x = unsafe { std::slice::from_raw_parts(vectors.x as *const f64, n) };
                    // SAFETY: as above.
                    let y = unsafe { std::slice::from_raw_parts_mut(vectors.y as *mut f64, n) };
                    for (i, y) in y.iter_mut().enumerate() {
                        *y = a.view().row(i).map(|(j, v)| v[0] * x[j]).sum();
                    }
                    0
                }),
            );
            solver.set_device_preconditioner(Box::new(move |vectors| {
                // SAFETY: as above.
                let x = unsafe { std::slice::from_raw_parts(vectors.x as *const f64, n) };
                // SAFETY: as above.
                let y = unsafe { std::slice::from_raw_parts_mut(vectors.y as *mut f64, n) };
                y.iter_mut().zip(x).for_each(|(y, x)| *y = 0.25 * x);
                0
            }));
            solver.setup(None).unwrap();
            let (b, mut x) = (vec![1.0; n], vec![0.0; n]);
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{method} on {device}");
            assert!(solver.report().solves[0].true_residual <= 1e-8, "{method} on {device}");
            solver.set_device_preconditioner(Box::new(|_| 7));
            solver.setup(None).unwrap();
            let error = solver.solve(&b, &mut x, Guess::Zero).unwrap_err();
            assert_eq!(error.status, Status::Callback, "{method} on {device}");
        }
    }
    let mut on_host = Solver::new(&Context::new("host:1").unwrap(), &Config::new());
    on_host.set_device_operator(n, Box::new(|_| 0));
    on_host.set_preconditioner(Box::new(|_, _| 0));
    assert_eq!(on_host.setup(None).unwrap_err().status, Status::Unsupported);
}
