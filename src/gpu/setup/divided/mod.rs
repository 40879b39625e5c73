//! Set-up on GPUs that is divided among ranks, with the bits of the host's ([`crate::host::distributed`]).
//!
//! A matrix has the rows of this rank, and rows and columns have local numbers ([`Numbering`]): those of own unknowns and of ghosts, in the order of
//! the global ones. Rows of ghosts are empty. So steps run on it as on any matrix. What concerns the boundary goes through the host: messages, and the
//! numbers of ghosts. Own rows stay on the device. Where rows of other ranks come between them, columns have global numbers.

pub(crate) mod aggregation;
pub(crate) mod coarsening;
pub(crate) mod eigenvalue;
pub(crate) mod interpolation;
pub(crate) mod nodes;
pub(crate) mod product;
mod rows;
pub(crate) mod smoothed;
pub(crate) mod transposition;

#[cfg(feature = "unit-tests")]
mod tests;

use super::{DeviceCsr, DevicePattern};
use crate::comm::divided::GHOSTS;
use crate::comm::halo::scaled;
use crate::comm::{Distribution, DividedLevel, LocalNumbers, Numbering, exchange};
use crate::error::{Result, try_collect, try_vec};
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::{Element, Number};
use crate::sparse::Block;
use std::sync::Arc;

/// The rows of this rank of a matrix.
pub(crate) struct DeviceDivided<S> {
    /// Rows and columns count from the first local number; rows of ghosts are empty.
    pub matrix: DeviceCsr<S>,
    /// The numbers of its rows and of its columns. Those of a square matrix are the same.
    pub rows: Arc<Numbering>,
    pub columns: Arc<Numbering>,
}

impl<S> Clone for DeviceDivided<S>
where
    DeviceCsr<S>: Clone,
{
    fn clone(&self) -> Self {
        let (rows, columns) = (Arc::clone(&self.rows), Arc::clone(&self.columns));
        DeviceDivided { matrix: self.matrix.clone(), rows, columns }
    }
}

/// The pattern of a divided matrix. Clones share the arrays.
#[derive(Clone)]
pub(crate) struct DeviceDividedPattern {
    pub pattern: DevicePattern,
    rows: Arc<Numbering>,
    columns: Arc<Numbering>,
}

/// Own rows of blocks, one after the other: offsets from 0, columns and values.
struct OwnRows<T> {
    block: Block,
    offsets: Buffer<i64>,
    columns: Arc<Buffer<i32>>,
    values: Arc<Buffer<T>>,
}

impl<S> DeviceDivided<S> {
    /// Another matrix with these rows and columns.
    pub fn with<N>(&self, matrix: DeviceCsr<N>) -> DeviceDivided<N> {
        DeviceDivided { matrix, rows: Arc::clone(&self.rows), columns: Arc::clone(&self.columns) }
    }

    /// Its pattern.
    pub fn pattern(&self) -> DeviceDividedPattern {
        let (rows, columns) = (Arc::clone(&self.rows), Arc::clone(&self.columns));
        DeviceDividedPattern { pattern: self.matrix.pattern(), rows, columns }
    }

    /// The level of its rows.
    pub fn level<'a>(&'a self, over: &'a Arc<Distribution>) -> DividedLevel<'a> {
        DividedLevel { over, numbers: &self.rows }
    }

    /// Offsets of the own rows.
    fn own_offsets(&self) -> &Slice<i64> {
        own_offsets(&self.rows, &self.matrix.offsets)
    }
}

/// Offsets of the own rows, from those of all.
fn own_offsets<'a>(numbers: &LocalNumbers, offsets: &'a Slice<i64>) -> &'a Slice<i64> {
    offsets.subslice(numbers.inside().start, numbers.own.len() + 1)
}

impl<S: Number> DeviceDivided<S> {
    /// From own rows whose columns have numbers of `columns`.
    fn of_own_rows(gpu: &Gpu, rows: &Arc<Numbering>, columns: Arc<Numbering>, own: OwnRows<S>) -> Result<Self> {
        let offsets = Arc::new(joined_offsets(gpu, rows, (&[0], &own.offsets, &[0]))?);
        let (count, cols) = (rows.count(), columns.count());
        let OwnRows { block, columns: entries, values, .. } = own;
        let matrix = DeviceCsr { rows: count, cols, block, offsets, columns: entries, values };
        Ok(DeviceDivided { matrix, rows: Arc::clone(rows), columns })
    }

    /// The own rows alone, with columns as they are.
    pub fn own_matrix(&self, gpu: &Gpu) -> Result<DeviceCsr<S>> {
        let OwnRows { block, offsets, columns, values } = own_rows(gpu, &self.rows, &self.matrix)?;
        let (rows, cols) = (self.rows.own.len(), self.matrix.cols);
        Ok(DeviceCsr { rows, cols, block, offsets: Arc::new(offsets), columns, values })
    }
}

