//! `terrace_config`: option values by key.

use super::boundary::{self, ContextState, Exclusive, Handle, call, out, text, text_out};
use super::types::{level_part, level_precision, terrace_level_part, terrace_type};
use super::{terrace_context, terrace_status};
use crate::config::Config;
use crate::error::fail;
use std::ffi::c_char;
use std::sync::Arc;

/// A set of option values; what was not set has its default. Keys, accepted values and defaults are in `docs/options.md` and printed by
/// `terrace options`. Solvers and hierarchies take a copy, so a change does not reach those that exist.
pub struct terrace_config {
    state: Arc<ContextState>,
    config: Exclusive<Config>,
}

impl terrace_config {
    /// The values now.
    pub(super) fn get(&self) -> crate::error::Result<Config> {
        Ok(self.config.enter("config")?.clone())
    }
}

impl Handle for terrace_config {
    fn state(&self) -> &ContextState {
        &self.state
    }
}

/// Makes a set of option values with all defaults.
///
/// - `context`: not NULL; receives the sentences of errors of the calls with `config`.
/// - `config`: host, written on success; destroy it with `terrace_config_destroy`.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_create(
    context: *mut terrace_context,
    config: *mut *mut terrace_config,
) -> terrace_status {
    call!(context, |context| {
        let out = out!(config);
        let config = terrace_config { state: Arc::clone(&context.state), config: Exclusive::new(Config::new()) };
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(config))) };
        Ok(())
    })
}

/// Destroys a set of option values.
///
/// - `config`: NULL is fine.
///
/// Does not fail. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_destroy(config: *mut terrace_config) -> terrace_status {
    // SAFETY: made by `terrace_config_create`, and not used again as the documentation asks.
    unsafe { boundary::destroy(config) }
}

/// Sets any option from text, written as in the reference: numbers, names and lists.
///
/// - `config`: not NULL.
/// - `key`, `value`: host, NUL-terminated.
///
/// Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION` (the sentence names the nearest
/// key), `TERRACE_ERROR_OPTION_VALUE` (it names what is accepted). What a device cannot do is refused at set-up. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_set_str(
    config: *mut terrace_config,
    key: *const c_char,
    value: *const c_char,
) -> terrace_status {
    call!(config, |config| config.config.enter("config")?.set_str(text!(key), text!(value)))
}

/// Sets an option that accepts whole numbers or real numbers.
///
/// - `config`: not NULL.
/// - `key`: host, NUL-terminated.
/// - `value`: in the range of the option.
///
/// Failure, errors and threads: as `terrace_config_set_str`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_set_int(
    config: *mut terrace_config,
    key: *const c_char,
    value: i64,
) -> terrace_status {
    call!(config, |config| config.config.enter("config")?.set_int(text!(key), value))
}

/// Sets an option that accepts real numbers.
///
/// - `config`: not NULL.
/// - `key`: host, NUL-terminated.
/// - `value`: in the range of the option.
///
/// Failure, errors and threads: as `terrace_config_set_str`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_set_real(
    config: *mut terrace_config,
    key: *const c_char,
    value: f64,
) -> terrace_status {
    call!(config, |config| config.config.enter("config")?.set_real(text!(key), value))
}

/// Sets the entry of a level in one of the options "precision.matrix", "precision.vector", "precision.smoother" and "precision.transfer".
/// They are lists, whose last entry holds for all levels below, too: an entry below the last one named holds for its level and all below it,
/// and levels between get what was the last entry. An entry further up holds for its level alone.
///
/// - `config`: not NULL.
/// - `level`: 0 (the finest) to 63, or `TERRACE_LAST` for all levels below the last one named, for all levels where none was named.
/// - `part`: `TERRACE_LEVEL_MATRIX`, `TERRACE_LEVEL_VECTOR`, `TERRACE_LEVEL_SMOOTHER` or `TERRACE_LEVEL_TRANSFER`.
/// - `precision`: `TERRACE_F64`, `TERRACE_F32`, `TERRACE_F16`, `TERRACE_BF16`, `TERRACE_INPUT` for that of the matrix that is handed over, or
///   `TERRACE_AUTO` for what set-up finds good enough. Whether a level fits into it is found at set-up.
///
/// Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each
/// context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_set_level(
    config: *mut terrace_config,
    level: i32,
    part: terrace_level_part,
    precision: terrace_type,
) -> terrace_status {
    call!(config, |config| {
        let (part, precision) = (level_part(part)?, level_precision(precision)?);
        config.config.enter("config")?.set_level(level, part, precision)
    })
}

