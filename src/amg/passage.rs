//! The way between a level and the next: restriction, interpolation, and what keeps residuals in the range of narrower vectors.

use crate::backend::{Backend, Operator};
use crate::error::Result;
use crate::range::Range;
use crate::scalar::{Number, Precision, Scalar};

/// From a level whose vectors have precision `V` to one with precision `W`, and back.
pub(crate) trait Passage<B: Backend, V: Number, W: Number>: Send + Sync {
    /// b = factor R r with a power of two, which is 1 unless b would leave the range of its format. r may be multiplied as well.
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()>;
    /// x += P y / factor, with the factor of the last restriction; or, where there is another vector for it, that becomes the sum.
    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, aside: Option<&mut B::Slice<V>>) -> Result<()>;
    /// Bytes of the transfers and of vectors of its own.
    fn bytes(&self) -> usize;
    /// Storage of the transfers.
    fn precision(&self) -> Precision;
}

/// R and P.
pub(crate) struct Transfers<B: Backend, V: Number, W: Number> {
    pub backend: B,
    pub restriction: Box<dyn Operator<B, V, W>>,
    pub interpolation: Box<dyn Operator<B, W, V>>,
}

impl<B: Backend, V: Number, W: Number> Transfers<B, V, W> {
    /// x += alpha P y, or as in [`Passage::interpolate`].
    fn add(&self, alpha: V::Wide, y: &B::Slice<W>, x: &mut B::Slice<V>, aside: Option<&mut B::Slice<V>>) -> Result<()> {
        match aside {
            Some(sum) => self.backend.add_product(&*self.interpolation, alpha, y, x, sum),
            None => self.interpolation.apply(alpha, y, V::Wide::ONE, x),
        }
    }

    fn bytes(&self) -> usize {
        self.restriction.bytes() + self.interpolation.bytes()
    }
}

/// Without a factor.
impl<B: Backend, V: Number, W: Number> Passage<B, V, W> for Transfers<B, V, W> {
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()> {
        self.restriction.apply(W::Wide::ONE, r, W::Wide::ZERO, b)
    }

    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, aside: Option<&mut B::Slice<V>>) -> Result<()> {
        self.add(V::Wide::ONE, y, x, aside)
    }

    fn bytes(&self) -> usize {
        Transfers::bytes(self)
    }

    fn precision(&self) -> Precision {
        self.interpolation.precision()
    }
}

/// Looks at what it restricted, and restricts again where that is outside of the range, which is seldom: for backends that look.
pub(crate) struct Looking<B: Backend, V: Number, W: Number> {
    pub transfers: Transfers<B, V, W>,
    pub range: Range,
    pub factor: f64,
}

impl<B: Backend, V: Number, W: Number> Passage<B, V, W> for Looking<B, V, W> {
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()> {
        let Looking { transfers, range, factor } = self;
        *factor = 1.0;
        transfers.restrict(r, b)?;
        if !range.holds(transfers.backend.max_norm(b)) {
            *factor = range.factor::<V::Wide>(transfers.backend.max_norm(r));
        }
        if *factor != 1.0 {
            transfers.backend.scale(V::Wide::from_f64(*factor), r);
            transfers.restrict(r, b)?;
        }
        Ok(())
    }

    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, aside: Option<&mut B::Slice<V>>) -> Result<()> {
        self.transfers.add(V::Wide::from_f64(1.0 / self.factor), y, x, aside)
    }

    fn bytes(&self) -> usize {
        self.transfers.bytes()
    }

    fn precision(&self) -> Precision {
        self.transfers.precision()
    }
}

/// Restricts in the arithmetic of the finer level, and multiplies by the factor on the way into the format of the coarser: for backends
/// that decide the factor where the vectors are, and never tell it.
pub(crate) struct Fitting<B: Backend, V: Number, W: Number> {
    pub transfers: Transfers<B, V, V::Wide>,
    /// A vector of the coarser level.
    pub wide: B::Buffer<V::Wide>,
    pub range: Range,
    pub factor: B::RangeFactor,
    pub of: std::marker::PhantomData<W>,
}

impl<B: Backend, V: Number, W: Number> Passage<B, V, W> for Fitting<B, V, W> {
    fn restrict(&mut self, r: &mut B::Slice<V>, b: &mut B::Slice<W>) -> Result<()> {
        let Fitting { transfers, wide, range, factor, .. } = self;
        transfers.restrict(r, wide)?;
        transfers.backend.convert_into_range((range, factor), 1.0, None, wide, b);
        Ok(())
    }

    fn interpolate(&mut self, y: &B::Slice<W>, x: &mut B::Slice<V>, aside: Option<&mut B::Slice<V>>) -> Result<()> {
        let Fitting { transfers, wide, factor, .. } = self;
        transfers.backend.convert_from_range(factor, 1.0, None, y, wide);
        transfers.interpolate(wide, x, aside)
    }

    fn bytes(&self) -> usize {
        let wide = self.transfers.restriction.rows() * <V::Wide as Number>::PRECISION.bytes();
        self.transfers.bytes() + wide
    }

    fn precision(&self) -> Precision {
        self.transfers.precision()
    }
}
