//! Diffusion through boxes of another material.

use super::family::Parameter;
use super::stencil::{self, Step};
use crate::error::Result;
use crate::sparse::Csr;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::real("contrast", 1e6, 1e-12, 1e12, "coefficient of the inclusions"),
    Parameter::whole("inclusions", 4, 1, 1000, "inclusions along each axis"),
];

/// Cell-centred finite volumes of -div(k grad u) on cubes of width 1, u = 0 on the boundary. Each axis is cut into 2
/// `inclusions` + 1 equal parts, and k = `contrast` in the cells whose part is odd along every axis, otherwise 1. A
/// face between cells conducts the harmonic mean of its two sides, a face on the boundary 2 k for its half distance.
///
/// High contrasts bound what a solve can reach: an inclusion multiplies the rounding of the solution by its
/// coefficient. For 64 cells along each axis, a contrast of 1e6 and a right-hand side of ones, rounding the solution to
/// f64 alone leaves a relative residual of 8e-9; with a contrast of 1e-6 there is no such bound near 1e-8.
pub fn jumps(n: [usize; 3], contrast: f64, inclusions: usize) -> Result<Csr<f64>> {
    let parts = 2 * inclusions + 1;
    let coefficient = |at: [usize; 3]| {
        let inside = (0..3).all(|axis| at[axis] * parts / n[axis] % 2 == 1);
        if inside { contrast } else { 1.0 }
    };
    let conductance = |at: [usize; 3], step: Step| {
        let k = coefficient(at);
        stencil::neighbour(n, at, step).map_or(2.0 * k, |to| {
            let other = coefficient(to);
            2.0 * (k * other) / (k + other)
        })
    };
    let steps = stencil::steps(3, 1);
    stencil::matrix(n, &steps, |at, step| match step {
        [0, 0, 0] => steps.iter().filter(|&&s| s != [0; 3]).map(|&s| conductance(at, s)).sum(),
        _ => -conductance(at, step),
    })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::poisson7;
    use crate::gallery::testing::{is_m_matrix, row_sum, symmetric};

    #[test]
    fn without_contrast_only_the_boundary_differs_from_the_laplacian() {
        let n = 5;
        let (a, laplacian) = (jumps([n; 3], 1.0, 2).unwrap(), poisson7(n, n, n).unwrap());
        assert_eq!((&a.offsets, &a.columns), (&laplacian.offsets, &laplacian.columns));
        let corner: Vec<f64> = a.view().row(0).map(|(_, v)| v[0]).collect();
        assert_eq!(corner, [9.0, -1.0, -1.0, -1.0]);
        assert_eq!(row_sum(&a, n * n + n + 1), 0.0);
    }

    #[test]
    fn one_inclusion_in_the_middle_is_as_written_by_hand() {
        let a = jumps([3; 3], 1e6, 1).unwrap();
        let mean = 2e6 / (1e6 + 1.0);
        let row: Vec<f64> = a.view().row(13).map(|(_, v)| v[0]).collect();
        assert_eq!(row[0], -mean);
        assert!((row[3] - 6.0 * mean).abs() < 1e-14);
        // The cell below: four neighbours of its own kind, the inclusion, and the boundary at half the distance.
        let below: Vec<f64> = a.view().row(4).map(|(_, v)| v[0]).collect();
        assert_eq!((below.len(), below[0], below[5]), (6, -1.0, -mean));
        assert!((below[2] - (4.0 + mean + 2.0)).abs() < 1e-14);
    }

    #[test]
    fn the_matrix_is_a_symmetric_m_matrix_with_the_contrast_asked_for() {
        let a = jumps([18, 9, 11], 1e6, 4).unwrap();
        assert!(symmetric(&a) && is_m_matrix(&a));
        let inner = a.values.iter().filter(|&&v| v == -1e6).count();
        // The 4 x 4 x 4 inclusions are 2 x 1 x 1 cells: one pair in each, seen from both sides.
        assert_eq!(inner, 2 * 64);
        assert!(a.values.iter().filter(|v| **v < 0.0).all(|v| [-1.0, -1e6].contains(v) || (v + 2.0).abs() < 1e-5));
    }
}
