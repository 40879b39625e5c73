//! The options of AMG.

use super::plan::{Node, Reader};
use super::smoother::{is_smoother, smoother};
use crate::boundary::{Result, fail};

/// Most levels, and most rows of a coarsest level that is factorised, that Terrace accepts.
const MAX_LEVELS: i64 = 64;
const MAX_DENSE_ROWS: i64 = 5000;

/// Sets the options of AMG.
pub(super) fn amg(reader: &Reader<'_>, node: &Node) -> Result<()> {
    let algorithm = reader.text(node, "algorithm");
    match algorithm.as_str() {
        "CLASSICAL" => classical(reader, node)?,
        "AGGREGATION" => aggregation(reader, node)?,
        other => {
            return fail!(
                BadConfiguration,
                "\"algorithm\" is {other}, which is not supported; the nearest are CLASSICAL, AGGREGATION"
            );
        }
    }
    // More levels than that occur nowhere.
    reader.option("amg.max_levels", reader.int(node, "max_levels").clamp(1, MAX_LEVELS));
    cycle(reader, node)?;
    sweeps(reader, node);
    coarsest(reader, node)?;
    let inner = reader.node(node, "smoother");
    if !is_smoother(&inner.name) {
        return fail!(
            BadConfiguration,
            "\"smoother\" is {}, which is not supported; the nearest are MULTICOLOR_DILU, BLOCK_JACOBI, JACOBI_L1, CHEBYSHEV",
            inner.name
        );
    }
    smoother(reader, &inner)
}

fn classical(reader: &Reader<'_>, node: &Node) -> Result<()> {
    let selector = reader.text(node, "selector");
    let (coarsening, always_aggressive) = match selector.as_str() {
        "PMIS" => ("pmis", false),
        "HMIS" => ("hmis", false),
        "AGGRESSIVE_PMIS" => ("pmis", true),
        "AGGRESSIVE_HMIS" => ("hmis", true),
        other => {
            return fail!(
                BadConfiguration,
                "\"selector\" is {other}, which CLASSICAL does not have here; the nearest are PMIS, HMIS"
            );
        }
    };
    reader.option("amg.coarsening.type", coarsening);
    if reader.int(node, "error_scaling") != 0 {
        reader.note("error_scaling: classical AMG scales no coarse correction, nor does that of AmgX".to_string());
    }
    let aggressive = reader.int(node, "aggressive_levels").clamp(0, MAX_LEVELS);
    let aggressive = if always_aggressive { MAX_LEVELS } else { aggressive };
    reader.option("amg.coarsening.aggressive_levels", aggressive);
    if aggressive > 0 {
        let other = reader.text(node, "aggressive_selector");
        if !["DEFAULT", selector.trim_start_matches("AGGRESSIVE_")].contains(&other.as_str()) {
            return fail!(
                BadConfiguration,
                "\"aggressive_selector\" is {other} and \"selector\" {selector}; the nearest that is supported is DEFAULT, the same"
            );
        }
        match reader.text(node, "aggressive_interpolator").as_str() {
            // Multipass interpolation is computed on the host: 6.2 s for a 7-point matrix of 256^3 rows, whose set-up on an H200 takes 0.1 s.
            "MULTIPASS" if reader.mode.on_device => {
                reader.option("amg.interpolation.aggressive", "two_stage");
                let note = "aggressive_interpolator MULTIPASS: extended+i in two stages (D2), which GPUs compute";
                reader.note(note.to_string());
            }
            "MULTIPASS" => reader.option("amg.interpolation.aggressive", "multipass"),
            "D2" => reader.option("amg.interpolation.aggressive", "two_stage"),
            other => {
                return fail!(
                    BadConfiguration,
                    "\"aggressive_interpolator\" is {other}, which is not supported; the nearest are MULTIPASS, D2"
                );
            }
        }
    }
    let interpolation = match reader.text(node, "interpolator").as_str() {
        "D1" => "classical_modified",
        "D2" => "extended_i",
        other => {
            return fail!(
                BadConfiguration,
                "\"interpolator\" is {other}, which is not supported; the nearest are D1, D2, and MULTIPASS as aggressive_interpolator"
            );
        }
    };
    reader.option("amg.interpolation.type", interpolation);
    reader.option("amg.interpolation.max_entries", reader.int(node, "interp_max_elements").max(0));
    let truncation = reader.real(node, "interp_truncation_factor");
    reader.option("amg.interpolation.truncation", if truncation < 1.0 { truncation.max(0.0) } else { 0.0 });
    match reader.text(node, "strength").as_str() {
        "AHAT" => {
            reader.option("amg.strength.type", "classical");
            reader.option("amg.strength.threshold", reader.real(node, "strength_threshold"));
            reader.option("amg.strength.max_row_sum", reader.real(node, "max_row_sum").min(1.0));
        }
        "ALL" => {
            reader.option("amg.strength.type", "absolute");
            reader.option("amg.strength.threshold", 0);
        }
        other => {
            return fail!(
                BadConfiguration,
                "\"strength\" is {other}, which is not supported; the nearest are AHAT, ALL"
            );
        }
    }
    Ok(())
}

