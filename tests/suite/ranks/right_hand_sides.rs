//! Several right-hand sides in one call over ranks.

use super::*;

/// Status, solutions and reports of three right-hand sides in one call, and the solutions of a call for each.
#[allow(clippy::type_complexity)]
fn three(
    device: &str,
    a: &Csr<f64>,
    starts: &[usize],
    b: &[Vec<f64>; 3],
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>, Vec<(Status, Vec<f64>)>, Vec<Option<Status>>) {
    let results = on_devices(device, threads(starts.len() - 1), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(a, own.clone()))).unwrap());
        let mut solver = Solver::new(context, &config(&[("amg.coarsest.max_rows", "20")]));
        solver.setup(Some(&matrix)).unwrap();
        let together: Vec<f64> = b.iter().flat_map(|b| b[own.clone()].to_vec()).collect();
        let mut x = vec![7.0; together.len()];
        let status = solver.solve(&together, &mut x, Guess::Zero).unwrap_or_else(|error| error.status);
        let report = solver.report();
        let each = b.iter().map(|b| {
            let mut x = vec![7.0; own.len()];
            solver.solve(&b[own.clone()], &mut x, Guess::Zero).map(|_| x).unwrap_or_default()
        });
        let each: Vec<Vec<f64>> = each.collect();
        let of = |i: usize| x[i * own.len()..][..own.len()].to_vec();
        ((0..3).map(of).collect::<Vec<_>>(), each, report, status)
    });
    let joined = |part: &dyn Fn(usize) -> Vec<f64>| (0..results.len()).flat_map(part).collect::<Vec<f64>>();
    let x = (0..3).map(|i| joined(&|rank| results[rank].0[i].clone())).collect();
    let each = (0..3).map(|i| joined(&|rank| results[rank].1[i].clone())).collect();
    let reports: Vec<Vec<(Status, Vec<f64>)>> = results
        .iter()
        .map(|(_, _, report, _)| report.solves.iter().map(|solve| (solve.status, solve.history.clone())).collect())
        .collect();
    assert!(reports.iter().all(|report| *report == reports[0]), "{starts:?}: {reports:?}");
    (x, each, reports[0].clone(), results.iter().map(|result| Some(result.3)).collect())
}

#[test]
fn several_right_hand_sides_are_solved_one_after_the_other_with_the_bits_of_one_rank() {
    let a = matrix("poisson5:20");
    let n = a.rows;
    let b = [right_hand_side(n), vec![1.0; n], (0..n).map(|i| (i % 7) as f64).collect()];
    for device in std::iter::once("host:1").chain(devices()) {
        let (x, each, reports, status) = three(device, &a, &[0, n], &b);
        assert!(x == each && status == [Some(Status::Success)], "{device}: {status:?}");
        assert!(reports.len() == 3 && reports.iter().all(|(status, _)| *status == Status::Success), "{device}");
        // A rank without rows solves for as many as the others.
        for starts in [evenly(n, 2), evenly(n, 3), vec![0, 0, n / 3, n / 2, n / 2, n]] {
            let there = three(device, &a, &starts, &b);
            assert!((&there.0, &there.1, &there.2) == (&x, &each, &reports), "{device} {starts:?}");
            assert!(there.3.iter().all(|status| *status == Some(Status::Success)), "{device} {starts:?}");
        }
    }
}

#[test]
fn a_right_hand_side_that_fails_does_not_keep_the_others_from_being_solved() {
    let a = matrix("poisson5:20");
    let n = a.rows;
    let mut b = [right_hand_side(n), vec![1.0; n], vec![2.0; n]];
    b[1][n - 1] = f64::NAN;
    let (x, _, reports, status) = three("host:1", &a, &evenly(n, 3), &b);
    assert_eq!(status, [Some(Status::NonFinite); 3]);
    let statuses: Vec<Status> = reports.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [Status::Success, Status::NonFinite, Status::Success]);
    assert!(true_residual(&a, &x[0]) <= 1.1e-8 && x[1] == vec![7.0; n]);
}

#[test]
fn ranks_that_have_other_numbers_of_right_hand_sides_are_told() {
    let a = matrix("poisson5:12");
    let starts = evenly(a.rows, 3);
    let errors = refused(3, |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
        let mut solver = Solver::new(context, &Config::new());
        solver.setup(Some(&matrix)).unwrap();
        let length = own.len() * if rank == 2 { 3 } else { 2 };
        let (b, mut x) = (vec![1.0; length], vec![0.0; length]);
        let error = solver.solve(&b, &mut x, Guess::Zero).map(|_| ());
        // The next call is one as any other.
        solver.solve(&b[..own.len()], &mut x[..own.len()], Guess::Zero).unwrap();
        error
    });
    for error in errors {
        assert_eq!(error.status, Status::SizeMismatch);
        assert!(error.message.contains("2 to 3 right-hand sides"), "{error}");
    }
}
