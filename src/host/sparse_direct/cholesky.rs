//! Multifrontal factorisation A = L S Lᵀ of a symmetric matrix, S a diagonal of signs (Duff and Reid, 1983).
//!
//! The columns of a supernode are assembled in a dense front from A and from the contributions of its children, and
//! factorised there. What the front adds to later columns is its own contribution. Subtrees are independent and run in
//! parallel; above them the products inside of a front do. Without a negative pivot it is a Cholesky factorisation.
//! There is no pivoting for size, so that a matrix with negative pivots may need refinement or another method.

use super::front::{self, Pivots};
use super::symbolic::{NONE, Symbolic};
use crate::error::{Result, fail, try_capacity, try_vec};
use crate::par;
use crate::sparse::Csr;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// Subtrees run by themselves up to this share of all operations.
const SHARE: f64 = 1.0 / 32.0;

/// How zero pivots are treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ZeroPivots {
    /// An error.
    Refuse,
    /// Pivots up to this share of their diagonal entry are left out, as is right for a positive semidefinite matrix and
    /// a consistent right-hand side. A matrix with a negative pivot needs pivots that are chosen by size.
    LeaveOut(f64),
}

impl ZeroPivots {
    /// Pivots up to this are zero, in a matrix of `n` rows whose diagonal is about 1.
    pub fn bound(self, n: usize) -> f64 {
        match self {
            ZeroPivots::Refuse => 4.0 * f64::EPSILON * (n as f64).sqrt(),
            ZeroPivots::LeaveOut(bound) => bound,
        }
    }
}

/// A failed factorisation.
#[derive(Debug)]
pub enum Failure {
    /// The matrix is singular: no pivot but zero is left for this variable.
    Singular(usize),
    /// Pivots must be chosen by size.
    NeedsPivoting,
    /// Out of memory.
    Error(crate::error::Error),
}

impl From<crate::error::Error> for Failure {
    fn from(error: crate::error::Error) -> Failure {
        Failure::Error(error)
    }
}

/// What the pivots tell about a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Inertia {
    /// Negative pivots, which are as many as negative eigenvalues.
    pub negative: usize,
    /// Pivots that were left out.
    pub left_out: usize,
    /// The smallest pivot in relation to its diagonal entry.
    pub smallest: f64,
}

impl Inertia {
    /// That of no pivots.
    pub const NONE: Inertia = Inertia { negative: 0, left_out: 0, smallest: f64::INFINITY };

    /// For the columns of a front of a matrix of `n` rows, whose diagonal is about 1.
    pub fn pivots(&mut self, zero_pivots: ZeroPivots, n: usize) -> Pivots<'_> {
        let Inertia { negative, left_out, smallest } = self;
        let is_semidefinite = zero_pivots != ZeroPivots::Refuse;
        Pivots { tiny: zero_pivots.bound(n), is_semidefinite, unchecked: 0..0, smallest, negative, left_out }
    }

    /// Refuses a factor whose negative pivots made it grow, and zero pivots that may not be left out.
    pub fn check(
        &self,
        zero_pivots: ZeroPivots,
        largest: impl FnOnce() -> f64,
        first_left_out: impl FnOnce() -> Option<usize>,
    ) -> std::result::Result<(), Failure> {
        let largest = if self.negative > 0 { largest() } else { 0.0 };
        if largest.is_nan() || largest > GROWTH {
            return Err(Failure::NeedsPivoting);
        }
        match first_left_out() {
            Some(variable) if zero_pivots == ZeroPivots::Refuse => Err(Failure::Singular(variable)),
            _ => Ok(()),
        }
    }
}

/// The pattern of a factor, and where the entries of the matrix go.
pub struct Analysis {
    pub symbolic: Symbolic,
    /// The position in L of each entry of A.
    positions: Vec<usize>,
    child: Vec<i32>,
    sibling: Vec<i32>,
    /// Supernodes that are factorised one after the other by one task, or above the subtrees by all.
    tasks: Vec<Task>,
    /// Where the values of L of each task begin.
    task_panels: Vec<i64>,
    /// Most values of contributions at one time, when the tasks run one after the other.
    pub stack: usize,
}

struct Task {
    begin: usize,
    end: usize,
    is_subtree: bool,
}

