//! Multigrid on structured grids: the problems of the gallery for it, number formats, updates, threads and devices.

use crate::common::devices::devices;
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::sparse::{Csr, Grid};
use terrace::{Amg, Config, Context, Guess, Matrix, Report, Solver, Status, gallery};

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    config
}

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

/// Solves for a right-hand side whose solution has numbers of size one.
fn solve(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> (Status, Vec<f64>, Report) {
    let context = Context::new(device).unwrap();
    let mut solver = Solver::new(&context, &config(options));
    solver.setup(Some(matrix)).unwrap();
    let solution = gallery::random_vector(matrix.rows()).unwrap();
    let (mut b, mut x) = (vec![0.0; matrix.rows()], vec![f64::NAN; matrix.rows()]);
    matrix.apply(&Context::new("host:1").unwrap(), 1.0, &solution, 0.0, &mut b).unwrap();
    let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
    (status, x, solver.report())
}

/// The problems, and the iterations that the defaults may need in f64.
const PROBLEMS: &[(&str, usize)] = &[
    ("laplace27:20", 7),
    ("laplace27:14:scale=1e8", 7),
    ("laplace27:14:scale=1e-8", 7),
    ("rhd:20", 12),
    ("rhd3t:16", 26),
    ("oil:20x20x12", 23),
    ("oil4c:12x12x8", 21),
    ("weather:20x18x12", 7),
    ("solid3d:10", 18),
];

#[test]
fn every_problem_converges_on_stencils_in_f64_and_in_16_bits() {
    for (name, bound) in PROBLEMS {
        let matrix = problem(name);
        let full = [("precision", "dp"), ("solver.restart", "60")];
        let (status, _, report) = solve("host:2", &matrix, &full);
        assert_eq!(status, Status::Success, "{name}\n{}", report.to_text());
        let iterations = report.solves[0].iterations;
        println!("{name}: {iterations} of {bound}");
        assert!(iterations <= *bound, "{name}: {iterations} iterations, at most {bound}");
        assert!(report.levels.iter().all(|level| level.format.starts_with("stencil")), "{name}");
        assert!(report.levels.len() > 1, "{name}");

        let narrow = [("precision", "(sp,hp)"), ("solver.restart", "60")];
        let (status, _, report) = solve("host:2", &matrix, &narrow);
        assert_eq!(status, Status::Success, "{name} in f16\n{}", report.to_text());
        let in_f16 = report.solves[0].iterations;
        println!("{name}: {in_f16} in f16");
        assert!(
            in_f16 as f64 <= (1.4 * iterations as f64).ceil(),
            "{name}: {in_f16} iterations in f16, {iterations} in f64"
        );
        if name.starts_with("laplace27") {
            assert_eq!(in_f16, iterations, "{name}");
        }
        assert_eq!(report.levels[0].matrix_precision.name(), "f16", "{name}");
    }
}

#[test]
fn values_out_of_range_of_f16_are_an_error_with_their_number_unless_they_are_scaled() {
    let matrix = problem("laplace27:10:scale=1e8");
    let options = [("precision", "(sp,hp)"), ("precision.scaling", "none"), ("amg.coarsest.max_rows", "30")];
    let error = Amg::setup(&Context::new("host:1").unwrap(), &matrix, &config(&options)).err().unwrap();
    assert_eq!(error.status, Status::PrecisionLost);
    assert!(error.message.contains("27000 entries of the matrix, 21952 are too large for f16"), "{error}");
}

#[test]
fn strong_axes_alone_are_coarsened_until_the_others_are_as_strong() {
    let matrix = Arc::new(gallery::parse("anisotropic:24x24x24:epsilon=0.001").unwrap().into_matrix().unwrap());
    matrix.set_grid(Grid::new([24; 3])).unwrap();
    let (status, _, report) = solve("host:1", &matrix, &[("amg.coarsest.max_rows", "20")]);
    assert_eq!(status, Status::Success);
    let rows: Vec<usize> = report.levels.iter().map(|level| level.rows).collect();
    assert_eq!(rows[..3], [24 * 24 * 24, 12 * 12 * 24, 6 * 6 * 24]);
    assert!(report.solves[0].iterations <= 12, "{}", report.solves[0].iterations);
    let (_, _, full) = solve("host:1", &matrix, &[("amg.coarsening.axes", "xyz")]);
    assert_eq!(full.levels[1].rows, 12 * 12 * 12);
    assert!(full.solves[0].iterations > 2 * report.solves[0].iterations, "{}", full.solves[0].iterations);
}

#[test]
fn lines_along_strong_couplings_need_no_coarsening_along_them_alone() {
    let matrix = problem("anisotropic:24x24x24:epsilon=1000");
    matrix.set_grid(Grid::new([24; 3])).unwrap();
    let options =
        |smoother| [("amg.smoother.type", smoother), ("amg.coarsening.axes", "xyz"), ("amg.coarsest.max_rows", "20")];
    let (_, _, point) = solve("host:1", &matrix, &options("gauss_seidel"));
    let (status, _, line) = solve("host:1", &matrix, &options("line"));
    let (found, slow) = (line.solves[0].iterations, point.solves[0].iterations);
    println!("anisotropic: gauss_seidel {slow}, line {found}");
    assert!(status == Status::Success && found <= 8 && slow > 5 * found, "{found} {slow}");
    // Left to the library, the grid is coarsened along all axes, and in 16 bits as in f64.
    for precision in ["dp", "(sp,hp)"] {
        let (_, _, auto) = solve("host:2", &matrix, &[("amg.smoother.type", "line"), ("precision", precision)]);
        assert_eq!(auto.levels[1].rows, 12 * 12 * 12);
        assert_eq!(auto.solves[0].iterations, found, "{precision}");
    }
}

#[test]
fn lines_along_several_axes_smooth_an_anisotropy_that_turns() {
    // Couplings along x are a thousand times those along y below the middle, and along y a thousand times those along x above it.
    let (n, mut entries) = (25_usize, Vec::new());
    for cell in 0..n * n {
        let (x, y) = (cell % n, cell / n);
        let [kx, ky] = if y < n / 2 { [1000.0, 1.0] } else { [1.0, 1000.0] };
        let mut diagonal = 0.0;
        for (k, there) in [
            (kx, (x > 0).then(|| cell - 1)),
            (kx, (x + 1 < n).then(|| cell + 1)),
            (if y == n / 2 { 1.0 } else { ky }, (y > 0).then(|| cell - n)),
            (if y + 1 == n / 2 { 1.0 } else { ky }, (y + 1 < n).then(|| cell + n)),
        ] {
            diagonal += k;
            entries.extend(there.map(|there| (cell, there, -k)));
        }
        entries.push((cell, cell, diagonal));
    }
    let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(n * n, n * n, &entries).unwrap()).unwrap());
    matrix.set_grid(Grid::new([n, n, 1])).unwrap();
    let iterations = |smoother, axis| {
        let lines = [("amg.smoother.type", smoother), ("amg.smoother.line.axis", axis), ("amg.coarsest.max_rows", "9")];
        let (status, _, report) = solve("host:1", &matrix, &lines);
        assert_eq!(status, Status::Success);
        report.solves[0].iterations
    };
    let (both, one, point) = (iterations("line", "xy"), iterations("line", "x"), iterations("gauss_seidel", "auto"));
    println!("turning: gauss_seidel {point}, line x {one}, line xy {both}");
    assert!(both <= 8 && one > 2 * both && point > 2 * both, "{both} {one} {point}");
}

