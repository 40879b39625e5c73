//! Multivectors: products in every format, smoothing steps, and the operations of conjugate gradients, against the host.

use super::fused::formats;
use super::stencils::{ALL, SEVEN, stencil};
use super::*;
use crate::backend::{Multivectors, Recurrence};
use crate::host::multivector::has_kernels;
use crate::scalar::Scalar;
use crate::sparse::{Coarsened, ColouredStencil, Grid, SharedStencil, SharedTransfer, TransferPattern};

/// Small whole numbers, so that sums do not depend on their order.
fn numbers<T: Number>(n: usize, seed: u64) -> Vec<T> {
    (0..n).map(|i| T::from_f64((hash(i, seed) % 9) as f64 - 4.0)).collect()
}

fn compare<V: Scalar, D: Number>(gpu: &Gpu, here: &dyn Operator<Host, V>, there: &dyn Operator<Gpu, V>, what: &str) {
    let (host, n, k) = (host(), here.rows(), here.vectors());
    assert_eq!((there.rows(), there.vectors()), (n, k), "{what}");
    let (x, b, p): (Vec<V>, Vec<V>, Vec<V>) = (numbers(n, 2), numbers(n, 3), numbers(n, 4));
    let [device_x, device_b] = [&x, &b].map(|v| gpu.upload(v).unwrap());
    let new = |v: &[V]| (v.to_vec(), gpu.upload(v).unwrap());
    let check =
        |found: &Slice<V>, expected: &[V], of: &str| assert_eq!(download(gpu, found), expected, "{of} of {what}");

    let (two, half) = (V::from_f64(2.0), V::from_f64(0.5));
    let (mut y, mut device_y) = new(&b);
    here.apply(two, &x, half, &mut y).unwrap();
    there.apply(two, &device_x, half, &mut device_y).unwrap();
    check(&device_y, &y, "product");
    let (mut r, mut device_r) = new(&p);
    here.residual(&b, &x, &mut r).unwrap();
    there.residual(&device_b, &device_x, &mut device_r).unwrap();
    check(&device_r, &r, "residual");
    host.add_product(here, two, &x, &b, &mut y).unwrap();
    gpu.add_product(there, two, &device_x, &device_b, &mut device_y).unwrap();
    check(&device_y, &y, "sum");
    let (mut q, mut device_q) = new(&p);
    let dots = host.multivector_product(here, &x, &mut q).unwrap();
    assert_eq!(gpu.multivector_product(there, &device_x, &mut device_q).unwrap(), dots, "{what}");
    check(&device_q, &q, "product with inner products");

    let d: Vec<D> = numbers(n / k, 5);
    let device_d = gpu.upload(&d).unwrap();
    host.sweep(here, &d, &b, &x, &mut y).unwrap();
    gpu.sweep(there, &device_d, &device_b, &device_x, &mut device_y).unwrap();
    check(&device_y, &y, "sweep");
    for beta in [0.0, -1.0] {
        let (mut own_p, mut device_p) = new(&p);
        host.chebyshev(here, &d, &b, &x, Recurrence::new(2.0, beta, &mut own_p[..]), &mut y).unwrap();
        let recurrence = Recurrence::new(2.0, beta, &mut *device_p);
        gpu.chebyshev(there, &device_d, &device_b, &device_x, recurrence, &mut device_y).unwrap();
        check(&device_y, &y, "Chebyshev step");
        check(&device_p, &own_p, "direction");
    }
    gpu.status().unwrap();
}

