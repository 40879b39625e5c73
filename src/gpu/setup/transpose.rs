//! Transposition: entries are counted by column, scattered, and each row of the transpose is sorted; see
//! `kernels/transpose.cu`. Nothing is read back, because the transpose has as many entries as the matrix.

use super::{DeviceCsr, DeviceGraph, DevicePattern};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::vector::ELEMENTS;
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// Keys that a lane sorts, as in the kernels.
const KEYS_OF_LANE: usize = 16;

/// Blocks for rows of the transpose that do not fit shared memory, of which there are few.
const LONG_BLOCKS: usize = 64;

/// Symbolic data of a transpose: the position in A of each entry.
pub(crate) struct TransposeSymbolic {
    /// Positions in A.
    sources: Sources,
    /// Dimensions of the transposed blocks.
    block: Block,
}

/// Positions, of 32 bits where they suffice.
enum Sources {
    Narrow(Buffer<u32>),
    Wide(Buffer<i64>),
}

impl Sources {
    fn new(gpu: &Gpu, entries: usize) -> Result<Sources> {
        Ok(match u32::try_from(entries) {
            Ok(_) => Sources::Narrow(gpu.allocate(entries)?),
            Err(_) => Sources::Wide(gpu.allocate(entries)?),
        })
    }

    /// As kernel argument, and whether it has 32 bits.
    fn view(&self) -> (View<'_>, i32) {
        match self {
            Sources::Narrow(positions) => (positions.view(), 1),
            Sources::Wide(positions) => (positions.view(), 0),
        }
    }
}

impl TransposeSymbolic {
    /// Numeric phase: the values of the transpose of a matrix with these values.
    pub fn numeric<T: Number>(&self, gpu: &Gpu, values: &Slice<T>) -> Result<Buffer<T>> {
        let to = gpu.allocate::<T>(values.len())?;
        let kernel = gpu.kernel(&format!("transpose_values_{}", T::PRECISION.name()))?;
        let ((sources, narrow), Block { rows, cols }) = (self.sources.view(), self.block);
        let (n, rows, cols) = (values.len() as i64, rows as i32, cols as i32);
        let threads = values.len().div_ceil(ELEMENTS * BLOCK) * BLOCK;
        gpu.launch(kernel, threads, &[&n, &rows, &cols, &narrow, &sources, &values.view(), &to.view()])?;
        Ok(to)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match &self.sources {
            Sources::Narrow(positions) => size_of::<u32>() * positions.len(),
            Sources::Wide(positions) => size_of::<i64>() * positions.len(),
        }
    }
}

/// The transpose of `a`, columns ascending in each row.
pub(crate) fn transpose<T: Number>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<DeviceCsr<T>> {
    Ok(transpose_and_symbolic(gpu, a)?.0)
}

/// The transpose, and its symbolic data.
pub(crate) fn transpose_and_symbolic<T: Number>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
) -> Result<(DeviceCsr<T>, TransposeSymbolic)> {
    let block = Block { rows: a.block.cols, cols: a.block.rows };
    let sources = Sources::new(gpu, a.nnz())?;
    let pattern = Pattern { rows: a.rows, cols: a.cols, offsets: &a.offsets, columns: &a.columns };
    let (offsets, columns) = pattern.transpose(gpu, Some(&sources))?;
    let symbolic = TransposeSymbolic { sources, block };
    let values = symbolic.numeric(gpu, &a.values)?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok((DeviceCsr { rows: a.cols, cols: a.rows, block, offsets, columns, values }, symbolic))
}

/// The transpose of the pattern of a square matrix, columns ascending in each row.
pub(crate) fn of_pattern(gpu: &Gpu, a: &DevicePattern) -> Result<DeviceGraph> {
    let pattern = Pattern { rows: a.rows, cols: a.cols, offsets: &a.offsets, columns: &a.columns };
    let (offsets, columns) = pattern.transpose(gpu, None)?;
    Ok(DeviceGraph { rows: a.cols, offsets, columns })
}

