//! Set-up on a GPU: the hierarchy is that of the host, level by level, to the bit; it is renewed as on the host; what cannot be computed there is
//! told. On `cuda:0`, where TERRACE_TEST_CUDA is set, with larger problems.

use crate::common::devices::{devices, rotating_devices};
use crate::common::real_matrices;
use crate::common::skip::is_deep;
use std::path::Path;
use std::sync::Arc;
use terrace::io::matrix_market::{self, Contents};
use terrace::matrix::Values;
use terrace::preconditioner::LevelMatrices;
use terrace::sparse::{Block, Csr};
use terrace::{Amg, Config, Context, Guess, Matrix, ProductMethod, Result, Solver, Status, gallery};

/// Keys and values.
pub type Options = &'static [(&'static str, &'static str)];

/// Problems for simulated GPUs, and for `cuda:0`.
const PROBLEMS: &[(&str, &[&str])] = &[
    ("poisson5:20", &["poisson5:300", "poisson5:37x211"]),
    ("poisson9:14", &["poisson9:300"]),
    ("poisson7:9", &["poisson7:40", "poisson7:31x17x90", "poisson7:100"]),
    ("poisson27:8", &["poisson27:32", "poisson27:64"]),
    ("anisotropic:16", &["anisotropic:200"]),
    ("rotated_anisotropic:14", &["rotated_anisotropic:200"]),
    ("jumps:8", &["jumps:40"]),
    ("convection_diffusion:16", &["convection_diffusion:200"]),
    ("beam:1:order=2", &["beam:2"]),
    ("lshape:2:order=2", &["lshape:3"]),
    ("elasticity:4", &["elasticity:16", "elasticity:24"]),
    ("elasticity_tet:4", &["elasticity_tet:16"]),
    ("lognormal:7", &["lognormal:40"]),
    ("random_m_matrix:400", &["random_m_matrix:100000"]),
    ("hubs:600:hubs=3,every=2", &["hubs:20000", "hubs:100000:hubs=10,every=100"]),
];

/// Components that are computed on the device.
pub const COMPONENTS: &[Options] = &[
    &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")],
    &[("amg.coarsening.type", "mis2"), ("amg.smoother.type", "chebyshev")],
    &[("amg.coarsening.type", "mis2"), ("amg.interpolation.type", "energy"), ("amg.smoother.type", "chebyshev")],
    &[("amg.coarsening.type", "pairwise"), ("amg.smoother.type", "jacobi"), ("amg.interpolation.kept_norm", "0.95")],
    &[
        ("amg.coarsening.type", "mis2"),
        ("amg.interpolation.type", "tentative"),
        ("amg.strength.type", "absolute"),
        ("amg.smoother.type", "gauss_seidel"),
    ],
    &[
        ("amg.coarsening.type", "pmis"),
        ("amg.coarsening.aggressive_levels", "1"),
        ("amg.interpolation.type", "mm_ext_i"),
        ("amg.smoother.type", "l1_jacobi"),
    ],
    &[
        ("amg.coarsening.type", "pmis"),
        ("amg.interpolation.type", "direct"),
        ("amg.strength.max_row_sum", "0.9"),
        ("amg.smoother.type", "l1_jacobi"),
    ],
    &[
        ("amg.coarsening.type", "pmis"),
        ("amg.interpolation.type", "classical_modified"),
        ("precision.setup", "f32"),
        ("amg.smoother.type", "l1_jacobi"),
    ],
    &[("amg.coarsening.type", "pmis"), ("amg.interpolation.type", "least_squares"), ("amg.smoother.type", "chebyshev")],
];

pub fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    // Small problems shall have several levels.
    config.set_int("amg.coarsest.max_rows", 10).unwrap();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

pub fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

/// The order of the entries of a row: by this key of row and column.
pub type Order = fn(usize, usize) -> (usize, usize);
pub const ASCENDING: Order = |_, j| (j, 0);
/// As hypre has it.
const DIAGONAL_FIRST: Order = |i, j| (usize::from(i != j), j);
const TURNED_PAIRS: Order = |_, j| (j / 2, 1 - j % 2);

