//! FSAI on the host: block row I of G is made from the block row g with g_I = 1 that minimises the Kaporin number det Ψ, Ψ = g A gᵀ,
//! over its pattern. With J the pattern without I, A_JJ g_J = -A_JI, and with the Cholesky factor L of A_JJ and y = -L⁻¹ A_JI, Ψ is
//! A_II - yᵀ y. With Ψ = U D Uᵀ the row is D^-½ U⁻¹ g: that of scalar rows on the same pattern, whose Kaporin numbers are D.

mod adaptive;
mod pair;
mod pattern;
mod system;

use super::{Host, HostMatrix, HostPattern, diagonal, rows};
use crate::backend::fsai::{Adaptive, Factor, FsaiFactor, MAX_BLOCK, Pair, Static};
use crate::error::{Result, try_collect, try_extend, try_push, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Csr, CsrView, SharedCsr, Structure};
use adaptive::AdaptiveRow;
use rows::RowBuilder;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use system::{MAX_FIXED, System, root, rows_of, square, transposed};

/// Calls a function with room for the rows of square blocks as its last constant.
macro_rules! with_rows {
    ($block:expr, $call:ident::<$t:ty>($($argument:expr),*)) => {{
        assert!($block.rows == $block.cols && $block.rows <= MAX_BLOCK);
        const { assert!(MAX_FIXED == 3) };
        match $block.rows {
            1 => $call::<$t, 1>($($argument),*),
            2 => $call::<$t, 2>($($argument),*),
            3 => $call::<$t, 3>($($argument),*),
            _ => $call::<$t, MAX_BLOCK>($($argument),*),
        }
    }};
}

impl FsaiFactor for Host {
    fn in_rows<T: Scalar>(&self, a: HostMatrix<T>) -> Result<HostMatrix<T>> {
        match a {
            HostMatrix::Rows(a) => Ok(a.into()),
            a => Ok(a.to_rows()?.into_owned().into()),
        }
    }

    fn adaptive<T: Scalar>(&self, a: &HostMatrix<T>, adaptive: &Adaptive) -> Result<Factor<Host, T>> {
        let (g, breakdowns) = adaptive_factor(&a.view(), adaptive)?;
        Ok(Factor { g: g.into_shared().into(), breakdowns })
    }

    fn static_pattern<T: Scalar>(&self, a: &HostMatrix<T>, wanted: &Static) -> Result<HostPattern> {
        let a = a.view();
        Ok(HostPattern::Rows(Arc::new(pattern::of_power(&a, &diagonal::entries(&a)?, wanted)?)))
    }

    fn on_pattern<T: Scalar>(&self, a: &HostMatrix<T>, pattern: &HostPattern) -> Result<Factor<Host, T>> {
        let pattern = pattern.rows();
        let (values, breakdowns) = values_on(&a.view(), pattern)?;
        let g = SharedCsr { structure: Arc::clone(pattern), values: Arc::new(values) };
        Ok(Factor { g: g.into(), breakdowns })
    }

    fn pair_on_pattern<T: Scalar>(
        &self,
        a: &HostMatrix<T>,
        transposed: &HostMatrix<T>,
        pattern: &HostPattern,
    ) -> Result<Pair<Host, T>> {
        let pattern = pattern.rows();
        let (values, breakdowns) = pair::values_on(&a.view(), &transposed.view(), pattern)?;
        let one = |first: usize| -> Result<HostMatrix<T>> {
            let values = try_collect(values.iter().skip(first).step_by(2).copied())?;
            Ok(SharedCsr { structure: Arc::clone(pattern), values: Arc::new(values) }.into())
        };
        Ok(Pair { g: one(0)?, h: one(1)?, breakdowns })
    }

    fn filtered<T: Scalar>(&self, a: &HostMatrix<T>, g: &HostMatrix<T>, share: f64) -> Result<HostPattern> {
        let pattern = pattern::without_small(&g.view(), &diagonal::entries(&a.view())?, share)?;
        Ok(HostPattern::Rows(Arc::new(pattern)))
    }
}

