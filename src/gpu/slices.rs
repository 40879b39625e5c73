//! Sliced ELL in slots: how a matrix is cut into slices, and its arrays in device memory. Slices are those of `kernels/slices.cu` and
//! `kernels/block_slices.cu`.

use super::product::{Finish, Product, names};
use super::runtime::Kernel;
use super::{Buffer, Gpu, Slice};
use crate::error::{Result, try_vec};
use crate::host::par;
use crate::scalar::{Number, Precision};
use crate::sparse::{Block, CsrView};
use std::ops::Range;

/// Threads of a slice.
const GROUP: usize = 32;

/// Most rows of a slice.
const MAX_HEIGHT: usize = 4 * GROUP;

/// Slices that one task of the host handles.
const GRAIN: usize = 256;

/// Rows among which an order by length is made: enough for even slices, and so few that neighbours stay near each other.
const WINDOW: usize = 512;

/// Rows that fill a GPU; with fewer of them a slice is shared by several groups of threads.
const ENOUGH: usize = 1 << 18;

/// Groups of a block of threads, and the most that share a slice.
const MAX_UNITS: usize = 8;

/// An integer type for offsets from a base column.
pub(super) trait Offset: Copy + Default + Send + Sync + 'static {
    const BITS: usize;
    fn new(offset: usize) -> Self;
}

impl Offset for u8 {
    const BITS: usize = 8;
    fn new(offset: usize) -> u8 {
        offset as u8
    }
}

impl Offset for u16 {
    const BITS: usize = 16;
    fn new(offset: usize) -> u16 {
        offset as u16
    }
}

/// The kernel that a matrix gets, by its blocks and its number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A thread has several neighbouring rows.
    Rows,
    /// This many groups of threads share a slice.
    Shared(usize),
    /// Blocks, and this many groups of threads for each of their rows.
    Blocks(usize),
}

impl Form {
    /// For this many block rows, with blocks of this shape and slots of about this number.
    fn of(rows: usize, block: Block, entries: usize) -> Form {
        let width = entries.div_ceil(rows.max(1));
        let threads = rows * block.rows;
        // As many units as fill the device, and no more than there are slots for.
        let wanted = (1..=3).map(|k| 1 << k).find(|units| threads * units >= ENOUGH).unwrap_or(MAX_UNITS);
        let most = 1 << width.div_ceil(4).max(1).ilog2().min(3);
        match block {
            Block::SCALAR if rows >= ENOUGH => Form::Rows,
            Block::SCALAR => Form::Shared(wanted.min(most)),
            _ if threads >= ENOUGH => Form::Blocks(1),
            _ => Form::Blocks(wanted.min(most)),
        }
    }

    /// Rows of a slice, as in the kernels: values and offsets of narrow formats are read several at once.
    fn height(self, storage: Precision, sums: Precision, bits: usize) -> usize {
        GROUP
            * match (self, storage.bytes(), sums.bytes(), bits) {
                (Form::Rows, 2, 4, 8) => 4,
                (Form::Rows, ..) => 2,
                (Form::Blocks(_), 2, ..) => 2,
                _ => 1,
            }
    }
}

/// How a matrix is cut into slices.
pub(super) struct Plan {
    form: Form,
    bits: usize,
    height: usize,
    /// The rows in the order of the slices; none when it is their own.
    order: Option<Vec<i32>>,
    /// First slot of each slice, and the number of all.
    starts: Vec<i64>,
}

impl Plan {
    /// For sums of this format and offsets of this many bits; `sorted` orders the rows by length inside of each window.
    pub fn new<S: Number>(a: &CsrView<'_, S>, sums: Precision, bits: usize, sorted: bool) -> Result<Plan> {
        let form = Form::of(a.rows, a.block, a.nnz());
        Plan::with_form(a, form, sums, bits, sorted)
    }

    /// Whether a matrix has rows enough for the kernel that knows offsets of 8 bits.
    pub fn is_wide<S: Number>(a: &CsrView<'_, S>) -> bool {
        Form::of(a.rows, a.block, a.nnz()) == Form::Rows
    }

    /// As [`Plan::new`], for one of the kernels.
    pub fn with_form<S: Number>(
        a: &CsrView<'_, S>,
        form: Form,
        sums: Precision,
        bits: usize,
        sorted: bool,
    ) -> Result<Plan> {
        let height = form.height(S::PRECISION, sums, bits);
        let order = if sorted { Some(by_length(a)?) } else { None };
        let mut plan = Plan { form, bits, height, order, starts: Vec::new() };
        let mut counts = try_vec(a.rows.div_ceil(height), 0_i64)?;
        par::for_each_mut(&mut counts, GRAIN, |first, counts| {
            for (i, count) in counts.iter_mut().enumerate() {
                plan.each_slot(a, first + i, |_, _| *count += 1);
            }
        });
        plan.starts = par::offsets_from_counts(counts);
        Ok(plan)
    }

    fn slots(&self) -> usize {
        self.starts[self.starts.len() - 1] as usize
    }

