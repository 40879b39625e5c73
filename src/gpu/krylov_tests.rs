//! The Arnoldi basis and the BiCGStab step: a device against the host.

use super::tests::{devices, host};
use crate::backend::{ArnoldiBasis, BicgstabScalars, BicgstabStep, StorageFactory};
use crate::hash::hash;
use crate::scalar::Scalar;

/// Numbers between -1 and 1 with few bits.
fn values<V: Scalar>(n: usize, seed: u64) -> Vec<V> {
    (0..n).map(|i| V::from_f64((hash(i, seed) % 65) as f64 / 32.0 - 1.0)).collect()
}

/// All scalars of a basis of 11 vectors, and x + Σ y_i M v_i with M = 2, or x + Σ y_i v_i.
fn arnoldi_process<B: StorageFactory, V: Scalar>(
    backend: &B,
    n: usize,
    flexible: bool,
    read: impl Fn(&B::Slice<V>) -> Vec<V>,
) -> (Vec<f64>, Vec<V>) {
    const VECTORS: usize = 11;
    let array = |seed: u64| backend.array(values::<V>(n, seed)).unwrap();
    let mut basis = backend.arnoldi_basis::<V>(n, VECTORS, flexible).unwrap();
    let (mut w, mut found, mut vectors) = (array(0), Vec::new(), Vec::new());
    // A second begin empties the basis.
    basis.begin(3.0).unwrap();
    basis.append(&w).unwrap();
    basis.begin(backend.norm(&*w)).unwrap();
    for j in 0..VECTORS {
        basis.append(&w).unwrap();
        let (v, z) = basis.newest();
        backend.axpby(V::from_f64(2.0), v, V::ZERO, z);
        let mut copy = array(0);
        backend.copy(v, &mut *copy);
        vectors.push(copy);
        basis.store_preconditioned().unwrap();
        w = array(1 + j as u64);
        basis.orthogonalise(&mut w).unwrap();
        let mut column = vec![f64::NAN; j + 1];
        let norm = basis.read_column(&mut column).unwrap();
        assert!((norm - backend.norm(&*w)).abs() <= 1e-12 * norm);
        for v in &vectors {
            let rest = backend.dot(&**v, &*w).abs();
            assert!(rest <= 8.0 * V::EPSILON.to_f64() * norm * (n as f64).sqrt(), "{rest} of {norm}");
        }
        found.extend(column);
        found.push(norm);
    }
    let mut x = array(99);
    let y: Vec<f64> = (0..VECTORS - 1).map(|i| i as f64 - 3.5).collect();
    basis.add_combination(&y, &mut x).unwrap();
    basis.add_combination(&[], &mut x).unwrap();
    (found, read(&x))
}

fn arnoldi_agrees<V: Scalar>(n: usize, flexible: bool) {
    let (scalars, x) = arnoldi_process::<_, V>(&host(), n, flexible, |v| v.to_vec());
    let mut before = None;
    for (i, gpu) in devices().into_iter().enumerate() {
        let on_device = arnoldi_process::<_, V>(&gpu, n, flexible, |v| gpu.fetch(v).unwrap());
        let close = |a: f64, b: f64| (a - b).abs() <= 64.0 * V::EPSILON.to_f64() * (n as f64).sqrt();
        assert!(scalars.iter().zip(&on_device.0).all(|(a, b)| close(*a, *b)), "{scalars:?} {:?}", on_device.0);
        assert!(x.iter().zip(&on_device.1).all(|(a, b)| close(a.to_f64(), b.to_f64())), "{} of {n}", gpu.description());
        // The order of blocks and lanes, which is the other one in every second device, changes no bit.
        match before.take() {
            Some(before) if i % 2 == 1 => assert!(before == on_device, "{} of {n}", gpu.description()),
            _ => before = Some(on_device),
        }
    }
}

#[test]
fn an_arnoldi_basis_is_orthonormal_and_equals_that_of_the_host() {
    for n in [12, 300, 5000] {
        arnoldi_agrees::<f64>(n, false);
        arnoldi_agrees::<f32>(n, true);
    }
}

