//! Matrices over ranks, which are threads here: the same bits for any number of ranks, and errors on all of them.

mod alone;
mod failures;
mod gauss_seidel;
mod gpu;
mod right_hand_sides;
mod units;
mod update;

use crate::common::devices::devices;
use crate::common::skip::is_deep;
use std::ops::Range;
use std::sync::Arc;
use terrace::comm::{Communicator, threads};
use terrace::matrix::{GivenRows, Values};
use terrace::report::Report;
use terrace::sparse::Csr;
use terrace::{Config, Context, Error, Guess, Matrix, Result, Solver, Status, gallery};

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

fn right_hand_side(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 31) % 101) as f64 - 50.0).collect()
}

/// Runs `work` on each rank, with a context of its communicator, and returns the results in the order of the ranks.
fn on_ranks<R: Send>(ranks: Vec<Arc<dyn Communicator>>, work: impl Fn(&Context, usize) -> R + Sync) -> Vec<R> {
    on_devices("host:1", ranks, work)
}

/// The same on a device.
fn on_devices<R: Send>(
    device: &str,
    ranks: Vec<Arc<dyn Communicator>>,
    work: impl Fn(&Context, usize) -> R + Sync,
) -> Vec<R> {
    let run = |communicator: Arc<dyn Communicator>| {
        let context = Context::new(device).unwrap();
        let rank = communicator.rank();
        context.set_communicator(Some(&*communicator)).unwrap();
        work(&context, rank)
    };
    let run = &run;
    std::thread::scope(|scope| {
        let started: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// First rows of ranks that have about the same number.
fn evenly(n: usize, size: usize) -> Vec<usize> {
    (0..=size).map(|rank| n * rank / size).collect()
}

fn given(a: &Csr<f64>, own: Range<usize>) -> GivenRows {
    let begin = a.offsets[own.start];
    let entries = begin as usize..a.offsets[own.end] as usize;
    GivenRows {
        total: a.rows,
        first: own.start,
        offsets: a.offsets[own.start..=own.end].iter().map(|o| o - begin).collect(),
        columns: a.columns[entries.clone()].iter().map(|c| i64::from(*c)).collect(),
        values: Values::from(a.values[entries].to_vec()),
        sorted: true,
        base: 0,
    }
}

/// Solution, history and report of a solve over ranks with these first rows.
fn solve(a: &Csr<f64>, starts: &[usize], options: &[(&str, &str)]) -> (Vec<f64>, Report) {
    solve_on("host:1", a, starts, options)
}

/// The same on a device.
fn solve_on(device: &str, a: &Csr<f64>, starts: &[usize], options: &[(&str, &str)]) -> (Vec<f64>, Report) {
    let b = right_hand_side(a.rows);
    let results = on_devices(device, threads(starts.len() - 1), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(a, own.clone()))).unwrap());
        let mut solver = Solver::new(context, &config(options));
        solver.setup(Some(&matrix)).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        let mut x = vec![f64::NAN; own.len()];
        let status = solver.solve(&b[own], &mut x, Guess::Zero).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        assert_eq!(status, Status::Success, "{options:?}");
        (x, solver.report())
    });
    let reports: Vec<&Report> = results.iter().map(|(_, report)| report).collect();
    for report in &reports {
        assert_eq!(report.solves[0].history, reports[0].solves[0].history, "{options:?}");
    }
    let report = results[0].1.clone();
    (results.into_iter().flat_map(|(x, _)| x).collect(), report)
}

fn matrix(name: &str) -> Csr<f64> {
    let matrix = gallery::parse(name).unwrap().into_matrix().unwrap();
    let shared = matrix.shared::<f64>().unwrap();
    shared.view().to_scalar().unwrap()
}

fn true_residual(a: &Csr<f64>, x: &[f64]) -> f64 {
    let b = right_hand_side(a.rows);
    let norm = |r: &[f64]| r.iter().map(|r| r * r).sum::<f64>().sqrt();
    let r: Vec<f64> = (0..a.rows).map(|i| b[i] - a.view().row(i).map(|(j, v)| v[0] * x[j]).sum::<f64>()).collect();
    norm(&r) / norm(&b)
}

/// The same solve by one process without ranks.
fn alone(a: &Csr<f64>, options: &[(&str, &str)]) -> Report {
    let context = Context::new("host:1").unwrap();
    let matrix = Arc::new(Matrix::from_csr(a.clone()).unwrap());
    let mut solver = Solver::new(&context, &config(options));
    solver.setup(Some(&matrix)).unwrap();
    let mut x = vec![0.0; a.rows];
    solver.solve(&right_hand_side(a.rows), &mut x, Guess::Zero).unwrap();
    solver.report()
}

