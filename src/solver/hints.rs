//! What a solve that failed says may help: nothing that its set-up refuses, nor what it has tried.

use super::Solver;
use crate::components::is_gauss_seidel;
use crate::config::Config;
use crate::preconditioner::Method;
use crate::presets;
use crate::report::{Factors, Hint, Remedies};

/// What the options and the matrix of a set-up allow to try. It is known at set-up, because a solve that ends at its limit allocates nothing.
#[derive(Clone, Copy)]
pub struct Advice {
    /// Whether the stopping test is on the norm of the residual itself, which methods for nonsymmetric matrices need.
    has_true_norm: bool,
    /// Whether the preset "difficult" may help.
    difficult: bool,
    /// Whether the preset "convection" may help.
    convection: bool,
    /// Whether `solver.type` may be direct.
    direct: bool,
    /// Whether `solver.null_space` may be set.
    pub null_space: bool,
}

impl Solver {
    /// For a set-up with or without a matrix, over ranks or not.
    pub(super) fn advice(&self, has_matrix: bool, is_over_ranks: bool) -> Advice {
        let config = &self.config;
        let is = |key: &str, value: &str| config.text(key) == value;
        let has_amg = self.method() == Some(Method::Amg);
        let is_plain = self.operator.is_none() && self.preconditioner.is_none() && self.preconditioner_matrix.is_none();
        let has_true_norm = is("solver.norm", "true");
        Advice {
            has_true_norm,
            difficult: has_amg && !has_preset(config, "difficult"),
            // Its sweeps need the rows of other ranks. `auto` has them already.
            convection: has_amg && !is_over_ranks && !is_gauss_seidel(&self.effective.text("amg.smoother.type")),
            direct: is_plain
                && has_matrix
                && !is_over_ranks
                && has_true_norm
                && is("solver.null_space", "none")
                && is("solver.relative_to", "right_hand_side"),
            null_space: !(is_over_ranks && self.context.gpu().is_some()),
        }
    }
}

/// Whether the components are those of a preset.
fn has_preset(config: &Config, name: &str) -> bool {
    let has = |(key, value): &(&str, &str)| !key.starts_with("amg.") || config.get(key).is_ok_and(|has| has == *value);
    presets::find(name).is_ok_and(|preset| preset.options.iter().all(has))
}

impl Advice {
    /// What may help where this method does not reach the tolerance; `iterations` tells whether more of them may.
    pub fn remedies(&self, method: &str, iterations: bool) -> Hint {
        let (preset, other) = match method {
            "cg" | "fcg" => (self.difficult.then_some("difficult"), None),
            "richardson" if self.has_true_norm => (None, Some("cg or gmres")),
            "richardson" => (None, Some("cg")),
            _ => (self.convection.then_some("convection"), None),
        };
        let factors = if self.direct { Factors::Offered } else { Factors::Unnamed };
        Hint::Try(Remedies { iterations, preset, method: other, factors })
    }

    /// What may help where this method diverges.
    pub fn of_divergence(&self, method: &str) -> Hint {
        match method {
            "cg" | "fcg" if self.has_true_norm => {
                Hint::Text("is the matrix symmetric and positive definite? Otherwise set solver.type to gmres")
            }
            "cg" | "fcg" => Hint::Text(
                "is the matrix symmetric and positive definite? Otherwise set solver.type to gmres and solver.norm to true",
            ),
            "richardson" if self.has_true_norm => {
                Hint::Text("the preconditioner alone does not converge: set solver.type to cg or gmres")
            }
            "richardson" => Hint::Text("the preconditioner alone does not converge: set solver.type to cg"),
            _ => self.remedies(method, false),
        }
    }
}
