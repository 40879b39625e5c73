//! Whole solves on a GPU, by the iterations that the host needs: on simulated GPUs, and on `cuda:0` where TERRACE_TEST_CUDA is set.

use crate::common::devices::{devices, rotating_devices};
use crate::common::skip::is_deep;
use std::sync::Arc;
use terrace::sparse::Csr;
use terrace::{Amg, Config, Context, Guess, Matrix, Report, Solver, Status, gallery};

/// Keys and values.
type Options = &'static [(&'static str, &'static str)];

const DEFAULTS: Options = &[];
const MIXED: Options = &[("precision.matrix", "f64,f32,f16"), ("precision.vector", "f64,f32")];
const NARROW: Options = &[
    ("precision.matrix", "f16"),
    ("precision.transfer", "bf16"),
    ("precision.smoother", "f16"),
    ("precision.vector", "f32"),
];

const SHORT: Options = &[("precision.matrix", "f32,f16,bf16"), ("precision.vector", "f64,f32,bf16")];

fn config(options: Options) -> Config {
    let mut config = Config::new();
    // Small problems shall have several levels.
    config.set_int("amg.coarsest.max_rows", 20).unwrap();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn solver(device: &str, matrix: &Arc<Matrix>, options: Options) -> Solver {
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    solver
}

fn solve(device: &str, matrix: &Arc<Matrix>, options: Options) -> (Vec<f64>, Report) {
    let mut solver = solver(device, matrix, options);
    let b = gallery::random_vector(matrix.rows()).unwrap();
    let mut x = vec![f64::NAN; b.len()];
    assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{device} {options:?}");
    (x, solver.report())
}

/// A problem with options takes as many iterations as on the host, or one more or less.
fn same_iterations(name: &str, options: Options) {
    let matrix = problem(name);
    let (_, expected) = solve("host:1", &matrix, options);
    for device in rotating_devices(name.len() + options.len()) {
        let (x, report) = solve(device, &matrix, options);
        let (found, wanted) = (report.solves[0].iterations, expected.solves[0].iterations);
        assert!(found.abs_diff(wanted) <= 1, "{name} on {device} {options:?}: {found} iterations, host {wanted}");
        assert!(report.solves[0].true_residual <= 1e-8);
        assert_eq!(report.levels.len(), expected.levels.len());
        assert!(report.levels.len() > 1, "{name} has one level only");
        // A simulation runs its threads in one order, so that some problems are enough there.
        if !device.starts_with("sim") || name == "poisson7:8" || is_deep() {
            let (again, _) = solve(device, &matrix, options);
            assert_eq!(x, again, "{name} on {device} {options:?}: two runs differ");
        }
    }
}

#[test]
fn scalar_problems_take_the_iterations_of_the_host() {
    for name in ["poisson5:30", "poisson7:8", "jumps:8", "random_m_matrix:700", "hubs:900"] {
        same_iterations(name, DEFAULTS);
    }
    // Rows are so long that the default is another one on GPUs.
    same_iterations("poisson27:8", &[("amg.coarsening.type", "pmis")]);
    same_iterations("poisson27:8", &[("amg.coarsening.type", "mis2")]);
}

#[test]
fn precisions_take_the_iterations_of_the_host() {
    for options in [MIXED, NARROW, SHORT] {
        same_iterations("poisson7:8", options);
        same_iterations("elasticity:4", options);
    }
}

#[test]
fn blocks_with_rigid_body_modes_take_the_iterations_of_the_host() {
    same_iterations("elasticity:4", DEFAULTS);
    same_iterations("elasticity:4", &[("amg.smoother.type", "l1_jacobi"), ("amg.smoother.diagonal", "point")]);
    same_iterations("elasticity:4", &[("amg.smoother.type", "gauss_seidel")]);
    same_iterations("elasticity:4", &[("amg.smoother.type", "dilu")]);
    same_iterations("elasticity:4", &[("amg.smoother.type", "gauss_seidel"), ("amg.smoother.diagonal", "point")]);
}

/// Classical AMG takes blocks apart for set-up alone.
#[test]
fn blocks_of_several_functions_take_the_iterations_of_the_host_and_stay_blocks() {
    const PMIS: (&str, &str) = ("amg.coarsening.type", "pmis");
    let narrow: Options = Box::leak([NARROW, &[PMIS]].concat().into_boxed_slice());
    for options in [&[PMIS], narrow] {
        same_iterations("elasticity:4", options);
        // Small blocks are scalars in any case, and others are too much for a simulation.
        for device in devices().into_iter().filter(|device| *device == "cuda:0") {
            let (_, report) = solve(device, &problem("elasticity:24"), options);
            let (format, place) = (&report.levels[0].format, &report.setup_place);
            assert!(format.ends_with("_3x3") && place.starts_with("device"), "{options:?}: {format}, {place}");
        }
    }
}

#[test]
fn methods_smoothers_and_cycles_take_the_iterations_of_the_host() {
    let cases = [
        [("solver.type", "fcg"), ("amg.smoother.type", "jacobi")],
        [("solver.type", "gmres"), ("amg.smoother.type", "chebyshev")],
        [("amg.smoother.type", "gauss_seidel"), ("amg.smoother.gauss_seidel.direction", "forward")],
        [("amg.smoother.type", "gauss_seidel"), ("amg.smoother.gauss_seidel.direction", "backward")],
        [("amg.smoother.type", "gauss_seidel"), ("amg.smoother.gauss_seidel.direction", "symmetric")],
        [("amg.smoother.type", "gauss_seidel"), ("amg.smoother.gauss_seidel.weight", "1.3")],
        [("amg.smoother.type", "chebyshev"), ("amg.smoother.chebyshev.scaling", "l1")],
        [("amg.smoother.type", "chebyshev"), ("amg.smoother.chebyshev.largest_eigenvalue", "2")],
        [("solver.type", "fgmres"), ("amg.cycle.type", "w")],
        [("solver.type", "bicgstab"), ("amg.cycle.type", "f")],
        [("solver.type", "fcg"), ("amg.cycle.type", "k")],
        [("amg.cycle.error_scaling", "energy"), ("amg.coarsening.type", "mis2")],
        [("amg.cycle.error_scaling", "residual"), ("amg.cycle.error_scaling_sweeps", "1")],
        [("solver.type", "richardson"), ("solver.norm", "preconditioned")],
        [("solver.preconditioner", "none"), ("amg.cycle.type", "v")],
    ];
    for (case, options) in cases.into_iter().enumerate() {
        let options: Options = Box::leak(Box::new(options));
        let matrix = problem("poisson5:16");
        let (_, expected) = solve("host:1", &matrix, options);
        for device in rotating_devices(case) {
            let (_, report) = solve(device, &matrix, options);
            let (found, wanted) = (report.solves[0].iterations, expected.solves[0].iterations);
            assert!(found.abs_diff(wanted) <= 1, "{device} {options:?}: {found} iterations, host {wanted}");
        }
    }
}

#[test]
fn methods_for_nonsymmetric_matrices_take_the_iterations_of_the_host_and_give_the_same_bits_again() {
    let cases = [
        ("gmres", [("solver.restart", "30"), ("amg.cycle.type", "v")]),
        ("gmres", [("solver.restart", "4"), ("precision.vector", "f32")]),
        ("fgmres", [("solver.restart", "5"), ("amg.cycle.type", "k")]),
        ("fgmres", [("solver.restart", "1"), ("solver.tolerance", "1e-4")]),
        ("bicgstab", [("solver.tolerance", "1e-10"), ("amg.cycle.type", "v")]),
        ("bicgstab", [("solver.tolerance", "1e-4"), ("precision.vector", "f32")]),
        ("idr", [("solver.tolerance", "1e-10"), ("amg.cycle.type", "v")]),
        ("idr", [("solver.idr.s", "1"), ("precision.vector", "f32")]),
    ];
    for (case, (method, options)) in cases.into_iter().enumerate() {
        let options = [("solver.type", method), options[0], options[1]];
        let options: Options = Box::leak(Box::new(options));
        let matrix = problem("convection_diffusion:14");
        let (_, expected) = solve("host:1", &matrix, options);
        for device in rotating_devices(case) {
            let mut solver = solver(device, &matrix, options);
            let n = matrix.rows();
            // Three at once, one after the other: from the second on iterations are repeated.
            let (b, mut x) = (gallery::random_vector(n).unwrap().repeat(3), vec![f64::NAN; 3 * n]);
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{device} {options:?}");
            assert!(x[..n] == x[n..2 * n] && x[..n] == x[2 * n..], "{device} {options:?}");
            let (report, wanted) = (solver.report(), expected.solves[0].iterations);
            for solve in &report.solves {
                let found = solve.iterations;
                assert!(found.abs_diff(wanted) <= 1, "{device} {options:?}: {found} iterations, host {wanted}");
            }
        }
    }
}

#[test]
fn several_right_hand_sides_guesses_and_updates_work_as_on_the_host() {
    for device in devices() {
        let matrix = problem("poisson5:16");
        let mut solver = solver(device, &matrix, DEFAULTS);
        let n = matrix.rows();
        let b: Vec<f64> = (0..2 * n).map(|i| if i < n { 1.0 } else { 2.0 }).collect();
        let mut x = vec![f64::NAN; 2 * n];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        assert!((0..n).all(|i| (x[n + i] - 2.0 * x[i]).abs() < 1e-5 * x[i].abs()));

        // From the solution there is nothing to do.
        assert_eq!(solver.solve(&b, &mut x, Guess::Given).unwrap(), Status::Success);
        assert_eq!(solver.report().solves[1].iterations, 0);

        let doubled: Vec<f64> = gallery::parse("poisson5:16").unwrap().matrix.values.iter().map(|v| 2.0 * v).collect();
        matrix.update_values(doubled.into()).unwrap();
        solver.update().unwrap();
        let mut halved = vec![f64::NAN; 2 * n];
        assert_eq!(solver.solve(&b, &mut halved, Guess::Zero).unwrap(), Status::Success);
        assert!((0..n).all(|i| (x[i] - 2.0 * halved[i]).abs() < 1e-5 * x[i].abs()));
    }
}

/// What the header lists: two vectors for right-hand sides and solutions on the host, from the first such solve on.
#[test]
fn solves_allocate_device_memory_for_vectors_of_the_host_alone() {
    const CASES: &[Options] = &[
        DEFAULTS,
        MIXED,
        &[("solver.type", "fcg"), ("amg.cycle.type", "k")],
        &[("amg.cycle.error_scaling", "energy"), ("precision.vector", "f32,f16")],
        &[("solver.type", "gmres"), ("amg.smoother.type", "gauss_seidel")],
        &[("solver.type", "fgmres"), ("amg.coarsening.type", "mis2")],
        &[("solver.type", "bicgstab")],
        &[("solver.type", "idr")],
        &[("solver.type", "richardson")],
        &[("solver.norm", "preconditioned")],
        &[("amg.reorder", "on")],
    ];
    let matrix = problem("anisotropic:12");
    let n = matrix.rows();
    for device in devices() {
        for options in CASES {
            let context = Context::new(device).unwrap();
            let gpu = context.gpu().unwrap();
            let (b, mut x) = (gpu.upload(&vec![1.0; n]).unwrap(), gpu.upload(&vec![0.0; n]).unwrap());
            let mut solver = Solver::new(&context, &config(options));
            solver.setup(Some(&matrix)).unwrap();
            let after_setup = gpu.memory().used;
            // The first launches, the second captures, later ones replay.
            for round in 0..4 {
                assert!(solver.solve_on_device(&b, &mut x, Guess::Zero).is_ok(), "{options:?}");
                assert_eq!(gpu.memory().used, after_setup, "{device} {options:?}, solve {round} on the device");
            }
            let (b, mut x) = (vec![1.0; n], vec![0.0; n]);
            solver.solve(&b, &mut x, Guess::Zero).unwrap();
            let with_staging = gpu.memory().used;
            assert!((16 * n..=16 * n + 1024).contains(&(with_staging - after_setup)), "{device} {options:?}");
            for round in 0..3 {
                solver.solve(&b, &mut x, Guess::Given).unwrap();
                assert_eq!(gpu.memory().used, with_staging, "{device} {options:?}, solve {round} from the host");
            }
        }
    }
}

#[test]
fn an_application_in_either_precision_is_that_of_the_host() {
    let matrix = problem("poisson5:16");
    let b = gallery::random_vector(matrix.rows()).unwrap();
    let narrow: Vec<f32> = b.iter().map(|v| *v as f32).collect();
    let config = config(DEFAULTS);
    let apply = |device: &str| {
        let mut amg = Amg::setup(&Context::new(device).unwrap(), &matrix, &config).unwrap();
        let (mut x, mut y) = (vec![f64::NAN; b.len()], vec![f32::NAN; b.len()]);
        // Again and again: the first time it is run, the second captured, the third replayed.
        for _ in 0..3 {
            x.fill(f64::NAN);
            amg.apply(&b, &mut x).unwrap();
        }
        amg.apply(&narrow, &mut y).unwrap();
        (x, y)
    };
    let (x, y) = apply("host:1");
    for device in devices() {
        let (found, found_narrow) = apply(device);
        assert!(x.iter().zip(&found).all(|(x, f)| (x - f).abs() <= 1e-13 * (1.0 + x.abs())), "{device}");
        assert!(y.iter().zip(&found_narrow).all(|(y, f)| (y - f).abs() <= 1e-5 * (1.0 + y.abs())), "{device}");
    }
}

#[test]
fn singular_systems_are_solved() {
    for device in devices() {
        let mut a = gallery::parse("poisson5:12").unwrap().matrix;
        for i in 0..a.rows {
            let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
            let others: f64 = row.clone().filter(|&k| a.columns[k] as usize != i).map(|k| a.values[k]).sum();
            let diagonal = row.clone().find(|&k| a.columns[k] as usize == i).unwrap();
            a.values[diagonal] = -others;
        }
        let matrix = Arc::new(Matrix::from_csr(a).unwrap());
        let (x, _) = solve(device, &matrix, &[("solver.null_space", "constant")]);
        assert!(x.iter().sum::<f64>().abs() < 1e-10);
    }
}

#[test]
fn breakdowns_leave_x_and_have_the_words_of_the_host() {
    // Positive, and indefinite: the second direction meets the negative row, or the first.
    for diagonal in [vec![1.0, 2.0, -8.0], vec![-1.0, 1.0, -3.0]] {
        let entries: Vec<_> = diagonal.iter().enumerate().map(|(i, v)| (i, i, *v)).collect();
        let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(3, 3, &entries).unwrap()).unwrap());
        let ends = std::iter::once("host:1").chain(devices()).map(|device| {
            let mut solver = solver(device, &matrix, &[("solver.type", "cg"), ("solver.preconditioner", "none")]);
            let mut x = [f64::NAN; 3];
            let error = solver.solve(&[1.0, 1.0, 0.25], &mut x, Guess::Zero).unwrap_err();
            (error.status, error.message, x, solver.report().solves[0].iterations)
        });
        let ends: Vec<_> = ends.collect();
        assert_eq!(ends[0].0, Status::Breakdown, "{}", ends[0].1);
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }
}

