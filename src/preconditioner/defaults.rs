//! What options that were not set stand for, by the kind of matrix. `docs/defaults.md` shows what the choice rests on.

use super::Method;
use crate::amg::plan::Plan;
use crate::components::{
    ANY_GAUSS_SEIDEL, OverRanks, coarsening_info, default_coarsening, default_smoother, smoother_over_ranks,
    strength_info,
};
use crate::config::{Config, LevelPart};
use crate::context::{Context, LogLevel};
use crate::error::{Result, fail};
use crate::matrix::Matrix;
use crate::scalar::Precision;
use crate::sparse::{Block, Evenness, Stencil};
use std::ops::RangeInclusive;

/// Couplings are compared by this threshold, the default of classical strength.
pub(crate) const THETA: f64 = 0.25;

/// On a GPU aggregation pays up to this many entries in a row; in longer ones the products of a smoothed prolongator take more time than they save.
const SHORT_ROWS: usize = 16;

/// Levels in f32 pay where the matrix does not stay in caches, with at least so many stored values.
const LARGE: usize = 1 << 20;

/// Scalar matrices with a share of couplings of the sign of the diagonal in this range are aggregated: what classical interpolation rests on
/// does not hold for them. Above it are mass matrices, which need no coarse levels.
pub(crate) const SAME_SIGN: RangeInclusive<f64> = 0.2..=0.75;

/// The threshold of the symmetric measure for blocks, and the share of couplings below which prolongators of least energy, whose pattern
/// is that of strong couplings, take fewer entries and iterations than smoothed ones.
const THETA_OF_BLOCKS: f64 = 0.04;
const FEW_STRONG: f64 = 0.74;

/// Options of the components of AMG. Who sets one of them chooses among classical components, as `auto` then says.
const COMPONENTS: &[&str] =
    &["amg.coarsening.", "amg.strength.", "amg.interpolation.", "amg.functions", "amg.smoother.", "amg.cycle."];

/// Krylov methods for symmetric positive definite matrices.
const CG: &[&str] = &["auto", "cg", "fcg"];

/// Of these, the ones that allow a preconditioner to be rounded differently in each application.
const FLEXIBLE_CG: &[&str] = &["auto", "fcg"];

/// Multigrid on the grid that rows show pays from this many rows on. Below it launches are most of a cycle on a GPU, and AMG has fewer; on the host
/// set-up saves less than sweeps of Gauss-Seidel cost.
const FEWEST_ON_GRID: usize = 100_000;
const FEWEST_ON_GRID_OF_GPU: usize = 500_000;

/// Operator-dependent interpolation on a grid suits couplings that are even in at least this share of the rows, and of the sign of M-matrices but for this
/// share: linear tetrahedra of good shape have 7 %, strong anisotropy across the grid 10 % and more.
const EVEN: f64 = 0.6;
const FEW_SAME_SIGN: f64 = 0.09;

/// Options with their values.
pub(crate) type Options = &'static [(&'static str, &'static str)];

/// The sweeps of multigrid on a grid whose couplings are less smooth than that.
const TWO_SWEEPS: Options = &[("amg.smoother.pre_sweeps", "2"), ("amg.smoother.post_sweeps", "2")];

/// Whether the options name no component of AMG.
pub(crate) fn are_components_open(config: &Config) -> bool {
    !COMPONENTS.iter().any(|prefix| config.has_set(prefix))
}

/// The stencils that the rows of a matrix may be those of, where the options ask for multigrid on a grid, or where they leave everything open and that
/// suits the matrix: a large scalar one whose couplings are even along the axes of the grid. Whether it is symmetric is left to the caller. Each comes
/// with options of the hierarchy that suit its coefficients.
pub(crate) fn suits_grid(context: &Context, matrix: &Matrix, config: &Config) -> Result<Vec<(Stencil, Options)>> {
    let (kind, coarsening) = (config.text("amg.type"), config.text("amg.coarsening.type"));
    let is_asked = kind == "structured" && ["auto", "grid"].contains(&&*coarsening);
    let is_open = CG.contains(&&*config.text("solver.type")) && kind == "auto" && are_components_open(config);
    let fewest = if context.gpu().is_some() { FEWEST_ON_GRID_OF_GPU } else { FEWEST_ON_GRID };
    let is_plain = matrix.block() == Block::SCALAR
        && matrix.rows() >= fewest
        && matrix.near_null_space().is_none()
        && matrix.functions().is_none();
    if matrix.stencil().is_some() || !(is_asked || is_open && is_plain) {
        return Ok(Vec::new());
    }
    let suits = |couplings: &Evenness| is_asked || couplings.even >= EVEN && couplings.same_sign <= FEW_SAME_SIGN;
    let options = |couplings: &Evenness| {
        let is_rough = couplings.smooth < EVEN && !config.has_set("amg.smoother");
        if is_rough { TWO_SWEEPS } else { &[] }
    };
    let stencils = matrix.stencils_of_sample(context)?.into_iter();
    let suitable = stencils.filter(|(_, couplings)| suits(couplings));
    Ok(suitable.map(|(stencil, couplings)| (stencil, options(&couplings))).collect())
}

