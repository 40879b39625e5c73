//! Aggregation from a distance-2 maximal independent set: [`crate::host::mis2`] on the device.

use super::{DeviceGraph, divided};
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;

/// Aggregates of nodes.
pub(crate) struct DeviceAggregates {
    /// Number of the aggregate of each node, -1 where it belongs to none.
    pub of: Buffer<i32>,
    /// How many aggregates there are.
    pub count: usize,
    /// How many nodes belong to one.
    pub members: usize,
}

/// Rounds that are launched before a wait for the device. Surplus rounds return at once; most graphs need fewer.
const ROUNDS: usize = 20;

/// Most blocks of a kernel: more than run at the same time, and few enough that a surplus round takes no time.
const MAX_BLOCKS: usize = 8192;

/// Couplings up to which one block of threads does all rounds: its work takes less time than the launches of them.
const SMALL: usize = 1 << 16;

/// Number of the aggregate of each unknown, -1 where it has no strong couplings. Waits for the device once, unless the
/// graph is not symmetric or needs many rounds.
pub(crate) fn aggregate(gpu: &Gpu, s: &DeviceGraph, seed: u64) -> Result<DeviceAggregates> {
    aggregate_from(gpu, s, seed, SMALL)
}

/// The same, with kernels for each round where there are more couplings than `small`.
fn aggregate_from(gpu: &Gpu, s: &DeviceGraph, seed: u64, small: usize) -> Result<DeviceAggregates> {
    let n = s.rows;
    let lanes = lanes(s);
    let threads = (n * lanes).min(MAX_BLOCKS * BLOCK);
    let kernel = |name: &str| gpu.kernel(name);
    let (size, offsets, columns) = (n as i64, s.offsets.view(), s.columns.view());
    let (key, near) = (gpu.allocate::<u64>(n)?, gpu.allocate::<u64>(n)?);
    // Undecided unknowns before each round and after the last, and rows whose largest key is undecided; then roots,
    // unknowns without an aggregate, and without couplings.
    const COUNTS: usize = ROUNDS + 1;
    let mut status = gpu.zeroed::<i64>(2 * COUNTS + 3)?;
    let [roots, left, alone] = [2 * COUNTS, 2 * COUNTS + 1, 2 * COUNTS + 2];
    gpu.launch(
        kernel("mis2_keys")?,
        n,
        &[&size, &(seed as i64), &offsets, &key.view(), &status.subslice(alone, 1).view()],
    )?;
    let (near_kernel, decide) = (kernel(&format!("mis2_near_{lanes}"))?, kernel(&format!("mis2_decide_{lanes}"))?);
    let is_small = s.columns.len() <= small;
    let mut first = if is_small { ROUNDS as i32 } else { 0 };
    if is_small && n > 0 {
        let arguments: [&dyn Argument; 5] = [&size, &offsets, &columns, &key.view(), &near.view()];
        gpu.launch_blocks(kernel(&format!("mis2_rounds_{lanes}"))?, 1, &arguments)?;
    }
    loop {
        // Lists of the rows that a round looks at, and of those that it leaves to the next.
        let list = || gpu.allocate::<i32>(if is_small { 0 } else { n });
        let (of_near, of_open) = ([list()?, list()?], [list()?, list()?]);
        for round in first..ROUNDS as i32 {
            let (from, to) = (round as usize % 2, (round as usize + 1) % 2);
            let (open, counts) = (status.subslice(0, COUNTS).view(), status.subslice(COUNTS, COUNTS).view());
            let arguments: [&dyn Argument; 10] = [
                &size,
                &round,
                &open,
                &counts,
                &of_near[from].view(),
                &of_near[to].view(),
                &offsets,
                &columns,
                &key.view(),
                &near.view(),
            ];
            gpu.launch(near_kernel, threads, &arguments)?;
            let (from, to) = (of_open[from].view(), of_open[to].view());
            let arguments: [&dyn Argument; 9] =
                [&size, &round, &open, &from, &to, &offsets, &columns, &near.view(), &key.view()];
            gpu.launch(decide, threads, &arguments)?;
        }
        drop((of_near, of_open));
        let flags = gpu.allocate::<i32>(n)?;
        gpu.launch(kernel("mis2_roots")?, n, &[&size, &key.view(), &flags.view()])?;
        let before = gpu.offsets_alone(&flags)?;
        // Aggregates alternate between two arrays; the flags are not needed any more.
        let (mut of, mut other) = (gpu.allocate::<i32>(n)?, flags);
        let arguments: [&dyn Argument; 5] =
            [&size, &key.view(), &before.view(), &of.view(), &status.subslice(roots, 1).view()];
        gpu.launch(kernel("mis2_number")?, n, &arguments)?;
        let join = kernel(&format!("mis2_join_{lanes}"))?;
        // Distance 1, then 2; a third step only matters where the graph is not symmetric.
        let nobody = gpu.allocate::<i64>(1)?;
        for step in 0..3 {
            let left = if step == 2 { status.subslice(left, 1).view() } else { nobody.view() };
            gpu.launch(join, threads, &[&size, &offsets, &columns, &of.view(), &other.view(), &left])?;
            std::mem::swap(&mut of, &mut other);
        }
        let found = gpu.fetch(&status)?;
        let members = n - found[alone] as usize;
        if found[ROUNDS] != 0 {
            // The rounds after the first batch; the first of them has something to do.
            let mut again = found;
            again[..alone].fill(0);
            again[1] = 1;
            gpu.write(&again, &mut status)?;
            first = 1;
            continue;
        }
        let mut count = found[roots];
        if found[left] != 0 {
            let left = other;
            gpu.launch(kernel("mis2_left")?, n, &[&size, &offsets, &of.view(), &left.view()])?;
            let (before, alone) = gpu.offsets(&left)?;
            gpu.launch(kernel("mis2_alone")?, n, &[&size, &count, &left.view(), &before.view(), &of.view()])?;
            count += alone as i64;
        }
        return Ok(DeviceAggregates { of, count: count as usize, members });
    }
}

