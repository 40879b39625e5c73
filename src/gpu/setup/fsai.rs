//! FSAI on a GPU: [`crate::host::fsai`] on the device, with the same bits. The work is in `kernels/fsai.cu`,
//! `kernels/fsai_small.cu` and `kernels/fsai_pattern.cu`, for [blocks](self::blocks) in files of their own.

mod blocks;

use super::grid::{GpuMatrix, GpuPattern};
use super::truncate::gather;
use super::{DeviceCsr, DevicePattern, diagonal, spgemm};
use crate::backend::fsai::{Adaptive, Factor, FsaiFactor, Pair, Static, smallest_pivot};
use crate::error::{Result, Status};
use crate::gpu::runtime::{Argument, Kernel, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// Lanes of a row, as in `kernels/fsai_system.h`.
const LANES: usize = 32;

/// Most rows that are computed at the same time: what a large device holds.
const MAX_GROUPS: usize = 1 << 14;

/// Bytes of workspace beyond which fewer rows are computed at the same time.
const WORKSPACE: usize = 1 << 29;

/// Bytes that are asked for at last where memory is short.
const LEAST_WORKSPACE: usize = 1 << 15;

/// Most entries of a row beside the diagonal for shared memory, as in `kernels/fsai_small.cu`.
const SMALL_CAPACITY: usize = 15;

/// Numbers of the lists of a row there.
const SMALL_LISTS: usize = (SMALL_CAPACITY + 1) * 256;

/// Most rows that are computed at the same time there: about what an H200 holds, so that no team of lanes waits for another.
const MAX_SMALL_GROUPS: usize = 1 << 12;

/// Which entries of a matrix a pattern keeps, as in `kernels/fsai_pattern.cu`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Large = 0,
    LargeLower = 1,
    Lower = 2,
    LargeOfFactor = 3,
}

impl FsaiFactor for Gpu {
    fn in_rows<T: Scalar>(&self, a: GpuMatrix<T>) -> Result<GpuMatrix<T>> {
        Ok(a.to_rows(self)?.into_owned().into())
    }

    fn adaptive<T: Scalar>(&self, a: &GpuMatrix<T>, adaptive: &Adaptive) -> Result<Factor<Gpu, T>> {
        if a.block != Block::SCALAR {
            return within_memory(|workspace| blocks::adaptive_factor(self, a, adaptive, workspace));
        }
        within_memory(|workspace| adaptive_factor(self, a, adaptive, workspace))
    }

    fn static_pattern<T: Scalar>(&self, a: &GpuMatrix<T>, wanted: &Static) -> Result<GpuPattern> {
        let diagonals = diagonal::entries(self, a)?;
        let keep = |which: Keep| kept(self, a, &diagonals, which, wanted.pre_filter);
        if wanted.power == 1 {
            return Ok(pattern(keep(Keep::LargeLower)?, a.block).into());
        }
        let large = keep(Keep::Large)?;
        let mut power = spgemm::multiply(self, &large, &large)?;
        for _ in 2..wanted.power {
            power = spgemm::multiply(self, &power, &large)?;
        }
        Ok(pattern(kept(self, &power, &diagonals, Keep::Lower, 0.0)?, a.block).into())
    }

    fn on_pattern<T: Scalar>(&self, a: &GpuMatrix<T>, pattern: &GpuPattern) -> Result<Factor<Gpu, T>> {
        if a.block != Block::SCALAR {
            return within_memory(|workspace| blocks::values_on(self, a, pattern, workspace));
        }
        within_memory(|workspace| values_on(self, a, pattern, workspace))
    }

    fn pair_on_pattern<T: Scalar>(
        &self,
        a: &GpuMatrix<T>,
        transposed: &GpuMatrix<T>,
        pattern: &GpuPattern,
    ) -> Result<Pair<Gpu, T>> {
        within_memory(|workspace| pair_on(self, [a, transposed], pattern, workspace))
    }

