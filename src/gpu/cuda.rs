//! NVIDIA GPUs: the kernels that nvcc made when the library was built.

use super::device::{Device, devices};
use super::driver::Vendor;
use super::runtime::Runtime;
use crate::error::Result;

/// The kernels, for the architectures that the build names.
#[repr(align(16))]
struct Image<const N: usize>([u8; N]);
static IMAGE: Image<{ include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")).len() }> =
    Image(*include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")));

/// Device `number` of the driver.
pub(super) fn open(number: usize) -> Result<Box<dyn Runtime>> {
    Ok(Box::new(Device::open(Vendor::Cuda, number, &[&IMAGE.0])?))
}

/// Compiler, architectures and devices, for people, and how many devices there are.
pub(super) fn facts() -> (String, usize) {
    let built = concat!("nvcc ", env!("TERRACE_NVCC_VERSION"), ", ", env!("TERRACE_CUDA_ARCHITECTURES"), " and PTX");
    match devices(Vendor::Cuda) {
        Ok(names) => (format!("{built}; {}", names.join(", ")), names.len()),
        Err(error) => (format!("{built}; {}", error.message), 0),
    }
}
