//! The tentative prolongator: [`crate::host::tentative`] on the device.

use super::{DeviceAggregates, DeviceCsr};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View, tag};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::{Block, NearNullSpace};
use std::any::Any;
use std::sync::Arc;

/// Near-null-space vectors in device memory, as [`NearNullSpace`].
pub(crate) struct DeviceNearNullSpace {
    pub dofs_per_node: usize,
    pub count: usize,
    /// One vector after the other, each over all rows.
    pub vectors: Buffer<f64>,
}

impl DeviceNearNullSpace {
    /// A copy of one of the host.
    pub fn upload(gpu: &Gpu, space: &NearNullSpace) -> Result<DeviceNearNullSpace> {
        let vectors = gpu.upload(&space.vectors)?;
        Ok(DeviceNearNullSpace { dofs_per_node: space.dofs_per_node, count: space.count, vectors })
    }

    /// The constant in each component of a node, as [`NearNullSpace::constants`].
    pub fn constants(gpu: &Gpu, rows: usize, dofs_per_node: usize) -> Result<DeviceNearNullSpace> {
        let vectors = gpu.allocate(rows * dofs_per_node)?;
        let arguments: [&dyn Argument; 3] = [&(rows as i64), &(dofs_per_node as i32), &vectors.view()];
        gpu.launch(gpu.kernel("constants")?, rows * dofs_per_node, &arguments)?;
        Ok(DeviceNearNullSpace { dofs_per_node, count: dofs_per_node, vectors })
    }

    /// A copy on the host.
    #[cfg(feature = "unit-tests")]
    pub fn fetch(&self, gpu: &Gpu) -> Result<NearNullSpace> {
        let vectors = gpu.fetch(&self.vectors)?;
        Ok(NearNullSpace { dofs_per_node: self.dofs_per_node, count: self.count, vectors })
    }
}

/// A prolongator with one block in the row of each node that belongs to an aggregate.
pub(crate) struct Tentative<T> {
    pub block: Block,
    /// The entry of each node, where not all nodes belong to an aggregate; otherwise it is the number of the node.
    pub entries: Option<Buffer<i64>>,
    pub values: Buffer<T>,
}

/// Lanes that sort the members of an aggregate, as in `kernels/tentative.cu`.
const AGGREGATE_LANES: usize = 8;

/// Blocks of threads for lists whose length only the device knows; most lists are empty.
const LIST_BLOCKS: usize = 64;

/// P_0 and the coarse near-null space B_c with P_0 B_c = B on every unknown that belongs to an aggregate.
pub(crate) fn prolongator<T: Scalar>(
    gpu: &Gpu,
    aggregates: &DeviceAggregates,
    space: &DeviceNearNullSpace,
) -> Result<(Tentative<T>, DeviceNearNullSpace)> {
    let (starts, members) = members(gpu, aggregates)?;
    let entries = entries(gpu, aggregates)?;
    let nodes = aggregates.of.len();
    let parts = (&*starts, &*members, aggregates.count);
    let (values, coarse) = orthonormalised(gpu, parts, nodes, space, entries.as_ref())?;
    let block = Block { rows: space.dofs_per_node, cols: space.count };
    Ok((Tentative { block, entries, values }, coarse))
}

