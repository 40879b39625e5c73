//! A level as set-up computed it, and how its parts are stored for the solve phase.

use super::store::Storing;
use super::symbolic::Formats;
use super::{Builder, LevelMatrices, SetupOn};
use crate::amg::finest::InverseScaling;
use crate::amg::plan::Plan;
use crate::backend::components::{SmootherInput, Spectrum};
use crate::backend::setup::{By, Rounding, Scaled, Setup, SetupMatrix, StorageHint, Stored};
use crate::backend::{Backend, Columns, Operator, Smoother};
use crate::config::LevelPart;
use crate::error::Result;
use crate::matrix::Import;
use crate::precision::MATRIX;
use crate::scalar::{Number, Precision, Scalar, Sums, with_storage_for};
use crate::sync::lock;
use half::{bf16, f16};
use std::any::Any;
use std::sync::{Arc, Mutex};

/// Coarsest levels of up to this many rows have a dense inverse: a product with it takes less time than two triangular solves.
pub(super) const DENSE_ROWS: usize = 300;

/// A level as computed.
pub(super) struct ComputedLevel<S: Setup, T: Scalar> {
    pub number: usize,
    /// Scalar rows.
    pub rows: usize,
    /// Stored scalar values.
    pub entries: usize,
    /// Scalar rows of the next level; none on the coarsest.
    pub coarse_rows: Option<usize>,
    /// None when everything is stored.
    pub a: Option<S::Matrix<T>>,
    /// Prolongator and restriction to the next level.
    pub transfer: Option<(S::Matrix<T>, S::Matrix<T>)>,
    /// The factors by which its variables are multiplied, and those of the next level. The matrices are, where the backend scales at once.
    pub factors: Option<Arc<S::Factors>>,
    /// What its matrix was multiplied by, where that was looked for.
    pub unit: Option<f64>,
    /// The finest matrix before that.
    pub as_given: Option<S::Matrix<T>>,
    pub coarse_factors: Option<Arc<S::Factors>>,
    /// Those that were found when its formats were chosen, for when it is scaled.
    pub found: Option<Scaled<S, T>>,
    /// The inverse of its unscaled matrix, where the choice of formats needed it.
    pub dense_inverse: Option<S::Buffer<T>>,
    pub spectrum: Spectrum<S, T>,
    /// What is checked while levels are stored.
    pub checks: Arc<Mutex<S::Checks>>,
    /// Those of an earlier matrix.
    pub earlier_formats: Formats<S>,
    /// The same, or the formats that were chosen when the level was stored.
    pub formats: Mutex<Formats<S>>,
}

/// The matrix of a level, as it is stored.
enum StoredMatrix<S: Setup, T: Scalar, N: Number> {
    /// As set-up computed it.
    Computed(S::Matrix<T>),
    /// In another number format, or scaled.
    Converted(S::Matrix<N>),
}

impl<S: Setup, T: Scalar> ComputedLevel<S, T> {
    pub fn new(number: usize, a: &S::Matrix<T>, checks: Arc<Mutex<S::Checks>>) -> ComputedLevel<S, T> {
        ComputedLevel {
            number,
            rows: a.scalar_rows(),
            entries: a.entries(),
            coarse_rows: None,
            a: None,
            transfer: None,
            factors: None,
            unit: None,
            as_given: None,
            coarse_factors: None,
            found: None,
            dense_inverse: None,
            spectrum: Spectrum::default(),
            checks,
            earlier_formats: Formats::default(),
            formats: Mutex::default(),
        }
    }

    /// Its matrix.
    pub fn a(&self) -> &S::Matrix<T> {
        self.a.as_ref().expect("the level is not stored yet")
    }

    fn transfer(&self) -> &(S::Matrix<T>, S::Matrix<T>) {
        self.transfer.as_ref().expect("there is a coarser level, and this one is not stored yet")
    }

    /// Copies on the host, for inspection.
    pub fn fetch(&self, setup: &S) -> Result<LevelMatrices> {
        let transfer = match &self.transfer {
            Some((p, r)) => Some((setup.fetch(p)?, setup.fetch(r)?)),
            None => None,
        };
        Ok(LevelMatrices { a: setup.fetch(self.a())?, transfer })
    }

    /// The factors that are yet to be applied to its matrix. Those of its transfers are applied where these are stored.
    fn unapplied(&self) -> Option<&S::Factors> {
        self.factors.as_deref().filter(|_| !S::SCALES_AT_ONCE)
    }

    /// Multiplies its matrix.
    pub fn take_unit(&mut self, setup: &S, unit: f64) -> Result<()> {
        self.unit = Some(unit);
        if unit != 1.0 {
            self.as_given = Some(self.a().clone()).filter(|_| self.number == 0);
            self.a = self.a.take().map(|a| setup.multiplied(a, unit)).transpose()?;
            // That of the matrix before.
            *lock(self.spectrum.inverse.lock()) = None;
        }
        Ok(())
    }

