//! Components of set-up by name: their properties, and the types that implement them on the host and on GPUs. A new
//! component is one line here and files of its own. A component without a type for GPUs is computed on the host. Krylov
//! methods have one type for all backends; their list is in `krylov/mod.rs`.

use crate::backend::common::{self, GridWeights};
use crate::backend::components::{Coarsening, Interpolation, SmootherInput, SmootherSetup, Strength};
use crate::backend::parameters::Ties;
use crate::backend::setup::{Setup, Store};
use crate::backend::{Backend, Smoother, StorageFactory};
use crate::error::Result;
use crate::gpu::setup::grid_levels;
use crate::gpu::{Gpu, setup as gpu};
use crate::host::stencil::black_box::GridInterpolation;
use crate::host::{self, Host};
use crate::scalar::{Number, Scalar};
use crate::smooth;

/// Properties of a strength measure.
pub(crate) struct StrengthInfo {
    /// As the options spell it.
    pub name: &'static str,
    /// Whether its threshold can be set by a number of strong couplings.
    pub counts_connections: bool,
    /// Whether it compares vectors of a near-null space, which were given or made.
    pub uses_near_null_space: bool,
}

const OF_ROWS: StrengthInfo = StrengthInfo { name: "", counts_connections: false, uses_near_null_space: false };
const OF_PAIRS: StrengthInfo = StrengthInfo { counts_connections: true, ..OF_ROWS };
const OF_VECTORS: StrengthInfo = StrengthInfo { uses_near_null_space: true, ..OF_PAIRS };

/// Properties of a coarsening.
pub(crate) struct CoarseningInfo {
    /// As the options spell it.
    pub name: &'static str,
    /// The default strength measure.
    pub strength: &'static str,
    /// The default interpolation.
    pub interpolation: &'static str,
    /// Whether it coarsens nodes of several unknowns, with a near-null space. Otherwise block matrices are converted to CSR.
    pub keeps_blocks: bool,
    /// Whether it represents a near-null space.
    pub uses_near_null_space: bool,
    /// Whether it coarsens structured grids.
    pub is_structured: bool,
    /// Whether it depends on the values of the matrix, beside its strong couplings.
    pub uses_values: bool,
    /// The interpolation together with which its set-up is divided among ranks, if there is one.
    pub divided_with: Option<&'static str>,
    /// Which of equal weights truncation keeps.
    pub ties: Ties,
}

/// A C/F splitting by the strength graph alone, with classical interpolation.
const SPLITTING: CoarseningInfo = CoarseningInfo {
    name: "",
    strength: "classical",
    interpolation: "extended_i",
    keeps_blocks: false,
    uses_near_null_space: false,
    is_structured: false,
    uses_values: false,
    divided_with: None,
    ties: Ties::Mixed,
};

/// Aggregates of nodes by the strength graph alone, with smoothed interpolation.
const AGGREGATION: CoarseningInfo = CoarseningInfo {
    name: "",
    strength: "symmetric",
    interpolation: "smoothed",
    keeps_blocks: true,
    uses_near_null_space: true,
    is_structured: false,
    uses_values: false,
    divided_with: None,
    ties: Ties::Mixed,
};

/// Axes of a structured grid by the values of its stencil, with operator-dependent interpolation.
const GRID: CoarseningInfo = CoarseningInfo {
    name: "",
    strength: "absolute",
    interpolation: "black_box",
    keeps_blocks: true,
    uses_near_null_space: false,
    is_structured: true,
    uses_values: true,
    divided_with: None,
    ties: Ties::Mixed,
};

/// Properties of an interpolation.
pub(crate) struct InterpolationInfo {
    /// As the options spell it.
    pub name: &'static str,
    /// Whether it interpolates from aggregates, not from the coarse unknowns of a splitting.
    pub needs_aggregates: bool,
    /// Whether it interpolates from coarser structured grids.
    pub is_structured: bool,
    /// Whether it represents a near-null space.
    pub uses_near_null_space: bool,
    /// The default strength measure, if it is not that of the coarsening.
    pub strength: Option<&'static str>,
}

