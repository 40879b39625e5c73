//! Aggregation by pairwise matching: [`crate::host::pairwise`] on the device.

use super::smoothed::sum_by_aggregates;
use super::spgemm::multiply_at_most;
use super::tentative::{Tentative, members};
use super::transpose::transpose;
use super::{DeviceAggregates, DeviceCsr, DeviceGraph};
use crate::backend::Backend;
use crate::backend::common::SCORED_ROUNDS;
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, fail};
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// Lanes for a row, as in `kernels/pairwise.cu`.
const LANES: usize = 8;

/// Rounds that are launched before a wait for the device. Surplus rounds return at once.
const ROUNDS: usize = 16;

/// Status of a pass: after the unmatched unknowns before each round and after the last come the number of aggregates,
/// the unknowns without one, and whether the weights were not symmetric.
const AGGREGATES: usize = ROUNDS + 1;
const ALONE: usize = ROUNDS + 2;
const OTHER: usize = ROUNDS + 3;
const STATUS: usize = ROUNDS + 4;

/// Most blocks of a round: few enough that a surplus round takes no time.
const MAX_BLOCKS: usize = 8192;

/// Number of the aggregate of each unknown, -1 where there are no strong couplings. Aggregates are paired until they
/// have about `size` members: once for 2, twice up to 4, three times up to 8.
pub(crate) fn aggregate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    size: usize,
    seed: u64,
) -> Result<DeviceAggregates> {
    let (mut weights, mut aggregates) = first_pass(gpu, a, s, seed)?;
    // Later passes pair the aggregates of the pass before.
    let mut pass: Option<DeviceAggregates> = None;
    let mut reached = 2;
    while reached < size {
        weights = weights.collapse(gpu, pass.as_ref().unwrap_or(&aggregates))?;
        let next = weights.aggregates(gpu, seed, true)?;
        let n = aggregates.of.len();
        let arguments: [&dyn Argument; 3] = [&(n as i64), &next.of.view(), &aggregates.of.view()];
        gpu.launch(gpu.kernel("pair_compose")?, n, &arguments)?;
        aggregates.count = next.count;
        pass = Some(next);
        reached *= 2;
    }
    Ok(aggregates)
}

/// The weights of couplings, and the aggregates of the first pass.
fn first_pass<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    seed: u64,
) -> Result<(Weights, DeviceAggregates)> {
    let n = a.rows;
    let (diagonal, half_norms) = (gpu.allocate::<f64>(n)?, gpu.allocate::<f64>(s.columns.len())?);
    let kernel = gpu.kernel(&format!("pair_half_norms_{}", T::PRECISION.name()))?;
    let (rows, size) = (n as i64, a.block.len() as i32);
    let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
    let arguments: [&dyn Argument; 9] = [
        &rows,
        &size,
        &offsets,
        &columns,
        &values,
        &s.offsets.view(),
        &s.columns.view(),
        &half_norms.view(),
        &diagonal.view(),
    ];
    gpu.launch(kernel, n * LANES, &arguments)?;
    // Usually the graph is symmetric with ascending rows. A flag, read after the pass, tells whether it is.
    let both = DeviceCsr {
        rows: n,
        cols: n,
        block: Block::SCALAR,
        offsets: Arc::new(gpu.allocate(n + 1)?),
        columns: Arc::new(gpu.allocate(s.columns.len())?),
        values: Arc::new(gpu.allocate::<f64>(s.columns.len())?),
    };
    let status = gpu.zeroed::<i64>(STATUS)?;
    let arguments: [&dyn Argument; 8] = [
        &rows,
        &s.offsets.view(),
        &s.columns.view(),
        &half_norms.view(),
        &both.offsets.view(),
        &both.columns.view(),
        &both.values.view(),
        &status.subslice(OTHER, 1).view(),
    ];
    gpu.launch(gpu.kernel("pair_both")?, n + 1, &arguments)?;
    let mut weights = Weights { couplings: both, diagonal };
    if let Some(aggregates) = weights.handshake(gpu, seed, false, status)? {
        return Ok((weights, aggregates));
    }
    // Two transpositions sort the rows, whatever the order of the matrix.
    let transposed = transpose_graph(gpu, s, half_norms)?;
    let sorted = transpose(gpu, &transposed)?;
    weights.couplings = add(gpu, &sorted, &transposed)?;
    let aggregates = weights.aggregates(gpu, seed, false)?;
    Ok((weights, aggregates))
}

/// The symmetric weights of couplings, and W_ii.
struct Weights {
    couplings: DeviceCsr<f64>,
    diagonal: Buffer<f64>,
}

