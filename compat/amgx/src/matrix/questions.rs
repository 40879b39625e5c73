//! What programs ask about a matrix, and tell about it.

use super::{Matrix, arrays};
use crate::boundary::{call, count, fail, required, write_optional};
use crate::handles;
use crate::ranks::agree;
use std::ffi::{c_int, c_void};

/// Whether pattern and values are symmetric; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_check_symmetry(
    mtx: *mut c_void,
    structurally_symmetric: *mut c_int,
    symmetric: *mut c_int,
) -> c_int {
    call(|| {
        let own = handles::get::<Matrix>(mtx, "mtx")?.uploaded("mtx")?;
        let blocks = own.stored();
        // Transposed twice it is the matrix itself, with ascending columns.
        let transposed = own.native.transpose()?;
        let itself = transposed.transpose()?;
        let transposed = arrays(&transposed, own.rows, blocks, own.block)?;
        let itself = arrays(&itself, own.rows, blocks, own.block)?;
        let pattern = (&transposed.0, &transposed.1) == (&itself.0, &itself.1);
        // SAFETY: null or valid for a write, as the header asks.
        unsafe {
            write_optional(structurally_symmetric, c_int::from(pattern));
            write_optional(symmetric, c_int::from(pattern && transposed.2 == itself.2));
        }
        Ok(())
    })
}

/// Whether every row is diagonally dominant; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_check_diag_dominant(mtx: *mut c_void, diag_dominant: *mut c_int) -> c_int {
    call(|| {
        required(diag_dominant, "diag_dominant")?;
        let own = handles::get::<Matrix>(mtx, "mtx")?.uploaded("mtx")?;
        let (arrays, block) = (agree(own.ranks(), own.arrays())?, own.block);
        let (offsets, columns, values) = arrays;
        let first = own.over.as_ref().map_or(0, |over| over.first());
        let is_dominant = |row: usize, i: usize| {
            let (mut diagonal, mut others) = (0.0, 0.0);
            for k in offsets[row] as usize..offsets[row + 1] as usize {
                for (j, value) in values[(k * block + i) * block..][..block].iter().enumerate() {
                    let is_diagonal = columns[k] as usize == first + row && i == j;
                    *(if is_diagonal { &mut diagonal } else { &mut others }) += value.abs();
                }
            }
            diagonal >= others
        };
        let mut dominant = (0..own.rows).all(|row| (0..block).all(|i| is_dominant(row, i)));
        if let Some(ranks) = own.ranks() {
            dominant = ranks.most([i64::from(!dominant)])? == [0];
        }
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe { write_optional(diag_dominant, c_int::from(dominant)) };
        Ok(())
    })
}

/// Coordinates of the unknowns, which nothing here needs; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_attach_geometry(
    mtx: *mut c_void,
    geox: *mut f64,
    geoy: *mut f64,
    _geoz: *mut f64,
    n: c_int,
) -> c_int {
    call(|| {
        let own = handles::get::<Matrix>(mtx, "mtx")?.uploaded("mtx")?;
        required(geox, "geox")?;
        required(geoy, "geoy")?;
        if count(n, "n")? != own.rows {
            return fail!(BadParameters, "n is {n}, and the matrix has {} rows", own.rows);
        }
        Ok(())
    })
}

/// Colours of the unknowns, which the library chooses itself; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_attach_coloring(
    mtx: *mut c_void,
    row_coloring: *mut c_int,
    num_rows: c_int,
    num_colors: c_int,
) -> c_int {
    call(|| {
        let own = handles::get::<Matrix>(mtx, "mtx")?.uploaded("mtx")?;
        required(row_coloring, "row_coloring")?;
        if count(num_rows, "num_rows")? != own.rows {
            return fail!(BadParameters, "num_rows is {num_rows}, and the matrix has {} rows", own.rows);
        }
        if num_colors < 1 {
            return fail!(BadParameters, "num_colors is {num_colors}; accepted: 1 or more");
        }
        // SAFETY: as many colours on the host, as the header asks.
        let colours = unsafe { std::slice::from_raw_parts(row_coloring, own.rows) };
        if let Some(row) = colours.iter().position(|colour| !(0..num_colors).contains(colour)) {
            return fail!(BadParameters, "row_coloring[{row}] is {}; accepted: 0 to {}", colours[row], num_colors - 1);
        }
        Ok(())
    })
}
