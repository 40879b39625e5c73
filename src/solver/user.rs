//! Callbacks as operator and as preconditioner.

use super::UserApply;
use crate::backend::{Operator, Preconditioner};
use crate::error::{Result, fail, try_vec};
use crate::gpu::Gpu;
use crate::host::Host;
use crate::matrix::MatrixBackend;
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// A backend that a [`Solver`](super::Solver) can run on.
pub trait SolverBackend: MatrixBackend {
    /// An operator callback of the caller, whose vectors are on the host.
    fn user_operator<T: Scalar>(&self, user: &User) -> Result<Box<dyn Operator<Self, T>>>;
    /// A preconditioner callback of the caller, whose vectors are on the host.
    fn user_preconditioner<T: Scalar>(&self, user: &User) -> Result<Box<dyn Preconditioner<Self, T>>>;
}

impl SolverBackend for Host {
    fn user_operator<T: Scalar>(&self, user: &User) -> Result<Box<dyn Operator<Host, T>>> {
        Ok(Box::new(user.clone()))
    }

    fn user_preconditioner<T: Scalar>(&self, user: &User) -> Result<Box<dyn Preconditioner<Host, T>>> {
        Ok(Box::new(user.clone()))
    }
}

impl SolverBackend for Gpu {
    fn user_operator<T: Scalar>(&self, _: &User) -> Result<Box<dyn Operator<Gpu, T>>> {
        fail!(
            Unsupported,
            "an operator callback gets vectors on the host, and this context is on a GPU; use a host context"
        )
    }

    fn user_preconditioner<T: Scalar>(&self, _: &User) -> Result<Box<dyn Preconditioner<Gpu, T>>> {
        fail!(
            Unsupported,
            "a preconditioner callback gets vectors on the host, and this context is on a GPU; use a host context"
        )
    }
}

/// A callback as operator and as preconditioner.
#[derive(Clone)]
pub struct User {
    pub what: &'static str,
    pub rows: usize,
    pub apply: Arc<UserApply>,
}

impl User {
    fn call<T: Scalar>(&self, x: &[T], y: &mut [T]) -> Result<()> {
        match (self.apply)(T::slice_ref(x), T::slice_mut(y)) {
            0 => Ok(()),
            code => fail!(Callback, "the {} callback returned {code}; 0 is success", self.what),
        }
    }
}

impl<T: Scalar> Operator<Host, T> for User {
    fn rows(&self) -> usize {
        self.rows
    }

    fn apply(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) -> Result<()> {
        if beta != T::ZERO {
            let mut product = try_vec(y.len(), T::ZERO)?;
            self.call(x, &mut product)?;
            for (y, p) in y.iter_mut().zip(&product) {
                *y = alpha * *p + beta * *y;
            }
            return Ok(());
        }
        self.call(x, y)?;
        if alpha != T::ONE {
            for y in y {
                *y *= alpha;
            }
        }
        Ok(())
    }

    fn residual(&self, b: &[T], x: &[T], r: &mut [T]) -> Result<()> {
        self.call(x, r)?;
        for (r, b) in r.iter_mut().zip(b) {
            *r = *b - *r;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        0
    }

    fn format(&self) -> String {
        "callback".to_string()
    }

    fn precision(&self) -> Precision {
        T::PRECISION
    }
}

impl<T: Scalar> Preconditioner<Host, T> for User {
    fn apply(&mut self, r: &[T], z: &mut [T]) -> Result<()> {
        self.call(r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        false
    }
}
