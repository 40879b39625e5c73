//! The tentative prolongator: on each aggregate, an orthonormal basis of the near-null-space vectors cut to the
//! aggregate.

use super::Host;
use super::mis2::NONE;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::error::{Result, try_capacity, try_copy, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, NearNullSpace};
use std::sync::Arc;

/// Aggregates that one task handles.
pub(super) const PIECE: usize = 256;

/// P and the coarse near-null space B_c with P B_c = B on every unknown that belongs to an aggregate.
///
/// Aggregates hold nodes; P has one block of `dofs_per_node` x `count` for each node that belongs to one. Where the
/// vectors are linearly dependent on an aggregate, the surplus columns of P are zero.
pub fn prolongator<T: Scalar>(
    aggregates: &[i32],
    count: usize,
    space: &NearNullSpace,
) -> Result<(Csr<T>, NearNullSpace)> {
    let nodes = aggregates.len();
    let (dofs, k) = (space.dofs_per_node, space.count);
    let rows = nodes * dofs;
    let members = members(aggregates, count)?;

    // For each aggregate of a piece: Q by node, and R.
    let local = par::map_ranges(count, PIECE, |range| {
        let size: usize = range.clone().map(|g| members.row(g).len()).sum();
        let mut q = try_capacity(size * dofs * k)?;
        let mut r = try_vec(range.len() * k * k, 0.0)?;
        for (g, r) in range.zip(r.chunks_exact_mut(k * k)) {
            let start = q.len();
            for node in members.row(g) {
                for d in 0..dofs {
                    q.extend((0..k).map(|c| space.vectors[c * rows + *node as usize * dofs + d]));
                }
            }
            orthonormalise(&mut q[start..], k, r);
        }
        Ok((q, r))
    })?;

    let mut counts = try_vec(nodes, 0_i64)?;
    let mut columns = try_capacity(nodes)?;
    for (count, g) in counts.iter_mut().zip(aggregates) {
        if *g != NONE {
            *count = 1;
            columns.push(*g);
        }
    }
    let block = Block { rows: dofs, cols: k };
    let mut p = Csr::with_pattern(nodes, count, block, par::offsets_from_counts(counts)?, columns)?;
    let mut vectors = try_vec(count * k * k, 0.0)?;
    for (piece, (q, r)) in local.iter().enumerate() {
        let mut q = q.chunks_exact(block.len());
        for (g, r) in (piece * PIECE..).zip(r.chunks_exact(k * k)) {
            for (node, q) in members.row(g).iter().zip(&mut q) {
                let at = p.offsets[*node as usize] as usize * block.len();
                for (to, from) in p.values[at..at + block.len()].iter_mut().zip(q) {
                    *to = T::from_f64(*from);
                }
            }
            for row in 0..k {
                for c in 0..k {
                    vectors[c * count * k + g * k + row] = r[row * k + c];
                }
            }
        }
    }
    Ok((p, NearNullSpace { dofs_per_node: k, count: k, vectors }))
}

/// Nodes of each aggregate, ascending.
struct Members {
    offsets: Vec<i64>,
    nodes: Vec<i32>,
}

impl Members {
    fn row(&self, g: usize) -> &[i32] {
        &self.nodes[self.offsets[g] as usize..self.offsets[g + 1] as usize]
    }
}

fn members(aggregates: &[i32], count: usize) -> Result<Members> {
    let mut counts = try_vec(count, 0_i64)?;
    for g in aggregates.iter().filter(|g| **g != NONE) {
        counts[*g as usize] += 1;
    }
    let offsets = par::offsets_from_counts(counts)?;
    let mut at = try_copy(&offsets)?;
    let mut nodes = try_vec(offsets[count] as usize, 0_i32)?;
    for (node, g) in aggregates.iter().enumerate().filter(|(_, g)| **g != NONE) {
        nodes[at[*g as usize] as usize] = node as i32;
        at[*g as usize] += 1;
    }
    Ok(Members { offsets, nodes })
}

/// Most partial sums of an inner product.
const MOST_SUMS: usize = 32;

/// Partial sums of an inner product of `k` columns over the rows of an aggregate, row by row in turn, which are then
/// added in halves: as many as lanes of a GPU share an aggregate, the same in `kernels/tentative.cu`.
fn partial_sums(k: usize) -> usize {
    if k <= 2 { 8 } else { MOST_SUMS }
}

