//! What can be asked without a context: the version, and the name and meaning of a status.

use super::boundary::{Out, guard};
use super::terrace_status;
use crate::error::STATUSES;
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// The version of the library that is loaded; compare it with `TERRACE_VERSION_MAJOR` and its siblings, which are those of the header.
///
/// - `major`, `minor`, `patch`: host, written; each may be NULL.
///
/// Does not fail. May be called from any thread at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_version(major: *mut i32, minor: *mut i32, patch: *mut i32) -> terrace_status {
    guard(None, || {
        let parts = [
            (major, env!("CARGO_PKG_VERSION_MAJOR")),
            (minor, env!("CARGO_PKG_VERSION_MINOR")),
            (patch, env!("CARGO_PKG_VERSION_PATCH")),
        ];
        for (out, text) in parts {
            // SAFETY: null or valid for a write, as the documentation asks.
            unsafe { Out::optional(out).set(text.parse().unwrap_or(0)) };
        }
        Ok(())
    })
}

/// The name of a status, like "TERRACE_ERROR_NULL_ARGUMENT".
///
/// Returns a static text, never NULL; "TERRACE_ERROR_UNKNOWN" for a number that is no status. Do not free it. May be called from any
/// thread at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_status_name(status: terrace_status) -> *const c_char {
    texts(status).map_or(c"TERRACE_ERROR_UNKNOWN", |row| &row.name).as_ptr()
}

/// What a status means in general; the details of a failure are in `terrace_last_error`.
///
/// Returns a static text, never NULL. Do not free it. May be called from any thread at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_status_sentence(status: terrace_status) -> *const c_char {
    texts(status).map_or(c"no status has this number", |row| &row.sentence).as_ptr()
}

struct Texts {
    code: i32,
    name: CString,
    sentence: CString,
}

/// The status table with the NUL that C needs.
fn texts(status: terrace_status) -> Option<&'static Texts> {
    static TEXTS: OnceLock<Vec<Texts>> = OnceLock::new();
    let rows = TEXTS.get_or_init(|| {
        let terminated = |s: &str| CString::new(s).unwrap_or_default();
        STATUSES
            .iter()
            .map(|row| Texts { code: row.code, name: terminated(row.name), sentence: terminated(row.sentence) })
            .collect()
    });
    rows.iter().find(|row| row.code == status)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn name(status: i32) -> &'static str {
        // SAFETY: the function returns a static NUL-terminated text.
        unsafe { CStr::from_ptr(terrace_status_name(status)) }.to_str().unwrap()
    }

    #[test]
    fn every_status_has_a_name_and_a_sentence() {
        for row in STATUSES {
            assert_eq!(name(row.code), row.name);
            // SAFETY: as above.
            let sentence = unsafe { CStr::from_ptr(terrace_status_sentence(row.code)) };
            assert_eq!(sentence.to_str().unwrap(), row.sentence);
        }
        assert_eq!(name(12345), "TERRACE_ERROR_UNKNOWN");
        // SAFETY: as above.
        assert!(!unsafe { CStr::from_ptr(terrace_status_sentence(12345)) }.is_empty());
    }

    #[test]
    fn the_version_is_that_of_the_package() {
        let (mut major, mut minor, mut patch) = (-1, -1, -1);
        // SAFETY: pointers to locals and null.
        unsafe {
            assert_eq!(terrace_version(&mut major, &mut minor, &mut patch), 0);
            assert_eq!(terrace_version(std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut()), 0);
        }
        assert_eq!(format!("{major}.{minor}.{patch}"), env!("CARGO_PKG_VERSION"));
    }
}
