//! The steps of set-up on the host.

use super::any_matrix::AnyOperator;
use super::distributed::divided::{self, DividedMatrix};
use super::distributed::product::{self, Factors};
use super::distributed::transposition::{DividedTransposition, transposed};
use super::eigenvalue::DividedProducts;
use super::functions::Functions;
use super::galerkin::{self, ProductSymbolic};
use super::matrix::{HostMatrix, HostPattern, HostTransposition};
use super::scaling::{self, Rounding as StoreRounding};
use super::transpose::{self, TransposeSymbolic};
use super::{Host, aggressive, dense, diagonal, lanczos, rounding_loss, stencil};
use crate::backend::Operator;
use crate::backend::common::line_axes;
use crate::backend::parameters::Estimate;
use crate::backend::setup::{
    By, Candidate, Coarse, CoarseSet, Held, Measured, OperatorProduct, Rounding, Scaled, Setup, SetupMatrix, Stored,
};
use crate::backend::spectrum::Largest;
use crate::comm::{Distribution, DividedLevel, Reduction};
use crate::error::{Result, fail, try_collect, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, Colouring, CsrView, Graph, NearNullSpace, OwnRows, SharedCsr, SharedTransfer};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

impl Held for Graph {
    fn bytes(&self) -> usize {
        Graph::bytes(self)
    }
}

/// A C/F splitting: `true` for the rows that are also coarse unknowns. Where set-up is divided, of own rows and ghosts.
#[derive(Debug, PartialEq)]
pub struct Splitting {
    of: Vec<bool>,
    /// Coarse unknowns of all ranks.
    count: usize,
}

impl Splitting {
    /// Of own rows and ghosts, with so many coarse unknowns on all ranks.
    pub fn of_ranks(of: Vec<bool>, count: usize) -> Splitting {
        Splitting { of, count }
    }
}

impl From<Vec<bool>> for Splitting {
    fn from(of: Vec<bool>) -> Splitting {
        let count = of.iter().filter(|c| **c).count();
        Splitting { of, count }
    }
}

impl Deref for Splitting {
    type Target = [bool];

    fn deref(&self) -> &[bool] {
        &self.of
    }
}

impl Held for Splitting {
    fn bytes(&self) -> usize {
        size_of_val(self.of.as_slice())
    }
}

impl CoarseSet for Splitting {
    fn count(&self) -> usize {
        self.count
    }
}

/// Aggregates of nodes. Where set-up is divided, of own nodes and ghosts.
#[derive(Debug, PartialEq)]
pub struct Aggregates {
    /// Number of the aggregate of each node, -1 for none.
    pub of: Vec<i32>,
    /// How many there are, on all ranks.
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

impl Setup for Host {
    type Matrix<S: Number> = HostMatrix<S>;
    type Pattern = HostPattern;
    type Graph = Graph;
    type Splitting = Splitting;
    type Aggregates = Aggregates;
    type NearNullSpace = NearNullSpace;
    type Colouring = Colouring;
    type Functions = Functions;
    type Within = ();
    type Nodes = ();
    type Transposition = HostTransposition;
    type Product = ProductSymbolic;
    type Factors = Vec<f64>;
    /// Over ranks.
    type Format = OwnRows;
    type Checks = ();
    const SCALES_AT_ONCE: bool = true;

    fn run<R: Send>(&self, operations: usize, work: impl FnOnce() -> R + Send) -> R {
        Host::run(self, operations, work)
    }

    fn format_bytes(rows: &OwnRows) -> usize {
        rows.bytes()
    }

    fn setup_place(_: usize) -> String {
        "host".to_string()
    }

    fn checks(&self) {}

    fn evaluate(&self, (): ()) -> Result<()> {
        Ok(())
    }

    fn to_scalar<T: Scalar>(&self, a: HostMatrix<T>) -> Result<HostMatrix<T>> {
        let rows = match a {
            HostMatrix::Rows(rows) => rows,
            // Without blocks, as those of a matrix over ranks are taken apart.
            HostMatrix::Divided(rows) => return Ok(HostMatrix::Divided(rows)),
            a => a.to_rows()?.into_owned(),
        };
        let is_scalar = rows.structure.block == Block::SCALAR;
        if is_scalar { Ok(rows.into()) } else { Ok(rows.view().to_scalar()?.into_shared().into()) }
    }

