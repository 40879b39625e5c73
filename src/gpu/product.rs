//! What all products of a matrix and a vector share: the three forms of `kernels/finish.h`.

use super::runtime::{Argument, View, tag};
use super::{Gpu, Slice};
use crate::backend::Operator;
use crate::error::Result;
use crate::scalar::{Number, Precision};
use std::ffi::c_void;

/// What becomes of A x, as `kernels/finish.h` has it.
#[repr(C)]
pub(super) struct Finish {
    form: i32,
    format: i32,
    alpha: f64,
    beta: f64,
    b: View,
    y: View,
}

// SAFETY: the layout of the struct in `kernels/finish.h`.
unsafe impl Argument for Finish {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<Finish>() as u8)
    }
}

/// A matrix in device memory.
pub(super) trait Product<X: Number, Y: Number>: Send + Sync {
    /// Where it lies.
    fn gpu(&self) -> &Gpu;
    /// Scalar rows and columns.
    fn shape(&self) -> (usize, usize);
    /// Runs the kernel.
    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()>;
    /// As in [`Operator::bytes`].
    fn bytes(&self) -> usize;
    /// As in [`Operator::format`].
    fn format(&self) -> String;
    /// As in [`Operator::precision`].
    fn precision(&self) -> Precision;
}

/// The part of a kernel's name that tells storage, vector and sums. Sums are as wide as arithmetic on the result.
pub(super) fn names<S: Number, X: Number, Y: Number>() -> String {
    [S::PRECISION, X::PRECISION, Y::Wide::PRECISION].map(Precision::name).join("_")
}

impl<X: Number, Y: Number, P: Product<X, Y>> Operator<Gpu, X, Y> for Placed<P> {
    fn rows(&self) -> usize {
        self.0.shape().0
    }

    fn apply(&self, alpha: Y::Wide, x: &Slice<X>, beta: Y::Wide, y: &mut Slice<Y>) -> Result<()> {
        let form = i32::from(beta != Y::Wide::ZERO);
        self.run(form, (alpha.to_f64(), beta.to_f64()), View::NONE, x, y)
    }

    fn residual(&self, b: &Slice<Y>, x: &Slice<X>, r: &mut Slice<Y>) -> Result<()> {
        assert_eq!(b.len(), r.len());
        self.run(2, (1.0, 0.0), b.view(), x, r)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn format(&self) -> String {
        self.0.format()
    }

    fn precision(&self) -> Precision {
        self.0.precision()
    }
}

/// A matrix as an operator.
pub(super) struct Placed<P>(pub P);

impl<P> Placed<P> {
    fn run<X: Number, Y: Number>(
        &self,
        form: i32,
        (alpha, beta): (f64, f64),
        b: View,
        x: &Slice<X>,
        y: &mut Slice<Y>,
    ) -> Result<()>
    where
        P: Product<X, Y>,
    {
        let (rows, cols) = self.0.shape();
        assert!(x.len() == cols && y.len() == rows);
        self.0.gpu().failed()?;
        self.0.run(x, &Finish { form, format: tag::<Y>(), alpha, beta, b, y: y.view() })
    }
}
