//! Diffusion with a strong and a weak direction, along the grid or at an angle to it.

use super::family::Parameter;
use super::stencil;
use crate::error::{Result, fail};
use crate::sparse::Csr;

const EPSILON: Parameter =
    Parameter::real("epsilon", 1e-3, 1e-12, 1e12, "diffusion in the weak direction over that in the strong one");

pub(super) const PARAMETERS: &[Parameter] = &[EPSILON];

pub(super) const ROTATED_PARAMETERS: &[Parameter] =
    &[EPSILON, Parameter::real("angle", 45.0, -360.0, 360.0, "degrees from the x axis to the strong direction")];

/// Finite differences of -u_xx - epsilon u_yy on a grid of two sizes, or -u_xx - u_yy - epsilon u_zz on one of three,
/// times the mesh width squared, with Dirichlet values outside.
pub fn anisotropic(n: &[usize], epsilon: f64) -> Result<Csr<f64>> {
    let (n, axes) = match *n {
        [x, y] => ([x, y, 1], 2),
        [x, y, z] => ([x, y, z], 3),
        _ => return fail!(InvalidArgument, "the grid has {} sizes; accepted: 2 or 3", n.len()),
    };
    let diagonal = 2.0 * (axes - 1) as f64 + 2.0 * epsilon;
    stencil::matrix(n, &stencil::steps(axes, 1), |_, step| match step.iter().position(|&x| x != 0) {
        None => diagonal,
        Some(axis) if axis == axes - 1 => -epsilon,
        Some(_) => -1.0,
    })
}

/// Bilinear elements of -div(K grad u) on a grid of squares with Dirichlet values outside, K = q q^T + epsilon r r^T
/// with the unit vectors q at `angle` degrees from the x axis and r across it.
pub fn rotated_anisotropic(nx: usize, ny: usize, epsilon: f64, angle: f64) -> Result<Csr<f64>> {
    let (s, c) = angle.to_radians().sin_cos();
    let [xx, xy, yy] = [c * c + epsilon * s * s, (1.0 - epsilon) * c * s, s * s + epsilon * c * c];
    // Stiffness and mass of linear elements on a line.
    let k = |x: isize| if x == 0 { 2.0 } else { -1.0 };
    let m = |x: isize| if x == 0 { 4.0 / 6.0 } else { 1.0 / 6.0 };
    stencil::matrix([nx, ny, 1], &stencil::box_steps(2), |_, [x, y, _]| {
        xx * (k(x) * m(y)) + yy * (m(x) * k(y)) - 0.5 * xy * (x * y) as f64
    })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::testing::{is_m_matrix, row_sum, symmetric};
    use crate::gallery::{poisson5, poisson7};

    #[test]
    fn a_ratio_of_one_is_the_laplacian() {
        assert_eq!(anisotropic(&[5, 4], 1.0).unwrap(), poisson5(5, 4).unwrap());
        assert_eq!(anisotropic(&[5, 4, 3], 1.0).unwrap(), poisson7(5, 4, 3).unwrap());
        let q = rotated_anisotropic(3, 3, 1.0, 30.0).unwrap();
        for (j, v) in q.view().row(4) {
            let laplacian = if j == 4 { 8.0 / 3.0 } else { -1.0 / 3.0 };
            assert!((v[0] - laplacian).abs() < 1e-15);
        }
    }

    #[test]
    fn the_last_axis_is_weak() {
        let a = anisotropic(&[3, 3], 0.25).unwrap();
        assert_eq!(a.view().row(4).map(|(_, v)| v[0]).collect::<Vec<_>>(), [-0.25, -1.0, 2.5, -1.0, -0.25]);
        let a = anisotropic(&[3, 3, 3], 0.25).unwrap();
        assert_eq!(
            a.view().row(13).map(|(_, v)| v[0]).collect::<Vec<_>>(),
            [-0.25, -1.0, -1.0, 4.5, -1.0, -1.0, -0.25]
        );
        assert!(symmetric(&a) && is_m_matrix(&a));
        assert_eq!((row_sum(&a, 13), row_sum(&a, 4), row_sum(&a, 12)), (0.0, 0.25, 1.0));
        assert!(anisotropic(&[3], 1.0).is_err());
    }

    #[test]
    fn at_angles_along_the_axes_the_stencil_is_a_tensor_product() {
        let epsilon = 0.01;
        let along = rotated_anisotropic(3, 3, epsilon, 0.0).unwrap();
        let row: Vec<f64> = along.view().row(4).map(|(_, v)| v[0]).collect();
        for (step, v) in stencil::box_steps(2).iter().zip(row) {
            let expected = match step {
                [0, 0, 0] => (8.0 + 8.0 * epsilon) / 6.0,
                [_, 0, 0] => (-4.0 + 2.0 * epsilon) / 6.0,
                [0, _, 0] => (2.0 - 4.0 * epsilon) / 6.0,
                _ => (-1.0 - epsilon) / 6.0,
            };
            assert!((v - expected).abs() < 1e-15);
        }
    }

    #[test]
    fn the_strong_coupling_is_along_the_angle_and_rows_inside_sum_to_zero() {
        for angle in [45.0, -45.0, 30.0, 100.0] {
            let a = rotated_anisotropic(5, 4, 1e-3, angle).unwrap();
            assert_eq!(a.columns.len(), (3 * 5 - 2) * (3 * 4 - 2));
            assert!(symmetric(&a));
            assert!(row_sum(&a, 6).abs() < 1e-15);
        }
        let a = rotated_anisotropic(3, 3, 1e-3, 45.0).unwrap();
        let row: Vec<f64> = a.view().row(4).map(|(_, v)| v[0]).collect();
        assert!(row[0] < -0.4 && row[8] < -0.4 && row[2].abs() < 0.1 && row[6].abs() < 0.1, "{row:?}");
    }
}
