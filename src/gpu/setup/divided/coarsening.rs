//! A C/F splitting where set-up is divided: the rounds of PMIS, between which ranks tell each other which unknowns at the boundary were beaten, and which
//! are decided.

use super::super::coarse_numbering::Splitting;
use super::super::{DeviceGraph, pmis};
use super::{Ghosts, copied};
use crate::comm::{DividedLevel, Reduction};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::runtime::{Argument, BLOCK};

/// As [`pmis::split`]: the numbers of own unknowns and of ghosts on the coarse level of all ranks. Collective.
pub(crate) fn split(gpu: &Gpu, level: DividedLevel<'_>, s: &DeviceGraph, seed: u64) -> Result<Splitting> {
    let DividedLevel { over, numbers } = level;
    let (n, inside) = (s.rows, numbers.inside());
    let (rows, own, below) = (n as i64, inside.len(), inside.start as i64);
    let ghosts = Ghosts::new(gpu, over, numbers)?;
    let kernel = |name: &str| gpu.kernel(name);
    let (offsets, columns) = (s.offsets.view(), s.columns.view());

    // Rows of other ranks depend on own unknowns, too.
    let dependents = gpu.zeroed::<i32>(n)?;
    gpu.launch(kernel("pmis_dependents")?, n, &[&rows, &offsets, &columns, &dependents.view()])?;
    let of_others = ghosts.back(1, &dependents)?;
    let (n_sent, sent) = (ghosts.sent.len(), ghosts.sent.view());
    let arguments: [&dyn Argument; 5] = [&(n_sent as i64), &below, &sent, &of_others.view(), &dependents.view()];
    gpu.launch(kernel("divided_add")?, n_sent, &arguments)?;
    drop(of_others);
    let (mut weights, mut state) = (gpu.zeroed::<u64>(n)?, gpu.zeroed::<u8>(n)?);
    let (mut list, mut next) = (gpu.allocate::<i32>(own)?, gpu.allocate::<i32>(own)?);
    let count = gpu.zeroed::<i32>(1)?;
    let begin: [&dyn Argument; 9] = [
        &(own as i64),
        &(numbers.own.start as i64),
        &below,
        &(seed as i64),
        &dependents.view(),
        &weights.view(),
        &state.view(),
        &list.view(),
        &count.view(),
    ];
    gpu.launch(kernel("pmis_begin_own")?, own, &begin)?;
    drop(dependents);
    ghosts.bring(1, &mut weights)?;
    ghosts.bring(1, &mut state)?;

    let mut left = gpu.fetch(&count)?[0] as usize;
    let lanes = pmis::lanes_of(n, s.columns.len());
    let (mark, decide) = (kernel(&format!("pmis_mark_{lanes}"))?, kernel(&format!("pmis_decide_{lanes}"))?);
    // The first round of the kernels is for all unknowns; these are listed.
    let mut round = 2;
    while over.ranks.reduce(left as i64, Reduction::Max)? > 0 {
        let mut counts = [0_i32; 5];
        counts[round as usize] = left as i32;
        let counts = gpu.upload(&counts)?;
        let blocks = (left * lanes).div_ceil(BLOCK).min(pmis::MAX_BLOCKS);
        let (states, weights) = (state.view(), weights.view());
        let graph: [&dyn Argument; 6] = [&rows, &round, &offsets, &columns, &weights, &states];
        let [a, b, c, d, e, f] = graph;
        gpu.launch_blocks(mark, blocks, &[a, b, c, d, e, f, &list.view(), &counts.view()])?;
        let beaten = ghosts.back(1, &state)?;
        let (sent, beaten, states) = (ghosts.sent.view(), beaten.view(), state.view());
        let (n_sent, take) = (ghosts.sent.len(), kernel("pmis_take_beaten")?);
        gpu.launch(take, n_sent, &[&(n_sent as i64), &below, &round, &sent, &beaten, &states])?;
        ghosts.bring(1, &mut state)?;
        let states = state.view();
        let graph: [&dyn Argument; 6] = [&rows, &round, &offsets, &columns, &weights, &states];
        let [a, b, c, d, e, f] = graph;
        gpu.launch_blocks(decide, blocks, &[a, b, c, d, e, f, &list.view(), &next.view(), &counts.view()])?;
        left = gpu.fetch(counts.subslice(round as usize + 1, 1))?[0] as usize;
        ghosts.bring(1, &mut state)?;
        std::mem::swap(&mut list, &mut next);
        round = 5 - round;
    }
    gpu.launch(kernel("pmis_end")?, n, &[&rows, &state.view()])?;
    let Splitting { number: of_own, count } = Splitting::new(gpu, &copied(gpu, state.subslice(inside.start, own))?)?;
    let (before, total) = level.prefix(count)?;
    let mut number = gpu.allocate::<i32>(n)?;
    let to = number.subslice(inside.start, own).view();
    gpu.launch(kernel("divided_coarse_numbers")?, own, &[&(own as i64), &(before as i32), &of_own.view(), &to])?;
    ghosts.bring(1, &mut number)?;
    Ok(Splitting { number, count: total })
}
