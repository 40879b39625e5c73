//! The contract between mathematics and hardware. Cycle and Krylov methods are written once over it; each backend
//! says where vectors live and how operators act on them.

pub(crate) mod common;
pub(crate) mod components;
pub mod parameters;
pub(crate) mod setup;
mod smoother;
pub mod spectrum;

use crate::error::Result;
use crate::range::Range;
use crate::scalar::{Number, Precision, Scalar, Sums};
use crate::sparse::{Coloured, SharedCsr};
use std::ops::DerefMut;
use std::sync::Arc;

pub use smoother::{Colours, Smoother, Sweep};

/// A place where vectors live, and what can be done with them there. Vectors of 16-bit numbers are computed with in f32.
pub trait Backend: Clone + Send + Sync + 'static {
    /// A borrowed vector; a caller's array can be used as one without a copy.
    type Slice<T: Number>: ?Sized + Send + Sync;
    /// A vector owned by the library.
    type Buffer<T: Number>: DerefMut<Target = Self::Slice<T>> + Send + Sync;
    /// A power of two by which a vector was multiplied.
    type Factor: Send + Sync;
    /// What a product can do with its rows beside storing them; nothing where no operator [fuses](Operator::fuses).
    type Finish<'a>;
    /// See [`Steps`].
    type Steps: Steps<Self>;
    /// See [`Basis`].
    type Basis<T: Scalar>: Basis<Self, T>;
    /// See [`Halves`].
    type Halves: Halves<Self>;
    /// Whether a cycle may look at its vectors on the way; on a device the host would have to wait for it each time.
    const LOOKS: bool = true;

    /// A vector of a type that only the caller knows, as one of those that there are.
    fn any_ref<T: Scalar>(x: &Self::Slice<T>) -> AnyRef<'_, Self>;
    /// As [`Backend::any_ref`], to write.
    fn any_mut<T: Scalar>(x: &mut Self::Slice<T>) -> AnyMut<'_, Self>;
    /// The failure of an operation that returned nothing and could not tell it, such as one of a device.
    fn status(&self) -> Result<()> {
        Ok(())
    }
    /// A vector of `n` zeros.
    fn zeros<T: Number>(&self, n: usize) -> Result<Self::Buffer<T>>;
    /// x = value.
    fn fill<T: Number>(&self, value: T, x: &mut Self::Slice<T>);
    /// y = x, in the precision of y.
    fn copy<T: Number, U: Number>(&self, x: &Self::Slice<T>, y: &mut Self::Slice<U>);
    /// x = alpha x.
    fn scale<T: Number>(&self, alpha: T::Wide, x: &mut Self::Slice<T>);
    /// y = alpha x + beta y; y is not read when beta is 0.
    fn axpby<T: Number>(&self, alpha: T::Wide, x: &Self::Slice<T>, beta: T::Wide, y: &mut Self::Slice<T>);
    /// y += D x for a diagonal D, or one of square blocks, each stored row by row: d is as many times longer than x as a block has
    /// rows. Any storage format.
    fn add_scaled_by<T: Number, S: Number>(&self, d: &Self::Slice<S>, x: &Self::Slice<T>, y: &mut Self::Slice<T>);
    /// y = D x, with D as for [`Backend::add_scaled_by`].
    fn scale_by<T: Number, S: Number>(&self, d: &Self::Slice<S>, x: &Self::Slice<T>, y: &mut Self::Slice<T>);
    /// y = factor D x in the precision of y, where D is a diagonal or absent; the multiplications are in f64. Backends that look return the
    /// largest absolute value before y is rounded to its format, NaN when there is one.
    fn convert<T: Number, U: Number>(
        &self,
        factor: f64,
        d: Option<&Self::Slice<f32>>,
        x: &Self::Slice<T>,
        y: &mut Self::Slice<U>,
    ) -> Option<f64>;
    /// A factor of 1.
    fn factor(&self) -> Result<Self::Factor>;
    /// As [`Backend::convert`] with `shift` times the power of two that brings the largest into the range, 1 where it is there. The power is
    /// kept in the factor; what is returned is the largest without it.
    fn fit<T: Number, U: Number>(
        &self,
        guard: (&Range, &mut Self::Factor),
        shift: f64,
        d: Option<&Self::Slice<f32>>,
        x: &Self::Slice<T>,
        y: &mut Self::Slice<U>,
    ) -> Option<f64>;
    /// As [`Backend::convert`] with `shift` divided by the factor.
    fn unfit<T: Number, U: Number>(
        &self,
        factor: &Self::Factor,
        shift: f64,
        d: Option<&Self::Slice<f32>>,
        x: &Self::Slice<T>,
        y: &mut Self::Slice<U>,
    ) -> Option<f64>;
    /// The largest absolute value, NaN when there is one.
    fn peak<T: Number>(&self, x: &Self::Slice<T>) -> f64;
    /// The inner product, accumulated in f64 in a fixed order.
    fn dot<T: Number>(&self, x: &Self::Slice<T>, y: &Self::Slice<T>) -> f64;
    /// y = x + D (b - A x) for a diagonal D in any storage format, without blocks or with blocks that the operator [fuses](Operator::fuses).
    fn sweep<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Self, V>,
        d: &Self::Slice<S>,
        b: &Self::Slice<V>,
        x: &Self::Slice<V>,
        y: &mut Self::Slice<V>,
    ) -> Result<()>;
    /// p = D r + β p, x += α p, with D as for [`Backend::add_scaled_by`]; p is not read when β is 0, and x not where it is `fresh`: it becomes α p.
    fn turn_and_step<V: Number, S: Number>(
        &self,
        d: &Self::Slice<S>,
        r: &Self::Slice<V>,
        recurrence: Recurrence<'_, Self::Slice<V>>,
        x: &mut Self::Slice<V>,
        fresh: bool,
    ) {
        let Recurrence { alpha, beta, p } = recurrence;
        turn(self, d, r, beta, p);
        self.axpby(V::Wide::from_f64(alpha), p, if fresh { V::Wide::ZERO } else { V::Wide::ONE }, x);
    }
    /// p = D (b - A x) + β p, y = x + α p, with D as for [`Backend::sweep`]; p is not read when β is 0.
    fn chebyshev<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Self, V>,
        d: &Self::Slice<S>,
        b: &Self::Slice<V>,
        x: &Self::Slice<V>,
        recurrence: Recurrence<'_, Self::Slice<V>>,
        y: &mut Self::Slice<V>,
    ) -> Result<()> {
        let Recurrence { alpha, beta, p } = recurrence;
        a.residual(b, x, y)?;
        turn(self, d, y, beta, p);
        self.copy(x, y);
        self.axpby(V::Wide::from_f64(alpha), p, V::Wide::ONE, y);
        Ok(())
    }
    /// r = b - A x, and its Euclidean norm, accumulated as in [`Backend::dot`], perhaps in another order.
    fn residual_norm<V: Number>(
        &self,
        a: &dyn Operator<Self, V>,
        b: &Self::Slice<V>,
        x: &Self::Slice<V>,
        r: &mut Self::Slice<V>,
    ) -> Result<f64> {
        a.residual(b, x, r)?;
        Ok(self.norm(r))
    }
    /// y = z + alpha A x.
    fn add_product<X: Number, Y: Number>(
        &self,
        a: &dyn Operator<Self, X, Y>,
        alpha: Y::Wide,
        x: &Self::Slice<X>,
        z: &Self::Slice<Y>,
        y: &mut Self::Slice<Y>,
    ) -> Result<()>;
    /// What conjugate gradients work with.
    fn steps(&self) -> Result<Self::Steps>;
    /// What GMRES works with: room for a basis of `m` vectors of `n` elements, and where they are `kept` for as many preconditioned ones.
    fn basis<T: Scalar>(&self, n: usize, m: usize, kept: bool) -> Result<Self::Basis<T>>;
    /// What BiCGStab works with.
    fn halves(&self) -> Result<Self::Halves>;
    /// The Euclidean norm.
    fn norm<T: Number>(&self, x: &Self::Slice<T>) -> f64 {
        self.dot(x, x).sqrt()
    }
}