/// Whether a row can be scaled by the root of this.
fn is_usable<T: Scalar>(psi: T) -> bool {
    psi != T::ZERO && psi.is_finite()
}

/// The diagonal blocks; zero where there is none.
fn diagonal_blocks<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<T>> {
    let len = a.block.len();
    let mut out = try_vec(a.rows * len, T::ZERO)?;
    par::for_each_row_mut(&mut out, len, par::ROW_GRAIN, |start, out| {
        for (k, out) in out.chunks_exact_mut(len).enumerate() {
            if let Some(p) = a.row_range(start + k).find(|p| a.col(*p) == start + k) {
                out.copy_from_slice(a.block_at(p));
            }
        }
    });
    Ok(out)
}

/// The factor on an adaptive pattern, and the rows that broke down.
pub(crate) fn adaptive_factor<T: Scalar>(a: &CsrView<'_, T>, adaptive: &Adaptive) -> Result<(Csr<T>, usize)> {
    with_rows!(a.block, adaptive_blocks::<T>(a, &adaptive.for_block(a.block)))
}

fn adaptive_blocks<T: Scalar, const N: usize>(a: &CsrView<'_, T>, adaptive: &Adaptive) -> Result<(Csr<T>, usize)> {
    let (positions, diagonals) = (rows::PositionArrays::new(a.cols), diagonal_blocks(a)?);
    let (n, breakdowns) = (rows_of::<N>(a.block.rows), AtomicUsize::new(0));
    let (offsets, columns, values) = rows::build(a.rows, n * n, |range, out| {
        positions.with(|positions| {
            let mut row = AdaptiveRow::<T, N>::new(a, &diagonals, adaptive, &mut positions.at);
            let mut order = Vec::new();
            for i in range {
                let outcome = row.compute(i)?;
                if outcome != Some(true) {
                    breakdowns.fetch_add(n, Ordering::Relaxed);
                }
                match outcome {
                    Some(_) => {
                        order.clear();
                        try_extend(&mut order, 0..row.pattern.len())?;
                        sort_places(&mut order, &row.pattern);
                        let scales = row.system.last.scales();
                        for t in &order {
                            put(&row.system, &scales, (row.pattern[*t], Some(*t)), out)?;
                        }
                        put(&row.system, &scales, (i, None), out)?;
                    }
                    None => put_diagonal(i, &diagonals, n, out)?,
                }
                out.end_row();
            }
            Ok(())
        })
    })?;
    let g = Csr { rows: a.rows, cols: a.rows, block: a.block, offsets, columns, values };
    Ok((g, breakdowns.into_inner()))
}

/// Sorts places in a pattern by their columns.
fn sort_places(order: &mut [usize], pattern: &[usize]) {
    order.sort_unstable_by_key(|t| pattern[*t]);
}

/// Appends the block of a row of G for a block column and its place in J.
fn put<T: Scalar, const N: usize>(
    system: &System<T, N>,
    scales: &[T; N],
    (column, place): (usize, Option<usize>),
    out: &mut RowBuilder<T>,
) -> Result<()> {
    try_push(&mut out.columns, column as i32)?;
    let (n, block) = (system.n(), system.block(place, scales));
    block[..n].iter().try_for_each(|row| try_extend(&mut out.values, row[..n].iter().copied()))
}

/// Appends the diagonal block of a row whose diagonal block in A is not positive definite: the inverse root of each diagonal entry that
/// is positive.
fn put_diagonal<T: Scalar>(i: usize, diagonals: &[T], n: usize, out: &mut RowBuilder<T>) -> Result<()> {
    try_push(&mut out.columns, i as i32)?;
    let block = &diagonals[i * n * n..];
    for r in 0..n {
        let d = block[r * n + r];
        let scale = if d > T::ZERO && d.is_finite() { T::ONE / root(d) } else { T::ZERO };
        try_extend(&mut out.values, (0..n).map(|s| if s == r { scale } else { T::ZERO }))?;
    }
    Ok(())
}

