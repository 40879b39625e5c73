//! `AMGX_solver_handle`: a solver with its configuration, set up for a matrix.

mod residual;
mod statistics;

use crate::boundary::{Failure, Result, call, fail, required, write};
use crate::config::{Config, Plan};
use crate::handles::{self, lock};
use crate::matrix::{Matrix, Uploaded};
use crate::mode::Mode;
use crate::native;
use crate::printing::print;
use crate::ranks::{Ranks, agree};
use crate::resources::Resources;
use crate::vector::Vector;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use terrace::Status;
use terrace::capi::ContextVector;

/// A solver.
pub struct Solver {
    resources: Arc<Resources>,
    mode: Mode,
    config: Arc<Config>,
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    native: native::Solver,
    /// What it is set up for.
    matrix: Option<Arc<Uploaded>>,
    last: Option<Solved>,
}

/// The last solve.
struct Solved {
    status: Status,
    /// Norm of the right-hand side, where the residual norms are wanted.
    scale: f64,
}

/// Solve states, with the numbers of AmgX.
const SUCCESS: c_int = 0;
const FAILED: c_int = 1;
const DIVERGED: c_int = 2;
const NOT_CONVERGED: c_int = 3;

impl Solver {
    /// A solver for what the configuration says now.
    fn new(resources: Arc<Resources>, mode: Mode, config: Arc<Config>) -> Result<Solver> {
        let plan = Plan::new(&config.parameters(), mode)?;
        let context = resources.context(mode)?;
        let native = native::Solver::new(&context, &plan.options, plan.exactly)?;
        announce(&plan, &config, resources.is_first());
        let state = Mutex::new(State { plan, native, matrix: None, last: None });
        Ok(Solver { resources, mode, config, state })
    }

    /// Begins anew with the configuration, if that has changed on any of these ranks, set up for the same matrix unless another
    /// one follows.
    fn take_over_config(&self, state: &mut State, ranks: Option<&Ranks>, same_matrix: bool) -> Result<()> {
        let plan = agree(ranks, Plan::new(&self.config.parameters(), self.mode))?;
        let mut is_new = plan != state.plan;
        if let Some(ranks) = ranks {
            is_new = ranks.most([i64::from(is_new)])? == [1];
        }
        if !is_new {
            return Ok(());
        }
        let native = self.resources.context(self.mode);
        let native = native.and_then(|context| native::Solver::new(&context, &plan.options, plan.exactly));
        let mut native = agree(ranks, native)?;
        if let Some(matrix) = state.matrix.as_ref().filter(|_| same_matrix) {
            native.setup(&matrix.native)?;
        }
        announce(&plan, &self.config, self.resources.is_first());
        (state.native, state.plan, state.last) = (native, plan, None);
        Ok(())
    }

    fn setup(&self, matrix: &Matrix, may_update: bool) -> Result<()> {
        let modes = self.mode.must_be(matrix.mode, "slv and mtx");
        let uploaded = match matrix.uploaded("mtx") {
            Ok(uploaded) => uploaded,
            Err(failure) => return Err(modes.err().unwrap_or(failure)),
        };
        agree(uploaded.ranks(), modes)?;
        let mut state = lock(&self.state);
        let state = &mut *state;
        let is_same = state.matrix.as_ref().is_some_and(|own| Arc::ptr_eq(own, &uploaded));
        // Another matrix is set up below, and may be of other ranks.
        self.take_over_config(state, uploaded.ranks(), is_same)?;
        let start = Instant::now();
        // Where nothing is kept, a set-up is faster than an update that looks for all of it again.
        if may_update && is_same && state.plan.keeps_structure {
            state.native.update()?;
        } else {
            state.native.setup(&uploaded.native)?;
        }
        (state.matrix, state.last) = (Some(uploaded), None);
        if self.resources.is_first() {
            statistics::after_setup(&state.plan, &state.native, start.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn solve(&self, rhs: &Arc<Vector>, sol: &Arc<Vector>, zero_guess: bool) -> Result<()> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let Some(matrix) = state.matrix.clone() else {
            return fail!(BadParameters, "slv is not set up; call AMGX_solver_setup before a solve");
        };
        let (ranks, rows) = (matrix.ranks(), matrix.scalar_rows());
        let ready = || {
            self.mode.must_be(rhs.mode, "slv and rhs")?;
            self.mode.must_be(sol.mode, "slv and sol")?;
            if Arc::ptr_eq(rhs, sol) {
                return fail!(BadParameters, "rhs and sol are the same vector; a solve needs two");
            }
            if zero_guess {
                drop(sol.resize(rows, matrix.block)?);
            }
            rhs.state().of_length(rows, "rhs")?;
            sol.state().of_length(rows, "sol")?;
            Ok(())
        };
        agree(ranks, ready())?;
        self.take_over_config(state, ranks, true)?;
        // Always in the same order, so that no two calls wait for each other.
        let (mut b, mut x);
        if Arc::as_ptr(rhs) < Arc::as_ptr(sol) {
            b = rhs.state();
            x = sol.state();
        } else {
            x = sol.state();
            b = rhs.state();
        }
        let (b, x) = (b.of_length(rows, "rhs")?, x.of_length(rows, "sol")?);
        let mut wants_norms = state.plan.store_history || state.plan.print_solve_stats;
        if let Some(ranks) = ranks {
            // One rank may have a configuration that prints, and the others not.
            wants_norms = ranks.most([i64::from(wants_norms)])? == [1];
        }
        let scale = if wants_norms { norm(b, ranks)? } else { f64::NAN };
        let start = Instant::now();
        let status = state.native.solve(b, x, zero_guess)?;
        let seconds = start.elapsed().as_secs_f64();
        state.last = Some(Solved { status, scale });
        if !self.resources.is_first() {
            return Ok(());
        }
        statistics::after_solve(&state.plan, &state.native, scale, seconds)
    }

    /// The last solve.
    fn with_last<R>(&self, read: impl FnOnce(&State, &Solved) -> Result<R>) -> Result<R> {
        let state = lock(&self.state);
        match &state.last {
            Some(last) => read(&state, last),
            None => fail!(BadParameters, "slv has not solved since it was set up"),
        }
    }
}

/// Collective over these ranks: the Euclidean norm.
fn norm(vector: &ContextVector, ranks: Option<&Ranks>) -> Result<f64> {
    let own = agree(ranks, vector.norm().map_err(Failure::from))?;
    let Some(ranks) = ranks else { return Ok(own) };
    let (all, _) = ranks.gather(&[own])?;
    Ok(all.into_iter().fold(0.0, f64::hypot))
}

/// Prints notes and the configuration, where they are wanted, on the first rank.
fn announce(plan: &Plan, config: &Config, is_first: bool) {
    if !is_first {
        return;
    }
    let parameters = config.parameters();
    if parameters.general("verbosity_level") != "0" {
        for note in &plan.notes {
            print(&format!("note: {note}\n"));
        }
    }
    if plan.print_config {
        print(&parameters.to_text());
    }
}

/// Makes a solver; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_create(
    slv: *mut *mut c_void,
    rsc: *mut c_void,
    mode: c_int,
    cfg_solver: *mut c_void,
) -> c_int {
    call(|| {
        required(slv, "slv")?;
        let (resources, mode) = (handles::get::<Resources>(rsc, "rsc")?, Mode::new(mode)?);
        let config = handles::get::<Config>(cfg_solver, "cfg_solver")?;
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe { write(slv, "slv", handles::insert(Solver::new(resources, mode, config)?)) }
    })
}

/// Ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_destroy(slv: *mut c_void) -> c_int {
    call(|| handles::remove::<Solver>(slv, "slv"))
}

