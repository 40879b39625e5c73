//! Every step of set-up against the host, whose bits it must have: on simulated GPUs, and on `cuda:0` where
//! TERRACE_TEST_CUDA is set.

use super::*;
use crate::gallery;
use crate::gpu::Gpu;
pub(super) use crate::gpu::tests::devices;
use crate::hash::hash;
use crate::host::pmis::split as pmis_on_host;
use crate::sparse::{Block, Csr, Graph};

/// Small problems of different kinds.
pub(in crate::gpu) fn problems() -> Vec<(String, Csr<f64>)> {
    let names = [
        "poisson7:6",
        "poisson27:5",
        "rotated_anisotropic:12",
        "jumps:6",
        "convection_diffusion:6",
        "random_m_matrix:300",
    ];
    let problem = |name: &str| {
        let matrix = gallery::parse(name).unwrap().into_matrix().unwrap();
        let a = matrix.shared::<f64>().unwrap();
        let (offsets, columns) = a.structure.own_arrays();
        let (offsets, columns, values) = (offsets.to_vec(), columns.to_vec(), a.values.as_slice().to_vec());
        let view = a.view();
        (name.to_string(), Csr { rows: view.rows, cols: view.cols, block: view.block, offsets, columns, values })
    };
    names.into_iter().map(problem).collect()
}

/// A matrix whose rows have up to `longest` blocks, some of them none, in no order.
pub(super) fn random(rows: usize, cols: usize, longest: usize, block: Block, seed: u64) -> Csr<f64> {
    let (mut offsets, mut columns) = (vec![0], Vec::new());
    for i in 0..rows {
        let start = columns.len();
        for k in 0..hash(i, seed) as usize % (longest + 1) {
            let column = (hash(i * 4096 + k, seed) % cols as u64) as i32;
            if !columns[start..].contains(&column) {
                columns.push(column);
            }
        }
        offsets.push(columns.len() as i64);
    }
    let mut a = Csr::with_pattern(rows, cols, block, offsets, columns).unwrap();
    for (k, v) in a.values.iter_mut().enumerate() {
        *v = (hash(k, seed + 1) % 1000) as f64 / 7.0 - 70.0;
    }
    a
}

/// A matrix of scalars as [`random`] gives it, columns ascending in each row.
pub(super) fn ascending(rows: usize, cols: usize, longest: usize, seed: u64) -> Csr<f64> {
    let a = random(rows, cols, longest, Block::SCALAR, seed);
    let view = a.view();
    let row = |i: usize| view.row(i).map(move |(j, v)| (i, j, v[0]));
    Csr::from_triplets(rows, cols, &(0..rows).flat_map(row).collect::<Vec<_>>()).unwrap()
}

/// Matrices of irregular sizes and shapes: empty, with empty rows, with a dense row and column, with rows in no order.
pub(super) fn irregular() -> Vec<(String, Csr<f64>)> {
    let sizes = [0, 1, 32, 33, 257, 600];
    sizes.into_iter().map(|n| (format!("{n} rows at random"), scattered(n, n as u64))).collect()
}

fn scattered(n: usize, seed: u64) -> Csr<f64> {
    let mut a = Csr { rows: n, cols: n, block: Block::SCALAR, offsets: vec![0], columns: vec![], values: vec![] };
    for i in 0..n {
        let draw = |k: usize| hash(i * 64 + k, seed);
        let length = if i == n / 2 { n } else { draw(0) as usize % 9 };
        let mut columns: Vec<usize> =
            if i == n / 2 { (0..n).collect() } else { (0..length).map(|k| draw(k + 1) as usize % n).collect() };
        // Most rows have a diagonal, and some a coupling to the row that has all.
        columns.extend((length != 1).then_some(i));
        columns.extend((length % 3 == 0 && length > 0).then_some(n / 2));
        columns.sort_unstable();
        columns.dedup();
        if length == 5 {
            columns.reverse();
        }
        if length == 0 {
            columns.clear();
        }
        for j in columns {
            // Few different numbers, so that many are equal, and both signs.
            let size = 1.0 + (hash(i * n + j, seed + 1) % 5) as f64 / 3.0;
            let negative = !hash(i * n + j, seed + 2).is_multiple_of(8);
            let value = if i == j { 6.0 * size } else { size };
            a.columns.push(j as i32);
            a.values.push(if negative != (i == j) { -value } else { value });
        }
        a.offsets.push(a.columns.len() as i64);
    }
    a
}

/// In f32.
pub(super) fn narrow(a: &Csr<f64>) -> Csr<f32> {
    let (offsets, columns) = (a.offsets.clone(), a.columns.clone());
    let values = a.values.iter().map(|v| *v as f32).collect();
    Csr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values }
}

/// Splittings of a graph: PMIS's, and one at random, in which coarse unknowns may be neighbours and fine ones have
/// none.
pub(super) fn splittings(s: &Graph) -> [Vec<bool>; 2] {
    let at_random = (0..s.rows()).map(|i| hash(i, 7).is_multiple_of(3)).collect();
    [pmis_on_host(s, &s.transpose().unwrap(), 1).unwrap(), at_random]
}

/// A graph, copied to the device.
pub(super) fn upload(gpu: &Gpu, s: &Graph) -> DeviceGraph {
    let (offsets, columns) = (gpu.upload(&s.offsets).unwrap(), gpu.upload(&s.columns).unwrap());
    DeviceGraph { rows: s.rows(), offsets, columns }
}

/// A graph, copied from the device.
pub(super) fn download(gpu: &Gpu, s: &DeviceGraph) -> Graph {
    Graph { offsets: gpu.fetch(&s.offsets).unwrap(), columns: gpu.fetch(&s.columns).unwrap() }
}

#[test]
fn matrices_come_back_as_they_were() {
    for gpu in devices() {
        for (name, a) in problems() {
            let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            assert_eq!((on_device.nnz(), on_device.entries()), (a.columns.len(), a.values.len()), "{name}");
            assert_eq!(on_device.fetch(&gpu).unwrap(), a, "{name}");
        }
    }
}
