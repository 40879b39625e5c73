//! The rows of this rank as an operator. All rows are multiplied while messages are under way, and those with columns of
//! other ranks again after it: they are few, and a matrix that is not cut needs no copy. Columns are never compact: that
//! changes the order of sums, and where it pays depends on the ranks.

use crate::backend::{Backend, Operator, OwnPart};
use crate::comm::halo::VALUES;
use crate::comm::{Distribution, Halo, Part, bytes, bytes_mut};
use crate::error::{Result, try_capacity, try_extend, try_vec};
use crate::host::Host;
use crate::host::any_matrix::AnyOperator;
use crate::host::operator::Stored;
use crate::scalar::{Number, Precision, Sums};
use crate::sparse::{self, Block, Csr, CsrView, OwnRows, SharedCsr};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// The rows of this rank, for vectors of which each rank has a part.
pub(crate) struct DistributedMatrix<X, Y> {
    host: Host,
    halo: Arc<Halo>,
    /// All rows. Those with columns of other ranks are multiplied once more when these have come.
    all: Box<dyn Operator<Host, X, Y>>,
    nonzeros: usize,
    boundary: Box<dyn Operator<Host, X, Y>>,
    /// Numbers of the boundary rows.
    rows: Vec<u32>,
    work: Mutex<Work<X, Y>>,
}

/// Rows with columns of other ranks, and their numbers.
fn boundary_of<S: Number>(halo: &Halo, a: &CsrView<'_, S>) -> Result<(Csr<S>, Vec<u32>)> {
    let own = halo.below..halo.below + halo.own;
    let is_boundary = |i: usize| a.row_range(i).any(|k| !own.contains(&a.col(k)));
    let mut rows = Vec::new();
    if halo.ghosts > 0 {
        try_extend(&mut rows, (0..a.rows).filter(|i| is_boundary(*i)).map(|i| i as u32))?;
    }
    let entries = rows.iter().map(|i| a.row_range(*i as usize).len()).sum();
    let (mut offsets, mut columns, mut values) =
        (try_capacity(rows.len() + 1)?, try_capacity(entries)?, try_capacity(entries)?);
    offsets.push(0);
    for i in &rows {
        let row = a.row_range(*i as usize);
        columns.extend(row.clone().map(|k| a.col(k) as i32));
        values.extend_from_slice(&a.values[row]);
        offsets.push(columns.len() as i64);
    }
    Ok((Csr { rows: rows.len(), cols: a.cols, block: Block::SCALAR, offsets, columns, values }, rows))
}

/// Vectors of a product.
struct Work<X, Y> {
    x: Exchanged<X>,
    /// Boundary rows of the result and of the right-hand side.
    y: Vec<Y>,
    b: Vec<Y>,
}

/// A vector with the elements of other ranks.
struct Exchanged<X> {
    with_halo: Vec<X>,
    outgoing: Vec<X>,
    incoming: Vec<X>,
    sends: Vec<Part>,
    receives: Vec<Part>,
}

impl<X: Number> Exchanged<X> {
    fn new(halo: &Halo) -> Result<Self> {
        let (sends, receives) = halo.messages(size_of::<X>())?;
        let with_halo = try_vec(halo.length(), X::ZERO)?;
        let (outgoing, incoming) = (try_vec(halo.sent.len(), X::ZERO)?, try_vec(halo.ghosts, X::ZERO)?);
        Ok(Exchanged { with_halo, outgoing, incoming, sends, receives })
    }

    /// Fetches elements of other ranks. `meanwhile` gets the vector before they have come.
    fn exchange(&mut self, host: &Host, halo: &Halo, x: &[X], meanwhile: &mut dyn FnMut(&[X])) -> Result<()> {
        let Exchanged { with_halo, outgoing, incoming, sends, receives } = self;
        host.copy(x, &mut with_halo[halo.below..][..halo.own]);
        outgoing.iter_mut().zip(&halo.sent).for_each(|(to, i)| *to = x[*i as usize]);
        let (messages, into) = (bytes(outgoing), bytes_mut(incoming));
        let communicator = halo.over.ranks.communicator();
        communicator.exchange(VALUES, sends, messages, receives, into, &mut || meanwhile(with_halo))?;
        let (lower, higher) = incoming.split_at(halo.below);
        with_halo[..halo.below].copy_from_slice(lower);
        with_halo[halo.below + halo.own..].copy_from_slice(higher);
        Ok(())
    }
}

/// Elements of a vector that boundary rows have.
fn gather<Y: Number>(from: &[Y], rows: &[u32], to: &mut [Y]) {
    to.iter_mut().zip(rows).for_each(|(to, i)| *to = from[*i as usize]);
}

/// The rows of this rank as an operator, whose columns are numbered as [`crate::comm::LocalColumns`] does.
pub(crate) fn distributed<S: Number, X: Number, Y: Number>(
    host: &Host,
    halo: Arc<Halo>,
    matrix: SharedCsr<S>,
    sums: Sums,
) -> Result<Box<dyn Operator<Host, X, Y>>> {
    DistributedMatrix::of(host, Parts::new(host, halo, matrix, sums)?)
}

