//! A GPU over ranks: each rank has contiguous rows of every matrix and vector on its device.
//!
//! What other ranks need of a vector is packed on the device, copied to the host, sent, and copied to the device of the
//! other rank. A row is summed by as many lanes as the size of the whole matrix tells, and inner products do not depend on
//! the order of their terms (`kernels/distributed.cu`), so that results have the same bits for any number of ranks.

use super::csr::{Csr, lanes};
use super::product::{Epilogue, Precisions, operator};
use super::rounded_sums::RoundedSums;
use super::runtime::{Kernel, tag};
use super::setup::DeviceCsr;
use super::setup::divided::DeviceDivided;
use super::vector::part_count;
use super::{Buffer, Gpu, Slice, to_scalar};
use crate::backend::{Backend, Operator, OwnPart};
use crate::comm::halo::VALUES;
use crate::comm::{Distribution, Halo, Part, Reduction, ReproducibleSum, bytes, bytes_mut};
use crate::error::{Result, try_collect, try_vec};
use crate::scalar::{Number, Precision, Scalar, Sums};
use crate::sparse::{OwnRows, SharedCsr, own_rows};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// Most blocks of an inner product.
const BLOCKS: usize = 1024;

/// What a GPU is one of several ranks for.
pub(super) enum RanksFor {
    /// Vectors, of which each has a part.
    Vectors(OverRanks),
    /// A set-up that is divided among them.
    Setup(Arc<Distribution>),
}

/// The ranks that have the other parts of vectors.
pub(super) struct OverRanks {
    pub over: Arc<Distribution>,
    dot: [Kernel; 4],
    dot_finish: Kernel,
    /// Sums of blocks, and the result.
    sums: Buffer<f64>,
}

impl Gpu {
    /// The same as one of several ranks.
    pub(crate) fn over(&self, over: &Arc<Distribution>) -> Result<Gpu> {
        let alone = self.alone();
        let of = |p: Precision| alone.kernel(&format!("binned_dot_{}", p.name()));
        let dot = [of(Precision::F64)?, of(Precision::F32)?, of(Precision::F16)?, of(Precision::BF16)?];
        let dot_finish = alone.kernel("binned_dot_finish")?;
        let sums = alone.zeroed((BLOCKS + 1) * ReproducibleSum::NUMBERS)?;
        let ranks = OverRanks { over: Arc::clone(over), dot, dot_finish, sums };
        Ok(Gpu { ranks: Some(Arc::new(RanksFor::Vectors(ranks))), ..alone })
    }

    /// The same without the other ranks.
    pub(super) fn alone(&self) -> Gpu {
        Gpu { inner: Arc::clone(&self.inner), scratch: Arc::clone(&self.scratch), ranks: None }
    }

    /// The same for a set-up that is divided among ranks.
    pub(crate) fn dividing(&self, over: &Arc<Distribution>) -> Gpu {
        Gpu { ranks: Some(Arc::new(RanksFor::Setup(Arc::clone(over)))), ..self.alone() }
    }

    /// The ranks that have the other parts of vectors.
    pub(super) fn over_ranks(&self) -> Option<&OverRanks> {
        match self.ranks.as_deref() {
            Some(RanksFor::Vectors(ranks)) => Some(ranks),
            _ => None,
        }
    }

    /// The same without what inner products need.
    pub(super) fn distribution(&self) -> Option<&Arc<Distribution>> {
        self.over_ranks().map(|ranks| &ranks.over)
    }

    /// The ranks among which set-up is divided.
    pub(super) fn dividing_ranks(&self) -> Option<&Arc<Distribution>> {
        match self.ranks.as_deref() {
            Some(RanksFor::Setup(over)) => Some(over),
            _ => None,
        }
    }

    /// The inner product over all ranks. Synchronises.
    pub(super) fn dot_over<T: Number>(&self, ranks: &OverRanks, x: &Slice<T>, y: &Slice<T>) -> Result<f64> {
        assert_eq!(x.len(), y.len());
        self.failed()?;
        let mut own = ReproducibleSum::default();
        if !x.is_empty() {
            const NUMBERS: usize = ReproducibleSum::NUMBERS;
            let blocks = part_count(x.len()).min(BLOCKS);
            let (parts, result) =
                (ranks.sums.subslice(0, blocks * NUMBERS), ranks.sums.subslice(BLOCKS * NUMBERS, NUMBERS));
            let kernel = ranks.dot[tag::<T>() as usize];
            self.launch_blocks(kernel, blocks, &[&(x.len() as i64), &x.view(), &y.view(), &parts.view()])?;
            self.launch_blocks(ranks.dot_finish, 1, &[&(blocks as i64), &parts.view(), &result.view()])?;
            let mut numbers = [0.0; NUMBERS];
            self.read(result, &mut numbers)?;
            own.merge_all(&numbers);
        }
        let sum = ranks.over.sum(&own);
        ranks.over.ranks.status().map(|()| sum)
    }