    /// Bytes for values of this format in these blocks.
    pub fn bytes(&self, block: Block, storage: Precision) -> usize {
        let slot = size_of::<i32>() + self.height * (self.bits / 8 + block.len() * storage.bytes());
        let order = self.order.as_ref().map_or(0, Vec::len) * size_of::<i32>();
        self.starts.len() * size_of::<i64>() + self.slots() * slot + order
    }

    /// Calls `slot` with the base column and, for each row of the slice, the position of its entry, in order of the slots.
    fn each_slot<S: Number>(&self, a: &CsrView<'_, S>, slice: usize, mut slot: impl FnMut(usize, &[Option<usize>])) {
        let (first, reach) = (slice * self.height, 1 << self.bits);
        let height = self.height.min(a.rows - first);
        let mut left: [Range<usize>; MAX_HEIGHT] = std::array::from_fn(|_| 0..0);
        for (i, left) in left[..height].iter_mut().enumerate() {
            *left = a.row_range(self.order.as_ref().map_or(first + i, |order| order[first + i] as usize));
        }
        let left = &mut left[..height];
        let mut taken = [None; MAX_HEIGHT];
        while let Some(base) = left.iter().filter(|left| !left.is_empty()).map(|left| a.col(left.start)).min() {
            for (taken, left) in taken.iter_mut().zip(&mut *left) {
                *taken = left.clone().next().filter(|k| a.col(*k) - base < reach);
                left.start += usize::from(taken.is_some());
            }
            slot(base, &taken[..self.height]);
        }
    }
}

/// The rows, inside of each window the longest first, of equal ones the first first.
fn by_length<S: Number>(a: &CsrView<'_, S>) -> Result<Vec<i32>> {
    let mut order = try_vec(a.rows, 0_i32)?;
    par::for_each_mut(&mut order, WINDOW, |first, order| {
        for (i, row) in order.iter_mut().enumerate() {
            *row = (first + i) as i32;
        }
        order.sort_by_key(|row| std::cmp::Reverse(a.row_range(*row as usize).len()));
    });
    Ok(order)
}

/// A matrix in slices.
pub(super) struct Slices<S, O> {
    gpu: Gpu,
    kernel: Kernel,
    form: Form,
    height: usize,
    /// Block rows and columns.
    rows: usize,
    cols: usize,
    block: Block,
    starts: Buffer<i64>,
    bases: Buffer<i32>,
    offsets: Buffer<O>,
    values: Buffer<S>,
    order: Buffer<i32>,
    bytes: usize,
}

impl<S: Number, O: Offset> Slices<S, O> {
    /// For vectors of precisions `X` and `Y`, from a plan for offsets of type `O`.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, a: &CsrView<'_, S>, plan: &Plan) -> Result<Slices<S, O>> {
        assert_eq!(plan.bits, O::BITS);
        let name = match plan.form {
            Form::Rows => format!("slices{}", O::BITS),
            Form::Shared(_) => "shared_slices".to_string(),
            Form::Blocks(_) => format!("block_slices{}", if matches!(a.block.cols, 3 | 6) { a.block.cols } else { 0 }),
        };
        let kernel = gpu.runtime().kernel(&format!("{name}_{}", names::<S, X, Y>()))?;
        let (height, slots) = (plan.height, plan.slots());
        let mut bases = try_vec(slots, 0_i32)?;
        let mut offsets = try_vec(height * slots, O::default())?;
        par::for_each_segment_mut2(
            &mut bases,
            (&mut offsets, height),
            &plan.starts,
            GRAIN,
            |slices, bases, offsets| {
                let mut out = bases.iter_mut().zip(offsets.chunks_exact_mut(height));
                for slice in slices {
                    plan.each_slot(a, slice, |base, taken| {
                        let (to_base, to) = out.next().expect("the plan counted the slots");
                        *to_base = base as i32;
                        for (to, k) in to.iter_mut().zip(taken) {
                            *to = O::new(k.map_or(0, |k| a.col(k) - base));
                        }
                    });
                }
            },
        );
        let (bases, offsets) = (gpu.upload(&bases)?, gpu.upload(&offsets)?);
        let width = a.block.len();
        let mut values = try_vec(height * width * slots, S::ZERO)?;
        par::for_each_segment_mut(&mut values, &plan.starts, height * width, GRAIN, |slices, values| {
            let mut out = values.chunks_exact_mut(height * width);
            for slice in slices {
                plan.each_slot(a, slice, |_, taken| {
                    let to = out.next().expect("the plan counted the slots");
                    for (r, k) in taken.iter().enumerate() {
                        let Some(k) = k else { continue };
                        for (q, value) in a.values[k * width..(k + 1) * width].iter().enumerate() {
                            to[q * height + r] = *value;
                        }
                    }
                });
            }
        });
        Ok(Slices {
            gpu: gpu.clone(),
            kernel,
            form: plan.form,
            height,
            rows: a.rows,
            cols: a.cols,
            block: a.block,
            starts: gpu.upload(&plan.starts)?,
            bases,
            offsets,
            values: gpu.upload(&values)?,
            order: gpu.upload(plan.order.as_deref().unwrap_or_default())?,
            bytes: plan.bytes(a.block, S::PRECISION),
        })
    }
}

