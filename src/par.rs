//! Parallel loops whose results do not depend on the number of threads.
//!
//! Every loop cuts its range in halves down to a fixed grain, so the pieces, and the order in which partial sums are
//! added, follow from the length alone. Nothing here allocates in the loops used by a solve. Outside of a thread pool the
//! same pieces run one after the other, so that small work never touches rayon, and no global pool is ever started.
//!
//! There are two recursions, one with and one without a sum, which take the work as a trait object: a call for each
//! piece costs nothing, and rayon's code is compiled twice instead of once for each loop or element type.

use crate::error::{Error, Result, try_capacity, try_push_last};
use crate::sync::lock;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Mutex;

/// Elements of a vector that one task handles.
pub const GRAIN: usize = 8192;

/// Rows of a matrix that one task handles.
pub const ROW_GRAIN: usize = 1024;

/// Both halves, at once where there are threads for it.
pub fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_thread_index().is_some() { rayon::join(a, b) } else { (a(), b()) }
}

/// Where a range of length `n` is cut: a multiple of the grain near the middle.
fn cut(n: usize, grain: usize) -> usize {
    (n / 2).div_ceil(grain) * grain
}

/// An array of which tasks have pieces.
struct Pieces<'a, T> {
    begin: *mut T,
    length: usize,
    array: PhantomData<&'a mut [T]>,
}

// SAFETY: a piece is used as a slice is, by one task at a time, and elements may go to other threads.
unsafe impl<T: Send> Sync for Pieces<'_, T> {}

impl<'a, T> Pieces<'a, T> {
    fn new(array: &'a mut [T]) -> Pieces<'a, T> {
        Pieces { begin: array.as_mut_ptr(), length: array.len(), array: PhantomData }
    }

    /// The elements of a range.
    ///
    /// # Safety
    /// Ranges that are in use at the same time do not overlap.
    #[allow(clippy::mut_from_ref, reason = "of each element there is one reference at a time, by the contract")]
    unsafe fn piece(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: the range lies in the array, which is borrowed as long as this is, and nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.begin.add(range.start), range.len()) }
    }
}

/// Work on a range. A trait object of `Fn` would carry two more compiled copies of each loop.
trait Work: Sync {
    fn run(&self, range: Range<usize>);
}

impl<F: Fn(Range<usize>) + Sync> Work for F {
    fn run(&self, range: Range<usize>) {
        self(range);
    }
}

/// Runs `work` on pieces of the range from 0 to `n`, each of exactly `grain` elements, the last one shorter.
pub fn for_each_range(n: usize, grain: usize, work: impl Fn(Range<usize>) + Sync) {
    fn go(range: Range<usize>, grain: usize, work: &dyn Work) {
        if range.len() <= grain {
            if !range.is_empty() {
                work.run(range);
            }
            return;
        }
        let mid = range.start + cut(range.len(), grain);
        join(|| go(range.start..mid, grain, work), || go(mid..range.end, grain, work));
    }
    go(0..n, grain, &work);
}

/// Runs `work` on pieces of `data` of exactly `grain` elements, the last one shorter; it gets the index of the piece's first element.
pub fn for_each_mut<T: Send>(data: &mut [T], grain: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let pieces = Pieces::new(data);
    for_each_range(pieces.length, grain, |range| {
        // SAFETY: the ranges of a loop do not overlap.
        work(range.start, unsafe { pieces.piece(range) });
    });
}

/// Runs `work` on pieces of two vectors of the same length.
pub fn for_each_mut2<T: Send, U: Send>(
    a: &mut [T],
    b: &mut [U],
    grain: usize,
    work: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    assert_eq!(a.len(), b.len());
    let (a, b) = (Pieces::new(a), Pieces::new(b));
    for_each_range(a.length, grain, |range| {
        // SAFETY: the ranges of a loop do not overlap.
        let (a, b) = unsafe { (a.piece(range.clone()), b.piece(range.clone())) };
        work(range.start, a, b);
    });
}

/// Runs `work` on rows: `data` holds `width` elements for each row, and pieces hold whole rows. `work` gets the first row.
pub fn for_each_row_mut<T: Send>(data: &mut [T], width: usize, grain: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    for_each_mut(data, grain * width, |start, piece| work(start / width, piece));
}

/// The rows of several arrays that a task has.
pub struct ArrayRows<'a, T> {
    pieces: &'a Pieces<'a, T>,
    rows: Range<usize>,
    /// Elements of a row, and rows of an array.
    width: usize,
    of_array: usize,
}

