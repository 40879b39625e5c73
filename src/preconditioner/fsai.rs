//! FSAI as a preconditioner: M = Gᵀ G with G A Gᵀ ≈ I, or for a matrix that is not symmetric M = Hᵀ G with G A Hᵀ ≈ I.

use super::{Inverse, Method, estimate, one_level};
use crate::amg::finest::{Application, Finest, FinestLevel};
use crate::amg::hierarchy::{Builder, Built, Renewal, SetupData, SetupOn};
use crate::amg::plan::Plan;
use crate::backend::components::own_operator;
use crate::backend::fsai::{Factor, Fsai as Parameters, FsaiFactor, Pair};
use crate::backend::setup::{By, Setup, SetupMatrix, SetupPattern};
use crate::backend::{Backend, Operator};
use crate::config::{Config, LevelPart};
use crate::context::Context;
use crate::error::Result;
use crate::matrix::Matrix;
use crate::report::{FsaiReport, Phases};
use crate::scalar::{Number, Precision, Scalar, with_precision, with_storage, with_storage_for};
use crate::sync::lock;
use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// A factorised sparse approximate inverse that is set up; one `apply` is x = Gᵀ G b, or x = Hᵀ G b for a matrix that is not
/// symmetric.
pub struct Fsai(Inverse);

impl Deref for Fsai {
    type Target = Inverse;

    fn deref(&self) -> &Inverse {
        &self.0
    }
}

impl DerefMut for Fsai {
    fn deref_mut(&mut self) -> &mut Inverse {
        &mut self.0
    }
}

impl Fsai {
    /// Computes the factor of a symmetric positive definite matrix, or both of one that is not symmetric, by the options `fsai.*`, and
    /// stores them in `precision.smoother`.
    pub fn setup(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Fsai> {
        Inverse::setup(Method::Fsai, context, matrix, config).map(Fsai)
    }

    /// Estimated bytes of `setup` with these options, as [`super::Amg::memory_estimate`].
    pub fn memory_estimate(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
        estimate::alone(Method::Fsai, context, matrix, config)
    }
}

/// Gᵀ G, or Hᵀ G, for vectors of precision `V`.
struct Product<B: Backend, V: Number> {
    backend: B,
    g: Arc<dyn Operator<B, V>>,
    /// Gᵀ or Hᵀ.
    transposed: Arc<dyn Operator<B, V>>,
    is_symmetric: bool,
    /// G b.
    half: B::Buffer<V>,
}

impl<B: Backend, V: Number> Product<B, V> {
    fn new(backend: &B, [g, transposed]: [Arc<dyn Operator<B, V>>; 2], is_symmetric: bool) -> Result<Product<B, V>> {
        let half = backend.zeros(g.rows())?;
        Ok(Product { backend: backend.clone(), g, transposed, is_symmetric, half })
    }
}

impl<B: Backend, V: Number> Application<B, V> for Product<B, V> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn rows(&self) -> usize {
        self.g.rows()
    }

