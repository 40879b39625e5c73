//! Measures and choices of formats against the host's.

use crate::backend::setup::{self as host_setup, Measured};
use crate::config::Config;
use crate::context::Context;
use crate::gallery;
use crate::gpu::Gpu;
use crate::gpu::setup::DeviceCsr;
use crate::gpu::setup::rounding_loss;
use crate::gpu::setup::scaling::Factors;
use crate::hash::hash;
use crate::host::{Host, HostMatrix, rounding_loss as host_loss};
use crate::matrix::{Matrix, Values};
use crate::preconditioner::Amg;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr};
use std::collections::BTreeSet;
use std::sync::Arc;

fn contexts() -> Vec<Context> {
    // A build for the machine with the GPU has no simulated ones.
    let name = if std::env::var_os("TERRACE_TEST_CUDA").is_some() { "cuda:0" } else { "sim" };
    vec![Context::new(name).unwrap()]
}

/// Rows of up to `longest` blocks, some of them without a diagonal or empty, with values over some orders of magnitude.
fn scattered(rows: usize, cols: usize, block: Block, longest: usize, seed: u64) -> Csr<f64> {
    let (mut offsets, mut columns) = (vec![0], Vec::new());
    for i in 0..rows {
        let length = if i == rows / 2 { longest } else { hash(i, seed) as usize % 7 };
        let mut own: Vec<i32> = (0..length).map(|k| (hash(i * 4096 + k, seed) % cols as u64) as i32).collect();
        if i < cols && i % 50 != 49 {
            own.push(i as i32);
        }
        own.sort_unstable();
        own.dedup();
        columns.extend(own);
        offsets.push(columns.len() as i64);
    }
    let mut a = Csr::with_pattern(rows, cols, block, offsets, columns).unwrap();
    for (k, v) in a.values.iter_mut().enumerate() {
        let draw = hash(k, seed + 1);
        *v = ((draw % 2001) as f64 - 1000.0) / 7.0 * 10_f64.powi((draw >> 32) as i32 % 5 - 2);
    }
    a
}

fn numbers(n: usize, seed: u64) -> Vec<f64> {
    (0..n).map(|i| (hash(i, seed) % 2001) as f64 / 1000.0 - 1.0).collect()
}

fn powers(n: usize, seed: u64, spread: u64) -> Vec<f64> {
    (0..n).map(|i| ((hash(i, seed) % (2 * spread + 1)) as f64 - spread as f64).exp2()).collect()
}

fn near(on_device: f64, on_host: f64, what: &str) {
    let alike = on_device == on_host
        || (on_device - on_host).abs() <= 1e-11 * on_host.abs()
        || on_device.is_nan() && on_host.is_nan();
    assert!(alike, "{what}: {on_device:e} and not {on_host:e}");
}

/// All measures of two levels on the device against those of the host.
fn compare<T: Scalar>(gpu: &Gpu, [a, p, below]: [Csr<T>; 3], spread: u64, what: &str) {
    let device = [&a, &p, &below].map(|a| DeviceCsr::upload(gpu, &a.view()).unwrap());
    let (n, m) = (a.view().scalar_rows(), below.view().scalar_rows());
    let smooth = numbers(m, 4);
    let host = [a, p, below].map(|a| HostMatrix::from(a.into_shared()));
    let (s, s_below) = (powers(n, 1, spread), powers(m, 2, spread));
    let (f, f_below) = (Factors::of(gpu.upload(&s).unwrap()), Factors::of(gpu.upload(&s_below).unwrap()));
    for is_scaled in [true, false] {
        let level = |i: usize, p: Option<usize>, f| rounding_loss::Level {
            matrix: &device[i],
            prolongator: p.map(|p| &device[p]),
            factors: Some(f).filter(|_| is_scaled),
        };
        let levels = [level(0, Some(1), &f), level(2, None, &f_below)];
        let found = rounding_loss::measure(gpu, &levels, gpu.upload(&smooth).unwrap()).unwrap();
        let level = |i: usize, p: Option<usize>, s| host_setup::Candidate::<Host, T> {
            matrix: &host[i],
            prolongator: p.map(|p| &host[p]),
            factors: Some(s).filter(|_| is_scaled),
        };
        let levels = [level(0, Some(1), &s), level(2, None, &s_below)];
        let expected = host_loss::measure(&levels, smooth.clone()).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.rows, expected.rows, "{what}");
            near(found.weight, expected.weight, what);
            let unlike = (found.energy - expected.energy).abs();
            assert!(unlike <= 1e-10 * (expected.weight + expected.energy.abs()), "{what}: {unlike:e}");
            let all = |of: &Measured| [of.matrix.f16, of.matrix.bf16, of.prolongator.f16, of.prolongator.bf16];
            for (k, (found, expected)) in all(found).iter().zip(all(expected)).enumerate() {
                near(found.error, expected.error, &format!("{what}: error {k}"));
                near(found.vanished, expected.vanished, &format!("{what}: what vanishes, {k}"));
            }
        }
    }
}

