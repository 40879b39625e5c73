//! Products that do more with their rows than store them, and steps of conjugate gradients.

use super::*;
use crate::backend::{Beta, CgScalars, CgStep, Recurrence};
use crate::scalar::Scalar;

/// The formats that a matrix can have, with their SELL chunks.
pub(super) fn formats<V: Number, S: Number>(
    gpu: &Gpu,
    matrix: &SharedCsr<S>,
    forms: &[SellKernel],
) -> Vec<Box<dyn Operator<Gpu, V>>> {
    let chosen = gpu.matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap();
    let all = AllFormats::new(gpu, matrix).products(gpu, Precisions::of::<S, V, V>(), forms);
    std::iter::once(chosen).chain(all.into_iter().map(operator_of)).collect()
}

/// The same to the bit in f64, which holds everything that is computed here exactly, and elsewhere as equal as rounding
/// leaves it.
fn same<V: Number>(gpu: &Gpu, found: &Slice<V>, expected: &[V], scale: f64, what: &str) {
    let found = download(gpu, found);
    if V::PRECISION == Precision::F64 {
        assert_eq!(found, expected, "{what}");
    } else {
        close(&found, expected, scale, what);
    }
}

/// Sweeps, Chebyshev steps and residuals with their norms of an operator, with D in blocks of `width` rows.
fn compare_forms<V: Number, D: Number>(
    gpu: &Gpu,
    on_host: &dyn Operator<Host, V>,
    on_device: &dyn Operator<Gpu, V>,
    width: usize,
    what: &str,
) {
    let (host, n) = (host(), on_host.rows());
    let (d, b, x, p): (Vec<D>, Vec<V>, Vec<V>, Vec<V>) =
        (values(n * width, 15), values(n, 16), values(n, 17), values(n, 18));
    let [device_b, device_x] = [&b, &x].map(|v| gpu.upload(v).unwrap());
    let device_d = gpu.upload(&d).unwrap();
    let lost = vec![V::from_f64(f64::NAN); n];
    let what = format!("{}, D of {} in blocks of {width}, {what}", on_device.format(), D::PRECISION.name());
    let scale = (n * width) as f64;

    let (mut r, mut device_r) = (lost.clone(), gpu.upload(&lost).unwrap());
    let norm = host.residual_norm(on_host, &b, &x, &mut r).unwrap();
    let found = gpu.residual_norm(on_device, &device_b, &device_x, &mut device_r).unwrap();
    same(gpu, &device_r, &r, scale, &format!("residual, {what}"));
    assert!((norm - found).abs() <= 4.0 * epsilon::<V>() * (1.0 + norm), "{what}: |r| is {found}, should be {norm}");

    let (mut expected, mut result) = (x.clone(), gpu.upload(&lost).unwrap());
    host.add_scaled_by(1, &d, &r, &mut expected);
    gpu.sweep(on_device, &device_d, &device_b, &device_x, &mut result).unwrap();
    same(gpu, &result, &expected, scale, &format!("sweep, {what}"));

    for (alpha, beta) in [(0.75, 0.0), (0.5, -0.25)] {
        // A direction that is not read may hold anything.
        let before = if beta == 0.0 { &lost } else { &p };
        let (mut p, mut device_p) = (before.clone(), gpu.upload(before).unwrap());
        let (mut y, mut device_y) = (lost.clone(), gpu.upload(&lost).unwrap());
        host.chebyshev(on_host, &d, &b, &x, Recurrence::new(alpha, beta, &mut p[..]), &mut y).unwrap();
        let recurrence = Recurrence::new(alpha, beta, &mut *device_p);
        gpu.chebyshev(on_device, &device_d, &device_b, &device_x, recurrence, &mut device_y).unwrap();
        let what = format!("α = {alpha}, β = {beta}, {what}");
        same(gpu, &device_p, &p, scale, &format!("direction of a Chebyshev step, {what}"));
        same(gpu, &device_y, &y, scale, &format!("Chebyshev step, {what}"));
        // A last step gives the same, and leaves p.
        let mut device_p = gpu.upload(before).unwrap();
        let last = Recurrence { keep: false, ..Recurrence::new(alpha, beta, &mut *device_p) };
        gpu.chebyshev(on_device, &device_d, &device_b, &device_x, last, &mut device_y).unwrap();
        same(gpu, &device_y, &y, scale, &format!("last Chebyshev step, {what}"));
        assert!(download(gpu, &device_p).iter().zip(before).all(|(p, q)| p.to_f64().to_bits() == q.to_f64().to_bits()));
        // One that follows a step from zero, whose direction x has.
        let (mut p, mut device_p) = (lost.clone(), gpu.upload(&lost).unwrap());
        let second = Recurrence { of_x: true, keep: false, ..Recurrence::new(alpha, beta, &mut p[..]) };
        host.chebyshev(on_host, &d, &b, &x, second, &mut y).unwrap();
        let second = Recurrence { of_x: true, keep: false, ..Recurrence::new(alpha, beta, &mut *device_p) };
        gpu.chebyshev(on_device, &device_d, &device_b, &device_x, second, &mut device_y).unwrap();
        same(gpu, &device_y, &y, scale, &format!("Chebyshev step from x, {what}"));
    }
    assert_eq!(download(gpu, &device_x), x, "{what}");
    gpu.status().unwrap();
}

