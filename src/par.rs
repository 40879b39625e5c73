//! Parallel loops whose results do not depend on the number of threads.
//!
//! Every loop cuts its range in halves down to a fixed grain, so the pieces, and the order in which partial sums are
//! added, follow from the length alone. Nothing here allocates in the loops used by a solve. Outside of a thread pool the
//! same pieces run one after the other, so that small work never touches rayon, and no global pool is ever started.
//!
//! The recursions take the work as a trait object: a call for each piece costs nothing, and rayon's code is compiled once for each
//! element type instead of once for each loop.

use crate::error::{Result, try_capacity};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Elements of a vector that one task handles.
pub const GRAIN: usize = 8192;

/// Rows of a matrix that one task handles.
pub const ROW_GRAIN: usize = 1024;

/// Both halves, at once where there are threads for it.
fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_thread_index().is_some() { rayon::join(a, b) } else { (a(), b()) }
}

/// Where a range of length `n` is cut: a multiple of the grain near the middle.
fn cut(n: usize, grain: usize) -> usize {
    (n / 2).div_ceil(grain) * grain
}

/// Runs `work` on pieces of `data` of exactly `grain` elements, the last one shorter; it gets the index of the piece's first element.
pub fn for_each_mut<T: Send>(data: &mut [T], grain: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    fn go<T: Send>(start: usize, data: &mut [T], grain: usize, work: &(dyn Fn(usize, &mut [T]) + Sync)) {
        if data.len() <= grain {
            if !data.is_empty() {
                work(start, data);
            }
            return;
        }
        let mid = cut(data.len(), grain);
        let (left, right) = data.split_at_mut(mid);
        join(|| go(start, left, grain, work), || go(start + mid, right, grain, work));
    }
    go(0, data, grain, &work);
}

/// Runs `work` on pieces of the range from 0 to `n`.
pub fn for_each_range(n: usize, grain: usize, work: impl Fn(Range<usize>) + Sync) {
    fn go(range: Range<usize>, grain: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
        if range.len() <= grain {
            if !range.is_empty() {
                work(range);
            }
            return;
        }
        let mid = range.start + cut(range.len(), grain);
        join(|| go(range.start..mid, grain, work), || go(mid..range.end, grain, work));
    }
    go(0..n, grain, &work);
}

/// Work on a piece of each of two vectors.
type OnTwo<'a, T, U> = dyn Fn(usize, &mut [T], &mut [U]) + Sync + 'a;

/// Runs `work` on pieces of two vectors of the same length.
pub fn for_each_mut2<T: Send, U: Send>(
    a: &mut [T],
    b: &mut [U],
    grain: usize,
    work: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    fn go<T: Send, U: Send>(start: usize, a: &mut [T], b: &mut [U], grain: usize, work: &OnTwo<'_, T, U>) {
        if a.len() <= grain {
            if !a.is_empty() {
                work(start, a, b);
            }
            return;
        }
        let mid = cut(a.len(), grain);
        let (a0, a1) = a.split_at_mut(mid);
        let (b0, b1) = b.split_at_mut(mid);
        join(|| go(start, a0, b0, grain, work), || go(start + mid, a1, b1, grain, work));
    }
    assert_eq!(a.len(), b.len());
    go(0, a, b, grain, &work);
}

/// Runs `work` on rows: `data` holds `width` elements for each row, and pieces hold whole rows. `work` gets the first row.
pub fn for_each_row_mut<T: Send>(data: &mut [T], width: usize, grain: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    for_each_mut(data, grain * width, |start, piece| work(start / width, piece));
}

/// Runs `work` on segments of `data` cut by ascending `offsets` (`segments + 1` of them, each times `width` elements); it gets
/// the range of segments and their elements. For filling the rows of a matrix whose pattern is known.
pub fn for_each_segment_mut<T: Send>(
    data: &mut [T],
    offsets: &[i64],
    width: usize,
    grain: usize,
    work: impl Fn(Range<usize>, &mut [T]) + Sync,
) {
    fn go<T: Send>(
        rows: Range<usize>,
        data: &mut [T],
        offsets: &[i64],
        width: usize,
        grain: usize,
        work: &(dyn Fn(Range<usize>, &mut [T]) + Sync),
    ) {
        if rows.len() <= grain {
            if !rows.is_empty() {
                work(rows, data);
            }
            return;
        }
        let mid = rows.start + cut(rows.len(), grain);
        let (left, right) = data.split_at_mut((offsets[mid] - offsets[rows.start]) as usize * width);
        join(
            || go(rows.start..mid, left, offsets, width, grain, work),
            || go(mid..rows.end, right, offsets, width, grain, work),
        );
    }
    go(0..offsets.len() - 1, data, offsets, width, grain, &work);
}

