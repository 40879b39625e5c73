//! Vector operations of the host backend.

use super::{Host, par};
use crate::backend::Backend;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;

impl Backend for Host {
    type Slice<T: Scalar> = [T];
    type Buffer<T: Scalar> = Vec<T>;

    fn zeros<T: Scalar>(&self, n: usize) -> Result<Vec<T>> {
        try_vec(n, T::ZERO)
    }

    fn fill<T: Scalar>(&self, value: T, x: &mut [T]) {
        self.run(x.len(), || par::for_each_mut(x, par::GRAIN, |_, x| x.fill(value)));
    }

    fn copy<T: Scalar, U: Scalar>(&self, x: &[T], y: &mut [U]) {
        self.zip(x, y, |x, y| {
            for (y, x) in y.iter_mut().zip(x) {
                *y = x.cast();
            }
        });
    }

    fn scale<T: Scalar>(&self, alpha: T, x: &mut [T]) {
        self.run(x.len(), || {
            par::for_each_mut(x, par::GRAIN, |_, x| {
                for x in x {
                    *x *= alpha;
                }
            });
        });
    }

    fn axpby<T: Scalar>(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) {
        self.zip(x, y, |x, y| {
            if beta == T::ZERO {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = alpha * *x;
                }
            } else {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = alpha * *x + beta * *y;
                }
            }
        });
    }

    fn add_scaled_by<T: Scalar, S: Scalar>(&self, d: &[S], x: &[T], y: &mut [T]) {
        assert_eq!(d.len(), x.len());
        assert_eq!(x.len(), y.len());
        self.run(x.len(), || {
            par::for_each_mut(y, par::GRAIN, |start, y| {
                for ((y, x), d) in y.iter_mut().zip(&x[start..]).zip(&d[start..]) {
                    *y += d.cast::<T>() * *x;
                }
            });
        });
    }

    fn scale_by<T: Scalar, S: Scalar>(&self, d: &[S], x: &[T], y: &mut [T]) {
        assert_eq!(d.len(), x.len());
        assert_eq!(x.len(), y.len());
        self.run(x.len(), || {
            par::for_each_mut(y, par::GRAIN, |start, y| {
                for ((y, x), d) in y.iter_mut().zip(&x[start..]).zip(&d[start..]) {
                    *y = d.cast::<T>() * *x;
                }
            });
        });
    }

    fn dot<T: Scalar>(&self, x: &[T], y: &[T]) -> f64 {
        assert_eq!(x.len(), y.len());
        self.run(x.len(), || par::sum(x.len(), par::GRAIN, |range| dot_piece(&x[range.clone()], &y[range])))
    }
}

/// Four partial sums, because one would make every addition wait for the one before.
fn dot_piece<T: Scalar>(x: &[T], y: &[T]) -> f64 {
    let mut sums = [0.0_f64; 4];
    let (x4, y4) = (x.chunks_exact(4), y.chunks_exact(4));
    let rest: f64 = x4.remainder().iter().zip(y4.remainder()).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
    for (x, y) in x4.zip(y4) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x.to_f64() * y.to_f64();
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

impl Host {
    fn zip<T: Scalar, U: Scalar>(&self, x: &[T], y: &mut [U], work: impl Fn(&[T], &mut [U]) + Sync + Send) {
        assert_eq!(x.len(), y.len());
        self.run(x.len(), || par::for_each_mut(y, par::GRAIN, |start, y| work(&x[start..start + y.len()], y)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    #[test]
    fn operations_match_their_formulas() {
        let host = Host::new(&Context::new("host:2").unwrap());
        for n in [0, 1, 5, 30_000] {
            let x: Vec<f64> = (0..n).map(|i| i as f64 - 3.0).collect();
            let d: Vec<f32> = (0..n).map(|i| (i % 4) as f32).collect();
            let mut y = vec![f64::NAN; n];
            host.axpby(2.0, &x, 0.0, &mut y);
            host.axpby(1.0, &x, -1.0, &mut y);
            assert!(y.iter().zip(&x).all(|(y, x)| *y == -x));
            host.add_scaled_by(&d, &x, &mut y);
            assert!((0..n).all(|i| y[i] == -x[i] + f64::from(d[i]) * x[i]));
            host.scale_by(&d, &x, &mut y);
            assert!((0..n).all(|i| y[i] == f64::from(d[i]) * x[i]));
            let expected: f64 = x.iter().map(|x| x * x).sum();
            assert_eq!(host.dot(&x, &x), expected);
            host.fill(0.5, &mut y);
            host.scale(2.0, &mut y);
            assert_eq!(host.norm(&y), (n as f64).sqrt());
        }
    }
}
