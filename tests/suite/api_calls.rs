//! Random sequences of calls of the C ABI, with arguments that are now and then wrong. No call crashes or returns a status that its comment in the
//! header does not name, and a solve that returns success has a small residual, which is computed here.
//!
//! Statuses that random calls do not meet are provoked. Together they return every status that the header names, but for a short list.
//!
//! `TERRACE_API_CALLS` is the number of calls, `TERRACE_API_SEED` the first seed; `make deep-test` makes more than the few thousand of CI.

use crate::common::root;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use terrace::capi::*;
use terrace::error::STATUSES;

/// The statuses that the comment of each function in the header names, with those of functions that it refers to.
fn documented() -> BTreeMap<String, BTreeSet<i32>> {
    let header = std::fs::read_to_string(root().join("include/terrace.h")).unwrap();
    let statuses: Vec<_> = STATUSES.iter().map(|row| (row.name, row.code)).collect();
    crate::common::documented::documented(&header, &statuses)
}

/// Calls a function, and looks whether the header names what it returns.
macro_rules! call {
    ($world:expr, $function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the arguments are null, texts, arrays of the lengths that are passed, pointers to locals, or objects that are alive.
        $world.seen(stringify!($function), unsafe { $function($($argument),*) })
    };
}

// After the macro, which they use.
mod asking;
mod making;
mod provoked;
mod removal;
mod solving;
mod systems;

use systems::{Random, System};

struct Matrix {
    handle: *mut terrace_matrix,
    system: System,
}

#[derive(Clone, Copy)]
struct Solver {
    handle: *mut terrace_solver,
    /// The number of the matrix that it is set up with.
    set_up: Option<usize>,
    /// Whether it solves with something else than the matrix.
    has_operator: bool,
}

/// Objects that are alive, and what each status was seen from.
struct World {
    random: Random,
    documented: BTreeMap<String, BTreeSet<i32>>,
    contexts: Vec<*mut terrace_context>,
    matrices: Vec<Matrix>,
    configs: Vec<*mut terrace_config>,
    solvers: Vec<Solver>,
    amgs: Vec<(*mut terrace_amg, usize)>,
    solved: usize,
    undocumented: RefCell<BTreeSet<String>>,
    returned: RefCell<BTreeSet<(String, i32)>>,
}

const KEYS: &[(&str, &[&str])] = &[
    ("solver.type", &["auto", "cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson", "direct", "sor"]),
    ("solver.null_space", &["none", "constant", "near_null_space"]),
    ("solver.preconditioner", &["amg", "fsai", "jacobi", "none"]),
    ("solver.max_iterations", &["0", "3", "200", "-1"]),
    ("solver.restart", &["1", "5", "30", "0"]),
    ("amg.coarsening.type", &["auto", "pmis", "hmis", "mis2", "pairwise", "rs"]),
    (
        "amg.interpolation.type",
        &["auto", "direct", "extended_i", "energy", "least_squares", "mm_ext_i", "smoothed", "tentative"],
    ),
    ("amg.interpolation.kept_norm", &["1", "0.9", "0"]),
    ("amg.near_null_space.steps", &["0", "2", "-1"]),
    ("amg.near_null_space.random", &["0", "2", "9"]),
    ("amg.coarsening.aggressive_levels", &["0", "1", "64"]),
    ("amg.interpolation.aggressive", &["two_stage", "multipass"]),
    ("amg.smoother.type", &["auto", "jacobi", "l1_jacobi", "gauss_seidel", "l1_gauss_seidel", "chebyshev", "fsai"]),
    ("fsai.pattern", &["adaptive", "static", "power"]),
    ("fsai.power", &["1", "2", "4", "5"]),
    ("fsai.post_filter", &["0", "0.1", "1"]),
    ("amg.cycle.type", &["v", "w", "f", "k", "x"]),
    ("amg.max_levels", &["1", "2", "25", "65"]),
    ("amg.coarsest.max_rows", &["1", "10", "200"]),
    ("amg.functions", &["0", "1", "2", "3"]),
    ("precision", &["default", "input", "single", "auto", "dp-sp", "dp-hp", "sp", "bf", "(dp-sp,hp)", "qp"]),
    ("amg.update.interpolation", &["renew", "keep"]),
    ("amg.update.coarsening", &["keep", "recheck"]),
    ("no.such.option", &["1"]),
];