#[test]
fn an_update_is_a_fresh_set_up_with_the_same_axes() {
    let context = Context::new("host:2").unwrap();
    for (name, precision) in [("rhd:12", "dp"), ("solid3d:5", "(sp,hp)")] {
        let (first, second) = (problem(name), problem(name));
        let mut values = match second.values().unwrap() {
            Values::F64(values) => values.as_slice().to_vec(),
            Values::F32(_) => unreachable!(),
        };
        values.iter_mut().for_each(|v| *v *= 3.0);
        second.update_values(Values::from(values.clone())).unwrap();
        let options = config(&[("precision", precision), ("amg.coarsest.max_rows", "20")]);
        let mut updated = Amg::setup(&context, &first, &options).unwrap();
        first.update_values(Values::from(values)).unwrap();
        updated.update().unwrap();
        let mut fresh = Amg::setup(&context, &second, &options).unwrap();
        let b = gallery::random_vector(first.rows()).unwrap();
        let (mut x, mut y) = (vec![0.0; b.len()], vec![1.0; b.len()]);
        updated.apply(&b, &mut x).unwrap();
        fresh.apply(&b, &mut y).unwrap();
        assert_eq!(x, y, "{name}");
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    for (name, precision) in [("laplace27:19x23x17", "(sp,hp)"), ("solid3d:7", "dp"), ("oil:33x9x11", "(dp-sp,hp)")] {
        let matrix = problem(name);
        let options = [("precision", precision), ("amg.coarsest.max_rows", "20")];
        let (_, one, _) = solve("host:1", &matrix, &options);
        let (_, three, _) = solve("host:3", &matrix, &options);
        assert!(one == three, "{name}");
    }
}

#[test]
fn a_gpu_solves_on_stencils_with_the_iterations_of_the_host() {
    for (name, smoother, precision) in [
        ("laplace27:9", "auto", "dp"),
        ("laplace27:9", "l1_jacobi", "(sp,hp)"),
        ("rhd:9x8x7", "auto", "(sp,hp)"),
        ("oil:9x8x7", "chebyshev", "sp"),
        ("rhd3t:6", "auto", "dp"),
        ("oil4c:6x5x4", "auto", "dp"),
        ("solid3d:4", "jacobi", "(sp,hp)"),
        ("laplace27:9x8x7", "line", "(sp,hp)"),
        ("oil4c:6x5x4", "line", "dp"),
        ("laplace27:9x8x7", "ilu0", "(sp,hp)"),
    ] {
        let matrix = problem(name);
        let options = [
            ("amg.smoother.type", smoother),
            ("amg.smoother.gauss_seidel.weight", if name.starts_with("rhd") { "1.2" } else { "1" }),
            ("precision", precision),
            ("amg.coarsest.max_rows", "20"),
            ("solver.restart", "60"),
        ];
        let (_, _, on_host) = solve("host:1", &matrix, &options);
        for device in devices() {
            let (status, _, on_device) = solve(device, &matrix, &options);
            assert_eq!(status, Status::Success, "{name} {precision} {smoother} {device}");
            let (found, expected) = (on_device.solves[0].iterations, on_host.solves[0].iterations);
            assert!(found.abs_diff(expected) <= 1, "{name} {precision} {smoother} {device}: {found}, {expected}");
            assert!(on_device.levels.iter().all(|level| level.format.starts_with("stencil")), "{name}");
            assert!(on_device.setup_place.starts_with("device"), "{name}: {}", on_device.setup_place);
            let rows = |report: &Report| report.levels.iter().map(|level| level.rows).collect::<Vec<_>>();
            assert_eq!(rows(&on_device), rows(&on_host));
        }
    }
}

/// Cycles of hierarchies that were computed on the host and on the device.
#[test]
fn the_hierarchy_of_a_device_is_that_of_the_host() {
    for (name, precision) in
        [("laplace27:9x8x7", "dp"), ("oil:9x8x7", "(sp,hp)"), ("solid3d:4", "dp"), ("rhd:12x9x8", "auto")]
    {
        let matrix = problem(name);
        let device = Context::new(devices()[0]).unwrap();
        let b = gallery::random_vector(matrix.rows()).unwrap();
        let apply = |place: &str| {
            let options = config(&[("precision", precision), ("amg.setup", place), ("amg.coarsest.max_rows", "20")]);
            let mut amg = Amg::setup(&device, &matrix, &options).unwrap();
            let mut x = vec![0.0; b.len()];
            amg.apply(&b, &mut x).unwrap();
            // An update with the same values changes nothing.
            amg.update().unwrap();
            let mut y = vec![1.0; b.len()];
            amg.apply(&b, &mut y).unwrap();
            assert!(x == y, "{name} {precision} {place}");
            let report = amg.report();
            (x, report.levels.iter().map(|level| (level.rows, level.format.clone())).collect::<Vec<_>>())
        };
        let (on_host, levels) = apply("host");
        let (on_device, own_levels) = apply("device");
        assert_eq!(own_levels, levels, "{name} {precision}");
        assert!(on_device == on_host, "{name} {precision}");
    }
}

#[test]
fn a_gpu_multiplies_with_a_stencil_in_the_narrowest_exact_format() {
    let matrix = problem("laplace27:7x6x5");
    let (context, device) = (Context::new("host:1").unwrap(), Context::new(devices()[0]).unwrap());
    let x = gallery::random_vector(matrix.rows()).unwrap();
    let (mut expected, mut found) = (vec![1.0; x.len()], vec![1.0; x.len()]);
    matrix.apply(&context, 2.0, &x, -1.0, &mut expected).unwrap();
    matrix.apply(&device, 2.0, &x, -1.0, &mut found).unwrap();
    assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-12));
    // 26 and -1 are exact in f16, 26e-8 is not in f32.
    for name in ["laplace27:9", "laplace27:9:scale=1e-8", "oil4c:4"] {
        let matrix = problem(name);
        let options = [("solver.preconditioner", "jacobi"), ("solver.tolerance", "1e-4")];
        let (status, x, on_host) = solve("host:1", &matrix, &options);
        assert_eq!(status, Status::Success);
        let (_, y, on_device) = solve(devices()[0], &matrix, &options);
        assert_eq!(on_device.solves[0].iterations, on_host.solves[0].iterations, "{name}");
        assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-6), "{name}");
    }
}

