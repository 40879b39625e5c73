//! Components of set-up: coarsenings, interpolations and smoothers, each a type for each set-up backend that has it.
//! [`crate::components`] lists them by name.

use super::fsai::Factors;
use super::parameters::{Estimate, Parameters, Truncation};
use super::setup::{By, Coarse, Rounding, Setup, SetupMatrix, StorageHint, Store, Stored};
use super::spectrum::Largest;
use super::{Backend, Colours, Columns, Operator, Smoother};
use crate::error::{Result, fail};
use crate::scalar::{Number, Scalar, Sums};
use crate::sparse::Block;
use crate::sync::lock;
use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock};

/// Input of a strength measure.
pub(crate) struct StrengthInput<'a, S: Setup, T: Scalar> {
    /// Where the work runs.
    pub setup: &'a S,
    /// Options.
    pub parameters: &'a dyn Parameters,
    /// The matrix of the level.
    pub a: &'a S::Matrix<T>,
    /// Number of the level.
    pub level: usize,
    /// The near-null space, for measures that use one.
    pub near_null_space: Option<&'a S::NearNullSpace>,
}

/// A measure of strength of connection.
pub(crate) trait Strength<S: Setup, T: Scalar>: Sync {
    /// The strong couplings. None on a grid, whose axes are chosen by the matrix itself.
    fn graph(&self, input: &StrengthInput<'_, S, T>) -> Result<S::Graph>;
}

/// Parameters of the measures that are relative to the strongest coupling of a row.
impl<S: Setup, T: Scalar> StrengthInput<'_, S, T> {
    /// The share of the strongest coupling from which on others are strong.
    pub fn share(&self) -> f64 {
        self.parameters.real_or_auto("amg.strength.threshold").unwrap_or(0.25)
    }

    /// The near-null space, for the measure of this name.
    pub fn space(&self, name: &str) -> Result<&S::NearNullSpace> {
        match self.near_null_space {
            Some(space) => Ok(space),
            None => fail!(Internal, "amg.strength.type \"{name}\" has no near-null space"),
        }
    }

    /// Refuses blocks for the measure of this name.
    pub fn check_scalar(&self, name: &str) -> Result<()> {
        if self.a.block() == Block::SCALAR {
            return Ok(());
        }
        fail!(
            Unsupported,
            "amg.strength.type \"{name}\" needs a scalar matrix; use \"absolute\" or \"symmetric\" for blocks"
        )
    }
}

/// Input of a coarsening.
pub(crate) struct CoarseningInput<'a, S: Setup, T: Scalar> {
    /// Where the work runs.
    pub setup: &'a S,
    /// Options.
    pub parameters: &'a dyn Parameters,
    /// The matrix of the level.
    pub a: &'a S::Matrix<T>,
    /// Its strong couplings.
    pub graph: &'a S::Graph,
    /// Varies random orders from level to level.
    pub seed: u64,
    /// Whether the smoother relaxes lines of a grid.
    pub relaxes_lines: bool,
}

impl<S: Setup, T: Scalar> CoarseningInput<'_, S, T> {
    /// The axis that the options name for line relaxation, where that is the smoother.
    pub fn line_axis(&self) -> Option<String> {
        self.relaxes_lines.then(|| self.parameters.text("amg.smoother.line.axis"))
    }
}

/// A coarsening.
pub(crate) trait Coarsening<S: Setup, T: Scalar>: Sync {
    /// A C/F splitting, or aggregates.
    fn coarsen(&self, input: &CoarseningInput<'_, S, T>) -> Result<Coarse<S>>;
}

/// Input of an interpolation.
pub(crate) struct InterpolationInput<'a, S: Setup, T: Scalar> {
    /// Where the work runs.
    pub setup: &'a S,
    /// Options.
    pub parameters: &'a dyn Parameters,
    /// The matrix of the level, or its couplings within functions.
    pub a: &'a S::Matrix<T>,
    /// The matrix of the level with all couplings.
    pub whole: &'a S::Matrix<T>,
    /// Its strong couplings.
    pub graph: &'a S::Graph,
    /// The coarse unknowns.
    pub coarse: &'a Coarse<S>,
    /// The near-null space, for components that use one.
    pub near_null_space: Option<&'a S::NearNullSpace>,
    /// Truncation of rows.
    pub truncation: Truncation,
    /// An earlier result for the same graph and coarse unknowns, whose pattern the new one must have.
    pub earlier: Option<EarlierInterpolation<'a, S>>,
}

