//! Every kernel against the host, on simulated GPUs with warps of 32 and 64 lanes in both orders, and on `cuda:0` where TERRACE_TEST_CUDA is
//! set.

use super::bsr::Bsr;
use super::csr::{CompactColumns, Csr};
use super::csr_balanced::{CsrBalanced, LongRows};
use super::product::{Precisions, operator};
use super::sell::Sell;
use super::sell_layout::{Cut, Form, SellLayout, to_scalar};
use super::setup::DeviceCsr;
use super::{Gpu, Slice};
use crate::backend::{Backend, Colours, Columns, Operator, StorageFactory};
use crate::context::Context;
use crate::device_kind::DeviceKind;
use crate::hash::hash;
use crate::host::Host;
use crate::host::diagonal;
use crate::range::Range;
use crate::scalar::{Number, Precision, Sums};
use crate::skip::skipped;
use crate::sparse::{Block, Coloured, Colouring, SharedCsr};
use half::{bf16, f16};
use std::sync::Arc;

mod fused;

/// Around warps, blocks and the parts of inner products.
const SIZES: &[usize] = &[0, 1, 31, 32, 33, 63, 65, 255, 256, 257, 2049, 10_000];

pub(super) fn devices() -> Vec<Gpu> {
    let mut all = Vec::new();
    for warp in [32, 64] {
        all.push(Gpu::open(DeviceKind::Sim, warp).unwrap());
        all.push(Gpu::reversed_sim(warp).unwrap());
    }
    if std::env::var_os("TERRACE_TEST_CUDA").is_some() {
        all.push(Gpu::open(DeviceKind::Cuda, 0).unwrap());
    } else {
        skipped("tests on cuda:0", "TERRACE_TEST_CUDA is not set");
    }
    all
}

/// Simulated ones among these, which come first.
pub(super) const SIMULATED: usize = 4;

/// One simulated device, where a test takes its time, and all real ones.
pub(super) fn one_of_each() -> Vec<Gpu> {
    devices().into_iter().enumerate().filter_map(|(k, gpu)| (k == 0 || k >= SIMULATED).then_some(gpu)).collect()
}

pub(super) fn host() -> Host {
    Host::new(&Context::new("host:1").unwrap())
}

/// Numbers between -1 and 1 that every format holds exactly.
fn values<T: Number>(n: usize, seed: u64) -> Vec<T> {
    (0..n).map(|i| T::from_f64((hash(i, seed) % 65) as f64 / 32.0 - 1.0)).collect()
}

fn download<T: Number>(gpu: &Gpu, x: &Slice<T>) -> Vec<T> {
    let mut out = vec![T::ZERO; x.len()];
    gpu.read(x, &mut out).unwrap();
    out
}

/// The distance from 1 to the next number.
fn epsilon<T: Number>() -> f64 {
    match T::PRECISION {
        Precision::F64 => f64::EPSILON,
        Precision::F32 => f64::from(f32::EPSILON),
        Precision::F16 => f16::EPSILON.to_f64(),
        Precision::BF16 => bf16::EPSILON.to_f64(),
    }
}

/// As equal as another order of summation leaves numbers of size `scale`.
fn close<T: Number>(x: &[T], y: &[T], scale: f64, what: &str) {
    assert_eq!(x.len(), y.len(), "{what}");
    let bound = 16.0 * epsilon::<T>() * scale;
    for (i, (x, y)) in x.iter().zip(y).enumerate() {
        assert!((x.to_f64() - y.to_f64()).abs() <= bound, "{what}: element {i} is {x:?}, should be {y:?}");
    }
}