/// The factor of a matrix.
pub struct Cholesky {
    pub analysis: Arc<Analysis>,
    pub inertia: Inertia,
    values: Vec<f64>,
    /// For the rows below a supernode.
    below: Vec<f64>,
}

impl Analysis {
    /// For the pattern of A + Aᵀ, whose supernodes are known.
    pub fn new(a: &Csr<f64>, symbolic: Symbolic) -> Result<Analysis> {
        let of_column = symbolic.supernode_of()?;
        let mut positions = try_capacity(a.columns.len())?;
        let position = &symbolic.tree.position;
        for i in 0..a.rows {
            for &j in super::pattern::columns_of(a, i) {
                let (p, q) = (position[i], position[j as usize]);
                let (row, column) = (p.max(q) as usize, p.min(q) as usize);
                let s = of_column[column] as usize;
                let (columns, below) = (symbolic.columns(s), symbolic.below(s));
                let local = match row < columns.end {
                    true => row - columns.start,
                    false => columns.len() + below.partition_point(|r| (*r as usize) < row),
                };
                let height = columns.len() + below.len();
                positions.push(symbolic.panels[s] as usize + (column - columns.start) * height + local);
            }
        }
        let (child, sibling) = symbolic.children()?;
        let tasks = tasks(&symbolic)?;
        let mut task_panels = try_capacity(tasks.len() + 1)?;
        task_panels.extend(tasks.iter().map(|task| symbolic.panels[task.begin]));
        task_panels.push(symbolic.panels[symbolic.count()]);
        let stack = symbolic.stack()?;
        Ok(Analysis { symbolic, positions, child, sibling, tasks, task_panels, stack })
    }

    /// Values of L, zeros inside of panels included.
    pub fn stored(&self) -> usize {
        self.symbolic.panels[self.symbolic.count()] as usize
    }

    /// Bytes of what is kept between factorisations.
    pub fn bytes(&self) -> usize {
        self.symbolic.bytes() + size_of_val(self.positions.as_slice()) + 2 * size_of_val(self.child.as_slice())
    }
}

/// Runs of subtrees that are each a small part of the work, and what is above them.
fn tasks(symbolic: &Symbolic) -> Result<Vec<Task>> {
    let count = symbolic.count();
    let (mut work, mut first) = (try_vec(count, 0.0)?, try_capacity(count)?);
    first.extend(0..count);
    let mut total = 0.0;
    for s in 0..count {
        let (width, below) = (symbolic.columns(s).len() as f64, symbolic.below(s).len() as f64);
        // Operations, and the assembly of the front.
        work[s] += (width + 10.0) * (width + below).powi(2);
        match symbolic.parent[s] {
            NONE => total += work[s],
            parent => {
                work[parent as usize] += work[s];
                first[parent as usize] = first[s].min(first[parent as usize]);
            }
        }
    }
    let limit = SHARE * total;
    let mut tasks: Vec<Task> = try_capacity(count)?;
    let mut held = 0.0;
    for s in 0..count {
        let is_subtree = work[s] <= limit;
        if is_subtree && symbolic.parent[s] != NONE && work[symbolic.parent[s] as usize] <= limit {
            // A part of a larger one.
            continue;
        }
        held += work[s];
        match tasks.last_mut() {
            Some(last) if last.is_subtree == is_subtree && (held <= limit || !is_subtree) => last.end = s + 1,
            _ => {
                tasks.push(Task { begin: if is_subtree { first[s] } else { s }, end: s + 1, is_subtree });
                held = work[s];
            }
        }
    }
    Ok(tasks)
}

/// Contributions of supernodes to their parents.
type Contributions = Vec<(usize, Vec<f64>)>;

/// The pivots of a task.
struct Outcome {
    inertia: Inertia,
    contributions: Contributions,
}

impl Cholesky {
    /// Factorises a matrix that is scaled by `scale` from both sides, so that its diagonal is about 1. Entries (i, j) and
    /// (j, i) are averaged.
    pub fn new(
        analysis: &Arc<Analysis>,
        a: &Csr<f64>,
        scale: &[f64],
        zero_pivots: ZeroPivots,
    ) -> std::result::Result<Cholesky, Failure> {
        let mut factor = Cholesky {
            analysis: Arc::clone(analysis),
            inertia: Inertia::NONE,
            values: try_vec(analysis.stored(), 0.0)?,
            below: Vec::new(),
        };
        let longest = (0..analysis.symbolic.count()).map(|s| analysis.symbolic.below(s).len()).max().unwrap_or(0);
        factor.below = try_vec(longest, 0.0)?;
        factor.numeric(a, scale, zero_pivots)?;
        Ok(factor)
    }