#[test]
fn solutions_and_histories_have_the_same_bits_for_any_number_of_ranks() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("poisson7:12", &[]),
        ("poisson5:60", &[("solver.preconditioner", "none")]),
        ("poisson5:60", &[("solver.preconditioner", "jacobi"), ("solver.type", "fcg")]),
        ("convection_diffusion:30", &[("solver.type", "bicgstab"), ("solver.preconditioner", "jacobi")]),
        ("convection_diffusion:30", &[("solver.type", "idr"), ("solver.preconditioner", "jacobi")]),
        ("convection_diffusion:30", &[("solver.type", "gmres"), ("amg.smoother.type", "l1_jacobi")]),
        ("poisson7:14", &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "chebyshev")]),
        ("poisson7:14", &[("amg.coarsening.type", "pmis"), ("precision.preset", "single")]),
        ("poisson5:70", &[("amg.cycle.type", "k"), ("amg.coarsening.type", "mis2"), ("amg.smoother.type", "jacobi")]),
        (
            "poisson5:50",
            &[
                ("amg.cycle.error_scaling", "energy"),
                ("amg.coarsening.type", "pairwise"),
                ("amg.interpolation.type", "tentative"),
            ],
        ),
        ("poisson7:12", &[("precision.matrix", "f16"), ("precision.vector", "f32"), ("solver.type", "fcg")]),
        ("poisson5:28", &[("solver.preconditioner", "fsai")]),
    ];
    for (case, (name, options)) in cases.iter().enumerate() {
        let a = matrix(name);
        let (x, report) = solve(&a, &[0, a.rows], options);
        let residual = true_residual(&a, &x);
        assert!(residual <= 1.1e-8, "{name} {options:?}: {residual}");
        let expected = alone(&a, options);
        let levels = |report: &Report| report.levels.iter().map(|l| (l.rows, l.nonzeros)).collect::<Vec<_>>();
        assert_eq!(levels(&report), levels(&expected), "{name} {options:?}");
        let off = report.solves[0].iterations.abs_diff(expected.solves[0].iterations);
        assert!(off <= 1, "{name} {options:?}: {off} iterations more or less than without ranks");
        // Two numbers and the two others in turn.
        let sizes = [2, 5, 3, 8];
        for size in if is_deep() { &sizes[..] } else { &sizes[case % 2 * 2..][..2] } {
            let (other, report_there) = solve(&a, &evenly(a.rows, *size), options);
            assert_eq!(report_there.solves[0].history, report.solves[0].history, "{name} {options:?} {size}");
            assert!(other.iter().zip(&x).all(|(o, x)| o.to_bits() == x.to_bits()), "{name} {options:?} {size}");
            assert_eq!(levels(&report_there), levels(&report), "{name} {options:?} {size}");
        }
    }
}

#[test]
fn ranks_may_have_no_row_or_one() {
    let a = matrix("poisson5:20");
    for options in [&[][..], &[("solver.type", "gmres"), ("solver.preconditioner", "jacobi")]] {
        let (x, _) = solve(&a, &[0, a.rows], options);
        for starts in [[0, 0, 1, 200, 200, 400], [0, 400, 400, 400, 400, 400], [0, 0, 0, 0, 399, 400]] {
            let (other, _) = solve(&a, &starts, options);
            assert!(other == x, "{starts:?} {options:?}");
        }
    }
    let empty = Csr::<f64>::from_triplets(0, 0, &[]).unwrap();
    assert!(solve(&empty, &[0, 0, 0], &[("solver.preconditioner", "none")]).0.is_empty());
    let one = Csr::from_triplets(1, 1, &[(0, 0, 2.0)]).unwrap();
    assert_eq!(solve(&one, &[0, 0, 1, 1], &[]).0, [-25.0]);
}

/// Errors of all ranks when one of them gives something wrong.
fn refused(size: usize, work: impl Fn(&Context, usize) -> Result<()> + Sync) -> Vec<Error> {
    on_ranks(threads(size), |context, rank| work(context, rank).unwrap_err())
}

