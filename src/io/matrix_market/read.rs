//! Reading. A file's own numbers are never trusted with an allocation: arrays grow with the entries that are really
//! there.

use super::header::{self, Field, Format, Symmetry};
use super::{Contents, Dense};
use crate::error::{Error, Result, Status, excerpt, fail};
use crate::sparse::Csr;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Most entries for which room is made before they are seen.
const TRUSTED: usize = 1 << 20;

/// Rows beyond [`TRUSTED`] that are believed for each entry of the file; every row of a usable matrix has its diagonal.
const ROWS_PER_ENTRY: usize = 16;

/// Reads a sparse matrix.
pub fn read_matrix(path: &Path) -> Result<Csr<f64>> {
    let name = path.display().to_string();
    read(open(path)?, &name)?.into_matrix(&name)
}

/// Reads vectors.
pub fn read_dense(path: &Path) -> Result<Dense> {
    let name = path.display().to_string();
    read(open(path)?, &name)?.into_dense(&name)
}

fn open(path: &Path) -> Result<File> {
    match File::open(path) {
        Ok(file) => Ok(file),
        Err(error) => fail!(Io, "{} could not be opened: {error}", path.display()),
    }
}

/// Reads from anything, compressed when it begins like gzip; `name` stands for it in error sentences.
pub fn read(source: impl Read, name: &str) -> Result<Contents> {
    let mut source = BufReader::with_capacity(1 << 16, source);
    let compressed = match source.fill_buf() {
        Ok(start) => start.starts_with(&[0x1f, 0x8b]),
        Err(error) => return fail!(Io, "{name} could not be read: {error}"),
    };
    if compressed {
        parse(Lines::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(source)), name))
    } else {
        parse(Lines::new(source, name))
    }
}

/// The lines of a file with their numbers.
struct Lines<'a, R> {
    source: R,
    name: &'a str,
    number: usize,
    buffer: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn new(source: R, name: &'a str) -> Self {
        Lines { source, name, number: 0, buffer: Vec::new() }
    }

    /// The next line, or `None` at the end.
    fn next(&mut self) -> Result<Option<&str>> {
        self.buffer.clear();
        match self.source.read_until(b'\n', &mut self.buffer) {
            Ok(0) => Ok(None),
            Ok(_) => {
                self.number += 1;
                match std::str::from_utf8(&self.buffer) {
                    Ok(line) => Ok(Some(line)),
                    Err(_) => self.bad("the line is not text".to_string()),
                }
            }
            Err(error) => fail!(Io, "{} could not be read after line {}: {error}", self.name, self.number),
        }
    }

    /// The next line that is neither empty nor a comment.
    fn next_data(&mut self) -> Result<Option<&str>> {
        loop {
            let data = match self.next()? {
                None => return Ok(None),
                Some(line) => !line.trim_start().is_empty() && !line.starts_with('%'),
            };
            if data {
                // The line was checked by `next`; a borrow that is returned from inside the loop would last too long.
                return Ok(std::str::from_utf8(&self.buffer).ok());
            }
        }
    }

    fn place(&self) -> String {
        format!("{}, line {}", self.name, self.number)
    }

    fn bad<T>(&self, what: String) -> Result<T> {
        fail!(Parse, "{}: {what}", self.place())
    }
}

fn parse<R: BufRead>(mut lines: Lines<'_, R>) -> Result<Contents> {
    let first = match lines.next()? {
        Some(line) => line.to_string(),
        None => return fail!(Parse, "{} is empty; a Matrix Market file is expected", lines.name),
    };
    let header = header::parse(&first, &lines.place())?;
    match header.format {
        Format::Coordinate => {
            let [rows, cols, entries] = sizes(&mut lines, "rows, columns and entries")?;
            coordinate(lines, header, rows, cols, entries).map(Contents::Sparse)
        }
        Format::Array => {
            let [rows, cols] = sizes(&mut lines, "rows and columns")?;
            array(lines, rows, cols).map(Contents::Dense)
        }
    }
}