#[test]
fn a_stencil_can_be_solved_as_any_other_matrix() {
    let matrix = problem("laplace27:9");
    for options in
        [&[("amg.type", "unstructured")][..], &[("amg.coarsening.type", "pmis")], &[("solver.type", "direct")]]
    {
        let (status, _, report) = solve("host:1", &matrix, options);
        assert_eq!(status, Status::Success, "{options:?}");
        assert!(report.levels.iter().all(|level| !level.format.starts_with("stencil")), "{options:?}");
    }
}

#[test]
fn options_that_contradict_each_other_or_the_matrix_are_refused() {
    let context = Context::new("host:1").unwrap();
    let (on_grid, in_rows) = (problem("laplace27:4"), problem("poisson7:4"));
    let periodic = |periodic: [bool; 3]| {
        let matrix = problem("poisson5:5x5");
        matrix.set_grid(Grid { dims: [5, 5, 1], periodic }).unwrap();
        matrix
    };
    let (on_ring, on_torus) = (periodic([false, true, false]), periodic([true; 3]));
    for (matrix, options, text) in [
        (&in_rows, &[("amg.type", "structured")][..], "needs a matrix on one"),
        (&in_rows, &[("amg.coarsening.type", "grid")], "needs a matrix on one"),
        (&on_grid, &[("amg.type", "structured"), ("amg.coarsening.type", "pmis")], "accepted with it"),
        (&on_grid, &[("amg.type", "unstructured"), ("amg.coarsening.type", "grid")], "use amg.type \"structured\""),
        (&on_grid, &[("amg.interpolation.type", "extended_i")], "does not know structured grids"),
        (&in_rows, &[("amg.interpolation.type", "linear"), ("amg.coarsest.max_rows", "9")], "needs a structured grid"),
        (&in_rows, &[("amg.smoother.type", "line")], "terrace_matrix_set_grid tells the grid"),
        (&on_grid, &[("amg.type", "unstructured"), ("amg.smoother.type", "line")], "amg.type \"structured\""),
        (
            &on_ring,
            &[("amg.smoother.type", "line"), ("amg.smoother.line.axis", "xy")],
            "5 x 5 x 1 cells is periodic along y",
        ),
        (&on_torus, &[("amg.smoother.type", "line")], "periodic along all axes"),
        (
            &on_grid,
            &[("amg.smoother.type", "line"), ("amg.smoother.gauss_seidel.weight", "0.8")],
            "lines are solved for without a weight",
        ),
    ] {
        let mut all = vec![("amg.coarsest.max_rows", "9")];
        all.extend(options);
        let error = Amg::setup(&context, matrix, &config(&all)).err().unwrap();
        assert_eq!(error.status, Status::OptionValue, "{options:?}: {error}");
        assert!(error.message.contains(text), "{options:?}: {error}");
    }
}

