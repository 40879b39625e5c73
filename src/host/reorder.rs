//! Renumbering by breadth-first search, and the measure of locality; see `src/backend/reorder.rs`.

use crate::backend::reorder::{
    Chunks, LEVELS, Locality, MOST_MEASURED, MOST_NEIGHBOURS, NodeShape, ROOT_BITS, is_root,
};
use crate::error::{Result, try_capacity, try_collect, try_push, try_vec};
use crate::par;
use crate::scalar::Number;
use crate::sparse::CsrView;
use std::sync::atomic::{AtomicI32, Ordering};

/// In place of the position from which a node was reached: that of none, and that of roots.
const NOT_REACHED: i32 = i32::MAX;
const ROOT: i32 = -1;

/// Levels with fewer nodes are not divided among threads.
const FEWEST_PARALLEL: usize = 4 * par::ROW_GRAIN;

/// Another order of the nodes of a matrix.
pub struct Permutation {
    /// The old number of each node.
    pub order: Vec<i32>,
    /// The new number of each node.
    pub inverse: Vec<i32>,
    /// What a node is.
    pub shape: NodeShape,
}

impl Permutation {
    /// With the inverse of an order.
    pub fn new(order: Vec<i32>, shape: NodeShape) -> Result<Permutation> {
        let mut inverse = try_vec(order.len(), 0_i32)?;
        for (new, old) in order.iter().enumerate() {
            inverse[*old as usize] = new as i32;
        }
        Ok(Permutation { order, inverse, shape })
    }

    /// y = P x: the elements of each node in the new order, in the precision of y.
    pub fn apply<V: Number, T: Number>(&self, x: &[V], y: &mut [T]) {
        gather(&self.order, self.shape.width, x, y);
    }

    /// y = Pᵀ x.
    pub fn apply_inverse<V: Number, T: Number>(&self, x: &[V], y: &mut [T]) {
        gather(&self.inverse, self.shape.width, x, y);
    }

    /// The row of the old matrix that a row of the new one is.
    fn old_row(&self, row: usize) -> usize {
        let unit = self.shape.unit;
        self.order[row / unit] as usize * unit + row % unit
    }

    fn new_column(&self, column: usize) -> i32 {
        let unit = self.shape.unit;
        if unit == 1 {
            return self.inverse[column];
        }
        self.inverse[column / unit] * unit as i32 + (column % unit) as i32
    }

    /// Offsets and columns of P A Pᵀ, ascending in each row.
    pub fn pattern<T: Number>(&self, a: &CsrView<'_, T>) -> Result<(Vec<i64>, Vec<i32>)> {
        let offsets = par::offsets(a.rows, |row| a.row_range(self.old_row(row)).len())?;
        let columns = par::new_segments(&offsets, 1, par::ROW_GRAIN, 0_i32, |rows, fresh| {
            for row in rows {
                let from = a.row_range(self.old_row(row));
                let to = fresh.next(from.len());
                for (to, k) in to.iter_mut().zip(from) {
                    *to = self.new_column(a.col(k));
                }
                to.sort_unstable();
            }
        })?;
        Ok((offsets, columns))
    }

    /// The values of P A Pᵀ, whose offsets and columns are given.
    pub fn values<T: Number>(&self, a: &CsrView<'_, T>, offsets: &[i64], columns: &[i32]) -> Result<Vec<T>> {
        let len = a.block.len();
        par::new_segments(offsets, len, par::ROW_GRAIN, T::ZERO, |rows, fresh| {
            for row in rows {
                let columns = &columns[offsets[row] as usize..offsets[row + 1] as usize];
                let to = fresh.next(columns.len() * len);
                for from in a.row_range(self.old_row(row)) {
                    let column = self.new_column(a.col(from));
                    let k = columns.partition_point(|c| *c < column);
                    to[k * len..(k + 1) * len].copy_from_slice(a.block_at(from));
                }
            }
        })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.order) + size_of_val(&*self.inverse)
    }
}

/// y = x, node by node from where `map` says.
pub fn gather<V: Number, T: Number>(map: &[i32], width: usize, x: &[V], y: &mut [T]) {
    assert!(x.len() == y.len() && y.len() == map.len() * width);
    par::for_each_row_mut(y, width, par::GRAIN / width, |first, y| {
        for (y, from) in y.chunks_exact_mut(width).zip(&map[first..]) {
            for (y, x) in y.iter_mut().zip(&x[*from as usize * width..]) {
                *y = x.cast();
            }
        }
    });
}

/// The graph of the nodes of a matrix. Its values are not looked at.
pub struct Nodes<'a> {
    pattern: CsrView<'a, f64>,
    unit: usize,
}

impl<'a> Nodes<'a> {
    /// Nodes of so many rows of a square pattern.
    pub fn new(pattern: CsrView<'a, f64>, unit: usize) -> Nodes<'a> {
        Nodes { pattern, unit }
    }

    fn count(&self) -> usize {
        self.pattern.rows / self.unit
    }

    /// The first entries of a node, at most so many.
    fn neighbours(&self, node: usize, most: usize) -> impl Iterator<Item = usize> + '_ {
        let (pattern, unit) = (&self.pattern, self.unit);
        let (start, end) = (pattern.row_range(node * unit).start, pattern.row_range(node * unit + unit - 1).end);
        let columns = &pattern.columns[start..end.min(start + most)];
        columns.iter().map(move |c| (*c - pattern.base) as usize / unit)
    }

