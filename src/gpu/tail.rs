//! The last levels of a V-cycle in one launch: the steps of `kernels/tail.cu`. A launch of its own for each product of a small level takes longer to
//! begin than to run.

use super::runtime::{BLOCK, Kernel};
use super::{Buffer, Gpu, Slice};
use crate::backend::{Tail, TailLevel, TailWork};
use crate::context::lock;
use crate::error::Result;
use crate::scalar::{Number, Precision};

/// Most steps, as in `kernels/tail.cu`.
const STEPS: usize = 64;

/// Blocks of a cluster and their threads, as in `kernels/portability.h`.
const CLUSTER: usize = 8;
const CLUSTER_THREADS: usize = 1024;

/// Which levels are merged: those of at most so many rows, whose matrices, transfers and inverse have at most so many entries. All of them are in one
/// launch from the first on for which that is so of all below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merging {
    /// Rows.
    pub rows: usize,
    /// Entries, where the launch is one block of threads.
    pub entries: usize,
    /// The same, where it is a cluster of blocks.
    pub cluster_entries: usize,
}

/// With about so many entries a product takes as long in one launch with others as it does in one of its own, by what is under way at a time: a block
/// of 256 threads reads three entries in a nanosecond. Nothing is merged in a cluster: on an H200, where a graph launches the kernels of small levels one
/// after the other in little time, two levels of 262,144 entries took 18 us longer in one, and levels of at most 32,768 entries took the same.
impl Default for Merging {
    fn default() -> Merging {
        Merging { rows: 4096, entries: 1 << 14, cluster_entries: 0 }
    }
}

impl Merging {
    /// Each level is visited by launches of its own.
    pub const NOTHING: Merging = Merging { rows: 0, entries: 0, cluster_entries: 0 };
}

/// What a piece is, as `kernels/tail.cu` numbers them; a vector is on the left of no product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Kind {
    None = 0,
    Csr = 1,
    Csr16 = 2,
    Dense = 3,
}

/// A matrix of scalars, or a vector, in device memory: formats, sizes, and the addresses of its arrays. A vector has values alone.
#[derive(Clone, Copy)]
pub struct Piece {
    kind: Kind,
    precision: Precision,
    lanes: usize,
    rows: usize,
    cols: usize,
    entries: usize,
    offsets: u64,
    bases: u64,
    columns: u64,
    values: u64,
}

impl Piece {
    /// A vector.
    pub(super) fn vector<T: Number>(x: &Slice<T>) -> Piece {
        Piece::matrix(Kind::None, (x.len(), 1), 1, x)
    }

    /// A matrix of this shape, with so many lanes for each row; its columns are missing.
    pub(super) fn matrix<S: Number>(
        kind: Kind,
        (rows, cols): (usize, usize),
        lanes: usize,
        values: &Slice<S>,
    ) -> Piece {
        let (precision, entries, values) = (S::PRECISION, values.len(), values.address());
        Piece { kind, precision, lanes, rows, cols, entries, offsets: 0, bases: 0, columns: 0, values }
    }

    /// The same with columns, at these addresses.
    pub(super) fn with_columns(self, offsets: u64, bases: u64, columns: u64) -> Piece {
        Piece { offsets, bases, columns, ..self }
    }
}

/// What becomes of a product, as in `kernels/tail.cu`.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Form {
    Product = 0,
    Add = 1,
    Residual = 2,
    Sweep = 3,
    First = 4,
}

/// A step, as in `kernels/tail.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Step {
    kind: i32,
    form: i32,
    storage: i32,
    diagonal: i32,
    shift: i32,
    reserved: i32,
    rows: i64,
    cols: i64,
    entries: i64,
    offsets: u64,
    bases: u64,
    columns: u64,
    values: u64,
    x: u64,
    b: u64,
    d: u64,
    z: u64,
    y: u64,
    w: u64,
}

/// Words of a step.
const WORDS: usize = size_of::<Step>() / size_of::<u64>();

impl Step {
    /// y = A x in a form that needs nothing else.
    fn new(form: Form, a: &Piece, x: &Piece, y: &Piece) -> Step {
        assert!(a.rows == y.rows && (a.kind == Kind::None || a.cols == x.rows));
        Step {
            kind: a.kind as i32,
            form: form as i32,
            storage: a.precision as i32,
            diagonal: 0,
            shift: a.lanes.ilog2() as i32,
            reserved: 0,
            rows: a.rows as i64,
            cols: x.rows as i64,
            entries: a.entries as i64,
            offsets: a.offsets,
            bases: a.bases,
            columns: a.columns,
            values: a.values,
            x: x.values,
            b: 0,
            d: 0,
            z: 0,
            y: y.values,
            w: 0,
        }
    }

