//! Checks of a caller's matrix. Errors name the row, counted in the caller's base.

use super::CsrView;
use crate::error::{Error, Result, fail, try_extend};
use crate::par;
use crate::scalar::Scalar;
use std::ops::Range;

/// Rows whose values are checked together; they stay in a cache.
const STRIP: usize = 32;

/// What is wrong with the diagonal of a square matrix, for those who need one; nothing in most matrices.
pub type DiagonalDefect = Option<Error>;

/// Checks offsets, columns and values. `sorted` is the caller's promise that columns ascend in each row. With several
/// defects the one in the lowest row is reported. Returns the first row whose diagonal is missing or zero.
pub fn validate<T: Scalar>(a: &CsrView<'_, T>, sorted: bool) -> Result<DiagonalDefect> {
    offsets(a)?;
    let defects = par::map_ranges(a.rows, 4096, |range| {
        let mut scratch = Vec::new();
        first(range.map(|i| row(a, i, sorted, &mut scratch)))
    })?;
    Ok(defects.into_iter().flatten().next())
}

/// Checks only the values and the diagonal, for a matrix whose structure was checked before.
pub fn validate_values<T: Scalar>(a: &CsrView<'_, T>) -> Result<DiagonalDefect> {
    let defects = par::map_ranges(a.rows, 4096, |range| {
        first(range.clone().step_by(STRIP).map(|i| strip_values(a, i..range.end.min(i + STRIP))))
    })?;
    Ok(defects.into_iter().flatten().next())
}

/// The first error, or else the first defect of a diagonal.
fn first(results: impl IntoIterator<Item = Result<DiagonalDefect>>) -> Result<DiagonalDefect> {
    let mut defect = None;
    for result in results {
        let found = result?;
        defect = defect.or(found);
    }
    Ok(defect)
}

fn offsets<T: Scalar>(a: &CsrView<'_, T>) -> Result<()> {
    let base = i64::from(a.base);
    let first = a.offsets.raw(0);
    if first != base {
        return fail!(MatrixStructure, "row_offsets[0] is {first}; it must be the base, {base}");
    }
    for i in 0..a.rows {
        let (start, end) = (a.offsets.raw(i), a.offsets.raw(i + 1));
        if end < start {
            return fail!(
                MatrixStructure,
                "row_offsets decrease at row {}: from {start} to {end}; they must not decrease",
                i as i64 + base
            );
        }
    }
    Ok(())
}

fn row<T: Scalar>(a: &CsrView<'_, T>, i: usize, sorted: bool, scratch: &mut Vec<i32>) -> Result<DiagonalDefect> {
    let base = i64::from(a.base);
    let name = i as i64 + base;
    let columns = &a.columns[a.row_range(i)];
    let limit = base + a.cols as i64;
    if let Some(c) = columns.iter().find(|c| i64::from(**c) < base || i64::from(**c) >= limit) {
        let last = limit - 1;
        return fail!(MatrixStructure, "row {name} has column {c}; accepted with base {base}: {base} to {last}");
    }
    let ascending = columns.windows(2).all(|w| w[0] < w[1]);
    if !ascending {
        scratch.clear();
        try_extend(scratch, columns.iter().copied())?;
        scratch.sort_unstable();
        if let Some(w) = scratch.windows(2).find(|w| w[0] == w[1]) {
            return fail!(MatrixStructure, "row {name} has column {} twice; every column may appear once", w[0]);
        }
        if sorted {
            return fail!(
                MatrixStructure,
                "the columns of row {name} do not ascend, though TERRACE_SORTED promises it; sort them or drop the flag"
            );
        }
    }
    row_values(a, i)
}

/// Whether every value is finite: zero times infinity or NaN is NaN, and so is a sum with it. There is no early exit,
/// so that the loop is vectorised.
fn are_finite<T: Scalar>(values: &[T]) -> bool {
    let mut sums = [T::ZERO; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (sum, v) in sums.iter_mut().zip(chunk) {
            *sum += *v * T::ZERO;
        }
    }
    sums.iter().chain(rest).all(|v| v.is_finite())
}

/// [`row_values`] of a strip of rows. If a check of the whole strip fails, its rows are checked one by one.
fn strip_values<T: Scalar>(a: &CsrView<'_, T>, mut rows: Range<usize>) -> Result<DiagonalDefect> {
    let (len, entries) = (a.block.len(), a.row_range(rows.start).start..a.row_range(rows.end - 1).end);
    match are_finite(&a.values[entries.start * len..entries.end * len]) {
        true => Ok(rows.find_map(|i| row_diagonal(a, i))),
        false => first(rows.map(|i| row_values(a, i))),
    }
}

fn row_values<T: Scalar>(a: &CsrView<'_, T>, i: usize) -> Result<DiagonalDefect> {
    let len = a.block.len();
    let row = a.row_range(i);
    let values = &a.values[row.start * len..row.end * len];
    if !are_finite(values) {
        let at = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
        let (name, column, value) = (i as i64 + i64::from(a.base), a.columns[row.start + at / len], values[at]);
        return fail!(MatrixValues, "row {name}, column {column} holds {value}; every value must be finite");
    }
    Ok(row_diagonal(a, i))
}

