//! `AMGX_matrix_handle`: a matrix of square blocks, with the diagonal inside or beside it.

mod diagonal;
mod maps;
mod over_ranks;
mod questions;
mod rows;
mod upload;

pub use maps::{Maps, map, neighbours};
pub use over_ranks::{OverRanks, set as set_over_ranks};
pub use rows::Rows;
pub use upload::{Upload, block_size};

use crate::boundary::{Code, Failure, Result, call, count, fail, required, write, write_optional};
use crate::division::Division;
use crate::handles::{self, lock};
use crate::io::System;
use crate::mode::{Mode, bytes};
use crate::native;
use crate::ranks::Ranks;
use crate::resources::Resources;
use crate::vector::{Vector, to_host};
use diagonal::Merge;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard};

/// A matrix.
pub struct Matrix {
    pub resources: Arc<Resources>,
    pub mode: Mode,
    state: Mutex<Option<Arc<Uploaded>>>,
    /// Those of the next upload with local columns.
    pub maps: Mutex<Option<Arc<Maps>>>,
}

/// What was uploaded.
pub struct Uploaded {
    pub native: native::Matrix,
    /// Block rows.
    pub rows: usize,
    /// Blocks, without those of a diagonal of its own.
    pub entries: usize,
    /// Rows of a block.
    pub block: usize,
    /// Where the caller's blocks are, if the diagonal was given by itself.
    merge: Option<Merge>,
    /// Of a matrix over ranks, of which the numbers above are those of this rank.
    pub over: Option<OverRanks>,
}

impl Uploaded {
    /// Scalar rows.
    pub fn scalar_rows(&self) -> usize {
        self.rows * self.block
    }

    /// Blocks of the matrix as Terrace has it.
    fn stored(&self) -> usize {
        self.entries + self.merge.as_ref().map_or(0, |merge| merge.diagonal.len())
    }

    /// The system of the caller: with the diagonal beside it if it was given so.
    pub fn system(&self) -> Result<System> {
        let (offsets, columns, values) = self.arrays()?;
        let (block, size) = (self.block, self.block * self.block);
        let (rhs, solution) = (None, None);
        Ok(match &self.merge {
            None => System { block, offsets, columns, values, diagonal: None, rhs, solution },
            Some(merge) => System {
                block,
                offsets: merge.offsets().to_vec(),
                columns: merge.pick(&columns, 1)?,
                diagonal: Some(merge.pick_diagonal(&values, size)?),
                values: merge.pick(&values, size)?,
                rhs,
                solution,
            },
        })
    }

    /// The ranks that have rows of it, if there are several.
    pub fn ranks(&self) -> Option<&Ranks> {
        self.over.as_ref().map(|over| &*over.ranks)
    }

    /// Offsets and columns of blocks, and values, on the host, the diagonal among them.
    pub fn arrays(&self) -> Result<(Vec<i32>, Vec<i32>, Vec<f64>)> {
        if let Some(over) = &self.over {
            return over.arrays();
        }
        arrays(&self.native, self.rows, self.stored(), self.block)
    }
}

/// Offsets and columns of blocks, and values, on the host.
fn arrays(matrix: &native::Matrix, rows: usize, blocks: usize, block: usize) -> Result<(Vec<i32>, Vec<i32>, Vec<f64>)> {
    let mut offsets = native::zeros(rows + 1)?;
    let (mut columns, mut values) = (native::zeros(blocks)?, native::zeros::<f64>(blocks * block * block)?);
    // SAFETY: arrays of the lengths of the matrix.
    unsafe {
        matrix.get_arrays(
            offsets.as_mut_ptr(),
            columns.as_mut_ptr(),
            terrace::capi::TERRACE_F64,
            values.as_mut_ptr().cast(),
        )
    }?;
    Ok((offsets, columns, values))
}

impl Matrix {
    /// What was uploaded.
    pub fn uploaded(&self, argument: &str) -> Result<Arc<Uploaded>> {
        match &*lock(&self.state) {
            Some(uploaded) => Ok(Arc::clone(uploaded)),
            None => fail!(BadParameters, "{argument} has no entries yet: upload it, or read it from a file"),
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<Arc<Uploaded>>> {
        lock(&self.state)
    }

    /// Replaces what it is.
    pub fn set(&self, uploaded: Uploaded) {
        let old = self.state().replace(Arc::new(uploaded));
        drop(old);
    }
}

/// Makes a matrix; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_create(mtx: *mut *mut c_void, rsc: *mut c_void, mode: c_int) -> c_int {
    call(|| {
        required(mtx, "mtx")?;
        let (resources, mode) = (handles::get::<Resources>(rsc, "rsc")?, Mode::new(mode)?);
        resources.context(mode)?;
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe {
            write(
                mtx,
                "mtx",
                handles::insert(Matrix { resources, mode, state: Mutex::default(), maps: Mutex::default() }),
            )
        }
    })
}

/// Ends the handle; solvers keep the matrix that they were set up with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_destroy(mtx: *mut c_void) -> c_int {
    call(|| handles::remove::<Matrix>(mtx, "mtx"))
}

