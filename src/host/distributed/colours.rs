//! Multicolour Gauss-Seidel over ranks. The colours are those of the whole matrix, so that a sweep does not depend on the
//! ranks: before a colour is solved for, each rank has the new values of the colours before it.

use crate::backend::Colours;
use crate::comm::halo::{VALUES, scaled};
use crate::comm::{Distribution, Halo, Part, bytes, bytes_mut};
use crate::error::{Result, try_capacity, try_copy, try_push, try_vec};
use crate::host::Host;
use crate::host::multicolour::row_product;
use crate::par;
use crate::scalar::Number;
use crate::sparse::{Block, Coloured, Colouring, SharedCsr, own_rows};
use crate::sync::lock;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The rows of this rank by colour.
pub(crate) struct DistributedColours<S, V> {
    matrix: SharedCsr<S>,
    /// The inverse of the diagonal of the own rows.
    inverse: Vec<S>,
    /// Own rows.
    colouring: Colouring,
    halo: Arc<Halo>,
    /// For each colour, and at the end for all of them.
    messages: Vec<Messages>,
    work: Mutex<Work<V>>,
}

/// Messages with the values of some unknowns.
#[derive(Default)]
struct Messages {
    /// Own unknowns that are sent, and numbers of those that come, in columns of the matrix.
    sent: Vec<u32>,
    received: Vec<u32>,
    /// In bytes.
    sends: Vec<Part>,
    receives: Vec<Part>,
}

impl Messages {
    /// Those of a halo with the unknowns that are chosen: which of those that are sent, and of those that come. `width` is
    /// the bytes of a value.
    fn new(halo: &Halo, width: usize, is_sent: impl Fn(usize) -> bool, comes: impl Fn(usize) -> bool) -> Result<Self> {
        let mut chosen = Messages::default();
        for part in &halo.sends {
            let begin = chosen.sent.len();
            for k in (part.begin..part.begin + part.length).filter(|k| is_sent(*k)) {
                try_push(&mut chosen.sent, halo.sent[k])?;
            }
            push_part(&mut chosen.sends, part.rank, begin..chosen.sent.len())?;
        }
        for part in &halo.receives {
            let begin = chosen.received.len();
            for k in (part.begin..part.begin + part.length).filter(|k| comes(*k)) {
                let column = if k < halo.below { k } else { k + halo.own };
                try_push(&mut chosen.received, column as u32)?;
            }
            push_part(&mut chosen.receives, part.rank, begin..chosen.received.len())?;
        }
        (chosen.sends, chosen.receives) = (scaled(&chosen.sends, width)?, scaled(&chosen.receives, width)?);
        Ok(chosen)
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.sent[..]) + size_of_val(&self.received[..])
    }
}

/// A part, unless it is empty.
fn push_part(parts: &mut Vec<Part>, rank: usize, elements: Range<usize>) -> Result<()> {
    match elements.len() {
        0 => Ok(()),
        length => try_push(parts, Part { rank, begin: elements.start, length }),
    }
}

/// Vectors of a sweep.
struct Work<V> {
    /// x with the unknowns of other ranks.
    x: Vec<V>,
    outgoing: Vec<V>,
    incoming: Vec<V>,
}

impl<S: Number, V: Number> DistributedColours<S, V> {
    /// The own rows of a matrix that every rank has as a whole. Collective.
    pub fn new(over: &Arc<Distribution>, coloured: Coloured<S>) -> Result<Self> {
        let scalar = over.ranks.agree(in_scalars(coloured))?;
        let (matrix, halo) = own_rows(over, &scalar.matrix, &mut None)?;
        over.ranks.agree(Self::of_own(over, scalar, matrix, halo))
    }

    fn of_own(over: &Distribution, whole: Coloured<S>, matrix: SharedCsr<S>, halo: Arc<Halo>) -> Result<Self> {
        let n = whole.matrix.structure.rows;
        let own = over.own(n);
        let Colouring { rows, starts } = whole.colouring;
        let mut colour = try_vec(n, 0_u32)?;
        let (mut own_rows, mut own_starts) = (try_capacity(own.len())?, try_capacity(starts.len())?);
        own_starts.push(0);
        for (c, ends) in starts.windows(2).enumerate() {
            let rows = &rows[ends[0]..ends[1]];
            rows.iter().for_each(|i| colour[*i as usize] = c as u32);
            own_rows.extend(rows.iter().filter(|i| own.contains(&(**i as usize))).map(|i| i - own.start as u32));
            own_starts.push(own_rows.len());
        }
        let (width, count) = (size_of::<V>(), starts.len() - 1);
        let ghosts = ghosts(&matrix, &halo, &whole.matrix, own.clone())?;
        let mut messages = try_capacity(count + 1)?;
        for c in 0..count as u32 {
            let is_sent = |k: usize| colour[own.start + halo.sent[k] as usize] == c;
            messages.push(Messages::new(&halo, width, is_sent, |k| colour[ghosts[k] as usize] == c)?);
        }
        messages.push(Messages::new(&halo, width, |_| true, |_| true)?);
        let work = Work {
            x: try_vec(halo.length(), V::ZERO)?,
            outgoing: try_vec(halo.sent.len(), V::ZERO)?,
            incoming: try_vec(halo.ghosts, V::ZERO)?,
        };
        let (inverse, work) = (try_copy(&whole.inverse[own])?, Mutex::new(work));
        let colouring = Colouring { rows: own_rows, starts: own_starts };
        Ok(DistributedColours { matrix, inverse, colouring, halo, messages, work })
    }

