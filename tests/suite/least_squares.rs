//! Least-squares interpolation and strength by affinity in whole hierarchies: exact on the near-null space, the same on GPUs, updated, refused
//! where they do not fit.

use crate::common::devices::rotating_devices;
use crate::gpu_setup::{config, problem};
use std::sync::Arc;
use terrace::preconditioner::LevelMatrices;
use terrace::sparse::NearNullSpace;
use terrace::{Amg, Context, Guess, Matrix, Solver, Status, gallery};

type Options = &'static [(&'static str, &'static str)];

const LEAST_SQUARES: (&str, &str) = ("amg.interpolation.type", "least_squares");
const PMIS: (&str, &str) = ("amg.coarsening.type", "pmis");
const SMOOTHING: &str = "amg.interpolation.least_squares.smoothing";
const AFFINITY: (&str, &str) = ("amg.strength.type", "affinity");

fn levels(device: &str, matrix: &Arc<Matrix>, options: Options) -> Vec<LevelMatrices> {
    let mut config = config(options);
    if !device.starts_with("host") {
        config.set_str("amg.setup", "device").unwrap();
    }
    Amg::level_matrices(&Context::new(device).unwrap(), matrix, &config).unwrap()
}

/// The unknowns by function, which are the directions of displacements: no row takes from another one, and all rigid-body modes of the body
/// are exact on every level.
#[test]
fn rigid_body_modes_are_interpolated_exactly_within_functions() {
    exact_within_functions(&[PMIS, LEAST_SQUARES]);
    exact_within_functions(&[PMIS, LEAST_SQUARES, (SMOOTHING, "energy")]);
}

fn exact_within_functions(options: Options) {
    const BODY: &str = "elasticity_jittered:5x4x5:height=0.4";
    let matrix = problem(BODY);
    let coordinates = gallery::parse(BODY).unwrap().coordinates.unwrap();
    let space = NearNullSpace::rigid_body_modes(matrix.rows(), 3, &coordinates).unwrap();
    let mut modes: Vec<Vec<f64>> = space.vectors.chunks_exact(matrix.rows()).map(<[f64]>::to_vec).collect();
    let mut functions: Vec<usize> = (0..matrix.rows()).map(|i| i % 3).collect();
    let levels = levels("host:2", &matrix, options);
    assert!(levels.len() > 2);
    for (p, _) in levels.iter().filter_map(|level| level.transfer.as_ref()) {
        let p = p.view();
        // The row of a coarse unknown has a one and nothing else.
        let mut unknown = vec![usize::MAX; p.cols];
        for i in 0..p.rows {
            let row: Vec<(usize, f64)> = p.row(i).map(|(j, w)| (j, w[0])).collect();
            if let [(j, 1.0)] = row[..] {
                assert!(unknown[j] == usize::MAX || functions[unknown[j]] == functions[i]);
                unknown[j] = unknown[j].min(i);
            }
        }
        for mode in &mut modes {
            let coarse: Vec<f64> = unknown.iter().map(|i| mode[*i]).collect();
            let size = mode.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
            for i in 0..p.rows {
                let value: f64 = p.row(i).map(|(j, w)| w[0] * coarse[j]).sum();
                assert!((value - mode[i]).abs() <= 1e-9 * size, "row {i}: {value} {}", mode[i]);
                assert!(p.row(i).all(|(j, _)| functions[unknown[j]] == functions[i]));
            }
            *mode = coarse;
        }
        functions = unknown.iter().map(|i| functions[*i]).collect();
    }
}

#[test]
fn hierarchies_are_those_of_the_host() {
    let cases: [(&str, Options); 6] = [
        ("elasticity_tet:4", &[AFFINITY]),
        ("elasticity_jittered:4:height=0.2", &[PMIS, LEAST_SQUARES, AFFINITY, ("amg.strength.connections", "6")]),
        ("elasticity:3", &[PMIS, AFFINITY, ("amg.strength.threshold", "0.4")]),
        ("elasticity:4", &[PMIS, LEAST_SQUARES, ("precision.setup", "f32"), ("amg.interpolation.max_entries", "8")]),
        (
            "elasticity_jittered:4:height=0.4",
            &[PMIS, LEAST_SQUARES, (SMOOTHING, "jacobi"), ("amg.interpolation.kept_norm", "0.95")],
        ),
        ("elasticity_jittered:4:height=0.4", &[PMIS, LEAST_SQUARES, (SMOOTHING, "energy")]),
    ];
    for (k, (name, options)) in cases.into_iter().enumerate() {
        let matrix = problem(name);
        let host = levels("host:2", &matrix, options);
        assert!(host.len() > 1);
        for device in rotating_devices(k) {
            let on_device = levels(device, &matrix, options);
            assert_eq!(host.len(), on_device.len());
            for (host, on_device) in host.iter().zip(&on_device) {
                let transfers = host.transfer.iter().zip(&on_device.transfer).map(|(h, d)| (&h.0, &d.0));
                for (h, d) in transfers.chain([(&host.a, &on_device.a)]) {
                    assert_eq!(h.view().columns, d.view().columns, "{name} with {options:?} on {device}");
                    assert_eq!(h.view().values, d.view().values, "{name} with {options:?} on {device}");
                }
            }
        }
    }
}