#[test]
fn what_one_rank_gives_wrong_is_an_error_on_every_rank() {
    let a = matrix("poisson5:12");
    let starts = evenly(a.rows, 3);
    let own = |rank: usize| starts[rank]..starts[rank + 1];
    type Spoil = fn(&mut GivenRows);
    let wrong: &[(Spoil, Status, &str)] = &[
        (
            |rows| rows.columns[3] = 144,
            Status::MatrixStructure,
            "has column 144; the matrix has 144 columns, counted from 0",
        ),
        (|rows| rows.columns[3] = rows.columns[2], Status::MatrixStructure, "row"),
        (|rows| rows.offsets[2] = 999, Status::MatrixStructure, "row offsets must not decrease"),
        (|rows| rows.total = 145, Status::SizeMismatch, "rank 1 has a matrix of 145 rows"),
        (|rows| rows.first += 1, Status::SizeMismatch, "the first row of rank 1 is 49"),
        (|rows| rows.values = Values::from(vec![f64::NAN; rows.values.len()]), Status::MatrixValues, "row"),
        (|rows| rows.values = Values::from(vec![1.0_f32; rows.values.len()]), Status::SizeMismatch, "in f32"),
    ];
    for (spoil, status, sentence) in wrong {
        let errors = refused(3, |context, rank| {
            let mut rows = given(&a, own(rank));
            if rank == 1 {
                spoil(&mut rows);
            }
            Matrix::distributed(context, Ok(rows)).map(|_| ())
        });
        for error in errors {
            assert!(error.status == *status && error.message.contains(sentence), "{error}");
        }
    }
    let errors = refused(3, |context, rank| {
        let rows =
            if rank == 2 { Err(Error::new(Status::NullArgument, "columns is null")) } else { Ok(given(&a, own(rank))) };
        Matrix::distributed(context, rows).map(|_| ())
    });
    assert_eq!(errors[0].to_string(), "TERRACE_ERROR_NULL_ARGUMENT: rank 2 of 3: columns is null");
    assert_eq!(errors[2].to_string(), "TERRACE_ERROR_NULL_ARGUMENT: columns is null");
}

#[test]
fn a_solve_that_is_wrong_on_one_rank_fails_on_all_and_the_next_succeeds() {
    let a = matrix("poisson5:12");
    let starts = evenly(a.rows, 3);
    let b = right_hand_side(a.rows);
    let results = on_ranks(threads(3), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
        let different = config(&[("solver.max_iterations", if rank == 1 { "7" } else { "8" })]);
        let mut solver = Solver::new(context, &different);
        let options = solver.setup(Some(&matrix)).unwrap_err();
        let sequential = config(if rank == 1 { &[("amg.smoother.type", "l1_gauss_seidel")] } else { &[] });
        let mut solver = Solver::new(context, &sequential);
        let smoother = solver.setup(Some(&matrix)).unwrap_err();

        let mut solver = Solver::new(context, &Config::new());
        solver.setup(Some(&matrix)).unwrap();
        let mut x = vec![0.0; own.len() + 1];
        let short =
            solver.solve(&b[own.clone()], &mut x[..own.len() - usize::from(rank == 2)], Guess::Zero).unwrap_err();
        // Of a success before it, the next failure leaves nothing in the report.
        assert_eq!(solver.solve(&b[own.clone()], &mut x[..own.len()], Guess::Zero), Ok(Status::Success));
        let wrong = solver.solve(&vec![1.0_f32; own.len()], &mut vec![0.0_f32; own.len()], Guess::Zero).unwrap_err();
        let told: Vec<_> = solver.report().solves.iter().map(|solve| (solve.status, solve.converged)).collect();
        assert_eq!((wrong.status, &told[..]), (Status::InvalidArgument, &[(Status::NotAttempted, false)][..]));
        let mut spoilt = b[own.clone()].to_vec();
        spoilt[0] = if rank == 0 { f64::NAN } else { 1.0 };
        let nan = solver.solve(&spoilt, &mut x[..own.len()], Guess::Zero).unwrap_err();
        let end =
            solver.solve(&b[own.clone()], &mut x[..own.len()], if rank == 0 { Guess::Given } else { Guess::Zero });
        let stopped = {
            solver.set_monitor((rank == 1).then(|| -> terrace::solver::Monitor { Box::new(|p| p.iteration == 0) }));
            solver.solve(&b[own.clone()], &mut x[..own.len()], Guess::Zero)
        };
        (options, smoother, short, nan, end, stopped)
    });
    for (options, smoother, short, nan, end, stopped) in results {
        assert_eq!(options.status, Status::OptionValue);
        assert_eq!(smoother.status, Status::Unsupported);
        assert!(smoother.message.contains("use \"l1_jacobi\""), "{smoother}");
        assert_eq!((short.status, nan.status), (Status::SizeMismatch, Status::NonFinite), "{short} {nan}");
        assert_eq!((end.unwrap(), stopped.unwrap()), (Status::Success, Status::Stopped));
    }
}