/// Pattern and symbolic data of an earlier interpolation.
pub(crate) struct EarlierInterpolation<'a, S: Setup> {
    /// The pattern of the prolongator.
    pub pattern: &'a S::Pattern,
    /// Its symbolic data.
    pub symbolic: Option<&'a Arc<dyn InterpolationSymbolic<S>>>,
}

/// Symbolic data of an interpolation, for numeric-only updates.
pub(crate) trait InterpolationSymbolic<S: Setup>: Any + Send + Sync {
    /// Bytes held.
    fn bytes(&self) -> usize;
    /// Drops data that only save time. Returns whether there were any.
    fn drop_positions(&self) -> bool {
        false
    }
    /// Whether the last numeric update left rows that the next one computes. May wait for the device.
    fn is_incomplete(&self, _setup: &S) -> Result<bool> {
        Ok(false)
    }
}

/// An interpolation.
pub(crate) struct Interpolated<S: Setup, T: Scalar> {
    /// The prolongator.
    pub p: S::Matrix<T>,
    /// The near-null space of the coarse level, where there is one and it was computed.
    pub near_null_space: Option<Arc<S::NearNullSpace>>,
    /// The largest eigenvalue of D^-1 A for the diagonal blocks D of A, and D^-1, where they were needed.
    pub largest_eigenvalue: Option<(Largest, S::Buffer<T>)>,
    /// Symbolic data for updates.
    pub symbolic: Option<Arc<dyn InterpolationSymbolic<S>>>,
    /// The coarse unknowns, where fine ones joined them.
    pub coarse: Option<Coarse<S>>,
}

impl<S: Setup, T: Scalar> Interpolated<S, T> {
    /// A prolongator and nothing else.
    pub fn alone(p: S::Matrix<T>) -> Interpolated<S, T> {
        Interpolated { p, near_null_space: None, largest_eigenvalue: None, symbolic: None, coarse: None }
    }
}

/// A formula for the prolongator.
pub(crate) trait Interpolation<S: Setup, T: Scalar>: Sync {
    /// Computes it.
    fn interpolate(&self, input: &InterpolationInput<'_, S, T>) -> Result<Interpolated<S, T>>;
    /// A marker that no symbolic data are computed, because memory is short; none if there never are any.
    fn without_symbolic(&self) -> Option<Arc<dyn InterpolationSymbolic<S>>> {
        None
    }
}

impl<'a, S: Setup, T: Scalar> InterpolationInput<'a, S, T> {
    /// The pattern of an earlier result.
    pub fn pattern(&self) -> Option<&'a S::Pattern> {
        self.earlier.as_ref().map(|earlier| earlier.pattern)
    }

    /// Symbolic data of type `M` that came with it.
    pub fn symbolic<M: 'static>(&self) -> Option<&'a M> {
        let symbolic = self.earlier.as_ref().and_then(|earlier| earlier.symbolic)?;
        <dyn Any>::downcast_ref::<M>(&**symbolic)
    }

    /// The same, shared.
    pub fn shared_symbolic<M: Any + Send + Sync>(&self) -> Option<Arc<M>> {
        let symbolic: Arc<dyn Any + Send + Sync> = Arc::clone(self.earlier.as_ref()?.symbolic?) as _;
        symbolic.downcast().ok()
    }

