//! When memory runs out, each call returns a status: every allocation of a page or more fails once, in turn. What the failed call was given
//! works on, and when all objects are destroyed nothing is left.
//!
//! One test in a program of its own, because the allocator sees every thread of the process. `TERRACE_DEEP=1` leaves out no allocation.

mod allocator;
mod matrices;
mod objects;
mod ranks;
mod solvers;

use allocator::{HELD, LARGE};
use matrices::matrices;
use ranks::over_ranks;
use solvers::{preconditioners, report, solver, transposed, transposed_preconditioners};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use terrace::gallery;

/// Set in the process that sees to the simulated GPU.
const OTHER: &str = "TERRACE_TEST_ALLOCATIONS_OF_SIM";

#[test]
fn each_failed_allocation_is_a_status() {
    let large = gallery::poisson5(50, 48).unwrap();
    let small = gallery::poisson5(30, 30).unwrap();
    let classical = c"{\"amg.coarsening.type\": \"pmis\"}";
    let reordered = c"{\"amg.reorder\": \"on\", \"amg.coarsening.type\": \"pmis\"}";
    let direct = c"{\"solver.type\": \"direct\"}";
    let convection = gallery::parse("convection_diffusion:30").unwrap().matrix;
    let others = [
        reordered,
        direct,
        c"{\"amg.coarsening.type\": \"hmis\", \"amg.interpolation.type\": \"direct\", \"amg.smoother.type\": \"gauss_seidel\"}",
        c"{\"amg.coarsening.type\": \"pmis\", \"amg.coarsening.aggressive_levels\": 1, \"amg.interpolation.aggressive\": \"multipass\"}",
        c"{\"amg.coarsening.type\": \"pmis\", \"amg.coarsening.aggressive_levels\": 1, \"solver.type\": \"gmres\"}",
        c"{\"amg.coarsening.type\": \"pairwise\", \"amg.interpolation.type\": \"tentative\", \"amg.cycle.type\": \"k\", \"solver.type\": \"fcg\"}",
        c"{\"amg.coarsening.type\": \"pmis\", \"amg.interpolation.type\": \"mm_ext_i\", \"precision\": \"dp-hp\", \"solver.type\": \"fcg\"}",
    ];
    let smoothers = [
        c"{\"solver.preconditioner\": \"fsai\"}",
        c"{\"amg.smoother.type\": \"fsai\"}",
        c"{\"amg.smoother.type\": \"dilu\"}",
        c"{\"amg.coarsening.type\": \"mis2\", \"amg.interpolation.type\": \"energy\"}",
        c"{\"precision\": \"auto\"}",
    ];
    let on_grids =
        [c"{\"amg.type\": \"structured\"}", c"{\"amg.type\": \"structured\", \"amg.smoother.type\": \"ilu0\"}"];
    let on_grid = gallery::parse("poisson5:50x48").unwrap().matrix;
    let blocks = gallery::parse("elasticity:5").unwrap().matrix;
    // Components and matrices of other kinds: `make deep-test`.
    let wide = std::env::var_os("TERRACE_DEEP").is_some();
    let on_host = |share: usize| {
        matrices(c"host:1", &large, 6 / share);
        matrices(c"host:3", &large, 6 / share);
        solver(c"host:3", &large, c"{}", 9 / share);
        solver(c"host:1", &large, classical, 9 / share);
        for options in others {
            solver(c"host:1", &large, options, 4 / share);
        }
        for options in smoothers.iter().filter(|_| wide) {
            solver(c"host:1", &large, options, 2 / share);
        }
        for options in on_grids.iter().filter(|_| wide) {
            solver(c"host:1", &on_grid, options, 2 / share);
        }
        for options in [c"{}", c"{\"amg.coarsening.type\": \"mis2\"}"].iter().filter(|_| wide) {
            solver(c"host:1", &blocks, options, 2 / share);
        }
        preconditioners(c"host:1", &large, 6 / share);
        report(c"host:1", &small, 50);
        for options in [direct, c"{}"] {
            transposed(c"host:1", &convection, options, 4 / share);
        }
        transposed_preconditioners(c"host:1", &convection, 4 / share);
        // Set-up by each rank, and divided.
        over_ranks(&large, c"{}", 24 / share);
        over_ranks(&large, c"{\"amg.ranks.gathered_rows\": 400, \"amg.coarsening.type\": \"pmis\"}", 24 / share);
    };
    let on_sim = |share: usize| {
        matrices(c"sim", &small, 4 / share);
        solver(c"sim", &small, c"{}", 4 / share);
        solver(c"sim", &small, classical, 4 / share);
        solver(c"sim", &small, reordered, 7 / share);
        preconditioners(c"sim", &small, 2 / share);
        report(c"sim", &small, 50);
        transposed(c"sim", &convection, direct, 4 / share);
    };
    // Another process sees to the simulated GPU at the same time.
    let is_other = std::env::var_os(OTHER).is_some();
    let mut other = (!is_other).then(|| {
        let mut command = Command::new(std::env::current_exe().expect("a test is a file"));
        command.args(["--exact", "each_failed_allocation_is_a_status", "--nocapture"]).env(OTHER, "1");
        command.spawn().expect("the test starts once more")
    });
    let work: &dyn Fn(usize) = if is_other { &on_sim } else { &on_host };
    // What is allocated once and for all is there after the first time.
    work(10);
    let before = HELD.load(Relaxed);
    work(if wide { 1 } else { 4 });
    // The queues of pools free their blocks late.
    let lost = HELD.load(Relaxed).saturating_sub(before);
    assert!(lost < 8 * LARGE, "{lost} bytes are lost");
    if let Some(other) = &mut other {
        assert!(other.wait().expect("it was started").success(), "the process with the simulated GPU failed");
    }
}