/// Lanes for a row of the graph.
fn lanes(s: &DeviceGraph) -> usize {
    match s.columns.len() / s.rows.max(1) {
        0..12 => 1,
        12..64 => 4,
        _ => 32,
    }
}

/// The component.
pub(crate) struct Mis2;

impl<T: Scalar> Coarsening<Gpu, T> for Mis2 {
    fn coarsen(&self, input: &CoarseningInput<'_, Gpu, T>) -> Result<Coarse<Gpu>> {
        let aggregates = match input.setup.divided(input.a) {
            Some((over, a)) => divided::aggregation::aggregate(input.setup, a.level(over), input.graph, input.seed)?,
            None => aggregate(input.setup, input.graph, input.seed)?,
        };
        Ok(Coarse::Aggregates(aggregates))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::irregular;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::{mis2, strength};
    use crate::sparse::Graph;

    /// Graphs of matrices, of random edges in one direction, and one with a path that takes many rounds.
    fn graphs() -> Vec<(String, Graph)> {
        let elasticity = gallery::elasticity_hex8(4, gallery::Layers::NONE, true).unwrap().matrix;
        let matrices =
            problems().into_iter().chain([("elasticity".to_string(), elasticity)]).chain(irregular::square());
        let graph = |(name, a): (String, crate::sparse::Csr<f64>)| {
            (name, strength::Symmetric::new(&a.view()).unwrap().graph(0.08).unwrap())
        };
        let mut all: Vec<_> = matrices.map(graph).collect();
        for n in [40, 700] {
            let rows: Vec<Vec<i32>> = (0..n)
                .map(|i| (0..hash(i, 3) as usize % 4).map(|e| (hash(i, e as u64) % n as u64) as i32).collect())
                .collect();
            let counts = rows.iter().map(|r| r.len() as i64).collect();
            let offsets = crate::par::offsets_from_counts(counts).unwrap();
            all.push((format!("one way {n}"), Graph { offsets, columns: rows.concat() }));
        }
        // Unknowns along a path in the order of their keys: each waits for the one before it.
        let mut order: Vec<usize> = (0..300).collect();
        order.sort_by_key(|i| hash(*i, 0) >> 33);
        let mut edges = vec![vec![]; 300];
        for pair in order.windows(2) {
            edges[pair[0]].push(pair[1] as i32);
            edges[pair[1]].push(pair[0] as i32);
        }
        let offsets = crate::par::offsets_from_counts(edges.iter().map(|r| r.len() as i64).collect()).unwrap();
        all.push(("a path".to_string(), Graph { offsets, columns: edges.concat() }));
        all
    }

    #[test]
    fn aggregates_are_those_of_the_host() {
        for gpu in devices() {
            for (name, s) in graphs() {
                let on_device = DeviceGraph {
                    rows: s.rows(),
                    offsets: gpu.upload(&s.offsets).unwrap(),
                    columns: gpu.upload(&s.columns).unwrap(),
                };
                for seed in [0, 3] {
                    let (of, count) = mis2::aggregate(&s, seed).unwrap();
                    let members = of.iter().filter(|g| **g != mis2::NONE).count();
                    for small in [0, SMALL] {
                        let found = aggregate_from(&gpu, &on_device, seed, small).unwrap();
                        assert_eq!(gpu.fetch(&found.of).unwrap(), of, "{name}");
                        assert_eq!((found.count, found.members), (count, members), "{name}");
                    }
                }
            }
        }
    }
}
