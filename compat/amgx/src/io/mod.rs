//! Reading and writing systems: Matrix Market with the comment lines of AmgX, and its binary form.

mod binary;
mod matrix_market;
mod neighbours;
mod parts;
mod system;

pub use system::{InFormat, System, vec_of};

use crate::boundary::{Result, call, fail, required, text};
use crate::distributed::{agree_on, of_file};
use crate::division::Division;
use crate::handles;
use crate::matrix::{Matrix, set_over_ranks};
use crate::ranks::{Ranks, agree};
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

/// A partition of a file, as a program says it.
struct OfFile {
    num_partitions: c_int,
    sizes: *const c_int,
    len: c_int,
    vector: *const c_int,
}

impl OfFile {
    /// Collective where there are several ranks: how so many rows are divided.
    ///
    /// # Safety
    /// Null, or arrays of these lengths.
    unsafe fn division(&self, total: Result<usize>, ranks: Option<&Ranks>) -> Result<Division> {
        let size = ranks.map_or(1, |ranks| ranks.size);
        let (sizes, vector) = ((self.num_partitions, self.sizes), (self.len, self.vector));
        // SAFETY: by this function's contract.
        agree_on(ranks, total.and_then(|total| unsafe { of_file(total, size, sizes, vector) }))
    }
}

/// All of a system, or with a partition this rank's part.
///
/// # Safety
/// A partition with null pointers, or arrays of its lengths.
unsafe fn read_system(
    mtx: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    filename: *const c_char,
    partition: Option<OfFile>,
) -> Result<()> {
    let matrix = handles::get_optional::<Matrix>(mtx, "mtx")?;
    let rhs = handles::get_optional::<Vector>(rhs, "rhs")?;
    let sol = handles::get_optional::<Vector>(sol, "sol")?;
    let resources = matrix.iter().map(|m| &m.resources).chain(rhs.iter().chain(&sol).map(|v| &v.resources)).next();
    let resources = resources.cloned();
    let Some(resources) = resources else { return fail!(BadParameters, "mtx, rhs and sol are all NULL") };
    let system = read(filename, resources.parameters.general("rhs_from_a") == "1");
    let (ranks, partition) = match (resources.ranks(), partition) {
        (Some(ranks), Some(partition)) => (ranks, partition),
        (_, partition) => {
            let mut system = system?;
            if let Some(partition) = partition {
                // SAFETY: by this function's contract.
                unsafe { partition.division(Ok(system.rows()), None) }?;
            }
            let (b, x, block) = (system.rhs.take(), system.solution.take(), system.block);
            if let Some(matrix) = matrix {
                system.into_matrix(&matrix)?;
            }
            return set_vectors([rhs, sol], [b, x], block);
        }
    };
    // SAFETY: by this function's contract.
    let division = unsafe { partition.division(system.as_ref().map(System::rows).map_err(Clone::clone), Some(ranks)) }?;
    let mut part = ranks.agree(system.and_then(|system| system.part(&division, ranks.rank)))?;
    let (b, x, block) = (part.rhs.take(), part.solution.take(), part.block);
    if let Some(matrix) = matrix {
        let rows = part.into_rows().numbered_by(&division, ranks.rank);
        set_over_ranks(&matrix, ranks, division, rows)?;
    }
    ranks.agree(set_vectors([rhs, sol], [b, x], block))
}

fn set_vectors([rhs, solution]: [Option<Arc<Vector>>; 2], [b, x]: [Option<Vec<f64>>; 2], block: usize) -> Result<()> {
    for (vector, values) in [(rhs, b), (solution, x)] {
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
    // SAFETY: without a partition.
    call(|| unsafe { read_system(mtx, rhs, sol, filename, None) })
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
    partition_sizes: *const c_int,
    partition_vector_size: c_int,
    partition_vector: *const c_int,
) -> c_int {
    call(|| {
        let (sizes, len, vector) = (partition_sizes, partition_vector_size, partition_vector);
        // SAFETY: null, or as many numbers, as the header asks.
        unsafe { read_system(mtx, rhs, sol, filename, Some(OfFile { num_partitions, sizes, len, vector })) }
    })
}

/// # Safety
/// A partition with null pointers, or arrays of its lengths.
unsafe fn write_system(
    mtx: *mut c_void,
    rhs: *mut c_void,
    sol: *mut c_void,
    filename: *const c_char,
    partition: Option<OfFile>,
) -> Result<()> {
    let matrix = handles::get::<Matrix>(mtx, "mtx")?;
    let own = matrix.uploaded("mtx")?;
    let vector = |handle, name: &str| -> Result<Option<Vec<f64>>> {
        let Some(vector): Option<Arc<Vector>> = handles::get_optional(handle, name)? else { return Ok(None) };
        let values = vector.get()?;
        match values.len() {
            0 => Ok(None),
            len if len == own.scalar_rows() => Ok(Some(values)),
            len => fail!(BadParameters, "{name} has {len} elements, and the matrix {} rows", own.scalar_rows()),
        }
    };
    let given = || {
        required(filename, "filename")?;
        // SAFETY: a text, as the header asks.
        let file = unsafe { text(filename, "filename") }?;
        Ok((file, vector(rhs, "rhs")?, vector(sol, "sol")?))
    };
    let (file, rhs, solution) = agree(own.ranks(), given())?;
    let total = own.over.as_ref().map_or(own.rows, |over| over.division.total());
    let numbering = match partition.filter(|partition| partition.num_partitions > 1 || !partition.vector.is_null()) {
        // SAFETY: by this function's contract.
        Some(partition) => Some(unsafe { partition.division(Ok(total), own.ranks()) }?),
        None => None,
    };
    let system = match &own.over {
        None => Some(System { rhs, solution, ..own.system()? }),
        Some(over) => {
            let numbering = over.ranks.agree(over.numbering(numbering))?;
            let gathered = over.gathered(&numbering, rhs, solution);
            return over.ranks.agree(gathered.and_then(|system| write_file(&matrix, system.as_ref(), file)));
        }
    };
    write_file(&matrix, system.as_ref(), file)
}

/// Writes a system, if this rank has it.
fn write_file(matrix: &Matrix, system: Option<&System>, file: &str) -> Result<()> {
    let Some(system) = system else { return Ok(()) };
    let bytes = match matrix.resources.parameters.general("matrix_writer") {
        "BINARY" => binary::write(system),
        _ => matrix_market::write(system),
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
    // SAFETY: without a partition.
    call(|| unsafe { write_system(mtx, rhs, sol, filename, None) })
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
    partition_sizes: *const c_int,
    partition_vector_size: c_int,
    partition_vector: *const c_int,
) -> c_int {
    call(|| {
        let (sizes, len, vector) = (partition_sizes, partition_vector_size, partition_vector);
        // SAFETY: null, or as many numbers, as the header asks.
        unsafe { write_system(mtx, rhs, sol, filename, Some(OfFile { num_partitions, sizes, len, vector })) }
    })
}