    /// What some chunks of rows read of x, in the order of the matrix or in another one.
    pub fn locality(&self, shape: NodeShape, order: Option<&Permutation>) -> Result<Locality> {
        let (n, of_line) = (self.count(), shape.nodes_of_line());
        if n == 0 {
            return Ok(Locality::default());
        }
        let chunks = Chunks::new(n);
        let all = par::map_ranges(chunks.count, 1, |chunk| {
            let mut bits = try_vec((n / of_line) / 64 + 1, 0_u64)?;
            let mut found = Locality { nodes: chunks.length as u64, ..Locality::default() };
            for i in chunks.first(chunk.start)..chunks.first(chunk.start) + chunks.length {
                let i = order.map_or(i, |order| order.order[i] as usize);
                for j in self.neighbours(i, MOST_MEASURED) {
                    let line = order.map_or(j, |order| order.inverse[j] as usize) / of_line;
                    let (word, bit) = (&mut bits[line / 64], 1 << (line % 64));
                    found.lines += u64::from(*word & bit == 0);
                    found.entries += 1;
                    *word |= bit;
                }
            }
            Ok(found)
        })?;
        Ok(all.into_iter().fold(Locality::default(), Locality::plus))
    }

    /// The order of Cuthill and McKee from the roots of `ROOT_BITS`.
    pub fn breadth_first_order(&self, shape: NodeShape) -> Result<Permutation> {
        let n = self.count();
        let reached = try_collect((0..n).map(|_| AtomicI32::new(NOT_REACHED)))?;
        let mut order = try_capacity(n)?;
        let mut begin = 0;
        for bits in ROOT_BITS {
            if order.len() == n {
                break;
            }
            for (i, reached) in reached.iter().enumerate() {
                if reached.load(Ordering::Relaxed) == NOT_REACHED && is_root(i, bits) {
                    reached.store(ROOT, Ordering::Relaxed);
                    order.push(i as i32);
                }
            }
            for _ in 0..LEVELS {
                let end = order.len();
                if begin == end {
                    break;
                }
                self.next_level(begin, &reached, &mut order)?;
                begin = end;
            }
        }
        Permutation::new(order, shape)
    }

    /// Appends the nodes that are reached first from those of the last level, which begins at this position of the order.
    fn next_level(&self, begin: usize, reached: &[AtomicI32], order: &mut Vec<i32>) -> Result<()> {
        let end = order.len();
        if par::threads() == 1 || end - begin < FEWEST_PARALLEL {
            for position in begin..end {
                for j in self.neighbours(order[position] as usize, MOST_NEIGHBOURS) {
                    if reached[j].load(Ordering::Relaxed) == NOT_REACHED {
                        reached[j].store(position as i32, Ordering::Relaxed);
                        order.push(j as i32);
                    }
                }
            }
            return Ok(());
        }
        let level = &order[begin..];
        par::map_ranges(level.len(), par::ROW_GRAIN, |range| {
            for k in range {
                for j in self.neighbours(level[k] as usize, MOST_NEIGHBOURS) {
                    // Most neighbours were reached before, and reading is cheaper.
                    if reached[j].load(Ordering::Relaxed) > (begin + k) as i32 {
                        reached[j].fetch_min((begin + k) as i32, Ordering::Relaxed);
                    }
                }
            }
            Ok(())
        })?;
        let next = par::map_ranges(level.len(), par::ROW_GRAIN, |range| {
            let mut children = Vec::new();
            for k in range {
                let first = children.len();
                for j in self.neighbours(level[k] as usize, MOST_NEIGHBOURS) {
                    // The rows of a node may name a neighbour several times.
                    let is_child = reached[j].load(Ordering::Relaxed) == (begin + k) as i32;
                    if is_child && !children[first..].contains(&(j as i32)) {
                        try_push(&mut children, j as i32)?;
                    }
                }
            }
            Ok(children)
        })?;
        next.iter().for_each(|children| order.extend_from_slice(children));
        Ok(())
    }
}

#[cfg(feature = "unit-tests")]
pub(crate) mod tests {
    use super::*;
    use crate::gallery;
    use crate::hash::hash;
    use crate::sparse::{Block, Csr, Offsets};

    const SCALAR: NodeShape = NodeShape { unit: 1, width: 1, values: 1 };

    /// The matrix of a problem in random order.
    fn shuffled(name: &str) -> Csr<f64> {
        gallery::parse(&format!("shuffled:{name}")).unwrap().matrix
    }

    fn is_permutation(order: &[i32]) -> bool {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        sorted.iter().enumerate().all(|(k, i)| k == *i as usize)
    }

