//! Near-null-space vectors, for which A v is almost zero. Coarse levels must represent them exactly.

use crate::error::{Result, fail, try_capacity, try_extend, try_vec};
use std::ops::Range;

/// Vectors over all rows, with the number of consecutive rows that belong to one node.
#[derive(Debug, PartialEq)]
#[cfg_attr(feature = "unit-tests", derive(Clone))]
pub struct NearNullSpace {
    /// Rows of a node.
    pub dofs_per_node: usize,
    /// Number of vectors.
    pub count: usize,
    /// One vector after the other, each over all rows.
    pub vectors: Vec<f64>,
}

impl NearNullSpace {
    /// Vectors given by a caller.
    pub fn from_vectors(rows: usize, dofs_per_node: usize, count: usize, vectors: Vec<f64>) -> Result<NearNullSpace> {
        NearNullSpace::check(rows, 0, count, &vectors)?;
        match vectors.chunks_exact(rows.max(1)).position(|vector| vector.iter().all(|x| *x == 0.0)) {
            Some(v) => fail!(InvalidArgument, "near-null-space vector {v} is zero"),
            None => Ok(NearNullSpace { dofs_per_node, count, vectors }),
        }
    }

    /// Checks vectors for so many rows from `first` on.
    pub fn check(rows: usize, first: usize, count: usize, vectors: &[f64]) -> Result<()> {
        if !(1..=8).contains(&count) {
            return fail!(InvalidArgument, "the near-null space has {count} vectors; accepted: 1 to 8");
        }
        if vectors.len() != rows * count {
            let given = vectors.len();
            return fail!(
                SizeMismatch,
                "{given} numbers were given for {count} near-null-space vectors of {rows} rows"
            );
        }
        for (v, vector) in vectors.chunks_exact(rows.max(1)).enumerate() {
            if let Some(row) = vector.iter().position(|x| !x.is_finite()) {
                let (value, row) = (vector[row], first + row);
                return fail!(
                    InvalidArgument,
                    "near-null-space vector {v} holds {value} at row {row}; it must be finite"
                );
            }
        }
        Ok(())
    }

    /// The part of some rows.
    pub fn rows(&self, rows: Range<usize>) -> Result<NearNullSpace> {
        let all = self.vectors.len() / self.count;
        let mut vectors = try_capacity(self.count * rows.len())?;
        for vector in self.vectors.chunks_exact(all.max(1)) {
            vectors.extend_from_slice(&vector[rows.clone()]);
        }
        Ok(NearNullSpace { vectors, ..*self })
    }

    /// The constant in each component of a node: one vector for each of `dofs_per_node` rows.
    pub fn constants(rows: usize, dofs_per_node: usize) -> Result<NearNullSpace> {
        let mut vectors = try_vec(rows * dofs_per_node, 0.0)?;
        for row in 0..rows {
            vectors[(row % dofs_per_node) * rows + row] = 1.0;
        }
        Ok(NearNullSpace { dofs_per_node, count: dofs_per_node, vectors })
    }

    /// Rigid-body modes of displacements in 2 or 3 dimensions: translations, then rotations about the centre of the
    /// nodes (so that the vectors are nearly orthogonal wherever the origin lies).
    pub fn rigid_body_modes(rows: usize, dimension: usize, coordinates: &[f64]) -> Result<NearNullSpace> {
        NearNullSpace::check_coordinates(rows, 0, dimension, coordinates)?;
        let centre = NearNullSpace::add_to_centre([0.0; 3], rows / dimension, dimension, coordinates);
        NearNullSpace::rigid_body_modes_about(centre, dimension, coordinates)
    }

    /// Checks coordinates of so many rows from `first` on.
    pub fn check_coordinates(rows: usize, first: usize, dimension: usize, coordinates: &[f64]) -> Result<()> {
        if dimension != 2 && dimension != 3 {
            return fail!(InvalidArgument, "dimension is {dimension}; accepted: 2 or 3");
        }
        if coordinates.len() != rows {
            let given = coordinates.len();
            return fail!(SizeMismatch, "{given} coordinates were given; {rows} rows need one for each");
        }
        if let Some(at) = coordinates.iter().position(|x| !x.is_finite()) {
            let (node, value) = ((first + at) / dimension, coordinates[at]);
            return fail!(InvalidArgument, "node {node} has coordinate {value}; coordinates must be finite");
        }
        Ok(())
    }

    /// The centre of all `nodes`, as far as it was added up, with more of them.
    pub fn add_to_centre(mut centre: [f64; 3], nodes: usize, dimension: usize, coordinates: &[f64]) -> [f64; 3] {
        for node in coordinates.chunks_exact(dimension) {
            for (c, x) in centre.iter_mut().zip(node) {
                *c += x / nodes as f64;
            }
        }
        centre
    }

    /// Translations, and rotations about this point.
    pub fn rigid_body_modes_about(centre: [f64; 3], dimension: usize, coordinates: &[f64]) -> Result<NearNullSpace> {
        let rows = coordinates.len();
        let rotations: &[(usize, usize)] = if dimension == 2 { &[(0, 1)] } else { &[(0, 1), (1, 2), (2, 0)] };
        let mut space = NearNullSpace::constants(rows, dimension)?;
        space.count += rotations.len();
        try_extend(&mut space.vectors, std::iter::repeat_n(0.0, rows * rotations.len()))?;
        for (r, &(p, q)) in rotations.iter().enumerate() {
            let vector = &mut space.vectors[(dimension + r) * rows..][..rows];
            for (u, x) in vector.chunks_exact_mut(dimension).zip(coordinates.chunks_exact(dimension)) {
                u[p] = -(x[q] - centre[q]);
                u[q] = x[p] - centre[p];
            }
        }
        Ok(space)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn rigid_body_modes_have_no_strain() {
        for (dimension, modes) in [(2, 3), (3, 6)] {
            let nodes = [[0.0, 0.0, 5.0], [1.0, 0.5, 5.0], [0.2, 2.0, 7.0]];
            let coordinates: Vec<f64> = nodes.iter().flat_map(|n| n[..dimension].to_vec()).collect();
            let space = NearNullSpace::rigid_body_modes(3 * dimension, dimension, &coordinates).unwrap();
            assert_eq!(space.count, modes);
            for mode in space.vectors.chunks_exact(3 * dimension) {
                for (a, b) in [(0, 1), (1, 2), (0, 2)] {
                    // (u_a - u_b) . (x_a - x_b) vanishes when the distance between the nodes does not change.
                    let change: f64 = (0..dimension)
                        .map(|c| {
                            let (ia, ib) = (a * dimension + c, b * dimension + c);
                            (mode[ia] - mode[ib]) * (coordinates[ia] - coordinates[ib])
                        })
                        .sum();
                    assert!(change.abs() < 1e-14);
                }
            }
        }
    }

    #[test]
    fn bad_vectors_are_refused() {
        assert!(NearNullSpace::from_vectors(2, 1, 1, vec![1.0]).is_err());
        assert!(NearNullSpace::from_vectors(2, 1, 1, vec![0.0, 0.0]).is_err());
        assert!(NearNullSpace::from_vectors(2, 1, 0, vec![]).is_err());
        assert!(NearNullSpace::rigid_body_modes(4, 4, &[0.0; 4]).is_err());
        assert!(NearNullSpace::rigid_body_modes(4, 2, &[0.0; 3]).is_err());
    }
}
