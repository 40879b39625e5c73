//! Reading and writing systems: Matrix Market with the comment lines of AmgX, and its binary form.

mod binary;
mod matrix_market;
mod parts;
mod system;

pub use system::{System, vec_of};

use crate::boundary::{Result, call, fail, required, text};
use crate::distributed::one_rank;
use crate::handles;
use crate::matrix::Matrix;
use crate::vector::Vector;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// A system of a file, with all that the file may lack.
fn read(filename: *const c_char, rhs_from_a: bool) -> Result<System> {
    // SAFETY: null or a text, as the header asks.
    let file = unsafe { text(filename, "filename") }?;
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return fail!(IoError, "{file} cannot be read: {error}"),
    };
    let read = if bytes.starts_with(binary::HEADER) { binary::read(&bytes) } else { matrix_market::read(&bytes) };
    let mut system = match read {
        Ok(system) => system,
        Err(mut failure) => {
            failure.message = format!("{file}: {}", failure.message);
            return Err(failure);
        }
    };
    system.complete(rhs_from_a)?;
    Ok(system)
}

/// Refuses a partition of several ranks.
///
/// # Safety
/// Null, or a vector of `size` ranks.
unsafe fn check_partition(num_partitions: c_int, partition: *const c_int, size: c_int) -> Result<()> {
    if num_partitions > 1 {
        return fail!(NotSupportedTarget, "num_partitions is {num_partitions}; accepted: 0, 1");
    }
    // SAFETY: by this function's contract.
    unsafe { one_rank(partition, usize::try_from(size).unwrap_or(0)) }
}

fn read_system(mtx: *mut c_void, rhs: *mut c_void, sol: *mut c_void, filename: *const c_char) -> Result<()> {
    let matrix = handles::get_optional::<Matrix>(mtx, "mtx")?;
    let rhs = handles::get_optional::<Vector>(rhs, "rhs")?;
    let sol = handles::get_optional::<Vector>(sol, "sol")?;
    let resources = matrix.iter().map(|m| &m.resources).chain(rhs.iter().chain(&sol).map(|v| &v.resources)).next();
    let Some(resources) = resources else { return fail!(BadParameters, "mtx, rhs and sol are all NULL") };
    let mut system = read(filename, resources.parameters.general("rhs_from_a") == "1")?;
    let (b, x, block) = (system.rhs.take(), system.solution.take(), system.block);
    if let Some(matrix) = matrix {
        system.into_matrix(&matrix)?;
    }
    for (vector, values) in [(rhs, b), (sol, x)] {
        if let (Some(vector), Some(values)) = (vector, values) {
            vector.set(block, &values)?;
        }
    }
    Ok(())
}

/// Reads a system; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_read_system(
    mtx: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    filename: *const c_char,
) -> c_int {
    call(|| read_system(mtx, rhs, sol, filename))
}

/// Reads this rank's part of a system; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_read_system_distributed(
    mtx: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    filename: *const c_char,
    _allocated_halo_depth: c_int,
    num_partitions: c_int,
    _partition_sizes: *const c_int,
    partition_vector_size: c_int,
    partition_vector: *const c_int,
) -> c_int {
    call(|| {
        // SAFETY: null, or as many numbers, as the header asks.
        unsafe { check_partition(num_partitions, partition_vector, partition_vector_size) }?;
        read_system(mtx, rhs, sol, filename)
    })
}

fn write_system(mtx: *mut c_void, rhs: *mut c_void, sol: *mut c_void, filename: *const c_char) -> Result<()> {
    required(filename, "filename")?;
    // SAFETY: a text, as the header asks.
    let file = unsafe { text(filename, "filename") }?;
    let matrix = handles::get::<Matrix>(mtx, "mtx")?;
    let own = matrix.uploaded("mtx")?;
    let mut system = own.system()?;
    let vector = |handle, name: &str| -> Result<Option<Vec<f64>>> {
        let Some(vector): Option<Arc<Vector>> = handles::get_optional(handle, name)? else { return Ok(None) };
        let values = vector.get()?;
        match values.len() {
            0 => Ok(None),
            len if len == own.scalar_rows() => Ok(Some(values)),
            len => fail!(BadParameters, "{name} has {len} elements, and the matrix {} rows", own.scalar_rows()),
        }
    };
    (system.rhs, system.solution) = (vector(rhs, "rhs")?, vector(sol, "sol")?);
    let bytes = match matrix.resources.parameters.general("matrix_writer") {
        "BINARY" => binary::write(&system),
        _ => matrix_market::write(&system),
    };
    match std::fs::write(file, bytes) {
        Ok(()) => Ok(()),
        Err(error) => fail!(IoError, "{file} cannot be written: {error}"),
    }
}

/// Writes a system; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_write_system(
    mtx: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    filename: *const c_char,
) -> c_int {
    call(|| write_system(mtx, rhs, sol, filename))
}

/// Writes a system that is divided among ranks; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_write_system_distributed(
    mtx: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    filename: *const c_char,
    _allocated_halo_depth: c_int,
    num_partitions: c_int,
    _partition_sizes: *const c_int,
    partition_vector_size: c_int,
    partition_vector: *const c_int,
) -> c_int {
    call(|| {
        // SAFETY: null, or as many numbers, as the header asks.
        unsafe { check_partition(num_partitions, partition_vector, partition_vector_size) }?;
        write_system(mtx, rhs, sol, filename)
    })
}
