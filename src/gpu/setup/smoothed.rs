//! Smoothed prolongators: [`crate::host::smoothed`] on the device.

use super::divided::smoothed::DividedSmoothed;
use super::divided::{self, DeviceDivided};
use super::spgemm::Right;
use super::spgemm_symbolic::{BlockSpgemmSymbolic, RowLengths, SMOOTHED_OUTPUTS, small_outputs};
use super::tentative::{self, Tentative};
use super::{DeviceAggregates, DeviceCsr, DeviceGraph, DevicePattern, diagonal, eigenvalue};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::parameters::Estimate;
use crate::backend::spectrum::Largest;
use crate::comm::{Distribution, Reduction};
use crate::error::{Result, Status};
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// Longest row of A that 32 lanes compute; longer ones have a block of threads. As in `kernels/smoothed.h`.
const MAX_SHARED_ROW: usize = 192;

/// Bytes for the bitmaps of long rows.
const BITS: usize = 64 << 20;

/// Largest number of blocks of threads for long rows.
const LONG_BLOCKS: usize = 256;

/// A damped Jacobi step: what P_0 is multiplied by.
pub(crate) struct Step<'a, T> {
    a: &'a DeviceCsr<T>,
    /// A_F where it is not A.
    filtered: Option<DeviceCsr<T>>,
    /// D^-1.
    inverse: Buffer<T>,
    /// -w/λ.
    factor: T,
    /// λ, the largest eigenvalue of D^-1 A_F.
    largest: Largest,
}

