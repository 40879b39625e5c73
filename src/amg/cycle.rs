//! The multigrid cycle, written once for all backends. Levels may differ in the precision of their vectors: the type changes inside
//! restriction and interpolation, and nowhere else.

use crate::backend::{Backend, Operator};
use crate::error::Result;
use crate::report::LevelReport;
use crate::scalar::{Precision, Scalar};
use crate::smooth::{Smoother, Sweep};

/// What comes below a level's smoother.
pub(super) enum Below<B: Backend, V: Scalar> {
    /// A coarser level.
    Coarser(Box<dyn CoarseGrid<B, V>>),
    /// The inverse of the level's matrix; the smoother is not used.
    Inverse(Box<dyn Operator<B, V>>),
    /// Nothing: this many sweeps of the smoother.
    Sweeps(usize),
}

/// One level, whose vectors have precision `V`.
pub(super) struct Level<B: Backend, V: Scalar> {
    pub backend: B,
    pub a: Box<dyn Operator<B, V>>,
    pub smoother: Box<dyn Smoother<B, V>>,
    pub smoother_name: String,
    pub smoother_precision: Precision,
    pub pre_sweeps: usize,
    pub post_sweeps: usize,
    /// The residual, and what the smoother needs; at least one.
    pub scratch: Vec<B::Buffer<V>>,
    pub below: Below<B, V>,
    pub nonzeros: usize,
}

impl<B: Backend, V: Scalar> Level<B, V> {
    /// x = M b: one cycle from a zero guess.
    pub fn cycle(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()> {
        match &self.below {
            Below::Inverse(inverse) => return inverse.apply(V::ONE, b, V::ZERO, x),
            Below::Sweeps(sweeps) => return self.sweeps(*sweeps, b, x, true, false),
            Below::Coarser(_) => {}
        }
        if self.pre_sweeps == 0 {
            self.backend.fill(V::ZERO, x);
        }
        self.sweeps(self.pre_sweeps, b, x, true, false)?;
        if let Below::Coarser(coarser) = &mut self.below {
            self.a.residual(b, x, &mut self.scratch[0])?;
            coarser.correct(&self.scratch[0], x)?;
        }
        self.sweeps(self.post_sweeps, b, x, false, true)
    }

    fn sweeps(
        &mut self,
        count: usize,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        zero_guess: bool,
        adjoint: bool,
    ) -> Result<()> {
        for i in 0..count {
            let sweep = Sweep { zero_guess: zero_guess && i == 0, adjoint };
            self.smoother.sweep(&self.backend, &*self.a, b, x, &mut self.scratch, sweep)?;
        }
        Ok(())
    }

    /// Appends this level and all below.
    pub fn describe(&self, out: &mut Vec<LevelReport>) {
        let vectors = self.scratch.len() * self.a.rows() * V::PRECISION.bytes();
        let (own, smoother, transfer) = match &self.below {
            Below::Coarser(coarser) => {
                (coarser.bytes(), self.smoother_name.clone(), Some(coarser.transfer_precision()))
            }
            Below::Inverse(inverse) => (inverse.bytes(), "dense inverse".to_string(), None),
            Below::Sweeps(sweeps) => (0, format!("{} x {sweeps}", self.smoother_name), None),
        };
        out.push(LevelReport {
            rows: self.a.rows(),
            nonzeros: self.nonzeros,
            bytes: self.a.bytes() + self.smoother.bytes() + vectors + own,
            format: self.a.format(),
            matrix_precision: self.a.precision(),
            vector_precision: V::PRECISION,
            transfer_precision: transfer.unwrap_or(self.a.precision()),
            smoother_precision: self.smoother_precision,
            smoother,
        });
        if let Below::Coarser(coarser) = &self.below {
            coarser.describe(out);
        }
    }

    /// Whether every level computes in precision `T` and the cycle is its own transpose.
    pub fn is_symmetric_in(&self, precision: Precision) -> bool {
        let symmetric = self.pre_sweeps == self.post_sweeps && V::PRECISION == precision;
        match &self.below {
            Below::Coarser(coarser) => symmetric && coarser.is_symmetric_in(precision),
            _ => V::PRECISION == precision,
        }
    }
}

/// The levels below one whose vectors have precision `V`.
pub(super) trait CoarseGrid<B: Backend, V: Scalar>: Send + Sync {
    /// x += P M_c R r.
    fn correct(&mut self, r: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()>;
    /// Bytes of the transfers and of the coarse right-hand side and correction.
    fn bytes(&self) -> usize;
    /// Storage of the transfers.
    fn transfer_precision(&self) -> Precision;
    /// Appends the levels below.
    fn describe(&self, out: &mut Vec<LevelReport>);
    /// As for [`Level`].
    fn is_symmetric_in(&self, precision: Precision) -> bool;
}

/// A coarse level in precision `W`, seen from a level in precision `V`.
pub(super) struct Coarse<B: Backend, V: Scalar, W: Scalar> {
    pub restriction: Box<dyn Operator<B, V, W>>,
    pub interpolation: Box<dyn Operator<B, W, V>>,
    pub b: B::Buffer<W>,
    pub x: B::Buffer<W>,
    pub level: Level<B, W>,
}

impl<B: Backend, V: Scalar, W: Scalar> CoarseGrid<B, V> for Coarse<B, V, W> {
    fn correct(&mut self, r: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()> {
        self.restriction.apply(W::ONE, r, W::ZERO, &mut self.b)?;
        self.level.cycle(&self.b, &mut self.x)?;
        self.interpolation.apply(V::ONE, &self.x, V::ONE, x)
    }

    fn bytes(&self) -> usize {
        let vectors = 2 * self.level.a.rows() * W::PRECISION.bytes();
        self.restriction.bytes() + self.interpolation.bytes() + vectors
    }

    fn transfer_precision(&self) -> Precision {
        self.interpolation.precision()
    }

    fn describe(&self, out: &mut Vec<LevelReport>) {
        self.level.describe(out);
    }

    fn is_symmetric_in(&self, precision: Precision) -> bool {
        self.level.is_symmetric_in(precision)
    }
}