/// Sets a solver up for a matrix; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_setup(slv: *mut c_void, mtx: *mut c_void) -> c_int {
    call(|| handles::get::<Solver>(slv, "slv")?.setup(&*handles::get::<Matrix>(mtx, "mtx")?, false))
}

/// Takes over new values; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_resetup(slv: *mut c_void, mtx: *mut c_void) -> c_int {
    call(|| handles::get::<Solver>(slv, "slv")?.setup(&*handles::get::<Matrix>(mtx, "mtx")?, true))
}

fn solve(slv: *mut c_void, rhs: *mut c_void, sol: *mut c_void, zero_guess: bool) -> c_int {
    call(|| {
        let solver = handles::get::<Solver>(slv, "slv")?;
        let (rhs, sol) = (handles::get::<Vector>(rhs, "rhs")?, handles::get::<Vector>(sol, "sol")?);
        solver.solve(&rhs, &sol, zero_guess)
    })
}

/// Solves from the content of `sol`; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_solve(slv: *mut c_void, rhs: *mut c_void, sol: *mut c_void) -> c_int {
    solve(slv, rhs, sol, false)
}

/// Solves from zero; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_solve_with_0_initial_guess(
    slv: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
) -> c_int {
    solve(slv, rhs, sol, true)
}

/// Iterations of the last solve; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_get_iterations_number(slv: *mut c_void, n: *mut c_int) -> c_int {
    call(|| {
        let iterations =
            handles::get::<Solver>(slv, "slv")?.with_last(|state, _| state.native.report()?.int("iterations"))?;
        // SAFETY: null or valid for a write, as the header asks.
        unsafe { write(n, "n", c_int::try_from(iterations).unwrap_or(c_int::MAX)) }
    })
}

/// A residual norm of the last solve; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_get_iteration_residual(
    slv: *mut c_void,
    it: c_int,
    idx: c_int,
    res: *mut f64,
) -> c_int {
    call(|| {
        let norm = handles::get::<Solver>(slv, "slv")?.with_last(|state, last| {
            if !state.plan.store_history {
                return fail!(
                    BadParameters,
                    "residual norms are stored where the configuration has store_res_history=1"
                );
            }
            if idx != 0 {
                return fail!(BadParameters, "idx is {idx}; accepted: 0, the norm of all components");
            }
            let history = state.native.report()?.history()?;
            match usize::try_from(it).ok().and_then(|it| history.get(it)) {
                Some(relative) => Ok(relative * last.scale),
                None => fail!(BadParameters, "it is {it}; accepted: 0 to {}", history.len().saturating_sub(1)),
            }
        })?;
        // SAFETY: null or valid for a write, as the header asks.
        unsafe { write(res, "res", norm) }
    })
}

/// How the last solve ended; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_get_status(slv: *mut c_void, st: *mut c_int) -> c_int {
    call(|| {
        let status = handles::get::<Solver>(slv, "slv")?.with_last(|state, last| {
            // Without monitoring there is nothing to reach but the number of iterations.
            let unreached = if state.plan.exactly.is_some() { SUCCESS } else { NOT_CONVERGED };
            Ok(match last.status {
                Status::Success => SUCCESS,
                Status::NotConverged | Status::Stagnated | Status::Stopped => unreached,
                Status::Diverged => DIVERGED,
                _ => FAILED,
            })
        })?;
        // SAFETY: null or valid for a write, as the header asks.
        unsafe { write(st, "st", status) }
    })
}
