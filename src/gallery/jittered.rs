//! Linear elasticity and diffusion in a box of tetrahedra whose nodes are moved at random: layers, flat elements and
//! nearly incompressible materials.

use super::elasticity::{Elasticity, Layers};
use super::family::Parameter;
use super::stencil::{self, Step};
use crate::error::{Result, fail, try_capacity};
use crate::hash::hash;
use crate::sparse::{Block, Csr};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::real("contrast", 1e3, 1e-12, 1e12, "Young's modulus of every second layer; 1 in the others"),
    Parameter::whole("layers", 4, 1, 1_000_000, "layers along z"),
    Parameter::real("nu", 0.3, 0.0, 0.4999, "Poisson's ratio"),
    Parameter::real("jitter", 0.2, 0.0, 0.2, "largest move of a node along each axis, in widths of an element"),
    Parameter::real("height", 1.0, 1e-4, 1e4, "height of an element along z; 1 is its width"),
];

pub(super) const DIFFUSION_PARAMETERS: &[Parameter] = &[
    Parameter::real("contrast", 1e3, 1e-12, 1e12, "coefficient of every second layer; 1 in the others"),
    PARAMETERS[1],
    PARAMETERS[3],
    PARAMETERS[4],
];

/// Material and shape of the elements of [`elasticity_jittered`].
#[derive(Clone, Copy, Debug)]
pub struct Jittered {
    /// Young's moduli along z.
    pub layers: Layers,
    /// Poisson's ratio.
    pub nu: f64,
    /// Largest move of a node along each axis, in widths of an element; with at most 0.2 no tetrahedron turns over.
    pub jitter: f64,
    /// Height of an element along z, in widths.
    pub height: f64,
}

/// Corners of the six tetrahedra that a cube is cut into, each reached from (0, 0, 0) along one axis after the other;
/// corner x + 2 y + 4 z.
const KUHN: [[usize; 4]; 6] = [[0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]];

/// A box of unit cubes, each cut into six linear tetrahedra as [`super::elasticity_tet`] does, with nodes that are moved
/// at random: those on a face of the box stay on it. The face x = 0 is clamped and eliminated; nodes are numbered as
/// there. The blocks of up to 15 nodes that share an edge are stored.
pub fn elasticity_jittered(elements: [usize; 3], shape: Jittered) -> Result<Elasticity> {
    let mesh = Mesh { elements, shape };
    let add = |weight: f64, ga, gb, block: &mut [f64]| add_stiffness(weight, shape.nu, ga, gb, block);
    let matrix = mesh.matrix(3, add)?;
    let grid = mesh.grid();
    let mut coordinates = try_capacity(3 * matrix.rows)?;
    for node in 0..matrix.rows {
        let [i, j, k] = stencil::point_of(grid, node);
        coordinates.extend(mesh.coordinates([i + 1, j, k]));
    }
    Ok(Elasticity { matrix, coordinates })
}

/// Diffusion in the mesh of [`elasticity_jittered`], with one unknown at each node; zero on the face x = 0. Poisson's ratio
/// is not used.
pub fn laplace_jittered(elements: [usize; 3], shape: Jittered) -> Result<Csr<f64>> {
    Mesh { elements, shape }.matrix(1, |weight: f64, ga: [f64; 3], gb: [f64; 3], block: &mut [f64]| {
        block[0] += weight * (ga[0] * gb[0] + ga[1] * gb[1] + ga[2] * gb[2]);
    })
}

struct Mesh {
    elements: [usize; 3],
    shape: Jittered,
}

