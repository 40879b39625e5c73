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
    if seconds < 1.0 { scaled(seconds * 1e6, 1000.0, &["us", "ms"]) } else { format!("{seconds:.3} s") }
}

/// A number of threads for people.
pub fn threads(count: usize) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

/// A number in scientific notation whose exponent has a sign and two digits, so that columns align.
pub fn scientific(value: f64) -> String {
    let text = format!("{value:.3e}");
    match text.split_once('e').map(|(mantissa, exponent)| (mantissa, exponent.parse::<i32>())) {
        Some((mantissa, Ok(exponent))) => format!("{mantissa}e{exponent:+03}"),
        _ => text,
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut scaled = value;
    let mut unit = 0;
    while scaled >= step && unit + 1 < units.len() {
        scaled /= step;
        unit += 1;
    }
    let digits = match scaled {
        s if s >= 100.0 || s.fract() == 0.0 && unit == 0 => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
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
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(2.5e-6), "2.50 us");
        assert_eq!(seconds(12.3456), "12.346 s");
        assert_eq!(scientific(1.0), "1.000e+00");
        assert_eq!(scientific(2.5e-9), "2.500e-09");
        assert_eq!(scientific(f64::NAN), "NaN");
    }
}
