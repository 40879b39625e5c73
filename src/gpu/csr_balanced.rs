//! CSR with a few long rows. These are divided into pieces, whose partial sums are added in order. Other rows have a
//! group of lanes each, as in `csr.rs`.

use super::csr::lanes;
use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{BLOCK, Kernel, View};
use super::setup::{DeviceCsr, DevicePattern};
use super::{Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// A row with more entries than this for each lane of its group delays the whole SpMV: more than ten batches of
/// `kernels/csr.h`, about 13 us on an H200. Dividing it is worth a second launch.
const MAX_LANE_ENTRIES: usize = 64;

/// If there is such a row, rows with more entries than this for each lane are divided, too: other rows of their warp
/// wait for them.
const MIN_DIVIDED_LANE_ENTRIES: usize = 32;

/// Entries of a piece: two batches of each lane. A row of a million has enough of them to keep an H200 busy.
const PIECE_ENTRIES: usize = 384;

/// Most pieces of a row, so that adding the partial sums takes less time than computing them.
const MAX_PIECES: usize = 2048;

/// Lanes of a piece, and of the sums of a row, as in `kernels/csr_balanced.cu`.
const LANES: usize = 32;

/// Statistics of long rows: their number, their entries, and the entries of the longest; 0 if no row is long.
pub(super) const NUMBERS: usize = 3;
pub(super) const LONGEST: usize = 2;

/// Entries beyond which a row is long.
pub(super) fn limit(a: &DevicePattern) -> usize {
    MIN_DIVIDED_LANE_ENTRIES * lanes(a.nnz(), a.rows)
}

/// Entries of a row beyond which it is worth a second launch.
pub(super) fn worth(a: &DevicePattern) -> usize {
    MAX_LANE_ENTRIES * lanes(a.nnz(), a.rows)
}

/// Statistics of rows with more than `limit` entries, added to `totals`.
pub(super) fn count(gpu: &Gpu, a: &DevicePattern, limit: usize, totals: &Slice<i64>) -> Result<()> {
    let (rows, limit, sums, longest) =
        (a.rows as i64, limit as i64, totals.subslice(0, 2), totals.subslice(LONGEST, 1));
    let kernel = gpu.kernel("count_long_rows")?;
    gpu.launch(kernel, a.rows, &[&rows, &limit, &a.offsets.view(), &sums.view(), &longest.view().bits()])
}

/// Condition of a kernel that counts: it returns at once if the longest row has more than `most` entries.
#[derive(Clone, Copy)]
pub(super) struct Unless<'a> {
    pub longest: Option<&'a Slice<i64>>,
    pub most: usize,
}

impl<'a> Unless<'a> {
    /// No condition.
    pub const NEVER: Unless<'static> = Unless { longest: None, most: 0 };

    /// As kernels take it.
    pub fn arguments(self) -> (View<'a>, i64) {
        (self.longest.map_or(View::NONE, Slice::view), self.most as i64)
    }
}

/// The long rows of a pattern and their pieces.
pub(crate) struct LongRows {
    limit: usize,
    /// In ascending order.
    rows: Buffer<i32>,
    /// The first piece of each, and the number of all.
    firsts: Buffer<i64>,
    /// First entry and length of each piece; pieces that are not used have length 0.
    begins: Buffer<i64>,
    lengths: Buffer<i32>,
}

impl LongRows {
    /// The long rows of a scalar matrix, given their statistics.
    pub fn new(gpu: &Gpu, a: &DevicePattern, counted: [i64; NUMBERS]) -> Result<LongRows> {
        let piece = PIECE_ENTRIES * (counted[LONGEST] as usize).div_ceil(PIECE_ENTRIES * MAX_PIECES).max(1);
        LongRows::cut(gpu, a, limit(a), piece, counted)
    }

    /// The rows with more than `limit` entries, in pieces of this length. Waits for the device.
    #[cfg(feature = "unit-tests")]
    pub fn with(gpu: &Gpu, a: &DevicePattern, limit: usize, piece: usize) -> Result<LongRows> {
        let totals = gpu.zeroed::<i64>(NUMBERS)?;
        count(gpu, a, limit, &totals)?;
        let counted = gpu.fetch(&totals)?;
        LongRows::cut(gpu, a, limit, piece, std::array::from_fn(|k| counted[k]))
    }