/// p = D r + β p.
fn turn<B: Backend, V: Number, S: Number>(
    backend: &B,
    d: &B::Slice<S>,
    r: &B::Slice<V>,
    beta: f64,
    p: &mut B::Slice<V>,
) {
    if beta == 0.0 {
        backend.scale_by(d, r, p);
    } else {
        backend.scale(V::Wide::from_f64(beta), p);
        backend.add_scaled_by(d, r, p);
    }
}

/// A direction p, how much of it remains in the next one, and how long the step along that is.
pub struct Recurrence<'a, P: ?Sized> {
    /// α.
    pub alpha: f64,
    /// β.
    pub beta: f64,
    /// The direction.
    pub p: &'a mut P,
}

/// The numbers of an iteration of conjugate gradients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// z·r.
    pub zr: f64,
    /// z·q with the q of the iteration before, where β is computed with it.
    pub zq: f64,
    /// z·r of the iteration before.
    pub before: f64,
    /// How much of the direction before is part of p.
    pub beta: f64,
    /// p·q.
    pub pq: f64,
    /// z·r / p·q, or 0 where one of them is not positive: a step that changes nothing.
    pub alpha: f64,
    /// r·r after the step.
    pub rr: f64,
}

/// How β is computed.
pub enum Beta<Q> {
    /// 0, in the first iteration.
    Zero,
    /// z·r / (z·r)_before.
    Plain,
    /// -α z·q / (z·r)_before.
    Flexible(Q),
}