    /// Takes the caller's matrix back where it is not scaled: what comes from the next level is multiplied instead.
    pub fn leave_unit(&mut self, setup: &S) -> Result<()> {
        let given = self.as_given.take().filter(|_| self.factors.is_none());
        if let (Some(given), Some(unit)) = (given, self.unit) {
            self.a = Some(given);
            self.unit = Some(1.0);
            *lock(self.spectrum.inverse.lock()) = None;
            if let Some((p, r)) = self.transfer.take() {
                self.transfer = Some((setup.multiplied(p, unit)?, r));
            }
        }
        Ok(())
    }

    /// Applies the factors to its matrix, where the backend scales at once.
    pub fn apply_factors(&mut self, setup: &S) -> Result<()> {
        if S::SCALES_AT_ONCE && self.factors.is_some() {
            let by = By::over(self.factors.as_deref());
            self.a = Some(setup.scaled(self.a(), by, by)?);
        }
        Ok(())
    }

    /// Keeps the storage formats of an earlier matrix if the number formats of the plan are the same; drops them otherwise.
    pub fn suit_formats(&mut self, plan: &Plan) {
        let i = self.number;
        let below = (i + 1).min(plan.levels.len() - 1);
        let numbers = Some([
            plan.of(LevelPart::Matrix, i),
            plan.of(LevelPart::Transfer, i),
            plan.of(LevelPart::Vector, i),
            plan.of(LevelPart::Vector, below),
        ]);
        let formats = match self.earlier_formats.numbers == numbers {
            true => self.earlier_formats.clone(),
            false => Formats { numbers, ..Formats::default() },
        };
        self.formats = Mutex::new(formats);
    }

    /// Drops data that are not needed after the level is stored.
    pub fn release(&mut self) {
        self.a = None;
        self.transfer = None;
        self.dense_inverse = None;
        *lock(self.spectrum.inverse.lock()) = None;
        *lock(self.spectrum.fsai.lock()) = None;
        *lock(self.spectrum.stored.lock()) = None;
    }

    fn stored<N: Number>(
        &self,
        setup: &S,
        a: &S::Matrix<T>,
        what: &'static str,
        rounding: Rounding<'_, S::Factors>,
    ) -> Result<S::Matrix<N>> {
        setup.stored::<T, N>(
            a,
            rounding,
            Stored { what, level: self.number, may_vanish: self.factors.is_some() },
            &self.checks,
        )
    }