/// The values of P_0 and B_c for aggregates whose members, ascending, begin at these positions, among so many nodes. Without `entries` there is a block
/// for each node; those of nodes that are no members are zero.
pub(super) fn orthonormalised<T: Scalar>(
    gpu: &Gpu,
    (starts, members, count): (&Slice<i64>, &Slice<i32>, usize),
    nodes: usize,
    space: &DeviceNearNullSpace,
    entries: Option<&Buffer<i64>>,
) -> Result<(Buffer<T>, DeviceNearNullSpace)> {
    let (dofs, k) = (space.dofs_per_node, space.count);
    let kernel = |name: &str| gpu.kernel(name);
    let values = match entries {
        Some(_) => gpu.allocate::<T>(members.len() * dofs * k)?,
        None if members.len() == nodes => gpu.allocate::<T>(nodes * dofs * k)?,
        None => gpu.zeroed::<T>(nodes * dofs * k)?,
    };
    let coarse = gpu.allocate::<f64>(count * k * k)?;
    // The number of large aggregates, and which.
    let large = gpu.zeroed::<i32>(count + 1)?;
    let (aggregate_count, rows, dofs_, format) = (count as i64, (nodes * dofs) as i64, dofs as i32, tag::<T>());
    let entries_view = entries.map_or(View::NONE, |entries| entries.view());
    let (starts, members, vectors) = (starts.view(), members.view(), space.vectors.view());
    let arguments: [&dyn Argument; 11] = [
        &aggregate_count,
        &rows,
        &dofs_,
        &starts,
        &members,
        &vectors,
        &entries_view,
        &coarse.view(),
        &format,
        &values.view(),
        &large.view(),
    ];
    gpu.launch(kernel(&format!("tentative_small_{k}"))?, count * lanes(k), &arguments)?;
    // Large aggregates are computed in f64, in place if that is the format.
    let same: &dyn Any = &values;
    let wide = match same.downcast_ref::<Buffer<f64>>() {
        Some(_) => None,
        None => Some(gpu.allocate::<f64>(values.len())?),
    };
    let q = wide.as_ref().map_or(values.view(), |wide| wide.view());
    let arguments: [&dyn Argument; 12] = [
        &aggregate_count,
        &rows,
        &dofs_,
        &starts,
        &members,
        &vectors,
        &entries_view,
        &coarse.view(),
        &q,
        &format,
        &values.view(),
        &large.view(),
    ];
    if count > 0 {
        gpu.launch_blocks(kernel(&format!("tentative_large_{k}"))?, LIST_BLOCKS, &arguments)?;
    }
    Ok((values, DeviceNearNullSpace { dofs_per_node: k, count: k, vectors: coarse }))
}

/// The entry of each node in a prolongator that has one for each member of an aggregate, where not all nodes are.
pub(super) fn entries(gpu: &Gpu, aggregates: &DeviceAggregates) -> Result<Option<Buffer<i64>>> {
    let nodes = aggregates.of.len();
    if aggregates.members == nodes {
        return Ok(None);
    }
    let belongs = gpu.allocate::<i32>(nodes)?;
    let arguments: [&dyn Argument; 3] = [&(nodes as i64), &aggregates.of.view(), &belongs.view()];
    gpu.launch(gpu.kernel("aggregate_flags")?, nodes, &arguments)?;
    Ok(Some(gpu.offsets_alone(&belongs)?))
}

/// Where the members of each aggregate begin, and the members, ascending in each.
pub(super) fn members(gpu: &Gpu, aggregates: &DeviceAggregates) -> Result<(Buffer<i64>, Buffer<i32>)> {
    let (nodes, count) = (aggregates.of.len(), aggregates.count);
    let kernel = |name: &str| gpu.kernel(name);
    let (n, of) = (nodes as i64, aggregates.of.view());
    let (position, sizes) = (gpu.allocate::<i32>(nodes)?, gpu.zeroed::<i32>(count)?);
    gpu.launch(kernel("aggregate_count")?, nodes, &[&n, &of, &position.view(), &sizes.view()])?;
    let starts = gpu.offsets_alone(&sizes)?;
    let unsorted = gpu.allocate::<i32>(aggregates.members)?;
    gpu.launch(kernel("aggregate_fill")?, nodes, &[&n, &of, &position.view(), &starts.view(), &unsorted.view()])?;
    drop(position);
    let (sorted, large) = (gpu.allocate::<i32>(aggregates.members)?, gpu.zeroed::<i32>(count + 1)?);
    let arguments: [&dyn Argument; 5] =
        [&(count as i64), &starts.view(), &unsorted.view(), &sorted.view(), &large.view()];
    gpu.launch(kernel("aggregate_sort")?, count * AGGREGATE_LANES, &arguments)?;
    if count > 0 {
        let arguments: [&dyn Argument; 5] = [&n, &of, &large.view(), &starts.view(), &sorted.view()];
        gpu.launch_blocks(kernel("aggregate_sort_large")?, LIST_BLOCKS, &arguments)?;
    }
    Ok((starts, sorted))
}

/// Lanes for an aggregate, as in `kernels/tentative.cu`.
fn lanes(k: usize) -> usize {
    if k <= 2 { 8 } else { 32 }
}

