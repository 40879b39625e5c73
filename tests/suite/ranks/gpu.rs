//! Ranks with a GPU each: the same bits for any number of them, and what they refuse.

use super::*;

#[test]
fn solves_on_gpus_have_the_same_bits_for_any_number_of_ranks() {
    let small = [("amg.coarsest.max_rows", "20"), ("amg.ranks.gathered_rows", "60")];
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("poisson7:8", &small),
        ("poisson7:8", &[("precision.preset", "single"), ("amg.coarsening.type", "pmis"), small[0], small[1]]),
        ("convection_diffusion:20", &[("solver.type", "gmres"), ("amg.smoother.type", "l1_jacobi"), small[0]]),
        ("poisson5:16", &[("precision.matrix", "f16"), ("precision.vector", "f32"), ("solver.type", "fcg"), small[0]]),
        ("poisson5:16", &[("solver.preconditioner", "jacobi")]),
        ("poisson5:16", &[("solver.preconditioner", "fsai")]),
    ];
    let each = |device: &'static str| cases.iter().map(move |(name, options)| (device, *name, *options));
    for (device, name, options) in devices().into_iter().flat_map(each) {
        let a = matrix(name);
        let n = a.rows;
        let (x, report) = solve_on(device, &a, &[0, n], options);
        assert!(true_residual(&a, &x) <= 1.1e-8, "{name} {options:?} on {device}");
        let (_, on_host) = solve(&a, &[0, n], options);
        let off = report.solves[0].iterations.abs_diff(on_host.solves[0].iterations);
        assert!(off <= 1, "{name} {options:?} on {device}: {off} iterations more or less than on the host");
        for starts in [evenly(n, 2), vec![0, 0, n / 3, n / 3, n]] {
            let (other, there) = solve_on(device, &a, &starts, options);
            assert_eq!(there.solves[0].history, report.solves[0].history, "{name} {options:?} on {device} {starts:?}");
            assert!(
                other.iter().zip(&x).all(|(o, x)| o.to_bits() == x.to_bits()),
                "{name} {options:?} on {device} {starts:?}"
            );
        }
    }
}

/// Set-up on the device, complete or divided, then another matrix.
#[test]
fn setups_on_gpus_give_the_hierarchy_of_one_rank() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("anisotropic:12x12x12", &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")]),
        ("jumps:10", &[("amg.coarsening.type", "pmis"), ("precision.preset", "single")]),
        ("poisson27:9", &[("amg.coarsening.type", "pmis"), ("amg.interpolation.max_entries", "0")]),
        ("convection_diffusion:36", &[("solver.type", "gmres"), ("amg.smoother.type", "jacobi")]),
        ("poisson7:12", &[]),
        ("jumps:10", &[("amg.coarsening.type", "mis2"), ("amg.strength.connections", "4")]),
        ("poisson5:40", &[("precision.preset", "single"), ("amg.smoother.type", "chebyshev")]),
    ];
    let each = |device: &'static str| cases.iter().map(move |(name, options)| (device, *name, *options));
    for (device, name, options) in devices().into_iter().flat_map(each) {
        let a = matrix(name);
        let with = |rows: &'static str| -> Vec<(&str, &str)> {
            let own = [("amg.setup", "device"), ("amg.coarsest.max_rows", "20"), ("amg.ranks.gathered_rows", rows)];
            [options, &own].concat()
        };
        let n = a.rows;
        let (x, report) = solve_on(device, &a, &[0, n], &with("2147483647"));
        let levels = |report: &Report| report.levels.iter().map(|l| (l.rows, l.nonzeros)).collect::<Vec<_>>();
        assert!(report.levels.len() > 2 && report.setup_place.starts_with("device"), "{name} {}", report.setup_place);
        let (_, on_host) = solve(&a, &[0, n], &[options, &[("amg.coarsest.max_rows", "20")]].concat());
        assert_eq!(levels(&on_host), levels(&report), "{name} on {device}");
        for (starts, rows) in [(evenly(n, 3), "50"), (vec![0, 0, 1, n / 2, n / 2, n], "10")] {
            let (other, there) = solve_on(device, &a, &starts, &with(rows));
            assert_eq!(levels(&there), levels(&report), "{name} on {device} {starts:?} {rows}");
            assert!(there.setup_place.starts_with("device"), "{name} {}", there.setup_place);
            assert!(other == x, "{name} on {device} {starts:?} {rows}");
        }
    }
}

#[test]
fn what_ranks_on_gpus_cannot_do_is_refused() {
    let a = matrix("poisson5:12");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("solver.type", "bicgstab")], "use \"gmres\""),
        (&[("amg.setup", "device"), ("amg.smoother.type", "fsai")], "\"fsai\" is set up on the host"),
        (&[("amg.smoother.type", "gauss_seidel")], "use \"chebyshev\""),
        (&[("solver.null_space", "constant")], "use the device \"host\""),
    ];
    let each = |device: &'static str| cases.iter().map(move |case| (device, case));
    for (device, (options, sentence)) in devices().into_iter().flat_map(each) {
        let errors = on_devices(device, threads(2), |context, rank| {
            let own = evenly(a.rows, 2)[rank]..evenly(a.rows, 2)[rank + 1];
            let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own))).unwrap());
            Solver::new(context, &config(options)).setup(Some(&matrix)).unwrap_err()
        });
        for error in errors {
            assert!(error.status == Status::Unsupported && error.message.contains(sentence), "{error}");
        }
    }
}