fn every_format<V: Scalar, S: Number>(gpu: &Gpu) {
    let host = host();
    let scalar = [SellKernel::Rows, SellKernel::Shared(2)];
    let blocks = [SellKernel::Blocks(1), SellKernel::Blocks(2)];
    for (matrix, forms) in [
        (irregular::<f64>(137, 137, Block::SCALAR, 9), &scalar[..]),
        (irregular::<f64>(40, 40, Block::square(3), 9), &blocks),
        (irregular::<f64>(33, 33, Block::square(4), 9), &blocks),
    ] {
        let mut matrix = matrix.view().to_owned_as::<f64>().unwrap();
        matrix.values = numbers(matrix.values.len(), 1);
        let matrix = matrix.into_shared().cast::<S>().unwrap();
        let here: Arc<dyn Operator<Host, V>> = host.matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap().into();
        let mut seen = 0;
        for there in formats::<V, S>(gpu, &matrix, forms) {
            let (format, there): (_, Arc<dyn Operator<Gpu, V>>) = (there.format(), there.into());
            for k in [4, 8] {
                let what = format!("{format} with {k} vectors on {}", gpu.description());
                let here = Arc::clone(&here).for_multivectors(k).unwrap();
                let there = Arc::clone(&there).for_multivectors(k);
                assert_eq!(there.is_some(), format != "csr_balanced", "{what}");
                if let Some(there) = there {
                    compare::<V, f32>(gpu, &*here, &*there, &what);
                    seen += 1;
                }
            }
        }
        assert!(seen >= 12, "{seen}");
    }
    let values: Vec<S> = numbers(70 * 70, 6);
    let here: Arc<dyn Operator<Host, V>> = host.dense(70, values.clone()).unwrap().into();
    let there: Arc<dyn Operator<Gpu, V>> = gpu.dense(70, values).unwrap().into();
    let here = here.for_multivectors(8).unwrap();
    compare::<V, f64>(gpu, &*here, &*there.for_multivectors(8).unwrap(), "a dense matrix");
}

#[test]
fn products_with_multivectors_are_those_of_the_host() {
    for gpu in devices() {
        every_format::<f64, f64>(&gpu);
    }
    for gpu in devices() {
        every_format::<f32, f32>(&gpu);
        every_format::<f64, f16>(&gpu);
        every_format::<f32, bf16>(&gpu);
    }
    assert!(!has_kernels(Precision::F64, Precision::F32));
}

/// Vector c of a multivector.
fn vector<T: Copy>(x: &[T], k: usize, c: usize) -> Vec<T> {
    x[c..].iter().step_by(k).copied().collect()
}

/// Compares vector c of a multivector with what that vector alone gives: on a simulated device to the bit.
fn same_vector<V: Scalar>(gpu: &Gpu, found: &[V], (k, c): (usize, usize), alone: &Slice<V>, what: &str) {
    let (own, alone) = (vector(found, k, c), download(gpu, alone));
    assert!(!gpu.description().contains("sim") || own == alone, "vector {c} of {k}, {what}");
    close(&own, &alone, 16.0, what);
}

/// Passes over multivectors, and from zero.
fn sweeps<S: Number, V: Scalar>(gpu: &Gpu, a: &SharedStencil<S>) {
    let n = a.pattern.scalar_rows();
    let what = format!("{} {:?} {:?} {:?}", a.pattern.format(), a.pattern.grid, S::PRECISION, V::PRECISION);
    let inverse = vec![S::from_f64(0.125); n];
    let coloured = ColouredStencil { matrix: a.clone(), inverse, lines: None, shared: false };
    let colours: Box<dyn Colours<Gpu, V>> = gpu.stencil_colours(coloured).unwrap();
    assert!(colours.takes_multivectors(), "{what}");
    let count = colours.count();
    for k in [4, 8] {
        let (b, x): (Vec<V>, Vec<V>) = (values(n * k, 17), values(n * k, 18));
        let [device_b, nothing] = [&b, &vec![V::from_f64(f64::NAN); n * k]].map(|v| gpu.upload(v).unwrap());
        let scratch = &mut gpu.zeros(1).unwrap();
        for (backward, count, zero) in [
            (false, count, false),
            (true, count, false),
            (true, count - 1, false),
            (false, count, true),
            (true, count, true),
        ] {
            let mut found = if zero { gpu.upload(&download(gpu, &nothing)).unwrap() } else { gpu.upload(&x).unwrap() };
            let mut pass = |b: &Slice<V>, x: &mut Slice<V>| match zero {
                true => colours.pass_from_zero(gpu, count, backward, b, x, scratch).unwrap(),
                false => colours.pass(gpu, count, backward, b, x, scratch).unwrap(),
            };
            pass(&device_b, &mut found);
            let found = download(gpu, &found);
            // The first and the last vector stand for all: each has its own thread or pack.
            for c in [0, 3, k - 1] {
                let (own_b, mut alone) =
                    (gpu.upload(&vector(&b, k, c)).unwrap(), gpu.upload(&vector(&x, k, c)).unwrap());
                pass(&own_b, &mut alone);
                let what = format!("{what}, backward {backward}, {count} colours, from zero {zero}");
                same_vector(gpu, &found, (k, c), &alone, &what);
            }
        }
    }
    gpu.status().unwrap();
}