/// Whether the hierarchy is multigrid on a structured grid; an error where the options ask for it and the matrix has no grid, or contradict
/// each other.
pub(crate) fn is_structured(matrix: &Matrix, config: &Config) -> Result<bool> {
    let (kind, coarsening) = (config.text("amg.type"), config.text("amg.coarsening.type"));
    let (has_grid, is_open) = (matrix.stencil().is_some(), ["auto", "grid"].contains(&&*coarsening));
    match &*kind {
        "structured" if !is_open => fail!(
            OptionValue,
            "amg.type is \"structured\", and amg.coarsening.type \"{coarsening}\" coarsens matrices in rows; accepted with it: \"auto\" or \
             \"grid\""
        ),
        "unstructured" if coarsening == "grid" => fail!(
            OptionValue,
            "amg.type is \"unstructured\", and amg.coarsening.type \"grid\" coarsens structured grids; use amg.type \"structured\" with it"
        ),
        "structured" | "auto" if !has_grid && (kind == "structured" || coarsening == "grid") => fail!(
            OptionValue,
            "multigrid on a structured grid needs a matrix on one, and the rows of this one show none to a solver; create it with \
             terrace_matrix_create_stencil or call terrace_matrix_set_grid, or set amg.type to \"unstructured\""
        ),
        "unstructured" => Ok(false),
        _ => Ok(has_grid && is_open),
    }
}

/// The options of a solver for a nonsymmetric matrix: gmres, or fgmres by [`crate::solver`], and components that fit where none is set.
pub(crate) fn nonsymmetric(matrix: &Matrix, config: &Config) -> Result<Config> {
    let structured = is_structured(matrix, config)?;
    let mut config = config.clone();
    if !structured && are_components_open(&config) {
        config.set_str("amg.coarsening.type", "pmis")?;
        config.set_str("amg.smoother.type", ANY_GAUSS_SEIDEL)?;
    }
    config.set_str("solver.type", "gmres")?;
    Ok(config)
}

/// The options of a set-up that is divided among ranks, as [`effective`] of the whole matrix: with so many entries, and `aggregates` where
/// its couplings lead to aggregation. None where a part of it cannot be divided.
pub(crate) fn divided(matrix: &Matrix, config: &Config, entries: usize, aggregates: bool) -> Result<Option<Config>> {
    let krylov = config.text("solver.type");
    let mut effective = config.clone();
    let has_space = matrix.near_null_space().is_some();
    let is_open = CG.contains(&&*krylov) && !has_space && are_components_open(config);
    if is_open && aggregates {
        effective.set_str("amg.coarsening.type", "mis2")?;
        effective.set_str("amg.smoother.type", "chebyshev")?;
    }
    set_precision(&mut effective, config, matrix, entries, true)?;
    let name = |key: &str, default: &str| effective.choice(key).unwrap_or(default.to_string());
    let coarsening = coarsening_info(&name("amg.coarsening.type", default_coarsening(has_space)));
    let interpolation = name("amg.interpolation.type", coarsening.interpolation);
    let smoother = name("amg.smoother.type", default_smoother(false, has_space));
    let plan = Plan::asked(&effective, matrix.precision(), effective.int("amg.max_levels"))?;
    let levels = plan.levels.len();
    let can_be = matrix.functions().is_none()
        && (!has_space || coarsening.uses_near_null_space)
        && effective.int("amg.functions") < 2
        && effective.int("amg.coarsening.aggressive_levels") == 0
        && effective.real("amg.interpolation.kept_norm") == 1.0
        && effective.int("amg.near_null_space.steps") == 0
        && coarsening.divided_with == Some(&*interpolation)
        && !strength_info(&name("amg.strength.type", coarsening.strength)).uses_near_null_space
        && smoother_over_ranks(&smoother) == OverRanks::Divided
        && !effective.has_set("amg.smoother.levels")
        && !plan.is_undecided()
        && !(0..levels).any(|level| plan.is_scaled(level));
    Ok(can_be.then_some(effective))
}

