//! The steps of set-up on the host.

use super::functions::Functions;
use super::galerkin::{self, ProductSymbolic};
use super::scaling::{self, Rounding as StoreRounding};
use super::{Host, aggressive, dense, diagonal, lanczos, rounding_loss, spmv, strength, transpose};
use crate::backend::parameters::{Estimate, StrengthMeasure};
use crate::backend::setup::{
    By, Candidate, Coarse, CoarseSet, Held, Loss, Measured, NearNullVectors, OperatorProduct, Rounding, Scaled, Setup,
    SetupMatrix, SetupPattern, StorageHint, Store, Stored, Symbolic,
};
use crate::backend::spectrum::Largest;
use crate::backend::{Colours, Operator, StorageFactory};
use crate::error::{Result, try_collect, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, Coloured, Colouring, Graph, NearNullSpace, SharedCsr, Structure};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};

impl<S: Number> SetupMatrix for SharedCsr<S> {
    type Pattern = Arc<Structure>;

    fn rows(&self) -> usize {
        self.structure.rows
    }

    fn block(&self) -> Block {
        self.structure.block
    }

    fn entries(&self) -> usize {
        self.values.as_slice().len()
    }

    fn pattern(&self) -> Arc<Structure> {
        Arc::clone(&self.structure)
    }

    fn value_bytes(&self, references: usize) -> usize {
        if Arc::strong_count(&self.values) > references { 0 } else { self.values.owned_bytes() }
    }
}

impl SetupPattern for Arc<Structure> {
    fn bytes(&self, references: usize) -> usize {
        if Arc::strong_count(self) > references { 0 } else { self.owned_bytes() }
    }
}

impl Held for Graph {
    fn bytes(&self) -> usize {
        Graph::bytes(self)
    }
}

/// A C/F splitting: `true` for the rows that are also coarse unknowns.
impl Held for Vec<bool> {
    fn bytes(&self) -> usize {
        size_of_val(self.as_slice())
    }
}

impl CoarseSet for Vec<bool> {
    fn count(&self) -> usize {
        self.iter().filter(|c| **c).count()
    }
}

/// Aggregates of nodes.
#[derive(Debug, PartialEq)]
pub struct Aggregates {
    /// Number of the aggregate of each node, -1 for none.
    pub of: Vec<i32>,
    /// How many there are.
    pub count: usize,
}

impl Held for Aggregates {
    fn bytes(&self) -> usize {
        size_of_val(self.of.as_slice())
    }
}

impl CoarseSet for Aggregates {
    fn count(&self) -> usize {
        self.count
    }
}

impl Held for NearNullSpace {
    fn bytes(&self) -> usize {
        size_of_val(self.vectors.as_slice())
    }
}

impl NearNullVectors for NearNullSpace {
    fn count(&self) -> usize {
        self.count
    }
}

impl Symbolic for Arc<transpose::TransposeSymbolic> {
    fn bytes(&self) -> usize {
        transpose::TransposeSymbolic::bytes(self)
    }
}

impl Setup for Host {
    type Matrix<S: Number> = SharedCsr<S>;
    type Pattern = Arc<Structure>;
    type Graph = Graph;
    type Splitting = Vec<bool>;
    type Aggregates = Aggregates;
    type NearNullSpace = NearNullSpace;
    type Functions = Functions;
    type Within = ();
    type Nodes = ();
    type Transposition = Arc<transpose::TransposeSymbolic>;
    type Product = ProductSymbolic;
    type Factors = Vec<f64>;
    type Format = ();
    type Checks = ();
    const SCALES_AT_ONCE: bool = true;

    fn run<R: Send>(&self, operations: usize, work: impl FnOnce() -> R + Send) -> R {
        Host::run(self, operations, work)
    }

    fn place(_: usize) -> String {
        "host".to_string()
    }

    fn checks(&self) {}

    fn evaluate(&self, (): ()) -> Result<()> {
        Ok(())
    }

    fn to_scalar<T: Scalar>(&self, a: SharedCsr<T>) -> Result<SharedCsr<T>> {
        if a.structure.block == Block::SCALAR { Ok(a) } else { Ok(a.view().to_scalar()?.into_shared()) }
    }

    fn to_nodes<T: Scalar>(&self, a: &SharedCsr<T>, size: usize, _: Option<&()>) -> Result<(SharedCsr<T>, ())> {
        Ok((a.view().to_blocks(size)?.into_shared(), ()))
    }

    fn constants(&self, rows: usize, dofs_per_node: usize) -> Result<NearNullSpace> {
        NearNullSpace::constants(rows, dofs_per_node)
    }

    fn fetch<T: Scalar>(&self, a: &SharedCsr<T>) -> Result<SharedCsr<f64>> {
        a.cast()
    }

    fn interleaved_functions(&self, unknowns: usize, count: usize) -> Result<Functions> {
        Functions::interleaved(unknowns, count)
    }

    fn given_functions(&self, of: &[u8]) -> Result<Functions> {
        Functions::given(of)
    }

    fn coarse_functions(&self, functions: &Functions, coarse: &Vec<bool>) -> Result<Functions> {
        functions.coarse(coarse)
    }

