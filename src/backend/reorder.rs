//! Renumbering: what host and device must agree on, and when it pays.
//!
//! Unknowns that are coupled get numbers near each other, so that rows of a matrix that are computed at the same time read the same
//! cache lines of x. The order is that of Cuthill and McKee from several roots at once: the roots, then their neighbours, then the
//! neighbours of these, and so on; nodes of a level in the order of the nodes from which they are reached first. Rows one after the other
//! then have columns one after the other, too.

use crate::hash::hash;

/// In each round one node in 2^k, for these k, is a root if it has no number yet; in the last round each such node is one. One region for
/// each root of a large graph keeps levels few. Later rounds are for what no root reaches, and for graphs with more levels.
pub const ROOT_BITS: [u32; 4] = [20, 14, 8, 0];

/// Levels of a round, at most.
pub const LEVELS: usize = 512;

/// Entries of a node that the search looks at: one row with very many must not keep all others waiting.
pub const MOST_NEIGHBOURS: usize = 64;

/// Whether a node without a number becomes a root in the round of so many bits; as `reorder_roots` in `kernels/reorder.cu`.
pub fn is_root(node: usize, bits: u32) -> bool {
    node == 0 || hash(node, 0) & ((1 << bits) - 1) == 0
}

/// Nodes of a chunk, about what one core or multiprocessor has in work at one time.
const CHUNK: usize = 1024;

/// Entries of a node that the measure of locality looks at.
pub const MOST_MEASURED: usize = 256;

/// Bytes of a cache line, and of an element of x.
const LINE: usize = 64;
const ELEMENT: usize = 8;

/// Columns of x that a node of a chunk adds in a good order: its own, and one on the surface of the chunk.
const COLUMNS_IN_GOOD_ORDER: f64 = 2.0;

/// Systems with fewer rows are not renumbered: their vectors are in the cache in any order.
pub const FEWEST_ROWS: usize = 1 << 16;

/// Renumbering is tried where a product reads so many times the bytes that it would read in a good order.
const PAYS: f64 = 1.5;

/// It is kept where it reduces the bytes by this factor at least.
const IMPROVES: f64 = 1.25;

/// The chunks of nodes by which locality is measured.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    nodes: usize,
    /// Nodes of a chunk.
    pub length: usize,
    /// How many there are.
    pub count: usize,
}

impl Chunks {
    /// For so many nodes.
    pub fn new(nodes: usize) -> Chunks {
        Chunks { nodes, length: nodes.min(CHUNK), count: (nodes / (32 * CHUNK)).clamp(4, 32) }
    }

    /// The first node of a chunk.
    pub fn first(&self, chunk: usize) -> usize {
        (self.nodes - self.length) * chunk / (self.count - 1)
    }
}

/// The unknowns of a matrix that keep their numbers relative to each other.
#[derive(Clone, Copy, Debug)]
pub struct NodeShape {
    /// Rows of the matrix, in blocks where it has blocks.
    pub unit: usize,
    /// Scalar rows.
    pub width: usize,
    /// Scalar values of an entry.
    pub values: usize,
}

impl NodeShape {
    /// Nodes whose elements of x share a cache line.
    pub fn nodes_of_line(&self) -> usize {
        (LINE / ELEMENT / self.width).max(1)
    }
}

/// What the rows of some chunks read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// Nodes.
    pub nodes: u64,
    /// Entries of the matrix.
    pub entries: u64,
    /// Cache lines of x, each counted once in a chunk.
    pub lines: u64,
}

impl Locality {
    /// Both together.
    pub fn plus(self, other: Locality) -> Locality {
        let Locality { nodes, entries, lines } = other;
        Locality { nodes: self.nodes + nodes, entries: self.entries + entries, lines: self.lines + lines }
    }

    /// Bytes of x for each scalar row.
    pub fn bytes_of_x(&self, shape: NodeShape) -> f64 {
        (self.lines as usize * shape.nodes_of_line() * ELEMENT) as f64 / self.nodes.max(1) as f64
    }

    /// Bytes that a product reads, over those in a good order.
    fn cost(&self, shape: NodeShape) -> f64 {
        let matrix = self.entries as f64 * (shape.values * ELEMENT + size_of::<i32>()) as f64;
        let rows = self.nodes as f64 * shape.width as f64;
        let good = rows * COLUMNS_IN_GOOD_ORDER * ELEMENT as f64;
        (matrix + rows * self.bytes_of_x(shape)) / (matrix + good).max(1.0)
    }

    /// Whether another order may pay.
    pub fn is_bad(&self, shape: NodeShape) -> bool {
        self.cost(shape) >= PAYS
    }

    /// Whether an order with this locality is worth what it takes, where another has that of `before`.
    pub fn pays(&self, before: &Locality, shape: NodeShape) -> bool {
        IMPROVES * self.cost(shape) <= before.cost(shape)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn chunks_lie_in_the_matrix() {
        for nodes in [1, 5, 1023, 1024, 1025, 70_000, 3_000_000] {
            let chunks = Chunks::new(nodes);
            assert_eq!((chunks.first(0), chunks.first(chunks.count - 1) + chunks.length), (0, nodes));
        }
    }

    /// Seven entries in a row, each in a line of its own, or in rows of a grid; 27 blocks.
    #[test]
    fn random_order_is_bad_and_that_of_grids_is_not() {
        let scalar = NodeShape { unit: 1, width: 1, values: 1 };
        let (random, natural) = (
            Locality { nodes: 1000, entries: 7000, lines: 7000 },
            Locality { nodes: 1000, entries: 7000, lines: 5 * 125 },
        );
        assert!(random.is_bad(scalar) && !natural.is_bad(scalar) && natural.pays(&random, scalar));
        assert!(!random.pays(&random, scalar) && random.bytes_of_x(scalar) == 448.0);
        let blocks = NodeShape { unit: 1, width: 3, values: 9 };
        assert!(Locality { nodes: 1000, entries: 27_000, lines: 27_000 }.is_bad(blocks));
        assert!(!Locality { nodes: 1000, entries: 27_000, lines: 4_000 }.is_bad(blocks));
    }
}
