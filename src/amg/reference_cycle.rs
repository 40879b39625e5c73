//! The reference cycle: two cycles in full precision, of which the second has a smooth right-hand side. A hierarchy in
//! narrower formats is compared with it.

use super::finest::Finest;
use crate::backend::Backend;
use crate::error::Result;

/// Largest relative difference of a cycle in the energy norm; beyond it the solve takes more iterations.
pub(super) const MAX_LOSS: f64 = 0.25;

/// A smooth right-hand side b and z = M b.
pub(super) struct ReferenceCycle<B: Backend> {
    backend: B,
    rows: usize,
    b: B::Buffer<f64>,
    z: B::Buffer<f64>,
    /// The coarse-level solutions of the cycle, from level 1 on.
    below: Vec<B::Buffer<f64>>,
    /// |b·z|.
    energy: f64,
    /// z·A z / b·z: an estimate of a small eigenvalue of M A, whose largest is near 1.
    pub quality: f64,
}

impl<B: Backend> ReferenceCycle<B> {
    /// Runs the cycle M of `top`, in full precision, from a random b. `diagonal` holds |a_ii|, and `energy` returns x·A
    /// x.
    pub fn new(
        backend: &B,
        rows: usize,
        top: &mut dyn Finest<B>,
        (diagonal, b): (&B::Slice<f64>, B::Buffer<f64>),
        energy: impl FnOnce(&B::Slice<f64>) -> Result<f64>,
    ) -> Result<ReferenceCycle<B>> {
        let (backend, mut b, mut z) = (backend.clone(), b, backend.zeros(rows)?);
        top.apply_f64(&b, &mut z)?;
        let mut products = backend.zeros(rows)?;
        backend.scale_by(1, &b, &z, &mut products);
        let largest = backend.max_norm(&products);
        drop(products);
        backend.scale_by(1, diagonal, &z, &mut b);
        if largest > 0.0 && largest.is_finite() {
            backend.scale(1.0 / largest.sqrt(), &mut b);
        }
        top.apply_f64(&b, &mut z)?;
        let below = top.solutions()?;
        let b_energy = backend.dot(&b, &z).abs();
        let quality = (energy(&z)? / b_energy).abs();
        backend.status()?;
        Ok(ReferenceCycle { backend, rows, b, z, below, energy: b_energy, quality })
    }

    /// The solutions of the cycle: a smooth vector of each level.
    pub fn smooth(&self) -> Vec<&B::Slice<f64>> {
        std::iter::once(&*self.z).chain(self.below.iter().map(|w| &**w)).collect()
    }

    /// |M' b - M b| / |M b| in the energy norm, for the cycle M' of another hierarchy; infinite when that is not finite.
    pub fn loss(&self, top: &mut dyn Finest<B>, energy: impl FnOnce(&B::Slice<f64>) -> Result<f64>) -> Result<f64> {
        let mut d = self.backend.zeros(self.rows)?;
        top.apply_f64(&self.b, &mut d)?;
        self.backend.axpby(-1.0, &self.z, 1.0, &mut d);
        let lost = energy(&d)?.abs();
        self.backend.status()?;
        Ok(if lost == 0.0 {
            0.0
        } else {
            Some((lost / self.energy).sqrt()).filter(|l| !l.is_nan()).unwrap_or(f64::INFINITY)
        })
    }
}