/// The problem as a matrix of scalars with the same near-null space, without the zeros in blocks.
pub fn in_scalars(name: &str, order: Order) -> Arc<Matrix> {
    let mut problem = gallery::parse(name).unwrap();
    let whole = problem.matrix.view().to_scalar().unwrap();
    let view = whole.view();
    let mut a = Csr { offsets: vec![0], columns: Vec::new(), values: Vec::new(), ..whole };
    for i in 0..a.rows {
        let mut row: Vec<_> = view.row(i).filter(|(j, v)| *j == i || v[0] != 0.0).collect();
        row.sort_by_key(|(j, _)| order(i, *j));
        a.columns.extend(row.iter().map(|(j, _)| *j as i32));
        a.values.extend(row.iter().map(|(_, v)| v[0]));
        a.offsets.push(a.columns.len() as i64);
    }
    problem.matrix = a;
    Arc::new(problem.into_matrix().unwrap())
}

fn levels(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> Result<Vec<LevelMatrices>> {
    let mut options = options.to_vec();
    if !device.starts_with("host") {
        options.push(("amg.setup", "device"));
    }
    Amg::level_matrices(&Context::new(device).unwrap(), matrix, &config(&options))
}

/// Bits of a number, the same for all that are not numbers.
fn bits(v: &f64) -> u64 {
    if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() }
}

/// Compares two hierarchies: patterns and values.
fn same(host: &[LevelMatrices], on_device: &[LevelMatrices], what: &str) {
    assert_eq!(host.len(), on_device.len(), "{what}: levels");
    for (i, (host, on_device)) in host.iter().zip(on_device).enumerate() {
        let transfers = |level: &LevelMatrices| level.transfer.clone();
        let mut pairs = vec![("matrix", host.a.clone(), on_device.a.clone())];
        if let (Some((p, r)), Some((p2, r2))) = (transfers(host), transfers(on_device)) {
            pairs.extend([("prolongator", p, p2), ("restriction", r, r2)]);
        }
        for (part, host, on_device) in pairs {
            let (host, on_device) = (host.view(), on_device.view());
            assert_eq!((host.rows, host.cols), (on_device.rows, on_device.cols), "{what}: {part} of level {i}");
            for row in 0..host.rows {
                let entries = |a: &terrace::sparse::CsrView<'_, f64>| {
                    a.row(row).map(|(j, v)| (j, v.to_vec())).collect::<Vec<_>>()
                };
                let (on_host, on_device) = (entries(&host), entries(&on_device));
                let alike = |(i, v): &(usize, Vec<f64>), (j, w): &(usize, Vec<f64>)| {
                    i == j && v.iter().map(bits).eq(w.iter().map(bits))
                };
                assert!(
                    on_host.len() == on_device.len() && on_host.iter().zip(&on_device).all(|(a, b)| alike(a, b)),
                    "{what}: row {row} of the {part} of level {i} is {on_device:?} and not {on_host:?}"
                );
            }
        }
    }
}

#[test]
fn the_hierarchy_of_a_device_is_that_of_the_host() {
    let deep = is_deep();
    for device in devices() {
        for (k, (small, large)) in PROBLEMS.iter().enumerate() {
            let names = if device == "cuda:0" { large } else { std::slice::from_ref(small) };
            for name in names {
                let matrix = problem(name);
                for (c, options) in COMPONENTS.iter().enumerate() {
                    // Each component for every third problem; `make deep-test` takes all.
                    if !deep && device != "cuda:0" && !(k + c).is_multiple_of(3) {
                        continue;
                    }
                    let what = format!("{name} with {options:?} on {device}");
                    let host = levels("host:2", &matrix, options).unwrap();
                    same(&host, &levels(device, &matrix, options).unwrap(), &what);
                }
            }
        }
    }
}

