//! AMG and FSAI over ranks without a solver: what programs with a Krylov method of their own apply.

use super::{config, evenly, given, matrix, on_devices, on_ranks, right_hand_side};
use crate::common::devices::devices;
use crate::common::skip::is_deep;
use std::ops::DerefMut;
use std::sync::Arc;
use terrace::comm::threads;
use terrace::matrix::Values;
use terrace::preconditioner::Inverse;
use terrace::sparse::Csr;
use terrace::{Amg, Config, Context, Fsai, Matrix, Result, Status};

type Options<'a> = &'a [(&'a str, &'a str)];

pub(super) fn setup(
    method: &str,
    context: &Context,
    matrix: &Arc<Matrix>,
    config: &Config,
) -> Result<Box<dyn DerefMut<Target = Inverse>>> {
    Ok(match method {
        "amg" => Box::new(Amg::setup(context, matrix, config)?),
        _ => Box::new(Fsai::setup(context, matrix, config)?),
    })
}

/// M b on these ranks, after set-up, and after an update to values that are three times as large in the lower half.
fn applied(device: &str, method: &str, a: &Csr<f64>, starts: &[usize], options: Options) -> [Vec<f64>; 2] {
    let b = right_hand_side(a.rows);
    let mut changed = a.clone();
    let half = changed.values.len() / 2;
    changed.values[half..].iter_mut().for_each(|v| *v *= 3.0);
    let results = on_devices(device, threads(starts.len() - 1), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(a, own.clone()))).unwrap());
        let mut inverse = setup(method, context, &matrix, &config(options)).unwrap();
        let report = inverse.report();
        let ranks = report.ranks.unwrap();
        assert_eq!((ranks.count, inverse.rows(), report.preconditioner_age), (starts.len() - 1, own.len(), 0));
        let (mut first, mut second) = (vec![f64::NAN; own.len()], vec![f64::NAN; own.len()]);
        inverse.apply(&b[own.clone()], &mut first).unwrap();
        matrix.update_values(given(&changed, own.clone()).values).unwrap();
        assert_eq!(inverse.report().preconditioner_age, 1);
        inverse.update().unwrap();
        inverse.apply(&b[own], &mut second).unwrap();
        (first, second)
    });
    let (first, second): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    [first.concat(), second.concat()]
}

#[test]
fn applications_have_the_bits_of_one_rank() {
    let cases: &[(&str, &str, Options)] = &[
        ("amg", "poisson7:12", &[]),
        ("amg", "poisson7:14", &[("amg.coarsening.type", "pmis"), ("amg.ranks.gathered_rows", "100")]),
        ("amg", "anisotropic:40", &[("precision.matrix", "f32"), ("precision.vector", "f32")]),
        ("amg", "convection_diffusion:30", &[("amg.smoother.type", "l1_jacobi"), ("solver.type", "gmres")]),
        ("fsai", "poisson5:40", &[]),
    ];
    for (case, (method, name, options)) in cases.iter().enumerate() {
        let a = matrix(name);
        let on_gpus = if case == 0 || *method == "fsai" { devices() } else { Vec::new() };
        for device in on_gpus.into_iter().chain(["host:1"]) {
            let one = applied(device, method, &a, &[0, a.rows], options);
            // Two of three in turn.
            let starts = [evenly(a.rows, 2), evenly(a.rows, 5), vec![0, 0, 7, a.rows]];
            for (k, starts) in starts.into_iter().enumerate() {
                if !is_deep() && k == case % 3 {
                    continue;
                }
                assert!(
                    applied(device, method, &a, &starts, options) == one,
                    "{method} of {name} on {device}, {starts:?}"
                );
            }
        }
    }
}

#[test]
fn an_application_is_nearly_that_without_ranks() {
    let a = matrix("poisson7:12");
    let options: Options = &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")];
    let [over, _] = applied("host:1", "amg", &a, &evenly(a.rows, 3), options);
    let matrix = Arc::new(Matrix::from_csr(a.clone()).unwrap());
    let mut amg = Amg::setup(&Context::new("host:1").unwrap(), &matrix, &config(options)).unwrap();
    let mut alone = vec![0.0; a.rows];
    amg.apply(&right_hand_side(a.rows), &mut alone).unwrap();
    let largest = alone.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    assert!(over.iter().zip(&alone).all(|(x, y)| (x - y).abs() <= 1e-12 * largest));
}

#[test]
fn what_is_wrong_on_one_rank_fails_on_all_and_the_next_call_succeeds() {
    let a = matrix("poisson5:12");
    let starts = evenly(a.rows, 3);
    let b = right_hand_side(a.rows);
    let results = on_ranks(threads(3), |context, rank| {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
        let fails = |options: Options| Amg::setup(context, &matrix, &config(options)).map(drop).unwrap_err().status;
        let different = fails(&[("amg.max_levels", if rank == 1 { "3" } else { "4" })]);
        let sequential = fails(if rank == 2 { &[("amg.smoother.type", "l1_gauss_seidel")] } else { &[] });
        let mut amg = Amg::setup(context, &matrix, &Config::new()).unwrap();
        let mut x = vec![0.0; own.len() + 1];
        let short = amg.apply(&b[own.clone()], &mut x[..own.len() - usize::from(rank == 0)]).unwrap_err().status;
        // A row without a diagonal on one rank; the hierarchy stays as it was.
        amg.apply(&b[own.clone()], &mut x[..own.len()]).unwrap();
        let before = x.clone();
        let mut wrong = given(&a, own.clone()).values;
        if rank == 1 {
            wrong = Values::from(vec![0.0; wrong.len()]);
        }
        matrix.update_values(wrong).unwrap();
        let singular = amg.update().unwrap_err().status;
        amg.apply(&b[own.clone()], &mut x[..own.len()]).unwrap();
        (different, sequential, short, singular, x == before)
    });
    for (different, sequential, short, singular, same) in results {
        assert_eq!((different, sequential), (Status::OptionValue, Status::Unsupported));
        assert_eq!((short, singular, same), (Status::SizeMismatch, Status::MatrixValues, true));
    }
}