    /// With the diagonal D.
    fn with_diagonal(self, d: &Piece) -> Step {
        assert_eq!(d.entries as i64, self.rows);
        Step { d: d.values, diagonal: d.precision as i32, ..self }
    }

    /// y = z + A x.
    fn add(a: &Piece, x: &Piece, z: &Piece, y: &Piece) -> Step {
        Step { z: z.values, ..Step::new(Form::Add, a, x, y) }
    }

    /// y = b - A x.
    fn residual(a: &Piece, b: &Piece, x: &Piece, y: &Piece) -> Step {
        Step { b: b.values, ..Step::new(Form::Residual, a, x, y) }
    }

    /// y = x + D (b - A x).
    fn sweep(a: &Piece, d: &Piece, b: &Piece, x: &Piece, y: &Piece) -> Step {
        Step { b: b.values, z: x.values, ..Step::new(Form::Sweep, a, x, y) }.with_diagonal(d)
    }

    /// y = D b, or zero without a D.
    fn first(d: Option<&Piece>, b: &Piece, y: &Piece) -> Step {
        let step = Step { b: b.values, ..Step::new(Form::First, b, b, y) };
        d.map_or(step, |d| step.with_diagonal(d))
    }

    /// As the kernel reads it.
    fn words(&self) -> [u64; WORDS] {
        // SAFETY: as large, integers alone, and without padding.
        unsafe { std::mem::transmute_copy(self) }
    }
}

/// Where the first of the sweeps before the correction writes: those that follow go to and fro between both vectors, and the last ends in x.
fn first_target(level: &TailLevel<Piece>) -> Option<(Option<&Piece>, &Piece)> {
    match &level.work {
        TailWork::Inverse(_) => None,
        TailWork::Sweeps { diagonal, scratch, counts: (before, _), .. } => {
            Some(((*before > 0).then_some(diagonal), if before % 2 == 0 && *before > 0 { scratch } else { &level.x }))
        }
    }
}

/// b = R r for the right-hand side of a level, and the first sweep on that.
fn restrict(restriction: &Piece, r: &Piece, level: &TailLevel<Piece>) -> Step {
    let step = Step::new(Form::Product, restriction, r, &level.b);
    match first_target(level) {
        None => step,
        Some((d, w)) => Step { w: w.values, ..d.map_or(step, |d| step.with_diagonal(d)) },
    }
}

/// x = M b on the first of the levels, where b may be R r.
fn steps(entrance: Option<(Piece, Piece)>, levels: &[TailLevel<Piece>]) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some((restriction, r)) = entrance {
        steps.push(restrict(&restriction, &r, &levels[0]));
    } else if let Some((d, y)) = first_target(&levels[0]) {
        steps.push(Step::first(d, &levels[0].b, y));
    }
    visit(levels, &mut steps);
    steps
}

/// The same, when the first sweep before the correction is done.
fn visit(levels: &[TailLevel<Piece>], steps: &mut Vec<Step>) {
    let Some((TailLevel { b, x, work }, below)) = levels.split_first() else { return };
    let (a, diagonal, scratch, counts, restriction, interpolation) = match work {
        TailWork::Inverse(inverse) => return steps.push(Step::new(Form::Product, inverse, b, x)),
        TailWork::Sweeps { a, diagonal, scratch, counts, restriction, interpolation } => {
            (a, diagonal, scratch, counts, restriction, interpolation)
        }
    };
    // With so many of them left one writes x, or the other vector.
    let sweep = |left: usize| match left % 2 {
        0 => Step::sweep(a, diagonal, b, scratch, x),
        _ => Step::sweep(a, diagonal, b, x, scratch),
    };
    steps.extend((0..counts.0.saturating_sub(1)).rev().map(sweep));
    steps.push(Step::residual(a, b, x, scratch));
    let Some(next) = below.first() else { return };
    steps.push(restrict(restriction, scratch, next));
    visit(below, steps);
    let aside = if counts.1 % 2 == 1 { scratch } else { x };
    steps.push(Step::add(interpolation, &next.x, x, aside));
    steps.extend((0..counts.1).rev().map(sweep));
}