    fn filtered<T: Scalar>(&self, a: &GpuMatrix<T>, g: &GpuMatrix<T>, share: f64) -> Result<GpuPattern> {
        Ok(pattern(kept(self, g, &diagonal::entries(self, a)?, Keep::LargeOfFactor, share)?, a.block).into())
    }
}

/// Work with as much workspace as there is memory for.
fn within_memory<R>(work: impl Fn(usize) -> Result<R>) -> Result<R> {
    let mut workspace = WORKSPACE;
    loop {
        match work(workspace) {
            Err(error) if error.status == Status::OutOfMemory && workspace > LEAST_WORKSPACE => workspace /= 4,
            result => return result,
        }
    }
}

/// The length of the longest row. Waits for the device.
fn longest_row(gpu: &Gpu, rows: usize, offsets: &Slice<i64>) -> Result<usize> {
    let longest = gpu.zeroed::<i32>(1)?;
    gpu.launch(gpu.kernel("fsai_longest")?, rows, &[&(rows as i64), &offsets.view(), &longest.view()])?;
    Ok(gpu.fetch(&longest)?[0] as usize)
}

/// Numbers in the workspace of the system of a row with so many columns.
fn system_size(capacity: usize) -> usize {
    capacity * (capacity + 1) / 2 + 2 * capacity
}

/// The pattern of the blocks that are kept.
fn pattern(kept: DeviceCsr<f32>, block: Block) -> DevicePattern {
    DevicePattern { block, ..kept.pattern() }
}

/// The blocks of a matrix that a pattern keeps, as ones. Waits for the device once.
fn kept<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    diagonals: &Slice<f64>,
    which: Keep,
    share: f64,
) -> Result<DeviceCsr<f32>> {
    let (rows, n, which, square) = (a.rows as i64, a.block.rows as i32, which as i32, share * share);
    let run = |[to_offsets, to_columns, to_values, counts]: [View; 4]| {
        let from = [a.offsets.view(), a.columns.view(), a.values.view(), diagonals.view()];
        let kernel = gpu.kernel(&format!("fsai_keep_{}", T::PRECISION.name()))?;
        let arguments: [&dyn Argument; 12] = [
            &rows,
            &n,
            &which,
            &square,
            &from[0],
            &from[1],
            &from[2],
            &from[3],
            &to_offsets,
            &to_columns,
            &to_values,
            &counts,
        ];
        gpu.launch(kernel, a.rows * LANES, &arguments)
    };
    let (counts, none) = (gpu.allocate::<i32>(a.rows)?, View::NONE);
    run([none, none, none, counts.view()])?;
    let (offsets, total) = gpu.offsets(&counts)?;
    let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<f32>(total)?);
    run([offsets.view(), columns.view(), values.view(), none])?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows: a.rows, cols: a.rows, block: Block::SCALAR, offsets, columns, values })
}

fn factor_of<T: Scalar>(gpu: &Gpu, g: DeviceCsr<T>, breakdowns: &Buffer<i32>) -> Result<Factor<Gpu, T>> {
    Ok(Factor { g: g.into(), breakdowns: gpu.fetch(breakdowns)?[0] as usize })
}

/// The factor on a pattern, with about so many bytes of workspace. Waits for the device twice.
fn values_on<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    pattern: &DevicePattern,
    workspace: usize,
) -> Result<Factor<Gpu, T>> {
    assert_eq!(a.block, Block::SCALAR);
    let capacity = longest_row(gpu, a.rows, &pattern.offsets)?.saturating_sub(1);
    let size = system_size(capacity);
    let bytes = (size + capacity).max(1) * T::PRECISION.bytes();
    let groups = (workspace / bytes).clamp(1, MAX_GROUPS).min(a.rows.max(1));
    let (work, couplings) = (gpu.allocate::<T>(groups * size)?, gpu.allocate::<T>(groups * capacity)?);
    let (to, breakdowns) = (gpu.allocate::<T>(pattern.nnz())?, gpu.zeroed::<i32>(1)?);
    let diagonals = diagonal::entries(gpu, a)?;
    let arguments: [&dyn Argument; 14] = [
        &(a.rows as i64),
        &(groups as i32),
        &(capacity as i32),
        &smallest_pivot::<T>().to_f64(),
        &a.offsets.view(),
        &a.columns.view(),
        &a.values.view(),
        &diagonals.view(),
        &pattern.offsets.view(),
        &pattern.columns.view(),
        &work.view(),
        &couplings.view(),
        &to.view(),
        &breakdowns.view(),
    ];
    gpu.launch(gpu.kernel(&format!("fsai_values_{}", T::PRECISION.name()))?, groups * LANES, &arguments)?;
    factor_of(gpu, pattern.with(to), &breakdowns)
}

