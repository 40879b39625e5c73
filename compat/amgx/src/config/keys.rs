//! The table of keys: every key of AmgX with its values, its default and its meaning here. A value that has none is refused with the nearest that has.

use super::Value;
use crate::boundary::{Result, fail};
use terrace::edit_distance::edit_distance;
use terrace::error::excerpt;

/// What a key accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Whole numbers.
    Int(i64, i64),
    /// Numbers.
    Real(f64, f64),
    /// Names, in capitals or not.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
}

/// A key.
pub struct Row {
    pub key: &'static str,
    pub kind: Kind,
    /// What it is when it is not set.
    pub default: &'static str,
    /// Whether it changes no result, so that no solver asks for it.
    pub is_hint: bool,
    /// What it does here.
    pub meaning: &'static str,
}

/// Keys that name solvers, which may have scopes.
pub const SOLVER_KEYS: &[&str] =
    &["solver", "preconditioner", "smoother", "coarse_solver", "fine_smoother", "coarse_smoother"];

/// Whether a key names a solver.
pub fn names_solver(key: &str) -> bool {
    SOLVER_KEYS.contains(&key)
}

const COUNT: Kind = Kind::Int(0, i32::MAX as i64);
const ANY: Kind = Kind::Int(i32::MIN as i64, i32::MAX as i64);
const FLAG: Kind = Kind::Int(0, 1);
const ZERO: Kind = Kind::Int(0, 0);
const POSITIVE: Kind = Kind::Real(0.0, f64::MAX);

const SOLVERS: Kind = Kind::Choice(&[
    "AMG",
    "PCG",
    "PCGF",
    "CG",
    "PBICGSTAB",
    "BICGSTAB",
    "GMRES",
    "FGMRES",
    "IDR",
    "IDRMSYNC",
    "BLOCK_JACOBI",
    "JACOBI_L1",
    "CF_JACOBI",
    "GS",
    "MULTICOLOR_GS",
    "FIXCOLOR_GS",
    "MULTICOLOR_DILU",
    "MULTICOLOR_ILU",
    "CHEBYSHEV",
    "CHEBYSHEV_POLY",
    "POLYNOMIAL",
    "KPZ_POLYNOMIAL",
    "KACZMARZ",
    "DENSE_LU_SOLVER",
    "NOSOLVER",
]);

const SELECTORS: Kind = Kind::Choice(&[
    "PMIS",
    "HMIS",
    "AGGRESSIVE_PMIS",
    "AGGRESSIVE_HMIS",
    "SIZE_2",
    "SIZE_4",
    "SIZE_8",
    "MULTI_PAIRWISE",
    "DUMMY",
    "GEO",
    "PARALLEL_GREEDY_SELECTOR",
    "CR",
    "RS",
    "SERIAL_GREEDY",
    "ADAPTIVE",
]);

const COLOURINGS: Kind = Kind::Choice(&[
    "MIN_MAX",
    "MIN_MAX_2RING",
    "PARALLEL_GREEDY",
    "ROUND_ROBIN",
    "MULTI_HASH",
    "UNIFORM",
    "GREEDY_MIN_MAX_2RING",
    "SERIAL_GREEDY_BFS",
    "GREEDY_RECOLOR",
    "LOCALLY_DOWNWIND",
]);

