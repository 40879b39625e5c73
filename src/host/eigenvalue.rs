//! The largest eigenvalue of a matrix scaled by its diagonal, by a few Lanczos steps.

use super::{Host, hash, spmv};
use crate::backend::Backend;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;
use crate::sparse::CsrView;

/// Lanczos steps: the largest Ritz value of an elliptic operator is then within a few per cent.
const STEPS: usize = 12;

/// Estimates the largest eigenvalue of D^-1 A for symmetric A with positive diagonal D, through the similar D^-1/2 A D^-1/2.
/// `inverse_diagonal` holds 1/d. The estimate never exceeds the true value.
pub fn largest<T: Scalar>(host: &Host, a: &CsrView<'_, T>, inverse_diagonal: &[T]) -> Result<f64> {
    let n = a.scalar_rows();
    let mut root = try_vec(n, T::ZERO)?;
    for (r, d) in root.iter_mut().zip(inverse_diagonal) {
        *r = T::from_f64(d.to_f64().abs().sqrt());
    }
    let mut v = try_vec(n, T::ZERO)?;
    for (i, v) in v.iter_mut().enumerate() {
        *v = T::from_f64((hash(i, 0) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5);
    }
    let mut previous = try_vec(n, T::ZERO)?;
    let mut scaled = try_vec(n, T::ZERO)?;
    let mut w = try_vec(n, T::ZERO)?;
    let (mut alphas, mut betas): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let norm = host.norm(&v);
    if norm == 0.0 {
        return Ok(0.0);
    }
    host.scale(T::from_f64(1.0 / norm), &mut v);
    for step in 0..STEPS.min(n) {
        host.scale_by(&root, &v, &mut scaled);
        spmv::apply(a, T::ONE, &scaled, T::ZERO, &mut w);
        host.copy(&w, &mut scaled);
        host.scale_by(&root, &scaled, &mut w);
        let alpha = host.dot(&v, &w);
        alphas.push(alpha);
        host.axpby(T::from_f64(-alpha), &v, T::ONE, &mut w);
        if step > 0 {
            host.axpby(T::from_f64(-betas[step - 1]), &previous, T::ONE, &mut w);
        }
        let beta = host.norm(&w);
        if beta <= 1e-10 * alpha.abs() || !beta.is_finite() {
            break;
        }
        betas.push(beta);
        host.copy(&v, &mut previous);
        host.axpby(T::from_f64(1.0 / beta), &w, T::ZERO, &mut v);
    }
    Ok(largest_tridiagonal(&alphas, &betas))
}

/// The largest eigenvalue of a symmetric tridiagonal matrix, by bisection with Sturm sequences.
fn largest_tridiagonal(diagonal: &[f64], off: &[f64]) -> f64 {
    let radius = |i: usize| {
        let left = if i > 0 { off[i - 1].abs() } else { 0.0 };
        left + if i + 1 < diagonal.len() { off[i].abs() } else { 0.0 }
    };
    let upper = (0..diagonal.len()).map(|i| diagonal[i] + radius(i)).fold(f64::MIN, f64::max);
    let lower = diagonal.iter().copied().fold(f64::MIN, f64::max);
    let any_above = |x: f64| {
        let mut q = 1.0;
        for (i, d) in diagonal.iter().enumerate() {
            let coupling = if i > 0 { off[i - 1] * off[i - 1] / q } else { 0.0 };
            q = d - x - coupling;
            if q > 0.0 {
                return true;
            }
            if q == 0.0 {
                q = -f64::MIN_POSITIVE;
            }
        }
        false
    };
    let (mut low, mut high) = (lower, upper);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if any_above(middle) { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::sparse::Csr;

    #[test]
    fn a_tridiagonal_matrix_has_its_known_eigenvalue() {
        let n = 9;
        let expected = 2.0 + 2.0 * (std::f64::consts::PI / (n as f64 + 1.0)).cos();
        assert!((largest_tridiagonal(&vec![2.0; n], &vec![-1.0; n - 1]) - expected).abs() < 1e-12);
        assert_eq!(largest_tridiagonal(&[3.0], &[]), 3.0);
    }

    #[test]
    fn the_estimate_of_a_laplacian_is_close_from_below() {
        let n = 200;
        let mut t = Vec::new();
        for i in 0..n {
            t.push((i, i, 2.0));
            if i > 0 {
                t.extend([(i, i - 1, -1.0), (i - 1, i, -1.0)]);
            }
        }
        let a = Csr::from_triplets(n, n, &t).unwrap();
        let host = Host::new(&Context::new("host:1").unwrap());
        let estimate = largest(&host, &a.view(), &vec![0.5; n]).unwrap();
        assert!(estimate > 1.9 && estimate < 2.0, "{estimate}");
    }
}