/// Copies compressed sparse rows; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_upload_all(
    mtx: *mut c_void,
    n: c_int,
    nnz: c_int,
    block_dimx: c_int,
    block_dimy: c_int,
    row_ptrs: *const c_int,
    col_indices: *const c_int,
    data: *const c_void,
    diag_data: *const c_void,
) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let upload = || {
            Ok(Upload {
                rows: count(n, "n")?,
                entries: count(nnz, "nnz")?,
                block: block_size(block_dimx, block_dimy)?,
                offsets: row_ptrs,
                columns: col_indices.cast(),
                wide_columns: false,
                values: data,
                diagonal: diag_data,
            })
        };
        let maps = lock(&matrix.maps).clone();
        // SAFETY: arrays of these lengths in either memory, as the header asks.
        unsafe {
            match (matrix.resources.ranks(), maps) {
                (Some(ranks), Some(maps)) => upload_with_maps(&matrix, ranks, &maps, upload()),
                _ => upload()?.into_matrix(&matrix),
            }
        }
    })
}

/// Collective: rows with local columns, whose numbers the maps give.
///
/// # Safety
/// Arrays of the lengths that the numbers say, in either memory.
unsafe fn upload_with_maps(matrix: &Matrix, ranks: &Arc<Ranks>, maps: &Maps, upload: Result<Upload>) -> Result<()> {
    let upload = ranks.agree(upload)?;
    let (counts, _) = ranks.gather(&[upload.rows as u64])?;
    let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
    let division = Division::by_counts(&counts, None).map_err(|message| Failure { code: Code::BadParameters, message });
    let division = ranks.agree(division)?;
    let first = division.starts[ranks.rank];
    let halo = maps.numbers(ranks, first, upload.rows)?;
    let context = ranks.agree(matrix.resources.context(matrix.mode))?;
    // SAFETY: by this function's contract.
    let rows = unsafe { Rows::fetch(&upload, context.state(), matrix.mode.matrix) };
    set_over_ranks(matrix, ranks, division, rows.and_then(|rows| rows.numbered_with(&halo, first)))
}

/// Replaces the values; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_replace_coefficients(
    mtx: *mut c_void,
    n: c_int,
    nnz: c_int,
    data: *const c_void,
    diag_data: *const c_void,
) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let own = matrix.uploaded("mtx")?;
        if (count(n, "n")?, count(nnz, "nnz")?) != (own.rows, own.entries) {
            let (rows, entries) = (own.rows, own.entries);
            return fail!(BadParameters, "n is {n} and nnz {nnz}; the matrix has {rows} rows and {entries} blocks");
        }
        let (format, size) = (matrix.mode.matrix, own.block * own.block);
        if let Some(over) = &own.over {
            // SAFETY: arrays of these lengths in either memory, as the header asks.
            return unsafe { over.replace(&own.native, format, data, diag_data) };
        }
        let Some(merge) = &own.merge else {
            if !diag_data.is_null() {
                return fail!(
                    BadParameters,
                    "diag_data is given, and the matrix was uploaded without a diagonal of its own"
                );
            }
            if own.entries > 0 {
                required(data, "data")?;
            }
            // SAFETY: as many values in either memory, as the header asks.
            return unsafe { own.native.update_values(format, data, own.entries * size) };
        };
        let mut values = own.arrays()?.2;
        let context = own.native.context.state();
        // SAFETY: arrays of these lengths in either memory, as the header asks.
        unsafe {
            if !data.is_null() {
                merge.put(
                    &mut values,
                    &merge.entries,
                    &upload::fetch(context, format, data, own.entries * size, "data")?,
                    size,
                );
            }
            if !diag_data.is_null() {
                let diagonal = upload::fetch(context, format, diag_data, own.rows * size, "diag_data")?;
                merge.put(&mut values, &merge.diagonal, &diagonal, size);
            }
            upload::update(&own.native, format, &values)
        }
    })
}