/// Transfers between grids, with whole numbers.
fn transfers<S: Number, V: Scalar>(gpu: &Gpu, pattern: &Arc<TransferPattern>) {
    let weights = Arc::new(numbers::<S>(pattern.entries(), 31));
    for transposed in [false, true] {
        let matrix = SharedTransfer { pattern: Arc::clone(pattern), transposed, values: weights.clone() };
        let here: Arc<dyn Operator<Host, V>> = host().grid_transfer(matrix.clone(), Sums::Wide).unwrap().into();
        let there: Arc<dyn Operator<Gpu, V>> = gpu.grid_transfer(matrix, Sums::Wide).unwrap().into();
        let (rows, cells) = (here.rows(), [pattern.grids.fine.cells(), pattern.grids.coarse.cells()]);
        for k in [4, 8] {
            let what = format!("{:?} from {}, {transposed}, {k} vectors", pattern.grids, pattern.low);
            let (here, there) = (Arc::clone(&here).for_multivectors(k), Arc::clone(&there).for_multivectors(k));
            let (here, there) = (here.unwrap(), there.unwrap());
            let (x, b) = (numbers::<V>(cells[usize::from(!transposed)] * k, 2), numbers::<V>(rows * k, 3));
            let (mut y, mut found) = (b.clone(), gpu.upload(&b).unwrap());
            let two = V::from_f64(2.0);
            here.apply(two, &x, V::ONE, &mut y).unwrap();
            there.apply(two, &gpu.upload(&x).unwrap(), V::ONE, &mut found).unwrap();
            assert_eq!(download(gpu, &found), y, "{what}");
            here.apply(two, &x, V::ZERO, &mut y).unwrap();
            there.apply(two, &gpu.upload(&x).unwrap(), V::ZERO, &mut found).unwrap();
            assert_eq!(download(gpu, &found), y, "{what}");
        }
    }
}

fn on_grids<S: Number, V: Scalar>(gpu: &Gpu) {
    for (case, (dims, periodic)) in [
        ([1, 1, 1], [false; 3]),
        ([13, 9, 1], [false; 3]),
        ([17, 4, 3], [false; 3]),
        ([16, 5, 4], [false; 3]),
        ([6, 3, 5], [false, true, true]),
        ([600, 2, 1], [false; 3]),
        ([1100, 1, 2], [false; 3]),
    ]
    .into_iter()
    .enumerate()
    {
        let nineteen: Vec<_> = ALL.into_iter().filter(|offset| offset.contains(&0)).collect();
        let offsets = [&SEVEN[..], &ALL, &nineteen][case % 3];
        let a = stencil::<S>(dims, periodic, 1, offsets);
        sweeps::<S, V>(gpu, &a);
        let here: Arc<dyn Operator<Host, V>> = host().stencil(a.clone(), Sums::Wide).unwrap().into();
        let there: Arc<dyn Operator<Gpu, V>> = gpu.stencil(a.clone(), Sums::Wide).unwrap().into();
        for k in [4, 8] {
            let what = format!("{} {:?} with {k} vectors", a.pattern.format(), a.pattern.grid);
            let (here, there) = (Arc::clone(&here).for_multivectors(k), Arc::clone(&there).for_multivectors(k));
            compare::<V, f32>(gpu, &*here.unwrap(), &*there.unwrap(), &what);
        }
        let axes = [[true; 3], [true, false, true], [false, true, false]][case % 3];
        for low in [0, -1] {
            let grids = Coarsened::new(Grid { dims, periodic }, axes);
            transfers::<S, V>(gpu, &Arc::new(TransferPattern::new(grids, 1, low)));
        }
    }
}

#[test]
fn grids_have_for_multivectors_what_each_vector_has_alone() {
    for gpu in devices() {
        on_grids::<f64, f64>(&gpu);
    }
    for gpu in devices() {
        on_grids::<f16, f32>(&gpu);
    }
    let gpu = &one_of_each()[0];
    on_grids::<f32, f32>(gpu);
}

