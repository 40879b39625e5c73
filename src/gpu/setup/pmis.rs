//! Parallel modified independent set on a GPU. The work is in `kernels/pmis.cu`.

use super::coarse_numbering::Splitting;
use super::lanes::lanes;
use super::{DeviceGraph, divided};
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;

/// Rounds before the host reads how many unknowns are undecided; few graphs need more.
const ROUNDS: i32 = 5;

/// Unknowns that one block decides, in as many rounds as it takes.
const ONE_BLOCK_UNKNOWNS: i32 = 4096;

/// Rounds that are counted before counting starts again.
const COUNTED_ROUNDS: i32 = 60;

/// Blocks that fill a GPU; each goes over as many unknowns as it takes.
pub(super) const MAX_BLOCKS: usize = 16_384;

/// Threads for a row of a graph with `n` rows. Where there are enough rows to fill a GPU, threads that have one each do best: the columns of neighbouring
/// ones are often neighbours.
pub(super) fn lanes_of(n: usize, entries: usize) -> usize {
    match n {
        500_000.. if entries <= 12 * n => 1,
        500_000.. => 2,
        100_000.. => 4,
        _ => 2 * lanes(entries, n).min(16),
    }
}

/// As [`crate::host::pmis::split`]: 1 for coarse unknowns, 0 for all others.
pub(crate) fn split(gpu: &Gpu, s: &DeviceGraph, seed: u64) -> Result<Buffer<u8>> {
    split_with(gpu, s, seed, ONE_BLOCK_UNKNOWNS)
}

/// One block decides the last `few` unknowns.
fn split_with(gpu: &Gpu, s: &DeviceGraph, seed: u64, few: i32) -> Result<Buffer<u8>> {
    let n = s.rows;
    let rows = n as i64;
    let kernel = |name: &str| gpu.kernel(name);
    let (state, weights) = (gpu.allocate::<u8>(n)?, gpu.allocate::<u64>(n)?);
    let entries = s.columns.len();
    let dependents = gpu.zeroed::<i32>(n)?;
    let arguments: [&dyn Argument; 4] = [&rows, &s.offsets.view(), &s.columns.view(), &dependents.view()];
    gpu.launch(kernel("pmis_dependents")?, n, &arguments)?;
    let [weights_view, state_view] = [&weights.view(), &state.view()];
    gpu.launch(kernel("pmis_begin")?, n, &[&rows, &(seed as i64), &dependents.view(), weights_view, state_view])?;
    drop(dependents);

    let lists = [gpu.allocate::<i32>(n)?, gpu.allocate::<i32>(n)?];
    let mut counts = gpu.zeroed::<i32>(COUNTED_ROUNDS as usize + 2)?;
    let lanes = lanes_of(n, entries);
    let (mark, decide, remaining_rounds) = (
        kernel(&format!("pmis_mark_{lanes}"))?,
        kernel(&format!("pmis_decide_{lanes}"))?,
        kernel("pmis_remaining_rounds")?,
    );
    let (offsets, columns) = (s.offsets.view(), s.columns.view());
    let mut round = 0;
    let mut left = n;
    while left > 0 {
        let blocks = (left * lanes).div_ceil(BLOCK).min(MAX_BLOCKS);
        let of = |round: i32| lists[round as usize % 2].view();
        for _ in 0..ROUNDS {
            let (list, next) = (of(round), of(round + 1));
            let graph: [&dyn Argument; 6] = [&rows, &round, &offsets, &columns, weights_view, state_view];
            let [a, b, c, d, e, f] = graph;
            gpu.launch_blocks(mark, blocks, &[a, b, c, d, e, f, &list, &counts.view()])?;
            gpu.launch_blocks(decide, blocks, &[a, b, c, d, e, f, &list, &next, &counts.view()])?;
            round += 1;
        }
        let (list, next) = (of(round), of(round + 1));
        let graph: [&dyn Argument; 6] = [&round, &few, &offsets, &columns, weights_view, state_view];
        let [a, b, c, d, e, f] = graph;
        gpu.launch_blocks(remaining_rounds, 1, &[a, b, c, d, e, f, &list, &next, &counts.view()])?;
        left = gpu.fetch(counts.subslice(round as usize, 1))?[0] as usize;
        if left > 0 && round + ROUNDS > COUNTED_ROUNDS {
            // What is undecided was beaten in the round before, whose number must stay odd or even.
            round = 2 + round % 2;
            let mut restarted = vec![0; COUNTED_ROUNDS as usize + 2];
            restarted[round as usize] = left as i32;
            counts = gpu.upload(&restarted)?;
        }
    }
    gpu.launch(kernel("pmis_end")?, n, &[&rows, state_view])?;
    Ok(state)
}

/// The component.
pub(crate) struct Pmis;

impl<T: Scalar> Coarsening<Gpu, T> for Pmis {
    fn coarsen(&self, input: &CoarseningInput<'_, Gpu, T>) -> Result<Coarse<Gpu>> {
        if let Some((over, a)) = input.setup.divided(input.a) {
            let coarse = divided::coarsening::split(input.setup, a.level(over), input.graph, input.seed)?;
            return Ok(Coarse::Splitting(coarse));
        }
        let coarse = split(input.setup, input.graph, input.seed)?;
        Ok(Coarse::Splitting(Splitting::new(input.setup, &coarse)?))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{irregular, problems, upload};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::host::{pmis, strength};
    use crate::sparse::Graph;

    fn check(s: &Graph, name: &str) {
        for seed in [0, 3] {
            let wanted = pmis::split(s, &s.transpose().unwrap(), seed).unwrap();
            for gpu in devices() {
                let state = gpu.fetch(&split(&gpu, &upload(&gpu, s), seed).unwrap()).unwrap();
                assert!(state.iter().all(|s| *s < 2), "{name}");
                assert_eq!(state.iter().map(|s| *s == 1).collect::<Vec<_>>(), wanted, "{name}");
            }
        }
    }

    #[test]
    fn splittings_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&strength::classical(&a.view(), 0.25, 1.0).unwrap(), &name);
            check(&strength::absolute(&a.view(), 0.0).unwrap(), &name);
        }
    }

    #[test]
    fn long_chains_of_rounds_end() {
        // A path on which unknown i has i dependents more: each round decides two unknowns at its heavy end.
        let (n, mut s) = (150, Graph { offsets: vec![0], columns: Vec::new() });
        for i in 0..n {
            s.columns.extend((i + 1 < n).then_some(i + 1));
            s.offsets.push(s.columns.len() as i64);
        }
        for i in 0..n {
            for _ in 0..i {
                s.columns.push(i);
                s.offsets.push(s.columns.len() as i64);
            }
        }
        check(&s, "a path");
        let wanted = pmis::split(&s, &s.transpose().unwrap(), 1).unwrap();
        for gpu in devices() {
            let state = gpu.fetch(&split_with(&gpu, &upload(&gpu, &s), 1, 0).unwrap()).unwrap();
            assert_eq!(state.iter().map(|s| *s == 1).collect::<Vec<_>>(), wanted);
        }
    }
}
