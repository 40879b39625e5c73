//! The direct solver against dense elimination, on problems of the gallery, on matrices with a known inertia, and on
//! matrices that it must refuse.

use super::*;
use crate::backend::Operator;
use crate::context::Context;
use crate::gallery;
use crate::hash::hash;
use crate::host::Host;

/// Numbers between -1 and 1 that look random.
fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729 + 13) as f64).sin()).collect()
}

fn triplets(a: &Csr<f64>) -> Vec<(usize, usize, f64)> {
    let a = a.view().to_scalar().unwrap();
    (0..a.rows).flat_map(|i| a.view().row(i).map(|(j, v)| (i, j, v[0])).collect::<Vec<_>>()).collect()
}

/// The dense solution by elimination with row exchanges; a system of few rows.
fn dense(a: &Csr<f64>, b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut m = vec![vec![0.0; n + 1]; n];
    triplets(a).iter().for_each(|(i, j, v)| m[*i][*j] += v);
    m.iter_mut().zip(b).for_each(|(row, b)| row[n] = *b);
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| m[*i][k].abs().total_cmp(&m[*j][k].abs())).unwrap();
        m.swap(k, pivot);
        let of_pivot = m[k].clone();
        for row in &mut m[k + 1..] {
            let factor = row[k] / of_pivot[k];
            row.iter_mut().zip(&of_pivot).for_each(|(v, p)| *v -= factor * p);
        }
    }
    let mut x = vec![0.0; n];
    for i in (0..n).rev() {
        x[i] = (m[i][n] - (i + 1..n).map(|j| m[i][j] * x[j]).sum::<f64>()) / m[i][i];
    }
    x
}

fn solved(a: &Csr<f64>, b: &[f64]) -> (SparseDirect, Vec<f64>, Solution) {
    let mut direct = SparseDirect::new(&a.view(), ZeroPivots::Refuse).unwrap();
    let mut x = vec![f64::NAN; b.len()];
    let solution = direct.solve(b, &mut x, 1e-8);
    (direct, x, solution)
}

/// Rows and columns in an order that looks random.
fn shuffled(a: &Csr<f64>) -> Csr<f64> {
    let a = a.view().to_scalar().unwrap();
    let mut order: Vec<usize> = (0..a.rows).collect();
    order.sort_by(|i, j| numbers(i + 1, 3)[*i].total_cmp(&numbers(j + 1, 3)[*j]));
    let t: Vec<_> = triplets(&a).iter().map(|(i, j, v)| (order[*i], order[*j], *v)).collect();
    Csr::from_triplets(a.rows, a.cols, &t).unwrap()
}

/// A small problem of each kind in the gallery.
fn problems() -> Vec<(&'static str, Csr<f64>)> {
    let names = [
        "poisson5:17",
        "poisson7:7",
        "poisson9:12",
        "poisson27:6",
        "anisotropic:15",
        "jumps:8",
        "rotated_anisotropic:12",
        "random_m_matrix:200",
        "lshape:2",
        "elasticity:3",
        "convection_diffusion:15",
        "hubs:200:hubs=1,every=2",
    ];
    names.iter().map(|name| (*name, gallery::parse(name).unwrap_or_else(|e| panic!("{name}: {e}")).matrix)).collect()
}

#[test]
fn problems_of_the_gallery_have_the_dense_solution() {
    for (name, a) in problems() {
        for (order, a) in [("natural", a.clone()), ("shuffled", shuffled(&a))] {
            let n = a.view().scalar_rows();
            let b = numbers(n, 1);
            let (direct, x, solution) = solved(&a, &b);
            let expected = dense(&a, &b);
            let size = max_norm(&expected);
            let error = x.iter().zip(&expected).fold(0.0_f64, |m, (x, e)| m.max((x - e).abs()));
            assert!(error <= 1e-8 * size, "{name} in {order} order: {error:e} of {size:e}");
            assert!(solution.residual < 1e-12, "{name}: {}", solution.residual);
            let is_symmetric = !name.starts_with("convection");
            let is_cholesky = matches!(direct.method(), Method::Cholesky | Method::DenseCholesky);
            assert_eq!(is_cholesky, is_symmetric, "{name}: {:?}", direct.method());
            assert!(direct.bytes() >= 8 * direct.fill(), "{name}");
        }
    }
}

