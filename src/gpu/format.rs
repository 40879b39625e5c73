//! The format of a matrix. A product takes as long as its memory traffic, so what is estimated and compared are bytes: those that a format
//! stores, and what else its way to work costs. The weights are those that products with the levels of three hierarchies showed on one H200.
//! The choice depends on the matrix alone, so that every run gives the same bits.

use super::Gpu;
use super::bsr::{self, Bsr};
use super::csr::{self, CompactColumns};
use super::csr_balanced::{self, LongRows, Unless};
use super::sell_chunks::{ChunkParameters, SellEstimate};
use super::sell_layout::{SellLayout, Slots};
use super::setup::tiles::{self, SIDE};
use super::setup::{DeviceCsr, DevicePattern};
use crate::error::Result;
use crate::scalar::{Precision, Scalar};
use crate::sparse::Block;
use std::sync::Arc;

/// Formats that a matrix can have. Clones share what they know of it.
#[derive(Clone)]
pub(crate) enum Format {
    /// A group of lanes for each row.
    Csr,
    /// The same with columns of 16 bits.
    Csr16(Arc<CompactColumns>),
    /// The same as the first with long rows in pieces.
    CsrBalanced(Arc<LongRows>),
    /// SELL chunks with column offsets of 8 bits.
    Sell8(Arc<SellLayout>),
    /// SELL chunks with column offsets of 16 bits.
    Sell16(Arc<SellLayout>),
    /// Blocks of 2 x 2 or 4 x 4 as they are.
    Bsr,
    /// Scalars in tiles of 4 x 4.
    Tiles,
}

/// Bytes of CSR count this much: short pieces of rows do not use whole transactions. Where there are few rows that is lost on other formats, too,
/// whose rows wait for vector elements that are far apart.
const CSR: f64 = 1.2;
const FEW_CSR: f64 = 0.9;

/// Bytes of few long rows of narrow values count this much with columns of 16 and of 32 bits, from so many rows on: there is less to wait for in chunks.
const NARROW: (f64, f64) = (1.3, 1.0);
const NARROW_FROM: usize = 1 << 15;

/// Bytes that an order of the rows costs each of them beside its own: results are written one by one.
const SCATTER: f64 = 8.0;

/// Bytes of scalar rows in another order count this much where there are few rows: their neighbours' columns are not in the cache any more, and
/// products wait for those rather than for values.
const APART: f64 = 1.25;

/// Below this many rows a matrix has too few chunks, and a group of lanes for each row keeps more threads busy.
const MIN_SELL_ROWS: usize = 1 << 13;

/// With at most this many entries a product takes about as long as its launch in any format, and tiles are not looked at.
const SMALL: usize = 1 << 14;

/// Average length of rows from which columns of 16 bits and tiles are looked at.
const MIN_LONG_ROW: usize = 16;

/// Bytes that an entry of a lane counts as in a row that all else waits for: a batch of six takes about 1.2 us, in which 4.8 MB could be read. And those
/// that a second launch counts as, about 5 us.
const SERIAL: f64 = 8e5;
const PIECES: f64 = 2e7;

/// Bytes of blocks in rows count this much in relation to those of chunks, which know no block of their size; and bytes of tiles of scalars by the bytes
/// of a value: a lane reads neighbouring elements of the vector at once, where one that has a row of scalars reads each for itself. Those of f32 scalars lie between the measured ones.
const BSR: f64 = 0.6;
fn tiles_weight(storage: Precision) -> f64 {
    match storage.bytes() {
        8 => 0.75,
        4 => 0.65,
        _ => 0.5,
    }
}

/// A matrix that needs a format: its pattern, the format of its values, and that of sums of products with it.
pub(crate) struct Wanted {
    pub pattern: DevicePattern,
    pub storage: Precision,
    pub sums: Precision,
}

/// Cuts that are compared, the number of the one with offsets of 8 bits, where rows beyond the reach of 16 bits are counted, where long rows, where tiles
/// and entries of a sample, and how many numbers that are.
const CUTS: usize = 3;
const EIGHT: usize = 2;
const FAR: usize = CUTS;
const LONG_ROWS: usize = FAR + 1;
const LONGEST: usize = LONG_ROWS + csr_balanced::LONGEST;
const TILES: usize = LONG_ROWS + csr_balanced::NUMBERS;
const NUMBERS: usize = TILES + 2;

/// What is estimated; chunks by the number of their cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Csr,
    Csr16,
    CsrBalanced,
    Sell(usize),
    Bsr,
    Tiles,
}