    /// A matrix of which every rank has all rows, or its own, as an operator. Collective.
    pub(super) fn operator_over<S: Number, X: Number, Y: Number>(
        &self,
        over: &Arc<Distribution>,
        matrix: &SharedCsr<S>,
        sums: Sums,
        known: &mut Option<OwnRows>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        let (local, halo) = own_rows(over, matrix, known)?;
        let whole = self.of_all_ranks(over, (local.view().scalar_rows(), local.view().nnz()))?;
        over.ranks.agree(self.local_operator(halo, &local, whole, sums))
    }

    /// The rows of this rank, whose columns are numbered as [`crate::comm::LocalColumns`] does, of a matrix with so many
    /// rows and entries on all ranks.
    pub(crate) fn local_operator<S: Number, X: Number, Y: Number>(
        &self,
        halo: Arc<Halo>,
        local: &SharedCsr<S>,
        (rows, entries): (usize, usize),
        sums: Sums,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        self.operator_of_own(halo, DeviceCsr::upload(&self.alone(), &local.view())?, (rows, entries), sums)
    }

    /// Rows and entries, added over all ranks. Collective.
    fn of_all_ranks(&self, over: &Distribution, own: (usize, usize)) -> Result<(usize, usize)> {
        let sum = |own: usize| over.ranks.reduce(own as i64, Reduction::Sum);
        Ok((sum(own.0)? as usize, sum(own.1)? as usize))
    }

    /// A divided matrix of set-up as an operator. Collective.
    pub(super) fn divided_operator<S: Number, X: Number, Y: Number>(
        &self,
        over: &Arc<Distribution>,
        a: &DeviceDivided<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        let alone = self.alone();
        let own = a.own_matrix(&alone).and_then(|own| to_scalar(&alone, &own));
        let halo = a.columns.halo_of_blocks(a.matrix.block.cols);
        let (own, halo) = over.ranks.agree(own.and_then(|own| Ok((own, halo?))))?;
        let whole = self.of_all_ranks(over, (own.rows, own.nnz()))?;
        over.ranks.agree(self.operator_of_own(halo, own, whole, sums))
    }

    /// A matrix of which the only rank has all rows, as an operator.
    pub(super) fn operator_of_one<S: Number, X: Number, Y: Number>(
        &self,
        over: &Arc<Distribution>,
        a: &DeviceCsr<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        let a = to_scalar(&self.alone(), a)?;
        let halo = Arc::new(Halo::new(over, &over.starts(a.cols)?, &[], 0)?);
        let whole = (a.rows, a.nnz());
        self.operator_of_own(halo, a, whole, sums)
    }

    /// The rows of this rank on the device, of a matrix with so many rows and entries on all ranks.
    fn operator_of_own<S: Number, X: Number, Y: Number>(
        &self,
        halo: Arc<Halo>,
        a: DeviceCsr<S>,
        (rows, entries): (usize, usize),
        sums: Sums,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        let (alone, precisions, own_entries) = (self.alone(), Precisions::of::<S, X, Y>(), a.nnz());
        let inner = match sums == Sums::Rounded && !Y::PRECISION.is_scalar() {
            true => operator(RoundedSums::new(&alone, a, precisions)?),
            false => operator(Csr::new(&alone, a, precisions)?.with_lanes(lanes(entries, rows))),
        };
        Ok(Box::new(DistributedProduct::new(&alone, halo, inner, own_entries)?))
    }

    /// As [`Backend::convert_into_range`] in the max norm over all ranks, where `first` stores those of blocks. Synchronises.
    pub(super) fn largest_of_all(&self, over: &Distribution, count: usize) -> Result<()> {
        let mut largest = [0.0];
        if count > 0 {
            largest[0] = self.largest_part(count)?;
        }
        let all = over.max(largest[0]);
        over.ranks.status()?;
        if count > 0 { self.write_part(all) } else { Ok(()) }
    }
}

/// The rows of this rank as an operator on vectors of which each rank has a part.
struct DistributedProduct<X: Number, Y: Number> {
    gpu: Gpu,
    halo: Arc<Halo>,
    /// On x with the elements of other ranks.
    inner: Box<dyn Operator<Gpu, X, Y>>,
    /// Entries of its rows.
    entries: usize,
    /// Elements that are sent.
    sent: Buffer<i32>,
    pack: Kernel,
    sends: Vec<Part>,
    receives: Vec<Part>,
    work: Mutex<Work<X>>,
}

