//! Families of configurations: the iterations are those of Terrace with the options of the same mathematics, in every mode. What is not supported is
//! refused with the nearest that is.

use crate::{program, run, scratch};
use std::fmt::Write;
use std::sync::Arc;
use terrace::sparse::Csr;
use terrace::{Config, Context, Guess, Matrix, Solver, gallery};

/// A 7-point Laplacian as a file.
pub fn poisson(n: usize) -> String {
    market(&gallery::poisson7(n, n, n).expect("a Laplacian"), "")
}

/// A matrix as a file, with a line of AmgX.
fn market(a: &Csr<f64>, line: &str) -> String {
    let mut out = format!("%%MatrixMarket matrix coordinate real general\n{line}");
    let scalar = a.view().to_scalar().expect("a scalar matrix");
    let view = scalar.view();
    let _ = writeln!(out, "{0} {0} {1}", scalar.rows, scalar.values.len());
    for i in 0..scalar.rows {
        for (j, value) in view.row(i) {
            let _ = writeln!(out, "{} {} {:e}", i + 1, j + 1, value[0]);
        }
    }
    out
}

/// What a solve printed: iterations, status, share of the residual.
#[derive(Debug, PartialEq)]
struct Ended(usize, usize, f64);

/// Solves through the API of AmgX.
fn through_amgx(mode: &str, config: &str, file: &str, again: bool) -> (Vec<Ended>, String) {
    let arguments = [mode, config, file, "again"];
    let printed = run(&program("tests/c/solve.c"), &arguments[..if again { 4 } else { 3 }]);
    let ended = printed.lines().filter_map(|line| {
        let words: Vec<&str> = line.strip_prefix("RESULT ")?.split(' ').collect();
        Some(Ended(words[0].parse().ok()?, words[1].parse().ok()?, words[2].parse().ok()?))
    });
    (ended.collect(), printed)
}

/// Iterations of Terrace itself.
fn natively(a: &Csr<f64>, options: &[(&str, &str)]) -> usize {
    let context = Context::new("host:1").expect("a context");
    let matrix = Arc::new(Matrix::from_csr(a.view().to_owned_as::<f64>().expect("a copy")).expect("a matrix"));
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap_or_else(|error| panic!("{key}={value}: {error}"));
    }
    let mut solver = Solver::new(&context, &config);
    solver.setup(Some(&matrix)).expect("set-up");
    let (b, mut x) = (vec![1.0; matrix.rows()], vec![0.0; matrix.rows()]);
    solver.solve(&b, &mut x, Guess::Zero).expect("a solve");
    solver.report().solves[0].iterations
}

/// The file of a problem.
fn file(name: &str, text: &str) -> String {
    let file = scratch("amgx-configurations").join(name);
    std::fs::write(&file, text).expect("a file can be written");
    file.display().to_string()
}

/// What stops the solves of all families.
const STOP: &str = r#""monitor_residual": 1, "convergence": "RELATIVE_INI", "tolerance": 1e-6, "max_iters": 100"#;

type Options = &'static [(&'static str, &'static str)];

