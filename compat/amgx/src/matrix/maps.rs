//! Maps of a caller: which of its rows a rank sends to each neighbour, and which columns of its halo it receives.

use crate::boundary::{Result, fail, required};
use crate::native::zeros;
use crate::ranks::Ranks;
use std::ffi::c_int;

/// The maps of one rank.
#[derive(Default)]
pub struct Maps {
    pub neighbours: Vec<usize>,
    /// Rows, for each neighbour.
    pub send: Vec<Vec<i32>>,
    /// Columns from the number of rows on, for each neighbour.
    pub receive: Vec<Vec<i32>>,
}

/// The neighbours that a caller names.
///
/// # Safety
/// Null, or as many numbers.
pub unsafe fn neighbours(ranks: &Ranks, count: usize, array: *const c_int) -> Result<Vec<usize>> {
    if count > 0 {
        required(array, "neighbors")?;
    }
    let mut neighbours = Vec::new();
    for i in 0..count {
        // SAFETY: by this function's contract.
        let neighbour = unsafe { *array.add(i) };
        match usize::try_from(neighbour) {
            Ok(rank) if rank < ranks.size && rank != ranks.rank && !neighbours.contains(&rank) => neighbours.push(rank),
            _ => {
                return fail!(
                    BadParameters,
                    "neighbors[{i}] is {neighbour}; accepted: 0 to {}, each once, without this rank, {}",
                    ranks.size - 1,
                    ranks.rank
                );
            }
        }
    }
    Ok(neighbours)
}

/// A map of so many indices.
///
/// # Safety
/// Null, or as many numbers.
pub unsafe fn map(array: *const c_int, len: usize, argument: &str) -> Result<Vec<i32>> {
    if len == 0 {
        return Ok(Vec::new());
    }
    required(array, argument)?;
    let mut copy = zeros(len)?;
    // SAFETY: by this function's contract.
    copy.copy_from_slice(unsafe { std::slice::from_raw_parts(array, len) });
    Ok(copy)
}

impl Maps {
    /// Columns of the halo.
    fn halo(&self) -> usize {
        self.receive.iter().map(Vec::len).sum()
    }

    /// Refuses rows that this rank does not have, and columns of the halo that are there twice or not at all.
    fn check(&self, rows: usize) -> Result<()> {
        let mut is_there = vec![false; self.halo()];
        for (place, neighbour) in self.neighbours.iter().enumerate() {
            let inside = |row: &&i32| usize::try_from(**row).is_ok_and(|row| row < rows);
            if let Some(row) = self.send[place].iter().find(|row| !inside(row)) {
                let most = rows as i64 - 1;
                return fail!(BadParameters, "the map to rank {neighbour} has row {row}; accepted: 0 to {most}");
            }
            for column in &self.receive[place] {
                let at = usize::try_from(*column).ok().and_then(|column| column.checked_sub(rows));
                match at.and_then(|at| is_there.get_mut(at)) {
                    Some(known) if !*known => *known = true,
                    _ => {
                        return fail!(
                            BadParameters,
                            "the map from rank {neighbour} has column {column}; accepted: {rows} to {}, each once",
                            (rows + self.halo()) as i64 - 1
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses maps of two ranks that do not fit each other. `all` are neighbour, sent and received rows of each rank.
    fn fits(&self, ranks: &Ranks, all: &[i64], starts: &[usize]) -> Result<()> {
        for (place, neighbour) in self.neighbours.iter().enumerate() {
            let theirs = all[starts[*neighbour]..starts[*neighbour + 1]].chunks_exact(3);
            let of_this = theirs.into_iter().find(|entry| entry[0] == ranks.rank as i64);
            let (sent, received) = (self.send[place].len(), self.receive[place].len());
            let (their_sent, their_received) = of_this.map_or((0, 0), |entry| (entry[1], entry[2]));
            if (their_sent, their_received) != (received as i64, sent as i64) {
                return fail!(
                    BadParameters,
                    "this rank, {}, sends {sent} rows to rank {neighbour} and receives {received}; that one receives \
                     {their_received} and sends {their_sent}",
                    ranks.rank
                );
            }
        }
        Ok(())
    }

    /// Collective: the numbers of the columns of the halo in the whole matrix, for a rank with so many rows from `first`
    /// on.
    pub fn numbers(&self, ranks: &Ranks, first: usize, rows: usize) -> Result<Vec<i32>> {
        ranks.agree(self.check(rows))?;
        let mut own = Vec::new();
        for (place, neighbour) in self.neighbours.iter().enumerate() {
            own.extend([*neighbour, self.send[place].len(), self.receive[place].len()].map(|number| number as i64));
        }
        let (all, starts) = ranks.gather(&own)?;
        ranks.agree(self.fits(ranks, &all, &starts))?;
        let send =
            self.send.iter().map(|rows| rows.iter().map(|row| (first as i64 + i64::from(*row)) as i32).collect());
        let send: Vec<Vec<i32>> = send.collect();
        let mut receive: Vec<Vec<i32>> = self.receive.iter().map(|columns| vec![0; columns.len()]).collect();
        let mut numbers = ranks.agree(zeros(self.halo()))?;
        ranks.exchange(&self.neighbours, &send, &mut receive)?;
        for (columns, received) in self.receive.iter().zip(&receive) {
            for (column, number) in columns.iter().zip(received) {
                numbers[*column as usize - rows] = *number;
            }
        }
        Ok(numbers)
    }
}
