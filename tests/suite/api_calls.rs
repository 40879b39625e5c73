//! Random sequences of calls of the C ABI, with arguments that are now and then wrong. No call crashes or returns a status that its comment in the
//! header does not name, and a solve that returns success has a small residual, which is computed here.
//!
//! `TERRACE_API_CALLS` is the number of calls, `TERRACE_API_SEED` the first seed; `make deep-test` makes more than the few thousand of CI.

use crate::common::root;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_void};
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
    let mut comments = BTreeMap::new();
    for (at, _) in header.match_indices("\nterrace_status terrace_") {
        let name = header[at + 16..].split('(').next().unwrap_or_default().to_string();
        let begin = header[..at].rfind("/**").unwrap();
        comments.insert(name, header[begin..at].to_string());
    }
    let named = |comment: &str| -> BTreeSet<i32> {
        STATUSES.iter().filter(|row| comment.contains(&format!("`{}`", row.name))).map(|row| row.code).collect()
    };
    let all = |comment: &String| {
        let mut codes = named(comment);
        codes.insert(0);
        let flat = comment.replace("\n *", "");
        for (name, other) in &comments {
            if [format!("those of `{name}`"), format!("as `{name}`")].iter().any(|text| flat.contains(text)) {
                codes.extend(named(other));
            }
        }
        codes
    };
    comments.iter().map(|(name, comment)| (name.clone(), all(comment))).collect()
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

    /// |b - A x| / |b|.
    fn residual(&self, b: &[f64], x: &[f64]) -> f64 {
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
        let row = |i: usize| self.offsets[i] as usize..self.offsets[i + 1] as usize;
        let product = |i: usize| row(i).map(|k| self.values[k] * x[self.columns[k] as usize]).sum::<f64>();
        let r = norm(&mut (0..self.rows()).map(|i| b[i] - product(i)));
        let b = norm(&mut b.iter().copied());
        if b == 0.0 { r } else { r / b }
    }
}

struct Matrix {
    handle: *mut terrace_matrix,
    system: System,
}

/// Objects that are alive, and what each status was seen from.
struct World {
    random: Random,
    documented: BTreeMap<String, BTreeSet<i32>>,
    contexts: Vec<*mut terrace_context>,
    matrices: Vec<Matrix>,
    configs: Vec<*mut terrace_config>,
    /// With the number of the matrix that each is set up with.
    solvers: Vec<(*mut terrace_solver, Option<usize>)>,
    amgs: Vec<(*mut terrace_amg, usize)>,
    solved: usize,
    undocumented: RefCell<BTreeSet<String>>,
}