const fn row(key: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Row {
    Row { key, kind, default, is_hint: false, meaning }
}

/// A key that changes no result.
const fn hint(key: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Row {
    Row { key, kind, default, is_hint: true, meaning }
}

const PRODUCT: &str = "accepted: coarse matrices are exact products, however they are computed";
const POOL: &str = "accepted: device memory comes from the pool of the driver and grows as needed";
const RANKS: &str = "accepted: concerns several ranks, and there is one";
const COLOURS: &str = "accepted: colours are chosen by the library, and all unknowns are coloured";
const MATCHING: &str = "accepted: pairs are matched by one deterministic method, singletons are merged";

/// Every key.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("solver", SOLVERS, "AMG", "outer solver: PCG, PCGF, CG, PBICGSTAB, BICGSTAB, GMRES, FGMRES, IDR, IDRMSYNC, AMG (cycles alone), DENSE_LU_SOLVER (sparse factorisation), or a smoother alone"),
    row("preconditioner", SOLVERS, "AMG", "preconditioner of the outer solver: AMG, a smoother, or NOSOLVER"),
    row("coarse_solver", SOLVERS, "DENSE_LU_SOLVER", "DENSE_LU_SOLVER: the coarsest level is solved exactly; NOSOLVER, or the smoother: by coarsest_sweeps"),
    row("smoother", SOLVERS, "BLOCK_JACOBI", "BLOCK_JACOBI, JACOBI_L1, GS, MULTICOLOR_GS, MULTICOLOR_DILU, CHEBYSHEV, CHEBYSHEV_POLY"),
    row("max_iters", COUNT, "100", "iterations; of a preconditioner 1 unless its own scope says otherwise, and always 1 for AMG"),
    row("monitor_residual", FLAG, "0", "1: stop by the tolerance; 0: do max_iters iterations"),
    row("convergence", Kind::Choice(&["ABSOLUTE", "RELATIVE_INI", "RELATIVE_INI_CORE", "RELATIVE_MAX", "RELATIVE_MAX_CORE", "COMBINED_REL_INI_ABS"]), "ABSOLUTE", "ABSOLUTE, RELATIVE_INI, COMBINED_REL_INI_ABS"),
    row("tolerance", POSITIVE, "1e-12", "what the residual norm must reach, by convergence"),
    row("alt_rel_tolerance", POSITIVE, "1e-12", "relative tolerance of COMBINED_REL_INI_ABS"),
    row("rel_div_tolerance", Kind::Real(-1.0, f64::MAX), "-1", "residual norm over that of the right-hand side from which a solve has diverged; -1: 1e8"),
    row("norm", Kind::Choice(&["L1", "L2", "LMAX"]), "L2", "norm of AMGX_solver_calculate_residual_norm; solves stop by L2"),
    row("use_scalar_norm", FLAG, "0", "block matrices: 1 gives one norm, 0 one for each component, in AMGX_solver_calculate_residual_norm; solves stop by one norm"),
    row("gmres_n_restart", Kind::Int(1, 1000), "20", "vectors between restarts of GMRES and FGMRES"),
    row("gmres_krylov_dim", Kind::Int(0, 1000), "0", "0, or the same as gmres_n_restart"),
    row("subspace_dim_s", COUNT, "8", "IDR, IDRMSYNC: shadow vectors, 1 to 32"),
    row("algorithm", Kind::Choice(&["CLASSICAL", "AGGREGATION", "ENERGYMIN"]), "CLASSICAL", "CLASSICAL, AGGREGATION"),
    row("selector", SELECTORS, "PMIS", "CLASSICAL: PMIS, HMIS, AGGRESSIVE_PMIS, AGGRESSIVE_HMIS; AGGREGATION: SIZE_2 (its default), SIZE_4, SIZE_8, MULTI_PAIRWISE"),
    row("interpolator", Kind::Choice(&["D1", "D2", "MULTIPASS", "EM"]), "D1", "D1: classical modified; D2: extended+i"),
    row("aggressive_levels", COUNT, "0", "levels with aggressive coarsening"),
    row("aggressive_selector", Kind::Choice(&["DEFAULT", "PMIS", "HMIS"]), "DEFAULT", "DEFAULT, or the same as selector"),
    row("aggressive_interpolator", Kind::Choice(&["MULTIPASS", "D1", "D2"]), "MULTIPASS", "MULTIPASS, on GPUs as D2; D2: two stages"),
    row("aggregation_passes", Kind::Int(1, 3), "3", "MULTI_PAIRWISE: each doubles the aggregates"),
    row("strength", Kind::Choice(&["AHAT", "ALL", "AFFINITY"]), "AHAT", "AHAT: classical strength; ALL: every coupling is strong"),
    row("strength_threshold", Kind::Real(0.0, 1.0), "0.25", "share of the strongest coupling from which one is strong"),
    row("max_row_sum", POSITIVE, "1.1", "rows that are dominant beyond this have no strong couplings; from 1 on: none"),
    row("interp_max_elements", Kind::Int(-1, 1000), "-1", "most entries in a row of the interpolation; -1: all"),
    row("interp_truncation_factor", POSITIVE, "1.1", "entries below this share of the largest are dropped; from 1 on: none"),
    row("cycle", Kind::Choice(&["V", "W", "F", "CG", "CGF"]), "V", "V, W, F; CG and CGF: the k cycle, at most two steps of flexible CG on each level"),
    row("cycle_iters", COUNT, "2", "CG, CGF: 2"),
    row("max_levels", Kind::Int(1, i32::MAX as i64), "100", "most levels; at most 64 here"),
    row("min_coarse_rows", Kind::Int(1, i32::MAX as i64), "2", "coarsening ends at so many rows"),
    row("dense_lu_num_rows", Kind::Int(1, i32::MAX as i64), "128", "coarsening ends at so many rows with DENSE_LU_SOLVER, 5000 at most"),
    row("coarsest_sweeps", COUNT, "2", "sweeps on the coarsest level without DENSE_LU_SOLVER"),
    row("presweeps", Kind::Int(0, 100), "1", "sweeps before the coarse correction"),
    row("postsweeps", Kind::Int(0, 100), "1", "sweeps after it"),
    row("finest_sweeps", Kind::Int(-1, 100), "-1", "sweeps before and after it on the finest level; -1: as on the others"),
    row("relaxation_factor", Kind::Real(0.0, 2.0), "0.9", "weight of BLOCK_JACOBI, JACOBI_L1, MULTICOLOR_DILU and, below 2, of Gauss-Seidel, where 0 is 1"),
    row("symmetric_GS", FLAG, "0", "Gauss-Seidel: 1 for both directions in each sweep"),
    row("GS_L1_variant", FLAG, "0", "Gauss-Seidel: 1 for l1 Gauss-Seidel, on the host"),
    row("chebyshev_polynomial_order", Kind::Int(1, 20), "5", "degree of the polynomial"),
    row("chebyshev_lambda_estimate_mode", Kind::Int(0, 3), "0", "0, 1, 2: the largest eigenvalue is estimated by Lanczos steps, and 1 with JACOBI_L1; 3: cheby_max_lambda"),
    row("cheby_max_lambda", Kind::Real(0.0, 1e20), "1", "mode 3: largest eigenvalue of the preconditioned matrix, on all levels"),
    row("cheby_min_lambda", Kind::Real(0.0, 1e20), "0.125", "mode 3: smallest eigenvalue that is damped"),
    row("structure_reuse_levels", ANY, "0", "AMGX_solver_resetup: 0 sets up anew, others keep strong couplings and coarse unknowns on all levels"),
    row("store_res_history", FLAG, "0", "1: AMGX_solver_get_iteration_residual"),
    row("print_config", FLAG, "0", "prints the configuration when a solver is made"),
    row("print_solve_stats", FLAG, "0", "prints residual norms after each solve"),
    row("print_grid_stats", FLAG, "0", "prints the levels after set-up"),
    row("obtain_timings", FLAG, "0", "prints times of set-up and solve"),

    // What must have the one value that is supported.
    row("error_scaling", Kind::Int(0, 3), "0", "AGGREGATION: the coarse correction is multiplied by the number that makes the residual (2) or the energy norm of the error (3) least; 0: not. CLASSICAL: without effect, as in AmgX"),
    row("scaling_smoother_steps", COUNT, "2", "error_scaling 2, 3: sweeps on the correction before it is multiplied"),
    row("scaling", Kind::Choice(&["NONE"]), "NONE", "NONE: the smoothers but JACOBI_L1 do the same to a matrix that is scaled by its diagonal; without one, the nearest is the preconditioner BLOCK_JACOBI"),
    hint("reuse_scale", ZERO, "0", "0: the factor of error_scaling is computed each time"),
    hint("intensive_smoothing", ZERO, "0", "0; presweeps and postsweeps are the nearest"),
    hint("block_format", Kind::Choice(&["ROW_MAJOR"]), "ROW_MAJOR", "ROW_MAJOR"),
    hint("block_convert", ZERO, "0", "0: files are read as they are"),
    hint("complex_conversion", ZERO, "0", "0: there are no complex systems"),
    hint("fine_levels", Kind::Int(-1, -1), "-1", "-1: one smoother for all levels; smoother is the nearest to others"),
    hint("fine_smoother", SOLVERS, "BLOCK_JACOBI", "accepted: concerns fine_levels, which is -1"),
    hint("coarse_smoother", SOLVERS, "BLOCK_JACOBI", "accepted: concerns fine_levels, which is -1"),
    hint("amg_host_levels_rows", Kind::Int(-1, -1), "-1", "-1: all levels are where the finest is"),
    hint("dense_lu_max_rows", ZERO, "0", "0; dense_lu_num_rows is the nearest"),
    hint("cf_smoothing_mode", ZERO, "0", "0: there is no CF_JACOBI"),
    hint("min_fine_rows", Kind::Int(1, 1), "1", "1; min_coarse_rows is the nearest"),
    hint("coarsen_threshold", Kind::Real(1.0, 1.0), "1", "1; max_levels is the nearest"),
    hint("use_opt_kernels", FLAG, "0", "accepted: there is one set of kernels"),

    // What changes no result here.
    hint("determinism_flag", FLAG, "0", "accepted: results are always deterministic"),
    hint("exception_handling", FLAG, "0", "1: a call that fails prints its sentence and ends the process"),
    hint("rhs_from_a", FLAG, "0", "AMGX_read_system: a right-hand side that the file lacks is A times ones, not ones"),
    hint("matrix_writer", Kind::Choice(&["MATRIXMARKET", "BINARY"]), "MATRIXMARKET", "format of AMGX_write_system"),
    hint("verbosity_level", Kind::Int(0, 3), "3", "0: notes about the configuration are not printed"),
    hint("solver_verbose", FLAG, "0", "accepted: print_config prints the same"),
    hint("print_vis_data", ZERO, "0", "0; print_grid_stats is the nearest"),
    hint("print_aggregation_info", ZERO, "0", "0; print_grid_stats is the nearest"),
    hint("print_coloring_info", ZERO, "0", "0: nothing is printed about colours"),
    hint("convergence_analysis", ZERO, "0", "0; store_res_history is the nearest"),
    hint("ilu_sparsity_level", COUNT, "0", "accepted: concerns MULTICOLOR_ILU, which is refused"),
    hint("jacobi_iters", COUNT, "5", "accepted: concerns a solver that is refused"),
    hint("kpz_mu", COUNT, "4", "accepted: concerns KPZ_POLYNOMIAL, which is refused"),
    hint("kpz_order", COUNT, "3", "accepted: concerns KPZ_POLYNOMIAL, which is refused"),
    hint("kaczmarz_coloring_needed", FLAG, "1", "accepted: concerns KACZMARZ, which is refused"),
    hint("max_coarse_iters", COUNT, "100", "accepted: coarse solvers are exact, or sweeps"),
    hint("energymin_interpolator", Kind::Text, "EM", "accepted: concerns ENERGYMIN, which is refused"),
    hint("energymin_selector", Kind::Text, "CR", "accepted: concerns ENERGYMIN, which is refused"),
    hint("affinity_iterations", COUNT, "4", "accepted: concerns the strength AFFINITY, which is refused"),
    hint("affinity_vectors", COUNT, "4", "accepted: concerns the strength AFFINITY, which is refused"),
    hint("aggregate_size", COUNT, "2", "accepted: concerns the selector DUMMY, which is refused"),
    hint("coarseAgenerator", Kind::Choice(&["LOW_DEG", "THRUST", "HYBRID"]), "LOW_DEG", PRODUCT),
    hint("coarseAgenerator_coarse", Kind::Choice(&["LOW_DEG", "THRUST", "HYBRID"]), "LOW_DEG", PRODUCT),
    hint("spmm_gmem_size", COUNT, "1024", PRODUCT),
    hint("spmm_no_sort", COUNT, "1", PRODUCT),
    hint("spmm_verbose", COUNT, "0", PRODUCT),
    hint("spmm_max_attempts", COUNT, "6", PRODUCT),
    hint("use_cusparse_spgemm", FLAG, "0", PRODUCT),
    hint("cusparse_spgemm_alg", Kind::Text, "CUSPARSE_SPGEMM_DEFAULT", PRODUCT),
    hint("cusparse_spgemm_fraction", POSITIVE, "0.5", PRODUCT),
    hint("matrix_coloring_scheme", COLOURINGS, "MIN_MAX", COLOURS),
    hint("max_uncolored_percentage", Kind::Real(0.0, 1.0), "0.15", COLOURS),
    hint("coloring_level", COUNT, "1", COLOURS),
    hint("max_num_hash", COUNT, "7", COLOURS),
    hint("num_colors", COUNT, "10", COLOURS),
    hint("initial_color", COUNT, "0", COLOURS),
    hint("weakness_bound", ANY, "2147483647", COLOURS),
    hint("late_rejection", COUNT, "0", COLOURS),
    hint("geometric_dim", COUNT, "2", COLOURS),
    hint("coloring_try_remove_last_colors", COUNT, "0", COLOURS),
    hint("coloring_custom_arg", Kind::Text, "", COLOURS),
    hint("reorder_cols_by_color", FLAG, "0", COLOURS),
    hint("insert_diag_while_reordering", FLAG, "0", COLOURS),
    hint("use_bsrxmv", FLAG, "0", COLOURS),
    hint("boundary_coloring", Kind::Choice(&["FIRST", "SYNC_COLORS", "LAST"]), "SYNC_COLORS", RANKS),
    hint("halo_coloring", Kind::Choice(&["FIRST", "SYNC_COLORS", "LAST"]), "LAST", RANKS),
    hint("handshaking_phases", Kind::Int(1, 2), "1", MATCHING),
    hint("max_matching_iterations", COUNT, "15", MATCHING),
    hint("max_unassigned_percentage", Kind::Real(0.0, 1.0), "0.05", MATCHING),
    hint("weight_formula", FLAG, "0", MATCHING),
    hint("filter_weights", FLAG, "0", MATCHING),
    hint("filter_weights_alpha", Kind::Real(0.0, 1.0), "0.5", MATCHING),
    hint("full_ghost_level", FLAG, "0", MATCHING),
    hint("notay_weights", FLAG, "0", MATCHING),
    hint("ghost_offdiag_limit", COUNT, "0", MATCHING),
    hint("merge_singletons", Kind::Int(0, 2), "1", MATCHING),
    hint("serial_matching", FLAG, "0", MATCHING),
    hint("modified_handshake", FLAG, "0", MATCHING),
    hint("aggregation_edge_weight_component", COUNT, "0", MATCHING),
    hint("device_mem_pool_size", Kind::Int(0, i64::MAX), "268435456", POOL),
    hint("device_consolidation_pool_size", Kind::Int(0, i64::MAX), "268435456", POOL),
    hint("device_mem_pool_max_alloc_size", Kind::Int(0, i64::MAX), "20971520", POOL),
    hint("device_alloc_scaling_factor", COUNT, "10", POOL),
    hint("device_alloc_scaling_threshold", Kind::Int(0, i64::MAX), "16384", POOL),
    hint("device_mem_pool_size_limit", ZERO, "0", "0: the limit is the memory of the device"),
    hint("num_streams", COUNT, "0", "accepted: work is on one stream"),
    hint("serialize_threads", FLAG, "0", "accepted: work is on one stream"),
    hint("high_priority_stream", FLAG, "0", "accepted: work is on one stream"),
    hint("communicator", Kind::Choice(&["MPI", "MPI_DIRECT"]), "MPI", RANKS),
    hint("fine_level_consolidation", FLAG, "0", RANKS),
    hint("use_cuda_ipc_consolidation", FLAG, "0", RANKS),
    hint("amg_consolidation_flag", FLAG, "0", RANKS),
    hint("matrix_consolidation_lower_threshold", COUNT, "0", RANKS),
    hint("matrix_consolidation_upper_threshold", COUNT, "1000", RANKS),
    hint("separation_interior", Kind::Choice(&["INTERIOR", "OWNED", "FULL", "ALL"]), "INTERIOR", RANKS),
    hint("separation_exterior", Kind::Choice(&["INTERIOR", "OWNED", "FULL", "ALL"]), "OWNED", RANKS),
    hint("min_rows_latency_hiding", ANY, "-1", RANKS),
    hint("exact_coarse_solve", FLAG, "0", RANKS),
    hint("matrix_halo_exchange", Kind::Int(0, 2), "0", RANKS),
    hint("use_sum_stopping_criteria", FLAG, "0", RANKS),
];

/// Older names of keys and values.
const RENAMED: &[(&str, &str)] = &[("smoother_weight", "relaxation_factor"), ("min_block_rows", "min_coarse_rows")];
const RENAMED_VALUES: &[(&str, &str)] = &[("JACOBI", "BLOCK_JACOBI"), ("JACOBI_NO_CUSP", "BLOCK_JACOBI")];

/// The row of a key.
pub fn find(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key)
}

