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
    // As in AmgX, where no weight is weight 1.
    let weight = reader.real(node, "relaxation_factor");
    if weight >= 2.0 {
        return fail!(
            BadConfiguration,
            "\"relaxation_factor\" is {weight} for {}; below 2 the sweeps converge",
            node.name
        );
    }
    reader.option("amg.smoother.gauss_seidel.weight", if weight == 0.0 { 1.0 } else { weight });
    Ok(())
}

fn chebyshev(reader: &Reader<'_>, node: &Node) -> Result<()> {
    reader.option("amg.smoother.type", "chebyshev");
    reader.option("amg.smoother.chebyshev.degree", reader.int(node, "chebyshev_polynomial_order"));
    let scaling = scaling(reader, node)?;
    if node.name == "CHEBYSHEV_POLY" || reader.int(node, "chebyshev_lambda_estimate_mode") != 3 {
        return Ok(());
    }
    let [largest, smallest] = ["cheby_max_lambda", "cheby_min_lambda"].map(|key| reader.real(node, key));
    // AmgX looks at the rows then, too.
    let Some(weight) = scaling else {
        let note =
            "cheby_max_lambda: without a preconditioner of CHEBYSHEV the largest eigenvalue is estimated, as in mode 1";
        reader.note(note.to_string());
        return Ok(());
    };
    let ratio = largest / smallest;
    if smallest <= 0.0 || !(1.0..=1000.0).contains(&ratio) {
        return fail!(
            BadConfiguration,
            "\"cheby_max_lambda\" is {largest} and \"cheby_min_lambda\" {smallest}; the first must be 1 to 1000 times the second"
        );
    }
    // Those of AmgX are eigenvalues of the preconditioned matrix, with the weight of the preconditioner.
    reader.option("amg.smoother.chebyshev.largest_eigenvalue", largest / weight);
    reader.option("amg.smoother.chebyshev.eigenvalue_ratio", ratio);
    Ok(())
}

/// What the polynomial is scaled by. Returns the weight of the scaling; none where AmgX would not scale.
fn scaling(reader: &Reader<'_>, node: &Node) -> Result<Option<f64>> {
    if !reader.is_set(node, "preconditioner") || !node.has_own_scope {
        return Ok(None);
    }
    let inner = reader.node(node, "preconditioner");
    let _ = reader.own_iterations(&inner);
    let weight = match reader.real(&inner, "relaxation_factor") {
        0.0 => 1.0,
        weight => weight,
    };
    match inner.name.as_str() {
        "BLOCK_JACOBI" => Ok(Some(weight)),
        "JACOBI_L1" => {
            reader.option("amg.smoother.chebyshev.scaling", "l1");
            Ok(Some(weight))
        }
        "NOSOLVER" => {
            reader.note(format!("{} is scaled by the diagonal of the matrix, not by NOSOLVER", node.name));
            Ok(None)
        }
        other => fail!(
            BadConfiguration,
            "{other} as the preconditioner of {} is not supported; the nearest are BLOCK_JACOBI, JACOBI_L1",
            node.name
        ),
    }
}
