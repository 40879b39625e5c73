//! Steps of set-up on stencils and their transfers: diagonals, bounds, scaling and storage.

use super::product::line_grain;
use crate::backend::common::sample;
use crate::error::{Result, try_collect, try_vec};
use crate::host::registers::widely;
use crate::host::scaling::power_near_root;
use crate::host::{diagonal, scaling};
use crate::par;
use crate::precision::{FAR_ABOVE, beyond_range, is_narrower, lift_of, not_by_diagonal};
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, Csr, Grid, Offset, SharedStencil, SharedTransfer};
use std::sync::Arc;

/// Cells of a line that follow each other, and whose neighbours at some offset do.
struct Run {
    /// The first cell, by its place in the line, and how many there are.
    x: usize,
    length: usize,
    /// The neighbour of the first cell.
    to: usize,
}

/// The cells of a line that have a neighbour at an offset. Neighbours on the other side of a periodic line are a run of their own.
fn runs(grid: &Grid, line: usize, [dx, dy, dz]: Offset) -> impl Iterator<Item = Run> + use<> {
    let [nx, ny, _] = grid.dims;
    let (y, z) = (grid.step(1, line % ny, dy), grid.step(2, line / ny, dz));
    let first = y.zip(z).map(|(y, z)| nx * (y + ny * z));
    // The cell whose neighbour is behind an end of the line.
    let end = if dx < 0 { 0 } else { nx - 1 };
    let [inner, outer] = match first {
        None => [None, None],
        Some(to) if dx == 0 => [Some(Run { x: 0, length: nx, to }), None],
        Some(first) => {
            let x = usize::from(dx < 0);
            let inner = Run { x, length: nx - 1, to: first + usize::from(dx > 0) };
            let outer = grid.step(0, end, dx).map(|to| Run { x: end, length: 1, to: first + to });
            [Some(inner), outer]
        }
    };
    [inner, outer].into_iter().flatten().filter(|run| run.length > 0)
}

/// Calls `visit` with runs of the entries of a line of cells that lie in the grid: number of the offset, row and column in its block, the first cell, the one
/// it leads to, and the values.
#[inline(always)]
fn each_run<T: Scalar>(
    a: &SharedStencil<T>,
    line: usize,
    mut visit: impl FnMut(usize, (usize, usize), usize, usize, &[T]),
) {
    let (grid, b, values) = (&a.pattern.grid, a.pattern.block, a.values.as_slice());
    let nx = grid.dims[0];
    for (k, offset) in a.pattern.offsets.iter().enumerate() {
        for run in runs(grid, line, *offset) {
            let first = line * nx + run.x;
            for (r, c) in (0..b * b).map(|e| (e / b, e % b)) {
                let values = &values[a.pattern.array(k, r, c) + first..][..run.length];
                visit(k, (r, c), first, run.to, values);
            }
        }
    }
}

/// Runs `work` on the rows of lines of cells: the number of the line and its part of a new vector.
fn by_lines<T: Scalar, U: Number>(a: &SharedStencil<T>, work: impl Fn(usize, &mut [U]) + Sync) -> Result<Vec<U>> {
    let width = a.pattern.grid.dims[0] * a.pattern.block;
    let mut out = try_vec(a.pattern.scalar_rows(), U::ZERO)?;
    par::for_each_row_mut(&mut out, width, line_grain(a.pattern.grid.dims[0]), |first, out| {
        out.chunks_exact_mut(width).enumerate().for_each(|(k, out)| work(first + k, out));
    });
    Ok(out)
}

/// The diagonal, one value for each scalar row.
pub fn diagonal<T: Scalar>(a: &SharedStencil<T>) -> Result<Vec<f64>> {
    let (b, centre) = (a.pattern.block, a.pattern.find([0; 3]));
    let nx = a.pattern.grid.dims[0];
    by_lines(a, |line, out| {
        let Some(centre) = centre else { return };
        for r in 0..b {
            let values = &a.array(centre, r, r)[line * nx..][..nx];
            out[r..].iter_mut().step_by(b).zip(values).for_each(|(out, v)| *out = v.to_f64());
        }
    })
}

