//! Systems of files as arrays for the caller, who frees them: this rank's part, which is all of it.

use super::system::InFormat;
use super::{System, check_partition, read};
use crate::boundary::{Result, call, fail, required, write, write_optional};
use crate::handles;
use crate::mode::Mode;
use crate::resources::Resources;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use terrace::capi::{TERRACE_F32, terrace_type};

/// An array of C, freed unless the caller gets it.
struct Owned(*mut c_void);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: null, or from `malloc` and nobody else's.
        unsafe { libc::free(self.0) };
    }
}

impl Owned {
    fn new(bytes: usize) -> Result<Owned> {
        // SAFETY: any size may be asked for.
        let array = unsafe { libc::malloc(bytes.max(1)) };
        if array.is_null() {
            return fail!(NoMemory, "{bytes} bytes could not be allocated");
        }
        Ok(Owned(array))
    }

    /// # Safety
    /// As many bytes to read.
    unsafe fn copy(from: *const c_void, bytes: usize) -> Result<Owned> {
        let array = Owned::new(bytes)?;
        // SAFETY: both have this many bytes, `from` by this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), array.0.cast(), bytes) };
        Ok(array)
    }

    /// Columns in 64 bits.
    fn wide(columns: &[i32]) -> Result<Owned> {
        let array = Owned::new(columns.len() * size_of::<i64>())?;
        for (i, column) in columns.iter().enumerate() {
            // SAFETY: the array has an element for each column, aligned as `malloc` does.
            unsafe { array.0.cast::<i64>().add(i).write(i64::from(*column)) };
        }
        Ok(array)
    }

    fn of<T: Copy>(values: &[T]) -> Result<Owned> {
        // SAFETY: a slice.
        unsafe { Owned::copy(values.as_ptr().cast(), size_of_val(values)) }
    }

    fn reals(values: &[f64], format: terrace_type) -> Result<Owned> {
        let values = InFormat::new(values, format == TERRACE_F32)?;
        // SAFETY: an array of this many bytes.
        unsafe { Owned::copy(values.pointer(), values.bytes()) }
    }

    fn release(mut self) -> *mut c_void {
        std::mem::replace(&mut self.0, null_mut())
    }
}

/// Places of the caller for the arrays.
struct Places {
    sizes: [*mut c_int; 4],
    offsets: *mut *mut c_int,
    columns: *mut *mut c_void,
    /// Values, diagonal, right-hand side, solution.
    values: [*mut *mut c_void; 4],
}

/// # Safety
/// Places that are null or valid for a write.
unsafe fn give(system: &System, mode: Mode, wide_columns: bool, places: &Places) -> Result<()> {
    let offsets = Owned::of(&system.offsets)?;
    let columns = match wide_columns {
        false => Owned::of(&system.columns)?,
        true => Owned::wide(&system.columns)?,
    };
    let values = Owned::reals(&system.values, mode.matrix)?;
    let diagonal = system.diagonal.as_ref().map(|d| Owned::reals(d, mode.matrix)).transpose()?;
    let rhs = system.rhs.as_ref().map(|b| Owned::reals(b, mode.vector)).transpose()?;
    let solution = system.solution.as_ref().map(|x| Owned::reals(x, mode.vector)).transpose()?;
    let block = system.block as c_int;
    // SAFETY: by this function's contract.
    unsafe {
        let sizes = [system.rows() as c_int, system.columns.len() as c_int, block, block];
        places.sizes.iter().zip(sizes).for_each(|(place, size)| write_optional(*place, size));
        places.offsets.write(offsets.release().cast());
        places.columns.write(columns.release());
        for (place, array) in places.values.iter().zip([Some(values), diagonal, rhs, solution]) {
            if !place.is_null() {
                place.write(array.map_or(null_mut(), Owned::release));
            }
        }
    }
    Ok(())
}

fn check_places(places: &Places) -> Result<()> {
    required(places.offsets, "row_ptrs")?;
    required(places.columns, "col_indices")?;
    required(places.values[0], "data")
}

