//! Updates that look whether strong couplings and coarse unknowns still fit (`amg.update.coarsening` `recheck`): those that find the same are plain
//! updates, those that do not are set-ups of what is below, to the bit, on the host and on GPUs.

use crate::common::devices::devices;
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::report::Fact;
use terrace::{Amg, Config, Context, Guess, Matrix, Solver, Status, gallery};

/// Points along an axis of the square.
const N: usize = 12;

type Options = &'static [(&'static str, &'static str)];

/// Classical and aggregation hierarchies.
const COMPONENTS: &[Options] = &[
    &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")],
    &[("amg.coarsening.type", "pmis"), ("amg.coarsening.aggressive_levels", "1"), ("amg.smoother.type", "chebyshev")],
    &[("amg.coarsening.type", "pmis"), ("amg.interpolation.type", "direct"), ("amg.smoother.type", "jacobi")],
    &[("amg.coarsening.type", "pmis"), ("amg.interpolation.type", "least_squares"), ("amg.smoother.type", "chebyshev")],
    &[("amg.coarsening.type", "hmis"), ("amg.smoother.type", "l1_jacobi")],
    &[("amg.coarsening.type", "mis2"), ("amg.smoother.type", "chebyshev")],
    &[("amg.coarsening.type", "mis2"), ("amg.interpolation.type", "tentative"), ("amg.smoother.type", "l1_jacobi")],
    &[("amg.coarsening.type", "pairwise"), ("amg.smoother.type", "l1_jacobi"), ("amg.interpolation.kept_norm", "0.95")],
    &[("amg.coarsening.type", "pmis"), ("amg.update.interpolation", "keep"), ("amg.smoother.type", "l1_jacobi")],
    &[("amg.coarsening.type", "mis2"), ("amg.update.interpolation", "keep"), ("amg.smoother.type", "l1_jacobi")],
    &[("amg.coarsening.type", "pmis"), ("precision.matrix", "f16"), ("precision.vector", "f32")],
];

const RECHECK: (&str, &str) = ("amg.update.coarsening", "recheck");

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    // Small problems shall have several levels.
    config.set_int("amg.coarsest.max_rows", 10).unwrap();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    config
}

fn with_recheck(options: &[(&str, &str)]) -> Config {
    config(&[options, &[RECHECK]].concat())
}

fn all_devices() -> Vec<&'static str> {
    std::iter::once("host:2").chain(devices()).collect()
}

/// Diffusion on a square, as strong along the two axes as these numbers say; the pattern is the same for all.
fn square(along: [f64; 2]) -> Arc<Matrix> {
    let matrix = gallery::parse(&format!("poisson5:{N}")).unwrap().into_matrix().unwrap();
    matrix.update_values(values(&matrix, along)).unwrap();
    Arc::new(matrix)
}

fn values(matrix: &Matrix, [x, y]: [f64; 2]) -> Values {
    let Values::F64(old) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
    let structure = matrix.structure().unwrap();
    let a = structure.view(old.as_slice());
    let value = |i: usize, j: usize| match i.abs_diff(j) {
        0 => 2.0 * (x + y),
        1 => -x,
        _ => -y,
    };
    Values::from((0..a.rows).flat_map(|i| a.row(i).map(move |(j, _)| value(i, j))).collect::<Vec<f64>>())
}

/// What a cycle makes of a vector.
fn apply(amg: &mut Amg) -> Vec<u64> {
    let b: Vec<f64> = (0..amg.rows()).map(|i| ((i * 37 % 101) as f64).sin()).collect();
    let mut x = vec![f64::NAN; b.len()];
    amg.apply(&b, &mut x).unwrap();
    x.iter().map(|x| x.to_bits()).collect()
}

fn sizes(amg: &Amg) -> Vec<(usize, usize)> {
    amg.report().levels.iter().map(|level| (level.rows, level.nonzeros)).collect()
}

/// `update_kept_levels` and `update_anew`.
fn told(amg: &Amg) -> (i64, i64) {
    let report = amg.report();
    let int = |key: &str| match report.fact(key, 0) {
        Some(Fact::Int(value)) => value,
        other => panic!("{key} is {other:?}"),
    };
    (int("update_kept_levels"), int("update_anew"))
}

