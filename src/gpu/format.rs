//! Choice of the storage format of a matrix on the device. SpMV is bound by memory traffic, so the bytes of the formats
//! are compared, each with a weight for what else it costs. The weights were fitted to SpMV times of the levels of
//! three hierarchies on an H200. The choice depends on the matrix alone: every run gives the same bits.

use super::Gpu;
use super::bsr::{self, Bsr};
use super::csr::{self, CompactColumns};
use super::csr_balanced::{self, LongRows, Unless};
use super::sell_chunks::{ChunkParameters, SellEstimate, SellKernel};
use super::sell_layout::{SellData, SellLayout};
use super::setup::tiles::{self, SIDE};
use super::setup::{DeviceCsr, DevicePattern};
use crate::error::Result;
use crate::scalar::{Precision, Scalar};
use crate::sparse::Block;
use std::sync::Arc;

/// Storage formats. Clones share their layout.
#[derive(Clone)]
pub(crate) enum Format {
    /// A group of lanes for each row.
    Csr,
    /// CSR with 16-bit columns.
    Csr16(Arc<CompactColumns>),
    /// CSR with long rows divided among several groups of lanes.
    CsrBalanced(Arc<LongRows>),
    /// SELL with 8-bit column offsets.
    Sell8(Arc<SellLayout>),
    /// SELL with 16-bit column offsets.
    Sell16(Arc<SellLayout>),
    /// BSR with blocks of 2 x 2 or 4 x 4.
    Bsr,
    /// A scalar matrix in tiles of 4 x 4.
    Tiles,
}

/// Weight of CSR: short rows do not fill memory transactions. With few rows other formats lose as much, because their
/// rows wait for vector elements that are far apart.
const CSR_WEIGHT: f64 = 1.2;
const FEW_ROWS_CSR_WEIGHT: f64 = 0.9;

/// Weights of CSR with 16-bit and 32-bit columns for few rows of values narrower than f64, from so many rows on. SELL
/// hides more latency there.
const NARROW_CSR_WEIGHTS: (f64, f64) = (1.3, 1.0);
const NARROW_MIN_ROWS: usize = 1 << 15;

/// Bytes that a row permutation costs for each row beyond its own: results are scattered.
const SCATTER_BYTES: f64 = 8.0;

/// Weight of SELL with sorted rows where there are few rows. Rows that are no longer neighbours share fewer cached
/// vector elements, and these bound the time.
const SORTED_WEIGHT: f64 = 1.25;

/// A matrix with fewer rows has too few chunks for SELL; CSR keeps more threads busy.
const MIN_SELL_ROWS: usize = 1 << 13;

/// With at most so many entries SpMV takes about as long as its launch in any format. Tiles are not considered.
const MAX_SMALL_ENTRIES: usize = 1 << 14;

/// Average row length from which 16-bit columns and tiles are considered.
const MIN_LONG_ROW: usize = 16;

/// An entry of a lane in the longest row counts as so many bytes: six entries take about 1.2 us, in which 4.8 MB could
/// be read. A second launch takes about 5 us.
const SERIAL_ENTRY_BYTES: f64 = 8e5;
const SECOND_LAUNCH_BYTES: f64 = 2e7;

/// Weight of BSR: the SELL kernels have no variant for these block sizes.
const BSR_WEIGHT: f64 = 0.6;

/// Weight of tiles, where a lane reads neighbouring vector elements at once. That of f32 is interpolated.
fn tiles_weight(storage: Precision) -> f64 {
    match storage.bytes() {
        8 => 0.75,
        4 => 0.65,
        _ => 0.5,
    }
}

/// A matrix whose format is to be chosen: its pattern, and the precisions of its values and of SpMV sums.
pub(crate) struct FormatQuery {
    pub pattern: DevicePattern,
    pub storage: Precision,
    pub sums: Precision,
    /// The matrix is a sample of one with so many times its rows, whose format is wanted; 1 where it is not.
    times: usize,
}

/// Candidates for SELL, and the number of the one with 8-bit offsets.
const SELL_CANDIDATES: usize = 3;
const EIGHT_BITS: usize = 2;

