//! Grid transfers: restriction and interpolation between two levels, and the scaling of residuals into the range of
//! narrower vectors.

use crate::backend::{Backend, Operator};
use crate::error::Result;
use crate::range::Range;
use crate::scalar::{Number, Precision, Scalar};
use std::marker::PhantomData;
use std::sync::Arc;

/// Transfers of any kind.
pub(crate) type AnyTransfer<B, V, W> = Box<dyn GridTransfer<B, V, W>>;

/// The transfers between a level with vectors of precision `V` and the next coarser one with precision `W`.
pub(crate) trait GridTransfer<B: Backend, V: Number, W: Number>: Send + Sync {
    /// b = factor R r. The factor is a power of two, 1 unless b would leave the range of its format. r may be scaled as
    /// well.
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()>;
    /// x += P y / factor, with the factor of the last restriction. With `sum` the result is stored there, and x stays.
    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, sum: Option<&mut B::Slice<V>>) -> Result<()>;
    /// The same for multivectors of `k` vectors; None where R or P cannot be applied to several vectors at once.
    fn for_multivectors(&self, k: usize) -> Result<Option<AnyTransfer<B, V, W>>>;
    /// Bytes of R, P and working vectors.
    fn bytes(&self) -> usize;
    /// Stored precision of R and P.
    fn precision(&self) -> Precision;
}

/// R and P without scaling.
pub(crate) struct Transfers<B: Backend, V: Number, W: Number> {
    pub backend: B,
    pub restriction: Arc<dyn Operator<B, V, W>>,
    pub interpolation: Arc<dyn Operator<B, W, V>>,
}

impl<B: Backend, V: Number, W: Number> Transfers<B, V, W> {
    /// x += alpha P y, or `sum` = x + alpha P y.
    fn add(&self, alpha: V::Wide, y: &B::Slice<W>, x: &mut B::Slice<V>, sum: Option<&mut B::Slice<V>>) -> Result<()> {
        match sum {
            Some(sum) => self.backend.add_product(&*self.interpolation, alpha, y, x, sum),
            None => self.interpolation.apply(alpha, y, V::Wide::ONE, x),
        }
    }

    /// The same for multivectors.
    fn interleaved(&self, k: usize) -> Option<Self> {
        let restriction = Arc::clone(&self.restriction).for_multivectors(k)?;
        let interpolation = Arc::clone(&self.interpolation).for_multivectors(k)?;
        Some(Transfers { backend: self.backend.clone(), restriction, interpolation })
    }

    fn bytes(&self) -> usize {
        self.restriction.bytes() + self.interpolation.bytes()
    }
}

impl<B: Backend, V: Number, W: Number> GridTransfer<B, V, W> for Transfers<B, V, W> {
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()> {
        self.restriction.apply(W::Wide::ONE, r, W::Wide::ZERO, b)
    }

    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, sum: Option<&mut B::Slice<V>>) -> Result<()> {
        self.add(V::Wide::ONE, y, x, sum)
    }

    fn for_multivectors(&self, k: usize) -> Result<Option<AnyTransfer<B, V, W>>> {
        Ok(self.interleaved(k).map(|transfers| Box::new(transfers) as _))
    }

    fn bytes(&self) -> usize {
        Transfers::bytes(self)
    }

    fn precision(&self) -> Precision {
        self.interpolation.precision()
    }
}

/// Restrictions of one residual that is brought into range. A norm that is finite and not zero takes one.
const MAX_RETRIES: usize = 12;

/// What a residual is multiplied by whose restriction vanishes, and divided by where it overflows. No format is so narrow that a step leads from
/// overflow to zero.
const STEP: f64 = (1_u64 << 30) as f64;

/// The same for residuals of 16 bits, which are only divided: their own range is narrow.
const NARROW_STEP: f64 = 1024.0;

/// A residual in f32 is not made larger than that.
const LARGEST: f64 = (1_u128 << 100) as f64;

/// The next power of two for a residual of max norm `size` whose restriction has the max norm `norm`, which is zero or not finite: the one that
/// brings r into range, or a step; 1 where nothing helps.
fn step_of<V: Number>(range: &Range, norm: f64, size: f64) -> f64 {
    let into_range = range.factor::<V::Wide>(size);
    let is_wide = V::PRECISION.is_scalar();
    let is_step_in_range = V::PRECISION == Precision::F64 || size * STEP <= LARGEST;
    match norm {
        _ if size == 0.0 || !size.is_finite() => 1.0,
        0.0 if into_range > 1.0 => into_range,
        0.0 if is_wide && is_step_in_range => STEP,
        0.0 => 1.0,
        // Sums of infinities of both signs are not numbers.
        _ if into_range < 1.0 => into_range,
        _ => 1.0 / if is_wide { STEP } else { NARROW_STEP },
    }
}