impl<Q> Beta<Q> {
    /// With another form of what it is computed with.
    pub fn map<R>(self, form: impl FnOnce(Q) -> R) -> Beta<R> {
        match self {
            Beta::Zero => Beta::Zero,
            Beta::Plain => Beta::Plain,
            Beta::Flexible(q) => Beta::Flexible(form(q)),
        }
    }
}

/// The steps of conjugate gradients. Numbers that one step finds and another needs stay where the vectors are, so that a device need not be
/// waited for in between.
pub trait Steps<B: Backend>: Send + Sync {
    /// Before the first step of a solve that changes x.
    fn begin<T: Scalar>(&mut self, x: &B::Slice<T>) -> Result<()>;
    /// z·r and β.
    fn dots<T: Scalar>(&mut self, z: &B::Slice<T>, r: &B::Slice<T>, beta: Beta<&B::Slice<T>>) -> Result<()>;
    /// p = z + β p; p is not read when β is 0.
    fn turn<T: Scalar>(&mut self, z: &B::Slice<T>, p: &mut B::Slice<T>) -> Result<()>;
    /// q = A p, p·q as [`Backend::dot`] accumulates it, perhaps in another order, and α.
    fn product<T: Scalar>(&mut self, a: &dyn Operator<B, T>, p: &B::Slice<T>, q: &mut B::Slice<T>) -> Result<()>;
    /// x += α p, r -= α q, and r·r.
    fn step<T: Scalar>(
        &mut self,
        pq: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// The numbers, when all steps are done.
    fn look(&mut self) -> Result<Numbers>;
    /// Does the steps of an iteration. Where a device can repeat work by itself it does so, until [`Steps::forget`]: `fixed` work is the same in
    /// each call, on the same vectors but for x, and waits for nothing.
    fn iterate(&mut self, _fixed: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        work(self)
    }
    /// Before something else than x changes of what iterations work with.
    fn forget(&mut self) {}
}

/// An orthonormal basis that grows by one vector in each iteration of GMRES, and M times each of its vectors where these are kept. Numbers
/// that one step finds and another needs stay where the vectors are, so that a device need not be waited for in between.
pub trait Basis<B: Backend, T: Scalar>: Send {
    /// Empties it; the length of what is appended first.
    fn begin(&mut self, length: f64) -> Result<()>;
    /// Appends w over its length, as [`Basis::begin`] was told it or [`Basis::orthogonalise`] found it.
    fn append(&mut self, w: &B::Slice<T>) -> Result<()>;
    /// The vector appended last, and where M times it goes.
    fn last(&mut self) -> (&B::Slice<T>, &mut B::Slice<T>);
    /// Keeps M times the vector appended last, where such are kept, once it is where it goes.
    fn keep(&mut self) -> Result<()>;
    /// Subtracts from w what it has of each vector of the basis. All inner products are found before the first subtraction, and then all of it
    /// is done once more: once loses orthogonality when the residual drops fast. Finds the length of the rest.
    fn orthogonalise(&mut self, w: &mut B::Slice<T>) -> Result<()>;
    /// The inner products of the last [`Basis::orthogonalise`], one for each vector of the basis; returns the length of the rest.
    fn look(&mut self, column: &mut [f64]) -> Result<f64>;
    /// x += Σ y_i M v_i where these are kept, otherwise Σ y_i v_i.
    fn add(&mut self, y: &[f64], x: &mut B::Slice<T>) -> Result<()>;
    /// As [`Steps::iterate`]; work is the same however many vectors there are.
    fn iterate(&mut self, _fixed: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        work(self)
    }
    /// As [`Steps::forget`].
    fn forget(&mut self) {}
    /// Bytes of the vectors and of room for numbers.
    fn bytes(&self) -> usize;
}

/// The numbers of an iteration of BiCGStab.
#[derive(Clone, Copy, Debug, Default)]
pub struct HalfNumbers {
    /// Shadow residual r̂ times residual r: after both halves that of the next iteration.
    pub rho: f64,
    /// r̂·r̂.
    pub shadow: f64,
    /// The norm of the residual at which the second half changes nothing any more.
    pub target: f64,
    /// How much of the direction before is part of the next one.
    pub beta: f64,
    /// r̂·v.
    pub sigma: f64,
    /// v·v.
    pub vv: f64,
    /// ρ / σ, or 0 where σ is rounding or not a number: a step that changes nothing.
    pub alpha: f64,
    /// s·s for the residual s after the first half.
    pub ss: f64,
    /// t·s.
    pub ts: f64,
    /// t·t.
    pub tt: f64,
    /// t·s / t·t, or 0 where t·s is rounding or not a number, where the first half changed nothing and where it reached the target.
    pub omega: f64,
    /// r·r after both halves.
    pub rr: f64,
}

impl HalfNumbers {
    /// An inner product at or below this share of the product of the norms is rounding.
    pub const ORTHOGONAL: f64 = 1e-15;