/// A configuration around [`STOP`], and the options of Terrace for the same mathematics.
const FAMILIES: &[(&str, Options)] = &[
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "PCG", STOP, "preconditioner": {"scope": "amg", "solver": "AMG",
            "interpolator": "D2", "aggressive_levels": 2, "presweeps": 1, "postsweeps": 1, "cycle": "V", "max_levels": 50, "max_iters": 1,
            "smoother": {"scope": "jacobi", "solver": "BLOCK_JACOBI", "monitor_residual": 0}}}}"#,
        &[
            ("solver.type", "cg"),
            ("amg.coarsening.type", "pmis"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.interpolation.max_entries", "0"),
            ("amg.interpolation.aggressive", "multipass"),
            ("amg.coarsening.aggressive_levels", "2"),
            ("amg.coarsest.max_rows", "128"),
            ("amg.smoother.type", "jacobi"),
            ("amg.smoother.jacobi.weight", "0.9"),
        ],
    ),
    (
        r#"{"config_version": 2, "determinism_flag": 1, "solver": {"scope": "main", "solver": "GMRES", "gmres_n_restart": 10, STOP,
            "preconditioner": {"scope": "amg", "solver": "AMG", "interpolator": "D2", "selector": "PMIS", "coarse_solver": "NOSOLVER",
            "coarsest_sweeps": 2, "presweeps": 2, "postsweeps": 2, "max_row_sum": 0.9, "min_coarse_rows": 2, "interp_max_elements": 4,
            "max_iters": 1, "smoother": {"scope": "jacobi", "solver": "JACOBI_L1", "relaxation_factor": 1}}}}"#,
        &[
            ("solver.type", "gmres"),
            ("solver.restart", "10"),
            ("amg.coarsening.type", "pmis"),
            ("amg.strength.max_row_sum", "0.9"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.coarsest.solver", "sweeps"),
            ("amg.coarsest.max_rows", "2"),
            ("amg.coarsest.sweeps", "2"),
            ("amg.smoother.type", "l1_jacobi"),
            ("amg.smoother.pre_sweeps", "2"),
            ("amg.smoother.post_sweeps", "2"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "FGMRES", "gmres_n_restart": 10, "use_scalar_norm": 1, STOP,
            "preconditioner": {"scope": "amg", "solver": "AMG", "algorithm": "AGGREGATION", "selector": "SIZE_2", "presweeps": 0,
            "postsweeps": 3, "min_coarse_rows": 32, "matrix_coloring_scheme": "PARALLEL_GREEDY", "max_uncolored_percentage": 0.05,
            "error_scaling": 0, "coarse_solver": "DENSE_LU_SOLVER", "cycle": "V", "max_iters": 1, "smoother": "MULTICOLOR_DILU",
            "relaxation_factor": 0.75}}}"#,
        &[
            ("solver.type", "fgmres"),
            ("solver.restart", "10"),
            ("amg.coarsening.type", "pairwise"),
            ("amg.coarsening.pairwise.size", "2"),
            ("amg.interpolation.type", "tentative"),
            ("amg.coarsest.max_rows", "128"),
            ("amg.smoother.type", "dilu"),
            ("amg.smoother.dilu.weight", "0.75"),
            ("amg.smoother.pre_sweeps", "0"),
            ("amg.smoother.post_sweeps", "3"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "AMG", "interpolator": "D2", "cycle": "W", "selector": "HMIS",
            "strength_threshold": 0.5, "presweeps": 1, "postsweeps": 1, STOP}}"#,
        &[
            ("solver.type", "richardson"),
            ("amg.coarsening.type", "hmis"),
            ("amg.strength.threshold", "0.5"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.interpolation.max_entries", "0"),
            ("amg.coarsest.max_rows", "128"),
            ("amg.cycle.type", "w"),
            ("amg.smoother.type", "jacobi"),
            ("amg.smoother.jacobi.weight", "0.9"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "PCGF", STOP, "preconditioner": {"scope": "amg", "solver": "AMG",
            "algorithm": "AGGREGATION", "selector": "MULTI_PAIRWISE", "aggregation_passes": 3, "cycle": "CGF", "max_iters": 1,
            "smoother": {"scope": "s", "solver": "CHEBYSHEV_POLY", "chebyshev_polynomial_order": 2}}}}"#,
        &[
            ("solver.type", "fcg"),
            ("amg.coarsening.type", "pairwise"),
            ("amg.coarsening.pairwise.size", "8"),
            ("amg.interpolation.type", "tentative"),
            ("amg.coarsest.max_rows", "128"),
            ("amg.cycle.type", "k"),
            ("amg.smoother.type", "chebyshev"),
        ],
    ),
    (
        "config_version=2, solver(main)=PBICGSTAB, main:monitor_residual=1, main:convergence=RELATIVE_INI, main:tolerance=1e-6; \
         main:preconditioner(amg)=AMG, amg:algorithm=AGGREGATION, amg:selector=SIZE_4, amg:smoother(gs)=MULTICOLOR_GS, gs:symmetric_GS=1, amg:cycle=F",
        &[
            ("solver.type", "bicgstab"),
            ("amg.coarsening.type", "pairwise"),
            ("amg.coarsening.pairwise.size", "4"),
            ("amg.interpolation.type", "tentative"),
            ("amg.coarsest.max_rows", "128"),
            ("amg.cycle.type", "f"),
            ("amg.smoother.type", "gauss_seidel"),
            ("amg.smoother.gauss_seidel.direction", "symmetric"),
            ("amg.smoother.gauss_seidel.weight", "0.9"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "AMG", "algorithm": "AGGREGATION", "selector": "SIZE_2", "cycle": "W",
            STOP, "smoother": {"scope": "gs", "solver": "MULTICOLOR_GS", "relaxation_factor": 1.25}, "presweeps": 1, "postsweeps": 2}}"#,
        &[
            ("solver.type", "richardson"),
            ("amg.coarsening.type", "pairwise"),
            ("amg.coarsening.pairwise.size", "2"),
            ("amg.interpolation.type", "tentative"),
            ("amg.coarsest.max_rows", "128"),
            ("amg.cycle.type", "w"),
            ("amg.smoother.type", "gauss_seidel"),
            ("amg.smoother.gauss_seidel.weight", "1.25"),
            ("amg.smoother.post_sweeps", "2"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "PBICGSTAB", STOP, "preconditioner": {"scope": "amg", "solver": "AMG",
            "algorithm": "AGGREGATION", "selector": "SIZE_2", "cycle": "W", "error_scaling": 2, "presweeps": 0, "postsweeps": 3,
            "max_iters": 1, "coarse_solver": "NOSOLVER", "smoother": "BLOCK_JACOBI", "relaxation_factor": 0.75}}}"#,
        &[
            ("solver.type", "bicgstab"),
            ("amg.coarsening.type", "pairwise"),
            ("amg.coarsening.pairwise.size", "2"),
            ("amg.interpolation.type", "tentative"),
            ("amg.cycle.type", "w"),
            ("amg.cycle.error_scaling", "residual"),
            ("amg.cycle.error_scaling_sweeps", "2"),
            ("amg.smoother.pre_sweeps", "0"),
            ("amg.smoother.post_sweeps", "3"),
            ("amg.coarsest.solver", "sweeps"),
            ("amg.coarsest.max_rows", "2"),
            ("amg.coarsest.sweeps", "2"),
            ("amg.smoother.type", "jacobi"),
            ("amg.smoother.jacobi.weight", "0.75"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "AMG", "algorithm": "AGGREGATION", "selector": "SIZE_8", STOP,
            "error_scaling": 3, "scaling_smoother_steps": 0, "max_levels": 20, "smoother": {"scope": "cheb", "solver": "CHEBYSHEV_POLY",
            "chebyshev_polynomial_order": 4}}}"#,
        &[
            ("solver.type", "richardson"),
            ("amg.coarsening.type", "pairwise"),
            ("amg.interpolation.type", "tentative"),
            ("amg.coarsest.max_rows", "128"),
            ("amg.cycle.error_scaling", "energy"),
            ("amg.smoother.type", "chebyshev"),
            ("amg.smoother.chebyshev.degree", "4"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "AMG", "interpolator": "D2", "interp_max_elements": 4,
            "aggressive_levels": 1, "coarse_solver": "NOSOLVER", "max_levels": 50, "error_scaling": 3, "cycle": "V", "presweeps": 0,
            "postsweeps": 1, STOP, "smoother": {"solver": "CHEBYSHEV", "preconditioner": {"solver": "JACOBI_L1", "max_iters": 1},
            "max_iters": 1, "chebyshev_polynomial_order": 2, "chebyshev_lambda_estimate_mode": 3, "cheby_max_lambda": 0.9,
            "cheby_min_lambda": 0.09}}}"#,
        &[
            ("solver.type", "richardson"),
            ("amg.coarsening.type", "pmis"),
            ("amg.coarsening.aggressive_levels", "1"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.interpolation.aggressive", "multipass"),
            ("amg.coarsest.solver", "sweeps"),
            ("amg.coarsest.max_rows", "2"),
            ("amg.coarsest.sweeps", "2"),
            ("amg.smoother.pre_sweeps", "0"),
            ("amg.smoother.type", "chebyshev"),
            ("amg.smoother.chebyshev.scaling", "l1"),
            ("amg.smoother.chebyshev.largest_eigenvalue", "1"),
            ("amg.smoother.chebyshev.eigenvalue_ratio", "10"),
        ],
    ),
    (
        "solver=PCG, preconditioner=JACOBI, smoother_weight=0.8, monitor_residual=1, convergence=RELATIVE_INI, tolerance=1e-6",
        &[
            ("solver.type", "cg"),
            ("amg.max_levels", "1"),
            ("amg.coarsest.solver", "sweeps"),
            ("amg.coarsest.sweeps", "1"),
            ("amg.smoother.type", "jacobi"),
            ("amg.smoother.jacobi.weight", "0.8"),
        ],
    ),
    (
        "config_version=2, solver(main)=PCG, main:preconditioner(p)=MULTICOLOR_DILU, p:relaxation_factor=1, main:monitor_residual=1, \
         main:convergence=RELATIVE_INI, main:tolerance=1e-6",
        &[
            ("solver.type", "cg"),
            ("amg.max_levels", "1"),
            ("amg.coarsest.solver", "sweeps"),
            ("amg.coarsest.sweeps", "1"),
            ("amg.smoother.type", "dilu"),
        ],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "IDR", "subspace_dim_s": 2, "use_scalar_norm": 1, STOP,
            "preconditioner": {"scope": "precond", "max_iters": 1, "solver": "MULTICOLOR_DILU"}}}"#,
        &[
            ("solver.type", "idr"),
            ("solver.idr.s", "2"),
            ("amg.max_levels", "1"),
            ("amg.coarsest.solver", "sweeps"),
            ("amg.coarsest.sweeps", "1"),
            ("amg.smoother.type", "dilu"),
            ("amg.smoother.dilu.weight", "0.9"),
        ],
    ),
    (
        "config_version=2, solver(main)=IDRMSYNC, main:preconditioner(p)=JACOBI_L1, p:relaxation_factor=1, main:monitor_residual=1, \
         main:convergence=RELATIVE_INI, main:tolerance=1e-6",
        &[
            ("solver.type", "idr"),
            ("solver.idr.s", "8"),
            ("amg.max_levels", "1"),
            ("amg.coarsest.solver", "sweeps"),
            ("amg.coarsest.sweeps", "1"),
            ("amg.smoother.type", "l1_jacobi"),
        ],
    ),
    (
        "solver=CG, monitor_residual=1, convergence=RELATIVE_INI, tolerance=1e-6",
        &[("solver.type", "cg"), ("solver.preconditioner", "none")],
    ),
    (
        r#"{"config_version": 2, "solver": {"scope": "main", "solver": "PCG", STOP, "preconditioner": {"scope": "amg", "solver": "AMG",
            "max_iters": 1}}, "terrace": {"amg": {"coarsening.type": "mis2", "interpolation.type": "smoothed", "strength.type": "auto",
            "strength.threshold": "auto", "smoother.type": "chebyshev"}, "amg.coarsest.max_rows": 50}}"#,
        &[
            ("solver.type", "cg"),
            ("amg.coarsening.type", "mis2"),
            ("amg.interpolation.type", "smoothed"),
            ("amg.coarsest.max_rows", "50"),
            ("amg.smoother.type", "chebyshev"),
        ],
    ),
];

