//! `terrace info`: what this build is and what the machine offers it.

use crate::Outcome;
use crate::emit::emit;
use clap::Args;
use serde_json::{Map, Value as Json};
use std::fmt::Write;
use terrace::{Context, Error, Result, Status};

/// Print version, threads, SIMD instruction sets and devices
#[derive(Args)]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let facts = terrace::info::to_json(&Context::new("host")?);
    emit(&if arguments.json { format!("{facts}\n") } else { to_text(&facts)? })?;
    Ok(Outcome::Done)
}

fn to_text(facts: &str) -> Result<String> {
    let facts: Map<String, Json> = serde_json::from_str(facts)
        .map_err(|error| Error::new(Status::Internal, format!("the description is not a JSON object: {error}")))?;
    let plain = |value: &Json| match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut out = String::from("terrace\n");
    for (key, value) in &facts {
        let text = match value {
            Json::Array(items) if items.is_empty() => "none".to_string(),
            Json::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
            other => plain(other),
        };
        let _ = writeln!(out, "  {key:<14}{text}");
    }
    Ok(out)
}