/// The factors of a matrix, given with its transpose, on a pattern, with about so many bytes of workspace. Waits for the device
/// twice.
fn pair_on<T: Scalar>(
    gpu: &Gpu,
    [a, transposed]: [&DeviceCsr<T>; 2],
    pattern: &DevicePattern,
    workspace: usize,
) -> Result<Pair<Gpu, T>> {
    assert_eq!(a.block, Block::SCALAR);
    let capacity = longest_row(gpu, a.rows, &pattern.offsets)?.saturating_sub(1);
    let size = capacity * (capacity + 1) + 6 * capacity;
    let groups = (workspace / (size.max(1) * T::PRECISION.bytes())).clamp(1, MAX_GROUPS).min(a.rows.max(1));
    let (work, breakdowns) = (gpu.allocate::<T>(groups * size)?, gpu.zeroed::<i32>(1)?);
    let (g, h) = (gpu.allocate::<T>(pattern.nnz())?, gpu.allocate::<T>(pattern.nnz())?);
    let diagonals = diagonal::entries(gpu, a)?;
    let arguments: [&dyn Argument; 17] = [
        &(a.rows as i64),
        &(groups as i32),
        &(capacity as i32),
        &smallest_pivot::<T>().to_f64(),
        &a.offsets.view(),
        &a.columns.view(),
        &a.values.view(),
        &transposed.offsets.view(),
        &transposed.columns.view(),
        &transposed.values.view(),
        &diagonals.view(),
        &pattern.offsets.view(),
        &pattern.columns.view(),
        &work.view(),
        &g.view(),
        &h.view(),
        &breakdowns.view(),
    ];
    gpu.launch(gpu.kernel(&format!("fsai_pair_{}", T::PRECISION.name()))?, groups * LANES, &arguments)?;
    let breakdowns = gpu.fetch(&breakdowns)?[0] as usize;
    Ok(Pair { g: pattern.with(g).into(), h: pattern.with(h).into(), breakdowns })
}

/// Rows of an adaptive factor at a stride, as kernels write them.
struct AdaptiveRows<'a, T> {
    gpu: &'a Gpu,
    a: &'a DeviceCsr<T>,
    adaptive: &'a Adaptive,
    diagonals: Buffer<f64>,
    capacity: usize,
    columns: Buffer<i32>,
    values: Buffer<T>,
    lengths: Buffer<i32>,
    /// Rows that broke down, and rows that are left.
    counts: Buffer<i32>,
}

impl<'a, T: Scalar> AdaptiveRows<'a, T> {
    fn new(gpu: &'a Gpu, a: &'a DeviceCsr<T>, adaptive: &'a Adaptive) -> Result<Self> {
        assert_eq!(a.block, Block::SCALAR);
        let (rows, capacity) = (a.rows, adaptive.capacity(a.rows));
        Ok(AdaptiveRows {
            gpu,
            a,
            adaptive,
            diagonals: diagonal::entries(gpu, a)?,
            capacity,
            columns: gpu.allocate(rows * (capacity + 1))?,
            values: gpu.allocate(rows * (capacity + 1))?,
            lengths: gpu.allocate(rows)?,
            counts: gpu.zeroed(2)?,
        })
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.gpu.kernel(&format!("{name}_{}", T::PRECISION.name()))
    }

