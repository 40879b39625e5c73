//! What GMRES and BiCGStab work with: a device against the host.

use super::tests::{devices, host};
use crate::backend::{Basis, HalfNumbers, Halves, Place};
use crate::hash::hash;
use crate::scalar::Scalar;

/// Numbers between -1 and 1 with few bits.
fn values<V: Scalar>(n: usize, seed: u64) -> Vec<V> {
    (0..n).map(|i| V::from_f64((hash(i, seed) % 65) as f64 / 32.0 - 1.0)).collect()
}

/// All numbers of a basis of 11 vectors, and what is made of them in the end: with M = 2, x + Σ y_i M v_i or x + Σ y_i v_i.
fn grown<B: Place, V: Scalar>(
    backend: &B,
    n: usize,
    kept: bool,
    read: impl Fn(&B::Slice<V>) -> Vec<V>,
) -> (Vec<f64>, Vec<V>) {
    const VECTORS: usize = 11;
    let array = |seed: u64| backend.array(values::<V>(n, seed)).unwrap();
    let mut basis = backend.basis::<V>(n, VECTORS, kept).unwrap();
    let (mut w, mut found, mut vectors) = (array(0), Vec::new(), Vec::new());
    // What was there before does not count.
    basis.begin(3.0).unwrap();
    basis.append(&w).unwrap();
    basis.begin(backend.norm(&*w)).unwrap();
    for j in 0..VECTORS {
        basis.append(&w).unwrap();
        let (v, z) = basis.last();
        backend.axpby(V::from_f64(2.0), v, V::ZERO, z);
        let mut kept = array(0);
        backend.copy(v, &mut *kept);
        vectors.push(kept);
        basis.keep().unwrap();
        w = array(1 + j as u64);
        basis.orthogonalise(&mut w).unwrap();
        let mut column = vec![f64::NAN; j + 1];
        let length = basis.look(&mut column).unwrap();
        assert!((length - backend.norm(&*w)).abs() <= 1e-12 * length);
        for v in &vectors {
            let rest = backend.dot(&**v, &*w).abs();
            assert!(rest <= 8.0 * V::EPSILON.to_f64() * length * (n as f64).sqrt(), "{rest} of {length}");
        }
        found.extend(column);
        found.push(length);
    }
    let mut x = array(99);
    let y: Vec<f64> = (0..VECTORS - 1).map(|i| i as f64 - 3.5).collect();
    basis.add(&y, &mut x).unwrap();
    basis.add(&[], &mut x).unwrap();
    (found, read(&x))
}

fn bases_agree<V: Scalar>(n: usize, kept: bool) {
    let (numbers, x) = grown::<_, V>(&host(), n, kept, |v| v.to_vec());
    let mut before = None;
    for (i, gpu) in devices().into_iter().enumerate() {
        let there = grown::<_, V>(&gpu, n, kept, |v| gpu.fetch(v).unwrap());
        let close = |a: f64, b: f64| (a - b).abs() <= 64.0 * V::EPSILON.to_f64() * (n as f64).sqrt();
        assert!(numbers.iter().zip(&there.0).all(|(a, b)| close(*a, *b)), "{numbers:?} {:?}", there.0);
        assert!(x.iter().zip(&there.1).all(|(a, b)| close(a.to_f64(), b.to_f64())), "{} of {n}", gpu.description());
        // The order of blocks and lanes, which is the other one in every second device, changes no bit.
        match before.take() {
            Some(before) if i % 2 == 1 => assert!(before == there, "{} of {n}", gpu.description()),
            _ => before = Some(there),
        }
    }
}

#[test]
fn a_basis_is_orthonormal_and_that_of_the_host() {
    for n in [12, 300, 5000] {
        bases_agree::<f64>(n, false);
        bases_agree::<f32>(n, true);
    }
}

