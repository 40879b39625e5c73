//! The storage factory of a GPU: matrices and arrays in device memory, and the choice of their format.

use super::bsr::Bsr;
use super::csr::Csr;
use super::csr_balanced::CsrBalanced;
use super::dense::Dense;
use super::distributed::ReplicatedProduct;
use super::format::{Format, FormatQuery};
use super::grid_transfer::{DeviceTransfer, GridTransferProduct};
use super::line_relaxation::{self, LineRelaxation};
use super::multicolour::Multicolour;
use super::product::{Precisions, Product, operator, operator_of};
use super::rounded_sums::RoundedSums;
use super::sell::Sell;
use super::sell_layout::SellData;
use super::setup::colouring::DeviceColouring;
use super::setup::{DeviceCsr, DevicePattern, tiles};
use super::stencil::{DeviceStencil, StencilProduct};
use super::stencil_sweep::StencilSweep;
use super::to_scalar::to_scalar;
use super::{Buffer, Gpu, Slice};
use crate::backend::{Colours, Columns, Operator, StorageFactory};
use crate::comm::unavailable;
use crate::error::{Result, try_collect};
use crate::scalar::{Number, Precision, Scalar, Sums, with_storage};
use crate::sparse::{Coloured, ColouredStencil, OwnRows, SharedCsr, SharedStencil, SharedTransfer};
use half::f16;

impl Gpu {
    /// A CSR or BSR matrix as an operator, in the format of an earlier matrix with the same pattern. Without one the
    /// format is chosen and returned.
    pub(crate) fn operator_in<S: Number, X: Number, Y: Number>(
        &self,
        a: DeviceCsr<S>,
        sums: Sums,
        format: &mut Option<Format>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        let precisions = Precisions::of::<S, X, Y>();
        if sums == Sums::Rounded && !Y::PRECISION.is_scalar() {
            return Ok(operator(RoundedSums::new(self, a, precisions)?));
        }
        Ok(operator_of(self.product_in(&a, precisions, format)?))
    }

    /// The same, not generic over the types of vectors.
    fn product_in<S: Number>(
        &self,
        a: &DeviceCsr<S>,
        precisions: Precisions,
        format: &mut Option<Format>,
    ) -> Result<Box<dyn Product>> {
        let format = match format {
            Some(format) => format,
            None => {
                let wanted = FormatQuery::new(self, a.pattern(), precisions.storage, precisions.sums);
                format.insert(Format::of(self, wanted)?)
            }
        };
        self.product_as(a, precisions, format)
    }

    /// Converts a CSR or BSR matrix to this format.
    fn product_as<S: Number>(
        &self,
        a: &DeviceCsr<S>,
        precisions: Precisions,
        format: &Format,
    ) -> Result<Box<dyn Product>> {
        Ok(match format {
            Format::Csr => Box::new(Csr::new(self, to_scalar(self, a)?, precisions)?),
            Format::Csr16(columns) => Box::new(Csr::short(self, a.clone(), columns, precisions)?),
            Format::CsrBalanced(long) => Box::new(CsrBalanced::new(self, a.clone(), long, precisions)?),
            Format::Sell8(layout) | Format::Sell16(layout) => Box::new(Sell::new(self, a, layout, precisions)?),
            Format::Bsr => Box::new(Bsr::new(self, a, precisions)?),
            // CSR if a tile row has too many tiles, which was not known before.
            Format::Tiles => {
                let a = to_scalar(self, a)?;
                match Bsr::tiled(self, &a, precisions)? {
                    Some(tiled) => Box::new(tiled),
                    None => Box::new(Csr::new(self, a, precisions)?),
                }
            }
        })
    }

    /// A matrix in every format that it can have, for benchmarks. The first is the one that set-up chooses.
    pub fn in_every_format<S: Number, V: Number>(
        &self,
        matrix: &SharedCsr<S>,
    ) -> Result<Vec<Box<dyn Operator<Gpu, V>>>> {
        let a = DeviceCsr::upload(self, &matrix.view())?;
        let (pattern, sums) = (a.pattern(), <V::Wide as Number>::PRECISION);
        let formats = Format::every(self, FormatQuery::new(self, pattern, S::PRECISION, sums))?;
        let precisions = Precisions::of::<S, V, V>();
        formats.iter().map(|format| Ok(operator_of(self.product_as(&a, precisions, format)?))).collect()
    }

    /// Mean entries of a tile of 4 x 4 in a sample of a matrix in CSR, at most 16.
    pub fn entries_of_tile<S: Number>(&self, matrix: &SharedCsr<S>) -> Result<f64> {
        let [entries] = tiles::densities(self, [&DeviceCsr::upload(self, &matrix.view())?])?;
        Ok(entries)
    }