impl World {
    /// Looks whether the header names the status.
    fn seen(&self, function: &str, status: terrace_status) -> terrace_status {
        self.returned.borrow_mut().insert((function.to_string(), status));
        if !self.documented[function].contains(&status) {
            self.undocumented.borrow_mut().insert(format!("{function} returned {status}"));
        }
        status
    }

    /// A type that may be wrong.
    fn format(&mut self) -> terrace_type {
        [TERRACE_F64, TERRACE_F32, TERRACE_F16, TERRACE_I32, 77][self.random.below(5)]
    }

    fn context(&mut self) -> *mut terrace_context {
        if self.random.once_in(50) { null_mut() } else { self.contexts[self.random.below(self.contexts.len())] }
    }

    fn config(&mut self) -> *const terrace_config {
        if self.configs.is_empty() || self.random.once_in(3) {
            return null();
        }
        self.configs[self.random.below(self.configs.len())]
    }

    /// Destroys an object. A matrix lives on in what was set up with it, so its record stays.
    fn destroy(&mut self) {
        // SAFETY: alive, and taken from the list.
        unsafe {
            match self.random.below(5) {
                0 if self.contexts.len() > 1 => {
                    let at = self.random.below(self.contexts.len());
                    let context = self.contexts.swap_remove(at);
                    self.seen("terrace_context_destroy", terrace_context_destroy(context));
                }
                1 if !self.configs.is_empty() => {
                    let at = self.random.below(self.configs.len());
                    let config = self.configs.swap_remove(at);
                    self.seen("terrace_config_destroy", terrace_config_destroy(config));
                }
                2 | 3 if !self.solvers.is_empty() => {
                    let at = self.random.below(self.solvers.len());
                    let solver = self.solvers.swap_remove(at).handle;
                    self.seen("terrace_solver_destroy", terrace_solver_destroy(solver));
                }
                4 if !self.amgs.is_empty() => {
                    let at = self.random.below(self.amgs.len());
                    let amg = self.amgs.swap_remove(at).0;
                    self.seen("terrace_amg_destroy", terrace_amg_destroy(amg));
                }
                _ => {}
            };
        }
    }