/// Sums of the absolute values of each scalar row that are outside of its diagonal, or with a `width` of more than 1 outside of its diagonal block.
/// Where the variables are scaled, those of the unscaled row, scaled like the diagonal.
fn norms<T: Scalar>(a: &SharedStencil<T>, width: usize, scale: Option<&[f64]>) -> Result<Vec<f64>> {
    let (b, nx) = (a.pattern.block, a.pattern.grid.dims[0]);
    by_lines(a, |line, out| {
        each_run(a, line, |k, (r, c), i, j, values| {
            let own = a.pattern.offsets[k] == [0; 3];
            if own && (width > 1 || r == c) {
                return;
            }
            let out = out[(i - line * nx) * b + r..].iter_mut().step_by(b).zip(values);
            match scale {
                None => out.for_each(|(out, v)| *out += v.to_f64().abs()),
                Some(s) => {
                    let factor = |t: usize| s[(j + t) * b + c] / s[(i + t) * b + r];
                    out.enumerate().for_each(|(t, (out, v))| *out += v.to_f64().abs() * factor(t));
                }
            }
        });
    })
}

/// The inverse of the diagonal or of the diagonal blocks; for l1-Jacobi with what is outside of it added.
pub fn inverse_diagonal<T: Scalar>(
    a: &SharedStencil<T>,
    width: usize,
    l1: bool,
    factors: Option<&[f64]>,
) -> Result<Vec<T>> {
    let (cells, b) = (a.pattern.grid.cells(), a.pattern.block);
    // The diagonal blocks as a matrix.
    let mut offsets: Vec<i64> = try_vec(cells + 1, 0)?;
    offsets.iter_mut().enumerate().for_each(|(i, to)| *to = i as i64);
    let mut columns = try_vec(cells, 0_i32)?;
    columns.iter_mut().enumerate().for_each(|(i, to)| *to = i as i32);
    let mut blocks = Csr::with_pattern(cells, cells, Block::square(b), offsets, columns)?;
    if let Some(centre) = a.pattern.find([0; 3]) {
        par::for_each_row_mut(&mut blocks.values, b * b, par::ROW_GRAIN, |first, blocks| {
            for (k, block) in blocks.chunks_exact_mut(b * b).enumerate() {
                block.iter_mut().enumerate().for_each(|(e, to)| *to = a.array(centre, e / b, e % b)[first + k]);
            }
        });
    }
    if !l1 {
        return diagonal::inverse(&blocks.view(), width, diagonal::AS_IT_IS);
    }
    let norms = norms(a, width, factors)?;
    diagonal::inverse(&blocks.view(), width, |i, r, _| norms[i * b + r])
}

/// The largest row sum of D^-1 A in absolute values, or in products of Frobenius norms where there are blocks.
pub fn row_bound<T: Scalar>(a: &SharedStencil<T>, inverse: &[T]) -> Result<f64> {
    let (b, nx) = (a.pattern.block, a.pattern.grid.dims[0]);
    let width = inverse.len() / a.pattern.scalar_rows().max(1);
    let largest = par::map_ranges(a.pattern.grid.lines(), line_grain(nx), |lines| {
        let (mut largest, mut sums) = (0.0_f64, try_vec(nx, 0.0)?);
        for line in lines {
            sums.fill(0.0);
            for k in 0..a.pattern.offsets.len() {
                for (x, sum) in sums.iter_mut().enumerate() {
                    let entry = |e: usize| a.array(k, e / b, e % b)[line * nx + x].to_f64();
                    *sum += if b == 1 {
                        entry(0).abs()
                    } else {
                        (0..b * b).map(|e| entry(e) * entry(e)).sum::<f64>().sqrt()
                    };
                }
            }
            for (x, sum) in sums.iter().enumerate() {
                let inverse = inverse[(line * nx + x) * b * width..][..b * width].iter().map(|v| v.to_f64().abs());
                let size =
                    if width == 1 { inverse.fold(0.0, f64::max) } else { inverse.map(|v| v * v).sum::<f64>().sqrt() };
                largest = largest.max(size * sum);
            }
        }
        Ok(largest)
    })?;
    Ok(largest.into_iter().fold(0.0, f64::max))
}

/// The largest entry outside of the diagonal in a sample of the cells, in absolute value; 0 where there is none.
pub fn largest_off_diagonal<T: Scalar>(a: &SharedStencil<T>) -> Result<f64> {
    let (grid, b) = (&a.pattern.grid, a.pattern.block);
    let (count, step) = sample(grid.cells());
    let largest = par::map_ranges(count, par::ROW_GRAIN, |range| {
        let mut largest = 0.0_f64;
        for cell in range.map(|i| i * step) {
            let [nx, ny, _] = grid.dims;
            let at = [cell % nx, cell / nx % ny, cell / (nx * ny)];
            for (k, offset) in a.pattern.offsets.iter().enumerate() {
                if (0..3).all(|axis| grid.step(axis, at[axis], offset[axis]).is_some()) {
                    let off = (0..b * b).filter(|e| e / b != e % b || *offset != [0; 3]);
                    largest = off.fold(largest, |max, e| max.max(a.array(k, e / b, e % b)[cell].to_f64().abs()));
                }
            }
        }
        Ok(largest)
    })?;
    Ok(largest.into_iter().fold(0.0, f64::max))
}