/// Counters of a matrix: slots of each SELL candidate, rows whose columns exceed 16 bits, statistics of long rows, and
/// the tiles and entries of a sample.
const FAR_ROWS: usize = SELL_CANDIDATES;
const LONG_ROWS: usize = FAR_ROWS + 1;
const LONGEST: usize = LONG_ROWS + csr_balanced::LONGEST;
const TILES: usize = LONG_ROWS + csr_balanced::NUMBERS;
const COUNTERS: usize = TILES + 2;

/// A candidate; SELL by the number of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Csr,
    Csr16,
    CsrBalanced,
    Sell(usize),
    Bsr,
    Tiles,
}

/// Counters of several matrices.
struct Counters<'a> {
    queries: &'a [FormatQuery],
    estimates: Vec<Option<SellEstimate>>,
    totals: Vec<[i64; COUNTERS]>,
}

impl Format {
    /// The format with the lowest estimate. Waits for the device.
    pub fn of(gpu: &Gpu, query: FormatQuery) -> Result<Format> {
        Ok(Format::of_all(gpu, &[query])?.remove(0))
    }

    /// The same for several matrices. Waits for the device twice.
    pub fn of_all(gpu: &Gpu, queries: &[FormatQuery]) -> Result<Vec<Format>> {
        let counters = Counters::new(gpu, queries)?;
        let best: Vec<_> = (0..queries.len()).map(|i| (i, counters.ranked(i)[0].0)).collect();
        counters.make(gpu, &best)
    }

    /// All formats for a matrix, the lowest estimate first. Tiles come last if they were not estimated. Waits for the
    /// device.
    pub fn every(gpu: &Gpu, query: FormatQuery) -> Result<Vec<Format>> {
        let all = [query];
        let counters = Counters::new(gpu, &all)?;
        let mut kinds: Vec<_> = counters.ranked(0).iter().map(|(kind, _)| (0, *kind)).collect();
        if !kinds.iter().any(|(_, kind)| matches!(kind, Kind::Tiles | Kind::CsrBalanced)) {
            kinds.push((0, Kind::Tiles));
        }
        counters.make(gpu, &kinds)
    }

    /// The matrix in SELL, as by [`SellLayout::fill_with_l1`]; none for other formats.
    pub fn slots<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, l1: bool) -> Result<Option<SellData<T>>> {
        match self {
            Format::Sell8(layout) | Format::Sell16(layout) => layout.fill_with_l1(gpu, a, l1).map(Some),
            Format::Csr | Format::Csr16(_) | Format::CsrBalanced(_) | Format::Bsr | Format::Tiles => Ok(None),
        }
    }

    /// Bytes of data for value updates, beyond those of operators.
    pub fn kept_bytes(&self) -> usize {
        match self {
            Format::Sell8(layout) | Format::Sell16(layout) => layout.kept_bytes(),
            Format::Csr | Format::Csr16(_) | Format::CsrBalanced(_) | Format::Bsr | Format::Tiles => 0,
        }
    }
}

