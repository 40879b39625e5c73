//! Numeric phase of a product whose pattern is known.

use super::method::teams_of;
use super::{MAX_BLOCKS, MAX_MERGE_BLOCKS, Output, Pattern, Product};
use crate::error::{Result, Status};
use crate::gpu::runtime::Argument;
use crate::gpu::setup::spgemm_symbolic::{BlockSpgemmSymbolic, RowLengths};
use crate::gpu::{Buffer, Slice};
use crate::scalar::Number;

/// Lanes of teams that multiply blocks.
const BLOCK_LANES: [usize; 2] = [32, 256];

impl<T: Number> Product<'_, T> {
    /// Numeric phase: values of a product of this pattern. Does not wait for the device.
    pub fn numeric(&self, pattern: &Pattern, fill: bool) -> Result<Buffer<T>> {
        let gpu = self.gpu;
        let values = gpu.allocate::<T>(pattern.columns.len() * self.block.len())?;
        let to = Output { offsets: &pattern.offsets, columns: &pattern.columns, values: &values, fill };
        if !self.is_scalar() {
            self.numeric_of_blocks(&to)?;
            return Ok(values);
        }
        let too_long = self.cascade(None, teams_of(pattern.method), MAX_BLOCKS, |name, n, list, blocks, more| {
            let kernel = gpu.kernel(&format!("spgemm_numeric_{name}_{}", T::PRECISION.name()))?;
            let [a, b, c, d, e] = &self.factors;
            let (left, right, offsets) = (self.a.values.view(), self.b.values.view(), to.offsets.view());
            let (columns, values, fill) = (to.columns.view(), to.values.view(), i32::from(fill));
            let arguments: [&dyn Argument; 14] =
                [&n, &list, a, b, c, d, e, &left, &right, &offsets, &columns, &values, &fill, &more];
            gpu.launch_blocks(kernel, blocks, &arguments)
        })?;
        if pattern.has_long {
            self.numeric_long(&too_long, &to)?;
        }
        Ok(values)
    }

    /// Numeric phase for blocks from their symbolic data. Does not wait for the device.
    pub fn numeric_blocks(&self, symbolic: &BlockSpgemmSymbolic, pattern: &Pattern, fill: bool) -> Result<Buffer<T>> {
        let values = self.gpu.allocate::<T>(pattern.columns.len() * self.block.len())?;
        let to = (&**pattern.columns, &*values, fill);
        symbolic.numeric(self.gpu, self.a, &self.b, (&self.shape(), self.block), to)?;
        Ok(values)
    }

    /// Values of blocks in set-up: with lists of the products of each block, which are made for this and dropped, or by
    /// search where rows are too long for lists or there is no memory for them. Waits for the device.
    pub(super) fn values_of_blocks(&self, to: &Output<'_, T>) -> Result<()> {
        let (gpu, a, rows) = (self.gpu, self.a, self.a.rows);
        fn ranges(offsets: &Slice<i64>, rows: usize) -> (&Slice<i64>, &Slice<i64>) {
            (offsets.subslice(0, rows), offsets.subslice(1, rows))
        }
        let [of_a, of_product] = RowLengths::of(gpu, [ranges(&a.offsets, rows), ranges(to.offsets, rows)])?;
        match BlockSpgemmSymbolic::new(gpu, (a, &of_a), &self.b, ((to.offsets, to.columns), &of_product)) {
            Ok(Some(lists)) => {
                let to = (to.columns, to.values, to.fill);
                lists.numeric(gpu, a, &self.b, (&self.shape(), self.block), to)
            }
            Ok(None) => self.numeric_of_blocks(to),
            Err(error) if error.status == Status::OutOfMemory => self.numeric_of_blocks(to),
            Err(error) => Err(error),
        }
    }

    /// The block size in kernel names.
    fn shape(&self) -> String {
        match (self.block.rows, self.a.block.cols, self.block.cols) {
            (3, 3, 3) | (3, 3, 6) | (6, 3, 6) | (6, 6, 6) => {
                format!("{}_{}_{}", self.block.rows, self.a.block.cols, self.block.cols)
            }
            _ => "any".to_string(),
        }
    }

    /// Numeric phase for blocks by search.
    pub(super) fn numeric_of_blocks(&self, to: &Output<'_, T>) -> Result<()> {
        let shape = self.shape();
        let too_long = self.cascade(
            None,
            BLOCK_LANES.map(|lanes| (lanes, lanes.to_string())),
            MAX_MERGE_BLOCKS,
            |lanes, n, list, blocks, more| {
                let kernel = self.gpu.kernel(&format!("spgemm_blocks_{lanes}_{shape}_{}", T::PRECISION.name()))?;
                self.values_of(to, |arguments| {
                    let rows: [&dyn Argument; 2] = [&n, &list];
                    let all: Vec<&dyn Argument> =
                        rows.into_iter().chain(arguments).chain([&more as &dyn Argument]).collect();
                    self.gpu.launch_blocks(kernel, blocks, &all)
                })
            },
        )?;
        self.numeric_long(&too_long, to)
    }

    /// Numeric phase for a list of rows in global memory.
    pub(super) fn numeric_long(&self, rows: &Slice<i32>, to: &Output<'_, T>) -> Result<()> {
        let kernel = self.gpu.kernel(&format!("spgemm_long_values_{}", T::PRECISION.name()))?;
        let list = rows.view();
        self.values_of(to, |arguments| {
            let all: Vec<&dyn Argument> = [&list as &dyn Argument].into_iter().chain(arguments).collect();
            self.gpu.launch_blocks(kernel, self.a.rows.clamp(1, MAX_BLOCKS), &all)
        })
    }

    /// Launches a kernel of a numeric phase.
    fn values_of(&self, to: &Output<'_, T>, launch: impl FnOnce([&dyn Argument; 14]) -> Result<()>) -> Result<()> {
        let (left, right) = (self.a.values.view(), self.b.values.view());
        let [outer, inner, width] = [self.block.rows, self.a.block.cols, self.block.cols].map(|d| d as i32);
        let [a, b, c, d, e] = &self.factors;
        let (offsets, columns, values) = (to.offsets.view(), to.columns.view(), to.values.view());
        let fill = i32::from(to.fill);
        launch([a, b, c, d, e, &left, &right, &outer, &inner, &width, &offsets, &columns, &values, &fill])
    }
}