#[test]
fn factors_solve_with_the_transpose_too() {
    let saddle = [(0, 1, 2.0), (0, 2, 1e-3), (1, 0, 1e4), (1, 1, 1.0), (2, 2, -5.0), (2, 0, 1.0)];
    let saddle = ("no diagonal", Csr::from_triplets(3, 3, &saddle).unwrap());
    for (name, a) in problems().into_iter().chain([saddle]) {
        // Rows and columns in units of their own.
        let unlike = |(i, j, v): (usize, usize, f64)| (i, j, v * (1.0 + (i % 5) as f64) * (2.0 - (j % 3) as f64 / 2.0));
        let n = a.view().scalar_rows();
        let a = Csr::from_triplets(n, n, &triplets(&a).into_iter().map(unlike).collect::<Vec<_>>()).unwrap();
        let transpose = transpose(&a.view()).unwrap();
        let b = numbers(n, 4);
        let (mut direct, x, _) = solved(&a, &b);
        assert!(matches!(direct.method(), Method::Lu | Method::DenseLu), "{name}");
        let (fill, bytes) = (direct.fill(), direct.bytes());
        direct.set_transposed(true).unwrap();
        let mut y = vec![f64::NAN; n];
        let solution = direct.solve(&b, &mut y, 1e-8);
        let expected = dense(&transpose, &b);
        let error = y.iter().zip(&expected).fold(0.0_f64, |m, (y, e)| m.max((y - e).abs()));
        assert!(error <= 1e-8 * max_norm(&expected), "{name}: {error:e}");
        assert!(solution.residual < 1e-12 && direct.residual(&b, &y) < 1e-12, "{name}: {}", solution.residual);
        assert!(direct.residual(&b, &x) > 1e-3, "{name}: the other system");
        assert_eq!(direct.fill(), fill);
        assert!(direct.bytes() <= bytes + 12 * a.columns.len() + 8 * (n + 1), "{name}: no other factors");
        // The system of before, with the same bits.
        direct.set_transposed(false).unwrap();
        let mut again = vec![f64::NAN; n];
        direct.solve(&b, &mut again, 1e-8);
        assert_eq!(again, x, "{name}");
        let mut updated = direct.update(&transpose.view()).unwrap();
        updated.solve(&b, &mut again, 1e-8);
        assert!(again.iter().zip(&expected).all(|(x, e)| (x - e).abs() <= 1e-8 * max_norm(&expected)), "{name}");
    }
}

/// nnz(L) and the operations are those of an elimination that keeps the pattern of all columns.
#[test]
fn counts_are_those_of_a_symbolic_elimination() {
    for (name, a) in problems() {
        let Scalars { a, transpose: transposed } = Scalars::new(&shuffled(&a).view()).unwrap();
        let pattern = Pattern::sum(&a, &transposed).unwrap();
        let tree = Tree::new(&pattern, &ordering::minimum_degree(&pattern).unwrap()).unwrap();
        let n = a.rows;
        let mut sorted = tree.order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(k, i)| k == *i as usize), "{name}: not a permutation");
        let mut below: Vec<std::collections::BTreeSet<usize>> = vec![Default::default(); n];
        for i in 0..n {
            for j in pattern.row(i) {
                let (i, j) = (tree.position[i] as usize, tree.position[*j as usize] as usize);
                below[i.min(j)].insert(i.max(j));
            }
        }
        let (mut fill, mut flops) = (0, 0.0);
        for j in 0..n {
            let column = std::mem::take(&mut below[j]);
            fill += column.len() + 1;
            flops += ((column.len() + 1) as f64).powi(2);
            if let Some(first) = column.first() {
                let rest: Vec<usize> = column.iter().copied().filter(|i| i != first).collect();
                below[*first].extend(rest);
            }
        }
        assert_eq!((tree.fill(), tree.flops()), (fill, flops), "{name}");
    }
}

/// On a grid the ordering has to be far better than the natural one, and near what nested dissection gives.
#[test]
fn the_ordering_has_little_fill() {
    let fill = |name: &str| Plan::new(&gallery::parse(name).unwrap().matrix.view()).unwrap().fill() as f64;
    // In the natural order the factors have 40^3 = 64,000 and about 1,000 * 100 = 100,000 entries.
    assert!(fill("poisson5:40") < 24_000.0, "{}", fill("poisson5:40"));
    assert!(fill("poisson7:10") < 35_000.0, "{}", fill("poisson7:10"));
}

