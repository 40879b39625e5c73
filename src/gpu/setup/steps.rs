//! The steps of set-up on a GPU, and how its levels are stored there.

use super::coarse_numbering::{DeviceCoarse, Splitting};
use super::colouring::DeviceColouring;
use super::deferred_checks::DeferredChecks;
use super::divided::{self, DeviceDivided};
use super::functions::DeviceFunctions;
use super::grid::{GpuMatrix, GpuPattern};
use super::rounding_loss;
use super::scaling::{self, By as Factor, Factors, Rounding as StoreRounding};
use super::{
    DeviceAggregates, DeviceCsr, DeviceGraph, DeviceNearNullSpace, DevicePattern, aggressive, dense, diagonal,
    eigenvalue, galerkin, gather_blocks, grid_levels, lanczos, transpose,
};
use crate::backend::common::line_axes;
use crate::backend::parameters::Estimate;
use crate::backend::setup::{
    By, Candidate, FormatRequest, Held, Measured, OperatorProduct, Rounding, Scaled, Setup, SetupMatrix, StorageHint,
    Store, Stored, Symbolic, at_level,
};
use crate::backend::spectrum::Largest;
use crate::backend::{Colours, Operator};
use crate::comm::{Distribution, Reduction};
use crate::error::{Result, fail};
use crate::gpu::grid_transfer::DeviceTransfer;
use crate::gpu::stencil::DeviceStencil;
use crate::gpu::{Buffer, Format, FormatQuery, Gpu, Slice, to_scalar};
use crate::precision::is_narrower;
use crate::scalar::{Number, Scalar, Sums};
use crate::sparse::{Block, SharedCsr};
use crate::sync::lock;
use std::borrow::Cow;
use std::sync::{Arc, Mutex};

/// A pattern that a step reuses.
impl Symbolic for DevicePattern {
    fn bytes(&self) -> usize {
        DevicePattern::bytes(self, 1)
    }
}

/// Symbolic data of a transposition; grids need none.
impl Symbolic for Option<Arc<transpose::TransposeSymbolic>> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, |symbolic| symbolic.bytes())
    }
}

/// Symbolic data of a product; grids need none.
impl Symbolic for Option<Arc<galerkin::GalerkinSymbolic>> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, |symbolic| symbolic.bytes())
    }

    fn drop_positions(&self) -> bool {
        self.as_ref().is_some_and(|symbolic| symbolic.drop_positions())
    }
}

impl Held for DeviceGraph {
    fn bytes(&self) -> usize {
        DeviceGraph::bytes(self)
    }
}

impl Setup for Gpu {
    type Matrix<S: Number> = GpuMatrix<S>;
    type Pattern = GpuPattern;
    type Graph = DeviceGraph;
    type Splitting = Splitting;
    type Aggregates = DeviceAggregates;
    type NearNullSpace = DeviceNearNullSpace;
    type Colouring = DeviceColouring;
    type Functions = DeviceFunctions;
    type Within = DevicePattern;
    type Nodes = DevicePattern;
    type Transposition = Option<Arc<transpose::TransposeSymbolic>>;
    type Product = Option<Arc<galerkin::GalerkinSymbolic>>;
    type Factors = Factors;
    type Format = Format;
    type Checks = DeferredChecks;
    const SCALES_AT_ONCE: bool = false;

