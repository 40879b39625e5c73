//! The contract of set-up: its steps, as the driver in [`crate::amg`] calls them and host and GPU implement them.
//!
//! A set-up backend computes the levels of a hierarchy: strength of connection, coarse unknowns, prolongator,
//! restriction, Galerkin product, each with a symbolic phase, whose data an update takes over, and a numeric one. A
//! solve backend is where the levels are stored and cycles run. [`Store`] leads from one to the other; where both are
//! the same device nothing leaves it.

use super::parameters::{Estimate, MAX_FUNCTIONS};
use super::spectrum::Largest;
use super::{Backend, Colours, Columns, Operator};
use crate::error::{Error, Result};
use crate::scalar::{Number, Precision, Scalar, Sums};
use crate::sparse::{Block, Coarsened, SharedCsr};
use std::sync::Mutex;

/// A matrix of dense blocks in rows, where set-up runs. Clones share the arrays.
pub(crate) trait SetupMatrix: Clone + Send + Sync + 'static {
    /// Its pattern.
    type Pattern;
    /// Block rows.
    fn rows(&self) -> usize;
    /// Dimensions of the blocks.
    fn block(&self) -> Block;
    /// Stored scalar values.
    fn entries(&self) -> usize;
    /// The pattern, shared.
    fn pattern(&self) -> Self::Pattern;
    /// Bytes of values, if at most so many `references` share them; 0 if there are others.
    fn value_bytes(&self, references: usize) -> usize;
    /// Scalar rows.
    fn scalar_rows(&self) -> usize {
        self.rows() * self.block().rows
    }
}

/// The pattern of a matrix. Clones share the arrays.
pub(crate) trait SetupPattern: Clone + Send + Sync + 'static {
    /// Bytes, if at most so many `references` share it; 0 if there are others.
    fn bytes(&self, references: usize) -> usize;
}

/// Data of a level, such as a strength graph.
pub(crate) trait Held: Send + Sync + 'static {
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// Coarse unknowns of one kind.
pub(crate) trait CoarseSet: Held {
    /// Block rows of the coarse matrix.
    fn count(&self) -> usize;
}

/// Vectors that coarse levels must represent.
pub(crate) trait NearNullVectors<S: Setup>: Held + Sized {
    /// Number of vectors.
    fn count(&self) -> usize;
    /// A copy of one of them.
    fn vector(&self, setup: &S, i: usize) -> Result<S::Buffer<f64>>;
    /// The same vectors on the coarse unknowns of a splitting.
    fn injected(&self, setup: &S, coarse: &S::Splitting) -> Result<Self>;
    /// Other vectors for the same nodes.
    fn with_vectors(&self, setup: &S, vectors: &[S::Buffer<f64>]) -> Result<Self>;
    /// A prolongator from a level with this near-null space, without the smallest blocks of each row as long as `share` of
    /// the norm of the row stays. The other blocks are corrected so that the row maps the near-null space to the same as
    /// before. With the pattern of an earlier result, where there is one, the blocks of that stay.
    fn filtered<T: Scalar>(
        &self,
        setup: &S,
        p: &S::Matrix<T>,
        share: f64,
        pattern: Option<&S::Pattern>,
    ) -> Result<S::Matrix<T>>;
}

/// Symbolic data of a step: they depend on patterns alone, and reduce the step for other values to its numeric phase.
pub(crate) trait Symbolic: Clone + Send + Sync + 'static {
    /// Bytes that are not shared with levels.
    fn bytes(&self) -> usize;
    /// Drops data that only save time. Returns whether there were any.
    fn drop_positions(&self) -> bool {
        false
    }
}

/// A step without symbolic data.
impl Symbolic for () {
    fn bytes(&self) -> usize {
        0
    }
}