/// One scaling factor for each scalar row, as `scaling::factors` for rows.
pub fn factors<T: Scalar>(a: &SharedStencil<T>, scaling: &str) -> Result<Vec<f64>> {
    let by_diagonal = || -> Result<std::result::Result<Vec<f64>, usize>> {
        let mut s = diagonal(a)?;
        s.iter_mut().for_each(|s| *s = power_near_root(*s));
        Ok(s.iter().position(|s| !s.is_normal()).map_or(Ok(s), Err))
    };
    let s = match scaling {
        "diagonal" => match by_diagonal()? {
            Ok(s) => s,
            Err(i) => return not_by_diagonal(i),
        },
        "equilibrate" => by_largest(a)?,
        _ => match by_diagonal()? {
            Ok(s) => match largest_scaled(a, &s)? {
                largest if largest <= FAR_ABOVE => return Ok(lifted(s, largest)),
                _ => by_largest(a)?,
            },
            Err(_) => by_largest(a)?,
        },
    };
    if let Some(i) = s.iter().position(|s| !s.is_normal()) {
        return beyond_range(i);
    }
    let largest = largest_scaled(a, &s)?;
    Ok(lifted(s, largest))
}

fn lifted(mut s: Vec<f64>, largest: f64) -> Vec<f64> {
    let shift = lift_of(largest);
    s.iter_mut().for_each(|s| *s *= shift);
    s
}

/// Powers of two near the root of the largest entry of row and column; 1 where all are zero.
fn by_largest<T: Scalar>(a: &SharedStencil<T>) -> Result<Vec<f64>> {
    let b = a.pattern.block;
    let mut largest = try_vec(a.pattern.scalar_rows(), 0.0_f64)?;
    for line in 0..a.pattern.grid.lines() {
        each_run(a, line, |_, (r, c), i, j, values| {
            for (t, v) in values.iter().enumerate() {
                for at in [(i + t) * b + r, (j + t) * b + c] {
                    largest[at] = largest[at].max(v.to_f64().abs());
                }
            }
        });
    }
    largest.iter_mut().for_each(|s| *s = if *s == 0.0 { 1.0 } else { power_near_root(*s) });
    Ok(largest)
}

/// The largest absolute value of the scaled matrix.
fn largest_scaled<T: Scalar>(a: &SharedStencil<T>, s: &[f64]) -> Result<f64> {
    let b = a.pattern.block;
    let inverse: Vec<f64> = try_collect(s.iter().map(|s| 1.0 / s))?;
    let largest = par::map_ranges(a.pattern.grid.lines(), line_grain(a.pattern.grid.dims[0]), |lines| {
        let mut largest = 0.0_f64;
        for line in lines {
            each_run(a, line, |_, (r, c), i, j, values| {
                let (rows, columns) = (&inverse[i * b + r..], &inverse[j * b + c..]);
                let found = widely(
                    #[inline(always)]
                    || largest_product(values, rows, columns, b),
                );
                largest = largest.max(found);
            });
        }
        Ok(largest)
    })?;
    Ok(largest.into_iter().fold(0.0, f64::max))
}

/// The matrix with rows and columns multiplied, each by one number.
pub fn scaled<T: Scalar>(a: &SharedStencil<T>, rows: &[f64], columns: &[f64]) -> Result<SharedStencil<T>> {
    let (grid, b) = (&a.pattern.grid, a.pattern.block);
    let nx = grid.dims[0];
    let mut values = try_vec(a.pattern.entries(), T::ZERO)?;
    par::for_each_row_mut(&mut values, nx, line_grain(nx), |first, lines| {
        for (n, to) in lines.chunks_exact_mut(nx).enumerate() {
            let (array, line) = ((first + n) / grid.lines(), (first + n) % grid.lines());
            let (k, r, c) = (array / (b * b), array / b % b, array % b);
            let from = &a.array(k, r, c)[line * nx..][..nx];
            for run in runs(grid, line, a.pattern.offsets[k]) {
                let (from, to) = (&from[run.x..][..run.length], &mut to[run.x..][..run.length]);
                let (rows, columns) = (&rows[(line * nx + run.x) * b + r..], &columns[run.to * b + c..]);
                widely(
                    #[inline(always)]
                    || multiply(&mut *to, from, rows, columns, b),
                );
            }
        }
    });
    Ok(SharedStencil { pattern: Arc::clone(&a.pattern), values: Arc::new(values) })
}