/// What is wrong with the diagonal of a row of a square matrix.
fn row_diagonal<T: Scalar>(a: &CsrView<'_, T>, i: usize) -> DiagonalDefect {
    if a.rows != a.cols || a.block.rows != a.block.cols {
        return None;
    }
    let name = i as i64 + i64::from(a.base);
    let diagonal = a.row_range(i).find(|k| a.col(*k) == i);
    let error = |what: &str| -> Error {
        let wanted = "AMG, FSAI and Jacobi need a non-zero diagonal entry in every row; solver.preconditioner none and solver.type direct do not";
        Error::new(crate::error::Status::MatrixValues, format!("row {name} has {what}; {wanted}"))
    };
    match diagonal {
        None => Some(error("no diagonal entry")),
        Some(k) => {
            let block = a.block_at(k);
            match (0..a.block.rows).find(|r| block[r * a.block.cols + r] == T::ZERO)? {
                _ if a.block.rows == 1 => Some(error("a zero diagonal entry")),
                r => Some(error(&format!("a zero diagonal entry at position {r} of its diagonal block"))),
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::sparse::{Block, Offsets};

    /// A defect of the diagonal as an error.
    fn strict(result: Result<DiagonalDefect>) -> Result<()> {
        result?.map_or(Ok(()), Err)
    }

    fn check(offsets: &[i32], columns: &[i32], values: &[f64], base: i32, sorted: bool) -> Result<()> {
        let (rows, block) = (offsets.len() - 1, Block::SCALAR);
        let a = CsrView { rows, cols: rows, block, offsets: Offsets::I32(offsets), columns, values, base };
        strict(validate(&a, sorted))
    }

    #[test]
    fn each_defect_is_named_with_its_row() {
        let nan = f64::NAN;
        type Case<'a> = (&'a [i32], &'a [i32], &'a [f64], i32, Status, &'a str);
        let cases: &[Case<'_>] = &[
            (&[1, 1, 2], &[0, 1], &[1.0, 1.0], 0, Status::MatrixStructure, "row_offsets[0] is 1"),
            (&[0, 2, 1], &[0, 1], &[1.0, 1.0], 0, Status::MatrixStructure, "decrease at row 1"),
            (&[0, 1, 2], &[0, 2], &[1.0, 1.0], 0, Status::MatrixStructure, "row 1 has column 2"),
            (&[1, 2, 3], &[1, 0], &[1.0, 1.0], 1, Status::MatrixStructure, "row 2 has column 0"),
            (&[0, 3, 4], &[0, 1, 1, 1], &[1.0; 4], 0, Status::MatrixStructure, "row 0 has column 1 twice"),
            (&[0, 2, 3], &[1, 0, 1], &[1.0; 3], 0, Status::MatrixStructure, "row 0 do not ascend"),
            (&[0, 1, 2], &[0, 1], &[1.0, nan], 0, Status::MatrixValues, "row 1, column 1 holds NaN"),
            (&[0, 1, 2], &[0, 0], &[1.0, 1.0], 0, Status::MatrixValues, "row 1 has no diagonal"),
            (&[0, 1, 2], &[0, 1], &[0.0, 1.0], 0, Status::MatrixValues, "row 0 has a zero diagonal"),
        ];
        for (offsets, columns, values, base, status, text) in cases {
            let error = check(offsets, columns, values, *base, true).unwrap_err();
            assert_eq!(error.status, *status, "{error}");
            assert!(error.message.contains(text), "{error} should contain {text}");
        }
    }

    /// Changed values are checked in strips. The error names the lowest row with a defect.
    #[test]
    fn changed_values_are_checked_in_every_strip() {
        let rows = 3 * STRIP + 5;
        let offsets: Vec<i32> = (0..=rows as i32).collect();
        let columns = &offsets[..rows];
        let check = |changes: &[(usize, f64)]| {
            let mut values = vec![1.0; rows];
            changes.iter().for_each(|(i, v)| values[*i] = *v);
            let (block, offsets) = (Block::SCALAR, Offsets::I32(&offsets));
            strict(validate_values(&CsrView { rows, cols: rows, block, offsets, columns, values: &values, base: 0 }))
        };
        assert!(check(&[]).is_ok());
        for i in [0, STRIP - 1, STRIP, 2 * STRIP + 3, rows - 1] {
            for (value, text) in [(f64::NAN, "NaN"), (f64::NEG_INFINITY, "-inf"), (0.0, "zero diagonal")] {
                let error = check(&[(i, value), (rows - 1, value)]).unwrap_err().message;
                assert!(error.contains(&format!("row {i}")) && error.contains(text), "{error}");
            }
        }
        // Values that no matrix may have come first.
        let error = check(&[(STRIP + 1, 0.0), (STRIP + 2, f64::INFINITY)]).unwrap_err().message;
        assert!(error.contains(&format!("row {}, column {} holds inf", STRIP + 2, STRIP + 2)), "{error}");
    }

    #[test]
    fn unsorted_rows_are_accepted_when_nothing_was_promised() {
        assert!(check(&[0, 2, 3], &[1, 0, 1], &[1.0; 3], 0, false).is_ok());
        assert!(check(&[0], &[], &[], 0, true).is_ok());
    }
}