    /// Launches do not use the threads of the context: waking these takes as long as many launches.
    fn run<R: Send>(&self, _: usize, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    fn begin_phase(&self, level: Option<usize>, phase: &'static str) {
        self.begin_step(level, phase);
    }

    fn synchronise(&self) -> Result<()> {
        self.synchronize()
    }

    fn waits(&self) -> usize {
        Gpu::waits(self)
    }

    fn setup_place(waits: usize) -> String {
        format!("device, which the host waited for {waits} times")
    }

    fn checks(&self) -> DeferredChecks {
        DeferredChecks::new(self)
    }

    fn evaluate(&self, checks: DeferredChecks) -> Result<()> {
        match self.dividing_ranks() {
            // What is out of range on one rank leads to wider formats on all.
            Some(over) => over.ranks.agree(checks.verify()),
            None => checks.verify(),
        }
    }

    fn all_entries<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<usize> {
        match self.divided(a) {
            Some((over, a)) => Ok(over.ranks.reduce(a.matrix.values.len() as i64, Reduction::Sum)? as usize),
            None => Ok(SetupMatrix::entries(a)),
        }
    }

    fn is_everywhere(&self, rows: usize, is_here: bool) -> Result<bool> {
        match self.dividing_ranks().filter(|over| over.is_divided(rows)) {
            Some(over) => Ok(over.ranks.reduce(i64::from(is_here), Reduction::Min)? != 0),
            None => Ok(is_here),
        }
    }

    fn to_scalar<T: Scalar>(&self, a: GpuMatrix<T>) -> Result<GpuMatrix<T>> {
        if let GpuMatrix::Divided(a) = a {
            // Without blocks, as those of a matrix over ranks are taken apart.
            return Ok(GpuMatrix::Divided(a));
        }
        Ok(to_scalar(self, &*a.to_rows(self)?)?.into())
    }

    fn to_nodes<T: Scalar>(
        &self,
        a: &GpuMatrix<T>,
        size: usize,
        symbolic: Option<&DevicePattern>,
    ) -> Result<(GpuMatrix<T>, DevicePattern)> {
        if let Some((over, a)) = self.divided(a) {
            let nodes = divided::nodes::to_nodes(self, over, a, size)?;
            let pattern = nodes.matrix.pattern();
            return Ok((GpuMatrix::Divided(nodes), pattern));
        }
        let nodes = match symbolic {
            Some(pattern) => gather_blocks::numeric(self, a, pattern)?,
            None => gather_blocks::gather(self, a, size)?,
        };
        let pattern = nodes.pattern();
        Ok((nodes.into(), pattern))
    }

    fn constants<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<DeviceNearNullSpace> {
        let dofs = SetupMatrix::block(a).rows;
        let rows = match a {
            GpuMatrix::Divided(a) => a.rows.own.len() * dofs,
            a => SetupMatrix::scalar_rows(a),
        };
        DeviceNearNullSpace::constants(self, rows, dofs)
    }

    fn fetch<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<SharedCsr<f64>> {
        a.fetch_rows(self)?.cast()
    }

    fn interleaved_functions(&self, unknowns: usize, count: usize) -> Result<DeviceFunctions> {
        DeviceFunctions::interleaved(self, unknowns, count)
    }

    fn functions_per_unknown(&self, of: &[u8]) -> Result<DeviceFunctions> {
        DeviceFunctions::per_unknown(self, of)
    }

    fn coarse_functions(&self, functions: &DeviceFunctions, coarse: &Splitting) -> Result<DeviceFunctions> {
        functions.coarse(self, coarse)
    }

    fn within_functions<T: Scalar>(
        &self,
        functions: &DeviceFunctions,
        a: &GpuMatrix<T>,
        symbolic: Option<&DevicePattern>,
    ) -> Result<(GpuMatrix<T>, DevicePattern)> {
        let within = match symbolic {
            Some(pattern) => functions.numeric(self, a, pattern)?,
            None => functions.within(self, a)?,
        };
        let pattern = within.pattern();
        Ok((within.into(), pattern))
    }

    fn same_graph(&self, one: &DeviceGraph, other: &DeviceGraph) -> Result<bool> {
        one.is(self, other)
    }

    fn same_coarse(&self, one: &DeviceCoarse, other: &DeviceCoarse) -> Result<bool> {
        one.is(self, other)
    }

    fn second_pass(&self, graph: &DeviceGraph, first: &Splitting, seed: u64) -> Result<Splitting> {
        let second = aggressive::thin(self, graph, first, seed)?;
        Splitting::new(self, &second)
    }

    fn transpose<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<GpuMatrix<T>> {
        Ok(match a {
            GpuMatrix::Transfer(p) => GpuMatrix::Transfer(DeviceTransfer { transposed: !p.transposed, ..p.clone() }),
            GpuMatrix::Divided(_) if self.dividing_ranks().is_some() => {
                let Some((over, a)) = self.divided(a) else { unreachable!("it is divided") };
                GpuMatrix::Divided(divided::transposition::transposed(self, over, (a, a.matrix.block.rows))?)
            }
            a => transpose::transpose(self, &*a.to_rows(self)?)?.into(),
        })
    }

    fn transpose_symbolic<T: Scalar>(
        &self,
        a: &GpuMatrix<T>,
        _: &GpuPattern,
    ) -> Result<Option<Arc<transpose::TransposeSymbolic>>> {
        match a {
            GpuMatrix::Rows(a) => Ok(Some(Arc::new(transpose::transpose_and_symbolic(self, a)?.1))),
            _ => Ok(None),
        }
    }

    fn transpose_numeric<T: Scalar>(
        &self,
        symbolic: &Option<Arc<transpose::TransposeSymbolic>>,
        a: &GpuMatrix<T>,
        transposed: &GpuPattern,
    ) -> Result<GpuMatrix<T>> {
        let (GpuMatrix::Rows(a), Some(symbolic)) = (a, symbolic) else { return self.transpose(a) };
        Ok(transposed.with(symbolic.numeric(self, &a.values)?).into())
    }

    fn product<T: Scalar>(
        &self,
        r: &GpuMatrix<T>,
        a: &GpuMatrix<T>,
        p: &GpuMatrix<T>,
    ) -> Result<(GpuMatrix<T>, Option<Arc<galerkin::GalerkinSymbolic>>)> {
        if let (GpuMatrix::Transfer(r), GpuMatrix::Stencil(a), GpuMatrix::Transfer(p)) = (r, a, p) {
            return Ok((GpuMatrix::Stencil(grid_levels::product(self, r, a, p)?), None));
        }
        if let (Some((over, r)), Some((_, a)), Some((_, p))) = (self.divided(r), self.divided(a), self.divided(p)) {
            return Ok((divided::product::product(self, over, (r, a, p))?, None));
        }
        let (coarse, symbolic) = galerkin::product(self, r, a, p)?;
        Ok((coarse.into(), Some(Arc::new(symbolic))))
    }

    fn product_numeric<T: Scalar>(
        &self,
        symbolic: &Option<Arc<galerkin::GalerkinSymbolic>>,
        pattern: &GpuPattern,
        r: &GpuMatrix<T>,
        a: &GpuMatrix<T>,
        p: &GpuMatrix<T>,
    ) -> Result<(GpuMatrix<T>, Option<Arc<galerkin::GalerkinSymbolic>>)> {
        let Some(known) = symbolic else { return self.product(r, a, p) };
        let values = galerkin::numeric(self, known, r, a, p)?;
        Ok((pattern.with(values).into(), symbolic.clone()))
    }

    fn inverse_diagonal<T: Scalar>(
        &self,
        a: &GpuMatrix<T>,
        width: usize,
        l1: bool,
        factors: Option<&Factors>,
    ) -> Result<Buffer<T>> {
        // Without sums over rows the diagonal blocks are enough.
        let rows = if l1 { a.to_rows(self)? } else { a.diagonal_blocks(self)? };
        let inverse = diagonal::inverse(self, &rows, width, l1, factors.map(|factors| &*factors.s))?;
        match self.divided(a) {
            Some((_, a)) => {
                let each = inverse.len() / a.rows.count().max(1);
                divided::copied(self, inverse.subslice(a.rows.inside().start * each, a.rows.own.len() * each))
            }
            None => Ok(inverse),
        }
    }

    fn line_axes<T: Scalar>(&self, a: &GpuMatrix<T>, name: &str) -> Result<[bool; 3]> {
        let a = a.on_grid()?;
        line_axes(&a.pattern.grid, name, || grid_levels::couplings(self, a))
    }

    fn line_factors<T: Scalar>(&self, a: &GpuMatrix<T>, axis: usize) -> Result<Buffer<T>> {
        self.line_factors_of(a.on_grid()?, axis)
    }

    fn largest_eigenvalue<T: Scalar>(
        &self,
        estimate: &Estimate,
        a: &GpuMatrix<T>,
        inverse: &Slice<T>,
        earlier: Option<&Largest>,
    ) -> Result<Largest> {
        match a {
            GpuMatrix::Stencil(a) if a.pattern.block == 1 => {
                eigenvalue::largest(self, estimate, eigenvalue::Factor::Stencil(a), inverse, earlier)
            }
            a => match self.divided(a) {
                Some(of_rank) => divided::eigenvalue::largest(self, of_rank, estimate, inverse, earlier),
                None => eigenvalue::largest(self, estimate, &*a.to_rows(self)?, inverse, earlier),
            },
        }
    }

    fn as_operator<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<Box<dyn Operator<Gpu, T>>> {
        match a {
            GpuMatrix::Stencil(a) => self.stencil_operator(a),
            a if a.block == Block::SCALAR => self.csr_operator(a),
            a => self.operator(DeviceCsr::clone(a), Sums::Wide),
        }
    }

    fn largest_eigenvalue_of<T: Scalar>(
        &self,
        steps: usize,
        n: usize,
        product: OperatorProduct<'_, Gpu, T>,
    ) -> Result<Largest> {
        lanczos::largest(self, steps, n, product)
    }

    fn dense_inverse<T: Scalar, S: Number>(&self, a: &GpuMatrix<T>) -> Result<Buffer<S>> {
        match self.divided(a) {
            Some((over, a)) => {
                let all = divided::product::gathered(self, over, a)?;
                dense::inverse(self, &DeviceCsr::upload(self, &all.view())?)
            }
            None => dense::inverse(self, &*a.to_rows(self)?),
        }
    }

    fn largest_off_diagonal<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<f64> {
        scaling::largest_off_diagonal(self, a)
    }

    fn multiplied<T: Scalar>(&self, a: GpuMatrix<T>, by: f64) -> Result<GpuMatrix<T>> {
        scaling::multiplied(self, a, by)
    }

    fn scaling_factors<T: Scalar>(
        &self,
        matrices: &[&GpuMatrix<T>],
        scaling: &str,
        l1: bool,
    ) -> Result<Vec<Result<Scaled<Gpu, T>>>> {
        scaling::factors(self, matrices, scaling, l1)
    }

    fn has_inverse_scaling(&self, factors: &Factors) -> bool {
        factors.have_inverse()
    }

    fn inverse_scaling(&self, factors: &Factors) -> Result<(f64, Buffer<f32>)> {
        scaling::inverse_scaling(self, factors)
    }

    fn scaled<T: Scalar>(
        &self,
        a: &GpuMatrix<T>,
        rows: By<'_, Factors>,
        columns: By<'_, Factors>,
    ) -> Result<GpuMatrix<T>> {
        let (left, right) = (factor(rows), factor(columns));
        Ok(match a {
            a if matches!((&rows, &columns), (By::One, By::One)) => a.clone(),
            GpuMatrix::Rows(a) => scaling::apply(self, a, left, right)?.into(),
            GpuMatrix::Divided(_) => return fail!(Internal, "a divided matrix came to be scaled"),
            GpuMatrix::Stencil(a) => GpuMatrix::Stencil(grid_levels::scaled(self, a, left, right)?),
            GpuMatrix::Transfer(a) => GpuMatrix::Transfer(grid_levels::scaled_transfer(self, a, left, right)?),
        })
    }

    fn stored<T: Scalar, S: Number>(
        &self,
        a: &GpuMatrix<T>,
        rounding: Rounding<'_, Factors>,
        which: Stored,
        checks: &Mutex<DeferredChecks>,
    ) -> Result<GpuMatrix<S>> {
        let Stored { what, level, may_vanish } = which;
        let refuse = move |result| at_level(level, result);
        let Some(in_rows) = a.in_rows() else {
            let scaled = match rounding {
                Rounding::Nearest(By::One, By::One) => a.clone(),
                Rounding::Nearest(rows, columns) if is_narrower::<T, S>() => {
                    let (by, checks) = ((factor(rows), factor(columns)), &mut lock(checks.lock()));
                    return grid_levels::stored_scaled(self, a, by, checks, refuse, (what, may_vanish));
                }
                Rounding::Nearest(rows, columns) => self.scaled(a, rows, columns)?,
                Rounding::RowSums(_) => {
                    return fail!(
                        Unsupported,
                        "precision.rounding \"row_sums\" on structured grids needs amg.setup \"host\""
                    );
                }
            };
            let checks = &mut lock(checks.lock());
            return Ok(match &scaled {
                GpuMatrix::Stencil(a) => {
                    let from = (&a.values, a.pattern.entries());
                    let values = grid_levels::stored(self, from, Some(a), checks, refuse, (what, may_vanish))?;
                    GpuMatrix::Stencil(DeviceStencil::new(Arc::clone(&a.pattern), a.pitch, values))
                }
                GpuMatrix::Transfer(a) => {
                    let (from, pattern) = ((&a.values, a.pattern.entries()), Arc::clone(&a.pattern));
                    let values = grid_levels::stored(self, from, None, checks, refuse, (what, may_vanish))?;
                    GpuMatrix::Transfer(DeviceTransfer { pattern, transposed: a.transposed, values })
                }
                GpuMatrix::Rows(_) | GpuMatrix::Divided(_) => unreachable!("scaling keeps the form"),
            });
        };
        let rounding = match rounding {
            Rounding::Nearest(rows, columns) => StoreRounding::Nearest(factor(rows), factor(columns)),
            Rounding::RowSums(factors) => StoreRounding::Keeping(&factors.s),
        };
        let mut checks = lock(checks.lock());
        let stored = scaling::store(self, in_rows, rounding, &mut checks, refuse, (what, may_vanish))?;
        Ok(match a {
            GpuMatrix::Divided(a) => GpuMatrix::Divided(a.with(stored)),
            _ => stored.into(),
        })
    }

    fn stored_array<T: Scalar, S: Number>(
        &self,
        exact: &Buffer<T>,
        factor: f64,
        level: usize,
        checks: &Mutex<DeferredChecks>,
    ) -> Result<Buffer<S>> {
        let mut checks = lock(checks.lock());
        diagonal::stored(self, exact, factor, &mut checks, move |result| at_level(level, result))
    }

    fn choose_formats(&self, requests: &[FormatRequest<GpuPattern>], sums: Sums) -> Result<Option<Vec<Format>>> {
        let on_grids = requests.iter().any(|request| matches!(request.pattern, GpuPattern::Grid));
        if sums == Sums::Rounded || on_grids || self.dividing_ranks().is_some() {
            return Ok(None);
        }
        self.begin_step(None, "formats");
        let wanted = |request: &FormatRequest<GpuPattern>| {
            FormatQuery::new(self, (*request.pattern).clone(), request.storage, request.sums)
        };
        Format::of_all(self, &requests.iter().map(wanted).collect::<Vec<_>>()).map(Some)
    }

    fn format_bytes(format: &Format) -> usize {
        format.kept_bytes()
    }

    fn random_right_hand_side<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<(Buffer<f64>, Buffer<f64>)> {
        rounding_loss::start(self, &*a.diagonal_blocks(self)?)
    }

    /// With one wait.
    fn rounding_losses<T: Scalar>(
        &self,
        levels: &[Candidate<'_, Gpu, T>],
        smooth: Buffer<f64>,
    ) -> Result<Vec<Measured>> {
        let in_rows = |a: Option<&'_ GpuMatrix<T>>| a.map(|a| a.to_rows(self).map(Cow::into_owned)).transpose();
        let mut matrices = Vec::new();
        for level in levels {
            matrices.push((level.matrix.to_rows(self)?, in_rows(level.prolongator)?));
        }
        let each = levels.iter().zip(&matrices).map(|(level, (a, p))| rounding_loss::Level {
            matrix: a,
            prolongator: p.as_ref(),
            factors: level.factors,
        });
        rounding_loss::measure(self, &each.collect::<Vec<_>>(), smooth)
    }
}

impl Gpu {
    /// The ranks among which the rows of a matrix are divided, and those of this rank.
    pub(super) fn divided<'a, T>(
        &'a self,
        a: &'a GpuMatrix<T>,
    ) -> Option<(&'a Arc<Distribution>, &'a DeviceDivided<T>)> {
        match a {
            GpuMatrix::Divided(a) => self.dividing_ranks().map(|over| (over, a)),
            _ => None,
        }
    }
}

fn factor(by: By<'_, Factors>) -> Factor<'_> {
    match by {
        By::One => Factor::One,
        By::Times(factors) => Factor::Times(&factors.s),
        By::Over(factors) => Factor::Over(&factors.s),
    }
}

impl Store<Gpu> for Gpu {
    fn operator<S: Number, X: Number, Y: Number>(
        &self,
        to: &Gpu,
        a: GpuMatrix<S>,
        hint: StorageHint,
        format: &mut Option<Format>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        match (a, to.distribution()) {
            (GpuMatrix::Divided(a), Some(over)) => to.divided_operator(over, &a, hint.sums),
            (GpuMatrix::Rows(a), Some(over)) if over.ranks.size() == 1 => to.operator_of_one(over, &a, hint.sums),
            // Of levels that are complete on every rank each keeps its rows.
            (GpuMatrix::Rows(a), Some(over)) => {
                to.operator_over(over, &a.fetch(self)?.into_shared(), hint.sums, &mut None)
            }
            (GpuMatrix::Rows(a) | GpuMatrix::Divided(DeviceDivided { matrix: a, .. }), None) => {
                to.operator_in(a, hint.sums, format)
            }
            (GpuMatrix::Stencil(a), _) => to.stencil_operator(&a),
            (GpuMatrix::Transfer(a), _) => to.transfer_operator(&a),
        }
    }

    fn operator_and_l1<T: Scalar, V: Number>(
        &self,
        to: &Gpu,
        a: GpuMatrix<T>,
        hint: StorageHint,
        format: &mut Option<Format>,
        l1: bool,
    ) -> Result<(Box<dyn Operator<Gpu, V>>, Option<Buffer<T>>)> {
        let a = match a {
            GpuMatrix::Rows(a) if to.distribution().is_none() => a,
            a => return Ok((Store::operator(self, to, a, hint, format)?, None)),
        };
        let slots = match format {
            Some(format) if hint.sums == Sums::Wide => format.slots(to, &a, l1)?,
            _ => None,
        };
        match (format, slots) {
            (Some(format), Some(mut slots)) => {
                let l1_inverse = slots.l1_inverse.take().filter(|inverse| inverse.len() == a.scalar_rows());
                Ok((to.operator_of(&a.pattern(), format, slots)?, l1_inverse))
            }
            (format, _) => Ok((to.operator_in(a, hint.sums, format)?, None)),
        }
    }

    fn array<S: Number>(&self, to: &Gpu, values: Buffer<S>) -> Result<Buffer<S>> {
        match to.distribution() {
            Some(over) => {
                let own = over.own(values.len());
                divided::copied(self, values.subslice(own.start, own.len()))
            }
            None => Ok(values),
        }
    }

    fn rows_of_level<T: Scalar, S: Number>(&self, to: &Gpu, a: &GpuMatrix<T>, values: Buffer<S>) -> Result<Buffer<S>> {
        match a {
            GpuMatrix::Divided(_) => Ok(values),
            _ => self.array(to, values),
        }
    }

    fn dense<S: Number, V: Number>(&self, to: &Gpu, n: usize, values: Buffer<S>) -> Result<Box<dyn Operator<Gpu, V>>> {
        to.dense_over(n, values)
    }

    fn colours<S: Number, V: Number>(
        &self,
        to: &Gpu,
        a: GpuMatrix<S>,
        inverse: Buffer<S>,
        colouring: Option<DeviceColouring>,
        shared: bool,
    ) -> Result<Box<dyn Colours<Gpu, V>>> {
        match a {
            GpuMatrix::Stencil(a) => to.stencil_sweep(a, inverse, (shared, shared)),
            a => to.coloured(&a, &inverse, colouring),
        }
    }

    fn lines<S: Number, V: Number>(
        &self,
        to: &Gpu,
        a: GpuMatrix<S>,
        factors: (usize, Buffer<S>),
        shared: bool,
    ) -> Result<Box<dyn Colours<Gpu, V>>> {
        to.line_relaxation(a.on_grid()?.clone(), factors, shared)
    }
}