#[test]
fn blocks_and_f32_are_taken() {
    let blocks = gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix;
    assert!(blocks.block.rows == 3);
    let scalar = blocks.view().to_scalar().unwrap();
    let b = numbers(scalar.rows, 1);
    assert_eq!(solved(&blocks, &b).1, solved(&scalar, &b).1);
    let narrow = blocks.view().to_owned_as::<f32>().unwrap();
    let mut direct = SparseDirect::new(&narrow.view(), ZeroPivots::Refuse).unwrap();
    let x = direct.inverse_times(std::iter::repeat_n(1.0, b.len()));
    let wide = solved(&narrow.view().to_owned_as::<f64>().unwrap(), &vec![1.0; b.len()]).1;
    assert!(x.iter().zip(&wide).all(|(x, w)| (x - w).abs() <= 1e-10 * max_norm(&wide)));
}

#[test]
fn unsorted_columns_are_taken() {
    let mut a = gallery::poisson5(9, 7).unwrap();
    let (b, expected) = (numbers(63, 2), solved(&a, &numbers(63, 2)).1);
    for i in 0..a.rows {
        let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
        a.columns[row.clone()].reverse();
        a.values[row].reverse();
    }
    assert_eq!(solved(&a, &b).1, expected);
}

#[test]
fn the_smallest_systems_are_solved() {
    let none = Csr::<f64>::from_triplets(0, 0, &[]).unwrap();
    assert!(solved(&none, &[]).1.is_empty());
    let one = Csr::from_triplets(1, 1, &[(0, 0, -4.0)]).unwrap();
    let (direct, x, _) = solved(&one, &[2.0]);
    assert_eq!((x, direct.method()), (vec![-0.5], Method::Ldl { negative: 1 }));
    let diagonal: Vec<_> = (0..3000).map(|i| (i, i, (i + 1) as f64)).collect();
    let (direct, x, _) = solved(&Csr::from_triplets(3000, 3000, &diagonal).unwrap(), &vec![1.0; 3000]);
    assert!(x.iter().enumerate().all(|(i, x)| (x * (i + 1) as f64 - 1.0).abs() < 1e-15));
    assert_eq!(direct.fill(), 3000);
}

#[test]
fn a_zero_right_hand_side_has_the_zero_solution() {
    let a = gallery::poisson5(5, 5).unwrap();
    let (_, x, solution) = solved(&a, &[0.0; 25]);
    assert_eq!((x, solution.residual), (vec![0.0; 25], 0.0));
}

#[test]
fn separate_parts_are_solved_together() {
    let part = triplets(&gallery::poisson5(6, 6).unwrap());
    let mut t = part.clone();
    t.extend(part.iter().map(|(i, j, v)| (i + 37, j + 37, v * 1e6)));
    t.push((36, 36, 1e-9));
    let a = Csr::from_triplets(73, 73, &t).unwrap();
    let b = vec![1.0; 73];
    let (_, x, solution) = solved(&a, &b);
    assert!((x[36] * 1e-9 - 1.0).abs() < 1e-14 && solution.residual < 1e-14);
    assert!((0..36).all(|i| (x[i] - x[37 + i] * 1e6).abs() < 1e-12));
}

#[test]
fn the_inertia_of_symmetric_matrices_is_reported() {
    // The spectrum of the shifted Laplacian is known: 4 - 2 cos - 2 cos - shift.
    let (n, shift) = (12, 1.0);
    let mut a = gallery::poisson5(n, n).unwrap();
    let eigenvalue = |i: usize| 2.0 - 2.0 * (std::f64::consts::PI * (i + 1) as f64 / (n + 1) as f64).cos();
    let below = (0..n * n).filter(|k| eigenvalue(k / n) + eigenvalue(k % n) < shift).count();
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            a.values[k] -= if a.columns[k] as usize == i { shift } else { 0.0 };
        }
    }
    let b = numbers(n * n, 5);
    let (direct, x, solution) = solved(&a, &b);
    assert_eq!(direct.method(), Method::Ldl { negative: below });
    let expected = dense(&a, &b);
    assert!(x.iter().zip(&expected).all(|(x, e)| (x - e).abs() <= 1e-10 * max_norm(&expected)));
    assert!(solution.residual < 1e-12);
    a.values.iter_mut().for_each(|v| *v = -*v);
    assert_eq!(solved(&a, &b).0.method(), Method::Ldl { negative: n * n - below });
}