#[test]
fn hints_name_nothing_that_ranks_refuse() {
    for (name, method) in [("poisson5:12", "cg"), ("poisson5:12", "auto"), ("convection_diffusion:12", "gmres")] {
        let a = matrix(name);
        let (starts, b) = (evenly(a.rows, 2), right_hand_side(a.rows));
        let said = on_ranks(threads(2), |context, rank| {
            let own = starts[rank]..starts[rank + 1];
            let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
            let options = [("solver.type", method), ("solver.max_iterations", "1"), ("amg.coarsest.max_rows", "10")];
            let mut solver = Solver::new(context, &config(&options));
            solver.setup(Some(&matrix)).unwrap();
            let mut x = vec![0.0; own.len()];
            assert_eq!(solver.solve(&b[own], &mut x, Guess::Zero), Ok(Status::NotConverged));
            solver.unsolved().unwrap().to_string()
        });
        for said in said {
            assert!(said.contains("max_iterations"), "{method}: {said}");
            assert!(!said.contains("direct") && !said.contains("convection"), "{method}: {said}");
            assert_eq!(said.contains("difficult"), method != "gmres", "{method}: {said}");
        }
    }
}

#[test]
fn new_values_are_taken_over() {
    let a = matrix("poisson5:16");
    let mut doubled = a.clone();
    doubled.values.iter_mut().for_each(|v| *v *= 2.0);
    let starts = evenly(a.rows, 3);
    let b = right_hand_side(a.rows);
    let results = on_ranks(threads(3), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
        let mut solver = Solver::new(context, &Config::new());
        solver.setup(Some(&matrix)).unwrap();
        matrix.update_values(given(&doubled, own.clone()).values).unwrap();
        let mut x = [vec![0.0; own.len()], vec![0.0; own.len()]];
        solver.solve(&b[own.clone()], &mut x[0], Guess::Zero).unwrap();
        solver.update().unwrap();
        solver.solve(&b[own], &mut x[1], Guess::Zero).unwrap();
        x
    });
    for k in 0..2 {
        let x: Vec<f64> = results.iter().flat_map(|x| x[k].clone()).collect();
        let residual = true_residual(&doubled, &x);
        assert!(residual < 1.1e-8, "{k}: {residual}");
    }
}