impl<S: Number, O: Offset, X: Number, Y: Number> Product<X, Y> for Slices<S, O> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows * self.block.rows, self.cols * self.block.cols)
    }

    fn threads(&self) -> usize {
        let groups = match self.form {
            Form::Rows => 1,
            Form::Shared(units) => units,
            Form::Blocks(units) => units * self.block.rows,
        };
        self.rows.div_ceil(self.height) * GROUP * groups
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let threads = <Self as Product<X, Y>>::threads(self);
        let (rows, br, bc) = (self.rows as i64, self.block.rows as i32, self.block.cols as i32);
        let [starts, bases, order] = [self.starts.view(), self.bases.view(), self.order.view()];
        let (offsets, values, x) = (self.offsets.view(), self.values.view(), x.view());
        match self.form {
            Form::Rows => {
                self.gpu.launch(self.kernel, threads, &[&rows, &starts, &bases, &offsets, &values, &order, &x, finish])
            }
            Form::Shared(units) => self.gpu.launch(
                self.kernel,
                threads,
                &[&rows, &(units as i32), &starts, &bases, &offsets, &values, &order, &x, finish],
            ),
            Form::Blocks(units) => self.gpu.launch(
                self.kernel,
                threads,
                &[&rows, &br, &bc, &(units as i32), &starts, &bases, &offsets, &values, &order, &x, finish],
            ),
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn format(&self) -> String {
        let sorted = if self.order.is_empty() { "" } else { "s" };
        let block = if self.block == Block::SCALAR {
            String::new()
        } else {
            format!("_{}x{}", self.block.rows, self.block.cols)
        };
        format!("sell{}{sorted}{block}", O::BITS)
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
        // 64 rows in a direction: a slice is a line.
        let a = gallery::poisson7(64, 8, 8).unwrap();
        let plan = Plan::with_form(&a.view(), Form::Rows, Precision::F64, 8, false).unwrap();
        let widths: Vec<i64> = plan.starts.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(widths.iter().all(|w| *w <= 7), "{widths:?}");
        assert!(widths.contains(&7));
        assert_eq!(plan.bytes(Block::SCALAR, Precision::F64), 8 * 65 + plan.slots() * (4 + 64 * 9));
    }

    #[test]
    fn columns_out_of_reach_get_slots_of_their_own() {
        // Three rows, of which the second has a column that 8 bits do not reach, and the third has none.
        let a = Csr::from_triplets(3, 1000, &[(0, 10, 1.0), (0, 20, 2.0), (1, 400, 3.0)]).unwrap();
        let slots = |bits| {
            let plan = Plan::with_form(&a.view(), Form::Shared(1), Precision::F64, bits, false).unwrap();
            let mut slots = Vec::new();
            plan.each_slot(&a.view(), 0, |base, taken| slots.push((base, taken[0], taken[1], taken[2])));
            slots
        };
        assert_eq!(slots(8), [(10, Some(0), None, None), (20, Some(1), None, None), (400, None, Some(2), None)]);
        assert_eq!(slots(16), [(10, Some(0), Some(2), None), (20, Some(1), None, None)]);
    }

    #[test]
    fn an_order_by_length_makes_slices_even() {
        // Every other row has 20 entries, the others one.
        let mut triplets = Vec::new();
        for i in 0..256 {
            triplets.extend((0..if i % 2 == 0 { 20 } else { 1 }).map(|c| (i, c, 1.0)));
        }
        let a = Csr::from_triplets(256, 20, &triplets).unwrap();
        let slots = |sorted| Plan::with_form(&a.view(), Form::Shared(1), Precision::F64, 16, sorted).unwrap().slots();
        assert_eq!((slots(false), slots(true)), (8 * 20, 4 * 20 + 4));
        assert_eq!(by_length(&a.view()).unwrap()[..3], [0, 2, 4]);
    }

    #[test]
    fn few_long_rows_are_shared() {
        let scalar = |rows, width| Form::of(rows, Block::SCALAR, rows * width);
        assert_eq!(scalar(1 << 20, 40), Form::Rows);
        assert_eq!(scalar(1 << 17, 40), Form::Shared(2));
        assert_eq!(scalar(1024, 7), Form::Shared(2));
        assert_eq!(scalar(1024, 3), Form::Shared(1));
        assert_eq!(scalar(1024, 100), Form::Shared(8));
        assert_eq!(Form::of(0, Block::SCALAR, 0), Form::Shared(1));
        assert_eq!(Form::of(1 << 20, Block::square(3), 27 << 20), Form::Blocks(1));
        assert_eq!(Form::of(1 << 13, Block::square(6), 50 << 13), Form::Blocks(8));
    }
}
