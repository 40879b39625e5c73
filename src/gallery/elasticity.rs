//! Linear elasticity of a cube of trilinear hexahedra or of tetrahedra, of one material or in layers.

use super::family::Parameter;
use super::stencil::{self, Step};
use crate::error::{Result, fail, try_capacity};
use crate::sparse::{Block, Csr};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::real("contrast", 1.0, 1e-12, 1e12, "Young's modulus of every second layer; 1 in the others"),
    Parameter::whole("layers", 4, 1, 1_000_000, "layers along z"),
    Parameter::whole("clamped", 1, 0, 1, "0 leaves the body free, which makes the matrix singular"),
];

/// Poisson's ratio.
const NU: f64 = 0.3;

/// A 3x3 block, row by row.
type Block3 = [f64; 9];

/// Stiffness of a unit cube with Young's modulus 1 in blocks `[a][b]` of its corners a = x + 2 y + 4 z.
type Cube = [[Block3; 8]; 8];

/// An elasticity problem with what its rigid-body modes are made from.
#[derive(Clone, Debug)]
pub struct Elasticity {
    /// Stiffness matrix in blocks of 3x3, one block row for each node.
    pub matrix: Csr<f64>,
    /// Coordinates of the nodes, x0 y0 z0 x1 y1 z1 ...
    pub coordinates: Vec<f64>,
}

/// Materials that alternate along z: Young's modulus is 1 in the first layer, `contrast` in the second, and so on.
#[derive(Clone, Copy, Debug)]
pub struct Layers {
    /// Layers, as equal in thickness as whole elements allow.
    pub count: usize,
    /// Young's modulus of every second layer.
    pub contrast: f64,
}

impl Layers {
    /// One material.
    pub const NONE: Layers = Layers { count: 1, contrast: 1.0 };

    /// Whether the k-th of n layers of elements has the modulus `contrast`.
    pub(super) fn differs(self, k: usize, n: usize) -> bool {
        (k as u128 * self.count as u128 / n as u128) % 2 == 1
    }
}

/// A cube of n^3 unit hexahedra with E = 1, unless `layers` say otherwise, and nu = 0.3, integrated with 2x2x2 Gauss
/// points, the face x = 0 `clamped` and eliminated. Free nodes are i = 1..=n, j, k = 0..=n, numbered (i - 1) + n (j +
/// (n + 1) k); without the clamp there are nodes i = 0 too, and the matrix maps the six rigid-body modes to zero. The
/// blocks of all up to 27 nodes that share an element are stored, whatever their values.
pub fn elasticity_hex8(n: usize, layers: Layers, clamped: bool) -> Result<Elasticity> {
    elasticity_hex8_box([n; 3], layers, clamped)
}

/// The same for a box of so many hexahedra along x, y and z: with nodes i = 1..=nx, j = 0..=ny and k = 0..=nz.
pub fn elasticity_hex8_box(elements: [usize; 3], layers: Layers, clamped: bool) -> Result<Elasticity> {
    elasticity(elements, layers, clamped, &stencil::box_steps(3), &hexahedron())
}

/// The cube of [`elasticity_hex8`] in 6 n^3 linear tetrahedra: each unit cube is cut along its diagonal from (0, 0, 0)
/// to (1, 1, 1), as Kuhn did. A node is coupled with up to 15.
pub fn elasticity_tet(n: usize, layers: Layers, clamped: bool) -> Result<Elasticity> {
    let one_way = |step: &Step| step.iter().all(|&x| x >= 0) || step.iter().all(|&x| x <= 0);
    let steps: Vec<Step> = stencil::box_steps(3).into_iter().filter(one_way).collect();
    elasticity([n; 3], layers, clamped, &steps, &kuhn_tetrahedra())
}

