//! `AMGX_distribution_handle`, and the entry points of distributed matrices. On one rank they make a matrix without
//! ranks.

mod partition;
mod poisson;

pub use partition::{Partition, agree_on, of_file};

use crate::boundary::{Result, call, count, fail, required, write};
use crate::config::Config;
use crate::handles::{self, lock};
use crate::io::vec_of;
use crate::matrix::{Maps, Matrix, Rows, Upload, block_size, map, neighbours, set_over_ranks};
use crate::native::zeros;
use crate::ranks::Ranks;
use crate::vector::Vector;
use std::ffi::{c_int, c_void};
use std::ptr::{null, with_exposed_provenance};
use std::sync::{Arc, Mutex};

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

/// Collective where there are several ranks: rows with columns of the whole matrix.
///
/// # Safety
/// Arrays of the lengths that the numbers say, in either memory, and a partition on the host.
unsafe fn upload(matrix: &Matrix, given: Result<(usize, Upload)>, partition: Partition) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe {
        let Some(ranks) = matrix.resources.ranks() else {
            let (total, upload) = given?;
            partition.division(total, upload.rows, None)?;
            return upload.into_matrix(matrix);
        };
        let (total, upload) = ranks.agree(given)?;
        let division = partition.division(total, upload.rows, Some(ranks))?;
        let context = ranks.agree(matrix.resources.context(matrix.mode))?;
        let rows = Rows::fetch(&upload, context.state(), matrix.mode.matrix);
        let rows = rows.and_then(|rows| rows.numbered_by(&division, ranks.rank));
        set_over_ranks(matrix, ranks, division, rows)
    }
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
                let given = || {
                    let upload = Upload {
                        rows: count(n, "n")?,
                        entries: count(nnz, "nnz")?,
                        block: block_size(block_dimx, block_dimy)?,
                        offsets: row_ptrs,
                        columns: col_indices_global,
                        wide_columns: $wide,
                        values: data,
                        diagonal: diag_data,
                    };
                    Ok((count(n_global, "n_global")?, upload))
                };
                // SAFETY: arrays of these lengths, as the header asks.
                unsafe { upload(&matrix, given(), Partition::Vector(partition_vector)) }
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
        let (partition, is_narrow) = {
            let state = lock(&distribution.state);
            (state.partition, state.narrow_columns)
        };
        let given = || {
            let upload = Upload {
                rows: count(n, "n")?,
                entries: count(nnz, "nnz")?,
                block: block_size(block_dimx, block_dimy)?,
                offsets: row_ptrs,
                columns: col_indices_global,
                wide_columns: !is_narrow,
                values: data,
                diagonal: diag_data,
            };
            Ok((count(n_global, "n_global")?, upload))
        };
        let partition = match partition {
            None => Partition::Vector(null()),
            Some((PARTITION_VECTOR, address)) => Partition::Vector(with_exposed_provenance(address)),
            Some((_, address)) => Partition::Offsets(with_exposed_provenance(address), is_narrow),
        };
        // SAFETY: arrays of these lengths, as the header asks; the partition stays until it is replaced.
        unsafe { upload(&matrix, given(), partition) }
    })
}

/// Collective where there are several ranks: keeps the maps for the next upload with local columns.
fn set_maps(
    mtx: *mut c_void,
    (number, argument): (c_int, &str),
    read: impl FnOnce(&Ranks, usize) -> Result<Maps>,
) -> Result<()> {
    let matrix = handles::get::<Matrix>(mtx, "mtx")?;
    let number = count(number, argument);
    let Some(ranks) = matrix.resources.ranks() else {
        return match number? {
            0 => Ok(()),
            number => fail!(NotSupportedTarget, "{argument} is {number}; accepted: 0, on one rank"),
        };
    };
    let maps = ranks.agree(number.and_then(|number| read(ranks, number)))?;
    *lock(&matrix.maps) = Some(Arc::new(maps));
    Ok(())
}

