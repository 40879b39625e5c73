//! What takes one pass over memory on a GPU where it takes several calls otherwise.

use super::product::Finish;
use super::runtime::tag;
use super::{Gpu, Slice};
use crate::backend::Operator;
use crate::error::Result;
use crate::scalar::{Number, Scalar};

impl Gpu {
    /// y = x + D (b - A x).
    pub(super) fn fused_sweep<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Gpu, V>,
        d: &Slice<S>,
        b: &Slice<V>,
        x: &Slice<V>,
        y: &mut Slice<V>,
    ) -> Result<()> {
        assert!(d.len() == x.len() && b.len() == x.len());
        a.finish(x, &Finish::sweep(d, b, x, y)).map(|_| ())
    }

    /// y = z + alpha A x.
    pub(super) fn fused_add<X: Number, Y: Number>(
        &self,
        a: &dyn Operator<Gpu, X, Y>,
        alpha: Y::Wide,
        x: &Slice<X>,
        z: &Slice<Y>,
        y: &mut Slice<Y>,
    ) -> Result<()> {
        assert_eq!(z.len(), y.len());
        a.finish(x, &Finish::add(alpha.to_f64(), z, y)).map(|_| ())
    }

    /// y = A x, and x·y.
    pub(super) fn fused_dot<T: Scalar>(&self, a: &dyn Operator<Gpu, T>, x: &Slice<T>, y: &mut Slice<T>) -> Result<f64> {
        if a.finish(x, &Finish::with_dot(x, y))? { self.whole() } else { self.inner_product(x, y) }
    }

    /// x += alpha p, r -= alpha q, and r·r.
    pub(super) fn fused_step<T: Scalar>(
        &self,
        alpha: T,
        p: &Slice<T>,
        q: &Slice<T>,
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<f64> {
        let n = x.len();
        assert!(p.len() == n && q.len() == n && r.len() == n);
        let kernel = self.inner.vectors.step[tag::<T>() as usize];
        self.reduce(n, self.inner.vectors.dot_finish, |count, parts| {
            let (n, alpha) = (n as i64, alpha.to_f64());
            self.launch_blocks(kernel, count, &[&n, &alpha, &p.view(), &q.view(), &x.view(), &r.view(), parts])
        })
    }
}
