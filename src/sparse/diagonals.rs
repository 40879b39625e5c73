//! Scalar matrices by diagonals: within a group of rows the entries at the same distance from the diagonal lie side by side, and one number
//! tells the distance of all of them. On regular grids that leaves next to no indices, and a product reads matrix and vector in whole
//! registers, without gathering. Rows that lack an entry have a zero there.

use super::compact::GROUP;
use super::{Block, CsrView, SharedCsr};
use crate::error::{Result, try_capacity, try_vec};
use crate::host::par;
use crate::scalar::Number;

/// Groups that are looked at before all are.
const SAMPLE: usize = 64;

/// A matrix by diagonals in groups of [`GROUP`] rows.
pub struct Diagonals<S> {
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// Entries of the matrix, without the zeros that were added.
    pub entries: usize,
    /// The first diagonal of each group, and the end.
    pub starts: Vec<i64>,
    /// Column less row of each diagonal, ascending in a group.
    pub distances: Vec<i32>,
    /// Values, [`GROUP`] for each diagonal.
    pub values: Vec<S>,
}

impl<S: Number> Diagonals<S> {
    /// The matrix in this form; none where it has blocks or columns that do not ascend, or where that does not save a fifth of the bytes of columns in 16 bits.
    pub fn new(a: &SharedCsr<S>) -> Result<Option<Diagonals<S>>> {
        let view = a.view();
        if view.block != Block::SCALAR || view.rows == 0 {
            return Ok(None);
        }
        let groups = view.rows.div_ceil(GROUP);
        let step = groups.div_ceil(SAMPLE);
        let bytes = |diagonals: usize| diagonals * (GROUP * size_of::<S>() + size_of::<i32>());
        let saves = |diagonals: usize, entries: usize| {
            5 * bytes(diagonals) <= 4 * entries * (size_of::<S>() + size_of::<u16>())
        };
        let entries =
            |g: usize| view.row_range((g * GROUP + GROUP).min(view.rows) - 1).end - view.row_range(g * GROUP).start;
        let (mut found, mut counted, mut union) = (0, 0, Vec::new());
        for g in (0..groups).step_by(step) {
            if !distances(&view, g, &mut union) {
                return Ok(None);
            }
            (found, counted) = (found + union.len(), counted + entries(g));
        }
        if !saves(found, counted) {
            return Ok(None);
        }
        let pieces = par::map_ranges(groups, par::ROW_GRAIN / GROUP, |range| {
            let (mut all, mut counts, mut union) = (Vec::new(), Vec::new(), Vec::new());
            for g in range {
                if !distances(&view, g, &mut union) {
                    return None;
                }
                counts.push(union.len() as i64);
                all.extend_from_slice(&union);
            }
            Some((counts, all))
        });
        let Some(pieces) = pieces.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        let (mut counts, mut all) = (try_capacity(groups + 1)?, try_capacity(pieces.iter().map(|p| p.1.len()).sum())?);
        for (piece_counts, piece) in pieces {
            counts.extend(piece_counts);
            all.extend(piece);
        }
        if !saves(all.len(), view.nnz()) {
            return Ok(None);
        }
        let starts = par::offsets_from_counts(counts);
        let mut values = try_vec(all.len() * GROUP, S::ZERO)?;
        par::for_each_segment_mut(&mut values, &starts, GROUP, par::ROW_GRAIN / GROUP, |range, values| {
            let begin = starts[range.start] as usize;
            for g in range {
                let of_group = &all[starts[g] as usize..starts[g + 1] as usize];
                let values = &mut values[(starts[g] as usize - begin) * GROUP..];
                for i in g * GROUP..(g * GROUP + GROUP).min(view.rows) {
                    let mut next = 0;
                    for k in view.row_range(i) {
                        let distance = distance(&view, i, k);
                        if of_group.get(next) != Some(&distance) {
                            next = of_group.binary_search(&distance).expect("the group has all distances of its rows");
                        }
                        values[next * GROUP + i % GROUP] = view.values[k];
                        next += 1;
                    }
                }
            }
        });
        Ok(Some(Diagonals { rows: view.rows, cols: view.cols, entries: view.nnz(), starts, distances: all, values }))
    }

    /// Distances and values of a group.
    pub fn group(&self, g: usize) -> (&[i32], &[S]) {
        let range = self.starts[g] as usize..self.starts[g + 1] as usize;
        (&self.distances[range.clone()], &self.values[range.start * GROUP..range.end * GROUP])
    }

    /// Bytes that the library holds for it.
    pub fn owned_bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.distances[..]) + size_of_val(&self.values[..])
    }
}

fn distance<S: Number>(a: &CsrView<'_, S>, i: usize, k: usize) -> i32 {
    (a.col(k) as i64 - i as i64) as i32
}

/// All distances of a group's entries, ascending; false where a row is not. Rows like the one before cost two comparisons for each entry.
fn distances<S: Number>(a: &CsrView<'_, S>, g: usize, union: &mut Vec<i32>) -> bool {
    union.clear();
    for i in g * GROUP..(g * GROUP + GROUP).min(a.rows) {
        let mut next = 0;
        let mut before = None;
        for k in a.row_range(i) {
            let distance = distance(a, i, k);
            if before >= Some(distance) {
                return false;
            }
            before = Some(distance);
            if union.get(next) != Some(&distance) {
                next = match union.binary_search(&distance) {
                    Ok(at) => at,
                    Err(at) => {
                        union.insert(at, distance);
                        at
                    }
                };
            }
            next += 1;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn entries_come_back_as_they_were_and_everything_else_is_zero() {
        for a in [gallery::poisson7(9, 8, 7).unwrap(), gallery::poisson27(20, 11, 5).unwrap()] {
            let a = a.into_shared().cast::<f32>().unwrap();
            let view = a.view();
            let diagonals = Diagonals::new(&a).unwrap().unwrap();
            let mut count = 0;
            for g in 0..view.rows.div_ceil(GROUP) {
                let (distances, values) = diagonals.group(g);
                assert!(distances.is_sorted_by(|a, b| a < b));
                for (d, values) in distances.iter().zip(values.chunks_exact(GROUP)) {
                    for (r, v) in values.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                        let i = g * GROUP + r;
                        let found = view.row(i).find(|(j, _)| *j as i64 == i as i64 + i64::from(*d));
                        assert_eq!(found.unwrap().1[0], *v);
                        count += 1;
                    }
                }
            }
            assert_eq!((count, diagonals.entries), (view.nnz(), view.nnz()));
            assert!(diagonals.owned_bytes() * 5 <= view.nnz() * 6 * 4 + diagonals.starts.len() * 40);
        }
    }

    #[test]
    fn what_has_no_diagonals_is_left_as_it_is() {
        let scattered: Vec<_> = (0..500).flat_map(|i| [(i, i, 1.0_f32), (i, (i * i * 7 + 3) % 500, 2.0)]).collect();
        let scattered = Csr::from_triplets(500, 500, &scattered).unwrap().into_shared();
        assert!(Diagonals::new(&scattered).unwrap().is_none());
        let blocks = gallery::poisson5(8, 8).unwrap().view().to_blocks(2).unwrap().into_shared();
        assert!(Diagonals::new(&blocks).unwrap().is_none());
        assert!(Diagonals::new(&Csr::<f32>::from_triplets(0, 0, &[]).unwrap().into_shared()).unwrap().is_none());
    }
}