#[test]
fn matrices_that_need_row_exchanges_are_solved_by_lu() {
    let exchange = [(0, 1, 2.0), (1, 0, 1.0), (1, 1, 1.0), (2, 2, -5.0), (2, 0, 1.0)];
    let (direct, x, _) = solved(&Csr::from_triplets(3, 3, &exchange).unwrap(), &[2.0, 3.0, -3.0]);
    assert_eq!((x, direct.method()), (vec![2.0, 1.0, 1.0], Method::Lu));
    // Symmetric with a positive diagonal, and the second pivot is zero.
    let zero_pivot = [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 2, 1.0)];
    let (_, x, _) = solved(&Csr::from_triplets(3, 3, &zero_pivot).unwrap(), &[2.0, 3.0, 2.0]);
    assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-14), "{x:?}");
    // A saddle point: a Laplacian with constraints, whose diagonal is zero.
    let n = 36;
    let mut t = triplets(&gallery::poisson5(6, 6).unwrap());
    for c in 0..5 {
        for i in (c..n).step_by(5) {
            t.extend([(n + c, i, 1.0), (i, n + c, 1.0)]);
        }
    }
    let a = shuffled(&Csr::from_triplets(n + 5, n + 5, &t).unwrap());
    let b = numbers(n + 5, 7);
    let (_, x, solution) = solved(&a, &b);
    let expected = dense(&a, &b);
    assert!(x.iter().zip(&expected).all(|(x, e)| (x - e).abs() <= 1e-10 * max_norm(&expected)));
    assert!(solution.residual < 1e-12);
}

#[test]
fn singular_matrices_are_refused_with_the_unknown_or_left_out() {
    let ring = |n: usize| -> Vec<(usize, usize, f64)> {
        let steps = (0..n).map(|i| (i, (i + 1) % n));
        steps.flat_map(|(i, j)| [(i, j, -1.0), (j, i, -1.0), (i, i, 1.0), (j, j, 1.0)]).collect()
    };
    let refused = |a: &Csr<f64>| SparseDirect::new(&a.view(), ZeroPivots::Refuse).map(|_| ()).unwrap_err();
    for n in [3, 50, 3000] {
        let a = Csr::from_triplets(n, n, &ring(n)).unwrap();
        let error = refused(&a);
        assert_eq!(error.status, Status::Breakdown);
        assert!(error.message.contains("singular") && error.message.contains("unknown"), "{}", error.message);
        let mut b = vec![0.0; n];
        (b[0], b[n - 1]) = (1.0, -1.0);
        let mut direct = SparseDirect::new(&a.view(), ZeroPivots::LeaveOut(1e-12)).unwrap();
        let mut x = vec![0.0; n];
        let solution = direct.solve(&b, &mut x, 1e-8);
        assert!(solution.residual < 1e-10 && direct.left_out() == 1, "{solution:?}");
    }
    // A row and a column without entries; a column that is a multiple of another.
    assert_eq!(refused(&Csr::from_triplets(3, 3, &[(0, 0, 1.0), (2, 2, 1.0)]).unwrap()).status, Status::Breakdown);
    let dependent = [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 3.0), (1, 1, 6.0), (2, 2, 1.0), (2, 0, 1.0), (2, 1, 2.0)];
    assert_eq!(refused(&Csr::from_triplets(3, 3, &dependent).unwrap()).status, Status::Breakdown);
    let not_finite = [(0, 0, f64::NAN), (1, 1, 1.0)];
    assert_eq!(refused(&Csr::from_triplets(2, 2, &not_finite).unwrap()).status, Status::Breakdown);
}

