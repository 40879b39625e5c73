//! What a row of a table of options says.

use crate::device_kind::DeviceKind::{self, Cuda, Hip, Host, Sim};
use crate::edit_distance::edit_distance;

/// What an option accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in a closed range.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A real number in a closed range.
    Real {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
        /// Whether `auto` lets the library choose.
        auto: bool,
    },
    /// One of the names of a registry.
    Choice {
        /// The names.
        names: &'static [&'static str],
        /// Whether `auto` lets the library choose.
        auto: bool,
    },
    /// Names of number formats from the finest level downward, separated by commas; the last repeats. `preset` is what
    /// `precision.preset` says, `input` the format of the matrix that was handed over, `auto` the library's choice.
    Precisions,
    /// A name for the number formats of all parts of all levels.
    PrecisionPreset,
    /// Whole numbers in a closed range from the finest level downward, separated by commas; the last repeats.
    Ints {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
}

impl Kind {
    /// What is accepted, for error sentences and the reference.
    pub fn accepted(&self) -> String {
        let or_auto = |auto: bool| if auto { "auto, " } else { "" };
        match *self {
            Kind::Int { min, max } => format!("whole number from {min} to {max}"),
            Kind::Real { min, max: f64::MAX, auto } => format!("{}number from {min} upward", or_auto(auto)),
            Kind::Real { min, max, auto } => format!("{}number from {min} to {max}", or_auto(auto)),
            Kind::Choice { names, auto } => format!("{}{}", or_auto(auto), names.join(", ")),
            Kind::Precisions => format!("list of {}", PRECISIONS.join(", ")),
            Kind::PrecisionPreset => {
                "default, single, input, auto, a list of dp, sp, hp, bf joined by hyphens, or a pair of lists like (dp-sp,hp)"
                    .to_string()
            }
            Kind::Ints { min, max } => format!("list of whole numbers from {min} to {max}"),
        }
    }
}

/// Options that only the host honours.
const HOST_ALONE: &[&str] = &["precision.indices"];

impl OptionRow {
    /// Backends that honour it.
    pub fn backends(&self) -> &'static [DeviceKind] {
        if HOST_ALONE.contains(&self.key) { &[Host] } else { &[Host, Cuda, Hip, Sim] }
    }

    /// Backends and exceptions, for the reference.
    pub fn backend_names(&self) -> String {
        let names = self.backends().iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
        match self.host_only {
            [] => names,
            values => format!("{names}; host only: {}", values.join(", ")),
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct OptionRow {
    /// Key, dotted; no key is a prefix of another's path.
    pub key: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// Values that only the host honours.
    pub host_only: &'static [&'static str],
    /// The default, written as a user would.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Why the default is what it is.
    pub reason: &'static str,
    /// The hypre setter that does the same, or "-".
    pub hypre: &'static str,
    /// The AmgX key that does the same, or "-".
    pub amgx: &'static str,
}

/// What can be said about a part of a level.
pub(crate) const PRECISIONS: &[&str] = &["preset", "input", "auto", "f64", "f32", "f16", "bf16"];

/// The row of a key.
pub(crate) fn find(rows: &'static [OptionRow], key: &str) -> Option<&'static OptionRow> {
    rows.iter().find(|row| row.key == key)
}

/// The key nearest to an unknown one, by edit distance; ties go to the first of the table.
pub(crate) fn nearest(rows: &'static [OptionRow], key: &str) -> &'static str {
    rows.iter().map(|row| row.key).min_by_key(|k| edit_distance(k, key)).expect("the table is not empty")
}