/// The values of the factor on a pattern, and the rows that broke down.
pub(crate) fn values_on<T: Scalar>(a: &CsrView<'_, T>, pattern: &Structure) -> Result<(Vec<T>, usize)> {
    with_rows!(a.block, values_of_blocks::<T>(a, pattern))
}

fn values_of_blocks<T: Scalar, const N: usize>(a: &CsrView<'_, T>, pattern: &Structure) -> Result<(Vec<T>, usize)> {
    let (positions, diagonals) = (rows::PositionArrays::new(a.cols), diagonal_blocks(a)?);
    let (offsets, columns) = pattern.own_arrays();
    let (n, breakdowns) = (rows_of::<N>(a.block.rows), AtomicUsize::new(0));
    let (_, _, values) = rows::build(a.rows, n * n, |range, out| {
        positions.with(|positions| {
            let (at, mut system, mut couplings) = (&mut positions.at, System::<T, N>::new(n), Vec::new());
            for i in range {
                let columns = &columns[offsets[i] as usize..offsets[i + 1] as usize];
                let before = &columns[..columns.len() - 1];
                for (t, j) in before.iter().enumerate() {
                    at[*j as usize] = t as u32 + 1;
                }
                let is_definite = row_on(a, i, before, (&diagonals, &*at), &mut system, &mut couplings)?;
                before.iter().for_each(|j| at[*j as usize] = 0);
                if is_definite {
                    let scales = system.last.scales();
                    for (t, j) in before.iter().enumerate() {
                        put(&system, &scales, (*j as usize, Some(t)), out)?;
                    }
                    put(&system, &scales, (i, None), out)?;
                } else {
                    breakdowns.fetch_add(n, Ordering::Relaxed);
                    for j in before {
                        try_push(&mut out.columns, *j)?;
                        try_extend(&mut out.values, std::iter::repeat_n(T::ZERO, n * n))?;
                    }
                    if system.begin(square(&diagonals[i * n * n..], n)) {
                        put(&system, &system.last.scales(), (i, None), out)?;
                    } else {
                        put_diagonal(i, &diagonals, n, out)?;
                    }
                }
                out.end_row();
            }
            Ok(())
        })
    })?;
    Ok((values, breakdowns.into_inner()))
}