#[test]
fn measures_are_those_of_the_host() {
    let block = |rows, cols| Block { rows, cols };
    let levels = |n: usize, longest: usize, seed: u64| {
        let m = n / 3 + 1;
        [
            scattered(n, n, Block::SCALAR, longest.min(n), seed),
            scattered(n, m, Block::SCALAR, 3, 9),
            scattered(m, m, Block::SCALAR, 5.min(m), 12),
        ]
    };
    for context in contexts() {
        let gpu = context.gpu().unwrap();
        for (k, n) in [1, 31, 32, 33, 255, 257, 1500].into_iter().enumerate() {
            for (spread, longest) in [(2, 40), (30, 300)] {
                compare(gpu, levels(n, longest, k as u64), spread, &format!("{n} rows"));
            }
        }
        // Eight lanes for a row, and a warp.
        for length in [11, 60, 120] {
            let entries =
                (0..150 * length).map(|e| (e / length, (e / length + e % length) % 150, numbers(1, e as u64)[0]));
            let dense = Csr::from_triplets(150, 150, &entries.collect::<Vec<_>>()).unwrap();
            let [_, p, below] = levels(150, 1, 2);
            compare(gpu, [dense, p, below], 3, &format!("{length} in a row"));
        }
        let large = scattered(25, 25, block(6, 6), 20, 6);
        let blocks = [scattered(70, 70, block(3, 3), 20, 6), scattered(70, 25, block(3, 6), 3, 7), large];
        compare(gpu, blocks, 4, "blocks");
        let narrow = levels(90, 20, 8).map(|a| a.view().to_owned_as::<f32>().unwrap());
        compare(gpu, narrow, 4, "f32");
    }
    // A sample of the rows, and more of them than one wave of blocks has.
    if let Some(context) = contexts().first() {
        compare(context.gpu().unwrap(), levels(140_000, 3, 10), 2, "many rows");
    }
}

#[test]
fn inverse_iterations_start_from_the_right_hand_side_of_the_host() {
    let a = scattered(600, 600, Block::SCALAR, 9, 3);
    for context in contexts() {
        let gpu = context.gpu().unwrap();
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let (d, b) = rounding_loss::start(gpu, &on_device).unwrap();
        let (d, b) = (gpu.fetch(&d).unwrap(), gpu.fetch(&b).unwrap());
        let expected: Vec<f64> = crate::host::diagonal::entries(&a.view()).unwrap().into_iter().map(f64::abs).collect();
        assert_eq!(d, expected);
        for (i, b) in b.iter().enumerate() {
            assert_eq!(*b, (hash(i, 4) as i64 as f64 / i64::MAX as f64) * d[i].sqrt());
        }
    }
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    config.set_int("amg.coarsest.max_rows", 30).unwrap();
    for (key, value) in [("precision", "auto")].iter().chain(options) {
        config.set_str(key, value).unwrap();
    }
    config
}

/// Formats of all levels and why.
fn choices(amg: &Amg) -> Vec<String> {
    amg.plan().levels.iter().map(|level| format!("{level:?}")).collect()
}

/// A problem whose rows and columns are in units that lie far apart.
fn in_units(name: &str, decades: i32) -> Matrix {
    let matrix = gallery::parse(name).unwrap().into_matrix().unwrap();
    let shared = matrix.shared::<f64>().unwrap();
    let a = shared.view();
    let unit = |i: usize| 10_f64.powi((hash(i, 11) % (2 * decades as u64 + 1)) as i32 - decades);
    let triplets = (0..a.rows).flat_map(|i| a.row(i).map(move |(j, v)| (i, j, v[0] * unit(i) * unit(j))));
    Matrix::from_csr(Csr::from_triplets(a.rows, a.cols, &triplets.collect::<Vec<_>>()).unwrap()).unwrap()
}

/// D A D for a D that goes up and down by so many decades.
fn in_waves(matrix: &Matrix, values: &[f64], decades: f64) -> Vec<f64> {
    let structure = matrix.structure().unwrap();
    let a = structure.view(values);
    let (br, bc) = (a.block.rows, a.block.cols);
    let d = |i: usize| 10_f64.powf(decades * (i as f64 / 9.0).sin());
    let row = |i: usize| {
        a.row(i).flat_map(move |(j, block)| {
            block.iter().enumerate().map(move |(e, v)| v * d(i * br + e / bc) * d(j * bc + e % bc))
        })
    };
    (0..a.rows).flat_map(row).collect()
}