/// Rows and columns in units that differ by 300 orders of magnitude.
#[test]
fn units_do_not_matter() {
    for name in ["poisson5:12", "convection_diffusion:12"] {
        let a = gallery::parse(name).unwrap().matrix;
        let b = numbers(a.rows, 4);
        let expected = solved(&a, &b).1;
        for scale in [1e-250, 1e200] {
            let mut scaled = a.clone();
            scaled.values.iter_mut().for_each(|v| *v *= scale);
            let (_, x, solution) = solved(&scaled, &b);
            assert!(solution.residual < 1e-12, "{name}");
            let close = x.iter().zip(&expected).all(|(x, e)| (x * scale - e).abs() <= 1e-11 * max_norm(&expected));
            assert!(close, "{name} {scale:e}");
        }
        // Unknown i in units of its own.
        let unit = |i: usize| 10.0_f64.powi((i % 7) as i32 * 20 - 60);
        let t: Vec<_> = triplets(&a).iter().map(|(i, j, v)| (*i, *j, v * unit(*i) * unit(*j))).collect();
        let scaled = Csr::from_triplets(a.rows, a.cols, &t).unwrap();
        let of_b: Vec<f64> = b.iter().enumerate().map(|(i, b)| b * unit(i)).collect();
        let x = solved(&scaled, &of_b).1;
        let close = (0..a.rows).all(|i| (x[i] * unit(i) - expected[i]).abs() <= 1e-10 * max_norm(&expected));
        assert!(close, "{name}");
    }
}

#[test]
fn an_update_gives_the_bits_of_a_new_factorisation() {
    for name in ["poisson7:9", "convection_diffusion:15"] {
        let a = gallery::parse(name).unwrap().matrix;
        let b = numbers(a.rows, 6);
        let mut changed = a.clone();
        for i in 0..a.rows {
            for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                changed.values[k] *= if a.columns[k] as usize == i { 1.5 } else { 1.0 };
            }
        }
        let mut direct = SparseDirect::new(&a.view(), ZeroPivots::Refuse).unwrap().update(&changed.view()).unwrap();
        let mut x = vec![0.0; b.len()];
        direct.solve(&b, &mut x, 1e-8);
        assert_eq!(x, solved(&changed, &b).1, "{name}");
        // Nonsymmetric values in a symmetric pattern, and back.
        let mut other = a.clone();
        other.values[1] *= 3.0;
        let mut direct = direct.update(&other.view()).unwrap();
        assert_eq!(direct.method(), Method::Lu);
        direct.solve(&b, &mut x, 1e-8);
        assert_eq!(x, solved(&other, &b).1, "{name}");
        let mut direct = direct.update(&a.view()).unwrap();
        direct.solve(&b, &mut x, 1e-8);
        assert_eq!(x, solved(&a, &b).1, "{name}");
    }
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    let a = gallery::parse("poisson27:14").unwrap().matrix;
    let b = numbers(a.rows, 8);
    let alone = solved(&a, &b).1;
    for threads in [1, 2, 5] {
        let host = Host::new(&Context::new(&format!("host:{threads}")).unwrap());
        assert_eq!(host.run(usize::MAX, || solved(&a, &b).1), alone, "{threads} threads");
    }
}

#[test]
fn refinement_reaches_what_the_condition_allows() {
    // A beam of fourth differences: the condition number is about 1e11.
    let n = 700;
    let mut t = Vec::new();
    for i in 0..n {
        for (d, v) in [(0, 6.0), (1, -4.0), (2, 1.0)] {
            t.push((i, i, if d == 0 { v } else { 0.0 }));
            if d > 0 && i + d < n {
                t.extend([(i, i + d, v), (i + d, i, v)]);
            }
        }
    }
    let a = Csr::from_triplets(n, n, &t).unwrap();
    let (direct, _, solution) = solved(&a, &vec![1.0; n]);
    assert_eq!(direct.method(), Method::Cholesky);
    assert!(solution.residual < 1e-6, "{solution:?}");
}