/// Coarse unknowns, as one of the two kinds of AMG sees them.
pub(crate) enum Coarse<S: Setup> {
    /// Classical AMG: a C/F splitting.
    Splitting(S::Splitting),
    /// Classical AMG with aggressive coarsening: the splitting of the first pass, and the one that the second pass left
    /// of it.
    TwoPass(S::Splitting, S::Splitting),
    /// Aggregation.
    Aggregates(S::Aggregates),
    /// A structured grid: the axes along which it is coarsened.
    Grid(Coarsened),
}

impl<S: Setup> Coarse<S> {
    /// Block rows of the coarse matrix.
    pub fn count(&self) -> usize {
        match self {
            Coarse::Splitting(coarse) | Coarse::TwoPass(_, coarse) => coarse.count(),
            Coarse::Aggregates(aggregates) => aggregates.count(),
            Coarse::Grid(grids) => grids.coarse.cells(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Coarse::Splitting(coarse) => coarse.bytes(),
            Coarse::TwoPass(first, coarse) => first.bytes() + coarse.bytes(),
            Coarse::Aggregates(aggregates) => aggregates.bytes(),
            Coarse::Grid(_) => 0,
        }
    }
}

/// Scaling of the rows or columns of a matrix.
pub(crate) enum By<'a, F> {
    /// Nothing.
    One,
    /// The factors.
    Times(&'a F),
    /// Their inverses.
    Over(&'a F),
}

impl<F> Clone for By<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for By<'_, F> {}

impl<'a, F> By<'a, F> {
    /// The factors, where there are some.
    pub fn times(factors: Option<&'a F>) -> By<'a, F> {
        factors.map_or(By::One, By::Times)
    }

    /// Their inverses, where there are some.
    pub fn over(factors: Option<&'a F>) -> By<'a, F> {
        factors.map_or(By::One, By::Over)
    }
}

/// Rounding of values that are stored in 16 bits.
pub(crate) enum Rounding<'a, F> {
    /// Each by itself, after rows and columns are scaled.
    Nearest(By<'a, F>, By<'a, F>),
    /// So that the product with the vector of the factors stays.
    RowSums(&'a F),
}

impl<F> Rounding<'_, F> {
    /// Each by itself, as it is.
    pub const PLAIN: Self = Rounding::Nearest(By::One, By::One);
}

/// The matrix that is stored, for error messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Which matrix.
    pub what: &'static str,
    /// Of which level.
    pub level: usize,
    /// Whether entries may vanish in numbers. Those of a scaled level that do are far below the rounding of their row: the noise of
    /// Galerkin products, for one.
    pub may_vanish: bool,
}

/// Scaling factors of a level, and the inverse of the l1 diagonal of the scaled matrix where that was wanted and came
/// in the same pass.
pub(crate) struct Scaled<S: Setup, T: Scalar> {
    /// Powers of two, one for each scalar row.
    pub factors: S::Factors,
    /// D^-1.
    pub l1_inverse: Option<S::Buffer<T>>,
}

/// What rounding to one format does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    /// |E w|_(D^-1)^2 / |w|_D^2 for a matrix and |E w|_D^2 / |P w|_D^2 for a prolongator, infinite when an entry is out of
    /// range.
    pub error: f64,
    /// Largest share of a row's absolute sum that vanishes.
    pub vanished: f64,
}

impl Loss {
    /// A format that cannot hold the part.
    pub const OUT_OF_RANGE: Loss = Loss { error: f64::INFINITY, vanished: 0.0 };
}

/// What rounding a matrix or a prolongator to each 16-bit format does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Losses {
    pub f16: Loss,
    pub bf16: Loss,
}

impl Losses {
    /// No 16-bit format can hold the part.
    pub const OUT_OF_RANGE: Losses = Losses { f16: Loss::OUT_OF_RANGE, bf16: Loss::OUT_OF_RANGE };
}

/// A level that is measured in 16-bit formats.
pub(crate) struct Candidate<'a, S: Setup, T: Scalar> {
    /// Its matrix.
    pub matrix: &'a S::Matrix<T>,
    /// The prolongator from the next level; none on the coarsest.
    pub prolongator: Option<&'a S::Matrix<T>>,
    /// Factors of its variables; ones where there are none.
    pub factors: Option<&'a S::Factors>,
}