/// What is known of several matrices once the device has counted.
struct Counted<'a> {
    wanted: &'a [Wanted],
    surveys: Vec<Option<SellEstimate>>,
    /// Slots of each cut, rows out of reach, long rows, tiles and entries of a sample.
    totals: Vec<[i64; NUMBERS]>,
}

impl Format {
    /// The format with the lowest estimate. Waits for the device.
    pub fn of(gpu: &Gpu, wanted: Wanted) -> Result<Format> {
        Ok(Format::of_all(gpu, &[wanted])?.remove(0))
    }

    /// The same for several matrices, with two waits for all of them.
    pub fn of_all(gpu: &Gpu, wanted: &[Wanted]) -> Result<Vec<Format>> {
        let counted = Counted::new(gpu, wanted)?;
        let best: Vec<_> = (0..wanted.len()).map(|i| (i, counted.ranked(i)[0].0)).collect();
        counted.make(gpu, &best)
    }

    /// All that the matrix can have, the lowest estimate first; tiles at the end where they are not worth an estimate. Waits for the device.
    pub fn every(gpu: &Gpu, wanted: Wanted) -> Result<Vec<Format>> {
        let all = [wanted];
        let counted = Counted::new(gpu, &all)?;
        let mut kinds: Vec<_> = counted.ranked(0).iter().map(|(kind, _)| (0, *kind)).collect();
        if !kinds.iter().any(|(_, kind)| matches!(kind, Kind::Tiles | Kind::CsrBalanced)) {
            kinds.push((0, Kind::Tiles));
        }
        counted.make(gpu, &kinds)
    }

    /// The slots of a matrix in chunks, as [`SellLayout::fill_and_add`] has them; none in other formats.
    pub fn slots<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, l1: bool) -> Result<Option<Slots<T>>> {
        match self {
            Format::Sell8(layout) | Format::Sell16(layout) => layout.fill_and_add(gpu, a, l1).map(Some),
            Format::Csr | Format::Csr16(_) | Format::CsrBalanced(_) | Format::Bsr | Format::Tiles => Ok(None),
        }
    }

    /// Bytes that are kept for matrices of the same pattern to come, beyond what operators have.
    pub fn kept_bytes(&self) -> usize {
        match self {
            Format::Sell8(layout) | Format::Sell16(layout) => layout.kept_bytes(),
            Format::Csr | Format::Csr16(_) | Format::CsrBalanced(_) | Format::Bsr | Format::Tiles => 0,
        }
    }
}