/// Chooses the formats of the levels of a matrix with so many entries, where the options leave them open.
fn set_precision(
    effective: &mut Config,
    config: &Config,
    matrix: &Matrix,
    entries: usize,
    in_solver: bool,
) -> Result<()> {
    if config.text("precision.preset") != "default" {
        return Ok(());
    }
    let has_parts = LevelPart::ALL.iter().any(|part| config.has_set(part.key()));
    let narrow = in_solver
        && !has_parts
        && entries >= LARGE
        && matrix.precision() == Precision::F64
        && FLEXIBLE_CG.contains(&&*config.text("solver.type"));
    effective.set_str("precision.preset", if narrow { "single" } else { "input" })
}

/// The options with what is left open filled in.
pub(super) struct Effective {
    /// The options.
    pub config: Config,
    /// Which components of AMG the matrix has led to, and why; empty where options name them.
    pub choice: String,
}

/// The components of AMG for a matrix in rows where no option names any: options to set, and why.
fn components_for(context: &Context, matrix: &Matrix, krylov: &str) -> Result<(Options, String)> {
    const AGGREGATION: Options = &[("amg.coarsening.type", "mis2"), ("amg.smoother.type", "chebyshev")];
    const LEAST_ENERGY: Options =
        &[("amg.coarsening.type", "mis2"), ("amg.interpolation.type", "energy"), ("amg.smoother.type", "chebyshev")];
    let (is_cg, is_block) = (CG.contains(&krylov), matrix.block() != Block::SCALAR);
    let has_space = matrix.near_null_space().is_some();
    if matrix.functions().is_some() {
        return Ok((&[], "classical: functions of the unknowns were given".to_string()));
    }
    if is_block || has_space {
        let of = if has_space {
            "a near-null space was given"
        } else {
            "the matrix has blocks, and no near-null space was given"
        };
        if !is_cg {
            return Ok((&[], format!("smoothed aggregation: {of}")));
        }
        if has_space && is_block {
            let share = matrix.strong_share(context, THETA_OF_BLOCKS)?;
            let (options, name) = match share < FEW_STRONG {
                true => (LEAST_ENERGY, "aggregation with least energy and Chebyshev"),
                false => (AGGREGATION, "smoothed aggregation with Chebyshev"),
            };
            return Ok((options, format!("{name}: {of}, and {:.0} % of the couplings are strong", 100.0 * share)));
        }
        return Ok((AGGREGATION, format!("smoothed aggregation with Chebyshev: {of}")));
    }
    if !is_cg || matrix.rows() != matrix.cols() {
        return Ok((&[], "classical: the Krylov method is not one for symmetric matrices".to_string()));
    }
    let is_short = context.gpu().is_none() || matrix.entries() <= SHORT_ROWS * matrix.rows();
    if is_short && matrix.has_uniform_couplings(context, THETA)? {
        return Ok((AGGREGATION, "smoothed aggregation with Chebyshev: all couplings are strong".to_string()));
    }
    let share = matrix.same_sign_share(context)?;
    let percent = 100.0 * share;
    if SAME_SIGN.contains(&share) {
        let why = format!(
            "smoothed aggregation with Chebyshev: {percent:.0} % of the couplings have the sign of the diagonal"
        );
        return Ok((AGGREGATION, why));
    }
    Ok((
        &[],
        format!("classical: couplings are weak and strong, and {percent:.0} % of them have the sign of the diagonal"),
    ))
}

