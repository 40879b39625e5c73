//! `AMGX_config_handle`: parameters by scope and key, from JSON or from `key=value` texts.

mod amg;
mod describe;
pub mod keys;
mod parse;
mod plan;
mod smoother;

pub use plan::{Norm, Plan};

use crate::boundary::{Result, call, end_process_on_failure, fail, required, text, write};
use crate::handles::{self, lock};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

/// The scope of keys that name none.
pub const DEFAULT: &str = "default";

/// The scope of Terrace's own options.
pub const TERRACE: &str = "terrace";

/// A value with the scope of the solver that it names, if it has one of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub text: String,
    pub scope: Option<String>,
}

/// What was set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// By scope and key.
    values: BTreeMap<(String, String), Value>,
    /// Options of Terrace, in the order in which they were set.
    terrace: Vec<(String, String)>,
}

impl Parameters {
    /// What was set in a scope.
    pub fn get(&self, scope: &str, key: &str) -> Option<&Value> {
        self.values.get(&(scope.to_string(), key.to_string()))
    }

    /// What was set without a scope, or the default.
    pub fn general(&self, key: &str) -> &str {
        let set = self.get(DEFAULT, key).map(|value| value.text.as_str());
        set.or_else(|| keys::find(key).map(|row| row.default)).unwrap_or("")
    }

    /// Sets a value after checking it against the table of keys.
    fn set(&mut self, scope: &str, key: &str, value: Value) -> Result<()> {
        let (key, mut value) = keys::checked(key, value)?;
        value.scope = value.scope.filter(|scope| scope != DEFAULT);
        if value.scope.is_some() && !keys::names_solver(key) {
            return fail!(
                BadConfiguration,
                "\"{key}\" is given a scope, \"{}\", which only solvers have: {}",
                value.scope.unwrap_or_default(),
                keys::SOLVER_KEYS.join(", ")
            );
        }
        self.values.insert((scope.to_string(), key.to_string()), value);
        Ok(())
    }

    /// All of it as text, for `print_config`.
    pub fn to_text(&self) -> String {
        let mut out = String::from("AMG configuration, scope:key(scope of the solver)=value:\n");
        for ((scope, key), value) in &self.values {
            let own = value.scope.as_ref().map_or(String::new(), |scope| format!("({scope})"));
            out += &format!("    {scope}:{key}{own}={}\n", value.text);
        }
        for (key, value) in &self.terrace {
            out += &format!("    {TERRACE}:{key}={value}\n");
        }
        out
    }
}

/// A configuration. Solvers look at it again when they are set up or solve, so that a change reaches them.
pub struct Config {
    parameters: Mutex<Parameters>,
}

impl Config {
    /// What is set now.
    pub fn parameters(&self) -> Parameters {
        lock(&self.parameters).clone()
    }

    /// Adds all of a text, or nothing.
    fn add(&self, options: &str) -> Result<()> {
        let mut state = lock(&self.parameters);
        let mut changed = state.clone();
        parse::add(&mut changed, options)?;
        if changed.general("exception_handling") == "1" {
            end_process_on_failure();
        }
        *state = changed;
        Ok(())
    }
}

fn make(texts: &[&str]) -> Result<*mut c_void> {
    let config = Config { parameters: Mutex::default() };
    for text in texts {
        config.add(text)?;
    }
    Ok(handles::insert(config))
}

fn read(file: &str) -> Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) => fail!(IoError, "the configuration {file} cannot be read: {error}"),
    }
}

/// Makes a configuration from a text; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_config_create(cfg: *mut *mut c_void, options: *const c_char) -> c_int {
    call(|| {
        required(cfg, "cfg")?;
        // SAFETY: null or texts, and a place for the result, as the header asks.
        unsafe {
            let options = if options.is_null() { "" } else { text(options, "options")? };
            write(cfg, "cfg", make(&[options])?)
        }
    })
}

/// Makes a configuration from a file; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_config_create_from_file(cfg: *mut *mut c_void, param_file: *const c_char) -> c_int {
    call(|| {
        required(cfg, "cfg")?;
        // SAFETY: as above.
        unsafe { write(cfg, "cfg", make(&[&read(text(param_file, "param_file")?)?])?) }
    })
}

/// Makes a configuration from a file, and a text that wins over it; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_config_create_from_file_and_string(
    cfg: *mut *mut c_void,
    param_file: *const c_char,
    options: *const c_char,
) -> c_int {
    call(|| {
        required(cfg, "cfg")?;
        // SAFETY: as above.
        unsafe {
            let file = read(text(param_file, "param_file")?)?;
            write(cfg, "cfg", make(&[&file, text(options, "options")?])?)
        }
    })
}

/// Adds to a configuration; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_config_add_parameters(cfg: *mut *mut c_void, options: *const c_char) -> c_int {
    call(|| {
        required(cfg, "cfg")?;
        // SAFETY: a pointer to a handle, and a text, as the header asks.
        let (handle, options) = unsafe { (*cfg, text(options, "options")?) };
        handles::get::<Config>(handle, "*cfg")?.add(options)
    })
}

/// How many rings of neighbours a distributed matrix of this configuration needs; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_config_get_default_number_of_rings(
    cfg: *mut c_void,
    num_import_rings: *mut c_int,
) -> c_int {
    call(|| {
        let parameters = handles::get::<Config>(cfg, "cfg")?.parameters();
        let rings = if plan::is_classical(&parameters) { 2 } else { 1 };
        // SAFETY: null or valid for a write, as the header asks.
        unsafe { write(num_import_rings, "num_import_rings", rings) }
    })
}

/// Ends the handle; solvers keep the configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_config_destroy(cfg: *mut c_void) -> c_int {
    call(|| handles::remove::<Config>(cfg, "cfg"))
}
