//! The arrays of a matrix as a caller describes them: type, length and base are checked here before anything is read, then the arrays
//! are kept as they are or copied.

use super::borrow::{Lent, copy};
use super::terrace_type;
use super::types::{Index, index, precision};
use crate::context::Context;
use crate::error::{Result, fail, try_collect};
use crate::matrix::Values;
use crate::par;
use crate::scalar::Precision;
use crate::sparse::{OffsetStorage, Storage};
use std::ffi::c_void;
use std::sync::Arc;

/// A block size, or another small count.
pub(super) fn one_to_eight(argument: &str, value: i32) -> Result<usize> {
    if (1..=8).contains(&value) {
        Ok(value as usize)
    } else {
        fail!(InvalidArgument, "{argument} is {value}; accepted: 1 to 8")
    }
}

/// Dimensions as the caller gave them, with the names of the arguments.
pub(super) struct Size {
    pub names: [&'static str; 2],
    pub rows: i64,
    pub cols: i64,
    pub block: i32,
}

impl Size {
    /// Block rows, block columns and rows of a block. Scalar columns are 32-bit inside.
    pub fn check(&self) -> Result<(usize, usize, usize)> {
        let block = one_to_eight("block_size", self.block)?;
        let limit = i64::from(i32::MAX) / block as i64;
        for (name, value) in self.names.into_iter().zip([self.rows, self.cols]) {
            if !(0..=limit).contains(&value) {
                return fail!(InvalidArgument, "{name} is {value}; accepted: 0 to {limit}");
            }
        }
        Ok((self.rows as usize, self.cols as usize, block))
    }
}

/// Arrays as the caller gave them.
pub(super) struct Arrays {
    pub offset_type: terrace_type,
    pub row_offsets: *const c_void,
    pub column_type: terrace_type,
    pub columns: *const c_void,
    pub value_type: terrace_type,
    pub values: *const c_void,
}

/// Indices of the caller.
pub(super) enum LentIndices {
    I32(Lent<i32>),
    I64(Lent<i64>),
}

impl LentIndices {
    /// # Safety
    /// As for [`Lent::new`].
    pub unsafe fn new(
        context: &Context,
        kind: terrace_type,
        array: *const c_void,
        len: usize,
        argument: &str,
    ) -> Result<LentIndices> {
        Ok(match index("index_type", kind)? {
            // SAFETY: by this function's contract.
            Index::I32 => LentIndices::I32(unsafe { Lent::new(context, array, len, argument) }?),
            // SAFETY: by this function's contract.
            Index::I64 => LentIndices::I64(unsafe { Lent::new(context, array, len, argument) }?),
        })
    }

    pub fn at(&self, i: usize) -> i64 {
        match self {
            LentIndices::I32(indices) => i64::from(indices.as_slice()[i]),
            LentIndices::I64(indices) => indices.as_slice()[i],
        }
    }
}

/// Row offsets of the caller.
pub(super) enum LentOffsets {
    I32(Lent<i32>),
    I64(Lent<i64>),
}

impl LentOffsets {
    /// # Safety
    /// As for [`Lent::new`].
    pub unsafe fn new(
        context: &Context,
        offset_type: terrace_type,
        pointer: *const c_void,
        len: usize,
    ) -> Result<LentOffsets> {
        // SAFETY: by this function's contract.
        unsafe {
            Ok(match index("offset_type", offset_type)? {
                Index::I32 => LentOffsets::I32(Lent::new(context, pointer, len, "row_offsets")?),
                Index::I64 => LentOffsets::I64(Lent::new(context, pointer, len, "row_offsets")?),
            })
        }
    }

    fn get(&self, i: usize) -> i64 {
        match self {
            LentOffsets::I32(offsets) => i64::from(offsets.as_slice()[i]),
            LentOffsets::I64(offsets) => offsets.as_slice()[i],
        }
    }

    /// As [`entries`].
    pub fn entries(&self, rows: usize, cols: usize, base: i32) -> Result<usize> {
        entries((self.get(0), self.get(rows)), rows, cols, base)
    }

    /// The offsets of so many rows, counted from 0.
    pub fn counted_from_zero(&self, rows: usize, base: i32) -> Result<Vec<i64>> {
        try_collect((0..=rows).map(|i| self.get(i) - i64::from(base)))
    }