    /// Computes rows with few candidates in shared memory.
    fn small(&self, workspace: usize) -> Result<()> {
        let (a, adaptive) = (self.a, self.adaptive);
        let bytes = SMALL_LISTS * (size_of::<i32>() + T::PRECISION.bytes());
        let groups = (workspace / bytes).clamp(1, MAX_SMALL_GROUPS).min(a.rows.max(1));
        let lists = self.gpu.allocate::<i32>(groups * SMALL_LISTS)?;
        let values = self.gpu.allocate::<T>(groups * SMALL_LISTS)?;
        let arguments: [&dyn Argument; 17] = [
            &(a.rows as i64),
            &(groups as i32),
            &(adaptive.steps as i32),
            &(adaptive.entries as i32),
            &(self.capacity as i32),
            &adaptive.tolerance,
            &smallest_pivot::<T>().to_f64(),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view(),
            &self.diagonals.view(),
            &lists.view(),
            &values.view(),
            &self.columns.view(),
            &self.values.view(),
            &self.lengths.view(),
            &self.counts.view(),
        ];
        self.gpu.launch(self.kernel("fsai_small")?, groups * LANES, &arguments)
    }

    /// Computes rows with hash tables in global memory: all, or those that are left.
    fn large(&self, left: bool, workspace: usize) -> Result<()> {
        let (gpu, a, adaptive, capacity) = (self.gpu, self.a, self.adaptive, self.capacity);
        let most = ((capacity + 1) * longest_row(gpu, a.rows, &a.offsets)?).min(a.rows).max(LANES);
        let slots = (2 * most).next_power_of_two();
        let (triangle, size) = (system_size(capacity), T::PRECISION.bytes());
        let bytes = slots * (8 + 2 * size + 2) + triangle * size + 4 * capacity;
        let groups = (workspace / bytes).clamp(1, MAX_GROUPS).min(a.rows.max(1));
        let (keys, places) = (gpu.zeroed::<i32>(groups * slots)?, gpu.allocate::<i32>(groups * slots)?);
        let (couplings, gradients) = (gpu.allocate::<T>(groups * slots)?, gpu.allocate::<T>(groups * slots)?);
        let (used, counts) = (gpu.allocate::<i32>(groups * slots / 2)?, gpu.zeroed::<i32>(groups)?);
        let (pattern, work) = (gpu.allocate::<i32>(groups * capacity)?, gpu.allocate::<T>(groups * triangle)?);
        let arguments: [&dyn Argument; 24] = [
            &(a.rows as i64),
            &(groups as i32),
            &i32::from(left),
            &(adaptive.steps as i32),
            &(adaptive.entries as i32),
            &(capacity as i32),
            &adaptive.tolerance,
            &smallest_pivot::<T>().to_f64(),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view(),
            &self.diagonals.view(),
            &keys.view(),
            &places.view(),
            &couplings.view(),
            &gradients.view(),
            &used.view(),
            &counts.view(),
            &pattern.view(),
            &work.view(),
            &self.columns.view(),
            &self.values.view(),
            &self.lengths.view(),
            &self.counts.view(),
        ];
        gpu.launch(self.kernel("fsai")?, groups * LANES, &arguments)
    }

    /// Compacts the rows.
    fn finish(self) -> Result<Factor<Gpu, T>> {
        let (rows, stride) = (self.a.rows, self.capacity + 1);
        let g = gather(self.gpu, (rows, rows), stride, (self.columns, self.values), &self.lengths)?;
        Ok(Factor { g: g.into(), breakdowns: self.gpu.fetch(&self.counts)?[0] as usize })
    }
}

