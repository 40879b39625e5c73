//! AMD GPUs: the kernels that clang made when the library was built, as one code object for each architecture. The driver accepts the one that
//! fits its device. No machine with such a GPU has run them; tests run this code with a stand-in for the driver.

use super::device::{Device, devices};
use super::driver::Vendor;
use super::runtime::Runtime;
use crate::error::Result;

/// Code objects, aligned to pages as in an ELF file.
#[repr(align(4096))]
struct Image<const N: usize>([u8; N]);

macro_rules! image {
    ($name:ident, $file:literal) => {
        static $name: Image<{ include_bytes!(concat!(env!("OUT_DIR"), $file)).len() }> =
            Image(*include_bytes!(concat!(env!("OUT_DIR"), $file)));
    };
}

image!(GFX90A, "/kernels.gfx90a");
image!(GFX942, "/kernels.gfx942");
image!(GFX1100, "/kernels.gfx1100");

/// Device `number` of the driver.
pub(super) fn open(number: usize) -> Result<Box<dyn Runtime>> {
    Ok(Box::new(Device::open(Vendor::Hip, number, &[&GFX90A.0, &GFX942.0, &GFX1100.0])?))
}

/// Compiler, architectures and devices, for people, and how many devices there are.
pub(super) fn facts() -> (String, usize) {
    let built = concat!(env!("TERRACE_HIP_COMPILER"), ", gfx90a gfx942 gfx1100");
    match devices(Vendor::Hip) {
        Ok(names) => (format!("{built}; {}", names.join(", ")), names.len()),
        Err(error) => (format!("{built}; {}", error.message), 0),
    }
}
