//! From parameters of AmgX to options of Terrace: the outer solver, its tolerances, and what is printed.

use super::{DEFAULT, Parameters, keys};
use crate::boundary::{Result, fail};
use crate::mode::Mode;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use terrace::capi::TERRACE_F32;

/// Turns notes about parameters without a meaning into failures.
const STRICT_VARIABLE: &str = "TERRACE_AMGX_STRICT";

/// Most iterations that Terrace accepts, less the one that is added where residuals are not monitored.
const MAX_ITERATIONS: i64 = 999_999_999;

/// Largest s of IDR(s).
const MAX_SHADOW_VECTORS: i64 = 32;

/// Norms of a residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    L1,
    L2,
    Max,
}

/// What a solver does.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Options of Terrace, in order.
    pub options: Vec<(String, String)>,
    /// Solves end after so many iterations, whatever the residual: where it is not monitored.
    pub exactly: Option<usize>,
    /// Whether `AMGX_solver_resetup` keeps coarse unknowns, or has none to keep.
    pub keeps_structure: bool,
    /// Norm of `AMGX_solver_calculate_residual_norm`.
    pub norm: Norm,
    /// Whether it is one number for block matrices, too.
    pub scalar_norm: bool,
    pub store_history: bool,
    pub print_solve_stats: bool,
    pub print_grid_stats: bool,
    pub print_config: bool,
    pub obtain_timings: bool,
    /// Sentences about what has another meaning here, or none.
    pub notes: Vec<String>,
}

/// A solver in the tree of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its name.
    pub name: String,
    /// The scopes that its parameters are looked for in, one after the other.
    pub scopes: Vec<String>,
    /// Whether it has a scope of its own.
    pub has_own_scope: bool,
}

/// Reads parameters, and keeps account of those that were read.
pub(super) struct Reader<'a> {
    parameters: &'a Parameters,
    read: RefCell<BTreeSet<(String, String)>>,
    pub options: RefCell<Vec<(String, String)>>,
    pub notes: RefCell<Vec<String>>,
    pub mode: Mode,
}

impl Reader<'_> {
    /// What was set for a key.
    pub fn set(&self, scopes: &[String], key: &str) -> Option<String> {
        scopes.iter().find_map(|scope| {
            let value = self.parameters.get(scope, key)?;
            self.read.borrow_mut().insert((scope.clone(), key.to_string()));
            Some(value.text.clone())
        })
    }

    /// What was set, or the default.
    pub fn text(&self, node: &Node, key: &str) -> String {
        let default = keys::find(key).map_or("", |row| row.default);
        self.set(&node.scopes, key).unwrap_or_else(|| default.to_string())
    }

    /// A number, which the table of keys has checked.
    pub fn real(&self, node: &Node, key: &str) -> f64 {
        self.text(node, key).parse().unwrap_or(f64::NAN)
    }

    /// A whole number.
    pub fn int(&self, node: &Node, key: &str) -> i64 {
        self.text(node, key).parse().unwrap_or(0)
    }

    /// A flag.
    pub fn flag(&self, node: &Node, key: &str) -> bool {
        self.int(node, key) != 0
    }

    /// The solver that a key names.
    pub fn node(&self, parent: &Node, key: &str) -> Node {
        let found = parent.scopes.iter().find_map(|scope| Some((scope, self.parameters.get(scope, key)?)));
        let default = keys::find(key).map_or("", |row| row.default);
        let Some((scope, value)) = found else {
            return Node { name: default.to_string(), scopes: parent.scopes.clone(), has_own_scope: false };
        };
        self.read.borrow_mut().insert((scope.clone(), key.to_string()));
        match &value.scope {
            None => Node { name: value.text.clone(), scopes: parent.scopes.clone(), has_own_scope: false },
            Some(own) => {
                Node { name: value.text.clone(), scopes: vec![own.clone(), DEFAULT.to_string()], has_own_scope: true }
            }
        }
    }

    /// Whether a key is set for a node.
    pub fn is_set(&self, node: &Node, key: &str) -> bool {
        node.scopes.iter().any(|scope| self.parameters.get(scope, key).is_some())
    }

    /// Tells that a parameter has another meaning here.
    pub fn note(&self, sentence: String) {
        self.notes.borrow_mut().push(sentence);
    }

    /// A whole number, at most as large as Terrace takes; a larger one that was set is told.
    pub fn int_within(&self, node: &Node, key: &str, (min, max): (i64, i64)) -> i64 {
        let asked = self.int(node, key);
        let taken = asked.clamp(min, max);
        if taken != asked && self.is_set(node, key) {
            self.note(format!("{key} {asked}: taken as {taken}"));
        }
        taken
    }

    /// Sets an option of Terrace.
    pub fn option(&self, key: &str, value: impl ToString) {
        self.options.borrow_mut().push((key.to_string(), value.to_string()));
    }

    /// Iterations of a preconditioner or smoother of one level: what its own scope says, otherwise 1.
    pub fn own_iterations(&self, node: &Node) -> i64 {
        let own = node.scopes.first().filter(|_| node.has_own_scope).cloned();
        let set = own.and_then(|own| self.set(&[own], "max_iters"));
        set.and_then(|text| text.parse().ok()).unwrap_or(1)
    }

    /// One sentence for each scope about the keys in it that nothing has asked for.
    fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        let mut unread: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (scope, key) in self.parameters.values.keys() {
            let is_hint = keys::find(key).is_none_or(|row| row.is_hint);
            if !is_hint && !read.contains(&(scope.clone(), key.clone())) {
                unread.entry(scope).or_default().push(key);
            }
        }
        let sentence = |(scope, keys): (&str, Vec<&str>)| {
            format!("in scope \"{scope}\" these have no meaning for the solver that is named: {}", keys.join(", "))
        };
        unread.into_iter().map(sentence).collect()
    }
}