    #[test]
    fn breadth_first_search_restores_the_locality_of_grids() {
        for name in ["poisson5:150", "poisson7:30", "poisson27:26"] {
            let (natural, a) = (gallery::parse(name).unwrap().matrix, shuffled(name));
            let nodes = Nodes::new(a.view(), 1);
            let order = nodes.breadth_first_order(SCALAR).unwrap();
            assert!(is_permutation(&order.order) && is_permutation(&order.inverse));
            let bytes = |locality: Locality| locality.bytes_of_x(SCALAR);
            let before = bytes(nodes.locality(SCALAR, None).unwrap());
            let after = bytes(nodes.locality(SCALAR, Some(&order)).unwrap());
            let wanted = bytes(Nodes::new(natural.view(), 1).locality(SCALAR, None).unwrap());
            assert!(after < 1.5 * wanted && after < before / 5.0, "{name}: {before} {after} {wanted}");
            // What is measured through the order is what the renumbered matrix has.
            let (offsets, columns) = order.pattern(&a.view()).unwrap();
            let renumbered = Nodes::new(view(a.rows, a.cols, &offsets, &columns), 1);
            assert_eq!(renumbered.locality(SCALAR, None).unwrap(), nodes.locality(SCALAR, Some(&order)).unwrap());
        }
    }

    #[test]
    fn orders_do_not_depend_on_threads_and_every_graph_has_one() {
        let single = Csr::from_triplets(1, 1, &[(0, 0, 1.0)]).unwrap();
        let diagonal: Vec<(usize, usize, f64)> = (0..5000).map(|i| (i, i, 1.0)).collect();
        let empty = Csr::<f64>::from_triplets(0, 0, &[]).unwrap();
        let uncoupled = Csr::from_triplets(5000, 5000, &diagonal).unwrap();
        // Few levels, of which the last ones are divided among threads, and more levels than a round has.
        let (tree, path) = (tree(30_000, 8), tree(2000, 1));
        let (hubs, grid) = (shuffled("hubs:3000:hubs=2,every=2"), shuffled("poisson7:12"));
        for a in [single, empty, uncoupled, tree, path, hubs, grid] {
            let order = || Nodes::new(a.view(), 1).breadth_first_order(SCALAR).unwrap().order;
            let alone = order();
            assert!(alone.len() == a.rows && is_permutation(&alone));
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            assert_eq!(pool.install(order), alone);
        }
    }

    /// Nodes of two rows, a matrix of blocks, and long rows.
    #[test]
    fn a_renumbered_matrix_has_the_same_entries() {
        for (a, unit) in
            [(shuffled("poisson5:12x11"), 2), (shuffled("elasticity:3"), 1), (shuffled("hubs:1200:hubs=1,every=1"), 1)]
        {
            let shape = NodeShape { unit, width: unit * a.block.rows, values: a.block.len() };
            let pattern = view(a.rows, a.cols, &a.offsets, &a.columns);
            let order = Nodes::new(pattern, unit).breadth_first_order(shape).unwrap();
            assert!(is_permutation(&order.order) && order.order.iter().enumerate().any(|(k, i)| k != *i as usize));
            let (offsets, columns) = order.pattern(&a.view()).unwrap();
            let values = order.values(&a.view(), &offsets, &columns).unwrap();
            let new = Csr { offsets, columns, values, ..a.clone() };
            // P A x is the product of the other matrix with P x.
            let n = a.rows * a.block.rows;
            let x: Vec<f64> = (0..n).map(|i| (hash(i, 3) % 17) as f64).collect();
            let (mut px, mut pax, mut back) = (vec![0.0; n], vec![0.0; n], vec![0.0_f32; n]);
            order.apply(&x, &mut px);
            order.apply(&product(&a, &x), &mut pax);
            order.apply_inverse(&px, &mut back);
            let wanted = product(&new, &px);
            assert!(pax.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= 1e-12 * a.abs().max(1.0)));
            assert!(back.iter().zip(&x).all(|(a, b)| f64::from(*a) == *b));
        }
    }

    /// The pattern of a tree whose nodes have so many children.
    pub(crate) fn tree(nodes: usize, children: usize) -> Csr<f64> {
        let edges = (1..nodes).flat_map(|i| [(i, (i - 1) / children, 1.0), ((i - 1) / children, i, 1.0)]);
        Csr::from_triplets(nodes, nodes, &edges.collect::<Vec<_>>()).unwrap()
    }

    /// A pattern without values.
    fn view<'a>(rows: usize, cols: usize, offsets: &'a [i64], columns: &'a [i32]) -> CsrView<'a, f64> {
        CsrView { rows, cols, block: Block::SCALAR, offsets: Offsets::I64(offsets), columns, values: &[], base: 0 }
    }

    fn product(a: &Csr<f64>, x: &[f64]) -> Vec<f64> {
        let (a, b) = (a.view(), a.block);
        let mut y = vec![0.0; a.scalar_rows()];
        for i in 0..a.rows {
            for (j, block) in a.row(i) {
                for (e, v) in block.iter().enumerate() {
                    y[i * b.rows + e / b.cols] += v * x[j * b.cols + e % b.cols];
                }
            }
        }
        y
    }
}