    fn within_functions<T: Scalar>(
        &self,
        functions: &Functions,
        a: &SharedCsr<T>,
        _: Option<&()>,
    ) -> Result<(SharedCsr<T>, ())> {
        Ok((functions.within(&a.view())?.into_shared(), ()))
    }

    fn strength<T: Scalar>(&self, a: &SharedCsr<T>, measure: &StrengthMeasure, level: usize) -> Result<Graph> {
        let a = a.view();
        match *measure {
            StrengthMeasure::Classical { theta, max_row_sum } => strength::classical(&a, theta, max_row_sum),
            StrengthMeasure::Absolute { theta } => strength::absolute(&a, theta),
            StrengthMeasure::Symmetric { theta } => {
                let measure = strength::Symmetric::new(&a)?;
                let threshold = |scale| StrengthMeasure::symmetric_threshold(a.block, level, scale);
                measure.graph(theta.unwrap_or_else(|| threshold(measure.scale())))
            }
        }
    }

    fn same_graph(&self, one: &Graph, other: &Graph) -> Result<bool> {
        Ok(one == other)
    }

    fn same_coarse(&self, one: &Coarse<Host>, other: &Coarse<Host>) -> Result<bool> {
        Ok(match (one, other) {
            (Coarse::Splitting(one), Coarse::Splitting(other)) => one == other,
            (Coarse::TwoPass(first, one), Coarse::TwoPass(other_first, other)) => first == other_first && one == other,
            (Coarse::Aggregates(one), Coarse::Aggregates(other)) => one == other,
            _ => false,
        })
    }

    fn second_pass(&self, graph: &Graph, first: &Vec<bool>, seed: u64) -> Result<Vec<bool>> {
        aggressive::thin(graph, first, seed)
    }

    fn transpose<T: Scalar>(&self, a: &SharedCsr<T>) -> Result<SharedCsr<T>> {
        Ok(transpose::transpose(&a.view())?.into_shared())
    }

    fn transpose_symbolic<T: Scalar>(
        &self,
        a: &SharedCsr<T>,
        transposed: &Arc<Structure>,
    ) -> Result<Arc<transpose::TransposeSymbolic>> {
        Ok(Arc::new(transpose::TransposeSymbolic::new(&a.view(), transposed)?))
    }

    fn transpose_numeric<T: Scalar>(
        &self,
        symbolic: &Arc<transpose::TransposeSymbolic>,
        a: &SharedCsr<T>,
        transposed: &Arc<Structure>,
    ) -> Result<SharedCsr<T>> {
        let values = symbolic.numeric(&a.view(), transposed)?;
        Ok(SharedCsr { structure: Arc::clone(transposed), values: Arc::new(values) })
    }

    fn product<T: Scalar>(
        &self,
        r: &SharedCsr<T>,
        a: &SharedCsr<T>,
        p: &SharedCsr<T>,
    ) -> Result<(SharedCsr<T>, ProductSymbolic)> {
        Ok((galerkin::product(&r.view(), &a.view(), p)?, ProductSymbolic::default()))
    }

    fn product_numeric<T: Scalar>(
        &self,
        symbolic: &ProductSymbolic,
        pattern: &Arc<Structure>,
        r: &SharedCsr<T>,
        a: &SharedCsr<T>,
        p: &SharedCsr<T>,
    ) -> Result<(SharedCsr<T>, ProductSymbolic)> {
        galerkin::product_numeric(symbolic, pattern, &r.view(), &a.view(), p)
    }

    fn inverse_diagonal<T: Scalar>(
        &self,
        a: &SharedCsr<T>,
        width: usize,
        l1: bool,
        factors: Option<&Vec<f64>>,
    ) -> Result<Vec<T>> {
        match l1 {
            true => diagonal::l1_inverse(&a.view(), width, factors.map(Vec::as_slice)),
            false => diagonal::inverse(&a.view(), width, diagonal::AS_IT_IS),
        }
    }

    fn largest_eigenvalue<T: Scalar>(
        &self,
        estimate: &Estimate,
        a: &SharedCsr<T>,
        inverse: &[T],
        earlier: Option<&Largest>,
    ) -> Result<Largest> {
        estimate.largest(self, &a.view(), inverse, earlier)
    }

    fn as_operator<T: Scalar>(&self, a: &SharedCsr<T>) -> Result<Box<dyn Operator<Host, T>>> {
        Ok(Box::new(super::operator::Stored::new(self, a.clone())))
    }

    fn largest_eigenvalue_of<T: Scalar>(
        &self,
        steps: usize,
        n: usize,
        product: OperatorProduct<'_, Host, T>,
    ) -> Result<Largest> {
        lanczos::largest(self, steps, n, product)
    }

    fn dense_inverse<T: Scalar, S: Number>(&self, a: &SharedCsr<T>) -> Result<Vec<S>> {
        dense::inverse(&a.view())
    }

    fn scaling_factors<T: Scalar>(
        &self,
        matrices: &[&SharedCsr<T>],
        scaling: &str,
        _: bool,
    ) -> Result<Vec<Result<Scaled<Host, T>>>> {
        let of = |a: &&SharedCsr<T>| Ok(Scaled { factors: scaling::factors(a, scaling)?, l1_inverse: None });
        Ok(matrices.iter().map(of).collect())
    }