/// All rows of this rank and the boundary rows among them, for vectors of any precision.
pub(crate) struct Parts {
    halo: Arc<Halo>,
    all: AnyOperator,
    nonzeros: usize,
    boundary: AnyOperator,
    /// Numbers of the boundary rows.
    rows: Vec<u32>,
}

impl Parts {
    /// Own rows of a matrix of which every rank has all rows, or its own. `rows` as in [`sparse::own_rows`]. Collective; what
    /// fails here alone is inside.
    pub(crate) fn own<S: Number>(
        host: &Host,
        over: &Arc<Distribution>,
        matrix: &SharedCsr<S>,
        sums: Sums,
        rows: &mut Option<OwnRows>,
    ) -> Result<Result<Parts>> {
        let (local, halo) = sparse::own_rows(over, matrix, rows)?;
        Ok(Parts::new(host, halo, local, sums))
    }

    fn new<S: Number>(host: &Host, halo: Arc<Halo>, matrix: SharedCsr<S>, sums: Sums) -> Result<Parts> {
        let (boundary, rows) = boundary_of(&halo, &matrix.view())?;
        let nonzeros = matrix.view().nnz();
        let operator = |matrix| AnyOperator(Arc::new(Stored::new(host, matrix).with_sums(sums)));
        Ok(Parts { halo, all: operator(matrix), nonzeros, boundary: operator(boundary.into_shared()), rows })
    }
}

impl<X: Number, Y: Number> DistributedMatrix<X, Y> {
    /// As an operator, where it was made on all ranks. Collective.
    pub(crate) fn agreed(
        host: &Host,
        over: &Distribution,
        parts: Result<Parts>,
    ) -> Result<Box<dyn Operator<Host, X, Y>>> {
        over.ranks.agree(parts.and_then(|parts| Self::of(host, parts)))
    }

    /// As an operator.
    fn of(host: &Host, parts: Parts) -> Result<Box<dyn Operator<Host, X, Y>>> {
        let Parts { halo, all, nonzeros, boundary, rows } = parts;
        let (all, boundary) = (Box::new(all), Box::new(boundary));
        let n = rows.len();
        let work = Work { x: Exchanged::new(&halo)?, y: try_vec(n, Y::ZERO)?, b: try_vec(n, Y::ZERO)? };
        let (host, work) = (host.clone(), Mutex::new(work));
        Ok(Box::new(DistributedMatrix { host, halo, all, nonzeros, boundary, rows, work }))
    }

    /// `multiply` computes y from rows, b and x with the elements of other ranks.
    fn product(&self, x: &[X], b: Option<&[Y]>, y: &mut [Y], multiply: Multiply<'_, X, Y>) -> Result<()> {
        let DistributedMatrix { host, halo, all, boundary, rows, .. } = self;
        let mut work = lock(self.work.lock());
        let Work { x: exchanged, y: own_y, b: own_b } = &mut *work;
        gather(y, rows, own_y);
        let mut done = Ok(());
        exchanged.exchange(host, halo, x, &mut |x| done = multiply(&**all, b, x, y))?;
        done?;
        if rows.is_empty() {
            return Ok(());
        }
        let own_b = b.map(|b| {
            gather(b, rows, own_b);
            &**own_b
        });
        multiply(&**boundary, own_b, &exchanged.with_halo, own_y)?;
        own_y.iter().zip(rows).for_each(|(from, i)| y[*i as usize] = *from);
        Ok(())
    }
}

/// Computes y from rows, b and x with the elements of other ranks.
type Multiply<'a, X, Y> = &'a dyn Fn(&dyn Operator<Host, X, Y>, Option<&[Y]>, &[X], &mut [Y]) -> Result<()>;

impl<X: Number, Y: Number> Operator<Host, X, Y> for DistributedMatrix<X, Y> {
    fn rows(&self) -> usize {
        self.all.rows()
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        self.product(x, None, y, &|a, _, x, y| a.apply(alpha, x, beta, y))
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        self.product(x, Some(b), r, &|a, b, x, r| a.residual(b.unwrap_or_default(), x, r))
    }

    fn own_part(&self) -> Option<OwnPart> {
        let halo = &self.halo;
        let (received, neighbours) = (halo.received(size_of::<X>()), halo.neighbours());
        Some(OwnPart { rows: self.all.rows(), nonzeros: self.nonzeros, received, neighbours })
    }

    fn bytes(&self) -> usize {
        let vectors = (self.halo.length() + self.halo.sent.len() + self.halo.ghosts) * size_of::<X>()
            + 2 * self.rows.len() * size_of::<Y>();
        self.all.bytes() + self.boundary.bytes() + size_of_val(self.rows.as_slice()) + self.halo.bytes() + vectors
    }

    fn format(&self) -> String {
        format!("{} over ranks", self.all.format())
    }

    fn precision(&self) -> Precision {
        self.all.precision()
    }
}