    /// Whether there is nothing to do in the second half.
    pub fn is_settled(&self) -> bool {
        self.alpha == 0.0 || self.ss.sqrt() <= self.target
    }
}

/// The halves of an iteration of BiCGStab. Numbers that one step finds and another needs stay where the vectors are, so that a device need
/// not be waited for in between.
pub trait Halves<B: Backend>: Send + Sync {
    /// Before the first step of a solve that changes x, to the residual norm `target`.
    fn begin<T: Scalar>(&mut self, x: &B::Slice<T>, target: f64) -> Result<()>;
    /// The residual of this norm is from here on the shadow, too.
    fn restart(&mut self, norm: f64) -> Result<()>;
    /// p = r + β (p - ω v).
    fn turn<T: Scalar>(&mut self, r: &B::Slice<T>, v: &B::Slice<T>, p: &mut B::Slice<T>) -> Result<()>;
    /// With z = M p and v = A z: σ, v·v and α; x += α z, r -= α v, and s·s for what r is then.
    fn first<T: Scalar>(
        &mut self,
        shadow: &B::Slice<T>,
        zv: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// With z = M r and t = A z: t·s, t·t and ω; x += ω z, r -= ω t; r·r, ρ and β.
    fn second<T: Scalar>(
        &mut self,
        shadow: &B::Slice<T>,
        zt: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// The numbers, when all steps are done.
    fn look(&mut self) -> Result<HalfNumbers>;
    /// As [`Steps::iterate`].
    fn iterate(&mut self, _fixed: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        work(self)
    }
    /// As [`Steps::forget`].
    fn forget(&mut self) {}
}

/// A vector of either type, to read.
pub enum AnyRef<'a, B: Backend> {
    /// f64.
    F64(&'a B::Slice<f64>),
    /// f32.
    F32(&'a B::Slice<f32>),
}

/// A vector of either type, to write.
pub enum AnyMut<'a, B: Backend> {
    /// f64.
    F64(&'a mut B::Slice<f64>),
    /// f32.
    F32(&'a mut B::Slice<f32>),
}

/// Column indices of a stored matrix on the host; other backends have formats of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// In 32 bits, shared with whoever has the matrix.
    Shared,
    /// In 16 bits where that saves enough.
    Compact,
}

/// What set-up asks of a backend: it computes on the host, and what the solve phase needs is placed where the solve phase runs.
pub trait Place: Backend {
    /// An array of the host as one of this backend.
    fn array<S: Number>(&self, values: Vec<S>) -> Result<Self::Buffer<S>>;
    /// A stored matrix as an operator.
    fn matrix<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedCsr<S>,
        columns: Columns,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Self, X, Y>>>;
    /// A dense matrix of `n` rows and columns, row by row, as an operator.
    fn dense<S: Number, V: Number>(&self, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<Self, V>>>;
    /// A matrix by colours, for Gauss-Seidel.
    fn colours<S: Number, V: Number>(&self, matrix: Coloured<S>) -> Result<Box<dyn Colours<Self, V>>>;
}

/// A linear map from vectors of precision `X` to vectors of precision `Y`.
pub trait Operator<B: Backend, X: Number, Y: Number = X>: Send + Sync {
    /// Length of the result.
    fn rows(&self) -> usize;
    /// y = alpha A x + beta y; y is not read when beta is 0. Fails only when a caller's callback does.
    fn apply(&self, alpha: Y::Wide, x: &B::Slice<X>, beta: Y::Wide, y: &mut B::Slice<Y>) -> Result<()>;
    /// r = b - A x.
    fn residual(&self, b: &B::Slice<Y>, x: &B::Slice<X>, r: &mut B::Slice<Y>) -> Result<()>;
    /// Whether [`Backend::sweep`] and [`Backend::chebyshev`] with blocks of so many rows, 1 for a diagonal, are one pass over this matrix, so that it pays
    /// to arrange vectors for them.
    fn fuses(&self, _width: usize) -> bool {
        false
    }
    /// A x in the form that the backend asks for, and in how many parts a sum that the form asks for was made, 0 where it was not; only for
    /// operators that fuse.
    fn finish(&self, _x: &B::Slice<X>, _finish: &B::Finish<'_>) -> Result<usize> {
        unreachable!("asked for only where the operator fuses")
    }
    /// Bytes that the library holds for it.
    fn bytes(&self) -> usize;
    /// Storage format, for reports.
    fn format(&self) -> String;
    /// Storage precision, for reports.
    fn precision(&self) -> Precision;
}

/// An approximate inverse.
pub trait Preconditioner<B: Backend, T: Scalar>: Send {
    /// z = M r.
    fn apply(&mut self, r: &B::Slice<T>, z: &mut B::Slice<T>) -> Result<()>;
    /// Whether M is the same symmetric operator in every application, to rounding in `T`.
    fn is_constant_symmetric(&self) -> bool;
    /// Whether an application does the same operations whatever it is applied to, and the host looks at nothing on the way.
    fn is_fixed(&self) -> bool {
        false
    }
    /// Its matrix as it stores it, when that is the caller's as it is: what multiplies with the same matrix need not store it again.
    fn operator(&self) -> Option<Arc<dyn Operator<B, T>>> {
        None
    }
    /// Where it works on vectors of its own that are narrower, and results are wanted in few passes: a way to leave them there.
    fn apart(&mut self) -> Option<&mut dyn Apart<B, T>> {
        None
    }
    /// What is the narrowest of it, when that is narrower than its matrix.
    fn narrowest(&self) -> Option<String> {
        None
    }
    /// After a failure: applies it to r, and fails where it finds that precision is lost. For those that cannot look while they are applied.
    fn examine(&mut self, _r: &B::Slice<T>) -> Result<()> {
        Ok(())
    }
    /// Makes it more precise after a failure for this reason; false when that cannot be.
    fn widen(&mut self, _reason: &str) -> Result<bool> {
        Ok(false)
    }
}

/// A preconditioner whose residual r and result z = M r stay in its own, narrower vectors: conversions are part of the steps around it.
pub trait Apart<B: Backend, T: Scalar> {
    /// As [`Steps::step`]; r is also kept for [`Apart::apply`].
    fn step(
        &mut self,
        steps: &mut B::Steps,
        pq: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// z = M r, with r of the last step.
    fn apply(&mut self) -> Result<()>;
    /// As [`Steps::dots`].
    fn dots(&mut self, steps: &mut B::Steps, r: &B::Slice<T>, beta: Beta<&B::Slice<T>>) -> Result<()>;
    /// As [`Steps::turn`].
    fn turn(&mut self, steps: &mut B::Steps, p: &mut B::Slice<T>) -> Result<()>;
}
