//! Approximate minimum degree ordering (Amestoy, Davis and Duff, SIAM J. Matrix Anal. Appl. 17, 1996).
//!
//! Elimination is followed in a quotient graph. An eliminated variable becomes an element, whose list holds the
//! variables of its front. A variable is adjacent to the variables in its list and to those in the lists of its
//! elements. Variables with the same adjacency are merged. Degrees are bounds: the fronts of the elements of a variable
//! are counted one by one, as if they had nothing in common outside of the latest one.

use super::pattern::Pattern;
use crate::error::{Error, Result, Status, try_capacity, try_filled, try_vec};

/// No variable.
const NONE: i32 = -1;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Variable,
    Element,
    /// Merged into another variable or element, or ordered last because its row is dense.
    Gone,
}

struct Quotient {
    state: Vec<State>,
    /// All lists. New ones are appended.
    lists: Vec<i32>,
    /// Begin and length of the list of a variable or element. That of a variable begins with elements.
    begin: Vec<usize>,
    length: Vec<u32>,
    elements: Vec<u32>,
    /// Variables that a variable stands for; negative while it is in the front of the pivot, 0 when it is gone.
    weight: Vec<i32>,
    /// The bound on the degree of a variable; the weight of the list of an element.
    degree: Vec<i32>,
    /// Variables of the same degree, as a doubly linked list. `next` also links those with the same hash.
    head: Vec<i32>,
    next: Vec<i32>,
    previous: Vec<i32>,
    /// The variables that are ordered with one, as a linked list.
    next_member: Vec<i32>,
    last_member: Vec<i32>,
}

/// A permutation for which the Cholesky factor of a matrix with this symmetric pattern has little fill: element k is the
/// variable that is eliminated as the k-th. It depends on the pattern alone.
pub fn minimum_degree(pattern: &Pattern) -> Result<Vec<i32>> {
    let n = pattern.rows();
    let mut order: Vec<i32> = try_capacity(n)?;
    let mut graph = Quotient::new(pattern)?;
    // Variables that are coupled to very many come last, and the others are ordered without them.
    let dense = (10.0 * (n as f64).sqrt()).max(16.0) as usize;
    let mut rest = n;
    for i in 0..n {
        if pattern.row(i).len() > dense {
            (graph.state[i], graph.weight[i]) = (State::Gone, 0);
            rest -= 1;
        }
    }
    for i in 0..n {
        if graph.state[i] == State::Variable {
            let neighbours = pattern.row(i).iter().filter(|j| graph.state[**j as usize] == State::Variable);
            graph.degree[i] = neighbours.count() as i32;
            graph.link(i);
        }
    }
    let mut work = Work::new(n)?;
    let mut least = 0;
    while order.len() < rest {
        while graph.head[least] == NONE {
            least += 1;
        }
        let pivot = graph.head[least] as usize;
        graph.unlink(pivot);
        least = graph.eliminate(pivot, rest - order.len(), &mut work, least)?;
        let mut member = pivot as i32;
        while member != NONE {
            order.push(member);
            member = graph.next_member[member as usize];
        }
    }
    order.extend((0..n).filter(|i| pattern.row(*i).len() > dense).map(|i| i as i32));
    Ok(order)
}

/// Marks that are valid in one step.
struct Work {
    step: u64,
    seen: Vec<u64>,
    /// The weight of the list of an element without the variables of the front of the pivot.
    outside: Vec<i32>,
    /// Variables by the hash of their lists.
    bucket: Vec<i32>,
    hash: Vec<u32>,
}

impl Work {
    fn new(n: usize) -> Result<Work> {
        let (seen, outside) = (try_vec(n, 0)?, try_vec(n, 0)?);
        Ok(Work { step: 0, seen, outside, bucket: try_vec(n, NONE)?, hash: try_vec(n, 0)? })
    }
}

impl Quotient {
    fn new(pattern: &Pattern) -> Result<Quotient> {
        let n = pattern.rows();
        let mut lists = try_capacity(pattern.columns.len() + pattern.columns.len() / 4 + n)?;
        lists.extend_from_slice(&pattern.columns);
        let mut last_member = try_capacity(n)?;
        last_member.extend(0..n as i32);
        let mut length = try_capacity(n)?;
        length.extend((0..n).map(|i| pattern.row(i).len() as u32));
        let mut begin = try_capacity(n)?;
        begin.extend_from_slice(&pattern.offsets[..n]);
        Ok(Quotient {
            state: try_filled(n, State::Variable)?,
            lists,
            begin,
            length,
            elements: try_vec(n, 0)?,
            weight: try_vec(n, 1)?,
            degree: try_vec(n, 0)?,
            head: try_vec(n + 1, NONE)?,
            next: try_vec(n, NONE)?,
            previous: try_vec(n, NONE)?,
            next_member: try_vec(n, NONE)?,
            last_member,
        })
    }