    /// The splitting, or an error that names the interpolation that wants one.
    pub fn splitting(&self, name: &str) -> Result<&'a S::Splitting> {
        match self.coarse {
            Coarse::Splitting(coarse) => Ok(coarse),
            Coarse::TwoPass(..) => fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" does not reach across aggressive levels in two stages; use \"extended_i\", \
                 \"mm_ext\" or \"mm_ext_i\", or amg.interpolation.aggressive \"multipass\", or amg.coarsening.aggressive_levels 0"
            ),
            Coarse::Aggregates(_) | Coarse::Grid(_) => fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" needs a C/F splitting; use amg.coarsening.type \"pmis\" or \"hmis\" with it"
            ),
        }
    }

    /// The splitting and the near-null space, or an error that names the interpolation that wants them.
    pub fn splitting_and_space(&self, name: &str) -> Result<(&'a S::Splitting, &'a S::NearNullSpace)> {
        match (self.splitting(name)?, self.near_null_space) {
            (coarse, Some(space)) => Ok((coarse, space)),
            _ => fail!(Internal, "amg.interpolation.type \"{name}\" has no near-null space"),
        }
    }

    /// The aggregates and the near-null space, or an error that names the interpolation that wants them.
    pub fn aggregates(&self, name: &str) -> Result<(&'a S::Aggregates, &'a S::NearNullSpace)> {
        match (self.coarse, self.near_null_space) {
            (Coarse::Aggregates(aggregates), Some(space)) => Ok((aggregates, space)),
            _ => fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" needs aggregates; use amg.coarsening.type \"mis2\" or \"pairwise\" with it"
            ),
        }
    }
}

/// The diagonal D of a level and the largest eigenvalue of D^-1 A, and what else a smoother computes once, as far as they are
/// known.
pub(crate) struct Spectrum<S: Setup, T: Scalar> {
    /// The largest eigenvalue for the diagonal blocks, where interpolation estimated it.
    pub known: Option<Largest>,
    /// The one of an earlier matrix, if interpolation did not.
    pub earlier: Option<Largest>,
    /// The estimate of the smoother, if it needed one.
    pub estimated: OnceLock<Largest>,
    /// The inverse of the diagonal blocks, where interpolation needed it.
    pub inverse: Mutex<Option<S::Buffer<T>>>,
    /// The inverse of the l1 diagonal, if another step computed it.
    pub l1_inverse: Mutex<Option<S::Buffer<T>>>,
    /// The factors of FSAI, if the level was stored before.
    pub fsai: Mutex<Option<Factors<S, T>>>,
    /// The pattern of these factors, which updates keep.
    pub fsai_pattern: Mutex<Option<S::Pattern>>,
    /// The matrix as the level stores it, until the smoother that keeps a matrix is there.
    pub stored: Mutex<Option<Box<dyn Any + Send>>>,
}

impl<S: Setup, T: Scalar> Default for Spectrum<S, T> {
    fn default() -> Self {
        let (inverse, l1_inverse, fsai) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
        let (fsai_pattern, stored) = (Mutex::new(None), Mutex::new(None));
        Spectrum {
            known: None,
            earlier: None,
            estimated: OnceLock::new(),
            inverse,
            l1_inverse,
            fsai,
            fsai_pattern,
            stored,
        }
    }
}

/// The matrix of a level, as smoothers are made from it where set-up runs, for a solve backend.
pub(crate) struct SmootherInput<'a, S: Setup, B: Backend, T: Scalar> {
    /// Where the work runs.
    pub setup: &'a S,
    /// Where its data are stored.
    pub to: &'a B,
    /// Options.
    pub parameters: &'a dyn Parameters,
    /// Number of the level.
    pub level: usize,
    /// The matrix; scaled where the backend scales at once.
    pub a: &'a S::Matrix<T>,
    /// Whether the level stores this matrix anyway.
    pub stores_matrix: bool,
    /// Whether its pattern is that of the system's matrix, which is counted there.
    pub stores_pattern: bool,
    /// The factors by which the variables of the level are multiplied, if they are.
    pub factors: Option<&'a S::Factors>,
    /// Diagonal and eigenvalue; computed ones are added.
    pub spectrum: &'a Spectrum<S, T>,
    /// Checks of stored values, evaluated later.
    pub checks: &'a Mutex<S::Checks>,
}