/// What a coarsest level is solved by: positive semidefinite matrices and regular ones, no others.
#[test]
fn an_inverse_is_that_of_regular_and_semidefinite_matrices() {
    let of =
        |t: &[(usize, usize, f64)], n: usize| SparseInverse::new(&Csr::from_triplets(n, n, t).unwrap().view()).unwrap();
    let neumann = [(0, 0, 1.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 2.0), (1, 2, -1.0), (2, 1, -1.0), (2, 2, 1.0)];
    let inverse = of(&neumann, 3).unwrap();
    let mut x = [f64::NAN; 3];
    inverse.apply(1.0, &[1.0, 0.0, -1.0], 0.0, &mut x).unwrap();
    assert!(((x[0] - x[1]) - 1.0).abs() < 1e-13 && ((x[1] - x[2]) - 1.0).abs() < 1e-13, "{x:?}");
    let mut single = [1.0_f32; 3];
    inverse.apply(2.0, &[1.0_f32, 0.0, -1.0], 1.0, &mut single).unwrap();
    assert!((0..3).all(|i| (f64::from(single[i]) - (2.0 * x[i] + 1.0)).abs() < 1e-6), "{single:?}");
    assert!(of(&[(0, 0, 2.0), (0, 1, 1.0), (1, 1, 2.0)], 2).is_some());
    assert!(of(&[(0, 0, 1.0), (1, 1, -1.0)], 2).is_some());
    assert!(of(&[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 4.0), (2, 2, -1.0)], 3).is_none());
    assert!(of(&[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 2.0), (1, 1, 2.0)], 2).is_none());
}

/// A matrix without zeros is factorised as a dense one: with and without exchanges of rows, for sizes around the blocks and tiles, its
/// transpose, new values, and one that is singular.
#[test]
fn full_matrices_are_factorised_as_dense_ones() {
    let full = |n: usize, seed: usize, diagonal: f64| {
        let entry = |k: usize| {
            (hash(k, seed as u64) % 2001) as f64 / 1000.0 - 1.0 + if k / n == k % n { diagonal } else { 0.0 }
        };
        Csr::from_triplets(n, n, &(0..n * n).map(|k| (k / n, k % n, entry(k))).collect::<Vec<_>>()).unwrap()
    };
    for (n, diagonal) in [(64, 0.0), (65, 100.0), (71, 0.0), (130, 0.0)] {
        let (a, b) = (full(n, n, diagonal), numbers(n, 5));
        let (mut direct, x, solution) = solved(&a, &b);
        assert_eq!((direct.method(), direct.fill()), (Method::DenseLu, n * n));
        let expected = dense(&a, &b);
        assert!(x.iter().zip(&expected).all(|(x, e)| (x - e).abs() < 1e-9 * max_norm(&expected)), "{n}: {solution:?}");
        let mut y = vec![f64::NAN; n];
        direct.set_transposed(true).unwrap();
        direct.solve(&b, &mut y, 1e-8);
        let expected = dense(&transpose(&a.view()).unwrap(), &b);
        assert!(y.iter().zip(&expected).all(|(y, e)| (y - e).abs() < 1e-9 * max_norm(&expected)), "{n}: transposed");
        let mut direct = direct.update(&full(n, n + 1, 3.0).view()).unwrap();
        assert!(direct.solve(&b, &mut y, 1e-8).residual < 1e-12, "{n}: new values");
    }
    let singular: Vec<_> = (0..80 * 80).map(|k| (k / 80, k % 80, (1 + k / 80) as f64)).collect();
    let singular = Csr::from_triplets(80, 80, &singular).unwrap();
    let error = SparseDirect::new(&singular.view(), ZeroPivots::Refuse).err().unwrap();
    assert_eq!(error.status, Status::Breakdown, "{error}");
}

/// A full symmetric matrix with these diagonal entries.
fn full_symmetric(n: usize, seed: u64, diagonal: impl Fn(usize) -> f64) -> Csr<f64> {
    let entry = |i: usize, j: usize| match i == j {
        true => diagonal(i),
        false => hash(i.max(j) * n + i.min(j), seed) as i64 as f64 / i64::MAX as f64,
    };
    Csr::from_triplets(n, n, &(0..n * n).map(|k| (k / n, k % n, entry(k / n, k % n))).collect::<Vec<_>>()).unwrap()
}