/// Vectors of a product, on the device and on the host.
struct Work<X> {
    /// x with the elements of other ranks.
    x: Buffer<X>,
    packed: Buffer<X>,
    outgoing: Vec<X>,
    incoming: Vec<X>,
}

impl<X: Number, Y: Number> DistributedProduct<X, Y> {
    fn new(
        gpu: &Gpu,
        halo: Arc<Halo>,
        inner: Box<dyn Operator<Gpu, X, Y>>,
        entries: usize,
    ) -> Result<DistributedProduct<X, Y>> {
        let sent = gpu.upload(&try_collect(halo.sent.iter().map(|i| *i as i32))?)?;
        let pack = gpu.kernel(&format!("pack_{}", X::PRECISION.name()))?;
        let (sends, receives) = halo.messages(size_of::<X>())?;
        let work = Work {
            x: gpu.zeroed(halo.length())?,
            packed: gpu.zeroed(halo.sent.len())?,
            outgoing: try_vec(halo.sent.len(), X::ZERO)?,
            incoming: try_vec(halo.ghosts, X::ZERO)?,
        };
        let (gpu, work) = (gpu.clone(), Mutex::new(work));
        Ok(DistributedProduct { gpu, halo, inner, entries, sent, pack, sends, receives, work })
    }

    /// Runs `multiply` on x with the elements of other ranks. The part of this rank is copied while messages are under way.
    fn with_halo<R>(&self, x: &Slice<X>, multiply: impl FnOnce(&Slice<X>) -> Result<R>) -> Result<R> {
        let DistributedProduct { gpu, halo, .. } = self;
        let mut work = lock(self.work.lock());
        let Work { x: with_halo, packed, outgoing, incoming } = &mut *work;
        let n = halo.sent.len();
        if n > 0 {
            gpu.elementwise(self.pack, n, &[&(n as i64), &self.sent.view(), &x.view(), &packed.view()])?;
            gpu.read(packed, outgoing)?;
        }
        let communicator = halo.over.ranks.communicator();
        communicator.exchange(
            VALUES,
            &self.sends,
            bytes(outgoing),
            &self.receives,
            bytes_mut(incoming),
            &mut || {
                gpu.copy(x, with_halo.subslice_mut(halo.below, halo.own));
            },
        )?;
        let (lower, higher) = incoming.split_at(halo.below);
        gpu.write(lower, with_halo.subslice_mut(0, halo.below))?;
        gpu.write(higher, with_halo.subslice_mut(halo.below + halo.own, halo.ghosts - halo.below))?;
        multiply(with_halo)
    }
}

impl<X: Number, Y: Number> Operator<Gpu, X, Y> for DistributedProduct<X, Y> {
    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn apply(&self, alpha: Y::Wide, x: &Slice<X>, beta: Y::Wide, y: &mut Slice<Y>) -> Result<()> {
        self.with_halo(x, |x| self.inner.apply(alpha, x, beta, y))
    }

    fn residual(&self, b: &Slice<Y>, x: &Slice<X>, r: &mut Slice<Y>) -> Result<()> {
        self.with_halo(x, |x| self.inner.residual(b, x, r))
    }

    fn has_epilogue(&self, width: usize) -> bool {
        self.inner.has_epilogue(width)
    }

    /// Inner products are over all ranks, and not part of it.
    fn apply_with_epilogue(&self, x: &Slice<X>, epilogue: Epilogue<'_>) -> Result<usize> {
        self.with_halo(x, |x| self.inner.apply_with_epilogue(x, epilogue.without_sum()))
    }

    fn is_capturable(&self) -> bool {
        false
    }

    fn own_part(&self) -> Option<OwnPart> {
        let halo = &self.halo;
        let (received, neighbours) = (halo.received(size_of::<X>()), halo.neighbours());
        Some(OwnPart { rows: self.rows(), nonzeros: self.entries, received, neighbours })
    }

    fn bytes(&self) -> usize {
        let elements = self.halo.length() + 2 * self.halo.sent.len() + self.halo.ghosts;
        self.inner.bytes() + elements * size_of::<X>() + self.halo.bytes() + self.halo.sent.len() * size_of::<i32>()
    }

    fn format(&self) -> String {
        format!("{} over ranks", self.inner.format())
    }

    fn precision(&self) -> Precision {
        self.inner.precision()
    }
}

/// A square operator of the coarsest level, which every rank that has rows of it holds as a whole.
pub(super) struct ReplicatedProduct<V: Number> {
    gpu: Gpu,
    over: Arc<Distribution>,
    inner: Box<dyn Operator<Gpu, V>>,
    /// Rows of all ranks.
    n: usize,
    /// Bytes of each rank's part.
    lengths: Vec<usize>,
    work: Mutex<ReplicatedWork<V>>,
}

