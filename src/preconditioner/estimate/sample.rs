//! Samples of a matrix: principal submatrices of connected pieces, with nodes of each kind in about the shares of the
//! matrix.

use super::profile::{Histogram, Profile};
use crate::context::Context;
use crate::error::{Result, try_capacity, try_vec};
use crate::hash::hash;
use crate::matrix::{Matrix, UnknownFunctions, Values};
use crate::scalar::Scalar;
use crate::sparse::{Csr, CsrView, NearNullSpace};
use std::cell::OnceCell;
use std::sync::Arc;

/// Most share of long nodes in a sample.
const LONG_SHARE: usize = 16;

/// A matrix to be sampled.
pub struct Source<'a, T> {
    context: &'a Context,
    a: CsrView<'a, T>,
    space: Option<Arc<NearNullSpace>>,
    functions: Option<Arc<UnknownFunctions>>,
    /// Block rows of a node.
    group: usize,
    /// Made for the first sample that is not the whole.
    profile: OnceCell<Profile>,
}

/// A sample, with what is known of its near-null space.
pub struct Sample {
    pub matrix: Arc<Matrix>,
    /// Whether it is all of the matrix.
    pub whole: bool,
    pub pieces: usize,
    /// Entries and rows of the matrix over those of the sample.
    pub by_entries: f64,
    pub by_rows: f64,
    /// Share of the entries of its rows whose columns are not in the sample.
    pub cut: f64,
    /// Difference of the kinds of its rows from those of the matrix, by [`Histogram::unlike`].
    pub unlike: f64,
    /// Whether the matrix has long rows.
    pub has_long: bool,
}

impl<'a, T: Scalar> Source<'a, T>
where
    Values: From<Vec<T>>,
{
    /// A node has as many unknowns of each of the functions, of which there are `count`, unless the caller named that of each unknown.
    pub fn new(context: &'a Context, matrix: &Matrix, count: usize, a: CsrView<'a, T>) -> Source<'a, T> {
        let (space, given) = (matrix.near_null_space(), matrix.functions());
        let functions = if given.is_some() { 1 } else { count };
        let dofs = space.as_ref().map_or(a.block.rows, |s| s.dofs_per_node);
        // The smallest multiple of both.
        let both =
            (1..=functions).map(|times| times * dofs).find(|both| both.is_multiple_of(functions)).unwrap_or(dofs);
        Source { context, a, space, functions: given, group: both / a.block.rows, profile: OnceCell::new() }
    }

    fn profile(&self) -> Result<&Profile> {
        if let Some(profile) = self.profile.get() {
            return Ok(profile);
        }
        let (a, group) = (self.a, self.group);
        let profile = self.context.run(a.entries(), || Profile::new(&a, group))?;
        Ok(self.profile.get_or_init(|| profile))
    }

    /// A sample of at most so many rows in so many pieces: one from the middle of the matrix, or several from all
    /// parts.
    pub fn sample(&self, limit: usize, pieces: usize) -> Result<Sample> {
        let (a, group) = (&self.a, self.group);
        if a.scalar_rows() <= limit {
            let mut rows = try_capacity(a.rows)?;
            rows.extend(0..a.rows);
            let matrix = self.matrix_of(&rows, principal_submatrix(a, &rows)?)?;
            return Ok(Sample {
                matrix,
                whole: true,
                pieces,
                by_entries: 1.0,
                by_rows: 1.0,
                cut: 0.0,
                unlike: 0.0,
                has_long: false,
            });
        }
        let profile = self.profile()?;
        let nodes = Growth::new(a, profile)?.grow((limit / (a.block.rows * group)).max(1), pieces)?;
        let mut rows = try_capacity(nodes.len() * group)?;
        rows.extend(nodes.iter().flat_map(|node| node * group..(node + 1) * group));
        let part = principal_submatrix(a, &rows)?;

        let mut kinds = Histogram::new()?;
        let mut inside = 0;
        for (n, node) in nodes.iter().enumerate() {
            let own = (part.offsets[(n + 1) * group] - part.offsets[n * group]) as usize;
            let all = profile.entries(a, *node);
            // A long node keeps its share of entries.
            match profile.is_long(a, *node) {
                true => kinds.add(profile.kind(*node), own as f64 / all as f64, own as f64),
                false => kinds.add(profile.kind(*node), 1.0, all as f64),
            }
            inside += own;
        }
        Ok(Sample {
            matrix: self.matrix_of(&rows, part)?,
            whole: false,
            pieces,
            by_entries: profile.all.entries / kinds.entries.max(1.0),
            by_rows: profile.all.nodes / kinds.nodes.max(1.0),
            cut: 1.0 - inside as f64 / kinds.entries.max(1.0),
            unlike: kinds.unlike(&profile.all),
            has_long: !profile.long_nodes.is_empty(),
        })
    }

    fn matrix_of(&self, rows: &[usize], part: Csr<T>) -> Result<Arc<Matrix>> {
        let matrix = Matrix::from_csr(part)?;
        if let Some(space) = &self.space {
            let vectors = restrict(space, rows, self.a.block.rows, self.a.scalar_rows())?;
            matrix.set_near_null_space(space.dofs_per_node, space.count, vectors)?;
        }
        if let Some(functions) = &self.functions {
            let block = self.a.block.rows;
            let mut of: Vec<i32> = try_capacity(rows.len() * block)?;
            of.extend(rows.iter().flat_map(|i| &functions.of[i * block..(i + 1) * block]).map(|of| i32::from(*of)));
            matrix.set_functions(functions.count, &of)?;
        }
        Ok(Arc::new(matrix))
    }
}