impl<'a> Counters<'a> {
    fn new(gpu: &Gpu, queries: &'a [FormatQuery]) -> Result<Counters<'a>> {
        let totals = gpu.zeroed::<i64>(COUNTERS * queries.len())?;
        let (mut estimates, mut waits) = (Vec::new(), false);
        for (i, query) in queries.iter().enumerate() {
            let totals = totals.subslice(COUNTERS * i, COUNTERS);
            let longest = totals.subslice(LONGEST, 1);
            let mut unless = Unless::NEVER;
            if query.may_have_long_rows() {
                let long = totals.subslice(LONG_ROWS, csr_balanced::NUMBERS);
                csr_balanced::count(gpu, &query.pattern, csr_balanced::limit(&query.pattern), long)?;
                unless = Unless { longest: Some(longest), most: query.max_row() };
                waits = true;
            }
            if query.may_have_tiles() {
                tiles::sample(gpu, &query.pattern, totals.subslice(TILES, 2))?;
                waits = true;
            }
            if query.may_compact_columns() && !CompactColumns::always_fits(&query.pattern) {
                CompactColumns::count_far(gpu, &query.pattern, totals.subslice(FAR_ROWS, 1), unless)?;
                waits = true;
            }
            estimates.push(match query.sell_candidates() {
                None => None,
                Some(sell_candidates) => Some(SellEstimate::new(
                    gpu,
                    &query.pattern,
                    sell_candidates,
                    totals.subslice(0, SELL_CANDIDATES),
                    unless,
                )?),
            });
        }
        waits |= estimates.iter().any(Option::is_some);
        let totals = if waits { gpu.fetch(&totals)? } else { vec![0; totals.len()] };
        let totals = totals.chunks_exact(COUNTERS).map(|t| std::array::from_fn(|k| t[k])).collect();
        Ok(Counters { queries, estimates, totals })
    }

    /// Weighted bytes of the candidates in ascending order (a stable sort).
    fn ranked(&self, i: usize) -> Vec<(Kind, f64)> {
        let FormatQuery { pattern, storage, .. } = &self.queries[i];
        let (rows, entries) = (pattern.rows * pattern.block.rows, pattern.nnz() * pattern.block.len());
        let wide = self.queries[i].is_wide();
        let (is_scalar, is_narrow) = (pattern.block == Block::SCALAR, storage.bytes() < 8);
        let few = is_scalar && !wide;
        let (short, csr_bytes) = (self.queries[i].csr_weights().0, self.queries[i].csr_bytes());
        let longest = self.totals[i][LONGEST] as usize;
        if longest > self.queries[i].max_row() {
            let waiting = SERIAL_ENTRY_BYTES * longest as f64 / csr::lanes(pattern.nnz(), pattern.rows) as f64;
            return vec![(Kind::CsrBalanced, csr_bytes + SECOND_LAUNCH_BYTES), (Kind::Csr, waiting)];
        }
        let sorted = if few || is_narrow && !is_scalar && self.queries[i].kernel() != SellKernel::Blocks(1) {
            SORTED_WEIGHT
        } else {
            1.0
        };
        let mut all = Vec::new();
        let bytes = |estimate: &SellEstimate, k: usize| estimate.bytes(k, self.totals[i][k], pattern, *storage);
        if let Some(estimate) = self.estimates[i].as_ref().filter(|_| wide) {
            all.push((Kind::Sell(EIGHT_BITS), bytes(estimate, EIGHT_BITS)));
        }
        if self.queries[i].may_compact_columns() && self.totals[i][FAR_ROWS] == 0 {
            all.push((Kind::Csr16, short * csr::short_bytes(rows, entries, *storage) as f64));
        }
        all.push((Kind::Csr, csr_bytes));
        if let Some(estimate) = &self.estimates[i] {
            all.push((Kind::Sell(0), bytes(estimate, 0)));
            all.push((Kind::Sell(1), sorted * (bytes(estimate, 1) + SCATTER_BYTES * rows as f64)));
        }
        if Bsr::knows(pattern.block) {
            all.push((
                Kind::Bsr,
                BSR_WEIGHT * bsr::bytes(pattern.rows, pattern.nnz() as f64, pattern.block.rows, *storage),
            ));
        }
        let [.., sampled_tiles, sampled] = self.totals[i];
        if sampled > 0 {
            let tiles = entries as f64 * sampled_tiles as f64 / sampled as f64;
            let bytes = bsr::bytes(rows.div_ceil(SIDE), tiles, SIDE, *storage);
            all.push((Kind::Tiles, tiles_weight(*storage) * bytes));
        }
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all
    }

    /// Formats of these kinds for these matrices. Waits for the device if a SELL estimate is from a sample.
    fn make(&self, gpu: &Gpu, kinds: &[(usize, Kind)]) -> Result<Vec<Format>> {
        let totals = gpu.zeroed::<i64>(kinds.len())?;
        let (mut pending, mut known) = (Vec::new(), true);
        for (at, (i, kind)) in kinds.iter().enumerate() {
            pending.push(match (kind, &self.estimates[*i]) {
                (Kind::Sell(k), Some(estimate)) => {
                    known &= estimate.is_exact();
                    let slots = estimate.is_exact().then_some(self.totals[*i][*k] as usize);
                    let layout = estimate.layout(gpu, &self.queries[*i].pattern, *k, totals.subslice(at, 1))?;
                    Some((*k, slots, layout))
                }
                _ => None,
            });
        }
        let slots = if known { Vec::new() } else { gpu.fetch(&totals)? };
        let mut formats = Vec::new();
        for (at, ((i, kind), pending)) in kinds.iter().zip(pending).enumerate() {
            formats.push(match (kind, pending) {
                (Kind::Csr16, _) => Format::Csr16(Arc::new(CompactColumns::new(gpu, &self.queries[*i].pattern)?)),
                (Kind::CsrBalanced, _) => {
                    let counters = std::array::from_fn(|k| self.totals[*i][LONG_ROWS + k]);
                    Format::CsrBalanced(Arc::new(LongRows::new(gpu, &self.queries[*i].pattern, counters)?))
                }
                (Kind::Bsr, _) => Format::Bsr,
                (Kind::Tiles, _) => Format::Tiles,
                (_, None) => Format::Csr,
                (_, Some((k, known, pending))) => {
                    let layout = Arc::new(pending.with_slots(known.unwrap_or_else(|| slots[at] as usize)));
                    if k == EIGHT_BITS { Format::Sell8(layout) } else { Format::Sell16(layout) }
                }
            });
        }
        Ok(formats)
    }
}

impl FormatQuery {
    /// Of a matrix on this device, or of what it is a sample of.
    pub fn new(gpu: &Gpu, pattern: DevicePattern, storage: Precision, sums: Precision) -> FormatQuery {
        FormatQuery { pattern, storage, sums, times: gpu.times() }
    }