    fn to_nodes<T: Scalar>(&self, a: &HostMatrix<T>, size: usize, _: Option<&()>) -> Result<(HostMatrix<T>, ())> {
        match self.divided(a) {
            Some((over, a)) => Ok((HostMatrix::Divided(divided::to_nodes(over, a, size)?), ())),
            None => Ok((a.view().to_blocks(size)?.into_shared().into(), ())),
        }
    }

    fn constants<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<NearNullSpace> {
        let (rows, dofs) = (a.own_rows(), a.block().rows);
        NearNullSpace::constants(rows * dofs, dofs)
    }

    fn all_entries<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<usize> {
        match self.divided(a) {
            Some((over, a)) => divided::sum(over, a.matrix.values.as_slice().len()),
            None => Ok(a.entries()),
        }
    }

    fn is_everywhere(&self, rows: usize, is_here: bool) -> Result<bool> {
        match self.dividing.as_ref().filter(|over| over.is_divided(rows)) {
            Some(over) => Ok(over.ranks.reduce(i64::from(is_here), Reduction::Min)? != 0),
            None => Ok(is_here),
        }
    }

    fn fetch<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<SharedCsr<f64>> {
        a.to_rows()?.cast()
    }

    fn interleaved_functions(&self, unknowns: usize, count: usize) -> Result<Functions> {
        Functions::interleaved(unknowns, count)
    }

    fn functions_per_unknown(&self, of: &[u8]) -> Result<Functions> {
        Functions::per_unknown(of)
    }

    fn coarse_functions(&self, functions: &Functions, coarse: &Splitting) -> Result<Functions> {
        functions.coarse(coarse)
    }

    fn within_functions<T: Scalar>(
        &self,
        functions: &Functions,
        a: &HostMatrix<T>,
        _: Option<&()>,
    ) -> Result<(HostMatrix<T>, ())> {
        Ok((functions.within(&a.view())?.into_shared().into(), ()))
    }

    fn same_graph(&self, one: &Graph, other: &Graph) -> Result<bool> {
        Ok(one == other)
    }

    fn same_coarse(&self, one: &Coarse<Host>, other: &Coarse<Host>) -> Result<bool> {
        Ok(match (one, other) {
            (Coarse::Splitting(one), Coarse::Splitting(other)) => one == other,
            (Coarse::TwoPass(first, one), Coarse::TwoPass(other_first, other)) => first == other_first && one == other,
            (Coarse::Aggregates(one), Coarse::Aggregates(other)) => one == other,
            (Coarse::Grid(one), Coarse::Grid(other)) => one == other,
            _ => false,
        })
    }

    fn second_pass(&self, graph: &Graph, first: &Splitting, seed: u64) -> Result<Splitting> {
        aggressive::thin(graph, first, seed).map(Splitting::from)
    }

    fn transpose<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<HostMatrix<T>> {
        match a {
            HostMatrix::Transfer(p) => {
                Ok(HostMatrix::Transfer(SharedTransfer { transposed: !p.transposed, ..p.clone() }))
            }
            a => match self.divided(a) {
                Some((over, a)) => Ok(HostMatrix::Divided(transposed(over, a)?)),
                None => Ok(transpose::transpose(&a.to_rows()?.view())?.into_shared().into()),
            },
        }
    }

    fn transpose_symbolic<T: Scalar>(&self, a: &HostMatrix<T>, transposed: &HostPattern) -> Result<HostTransposition> {
        Ok(match (a, self.divided(a)) {
            (_, Some((over, a))) => HostTransposition::Divided(Arc::new(DividedTransposition::new(over, a)?)),
            (HostMatrix::Rows(a), _) => {
                HostTransposition::Rows(Arc::new(TransposeSymbolic::new(&a.view(), transposed.rows())?))
            }
            _ => HostTransposition::Grid,
        })
    }

