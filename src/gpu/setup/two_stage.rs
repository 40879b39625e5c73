//! Two-stage interpolation for aggressive coarsening on a GPU.

use super::coarse_numbering::Splitting;
use super::extended_i_numeric::ExtendedISymbolic;
use super::spgemm::Right;
use super::spgemm_symbolic::{Chunks, RowLengths, RowRanges, SpgemmSymbolic, Target};
use super::truncate::Rows;
use super::{DeviceCsr, DeviceGraph, DevicePattern, extended_i, spgemm};
use crate::backend::parameters::Truncation;
use crate::error::{Result, Status};
use crate::gpu::runtime::Argument;
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// As [`crate::host::two_stage::interpolate`]: `formula` interpolates from the coarse unknowns of a splitting to all
/// unknowns, or to those of a list.
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    first: &Splitting,
    second: &Splitting,
    truncation: Truncation,
    pattern: Option<&DevicePattern>,
    formula: impl Fn(&Splitting, Option<&Slice<i32>>) -> Result<DeviceCsr<T>>,
) -> Result<DeviceCsr<T>> {
    let product = {
        let members = first.coarse_unknowns(gpu)?;
        let to_first = formula(second, Some(&members))?;
        let to_all = formula(first, None)?;
        spgemm::multiply(gpu, &to_all, &to_first)?
    };
    Rows::of(&product).truncated(gpu, truncation, pattern)
}

/// Symbolic data of both stages of extended+i interpolation: their patterns, from the first numeric update, and their
/// symbolic data.
pub(crate) struct Stages {
    /// To the unknowns of the first pass; and the same pattern with a row for every unknown, most of which are empty.
    to_first: DevicePattern,
    spread: DevicePattern,
    to_all: DevicePattern,
    symbolic: [ExtendedISymbolic; 2],
    product: DevicePattern,
    /// None if rows are too long, or memory is short.
    positions: Mutex<Option<Positions>>,
}

/// Symbolic data of the product of both stages, and the position in its row of each entry that truncation keeps.
struct Positions {
    chunks: Chunks,
    symbolic: SpgemmSymbolic,
    kept: Buffer<u8>,
}

impl Stages {
    /// With the first values, as [`interpolate`]. If `lean`, only patterns are kept.
    pub fn new<T: Scalar>(
        gpu: &Gpu,
        (a, s): (&DeviceCsr<T>, &DeviceGraph),
        (first, second): (&Splitting, &Splitting),
        truncation: Truncation,
        pattern: &DevicePattern,
        lean: bool,
    ) -> Result<(DeviceCsr<T>, Stages)> {
        let members = first.coarse_unknowns(gpu)?;
        let to_first = extended_i::interpolate(gpu, a, s, second, Some(&members), truncation)?;
        let to_all = extended_i::interpolate(gpu, a, s, first, None, truncation)?;
        let product = spgemm::multiply(gpu, &to_all, &to_first)?;
        let p = Rows::of(&product).truncated(gpu, truncation, Some(pattern))?;
        let found = if lean { Ok(None) } else { positions(gpu, &to_all, &to_first, &product, pattern) };
        let positions = match found {
            // Without positions updates are slower.
            Err(error) if error.status == Status::OutOfMemory => None,
            found => found?,
        };
        let (to_first, to_all, product) = (to_first.pattern(), to_all.pattern(), product.pattern());
        let counts = gpu.allocate::<i32>(a.rows)?;
        let (number, offsets) = (first.number.view(), to_first.offsets.view());
        let arguments: [&dyn Argument; 4] = [&(a.rows as i64), &number, &offsets, &counts.view()];
        gpu.launch(gpu.kernel("extended_i_spread")?, a.rows, &arguments)?;
        let offsets = Arc::new(gpu.offsets_alone(&counts)?);
        let spread = DevicePattern { rows: a.rows, offsets, ..to_first.clone() };
        let symbolic = match lean {
            true => [ExtendedISymbolic::nothing(), ExtendedISymbolic::nothing()],
            false => [
                ExtendedISymbolic::new(gpu, a, s, second, &spread)?,
                ExtendedISymbolic::new(gpu, a, s, first, &to_all)?,
            ],
        };
        Ok((p, Stages { to_first, spread, to_all, symbolic, product, positions: Mutex::new(positions) }))
    }

