//! Copies of a matrix in rows as a stencil, where its rows show a structured grid.

use super::device_stencil::{DeviceStencilMatrix, DeviceStencilStorage, with_stencil};
use super::device_storage::with_device;
use super::permuted::gpu_of;
use super::stencil_storage::StencilStorage;
use super::{DeviceMatrix, Matrix, MatrixStorage, Values};
use crate::context::Context;
use crate::error::{Result, try_collect};
use crate::gpu::{DeviceStencil, Gpu};
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::{Block, CsrView, Evenness, MAX_OFFSETS, SampledRow, Stencil, evenness, stencils_of_row};
use crate::sync::lock;
use std::sync::Arc;

/// Rows that are looked at for a grid, and for the couplings on it.
const SAMPLE: usize = 1024;

/// The most entries of a row of a stencil, and one more.
const LONGEST: usize = MAX_OFFSETS + 1;

/// The rows of a sample, spread over the matrix so that few of them are at the rim of a grid.
fn sample_of(rows: usize) -> Result<Vec<i64>> {
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    try_collect((1..=SAMPLE.min(rows)).map(|k| ((GOLDEN * k as f64).fract() * rows as f64) as i64))
}

fn sampled_on_host<T: Scalar>(view: &CsrView<'_, T>, rows: &[i64]) -> Result<Vec<SampledRow>> {
    let sampled = |row: &i64| {
        let entries = || view.row_range(*row as usize).take(LONGEST);
        let columns = entries().map(|p| view.col(p) as i32).collect();
        SampledRow { row: *row as usize, columns, values: entries().map(|p| view.block_at(p)[0].to_f64()).collect() }
    };
    try_collect(rows.iter().map(sampled))
}

impl Matrix {
    /// The stencils that a sample of the rows of a square matrix in rows shows, and how even the couplings are; none of most matrices.
    /// Synchronises.
    pub(crate) fn stencils_of_sample(&self, context: &Context) -> Result<Vec<(Stencil, Evenness)>> {
        let (rows, block) = (self.size.0, self.block.rows);
        if self.is_stencil() || self.size.0 != self.size.1 || block != self.block.cols || rows == 0 {
            return Ok(Vec::new());
        }
        let sample = sample_of(rows)?;
        let sample = match (&self.storage, gpu_of(context)) {
            (MatrixStorage::Device(device), Some(gpu)) if device.gpu().is_same(gpu) => {
                with_device!(device.arrays.read()?, a => a.sample_rows(gpu, &sample)?)
            }
            _ => match self.copied()? {
                (structure, Values::F64(values)) => sampled_on_host(&structure.view(values.as_slice()), &sample)?,
                (structure, Values::F32(values)) => sampled_on_host(&structure.view(values.as_slice()), &sample)?,
            },
        };
        // The longest row is an inner one.
        let Some(longest) = sample.iter().rev().max_by_key(|row| row.columns.len()) else { return Ok(Vec::new()) };
        let stencils = stencils_of_row(rows, block, longest.row, &longest.columns).into_iter();
        let with_couplings = |stencil: Stencil| {
            let couplings = evenness(&stencil, &sample);
            (stencil, couplings)
        };
        Ok(stencils.map(with_couplings).collect())
    }

    /// The matrix as a stencil where the context computes, with a pattern that its rows may have; none where they have not. It counts as many
    /// changes of its values. Synchronises.
    pub(crate) fn as_stencil(&self, context: &Context, pattern: Stencil) -> Result<Option<Matrix>> {
        let changes = self.changes(context)?;
        let (nnz, pattern) = (self.size.0 * pattern.offsets.len(), Arc::new(pattern));
        let Some(storage) = self.stencil_storage(context, &pattern, true)? else { return Ok(None) };
        let copy =
            Matrix::at(storage, self.size, Block::square(pattern.block), nnz, lock(self.diagonal.lock()).clone());
        copy.take_unknowns_of(self);
        copy.set_changes(changes);
        Ok(Some(copy))
    }