fn operations<T: Scalar>(gpu: &Gpu) {
    let host = host();
    let alpha = [1.0, 0.0, 2.0, -1.0, 0.0, 3.0, 1.0, 2.0];
    for (k, n) in [(4, 1), (8, 3), (4, 700), (8, 40_000)] {
        let what = format!("{n} rows, {k} vectors on {}", gpu.description());
        let [z, r, q, p]: [Vec<T>; 4] = [1, 2, 3, 4].map(|seed| numbers(n * k, seed));
        let [on_z, on_r, on_q, on_p] = [&z, &r, &q, &p].map(|v| gpu.upload(v).unwrap());
        for (q, on_q) in [(None, None), (Some(&q[..]), Some(&*on_q))] {
            let dots = gpu.multivector_dots(k, &on_z, &on_r, on_q).unwrap();
            assert_eq!(dots, host.multivector_dots(k, &z, &r, q).unwrap(), "{what}");
        }
        let (mut own_p, mut there_p) = (p.clone(), gpu.upload(&p).unwrap());
        host.multivector_direction(k, &z, &alpha, &mut own_p).unwrap();
        gpu.multivector_direction(k, &on_z, &alpha, &mut there_p).unwrap();
        assert_eq!(download(gpu, &there_p), own_p, "{what}");
        let (mut x, mut own_r, mut on_x, mut there_r) =
            (z.clone(), r.clone(), gpu.upload(&z).unwrap(), gpu.upload(&r).unwrap());
        let rr = host.multivector_step(k, &alpha, (&p, &q), &mut x, &mut own_r).unwrap();
        assert_eq!(gpu.multivector_step(k, &alpha, (&on_p, &on_q), &mut on_x, &mut there_r).unwrap(), rr, "{what}");
        assert_eq!((download(gpu, &on_x), download(gpu, &there_r)), (x.clone(), own_r), "{what}");
        let v: Vec<f32> = numbers(n, 7);
        host.put_vector((k, 3), 2.0, &v, &mut x).unwrap();
        gpu.put_vector((k, 3), 2.0, &gpu.upload(&v).unwrap(), &mut on_x).unwrap();
        assert_eq!(download(gpu, &on_x), x, "{what}");
        let (mut taken, mut there) = (vec![T::ZERO; n], gpu.zeros::<T>(n).unwrap());
        host.take_vector((k, 2), 0.5, &x, &mut taken).unwrap();
        gpu.take_vector((k, 2), 0.5, &on_x, &mut there).unwrap();
        assert_eq!(download(gpu, &there), taken, "{what}");
        for width in [1, 2, 3] {
            let (n, d) = (n * width, numbers::<f32>(n * width * width, 8));
            let (r, p, on_d): (Vec<T>, Vec<T>, _) = (numbers(n * k, 9), numbers(n * k, 10), gpu.upload(&d).unwrap());
            let (on_r, mut x, mut on_x) = (gpu.upload(&r).unwrap(), p.clone(), gpu.upload(&p).unwrap());
            host.add_scaled_by(k, &d, &r, &mut x);
            gpu.add_scaled_by(k, &on_d, &on_r, &mut on_x);
            assert_eq!(download(gpu, &on_x), x, "{what}");
            host.scale_by(k, &d, &r, &mut x);
            gpu.scale_by(k, &on_d, &on_r, &mut on_x);
            assert_eq!(download(gpu, &on_x), x, "{what}");
            let (mut own_p, mut there_p) = (p.clone(), gpu.upload(&p).unwrap());
            host.chebyshev_update(k, &d, &r, Recurrence::new(2.0, -1.0, &mut own_p[..]), &mut x, false);
            let recurrence = Recurrence::new(2.0, -1.0, &mut *there_p);
            gpu.chebyshev_update(k, &on_d, &on_r, recurrence, &mut on_x, false);
            assert_eq!((download(gpu, &on_x), download(gpu, &there_p)), (x, own_p), "{what}");
        }
    }
}

#[test]
fn operations_on_multivectors_are_those_of_the_host() {
    for gpu in devices() {
        operations::<f64>(&gpu);
    }
    for gpu in devices() {
        operations::<f32>(&gpu);
    }
}