    /// A CSR or BSR matrix as an operator, in the format that is chosen for it.
    pub(crate) fn operator<S: Number, X: Number, Y: Number>(
        &self,
        a: DeviceCsr<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        self.operator_in(a, sums, &mut None)
    }

    /// A scalar matrix as an operator on its own arrays.
    pub(crate) fn csr_operator<T: Scalar>(&self, a: &DeviceCsr<T>) -> Result<Box<dyn Operator<Gpu, T>>> {
        Ok(operator(Csr::new(self, a.clone(), Precisions::of::<T, T, T>())?))
    }

    /// A matrix in SELL as an operator.
    pub(crate) fn operator_of<T: Scalar, X: Number, Y: Number>(
        &self,
        a: &DevicePattern,
        format: &Format,
        slots: SellData<T>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        let (Format::Sell8(layout) | Format::Sell16(layout)) = format else {
            unreachable!("a matrix in CSR has no slots")
        };
        let precisions = Precisions::of::<T, X, Y>();
        Ok(operator(Sell::of(self, a, layout, slots.columns, slots.values.into(), precisions)?))
    }
}

impl Gpu {
    /// A dense matrix of `n` rows and columns, row by row, as an operator.
    pub(crate) fn dense_operator<S: Number, V: Number>(
        &self,
        n: usize,
        values: Buffer<S>,
    ) -> Result<Box<dyn Operator<Gpu, V>>> {
        Ok(operator(Dense::of::<S, V>(self, n, values)?))
    }
}

impl Gpu {
    /// The same, which every rank that has rows of it holds as a whole.
    pub(crate) fn dense_over<S: Number, V: Number>(
        &self,
        n: usize,
        values: Buffer<S>,
    ) -> Result<Box<dyn Operator<Gpu, V>>> {
        match self.distribution() {
            Some(over) => {
                let inner = self.alone().dense_operator(n, values)?;
                Ok(Box::new(ReplicatedProduct::new(self, over, n, inner)?))
            }
            None => self.dense_operator(n, values),
        }
    }

    /// A coloured matrix for Gauss-Seidel, with the inverse of its diagonal or diagonal blocks. Its colouring is computed unless it is
    /// given.
    pub(crate) fn coloured<S: Number, V: Number>(
        &self,
        matrix: &DeviceCsr<S>,
        inverse: &Slice<S>,
        colouring: Option<DeviceColouring>,
    ) -> Result<Box<dyn Colours<Gpu, V>>> {
        let colouring = match colouring {
            Some(colouring) => colouring,
            None => DeviceColouring::new(self, &matrix.pattern())?,
        };
        Ok(Box::new(Multicolour::new::<V>(self, matrix, inverse, colouring)?))
    }
}

impl Gpu {
    /// A stencil as an operator.
    pub(crate) fn stencil_operator<S: Number, X: Number, Y: Number>(
        &self,
        matrix: &DeviceStencil<S>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        Ok(operator(StencilProduct::new(self, matrix, Precisions::of::<S, X, Y>())?))
    }

    /// A transfer between structured grids as an operator.
    pub(crate) fn transfer_operator<S: Number, X: Number, Y: Number>(
        &self,
        matrix: &DeviceTransfer<S>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        Ok(operator(GridTransferProduct::new(self, matrix, Precisions::of::<S, X, Y>())?))
    }

    /// A stencil for Gauss-Seidel, with the inverse of its diagonal or diagonal blocks. The level counts the bytes of a `shared` one; it may have the same
    /// matrix without that.
    pub(crate) fn stencil_sweep<S: Number, V: Number>(
        &self,
        matrix: DeviceStencil<S>,
        inverse: Buffer<S>,
        (shared, is_of_level): (bool, bool),
    ) -> Result<Box<dyn Colours<Gpu, V>>> {
        Ok(Box::new(StencilSweep::new::<V>(self, matrix, inverse, (shared, is_of_level))?))
    }

    /// A stencil for line relaxation, with the axis of the lines and their factors.
    pub(crate) fn line_relaxation<S: Number, V: Number>(
        &self,
        matrix: DeviceStencil<S>,
        factors: (usize, Buffer<S>),
        shared: bool,
    ) -> Result<Box<dyn Colours<Gpu, V>>> {
        Ok(Box::new(LineRelaxation::new::<V>(self, matrix, factors, shared)?))
    }

    /// The factors of the lines of a stencil along an axis.
    pub(crate) fn line_factors_of<T: Scalar>(&self, matrix: &DeviceStencil<T>, axis: usize) -> Result<Buffer<T>> {
        line_relaxation::factors(self, matrix, axis)
    }
}