/// All forms of all formats; those that have block rows together also with blocks of D.
fn forms<V: Number, S: Number, D: Number>(gpu: &Gpu, block: Block, blocks: usize, forms: &[SellKernel]) {
    let matrix = irregular::<S>(blocks, blocks, block, 9);
    let names = [S::PRECISION, V::PRECISION].map(Precision::name);
    let what = format!("{}, {blocks} block rows of {} in {}", gpu.description(), names[0], names[1]);
    let on_host: Box<dyn Operator<Host, V>> = host().matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap();
    for on_device in formats::<V, S>(gpu, &matrix, forms) {
        compare_forms::<V, D>(gpu, &*on_host, &*on_device, 1, &what);
        if block.rows > 1 && on_device.has_epilogue(block.rows) {
            compare_forms::<V, D>(gpu, &*on_host, &*on_device, block.rows, &what);
        }
    }
    if V::PRECISION.bytes() == 2 {
        let on_host: Box<dyn Operator<Host, V>> =
            host().matrix(matrix.clone(), Columns::Shared, Sums::Rounded).unwrap();
        let on_device: Box<dyn Operator<Gpu, V>> = gpu.matrix(matrix, Columns::Shared, Sums::Rounded).unwrap();
        assert!(on_device.has_epilogue(block.rows));
        compare_forms::<V, D>(gpu, &*on_host, &*on_device, block.rows, &format!("rounded sums, {what}"));
    }
}

#[test]
fn sweeps_and_chebyshev_steps_in_one_pass_are_those_of_the_host() {
    for n in [0, 1, 64, 129, 300] {
        for gpu in devices() {
            forms::<f64, f64, f64>(&gpu, Block::SCALAR, n, &[SellKernel::Rows, SellKernel::Shared(8)]);
        }
    }
    for (side, count) in [(2, 77), (3, 0), (3, 1), (3, 90), (4, 40), (5, 40), (6, 40), (7, 9), (8, 40)] {
        for gpu in devices() {
            forms::<f64, f64, f64>(&gpu, Block::square(side), count, &[1, 2, 4].map(SellKernel::Blocks));
        }
    }
}

#[test]
fn forms_of_products_know_every_precision() {
    // Storages, formats of vectors and blocks meet every device, and each other.
    fn every_storage<V: Number, D: Number>(vector: usize) {
        let (rows, blocks) =
            ([SellKernel::Rows, SellKernel::Shared(2)], [SellKernel::Blocks(1), SellKernel::Blocks(2)]);
        for side in [1, 2, 3] {
            let (block, used) = if side == 1 { (Block::SCALAR, &rows) } else { (Block::square(side), &blocks) };
            let case = vector + side;
            if const { !V::PRECISION.is_scalar() } {
                devices_for(case).iter().for_each(|gpu| forms::<V, V, D>(gpu, block, 70, used));
                continue;
            }
            devices_for(case).iter().for_each(|gpu| forms::<V, f64, D>(gpu, block, 70, used));
            devices_for(case + 1).iter().for_each(|gpu| forms::<V, f32, D>(gpu, block, 70, used));
            devices_for(case + 2).iter().for_each(|gpu| forms::<V, f16, D>(gpu, block, 70, used));
            devices_for(case + 3).iter().for_each(|gpu| forms::<V, bf16, D>(gpu, block, 70, used));
        }
    }
    every_storage::<f64, f16>(0);
    every_storage::<f32, bf16>(1);
    every_storage::<f16, f16>(2);
    every_storage::<bf16, bf16>(3);
}