/// x, r and p after half steps with α = 0.25 and ω = 0.5 and an update of p, and after iterations that break down; and
/// the scalars of each.
fn bicgstab_steps<B: StorageFactory, V: Scalar>(
    backend: &B,
    n: usize,
    read: impl Fn(&B::Slice<V>) -> Vec<V>,
) -> ([Vec<V>; 3], Vec<String>) {
    let array = |values: Vec<V>| backend.array(values).unwrap();
    let (mut x, mut r, mut p) = (array(values(n, 1)), array(values(n, 2)), array(values(n, 3)));
    let (z, lost) = (array(values(n, 4)), array(vec![V::from_f64(f64::NAN); n]));
    // The shadow residual is a unit vector, so σ is one element of v.
    let shadow = array((0..n).map(|i| V::from_f64(f64::from(u8::from(i == 0)))).collect());
    let mut v = values(n, 5);
    v[0] = V::ONE;
    let v = array(v);
    let orthogonal = array((0..n).map(|i| V::from_f64(f64::from(u8::from(i != 0)))).collect());
    let mut step = backend.bicgstab_step().unwrap();
    let mut seen = Vec::new();
    let mut record = |step: &mut B::BicgstabStep| {
        let scalars: BicgstabScalars = step.read_scalars().unwrap();
        seen.push(format!("{scalars:?}"));
        scalars
    };
    step.begin(&*x, 0.125).unwrap();
    step.restart(0.5).unwrap();
    step.first_half(&*shadow, (&*z, &*v), &mut *x, &mut *r).unwrap();
    assert_eq!(record(&mut step).alpha, 0.25);
    // Half of s is in t, twice.
    let t = array(read(&r).iter().enumerate().map(|(i, s)| if i % 2 == 0 { V::ZERO } else { *s + *s }).collect());
    step.second_half(&*shadow, (&*z, &*t), &mut *x, &mut *r).unwrap();
    let scalars = record(&mut step);
    assert_eq!([scalars.omega, scalars.rho], [0.5, read(&r)[0].to_f64()]);
    assert_eq!(scalars.beta, 2.0 * scalars.rho);
    step.update_direction(&*r, &*v, &mut *p).unwrap();
    let before = [&x, &r].map(|v| read(v));
    for breakdown in [&orthogonal, &lost] {
        step.restart(0.5).unwrap();
        step.first_half(&*shadow, (&*lost, &**breakdown), &mut *x, &mut *r).unwrap();
        step.second_half(&*shadow, (&*lost, &*v), &mut *x, &mut *r).unwrap();
        let scalars = record(&mut step);
        assert_eq!([scalars.alpha, scalars.omega], [0.0, 0.0]);
        assert!(scalars.skips_second_half());
    }
    // A first half step that reaches the target, and a second one that breaks down.
    for (target, t) in [(1e9, &v), (0.0, &lost)] {
        step.begin(&*x, target).unwrap();
        step.restart(0.5).unwrap();
        let keep = |v: &B::Slice<V>| array(read(v));
        let (old_x, old_r) = (keep(&x), keep(&r));
        step.first_half(&*shadow, (&*z, &*v), &mut *x, &mut *r).unwrap();
        let after = [&x, &r].map(|v| read(v));
        step.second_half(&*shadow, (&*lost, &**t), &mut *x, &mut *r).unwrap();
        let scalars = record(&mut step);
        assert_eq!([scalars.alpha, scalars.omega], [0.25, 0.0]);
        assert_eq!(scalars.skips_second_half(), target > 0.0);
        assert!([&x, &r].map(|v| read(v)) == after);
        backend.copy(&*old_x, &mut *x);
        backend.copy(&*old_r, &mut *r);
    }
    assert!([&x, &r].map(|v| read(v)) == before);
    ([&x, &r, &p].map(|v| read(v)), seen)
}

fn bicgstab_agrees<V: Scalar>(n: usize) {
    let expected = bicgstab_steps::<_, V>(&host(), n, |v| v.to_vec());
    for gpu in devices() {
        let on_device = bicgstab_steps::<_, V>(&gpu, n, |v| gpu.fetch(v).unwrap());
        assert_eq!(expected.1, on_device.1, "{} of {n}", gpu.description());
        assert!(expected.0 == on_device.0, "{} of {n}", gpu.description());
    }
}

#[test]
fn bicgstab_half_steps_equal_those_of_the_host_and_change_nothing_after_a_breakdown() {
    for n in [7, 3000] {
        bicgstab_agrees::<f64>(n);
        bicgstab_agrees::<f32>(n);
    }
}