/// Nodes found by breadth-first search.
struct Growth<'a, T> {
    a: &'a CsrView<'a, T>,
    profile: &'a Profile,
    found: Vec<bool>,
    nodes: Vec<usize>,
}

impl<'a, T: Scalar> Growth<'a, T> {
    fn new(a: &'a CsrView<'a, T>, profile: &'a Profile) -> Result<Growth<'a, T>> {
        let found = try_vec(profile.nodes(), false)?;
        Ok(Growth { a, profile, found, nodes: Vec::new() })
    }

    /// `limit` nodes, ascending: long ones, connected pieces of others, and decoupled ones in their share.
    fn grow(mut self, limit: usize, pieces: usize) -> Result<Vec<usize>> {
        self.nodes = try_capacity(limit)?;
        let profile = self.profile;
        let long = &profile.long_nodes;
        let some = long.len().min(limit / LONG_SHARE);
        (0..some).for_each(|i| self.take(long[i * long.len() / some]));

        let ordinary = profile.nodes() - long.len();
        let room = limit - self.nodes.len();
        let decoupled = (profile.decoupled as u128 * room as u128).div_ceil(ordinary.max(1) as u128) as usize;
        let coupled = (room - decoupled).min(ordinary - profile.decoupled);
        if pieces == 1 {
            self.grow_from(profile.nodes() / 2, None, self.nodes.len() + coupled);
        } else {
            self.grow_all_over(self.nodes.len(), coupled, pieces)?;
        }
        // Some of them are in the pieces already.
        let reached = self.nodes.iter().filter(|node| profile.is_decoupled(**node)).count();
        self.take_decoupled(decoupled.saturating_sub(reached));
        self.nodes.sort_unstable();
        Ok(self.nodes)
    }

    /// Pieces from different parts of the matrix. Each starts at a node of the kind that the earlier pieces lack most.
    fn grow_all_over(&mut self, before: usize, coupled: usize, pieces: usize) -> Result<()> {
        let (a, profile, count) = (self.a, self.profile, self.profile.nodes());
        let mut kinds = Histogram::new()?;
        for piece in 0..pieces {
            let start = (piece * count + hash(piece, 0) as usize % count) / pieces;
            let from = self.nodes.len();
            self.grow_from(start, Some(kinds.missing(&profile.all)), before + coupled * (piece + 1) / pieces);
            for node in &self.nodes[from..] {
                kinds.add(profile.kind(*node), 1.0, profile.entries(a, *node) as f64);
            }
        }
        // There may be no more nodes of a kind.
        self.grow_from(count / 2, None, before + coupled);
        Ok(())
    }

    /// Grows a piece to `limit` nodes from the first coupled node at or after `start`, of this kind if one is given. If
    /// a connected component ends before, it goes on from the next such node.
    fn grow_from(&mut self, start: usize, kind: Option<u16>, limit: usize) {
        let (profile, group) = (self.profile, self.profile.group);
        for node in (start..profile.nodes()).chain(0..start) {
            if self.nodes.len() >= limit {
                break;
            }
            let wanted = kind.map_or(!profile.is_decoupled(node), |kind| profile.kind(node) == kind);
            if !wanted || self.found[node] || profile.is_long(self.a, node) {
                continue;
            }
            // Nodes are looked at in the order in which they were taken.
            let mut next_in_queue = self.nodes.len();
            self.take(node);
            while let Some(&node) = self.nodes.get(next_in_queue) {
                next_in_queue += 1;
                for k in (node * group..(node + 1) * group).flat_map(|row| self.a.row_range(row)) {
                    let next = self.a.col(k) / group;
                    // The neighbours of a long node are all over the matrix.
                    if !self.found[next] && self.nodes.len() < limit && !profile.is_long(self.a, next) {
                        self.take(next);
                    }
                }
            }
        }
    }

    fn take(&mut self, node: usize) {
        self.found[node] = true;
        self.nodes.push(node);
    }

    /// So many of the decoupled nodes, evenly spaced.
    fn take_decoupled(&mut self, wanted: usize) {
        let profile = self.profile;
        let (mut seen, mut taken) = (0, 0);
        let left = (0..profile.nodes()).filter(|node| profile.is_decoupled(*node) && !self.found[*node]).count();
        for node in 0..profile.nodes() {
            if profile.is_decoupled(node) && !self.found[node] {
                seen += 1;
                if taken < wanted && taken as u128 * (left as u128) < wanted as u128 * seen as u128 {
                    self.take(node);
                    taken += 1;
                }
            }
        }
    }
}

fn principal_submatrix<T: Scalar>(a: &CsrView<'_, T>, rows: &[usize]) -> Result<Csr<T>> {
    let mut number = try_vec(a.rows, -1_i32)?;
    for (n, row) in rows.iter().enumerate() {
        number[*row] = n as i32;
    }
    let inside = |row: usize| a.row_range(row).filter(|k| number[a.col(*k)] >= 0);
    let mut offsets = try_capacity(rows.len() + 1)?;
    offsets.push(0);
    for row in rows {
        offsets.push(offsets[offsets.len() - 1] + inside(*row).count() as i64);
    }
    let entries = offsets[rows.len()] as usize;
    let (mut columns, mut values) = (try_capacity(entries)?, try_capacity(entries * a.block.len())?);
    for row in rows {
        for k in inside(*row) {
            columns.push(number[a.col(k)]);
            values.extend_from_slice(a.block_at(k));
        }
    }
    Ok(Csr { rows: rows.len(), cols: rows.len(), block: a.block, offsets, columns, values })
}

/// The near-null-space vectors at these rows. A vector that is zero there gets other values: memory depends on their
/// number.
fn restrict(space: &NearNullSpace, rows: &[usize], block: usize, all: usize) -> Result<Vec<f64>> {
    let mut vectors = try_capacity(space.count * rows.len() * block)?;
    for v in 0..space.count {
        let from = vectors.len();
        let places = rows.iter().flat_map(|row| row * block..(row + 1) * block);
        vectors.extend(places.map(|at| space.vectors[v * all + at]));
        if vectors[from..].iter().all(|x| *x == 0.0) {
            let numbers = (0..).map(|i| 1.0 + (hash(i, v as u64) % 1000) as f64);
            vectors[from..].iter_mut().zip(numbers).for_each(|(x, number)| *x = number);
        }
    }
    Ok(vectors)
}