impl<'a, T: Scalar> Step<'a, T> {
    /// The step with weight w for a matrix with these strong couplings; `earlier` is the eigenvalue of an earlier
    /// matrix.
    pub fn new(
        gpu: &Gpu,
        a: &'a DeviceCsr<T>,
        s: &DeviceGraph,
        (weight, estimate): (f64, Estimate),
        earlier: Option<&Largest>,
    ) -> Result<Step<'a, T>> {
        // Usually every coupling is strong, and A_F is A.
        let weak = s.columns.len() + a.rows < a.nnz();
        let filtered = if a.block == Block::SCALAR && weak { Some(filter(gpu, a, s)?) } else { None };
        let used = filtered.as_ref().unwrap_or(a);
        let inverse = diagonal::inverse(gpu, used, a.block.rows, false, None)?;
        let largest = eigenvalue::largest(gpu, &estimate, used, &inverse, earlier)?;
        let factor = if largest.value > 0.0 { T::from_f64(-weight / largest.value) } else { T::ZERO };
        Ok(Step { a, filtered, inverse, factor, largest })
    }

    /// The same where rows are divided among ranks. Collective.
    pub fn divided(
        gpu: &Gpu,
        (over, of): (&Arc<Distribution>, &'a DeviceDivided<T>),
        s: &DeviceGraph,
        (weight, estimate): (f64, Estimate),
        earlier: Option<&Largest>,
    ) -> Result<Step<'a, T>> {
        let a = &of.matrix;
        let all = |own: usize| over.ranks.reduce(own as i64, Reduction::Sum);
        let weak = a.block == Block::SCALAR && all(s.columns.len())? + (of.rows.total as i64) < all(a.nnz())?;
        let filtered = if weak { Some(filter(gpu, a, s)?) } else { None };
        let used = of.with(filtered.as_ref().unwrap_or(a).clone());
        let inverse = diagonal::inverse(gpu, &used.matrix, a.block.rows, false, None)?;
        let (inside, width) = (of.rows.inside(), a.block.len());
        let own = divided::copied(gpu, inverse.subslice(inside.start * width, inside.len() * width))?;
        let largest = divided::eigenvalue::largest(gpu, (over, &used), &estimate, &own, earlier)?;
        let factor = if largest.value > 0.0 { T::from_f64(-weight / largest.value) } else { T::ZERO };
        Ok(Step { a, filtered, inverse, factor, largest })
    }

    /// λ.
    pub fn largest(&self) -> &Largest {
        &self.largest
    }

    /// Whether A_F is A, so that λ and D^-1 are A's.
    pub fn is_of_a(&self) -> bool {
        self.filtered.is_none()
    }

    /// D^-1.
    pub fn into_inverse(self) -> Buffer<T> {
        self.inverse
    }

    fn matrix(&self) -> &DeviceCsr<T> {
        self.filtered.as_ref().unwrap_or(self.a)
    }

    /// P. Waits for the device once.
    pub fn smooth(&self, gpu: &Gpu, aggregates: &DeviceAggregates, p0: &Tentative<T>) -> Result<DeviceCsr<T>> {
        self.smooth_in(gpu, aggregates, p0, None)
    }

    /// The same with memory for `entries` entries, if given: then it does not wait for the device.
    fn smooth_in(
        &self,
        gpu: &Gpu,
        aggregates: &DeviceAggregates,
        p0: &Tentative<T>,
        capacity: Option<usize>,
    ) -> Result<DeviceCsr<T>> {
        let a = self.matrix();
        let block = Block { rows: a.block.rows, cols: p0.block.cols };
        // Scalar rows that are not long get their columns together with their values.
        let columns_alone = block != Block::SCALAR;
        let Pattern { offsets: to_offsets, columns: to_columns, has_long } =
            pattern(gpu, &a.pattern(), aggregates, columns_alone, capacity)?;
        let values = gpu.allocate::<T>(to_columns.len() * block.len())?;
        self.fill(gpu, aggregates, p0, (&to_offsets, &to_columns), (true, has_long), &values)?;
        Ok(DeviceCsr {
            rows: a.rows,
            cols: aggregates.count,
            block,
            offsets: Arc::new(to_offsets),
            columns: Arc::new(to_columns),
            values: Arc::new(values),
        })
    }

    /// Symbolic data of P for numeric updates, if there are kernels for these blocks, and memory. Waits for the
    /// device.
    pub fn terms(
        &self,
        gpu: &Gpu,
        aggregates: &DeviceAggregates,
        p0: &Tentative<T>,
        p: &DevicePattern,
    ) -> Result<Option<BlockSpgemmSymbolic>> {
        let a = self.matrix();
        if !BlockSpgemmSymbolic::are_small(a.block, p0.block) {
            return Ok(None);
        }
        let find = || {
            let (begins, ends) = (gpu.allocate::<i64>(a.rows)?, gpu.allocate::<i64>(a.rows)?);
            let of = &aggregates.of;
            let arguments: [&dyn Argument; 4] = [&(a.rows as i64), &of.view(), &begins.view(), &ends.view()];
            gpu.launch(gpu.kernel("tentative_rows")?, a.rows, &arguments)?;
            let of_a = (a.offsets.subslice(0, a.rows), a.offsets.subslice(1, a.rows));
            let of_p = (p.offsets.subslice(0, a.rows), p.offsets.subslice(1, a.rows));
            let [of_a, of_p] = RowLengths::of(gpu, [of_a, of_p])?;
            let b = Right {
                rows: a.rows,
                cols: aggregates.count,
                block: p0.block,
                begins: begins.subslice(0, a.rows),
                ends: ends.subslice(0, a.rows),
                columns: of,
                values: &*p0.values,
                length: 1,
            };
            BlockSpgemmSymbolic::new(gpu, (a, &of_a), &b, ((&*p.offsets, &*p.columns), &of_p))
        };
        match find() {
            // Without it updates are slower.
            Err(error) if error.status == Status::OutOfMemory => Ok(None),
            found => found,
        }
    }

    /// Numeric phase: the values of P for its pattern, with symbolic data if there is any.
    pub fn numeric(
        &self,
        gpu: &Gpu,
        aggregates: &DeviceAggregates,
        p0: &Tentative<T>,
        p: &DevicePattern,
        terms: Option<&BlockSpgemmSymbolic>,
    ) -> Result<Buffer<T>> {
        let values = gpu.allocate::<T>(p.nnz() * p.block.len())?;
        if let Some(terms) = terms {
            let entries = p0.entries.as_ref().map_or(View::NONE, |entries| entries.view());
            let (n, c, name) = (p0.block.rows, p0.block.cols, T::PRECISION.name());
            let kernel = gpu.kernel(&format!("smoothed_small_{n}_{c}_{name}"))?;
            let (of, inverse, factor) = (aggregates.of.view(), self.inverse.view(), self.factor.to_f64());
            let more: [&dyn Argument; 5] = [&of, &inverse, &factor, &p.columns.view(), &values.view()];
            let each = small_outputs(c).min(SMOOTHED_OUTPUTS);
            terms.launch_small(gpu, kernel, self.matrix(), (entries, &p0.values), each, &more)?;
            return Ok(values);
        }
        self.fill(gpu, aggregates, p0, (&p.offsets, &p.columns), (false, true), &values)?;
        Ok(values)
    }

    /// Computes values, and with `first` also the columns of scalar rows that are not long.
    fn fill(
        &self,
        gpu: &Gpu,
        aggregates: &DeviceAggregates,
        p0: &Tentative<T>,
        (to_offsets, to_columns): (&Slice<i64>, &Slice<i32>),
        (first, has_long): (bool, bool),
        values: &Slice<T>,
    ) -> Result<()> {
        let a = self.matrix();
        let kernel = |name: String| gpu.kernel(&name);
        let name = T::PRECISION.name();
        let (rows, offsets, columns, from) = (a.rows as i64, a.offsets.view(), a.columns.view(), a.values.view());
        let entries = p0.entries.as_ref().map_or(View::NONE, |entries| entries.view());
        let (of, tentative, inverse) = (aggregates.of.view(), p0.values.view(), self.inverse.view());
        let (factor, to_offsets, values) = (self.factor.to_f64(), to_offsets.view(), values.view());
        let to_columns = to_columns.view();
        if a.block != Block::SCALAR || p0.block != Block::SCALAR {
            let (n, c) = (a.block.rows as i32, p0.block.cols as i32);
            let arguments: [&dyn Argument; 14] = [
                &rows,
                &n,
                &c,
                &offsets,
                &columns,
                &from,
                &of,
                &entries,
                &tentative,
                &inverse,
                &factor,
                &to_offsets,
                &to_columns,
                &values,
            ];
            // Elasticity on its finest level, and on those below.
            let shape = match (n, c) {
                (3, 6) => "3x6",
                (6, 6) => "6x6",
                _ => "any",
            };
            return gpu.launch(kernel(format!("smoothed_blocks_{name}_{shape}"))?, a.rows * 32, &arguments);
        }
        let columns_out = if first { to_columns } else { View::NONE };
        let cap = cap(a.rows, a.nnz());
        if cap > 0 {
            let arguments: [&dyn Argument; 12] = [
                &rows,
                &offsets,
                &columns,
                &from,
                &of,
                &entries,
                &tentative,
                &inverse,
                &factor,
                &to_offsets,
                &columns_out,
                &values,
            ];
            gpu.launch(kernel(format!("smoothed_rows_{name}_{cap}"))?, a.rows, &arguments)?;
        }
        let by_many = |name: String, threads: usize, columns_to: View| {
            let arguments: [&dyn Argument; 13] = [
                &rows,
                &(cap as i32),
                &offsets,
                &columns,
                &from,
                &of,
                &entries,
                &tentative,
                &inverse,
                &factor,
                &to_offsets,
                &columns_to,
                &values,
            ];
            gpu.launch(kernel(name)?, threads, &arguments)
        };
        by_many(format!("smoothed_wide_rows_{name}"), wide_threads(a.rows, cap), columns_out)?;
        // There can be a long row only where all entries together are more.
        if has_long && a.nnz() > MAX_SHARED_ROW {
            by_many(format!("smoothed_long_{name}"), a.rows.min(LONG_BLOCKS * BLOCK), to_columns)?;
        }
        Ok(())
    }
}

