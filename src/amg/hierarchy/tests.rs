//! Renewed hierarchies against the host's, to the bit.

use super::*;
use crate::gallery;
use crate::gpu::Gpu;
use crate::hash::hash;
use crate::host::Host;
use crate::matrix::Values;
use crate::preconditioner::Amg;

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    // Small problems shall have several levels.
    config.set_int("amg.coarsest.max_rows", 10).unwrap();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

fn builder<'a>(context: &'a Context, config: &'a Config, matrix: &'a Matrix) -> Builder<'a> {
    let near_null_space = matrix.near_null_space();
    Builder { context, config, matrix, near_null_space, functions: matrix.functions(), plan: None }
}

/// A problem of the gallery, or its blocks taken apart.
fn problem(name: &str) -> Matrix {
    let Some(name) = name.strip_prefix("scalars of ") else {
        return gallery::parse(name).unwrap().into_matrix().unwrap();
    };
    let mut problem = gallery::parse(name).unwrap();
    problem.matrix = problem.matrix.view().to_scalar().unwrap();
    problem.into_matrix().unwrap()
}

/// Other values, in one of several ways; those on the diagonal stay.
fn change(matrix: &Matrix, first: &[f64], way: usize) {
    let structure = matrix.structure().unwrap();
    let a = structure.view(first);
    let mut values = Vec::new();
    for i in 0..a.rows {
        for (j, block) in a.row(i) {
            let start = values.len();
            values.extend(block.iter().enumerate().map(|(e, v)| match (way, hash(start + e, way as u64) % 11) {
                _ if i == j => *v,
                (0, draw) => v * (1.0 + draw as f64 / 40.0),
                (1, 0) => -0.3 * v,
                (2, 0 | 1) => 0.0,
                (3, _) => 0.0,
                (5, draw) => v * (1.0 + draw as f64 / 1e6),
                _ => *v,
            }));
        }
    }
    matrix.update_values(Values::from(values)).unwrap();
}

fn same(host: &SharedCsr<f64>, on_device: &SharedCsr<f64>, what: &str) {
    let bits = |values: &[f64]| -> Vec<u64> {
        values.iter().map(|v| if v.is_nan() { f64::NAN } else { *v + 0.0 }.to_bits()).collect()
    };
    assert!(host.structure.own_arrays() == on_device.structure.own_arrays(), "the pattern of {what}");
    assert!(bits(host.values.as_slice()) == bits(on_device.values.as_slice()), "values of {what}");
}

#[test]
fn renewed_levels_are_those_of_the_host() {
    let pmis = [("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")];
    let six = [pmis[0], pmis[1], ("amg.interpolation.max_entries", "6")];
    let mis2 = [("amg.coarsening.type", "mis2"), ("amg.smoother.type", "l1_jacobi")];
    let tentative = [mis2[0], mis2[1], ("amg.interpolation.type", "tentative")];
    let keep = [pmis[0], pmis[1], ("amg.update.interpolation", "keep")];
    let aggressive = [pmis[0], pmis[1], ("amg.coarsening.aggressive_levels", "1")];
    let together = [pmis[0], pmis[1], ("amg.functions", "1")];
    let two = [aggressive[0], aggressive[1], aggressive[2], ("amg.functions", "2")];
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("poisson7:7", &pmis),
        ("poisson7:7", &aggressive),
        ("jumps:6", &aggressive),
        ("poisson27:5", &pmis),
        ("jumps:6", &six),
        ("random_m_matrix:300", &pmis),
        ("poisson7:7", &keep),
        ("poisson7:7", &mis2),
        ("elasticity:3", &mis2),
        ("elasticity:3", &pmis),
        ("elasticity:3", &together),
        ("elasticity:3", &keep),
        ("poisson7:6", &two),
        ("scalars of elasticity:3", &mis2),
        ("scalars of elasticity:3", &tentative),
    ];
    let ways = [(4, false), (0, false), (1, false), (2, false), (0, false), (3, false), (4, true), (0, false)];
    for (n, (name, options)) in cases.iter().enumerate() {
        let renewals = compare(n, name, options, &ways);
        assert!(renewals.iter().all(|renewal| !renewal.anew), "coarse unknowns stay");
    }
}

