//! Strength of connection by affinity (Livne and Brandt, 2012): how far the rows of the near-null space of two unknowns are from
//! multiples of each other.
//!
//! With x_i the row of unknown i, or all rows of a node one after the other, the affinity of i and j is c_ij = (x_i·x_j)² / (|x_i|² |x_j|²),
//! and d_ij = 1 - c_ij their distance. Affinities come near 1 as meshes become fine, so distances are compared: the strength of a coupling
//! is sqrt(d_i d_j) / d_ij, where d_i is the distance from i to the nearest unknown that it is coupled with.

use super::strength::{graph, norm2, select};
use super::{Host, HostMatrix};
use crate::backend::affinity::{NEAREST, USUAL};
use crate::backend::common::sample;
use crate::backend::components::{Strength, StrengthInput};
use crate::backend::parameters::Threshold;
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{CsrView, Graph, NearNullSpace};
use std::sync::atomic::{AtomicI64, Ordering};

/// The measure for one matrix.
pub struct Affinity<'a, T> {
    a: CsrView<'a, T>,
    space: &'a NearNullSpace,
    /// |x_i|².
    norms: Vec<f64>,
    /// d_i.
    nearest: Vec<f64>,
}

impl<'a, T: Scalar> Affinity<'a, T> {
    /// The measure for a matrix and the near-null space of its rows.
    pub fn new(a: &CsrView<'a, T>, space: &'a NearNullSpace) -> Result<Affinity<'a, T>> {
        let (norms, nearest) = (try_vec(a.rows, 0.0)?, try_vec(a.rows, 1.0)?);
        let mut measure = Affinity { a: *a, space, norms, nearest };
        let mut norms = std::mem::take(&mut measure.norms);
        par::for_each_mut(&mut norms, par::ROW_GRAIN, |start, piece| {
            piece.iter_mut().zip(start..).for_each(|(norm, i)| *norm = measure.product(i, i));
        });
        measure.norms = norms;
        let mut nearest = std::mem::take(&mut measure.nearest);
        par::for_each_mut(&mut nearest, par::ROW_GRAIN, |start, piece| {
            for (nearest, i) in piece.iter_mut().zip(start..) {
                for k in a.row_range(i).filter(|k| a.col(*k) != i && norm2(a, *k) > 0.0) {
                    *nearest = nearest.min(measure.distance(i, a.col(k)));
                }
            }
        });
        measure.nearest = nearest;
        Ok(measure)
    }

    /// x_i·x_j.
    fn product(&self, i: usize, j: usize) -> f64 {
        let (b, n) = (self.a.block.rows, self.a.scalar_rows());
        let mut sum = 0.0;
        for c in 0..self.space.count {
            for r in 0..b {
                sum += self.space.vectors[c * n + i * b + r] * self.space.vectors[c * n + j * b + r];
            }
        }
        sum
    }

    /// d_ij, at most 1.
    fn distance(&self, i: usize, j: usize) -> f64 {
        let (product, norms) = (self.product(i, j), self.norms[i] * self.norms[j]);
        if norms > 0.0 {
            let distance = 1.0 - product * product / norms;
            if distance > NEAREST { distance } else { NEAREST }
        } else {
            1.0
        }
    }

    /// Whether the coupling at position `k` of row `i` is strong by the square of a threshold.
    fn is_strong(&self, i: usize, k: usize, theta2: f64) -> bool {
        let j = self.a.col(k);
        let distance = self.distance(i, j);
        norm2(&self.a, k) > 0.0 && theta2 * (distance * distance) <= self.nearest[i] * self.nearest[j]
    }

    /// The couplings that are strong by the threshold `theta`.
    pub fn graph(&self, theta: f64) -> Result<Graph> {
        graph(&self.a, |i, out| select(&self.a, i, out, |k, _| self.is_strong(i, k, theta * theta)))
    }

    /// Mean over a sample of the rows of the number of couplings that are strong by this threshold.
    pub fn mean_strong(&self, theta: f64) -> f64 {
        let (count, step) = sample(self.a.rows);
        let strong = AtomicI64::new(0);
        par::for_each_range(count, par::ROW_GRAIN, |range| {
            let of_row = |i: usize| {
                let couplings = self.a.row_range(i).filter(|k| self.a.col(*k) != i);
                couplings.filter(|k| self.is_strong(i, *k, theta * theta)).count() as i64
            };
            strong.fetch_add(range.map(|k| of_row(k * step)).sum(), Ordering::Relaxed);
        });
        strong.into_inner() as f64 / count.max(1) as f64
    }
}

