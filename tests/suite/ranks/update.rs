//! Updates over ranks: the bits of one rank after the same updates, and errors on all of them.

use super::failures::Faulty;
use super::*;
use std::sync::Mutex;
use terrace::Precision;

type Options<'a> = &'a [(&'a str, &'a str)];

/// The same matrix with other values: rows and columns are scaled, each by a number of its own.
fn scaled(a: &Csr<f64>, factor: impl Fn(usize) -> f64) -> Csr<f64> {
    let mut scaled = a.clone();
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            scaled.values[k] *= factor(i) * factor(a.columns[k] as usize);
        }
    }
    scaled
}

/// A matrix, and values of two later time steps.
fn steps(a: &Csr<f64>) -> [Csr<f64>; 3] {
    let wave = |step: f64| move |i: usize| 1.0 + 0.3 * (step * i as f64).sin();
    [a.clone(), scaled(a, wave(0.7)), scaled(a, wave(1.3))]
}

/// What is compared: solutions, histories, levels with the format of their matrices, and levels that updates kept.
#[derive(Debug, PartialEq)]
struct Results {
    x: Vec<Vec<u64>>,
    histories: Vec<Vec<f64>>,
    levels: Vec<Vec<(usize, usize, Precision)>>,
    kept: Vec<(usize, bool)>,
}

/// A set-up with the first matrix, and for each of the others an update and a solve.
fn run(
    device: &str,
    steps: &[Csr<f64>],
    starts: &[usize],
    options: Options<'_>,
    prepare: &(dyn Fn(&Matrix, Range<usize>) + Sync),
) -> Results {
    let b = right_hand_side(steps[0].rows);
    let results = on_devices(device, threads(starts.len() - 1), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(&steps[0], own.clone()))).unwrap());
        prepare(&matrix, own.clone());
        let mut solver = Solver::new(context, &config(options));
        solver.setup(Some(&matrix)).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        let results = steps[1..].iter().map(|step| {
            matrix.update_values(given(step, own.clone()).values).unwrap();
            solver.update().unwrap_or_else(|error| panic!("{options:?}: {error}"));
            let mut x = vec![f64::NAN; own.len()];
            let status = solver.solve(&b[own.clone()], &mut x, Guess::Zero);
            assert_eq!(status.unwrap_or_else(|error| panic!("{options:?}: {error}")), Status::Success, "{options:?}");
            (x, solver.report())
        });
        results.collect::<Vec<_>>()
    });
    let bits = |step: usize| results.iter().flat_map(|of| of[step].0.iter().map(|x| x.to_bits())).collect();
    let reports: Vec<&Report> = results[0].iter().map(|(_, report)| report).collect();
    let levels = |report: &&Report| report.levels.iter().map(|l| (l.rows, l.nonzeros, l.matrix_precision)).collect();
    Results {
        x: (0..steps.len() - 1).map(bits).collect(),
        histories: reports.iter().map(|report| report.solves[0].history.clone()).collect(),
        levels: reports.iter().map(levels).collect(),
        kept: reports.iter().map(|report| (report.update_kept_levels, report.update_anew)).collect(),
    }
}

/// The results of one rank, which are those of ranks with these first rows; set-up is divided among them, and among the
/// first ones also done by each as a whole.
fn alike(device: &str, steps: &[Csr<f64>], options: Options<'_>, all_starts: &[Vec<usize>]) -> Results {
    let n = steps[0].rows;
    let expected = run(device, steps, &[0, n], options, &|_, _| ());
    let whole = all_starts[..1].iter().map(|starts| (starts, "2147483647"));
    for (starts, rows) in all_starts.iter().map(|starts| (starts, "50")).chain(whole) {
        let options = [options, &[("amg.ranks.gathered_rows", rows)]].concat();
        let found = run(device, steps, starts, &options, &|_, _| ());
        assert!(found == expected, "{device} {options:?} {starts:?}");
    }
    expected
}

