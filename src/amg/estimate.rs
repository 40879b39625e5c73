//! Memory of a set-up before it runs: the real set-up of small connected pieces of the matrix, scaled up.
//!
//! On the host it is what the hierarchy will hold. On a GPU it is the most that set-up takes at one time, which is measured, so that nothing
//! here knows what its steps allocate.

use super::Amg;
use super::null_space::NearNullSpace;
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, try_vec};
use crate::gpu::Gpu;
use crate::matrix::{Matrix, Values};
use crate::scalar::{Scalar, with_storage};
use crate::sparse::{Csr, CsrView, Storage};
use std::sync::Arc;

/// Rows of the piece. A matrix that is not larger is set up whole, and the figure is exact.
const SAMPLE_ROWS: usize = 20_000;

/// The piece has more boundary than the matrix, where rows are shorter and coarse levels smaller.
const MARGIN: f64 = 1.12;

/// The same on a GPU, where a set-up of so many rows takes a few hundredths of a second.
const DEVICE_ROWS: usize = 1 << 20;

/// How much smaller a second piece is, which tells what boundaries make of memory.
const SMALLER: usize = 4;

/// A cut is felt by neighbours of neighbours, too: it costs at most so many times the entries that it cuts off.
const REACH: f64 = 3.0;

/// What pieces do not show: coarse levels beyond theirs, and formats that suit more rows. As much as it takes to be never below: estimates without it
/// were 0.98 to 1.03 of what set-ups took on an H200.
const DEVICE_MARGIN: f64 = 1.06;

/// Bytes that a set-up will hold on the host, or take on a GPU.
pub(super) fn bytes(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
    match matrix.values()? {
        Values::F64(values) => bytes_in(context, matrix, config, &*values),
        Values::F32(values) => bytes_in(context, matrix, config, &*values),
    }
}

fn bytes_in<T: Scalar>(context: &Context, matrix: &Matrix, config: &Config, values: &dyn Storage<T>) -> Result<usize>
where
    Values: From<Vec<T>>,
{
    let structure = matrix.structure()?;
    let a = structure.view(values.as_slice());
    if let Some(gpu) = context.gpu() {
        return bytes_there(context, gpu, matrix, config, &a, DEVICE_ROWS);
    }
    let piece = Piece::new(matrix, &a, SAMPLE_ROWS)?;
    let sample = piece.matrix;
    let report = Amg::setup(context, &sample, config)?.report();
    let (held, storage) = (report.bytes, report.levels[0].matrix_precision);

    // The finest matrix is known exactly, and costs nothing where it is used in the caller's memory.
    let finest = |m: &Matrix| -> Result<usize> {
        if storage != m.precision() {
            return Ok(m.structure()?.owned_bytes() + m.entries() * storage.bytes());
        }
        Ok(with_storage!(storage, S => m.shared::<S>()?.owned_bytes()))
    };
    let rest = held.saturating_sub(finest(&sample)?);
    if piece.whole {
        return Ok(rest + finest(matrix)?);
    }
    let scale = MARGIN * matrix.entries() as f64 / sample.entries().max(1) as f64;
    Ok((rest as f64 * scale) as usize + finest(matrix)?)
}

/// The most device memory that set-up takes beside what is held before it, from pieces of at most `rows` rows.
fn bytes_there<T: Scalar>(
    context: &Context,
    gpu: &Gpu,
    matrix: &Matrix,
    config: &Config,
    a: &CsrView<'_, T>,
    rows: usize,
) -> Result<usize>
where
    Values: From<Vec<T>>,
{
    // A matrix that is on the device already takes nothing there.
    let there = matrix.is_on(gpu);
    let peak = |piece: &Piece| -> Result<f64> {
        let sample = if there { Arc::new(piece.matrix.to_device(context)?) } else { Arc::clone(&piece.matrix) };
        let before = gpu.memory();
        gpu.forget_peak();
        let hierarchy = Amg::setup(context, &sample, config);
        let peak = gpu.memory().peak;
        gpu.recall_peak(before.peak);
        hierarchy.map(|_| (peak - before.used) as f64)
    };
    let large = Piece::new(matrix, a, rows)?;
    let most = peak(&large)?;
    if large.whole {
        return Ok(most as usize);
    }
    // Bytes for each entry of the rows grow as the share of entries that is cut off gets smaller, about linearly, and none is in the end.
    let small = Piece::new(matrix, a, rows / SMALLER)?;
    let (few, many) = (peak(&small)? / small.entries as f64, most / large.entries as f64);
    let cut = small.cut - large.cut;
    let slope = if cut > 0.0 { ((many - few) / cut).clamp(0.0, REACH * many) } else { 0.0 };
    Ok((DEVICE_MARGIN * (many + slope * large.cut) * matrix.entries() as f64) as usize)
}

/// A connected piece of a matrix, with what is known of its near-null space.
struct Piece {
    matrix: Arc<Matrix>,
    /// Whether it is all of the matrix.
    whole: bool,
    /// Entries of its rows in the matrix, and the share of them that lead out of the piece.
    entries: usize,
    cut: f64,
}

