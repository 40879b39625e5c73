//! Renumbering by breadth-first search, and the measure of locality: [`crate::host::reorder`] on the device, in `kernels/reorder.cu`.

use super::coarse_numbering::Splitting;
use super::{DeviceCsr, DevicePattern, transpose};
use crate::backend::reorder::{Chunks, LEVELS, Locality, MOST_MEASURED, MOST_NEIGHBOURS, NodeShape, ROOT_BITS};
use crate::error::{Result, try_collect};
use crate::gpu::runtime::{Argument, BLOCK, Kernel, View, bits_of, tag};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::{Number, Scalar};
use std::sync::Arc;

/// Another order of the nodes of a matrix, as [`crate::host::reorder::Permutation`].
pub struct DevicePermutation {
    /// The old number of each node.
    pub order: Buffer<i32>,
    /// The new number of each node.
    pub inverse: Buffer<i32>,
    /// What a node is.
    pub shape: NodeShape,
    /// Kernels for vectors of f64 and f32.
    gather: [Kernel; 2],
}

impl DevicePermutation {
    /// P A Pᵀ, columns ascending in each row.
    pub(crate) fn pattern(&self, gpu: &Gpu, a: &DevicePattern) -> Result<DevicePattern> {
        let (rows, unit, nnz) = (a.rows as i64, self.shape.unit as i32, a.nnz());
        let (order, inverse) = (self.order.view(), self.inverse.view());
        let (from, from_columns) = (a.offsets.view(), a.columns.view());
        let lengths = gpu.allocate::<i32>(a.rows)?;
        gpu.launch(gpu.kernel("reorder_row_lengths")?, a.rows, &[&rows, &unit, &order, &from, &lengths.view()])?;
        let offsets = gpu.offsets_alone(&lengths)?;
        drop(lengths);
        let (lanes, keys) = (lanes(nnz, a.rows), gpu.allocate::<i32>(nnz)?);
        let arguments: [&dyn Argument; 9] =
            [&rows, &unit, &(lanes as i32), &order, &inverse, &from, &from_columns, &offsets.view(), &keys.view()];
        gpu.launch(gpu.kernel("reorder_columns")?, a.rows * lanes, &arguments)?;
        let columns = transpose::sorted_rows(gpu, (a.rows, a.cols), &offsets, &keys)?;
        let (offsets, columns) = (Arc::new(offsets), Arc::new(columns));
        Ok(DevicePattern { rows: a.rows, cols: a.cols, block: a.block, offsets, columns })
    }

    /// The values of P A Pᵀ, whose pattern is given.
    pub(crate) fn values<T: Number>(&self, gpu: &Gpu, a: &DeviceCsr<T>, pattern: &DevicePattern) -> Result<Buffer<T>> {
        let (lanes, to) = (lanes(a.nnz(), a.rows), gpu.allocate::<T>(a.values.len())?);
        let kernel = gpu.kernel(&format!("reorder_values_{}", bits_of::<T>()))?;
        let arguments: [&dyn Argument; 12] = [
            &(a.rows as i64),
            &(self.shape.unit as i32),
            &(lanes as i32),
            &(a.block.len() as i32),
            &self.order.view(),
            &self.inverse.view(),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view().bits(),
            &pattern.offsets.view(),
            &pattern.columns.view(),
            &to.view().bits(),
        ];
        gpu.launch(kernel, a.rows * lanes, &arguments)?;
        Ok(to)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.order.owned_bytes() + self.inverse.owned_bytes()
    }

    /// y = P x.
    pub(crate) fn apply<V: Scalar, T: Scalar>(&self, gpu: &Gpu, x: &Slice<V>, y: &mut Slice<T>) -> Result<()> {
        self.gather(gpu, &self.order, x, y)
    }

    /// y = Pᵀ x.
    pub(crate) fn apply_inverse<V: Scalar, T: Scalar>(&self, gpu: &Gpu, x: &Slice<V>, y: &mut Slice<T>) -> Result<()> {
        self.gather(gpu, &self.inverse, x, y)
    }

    fn gather<V: Scalar, T: Scalar>(&self, gpu: &Gpu, map: &Slice<i32>, x: &Slice<V>, y: &mut Slice<T>) -> Result<()> {
        assert!(x.len() == y.len() && y.len() == map.len() * self.shape.width);
        let kernel = self.gather[tag::<V>() as usize];
        let (n, width) = (x.len() as i64, self.shape.width as i32);
        gpu.elementwise(kernel, x.len(), &[&n, &width, &map.view(), &x.view(), &tag::<T>(), &y.view()])
    }
}

/// Threads for a row, a power of two.
fn lanes(entries: usize, rows: usize) -> usize {
    (entries / rows.max(1)).next_power_of_two().clamp(1, 32)
}