/// Test vectors from nothing, as many as fit no row exactly: a tolerance takes the best fits.
#[test]
fn test_vectors_are_made_where_none_are_given() {
    let matrix = problem("jumps:8");
    let made = [("amg.near_null_space.random", "4"), ("amg.near_null_space.steps", "8")];
    for options in [
        vec![PMIS, LEAST_SQUARES, ("amg.interpolation.least_squares.tolerance", "0.3"), made[0], made[1]],
        vec![PMIS, AFFINITY, made[0], made[1]],
    ] {
        let mut solver = Solver::new(&Context::new("host:1").unwrap(), &config(&options));
        solver.setup(Some(&matrix)).unwrap();
        let mut x = vec![0.0; matrix.rows()];
        assert_eq!(solver.solve(&vec![1.0; x.len()], &mut x, Guess::Zero).unwrap(), Status::Success);
        let (iterations, levels) = (solver.report().solves[0].iterations, solver.report().levels.len());
        assert!(iterations <= 25 && levels > 1, "{options:?}: {iterations} iterations, {levels} levels");
    }
}

/// With the same values an update makes the same hierarchy; with other ones a good one, on the host and on a device.
#[test]
fn an_update_keeps_distances_and_patterns() {
    let cases: [Options; 3] = [
        &[PMIS, LEAST_SQUARES],
        &[PMIS, LEAST_SQUARES, (SMOOTHING, "jacobi"), ("amg.interpolation.kept_norm", "0.95")],
        &[PMIS, LEAST_SQUARES, (SMOOTHING, "energy")],
    ];
    let all = cases.iter().enumerate();
    let devices = |k| std::iter::once("host:2").chain(rotating_devices(k));
    for (device, options) in all.flat_map(|(k, options)| devices(k).map(move |device| (device, options))) {
        let matrix = problem("elasticity_jittered:4:height=0.3");
        let mut amg = Amg::setup(&Context::new(device).unwrap(), &matrix, &config(options)).unwrap();
        let b: Vec<f64> = (0..matrix.rows()).map(|i| (i as f64).sin()).collect();
        let apply = |amg: &mut Amg| {
            let mut x = vec![f64::NAN; b.len()];
            amg.apply(&b, &mut x).unwrap();
            x
        };
        let sizes = |amg: &Amg| amg.report().levels.iter().map(|level| level.nonzeros).collect::<Vec<_>>();
        let (before, sizes_before) = (apply(&mut amg), sizes(&amg));
        for _ in 0..2 {
            amg.update().unwrap();
            assert!(apply(&mut amg) == before, "{options:?} on {device}");
            assert_eq!(sizes(&amg), sizes_before);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    let cases: [(&str, Options, &str); 6] = [
        (
            "poisson5:12",
            &[
                PMIS,
                LEAST_SQUARES,
                ("amg.interpolation.least_squares.nearest", "3"),
                ("amg.interpolation.least_squares.farthest", "2"),
            ],
            "amg.interpolation.least_squares.nearest is 3, which is more than amg.interpolation.least_squares.farthest, 2",
        ),
        ("poisson5:12", &[("amg.coarsening.type", "mis2"), LEAST_SQUARES], "\"least_squares\" needs a C/F splitting"),
        (
            "poisson5:12",
            &[PMIS, LEAST_SQUARES, ("amg.coarsening.aggressive_levels", "1")],
            "\"least_squares\" does not reach across aggressive levels",
        ),
        ("poisson5:12", &[PMIS, AFFINITY], "the matrix has none: set them or coordinates"),
        (
            "elasticity:3",
            &[AFFINITY, ("amg.strength.connections", "4"), ("amg.strength.threshold", "0.5")],
            "cannot both be given",
        ),
        (
            "poisson5:12",
            &[PMIS, ("amg.strength.type", "classical"), ("amg.strength.connections", "4")],
            "amg.strength.type is \"classical\"; use \"symmetric\" or \"affinity\"",
        ),
    ];
    for (name, options, sentence) in cases {
        let error = Solver::new(&Context::new("host:1").unwrap(), &config(options)).setup(Some(&problem(name)));
        let error = error.unwrap_err();
        assert_eq!(error.status, Status::OptionValue, "{error}");
        assert!(error.message.contains(sentence), "{error}");
    }
}