/// The pattern of a prolongator.
pub(super) struct Pattern {
    pub offsets: Buffer<i64>,
    pub columns: Buffer<i32>,
    /// Whether there may be rows of more neighbours than 32 lanes hold.
    has_long: bool,
}

/// The aggregates among the neighbours of each node, ascending; with `columns_alone` in all rows, otherwise in long ones
/// only. With a capacity for the entries it does not wait for the device.
pub(super) fn pattern(
    gpu: &Gpu,
    a: &DevicePattern,
    aggregates: &DeviceAggregates,
    columns_alone: bool,
    capacity: Option<usize>,
) -> Result<Pattern> {
    let (rows, cap) = (a.rows as i64, cap(a.rows, a.nnz()));
    let kernel = |name: &str| gpu.kernel(name);
    let (offsets, columns, of) = (a.offsets.view(), a.columns.view(), aggregates.of.view());
    let counts = gpu.allocate::<i32>(a.rows)?;
    // How many rows are long, and which.
    let longs = gpu.zeroed::<i32>(1 + a.nnz() / MAX_SHARED_ROW)?;
    let words = aggregates.count.div_ceil(32).max(1);
    let blocks = (BITS / size_of::<u32>() / words).clamp(1, LONG_BLOCKS).min(longs.len() - 1);
    let bits = gpu.zeroed::<u32>(blocks * words)?;
    // Rows that exceed a thread's capacity, and long ones: counts, or columns.
    let wide = |counts: View, to_offsets: View, to_columns: View| {
        let arguments: [&dyn Argument; 9] =
            [&rows, &(cap as i32), &offsets, &columns, &of, &counts, &longs.view(), &to_offsets, &to_columns];
        gpu.launch(kernel("smoothed_pattern_wide")?, wide_threads(a.rows, cap), &arguments)
    };
    let long = |counts: View, to_offsets: View, to_columns: View| {
        let (count, longs, bits) = (aggregates.count as i64, longs.view(), bits.view());
        let arguments: [&dyn Argument; 9] =
            [&count, &offsets, &columns, &of, &longs, &bits, &counts, &to_offsets, &to_columns];
        if blocks == 0 {
            return Ok(());
        }
        gpu.launch_blocks(kernel("smoothed_pattern_long")?, blocks, &arguments)
    };
    if cap > 0 {
        let arguments: [&dyn Argument; 5] = [&rows, &offsets, &columns, &of, &counts.view()];
        gpu.launch(kernel(&format!("smoothed_count_{cap}"))?, a.rows, &arguments)?;
    }
    wide(counts.view(), View::NONE, View::NONE)?;
    long(counts.view(), View::NONE, View::NONE)?;
    let to_offsets = gpu.offsets_alone(&counts)?;
    drop(counts);
    let (entries, has_long) = match capacity {
        Some(capacity) => (capacity, true),
        None => {
            let status = gpu.zeroed::<i64>(2)?;
            let arguments: [&dyn Argument; 4] = [&rows, &to_offsets.view(), &longs.view(), &status.view()];
            gpu.launch_blocks(kernel("smoothed_total")?, 1, &arguments)?;
            let status = gpu.fetch(&status)?;
            (status[0] as usize, status[1] > 0)
        }
    };
    let to_columns = gpu.allocate::<i32>(entries)?;
    if columns_alone {
        if cap > 0 {
            let arguments: [&dyn Argument; 6] =
                [&rows, &offsets, &columns, &of, &to_offsets.view(), &to_columns.view()];
            gpu.launch(kernel(&format!("smoothed_columns_{cap}"))?, a.rows, &arguments)?;
        }
        wide(View::NONE, to_offsets.view(), to_columns.view())?;
    }
    if has_long {
        long(View::NONE, to_offsets.view(), to_columns.view())?;
    }
    Ok(Pattern { offsets: to_offsets, columns: to_columns, has_long })
}

