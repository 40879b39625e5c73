//! Calls that ask an object, or tell it something.

use super::*;

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

impl World {
    /// What a context can be asked and told.
    pub(super) fn ask_context(&mut self) {
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
    pub(super) fn ask_config(&mut self) {
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
    pub(super) fn ask_solver(&mut self) {
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
                if let Some((amg, _)) = self.amgs.last() {
                    call!(self, terrace_amg_get_option(*amg, key.as_ptr(), text.as_mut_ptr(), 40, &mut needed));
                }
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
    pub(super) fn ask_matrix(&mut self) {
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

    /// Everything that a report is asked.
    pub(super) fn ask_report(&mut self) {
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
}