/// Options that all families have natively.
fn with_stop(options: Options) -> Vec<(&'static str, &'static str)> {
    let stop = [("solver.tolerance", "1e-6"), ("solver.max_iterations", "100"), ("precision", "input")];
    stop.into_iter().chain(options.iter().copied()).collect()
}

#[test]
fn iterations_are_those_of_the_native_interface() {
    let a = gallery::poisson7(9, 9, 9).expect("a Laplacian");
    let file = file("poisson.mtx", &market(&a, ""));
    for (config, options) in FAMILIES {
        let native = natively(&a, &with_stop(options));
        let (ended, printed) = through_amgx("8192", &config.replace("STOP", STOP), &file, false);
        assert_eq!(ended.len(), 1, "{config}: {printed}");
        assert_eq!((ended[0].0, ended[0].1), (native, 0), "{config}: {printed}");
        assert!(ended[0].2 <= 1e-6, "{config}: {printed}");
    }
}

#[test]
fn every_mode_solves_every_family() {
    let file = file("small.mtx", &poisson(5));
    for (i, (config, _)) in FAMILIES.iter().enumerate() {
        // Each family in one of the other modes, with a set-up for new values.
        let mode = ["8193", "8448", "8449", "8464", "8465"][i % 5];
        let config = config.replace("STOP", STOP).replace("1e-6", "1e-4");
        let (ended, printed) = through_amgx(mode, &config, &file, true);
        assert_eq!(ended.len(), 2, "{mode} {config}: {printed}");
        assert!(ended.iter().all(|e| e.1 == 0 && e.2 <= 1.1e-4), "{mode} {config}: {printed}");
        // Twice the matrix has the same iterations.
        assert_eq!(ended[0].0, ended[1].0, "{mode} {config}: {printed}");
    }
}