/// Solves block row i for the block columns before its diagonal, whose places, from 1 on, are given with the diagonal blocks of A.
/// False where A is not positive definite on them.
fn row_on<T: Scalar, const N: usize>(
    a: &CsrView<'_, T>,
    i: usize,
    before: &[i32],
    (diagonals, at): (&[T], &[u32]),
    system: &mut System<T, N>,
    couplings: &mut Vec<system::Square<T, N>>,
) -> Result<bool> {
    let n = rows_of::<N>(a.block.rows);
    if !system.begin(square(&diagonals[i * n * n..], n)) {
        return Ok(false);
    }
    couplings.clear();
    for _ in before {
        try_push(couplings, [[T::ZERO; N]; N])?;
    }
    let place = |j: usize| (at[j] as usize).checked_sub(1);
    for (j, block) in a.row(i) {
        if let Some(t) = place(j) {
            couplings[t] = transposed(block, n);
        }
    }
    for (t, k) in before.iter().enumerate() {
        let k = *k as usize;
        let earlier = a.row(k).filter_map(|(j, block)| place(j).filter(|u| *u < t).map(|u| (u, block)));
        if !system.append(square(&diagonals[k * n * n..], n), &couplings[t], earlier)? {
            return Ok(false);
        }
    }
    system.solve()?;
    Ok(true)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::fsai::{Fsai, Pattern};
    use crate::gallery;
    use proptest::prelude::*;

    fn factor(a: &CsrView<'_, f64>, adaptive: &Adaptive) -> Result<Csr<f64>> {
        adaptive_factor(a, adaptive).map(|(g, _)| g)
    }

    fn adaptive(steps: usize, entries: usize) -> Adaptive {
        Adaptive { steps, entries, tolerance: 0.0 }
    }

    fn problem(name: &str) -> Csr<f64> {
        gallery::parse(name).unwrap().matrix.view().to_scalar().unwrap()
    }

    fn dense(a: &Csr<f64>) -> Vec<Vec<f64>> {
        let (view, mut rows) = (a.view(), vec![vec![0.0; a.cols]; a.rows]);
        for (i, row) in rows.iter_mut().enumerate() {
            view.row(i).for_each(|(j, v)| row[j] = v[0]);
        }
        rows
    }

    /// G A Gᵀ.
    fn preconditioned(a: &Csr<f64>, g: &Csr<f64>) -> Vec<Vec<f64>> {
        let (a, g, n) = (dense(a), dense(g), a.rows);
        let times = |x: &[Vec<f64>], y: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
            let element = |i: usize, j: usize| (0..n).map(|k| x[i][k] * y(k, j)).sum();
            (0..n).map(|i| (0..n).map(|j| element(i, j)).collect()).collect()
        };
        times(&times(&g, &|i, j| a[i][j]), &|i, j| g[j][i])
    }

    #[test]
    fn with_all_columns_it_is_the_inverse_of_the_cholesky_factor() {
        for name in ["poisson5:5", "elasticity:2", "lognormal:3", "poisson9:5"] {
            let a = problem(name);
            let g = factor(&a.view(), &adaptive(a.rows, 1)).unwrap();
            for (i, row) in preconditioned(&a, &g).iter().enumerate() {
                for (j, v) in row.iter().enumerate() {
                    assert!((v - f64::from(i == j)).abs() < 1e-12, "{name} {i} {j}: {v}");
                }
            }
        }
    }

    #[test]
    fn rows_are_optimal_on_their_pattern_and_have_unit_energy() {
        for name in ["poisson7:5", "elasticity:3", "rotated_anisotropic:8", "lognormal:4"] {
            let a = problem(name);
            for (steps, entries) in [(1, 1), (4, 1), (2, 3), (8, 1)] {
                let g = factor(&a.view(), &adaptive(steps, entries)).unwrap();
                let rows = dense(&a);
                for i in 0..a.rows {
                    let row: Vec<(usize, f64)> = g.view().row(i).map(|(j, v)| (j, v[0])).collect();
                    assert!(row.is_sorted_by_key(|entry| entry.0) && row.last().unwrap().0 == i);
                    assert!(row.len() <= steps * entries + 1);
                    // (A g)_j is 0 in the pattern but for its last column, where it is 1 over g_i.
                    for (j, _) in &row {
                        let product: f64 = row.iter().map(|(k, v)| rows[*j][*k] * v).sum();
                        let expected = if *j == i { 1.0 / row.last().unwrap().1 } else { 0.0 };
                        assert!((product - expected).abs() < 1e-12 * rows[*j][*j].sqrt(), "{name} {i} {j}: {product}");
                    }
                }
            }
        }
    }

    /// The factor by parameters, and the rows that broke down.
    fn by(a: &Csr<f64>, fsai: &Fsai) -> (Csr<f64>, usize) {
        let host = Host::new(&crate::context::Context::new("host:2").unwrap());
        let Factor { g, breakdowns } = host.factor(&a.clone().into_shared().into(), fsai).unwrap();
        let g = g.rows();
        let (offsets, columns) = g.structure.own_arrays();
        let (offsets, columns, values) = (offsets.to_vec(), columns.to_vec(), g.values.as_slice().to_vec());
        (Csr { rows: a.rows, cols: a.rows, block: a.block, offsets, columns, values }, breakdowns)
    }

    fn on_power(power: usize, pre_filter: f64, post_filter: f64) -> Fsai {
        Fsai { pattern: Pattern::Static(Static { power, pre_filter }), post_filter }
    }

    /// Solves a small dense system by elimination with pivots.
    fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
        let n = b.len();
        for k in 0..n {
            let pivot = (k..n).max_by(|i, j| a[*i][k].abs().total_cmp(&a[*j][k].abs())).unwrap();
            a.swap(k, pivot);
            b.swap(k, pivot);
            let of_pivot = a[k].clone();
            for i in k + 1..n {
                let factor = a[i][k] / of_pivot[k];
                a[i].iter_mut().zip(&of_pivot).for_each(|(v, p)| *v -= factor * p);
                b[i] -= factor * b[k];
            }
        }
        for k in (0..n).rev() {
            for j in k + 1..n {
                b[k] -= a[k][j] * b[j];
            }
            b[k] /= a[k][k];
        }
        b
    }

    /// With P the pattern of row i up to i, g is the last row of the inverse of A_PP, scaled; in blocks, too.
    #[test]
    fn rows_are_those_of_the_inverse_of_dense_submatrices() {
        let cases = [("poisson7:5", 1), ("elasticity:3", 1), ("rotated_anisotropic:8", 1), ("lognormal:4", 1)];
        let of_blocks = [("elasticity:3", 3), ("lognormal:4", 2), ("rotated_anisotropic:8", 4), ("elasticity:3", 6)];
        for (name, n) in cases.into_iter().chain(of_blocks) {
            let (a, rows) = (problem(name).view().to_blocks(n).unwrap(), dense(&problem(name)));
            let adaptive = Fsai { pattern: Pattern::Adaptive(adaptive(7, 1)), post_filter: 0.0 };
            for fsai in [adaptive, on_power(1, 0.0, 0.0), on_power(2, 0.05, 0.0), on_power(3, 0.1, 0.05)] {
                let (g, breakdowns) = by(&a, &fsai);
                let g = g.view().to_scalar().unwrap();
                assert_eq!(breakdowns, 0);
                for i in 0..a.rows * n {
                    assert!(g.view().row(i).all(|(j, v)| j <= i || v[0] == 0.0), "{name} {n} {fsai:?} {i}");
                    let row: Vec<(usize, f64)> =
                        g.view().row(i).filter(|(j, _)| *j <= i).map(|(j, v)| (j, v[0])).collect();
                    let block = row.iter().map(|(j, _)| row.iter().map(|(k, _)| rows[*j][*k]).collect()).collect();
                    let mut unit = vec![0.0; row.len()];
                    *unit.last_mut().unwrap() = 1.0;
                    let x = solve(block, unit);
                    let scale = x.last().unwrap().sqrt();
                    for ((j, v), x) in row.into_iter().zip(x) {
                        let unit = rows[j][j].sqrt();
                        assert!((v - x / scale).abs() * unit < 1e-12, "{name} {n} {fsai:?} {i} {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_block_row_that_breaks_down_has_its_diagonal_block_alone_or_its_diagonal() {
        // Blocks (2 1; 1 2), an indefinite one, and (4 0; 0 4), which the first one's coupling makes indefinite.
        let t = [
            (0, 0, 2.0),
            (0, 1, 1.0),
            (1, 0, 1.0),
            (1, 1, 2.0),
            (2, 2, 4.0),
            (2, 3, 5.0),
            (3, 2, 5.0),
            (3, 3, -1.0),
            (4, 4, 4.0),
            (5, 5, 4.0),
            (4, 0, 3.0),
            (0, 4, 3.0),
        ];
        let a = Csr::from_triplets(6, 6, &t).unwrap().view().to_blocks(2).unwrap();
        for fsai in [Fsai { pattern: Pattern::Adaptive(adaptive(3, 1)), post_filter: 0.0 }, on_power(1, 0.0, 0.0)] {
            let (g, breakdowns) = by(&a, &fsai);
            assert_eq!(breakdowns, 4);
            let rows = dense(&g.view().to_scalar().unwrap());
            assert_eq!(rows[2], [0.0, 0.0, 0.5, 0.0, 0.0, 0.0]);
            assert_eq!(rows[3], [0.0; 6]);
            assert_eq!(rows[4], [0.0, 0.0, 0.0, 0.0, 0.5, 0.0]);
            assert_eq!(rows[5], [0.0, 0.0, 0.0, 0.0, 0.0, 0.5]);
        }
    }

    #[test]
    fn static_patterns_are_lower_triangles_of_powers() {
        let a = problem("poisson5:6");
        let dense_power = |power: usize| {
            let rows = dense(&a);
            let mut reached: Vec<Vec<bool>> = (0..36).map(|i| (0..36).map(|j| i == j).collect()).collect();
            for _ in 0..power {
                let step = |i: usize, j: usize| (0..36).any(|k| reached[i][k] && rows[k][j] != 0.0);
                reached = (0..36).map(|i| (0..36).map(|j| step(i, j)).collect()).collect();
            }
            reached
        };
        for power in 1..=4 {
            let (g, reached) = (by(&a, &on_power(power, 0.0, 0.0)).0, dense_power(power));
            for (i, reached) in reached.iter().enumerate() {
                let columns: Vec<usize> = g.view().row(i).map(|(j, _)| j).collect();
                assert_eq!(columns, (0..=i).filter(|j| reached[*j]).collect::<Vec<_>>(), "power {power}, row {i}");
            }
        }
        // Entries of the matrix are a quarter of the diagonal.
        assert_eq!(by(&a, &on_power(2, 0.25, 0.0)).0.columns, (0..36).collect::<Vec<i32>>());
        assert_eq!(by(&a, &on_power(4, 0.0, 1.0)).0.columns, (0..36).collect::<Vec<i32>>());
        let [all, large] = [0.0, 0.05].map(|share| by(&a, &on_power(3, 0.0, share)).0.columns.len());
        assert!(large < all && large > 36, "{large} of {all}");
    }

    #[test]
    fn larger_static_patterns_have_a_smaller_kaporin_number() {
        let a = problem("lognormal:5");
        let mut before = vec![f64::INFINITY; a.rows];
        for power in 1..=4 {
            let g = by(&a, &on_power(power, 0.0, 0.0)).0;
            for (i, before) in before.iter_mut().enumerate() {
                let last = g.values[g.offsets[i + 1] as usize - 1];
                assert!(1.0 / (last * last) <= *before * (1.0 + 1e-12), "{power} {i}");
                *before = 1.0 / (last * last);
            }
        }
    }

    /// With P the pattern of row i, its rows of G and H are the last row and column of the inverse of A_PP, scaled.
    #[test]
    fn factors_of_nonsymmetric_matrices_are_those_of_dense_submatrices() {
        let host = Host::new(&crate::context::Context::new("host:2").unwrap());
        for name in ["convection_diffusion:7", "random_m_matrix:60"] {
            let (a, rows) = (problem(name), dense(&problem(name)));
            let shared = HostMatrix::from(a.clone().into_shared());
            let transposed = crate::host::transpose::transpose(&a.view()).unwrap().into_shared().into();
            for power in 1..=3 {
                let pattern = host.static_pattern(&shared, &Static { power, pre_filter: 0.0 }).unwrap();
                let Pair { g, h, breakdowns } = host.pair_on_pattern(&shared, &transposed, &pattern).unwrap();
                assert_eq!(breakdowns, 0, "{name}");
                for i in 0..a.rows {
                    let of = |m: &HostMatrix<f64>| m.view().row(i).map(|(j, v)| (j, v[0])).collect::<Vec<_>>();
                    let (g, h) = (of(&g), of(&h));
                    let block = |swapped: bool| -> Vec<Vec<f64>> {
                        let at = |j: usize, k: usize| if swapped { rows[k][j] } else { rows[j][k] };
                        g.iter().map(|(j, _)| g.iter().map(|(k, _)| at(*j, *k)).collect()).collect()
                    };
                    let mut unit = vec![0.0; g.len()];
                    *unit.last_mut().unwrap() = 1.0;
                    let (row, column) = (solve(block(true), unit.clone()), solve(block(false), unit));
                    let scale = row.last().unwrap().sqrt();
                    for (((_, g), (_, h)), (x, y)) in g.iter().zip(&h).zip(row.iter().zip(&column)) {
                        assert!((g - x / scale).abs() < 1e-12 && (h - y / scale).abs() < 1e-12, "{name} {power} {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_of_a_given_pattern_that_breaks_down_has_its_diagonal_alone() {
        // (1 2; 2 1) is indefinite, and the last row has no positive diagonal.
        let t =
            [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0), (2, 1, 0.5), (2, 2, 4.0), (3, 2, 1.0), (3, 3, -1.0)];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        let (g, breakdowns) = by(&a, &on_power(1, 0.0, 0.0));
        assert_eq!((g.columns, breakdowns), (vec![0, 0, 1, 1, 2, 2, 3], 2));
        let (psi, last) = (4.0 - 0.25, 1.0 / (4.0_f64 - 0.25).sqrt());
        assert_eq!(g.values, [1.0, 0.0, 1.0, -0.5 * last, 1.0 / f64::sqrt(psi), 0.0, 0.0]);
    }

    #[test]
    fn a_row_without_a_positive_diagonal_is_left_out_and_a_singular_one_ends() {
        let t = [
            (0, 0, 4.0),
            (1, 1, 0.0),
            (1, 0, 1.0),
            (2, 2, -3.0),
            (3, 3, 1.0),
            (3, 0, 2.0),
            (0, 3, 2.0),
            (4, 3, 1.0),
            (4, 4, 1.0),
        ];
        let a = Csr::from_triplets(5, 5, &t).unwrap();
        let g = factor(&a.view(), &adaptive(3, 1)).unwrap();
        let rows: Vec<Vec<f64>> = dense(&g);
        assert_eq!(rows[0], [0.5, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(rows[1], [0.0; 5]);
        assert_eq!(rows[2], [0.0; 5]);
        // (4 2; 2 1) is singular, and so is (1 1; 1 1).
        assert_eq!(rows[3], [0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(rows[4], [0.0, 0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn the_pattern_does_not_depend_on_the_units_of_unknowns() {
        let a = problem("lognormal:6");
        let unit = |i: usize| 2.0_f64.powi((i % 23) as i32 - 11);
        let mut scaled = a.clone();
        for i in 0..a.rows {
            for e in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                scaled.values[e] *= unit(i) * unit(a.columns[e] as usize);
            }
        }
        let [g, h] = [&a, &scaled].map(|a| factor(&a.view(), &adaptive(6, 2)).unwrap());
        assert_eq!((&g.offsets, &g.columns), (&h.offsets, &h.columns));
        for (k, column) in g.columns.iter().enumerate() {
            assert_eq!(g.values[k], h.values[k] * unit(*column as usize));
        }
    }

    proptest! {
        /// The Kaporin number of a row is 1/g_i².
        #[test]
        fn steps_never_increase_the_kaporin_number(seed in 0_usize..500, entries in 1_usize..4, doublings in 0_u32..3) {
            let n = 1 << doublings;
            let a = problem(&format!("lognormal:4:seed={seed}")).view().to_blocks(n).unwrap();
            let mut before = vec![f64::INFINITY; a.rows * n];
            for steps in 1..6 {
                let g = factor(&a.view(), &adaptive(steps, entries)).unwrap();
                for (i, before) in before.iter_mut().enumerate() {
                    let block = g.view().block_at(g.offsets[i / n + 1] as usize - 1);
                    let last = block[i % n * (n + 1)];
                    prop_assert!(1.0 / (last * last) <= *before);
                    *before = 1.0 / (last * last);
                }
            }
        }
    }
}