fn vector_operations<T: Number>() {
    let host = host();
    let nan = T::from_f64(f64::NAN);
    for gpu in devices() {
        for &n in SIZES {
            let (x, y): (Vec<T>, Vec<T>) = (values(n, 1), values(n, 2));
            let what = format!("{} on {n} elements of {}", gpu.description(), T::PRECISION.name());
            let there = gpu.upload(&x).unwrap();
            for (alpha, beta) in [(2.0, 0.0), (-1.5, 1.0), (0.5, -2.0)] {
                let (alpha, beta) = (T::Wide::from_f64(alpha), T::Wide::from_f64(beta));
                // A result that is not read may hold anything.
                let before: Vec<T> = if beta == T::Wide::ZERO { vec![nan; n] } else { y.clone() };
                let mut expected = before.clone();
                host.axpby(alpha, &x, beta, &mut expected);
                let mut result = gpu.upload(&before).unwrap();
                gpu.axpby(alpha, &there, beta, &mut result);
                assert_eq!(download(&gpu, &result), expected, "axpby of {what}");
            }
            let mut filled = gpu.upload(&vec![nan; n]).unwrap();
            gpu.fill(T::from_f64(0.75), &mut filled);
            gpu.scale(T::Wide::from_f64(-2.0), &mut filled);
            assert_eq!(download(&gpu, &filled), vec![T::from_f64(-1.5); n], "fill and scale of {what}");
            gpu.copy(&there, &mut filled);
            assert_eq!(download(&gpu, &filled), x, "copy of {what}");
            let (mut wide, mut narrow) = (gpu.zeroed::<f64>(n).unwrap(), gpu.zeroed::<f32>(n).unwrap());
            gpu.copy(&there, &mut wide);
            gpu.copy(&wide, &mut narrow);
            gpu.copy(&narrow, &mut filled);
            assert_eq!(download(&gpu, &filled), x, "conversions of {what}");
            let expected = host.dot(&x, &y);
            let dot = gpu.dot(&there, &gpu.upload(&y).unwrap());
            assert!((dot - expected).abs() <= 1e-13 * n as f64, "dot of {what}: {dot}, should be {expected}");
            assert_eq!(gpu.norm(&gpu.zeroed::<T>(n).unwrap()), 0.0);
            let d: Vec<f32> = values(n, 14);
            let (mut here, mut rescaled) = (vec![0.0_f32; n], gpu.zeroed::<f32>(n).unwrap());
            host.convert(0.5, Some(&d), &x, &mut here);
            assert_eq!(gpu.convert(0.5, Some(&gpu.upload(&d).unwrap()), &there, &mut rescaled), None);
            assert_eq!(download(&gpu, &rescaled), here, "conversion of {what}");
            gpu.convert(-0.25, None, &there, &mut wide);
            let expected: Vec<f64> = x.iter().map(|v| -0.25 * v.to_f64()).collect();
            assert_eq!(download(&gpu, &wide), expected, "conversion of {what}");
            assert_eq!(gpu.max_norm(&there), host.max_norm(&x), "largest of {what}");
            if n > 0 {
                let mut broken = x.clone();
                broken[n / 2] = nan;
                assert!(gpu.max_norm(&gpu.upload(&broken).unwrap()).is_nan(), "largest of {what}");
            }
            gpu.status().unwrap();
        }
    }
}

#[test]
fn vector_operations_are_those_of_the_host() {
    vector_operations::<f64>();
    vector_operations::<f32>();
    vector_operations::<f16>();
    vector_operations::<bf16>();
}

/// Every number of a 16-bit format, the numbers halfway between each and the next, and those beside the halfway ones; also what
/// is too large, and what is not a number.
fn hard_to_round<T: Number>(from_bits: impl Fn(u16) -> T) -> Vec<f32> {
    let mut all = vec![f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::INFINITY, f32::NAN, -f32::NAN];
    for bits in 0..=u16::MAX {
        let value = from_bits(bits).to_f64() as f32;
        let next = from_bits(bits.wrapping_add(1)).to_f64() as f32;
        let halfway = 0.5 * (f64::from(value) + f64::from(next)) as f32;
        all.extend([value, halfway]);
        if halfway.is_finite() && halfway != 0.0 {
            all.extend([f32::from_bits(halfway.to_bits() - 1), f32::from_bits(halfway.to_bits() + 1)]);
        }
    }
    all
}