#[test]
fn scalar_rows_are_put_together_to_nodes_as_on_the_host() {
    const AS_F32: Options = &[("amg.interpolation.type", "tentative"), ("precision.setup", "f32")];
    let components = [&[][..], COMPONENTS[1], COMPONENTS[2], COMPONENTS[3], AS_F32];
    for device in devices() {
        let names = if device == "cuda:0" {
            ["elasticity:20", "elasticity_tet:20"]
        } else {
            ["elasticity:3", "elasticity_tet:4"]
        };
        let cases = names.iter().flat_map(|name| [(name, ASCENDING), (name, DIAGONAL_FIRST)]);
        for (n, (name, order)) in cases.enumerate() {
            let matrix = in_scalars(name, order);
            for (c, options) in components.into_iter().enumerate() {
                // Each component on one of the simulated devices in turn.
                if !is_deep() && !rotating_devices(c + n).contains(&device) {
                    continue;
                }
                let what = format!("{name} in scalars with {options:?} on {device}");
                let host = levels("host:2", &matrix, options).unwrap();
                assert!(host.len() > 1 && host[0].a.view().block == Block::square(3), "{what}");
                same(&host, &levels(device, &matrix, options).unwrap(), &what);
            }
        }
    }
}

#[test]
fn scalar_rows_in_nodes_are_solved_and_updated_on_the_device() {
    // In formats of 16 bits the finest level is scaled, and has the blocks.
    let cases =
        [(ASCENDING, "chebyshev", "f64"), (DIAGONAL_FIRST, "l1_jacobi", "f64"), (ASCENDING, "chebyshev", "f16")];
    for (case, (order, smoother, storage)) in cases.into_iter().enumerate() {
        for device in rotating_devices(case) {
            let context = Context::new(device).unwrap();
            let options = [("amg.setup", "device"), ("amg.smoother.type", smoother), ("precision.matrix", storage)];
            let on_device = Arc::new(in_scalars("elasticity:4", order).to_device(&context).unwrap());
            let mut solver = Solver::new(&context, &config(&options));
            solver.setup(Some(&on_device)).unwrap();
            let place = solver.report().setup_place;
            assert!(place.starts_with("device, which the host waited for "), "{place}");
            assert_eq!(solver.report().levels[0].rows, on_device.rows());
            solver.update().unwrap();
            let place = solver.report().setup_place;
            assert!(place.starts_with("device, which the host waited for "), "{place}");

            let (first, second, x) = solve_and_update("host:2", &in_scalars("elasticity:4", order), &options[1..]);
            let matrix = in_scalars("elasticity:4", order);
            let (device_first, device_second, device_x) = solve_and_update(device, &matrix, &options);
            assert!(first.abs_diff(device_first) <= 1, "{device_first} iterations, {first} on the host");
            assert!(second.abs_diff(device_second) <= 1, "{device_second} after update, {second} on the host");
            let largest = x.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            assert!(x.iter().zip(&device_x).all(|(x, y)| (x - y).abs() <= 1e-6 * largest), "{options:?} on {device}");
        }
    }
}

#[test]
fn a_cycle_on_nodes_is_the_same_after_updates_with_the_same_values() {
    const POINT: Options = &[("amg.smoother.type", "l1_jacobi"), ("amg.smoother.diagonal", "point")];
    const TWO_LEVELS: Options = &[
        POINT[0],
        POINT[1],
        ("amg.interpolation.type", "tentative"),
        ("amg.max_levels", "2"),
        ("amg.coarsest.solver", "sweeps"),
    ];
    const ONE_LEVEL: Options = &[("amg.max_levels", "1"), ("amg.coarsest.solver", "sweeps")];
    // The last one has rows enough for slices, in which an update finds the norms of rows; set-up adds them in the order of the blocks.
    let problems = [
        ("elasticity:2", ONE_LEVEL, "csr16"),
        ("elasticity:3", POINT, "csr16"),
        ("rotated_anisotropic:92", TWO_LEVELS, "sell16"),
    ];
    for (case, (name, options, format)) in problems.into_iter().enumerate() {
        for device in rotating_devices(case) {
            let context = Context::new(device).unwrap();
            let matrix = in_scalars(name, TURNED_PAIRS);
            let rows = matrix.rows();
            if format != "csr16" {
                let constants = (0..2 * rows).map(|k| ((k / rows + k) % 2) as f64).collect();
                matrix.set_near_null_space(2, 2, constants).unwrap();
            }
            // No two alike, so that sums show their order.
            let Values::F64(values) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
            let values = values.as_slice().iter().enumerate().map(|(k, v)| v * (1.0 + 0.01 * (k as f64).sin()));
            matrix.update_values(Values::from(values.collect::<Vec<_>>())).unwrap();
            let mut config = config(options);
            config.set_str("amg.setup", "device").unwrap();
            let mut amg = Amg::setup(&context, &matrix, &config).unwrap();
            let b: Vec<f64> = (0..rows).map(|i| (i as f64).sin()).collect();
            let apply = |amg: &mut Amg| {
                let mut x = vec![f64::NAN; rows];
                amg.apply(&b, &mut x).unwrap();
                x.iter().map(bits).collect::<Vec<_>>()
            };
            let first = apply(&mut amg);
            assert_eq!(amg.report().levels[0].format, format);
            for round in 0..3 {
                amg.update().unwrap();
                assert!(apply(&mut amg) == first, "{name} on {device}, round {round}");
            }
        }
    }
}

