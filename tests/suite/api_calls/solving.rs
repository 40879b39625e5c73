//! Calls that set up and solve, and operations without a solver.

use super::*;

impl World {
    pub(super) fn setup(&mut self) {
        let (s, m) = (self.random.below(self.solvers.len()), self.random.below(self.matrices.len()));
        let matrix = if self.random.once_in(30) { null_mut() } else { self.matrices[m].handle };
        // SAFETY: alive or null.
        let status = unsafe { terrace_solver_setup(self.solvers[s].handle, matrix) };
        if self.seen("terrace_solver_setup", status) == 0 {
            self.solvers[s].set_up = Some(m);
        }
    }

    pub(super) fn update(&mut self) {
        let Solver { handle: solver, set_up, .. } = self.solvers[self.random.below(self.solvers.len())];
        // SAFETY: alive.
        let status = self.seen("terrace_solver_update", unsafe { terrace_solver_update(solver) });
        assert!(set_up.is_some() || status != 0);
    }

    pub(super) fn solve(&mut self) {
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

    pub(super) fn amg(&mut self) {
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
            let to = x.as_mut_ptr().cast();
            if call!(self, terrace_amg_apply_transposed(amg, TERRACE_F64, b.as_ptr().cast(), to)) == 0 {
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
    pub(super) fn fsai(&mut self) {
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
        let to = x.as_mut_ptr().cast();
        if call!(self, terrace_fsai_apply_transposed(fsai, TERRACE_F64, b.as_ptr().cast(), to)) == 0 {
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

    pub(super) fn operate(&mut self) {
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
}