impl Weights {
    /// The weights between aggregates: those of their members' couplings and diagonals, added up.
    fn collapse(self, gpu: &Gpu, aggregates: &DeviceAggregates) -> Result<Weights> {
        let (starts, members) = members(gpu, aggregates)?;
        let diagonal = gpu.allocate::<f64>(aggregates.count)?;
        let arguments: [&dyn Argument; 5] =
            [&(aggregates.count as i64), &starts.view(), &members.view(), &self.diagonal.view(), &diagonal.view()];
        gpu.launch(gpu.kernel("pair_diagonals")?, aggregates.count, &arguments)?;
        let ones = Tentative::<f64>::of_ones(gpu, aggregates)?;
        let wide = sum_by_aggregates(gpu, &self.couplings, aggregates, &ones)?;
        let q = ones.into_matrix(gpu, aggregates)?;
        let couplings = multiply_at_most(gpu, &transpose(gpu, &q)?, &wide, wide.nnz() as f64 / q.cols.max(1) as f64)?;
        Ok(Weights { couplings, diagonal })
    }

    /// The aggregates of one pass.
    fn aggregates(&self, gpu: &Gpu, seed: u64, keep: bool) -> Result<DeviceAggregates> {
        match self.handshake(gpu, seed, keep, gpu.zeroed(STATUS)?)? {
            Some(aggregates) => Ok(aggregates),
            None => fail!(Internal, "weights that were added up are not symmetric"),
        }
    }

    /// The aggregates of one pass; none if `status` says that the weights are not symmetric. With `keep`, an unknown
    /// without neighbours is an aggregate. Waits for the device once, unless there are many rounds.
    fn handshake(&self, gpu: &Gpu, seed: u64, keep: bool, mut status: Buffer<i64>) -> Result<Option<DeviceAggregates>> {
        let n = self.couplings.rows;
        let kernel = |name: &str| gpu.kernel(name);
        let (size, seed) = (n as i64, seed as i64);
        let (offsets, columns) = (self.couplings.offsets.view(), self.couplings.columns.view());
        let (weights, diagonal) = (self.couplings.values.view(), self.diagonal.view());
        let [roots, offers, joins, flags] =
            [gpu.allocate::<i32>(n)?, gpu.allocate(n)?, gpu.allocate(n)?, gpu.allocate(n)?];
        gpu.launch(kernel("pair_begin")?, n, &[&size, &roots.view()])?;
        // A thread for each unknown where there are few couplings.
        let lanes = if self.couplings.nnz() / n.max(1) < 16 { 1 } else { LANES };
        let (choose, matching) = (kernel(&format!("pair_choose_{lanes}"))?, kernel("pair_match")?);
        let mut begun = 0;
        loop {
            // The counter of the first round of a later batch is that of the last round of the batch before.
            let first = usize::from(begun > 0);
            for round in first..ROUNDS {
                let scored = i32::from(begun < SCORED_ROUNDS);
                let round = round as i32;
                let arguments: [&dyn Argument; 12] = [
                    &size,
                    &round,
                    &scored,
                    &seed,
                    &status.view(),
                    &offsets,
                    &columns,
                    &weights,
                    &diagonal,
                    &roots.view(),
                    &offers.view(),
                    &joins.view(),
                ];
                gpu.launch(choose, (n * lanes).min(MAX_BLOCKS * BLOCK), &arguments)?;
                let arguments: [&dyn Argument; 6] =
                    [&size, &round, &status.view(), &offers.view(), &joins.view(), &roots.view()];
                gpu.launch(matching, n, &arguments)?;
                begun += 1;
            }
            // Aggregates are counted now, to be read together with the number of unmatched unknowns.
            let [open, total, alone] = [ROUNDS, AGGREGATES, ALONE].map(|at| status.subslice(at, 1));
            let arguments: [&dyn Argument; 6] =
                [&size, &i32::from(keep), &open.view(), &roots.view(), &flags.view(), &alone.view()];
            gpu.launch(kernel("pair_roots")?, n, &arguments)?;
            let before = gpu.offsets_alone(&flags)?;
            let arguments: [&dyn Argument; 5] = [&size, &roots.view(), &before.view(), &flags.view(), &total.view()];
            gpu.launch(kernel("pair_number")?, n, &arguments)?;
            let found = gpu.fetch(&status)?;
            if found[OTHER] != 0 {
                return Ok(None);
            }
            if found[ROUNDS] == 0 {
                let (count, members) = (found[AGGREGATES] as usize, n - found[ALONE] as usize);
                return Ok(Some(DeviceAggregates { of: flags, count, members }));
            }
            let mut again = [0; STATUS];
            again[1] = 1;
            gpu.write(&again, &mut status)?;
        }
    }
}