/// Says which rows are exchanged; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_comm_from_maps(
    mtx: *mut c_void,
    _allocated_halo_depth: c_int,
    num_import_rings: c_int,
    max_num_neighbors: c_int,
    neighbors: *const c_int,
    send_ptrs: *const c_int,
    send_maps: *const c_int,
    recv_ptrs: *const c_int,
    recv_maps: *const c_int,
) -> c_int {
    call(|| {
        set_maps(mtx, (max_num_neighbors, "max_num_neighbors"), |ranks, count| {
            if num_import_rings > 1 {
                return fail!(
                    NotSupportedTarget,
                    "num_import_rings is {num_import_rings}; accepted: 1, since the library fetches further rows itself"
                );
            }
            // SAFETY: arrays of these lengths, as the header asks.
            unsafe {
                let maps = |ptrs: *const c_int, maps: *const c_int, name: &str| -> Result<Vec<Vec<i32>>> {
                    let ptrs = map(ptrs, if count > 0 { count + 1 } else { 0 }, &format!("{name}_ptrs"))?;
                    let all = ptrs.windows(2).enumerate().map(|(i, pair)| match pair[1].checked_sub(pair[0]) {
                        Some(len) if pair[0] >= 0 && len >= 0 => {
                            map(maps.wrapping_add(pair[0] as usize), len as usize, &format!("{name}_maps"))
                        }
                        _ => fail!(BadParameters, "{name}_ptrs[{}] is {}, after {}", i + 1, pair[1], pair[0]),
                    });
                    all.collect()
                };
                let neighbours = neighbours(ranks, count, neighbors)?;
                Ok(Maps {
                    neighbours,
                    send: maps(send_ptrs, send_maps, "send")?,
                    receive: maps(recv_ptrs, recv_maps, "recv")?,
                })
            }
        })
    })
}

/// Says which rows are exchanged; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_matrix_comm_from_maps_one_ring(
    mtx: *mut c_void,
    _allocated_halo_depth: c_int,
    num_neighbors: c_int,
    neighbors: *const c_int,
    send_sizes: *const c_int,
    send_maps: *const *const c_int,
    recv_sizes: *const c_int,
    recv_maps: *const *const c_int,
) -> c_int {
    call(|| {
        set_maps(mtx, (num_neighbors, "num_neighbors"), |ranks, neighbour_count| {
            // SAFETY: arrays of these lengths, as the header asks.
            unsafe {
                let maps = |sizes: *const c_int, maps: *const *const c_int, name: &str| -> Result<Vec<Vec<i32>>> {
                    let sizes = map(sizes, neighbour_count, &format!("{name}_sizes"))?;
                    if neighbour_count > 0 {
                        required(maps, &format!("{name}_maps"))?;
                    }
                    let all = sizes.iter().enumerate().map(|(i, size)| {
                        let len = count(*size, &format!("{name}_sizes[{i}]"))?;
                        map(*maps.add(i), len, &format!("{name}_maps[{i}]"))
                    });
                    all.collect()
                };
                let neighbours = neighbours(ranks, neighbour_count, neighbors)?;
                Ok(Maps {
                    neighbours,
                    send: maps(send_sizes, send_maps, "send")?,
                    receive: maps(recv_sizes, recv_maps, "recv")?,
                })
            }
        })
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
        let given = || -> Result<[usize; 6]> {
            let [nx, ny, nz] = [(nx, "nx"), (ny, "ny"), (nz, "nz")].map(|(n, name)| count(n, name));
            let [px, py, pz] = [(px, "px"), (py, "py"), (pz, "pz")].map(|(p, name)| count(p, name));
            Ok([nx?, ny?, nz?, px?, py?, pz?])
        };
        let rows = match matrix.resources.ranks() {
            None => poisson::on_one_rank(&matrix, given()?)?,
            Some(ranks) => poisson::over_ranks(&matrix, ranks, given())?,
        };
        for (vector, values) in vectors.iter().zip([vec_of(rows, 1.0)?, zeros(rows)?]) {
            if let Some(vector) = vector {
                vector.set(1, &values)?;
            }
        }
        Ok(())
    })
}