/// Full symmetric matrices around the sizes of blocks and groups: definite ones, indefinite ones whose signs are those of the
/// diagonal, and some that need pivots chosen by size. With their transpose, and with new values.
#[test]
fn full_symmetric_matrices_are_factorised_as_one_front() {
    for n in [64, 129, 200] {
        let dominant = |i: usize| n as f64 * if i % 5 == 2 { -1.0 } else { 1.0 };
        let negative = (0..n).filter(|i| i % 5 == 2).count();
        let zero_pivot = |i: usize| if i == 0 { 0.0 } else { n as f64 };
        for (a, method) in [
            (full_symmetric(n, 1, |_| n as f64), Method::DenseCholesky),
            (full_symmetric(n, 2, |_| -(n as f64)), Method::DenseLdl { negative: n }),
            (full_symmetric(n, 3, dominant), Method::DenseLdl { negative }),
            (full_symmetric(n, 4, zero_pivot), Method::DenseLu),
        ] {
            let b = numbers(n, 6);
            let (mut direct, x, solution) = solved(&a, &b);
            assert_eq!((direct.method(), direct.left_out()), (method, 0), "{n}");
            assert_eq!(direct.fill(), if method == Method::DenseLu { n * n } else { n * (n + 1) / 2 });
            assert!(direct.bytes() >= 8 * (direct.fill() + a.values.len()) && direct.smallest_pivot() > 0.0);
            let expected = dense(&a, &b);
            assert!(
                x.iter().zip(&expected).all(|(x, e)| (x - e).abs() <= 1e-10 * max_norm(&expected)),
                "{n} {method:?}"
            );
            assert!(solution.residual < 1e-13 && direct.residual(&b, &x) < 1e-13, "{n} {method:?}: {solution:?}");
            direct.set_transposed(true).unwrap();
            let mut y = vec![f64::NAN; n];
            direct.solve(&b, &mut y, 1e-8);
            assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() <= 1e-10 * max_norm(&expected)), "{n} {method:?}");
            // Definite values, values that are not symmetric, and those of before, in the memory of the earlier factors.
            let other = full_symmetric(n, 7, |_| 2.0 * n as f64);
            let mut unlike = other.clone();
            unlike.values[1] += 1.0;
            for (a, method) in [(&other, Method::DenseCholesky), (&unlike, Method::DenseLu), (&a, method)] {
                direct = direct.update(&a.view()).unwrap();
                direct.solve(&b, &mut y, 1e-8);
                assert_eq!((direct.method(), &y), (method, &solved(a, &b).1), "{n}");
            }
        }
    }
}

/// The plan of a full symmetric matrix has the cost that elimination in any order has.
#[test]
fn the_cost_of_full_symmetric_matrices_is_known_without_an_order() {
    let n = 100;
    let a = full_symmetric(n, 1, |_| 100.0);
    let plan = Plan::new(&a.view()).unwrap();
    assert!(plan.is_symmetric() && matches!(plan.order, Order::Dense { symmetric: true }));
    let Scalars { a: copy, transpose } = Scalars::new(&a.view()).unwrap();
    let pattern = Pattern::sum(&copy, &transpose).unwrap();
    let tree = Tree::new(&pattern, &ordering::minimum_degree(&pattern).unwrap()).unwrap();
    assert_eq!(plan.fill(), tree.fill());
    assert!((plan.flops() / tree.flops() - 1.0).abs() < 0.02);
    let (bytes, temporary) = (plan.bytes(), plan.temporary_bytes());
    let factor = plan.factorise(&a.view(), ZeroPivots::Refuse).unwrap();
    assert!(bytes >= factor.bytes() && bytes < 2 * factor.bytes() && temporary > 0);
    // Fewer entries are ordered.
    let few: Vec<_> = triplets(&a).into_iter().filter(|(i, j, _)| i.abs_diff(*j) < 10).collect();
    let few = Plan::new(&Csr::from_triplets(n, n, &few).unwrap().view()).unwrap();
    assert!(matches!(few.order, Order::Symmetric(_)));
}

