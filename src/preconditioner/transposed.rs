//! Applications of the transpose. Where the matrix is symmetric they are applications as they are. The transpose of Hᵀ G
//! is Gᵀ H, with the same factors. Otherwise a second preconditioner, with the same options, is that of the transposed
//! matrix.

use super::{Inverse, Method};
use crate::comm::unavailable;
use crate::context::LogLevel;
use crate::error::Result;
use crate::gpu;
use crate::matrix::Matrix;
use crate::operations::of_transpose;
use crate::scalar::Scalar;
use std::sync::Arc;

/// What applications of the transpose need.
#[derive(Default)]
pub(super) struct Transposed {
    /// Whether the matrix is symmetric, from the first application after a set-up or an update on.
    symmetric: Option<bool>,
    /// The second preconditioner, from the first application on that needs it.
    second: Option<Box<Second>>,
    /// Whether this one was updated since the second was.
    is_outdated: bool,
}

/// The preconditioner of the transpose.
struct Second {
    inverse: Inverse,
    /// The transpose, where it is made of that and not of the matrix.
    matrix: Option<Arc<Matrix>>,
}

impl Transposed {
    /// This preconditioner has new values.
    pub fn outdate(&mut self) {
        self.symmetric = None;
        self.is_outdated = true;
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let Some(Second { inverse, matrix }) = self.second.as_deref() else { return 0 };
        let report = inverse.report();
        let matrix = matrix.as_ref().map_or(0, |matrix| {
            let (structure, values) = matrix.owned_bytes();
            // On the host the finest level is the matrix, or has its pattern.
            let of_host = match report.levels.first() {
                Some(level) if level.matrix_precision == matrix.precision() => 0,
                Some(level) if level.format == matrix.block().format() => values,
                _ => structure + values,
            };
            of_host + matrix.device_bytes()
        });
        report.bytes + matrix
    }
}

impl Inverse {
    /// x ≈ A⁻ᵀ b, otherwise as [`Inverse::apply`]. Where the matrix is symmetric, up to rounding, this is the same
    /// application; for two factors of FSAI it is the transposed product. Otherwise it is an application of the
    /// preconditioner of Aᵀ with the same options, which is not the transpose of the cycle. The first application makes
    /// it, of the values that the matrix has then; it takes as much memory as this one. The first one after an `update`
    /// updates it.
    pub fn apply_transposed<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        self.transposed()?.apply(b, x)
    }

    /// As [`Inverse::apply_transposed`], for vectors in the memory of the context's GPU.
    pub fn apply_transposed_on_device<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        self.transposed()?.apply_on_device(b, x)
    }

    /// Refuses what [`Inverse::transposed`] does not do over ranks.
    pub(crate) fn check_transposed(&self) -> Result<()> {
        if self.whole.is_none() && self.over.is_none() {
            return Ok(());
        }
        unavailable(
            "the transposed application of a preconditioner",
            "set up another preconditioner, for the transposed matrix over ranks",
        )
    }

    /// The preconditioner whose application is that of the transpose, up to date with the last update: this one, or a second.
    pub(crate) fn transposed(&mut self) -> Result<&mut Inverse> {
        self.check_transposed()?;
        let is_symmetric = match self.transposed.symmetric {
            Some(known) => known,
            None => self.is_of_symmetric_matrix()?,
        };
        if !is_symmetric {
            self.prepare_second().map_err(of_transpose)?;
        }
        self.transposed.symmetric = Some(is_symmetric);
        if is_symmetric {
            return Ok(self);
        }
        let Some(second) = &mut self.transposed.second else { unreachable!("it was prepared") };
        Ok(&mut second.inverse)
    }

    fn is_of_symmetric_matrix(&self) -> Result<bool> {
        self.matrix.recheck_values(&self.context)?;
        // The squares of extreme values are out of range.
        let units = if self.rescales { self.matrix.units(&self.context, &self.config)? } else { 0 };
        let is_symmetric = match units {
            0 => self.matrix.is_symmetric(&self.context)?,
            units => self.matrix.times_power(units)?.is_symmetric(&self.context)?,
        };
        self.matrix.end_reading()?;
        Ok(is_symmetric)
    }

    /// Makes the second preconditioner, or brings it up to date. What fails is tried again by the next application.
    fn prepare_second(&mut self) -> Result<()> {
        let Transposed { second, is_outdated, .. } = &mut self.transposed;
        match second {
            Some(second) if *is_outdated => second.renew(&self.matrix)?,
            Some(_) => {}
            None => self.transposed.second = Some(Box::new(self.second()?)),
        }
        self.transposed.is_outdated = false;
        self.matrix.end_reading()
    }

    fn second(&self) -> Result<Second> {
        self.context.log(LogLevel::Info, || "set-up for the transposed matrix".to_string());
        let (context, flags) = (self.context.with_own_scratch()?, (self.in_solver, self.rescales));
        let (config, data) = (&self.config, &*self.built.data);
        if self.method == Method::Fsai {
            let (method, matrix) = (Method::TransposedFsai, &self.matrix);
            let inverse = Inverse::setup_with(method, &context, matrix, config, flags, None, Some(data))?;
            return Ok(Second { inverse, matrix: None });
        }
        let matrix = Arc::new(self.matrix.transposed_copy(&context)?);
        let inverse = Inverse::setup_with(self.method, &context, &matrix, config, flags, None, None)?;
        Ok(Second { inverse, matrix: Some(matrix) })
    }
}

impl Second {
    /// Takes over the values that the matrix has now.
    fn renew(&mut self, of: &Matrix) -> Result<()> {
        if let Some(transpose) = &self.matrix {
            transpose.update_transposed_copy(of, &self.inverse.context)?;
        }
        self.inverse.update()
    }
}
