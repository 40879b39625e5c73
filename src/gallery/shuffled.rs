//! Problems in random order, as meshes of generators that do not care come in.

use super::Problem;
use crate::backend::reorder::NodeShape;
use crate::error::{Result, try_collect, try_vec};
use crate::host::reorder::Permutation;
use crate::sparse::Csr;

/// What a description of a problem in random order begins with.
pub(super) const PREFIX: &str = "shuffled:";

/// The same problem with its nodes numbered at random, the same in every run.
pub fn shuffled(problem: Problem) -> Result<Problem> {
    let key =
        |i: u64| (i ^ (i >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let Problem { matrix: a, coordinates, name, dimension, .. } = problem;
    let mut order = try_collect(0..a.rows as i32)?;
    order.sort_by_key(|i| key(*i as u64));
    let shape = NodeShape { unit: 1, width: a.block.rows, values: a.block.len() };
    let order = Permutation::new(order, shape)?;
    let (offsets, columns) = order.pattern(&a.view())?;
    let values = order.values(&a.view(), &offsets, &columns)?;
    let coordinates = match coordinates {
        Some(old) => {
            let mut new = try_vec(old.len(), 0.0)?;
            order.apply(&old, &mut new);
            Some(new)
        }
        None => None,
    };
    let matrix = Csr { offsets, columns, values, ..a };
    Ok(Problem { name: format!("{PREFIX}{name}"), matrix, coordinates, dimension, grid: None, is_stencil: false })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use crate::gallery::parse;

    #[test]
    fn nodes_and_their_coordinates_move_together() {
        let (natural, random) = (parse("elasticity:3").unwrap(), parse("shuffled:elasticity:3").unwrap());
        assert_eq!(random.name, "shuffled:elasticity:3");
        assert!(random.matrix != natural.matrix && random.grid.is_none());
        let (a, b) = (natural.into_matrix().unwrap(), random.into_matrix().unwrap());
        let sum = |matrix: &crate::matrix::Matrix| {
            let a = matrix.shared::<f64>().unwrap();
            a.values.as_slice().iter().map(|v| v.abs()).sum::<f64>()
        };
        assert!((sum(&a) - sum(&b)).abs() < 1e-9 * sum(&a));
        // A rigid-body mode stays one: A v is zero away from the clamped face, for as many rows in both orders.
        let zeros = |matrix: &crate::matrix::Matrix| {
            let (a, space) = (matrix.shared::<f64>().unwrap(), matrix.near_null_space().unwrap());
            let (a, v, b) = (a.view(), &space.vectors[3 * matrix.rows()..4 * matrix.rows()], matrix.block().rows);
            let product = |i: usize, r: usize| -> f64 {
                a.row(i).map(|(j, block)| (0..b).map(|c| block[r * b + c] * v[j * b + c]).sum::<f64>()).sum()
            };
            (0..a.rows).filter(|i| (0..b).all(|r| product(*i, r).abs() < 1e-12)).count()
        };
        assert!(zeros(&a) > 0 && zeros(&a) == zeros(&b));
    }
}
