//! Two cycles in full precision on a right-hand side that becomes smooth: what a hierarchy in narrower formats is held against.

use super::finest::Finest;
use crate::error::{Result, try_vec};
use crate::host::{Host, hash, par, spmv};
use crate::matrix::Matrix;
use crate::scalar::Precision;

/// A hierarchy whose cycle is off by more than this, in the energy norm, costs iterations.
pub(super) const LIMIT: f64 = 0.25;

/// A smooth right-hand side b and z = M b.
pub(super) struct Rehearsal {
    b: Vec<f64>,
    z: Vec<f64>,
}

impl Rehearsal {
    /// With a cycle M in full precision on a level with this diagonal. Also gives a smooth vector for each level.
    pub fn new(top: &mut dyn Finest<Host>, diagonal: &[f64]) -> Result<(Rehearsal, Vec<Vec<f64>>)> {
        let n = diagonal.len();
        let (mut b, mut z) = (try_vec(n, 0.0)?, try_vec(n, 0.0)?);
        for (i, b) in b.iter_mut().enumerate() {
            // Between -1 and 1, in the units of the row.
            *b = (hash(i, 4) as i64 as f64 / i64::MAX as f64) * diagonal[i].sqrt();
        }
        top.apply_f64(&b, &mut z)?;
        let largest = b.iter().zip(&z).map(|(b, z)| (b * z).abs()).fold(0.0, f64::max);
        let scale = if largest > 0.0 && largest.is_finite() { 1.0 / largest.sqrt() } else { 1.0 };
        for ((b, z), d) in b.iter_mut().zip(&z).zip(diagonal) {
            *b = scale * d * z;
        }
        top.apply_f64(&b, &mut z)?;
        let mut smooth = vec![z.clone()];
        smooth.extend(top.solutions()?);
        Ok((Rehearsal { b, z }, smooth))
    }

    /// The energy norm of what a cycle of another hierarchy makes differently, over that of what it makes; infinite when it fails.
    pub fn loss(&self, top: &mut dyn Finest<Host>, matrix: &Matrix) -> Result<f64> {
        let n = self.b.len();
        let (mut d, mut product) = (try_vec(n, 0.0)?, try_vec(n, 0.0)?);
        top.apply_f64(&self.b, &mut d)?;
        for (d, z) in d.iter_mut().zip(&self.z) {
            *d -= z;
        }
        match matrix.precision() {
            Precision::F32 => spmv::apply(&matrix.shared::<f32>()?.view(), 1.0, &d, 0.0, &mut product),
            _ => spmv::apply(&matrix.shared::<f64>()?.view(), 1.0, &d, 0.0, &mut product),
        }
        let dot = |x: &[f64], y: &[f64]| par::sum(n, par::GRAIN, |range| range.map(|i| x[i] * y[i]).sum());
        let (lost, whole) = (dot(&d, &product).abs(), dot(&self.b, &self.z).abs());
        Ok(if lost == 0.0 { 0.0 } else { Some((lost / whole).sqrt()).filter(|l| !l.is_nan()).unwrap_or(f64::INFINITY) })
    }
}
