//! Precisions on a GPU: the whole gallery in every named choice of formats takes the host's iterations, vectors stay in their range, and what
//! is lost is told. On `cuda:0`, where TERRACE_TEST_CUDA is set, with larger problems.

use crate::common::devices::{devices, rotating_devices};
use crate::common::skip::is_deep;
use std::sync::Arc;
use terrace::{Amg, Config, Context, Guess, Matrix, Report, Solver, Status, gallery};

/// Keys and values.
type Options = &'static [(&'static str, &'static str)];

/// Problems for simulated GPUs, for `cuda:0`, and options beside the formats.
const PROBLEMS: &[(&str, &str, Options)] = &[
    ("poisson5:16", "poisson5:300", &[]),
    ("poisson9:12", "poisson9:300", &[]),
    ("poisson7:7", "poisson7:40", &[]),
    // Rows are so long that the default is another one on GPUs.
    ("poisson27:7", "poisson27:32", &[("amg.coarsening.type", "pmis")]),
    ("anisotropic:16", "anisotropic:200", &[]),
    ("rotated_anisotropic:12", "rotated_anisotropic:100", &[]),
    ("jumps:6:contrast=1e4", "jumps:24:contrast=1e3", &[]),
    ("convection_diffusion:14", "convection_diffusion:150", &[("solver.type", "fgmres")]),
    ("beam:1:order=2", "beam:2", &[]),
    ("lshape:2:order=2", "lshape:3", &[]),
    ("elasticity:4", "elasticity:16", &[]),
    ("elasticity_tet:4", "elasticity_tet:16", &[]),
    ("elasticity_jittered:4", "elasticity_jittered:16", &[]),
    ("laplace_jittered:6:height=0.1", "laplace_jittered:32:height=0.1", &[]),
    ("lognormal:7", "lognormal:32", &[]),
    ("random_m_matrix:300", "random_m_matrix:30000", &[]),
    ("hubs:300:hubs=2,every=3", "hubs:6000:hubs=2,every=3", &[]),
];

