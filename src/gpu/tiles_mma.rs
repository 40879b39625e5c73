//! Scalars in tiles of 4 x 4 that matrix cores multiply: `kernels/tiles_mma.cu`. Tiles have their 16 values, or only their entries, with a bit for each.

use super::bsr;
use super::layout::bits_of;
use super::product::{Finish, Product, names};
use super::runtime::{Argument, BLOCK, Kernel};
use super::setup::DeviceCsr;
use super::setup::tiles::{DeviceTiles, SIDE};
use super::{Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};

/// Lanes that take a step of the matrix cores together.
const GROUP: usize = 32;

/// Lanes of a row of tiles at least: two rows of them in a step with sums in f64, four else.
const WIDE: usize = GROUP / 2;
const NARROW: usize = GROUP / 4;

/// Alignment of parts of the vector that are read at once.
const ALIGNED: u64 = 16;

/// What is stored of a tile, and how it is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileValues {
    /// All 16 values.
    Padded,
    /// A bit for each entry, and the entries.
    Bitmap,
    /// All 16 values, of f32 and with sums in f32, which are rounded to TF32 as they are multiplied.
    Tf32,
}

/// A matrix in tiles for matrix cores.
pub(super) struct TilesMma<S> {
    gpu: Gpu,
    kernel: Kernel,
    stored: TileValues,
    lanes: usize,
    /// Scalar rows and columns.
    shape: (usize, usize),
    offsets: Buffer<i64>,
    columns: Buffer<i32>,
    /// Of packed values: the bits of a tile, above them the place of its first entry in its row of tiles, and where those rows start. Else empty.
    marks: Buffer<u32>,
    starts: Buffer<i64>,
    values: Buffer<S>,
}

impl<S: Number> TilesMma<S> {
    /// A matrix of scalars for vectors of precisions `X` and `Y`; none where it has too many tiles in a row. Waits for the device.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, a: &DeviceCsr<S>, stored: TileValues) -> Result<Option<TilesMma<S>>> {
        let Some(tiles) = DeviceTiles::of(gpu, a)? else { return Ok(None) };
        let (length, tile_rows) = (tiles.columns.len(), a.rows.div_ceil(SIDE));
        let name = match stored {
            TileValues::Padded => "tiles_mma",
            TileValues::Bitmap => "bitmap_mma",
            TileValues::Tf32 => "tiles_tf32",
        };
        let least = if Y::Wide::PRECISION == Precision::F64 { WIDE } else { NARROW };
        let (gpu, kernel) = (gpu.clone(), gpu.kernel(&format!("{name}_{}", names::<S, X, Y>()))?);
        let (lanes, shape) = (bsr::lanes(SIDE, length, tile_rows).max(least), (a.rows, a.cols));
        let DeviceTiles { offsets, columns, maps, values } = tiles;
        let (marks, starts, values) = match stored {
            TileValues::Padded | TileValues::Tf32 => (gpu.room(0)?, gpu.room(0)?, values),
            TileValues::Bitmap => {
                let (marks, starts) = (gpu.room::<u32>(length)?, gpu.room::<i64>(tile_rows)?);
                let packed = gpu.room::<S>(a.values.len())?;
                let kernel = gpu.kernel(&format!("tiles_pack_{}", bits_of::<S>()))?;
                let from = [a.offsets.view(), offsets.view(), maps.view(), values.view()];
                let to = [marks.view(), starts.view(), packed.view()];
                let rows = tile_rows as i64;
                let arguments: [&dyn Argument; 8] =
                    [&rows, &from[0], &from[1], &from[2], &from[3], &to[0], &to[1], &to[2]];
                gpu.launch(kernel, tile_rows * GROUP, &arguments)?;
                (marks, starts, packed)
            }
        };
        Ok(Some(TilesMma { gpu, kernel, stored, lanes, shape, offsets, columns, marks, starts, values }))
    }

    /// The same with so many lanes for a row of tiles.
    #[cfg(test)]
    pub fn with_lanes(self, lanes: usize) -> TilesMma<S> {
        TilesMma { lanes, ..self }
    }
}