    /// Numeric phase: the interpolation for other values with the same pattern.
    pub fn numeric<T: Scalar>(
        &self,
        gpu: &Gpu,
        (a, s): (&DeviceCsr<T>, &DeviceGraph),
        (first, second): (&Splitting, &Splitting),
        truncation: Truncation,
        pattern: &DevicePattern,
    ) -> Result<DeviceCsr<T>> {
        let [of_first, of_all] = &self.symbolic;
        let DevicePattern { rows, cols, block, offsets, columns } = self.to_first.clone();
        let values = of_first.numeric(gpu, a, s, second, &self.spread)?.values;
        let to_first = DeviceCsr { rows, cols, block, offsets, columns, values };
        let to_all = of_all.numeric(gpu, a, s, first, &self.to_all)?;
        let positions = lock(self.positions.lock());
        let Some(Positions { chunks, symbolic, kept }) = &*positions else {
            let product = spgemm::multiply(gpu, &to_all, &to_first)?;
            return Rows::of(&product).truncated(gpu, truncation, Some(pattern));
        };
        let (product, right) = (gpu.allocate::<T>(self.product.nnz())?, chunks.of(gpu, &to_first)?);
        symbolic.numeric(gpu, &to_all, &right, Target::Rows(&self.product.offsets), &product)?;
        let values = gpu.allocate::<T>(pattern.nnz())?;
        let (offsets, from, to) = (self.product.offsets.view(), product.view(), pattern.offsets.view());
        let arguments: [&dyn Argument; 6] =
            [&(pattern.rows as i64), &offsets, &from, &to, &kept.view(), &values.view()];
        let kernel = gpu.kernel(&format!("truncate_numeric_{}", T::PRECISION.name()))?;
        gpu.launch(kernel, pattern.rows, &arguments)?;
        Ok(pattern.with(values))
    }

    /// Whether one of the last numeric updates of both stages left rows. Waits for the device.
    pub fn left_over(&self, gpu: &Gpu) -> Result<bool> {
        let [of_first, of_all] = &self.symbolic;
        Ok(of_first.left_over(gpu)? | of_all.left_over(gpu)?)
    }

    /// Drops the symbolic data of rows and products. Returns whether there was any.
    pub fn drop_positions(&self) -> bool {
        let positions = lock(self.positions.lock()).take().is_some();
        self.symbolic.iter().filter(|symbolic| symbolic.drop_positions()).count() > 0 || positions
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let of = |p: &DevicePattern| p.offsets.owned_bytes() + p.columns.owned_bytes();
        let patterns = of(&self.to_first) + self.spread.offsets.owned_bytes() + of(&self.to_all) + of(&self.product);
        let positions = lock(self.positions.lock())
            .as_ref()
            .map_or(0, |Positions { chunks, symbolic, kept }| chunks.bytes() + symbolic.bytes() + kept.owned_bytes());
        patterns + positions + self.symbolic.iter().map(ExtendedISymbolic::bytes).sum::<usize>()
    }
}

