//! Estimates from samples of small matrices, beside what their set-ups hold on the host and take on a simulated GPU.

use super::super::Amg;
use super::*;
use crate::error::fail;
use crate::gallery;
use crate::hash::hash;
use crate::skip::is_deep;
use crate::sparse::Csr;
use std::cell::RefCell;

/// Both matrices side by side, with nothing between them.
fn beside(a: Csr<f64>, b: Csr<f64>) -> Csr<f64> {
    let Csr { rows, mut offsets, mut columns, mut values, .. } = a;
    let last = offsets[rows];
    offsets.extend(b.offsets[1..].iter().map(|o| o + last));
    columns.extend(b.columns.iter().map(|c| c + rows as i32));
    values.extend(b.values);
    Csr { rows: rows + b.rows, cols: rows + b.rows, offsets, columns, values, ..b }
}

fn identity(n: usize) -> Csr<f64> {
    Csr::from_triplets(n, n, &(0..n).map(|i| (i, i, 1.0)).collect::<Vec<_>>()).unwrap()
}

/// The same unknowns in an order that has nothing to do with them.
fn shuffled(a: &Csr<f64>) -> Csr<f64> {
    let mut order: Vec<usize> = (0..a.rows).collect();
    order.sort_by_key(|i| hash(*i, 7));
    let mut number = vec![0; a.rows];
    order.iter().enumerate().for_each(|(n, i)| number[*i] = n);
    let view = a.view();
    let entries: Vec<_> =
        (0..a.rows).flat_map(|i| view.row(i).map(|(j, v)| (number[i], number[j], v[0])).collect::<Vec<_>>()).collect();
    Csr::from_triplets(a.rows, a.rows, &entries).unwrap()
}

fn matrix(a: Csr<f64>) -> Arc<Matrix> {
    Arc::new(Matrix::from_csr(a).unwrap())
}

fn named(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    // The inverse of a coarsest level does not grow with the matrix, and is most of what small ones take.
    config.set_int("amg.coarsest.max_rows", 10).unwrap();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    config
}

/// From samples of so many rows.
fn estimate(context: &Context, matrix: &Matrix, config: &Config, rows: usize) -> usize {
    let (structure, values) = matrix.copied().unwrap();
    let Values::F64(values) = values else { unreachable!("the gallery is f64") };
    let work = &|context: &Context, sample: &Arc<Matrix>, config: &Config| {
        Ok(Held { report: Amg::setup(context, sample, config)?.report(), fixed: 0, has_matrix: false })
    };
    let method = Some(Method::Amg);
    Estimate { method, context, matrix, config, work, structure, rows }.bytes(values).unwrap()
}

/// Estimate over what the hierarchy holds.
fn host_ratio(matrix: &Arc<Matrix>, config: &Config, rows: usize) -> f64 {
    let context = Context::new("host:2").unwrap();
    let held = Amg::setup(&context, matrix, config).unwrap().report().bytes;
    estimate(&context, matrix, config, rows) as f64 / held as f64
}

/// Estimate over the most that set-up took on a simulated GPU.
fn device_ratio(matrix: &Arc<Matrix>, config: &Config, rows: usize) -> f64 {
    let context = Context::new("sim").unwrap();
    let gpu = context.gpu().unwrap();
    let before = gpu.memory().used;
    let estimate = estimate(&context, matrix, config, rows);
    assert_eq!(gpu.memory().used, before, "an estimate leaves nothing behind");
    gpu.reset_peak();
    let _hierarchy = Amg::setup(&context, matrix, config).unwrap();
    estimate as f64 / (gpu.memory().peak - before) as f64
}

/// The samples that stand for a matrix, of so many rows each.
fn samples_of<const N: usize>(matrix: &Matrix, rows: [usize; N]) -> [Sample; N] {
    let (structure, values) = matrix.copied().unwrap();
    let Values::F64(values) = values else { unreachable!("the gallery is f64") };
    let context = Context::new("host:1").unwrap();
    let source = Source::new(&context, matrix, 1, structure.view(values.as_slice()));
    rows.map(|rows| representative(&source, rows).unwrap())
}

fn sample_of(matrix: &Matrix, rows: usize) -> Sample {
    let [sample] = samples_of(matrix, [rows]);
    sample
}

/// Rows of a matrix that have nothing but a diagonal.
fn diagonal_rows(matrix: &Matrix) -> usize {
    let a = matrix.shared::<f64>().unwrap();
    let view = a.view();
    (0..view.rows).filter(|i| view.row_range(*i).len() == 1).count()
}