impl<S: Store<B>, B: Backend, T: Scalar> SmootherInput<'_, S, B, T> {
    /// Rows of the diagonal blocks that sweeps invert; 1 is the diagonal.
    pub fn width(&self) -> usize {
        let blocks = self.parameters.text("amg.smoother.diagonal") == "block";
        if blocks { self.a.block().rows } else { 1 }
    }

    /// Whether sweeps invert the diagonal blocks, as interpolation does.
    fn whole_blocks(&self) -> bool {
        self.width() == self.a.block().rows
    }

    /// The factors that are yet to be applied to the matrix.
    fn unapplied(&self) -> Option<&S::Factors> {
        self.factors.filter(|_| !S::SCALES_AT_ONCE)
    }

    /// The matrix, scaled where the variables of the level are.
    pub fn matrix(&self) -> Result<S::Matrix<T>> {
        let by = By::over(self.unapplied());
        self.setup.scaled(self.a, by, by)
    }

    /// Scalar rows of the level.
    pub fn scalar_rows(&self) -> usize {
        self.a.scalar_rows()
    }

    /// Whether the matrix is a scalar one and neither scaled nor to be scaled.
    pub fn is_as_given(&self) -> bool {
        self.factors.is_none() && self.a.block() == Block::SCALAR
    }

    /// A matrix of the smoother's own as an operator, its values stored as `N`.
    pub fn own_operator<N: Number, V: Number>(&self, a: &S::Matrix<T>) -> Result<Box<dyn Operator<B, V>>> {
        let which = (self.level, "smoother's matrix");
        own_operator::<S, B, T, N, V>(self.setup, self.to, which, self.checks, a, &mut None)
    }

    /// D^-1 for the diagonal of the matrix, or its diagonal blocks.
    pub fn inverse(&self) -> Result<S::Buffer<T>> {
        let found = lock(self.spectrum.inverse.lock()).take();
        match found.filter(|_| self.factors.is_none() && self.whole_blocks()) {
            Some(inverse) => Ok(inverse),
            None => self.setup.inverse_diagonal(self.a, self.width(), false, self.factors),
        }
    }

    /// The inverse of the l1 diagonal.
    pub fn l1_inverse(&self) -> Result<S::Buffer<T>> {
        let found = lock(self.spectrum.l1_inverse.lock()).take();
        match found.filter(|_| self.width() == 1) {
            Some(inverse) => Ok(inverse),
            None => self.setup.inverse_diagonal(self.a, self.width(), true, self.factors),
        }
    }

    /// The largest eigenvalue of D^-1 A, positive. Levels are stored more than once where their formats are chosen, and scaling leaves it as it is.
    pub fn largest_eigenvalue(&self, inverse: &S::Slice<T>) -> Result<f64> {
        let known = self.spectrum.known.as_ref().filter(|_| self.whole_blocks());
        if let Some(largest) = known.or(self.spectrum.estimated.get()) {
            return Ok(largest.value.max(f64::MIN_POSITIVE));
        }
        let (a, estimate) = (self.matrix()?, Estimate::new(self.parameters));
        let largest = self.setup.largest_eigenvalue(&estimate, &a, inverse, self.spectrum.earlier.as_ref())?;
        Ok(self.spectrum.estimated.get_or_init(|| largest).value.max(f64::MIN_POSITIVE))
    }

    /// D^-1 times `factor` in its storage format, where the solve phase runs, and the number of values there.
    pub fn stored<N: Number>(&self, inverse: &S::Buffer<T>, factor: f64) -> Result<(B::Buffer<N>, usize)> {
        let stored = self.setup.stored_array::<T, N>(inverse, factor, self.level, self.checks)?;
        Ok((self.setup.rows_of_level(self.to, self.a, stored)?, self.to.local(self.a.scalar_rows()) * self.width()))
    }

    /// The matrix in a storage format of the smoother's own.
    pub fn stored_matrix<N: Number>(&self) -> Result<S::Matrix<N>> {
        let (what, may_vanish) = ("smoother's matrix", self.factors.is_some());
        let (by, which) = (By::over(self.unapplied()), Stored { what, level: self.level, may_vanish });
        self.setup.stored::<T, N>(self.a, Rounding::Nearest(by, by), which, self.checks)
    }

    /// The matrix for sweeps, and whether it is that of the level.
    fn swept_matrix<N: Number>(&self) -> Result<(S::Matrix<N>, bool)> {
        let found = lock(self.spectrum.stored.lock()).take().and_then(|a| a.downcast::<S::Matrix<N>>().ok());
        let shared = found.is_some() || self.stores_matrix && N::PRECISION == T::PRECISION;
        let a = match found {
            Some(a) => *a,
            None => self.stored_matrix::<N>()?,
        };
        Ok((a, shared))
    }

    /// The matrix for line relaxation along each of the axes that are named or found.
    pub fn lines<N: Number, V: Number>(&self, name: &str) -> Result<Vec<Box<dyn Colours<B, V>>>> {
        let (a, shared, factors) = self.matrix_and_lines::<N>(name)?;
        let mut all = Vec::new();
        for factors in factors {
            // All axes read the same matrix, which is counted once.
            let counted = shared || !all.is_empty();
            all.push(self.setup.lines(self.to, a.clone(), factors, counted)?);
        }
        Ok(all)
    }

    /// The matrix for sweeps, whether it is that of the level, and the axes with their factors in the smoother's format.
    #[allow(clippy::type_complexity)]
    fn matrix_and_lines<N: Number>(&self, name: &str) -> Result<(S::Matrix<N>, bool, Vec<(usize, S::Buffer<N>)>)> {
        let (a, shared) = self.swept_matrix::<N>()?;
        let exact = self.matrix()?;
        let axes = self.setup.line_axes(&exact, name)?;
        let mut all = Vec::new();
        for axis in (0..3).filter(|axis| axes[*axis]) {
            let factors = self.setup.line_factors(&exact, axis)?;
            all.push((axis, self.setup.stored_array(&factors, 1.0, self.level, self.checks)?));
        }
        Ok((a, shared, all))
    }

    /// The coloured matrix, with `weight` times the inverse of its diagonal.
    pub fn colours<N: Number, V: Number>(&self, weight: f64) -> Result<Box<dyn Colours<B, V>>> {
        let (a, inverse, shared) = self.matrix_and_inverse::<N>(weight)?;
        self.setup.colours(self.to, a, inverse, None, shared)
    }

    /// The matrix for sweeps, `weight` times the inverse of its diagonal in the smoother's format, and whether the matrix is that of the level.
    #[allow(clippy::type_complexity)]
    fn matrix_and_inverse<N: Number>(&self, weight: f64) -> Result<(S::Matrix<N>, S::Buffer<N>, bool)> {
        let (a, shared) = self.swept_matrix::<N>()?;
        let exact = self.setup.inverse_diagonal(self.a, self.width(), false, self.factors)?;
        Ok((a, self.setup.stored_array(&exact, weight, self.level, self.checks)?, shared))
    }
}

/// A matrix of a smoother or preconditioner as an operator, its values stored as `N`, in the format of an earlier one with the same
/// pattern. Level and name are for errors.
pub(crate) fn own_operator<S: Store<B>, B: Backend, T: Scalar, N: Number, V: Number>(
    setup: &S,
    to: &B,
    (level, what): (usize, &'static str),
    checks: &Mutex<S::Checks>,
    a: &S::Matrix<T>,
    format: &mut Option<S::Format>,
) -> Result<Box<dyn Operator<B, V>>> {
    let which = Stored { what, level, may_vanish: true };
    let stored = setup.stored::<T, N>(a, Rounding::PLAIN, which, checks)?;
    setup.operator(to, stored, StorageHint { columns: Columns::Compact, sums: Sums::Wide }, format)
}

/// A smoother as set-up makes it, for levels that are computed on `S` and stored on `B`.
pub(crate) trait SmootherSetup<S: Store<B>, B: Backend> {
    /// The smoother of a level, its data stored as `N`, for vectors of precision `V`.
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>>;
}