fn config(precision: &str, options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    // Small problems shall have several levels. Formats differ from level to level, so conjugate gradients must be flexible.
    config.set_int("amg.coarsest.max_rows", 6).unwrap();
    config.set_str("solver.type", "fcg").unwrap();
    config.set_str("precision", precision).unwrap();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

/// A right-hand side whose solution is not the same as those of Laplacians with ones, and of this size.
fn right_hand_side(n: usize, size: f64) -> Vec<f64> {
    (0..n).map(|i| size * (1.0 + (i % 7) as f64)).collect()
}

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

/// The solution to 1e-8, and the report, or why there is none.
fn solve(device: &str, matrix: &Arc<Matrix>, config: &Config, size: f64) -> terrace::Result<(Vec<f64>, Report)> {
    let mut solver = Solver::new(&Context::new(device)?, config);
    solver.setup(Some(matrix))?;
    let mut x = vec![f64::NAN; matrix.rows()];
    let status = solver.solve(&right_hand_side(matrix.rows(), size), &mut x, Guess::Zero)?;
    assert_eq!(status, Status::Success, "{device}");
    Ok((x, solver.report()))
}

/// Every problem takes the iterations of the host, or one more or less, and gives the same bits twice. Simulated ones are every other problem
/// for each of the precisions, the others for the next of them; with TERRACE_DEEP set all.
fn whole_gallery(number: usize, precision: &str) {
    let mut failures = String::new();
    for device in devices() {
        for (i, (small, large, options)) in PROBLEMS.iter().enumerate() {
            if device != "cuda:0" && !(i + number).is_multiple_of(2) && !is_deep() {
                continue;
            }
            let name = if device == "cuda:0" { large } else { small };
            let (matrix, config) = (problem(name), config(precision, options));
            let runs = ["host:2", device].map(|device| solve(device, &matrix, &config, 1.0));
            let [Ok((_, host)), Ok((x, on_device))] = &runs else {
                let told = runs.iter().map(|run| run.as_ref().err().map(|error| error.message.clone()));
                failures += &format!("{name} on {device}: {:?}\n", told.collect::<Vec<_>>());
                continue;
            };
            // A simulation runs its threads in one order, so that one problem is enough there.
            let repeats = device == "cuda:0" || i < 2;
            let equal = !repeats || solve(device, &matrix, &config, 1.0).is_ok_and(|(again, _)| again == *x);
            let (wanted, found) = (host.solves[0].iterations, on_device.solves[0].iterations);
            let formats = |report: &Report| {
                let of =
                    |l: &terrace::report::LevelReport| (l.matrix_precision, l.vector_precision, l.transfer_precision);
                report.levels.iter().map(of).collect::<Vec<_>>()
            };
            assert_eq!(formats(host), formats(on_device), "{name} on {device}");
            let levels = on_device.levels.len();
            assert!(
                levels > 2,
                "{name} has {levels} levels: {:?}",
                on_device.levels.iter().map(|l| l.rows).collect::<Vec<_>>()
            );
            assert!(on_device.promotions == host.promotions, "{name} on {device}: {:?}", on_device.promotions);
            if found.abs_diff(wanted) > 1 || !equal || on_device.solves[0].true_residual > 1e-8 {
                failures += &format!("{name} on {device}: {found} iterations, host {wanted}; equal: {equal}\n");
            }
        }
    }
    assert!(failures.is_empty(), "{precision}:\n{failures}");
}

macro_rules! whole_gallery {
    ($($test:ident $number:literal $precision:expr;)*) => {
        $(
            #[test]
            fn $test() {
                whole_gallery($number, $precision);
            }
        )*
    };
}

whole_gallery! {
    the_gallery_in_dp 0 "dp";
    the_gallery_in_dp_sp 1 "dp-sp";
    the_gallery_in_dp_sp_hp 2 "dp-sp-hp";
    the_gallery_in_dp_hp 3 "dp-hp";
    the_gallery_in_dp_sp_bf 3 "dp-sp-bf";
    the_gallery_in_dp_bf 2 "dp-bf";
    the_gallery_in_a_pair 4 "(dp-sp,hp)";
    the_gallery_in_auto 5 "auto";
}

/// Multigrid on these is another hierarchy, whose solves on devices are in `structured.rs`.
const ON_GRIDS: [&str; 7] = ["laplace27", "rhd", "rhd3t", "oil", "oil4c", "weather", "solid3d"];

#[test]
fn every_family_has_a_line_here() {
    for family in gallery::FAMILIES.iter().filter(|family| !ON_GRIDS.contains(&family.name)) {
        let solved = PROBLEMS.iter().any(|(problem, ..)| problem.split(':').next() == Some(family.name));
        assert!(solved, "{} is not solved", family.name);
    }
}

#[test]
fn auto_chooses_narrow_formats_and_takes_the_iterations_of_the_host() {
    let matrix = problem("poisson27:9");
    let config = config("auto", &[("amg.coarsening.type", "pmis")]);
    let (_, host) = solve("host:2", &matrix, &config, 1.0).unwrap();
    assert_eq!(host.levels[0].matrix_precision.name(), "f16");
    for device in devices() {
        let (_, on_device) = solve(device, &matrix, &config, 1.0).unwrap();
        assert_eq!(on_device.levels[0].matrix_precision.name(), "f16");
        assert!(on_device.solves[0].iterations.abs_diff(host.solves[0].iterations) <= 1, "{device}");
    }
}

#[test]
fn vectors_of_16_bits_work_whatever_the_size_of_the_right_hand_side() {
    let matrix = problem("poisson7:8");
    for (p, precision) in ["dp-hp", "hp", "dp-bf", "bf", "sp"].iter().enumerate() {
        let config = config(precision, &[]);
        for (s, size) in [1.0, 1e-30, 1e-100, 1e20, 1e60].into_iter().enumerate() {
            let (_, host) = solve("host:2", &matrix, &config, size).unwrap();
            // Three sizes of each precision on simulated devices.
            let left_out = (2 * p + s) % 5 > 2 && !is_deep();
            for device in rotating_devices(p + s).into_iter().filter(|device| *device == "cuda:0" || !left_out) {
                let (_, on_device) = solve(device, &matrix, &config, size).unwrap();
                let (wanted, found) = (host.solves[0].iterations, on_device.solves[0].iterations);
                assert!(found.abs_diff(wanted) <= 1, "{precision}, {size:e} on {device}: {found} against {wanted}");
            }
        }
    }
}

#[test]
fn sums_in_16_bits_and_gauss_seidel_take_the_iterations_of_the_host() {
    let unscaled = [("precision.residual_scaling", "none"), ("precision.accumulate", "storage")];
    let smoother = [("amg.smoother.type", "gauss_seidel"), ("precision.smoother", "bf16")];
    for (name, precision, options) in [
        ("poisson7:7", "dp-bf", unscaled),
        ("elasticity:4", "dp-bf", unscaled),
        ("poisson7:7", "dp-bf", smoother),
        ("elasticity:4", "dp-sp-bf", smoother),
    ] {
        let (matrix, config) = (problem(name), config(precision, &options));
        let (_, host) = solve("host:2", &matrix, &config, 1.0).unwrap();
        for device in devices() {
            let (_, on_device) = solve(device, &matrix, &config, 1.0).unwrap();
            let (wanted, found) = (host.solves[0].iterations, on_device.solves[0].iterations);
            assert!(found.abs_diff(wanted) <= 1, "{name} {options:?} on {device}: {found} against {wanted}");
        }
    }
}

#[test]
fn what_overflows_is_an_error_that_names_the_level_or_under_auto_promoted() {
    let unscaled = ("precision.residual_scaling", "none");
    let matrix = problem("poisson7:10");
    let n = matrix.rows();
    for (m, method) in ["cg", "fcg", "bicgstab", "richardson"].into_iter().enumerate() {
        // Methods that apply the preconditioner to residuals; GMRES applies it to vectors of length 1.
        for device in rotating_devices(m) {
            let options = [unscaled, ("solver.type", method)];
            let error = solve(device, &matrix, &config("dp-sp-hp", &options), 1e9).err();
            let error = error.unwrap_or_else(|| panic!("{method} on {device} solves it"));
            assert_eq!(error.status, Status::PrecisionLost, "{method} on {device}: {error}");
            let told = "level 2: numbers beyond the range of its vectors (f16)";
            assert!(error.message.starts_with(told), "{method} on {device}: {error}");
        }
    }
    for device in devices() {
        let context = Context::new(device).unwrap();
        let mut amg = Amg::setup(&context, &matrix, &config("dp-sp", &[unscaled])).unwrap();
        for _ in 0..3 {
            let error = amg.apply(&vec![1e60; n], &mut vec![0.0; n]).unwrap_err();
            assert!(error.message.starts_with("level 1: "), "{device}: {error}");
        }
        // What is not finite before the cycle is not lost in it.
        amg.apply(&vec![f64::NAN; n], &mut vec![0.0; n]).unwrap();
    }
    // Set-up does not see what a solve will be asked for.
    let matrix = problem("poisson27:9");
    for (m, method) in ["fcg", "richardson"].into_iter().enumerate() {
        for device in rotating_devices(m) {
            let options = [unscaled, ("solver.type", method)];
            let (x, report) = solve(device, &matrix, &config("auto", &options), 1e60).unwrap();
            let [first, ..] = &report.promotions[..] else { panic!("nothing was promoted") };
            assert!(first.starts_with("level 0 promoted: level 0: numbers"), "{first}");
            assert_eq!(report.levels[0].vector_precision.name(), "f64");
            assert!(x.iter().all(|x| x.is_finite()) && report.solves[0].true_residual <= 1e-8);
        }
    }
}