/// Matrices whose rows are unlike each other, or lead far away; and the most that an estimate of the peak on a device may be,
/// times what is true. Around hubs that peak is where samples do not have it yet.
fn unlike() -> Vec<(&'static str, Arc<Matrix>, f64)> {
    let p5 = || gallery::poisson5(30, 30).unwrap();
    let p7 = || gallery::poisson7(10, 10, 10).unwrap();
    let p27 = || gallery::poisson27(9, 9, 9).unwrap();
    let hubs = |n: usize, hubs: usize, every: usize| gallery::hubs(n, hubs, every).unwrap();
    vec![
        ("a grid, then identity", matrix(beside(p5(), identity(6000))), 1.15),
        ("identity, then a grid", matrix(beside(identity(1200), p5())), 1.15),
        ("identity in between", matrix(shuffled(&beside(p5(), identity(1200)))), 1.15),
        ("short and long rows", matrix(beside(p5(), p27())), 1.3),
        ("long and short rows", matrix(beside(p27(), p5())), 1.3),
        ("short rows among long ones", matrix(shuffled(&beside(p27(), p5()))), 1.3),
        ("grids of 2 and 3 dimensions", matrix(beside(p7(), p5())), 1.3),
        // A format for all rows that smaller matrices do not have.
        (
            "many of both",
            matrix(beside(gallery::poisson27(16, 16, 16).unwrap(), gallery::poisson5(70, 70).unwrap())),
            1.3,
        ),
        ("one hub", matrix(hubs(1500, 1, 1)), 1.45),
        ("hubs", matrix(hubs(3000, 10, 10)), 1.45),
        ("a hub beside a grid", matrix(beside(gallery::poisson7(14, 14, 14).unwrap(), hubs(1000, 1, 1))), 1.45),
        ("lognormal", named("lognormal:12"), 1.15),
    ]
}