/// x, r and p after halves with α = 0.25 and ω = 0.5 and a turn, and after two that change nothing; and the numbers of each.
fn halved<B: Place, V: Scalar>(
    backend: &B,
    n: usize,
    read: impl Fn(&B::Slice<V>) -> Vec<V>,
) -> ([Vec<V>; 3], Vec<String>) {
    let array = |values: Vec<V>| backend.array(values).unwrap();
    let (mut x, mut r, mut p) = (array(values(n, 1)), array(values(n, 2)), array(values(n, 3)));
    let (z, lost) = (array(values(n, 4)), array(vec![V::from_f64(f64::NAN); n]));
    // One of the shadow's elements is not zero, and σ is that of v.
    let shadow = array((0..n).map(|i| V::from_f64(f64::from(u8::from(i == 0)))).collect());
    let mut v = values(n, 5);
    v[0] = V::ONE;
    let v = array(v);
    let orthogonal = array((0..n).map(|i| V::from_f64(f64::from(u8::from(i != 0)))).collect());
    let mut halves = backend.halves().unwrap();
    let mut seen = Vec::new();
    let mut look = |halves: &mut B::Halves| {
        let numbers: HalfNumbers = halves.look().unwrap();
        seen.push(format!("{numbers:?}"));
        numbers
    };
    halves.begin(&*x, 0.125).unwrap();
    halves.restart(0.5).unwrap();
    halves.first(&*shadow, (&*z, &*v), &mut *x, &mut *r).unwrap();
    assert_eq!(look(&mut halves).alpha, 0.25);
    // Half of s is in t, twice.
    let t = array(read(&r).iter().enumerate().map(|(i, s)| if i % 2 == 0 { V::ZERO } else { *s + *s }).collect());
    halves.second(&*shadow, (&*z, &*t), &mut *x, &mut *r).unwrap();
    let numbers = look(&mut halves);
    assert_eq!([numbers.omega, numbers.rho], [0.5, read(&r)[0].to_f64()]);
    assert_eq!(numbers.beta, 2.0 * numbers.rho);
    halves.turn(&*r, &*v, &mut *p).unwrap();
    let before = [&x, &r].map(|v| read(v));
    for nothing in [&orthogonal, &lost] {
        halves.restart(0.5).unwrap();
        halves.first(&*shadow, (&*lost, &**nothing), &mut *x, &mut *r).unwrap();
        halves.second(&*shadow, (&*lost, &*v), &mut *x, &mut *r).unwrap();
        let numbers = look(&mut halves);
        assert_eq!([numbers.alpha, numbers.omega], [0.0, 0.0]);
        assert!(numbers.is_settled());
    }
    // A first half that is enough, and a second one that cannot help.
    for (target, t) in [(1e9, &v), (0.0, &lost)] {
        halves.begin(&*x, target).unwrap();
        halves.restart(0.5).unwrap();
        let keep = |v: &B::Slice<V>| array(read(v));
        let (old_x, old_r) = (keep(&x), keep(&r));
        halves.first(&*shadow, (&*z, &*v), &mut *x, &mut *r).unwrap();
        let after = [&x, &r].map(|v| read(v));
        halves.second(&*shadow, (&*lost, &**t), &mut *x, &mut *r).unwrap();
        let numbers = look(&mut halves);
        assert_eq!([numbers.alpha, numbers.omega], [0.25, 0.0]);
        assert_eq!(numbers.is_settled(), target > 0.0);
        assert!([&x, &r].map(|v| read(v)) == after);
        backend.copy(&*old_x, &mut *x);
        backend.copy(&*old_r, &mut *r);
    }
    assert!([&x, &r].map(|v| read(v)) == before);
    ([&x, &r, &p].map(|v| read(v)), seen)
}

fn halves_agree<V: Scalar>(n: usize) {
    let expected = halved::<_, V>(&host(), n, |v| v.to_vec());
    for gpu in devices() {
        let there = halved::<_, V>(&gpu, n, |v| gpu.fetch(v).unwrap());
        assert_eq!(expected.1, there.1, "{} of {n}", gpu.description());
        assert!(expected.0 == there.0, "{} of {n}", gpu.description());
    }
}

#[test]
fn halves_are_those_of_the_host_and_leave_everything_where_there_is_no_step() {
    for n in [7, 3000] {
        halves_agree::<f64>(n);
        halves_agree::<f32>(n);
    }
}