/// The launch.
struct Launch {
    gpu: Gpu,
    kernel: Kernel,
    blocks: usize,
    threads: usize,
    restricts: bool,
    count: usize,
    steps: Buffer<u64>,
}

impl Tail for Launch {
    fn run(&self) -> Result<()> {
        self.gpu.failed()?;
        let (count, steps) = (self.count as i64, self.steps.view());
        self.gpu.launch_blocks_of(self.threads, self.kernel, self.blocks, &[&count, &steps])
    }

    fn restricts(&self) -> bool {
        self.restricts
    }

    fn bytes(&self) -> usize {
        self.steps.owned_bytes()
    }
}

impl Gpu {
    /// Which levels are merged from here on: for measurements and tests.
    pub fn set_merging(&self, merging: Merging) {
        *lock(self.inner.merging.lock()) = merging;
    }

    /// As [`crate::backend::Backend::merge`].
    pub(super) fn merge_levels(
        &self,
        entrance: Option<(Piece, Piece)>,
        levels: &[TailLevel<Piece>],
    ) -> Result<Option<Box<dyn Tail>>> {
        let merging = *lock(self.inner.merging.lock());
        let Some(vector) = levels.first().map(|level| level.x.precision) else { return Ok(None) };
        // Kernels are looked for where the larger limit allows it.
        if !vector.is_scalar() || !fits(levels, vector, merging.rows, merging.entries.max(merging.cluster_entries)) {
            return Ok(None);
        }
        let (kernel, blocks, threads, entries) = match self.kernel(&format!("tail_cluster_{}", vector.name())) {
            Ok(kernel) => (kernel, CLUSTER, CLUSTER_THREADS, merging.cluster_entries),
            Err(_) => (self.kernel(&format!("tail_{}", vector.name()))?, 1, BLOCK, merging.entries),
        };
        let entrance = entrance.filter(|(restriction, _)| restriction.entries <= entries);
        let (restricts, steps) = (entrance.is_some(), steps(entrance, levels));
        if steps.len() > STEPS || !fits(levels, vector, merging.rows, entries) {
            return Ok(None);
        }
        let words: Vec<u64> = steps.iter().flat_map(Step::words).collect();
        let (gpu, count, steps) = (self.clone(), steps.len(), self.upload(&words)?);
        Ok(Some(Box::new(Launch { gpu, kernel, blocks, threads, restricts, count, steps })))
    }
}

