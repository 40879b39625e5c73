//! Runs of rows of a scalar matrix: each row of a run has the columns of the row before it, one further. On grids most rows are in long runs, of
//! which a product reads the columns of the first row alone. Values stay where they are.

use super::{Block, CsrView};
use crate::error::{Result, try_capacity, try_push};
use crate::par;
use crate::scalar::Number;

/// Rows whose first run is known: a product finds the runs of a group of rows without a search.
pub const RUN_GROUP: usize = 128;

/// Rows that one task looks through; runs end there.
const PIECE: usize = 32 * RUN_GROUP;

/// Runs must have so many rows on average to be worth it.
const SHORTEST: usize = 3;

/// Most entries of a row.
pub const LONGEST_ROW: usize = 64;

/// Where the runs of a matrix begin.
pub struct RowRuns {
    /// The first row of each run, and the number of rows behind them.
    pub firsts: Vec<u32>,
    /// For each group of [`RUN_GROUP`] rows, the run of its first row.
    pub groups: Vec<u32>,
}

impl RowRuns {
    /// Looks for runs; none where there are blocks, or long rows, or too few rows in a run.
    pub fn find<S: Number>(a: &CsrView<'_, S>) -> Result<Option<RowRuns>> {
        if a.block != Block::SCALAR || u32::try_from(a.rows).is_err() || a.rows == 0 {
            return Ok(None);
        }
        // Most matrices without runs show that at once.
        let sample = a.rows.min(8 * RUN_GROUP);
        if find_in(a, 0..sample)?.is_none_or(|runs| runs.len() * SHORTEST > sample) {
            return Ok(None);
        }
        let pieces = par::map_ranges(a.rows, PIECE, |rows| find_in(a, rows))?;
        let count: usize = pieces.iter().map(|piece| piece.as_ref().map_or(a.rows, Vec::len)).sum();
        if count * SHORTEST > a.rows {
            return Ok(None);
        }
        let (mut firsts, mut groups) = (try_capacity(count + 1)?, try_capacity(a.rows.div_ceil(RUN_GROUP))?);
        for first in pieces.into_iter().flatten().flatten() {
            // Groups that begin before this run begin in the one before it.
            while groups.len() * RUN_GROUP < first as usize {
                groups.push(firsts.len() as u32 - 1);
            }
            firsts.push(first);
        }
        while groups.len() * RUN_GROUP < a.rows {
            groups.push(firsts.len() as u32 - 1);
        }
        firsts.push(a.rows as u32);
        Ok(Some(RowRuns { firsts, groups }))
    }

    /// Bytes.
    pub fn owned_bytes(&self) -> usize {
        size_of_val(&self.firsts[..]) + size_of_val(&self.groups[..])
    }
}

/// The first rows of the runs of some rows; none where a row is long.
fn find_in<S: Number>(a: &CsrView<'_, S>, rows: std::ops::Range<usize>) -> Result<Option<Vec<u32>>> {
    let mut firsts = Vec::new();
    let mut before: &[i32] = &[];
    for i in rows.clone() {
        let columns = &a.columns[a.row_range(i)];
        if columns.len() > LONGEST_ROW {
            return Ok(None);
        }
        let goes_on = columns.len() == before.len() && columns.iter().zip(before).all(|(c, before)| c - 1 == *before);
        if i == rows.start || !goes_on {
            try_push(&mut firsts, i as u32)?;
        }
        before = columns;
    }
    Ok(Some(firsts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn rows_of_a_grid_are_in_runs_that_end_at_its_edges() {
        let a = gallery::poisson5(40, 30).unwrap();
        let runs = RowRuns::find(&a.view()).unwrap().unwrap();
        let ends = |x: u32| [0, 1, 39].contains(&x);
        assert!((0..1200).all(|i| runs.firsts.contains(&i) == ends(i % 40)));
        assert_eq!(runs.firsts.last(), Some(&1200));
        for (group, run) in runs.groups.iter().enumerate() {
            let row = (group * RUN_GROUP) as u32;
            assert!(runs.firsts[*run as usize] <= row && row < runs.firsts[*run as usize + 1]);
        }
        assert_eq!(runs.groups.len(), 1200_usize.div_ceil(RUN_GROUP));
    }

    #[test]
    fn matrices_without_order_have_no_runs() {
        let random = gallery::parse("random_m_matrix:300").unwrap().matrix;
        assert!(RowRuns::find(&random.view()).unwrap().is_none());
        let blocks = gallery::poisson5(40, 30).unwrap().view().to_blocks(2).unwrap();
        assert!(RowRuns::find(&blocks.view()).unwrap().is_none());
        let empty = Csr::<f64>::from_triplets(0, 0, &[]).unwrap();
        assert!(RowRuns::find(&empty.view()).unwrap().is_none());
    }
}
