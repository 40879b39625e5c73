//! The finest level, whose vectors have a precision of their own, entered with vectors of any.

use super::cycle::{Level, Shape};
use crate::backend::{AnyMut, AnyRef, Backend};
use crate::error::Result;
use crate::report::LevelReport;
use crate::scalar::{Number, Precision, Scalar};

/// A level in precision `V`, and room for right-hand side and result of callers whose vectors have another.
pub(super) struct Entrance<B: Backend, V: Scalar> {
    level: Level<B, V>,
    converted: Option<(B::Buffer<V>, B::Buffer<V>)>,
}

/// The finest level in the precision of its vectors.
pub(super) enum Top<B: Backend> {
    F64(Entrance<B, f64>),
    F32(Entrance<B, f32>),
}

impl<B: Backend> From<Level<B, f64>> for Top<B> {
    fn from(level: Level<B, f64>) -> Top<B> {
        Top::F64(Entrance { level, converted: None })
    }
}

impl<B: Backend> From<Level<B, f32>> for Top<B> {
    fn from(level: Level<B, f32>) -> Top<B> {
        Top::F32(Entrance { level, converted: None })
    }
}

impl<B: Backend, V: Scalar> Entrance<B, V> {
    /// Makes room for vectors of type `T`, so that `through` need not.
    fn prepare<T: Scalar>(&mut self) -> Result<()> {
        if T::PRECISION != V::PRECISION && self.converted.is_none() {
            let (backend, n) = (&self.level.backend, self.level.a.rows());
            self.converted = Some((backend.zeros(n)?, backend.zeros(n)?));
        }
        Ok(())
    }

    /// One cycle for vectors of another precision.
    fn through<T: Scalar>(&mut self, b: &B::Slice<T>, x: &mut B::Slice<T>) -> Result<()> {
        self.prepare::<T>()?;
        let Some((own_b, own_x)) = &mut self.converted else { unreachable!("room was just made") };
        let backend = self.level.backend.clone();
        backend.copy(b, own_b);
        self.level.cycle(own_b, own_x)?;
        backend.copy(own_x, x);
        Ok(())
    }
}

impl<B: Backend> Top<B> {
    /// Makes room for vectors of type `T`, so that `cycle` need not.
    pub fn prepare<T: Scalar>(&mut self) -> Result<()> {
        match self {
            Top::F64(top) => top.prepare::<T>(),
            Top::F32(top) => top.prepare::<T>(),
        }
    }

    /// x = M b, one cycle. Allocates nothing, except at the first call with vectors of another precision than the level's.
    pub fn cycle<T: Scalar>(&mut self, b: &B::Slice<T>, x: &mut B::Slice<T>) -> Result<()> {
        match self {
            Top::F64(top) if T::PRECISION == f64::PRECISION => match (B::any_ref(b), B::any_mut(x)) {
                (AnyRef::F64(b), AnyMut::F64(x)) => top.level.cycle(b, x),
                _ => unreachable!("the vectors are f64"),
            },
            Top::F32(top) if T::PRECISION == f32::PRECISION => match (B::any_ref(b), B::any_mut(x)) {
                (AnyRef::F32(b), AnyMut::F32(x)) => top.level.cycle(b, x),
                _ => unreachable!("the vectors are f32"),
            },
            Top::F64(top) => top.through(b, x),
            Top::F32(top) => top.through(b, x),
        }
    }

    /// Whether a cycle does the same operations whatever it is applied to. A K-cycle looks at inner products on the way.
    pub fn is_fixed(&self) -> bool {
        match self {
            Top::F64(top) => top.level.shape != Shape::K,
            Top::F32(top) => top.level.shape != Shape::K,
        }
    }

    /// Appends all levels.
    pub fn describe(&self, out: &mut Vec<LevelReport>) {
        match self {
            Top::F64(top) => top.level.describe(out),
            Top::F32(top) => top.level.describe(out),
        }
    }

    /// As for [`Level`].
    pub fn is_symmetric_in(&self, precision: Precision) -> bool {
        match self {
            Top::F64(top) => top.level.is_symmetric_in(precision),
            Top::F32(top) => top.level.is_symmetric_in(precision),
        }
    }
}
