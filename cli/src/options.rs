//! `terrace options`: the options reference.

use crate::Outcome;
use crate::emit::emit;
use clap::Args;
use std::fmt::Write;
use terrace::Result;
use terrace::options::{self, OPTIONS};
use terrace::presets::{self, PRESETS};

/// Columns of a line.
const WIDTH: usize = 100;

/// Print every option with what it accepts, its default and why, or the presets
#[derive(Args)]
pub struct Arguments {
    /// Print the Markdown page of the documentation
    #[arg(long)]
    markdown: bool,

    /// Print the presets, which are named sets of options for kinds of problems
    #[arg(long)]
    presets: bool,

    /// Only options whose key contains this text
    #[arg(value_name = "TEXT", conflicts_with_all = ["markdown", "presets"])]
    filter: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let filter = arguments.filter.as_deref().unwrap_or("");
    emit(&match (arguments.presets, arguments.markdown) {
        (false, false) => to_text(filter),
        (false, true) => options::reference(),
        (true, false) => presets_to_text(),
        (true, true) => presets::reference(),
    })?;
    Ok(Outcome::Done)
}

fn to_text(filter: &str) -> String {
    let rows: Vec<_> = OPTIONS.iter().filter(|row| row.key.contains(filter)).collect();
    if rows.is_empty() {
        return format!("no key contains \"{filter}\"\n");
    }
    let mut out = String::new();
    for row in rows {
        let _ = writeln!(out, "{} = {}", row.key, row.default);
        paragraph(&mut out, "accepts  ", &row.kind.accepted());
        paragraph(&mut out, "meaning  ", row.help);
        paragraph(&mut out, "default  ", row.reason);
        let peers: Vec<String> = [("hypre", row.hypre), ("AmgX", row.amgx)]
            .iter()
            .filter(|(_, name)| *name != "-")
            .map(|(library, name)| format!("{library} {name}"))
            .collect();
        if !peers.is_empty() {
            paragraph(&mut out, "same as  ", &peers.join(", "));
        }
        out.push('\n');
    }
    out
}

fn presets_to_text() -> String {
    let mut out = String::new();
    for preset in PRESETS {
        let _ = writeln!(out, "{}", preset.name);
        paragraph(&mut out, "for      ", preset.purpose);
        paragraph(&mut out, "because  ", preset.reason);
        for (i, (key, value)) in preset.options.iter().enumerate() {
            paragraph(&mut out, if i == 0 { "sets     " } else { "         " }, &format!("{key}={value}"));
        }
        out.push('\n');
    }
    out
}

/// A label and text that is broken between words, later lines aligned under the text.
fn paragraph(out: &mut String, label: &str, text: &str) {
    let indent = 4 + label.len();
    let _ = write!(out, "    {label}");
    let mut column = indent;
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 && column + 1 + word.len() > WIDTH {
            let _ = write!(out, "\n{:indent$}", "");
            column = indent;
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_appears_and_no_line_is_too_long() {
        let text = to_text("");
        for row in OPTIONS {
            assert!(text.contains(&format!("{} = {}", row.key, row.default)));
        }
        assert!(text.lines().chain(presets_to_text().lines()).all(|line| line.len() <= WIDTH));
        assert!(to_text("nothing like it").starts_with("no key"));
    }
}
