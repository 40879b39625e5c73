//! Given patterns: static ones, and those of a factor without its small entries.

use crate::backend::fsai::Static;
use crate::error::Result;
use crate::host::{rows, spgemm};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Structure};

/// The rows of a matrix with the entries that are kept, as ones. With `lower` without those above the diagonal, sorted, and
/// with all of the diagonal.
fn kept<T: Scalar>(a: &CsrView<'_, T>, lower: bool, keep: impl Fn(usize, usize, T) -> bool + Sync) -> Result<Csr<f32>> {
    let (offsets, columns, values) = rows::build(a.rows, 1, |range, out| {
        for i in range {
            let begin = out.columns.len();
            for e in a.row_range(i) {
                let j = a.col(e);
                let counts = if lower { j < i } else { true };
                if counts && (j == i || keep(i, j, a.values[e])) {
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

fn pattern(kept: Csr<f32>) -> Structure {
    Structure::new(kept.rows, kept.cols, Block::SCALAR, kept.offsets, kept.columns)
}

/// The lower triangle of a power of A without its small entries.
pub(super) fn of_power<T: Scalar>(a: &CsrView<'_, T>, diagonals: &[f64], wanted: &Static) -> Result<Structure> {
    let square = wanted.pre_filter * wanted.pre_filter;
    let is_large = |i: usize, j: usize, v: T| {
        let v = v.to_f64();
        v * v > square * (diagonals[i] * diagonals[j]).abs()
    };
    if wanted.power == 1 {
        return Ok(pattern(kept(a, true, is_large)?));
    }
    let large = kept(a, false, is_large)?;
    let mut power = spgemm::multiply(&large.view(), &large.view())?;
    for _ in 2..wanted.power {
        power = spgemm::multiply(&power.view(), &large.view())?;
    }
    Ok(pattern(kept(&power.view(), true, |_, _, _| true)?))
}

/// The pattern of G without entries below a share of the diagonal.
pub(super) fn without_small<T: Scalar>(g: &CsrView<'_, T>, diagonals: &[f64], share: f64) -> Result<Structure> {
    let square = share * share;
    Ok(pattern(kept(g, true, |i, j, v| {
        let (v, own) = (v.to_f64(), g.values[g.row_range(i).end - 1].to_f64());
        v * v * diagonals[j] > square * (own * own * diagonals[i])
    })?))
}