#[test]
fn an_update_has_the_bits_of_one_rank_after_an_update() {
    let small = ("amg.coarsest.max_rows", "20");
    let cases: &[(&str, Options<'_>)] = &[
        ("poisson7:7", &[small]),
        ("jumps:7", &[("amg.coarsening.type", "pmis"), small]),
        ("jumps:7", &[("amg.coarsening.type", "pmis"), ("precision.preset", "single"), small]),
        ("jumps:7", &[("amg.coarsening.type", "mis2"), ("amg.strength.threshold", "0.2"), small]),
        ("poisson5:14", &[("amg.coarsening.type", "pmis"), ("amg.update.interpolation", "keep"), small]),
        ("convection_diffusion:14", &[("solver.type", "gmres"), ("amg.smoother.type", "jacobi"), small]),
    ];
    for (name, options) in cases {
        let a = matrix(name);
        let n = a.rows;
        let all_starts = [evenly(n, 3), evenly(n, 2), vec![0, 0, 1, n / 2, n / 2, n]];
        let results = alike("host:1", &steps(&a), options, &all_starts);
        for ((kept, anew), levels) in results.kept.iter().zip(&results.levels) {
            assert!(!anew && *kept == levels.len().saturating_sub(1), "{name} {options:?}: {kept} of {levels:?}");
        }
    }
}

#[test]
fn what_every_rank_sets_up_as_a_whole_is_updated_too() {
    let f16 = [("amg.coarsening.type", "hmis"), ("precision.matrix", "f16"), ("solver.type", "fcg")];
    let cases: [Options<'_>; 4] = [
        &[f16[0], f16[1], f16[2], ("amg.coarsest.max_rows", "20")],
        &[("solver.preconditioner", "fsai")],
        &[("solver.preconditioner", "jacobi")],
        &[("solver.preconditioner", "none")],
    ];
    let a = matrix("poisson5:14");
    for options in cases {
        let expected = run("host:1", &steps(&a), &[0, a.rows], options, &|_, _| ());
        assert!(run("host:1", &steps(&a), &evenly(a.rows, 3), options, &|_, _| ()) == expected, "{options:?}");
    }
}

#[test]
fn an_update_of_many_ranks_and_on_gpus_has_the_bits_of_one_rank() {
    let small = ("amg.coarsest.max_rows", "20");
    let a = matrix("jumps:7");
    let n = a.rows;
    for options in [&[small][..], &[("amg.coarsening.type", "pmis"), small]] {
        alike("host:1", &steps(&a)[..2], options, &[evenly(n, 5), evenly(n, 8)]);
    }
    let a = matrix("poisson5:12");
    let n = a.rows;
    for options in [&[small][..], &[("amg.coarsening.type", "pmis"), ("precision.preset", "single"), small]] {
        for device in devices() {
            alike(device, &steps(&a), options, &[evenly(n, 2), evenly(n, 3)]);
        }
    }
}

#[test]
fn an_update_that_looks_for_other_couplings_does_so_on_all_ranks_together() {
    let a = matrix("poisson5:20");
    let n = a.rows;
    // From one step to the next the couplings along one axis become weak on the rows of the last rank alone.
    let mut weak = a.clone();
    for i in 300..n {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            let j = a.columns[k] as usize;
            weak.values[k] *= if i.abs_diff(j) == 1 && j >= 300 { 1e-3 } else { 1.0 };
        }
    }
    let changed = scaled(&a, |i| 1.0 + 0.001 * (i as f64).sin());
    for coarsening in ["pmis", "mis2"] {
        let options = [
            ("amg.coarsening.type", coarsening),
            ("amg.strength.threshold", "0.1"),
            ("amg.update.coarsening", "recheck"),
            ("amg.smoother.type", "l1_jacobi"),
            ("amg.coarsest.max_rows", "20"),
        ];
        let steps = [a.clone(), changed.clone(), weak.clone(), a.clone()];
        for device in ["host:1"].into_iter().chain(devices()) {
            let results = alike(device, &steps, &options, &[evenly(n, 2), evenly(n, 4)]);
            assert!(!results.kept[0].1 && results.kept[1] == (0, true), "{coarsening}: {:?}", results.kept);
        }
    }
}

#[test]
fn nodes_are_updated_with_the_bits_of_one_rank() {
    let a = matrix("elasticity:3");
    let coordinates = gallery::parse("elasticity:3").unwrap().coordinates.unwrap();
    let prepare = |matrix: &Matrix, own: Range<usize>| matrix.set_coordinates(3, &coordinates[own]).unwrap();
    let steps = steps(&a);
    let options = [("amg.ranks.gathered_rows", "50"), ("amg.coarsest.max_rows", "12")];
    let nodes = |starts: Vec<usize>| starts.iter().map(|start| 3 * start).collect::<Vec<_>>();
    for device in ["host:1"].into_iter().chain(devices()) {
        let expected = run(device, &steps, &[0, a.rows], &options, &prepare);
        let all = expected.levels[0].len() - 1;
        assert!(all > 0 && expected.kept.iter().all(|kept| *kept == (all, false)), "{device}");
        for starts in [nodes(evenly(a.rows / 3, 2)), nodes(evenly(a.rows / 3, 3)), evenly(a.rows, 4)] {
            assert!(run(device, &steps, &starts, &options, &prepare) == expected, "{starts:?} on {device}");
        }
    }
}