/// What was found of a [`Candidate`], in a sample of its rows, with its smooth vector w.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Scalar rows of the sample.
    pub rows: f64,
    /// w·A w over them.
    pub energy: f64,
    /// |w|_D^2 over them.
    pub weight: f64,
    /// Of the matrix.
    pub matrix: Losses,
    /// Of the prolongator; out of range on the coarsest level.
    pub prolongator: Losses,
}

/// y = A x for some operator A, as a function of x and y.
pub(crate) type OperatorProduct<'a, S, T> =
    &'a mut dyn FnMut(&<S as Backend>::Slice<T>, &mut <S as Backend>::Slice<T>) -> Result<()>;

/// A matrix whose storage format is to be chosen.
pub(crate) struct FormatRequest<P> {
    /// Its pattern.
    pub pattern: P,
    /// Number format of its values.
    pub storage: Precision,
    /// Precision of the sums of products with it.
    pub sums: Precision,
}

/// A set-up backend: where levels are computed, and the steps of that.
pub(crate) trait Setup: Backend {
    /// A matrix with values stored as `S`.
    type Matrix<S: Number>: SetupMatrix<Pattern = Self::Pattern>;
    /// A pattern.
    type Pattern: SetupPattern;
    /// A strength graph.
    type Graph: Held;
    /// A C/F splitting.
    type Splitting: CoarseSet;
    /// Aggregates.
    type Aggregates: CoarseSet;
    /// A near-null space.
    type NearNullSpace: NearNullVectors<Self>;
    /// Rows by colour.
    type Colouring;
    /// The function of each unknown of a level.
    type Functions: Held;
    /// Symbolic data of [`Setup::within_functions`].
    type Within: Symbolic;
    /// Symbolic data of [`Setup::to_nodes`].
    type Nodes: Symbolic;
    /// Symbolic data of a transposition.
    type Transposition: Symbolic;
    /// Symbolic data of a Galerkin product.
    type Product: Symbolic;
    /// Scaling factors of a level.
    type Factors: Send + Sync;
    /// How a matrix of some pattern is stored.
    type Format: Clone + Send + Sync + 'static;
    /// Checks that are evaluated later.
    type Checks: Send;
    /// Whether [`Setup::scaled`] replaces the matrices of levels as soon as factors are known; otherwise they are applied
    /// where matrices are stored, as those of transfers always are.
    const SCALES_AT_ONCE: bool;