fn aggregation(reader: &Reader<'_>, node: &Node) -> Result<()> {
    error_scaling(reader, node)?;
    let selector = match reader.set(&node.scopes, "selector") {
        Some(set) => set,
        // The default of the key is one of classical AMG.
        None => "SIZE_2".to_string(),
    };
    let size = match selector.as_str() {
        "SIZE_2" => 2,
        "SIZE_4" => 4,
        "SIZE_8" => 8,
        "MULTI_PAIRWISE" => match reader.int(node, "aggregation_passes") {
            passes @ 1..=3 => 1 << passes,
            passes => {
                return fail!(BadConfiguration, "\"aggregation_passes\" is {passes}; accepted: 1, 2, 3");
            }
        },
        other => {
            return fail!(
                BadConfiguration,
                "\"selector\" is {other}, which AGGREGATION does not have here; the nearest are SIZE_2, SIZE_4, SIZE_8, MULTI_PAIRWISE"
            );
        }
    };
    reader.option("amg.coarsening.type", "pairwise");
    reader.option("amg.coarsening.pairwise.size", size);
    reader.option("amg.interpolation.type", "tentative");
    Ok(())
}

/// 2 minimises the norm of the residual, 3 the energy norm of the error, in both after some sweeps on the correction.
fn error_scaling(reader: &Reader<'_>, node: &Node) -> Result<()> {
    let norm = match reader.int(node, "error_scaling") {
        0 => return Ok(()),
        2 => "residual",
        3 => "energy",
        other => {
            return fail!(
                BadConfiguration,
                "\"error_scaling\" is {other}, which AmgX does not have any more; the nearest are 2 and 3"
            );
        }
    };
    reader.option("amg.cycle.error_scaling", norm);
    reader.option("amg.cycle.error_scaling_sweeps", reader.int_within(node, "scaling_smoother_steps", (0, 100)));
    Ok(())
}

fn cycle(reader: &Reader<'_>, node: &Node) -> Result<()> {
    let kind = match reader.text(node, "cycle").as_str() {
        "V" => "v",
        "W" => "w",
        "F" => "f",
        "CG" | "CGF" => {
            let iterations = reader.int(node, "cycle_iters");
            if iterations != 2 {
                return fail!(
                    BadConfiguration,
                    "\"cycle_iters\" is {iterations}; the nearest that is supported is 2, at most two steps of flexible CG on each level"
                );
            }
            "k"
        }
        other => return fail!(BadConfiguration, "\"cycle\" is {other}; accepted: V, W, F, CG, CGF"),
    };
    reader.option("amg.cycle.type", kind);
    Ok(())
}

fn sweeps(reader: &Reader<'_>, node: &Node) {
    let finest = reader.int(node, "finest_sweeps");
    for (key, option) in [("presweeps", "amg.smoother.pre_sweeps"), ("postsweeps", "amg.smoother.post_sweeps")] {
        let below = reader.int(node, key);
        reader.option(option, if finest >= 0 { format!("{finest},{below}") } else { below.to_string() });
    }
}

fn coarsest(reader: &Reader<'_>, node: &Node) -> Result<()> {
    let smallest = reader.int_within(node, "min_coarse_rows", (1, MAX_DENSE_ROWS));
    let solver = reader.node(node, "coarse_solver");
    let smoother = reader.node(node, "smoother").name;
    match solver.name.as_str() {
        "DENSE_LU_SOLVER" => {
            let dense = reader.int_within(node, "dense_lu_num_rows", (1, MAX_DENSE_ROWS));
            reader.option("amg.coarsest.max_rows", dense.max(smallest));
        }
        name if name == "NOSOLVER" || name == smoother => {
            reader.option("amg.coarsest.solver", "sweeps");
            reader.option("amg.coarsest.max_rows", smallest);
            reader.option("amg.coarsest.sweeps", reader.int_within(node, "coarsest_sweeps", (1, i64::from(i32::MAX))));
        }
        other => {
            return fail!(
                BadConfiguration,
                "\"coarse_solver\" is {other}, which is not supported; the nearest are DENSE_LU_SOLVER, NOSOLVER"
            );
        }
    }
    Ok(())
}
