//! The presets: named sets of option values for kinds of problems. The reference in `docs/presets.md`, the table in the README and
//! `terrace options --presets` are made from the one table here; [`crate::config::Config::load_preset`] sets the values.

use crate::config::Config;
use crate::error::{Result, excerpt, fail};
use serde_json::Value as Json;
use std::fmt::Write;

/// One preset.
pub struct Preset {
    /// Name, after the kind of problem or what is saved.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Why these values.
    pub reason: &'static str,
    /// Keys and values; everything else keeps what it has.
    pub options: &'static [(&'static str, &'static str)],
}

/// Every preset.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "poisson",
        purpose: "Scalar diffusion: Laplacians, jumping and anisotropic coefficients, on any grid or graph.",
        reason: "Classical AMG with Gauss-Seidel sweeps needs two thirds of the iterations of the default smoother.",
        options: &[
            ("amg.coarsening.type", "pmis"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.smoother.type", "any_gauss_seidel"),
        ],
    },
    Preset {
        name: "elasticity",
        purpose: "Displacements and other vector problems, given coordinates or near-null-space vectors.",
        reason: "Smoothed aggregation carries the rigid-body modes, and the Chebyshev smoother halves the iterations of Jacobi.",
        options: &[
            ("amg.coarsening.type", "mis2"),
            ("amg.interpolation.type", "smoothed"),
            ("amg.smoother.type", "chebyshev"),
        ],
    },
    Preset {
        name: "mechanics",
        purpose: "Displacements with jumps of the material, flat elements or nearly incompressible materials, given coordinates or near-null-space vectors.",
        reason: "A prolongator of least energy on the pattern of strong couplings interpolates neither across jumps nor along weak directions. In flat elements it takes up to a fifth fewer iterations than smoothed aggregation, with a quarter fewer entries in all levels. In elements of one material and shape `elasticity` takes as many iterations, and its set-up is shorter.",
        options: &[
            ("amg.coarsening.type", "mis2"),
            ("amg.interpolation.type", "energy"),
            ("amg.smoother.type", "chebyshev"),
        ],
    },
    Preset {
        name: "mechanics_robust",
        purpose: "The same where point smoothers are slow: shells, thin layers, Poisson's ratios near one half; also without near-null space.",
        reason: "A polynomial in a factorised sparse approximate inverse takes two thirds of the iterations of one in the diagonal, for a set-up that takes several times as long.",
        options: &[
            ("amg.coarsening.type", "mis2"),
            ("amg.interpolation.type", "energy"),
            ("amg.smoother.type", "chebyshev_fsai"),
        ],
    },
    Preset {
        name: "flow",
        purpose: "Pressure in porous media: permeabilities that jump, vary at random or have a direction.",
        reason: "Classical AMG follows strong couplings; a polynomial in the diagonal takes as many iterations as Gauss-Seidel, and is the same on all backends.",
        options: &[
            ("amg.coarsening.type", "pmis"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.smoother.type", "chebyshev"),
        ],
    },
    Preset {
        name: "flow_robust",
        purpose: "The same for permeabilities of many orders of magnitude, or directions that no axis has.",
        reason: "A factorised sparse approximate inverse as smoother takes a fifth fewer iterations, for a set-up that takes twice as long.",
        options: &[
            ("amg.coarsening.type", "pmis"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.smoother.type", "fsai"),
        ],
    },
    Preset {
        name: "aggregation",
        purpose: "Scalar diffusion with little memory and a short set-up.",
        reason: "Plain aggregates of about 8 keep operator complexity under 1.3; the K-cycle makes up for their coarse interpolation.",
        options: &[
            ("amg.coarsening.type", "pairwise"),
            ("amg.interpolation.type", "tentative"),
            ("amg.smoother.type", "any_gauss_seidel"),
            ("amg.cycle.type", "k"),
        ],
    },
    Preset {
        name: "mixed_precision",
        purpose: "Less memory: transfers and coarse levels in f32. The finest level is the matrix itself.",
        reason: "A preconditioner needs a few digits only; residuals and solution keep the precision of the matrix. An f32 copy of the finest matrix, as `precision` `single` makes, is faster and takes more memory than it saves on many problems. fgmres, which f32 levels need, keeps two bases, so that restarts come twice as often as with gmres.",
        options: &[
            ("precision.matrix", "input,f32"),
            ("precision.vector", "input,f32"),
            ("precision.transfer", "f32"),
            ("precision.smoother", "input,f32"),
            ("solver.restart", "15"),
        ],
    },
    Preset {
        name: "convection",
        purpose: "Nonsymmetric matrices: convection-diffusion, reservoir pressure, circuits.",
        reason: "GMRES needs no symmetry; Gauss-Seidel sweeps follow the flow where Jacobi stalls; restarts every 100 lose little.",
        options: &[
            ("amg.coarsening.type", "pmis"),
            ("amg.interpolation.type", "extended_i"),
            ("amg.smoother.type", "any_gauss_seidel"),
            ("solver.type", "auto"),
            ("solver.restart", "100"),
        ],
    },
    Preset {
        name: "difficult",
        purpose: "Symmetric positive definite matrices that are badly conditioned for AMG: shells, beams, high order, without near-null space.",
        reason: "A polynomial of degree 8 over a wide interval damps what coarsening misses, and many iterations are allowed.",
        options: &[
            ("amg.smoother.type", "chebyshev"),
            ("amg.smoother.chebyshev.degree", "8"),
            ("amg.smoother.chebyshev.eigenvalue_ratio", "30"),
            ("solver.max_iterations", "5000"),
        ],
    },
    Preset {
        name: "edge_elements",
        purpose: "Curl-curl matrices of edge elements, of moderate size.",
        reason: "Coarsening made for nodes meets the gradients in the near-null space and does more harm than good: this is a polynomial preconditioner alone, whose iterations grow with the grid. Up to 2000 rows are factorised.",
        options: &[
            ("amg.max_levels", "1"),
            ("amg.coarsest.sweeps", "1"),
            ("amg.smoother.type", "chebyshev"),
            ("amg.smoother.chebyshev.degree", "8"),
            ("amg.smoother.chebyshev.eigenvalue_ratio", "100"),
            ("solver.max_iterations", "5000"),
        ],
    },
    Preset {
        name: "singular",
        purpose: "Symmetric matrices that map the constant vector to zero: pure Neumann problems, graph Laplacians.",
        reason: "What the right-hand side has along the constant vector cannot be met; it is removed, and the solution has mean zero.",
        options: &[("solver.null_space", "constant")],
    },
];

/// The preset of a name.
pub fn find(name: &str) -> Result<&'static Preset> {
    match PRESETS.iter().find(|preset| preset.name == name) {
        Some(preset) => Ok(preset),
        None => fail!(OptionValue, "no preset is called {:?}; accepted: {}", excerpt(name), names().join(", ")),
    }
}