    fn cut(gpu: &Gpu, a: &DevicePattern, limit: usize, piece: usize, counted: [i64; NUMBERS]) -> Result<LongRows> {
        assert_eq!(a.block, Block::SCALAR);
        let (long, entries) = (counted[0] as usize, counted[1] as usize);
        let (count, most, length, offsets) = (a.rows as i64, limit as i64, piece as i64, a.offsets.view());
        let marks = gpu.allocate::<i32>(a.rows)?;
        gpu.launch(gpu.kernel("mark_long_rows")?, a.rows, &[&count, &most, &offsets, &marks.view()])?;
        let places = gpu.offsets_alone(&marks)?;
        let (rows, counts) = (gpu.allocate::<i32>(long)?, gpu.allocate::<i32>(long)?);
        gpu.launch(
            gpu.kernel("list_long_rows")?,
            a.rows,
            &[&count, &most, &length, &offsets, &places.view(), &rows.view(), &counts.view()],
        )?;
        let firsts = gpu.offsets_alone(&counts)?;
        // The last piece of a row may be shorter.
        let pieces = entries / piece + long;
        let (begins, lengths) = (gpu.zeroed::<i64>(pieces)?, gpu.zeroed::<i32>(pieces)?);
        gpu.launch(
            gpu.kernel("cut_long_rows")?,
            long * LANES,
            &[&length, &offsets, &rows.view(), &firsts.view(), &begins.view(), &lengths.view()],
        )?;
        Ok(LongRows { limit, rows, firsts, begins, lengths })
    }

    fn bytes(&self) -> usize {
        let lists = self.rows.owned_bytes() + self.firsts.owned_bytes();
        lists + self.begins.owned_bytes() + self.lengths.owned_bytes()
    }
}

/// A matrix of scalars.
pub(super) struct CsrBalanced {
    gpu: Gpu,
    precisions: Precisions,
    pieces: Kernel,
    kernel: Kernel,
    lanes: usize,
    pattern: DevicePattern,
    values: Values,
    long: Arc<LongRows>,
    /// Of the pieces.
    sums: Buffer<f64>,
}

impl CsrBalanced {
    /// For products of these precisions, with the long rows of this matrix.
    pub fn new<S: Number>(
        gpu: &Gpu,
        matrix: DeviceCsr<S>,
        long: &Arc<LongRows>,
        precisions: Precisions,
    ) -> Result<CsrBalanced> {
        CsrBalanced::of(gpu, matrix.pattern(), matrix.own_values(gpu)?.into(), Arc::clone(long), precisions)
    }

    fn of(
        gpu: &Gpu,
        pattern: DevicePattern,
        values: Values,
        long: Arc<LongRows>,
        precisions: Precisions,
    ) -> Result<CsrBalanced> {
        let kernel = |name: &str| precisions.kernel(gpu, name);
        let (pieces, kernel, sums) = (kernel("csr_pieces")?, kernel("csr_balanced")?, gpu.allocate(long.begins.len())?);
        let lanes = lanes(pattern.nnz(), pattern.rows);
        Ok(CsrBalanced { gpu: gpu.clone(), precisions, pieces, kernel, lanes, pattern, values, long, sums })
    }
}