#[test]
fn values_that_a_format_cannot_hold_on_one_rank_widen_it_on_all() {
    // Two squares that are not coupled; the values of the second one leave the range of f32.
    let square = matrix("poisson5:12");
    let n = square.rows;
    let triplets = (0..n).flat_map(|i| square.view().row(i).map(|(j, v)| (i, j, v[0])).collect::<Vec<_>>());
    let triplets: Vec<_> = triplets.flat_map(|(i, j, v)| [(i, j, v), (n + i, n + j, v)]).collect();
    let a = Csr::from_triplets(2 * n, 2 * n, &triplets).unwrap();
    let large = scaled(&a, |i| if i < n { 1.0 } else { 1e25 });
    let options = [("precision.preset", "single"), ("amg.coarsening.type", "pmis"), ("amg.coarsest.max_rows", "20")];
    for steps in [[a.clone(), large.clone()], [large.clone(), large]] {
        let results = alike("host:1", &steps, &options, &[evenly(2 * n, 2), evenly(2 * n, 3)]);
        assert_eq!(results.levels[0][0].2, Precision::F64);
    }
}

#[test]
fn an_update_that_fails_on_one_rank_fails_on_all_and_changes_nothing() {
    let a = matrix("poisson5:16");
    let (n, starts) = (a.rows, evenly(a.rows, 3));
    let b = right_hand_side(n);
    let mut spoilt = a.clone();
    let row = starts[1] + 5;
    let diagonal = (a.offsets[row] as usize..a.offsets[row + 1] as usize).find(|k| a.columns[*k] as usize == row);
    spoilt.values[diagonal.unwrap()] = 0.0;
    for rows in ["2147483647", "50"] {
        let options = [("amg.ranks.gathered_rows", rows), ("amg.coarsest.max_rows", "20"), ("solver.type", "cg")];
        let results = on_ranks(threads(3), |context, rank| {
            let own = starts[rank]..starts[rank + 1];
            let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
            let mut solver = Solver::new(context, &config(&options));
            let unset = solver.update().unwrap_err();
            solver.setup(Some(&matrix)).unwrap();
            let mut x = [vec![0.0; own.len()], vec![0.0; own.len()]];
            solver.solve(&b[own.clone()], &mut x[0], Guess::Zero).unwrap();
            matrix.update_values(given(&spoilt, own.clone()).values).unwrap();
            let error = solver.update().unwrap_err();
            matrix.update_values(given(&a, own.clone()).values).unwrap();
            // The preconditioner is that of the first set-up.
            solver.solve(&b[own], &mut x[1], Guess::Zero).unwrap();
            assert!(x[0] == x[1], "{rows}");
            assert_eq!(solver.report().preconditioner_age, 2);
            solver.update().unwrap();
            assert_eq!(solver.report().preconditioner_age, 0);
            (unset, error)
        });
        for (rank, (unset, error)) in results.into_iter().enumerate() {
            assert_eq!((unset.status, error.status), (Status::NotSetUp, Status::MatrixValues), "rank {rank}: {error}");
            assert!(error.message.contains(&format!("row {row}")), "rank {rank}: {error}");
        }
    }
}

/// Whether an update went well, when the communicator of rank 1 fails after so many operations. Returns at all, too.
fn survives(a: &Csr<f64>, operations: usize) -> bool {
    let starts = evenly(a.rows, 3);
    let left = Arc::new(Mutex::new(usize::MAX));
    let ranks = threads(3).into_iter().map(|inner| -> Arc<dyn Communicator> {
        if inner.rank() == 1 { Arc::new(Faulty { inner, left: Arc::clone(&left) }) } else { inner }
    });
    let ready = std::sync::Barrier::new(3);
    let results = on_ranks(ranks.collect(), |context, rank| -> Result<()> {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(a, own.clone()))).unwrap());
        let options = [("amg.coarsest.max_rows", "20"), ("amg.ranks.gathered_rows", "40")];
        let mut solver = Solver::new(context, &config(&options));
        solver.setup(Some(&matrix)).unwrap();
        solver.update().unwrap();
        ready.wait();
        if rank == 1 {
            *left.lock().unwrap() = operations;
        }
        ready.wait();
        solver.update()
    });
    let failed = results.iter().filter(|result| result.is_err()).count();
    assert!(failed == 0 || failed == 3, "after {operations} operations: {results:?}");
    failed == 0
}

#[test]
fn a_communicator_that_fails_in_an_update_fails_on_all() {
    let a = matrix("poisson5:10");
    let mut operations = 0;
    while !survives(&a, operations) {
        operations += 7;
        assert!(operations < 10_000);
    }
    assert!(operations > 20, "{operations}");
}
