//! `AMGX_write_parameters_description`: the table of keys as a file.

use super::keys::{ROWS, accepted};
use crate::boundary::{Result, call, fail, text};
use serde_json::json;
use std::ffi::{c_char, c_int};
use std::fmt::Write;

/// Numbers of the forms.
const JSON_TO_FILE: c_int = 0;
const TEXT_TO_FILE: c_int = 2;

/// Writes the table of keys to a file; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_write_parameters_description(filename: *mut c_char, mode: c_int) -> c_int {
    call(|| {
        // SAFETY: null or a text, as the header asks.
        let file = unsafe { text(filename, "filename") }?;
        let description = match mode {
            JSON_TO_FILE => as_json(),
            TEXT_TO_FILE => as_text(),
            1 | 3 => {
                return fail!(NotImplemented, "mode is {mode}, a text in memory; the nearest is {}, a file", mode - 1);
            }
            _ => return fail!(BadParameters, "mode is {mode}; accepted: 0 for JSON, 2 for text"),
        };
        write_file(file, &description)
    })
}

fn write_file(file: &str, text: &str) -> Result<()> {
    match std::fs::write(file, text) {
        Ok(()) => Ok(()),
        Err(error) => fail!(IoError, "{file} cannot be written: {error}"),
    }
}

fn as_json() -> String {
    let rows = ROWS.iter().map(|row| {
        let about = json!({ "description": row.meaning, "default": row.default, "accepts": accepted(row) });
        (row.key.to_string(), about)
    });
    let object = serde_json::Value::Object(rows.collect());
    format!("{object:#}\n")
}

fn as_text() -> String {
    let mut out = String::new();
    for row in ROWS {
        let _ = writeln!(out, "{}: {} (default {}; accepts {})", row.key, row.meaning, row.default, accepted(row));
    }
    out
}