const CLASSICAL: InterpolationInfo = InterpolationInfo {
    name: "",
    needs_aggregates: false,
    is_structured: false,
    uses_near_null_space: false,
    strength: None,
};
const FITTED: InterpolationInfo =
    InterpolationInfo { uses_near_null_space: true, strength: Some("symmetric"), ..CLASSICAL };
const FROM_AGGREGATES: InterpolationInfo =
    InterpolationInfo { needs_aggregates: true, uses_near_null_space: true, ..CLASSICAL };
const FROM_GRID: InterpolationInfo = InterpolationInfo { needs_aggregates: true, is_structured: true, ..CLASSICAL };

const BLACK_BOX: GridInterpolation = GridInterpolation { kind: GridWeights::BlackBox, name: "black_box" };
const BLACK_BOX_ON_GPU: grid_levels::GridInterpolation =
    grid_levels::GridInterpolation { kind: GridWeights::BlackBox, name: "black_box" };
const CONSTANT: GridInterpolation = GridInterpolation { kind: GridWeights::Constant, name: "constant" };
const CONSTANT_ON_GPU: grid_levels::GridInterpolation =
    grid_levels::GridInterpolation { kind: GridWeights::Constant, name: "constant" };
const LINEAR: GridInterpolation = GridInterpolation { kind: GridWeights::Linear, name: "linear" };
const LINEAR_ON_GPU: grid_levels::GridInterpolation =
    grid_levels::GridInterpolation { kind: GridWeights::Linear, name: "linear" };

/// Where a smoother works over ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverRanks {
    /// On all backends. Its set-up is divided among the ranks.
    Divided,
    /// On all backends. Each rank sets up all of it.
    Everywhere,
    /// On the host; GPUs have this one instead.
    OnHost(&'static str),
    /// Nowhere: it goes through the unknowns one after the other. This one comes nearest.
    Nowhere(&'static str),
}

/// Properties of a smoother.
pub(crate) struct SmootherInfo {
    /// As the options spell it.
    pub name: &'static str,
    /// Whether it keeps the level's matrix in its own format.
    pub keeps_matrix: bool,
    /// Whether its data are the inverse of a diagonal, or of diagonal blocks.
    pub is_diagonal: bool,
    /// Whether it needs the largest eigenvalue of D^-1 A.
    pub uses_eigenvalue: bool,
    /// Whether it uses the l1 diagonal of the matrix.
    pub uses_l1_diagonal: bool,
    /// Whether it is for structured grids alone.
    pub needs_grid: bool,
    /// Whether it is a Gauss-Seidel sweep in the order of the unknowns or of colours.
    is_gauss_seidel: bool,
    /// Whether the axes of coarsening depend on it, so that all levels must have it.
    pub relaxes_lines: bool,
    /// Where it works over ranks.
    pub over_ranks: OverRanks,
    /// Whether GPUs have it.
    on_gpu: bool,
}

const FACTORS: SmootherInfo = SmootherInfo {
    name: "",
    keeps_matrix: false,
    is_diagonal: false,
    uses_eigenvalue: false,
    uses_l1_diagonal: false,
    needs_grid: false,
    is_gauss_seidel: false,
    relaxes_lines: false,
    over_ranks: OverRanks::Everywhere,
    on_gpu: false,
};
const DIAGONAL: SmootherInfo = SmootherInfo { is_diagonal: true, over_ranks: OverRanks::Divided, ..FACTORS };
const SPECTRAL: SmootherInfo = SmootherInfo { uses_eigenvalue: true, ..DIAGONAL };
const L1_DIAGONAL: SmootherInfo = SmootherInfo { uses_l1_diagonal: true, ..DIAGONAL };
const MATRIX: SmootherInfo = SmootherInfo { keeps_matrix: true, ..FACTORS };
const GAUSS_SEIDEL: SmootherInfo = SmootherInfo { is_gauss_seidel: true, ..MATRIX };
const LINES: SmootherInfo =
    SmootherInfo { needs_grid: true, relaxes_lines: true, over_ranks: OverRanks::Nowhere("chebyshev"), ..MATRIX };

/// The components of set-up backends, by name; none where a backend does not have it.
pub(crate) trait Components: Setup {
    /// A strength measure.
    fn strength<T: Scalar>(name: &str) -> Option<&'static dyn Strength<Self, T>>;
    /// A coarsening.
    fn coarsening<T: Scalar>(name: &str) -> Option<&'static dyn Coarsening<Self, T>>;
    /// An interpolation.
    fn interpolation<T: Scalar>(name: &str) -> Option<&'static dyn Interpolation<Self, T>>;
    /// An interpolation for aggressive levels alone.
    fn aggressive_interpolation<T: Scalar>(name: &str) -> Option<&'static dyn Interpolation<Self, T>>;
}

/// The smoothers of levels that are computed on one backend and stored on another.
pub(crate) trait SmootherComponents<B: Backend>: Store<B> {
    /// Whether there is one of this name.
    fn has_smoother(name: &str) -> bool;
    /// The smoother of this name for a level.
    fn smoother<T: Scalar, N: Number, V: Number>(
        name: &str,
        input: &SmootherInput<'_, Self, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>>;
}

/// A set-up backend that makes hierarchies for a solve backend.
pub(crate) trait SetupFor<B: Backend>: Components + SmootherComponents<B> + SmootherComponents<Self> {}

impl<B: Backend, S: Components + SmootherComponents<B> + SmootherComponents<S>> SetupFor<B> for S {}

macro_rules! optional {
    () => {
        None
    };
    ($component:expr) => {
        Some(&$component)
    };
}

/// Lists components: name, properties, type on the host, type on GPUs if there is one. Declares their names, their
/// properties and two lookup functions.
macro_rules! list {
    (
        $names:ident, $table:ident: $info:ident, $on_host:ident, $on_gpu:ident: $component:ident;
        $($name:literal: $properties:expr, $host:expr $(, $gpu:expr)?;)*
    ) => {
        /// Names, as the options spell them.
        pub const $names: &[&str] = &[$($name),*];
        static $table: &[$info] = &[$($info { name: $name, ..$properties }),*];

        fn $on_host<T: Scalar>(name: &str) -> Option<&'static dyn $component<Host, T>> {
            match name {
                $($name => Some(&$host),)*
                _ => None,
            }
        }

        fn $on_gpu<T: Scalar>(name: &str) -> Option<&'static dyn $component<Gpu, T>> {
            match name {
                $($name => optional!($($gpu)?),)*
                _ => None,
            }
        }
    };
}