#[test]
fn full_semidefinite_matrices_are_refused_with_the_unknown_or_left_out() {
    // Two complete graphs, numbered in turn, the second 1e6 times stiffer.
    let n = 150;
    let weight = |i: usize, j: usize| match (i % 2, j % 2) {
        (0, 0) => -1.0 - (i * j % 7) as f64,
        (1, 1) => -1e6 - (i * j % 5) as f64,
        _ => 0.0,
    };
    let row = |i: usize| (0..n).filter(|j| *j != i).map(|j| weight(i, j)).sum::<f64>();
    let entry = |i: usize, j: usize| if i == j { -row(i) } else { weight(i, j) };
    let t: Vec<_> = (0..n * n).map(|k| (k / n, k % n, entry(k / n, k % n))).collect();
    let a = Csr::from_triplets(n, n, &t).unwrap();
    let error = SparseDirect::new(&a.view(), ZeroPivots::Refuse).map(|_| ()).unwrap_err();
    assert!(error.status == Status::Breakdown && error.message.contains("unknown 148"), "{error}");
    let mut direct = SparseDirect::new(&a.view(), ZeroPivots::LeaveOut(1e-11)).unwrap();
    assert_eq!((direct.method(), direct.left_out()), (Method::DenseCholesky, 2));
    let (mut b, mut x) = (vec![0.0; n], vec![f64::NAN; n]);
    a.view().row(3).chain(a.view().row(4)).for_each(|(j, v)| b[j] += v[0]);
    let solution = direct.solve(&b, &mut x, 1e-8);
    assert!(solution.residual < 1e-12, "{solution:?}");
    assert_eq!((x[n - 2], x[n - 1]), (0.0, 0.0));
    let inverse = SparseInverse::new(&a.view()).unwrap().unwrap();
    assert_eq!(Operator::<Host, f64>::format(&inverse), "dense Cholesky");
}

/// A level is solved without refinement, so that the pivots of an indefinite matrix are chosen by size.
#[test]
fn the_inverse_of_an_indefinite_matrix_is_that_by_lu_and_a_singular_one_has_none() {
    let n = 150;
    let full = full_symmetric(n, 5, |i| if i == 7 { -150.0 } else { 150.0 });
    let few: Vec<_> = triplets(&full).into_iter().filter(|(i, j, _)| i.abs_diff(*j) < 3).collect();
    let few = Csr::from_triplets(n, n, &few).unwrap();
    for (a, format) in [(&full, "dense LU"), (&few, "sparse LU")] {
        let inverse = SparseInverse::new(&a.view()).unwrap().unwrap();
        assert_eq!(Operator::<Host, f64>::format(&inverse), format);
        let (x, mut again) = (numbers(n, 3), vec![f64::NAN; n]);
        let b: Vec<f64> = (0..n).map(|i| a.view().row(i).map(|(j, v)| v[0] * x[j]).sum()).collect();
        inverse.apply(1.0, &b, 0.0, &mut again).unwrap();
        assert!(x.iter().zip(&again).all(|(x, v)| (x - v).abs() < 1e-12));
        // Rows without couplings but to each other, and with that no sum.
        let singular = triplets(a).into_iter().filter(|(i, j, _)| *i < n - 2 && *j < n - 2);
        let of_two = [(n - 2, n - 2, 1.0), (n - 2, n - 1, -1.0), (n - 1, n - 2, -1.0), (n - 1, n - 1, 1.0)];
        let singular: Vec<_> = singular.chain(of_two).collect();
        let singular = Csr::from_triplets(n, n, &singular).unwrap();
        assert!(SparseInverse::new(&singular.view()).unwrap().is_none());
    }
    // The sums of the columns are zero, but for rounding, and those of the rows are not.
    let sum = |j: usize| (0..n).filter(|i| *i != j).map(|i| entry(&full, i, j) * (1 + i) as f64).sum::<f64>();
    let at = |i: usize, j: usize| if i == j { -sum(j) } else { entry(&full, i, j) * (1 + i) as f64 };
    let t: Vec<_> = (0..n * n).map(|k| (k / n, k % n, at(k / n, k % n))).collect();
    assert!(SparseInverse::new(&Csr::from_triplets(n, n, &t).unwrap().view()).unwrap().is_none());
}

#[test]
fn the_bits_of_full_symmetric_matrices_do_not_depend_on_the_number_of_threads() {
    let a = full_symmetric(300, 9, |i| if i % 3 == 0 { -300.0 } else { 300.0 });
    let b = numbers(300, 8);
    let alone = solved(&a, &b).1;
    for threads in [1, 2, 5] {
        let host = Host::new(&Context::new(&format!("host:{threads}")).unwrap());
        assert_eq!(host.run(usize::MAX, || solved(&a, &b).1), alone, "{threads} threads");
    }
}
