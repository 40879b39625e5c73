//! Aggressive coarsening on a GPU: the graph of paths of two strong couplings between coarse unknowns is a product of matrices of ones.

use super::coarse::Splitting;
use super::{DeviceCsr, DeviceGraph, pmis, spgemm};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu};
use crate::sparse::Block;
use std::sync::Arc;

/// As [`crate::host::aggressive::thin`]: 1 for the unknowns that stay coarse.
pub(crate) fn thin(gpu: &Gpu, s: &DeviceGraph, first: &Splitting, seed: u64) -> Result<Buffer<u8>> {
    let far = two_steps(gpu, s, first)?;
    let chosen = pmis::split(gpu, &far, seed)?;
    let stays = gpu.room::<u8>(s.rows)?;
    let arguments: [&dyn Argument; 5] =
        [&(s.rows as i64), &first.number.view(), &far.offsets.view(), &chosen.view(), &stays.view()];
    gpu.launch(gpu.kernel("aggressive_thin")?, s.rows, &arguments)?;
    Ok(stays)
}

/// As the function of this name on the host.
fn two_steps(gpu: &Gpu, s: &DeviceGraph, first: &Splitting) -> Result<DeviceGraph> {
    let product = {
        let left = ones(gpu, "aggressive_left", s, first, (first.count, s.rows))?;
        let right = ones(gpu, "aggressive_right", s, first, (s.rows, first.count))?;
        spgemm::multiply(gpu, &left, &right)?
    };
    let kernel = gpu.kernel("aggressive_strip")?;
    let rows = first.count as i64;
    let run = |offsets: View, columns: View, counts: View| {
        let (from_offsets, from_columns) = (product.offsets.view(), product.columns.view());
        gpu.launch(kernel, first.count, &[&rows, &from_offsets, &from_columns, &offsets, &columns, &counts])
    };
    let counts = gpu.room::<i32>(first.count)?;
    run(View::NONE, View::NONE, counts.view())?;
    let (offsets, total) = gpu.offsets(&counts)?;
    let columns = gpu.room::<i32>(total)?;
    run(offsets.view(), columns.view(), View::NONE)?;
    Ok(DeviceGraph { rows: first.count, offsets, columns })
}

/// A factor of the product, by a kernel that counts and then writes.
fn ones(
    gpu: &Gpu,
    name: &str,
    s: &DeviceGraph,
    first: &Splitting,
    (rows, cols): (usize, usize),
) -> Result<DeviceCsr<f32>> {
    let kernel = gpu.kernel(name)?;
    let n = s.rows as i64;
    let run = |offsets: View, columns: View, values: View, counts: View| {
        let graph = [s.offsets.view(), s.columns.view(), first.number.view()];
        let arguments: [&dyn Argument; 8] = [&n, &graph[0], &graph[1], &graph[2], &offsets, &columns, &values, &counts];
        gpu.launch(kernel, s.rows, &arguments)
    };
    let counts = gpu.room::<i32>(rows)?;
    run(View::NONE, View::NONE, View::NONE, counts.view())?;
    let (offsets, total) = gpu.offsets(&counts)?;
    let (columns, values) = (gpu.room::<i32>(total)?, gpu.room::<f32>(total)?);
    run(offsets.view(), columns.view(), values.view(), View::NONE)?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{awkward, in_turn, problems, splittings, upload};
    use super::*;
    use crate::host::{aggressive, strength};

    #[test]
    fn what_stays_is_as_on_the_host() {
        for (name, a) in problems().into_iter().chain(awkward()) {
            let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
            for first in splittings(&s) {
                let wanted = aggressive::thin(&s, &first, 3).unwrap();
                let flags: Vec<u8> = first.iter().map(|c| u8::from(*c)).collect();
                for gpu in in_turn() {
                    let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                    let stays = gpu.fetch(&thin(&gpu, &upload(&gpu, &s), &splitting, 3).unwrap()).unwrap();
                    assert_eq!(stays.iter().map(|s| *s == 1).collect::<Vec<_>>(), wanted, "{name}");
                }
            }
        }
    }
}
