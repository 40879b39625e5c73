//! Reads configurations: JSON with nested solvers, and lists of `scope:key(scope of the solver)=value`.

use super::{DEFAULT, Parameters, TERRACE, Value};
use crate::boundary::{Result, fail};
use serde_json::{Map, Value as Json};

/// Adds what a text says: JSON if it begins like that, otherwise a list.
pub fn add(parameters: &mut Parameters, text: &str) -> Result<()> {
    if !text.trim_start().starts_with('{') {
        return add_list(parameters, text);
    }
    let json: Json = match serde_json::from_str(text) {
        Ok(json) => json,
        Err(error) => return fail!(BadConfiguration, "the configuration is not JSON: {error}"),
    };
    let Json::Object(mut map) = json else { return fail!(BadConfiguration, "the configuration is no JSON object") };
    if let Some(options) = map.remove(TERRACE) {
        add_terrace(parameters, "", &options)?;
    }
    add_object(parameters, &map, DEFAULT, true)
}

fn add_object(parameters: &mut Parameters, map: &Map<String, Json>, scope: &str, is_outermost: bool) -> Result<()> {
    for (key, value) in map {
        match (key.as_str(), value) {
            ("config_version", version) => check_version(&version.to_string())?,
            ("scope", Json::String(_)) => {}
            // The name of the solver that the object is about was set with the object.
            ("solver", Json::String(_)) if !is_outermost => {}
            (_, Json::Object(solver)) => {
                let Some(Json::String(name)) = solver.get("solver") else {
                    return fail!(BadConfiguration, "the object \"{key}\" does not name its \"solver\"");
                };
                let own = match solver.get("scope") {
                    Some(Json::String(own)) => own.clone(),
                    Some(_) => return fail!(BadConfiguration, "the \"scope\" in \"{key}\" is no text"),
                    None => format!("{scope}_sub_{key}"),
                };
                parameters.set(scope, key, Value { text: name.clone(), scope: Some(own.clone()) })?;
                add_object(parameters, solver, &own, false)?;
            }
            (_, Json::String(text)) => parameters.set(scope, key, Value { text: text.clone(), scope: None })?,
            (_, Json::Number(number)) => parameters.set(scope, key, Value { text: number.to_string(), scope: None })?,
            (_, Json::Bool(flag)) => {
                parameters.set(scope, key, Value { text: u8::from(*flag).to_string(), scope: None })?;
            }
            _ => return fail!(BadConfiguration, "\"{key}\" is neither a number, a text nor a solver"),
        }
    }
    Ok(())
}

/// Options of Terrace, nested or dotted; they are checked when a solver is made.
fn add_terrace(parameters: &mut Parameters, prefix: &str, json: &Json) -> Result<()> {
    let value = match json {
        Json::Object(map) => {
            for (key, value) in map {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                add_terrace(parameters, &key, value)?;
            }
            return Ok(());
        }
        Json::Array(list) => {
            let entries = list.iter().map(|entry| entry.as_str().map_or_else(|| entry.to_string(), str::to_string));
            entries.collect::<Vec<_>>().join(",")
        }
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    if prefix.is_empty() {
        return fail!(BadConfiguration, "\"{TERRACE}\" is no object of options");
    }
    parameters.terrace.push((prefix.to_string(), value));
    Ok(())
}

fn check_version(version: &str) -> Result<()> {
    match version {
        "1" | "2" => Ok(()),
        _ => fail!(BadConfiguration, "config_version is {version}; accepted: 1, 2"),
    }
}

/// Entries between commas, semicolons and line ends; from # on to the end of the line is a comment.
fn add_list(parameters: &mut Parameters, text: &str) -> Result<()> {
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        for entry in line.split([',', ';']).map(str::trim).filter(|entry| !entry.is_empty()) {
            add_entry(parameters, entry)?;
        }
    }
    Ok(())
}

fn add_entry(parameters: &mut Parameters, entry: &str) -> Result<()> {
    let Some((name, value)) = entry.split_once('=') else {
        return fail!(BadConfiguration, "\"{entry}\" has no =; entries are scope:key(scope of the solver)=value");
    };
    let (name, value) = (name.trim(), value.trim());
    let (scope, name) = match name.split_once(':') {
        Some((scope, name)) => (scope.trim(), name.trim()),
        None => (DEFAULT, name),
    };
    let (key, own) = match name.split_once('(') {
        None => (name, None),
        Some((key, rest)) => match rest.trim_end().strip_suffix(')') {
            Some(own) => (key.trim(), Some(own.trim())),
            None => return fail!(BadConfiguration, "\"{entry}\" has a ( without )"),
        },
    };
    if [scope, key, value].contains(&"") || own == Some("") {
        return fail!(
            BadConfiguration,
            "\"{entry}\" has an empty part; entries are scope:key(scope of the solver)=value"
        );
    }
    if key == "config_version" {
        return check_version(value);
    }
    if scope == TERRACE {
        parameters.terrace.push((key.to_string(), value.to_string()));
        return Ok(());
    }
    parameters.set(scope, key, Value { text: value.to_string(), scope: own.map(str::to_string) })
}