/// The own rows of a matrix that may have some of ghosts, too.
fn own_rows<S: Number>(gpu: &Gpu, numbers: &LocalNumbers, a: &DeviceCsr<S>) -> Result<OwnRows<S>> {
    let DeviceCsr { block, offsets, columns, values, .. } = a;
    let (all, block, width) = (own_offsets(numbers, offsets), *block, block.len());
    let begin = gpu.fetch(all.subslice(0, 1))?[0] as usize;
    let length = gpu.fetch(all.subslice(numbers.own.len(), 1))?[0] as usize - begin;
    let alone = LocalNumbers::new(numbers.own.clone(), Vec::new())?;
    let offsets = joined_offsets(gpu, &alone, (&[0], all, &[0]))?;
    if length == columns.len() {
        return Ok(OwnRows { block, offsets, columns: Arc::clone(columns), values: Arc::clone(values) });
    }
    let columns = Arc::new(copied(gpu, columns.subslice(begin, length))?);
    let values = Arc::new(copied(gpu, values.subslice(begin * width, length * width))?);
    Ok(OwnRows { block, offsets, columns, values })
}

/// A copy of an array.
pub(super) fn copied<T: Element>(gpu: &Gpu, from: &Slice<T>) -> Result<Buffer<T>> {
    let to = gpu.allocate(from.len())?;
    copy_at(gpu, from, 0, &to)?;
    Ok(to)
}

/// Copies an array into another one, from an element on.
fn copy_at<T: Element>(gpu: &Gpu, from: &Slice<T>, at: usize, to: &Slice<T>) -> Result<()> {
    let kernel = gpu.kernel(&format!("divided_copy_{}", T::TYPE.bits().name()))?;
    gpu.launch(kernel, from.len(), &[&(from.len() as i64), &(at as i64), &from.view().bits(), &to.view().bits()])
}

/// Offsets of rows with these numbers: those of lower ghosts, of own rows, and of higher ghosts. Where ghosts have no entries `&[0]` is enough.
fn joined_offsets(
    gpu: &Gpu,
    numbers: &LocalNumbers,
    (lower, own, higher): (&[i64], &Slice<i64>, &[i64]),
) -> Result<Buffer<i64>> {
    let (inside, count) = (numbers.inside(), numbers.count());
    let above = count - inside.end;
    let filled = |offsets: &[i64], rows: usize| match offsets.len() == rows + 1 {
        true => gpu.upload(offsets),
        false => gpu.zeroed(rows + 1),
    };
    let (lower, higher) = (filled(lower, inside.start)?, filled(higher, above)?);
    let to = gpu.allocate::<i64>(count + 1)?;
    let [below, rows, above] = [inside.start, inside.len(), above].map(|n| n as i64);
    gpu.launch(
        gpu.kernel("divided_join_offsets")?,
        count + 1,
        &[&below, &rows, &above, &lower.view(), &own.view(), &higher.view(), &to.view()],
    )?;
    Ok(to)
}

/// The numbers of unknowns as kernels take them.
struct Table<'a> {
    gpu: &'a Gpu,
    below: i32,
    own: i32,
    first: i32,
    ghosts: Buffer<i32>,
}

impl<'a> Table<'a> {
    fn new(gpu: &'a Gpu, numbers: &LocalNumbers) -> Result<Table<'a>> {
        let ghosts = gpu.upload(&try_collect(numbers.ghosts().iter().map(|ghost| *ghost as i32))?)?;
        let (below, own) = (numbers.inside().start as i32, numbers.own.len() as i32);
        Ok(Table { gpu, below, own, first: numbers.own.start as i32, ghosts })
    }

    /// Columns by their global numbers.
    fn to_global(&self, local: &Slice<i32>) -> Result<Buffer<i32>> {
        let Table { gpu, below, own, first, ghosts } = self;
        let (n, global) = (local.len(), gpu.allocate::<i32>(local.len())?);
        let kernel = gpu.kernel("divided_to_global")?;
        gpu.launch(kernel, n, &[&(n as i64), below, own, first, &ghosts.view(), &local.view(), &global.view()])?;
        Ok(global)
    }

    /// Columns by these numbers; all of them have one.
    fn to_local(&self, global: &Slice<i32>) -> Result<Buffer<i32>> {
        let Table { gpu, below, own, first, ghosts } = self;
        let (n, local) = (global.len(), gpu.allocate::<i32>(global.len())?);
        let (kernel, count) = (gpu.kernel("divided_to_local")?, ghosts.len() as i32);
        let (from, to) = (global.view(), local.view());
        gpu.launch(kernel, n, &[&(n as i64), below, own, first, &count, &ghosts.view(), &from, &to])?;
        Ok(local)
    }
}

/// Numbers for columns that are given by their global ones, and the columns by these. Collective.
fn numbered(
    gpu: &Gpu,
    over: &Arc<Distribution>,
    starts: &[usize],
    columns: &Slice<i32>,
) -> Result<(Arc<Numbering>, Arc<Buffer<i32>>)> {
    let rank = over.ranks.rank();
    let own = starts[rank]..starts[rank + 1];
    // Those of other ranks are few; some of them occur several times.
    let [length, first] = [own.len(), own.start].map(|number| number as i32);
    let outside = |list: &Slice<i32>| -> Result<Vec<i32>> {
        let (n, room) = (columns.len(), list.len() as i32 - 1);
        let views = [columns.view(), list.view()];
        let kernel = gpu.kernel("divided_outside")?;
        gpu.launch(kernel, n, &[&(n as i64), &length, &first, &room, &views[0], &views[1]])?;
        gpu.fetch(list)
    };
    let count = outside(&gpu.zeroed::<i32>(1)?)?[0] as usize;
    let list = outside(&gpu.list(count)?)?;
    let mut ghosts = try_collect(list[1..].iter().map(|j| *j as u64))?;
    ghosts.sort_unstable();
    ghosts.dedup();
    let numbering = Numbering::new(over, starts, ghosts)?;
    let local = Table::new(gpu, &numbering)?.to_local(columns)?;
    Ok((Arc::new(numbering), Arc::new(local)))
}

/// The messages for the ghosts of some numbers.
pub(super) struct Ghosts<'a> {
    gpu: &'a Gpu,
    over: &'a Distribution,
    numbers: &'a Numbering,
    /// Own unknowns that other ranks have as ghosts.
    sent: Buffer<i32>,
}