#[test]
fn the_same_coarse_unknowns_make_a_plain_update() {
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        for options in COMPONENTS.iter().copied() {
            let what = format!("{options:?} on {device}");
            let matrix = square([1.0, 1e-2]);
            let mut plain = Amg::setup(&context, &matrix, &config(options)).unwrap();
            let mut rechecked = Amg::setup(&context, &matrix, &with_recheck(options)).unwrap();
            assert_eq!(apply(&mut plain), apply(&mut rechecked), "{what}");
            assert_eq!(told(&rechecked), (0, 0), "{what}");
            let steps = plain.report().levels.len() as i64 - 1;
            assert!(steps > 1, "{what}");
            // The second time goes the way of what the first has found.
            for x in [1.0 + 1e-7, 1.0 - 1e-7] {
                matrix.update_values(values(&matrix, [x, 1e-2])).unwrap();
                plain.update().unwrap();
                rechecked.update().unwrap();
                assert_eq!((told(&plain), told(&rechecked)), ((steps, 0), (steps, 0)), "{what}");
                assert_eq!(apply(&mut plain), apply(&mut rechecked), "{what}");
            }
        }
    }
}

#[test]
fn an_anisotropy_that_turns_makes_a_new_hierarchy() {
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        for options in COMPONENTS.iter().copied() {
            let what = format!("{options:?} on {device}");
            let matrix = square([1.0, 1e-2]);
            let mut amg = Amg::setup(&context, &matrix, &with_recheck(options)).unwrap();
            let first = sizes(&amg);
            // From a hierarchy as set up, and from one that was updated.
            for along in [[1e-2, 1.0], [1e-2, 1.0 + 1e-7], [1.0, 2e-2]] {
                matrix.update_values(values(&matrix, along)).unwrap();
                amg.update().unwrap();
                let (kept, anew) = told(&amg);
                if along[1] == 1.0 + 1e-7 {
                    assert_eq!((kept, anew), (sizes(&amg).len() as i64 - 1, 0), "{what}");
                    continue;
                }
                assert_eq!((kept, anew), (0, 1), "{what}");
                let mut fresh = Amg::setup(&context, &matrix, &with_recheck(options)).unwrap();
                assert_eq!(sizes(&amg), sizes(&fresh), "{what}");
                assert_eq!(apply(&mut amg), apply(&mut fresh), "{what}");
                let text = amg.report().to_text();
                assert!(text.contains("the last update set up anew from level 0 on"), "{text}");
                // What is kept now is what a set-up would have kept.
                amg.update().unwrap();
                fresh.update().unwrap();
                assert_eq!(told(&amg), told(&fresh), "{what}");
                assert_eq!(apply(&mut amg), apply(&mut fresh), "{what}");
                assert_eq!(amg.report().bytes, fresh.report().bytes, "{what}");
            }
            assert_eq!(first[0], sizes(&amg)[0]);
        }
    }
}

/// Without truncation, and with estimates by the power method, which goes by no earlier one, renewed interpolations have the bits of new ones, and
/// so has everything below.
#[test]
fn levels_below_the_first_that_differs_are_set_up_anew() {
    const UNTRUNCATED: &[Options] = &[
        &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi"), ("amg.interpolation.max_entries", "0")],
        &[
            ("amg.coarsening.type", "mis2"),
            ("amg.smoother.type", "l1_jacobi"),
            ("amg.eigenvalue.method", "power"),
            ("amg.strength.threshold", "0.06"),
        ],
        &[
            ("amg.coarsening.type", "mis2"),
            ("amg.interpolation.type", "tentative"),
            ("amg.smoother.type", "l1_jacobi"),
            ("amg.strength.threshold", "0.06"),
        ],
    ];
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        for options in UNTRUNCATED.iter().copied() {
            let mut between = 0;
            for y in [0.7, 0.5, 0.3] {
                let what = format!("{y}, {options:?} on {device}");
                let matrix = square([1.0, 1.0]);
                let mut amg = Amg::setup(&context, &matrix, &with_recheck(options)).unwrap();
                matrix.update_values(values(&matrix, [1.0, y])).unwrap();
                amg.update().unwrap();
                let (kept, anew) = told(&amg);
                between += usize::from(kept > 0 && anew == 1);
                let mut fresh = Amg::setup(&context, &matrix, &with_recheck(options)).unwrap();
                assert_eq!(sizes(&amg), sizes(&fresh), "{what}, {kept} levels kept");
                assert_eq!(apply(&mut amg), apply(&mut fresh), "{what}, {kept} levels kept");
            }
            assert!(between > 0, "no level but the finest was the first to differ: {options:?} on {device}");
        }
    }
}