fn rounds_to_nearest_even<T: Number>(from_bits: impl Fn(u16) -> T, bits: impl Fn(T) -> u16) {
    let wide = hard_to_round(from_bits);
    let narrow: Vec<T> = wide.iter().map(|v| T::from_f64(f64::from(*v))).collect();
    let widened: Vec<f32> = narrow.iter().map(|v| v.to_f64() as f32).collect();
    for gpu in devices() {
        let (mut rounded, mut back) = (gpu.zeros::<T>(wide.len()).unwrap(), gpu.zeros::<f32>(wide.len()).unwrap());
        gpu.copy(&gpu.upload(&wide).unwrap(), &mut rounded);
        gpu.copy(&rounded, &mut back);
        let (rounded, back) = (download(&gpu, &rounded), download(&gpu, &back));
        for i in 0..wide.len() {
            let same = if wide[i].is_nan() {
                rounded[i].to_f64().is_nan() && back[i].is_nan()
            } else {
                bits(rounded[i]) == bits(narrow[i]) && back[i].to_bits() == widened[i].to_bits()
            };
            assert!(same, "{}: {:e} became {:?} and {:e}", gpu.description(), wide[i], rounded[i], back[i]);
        }
    }
}

#[test]
fn numbers_of_16_bits_are_rounded_as_on_the_host() {
    rounds_to_nearest_even(f16::from_bits, f16::to_bits);
    rounds_to_nearest_even(bf16::from_bits, bf16::to_bits);
}

/// x goes into a vector of `U` and back, with the power of two that the host finds.
fn fits<T: Number, U: Number>() {
    let host = host();
    let range = Range::of(U::PRECISION).unwrap();
    let nan = f64::NAN;
    for gpu in devices() {
        for n in [1, 33, 257, 5000] {
            for size in
                [1.0, 5.0, 1e-30, 3e37, 0.0, nan].into_iter().filter(|s| !(*s > 0.0 && T::from_f64(*s) == T::ZERO))
            {
                let mut x: Vec<T> = values::<T>(n, 15);
                x.iter_mut().for_each(|v| *v = T::from_f64(v.to_f64() * if size.is_nan() { 1.0 } else { size }));
                x[n / 2] = T::from_f64(size);
                let d: Vec<f32> = values(n, 16);
                let what = format!(
                    "{}: {n} elements up to {size:e}, {:?} as {:?}",
                    gpu.description(),
                    T::PRECISION,
                    U::PRECISION
                );
                let mut factor = (host.range_factor().unwrap(), gpu.range_factor().unwrap());
                let (mut y, mut there_y) = (vec![U::ZERO; n], gpu.zeros::<U>(n).unwrap());
                let (mut back, mut there_back) = (vec![T::ZERO; n], gpu.zeros::<T>(n).unwrap());
                let (there_x, there_d) = (gpu.upload(&x).unwrap(), gpu.upload(&d).unwrap());
                for scaled in [true, false] {
                    let (d, there_d) = (scaled.then_some(&d[..]), scaled.then_some(&*there_d));
                    host.convert_into_range((&range, &mut factor.0), 0.5, d, &x, &mut y);
                    host.convert_from_range(&factor.0, 2.0, d, &y, &mut back);
                    gpu.convert_into_range((&range, &mut factor.1), 0.5, there_d, &there_x, &mut there_y);
                    gpu.convert_from_range(&factor.1, 2.0, there_d, &there_y, &mut there_back);
                    assert_eq!(download(&gpu, &factor.1), [factor.0], "{what}");
                    let same = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(x, y)| x == y || x.is_nan() && y.is_nan());
                    assert!(same(&wide(&download(&gpu, &there_y)), &wide(&y)), "{what}");
                    assert!(same(&wide(&download(&gpu, &there_back)), &wide(&back)), "{what}");
                }
                gpu.status().unwrap();
            }
        }
    }
}

fn wide<T: Number>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

#[test]
fn vectors_are_brought_into_range_as_on_the_host() {
    fits::<f64, f32>();
    fits::<f64, f16>();
    fits::<f32, bf16>();
    fits::<bf16, f16>();
}

#[test]
fn inner_products_do_not_depend_on_the_order_of_threads() {
    for pair in devices().chunks(2).filter(|pair| pair.len() == 2) {
        let (x, y): (Vec<f64>, Vec<f64>) = (values(70_001, 3), values(70_001, 4));
        let x: Vec<f64> = x.iter().enumerate().map(|(i, v)| v / (i + 1) as f64).collect();
        let dot = |gpu: &Gpu| gpu.dot(&gpu.upload(&x).unwrap(), &gpu.upload(&y).unwrap());
        assert_eq!(dot(&pair[0]), dot(&pair[1]));
    }
}

