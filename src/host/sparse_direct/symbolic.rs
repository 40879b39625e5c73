//! Symbolic factorisation: elimination tree, postorder, column counts and supernodes, before any numeric work.
//!
//! See Davis, Direct Methods for Sparse Linear Systems, chapter 4, and Liu, SIAM J. Matrix Anal. Appl. 11, 1990.

use super::pattern::Pattern;
use crate::error::{Result, try_capacity, try_vec};
use std::ops::Range;

/// No parent.
pub const NONE: i32 = -1;

/// The elimination order with its tree and the size of the factor.
pub struct Tree {
    /// The variable of each column of the factor.
    pub order: Vec<i32>,
    /// The column of each variable.
    pub position: Vec<i32>,
    /// The parent of each column in the elimination tree, [`NONE`] for roots. Columns are in postorder.
    parent: Vec<i32>,
    /// Entries of each column of L, the diagonal included.
    counts: Vec<i32>,
}

impl Tree {
    /// Postorders the elimination tree of a pattern for this order, and counts the entries of L.
    pub fn new(pattern: &Pattern, order: &[i32]) -> Result<Tree> {
        let first = elimination_tree(pattern, order)?;
        let tree = relabel(order, &first, &postorder(&first, |_| 0)?)?;
        let counts = column_counts(pattern, &tree)?;
        // The child with the longest columns goes last: its columns are next to those of the parent, and can be merged
        // with them.
        let post = postorder(&tree.parent, |j| counts[j])?;
        let mut last = relabel(&tree.order, &tree.parent, &post)?;
        last.counts = try_capacity(counts.len())?;
        last.counts.extend(post.iter().map(|j| counts[*j as usize]));
        Ok(last)
    }

    /// Entries of L, the diagonal included.
    pub fn fill(&self) -> usize {
        self.counts.iter().map(|c| *c as usize).sum()
    }

    /// Multiplications and additions of a Cholesky factorisation.
    pub fn flops(&self) -> f64 {
        self.counts.iter().map(|c| f64::from(*c) * f64::from(*c)).sum()
    }
}

/// The parent of each column: the first row below the diagonal of its column of L.
fn elimination_tree(pattern: &Pattern, order: &[i32]) -> Result<Vec<i32>> {
    let position = inverse(order)?;
    let n = order.len();
    let (mut parent, mut ancestor) = (try_vec(n, NONE)?, try_vec(n, NONE)?);
    for (j, variable) in order.iter().enumerate() {
        let before = pattern.row(*variable as usize).iter().map(|i| position[*i as usize]).filter(|i| *i < j as i32);
        for i in before {
            let mut i = i;
            while i != NONE && i != j as i32 {
                let next = std::mem::replace(&mut ancestor[i as usize], j as i32);
                if next == NONE {
                    parent[i as usize] = j as i32;
                }
                i = next;
            }
        }
    }
    Ok(parent)
}

/// The inverse of a permutation.
fn inverse(order: &[i32]) -> Result<Vec<i32>> {
    let mut position = try_vec(order.len(), 0)?;
    for (k, i) in order.iter().enumerate() {
        position[*i as usize] = k as i32;
    }
    Ok(position)
}

/// A postorder of a forest whose parents come after their children. Children go by ascending key, then by number.
fn postorder(parent: &[i32], key: impl Fn(usize) -> i32) -> Result<Vec<i32>> {
    let n = parent.len();
    // Children in linked lists; a virtual node n is the parent of the roots.
    let (mut child, mut sibling) = (try_vec(n + 1, NONE)?, try_vec(n, NONE)?);
    let mut by_key: Vec<i32> = try_capacity(n)?;
    by_key.extend(0..n as i32);
    by_key.sort_unstable_by_key(|j| (key(*j as usize), *j));
    for &j in by_key.iter().rev() {
        let of = if parent[j as usize] == NONE { n } else { parent[j as usize] as usize };
        sibling[j as usize] = std::mem::replace(&mut child[of], j);
    }
    let (mut order, mut stack) = (try_capacity(n)?, by_key);
    stack.clear();
    let mut next = child[n];
    while next != NONE || !stack.is_empty() {
        if next != NONE {
            stack.push(next);
            next = child[next as usize];
            continue;
        }
        if let Some(done) = stack.pop() {
            order.push(done);
            next = sibling[done as usize];
        }
    }
    Ok(order)
}

/// Order and tree with columns numbered by a postorder.
fn relabel(order: &[i32], parent: &[i32], post: &[i32]) -> Result<Tree> {
    let rank = inverse(post)?;
    let mut new_order: Vec<i32> = try_capacity(order.len())?;
    new_order.extend(post.iter().map(|j| order[*j as usize]));
    let mut new_parent = try_capacity(order.len())?;
    new_parent.extend(post.iter().map(|j| match parent[*j as usize] {
        NONE => NONE,
        parent => rank[parent as usize],
    }));
    let position = inverse(&new_order)?;
    Ok(Tree { order: new_order, position, parent: new_parent, counts: Vec::new() })
}