    fn transpose_numeric<T: Scalar>(
        &self,
        symbolic: &HostTransposition,
        a: &HostMatrix<T>,
        transposed: &HostPattern,
    ) -> Result<HostMatrix<T>> {
        match (symbolic, self.divided(a), a, transposed) {
            (HostTransposition::Divided(symbolic), Some((over, a)), _, HostPattern::Divided(transposed)) => {
                Ok(HostMatrix::Divided(transposed.with(symbolic.numeric(over, a)?)))
            }
            (HostTransposition::Rows(symbolic), _, HostMatrix::Rows(a), transposed) => {
                let values = Arc::new(symbolic.numeric(&a.view(), transposed.rows())?);
                Ok(SharedCsr { structure: Arc::clone(transposed.rows()), values }.into())
            }
            _ => self.transpose(a),
        }
    }

    fn product<T: Scalar>(
        &self,
        r: &HostMatrix<T>,
        a: &HostMatrix<T>,
        p: &HostMatrix<T>,
    ) -> Result<(HostMatrix<T>, ProductSymbolic)> {
        let product = match (r, a, p) {
            (HostMatrix::Transfer(r), HostMatrix::Stencil(a), HostMatrix::Transfer(p)) => {
                HostMatrix::Stencil(stencil::galerkin::product(r, a, p)?)
            }
            (r, a, p) => match self.factors(r, a, p) {
                Some((over, factors)) => product::product(over, factors)?,
                None => {
                    let (r, a, p) = (r.to_rows()?, a.to_rows()?, p.to_rows()?);
                    galerkin::product(&r.view(), &a.view(), &p)?.into()
                }
            },
        };
        Ok((product, ProductSymbolic::default()))
    }

    fn product_numeric<T: Scalar>(
        &self,
        symbolic: &ProductSymbolic,
        pattern: &HostPattern,
        r: &HostMatrix<T>,
        a: &HostMatrix<T>,
        p: &HostMatrix<T>,
    ) -> Result<(HostMatrix<T>, ProductSymbolic)> {
        if let Some((over, factors)) = self.factors(r, a, p) {
            return galerkin::product_numeric_divided(over, symbolic, pattern, factors);
        }
        let HostMatrix::Rows(in_rows) = p else { return self.product(r, a, p) };
        let (coarse, symbolic) = galerkin::product_numeric(symbolic, pattern.rows(), &r.view(), &a.view(), in_rows)?;
        Ok((coarse.into(), symbolic))
    }

    fn inverse_diagonal<T: Scalar>(
        &self,
        a: &HostMatrix<T>,
        width: usize,
        l1: bool,
        factors: Option<&Vec<f64>>,
    ) -> Result<Vec<T>> {
        let inverse = match (a, l1) {
            (HostMatrix::Stencil(a), l1) => {
                return stencil::setup::inverse_diagonal(a, width, l1, factors.map(Vec::as_slice));
            }
            (a, true) => diagonal::l1_inverse(&a.view(), width, factors.map(Vec::as_slice))?,
            (a, false) => diagonal::inverse(&a.view(), width, diagonal::AS_IT_IS)?,
        };
        match self.divided(a) {
            Some((_, a)) => divided::of_own(&a.rows, inverse),
            None => Ok(inverse),
        }
    }

    fn line_axes<T: Scalar>(&self, a: &HostMatrix<T>, name: &str) -> Result<[bool; 3]> {
        let a = a.on_grid()?;
        line_axes(&a.pattern.grid, name, || Ok(stencil::coarsening::couplings(a)))
    }

    fn line_factors<T: Scalar>(&self, a: &HostMatrix<T>, axis: usize) -> Result<Vec<T>> {
        stencil::line_relaxation::factors(a.on_grid()?, axis)
    }

    fn largest_eigenvalue<T: Scalar>(
        &self,
        estimate: &Estimate,
        a: &HostMatrix<T>,
        inverse: &[T],
        earlier: Option<&Largest>,
    ) -> Result<Largest> {
        match a {
            HostMatrix::Stencil(a) => estimate.largest(self, a, inverse, earlier),
            a => {
                let level = self.divided(a).map(|(over, a)| a.level(over));
                self.largest_of_rows(estimate, &a.view(), level, inverse, earlier)
            }
        }
    }