/// The graph of the nodes of a matrix, each of so many rows.
pub(crate) struct DeviceNodes<'a> {
    pub count: usize,
    pub unit: usize,
    pub offsets: &'a Slice<i64>,
    pub columns: &'a Slice<i32>,
    /// Blocks of threads among which a level is divided.
    blocks: usize,
}

/// Levels that are launched before the host looks whether there are more; a divisor of [`LEVELS`].
const BATCH: usize = 32;

/// Blocks of threads among which a level is divided, at most.
const MAX_BLOCKS: usize = 2048;

/// Threads that share a node, as in `kernels/reorder.cu`.
const LANES: usize = 8;

impl<'a> DeviceNodes<'a> {
    /// Nodes of so many rows of a square pattern.
    pub fn new(a: &'a DevicePattern, unit: usize) -> DeviceNodes<'a> {
        let count = a.rows / unit;
        let blocks = (count * LANES).div_ceil(BLOCK).min(MAX_BLOCKS);
        DeviceNodes { count, unit, offsets: &a.offsets, columns: &a.columns, blocks }
    }

    /// What some chunks of rows read of x, in the order of the matrix or in another one. Synchronises.
    pub fn locality(&self, gpu: &Gpu, shape: NodeShape, order: Option<&DevicePermutation>) -> Result<Locality> {
        let (n, of_line) = (self.count, shape.nodes_of_line());
        if n == 0 {
            return Ok(Locality::default());
        }
        let chunks = Chunks::new(n);
        let words = (n / of_line) / 32 + 1;
        let firsts = gpu.upload(&try_collect((0..chunks.count).map(|chunk| chunks.first(chunk) as i64))?)?;
        let (bits, found) = (gpu.zeroed::<u32>(words * chunks.count)?, gpu.zeroed::<i64>(2)?);
        let maps = order.map_or((View::NONE, View::NONE), |order| (order.order.view(), order.inverse.view()));
        let arguments: [&dyn Argument; 12] = [
            &(self.unit as i32),
            &(chunks.length as i32),
            &(MOST_MEASURED as i32),
            &(of_line as i32),
            &(words as i64),
            &firsts.view(),
            &self.offsets.view(),
            &self.columns.view(),
            &maps.0,
            &maps.1,
            &bits.view(),
            &found.view(),
        ];
        gpu.launch_blocks(gpu.kernel("reorder_locality")?, chunks.count, &arguments)?;
        let found = gpu.fetch(&found)?;
        let nodes = (chunks.count * chunks.length) as u64;
        Ok(Locality { nodes, entries: found[1] as u64, lines: found[0] as u64 })
    }

    /// As [`crate::host::reorder::Nodes::breadth_first_order`]. Synchronises.
    pub fn breadth_first_order(&self, gpu: &Gpu, shape: NodeShape) -> Result<DevicePermutation> {
        let (n, nodes) = (self.count, self.count as i64);
        let (order, reached, roots) = (gpu.allocate::<i32>(n)?, gpu.zeroed::<i32>(n)?, gpu.allocate::<u8>(n)?);
        let mut level = (0, 0);
        for bits in ROOT_BITS {
            if level.1 == n {
                break;
            }
            let arguments: [&dyn Argument; 4] = [&nodes, &(bits as i32), &reached.view(), &roots.view()];
            gpu.launch(gpu.kernel("reorder_roots")?, n, &arguments)?;
            let Splitting { number, count } = Splitting::new(gpu, &roots)?;
            let arguments: [&dyn Argument; 5] =
                [&nodes, &(level.1 as i64), &number.view(), &order.view(), &reached.view()];
            gpu.launch(gpu.kernel("reorder_append_roots")?, n, &arguments)?;
            level = self.search(gpu, (level.0, level.1 + count), &order, &reached)?;
        }
        let inverse = gpu.allocate::<i32>(n)?;
        gpu.launch(gpu.kernel("reorder_inverse")?, n, &[&nodes, &order.view(), &inverse.view()])?;
        let gather = [gpu.kernel("reorder_gather_f64")?, gpu.kernel("reorder_gather_f32")?];
        Ok(DevicePermutation { order, inverse, shape, gather })
    }

    /// At most [`LEVELS`] levels from the one between these positions of the order on. Returns the last one. Synchronises.
    fn search(
        &self,
        gpu: &Gpu,
        (mut begin, mut end): (usize, usize),
        order: &Slice<i32>,
        reached: &Slice<i32>,
    ) -> Result<(usize, usize)> {
        let (unit, most) = (self.unit as i32, MOST_NEIGHBOURS as i32);
        let (offsets, columns, order, reached) =
            (self.offsets.view(), self.columns.view(), order.view(), reached.view());
        let blocks = self.blocks;
        let sums = gpu.allocate::<i64>(blocks)?;
        let (count, append) = (gpu.kernel("reorder_count")?, gpu.kernel("reorder_append")?);
        let arguments: [&dyn Argument; 8] =
            [&(begin as i64), &(end as i64), &unit, &most, &offsets, &columns, &order, &reached];
        gpu.launch(gpu.kernel("reorder_reach")?, (end - begin) * LANES, &arguments)?;
        for batch in 1..=LEVELS / BATCH {
            if begin == end {
                break;
            }
            let mut ends = [0; BATCH + 2];
            (ends[0], ends[1]) = (begin as i64, end as i64);
            let ends = gpu.upload(&ends)?;
            for level in 0..BATCH {
                // Roots of the next round are looked for among what is not reached by the levels of this one.
                let reaches = i32::from(batch < LEVELS / BATCH || level + 1 < BATCH);
                let (level, parts) = (level as i32, blocks as i32);
                let arguments: [&dyn Argument; 10] =
                    [&level, &parts, &unit, &most, &offsets, &columns, &order, &reached, &ends.view(), &sums.view()];
                gpu.launch_blocks(count, blocks, &arguments)?;
                let arguments: [&dyn Argument; 11] = [
                    &level,
                    &parts,
                    &reaches,
                    &unit,
                    &most,
                    &offsets,
                    &columns,
                    &sums.view(),
                    &order,
                    &reached,
                    &ends.view(),
                ];
                gpu.launch_blocks(append, blocks, &arguments)?;
            }
            let ends = gpu.fetch(&ends)?;
            (begin, end) = (ends[BATCH] as usize, ends[BATCH + 1] as usize);
        }
        Ok((begin, end))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::irregular;
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::reorder::Nodes;
    use crate::host::reorder::tests::tree;
    use crate::sparse::Csr;

    #[test]
    fn orders_and_renumbered_matrices_are_those_of_the_host() {
        let named = |name: &str| gallery::parse(name).unwrap().matrix;
        let empty = Csr::<f64>::from_triplets(0, 0, &[]).unwrap();
        let mut all = vec![(named("shuffled:poisson7:9"), 1), (named("shuffled:poisson5:12"), 3), (empty, 1)];
        all.push((named("shuffled:elasticity:3"), 1));
        all.push((named("shuffled:hubs:1500:hubs=1,every=1"), 1));
        all.push((irregular::shuffled(named("shuffled:random_m_matrix:700")), 1));
        // Levels of several blocks of threads, and more levels than a round has.
        all.extend([(tree(2000, 8), 1), (tree(400, 1), 1)]);
        for (a, unit) in all {
            let shape = NodeShape { unit, width: unit * a.block.rows, values: a.block.len() };
            let values: &[f64] = &a.values;
            let nodes = Nodes::new(crate::sparse::CsrView { values, ..a.view() }, unit);
            let wanted = nodes.breadth_first_order(shape).unwrap();
            let (offsets, columns) = wanted.pattern(&a.view()).unwrap();
            let values = wanted.values(&a.view(), &offsets, &columns).unwrap();
            let n = a.rows * a.block.rows;
            let x: Vec<f64> = (0..n).map(|i| (hash(i, 1) >> 40) as f64).collect();
            let mut y = vec![0.0_f32; n];
            wanted.apply(&x, &mut y);
            for gpu in devices() {
                let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                let pattern = on_device.pattern();
                let own = DeviceNodes::new(&pattern, unit);
                let order = own.breadth_first_order(&gpu, shape).unwrap();
                assert_eq!(gpu.fetch(&order.order).unwrap(), wanted.order);
                assert_eq!(gpu.fetch(&order.inverse).unwrap(), wanted.inverse);
                // Several tiles of nodes for each block of threads.
                let few = DeviceNodes { blocks: own.blocks.min(2), ..DeviceNodes::new(&pattern, unit) };
                let order_of_few = few.breadth_first_order(&gpu, shape).unwrap();
                assert_eq!(gpu.fetch(&order_of_few.order).unwrap(), wanted.order);
                assert_eq!(own.locality(&gpu, shape, None).unwrap(), nodes.locality(shape, None).unwrap());
                let after = own.locality(&gpu, shape, Some(&order)).unwrap();
                assert_eq!(after, nodes.locality(shape, Some(&wanted)).unwrap());
                let renumbered = order.pattern(&gpu, &pattern).unwrap();
                let moved = order.values(&gpu, &on_device, &renumbered).unwrap();
                assert_eq!(gpu.fetch(&renumbered.offsets).unwrap(), offsets);
                assert_eq!(gpu.fetch(&renumbered.columns).unwrap(), columns);
                assert_eq!(gpu.fetch(&moved).unwrap(), values);
                let (from, mut to) = (gpu.upload(&x).unwrap(), gpu.zeroed::<f32>(n).unwrap());
                order.apply(&gpu, &from, &mut to).unwrap();
                assert_eq!(gpu.fetch(&to).unwrap(), y);
                let mut back = gpu.zeroed::<f64>(n).unwrap();
                order.apply_inverse(&gpu, &to, &mut back).unwrap();
                assert_eq!(gpu.fetch(&back).unwrap(), x);
            }
        }
    }
}