fn diagonals<S: Number, T: Number>() {
    let host = host();
    for gpu in devices() {
        for width in [1, 2, 3, 6] {
            for blocks in [0, 1, 85, 86, 300] {
                let n = width * blocks;
                let (d, x, y): (Vec<S>, Vec<T>, Vec<T>) = (values(n * width, 5), values(n, 6), values(n, 7));
                let (there_d, there_x) = (gpu.upload(&d).unwrap(), gpu.upload(&x).unwrap());
                let (mut set, mut added) = (vec![T::from_f64(f64::NAN); n], y.clone());
                let mut there_set = gpu.upload(&set).unwrap();
                let mut there_added = gpu.upload(&y).unwrap();
                host.scale_by(&d, &x, &mut set);
                host.add_scaled_by(&d, &x, &mut added);
                gpu.scale_by(&there_d, &there_x, &mut there_set);
                gpu.add_scaled_by(&there_d, &there_x, &mut there_added);
                let what = format!("{}, {blocks} blocks of {width}", gpu.description());
                close(&download(&gpu, &there_set), &set, width as f64, &what);
                close(&download(&gpu, &there_added), &added, 1.0 + width as f64, &what);
                gpu.status().unwrap();
            }
        }
    }
}

#[test]
fn diagonals_of_every_format_are_those_of_the_host() {
    diagonals::<f64, f64>();
    diagonals::<f32, f32>();
    diagonals::<f16, f32>();
    diagonals::<bf16, f64>();
    diagonals::<f32, f16>();
    diagonals::<f64, bf16>();
}

/// A matrix with empty rows, a dense row in the middle, and rows of `length` entries; `rows` and `cols` count blocks.
fn irregular<S: Number>(rows: usize, cols: usize, block: Block, length: usize) -> SharedCsr<S> {
    let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
    for i in 0..rows {
        let count = match i {
            _ if i % 7 == 3 => 0,
            _ if i == rows / 2 => cols,
            _ => (length + i % 3).min(cols),
        };
        let mut row: Vec<i32> = (0..cols).map(|c| c as i32).collect();
        row.sort_by_key(|c| hash(*c as usize, i as u64));
        row.truncate(count);
        row.sort_unstable();
        columns.extend(row);
        offsets.push(columns.len() as i64);
    }
    let mut a = crate::sparse::Csr::<S>::with_pattern(rows, cols, block, offsets, columns).unwrap();
    a.values = values(a.values.len(), 11);
    a.into_shared()
}

fn products<S: Number, X: Number, Y: Number>(gpu: &Gpu, matrix: &SharedCsr<S>) {
    let host = host();
    let a = matrix.view();
    let (rows, cols) = (a.scalar_rows(), a.scalar_cols());
    let what = format!(
        "{}, {} of {rows} x {cols}, {} {} {}",
        gpu.description(),
        a.block.format(),
        S::PRECISION.name(),
        X::PRECISION.name(),
        Y::PRECISION.name()
    );
    let here: Box<dyn Operator<Host, X, Y>> = host.matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap();
    let precisions = Precisions::of::<S, X, Y>();
    let mut formats: Vec<Box<dyn Operator<Gpu, X, Y>>> =
        vec![gpu.matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap()];
    let rows_there = DeviceCsr::upload(gpu, &a).unwrap();
    let plain = to_scalar(gpu, &rows_there).unwrap();
    let columns = Arc::new(CompactColumns::new(gpu, &plain.pattern()).unwrap());
    formats.push(operator(Csr::short(gpu, plain.clone(), &columns, precisions).unwrap()));
    formats.push(operator(Bsr::tiled(gpu, &plain, precisions).unwrap().unwrap()));
    let long = Arc::new(LongRows::with(gpu, &plain.pattern(), 8, 16).unwrap());
    formats.push(operator(CsrBalanced::new(gpu, plain.clone(), &long, precisions).unwrap()));
    formats.push(operator(Csr::new(gpu, plain, precisions).unwrap()));
    if Bsr::knows(a.block) {
        formats.push(operator(Bsr::new(gpu, &rows_there, precisions).unwrap()));
    }
    for sorted in [false, true] {
        let sums = <Y::Wide as Number>::PRECISION;
        let cut = |form, bits| Cut::with_form(form, S::PRECISION, sums, bits, sorted);
        let layout = |form, bits| Arc::new(SellLayout::new(gpu, &rows_there.pattern(), cut(form, bits)).unwrap());
        let wide = |form| operator(Sell::new(gpu, &rows_there, &layout(form, 16), precisions).unwrap());
        if a.block == Block::SCALAR {
            let narrow = layout(Form::Rows, 8);
            formats.push(operator(Sell::new(gpu, &rows_there, &narrow, precisions).unwrap()));
            formats.push(wide(Form::Rows));
            formats.push(wide(Form::Shared(4)));
        } else {
            formats.push(wide(Form::Blocks(1)));
            formats.push(wide(Form::Blocks(8)));
        }
    }
    for there in formats {
        compare(gpu, &*here, &*there, (rows, cols), &format!("{}, {what}", there.format()));
        assert_eq!(there.precision(), S::PRECISION);
    }
}

