//! The steps of set-up on a GPU, and how its levels are stored there.

use super::coarse_numbering::{DeviceCoarse, Splitting};
use super::deferred_checks::DeferredChecks;
use super::functions::DeviceFunctions;
use super::rounding_loss::{self, Candidate as Measurable};
use super::scaling::{self, By as Factor, Factors, Rounding as StoreRounding};
use super::{
    DeviceAggregates, DeviceCsr, DeviceGraph, DeviceNearNullSpace, DevicePattern, aggressive, dense, diagonal,
    eigenvalue, galerkin, gather_blocks, lanczos, strength, transpose,
};
use crate::backend::parameters::{Estimate, StrengthMeasure};
use crate::backend::setup::{
    By, Candidate, FormatRequest, Held, Loss, Measured, NearNullVectors, OperatorProduct, Rounding, Scaled, Setup,
    SetupMatrix, SetupPattern, StorageHint, Store, Stored, Symbolic, at_level,
};
use crate::backend::spectrum::Largest;
use crate::backend::{Colours, Operator};
use crate::error::Result;
use crate::gpu::{Buffer, Format, FormatQuery, Gpu, Slice, to_scalar};
use crate::scalar::{Number, Scalar, Sums};
use crate::sparse::{Block, SharedCsr};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

impl<S: Number> SetupMatrix for DeviceCsr<S> {
    type Pattern = DevicePattern;

    fn rows(&self) -> usize {
        self.rows
    }

    fn block(&self) -> Block {
        self.block
    }

    fn entries(&self) -> usize {
        self.values.len()
    }

    fn pattern(&self) -> DevicePattern {
        DeviceCsr::pattern(self)
    }

    fn value_bytes(&self, references: usize) -> usize {
        if Arc::strong_count(&self.values) > references { 0 } else { self.values.owned_bytes() }
    }
}

impl SetupPattern for DevicePattern {
    fn bytes(&self, references: usize) -> usize {
        DevicePattern::bytes(self, references)
    }
}

/// A pattern that a step reuses.
impl Symbolic for DevicePattern {
    fn bytes(&self) -> usize {
        DevicePattern::bytes(self, 1)
    }
}

impl Symbolic for Arc<transpose::TransposeSymbolic> {
    fn bytes(&self) -> usize {
        transpose::TransposeSymbolic::bytes(self)
    }
}

impl Symbolic for Arc<galerkin::GalerkinSymbolic> {
    fn bytes(&self) -> usize {
        galerkin::GalerkinSymbolic::bytes(self)
    }

    fn drop_positions(&self) -> bool {
        galerkin::GalerkinSymbolic::drop_positions(self)
    }
}

impl Held for DeviceGraph {
    fn bytes(&self) -> usize {
        DeviceGraph::bytes(self)
    }
}

impl Held for DeviceNearNullSpace {
    fn bytes(&self) -> usize {
        self.vectors.owned_bytes()
    }
}

impl NearNullVectors for DeviceNearNullSpace {
    fn count(&self) -> usize {
        self.count
    }
}

impl Setup for Gpu {
    type Matrix<S: Number> = DeviceCsr<S>;
    type Pattern = DevicePattern;
    type Graph = DeviceGraph;
    type Splitting = Splitting;
    type Aggregates = DeviceAggregates;
    type NearNullSpace = DeviceNearNullSpace;
    type Functions = DeviceFunctions;
    type Within = DevicePattern;
    type Nodes = DevicePattern;
    type Transposition = Arc<transpose::TransposeSymbolic>;
    type Product = Arc<galerkin::GalerkinSymbolic>;
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

    fn place(waits: usize) -> String {
        format!("device, which the host waited for {waits} times")
    }

    fn checks(&self) -> DeferredChecks {
        DeferredChecks::new(self)
    }

    fn evaluate(&self, checks: DeferredChecks) -> Result<()> {
        checks.verify()
    }

    fn to_scalar<T: Scalar>(&self, a: DeviceCsr<T>) -> Result<DeviceCsr<T>> {
        to_scalar(self, &a)
    }

    fn to_nodes<T: Scalar>(
        &self,
        a: &DeviceCsr<T>,
        size: usize,
        symbolic: Option<&DevicePattern>,
    ) -> Result<(DeviceCsr<T>, DevicePattern)> {
        let nodes = match symbolic {
            Some(pattern) => gather_blocks::numeric(self, a, pattern)?,
            None => gather_blocks::gather(self, a, size)?,
        };
        let pattern = nodes.pattern();
        Ok((nodes, pattern))
    }

    fn constants(&self, rows: usize, dofs_per_node: usize) -> Result<DeviceNearNullSpace> {
        DeviceNearNullSpace::constants(self, rows, dofs_per_node)
    }