/// The transpose of a graph, and symbolic data for values of its edges.
pub(crate) fn pattern_and_symbolic(gpu: &Gpu, graph: &DeviceGraph) -> Result<(DeviceGraph, TransposeSymbolic)> {
    let rows = graph.rows;
    let sources = Sources::new(gpu, graph.columns.len())?;
    let pattern = Pattern { rows, cols: rows, offsets: &graph.offsets, columns: &graph.columns };
    let (offsets, columns) = pattern.transpose(gpu, Some(&sources))?;
    Ok((DeviceGraph { rows, offsets, columns }, TransposeSymbolic { sources, block: Block::SCALAR }))
}

/// Pattern of a matrix.
struct Pattern<'a> {
    rows: usize,
    cols: usize,
    offsets: &'a Slice<i64>,
    columns: &'a Slice<i32>,
}

impl Pattern<'_> {
    /// Offsets and columns of the transpose; positions in this pattern go to `sources`, if given.
    fn transpose(&self, gpu: &Gpu, sources: Option<&Sources>) -> Result<(Buffer<i64>, Buffer<i32>)> {
        let kernel = |name: &str| gpu.kernel(name);
        let n = self.columns.len();
        let (from, from_columns) = (self.offsets.view(), self.columns.view());
        let (counts, ranks) = (gpu.zeroed::<i32>(self.cols)?, gpu.allocate::<i32>(n)?);
        let threads = n.div_ceil(ELEMENTS * BLOCK) * BLOCK;
        let arguments = [&(n as i64) as &dyn Argument, &from_columns, &counts.view(), &ranks.view()];
        gpu.launch(kernel("transpose_count")?, threads, &arguments)?;
        let offsets = gpu.offsets_alone(&counts)?;
        drop(counts);

        let (of, bytes) = if sources.is_some() { ("matrix", size_of::<u64>()) } else { ("graph", size_of::<i32>()) };
        let (sources, narrow) = sources.map_or((View::NONE, 0), Sources::view);
        let key_bytes = gpu.allocate::<u8>(n * bytes)?;
        let keys = key_bytes.view().erased(n);
        let lanes = lanes(n, self.rows, 1);
        let (rows, to, ranks_view) = (self.rows as i64, offsets.view(), ranks.view());
        let arguments =
            [&rows as &dyn Argument, &(lanes as i32), &narrow, &from, &from_columns, &ranks_view, &to, &keys];
        gpu.launch(kernel(&format!("transpose_scatter_{of}"))?, self.rows * lanes, &arguments)?;
        drop(ranks);

        let keys = Keys { of, rows: self.cols, columns: self.rows, offsets: to, keys, sources, from, narrow };
        let columns = keys.sort(gpu, n)?;
        Ok((offsets, columns))
    }
}

/// Keys of rows that are to be sorted.
struct Keys<'a> {
    /// Which kernels sort them.
    of: &'static str,
    rows: usize,
    columns: usize,
    offsets: View<'a>,
    keys: View<'a>,
    sources: View<'a>,
    from: View<'a>,
    narrow: i32,
}

impl Keys<'_> {
    /// Columns, ascending in each row.
    fn sort(&self, gpu: &Gpu, n: usize) -> Result<Buffer<i32>> {
        let Keys { of, rows, columns: cols, offsets, keys, sources, from, narrow } = self;
        let columns = gpu.allocate::<i32>(n)?;
        let lanes = lanes(n, *rows, 4);
        let longest = KEYS_OF_LANE * lanes;
        let long_rows = gpu.zeroed::<i32>(1 + n / longest)?;
        let (count, columns_view, long) = (*rows as i64, columns.view(), long_rows.view());
        let arguments = [&count as &dyn Argument, offsets, keys, &columns_view, sources, from, narrow, &long];
        gpu.launch(gpu.kernel(&format!("transpose_sort_{of}_{lanes}"))?, rows * lanes, &arguments)?;
        if *cols > longest {
            let blocks = (n / longest).min(LONG_BLOCKS);
            gpu.launch(gpu.kernel(&format!("transpose_long_{of}"))?, blocks * BLOCK, &arguments[1..])?;
        }
        Ok(columns)
    }
}