list! {
    STRENGTHS, STRENGTH_TABLE: StrengthInfo, host_strength, gpu_strength: Strength;
    "classical": OF_ROWS, host::strength::ClassicalStrength, gpu::strength::ClassicalStrength;
    "absolute": OF_ROWS, host::strength::AbsoluteStrength, gpu::strength::AbsoluteStrength;
    "symmetric": OF_PAIRS, host::strength::SymmetricStrength, gpu::strength::SymmetricStrength;
    "affinity": OF_VECTORS, host::affinity::AffinityStrength, gpu::affinity::AffinityStrength;
}

list! {
    COARSENINGS, COARSENING_TABLE: CoarseningInfo, host_coarsening, gpu_coarsening: Coarsening;
    "grid": GRID, host::stencil::coarsening::GridCoarsening, grid_levels::GridCoarsening;
    "pmis": CoarseningInfo { divided_with: Some("extended_i"), ..SPLITTING }, host::pmis::Pmis, gpu::pmis::Pmis;
    "hmis": CoarseningInfo { ties: Ties::Smallest, ..SPLITTING }, host::hmis::Hmis;
    "mis2": CoarseningInfo { divided_with: Some("smoothed"), ..AGGREGATION }, host::mis2::Mis2, gpu::mis2::Mis2;
    "pairwise": CoarseningInfo { uses_values: true, ..AGGREGATION }, host::pairwise::Pairwise, gpu::pairwise::Pairwise;
}

/// Choices of the axes along which a structured grid is coarsened, as the options spell them.
pub const AXES: &[&str] = common::AXES;