/// A matrix with its name, and options.
type Case = (&'static str, Matrix, Vec<(&'static str, &'static str)>);

fn named(name: &str) -> Matrix {
    gallery::parse(name).unwrap().into_matrix().unwrap()
}

/// Compares set-up and updates of each on a device with those of the host; gives the names of all formats that were
/// chosen.
fn compare_choices(cases: Vec<Case>) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for (n, (name, matrix, options)) in cases.into_iter().enumerate() {
        let matrix = Arc::new(matrix);
        let mut host = Amg::setup(&Context::new("host:2").unwrap(), &matrix, &config(&options)).unwrap();
        let all = contexts();
        // Simulated devices take turns.
        let chosen = all.iter().enumerate().filter(|(k, _)| *k > 1 || *k == n % 2).map(|(_, context)| context);
        for context in chosen {
            let what = format!("{name} on {:?}", context.device());
            let mut device_options = options.clone();
            device_options.push(("amg.setup", "device"));
            let device_matrix = Arc::new(matrix.to_device(context).unwrap());
            let mut on_device = Amg::setup(context, &device_matrix, &config(&device_options)).unwrap();
            assert!(on_device.report().setup_place.starts_with("device, "), "{}", on_device.report().setup_place);
            assert!(!device_matrix.has_host_copy(), "{what} was copied to the host");
            assert_eq!(choices(&on_device), choices(&host), "{what}");
            for level in host.report().levels {
                let parts = [level.matrix_precision, level.vector_precision, level.transfer_precision];
                seen.extend(parts.map(|precision| precision.name()));
            }
            let Values::F64(first) = matrix.values().unwrap() else { continue };
            let first = first.as_slice().to_vec();
            // Again and again other values: a second update goes the way of what the first has kept.
            for decades in [0.1, 4.0, 0.0] {
                let changed = in_waves(&matrix, &first, decades);
                matrix.update_values(Values::from(changed.clone())).unwrap();
                device_matrix.update_values(Values::from(changed)).unwrap();
                host.update().unwrap();
                on_device.update().unwrap();
                assert!(on_device.report().setup_place.starts_with("device, ") && !device_matrix.has_host_copy());
                assert_eq!(choices(&on_device), choices(&host), "{what}, {decades} decades");
                let formats = |amg: &Amg| {
                    let levels = amg.report().levels;
                    levels.iter().map(|l| (l.matrix_precision, l.vector_precision)).collect::<Vec<_>>()
                };
                assert_eq!(formats(&on_device), formats(&host), "{what}, {decades} decades");
            }
        }
    }
    seen
}

#[test]
fn formats_of_the_gallery_are_those_of_the_host_in_set_up_and_in_updates() {
    let pairs = vec![("amg.coarsening.type", "pairwise"), ("amg.interpolation.type", "tentative")];
    let cases: [(&'static str, Vec<(&'static str, &'static str)>); 12] = [
        // Rows are so long that the default is another one on GPUs.
        ("poisson27:6", vec![("amg.coarsening.type", "pmis")]),
        ("poisson7:8", vec![("amg.cycle.type", "k")]),
        ("anisotropic:24", vec![]),
        ("rotated_anisotropic:20", vec![("amg.cycle.type", "w")]),
        ("jumps:8:contrast=1e8", vec![]),
        ("lognormal:8", vec![]),
        ("convection_diffusion:24", vec![]),
        ("elasticity:4", vec![]),
        ("elasticity:3", vec![("amg.coarsening.type", "pmis")]),
        ("elasticity_tet:4", vec![("amg.smoother.type", "gauss_seidel")]),
        ("lshape:2:order=3", pairs),
        ("random_m_matrix:400", vec![("precision.setup", "f32")]),
    ];
    let seen = compare_choices(cases.into_iter().map(|(name, options)| (name, named(name), options)).collect());
    assert!(contexts().is_empty() || ["f16", "f32"].iter().all(|name| seen.contains(name)), "{seen:?}");
}

#[test]
fn formats_of_irregular_matrices_are_those_of_the_host() {
    let narrow = Matrix::from_csr(named("poisson7:8").shared::<f32>().unwrap().view().to_owned_as::<f32>().unwrap());
    let given = vec![("amg.coarsening.type", "mis2"), ("precision.vector", "f64"), ("precision.transfer", "f32")];
    let seen = compare_choices(vec![
        ("in units", in_units("poisson5:28", 4), vec![]),
        ("in units far apart", in_units("poisson5:24", 60), vec![("precision.scaling", "diagonal")]),
        ("unscaled", in_units("poisson5:24", 3), vec![("precision.scaling", "none")]),
        ("formats that are given", named("poisson9:20"), given),
        ("f32", narrow.unwrap(), vec![]),
        ("too small", named("poisson7:4"), vec![]),
    ]);
    // The simulated GPUs see all of them.
    assert!(seen.len() == 4, "{seen:?}");
}
