//! The options table: every key with its type, default, the reason for the default, legal values, backends and the
//! names that hypre and AmgX users know it by. The reference in `docs/options.md`, the error sentences and the command-line
//! help are all made from it. [`crate::config::Config`] holds the values.

pub use crate::config::option::{Kind, OptionRow};
use crate::config::{Config, option};
use crate::{amg, backend, components, krylov, smooth};
use std::fmt::Write;

const fn choice(names: &'static [&'static str]) -> Kind {
    Kind::Choice { names, auto: false }
}

const fn auto_choice(names: &'static [&'static str]) -> Kind {
    Kind::Choice { names, auto: true }
}

/// Values of an option that only the host honours: what the registry of smoothers has for the host alone.
const fn host_only(key: &str) -> &'static [&'static str] {
    let names_smoother = is(key, "amg.smoother.type") || is(key, "amg.smoother.coarse_type");
    if names_smoother { &components::HOST_ONLY_SMOOTHERS } else { &[] }
}

/// Whether two texts are the same.
const fn is(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}

/// Krylov methods, and the sparse direct solver.
const SOLVERS: &[&str] = &{
    let mut names = ["direct"; krylov::NAMES.len() + 1];
    let mut i = 0;
    while i < krylov::NAMES.len() {
        names[i] = krylov::NAMES[i];
        i += 1;
    }
    names
};

/// Formats that a whole phase can run in.
const PHASE_PRECISIONS: &[&str] = &["f64", "f32"];

#[rustfmt::skip]
macro_rules! rows {
    ($($key:literal, $kind:expr, $default:literal, $hypre:literal, $amgx:literal, $help:literal, $reason:literal;)*) => {
        /// Every option.
        pub const OPTIONS: &[OptionRow] = &[
            $(OptionRow {
                key: $key, kind: $kind, host_only: host_only($key), default: $default, help: $help, reason: $reason,
                hypre: $hypre, amgx: $amgx,
            },)*
        ];
    };
}