/// All forms of a product, on the host and on a device.
fn compare<X: Number, Y: Number>(
    gpu: &Gpu,
    here: &dyn Operator<Host, X, Y>,
    there: &dyn Operator<Gpu, X, Y>,
    (rows, cols): (usize, usize),
    what: &str,
) {
    assert_eq!(there.rows(), rows);
    let (x, y, b): (Vec<X>, Vec<Y>, Vec<Y>) = (values(cols, 8), values(rows, 9), values(rows, 10));
    let (there_x, there_b) = (gpu.upload(&x).unwrap(), gpu.upload(&b).unwrap());
    let scale = cols as f64;
    for (alpha, beta) in [(1.0, 0.0), (-0.5, 1.0), (2.0, -1.5)] {
        let (alpha, beta) = (Y::Wide::from_f64(alpha), Y::Wide::from_f64(beta));
        let before = if beta == Y::Wide::ZERO { vec![Y::from_f64(f64::NAN); rows] } else { y.clone() };
        let mut expected = before.clone();
        here.apply(alpha, &x, beta, &mut expected).unwrap();
        let mut result = gpu.upload(&before).unwrap();
        there.apply(alpha, &there_x, beta, &mut result).unwrap();
        close(&download(gpu, &result), &expected, scale, what);
    }
    let mut expected = vec![Y::from_f64(f64::NAN); rows];
    let mut result = gpu.upload(&expected).unwrap();
    here.residual(&b, &x, &mut expected).unwrap();
    there.residual(&there_b, &there_x, &mut result).unwrap();
    close(&download(gpu, &result), &expected, scale, &format!("residual, {what}"));
    // A vector that begins at an odd element, as a caller's may.
    let longer: Vec<Y> = std::iter::once(Y::ZERO).chain(b.iter().copied()).collect();
    let longer = gpu.upload(&longer).unwrap();
    there.residual(longer.piece(1, rows), &there_x, &mut result).unwrap();
    close(&download(gpu, &result), &expected, scale, &format!("residual of a shifted vector, {what}"));
    let alpha = Y::Wide::from_f64(-0.5);
    host().add_product(here, alpha, &x, &b, &mut expected).unwrap();
    gpu.add_product(there, alpha, &there_x, &there_b, &mut result).unwrap();
    close(&download(gpu, &result), &expected, scale, &format!("sum, {what}"));
    gpu.status().unwrap();
}

fn every_precision<S: Number>(gpu: &Gpu, rows: usize, cols: usize, block: Block, length: usize) {
    fn every_result<S: Number, X: Number>(gpu: &Gpu, matrix: &SharedCsr<S>) {
        products::<S, X, f64>(gpu, matrix);
        products::<S, X, f32>(gpu, matrix);
        products::<S, X, f16>(gpu, matrix);
        products::<S, X, bf16>(gpu, matrix);
    }
    let matrix = irregular::<S>(rows, cols, block, length);
    every_result::<S, f64>(gpu, &matrix);
    every_result::<S, f32>(gpu, &matrix);
    every_result::<S, f16>(gpu, &matrix);
    every_result::<S, bf16>(gpu, &matrix);
}