/// Elasticity in blocks of three rows, with the diagonal among them.
#[test]
fn blocks_of_a_file_are_solved() {
    let a = gallery::parse("elasticity:3").expect("a problem").matrix;
    let file = file("elasticity.mtx", &market(&a, "%%AMGX 3 3 sorted\n"));
    let config = format!(
        r#"{{"config_version": 2, "solver": {{"scope": "main", "solver": "PCG", "use_scalar_norm": 1, {STOP}, "preconditioner":
            {{"scope": "amg", "solver": "AMG", "algorithm": "AGGREGATION", "selector": "SIZE_8", "max_iters": 1, "smoother":
            {{"solver": "BLOCK_JACOBI", "relaxation_factor": 0.5}}}}}}}}"#
    );
    for mode in ["8192", "8193"] {
        let (ended, printed) = through_amgx(mode, &config, &file, true);
        assert!(ended.len() == 2 && ended.iter().all(|e| e.1 == 0 && e.2 <= 1e-6), "{printed}");
    }
}

/// Unknowns of a 7-point Laplacian on 4^3 points, as many in each as a block has rows, of which neighbours are coupled.
fn coupled(block: usize) -> Csr<f64> {
    let grid = gallery::poisson7(4, 4, 4).expect("a Laplacian");
    let view = grid.view();
    let mut triplets = Vec::new();
    for point in 0..grid.rows {
        for (other, value) in view.row(point) {
            triplets.extend((0..block).map(|i| (point * block + i, other * block + i, value[0])));
        }
        for i in 1..block {
            let (row, before) = (point * block + i, point * block + i - 1);
            triplets.extend([(row, before, -0.5), (before, row, -0.5), (row, row, 0.5), (before, before, 0.5)]);
        }
    }
    Csr::from_triplets(grid.rows * block, grid.rows * block, &triplets).expect("a matrix")
}