/// How real matrices are set up: by default, and as the presets of elasticity and of difficult problems are where a device computes them.
const REAL: &[Options] = &[
    &[],
    &[("amg.coarsening.type", "mis2"), ("amg.interpolation.type", "smoothed"), ("amg.smoother.type", "chebyshev")],
    &[
        ("amg.coarsening.type", "pmis"),
        ("amg.coarsening.aggressive_levels", "1"),
        ("amg.interpolation.type", "mm_ext_i"),
        ("amg.smoother.type", "l1_jacobi"),
    ],
];

/// Those that are in blocks, their size, and the file of near-null-space vectors.
const IN_BLOCKS: &[(&str, usize, Option<&str>)] = &[
    ("pyamg_bar", 3, Some("pyamg_bar_B")),
    ("hypre_beam_hex_dof459_np2", 3, None),
    ("fasp_SPE01_bs3", 3, None),
    ("steam2", 4, None),
];

/// Rows of real matrices that simulated GPUs see: more take minutes.
const SMALL: usize = 500;

/// A square matrix of a folder in the forms in which it is set up; none where the file holds something else, numbers that are not real, or a
/// matrix that nothing takes because of its diagonal.
fn real(folder: &Path, name: &str) -> Vec<(String, Arc<Matrix>)> {
    let open = |name: &str| {
        let path = folder.join(format!("{name}.mtx.gz"));
        matrix_market::read(std::fs::File::open(path).unwrap(), name)
    };
    let a = match open(name) {
        Ok(Contents::Sparse(a)) if a.rows == a.cols => a,
        Ok(_) => return Vec::new(),
        Err(error) => {
            assert!(error.message.contains("complex"), "{name}: {error}");
            return Vec::new();
        }
    };
    let mut all = Vec::new();
    for (_, size, vectors) in IN_BLOCKS.iter().filter(|(listed, ..)| *listed == name) {
        let matrix = Matrix::from_csr(a.view().to_blocks(*size).unwrap()).unwrap();
        if let Some(Contents::Dense(space)) = vectors.map(|vectors| open(vectors).unwrap()) {
            matrix.set_near_null_space(*size, space.cols, space.values).unwrap();
        }
        all.push((format!("{name} in blocks of {size}"), Arc::new(matrix)));
    }
    match Matrix::from_csr(a) {
        Ok(matrix) => all.push((name.to_string(), Arc::new(matrix))),
        Err(error) => assert_eq!(error.status, Status::MatrixValues, "{name}: {error}"),
    }
    all
}

#[test]
fn hierarchies_of_real_matrices_are_those_of_the_host() {
    let Some(folder) = real_matrices("hierarchies of real matrices on GPUs") else { return };
    let devices: Vec<_> = devices().into_iter().collect();
    let all = std::fs::read_dir(&folder).unwrap().flatten();
    let mut names: Vec<String> =
        all.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".mtx.gz")?.to_string())).collect();
    names.sort();
    let (mut compared, mut levels_compared) = (0, 0);
    for (name, matrix) in names.iter().flat_map(|name| real(&folder, name)) {
        for device in devices.iter().filter(|device| **device == "cuda:0" || matrix.rows() <= SMALL) {
            for options in REAL {
                let what = format!("{name} with {options:?} on {device}");
                match (levels("host:2", &matrix, options), levels(device, &matrix, options)) {
                    (Ok(host), Ok(on_device)) => {
                        same(&host, &on_device, &what);
                        levels_compared += host.len();
                    }
                    (Err(host), Err(on_device)) => assert_eq!(host.message, on_device.message, "{what}"),
                    (host, on_device) => {
                        panic!("{what}: {:?} and {:?}", host.map(|_| "set up").err(), on_device.map(|_| "set up").err())
                    }
                }
                compared += 1;
            }
        }
    }
    println!("{compared} hierarchies of {levels_compared} levels on {devices:?}");
    assert!(devices.is_empty() || compared >= 40 && levels_compared > 2 * compared);
}