    /// S⁻¹ of a scaled level.
    pub fn inverse_scaling<B: Backend>(&self, storing: &Storing<'_, S, B>) -> Result<Option<InverseScaling<B>>>
    where
        S: SetupOn<B>,
    {
        let Some(factors) = &self.factors else { return Ok(None) };
        let (factor, inverse) = storing.setup.inverse_scaling(factors)?;
        let d = storing.setup.array(storing.to, inverse)?;
        Ok(Some(InverseScaling { factor, d, unit: self.unit.unwrap_or(1.0) }))
    }

    /// Its matrix as an operator, with values stored as `N`.
    pub fn matrix<B: Backend, N: Number, V: Number>(
        &self,
        storing: &Storing<'_, S, B>,
    ) -> Result<Box<dyn Operator<B, V>>>
    where
        S: SetupOn<B>,
    {
        let hint = self.matrix_hint::<B, N>(storing);
        match self.matrix_shared_with_smoother::<B, N>(storing)? {
            StoredMatrix::Computed(a) => self.unscaled(storing, a, hint),
            StoredMatrix::Converted(a) => {
                storing.setup.operator(storing.to, a, hint, &mut lock(self.formats.lock()).matrix)
            }
        }
    }

    /// Its matrix with values stored as `N`, kept for the smoother where that reads the same.
    fn matrix_shared_with_smoother<B: Backend, N: Number>(
        &self,
        storing: &Storing<'_, S, B>,
    ) -> Result<StoredMatrix<S, T, N>>
    where
        S: SetupOn<B>,
    {
        let Storing { builder, setup, .. } = storing;
        setup.begin_phase(Some(self.number), "place");
        let a = self.stored_matrix::<N>(builder, setup)?;
        if let StoredMatrix::Converted(a) = &a {
            // Rounded in another way, or in other blocks, it is not what the smoother reads.
            let rounded = self.factors.is_some() && builder.config.text("precision.rounding") == "row_sums";
            if storing.builder.smoother_of(self.number).keeps_matrix && !rounded && a.block() == self.a().block() {
                *lock(self.spectrum.stored.lock()) = Some(Box::new(a.clone()));
            }
        }
        Ok(a)
    }

    /// Its matrix with values stored as `N`. The finest level uses the caller's arrays, with the caller's blocks and
    /// number format. A scaled finest level also has the caller's blocks.
    fn stored_matrix<N: Number>(&self, builder: &Builder<'_>, setup: &S) -> Result<StoredMatrix<S, T, N>>
    where
        S: Import,
    {
        let given = builder.matrix;
        if self.number == 0 && self.factors.is_none() {
            if N::PRECISION == given.precision() && N::PRECISION != T::PRECISION {
                return Ok(StoredMatrix::Converted(builder.import::<S, N>(setup)?));
            }
            let same_blocks = self.a().block() == given.block();
            let callers = if same_blocks { self.a().clone() } else { builder.import::<S, T>(setup)? };
            if N::PRECISION == given.precision() {
                return Ok(StoredMatrix::Computed(callers));
            }
            return Ok(StoredMatrix::Converted(self.stored(setup, &callers, MATRIX, Rounding::PLAIN)?));
        }
        let factors = self.factors.as_deref();
        let (a, by) = match builder.took_apart(self.number, self.a().block()) {
            true => {
                let a = builder.import::<S, T>(setup)?;
                let unit = self.unit.unwrap_or(1.0);
                (if unit == 1.0 { a } else { setup.multiplied(a, unit)? }, By::over(factors))
            }
            false => (self.a().clone(), By::over(self.unapplied())),
        };
        let stored = match factors {
            Some(factors) if builder.config.text("precision.rounding") == "row_sums" => {
                let scaled = setup.scaled(&a, by, by)?;
                self.stored::<N>(setup, &scaled, MATRIX, Rounding::RowSums(factors))?
            }
            _ => self.stored::<N>(setup, &a, MATRIX, Rounding::Nearest(by, by))?,
        };
        if factors.is_some() {
            return Ok(StoredMatrix::Converted(stored));
        }
        let stored: Box<dyn Any> = Box::new(stored);
        Ok(match stored.downcast::<S::Matrix<T>>() {
            Ok(stored) => StoredMatrix::Computed(*stored),
            Err(stored) => StoredMatrix::Converted(*stored.downcast().expect("it is what it was")),
        })
    }

    /// Short columns suit a matrix that the library stores itself, unless the smoother reads the same arrays.
    fn matrix_hint<B: Backend, N: Number>(&self, storing: &Storing<'_, S, B>) -> StorageHint {
        let own = self.number > 0 || self.factors.is_some() || N::PRECISION != storing.builder.matrix.precision();
        storing.hint(own && !storing.builder.smoother_of(self.number).keeps_matrix)
    }

    /// A matrix in the precision of set-up as an operator. If the smoother uses its l1 diagonal, a value update may compute that as
    /// well. With other blocks than in set-up, rows may be summed in another order.
    fn unscaled<B: Backend, V: Number>(
        &self,
        storing: &Storing<'_, S, B>,
        a: S::Matrix<T>,
        hint: StorageHint,
    ) -> Result<Box<dyn Operator<B, V>>>
    where
        S: SetupOn<B>,
    {
        let l1 = storing.builder.smoother_of(self.number).uses_l1_diagonal && a.block() == self.a().block();
        let format = &mut lock(self.formats.lock()).matrix;
        let (operator, l1_inverse) = storing.setup.operator_and_l1::<T, V>(storing.to, a, hint, format, l1)?;
        if l1_inverse.is_some() {
            *lock(self.spectrum.l1_inverse.lock()) = l1_inverse;
        }
        Ok(operator)
    }

    /// Its smoother, with data stored in `storage`.
    pub fn smoother<B: Backend, V: Number>(
        &self,
        storing: &Storing<'_, S, B>,
        storage: Precision,
    ) -> Result<Box<dyn Smoother<B, V>>>
    where
        S: SetupOn<B>,
    {
        let input = self.smoother_input(storing);
        let smoother = with_storage_for!(storage, V, N => S::smoother::<T, N, V>(storing.builder.smoother_of(self.number).name, &input));
        *lock(self.spectrum.stored.lock()) = None;
        smoother
    }

    /// Estimates the eigenvalue that its smoother goes by, before the level is scaled: scaling leaves it as it is, and a scaled matrix would
    /// have to be made for it.
    pub fn estimate_eigenvalue<B: Backend>(&self, storing: &Storing<'_, S, B>) -> Result<()>
    where
        S: SetupOn<B>,
    {
        let input = self.smoother_input(storing);
        let inverse = input.inverse()?;
        input.largest_eigenvalue(&inverse).map(|_| ())
    }

    /// What its smoother is made of.
    fn smoother_input<'a, B: Backend>(&'a self, storing: &'a Storing<'_, S, B>) -> SmootherInput<'a, S, B, T>
    where
        S: SetupOn<B>,
    {
        let Storing { builder, setup, to, .. } = storing;
        setup.begin_phase(Some(self.number), "smoother");
        let is_callers = self.number > 0 || self.a().block() == builder.matrix.block();
        SmootherInput {
            stores_matrix: is_callers && storing.plan.of(LevelPart::Matrix, self.number) == T::PRECISION,
            stores_pattern: is_callers && self.number == 0,
            setup: *setup,
            to: *to,
            parameters: builder.config,
            level: self.number,
            a: self.a(),
            factors: self.factors.as_deref(),
            spectrum: &self.spectrum,
            checks: &self.checks,
        }
    }

    /// The inverse of its matrix: dense up to [`DENSE_ROWS`], and by a sparse factorisation above them where there is one.
    pub fn inverse<B: Backend, N: Number, V: Number>(
        &self,
        storing: &Storing<'_, S, B>,
    ) -> Result<Box<dyn Operator<B, V>>>
    where
        S: SetupOn<B>,
    {
        let setup = storing.setup;
        setup.begin_phase(Some(self.number), "coarsest");
        let is_known = self.dense_inverse.is_some() && self.factors.is_none();
        if !is_known
            && self.rows > DENSE_ROWS
            && let Some(inverse) = self.factorised(storing)?
        {
            return Ok(inverse);
        }
        setup.dense(storing.to, self.rows, self.dense_values::<N>(setup)?)
    }

    /// Its inverse by a sparse factorisation, where there is one.
    fn factorised<B: Backend, V: Number>(&self, storing: &Storing<'_, S, B>) -> Result<Option<Box<dyn Operator<B, V>>>>
    where
        S: SetupOn<B>,
    {
        let by = By::over(self.unapplied());
        storing.setup.factorised(storing.to, &storing.setup.scaled(self.a(), by, by)?)
    }

    /// The values of its dense inverse.
    fn dense_values<N: Number>(&self, setup: &S) -> Result<S::Buffer<N>> {
        if let Some(values) = self.dense_inverse.as_ref().filter(|_| self.factors.is_none()) {
            return setup.stored_array::<T, N>(values, 1.0, self.number, &self.checks);
        }
        let by = By::over(self.unapplied());
        let a = setup.scaled(self.a(), by, by)?;
        match (T::PRECISION, N::PRECISION) {
            // The range of f32 is looked at; levels in 16 bits are scaled.
            (Precision::F64, Precision::F32) => {
                setup.stored_array(&setup.dense_inverse::<T, T>(&a)?, 1.0, self.number, &self.checks)
            }
            _ => setup.dense_inverse::<T, N>(&a),
        }
    }
}

/// Grid transfers of a level with values stored as `N`.
pub(super) trait TransfersIn<S: Setup, N: Number> {
    /// The restriction to the next level.
    fn restriction(&self, setup: &S) -> Result<S::Matrix<N>>;
    /// The prolongator from the next level.
    fn prolongator(&self, setup: &S) -> Result<S::Matrix<N>>;
}

impl<S: Setup, T: Scalar, N: Number> TransfersIn<S, N> for ComputedLevel<S, T> {
    fn restriction(&self, setup: &S) -> Result<S::Matrix<N>> {
        setup.begin_phase(Some(self.number), "place");
        let (fine, coarse) = (self.factors.as_deref(), self.coarse_factors.as_deref());
        let by = Rounding::Nearest(By::over(coarse), By::times(fine));
        self.stored(setup, &self.transfer().1, "restriction", by)
    }

    fn prolongator(&self, setup: &S) -> Result<S::Matrix<N>> {
        let (fine, coarse) = (self.factors.as_deref(), self.coarse_factors.as_deref());
        let by = Rounding::Nearest(By::times(fine), By::over(coarse));
        self.stored(setup, &self.transfer().0, "prolongator", by)
    }
}

/// Grid transfers of a level in any format. A trait object instead of the precision of set-up as a parameter: half as
/// many functions are compiled for the formats of operator and vectors.
pub(super) trait LevelTransfers<S: Setup>:
    TransfersIn<S, f64> + TransfersIn<S, f32> + TransfersIn<S, f16> + TransfersIn<S, bf16>
{
    /// Storage formats of the level.
    fn formats(&self) -> &Mutex<Formats<S>>;
}

impl<S: Setup, T: Scalar> LevelTransfers<S> for ComputedLevel<S, T> {
    fn formats(&self) -> &Mutex<Formats<S>> {
        &self.formats
    }
}

impl<S: Setup, B: Backend> Storing<'_, S, B> {
    /// How a matrix is stored, which may have short columns where the library stores it itself. Only wide sums know them.
    pub fn hint(&self, compact: bool) -> StorageHint {
        let sums = self.builder.sums();
        let open = self.builder.config.choice("precision.indices").is_none() && sums == Sums::Wide;
        StorageHint { columns: if compact && open { Columns::Compact } else { Columns::Shared }, sums }
    }
}
