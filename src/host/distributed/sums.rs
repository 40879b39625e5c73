//! Inner products of vectors that are divided among ranks, added in the order of one rank: in pieces that are cut at
//! fixed places, as [`par::sum`] does. Where several ranks have a part of a piece, the one with its beginning adds it.

use crate::comm::{Distribution, Part, exchange};
use crate::error::{Result, try_capacity, try_collect, try_push, try_vec};
use crate::host::vector::dot_piece;
use crate::par;
use crate::scalar::Scalar;
use std::ops::Range;

/// Tag of messages.
const PIECES: i32 = 7;

/// Sums over vectors of which each rank has a part.
pub(crate) struct Sums<'a> {
    over: &'a Distribution,
    /// The first element of each rank, and the length.
    starts: Vec<usize>,
    own: Range<usize>,
}

impl<'a> Sums<'a> {
    /// Of vectors of which `starts` has the first element of each rank.
    pub fn new(over: &'a Distribution, starts: Vec<usize>) -> Sums<'a> {
        let rank = over.ranks.rank();
        let own = starts[rank]..starts[rank + 1];
        Sums { over, starts, own }
    }

    /// The elements of this rank.
    pub fn own(&self) -> &Range<usize> {
        &self.own
    }

    /// Where the elements of a rank end that belong to a piece of a lower one.
    fn head(&self, rank: usize, grain: usize) -> Range<usize> {
        let (start, end) = (self.starts[rank], self.starts[rank + 1]);
        start..end.min(start.next_multiple_of(grain))
    }

    /// x · y, of which this rank has these parts, in pieces of `grain` elements. Collective.
    pub fn dot<T: Scalar>(&self, x: &[T], y: &[T], grain: usize) -> Result<f64> {
        let (size, rank) = (self.starts.len() - 1, self.over.ranks.rank());
        let n = self.starts[size];
        // Where a piece that begins before the own elements ends, and from where on the last own piece is that of other
        // ranks, too.
        let head = self.head(rank, grain).len();
        let whole = (x.len() - head) / grain * grain;
        let last = head + whole..x.len();
        let mut sends = Vec::new();
        if head > 0 {
            let piece = self.own.start / grain * grain;
            let to = self.starts.partition_point(|start| *start <= piece) - 1;
            try_push(&mut sends, Part { rank: to, begin: 0, length: 2 * head })?;
        }
        let end = self.own.end.next_multiple_of(grain).min(n);
        let mut receives = Vec::new();
        let mut incoming = 0;
        if !last.is_empty() {
            for from in (rank + 1..size).take_while(|from| self.starts[*from] < end) {
                let length = 2 * self.head(from, grain).len();
                if length > 0 {
                    try_push(&mut receives, Part { rank: from, begin: incoming, length })?;
                    incoming += length;
                }
            }
        }
        let mut out = try_capacity(2 * head)?;
        out.extend_from_slice(&x[..head]);
        out.extend_from_slice(&y[..head]);
        let mut others = try_vec(incoming, T::ZERO)?;
        exchange(self.over, PIECES, (&sends, &out), (&receives, &mut others))?;

        let count = whole / grain + usize::from(!last.is_empty());
        let mut sums = try_vec(count, 0.0)?;
        par::for_each_mut(&mut sums[..whole / grain], 1, |piece, sum| {
            let range = head + piece * grain..head + (piece + 1) * grain;
            sum[0] = dot_piece(&x[range.clone()], &y[range]);
        });
        if let Some(sum) = sums.get_mut(whole / grain) {
            let [x, y] = [(x, 0), (y, 1)].map(|(own, which)| -> Result<Vec<T>> {
                let mut piece = try_capacity(last.len() + incoming / 2)?;
                piece.extend_from_slice(&own[last.clone()]);
                for part in &receives {
                    let half = part.length / 2;
                    piece.extend_from_slice(&others[part.begin + which * half..][..half]);
                }
                Ok(piece)
            });
            *sum = dot_piece(&x?, &y?);
        }
        let first = |rank: usize| self.starts[rank].div_ceil(grain);
        let lengths = try_collect((0..size).map(|rank| (first(rank + 1) - first(rank)) * size_of::<f64>()))?;
        let mut all = try_vec(n.div_ceil(grain), 0.0)?;
        self.over.ranks.gather_into(&sums, &lengths, &mut all)?;
        Ok(par::sum(n, grain, |range| all[range.start / grain]))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::comm::{Ranks, threads};
    use std::sync::Arc;

    #[test]
    fn inner_products_have_the_bits_of_one_rank() {
        let n = 103;
        let x: Vec<f64> = (0..n).map(|i| ((i * 7919) as f64).sin()).collect();
        let y: Vec<f64> = (0..n).map(|i| ((i * 104_729) as f64).cos()).collect();
        for grain in [1, 10, 16, 200] {
            let expected = par::sum(n, grain, |range| dot_piece(&x[range.clone()], &y[range]));
            for starts in [vec![0, n], vec![0, 50, n], vec![0, 0, 3, 8, 9, 60, 60, n], vec![0, n, n, n]] {
                let one = |communicator| {
                    let over = Distribution::new(Arc::new(Ranks::new(communicator)), starts.clone());
                    let sums = Sums::new(&over, starts.clone());
                    let own = sums.own().clone();
                    sums.dot(&x[own.clone()], &y[own], grain).unwrap()
                };
                let found: Vec<f64> = std::thread::scope(|scope| {
                    let one = &one;
                    let all = threads(starts.len() - 1).into_iter().map(|c| scope.spawn(move || one(c)));
                    all.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
                });
                assert!(found.iter().all(|found| found.to_bits() == expected.to_bits()), "{grain} {starts:?}");
            }
        }
    }
}