/// Orthonormalises the `k` columns of `q` (stored row by row) by Gram-Schmidt, each column twice; adds R, k x k, to
/// `r`, with Q R equal to the input. A column that is dependent on those before it becomes zero.
pub(super) fn orthonormalise(q: &mut [f64], k: usize, r: &mut [f64]) {
    /// A remainder below this share of the column is rounding.
    const DEPENDENT: f64 = 1e-10;
    let rows = q.len() / k;
    let dot = |q: &[f64], a: usize, b: usize| {
        let mut sums = [0.0; MOST_SUMS];
        let sums = &mut sums[..partial_sums(k)];
        for chunk in q.chunks(sums.len() * k) {
            for (sum, row) in sums.iter_mut().zip(chunk.chunks_exact(k)) {
                *sum += row[a] * row[b];
            }
        }
        let mut half = sums.len() / 2;
        while half > 0 {
            for l in 0..half {
                sums[l] += sums[l + half];
            }
            half /= 2;
        }
        sums[0]
    };
    for c in 0..k {
        let original = dot(q, c, c).sqrt();
        for _ in 0..2 {
            for b in 0..c {
                let projection = dot(q, b, c);
                r[b * k + c] += projection;
                for i in 0..rows {
                    q[i * k + c] -= projection * q[i * k + b];
                }
            }
        }
        let norm = dot(q, c, c).sqrt();
        let independent = norm > DEPENDENT * original;
        r[c * k + c] = if independent { norm } else { 0.0 };
        let scale = if independent { 1.0 / norm } else { 0.0 };
        for i in 0..rows {
            q[i * k + c] *= scale;
        }
    }
}

/// The component: plain aggregation.
pub struct PlainAggregation;

impl<T: Scalar> Interpolation<Host, T> for PlainAggregation {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let (aggregates, space) = input.aggregates("tentative")?;
        let (p, coarse) = prolongator(&aggregates.of, aggregates.count, space)?;
        Ok(Interpolated { near_null_space: Some(Arc::new(coarse)), ..Interpolated::alone(p.into_shared().into()) })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::spmv;

    #[test]
    fn the_prolongator_reproduces_the_near_null_space_with_orthonormal_columns() {
        let coordinates: Vec<f64> = (0..12).flat_map(|i| [(i % 4) as f64, (i / 4) as f64]).collect();
        let space = NearNullSpace::rigid_body_modes(24, 2, &coordinates).unwrap();
        let aggregates: Vec<i32> = (0..12).map(|i| if i == 11 { NONE } else { (i % 4) / 2 }).collect();
        let (p, coarse) = prolongator::<f64>(&aggregates, 2, &space).unwrap();
        assert_eq!((p.rows, p.cols, p.block), (12, 2, Block { rows: 2, cols: 3 }));
        for c in 0..3 {
            let mut y = vec![0.0; 24];
            spmv::apply(&p.view(), 1.0, &coarse.vectors[c * 6..][..6], 0.0, &mut y);
            assert!((0..22).all(|i| (y[i] - space.vectors[c * 24 + i]).abs() < 1e-14));
            assert_eq!(&y[22..], [0.0, 0.0]);
        }
        let t = crate::host::transpose::transpose(&p.view()).unwrap();
        let gram = crate::host::spgemm::multiply(&t.view(), &p.view()).unwrap();
        for (k, block) in gram.values.chunks_exact(9).enumerate() {
            let diagonal = gram.columns[k] as usize == k / 2 || gram.offsets == [0, 1, 2];
            assert!(diagonal && (0..9).all(|e| (block[e] - f64::from(u8::from(e % 4 == 0))).abs() < 1e-14));
        }
    }

    #[test]
    fn dependent_columns_become_zero() {
        // One node in 2D cannot rotate about itself.
        let space = NearNullSpace::rigid_body_modes(2, 2, &[3.0, 4.0]).unwrap();
        let (p, coarse) = prolongator::<f64>(&[0], 1, &space).unwrap();
        assert_eq!(p.values, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(coarse.vectors[6..], [0.0, 0.0, 0.0]);
    }
}