impl<T> ArrayRows<'_, T> {
    /// Row `row` of an array.
    pub fn get(&mut self, array: usize, row: usize) -> &mut [T] {
        assert!(self.rows.contains(&row));
        let begin = (array * self.of_array + row) * self.width;
        // SAFETY: no other task has this row of any array, and this one lends one row at a time.
        unsafe { self.pieces.piece(begin..begin + self.width) }
    }
}

/// Runs `work` on rows of `width` elements that each of `arrays` arrays of the same length has, one array after the other in
/// `data`: a piece has the same rows of all.
pub fn for_each_row_of_arrays_mut<T: Send>(
    data: &mut [T],
    arrays: usize,
    width: usize,
    grain: usize,
    work: impl Fn(Range<usize>, &mut ArrayRows<'_, T>) + Sync,
) {
    let pieces = Pieces::new(data);
    let of_array = pieces.length / (arrays * width).max(1);
    assert_eq!(of_array * arrays * width, pieces.length, "arrays have the same length");
    for_each_range(of_array, grain, |rows| {
        work(rows.clone(), &mut ArrayRows { pieces: &pieces, rows, width, of_array });
    });
}

/// Runs `work` on pieces of so many segments, which ascending `offsets` cut, with the range of their entries.
fn for_each_segment_range(offsets: &[i64], grain: usize, work: &(dyn Fn(Range<usize>, Range<usize>) + Sync)) {
    let count = offsets.len() - 1;
    let begin = |segment: usize| offsets[segment] - offsets[0];
    let begins = (0..count).step_by(grain).chain([count]).map(begin);
    assert!(begins.is_sorted(), "offsets are ascending");
    for_each_range(count, grain, |segments| {
        let entries = begin(segments.start) as usize..begin(segments.end) as usize;
        work(segments, entries);
    });
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
    let pieces = Pieces::new(data);
    for_each_segment_range(offsets, grain, &|segments, entries| {
        // SAFETY: the entries of different segments do not overlap.
        work(segments, unsafe { pieces.piece(entries.start * width..entries.end * width) });
    });
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

/// [`for_each_segment_mut`] on two arrays at once: `data` with one and `values` with `width` elements for each offset.
pub fn for_each_segment_mut2<T: Send, U: Send>(
    data: &mut [T],
    (values, width): (&mut [U], usize),
    offsets: &[i64],
    grain: usize,
    work: impl Fn(Range<usize>, &mut [T], &mut [U]) + Sync,
) {
    let (data, values) = (Pieces::new(data), Pieces::new(values));
    for_each_segment_range(offsets, grain, &|segments, entries| {
        let of_values = entries.start * width..entries.end * width;
        // SAFETY: the entries of different segments do not overlap.
        let (data, values) = unsafe { (data.piece(entries), values.piece(of_values)) };
        work(segments, data, values);
    });
}

/// A failure of the tasks of a loop, of which the first to be kept is returned after it.
#[derive(Default)]
pub struct Failure(Mutex<Option<Error>>);

impl Failure {
    /// Keeps the failure of a task.
    pub fn keep(&self, result: Result<()>) {
        if let Err(error) = result {
            lock(self.0.lock()).get_or_insert(error);
        }
    }

    /// The failure.
    pub fn check(self) -> Result<()> {
        lock(self.0.into_inner()).map_or(Ok(()), Err)
    }
}

/// Threads that a loop started here can use.
pub fn threads() -> usize {
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
}

/// The results of `work` on pieces of `0..n`, in order; its first failure if there is one.
pub fn map_ranges<R: Send>(n: usize, grain: usize, work: impl Fn(Range<usize>) -> Result<R> + Sync) -> Result<Vec<R>> {
    map_by(n, grain, &work)
}

/// [`map_ranges`], compiled once for each type of results.
fn map_by<R: Send>(n: usize, grain: usize, work: &(dyn Fn(Range<usize>) -> Result<R> + Sync)) -> Result<Vec<R>> {
    let mut out: Vec<Option<Result<R>>> = try_capacity(n.div_ceil(grain))?;
    out.resize_with(n.div_ceil(grain), || None);
    for_each_mut(&mut out, 1, |piece, slot| {
        slot[0] = Some(work(piece * grain..((piece + 1) * grain).min(n)));
    });
    let mut results = try_capacity(out.len())?;
    for result in out {
        results.push(result.expect("every piece has its result")?);
    }
    Ok(results)
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
    let pieces = Pieces::new(data);
    // SAFETY: the ranges of a loop do not overlap.
    sum(pieces.length, grain, |range| work(range.start, unsafe { pieces.piece(range) }))
}

/// [`for_each_mut2`], and the sum of the results of `work`, added in an order that depends on the length alone.
pub fn sum_mut2<T: Send, U: Send>(
    a: &mut [T],
    b: &mut [U],
    grain: usize,
    work: impl Fn(usize, &mut [T], &mut [U]) -> f64 + Sync,
) -> f64 {
    assert_eq!(a.len(), b.len());
    let (a, b) = (Pieces::new(a), Pieces::new(b));
    sum(a.length, grain, |range| {
        // SAFETY: the ranges of a loop do not overlap.
        let (a, b) = unsafe { (a.piece(range.clone()), b.piece(range.clone())) };
        work(range.start, a, b)
    })
}

/// [`sum`] of several numbers at once.
pub fn sums<const N: usize>(n: usize, grain: usize, work: impl Fn(Range<usize>) -> [f64; N] + Sync) -> [f64; N] {
    fn go<const N: usize>(
        range: Range<usize>,
        grain: usize,
        work: &(dyn Fn(Range<usize>) -> [f64; N] + Sync),
    ) -> [f64; N] {
        if range.len() <= grain {
            return if range.is_empty() { [0.0; N] } else { work(range) };
        }
        let mid = range.start + cut(range.len(), grain);
        let (a, b) = join(|| go(range.start..mid, grain, work), || go(mid..range.end, grain, work));
        std::array::from_fn(|c| a[c] + b[c])
    }
    go(0..n, grain, &work)
}

/// [`sum_mut`] of several numbers at once.
pub fn sums_mut<T: Send, const N: usize>(
    data: &mut [T],
    grain: usize,
    work: impl Fn(usize, &mut [T]) -> [f64; N] + Sync,
) -> [f64; N] {
    let pieces = Pieces::new(data);
    // SAFETY: the ranges of a loop do not overlap.
    sums(pieces.length, grain, |range| work(range.start, unsafe { pieces.piece(range) }))
}

/// [`sum_mut2`] of several numbers at once.
pub fn sums_mut2<T: Send, U: Send, const N: usize>(
    a: &mut [T],
    b: &mut [U],
    grain: usize,
    work: impl Fn(usize, &mut [T], &mut [U]) -> [f64; N] + Sync,
) -> [f64; N] {
    assert_eq!(a.len(), b.len());
    let (a, b) = (Pieces::new(a), Pieces::new(b));
    sums(a.length, grain, |range| {
        // SAFETY: the ranges of a loop do not overlap.
        let (a, b) = unsafe { (a.piece(range.clone()), b.piece(range.clone())) };
        work(range.start, a, b)
    })
}

/// Offsets of so many segments, one more than there are, from the length of each.
pub fn offsets(segments: usize, length: impl Fn(usize) -> usize) -> Result<Vec<i64>> {
    let mut offsets = try_capacity(segments + 1)?;
    let mut total = 0;
    for i in 0..segments {
        offsets.push(total);
        total += length(i) as i64;
    }
    offsets.push(total);
    Ok(offsets)
}

/// Turns counts into offsets: `counts[i]` becomes the sum of all before it, and the total is appended.
pub fn offsets_from_counts(mut counts: Vec<i64>) -> Result<Vec<i64>> {
    let mut total = 0;
    for c in &mut counts {
        total += std::mem::replace(c, total);
    }
    try_push_last(&mut counts, total)?;
    Ok(counts)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::unit_tests::assert_panics;

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
            assert_eq!(map_ranges(n, 3, |r| Ok(r.len())).unwrap().iter().sum::<usize>(), n);
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
        assert_eq!(offsets_from_counts(vec![2, 0, 3, 1]).unwrap(), offsets);
        assert_eq!(super::offsets(4, |i| [2, 0, 3, 1][i]).unwrap(), offsets);
    }

    #[test]
    fn offsets_that_overlap_or_end_beyond_the_array_are_refused() {
        let split = |length, offsets: &[i64]| for_each_segment_mut(&mut vec![0; length], offsets, 1, 1, |_, _| {});
        assert_panics("offsets are ascending", || split(6, &[0, 4, 2, 6]));
        assert_panics("range.end <= self.length", || split(5, &[0, 4, 6]));
    }
}