/// Solves twice, with other values the second time, and tells the iterations of both and the second solution.
fn solve_and_update(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> (usize, usize, Vec<f64>) {
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    let b = vec![1.0; matrix.rows()];
    let solve = |solver: &mut Solver| {
        let mut x = vec![f64::NAN; b.len()];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        (solver.report().solves[0].iterations, x)
    };
    let (first, _) = solve(&mut solver);
    let Values::F64(values) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
    // D A D with a smooth D: every value differs, and the matrix stays definite.
    let structure = matrix.structure().unwrap();
    let a = structure.view(values.as_slice());
    let d = |i: usize| 1.0 + 0.2 * (i as f64 / 90.0).sin();
    let mut changed = Vec::new();
    for i in 0..a.rows {
        let width = a.block.rows;
        for (j, block) in a.row(i) {
            changed
                .extend(block.iter().enumerate().map(|(k, v)| v * d(i * width + k / width) * d(j * width + k % width)));
        }
    }
    matrix.update_values(Values::from(changed)).unwrap();
    // A second one goes the way of what the first has kept.
    solver.update().unwrap();
    solver.update().unwrap();
    let (second, x) = solve(&mut solver);
    (first, second, x)
}

#[test]
fn an_update_renews_the_hierarchy_as_on_the_host() {
    for device in devices() {
        for (k, components) in COMPONENTS.iter().enumerate() {
            let names = if k < 3 { &["poisson7:7", "jumps:6", "elasticity:3"][..] } else { &["poisson7:7"] };
            for (name, keep) in names.iter().map(|name| (name, "renew")).chain([(&"poisson7:7", "keep")]) {
                let mut options = components.to_vec();
                options.push(("amg.update.interpolation", keep));
                let (first, second, x) = solve_and_update("host:2", &problem(name), &options);
                options.push(("amg.setup", "device"));
                let (device_first, device_second, device_x) = solve_and_update(device, &problem(name), &options);
                let what = format!("{name} with {options:?} on {device}");
                assert!(first.abs_diff(device_first) <= 1, "{what}: {device_first} iterations, {first} on the host");
                assert!(
                    second.abs_diff(device_second) <= 1,
                    "{what}: {device_second} after update, {second} on the host"
                );
                let largest = x.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                assert!(x.iter().zip(&device_x).all(|(x, y)| (x - y).abs() <= 1e-6 * largest), "{what}");
            }
        }
    }
}

#[test]
fn a_matrix_in_device_memory_is_set_up_without_the_host() {
    for device in devices() {
        let context = Context::new(device).unwrap();
        let on_device = Arc::new(problem("poisson7:9").to_device(&context).unwrap());
        for (precision, vector) in [("f64", "f64"), ("f16", "f32"), ("auto", "auto")] {
            let mut config = config(&[("amg.setup", "device"), ("precision.matrix", precision)]);
            config.set_str("precision.vector", vector).unwrap();
            let mut solver = Solver::new(&context, &config);
            solver.setup(Some(&on_device)).unwrap();
            let mut x = vec![f64::NAN; on_device.rows()];
            assert_eq!(solver.solve(&vec![1.0; on_device.rows()], &mut x, Guess::Zero).unwrap(), Status::Success);
            let report = solver.report();
            assert!(report.setup_place.starts_with("device, which the host waited for "), "{}", report.setup_place);
            assert!(report.levels.len() > 1);
        }
    }
}

#[test]
fn the_host_waits_less_than_twelve_times_a_level() {
    for device in rotating_devices(0) {
        let context = Context::new(device).unwrap();
        let matrix = problem(if device == "cuda:0" { "poisson7:64" } else { "poisson7:12" });
        let on_device = Arc::new(matrix.to_device(&context).unwrap());
        for options in COMPONENTS {
            let options = [options, &[("amg.setup", "device")][..]].concat();
            let report = Amg::setup(&context, &on_device, &config(&options)).unwrap().report();
            let place = report.setup_place.strip_prefix("device, which the host waited for ").unwrap();
            let waits: usize = place.strip_suffix(" times").unwrap().parse().unwrap();
            let levels = report.levels.len();
            // A filtered prolongator takes one more, for the size of what stays.
            let has = |key: &str, value: &str| options.iter().any(|(k, v)| *k == key && v.contains(value));
            let more = usize::from(has("amg.interpolation.kept_norm", ""));
            // Each distance is a product of its own.
            let most = 12 + more + 24 * usize::from(has("amg.interpolation.type", "least_squares"));
            assert!(waits < most * levels, "{options:?}: {waits} waits for {levels} levels on {device}");
        }
    }
}

#[test]
fn what_only_the_host_computes_is_told_or_refused() {
    let matrix = problem("poisson7:6");
    for device in devices() {
        let context = Context::new(device).unwrap();
        let hmis = [("amg.coarsening.type", "hmis"), ("amg.setup", "device")];
        let error = Amg::setup(&context, &matrix, &config(&hmis)).err().unwrap();
        assert!(error.status == Status::Unsupported && error.message.contains("\"hmis\""), "{error}");
        let place = Amg::setup(&context, &matrix, &config(&hmis[..1])).unwrap().report().setup_place;
        assert!(place.starts_with("host: ") && place.contains("\"hmis\""), "{place}");
    }
    let error = Amg::setup(&Context::new("host:1").unwrap(), &matrix, &config(&[("amg.setup", "device")])).err();
    assert_eq!(error.unwrap().status, Status::Unsupported);
}

/// Products of a million rows and more on a real GPU, and smaller ones on simulated ones.
#[test]
fn products_of_large_matrices_are_those_of_the_host() {
    let host = Context::new("host").unwrap();
    let random = |rows: usize, cols: usize, each: usize| {
        let column = |i: usize, k: usize| (i * 7919 + k * (cols / each + 1) + i * i % 31) % cols;
        let entries = (0..rows * each).map(|e| (e / each, column(e / each, e % each), 1.0 + (e % 17) as f64 / 8.0));
        let unlike: std::collections::BTreeMap<_, _> = entries.map(|(i, j, v)| ((i, j), v)).collect();
        let triplets: Vec<_> = unlike.into_iter().map(|((i, j), v)| (i, j, v)).collect();
        Matrix::from_csr(terrace::sparse::Csr::from_triplets(rows, cols, &triplets).unwrap()).unwrap()
    };
    for device in devices() {
        let context = Context::new(device).unwrap();
        let (side, n, nodes) = if device == "cuda:0" { (100, 1_000_000, 24) } else { (7, 600, 3) };
        let cube = gallery::parse(&format!("poisson7:{side}")).unwrap().into_matrix().unwrap();
        let body = gallery::parse(&format!("elasticity:{nodes}")).unwrap().into_matrix().unwrap();
        let (wide, tall) = (random(n, n / 3, 4), random(n / 3, n, 6));
        for (name, a, b) in
            [("cube", &cube, &cube), ("wide", &wide, &tall), ("tall", &tall, &wide), ("body", &body, &body)]
        {
            let wanted = a.multiply(&host, b).unwrap();
            let wanted = wanted.shared::<f64>().unwrap();
            for method in [ProductMethod::Auto, ProductMethod::Hash] {
                let got = a.multiply_by(&context, b, method).unwrap();
                let got = got.shared::<f64>().unwrap();
                let (on_host, on_device) = (wanted.view(), got.view());
                assert_eq!((on_host.rows, on_host.cols), (on_device.rows, on_device.cols), "{name} on {device}");
                for i in 0..on_host.rows {
                    let mut pairs = on_host.row(i).zip(on_device.row(i));
                    // Matrix cores round once where others round twice.
                    let alike = pairs.all(|((j, v), (k, w))| {
                        j == k && v.iter().zip(w).all(|(v, w)| (v - w).abs() <= 1e-12 * v.abs().max(1.0))
                    });
                    assert!(alike && on_host.row_range(i) == on_device.row_range(i), "{name}, row {i} on {device}");
                }
            }
        }
    }
}