/// The outer solver.
fn root(reader: &Reader<'_>) -> Node {
    let nowhere = Node { name: String::new(), scopes: vec![DEFAULT.to_string()], has_own_scope: false };
    reader.node(&nowhere, "solver")
}

fn reader(parameters: &Parameters, mode: Mode) -> Reader<'_> {
    Reader { parameters, read: RefCell::default(), options: RefCell::default(), notes: RefCell::default(), mode }
}

/// Whether the configuration has classical AMG, as outer solver or as its preconditioner.
pub fn is_classical(parameters: &Parameters) -> bool {
    let Ok(mode) = Mode::new(8192) else { return false };
    let reader = reader(parameters, mode);
    let outer = root(&reader);
    let amg = if outer.name == "AMG" { outer } else { reader.node(&outer, "preconditioner") };
    amg.name == "AMG" && reader.text(&amg, "algorithm") == "CLASSICAL"
}

impl Plan {
    /// What a solver with these parameters does.
    pub fn new(parameters: &Parameters, mode: Mode) -> Result<Plan> {
        let reader = reader(parameters, mode);
        let outer = root(&reader);
        reader.option("solver.precision", if mode.vector == TERRACE_F32 { "f32" } else { "f64" });
        reader.option("precision", "input");
        let amg = method(&reader, &outer)?;
        let mut plan = stopping(&reader, &outer)?;
        plan.keeps_structure = amg.as_ref().is_none_or(|amg| reader.int(amg, "structure_reuse_levels") != 0);
        plan.print_grid_stats =
            amg.is_some_and(|amg| reader.flag(&amg, "print_grid_stats")) | reader.flag(&outer, "print_grid_stats");
        if matches!(reader.text(&outer, "norm").as_str(), "L1" | "LMAX") {
            let norm = reader.text(&outer, "norm");
            reader.note(format!("norm {norm}: solves stop by the L2 norm of the residual"));
        }
        plan.options = reader.options.take();
        plan.options.extend(parameters.terrace.iter().cloned());
        plan.notes = reader.notes.take();
        plan.notes.extend(reader.unread());
        if std::env::var(STRICT_VARIABLE).is_ok_and(|value| value != "0")
            && let Some(note) = plan.notes.first()
        {
            return fail!(BadConfiguration, "{note} ({STRICT_VARIABLE} is set)");
        }
        Ok(plan)
    }
}

/// Sets the Krylov method and its preconditioner. Returns the scope of AMG, if there is one.
fn method(reader: &Reader<'_>, outer: &Node) -> Result<Option<Node>> {
    // Levels that are narrower than the vectors of the method need a flexible one.
    let flexible = |plain: &'static str, flexible: &'static str| if reader.mode.is_mixed() { flexible } else { plain };
    let name = outer.name.as_str();
    let (kind, is_preconditioned) = match name {
        "PCG" => (flexible("cg", "fcg"), true),
        "PCGF" => ("fcg", true),
        "CG" => ("cg", false),
        "PBICGSTAB" => ("bicgstab", true),
        "BICGSTAB" => ("bicgstab", false),
        "GMRES" => (flexible("gmres", "fgmres"), true),
        "FGMRES" => ("fgmres", true),
        "IDR" | "IDRMSYNC" => ("idr", true),
        "DENSE_LU_SOLVER" => {
            reader.option("solver.type", "direct");
            return Ok(None);
        }
        "AMG" => {
            reader.option("solver.type", "richardson");
            super::amg::amg(reader, outer)?;
            return Ok(Some(outer.clone()));
        }
        _ if super::smoother::is_smoother(name) => {
            reader.option("solver.type", "richardson");
            super::smoother::alone(reader, outer, 1)?;
            return Ok(None);
        }
        _ => {
            return fail!(
                BadConfiguration,
                "\"solver\" is {name}, which is not supported; the nearest are PCG, PBICGSTAB, FGMRES, AMG"
            );
        }
    };
    reader.option("solver.type", kind);
    if kind == "idr" {
        reader.option("solver.idr.s", reader.int_within(outer, "subspace_dim_s", (1, MAX_SHADOW_VECTORS)));
    }
    if name.ends_with("GMRES") {
        let restart = reader.int(outer, "gmres_n_restart");
        reader.option("solver.restart", restart);
        let dimension = reader.int(outer, "gmres_krylov_dim");
        if dimension != 0 && dimension != restart {
            return fail!(
                BadConfiguration,
                "\"gmres_krylov_dim\" is {dimension} and \"gmres_n_restart\" {restart}; accepted: 0, or the same"
            );
        }
    }
    let inner = if is_preconditioned { reader.node(outer, "preconditioner") } else { without(reader, outer)? };
    match inner.name.as_str() {
        "NOSOLVER" => {
            reader.option("solver.preconditioner", "none");
            Ok(None)
        }
        "AMG" => {
            let cycles = reader.own_iterations(&inner);
            if cycles != 1 {
                return fail!(
                    BadConfiguration,
                    "\"max_iters\" of the preconditioner AMG is {cycles}; the nearest that is supported is 1"
                );
            }
            super::amg::amg(reader, &inner)?;
            Ok(Some(inner))
        }
        smoother if super::smoother::is_smoother(smoother) => {
            let sweeps = reader.own_iterations(&inner);
            super::smoother::alone(reader, &inner, sweeps)?;
            Ok(None)
        }
        other => fail!(
            BadConfiguration,
            "\"preconditioner\" is {other}, which is not supported; the nearest are AMG, BLOCK_JACOBI, NOSOLVER"
        ),
    }
}