const KEYS: &[(&str, &[&str])] = &[
    ("solver.type", &["auto", "cg", "fcg", "gmres", "fgmres", "bicgstab", "richardson", "sor"]),
    ("solver.preconditioner", &["amg", "none"]),
    ("solver.max_iterations", &["0", "3", "200", "-1"]),
    ("solver.restart", &["1", "5", "30", "0"]),
    ("amg.coarsening.type", &["auto", "pmis", "hmis", "mis2", "pairwise", "rs"]),
    ("amg.interpolation.type", &["auto", "direct", "extended_i", "mm_ext_i", "smoothed", "tentative"]),
    ("amg.coarsening.aggressive_levels", &["0", "1", "64"]),
    ("amg.interpolation.aggressive", &["two_stage", "multipass"]),
    ("amg.smoother.type", &["auto", "jacobi", "l1_jacobi", "gauss_seidel", "l1_gauss_seidel", "chebyshev", "fsai"]),
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
        if !self.documented[function].contains(&status) {
            self.undocumented.borrow_mut().insert(format!("{function} returned {status}"));
        }
        status
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
        // SAFETY: alive; a count that is not that of the matrix is refused before the array is read.
        let status = unsafe {
            terrace_matrix_update_values(context, self.matrices[at].handle, TERRACE_F64, values.as_ptr().cast(), count)
        };
        if self.seen("terrace_matrix_update_values", status) == 0 {
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
            let json = CString::new(format!("{{\"{key}\": {value:?}")).unwrap();
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
            self.solvers.push((solver, None));
        }
    }

    fn setup(&mut self) {
        let (s, m) = (self.random.below(self.solvers.len()), self.random.below(self.matrices.len()));
        let matrix = if self.random.once_in(30) { null_mut() } else { self.matrices[m].handle };
        // SAFETY: alive or null.
        let status = unsafe { terrace_solver_setup(self.solvers[s].0, matrix) };
        if self.seen("terrace_solver_setup", status) == 0 {
            self.solvers[s].1 = Some(m);
        }
    }

    fn update(&mut self) {
        let (solver, set_up) = self.solvers[self.random.below(self.solvers.len())];
        // SAFETY: alive.
        let status = self.seen("terrace_solver_update", unsafe { terrace_solver_update(solver) });
        assert!(set_up.is_some() || status != 0);
    }

    fn solve(&mut self) {
        let (solver, set_up) = self.solvers[self.random.below(self.solvers.len())];
        let system = set_up.map(|m| self.matrices[m].system.clone());
        let (n, count) = (system.as_ref().map_or(1, System::rows), [1, 1, 1, 3, 0][self.random.below(5)]);
        let scale = (80.0 * (self.random.real() - 0.5)).exp2();
        let mut b: Vec<f64> = (0..n * count).map(|_| scale * (self.random.real() - 0.5)).collect();
        if self.random.once_in(20) && !b.is_empty() {
            b[0] = f64::NAN;
        }
        let mut x = vec![0.0; b.len()];
        let guess = if self.random.once_in(2) { TERRACE_ZERO_GUESS } else { TERRACE_GIVEN_GUESS };
        let asked = if self.random.once_in(40) { -1 } else { count as i64 };
        let to: *mut c_void = if self.random.once_in(60) { null_mut() } else { x.as_mut_ptr().cast() };
        // SAFETY: alive, and vectors of this size or null.
        let status = unsafe { terrace_solver_solve(solver, TERRACE_F64, asked, b.as_ptr().cast(), to, guess) };
        if self.seen("terrace_solver_solve", status) != 0 || asked < 0 {
            return;
        }
        let system = system.expect("a solver without set-up solves nothing");
        for (b, x) in b.chunks_exact(n.max(1)).zip(x.chunks_exact(n.max(1))).take(if n == 0 { 0 } else { count }) {
            let residual = system.residual(b, x);
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
        }
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
                    terrace_context_destroy(self.contexts.swap_remove(at));
                }
                1 if !self.configs.is_empty() => {
                    let at = self.random.below(self.configs.len());
                    terrace_config_destroy(self.configs.swap_remove(at));
                }
                2 | 3 if !self.solvers.is_empty() => {
                    let at = self.random.below(self.solvers.len());
                    terrace_solver_destroy(self.solvers.swap_remove(at).0);
                }
                4 if !self.amgs.is_empty() => {
                    let at = self.random.below(self.amgs.len());
                    terrace_amg_destroy(self.amgs.swap_remove(at).0);
                }
                _ => {}
            };
        }
    }

    fn step(&mut self) {
        let (matrices, solvers) = (!self.matrices.is_empty(), !self.solvers.is_empty());
        match self.random.below(20) {
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
            18 if matrices => self.operate(),
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
            let solvers = self.solvers.iter().map(|solver| terrace_solver_destroy(solver.0));
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
    let (mut solved, mut undocumented) = (0, BTreeSet::new());
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
        };
        (0..500.min(calls)).for_each(|_| world.step());
        solved += world.solved;
        undocumented.append(world.undocumented.get_mut());
    }
    assert!(undocumented.is_empty(), "statuses that the comments in the header do not name: {undocumented:#?}");
    assert!(solved * 50 > calls, "only {solved} systems were solved");
}
