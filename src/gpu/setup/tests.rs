//! Every step of set-up against the host, whose bits it must have: on simulated GPUs, and on `cuda:0` where TERRACE_TEST_CUDA is set.

use super::*;
use crate::gallery;
use crate::gpu::tests::devices;
use crate::host::hash;
use crate::sparse::{Block, Csr};

/// Small problems of different kinds.
pub(super) fn problems() -> Vec<(String, Csr<f64>)> {
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

#[test]
fn matrices_come_back_as_they_were() {
    for gpu in devices() {
        for (name, a) in problems() {
            let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            assert_eq!((there.nnz(), there.entries()), (a.columns.len(), a.values.len()), "{name}");
            assert_eq!(there.fetch(&gpu).unwrap(), a, "{name}");
        }
    }
}