    fn step(&mut self) {
        let (matrices, solvers) = (!self.matrices.is_empty(), !self.solvers.is_empty());
        match self.random.below(25) {
            0 if self.contexts.len() < 4 => self.make_context(),
            1 | 2 if self.matrices.len() < 12 => self.make_matrix(),
            3 if matrices => self.update_values(),
            4 if self.configs.len() < 4 => self.make_config(),
            5..=7 => self.set_option(),
            8 | 9 if self.solvers.len() < 4 => self.make_solver(),
            10..=12 if matrices && solvers => self.setup(),
            13 if solvers => self.update(),
            14..=17 if solvers => self.solve(),
            18 if matrices && self.random.once_in(3) => self.amg(),
            18 if matrices && self.random.once_in(3) => self.fsai(),
            18 if matrices => self.operate(),
            19 => self.ask_context(),
            20 => self.ask_config(),
            21 if solvers => self.ask_solver(),
            22 if matrices => self.ask_matrix(),
            23 => self.ask_report(),
            _ => self.destroy(),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: alive, and not used again.
        let ended = unsafe {
            let contexts = self.contexts.iter().map(|context| terrace_context_destroy(*context));
            let configs = self.configs.iter().map(|config| terrace_config_destroy(*config));
            let solvers = self.solvers.iter().map(|solver| terrace_solver_destroy(solver.handle));
            let amgs = self.amgs.iter().map(|amg| terrace_amg_destroy(amg.0));
            let matrices = self.matrices.iter().map(|matrix| terrace_matrix_destroy(matrix.handle));
            contexts.chain(configs).chain(solvers).chain(amgs).chain(matrices).all(|status| status == 0)
        };
        assert!(ended || std::thread::panicking());
    }
}

#[test]
fn random_calls_return_what_the_header_says_and_success_is_a_solution() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let (calls, first) = (number("TERRACE_API_CALLS").unwrap_or(4000), number("TERRACE_API_SEED").unwrap_or(1));
    let documented = documented();
    assert!(documented["terrace_config_load_json"].contains(&-4), "references in the header are followed");
    let (mut solved, mut undocumented, mut returned) = (0, BTreeSet::new(), provoked::returned());
    for seed in first..first + calls.div_ceil(500) {
        eprintln!("TERRACE_API_SEED={seed}");
        let mut context = null_mut();
        // SAFETY: a text and a pointer to a local.
        assert_eq!(unsafe { terrace_context_create(c"host:1".as_ptr(), &mut context) }, 0);
        let (contexts, matrices, configs) = (vec![context], Vec::new(), Vec::new());
        let (random, documented) = (Random(seed as u64), documented.clone());
        let (solvers, amgs) = (Vec::new(), Vec::new());
        let mut world = World {
            random,
            documented,
            contexts,
            matrices,
            configs,
            solvers,
            amgs,
            solved: 0,
            undocumented: RefCell::default(),
            returned: RefCell::default(),
        };
        (0..500.min(calls)).for_each(|_| world.step());
        solved += world.solved;
        undocumented.append(world.undocumented.get_mut());
        returned.append(world.returned.get_mut());
    }
    assert!(undocumented.is_empty(), "statuses that the comments in the header do not name: {undocumented:#?}");
    assert!(solved * 50 > calls, "only {solved} systems were solved");
    let called: BTreeSet<&String> = returned.iter().map(|(name, _)| name).collect();
    let left: Vec<_> = documented.keys().filter(|name| !called.contains(name)).collect();
    assert!(left.is_empty(), "functions that are not called: {left:?}");
    // Fewer random calls do not meet them all.
    if calls < 100_000 {
        return;
    }
    let named = documented.iter().flat_map(|(name, codes)| codes.iter().map(move |code| (name.clone(), *code)));
    let unseen: Vec<_> = named.filter(|call| !returned.contains(call) && !cannot_be_provoked(call)).collect();
    assert!(unseen.is_empty(), "named in the header, and returned by no call: {unseen:#?}");
}

/// Statuses that no call here can meet, with the reason.
fn cannot_be_provoked((function, code): &(String, i32)) -> bool {
    let is_of = |names: &[&str]| names.contains(&&**function);
    match code {
        // They return errors alone.
        0 => is_of(&["terrace_context_raise_panic"]) || function.ends_with("_set_error"),
        // The comment is about the report, or about another function.
        3 => is_of(&["terrace_solver_solve", "terrace_solver_solve_transposed"]),
        -7 => is_of(&["terrace_solver_set_operator"]),
        -16 => is_of(&["terrace_threads_communicator"]),
        // It needs 2^31 entries.
        -3 => is_of(&["terrace_matrix_get_arrays"]),
        // It needs a device that fails.
        -13 => function != "terrace_context_create",
        // Other tests meet them: a level that overflows in a cycle, a breakdown, a residual that no longer falls.
        -18 | -10 => is_of(&["terrace_solver_solve", "terrace_solver_solve_transposed"]),
        2 => is_of(&["terrace_solver_solve_transposed"]),
        // `failed_allocations` lets allocations on the host fail.
        -12 => true,
        _ => false,
    }
}
