//! Systems over ranks in any units: the exponent of scaling is that of all ranks, so no bit depends on their number.

use super::alone::setup;
use super::*;
use terrace::Precision;

type Options<'a> = &'a [(&'a str, &'a str)];

/// The rows of a rank times a factor, in f64 or f32.
fn in_units(a: &Csr<f64>, own: Range<usize>, factor: f64, precision: Precision) -> GivenRows {
    let mut rows = given(a, own.clone());
    let entries = a.offsets[own.start] as usize..a.offsets[own.end] as usize;
    rows.values = match precision {
        Precision::F32 => a.values[entries].iter().map(|v| (v * factor) as f32).collect::<Vec<_>>().into(),
        _ => a.values[entries].iter().map(|v| v * factor).collect::<Vec<_>>().into(),
    };
    rows
}

/// The solution on these ranks for A and b times factors, and its history.
fn solved(
    device: &str,
    a: &Csr<f64>,
    starts: &[usize],
    (of_a, of_b): (f64, f64),
    precision: Precision,
    options: Options,
) -> (Vec<f64>, Vec<f64>) {
    let b: Vec<f64> = (0..a.rows).map(|i| of_b * (1.0 + (i % 7) as f64)).collect();
    let what = format!("{device} {starts:?} {options:?}, A times {of_a:e}, b times {of_b:e}");
    let results = on_devices(device, threads(starts.len() - 1), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let rows = in_units(a, own.clone(), of_a, precision);
        let matrix = Arc::new(Matrix::distributed(context, Ok(rows)).unwrap());
        let mut solver = Solver::new(context, &config(options));
        solver.setup(Some(&matrix)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (status, x) = if precision == Precision::F32 {
            let (b, mut x) = (b[own.clone()].iter().map(|b| *b as f32).collect::<Vec<_>>(), vec![f32::NAN; own.len()]);
            (solver.solve(&b, &mut x, Guess::Zero), x.into_iter().map(f64::from).collect())
        } else {
            let mut x = vec![f64::NAN; own.len()];
            (solver.solve(&b[own], &mut x, Guess::Zero), x)
        };
        assert_eq!(status.unwrap_or_else(|error| panic!("{what}: {error}")), Status::Success, "{what}");
        (x, solver.report().solves[0].history.clone())
    });
    let history = results[0].1.clone();
    (results.into_iter().flat_map(|(x, _)| x).collect(), history)
}

/// Solves for each factor on 1 rank and 2 or 3 others, with the iterations of units of 1 and the same bits.
fn check(device: &str, name: &str, factors: &[(f64, f64)], precision: Precision, options: Options) {
    let a = matrix(name);
    let (wanted, expected) = solved(device, &a, &[0, a.rows], (1.0, 1.0), precision, options);
    let size = wanted.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
    let tolerance = if precision == Precision::F32 { 1e-3 } else { 1e-6 };
    // A simulated GPU takes its time: every third factor, from another one on for each method.
    let takes_all = !device.starts_with("sim") || is_deep();
    let first = options.iter().map(|(_, value)| value.len()).sum::<usize>();
    for (k, factor) in factors.iter().enumerate() {
        if !takes_all && !(first + k).is_multiple_of(3) {
            continue;
        }
        let what = format!("{name} on {device} {options:?} {factor:?}");
        let one = solved(device, &a, &[0, a.rows], *factor, precision, options);
        assert!(one.1.len().abs_diff(expected.len()) <= 1, "{what}: {} and {} norms", one.1.len(), expected.len());
        let is_near = |(x, wanted): (&f64, &f64)| (x / factor.1 * factor.0 - wanted).abs() <= tolerance * size;
        assert!(one.0.iter().zip(&wanted).all(is_near), "{what}");
        // Two and three in turn.
        for ranks in [2, 3].into_iter().filter(|ranks| is_deep() || (first + k) % 2 == ranks % 2) {
            let other = solved(device, &a, &evenly(a.rows, ranks), *factor, precision, options);
            assert!(other == one, "{what}: {ranks} ranks");
        }
    }
}

/// Factors of A and of b.
const FACTORS: &[(f64, f64)] = &[
    (1e-200, 1e-200),
    (1e-160, 1e-160),
    (1e-290, 1e-290),
    (1.0, 1e154),
    (1.0, 1e300),
    (1.0, 1e-300),
    (1e120, 1e-120),
    (1e-120, 1e120),
    (1e250, 1e250),
];

/// Small levels, set up by each rank for its rows.
const DIVIDED: [(&str, &str); 2] = [("amg.coarsest.max_rows", "20"), ("amg.ranks.gathered_rows", "50")];

