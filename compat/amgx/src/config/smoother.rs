//! Smoothers: of AMG, or alone as a preconditioner or solver.

use super::plan::{Node, Reader};
use crate::boundary::{Result, fail};

/// Names that are smoothers here.
const SMOOTHERS: &[&str] = &[
    "BLOCK_JACOBI",
    "JACOBI_L1",
    "GS",
    "MULTICOLOR_GS",
    "FIXCOLOR_GS",
    "MULTICOLOR_DILU",
    "MULTICOLOR_ILU",
    "CHEBYSHEV",
    "CHEBYSHEV_POLY",
    "POLYNOMIAL",
    "KPZ_POLYNOMIAL",
    "KACZMARZ",
    "CF_JACOBI",
];

/// Whether a solver of this name is a smoother, supported or not.
pub(super) fn is_smoother(name: &str) -> bool {
    SMOOTHERS.contains(&name)
}

/// A smoother that is the whole preconditioner: a hierarchy of one level.
pub(super) fn alone(reader: &Reader<'_>, node: &Node, sweeps: i64) -> Result<()> {
    reader.option("amg.max_levels", 1);
    reader.option("amg.coarsest.solver", "sweeps");
    reader.option("amg.coarsest.sweeps", sweeps);
    smoother(reader, node)
}

/// Sets the smoother.
pub(super) fn smoother(reader: &Reader<'_>, node: &Node) -> Result<()> {
    let name = node.name.as_str();
    match name {
        "BLOCK_JACOBI" => {
            reader.option("amg.smoother.type", "jacobi");
            reader.option("amg.smoother.jacobi.weight", reader.real(node, "relaxation_factor"));
        }
        "JACOBI_L1" => {
            reader.option("amg.smoother.type", "l1_jacobi");
            reader.option("amg.smoother.l1_jacobi.weight", reader.real(node, "relaxation_factor"));
        }
        "MULTICOLOR_DILU" => {
            reader.option("amg.smoother.type", "dilu");
            reader.option("amg.smoother.dilu.weight", reader.real(node, "relaxation_factor"));
        }
        "GS" | "MULTICOLOR_GS" | "FIXCOLOR_GS" => gauss_seidel(reader, node)?,
        "CHEBYSHEV" | "CHEBYSHEV_POLY" => chebyshev(reader, node)?,
        _ => {
            let nearest = match name {
                "MULTICOLOR_ILU" => "MULTICOLOR_DILU",
                "POLYNOMIAL" | "KPZ_POLYNOMIAL" => "CHEBYSHEV_POLY",
                "CF_JACOBI" => "JACOBI_L1",
                _ => "MULTICOLOR_DILU, BLOCK_JACOBI, JACOBI_L1, CHEBYSHEV",
            };
            return fail!(
                BadConfiguration,
                "{name} is not supported as smoother or preconditioner; the nearest is {nearest}"
            );
        }
    }
    Ok(())
}

fn gauss_seidel(reader: &Reader<'_>, node: &Node) -> Result<()> {
    let is_symmetric = reader.flag(node, "symmetric_GS");
    if reader.flag(node, "GS_L1_variant") {
        if reader.mode.on_device {
            return fail!(
                BadConfiguration,
                "\"GS_L1_variant\" is 1, which the modes beginning with h have; the nearest on a device is 0"
            );
        }
        reader.option("amg.smoother.type", "l1_gauss_seidel");
    } else {
        reader.option("amg.smoother.type", "gauss_seidel");
    }
    reader.option("amg.smoother.gauss_seidel.direction", if is_symmetric { "symmetric" } else { "forward" });
    weight_one(reader, node)
}

/// Sweeps without a factor: one that is set to another number than 1 is refused.
fn weight_one(reader: &Reader<'_>, node: &Node) -> Result<()> {
    match reader.set(&node.scopes, "relaxation_factor") {
        Some(text) if text.parse() != Ok(1.0) => fail!(
            BadConfiguration,
            "\"relaxation_factor\" is {text} for {}; the nearest that is supported there is 1",
            node.name
        ),
        _ => Ok(()),
    }
}

fn chebyshev(reader: &Reader<'_>, node: &Node) -> Result<()> {
    reader.option("amg.smoother.type", "chebyshev");
    reader.option("amg.smoother.chebyshev.degree", reader.int(node, "chebyshev_polynomial_order"));
    if node.name == "CHEBYSHEV_POLY" {
        return scaling(reader, node);
    }
    let mode = reader.int(node, "chebyshev_lambda_estimate_mode");
    if mode == 3 {
        return fail!(
            BadConfiguration,
            "\"chebyshev_lambda_estimate_mode\" is 3, eigenvalues of the caller; the nearest that are supported are 0 to 2, which estimate them"
        );
    }
    scaling(reader, node)
}

/// What the polynomial is scaled by: the diagonal here.
fn scaling(reader: &Reader<'_>, node: &Node) -> Result<()> {
    if !reader.is_set(node, "preconditioner") || !node.has_own_scope {
        return Ok(());
    }
    let inner = reader.node(node, "preconditioner");
    let _ = reader.own_iterations(&inner);
    match inner.name.as_str() {
        "BLOCK_JACOBI" => Ok(()),
        "NOSOLVER" | "JACOBI_L1" => {
            let note = format!("{} is scaled by the diagonal of the matrix, not by {}", node.name, inner.name);
            reader.note(note);
            Ok(())
        }
        other => fail!(
            BadConfiguration,
            "{other} as the preconditioner of {} is not supported; the nearest is BLOCK_JACOBI",
            node.name
        ),
    }
}