/// The component.
pub struct AffinityStrength;

impl<T: Scalar> Strength<Host, T> for AffinityStrength {
    fn graph(&self, input: &StrengthInput<'_, Host, T>) -> Result<Graph> {
        let HostMatrix::Rows(a) = input.a else { return Graph::empty() };
        let a = a.view();
        let measure = Affinity::new(&a, input.space("affinity")?)?;
        let threshold = Threshold::named(input.parameters)?.unwrap_or(USUAL);
        measure.graph(threshold.value(&|theta| Ok(measure.mean_strong(theta)))?)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn strengths_are_those_of_a_direct_computation() {
        let problem = gallery::parse("elasticity_jittered:4x3x3:height=0.3").unwrap().into_matrix().unwrap();
        let (a, space) = (problem.shared::<f64>().unwrap(), problem.near_null_space().unwrap());
        let a = a.view();
        let row = |i: usize| -> Vec<f64> {
            (0..18).map(|e| space.vectors[e / 3 * a.scalar_rows() + 3 * i + e % 3]).collect()
        };
        // The squared sine of the angle, by the part of one row that is orthogonal to the other.
        let distance = |i: usize, j: usize| {
            let (x, y) = (row(i), row(j));
            let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
            let factor = dot(&x, &y) / dot(&y, &y);
            let rest: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - factor * y).collect();
            dot(&rest, &rest) / dot(&x, &x)
        };
        let nearest: Vec<f64> = (0..a.rows)
            .map(|i| a.row(i).filter(|(j, _)| *j != i).map(|(j, _)| distance(i, j)).fold(1.0, f64::min))
            .collect();
        let measure = Affinity::new(&a, &space).unwrap();
        let (mut strong, mut weak) = (0, 0);
        for theta in [0.1, 0.25, 0.6] {
            let s = measure.graph(theta).unwrap();
            for i in 0..a.rows {
                for (j, _) in a.row(i).filter(|(j, _)| *j != i) {
                    let strength = (nearest[i] * nearest[j]).sqrt() / distance(i, j);
                    let is_strong = s.row(i).contains(&(j as i32));
                    assert!(is_strong == (strength >= theta) || (strength - theta).abs() < 1e-9, "{i} {j} {strength}");
                    strong += usize::from(is_strong);
                    weak += usize::from(!is_strong);
                }
            }
            assert_eq!(s.columns.len() as f64 / a.rows as f64, measure.mean_strong(theta));
        }
        assert!(strong > 100 && weak > 100, "{strong} {weak}");
    }

    #[test]
    fn rows_of_zeros_are_near_to_nothing_and_equal_ones_to_each_other() {
        // A path of four unknowns; a stored zero couples nothing.
        let t = [(0, 1, -1.0), (1, 0, -1.0), (1, 2, -1.0), (2, 1, -1.0), (2, 3, -1.0), (3, 2, -1.0), (0, 3, 0.0)];
        let diagonal = (0..4).map(|i| (i, i, 2.0));
        let a = Csr::from_triplets(4, 4, &t.into_iter().chain(diagonal).collect::<Vec<_>>()).unwrap();
        let space = NearNullSpace { dofs_per_node: 1, count: 2, vectors: vec![1.0, 2.0, 1.0, 0.0, 1.0, 2.0, 1.5, 0.0] };
        let s = Affinity::new(&a.view(), &space).unwrap().graph(0.25).unwrap();
        assert_eq!([s.row(0), s.row(1), s.row(2), s.row(3)], [&[1][..], &[0], &[], &[]]);
        let constants = NearNullSpace::constants(4, 1).unwrap();
        let s = Affinity::new(&a.view(), &constants).unwrap().graph(1.0).unwrap();
        assert_eq!(s.columns, [1, 0, 2, 1, 3, 2]);
    }
}
