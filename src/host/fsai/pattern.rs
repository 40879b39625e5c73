//! Given patterns: static ones, and those of a factor without its small entries.

use crate::backend::fsai::Static;
use crate::error::Result;
use crate::host::{rows, spgemm};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Structure};

/// The block rows of a matrix with the blocks that are kept, as ones. With `lower` without those above the diagonal, sorted, and
/// with all of the diagonal.
fn kept<T: Scalar>(
    a: &CsrView<'_, T>,
    lower: bool,
    keep: impl Fn(usize, usize, &[T]) -> bool + Sync,
) -> Result<Csr<f32>> {
    let (offsets, columns, values) = rows::build(a.rows, 1, |range, out| {
        for i in range {
            let begin = out.columns.len();
            for e in a.row_range(i) {
                let j = a.col(e);
                let counts = if lower { j < i } else { true };
                if counts && (j == i || keep(i, j, a.block_at(e))) {
                    out.push(j as i32, 1.0)?;
                }
            }
            if lower {
                out.columns[begin..].sort_unstable();
                out.push(i as i32, 1.0)?;
            }
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: a.rows, cols: a.rows, block: Block::SCALAR, offsets, columns, values })
}

fn pattern(kept: Csr<f32>, block: Block) -> Structure {
    Structure::new(kept.rows, kept.cols, block, kept.offsets, kept.columns)
}

/// Whether an entry of a block is large: of scalar row, scalar column and value.
fn any<T: Scalar>(n: usize, (i, j): (usize, usize), block: &[T], is_large: impl Fn(usize, usize, f64) -> bool) -> bool {
    block.iter().enumerate().any(|(at, v)| is_large(i * n + at / n, j * n + at % n, v.to_f64()))
}

/// The lower triangle of a power of A without its small entries. A block is kept where one of its entries is large.
pub(super) fn of_power<T: Scalar>(a: &CsrView<'_, T>, diagonals: &[f64], wanted: &Static) -> Result<Structure> {
    let (square, n) = (wanted.pre_filter * wanted.pre_filter, a.block.rows);
    let is_large = |i: usize, j: usize, block: &[T]| {
        any(n, (i, j), block, |i, j, v| v * v > square * (diagonals[i] * diagonals[j]).abs())
    };
    if wanted.power == 1 {
        return Ok(pattern(kept(a, true, is_large)?, a.block));
    }
    let large = kept(a, false, is_large)?;
    let mut power = spgemm::multiply(&large.view(), &large.view())?;
    for _ in 2..wanted.power {
        power = spgemm::multiply(&power.view(), &large.view())?;
    }
    Ok(pattern(kept(&power.view(), true, |_, _, _| true)?, a.block))
}

/// The pattern of G without blocks whose entries are all below a share of the diagonal.
pub(super) fn without_small<T: Scalar>(g: &CsrView<'_, T>, diagonals: &[f64], share: f64) -> Result<Structure> {
    let (square, n) = (share * share, g.block.rows);
    let is_large = |i: usize, j: usize, block: &[T]| {
        let last = g.block_at(g.row_range(i).end - 1);
        any(n, (i, j), block, |i, j, v| {
            let own = last[i % n * (n + 1)].to_f64();
            v * v * diagonals[j] > square * (own * own * diagonals[i])
        })
    };
    Ok(pattern(kept(g, true, is_large)?, g.block))
}