    fn apply(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()> {
        self.g.apply(V::Wide::ONE, b, V::Wide::ZERO, &mut self.half)?;
        self.transposed.apply(V::Wide::ONE, &self.half, V::Wide::ZERO, x)
    }

    fn bytes(&self) -> usize {
        // Those for multivectors share the matrices.
        let matrices = if self.g.vectors() == 1 { self.g.bytes() + self.transposed.bytes() } else { 0 };
        matrices + self.rows() * V::PRECISION.bytes()
    }

    fn is_symmetric_in(&self, precision: Precision) -> bool {
        self.is_symmetric && V::PRECISION == precision
    }

    fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn Application<B, V>>>> {
        let both = [&self.g, &self.transposed].map(|m| Arc::clone(m).for_multivectors(k));
        let [Some(g), Some(transposed)] = both else { return Ok(None) };
        Ok(Some(Box::new(Product::new(&self.backend, [g, transposed], self.is_symmetric)?)))
    }
}

/// What an update reuses.
struct FsaiData<S: Setup> {
    /// The pattern of G.
    pattern: S::Pattern,
    /// Storage formats of G and Gᵀ, for these number formats of values and vectors.
    formats: Mutex<Formats<S::Format>>,
    /// Whether they are those of the transpose.
    transposes: bool,
}

struct Formats<F> {
    numbers: Option<(Precision, Precision)>,
    g: Option<F>,
    transposed: Option<F>,
}

impl<S: Setup> SetupData for FsaiData<S> {
    fn bytes(&self) -> usize {
        let formats = lock(self.formats.lock());
        let of = |format: &Option<S::Format>| format.as_ref().map_or(0, S::format_bytes);
        self.pattern.bytes(1) + of(&formats.g) + of(&formats.transposed)
    }
}

/// Sets up, or with data of an earlier set-up computes the factor on its pattern. `transposes` for the transpose.
pub(super) fn build<S: SetupOn<B> + FsaiFactor, B: Backend>(
    builder: &Builder<'_>,
    setup: &S,
    to: &B,
    data: Option<&dyn SetupData>,
    transposes: bool,
) -> Result<(Built<B>, FsaiReport)> {
    let data = data.and_then(|data| <dyn Any>::downcast_ref::<FsaiData<S>>(data));
    with_precision!(builder.precision(), T => build_in::<S, B, T>(builder, setup, to, data, transposes))
}

fn build_in<S: SetupOn<B> + FsaiFactor, B: Backend, T: Scalar>(
    builder: &Builder<'_>,
    setup: &S,
    to: &B,
    data: Option<&FsaiData<S>>,
    transposes: bool,
) -> Result<(Built<B>, FsaiReport)> {
    let (config, input, mut phases) = (builder.config, builder.matrix.precision(), Phases::default());
    setup.begin_phase(None, "fsai");
    let is_symmetric = builder.matrix.is_symmetric(builder.context)?;
    let a = setup.import::<T>(builder.matrix, false)?;
    let a = if is_symmetric { setup.in_blocks(a)? } else { setup.to_scalar(a)? };
    let computed = phases.time("fsai", || compute(setup, &a, config, data, (is_symmetric, transposes)))?;
    let Computed { g, transposed, breakdowns } = &computed;
    let formats = match data {
        // Those of what this one is the transpose of stay there.
        Some(data) if data.transposes == transposes => {
            std::mem::replace(&mut *lock(data.formats.lock()), Formats::NONE)
        }
        _ => Formats::NONE,
    };
    let mut plan = match &builder.plan {
        Some(plan) => plan.clone(),
        None => Plan::without_levels(config, input)?,
    };
    let mut storing = Storing { builder, setup, to, is_symmetric, formats };
    let top = one_level::promoted(&mut plan, |plan| phases.time("place", || storing.store(&a, [g, transposed], plan)))?;
    let (rows, breakdowns) = (a.scalar_rows(), *breakdowns);
    let nonzeros = if is_symmetric { g.entries() } else { g.entries() + transposed.entries() };
    let precision = plan.of(LevelPart::Smoother, 0);
    let fsai = FsaiReport { rows, nonzeros, precision, breakdowns };
    let (pattern, formats) = (g.pattern(), Mutex::new(storing.formats));
    drop(computed);
    let data = Arc::new(FsaiData::<S> { pattern, formats, transposes });
    Ok((Built { top, plan, data, renewal: Renewal::default(), phases, setup_place: String::new() }, fsai))
}

/// What set-up computes.
struct Computed<S: Setup, T: Scalar> {
    g: S::Matrix<T>,
    /// Gᵀ or Hᵀ.
    transposed: S::Matrix<T>,
    breakdowns: usize,
}

/// The factors, on the pattern of an earlier set-up where there was one.
fn compute<S: FsaiFactor, T: Scalar>(
    setup: &S,
    a: &S::Matrix<T>,
    config: &Config,
    data: Option<&FsaiData<S>>,
    (is_symmetric, transposes): (bool, bool),
) -> Result<Computed<S, T>> {
    if is_symmetric {
        let Factor { g, breakdowns } = match data {
            Some(data) => setup.on_pattern(a, &data.pattern)?,
            None => setup.factor(a, &Parameters::new(config))?,
        };
        return Ok(Computed { transposed: setup.transpose(&g)?, g, breakdowns });
    }
    let pattern = match data {
        Some(data) => data.pattern.clone(),
        None => setup.factor(a, &Parameters::new(config))?.g.pattern(),
    };
    let Pair { g, h, breakdowns } = setup.pair_on_pattern(a, &setup.transpose(a)?, &pattern)?;
    // The transpose of Hᵀ G is Gᵀ H.
    let (g, h) = if transposes { (h, g) } else { (g, h) };
    Ok(Computed { g, transposed: setup.transpose(&h)?, breakdowns })
}

impl<F> Formats<F> {
    const NONE: Formats<F> = Formats { numbers: None, g: None, transposed: None };
}

/// How factors are stored: computed on `S`, for products on `B`.
struct Storing<'a, S: SetupOn<B>, B: Backend> {
    builder: &'a Builder<'a>,
    setup: &'a S,
    to: &'a B,
    is_symmetric: bool,
    formats: Formats<S::Format>,
}

impl<S: SetupOn<B>, B: Backend> Storing<'_, S, B> {
    /// G and Gᵀ in the formats of a plan. With 16 bits, unknowns are multiplied by powers of two near the root of the diagonal.
    fn store<T: Scalar>(
        &mut self,
        a: &S::Matrix<T>,
        factors: [&S::Matrix<T>; 2],
        plan: &Plan,
    ) -> Result<Box<dyn Finest<B>>> {
        let (setup, config) = (self.setup, self.builder.config);
        let (by, inverse) = one_level::scaling(self.builder, setup, self.to, a, plan)?;
        let by = By::times(by.as_ref());
        let [g, transposed] = factors;
        let (g, transposed) = (setup.scaled(g, By::One, by)?, setup.scaled(transposed, by, By::One)?);
        let (vector, storage) = (plan.of(LevelPart::Vector, 0), plan.of(LevelPart::Smoother, 0));
        if self.formats.numbers != Some((storage, vector)) {
            self.formats = Formats { numbers: Some((storage, vector)), ..Formats::NONE };
        }
        let guarded = config.choice("precision.residual_scaling").is_none();
        with_storage!(vector, V => {
            let product = with_storage_for!(storage, V, N => self.product::<T, N, V>(&g, &transposed))?;
            Ok(Box::new(FinestLevel::new(Box::new(product), inverse, guarded, plan.is_narrow())?))
        })
    }

    fn product<T: Scalar, N: Number, V: Number>(
        &mut self,
        g: &S::Matrix<T>,
        transposed: &S::Matrix<T>,
    ) -> Result<Product<B, V>> {
        let (setup, to, checks) = (self.setup, self.to, Mutex::new(self.setup.checks()));
        let Formats { g: of_g, transposed: of_transposed, .. } = &mut self.formats;
        let g = own_operator::<S, B, T, N, V>(setup, to, (0, "FSAI factor"), &checks, g, of_g)?;
        let transposed =
            own_operator::<S, B, T, N, V>(setup, to, (0, "FSAI factor"), &checks, transposed, of_transposed)?;
        setup.evaluate(lock(checks.into_inner()))?;
        Product::new(to, [g.into(), transposed.into()], self.is_symmetric)
    }
}