#[test]
fn updates_keep_coarse_unknowns_unless_asked() {
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        let (matrix, options) = (square([1.0, 1e-2]), COMPONENTS[0]);
        let mut plain = Amg::setup(&context, &matrix, &config(options)).unwrap();
        let keep = [options, &[("amg.update.coarsening", "keep")]].concat();
        let mut kept = Amg::setup(&context, &matrix, &config(&keep)).unwrap();
        let first = sizes(&plain);
        matrix.update_values(values(&matrix, [1e-2, 1.0])).unwrap();
        plain.update().unwrap();
        kept.update().unwrap();
        assert_eq!((sizes(&plain), sizes(&kept)), (first.clone(), first.clone()), "{device}");
        assert_eq!(told(&plain), (first.len() as i64 - 1, 0), "{device}");
        assert_eq!(apply(&mut plain), apply(&mut kept), "{device}");
        let mut fresh = Amg::setup(&context, &matrix, &config(options)).unwrap();
        assert_ne!(apply(&mut fresh), apply(&mut kept), "{device}: else there was nothing to recheck");
    }
    let error = Config::new().set_str("amg.update.coarsening", "renew").unwrap_err();
    assert_eq!(error.status, Status::OptionValue);
    assert!(error.message.contains("amg.update.coarsening") && error.message.contains("keep, recheck"), "{error}");
}

#[test]
fn an_update_that_fails_leaves_the_hierarchy() {
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        let matrix = square([1.0, 1e-2]);
        let options = [("precision.matrix", "f16"), ("precision.vector", "f32"), ("precision.scaling", "none")];
        let mut amg = Amg::setup(&context, &matrix, &with_recheck(&options)).unwrap();
        let (before, levels) = (apply(&mut amg), sizes(&amg));
        // The coarse unknowns are others, and there is no such number in f16.
        matrix.update_values(values(&matrix, [1e4, 1e6])).unwrap();
        assert_eq!(amg.update().unwrap_err().status, Status::PrecisionLost, "{device}");
        assert_eq!((told(&amg), sizes(&amg)), ((0, 0), levels), "{device}");
        // On the host, and unscaled, the finest level of the solve phase is a copy that was made in set-up.
        assert_eq!(apply(&mut amg), before, "{device}");
        matrix.update_values(values(&matrix, [1e-2, 1.0])).unwrap();
        amg.update().unwrap();
        assert_eq!(told(&amg), (0, 1), "{device}");
        let mut fresh = Amg::setup(&context, &matrix, &with_recheck(&options)).unwrap();
        assert_eq!(apply(&mut amg), apply(&mut fresh), "{device}");
    }
}

#[test]
fn a_solver_takes_the_method_that_suits_new_levels() {
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        // No couplings: one level, which is inverted. With levels below, sweeps are more before than after the correction.
        let matrix = square([1.0, 1.0]);
        let diagonal = gallery::parse(&format!("poisson5:{N}")).unwrap().matrix;
        let rows =
            (0..diagonal.rows).flat_map(|i| diagonal.view().row(i).map(move |(j, _)| (i, j)).collect::<Vec<_>>());
        let alone: Vec<f64> = rows.map(|(i, j)| if i == j { 4.0 } else { 0.0 }).collect();
        matrix.update_values(Values::from(alone)).unwrap();
        let options = [("amg.smoother.pre_sweeps", "2"), ("amg.smoother.post_sweeps", "1"), ("solver.type", "auto")];
        let mut solver = Solver::new(&context, &with_recheck(&options));
        solver.setup(Some(&matrix)).unwrap();
        assert_eq!((solver.report().levels.len(), solver.report().solver.as_str()), (1, "cg f64"), "{device}");

        matrix.update_values(values(&matrix, [1.0, 1.0])).unwrap();
        solver.update().unwrap();
        let b = vec![1.0; matrix.rows()];
        let mut x = vec![f64::NAN; b.len()];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
        let report = solver.report();
        assert!(report.levels.len() > 1 && report.update_anew, "{device}");
        assert_eq!(report.solver, "fcg f64", "{device}");
        let mut fresh = Solver::new(&context, &with_recheck(&options));
        fresh.setup(Some(&matrix)).unwrap();
        let mut wanted = vec![f64::NAN; b.len()];
        fresh.solve(&b, &mut wanted, Guess::Zero).unwrap();
        assert_eq!(x, wanted, "{device}");
    }
}