impl Gpu {
    /// Refuses Gauss-Seidel over ranks.
    fn refuse_colours(&self) -> Result<()> {
        match self.distribution() {
            Some(_) => unavailable("Gauss-Seidel on a GPU", "set amg.smoother.type to \"chebyshev\""),
            None => Ok(()),
        }
    }
}

/// A number format, and the storage format of the matrix in it.
#[derive(Default)]
pub struct Narrower(Option<(Precision, Format)>);

impl Gpu {
    /// As [`Gpu::operator`] in the narrowest number format that holds every value exactly, where that is narrower than
    /// that of the matrix. An update takes over the format of the matrix before.
    pub(crate) fn exact_operator<I: Scalar, T: Scalar>(
        &self,
        a: DeviceCsr<I>,
        earlier: &mut Narrower,
    ) -> Result<Option<Box<dyn Operator<Gpu, T>>>> {
        if let Some((Precision::F16, Format::Sell8(layout) | Format::Sell16(layout))) = &earlier.0
            && let Some((columns, values)) = layout.fill_exactly(self, &a)?
        {
            let precisions = Precisions::of::<f16, T, T>();
            let chunks = Sell::of(self, &a.pattern(), layout, columns, values.into(), precisions)?;
            return Ok(Some(operator(chunks)));
        }
        let format = self.narrowest_exact(&a.values)?;
        if format.bytes() >= I::PRECISION.bytes() {
            return Ok(None);
        }
        let mut kept = earlier.0.take().filter(|(precision, _)| *precision == format).map(|(_, kept)| kept);
        let operator = with_storage!(format, S => self.operator_in(a.cast::<S>(self)?, Sums::Wide, &mut kept))?;
        earlier.0 = kept.map(|kept| (format, kept));
        Ok(Some(operator))
    }
}

impl StorageFactory for Gpu {
    fn has_whole_vectors(&self) -> bool {
        self.distribution().is_none()
    }

    fn array<S: Number>(&self, values: Vec<S>) -> Result<Buffer<S>> {
        match self.distribution() {
            Some(over) => self.alone().upload(&values[over.own(values.len())]),
            None => self.upload(&values),
        }
    }

    fn own_array<S: Number>(&self, values: Vec<S>) -> Result<Buffer<S>> {
        self.alone().upload(&values)
    }

    fn matrix_of_level<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedCsr<S>,
        _: Columns,
        sums: Sums,
        rows: &mut Option<OwnRows>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        if let Some(over) = self.distribution() {
            return self.operator_over(over, &matrix, sums, rows);
        }
        self.operator::<S, X, Y>(DeviceCsr::upload(self, &matrix.view())?, sums)
    }

    /// Sums of stencils are always wide.
    fn stencil<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedStencil<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        if let Some(over) = self.distribution() {
            return self.operator_over(over, &matrix.to_rows()?, sums, &mut None);
        }
        self.stencil_operator(&DeviceStencil::upload(self, &matrix)?)
    }

    fn grid_transfer<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedTransfer<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        if let Some(over) = self.distribution() {
            return self.operator_over(over, &matrix.to_rows()?, sums, &mut None);
        }
        self.transfer_operator(&DeviceTransfer::upload(self, &matrix)?)
    }

    fn stencil_colours<S: Number, V: Number>(&self, matrix: ColouredStencil<S>) -> Result<Box<dyn Colours<Gpu, V>>> {
        self.refuse_colours()?;
        let (a, inverse) = (DeviceStencil::upload(self, &matrix.matrix)?, self.upload(&matrix.inverse)?);
        match matrix.lines {
            Some(axis) => self.line_relaxation(a, (axis, inverse), false),
            None => self.stencil_sweep(a, inverse, (false, matrix.shared)),
        }
    }

    fn dense<S: Number, V: Number>(&self, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<Gpu, V>>> {
        self.dense_over(n, self.alone().upload(&values)?)
    }

    fn colours<S: Number, V: Number>(&self, matrix: Coloured<S>) -> Result<Box<dyn Colours<Gpu, V>>> {
        self.refuse_colours()?;
        let Coloured { inverse, colouring, matrix, .. } = matrix;
        let rows: Vec<i32> = try_collect(colouring.rows.iter().map(|i| *i as i32))?;
        let colouring = DeviceColouring { rows: self.upload(&rows)?, starts: colouring.starts };
        let matrix = DeviceCsr::upload(self, &matrix.view())?;
        let inverse = self.upload(&inverse)?;
        Ok(Box::new(Multicolour::new::<V>(self, &matrix, &inverse, colouring)?))
    }
}