impl Product for CsrBalanced {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.pattern.rows, self.pattern.cols)
    }

    fn blocks(&self, _: &Epilogue<'_>) -> usize {
        (self.long.rows.len() * LANES).div_ceil(BLOCK) + (self.pattern.rows * self.lanes).div_ceil(BLOCK)
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let DevicePattern { offsets, columns, .. } = &self.pattern;
        let [offsets, columns, values] = [offsets.view(), columns.view(), self.values.view()];
        let LongRows { rows: list, firsts, begins, lengths, limit } = &*self.long;
        let [list, firsts, sums] = [list.view(), firsts.view(), self.sums.view()];
        let arguments: [&dyn super::Argument; 6] = [&begins.view(), &lengths.view(), &columns, &values, &x, &sums];
        self.gpu.launch(self.pieces, begins.len() * LANES, &arguments)?;
        let (rows, shift, limit) = (self.pattern.rows as i64, self.lanes.ilog2() as i32, *limit as i64);
        self.gpu.launch_blocks(
            self.kernel,
            self.blocks(epilogue),
            &[&rows, &shift, &limit, &offsets, &columns, &values, &list, &firsts, &sums, &x, epilogue],
        )
    }

    fn bytes(&self) -> usize {
        let DevicePattern { offsets, columns, .. } = &self.pattern;
        let matrix = offsets.owned_bytes() + columns.owned_bytes() + self.values.owned_bytes();
        matrix + self.long.bytes() + self.sums.owned_bytes()
    }

    fn format(&self) -> String {
        "csr_balanced".to_string()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::{Backend, CgStep, Operator};
    use crate::gpu::product::operator;
    use crate::gpu::tests::{devices, devices_in_both_orders};
    use crate::hash::hash;
    use crate::sparse::Csr;

    /// Rows of these lengths, with columns that are spread over all.
    fn matrix(cols: usize, lengths: &[usize], value: impl Fn(usize) -> f64) -> Csr<f64> {
        let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
        for (i, length) in lengths.iter().enumerate() {
            columns.extend((0..*length).map(|k| ((i + k * cols / length) % cols) as i32));
            let start = columns.len() - length;
            columns[start..].sort_unstable();
            offsets.push(columns.len() as i64);
        }
        let mut a = Csr::with_pattern(lengths.len(), cols, Block::SCALAR, offsets, columns).unwrap();
        a.values.iter_mut().enumerate().for_each(|(k, v)| *v = value(k));
        a
    }

    /// As the choice of a format makes it.
    fn balanced(gpu: &Gpu, a: &Csr<f64>) -> CsrBalanced {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let pattern = on_device.pattern();
        let totals = gpu.zeroed::<i64>(NUMBERS).unwrap();
        count(gpu, &pattern, limit(&pattern), &totals).unwrap();
        let counted = gpu.fetch(&totals).unwrap();
        let long = LongRows::new(gpu, &pattern, std::array::from_fn(|k| counted[k])).unwrap();
        CsrBalanced::new(gpu, on_device, &Arc::new(long), Precisions::of::<f64, f64, f64>()).unwrap()
    }

    fn product(gpu: &Gpu, a: &dyn Operator<Gpu, f64>, x: &[f64]) -> Vec<f64> {
        let mut y = gpu.upload(&vec![f64::NAN; a.rows()]).unwrap();
        a.apply(1.0, &gpu.upload(x).unwrap(), 0.0, &mut y).unwrap();
        gpu.status().unwrap();
        gpu.fetch(&y).unwrap()
    }

    /// Lengths of rows, and how many of them are long for groups of four lanes, which rows of three or four entries on
    /// average have.
    fn skewed() -> Vec<(Vec<usize>, usize)> {
        let limit = 4 * MIN_DIVIDED_LANE_ENTRIES;
        let short = |n: usize| vec![3; n];
        vec![
            // An arrow, one long row in the middle, at the end, several next to each other, and one alone.
            ([vec![700], vec![2; 699]].concat(), 1),
            ([short(400), vec![400], short(200)].concat(), 1),
            ([short(800), vec![700]].concat(), 1),
            ([short(2700), vec![300; 9], short(150)].concat(), 9),
            ([vec![0; 300], vec![900], vec![0; 40]].concat(), 1),
            ([short(900), vec![limit - 1, limit, limit + 1], short(50)].concat(), 1),
            (
                [
                    short(2700),
                    vec![PIECE_ENTRIES - 1, PIECE_ENTRIES, PIECE_ENTRIES + 1, 2 * PIECE_ENTRIES, 2 * PIECE_ENTRIES + 1],
                    short(50),
                ]
                .concat(),
                5,
            ),
            // 32 lanes, and more pieces than they add at once.
            ([short(3), vec![PIECE_ENTRIES * 70, 0]].concat(), 1),
        ]
    }

    #[test]
    fn products_are_those_of_the_host() {
        for (lengths, long) in skewed() {
            let cols = *lengths.iter().max().unwrap();
            // Whole numbers, which any order adds up to the same.
            let a = matrix(cols, &lengths, |k| (k % 17) as f64 - 8.0);
            let x: Vec<f64> = (0..cols).map(|i| (i % 13) as f64 - 6.0).collect();
            let row = |i: usize| a.view().row(i).map(|(j, v)| v[0] * x[j]).sum();
            let expected: Vec<f64> = (0..a.rows).map(row).collect();
            for gpu in devices() {
                let on_device = balanced(&gpu, &a);
                assert_eq!(on_device.long.rows.len(), long);
                assert_eq!(product(&gpu, &*operator(on_device), &x), expected, "{}", gpu.description());
            }
        }
    }

    #[test]
    fn long_rows_are_cut_where_they_are() {
        let lengths = [2, 9, 8, 0, 16, 17, 1];
        for gpu in devices() {
            let a = DeviceCsr::upload(&gpu, &matrix(20, &lengths, |_| 1.0).view()).unwrap();
            let long = LongRows::with(&gpu, &a.pattern(), 8, 8).unwrap();
            assert_eq!(gpu.fetch(&long.rows).unwrap(), [1, 4, 5]);
            assert_eq!(gpu.fetch(&long.firsts).unwrap(), [0, 2, 4, 7]);
            // 42 entries in three rows have at most 8 pieces.
            assert_eq!(gpu.fetch(&long.begins).unwrap(), [2, 10, 19, 27, 35, 43, 51, 0]);
            assert_eq!(gpu.fetch(&long.lengths).unwrap(), [8, 1, 8, 8, 8, 8, 1, 0]);
            let none = LongRows::with(&gpu, &a.pattern(), 17, 8).unwrap();
            assert!(none.rows.is_empty() && none.begins.is_empty());
        }
    }

    #[test]
    fn the_longest_row_has_no_more_pieces_than_are_added_quickly() {
        let gpu = devices().remove(0);
        let a = DeviceCsr::upload(
            &gpu,
            &matrix(PIECE_ENTRIES * MAX_PIECES + 1, &[PIECE_ENTRIES * MAX_PIECES + 1], |_| 1.0).view(),
        )
        .unwrap();
        let entries = a.nnz() as i64;
        let long = LongRows::new(&gpu, &a.pattern(), [1, entries, entries]).unwrap();
        assert_eq!(gpu.fetch(&long.firsts).unwrap(), [0, MAX_PIECES as i64 / 2 + 1]);
        assert_eq!(gpu.fetch(&long.lengths).unwrap()[0], 2 * PIECE_ENTRIES as i32);
    }

    #[test]
    fn the_bits_do_not_depend_on_the_order_of_threads() {
        let lengths = [vec![3; 700], vec![300, 900, 2000], vec![3; 200]].concat();
        let rounded = |i: usize, seed: u64| (hash(i, seed) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let n = 2000;
        let a = matrix(n, &[lengths, vec![1; n - 903]].concat(), |k| rounded(k, 1));
        let x: Vec<f64> = (0..n).map(|i| rounded(i, 2)).collect();
        let run = |gpu: &Gpu| {
            let on_device: Box<dyn Operator<Gpu, f64>> = operator(balanced(gpu, &a));
            let mut y = gpu.upload(&vec![f64::NAN; n]).unwrap();
            let mut step = gpu.cg_step().unwrap();
            step.product(&*on_device, &gpu.upload(&x).unwrap(), &mut y).unwrap();
            let dot = step.read_scalars().unwrap().pq;
            assert_eq!(gpu.fetch(&y).unwrap(), product(gpu, &*on_device, &x));
            (gpu.fetch(&y).unwrap(), dot)
        };
        for pair in devices_in_both_orders().chunks(2).filter(|pair| pair.len() == 2) {
            let first = run(&pair[0]);
            assert_eq!(first, run(&pair[0]));
            assert_eq!(first, run(&pair[1]));
        }
    }

    #[test]
    fn hierarchies_have_it_and_updates_keep_it() {
        use crate::{Amg, Config, Context, Matrix, gallery};

        let matrix: Arc<Matrix> = Arc::new(gallery::parse("hubs:1200").unwrap().into_matrix().unwrap());
        let (b, n) = (vec![1.0_f64; matrix.rows()], matrix.rows());
        let apply = |device: &str, name: &str| {
            let mut amg = Amg::setup(&Context::new(device).unwrap(), &matrix, &Config::new()).unwrap();
            let (mut x, mut again) = (vec![0.0_f64; n], vec![0.0_f64; n]);
            amg.apply(&b, &mut x).unwrap();
            for _ in 0..3 {
                amg.update().unwrap();
                amg.apply(&b, &mut again).unwrap();
                assert_eq!(x, again);
            }
            assert_eq!(amg.report().levels[0].format, name);
            x
        };
        let device = if terrace_kernels::SIM { "sim" } else { "cuda:0" };
        let (on_device, on_host) = (apply(device, "csr_balanced"), apply("host", "csr"));
        let scale = on_host.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        let off = on_host.iter().zip(&on_device).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
        assert!(off <= 1e-12 * scale, "{off} of {scale}");
    }
}
