//! What a configuration asks to be printed after set-up and solve.

use crate::boundary::Result;
use crate::config::Plan;
use crate::native::Solver;
use crate::printing::print;
use std::fmt::Write;

/// The levels, and the time.
pub fn after_setup(plan: &Plan, solver: &Solver, seconds: f64) {
    if plan.print_grid_stats
        && let Ok(report) = solver.report()
    {
        print(&format!("AMG Grid:\n{}\n", report.text().trim_end()));
    }
    if plan.obtain_timings {
        print(&format!("    setup: {seconds:.6} s\n"));
    }
}

/// The residual norms, and the time.
pub fn after_solve(plan: &Plan, solver: &Solver, scale: f64, seconds: f64) -> Result<()> {
    if plan.print_solve_stats {
        let report = solver.report()?;
        let (history, mut out) = (report.history()?, String::new());
        let _ = writeln!(out, "    iter        residual          rate\n    -------------------------------------");
        let mut previous = None;
        for (iteration, relative) in history.iter().enumerate() {
            let name = if iteration == 0 { "Ini".to_string() } else { iteration.to_string() };
            let rate = previous.map_or(String::new(), |previous: f64| format!("{:.4}", relative / previous));
            let _ = writeln!(out, "    {name:>4}   {:>13.6e}   {rate:>11}", relative * scale);
            previous = Some(*relative);
        }
        let _ = writeln!(out, "    -------------------------------------");
        let _ = writeln!(out, "    Total Iterations: {}", report.int("iterations")?);
        let _ = writeln!(out, "    Final Residual: {:>21.6e}", report.real("true_residual")? * scale);
        print(&out);
    }
    if plan.obtain_timings {
        print(&format!("    solve: {seconds:.6} s\n"));
    }
    Ok(())
}
