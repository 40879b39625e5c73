//! The contract of Krylov methods: the vector operations of one iteration, grouped so that a device needs few passes
//! over memory. Scalars that one operation computes and another needs stay where the vectors are, so that the host does
//! not synchronise in between.

use super::{Backend, Operator};
use crate::error::Result;
use crate::scalar::Scalar;

/// The scalars of an iteration of conjugate gradients.
#[derive(Clone, Copy, Debug, Default)]
pub struct CgScalars {
    /// z·r.
    pub zr: f64,
    /// z·q with the q of the previous iteration, in flexible methods.
    pub zq: f64,
    /// z·r of the previous iteration.
    pub previous_zr: f64,
    /// β of p = z + β p.
    pub beta: f64,
    /// p·q.
    pub pq: f64,
    /// z·r / p·q, or 0 where one of them is not positive: then x and r do not change.
    pub alpha: f64,
    /// r·r after the step.
    pub rr: f64,
}

impl CgScalars {
    /// z·r and beta of an iteration.
    pub fn dots<B: Backend, T: Scalar>(
        &mut self,
        backend: &B,
        z: &B::Slice<T>,
        r: &B::Slice<T>,
        beta: Beta<&B::Slice<T>>,
    ) {
        self.previous_zr = self.zr;
        self.zr = backend.dot(z, r);
        self.beta = match beta {
            Beta::Zero => 0.0,
            Beta::Plain => self.zr / self.previous_zr,
            Beta::Flexible(q) => {
                self.zq = backend.dot(z, q);
                -self.alpha * self.zq / self.previous_zr
            }
        };
    }
}

/// How β is computed.
pub enum Beta<Q> {
    /// 0, in the first iteration.
    Zero,
    /// Fletcher-Reeves: z·r / (z·r)_previous.
    Plain,
    /// Polak-Ribière: -α z·q / (z·r)_previous.
    Flexible(Q),
}

impl<Q> Beta<Q> {
    /// The same formula with another representation of q.
    pub fn map<R>(self, form: impl FnOnce(Q) -> R) -> Beta<R> {
        match self {
            Beta::Zero => Beta::Zero,
            Beta::Plain => Beta::Plain,
            Beta::Flexible(q) => Beta::Flexible(form(q)),
        }
    }
}

/// The operations of an iteration of conjugate gradients.
pub trait CgStep<B: Backend>: Send + Sync {
    /// Starts a solve for x.
    fn begin<T: Scalar>(&mut self, x: &B::Slice<T>) -> Result<()>;
    /// Computes z·r and β.
    fn dots<T: Scalar>(&mut self, z: &B::Slice<T>, r: &B::Slice<T>, beta: Beta<&B::Slice<T>>) -> Result<()>;
    /// p = z + β p; p is not read when β is 0.
    fn update_direction<T: Scalar>(&mut self, z: &B::Slice<T>, p: &mut B::Slice<T>) -> Result<()>;
    /// q = A p, p·q and α. The inner product is accumulated as in [`Backend::dot`], perhaps in another order.
    fn product<T: Scalar>(&mut self, a: &dyn Operator<B, T>, p: &B::Slice<T>, q: &mut B::Slice<T>) -> Result<()>;
    /// x += α p, r -= α q, and r·r.
    fn update_solution<T: Scalar>(
        &mut self,
        pq: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// Synchronises, and reads the scalars.
    fn read_scalars(&mut self) -> Result<CgScalars>;
    /// Runs an iteration. A device captures `capturable` work as a graph and replays it, until
    /// [`CgStep::discard_graph`]. Such work does the same launches in each call, on the same vectors except for x, and
    /// does not synchronise.
    fn iterate(&mut self, _capturable: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        work(self)
    }
    /// Discards the captured graph. To be called before operator, preconditioner or vectors other than x change.
    fn discard_graph(&mut self) {}
}

/// The orthonormal basis V of the Arnoldi process, which grows by one vector in each iteration of GMRES. A flexible
/// method also stores M v for each basis vector v.
pub trait ArnoldiBasis<B: Backend, T: Scalar>: Send {
    /// Empties the basis. `norm` is the norm of the vector that is appended first.
    fn begin(&mut self, norm: f64) -> Result<()>;
    /// Appends w / |w|, with |w| from [`ArnoldiBasis::begin`] or [`ArnoldiBasis::orthogonalise`].
    fn append(&mut self, w: &B::Slice<T>) -> Result<()>;
    /// The newest basis vector v, and the vector to write M v to.
    fn newest(&mut self) -> (&B::Slice<T>, &mut B::Slice<T>);
    /// In flexible methods, stores M v for the newest basis vector v.
    fn store_preconditioned(&mut self) -> Result<()>;
    /// Orthogonalises w against the basis by classical Gram-Schmidt with reorthogonalisation: a single pass loses
    /// orthogonality when the residual drops fast. Also computes |w|.
    fn orthogonalise(&mut self, w: &mut B::Slice<T>) -> Result<()>;
    /// Synchronises, reads the column of the Hessenberg matrix of the last [`ArnoldiBasis::orthogonalise`], and returns
    /// |w|.
    fn read_column(&mut self, column: &mut [f64]) -> Result<f64>;
    /// x += Σ y_i v_i, in flexible methods x += Σ y_i M v_i.
    fn add_combination(&mut self, y: &[f64], x: &mut B::Slice<T>) -> Result<()>;
    /// As [`CgStep::iterate`]. The launches do not depend on the size of the basis.
    fn iterate(&mut self, _capturable: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        work(self)
    }
    /// As [`CgStep::discard_graph`].
    fn discard_graph(&mut self) {}
    /// Bytes of basis and workspace.
    fn bytes(&self) -> usize;
}

/// The scalars of an iteration of BiCGStab. r̂ is the shadow residual.
#[derive(Clone, Copy, Debug, Default)]
pub struct BicgstabScalars {
    /// r̂·r; after both half steps that of the next iteration.
    pub rho: f64,
    /// r̂·r̂.
    pub shadow: f64,
    /// The residual norm at which the second half step is skipped.
    pub target: f64,
    /// β of p = r + β (p - ω v) in the next iteration.
    pub beta: f64,
    /// r̂·v.
    pub sigma: f64,
    /// v·v.
    pub vv: f64,
    /// ρ / σ, or 0 where σ is negligible or NaN: then x and r do not change.
    pub alpha: f64,
    /// s·s for the residual s after the first half step.
    pub ss: f64,
    /// t·s.
    pub ts: f64,
    /// t·t.
    pub tt: f64,
    /// t·s / t·t, or 0 where t·s is negligible or NaN, where α is 0, and where the first half step reached the target.
    pub omega: f64,
    /// r·r after both half steps.
    pub rr: f64,
}

impl BicgstabScalars {
    /// An inner product is negligible at or below this share of the product of the norms.
    pub const ORTHOGONAL: f64 = 1e-15;