#[test]
fn scalar_products_are_those_of_the_host() {
    for gpu in devices() {
        // Rows of each length that has its own number of lanes, and around slices and blocks of the launch.
        for (rows, cols, length) in
            [(0, 0, 0), (1, 1, 1), (63, 40, 3), (129, 100, 7), (65, 200, 14), (33, 300, 30), (17, 300, 90)]
        {
            every_precision::<f64>(&gpu, rows, cols, Block::SCALAR, length);
        }
        every_precision::<f32>(&gpu, 129, 100, Block::SCALAR, 7);
        every_precision::<f16>(&gpu, 129, 100, Block::SCALAR, 7);
        every_precision::<bf16>(&gpu, 129, 100, Block::SCALAR, 7);
    }
}

#[test]
fn block_products_are_those_of_the_host() {
    for gpu in devices() {
        for (rows, cols) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (8, 8), (3, 6), (6, 3), (1, 3)] {
            products::<f64, f64, f64>(&gpu, &irregular(9, 11, Block { rows, cols }, 4));
        }
        let block = Block::square(3);
        every_precision::<f32>(&gpu, 17, 17, block, 5);
        every_precision::<f16>(&gpu, 17, 17, block, 5);
        every_precision::<bf16>(&gpu, 17, 17, block, 5);
        for side in [2, 4] {
            every_precision::<f64>(&gpu, 9, 11, Block::square(side), 7);
            every_precision::<f16>(&gpu, 9, 9, Block::square(side), 7);
            products::<f32, f32, f32>(&gpu, &irregular(40, 30, Block::square(side), 20));
            products::<f64, f64, f64>(&gpu, &irregular(0, 0, Block::square(side), 0));
        }
        products::<f64, f64, f64>(&gpu, &irregular(0, 0, block, 0));
    }
    // Every kernel of blocks, in every format of values.
    for gpu in one_of_each() {
        every_precision::<f64>(&gpu, 5, 7, Block::square(3), 4);
        for side in [2, 4, 5, 6] {
            every_precision::<f32>(&gpu, 5, 7, Block::square(side), 4);
            every_precision::<bf16>(&gpu, 5, 7, Block::square(side), 4);
        }
        for side in [5, 6] {
            every_precision::<f64>(&gpu, 5, 7, Block::square(side), 4);
            every_precision::<f16>(&gpu, 5, 7, Block::square(side), 4);
        }
    }
}

/// Calls a function for every format of stored values and of vectors.
macro_rules! every_pair {
    ($run:ident($($argument:expr),*)) => {
        every_pair!(f64, $run($($argument),*));
        every_pair!(f32, $run($($argument),*));
        every_pair!(f16, $run($($argument),*));
        every_pair!(bf16, $run($($argument),*));
    };
    ($stored:ty, $run:ident($($argument:expr),*)) => {
        $run::<$stored, f64>($($argument),*);
        $run::<$stored, f32>($($argument),*);
        $run::<$stored, f16>($($argument),*);
        $run::<$stored, bf16>($($argument),*);
    };
}

fn dense<S: Number, V: Number>() {
    let host = host();
    for gpu in devices() {
        for n in [0, 1, 7, 31, 33, 100] {
            let (values, x): (Vec<S>, Vec<V>) = (values(n * n, 12), values(n, 13));
            let here: Box<dyn Operator<Host, V>> = host.dense(n, values.clone()).unwrap();
            let there: Box<dyn Operator<Gpu, V>> = gpu.dense(n, values).unwrap();
            let mut expected = vec![V::from_f64(f64::NAN); n];
            let mut result = gpu.upload(&expected).unwrap();
            here.apply(V::Wide::from_f64(0.5), &x, V::Wide::ZERO, &mut expected).unwrap();
            there.apply(V::Wide::from_f64(0.5), &gpu.upload(&x).unwrap(), V::Wide::ZERO, &mut result).unwrap();
            close(&download(&gpu, &result), &expected, n as f64, &format!("dense {n}, {}", gpu.description()));
        }
    }
}

#[test]
fn dense_products_are_those_of_the_host() {
    every_pair!(dense());
}

