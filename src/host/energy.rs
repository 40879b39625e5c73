//! Energy-minimising prolongators (Mandel, Brezina and Vaněk, 1999): on a fixed pattern, and among those that reproduce
//! the near-null space, P has the least trace(Pᵀ A P), after a few steps from the tentative prolongator.
//!
//! The row of a node has a block for its own aggregate and for those of its strong neighbours, and no others: jumps and
//! weak directions are not interpolated across. A step is P := P - w D^-1 Π(A P), where D has the diagonal blocks of A,
//! and Π drops the blocks outside of the pattern and what would change P B_c. Π and D^-1 commute, so Π D^-1 A has the
//! eigenvalues of a part of D^-1 A, and the weights are those of a Chebyshev polynomial for the upper part of its
//! spectrum. Unlike conjugate gradients it needs no inner products, and does as much for soft materials as for stiff ones,
//! which have nearly all of the energy.

use super::rows::{self, PositionArrays};
use super::spgemm::{Shape, multiply_block, with_shape};
use super::{Host, diagonal, tentative};
use crate::backend::common::MAX_BLOCK;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::parameters::{Estimate, energy_weights};
use crate::backend::spectrum::Largest;
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph, NearNullSpace, SharedCsr, Structure};
use std::sync::Arc;

/// The pattern of P: for each node its own aggregate and those of its strong neighbours, ascending.
pub fn pattern(of: &[i32], count: usize, s: &Graph, block: Block) -> Result<Structure> {
    let (offsets, columns, _) = rows::build::<u32>(of.len(), 0, |range, out| {
        for i in range {
            let start = out.columns.len();
            out.reserve(s.row(i).len() + 1, 0)?;
            let near = s.row(i).iter().map(|j| of[*j as usize]).chain([of[i]]);
            out.columns.extend(near.filter(|g| *g >= 0));
            out.columns[start..].sort_unstable();
            let mut kept = start;
            for k in start..out.columns.len() {
                if k == start || out.columns[k] != out.columns[kept - 1] {
                    out.columns[kept] = out.columns[k];
                    kept += 1;
                }
            }
            out.columns.truncate(kept);
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Structure::new(of.len(), count, block, offsets, columns))
}

/// What P B_c = B asks of the blocks of a row.
pub struct Constraint<'a> {
    /// The coarse near-null space.
    pub space: &'a NearNullSpace,
    /// For each row the inverse of the Gram matrix of B_c on the aggregates of its pattern, where vectors that are
    /// dependent there are left out.
    pub inverse: Vec<f64>,
}

impl<'a> Constraint<'a> {
    /// For prolongators of this pattern.
    pub fn new(p: &Structure, space: &'a NearNullSpace) -> Result<Constraint<'a>> {
        Constraint::of_kept(p, None, space)
    }

    /// The same with the blocks of the pattern that are kept alone.
    pub fn of_kept(p: &Structure, kept: Option<&[i32]>, space: &'a NearNullSpace) -> Result<Constraint<'a>> {
        let (k, m) = (space.count, space.dofs_per_node);
        let (offsets, columns) = p.own_arrays();
        let mut constraint = Constraint { space, inverse: Vec::new() };
        let mut gram = try_vec(p.rows * k * k, 0.0)?;
        par::for_each_row_mut(&mut gram, k * k, par::ROW_GRAIN, |start, piece| {
            for (i, gram) in (start..).zip(piece.chunks_exact_mut(k * k)) {
                let row = offsets[i] as usize..offsets[i + 1] as usize;
                for (g, _) in
                    columns[row.clone()].iter().zip(row).filter(|(_, b)| kept.is_none_or(|kept| kept[*b] != 0))
                {
                    for (e, sum) in gram.iter_mut().enumerate() {
                        for r in 0..m {
                            *sum += constraint.at(*g, r, e / k) * constraint.at(*g, r, e % k);
                        }
                    }
                }
            }
        });
        let (mut counting, mut own) = (try_vec(p.rows + 1, 0_i64)?, try_vec(p.rows, 0_i32)?);
        counting.iter_mut().enumerate().for_each(|(i, to)| *to = i as i64);
        own.iter_mut().enumerate().for_each(|(i, to)| *to = i as i32);
        let diagonal = Structure::new(p.rows, p.rows, Block::square(k), counting, own);
        constraint.inverse = diagonal::inverse(&diagonal.view(&gram), k, diagonal::AS_IT_IS)?;
        Ok(constraint)
    }

    /// Row `r` of vector `c` on an aggregate, or on a coarse unknown.
    #[inline(always)]
    pub fn at(&self, aggregate: i32, r: usize, c: usize) -> f64 {
        let (k, m) = (self.space.count, self.space.dofs_per_node);
        self.space.vectors[c * (self.space.vectors.len() / k) + aggregate as usize * m + r]
    }

    /// Takes out of the blocks of row `i` what changes P B_c.
    fn project<T: Scalar>(&self, i: usize, columns: &[i32], rows: usize, blocks: &mut [T]) {
        let (k, m) = (self.space.count, self.space.dofs_per_node);
        let (mut action, mut multipliers) = ([0.0; MAX_BLOCK * MAX_BLOCK], [0.0; MAX_BLOCK * MAX_BLOCK]);
        for (g, block) in columns.iter().zip(blocks.chunks_exact(rows * m)) {
            for (e, sum) in action[..rows * k].iter_mut().enumerate() {
                for q in 0..m {
                    *sum += block[e / k * m + q].to_f64() * self.at(*g, q, e % k);
                }
            }
        }
        let inverse = &self.inverse[i * k * k..][..k * k];
        for (e, sum) in multipliers[..rows * k].iter_mut().enumerate() {
            for q in 0..k {
                *sum += action[e / k * k + q] * inverse[q * k + e % k];
            }
        }
        for (g, block) in columns.iter().zip(blocks.chunks_exact_mut(rows * m)) {
            for (e, value) in block.iter_mut().enumerate() {
                let mut change = 0.0;
                for q in 0..k {
                    change += multipliers[e / m * k + q] * self.at(*g, e % m, q);
                }
                *value = T::from_f64(value.to_f64() - change);
            }
        }
    }
}

/// P_0 with zeros in the rest of the pattern.
fn embed<T: Scalar>(p0: &Csr<T>, p: &Structure) -> Result<Vec<T>> {
    let (offsets, columns) = p.own_arrays();
    let width = p.block.len();
    let mut values = try_vec(columns.len() * width, T::ZERO)?;
    par::for_each_segment_mut(&mut values, offsets, width, par::ROW_GRAIN, |range, piece| {
        let first = offsets[range.start] as usize;
        for i in range {
            let row = offsets[i] as usize..offsets[i + 1] as usize;
            for (g, from) in p0.view().row(i) {
                let at =
                    columns[row.clone()].iter().position(|c| *c as usize == g).expect("a row has its own aggregate");
                piece[(row.start - first + at) * width..][..width].copy_from_slice(from);
            }
        }
    });
    Ok(values)
}

/// The prolongator after steps with these weights from P_0, whose B_c the constraint has.
pub fn minimise<T: Scalar>(
    a: &CsrView<'_, T>,
    inverse: &[T],
    p0: &Csr<T>,
    p: &Structure,
    constraint: &Constraint<'_>,
    weights: &[f64],
) -> Result<Vec<T>> {
    let mut values = embed(p0, p)?;
    let mut next = try_vec(values.len(), T::ZERO)?;
    let arrays = PositionArrays::new(p.cols);
    for weight in weights {
        let weight = T::from_f64(*weight);
        let (n, k) = (p.block.rows, p.block.cols);
        with_shape!((n, n, k), shape => {
            step(shape, a, (inverse, weight), p, constraint, &arrays, (&values, &mut next))
        })?;
        std::mem::swap(&mut values, &mut next);
    }
    Ok(values)
}

/// One step.
fn step<T: Scalar>(
    shape: impl Shape,
    a: &CsrView<'_, T>,
    (inverse, weight): (&[T], T),
    p: &Structure,
    constraint: &Constraint<'_>,
    arrays: &PositionArrays,
    (from, to): (&[T], &mut [T]),
) -> Result<()> {
    let (n, width) = (shape.rows(), shape.rows() * shape.cols());
    let (offsets, columns) = p.own_arrays();
    let failure = par::Failure::default();
    par::for_each_segment_mut(to, offsets, width, rows::grain(p.rows), |range, piece| {
        failure.keep(arrays.with(|array| {
            let first = offsets[range.start] as usize;
            for i in range {
                let row = offsets[i] as usize..offsets[i + 1] as usize;
                let (row_columns, out) =
                    (&columns[row.clone()], &mut piece[(row.start - first) * width..][..row.len() * width]);
                // Positions in this row are above those of the rows before it.
                let base = array.largest;
                for (at, g) in row_columns.iter().enumerate() {
                    array.at[*g as usize] = (base + at + 1) as u32;
                }
                array.largest = base + row_columns.len();
                out.fill(T::ZERO);
                for (j, block) in a.row(i) {
                    for k in offsets[j] as usize..offsets[j + 1] as usize {
                        let at = array.at[columns[k] as usize] as usize;
                        if at > base {
                            multiply_block(
                                shape,
                                block,
                                &from[k * width..][..width],
                                &mut out[(at - base - 1) * width..],
                            );
                        }
                    }
                }
                constraint.project(i, row_columns, n, out);
                let d_inverse = &inverse[i * n * n..][..n * n];
                for (block, before) in out.chunks_exact_mut(width).zip(from[row.start * width..].chunks_exact(width)) {
                    let mut product = [T::ZERO; MAX_BLOCK * MAX_BLOCK];
                    multiply_block(shape, d_inverse, block, &mut product);
                    for ((v, before), product) in block.iter_mut().zip(before).zip(product) {
                        *v = *before - weight * product;
                    }
                }
            }
            Ok(())
        }));
    });
    failure.check()
}

/// The component.
pub struct EnergyMinimisation;

/// What it keeps for updates: the largest eigenvalue of D^-1 A.
struct EnergySymbolic(Largest);

impl InterpolationSymbolic<Host> for EnergySymbolic {
    fn bytes(&self) -> usize {
        0
    }
}

impl<T: Scalar> Interpolation<Host, T> for EnergyMinimisation {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let (aggregates, space) = input.aggregates("energy")?;
        let a = input.a.view();
        let inverse: Vec<T> = diagonal::inverse(&a, a.block.rows, diagonal::AS_IT_IS)?;
        let earlier = input.symbolic::<EnergySymbolic>();
        let largest = Estimate::new(input.parameters).largest(input.setup, &a, &inverse, earlier.map(|e| &e.0))?;
        let (p0, coarse_space) = tentative::prolongator(&aggregates.of, aggregates.count, space)?;
        let structure = match input.pattern() {
            Some(pattern) => Arc::clone(pattern.rows()),
            None => Arc::new(pattern(&aggregates.of, aggregates.count, input.graph, p0.block)?),
        };
        let weights = energy_weights(input.parameters.int("amg.interpolation.energy.steps"), largest.value)?;
        let constraint = Constraint::new(&structure, &coarse_space)?;
        let values = minimise(&a, &inverse, &p0, &structure, &constraint, &weights)?;
        let p = SharedCsr { structure, values: Arc::new(values) };
        Ok(Interpolated {
            near_null_space: Some(Arc::new(coarse_space)),
            largest_eigenvalue: Some((largest.clone(), inverse)),
            symbolic: Some(Arc::new(EnergySymbolic(largest))),
            ..Interpolated::alone(p.into())
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::gallery::{self, Jittered, Layers};
    use crate::host::{galerkin, mis2, spmv, strength, transpose};

    /// A problem with strong couplings, aggregates and what prolongators are made from.
    struct Problem {
        a: Csr<f64>,
        space: NearNullSpace,
        p0: Csr<f64>,
        coarse: NearNullSpace,
        structure: Structure,
        inverse: Vec<f64>,
        largest: f64,
    }

    fn problem() -> Problem {
        let layers = Layers { count: 2, contrast: 1000.0 };
        let shape = Jittered { layers, nu: 0.3, jitter: 0.2, height: 0.5 };
        let elastic = gallery::elasticity_jittered([4, 3, 4], shape).unwrap();
        let a = elastic.matrix;
        let space = NearNullSpace::rigid_body_modes(3 * a.rows, 3, &elastic.coordinates).unwrap();
        let s = strength::Symmetric::new(&a.view()).unwrap().graph(0.04).unwrap();
        let (of, count) = mis2::aggregate(&s, 0).unwrap();
        let (p0, coarse) = tentative::prolongator::<f64>(&of, count, &space).unwrap();
        let structure = pattern(&of, count, &s, p0.block).unwrap();
        let inverse: Vec<f64> = diagonal::inverse(&a.view(), 3, diagonal::AS_IT_IS).unwrap();
        let host = Host::new(&Context::new("host:1").unwrap());
        let estimate = Estimate { lanczos: true, steps: 12 };
        let largest = estimate.largest(&host, &a.view(), &inverse, None).unwrap().value;
        Problem { a, space, p0, coarse, structure, inverse, largest }
    }

    impl Problem {
        fn minimised(&self, steps: usize) -> Csr<f64> {
            let constraint = Constraint::new(&self.structure, &self.coarse).unwrap();
            let weights = energy_weights(steps, self.largest).unwrap();
            let values =
                minimise(&self.a.view(), &self.inverse, &self.p0, &self.structure, &constraint, &weights).unwrap();
            self.structure.view(&values).to_owned_as().unwrap()
        }

        fn energy(&self, p: &Csr<f64>) -> f64 {
            let r = transpose::transpose(&p.view()).unwrap();
            let coarse = galerkin::product(&r.view(), &self.a.view(), &p.clone().into_shared()).unwrap();
            diagonal::entries(&coarse.view()).unwrap().iter().sum()
        }
    }

    /// Solves the small dense system m x = b, positive definite after what is left out of it.
    fn solve(mut m: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
        let n = b.len();
        for k in 0..n {
            let pivot = (k..n).max_by(|i, j| m[*i][k].abs().total_cmp(&m[*j][k].abs())).unwrap();
            m.swap(k, pivot);
            b.swap(k, pivot);
            for i in k + 1..n {
                let (f, pivot_row) = (m[i][k] / m[k][k], m[k].clone());
                m[i].iter_mut().zip(&pivot_row).for_each(|(v, p)| *v -= f * p);
                b[i] -= f * b[k];
            }
        }
        for k in (0..n).rev() {
            b[k] = (b[k] - (k + 1..n).map(|j| m[k][j] * b[j]).sum::<f64>()) / m[k][k];
        }
        b
    }

    #[test]
    fn prolongators_reproduce_the_near_null_space_and_their_energy_falls() {
        let problem = problem();
        let rows = 3 * problem.a.rows;
        let mut before = problem.energy(&problem.p0);
        for steps in [1, 2, 4, 8] {
            let p = problem.minimised(steps);
            for (v, b) in problem.space.vectors.chunks_exact(rows).zip(problem.coarse.vectors.chunks_exact(p.cols * 6))
            {
                let mut y = vec![0.0; rows];
                spmv::apply(&p.view(), 1.0, b, 0.0, &mut y);
                assert!(y.iter().zip(v).all(|(y, v)| (y - v).abs() < 1e-11), "{steps}");
            }
            let energy = problem.energy(&p);
            assert!(energy < before, "{steps} steps: {energy} after {before}");
            before = energy;
        }
    }

    /// The minimum itself, from the dense equations of all entries of P with Lagrange multipliers.
    #[test]
    fn many_steps_come_to_the_minimum_of_a_dense_computation() {
        // Bilinear elements with two vectors, constant and linear: three columns of P per aggregate would be as good.
        let a = gallery::poisson9(6, 4).unwrap();
        let n = a.rows;
        let vectors: Vec<f64> = (0..2 * n).map(|i| if i < n { 1.0 } else { (i % 6) as f64 }).collect();
        let space = NearNullSpace { dofs_per_node: 1, count: 2, vectors };
        let s = strength::Symmetric::new(&a.view()).unwrap().graph(0.05).unwrap();
        let of: Vec<i32> = (0..n as i32).map(|i| i % 6 / 2).collect();
        let (p0, coarse) = tentative::prolongator::<f64>(&of, 3, &space).unwrap();
        let p = pattern(&of, 3, &s, p0.block).unwrap();
        let constraint = Constraint::new(&p, &coarse).unwrap();
        let inverse: Vec<f64> = diagonal::inverse(&a.view(), 1, diagonal::AS_IT_IS).unwrap();
        let weights: Vec<f64> = (0..60).flat_map(|_| energy_weights(8, 1.6).unwrap()).collect();
        let found = minimise(&a.view(), &inverse, &p0, &p, &constraint, &weights).unwrap();

        // Unknowns: each entry of P; then a multiplier for each row and vector. A P on the pattern + multipliers = 0.
        let (offsets, columns) = p.own_arrays();
        let row_of: Vec<usize> = (0..n).flat_map(|i| vec![i; (offsets[i + 1] - offsets[i]) as usize]).collect();
        let unknowns = 2 * columns.len();
        let size = unknowns + 2 * n;
        let (mut m, mut b) = (vec![vec![0.0; size]; size], vec![0.0; size]);
        let dense = |i: usize, j: usize| a.view().row(i).find(|(c, _)| *c == j).map_or(0.0, |(_, v)| v[0]);
        for x in 0..unknowns {
            let (i, g) = (row_of[x / 2], columns[x / 2]);
            for y in (0..unknowns).filter(|y| y % 2 == x % 2 && columns[y / 2] == g) {
                m[x][y] = dense(i, row_of[y / 2]);
            }
            for c in 0..2 {
                let v = coarse.vectors[c * 6 + 2 * g as usize + x % 2];
                (m[x][unknowns + 2 * i + c], m[unknowns + 2 * i + c][x]) = (v, v);
            }
        }
        for i in 0..n {
            for c in 0..2 {
                b[unknowns + 2 * i + c] = space.vectors[c * n + i];
            }
        }
        let expected = solve(m, b);
        for (x, found) in found.iter().enumerate() {
            assert!((found - expected[x]).abs() < 1e-9, "{x}: {found} {}", expected[x]);
        }
    }

    #[test]
    fn weak_couplings_and_lone_nodes_are_outside_of_the_pattern() {
        // Two lines of three unknowns with a weak coupling between them, and one unknown alone.
        let s = Graph { offsets: vec![0, 1, 3, 4, 5, 7, 8, 8], columns: vec![1, 0, 2, 1, 4, 3, 5, 4] };
        let of = [0, 0, 1, 2, 2, 2, -1];
        let p = pattern(&of, 3, &s, Block::SCALAR).unwrap();
        assert_eq!(p.own_arrays(), (&[0, 1, 3, 5, 6, 7, 8, 8][..], &[0, 0, 1, 0, 1, 2, 2, 2][..]));
        assert!(energy_weights(4, 0.0).unwrap().is_empty());
        assert_eq!(energy_weights(1, 2.0).unwrap(), [1.0 / (2.0 * 0.5625)]);
    }
}