// key, kind, default, hypre, AmgX,
//     help,
//     reason;
rows! {
    "solver.type", auto_choice(SOLVERS), "auto", "-", "solver",
        "Krylov method, or direct. auto: for a symmetric matrix cg when the preconditioner is symmetric and constant (AMG in the solver's precision, or none), otherwise fcg; for a nonsymmetric one gmres when the preconditioner is constant, otherwise fgmres, around pmis with Gauss-Seidel sweeps unless components are set. Beside an operator callback, the matrix that builds the preconditioner is looked at. A symmetric matrix whose diagonal is negative is refused. Where the method stagnates, diverges, breaks down or comes to a limit of 1000 iterations or more, auto factorises the matrix as direct does, if that takes at most 1e11 operations (2e10 with LU) and 2 GiB, and later solves use the factors from the start. On the host it also does so after each 50 iterations where the ones that are left, by the decay of the residual, take more operations than the factorisation, unless solver.preconditioner or a component of AMG is set or the limit is below 1000; on GPUs, whose iterations take little time, it waits for a failure. None of it with a null space, the preconditioned norm, a tolerance relative to the initial residual, or callbacks. A matrix with a row that has no diagonal entry, as that of a saddle point, is factorised in set-up within the same limits, unless solver.preconditioner is set. bicgstab and idr are for nonsymmetric matrices when memory for a basis is short; an iteration of bicgstab is two products with the matrix and two applications of the preconditioner, one of idr is one of each. richardson repeats the preconditioner alone. gmres around a k cycle is fgmres. direct is a sparse factorisation with iterative refinement instead of a Krylov method, on the host also for contexts on GPUs: Cholesky or LDLᵀ for symmetric matrices, LU for others.",
        "Flexible methods cost one more vector, or a second basis, and are safe whenever the preconditioner is not an exactly constant operator; f32 levels make gmres take up to twice the iterations of fgmres. AMG solves what it is made for faster than a factorisation, which solves small systems of any kind.";
    "solver.preconditioner", choice(&["amg", "fsai", "jacobi", "none"]), "amg", "-", "preconditioner",
        "Preconditioner built by set-up; a preconditioner callback replaces it. amg: one cycle. fsai: the factorised sparse approximate inverse that the options fsai describe, with one factor where the matrix is symmetric, which must then be positive definite, and with two where it is not. jacobi: the inverse of the diagonal, or of the diagonal blocks of a block matrix. The data of fsai and jacobi are stored in the format of precision.smoother, and applied to vectors of precision.vector.",
        "AMG is what the library is for.";
    "solver.precision", auto_choice(PHASE_PRECISIONS), "auto", "-", "-",
        "Precision of the Krylov method and of the vectors given to solve. auto: f64. With an f32 matrix, vectors of f32 are then accepted as well: the solution is rounded at the end.",
        "f32 vectors hold no solution of a large system to more than a few digits; an f32 matrix is stored and multiplied as f32 all the same.";
    "solver.tolerance", Kind::Real { min: 0.0, max: 1.0, auto: true }, "auto", "SetTol", "tolerance",
        "Stop when the residual norm is at most this times the norm of the right-hand side. auto: 1e-8 where the solver works in f64, 1e-5 in f32. What rounding leaves unknown about a residual, 1.6 units of the solver's precision, counts against the tolerance.",
        "1e-8 is what published comparisons use, half the digits of f64; f32 vectors do not reach it.";
    "solver.absolute_tolerance", Kind::Real { min: 0.0, max: f64::MAX, auto: false }, "0", "SetAbsoluteTol", "tolerance",
        "Also stop when the residual norm is at most this.",
        "Off: an absolute bound only makes sense in the caller's units.";
    "solver.relative_to", choice(&["right_hand_side", "initial_residual"]), "right_hand_side", "-", "convergence (RELATIVE_INI for initial_residual)",
        "Norm that solver.tolerance is a share of: that of the right-hand side, or that of the residual of the initial guess. From a zero guess both are the same. Histories and true_residual are relative to the right-hand side in either case. Not with direct.",
        "A good guess then saves iterations; by the other measure it asks for more accuracy than a bad one.";
    "solver.norm", choice(&["true", "preconditioned"]), "true", "-", "-",
        "Residual norm that tolerances and history are about: true is |b - Ax| in relation to |b|, preconditioned is |M(b - Ax)| in relation to |Mb|. cg, fcg and richardson can do both; gmres, fgmres, bicgstab and idr precondition from the right and only have the true one.",
        "What the caller can check; the preconditioned norm depends on the preconditioner.";
    "solver.max_iterations", Kind::Int { min: 0, max: 1_000_000_000 }, "1000", "SetMaxIter", "max_iters",
        "Iteration limit of the Krylov method.",
        "Far above what a working preconditioner needs, low enough to end a hopeless solve.";
    "solver.null_space", choice(&["none", "constant", "near_null_space"]), "none", "-", "-",
        "What the symmetric matrix maps to zero. constant: the constant vector; near_null_space: the vectors set on the matrix, such as the rigid-body modes of its coordinates for a body that nothing holds. The parts of b and x along them are removed, residuals are about what remains of b, and the solution is orthogonal to them. Set-up and update refuse vectors that the matrix does not map to zero; an operator callback is believed.",
        "A singular system with a consistent right-hand side converges as it is; removing what a caller did not expect to lose would hide an error.";
    "solver.stagnation_window", Kind::Int { min: 0, max: 1_000_000_000 }, "500", "-", "-",
        "The solve ends as stagnated when the residual norm has not fallen by a tenth in this many iterations. 0 lets it go on to the limit.",
        "CG without a preconditioner, the slowest start of all, sits still for a third of its iterations; half of max_iterations is beyond that.";
    "solver.divergence_tolerance", Kind::Real { min: 1.0, max: f64::MAX, auto: false }, "1e8", "-", "rel_div_tolerance",
        "The solve ends as diverged when the residual norm exceeds this times the norm of the right-hand side, or of the initial residual where that is larger.",
        "The residual norm of CG can rise by the root of the condition number, which is below 1e8 for every system that f64 can solve.";
    "solver.restart", Kind::Int { min: 1, max: 1000 }, "30", "SetKDim", "gmres_n_restart",
        "Basis vectors that gmres and fgmres keep between restarts; fgmres keeps as many preconditioned ones beside them.",
        "The usual balance of memory against stalls; hypre's 5 stalls on convection.";
    "solver.idr.s", Kind::Int { min: 1, max: 32 }, "4", "-", "subspace_dim_s",
        "idr: vectors to which residuals are made orthogonal before they enter the next of the shrinking spaces of IDR(s). They are random, the same for any number of ranks and on all devices. 3 s + 3 vectors are kept; 1 is mathematically close to bicgstab.",
        "The usual choice: more take fewer products, hardly fewer from 8 on, and as many more inner products and vectors.";
    "solver.columns", Kind::Int { min: 1, max: 8 }, "8", "-", "-",
        "Right-hand sides of one call that are solved together: 8 or 4, and with 1 to 3 one by one. cg and fcg then iterate on up to so many at once, with one pass over each matrix of the hierarchy, from three right-hand sides on; each is finished and checked by itself. One by one in any case: other methods, Gauss-Seidel smoothers of matrices in rows, smoothers line and ilu0, structured grids with several unknowns in a cell or periodic along x, k cycles and amg.cycle.error_scaling, parts of levels in 16 bits and vectors that change their precision between levels, solver.norm preconditioned, null spaces, callbacks and monitors. The first call with several right-hand sides allocates vectors for them, as many times those of one as there are columns; where there is no memory for that, they are solved one by one.",
        "Matrices are most of what a solve reads. On a CPU eight right-hand sides take 40 to 65 % of the time together, least where rows are long, and 60 to 75 % on structured grids. On an H200 they are 1.0 to 2.4 times as fast together: vectors are most of what a solve reads there, and each alone is replayed from a graph.";
    "amg.setup", auto_choice(&["host", "device"]), "auto", "-", "-",
        "Where the hierarchy of a context on a GPU is computed. auto: on the device where all of its components run there, otherwise on the host, from where it is copied; the report tells which and why. device: there or not at all. The hierarchies are the same.",
        "A device computes it many times faster; what only the host can do should not need another option.";
    "amg.type", auto_choice(&["structured", "unstructured"]), "auto", "StructPFMG, StructSMG, SysPFMG", "-",
        "Whether the hierarchy is multigrid on a structured grid, whose levels are stencils without indices, or AMG. auto: structured for matrices that were given as stencils or whose grid was set, unless amg.coarsening.type names another coarsening than grid, and, inside a solver with CG, for scalar symmetric matrices with at least 100,000 rows, 500,000 on a GPU, that show a grid in two or three dimensions with couplings that are even along its axes, where no component of AMG is chosen. unstructured for all others. structured: in a solver also for any other matrix whose rows show a grid; it works with a copy as a stencil. On GPUs set-up and levels are stencils in device memory, too.",
        "A stencil has no indices to read and no gathers to wait for, and its coarse levels keep the grid. On an H200 a large Laplacian in rows is solved in a third to a half of the time of AMG. A sample of rows tells most matrices apart; one pass confirms the grid.";
    "amg.reorder", auto_choice(&["on", "off"]), "auto", "-", "-",
        "Whether a solver renumbers the unknowns, so that those that are coupled have numbers near each other. auto: set-up measures how many bytes of x chunks of rows touch, and where a product would read half as much again as in a good order, and the order of a breadth-first search is better by a quarter, the solver works with a copy of the matrix in that order; matrices with fewer than 65,536 rows are left as they are. on: without these conditions. Right-hand sides, solutions, new values and everything else of the caller's stay in the caller's order. Off in any case: with other preconditioners than amg, an operator callback or another matrix for the preconditioner, for matrices on structured grids, over ranks, and for a hierarchy without a solver. The unknowns of a block, of a node of the near-null space, or of a point with several amg.functions stay together.",
        "In random order an iteration takes up to four times as long. The test takes less than a hundredth of a set-up, and the copy as much memory as the matrix.";
    "amg.max_levels", Kind::Int { min: 1, max: 64 }, "25", "SetMaxLevels", "max_levels",
        "Most levels in the hierarchy, the finest included.",
        "hypre's; coarsening ends by size long before.";
    "amg.coarsest.max_rows", Kind::Int { min: 1, max: 5000 }, "200", "SetMaxCoarseSize", "min_coarse_rows",
        "Coarsening stops at this many rows, and the level is solved by a dense factorisation.",
        "A dense solve of 200 rows costs less than two more levels.";
    "amg.coarsest.solver", auto_choice(&["sweeps"]), "auto", "SetCycleRelaxType (9)", "coarse_solver (NOSOLVER for sweeps)",
        "How the coarsest level is solved. auto: exactly when it has at most max_rows or 2000 rows, by a dense inverse or, on the host above 300 rows, by a sparse factorisation; otherwise by sweeps. sweeps: always by sweeps of the smoother.",
        "An exact solution costs nothing there, and errors that sweeps leave go through all levels.";
    "amg.coarsest.sweeps", Kind::Int { min: 1, max: 1000 }, "4", "SetCycleNumSweeps", "coarsest_sweeps",
        "Smoothing sweeps on the coarsest level when that is not solved exactly.",
        "Enough to damp what coarsening could not reduce; such levels are strongly diagonally dominant.";
    "amg.functions", Kind::Int { min: 0, max: backend::parameters::MAX_FUNCTIONS as i64 }, "0", "SetNumFunctions, SetDofFunc", "-",
        "pmis, hmis: how many unknown functions there are, such as the displacements in three directions. Unknowns are numbered point by point, so unknown i belongs to function i modulo this number; functions that were set on the matrix (terrace_matrix_set_functions) allow any numbering, and this number is theirs or 0. Coarsening and interpolation leave out couplings between functions; coarse matrices are made with all. 0: those that were set on the matrix, else as many as a block of the matrix or a node of its near-null space has unknowns, which is 1 for a scalar matrix.",
        "Functions that are interpolated from each other lose their constants, which multigrid lives by: elasticity of 80^3 elements takes five times the iterations.";
    "amg.near_null_space.steps", Kind::Int { min: 0, max: 100 }, "0", "-", "-",
        "mis2, pairwise, least_squares, affinity: steps of Rayleigh-quotient CG, preconditioned by the smoother of the finest level, by which set-up improves the near-null space: the vectors that were given, the constants, or random ones. Each takes a product with the matrix and a sweep for each vector. Updates keep the vectors.",
        "Off: two steps on six rigid-body modes save up to a quarter of the iterations, and are about as many products with the matrix as that. They pay where a set-up serves several solves.";
    "amg.near_null_space.random", Kind::Int { min: 0, max: 8 }, "0", "-", "-",
        "mis2, pairwise, least_squares, affinity: where no near-null space was given, it is made of so many random vectors, which need amg.near_null_space.steps. 0: the constant of each unknown of a node; none for affinity.",
        "Off: every vector adds as many unknowns to all coarse levels as the constant does.";
    "amg.strength.type", auto_choice(components::STRENGTHS), "auto", "-", "strength",
        "Which couplings count as strong. auto: classical for pmis and hmis, symmetric for mis2, pairwise and least_squares. affinity: unknowns, or nodes, are near to each other where their rows of the near-null space are nearly multiples, by d = 1 - (x·y)² / (|x|² |y|²); the strength of a coupling is the geometric mean of the distances from both to the nearest, over theirs.",
        "Each coarsening was designed with this measure.";
    "amg.strength.threshold", Kind::Real { min: 0.0, max: 1.0, auto: true }, "auto", "SetStrongThreshold", "strength_threshold",
        "Coupling is strong from this share of the row's strongest (classical: of the sign opposite to the diagonal's, absolute: of either sign, blocks by their norm), of the geometric mean of the diagonals (symmetric), or with this strength (affinity). auto: 0.25 classical, absolute and affinity; symmetric 0.08 for scalar problems, halved from level to level, 0.04 for blocks, but never more than half of what the strongest couplings have on average.",
        "0.25 is hypre's; 0.08 keeps axis couplings of Laplacians and drops noise; the norms of blocks of one material stay above 0.04, those across a jump of the modulus do not.";
    "amg.strength.connections", Kind::Int { min: 0, max: 1 << 20 }, "0", "-", "-",
        "symmetric, affinity: the threshold is, on each level, the highest in quarters of a power of two that leaves a row so many strong couplings on average, over a sample of the rows; 0 where rows have fewer. 0: by amg.strength.threshold.",
        "One number for all levels and units: couplings shrink from level to level as they become more, and a threshold that suits the finest level keeps too few or too many further down.";
    "amg.strength.max_row_sum", Kind::Real { min: 0.0, max: 1.0, auto: false }, "1", "SetMaxRowSum (0.9)", "max_row_sum",
        "classical: a row whose sum exceeds this share of its diagonal (both in absolute value) has no strong couplings. 1 switches that off.",
        "Off: hypre's 0.9 spares coarse unknowns where a mass term dominates, but on Laplacians it only takes rows beside the boundary out of coarsening, which costs an iteration of the 7-point problem on 64^3.";
    "amg.coarsening.type", auto_choice(components::COARSENINGS), "auto", "SetCoarsenType (8 PMIS, 10 HMIS)", "selector",
        "How coarse unknowns are chosen. grid is for structured grids, and what auto is there. auto otherwise: pmis where functions of the unknowns were set on the matrix, else mis2 for block matrices and when a near-null space is given. For scalar matrices mis2 where solver.type is auto, cg or fcg, no other option of amg.coarsening, amg.strength, amg.interpolation, amg.smoother, amg.cycle or amg.functions is set, and one of two things holds: all couplings are strong by the classical measure with threshold 0.25 and no row has more than 64 entries and 8 times the mean (on GPUs only for at most 16 entries in a row on average); or 20 to 75 % of the couplings, on average over a sample of the rows, have the sign of the diagonal, as in elements of high order and displacements. Otherwise pmis. The report key setup_choice tells which, and why.",
        "Smoothed aggregation takes the least time on Laplacians of grids and carries several near-null-space vectors; classical AMG needs the fewest iterations where some couplings are weak.";
    "amg.coarsening.axes", auto_choice(components::AXES), "auto", "SetSkipRelax, SetDxyz (PFMG)", "-",
        "grid: the axes along which every level is coarsened by 2, where they have more than one cell. auto: decided on every level from its matrix: those whose couplings, entries to either side of a cell added up and averaged over cells in relation to the strongest axis of the cell, reach amg.coarsening.axis_threshold of the strongest. With the smoother line, its axes, and those of the others that reach it of the strongest of them.",
        "Point smoothers leave errors that vary along weak axes, so only strong ones can be coarsened; after a few levels the others have become as strong.";
    "amg.coarsening.axis_threshold", Kind::Real { min: 0.0, max: 1.0, auto: false }, "0.25", "-", "-",
        "grid: axes from this share of the strongest coupling on are coarsened.",
        "The classical threshold of strength; half the mesh width along one axis is four times the coupling.";
    "amg.coarsening.aggressive_levels", Kind::Int { min: 0, max: 64 }, "0", "SetAggNumLevels", "aggressive_levels",
        "pmis, hmis: on this many of the finest levels a second pass keeps only coarse unknowns of which no two are joined by two strong couplings. amg.interpolation.aggressive says how they are interpolated from.",
        "Off, so that iterations are fewest. One level halves operator complexity and set-up time of Laplacians for about 9 more iterations in 3D.";
    "amg.coarsening.pairwise.size", Kind::Int { min: 2, max: 8 }, "8", "-", "selector (SIZE_2, SIZE_4, SIZE_8)",
        "pairwise: unknowns a typical aggregate has. Pairs are paired again until the size is reached: once for 3 and 4, twice for 5 to 8.",
        "Three pairings coarsen a 3D grid by about 2 in each direction: operator complexity stays under 1.7 with either interpolation, where smoothed pairs grow beyond any use.";
    "amg.interpolation.type", auto_choice(components::INTERPOLATIONS), "auto", "SetInterpType (0 classical modified, 3 direct, 6 ext+i, 16 mm ext, 17 mm ext+i)", "interpolator (D1, D2)",
        "Interpolation formula. After pmis and hmis: extended_i, mm_ext and mm_ext_i (extended and extended+i in matrix-matrix form, where only strong couplings carry weights), classical_modified, direct, least_squares (weights by which the near-null space is exact, from as far as that takes); after mis2 and pairwise: smoothed, energy (least energy on the pattern of strong couplings, exact on the near-null space), tentative; on structured grids: black_box (operator-dependent, from the symmetric part of the matrix), linear, constant (which keeps the pattern of the stencil). auto: extended_i after pmis and hmis, smoothed after mis2 and pairwise, black_box on structured grids; energy for block matrices with a near-null space of which less than 74 % of the couplings are strong (symmetric measure, 0.04), as in flat elements, where solver.type is auto, cg or fcg and no other component is set.",
        "extended_i repairs PMIS's missing common coarse neighbours; smoothing is what makes aggregation converge independently of size.";
    "amg.interpolation.aggressive", choice(components::AGGRESSIVE), "two_stage", "SetAggInterpType (1 and 6 two stages, 4 multipass)", "aggressive_interpolator",
        "Interpolation on aggressive levels. two_stage: extended_i, mm_ext or mm_ext_i, whichever is the type, to the coarse unknowns of the first pass and from there to all. multipass: direct interpolation, handed on from neighbour to neighbour, whatever the type on other levels.",
        "Two stages need 3 iterations fewer on Laplacians; multipass has 5 % fewer couplings and no product to set up.";
    "amg.interpolation.max_entries", Kind::Int { min: 0, max: 1000 }, "4", "SetPMaxElmts", "interp_max_elements",
        "Most entries in a row of a classical interpolation; the largest are kept and rescaled. 0 keeps all.",
        "hypre's; keeps the operator complexity of 3D problems under 3.";
    "amg.interpolation.truncation", Kind::Real { min: 0.0, max: 0.99, auto: false }, "0", "SetTruncFactor", "interp_truncation_factor",
        "Entries below this share of the largest of a classical interpolation row are dropped, the rest rescaled.",
        "Off: max_entries bounds the complexity already.";
    "amg.interpolation.weight", Kind::Real { min: 0.0, max: 2.0, auto: false }, "1.3333333333333333", "-", "-",
        "smoothed, least_squares with smoothing: the prolongator is smoothed by one Jacobi step with this weight over the largest eigenvalue of the scaled matrix.",
        "4/3 minimises the energy bound of the smoothed basis functions.";
    "amg.interpolation.energy.steps", Kind::Int { min: 1, max: 100 }, "4", "-", "-",
        "energy, least_squares with smoothing energy: steps of the minimisation, which start from the tentative prolongator or the fit. Each is about as much work as smoothing it once.",
        "As many iterations as with the minimum itself in elasticity, within one or two.";
    "amg.interpolation.least_squares.nearest", Kind::Int { min: 1, max: 16 }, "2", "-", "-",
        "least_squares: the number of strong couplings, one after the other, by which coarse unknowns are reached from a fine one before its weights are fitted.",
        "From 2 on the weights take the couplings between fine unknowns into account: a quarter fewer iterations than from 1 on Laplacians and in elasticity.";
    "amg.interpolation.least_squares.farthest", Kind::Int { min: 1, max: 16 }, "4", "-", "-",
        "least_squares: as long as one of both tests fails, the number of couplings grows up to this one. A fine unknown for which that is not enough becomes a coarse one.",
        "Hardly any row needs more than 3; one that does is at a corner of its part of the graph.";
    "amg.interpolation.least_squares.tolerance", Kind::Real { min: 0.0, max: 1.0, auto: false }, "1e-10", "-", "-",
        "least_squares: a fit is accepted where what it leaves of each vector of the near-null space is at most this share of the vector, which is measured by its largest value on the unknown and those it is interpolated from.",
        "Exact but for rounding: what coarse levels do not represent, smoothers hardly reduce.";
    "amg.interpolation.least_squares.norm", Kind::Real { min: 1.0, max: 1e6, auto: false }, "2", "-", "-",
        "least_squares: and where the weights have at most this 2-norm.",
        "That of the published method. Larger weights come from coarse unknowns that nearly lie in a line.";
    "amg.interpolation.least_squares.smoothing", choice(backend::least_squares::Smoothing::CHOICES), "none", "-", "-",
        "least_squares: what is done after the fit. jacobi: one Jacobi step of the whole matrix, with amg.interpolation.weight. energy: steps of energy minimisation, amg.interpolation.energy.steps, on a pattern that is one strong coupling wider; coarse unknowns keep their values, and the near-null space stays exact.",
        "Entries cost more than iterations save: on small problems of elasticity jacobi halves the iterations with nearly three times the entries on coarse levels, energy saves a tenth of them with half as many more.";
    "amg.interpolation.kept_norm", Kind::Real { min: 0.5, max: 1.0, auto: false }, "1", "-", "-",
        "smoothed, energy, tentative, least_squares: the smallest blocks of each row of a prolongator are dropped as long as this share of the norm of the row stays, and the other blocks are corrected so that the row does the same to the near-null space as before. 1 keeps all. Rows of more than 512 blocks keep theirs, and so do those that could not be corrected, or only by more than their norm.",
        "Off: energy has fewer entries and takes fewer iterations than a filtered smoothed prolongator.";
    "amg.smoother.type", auto_choice(&components::SMOOTHER_CHOICES), "auto", "SetRelaxType (18)", "smoother",
        "Smoother of every level, or of the first amg.smoother.levels. auto: chebyshev where a near-null space or coordinates were given, and where no component is set and auto has chosen mis2 for a scalar matrix, or the matrix has blocks and solver.type is auto, cg or fcg; any_gauss_seidel where solver.type auto has found a nonsymmetric matrix; l1_jacobi elsewhere. any_gauss_seidel: l1_gauss_seidel on the host, gauss_seidel on GPUs. fsai: a factorised sparse approximate inverse by the options fsai, damped by the largest eigenvalue; chebyshev_fsai: a polynomial of amg.smoother.chebyshev in it. ilu0, on structured grids with one unknown in each cell: an incomplete factorisation in the pattern of the stencil, by colours. line, on structured grids: the unknowns of a line of cells along amg.smoother.line.axis are solved for together, and lines that are not coupled have a colour.",
        "l1_jacobi converges for every SPD matrix with no eigenvalue estimate, and is the same on all backends; in elasticity chebyshev takes a third of its iterations.";
    "amg.smoother.levels", Kind::Int { min: 1, max: 64 }, "64", "SetSmoothNumLevels", "-",
        "Levels from the finest on that have the smoother amg.smoother.type. Those below have amg.smoother.coarse_type.",
        "All: a smoother that a matrix needs is mostly needed by its coarse matrices, too. A dear one such as fsai may pay on the finest levels alone.";
    "amg.smoother.coarse_type", auto_choice(&components::SMOOTHER_CHOICES), "auto", "SetRelaxType beside SetSmoothType", "-",
        "Smoother of the levels below the first amg.smoother.levels, and of a coarsest level that is solved by sweeps (amg.coarsest.solver). auto: gauss_seidel on structured grids, chebyshev where a near-null space or coordinates were given, l1_jacobi elsewhere. Not line.",
        "What amg.smoother.type is by default, without a look at the matrix.";
    "amg.ranks.gathered_rows", Kind::Int { min: 0, max: 2_147_483_647 }, "4096", "-", "-",
        "Over ranks: levels of up to so many rows are computed and held by every rank as a whole. On larger ones each rank computes strong couplings, coarse unknowns, interpolation, restriction and coarse matrix for its rows, with pmis and extended_i or mis2 and smoothed, the smoothers l1_jacobi, jacobi and chebyshev, and levels in f64 or f32; with anything else every rank computes the whole hierarchy. Results do not depend on it.",
        "Messages take longer than the work on so few rows.";
    "comm.timeout", Kind::Real { min: 0.0, max: 1e9, auto: false }, "0", "-", "-",
        "Over ranks: seconds that a rank waits for others in one operation of set-up, update or solve. What takes longer fails with TERRACE_ERROR_CALLBACK on every rank that can still answer, and the communicator is of no more use. 0 waits without end. Creating a matrix and duplicating a communicator are not limited.",
        "A rank that computes longer than the others is no failure; only the caller knows how long is too long.";
    "amg.smoother.diagonal", choice(&["point", "block"]), "block", "-", "smoother (BLOCK_JACOBI)",
        "Block matrices: whether sweeps invert the diagonal or the diagonal blocks; the eigenvalues that jacobi and chebyshev go by are those of the matrix scaled by it. A row whose diagonal is zero, or which has no pivot on the diagonal of its block, is left out of the sweeps.",
        "Never more iterations in elasticity, and up to a fifth fewer with jacobi; the blocks are a few per cent of the matrix.";
    "amg.smoother.pre_sweeps", Kind::Ints { min: 0, max: 100 }, "1", "SetCycleNumSweeps (down)", "presweeps",
        "Sweeps before the coarse correction, finest level first; the last of the list goes on downward. Where no option of the smoother is set, a solver that finds a grid in the rows of a matrix with rough coefficients has 2 before and 2 after.",
        "V(1,1) has the least time to solution with a Krylov method around it.";
    "amg.smoother.post_sweeps", Kind::Ints { min: 0, max: 100 }, "1", "SetCycleNumSweeps (up)", "postsweeps",
        "Sweeps after the coarse correction, finest level first; the last of the list goes on downward. Where they differ from pre_sweeps on some level, the cycle is not symmetric, and solver.type auto is fcg.",
        "Equal to pre_sweeps, so that the cycle is symmetric.";
    "amg.smoother.jacobi.weight", Kind::Real { min: 0.01, max: 2.0, auto: true }, "auto", "SetRelaxWt", "relaxation_factor",
        "jacobi: damping of the point Jacobi sweep. auto: 4/3 over the estimated largest eigenvalue of the scaled matrix.",
        "That is 2/3 for Laplacians, which damps the upper half of the spectrum evenly, and is stable where 2/3 is not, as in elasticity.";
    "amg.smoother.l1_jacobi.weight", Kind::Real { min: 0.01, max: 2.0, auto: false }, "1", "SetRelaxWt", "relaxation_factor",
        "l1_jacobi: damping of the sweep. From 2 on it would not converge.",
        "The l1 diagonal damps by itself; with 1 all eigenvalues of the scaled matrix are at most 1.";
    "amg.smoother.dilu.weight", Kind::Real { min: 0.01, max: 2.0, auto: false }, "1", "-", "relaxation_factor",
        "dilu: damping of the sweep. Its pivots are those of an incomplete factorisation in the rows of an M-matrix; a row with couplings of the sign of its diagonal has the pivot of symmetric Gauss-Seidel.",
        "For M-matrices it converges undamped.";
    "amg.smoother.ilu0.weight", Kind::Real { min: 0.01, max: 2.0, auto: false }, "1", "-", "-",
        "ilu0: damping of the sweep, in which the residual is divided by an incomplete factorisation in the pattern of the stencil, in the order of the colours of gauss_seidel. A pivot below a hundredth of its diagonal entry is that entry.",
        "For M-matrices it converges undamped.";
    "amg.smoother.gauss_seidel.direction", choice(smooth::gauss_seidel::DIRECTIONS), "forward", "SetRelaxType (3 forward, 4 backward, 6 symmetric)", "symmetric_GS",
        "gauss_seidel, line: order of the colours in a sweep. forward: ascending before the coarse correction and descending after it. backward: the other way round. symmetric: ascending and then descending in each sweep, which costs two. Each of them makes a symmetric cycle.",
        "The least work with which cg may be used.";
    "amg.smoother.gauss_seidel.weight", Kind::Real { min: 0.01, max: 1.99, auto: false }, "1", "SetRelaxWt", "relaxation_factor",
        "gauss_seidel, l1_gauss_seidel: how far an unknown goes from its old value towards the one that solves its row, or its block of rows: below 1 under-relaxation, above 1 successive over-relaxation (SOR). With any weight below 2 the sweeps of gauss_seidel converge for every SPD matrix, and those of l1_gauss_seidel with weights up to 1. Not with line.",
        "As a smoother plain Gauss-Seidel is best or nearly so; other weights are for sweeps alone, and for hierarchies whose coarse correction is too short.";
    "amg.smoother.line.axis", auto_choice(components::AXES), "auto", "-", "-",
        "line: the axis along which the unknowns of cells are solved for together, by a tridiagonal matrix, or a block tridiagonal one where cells have several unknowns, whatever amg.smoother.diagonal is. With several axes a sweep has the lines along each of them, one after the other. auto: on every level the axis with the strongest couplings, of equal ones the last. Axes of lines cannot be periodic. amg.coarsening.axes auto coarsens them, and compares the other axes with each other alone.",
        "Lines along the strongest couplings smooth what point smoothers leave; along z and y neighbouring lines are neighbours in memory.";
    "amg.smoother.chebyshev.degree", Kind::Int { min: 1, max: 20 }, "2", "SetChebyOrder", "chebyshev_polynomial_order",
        "chebyshev: degree of the polynomial, which is the number of products with the matrix in a sweep.",
        "hypre's; more work per sweep only pays where the matrix is hard.";
    "amg.smoother.chebyshev.eigenvalue_ratio", Kind::Real { min: 1.0, max: 1000.0, auto: false }, "8", "SetChebyFraction (inverse)", "-",
        "chebyshev: the polynomial damps eigenvalues from the largest down to the largest over this.",
        "What coarsening by a factor of about 8 leaves to the smoother.";
    "amg.smoother.chebyshev.largest_eigenvalue", Kind::Real { min: 0.001, max: 1000.0, auto: true }, "auto", "-", "cheby_max_lambda",
        "chebyshev, chebyshev_fsai: the largest eigenvalue of the scaled matrix, on all levels, in place of an estimate. Larger ones are amplified: the polynomial is bounded up to this number alone. auto: 1.1 times the estimate that amg.eigenvalue describes, or 1 with amg.smoother.chebyshev.scaling l1. The smallest eigenvalue that is damped is this over amg.smoother.chebyshev.eigenvalue_ratio.",
        "Eigenvalues differ from level to level and from matrix to matrix; a number of the caller's saves the estimate where all are known to be below it.";
    "amg.smoother.chebyshev.scaling", choice(smooth::chebyshev::SCALINGS), "diagonal", "-", "preconditioner (of CHEBYSHEV: BLOCK_JACOBI, JACOBI_L1)",
        "chebyshev: what the matrix is scaled by. diagonal: the diagonal, or the diagonal blocks (amg.smoother.diagonal). l1: the same with the absolute values of the rest of the row added to it, as in l1_jacobi. No eigenvalue is then larger than 1, and none is estimated.",
        "The bound of l1 is loose where couplings have both signs or the matrix is dominated by its diagonal, and the polynomial then damps what is not there.";
    "amg.eigenvalue.method", choice(backend::parameters::Estimate::METHODS), "lanczos", "SetChebyEigEst", "chebyshev_lambda_estimate_mode",
        "How the largest eigenvalue of the scaled matrix is estimated, for the smoothers jacobi and chebyshev and for smoothed interpolation: by Lanczos steps, or by as many power steps.",
        "Lanczos comes closer with as many products, and is as cheap; power needs no symmetry.";
    "amg.eigenvalue.steps", Kind::Int { min: 1, max: 1000 }, "8", "SetChebyEigEst (10)", "-",
        "Products with the matrix in an estimate of its largest eigenvalue. lanczos ends earlier in an update whose first steps give the values that they gave before, and for 65,536 rows or more after four steps if the largest row sum of the scaled matrix exceeds the estimate by no more than a tenth.",
        "With 12 as many iterations, within one; with 8 a set-up of elasticity takes a fifteenth less on GPUs.";
    "amg.update.interpolation", choice(&["renew", "keep"]), "renew", "-", "structure_reuse_levels",
        "What update does with interpolation when the values of the matrix have changed. renew computes it anew for the same coarse unknowns and patterns. keep leaves it, and computes coarse matrices and smoothers only.",
        "The hierarchy is that of the new values, as good as a fresh one while its coarse unknowns fit. keep takes less time, and is enough while the character of the matrix stays, as from one time step to the next.";
    "amg.update.coarsening", choice(&["keep", "recheck"]), "keep", "-", "structure_reuse_levels",
        "What update does with strong couplings and coarse unknowns when the values of the matrix have changed. keep leaves them as they are. recheck finds them anew on each level, as set-up does: where they are the same the level is updated, and from the first level on where they are not the hierarchy is set up anew. The report tells how many levels were kept.",
        "What has to be done for new values then is numeric work alone, and takes the same time whatever they are. recheck adds the time of strength, and that of a set-up of the levels that change; it is for matrices whose character changes, such as a front that moves or an anisotropy that turns.";
    "amg.cycle.type", choice(amg::cycle::NAMES), "v", "SetCycleType (1 V, 2 W)", "cycle (V, W, F, CGF for k)",
        "How the coarse levels are visited: v once, w twice, f once as f and once as v, k by at most two steps of flexible CG, which needs a symmetric positive definite matrix. f and k are not constant symmetric operators, and solver.type auto then is fcg; cg around a k cycle is fcg.",
        "With a Krylov method around it v has the least time to solution where interpolation is good; k makes up for plain aggregation.";
    "amg.cycle.error_scaling", choice(amg::error_scaling::NAMES), "none", "-", "error_scaling (2 residual, 3 energy)",
        "Whether each coarse correction is multiplied by the number that makes the energy norm of the error least (energy, for symmetric positive definite matrices), or the Euclidean norm of the residual (residual). The cycle then depends on what it is applied to: solver.type auto is fcg or fgmres, cg is fcg, and gmres is fgmres. A product with the matrix of each level, and two vectors there.",
        "Good interpolation needs no factor. Around plain aggregates (tentative) a Krylov method finds it by itself: energy saves cycles alone (solver.type richardson) half of their iterations, CG none. Minimal residuals shorten smooth corrections, so that residual helps few.";
    "amg.cycle.error_scaling_sweeps", Kind::Int { min: 0, max: 100 }, "0", "-", "scaling_smoother_steps",
        "amg.cycle.error_scaling: sweeps of the smoother on the correction before it is scaled, so that the factor is not one of its jumps between aggregates.",
        "None: they cost as much as other sweeps, and CG then takes a fifth fewer iterations on plain aggregates.";
    "fsai.pattern", choice(backend::fsai::PATTERNS), "adaptive", "SetAlgoType (FSAI)", "-",
        "Pattern of the factor G of FSAI, as smoother (amg.smoother.type) and as preconditioner (solver.preconditioner). adaptive: rows grow where that reduces their Kaporin number most. static: the lower triangle of a power of the matrix without its small entries.",
        "An adaptive factor takes fewer iterations with as many entries.";
    "fsai.steps", Kind::Int { min: 1, max: 100 }, "15", "SetMaxSteps (FSAI)", "-",
        "Adaptive pattern: most steps in which a row of the factor grows. The rows of a block share a pattern of blocks, which takes 2/n as many steps in blocks of n rows, rounded up, and so about the same memory in f32.",
        "The light set of parameters for mechanics: about 16 entries in a row.";
    "fsai.entries_per_step", Kind::Int { min: 1, max: 10 }, "1", "SetMaxStepSize (FSAI)", "-",
        "Adaptive pattern: entries that a step adds to a row of the factor, or blocks to a row of blocks.",
        "One at a time finds the best pattern for its length.";
    "fsai.tolerance", Kind::Real { min: 0.0, max: 1.0, auto: false }, "0.001", "SetKapTolerance (FSAI)", "-",
        "Adaptive pattern: a row of the factor is finished when a step reduces its Kaporin number by less than this share of it.",
        "Later steps would hardly change the preconditioner.";
    "fsai.power", Kind::Int { min: 1, max: 4 }, "1", "SetNumLevels (FSAI)", "-",
        "Static pattern: the power of the matrix whose lower triangle it is.",
        "As many entries as the lower triangle of the matrix; higher powers cost much more in set-up than they save.";
    "fsai.pre_filter", Kind::Real { min: 0.0, max: 1.0, auto: false }, "0", "SetThreshold (FSAI)", "-",
        "Static pattern: entries a_ij of the matrix of at most this times the root of a_ii a_jj are left out before the power is computed.",
        "0 keeps all that are not zero.";
    "fsai.post_filter", Kind::Real { min: 0.0, max: 1.0, auto: false }, "0", "-", "-",
        "Entries g_ij of the factor with |g_ij| of at most this times g_ii, both times the root of the diagonal entry of the matrix in their column, are dropped, and the factor is computed again on what is left.",
        "0 keeps all: small entries cost set-up, which is done by then.";
    "precision.setup", choice(PHASE_PRECISIONS), "f64", "-", "-",
        "Precision in which the hierarchy is computed before it is stored.",
        "Interpolation and Galerkin products lose digits from level to level.";
    "precision.preset", Kind::PrecisionPreset, "default", "-", "-",
        "Number formats of all levels; \"precision\" alone is the same key. default: single for f64 matrices of at least 2^20 stored values inside a solver with flexible CG, which solver.type auto is then, where no other precision of a level is set; input elsewhere. single: f32, and the format of the matrix where that loses precision. input: the format of the matrix that is handed over. auto: set-up looks at each level and chooses the narrowest that costs no iterations, and f32 on structured grids with one unknown in each cell, where narrower ones save no time; the report says why. A list of dp (f64), sp (f32), hp (f16) and bf (bf16) joined by hyphens, such as dp-sp-hp: from the finest level downward, the last repeats. A pair such as (dp-sp,hp): the first list for vectors and smoothers, the second for matrices and transfers.",
        "f32 takes the same iterations as f64 under flexible CG on every symmetric problem that was tried, in less time.";
    "precision.operator", auto_choice(&["input"]), "auto", "-", "-",
        "Storage of the matrix that the Krylov method multiplies with, where that is a copy of the library's own, as on GPUs. auto: the narrowest format that holds every value exactly. input: the format of the matrix that is handed over.",
        "No value changes, and products with matrices such as Laplacians of grids and graphs move a third of the bytes.";
    "precision.matrix", Kind::Precisions, "preset", "-", "-",
        "Storage of the level matrices, finest first.",
        "Follows the preset.";
    "precision.vector", Kind::Precisions, "preset", "-", "-",
        "Working vectors of the cycle, finest first. f16 and bf16 are computed with in f32, and are never what auto chooses. The other parts of such a level have the same format: those that are not named take it, and another one is refused.",
        "Follows the preset. Working precision matters more for convergence than matrix precision.";
    "precision.transfer", Kind::Precisions, "preset", "-", "-",
        "Storage of interpolation and restriction; entry i belongs to the step from level i to i + 1.",
        "Follows the preset.";
    "precision.smoother", Kind::Precisions, "preset", "-", "-",
        "Storage of the smoothers' data, finest first.",
        "Follows the preset.";
    "precision.scaling", auto_choice(&["diagonal", "equilibrate", "none"]), "auto", "-", "-",
        "Scaling of the levels of which a part has 16 bits, symmetrically and by powers of two; the cycle runs in the scaled variables. diagonal: by the root of the diagonal, which must be positive. equilibrate: by the root of the largest entry of row and column. auto: diagonal where it is positive and no entry is far above it, otherwise equilibrate. A level that does not fit into its format, scaled or not, is refused in set-up.",
        "f16 ends at 65504; scaled, a level fits whatever the units of the matrix are, and nothing else changes.";
    "precision.indices", auto_choice(&["32"]), "auto", "-", "-",
        "Column indices of matrices and transfers that the library stores itself. auto: for square blocks, one for all blocks of a diagonal in 16 block rows (dia16-3x3 in the report), where zeros that fill the diagonals up make that at most a tenth larger. For scalars, one for all entries of a diagonal in 64 rows (dia64), where that is a fifth smaller than 16 bits for each entry; otherwise 16 bits, counted from the smallest column of 64 rows (csr16), where all of these fit and at least a fifth of the bytes of an entry is saved, that is with f32, f16 and bf16 values. 32: as they are. Matrices in the caller's memory or in f64, other blocks, those that a Gauss-Seidel smoother reads, and all with precision.accumulate storage keep 32 bits.",
        "Indices limit what short values can save: on a 27-point grid a cycle in f16 takes half the time of one in f64, where with 16 bits for each index it takes two thirds. Blocks by diagonals are multiplied in whole registers: in elasticity that makes a cycle in f16 twice as fast. In f64 the gain would be a tenth, and take more memory, because update keeps the 32-bit pattern.";
    "precision.residual_scaling", auto_choice(&["none"]), "auto", "-", "-",
        "What is handed down to a level with narrower vectors. auto: multiplied by a power of two where it would leave their range, and the correction divided by it. none: as it is.",
        "Residuals fall by ten orders of magnitude in a solve, and below 6e-8 there is nothing in f16.";
    "precision.accumulate", choice(&["wide", "storage"]), "wide", "-", "-",
        "Sums of products with vectors of 16 bits. wide: in f32. storage: rounded to the format of the vector after each term, for comparison with published tables.",
        "Sums in f16 lose digits with the length of a row, and no time is saved.";
    "precision.rounding", choice(&["nearest", "row_sums"]), "nearest", "-", "-",
        "Storage in 16 bits. nearest: each entry by itself. row_sums: what rounding an entry of a matrix adds to its row is taken from the next smaller one, so that the product with the constant vector stays, and symmetry is lost in the last digit.",
        "Each entry by itself keeps the matrix symmetric, and iterations were the same on all problems tried.";
}

