//! Output to the terminal or a pipe.

use std::io::{ErrorKind, Write};
use terrace::{Error, Result, Status};

/// Writes to standard output. A reader that has seen enough, like `head`, is not an error.
pub fn emit(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(Status::Io, format!("standard output could not be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a text file.
pub fn save(path: &std::path::Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|error| Error::new(Status::Io, format!("{} could not be written: {error}", path.display())))
}

/// A number of bytes for people.
pub fn bytes(count: usize) -> String {
    scaled(count as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A count for people.
pub fn count(count: usize) -> String {
    scaled(count as f64, 1000.0, &["", "k", "M", "G"])
}

/// Seconds for people.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut scaled = value;
    let mut unit = 0;
    while scaled >= step && unit + 1 < units.len() {
        scaled /= step;
        unit += 1;
    }
    let digits = if unit == 0 || scaled >= 100.0 { 0 } else { 3 - scaled.log10().floor() as usize - 1 };
    format!("{scaled:.digits$} {}", units[unit]).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(20 << 20), "20.0 MiB");
        assert_eq!(count(999), "999");
        assert_eq!(count(2_097_152), "2.10 M");
        assert_eq!(count(262_144), "262 k");
        assert_eq!(seconds(0.0123), "12.30 ms");
    }
}