/// Sets the entries of a level in the options "amg.smoother.pre_sweeps" and "amg.smoother.post_sweeps", which are lists as those of
/// `terrace_config_set_level`.
///
/// - `config`: not NULL.
/// - `level`: as there.
/// - `pre`, `post`: sweeps before and after the coarse correction, 0 to 100.
///
/// Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (the level),
/// `TERRACE_ERROR_OPTION_VALUE` (the sweeps). One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_set_level_sweeps(
    config: *mut terrace_config,
    level: i32,
    pre: i32,
    post: i32,
) -> terrace_status {
    call!(config, |config| config.config.enter("config")?.set_level_sweeps(level, pre, post))
}

/// Sets every option of a JSON object. Keys may be dotted or nested: {"solver.tolerance": 1e-6} or {"solver": {"tolerance": 1e-6}}; an
/// option that is there both ways is refused. Lists may be arrays: {"precision.matrix": ["f64", "f32"]}. The key "preset" names a preset,
/// which is loaded before the rest.
///
/// - `config`: not NULL.
/// - `json`: the text itself, host, NUL-terminated.
///
/// Nothing is changed when any of it is refused. Errors: those of `terrace_config_set_str`, and `TERRACE_ERROR_PARSE`. One thread at a
/// time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_load_json(config: *mut terrace_config, json: *const c_char) -> terrace_status {
    call!(config, |config| config.config.enter("config")?.load_json(text!(json)))
}

/// Sets every option of a preset: a named set of values for a kind of problem, see `docs/presets.md` and `terrace options --presets`. Options
/// that it does not name keep their values; what is set afterwards wins.
///
/// - `config`: not NULL.
/// - `name`: like "poisson" or "elasticity"; host, NUL-terminated.
///
/// Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_OPTION_VALUE` (the sentence lists the names). One
/// thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_load_preset(
    config: *mut terrace_config,
    name: *const c_char,
) -> terrace_status {
    call!(config, |config| config.config.enter("config")?.load_preset(text!(name)))
}

/// The values that were set, as one JSON object that `terrace_config_load_json` reads back.
///
/// - `config`: not NULL.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_to_json(
    config: *const terrace_config,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    call!(config, |config| {
        let json = config.config.enter("config")?.to_json();
        // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
        unsafe { text_out(&json, buf, len, needed) }
    })
}

/// The value of an option as text: what was set, or its default.
///
/// - `config`: not NULL.
/// - `key`: host, NUL-terminated.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_get_str(
    config: *const terrace_config,
    key: *const c_char,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    call!(config, |config| {
        let value = config.config.enter("config")?.get(text!(key))?;
        // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
        unsafe { text_out(&value, buf, len, needed) }
    })
}

/// The value of an option that is a whole number: what was set, or its default.
///
/// - `config`: not NULL.
/// - `key`: host, NUL-terminated.
/// - `value`: host, written on success.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION`, `TERRACE_ERROR_OPTION_VALUE` (the value is no whole number).
/// One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_get_int(
    config: *const terrace_config,
    key: *const c_char,
    value: *mut i64,
) -> terrace_status {
    call!(config, |config| {
        let (key, out) = (text!(key), out!(value));
        let number = number(key, &config.config.enter("config")?.get(key)?, "a whole number")?;
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(number) };
        Ok(())
    })
}

/// The value of an option that is a number: what was set, or its default.
///
/// - `config`: not NULL.
/// - `key`: host, NUL-terminated.
/// - `value`: host, written on success.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (text that is not UTF-8), `TERRACE_ERROR_UNKNOWN_OPTION`, `TERRACE_ERROR_OPTION_VALUE` (the value is no number, such as
/// "auto"). One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_config_get_real(
    config: *const terrace_config,
    key: *const c_char,
    value: *mut f64,
) -> terrace_status {
    call!(config, |config| {
        let (key, out) = (text!(key), out!(value));
        let number = number(key, &config.config.enter("config")?.get(key)?, "a number")?;
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(number) };
        Ok(())
    })
}

