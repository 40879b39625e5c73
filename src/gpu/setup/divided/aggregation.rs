//! Aggregates where set-up is divided: the rounds of [`super::super::mis2`], between which ranks tell each other the keys of unknowns at the boundary.

use super::super::{DeviceAggregates, DeviceGraph};
use super::{Ghosts, Table};
use crate::backend::common::AGGREGATE_JOINS;
use crate::comm::{DividedLevel, Reduction};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::runtime::Argument;

/// Threads of a row, as in `kernels/mis2.cu`.
const LANES: usize = 4;

/// As [`super::super::mis2::aggregate`]: the aggregates of own nodes and ghosts, by their numbers on all ranks. Collective.
pub(crate) fn aggregate(gpu: &Gpu, level: DividedLevel<'_>, s: &DeviceGraph, seed: u64) -> Result<DeviceAggregates> {
    let DividedLevel { over, numbers } = level;
    let (n, inside) = (s.rows, numbers.inside());
    let (rows, own, below) = (n as i64, inside.len() as i64, inside.start as i64);
    let first = numbers.own.start as i64;
    let (ghosts, table) = (Ghosts::new(gpu, over, numbers)?, Table::new(gpu, numbers)?);
    let kernel = |name: &str| gpu.kernel(name);
    let (offsets, columns) = (s.offsets.view(), s.columns.view());

    let (mut key, mut near) = (gpu.zeroed::<u64>(n)?, gpu.zeroed::<u64>(n)?);
    gpu.launch(kernel("mis2_own_keys")?, inside.len(), &[&own, &first, &below, &(seed as i64), &offsets, &key.view()])?;
    ghosts.bring(1, &mut key)?;
    let (of_near, decide) = (kernel("mis2_own_near")?, kernel("mis2_own_decide")?);
    let mut is_first = 1_i32;
    loop {
        let (count, list) = (table.ghosts.len() as i32, table.ghosts.view());
        let (keys, largest) = (key.view(), near.view());
        let arguments: [&dyn Argument; 10] =
            [&own, &first, &below, &is_first, &count, &list, &offsets, &columns, &keys, &largest];
        gpu.launch(of_near, LANES * inside.len(), &arguments)?;
        is_first = 0;
        ghosts.bring(1, &mut near)?;
        let left = gpu.zeroed::<i32>(1)?;
        let (keys, largest) = (key.view(), near.view());
        let arguments: [&dyn Argument; 7] = [&own, &below, &offsets, &columns, &largest, &keys, &left.view()];
        gpu.launch(decide, LANES * inside.len(), &arguments)?;
        ghosts.bring(1, &mut key)?;
        let left = gpu.fetch(&left)?[0];
        if over.ranks.reduce(i64::from(left), Reduction::Max)? == 0 {
            break;
        }
    }
    drop(near);

    // Own roots are numbered after those of lower ranks.
    let flags = gpu.allocate::<i32>(inside.len())?;
    let own_keys = key.subslice(inside.start, inside.len());
    gpu.launch(kernel("mis2_roots")?, inside.len(), &[&own, &own_keys.view(), &flags.view()])?;
    let (before, roots) = gpu.offsets(&flags)?;
    let (of_own, total) = (gpu.allocate::<i32>(inside.len())?, gpu.zeroed::<i64>(1)?);
    let views = [own_keys.view(), before.view(), of_own.view(), total.view()];
    let [a, b, c, d] = &views;
    gpu.launch(kernel("mis2_number")?, inside.len(), &[&own, a, b, c, d])?;
    let (first_root, count) = level.prefix(roots)?;
    let (mut of, mut other) = (gpu.allocate::<i32>(n)?, flags);
    let to = of.subslice(inside.start, inside.len()).view();
    let numbering = kernel("divided_coarse_numbers")?;
    gpu.launch(numbering, inside.len(), &[&own, &(first_root as i32), &of_own.view(), &to])?;
    drop((of_own, before, key));
    if other.len() != n {
        other = gpu.allocate::<i32>(n)?;
    }
    let join = kernel(&format!("mis2_join_{LANES}"))?;
    for _ in 0..AGGREGATE_JOINS {
        ghosts.bring(1, &mut of)?;
        gpu.launch(join, LANES * n, &[&rows, &offsets, &columns, &of.view(), &other.view(), &total.view()])?;
        std::mem::swap(&mut of, &mut other);
    }
    // Unknowns with couplings that no root is near are aggregates of their own.
    gpu.launch(kernel("mis2_left")?, n, &[&rows, &offsets, &of.view(), &other.view()])?;
    let (before, alone) = gpu.offsets(&other)?;
    let (next, more) = level.prefix(alone)?;
    let begin = (count + next) as i64;
    gpu.launch(kernel("mis2_alone")?, n, &[&rows, &begin, &other.view(), &before.view(), &of.view()])?;
    ghosts.bring(1, &mut of)?;
    Ok(DeviceAggregates { of, count: count + more, members: n })
}
