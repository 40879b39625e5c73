//! What all products of a matrix and a vector share: the three forms of `kernels/finish.h`.

use super::runtime::View;
use super::{Gpu, Slice};
use crate::backend::Operator;
use crate::error::Result;
use crate::scalar::{Number, Precision};

/// What becomes of A x.
pub(super) struct Finish {
    pub form: i32,
    pub alpha: f64,
    pub beta: f64,
    pub b: View,
}

/// A matrix in device memory.
pub(super) trait Product<X: Number, Y: Number>: Send + Sync {
    /// Where it lies.
    fn gpu(&self) -> &Gpu;
    /// Scalar rows and columns.
    fn shape(&self) -> (usize, usize);
    /// Runs the kernel.
    fn run(&self, finish: &Finish, x: &Slice<X>, y: &mut Slice<Y>) -> Result<()>;
    /// As in [`Operator::bytes`].
    fn bytes(&self) -> usize;
    /// As in [`Operator::format`].
    fn format(&self) -> String;
    /// As in [`Operator::precision`].
    fn precision(&self) -> Precision;
}

impl<X: Number, Y: Number, P: Product<X, Y>> Operator<Gpu, X, Y> for Placed<P> {
    fn rows(&self) -> usize {
        self.0.shape().0
    }

    fn apply(&self, alpha: Y::Wide, x: &Slice<X>, beta: Y::Wide, y: &mut Slice<Y>) -> Result<()> {
        let form = i32::from(beta != Y::Wide::ZERO);
        self.run(&Finish { form, alpha: alpha.to_f64(), beta: beta.to_f64(), b: View::NONE }, x, y)
    }

    fn residual(&self, b: &Slice<Y>, x: &Slice<X>, r: &mut Slice<Y>) -> Result<()> {
        assert_eq!(b.len(), r.len());
        self.run(&Finish { form: 2, alpha: 1.0, beta: 0.0, b: b.view() }, x, r)
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
    fn run<X: Number, Y: Number>(&self, finish: &Finish, x: &Slice<X>, y: &mut Slice<Y>) -> Result<()>
    where
        P: Product<X, Y>,
    {
        let (rows, cols) = self.0.shape();
        assert!(x.len() == cols && y.len() == rows);
        self.0.gpu().failed()?;
        self.0.run(finish, x, y)
    }
}