/// Assembles cubes, the corners of which are coupled at the given steps.
fn elasticity(elements: [usize; 3], layers: Layers, clamped: bool, steps: &[Step], cube: &Cube) -> Result<Elasticity> {
    // The first free node along x.
    let first = usize::from(clamped);
    let mut grid = [0; 3];
    for (axis, (nodes, n)) in grid.iter_mut().zip(elements).enumerate() {
        *nodes = match n.checked_add(1) {
            Some(all) if n > 0 => all - if axis == 0 { first } else { 0 },
            Some(_) => return fail!(InvalidArgument, "there are 0 elements along an edge; accepted: at least 1"),
            None => return fail!(InvalidArgument, "{n} elements along an edge are too many"),
        };
    }
    let high = elements[2];
    let nodes = stencil::points(grid, 3)?;
    let (offsets, columns) = stencil::pattern(grid, steps)?;
    let mut matrix = Csr::with_pattern(nodes, nodes, Block::square(3), offsets, columns)?;

    // The moduli below and above a node are one of two each.
    let modulus = |differs: bool| if differs { layers.contrast } else { 1.0 };
    let tables = [0, 1, 2, 3].map(|kind| assembled_blocks(cube, steps, [kind / 2 == 1, kind % 2 == 1].map(modulus)));
    stencil::fill(grid, steps, &matrix.offsets, 9, &mut matrix.values, |row, s, _, block| {
        let [i, j, k] = stencil::point_of(grid, row);
        let node = [i + first, j, k];
        let last = node.iter().zip(elements);
        let place = last.fold(0, |place, (&x, n)| 3 * place + usize::from(x > 0) + usize::from(x == n));
        let (below, above) = (k > 0 && layers.differs(k - 1, high), k < high && layers.differs(k, high));
        block.copy_from_slice(&tables[2 * usize::from(below) + usize::from(above)][place][s]);
    });

    let mut coordinates = try_capacity(3 * nodes)?;
    for node in 0..nodes {
        let [i, j, k] = stencil::point_of(grid, node);
        coordinates.extend([(i + first) as f64, j as f64, k as f64]);
    }
    Ok(Elasticity { matrix, coordinates })
}

/// Blocks of the assembled matrix: `blocks[9 px + 3 py + pz][s]` couples a node with its neighbour at step s, where p
/// is along each axis 0 on the lower face, 1 inside and 2 on the upper face. `moduli` are those of the elements below
/// and above the node.
fn assembled_blocks(cube: &Cube, steps: &[Step], moduli: [f64; 2]) -> Vec<Vec<Block3>> {
    let place = |p: usize| [p / 9, p / 3 % 3, p % 3];
    (0..27).map(|p| steps.iter().map(|&step| assembled_block(cube, place(p), step, moduli)).collect()).collect()
}

/// The sum over the elements that hold a node and its neighbour, in ascending order of the elements: both blocks of a
/// pair then add the same numbers in the same order, and the matrix is symmetric to the last bit.
fn assembled_block(cube: &Cube, place: [usize; 3], step: Step, moduli: [f64; 2]) -> Block3 {
    let mut sum = [0.0; 9];
    for e in 0..8_usize {
        // The node is corner 1 of the elements below it and corner 0 of those above it, along each axis.
        let corner = [1 - (e & 1), 1 - (e >> 1 & 1), 1 - (e >> 2 & 1)];
        let exists = (0..3).all(|axis| if corner[axis] == 1 { place[axis] > 0 } else { place[axis] < 2 });
        let other = [0, 1, 2].map(|axis| corner[axis] as isize + step[axis]);
        if exists && other.iter().all(|x| (0..2).contains(x)) {
            let number = |c: [usize; 3]| c[0] + 2 * c[1] + 4 * c[2];
            let block = &cube[number(corner)][number(other.map(|x| x as usize))];
            let modulus = moduli[e >> 2];
            for (s, v) in sum.iter_mut().zip(block) {
                *s += modulus * v;
            }
        }
    }
    sum
}

/// Adds what a point of integration contributes:
/// K_ab[p][q] = integral of lambda dp Na dq Nb + mu (dq Na dp Nb + delta_pq grad Na . grad Nb).
/// The shape functions are given as corner and gradient.
fn integrate(cube: &mut Cube, weight: f64, shapes: &[(usize, [f64; 3])]) {
    let lambda = NU / ((1.0 + NU) * (1.0 - 2.0 * NU));
    let mu = 1.0 / (2.0 * (1.0 + NU));
    for &(a, ga) in shapes {
        for &(b, gb) in shapes {
            let dot = ga[0] * gb[0] + ga[1] * gb[1] + ga[2] * gb[2];
            for (p, q) in (0..3).flat_map(|p| (0..3).map(move |q| (p, q))) {
                let trace = if p == q { dot } else { 0.0 };
                let density = lambda * (ga[p] * gb[q]) + mu * (ga[q] * gb[p] + trace);
                cube[a][b][3 * p + q] += weight * density;
            }
        }
    }
}

/// Stiffness of the trilinear hexahedron.
fn hexahedron() -> Cube {
    let abscissa = 0.5 / 3.0_f64.sqrt();
    let mut cube = [[[0.0; 9]; 8]; 8];
    for point in 0..8 {
        let x = [0, 1, 2].map(|axis| if point >> axis & 1 == 0 { 0.5 - abscissa } else { 0.5 + abscissa });
        let shapes: [_; 8] = std::array::from_fn(|corner| (corner, gradient(corner, x)));
        integrate(&mut cube, 0.125, &shapes);
    }
    cube
}