/// A Q, where Q has a one for each member of an aggregate, plus 1 in the column of each row's own aggregate. The
/// capacity exceeds the number of entries. Does not wait for the device.
pub(super) fn sum_by_aggregates(
    gpu: &Gpu,
    a: &DeviceCsr<f64>,
    aggregates: &DeviceAggregates,
    q: &Tentative<f64>,
) -> Result<DeviceCsr<f64>> {
    let mut inverse = gpu.allocate::<f64>(a.rows)?;
    crate::backend::Backend::fill(gpu, 1.0, &mut inverse);
    let largest = Largest::from_power::<f64>(0.0, 0.0);
    let step = Step { a, filtered: None, inverse, factor: 1.0, largest };
    step.smooth_in(gpu, aggregates, q, Some(a.nnz() + a.rows))
}

/// Largest number of aggregates of a row of P that a thread holds; 0 if rows of A are too long for one thread.
fn cap(rows: usize, entries: usize) -> usize {
    match entries / rows.max(1) {
        0..10 => 8,
        10..48 => 12,
        _ => 0,
    }
}

/// Threads for the rows of P that exceed a thread's capacity: 32 for each row, or for 32 neighbouring rows if these
/// are few.
fn wide_threads(rows: usize, cap: usize) -> usize {
    if cap == 0 { rows * 32 } else { rows.next_multiple_of(32) }
}

