//! The contract of the factorised sparse approximate inverse (FSAI): a lower triangular G with G A Gᵀ ≈ I.

use super::parameters::Parameters;
use super::setup::{Setup, SetupMatrix};
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::Block;

/// Most rows of a block. Matrices of larger blocks are taken as scalar ones.
pub(crate) const MAX_BLOCK: usize = 8;

/// Names of the ways to find a pattern, as the options spell them.
pub const PATTERNS: &[&str] = &["adaptive", "static"];

/// Parameters of an FSAI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fsai {
    /// How the pattern of G is found.
    pub pattern: Pattern,
    /// Entries g_ij below this share of g_ii, both in units of the unknowns, are dropped, and the rest is computed again.
    pub post_filter: f64,
}

/// A way to find the pattern of G.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    /// It grows where that reduces the Kaporin number most.
    Adaptive(Adaptive),
    /// The lower triangle of a power of A.
    Static(Static),
}

/// Parameters of an adaptive pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adaptive {
    /// Most steps in which the pattern of a row grows.
    pub steps: usize,
    /// Entries that a step adds.
    pub entries: usize,
    /// A row is finished when a step reduces its Kaporin number by a smaller share than this.
    pub tolerance: f64,
}

/// Parameters of a static pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Static {
    /// The power.
    pub power: usize,
    /// Entries a_ij with a_ij² ≤ f² a_ii a_jj, where f is this number, are left out before the power is computed.
    pub pre_filter: f64,
}

impl Fsai {
    /// What the parameters name.
    pub fn new(parameters: &dyn Parameters) -> Fsai {
        let pattern = match &*parameters.text("fsai.pattern") {
            "static" => Pattern::Static(Static {
                power: parameters.int("fsai.power"),
                pre_filter: parameters.real("fsai.pre_filter"),
            }),
            _ => Pattern::Adaptive(Adaptive {
                steps: parameters.int("fsai.steps"),
                entries: parameters.int("fsai.entries_per_step"),
                tolerance: parameters.real("fsai.tolerance"),
            }),
        };
        Fsai { pattern, post_filter: parameters.real("fsai.post_filter") }
    }
}

impl Adaptive {
    /// The parameters for a matrix of blocks of n > 1 rows: 2/n as many steps. A scalar entry takes as much memory for its
    /// index as for its value in f32, and a block has one index, so that G takes about the memory of one with scalar rows.
    pub fn for_block(&self, block: Block) -> Adaptive {
        let steps = if block.rows > 1 { (2 * self.steps).div_ceil(block.rows) } else { self.steps };
        Adaptive { steps, ..*self }
    }

    /// Most block entries that a block row may have beside its diagonal.
    pub fn capacity(&self, rows: usize) -> usize {
        (self.steps * self.entries).min(rows.saturating_sub(1))
    }
}

/// A pivot that is below this share of the diagonal is one of a matrix that is not positive definite, to rounding.
pub(crate) fn smallest_pivot<T: Scalar>() -> T {
    T::from_f64(64.0 * T::EPSILON.to_f64())
}

/// A factor.
pub(crate) struct Factor<S: Setup, T: Scalar> {
    /// G, rows ascending, the diagonal last, with the blocks of A. A row whose diagonal in A is not positive has a zero there.
    pub g: S::Matrix<T>,
    /// Rows on whose pattern A is not positive definite, all of a block together. An adaptive row ends with the pattern before; a
    /// row with a given pattern has its diagonal block alone, or where that is not positive definite its diagonal entry.
    pub breakdowns: usize,
}

/// The factors of a matrix that is not symmetric: G A Hᵀ ≈ I.
pub(crate) struct Pair<S: Setup, T: Scalar> {
    /// G.
    pub g: S::Matrix<T>,
    /// H, on the same pattern.
    pub h: S::Matrix<T>,
    /// Rows on whose pattern the matrix has no LU factorisation without exchanges, which have their diagonal alone.
    pub breakdowns: usize,
}

/// G and Gᵀ.
pub(crate) struct Factors<S: Setup, T: Scalar> {
    /// G.
    pub g: S::Matrix<T>,
    /// Gᵀ.
    pub transposed: S::Matrix<T>,
    /// Whether they are those of a scaled matrix.
    pub is_scaled: bool,
    /// See [`Factor::breakdowns`].
    pub breakdowns: usize,
}

impl<S: Setup, T: Scalar> Clone for Factors<S, T> {
    fn clone(&self) -> Self {
        let Factors { g, transposed, is_scaled, breakdowns } = self;
        Factors { g: g.clone(), transposed: transposed.clone(), is_scaled: *is_scaled, breakdowns: *breakdowns }
    }
}

/// A set-up backend that computes FSAI factors of matrices of [square blocks](FsaiFactor::in_blocks), which are symmetric and
/// positive definite unless a function says otherwise. Patterns are found for any matrix, as if it were.
pub(crate) trait FsaiFactor: Setup {
    /// The factor on an adaptive pattern.
    fn adaptive<T: Scalar>(&self, a: &Self::Matrix<T>, adaptive: &Adaptive) -> Result<Factor<Self, T>>;
    /// A static pattern. A block is in it where one of its entries is.
    fn static_pattern<T: Scalar>(&self, a: &Self::Matrix<T>, wanted: &Static) -> Result<Self::Pattern>;
    /// The factor on a pattern: lower triangular, rows ascending, with all of the diagonal.
    fn on_pattern<T: Scalar>(&self, a: &Self::Matrix<T>, pattern: &Self::Pattern) -> Result<Factor<Self, T>>;
    /// The factors of a scalar matrix that is not symmetric, given with its transpose, on such a pattern.
    fn pair_on_pattern<T: Scalar>(
        &self,
        a: &Self::Matrix<T>,
        transposed: &Self::Matrix<T>,
        pattern: &Self::Pattern,
    ) -> Result<Pair<Self, T>>;
    /// The pattern of a factor without its entries below a [share](Fsai::post_filter) of the diagonal.
    fn filtered<T: Scalar>(&self, a: &Self::Matrix<T>, g: &Self::Matrix<T>, share: f64) -> Result<Self::Pattern>;

    /// A matrix in rows, with its blocks.
    fn in_rows<T: Scalar>(&self, a: Self::Matrix<T>) -> Result<Self::Matrix<T>>;

    /// A matrix as factors are computed from it: in rows, of square blocks of at most [`MAX_BLOCK`] rows, or scalar.
    fn in_blocks<T: Scalar>(&self, a: Self::Matrix<T>) -> Result<Self::Matrix<T>> {
        let block = a.block();
        let is_taken = block.rows == block.cols && block.rows <= MAX_BLOCK;
        if is_taken { self.in_rows(a) } else { self.to_scalar(a) }
    }

    /// The factor.
    fn factor<T: Scalar>(&self, a: &Self::Matrix<T>, fsai: &Fsai) -> Result<Factor<Self, T>> {
        let factor = match &fsai.pattern {
            Pattern::Adaptive(adaptive) => self.adaptive(a, adaptive)?,
            Pattern::Static(wanted) => self.on_pattern(a, &self.static_pattern(a, wanted)?)?,
        };
        if fsai.post_filter == 0.0 {
            return Ok(factor);
        }
        let filtered = self.on_pattern(a, &self.filtered(a, &factor.g, fsai.post_filter)?)?;
        Ok(Factor { breakdowns: factor.breakdowns.max(filtered.breakdowns), ..filtered })
    }
}
