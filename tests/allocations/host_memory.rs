//! Memory that hierarchies and solvers hold on the host, as an allocator counts it: what the report says, and what an
//! estimate said before.
//!
//! One test in a process of its own, because the allocator sees every thread of the process.

use crate::HELD;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use terrace::capi::*;
use terrace::error::Status;
use terrace::gallery;
use terrace::sparse::Csr;

/// What a solver holds after set-up, a first update and a first solve, with the library's copy of the matrix, and what its
/// report and an estimate say.
struct Bytes {
    held: usize,
    told: usize,
    estimate: usize,
}

/// How the first solve is called: with so many right-hand sides, with matrix and vectors in f32, and for the transpose.
#[derive(Clone, Copy, Debug)]
struct Call {
    right_hand_sides: usize,
    in_f32: bool,
    transposed: bool,
    /// Iterations, where the problem takes many.
    limit: Option<i64>,
}

/// One right-hand side in f64.
const USUAL: Call = Call { right_hand_sides: 1, in_f32: false, transposed: false, limit: None };

fn measure(a: &Csr<f64>, preset: &CStr, flags: terrace_matrix_flags, updates: bool, call: Call) -> Bytes {
    let (n, block) = (a.rows * a.block.rows, a.block.rows as i32);
    let count = call.right_hand_sides;
    let (b, mut x) = (vec![1.0_f64; n * count], vec![0.0_f64; n * count]);
    let (b32, mut x32) = (vec![1.0_f32; n * count], vec![0.0_f32; n * count]);
    let (mut context, mut matrix, mut config) = (null_mut(), null_mut(), null_mut());
    let (mut solver, mut report) = (null_mut(), null_mut());
    let (mut told, mut estimate) = (0, 0);
    let values32: Vec<f32> = a.values.iter().map(|v| *v as f32).collect();
    let (precision, values) = match call.in_f32 {
        true => (TERRACE_F32, values32.as_ptr().cast()),
        false => (TERRACE_F64, a.values.as_ptr().cast()),
    };
    let (offsets, columns) = (a.offsets.as_ptr().cast(), a.columns.as_ptr().cast());
    let (rows, cols, wide, narrow) = (a.rows as i64, a.cols as i64, TERRACE_I64, TERRACE_I32);
    // SAFETY: handles are made and destroyed here, arrays live through all calls.
    unsafe {
        assert_eq!(terrace_context_create(c"host:1".as_ptr(), &mut context), 0);
        assert_eq!(terrace_config_create(context, &mut config), 0);
        if !preset.is_empty() {
            assert_eq!(terrace_config_load_preset(config, preset.as_ptr()), 0);
        }
        if count > 1 {
            assert_eq!(terrace_config_set_int(config, c"solver.columns".as_ptr(), count as i64), 0);
        }
        if let Some(limit) = call.limit {
            assert_eq!(terrace_config_set_int(config, c"solver.max_iterations".as_ptr(), limit), 0);
        }
        let before = HELD.load(Relaxed);
        let made = terrace_matrix_create_bsr(
            context,
            rows,
            cols,
            block,
            wide,
            offsets,
            narrow,
            columns,
            precision,
            values,
            0,
            flags,
            &mut matrix,
        );
        assert_eq!(made, 0);
        assert_eq!(terrace_solver_memory_estimate(context, matrix, config, i32::from(updates), &mut estimate), 0);
        assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
        assert_eq!(terrace_solver_setup(solver, matrix), 0);
        if updates {
            assert_eq!(terrace_solver_update(solver), 0);
        }
        let (b, x) = match call.in_f32 {
            true => (b32.as_ptr().cast(), x32.as_mut_ptr().cast()),
            false => (b.as_ptr().cast(), x.as_mut_ptr().cast()),
        };
        let solve = if call.transposed { terrace_solver_solve_transposed } else { terrace_solver_solve };
        let solved = solve(solver, precision, count as i64, b, x, TERRACE_ZERO_GUESS);
        assert!(solved == 0 || solved == Status::NotConverged.code() && call.limit.is_some(), "{solved}");
        let held = HELD.load(Relaxed) - before;
        assert_eq!(terrace_solver_report(solver, &mut report), 0);
        assert_eq!(terrace_report_get_int(report, c"bytes".as_ptr(), 0, &mut told), 0);
        terrace_report_destroy(report);
        terrace_solver_destroy(solver);
        terrace_matrix_destroy(matrix);
        assert_eq!(HELD.load(Relaxed), before, "everything is given back");
        terrace_config_destroy(config);
        terrace_context_destroy(context);
        Bytes { held, told: told as usize, estimate: estimate as usize }
    }
}

