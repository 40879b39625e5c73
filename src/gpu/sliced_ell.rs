//! Sliced ELL in slots, with columns of 8 or 16 bits: for rows of similar length whose neighbours have similar columns, which is what stencils
//! and most Galerkin products give. Half of CSR's bytes are columns in f16, a third in f64; here they are a fifth and a tenth.
//!
//! A slice is 32 rows, a slot one entry of each with a common base column. Slots are filled greedily: the base is the smallest column that
//! some row of the slice has next, and every row whose next column is within reach of it gives its entry.

use super::product::{Finish, Product, names};
use super::runtime::Kernel;
use super::{Buffer, Gpu, Slice};
use crate::error::{Result, try_vec};
use crate::host::par;
use crate::scalar::{Number, Precision};
use crate::sparse::{Block, CsrView};
use std::ops::Range;

/// Rows of a slice.
const SLICE: usize = 32;

/// Slices that one task of set-up handles.
const GRAIN: usize = 256;

/// Rows with one thread each that fill a GPU; fewer are shared by several threads each.
const ENOUGH: usize = 1 << 18;

/// An integer type for offsets from a base column.
pub(super) trait Offset: Copy + Default + Send + Sync + 'static {
    const BITS: usize;
    fn new(offset: i32) -> Self;
}

impl Offset for u8 {
    const BITS: usize = 8;
    fn new(offset: i32) -> u8 {
        offset as u8
    }
}

impl Offset for u16 {
    const BITS: usize = 16;
    fn new(offset: i32) -> u16 {
        offset as u16
    }
}

/// How many slots each slice needs, and with them the bytes.
pub(super) struct Plan {
    /// First slot of each slice, and the number of all.
    starts: Vec<i64>,
}

impl Plan {
    /// For offsets of this many bits.
    pub fn new<S: Number>(a: &CsrView<'_, S>, bits: usize) -> Result<Plan> {
        assert_eq!(a.block, Block::SCALAR);
        let mut counts = try_vec(a.rows.div_ceil(SLICE), 0_i64)?;
        par::for_each_mut(&mut counts, GRAIN, |first, counts| {
            for (i, count) in counts.iter_mut().enumerate() {
                each_slot(a, first + i, 1 << bits, |_, _| *count += 1);
            }
        });
        Ok(Plan { starts: par::offsets_from_counts(counts) })
    }

    fn slots(&self) -> usize {
        self.starts[self.starts.len() - 1] as usize
    }

    /// Bytes with offsets of this many bits and values of this format.
    pub fn bytes(&self, bits: usize, storage: Precision) -> usize {
        self.starts.len() * size_of::<i64>() + self.slots() * (size_of::<i32>() + SLICE * (bits / 8 + storage.bytes()))
    }
}

/// Calls `slot` with the base column and, for each row of the slice, the position of its entry, in order of the slots.
fn each_slot<S: Number>(
    a: &CsrView<'_, S>,
    slice: usize,
    reach: usize,
    mut slot: impl FnMut(usize, &[Option<usize>; SLICE]),
) {
    let rows = slice * SLICE..((slice + 1) * SLICE).min(a.rows);
    let mut left: [Range<usize>; SLICE] = std::array::from_fn(|_| 0..0);
    for (left, row) in left.iter_mut().zip(rows) {
        *left = a.row_range(row);
    }
    let mut taken = [None; SLICE];
    while let Some(base) = left.iter().filter(|left| !left.is_empty()).map(|left| a.col(left.start)).min() {
        for (taken, left) in taken.iter_mut().zip(&mut left) {
            *taken = left.clone().next().filter(|k| a.col(*k) - base < reach);
            left.start += usize::from(taken.is_some());
        }
        slot(base, &taken);
    }
}

/// A matrix of scalars in slices.
pub(super) struct SlicedEll<S, O> {
    gpu: Gpu,
    kernel: Kernel,
    /// Groups of threads that share a slice.
    units: usize,
    shape: (usize, usize),
    starts: Buffer<i64>,
    bases: Buffer<i32>,
    offsets: Buffer<O>,
    values: Buffer<S>,
    bytes: usize,
}

