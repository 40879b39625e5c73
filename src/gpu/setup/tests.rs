//! Every step of set-up against the host, whose bits it must have: on simulated GPUs, and on `cuda:0` where TERRACE_TEST_CUDA is set.

use super::*;
use crate::gallery;
use crate::gpu::tests::devices;
use crate::sparse::Csr;

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
