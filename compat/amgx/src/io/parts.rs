//! Systems of files as arrays for the caller, who frees them: this rank's part, which on one rank is all of it.

use super::neighbours::local_part;
use super::system::InFormat;
use super::{OfFile, System, read};
use crate::boundary::{Result, call, count, fail, required, write, write_optional};
use crate::handles;
use crate::matrix::Maps;
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

/// Maps as arrays of C.
struct GivenMaps {
    neighbours: Owned,
    /// Sizes, and an array of the arrays, for sending and for receiving.
    sides: [(Owned, Owned, Vec<Owned>); 2],
}

impl GivenMaps {
    fn new(maps: &Maps) -> Result<GivenMaps> {
        let neighbours: Vec<c_int> = maps.neighbours.iter().map(|rank| *rank as c_int).collect();
        let side = |maps: &[Vec<i32>]| -> Result<(Owned, Owned, Vec<Owned>)> {
            let sizes: Vec<c_int> = maps.iter().map(|map| map.len() as c_int).collect();
            let arrays: Vec<Owned> = maps.iter().map(|map| Owned::of(map)).collect::<Result<_>>()?;
            let pointers: Vec<*mut c_void> = arrays.iter().map(|array| array.0).collect();
            Ok((Owned::of(&sizes)?, Owned::of(&pointers)?, arrays))
        };
        Ok(GivenMaps { neighbours: Owned::of(&neighbours)?, sides: [side(&maps.send)?, side(&maps.receive)?] })
    }

    /// # Safety
    /// Places that are null, without neighbours, or valid for a write.
    unsafe fn give(self, neighbours: *mut *mut c_int, places: [(*mut *mut c_int, *mut *mut *mut c_int); 2]) {
        let are_there = !self.sides[0].2.is_empty();
        let kept = |array: Owned| if are_there { array.release() } else { null_mut() };
        // SAFETY: by this function's contract.
        unsafe {
            write_optional(neighbours, kept(self.neighbours).cast());
            for ((sizes, maps, arrays), (to_sizes, to_maps)) in self.sides.into_iter().zip(places) {
                // The caller has them by the array of their addresses.
                for array in arrays {
                    array.release();
                }
                write_optional(to_sizes, kept(sizes).cast());
                write_optional(to_maps, kept(maps).cast());
            }
        }
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
    partition_sizes: *const c_int,
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
            let (sizes, len, vector) = (partition_sizes, partition_vector_size, partition_vector);
            let partition = OfFile { num_partitions, sizes, len, vector };
            let system = read(filename, resources.parameters.general("rhs_from_a") == "1");
            let rows = system.as_ref().map(System::rows).map_err(Clone::clone);
            let division = partition.division(rows, resources.ranks().map(|ranks| &**ranks))?;
            match resources.ranks() {
                None => give(&system?, mode, true, &places),
                Some(ranks) => give(&system?.part(&division, ranks.rank)?, mode, true, &places),
            }
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
    partition_sizes: *const c_int,
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
            let (sizes, len, vector) = (partition_sizes, partition_vector_size, partition_vector);
            let partition = OfFile { num_partitions, sizes, len, vector };
            let system = read(filename, resources.parameters.general("rhs_from_a") == "1");
            let rows = system.as_ref().map(System::rows).map_err(Clone::clone);
            let division = partition.division(rows, resources.ranks().map(|ranks| &**ranks))?;
            let (part, maps) = match resources.ranks() {
                None => (system?, Maps::default()),
                Some(ranks) => local_part(&system?, &division, ranks.rank)?,
            };
            if !maps.neighbours.is_empty() {
                for (place, name) in [(neighbors, "neighbors"), (send_sizes, "send_sizes"), (recv_sizes, "recv_sizes")]
                {
                    required(place, name)?;
                }
                for (place, name) in [(send_maps, "send_maps"), (recv_maps, "recv_maps")] {
                    required(place, name)?;
                }
            }
            let (neighbour_count, maps) = (maps.neighbours.len() as c_int, GivenMaps::new(&maps)?);
            give(&part, mode, false, &places)?;
            maps.give(neighbors, [(send_sizes, send_maps), (recv_sizes, recv_maps)]);
            write(num_neighbors, "num_neighbors", neighbour_count)
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
    neighbors: *mut c_int,
    send_sizes: *mut c_int,
    send_maps: *mut *mut c_int,
    recv_sizes: *mut c_int,
    recv_maps: *mut *mut c_int,
) -> c_int {
    call(|| {
        let number = count(num_neighbors, "num_neighbors")?;
        if number > 0 {
            required(send_maps, "send_maps")?;
            required(recv_maps, "recv_maps")?;
        }
        let arrays = [row_ptrs.cast(), col_indices.cast(), data, diag_data, rhs, sol];
        let of_maps = [neighbors.cast(), send_sizes.cast(), recv_sizes.cast(), send_maps.cast(), recv_maps.cast()];
        // SAFETY: null, or arrays of the reader, as the header asks. On one rank the reader has given none for maps.
        unsafe {
            for i in 0..number {
                libc::free((*send_maps.add(i)).cast());
                libc::free((*recv_maps.add(i)).cast());
            }
            for array in arrays.into_iter().chain(of_maps.into_iter().filter(|_| number > 0)) {
                libc::free(array);
            }
        }
        Ok(())
    })
}