/// A sweep over the colours in each direction, on the host and on a device.
fn colours<S: Number, V: Number>(gpu: &Gpu, a: &crate::sparse::Csr<f64>, width: usize) {
    let host = host();
    let exact = a.clone().into_shared();
    let n = exact.view().scalar_rows();
    let coloured = || Coloured {
        inverse: diagonal::inverse::<f64, f64>(&exact.view(), width, diagonal::AS_IT_IS)
            .unwrap()
            .into_iter()
            .map(S::from_f64)
            .collect(),
        colouring: Colouring::new(&exact.view()).unwrap(),
        matrix: exact.cast::<S>().unwrap(),
        shared: false,
    };
    let here: Box<dyn Colours<Host, V>> = host.colours(coloured()).unwrap();
    let there: Box<dyn Colours<Gpu, V>> = gpu.colours(coloured()).unwrap();
    assert!(there.count() == here.count() && there.solves_exactly() == here.solves_exactly());
    let (b, x): (Vec<V>, Vec<V>) = (values(n, 17), values(n, 18));
    let there_b = gpu.upload(&b).unwrap();
    for count in [here.count(), here.count() - 1] {
        for backward in [false, true] {
            let (mut expected, mut found) = (x.clone(), gpu.upload(&x).unwrap());
            here.pass(&host, count, backward, &b, &mut expected, &mut vec![V::ZERO; n]).unwrap();
            there.pass(gpu, count, backward, &there_b, &mut found, &mut gpu.zeros(n).unwrap()).unwrap();
            let what =
                format!("{}, blocks of {}, {:?} {:?}", gpu.description(), a.block.rows, S::PRECISION, V::PRECISION);
            let largest = expected.iter().fold(1.0, |m: f64, v| m.max(v.to_f64().abs()));
            close(&download(gpu, &found), &expected, 4.0 * largest, &what);
        }
    }
    gpu.status().unwrap();
}

#[test]
fn sweeps_over_colours_are_those_of_the_host() {
    let blocks = crate::gallery::elasticity_hex8(4, crate::gallery::Layers::NONE, true).unwrap().matrix;
    let scalars = crate::gallery::poisson27(7, 6, 5).unwrap();
    for gpu in devices() {
        colours::<f64, f64>(&gpu, &scalars, 1);
        colours::<f32, f32>(&gpu, &scalars, 1);
        colours::<f16, f16>(&gpu, &scalars, 1);
        colours::<bf16, f32>(&gpu, &scalars, 1);
        for width in [1, 3] {
            colours::<f64, f64>(&gpu, &blocks, width);
            colours::<f32, f32>(&gpu, &blocks, width);
            colours::<f32, bf16>(&gpu, &blocks, width);
        }
    }
    for gpu in one_of_each() {
        every_pair!(colours(&gpu, &scalars, 1));
    }
}

#[test]
fn sums_that_are_rounded_are_those_of_the_host() {
    let host = host();
    for gpu in devices() {
        for block in [Block::SCALAR, Block::square(3), Block { rows: 2, cols: 5 }] {
            // Entries of 1/32, so that f32 holds every product, and bf16 no sum.
            let matrix = irregular::<f16>(37, 41, block, 9);
            let (rows, cols) = (matrix.view().scalar_rows(), matrix.view().scalar_cols());
            let (x, b): (Vec<bf16>, Vec<bf16>) = (values(cols, 8), values(rows, 9));
            let here: Box<dyn Operator<Host, bf16, bf16>> =
                host.matrix(matrix.clone(), Columns::Shared, Sums::Rounded).unwrap();
            let there: Box<dyn Operator<Gpu, bf16, bf16>> =
                gpu.matrix(matrix.clone(), Columns::Shared, Sums::Rounded).unwrap();
            let (mut expected, mut found) = (vec![bf16::ZERO; rows], gpu.zeros::<bf16>(rows).unwrap());
            here.residual(&b, &x, &mut expected).unwrap();
            there.residual(&gpu.upload(&b).unwrap(), &gpu.upload(&x).unwrap(), &mut found).unwrap();
            assert_eq!(download(&gpu, &found), expected, "{}, {}", gpu.description(), block.format());
            let wide: Box<dyn Operator<Host, bf16, bf16>> = host.matrix(matrix, Columns::Shared, Sums::Wide).unwrap();
            let mut exact = expected.clone();
            wide.residual(&b, &x, &mut exact).unwrap();
            assert_ne!(exact, expected, "nothing was rounded");
        }
    }
}

