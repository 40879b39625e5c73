//! Storage by diagonals (DIA) in groups of rows: the entries of a group on the same diagonal are contiguous and share
//! one column offset. On regular grids there are hardly any indices, and SpMV loads matrix and vector by whole
//! registers, without gathers. Missing entries are stored as zeros.
//!
//! For square blocks, values with the same position in their block are contiguous: one lane for each block row.

use super::compact::GROUP;
use super::{Block, CsrView, SharedCsr};
use crate::error::{Result, try_capacity, try_extend, try_push, try_reserve, try_vec};
use crate::par;
use crate::scalar::{Number, Precision};
use std::ops::Range;

/// Groups of a sample, which is checked before the whole matrix.
const SAMPLE: usize = 64;

/// Block rows of a group: as many as a register holds f32. More rows would share fewer diagonals.
pub const BLOCK_ROWS: usize = 16;

/// A matrix by diagonals in groups of [`GROUP`] rows, or of [`BLOCK_ROWS`] block rows.
pub struct Diagonals<S> {
    /// Block rows of the matrix.
    pub rows: usize,
    /// Block columns of the matrix.
    pub cols: usize,
    /// Rows and columns of a block.
    pub width: usize,
    /// Rows in a group.
    pub group: usize,
    /// Scalar entries of the matrix, without the zeros that were added.
    pub entries: usize,
    /// The first diagonal of each group, and the end.
    pub starts: Vec<i64>,
    /// Column less row of each diagonal, ascending in a group.
    pub distances: Vec<i32>,
    /// Values: for each diagonal and each position in the block, one for each row of the group.
    pub values: Vec<S>,
}

impl<S: Number> Diagonals<S> {
    /// Converts a matrix. None if columns do not ascend, or if it does not pay: for scalars if it saves less than a
    /// fifth of the bytes of [`Compact`](super::Compact), for blocks, where it also saves arithmetic, if it takes a
    /// tenth more bytes. In f64 memory is the only bound.
    pub fn new(a: &SharedCsr<S>) -> Result<Option<Diagonals<S>>> {
        let view = a.view();
        let Block { rows: width, cols } = view.block;
        if width != cols || view.rows == 0 || S::PRECISION == Precision::F64 {
            return Ok(None);
        }
        let group = if width == 1 { GROUP } else { BLOCK_ROWS };
        let len = view.block.len();
        let groups = view.rows.div_ceil(group);
        let bytes = |diagonals: usize| diagonals * (group * len * size_of::<S>() + size_of::<i32>());
        let pays = |diagonals: usize, blocks: usize| match width {
            1 => 5 * bytes(diagonals) <= 4 * blocks * (size_of::<S>() + size_of::<u16>()),
            _ => 10 * bytes(diagonals) <= 11 * blocks * (len * size_of::<S>() + size_of::<i32>()),
        };
        let rows = |g: usize| g * group..(g * group + group).min(view.rows);
        let blocks = |g: usize| view.row_range(rows(g).end - 1).end - view.row_range(rows(g).start).start;
        let (mut found, mut counted, mut union) = (0, 0, Vec::new());
        for g in (0..groups).step_by(groups.div_ceil(SAMPLE)) {
            // With four times as many diagonals as full ones would have it does not pay.
            if !distances(&view, rows(g), 4 * blocks(g).div_ceil(group), &mut union)? {
                return Ok(None);
            }
            (found, counted) = (found + union.len(), counted + blocks(g));
        }
        if !pays(found, counted) {
            return Ok(None);
        }
        let pieces = par::map_ranges(groups, par::ROW_GRAIN / group, |range| {
            let (mut all, mut counts, mut union) = (Vec::new(), Vec::new(), Vec::new());
            for g in range {
                if !distances(&view, rows(g), usize::MAX, &mut union)? {
                    return Ok(None);
                }
                try_push(&mut counts, union.len() as i64)?;
                try_extend(&mut all, union.iter().copied())?;
            }
            Ok(Some((counts, all)))
        })?;
        if pieces.iter().any(Option::is_none) {
            return Ok(None);
        }
        let pieces = || pieces.iter().flatten();
        let (mut counts, mut all) = (try_capacity(groups + 1)?, try_capacity(pieces().map(|p| p.1.len()).sum())?);
        for (piece_counts, piece) in pieces() {
            counts.extend_from_slice(piece_counts);
            all.extend_from_slice(piece);
        }
        if !pays(all.len(), view.nnz()) {
            return Ok(None);
        }
        let starts = par::offsets_from_counts(counts)?;
        let mut values = try_vec(all.len() * group * len, S::ZERO)?;
        par::for_each_segment_mut(&mut values, &starts, group * len, par::ROW_GRAIN / group, |range, values| {
            let begin = starts[range.start] as usize;
            for g in range {
                let of_group = &all[starts[g] as usize..starts[g + 1] as usize];
                let values = &mut values[(starts[g] as usize - begin) * group * len..];
                for i in rows(g) {
                    let mut next = 0;
                    for k in view.row_range(i) {
                        let distance = distance(&view, i, k);
                        if of_group.get(next) != Some(&distance) {
                            next = of_group.binary_search(&distance).expect("the group has all distances of its rows");
                        }
                        let lane = values[next * group * len + i % group..].iter_mut().step_by(group);
                        for (to, from) in lane.zip(view.block_at(k)) {
                            *to = *from;
                        }
                        next += 1;
                    }
                }
            }
        });
        let (rows, cols, entries) = (view.rows, view.cols, view.entries());
        Ok(Some(Diagonals { rows, cols, width, group, entries, starts, distances: all, values }))
    }

