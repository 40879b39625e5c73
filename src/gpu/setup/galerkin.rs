//! The Galerkin product R A P on the device, computed as R (A P) with the bits of [`crate::host::galerkin`]. A P is
//! only a factor: its rows are unsorted and in any order in memory. The first numeric update of scalars finds the
//! position of each product in its row, and later ones use it.

use super::DeviceCsr;
use super::spgemm::{Method, Pattern, Product, Right, UnsortedRows};
use super::spgemm_symbolic::{BlockSpgemmSymbolic, Chunks, RowLengths, RowRanges, SpgemmSymbolic, Target};
use crate::error::{Result, Status};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// Symbolic data of R A P; it depends on the patterns alone.
pub(crate) struct GalerkinSymbolic {
    ap: ApProduct,
    coarse: Pattern,
    positions: Mutex<Positions>,
}

/// How A P is computed.
enum ApProduct {
    /// Unsorted rows from `begins` on, in space for `capacity` entries, with about `length` entries each.
    Unsorted { begins: Arc<Buffer<i64>>, capacity: usize, method: Method, length: usize },
    /// Sorted rows: blocks, and rows that exceed every hash table.
    Sorted(Pattern),
}

/// Positions of the products of A P and R (A P) in their rows.
enum Positions {
    /// The first numeric update computes them.
    Pending,
    /// Not available: rows are too long, or memory is short.
    Unavailable,
    Scalars(Box<ScalarSymbolic>),
    Blocks(Box<[BlockSpgemmSymbolic; 2]>),
}

/// Symbolic data of products of scalars, and the chunks of P and A P.
struct ScalarSymbolic {
    p: Chunks,
    ap: Chunks,
    of_ap: SpgemmSymbolic,
    of_coarse: SpgemmSymbolic,
}

impl GalerkinSymbolic {
    fn new(ap: ApProduct, coarse: Pattern) -> GalerkinSymbolic {
        GalerkinSymbolic { ap, coarse, positions: Mutex::new(Positions::Pending) }
    }

    /// Bytes held, besides those that the coarse matrix shares.
    pub fn bytes(&self) -> usize {
        let ap = match &self.ap {
            ApProduct::Unsorted { begins, .. } => begins.owned_bytes(),
            ApProduct::Sorted(ap) => ap.offsets.owned_bytes() + ap.columns.owned_bytes(),
        };
        ap + match &*lock(self.positions.lock()) {
            Positions::Pending | Positions::Unavailable => 0,
            Positions::Scalars(scalars) => {
                let ScalarSymbolic { p, ap, of_ap, of_coarse } = &**scalars;
                p.bytes() + ap.bytes() + of_ap.bytes() + of_coarse.bytes()
            }
            Positions::Blocks(terms) => terms.iter().map(BlockSpgemmSymbolic::bytes).sum(),
        }
    }

    /// Drops the positions, and does not compute them again. Returns whether there were any.
    pub fn drop_positions(&self) -> bool {
        !matches!(std::mem::replace(&mut *lock(self.positions.lock()), Positions::Unavailable), Positions::Unavailable)
    }
}