#[test]
fn what_a_gpu_leaves_undefined_is_an_error_in_the_simulation() {
    use crate::error::Status;
    let gpu = Gpu::open(DeviceKind::Sim, 32).unwrap();
    let x = gpu.zeroed::<f64>(10).unwrap();
    let fill = gpu.kernel("fill_f64").unwrap();
    // One element more than the array has.
    let run = |kernel, threads, arguments: &[&dyn super::Argument]| {
        gpu.launch(kernel, threads, arguments).and_then(|()| gpu.runtime().synchronize())
    };
    let error = run(fill, 11, &[&11_i64, &1.0_f64, &x.view()]).unwrap_err();
    assert_eq!(error.status, Status::Internal);
    assert!(
        error.message.contains("fill_f64") && error.message.contains("a write at 10 of 10 by thread 10"),
        "{error}"
    );
    let error = gpu.launch(fill, 10, &[&10_i32, &1.0_f64, &x.view()]).unwrap_err();
    assert_eq!(error.message, "parameter 1 of kernel fill_f64 is i64, and i32 is given");
    let error = gpu.launch(fill, 10, &[&10_i64, &x.view(), &1.0_f64]).unwrap_err();
    assert_eq!(error.message, "parameter 2 of kernel fill_f64 is f64, and an array of f64 is given");
    let error = gpu.launch(fill, 10, &[&10_i64, &1.0_f64, &gpu.room::<i64>(10).unwrap().view()]).unwrap_err();
    assert_eq!(error.message, "parameter 3 of kernel fill_f64 is Out<f64>, and an array of i64 is given");
    let error = gpu.launch(fill, 10, &[&10_i64, &1.0_f64]).unwrap_err();
    assert_eq!(error.message, "kernel fill_f64 has 3 parameters, and 2 arguments are given");
    assert_eq!(gpu.kernel("fill_f8").err().map(|e| e.status), Some(Status::Unsupported));

    let fault = |name: &str, arguments: &[&dyn super::Argument]| {
        let kernel = gpu.kernel(name).unwrap();
        run(kernel, 1, arguments)
    };
    let error = fault("fault_barrier", &[&x.view()]).unwrap_err();
    assert!(error.message.contains("barrier that others have passed by"), "{error}");
    let error = fault("fault_exchange", &[&x.view()]).unwrap_err();
    assert!(error.message.contains("while others have ended"), "{error}");
    let error = fault("fault_shared", &[&8_i32, &x.view()]).unwrap_err();
    assert!(error.message.contains("shared memory at 8 of 8"), "{error}");
    fault("fault_shared", &[&7_i32, &x.view()]).unwrap();
    assert!(download(&gpu, &x)[0].is_nan(), "shared memory that nothing wrote is not a number");

    // A failure that could not be returned is told by the next call that can.
    let short = x.piece(0, 3).view();
    gpu.keep(run(fill, 10, &[&10_i64, &1.0_f64, &short]));
    assert!(gpu.dot(&x, &x).is_nan());
    assert!(gpu.status().unwrap_err().message.contains("a write at 3 of 3"));
    assert!(gpu.synchronize().is_err());
}

#[test]
fn offsets_are_sums_of_the_counts_before() {
    for (k, gpu) in devices().into_iter().enumerate() {
        // The last one has so many pieces that their sums are added by themselves.
        let sizes = [0, 1, 255, 256, 257, 4095, 4096, 4097, 20_000, 2_100_000];
        for n in sizes.into_iter().take(if k == 0 { 10 } else { 9 }) {
            let counts: Vec<i32> = (0..n).map(|i| (hash(i, 5) % 7) as i32).collect();
            let (offsets, total) = gpu.offsets(&gpu.upload(&counts).unwrap()).unwrap();
            let mut expected = vec![0_i64];
            expected.extend(counts.iter().scan(0, |sum, c| {
                *sum += i64::from(*c);
                Some(*sum)
            }));
            assert_eq!((gpu.fetch(&offsets).unwrap(), total as i64), (expected.clone(), expected[n]));
        }
    }
}