    fn has_inverse_scaling(&self, factors: &Vec<f64>) -> bool {
        scaling::inverse_scaling(factors).is_ok()
    }

    fn inverse_scaling(&self, factors: &Vec<f64>) -> Result<(f64, Vec<f32>)> {
        scaling::inverse_scaling(factors)
    }

    fn scaled<T: Scalar>(
        &self,
        a: &SharedCsr<T>,
        rows: By<'_, Vec<f64>>,
        columns: By<'_, Vec<f64>>,
    ) -> Result<SharedCsr<T>> {
        match (numbers(rows)?, numbers(columns)?) {
            (None, None) => Ok(a.clone()),
            (Some(rows), None) => scaling::apply(a, |i| rows[i], |_| 1.0),
            (None, Some(columns)) => scaling::apply(a, |_| 1.0, |j| columns[j]),
            (Some(rows), Some(columns)) => scaling::apply(a, |i| rows[i], |j| columns[j]),
        }
    }

    fn stored<T: Scalar, S: Number>(
        &self,
        a: &SharedCsr<T>,
        rounding: Rounding<'_, Vec<f64>>,
        which: Stored,
        _: &Mutex<()>,
    ) -> Result<SharedCsr<S>> {
        match rounding {
            Rounding::Nearest(rows, columns) => {
                scaling::store(&self.scaled(a, rows, columns)?, (which.what, which.may_vanish), StoreRounding::Nearest)
            }
            Rounding::RowSums(factors) => {
                scaling::store(a, (which.what, which.may_vanish), StoreRounding::Keeping(factors))
            }
        }
    }

    fn stored_array<T: Scalar, S: Number>(
        &self,
        exact: &Vec<T>,
        factor: f64,
        _: usize,
        _: &Mutex<()>,
    ) -> Result<Vec<S>> {
        scaling::stored(exact, factor)
    }

    fn diagonal<T: Scalar>(&self, a: &SharedCsr<T>) -> Result<Vec<f64>> {
        diagonal::entries(&a.view())
    }

    fn random_right_hand_side<T: Scalar>(&self, a: &SharedCsr<T>) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut d = diagonal::entries(&a.view())?;
        d.iter_mut().for_each(|d| *d = d.abs());
        let mut b = try_vec(d.len(), 0.0)?;
        for (i, b) in b.iter_mut().enumerate() {
            *b = (hash(i, 4) as i64 as f64 / i64::MAX as f64) * d[i].sqrt();
        }
        Ok((d, b))
    }

    fn energy<T: Scalar>(&self, a: &SharedCsr<T>, x: &[f64]) -> Result<f64> {
        let mut y = try_vec(x.len(), 0.0)?;
        spmv::apply(&a.view(), 1.0, x, 0.0, &mut y);
        Ok(par::sum(x.len(), par::GRAIN, |range| range.map(|i| x[i] * y[i]).sum()))
    }

    fn rounding_losses<T: Scalar>(
        &self,
        candidates: &[Candidate<'_, Host, T>],
        affordable: &(dyn Fn(&Loss, f64) -> bool + Sync),
    ) -> Result<Vec<Measured>> {
        rounding_loss::measure(candidates, affordable)
    }
}

/// The numbers that rows or columns are multiplied by.
fn numbers(by: By<'_, Vec<f64>>) -> Result<Option<Cow<'_, [f64]>>> {
    Ok(match by {
        By::One => None,
        By::Times(factors) => Some(Cow::Borrowed(factors)),
        By::Over(factors) => Some(Cow::Owned(try_collect(factors.iter().map(|s| 1.0 / s))?)),
    })
}

/// What the host computed is stored where the solve phase runs: as it is on the host, copied to a GPU.
impl<B: StorageFactory> Store<B> for Host {
    fn operator<S: Number, X: Number, Y: Number>(
        &self,
        to: &B,
        a: SharedCsr<S>,
        hint: StorageHint,
        _: &mut Option<()>,
    ) -> Result<Box<dyn Operator<B, X, Y>>> {
        to.matrix(a, hint.columns, hint.sums)
    }

    fn array<S: Number>(&self, to: &B, values: Vec<S>) -> Result<B::Buffer<S>> {
        to.array(values)
    }

    fn dense<S: Number, V: Number>(&self, to: &B, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<B, V>>> {
        to.dense(n, values)
    }

    fn factorised<T: Scalar, V: Number>(&self, to: &B, a: &SharedCsr<T>) -> Result<Option<Box<dyn Operator<B, V>>>> {
        to.factorised(a)
    }

    fn colours<S: Number, V: Number>(
        &self,
        to: &B,
        a: SharedCsr<S>,
        inverse: Vec<S>,
        shared: bool,
    ) -> Result<Box<dyn Colours<B, V>>> {
        let colouring = Colouring::new(&a.structure.view::<f64>(&[]))?;
        to.colours(Coloured { inverse, colouring, matrix: a, shared })
    }
}
