//! The binary form: a line of text, nine numbers, then the arrays. Numbers are 32-bit and values double, both with the lowest byte first.

use super::System;
use crate::boundary::{Result, fail};
use crate::native::zeros;

/// How such a file begins.
pub const HEADER: &[u8] = b"%%NVAMGBinary\n";

/// Takes arrays from the bytes one after the other.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize, name: &str) -> Result<&'a [u8]> {
        match self.0.split_at_checked(len) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => {
                fail!(IoError, "the file ends within its {name}: {len} bytes are needed, {} are left", self.0.len())
            }
        }
    }

    fn ints(&mut self, len: usize, name: &str) -> Result<Vec<i32>> {
        let bytes = self.take(len.saturating_mul(4), name)?;
        let mut array = zeros(len)?;
        for (to, from) in array.iter_mut().zip(bytes.chunks_exact(4)) {
            *to = from.try_into().map_or(0, i32::from_le_bytes);
        }
        Ok(array)
    }

    fn reals(&mut self, len: usize, name: &str) -> Result<Vec<f64>> {
        let bytes = self.take(len.saturating_mul(8), name)?;
        let mut array = zeros(len)?;
        for (to, from) in array.iter_mut().zip(bytes.chunks_exact(8)) {
            *to = from.try_into().map_or(0.0, f64::from_le_bytes);
        }
        Ok(array)
    }
}

/// Reads a system.
pub fn read(bytes: &[u8]) -> Result<System> {
    let mut bytes = Bytes(bytes);
    bytes.take(HEADER.len(), "first line")?;
    let numbers = bytes.ints(9, "nine numbers")?;
    let [_, has_rhs, has_solution, format, has_diagonal, dimx, dimy, rows, entries] = numbers[..] else {
        return fail!(IoError, "there are not nine numbers");
    };
    if format != 0 {
        return fail!(IoError, "the format is {format}; accepted: 0, real numbers in compressed rows");
    }
    if dimx != dimy || !(1..=8).contains(&dimx) || rows < 0 || entries < 0 {
        return fail!(
            IoError,
            "there are {rows} rows and {entries} blocks of {dimx} x {dimy}; accepted: square blocks of 1 to 8 rows"
        );
    }
    let (block, rows, entries) = (dimx as usize, rows as usize, entries as usize);
    let (size, len) = (block * block, rows * block);
    let system = System {
        block,
        offsets: bytes.ints(rows + 1, "row offsets")?,
        columns: bytes.ints(entries, "columns")?,
        values: bytes.reals(entries * size, "values")?,
        diagonal: (has_diagonal != 0).then(|| bytes.reals(rows * size, "diagonal")).transpose()?,
        rhs: (has_rhs != 0).then(|| bytes.reals(len, "right-hand side")).transpose()?,
        solution: (has_solution != 0).then(|| bytes.reals(len, "solution")).transpose()?,
    };
    system.check()?;
    Ok(system)
}

/// The bytes of a system.
pub fn write(system: &System) -> Vec<u8> {
    let flag = |vector: &Option<Vec<f64>>| i32::from(vector.is_some());
    let (block, rows) = (system.block as i32, system.rows() as i32);
    let numbers = [
        1,
        flag(&system.rhs),
        flag(&system.solution),
        0,
        flag(&system.diagonal),
        block,
        block,
        rows,
        system.columns.len() as i32,
    ];
    let mut out = HEADER.to_vec();
    for number in numbers.iter().chain(&system.offsets).chain(&system.columns) {
        out.extend(number.to_le_bytes());
    }
    for array in [Some(&system.values), system.diagonal.as_ref(), system.rhs.as_ref(), system.solution.as_ref()] {
        for value in array.into_iter().flatten() {
            out.extend(value.to_le_bytes());
        }
    }
    out
}