impl<S: Number, X: Number, Y: Number> Product<X, Y> for TilesMma<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn blocks(&self, _: &Finish<'_>) -> usize {
        ((self.offsets.len() - 1) * self.lanes).div_ceil(BLOCK)
    }

    fn run(&self, x: &Slice<X>, finish: &Finish<'_>) -> Result<()> {
        let (rows, shift) = (self.shape.0 as i64, self.lanes.ilog2() as i32);
        let (offsets, columns) = (self.offsets.view(), self.columns.view());
        let [marks, starts, values, x] = [self.marks.view(), self.starts.view(), self.values.view(), x.view()];
        let packed = i32::from(x.array().address().is_multiple_of(ALIGNED.min((SIDE * size_of::<X>()) as u64)));
        let blocks = <Self as Product<X, Y>>::blocks(self, finish);
        let arguments: [&dyn Argument; 10] =
            [&rows, &shift, &packed, &offsets, &columns, &marks, &starts, &values, &x, finish];
        self.gpu.launch_blocks(self.kernel, blocks, &arguments)
    }

    fn bytes(&self) -> usize {
        let pattern = self.offsets.owned_bytes() + self.columns.owned_bytes();
        pattern + self.marks.owned_bytes() + self.starts.owned_bytes() + self.values.owned_bytes()
    }

    fn format(&self) -> String {
        match self.stored {
            TileValues::Padded => "tiles4x4_mma".to_string(),
            TileValues::Bitmap => "bitmap4x4_mma".to_string(),
            TileValues::Tf32 => "tiles4x4_tf32".to_string(),
        }
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Format;
    use super::super::product::Placed;
    use super::super::tests::devices;
    use super::*;
    use crate::backend::{Backend, Operator};
    use crate::hash::hash;
    use crate::scalar::Scalar;
    use crate::sparse::{Block, Csr};
    use half::{bf16, f16};
    use std::ops::RangeInclusive;

    /// Numbers of both signs and of sizes from 1/256 to 1, with as many digits as an f64 has.
    fn numbers<T: Number>(n: usize, seed: u64) -> Vec<T> {
        let number = |i: usize| {
            let bits = hash(i, seed);
            let size = (1.0 + (bits >> 12) as f64 / (1_u64 << 52) as f64) / f64::from(2 << (bits % 8));
            T::from_f64(if bits >> 8 & 1 == 0 { size } else { -size })
        };
        (0..n).map(number).collect()
    }

    /// Rows of up to twelve entries, close together or apart, with rows of tiles that are empty and, if asked for, one row that is full.
    fn matrix<S: Number>(rows: usize, cols: usize, full: bool) -> Csr<S> {
        let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
        for i in 0..rows {
            let count = match i {
                _ if full && i == rows / 2 => cols,
                _ if i / 4 % 5 == 2 => 0,
                _ => (i % 13).min(cols),
            };
            let step = if i / 4 % 2 == 0 { 1 } else { (cols / 13).max(1) };
            let first = if count == cols { 0 } else { hash(i / 4, 3) as usize % (cols - (count.max(1) - 1) * step) };
            columns.extend((0..count).map(|k| (first + k * if count == cols { 1 } else { step }) as i32));
            offsets.push(columns.len() as i64);
        }
        let mut a = Csr::<S>::with_pattern(rows, cols, Block::SCALAR, offsets, columns).unwrap();
        a.values = numbers(a.values.len(), 1);
        a
    }

    fn products<S: Number, X: Number, Y: Number>(gpu: &Gpu, a: &Csr<S>, off: f64) {
        products_of::<S, X, Y>(gpu, a, &[TileValues::Padded, TileValues::Bitmap], 0.0..=off);
    }

    /// Errors, in relation to the sizes of terms, are at most so large, and the largest at least.
    fn products_of<S: Number, X: Number, Y: Number>(
        gpu: &Gpu,
        a: &Csr<S>,
        all: &[TileValues],
        off: RangeInclusive<f64>,
    ) {
        let x: Vec<X> = numbers(a.cols, 2);
        let there = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let x_there = gpu.upload(&x).unwrap();
        for &stored in all {
            for lanes in [NARROW, WIDE, GROUP] {
                let made = TilesMma::new::<X, Y>(gpu, &there, stored).unwrap().unwrap();
                if lanes < WIDE && Y::Wide::PRECISION == Precision::F64 {
                    continue;
                }
                let made = Placed(made.with_lanes(lanes));
                let mut y = gpu.upload(&vec![Y::from_f64(f64::NAN); a.rows]).unwrap();
                Operator::<Gpu, X, Y>::apply(&made, Y::Wide::ONE, &x_there, Y::Wide::ZERO, &mut y).unwrap();
                let what = format!(
                    "{}, {stored:?}, {lanes} lanes, {:?} {:?} {:?}, {} x {}",
                    gpu.description(),
                    S::PRECISION,
                    X::PRECISION,
                    Y::PRECISION,
                    a.rows,
                    a.cols
                );
                let mut most = 0.0_f64;
                for (i, y) in gpu.fetch(&y).unwrap().iter().enumerate() {
                    let (mut sum, mut size) = (0.0, 0.0_f64);
                    for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                        let term = a.values[k].to_f64() * x[a.columns[k] as usize].to_f64();
                        sum += term;
                        size += term.abs();
                    }
                    let error = (y.to_f64() - sum).abs();
                    assert!(error <= off.end() * size, "{what}: row {i} is {y:?}, should be {sum}");
                    most = most.max(error / size.max(f64::MIN_POSITIVE));
                }
                assert!(most >= *off.start(), "{what}: {most}");
            }
        }
        gpu.status().unwrap();
    }

    /// Without the last of three pieces of 8 bits a number would be 2^-16 off, without the last bits of an f16 2^-8.
    #[test]
    fn products_are_exact_and_only_sums_are_rounded() {
        const SUM: f64 = 1.0 / (1 << 19) as f64;
        for gpu in devices() {
            for (rows, cols) in [(0, 5), (1, 1), (3, 50), (57, 41), (130, 203)] {
                let a = matrix::<f32>(rows, cols, false);
                products::<f32, f32, f32>(&gpu, &a, SUM);
                products::<f32, bf16, f32>(&gpu, &a, SUM);
                let a = matrix::<f16>(rows, cols, false);
                products::<f16, f32, f32>(&gpu, &a, SUM);
                products::<f16, f16, f32>(&gpu, &a, SUM);
                products::<f16, bf16, f32>(&gpu, &a, SUM);
                let a = matrix::<bf16>(rows, cols, false);
                products::<bf16, f32, f32>(&gpu, &a, SUM);
                products::<bf16, bf16, f32>(&gpu, &a, SUM);
                products::<bf16, f16, f32>(&gpu, &a, SUM);
                products::<f64, f64, f64>(&gpu, &matrix(rows, cols, false), 1e-15);
                products::<f16, f32, f64>(&gpu, &matrix(rows, cols, false), 1e-15);
            }
        }
    }

    #[test]
    fn full_rows_and_full_tiles_are_multiplied() {
        for gpu in devices() {
            for (rows, cols) in [(9, 1001), (64, 64)] {
                products::<f64, f64, f64>(&gpu, &matrix(rows, cols, true), 1e-14);
                products::<f16, f32, f32>(&gpu, &matrix(rows, cols, true), 1e-5);
            }
            let (n, columns) = (13, (0..13 * 13).map(|k| k % 13).collect());
            let offsets = (0..=n as i64).map(|i| 13 * i).collect();
            let mut full = Csr::<f64>::with_pattern(n, n, Block::SCALAR, offsets, columns).unwrap();
            full.values = numbers(n * n, 4);
            products::<f64, f64, f64>(&gpu, &full, 1e-14);
        }
    }

    /// Each factor of a product is half of 2^-10 off at most; that some are shows that they were rounded.
    #[test]
    fn numbers_are_rounded_to_tf32_where_that_is_asked_for() {
        for gpu in devices() {
            for (rows, cols) in [(57, 41), (130, 203)] {
                let a = matrix::<f32>(rows, cols, true);
                products_of::<f32, f32, f32>(&gpu, &a, &[TileValues::Tf32], 1e-4..=1.01 / 1024.0);
                products_of::<f32, f16, f32>(&gpu, &a, &[TileValues::Tf32], 5e-5..=1.01 / 2048.0);
            }
            let there = DeviceCsr::upload(&gpu, &matrix::<f32>(57, 41, false).view()).unwrap();
            let name = |gpu: &Gpu, format| gpu.operator_as::<f32, f32, f32>(&there, format).unwrap().format();
            assert_eq!(name(&gpu, &Format::Tiles), "tiles4x4");
            assert_eq!(name(&gpu.with_tf32(), &Format::Tiles), "tiles4x4_tf32");
            assert_eq!(name(&gpu.with_tf32(), &Format::TilesMma(TileValues::Padded)), "tiles4x4_mma");
            let wide = gpu.with_tf32().operator_as::<f32, f64, f64>(&there, &Format::Tiles).unwrap();
            assert_eq!(wide.format(), "tiles4x4");
        }
    }

    #[test]
    fn hierarchies_are_rounded_to_tf32_where_that_is_asked_for() {
        use crate::{Amg, Config, Context, Matrix};
        use std::sync::Arc;

        // Forty neighbours in one dimension, whose tiles are dense.
        let (n, reach) = (450_i32, 20);
        let (mut offsets, mut columns, mut values) = (vec![0_i64], Vec::new(), Vec::new());
        for i in 0..n {
            for j in (i - reach).max(0)..=(i + reach).min(n - 1) {
                columns.push(j);
                values.push(if i == j { 41.0 } else { -1.0 - f64::from((i + j) % 7) / 700.0 });
            }
            offsets.push(columns.len() as i64);
        }
        let mut a = Csr::<f64>::with_pattern(n as usize, n as usize, Block::SCALAR, offsets, columns).unwrap();
        a.values = values;
        let (context, matrix) = (Context::new("sim").unwrap(), Arc::new(Matrix::from_csr(a).unwrap()));
        let apply = |tf32: &str| {
            let mut config = Config::new();
            for (key, value) in [("precision", "sp"), ("gpu.tf32", tf32)] {
                config.set_str(key, value).unwrap();
            }
            let mut amg = Amg::setup(&context, &matrix, &config).unwrap();
            let (b, mut x) = (vec![1.0_f64; n as usize], vec![0.0_f64; n as usize]);
            amg.apply(&b, &mut x).unwrap();
            (amg.report().levels[0].format.clone(), x)
        };
        let ((plain, exact), (rounded, near)) = (apply("off"), apply("on"));
        assert_eq!((plain.as_str(), rounded.as_str()), ("tiles4x4", "tiles4x4_tf32"));
        let size = exact.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        let off = exact.iter().zip(&near).fold(0.0_f64, |most, (x, y)| most.max((x - y).abs()));
        assert!(off > 1e-6 * size && off < 0.05 * size, "{off} of {size}");
    }

    /// Vectors of f32 may be larger than an f16 holds, or smaller.
    #[test]
    fn the_range_of_vectors_is_that_of_f32() {
        let a = matrix::<f16>(40, 40, false);
        for gpu in devices() {
            let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            let tiles = Placed(TilesMma::new::<f32, f32>(&gpu, &there, TileValues::Padded).unwrap().unwrap());
            let of = |scale: f32| {
                let x: Vec<f32> = numbers::<f32>(a.cols, 2).into_iter().map(|v| v * scale).collect();
                let mut y = gpu.zeros::<f32>(a.rows).unwrap();
                Operator::<Gpu, f32>::apply(&tiles, 1.0, &gpu.upload(&x).unwrap(), 0.0, &mut y).unwrap();
                gpu.fetch(&y).unwrap()
            };
            let (one, large, small) = (of(1.0), of(2.0_f32.powi(100)), of(2.0_f32.powi(-60)));
            for i in 0..a.rows {
                assert_eq!((one[i] * 2.0_f32.powi(100), one[i] * 2.0_f32.powi(-60)), (large[i], small[i]), "row {i}");
            }
        }
    }

    #[test]
    fn bytes_are_those_of_the_entries_and_eight_for_each_tile() {
        let gpu = devices().remove(0);
        let a = matrix::<f64>(57, 41, true);
        let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
        let bytes = |stored| {
            let made = TilesMma::new::<f64, f64>(&gpu, &there, stored).unwrap().unwrap();
            (Product::<f64, f64>::bytes(&made), made.columns.len())
        };
        let (tile_rows, (bitmap, tiles)) = (57_usize.div_ceil(SIDE), bytes(TileValues::Bitmap));
        assert_eq!(bitmap, 8 * a.values.len() + 8 * tiles + 8 * (2 * tile_rows + 1));
        // Behind the last tile is one of zeros.
        assert_eq!(bytes(TileValues::Padded).0, (4 + 128) * tiles + 128 + 8 * (tile_rows + 1));
    }
}