/// Entries of each column of L. Row i of L is the subtree of the elimination tree that the entries of row i of A span
/// with i as root. Column j gains an entry for each row subtree in which it is a leaf, and loses one where two leaves
/// meet; the counts are the sums over the subtrees of the tree (Gilbert, Ng and Peyton, 1994).
fn column_counts(pattern: &Pattern, tree: &Tree) -> Result<Vec<i32>> {
    let n = tree.order.len();
    let parent = &tree.parent;
    // The first column of the subtree of each column, by postorder.
    let mut first = try_capacity(n)?;
    first.extend(0..n as i32);
    let mut counts = try_vec(n, 1_i32)?;
    for j in 0..n {
        if parent[j] != NONE {
            let p = parent[j] as usize;
            first[p] = first[p].min(first[j]);
            // Not a leaf of the tree; its own row is counted with its descendants'.
            counts[p] = 0;
        }
    }
    let (mut previous, mut ancestor) = (try_vec(n, NONE)?, try_capacity(n)?);
    ancestor.extend(0..n as i32);
    for j in 0..n {
        if parent[j] != NONE {
            counts[parent[j] as usize] -= 1;
        }
        for &i in pattern.row(tree.order[j] as usize) {
            let i = tree.position[i as usize] as usize;
            if i <= j {
                continue;
            }
            let before = std::mem::replace(&mut previous[i], j as i32);
            if before != NONE && before >= first[j] {
                // Inside of the row subtree.
                continue;
            }
            counts[j] += 1;
            if before != NONE {
                counts[find(&mut ancestor, before) as usize] -= 1;
            }
        }
        if parent[j] != NONE {
            ancestor[j] = parent[j];
        }
    }
    for j in 0..n {
        if parent[j] != NONE {
            counts[parent[j] as usize] += counts[j];
        }
    }
    Ok(counts)
}

/// The last ancestor that was joined so far, with path compression.
fn find(ancestor: &mut [i32], from: i32) -> i32 {
    let mut root = from;
    while ancestor[root as usize] != root {
        root = ancestor[root as usize];
    }
    let mut i = from;
    while i != root {
        i = std::mem::replace(&mut ancestor[i as usize], root);
    }
    root
}

/// A set of columns of L that are stored as one dense panel.
#[derive(Clone, Copy)]
struct Supernode {
    first: usize,
    /// Columns.
    width: usize,
    /// Rows of the panel, those of its own columns included.
    height: usize,
    /// Stored zeros.
    zeros: usize,
    /// The column that is the parent of the last one.
    parent: i32,
}

/// The pattern of L in supernodes, for a numeric factorisation.
pub struct Symbolic {
    /// The order of elimination.
    pub tree: Tree,
    /// First column of each supernode, and the number of columns.
    pub first: Vec<i32>,
    /// The parent of each supernode, [`NONE`] for roots. They are in postorder.
    pub parent: Vec<i32>,
    /// Where the rows below its columns begin in `rows`, of each supernode, and the end.
    pub row_offsets: Vec<usize>,
    /// The rows below the columns of each supernode, ascending.
    pub rows: Vec<i32>,
    /// Where the panel of each supernode begins in the values of L, and their number.
    pub panels: Vec<i64>,
}

impl Symbolic {
    /// The supernodes of a pattern, whose tree is known.
    pub fn new(pattern: &Pattern, tree: Tree) -> Result<Symbolic> {
        let n = tree.order.len();
        let supernodes = supernodes(&tree)?;
        let count = supernodes.len();
        let mut first: Vec<i32> = try_capacity(count + 1)?;
        first.extend(supernodes.iter().map(|s| s.first as i32));
        first.push(n as i32);
        let mut of_column = try_vec(n, 0_i32)?;
        for (s, supernode) in supernodes.iter().enumerate() {
            of_column[supernode.first..supernode.first + supernode.width].fill(s as i32);
        }
        let mut parent = try_capacity(count)?;
        parent.extend(supernodes.iter().map(|s| match s.parent {
            NONE => NONE,
            column => of_column[column as usize],
        }));
        let (mut panels, mut row_offsets) = (try_capacity(count + 1)?, try_capacity(count + 1)?);
        let (mut values, mut below) = (0_i64, 0);
        for s in &supernodes {
            panels.push(values);
            row_offsets.push(below);
            values += (s.width * s.height) as i64;
            below += s.height - s.width;
        }
        panels.push(values);
        row_offsets.push(below);
        let mut symbolic = Symbolic { tree, first, parent, row_offsets, rows: try_vec(below, 0)?, panels };
        symbolic.find_rows(pattern)?;
        Ok(symbolic)
    }

    /// Number of supernodes.
    pub fn count(&self) -> usize {
        self.parent.len()
    }

    /// The columns of a supernode.
    pub fn columns(&self, s: usize) -> Range<usize> {
        self.first[s] as usize..self.first[s + 1] as usize
    }

    /// The rows below the columns of a supernode.
    pub fn below(&self, s: usize) -> &[i32] {
        &self.rows[self.row_offsets[s]..self.row_offsets[s + 1]]
    }