/// Checks the max norm of R r, and scales r and restricts again where that is out of range, which is rare. For backends
/// with immediate reductions.
pub(crate) struct RetriedTransfer<B: Backend, V: Number, W: Number> {
    pub transfers: Transfers<B, V, W>,
    pub range: Range,
    pub factor: f64,
}

impl<B: Backend, V: Number, W: Number> GridTransfer<B, V, W> for RetriedTransfer<B, V, W> {
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()> {
        let RetriedTransfer { transfers, range, factor } = self;
        *factor = 1.0;
        transfers.restrict(r, b)?;
        for _ in 0..MAX_RETRIES {
            let norm = transfers.backend.max_norm(b);
            if range.holds(norm) {
                break;
            }
            let step = match norm.is_normal() {
                true => range.factor::<V::Wide>(norm),
                // All of b has overflowed or vanished. R may be small or large in the scaled variables of a level.
                false => step_of::<V>(range, norm, transfers.backend.max_norm(r)),
            };
            if step == 1.0 {
                break;
            }
            *factor *= step;
            transfers.backend.scale(V::Wide::from_f64(step), r);
            transfers.restrict(r, b)?;
        }
        Ok(())
    }

    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, sum: Option<&mut B::Slice<V>>) -> Result<()> {
        self.transfers.add(V::Wide::from_f64(1.0 / self.factor), y, x, sum)
    }

    fn for_multivectors(&self, k: usize) -> Result<Option<AnyTransfer<B, V, W>>> {
        let Some(transfers) = self.transfers.interleaved(k) else { return Ok(None) };
        Ok(Some(Box::new(RetriedTransfer { transfers, range: self.range, factor: 1.0 })))
    }

    fn bytes(&self) -> usize {
        self.transfers.bytes()
    }

    fn precision(&self) -> Precision {
        self.transfers.precision()
    }
}

/// Restricts in the precision of the finer level, and scales in the conversion to the coarser one. For backends whose
/// host cannot read the factor without a synchronisation, and for transfers that do not go with the vectors of the coarser level.
pub(crate) struct ConvertedTransfer<B: Backend, V: Number, W: Number> {
    pub transfers: Transfers<B, V, V::Wide>,
    /// A vector of the coarser level.
    pub wide: B::Buffer<V::Wide>,
    /// What restricted residuals are scaled into.
    pub range: Option<Range>,
    pub factor: B::RangeFactor,
    pub of: PhantomData<W>,
}

impl<B: Backend, V: Number, W: Number> GridTransfer<B, V, W> for ConvertedTransfer<B, V, W> {
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()> {
        let ConvertedTransfer { transfers, wide, range, factor, .. } = self;
        transfers.restrict(r, wide)?;
        match range {
            Some(range) => transfers.backend.convert_into_range((range, factor), 1.0, None, wide, b),
            None => transfers.backend.convert(1.0, None, wide, b),
        };
        Ok(())
    }

    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, sum: Option<&mut B::Slice<V>>) -> Result<()> {
        let ConvertedTransfer { transfers, wide, factor, .. } = self;
        transfers.backend.convert_from_range(factor, 1.0, None, y, wide);
        transfers.interpolate(wide, x, sum)
    }

    fn for_multivectors(&self, k: usize) -> Result<Option<AnyTransfer<B, V, W>>> {
        let Some(transfers) = self.transfers.interleaved(k) else { return Ok(None) };
        let backend = &self.transfers.backend;
        let (wide, factor) = (backend.zeros(transfers.restriction.rows())?, backend.range_factor()?);
        Ok(Some(Box::new(ConvertedTransfer { transfers, wide, range: self.range, factor, of: PhantomData::<W> })))
    }

    fn bytes(&self) -> usize {
        let wide = self.transfers.restriction.rows() * <V::Wide as Number>::PRECISION.bytes();
        self.transfers.bytes() + wide
    }

    fn precision(&self) -> Precision {
        self.transfers.precision()
    }
}
