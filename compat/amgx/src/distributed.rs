//! `AMGX_distribution_handle`, and the entry points of distributed matrices: they work on one rank.

use crate::boundary::{Result, call, count, fail, required, write};
use crate::config::Config;
use crate::handles::{self, lock};
use crate::io::{System, vec_of};
use crate::matrix::{Matrix, Upload, block_size};
use crate::native::zeros;
use crate::vector::Vector;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use terrace::gallery;

/// How a matrix is divided among ranks.
pub struct Distribution {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Kind and address of the caller's partition.
    partition: Option<(c_int, usize)>,
    narrow_columns: bool,
}

/// Kinds of partitions, with the numbers of AmgX.
const PARTITION_VECTOR: c_int = 0;
const PARTITION_OFFSETS: c_int = 1;

/// Makes a distribution; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_distribution_create(dist: *mut *mut c_void, cfg: *mut c_void) -> c_int {
    call(|| {
        required(dist, "dist")?;
        handles::get_optional::<Config>(cfg, "cfg")?;
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe { write(dist, "dist", handles::insert(Distribution { state: Mutex::default() })) }
    })
}

/// Ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_distribution_destroy(dist: *mut c_void) -> c_int {
    call(|| handles::remove::<Distribution>(dist, "dist"))
}

/// Says which rows are whose; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_distribution_set_partition_data(
    dist: *mut c_void,
    info: c_int,
    partition_data: *const c_void,
) -> c_int {
    call(|| {
        let distribution = handles::get::<Distribution>(dist, "dist")?;
        if ![PARTITION_VECTOR, PARTITION_OFFSETS].contains(&info) {
            return fail!(BadParameters, "info is {info}; accepted: 0 for a vector, 1 for offsets");
        }
        let partition = (!partition_data.is_null()).then(|| (info, partition_data.expose_provenance()));
        lock(&distribution.state).partition = partition;
        Ok(())
    })
}

/// Says how wide global columns are; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_distribution_set_32bit_colindices(dist: *mut c_void, use32bit: c_int) -> c_int {
    call(|| {
        let distribution = handles::get::<Distribution>(dist, "dist")?;
        lock(&distribution.state).narrow_columns = use32bit != 0;
        Ok(())
    })
}

/// Global rows, all of which must be this rank's.
fn all_rows(n_global: c_int, n: c_int) -> Result<usize> {
    if n_global != n {
        return fail!(NotSupportedTarget, "n_global is {n_global} and n {n}; accepted: the same, on one rank");
    }
    count(n, "n")
}

/// Refuses a partition that gives rows to other ranks.
///
/// # Safety
/// Null, or as many numbers as there are rows.
pub unsafe fn one_rank(partition: *const c_int, rows: usize) -> Result<()> {
    if partition.is_null() {
        return Ok(());
    }
    // SAFETY: by this function's contract.
    let ranks = unsafe { std::slice::from_raw_parts(partition, rows) };
    match ranks.iter().position(|rank| *rank != 0) {
        Some(row) => fail!(NotSupportedTarget, "the partition gives row {row} to rank {}; accepted: 0", ranks[row]),
        None => Ok(()),
    }
}

/// Refuses offsets that leave rows to other ranks.
///
/// # Safety
/// Two numbers.
unsafe fn one_range(offsets: *const c_void, is_narrow: bool, rows: usize) -> Result<()> {
    // SAFETY: by this function's contract.
    let [first, last] = unsafe {
        match is_narrow {
            true => (*offsets.cast::<[c_int; 2]>()).map(i64::from),
            false => *offsets.cast::<[i64; 2]>(),
        }
    };
    if (first, last) != (0, rows as i64) {
        return fail!(NotSupportedTarget, "the partition begins with {first}, {last}; accepted on one rank: 0, {rows}");
    }
    Ok(())
}

macro_rules! upload_all_global {
    ($name:ident, $wide:expr) => {
        /// Copies compressed sparse rows with global columns; see the header.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name(
            mtx: *mut c_void,
            n_global: c_int,
            n: c_int,
            nnz: c_int,
            block_dimx: c_int,
            block_dimy: c_int,
            row_ptrs: *const c_int,
            col_indices_global: *const c_void,
            data: *const c_void,
            diag_data: *const c_void,
            _allocated_halo_depth: c_int,
            _num_import_rings: c_int,
            partition_vector: *const c_int,
        ) -> c_int {
            call(|| {
                let matrix = handles::get::<Matrix>(mtx, "mtx")?;
                let rows = all_rows(n_global, n)?;
                let upload = Upload {
                    rows,
                    entries: count(nnz, "nnz")?,
                    block: block_size(block_dimx, block_dimy)?,
                    offsets: row_ptrs,
                    columns: col_indices_global,
                    wide_columns: $wide,
                    values: data,
                    diagonal: diag_data,
                };
                // SAFETY: arrays of these lengths, as the header asks.
                unsafe {
                    one_rank(partition_vector, rows)?;
                    upload.into_matrix(&matrix)
                }
            })
        }
    };
}