/// The line of sizes. All but the number of entries must be 32-bit.
fn sizes<R: BufRead, const N: usize>(lines: &mut Lines<'_, R>, what: &str) -> Result<[usize; N]> {
    let line = match lines.next_data()? {
        Some(line) => line.to_string(),
        None => return fail!(Parse, "{} ends before the line with {what}", lines.name),
    };
    let numbers: Option<Vec<usize>> = line.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    let Some(sizes) = numbers.and_then(|numbers| <[usize; N]>::try_from(numbers).ok()) else {
        return lines.bad(format!("{what} are expected as {N} whole numbers, not {:?}", excerpt(&line)));
    };
    match sizes[..2].iter().find(|&&size| size > i32::MAX as usize) {
        Some(size) => fail!(Unsupported, "{}: the size is {size}; accepted: at most {}", lines.place(), i32::MAX),
        None => Ok(sizes),
    }
}

fn coordinate<R: BufRead>(
    mut lines: Lines<'_, R>,
    header: header::Header,
    rows: usize,
    cols: usize,
    entries: usize,
) -> Result<Csr<f64>> {
    let symmetric = header.symmetry != Symmetry::General;
    if symmetric && rows != cols {
        return lines.bad(format!("a symmetric matrix must be square, not {rows} x {cols}"));
    }
    let mut triplets: Vec<(usize, usize, f64)> = crate::error::try_capacity(entries.min(TRUSTED))?;
    let mut triangle = None;
    let mut count = 0;
    while let Some(line) = lines.next_data()? {
        let entry = entry(line, header.field, rows, cols);
        let (i, j, value) = match entry {
            Ok(entry) => entry,
            Err(what) => return lines.bad(what),
        };
        count += 1;
        if count > entries {
            return lines.bad(format!("this is one entry more than the {entries} that were announced"));
        }
        reserve(&mut triplets, 2)?;
        triplets.push((i, j, value));
        if symmetric {
            match (i.cmp(&j), triangle, header.symmetry) {
                (std::cmp::Ordering::Equal, _, Symmetry::SkewSymmetric) => {
                    return lines.bad("a skew-symmetric matrix has no entries on its diagonal".to_string());
                }
                (std::cmp::Ordering::Equal, ..) => continue,
                (side, Some(other), _) if side != other => {
                    return lines
                        .bad("a symmetric file holds one triangle; this entry is in the other one".to_string());
                }
                (side, ..) => triangle = Some(side),
            }
            let mirrored = if header.symmetry == Symmetry::SkewSymmetric { -value } else { value };
            triplets.push((j, i, mirrored));
        }
    }
    if count < entries {
        return fail!(Parse, "{} ends after {count} entries; its header announces {entries}", lines.name);
    }
    if rows > TRUSTED.saturating_add(entries.saturating_mul(ROWS_PER_ENTRY)) {
        return fail!(Parse, "{} announces {rows} rows for {entries} entries, so most rows would be empty", lines.name);
    }
    Csr::from_triplets(rows, cols, &triplets)
}

/// An entry, counted from 0, or what is wrong with the line.
fn entry(line: &str, field: Field, rows: usize, cols: usize) -> std::result::Result<(usize, usize, f64), String> {
    let mut words = line.split_ascii_whitespace();
    let (i, j) = (words.next(), words.next());
    let value = if field == Field::Real { words.next() } else { Some("1") };
    let (Some(i), Some(j), Some(value), None) = (i, j, value, words.next()) else {
        let expected = if field == Field::Real { "row, column and value" } else { "row and column" };
        return Err(format!("{expected} are expected, not {:?}", excerpt(line)));
    };
    let index = |word: &str, what: &str, size: usize| match word.parse::<usize>() {
        Ok(index) if (1..=size).contains(&index) => Ok(index - 1),
        _ => Err(format!("{what} is {}; accepted: 1 to {size}", excerpt(word))),
    };
    Ok((index(i, "row", rows)?, index(j, "column", cols)?, number(value)?))
}