/// Blocks of 4 to 8 rows take turns with the families: two sizes for each on the host, and one of them on the simulated GPU.
#[test]
fn blocks_of_4_to_8_rows_take_the_iterations_of_terrace_itself() {
    for block in 4..=8 {
        let a = coupled(block);
        let file = file(&format!("coupled-{block}.mtx"), &market(&a, &format!("%%AMGX {block} {block} sorted\n")));
        let a = a.view().to_blocks(block).expect("blocks");
        for (k, (config, options)) in FAMILIES.iter().enumerate() {
            let modes = match (k + block) % 5 {
                0 => &["8192", "8193"][..],
                2 => &["8192"],
                _ => continue,
            };
            let native = natively(&a, &with_stop(options));
            let config = config.replace("STOP", STOP);
            for mode in modes {
                // Twice the matrix has the same iterations.
                let (ended, printed) = through_amgx(mode, &config, &file, true);
                assert_eq!(ended.len(), 2, "{mode} {block} {config}: {printed}");
                for end in ended {
                    assert_eq!((end.0, end.1), (native, 0), "{mode} {block} {config}: {printed}");
                    assert!(end.2 <= 1e-6, "{mode} {block} {config}: {printed}");
                }
            }
        }
    }
}

/// Without monitoring, as many iterations as were asked for; the status says nothing then.
#[test]
fn without_monitoring_the_iterations_are_counted() {
    let file = file("counted.mtx", &poisson(6));
    let (ended, printed) = through_amgx("8192", "solver=AMG, max_iters=3", &file, false);
    assert_eq!((ended[0].0, ended[0].1), (3, 0), "{printed}");
    assert!(ended[0].2 > 1e-6, "{printed}");
    let (ended, printed) = through_amgx("8192", "solver=PCG, max_iters=2, monitor_residual=1", &file, false);
    assert_eq!((ended[0].0, ended[0].1), (2, 3), "{printed}");
}