    /// The SELL kernel.
    fn kernel(&self) -> SellKernel {
        SellKernel::of(self.times * self.pattern.rows, self.pattern.block, self.times * self.pattern.nnz())
    }

    /// Parameters of the SELL candidates: 16-bit offsets, the same with sorted rows, and 8-bit offsets if there are
    /// enough rows for their kernel. None if there are too few rows for SELL.
    fn sell_candidates(&self) -> Option<Vec<ChunkParameters>> {
        let FormatQuery { pattern, storage, sums, times } = self;
        let kernel = self.kernel();
        let parameters =
            |(bits, sorted): &(usize, bool)| ChunkParameters::with_kernel(kernel, *storage, *sums, *bits, *sorted);
        let kinds = &[(16, false), (16, true), (8, false)][..if self.is_wide() { 3 } else { 2 }];
        (times * pattern.rows * pattern.block.rows >= MIN_SELL_ROWS).then(|| kinds.iter().map(parameters).collect())
    }

    fn is_wide(&self) -> bool {
        self.pattern.block == Block::SCALAR && self.kernel() == SellKernel::Rows
    }

    /// Weights of CSR with 16-bit and 32-bit columns.
    fn csr_weights(&self) -> (f64, f64) {
        let few = self.pattern.block == Block::SCALAR && !self.is_wide();
        match (few, self.storage.bytes() < 8 && self.times * self.pattern.rows >= NARROW_MIN_ROWS) {
            (true, true) => NARROW_CSR_WEIGHTS,
            (true, false) => (1.0, FEW_ROWS_CSR_WEIGHT),
            (false, _) => (1.0, CSR_WEIGHT),
        }
    }

    /// Weighted bytes of CSR.
    fn csr_bytes(&self) -> f64 {
        let DevicePattern { rows, block, .. } = self.pattern;
        let bytes = csr::bytes(rows * block.rows, self.pattern.nnz() * block.len(), self.storage);
        self.csr_weights().1 * bytes as f64
    }

    /// Entries of a scalar row beyond which SpMV would wait for it, so that dividing the row is faster.
    fn max_row(&self) -> usize {
        let lanes = csr::lanes(self.pattern.nnz(), self.pattern.rows);
        let of_lane = (self.csr_bytes() + SECOND_LAUNCH_BYTES) / SERIAL_ENTRY_BYTES;
        csr_balanced::worth(&self.pattern).max((of_lane * lanes as f64) as usize)
    }

    /// Whether there may be a row longer than that.
    fn may_have_long_rows(&self) -> bool {
        self.pattern.block == Block::SCALAR && self.pattern.nnz().min(self.pattern.cols) > self.max_row()
    }