    /// Whether the second half step is skipped: the first one broke down or reached the target.
    pub fn skips_second_half(&self) -> bool {
        self.alpha == 0.0 || self.ss.sqrt() <= self.target
    }
}

/// The operations of an iteration of BiCGStab.
pub trait BicgstabStep<B: Backend>: Send + Sync {
    /// Starts a solve for x, to the residual norm `target`.
    fn begin<T: Scalar>(&mut self, x: &B::Slice<T>, target: f64) -> Result<()>;
    /// Restarts the recurrences: the current residual, of this norm, is the shadow residual.
    fn restart(&mut self, norm: f64) -> Result<()>;
    /// p = r + β (p - ω v).
    fn update_direction<T: Scalar>(&mut self, r: &B::Slice<T>, v: &B::Slice<T>, p: &mut B::Slice<T>) -> Result<()>;
    /// The first half step, with z = M p and v = A z: σ, v·v and α, then x += α z, r -= α v, and s·s for the new r.
    fn first_half<T: Scalar>(
        &mut self,
        shadow: &B::Slice<T>,
        zv: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// The second half step, with z = M r and t = A z: t·s, t·t and ω, then x += ω z, r -= ω t, and r·r, ρ and β.
    fn second_half<T: Scalar>(
        &mut self,
        shadow: &B::Slice<T>,
        zt: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// Synchronises, and reads the scalars.
    fn read_scalars(&mut self) -> Result<BicgstabScalars>;
    /// As [`CgStep::iterate`].
    fn iterate(&mut self, _capturable: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        work(self)
    }
    /// As [`CgStep::discard_graph`].
    fn discard_graph(&mut self) {}
}

/// A preconditioner that keeps its residual and result z = M r in its own, narrower vectors. The conversions are fused
/// into the CG step.
pub trait NarrowPreconditioner<B: Backend, T: Scalar> {
    /// As [`CgStep::update_solution`]; also converts r for [`NarrowPreconditioner::apply`].
    fn update_solution(
        &mut self,
        step: &mut B::CgStep,
        pq: (&B::Slice<T>, &B::Slice<T>),
        x: &mut B::Slice<T>,
        r: &mut B::Slice<T>,
    ) -> Result<()>;
    /// z = M r, with r of the last update.
    fn apply(&mut self) -> Result<()>;
    /// As [`CgStep::dots`].
    fn dots(&mut self, step: &mut B::CgStep, r: &B::Slice<T>, beta: Beta<&B::Slice<T>>) -> Result<()>;
    /// As [`CgStep::update_direction`].
    fn update_direction(&mut self, step: &mut B::CgStep, p: &mut B::Slice<T>) -> Result<()>;
}