list! {
    INTERPOLATIONS, INTERPOLATION_TABLE: InterpolationInfo, host_interpolation, gpu_interpolation: Interpolation;
    "black_box": FROM_GRID, BLACK_BOX, BLACK_BOX_ON_GPU;
    "classical_modified": CLASSICAL, host::classical_modified::ClassicalModified, gpu::classical_modified::ClassicalModified;
    "constant": FROM_GRID, CONSTANT, CONSTANT_ON_GPU;
    "direct": CLASSICAL, host::direct::Direct, gpu::direct::Direct;
    "energy": FROM_AGGREGATES, host::energy::EnergyMinimisation, gpu::energy::EnergyMinimisation;
    "extended_i": CLASSICAL, host::extended_i::ExtendedI, gpu::extended_i_numeric::ExtendedI;
    "least_squares": FITTED, host::least_squares::LeastSquares, gpu::least_squares::LeastSquares;
    "linear": FROM_GRID, LINEAR, LINEAR_ON_GPU;
    "mm_ext": CLASSICAL, host::mm_ext::MmExt { plus_i: false }, gpu::mm_ext::MmExt { plus_i: false };
    "mm_ext_i": CLASSICAL, host::mm_ext::MmExt { plus_i: true }, gpu::mm_ext::MmExt { plus_i: true };
    "smoothed": FROM_AGGREGATES, host::smoothed::SmoothedAggregation, gpu::smoothed::SmoothedAggregation;
    "tentative": FROM_AGGREGATES, host::tentative::PlainAggregation, gpu::tentative::PlainAggregation;
}

list! {
    AGGRESSIVE_ALONE, AGGRESSIVE_TABLE: InterpolationInfo, host_aggressive, gpu_aggressive: Interpolation;
    "multipass": CLASSICAL, host::multipass::Multipass;
}

/// The interpolation of the other levels, in two stages.
pub const TWO_STAGE: &str = "two_stage";

/// Ways to interpolate on aggressive levels: by the interpolation of the other levels, or by one for these levels alone.
pub const AGGRESSIVE: &[&str] = &[TWO_STAGE, AGGRESSIVE_ALONE[0]];

macro_rules! has {
    () => {
        false
    };
    ($component:expr) => {
        true
    };
}

macro_rules! smoothers {
    ($($name:literal: $properties:expr, $host:expr $(, $gpu:expr)?;)*) => {
        /// Names of smoothers, as the options spell them.
        pub const SMOOTHERS: &[&str] = &[$($name),*];
        const SMOOTHER_TABLE: &[SmootherInfo] =
            &[$(SmootherInfo { name: $name, on_gpu: has!($($gpu)?), ..$properties }),*];

        impl<B: StorageFactory> SmootherComponents<B> for Host {
            fn has_smoother(name: &str) -> bool {
                SMOOTHERS.contains(&name)
            }

            fn smoother<T: Scalar, N: Number, V: Number>(
                name: &str,
                input: &SmootherInput<'_, Host, B, T>,
            ) -> Result<Box<dyn Smoother<B, V>>> {
                match name {
                    $($name => $host.build::<T, N, V>(input),)*
                    _ => unreachable!("the options table accepts only names of the registry, not {name}"),
                }
            }
        }

        impl SmootherComponents<Gpu> for Gpu {
            fn has_smoother(name: &str) -> bool {
                SMOOTHER_TABLE.iter().any(|info| info.name == name && info.on_gpu)
            }

            fn smoother<T: Scalar, N: Number, V: Number>(
                name: &str,
                input: &SmootherInput<'_, Gpu, Gpu, T>,
            ) -> Result<Box<dyn Smoother<Gpu, V>>> {
                match name {
                    $($($name => $gpu.build::<T, N, V>(input),)?)*
                    _ => unreachable!("{name} is computed on the host alone"),
                }
            }
        }
    };
}

smoothers! {
    "chebyshev": SPECTRAL, smooth::chebyshev::ChebyshevSetup, smooth::chebyshev::ChebyshevSetup;
    "chebyshev_fsai": FACTORS, smooth::fsai::ChebyshevFsaiSetup, smooth::fsai::ChebyshevFsaiSetup;
    "dilu": SmootherInfo { over_ranks: OverRanks::Nowhere("fsai"), ..MATRIX }, smooth::dilu::DiluSetup, smooth::dilu::DiluSetup;
    "fsai": FACTORS, smooth::fsai::FsaiSetup, smooth::fsai::FsaiSetup;
    "gauss_seidel": SmootherInfo { over_ranks: OverRanks::OnHost("chebyshev"), ..GAUSS_SEIDEL }, smooth::gauss_seidel::GaussSeidelSetup, smooth::gauss_seidel::GaussSeidelSetup;
    "ilu0": SmootherInfo { needs_grid: true, over_ranks: OverRanks::Nowhere("fsai"), ..MATRIX }, smooth::ilu0::Ilu0Setup, smooth::ilu0::Ilu0Setup;
    "jacobi": DIAGONAL, smooth::jacobi::Jacobi, smooth::jacobi::Jacobi;
    "l1_gauss_seidel": SmootherInfo { over_ranks: OverRanks::Nowhere("l1_jacobi"), ..GAUSS_SEIDEL }, host::l1_gauss_seidel::L1GaussSeidelSetup;
    "l1_jacobi": L1_DIAGONAL, smooth::l1_jacobi::L1Jacobi, smooth::l1_jacobi::L1Jacobi;
    "line": LINES, smooth::line::LineSetup, smooth::line::LineSetup;
}

