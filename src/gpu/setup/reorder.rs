//! Renumbering by clusters of clusters, and the measure of locality: [`crate::host::reorder`] on the device, in `kernels/reorder.cu`.

use super::coarse_numbering::Splitting;
use super::{DeviceCsr, DevicePattern, transpose};
use crate::backend::reorder::{Chunks, EIGHTHS, Locality, MOST_MEASURED, MOST_NEIGHBOURS, NodeShape, goes_on};
use crate::error::{Result, try_collect};
use crate::gpu::runtime::{Argument, Kernel, View, bits_of, tag};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::{Element, Number, Scalar};
use crate::sparse::Block;
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
}

/// The cluster of each node, and the members of each cluster.
struct Clusters {
    cluster: Buffer<i32>,
    offsets: Buffer<i64>,
    members: Buffer<i32>,
}

impl Clusters {
    fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The members of all clusters, which are in this order.
    fn expand(&self, gpu: &Gpu, order: &Slice<i32>) -> Result<Buffer<i32>> {
        let (n, count) = (self.members.len(), self.count());
        let (clusters, order, offsets) = (count as i64, order.view(), self.offsets.view());
        let lengths = gpu.allocate::<i32>(count)?;
        gpu.launch(gpu.kernel("reorder_lengths")?, count, &[&clusters, &order, &offsets, &lengths.view()])?;
        let (starts, of_cluster) = (gpu.offsets_alone(&lengths)?, gpu.allocate::<i64>(count)?);
        let kernel = gpu.kernel("reorder_starts")?;
        gpu.launch(kernel, count, &[&clusters, &order, &starts.view(), &of_cluster.view()])?;
        let all = gpu.allocate::<i32>(n)?;
        let (members, cluster) = (self.members.view(), self.cluster.view());
        let arguments: [&dyn Argument; 6] =
            [&(n as i64), &members, &cluster, &offsets, &of_cluster.view(), &all.view()];
        gpu.launch(gpu.kernel("reorder_expand")?, n, &arguments)?;
        Ok(all)
    }
}