    /// Whether tiles are considered: scalar rows long enough for dense tiles, and enough of them.
    fn may_have_tiles(&self) -> bool {
        let (rows, entries) = (self.times * self.pattern.rows, self.times * self.pattern.nnz());
        self.pattern.block == Block::SCALAR && rows > 0 && entries >= MIN_LONG_ROW * rows && entries > MAX_SMALL_ENTRIES
    }

    /// Whether CSR with 16-bit columns is considered: long scalar rows, too few for SELL to reach the bandwidth of
    /// memory.
    fn may_compact_columns(&self) -> bool {
        let DevicePattern { rows, block, .. } = self.pattern;
        block == Block::SCALAR && !self.is_wide() && rows > 0 && self.pattern.nnz() >= MIN_LONG_ROW * rows
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gpu::setup::DeviceCsr;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;

    /// Row i has as many entries from near the diagonal on as `row(i)` tells first, and so far apart as it tells then.
    fn query(gpu: &Gpu, rows: usize, cols: usize, row: impl Fn(usize) -> (usize, usize)) -> FormatQuery {
        let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
        for i in 0..rows {
            let (length, apart) = row(i);
            let first = i.min(cols.saturating_sub(length * apart));
            columns.extend((0..length).map(|k| (first + k * apart) as i32));
            offsets.push(columns.len() as i64);
        }
        let a = Csr::<f64>::with_pattern(rows, cols, Block::SCALAR, offsets, columns).unwrap();
        let pattern = DeviceCsr::upload(gpu, &a.view()).unwrap().pattern();
        FormatQuery::new(gpu, pattern, Precision::F64, Precision::F64)
    }

    fn name(format: &Format) -> &'static str {
        match format {
            Format::Csr => "csr",
            Format::Csr16(_) => "csr16",
            Format::CsrBalanced(_) => "csr_balanced",
            Format::Sell8(_) => "sell8",
            Format::Sell16(layout) if layout.order.is_empty() => "sell16",
            Format::Sell16(_) => "sell16s",
            Format::Bsr => "bsr",
            Format::Tiles => "tiles",
        }
    }

    #[test]
    fn long_rows_that_differ_have_short_columns() {
        let differing = |i: usize| (16 + i * i % 60, 5);
        for gpu in devices() {
            let of = |query| name(&Format::of(&gpu, query).unwrap());
            assert_eq!(of(query(&gpu, 9000, 9000, differing)), "csr16");
            // Few rows have no chunks.
            assert_eq!(of(query(&gpu, 1000, 1000, differing)), "csr16");
            // Short ones.
            assert_eq!(of(query(&gpu, 1000, 1000, |_| (3, 5))), "csr");
            assert_eq!(of(query(&gpu, 9000, 9000, |_| (5, 5))), "sell16");
            assert_eq!(of(query(&gpu, 0, 0, |_| (0, 0))), "csr");
            assert_eq!(of(query(&gpu, 20, 20, |_| (0, 0))), "csr");
        }
    }

    #[test]
    fn rows_that_all_others_wait_for_are_in_pieces() {
        // An arrow: the first row and the first column are full.
        let arrow = |gpu: &Gpu, n: usize| query(gpu, n, n, |i| if i == 0 { (n, 1) } else { (2, 1) });
        for gpu in devices() {
            let of = |query| name(&Format::of(&gpu, query).unwrap());
            assert_eq!(of(arrow(&gpu, 1000)), "csr_balanced");
            assert_eq!(of(arrow(&gpu, 20_000)), "csr_balanced");
            // Four lanes have a row of three entries, and 256 of them.
            assert_eq!(of(arrow(&gpu, 257)), "csr_balanced");
            assert_eq!(of(arrow(&gpu, 256)), "csr");
            let all = Format::every(&gpu, arrow(&gpu, 20_000)).unwrap();
            assert_eq!(all.iter().map(name).collect::<Vec<_>>(), ["csr_balanced", "csr"]);
            // Rows of equal length that are too few to fill a GPU.
            assert_eq!(of(query(&gpu, 3, 5000, |_| (5000, 1))), "csr_balanced");
            for (storage, sums) in [(Precision::F64, Precision::F64), (Precision::F16, Precision::F32)] {
                let laplacian = FormatQuery { storage, sums, ..query(&gpu, 20_000, 20_000, |_| (7, 1)) };
                assert!(laplacian.may_have_long_rows());
                assert_eq!(of(laplacian), "sell16");
            }
        }
    }

