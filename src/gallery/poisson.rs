//! Laplacians on regular grids with homogeneous Dirichlet values outside: diagonal = number of neighbours of an
//! interior point, off-diagonals -1. Row of the point (i, j, k): i + nx (j + ny k).

use super::stencil;
use crate::error::Result;
use crate::sparse::Csr;

/// 5-point Laplacian: diagonal 4.
pub fn poisson5(nx: usize, ny: usize) -> Result<Csr<f64>> {
    laplacian([nx, ny, 1], 2, 1)
}

/// 9-point Laplacian: diagonal 8.
pub fn poisson9(nx: usize, ny: usize) -> Result<Csr<f64>> {
    laplacian([nx, ny, 1], 2, 2)
}

/// 7-point Laplacian: diagonal 6.
pub fn poisson7(nx: usize, ny: usize, nz: usize) -> Result<Csr<f64>> {
    laplacian([nx, ny, nz], 3, 1)
}

/// 27-point Laplacian: diagonal 26.
pub fn poisson27(nx: usize, ny: usize, nz: usize) -> Result<Csr<f64>> {
    laplacian([nx, ny, nz], 3, 3)
}

/// Couples neighbours of a box that differ in at most `most` coordinates.
fn laplacian(n: [usize; 3], axes: usize, most: usize) -> Result<Csr<f64>> {
    let steps = stencil::steps(axes, most);
    let neighbours = (steps.len() - 1) as f64;
    stencil::matrix(n, &steps, |_, step| if step == [0; 3] { neighbours } else { -1.0 })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::testing::{absolute_sum, fingerprint};

    #[test]
    fn a_small_grid_is_as_written_by_hand() {
        let a = poisson5(3, 2).unwrap();
        assert_eq!(a.offsets, [0, 3, 7, 10, 13, 17, 20]);
        assert_eq!(a.columns, [0, 1, 3, 0, 1, 2, 4, 1, 2, 5, 0, 3, 4, 1, 3, 4, 5, 2, 4, 5]);
        assert_eq!(a.values[..7], [4.0, -1.0, -1.0, -1.0, 4.0, -1.0, -1.0]);

        let b = poisson9(2, 2).unwrap();
        assert_eq!(b.columns, [0, 1, 2, 3].repeat(4));
        assert_eq!(b.values[..4], [8.0, -1.0, -1.0, -1.0]);
    }

    #[test]
    fn patterns_and_values_have_their_published_check_values() {
        let p7 = poisson7(8, 8, 8).unwrap();
        assert_eq!(fingerprint(&p7), 0x8a4a_085c_be60_6dd4);
        assert_eq!(absolute_sum(&p7), 5760.0);

        let p27 = poisson27(8, 8, 8).unwrap();
        assert_eq!(fingerprint(&p27), 0x1d77_7d1a_593c_0fd4);
        assert_eq!(absolute_sum(&p27), 23448.0);
    }

    #[test]
    fn the_number_of_entries_follows_the_formulas() {
        for n in [1, 2, 3, 10] {
            assert_eq!(poisson5(n, n).unwrap().columns.len(), 5 * n * n - 4 * n);
            assert_eq!(poisson9(n, n).unwrap().columns.len(), (3 * n - 2).pow(2));
            assert_eq!(poisson7(n, n, n).unwrap().columns.len(), 7 * n.pow(3) - 6 * n.pow(2));
            assert_eq!(poisson27(n, n, n).unwrap().columns.len(), (3 * n - 2).pow(3));
        }
        let (nx, ny, nz) = (4, 3, 2);
        let a = poisson7(nx, ny, nz).unwrap();
        let couplings = (nx - 1) * ny * nz + nx * (ny - 1) * nz + nx * ny * (nz - 1);
        assert_eq!(a.columns.len(), nx * ny * nz + 2 * couplings);
    }
}
