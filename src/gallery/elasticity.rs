//! Linear elasticity of a cube of trilinear hexahedra.

use super::stencil::{self, Step};
use crate::error::{Result, fail, try_capacity};
use crate::sparse::{Block, Csr};

/// Young's modulus and Poisson's ratio.
const E: f64 = 1.0;
const NU: f64 = 0.3;

/// A 3x3 block, row by row.
type Block3 = [f64; 9];

/// An elasticity problem with what its rigid-body modes are made from.
#[derive(Clone, Debug)]
pub struct Elasticity {
    /// Stiffness matrix in blocks of 3x3, one block row for each node.
    pub matrix: Csr<f64>,
    /// Coordinates of the nodes, x0 y0 z0 x1 y1 z1 ...
    pub coordinates: Vec<f64>,
}

/// A cube of n^3 unit hexahedra with E = 1 and nu = 0.3, integrated with 2x2x2 Gauss points, the face x = 0 clamped and
/// eliminated. Free nodes are i = 1..=n, j, k = 0..=n, numbered (i - 1) + n (j + (n + 1) k). The blocks of all up to 27 nodes
/// that share an element are stored, whatever their values.
pub fn elasticity_hex8(n: usize) -> Result<Elasticity> {
    let grid = match n.checked_add(1) {
        Some(nodes) => [n, nodes, nodes],
        None => return fail!(InvalidArgument, "{n} elements along each edge are too many"),
    };
    let nodes = stencil::points(grid, 3)?;
    let steps = stencil::box_steps(3);
    let (offsets, columns) = stencil::pattern(grid, &steps)?;
    let mut matrix = Csr::with_pattern(nodes, nodes, Block::square(3), offsets, columns)?;

    let blocks = assembled_blocks(&steps);
    stencil::fill(grid, &steps, &matrix.offsets, 9, &mut matrix.values, |row, s, _, block| {
        let [i, j, k] = stencil::point_of(grid, row);
        let node = [i + 1, j, k];
        let place = node.iter().fold(0, |place, &x| 3 * place + usize::from(x > 0) + usize::from(x == n));
        block.copy_from_slice(&blocks[place][s]);
    });

    let mut coordinates = try_capacity(3 * nodes)?;
    for node in 0..nodes {
        let [i, j, k] = stencil::point_of(grid, node);
        coordinates.extend([(i + 1) as f64, j as f64, k as f64]);
    }
    Ok(Elasticity { matrix, coordinates })
}

/// Blocks of the assembled matrix: `blocks[9 px + 3 py + pz][s]` couples a node with its neighbour at step s, where p is along
/// each axis 0 on the lower face, 1 inside and 2 on the upper face. All elements are the same, so nothing else matters.
fn assembled_blocks(steps: &[Step]) -> Vec<Vec<Block3>> {
    let element = element_stiffness();
    let place = |p: usize| [p / 9, p / 3 % 3, p % 3];
    (0..27).map(|p| steps.iter().map(|&step| assembled_block(&element, place(p), step)).collect()).collect()
}

/// The sum over the elements that hold a node and its neighbour, in ascending order of the elements: both blocks of a pair then
/// add the same numbers in the same order, and the matrix is symmetric to the last bit.
fn assembled_block(element: &[[Block3; 8]; 8], place: [usize; 3], step: Step) -> Block3 {
    let mut sum = [0.0; 9];
    for e in 0..8_usize {
        // The node is corner 1 of the elements below it and corner 0 of those above it, along each axis.
        let corner = [1 - (e & 1), 1 - (e >> 1 & 1), 1 - (e >> 2 & 1)];
        let exists = (0..3).all(|axis| if corner[axis] == 1 { place[axis] > 0 } else { place[axis] < 2 });
        let other = [0, 1, 2].map(|axis| corner[axis] as isize + step[axis]);
        if exists && other.iter().all(|x| (0..2).contains(x)) {
            let number = |c: [usize; 3]| c[0] + 2 * c[1] + 4 * c[2];
            let block = &element[number(corner)][number(other.map(|x| x as usize))];
            for (s, v) in sum.iter_mut().zip(block) {
                *s += v;
            }
        }
    }
    sum
}

