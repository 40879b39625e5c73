//! Two cycles in full precision on a right-hand side that becomes smooth: what a hierarchy in narrower formats is held against.

use super::finest::Finest;
use crate::backend::Backend;
use crate::error::Result;

/// A hierarchy whose cycle is off by more than this, in the energy norm, costs iterations.
pub(super) const LIMIT: f64 = 0.25;

/// A smooth right-hand side b and z = M b.
pub(super) struct Rehearsal<B: Backend> {
    backend: B,
    rows: usize,
    b: B::Buffer<f64>,
    z: B::Buffer<f64>,
    /// What the cycle made of the right-hand sides of the levels from the second on.
    below: Vec<B::Buffer<f64>>,
    /// |b·z|.
    whole: f64,
    /// z·A z / b·z: of the eigenvalues of M A, of which the largest is near 1, one of the small ones.
    pub quality: f64,
}

impl<B: Backend> Rehearsal<B> {
    /// With a cycle M in full precision, from a random b on, on a level with a diagonal of these absolute values; `energy` is x·A x.
    pub fn new(
        backend: &B,
        rows: usize,
        top: &mut dyn Finest<B>,
        (diagonal, b): (&B::Slice<f64>, B::Buffer<f64>),
        energy: impl FnOnce(&B::Slice<f64>) -> Result<f64>,
    ) -> Result<Rehearsal<B>> {
        let (backend, mut b, mut z) = (backend.clone(), b, backend.zeros(rows)?);
        top.apply_f64(&b, &mut z)?;
        let mut products = backend.zeros(rows)?;
        backend.scale_by(&b, &z, &mut products);
        let largest = backend.max_norm(&products);
        drop(products);
        backend.scale_by(diagonal, &z, &mut b);
        if largest > 0.0 && largest.is_finite() {
            backend.scale(1.0 / largest.sqrt(), &mut b);
        }
        top.apply_f64(&b, &mut z)?;
        let below = top.solutions()?;
        let whole = backend.dot(&b, &z).abs();
        let quality = (energy(&z)? / whole).abs();
        backend.status()?;
        Ok(Rehearsal { backend, rows, b, z, below, whole, quality })
    }

    /// What a cycle in full precision makes: a smooth vector of each level.
    pub fn smooth(&self) -> Vec<&B::Slice<f64>> {
        std::iter::once(&*self.z).chain(self.below.iter().map(|w| &**w)).collect()
    }

    /// The energy norm of what a cycle of another hierarchy makes differently, over that of what it makes; infinite when it fails.
    pub fn loss(&self, top: &mut dyn Finest<B>, energy: impl FnOnce(&B::Slice<f64>) -> Result<f64>) -> Result<f64> {
        let mut d = self.backend.zeros(self.rows)?;
        top.apply_f64(&self.b, &mut d)?;
        self.backend.axpby(-1.0, &self.z, 1.0, &mut d);
        let lost = energy(&d)?.abs();
        self.backend.status()?;
        Ok(if lost == 0.0 {
            0.0
        } else {
            Some((lost / self.whole).sqrt()).filter(|l| !l.is_nan()).unwrap_or(f64::INFINITY)
        })
    }
}