/// The columns of a matrix with so many rows and columns, ascending in each row.
pub(crate) fn sorted_rows(
    gpu: &Gpu,
    (rows, columns): (usize, usize),
    offsets: &Slice<i64>,
    unsorted: &Slice<i32>,
) -> Result<Buffer<i32>> {
    let (from, keys) = (offsets.view(), unsorted.view());
    let keys = Keys { of: "graph", rows, columns, offsets: from, keys, sources: View::NONE, from, narrow: 0 };
    keys.sort(gpu, unsorted.len())
}

/// A power of two from `fewest` to 32 for rows of about that many entries.
fn lanes(entries: usize, rows: usize, fewest: usize) -> usize {
    (entries / rows.max(1)).next_power_of_two().clamp(fewest, 32)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{problems, random};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::host::transpose as host;
    use crate::sparse::Csr;

    fn same_as_the_host<T: crate::scalar::Scalar>(gpu: &Gpu, a: &Csr<T>, what: &str) {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let (transposed, symbolic) = transpose_and_symbolic(gpu, &on_device).unwrap();
        let expected = host::transpose(&a.view()).unwrap();
        assert_eq!(transposed.fetch(gpu).unwrap(), expected, "{what}");
        assert_eq!(symbolic.bytes(), 4 * a.columns.len());
        let other = Csr { values: a.values.iter().map(|v| *v + T::ONE).collect(), ..a.clone() };
        let updated = symbolic.numeric(gpu, &gpu.upload(&other.values).unwrap()).unwrap();
        assert_eq!(gpu.fetch(&updated).unwrap(), host::transpose(&other.view()).unwrap().values, "{what}");
        if a.rows == a.cols {
            let pattern = of_pattern(gpu, &on_device.pattern()).unwrap();
            let pattern = (gpu.fetch(&pattern.offsets).unwrap(), gpu.fetch(&pattern.columns).unwrap());
            assert_eq!(pattern, (expected.offsets, expected.columns), "{what}");
        }
    }

    #[test]
    fn transposes_are_those_of_the_host() {
        let scalar = Block::SCALAR;
        for gpu in devices() {
            for (name, a) in problems() {
                same_as_the_host(&gpu, &a, &name);
            }
            for (rows, cols, longest, block) in [
                (0, 0, 0, scalar),
                (0, 5, 0, scalar),
                (5, 0, 0, scalar),
                (1, 1, 1, scalar),
                (300, 300, 0, scalar),
                (33, 257, 9, scalar),
                (257, 31, 40, scalar),
                (255, 256, 4, Block { rows: 2, cols: 3 }),
                (100, 64, 8, Block { rows: 3, cols: 6 }),
                (3000, 2, 2, scalar),
                (1000, 1000, 3, scalar),
            ] {
                let a = random(rows, cols, longest, block, 5);
                same_as_the_host(&gpu, &a, &format!("{rows} x {cols}"));
                let narrow = a.view().to_owned_as::<f32>().unwrap();
                same_as_the_host(&gpu, &narrow, &format!("{rows} x {cols} in f32"));
            }
        }
    }

    #[test]
    fn columns_of_any_length_are_put_in_order() {
        // A dense column that takes several windows of long rows, others of one entry, and rows that are not sorted.
        let (n, wide) = (140_000, 300_000);
        let mut triplets: Vec<_> = (0..n).step_by(19).map(|i| (2 * i, 0, i as f64)).collect();
        triplets.extend((0..300).map(|i| (i * 1000, 5 + i, 0.5)));
        let a = Csr::from_triplets(wide, 400, &triplets).unwrap();
        let mut with_dense_column = Csr::from_triplets(600, 600, &[]).unwrap();
        for i in 0..600_i64 {
            with_dense_column
                .columns
                .extend([7, (i * 31 % 593) as i32 + 7].iter().take(1 + usize::from(i * 31 % 593 > 0)));
            with_dense_column.offsets[i as usize + 1] = with_dense_column.columns.len() as i64;
        }
        with_dense_column.values = (0..with_dense_column.columns.len()).map(|k| k as f64).collect();
        for gpu in devices() {
            same_as_the_host(&gpu, &a, "a dense column");
            same_as_the_host(&gpu, &with_dense_column, "a dense column in a square matrix");
        }
    }
}