/// Reads a system with global columns; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_read_system_global(
    n: *mut c_int,
    nnz: *mut c_int,
    block_dimx: *mut c_int,
    block_dimy: *mut c_int,
    row_ptrs: *mut *mut c_int,
    col_indices_global: *mut *mut c_void,
    data: *mut *mut c_void,
    diag_data: *mut *mut c_void,
    rhs: *mut *mut c_void,
    sol: *mut *mut c_void,
    rsc: *mut c_void,
    mode: c_int,
    filename: *const c_char,
    _allocated_halo_depth: c_int,
    num_partitions: c_int,
    _partition_sizes: *const c_int,
    partition_vector_size: c_int,
    partition_vector: *const c_int,
) -> c_int {
    call(|| {
        let (resources, mode) = (handles::get::<Resources>(rsc, "rsc")?, Mode::new(mode)?);
        let places = Places {
            sizes: [n, nnz, block_dimx, block_dimy],
            offsets: row_ptrs,
            columns: col_indices_global,
            values: [data, diag_data, rhs, sol],
        };
        check_places(&places)?;
        // SAFETY: null, or as many numbers, and places for the results, as the header asks.
        unsafe {
            check_partition(num_partitions, partition_vector, partition_vector_size)?;
            let system = read(filename, resources.parameters.general("rhs_from_a") == "1")?;
            give(&system, mode, true, &places)
        }
    })
}

/// Reads a system with local columns and the maps of its neighbours; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_read_system_maps_one_ring(
    n: *mut c_int,
    nnz: *mut c_int,
    block_dimx: *mut c_int,
    block_dimy: *mut c_int,
    row_ptrs: *mut *mut c_int,
    col_indices: *mut *mut c_int,
    data: *mut *mut c_void,
    diag_data: *mut *mut c_void,
    rhs: *mut *mut c_void,
    sol: *mut *mut c_void,
    num_neighbors: *mut c_int,
    neighbors: *mut *mut c_int,
    send_sizes: *mut *mut c_int,
    send_maps: *mut *mut *mut c_int,
    recv_sizes: *mut *mut c_int,
    recv_maps: *mut *mut *mut c_int,
    rsc: *mut c_void,
    mode: c_int,
    filename: *const c_char,
    _allocated_halo_depth: c_int,
    num_partitions: c_int,
    _partition_sizes: *const c_int,
    partition_vector_size: c_int,
    partition_vector: *const c_int,
) -> c_int {
    call(|| {
        let (resources, mode) = (handles::get::<Resources>(rsc, "rsc")?, Mode::new(mode)?);
        let places = Places {
            sizes: [n, nnz, block_dimx, block_dimy],
            offsets: row_ptrs,
            columns: col_indices.cast(),
            values: [data, diag_data, rhs, sol],
        };
        check_places(&places)?;
        required(num_neighbors, "num_neighbors")?;
        // SAFETY: null, or as many numbers, and places for the results, as the header asks.
        unsafe {
            check_partition(num_partitions, partition_vector, partition_vector_size)?;
            let system = read(filename, resources.parameters.general("rhs_from_a") == "1")?;
            give(&system, mode, false, &places)?;
            for place in [neighbors, send_sizes, recv_sizes] {
                write_optional(place, null_mut());
            }
            for place in [send_maps, recv_maps] {
                write_optional(place, null_mut());
            }
            write(num_neighbors, "num_neighbors", 0)
        }
    })
}

/// Frees what `AMGX_read_system_maps_one_ring` gave; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_free_system_maps_one_ring(
    row_ptrs: *mut c_int,
    col_indices: *mut c_int,
    data: *mut c_void,
    diag_data: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    num_neighbors: c_int,
    _neighbors: *mut c_int,
    _send_sizes: *mut c_int,
    _send_maps: *mut *mut c_int,
    _recv_sizes: *mut c_int,
    _recv_maps: *mut *mut c_int,
) -> c_int {
    call(|| {
        if num_neighbors != 0 {
            return fail!(BadParameters, "num_neighbors is {num_neighbors}; accepted: 0, which the reader gave");
        }
        for array in [row_ptrs.cast(), col_indices.cast(), data, diag_data, rhs, sol] {
            // SAFETY: null, or an array of the reader, as the header asks.
            unsafe { libc::free(array) };
        }
        Ok(())
    })
}
