//! Callbacks as operator and as preconditioner.

use super::{DeviceApply, DeviceVectors, UserApply};
use crate::backend::{Backend, Multivectors, Operator, Preconditioner};
use crate::error::{Result, fail, try_vec};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::host::Host;
use crate::matrix::MatrixBackend;
use crate::scalar::{Precision, Scalar};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// A backend that a [`Solver`](super::Solver) can run on.
pub trait SolverBackend: MatrixBackend + Multivectors {
    /// An operator callback of the caller, whose vectors are where those of the backend are.
    fn user_operator<T: Scalar>(&self, user: &User) -> Result<Box<dyn Operator<Self, T>>>;
    /// A preconditioner callback of the caller, whose vectors are where those of the backend are.
    fn user_preconditioner<T: Scalar>(&self, user: &User) -> Result<Box<dyn Preconditioner<Self, T>>>;
}

impl SolverBackend for Host {
    fn user_operator<T: Scalar>(&self, user: &User) -> Result<Box<dyn Operator<Host, T>>> {
        Ok(Box::new(user.on_host()?))
    }

    fn user_preconditioner<T: Scalar>(&self, user: &User) -> Result<Box<dyn Preconditioner<Host, T>>> {
        Ok(Box::new(user.on_host()?))
    }
}

impl SolverBackend for Gpu {
    fn user_operator<T: Scalar>(&self, user: &User) -> Result<Box<dyn Operator<Gpu, T>>> {
        Ok(Box::new(user.on_device::<T>(self)?))
    }

    fn user_preconditioner<T: Scalar>(&self, user: &User) -> Result<Box<dyn Preconditioner<Gpu, T>>> {
        Ok(Box::new(user.on_device::<T>(self)?))
    }
}

/// A callback of the caller.
#[derive(Clone)]
pub struct User {
    pub what: &'static str,
    pub rows: usize,
    pub apply: Apply,
}

/// What a callback gets.
#[derive(Clone)]
pub enum Apply {
    /// Vectors on the host.
    Host(Arc<UserApply>),
    /// Vectors in the memory of the context's GPU.
    Device(Arc<DeviceApply>),
}

impl User {
    fn on_host(&self) -> Result<HostUser> {
        match &self.apply {
            Apply::Host(apply) => Ok(HostUser { what: self.what, rows: self.rows, apply: Arc::clone(apply) }),
            Apply::Device(_) => fail!(
                Unsupported,
                "this {} callback gets vectors in device memory, and the context is on the host",
                self.what
            ),
        }
    }

    fn on_device<T: Scalar>(&self, gpu: &Gpu) -> Result<DeviceUser<T>> {
        match &self.apply {
            Apply::Device(apply) => Ok(DeviceUser {
                gpu: gpu.clone(),
                what: self.what,
                rows: self.rows,
                apply: Arc::clone(apply),
                product: Mutex::new(None),
            }),
            Apply::Host(_) => {
                fail!(Unsupported, "this {} callback gets vectors on the host, and the context is on a GPU", self.what)
            }
        }
    }
}

fn check(what: &str, code: i32) -> Result<()> {
    match code {
        0 => Ok(()),
        code => fail!(Callback, "the {what} callback returned {code}; 0 is success"),
    }
}

/// A callback on vectors in device memory, as operator and as preconditioner.
struct DeviceUser<T: Scalar> {
    gpu: Gpu,
    what: &'static str,
    rows: usize,
    apply: Arc<DeviceApply>,
    /// A x, where that is added to something; allocated at first use.
    product: Mutex<Option<Buffer<T>>>,
}

impl<T: Scalar> DeviceUser<T> {
    /// On a stream of the caller's everything is in order. Otherwise x is complete when the callback begins, and what it launches on the
    /// default stream comes before what follows.
    fn call(&self, x: &Slice<T>, y: &mut Slice<T>) -> Result<()> {
        self.gpu.begin_callback()?;
        let vectors = DeviceVectors { n: x.len(), precision: T::PRECISION, x: x.address(), y: y.address() };
        check(self.what, (self.apply)(vectors))?;
        self.gpu.begin_call()
    }
}

impl<T: Scalar> Operator<Gpu, T> for DeviceUser<T> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn apply(&self, alpha: T, x: &Slice<T>, beta: T, y: &mut Slice<T>) -> Result<()> {
        if beta == T::ZERO {
            self.call(x, y)?;
            self.gpu.scale(alpha, y);
            return Ok(());
        }
        let mut product = lock(self.product.lock());
        let product = match &mut *product {
            Some(product) => product,
            none => none.insert(self.gpu.zeros(y.len())?),
        };
        self.call(x, product)?;
        self.gpu.axpby(alpha, product, beta, y);
        Ok(())
    }

    fn residual(&self, b: &Slice<T>, x: &Slice<T>, r: &mut Slice<T>) -> Result<()> {
        self.call(x, r)?;
        self.gpu.axpby(T::ONE, b, -T::ONE, r);
        Ok(())
    }

    fn is_capturable(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        lock(self.product.lock()).as_ref().map_or(0, |product| size_of::<T>() * product.len())
    }

    fn format(&self) -> String {
        "callback".to_string()
    }

    fn precision(&self) -> Precision {
        T::PRECISION
    }
}

impl<T: Scalar> Preconditioner<Gpu, T> for DeviceUser<T> {
    fn apply(&mut self, r: &Slice<T>, z: &mut Slice<T>) -> Result<()> {
        self.call(r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        false
    }
}

/// A callback on vectors of the host, as operator and as preconditioner.
struct HostUser {
    what: &'static str,
    rows: usize,
    apply: Arc<UserApply>,
}

impl HostUser {
    fn call<T: Scalar>(&self, x: &[T], y: &mut [T]) -> Result<()> {
        check(self.what, (self.apply)(T::slice_ref(x), T::slice_mut(y)))
    }
}

impl<T: Scalar> Operator<Host, T> for HostUser {
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

impl<T: Scalar> Preconditioner<Host, T> for HostUser {
    fn apply(&mut self, r: &[T], z: &mut [T]) -> Result<()> {
        self.call(r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        false
    }
}