/// The options with what is left open filled in for a method. `in_solver` tells whether a solver of the library is around it, which widens formats
/// that lose precision.
pub(super) fn effective(
    method: Option<Method>,
    context: &Context,
    matrix: &Matrix,
    config: &Config,
    in_solver: bool,
) -> Result<Effective> {
    let mut effective = config.clone();
    let krylov = config.text("solver.type");
    let structured = method == Some(Method::Amg) && is_structured(matrix, config)?;
    if structured {
        effective.set_str("amg.coarsening.type", "grid")?;
    }
    let is_open = method == Some(Method::Amg) && are_components_open(config);
    let mut choice = String::new();
    if structured {
        choice = "multigrid on the grid of the matrix".to_string();
    } else if is_open {
        let (options, why) = components_for(context, matrix, &krylov)?;
        for (key, value) in options {
            effective.set_str(key, value)?;
        }
        context.log(LogLevel::Debug, || why.clone());
        choice = why;
    }
    for key in ["amg.smoother.type", "amg.smoother.coarse_type"] {
        if config.text(key) == ANY_GAUSS_SEIDEL {
            let coloured = context.gpu().is_some() || structured;
            effective.set_str(key, if coloured { "gauss_seidel" } else { "l1_gauss_seidel" })?;
        }
    }
    set_precision(&mut effective, config, matrix, matrix.entries(), in_solver)?;
    Ok(Effective { config: effective, choice })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::solver::{Guess, Solver};
    use std::sync::Arc;

    fn problem(name: &str) -> Matrix {
        gallery::parse(name).unwrap().into_matrix().unwrap()
    }

    fn config(options: &[(&str, &str)]) -> Config {
        let mut config = Config::new();
        options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
        config
    }

    /// Coarsening and smoother that options stand for.
    fn components(device: &str, name: &str, options: &[(&str, &str)]) -> (String, String) {
        let context = Context::new(device).unwrap();
        let mut matrix = problem(name);
        if context.gpu().is_some() {
            matrix = matrix.to_device(&context).unwrap();
        }
        let config = effective(Some(Method::Amg), &context, &matrix, &config(options), true).unwrap().config;
        (config.text("amg.coarsening.type"), config.text("amg.smoother.type"))
    }

    #[test]
    fn laplacians_of_grids_are_aggregated_and_everything_else_is_left_open() {
        let aggregation = ("mis2".to_string(), "chebyshev".to_string());
        let open = ("auto".to_string(), "auto".to_string());
        for device in ["host:1", "sim"] {
            for name in ["poisson5:9", "poisson7:5", "poisson9:8", "anisotropic:9:epsilon=0.3", "jumps:6:contrast=3"] {
                assert_eq!(components(device, name, &[]), aggregation, "{name} on {device}");
            }
            for name in ["anisotropic:9", "jumps:6", "rotated_anisotropic:9", "random_m_matrix:200", "lshape:2"] {
                assert_eq!(components(device, name, &[]), open, "{name} on {device}");
            }
            // All couplings are strong; the rows of hubs are long.
            assert_eq!(components(device, "hubs:900:hubs=1,every=2", &[]), open, "hubs on {device}");
            // Not for other methods, nor beside components that the caller chose.
            assert_eq!(components(device, "poisson7:5", &[("solver.type", "gmres")]), open);
            assert_eq!(components(device, "poisson7:5", &[("solver.type", "cg")]), aggregation);
            let jacobi = ("auto".to_string(), "jacobi".to_string());
            assert_eq!(components(device, "poisson7:5", &[("amg.smoother.type", "jacobi")]), jacobi);
            assert_eq!(components(device, "poisson7:5", &[("amg.interpolation.type", "direct")]), open);
            assert_eq!(components(device, "poisson7:5", &[("amg.functions", "1")]), open);
            assert_eq!(components(device, "poisson7:5", &[("amg.max_levels", "3")]), aggregation);
        }
        assert_eq!(components("host:1", "poisson27:6", &[]), aggregation);
        assert_eq!(components("sim", "poisson27:6", &[]), open);
    }

    /// The interpolation and smoother that options stand for, and why.
    fn chosen(device: &str, name: &str) -> (String, String, String) {
        let (context, mut matrix) = (Context::new(device).unwrap(), problem(name));
        if context.gpu().is_some() {
            matrix = matrix.to_device(&context).unwrap();
        }
        let Effective { config, choice } =
            effective(Some(Method::Amg), &context, &matrix, &Config::new(), true).unwrap();
        (config.text("amg.interpolation.type"), config.text("amg.smoother.type"), choice)
    }

    #[test]
    fn large_matrices_with_even_couplings_on_a_grid_are_solved_there() {
        let (context, gpu) = (Context::new("host:2").unwrap(), Context::new("sim").unwrap());
        let on_grid = |matrix: &Matrix, options: &[(&str, &str)]| {
            suits_grid(&context, matrix, &config(options)).unwrap().iter().map(|(s, _)| s.grid.dims).collect::<Vec<_>>()
        };
        let found = |name: &str, options: &[(&str, &str)]| on_grid(&problem(name), options);
        let large = problem("poisson5:320x313");
        assert_eq!(on_grid(&large, &[]), [[320, 313, 1]]);
        assert!(suits_grid(&gpu, &large, &config(&[])).unwrap().is_empty(), "fewer rows than pay on a GPU");
        assert_eq!(found("anisotropic:320x313", &[("solver.type", "cg")]), [[320, 313, 1]]);
        assert!(found("laplace_jittered:48", &[]).contains(&[48, 49, 49]));
        assert!(found("poisson5:316", &[]).is_empty(), "99,856 rows");
        assert!(found("rotated_anisotropic:320:angle=30", &[]).is_empty());
        assert!(found("shuffled:poisson5:320", &[]).is_empty());
        let options = [("amg.smoother.type", "jacobi"), ("solver.type", "gmres"), ("amg.type", "unstructured")];
        for option in options {
            assert!(on_grid(&large, &[option]).is_empty(), "{option:?}");
        }
        assert_eq!(found("rotated_anisotropic:9:angle=30", &[("amg.type", "structured")]), [[9, 9, 1]]);
        // Rough coefficients have more sweeps, unless the options say how many.
        let sweeps =
            |name: &str, options: &[(&str, &str)]| suits_grid(&context, &problem(name), &config(options)).unwrap()[0].1;
        let (asked, rough) = (("amg.type", "structured"), "lognormal:16:sigma=2");
        assert_eq!(sweeps(rough, &[asked]), TWO_SWEEPS);
        assert!(sweeps("lognormal:16:sigma=0.5", &[asked]).is_empty());
        assert!(sweeps(rough, &[asked, ("amg.smoother.pre_sweeps", "1")]).is_empty());
    }

    #[test]
    fn blocks_and_elements_of_high_order_are_aggregated_and_flat_ones_with_least_energy() {
        for device in ["host:1", "sim"] {
            let cases = [
                ("elasticity:3", "auto", "100 % of the couplings are strong"),
                ("elasticity_jittered:4:layers=1", "auto", "a near-null space was given"),
                ("elasticity_jittered:4:layers=4", "energy", "least energy"),
                ("elasticity_jittered:4:height=0.05", "energy", "least energy"),
                ("lshape:2:order=6", "auto", "have the sign of the diagonal"),
            ];
            for (name, interpolation, why) in cases {
                let (found, smoother, choice) = chosen(device, name);
                assert_eq!((&*found, &*smoother), (interpolation, "chebyshev"), "{name} on {device}: {choice}");
                assert!(choice.contains(why), "{name} on {device}: {choice}");
            }
            let (_, smoother, choice) = chosen(device, "anisotropic:9");
            assert!(smoother == "auto" && choice.starts_with("classical: "), "{choice}");
        }
    }

    #[test]
    fn levels_are_narrow_for_large_matrices_in_a_flexible_solver() {
        let context = Context::new("host:1").unwrap();
        let (large, small) = (problem("poisson5:512"), problem("poisson5:100"));
        let preset = |matrix: &Matrix, options: &[(&str, &str)], in_solver: bool| {
            effective(Some(Method::Amg), &context, matrix, &config(options), in_solver)
                .unwrap()
                .config
                .text("precision.preset")
        };
        assert_eq!(preset(&large, &[], true), "single");
        assert_eq!(preset(&large, &[("solver.type", "fcg")], true), "single");
        assert_eq!(preset(&large, &[], false), "input");
        assert_eq!(preset(&small, &[], true), "input");
        assert_eq!(preset(&large, &[("solver.type", "cg")], true), "input");
        assert_eq!(preset(&large, &[("precision.matrix", "f16")], true), "input");
        assert_eq!(preset(&large, &[("precision", "auto")], true), "auto");
    }

    /// In f32 the values are zero or infinite.
    #[test]
    fn levels_that_f32_cannot_hold_become_f64() {
        let context = Context::new("host:2").unwrap();
        for scale in [1e-60, 1e60] {
            let mut problem = gallery::parse("poisson5:40").unwrap();
            problem.matrix.values.iter_mut().for_each(|v| *v *= scale);
            let matrix = Arc::new(problem.into_matrix().unwrap());
            let mut solver =
                Solver::new(&context, &config(&[("precision", "single"), ("amg.coarsest.max_rows", "20")]));
            solver.setup(Some(&matrix)).unwrap();
            let (b, mut x) = (vec![1.0; matrix.rows()], vec![0.0; matrix.rows()]);
            let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
            let report = solver.report();
            assert_eq!(status, crate::error::Status::Success);
            assert!(report.solves[0].true_residual <= 1e-8 && report.solves[0].iterations < 20, "{scale}");
            assert!(report.levels.iter().all(|level| level.matrix_precision == Precision::F64), "{scale}");
        }
    }
}