pub fn what_is_held_is_reported_and_was_estimated() {
    let problems = [
        "poisson5:60",
        "poisson7:16",
        "poisson9:60",
        "poisson27:13",
        "anisotropic:60",
        "rotated_anisotropic:60",
        "jumps:16",
        "convection_diffusion:60",
        "beam:1",
        "lshape:3",
        "lognormal:14",
        "random_m_matrix:4000",
        "hubs:3000:hubs=3,every=20",
        "elasticity:9",
        "elasticity_tet:9",
        "laplace27:14",
        "laplace_jittered:14",
        "elasticity_jittered:8",
        "rhd:16",
        "rhd3t:10",
        "oil:16",
        "oil4c:9",
        "weather:15",
        "solid3d:9",
    ];
    let mut wrong = Vec::new();
    let deep = std::env::var_os("TERRACE_DEEP").is_some();
    for (i, name) in problems.into_iter().enumerate() {
        let a = gallery::parse(name).unwrap().matrix;
        // After a solve by factors they would be held, too.
        let is_hard = ["rhd3t", "oil", "weather", "solid3d"].iter().any(|family| name.starts_with(family));
        let call = Call { limit: is_hard.then_some(5), ..USUAL };
        for flags in [0, TERRACE_BORROW] {
            for updates in [false, true] {
                // Half of the four cases for each problem, the other half for the next.
                if !deep && (i % 2 == 0) == ((flags == 0) == updates) {
                    continue;
                }
                let mut f64s = usize::MAX;
                for preset in [c"", c"poisson", c"mixed_precision"] {
                    let Bytes { held, told, estimate } = measure(&a, preset, flags, updates, call);
                    let (ratio, share) = (estimate as f64 / held as f64, told as f64 / held as f64);
                    let line = format!(
                        "{name} {preset:?}, flags {flags}, updates {updates}: {held} held, {share:.3} told, {ratio:.3} estimated"
                    );
                    println!("{line}");
                    let is_less = preset != c"mixed_precision" || held < f64s;
                    if preset.is_empty() {
                        f64s = held;
                    }
                    if !(1.0..=1.3).contains(&ratio) || !(0.95..=1.1).contains(&share) || !is_less {
                        wrong.push(line);
                    }
                }
            }
        }
    }
    // Other calls: several right-hand sides that are solved together, vectors in another precision, the transpose.
    let calls = [
        Call { right_hand_sides: 8, ..USUAL },
        Call { right_hand_sides: 4, ..USUAL },
        Call { in_f32: true, ..USUAL },
        Call { transposed: true, ..USUAL },
        Call { right_hand_sides: 8, in_f32: true, transposed: true, limit: None },
    ];
    for (i, name) in ["poisson7:16", "elasticity:9", "poisson5:60"].into_iter().enumerate() {
        let a = gallery::parse(name).unwrap().matrix;
        for (k, call) in calls.into_iter().enumerate().filter(|(k, _)| deep || (i + k) % 2 == 0) {
            let preset = if k % 2 == 0 { c"" } else { c"poisson" };
            let Bytes { held, told, estimate } = measure(&a, preset, 0, false, call);
            let (ratio, share) = (estimate as f64 / held as f64, told as f64 / held as f64);
            let line = format!("{name} {preset:?}, {call:?}: {held} held, {share:.3} told, {ratio:.3} estimated");
            println!("{line}");
            if !(1.0..=1.3).contains(&ratio) || !(0.95..=1.1).contains(&share) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