/// Symbolic data of the product of both stages, if its rows are short. Waits for the device.
fn positions<T: Scalar>(
    gpu: &Gpu,
    to_all: &DeviceCsr<T>,
    to_first: &DeviceCsr<T>,
    product: &DeviceCsr<T>,
    pattern: &DevicePattern,
) -> Result<Option<Positions>> {
    let right = Right::of(to_first);
    let (begins, ends) = (product.offsets.subslice(0, product.rows), product.offsets.subslice(1, product.rows));
    let [of_right, of_product] = RowLengths::of(gpu, [(right.begins, right.ends), (begins, ends)])?;
    if !of_product.have_positions() {
        return Ok(None);
    }
    let chunks = match of_right.are_single() {
        true => Some(Chunks::single(to_first.rows)),
        false => Chunks::new(gpu, right.begins, right.ends)?,
    };
    let Some(chunks) = chunks else { return Ok(None) };
    let rows = RowRanges { begins, ends, columns: &product.columns };
    let symbolic = SpgemmSymbolic::new(gpu, to_all, (&right, &chunks), (&rows, &of_product))?;
    let kept = gpu.allocate::<u8>(pattern.nnz())?;
    let (offsets, columns) = (product.offsets.view(), product.columns.view());
    let (to, to_columns) = (pattern.offsets.view(), pattern.columns.view());
    let arguments: [&dyn Argument; 6] = [&(pattern.rows as i64), &offsets, &columns, &to, &to_columns, &kept.view()];
    gpu.launch(gpu.kernel("truncate_symbolic")?, pattern.rows, &arguments)?;
    Ok(Some(Positions { chunks, symbolic, kept }))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, irregular, narrow, problems, splittings, upload};
    use super::super::{extended_i, mm_ext};
    use super::*;
    use crate::host::{self, aggressive, strength};
    use crate::skip::is_deep;
    use crate::sparse::{Csr, Structure};

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let s = strength::classical(&view, 0.25, 1.0).unwrap();
        for (k, first) in splittings(&s).into_iter().enumerate() {
            let second = aggressive::thin(&s, &first, 1).unwrap();
            let flags = |splitting: &[bool]| splitting.iter().map(|c| u8::from(*c)).collect::<Vec<_>>();
            // One of two truncations for each splitting, the other one on the next matrix.
            for (max_entries, factor) in [[(4, 0.0), (0, 0.1)][(k + a.columns.len()) % 2]] {
                let cut = Truncation::new(max_entries, factor);
                let on_host = |a: &Csr<T>, pattern: Option<&Structure>, stages: Option<&host::two_stage::Stages>| {
                    host::two_stage::interpolate(&first, &second, cut, pattern, stages, |coarse, only, pattern| {
                        host::extended_i::interpolate(&a.view(), &s, coarse, only, cut, pattern)
                    })
                    .unwrap()
                };
                let wanted = on_host(a, None, None).0;
                let structure = wanted.clone().into_shared().structure;
                let (kept, stages) = on_host(a, Some(&*structure), None);
                let other = Csr {
                    values: a.values.iter().enumerate().map(|(k, v)| *v * T::from_f64(1.0 + (k % 4) as f64)).collect(),
                    ..a.clone()
                };
                let updated = on_host(&other, Some(&*structure), Some(&stages)).0;
                let products = host::two_stage::interpolate(&first, &second, cut, None, None, |coarse, only, _| {
                    host::mm_ext::interpolate(&view, &s, coarse, only, true, cut, None)
                })
                .unwrap()
                .0;
                for gpu in devices() {
                    let (on_device, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                    let splitting = |of: &[bool]| Splitting::new(&gpu, &gpu.upload(&flags(of)).unwrap()).unwrap();
                    let (first, second) = (splitting(&first), splitting(&second));
                    let make = |pattern: Option<&DevicePattern>| {
                        interpolate(&gpu, &first, &second, cut, pattern, |coarse, only| {
                            extended_i::interpolate(&gpu, &on_device, &graph, coarse, only, cut)
                        })
                        .unwrap()
                    };
                    let p = make(None);
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{name}");
                    assert_eq!(make(Some(&p.pattern())).fetch(&gpu).unwrap(), kept, "{name}");
                    // Simulated products are slow, and there are four.
                    if a.rows > if max_entries == 0 { 100 } else { 300 } && !is_deep() {
                        continue;
                    }
                    let by_products = interpolate(&gpu, &first, &second, cut, None, |coarse, only| {
                        mm_ext::interpolate(&gpu, &on_device, &graph, coarse, only, true, cut, None)
                    });
                    assert_eq!(by_products.unwrap().fetch(&gpu).unwrap(), products, "{name}");
                    let splittings = (&first, &second);
                    let (again, stages) =
                        Stages::new(&gpu, (&on_device, &graph), splittings, cut, &p.pattern(), false).unwrap();
                    assert_eq!(again.fetch(&gpu).unwrap(), kept, "{name}, first numeric update");
                    assert!(stages.bytes() > 0);
                    for (a, wanted, forget) in [(&other, &updated, false), (a, &kept, true), (&other, &updated, false)]
                    {
                        let a = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                        let numeric = || stages.numeric(&gpu, (&a, &graph), splittings, cut, &p.pattern()).unwrap();
                        let mut got = numeric();
                        if stages.left_over(&gpu).unwrap() {
                            got = numeric();
                        }
                        assert_eq!(&got.fetch(&gpu).unwrap(), wanted, "{name} updated");
                        // The last one goes without symbolic data.
                        assert!(!forget || stages.drop_positions() && !stages.drop_positions());
                    }
                }
            }
        }
    }

    #[test]
    fn interpolations_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&a, &name);
        }
        let (name, a) = problems().remove(0);
        check(&narrow(&a), &name);
    }
}