/// The fastest Gauss-Seidel of a backend: `l1_gauss_seidel` on the host, `gauss_seidel` on GPUs.
pub const ANY_GAUSS_SEIDEL: &str = "any_gauss_seidel";

/// Where a smoother works over ranks, by its name in the options.
pub(crate) fn smoother_over_ranks(name: &str) -> OverRanks {
    smoother_info(if name == ANY_GAUSS_SEIDEL { "l1_gauss_seidel" } else { name }).over_ranks
}

/// Whether an option of this value is a Gauss-Seidel sweep.
pub(crate) fn is_gauss_seidel(name: &str) -> bool {
    name == ANY_GAUSS_SEIDEL || SMOOTHER_TABLE.iter().any(|info| info.name == name && info.is_gauss_seidel)
}

/// Whether an option of this value relaxes lines of a grid.
pub(crate) fn relaxes_lines(name: &str) -> bool {
    SMOOTHER_TABLE.iter().any(|info| info.name == name && info.relaxes_lines)
}

/// The coarsening where the options name none, for nodes of several unknowns or not.
pub(crate) fn default_coarsening(has_nodes: bool) -> &'static str {
    if has_nodes { "mis2" } else { "pmis" }
}

/// The smoother where the options name none.
pub(crate) fn default_smoother(is_structured: bool, has_space: bool) -> &'static str {
    match has_space {
        _ if is_structured => "gauss_seidel",
        true => "chebyshev",
        false => "l1_jacobi",
    }
}

/// What the options accept as a smoother: names of smoothers, and of a choice among them.
pub const SMOOTHER_CHOICES: [&str; SMOOTHERS.len() + 1] = {
    let (mut names, mut i) = ([ANY_GAUSS_SEIDEL; SMOOTHERS.len() + 1], 0);
    while i < SMOOTHERS.len() {
        names[i] = SMOOTHERS[i];
        i += 1;
    }
    names
};

impl Components for Host {
    fn strength<T: Scalar>(name: &str) -> Option<&'static dyn Strength<Host, T>> {
        host_strength(name)
    }

    fn coarsening<T: Scalar>(name: &str) -> Option<&'static dyn Coarsening<Host, T>> {
        host_coarsening(name)
    }

    fn interpolation<T: Scalar>(name: &str) -> Option<&'static dyn Interpolation<Host, T>> {
        host_interpolation(name)
    }

    fn aggressive_interpolation<T: Scalar>(name: &str) -> Option<&'static dyn Interpolation<Host, T>> {
        host_aggressive(name)
    }
}

impl Components for Gpu {
    fn strength<T: Scalar>(name: &str) -> Option<&'static dyn Strength<Gpu, T>> {
        gpu_strength(name)
    }

    fn coarsening<T: Scalar>(name: &str) -> Option<&'static dyn Coarsening<Gpu, T>> {
        gpu_coarsening(name)
    }

    fn interpolation<T: Scalar>(name: &str) -> Option<&'static dyn Interpolation<Gpu, T>> {
        gpu_interpolation(name)
    }

    fn aggressive_interpolation<T: Scalar>(name: &str) -> Option<&'static dyn Interpolation<Gpu, T>> {
        gpu_aggressive(name)
    }
}

/// What options choose from: the key, the names of components that a GPU sets up, and of those that the host sets up for it.
pub struct SetupPlaces {
    /// The option.
    pub key: &'static str,
    /// On the device.
    pub device: Vec<&'static str>,
    /// On the host, to be copied.
    pub host: Vec<&'static str>,
}