/// The names, in the order of the table.
pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

/// Appends a paragraph in lines of at most 120 characters.
fn wrap(out: &mut String, paragraph: &str) {
    let mut length = 0;
    for word in paragraph.split_whitespace() {
        let characters = word.chars().count();
        if length > 0 && length + 1 + characters > 120 {
            out.push('\n');
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += characters;
    }
    out.push('\n');
}

/// The reference as a Markdown page.
pub fn reference() -> String {
    let mut out = String::from("# Presets\n\n");
    wrap(
        &mut out,
        "Generated from the table in `src/presets.rs`; the same text is printed by `terrace options --presets --markdown`. A preset is a named \
         set of option values for a kind of problem: `terrace solve matrix.mtx --preset poisson`, or `terrace_config_load_preset(config, \"poisson\")`. It sets \
         the options that it names and leaves the others; what is set after it, or given beside it on the command line, wins. An unknown name is an \
         error that lists the known ones. [What the options mean](options.md); [which preset solves which matrix](matrices.md).",
    );
    for preset in PRESETS {
        let _ = write!(out, "\n## `{}`\n\n", preset.name);
        wrap(&mut out, &format!("{} {}", preset.purpose, preset.reason));
        out.push('\n');
        for (key, value) in preset.options {
            let _ = writeln!(out, "    {key}={value}");
        }
    }
    out
}

impl Config {
    /// Sets every option of a JSON object. Keys may be dotted or nested, lists may be arrays. The key "preset" names a
    /// [preset](crate::presets), which is loaded first. Nothing is changed when any of it is refused.
    pub fn load_json(&mut self, text: &str) -> Result<()> {
        let json: Json = match serde_json::from_str(text) {
            Ok(json) => json,
            Err(error) => return fail!(Parse, "the configuration is not JSON: {error}"),
        };
        let Json::Object(mut map) = json else {
            return fail!(Parse, "the configuration must be a JSON object, like {{\"solver.tolerance\": 1e-8}}");
        };
        let mut changed = self.clone();
        match map.remove("preset") {
            Some(Json::String(name)) => changed.load_preset(&name)?,
            Some(_) => return fail!(OptionValue, "\"preset\" is not a name; accepted: {}", names().join(", ")),
            None => {}
        }
        changed.load_object(&map)?;
        *self = changed;
        Ok(())
    }

    /// Sets every option of a [preset](crate::presets); what it does not name keeps its value.
    pub fn load_preset(&mut self, name: &str) -> Result<()> {
        let mut changed = self.clone();
        for (key, value) in find(name)?.options {
            changed.set_str(key, value)?;
        }
        *self = changed;
        Ok(())
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn every_preset_is_accepted_and_differs_from_the_others() {
        let mut seen: Vec<String> = Vec::new();
        for preset in PRESETS {
            let mut config = Config::new();
            config.load_preset(preset.name).unwrap();
            let json = config.to_json();
            assert!(preset.options.iter().all(|(key, _)| json.contains(key)), "{json}");
            assert!(!seen.contains(&json) && json != "{}", "{}", preset.name);
            seen.push(json);
        }
    }

    #[test]
    fn what_is_set_after_a_preset_wins_and_an_unknown_name_changes_nothing() {
        let mut config = Config::new();
        config.set_int("solver.max_iterations", 7).unwrap();
        config.load_preset("elasticity").unwrap();
        config.set_str("amg.smoother.type", "jacobi").unwrap();
        assert_eq!(config.text("amg.smoother.type"), "jacobi");
        assert_eq!(config.text("amg.coarsening.type"), "mis2");
        assert_eq!(config.int("solver.max_iterations"), 7);

        let before = config.to_json();
        let unknown = config.load_preset("Poisson").unwrap_err();
        assert_eq!(unknown.status, Status::OptionValue);
        assert!(names().iter().all(|name| unknown.message.contains(name)), "{}", unknown.message);
        assert_eq!(config.to_json(), before);
    }
}