    fn fetch<T: Scalar>(&self, a: &DeviceCsr<T>) -> Result<SharedCsr<f64>> {
        a.fetch(self)?.into_shared().cast()
    }

    fn interleaved_functions(&self, unknowns: usize, count: usize) -> Result<DeviceFunctions> {
        DeviceFunctions::interleaved(self, unknowns, count)
    }

    fn given_functions(&self, of: &[u8]) -> Result<DeviceFunctions> {
        DeviceFunctions::given(self, of)
    }

    fn coarse_functions(&self, functions: &DeviceFunctions, coarse: &Splitting) -> Result<DeviceFunctions> {
        functions.coarse(self, coarse)
    }

    fn within_functions<T: Scalar>(
        &self,
        functions: &DeviceFunctions,
        a: &DeviceCsr<T>,
        symbolic: Option<&DevicePattern>,
    ) -> Result<(DeviceCsr<T>, DevicePattern)> {
        let within = match symbolic {
            Some(pattern) => functions.numeric(self, a, pattern)?,
            None => functions.within(self, a)?,
        };
        let pattern = within.pattern();
        Ok((within, pattern))
    }

    fn strength<T: Scalar>(&self, a: &DeviceCsr<T>, measure: &StrengthMeasure, level: usize) -> Result<DeviceGraph> {
        match *measure {
            StrengthMeasure::Classical { theta, max_row_sum } => strength::classical(self, a, theta, max_row_sum),
            StrengthMeasure::Absolute { theta } => strength::absolute(self, a, theta),
            StrengthMeasure::Symmetric { theta } => {
                let measure = strength::Symmetric::new(self, a)?;
                let theta = match theta {
                    Some(theta) => theta,
                    None => StrengthMeasure::symmetric_threshold(a.block, level, measure.scale()?),
                };
                measure.graph(theta)
            }
        }
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

    fn transpose<T: Scalar>(&self, a: &DeviceCsr<T>) -> Result<DeviceCsr<T>> {
        transpose::transpose(self, a)
    }

    fn transpose_symbolic<T: Scalar>(
        &self,
        a: &DeviceCsr<T>,
        _: &DevicePattern,
    ) -> Result<Arc<transpose::TransposeSymbolic>> {
        Ok(Arc::new(transpose::transpose_and_symbolic(self, a)?.1))
    }

    fn transpose_numeric<T: Scalar>(
        &self,
        symbolic: &Arc<transpose::TransposeSymbolic>,
        a: &DeviceCsr<T>,
        transposed: &DevicePattern,
    ) -> Result<DeviceCsr<T>> {
        Ok(transposed.with(symbolic.numeric(self, &a.values)?))
    }

    fn product<T: Scalar>(
        &self,
        r: &DeviceCsr<T>,
        a: &DeviceCsr<T>,
        p: &DeviceCsr<T>,
    ) -> Result<(DeviceCsr<T>, Arc<galerkin::GalerkinSymbolic>)> {
        let (coarse, symbolic) = galerkin::product(self, r, a, p)?;
        Ok((coarse, Arc::new(symbolic)))
    }

    fn product_numeric<T: Scalar>(
        &self,
        symbolic: &Arc<galerkin::GalerkinSymbolic>,
        pattern: &DevicePattern,
        r: &DeviceCsr<T>,
        a: &DeviceCsr<T>,
        p: &DeviceCsr<T>,
    ) -> Result<(DeviceCsr<T>, Arc<galerkin::GalerkinSymbolic>)> {
        let values = galerkin::numeric(self, symbolic, r, a, p)?;
        Ok((pattern.with(values), Arc::clone(symbolic)))
    }

    fn inverse_diagonal<T: Scalar>(
        &self,
        a: &DeviceCsr<T>,
        width: usize,
        l1: bool,
        factors: Option<&Factors>,
    ) -> Result<Buffer<T>> {
        diagonal::inverse(self, a, width, l1, factors.map(|factors| &*factors.s))
    }

    fn largest_eigenvalue<T: Scalar>(
        &self,
        estimate: &Estimate,
        a: &DeviceCsr<T>,
        inverse: &Slice<T>,
        earlier: Option<&Largest>,
    ) -> Result<Largest> {
        eigenvalue::largest(self, estimate, a, inverse, earlier)
    }

    fn as_operator<T: Scalar>(&self, a: &DeviceCsr<T>) -> Result<Box<dyn Operator<Gpu, T>>> {
        self.csr_operator(a)
    }

    fn largest_eigenvalue_of<T: Scalar>(
        &self,
        steps: usize,
        n: usize,
        product: OperatorProduct<'_, Gpu, T>,
    ) -> Result<Largest> {
        lanczos::largest(self, steps, n, product)
    }

    fn dense_inverse<T: Scalar, S: Number>(&self, a: &DeviceCsr<T>) -> Result<Buffer<S>> {
        dense::inverse(self, a)
    }

    fn scaling_factors<T: Scalar>(
        &self,
        matrices: &[&DeviceCsr<T>],
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
        a: &DeviceCsr<T>,
        rows: By<'_, Factors>,
        columns: By<'_, Factors>,
    ) -> Result<DeviceCsr<T>> {
        scaling::apply(self, a, factor(rows), factor(columns))
    }

    fn stored<T: Scalar, S: Number>(
        &self,
        a: &DeviceCsr<T>,
        rounding: Rounding<'_, Factors>,
        which: Stored,
        checks: &Mutex<DeferredChecks>,
    ) -> Result<DeviceCsr<S>> {
        let rounding = match rounding {
            Rounding::Nearest(rows, columns) => StoreRounding::Nearest(factor(rows), factor(columns)),
            Rounding::RowSums(factors) => StoreRounding::Keeping(&factors.s),
        };
        let (Stored { what, level, may_vanish }, mut checks) = (which, lock(checks.lock()));
        scaling::store(self, a, rounding, &mut checks, move |result| at_level(level, result), (what, may_vanish))
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

    fn choose_formats(&self, requests: &[FormatRequest<DevicePattern>], sums: Sums) -> Result<Option<Vec<Format>>> {
        if sums == Sums::Rounded {
            return Ok(None);
        }
        self.begin_step(None, "formats");
        let wanted = |request: &FormatRequest<DevicePattern>| FormatQuery {
            pattern: request.pattern.clone(),
            storage: request.storage,
            sums: request.sums,
        };
        Format::of_all(self, &requests.iter().map(wanted).collect::<Vec<_>>()).map(Some)
    }

    fn format_bytes(format: &Format) -> usize {
        format.kept_bytes()
    }

    fn diagonal<T: Scalar>(&self, a: &DeviceCsr<T>) -> Result<Buffer<f64>> {
        diagonal::entries(self, a)
    }

    fn random_right_hand_side<T: Scalar>(&self, a: &DeviceCsr<T>) -> Result<(Buffer<f64>, Buffer<f64>)> {
        rounding_loss::start(self, a)
    }

    fn energy<T: Scalar>(&self, a: &DeviceCsr<T>, x: &Slice<f64>) -> Result<f64> {
        rounding_loss::energy(self, a, x)
    }

    /// Both formats in one pass, and all candidates with one wait.
    fn rounding_losses<T: Scalar>(
        &self,
        candidates: &[Candidate<'_, Gpu, T>],
        _: &(dyn Fn(&Loss, f64) -> bool + Sync),
    ) -> Result<Vec<Measured>> {
        let all: Vec<_> = candidates.iter().map(measurable).collect();
        let found = rounding_loss::measure(self, &all)?;
        let each = candidates.iter().zip(found).map(|(candidate, found)| {
            let loss = |(error, vanished): (f64, f64)| match candidate.losses {
                Some(_) => Loss { error: error / found.weight, vanished },
                None => Loss::OUT_OF_RANGE,
            };
            Measured { energy: found.energy.abs() / found.weight, f16: loss(found.f16), bf16: loss(found.bf16) }
        });
        Ok(each.collect())
    }
}

fn measurable<'a, T: Scalar>(candidate: &Candidate<'a, Gpu, T>) -> Measurable<'a, T> {
    let Candidate { matrix, is_transfer, diagonal, smooth, losses } = *candidate;
    Measurable { matrix, is_transfer, diagonal: Some(diagonal), smooth, losses }
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
        a: DeviceCsr<S>,
        hint: StorageHint,
        format: &mut Option<Format>,
    ) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        to.operator_in(a, hint.sums, format)
    }

    fn operator_and_l1<T: Scalar, V: Number>(
        &self,
        to: &Gpu,
        a: DeviceCsr<T>,
        hint: StorageHint,
        format: &mut Option<Format>,
        l1: bool,
    ) -> Result<(Box<dyn Operator<Gpu, V>>, Option<Buffer<T>>)> {
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

    fn array<S: Number>(&self, _: &Gpu, values: Buffer<S>) -> Result<Buffer<S>> {
        Ok(values)
    }

    fn dense<S: Number, V: Number>(&self, to: &Gpu, n: usize, values: Buffer<S>) -> Result<Box<dyn Operator<Gpu, V>>> {
        to.dense_operator(n, values)
    }

    fn colours<S: Number, V: Number>(
        &self,
        to: &Gpu,
        a: DeviceCsr<S>,
        inverse: Buffer<S>,
        _: bool,
    ) -> Result<Box<dyn Colours<Gpu, V>>> {
        to.coloured(&a, &inverse)
    }
}
