//! Modes: where objects live, and the number formats of vectors and matrices.

use crate::boundary::{Result, fail};
use std::ffi::c_int;
use terrace::capi::{TERRACE_F32, TERRACE_F64, terrace_type};

/// A mode that this library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    number: c_int,
    /// Whether objects are on the device.
    pub on_device: bool,
    /// Format of vectors.
    pub vector: terrace_type,
    /// Format of matrices.
    pub matrix: terrace_type,
}

/// Numbers and names: host or device, format of vectors, of matrices, of indices.
const MODES: &[(c_int, &str)] =
    &[(8192, "hDDI"), (8193, "dDDI"), (8448, "hDFI"), (8449, "dDFI"), (8464, "hFFI"), (8465, "dFFI")];

impl Mode {
    /// The mode of a number.
    pub fn new(number: c_int) -> Result<Mode> {
        let Some((_, name)) = MODES.iter().find(|(known, _)| *known == number) else {
            let names: Vec<String> = MODES.iter().map(|(number, name)| format!("{name} ({number})")).collect();
            return fail!(BadMode, "mode is {number}; accepted: {}", names.join(", "));
        };
        let format = |at: usize| if name.as_bytes()[at] == b'D' { TERRACE_F64 } else { TERRACE_F32 };
        Ok(Mode { number, on_device: name.starts_with('d'), vector: format(1), matrix: format(2) })
    }

    /// As AmgX spells it.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(known, _)| *known == self.number).map_or("", |(_, name)| name)
    }

    /// Whether matrices are narrower than vectors.
    pub fn is_mixed(self) -> bool {
        self.vector != self.matrix
    }

    /// Refuses an object of another mode.
    pub fn must_be(self, other: Mode, objects: &str) -> Result<()> {
        if self == other {
            return Ok(());
        }
        fail!(BadMode, "{objects} have different modes: {} and {}", self.name(), other.name())
    }
}

/// Bytes of a number.
pub fn bytes(format: terrace_type) -> usize {
    if format == TERRACE_F32 { 4 } else { 8 }
}
