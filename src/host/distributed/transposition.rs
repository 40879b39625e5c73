//! The transpose of a matrix whose rows are divided among ranks. Each rank has the transpose of its rows, and sends
//! what belongs to the rows of others, which are the ghosts among its columns.

use super::divided::DividedMatrix;
use crate::comm::divided::{COLUMNS, LENGTHS, NUMBERS};
use crate::comm::halo::scaled;
use crate::comm::{Distribution, DividedLevel, Numbering, Part, exchange, widened};
use crate::error::{Result, try_collect, try_copy, try_vec};
use crate::host::transpose::{self, TransposeSymbolic};
use crate::scalar::{Element, Scalar};
use crate::sparse::{Csr, Graph, Structure};
use std::ops::Range;
use std::sync::Arc;

/// Messages of a transposition.
struct Transposition {
    /// The numbers of the rows of the transpose.
    numbers: Arc<Numbering>,
    /// Where the own rows begin in the transpose of the rows of this rank.
    begins: Vec<i64>,
    /// In entries.
    sends: Vec<Part>,
    receives: Vec<Part>,
    /// Entries that come for own rows, one for each number that the halo sends.
    lengths: Vec<i64>,
}

impl Transposition {
    /// For the offsets of the transpose of the rows of this rank. Collective.
    fn new(over: &Distribution, numbers: &Arc<Numbering>, offsets: &[i64]) -> Result<Transposition> {
        let halo = &numbers.halo;
        let length = |row: usize| offsets[row + 1] - offsets[row];
        let out = try_collect((0..halo.ghosts).map(|ghost| length(numbers.of_ghost(ghost))))?;
        let mut lengths = try_vec(halo.sent.len(), 0_i64)?;
        exchange(over, LENGTHS, (&halo.receives, &out), (&halo.sends, &mut lengths))?;
        // The ghosts of a rank are neighbours.
        let sends = try_collect(halo.receives.iter().map(|part| {
            let (first, last) = (numbers.of_ghost(part.begin), numbers.of_ghost(part.begin + part.length - 1));
            let begin = offsets[first] as usize;
            Part { rank: part.rank, begin, length: offsets[last + 1] as usize - begin }
        }))?;
        let (receives, _) = widened(&halo.sends, &lengths)?;
        let begins = try_copy(numbers.of_own(offsets))?;
        Ok(Transposition { numbers: Arc::clone(numbers), begins, sends, receives, lengths })
    }

    /// Offsets of the rows of this rank of the transpose, counted from its first.
    fn own_offsets(&self) -> Result<Vec<i64>> {
        let mut offsets = try_vec(self.begins.len(), 0_i64)?;
        for (i, row) in self.numbers.halo.sent.iter().enumerate() {
            offsets[*row as usize + 1] += self.lengths[i];
        }
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1] + self.begins[i] - self.begins[i - 1];
        }
        Ok(offsets)
    }

    /// From something for each entry of the transpose of the rows of this rank, `width` elements each, that for its
    /// rows of the transpose. Collective.
    fn exchanged<E: Element>(&self, over: &Distribution, tag: i32, own: &[E], width: usize) -> Result<Vec<E>> {
        let halo = &self.numbers.halo;
        let incoming = self.receives.iter().map(|part| part.length).sum::<usize>();
        let mut others = try_vec(incoming * width, E::default())?;
        let (sends, receives) = (scaled(&self.sends, width)?, scaled(&self.receives, width)?);
        exchange(over, tag, (&sends, own), (&receives, &mut others))?;
        let mut at = self.own_offsets()?;
        let mut all = try_vec(at[at.len() - 1] as usize * width, E::default())?;
        let mut put = |row: usize, from: &[E]| {
            let begin = at[row] as usize * width;
            all[begin..begin + from.len()].copy_from_slice(from);
            at[row] += (from.len() / width) as i64;
        };
        // Entries of lower ranks come first, so that columns ascend.
        let rank = over.ranks.rank();
        let lower = halo.sends.iter().take_while(|part| part.rank < rank).count();
        let put_some = |parts: Range<usize>, put: &mut dyn FnMut(usize, &[E])| {
            for (rows, entries) in halo.sends[parts.clone()].iter().zip(&self.receives[parts]) {
                let mut begin = entries.begin;
                for i in rows.begin..rows.begin + rows.length {
                    let end = begin + self.lengths[i] as usize;
                    put(halo.sent[i] as usize, &others[begin * width..end * width]);
                    begin = end;
                }
            }
        };
        put_some(0..lower, &mut put);
        for (row, ends) in self.begins.windows(2).enumerate() {
            put(row, &own[ends[0] as usize * width..ends[1] as usize * width]);
        }
        put_some(lower..halo.sends.len(), &mut put);
        Ok(all)
    }

    /// Bytes held.
    fn bytes(&self) -> usize {
        size_of_val(&self.begins[..]) + size_of_val(&self.lengths[..])
    }
}