/// Stiffness of the six tetrahedra that a cube is cut into. One for each order of the axes: its corners are reached
/// from (0, 0, 0) by a unit step along one axis after the other, and its barycentric coordinates are 1 - x, x - y, y -
/// z and z in that order of axes.
fn kuhn_tetrahedra() -> Cube {
    let mut cube = [[[0.0; 9]; 8]; 8];
    for axes in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut corner = 0;
        let shapes: [_; 4] = std::array::from_fn(|vertex| {
            let mut gradient = [0.0; 3];
            if vertex > 0 {
                corner += 1 << axes[vertex - 1];
                gradient[axes[vertex - 1]] = 1.0;
            }
            if vertex < 3 {
                gradient[axes[vertex]] = -1.0;
            }
            (corner, gradient)
        });
        integrate(&mut cube, 1.0 / 6.0, &shapes);
    }
    cube
}

/// Gradient of the shape function of a corner at x in the unit cube.
fn gradient(corner: usize, x: [f64; 3]) -> [f64; 3] {
    let upper = [0, 1, 2].map(|axis| corner >> axis & 1 == 1);
    let factor = |axis: usize| if upper[axis] { x[axis] } else { 1.0 - x[axis] };
    let slope = |axis: usize| if upper[axis] { 1.0 } else { -1.0 };
    [slope(0) * (factor(1) * factor(2)), slope(1) * (factor(0) * factor(2)), slope(2) * (factor(0) * factor(1))]
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::gallery::testing::{absolute_sum, fingerprint};
    use crate::sparse::NearNullSpace;

    #[test]
    fn pattern_and_values_have_their_published_check_values() {
        let a = elasticity_hex8(8, Layers::NONE, true).unwrap().matrix.view().to_scalar().unwrap();
        assert_eq!(a.rows, 3 * 8 * 9 * 9);
        assert_eq!(fingerprint(&a), 0x9ecb_aac6_1209_836a);
        assert!((absolute_sum(&a) - 10454.7863247896).abs() < 1e-9, "{}", absolute_sum(&a));
    }

    const LAYERS: Layers = Layers { count: 3, contrast: 100.0 };

    #[test]
    fn matrices_are_symmetric_to_the_last_bit() {
        for a in [
            elasticity_hex8(3, Layers::NONE, true).unwrap().matrix,
            elasticity_hex8(4, LAYERS, true).unwrap().matrix,
            elasticity_tet(4, LAYERS, true).unwrap().matrix,
        ] {
            for i in 0..a.rows {
                for (j, block) in a.view().row(i) {
                    let (_, mirror) = a.view().row(j).find(|&(c, _)| c == i).unwrap();
                    for (p, q) in (0..3).flat_map(|p| (0..3).map(move |q| (p, q))) {
                        assert_eq!(block[3 * p + q].to_bits(), mirror[3 * q + p].to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn tetrahedra_couple_fifteen_nodes() {
        let n = 5;
        let a = elasticity_tet(n, Layers::NONE, true).unwrap().matrix;
        let (x, y) = (n, n + 1);
        let edges = (x - 1) * y * y + 2 * x * (y - 1) * y;
        let diagonals = 2 * (x - 1) * (y - 1) * y + x * (y - 1) * (y - 1);
        assert_eq!(a.columns.len(), x * y * y + 2 * (edges + diagonals + (x - 1) * (y - 1) * (y - 1)));
        assert_eq!((0..a.rows).map(|i| a.view().row(i).count()).max(), Some(15));
    }

    /// The product with a displacement, which is given for each node.
    fn force(elastic: &Elasticity, displacement: impl Fn(usize) -> [f64; 3]) -> Vec<[f64; 3]> {
        let a = &elastic.matrix;
        (0..a.rows)
            .map(|i| {
                let mut force = [0.0; 3];
                for (j, block) in a.view().row(i) {
                    let u = displacement(j);
                    for (p, f) in force.iter_mut().enumerate() {
                        *f += (0..3).map(|q| block[3 * p + q] * u[q]).sum::<f64>();
                    }
                }
                force
            })
            .collect()
    }

    #[test]
    fn rigid_body_modes_cost_no_energy_away_from_the_clamped_face() {
        for elastic in [
            elasticity_hex8(4, Layers::NONE, true).unwrap(),
            elasticity_tet(4, Layers::NONE, true).unwrap(),
            elasticity_hex8(4, LAYERS, true).unwrap(),
            elasticity_tet(4, LAYERS, true).unwrap(),
        ] {
            let coordinates = &elastic.coordinates;
            assert_eq!(coordinates[..6], [1.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
            let rows = 3 * elastic.matrix.rows;
            let modes = NearNullSpace::rigid_body_modes(rows, 3, coordinates).unwrap();
            for mode in modes.vectors.chunks_exact(rows) {
                let (mut clamped, mut free) = (0.0_f64, 0.0_f64);
                for (i, f) in force(&elastic, |j| [mode[3 * j], mode[3 * j + 1], mode[3 * j + 2]]).iter().enumerate() {
                    let largest = if coordinates[3 * i] > 1.0 { &mut free } else { &mut clamped };
                    *largest = f.iter().fold(*largest, |m, f| m.max(f.abs()));
                }
                assert!(free < 1e-13 * clamped.max(1.0) && clamped > 1e-2, "{free} {clamped}");
            }
        }
    }

    /// A box holds the elements of a cube: in a box that is cut by planes across z, a column of elements is that of the cube.
    #[test]
    fn a_box_has_the_blocks_of_the_cube_and_nodes_of_its_own() {
        let cube = elasticity_hex8(4, LAYERS, true).unwrap();
        let long = elasticity_hex8_box([5, 3, 4], LAYERS, true).unwrap();
        assert_eq!(long.matrix.rows, 5 * 4 * 5);
        // Node (2, 1, 1) is inside both; its row has the same blocks.
        let row = |elastic: &Elasticity, node: usize| -> Vec<f64> {
            elastic.matrix.view().row(node).flat_map(|(_, block)| block.to_vec()).collect()
        };
        assert_eq!(row(&cube, 1 + 4 * (1 + 5)), row(&long, 1 + 5 * (1 + 4)));
        assert_eq!(long.coordinates[3 * (1 + 5 * (1 + 4))..][..3], [2.0, 1.0, 1.0]);
        let again = elasticity_hex8_box([4; 3], LAYERS, true).unwrap();
        assert_eq!((again.matrix, again.coordinates), (cube.matrix, cube.coordinates));
    }

    #[test]
    fn a_free_body_has_the_nodes_of_both_faces_and_six_modes_without_energy() {
        for elastic in [elasticity_hex8(3, LAYERS, false).unwrap(), elasticity_tet(3, LAYERS, false).unwrap()] {
            assert_eq!((elastic.matrix.rows, &elastic.coordinates[..6]), (64, &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0][..]));
            let modes = NearNullSpace::rigid_body_modes(192, 3, &elastic.coordinates).unwrap();
            assert_eq!(modes.count, 6);
            for mode in modes.vectors.chunks_exact(192) {
                let forces = force(&elastic, |j| [mode[3 * j], mode[3 * j + 1], mode[3 * j + 2]]);
                assert!(forces.iter().flatten().all(|f| f.abs() < 1e-11));
            }
        }
    }

    #[test]
    fn stretching_and_shearing_cost_what_continuum_mechanics_says() {
        let (lambda, mu) = (0.3 / (1.3 * 0.4), 0.5 / 1.3);
        let n = 4;
        // The elements of a column along z have the moduli 1, 1, 100 and 1: 4 layers in 3 parts start at 0, 2 and 3.
        for (layers, mean) in [(Layers::NONE, 1.0), (LAYERS, 103.0 / 4.0)] {
            for elastic in [elasticity_hex8(n, layers, true).unwrap(), elasticity_tet(n, layers, true).unwrap()] {
                let x = |i: usize| elastic.coordinates[3 * i];
                for (axis, density) in [(0, lambda + 2.0 * mu), (1, mu), (2, mu)] {
                    let displacement = |i: usize| std::array::from_fn(|p| if p == axis { x(i) } else { 0.0 });
                    let forces = force(&elastic, displacement);
                    let energy: f64 = forces.iter().enumerate().map(|(i, f)| f[axis] * x(i)).sum();
                    let expected = density * mean * 64.0;
                    assert!((energy / expected - 1.0).abs() < 1e-13, "{axis} {energy} {expected}");
                }
            }
        }
    }

    #[test]
    fn sizes_that_cannot_be_numbered_are_refused() {
        for n in [0, 900, 1 << 32, usize::MAX] {
            assert_eq!(elasticity_hex8(n, LAYERS, true).unwrap_err().status, Status::InvalidArgument, "{n}");
        }
    }
}
