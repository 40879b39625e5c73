//! The rows of this rank as an operator. All rows are multiplied while messages are under way, and those with columns of
//! other ranks again after it: they are few, and a matrix that is not cut needs no copy.

use crate::backend::{Backend, Operator, OwnPart};
use crate::comm::halo::VALUES;
use crate::comm::{Distribution, Halo, Part, bytes, bytes_mut};
use crate::error::{Result, try_capacity, try_vec};
use crate::host::{Host, spmv};
use crate::scalar::{Number, Precision, Sums};
use crate::sparse::{self, Block, Csr, CsrView, SharedCsr};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// The rows of this rank, stored as `S`, for vectors of which each rank has a part.
pub(crate) struct DistributedMatrix<S, X, Y> {
    host: Host,
    halo: Arc<Halo>,
    /// All rows. Those with columns of other ranks are multiplied once more when these have come.
    all: SharedCsr<S>,
    /// These rows, and which they are.
    boundary: Csr<S>,
    boundary_rows: Vec<u32>,
    sends: Vec<Part>,
    receives: Vec<Part>,
    sums: Sums,
    work: Mutex<Work<X, Y>>,
}

/// Vectors of a product.
struct Work<X, Y> {
    /// x with the elements of other ranks.
    x: Vec<X>,
    outgoing: Vec<X>,
    incoming: Vec<X>,
    /// Boundary rows of the result and of the right-hand side.
    y: Vec<Y>,
    b: Vec<Y>,
}

/// Own rows of a matrix of which every rank has all rows, as an operator. Collective.
pub(crate) fn own_rows<S: Number, X: Number, Y: Number>(
    host: &Host,
    over: &Arc<Distribution>,
    matrix: &SharedCsr<S>,
    sums: Sums,
) -> Result<DistributedMatrix<S, X, Y>> {
    let (local, halo) = sparse::own_rows(over, matrix)?;
    over.ranks.agree(DistributedMatrix::new(host, Arc::new(halo), local, sums))
}

impl<S: Number, X: Number, Y: Number> DistributedMatrix<S, X, Y> {
    /// The rows of this rank, whose columns are numbered as [`crate::comm::LocalColumns`] does.
    pub fn new(host: &Host, halo: Arc<Halo>, matrix: SharedCsr<S>, sums: Sums) -> Result<Self> {
        let a = matrix.view();
        let own = halo.below..halo.below + halo.own;
        let is_boundary = |i: usize| a.row_range(i).any(|k| !own.contains(&a.col(k)));
        let mut boundary_rows = Vec::new();
        if halo.ghosts > 0 {
            boundary_rows = try_capacity((0..a.rows).filter(|i| is_boundary(*i)).count())?;
            boundary_rows.extend((0..a.rows).filter(|i| is_boundary(*i)).map(|i| i as u32));
        }
        let entries = boundary_rows.iter().map(|i| a.row_range(*i as usize).len()).sum();
        let (mut offsets, mut columns, mut values) =
            (try_capacity(boundary_rows.len() + 1)?, try_capacity(entries)?, try_capacity(entries)?);
        offsets.push(0);
        for i in &boundary_rows {
            let row = a.row_range(*i as usize);
            columns.extend(row.clone().map(|k| a.col(k) as i32));
            values.extend_from_slice(&a.values[row]);
            offsets.push(columns.len() as i64);
        }
        let boundary = Csr { rows: boundary_rows.len(), cols: a.cols, block: Block::SCALAR, offsets, columns, values };
        let (sends, receives) = halo.messages(size_of::<X>())?;
        let work = Work {
            x: try_vec(halo.length(), X::ZERO)?,
            outgoing: try_vec(halo.sent.len(), X::ZERO)?,
            incoming: try_vec(halo.ghosts, X::ZERO)?,
            y: try_vec(boundary_rows.len(), Y::ZERO)?,
            b: try_vec(boundary_rows.len(), Y::ZERO)?,
        };
        let (host, work) = (host.clone(), Mutex::new(work));
        Ok(DistributedMatrix { host, halo, all: matrix, boundary, boundary_rows, sends, receives, sums, work })
    }

    /// `multiply` computes y from rows, b and x with the elements of other ranks.
    fn product(
        &self,
        x: &[X],
        b: Option<&[Y]>,
        y: &mut [Y],
        multiply: impl Fn(CsrView<'_, S>, Option<&[Y]>, &[X], &mut [Y]) + Sync,
    ) -> Result<()> {
        let DistributedMatrix { host, halo, all, boundary, boundary_rows, .. } = self;
        let mut work = lock(self.work.lock());
        let Work { x: with_halo, outgoing, incoming, y: own_y, b: own_b } = &mut *work;
        host.copy(x, &mut with_halo[halo.below..][..halo.own]);
        outgoing.iter_mut().zip(&halo.sent).for_each(|(to, i)| *to = x[*i as usize]);
        own_y.iter_mut().zip(boundary_rows).for_each(|(to, i)| *to = y[*i as usize]);
        let (of_all, of_boundary) = (all.view(), boundary.view());
        let (messages, into) = (bytes(outgoing), bytes_mut(incoming));
        let communicator = halo.over.ranks.communicator();
        communicator.exchange(VALUES, &self.sends, messages, &self.receives, into, &mut || {
            host.run(of_all.entries(), || multiply(of_all, b, with_halo, y));
        })?;
        if boundary_rows.is_empty() {
            return Ok(());
        }
        let (lower, higher) = incoming.split_at(halo.below);
        with_halo[..halo.below].copy_from_slice(lower);
        with_halo[halo.below + halo.own..].copy_from_slice(higher);
        let own_b = b.map(|b| {
            own_b.iter_mut().zip(boundary_rows).for_each(|(to, i)| *to = b[*i as usize]);
            &**own_b
        });
        host.run(of_boundary.entries(), || multiply(of_boundary, own_b, with_halo, own_y));
        own_y.iter().zip(boundary_rows).for_each(|(from, i)| y[*i as usize] = *from);
        Ok(())
    }
}

impl<S: Number, X: Number, Y: Number> Operator<Host, X, Y> for DistributedMatrix<S, X, Y> {
    fn rows(&self) -> usize {
        self.all.structure.rows
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        self.product(x, None, y, |a, _, x, y| spmv::apply_with(&a, alpha, x, beta, y, self.sums))
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        self.product(x, Some(b), r, |a, b, x, r| {
            spmv::residual_with(&a, b.unwrap_or_default(), x, r, self.sums);
        })
    }

    fn own_part(&self) -> Option<OwnPart> {
        let (a, halo) = (self.all.view(), &self.halo);
        let (received, neighbours) = (halo.received(size_of::<X>()), halo.neighbours());
        Some(OwnPart { rows: a.rows, nonzeros: a.nnz(), received, neighbours })
    }

    fn bytes(&self) -> usize {
        let boundary = size_of_val(self.boundary.offsets.as_slice())
            + size_of_val(self.boundary.columns.as_slice())
            + size_of_val(self.boundary.values.as_slice())
            + size_of_val(self.boundary_rows.as_slice());
        let vectors = (self.halo.length() + self.halo.sent.len() + self.halo.ghosts) * size_of::<X>()
            + 2 * self.boundary_rows.len() * size_of::<Y>();
        self.all.owned_bytes() + boundary + self.halo.bytes() + vectors
    }

    fn format(&self) -> String {
        "csr over ranks".to_string()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
