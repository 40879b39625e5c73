//! Reports as JSON and as a summary for people.

use super::{FACTS, Fact, Report, Scope};
use crate::comm::Spread;
use crate::error::Status;
use crate::gpu::Usage;
use crate::scalar::Precision;
use serde_json::Value as Json;
use std::fmt::{self, Write};

impl Report {
    /// All facts and histories as one JSON object.
    pub fn to_json(&self) -> String {
        text_of(|out| self.write_json(out))
    }

    /// Writes [`Report::to_json`]. It allocates for one fact at a time, so that texts of any length need no memory.
    pub fn write_json(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_char('{')?;
        self.write_facts(out, Scope::Whole, 0)?;
        out.write_str(",\"level\":[")?;
        for i in 0..self.levels.len() {
            out.write_str(if i == 0 { "{" } else { ",{" })?;
            self.write_facts(out, Scope::Level, i)?;
            out.write_char('}')?;
        }
        out.write_str("],\"right_hand_side\":[")?;
        for (i, solve) in self.solves.iter().enumerate() {
            out.write_str(if i == 0 { "{" } else { ",{" })?;
            self.write_facts(out, Scope::RightHandSide, i)?;
            out.write_str(",\"history\":[")?;
            for (k, norm) in solve.history.iter().enumerate() {
                write!(out, "{}{}", if k == 0 { "" } else { "," }, Json::from(*norm))?;
            }
            out.write_str("]}")?;
        }
        out.write_str("]}")
    }

    /// Writes the facts of a scope as members of an object.
    fn write_facts(&self, out: &mut dyn Write, scope: Scope, index: usize) -> fmt::Result {
        for (i, row) in FACTS.iter().filter(|row| row.scope == scope).enumerate() {
            let value = match (row.get)(self, index) {
                Fact::Int(v) => Json::from(v),
                Fact::Real(v) => Json::from(v),
                Fact::Text(v) => Json::from(v),
            };
            write!(out, "{}\"{}\":{value}", if i == 0 { "" } else { "," }, row.key)?;
        }
        Ok(())
    }

    /// A summary for people: levels, complexities, iterations, times.
    pub fn to_text(&self) -> String {
        text_of(|out| self.write_text(out))
    }

    /// Writes [`Report::to_text`], with memory for a line at a time.
    pub fn write_text(&self, out: &mut dyn Write) -> fmt::Result {
        if !self.levels.is_empty() {
            writeln!(
                out,
                "{:>5} {:>12} {:>14} {:>9} {:>7} {:>22} {:>10} {:>7}  smoother",
                "level", "rows", "nonzeros", "per row", "format", "precision A/v/P/S", "MiB", "sweeps"
            )?;
        }
        for (i, l) in self.levels.iter().enumerate() {
            let precision = [l.matrix_precision, l.vector_precision, l.transfer_precision, l.smoother_precision];
            writeln!(
                out,
                "{:>5} {:>12} {:>14} {:>9.1} {:>7} {:>22} {:>10.2} {:>7}  {}",
                i,
                l.rows,
                l.nonzeros,
                l.nonzeros as f64 / l.rows.max(1) as f64,
                l.format,
                precision.map(Precision::name).join("/"),
                mebibytes(l.bytes),
                format!("{}+{}", l.pre_sweeps, l.post_sweeps),
                l.smoother
            )?;
        }
        if !self.levels.is_empty() {
            writeln!(
                out,
                "operator complexity {:.3}, grid complexity {:.3}",
                self.operator_complexity(),
                self.grid_complexity()
            )?;
        }
        if !self.setup_choice.is_empty() {
            writeln!(out, "auto: {}", self.setup_choice)?;
        }
        for (i, l) in self.levels.iter().enumerate().filter(|(_, l)| !l.precision_reason.is_empty()) {
            writeln!(out, "level {i}: {}", l.precision_reason)?;
        }
        if let Some(reordering) = &self.reordering {
            writeln!(out, "{}", reordering.to_text())?;
        }
        if let Some(fsai) = &self.fsai {
            writeln!(out, "FSAI: {}", fsai.to_text())?;
        }
        if let Some(factorisation) = &self.factorisation {
            writeln!(out, "{}", factorisation.to_text())?;
        }
        for line in &self.promotions {
            writeln!(out, "{line}")?;
        }
        if self.update_anew {
            writeln!(out, "the last update set up anew from level {} on", self.update_kept_levels)?;
        }
        for (i, s) in self.solves.iter().enumerate() {
            let method = self.method(i);
            writeln!(
                out,
                "{} right-hand side {i}: {} iterations, {}, true relative residual {:.3e}",
                if self.solver.starts_with(&method) { &self.solver } else { &method },
                s.iterations,
                match s.status {
                    Status::Success => "converged",
                    Status::NotConverged => "not converged",
                    Status::Stagnated => "stagnated",
                    Status::Diverged => "diverged",
                    Status::NotAttempted => "not attempted",
                    Status::Stopped => "stopped by the monitor",
                    _ => "failed",
                },
                s.true_residual
            )?;
        }
        write!(out, "set-up {:.4} s", self.setup.get("total"))?;
        if !self.solves.is_empty() {
            write!(out, ", solve {:.4} s", self.solve.get("total"))?;
        }
        writeln!(out, ", {:.2} MiB, {} with {} threads", mebibytes(self.bytes), self.device, self.threads)?;
        if let Some(ranks) = &self.ranks {
            let told = |what: &str, of: &Spread| format!("{what} {} to {}, mean {:.0}", of.min, of.max, of.mean);
            writeln!(
                out,
                "{} ranks: {}; {}; {}; {}; {}",
                ranks.count,
                told("rows", &ranks.rows),
                told("nonzeros", &ranks.nonzeros),
                told("halo", &ranks.halo),
                told("neighbours", &ranks.neighbours),
                told("bytes", &ranks.bytes)
            )?;
        }
        let Usage { used, peak, .. } = self.device_memory;
        if peak > 0 {
            let (used, peak) = (mebibytes(used), mebibytes(peak));
            writeln!(out, "device memory of the context: {used:.2} MiB, at most {peak:.2} MiB")?;
        }
        Ok(())
    }
}

/// What is written, as a text.
fn text_of(write: impl FnOnce(&mut dyn Write) -> fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("a text takes everything");
    text
}

fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
