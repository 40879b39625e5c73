//! Transport by a wind that goes in a circle.

use super::family::Parameter;
use super::stencil::{self, Step};
use crate::error::Result;
use crate::sparse::Csr;

pub(super) const PARAMETERS: &[Parameter] =
    &[Parameter::real("epsilon", 0.01, 1e-12, 1e12, "diffusion; the wind's largest speed is 2")];

/// Cell-centred finite volumes of -epsilon (u_xx + u_yy) + w . grad u on the square from -1 to 1, u = 0 on the
/// boundary, with first-order upwinding. The wind w = (psi_y, -psi_x) has the stream function psi = (1 - x^2)(1 - y^2):
/// one vortex that no boundary crosses. Fluxes are differences of psi, so that the discrete wind has no divergence
/// either: inside, rows and columns sum to zero.
pub fn convection_diffusion(nx: usize, ny: usize, epsilon: f64) -> Result<Csr<f64>> {
    let n = [nx, ny, 1];
    let corner = |i: usize, n: usize| 2.0 * i as f64 / n as f64 - 1.0;
    let psi = |i: usize, j: usize| {
        let (x, y) = (corner(i, nx), corner(j, ny));
        (1.0 - x * x) * (1.0 - y * y)
    };
    // What flows out of a cell through the face at a step.
    let outflow = |[i, j, _]: [usize; 3], step: Step| match step {
        [1, ..] => psi(i + 1, j + 1) - psi(i + 1, j),
        [-1, ..] => psi(i, j) - psi(i, j + 1),
        [_, 1, _] => psi(i, j + 1) - psi(i + 1, j + 1),
        _ => psi(i + 1, j) - psi(i, j),
    };
    let diffusion = |step: Step| epsilon * if step[0] != 0 { nx as f64 / ny as f64 } else { ny as f64 / nx as f64 };
    let steps = stencil::steps(2, 1);
    let leaving = |at: [usize; 3], step: Step| match stencil::neighbour(n, at, step) {
        Some(_) => diffusion(step) + outflow(at, step).max(0.0),
        None => 2.0 * diffusion(step),
    };
    stencil::matrix(n, &steps, |at, step| match step {
        [0, 0, 0] => steps.iter().filter(|&&s| s != [0; 3]).map(|&s| leaving(at, s)).sum(),
        _ => -diffusion(step) + outflow(at, step).min(0.0),
    })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::testing::{column_sums, is_m_matrix, row_sum, symmetric};

    #[test]
    fn a_small_grid_is_as_computed_by_hand() {
        // Two by two cells: psi is 1 in the centre and 0 on the boundary, so 1 flows from each cell to the next in the
        // circle 0 -> 1 -> 3 -> 2 -> 0, and every face has epsilon hx / hy = 0.5.
        let a = convection_diffusion(2, 2, 0.5).unwrap();
        assert_eq!(a.columns, [0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3]);
        let diagonal = 2.0 * 0.5 + 2.0 * (2.0 * 0.5) + 1.0;
        let (weak, strong) = (-0.5, -1.5);
        assert_eq!(
            a.values,
            [diagonal, weak, strong, strong, diagonal, weak, weak, diagonal, strong, strong, weak, diagonal]
        );
    }

    #[test]
    fn the_matrix_is_a_nonsymmetric_m_matrix_whose_wind_has_no_divergence() {
        let (nx, ny) = (12, 9);
        for epsilon in [1.0, 1e-2, 1e-8] {
            let a = convection_diffusion(nx, ny, epsilon).unwrap();
            assert!(is_m_matrix(&a) && !symmetric(&a));
            let columns = column_sums(&a);
            for (i, j) in (1..nx - 1).flat_map(|i| (1..ny - 1).map(move |j| (i, j))) {
                let row = i + nx * j;
                assert!(row_sum(&a, row).abs() < 1e-13 && columns[row].abs() < 1e-13, "{i} {j}");
            }
        }
    }

    #[test]
    fn without_wind_it_is_diffusion() {
        let a = convection_diffusion(4, 4, 1e12).unwrap();
        for (_, v) in a.view().row(5).filter(|&(j, _)| j != 5) {
            assert!((v[0] / 1e12 + 1.0).abs() < 1e-11);
        }
    }
}