    fn as_operator<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<Box<dyn Operator<Host, T>>> {
        match a {
            HostMatrix::Stencil(a) => {
                Ok(Box::new(AnyOperator(Arc::new(stencil::product::StencilOperator::new(self, a.clone())))))
            }
            a => Ok(Box::new(super::operator::Stored::new(self, a.rows().clone()))),
        }
    }

    fn largest_eigenvalue_of<T: Scalar>(
        &self,
        steps: usize,
        n: usize,
        product: OperatorProduct<'_, Host, T>,
    ) -> Result<Largest> {
        lanczos::largest(self, steps, n, product)
    }

    fn dense_inverse<T: Scalar, S: Number>(&self, a: &HostMatrix<T>) -> Result<Vec<S>> {
        match self.divided(a) {
            Some((over, a)) => dense::inverse(&divided::gathered(over, a)?.view()),
            None => dense::inverse(&a.to_rows()?.view()),
        }
    }

    fn largest_off_diagonal<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<f64> {
        match a {
            HostMatrix::Stencil(a) => stencil::setup::largest_off_diagonal(a),
            a => scaling::largest_off_diagonal(&a.view()),
        }
    }

    fn multiplied<T: Scalar>(&self, a: HostMatrix<T>, by: f64) -> Result<HostMatrix<T>> {
        let (from, by) = (a.values().as_slice(), T::from_f64(by));
        let mut values = try_vec(from.len(), T::ZERO)?;
        par::for_each_mut(&mut values, par::GRAIN, |start, to| {
            to.iter_mut().zip(&from[start..]).for_each(|(to, from)| *to = *from * by);
        });
        Ok(a.with_values(values))
    }

    fn scaling_factors<T: Scalar>(
        &self,
        matrices: &[&HostMatrix<T>],
        scaling: &str,
        _: bool,
    ) -> Result<Vec<Result<Scaled<Host, T>>>> {
        let of = |a: &&HostMatrix<T>| {
            let factors = match a {
                HostMatrix::Stencil(a) => stencil::setup::factors(a, scaling)?,
                a => scaling::factors(a.rows(), scaling)?,
            };
            Ok(Scaled { factors, l1_inverse: None })
        };
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
        a: &HostMatrix<T>,
        rows: By<'_, Vec<f64>>,
        columns: By<'_, Vec<f64>>,
    ) -> Result<HostMatrix<T>> {
        let (rows, columns) = (numbers(rows)?, numbers(columns)?);
        if rows.is_none() && columns.is_none() {
            return Ok(a.clone());
        }
        let in_rows = match a {
            HostMatrix::Rows(a) => a,
            HostMatrix::Divided(_) => return fail!(Internal, "a divided matrix came to be scaled"),
            HostMatrix::Stencil(a) => {
                let n = a.pattern.scalar_rows();
                let (rows, columns) = (or_ones(rows, n)?, or_ones(columns, n)?);
                return Ok(HostMatrix::Stencil(stencil::setup::scaled(a, &rows, &columns)?));
            }
            HostMatrix::Transfer(p) => {
                let (grids, b) = (&p.pattern.grids, p.pattern.block);
                let (fine, coarse) = (grids.fine.cells() * b, grids.coarse.cells() * b);
                let (n, m) = if p.transposed { (coarse, fine) } else { (fine, coarse) };
                let (rows, columns) = (or_ones(rows, n)?, or_ones(columns, m)?);
                return Ok(HostMatrix::Transfer(stencil::setup::scaled_transfer(p, &rows, &columns)?));
            }
        };
        let scaled = match (rows, columns) {
            (None, None) => in_rows.clone(),
            (Some(rows), None) => scaling::apply(in_rows, |i| rows[i], |_| 1.0)?,
            (None, Some(columns)) => scaling::apply(in_rows, |_| 1.0, |j| columns[j])?,
            (Some(rows), Some(columns)) => scaling::apply(in_rows, |i| rows[i], |j| columns[j])?,
        };
        Ok(scaled.into())
    }