/// The key as the table has it, and the value as the rest of the library reads it.
pub fn checked(key: &str, value: Value) -> Result<(&'static str, Value)> {
    if key.starts_with("eig_") {
        return fail!(BadConfiguration, "\"{key}\" is about eigensolvers, which are not implemented");
    }
    let key = RENAMED.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new);
    let Some(row) = find(key) else {
        let nearest = ROWS.iter().min_by_key(|row| edit_distance(key, row.key)).map_or("", |row| row.key);
        return fail!(BadConfiguration, "no parameter is called \"{}\"; the nearest is \"{nearest}\"", excerpt(key));
    };
    let Value { text: given, scope } = value;
    let text = match row.kind {
        Kind::Int(min, max) => {
            let number = given.parse::<i64>().ok();
            // A whole number may be written like a real one.
            let number = number.or_else(|| given.parse::<f64>().ok().filter(|v| v.fract() == 0.0).map(|v| v as i64));
            number.filter(|number| (min..=max).contains(number)).map(|number| number.to_string())
        }
        Kind::Real(min, max) => {
            given.parse::<f64>().ok().filter(|number| (min..=max).contains(number)).map(|_| given.clone())
        }
        Kind::Choice(names) => {
            let upper = given.to_uppercase();
            let name = RENAMED_VALUES.iter().find(|(old, _)| *old == upper).map_or(upper.as_str(), |(_, new)| new);
            names.contains(&name).then(|| name.to_string())
        }
        Kind::Text => Some(given.clone()),
    };
    match text {
        Some(text) => Ok((row.key, Value { text, scope })),
        None => {
            let text = excerpt(&given);
            fail!(
                BadConfiguration,
                "\"{}\" does not accept {text}; accepted: {}. {}",
                row.key,
                accepted(row),
                row.meaning
            )
        }
    }
}

/// What a key accepts, for people.
pub fn accepted(row: &Row) -> String {
    match row.kind {
        Kind::Int(min, max) if min == max => min.to_string(),
        Kind::Int(min, max) if max >= i32::MAX as i64 && min >= 0 => format!("whole numbers from {min} on"),
        Kind::Int(_, max) if max >= i32::MAX as i64 => "whole numbers".to_string(),
        Kind::Int(min, max) => format!("whole numbers from {min} to {max}"),
        Kind::Real(min, max) if min == max => min.to_string(),
        Kind::Real(min, f64::MAX) => format!("numbers from {min} on"),
        Kind::Real(min, max) => format!("numbers from {min} to {max}"),
        Kind::Choice(names) => names.join(", "),
        Kind::Text => "any text".to_string(),
    }
}
