//! SpGEMM of matrices with dense tiles on matrix cores: `kernels/spgemm_tiles.cu`. Patterns are those of
//! [`super::spgemm`]. Values are chains of fused multiply-adds in the order of the left factor's columns. The host does
//! not fuse, so set-up does not use this method.

use super::tiles::{DeviceTiles, SIDE, cascade, densities};
use super::{DeviceCsr, spgemm};
use crate::error::Result;
use crate::gpu::runtime::Argument;
use crate::gpu::{Gpu, to_scalar};
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// Model of when tiles are faster, fitted on an H200 (docs/performance/h200.md). In units of the time of a term by hash
/// tables, tiles take `share` for each term, divided by the mean entries of a tile of both factors, and `terms` for
/// each row. The product of both means must be at least `dense`: sparser tiles have too many columns.
struct Crossover {
    share: f64,
    terms: f64,
    dense: f64,
}

/// Of matrices of scalars.
const SCALARS: Crossover = Crossover { share: 12.0, terms: 340.0, dense: 25.0 };

/// Of block matrices, for which hash tables find one column for each block.
const BLOCKS: Crossover = Crossover { share: 30.0, terms: 950.0, dense: 64.0 };

impl Crossover {
    /// Whether tiles are faster, given the mean entries of a tile of both factors and the terms of a scalar row of the
    /// product.
    fn favours_tiles(&self, [left, right]: [f64; 2], terms: f64) -> bool {
        let dense = left * right;
        dense >= self.dense && terms * (1.0 - self.share / dense) >= self.terms
    }
}

/// Most tiles of a tile row of the left factor for which a pair of tile rows may fit the small tables.
const SHORT: f64 = 64.0;

/// Method of SpGEMM on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductMethod {
    /// The fastest by a sample of both factors: tiles, merging of rows, or hash tables.
    Auto,
    /// Hash tables.
    Hash,
    /// Tiles on matrix cores; hash tables if a row exceeds the tables of tiles.
    Tiles,
}

/// The product A B, columns ascending in each row.
pub(crate) fn multiply<T: Number>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    b: &DeviceCsr<T>,
    method: ProductMethod,
) -> Result<DeviceCsr<T>> {
    let by_tiles = match method {
        ProductMethod::Auto => {
            let is_scalar = a.block == Block::SCALAR && b.block == Block::SCALAR;
            let length = |a: &DeviceCsr<T>| a.entries() as f64 / a.scalar_rows().max(1) as f64;
            let terms = length(a) * length(b);
            let crossover = if is_scalar { SCALARS } else { BLOCKS };
            terms >= crossover.terms && crossover.favours_tiles(densities(gpu, [a, b])?, terms)
        }
        ProductMethod::Hash => return spgemm::multiply_by_tables(gpu, a, b),
        ProductMethod::Tiles => true,
    };
    if by_tiles && let Some(product) = multiply_tiles(gpu, a, b)? {
        return Ok(product);
    }
    spgemm::multiply(gpu, a, b)
}

