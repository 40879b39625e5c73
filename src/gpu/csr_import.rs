//! Import of CSR and BSR matrices in device memory: conversion to the library's index types, and checks.

use super::setup::DeviceCsr;
use super::{Buffer, Gpu, Slice};
use crate::backend::Backend;
use crate::error::Result;
use crate::scalar::{Element, Number, Precision, Scalar};
use crate::sparse::Block;
use std::any::Any;
use std::sync::Arc;

/// Lanes per row, as in `kernels/csr_import.cu`.
const ROW_LANES: usize = 8;

/// Indices of a caller, in 32 or 64 bits.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    I32(&'a Slice<i32>),
    I64(&'a Slice<i64>),
}

impl Indices<'_> {
    fn len(&self) -> usize {
        match self {
            Indices::I32(slice) => slice.len(),
            Indices::I64(slice) => slice.len(),
        }
    }

    /// Converts them by one of the two kernels; false where the kernel flagged an index.
    fn convert<T: Element>(&self, gpu: &Gpu, kernel: &str, base: i32, threads: usize, to: &Buffer<T>) -> Result<bool> {
        let flag = gpu.zeroed::<i32>(1)?;
        let (name, from) = match self {
            Indices::I32(from) => (format!("{kernel}_i32"), from.view()),
            Indices::I64(from) => (format!("{kernel}_i64"), from.view()),
        };
        let kernel = gpu.kernel(&name)?;
        gpu.launch(kernel, threads, &[&(self.len() as i64), &base, &from, &to.view(), &flag.view()])?;
        Ok(gpu.fetch(&flag)?[0] == 0)
    }
}

impl Gpu {
    /// Element `i` of indices in device memory.
    pub(crate) fn index(&self, indices: &Indices<'_>, i: usize) -> Result<i64> {
        Ok(match indices {
            Indices::I32(indices) => i64::from(self.fetch(indices.subslice(i, 1))?[0]),
            Indices::I64(indices) => self.fetch(indices.subslice(i, 1))?[0],
        })
    }

    /// Row offsets counted from 0; `None` where they decrease or do not begin at the base.
    pub(crate) fn import_offsets(&self, offsets: &Indices<'_>, base: i32) -> Result<Option<Buffer<i64>>> {
        let to = self.allocate(offsets.len())?;
        let valid = offsets.convert(self, "import_offsets", base, offsets.len(), &to)?;
        Ok(valid.then_some(to))
    }

    /// Columns in 32 bits, counted from 0. The caller's array is borrowed where that is allowed and it has this form.
    /// `None` where a column exceeds 32 bits.
    ///
    /// # Safety
    /// Columns that are borrowed stay as long as the result.
    pub(crate) unsafe fn import_columns(
        &self,
        columns: &Indices<'_>,
        base: i32,
        borrow: bool,
    ) -> Result<Option<Buffer<i32>>> {
        if let Indices::I32(columns) = columns
            && borrow
            && base == 0
        {
            // SAFETY: by this function's contract.
            return Ok(Some(unsafe { self.borrowed(columns) }));
        }
        let to = self.allocate(columns.len())?;
        let valid = columns.convert(self, "import_columns", base, columns.len().div_ceil(4), &to)?;
        Ok(valid.then_some(to))
    }

    /// Values of the caller, borrowed or copied.
    ///
    /// # Safety
    /// Values that are borrowed stay as long as the result.
    pub(crate) unsafe fn import_values<T: Number>(&self, values: &Slice<T>, borrow: bool) -> Result<Buffer<T>> {
        if borrow {
            // SAFETY: by this function's contract.
            return Ok(unsafe { self.borrowed(values) });
        }
        let mut to = self.allocate(values.len())?;
        self.copy(values, &mut to);
        self.failed()?;
        Ok(to)
    }

    /// Whether the rows of a matrix with valid offsets are valid. `structure` also checks the columns, which must
    /// ascend where `sorted` is promised. Synchronises.
    pub(crate) fn check_rows<T: Scalar>(&self, a: &DeviceCsr<T>, structure: bool, sorted: bool) -> Result<bool> {
        let flag = self.zeroed::<i32>(1)?;
        let kernel = self.kernel(&format!("check_rows_{}", T::PRECISION.name()))?;
        let square = a.rows == a.cols && a.block.rows == a.block.cols;
        let width = if square { a.block.rows } else { a.block.len() } as i32;
        let (rows, cols, square) = (a.rows as i64, a.cols as i64, i32::from(square));
        let (structure, sorted) = (i32::from(structure), i32::from(sorted));
        let [offsets, columns, values] = [a.offsets.view(), a.columns.view(), a.values.view()];
        self.launch(
            kernel,
            a.rows * ROW_LANES,
            &[&rows, &cols, &width, &square, &structure, &sorted, &offsets, &columns, &values, &flag.view()],
        )?;
        Ok(self.fetch(&flag)?[0] == 0)
    }

    /// The narrowest format that holds every value exactly. Synchronises.
    pub(crate) fn narrowest_exact<T: Scalar>(&self, values: &Slice<T>) -> Result<Precision> {
        let flags = self.zeroed::<i32>(3)?;
        let kernel = self.kernel(&format!("check_exact_{}", T::PRECISION.name()))?;
        let n = values.len();
        self.launch(kernel, n.div_ceil(4), &[&(n as i64), &values.view(), &flags.view()])?;
        let candidates = [Precision::F16, Precision::BF16, Precision::F32];
        let exact = self.fetch(&flags)?.into_iter().zip(candidates).find(|(flag, _)| *flag == 0);
        Ok(exact.map_or(Precision::F64, |(_, format)| format))
    }
}

impl<T: Number> DeviceCsr<T> {
    /// The values, in a copy where they are the caller's, who may change them.
    pub fn own_values(&self, gpu: &Gpu) -> Result<Arc<Buffer<T>>> {
        if !self.values.is_borrowed() {
            return Ok(Arc::clone(&self.values));
        }
        let mut own = gpu.allocate(self.values.len())?;
        gpu.copy(&self.values, &mut own);
        Ok(Arc::new(own))
    }

    /// The same pattern with values in another format; the values are shared when the format is the same.
    pub fn cast<U: Number>(&self, gpu: &Gpu) -> Result<DeviceCsr<U>> {
        let DeviceCsr { rows, cols, block, offsets, columns, .. } = self;
        let (offsets, columns): (_, Arc<Buffer<i32>>) = (Arc::clone(offsets), Arc::clone(columns));
        let same: &dyn Any = &self.values;
        let values = match same.downcast_ref::<Arc<Buffer<U>>>() {
            Some(values) => Arc::clone(values),
            None => {
                let mut values = gpu.allocate(self.values.len())?;
                gpu.copy(&self.values, &mut values);
                Arc::new(values)
            }
        };
        Ok(DeviceCsr { rows: *rows, cols: *cols, block: *block as Block, offsets, columns, values })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;

    #[test]
    fn the_narrowest_format_holds_every_value() {
        for gpu in devices() {
            let narrowest = |v: f64| {
                let a = Csr::from_triplets(1, 2, &[(0, 0, 26.0), (0, 1, v)]).unwrap();
                gpu.narrowest_exact(&gpu.upload(&a.values).unwrap()).unwrap()
            };
            assert_eq!(narrowest(-1.0), Precision::F16);
            assert_eq!(narrowest(2.0_f64.powi(100)), Precision::BF16);
            assert_eq!(narrowest(1.0 + 2.0_f64.powi(-20)), Precision::F32);
            assert_eq!(narrowest(0.1), Precision::F64);
        }
    }
}