/// Where the components of set-up are computed for a GPU.
pub fn setup_places() -> [SetupPlaces; 5] {
    let of = |key, names: &[&'static str], on_device: fn(&str) -> bool| {
        let (device, host) = names.iter().partition(|name| on_device(name));
        SetupPlaces { key, device, host }
    };
    [
        of("amg.strength.type", STRENGTHS, |name| gpu_strength::<f64>(name).is_some()),
        of("amg.coarsening.type", COARSENINGS, |name| gpu_coarsening::<f64>(name).is_some()),
        of("amg.interpolation.type", INTERPOLATIONS, |name| gpu_interpolation::<f64>(name).is_some()),
        of("amg.interpolation.aggressive", AGGRESSIVE, |name| {
            name == TWO_STAGE || gpu_aggressive::<f64>(name).is_some()
        }),
        of("amg.smoother.type", SMOOTHERS, |name| !HOST_ONLY_SMOOTHERS.contains(&name)),
    ]
}

/// The quoted names of a list, as sentences have them.
fn quoted(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ")
}

/// Strength measures whose threshold can be set by a number of strong couplings.
pub(crate) fn strengths_with_connections() -> String {
    quoted(STRENGTH_TABLE.iter().filter(|info| info.counts_connections).map(|info| info.name))
}

/// Coarsenings and, after other ones, interpolations that represent a near-null space, as a sentence names them.
pub(crate) fn with_near_null_space() -> String {
    let coarsenings = COARSENING_TABLE.iter().filter(|info| info.uses_near_null_space).map(|info| info.name);
    let others = INTERPOLATION_TABLE.iter().filter(|info| info.uses_near_null_space && !info.needs_aggregates);
    let others = quoted(others.map(|info| info.name));
    format!("amg.coarsening.type {}, or amg.interpolation.type {others}", quoted(coarsenings))
}

/// Interpolations that represent a near-null space.
pub(crate) fn interpolations_with_near_null_space() -> String {
    quoted(INTERPOLATION_TABLE.iter().filter(|info| info.uses_near_null_space).map(|info| info.name))
}

/// Interpolations for structured grids.
pub(crate) fn interpolations_for_grids() -> String {
    quoted(INTERPOLATION_TABLE.iter().filter(|info| info.is_structured).map(|info| info.name))
}

/// Properties of the strength measure of this name.
pub(crate) fn strength_info(name: &str) -> &'static StrengthInfo {
    STRENGTH_TABLE.iter().find(|info| info.name == name).expect("the options table accepts only names of the registry")
}

/// Properties of the coarsening of this name.
pub(crate) fn coarsening_info(name: &str) -> &'static CoarseningInfo {
    COARSENING_TABLE
        .iter()
        .find(|info| info.name == name)
        .expect("the options table accepts only names of the registry")
}

/// Properties of the interpolation of this name.
pub(crate) fn interpolation_info(name: &str) -> &'static InterpolationInfo {
    let all = INTERPOLATION_TABLE.iter().chain(AGGRESSIVE_TABLE);
    all.into_iter().find(|info| info.name == name).expect("the options table accepts only names of the registry")
}

/// Properties of the smoother of this name.
pub(crate) fn smoother_info(name: &str) -> &'static SmootherInfo {
    SMOOTHER_TABLE.iter().find(|info| info.name == name).expect("the options table accepts only names of the registry")
}

const HOST_ONLY_COUNT: usize = {
    let (mut count, mut i) = (0, 0);
    while i < SMOOTHER_TABLE.len() {
        count += if SMOOTHER_TABLE[i].on_gpu { 0 } else { 1 };
        i += 1;
    }
    count
};

/// Smoothers that GPUs do not have.
pub const HOST_ONLY_SMOOTHERS: [&str; HOST_ONLY_COUNT] = {
    let (mut names, mut count, mut i) = ([""; HOST_ONLY_COUNT], 0, 0);
    while i < SMOOTHER_TABLE.len() {
        if !SMOOTHER_TABLE[i].on_gpu {
            names[count] = SMOOTHER_TABLE[i].name;
            count += 1;
        }
        i += 1;
    }
    names
};