/// Entries times the factors of their rows and columns, each with those of `b` unknowns.
#[inline(always)]
fn multiply<T: Scalar>(to: &mut [T], from: &[T], rows: &[f64], columns: &[f64], b: usize) {
    if b == 1 {
        for (((to, v), row), column) in to.iter_mut().zip(from).zip(rows).zip(columns) {
            *to = T::from_f64(v.to_f64() * row * column);
        }
        return;
    }
    for (t, (to, v)) in to.iter_mut().zip(from).enumerate() {
        *to = T::from_f64(v.to_f64() * rows[t * b] * columns[t * b]);
    }
}

/// The largest of such products in absolute value.
#[inline(always)]
fn largest_product<T: Scalar>(values: &[T], rows: &[f64], columns: &[f64], b: usize) -> f64 {
    let mut largest = 0.0_f64;
    if b == 1 {
        for ((v, row), column) in values.iter().zip(rows).zip(columns) {
            largest = largest.max((v.to_f64() * row * column).abs());
        }
        return largest;
    }
    for (t, v) in values.iter().enumerate() {
        largest = largest.max((v.to_f64() * rows[t * b] * columns[t * b]).abs());
    }
    largest
}

/// Transfers with rows and columns multiplied, each by one number.
pub fn scaled_transfer<T: Scalar>(p: &SharedTransfer<T>, rows: &[f64], columns: &[f64]) -> Result<SharedTransfer<T>> {
    let (pattern, b) = (&p.pattern, p.pattern.block);
    let coarse = pattern.grids.coarse;
    let [mx, my, _] = coarse.dims;
    let (of_fine, of_coarse) = if p.transposed { (columns, rows) } else { (rows, columns) };
    let mut values = try_vec(pattern.entries(), T::ZERO)?;
    par::for_each_row_mut(&mut values, mx, line_grain(mx), |first, lines| {
        for (n, to) in lines.chunks_exact_mut(mx).enumerate() {
            let (array, line) = ((first + n) / coarse.lines(), (first + n) % coarse.lines());
            let (step, c) = (array / b, array % b);
            let from = &p.array(step, c)[line * mx..][..mx];
            let (grids, [dx, dy, dz]) = (&pattern.grids, pattern.steps[step]);
            let (Some(y), Some(z)) = (grids.fine(1, line % my, dy), grids.fine(2, line / my, dz)) else { continue };
            let first = grids.fine.cell([0, y, z]);
            for (x, (to, v)) in to.iter_mut().zip(from).enumerate() {
                if let Some(fine) = grids.fine(0, x, dx) {
                    let fine = (first + fine) * b + c;
                    *to = T::from_f64(v.to_f64() * of_fine[fine] * of_coarse[(line * mx + x) * b + c]);
                }
            }
        }
    });
    Ok(SharedTransfer { pattern: Arc::clone(pattern), transposed: p.transposed, values: Arc::new(values) })
}

/// The matrix in another format, as [`scaling::store`] for rows.
pub(crate) fn stored<T: Scalar, S: Number>(
    a: &SharedStencil<T>,
    which: (&str, bool),
    rounding: scaling::Rounding<'_>,
) -> Result<SharedStencil<S>> {
    let values = a.values.as_slice();
    if let scaling::Rounding::Keeping(vector) = rounding
        && const { !S::PRECISION.is_scalar() }
    {
        let stored = keeping(a, vector)?;
        scaling::check_stored(values, stored.values.as_slice(), which, &|| rows_lost(a, &stored))?;
        return Ok(stored);
    }
    if const { !is_narrower::<T, S>() } {
        return a.cast();
    }
    let (narrow, lost) = scaling::narrowed(values)?;
    let stored = SharedStencil { pattern: Arc::clone(&a.pattern), values: Arc::new(narrow) };
    scaling::check_counts::<S>(which, values.len(), lost, &|| rows_lost(a, &stored))?;
    Ok(stored)
}

/// Transfers in another format.
pub(crate) fn stored_transfer<T: Scalar, S: Number>(
    p: &SharedTransfer<T>,
    which: (&str, bool),
) -> Result<SharedTransfer<S>> {
    if const { !is_narrower::<T, S>() } {
        return p.cast();
    }
    let (values, lost) = scaling::narrowed(p.values.as_slice())?;
    scaling::check_counts::<S>(which, values.len(), lost, &|| Ok(0))?;
    Ok(SharedTransfer { pattern: Arc::clone(&p.pattern), transposed: p.transposed, values: Arc::new(values) })
}