impl<S: Number, O: Offset> SlicedEll<S, O> {
    /// For vectors of precisions `X` and `Y`, from a plan for offsets of type `O`.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, a: &CsrView<'_, S>, plan: &Plan) -> Result<SlicedEll<S, O>> {
        let names = names::<S, X, Y>();
        let slots = plan.slots();
        let units = units(a.rows, slots);
        let kernel = gpu.runtime().kernel(&format!("sliced_ell{}_{names}_{units}", O::BITS))?;
        let mut bases = try_vec(slots, 0_i32)?;
        let mut offsets = try_vec(SLICE * slots, O::default())?;
        par::for_each_segment_mut2(&mut bases, (&mut offsets, SLICE), &plan.starts, GRAIN, |slices, bases, offsets| {
            let mut out = bases.iter_mut().zip(offsets.chunks_exact_mut(SLICE));
            for slice in slices {
                each_slot(a, slice, 1 << O::BITS, |base, taken| {
                    let (to_base, to) = out.next().expect("the plan counted the slots");
                    *to_base = base as i32;
                    for (to, k) in to.iter_mut().zip(taken) {
                        *to = O::new(k.map_or(0, |k| (a.col(k) - base) as i32));
                    }
                });
            }
        });
        let (bases, offsets) = (gpu.upload(&bases)?, gpu.upload(&offsets)?);
        let mut values = try_vec(SLICE * slots, S::ZERO)?;
        par::for_each_segment_mut(&mut values, &plan.starts, SLICE, GRAIN, |slices, values| {
            let mut out = values.chunks_exact_mut(SLICE);
            for slice in slices {
                each_slot(a, slice, 1 << O::BITS, |_, taken| {
                    let to = out.next().expect("the plan counted the slots");
                    for (to, k) in to.iter_mut().zip(taken) {
                        *to = k.map_or(S::ZERO, |k| a.values[k]);
                    }
                });
            }
        });
        Ok(SlicedEll {
            gpu: gpu.clone(),
            kernel,
            units,
            shape: (a.rows, a.cols),
            starts: gpu.upload(&plan.starts)?,
            bases,
            offsets,
            values: gpu.upload(&values)?,
            bytes: plan.bytes(O::BITS, S::PRECISION),
        })
    }
}

/// Groups that share a slice: more where one thread for each row does not fill a GPU and rows are long enough to be shared.
fn units(rows: usize, slots: usize) -> usize {
    let width = (slots * SLICE).div_ceil(rows.max(1));
    match rows {
        _ if rows >= ENOUGH || width < 8 => 1,
        _ if rows >= ENOUGH / 4 || width < 32 => 2,
        _ => 8,
    }
}

impl<S: Number, O: Offset, X: Number, Y: Number> Product<X, Y> for SlicedEll<S, O> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let rows = self.shape.0;
        self.gpu.launch(
            self.kernel,
            rows.div_ceil(SLICE) * SLICE * self.units,
            &[
                &(rows as i64),
                &self.starts.view(),
                &self.bases.view(),
                &self.offsets.view(),
                &self.values.view(),
                &x.view(),
                finish,
            ],
        )
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn format(&self) -> String {
        format!("sell{}", O::BITS)
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn a_stencil_needs_as_many_slots_as_it_has_entries() {
        // 64 rows in a direction: a slice is half a line, and no line ends inside of it.
        let a = gallery::poisson7(64, 8, 8).unwrap();
        let plan = Plan::new(&a.view(), 8).unwrap();
        let widths: Vec<i64> = plan.starts.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(widths.iter().all(|w| *w <= 7), "{widths:?}");
        assert!(widths.contains(&7));
        assert_eq!(plan.bytes(8, Precision::F16), 8 * 129 + plan.slots() * (4 + 32 * 3));
    }

    #[test]
    fn columns_out_of_reach_get_slots_of_their_own() {
        // Three rows, of which the second has a column that 8 bits do not reach, and the third has none.
        let a = Csr::from_triplets(3, 1000, &[(0, 10, 1.0), (0, 20, 2.0), (1, 400, 3.0)]).unwrap();
        let mut slots = Vec::new();
        each_slot(&a.view(), 0, 256, |base, taken| slots.push((base, taken[0], taken[1], taken[2])));
        assert_eq!(slots, [(10, Some(0), None, None), (20, Some(1), None, None), (400, None, Some(2), None)]);
        slots.clear();
        each_slot(&a.view(), 0, 65536, |base, taken| slots.push((base, taken[0], taken[1], taken[2])));
        assert_eq!(slots, [(10, Some(0), Some(2), None), (20, Some(1), None, None)]);
    }

    #[test]
    fn few_long_rows_are_shared() {
        assert_eq!(units(1 << 20, 40 << 15), 1);
        assert_eq!(units(1 << 17, 40 << 12), 2);
        assert_eq!(units(1024, 7 * 32), 1);
        assert_eq!(units(1024, 20 * 32), 2);
        assert_eq!(units(1024, 100 * 32), 8);
        assert_eq!(units(0, 0), 1);
    }
}