    /// Puts a variable at the head of the list of its degree.
    fn link(&mut self, i: usize) {
        let degree = self.degree[i] as usize;
        let first = self.head[degree];
        if first != NONE {
            self.previous[first as usize] = i as i32;
        }
        (self.next[i], self.previous[i], self.head[degree]) = (first, NONE, i as i32);
    }

    fn unlink(&mut self, i: usize) {
        let (next, previous) = (self.next[i], self.previous[i]);
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        if previous == NONE {
            self.head[self.degree[i] as usize] = next;
        } else {
            self.next[previous as usize] = next;
        }
    }

    /// Orders `i` with `with` from now on.
    fn merge(&mut self, i: usize, with: usize) {
        let last = self.last_member[with] as usize;
        self.next_member[last] = i as i32;
        self.last_member[with] = self.last_member[i];
        (self.state[i], self.weight[i]) = (State::Gone, 0);
    }

    /// Eliminates a variable when `left` are left. Returns a lower bound of the degrees of those that remain.
    fn eliminate(&mut self, pivot: usize, left: usize, work: &mut Work, least: usize) -> Result<usize> {
        let mut weight = self.weight[pivot];
        let front = self.front(pivot)?;
        work.step += 1;
        for k in front.clone() {
            let i = self.lists[k] as usize;
            for at in self.begin[i]..self.begin[i] + self.elements[i] as usize {
                let e = self.lists[at] as usize;
                if self.state[e] == State::Element {
                    if work.seen[e] != work.step {
                        (work.seen[e], work.outside[e]) = (work.step, self.degree[e]);
                    }
                    work.outside[e] += self.weight[i];
                }
            }
        }
        for k in front.clone() {
            let i = self.lists[k] as usize;
            let (outside, hash) = self.shorten(i, pivot, work);
            if outside == 0 {
                // All that it is adjacent to is in the front: it is eliminated with the pivot, without fill.
                weight -= self.weight[i];
                self.degree[pivot] += self.weight[i];
                self.merge(i, pivot);
                continue;
            }
            self.degree[i] = self.degree[i].min(outside);
            let bucket = hash % work.bucket.len() as u32;
            work.hash[i] = bucket;
            self.next[i] = std::mem::replace(&mut work.bucket[bucket as usize], i as i32);
        }
        self.merge_equal(front.clone(), work);
        let left = left as i32 - weight;
        let (mut least, mut end) = (least, front.start);
        for k in front {
            let i = self.lists[k] as usize;
            if self.state[i] == State::Gone {
                continue;
            }
            self.weight[i] = -self.weight[i];
            let outside = self.degree[pivot] - self.weight[i];
            self.degree[i] = (self.degree[i] + outside).min(left - self.weight[i]);
            self.link(i);
            least = least.min(self.degree[i] as usize);
            self.lists[end] = i as i32;
            end += 1;
        }
        self.weight[pivot] = 0;
        self.length[pivot] = (end - self.begin[pivot]) as u32;
        self.lists.truncate(end);
        if self.length[pivot] == 0 {
            self.state[pivot] = State::Gone;
        }
        Ok(least)
    }

    /// Makes the pivot an element. Its list, the variables of its front, is appended to the lists.
    fn front(&mut self, pivot: usize) -> Result<std::ops::Range<usize>> {
        let own = |graph: &Quotient| graph.begin[pivot]..graph.begin[pivot] + graph.length[pivot] as usize;
        let elements = self.elements[pivot] as usize;
        let of_elements = self.lists[own(self)][..elements].iter();
        let size = of_elements.map(|e| self.length[*e as usize] as usize).sum::<usize>() + own(self).len() - elements;
        if self.lists.capacity() - self.lists.len() < size {
            self.compact(size)?;
        }
        self.weight[pivot] = -self.weight[pivot];
        let (start, list) = (self.lists.len(), own(self));
        let mut degree = 0;
        for (k, at) in list.enumerate() {
            if k >= elements {
                let i = self.lists[at] as usize;
                degree += self.take(i);
                continue;
            }
            let e = self.lists[at] as usize;
            if self.state[e] == State::Element {
                for at in self.begin[e]..self.begin[e] + self.length[e] as usize {
                    let i = self.lists[at] as usize;
                    degree += self.take(i);
                }
                self.state[e] = State::Gone;
            }
        }
        self.state[pivot] = State::Element;
        self.begin[pivot] = start;
        self.degree[pivot] = degree;
        Ok(start..self.lists.len())
    }