/// R A P with ones for zeros on the diagonal, and its symbolic data. Zeros come from surplus columns of a tentative
/// prolongator, whose coarse unknowns are coupled to nothing: the unit row keeps them at zero.
pub(crate) fn product<T: Number>(
    gpu: &Gpu,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<(DeviceCsr<T>, GalerkinSymbolic)> {
    let ap = Product::new(gpu, a, Right::of(p));
    if ap.is_scalar() {
        let sample = ap.sample()?;
        let mut capacity = sample.capacity(a.rows);
        let length = sample.mean.ceil() as usize;
        loop {
            let found = ap.unsorted(sample.method, capacity)?;
            let product = Product::new(gpu, r, right_of(&ap, a.rows, &found, length));
            let (coarse_sample, outcome) = product.sample_of(&found)?;
            if outcome.too_long > 0 {
                break;
            }
            if outcome.without_space > 0 {
                capacity = outcome.allocated;
                continue;
            }
            let (coarse, pattern) = product.sorted_by(coarse_sample, true)?;
            let ap = ApProduct::Unsorted { begins: found.begins, capacity, method: sample.method, length };
            return Ok((coarse, GalerkinSymbolic::new(ap, pattern)));
        }
    }
    let (ap, ap_pattern) = ap.with_lists().sorted(false)?;
    let (coarse, pattern) = Product::new(gpu, r, Right::of(&ap)).with_lists().sorted(true)?;
    Ok((coarse, GalerkinSymbolic::new(ApProduct::Sorted(ap_pattern), pattern)))
}

/// Numeric phase of R A P. Waits for the device only the first time.
pub(crate) fn numeric<T: Number>(
    gpu: &Gpu,
    symbolic: &GalerkinSymbolic,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<Buffer<T>> {
    let positions = &mut *lock(symbolic.positions.lock());
    if matches!(positions, Positions::Pending) {
        *positions = match find(gpu, symbolic, r, a, p) {
            // Without positions the numeric phase is slower.
            Err(error) if error.status == Status::OutOfMemory => Positions::Unavailable,
            found => found?,
        };
    }
    let ap = Product::new(gpu, a, Right::of(p));
    let coarse = &symbolic.coarse;
    match (&*positions, &symbolic.ap) {
        (Positions::Scalars(scalars), _) => {
            let ScalarSymbolic { p: of_p, ap: chunks, of_ap, of_coarse } = &**scalars;
            let (p, ap) = (of_p.of(gpu, p)?, chunks.allocate::<T>(gpu)?);
            of_ap.numeric(gpu, a, &p, Target::Chunks(chunks), &ap)?;
            let (offsets, columns) = (&coarse.offsets, &coarse.columns);
            let values = gpu.allocate::<T>(columns.len())?;
            of_coarse.numeric(gpu, r, &ap, Target::Filled { offsets, columns }, &values)?;
            Ok(values)
        }
        (_, ApProduct::Unsorted { begins, capacity, method, length }) => {
            let found = ap.unsorted_at(*method, *capacity, begins)?;
            Product::new(gpu, r, right_of(&ap, a.rows, &found, *length)).numeric(coarse, true)
        }
        (positions, ApProduct::Sorted(pattern)) => {
            let with = |values: Buffer<T>| {
                let (offsets, columns) = (Arc::clone(&pattern.offsets), Arc::clone(&pattern.columns));
                DeviceCsr { rows: a.rows, cols: p.cols, block: ap.block(), offsets, columns, values: Arc::new(values) }
            };
            if let Positions::Blocks(terms) = positions {
                let [of_ap, of_coarse] = &**terms;
                let ap = with(ap.numeric_blocks(of_ap, pattern, false)?);
                return Product::new(gpu, r, Right::of(&ap)).numeric_blocks(of_coarse, coarse, true);
            }
            let ap = with(ap.numeric(pattern, false)?);
            Product::new(gpu, r, Right::of(&ap)).numeric(coarse, true)
        }
    }
}

/// Positions of the products of both SpGEMMs, if rows are short enough.
fn find<T: Number>(
    gpu: &Gpu,
    symbolic: &GalerkinSymbolic,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<Positions> {
    let product = Product::new(gpu, a, Right::of(p));
    let right = Right::of(p);
    let coarse = row_ranges(&symbolic.coarse, r.rows);
    match &symbolic.ap {
        ApProduct::Unsorted { begins, capacity, method, length } => {
            let found = product.pattern_at(*method, *capacity, begins)?;
            let ap = right_of(&product, a.rows, &found, *length);
            let kinds = [(right.begins, right.ends), (ap.begins, ap.ends), (coarse.begins, coarse.ends)];
            let [of_p, of_ap, of_coarse] = RowLengths::of(gpu, kinds)?;
            if !of_ap.have_positions() || !of_coarse.have_positions() {
                return Ok(Positions::Unavailable);
            }
            let p_chunks = match of_p.are_single() {
                true => Some(Chunks::single(p.rows)),
                false => Chunks::new(gpu, right.begins, right.ends)?,
            };
            let (Some(p_chunks), Some(ap_chunks)) = (p_chunks, Chunks::new(gpu, ap.begins, ap.ends)?) else {
                return Ok(Positions::Unavailable);
            };
            let (begins, ends) = (ap.begins.subslice(0, a.rows), ap.ends.subslice(0, a.rows));
            let rows = RowRanges { begins, ends, columns: ap.columns };
            let of_ap = SpgemmSymbolic::new(gpu, a, (&right, &p_chunks), (&rows, &of_ap))?;
            let of_coarse = SpgemmSymbolic::new(gpu, r, (&ap, &ap_chunks), (&coarse, &of_coarse))?;
            Ok(Positions::Scalars(Box::new(ScalarSymbolic { p: p_chunks, ap: ap_chunks, of_ap, of_coarse })))
        }
        ApProduct::Sorted(_) if product.is_scalar() => Ok(Positions::Unavailable),
        ApProduct::Sorted(pattern) => {
            let rows = row_ranges(pattern, a.rows);
            let of_a = (a.offsets.subslice(0, a.rows), a.offsets.subslice(1, a.rows));
            let of_r = (r.offsets.subslice(0, r.rows), r.offsets.subslice(1, r.rows));
            let kinds = [of_a, of_r, (rows.begins, rows.ends), (coarse.begins, coarse.ends)];
            let [of_a, of_r, of_ap, of_coarse] = RowLengths::of(gpu, kinds)?;
            let (begins, ends) = (rows.begins.subslice(0, a.rows), rows.ends.subslice(0, a.rows));
            let (cols, block, values, length) = (p.cols, product.block(), &*p.values, of_ap.longest);
            let ap = Right { rows: a.rows, cols, block, begins, ends, columns: rows.columns, values, length };
            let of_ap = BlockSpgemmSymbolic::new(gpu, (a, &of_a), &right, (positions(pattern), &of_ap))?;
            let of_coarse = BlockSpgemmSymbolic::new(gpu, (r, &of_r), &ap, (positions(&symbolic.coarse), &of_coarse))?;
            Ok(match (of_ap, of_coarse) {
                (Some(of_ap), Some(of_coarse)) => Positions::Blocks(Box::new([of_ap, of_coarse])),
                _ => Positions::Unavailable,
            })
        }
    }
}

/// Offsets and columns of a pattern.
fn positions(pattern: &Pattern) -> (&Slice<i64>, &Slice<i32>) {
    (&pattern.offsets, &pattern.columns)
}

/// Row ranges of a pattern.
fn row_ranges(pattern: &Pattern, rows: usize) -> RowRanges<'_> {
    let Pattern { offsets, columns, .. } = pattern;
    RowRanges { begins: offsets.subslice(0, rows), ends: offsets.subslice(1, rows), columns }
}

/// A P as the right factor, with rows of about this length.
fn right_of<'a, T: Number>(
    ap: &Product<'_, T>,
    rows: usize,
    found: &'a UnsortedRows<T>,
    length: usize,
) -> Right<'a, T> {
    let (begins, ends) = (found.begins.subslice(0, rows), found.ends.subslice(0, rows));
    let (columns, values) = (&*found.columns, &*found.values);
    Right { rows, cols: ap.cols(), block: ap.block(), begins, ends, columns, values, length }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{ascending, problems, random};
    use super::super::transpose::transpose;
    use super::*;
    use crate::gpu::tests::{devices, one_of_each};
    use crate::host::galerkin as host;
    use crate::host::transpose as host_transpose;
    use crate::scalar::Scalar;
    use crate::sparse::{Block, Csr};

    fn same_as_the_host<T: Scalar>(gpu: &Gpu, a: &Csr<T>, p: &Csr<T>, what: &str) -> GalerkinSymbolic {
        let r = host_transpose::transpose(&p.view()).unwrap();
        let expected = |a: &Csr<T>| {
            let p = p.clone().into_shared();
            host::product(&r.view(), &a.view(), &p).unwrap()
        };
        let upload = |a: &Csr<T>| DeviceCsr::upload(gpu, &a.view()).unwrap();
        let on_device = upload(p);
        let restriction = transpose(gpu, &on_device).unwrap();
        let (coarse, symbolic) = product(gpu, &restriction, &upload(a), &on_device).unwrap();
        let (coarse, same) = (coarse.fetch(gpu).unwrap(), expected(a));
        assert_eq!((&coarse.offsets[..], &coarse.columns[..]), same.structure.own_arrays(), "{what}");
        assert_eq!(coarse.values, same.values.as_slice(), "{what}");
        let changed = |change: &dyn Fn(usize, T) -> T| Csr {
            values: a.values.iter().enumerate().map(|(k, v)| change(k, *v)).collect(),
            ..a.clone()
        };
        let smaller = changed(&|_, v| v * T::from_f64(0.3));
        let partly_zero = changed(&|k, v| if k % 3 == 0 { T::ZERO } else { v });
        let zero = changed(&|_, _| T::ZERO);
        for a in [&smaller, &partly_zero, &zero, &smaller] {
            let updated = numeric(gpu, &symbolic, &restriction, &upload(a), &on_device).unwrap();
            assert_eq!(gpu.fetch(&updated).unwrap(), expected(a).values.as_slice(), "{what}");
        }
        symbolic
    }

    #[test]
    fn coarse_matrices_are_those_of_the_host() {
        for (name, a) in problems() {
            for gpu in devices() {
                let mut p = random(a.rows, a.rows / 3, 4, Block::SCALAR, 7);
                let symbolic = same_as_the_host(&gpu, &a, &p, &name);
                assert!(matches!(&*lock(symbolic.positions.lock()), Positions::Scalars(_)), "{name}");
                let in_order = ascending(a.rows, a.rows / 3, 4, 7);
                let symbolic = same_as_the_host(&gpu, &a, &in_order, &name);
                let merges = matches!(symbolic.ap, ApProduct::Unsorted { method: Method::Merge(_), .. });
                assert!(merges || !name.starts_with("poisson7"), "{name}");
                // Without positions it is merged again.
                symbolic.drop_positions();
                let [device_a, device_p, r] = [&a, &in_order, &host_transpose::transpose(&in_order.view()).unwrap()]
                    .map(|a| DeviceCsr::upload(&gpu, &a.view()).unwrap());
                let updated = numeric(&gpu, &symbolic, &r, &device_a, &device_p).unwrap();
                let (first, _) = product(&gpu, &r, &device_a, &device_p).unwrap();
                assert_eq!(gpu.fetch(&updated).unwrap(), gpu.fetch(&first.values).unwrap(), "{name}");
                // Surplus columns, which leave zeros on the diagonal.
                p.values.iter_mut().zip(&p.columns).filter(|(_, j)| **j % 5 == 0).for_each(|(v, _)| *v = 0.0);
                same_as_the_host(&gpu, &a, &p, &name);
                let (a, p) = (a.view().to_owned_as::<f32>().unwrap(), p.view().to_owned_as::<f32>().unwrap());
                same_as_the_host(&gpu, &a, &p, &name);
            }
        }
    }

    /// Bytes hold 255 positions, 16 bits those of the sums of a team.
    #[test]
    fn rows_of_some_hundred_entries_are_updated_by_positions() {
        let rows = 66;
        // A is dense, so that rows of A P have all columns.
        let entries: Vec<_> =
            (0..rows).flat_map(|i| (0..rows).map(move |j| (i, j, ((7 * i + 3 * j) % 11) as f64 - 4.5))).collect();
        let a = Csr::from_triplets(rows, rows, &entries).unwrap();
        for gpu in one_of_each() {
            // Rows of P are one chunk where there are at most four times as many columns as rows.
            for (columns, has_positions) in
                [(255, true), (256, true), (264, true), (265, true), (512, true), (513, false)]
            {
                let p: Vec<_> = (0..columns).map(|j| (j % rows, j, 0.1 * (j % 7) as f64 - 0.25)).collect();
                let p = Csr::from_triplets(rows, columns, &p).unwrap();
                let what = format!("{columns} columns");
                let symbolic = same_as_the_host(&gpu, &a, &p, &what);
                assert_eq!(matches!(&*lock(symbolic.positions.lock()), Positions::Scalars(_)), has_positions, "{what}");
                if columns == 256 || columns == 512 {
                    let (a, p) = (a.view().to_owned_as::<f32>().unwrap(), p.view().to_owned_as::<f32>().unwrap());
                    same_as_the_host(&gpu, &a, &p, &what);
                }
            }
        }
    }

    #[test]
    fn a_row_that_fits_no_table_has_a_coarse_matrix() {
        let (rows, own) = (16, 200);
        let dense = (0..rows).map(|j| (3, j, 1.0 + j as f64));
        let diagonal = (0..rows).filter(|i| *i != 3).map(|i| (i, i, 2.0 + i as f64 / 3.0));
        let a = Csr::from_triplets(rows, rows, &dense.chain(diagonal).collect::<Vec<_>>()).unwrap();
        let p: Vec<_> = (0..rows * own).map(|j| (j / own, j, 0.1 * (j % 7) as f64 - 0.25)).collect();
        let p = Csr::from_triplets(rows, rows * own, &p).unwrap();
        for gpu in one_of_each() {
            let symbolic = same_as_the_host(&gpu, &a, &p, "a long row");
            assert!(matches!(symbolic.ap, ApProduct::Sorted(_)));
            assert!(matches!(&*lock(symbolic.positions.lock()), Positions::Unavailable));
        }
    }

    #[test]
    fn rows_of_any_length_are_updated() {
        // Longest row of A, coarse unknowns, longest row of P, and whether there are positions.
        for (longest, coarse, of_p, is_told) in [
            (5, 60, 9, true),
            (20, 90, 4, true),
            (40, 30, 4, true),
            (40, 60, 4, true),
            (30, 200, 12, true),
            (40, 250, 4, true),
            (12, 300, 90, true),
            (60, 700, 9, true),
            (60, 900, 30, false),
        ] {
            for gpu in devices() {
                let (a, p) = (random(90, 90, longest, Block::SCALAR, 1), random(90, coarse, of_p, Block::SCALAR, 2));
                let what = format!("rows of {longest}, {coarse} coarse unknowns");
                let symbolic = same_as_the_host(&gpu, &a, &p, &what);
                assert_eq!(matches!(&*lock(symbolic.positions.lock()), Positions::Scalars(_)), is_told, "{what}");
                // Without positions it takes longer.
                assert_eq!(symbolic.drop_positions(), is_told);
                let (on_device, p) =
                    (DeviceCsr::upload(&gpu, &a.view()).unwrap(), DeviceCsr::upload(&gpu, &p.view()).unwrap());
                let r = transpose(&gpu, &p).unwrap();
                let (first, _) = product(&gpu, &r, &on_device, &p).unwrap();
                let updated = numeric(&gpu, &symbolic, &r, &on_device, &p).unwrap();
                assert_eq!(gpu.fetch(&updated).unwrap(), gpu.fetch(&first.values).unwrap(), "{what}");
            }
        }
    }

    #[test]
    fn an_update_without_memory_for_positions_searches() {
        // Many products for few entries.
        let (a, p) = (random(400, 400, 100, Block::SCALAR, 1), random(400, 5, 4, Block::SCALAR, 2));
        let expected = {
            let r = host_transpose::transpose(&p.view()).unwrap();
            host::product(&r.view(), &a.view(), &p.clone().into_shared()).unwrap()
        };
        for gpu in devices() {
            let upload = |a: &Csr<f64>| DeviceCsr::upload(&gpu, &a.view()).unwrap();
            let (on_device, p) = (upload(&a), upload(&p));
            let r = transpose(&gpu, &p).unwrap();
            let (_, symbolic) = product(&gpu, &r, &on_device, &p).unwrap();
            symbolic.drop_positions();
            gpu.reset_peak();
            let updated = numeric(&gpu, &symbolic, &r, &on_device, &p).unwrap();
            drop(updated);
            gpu.set_memory_limit(Some(gpu.memory().peak));
            *lock(symbolic.positions.lock()) = Positions::Pending;
            for _ in 0..2 {
                let updated = numeric(&gpu, &symbolic, &r, &on_device, &p).unwrap();
                assert_eq!(gpu.fetch(&updated).unwrap(), expected.values.as_slice());
                assert!(matches!(&*lock(symbolic.positions.lock()), Positions::Unavailable));
            }
            gpu.set_memory_limit(None);
        }
    }

    #[test]
    fn blocks_have_coarse_matrices() {
        for gpu in devices() {
            for (block, other) in [(Block::square(3), Block::square(3)), (Block::square(3), Block { rows: 3, cols: 6 })]
            {
                let (a, p) = (random(80, 80, 7, block, 1), random(80, 30, 4, other, 2));
                let symbolic = same_as_the_host(&gpu, &a, &p, "blocks");
                assert!(matches!(&*lock(symbolic.positions.lock()), Positions::Blocks(_)));
                let mut p = p;
                p.values.iter_mut().step_by(other.cols).for_each(|v| *v = 0.0);
                same_as_the_host(&gpu, &a, &p, "blocks with empty columns");
            }
            // Rows that exceed the hash tables of set-up, and one of 256 lanes.
            let (block, other) = (Block::square(3), Block { rows: 3, cols: 6 });
            let (a, p) = (random(60, 60, 50, block, 1), random(60, 400, 12, other, 2));
            let symbolic = same_as_the_host(&gpu, &a, &p, "long rows of blocks");
            assert!(matches!(&*lock(symbolic.positions.lock()), Positions::Blocks(_)));
            let (a, p) = (random(0, 0, 0, Block::SCALAR, 1), random(0, 0, 0, Block::SCALAR, 2));
            same_as_the_host(&gpu, &a, &p, "nothing");
        }
    }
}