/// The size; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_get_size(
    mtx: *mut c_void,
    n: *mut c_int,
    block_dimx: *mut c_int,
    block_dimy: *mut c_int,
) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let (rows, block) = matrix.state().as_ref().map_or((0, 1), |own| (own.rows, own.block));
        // SAFETY: null or valid for a write, as the header asks.
        unsafe {
            write_optional(n, rows as c_int);
            write_optional(block_dimx, block as c_int);
            write_optional(block_dimy, block as c_int);
        }
        Ok(())
    })
}

/// The number of blocks; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_get_nnz(mtx: *mut c_void, nnz: *mut c_int) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let entries = matrix.state().as_ref().map_or(0, |own| own.entries);
        // SAFETY: null or valid for a write, as the header asks.
        unsafe { write(nnz, "nnz", entries as c_int) }
    })
}

/// Copies to arrays; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_download_all(
    mtx: *mut c_void,
    row_ptrs: *mut c_int,
    col_indices: *mut c_int,
    data: *mut c_void,
    diag_data: *mut *mut c_void,
) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let own = matrix.uploaded("mtx")?;
        required(row_ptrs, "row_ptrs")?;
        if own.entries > 0 {
            required(col_indices, "col_indices")?;
            required(data, "data")?;
        }
        let format = matrix.mode.matrix;
        if let Some(over) = &own.over {
            let state = own.native.context.state();
            // SAFETY: arrays of the lengths of the matrix in either memory, as the header asks.
            return unsafe { over.download(state, format, (row_ptrs, col_indices), (data, diag_data)) };
        }
        let Some(merge) = &own.merge else {
            // SAFETY: arrays of the lengths of the matrix in either memory, as the header asks.
            unsafe {
                write_optional(diag_data, null_mut());
                return own.native.get_arrays(row_ptrs, col_indices, format, data);
            }
        };
        required(diag_data, "diag_data")?;
        let (_, columns, values) = own.arrays()?;
        let size = own.block * own.block;
        let context = own.native.context.state();
        let (offsets, columns) = (merge.offsets(), merge.pick(&columns, 1)?);
        // SAFETY: as above; the diagonal is freed by the caller.
        unsafe {
            upload::store(context, format, &merge.pick(&values, size)?, data)?;
            terrace::capi::store(context, offsets, row_ptrs.cast())?;
            terrace::capi::store(context, &columns, col_indices.cast())?;
            let diagonal = merge.pick_diagonal(&values, size)?;
            let array = libc::malloc((diagonal.len() * bytes(format)).max(1));
            if array.is_null() {
                return fail!(NoMemory, "the diagonal could not be allocated");
            }
            upload::store(context, format, &diagonal, array)?;
            write(diag_data, "diag_data", array)
        }
    })
}

/// y = A x; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_vector_multiply(mtx: *mut c_void, x: *mut c_void, y: *mut c_void) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let (x, y) = (handles::get::<Vector>(x, "x")?, handles::get::<Vector>(y, "y")?);
        if let Ok(own) = matrix.uploaded("mtx")
            && let Some(over) = &own.over
        {
            return multiply_over_ranks(&matrix, over, &x, &y);
        }
        matrix.mode.must_be(x.mode, "mtx and x")?;
        matrix.mode.must_be(y.mode, "mtx and y")?;
        if Arc::ptr_eq(&x, &y) {
            return fail!(BadParameters, "x and y are the same vector; the product needs two");
        }
        let own = matrix.uploaded("mtx")?;
        drop(y.resize(own.scalar_rows(), own.block)?);
        // Always in the same order, so that no two calls wait for each other.
        let (mut x_state, mut y_state);
        if Arc::as_ptr(&x) < Arc::as_ptr(&y) {
            x_state = x.state();
            y_state = y.state();
        } else {
            y_state = y.state();
            x_state = x.state();
        }
        let x = x_state.of_length(own.scalar_rows(), "x")?;
        let y = y_state.of_length(own.scalar_rows(), "y")?;
        own.native.apply(1.0, x, 0.0, y)
    })
}

/// Collective: y = A x on the host, which Terrace does not do over ranks.
fn multiply_over_ranks(matrix: &Matrix, over: &OverRanks, x: &Arc<Vector>, y: &Arc<Vector>) -> Result<()> {
    let own = matrix.uploaded("mtx")?;
    let ready = || {
        matrix.mode.must_be(x.mode, "mtx and x")?;
        matrix.mode.must_be(y.mode, "mtx and y")?;
        if Arc::ptr_eq(x, y) {
            return fail!(BadParameters, "x and y are the same vector; the product needs two");
        }
        to_host(x.state().of_length(own.scalar_rows(), "x")?)
    };
    let product = over.product(ready())?;
    y.set(own.block, &product)
}