#[test]
fn near_null_spaces_and_functions_are_given_by_each_rank() {
    let a = matrix("elasticity:5");
    let b = right_hand_side(a.rows);
    let solve = |starts: &[usize], functions: bool| {
        let parts = on_ranks(threads(starts.len() - 1), |context, rank| {
            let own = starts[rank]..starts[rank + 1];
            let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
            if functions {
                matrix.set_functions(3, &own.clone().map(|row| (row % 3) as i32).collect::<Vec<_>>()).unwrap();
            } else {
                let constant = |k: usize| own.clone().map(move |row| f64::from(u8::from(row % 3 == k)));
                matrix.set_near_null_space(3, 3, (0..3).flat_map(constant).collect()).unwrap();
            }
            let mut solver = Solver::new(context, &Config::new());
            solver.setup(Some(&matrix)).unwrap();
            let mut x = vec![0.0; own.len()];
            assert_eq!(solver.solve(&b[own], &mut x, Guess::Zero).unwrap(), Status::Success);
            (x, solver.report())
        });
        let report = parts[0].1.clone();
        (parts.into_iter().flat_map(|(x, _)| x).collect::<Vec<f64>>(), report)
    };
    for functions in [false, true] {
        let (x, report) = solve(&[0, a.rows], functions);
        let (residual, iterations) = (true_residual(&a, &x), report.solves[0].iterations);
        assert!(residual < 1.1e-8 && iterations < 60 && report.levels.len() > 1, "{residual} {iterations}");
        for size in [2, 5] {
            let (other, there) = solve(&evenly(a.rows, size), functions);
            assert!(other == x, "{size} {functions}");
            let ranks = there.ranks.clone().unwrap();
            assert_eq!((ranks.count, ranks.rows.mean), (size, a.rows as f64 / size as f64));
            assert!(ranks.halo.min > 0 && ranks.neighbours.max <= 4 && ranks.bytes.min > 0);
            assert_eq!(ranks.levels.len(), there.levels.len());
            for (spread, level) in ranks.levels.iter().zip(&there.levels) {
                assert_eq!(spread.rows.mean * size as f64, level.rows as f64);
                assert_eq!(spread.nonzeros.mean * size as f64, level.nonzeros as f64);
            }
            let finest = &ranks.levels[0];
            let found = there.fact("level_rank_received_bytes_max", 0);
            assert_eq!(found, Some(terrace::report::Fact::Int(8 * ranks.halo.max)));
            assert_eq!((finest.neighbours.min, finest.neighbours.max), (ranks.neighbours.min, ranks.neighbours.max));
        }
    }
    // Where nodes are not cut, set-up is divided.
    let coordinates = gallery::parse("elasticity:5").unwrap().coordinates.unwrap();
    let divided = [("amg.ranks.gathered_rows", "100"), ("amg.coarsest.max_rows", "30")];
    for options in [&divided[..], &[("precision.preset", "single"), divided[0], divided[1]]] {
        let solve = |starts: &[usize]| {
            let parts = on_ranks(threads(starts.len() - 1), |context, rank| {
                let own = starts[rank]..starts[rank + 1];
                let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
                matrix.set_coordinates(3, &coordinates[own.clone()]).unwrap();
                let mut solver = Solver::new(context, &config(options));
                solver.setup(Some(&matrix)).unwrap();
                let mut x = vec![0.0; own.len()];
                assert_eq!(solver.solve(&b[own], &mut x, Guess::Zero).unwrap(), Status::Success);
                (x, solver.report().levels.iter().map(|l| (l.rows, l.nonzeros)).collect::<Vec<_>>())
            });
            let levels = parts[0].1.clone();
            (parts.into_iter().flat_map(|(x, _)| x).collect::<Vec<f64>>(), levels)
        };
        let (x, levels) = solve(&[0, a.rows]);
        assert!(true_residual(&a, &x) < 1.1e-8 && levels.len() > 1, "{levels:?}");
        let nodes = |starts: &[usize]| starts.iter().map(|start| 3 * start).collect::<Vec<_>>();
        let n = a.rows / 3;
        for starts in [nodes(&evenly(n, 2)), nodes(&evenly(n, 5)), nodes(&[0, 0, 1, n, n]), evenly(a.rows, 4)] {
            let (other, levels_there) = solve(&starts);
            assert_eq!(levels_there, levels, "{starts:?}");
            assert!(other == x, "{starts:?} {options:?}");
        }
    }
    let refused = on_ranks(threads(2), |context, rank| {
        let own = evenly(a.rows, 2)[rank]..evenly(a.rows, 2)[rank + 1];
        let matrix = Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap();
        matrix.set_near_null_space(3, 1, vec![1.0; own.len() - rank]).unwrap_err().status
    });
    assert_eq!(refused, [Status::SizeMismatch; 2]);
}

#[test]
fn a_setup_that_is_divided_gives_the_hierarchy_of_one_rank() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("poisson7:12", &[]),
        ("poisson7:12", &[("amg.coarsening.type", "pmis")]),
        ("jumps:10", &[("amg.smoother.type", "chebyshev"), ("amg.coarsening.type", "pmis")]),
        (
            "jumps:10",
            &[("amg.coarsening.type", "mis2"), ("amg.strength.threshold", "0.2"), ("precision.preset", "single")],
        ),
        ("jumps:10", &[("amg.coarsening.type", "mis2"), ("amg.strength.connections", "4")]),
        ("convection_diffusion:36", &[("solver.type", "gmres"), ("amg.smoother.type", "jacobi")]),
    ];
    for (name, options) in cases {
        let a = matrix(name);
        let with = |rows: &'static str| -> Vec<(&str, &str)> {
            [options.to_vec(), vec![("amg.ranks.gathered_rows", rows), ("amg.coarsest.max_rows", "20")]].concat()
        };
        let (x, report) = solve(&a, &[0, a.rows], &with("2147483647"));
        let levels = |report: &Report| report.levels.iter().map(|l| (l.rows, l.nonzeros)).collect::<Vec<_>>();
        assert!(report.levels.len() > 1, "{name} {options:?}");
        let n = a.rows;
        for starts in [vec![0, n], evenly(n, 2), evenly(n, 3), evenly(n, 5), vec![0, 0, 1, n / 2, n / 2, n]] {
            for rows in ["50", "10"] {
                let (other, there) = solve(&a, &starts, &with(rows));
                assert_eq!(levels(&there), levels(&report), "{name} {options:?} {starts:?} {rows}");
                assert!(other == x, "{name} {options:?} {starts:?} {rows}");
            }
        }
    }
}