    /// The numeric phase, in the memory of an earlier factor.
    pub fn numeric(
        &mut self,
        a: &Csr<f64>,
        scale: &[f64],
        zero_pivots: ZeroPivots,
    ) -> std::result::Result<(), Failure> {
        let Cholesky { analysis, inertia, values, .. } = self;
        let analysis: &Analysis = analysis;
        values.fill(0.0);
        for i in 0..a.rows {
            for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                let j = a.columns[k] as usize;
                let share = if i == j { 1.0 } else { 0.5 };
                values[analysis.positions[k]] += share * (a.values[k] * scale[i] * scale[j]);
            }
        }
        let mut results: Vec<Mutex<Option<std::result::Result<Outcome, Failure>>>> =
            try_capacity(analysis.tasks.len())?;
        results.resize_with(analysis.tasks.len(), || Mutex::new(None));
        par::for_each_segment_mut(values, &analysis.task_panels, 1, 1, |tasks, values| {
            let task = &analysis.tasks[tasks.start];
            if task.is_subtree {
                let outcome = analysis.run(task, values, Vec::new(), zero_pivots);
                *lock(results[tasks.start].lock()) = Some(outcome);
            }
        });
        *inertia = Inertia::NONE;
        let mut contributions: Contributions = Vec::new();
        for (t, task) in analysis.tasks.iter().enumerate() {
            let values = &mut values[analysis.task_panels[t] as usize..analysis.task_panels[t + 1] as usize];
            let outcome = match lock(results[t].lock()).take() {
                Some(outcome) => outcome?,
                None => analysis.run(task, values, std::mem::take(&mut contributions), zero_pivots)?,
            };
            inertia.negative += outcome.inertia.negative;
            inertia.left_out += outcome.inertia.left_out;
            inertia.smallest = inertia.smallest.min(outcome.inertia.smallest);
            if contributions.try_reserve(outcome.contributions.len()).is_err() {
                return Err(fail_memory(outcome.contributions.len()));
            }
            contributions.extend(outcome.contributions);
        }
        self.inertia.check(zero_pivots, || self.largest(), || self.first_left_out())
    }

    /// The variable of the first pivot that was left out.
    fn first_left_out(&self) -> Option<usize> {
        let symbolic = &self.analysis.symbolic;
        (0..symbolic.count()).find_map(|s| {
            let (columns, height) = (symbolic.columns(s), symbolic.height(s));
            let k = front::first_left_out(&self.values[symbolic.panels[s] as usize..], height, columns.len())?;
            Some(symbolic.tree.order[columns.start + k] as usize)
        })
    }

    /// The largest magnitude in L. That of a positive definite matrix is at most about 1.
    fn largest(&self) -> f64 {
        let symbolic = &self.analysis.symbolic;
        (0..symbolic.count()).fold(0.0, |largest, s| {
            let panel = &self.values[symbolic.panels[s] as usize..];
            let size = front::largest(panel, symbolic.height(s), symbolic.columns(s).len());
            if size > largest || size.is_nan() { size } else { largest }
        })
    }

    /// Bytes of the factor and its analysis.
    pub fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice()) + size_of_val(self.below.as_slice()) + self.analysis.bytes()
    }

    /// Replaces b by the solution of the scaled system, both in the order of elimination.
    pub fn solve(&mut self, x: &mut [f64]) {
        let symbolic = &self.analysis.symbolic;
        for s in 0..symbolic.count() {
            let (rows, panel) = (symbolic.below(s), &self.values[symbolic.panels[s] as usize..]);
            let below = &mut self.below[..rows.len()];
            below.fill(0.0);
            front::solve_lower(panel, symbolic.height(s), &mut x[symbolic.columns(s)], below);
            for (row, v) in rows.iter().zip(&*below) {
                x[*row as usize] -= v;
            }
        }
        for s in (0..symbolic.count()).rev() {
            let (rows, panel) = (symbolic.below(s), &self.values[symbolic.panels[s] as usize..]);
            let below = &mut self.below[..rows.len()];
            for (row, v) in rows.iter().zip(&mut *below) {
                *v = x[*row as usize];
            }
            front::solve_upper(panel, symbolic.height(s), &mut x[symbolic.columns(s)], below);
        }
    }
}