impl<T: Scalar> Tentative<T> {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.values.owned_bytes() + self.entries.as_ref().map_or(0, Buffer::owned_bytes)
    }

    /// The prolongator as a matrix.
    pub fn into_matrix(self, gpu: &Gpu, aggregates: &DeviceAggregates) -> Result<DeviceCsr<T>> {
        let nodes = aggregates.of.len();
        let offsets = match self.entries {
            Some(entries) => entries,
            None => {
                let offsets = gpu.allocate::<i64>(nodes + 1)?;
                let n = nodes as i64 + 1;
                gpu.launch(gpu.kernel("tentative_counting")?, nodes + 1, &[&n, &offsets.view()])?;
                offsets
            }
        };
        let columns = gpu.allocate::<i32>(aggregates.members)?;
        let arguments: [&dyn Argument; 4] = [&(nodes as i64), &aggregates.of.view(), &offsets.view(), &columns.view()];
        gpu.launch(gpu.kernel("tentative_columns")?, nodes, &arguments)?;
        Ok(DeviceCsr {
            rows: nodes,
            cols: aggregates.count,
            block: self.block,
            offsets: Arc::new(offsets),
            columns: Arc::new(columns),
            values: Arc::new(self.values),
        })
    }
}

/// The component: plain aggregation.
pub(crate) struct PlainAggregation;

impl<T: Scalar> Interpolation<Gpu, T> for PlainAggregation {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let (aggregates, space) = input.aggregates("tentative")?;
        let (p, next) = prolongator(input.setup, aggregates, space)?;
        let p = p.into_matrix(input.setup, aggregates)?;
        Ok(Interpolated { near_null_space: Some(Arc::new(next)), ..Interpolated::alone(p.into()) })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::mis2::NONE;
    use crate::host::tentative;

    /// Aggregates of these sizes, their nodes mixed, with some nodes that belong to none.
    fn aggregates(sizes: &[usize], without: usize) -> (Vec<i32>, usize) {
        let numbers = sizes.iter().enumerate().flat_map(|(g, size)| vec![g as i32; *size]);
        let mut of: Vec<i32> = numbers.chain(vec![NONE; without]).collect();
        let mut order: Vec<usize> = (0..of.len()).collect();
        order.sort_by_key(|i| hash(*i, 5));
        of = order.into_iter().map(|i| of[i]).collect();
        (of, sizes.len())
    }

    fn compare<T: Scalar>(gpu: &Gpu, (of, count): &(Vec<i32>, usize), space: &NearNullSpace) {
        let (p, coarse) = tentative::prolongator::<T>(of, *count, space).unwrap();
        let members = of.iter().filter(|g| **g != NONE).count();
        let on_device = DeviceAggregates { of: gpu.upload(of).unwrap(), count: *count, members };
        let space = DeviceNearNullSpace::upload(gpu, space).unwrap();
        let (found, coarse_found) = prolongator::<T>(gpu, &on_device, &space).unwrap();
        assert_eq!(found.into_matrix(gpu, &on_device).unwrap().fetch(gpu).unwrap(), p);
        assert_eq!(coarse_found.fetch(gpu).unwrap(), coarse);
    }

    #[test]
    fn prolongators_and_coarse_vectors_are_those_of_the_host() {
        let usual = aggregates(&[7, 1, 2, 13, 8, 9, 30, 16, 33, 3], 0);
        let all = [usual, aggregates(&[4, 5, 60, 1], 3), aggregates(&[700, 2, 515, 300], 1), aggregates(&[], 3)];
        for gpu in devices() {
            for these in &all {
                let nodes = these.0.len();
                compare::<f64>(&gpu, these, &NearNullSpace::constants(nodes, 1).unwrap());
                compare::<f64>(&gpu, these, &NearNullSpace::constants(2 * nodes, 2).unwrap());
                let coordinates: Vec<f64> = (0..3 * nodes).map(|i| (hash(i, 1) % 1000) as f64 / 77.0).collect();
                let modes = NearNullSpace::rigid_body_modes(3 * nodes, 3, &coordinates).unwrap();
                compare::<f64>(&gpu, these, &modes);
                compare::<f32>(&gpu, these, &modes);
                for k in [3, 4, 5, 7, 8] {
                    let vectors = (0..nodes * k).map(|i| (hash(i, 2) % 100) as f64 - 50.0).collect();
                    let space = NearNullSpace { dofs_per_node: 1, count: k, vectors };
                    if k == 5 {
                        compare::<f32>(&gpu, these, &space);
                    }
                    compare::<f64>(&gpu, these, &space);
                }
            }
        }
    }
}