/// The rows of this rank of the transpose. Collective.
pub(crate) fn transposed<T: Scalar>(over: &Arc<Distribution>, p: &DividedMatrix<T>) -> Result<DividedMatrix<T>> {
    let mut t = transpose::transpose(&p.matrix.view())?;
    let messages = Transposition::new(over, &p.columns, &t.offsets)?;
    t.columns.iter_mut().for_each(|i| *i = p.rows.global(*i as usize) as i32);
    let columns = messages.exchanged(over, COLUMNS, &t.columns, 1)?;
    let values = messages.exchanged(over, NUMBERS, &t.values, t.block.len())?;
    let starts = over.block_starts(p.rows.total, t.block.cols)?;
    let (numbers, columns) = Numbering::of_columns(over, &starts, columns.len(), |k| columns[k] as usize)?;
    let offsets = p.columns.among_ghosts(&messages.own_offsets()?)?;
    let matrix = Csr { rows: p.columns.count(), cols: numbers.count(), block: t.block, offsets, columns, values };
    Ok(DividedMatrix { matrix: matrix.into_shared(), rows: Arc::clone(&p.columns), columns: Arc::new(numbers) })
}

/// The own rows of the transpose of a graph: offsets, and columns by global numbers. Collective.
pub(super) fn transposed_graph(level: DividedLevel<'_>, s: &Graph) -> Result<(Vec<i64>, Vec<i32>)> {
    let DividedLevel { over, numbers } = level;
    let mut t = s.transpose()?;
    let messages = Transposition::new(over, numbers, &t.offsets)?;
    t.columns.iter_mut().for_each(|i| *i = numbers.global(*i as usize) as i32);
    Ok((messages.own_offsets()?, messages.exchanged(over, COLUMNS, &t.columns, 1)?))
}

/// Symbolic data of a transposition.
pub(crate) struct DividedTransposition {
    /// The transpose of the own rows.
    local: Arc<Structure>,
    positions: TransposeSymbolic,
    messages: Transposition,
}

impl DividedTransposition {
    /// Collective.
    pub fn new<T: Scalar>(over: &Distribution, a: &DividedMatrix<T>) -> Result<DividedTransposition> {
        let local = transpose::transpose(&a.matrix.view())?.into_shared().structure;
        let positions = TransposeSymbolic::new(&a.matrix.view(), &local)?;
        let messages = Transposition::new(over, &a.columns, local.own_arrays().0)?;
        Ok(DividedTransposition { local, positions, messages })
    }

    /// Numeric phase: the values of the rows of this rank. Collective.
    pub fn numeric<T: Scalar>(&self, over: &Distribution, a: &DividedMatrix<T>) -> Result<Vec<T>> {
        let values = self.positions.numeric(&a.matrix.view(), &self.local)?;
        self.messages.exchanged(over, NUMBERS, &values, self.local.block.len())
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.local.owned_bytes() + self.positions.bytes() + self.messages.bytes()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::distributed::divided::gathered;
    use crate::host::distributed::divided::testing::{divided, on_ranks, random};
    use crate::sparse::Block;

    #[test]
    fn a_transpose_is_that_of_one_rank_and_so_are_its_values_alone() {
        for block in [Block::SCALAR, Block { rows: 2, cols: 3 }] {
            // A coarse level with rows on three ranks, and one on the first alone.
            for (rows, cols) in [(3000, 1600), (600, 40)] {
                let a = random(rows, cols, 4, block, 7);
                let expected = transpose::transpose(&a.view()).unwrap();
                let n = rows * block.rows;
                let all_starts = [[0, n / 4 * 2, n / 4 * 2, n], [0, 0, 6, n], [0, n, n, n]];
                for starts in all_starts {
                    on_ranks(&starts, |over| {
                        let part = divided(over, &a);
                        let t = transposed(over, &part).unwrap();
                        assert!(gathered(over, &t).unwrap() == expected, "{rows} {starts:?}");
                        let symbolic = DividedTransposition::new(over, &part).unwrap();
                        assert_eq!(symbolic.numeric(over, &part).unwrap(), t.matrix.values.as_slice());
                    });
                }
            }
        }
    }
}