/// The product by tiles; none if a row of it or of a factor exceeds the tables.
fn multiply_tiles<T: Number>(gpu: &Gpu, a: &DeviceCsr<T>, b: &DeviceCsr<T>) -> Result<Option<DeviceCsr<T>>> {
    assert!(a.cols == b.rows && a.block.cols == b.block.rows);
    let block = Block { rows: a.block.rows, cols: b.block.cols };
    let tiles_of = |a: &DeviceCsr<T>| DeviceTiles::of(gpu, &to_scalar(gpu, a)?);
    let Some(left) = tiles_of(a)? else { return Ok(None) };
    let is_square = Arc::ptr_eq(&a.columns, &b.columns) && Arc::ptr_eq(&a.values, &b.values);
    let other = if is_square { None } else { Some(tiles_of(b)?) };
    let right = match &other {
        None => &left,
        Some(Some(right)) => right,
        Some(None) => return Ok(None),
    };
    let (rows, height, width) = (a.scalar_rows() as i64, block.rows as i32, block.cols as i32);
    let [(of_height, height_bits), (of_width, width_bits)] = [block.rows, block.cols].map(reciprocal);
    let shape: [&dyn Argument; 6] = [&height, &width, &of_height, &of_width, &height_bits, &width_bits];
    let pairs = a.scalar_rows().div_ceil(2 * SIDE);
    let tile_row = left.columns.len() as f64 / a.scalar_rows().div_ceil(SIDE).max(1) as f64;
    let sizes = &[("small", pairs), ("large", pairs)][usize::from(tile_row > SHORT)..];
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (left.views(), right.views());
    let counts = gpu.allocate::<i32>(a.rows)?;
    let left_over = cascade(gpu, pairs, sizes, |size, n, list, blocks, more| {
        let kernel = gpu.kernel(&format!("spgemm_tiles_count_{size}"))?;
        let counts = counts.view();
        let first: [&dyn Argument; 3] = [&n, &list, &rows];
        let rest: [&dyn Argument; 8] = [&a0, &a1, &a2, &b0, &b1, &b2, &counts, &more];
        let arguments = [&first[..], &shape, &rest].concat();
        gpu.launch_blocks(kernel, blocks, &arguments)
    })?;
    let (offsets, total) = gpu.offsets(&counts)?;
    drop(counts);
    if gpu.fetch(left_over.subslice(0, 1))?[0] > 0 {
        return Ok(None);
    }
    let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total * block.len())?);
    let stored = if block == Block::SCALAR { "scalars" } else { "blocks" };
    cascade(gpu, pairs, sizes, |size, n, list, blocks, more| {
        let kernel = gpu.kernel(&format!("spgemm_tiles_{size}_{stored}_{}", T::PRECISION.name()))?;
        let (to, columns, values) = (offsets.view(), columns.view(), values.view());
        let first: [&dyn Argument; 3] = [&n, &list, &rows];
        let rest: [&dyn Argument; 12] = [&a0, &a1, &a2, &a3, &b0, &b1, &b2, &b3, &to, &columns, &values, &more];
        let arguments = [&first[..], &shape, &rest].concat();
        gpu.launch_blocks(kernel, blocks, &arguments)
    })?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(Some(DeviceCsr { rows: a.rows, cols: b.cols, block, offsets, columns, values }))
}