#[test]
fn formats_tell_which_blocks_of_a_diagonal_they_have_together() {
    let gpu = devices().remove(0);
    let together = |block: Block, forms: &[SellKernel]| -> Vec<(String, bool)> {
        let all = formats::<f64, f64>(&gpu, &irregular(40, 40, block, 9), forms);
        assert!(all.iter().all(|a| a.has_epilogue(1)));
        all.iter().map(|a| (a.format(), a.has_epilogue(block.rows))).collect()
    };
    let expected = |all: &[(&str, bool)]| all.iter().map(|(name, is)| (name.to_string(), *is)).collect::<Vec<_>>();
    let rows =
        |first, tiles| [(first, true), ("csr16", true), ("tiles4x4", tiles), ("csr_balanced", false), ("csr", true)];
    let few = [("sell16s_3x3", false), ("sell16_3x3", false), ("sell16s_3x3", false), ("sell16_3x3", false)];
    assert_eq!(
        together(Block::square(3), &[SellKernel::Blocks(2), SellKernel::Blocks(4)]),
        expected(&[&rows("csr", false)[..], &few].concat())
    );
    let blocks = [("bsr4x4", true), ("sell16s_4x4", false), ("sell16_4x4", false)];
    assert_eq!(
        together(Block::square(4), &[SellKernel::Blocks(2)]),
        expected(&[&rows("bsr4x4", true)[..], &blocks].concat())
    );
}

fn chebyshev_updates<V: Number, D: Number>(gpu: &Gpu) {
    let host = host();
    for width in [1, 2, 3, 6] {
        for n in [0, width, 86 * width, 400 * width] {
            let (d, r, x, p): (Vec<D>, Vec<V>, Vec<V>, Vec<V>) =
                (values(n * width, 5), values(n, 6), values(n, 7), values(n, 8));
            let lost = vec![V::from_f64(f64::NAN); n];
            let (device_d, device_r) = (gpu.upload(&d).unwrap(), gpu.upload(&r).unwrap());
            for (beta, zero_guess) in [(0.0, true), (0.0, false), (-0.5, false)] {
                // What is not read may hold anything.
                let mut p = if beta == 0.0 { lost.clone() } else { p.clone() };
                let mut x = if zero_guess { lost.clone() } else { x.clone() };
                let (mut device_p, mut device_x) = (gpu.upload(&p).unwrap(), gpu.upload(&x).unwrap());
                host.chebyshev_update(1, &d, &r, Recurrence::new(0.75, beta, &mut p[..]), &mut x, zero_guess);
                let recurrence = Recurrence::new(0.75, beta, &mut *device_p);
                gpu.chebyshev_update(1, &device_d, &device_r, recurrence, &mut device_x, zero_guess);
                let what = format!("{}, {n} rows in blocks of {width}, β = {beta}", gpu.description());
                same(gpu, &device_p, &p, 2.0 + width as f64, &format!("turn, {what}"));
                same(gpu, &device_x, &x, 2.0 + width as f64, &format!("step, {what}"));
                gpu.status().unwrap();
            }
        }
    }
}

#[test]
fn turns_with_their_steps_are_those_of_the_host() {
    for gpu in devices() {
        chebyshev_updates::<f64, f64>(&gpu);
        chebyshev_updates::<f64, bf16>(&gpu);
        chebyshev_updates::<f32, f16>(&gpu);
        chebyshev_updates::<f16, f32>(&gpu);
        chebyshev_updates::<bf16, f64>(&gpu);
    }
}

