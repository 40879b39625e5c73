//! The even and the odd cells of a line by themselves, so that what is done for each coarse cell is done on neighbouring numbers.

use crate::host::prefetch::prefetch;
use crate::scalar::Scalar;

/// Bytes that come into a cache together.
const CACHE_LINE: usize = 64;

/// The cells of a line along x that is coarsened: coarse cell k lies at 2 k.
#[derive(Clone, Copy)]
pub(super) struct SplitLine<'a, T> {
    /// Cells 2 k.
    pub even: &'a [T],
    /// Cells 2 k - 1.
    pub odd: &'a [T],
}

/// Elements of an array for so many coarse cells.
pub(super) fn split_length(coarse: usize) -> usize {
    2 * (coarse + 1)
}

/// Splits a line, in an array of [`split_length`]. Both parts have an element more than there are coarse cells. Outside of the line there are zeros, or
/// where it is periodic the cells at its other end.
#[inline(always)]
pub(super) fn split<'a, T: Scalar>(line: &[T], periodic: bool, array: &'a mut [T]) -> SplitLine<'a, T> {
    let (even, odd) = array.split_at_mut(array.len() / 2);
    let pairs = line.len() / 2;
    let end = |at: usize| if periodic { line[at] } else { T::ZERO };
    odd[0] = end(line.len() - 1);
    // The line after the next one, which the next coarse line needs.
    (0..line.len()).step_by(CACHE_LINE / size_of::<T>()).for_each(|k| prefetch(line, k + 2 * line.len()));
    for (pair, (even, odd)) in line.chunks_exact(2).zip(even[..pairs].iter_mut().zip(&mut odd[1..=pairs])) {
        *even = pair[0];
        *odd = pair[1];
    }
    if line.len() > 2 * pairs {
        even[pairs] = line[2 * pairs];
        odd[pairs + 1] = end(0);
    } else {
        even[pairs] = end(0);
    }
    SplitLine { even, odd }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn cells_beside_a_line_are_zero_or_at_its_other_end() {
        for (line, periodic, even, odd) in [
            (&[1.0, 2.0, 3.0, 4.0][..], false, &[1.0, 3.0, 0.0][..], &[0.0, 2.0, 4.0][..]),
            (&[1.0, 2.0, 3.0, 4.0], true, &[1.0, 3.0, 1.0], &[4.0, 2.0, 4.0]),
            (&[1.0, 2.0, 3.0], false, &[1.0, 3.0], &[0.0, 2.0, 0.0]),
            (&[1.0, 2.0, 3.0], true, &[1.0, 3.0], &[3.0, 2.0, 1.0]),
            (&[1.0], true, &[1.0], &[1.0, 1.0]),
        ] {
            let mut array = vec![f64::NAN; split_length(line.len().div_ceil(2))];
            let found = split(line, periodic, &mut array);
            assert_eq!((&found.even[..even.len()], &found.odd[..odd.len()]), (even, odd), "{line:?}");
        }
    }
}
