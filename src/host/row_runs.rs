//! SpMV in f64 with [`RowRuns`]: of the rows of a run, the columns of the first one are read alone. Sums are those of [`super::simd`], to the bit.

use super::prefetch::{AHEAD, prefetch};
use super::simd::{add, tree};
use crate::sparse::{CsrView, LONGEST_ROW, RUN_GROUP, RowRuns};

/// Partial sums of a row: entry k goes to sum k modulo their number.
const LANES: usize = 8;

/// The products of the rows from `first` on, which begin a group, with `x`. Panics when a column lies outside of `x`.
pub fn products(a: &CsrView<'_, f64>, runs: &RowRuns, first: usize, x: &[f64], sums: &mut [f64]) {
    let end = first + sums.len();
    let mut run = runs.groups[first / RUN_GROUP] as usize;
    let mut row = first;
    while row < end {
        let (begin, next) = (runs.firsts[run] as usize, (runs.firsts[run + 1] as usize).min(end));
        let of_first = a.row_range(begin);
        let entries = of_first.len();
        let at = of_first.start + (row - begin) * entries;
        let rows = Run {
            columns: &a.columns[of_first],
            shift: (row - begin).wrapping_sub(a.base as usize),
            values: &a.values[at..at + (next - row) * entries],
            x,
        };
        let sums = &mut sums[row - first..next - first];
        match entries {
            0 => sums.fill(0.0),
            1 => rows.short::<1>(sums),
            2 => rows.short::<2>(sums),
            3 => rows.short::<3>(sums),
            4 => rows.short::<4>(sums),
            5 => rows.short::<5>(sums),
            6 => rows.short::<6>(sums),
            7 => rows.short::<7>(sums),
            8 => rows.short::<8>(sums),
            _ => rows.long(sums),
        }
        (row, run) = (next, run + 1);
    }
}

/// Rows of a run.
struct Run<'a> {
    /// Of the first row of the run.
    columns: &'a [i32],
    /// What they have to be moved by to be those of the first of these rows.
    shift: usize,
    values: &'a [f64],
    x: &'a [f64],
}

impl Run<'_> {
    /// Where the columns of the first of `count` rows are in x. All of them, and those of the other rows, are there.
    #[inline(always)]
    fn begins<const N: usize>(&self, count: usize) -> [usize; N] {
        let mut begins = [0; N];
        let mut last = 0;
        for (begin, column) in begins.iter_mut().zip(self.columns) {
            *begin = (*column as usize).wrapping_add(self.shift);
            last = last.max(*begin);
        }
        let inside = last.checked_add(count).is_some_and(|end| end <= self.x.len());
        assert!(inside && self.values.len() == count * self.columns.len(), "a column lies outside of the vector");
        begins
    }

    /// Rows of `N` entries, at most [`LANES`].
    #[inline(always)]
    fn short<const N: usize>(&self, sums: &mut [f64]) {
        let begins = self.begins::<N>(sums.len());
        assert_eq!(self.columns.len(), N);
        for (r, sum) in sums.iter_mut().enumerate() {
            prefetch(self.values, r * N + AHEAD);
            let mut terms = [0.0; N];
            for k in 0..N {
                // SAFETY: there are N values for each of the rows, and x goes on for as many rows behind each begin.
                terms[k] = unsafe { self.values.get_unchecked(r * N + k) * self.x.get_unchecked(begins[k] + r) };
            }
            *sum = tree::<N, f64>(terms);
        }
    }

    /// Rows of more than [`LANES`] entries, at most [`LONGEST_ROW`].
    #[inline(never)]
    fn long(&self, sums: &mut [f64]) {
        let n = self.columns.len();
        assert!(n <= LONGEST_ROW);
        let begins = self.begins::<LONGEST_ROW>(sums.len());
        let whole = n / LANES * LANES;
        for (r, sum) in sums.iter_mut().enumerate() {
            // SAFETY: as above, with n values for each row.
            let term = |k: usize| unsafe { self.values.get_unchecked(r * n + k) * self.x.get_unchecked(begins[k] + r) };
            let mut partial = [0.0; LANES];
            for first in (0..whole).step_by(LANES) {
                prefetch(self.values, r * n + first + AHEAD);
                for (k, partial) in partial.iter_mut().enumerate() {
                    *partial += term(first + k);
                }
            }
            for k in whole..n {
                partial[k - whole] += term(k);
            }
            *sum = add(&mut partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::hash::hash;
    use crate::host::spmv;

    #[test]
    fn products_have_the_bits_of_those_by_rows() {
        for name in ["poisson5:40", "poisson7:10", "poisson27:12", "poisson9:41", "anisotropic:33"] {
            let mut a = gallery::parse(name).unwrap().matrix;
            for (k, v) in a.values.iter_mut().enumerate() {
                *v = (hash(k, 2) % 1000) as f64 / 100.0 - 5.0;
            }
            let x: Vec<f64> = (0..a.rows).map(|i| (i as f64).sin()).collect();
            let mut expected = vec![0.0_f64; a.rows];
            spmv::apply(&a.view(), 1.0, &x, 0.0, &mut expected);
            let runs = RowRuns::find(&a.view()).unwrap().expect("a grid has runs");
            let mut found = vec![f64::NAN; a.rows];
            for (k, found) in found.chunks_mut(RUN_GROUP).enumerate() {
                products(&a.view(), &runs, k * RUN_GROUP, &x, found);
            }
            assert!(found.iter().zip(&expected).all(|(f, e)| f.to_bits() == e.to_bits()), "{name}");
        }
    }

    /// Borrowed arrays may be changed behind the library's back.
    #[test]
    #[should_panic(expected = "outside of the vector")]
    fn a_column_outside_of_the_vector_is_not_read() {
        let mut a = gallery::poisson5(20, 20).unwrap();
        let runs = RowRuns::find(&a.view()).unwrap().unwrap();
        let first = a.view().row_range(21).start;
        a.columns[first] = 399;
        products(&a.view(), &runs, 0, &[1.0; 400], &mut [0.0; RUN_GROUP]);
    }
}
