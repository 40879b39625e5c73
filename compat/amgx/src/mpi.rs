//! What is needed of MPI. The library is not linked with it, and handles and constants differ from one MPI to another:
//! `libterrace_amgx_mpi.so`, which the MPI compiler makes of `mpi/terrace_amgx_mpi.c`, has the functions. It is found
//! when a program passes a communicator. Names looked up in the program would give functions, but neither the value of
//! `MPI_BYTE` nor the size of a request; they are used for the number of ranks where that library is not there.

use crate::boundary::{Result, fail};
use crate::ranks::Ranks;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::null_mut;
use terrace::capi::terrace_communicator;

/// Names the file of the library with the functions of MPI.
const VARIABLE: &str = "TERRACE_AMGX_MPI";
const FILE: &str = "libterrace_amgx_mpi.so";
/// What a failure says where it is missing.
const BUILD: &str = "several ranks need libterrace_amgx_mpi.so beside libamgxsh.so, or named by TERRACE_AMGX_MPI; \
     `make compat-amgx` builds it where there is an MPI compiler (MPICC)";

type IsOpenMpi = unsafe extern "C" fn() -> i32;
type Size = unsafe extern "C" fn(*const c_void) -> i32;
type Open = unsafe extern "C" fn(*const c_void, usize, *mut c_void, *mut i32, *mut i32) -> i32;

/// The functions of `libterrace_amgx_mpi.so`, which its source describes.
struct Shim {
    is_open_mpi: IsOpenMpi,
    size: Size,
    open: Open,
}

/// The ranks of the communicator that `comm` points to; none for one rank, and for a null pointer.
///
/// # Safety
/// `comm` is null or points to an `MPI_Comm` of the program's MPI.
pub unsafe fn ranks(comm: *const c_void) -> Result<Option<Ranks>> {
    if comm.is_null() {
        return Ok(None);
    }
    let of_program = find(null_mut(), c"MPI_Comm_size");
    let is_open_mpi = !find(null_mut(), c"ompi_mpi_comm_world").is_null();
    let shim = Shim::find();
    if let Some(shim) = &shim {
        // SAFETY: a function without arguments.
        let of_shim = unsafe { (shim.is_open_mpi)() } == 1;
        // What Python loads is not among the names of the program.
        if of_program.is_null() || of_shim == is_open_mpi {
            // SAFETY: by this function's contract.
            return unsafe { shim.ranks(comm) };
        }
    }
    if of_program.is_null() {
        return fail!(NotSupportedTarget, "comm is given, and its MPI is not found: {BUILD}");
    }
    // SAFETY: by this function's contract.
    let size = unsafe { size(of_program, is_open_mpi, comm) };
    match shim {
        _ if size == 1 => Ok(None),
        None => fail!(NotSupportedTarget, "comm has {size} ranks: {BUILD}"),
        Some(_) => fail!(NotSupportedTarget, "comm has {size} ranks, and {FILE} was built for another MPI: {BUILD}"),
    }
}

impl Shim {
    /// Linked, preloaded or named, or beside this library, or where the loader looks.
    fn find() -> Option<Shim> {
        if let Some(shim) = Shim::of(null_mut()) {
            return Some(shim);
        }
        let named = std::env::var(VARIABLE).ok();
        let files = match named {
            Some(file) => vec![file],
            None => beside().into_iter().chain([FILE.to_string()]).collect(),
        };
        for file in files {
            let Ok(file) = CString::new(file) else { continue };
            // SAFETY: what it does when it is loaded is what an MPI does. It stays loaded.
            let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if !library.is_null()
                && let Some(shim) = Shim::of(library)
            {
                return Some(shim);
            }
        }
        None
    }

    /// The functions of a library; null is the program with all that it was linked with.
    fn of(library: *mut c_void) -> Option<Shim> {
        let names = [c"terrace_amgx_mpi_is_open_mpi", c"terrace_amgx_mpi_size", c"terrace_amgx_mpi_open"];
        let [is_open_mpi, size, open] = names.map(|name| find(library, name));
        if is_open_mpi.is_null() || size.is_null() || open.is_null() {
            return None;
        }
        // SAFETY: the functions of these names have these types.
        Some(unsafe {
            Shim {
                is_open_mpi: transmute::<*mut c_void, IsOpenMpi>(is_open_mpi),
                size: transmute::<*mut c_void, Size>(size),
                open: transmute::<*mut c_void, Open>(open),
            }
        })
    }

    /// # Safety
    /// A pointer to a communicator of the MPI of this library.
    unsafe fn ranks(&self, comm: *const c_void) -> Result<Option<Ranks>> {
        // SAFETY: by this function's contract.
        match unsafe { (self.size)(comm) } {
            1 => return Ok(None),
            2.. => {}
            _ => {
                return fail!(
                    BadParameters,
                    "comm is given, and the MPI of {FILE} is not initialised; call MPI_Init before, with the MPI that \
                     it was built for"
                );
            }
        }
        let mut table = MaybeUninit::<terrace_communicator>::uninit();
        let (bytes, mut here, mut may_thread) = (size_of::<terrace_communicator>(), 1, 0);
        // SAFETY: by this function's contract; the table has so many bytes.
        match unsafe { (self.open)(comm, bytes, table.as_mut_ptr().cast(), &mut here, &mut may_thread) } {
            // SAFETY: success has written it.
            0 => Ok(Some(unsafe { Ranks::new(table.assume_init(), here, may_thread != 0) }?)),
            -1 => fail!(NotSupportedTarget, "{FILE} was built for another version of this library: {BUILD}"),
            _ => fail!(Internal, "MPI_Comm_dup failed, or there was no memory for its result"),
        }
    }
}

/// A name in a library, or with a null pointer in the program; null where it is not there.
fn find(library: *mut c_void, name: &CStr) -> *mut c_void {
    let library = if library.is_null() { libc::RTLD_DEFAULT } else { library };
    // SAFETY: looks a name up, nothing else.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// The file beside the one that this function is in.
fn beside() -> Option<String> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: an address of this library, and a place for the result.
    let known = unsafe { libc::dladdr(beside as *const c_void, info.as_mut_ptr()) };
    // SAFETY: zeroed, and written where it is known.
    let file = unsafe { info.assume_init() }.dli_fname;
    if known == 0 || file.is_null() {
        return None;
    }
    // SAFETY: a text of the loader.
    let file = unsafe { CStr::from_ptr(file) }.to_str().ok()?;
    Some(std::path::Path::new(file).with_file_name(FILE).to_str()?.to_string())
}

/// The ranks of a communicator by the function of the program.
///
/// # Safety
/// The function is `MPI_Comm_size`, and `comm` points to a communicator of its MPI.
unsafe fn size(of_program: *mut c_void, is_open_mpi: bool, comm: *const c_void) -> c_int {
    let mut ranks = 1;
    // SAFETY: the function with the type that communicators have: a pointer in Open MPI, an int in MPICH and its
    // relatives.
    unsafe {
        if is_open_mpi {
            let function: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int = transmute(of_program);
            function(*comm.cast::<*mut c_void>(), &mut ranks);
        } else {
            let function: unsafe extern "C" fn(c_int, *mut c_int) -> c_int = transmute(of_program);
            function(*comm.cast::<c_int>(), &mut ranks);
        }
    }
    ranks
}