impl Mesh {
    /// Nodes along each axis that are unknown.
    fn grid(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.elements[axis].saturating_add(usize::from(axis > 0)))
    }

    /// The matrix in blocks of so many rows. `add` adds the product of two shape functions over an element, given a weight
    /// and their gradients.
    fn matrix(&self, block: usize, add: impl Fn(f64, [f64; 3], [f64; 3], &mut [f64]) + Sync) -> Result<Csr<f64>> {
        let elements = self.elements;
        if elements.contains(&0) {
            let sizes = elements.map(|n| n.to_string()).join(" x ");
            return fail!(InvalidArgument, "there are {sizes} elements; accepted: at least 1 along each axis");
        }
        let grid = self.grid();
        let one_way = |step: &Step| step.iter().all(|&x| x >= 0) || step.iter().all(|&x| x <= 0);
        let steps: Vec<Step> = stencil::box_steps(3).into_iter().filter(one_way).collect();
        let nodes = stencil::points(grid, block)?;
        let (offsets, columns) = stencil::pattern(grid, &steps)?;
        let mut matrix = Csr::with_pattern(nodes, nodes, Block::square(block), offsets, columns)?;
        stencil::fill(grid, &steps, &matrix.offsets, block * block, &mut matrix.values, |row, s, _, to| {
            let [i, j, k] = stencil::point_of(grid, row);
            self.assemble([i + 1, j, k], steps[s], &add, to);
        });
        Ok(matrix)
    }

    /// Where a node is.
    fn coordinates(&self, node: [usize; 3]) -> [f64; 3] {
        let [x, y, z] = self.elements;
        let number = node[0] + (x + 1) * (node[1] + (y + 1) * node[2]);
        std::array::from_fn(|axis| {
            let random = (hash(3 * number + axis, 7) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            let inside = node[axis] > 0 && node[axis] < [x, y, z][axis];
            let at = node[axis] as f64 + if inside { self.shape.jitter * random } else { 0.0 };
            if axis == 2 { self.shape.height * at } else { at }
        })
    }

    /// Adds up the block that couples a node with the one at a step from it. Both blocks of a pair add the same numbers
    /// in the same order, so that the matrix is symmetric to the last bit.
    fn assemble(
        &self,
        node: [usize; 3],
        step: Step,
        add: &impl Fn(f64, [f64; 3], [f64; 3], &mut [f64]),
        block: &mut [f64],
    ) {
        let layers = self.shape.layers;
        for e in 0..8_usize {
            // The node is the upper corner of the first cubes, along each axis.
            let local = [1 - (e & 1), 1 - (e >> 1 & 1), 1 - (e >> 2 & 1)];
            let other = [0, 1, 2].map(|axis| local[axis] as isize + step[axis]);
            let exists = (0..3).all(|axis| {
                node[axis] >= local[axis]
                    && node[axis] - local[axis] < self.elements[axis]
                    && (0..2).contains(&other[axis])
            });
            if !exists {
                continue;
            }
            let first = [0, 1, 2].map(|axis| node[axis] - local[axis]);
            let modulus = if layers.differs(first[2], self.elements[2]) { layers.contrast } else { 1.0 };
            let number = |c: [usize; 3]| c[0] + 2 * c[1] + 4 * c[2];
            let (a, b) = (number(local), number(other.map(|x| x as usize)));
            for corners in KUHN {
                let place = |corner: usize| corners.iter().position(|c| *c == corner);
                if let (Some(a), Some(b)) = (place(a), place(b)) {
                    let (volume, gradients) = self.gradients(first, corners);
                    add(modulus * volume, gradients[a], gradients[b], block);
                }
            }
        }
    }

    /// Volume of a tetrahedron, and the gradients of its barycentric coordinates.
    fn gradients(&self, first: [usize; 3], corners: [usize; 4]) -> (f64, [[f64; 3]; 4]) {
        let x = corners.map(|c| self.coordinates([first[0] + (c & 1), first[1] + (c >> 1 & 1), first[2] + (c >> 2)]));
        let edge = |v: usize| [0, 1, 2].map(|axis| x[v][axis] - x[0][axis]);
        let cross = |a: [f64; 3], b: [f64; 3]| {
            [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
        };
        let normals = [cross(edge(2), edge(3)), cross(edge(3), edge(1)), cross(edge(1), edge(2))];
        let six_volumes = (0..3).map(|axis| edge(1)[axis] * normals[0][axis]).sum::<f64>();
        let of = normals.map(|normal| normal.map(|v| v / six_volumes));
        let sum = [0, 1, 2].map(|axis| -(of[0][axis] + of[1][axis] + of[2][axis]));
        (six_volumes.abs() / 6.0, [sum, of[0], of[1], of[2]])
    }
}

/// Adds lambda dp Na dq Nb + mu (dq Na dp Nb + delta_pq grad Na . grad Nb) times a weight.
fn add_stiffness(weight: f64, nu: f64, ga: [f64; 3], gb: [f64; 3], block: &mut [f64]) {
    let lambda = nu / ((1.0 + nu) * (1.0 - 2.0 * nu));
    let mu = 1.0 / (2.0 * (1.0 + nu));
    let dot = ga[0] * gb[0] + ga[1] * gb[1] + ga[2] * gb[2];
    for (p, q) in (0..3).flat_map(|p| (0..3).map(move |q| (p, q))) {
        let trace = if p == q { dot } else { 0.0 };
        block[3 * p + q] += weight * (lambda * (ga[p] * gb[q]) + mu * (ga[q] * gb[p] + trace));
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::elasticity_tet;

    const PLAIN: Jittered = Jittered { layers: Layers::NONE, nu: 0.3, jitter: 0.0, height: 1.0 };
    const HARD: Jittered =
        Jittered { layers: Layers { count: 3, contrast: 100.0 }, nu: 0.45, jitter: 0.2, height: 0.1 };

    #[test]
    fn unmoved_nodes_give_the_matrix_of_the_regular_mesh() {
        let (found, expected) =
            (elasticity_jittered([4; 3], PLAIN).unwrap(), elasticity_tet(4, Layers::NONE, true).unwrap());
        assert_eq!(found.coordinates, expected.coordinates);
        assert_eq!(
            (&found.matrix.offsets, &found.matrix.columns),
            (&expected.matrix.offsets, &expected.matrix.columns)
        );
        assert!(found.matrix.values.iter().zip(&expected.matrix.values).all(|(a, b)| (a - b).abs() < 1e-14));
    }

    #[test]
    fn matrices_are_symmetric_to_the_last_bit() {
        let a = elasticity_jittered([4, 3, 5], HARD).unwrap().matrix;
        assert_eq!(a.rows, 4 * 4 * 6);
        for i in 0..a.rows {
            for (j, block) in a.view().row(i) {
                let (_, mirror) = a.view().row(j).find(|&(c, _)| c == i).unwrap();
                assert!((0..9).all(|e| block[e].to_bits() == mirror[3 * (e % 3) + e / 3].to_bits()), "{i} {j}");
            }
        }
    }

    /// A linear displacement has the same strain in every element, wherever the nodes are.
    #[test]
    fn stretching_costs_what_continuum_mechanics_says() {
        let elastic = elasticity_jittered([4, 3, 5], Jittered { layers: Layers::NONE, ..HARD }).unwrap();
        let (a, x) = (&elastic.matrix, |i: usize| elastic.coordinates[3 * i]);
        let energy_of = |i: usize| a.view().row(i).map(|(j, block)| block[0] * x(i) * x(j)).sum::<f64>();
        let energy: f64 = (0..a.rows).map(energy_of).sum();
        let (lambda, mu) = (0.45 / (1.45 * 0.1), 0.5 / 1.45);
        let expected = (lambda + 2.0 * mu) * 4.0 * 3.0 * (0.1 * 5.0);
        assert!((energy / expected - 1.0).abs() < 1e-12, "{energy} {expected}");
    }

    /// Diffusion: rows away from the boundary sum to zero, and x has the gradient one everywhere.
    #[test]
    fn diffusion_is_that_of_linear_functions() {
        let shape = Jittered { layers: Layers::NONE, ..HARD };
        let (a, mesh) = (laplace_jittered([4, 3, 5], shape).unwrap(), Mesh { elements: [4, 3, 5], shape });
        let x = |i: usize| {
            let [i, j, k] = stencil::point_of(mesh.grid(), i);
            mesh.coordinates([i + 1, j, k])[0]
        };
        let product = |i: usize| a.view().row(i).map(|(j, v)| v[0] * x(j)).sum::<f64>();
        let energy: f64 = (0..a.rows).map(|i| x(i) * product(i)).sum();
        assert!((energy / (4.0 * 3.0 * 0.5) - 1.0).abs() < 1e-12, "{energy}");
        assert!(laplace_jittered([0, 3, 3], HARD).is_err());
    }

    #[test]
    fn no_tetrahedron_turns_over() {
        let mesh = Mesh { elements: [6; 3], shape: HARD };
        let volumes = (0..216).flat_map(|c| KUHN.map(|k| mesh.gradients([c % 6, c / 6 % 6, c / 36], k).0));
        let (mut least, mut all) = (f64::INFINITY, 0.0);
        volumes.for_each(|v| (least, all) = (f64::min(least, v), all + v));
        // Turned ones would be counted twice.
        assert!((all / 21.6 - 1.0).abs() < 1e-13 && least > 1e-4, "{all} {least}");
        assert!(elasticity_jittered([3, 0, 3], HARD).is_err());
    }
}
