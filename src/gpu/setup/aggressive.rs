//! Aggressive coarsening on a GPU: the graph of paths of two strong couplings between coarse unknowns is a product of
//! matrices of ones.

use super::coarse_numbering::Splitting;
use super::two_pass::count_and_write;
use super::{DeviceGraph, pmis, spgemm};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu};

/// As [`crate::host::aggressive::thin`]: 1 for the unknowns that stay coarse.
pub(crate) fn thin(gpu: &Gpu, s: &DeviceGraph, first: &Splitting, seed: u64) -> Result<Buffer<u8>> {
    let far = two_steps(gpu, s, first)?;
    let chosen = pmis::split(gpu, &far, seed)?;
    let stays = gpu.allocate::<u8>(s.rows)?;
    let arguments: [&dyn Argument; 5] =
        [&(s.rows as i64), &first.number.view(), &far.offsets.view(), &chosen.view(), &stays.view()];
    gpu.launch(gpu.kernel("aggressive_thin")?, s.rows, &arguments)?;
    Ok(stays)
}

/// As the function of this name on the host. The capacity exceeds the number of columns.
fn two_steps(gpu: &Gpu, s: &DeviceGraph, first: &Splitting) -> Result<DeviceGraph> {
    let product = {
        let run = |name: &str, [offsets, columns, values, counts]: [View; 4]| {
            let graph = [s.offsets.view(), s.columns.view(), first.number.view()];
            let n = s.rows as i64;
            let arguments: [&dyn Argument; 8] =
                [&n, &graph[0], &graph[1], &graph[2], &offsets, &columns, &values, &counts];
            gpu.launch(gpu.kernel(name)?, s.rows, &arguments)
        };
        let (left, right) =
            (|to: [View<'_>; 4]| run("aggressive_left", to), |to: [View<'_>; 4]| run("aggressive_right", to));
        let [left, right] =
            count_and_write::<f32, 2>(gpu, [((first.count, s.rows), &left), ((s.rows, first.count), &right)])?;
        spgemm::multiply(gpu, &left, &right)?
    };
    let kernel = gpu.kernel("aggressive_strip")?;
    let rows = first.count as i64;
    let run = |offsets: View, columns: View, counts: View| {
        let (from_offsets, from_columns) = (product.offsets.view(), product.columns.view());
        gpu.launch(kernel, first.count, &[&rows, &from_offsets, &from_columns, &offsets, &columns, &counts])
    };
    let counts = gpu.allocate::<i32>(first.count)?;
    run(View::NONE, View::NONE, counts.view())?;
    // The capacity is an upper bound, so that nothing is waited for.
    let (offsets, columns) = (gpu.offsets_alone(&counts)?, gpu.allocate::<i32>(product.nnz())?);
    run(offsets.view(), columns.view(), View::NONE)?;
    Ok(DeviceGraph { rows: first.count, offsets, columns })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, irregular, problems, splittings, upload};
    use super::*;
    use crate::host::{aggressive, strength};

    #[test]
    fn what_stays_is_as_on_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
            for first in splittings(&s) {
                let wanted = aggressive::thin(&s, &first, 3).unwrap();
                let flags: Vec<u8> = first.iter().map(|c| u8::from(*c)).collect();
                for gpu in devices() {
                    let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                    let stays = gpu.fetch(&thin(&gpu, &upload(&gpu, &s), &splitting, 3).unwrap()).unwrap();
                    assert_eq!(stays.iter().map(|s| *s == 1).collect::<Vec<_>>(), wanted, "{name}");
                }
            }
        }
    }
}
