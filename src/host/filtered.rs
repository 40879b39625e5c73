//! Filtered prolongators: the smallest blocks of each row are dropped as long as a share of its norm stays, and the others
//! are corrected so that the row maps the near-null space of the coarse level to what it did before.
//!
//! With the dropped blocks P_g of a row, their action R = Σ P_g B_g, and the Gram matrix G = Σ B_gᵀ B_g of the near-null
//! space on the aggregates that are kept, the correction P_g + R G⁻¹ B_gᵀ is the least one that does so.

use super::energy::Constraint;
use super::{HostMatrix, HostPattern};
use crate::backend::common::{MAX_BLOCK, MAX_CORRECTION, MAX_FILTERED, MAX_UNCORRECTED};
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{CsrView, NearNullSpace, SharedCsr, Structure};
use std::sync::Arc;

/// As [`crate::backend::setup::NearNullVectors::filtered`].
pub(super) fn filtered<T: Scalar>(
    p: &HostMatrix<T>,
    space: &NearNullSpace,
    share: f64,
    pattern: Option<&HostPattern>,
) -> Result<HostMatrix<T>> {
    let p = p.rows();
    let structure = match pattern {
        Some(pattern) => Arc::clone(pattern.rows()),
        None => Arc::new(kept_pattern(p, space, share)?),
    };
    let values = corrected(&p.view(), &structure, &Constraint::new(&structure, space)?)?;
    Ok(SharedCsr { structure, values: Arc::new(values) }.into())
}

/// The blocks that stay. A row whose remaining blocks cannot be corrected stays whole.
fn kept_pattern<T: Scalar>(p: &SharedCsr<T>, space: &NearNullSpace, share: f64) -> Result<Structure> {
    let whole = &p.structure;
    let (offsets, columns) = whole.own_arrays();
    let mut kept = flags(&p.view(), offsets, share)?;
    let constraint = Constraint::of_kept(whole, Some(&kept), space)?;
    par::for_each_segment_mut(&mut kept, offsets, 1, par::ROW_GRAIN, |range, piece| {
        let first = offsets[range.start] as usize;
        for i in range {
            let own = offsets[i] as usize - first..offsets[i + 1] as usize - first;
            if !can_be_corrected(&p.view(), i, &piece[own.clone()], &constraint) {
                piece[own].fill(1);
            }
        }
    });
    let row = |i: usize| offsets[i] as usize..offsets[i + 1] as usize;
    let to_offsets = par::offsets(whole.rows, |i| kept[row(i)].iter().filter(|kept| **kept != 0).count())?;
    let mut to_columns = try_vec(to_offsets[whole.rows] as usize, 0_i32)?;
    par::for_each_segment_mut(&mut to_columns, &to_offsets, 1, par::ROW_GRAIN, |range, piece| {
        let from = offsets[range.start] as usize..offsets[range.end] as usize;
        let stay = columns[from.clone()].iter().zip(&kept[from]).filter(|(_, kept)| **kept != 0);
        piece.iter_mut().zip(stay).for_each(|(to, (column, _))| *to = *column);
    });
    Ok(Structure::new(whole.rows, whole.cols, whole.block, to_offsets, to_columns))
}

/// Whether the blocks of row `i` that are kept can do what all of them do, after a correction that is small beside the row. A vector that they have
/// lost does not matter where the others did nothing with it, as where the row of one displacement loses those of another.
fn can_be_corrected<T: Scalar>(p: &CsrView<'_, T>, i: usize, kept: &[i32], constraint: &Constraint<'_>) -> bool {
    let (m, k) = (p.block.cols, constraint.space.count);
    let inverse = &constraint.inverse[i * k * k..][..k * k];
    let (mut whole, mut changed) = (0.0, 0.0);
    for r in 0..p.block.rows {
        let (mut action, mut size) = ([0.0; MAX_BLOCK], [0.0; MAX_BLOCK]);
        for ((g, block), kept) in p.row(i).zip(kept) {
            for q in 0..m {
                let value = block[r * m + q].to_f64();
                whole += value * value;
                for c in 0..k {
                    let product = value * constraint.at(g as i32, q, c);
                    size[c] += product.abs();
                    action[c] += if *kept == 0 { product } else { 0.0 };
                }
            }
        }
        let (mut multipliers, mut corrected) = ([0.0; MAX_BLOCK], [0.0; MAX_BLOCK]);
        for c in 0..k {
            for q in 0..k {
                multipliers[c] += action[q] * inverse[q * k + c];
            }
        }
        for ((g, _), _) in p.row(i).zip(kept).filter(|(_, kept)| **kept != 0) {
            for q in 0..m {
                let mut change = 0.0;
                for (c, multiplier) in multipliers[..k].iter().enumerate() {
                    change += multiplier * constraint.at(g as i32, q, c);
                }
                changed += change * change;
                for (c, corrected) in corrected[..k].iter_mut().enumerate() {
                    *corrected += change * constraint.at(g as i32, q, c);
                }
            }
        }
        if (0..k).any(|c| (action[c] - corrected[c]).abs() > MAX_UNCORRECTED * size[c]) {
            return false;
        }
    }
    changed <= MAX_CORRECTION * whole
}