struct ReplicatedWork<V> {
    part: Vec<V>,
    whole: Vec<V>,
    /// On the device.
    x: Buffer<V>,
    y: Buffer<V>,
}

impl<V: Number> ReplicatedProduct<V> {
    /// Of `n` rows.
    pub fn new(gpu: &Gpu, over: &Arc<Distribution>, n: usize, inner: Box<dyn Operator<Gpu, V>>) -> Result<Self> {
        let starts = over.starts(n)?;
        let lengths = try_collect(starts.windows(2).map(|pair| (pair[1] - pair[0]) * size_of::<V>()))?;
        let (gpu, own) = (gpu.alone(), over.own(n).len());
        let work = ReplicatedWork {
            part: try_vec(own, V::ZERO)?,
            whole: try_vec(n, V::ZERO)?,
            x: gpu.zeroed(n)?,
            y: gpu.zeroed(n)?,
        };
        Ok(ReplicatedProduct { gpu, over: Arc::clone(over), inner, n, lengths, work: Mutex::new(work) })
    }

    /// The part of this rank of A x.
    fn product<R>(&self, x: &Slice<V>, use_result: impl FnOnce(&Slice<V>) -> R) -> Result<R> {
        let mut work = lock(self.work.lock());
        let ReplicatedWork { part, whole, x: whole_x, y } = &mut *work;
        self.gpu.read(x, part)?;
        self.over.ranks.gather_into(part, &self.lengths, whole)?;
        self.gpu.write(whole, whole_x)?;
        self.inner.apply(V::Wide::ONE, whole_x, V::Wide::ZERO, y)?;
        let own = self.over.own(self.n);
        Ok(use_result(y.subslice(own.start, own.len())))
    }
}

impl<V: Number> Operator<Gpu, V> for ReplicatedProduct<V> {
    fn rows(&self) -> usize {
        self.over.own(self.n).len()
    }

    fn apply(&self, alpha: V::Wide, x: &Slice<V>, beta: V::Wide, y: &mut Slice<V>) -> Result<()> {
        self.product(x, |ax| self.gpu.axpby(alpha, ax, beta, y))
    }

    fn residual(&self, b: &Slice<V>, x: &Slice<V>, r: &mut Slice<V>) -> Result<()> {
        self.product(x, |ax| {
            self.gpu.copy(b, r);
            self.gpu.axpby(-V::Wide::ONE, ax, V::Wide::ONE, r);
        })
    }

    fn is_capturable(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.inner.bytes() + (3 * self.n + self.rows()) * size_of::<V>()
    }

    fn format(&self) -> String {
        self.inner.format()
    }

    fn precision(&self) -> Precision {
        self.inner.precision()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::comm::{Ranks, threads};
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::Host;
    use crate::threads::Threads;

    #[test]
    fn inner_products_have_the_bits_of_the_host() {
        let number = |i: usize, exponents: i32| {
            let mantissa = hash(i, 1) as i64 as f64 / i64::MAX as f64;
            mantissa * 2.0_f64.powi((hash(i, 2) % exponents as u64) as i32 - exponents / 2)
        };
        for gpu in devices() {
            for (n, exponents) in [(0, 1), (1, 1), (700, 40), (5000, 300), (900, 900)] {
                let ranks = Arc::new(Ranks::new(threads(1).remove(0)));
                let over = Distribution::new(ranks, vec![0, n]);
                let (host, gpu) = (Host::new(&Threads::new(1).unwrap()).over(&over), gpu.over(&over).unwrap());
                let [x, y] = [0, n].map(|from| (from..from + n).map(|i| number(i, exponents)).collect::<Vec<_>>());
                let (on_x, on_y) = (gpu.upload(&x).unwrap(), gpu.upload(&y).unwrap());
                assert_eq!(gpu.dot(&*on_x, &on_y).to_bits(), host.dot(&x, &y).to_bits(), "{n} {exponents}");
                let single = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
                let (x, y) = (single(&x), single(&y));
                let (on_x, on_y) = (gpu.upload(&x).unwrap(), gpu.upload(&y).unwrap());
                let (found, expected) = (gpu.dot(&*on_x, &on_y), host.dot(&x, &y));
                assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan());
            }
            for bad in [f64::NAN, f64::INFINITY, 1e200] {
                let over = Distribution::new(Arc::new(Ranks::new(threads(1).remove(0))), vec![0, 3]);
                let gpu = gpu.over(&over).unwrap();
                let x = gpu.upload(&[1.0, bad, 2.0]).unwrap();
                let found = gpu.dot(&*x, &x);
                assert!(if bad.is_nan() { found.is_nan() } else { found == f64::INFINITY }, "{bad}: {found}");
            }
        }
    }
}
