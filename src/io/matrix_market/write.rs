//! Writing; a name that ends in `.gz` compresses.

use super::Dense;
use crate::error::{Result, fail};
use crate::sparse::CsrView;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a matrix as `coordinate real general`, row by row; blocks are written as the scalars that they hold.
/// `comment` becomes comment lines after the header.
pub fn write_matrix(path: &Path, a: &CsrView<'_, f64>, comment: &str) -> Result<()> {
    if let Some(k) = a.values.iter().position(|value| !value.is_finite()) {
        return fail!(MatrixValues, "value {k} of the matrix is {}; a file holds finite numbers only", a.values[k]);
    }
    to_file(path, |out| {
        head(out, "coordinate", comment)?;
        writeln!(out, "{} {} {}", a.scalar_rows(), a.scalar_cols(), a.entries())?;
        let (br, bc) = (a.block.rows, a.block.cols);
        for i in 0..a.rows {
            for r in 0..br {
                for (j, block) in a.row(i) {
                    for (c, value) in block[r * bc..(r + 1) * bc].iter().enumerate() {
                        writeln!(out, "{} {} {value:?}", i * br + r + 1, j * bc + c + 1)?;
                    }
                }
            }
        }
        Ok(())
    })
}

/// Writes vectors as `array real general`.
pub fn write_dense(path: &Path, dense: &Dense, comment: &str) -> Result<()> {
    if let Some(k) = dense.values.iter().position(|value| !value.is_finite()) {
        return fail!(
            InvalidArgument,
            "value {k} of the array is {}; a file holds finite numbers only",
            dense.values[k]
        );
    }
    to_file(path, |out| {
        head(out, "array", comment)?;
        writeln!(out, "{} {}", dense.rows, dense.cols)?;
        dense.values.iter().try_for_each(|value| writeln!(out, "{value:?}"))
    })
}

fn head(out: &mut dyn Write, format: &str, comment: &str) -> std::io::Result<()> {
    writeln!(out, "%%MatrixMarket matrix {format} real general")?;
    comment.lines().try_for_each(|line| writeln!(out, "% {line}"))
}

fn to_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let compressed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        if compressed {
            let mut encoder = BufWriter::with_capacity(1 << 16, GzEncoder::new(&mut file, Compression::default()));
            write(&mut encoder)?;
            encoder.into_inner()?.finish()?;
        } else {
            write(&mut file)?;
        }
        file.flush()
    });
    match written {
        Ok(()) => Ok(()),
        Err(error) => fail!(Io, "{} could not be written: {error}", path.display()),
    }
}