/// 1 for each block that stays by its norm alone, 0 for the others. A block is dropped where the squares of the norms of
/// all that are no larger, those of the same size before it included, are less than what may be lost.
fn flags<T: Scalar>(p: &CsrView<'_, T>, offsets: &[i64], share: f64) -> Result<Vec<i32>> {
    let width = p.block.len();
    let mut norms = try_vec(p.columns.len(), 0.0)?;
    par::for_each_row_mut(&mut norms, 1, par::ROW_GRAIN, |start, piece| {
        for (norm, block) in piece.iter_mut().zip(p.values[start * width..].chunks_exact(width)) {
            block.iter().for_each(|v| *norm += v.to_f64() * v.to_f64());
        }
    });
    let lost = 1.0 - share * share;
    let mut kept = try_vec(norms.len(), 1)?;
    par::for_each_segment_mut(&mut kept, offsets, 1, par::ROW_GRAIN, |range, piece| {
        let first = offsets[range.start] as usize;
        for i in range {
            let row = offsets[i] as usize..offsets[i + 1] as usize;
            if row.len() > MAX_FILTERED {
                continue;
            }
            let of_row = &norms[row.clone()];
            let limit = lost * of_row.iter().sum::<f64>();
            for (b, kept) in piece[row.start - first..row.end - first].iter_mut().enumerate() {
                let is_before = |(c, norm): &(usize, &f64)| **norm < of_row[b] || **norm == of_row[b] && *c <= b;
                let smaller: f64 = of_row.iter().enumerate().filter(is_before).map(|(_, norm)| norm).sum();
                *kept = i32::from(smaller >= limit);
            }
        }
    });
    Ok(kept)
}

/// The values of the blocks that stay.
fn corrected<T: Scalar>(p: &CsrView<'_, T>, to: &Structure, constraint: &Constraint<'_>) -> Result<Vec<T>> {
    let (rows, m, width) = (to.block.rows, to.block.cols, to.block.len());
    let k = constraint.space.count;
    let (offsets, columns) = to.own_arrays();
    let mut values = try_vec(columns.len() * width, T::ZERO)?;
    par::for_each_segment_mut(&mut values, offsets, width, par::ROW_GRAIN, |range, piece| {
        let first = offsets[range.start] as usize;
        for i in range {
            let row = offsets[i] as usize..offsets[i + 1] as usize;
            let out = &mut piece[(row.start - first) * width..(row.end - first) * width];
            let (mut action, mut multipliers) = ([0.0; MAX_BLOCK * MAX_BLOCK], [0.0; MAX_BLOCK * MAX_BLOCK]);
            let mut next = 0;
            for (g, block) in p.row(i) {
                if row.start + next < row.end && columns[row.start + next] as usize == g {
                    out[next * width..][..width].copy_from_slice(block);
                    next += 1;
                    continue;
                }
                for (e, sum) in action[..rows * k].iter_mut().enumerate() {
                    for q in 0..m {
                        *sum += block[e / k * m + q].to_f64() * constraint.at(g as i32, q, e % k);
                    }
                }
            }
            let inverse = &constraint.inverse[i * k * k..][..k * k];
            for (e, sum) in multipliers[..rows * k].iter_mut().enumerate() {
                for q in 0..k {
                    *sum += action[e / k * k + q] * inverse[q * k + e % k];
                }
            }
            for (g, block) in columns[row].iter().zip(out.chunks_exact_mut(width)) {
                for (e, value) in block.iter_mut().enumerate() {
                    let mut change = 0.0;
                    for q in 0..k {
                        change += multipliers[e / m * k + q] * constraint.at(*g, e % m, q);
                    }
                    *value = T::from_f64(value.to_f64() + change);
                }
            }
        }
    });
    Ok(values)
}

#[cfg(feature = "unit-tests")]
pub(crate) mod tests {
    use super::*;
    use crate::backend::parameters::Estimate;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::{Host, mis2, smoothed, spmv, strength, tentative};

    /// A smoothed prolongator in flat elements, where many of its blocks are small, and the near-null space of the coarse level.
    pub(crate) fn prolongator() -> (SharedCsr<f64>, NearNullSpace) {
        let problem = gallery::parse("elasticity_jittered:6x5x4:height=0.2").unwrap().into_matrix().unwrap();
        let (a, space) = (problem.shared::<f64>().unwrap(), problem.near_null_space().unwrap());
        let s = strength::Symmetric::new(&a.view()).unwrap().graph(0.04).unwrap();
        let (of, count) = mis2::aggregate(&s, 0).unwrap();
        let (p0, coarse) = tentative::prolongator::<f64>(&of, count, &space).unwrap();
        let host = Host::new(&Context::new("host:1").unwrap());
        let how = (4.0 / 3.0, Estimate { lanczos: true, steps: 5 });
        let step = smoothed::Step::new(&host, &a.view(), &s, how, None).unwrap();
        (step.smooth(&p0).unwrap().into_shared(), coarse)
    }