/// A finite number; Fortran's exponent letter D is read as E.
fn number(word: &str) -> std::result::Result<f64, String> {
    let value = match word.parse::<f64>() {
        Ok(value) => Some(value),
        Err(_) => word.replace(['d', 'D'], "e").parse().ok(),
    };
    match value.filter(|value| value.is_finite()) {
        Some(value) => Ok(value),
        None => Err(format!("{:?} is not a finite number", excerpt(word))),
    }
}

fn array<R: BufRead>(mut lines: Lines<'_, R>, rows: usize, cols: usize) -> Result<Dense> {
    // Both sizes are below 2^31.
    let expected = rows * cols;
    let mut values: Vec<f64> = crate::error::try_capacity(expected.min(TRUSTED))?;
    while let Some(line) = lines.next_data()? {
        let numbers: std::result::Result<Vec<f64>, String> = line.split_ascii_whitespace().map(number).collect();
        let numbers = match numbers {
            Ok(numbers) => numbers,
            Err(what) => return lines.bad(what),
        };
        if values.len() + numbers.len() > expected {
            return lines.bad(format!("there are more than the {expected} values that were announced"));
        }
        reserve(&mut values, numbers.len())?;
        values.extend(numbers);
    }
    if values.len() < expected {
        let count = values.len();
        return fail!(Parse, "{} ends after {count} values; its header announces {expected}", lines.name);
    }
    Ok(Dense { rows, cols, values })
}