#[test]
fn every_method_solves_systems_in_any_units() {
    for method in ["cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson"] {
        check("host:1", "poisson5:20", FACTORS, Precision::F64, &[("solver.type", method)]);
    }
    check("host:1", "poisson5:20", FACTORS, Precision::F64, &DIVIDED);
    let pmis = ("amg.coarsening.type", "pmis");
    check("host:1", "jumps:7", FACTORS, Precision::F64, &[pmis, DIVIDED[0], DIVIDED[1]]);
    check("host:1", "convection_diffusion:20", FACTORS, Precision::F64, &[DIVIDED[0]]);
    for preconditioner in ["fsai", "jacobi", "none"] {
        check("host:1", "poisson5:14", FACTORS, Precision::F64, &[("solver.preconditioner", preconditioner)]);
    }
    for device in devices() {
        check(device, "poisson5:12", FACTORS, Precision::F64, &DIVIDED);
        check(device, "poisson5:12", FACTORS, Precision::F64, &[("solver.preconditioner", "fsai")]);
    }
}

/// Squares of f32 leave its range from 1e19 on, and below 1e-23.
#[test]
fn systems_in_f32_are_solved_in_any_units() {
    let factors = [(1e-30, 1e-30), (1e30, 1e30), (1.0, 1e-30), (1.0, 1e30), (1e15, 1e-15), (1e-15, 1e15)];
    let f32 = ("solver.precision", "f32");
    let pmis = ("amg.coarsening.type", "pmis");
    let cases: [Options; 3] = [&DIVIDED, &[f32, pmis, DIVIDED[0], DIVIDED[1]], &[f32, ("solver.type", "gmres")]];
    for options in cases {
        check("host:1", "poisson5:16", &factors, Precision::F32, options);
        for device in devices() {
            check(device, "poisson5:12", &factors, Precision::F32, options);
        }
    }
}

/// Values of one time step after another, some of which need other units than the last.
const STEPS: [f64; 5] = [1.0, 1e-200, 1e-290, 1e220, 1.0];

#[test]
fn new_values_may_need_other_units() {
    let a = matrix("poisson5:14");
    let b = right_hand_side(a.rows);
    let on_host = [("host:1", &[][..]), ("host:1", &DIVIDED)];
    for (device, options) in on_host.into_iter().chain(devices().into_iter().map(|device| (device, &DIVIDED[..]))) {
        for updates in [true, false] {
            let run = |starts: &[usize]| {
                let results = on_devices(device, threads(starts.len() - 1), |context, rank| {
                    let own = starts[rank]..starts[rank + 1];
                    let first = in_units(&a, own.clone(), 1.0, Precision::F64);
                    let matrix = Arc::new(Matrix::distributed(context, Ok(first)).unwrap());
                    let mut solver = Solver::new(context, &config(options));
                    solver.setup(Some(&matrix)).unwrap();
                    let solved = STEPS.map(|factor| {
                        let what = format!("{device} {options:?} {starts:?} {updates} {factor:e}");
                        matrix.update_values(in_units(&a, own.clone(), factor, Precision::F64).values).unwrap();
                        if updates {
                            solver.update().unwrap_or_else(|error| panic!("{what}: {error}"));
                        }
                        let mut x = vec![f64::NAN; own.len()];
                        let status = solver.solve(&b[own.clone()], &mut x, Guess::Zero);
                        assert_eq!(status.unwrap_or_else(|error| panic!("{what}: {error}")), Status::Success, "{what}");
                        x
                    });
                    assert_eq!(solver.report().preconditioner_age, 0);
                    solved
                });
                let whole = |step: usize| results.iter().flat_map(|of| of[step].clone()).collect::<Vec<f64>>();
                [0, 1, 2, 3, 4].map(whole)
            };
            let one = run(&[0, a.rows]);
            for (x, factor) in one.iter().zip(STEPS) {
                let x: Vec<f64> = x.iter().map(|x| x * factor).collect();
                assert!(true_residual(&a, &x) < 1.1e-8, "{device} {options:?} {updates} {factor:e}");
            }
            for starts in [evenly(a.rows, 2), evenly(a.rows, 5), vec![0, 0, 7, a.rows]] {
                assert!(run(&starts) == one, "{device} {options:?} {updates} {starts:?}");
            }
        }
    }
}

