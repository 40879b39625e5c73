//! The number of ranks of a communicator. MPI is not linked: its function is looked for in the program that has made the communicator.

use std::ffi::{c_int, c_void};

/// How many ranks the communicator that `comm` points to has; 1 for none, and where the program has no MPI.
///
/// # Safety
/// `comm` is null or points to an `MPI_Comm` of the program's MPI.
pub unsafe fn size(comm: *mut c_void) -> c_int {
    if comm.is_null() {
        return 1;
    }
    // SAFETY: looks names up, nothing else.
    let find = |name: &std::ffi::CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let comm_size = find(c"MPI_Comm_size");
    if comm_size.is_null() {
        return 1;
    }
    let mut ranks = 1;
    // A communicator is a pointer in Open MPI, which this symbol tells, and an int in MPICH and its relatives.
    let is_pointer = !find(c"ompi_mpi_comm_world").is_null();
    // SAFETY: the function of MPI with the type that its communicators have.
    unsafe {
        if is_pointer {
            let function: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int = std::mem::transmute(comm_size);
            function(*comm.cast::<*mut c_void>(), &mut ranks);
        } else {
            let function: unsafe extern "C" fn(c_int, *mut c_int) -> c_int = std::mem::transmute(comm_size);
            function(*comm.cast::<c_int>(), &mut ranks);
        }
    }
    ranks
}