impl<'a> Ghosts<'a> {
    pub fn new(gpu: &'a Gpu, over: &'a Distribution, numbers: &'a Numbering) -> Result<Ghosts<'a>> {
        let sent = gpu.upload(&try_collect(numbers.halo.sent.iter().map(|i| *i as i32))?)?;
        Ok(Ghosts { gpu, over, numbers, sent })
    }

    fn below(&self) -> usize {
        self.numbers.inside().start
    }

    /// Runs a kernel for each element of the unknowns that are sent: their number, how many ghosts are before the own unknowns, elements of an unknown,
    /// and these arrays.
    fn each_element(&self, kernel: &str, width: usize, views: &[View<'_>]) -> Result<()> {
        let n = self.sent.len() * width;
        let (count, below, width) = (n as i64, self.below() as i64, width as i32);
        let mut arguments: Vec<&dyn Argument> = vec![&count, &below, &width];
        arguments.extend(views.iter().map(|view| view as &dyn Argument));
        self.gpu.launch(self.gpu.kernel(kernel)?, n, &arguments)
    }

    /// Brings what other ranks have for the ghosts of a vector with `width` elements for each unknown. Collective.
    pub fn bring<T: Element>(&self, width: usize, vector: &mut Slice<T>) -> Result<()> {
        let (gpu, halo) = (self.gpu, &self.numbers.halo);
        let mut out = try_vec(self.sent.len() * width, T::default())?;
        if !out.is_empty() {
            let packed = gpu.allocate::<T>(out.len())?;
            let views = [self.sent.view(), vector.view().bits(), packed.view().bits()];
            self.each_element(&format!("divided_pack_{}", T::TYPE.bits().name()), width, &views)?;
            gpu.read(&packed, &mut out)?;
        }
        let mut incoming = try_vec(halo.ghosts * width, T::default())?;
        let (sends, receives) = (scaled(&halo.sends, width)?, scaled(&halo.receives, width)?);
        exchange(self.over, GHOSTS, (&sends, &out), (&receives, &mut incoming))?;
        let (lower, higher) = incoming.split_at(self.below() * width);
        gpu.write(lower, vector.subslice_mut(0, lower.len()))?;
        gpu.write(higher, vector.subslice_mut(self.numbers.inside().end * width, higher.len()))
    }

    /// What other ranks have found for the unknowns that are sent, in the ghosts of such a vector. Collective.
    fn back<T: Element>(&self, width: usize, vector: &Slice<T>) -> Result<Buffer<T>> {
        let (gpu, halo) = (self.gpu, &self.numbers.halo);
        let mut out = try_vec(halo.ghosts * width, T::default())?;
        let (lower, higher) = out.split_at_mut(self.below() * width);
        gpu.read(vector.subslice(0, lower.len()), lower)?;
        gpu.read(vector.subslice(self.numbers.inside().end * width, higher.len()), higher)?;
        let mut incoming = try_vec(self.sent.len() * width, T::default())?;
        let (sends, receives) = (scaled(&halo.sends, width)?, scaled(&halo.receives, width)?);
        exchange(self.over, GHOSTS, (&receives, &out), (&sends, &mut incoming))?;
        gpu.upload(&incoming)
    }
}

impl DeviceDividedPattern {
    /// The matrix with these values.
    fn with<T>(&self, values: Arc<Buffer<T>>) -> DeviceDivided<T> {
        let DevicePattern { rows, cols, block, offsets, columns } = self.pattern.clone();
        let matrix = DeviceCsr { rows, cols, block, offsets, columns, values };
        DeviceDivided { matrix, rows: Arc::clone(&self.rows), columns: Arc::clone(&self.columns) }
    }
}