    /// Brings the values of other ranks that some messages have.
    fn exchange(&self, messages: &Messages, work: &mut Work<V>) -> Result<()> {
        let Work { x, outgoing, incoming } = work;
        let Messages { sent, received, sends, receives } = messages;
        let below = self.halo.below;
        outgoing.iter_mut().zip(sent).for_each(|(to, i)| *to = x[below + *i as usize]);
        let (out, into) = (bytes(&outgoing[..sent.len()]), bytes_mut(&mut incoming[..received.len()]));
        let communicator = self.halo.over.ranks.communicator();
        communicator.exchange(VALUES, sends, out, receives, into, &mut || ())?;
        received.iter().zip(incoming.iter()).for_each(|(j, value)| x[*j as usize] = *value);
        Ok(())
    }

    /// Solves the own rows of a colour for their own unknowns.
    fn solve(&self, host: &Host, colour: usize, b: &[V], x: &mut [V], scratch: &mut [V]) {
        let a = self.matrix.view();
        let rows = &self.colouring.rows[self.colouring.starts[colour]..self.colouring.starts[colour + 1]];
        let (new, below) = (&mut scratch[..rows.len()], self.halo.below);
        host.run(a.entries() / self.colouring.count(), || {
            let old = &*x;
            par::for_each_mut(new, par::ROW_GRAIN, |start, new| {
                for (new, i) in new.iter_mut().zip(&rows[start..]) {
                    let i = *i as usize;
                    let range = a.row_range(i);
                    let ax = row_product(&a.columns[range.clone()], &a.values[range], old, a.base as usize);
                    let step = self.inverse[i].cast::<V::Wide>() * (b[i].widen() - ax);
                    *new = V::narrow(old[below + i].widen() + step);
                }
            });
        });
        rows.iter().zip(&*new).for_each(|(i, new)| x[below + *i as usize] = *new);
    }

    /// As [`Colours::pass`]; x is zero where it is not read.
    fn sweep(
        &self,
        host: &Host,
        (count, backward): (usize, bool),
        b: &[V],
        (x, is_zero): (&mut [V], bool),
        scratch: &mut [V],
    ) -> Result<()> {
        let mut work = lock(self.work.lock());
        let own = self.halo.below..self.halo.below + self.halo.own;
        if is_zero {
            work.x.fill(V::ZERO);
        } else {
            work.x[own.clone()].copy_from_slice(x);
            self.exchange(&self.messages[self.colouring.count()], &mut work)?;
        }
        for k in 0..count {
            let colour = if backward { count - 1 - k } else { k };
            self.solve(host, colour, b, &mut work.x, scratch);
            if k + 1 < count {
                self.exchange(&self.messages[colour], &mut work)?;
            }
        }
        x.copy_from_slice(&work.x[own]);
        Ok(())
    }
}

/// The same matrix without blocks, with colours of its rows: ranks may cut blocks.
fn in_scalars<S: Number>(coloured: Coloured<S>) -> Result<Coloured<S>> {
    if coloured.matrix.structure.block == Block::SCALAR {
        return Ok(coloured);
    }
    let matrix = coloured.matrix.view().to_scalar()?.into_shared();
    let colouring = Colouring::new(&matrix.structure.view::<f64>(&[]))?;
    Ok(Coloured { matrix, colouring, ..coloured })
}

/// The numbers of the unknowns of other ranks in the whole matrix.
fn ghosts<S: Number>(local: &SharedCsr<S>, halo: &Halo, whole: &SharedCsr<S>, own: Range<usize>) -> Result<Vec<u32>> {
    let mut ghosts = try_vec(halo.ghosts, 0_u32)?;
    let (local, whole) = (local.view(), whole.view());
    for i in 0..local.rows {
        for (k, global) in local.row_range(i).zip(whole.row_range(own.start + i)) {
            match local.col(k) {
                j if j < halo.below => ghosts[j] = whole.col(global) as u32,
                j if j >= halo.below + halo.own => ghosts[j - halo.own] = whole.col(global) as u32,
                _ => {}
            }
        }
    }
    Ok(ghosts)
}

impl<S: Number, V: Number> Colours<Host, V> for DistributedColours<S, V> {
    fn count(&self) -> usize {
        self.colouring.count()
    }

    fn solves_exactly(&self) -> bool {
        true
    }

    fn pass(
        &self,
        host: &Host,
        count: usize,
        backward: bool,
        b: &[V],
        x: &mut [V],
        scratch: &mut Vec<V>,
    ) -> Result<()> {
        self.sweep(host, (count, backward), b, (x, false), scratch)
    }

    fn pass_from_zero(
        &self,
        host: &Host,
        count: usize,
        backward: bool,
        b: &[V],
        x: &mut [V],
        scratch: &mut Vec<V>,
    ) -> Result<()> {
        self.sweep(host, (count, backward), b, (x, true), scratch)
    }

    fn bytes(&self) -> usize {
        let vectors = (self.halo.length() + self.halo.sent.len() + self.halo.ghosts) * size_of::<V>();
        self.matrix.owned_bytes()
            + size_of_val(&self.inverse[..])
            + self.colouring.bytes()
            + self.messages.iter().map(Messages::bytes).sum::<usize>()
            + vectors
    }
}