    /// Rows of the panel of a supernode, those of its own columns included.
    pub fn height(&self, s: usize) -> usize {
        self.columns(s).len() + self.below(s).len()
    }

    /// Children as linked lists: the first child of each supernode, and the next sibling; both ascend.
    pub fn children(&self) -> Result<(Vec<i32>, Vec<i32>)> {
        let (mut child, mut sibling) = (try_vec(self.count(), NONE)?, try_vec(self.count(), NONE)?);
        for s in (0..self.count()).rev() {
            if self.parent[s] != NONE {
                sibling[s] = std::mem::replace(&mut child[self.parent[s] as usize], s as i32);
            }
        }
        Ok((child, sibling))
    }

    /// The rows below the columns of each supernode: those of A in its columns, and those of its children.
    fn find_rows(&mut self, pattern: &Pattern) -> Result<()> {
        let (child, sibling) = self.children()?;
        let mut seen = try_vec(self.tree.order.len(), NONE)?;
        for (s, first_child) in child.into_iter().enumerate() {
            let (columns, range) = (self.columns(s), self.row_offsets[s]..self.row_offsets[s + 1]);
            let mut end = range.start;
            for j in columns.clone() {
                for i in pattern.row(self.tree.order[j] as usize) {
                    let i = self.tree.position[*i as usize];
                    if i as usize >= columns.end && seen[i as usize] != s as i32 {
                        seen[i as usize] = s as i32;
                        self.rows[end] = i;
                        end += 1;
                    }
                }
            }
            let mut c = first_child;
            while c != NONE {
                for at in self.row_offsets[c as usize]..self.row_offsets[c as usize + 1] {
                    let i = self.rows[at];
                    if i as usize >= columns.end && seen[i as usize] != s as i32 {
                        seen[i as usize] = s as i32;
                        self.rows[end] = i;
                        end += 1;
                    }
                }
                c = sibling[c as usize];
            }
            assert_eq!(end, range.end, "the rows of a supernode are as many as the counts say");
            self.rows[range].sort_unstable();
        }
        Ok(())
    }

    /// The supernode of each column.
    pub fn supernode_of(&self) -> Result<Vec<i32>> {
        let mut of_column = try_vec(self.tree.order.len(), 0_i32)?;
        for s in 0..self.count() {
            of_column[self.columns(s)].fill(s as i32);
        }
        Ok(of_column)
    }

    /// Most values that the contributions of children hold at one time, and the fronts that they are added to.
    pub fn stack(&self) -> Result<usize> {
        let (child, sibling) = self.children()?;
        let size = |s: usize| (self.row_offsets[s + 1] - self.row_offsets[s]).pow(2);
        let (mut held, mut most) = (0, 0);
        for (s, first_child) in child.into_iter().enumerate() {
            held += size(s);
            most = most.max(held);
            let mut c = first_child;
            while c != NONE {
                held -= size(c as usize);
                c = sibling[c as usize];
            }
        }
        Ok(most)
    }

    /// Bytes of the arrays.
    pub fn bytes(&self) -> usize {
        let columns = self.tree.order.len() * 4 * size_of::<i32>();
        let supernodes = self.count() * (2 * size_of::<i32>() + 2 * size_of::<usize>());
        columns + supernodes + size_of_val(self.rows.as_slice())
    }
}

/// Whether a child is merged with its parent into a supernode of this width, of which so large a share are zeros. Narrow
/// panels are slow, so they may hold many.
fn is_merged(width: usize, zeros: f64) -> bool {
    match width {
        ..9 => zeros < 0.6,
        9..25 => zeros < 0.25,
        25..65 => zeros < 0.1,
        _ => zeros < 0.03,
    }
}

/// Columns with the same rows, and children merged with their parents where few zeros are stored for it.
fn supernodes(tree: &Tree) -> Result<Vec<Supernode>> {
    let n = tree.order.len();
    let mut stack: Vec<Supernode> = try_capacity(n)?;
    for j in 0..n {
        let (count, parent) = (tree.counts[j] as usize, tree.parent[j]);
        if let Some(last) = stack.last_mut()
            && last.parent == j as i32
            && last.zeros == 0
            && last.height == count + last.width
        {
            last.width += 1;
            last.parent = parent;
            continue;
        }
        // What comes before is complete now.
        merge_last(&mut stack);
        stack.push(Supernode { first: j, width: 1, height: count, zeros: 0, parent });
    }
    merge_last(&mut stack);
    Ok(stack)
}

/// Merges the last supernode with the ones before it, as long as they are its children.
fn merge_last(stack: &mut Vec<Supernode>) {
    while let [.., child, last] = stack.as_mut_slice() {
        let columns = last.first as i32..(last.first + last.width) as i32;
        if !columns.contains(&child.parent) {
            return;
        }
        let (width, height) = (child.width + last.width, child.width + last.height);
        let zeros = child.zeros + last.zeros + child.width * (height - child.height);
        let stored = width * height - width * (width - 1) / 2;
        if !is_merged(width, zeros as f64 / stored as f64) {
            return;
        }
        *child = Supernode { first: child.first, width, height, zeros, parent: last.parent };
        stack.pop();
    }
}
