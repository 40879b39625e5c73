//! Random sequences of calls of the C ABI, with arguments that are now and then wrong. No call crashes or returns a status that its comment in the
//! header does not name, and a solve that returns success has a small residual, which is computed here.
//!
//! Statuses that random calls do not meet are provoked. Together they return every status that the header names, but for a short list.
//!
//! `TERRACE_API_CALLS` is the number of calls, `TERRACE_API_SEED` the first seed; `make deep-test` makes more than the few thousand of CI.

mod provoked;
mod removal;

use crate::common::root;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use terrace::capi::*;
use terrace::error::STATUSES;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Between 0 and 1.
    fn real(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

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

/// y = x, for an operator or a preconditioner.
unsafe extern "C" fn identity(n: i64, x: *const c_void, y: *mut c_void, _: *mut c_void) -> i32 {
    // SAFETY: the solver passes n elements of f64.
    unsafe { std::ptr::copy_nonoverlapping(x.cast::<f64>(), y.cast::<f64>(), n as usize) };
    0
}

/// Ends a solve after the third iteration, if there is a user.
unsafe extern "C" fn monitor(_: i64, iteration: i64, _: f64, user: *mut c_void) -> i32 {
    i32::from(!user.is_null() && iteration > 2)
}

/// A square system as it was handed over.
#[derive(Clone)]
struct System {
    offsets: Vec<i64>,
    columns: Vec<i32>,
    values: Vec<f64>,
}

impl System {
    /// Couplings of random neighbours, symmetric or not, diagonally dominant or almost.
    fn new(random: &mut Random) -> System {
        let n = [0, 1, 2, 7, 40, 150][random.below(6)];
        let (symmetric, scale) = (!random.once_in(4), (60.0 * (random.real() - 0.5)).exp2());
        let mut rows: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); n];
        for i in 0..n {
            for _ in 0..random.below(4) {
                let (j, value) = (random.below(n), -random.real() * scale);
                if i != j {
                    rows[i].insert(j, value);
                    rows[j].insert(i, if symmetric { value } else { -random.real() * scale });
                }
            }
        }
        for (i, row) in rows.iter_mut().enumerate() {
            let sum: f64 = row.values().map(|v| v.abs()).sum();
            row.insert(i, sum * 1.01 + 1e-3 * scale);
        }
        let mut system = System { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
        for row in rows {
            system.columns.extend(row.keys().map(|j| *j as i32));
            system.values.extend(row.values());
            system.offsets.push(system.columns.len() as i64);
        }
        system
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// A x, or with the transpose.
    fn product(&self, x: &[f64], transposed: bool) -> Vec<f64> {
        let mut y = vec![0.0; self.rows()];
        for i in 0..self.rows() {
            for k in self.offsets[i] as usize..self.offsets[i + 1] as usize {
                let j = self.columns[k] as usize;
                let (to, from) = if transposed { (j, i) } else { (i, j) };
                y[to] += self.values[k] * x[from];
            }
        }
        y
    }

    /// |b - A x| / |b|, or with the transpose.
    fn residual(&self, b: &[f64], x: &[f64], transposed: bool) -> f64 {
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
        let product = self.product(x, transposed);
        let r = norm(&mut b.iter().zip(product).map(|(b, y)| b - y));
        let b = norm(&mut b.iter().copied());
        if b == 0.0 { r } else { r / b }
    }
}

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
    ("solver.type", &["auto", "cg", "fcg", "gmres", "fgmres", "bicgstab", "richardson", "direct", "sor"]),
    ("solver.null_space", &["none", "constant", "near_null_space"]),
    ("solver.preconditioner", &["amg", "fsai", "jacobi", "none"]),
    ("solver.max_iterations", &["0", "3", "200", "-1"]),
    ("solver.restart", &["1", "5", "30", "0"]),
    ("amg.coarsening.type", &["auto", "pmis", "hmis", "mis2", "pairwise", "rs"]),
    ("amg.interpolation.type", &["auto", "direct", "extended_i", "energy", "mm_ext_i", "smoothed", "tentative"]),
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

    fn make_context(&mut self) {
        let device: &CStr =
            self.random.of(&[c"host:1", c"host:1", c"host:2", c"host", c"sim", c"host:x", c"", c"host:0"]);
        let mut context = null_mut();
        // SAFETY: a text and a pointer to a local.
        let status = unsafe { terrace_context_create(device.as_ptr(), &mut context) };
        if self.seen("terrace_context_create", status) == 0 {
            self.contexts.push(context);
        }
    }

    fn make_matrix(&mut self) {
        let (mut system, context) = (System::new(&mut self.random), self.context());
        let n = system.rows();
        let entries = system.columns.len();
        if self.random.once_in(6) && entries > 1 {
            let at = self.random.below(entries);
            match self.random.below(5) {
                0 => system.values[at] = f64::NAN,
                1 => system.columns[at] = n as i32,
                2 => system.columns[at] = -1,
                3 => system.offsets[n / 2] = entries as i64,
                _ => system.values[at] = 0.0,
            }
        }
        let flags = if self.random.once_in(3) { TERRACE_SORTED } else { TERRACE_COPY };
        let base = if self.random.once_in(30) { 7 } else { 0 };
        let rows = if self.random.once_in(40) { -1 } else { n as i64 };
        let (offsets, columns) = (system.offsets.as_ptr().cast(), system.columns.as_ptr().cast());
        let values: *const c_void = if self.random.once_in(40) { null() } else { system.values.as_ptr().cast() };
        let (i64_, i32_, f64_) = (TERRACE_I64, if self.random.once_in(50) { 77 } else { TERRACE_I32 }, TERRACE_F64);
        let mut handle = null_mut();
        if self.random.once_in(8) {
            let first = if self.random.once_in(10) { 1 } else { 0 };
            let status = call!(
                self,
                terrace_matrix_create_csr_distributed(
                    context,
                    n as i64,
                    first,
                    rows,
                    i64_,
                    offsets,
                    i32_,
                    columns,
                    f64_,
                    values,
                    base,
                    flags,
                    &mut handle
                )
            );
            if status == 0 {
                self.matrices.push(Matrix { handle, system });
            }
            return;
        }
        if self.random.once_in(8) {
            // One rank: blocks of one row, or all entries in the diagonal part.
            let status = if self.random.once_in(2) {
                let block = if self.random.once_in(10) { 9 } else { 1 };
                call!(
                    self,
                    terrace_matrix_create_bsr_distributed(
                        context,
                        n as i64,
                        0,
                        rows,
                        block,
                        i64_,
                        offsets,
                        i32_,
                        columns,
                        f64_,
                        values,
                        base,
                        flags,
                        &mut handle
                    )
                )
            } else {
                let wide: Vec<i64> = system.columns.iter().map(|column| i64::from(*column)).collect();
                let none = vec![0_i64; n + 1];
                let map_count = if self.random.once_in(10) { 1 } else { 0 };
                call!(
                    self,
                    terrace_matrix_create_parcsr(
                        context,
                        n as i64,
                        0,
                        rows,
                        i64_,
                        offsets,
                        wide.as_ptr().cast(),
                        none.as_ptr().cast(),
                        null(),
                        map_count,
                        i64_,
                        null(),
                        f64_,
                        values,
                        null(),
                        &mut handle
                    )
                )
            };
            if status == 0 {
                self.matrices.push(Matrix { handle, system });
            }
            return;
        }
        // SAFETY: the arrays are as long as the sizes say, or a pointer is null.
        let status = unsafe {
            terrace_matrix_create_csr(
                context,
                rows,
                rows,
                i64_,
                offsets,
                i32_,
                columns,
                f64_,
                values,
                base,
                flags,
                &mut handle,
            )
        };
        if self.seen("terrace_matrix_create_csr", status) == 0 {
            self.matrices.push(Matrix { handle, system });
        }
    }

    fn update_values(&mut self) {
        let (at, context) = (self.random.below(self.matrices.len()), self.context());
        let mut values = self.matrices[at].system.values.clone();
        let factor = 0.5 + self.random.real();
        values.iter_mut().for_each(|v| *v *= factor);
        if self.random.once_in(10) && !values.is_empty() {
            let k = self.random.below(values.len());
            values[k] = f64::INFINITY;
        }
        let count = values.len() as i64 + i64::from(self.random.once_in(10));
        let format = if self.random.once_in(10) { self.format() } else { TERRACE_F64 };
        // A count or format that is not that of the matrix is refused before the array is read.
        let (matrix, from) = (self.matrices[at].handle, values.as_ptr().cast());
        if call!(self, terrace_matrix_update_values(context, matrix, format, from, count)) == 0 {
            self.matrices[at].system.values = values;
        }
    }

    fn make_config(&mut self) {
        let (context, mut config) = (self.context(), null_mut());
        // SAFETY: alive or null, and a pointer to a local.
        let status = unsafe { terrace_config_create(context, &mut config) };
        if self.seen("terrace_config_create", status) == 0 {
            self.configs.push(config);
        }
    }

    fn set_option(&mut self) {
        let config = self.config().cast_mut();
        let (key, values) = KEYS[self.random.below(KEYS.len())];
        let value = CString::new(self.random.of(values)).unwrap();
        let name = CString::new(key).unwrap();
        if self.random.once_in(5) {
            let end = if self.random.once_in(3) { "" } else { "}" };
            let json = CString::new(format!("{{\"{key}\": {value:?}{end}")).unwrap();
            // SAFETY: alive or null, and texts.
            let status = unsafe { terrace_config_load_json(config, json.as_ptr()) };
            self.seen("terrace_config_load_json", status);
        }
        // SAFETY: alive or null, and texts.
        let status = unsafe { terrace_config_set_str(config, name.as_ptr(), value.as_ptr()) };
        self.seen("terrace_config_set_str", status);
    }

    fn make_solver(&mut self) {
        let (context, config, mut solver) = (self.context(), self.config(), null_mut());
        // SAFETY: alive or null, and a pointer to a local.
        let status = unsafe { terrace_solver_create(context, config, &mut solver) };
        if self.seen("terrace_solver_create", status) == 0 {
            self.solvers.push(Solver { handle: solver, set_up: None, has_operator: false });
        }
    }

    fn setup(&mut self) {
        let (s, m) = (self.random.below(self.solvers.len()), self.random.below(self.matrices.len()));
        let matrix = if self.random.once_in(30) { null_mut() } else { self.matrices[m].handle };
        // SAFETY: alive or null.
        let status = unsafe { terrace_solver_setup(self.solvers[s].handle, matrix) };
        if self.seen("terrace_solver_setup", status) == 0 {
            self.solvers[s].set_up = Some(m);
        }
    }

    fn update(&mut self) {
        let Solver { handle: solver, set_up, .. } = self.solvers[self.random.below(self.solvers.len())];
        // SAFETY: alive.
        let status = self.seen("terrace_solver_update", unsafe { terrace_solver_update(solver) });
        assert!(set_up.is_some() || status != 0);
    }

    fn solve(&mut self) {
        let Solver { handle: solver, set_up, has_operator } = self.solvers[self.random.below(self.solvers.len())];
        let system = set_up.map(|m| self.matrices[m].system.clone());
        let mut rows = 1;
        call!(self, terrace_solver_get_rows(solver, &mut rows));
        let (n, count) = (rows as usize, [1, 1, 1, 3, 0][self.random.below(5)]);
        let scale = (80.0 * (self.random.real() - 0.5)).exp2();
        let mut b: Vec<f64> = (0..n * count).map(|_| scale * (self.random.real() - 0.5)).collect();
        if self.random.once_in(20) && !b.is_empty() {
            b[0] = f64::NAN;
        }
        let mut x = vec![0.0; b.len()];
        let guess = if self.random.once_in(2) { TERRACE_ZERO_GUESS } else { TERRACE_GIVEN_GUESS };
        let asked = if self.random.once_in(40) { -1 } else { count as i64 };
        let to: *mut c_void = if self.random.once_in(60) { null_mut() } else { x.as_mut_ptr().cast() };
        let from = b.as_ptr().cast();
        let (transposed, format) =
            (self.random.once_in(4), if self.random.once_in(20) { self.format() } else { TERRACE_F64 });
        let status = match transposed {
            true => call!(self, terrace_solver_solve_transposed(solver, format, asked, from, to, guess)),
            false => call!(self, terrace_solver_solve(solver, format, asked, from, to, guess)),
        };
        if status != 0 || asked < 0 {
            return;
        }
        let system = system.expect("a solver without set-up solves nothing");
        let each = b.chunks_exact(n.max(1)).zip(x.chunks_exact(n.max(1)));
        for (b, x) in each.take(if n == 0 || has_operator { 0 } else { count }) {
            let residual = system.residual(b, x, transposed);
            assert!(residual <= 1.1e-8, "success with a residual of {residual:.2e} for {n} rows");
            self.solved += 1;
        }
        let (mut report, mut sides) = (null_mut(), 0);
        // SAFETY: alive, and pointers to locals.
        let status = unsafe { terrace_solver_report(solver, &mut report) };
        assert_eq!(self.seen("terrace_solver_report", status), 0);
        // SAFETY: made above.
        unsafe {
            assert_eq!(terrace_report_get_int(report, c"right_hand_sides".as_ptr(), 0, &mut sides), 0);
            terrace_report_destroy(report);
        }
        assert_eq!(sides, count as i64, "{n} rows");
    }

    fn amg(&mut self) {
        let (m, context, config) = (self.random.below(self.matrices.len()), self.context(), self.config());
        let (mut amg, mut bytes) = (null_mut(), 0);
        let matrix = self.matrices[m].handle;
        // SAFETY: alive or null, and pointers to locals.
        let status = unsafe { terrace_amg_memory_estimate(context, matrix, config, &mut bytes) };
        self.seen("terrace_amg_memory_estimate", status);
        let updates = self.random.below(2) as i32;
        // SAFETY: as above.
        let status = unsafe { terrace_solver_memory_estimate(context, matrix, config, updates, &mut bytes) };
        self.seen("terrace_solver_memory_estimate", status);
        // SAFETY: as above.
        let status = unsafe { terrace_amg_setup(context, matrix, config, &mut amg) };
        if self.seen("terrace_amg_setup", status) == 0 {
            self.amgs.push((amg, self.matrices[m].system.rows()));
        }
        if let Some((amg, n)) = self.amgs.last().copied() {
            let (b, mut x) = (vec![1.0_f64; n], vec![0.0_f64; n]);
            // SAFETY: alive, and vectors of the hierarchy's size.
            let status = unsafe { terrace_amg_apply(amg, TERRACE_F64, b.as_ptr().cast(), x.as_mut_ptr().cast()) };
            if self.seen("terrace_amg_apply", status) == 0 {
                assert!(x.iter().all(|x| x.is_finite()));
            }
            // SAFETY: alive.
            let status = unsafe { terrace_amg_update(amg) };
            self.seen("terrace_amg_update", status);
            let (mut rows, mut report) = (-1, null_mut());
            call!(self, terrace_amg_get_rows(amg, &mut rows));
            assert_eq!(rows, n as i64);
            call!(self, terrace_amg_set_error(amg, -2, c"a sentence".as_ptr()));
            call!(self, terrace_amg_report(amg, &mut report));
            call!(self, terrace_report_destroy(report));
        }
    }

    /// An FSAI, from set-up to its end.
    fn fsai(&mut self) {
        let (m, context, config) = (self.random.below(self.matrices.len()), self.context(), self.config());
        let (mut fsai, mut bytes, mut rows, mut report) = (null_mut(), 0, -1, null_mut());
        let (matrix, n) = (self.matrices[m].handle, self.matrices[m].system.rows());
        call!(self, terrace_fsai_memory_estimate(context, matrix, config, &mut bytes));
        if call!(self, terrace_fsai_setup(context, matrix, config, &mut fsai)) != 0 {
            return;
        }
        let (b, mut x) = (vec![1.0_f64; n], vec![0.0_f64; n]);
        if call!(self, terrace_fsai_apply(fsai, TERRACE_F64, b.as_ptr().cast(), x.as_mut_ptr().cast())) == 0 {
            assert!(x.iter().all(|x| x.is_finite()));
        }
        call!(self, terrace_fsai_update(fsai));
        call!(self, terrace_fsai_get_rows(fsai, &mut rows));
        assert_eq!(rows, n as i64);
        call!(self, terrace_fsai_set_error(fsai, -2, c"a sentence".as_ptr()));
        if call!(self, terrace_fsai_report(fsai, &mut report)) == 0 {
            call!(self, terrace_report_destroy(report));
        }
        call!(self, terrace_fsai_destroy(fsai));
    }

    /// What a context can be asked and told.
    fn ask_context(&mut self) {
        let context = self.context();
        let (mut number, mut bytes, mut needed, mut text) = (0, [0_i64; 3], 0, [0 as c_char; 40]);
        let [used, peak, limit] = &mut bytes;
        let (message, nothing) = (c"a sentence", null_mut());
        let len = if self.random.once_in(2) { text.len() } else { 0 };
        let (threads, code) = ([1, 2, 0, -1, 1_000_000][self.random.below(5)], [-3, 0, 5, -999][self.random.below(4)]);
        let message = if self.random.once_in(5) { null() } else { message.as_ptr() };
        match self.random.below(11) {
            10 => {
                // SAFETY: a table of null pointers is a value.
                let mut table: terrace_communicator = unsafe { std::mem::zeroed() };
                let size = self.random.below(3) as i32 - 1;
                let has_table = call!(self, terrace_threads_communicator(size, &mut table)) == 0;
                if self.random.once_in(5) {
                    call!(self, terrace_context_set_communicator(context, null()));
                }
                let told = call!(self, terrace_context_set_communicator(context, &table));
                if has_table {
                    // SAFETY: the table was made above, and is not used again.
                    unsafe { table.free.unwrap()(table.user) };
                }
                told
            }
            0 => call!(self, terrace_context_get_memory(context, used, peak, limit)),
            1 => call!(self, terrace_context_get_threads(context, &mut number)),
            2 => call!(self, terrace_context_get_threads(context, null_mut())),
            3 => call!(self, terrace_context_set_threads(context, threads)),
            4 => call!(self, terrace_context_info(context, text.as_mut_ptr(), len, &mut needed)),
            5 => call!(self, terrace_last_error(context, text.as_mut_ptr(), len, &mut needed)),
            6 => call!(self, terrace_context_set_error(context, code, message)),
            7 => call!(
                self,
                terrace_context_set_log(context, [0, 3, 9][threads.unsigned_abs() as usize % 3], None, nothing)
            ),
            8 => {
                let limit = [-1, 1000, i64::MAX][self.random.below(3)];
                call!(self, terrace_context_set_memory_limit(context, limit));
                call!(self, terrace_context_set_memory_limit(context, 0))
            }
            _ => {
                let stream = if self.random.once_in(2) { null_mut() } else { std::ptr::without_provenance_mut(64) };
                call!(self, terrace_context_set_stream(context, stream));
                call!(self, terrace_context_set_stream(context, null_mut()));
                call!(self, terrace_version(&mut number, null_mut(), null_mut()));
                call!(self, terrace_context_synchronize(context))
            }
        };
    }

    /// Options by number, and what they are.
    fn ask_config(&mut self) {
        let config = self.config().cast_mut();
        let (key, values) = KEYS[self.random.below(KEYS.len())];
        let (name, value) = (CString::new(key).unwrap(), self.random.of(values));
        let (number, name) = (value.parse::<i64>().unwrap_or(7), name.as_ptr());
        let (mut int, mut real, mut needed, mut text) = (0, 0.0, 0, [0 as c_char; 40]);
        let name = match self.random.below(20) {
            0 => null(),
            1 => c"\xff".as_ptr(),
            _ => name,
        };
        let (level, part) = ([0, 3, -1, 99][self.random.below(4)], self.random.below(6) as i32 - 1);
        let (pre, post) = (self.random.below(4) as i32 - 1, [0, 1, 2000][self.random.below(3)]);
        let format = self.format();
        let preset: &CStr = self.random.of(&[c"convection", c"difficult", c"no such preset", c""]);
        match self.random.below(9) {
            0 => call!(self, terrace_config_get_int(config, name, &mut int)),
            1 => call!(self, terrace_config_get_real(config, name, &mut real)),
            2 => call!(self, terrace_config_get_str(config, name, text.as_mut_ptr(), text.len(), &mut needed)),
            3 => call!(self, terrace_config_set_int(config, name, number)),
            4 => call!(self, terrace_config_set_real(config, name, 0.3 * number as f64)),
            5 => call!(self, terrace_config_set_level(config, level, part, format)),
            6 => call!(self, terrace_config_set_level_sweeps(config, level, pre, post)),
            7 => call!(self, terrace_config_load_preset(config, preset.as_ptr())),
            _ => call!(self, terrace_config_to_json(config, text.as_mut_ptr(), text.len(), &mut needed)),
        };
    }

    /// Callbacks and other matrices of a solver, and what it says.
    fn ask_solver(&mut self) {
        let at = self.random.below(self.solvers.len());
        let solver = self.solvers[at].handle;
        let (key, _) = KEYS[self.random.below(KEYS.len())];
        let (key, mut needed, mut text) = (CString::new(key).unwrap(), 0, [0 as c_char; 40]);
        let is_on = !self.random.once_in(3);
        let apply: terrace_apply_callback = if is_on { Some(identity) } else { None };
        let rows = match self.matrices.is_empty() || self.random.once_in(5) {
            true => [3, -1, i64::MAX][self.random.below(3)],
            false => self.matrices[self.random.below(self.matrices.len())].system.rows() as i64,
        };
        match self.random.below(7) {
            0 | 1 => {
                call!(self, terrace_solver_get_option(solver, key.as_ptr(), text.as_mut_ptr(), 40, &mut needed));
            }
            2 => {
                call!(self, terrace_solver_set_error(solver, -(rows as i32 & 15), c"a sentence".as_ptr()));
            }
            3 => {
                let user: *mut c_void = if is_on { null_mut() } else { solver.cast() };
                let callback: terrace_monitor_callback = if self.random.once_in(3) { None } else { Some(monitor) };
                call!(self, terrace_solver_set_monitor(solver, callback, user));
            }
            4 => {
                if call!(self, terrace_solver_set_operator(solver, rows, apply, null_mut())) == 0 {
                    let had = std::mem::replace(&mut self.solvers[at].has_operator, is_on);
                    self.solvers[at].set_up = self.solvers[at].set_up.filter(|_| !had && !is_on);
                }
            }
            5 => {
                call!(self, terrace_solver_set_preconditioner(solver, apply, null_mut()));
            }
            _ => {
                let other = match self.matrices.is_empty() || self.random.once_in(2) {
                    true => null(),
                    false => self.matrices[self.random.below(self.matrices.len())].handle,
                };
                call!(self, terrace_solver_set_preconditioner_matrix(solver, other));
            }
        }
    }

    /// What is known about a matrix besides its values, and what it says.
    fn ask_matrix(&mut self) {
        let (at, context) = (self.random.below(self.matrices.len()), self.context());
        let (matrix, system) = (self.matrices[at].handle, self.matrices[at].system.clone());
        let n = system.rows();
        let (mut rows, mut cols, mut nonzeros, mut block) = (0, 0, 0, 0);
        match self.random.below(6) {
            0 => {
                call!(self, terrace_matrix_get_size(context, matrix, &mut rows, &mut cols, &mut nonzeros, &mut block));
                let (mut columns, mut values) = (vec![0_i32; system.columns.len()], vec![0.0_f32; system.values.len()]);
                let (to, values) = (columns.as_mut_ptr().cast(), values.as_mut_ptr().cast());
                let (base, i32s) = (self.random.below(3) as i32, if self.random.once_in(9) { 77 } else { TERRACE_I32 });
                let none = null_mut();
                call!(
                    self,
                    terrace_matrix_get_arrays(context, matrix, TERRACE_I64, none, i32s, to, TERRACE_F32, values, base)
                );
            }
            1 | 2 => {
                let transposed = self.random.once_in(2);
                let (x, mut y) = (vec![1.0_f64; n], vec![f64::NAN; n]);
                let alpha = if self.random.once_in(9) { f64::NAN } else { 1.0 };
                let to: *mut c_void = if self.random.once_in(9) { null_mut() } else { y.as_mut_ptr().cast() };
                let format = if self.random.once_in(5) { self.format() } else { TERRACE_F64 };
                let from = x.as_ptr().cast();
                let status = match transposed {
                    true => call!(self, terrace_matrix_apply_transposed(context, matrix, format, alpha, from, 0.0, to)),
                    false => call!(self, terrace_matrix_apply(context, matrix, format, alpha, from, 0.0, to)),
                };
                if status != 0 || format != TERRACE_F64 {
                    return;
                }
                let largest = system.values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
                let exact = system.product(&x, transposed);
                assert!(y.iter().zip(exact).all(|(y, e)| (y - e).abs() <= 1e-12 * n as f64 * largest));
            }
            3 => {
                let vectors: Vec<f64> = (0..3 * n).map(|_| self.random.real() + 0.1).collect();
                let (dofs, count) = (self.random.below(4) as i32, [0, 1, 3, 99][self.random.below(4)]);
                let from = if self.random.once_in(9) { null() } else { vectors.as_ptr() };
                let count = if count == 99 || count as usize * n <= vectors.len() { count } else { 0 };
                call!(self, terrace_matrix_set_near_null_space(context, matrix, dofs, count, from));
                if self.random.once_in(3) {
                    let dimension = self.random.below(5) as i32;
                    let nodes = n as i64 / i64::from(dimension.max(1));
                    call!(self, terrace_matrix_set_coordinates(context, matrix, dimension, nodes, from));
                }
            }
            4 => {
                let functions: Vec<i32> = (0..n).map(|_| self.random.below(3) as i32).collect();
                let count = [0, 0, 3, 3, 2, -1, 65][self.random.below(7)];
                let from = if self.random.once_in(9) { null() } else { functions.as_ptr() };
                call!(self, terrace_matrix_set_functions(context, matrix, count, from));
            }
            _ => self.make_others(),
        }
    }

    /// Matrices in other forms, which are destroyed at once.
    fn make_others(&mut self) {
        let (context, mut made) = (self.context(), null_mut());
        let (rows, columns) = ([0_i32, 1, 1, 0], [0_i32, 1, 1, self.random.below(4) as i32]);
        let values = [2.0_f64, 3.0, if self.random.once_in(5) { f64::NAN } else { 1.0 }, 0.5];
        let (from, to, values) = (rows.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
        let (i, f, base) = (TERRACE_I32, TERRACE_F64, if self.random.once_in(9) { 5 } else { 0 });
        let count = if self.random.once_in(9) { -1 } else { 4 };
        let dims = [if self.random.once_in(9) { 3_i64 } else { 2 }, 1, 1];
        if call!(self, terrace_matrix_create_coo(context, 2, 2, count, i, from, to, f, values, base, &mut made)) == 0 {
            call!(self, terrace_matrix_set_grid(context, made, dims.as_ptr(), null()));
            call!(self, terrace_matrix_destroy(made));
        }
        // The last value reaches outside of the grid.
        let outside = if self.random.once_in(5) { 0.5_f64 } else { 0.0 };
        let (steps, entries) = ([0_i32, 0, 0, 1, 0, 0], [2.0, 3.0, 1.0, outside, outside, outside]);
        let (to, entries, flags) = (steps.as_ptr(), entries.as_ptr().cast(), TERRACE_COPY);
        let (dofs, layout) =
            ([1, 1, 1, 0][self.random.below(4)], [TERRACE_BY_OFFSET, TERRACE_BY_CELL][self.random.below(2)]);
        let (of, none) = (dims.as_ptr(), null());
        if call!(
            self,
            terrace_matrix_create_stencil(context, of, none, dofs, 2, to, f, entries, layout, flags, &mut made)
        ) == 0
        {
            call!(self, terrace_matrix_destroy(made));
        }
        let (offsets, size) = ([0_i32, 1], [2, 2, 2, 9, 0][self.random.below(5)]);
        let (from, flags) = (offsets.as_ptr().cast(), TERRACE_COPY);
        if call!(
            self,
            terrace_matrix_create_bsr(context, 1, 1, size, i, from, i, from, f, values, base, flags, &mut made)
        ) == 0
        {
            call!(self, terrace_matrix_destroy(made));
        }
    }

    /// Everything that a report is asked.
    fn ask_report(&mut self) {
        let mut report = null_mut();
        let status = match self.amgs.last().filter(|_| self.solvers.is_empty()) {
            Some((amg, _)) => call!(self, terrace_amg_report(*amg, &mut report)),
            None if self.solvers.is_empty() => return,
            None => call!(self, terrace_solver_report(self.solvers[0].handle, &mut report)),
        };
        if status != 0 {
            return;
        }
        let key =
            self.random.of(&[c"iterations", c"levels", c"true_residual", c"solver", c"format", c"status", c"nothing"]);
        let (key, index) =
            (if self.random.once_in(20) { null() } else { key.as_ptr() }, self.random.below(4) as i64 - 1);
        let (mut int, mut real, mut needed, mut text) = (0, 0.0, 0, [0 as c_char; 40]);
        let (mut history, mut count) = ([0.0; 10], 0);
        call!(self, terrace_report_get_int(report, key, index, &mut int));
        call!(self, terrace_report_get_real(report, key, index, &mut real));
        call!(self, terrace_report_get_str(report, key, index, text.as_mut_ptr(), text.len(), &mut needed));
        call!(self, terrace_report_get_history(report, index, history.as_mut_ptr(), 10, &mut count));
        call!(self, terrace_report_get_history(report, 0, null_mut(), 10, &mut count));
        call!(self, terrace_report_to_text(report, text.as_mut_ptr(), text.len(), &mut needed));
        call!(self, terrace_report_to_json(report, null_mut(), 0, &mut needed));
        call!(self, terrace_report_destroy(report));
    }

    fn operate(&mut self) {
        let (left, right) = (self.random.below(self.matrices.len()), self.random.below(self.matrices.len()));
        let (context, mut made) = (self.context(), null_mut());
        let (left, right) = (&self.matrices[left], &self.matrices[right]);
        // SAFETY: alive or null, and a pointer to a local; what is made is destroyed once.
        unsafe {
            let status = terrace_matrix_transpose(context, left.handle, &mut made);
            if self.seen("terrace_matrix_transpose", status) == 0 {
                terrace_matrix_destroy(made);
            }
            let status = terrace_matrix_multiply(context, left.handle, right.handle, &mut made);
            if self.seen("terrace_matrix_multiply", status) == 0 {
                terrace_matrix_destroy(made);
            }
        }
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
    let (calls, first) = (number("TERRACE_API_CALLS").unwrap_or(6000), number("TERRACE_API_SEED").unwrap_or(1));
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
        // `failed_allocations.rs` lets allocations on the host fail.
        -12 => true,
        _ => false,
    }
}