    pub fn keep(self, borrow: bool) -> Result<OffsetStorage> {
        Ok(match self {
            LentOffsets::I32(offsets) => OffsetStorage::I32(offsets.keep(borrow)?),
            LentOffsets::I64(offsets) => OffsetStorage::I64(offsets.keep(borrow)?),
        })
    }
}

/// Number of entries, from the first and the last offset. More than the matrix has places cannot be right, and is refused before
/// anything that long is read.
pub(super) fn entries((first, last): (i64, i64), rows: usize, cols: usize, base: i32) -> Result<usize> {
    let base = i64::from(base);
    if first != base {
        return fail!(MatrixStructure, "row_offsets[0] is {first}; it must be the base, {base}");
    }
    // Below 2^62, as both factors are below 2^31.
    let most = rows as i64 * cols as i64 + base;
    if !(base..=most).contains(&last) {
        return fail!(
            MatrixStructure,
            "row_offsets[{rows}] is {last}; accepted for {rows} rows and {cols} columns with base {base}: {base} to {most}"
        );
    }
    Ok((last - base) as usize)
}

/// Columns of the caller.
pub(super) enum LentColumns {
    I32(Lent<i32>),
    I64(Lent<i64>),
}

impl LentColumns {
    /// # Safety
    /// As for [`Lent::new`].
    pub unsafe fn new(
        context: &Context,
        column_type: terrace_type,
        pointer: *const c_void,
        len: usize,
    ) -> Result<LentColumns> {
        // SAFETY: by this function's contract.
        unsafe {
            Ok(match index("column_type", column_type)? {
                Index::I32 => LentColumns::I32(Lent::new(context, pointer, len, "columns")?),
                Index::I64 => LentColumns::I64(Lent::new(context, pointer, len, "columns")?),
            })
        }
    }

    pub fn len(&self) -> usize {
        match self {
            LentColumns::I32(columns) => columns.as_slice().len(),
            LentColumns::I64(columns) => columns.as_slice().len(),
        }
    }

    /// All columns, counted from 0.
    pub fn counted_from_zero(&self, base: i32) -> Result<Vec<i64>> {
        match self {
            LentColumns::I32(columns) => copy(columns.as_slice(), |c| i64::from(c) - i64::from(base)),
            LentColumns::I64(columns) => copy(columns.as_slice(), |c| c.saturating_sub(i64::from(base))),
        }
    }

    /// 32-bit columns. Whether they lie inside of the matrix is checked later; here only that 64-bit ones can be narrowed.
    pub fn keep(self, borrow: bool, offsets: &LentOffsets, base: i32) -> Result<Arc<dyn Storage<i32>>> {
        let wide = match self {
            LentColumns::I32(columns) => return columns.keep(borrow),
            LentColumns::I64(columns) => columns,
        };
        let columns = wide.as_slice();
        let bad =
            par::map_ranges(columns.len(), par::GRAIN, |mut r| Ok(r.find(|&k| i32::try_from(columns[k]).is_err())))?;
        if let Some(k) = bad.into_iter().flatten().next() {
            let row = (0..).find(|&i| offsets.get(i + 1) > k as i64 + i64::from(base)).unwrap_or(0);
            let row = row as i64 + i64::from(base);
            return fail!(MatrixStructure, "row {row} has column {}; columns must be below 2147483648", columns[k]);
        }
        Ok(Arc::new(copy(columns, |c| c as i32)?))
    }
}

/// Values of the caller.
pub(super) enum LentValues {
    F64(Lent<f64>),
    F32(Lent<f32>),
}

impl LentValues {
    /// # Safety
    /// As for [`Lent::new`].
    pub unsafe fn new(
        context: &Context,
        value_type: terrace_type,
        pointer: *const c_void,
        len: usize,
    ) -> Result<LentValues> {
        // SAFETY: by this function's contract.
        unsafe {
            Ok(match precision("value_type", value_type)? {
                Precision::F32 => LentValues::F32(Lent::new(context, pointer, len, "values")?),
                _ => LentValues::F64(Lent::new(context, pointer, len, "values")?),
            })
        }
    }

    /// The values at these places, among these and then those of `rest`, which is in the same format.
    pub fn ordered(&self, rest: Option<&LentValues>, order: &[u32]) -> Result<Values> {
        fn at<T: Copy>(first: &[T], rest: &[T], place: u32) -> T {
            let place = place as usize;
            if place < first.len() { first[place] } else { rest[place - first.len()] }
        }
        Ok(match (self, rest) {
            (LentValues::F64(values), rest) => {
                let rest = if let Some(LentValues::F64(rest)) = rest { rest.as_slice() } else { &[] };
                Values::from(try_collect(order.iter().map(|place| at(values.as_slice(), rest, *place)))?)
            }
            (LentValues::F32(values), rest) => {
                let rest = if let Some(LentValues::F32(rest)) = rest { rest.as_slice() } else { &[] };
                Values::from(try_collect(order.iter().map(|place| at(values.as_slice(), rest, *place)))?)
            }
        })
    }

    pub fn keep(self, borrow: bool) -> Result<Values> {
        Ok(match self {
            LentValues::F64(values) => Values::F64(values.keep(borrow)?),
            LentValues::F32(values) => Values::F32(values.keep(borrow)?),
        })
    }
}