/// Stiffness of the unit hexahedron in blocks `[a][b]` of its corners a = x + 2 y + 4 z:
/// K_ab[p][q] = integral of lambda dp Na dq Nb + mu (dq Na dp Nb + delta_pq grad Na . grad Nb).
fn element_stiffness() -> [[Block3; 8]; 8] {
    let lambda = E * NU / ((1.0 + NU) * (1.0 - 2.0 * NU));
    let mu = E / (2.0 * (1.0 + NU));
    let abscissa = 0.5 / 3.0_f64.sqrt();
    let weight = 0.125;
    let mut stiffness = [[[0.0; 9]; 8]; 8];
    for point in 0..8 {
        let x = [0, 1, 2].map(|axis| if point >> axis & 1 == 0 { 0.5 - abscissa } else { 0.5 + abscissa });
        let gradients: [[f64; 3]; 8] = std::array::from_fn(|corner| gradient(corner, x));
        for (a, ga) in gradients.iter().enumerate() {
            for (b, gb) in gradients.iter().enumerate() {
                let dot = ga[0] * gb[0] + ga[1] * gb[1] + ga[2] * gb[2];
                for p in 0..3 {
                    for q in 0..3 {
                        let trace = if p == q { dot } else { 0.0 };
                        let density = lambda * (ga[p] * gb[q]) + mu * (ga[q] * gb[p] + trace);
                        stiffness[a][b][3 * p + q] += weight * density;
                    }
                }
            }
        }
    }
    stiffness
}

/// Gradient of the shape function of a corner at x in the unit cube.
fn gradient(corner: usize, x: [f64; 3]) -> [f64; 3] {
    let upper = [0, 1, 2].map(|axis| corner >> axis & 1 == 1);
    let factor = |axis: usize| if upper[axis] { x[axis] } else { 1.0 - x[axis] };
    let slope = |axis: usize| if upper[axis] { 1.0 } else { -1.0 };
    [slope(0) * (factor(1) * factor(2)), slope(1) * (factor(0) * factor(2)), slope(2) * (factor(0) * factor(1))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amg::null_space::NearNullSpace;
    use crate::error::Status;
    use crate::gallery::testing::{absolute_sum, fingerprint};

    #[test]
    fn pattern_and_values_have_their_published_check_values() {
        let a = elasticity_hex8(8).unwrap().matrix.view().to_scalar().unwrap();
        assert_eq!(a.rows, 3 * 8 * 9 * 9);
        assert_eq!(fingerprint(&a), 0x9ecb_aac6_1209_836a);
        assert!((absolute_sum(&a) - 10454.7863247896).abs() < 1e-9, "{}", absolute_sum(&a));
    }

    #[test]
    fn the_matrix_is_symmetric_to_the_last_bit() {
        let a = elasticity_hex8(3).unwrap().matrix;
        for i in 0..a.rows {
            for (j, block) in a.view().row(i) {
                let (_, mirror) = a.view().row(j).find(|&(c, _)| c == i).unwrap();
                for (p, q) in (0..3).flat_map(|p| (0..3).map(move |q| (p, q))) {
                    assert_eq!(block[3 * p + q].to_bits(), mirror[3 * q + p].to_bits());
                }
            }
        }
    }

    #[test]
    fn rigid_body_modes_cost_no_energy_away_from_the_clamped_face() {
        let n = 4;
        let Elasticity { matrix, coordinates } = elasticity_hex8(n).unwrap();
        assert_eq!(coordinates[..6], [1.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
        let rows = 3 * matrix.rows;
        let modes = NearNullSpace::rigid_body_modes(rows, 3, &coordinates).unwrap();
        for mode in modes.vectors.chunks_exact(rows) {
            let (mut clamped, mut free) = (0.0_f64, 0.0_f64);
            for (i, x) in (0..matrix.rows).map(|i| (i, coordinates[3 * i])) {
                let mut force = [0.0; 3];
                for (j, block) in matrix.view().row(i) {
                    for (p, f) in force.iter_mut().enumerate() {
                        *f += (0..3).map(|q| block[3 * p + q] * mode[3 * j + q]).sum::<f64>();
                    }
                }
                let size = force.iter().fold(0.0_f64, |m, f| m.max(f.abs()));
                let largest = if x > 1.0 { &mut free } else { &mut clamped };
                *largest = largest.max(size);
            }
            assert!(free < 1e-13 && clamped > 1e-2, "{free} {clamped}");
        }
    }

    #[test]
    fn sizes_that_cannot_be_numbered_are_refused() {
        for n in [0, 900, 1 << 32, usize::MAX] {
            assert_eq!(elasticity_hex8(n).unwrap_err().status, Status::InvalidArgument, "{n}");
        }
    }
}