/// L may grow to this in a matrix with negative pivots. Refinement makes up for the digits that are lost.
const GROWTH: f64 = 1e5;

impl Analysis {
    /// Factorises the supernodes of a task, whose values are in `values`, with the contributions of earlier tasks.
    fn run(
        &self,
        task: &Task,
        values: &mut [f64],
        earlier: Contributions,
        zero_pivots: ZeroPivots,
    ) -> std::result::Result<Outcome, Failure> {
        let symbolic = &self.symbolic;
        let n = symbolic.tree.order.len();
        let start = symbolic.panels[task.begin] as usize;
        let size = |s: usize| (symbolic.columns(s).len() + symbolic.below(s).len(), symbolic.columns(s).len());
        let scratch = (task.begin..task.end).map(|s| front::scratch(size(s).0, size(s).1)).max().unwrap_or(0);
        let mut scratch = try_vec(scratch, 0.0)?;
        let mut local: Vec<i32> = Vec::new();
        // The stack of contributions: those of the children of a supernode are the last ones.
        let mut stack = earlier;
        let mut inertia = Inertia::NONE;
        for s in task.begin..task.end {
            let (height, width) = size(s);
            let below = height - width;
            let panel = &mut values[symbolic.panels[s] as usize - start..][..width * height];
            let mut own = try_vec(below * below, 0.0)?;
            let mut children = 0;
            let mut c = self.child[s];
            while c != NONE {
                children += usize::from(!symbolic.below(c as usize).is_empty());
                c = self.sibling[c as usize];
            }
            let first = stack.len() - children;
            for (c, contribution) in &stack[first..] {
                debug_assert_eq!(symbolic.parent[*c], s as i32);
                let rows = symbolic.below(*c);
                local.clear();
                if local.try_reserve(rows.len()).is_err() {
                    return Err(fail_memory(rows.len()));
                }
                find_local(rows, symbolic.columns(s), symbolic.below(s), &mut local);
                add(contribution, &local, (panel, height), width, &mut own);
            }
            stack.truncate(first);
            let mut pivots = inertia.pivots(zero_pivots, n);
            if front::factorise(panel, height, width, &mut pivots, &mut scratch).is_err() {
                return Err(Failure::NeedsPivoting);
            }
            if below > 0 {
                front::subtract_contribution(panel, height, width, &mut own, &mut scratch);
                if stack.try_reserve(1).is_err() {
                    return Err(fail_memory(1));
                }
                stack.push((s, own));
            }
        }
        Ok(Outcome { inertia, contributions: stack })
    }
}

fn fail_memory(n: usize) -> Failure {
    let failed: Result<()> = fail!(OutOfMemory, "{n} indices of a front could not be allocated");
    failed.map_or_else(Failure::Error, |()| unreachable!("it is an error"))
}

/// The positions of rows in a front of these columns and rows below; all ascend.
fn find_local(rows: &[i32], columns: std::ops::Range<usize>, below: &[i32], local: &mut Vec<i32>) {
    let mut at = 0;
    for &row in rows {
        if (row as usize) < columns.end {
            local.push((row as usize - columns.start) as i32);
            continue;
        }
        while below[at] != row {
            at += 1;
        }
        local.push((columns.len() + at) as i32);
    }
}

/// Adds the contribution of a child to a front: to the panel of its columns, and to its own contribution.
fn add(contribution: &[f64], local: &[i32], (panel, height): (&mut [f64], usize), width: usize, own: &mut [f64]) {
    let n = local.len();
    let below = height - width;
    for (k, column) in contribution.chunks_exact(n).enumerate() {
        let j = local[k] as usize;
        let (to, shift) = match j < width {
            true => (&mut panel[j * height..(j + 1) * height], 0),
            false => (&mut own[(j - width) * below..(j - width + 1) * below], width),
        };
        for (i, v) in local[k..].iter().zip(&column[k..]) {
            to[*i as usize - shift] += v;
        }
    }
}