    /// Runs all of a set-up of so many operations.
    fn run<R: Send>(&self, operations: usize, work: impl FnOnce() -> R + Send) -> R;
    /// A phase begins, of a level or of all.
    fn begin_phase(&self, _level: Option<usize>, _phase: &'static str) {}
    /// Waits until all steps are complete.
    fn synchronise(&self) -> Result<()> {
        Ok(())
    }
    /// How often the host has waited for this backend.
    fn waits(&self) -> usize {
        0
    }
    /// Where set-up ran, for the report, when the host has waited so many times.
    fn setup_place(waits: usize) -> String;
    /// No checks yet.
    fn checks(&self) -> Self::Checks;
    /// Evaluates checks up to the first that fails. May wait for the device.
    fn evaluate(&self, checks: Self::Checks) -> Result<()>;

    /// The same matrix without blocks.
    fn to_scalar<T: Scalar>(&self, a: Self::Matrix<T>) -> Result<Self::Matrix<T>>;
    /// A scalar matrix in square blocks of so many rows.
    fn to_nodes<T: Scalar>(
        &self,
        a: &Self::Matrix<T>,
        size: usize,
        symbolic: Option<&Self::Nodes>,
    ) -> Result<(Self::Matrix<T>, Self::Nodes)>;
    /// The constant in each component of a block of a matrix.
    fn constants<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<Self::NearNullSpace>;
    /// Stored scalar values, on all ranks where set-up is divided.
    fn all_entries<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<usize> {
        Ok(a.entries())
    }
    /// Whether it is so on all ranks, where the set-up of a level with so many scalar rows is divided among them.
    fn is_everywhere(&self, _rows: usize, is_here: bool) -> Result<bool> {
        Ok(is_here)
    }
    /// A copy on the host, to look at.
    fn fetch<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<SharedCsr<f64>>;

    /// The functions of unknowns with interleaved numbering: the unknowns of a point are consecutive. At most
    /// [`MAX_FUNCTIONS`].
    fn interleaved_functions(&self, unknowns: usize, count: usize) -> Result<Self::Functions>;
    /// The functions of unknowns, one for each, below [`MAX_FUNCTIONS`].
    fn functions_per_unknown(&self, of: &[u8]) -> Result<Self::Functions>;
    /// The functions of the coarse unknowns of a splitting.
    fn coarse_functions(&self, functions: &Self::Functions, coarse: &Self::Splitting) -> Result<Self::Functions>;
    /// The couplings of a scalar matrix within functions.
    fn within_functions<T: Scalar>(
        &self,
        functions: &Self::Functions,
        a: &Self::Matrix<T>,
        symbolic: Option<&Self::Within>,
    ) -> Result<(Self::Matrix<T>, Self::Within)>;

    /// Whether two graphs are the same.
    fn same_graph(&self, one: &Self::Graph, other: &Self::Graph) -> Result<bool>;
    /// Whether coarse unknowns are the same.
    fn same_coarse(&self, one: &Coarse<Self>, other: &Coarse<Self>) -> Result<bool>;
    /// Aggressive coarsening: the splitting after a second pass over the coarse unknowns.
    fn second_pass(&self, graph: &Self::Graph, first: &Self::Splitting, seed: u64) -> Result<Self::Splitting>;

    /// The transpose.
    fn transpose<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<Self::Matrix<T>>;
    /// Symbolic data of the transpose, which has this pattern.
    fn transpose_symbolic<T: Scalar>(
        &self,
        a: &Self::Matrix<T>,
        transposed: &Self::Pattern,
    ) -> Result<Self::Transposition>;
    /// Numeric phase of the transpose.
    fn transpose_numeric<T: Scalar>(
        &self,
        symbolic: &Self::Transposition,
        a: &Self::Matrix<T>,
        transposed: &Self::Pattern,
    ) -> Result<Self::Matrix<T>>;
    /// R A P, with ones for zeros on the diagonal.
    fn product<T: Scalar>(
        &self,
        r: &Self::Matrix<T>,
        a: &Self::Matrix<T>,
        p: &Self::Matrix<T>,
    ) -> Result<(Self::Matrix<T>, Self::Product)>;
    /// Numeric phase for the patterns of an earlier product. May add to the symbolic data.
    fn product_numeric<T: Scalar>(
        &self,
        symbolic: &Self::Product,
        pattern: &Self::Pattern,
        r: &Self::Matrix<T>,
        a: &Self::Matrix<T>,
        p: &Self::Matrix<T>,
    ) -> Result<(Self::Matrix<T>, Self::Product)>;

    /// D^-1 for the diagonal (`width` 1) or the diagonal blocks of a matrix; with `l1` enlarged by the absolute values
    /// of what is outside of it. The matrix is that of a level: scaled by the factors where the backend scales at once,
    /// otherwise D is that of the scaled matrix.
    fn inverse_diagonal<T: Scalar>(
        &self,
        a: &Self::Matrix<T>,
        width: usize,
        l1: bool,
        factors: Option<&Self::Factors>,
    ) -> Result<Self::Buffer<T>>;
    /// The axes of the lines of line relaxation, by a name or the matrix, which is one on a structured grid.
    fn line_axes<T: Scalar>(&self, a: &Self::Matrix<T>, name: &str) -> Result<[bool; 3]>;
    /// The factors of the block tridiagonal matrices that a stencil has along the lines of an axis: for each cell the inverse of its pivot
    /// E_k = A_kk - A_k,k-1 W_k-1, and W_k = E_k^-1 A_k,k+1, as arrays over all cells for each entry of these blocks. They are computed in f64.
    fn line_factors<T: Scalar>(&self, a: &Self::Matrix<T>, axis: usize) -> Result<Self::Buffer<T>>;
    /// The largest eigenvalue of D^-1 A, given D^-1 and perhaps the estimate for an earlier matrix.
    fn largest_eigenvalue<T: Scalar>(
        &self,
        estimate: &Estimate,
        a: &Self::Matrix<T>,
        inverse: &Self::Slice<T>,
        earlier: Option<&Largest>,
    ) -> Result<Largest>;
    /// A scalar matrix as an operator on the arrays that set-up has, without a format of its own.
    fn as_operator<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<Box<dyn Operator<Self, T>>>;
    /// The largest eigenvalue of a symmetric operator on vectors of `n` elements, by so many Lanczos steps.
    fn largest_eigenvalue_of<T: Scalar>(
        &self,
        steps: usize,
        n: usize,
        product: OperatorProduct<'_, Self, T>,
    ) -> Result<Largest>;
    /// The inverse of a matrix of few rows, dense and row by row.
    fn dense_inverse<T: Scalar, S: Number>(&self, a: &Self::Matrix<T>) -> Result<Self::Buffer<S>>;

    /// The largest entry outside of the diagonal in a [sample](super::common::sample) of the rows, in absolute value; 0 where there is none.
    fn largest_off_diagonal<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<f64>;
    /// A matrix times a number. Shares the pattern.
    fn multiplied<T: Scalar>(&self, a: Self::Matrix<T>, by: f64) -> Result<Self::Matrix<T>>;
    /// Scaling factors of the matrices of some levels, by the scaling that `precision.scaling` names, which is not
    /// `none`; `l1` tells whether l1 diagonals will be wanted.
    fn scaling_factors<T: Scalar>(
        &self,
        matrices: &[&Self::Matrix<T>],
        scaling: &str,
        l1: bool,
    ) -> Result<Vec<Result<Scaled<Self, T>>>>;
    /// Whether vectors of the caller can be converted to the scaled variables.
    fn has_inverse_scaling(&self, factors: &Self::Factors) -> bool;
    /// S⁻¹ as a power of two times one f32 power of two per row.
    fn inverse_scaling(&self, factors: &Self::Factors) -> Result<(f64, Self::Buffer<f32>)>;
    /// A matrix with rows and columns multiplied. Shares the pattern, and without factors the values.
    fn scaled<T: Scalar>(
        &self,
        a: &Self::Matrix<T>,
        rows: By<'_, Self::Factors>,
        columns: By<'_, Self::Factors>,
    ) -> Result<Self::Matrix<T>>;
    /// A matrix in another number format, refused at once or by `checks` when that cannot hold it. Shares what stays as
    /// it is.
    fn stored<T: Scalar, S: Number>(
        &self,
        a: &Self::Matrix<T>,
        rounding: Rounding<'_, Self::Factors>,
        which: Stored,
        checks: &Mutex<Self::Checks>,
    ) -> Result<Self::Matrix<S>>;
    /// Data of the smoother of level `level` times `factor` in another number format, refused at once or by `checks`
    /// when that cannot hold them.
    fn stored_array<T: Scalar, S: Number>(
        &self,
        exact: &Self::Buffer<T>,
        factor: f64,
        level: usize,
        checks: &Mutex<Self::Checks>,
    ) -> Result<Self::Buffer<S>>;
    /// The storage formats of some matrices, chosen together; none where they are chosen as each is stored.
    fn choose_formats(
        &self,
        _requests: &[FormatRequest<Self::Pattern>],
        _sums: Sums,
    ) -> Result<Option<Vec<Self::Format>>> {
        Ok(None)
    }
    /// Bytes that a format holds for updates to come.
    fn format_bytes(_format: &Self::Format) -> usize {
        0
    }

    /// The absolute values of the diagonal, and random numbers between -1 and 1 in the units of the rows.
    #[allow(clippy::type_complexity)]
    fn random_right_hand_side<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<(Self::Buffer<f64>, Self::Buffer<f64>)>;
    /// Rounding losses in 16 bits of all levels from the finest on, given a smooth vector w of the coarsest. That of any other
    /// level is P w.
    fn rounding_losses<T: Scalar>(
        &self,
        levels: &[Candidate<'_, Self, T>],
        smooth: Self::Buffer<f64>,
    ) -> Result<Vec<Measured>>;
}

/// How a matrix is stored for the solve phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageHint {
    /// Column indices on the host.
    pub columns: Columns,
    /// How products with it are summed.
    pub sums: Sums,
}

/// A set-up backend whose levels can be stored on the solve backend `B`.
pub(crate) trait Store<B: Backend>: Setup {
    /// A matrix as an operator, in the format of an earlier one with the same pattern. Without one the format is chosen
    /// and returned.
    fn operator<S: Number, X: Number, Y: Number>(
        &self,
        to: &B,
        a: Self::Matrix<S>,
        hint: StorageHint,
        format: &mut Option<Self::Format>,
    ) -> Result<Box<dyn Operator<B, X, Y>>>;
    /// The same for the unscaled matrix of a level in the precision of set-up. With `l1`, the inverse of its l1
    /// diagonal may come with it.
    #[allow(clippy::type_complexity)]
    fn operator_and_l1<T: Scalar, V: Number>(
        &self,
        to: &B,
        a: Self::Matrix<T>,
        hint: StorageHint,
        format: &mut Option<Self::Format>,
        _l1: bool,
    ) -> Result<(Box<dyn Operator<B, V>>, Option<Self::Buffer<T>>)> {
        Ok((self.operator(to, a, hint, format)?, None))
    }
    /// An array.
    fn array<S: Number>(&self, to: &B, values: Self::Buffer<S>) -> Result<B::Buffer<S>>;
    /// An array with some values for each row of a matrix, as [`Setup::inverse_diagonal`] gives them.
    fn rows_of_level<T: Scalar, S: Number>(
        &self,
        to: &B,
        _a: &Self::Matrix<T>,
        values: Self::Buffer<S>,
    ) -> Result<B::Buffer<S>> {
        self.array(to, values)
    }
    /// A dense matrix of `n` rows and columns, row by row, as an operator.
    fn dense<S: Number, V: Number>(&self, to: &B, n: usize, values: Self::Buffer<S>)
    -> Result<Box<dyn Operator<B, V>>>;
    /// The inverse of a matrix by a sparse factorisation. None where there is none for the backends or the matrix.
    fn factorised<T: Scalar, V: Number>(
        &self,
        _to: &B,
        _a: &Self::Matrix<T>,
    ) -> Result<Option<Box<dyn Operator<B, V>>>> {
        Ok(None)
    }
    /// A coloured matrix for Gauss-Seidel, with the inverse of its diagonal; `shared` if the matrix is that of the
    /// level. Its colouring is computed unless it is given.
    fn colours<S: Number, V: Number>(
        &self,
        to: &B,
        a: Self::Matrix<S>,
        inverse: Self::Buffer<S>,
        colouring: Option<Self::Colouring>,
        shared: bool,
    ) -> Result<Box<dyn Colours<B, V>>>;
    /// A matrix on a structured grid for line relaxation, with the axis of the lines and their [factors](Setup::line_factors); `shared` if
    /// the matrix is that of the level.
    fn lines<S: Number, V: Number>(
        &self,
        to: &B,
        a: Self::Matrix<S>,
        factors: (usize, Self::Buffer<S>),
        shared: bool,
    ) -> Result<Box<dyn Colours<B, V>>>;
}

/// A result whose error names the level.
pub(crate) fn at_level<R>(level: usize, result: Result<R>) -> Result<R> {
    result.map_err(|error| Error::new(error.status, format!("level {level}: {}", error.message)))
}

const _: () = assert!(MAX_FUNCTIONS <= u8::MAX as usize);
