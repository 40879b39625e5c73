//! SpMV in f64 with [`RowRuns`]: of the rows of a run, the columns of the first one are read alone. Sums are those of [`super::simd`], to the bit.

use super::multivector_rows::{Call, with_features};
use super::prefetch::{AHEAD, prefetch};
use super::simd::{add, tree};
use crate::sparse::{CsrView, LONGEST_ROW, RUN_GROUP, RowRuns};

/// Partial sums of a row: entry k goes to sum k modulo their number.
const LANES: usize = 8;

/// Rows that are multiplied at a time.
const STRIP: usize = 4;

/// The products of the rows from `first` on, which begin a group, with `x`. Panics when a column lies outside of `x`.
pub fn products(a: &CsrView<'_, f64>, runs: &RowRuns, first: usize, x: &[f64], sums: &mut [f64]) {
    with_features(Call(|| group(a, runs, first, x, sums)));
}

#[inline(always)]
fn group(a: &CsrView<'_, f64>, runs: &RowRuns, first: usize, x: &[f64], sums: &mut [f64]) {
    let end = first + sums.len();
    let mut run = runs.groups[first / RUN_GROUP] as usize;
    let mut row = first;
    while row < end {
        let (begin, next) = (runs.firsts[run] as usize, (runs.firsts[run + 1] as usize).min(end));
        let rows = a.row_range(begin);
        let (columns, entries) = (&a.columns[rows.clone()], rows.len());
        // Where the columns of `row` are in x. A column that is not there is a number too large for any slice.
        let mut begins = [0; LONGEST_ROW];
        for (to, c) in begins[..entries].iter_mut().zip(columns) {
            *to = ((c - a.base) as usize).wrapping_add(row - begin);
        }
        let begins = &begins[..entries];
        let at = rows.start + (row - begin) * entries;
        let values = &a.values[at..at + (next - row) * entries];
        let sums = &mut sums[row - first..next - first];
        prefetch(a.columns, rows.end + AHEAD);
        match entries {
            0 => sums.fill(0.0),
            1 => short::<1>(values, x, begins, sums),
            2 => short::<2>(values, x, begins, sums),
            3 => short::<3>(values, x, begins, sums),
            4 => short::<4>(values, x, begins, sums),
            5 => short::<5>(values, x, begins, sums),
            6 => short::<6>(values, x, begins, sums),
            7 => short::<7>(values, x, begins, sums),
            8 => short::<8>(values, x, begins, sums),
            _ => long(values, x, begins, sums),
        }
        (row, run) = (next, run + 1);
    }
}

/// Rows of `N` entries, at most [`LANES`].
#[inline(always)]
fn short<const N: usize>(values: &[f64], x: &[f64], begins: &[usize], sums: &mut [f64]) {
    let (rows, mut x_of) = (values.as_chunks::<N>().0, [&x[..0]; N]);
    for (x_of, begin) in x_of.iter_mut().zip(begins) {
        *x_of = &x[*begin..][..sums.len()];
    }
    let strips = sums.len() / STRIP;
    for strip in 0..strips {
        let first = strip * STRIP;
        prefetch(values, first * N + AHEAD);
        prefetch(values, first * N + AHEAD + 8);
        prefetch(values, first * N + AHEAD + 16);
        prefetch(values, first * N + AHEAD + 24);
        let x: [&[f64; STRIP]; N] = x_of.map(|x| x[first..].first_chunk().expect("the strip is in the run"));
        let rows: &[[f64; N]; STRIP] = rows[first..].first_chunk().expect("the strip is in the run");
        let sums: &mut [f64; STRIP] = sums[first..].first_chunk_mut().expect("the strip is in the run");
        for r in 0..STRIP {
            sums[r] = tree::<N, f64>(std::array::from_fn(|k| rows[r][k] * x[k][r]));
        }
    }
    for r in strips * STRIP..sums.len() {
        sums[r] = tree::<N, f64>(std::array::from_fn(|k| rows[r][k] * x_of[k][r]));
    }
}

/// Rows of more than [`LANES`] entries.
#[inline(always)]
fn long(values: &[f64], x: &[f64], begins: &[usize], sums: &mut [f64]) {
    let mut x_of = [&x[..0]; LONGEST_ROW];
    let x_of = &mut x_of[..begins.len()];
    for (x_of, begin) in x_of.iter_mut().zip(begins) {
        *x_of = &x[*begin..][..sums.len()];
    }
    for (r, (sum, row)) in sums.iter_mut().zip(values.chunks_exact(begins.len())).enumerate() {
        for line in (0..row.len()).step_by(8) {
            prefetch(values, r * row.len() + line + AHEAD);
        }
        let mut partial = [0.0; LANES];
        let (rows, xs) = (row.as_chunks::<LANES>(), x_of.as_chunks::<LANES>());
        for (row, x) in rows.0.iter().zip(xs.0) {
            for k in 0..LANES {
                partial[k] += row[k] * x[k][r];
            }
        }
        for (partial, (v, x)) in partial.iter_mut().zip(rows.1.iter().zip(xs.1)) {
            *partial += v * x[r];
        }
        *sum = add(&mut partial);
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
        for name in ["poisson5:40:30", "poisson7:10:9:8", "poisson27:9", "poisson9:41", "anisotropic:33"] {
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
    #[should_panic(expected = "out of range")]
    fn a_column_outside_of_the_vector_is_not_read() {
        let mut a = gallery::poisson5(20, 20).unwrap();
        let runs = RowRuns::find(&a.view()).unwrap().unwrap();
        let first = a.view().row_range(21).start;
        a.columns[first] = 399;
        products(&a.view(), &runs, 0, &[1.0; 400], &mut [0.0; RUN_GROUP]);
    }
}