    #[test]
    fn many_entries_do_not_wait_for_a_row_that_takes_less_time() {
        let gpu = devices().remove(0);
        let most = |rows: usize, length: usize| {
            let (offsets, columns) =
                (Arc::new(gpu.allocate(rows + 1).unwrap()), Arc::new(gpu.allocate(rows * length).unwrap()));
            let pattern = DevicePattern { rows, cols: rows, block: Block::SCALAR, offsets, columns };
            FormatQuery::new(&gpu, pattern, Precision::F64, Precision::F64).max_row()
        };
        assert_eq!(most(1000, 4), 64 * 4);
        assert_eq!(most(1 << 17, 7), 64 * 2);
        // Two lanes have rows of seven entries. 96 MB in short rows take as long as 144 entries of a lane, a second
        // launch as 25.
        assert_eq!(most(1 << 20, 7), 2 * 169 + 1);
    }

    #[test]
    fn a_row_out_of_reach_has_long_columns() {
        for gpu in devices() {
            let near = query(&gpu, 2000, 70_000, |i| (20 + i % 2, 5));
            assert_eq!(name(&Format::of(&gpu, near).unwrap()), "csr16");
            let far = query(&gpu, 2000, 70_000, |i| (20 + i % 2, if i == 1000 { 3450 } else { 5 }));
            assert_eq!(name(&Format::of(&gpu, far).unwrap()), "csr");
        }
    }

    #[test]
    fn entries_that_lie_close_together_are_in_tiles() {
        for gpu in devices() {
            // Four rows of 40 neighbouring columns have 44 tiles of 14.5 entries; with every second column 7.3.
            for (apart, storage, expected) in
                [(1, Precision::F64, "tiles"), (2, Precision::F64, "sell16"), (2, Precision::F16, "tiles")]
            {
                let sums = if storage == Precision::F64 { storage } else { Precision::F32 };
                let query = FormatQuery { storage, sums, ..query(&gpu, 9000, 9000, |_| (40, apart)) };
                assert_eq!(name(&Format::of(&gpu, query).unwrap()), expected, "{apart} {storage:?}");
            }
            // As dense, and so small that it does not matter.
            assert_eq!(name(&Format::of(&gpu, query(&gpu, 400, 400, |_| (40, 1))).unwrap()), "csr16");
            // Blocks are tiles of their own.
            for (side, expected) in [(2, "bsr"), (3, "sell16"), (4, "bsr")] {
                let scalar = query(&gpu, 4500, 4500, |_| (9, 5)).pattern;
                let pattern = DevicePattern { block: Block::square(side), ..scalar };
                let query = FormatQuery::new(&gpu, pattern, Precision::F64, Precision::F64);
                assert_eq!(name(&Format::of(&gpu, query).unwrap()), expected, "blocks of {side}");
            }
        }
    }

    #[test]
    fn every_format_of_a_matrix_begins_with_the_chosen_one() {
        let names = |formats: Vec<Format>| formats.iter().map(name).collect::<Vec<_>>();
        for gpu in devices() {
            for (length, apart) in [(16, 5), (40, 5), (40, 1), (20, 7)] {
                let new = || query(&gpu, 9000, 9000, |i| (length + i % 3, apart));
                let every = names(Format::every(&gpu, new()).unwrap());
                assert_eq!(every[0], name(&Format::of(&gpu, new()).unwrap()));
                assert!(
                    ["csr", "csr16", "sell16", "sell16s", "tiles"].iter().all(|one| every.contains(one)),
                    "{every:?}"
                );
            }
            // Blocks, and rows that are too short to be looked at, have tiles behind everything else.
            let short = query(&gpu, 4500, 4500, |_| (9, 5));
            let pattern = DevicePattern { block: Block::square(3), ..short.pattern.clone() };
            for query in [FormatQuery { pattern, ..short }, query(&gpu, 1000, 1000, |_| (3, 5))] {
                let every = names(Format::every(&gpu, query).unwrap());
                assert!(every.len() > 1 && every.ends_with(&["tiles"]), "{every:?}");
            }
        }
    }
}