#[test]
fn solvers_in_f32_work_and_refuse_other_vectors() {
    for device in devices() {
        let matrix = problem("poisson5:16");
        for method in ["auto", "gmres", "fgmres", "bicgstab"] {
            let options = [
                ("solver.type", method),
                ("solver.precision", "f32"),
                ("precision.vector", "f32"),
                ("solver.tolerance", "1e-4"),
            ];
            let mut solver = solver(device, &matrix, Box::leak(Box::new(options)));
            let (b, mut x) = (vec![1.0_f32; matrix.rows()], vec![f32::NAN; matrix.rows()]);
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{method} on {device}");
            assert!(solver.report().solves[0].true_residual <= 1e-4, "{method} on {device}");
            let error = solver.solve(&[1.0_f64; 256], &mut [0.0; 256], Guess::Zero).unwrap_err();
            assert_eq!(error.status, Status::InvalidArgument);
        }
    }
}

#[test]
fn what_gpus_cannot_do_is_refused() {
    let matrix = problem("poisson5:16");
    for device in devices() {
        let context = Context::new(device).unwrap();
        for (key, value) in [("amg.smoother.type", "l1_gauss_seidel"), ("precision.indices", "32")] {
            let mut config = Config::new();
            config.set_str(key, value).unwrap();
            let error = Amg::setup(&context, &matrix, &config).err().unwrap();
            assert_eq!(error.status, Status::Unsupported);
            assert!(error.message.contains(key), "{error}");
        }
        let mut solver = Solver::new(&context, &Config::new());
        solver.set_operator(matrix.rows(), Box::new(|_, _| 0));
        assert_eq!(solver.setup(Some(&matrix)).unwrap_err().status, Status::Unsupported);
    }
}

#[test]
fn several_contexts_on_several_threads_do_not_disturb_each_other() {
    let matrix = problem("poisson5:20");
    for device in devices() {
        let (expected, _) = solve(device, &matrix, DEFAULTS);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(solve(device, &matrix, DEFAULTS).0, expected));
            }
        });
    }
}

#[test]
fn a_device_that_is_not_there_is_a_status() {
    for device in ["cuda:4711", "sim:7"] {
        assert_eq!(Context::new(device).err().unwrap().status, Status::Device);
    }
}