impl<'a> Counted<'a> {
    fn new(gpu: &Gpu, wanted: &'a [Wanted]) -> Result<Counted<'a>> {
        let totals = gpu.zeroed::<i64>(NUMBERS * wanted.len())?;
        let (mut surveys, mut waits) = (Vec::new(), false);
        for (i, wanted) in wanted.iter().enumerate() {
            let totals = totals.piece(NUMBERS * i, NUMBERS);
            let longest = totals.piece(LONGEST, 1);
            let mut unless = Unless::NEVER;
            if wanted.may_be_skewed() {
                let long = totals.piece(LONG_ROWS, csr_balanced::NUMBERS);
                csr_balanced::count(gpu, &wanted.pattern, csr_balanced::limit(&wanted.pattern), long)?;
                unless = Unless { longest: Some(longest), most: wanted.most() };
                waits = true;
            }
            if wanted.may_have_tiles() {
                tiles::sample(gpu, &wanted.pattern, totals.piece(TILES, 2))?;
                waits = true;
            }
            if wanted.may_be_short() && !CompactColumns::always_reach(&wanted.pattern) {
                CompactColumns::count_far(gpu, &wanted.pattern, totals.piece(FAR, 1), unless)?;
                waits = true;
            }
            surveys.push(match wanted.cuts() {
                None => None,
                Some(cuts) => Some(SellEstimate::new(gpu, &wanted.pattern, cuts, totals.piece(0, CUTS), unless)?),
            });
        }
        waits |= surveys.iter().any(Option::is_some);
        let totals = if waits { gpu.fetch(&totals)? } else { vec![0; totals.len()] };
        let totals = totals.chunks_exact(NUMBERS).map(|t| std::array::from_fn(|k| t[k])).collect();
        Ok(Counted { wanted, surveys, totals })
    }

    /// Estimates of what can be had, the lowest first, of equal ones in the order of the list.
    fn ranked(&self, i: usize) -> Vec<(Kind, f64)> {
        let Wanted { pattern, storage, .. } = &self.wanted[i];
        let (rows, entries) = (pattern.rows * pattern.block.rows, pattern.nnz() * pattern.block.len());
        let wide = self.wanted[i].is_wide();
        let (is_scalar, is_narrow) = (pattern.block == Block::SCALAR, storage.bytes() < 8);
        let few = is_scalar && !wide;
        let (short, csr_bytes) = (self.wanted[i].csr_weights().0, self.wanted[i].csr_bytes());
        let longest = self.totals[i][LONGEST] as usize;
        if longest > self.wanted[i].most() {
            let waiting = SERIAL * longest as f64 / csr::lanes(pattern.nnz(), pattern.rows) as f64;
            return vec![(Kind::CsrBalanced, csr_bytes + PIECES), (Kind::Csr, waiting)];
        }
        let apart = if few || is_narrow && !is_scalar && !SellLayout::has_many_blocks(pattern) { APART } else { 1.0 };
        let mut all = Vec::new();
        let bytes = |survey: &SellEstimate, k: usize| survey.bytes(k, self.totals[i][k], pattern, *storage);
        if let Some(survey) = self.surveys[i].as_ref().filter(|_| wide) {
            all.push((Kind::Sell(EIGHT), bytes(survey, EIGHT)));
        }
        if self.wanted[i].may_be_short() && self.totals[i][FAR] == 0 {
            all.push((Kind::Csr16, short * csr::short_bytes(rows, entries, *storage) as f64));
        }
        all.push((Kind::Csr, csr_bytes));
        if let Some(survey) = &self.surveys[i] {
            all.push((Kind::Sell(0), bytes(survey, 0)));
            all.push((Kind::Sell(1), apart * (bytes(survey, 1) + SCATTER * rows as f64)));
        }
        if Bsr::knows(pattern.block) {
            all.push((Kind::Bsr, BSR * bsr::bytes(pattern.rows, pattern.nnz() as f64, pattern.block.rows, *storage)));
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

    /// Formats of these kinds for matrices of these numbers, with one wait where slots were not all counted.
    fn make(&self, gpu: &Gpu, kinds: &[(usize, Kind)]) -> Result<Vec<Format>> {
        let totals = gpu.zeroed::<i64>(kinds.len())?;
        let (mut started, mut known) = (Vec::new(), true);
        for (at, (i, kind)) in kinds.iter().enumerate() {
            started.push(match (kind, &self.surveys[*i]) {
                (Kind::Sell(k), Some(survey)) => {
                    known &= survey.is_exact();
                    let slots = survey.is_exact().then_some(self.totals[*i][*k] as usize);
                    let layout = survey.layout(gpu, &self.wanted[*i].pattern, *k, totals.piece(at, 1))?;
                    Some((*k, slots, layout))
                }
                _ => None,
            });
        }
        let slots = if known { Vec::new() } else { gpu.fetch(&totals)? };
        let mut formats = Vec::new();
        for (at, ((i, kind), started)) in kinds.iter().zip(started).enumerate() {
            formats.push(match (kind, started) {
                (Kind::Csr16, _) => Format::Csr16(Arc::new(CompactColumns::new(gpu, &self.wanted[*i].pattern)?)),
                (Kind::CsrBalanced, _) => {
                    let counted = std::array::from_fn(|k| self.totals[*i][LONG_ROWS + k]);
                    Format::CsrBalanced(Arc::new(LongRows::new(gpu, &self.wanted[*i].pattern, counted)?))
                }
                (Kind::Bsr, _) => Format::Bsr,
                (Kind::Tiles, _) => Format::Tiles,
                (_, None) => Format::Csr,
                (_, Some((k, known, started))) => {
                    let layout = Arc::new(started.with_slots(known.unwrap_or_else(|| slots[at] as usize)));
                    if k == EIGHT { Format::Sell8(layout) } else { Format::Sell16(layout) }
                }
            });
        }
        Ok(formats)
    }
}

impl Wanted {
    /// How it could be cut: with offsets of 16 bits, the same with rows ordered by length, and with 8 bits where there are rows enough for the
    /// kernel that knows them. None where there are too few rows for any.
    fn cuts(&self) -> Option<Vec<ChunkParameters>> {
        let Wanted { pattern, storage, sums } = self;
        let cut = |(bits, sorted): &(usize, bool)| ChunkParameters::new(pattern, *storage, *sums, *bits, *sorted);
        let kinds = &[(16, false), (16, true), (8, false)][..if self.is_wide() { 3 } else { 2 }];
        (pattern.rows * pattern.block.rows >= MIN_SELL_ROWS).then(|| kinds.iter().map(cut).collect())
    }

    fn is_wide(&self) -> bool {
        self.pattern.block == Block::SCALAR && SellLayout::is_wide(&self.pattern)
    }

    /// What bytes of CSR count, with columns of 16 and of 32 bits.
    fn csr_weights(&self) -> (f64, f64) {
        let few = self.pattern.block == Block::SCALAR && !self.is_wide();
        match (few, self.storage.bytes() < 8 && self.pattern.rows >= NARROW_FROM) {
            (true, true) => NARROW,
            (true, false) => (1.0, FEW_CSR),
            (false, _) => (1.0, CSR),
        }
    }

    /// What CSR counts.
    fn csr_bytes(&self) -> f64 {
        let DevicePattern { rows, block, .. } = self.pattern;
        let bytes = csr::bytes(rows * block.rows, self.pattern.nnz() * block.len(), self.storage);
        self.csr_weights().1 * bytes as f64
    }

    /// The entries of a row of scalars beyond which products would wait for it, so that it is better cut into pieces.
    fn most(&self) -> usize {
        let lanes = csr::lanes(self.pattern.nnz(), self.pattern.rows);
        let of_lane = (self.csr_bytes() + PIECES) / SERIAL;
        csr_balanced::worth(&self.pattern).max((of_lane * lanes as f64) as usize)
    }

    /// Whether there may be such a row.
    fn may_be_skewed(&self) -> bool {
        self.pattern.block == Block::SCALAR && self.pattern.nnz().min(self.pattern.cols) > self.most()
    }

    /// Whether tiles are worth a look: rows of scalars that are long enough for dense ones, and enough of them.
    fn may_have_tiles(&self) -> bool {
        let (rows, entries) = (self.pattern.rows, self.pattern.nnz());
        self.pattern.block == Block::SCALAR && rows > 0 && entries >= MIN_LONG_ROW * rows && entries > SMALL
    }

    /// Whether columns of 16 bits are worth a look: long rows of scalars, and so few that chunks do not run at the speed of memory.
    fn may_be_short(&self) -> bool {
        let DevicePattern { rows, block, .. } = self.pattern;
        block == Block::SCALAR && !self.is_wide() && rows > 0 && self.pattern.nnz() >= MIN_LONG_ROW * rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::setup::DeviceCsr;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;

    /// Row i has as many entries from near the diagonal on as `row(i)` tells first, and so far apart as it tells then.
    fn wanted(gpu: &Gpu, rows: usize, cols: usize, row: impl Fn(usize) -> (usize, usize)) -> Wanted {
        let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
        for i in 0..rows {
            let (length, apart) = row(i);
            let first = i.min(cols.saturating_sub(length * apart));
            columns.extend((0..length).map(|k| (first + k * apart) as i32));
            offsets.push(columns.len() as i64);
        }
        let a = Csr::<f64>::with_pattern(rows, cols, Block::SCALAR, offsets, columns).unwrap();
        let pattern = DeviceCsr::upload(gpu, &a.view()).unwrap().pattern();
        Wanted { pattern, storage: Precision::F64, sums: Precision::F64 }
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
            let of = |wanted| name(&Format::of(&gpu, wanted).unwrap());
            assert_eq!(of(wanted(&gpu, 9000, 9000, differing)), "csr16");
            // Few rows have no chunks.
            assert_eq!(of(wanted(&gpu, 1000, 1000, differing)), "csr16");
            // Short ones.
            assert_eq!(of(wanted(&gpu, 1000, 1000, |_| (3, 5))), "csr");
            assert_eq!(of(wanted(&gpu, 9000, 9000, |_| (5, 5))), "sell16");
            assert_eq!(of(wanted(&gpu, 0, 0, |_| (0, 0))), "csr");
            assert_eq!(of(wanted(&gpu, 20, 20, |_| (0, 0))), "csr");
        }
    }

    #[test]
    fn rows_that_all_others_wait_for_are_in_pieces() {
        // An arrow: the first row and the first column are full.
        let arrow = |gpu: &Gpu, n: usize| wanted(gpu, n, n, |i| if i == 0 { (n, 1) } else { (2, 1) });
        for gpu in devices() {
            let of = |wanted| name(&Format::of(&gpu, wanted).unwrap());
            assert_eq!(of(arrow(&gpu, 1000)), "csr_balanced");
            assert_eq!(of(arrow(&gpu, 20_000)), "csr_balanced");
            // Four lanes have a row of three entries, and 256 of them.
            assert_eq!(of(arrow(&gpu, 257)), "csr_balanced");
            assert_eq!(of(arrow(&gpu, 256)), "csr");
            let all = Format::every(&gpu, arrow(&gpu, 20_000)).unwrap();
            assert_eq!(all.iter().map(name).collect::<Vec<_>>(), ["csr_balanced", "csr"]);
            // Rows of equal length that are too few to fill a GPU.
            assert_eq!(of(wanted(&gpu, 3, 5000, |_| (5000, 1))), "csr_balanced");
            for (storage, sums) in [(Precision::F64, Precision::F64), (Precision::F16, Precision::F32)] {
                let laplacian = Wanted { storage, sums, ..wanted(&gpu, 20_000, 20_000, |_| (7, 1)) };
                assert!(laplacian.may_be_skewed());
                assert_eq!(of(laplacian), "sell16");
            }
        }
    }

    #[test]
    fn many_entries_do_not_wait_for_a_row_that_takes_less_time() {
        let gpu = devices().remove(0);
        let most = |rows: usize, length: usize| {
            let (offsets, columns) =
                (Arc::new(gpu.room(rows + 1).unwrap()), Arc::new(gpu.room(rows * length).unwrap()));
            let pattern = DevicePattern { rows, cols: rows, block: Block::SCALAR, offsets, columns };
            Wanted { pattern, storage: Precision::F64, sums: Precision::F64 }.most()
        };
        assert_eq!(most(1000, 4), 64 * 4);
        assert_eq!(most(1 << 17, 7), 64 * 2);
        // Two lanes have rows of seven entries. 96 MB in short rows take as long as 144 entries of a lane, a second launch as 25.
        assert_eq!(most(1 << 20, 7), 2 * 169 + 1);
    }

    #[test]
    fn a_row_out_of_reach_has_long_columns() {
        for gpu in devices() {
            let near = wanted(&gpu, 2000, 70_000, |i| (20 + i % 2, 5));
            assert_eq!(name(&Format::of(&gpu, near).unwrap()), "csr16");
            let far = wanted(&gpu, 2000, 70_000, |i| (20 + i % 2, if i == 1000 { 3450 } else { 5 }));
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
                let wanted = Wanted { storage, sums, ..wanted(&gpu, 9000, 9000, |_| (40, apart)) };
                assert_eq!(name(&Format::of(&gpu, wanted).unwrap()), expected, "{apart} {storage:?}");
            }
            // As dense, and so small that it does not matter.
            assert_eq!(name(&Format::of(&gpu, wanted(&gpu, 400, 400, |_| (40, 1))).unwrap()), "csr16");
            // Blocks are tiles of their own.
            for (side, expected) in [(2, "bsr"), (3, "sell16"), (4, "bsr")] {
                let scalar = wanted(&gpu, 4500, 4500, |_| (9, 5)).pattern;
                let pattern = DevicePattern { block: Block::square(side), ..scalar };
                let wanted = Wanted { pattern, storage: Precision::F64, sums: Precision::F64 };
                assert_eq!(name(&Format::of(&gpu, wanted).unwrap()), expected, "blocks of {side}");
            }
        }
    }

    #[test]
    fn every_format_of_a_matrix_begins_with_the_chosen_one() {
        let names = |formats: Vec<Format>| formats.iter().map(name).collect::<Vec<_>>();
        for gpu in devices() {
            for (length, apart) in [(16, 5), (40, 5), (40, 1), (20, 7)] {
                let new = || wanted(&gpu, 9000, 9000, |i| (length + i % 3, apart));
                let every = names(Format::every(&gpu, new()).unwrap());
                assert_eq!(every[0], name(&Format::of(&gpu, new()).unwrap()));
                assert!(
                    ["csr", "csr16", "sell16", "sell16s", "tiles"].iter().all(|one| every.contains(one)),
                    "{every:?}"
                );
            }
            // Blocks, and rows that are too short to be looked at, have tiles behind everything else.
            let short = wanted(&gpu, 4500, 4500, |_| (9, 5));
            let pattern = DevicePattern { block: Block::square(3), ..short.pattern.clone() };
            for wanted in [Wanted { pattern, ..short }, wanted(&gpu, 1000, 1000, |_| (3, 5))] {
                let every = names(Format::every(&gpu, wanted).unwrap());
                assert!(every.len() > 1 && every.ends_with(&["tiles"]), "{every:?}");
            }
        }
    }
}