/// What a task has not yet filled of a new array.
pub struct Fresh<'a, T> {
    rest: &'a mut [MaybeUninit<T>],
    zero: T,
}

impl<'a, T: Copy> Fresh<'a, T> {
    /// The next elements, which are zero: cleared where they are about to be used, they are in the cache.
    #[inline(always)]
    pub fn next(&mut self, count: usize) -> &'a mut [T] {
        let (next, rest) = std::mem::take(&mut self.rest).split_at_mut(count);
        self.rest = rest;
        for element in &mut *next {
            element.write(self.zero);
        }
        // SAFETY: each element was just written, and has the layout of a T.
        unsafe { &mut *(std::ptr::from_mut(next) as *mut [T]) }
    }
}

/// A new array of segments, divided as by [`for_each_segment_mut`]; elements that `work` does not write are zero.
pub fn new_segments<T: Copy + Send + Sync>(
    offsets: &[i64],
    width: usize,
    grain: usize,
    zero: T,
    work: impl Fn(Range<usize>, &mut Fresh<'_, T>) + Sync,
) -> Result<Vec<T>> {
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    assert_eq!(first, 0, "segments begin with the array");
    let length = last * width;
    let mut all: Vec<T> = try_capacity(length)?;
    for_each_segment_mut(&mut all.spare_capacity_mut()[..length], offsets, width, grain, |range, rest| {
        let mut fresh = Fresh { rest, zero };
        work(range, &mut fresh);
        fresh.next(fresh.rest.len());
    });
    // SAFETY: the segments are cut from all of the array, so that each element was written by a task, or after it.
    unsafe { all.set_len(length) };
    Ok(all)
}

/// Work on the segments of a range in two arrays.
type OnSegments<'a, T, U> = dyn Fn(Range<usize>, &mut [T], &mut [U]) + Sync + 'a;

/// [`for_each_segment_mut`] on two arrays at once: `data` with one and `values` with `width` elements for each offset.
pub fn for_each_segment_mut2<T: Send, U: Send>(
    data: &mut [T],
    (values, width): (&mut [U], usize),
    offsets: &[i64],
    grain: usize,
    work: impl Fn(Range<usize>, &mut [T], &mut [U]) + Sync,
) {
    fn go<T: Send, U: Send>(
        rows: Range<usize>,
        data: &mut [T],
        (values, width): (&mut [U], usize),
        offsets: &[i64],
        grain: usize,
        work: &OnSegments<'_, T, U>,
    ) {
        if rows.len() <= grain {
            if !rows.is_empty() {
                work(rows, data, values);
            }
            return;
        }
        let mid = rows.start + cut(rows.len(), grain);
        let at = (offsets[mid] - offsets[rows.start]) as usize;
        let (d0, d1) = data.split_at_mut(at);
        let (v0, v1) = values.split_at_mut(at * width);
        join(
            || go(rows.start..mid, d0, (v0, width), offsets, grain, work),
            || go(mid..rows.end, d1, (v1, width), offsets, grain, work),
        );
    }
    go(0..offsets.len() - 1, data, (values, width), offsets, grain, &work);
}

/// Threads that a loop started here can use.
pub fn threads() -> usize {
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
}

/// The results of `work` on pieces of `0..n`, in order.
pub fn map_ranges<R: Send>(n: usize, grain: usize, work: impl Fn(Range<usize>) -> R + Sync) -> Vec<R> {
    let mut out: Vec<Option<R>> = (0..n.div_ceil(grain)).map(|_| None).collect();
    for_each_mut(&mut out, 1, |piece, slot| {
        slot[0] = Some(work(piece * grain..((piece + 1) * grain).min(n)));
    });
    out.into_iter().flatten().collect()
}

/// The sum of `work` over pieces of `0..n`, added in an order that depends on `n` alone.
pub fn sum(n: usize, grain: usize, work: impl Fn(Range<usize>) -> f64 + Sync) -> f64 {
    fn go(range: Range<usize>, grain: usize, work: &(dyn Fn(Range<usize>) -> f64 + Sync)) -> f64 {
        if range.len() <= grain {
            return if range.is_empty() { 0.0 } else { work(range) };
        }
        let mid = range.start + cut(range.len(), grain);
        let (a, b) = join(|| go(range.start..mid, grain, work), || go(mid..range.end, grain, work));
        a + b
    }
    go(0..n, grain, &work)
}

/// [`for_each_mut`], and the sum of the results of `work`, added in an order that depends on the length alone.
pub fn sum_mut<T: Send>(data: &mut [T], grain: usize, work: impl Fn(usize, &mut [T]) -> f64 + Sync) -> f64 {
    fn go<T: Send>(start: usize, data: &mut [T], grain: usize, work: &(dyn Fn(usize, &mut [T]) -> f64 + Sync)) -> f64 {
        if data.len() <= grain {
            return if data.is_empty() { 0.0 } else { work(start, data) };
        }
        let mid = cut(data.len(), grain);
        let (left, right) = data.split_at_mut(mid);
        let (x, y) = join(|| go(start, left, grain, work), || go(start + mid, right, grain, work));
        x + y
    }
    go(0, data, grain, &work)
}

/// Work on a piece of each of two vectors that gives a number.
type SumOnTwo<'a, T, U> = dyn Fn(usize, &mut [T], &mut [U]) -> f64 + Sync + 'a;

/// [`for_each_mut2`], and the sum of the results of `work`, added in an order that depends on the length alone.
pub fn sum_mut2<T: Send, U: Send>(
    a: &mut [T],
    b: &mut [U],
    grain: usize,
    work: impl Fn(usize, &mut [T], &mut [U]) -> f64 + Sync,
) -> f64 {
    fn go<T: Send, U: Send>(start: usize, a: &mut [T], b: &mut [U], grain: usize, work: &SumOnTwo<'_, T, U>) -> f64 {
        if a.len() <= grain {
            return if a.is_empty() { 0.0 } else { work(start, a, b) };
        }
        let mid = cut(a.len(), grain);
        let (a0, a1) = a.split_at_mut(mid);
        let (b0, b1) = b.split_at_mut(mid);
        let (x, y) = join(|| go(start, a0, b0, grain, work), || go(start + mid, a1, b1, grain, work));
        x + y
    }
    assert_eq!(a.len(), b.len());
    go(0, a, b, grain, &work)
}

/// Turns counts into offsets: `counts[i]` becomes the sum of all before it, and the total is appended.
pub fn offsets_from_counts(mut counts: Vec<i64>) -> Vec<i64> {
    let mut total = 0;
    for c in &mut counts {
        total += std::mem::replace(c, total);
    }
    counts.push(total);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> Vec<rayon::ThreadPool> {
        [1, 2, 7].iter().map(|n| rayon::ThreadPoolBuilder::new().num_threads(*n).build().unwrap()).collect()
    }

    #[test]
    fn sums_have_the_same_bits_for_any_number_of_threads() {
        for n in [0, 1, 7, 8, 9, 100_003] {
            let x: Vec<f64> = (0..n).map(|i| ((i * 7919) as f64).sin()).collect();
            let total = || sum(n, 8, |r| x[r].iter().sum());
            let alone = total();
            let fused = || {
                let (mut a, mut b) = (vec![0.0; n], vec![0.0; n]);
                sum_mut2(&mut a, &mut b, 8, |start, a, b| {
                    a.copy_from_slice(&x[start..start + a.len()]);
                    b.copy_from_slice(a);
                    b.iter().sum()
                })
            };
            assert_eq!(fused().to_bits(), alone.to_bits());
            for pool in pools() {
                assert_eq!(pool.install(total).to_bits(), alone.to_bits());
                assert_eq!(pool.install(fused).to_bits(), alone.to_bits());
            }
        }
    }

    #[test]
    fn every_element_is_visited_once() {
        for n in [0, 1, 9, 10, 11, 1000] {
            let visit = || {
                let mut x = vec![0; n];
                for_each_mut(&mut x, 10, |start, piece| {
                    for (k, v) in piece.iter_mut().enumerate() {
                        *v += start + k;
                    }
                });
                x
            };
            let expected: Vec<usize> = (0..n).collect();
            assert_eq!(visit(), expected);
            for pool in pools() {
                assert_eq!(pool.install(visit), expected);
            }
            for_each_mut(&mut vec![0; n], 10, |start, piece| {
                assert_eq!((start % 10, piece.len()), (0, (n - start).min(10)));
            });
            assert_eq!(map_ranges(n, 3, |r| r.len()).iter().sum::<usize>(), n);
        }
    }

    #[test]
    fn segments_follow_their_offsets() {
        let offsets = [0, 2, 2, 5, 6];
        let mut data = vec![0; 12];
        for_each_segment_mut(&mut data, &offsets, 2, 1, |rows, piece| {
            for v in piece {
                *v = rows.start;
            }
        });
        assert_eq!(data, [0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 3, 3]);
        assert_eq!(offsets_from_counts(vec![2, 0, 3, 1]), offsets);
    }
}