    #[test]
    fn small_blocks_are_dropped_and_the_action_on_the_near_null_space_stays() {
        let (p, coarse) = prolongator();
        let whole: HostMatrix<f64> = p.clone().into();
        let filtered = filtered(&whole, &coarse, 0.95, None).unwrap();
        let (before, after) = (p.view(), filtered.view());
        assert!(after.columns.len() < before.columns.len() * 4 / 5, "{} {}", after.columns.len(), before.columns.len());
        for b in coarse.vectors.chunks_exact(p.structure.cols * 6) {
            let (mut of_whole, mut of_filtered) = (vec![0.0; before.scalar_rows()], vec![0.0; before.scalar_rows()]);
            spmv::apply(&before, 1.0, b, 0.0, &mut of_whole);
            spmv::apply(&after, 1.0, b, 0.0, &mut of_filtered);
            assert!(of_whole.iter().zip(&of_filtered).all(|(x, y)| (x - y).abs() < 1e-11));
        }
        let norm = |blocks: &[f64]| blocks.iter().map(|v| v * v).sum::<f64>();
        for i in 0..before.rows {
            let kept: Vec<usize> = after.row(i).map(|(g, _)| g).collect();
            let sizes: Vec<(bool, f64)> = before.row(i).map(|(g, b)| (kept.contains(&g), norm(b))).collect();
            let all: f64 = sizes.iter().map(|(_, norm)| norm).sum();
            let left: f64 = sizes.iter().filter(|(kept, _)| *kept).map(|(_, norm)| norm).sum();
            assert!(left >= 0.95 * 0.95 * all * (1.0 - 1e-12), "row {i}");
            // What is dropped is no larger than what stays.
            let largest = sizes.iter().filter(|(kept, _)| !kept).fold(0.0, |m: f64, (_, norm)| m.max(*norm));
            assert!(sizes.iter().all(|(kept, norm)| !kept || *norm >= largest), "row {i}");
        }
        // The same values on a pattern that is known.
        let again =
            super::filtered(&whole, &coarse, 0.95, Some(&HostPattern::Rows(Arc::clone(&filtered.rows().structure))));
        assert_eq!(again.unwrap().view().values, after.values);
        // All of the norm: nothing changes.
        let same = super::filtered(&whole, &coarse, 1.0, None).unwrap();
        assert_eq!((same.view().columns, same.view().values), (before.columns, before.values));
    }

    /// Two aggregates of one vector each: what a dropped entry did goes to the other in proportion to its vector. With two vectors
    /// an aggregate alone has lost one of them, and the row stays.
    #[test]
    fn a_row_that_would_lose_a_vector_stays_whole() {
        let structure = Arc::new(Structure::new(1, 2, crate::sparse::Block::SCALAR, vec![0, 2], vec![0, 1]));
        let p: HostMatrix<f64> = SharedCsr { structure, values: Arc::new(vec![1.0, 0.01]) }.into();
        let one = NearNullSpace { dofs_per_node: 1, count: 1, vectors: vec![2.0, 3.0] };
        let filtered = filtered(&p, &one, 0.9, None).unwrap();
        assert_eq!(filtered.view().columns, [0]);
        assert!((filtered.view().values[0] - (1.0 + 0.01 * 3.0 / 2.0)).abs() < 1e-15);

        // Blocks of 1 x 2; the second vector is zero on the first aggregate.
        let block = crate::sparse::Block { rows: 1, cols: 2 };
        let structure = Arc::new(Structure::new(1, 2, block, vec![0, 2], vec![0, 1]));
        let p: HostMatrix<f64> = SharedCsr { structure, values: Arc::new(vec![1.0, 0.0, 0.01, 0.02]) }.into();
        let vectors = vec![2.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let two = NearNullSpace { dofs_per_node: 2, count: 2, vectors };
        assert_eq!(super::filtered(&p, &two, 0.9, None).unwrap().view().values, [1.0, 0.0, 0.01, 0.02]);
        // Unless the dropped entry did nothing with it.
        let structure = Arc::new(Structure::new(1, 2, block, vec![0, 2], vec![0, 1]));
        let p: HostMatrix<f64> = SharedCsr { structure, values: Arc::new(vec![1.0, 0.0, 0.01, 0.0]) }.into();
        let filtered = super::filtered(&p, &two, 0.9, None).unwrap();
        assert!((filtered.view().values[0] - (1.0 + 0.01 * 3.0 / 2.0)).abs() < 1e-15, "{:?}", filtered.view().values);
        assert_eq!(filtered.view().columns, [0]);
    }
}