/// No preconditioner, for methods that take none; one that is named all the same is refused.
fn without(reader: &Reader<'_>, outer: &Node) -> Result<Node> {
    let none = Node { name: "NOSOLVER".to_string(), ..outer.clone() };
    let named =
        if reader.is_set(outer, "preconditioner") { reader.node(outer, "preconditioner") } else { none.clone() };
    if named.name != "NOSOLVER" {
        let (name, inner) = (&outer.name, named.name);
        return fail!(
            BadConfiguration,
            "\"solver\" {name} takes no preconditioner, and {inner} is named; the nearest that is supported is P{name}"
        );
    }
    Ok(none)
}

/// Sets limits and tolerances.
fn stopping(reader: &Reader<'_>, outer: &Node) -> Result<Plan> {
    // One iteration of AmgX's IDR has as many products as a space takes, here each of them is one.
    let products = if outer.name.starts_with("IDR") {
        reader.int(outer, "subspace_dim_s").clamp(1, MAX_SHADOW_VECTORS) + 1
    } else {
        1
    };
    let limit = (reader.int(outer, "max_iters").max(0) * products).min(MAX_ITERATIONS) as usize;
    let is_direct = outer.name == "DENSE_LU_SOLVER";
    let monitors = reader.flag(outer, "monitor_residual") || is_direct;
    let divergence = reader.real(outer, "rel_div_tolerance");
    if divergence > 0.0 {
        reader.option("solver.divergence_tolerance", divergence.max(1.0));
    }
    if monitors {
        reader.option("solver.max_iterations", limit);
        tolerances(reader, outer, is_direct)?;
    } else {
        // As many iterations as were asked for, whatever the residual.
        reader.option("solver.max_iterations", limit + 1);
        reader.option("solver.tolerance", 0);
        reader.option("solver.stagnation_window", 0);
        for key in ["tolerance", "convergence", "alt_rel_tolerance"] {
            if reader.set(&outer.scopes, key).is_some() {
                let note = format!("\"{key}\" has no meaning without monitor_residual=1: {limit} iterations are done");
                reader.note(note);
            }
        }
    }
    Ok(Plan {
        options: Vec::new(),
        exactly: (!monitors).then_some(limit),
        keeps_structure: true,
        norm: match reader.text(outer, "norm").as_str() {
            "L1" => Norm::L1,
            "LMAX" => Norm::Max,
            _ => Norm::L2,
        },
        scalar_norm: reader.flag(outer, "use_scalar_norm"),
        store_history: reader.flag(outer, "store_res_history"),
        print_solve_stats: reader.flag(outer, "print_solve_stats"),
        print_grid_stats: false,
        print_config: reader.flag(outer, "print_config"),
        obtain_timings: reader.flag(outer, "obtain_timings"),
        notes: Vec::new(),
    })
}

fn tolerances(reader: &Reader<'_>, outer: &Node, is_direct: bool) -> Result<()> {
    let tolerance = reader.real(outer, "tolerance");
    let convergence = reader.text(outer, "convergence");
    match convergence.as_str() {
        "ABSOLUTE" => {
            reader.option("solver.tolerance", 0);
            reader.option("solver.absolute_tolerance", tolerance);
        }
        "RELATIVE_INI" | "RELATIVE_INI_CORE" => {
            reader.option("solver.tolerance", tolerance);
        }
        "COMBINED_REL_INI_ABS" => {
            reader.option("solver.tolerance", reader.real(outer, "alt_rel_tolerance"));
            reader.option("solver.absolute_tolerance", tolerance);
        }
        other => {
            return fail!(
                BadConfiguration,
                "\"convergence\" is {other}, which is not supported; the nearest is RELATIVE_INI"
            );
        }
    }
    if convergence != "ABSOLUTE" && !is_direct {
        reader.option("solver.relative_to", "initial_residual");
    }
    Ok(())
}