/// A with its weak couplings added to the diagonal, which is stored in each row.
fn filter<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, s: &DeviceGraph) -> Result<DeviceCsr<T>> {
    let entries = s.columns.len() + a.rows;
    let (offsets, columns, values) =
        (gpu.allocate::<i64>(a.rows + 1)?, gpu.allocate::<i32>(entries)?, gpu.allocate::<T>(entries)?);
    let lanes = if a.nnz() / a.rows.max(1) < 24 { 8 } else { 32 };
    let kernel = gpu.kernel(&format!("filter_rows_{}_{lanes}", T::PRECISION.name()))?;
    let (from_offsets, from_columns, from_values) = (a.offsets.view(), a.columns.view(), a.values.view());
    let arguments: [&dyn Argument; 9] = [
        &(a.rows as i64),
        &from_offsets,
        &from_columns,
        &from_values,
        &s.offsets.view(),
        &s.columns.view(),
        &offsets.view(),
        &columns.view(),
        &values.view(),
    ];
    gpu.launch(kernel, (a.rows + 1) * lanes, &arguments)?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values })
}

/// The component.
pub(crate) struct SmoothedAggregation;

/// Its symbolic data.
struct SmoothedSymbolic<T> {
    tentative: Arc<Tentative<T>>,
    /// Of A without its weak couplings.
    largest: Largest,
    /// The symbolic data that the first update computed, if any; none before it.
    terms: Option<Option<Arc<BlockSpgemmSymbolic>>>,
}

impl<T: Scalar> InterpolationSymbolic<Gpu> for SmoothedSymbolic<T> {
    fn bytes(&self) -> usize {
        self.tentative.bytes() + self.terms.iter().flatten().map(|terms| terms.bytes()).sum::<usize>()
    }
}

