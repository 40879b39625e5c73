//! An operator of the coarsest level, which every rank that has rows of it holds as a whole.

use crate::backend::Operator;
use crate::comm::Distribution;
use crate::error::{Result, try_collect, try_vec};
use crate::host::Host;
use crate::scalar::{Number, Precision, Scalar};
use crate::sync::lock;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A square operator on vectors of which each rank has a part. The vector is gathered, unless one rank has all of it.
pub(crate) struct Replicated<V: Number> {
    over: Arc<Distribution>,
    inner: Box<dyn Operator<Host, V>>,
    own: Range<usize>,
    /// Bytes of each rank's part; none where one rank has all.
    lengths: Option<Vec<usize>>,
    /// The whole vector and result.
    work: Mutex<(Vec<V>, Vec<V>)>,
}

impl<V: Number> Replicated<V> {
    /// Of `n` rows.
    pub fn new(over: &Arc<Distribution>, n: usize, inner: Box<dyn Operator<Host, V>>) -> Result<Replicated<V>> {
        let starts = over.starts(n)?;
        let lengths = try_collect(starts.windows(2).map(|pair| (pair[1] - pair[0]) * size_of::<V>()))?;
        let alone = lengths.iter().filter(|length| **length > 0).count() < 2;
        let work = Mutex::new((try_vec(n, V::ZERO)?, try_vec(n, V::ZERO)?));
        let (over, own) = (Arc::clone(over), over.own(n));
        Ok(Replicated { over, inner, own, lengths: (!alone).then_some(lengths), work })
    }

    /// The whole result for the part of a vector.
    fn whole<R>(&self, x: &[V], use_result: impl FnOnce(&[V]) -> R) -> Result<Option<R>> {
        let mut work = lock(self.work.lock());
        let (whole, result) = &mut *work;
        match &self.lengths {
            Some(lengths) => self.over.ranks.gather_into(x, lengths, whole)?,
            None if self.own.is_empty() => return Ok(None),
            None => whole.copy_from_slice(x),
        }
        self.inner.apply(V::Wide::ONE, whole, V::Wide::ZERO, result)?;
        Ok(Some(use_result(&result[self.own.clone()])))
    }
}

impl<V: Number> Operator<Host, V> for Replicated<V> {
    fn rows(&self) -> usize {
        self.own.len()
    }

    fn apply(&self, alpha: V::Wide, x: &[V], beta: V::Wide, y: &mut [V]) -> Result<()> {
        self.whole(x, |result| {
            for (y, ax) in y.iter_mut().zip(result) {
                let old = if beta == V::Wide::ZERO { V::Wide::ZERO } else { beta * y.widen() };
                *y = V::narrow(alpha * ax.widen() + old);
            }
        })?;
        Ok(())
    }

    fn residual(&self, b: &[V], x: &[V], r: &mut [V]) -> Result<()> {
        self.whole(x, |result| {
            for ((r, b), ax) in r.iter_mut().zip(b).zip(result) {
                *r = V::narrow(b.widen() - ax.widen());
            }
        })?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.inner.bytes() + 2 * lock(self.work.lock()).0.len() * size_of::<V>()
    }

    fn format(&self) -> String {
        self.inner.format()
    }

    fn precision(&self) -> Precision {
        self.inner.precision()
    }
}