#[test]
fn renewals_that_look_at_coarse_unknowns_set_up_anew_as_the_host_does() {
    let recheck = ("amg.update.coarsening", "recheck");
    let pmis = [recheck, ("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")];
    let keep = [recheck, pmis[1], pmis[2], ("amg.update.interpolation", "keep")];
    let aggressive = [recheck, pmis[1], pmis[2], ("amg.coarsening.aggressive_levels", "1")];
    let mis2 = [recheck, ("amg.coarsening.type", "mis2"), ("amg.smoother.type", "l1_jacobi")];
    let mis2_keep = [recheck, mis2[1], mis2[2], ("amg.update.interpolation", "keep")];
    let pairwise = [recheck, ("amg.coarsening.type", "pairwise"), ("amg.smoother.type", "l1_jacobi")];
    let tentative = [recheck, mis2[1], mis2[2], ("amg.interpolation.type", "tentative")];
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("poisson7:7", &pmis),
        ("jumps:6", &pmis),
        ("poisson7:7", &keep),
        ("poisson7:7", &aggressive),
        ("poisson7:7", &mis2),
        ("elasticity:3", &mis2),
        ("elasticity:3", &mis2_keep),
        ("poisson7:7", &pairwise),
        ("elasticity:3", &tentative),
        ("elasticity:3", &pmis),
        ("elasticity:3", &keep),
    ];
    // The last ones take all couplings away, and give them back.
    let ways = [4, 4, 5, 0, 5, 1, 2, 2, 3, 3, 0];
    let mut seen = [0; 3];
    for (n, (name, options)) in cases.iter().enumerate() {
        let renewals = compare(n, name, options, &ways.map(|way| (way, false)));
        assert!(!renewals[1].anew && renewals[1].kept_levels > 0, "nothing has changed in {name}, {options:?}");
        assert!(!renewals[7].anew, "nothing has changed in {name}, {options:?}");
        assert_eq!((renewals[9].kept_levels, renewals[9].anew), (0, false), "{name}, {options:?}");
        assert!(renewals[10].anew, "{name}, {options:?}");
        for renewal in &renewals[1..] {
            seen[0] += usize::from(!renewal.anew);
            seen[1] += usize::from(renewal.anew && renewal.kept_levels == 0);
            seen[2] += usize::from(renewal.anew && renewal.kept_levels > 0);
        }
    }
    println!("kept, anew from the finest, and from other levels: {seen:?}");
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}

/// The matrices of all levels.
fn fetched<S: Components + Import>(setup: &S, levels: &Computing<'_, S, f64>) -> Vec<LevelMatrices> {
    levels.levels.iter().map(|level| level.fetch(setup).unwrap()).collect()
}

/// Sets up, and renews for other values, on the host and on simulated GPU number `n`, in each of `ways`, or sets up
/// again where they say so; the levels must be the same. Tells what each renewal did.
fn compare(n: usize, name: &str, options: &[(&str, &str)], ways: &[(usize, bool)]) -> Vec<Renewal> {
    let host_context = Context::new("host:1").unwrap();
    let host = &Host::new(&host_context);
    let matrix = problem(name);
    let Values::F64(first) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
    let first = first.as_slice().to_vec();
    let config = config(options);
    let context = Context::new(["sim:0", "sim:1"][n % 2]).ok();
    let host_builder = builder(&host_context, &config, &matrix);
    let (mut kept, mut kept_on_device) = (None, None);
    let mut renewals = Vec::new();
    for (round, (way, again)) in ways.iter().enumerate() {
        change(&matrix, &first, *way);
        if *again {
            (kept, kept_on_device) = (None, None);
        }
        let mut phases = Phases::default();
        let mut on_host = Computing::<Host, f64>::new(&host_builder, host, kept).unwrap();
        on_host.compute_all(&mut phases).unwrap();
        let (renewal, levels) = (on_host.renewal(), fetched(host, &on_host));
        kept = Some(on_host.into_symbolic());
        renewals.push(renewal);
        let what = |what: &str| format!("{what} of {name}, {options:?}, round {round}");
        if renewal.anew && renewal.kept_levels == 0 {
            let mut fresh = Computing::<Host, f64>::new(&host_builder, host, None).unwrap();
            fresh.compute_all(&mut phases).unwrap();
            let fresh = fetched(host, &fresh);
            assert_eq!(fresh.len(), levels.len(), "{}", what("levels"));
            for (i, (fresh, level)) in fresh.iter().zip(&levels).enumerate() {
                same(&fresh.a, &level.a, &what(&format!("the matrix of fresh level {i}")));
            }
        }
        let Some(context) = &context else { continue };
        let (gpu, device_builder) = (context.gpu().unwrap(), builder(context, &config, &matrix));
        let mut compute = || {
            let mut computing = Computing::<Gpu, f64>::new(&device_builder, gpu, kept_on_device.clone()).unwrap();
            computing.compute_all(&mut phases).unwrap();
            computing
        };
        let mut computing = compute();
        if kept_on_device.as_deref().is_some_and(|kept| is_incomplete(gpu, kept)) {
            computing = compute();
            assert!(!is_incomplete(gpu, kept_on_device.as_deref().unwrap()));
        }
        assert_eq!(computing.renewal(), renewal, "{}", what("the renewal"));
        let device_levels = fetched(gpu, &computing);
        assert!(levels.len() == device_levels.len() && (levels.len() > 1 || way == &3));
        for (i, (level, on_device)) in levels.iter().zip(&device_levels).enumerate() {
            let part = |part: &str| what(&format!("the {part} of level {i}"));
            same(&level.a, &on_device.a, &part("matrix"));
            if let (Some((p, r)), Some((device_p, device_r))) = (&level.transfer, &on_device.transfer) {
                same(p, device_p, &part("prolongator"));
                same(r, device_r, &part("restriction"));
            }
        }
        kept_on_device = Some(computing.into_symbolic());
    }
    renewals
}