/// The factor on an adaptive pattern, with about so many bytes of workspace. Rows with too many candidates for shared memory are
/// computed in global memory. Waits for the device a few times.
fn adaptive_factor<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    adaptive: &Adaptive,
    workspace: usize,
) -> Result<Factor<Gpu, T>> {
    let rows = AdaptiveRows::new(gpu, a, adaptive)?;
    let is_small = rows.capacity <= SMALL_CAPACITY;
    if is_small {
        rows.small(workspace)?;
    }
    if !is_small || gpu.fetch(&rows.counts)?[1] > 0 {
        rows.large(is_small, workspace)?;
    }
    rows.finish()
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, irregular, narrow, problems};
    use super::*;
    use crate::backend::fsai::{Fsai, Pattern};
    use crate::backend::setup::Setup;
    use crate::gpu::tests::host;
    use crate::host::{HostMatrix, fsai};
    use crate::skip::is_deep;
    use crate::sparse::Csr;

    /// With large and with small workspace in turn; half of the parameters for each case, the others for the next one.
    fn check<T: Scalar>(a: &Csr<T>, name: &str, case: usize) {
        let parameters = [(6, 1, 1e-3), (3, 3, 0.0), (15, 1, 0.0), (40, 1, 0.0)];
        for (k, (steps, entries, tolerance)) in parameters.into_iter().enumerate() {
            if !(k + case).is_multiple_of(2) && !is_deep() {
                continue;
            }
            let workspace = [WORKSPACE, 0][(k / 2 + a.columns.len()) % 2];
            let adaptive = Adaptive { steps, entries, tolerance };
            let (wanted, breakdowns) = fsai::adaptive_factor(&a.view(), &adaptive).unwrap();
            for gpu in devices() {
                let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                let factor = adaptive_factor(&gpu, &on_device, &adaptive, workspace).unwrap();
                assert_eq!(factor.g.fetch(&gpu).unwrap(), wanted, "{name} {adaptive:?} {workspace}");
                assert_eq!(factor.breakdowns, breakdowns, "{name} {adaptive:?}");
            }
        }
    }

    /// Static patterns and filtered ones, with small and large workspace.
    fn check_patterns<T: Scalar>(a: &Csr<T>, name: &str) {
        let on_host = HostMatrix::from(a.clone().into_shared());
        for (power, pre_filter, post_filter) in [(1, 0.0, 0.0), (2, 0.05, 0.0), (3, 0.2, 0.1)] {
            let wanted = Static { power, pre_filter };
            let fsai = Fsai { pattern: Pattern::Static(wanted), post_filter };
            let expected = host().factor(&on_host, &fsai).unwrap();
            for gpu in devices() {
                let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap().into();
                let found = gpu.factor(&on_device, &fsai).unwrap();
                let g = found.g.fetch(&gpu).unwrap();
                let (offsets, columns) = expected.g.rows().structure.own_arrays();
                assert_eq!((&g.offsets[..], &g.columns[..]), (offsets, columns), "{name} {fsai:?}");
                assert_eq!(g.values, expected.g.rows().values.as_slice(), "{name} {fsai:?}");
                assert_eq!(found.breakdowns, expected.breakdowns, "{name} {fsai:?}");
                let pattern = found.g.pattern();
                let small = match a.block {
                    Block::SCALAR => values_on(&gpu, &on_device, &pattern, 0).unwrap(),
                    _ => blocks::values_on(&gpu, &on_device, &pattern, 0).unwrap(),
                };
                assert_eq!(small.g.fetch(&gpu).unwrap().values, g.values, "{name} {fsai:?}");
            }
        }
    }

    /// Both factors of any matrix.
    fn check_pairs<T: Scalar>(a: &Csr<T>, name: &str) {
        let (on_host, host) = (HostMatrix::from(a.clone().into_shared()), host());
        let transposed = host.transpose(&on_host).unwrap();
        for power in [1, 2] {
            let pattern = host.static_pattern(&on_host, &Static { power, pre_filter: 0.1 }).unwrap();
            let expected = host.pair_on_pattern(&on_host, &transposed, &pattern).unwrap();
            for gpu in devices() {
                let [a, transposed] =
                    [&on_host, &transposed].map(|m| GpuMatrix::from(DeviceCsr::upload(&gpu, &m.view()).unwrap()));
                let pattern = gpu.static_pattern(&a, &Static { power, pre_filter: 0.1 }).unwrap();
                for workspace in [WORKSPACE, 0] {
                    let found = pair_on(&gpu, [&a, &transposed], &pattern, workspace).unwrap();
                    let bits = |values: &[T]| values.iter().map(|v| v.to_f64().to_bits()).collect::<Vec<_>>();
                    for (found, expected) in [(&found.g, &expected.g), (&found.h, &expected.h)] {
                        let found = found.fetch(&gpu).unwrap();
                        assert_eq!(
                            bits(&found.values),
                            bits(expected.rows().values.as_slice()),
                            "{name} {power} {workspace}"
                        );
                    }
                    assert_eq!(found.breakdowns, expected.breakdowns, "{name} {power}");
                }
            }
        }
    }

    /// Scalar matrices as blocks of n rows, those that n divides.
    fn in_blocks(n: usize) -> Vec<(String, Csr<f64>)> {
        let all = problems().into_iter().chain(irregular()).filter(|(_, a)| a.rows.is_multiple_of(n));
        all.map(|(name, a)| (format!("{name} in {n}"), a.view().to_blocks(n).unwrap())).collect()
    }

    fn check_blocks<T: Scalar>(a: &Csr<T>, name: &str) {
        let parameters = [(15, 1, 1e-3), (3, 2, 0.0), (40, 1, 0.0)];
        for (k, (steps, entries, tolerance)) in parameters.into_iter().enumerate() {
            let workspace = [WORKSPACE, 0][(k + a.block.rows + size_of::<T>() / 8) % 2];
            let adaptive = Adaptive { steps, entries, tolerance };
            let (wanted, breakdowns) = fsai::adaptive_factor(&a.view(), &adaptive).unwrap();
            for gpu in devices() {
                let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                let factor = blocks::adaptive_factor(&gpu, &on_device, &adaptive, workspace).unwrap();
                assert_eq!(factor.g.fetch(&gpu).unwrap(), wanted, "{name} {adaptive:?} {workspace}");
                assert_eq!(factor.breakdowns, breakdowns, "{name} {adaptive:?}");
            }
        }
        check_patterns(a, name);
    }

    #[test]
    fn factors_of_blocks_are_those_of_the_host() {
        let elasticity = crate::gallery::parse("elasticity:3").unwrap().matrix;
        check_blocks(&elasticity, "elasticity:3");
        check_blocks(&narrow(&elasticity), "elasticity:3");
        for n in [2, 3, 6] {
            for (name, a) in in_blocks(n).into_iter().take(2) {
                check_blocks(&a, &name);
            }
        }
    }

    #[test]
    fn less_workspace_is_taken_where_memory_is_short() {
        let (_, a) = problems().remove(1);
        let adaptive = Adaptive { steps: 40, entries: 1, tolerance: 0.0 };
        let wanted = fsai::adaptive_factor(&a.view(), &adaptive).unwrap().0;
        for gpu in devices() {
            let on_device = GpuMatrix::from(DeviceCsr::upload(&gpu, &a.view()).unwrap());
            gpu.set_memory_limit(Some(gpu.memory().used + (1 << 20)));
            let short = adaptive_factor(&gpu, &on_device, &adaptive, WORKSPACE).err().unwrap();
            assert_eq!(short.status, Status::OutOfMemory);
            assert_eq!(gpu.adaptive(&on_device, &adaptive).unwrap().g.fetch(&gpu).unwrap(), wanted);
            gpu.set_memory_limit(None);
        }
    }

    #[test]
    fn pairs_of_factors_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check_pairs(&a, &name);
        }
        let (name, a) = problems().remove(4);
        check_pairs(&narrow(&a), &name);
    }

    #[test]
    fn factors_are_those_of_the_host() {
        for (case, (name, a)) in problems().into_iter().chain(irregular()).enumerate() {
            check(&a, &name, case);
        }
        let (name, a) = problems().remove(2);
        (0..2).for_each(|case| check(&narrow(&a), &name, case));
    }

    #[test]
    fn factors_on_given_patterns_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check_patterns(&a, &name);
        }
        let (name, a) = problems().remove(2);
        check_patterns(&narrow(&a), &name);
    }
}