    fn stencil_storage(
        &self,
        context: &Context,
        pattern: &Arc<Stencil>,
        is_new: bool,
    ) -> Result<Option<MatrixStorage>> {
        if let Some(gpu) = gpu_of(context) {
            let matrix = self.stencil_on(gpu, pattern)?;
            return Ok(matrix.map(|matrix| MatrixStorage::DeviceStencil(DeviceStencilStorage::new(gpu, matrix))));
        }
        let values = context.run(self.entries(), || {
            let (structure, values) = self.copied()?;
            if is_new && !pattern.holds_rows(&structure.view::<f64>(&[]))? {
                return Ok(None);
            }
            Ok(Some(match &values {
                Values::F64(v) => Values::from(pattern.values_of_rows::<f64, f64>(&structure.view(v.as_slice()))?),
                Values::F32(v) => Values::from(pattern.values_of_rows::<f32, f32>(&structure.view(v.as_slice()))?),
            }))
        })?;
        Ok(values.map(|values| MatrixStorage::Stencil(StencilStorage::new(Arc::clone(pattern), values))))
    }

    fn stencil_on(&self, gpu: &Gpu, pattern: &Arc<Stencil>) -> Result<Option<DeviceStencilMatrix>> {
        Ok(match self.precision() {
            Precision::F32 => DeviceStencil::of_rows(gpu, &self.device(gpu)?, pattern)?.map(DeviceStencilMatrix::F32),
            _ => DeviceStencil::of_rows(gpu, &self.device(gpu)?, pattern)?.map(DeviceStencilMatrix::F64),
        })
    }

    /// The stencil of a matrix in rows in the memory of this GPU whose grid is known, with values of type `S`; none where it has to come by way of the
    /// host. Synchronises.
    pub(super) fn device_rows_as_stencil<S: Number>(&self, gpu: &Gpu) -> Result<Option<DeviceStencil<S>>> {
        let pattern = self.stencil().filter(|stencil| stencil.grid.periodic == [false; 3] && self.is_on(gpu));
        let Some(pattern) = pattern else { return Ok(None) };
        match self.stencil_on(gpu, &pattern)? {
            Some(matrix) => with_stencil!(matrix, a => a.cast(gpu).map(Some)),
            None => Ok(None),
        }
    }

    /// Takes over the values of the matrix of which this is the copy as a stencil, which were checked.
    pub(crate) fn update_stencil_copy(&self, of: &Matrix, context: &Context) -> Result<()> {
        let changes = of.changes(context)?;
        let Some(pattern) = self.stencil() else { unreachable!("it is a stencil") };
        match (&self.storage, of.stencil_storage(context, &pattern, false)?) {
            (MatrixStorage::Stencil(own), Some(MatrixStorage::Stencil(new))) => own.replace(new.values()),
            (MatrixStorage::DeviceStencil(own), Some(MatrixStorage::DeviceStencil(new))) => own.replace(new.read()?),
            _ => unreachable!("the pattern is that of the set-up"),
        }
        self.replaced(lock(of.diagonal.lock()).clone().flatten());
        self.set_changes(changes);
        Ok(())
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;

    fn matrix(device: &Context, name: &str) -> Matrix {
        let matrix = gallery::parse(name).unwrap().into_matrix().unwrap();
        if device.gpu().is_some() { matrix.to_device(device).unwrap() } else { matrix }
    }

    #[test]
    fn rows_on_a_grid_are_a_stencil_and_new_values_are_taken_over() {
        for device in ["host:2", "sim"] {
            let context = Context::new(device).unwrap();
            for name in ["poisson7:8x7x6", "poisson27:9", "poisson5:20x9", "poisson9:16", "elasticity:5"] {
                let a = matrix(&context, name);
                let found = a.stencils_of_sample(&context).unwrap();
                let mut copies = found.into_iter().filter_map(|(stencil, _)| a.as_stencil(&context, stencil).unwrap());
                let Some(copy) = copies.next() else { panic!("{name} on {device}") };
                let values = |matrix: &Matrix| matrix.shared::<f64>().unwrap().values.as_slice().to_vec();
                assert_eq!(values(&copy), values(&a), "{name} on {device}");
                a.update_values(values(&a).iter().map(|v| 2.0 * v).collect::<Vec<_>>().into()).unwrap();
                copy.update_stencil_copy(&a, &context).unwrap();
                assert_eq!(values(&copy), values(&a), "{name} on {device}");
                assert_eq!(copy.known_changes(), a.known_changes());
            }
            for name in ["shuffled:poisson7:8", "random_m_matrix:500", "hubs:900"] {
                let a = matrix(&context, name);
                let found = a.stencils_of_sample(&context).unwrap();
                for (stencil, _) in found {
                    assert!(a.as_stencil(&context, stencil).unwrap().is_none(), "{name}");
                }
            }
        }
    }
}