#[test]
fn memory_is_estimated_from_a_box_of_the_grid() {
    let context = Context::new("host:2").unwrap();
    for (name, precision) in [("laplace27:40x30x36", "dp"), ("laplace27:40x30x36", "(sp,hp)"), ("solid3d:9", "dp")] {
        let (matrix, config) = (problem(name), config(&[("precision", precision)]));
        let estimate = Amg::memory_estimate(&context, &matrix, &config).unwrap() as f64;
        let held = Amg::setup(&context, &matrix, &config).unwrap().report().bytes as f64;
        assert!(estimate >= held && estimate <= 1.5 * held, "{name} {precision}: {estimate} for {held}");
    }
}

/// Values of a stencil that have changed are solved with, by the preconditioner of the old ones until it is updated.
#[test]
fn a_solve_uses_the_stencil_as_it_is_now() {
    let b = |matrix: &Matrix| (0..matrix.rows()).map(|i| 1.0 + (i % 5) as f64).collect::<Vec<f64>>();
    // |b - A x| / |b| by the products of the host.
    let residual = |matrix: &Matrix, x: &[f64]| {
        let (b, mut r) = (b(matrix), b(matrix));
        matrix.apply(&Context::new("host:1").unwrap(), -1.0, x, 1.0, &mut r).unwrap();
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        norm(&r) / norm(&b)
    };
    for device in std::iter::once("host:2").chain(devices()) {
        for in_device_memory in [false, true] {
            let (context, name) = (Context::new(device).unwrap(), "laplace27:8");
            if in_device_memory && context.gpu().is_none() {
                continue;
            }
            let given = problem(name);
            let matrix = match in_device_memory {
                true => Arc::new(given.to_device(&context).unwrap()),
                false => Arc::clone(&given),
            };
            let Values::F64(first) = given.values().unwrap() else { unreachable!("the gallery is f64") };
            let first = first.as_slice().to_vec();
            let mut solver = Solver::new(&context, &config(&[("amg.coarsest.max_rows", "20")]));
            solver.setup(Some(&matrix)).unwrap();
            // Solves with these values: age of the preconditioner and iterations.
            let mut solve = |values: Option<Vec<f64>>, update: bool| {
                if let Some(values) = values {
                    given.update_values(values.clone().into()).unwrap();
                    if in_device_memory {
                        matrix.update_values(values.into()).unwrap();
                    }
                }
                if update {
                    solver.update().unwrap();
                }
                let mut x = vec![f64::NAN; given.rows()];
                assert_eq!(solver.solve(&b(&given), &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
                let report = solver.report();
                assert!(report.levels.iter().all(|level| level.format.starts_with("stencil")), "{device}");
                assert!(residual(&given, &x) <= 1.1e-8, "{device}: {}", residual(&given, &x));
                (report.preconditioner_age, report.solves[0].iterations)
            };
            let times = |factor: f64| Some(first.iter().map(|v| factor * v).collect::<Vec<f64>>());
            let (age, iterations) = solve(None, false);
            assert_eq!(age, 0, "{device}");
            // The iteration does not depend on the units of a preconditioner that is otherwise the same.
            assert_eq!(solve(times(8.0), false), (1, iterations), "{device}");
            assert_eq!(solve(None, false), (1, iterations), "{device}");
            let shifted: Vec<f64> = first.iter().map(|v| if *v > 0.0 { 1.3 * v } else { *v }).collect();
            assert_eq!(solve(Some(shifted), false).0, 2, "{device}");
            assert_eq!(solve(None, true).0, 0, "{device}");
            assert_eq!(solve(times(1.0), true), (0, iterations), "{device}");
            // Other units are a set-up of their own, to them and back.
            let extreme = 2.0_f64.powi(664);
            assert_eq!(solve(times(extreme), false), (0, iterations), "{device}");
            assert_eq!(solve(times(4.0 * extreme), false), (1, iterations), "{device}");
            assert_eq!(solve(times(1.0), false), (0, iterations), "{device}");
        }
    }
}
