//! Every kernel against the host, on simulated GPUs with threads in one order or the other, and on `cuda:0` where
//! TERRACE_TEST_CUDA is set.

use super::bsr::Bsr;
use super::csr::{CompactColumns, Csr};
use super::csr_balanced::{CsrBalanced, LongRows};
use super::product::{Precisions, Product, operator_of};
use super::sell::Sell;
use super::sell_chunks::{ChunkParameters, SellKernel};
use super::sell_layout::SellLayout;
use super::setup::DeviceCsr;
use super::to_scalar::to_scalar;
use super::{Gpu, Slice};
use crate::backend::{Backend, Colours, Columns, Operator, StorageFactory};
use crate::context::Context;
use crate::device_kind::DeviceKind;
use crate::hash::hash;
use crate::host::Host;
use crate::host::diagonal;
use crate::range::Range;
use crate::scalar::{Number, Precision, Sums};
use crate::skip::{is_deep, skipped};
use crate::sparse::{Block, Coloured, Colouring, SharedCsr};
use half::{bf16, f16};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

mod fused;
mod multivectors;
mod products;
mod stencils;
mod vectors;

/// A simulated device, whose threads run in one order and in the other from call to call, and real ones always. All with TERRACE_DEEP.
pub(super) fn devices() -> Vec<Gpu> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed) % SIMULATED.max(1);
    chosen_devices(|k| is_deep() || k == next)
}

/// Simulated devices with both orders of threads, one after the other, and real ones.
pub(super) fn devices_in_both_orders() -> Vec<Gpu> {
    chosen_devices(|_| true)
}

/// The simulated ones whose numbers are chosen, and real ones.
fn chosen_devices(chosen: impl Fn(usize) -> bool) -> Vec<Gpu> {
    let simulated = |k: usize| Gpu::open(DeviceKind::Sim, k).unwrap();
    let mut all: Vec<Gpu> = (0..SIMULATED).filter(|k| chosen(*k)).map(simulated).collect();
    if std::env::var_os("TERRACE_TEST_CUDA").is_some() {
        all.push(Gpu::open(DeviceKind::Cuda, 0).unwrap());
    } else {
        skipped("tests on cuda:0", "TERRACE_TEST_CUDA is not set");
    }
    all
}

/// Simulated ones among these, which come first.
pub(super) const SIMULATED: usize = if terrace_kernels::SIM { 2 } else { 0 };

/// One simulated device, where a test takes its time, and all real ones.
pub(super) fn one_of_each() -> Vec<Gpu> {
    chosen_devices(|k| k == 0)
}

/// Simulated device number `case`, where a loop counts its cases so that what it varies meets every device, and real ones always. All with
/// TERRACE_DEEP.
pub(super) fn devices_for(case: usize) -> Vec<Gpu> {
    chosen_devices(|k| is_deep() || k == case % SIMULATED.max(1))
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

/// A matrix on a device, with what its formats for all precisions of vectors have in common.
struct AllFormats<S: Number> {
    a: DeviceCsr<S>,
    plain: DeviceCsr<S>,
    columns: Arc<CompactColumns>,
    long: Arc<LongRows>,
    layouts: Vec<(ChunkParameters, Arc<SellLayout>)>,
}

impl<S: Number> AllFormats<S> {
    fn new(gpu: &Gpu, matrix: &SharedCsr<S>) -> AllFormats<S> {
        let a = DeviceCsr::upload(gpu, &matrix.view()).unwrap();
        let plain = to_scalar(gpu, &a).unwrap();
        let columns = Arc::new(CompactColumns::new(gpu, &plain.pattern()).unwrap());
        let long = Arc::new(LongRows::with(gpu, &plain.pattern(), 8, 16).unwrap());
        AllFormats { a, plain, columns, long, layouts: Vec::new() }
    }

    fn layout(&mut self, gpu: &Gpu, cut: ChunkParameters) -> Arc<SellLayout> {
        if let Some((_, layout)) = self.layouts.iter().find(|(known, _)| *known == cut) {
            return Arc::clone(layout);
        }
        let layout = Arc::new(SellLayout::new(gpu, &self.a.pattern(), cut).unwrap());
        self.layouts.push((cut, Arc::clone(&layout)));
        layout
    }

    /// All formats, with SELL chunks for these kernels. One function for all formats of vectors.
    fn products(&mut self, gpu: &Gpu, precisions: Precisions, forms: &[SellKernel]) -> Vec<Box<dyn Product>> {
        let AllFormats { a, plain, columns, long, .. } = &*self;
        let mut all: Vec<Box<dyn Product>> = vec![
            Box::new(Csr::short(gpu, plain.clone(), columns, precisions).unwrap()),
            Box::new(Bsr::tiled(gpu, plain, precisions).unwrap().unwrap()),
            Box::new(CsrBalanced::new(gpu, plain.clone(), long, precisions).unwrap()),
            Box::new(Csr::new(gpu, plain.clone(), precisions).unwrap()),
        ];
        if Bsr::knows(a.block) {
            all.push(Box::new(Bsr::new(gpu, a, precisions).unwrap()));
        }
        for form in forms {
            let bits: &[usize] = if *form == SellKernel::Rows { &[8, 16] } else { &[16] };
            for (bits, sorted) in bits.iter().flat_map(|bits| [(*bits, true), (*bits, false)]) {
                let cut = ChunkParameters::with_kernel(*form, S::PRECISION, precisions.sums, bits, sorted);
                let layout = self.layout(gpu, cut);
                all.push(Box::new(Sell::new(gpu, &self.a, &layout, precisions).unwrap()));
            }
        }
        all
    }
}

#[test]
fn what_a_gpu_leaves_undefined_is_an_error_in_the_simulation() {
    use crate::error::Status;
    if !terrace_kernels::SIM {
        return skipped("faults of kernels", "this build has no simulated GPU");
    }
    let gpu = Gpu::open(DeviceKind::Sim, 0).unwrap();
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
    let error = gpu.launch(fill, 10, &[&10_i64, &1.0_f64, &gpu.allocate::<i64>(10).unwrap().view()]).unwrap_err();
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
    let short = x.subslice(0, 3).view();
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