fn number<T: std::str::FromStr>(key: &str, value: &str, wanted: &str) -> crate::error::Result<T> {
    match value.parse() {
        Ok(number) => Ok(number),
        Err(_) => fail!(
            OptionValue,
            "option \"{key}\" is \"{value}\", which is not {wanted}: terrace_config_get_str reads it"
        ),
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::testing::*;
    use super::super::*;
    use super::*;
    use crate::error::Status;
    use std::ptr::{null, null_mut};

    #[test]
    fn options_are_set_by_type_and_read_back_as_json() {
        let context = TestContext::new();
        let mut config = null_mut();
        assert_eq!(abi!(terrace_config_create(context.0, &mut config)), 0);
        let json = || text_of(|buf, len, needed| abi!(terrace_config_to_json(config, buf, len, needed)));

        assert_eq!(json(), "{}");
        assert_eq!(abi!(terrace_config_set_str(config, c"solver.type".as_ptr(), c"fcg".as_ptr())), 0);
        assert_eq!(abi!(terrace_config_set_int(config, c"solver.max_iterations".as_ptr(), 7)), 0);
        assert_eq!(abi!(terrace_config_set_real(config, c"solver.tolerance".as_ptr(), 0.5)), 0);
        assert_eq!(abi!(terrace_config_set_level(config, 0, TERRACE_LEVEL_MATRIX, TERRACE_F64)), 0);
        assert_eq!(abi!(terrace_config_set_level(config, TERRACE_LAST, TERRACE_LEVEL_MATRIX, TERRACE_F32)), 0);
        assert_eq!(abi!(terrace_config_set_level_sweeps(config, 1, 2, 3)), 0);
        let set = json();
        assert!(
            set.contains(r#""amg.smoother.pre_sweeps":"1,2""#) && set.contains(r#""amg.smoother.post_sweeps":"1,3""#)
        );
        for part in [r#""solver.type":"fcg""#, r#""solver.max_iterations":7"#, r#""precision.matrix":"f64,f32""#] {
            assert!(set.contains(part), "{set}");
        }

        let unknown = abi!(terrace_config_set_int(config, c"solver.max_iteration".as_ptr(), 7));
        assert_eq!(unknown, Status::UnknownOption.code());
        assert!(context.last_error().contains("solver.max_iterations"));
        let bad_json = abi!(terrace_config_load_json(config, c"{\"solver.restart\": 5, \"x\": 1}".as_ptr()));
        assert_eq!(bad_json, Status::UnknownOption.code());
        assert_eq!(abi!(terrace_config_load_json(config, c"[".as_ptr())), Status::Parse.code());
        let no_preset = abi!(terrace_config_load_preset(config, c"laplace".as_ptr()));
        assert_eq!(no_preset, Status::OptionValue.code());
        assert!(context.last_error().contains("poisson, elasticity"), "{}", context.last_error());
        let i32 = abi!(terrace_config_set_level(config, 0, TERRACE_LEVEL_VECTOR, TERRACE_I32));
        assert_eq!(i32, Status::InvalidArgument.code());
        assert_eq!(abi!(terrace_config_set_level_sweeps(config, -2, 1, 1)), Status::InvalidArgument.code());
        assert_eq!(abi!(terrace_config_set_level_sweeps(config, 0, 1, -1)), Status::OptionValue.code());
        assert!(context.last_error().contains("0 to 100"));
        assert_eq!(abi!(terrace_config_set_str(config, null(), c"1".as_ptr())), Status::NullArgument.code());
        assert_eq!(context.last_error(), "key is null");
        let latin1 = c"s\xe9".as_ptr();
        assert_eq!(abi!(terrace_config_set_str(config, latin1, c"1".as_ptr())), Status::InvalidArgument.code());
        assert_eq!(context.last_error(), "key is not UTF-8 after byte 1");
        assert_eq!(json(), set);
        assert_eq!(abi!(terrace_config_load_preset(config, c"singular".as_ptr())), 0);
        assert!(json().contains(r#""solver.null_space":"constant""#) && json().contains(r#""solver.type":"fcg""#));
        assert_eq!(abi!(terrace_config_destroy(config)), 0);
    }

    #[test]
    fn the_context_may_go_first() {
        let context = TestContext::new();
        let mut config = null_mut();
        assert_eq!(abi!(terrace_config_create(context.0, &mut config)), 0);
        drop(context);
        assert_eq!(abi!(terrace_config_set_int(config, c"nothing".as_ptr(), 0)), Status::UnknownOption.code());
        assert_eq!(abi!(terrace_config_destroy(config)), 0);
    }
}
