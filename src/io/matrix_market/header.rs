//! The first line of a Matrix Market file.

use crate::error::{Result, excerpt, fail};

/// How entries are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Row, column and value of each stored entry.
    Coordinate,
    /// Every value, one column after the other.
    Array,
}

/// What is written for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A number.
    Real,
    /// Nothing; the value is 1.
    Pattern,
}

/// Which entries follow from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symmetry {
    /// None.
    General,
    /// a_ji = a_ij.
    Symmetric,
    /// a_ji = -a_ij.
    SkewSymmetric,
}

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub format: Format,
    pub field: Field,
    pub symmetry: Symmetry,
}

/// Reads the first line; `place` names file and line in error sentences.
pub(super) fn parse(line: &str, place: &str) -> Result<Header> {
    let words: Vec<String> = line.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", object, format, field, symmetry] = words[..] else {
        return fail!(
            Parse,
            "{place}: a Matrix Market file begins like \"%%MatrixMarket matrix coordinate real general\", not with {:?}",
            excerpt(line)
        );
    };
    if object != "matrix" {
        return fail!(Parse, "{place}: the object is \"{object}\"; accepted: matrix");
    }
    let format = match format {
        "coordinate" => Format::Coordinate,
        "array" => Format::Array,
        _ => return fail!(Parse, "{place}: the format is \"{format}\"; accepted: coordinate, array"),
    };
    let field = match field {
        "real" | "integer" | "double" => Field::Real,
        "pattern" => Field::Pattern,
        "complex" => {
            return fail!(Unsupported, "{place}: complex values are not supported; accepted: real, integer, pattern");
        }
        _ => return fail!(Parse, "{place}: the field is \"{field}\"; accepted: real, integer, pattern"),
    };
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "symmetric" => Symmetry::Symmetric,
        "skew-symmetric" => Symmetry::SkewSymmetric,
        "hermitian" => {
            return fail!(
                Unsupported,
                "{place}: hermitian matrices are not supported; accepted: general, symmetric, skew-symmetric"
            );
        }
        _ => {
            return fail!(
                Parse,
                "{place}: the symmetry is \"{symmetry}\"; accepted: general, symmetric, skew-symmetric"
            );
        }
    };
    if format == Format::Array && field == Field::Pattern {
        return fail!(Parse, "{place}: an array cannot be a pattern; accepted: real, integer");
    }
    if format == Format::Array && symmetry != Symmetry::General {
        return fail!(Unsupported, "{place}: only general arrays are supported");
    }
    Ok(Header { format, field, symmetry })
}