impl<T: Scalar> Interpolation<Gpu, T> for SmoothedAggregation {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let gpu = input.setup;
        let (aggregates, space) = input.aggregates("smoothed")?;
        let how = (input.parameters.real("amg.interpolation.weight"), Estimate::new(input.parameters));
        if let Some(of_rank) = gpu.divided(input.a) {
            let earlier = input.symbolic::<DividedSmoothed>().map(|DividedSmoothed(largest)| largest);
            return divided::smoothed::interpolate(gpu, of_rank, input.graph, (aggregates, space), how, earlier);
        }
        let before = input.symbolic::<SmoothedSymbolic<T>>();
        let step = Step::new(gpu, input.a, input.graph, how, before.map(|before| &before.largest))?;
        let (p, tentative, near_null_space, terms) = match (input.pattern(), before) {
            (Some(pattern), Some(before)) => {
                let tentative = Arc::clone(&before.tentative);
                let terms = match &before.terms {
                    Some(terms) => terms.clone(),
                    None => step.terms(gpu, aggregates, &tentative, pattern)?.map(Arc::new),
                };
                let p = pattern.with(step.numeric(gpu, aggregates, &tentative, pattern, terms.as_deref())?);
                (p, tentative, None, Some(terms))
            }
            _ => {
                let (tentative, next) = tentative::prolongator(gpu, aggregates, space)?;
                (step.smooth(gpu, aggregates, &tentative)?, Arc::new(tentative), Some(Arc::new(next)), None)
            }
        };
        let largest = step.largest().clone();
        let largest_eigenvalue = step.is_of_a().then(|| (largest.clone(), step.into_inverse()));
        let symbolic: Arc<dyn InterpolationSymbolic<Gpu>> = Arc::new(SmoothedSymbolic { tentative, largest, terms });
        Ok(Interpolated {
            near_null_space,
            largest_eigenvalue,
            symbolic: Some(symbolic),
            ..Interpolated::alone(p.into())
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::tentative::DeviceNearNullSpace;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::setup::{irregular, mis2};
    use crate::gpu::tests::{devices, host};
    use crate::host;
    use crate::sparse::{Csr, NearNullSpace};

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>, theta: f64, space: &NearNullSpace) {
        let how = (4.0 / 3.0, Estimate { lanczos: true, steps: 5 });
        let s = host::strength::Symmetric::new(&a.view()).unwrap().graph(theta).unwrap();
        let (of, count) = host::mis2::aggregate(&s, 0).unwrap();
        let (p0, _) = host::tentative::prolongator(&of, count, space).unwrap();
        let step = host::smoothed::Step::new(&host(), &a.view(), &s, how, None).unwrap();
        let expected = step.smooth(&p0).unwrap();

        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let graph = DeviceGraph {
            rows: a.rows,
            offsets: gpu.upload(&s.offsets).unwrap(),
            columns: gpu.upload(&s.columns).unwrap(),
        };
        let aggregates = mis2::aggregate(gpu, &graph, 0).unwrap();
        let space = DeviceNearNullSpace::upload(gpu, space).unwrap();
        let (p0, _) = tentative::prolongator::<T>(gpu, &aggregates, &space).unwrap();
        let device_step = Step::new(gpu, &on_device, &graph, how, None).unwrap();
        assert_eq!(device_step.largest().value, step.largest().value, "{name}");
        let p = device_step.smooth(gpu, &aggregates, &p0).unwrap();
        assert_eq!(p.fetch(gpu).unwrap(), expected, "{name}");
        let terms = device_step.terms(gpu, &aggregates, &p0, &p.pattern()).unwrap();
        assert_eq!(terms.is_some(), BlockSpgemmSymbolic::are_small(a.block, p0.block));
        for terms in [None, terms.as_ref()] {
            let updated = device_step.numeric(gpu, &aggregates, &p0, &p.pattern(), terms).unwrap();
            assert_eq!(gpu.fetch(&updated).unwrap(), expected.values, "{name} updated");
        }
    }

    /// Every coupled unknown has a diagonal, and some rows are longer than the shared memory of a group.
    fn scalar() -> Vec<(String, Csr<f64>)> {
        let mut all = problems();
        all.extend(irregular::square().into_iter().filter(|(name, _)| name != "empty rows"));
        all.push(("long rows".to_string(), irregular::random(400, 110, 3)));
        all
    }

    #[test]
    fn scalar_prolongators_are_those_of_the_host() {
        for (k, (name, a)) in scalar().into_iter().enumerate() {
            for gpu in devices() {
                // Without weak couplings, or with some that are lumped.
                let theta = if k % 2 == 0 { 0.08 } else { 0.3 };
                compare(&gpu, &name, &a, theta, &NearNullSpace::constants(a.rows, 1).unwrap());
                if k == 1 {
                    let a = a.view().to_owned_as::<f32>().unwrap();
                    compare(&gpu, &name, &a, 0.08, &NearNullSpace::constants(a.rows, 1).unwrap());
                }
            }
        }
    }

    #[test]
    fn prolongators_of_blocks_and_of_several_vectors_are_those_of_the_host() {
        let problem = gallery::parse("elasticity:4").unwrap().into_matrix().unwrap();
        let space = problem.near_null_space().unwrap().clone();
        let a = problem.shared::<f64>().unwrap();
        let a = a.view().to_owned_as::<f64>().unwrap();
        let scalar = gallery::poisson5(13, 13).unwrap();
        let vectors = (0..2 * 169).map(|i| if i < 169 { 1.0 } else { (i % 13) as f64 }).collect();
        let two = NearNullSpace { dofs_per_node: 1, count: 2, vectors };
        for gpu in devices() {
            compare(&gpu, "elasticity", &a, 0.08, &space);
            compare(&gpu, "elasticity", &a.view().to_owned_as::<f32>().unwrap(), 0.02, &space);
            compare(&gpu, "two vectors", &scalar, 0.08, &two);
            // Blocks of a coarse level, and rows of more blocks than a group has lanes.
            let coarse = irregular::random(150, 12, 6).view().to_blocks(6).unwrap();
            compare(&gpu, "6x6", &coarse, 0.0, &NearNullSpace::constants(150, 6).unwrap());
            let long = irregular::random(120, 20, 5).view().to_blocks(2).unwrap();
            compare(&gpu, "long block rows", &long, 0.0, &NearNullSpace::constants(120, 2).unwrap());
        }
    }
}