impl Piece {
    /// Of at most so many rows.
    fn new<T: Scalar>(matrix: &Matrix, a: &CsrView<'_, T>, limit: usize) -> Result<Piece>
    where
        Values: From<Vec<T>>,
    {
        let space = matrix.near_null_space();
        let dofs = space.as_ref().map_or(a.block.rows, |s| s.dofs_per_node);
        let rows = connected_rows(a, dofs / a.block.rows, limit)?;
        let entries = rows.iter().map(|row| a.row_range(*row).len()).sum::<usize>() * a.block.len();
        let piece = principal_submatrix(a, &rows)?;
        let cut = 1.0 - piece.values.len() as f64 / entries.max(1) as f64;
        let sample = Matrix::from_csr(piece)?;
        if let Some(space) = &space {
            let restricted = restrict(space, &rows, a.block.rows, matrix.rows());
            sample.set_near_null_space(restricted.dofs_per_node, restricted.count, restricted.vectors)?;
        }
        Ok(Piece { matrix: Arc::new(sample), whole: rows.len() == a.rows, entries, cut })
    }
}

/// Ascending block rows of whole nodes (of `group` block rows each), found breadth first from the middle of the matrix.
fn connected_rows<T: Scalar>(a: &CsrView<'_, T>, group: usize, limit: usize) -> Result<Vec<usize>> {
    let limit = (limit / a.block.rows).max(1);
    let mut found = try_vec(a.rows, false)?;
    let mut queue = std::collections::VecDeque::new();
    let mut rows = Vec::new();
    let mut visit = |node: usize, queue: &mut std::collections::VecDeque<usize>, rows: &mut Vec<usize>| {
        if !found[node * group] && rows.len() < limit {
            found[node * group] = true;
            rows.extend(node * group..(node + 1) * group);
            queue.push_back(node);
        }
    };
    // Further starts serve matrices that fall into pieces.
    let nodes = a.rows / group.max(1);
    for start in (nodes / 2..nodes).chain(0..nodes / 2) {
        visit(start, &mut queue, &mut rows);
        while let Some(node) = queue.pop_front() {
            for row in node * group..(node + 1) * group {
                for k in a.row_range(row) {
                    visit(a.col(k) / group, &mut queue, &mut rows);
                }
            }
        }
        if rows.len() >= limit {
            break;
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

fn principal_submatrix<T: Scalar>(a: &CsrView<'_, T>, rows: &[usize]) -> Result<Csr<T>> {
    let mut number = try_vec(a.rows, -1_i32)?;
    for (n, row) in rows.iter().enumerate() {
        number[*row] = n as i32;
    }
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        for (j, block) in a.row(*row).filter(|(j, _)| number[*j] >= 0) {
            columns.push(number[j]);
            values.extend_from_slice(block);
        }
        offsets.push(columns.len() as i64);
    }
    Ok(Csr { rows: rows.len(), cols: rows.len(), block: a.block, offsets, columns, values })
}

fn restrict(space: &NearNullSpace, rows: &[usize], block: usize, all: usize) -> NearNullSpace {
    let vectors = (0..space.count)
        .flat_map(|v| rows.iter().flat_map(move |row| (0..block).map(move |r| v * all + row * block + r)))
        .map(|at| space.vectors[at])
        .collect();
    NearNullSpace { vectors, ..*space }
}

#[cfg(all(test, terrace_sim))]
mod tests {
    use super::*;
    use crate::gallery;

    /// Estimate from pieces of so many rows over what set-up took.
    fn ratio(name: &str, options: &[(&str, &str)], rows: usize, on_device: bool) -> f64 {
        let context = Context::new("sim:32").unwrap();
        let gpu = context.gpu().unwrap();
        let mut config = Config::new();
        // The inverse of a coarsest level does not grow with the matrix, and is most of what small ones take.
        config.set_int("amg.coarsest.max_rows", 10).unwrap();
        options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
        let here = gallery::parse(name).unwrap().into_matrix().unwrap();
        let matrix = Arc::new(if on_device { here.to_device(&context).unwrap() } else { here });
        let before = gpu.memory().used;
        let Values::F64(values) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
        let structure = matrix.structure().unwrap();
        let a = structure.view(values.as_slice());
        let estimate = bytes_there(&context, gpu, &matrix, &config, &a, rows).unwrap();
        assert_eq!(gpu.memory().used, before, "an estimate leaves nothing behind");
        gpu.forget_peak();
        let _hierarchy = Amg::setup(&context, &matrix, &config).unwrap();
        estimate as f64 / (gpu.memory().peak - before) as f64
    }

    #[test]
    fn what_is_set_up_whole_takes_what_was_estimated() {
        let narrow = [("precision.matrix", "f16"), ("precision.vector", "f32"), ("amg.coarsening.type", "pmis")];
        let auto = [("precision", "auto")];
        for (name, options) in
            [("poisson7:9", &[][..]), ("elasticity:3", &[]), ("jumps:6", &narrow), ("poisson7:9", &auto)]
        {
            for on_device in [false, true] {
                assert_eq!(ratio(name, options, DEVICE_ROWS, on_device), 1.0, "{name}, {on_device}");
            }
        }
    }

    /// Pieces of a few hundred rows are almost all boundary; those of the real size are a tenth of that.
    #[test]
    fn pieces_tell_what_the_whole_takes() {
        for (name, coarsening, rows) in [
            ("poisson5:50", "pmis", 1700),
            ("poisson27:10", "pmis", 700),
            ("jumps:12", "pmis", 860),
            ("elasticity:6", "pmis", 590),
            ("poisson7:16", "pairwise", 2048),
            ("poisson27:10", "pairwise", 700),
        ] {
            let ratio = ratio(name, &[("amg.coarsening.type", coarsening)], rows, false) / DEVICE_MARGIN;
            println!("{name}, {coarsening}: {ratio:.3}");
            assert!(
                (0.9..1.1).contains(&ratio),
                "{name}, {coarsening}, from {rows} rows: {ratio:.3} without the margin"
            );
        }
    }
}