/// Products with inner products, and steps of conjugate gradients.
fn fused<V: Scalar, S: Number>(gpu: &Gpu, block: Block, blocks: usize, forms: &[SellKernel]) {
    let matrix = irregular::<S>(blocks, blocks, block, 9);
    let (host, n) = (host(), matrix.view().scalar_rows());
    let what = format!("{}, {n} rows of {} in {}", gpu.description(), S::PRECISION.name(), V::PRECISION.name());
    let on_host: Box<dyn Operator<Host, V>> = host.matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap();
    let (b, x): (Vec<V>, Vec<V>) = (values(n, 16), values(n, 17));
    let device_x = gpu.upload(&x).unwrap();
    for on_device in formats::<V, S>(gpu, &matrix, forms) {
        let what = format!("{}, {what}", on_device.format());
        let mut expected = vec![V::from_f64(f64::NAN); n];
        let mut result = gpu.upload(&expected).unwrap();
        let (mut step, mut device_step) = (host.cg_step().unwrap(), gpu.cg_step().unwrap());
        step.product(&*on_host, &x, &mut expected).unwrap();
        device_step.product(&*on_device, &device_x, &mut result).unwrap();
        let (dot, found) = (step.read_scalars().unwrap().pq, device_step.read_scalars().unwrap().pq);
        close(&download(gpu, &result), &expected, n as f64, &what);
        let bound = 16.0 * epsilon::<V>() * (n * n) as f64;
        assert!((dot - found).abs() <= bound, "{what}: x·Ax is {found}, should be {dot}");
    }
    let on_host = cg_steps(&host, &b, &x, |v| v.to_vec());
    let on_device = cg_steps(gpu, &b, &x, |v| download(gpu, v));
    assert_eq!(on_device.0, on_host.0, "step, {what}");
    let (expected, found) = (on_host.1.rr, on_device.1.rr);
    assert!((expected - found).abs() <= 1e-13 * (1 + n) as f64, "step, {what}: {found}, should be {expected}");
    gpu.status().unwrap();
}

/// x, r and p after a step with α = 0.25, an update of p with β = -0.5, and a step without a positive p·q; and the
/// scalars at the end.
fn cg_steps<B: StorageFactory, V: Scalar>(
    backend: &B,
    b: &[V],
    x: &[V],
    read: impl Fn(&B::Slice<V>) -> Vec<V>,
) -> ([Vec<V>; 3], CgScalars) {
    let array = |values: &[V]| backend.array(values.to_vec()).unwrap();
    let [zero, one, two] = [0.0, 1.0, 2.0].map(|v| array(&[V::from_f64(v)]));
    let lost = array(&vec![V::from_f64(f64::NAN); x.len()]);
    let four: Box<dyn Operator<B, V>> = backend.dense(1, vec![4.0_f64]).unwrap();
    let (b, x, mut new_x, mut r) = (array(b), array(x), array(x), array(b));
    let (mut p, mut q) = (array(&read(&lost)), array(&[V::ZERO]));
    let mut step = backend.cg_step().unwrap();
    step.begin(&*new_x).unwrap();
    step.dots(&*one, &*one, Beta::Zero).unwrap();
    step.update_direction(&*b, &mut *p).unwrap();
    step.product(&*four, &one, &mut q).unwrap();
    step.update_solution((&*p, &*x), &mut *new_x, &mut *r).unwrap();
    let scalars = step.read_scalars().unwrap();
    assert_eq!([scalars.zr, scalars.beta, scalars.pq, scalars.alpha], [1.0, 0.0, 4.0, 0.25]);
    step.dots(&*two, &*two, Beta::Flexible(&*one)).unwrap();
    step.update_direction(&*x, &mut *p).unwrap();
    step.product(&*four, &zero, &mut q).unwrap();
    step.update_solution((&*lost, &*lost), &mut *new_x, &mut *r).unwrap();
    let scalars = step.read_scalars().unwrap();
    assert_eq!([scalars.zr, scalars.zq, scalars.previous_zr, scalars.beta], [4.0, 2.0, 1.0, -0.5]);
    assert_eq!([scalars.pq, scalars.alpha], [0.0, 0.0]);
    step.dots(&*one, &*one, Beta::Plain::<&B::Slice<V>>).unwrap();
    assert_eq!(step.read_scalars().unwrap().beta, 0.25);
    ([&new_x, &r, &p].map(|v| read(v)), scalars)
}

#[test]
fn fused_operations_equal_those_of_the_host() {
    for gpu in devices() {
        for n in [0, 1, 64, 300] {
            fused::<f64, f64>(&gpu, Block::SCALAR, n, &[SellKernel::Rows, SellKernel::Shared(8)]);
        }
        fused::<f32, f16>(&gpu, Block::SCALAR, 300, &[SellKernel::Rows, SellKernel::Shared(2)]);
        fused::<f64, bf16>(&gpu, Block::square(3), 77, &[SellKernel::Blocks(1), SellKernel::Blocks(4)]);
        fused::<f32, f32>(&gpu, Block::square(2), 77, &[SellKernel::Blocks(2)]);
    }
}