    /// Takes a variable into the front that is being made, unless it is there. Returns its weight.
    fn take(&mut self, i: usize) -> i32 {
        let weight = self.weight[i];
        if weight <= 0 {
            return 0;
        }
        self.weight[i] = -weight;
        self.lists.push(i as i32);
        self.unlink(i);
        weight
    }

    /// Leaves out of the list of a variable of the front what the pivot's element now stands for, and puts that first.
    /// Returns the weight of what is left, and a hash of the list.
    fn shorten(&mut self, i: usize, pivot: usize, work: &Work) -> (i32, u32) {
        let begin = self.begin[i];
        let (mut end, mut outside, mut hash) = (begin, 0_i32, 0_u32);
        for at in begin..begin + self.elements[i] as usize {
            let e = self.lists[at];
            let of_e = work.outside[e as usize];
            if self.state[e as usize] != State::Element {
                continue;
            }
            if of_e == 0 {
                self.state[e as usize] = State::Gone;
                continue;
            }
            outside = outside.saturating_add(of_e);
            hash = hash.wrapping_add(e as u32);
            self.lists[end] = e;
            end += 1;
        }
        let elements = end;
        for at in begin + self.elements[i] as usize..begin + self.length[i] as usize {
            let j = self.lists[at];
            let weight = self.weight[j as usize];
            if weight > 0 {
                outside = outside.saturating_add(weight);
                hash = hash.wrapping_add(j as u32);
                self.lists[end] = j;
                end += 1;
            }
        }
        // The pivot, or an element that it absorbed, was in the list, so there is a place for one more.
        self.lists[end] = self.lists[elements];
        self.lists[elements] = self.lists[begin];
        self.lists[begin] = pivot as i32;
        self.elements[i] = (elements - begin + 1) as u32;
        self.length[i] = (end - begin + 1) as u32;
        (outside, hash)
    }

    /// Merges the variables of a front whose lists are the same.
    fn merge_equal(&mut self, front: std::ops::Range<usize>, work: &mut Work) {
        for k in front {
            let first = self.lists[k] as usize;
            if self.state[first] == State::Gone {
                continue;
            }
            let mut i = std::mem::replace(&mut work.bucket[work.hash[first] as usize], NONE);
            while i != NONE && self.next[i as usize] != NONE {
                let own = i as usize;
                work.step += 1;
                for at in self.begin[own]..self.begin[own] + self.length[own] as usize {
                    work.seen[self.lists[at] as usize] = work.step;
                }
                let mut before = own;
                while self.next[before] != NONE {
                    let j = self.next[before] as usize;
                    let list = self.begin[j]..self.begin[j] + self.length[j] as usize;
                    let same = self.length[j] == self.length[own]
                        && self.elements[j] == self.elements[own]
                        && self.lists[list].iter().all(|e| work.seen[*e as usize] == work.step);
                    if same {
                        self.weight[own] += self.weight[j];
                        self.next[before] = self.next[j];
                        self.merge(j, own);
                    } else {
                        before = j;
                    }
                }
                i = self.next[own];
            }
        }
    }

    /// Removes the lists of what is gone, and makes room for `more`.
    fn compact(&mut self, more: usize) -> Result<()> {
        let alive = |graph: &Quotient, i: &usize| graph.state[*i] != State::Gone;
        let live: usize = (0..self.state.len()).filter(|i| alive(self, i)).map(|i| self.length[i] as usize).sum();
        let room = live.checked_mul(2).and_then(|live| live.checked_add(more));
        let Some(room) = room else {
            return Err(Error::new(Status::OutOfMemory, "the lists of the ordering are too long"));
        };
        let mut lists = try_capacity(room)?;
        for i in 0..self.state.len() {
            if alive(self, &i) {
                let begin = std::mem::replace(&mut self.begin[i], lists.len());
                lists.extend_from_slice(&self.lists[begin..begin + self.length[i] as usize]);
            }
        }
        self.lists = lists;
        Ok(())
    }
}
