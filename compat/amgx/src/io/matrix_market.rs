//! Matrix Market with a comment line of AmgX: block size, whether the diagonal is beside the matrix, and whether vectors follow it.

use super::System;
use crate::boundary::{Result, fail};
use crate::native::zeros;
use std::fmt::Write;
use std::str::{FromStr, SplitAsciiWhitespace};
use terrace::sparse::Csr;

/// What the lines at the beginning say.
#[derive(Default)]
struct Header {
    is_symmetric: bool,
    is_skew: bool,
    has_diagonal: bool,
    has_rhs: bool,
    has_solution: bool,
    is_from_zero: bool,
    blocks: Vec<usize>,
}

impl Header {
    fn add(&mut self, line: &str) -> Result<()> {
        let line = line.to_lowercase();
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("%%matrixmarket") => {
                for word in words {
                    match word {
                        "matrix" | "coordinate" | "real" | "integer" | "general" => {}
                        "symmetric" => self.is_symmetric = true,
                        "skew-symmetric" => (self.is_symmetric, self.is_skew) = (true, true),
                        _ => {
                            return fail!(
                                IoError,
                                "the first line has \"{word}\"; accepted: matrix coordinate real or integer, general, symmetric or skew-symmetric"
                            );
                        }
                    }
                }
            }
            Some("%%amgx" | "%%nvamg") => {
                for word in words {
                    match (word, word.parse()) {
                        ("diagonal", _) => self.has_diagonal = true,
                        ("rhs", _) => self.has_rhs = true,
                        ("solution", _) => self.has_solution = true,
                        ("base0", _) => self.is_from_zero = true,
                        // Entries are sorted here in any case.
                        ("sorted", _) => {}
                        (_, Ok(number)) => self.blocks.push(number),
                        _ => {
                            return fail!(
                                IoError,
                                "the line of AMGX has \"{word}\"; accepted: block sizes, diagonal, rhs, solution, sorted, base0"
                            );
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn block(&self) -> Result<usize> {
        match self.blocks[..] {
            [] => Ok(1),
            [n @ 1..=8] => Ok(n),
            [n @ 1..=8, m] if m == n => Ok(n),
            _ => fail!(IoError, "the block sizes are {:?}; accepted: square blocks of 1 to 8 rows", self.blocks),
        }
    }
}

/// Numbers one after the other.
struct Numbers<'a>(SplitAsciiWhitespace<'a>);

impl Numbers<'_> {
    fn next<T: FromStr>(&mut self, name: &str) -> Result<T> {
        match self.0.next() {
            None => fail!(IoError, "the file ends within its {name}"),
            Some(word) => match word.parse() {
                Ok(number) => Ok(number),
                Err(_) => fail!(IoError, "\"{}\" among the {name} is no number", terrace::error::excerpt(word)),
            },
        }
    }

    fn reals(&mut self, len: usize, name: &str) -> Result<Vec<f64>> {
        let mut array = zeros(len)?;
        for value in &mut array {
            *value = self.next(name)?;
        }
        Ok(array)
    }
}

/// Reads a system.
pub fn read(bytes: &[u8]) -> Result<System> {
    let Ok(mut rest) = std::str::from_utf8(bytes) else { return fail!(IoError, "the file is no text") };
    if !rest.starts_with("%%") {
        return fail!(IoError, "the first line begins with neither %%MatrixMarket nor %%NVAMGBinary");
    }
    let mut header = Header::default();
    while rest.starts_with('%') {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        header.add(line)?;
        rest = after;
    }
    let block = header.block()?;
    let mut numbers = Numbers(rest.split_ascii_whitespace());
    let (rows, cols): (usize, usize) = (numbers.next("size")?, numbers.next("size")?);
    let entries: usize = numbers.next("size")?;
    if rows != cols || !rows.is_multiple_of(block) || rows > i32::MAX as usize {
        return fail!(IoError, "the matrix has {rows} rows and {cols} columns; accepted: a square one of whole blocks");
    }
    let triplets = triplets(&mut numbers, &header, rows, entries)?;
    let scalar = Csr::from_triplets(rows, cols, &triplets)?;
    let matrix = if block == 1 { scalar } else { scalar.view().to_blocks(block)? };
    let mut offsets = zeros::<i32>(matrix.offsets.len())?;
    for (to, from) in offsets.iter_mut().zip(&matrix.offsets) {
        *to = match i32::try_from(*from) {
            Ok(offset) => offset,
            Err(_) => return fail!(IoError, "the matrix has more than 2147483647 blocks"),
        };
    }
    let diagonal = header.has_diagonal.then(|| numbers.reals(rows * block, "diagonal")).transpose()?;
    let mut vector = |wanted: bool, name: &str| -> Result<Option<Vec<f64>>> {
        if !wanted {
            return Ok(None);
        }
        let len: usize = numbers.next(name)?;
        if len != rows {
            return fail!(IoError, "the {name} has {len} elements, and the matrix {rows} rows");
        }
        numbers.reals(len, name).map(Some)
    };
    let rhs = vector(header.has_rhs, "right-hand side")?;
    let solution = vector(header.has_solution, "solution")?;
    let system = System { block, offsets, columns: matrix.columns, values: matrix.values, diagonal, rhs, solution };
    system.check()?;
    Ok(system)
}

/// The entries, of both triangles; zeros of scalar matrices are left out.
fn triplets(
    numbers: &mut Numbers<'_>,
    header: &Header,
    rows: usize,
    entries: usize,
) -> Result<Vec<(usize, usize, f64)>> {
    let (mut triplets, base) = (Vec::new(), if header.is_from_zero { 0 } else { 1 });
    let most = if header.is_symmetric { 2 } else { 1 };
    if triplets.try_reserve_exact(entries.saturating_mul(most).min(numbers.0.clone().count())).is_err() {
        return fail!(NoMemory, "{entries} entries could not be allocated");
    }
    for _ in 0..entries {
        let (i, j): (usize, usize) = (numbers.next("entries")?, numbers.next("entries")?);
        let value: f64 = numbers.next("entries")?;
        let range = base..base + rows;
        if !range.contains(&i) || !range.contains(&j) {
            return fail!(
                IoError,
                "there is an entry in row {i} and column {j}; accepted: {base} to {}",
                base + rows - 1
            );
        }
        if value == 0.0 && header.blocks.iter().all(|n| *n == 1) {
            continue;
        }
        let (i, j) = (i - base, j - base);
        triplets.push((i, j, value));
        if header.is_symmetric && i != j {
            triplets.push((j, i, if header.is_skew { -value } else { value }));
        }
    }
    Ok(triplets)
}

/// The text of a system.
pub fn write(system: &System) -> Vec<u8> {
    let (block, rows) = (system.block, system.rows());
    let size = block * block;
    let mut out = format!("%%MatrixMarket matrix coordinate real general\n%%AMGX {block} {block}");
    for (is_there, word) in [
        (system.diagonal.is_some(), "diagonal"),
        (system.rhs.is_some(), "rhs"),
        (system.solution.is_some(), "solution"),
    ] {
        if is_there {
            let _ = write!(out, " {word}");
        }
    }
    let _ = writeln!(out, "\n{0} {0} {1}", rows * block, system.values.len());
    for row in 0..rows {
        for k in system.offsets[row] as usize..system.offsets[row + 1] as usize {
            for (at, value) in system.values[k * size..][..size].iter().enumerate() {
                let i = row * block + at / block + 1;
                let j = system.columns[k] as usize * block + at % block + 1;
                let _ = writeln!(out, "{i} {j} {value:e}");
            }
        }
    }
    for value in system.diagonal.iter().flatten() {
        let _ = writeln!(out, "{value:e}");
    }
    for vector in [&system.rhs, &system.solution].into_iter().flatten() {
        let _ = writeln!(out, "{}", vector.len());
        for value in vector {
            let _ = writeln!(out, "{value:e}");
        }
    }
    out.into_bytes()
}