impl Tentative<f64> {
    /// A prolongator of ones.
    fn of_ones(gpu: &Gpu, aggregates: &DeviceAggregates) -> Result<Tentative<f64>> {
        let mut values = gpu.allocate::<f64>(aggregates.members)?;
        gpu.fill(1.0, &mut values);
        let entries = super::tentative::entries(gpu, aggregates)?;
        Ok(Tentative { block: Block::SCALAR, entries, values })
    }
}

/// The transpose of the graph with values in its order.
fn transpose_graph(gpu: &Gpu, s: &DeviceGraph, values: Buffer<f64>) -> Result<DeviceCsr<f64>> {
    let (pattern, symbolic) = super::transpose::pattern_and_symbolic(gpu, s)?;
    let values = Arc::new(symbolic.numeric(gpu, &values)?);
    let (offsets, columns) = (Arc::new(pattern.offsets), Arc::new(pattern.columns));
    Ok(DeviceCsr { rows: s.rows, cols: s.rows, block: Block::SCALAR, offsets, columns, values })
}

/// A + B, for rows in ascending order of columns. Waits for the device.
fn add(gpu: &Gpu, a: &DeviceCsr<f64>, b: &DeviceCsr<f64>) -> Result<DeviceCsr<f64>> {
    let n = a.rows;
    let kernel = gpu.kernel("pair_add")?;
    let run = |counts: View, offsets: View, columns: View, values: View| {
        let [a_offsets, b_offsets] = [a, b].map(|m| m.offsets.view());
        let [a_columns, b_columns] = [a, b].map(|m| m.columns.view());
        let [a_values, b_values] = [a, b].map(|m| m.values.view());
        let arguments: [&dyn Argument; 11] = [
            &(n as i64),
            &a_offsets,
            &a_columns,
            &a_values,
            &b_offsets,
            &b_columns,
            &b_values,
            &counts,
            &offsets,
            &columns,
            &values,
        ];
        gpu.launch(kernel, n, &arguments)
    };
    let counts = gpu.allocate::<i32>(n)?;
    run(counts.view(), View::NONE, View::NONE, View::NONE)?;
    let (offsets, entries) = gpu.offsets(&counts)?;
    let (columns, values) = (gpu.allocate::<i32>(entries)?, gpu.allocate::<f64>(entries)?);
    run(View::NONE, offsets.view(), columns.view(), values.view())?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows: n, cols: a.cols, block: Block::SCALAR, offsets, columns, values })
}

/// The component.
pub(crate) struct Pairwise;

impl<T: Scalar> Coarsening<Gpu, T> for Pairwise {
    fn coarsen(&self, input: &CoarseningInput<'_, Gpu, T>) -> Result<Coarse<Gpu>> {
        let size = input.parameters.int("amg.coarsening.pairwise.size");
        Ok(Coarse::Aggregates(aggregate(input.setup, input.a, input.graph, size, input.seed)?))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::irregular;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::devices;
    use crate::host::mis2::NONE;
    use crate::host::{pairwise, strength};
    use crate::sparse::Csr;

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>, size: usize) {
        let s = strength::Symmetric::new(&a.view()).unwrap().graph(0.08).unwrap();
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let graph = DeviceGraph {
            rows: a.rows,
            offsets: gpu.upload(&s.offsets).unwrap(),
            columns: gpu.upload(&s.columns).unwrap(),
        };
        let (of, count) = pairwise::aggregate(&a.view(), &s, size, 1).unwrap();
        let found = aggregate(gpu, &on_device, &graph, size, 1).unwrap();
        assert_eq!(gpu.fetch(&found.of).unwrap(), of, "{name} {size}");
        let members = of.iter().filter(|g| **g != NONE).count();
        assert_eq!((found.count, found.members), (count, members), "{name} {size}");
    }

    /// Weights that rise along a path, which is matched from its end.
    fn path(n: usize) -> Csr<f64> {
        let edges = (1..n).flat_map(|i| {
            let w = -1.0 - i as f64 / n as f64;
            [(i - 1, i, w), (i, i - 1, w)]
        });
        let triplets: Vec<_> = edges.chain((0..n).map(|i| (i, i, 5.0))).collect();
        Csr::from_triplets(n, n, &triplets).unwrap()
    }

    #[test]
    fn aggregates_are_those_of_the_host() {
        let elasticity = gallery::elasticity_hex8(4, gallery::Layers::NONE, true).unwrap().matrix;
        let mut all = problems();
        all.extend(irregular::square());
        all.extend([("elasticity".to_string(), elasticity), ("a path".to_string(), path(150))]);
        for gpu in devices() {
            for (k, (name, a)) in all.iter().enumerate() {
                compare(&gpu, name, a, [8, 2, 4][k % 3]);
            }
            compare(&gpu, "f32", &all[1].1.view().to_owned_as::<f32>().unwrap(), 8);
        }
    }
}