/// The values of one rank alone change, so that the others must go along without changes of their own.
#[test]
fn the_units_of_one_rank_are_those_of_all() {
    let a = matrix("poisson5:14");
    let n = a.rows;
    let b = right_hand_side(n);
    // The values of the last rows are far larger than those of the first.
    let large = |starts: &[usize]| {
        let results = on_ranks(threads(starts.len() - 1), |context, rank| {
            let own = starts[rank]..starts[rank + 1];
            let factor = |row: usize| if row < n / 2 { 1.0 } else { 1e280 };
            let mut diagonal =
                Csr::<f64>::from_triplets(n, n, &(0..n).map(|i| (i, i, 1.0)).collect::<Vec<_>>()).unwrap();
            let matrix = Arc::new(Matrix::distributed(context, Ok(given(&diagonal, own.clone()))).unwrap());
            let mut solver = Solver::new(context, &config(&[("solver.preconditioner", "jacobi")]));
            solver.setup(Some(&matrix)).unwrap();
            (n / 2..n).for_each(|i| diagonal.values[i] = 2.0 * factor(i));
            if own.end > n / 2 {
                matrix.update_values(given(&diagonal, own.clone()).values).unwrap();
            }
            let mut x = vec![f64::NAN; own.len()];
            let b: Vec<f64> = own.clone().map(|i| b[i] * factor(i)).collect();
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
            (x, solver.report().preconditioner_age)
        });
        assert!(results.iter().all(|(_, age)| *age == 0), "the preconditioner is made again");
        results.into_iter().flat_map(|(x, _)| x).collect::<Vec<f64>>()
    };
    let one = large(&[0, n]);
    assert!((n / 2..n).all(|i| (one[i] - 0.5 * b[i]).abs() <= 1e-7 * b[i].abs()));
    assert!(large(&evenly(n, 2)) == one);
    // Rows of one rank without a diagonal fail on all, in an update and in a solve without one; the next values are solved.
    let results = on_ranks(threads(3), |context, rank| {
        let own = evenly(n, 3)[rank]..evenly(n, 3)[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
        let mut solver = Solver::new(context, &Config::new());
        solver.setup(Some(&matrix)).unwrap();
        let of_rows = if rank == 1 { 0.0 } else { 1e-250 };
        matrix.update_values(in_units(&a, own.clone(), of_rows, Precision::F64).values).unwrap();
        let mut x = vec![0.0; own.len()];
        let update = solver.update().unwrap_err().status;
        let solve = solver.solve(&b[own.clone()], &mut x, Guess::Zero).unwrap_err().status;
        matrix.update_values(in_units(&a, own.clone(), 1e-250, Precision::F64).values).unwrap();
        (update, solve, solver.solve(&b[own], &mut x, Guess::Zero))
    });
    for (update, solve, end) in results {
        assert_eq!((update, solve, end), (Status::MatrixValues, Status::MatrixValues, Ok(Status::Success)));
    }
}

#[test]
fn preconditioners_alone_work_in_any_units() {
    let a = matrix("anisotropic:14");
    let b = right_hand_side(a.rows);
    let small = ("amg.coarsest.max_rows", "10");
    let on_host: [(&str, &str, Options); 4] = [
        ("host:1", "amg", &[small]),
        ("host:1", "amg", &[("amg.coarsening.type", "pmis"), small, DIVIDED[1]]),
        ("host:1", "amg", &[("amg.coarsening.type", "mis2"), ("precision", "sp"), small]),
        ("host:1", "fsai", &[]),
    ];
    let on_gpu = [small, DIVIDED[1]];
    let on_gpus = devices().into_iter().map(|device| (device, "amg", &on_gpu[..]));
    for (device, method, options) in on_host.into_iter().chain(on_gpus) {
        // The applications after set-up, and after an update to units of 1.
        let applied = |starts: &[usize], factor: f64| {
            let results = on_devices(device, threads(starts.len() - 1), |context, rank| {
                let own = starts[rank]..starts[rank + 1];
                let rows = |factor| in_units(&a, own.clone(), factor, Precision::F64);
                let matrix = Arc::new(Matrix::distributed(context, Ok(rows(factor))).unwrap());
                let mut inverse = setup(method, context, &matrix, &config(options)).unwrap();
                let mut x = [factor, 1.0, factor].map(|_| vec![f64::NAN; own.len()]);
                inverse.apply(&b[own.clone()], &mut x[0]).unwrap();
                for (factor, x) in [1.0, factor].into_iter().zip(&mut x[1..]) {
                    matrix.update_values(rows(factor).values).unwrap();
                    inverse.update().unwrap();
                    inverse.apply(&b[own.clone()], x).unwrap();
                    assert_eq!(inverse.report().preconditioner_age, 0);
                }
                x
            });
            [0, 1, 2].map(|k| results.iter().flat_map(|x| x[k].clone()).collect::<Vec<f64>>())
        };
        let [wanted, ..] = applied(&[0, a.rows], 1.0);
        for k in [-900, 900] {
            let (what, factor) = (format!("{method} on {device} {options:?} 2^{k}"), 2.0_f64.powi(k));
            let one = applied(&[0, a.rows], factor);
            for (x, factor) in one.iter().zip([factor, 1.0, factor]) {
                let is_near = |(x, wanted): (&f64, &f64)| (x * factor - wanted).abs() <= 1e-6 * wanted.abs();
                assert!(x.iter().zip(&wanted).all(is_near), "{what}: {} {}", x[0] * factor, wanted[0]);
            }
            for ranks in [2, 3] {
                assert!(applied(&evenly(a.rows, ranks), factor) == one, "{what}: {ranks} ranks");
            }
        }
    }
}