    /// Name of the storage format in reports.
    pub fn format(&self) -> String {
        match self.width {
            1 => format!("dia{GROUP}"),
            width => format!("dia{BLOCK_ROWS}-{width}x{width}"),
        }
    }

    /// Distances and values of a group.
    pub fn group(&self, g: usize) -> (&[i32], &[S]) {
        let range = self.starts[g] as usize..self.starts[g + 1] as usize;
        let len = self.group * self.width * self.width;
        (&self.distances[range.clone()], &self.values[range.start * len..range.end * len])
    }

    /// Bytes that the library holds for it.
    pub fn owned_bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.distances[..]) + size_of_val(&self.values[..])
    }
}

fn distance<S: Number>(a: &CsrView<'_, S>, i: usize, k: usize) -> i32 {
    (a.col(k) as i64 - i as i64) as i32
}

/// The column offsets of the entries of some rows, ascending; stops beyond `enough` of them. False if the columns of a
/// row do not ascend. A row with the same offsets as the row before costs two comparisons for each entry.
fn distances<S: Number>(a: &CsrView<'_, S>, rows: Range<usize>, enough: usize, union: &mut Vec<i32>) -> Result<bool> {
    union.clear();
    for i in rows {
        let mut next = 0;
        let mut before = None;
        for k in a.row_range(i) {
            let distance = distance(a, i, k);
            if before >= Some(distance) {
                return Ok(false);
            }
            before = Some(distance);
            if union.get(next) != Some(&distance) {
                next = match union.binary_search(&distance) {
                    Ok(at) => at,
                    Err(at) => {
                        try_reserve(union, 1)?;
                        union.insert(at, distance);
                        at
                    }
                };
            }
            next += 1;
        }
        if union.len() > enough {
            break;
        }
    }
    Ok(true)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn entries_come_back_as_they_were_and_everything_else_is_zero() {
        let elasticity = gallery::parse("elasticity:16").unwrap().matrix;
        for a in [gallery::poisson7(9, 8, 7).unwrap(), gallery::poisson27(20, 11, 5).unwrap(), elasticity] {
            let a = a.into_shared().cast::<f32>().unwrap();
            let view = a.view();
            let diagonals = Diagonals::new(&a).unwrap().unwrap();
            let (group, len) = (diagonals.group, view.block.len());
            let mut count = 0;
            for g in 0..view.rows.div_ceil(group) {
                let (distances, values) = diagonals.group(g);
                assert!(distances.is_sorted_by(|a, b| a < b));
                for (d, values) in distances.iter().zip(values.chunks_exact(group * len)) {
                    for (p, v) in values.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                        let i = g * group + p % group;
                        let found = view.row(i).find(|(j, _)| *j as i64 == i as i64 + i64::from(*d));
                        assert_eq!(found.unwrap().1[p / group], *v);
                        count += 1;
                    }
                }
            }
            assert_eq!(count, view.values.iter().filter(|v| **v != 0.0).count());
            assert_eq!(diagonals.entries, view.entries());
            let bound = if len == 1 { view.nnz() * 6 * 4 / 5 } else { view.nnz() * (len * 4 + 4) * 11 / 10 };
            assert!(diagonals.owned_bytes() <= bound + diagonals.starts.len() * 8);
        }
    }

    #[test]
    fn what_has_no_diagonals_is_left_as_it_is() {
        let scattered: Vec<_> = (0..500).flat_map(|i| [(i, i, 1.0_f32), (i, (i * i * 7 + 3) % 500, 2.0)]).collect();
        let scattered = Csr::from_triplets(500, 500, &scattered).unwrap();
        let blocks = scattered.view().to_blocks(2).unwrap();
        assert!(Diagonals::new(&scattered.into_shared()).unwrap().is_none());
        assert!(Diagonals::new(&blocks.into_shared()).unwrap().is_none());
        let double = gallery::poisson27(6, 6, 6).unwrap().view().to_blocks(2).unwrap().into_shared();
        assert!(Diagonals::new(&double).unwrap().is_none());
        assert!(Diagonals::new(&Csr::<f32>::from_triplets(0, 0, &[]).unwrap().into_shared()).unwrap().is_none());
    }
}