#[test]
fn an_update_without_memory_for_symbolic_data_works_without_them() {
    let matrix = Arc::new(gallery::parse("poisson7:8").unwrap().into_matrix().unwrap());
    let options = config(&[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")]);
    let apply = |amg: &mut Amg| {
        let mut x = vec![f64::NAN; matrix.rows()];
        amg.apply(&vec![1.0; matrix.rows()], &mut x).unwrap();
        x
    };
    let Ok(context) = Context::new("sim") else { return };
    let gpu = context.gpu().unwrap();
    let mut amg = Amg::setup(&context, &matrix, &options).unwrap();
    let held = |amg: &Amg| amg.report().bytes;
    let before = held(&amg);
    gpu.reset_peak();
    amg.update().unwrap();
    assert!(held(&amg) > before, "symbolic data are counted");
    let (wanted, peak) = (apply(&mut amg), gpu.memory().peak);
    drop(amg);
    let mut worked = 0;
    for percent in (70..100).rev().step_by(5) {
        gpu.set_memory_limit(None);
        let mut amg = Amg::setup(&context, &matrix, &options).unwrap();
        gpu.set_memory_limit(Some(peak * percent / 100));
        match amg.update().and_then(|()| amg.update()) {
            Ok(()) => worked += 1,
            Err(error) => assert_eq!(error.status, Status::OutOfMemory),
        }
        assert_eq!(apply(&mut amg), wanted, "{percent} %");
    }
    assert!(worked > 0, "without symbolic data it fits");
}

#[test]
fn an_update_without_memory_for_a_new_set_up_leaves_the_hierarchy() {
    let matrix = Arc::new(gallery::parse("poisson7:7").unwrap().into_matrix().unwrap());
    let Values::F64(first) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
    let first = first.as_slice().to_vec();
    let options = config(&[("amg.update.coarsening", "recheck"), ("amg.smoother.type", "l1_jacobi")]);
    let apply = |amg: &mut Amg| {
        let mut x = vec![f64::NAN; matrix.rows()];
        amg.apply(&vec![1.0; matrix.rows()], &mut x).unwrap();
        x
    };
    let Ok(context) = Context::new("sim") else { return };
    let gpu = context.gpu().unwrap();
    let mut amg = Amg::setup(&context, &matrix, &options).unwrap();
    let (before, used) = (apply(&mut amg), gpu.memory().used);
    change(&matrix, &first, 1);
    gpu.reset_peak();
    amg.update().unwrap();
    let peak = gpu.memory().peak;
    let wanted = apply(&mut amg);
    assert!(amg.was_set_up_anew() && wanted != before);
    assert_eq!(apply(&mut Amg::setup(&context, &matrix, &options).unwrap()), wanted);

    let mut failed = 0;
    for percent in [0, 30, 60, 90] {
        change(&matrix, &first, 4);
        let mut amg = Amg::setup(&context, &matrix, &options).unwrap();
        change(&matrix, &first, 1);
        gpu.set_memory_limit(Some(gpu.memory().used + (peak - used) * percent / 100));
        let result = amg.update();
        gpu.set_memory_limit(None);
        if let Err(error) = result {
            assert_eq!(error.status, Status::OutOfMemory);
            assert!(apply(&mut amg) == before && !amg.was_set_up_anew(), "{percent} %");
            failed += 1;
        }
        amg.update().unwrap();
        assert_eq!(apply(&mut amg), wanted, "{percent} %");
    }
    assert!(failed > 1, "{failed}");
}
