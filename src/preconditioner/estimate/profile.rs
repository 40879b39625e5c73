//! Kinds of rows of a matrix, by the number of entries and of large couplings. A sample is representative if its kinds
//! have the same shares as in the matrix.

use crate::error::{Result, try_filled, try_push, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::CsrView;

/// A node is long, a hub, if it has so many times the mean number of entries.
const LONG: usize = 32;

/// And at least so many entries for each of its rows.
const LONG_ROW: usize = 64;

/// Counts up to this one have a class each; larger ones are grouped into quarters of a power of two.
const EXACT: usize = 32;

/// More classes than 32-bit counts have.
const SIDE: usize = EXACT + 4 * 32;

/// A coupling is large if it is at least this share of the largest of its row.
const STRONG: f64 = 0.25;

/// The kinds of the nodes of a matrix; a node has several block rows.
pub struct Profile {
    /// Block rows of a node.
    pub group: usize,
    /// Kind of each node.
    kinds: Vec<u16>,
    /// Entries (blocks) from which on a node is long.
    long: usize,
    /// Of all nodes.
    pub all: Histogram,
    /// Nodes without couplings, and long ones.
    pub decoupled: usize,
    pub long_nodes: Vec<usize>,
}

impl Profile {
    /// Reads every entry, on the threads of the caller.
    pub fn new<T: Scalar>(a: &CsrView<'_, T>, group: usize) -> Result<Profile> {
        let nodes = a.rows / group;
        let long = (LONG * a.nnz() / nodes.max(1)).max(LONG_ROW * group);
        let mut kinds = try_vec(nodes, 0_u16)?;
        par::for_each_mut(&mut kinds, par::ROW_GRAIN, |first, kinds| {
            kinds.iter_mut().enumerate().for_each(|(i, kind)| *kind = kind_of(a, group, first + i));
        });
        let mut profile = Profile { group, kinds, long, all: Histogram::new()?, decoupled: 0, long_nodes: Vec::new() };
        for node in 0..nodes {
            let entries = profile.entries(a, node);
            profile.all.add(profile.kinds[node], 1.0, entries as f64);
            if profile.is_decoupled(node) {
                profile.decoupled += 1;
            } else if profile.is_long(a, node) {
                try_push(&mut profile.long_nodes, node)?;
            }
        }
        Ok(profile)
    }

    pub fn nodes(&self) -> usize {
        self.kinds.len()
    }

    pub fn kind(&self, node: usize) -> u16 {
        self.kinds[node]
    }

    /// Whether the node has no couplings.
    pub fn is_decoupled(&self, node: usize) -> bool {
        usize::from(self.kinds[node]).is_multiple_of(SIDE)
    }

    pub fn is_long<T: Scalar>(&self, a: &CsrView<'_, T>, node: usize) -> bool {
        self.entries(a, node) >= self.long
    }

    /// Entries (blocks) of a node.
    pub fn entries<T: Scalar>(&self, a: &CsrView<'_, T>, node: usize) -> usize {
        (node * self.group..(node + 1) * self.group).map(|row| a.row_range(row).len()).sum()
    }
}

/// The number of entries and of large couplings; a node without couplings has none.
fn kind_of<T: Scalar>(a: &CsrView<'_, T>, group: usize, node: usize) -> u16 {
    let (mut entries, mut strong) = (0, 0);
    for row in node * group..(node + 1) * group {
        let size = |block: &[T]| block.iter().fold(0.0, |most: f64, v| most.max(v.to_f64().abs()));
        let couplings = || a.row(row).filter(|(j, _)| j / group != node).map(|(_, block)| size(block));
        let most = couplings().fold(0.0, f64::max);
        if most > 0.0 {
            strong += couplings().filter(|c| *c >= STRONG * most).count();
        }
        entries += a.row_range(row).len();
    }
    (class(entries) * SIDE + class(strong)) as u16
}

fn class(number: usize) -> usize {
    match number {
        0..=EXACT => number,
        _ => (EXACT + (4.0 * (number as f64 / EXACT as f64).log2()) as usize).min(SIDE - 1),
    }
}

/// Binary logarithm of the counts of a class.
fn place(class: usize) -> f64 {
    let number = if class <= EXACT { class as f64 } else { EXACT as f64 * ((class - EXACT) as f64 / 4.0).exp2() };
    (1.0 + number).log2()
}

/// Nodes and entries of each kind.
pub struct Histogram {
    of: Vec<(f64, f64)>,
    pub nodes: f64,
    pub entries: f64,
}

impl Histogram {
    pub fn new() -> Result<Histogram> {
        Ok(Histogram { of: try_filled(SIDE * SIDE, (0.0, 0.0))?, nodes: 0.0, entries: 0.0 })
    }

    pub fn add(&mut self, kind: u16, nodes: f64, entries: f64) {
        let of = &mut self.of[usize::from(kind)];
        *of = (of.0 + nodes, of.1 + entries);
        self.nodes += nodes;
        self.entries += entries;
    }

    /// The coupled kind whose share of entries exceeds that of `other` here by most.
    pub fn missing(&self, other: &Histogram) -> u16 {
        let short = |kind: usize| other.of[kind].1 / other.entries.max(1.0) - self.of[kind].1 / self.entries.max(1.0);
        let coupled = (0..self.of.len()).filter(|kind| !kind.is_multiple_of(SIDE) && other.of[*kind].0 > 0.0);
        coupled.max_by(|i, j| short(*i).total_cmp(&short(*j))).unwrap_or_default() as u16
    }

    /// Difference of the shares of kinds, from 0 to 2: the share of rows that would have to change kind. Kinds whose
    /// counts differ by less than a factor of two count less.
    pub fn unlike(&self, other: &Histogram) -> f64 {
        let by = |share: &dyn Fn(&Histogram, usize) -> f64| {
            let along = |kind: &dyn Fn(usize, usize) -> usize| {
                let sum = |h: &Histogram, i: usize| (0..SIDE).map(|j| share(h, kind(i, j))).sum::<f64>();
                let (mut other_kind, mut moved, mut ahead) = (0.0, 0.0, 0.0);
                for i in 0..SIDE {
                    let more = sum(self, i) - sum(other, i);
                    other_kind += more.abs() / 2.0;
                    ahead += more;
                    moved += ahead.abs() * (place(i + 1) - place(i));
                }
                f64::min(other_kind, moved)
            };
            along(&|i, j| i * SIDE + j) + along(&|i, j| j * SIDE + i)
        };
        let nodes = by(&|h, kind| h.of[kind].0 / h.nodes.max(1.0));
        let entries = by(&|h, kind| h.of[kind].1 / h.entries.max(1.0));
        nodes.max(entries)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    fn profile(a: &Csr<f64>) -> Profile {
        Profile::new(&a.view(), 1).unwrap()
    }

    #[test]
    fn rows_are_decoupled_long_or_ordinary() {
        let a = gallery::hubs(1000, 1, 1).unwrap();
        let hub = profile(&a);
        assert_eq!((hub.long_nodes.as_slice(), hub.decoupled), (&[0][..], 0));
        let zeros = [(0, 0, 1.0), (0, 1, 0.0), (1, 0, -1.0), (1, 1, 2.0), (2, 2, 1.0)];
        let some = profile(&Csr::from_triplets(3, 3, &zeros).unwrap());
        assert_eq!(some.decoupled, 2);
        assert!(some.is_decoupled(0) && !some.is_decoupled(1) && some.is_decoupled(2));
    }

    #[test]
    fn grids_of_another_size_are_alike_and_other_stencils_are_not() {
        let [small, large] = [30, 40].map(|n| profile(&gallery::poisson7(n, n, n).unwrap()).all);
        let [flat, wide] =
            [gallery::poisson5(100, 100), gallery::poisson27(30, 30, 30)].map(|a| profile(&a.unwrap()).all);
        assert_eq!(small.unlike(&small), 0.0);
        assert!(small.unlike(&large) < 0.03, "{}", small.unlike(&large));
        assert!(small.unlike(&flat) > 0.5 && small.unlike(&wide) > 1.0);
        assert_eq!(small.unlike(&flat), flat.unlike(&small));
    }

    #[test]
    fn classes_ascend_and_end() {
        assert!((0..5000).all(|n| class(n) <= class(n + 1) && place(class(n)) <= place(class(n + 1))));
        assert!(class(usize::MAX) < SIDE && SIDE * SIDE <= usize::from(u16::MAX));
        assert!((place(class(1 << 20)) - 20.0).abs() < 0.3);
    }
}