/// Configurations that are refused, and words of the sentence.
const REFUSED: &[(&str, &str)] = &[
    ("tolerence=1", "the nearest is \"tolerance\""),
    ("solver=FGMRS", "\"solver\" does not accept FGMRS"),
    ("solver=KACZMARZ", "is not supported as smoother or preconditioner"),
    ("solver=PCG, preconditioner=PCG", "the nearest are AMG, BLOCK_JACOBI, NOSOLVER"),
    ("solver=CG, preconditioner=AMG", "the nearest that is supported is PCG"),
    ("smoother=MULTICOLOR_ILU", "the nearest is MULTICOLOR_DILU"),
    ("smoother=KPZ_POLYNOMIAL", "the nearest is CHEBYSHEV_POLY"),
    ("smoother=MULTICOLOR_GS, relaxation_factor=2", "\"relaxation_factor\" is 2 for MULTICOLOR_GS"),
    ("smoother=MULTICOLOR_GS, relaxation_factor=2.5", "numbers from 0 to 2"),
    ("error_scaling=4", "\"error_scaling\" does not accept 4"),
    (
        "algorithm=AGGREGATION, error_scaling=1",
        "\"error_scaling\" is 1, which AmgX does not have any more; the nearest are 2 and 3",
    ),
    (
        "scaling=DIAGONAL_SYMMETRIC",
        "\"scaling\" does not accept DIAGONAL_SYMMETRIC; accepted: NONE. NONE: the smoothers",
    ),
    ("algorithm=ENERGYMIN", "the nearest are CLASSICAL, AGGREGATION"),
    ("selector=SIZE_2", "the nearest are PMIS, HMIS"),
    ("algorithm=AGGREGATION, selector=PMIS", "the nearest are SIZE_2"),
    ("interpolator=MULTIPASS", "the nearest are D1, D2"),
    ("cycle=CG, cycle_iters=3", "the nearest that is supported is 2"),
    ("coarse_solver=PCG", "the nearest are DENSE_LU_SOLVER, NOSOLVER"),
    ("monitor_residual=1, convergence=RELATIVE_MAX", "the nearest is RELATIVE_INI"),
    (
        "smoother(c)=CHEBYSHEV, c:preconditioner=JACOBI_L1, c:chebyshev_lambda_estimate_mode=3, c:cheby_min_lambda=2",
        "must be 1 to 1000 times the second",
    ),
    ("solver=PCG, preconditioner(p)=AMG, p:max_iters=2", "the nearest that is supported is 1"),
    ("presweeps=-1", "whole numbers from 0 to 100"),
    ("max_iters=many", "does not accept many"),
    ("tolerance(scope)=1", "which only solvers have"),
    ("tolerance", "has no ="),
    ("config_version=3", "accepted: 1, 2"),
    ("eig_solver=ARNOLDI", "eigensolvers"),
    ("{\"solver\": {\"scope\": \"main\"}}", "does not name its \"solver\""),
    ("{\"solver\": ", "not JSON"),
    ("terrace:amg.smoother.typ=jacobi", "the nearest is \"amg.smoother.type\""),
];

#[test]
fn what_is_not_supported_is_refused_with_the_nearest_that_is() {
    for (config, words) in REFUSED {
        let printed = run(&program("tests/c/solve.c"), &["8192", config, "no file"]);
        assert!(printed.contains("REFUSED 12 ") && printed.contains(words), "{config}: {printed}");
    }
}

/// What is taken otherwise than it was asked for is told.
#[test]
fn other_values_than_those_that_were_asked_for_are_told() {
    let file = file("told.mtx", &poisson(3));
    let config = "dense_lu_num_rows=9000, error_scaling=2, max_iters=2";
    let (_, printed) = through_amgx("8192", config, &file, false);
    for note in ["dense_lu_num_rows 9000: taken as 5000", "error_scaling: classical"] {
        assert!(printed.contains(&format!("note: {note}")), "{note}: {printed}");
    }
}

/// Keys that the named solver does not look at are told, or refused on request.
#[test]
fn keys_without_a_meaning_are_told() {
    let file = file("notes.mtx", &poisson(3));
    let config = "config_version=2, solver(main)=AMG, main:algorithm=AGGREGATION, main:interpolator=D2, main:norm=L1, main:max_iters=2";
    let (_, printed) = through_amgx("8192", config, &file, false);
    assert!(
        printed.contains("note: in scope \"main\" these have no meaning for the solver that is named: interpolator"),
        "{printed}"
    );
    assert!(printed.contains("note: norm L1: solves stop by the L2 norm"), "{printed}");
    let (_, printed) = through_amgx("8192", &format!("{config}, verbosity_level=0"), &file, false);
    assert!(!printed.contains("note"), "{printed}");
    let mut command = std::process::Command::new(program("tests/c/solve.c"));
    command.env_remove("LD_LIBRARY_PATH").args(["8192", config, &file]).env("TERRACE_AMGX_STRICT", "1");
    let printed = crate::text(crate::succeed(command));
    assert!(printed.contains("REFUSED 12") && printed.contains("TERRACE_AMGX_STRICT"), "{printed}");
}
