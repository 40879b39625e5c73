//! Generated problems: the families that published figures use, built the same way everywhere.
//!
//! A family is one file and one line of [`FAMILIES`]; [`parse`], its error sentences and the command-line help follow the table.

mod elasticity;
mod poisson;
mod stencil;

pub use elasticity::{Elasticity, elasticity_hex8};
pub use poisson::{poisson5, poisson7, poisson9, poisson27};

use crate::error::{Result, fail};
use crate::options::edit_distance;
use crate::sparse::Csr;

/// A generated problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Family and sizes, as [`parse`] accepts them.
    pub name: String,
    /// The matrix.
    pub matrix: Csr<f64>,
    /// For displacement problems the coordinates of the nodes, `dimension` for each, one node after the other.
    pub coordinates: Option<Vec<f64>>,
    /// Dimension of the space that the problem lives in.
    pub dimension: usize,
}

/// A matrix and the coordinates of its nodes, if they matter.
type Generated = (Csr<f64>, Option<Vec<f64>>);

/// One row of the table of families.
pub struct Family {
    /// Name before the colon.
    pub name: &'static str,
    /// Names of the sizes after the colon, separated by `x`; one number alone stands for all of them.
    pub sizes: &'static [&'static str],
    /// Dimension of the space that the problem lives in.
    pub dimension: usize,
    /// What it is.
    pub help: &'static str,
    build: fn(&[usize]) -> Result<Generated>,
}

impl Family {
    /// How a problem of this family is written, like `poisson5:N or poisson5:NXxNY`.
    pub fn usage(&self) -> String {
        let name = self.name;
        match self.sizes {
            [one] => format!("{name}:{one}"),
            several => format!("{name}:N or {name}:{}", several.join("x")),
        }
    }
}

macro_rules! families {
    ($($name:literal, [$($size:literal),*], $dimension:literal, $help:literal, $build:expr;)*) => {
        /// Every family.
        pub const FAMILIES: &[Family] = &[
            $(Family { name: $name, sizes: &[$($size),*], dimension: $dimension, help: $help, build: $build },)*
        ];
    };
}

families! {
    "poisson5", ["NX", "NY"], 2, "5-point Laplacian on a grid, diagonal 4", |n| Ok((poisson5(n[0], n[1])?, None));
    "poisson9", ["NX", "NY"], 2, "9-point Laplacian on a grid, diagonal 8", |n| Ok((poisson9(n[0], n[1])?, None));
    "poisson7", ["NX", "NY", "NZ"], 3, "7-point Laplacian on a grid, diagonal 6",
        |n| Ok((poisson7(n[0], n[1], n[2])?, None));
    "poisson27", ["NX", "NY", "NZ"], 3, "27-point Laplacian on a grid, diagonal 26",
        |n| Ok((poisson27(n[0], n[1], n[2])?, None));
    "elasticity", ["N"], 3, "linear elasticity, N^3 trilinear hexahedra, one face clamped, in 3x3 blocks",
        |n| elasticity_hex8(n[0]).map(|e| (e.matrix, Some(e.coordinates)));
}

/// The problem of a description like `poisson7:128`, `poisson7:20x30x40` or `elasticity:40`.
pub fn parse(description: &str) -> Result<Problem> {
    let description = description.trim();
    let (name, sizes) = description.split_once(':').unwrap_or((description, ""));
    let Some(family) = FAMILIES.iter().find(|family| family.name == name) else {
        let nearest = FAMILIES.iter().map(|f| f.name).min_by_key(|f| edit_distance(f, name)).unwrap_or_default();
        let all: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        return fail!(
            InvalidArgument,
            "problem \"{description}\": no family is called \"{name}\"; the nearest is \"{nearest}\"; accepted: {}",
            all.join(", ")
        );
    };
    let sizes = parse_sizes(family, description, sizes)?;
    let (matrix, coordinates) = (family.build)(&sizes)?;
    Ok(Problem { name: description.to_string(), matrix, coordinates, dimension: family.dimension })
}

fn parse_sizes(family: &Family, description: &str, text: &str) -> Result<Vec<usize>> {
    let expected = family.usage();
    let mut sizes = Vec::new();
    for part in text.split('x').filter(|_| !text.is_empty()) {
        match part.trim().parse() {
            Ok(size) if size > 0 => sizes.push(size),
            _ => {
                return fail!(
                    InvalidArgument,
                    "problem \"{description}\": size \"{part}\" is not a positive whole number; expected {expected}"
                );
            }
        }
    }
    match sizes.len() {
        1 => Ok(vec![sizes[0]; family.sizes.len()]),
        count if count == family.sizes.len() => Ok(sizes),
        count => fail!(InvalidArgument, "problem \"{description}\" has {count} sizes; expected {expected}"),
    }
}

#[cfg(test)]
mod testing {
    use crate::sparse::Csr;

    /// FNV-1a, 64 bits, over the row offsets and then the columns as little-endian 32-bit integers. The published check values
    /// were made with this start value, which lacks the last digit of the usual one.
    pub fn fingerprint(a: &Csr<f64>) -> u64 {
        let numbers = a.offsets.iter().map(|&o| o as i32).chain(a.columns.iter().copied());
        numbers
            .flat_map(i32::to_le_bytes)
            .fold(1_469_598_103_934_665_603_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Sum of the absolute values.
    pub fn absolute_sum(a: &Csr<f64>) -> f64 {
        a.values.iter().map(|v| v.abs()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn descriptions_name_family_and_sizes() {
        let problem = parse(" poisson7:2x3x4 ").unwrap();
        assert_eq!(problem.name, "poisson7:2x3x4");
        assert_eq!(problem.matrix, poisson7(2, 3, 4).unwrap());
        assert_eq!(parse("poisson9:5").unwrap().matrix, poisson9(5, 5).unwrap());

        let elastic = parse("elasticity:2").unwrap();
        assert_eq!((elastic.matrix.block.rows, elastic.dimension), (3, 3));
        assert_eq!(elastic.coordinates.map(|c| c.len()), Some(3 * 2 * 3 * 3));
    }

    #[test]
    fn every_family_of_the_table_builds_and_is_written_as_its_usage_says() {
        for family in FAMILIES {
            let problem = parse(&format!("{}:3", family.name)).unwrap();
            assert!(problem.matrix.rows > 0);
            assert!(family.usage().starts_with(family.name));
        }
    }

    #[test]
    fn bad_descriptions_are_refused_with_what_would_be_accepted() {
        for (description, part) in [
            ("poison7:3", "nearest is \"poisson7\""),
            ("", "accepted: poisson5"),
            ("poisson7", "poisson7:NXxNYxNZ"),
            ("poisson7:3x4", "has 2 sizes"),
            ("poisson7:3x4x5x6", "has 4 sizes"),
            ("poisson5:0", "size \"0\""),
            ("poisson5:-3", "size \"-3\""),
            ("poisson5:3x", "size \"\""),
            ("poisson5:three", "poisson5:NXxNY"),
            ("poisson5:99999999999999999999999", "positive whole number"),
            ("poisson7:1291", "at most 2147483647"),
            ("poisson7:4000000000", "at most 2147483647"),
            ("elasticity:2x2", "expected elasticity:N"),
        ] {
            let error = parse(description).unwrap_err();
            assert_eq!(error.status, Status::InvalidArgument, "{description}");
            assert!(error.message.contains(part), "{description}: {}", error.message);
        }
    }
}