    fn stored<T: Scalar, S: Number>(
        &self,
        a: &HostMatrix<T>,
        rounding: Rounding<'_, Vec<f64>>,
        which: Stored,
        _: &Mutex<()>,
    ) -> Result<HostMatrix<S>> {
        let stored = self.rounded(a, rounding, which);
        // A number that the format cannot hold leads to wider formats, on all ranks.
        match (self.divided(a), T::PRECISION == S::PRECISION) {
            (Some((over, _)), false) => over.ranks.agree(stored),
            _ => stored,
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

    fn random_right_hand_side<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut d = match a {
            HostMatrix::Stencil(a) => stencil::setup::diagonal(a)?,
            a => diagonal::entries(&a.view())?,
        };
        d.iter_mut().for_each(|d| *d = d.abs());
        let mut b = try_vec(d.len(), 0.0)?;
        for (i, b) in b.iter_mut().enumerate() {
            *b = (hash(i, 4) as i64 as f64 / i64::MAX as f64) * d[i].sqrt();
        }
        Ok((d, b))
    }

    fn rounding_losses<T: Scalar>(&self, levels: &[Candidate<'_, Host, T>], smooth: Vec<f64>) -> Result<Vec<Measured>> {
        rounding_loss::measure(levels, smooth)
    }
}

impl Host {
    /// The ranks among which the rows of a matrix are divided, and those of this rank.
    pub(super) fn divided<'a, T>(
        &'a self,
        a: &'a HostMatrix<T>,
    ) -> Option<(&'a Arc<Distribution>, &'a DividedMatrix<T>)> {
        match a {
            HostMatrix::Divided(a) => self.dividing.as_ref().map(|over| (over, a)),
            _ => None,
        }
    }

    /// The factors of a product that are divided, as they then all are.
    fn factors<'a, T>(
        &'a self,
        r: &'a HostMatrix<T>,
        a: &'a HostMatrix<T>,
        p: &'a HostMatrix<T>,
    ) -> Option<(&'a Arc<Distribution>, Factors<'a, T>)> {
        let ((over, r), (_, a), (_, p)) = (self.divided(r)?, self.divided(a)?, self.divided(p)?);
        Some((over, Factors { r, a, p }))
    }

    /// A matrix in another format.
    fn rounded<T: Scalar, S: Number>(
        &self,
        a: &HostMatrix<T>,
        rounding: Rounding<'_, Vec<f64>>,
        which: Stored,
    ) -> Result<HostMatrix<S>> {
        if let (HostMatrix::Rows(a), Rounding::Nearest(rows, columns)) = (a, &rounding)
            && let (Some(rows), Some(columns)) = (numbers(*rows)?, numbers(*columns)?)
        {
            return Ok(scaling::store_scaled(a, (&rows, &columns), (which.what, which.may_vanish))?.into());
        }
        let (scaled, rounding) = match rounding {
            Rounding::Nearest(rows, columns) => (self.scaled(a, rows, columns)?, StoreRounding::Nearest),
            Rounding::RowSums(factors) => (a.clone(), StoreRounding::Keeping(factors)),
        };
        let which = (which.what, which.may_vanish);
        Ok(match &scaled {
            HostMatrix::Rows(a) => scaling::store(a, which, rounding)?.into(),
            HostMatrix::Divided(a) => HostMatrix::Divided(a.with(scaling::store(&a.matrix, which, rounding)?)),
            HostMatrix::Stencil(a) => HostMatrix::Stencil(stencil::setup::stored(a, which, rounding)?),
            HostMatrix::Transfer(p) => HostMatrix::Transfer(stencil::setup::stored_transfer(p, which)?),
        })
    }

    /// The largest eigenvalue of D^-1 A for a matrix in rows.
    pub(super) fn largest_of_rows<T: Scalar>(
        &self,
        estimate: &Estimate,
        a: &CsrView<'_, T>,
        level: Option<DividedLevel<'_>>,
        inverse: &[T],
        earlier: Option<&Largest>,
    ) -> Result<Largest> {
        let Some(level) = level else { return estimate.largest(self, a, inverse, earlier) };
        let largest = estimate.largest(self, &DividedProducts::new(level, a)?, inverse, earlier)?;
        level.over.ranks.status()?;
        Ok(largest)
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

/// These numbers, or ones.
fn or_ones(numbers: Option<Cow<'_, [f64]>>, n: usize) -> Result<Cow<'_, [f64]>> {
    match numbers {
        Some(numbers) => Ok(numbers),
        None => Ok(Cow::Owned(try_vec(n, 1.0)?)),
    }
}