#[test]
fn an_estimate_on_the_host_is_not_below_where_rows_are_unlike() {
    let mut wrong = Vec::new();
    for (name, matrix, most) in unlike() {
        let most = f64::min(most, 1.3);
        // Samples that are a third of the matrix.
        let rows = matrix.rows() / if name.contains("hub") { 3 * IRREGULAR } else { 3 };
        for coarsening in ["pmis", "mis2", "pairwise"] {
            let config = config(&[("amg.coarsening.type", coarsening)]);
            let ratio = host_ratio(&matrix, &config, rows);
            let line = format!("{name}, {coarsening}: {ratio:.3}");
            println!("{line}");
            if !(1.0..most).contains(&ratio) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_estimate_on_a_device_is_not_below_where_rows_are_unlike() {
    let mut wrong = Vec::new();
    for (k, (name, matrix, most)) in unlike().into_iter().enumerate() {
        // Samples are taken on the host, where all orders are tried.
        let others =
            ["identity, then a grid", "identity in between", "long and short rows", "short rows among long ones"];
        if others.contains(&name) && !is_deep() {
            continue;
        }
        let coarsening = if k % 4 == 0 { "pairwise" } else { "pmis" };
        let ratio = device_ratio(&matrix, &config(&[("amg.coarsening.type", coarsening)]), matrix.rows() / 3);
        let line = format!("{name}, {coarsening}: {ratio:.3}");
        println!("{line}");
        if !(1.0..most).contains(&ratio) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_set_up_whole_takes_what_was_estimated() {
    let narrow = [("precision.matrix", "f16"), ("precision.vector", "f32"), ("amg.coarsening.type", "pmis")];
    let auto = [("precision", "auto")];
    let context = Context::new("sim").unwrap();
    for (name, options) in [("poisson7:9", &[][..]), ("elasticity:3", &[]), ("jumps:6", &narrow), ("poisson7:9", &auto)]
    {
        let on_device = Arc::new(named(name).to_device(&context).unwrap());
        for matrix in [named(name), on_device] {
            assert_eq!(ratio_there_on(&context, &matrix, &config(options)), 1.0, "{name}");
        }
    }
}

/// The whole, with the context that the matrix may be on.
fn ratio_there_on(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> f64 {
    let gpu = context.gpu().unwrap();
    let before = gpu.memory().used;
    let estimate = Amg::memory_estimate(context, matrix, config).unwrap();
    assert_eq!(gpu.memory().used, before, "an estimate leaves nothing behind");
    assert!(!matrix.has_host_copy(), "neither on the host");
    gpu.reset_peak();
    let _hierarchy = Amg::setup(context, matrix, config).unwrap();
    estimate as f64 / (gpu.memory().peak - before) as f64
}

/// Pieces of a few hundred rows are almost all boundary; those of the real size are a tenth of that.
#[test]
fn pieces_tell_what_the_whole_takes() {
    let cases = [
        ("poisson5:50", "pmis", 1700),
        ("poisson27:10", "pmis", 700),
        ("jumps:12", "pmis", 860),
        ("elasticity:6", "pmis", 590),
        ("poisson7:16", "pairwise", 2048),
        ("poisson27:10", "pairwise", 700),
    ];
    for (name, coarsening, rows) in cases.into_iter().take(if is_deep() { 6 } else { 5 }) {
        let matrix = named(name);
        let sample = sample_of(&matrix, rows);
        let margin = DEVICE_MARGIN + sample.doubt();
        let ratio = device_ratio(&matrix, &config(&[("amg.coarsening.type", coarsening)]), rows) / margin;
        println!("{name}, {coarsening}: {ratio:.3}, {} pieces", sample.pieces);
        assert!((0.9..1.1).contains(&ratio), "{name}, {coarsening}, from {rows} rows: {ratio:.3} without the margin");
    }
}

/// They depend on the number of rows, and decide what is held.
#[test]
fn a_sample_has_the_formats_of_the_matrix() {
    let (matrix, context) = (named("poisson5:100"), Context::new("sim").unwrap());
    let sample = sample_of(&matrix, matrix.rows() / 8);
    let config = config(&[("amg.max_levels", "2"), ("amg.coarsest.solver", "sweeps"), ("amg.smoother.type", "jacobi")]);
    let format = |context: &Context, matrix: &Arc<Matrix>| {
        Amg::setup(context, matrix, &config).unwrap().report().levels[0].format.clone()
    };
    let whole = format(&context, &matrix);
    assert_ne!(format(&context, &sample.matrix), whole);
    assert_eq!(format(&context.for_sample(8).unwrap(), &sample.matrix), whole);
}

/// The figures that were measured on an H200 come from one piece.
#[test]
fn one_piece_stands_for_problems_of_one_kind() {
    for name in ["poisson5:200", "poisson7:40", "poisson27:30", "jumps:40", "lognormal:28", "elasticity:19"] {
        let matrix = named(name);
        let sample = sample_of(&matrix, matrix.rows() * 2 / 3);
        println!("{name}: {:.3}", sample.unlike);
        assert_eq!(sample.pieces, 1, "{name}: {} unlike", sample.unlike);
        assert_eq!((sample.doubt(), sample.scale()), (0.0, sample.by_entries));
    }
}

#[test]
fn a_sample_has_kinds_of_rows_in_their_shares() {
    let shuffle = shuffled(&beside(gallery::poisson5(50, 50).unwrap(), identity(7500)));
    for a in [beside(gallery::poisson5(50, 50).unwrap(), identity(7500)), shuffle] {
        let sample = sample_of(&matrix(a), 2000);
        assert_eq!(sample.matrix.rows(), 2000);
        assert!(diagonal_rows(&sample.matrix).abs_diff(1500) < 2, "{}", diagonal_rows(&sample.matrix));
    }
    let two = beside(gallery::poisson27(16, 16, 16).unwrap(), gallery::poisson5(64, 64).unwrap());
    let sample = sample_of(&matrix(two), 2048);
    let per_row = sample.matrix.entries() as f64 / 2048.0;
    assert!(sample.pieces > 1 && sample.unlike < 0.1, "{} pieces, {} unlike", sample.pieces, sample.unlike);
    assert!((11.0..14.5).contains(&per_row), "{per_row} entries in a row, 13.1 in the matrix");

    // A hub is in the sample with its share of entries, and does not lead away.
    let sample = sample_of(&matrix(gallery::hubs(9000, 1, 1).unwrap()), 3000);
    assert!(sample.has_long && sample.cut < 0.01 && (sample.by_entries - 3.0).abs() < 0.05);
    assert_eq!(sample.matrix.rows(), 3000);
}

/// As they are asked for where there is no room for the whole.
#[test]
fn smaller_samples_follow_the_whole() {
    let samples = samples_of(&named("poisson7:10"), [1000, 500, 250]);
    assert_eq!(samples.each_ref().map(|s| (s.whole, s.matrix.rows())), [(true, 1000), (false, 500), (false, 250)]);
}

#[test]
fn matrices_of_decoupled_rows_and_of_small_pieces_have_samples() {
    assert_eq!(sample_of(&matrix(identity(5000)), 1000).matrix.rows(), 1000);
    let pairs: Vec<_> = (0..3000).flat_map(|i| [(i, i, 2.0), (i, i ^ 1, -1.0)]).collect();
    let sample = sample_of(&matrix(Csr::from_triplets(3000, 3000, &pairs).unwrap()), 900);
    assert_eq!((sample.matrix.rows(), sample.matrix.entries(), sample.pieces), (900, 1800, 1));
}

/// Vectors of which the sample has nothing are no reason to fail.
#[test]
fn a_vector_that_vanishes_on_the_sample_is_replaced() {
    let n = 3000;
    let matrix = matrix(gallery::poisson5(n / 30, 30).unwrap());
    let mut vectors = vec![1.0; 2 * n];
    vectors[n..2 * n].fill(0.0);
    vectors[n] = 1.0;
    matrix.set_near_null_space(1, 2, vectors).unwrap();
    let config = config(&[("amg.coarsening.type", "mis2")]);
    assert!(estimate(&Context::new("host:1").unwrap(), &matrix, &config, 500) > 0);
}

/// Set-up, too, refuses what is not square, and takes what is empty or refuses it alike.
#[test]
fn a_matrix_that_set_up_refuses_is_refused_alike() {
    let mut devices = vec!["host:1"];
    devices.extend(["sim"]);
    for device in devices {
        let context = Context::new(device).unwrap();
        for (rows, cols) in [(3, 5), (5, 3), (0, 5), (5, 0), (0, 0)] {
            let some: Vec<_> = (0..rows.min(cols)).map(|i| (i, i, 1.0)).collect();
            let a = Csr::from_triplets(rows, cols, &some).unwrap();
            let matrix = Arc::new(Matrix::computed(a).unwrap());
            let what = format!("{rows} x {cols} on {device}");
            let estimate = Amg::memory_estimate(&context, &matrix, &Config::new());
            let set_up = Amg::setup(&context, &matrix, &Config::new());
            if rows != cols {
                assert_eq!(estimate.as_ref().unwrap_err().status, Status::SizeMismatch, "{what}");
            }
            match (estimate, set_up) {
                (Ok(_), Ok(_)) => {}
                (Err(estimate), Err(set_up)) => assert_eq!(estimate, set_up, "{what}"),
                (estimate, set_up) => panic!("{what}: {estimate:?}, {:?}", set_up.map(|_| ()).err()),
            }
        }
    }
}

#[test]
fn a_limit_does_not_keep_from_telling_what_is_needed() {
    let context = Context::new("sim").unwrap();
    let gpu = context.gpu().unwrap();
    for (matrix, rows) in [(named("poisson7:7"), DEVICE_ROWS), (named("poisson5:40"), 400)] {
        let config = config(&[]);
        let free = estimate(&context, &matrix, &config, rows);
        for limit in [1, free / 2] {
            gpu.set_memory_limit(Some(limit));
            assert_eq!(estimate(&context, &matrix, &config, rows), free);
            assert_eq!(gpu.memory().limit, Some(limit), "the limit holds again");
            assert_eq!(Amg::setup(&context, &matrix, &config).err().unwrap().status, Status::OutOfMemory);
        }
        gpu.set_memory_limit(Some(free));
        Amg::setup(&context, &matrix, &config).unwrap();
        gpu.set_memory_limit(None);
    }
    // A failure gives the limit back as well.
    gpu.set_memory_limit(Some(7));
    let blocks = named("poisson5:9").shared::<f64>().unwrap().view().to_blocks(3).unwrap();
    assert_eq!(blocks.block, crate::sparse::Block::square(3));
    let refused = config(&[("amg.coarsening.type", "pairwise"), ("amg.strength.type", "classical")]);
    assert!(Amg::memory_estimate(&context, &matrix(blocks), &refused).is_err());
    assert_eq!(gpu.memory().limit, Some(7));
}

#[test]
fn samples_get_smaller_until_there_is_room() {
    let tried = RefCell::new(Vec::new());
    let estimate = |room: usize| {
        tried.borrow_mut().clear();
        with_smaller_samples(100_000, |rows| {
            tried.borrow_mut().push(rows);
            if rows > room { fail!(OutOfMemory, "{rows} rows") } else { Ok(rows) }
        })
    };
    assert_eq!(estimate(30_000).unwrap(), 25_000);
    assert_eq!(*tried.borrow(), [100_000, 50_000, 25_000]);
    assert_eq!(estimate(100).unwrap_err().status, Status::OutOfMemory);
    assert!(tried.borrow().iter().all(|rows| *rows >= FEWEST_ROWS / 2));
    let refused = with_smaller_samples(100_000, |_| fail!(Unsupported, "for another reason"));
    assert_eq!(refused.unwrap_err().status, Status::Unsupported);
}