/// Rows of which every entry became too small.
fn rows_lost<T: Scalar, S: Number>(exact: &SharedStencil<T>, stored: &SharedStencil<S>) -> Result<u64> {
    let (cells, b) = (exact.pattern.grid.cells(), exact.pattern.block);
    let counts = par::map_ranges(cells, par::ROW_GRAIN, |range| {
        let mut lost = 0;
        for (i, r) in range.flat_map(|i| (0..b).map(move |r| (i, r))) {
            let entries = || (0..exact.pattern.offsets.len()).flat_map(|k| (0..b).map(move |c| (k, c)));
            let had = entries().any(|(k, c)| exact.array(k, r, c)[i] != T::ZERO);
            let kept = entries().any(|(k, c)| !crate::precision::is_too_small(stored.array(k, r, c)[i]));
            lost += u64::from(had && !kept);
        }
        Ok(lost)
    })?;
    Ok(counts.into_iter().sum())
}

/// Rounds the entries of each row from the largest to the smallest, and carries the error in the product with `vector` to the next one.
fn keeping<T: Scalar, S: Number>(a: &SharedStencil<T>, vector: &[f64]) -> Result<SharedStencil<S>> {
    let (grid, b) = (&a.pattern.grid, a.pattern.block);
    let mut values = try_vec(a.pattern.entries(), S::ZERO)?;
    for cell in 0..grid.cells() {
        let at = grid.point(cell);
        for r in 0..b {
            let mut row = [(0.0, 0, 0.0); 27 * 8];
            let mut count = 0;
            for (k, offset) in a.pattern.offsets.iter().enumerate() {
                let Some(to) = grid.neighbour(at, *offset) else { continue };
                for c in 0..b {
                    let place = a.pattern.array(k, r, c) + cell;
                    row[count] = (a.values.as_slice()[place].to_f64(), place, vector[to * b + c]);
                    count += 1;
                }
            }
            scaling::round_row(&mut row[..count], &mut values);
        }
    }
    Ok(SharedStencil { pattern: Arc::clone(&a.pattern), values: Arc::new(values) })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::host::scaling::Rounding;
    use crate::sparse::Grid;
    use half::f16;

    /// Matrices on grids, and the same in rows.
    fn cases() -> Vec<(SharedStencil<f64>, crate::sparse::SharedCsr<f64>)> {
        [("jumps:6", [6; 3]), ("elasticity:3", [3, 4, 4]), ("convection_diffusion:7x5", [7, 5, 1])]
            .into_iter()
            .map(|(name, dims)| {
                let a = gallery::parse(name).unwrap().matrix;
                (SharedStencil::from_rows(&a, Grid::new(dims)).unwrap(), a.into_shared())
            })
            .collect()
    }

    #[test]
    fn diagonals_factors_and_scaled_matrices_are_those_in_rows() {
        for (a, rows) in cases() {
            let view = rows.view();
            assert_eq!(diagonal(&a).unwrap(), diagonal::entries(&view).unwrap());
            for width in [1, a.pattern.block] {
                for l1 in [false, true] {
                    let expected: Vec<f64> = match l1 {
                        true => diagonal::l1_inverse(&view, width, None).unwrap(),
                        false => diagonal::inverse(&view, width, diagonal::AS_IT_IS).unwrap(),
                    };
                    let found = inverse_diagonal(&a, width, l1, None).unwrap();
                    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-14 * b.abs().max(1.0)));
                }
            }
            for name in ["diagonal", "equilibrate", "auto"] {
                let s = factors(&a, name).unwrap();
                assert_eq!(s, scaling::factors(&rows, name).unwrap());
                let inverse: Vec<f64> = s.iter().map(|s| 1.0 / s).collect();
                let found = scaled(&a, &inverse, &inverse).unwrap();
                let expected = scaling::apply(&rows, |i| inverse[i], |j| inverse[j]).unwrap();
                assert_eq!(found.to_rows().unwrap().values.as_slice(), expected.values.as_slice());
                for rounding in [Rounding::Nearest, Rounding::Keeping(&s)] {
                    let found: SharedStencil<f16> = stored(&found, ("matrix", true), rounding).unwrap();
                    let expected = scaling::store::<f64, f16>(&expected, ("matrix", true), rounding).unwrap();
                    assert!(found.to_rows().unwrap().values.as_slice() == expected.values.as_slice());
                }
            }
        }
    }
}
