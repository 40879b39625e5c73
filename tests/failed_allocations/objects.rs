//! A context, a matrix and a solver, made through the C interface.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use terrace::capi::*;
use terrace::sparse::Csr;

/// Objects of one device, and a system.
pub struct Objects<'a> {
    pub a: &'a Csr<f64>,
    pub b: Vec<f64>,
    pub x: Vec<f64>,
    pub context: *mut terrace_context,
    pub config: *mut terrace_config,
    pub matrix: *mut terrace_matrix,
    pub solver: *mut terrace_solver,
    /// Several right-hand sides and solutions.
    several: (Vec<f64>, Vec<f64>),
}

/// How many.
const SEVERAL: usize = 8;

impl<'a> Objects<'a> {
    pub fn new(a: &'a Csr<f64>, device: &CStr, options: &CStr) -> Objects<'a> {
        let n = a.rows * a.block.rows;
        let b: Vec<f64> = (0..n).map(|i| (1 + i % 7) as f64).collect();
        let (mut context, mut config, mut solver) = (null_mut(), null_mut(), null_mut());
        // SAFETY: pointers to locals.
        unsafe {
            assert_eq!(terrace_context_create(device.as_ptr(), &mut context), 0);
            assert_eq!(terrace_config_create(context, &mut config), 0);
            assert_eq!(terrace_config_load_json(config, options.as_ptr()), 0);
            assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
        }
        let several = (vec![0.0; SEVERAL * n], vec![0.0; SEVERAL * n]);
        let mut objects = Objects { a, b, x: vec![0.0; n], context, config, matrix: null_mut(), solver, several };
        objects.matrix = objects.create().unwrap();
        objects
    }

    pub fn create(&self) -> Result<*mut terrace_matrix, terrace_status> {
        let (n, a) = (self.a.rows as i64, self.a);
        let (offsets, columns, values) = (a.offsets.as_ptr(), a.columns.as_ptr(), a.values.as_ptr());
        let mut matrix = null_mut();
        // SAFETY: the arrays are as long as the sizes say.
        let status = unsafe {
            terrace_matrix_create_bsr(
                self.context,
                n,
                n,
                a.block.rows as i32,
                TERRACE_I64,
                offsets.cast(),
                TERRACE_I32,
                columns.cast(),
                TERRACE_F64,
                values.cast(),
                0,
                TERRACE_COPY,
                &mut matrix,
            )
        };
        if status == 0 { Ok(matrix) } else { Err(status) }
    }

    pub fn solve(&mut self) -> terrace_status {
        self.x.fill(0.0);
        let (b, x): (*const c_void, *mut c_void) = (self.b.as_ptr().cast(), self.x.as_mut_ptr().cast());
        // SAFETY: vectors of the system's size.
        unsafe { terrace_solver_solve(self.solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) }
    }

    /// Solves for the same right-hand side many times in one call, which takes memory for several together where there is some.
    pub fn solve_several(&mut self) -> terrace_status {
        let (n, count) = (self.x.len(), SEVERAL);
        for c in 0..count {
            self.several.0[c * n..][..n].copy_from_slice(&self.b);
        }
        let (b, x): (*const c_void, *mut c_void) = (self.several.0.as_ptr().cast(), self.several.1.as_mut_ptr().cast());
        // SAFETY: vectors of the system's size, times the number of right-hand sides.
        let status = unsafe { terrace_solver_solve(self.solver, TERRACE_F64, count as i64, b, x, TERRACE_ZERO_GUESS) };
        self.x.copy_from_slice(&self.several.1[(count - 1) * n..]);
        status
    }

    /// The residual of x is small.
    pub fn is_solved(&self) {
        let product = product(self.a, &self.x);
        let residual: f64 = self.b.iter().zip(product).map(|(b, p)| (b - p).powi(2)).sum();
        let norm: f64 = self.b.iter().map(|b| b * b).sum();
        assert!(residual <= 1e-15 * norm, "{}", (residual / norm).sqrt());
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this type, and not used again.
        unsafe {
            terrace_solver_destroy(self.solver);
            terrace_matrix_destroy(self.matrix);
            terrace_config_destroy(self.config);
            terrace_context_destroy(self.context);
        }
    }
}

/// A x.
pub fn product(a: &Csr<f64>, x: &[f64]) -> Vec<f64> {
    let size = a.block.rows;
    let mut y = vec![0.0; a.rows * size];
    for i in 0..a.rows {
        for (j, block) in a.view().row(i) {
            block.iter().enumerate().for_each(|(e, v)| y[i * size + e / size] += v * x[j * size + e % size]);
        }
    }
    y
}

/// Destroys what a call made.
pub fn destroy(made: &mut *mut terrace_matrix) {
    // SAFETY: null or alive.
    unsafe { terrace_matrix_destroy(std::mem::replace(made, null_mut())) };
}