upload_all_global!(AMGX_matrix_upload_all_global, true);
upload_all_global!(AMGX_matrix_upload_all_global_32, false);

/// Copies compressed sparse rows with global columns, divided as a distribution says; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_upload_distributed(
    mtx: *mut c_void,
    n_global: c_int,
    n: c_int,
    nnz: c_int,
    block_dimx: c_int,
    block_dimy: c_int,
    row_ptrs: *const c_int,
    col_indices_global: *const c_void,
    data: *const c_void,
    diag_data: *const c_void,
    distribution: *mut c_void,
) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let distribution = handles::get::<Distribution>(distribution, "distribution")?;
        let rows = all_rows(n_global, n)?;
        let (partition, is_narrow) = {
            let state = lock(&distribution.state);
            (state.partition, state.narrow_columns)
        };
        let upload = Upload {
            rows,
            entries: count(nnz, "nnz")?,
            block: block_size(block_dimx, block_dimy)?,
            offsets: row_ptrs,
            columns: col_indices_global,
            wide_columns: !is_narrow,
            values: data,
            diagonal: diag_data,
        };
        // SAFETY: arrays of these lengths, as the header asks; the partition stays until it is replaced.
        unsafe {
            match partition {
                Some((PARTITION_VECTOR, address)) => one_rank(std::ptr::with_exposed_provenance(address), rows)?,
                Some((_, address)) => one_range(std::ptr::with_exposed_provenance(address), is_narrow, rows)?,
                None => {}
            }
            upload.into_matrix(&matrix)
        }
    })
}

/// Neighbours of a rank: none.
fn no_neighbours(num_neighbors: c_int) -> Result<()> {
    match num_neighbors {
        0 => Ok(()),
        _ => fail!(NotSupportedTarget, "there are {num_neighbors} neighbours; accepted: 0, on one rank"),
    }
}

/// Says which rows are exchanged; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_comm_from_maps(
    mtx: *mut c_void,
    _allocated_halo_depth: c_int,
    _num_import_rings: c_int,
    max_num_neighbors: c_int,
    _neighbors: *const c_int,
    _send_ptrs: *const c_int,
    _send_maps: *const c_int,
    _recv_ptrs: *const c_int,
    _recv_maps: *const c_int,
) -> c_int {
    call(|| {
        handles::get::<Matrix>(mtx, "mtx")?;
        no_neighbours(max_num_neighbors)
    })
}

/// Says which rows are exchanged; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_comm_from_maps_one_ring(
    mtx: *mut c_void,
    _allocated_halo_depth: c_int,
    num_neighbors: c_int,
    _neighbors: *const c_int,
    _send_sizes: *const c_int,
    _send_maps: *const *const c_int,
    _recv_sizes: *const c_int,
    _recv_maps: *const *const c_int,
) -> c_int {
    call(|| {
        handles::get::<Matrix>(mtx, "mtx")?;
        no_neighbours(num_neighbors)
    })
}

/// Concerns matrices of several ranks; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_set_boundary_separation(mtx: *mut c_void, boundary_separation: c_int) -> c_int {
    call(|| {
        handles::get::<Matrix>(mtx, "mtx")?;
        match boundary_separation {
            0 | 1 => Ok(()),
            _ => fail!(BadParameters, "boundary_separation is {boundary_separation}; accepted: 0, 1"),
        }
    })
}

/// Makes the 7-point Laplacian on a grid; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_generate_distributed_poisson_7pt(
    mtx: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    _allocated_halo_depth: c_int,
    _num_import_rings: c_int,
    nx: c_int,
    ny: c_int,
    nz: c_int,
    px: c_int,
    py: c_int,
    pz: c_int,
) -> c_int {
    call(|| {
        let matrix = handles::get::<Matrix>(mtx, "mtx")?;
        let vectors = [handles::get_optional::<Vector>(rhs, "rhs")?, handles::get_optional::<Vector>(sol, "sol")?];
        if (px, py, pz) != (1, 1, 1) {
            return fail!(NotSupportedTarget, "px, py, pz are {px}, {py}, {pz}; accepted: 1, 1, 1, on one rank");
        }
        let n = [(nx, "nx"), (ny, "ny"), (nz, "nz")].map(|(n, name)| count(n, name));
        let [nx, ny, nz] = n;
        let a = gallery::poisson7(nx?, ny?, nz?)?;
        let mut offsets = zeros::<i32>(a.offsets.len())?;
        for (to, from) in offsets.iter_mut().zip(&a.offsets) {
            *to = match i32::try_from(*from) {
                Ok(offset) => offset,
                Err(_) => return fail!(BadParameters, "{from} entries are more than 2147483647"),
            };
        }
        let (ones, none) = (vec_of(a.rows, 1.0)?, zeros(a.rows)?);
        let system = System {
            block: 1,
            offsets,
            columns: a.columns,
            values: a.values,
            diagonal: None,
            rhs: None,
            solution: None,
        };
        system.into_matrix(&matrix)?;
        for (vector, values) in vectors.iter().zip([ones, none]) {
            if let Some(vector) = vector {
                vector.set(1, &values)?;
            }
        }
        Ok(())
    })
}