impl<'a> DeviceNodes<'a> {
    /// Nodes of so many rows of a square pattern.
    pub fn new(a: &'a DevicePattern, unit: usize) -> DeviceNodes<'a> {
        DeviceNodes { count: a.rows / unit, unit, offsets: &a.offsets, columns: &a.columns }
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

    /// As [`crate::host::reorder::Nodes::cluster_order`]. Synchronises.
    pub fn cluster_order(&self, gpu: &Gpu, shape: NodeShape) -> Result<DevicePermutation> {
        let first = self.clusters(gpu, 0)?;
        let mut links = self.links(gpu, &first)?;
        let mut levels = vec![first];
        loop {
            let last = &levels[levels.len() - 1];
            let count = last.count();
            if !goes_on(last.members.len(), count) {
                break;
            }
            let graph = DeviceNodes { count, unit: 1, offsets: &last.offsets, columns: &links };
            let next = graph.clusters(gpu, levels.len() as u64)?;
            links = graph.links(gpu, &next)?;
            levels.push(next);
        }
        drop(links);
        let mut order = identity::<i32>(gpu, "i32", levels[levels.len() - 1].count())?;
        while let Some(level) = levels.pop() {
            order = level.expand(gpu, &order)?;
        }
        let (n, inverse) = (order.len(), gpu.allocate::<i32>(order.len())?);
        gpu.launch(gpu.kernel("reorder_inverse")?, n, &[&(n as i64), &order.view(), &inverse.view()])?;
        let gather = [gpu.kernel("reorder_gather_f64")?, gpu.kernel("reorder_gather_f32")?];
        Ok(DevicePermutation { order, inverse, shape, gather })
    }

    fn clusters(&self, gpu: &Gpu, seed: u64) -> Result<Clusters> {
        let (n, unit, most) = (self.count as i64, self.unit as i32, MOST_NEIGHBOURS as i32);
        let (offsets, columns) = (self.offsets.view(), self.columns.view());
        let (mut cluster, mut before) = (gpu.allocate::<i32>(self.count)?, gpu.allocate::<i32>(self.count)?);
        for (round, eighths) in EIGHTHS.into_iter().enumerate() {
            std::mem::swap(&mut cluster, &mut before);
            let arguments: [&dyn Argument; 9] = [
                &n,
                &unit,
                &most,
                &(seed as i64),
                &(eighths as i32),
                &offsets,
                &columns,
                &if round == 0 { View::NONE } else { before.view() },
                &cluster.view(),
            ];
            gpu.launch(gpu.kernel("reorder_clusters")?, self.count, &arguments)?;
        }
        drop(before);
        let seeds = gpu.allocate::<u8>(self.count)?;
        gpu.launch(gpu.kernel("reorder_seeds")?, self.count, &[&n, &cluster.view(), &seeds.view()])?;
        let Splitting { number, count } = Splitting::new(gpu, &seeds)?;
        gpu.launch(gpu.kernel("reorder_number")?, self.count, &[&n, &number.view(), &cluster.view()])?;
        drop((seeds, number));
        let rows = identity::<i64>(gpu, "i64", self.count + 1)?;
        let cluster = Arc::new(cluster);
        let pattern = DevicePattern {
            rows: self.count,
            cols: count,
            block: Block::SCALAR,
            offsets: Arc::new(rows),
            columns: Arc::clone(&cluster),
        };
        let members = transpose::of_pattern(gpu, &pattern)?;
        drop(pattern);
        let Some(cluster) = Arc::into_inner(cluster) else { unreachable!("the pattern was dropped") };
        Ok(Clusters { cluster, offsets: members.offsets, members: members.columns })
    }

    fn links(&self, gpu: &Gpu, clusters: &Clusters) -> Result<Buffer<i32>> {
        let (n, links) = (self.count, gpu.allocate::<i32>(self.count)?);
        let arguments: [&dyn Argument; 8] = [
            &(n as i64),
            &(self.unit as i32),
            &(MOST_NEIGHBOURS as i32),
            &self.offsets.view(),
            &self.columns.view(),
            &clusters.members.view(),
            &clusters.cluster.view(),
            &links.view(),
        ];
        gpu.launch(gpu.kernel("reorder_links")?, n, &arguments)?;
        Ok(links)
    }
}

/// 0, 1, 2 and so on.
fn identity<T: Element>(gpu: &Gpu, name: &str, n: usize) -> Result<Buffer<T>> {
    let to = gpu.allocate::<T>(n)?;
    gpu.launch(gpu.kernel(&format!("reorder_identity_{name}"))?, n, &[&(n as i64), &to.view()])?;
    Ok(to)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::irregular;
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::reorder::Nodes;
    use crate::sparse::Csr;

    #[test]
    fn orders_and_renumbered_matrices_are_those_of_the_host() {
        let named = |name: &str| gallery::parse(name).unwrap().matrix;
        let empty = Csr::<f64>::from_triplets(0, 0, &[]).unwrap();
        let mut all = vec![(named("shuffled:poisson7:9"), 1), (named("shuffled:poisson5:12"), 3), (empty, 1)];
        all.push((named("shuffled:elasticity:3"), 1));
        all.push((named("shuffled:hubs:1500:hubs=1,every=1"), 1));
        all.push((irregular::shuffled(named("shuffled:random_m_matrix:700")), 1));
        for (a, unit) in all {
            let shape = NodeShape { unit, width: unit * a.block.rows, values: a.block.len() };
            let values: &[f64] = &a.values;
            let nodes = Nodes::new(crate::sparse::CsrView { values, ..a.view() }, unit);
            let wanted = nodes.cluster_order(shape).unwrap();
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
                let order = own.cluster_order(&gpu, shape).unwrap();
                assert_eq!(gpu.fetch(&order.order).unwrap(), wanted.order);
                assert_eq!(gpu.fetch(&order.inverse).unwrap(), wanted.inverse);
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
