//! The largest eigenvalue of any symmetric operator by Lanczos steps: with v = u/β, q = A v, α = v·q, the next u is
//! q - α v - β v' and the next β its norm.

use super::Host;
use crate::backend::Backend;
use crate::backend::setup::OperatorProduct;
use crate::backend::spectrum::Largest;
use crate::error::{Result, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::Scalar;

/// Estimates the largest eigenvalue from below, given y = A x for vectors of `n` elements.
pub(crate) fn largest<T: Scalar>(
    host: &Host,
    steps: usize,
    n: usize,
    product: OperatorProduct<'_, Host, T>,
) -> Result<Largest> {
    let (mut u, mut previous, mut q) = (try_vec(n, T::ZERO)?, try_vec(n, T::ZERO)?, try_vec(n, T::ZERO)?);
    par::for_each_row_mut(&mut u, 1, par::GRAIN, |start, u| {
        for (k, u) in u.iter_mut().enumerate() {
            *u = T::from_f64((hash(start + k, 0) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5);
        }
    });
    let (mut alphas, mut betas): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let (mut beta, mut previous_beta) = (host.norm(&u), 1.0);
    for step in 0..steps.min(n) {
        let least = alphas.last().map_or(0.0, |alpha: &f64| 1e-10 * alpha.abs());
        if !beta.is_finite() || beta <= least {
            break;
        }
        if step > 0 {
            betas.push(beta);
        }
        product(&u, &mut q)?;
        host.scale(T::from_f64(1.0 / beta), &mut q);
        let alpha = host.dot(&u, &q) / beta;
        alphas.push(alpha);
        let (of_u, of_previous) = (T::from_f64(alpha / beta), T::from_f64(beta / previous_beta));
        let (q, u_now) = (&q, &u);
        par::for_each_row_mut(&mut previous, 1, par::GRAIN, |start, next| {
            for ((next, u), q) in next.iter_mut().zip(&u_now[start..]).zip(&q[start..]) {
                *next = *q - of_u * *u - of_previous * *next;
            }
        });
        std::mem::swap(&mut u, &mut previous);
        (previous_beta, beta) = (beta, host.norm(&u));
    }
    Ok(Largest::from_lanczos::<T>(&alphas, &betas, f64::INFINITY))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::parameters::Estimate;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::{diagonal, spmv};

    #[test]
    fn the_estimate_is_that_for_a_matrix_whose_diagonal_is_one() {
        let host = Host::new(&Context::new("host:1").unwrap());
        let mut a = gallery::poisson5(30, 30).unwrap();
        a.values.iter_mut().for_each(|v| *v /= 4.0);
        let inverse = diagonal::inverse::<f64, f64>(&a.view(), 1, diagonal::AS_IT_IS).unwrap();
        for steps in [1, 5, 12] {
            let expected = Estimate { lanczos: true, steps }.largest(&host, &a.view(), &inverse, None).unwrap().value;
            let found = largest::<f64>(&host, steps, a.rows, &mut |x, y| {
                spmv::apply(&a.view(), 1.0, x, 0.0, y);
                Ok(())
            });
            assert_eq!(found.unwrap().value, expected, "{steps} steps");
        }
    }

    #[test]
    fn nothing_has_no_eigenvalue_and_one_row_has_its_own() {
        let host = Host::new(&Context::new("host:1").unwrap());
        let of = |n: usize, factor: f64| {
            let product = &mut |x: &[f64], y: &mut [f64]| {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = factor * x);
                Ok(())
            };
            largest::<f64>(&host, 12, n, product).unwrap().value
        };
        assert_eq!((of(0, 1.0), of(7, 0.0)), (0.0, 0.0));
        assert_eq!((of(1, 3.0), of(9, 5.0)), (3.0, 5.0));
    }
}