/// The row of a key.
pub fn find(key: &str) -> Option<&'static OptionRow> {
    option::find(OPTIONS, key)
}

/// The key nearest to an unknown one, by edit distance; ties go to the first of the table.
pub fn nearest(key: &str) -> &'static str {
    option::nearest(OPTIONS, key)
}

impl Config {
    /// All defaults.
    pub fn new() -> Self {
        Config::over(OPTIONS)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::new()
    }
}

/// The reference as a Markdown page.
pub fn reference() -> String {
    let mut out = String::from(
        "# Options\n\nGenerated from the table in `src/options.rs`; the same text is printed by `terrace options`. Keys are set with \
         `terrace_config_set_str`, `_int` and `_real`, as JSON, or as `key=value` on the command line. An unknown key is an error \
         that names the nearest one; a value outside of what is accepted is an error that says what is.\n\n\
         | key | accepts | default | what it does | why this default | backends | hypre | AmgX |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    // A bar would begin the next cell.
    let cell = |text: &str| text.replace('|', "\\|");
    for row in OPTIONS {
        let _ = writeln!(
            out,
            "| `{}` | {} | `{}` | {} | {} | {} | {} | {} |",
            row.key,
            cell(&row.kind.accepted()),
            row.default,
            cell(row.help),
            cell(row.reason),
            row.backend_names(),
            row.hypre,
            row.amgx
        );
    }
    out
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_none_is_a_prefix_of_another() {
        for (i, row) in OPTIONS.iter().enumerate() {
            for other in &OPTIONS[i + 1..] {
                assert_ne!(row.key, other.key);
                assert!(!other.key.starts_with(&format!("{}.", row.key)), "{} {}", row.key, other.key);
                assert!(!row.key.starts_with(&format!("{}.", other.key)), "{} {}", row.key, other.key);
            }
        }
    }

    #[test]
    fn the_nearest_key_is_a_plausible_correction() {
        assert_eq!(nearest("solver.tolerence"), "solver.tolerance");
        assert_eq!(nearest("amg.strength.treshold"), "amg.strength.threshold");
        assert_eq!(nearest("precision.matrices"), "precision.matrix");
    }
}