/// Room for some more, or `OutOfMemory`.
fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<()> {
    items
        .try_reserve(more)
        .map_err(|_| Error::new(Status::OutOfMemory, format!("no memory for more than {} entries", items.len())))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    fn matrix(text: &str) -> Csr<f64> {
        read(text.as_bytes(), "test").unwrap().into_matrix("test").unwrap()
    }

    #[test]
    fn coordinates_are_read_in_every_accepted_form() {
        let general = matrix(
            "%%MatrixMarket matrix coordinate real general\n% a comment\n\n2 3 3\n2 3 1.5e0\n1 1 -2\n 1\t2  3.D-1 \r\n",
        );
        assert_eq!(general, Csr::from_triplets(2, 3, &[(0, 0, -2.0), (0, 1, 0.3), (1, 2, 1.5)]).unwrap());

        let pattern = matrix("%%matrixmarket MATRIX Coordinate Pattern Symmetric\n2 2 2\n1 1\n2 1\n");
        assert_eq!(pattern, Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)]).unwrap());

        let upper = matrix("%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n1 1 7\n1 2 3\n");
        assert_eq!(upper, Csr::from_triplets(2, 2, &[(0, 0, 7.0), (0, 1, 3.0), (1, 0, 3.0)]).unwrap());

        let skew = matrix("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n");
        assert_eq!(skew, Csr::from_triplets(2, 2, &[(1, 0, 3.0), (0, 1, -3.0)]).unwrap());

        let repeated = matrix("%%MatrixMarket matrix coordinate real general\n1 1 2\n1 1 3\n1 1 4\n");
        assert_eq!(repeated.values, [7.0]);
    }

    #[test]
    fn arrays_are_read_by_columns() {
        let text = "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n";
        let expected = Dense { rows: 2, cols: 2, values: vec![1.0, 2.0, 3.0, 4.0] };
        assert_eq!(read(text.as_bytes(), "test").unwrap(), Contents::Dense(expected));

        let sparse = "%%MatrixMarket matrix coordinate real general\n3 1 1\n2 1 5\n";
        let vector = read(sparse.as_bytes(), "test").unwrap().into_dense("test").unwrap();
        assert_eq!(vector.values, [0.0, 5.0, 0.0]);
    }

    #[test]
    fn faults_are_named_with_their_line() {
        let real = "%%MatrixMarket matrix coordinate real general\n";
        let symmetric = "%%MatrixMarket matrix coordinate real symmetric\n";
        let array = "%%MatrixMarket matrix array real general\n";
        for (text, status, part) in [
            (String::new(), Status::Parse, "test is empty"),
            ("1 2 3\n".to_string(), Status::Parse, "test, line 1: a Matrix Market file begins like"),
            ("%%MatrixMarket matrix coordinate complex general\n".to_string(), Status::Unsupported, "complex"),
            ("%%MatrixMarket matrix coordinate real hermitian\n".to_string(), Status::Unsupported, "hermitian"),
            ("%%MatrixMarket matrix array pattern general\n".to_string(), Status::Parse, "pattern"),
            ("%%MatrixMarket matrix array real symmetric\n".to_string(), Status::Unsupported, "general arrays"),
            ("%%MatrixMarket vector array real general\n".to_string(), Status::Parse, "\"vector\""),
            ("%%MatrixMarket matrix list real general\n".to_string(), Status::Parse, "\"list\""),
            (format!("{real}% only a comment\n"), Status::Parse, "ends before the line with rows"),
            (format!("{real}2 2\n"), Status::Parse, "line 2: rows, columns and entries are expected"),
            (format!("{real}2 -2 1\n"), Status::Parse, "3 whole numbers"),
            (format!("{real}2 2 1\n\n3 1 1.0\n"), Status::Parse, "line 4: row is 3; accepted: 1 to 2"),
            (format!("{real}2 2 1\n1 0 1.0\n"), Status::Parse, "line 3: column is 0; accepted: 1 to 2"),
            (format!("{real}2 2 1\n1 1\n"), Status::Parse, "line 3: row, column and value are expected"),
            (format!("{real}2 2 1\n1 1 1 1\n"), Status::Parse, "row, column and value are expected"),
            (format!("{real}2 2 1\n1 1 one\n"), Status::Parse, "\"one\" is not a finite number"),
            (format!("{real}2 2 1\n1 1 1e999\n"), Status::Parse, "not a finite number"),
            (format!("{real}2 2 1\n1 1 nan\n"), Status::Parse, "not a finite number"),
            (format!("{real}2 2 2\n1 1 1\n"), Status::Parse, "ends after 1 entries; its header announces 2"),
            (format!("{real}2 2 1\n1 1 1\n2 2 1\n"), Status::Parse, "line 4: this is one entry more than the 1"),
            (format!("{symmetric}2 3 0\n"), Status::Parse, "must be square"),
            (format!("{symmetric}3 3 2\n2 1 1\n1 3 1\n"), Status::Parse, "line 4: a symmetric file holds one triangle"),
            (format!("{array}2 1\n1\n"), Status::Parse, "ends after 1 values"),
            (format!("{array}2 1\n1 2 3\n"), Status::Parse, "line 3: there are more than the 2 values"),
            (format!("{array}2 1\n1 x\n"), Status::Parse, "\"x\" is not a finite number"),
        ] {
            let error = read(text.as_bytes(), "test").unwrap_err();
            assert_eq!(error.status, status, "{text}");
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
        let skew = b"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n";
        assert!(read(&skew[..], "test").unwrap_err().message.contains("diagonal"));
        assert!(read(&[0x25, 0xff, 0xfe][..], "test").unwrap_err().message.contains("not text"));
    }

    #[test]
    fn a_header_cannot_make_the_reader_allocate() {
        let real = "%%MatrixMarket matrix coordinate real general\n";
        for (text, part) in [
            (format!("{real}1 1 18446744073709551615\n1 1 1\n"), "ends after 1 entries"),
            (format!("{real}2000000000 2000000000 1\n1 1 1\n"), "most rows would be empty"),
            (format!("{real}99999999999 1 1\n1 1 1\n"), "accepted: at most 2147483647"),
            ("%%MatrixMarket matrix array real general\n2000000000 2000000000\n1\n".to_string(), "ends after 1 values"),
        ] {
            let error = read(text.as_bytes(), "test").unwrap_err();
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
    }

    #[test]
    fn a_broken_archive_is_an_error() {
        let error = read(&[0x1f, 0x8b, 8, 0, 1, 2, 3][..], "test").unwrap_err();
        assert_eq!(error.status, Status::Io);
    }
}
