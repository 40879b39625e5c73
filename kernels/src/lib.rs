//! The kernels of Terrace as its library needs them: machine code for NVIDIA and AMD GPUs, the simulated GPU of the tests, and a table of all
//! kernels. The sources are the `.cu` files beside this crate's manifest; `build/` compiles them.

#![warn(missing_docs)]

pub mod sim;

/// Machine code for one kind of device.
pub struct Images {
    /// Compiler and its version.
    pub compiler: &'static str,
    /// Names of the architectures, for people.
    pub names: &'static str,
    /// The code, by architecture.
    pub architectures: &'static [Architecture],
}

/// Machine code for one architecture, or for several in fat binaries.
pub struct Architecture {
    /// One image for each kernel file; [`Kernel::unit`] is the index.
    pub units: &'static [&'static Aligned<[u8]>],
}

/// Bytes at an address that drivers accept: a page, as in an ELF file.
#[repr(C, align(4096))]
pub struct Aligned<T: ?Sized>(pub T);

/// A kernel.
pub struct Kernel {
    /// Its name.
    pub name: &'static str,
    /// Number of its file; out of range for the faults that only the simulated GPU has.
    pub unit: u16,
    /// The types of its parameters, separated by commas; empty in a build without the feature `sim`.
    pub parameters: &'static str,
}

/// The kernel of this name.
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.binary_search_by(|kernel| kernel.name.cmp(name)).ok().map(|i| &KERNELS[i])
}

#[cfg(feature = "sim")]
#[allow(unused_macros, reason = "a build without kernels has no table")]
macro_rules! types {
    ($types:literal) => {
        $types
    };
}
#[cfg(not(feature = "sim"))]
#[allow(unused_macros, reason = "a build without kernels has no table")]
macro_rules! types {
    ($types:literal) => {
        ""
    };
}

/// What the build script made.
mod generated {
    #[allow(unused_imports, reason = "a build without kernels for GPUs has no images")]
    use super::{Aligned, Architecture, Images, Kernel};
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

pub use generated::{CUDA, HIP, KERNELS};

/// Whether this build has kernels for any device.
pub const ANY: bool = !KERNELS.is_empty();

/// Whether this build has the simulated GPU.
pub const SIM: bool = cfg!(terrace_sim);