/// Division by n as multiplication: m = 2^bits / n, rounded up, with the largest `bits` for which m is at most 2^32.
/// For x below 2^31, x / n is x m >> bits.
fn reciprocal(n: usize) -> (i64, i32) {
    let bits = 32 + n.ilog2();
    ((1_u64 << bits).div_ceil(n as u64) as i64, bits as i32)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::irregular::shuffled;
    use super::super::tests::random;
    use super::*;
    use crate::gpu::tests::{devices, one_of_each};
    use crate::hash::hash;
    use crate::scalar::Scalar;
    use crate::sparse::Csr;

    /// The product, each value a chain of fused multiply-adds in the order of columns.
    fn chained(a: &Csr<f64>, b: &Csr<f64>) -> Csr<f64> {
        let mut c =
            Csr { rows: a.rows, cols: b.cols, block: Block::SCALAR, offsets: vec![0], columns: vec![], values: vec![] };
        let (left, right) = (a.view(), b.view());
        let mut sums: Vec<Option<f64>> = vec![None; b.cols];
        for i in 0..a.rows {
            let mut row: Vec<(usize, f64)> = left.row(i).map(|(k, v)| (k, v[0])).collect();
            row.sort_by_key(|(k, _)| *k);
            for (k, v) in row {
                for (j, w) in right.row(k) {
                    sums[j] = Some(v.mul_add(w[0], sums[j].unwrap_or(0.0)));
                }
            }
            for (j, sum) in sums.iter_mut().enumerate() {
                if let Some(sum) = sum.take() {
                    c.columns.push(j as i32);
                    c.values.push(sum);
                }
            }
            c.offsets.push(c.columns.len() as i64);
        }
        c
    }

    fn check_as<T: Scalar>(gpu: &Gpu, a: &Csr<f64>, b: &Csr<f64>, fits: bool, what: &str) {
        let narrow = |m: &Csr<f64>| m.view().to_owned_as::<T>().unwrap();
        let (a, b) = (narrow(a), narrow(b));
        let (left, right) = (DeviceCsr::upload(gpu, &a.view()).unwrap(), DeviceCsr::upload(gpu, &b.view()).unwrap());
        let product = multiply_tiles(gpu, &left, &right).unwrap();
        assert_eq!(product.is_some(), fits, "{what}");
        let Some(product) = product else { return };
        let wide = |m: &Csr<T>| m.view().to_owned_as::<f64>().unwrap();
        let expected = chained(&wide(&a), &wide(&b)).view().to_owned_as::<T>().unwrap();
        let got = product.fetch(gpu).unwrap();
        assert!(got.offsets == expected.offsets, "offsets of {what}");
        let difference = got.columns.iter().zip(&expected.columns).position(|(a, b)| a != b);
        assert_eq!(difference, None, "a column of {what}");
        let difference = got.values.iter().zip(&expected.values).position(|(a, b)| a != b);
        assert_eq!(difference, None, "a value of {what}");
    }

    fn check(gpu: &Gpu, a: &Csr<f64>, b: &Csr<f64>, what: &str) {
        check_as::<f64>(gpu, a, b, true, what);
        check_as::<f32>(gpu, a, b, true, what);
    }

    /// A grid of n x n nodes, nine neighbours each, whose blocks of `unknowns` are given as scalars.
    fn nodes(n: usize, unknowns: usize) -> Csr<f64> {
        let mut triplets = Vec::new();
        for (i, j) in (0..n * n).flat_map(|i| (0..n * n).map(move |j| (i, j))) {
            if (i % n).abs_diff(j % n) <= 1 && (i / n).abs_diff(j / n) <= 1 {
                for e in 0..unknowns * unknowns {
                    let (row, col) = (i * unknowns + e / unknowns, j * unknowns + e % unknowns);
                    triplets.push((row, col, (hash(row * n * n * unknowns + col, 5) % 2001) as f64 / 1000.0 - 1.0));
                }
            }
        }
        Csr::from_triplets(n * n * unknowns, n * n * unknowns, &triplets).unwrap()
    }

    #[test]
    fn squares_of_blocks_given_as_scalars() {
        for gpu in devices() {
            for unknowns in 1..=6 {
                let a = nodes(7, unknowns);
                check(&gpu, &a, &a, &format!("blocks of {unknowns}"));
            }
        }
    }

    #[test]
    fn quotients_are_products_with_reciprocals() {
        for n in [1, 2, 3, 5, 6, 7, 8, 16, 17, 100, 255] {
            let (of_n, bits) = reciprocal(n);
            for multiple in [n, 7 * n, i32::MAX as usize / n * n] {
                for m in [multiple - 1, multiple, i32::MAX as usize] {
                    assert_eq!((m as i64 * of_n) >> bits, (m / n) as i64, "{m} by {n}");
                }
            }
        }
    }

    #[test]
    fn blocks_stay_blocks() {
        for gpu in devices() {
            for (left, right) in [((3, 3), (3, 3)), ((6, 3), (3, 2)), ((1, 2), (2, 16)), ((16, 4), (4, 7))] {
                let [left, right] = [left, right].map(|(rows, cols)| Block { rows, cols });
                for longest in [0, 7] {
                    let (a, b) = (random(30, 21, longest, left, 1), random(21, 50, longest, right, 2));
                    let upload = |a: &Csr<f64>| DeviceCsr::upload(&gpu, &a.view()).unwrap();
                    let product = multiply_tiles(&gpu, &upload(&a), &upload(&b)).unwrap().unwrap().fetch(&gpu).unwrap();
                    let pattern = crate::host::spgemm::multiply(&a.view(), &b.view()).unwrap();
                    let what = format!("{left:?} times {right:?}");
                    assert_eq!((&product.offsets, &product.columns), (&pattern.offsets, &pattern.columns), "{what}");
                    let expected = chained(&a.view().to_scalar().unwrap(), &b.view().to_scalar().unwrap());
                    assert_eq!(product.view().to_scalar().unwrap(), expected, "{what}");
                }
            }
        }
    }

    #[test]
    fn tiles_are_chosen_where_both_factors_have_dense_ones() {
        let dense = nodes(7, 4);
        let (wide, tall) = (random(196, 900, 40, Block::SCALAR, 9), random(300, 196, 20, Block::SCALAR, 9));
        for gpu in devices() {
            for (a, b, by_tiles) in [(&dense, &dense, true), (&dense, &wide, false), (&tall, &dense, false)] {
                let (left, right) =
                    (DeviceCsr::upload(&gpu, &a.view()).unwrap(), DeviceCsr::upload(&gpu, &b.view()).unwrap());
                let chosen = multiply(&gpu, &left, &right, ProductMethod::Auto).unwrap().fetch(&gpu).unwrap();
                let hashed = multiply(&gpu, &left, &right, ProductMethod::Hash).unwrap().fetch(&gpu).unwrap();
                assert_eq!((&hashed.offsets, &hashed.columns), (&chosen.offsets, &chosen.columns));
                assert_eq!(chosen == chained(a, b), by_tiles);
                assert_eq!(chosen == hashed, !by_tiles);
            }
        }
    }

    #[test]
    fn products_of_irregular_matrices_by_tiles() {
        for gpu in devices() {
            for (rows, inner, cols, left, right) in [
                (0, 0, 0, 0, 0),
                (0, 3, 5, 0, 2),
                (5, 0, 3, 0, 0),
                (4, 3, 0, 2, 0),
                (1, 1, 1, 1, 1),
                (33, 257, 31, 9, 5),
                (30, 31, 256, 20, 40),
                (101, 99, 103, 3, 0),
                (60, 90, 1500, 6, 60),
                (18, 300, 1000, 90, 7),
            ] {
                let (a, b) =
                    (random(rows, inner, left, Block::SCALAR, 1), random(inner, cols, right, Block::SCALAR, 2));
                check(&gpu, &a, &b, &format!("{rows} x {inner} x {cols} with rows of {left} and {right}"));
            }
            let a = shuffled(nodes(5, 3));
            check(&gpu, &a, &a, "rows in no order");
        }
    }

    #[test]
    fn dense_matrices_and_dense_rows_by_tiles() {
        let dense = random(130, 130, 2000, Block::SCALAR, 4);
        let mut triplets: Vec<_> = (0..1100).map(|j| (3, j, 1.0 + j as f64)).collect();
        triplets.extend((0..1100).filter(|i| *i != 3).map(|i| (i, (i * 7) % 1100, 0.1 * i as f64)));
        let a = Csr::from_triplets(1100, 1100, &triplets).unwrap();
        // Sums that are zero stay.
        let short = Csr::from_triplets(1, 2, &[(0, 0, 1.0), (0, 1, 1.0)]).unwrap();
        let tall = Csr::from_triplets(2, 1, &[(0, 0, 1.0), (1, 0, -1.0)]).unwrap();
        for gpu in one_of_each() {
            check(&gpu, &dense, &dense, "a dense matrix");
            check(&gpu, &a, &a, "a dense row");
            check(&gpu, &short, &tall, "a sum of zero");
        }
    }

    #[test]
    fn what_fits_no_table_of_tiles_is_multiplied_the_other_way() {
        let row = |n: usize| Csr::from_triplets(2, n, &(0..n).map(|j| (1, j, 1.0)).collect::<Vec<_>>()).unwrap();
        let ones = |n: usize| Csr::from_triplets(n, 2, &(0..n).map(|i| (i, i % 2, 0.5)).collect::<Vec<_>>()).unwrap();
        // Tiles of a tile row of a factor, of a pair of tile rows of the left one, and of the product.
        for (a, b) in [(row(13_000), ones(13_000)), (row(3200), ones(3200)), (ones(4), row(5000))] {
            for gpu in one_of_each() {
                check_as::<f64>(&gpu, &a, &b, false, "a long row");
                let (left, right) =
                    (DeviceCsr::upload(&gpu, &a.view()).unwrap(), DeviceCsr::upload(&gpu, &b.view()).unwrap());
                let product = multiply(&gpu, &left, &right, ProductMethod::Tiles).unwrap().fetch(&gpu).unwrap();
                assert_eq!(product, crate::host::spgemm::multiply(&a.view(), &b.view()).unwrap());
            }
        }
    }
}