/// Whether all levels have at most so many rows and entries, one value of D for each row, and vectors of this precision.
fn fits(levels: &[TailLevel<Piece>], vector: Precision, rows: usize, entries: usize) -> bool {
    levels.iter().all(|TailLevel { b, x, work }| {
        let small = |piece: &Piece| piece.entries <= entries;
        let work = match work {
            TailWork::Inverse(inverse) => small(inverse),
            TailWork::Sweeps { a, diagonal, restriction, interpolation, .. } => {
                diagonal.entries == x.rows && [a, restriction, interpolation].into_iter().all(small)
            }
        };
        work && x.rows <= rows && b.precision == vector && x.precision == vector
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amg::Amg;
    use crate::backend::{Backend, Operator, Place};
    use crate::config::Config;
    use crate::context::Context;
    use crate::gallery;
    use crate::gpu::csr::{Csr, ShortColumns};
    use crate::gpu::product::Placed;
    use crate::gpu::setup::DeviceCsr;
    use crate::gpu::tests::devices;
    use crate::host::hash;
    use crate::matrix::{Matrix, Values};
    use crate::report::Report;
    use crate::scalar::Scalar;
    use crate::solver::{Guess, Solver};
    use crate::sparse;
    use half::{bf16, f16};
    use std::sync::Arc;

    /// Everything that the tests have.
    const ALL: Merging = Merging { rows: 4096, entries: 1 << 18, cluster_entries: 1 << 18 };

    /// Numbers between -1 and 1 that every format holds.
    fn numbers<T: Number>(n: usize, seed: u64) -> Vec<T> {
        (0..n).map(|i| T::from_f64((hash(i, seed) % 65) as f64 / 32.0 - 1.0)).collect()
    }

    /// Rows of up to `most` entries, some of them empty.
    fn matrix<S: Number>(rows: usize, cols: usize, most: usize, seed: u64) -> sparse::Csr<S> {
        let mut entries = Vec::new();
        for i in 0..rows {
            let (count, first) = (hash(i, seed) as usize % (most + 1), hash(i, seed + 1) as usize);
            let mut columns: Vec<_> = (0..count).map(|k| (first + k * k) % cols).collect();
            columns.sort_unstable();
            columns.dedup();
            entries.extend(columns.iter().map(|j| (i, *j, (hash(i * cols + j, seed) % 65) as f64 / 32.0 - 1.0)));
        }
        let a = sparse::Csr::from_triplets(rows, cols, &entries).unwrap();
        let mut stored = sparse::Csr::<S>::with_pattern(rows, cols, a.block, a.offsets, a.columns).unwrap();
        stored.values.iter_mut().zip(&a.values).for_each(|(to, from)| *to = S::from_f64(*from));
        stored
    }

    /// A product with columns of 32 bits, or of 16.
    fn placed<S: Number, V: Number>(gpu: &Gpu, a: &sparse::Csr<S>, short: bool) -> Box<dyn Operator<Gpu, V>> {
        let there = DeviceCsr::upload(gpu, &a.view()).unwrap();
        if !short {
            return Box::new(Placed(Csr::new::<V, V>(gpu, there).unwrap()));
        }
        let columns = Arc::new(ShortColumns::new(gpu, &there.pattern()).unwrap());
        Box::new(Placed(Csr::short::<V, V>(gpu, there, &columns).unwrap()))
    }

    /// Two levels in one launch, against the same operations one by one.
    fn two_levels<S: Number, V: Number>() {
        for gpu in devices() {
            gpu.set_merging(ALL);
            for (n, m, most, short) in [(1, 1, 1, false), (70, 33, 3, true), (300, 90, 9, false), (600, 120, 70, true)]
            {
                let a: Box<dyn Operator<Gpu, V>> = placed(&gpu, &matrix::<S>(n, n, most, 1), short);
                let r: Box<dyn Operator<Gpu, V>> = placed(&gpu, &matrix::<S>(m, n, most, 2), !short);
                let p: Box<dyn Operator<Gpu, V>> = placed(&gpu, &matrix::<S>(n, m, 4, 3), false);
                let inverse = Place::dense::<S, V>(&gpu, m, numbers(m * m, 4)).unwrap();
                let (d, b) = (gpu.upload(&numbers::<S>(n, 5)).unwrap(), gpu.upload(&numbers::<V>(n, 6)).unwrap());
                for (before, after) in [(1, 1), (0, 1), (2, 0), (3, 2)] {
                    let what = format!("{n} and {m} rows, {before} and {after} sweeps on {}", gpu.description());
                    let vector = |n: usize| gpu.upload(&vec![V::from_f64(f64::NAN); n]).unwrap();
                    let (mut x, mut y, mut below) = (gpu.zeros::<V>(n).unwrap(), vector(n), (vector(m), vector(m)));
                    let sweep = |x: &mut Buffer<V>, y: &mut Buffer<V>| {
                        gpu.sweep(&*a, &d, &b, x, y).unwrap();
                        gpu.copy(y, x);
                    };
                    if before > 0 {
                        gpu.scale_by(&d, &b, &mut x);
                        (1..before).for_each(|_| sweep(&mut x, &mut y));
                    }
                    a.residual(&b, &x, &mut y).unwrap();
                    r.apply(V::Wide::ONE, &y, V::Wide::ZERO, &mut below.0).unwrap();
                    inverse.apply(V::Wide::ONE, &below.0, V::Wide::ZERO, &mut below.1).unwrap();
                    p.apply(V::Wide::ONE, &below.1, V::Wide::ONE, &mut x).unwrap();
                    (0..after).for_each(|_| sweep(&mut x, &mut y));

                    let (merged, scratch, (b_below, x_below)) = (vector(n), vector(n), (vector(m), vector(m)));
                    let work = TailWork::Sweeps {
                        a: a.piece().unwrap(),
                        diagonal: Piece::vector(&d),
                        scratch: Piece::vector(&scratch),
                        counts: (before, after),
                        restriction: r.piece().unwrap(),
                        interpolation: p.piece().unwrap(),
                    };
                    let first = TailLevel { b: Piece::vector(&b), x: Piece::vector(&merged), work };
                    let work = TailWork::Inverse(inverse.piece().unwrap());
                    let second = TailLevel { b: Piece::vector(&b_below), x: Piece::vector(&x_below), work };
                    let tail = gpu.merge_levels(None, &[first, second]).unwrap().unwrap();
                    // Twice: what the first time leaves behind is not read.
                    for _ in 0..2 {
                        tail.run().unwrap();
                        let pairs = [(&x, &merged), (&below.0, &b_below), (&below.1, &x_below)];
                        for (expected, result) in pairs {
                            let (expected, result) = (gpu.fetch(expected).unwrap(), gpu.fetch(result).unwrap());
                            assert!(result == expected, "{what}: {result:?}, should be {expected:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn steps_give_the_bits_of_launches_in_f64() {
        two_levels::<f64, f64>();
        two_levels::<f32, f64>();
    }

    #[test]
    fn steps_give_the_bits_of_launches_in_f32() {
        two_levels::<f32, f32>();
        two_levels::<f16, f32>();
        two_levels::<bf16, f32>();
    }

    fn config(options: &[(&str, &str)]) -> Config {
        let mut config = Config::new();
        config.set_int("amg.coarsest.max_rows", 10).unwrap();
        for (key, value) in options {
            config.set_str(key, value).unwrap();
        }
        config
    }

    fn problem(name: &str) -> Arc<Matrix> {
        Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
    }

    fn contexts() -> Vec<Context> {
        let mut all: Vec<_> = ["sim:32", "sim:64"].into_iter().filter_map(|name| Context::new(name).ok()).collect();
        if std::env::var_os("TERRACE_TEST_CUDA").is_some() {
            all.push(Context::new("cuda:0").unwrap());
        }
        all
    }

    /// A cycle with these levels merged, the launches that it took, and the hierarchy.
    fn cycle(context: &Context, merging: Merging, matrix: &Arc<Matrix>, config: &Config) -> (Vec<f64>, usize, Amg) {
        let gpu = context.gpu().unwrap();
        gpu.set_merging(merging);
        let mut amg = Amg::setup(context, matrix, config).unwrap();
        let (b, mut x) = (numbers::<f64>(matrix.rows(), 7), vec![f64::NAN; matrix.rows()]);
        gpu.start_profile(false);
        amg.apply(&b, &mut x).unwrap();
        let launches = gpu.end_profile().iter().map(|kernel| kernel.launches).sum();
        (x, launches, amg)
    }

    /// How many levels are merged, which are the last.
    fn merged(report: &Report) -> usize {
        let count = report.levels.iter().filter(|level| level.merged).count();
        assert!(report.levels[report.levels.len() - count..].iter().all(|level| level.merged));
        count
    }

    #[test]
    fn a_cycle_is_the_same_in_fewer_launches() {
        let f32s: &[_] = &[("precision.matrix", "f32"), ("precision.vector", "f32")];
        let f16s: &[_] = &[("precision.matrix", "f16"), ("precision.transfer", "f16"), ("precision.vector", "f32")];
        let sweeps: &[_] = &[("amg.smoother.pre_sweeps", "2,0,2"), ("amg.smoother.post_sweeps", "1,2,0")];
        for (name, options) in [
            ("poisson5:24", &[][..]),
            ("poisson7:9", &[("amg.smoother.type", "jacobi"), ("amg.coarsest.max_rows", "40")]),
            ("poisson7:9", f32s),
            ("jumps:7", f16s),
            ("poisson27:8", sweeps),
            ("rotated_anisotropic:18", &[("amg.coarsening.type", "pairwise"), ("amg.smoother.type", "l1_jacobi")]),
        ] {
            let (matrix, config) = (problem(name), config(options));
            for context in contexts() {
                let what = format!("{name} with {options:?} on {}", context.gpu().unwrap().description());
                let (expected, launches, amg) = cycle(&context, Merging::NOTHING, &matrix, &config);
                assert_eq!(merged(&amg.report()), 0, "{what}");
                let (x, fewer, mut amg) = cycle(&context, ALL, &matrix, &config);
                let report = amg.report();
                let count = merged(&report);
                assert!(count >= 2 && count == report.levels.len() - 1, "{what}: {count} levels");
                if x != expected {
                    // Compilers for GPUs may fuse multiplications and additions of the two in different ways.
                    assert!(context.gpu().unwrap().description().contains("NVIDIA"), "{what}");
                    let largest = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                    let bound = largest * if options == f32s || options == f16s { 1e-5 } else { 1e-13 };
                    assert!(x.iter().zip(&expected).all(|(x, e)| (x - e).abs() <= bound), "{what}");
                }
                if options != sweeps {
                    // First sweep, residual, restriction, interpolation and sweep of each but the coarsest, and the restriction to the first.
                    assert_eq!(launches - fewer, 5 * (count - 1) + 1, "{what}");
                }
                assert!(report.to_text().contains(&format!("levels 1 to {count} are one launch")), "{what}");
                // The second and third time it is a graph.
                for _ in 0..2 {
                    let (b, mut again) = (numbers::<f64>(matrix.rows(), 7), vec![f64::NAN; matrix.rows()]);
                    amg.apply(&b, &mut again).unwrap();
                    assert_eq!(again, x, "{what}");
                }
            }
        }
    }

    #[test]
    fn levels_are_merged_up_to_the_limits_and_where_they_are_of_the_kind() {
        let Ok(context) = Context::new("sim:32") else { return };
        let matrix = problem("poisson5:24");
        let count = |merging: Merging, options: &[(&str, &str)]| {
            merged(&cycle(&context, merging, &matrix, &config(options)).2.report())
        };
        let levels = cycle(&context, ALL, &matrix, &config(&[])).2.report().levels;
        assert!(levels.len() > 3);
        assert_eq!(count(Merging { rows: levels[1].rows, ..ALL }, &[]), levels.len() - 1);
        assert_eq!(count(Merging { rows: levels[1].rows - 1, ..ALL }, &[]), levels.len() - 2);
        assert_eq!(count(Merging { entries: levels[1].nonzeros, ..ALL }, &[]), levels.len() - 1);
        assert_eq!(count(Merging { entries: levels[1].nonzeros - 1, ..ALL }, &[]), levels.len() - 2);
        // The coarsest alone is a launch of its own in any case.
        assert_eq!(count(ALL, &[("amg.max_levels", "2"), ("amg.coarsest.max_rows", "1000")]), 0);
        for options in [
            ("amg.cycle.type", "w"),
            ("amg.cycle.type", "f"),
            ("amg.cycle.type", "k"),
            ("amg.smoother.type", "chebyshev"),
            ("amg.smoother.type", "gauss_seidel"),
            ("amg.coarsest.solver", "sweeps"),
            ("precision.vector", "f16"),
        ] {
            assert_eq!(count(ALL, &[options]), 0, "{options:?}");
        }
        // Formats may change above the levels that are merged.
        assert_eq!(count(ALL, &[("precision.vector", "f64,f64,f32")]), levels.len() - 2);
        // Blocks are of another kind.
        let blocks = problem("elasticity:5");
        let options = [("amg.coarsening.type", "mis2"), ("amg.smoother.type", "l1_jacobi")];
        assert_eq!(merged(&cycle(&context, ALL, &blocks, &config(&options)).2.report()), 0);
    }

    #[test]
    fn solves_and_updates_are_those_of_levels_that_are_not_merged() {
        for (context, options) in contexts().into_iter().zip([&[][..], &[("precision.vector", "f32")], &[]]) {
            let solved = |merging: Merging| {
                let gpu = context.gpu().unwrap();
                gpu.set_merging(merging);
                let matrix = problem("poisson7:9");
                let mut solver = Solver::new(&context, &config(options));
                solver.setup(Some(&matrix)).unwrap();
                let (b, mut iterations) = (numbers::<f64>(matrix.rows(), 8), Vec::new());
                let mut x = vec![0.0; b.len()];
                for factor in [1.0, 3.0] {
                    let Values::F64(values) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
                    let values: Vec<f64> = values.as_slice().iter().map(|v| factor * v).collect();
                    matrix.update_values(Values::from(values)).unwrap();
                    solver.update().unwrap();
                    solver.solve(&b, &mut x, Guess::Zero).unwrap();
                    iterations.push(solver.report().solves[0].iterations);
                    let count = merged(&solver.report());
                    assert_eq!(count > 1, merging == ALL, "{count}");
                }
                (iterations, x)
            };
            let (one, other) = (solved(ALL), solved(Merging::NOTHING));
            if context.gpu().unwrap().description().contains("simulated") {
                assert_eq!(one, other);
            } else {
                assert!(one.0.iter().zip(&other.0).all(|(one, other)| one.abs_diff(*other) <= 1));
            }
        }
    }
}
