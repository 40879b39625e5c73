//! Irregular matrices for tests: sizes around those of warps and blocks, empty rows, a dense row, unsorted rows.

use crate::hash::hash;
use crate::sparse::Csr;

/// Square matrices.
pub(in crate::gpu) fn square() -> Vec<(String, Csr<f64>)> {
    let mut all = vec![("nothing".to_string(), Csr::from_triplets(0, 0, &[]).unwrap())];
    for n in [1, 31, 33, 255, 257] {
        all.push((format!("random of {n}"), random(n, 4, 0)));
    }
    let mut dense_row = random(300, 3, 1);
    dense_row = with_row(&dense_row, 17, (0..300).map(|j| (j, 1.0 + j as f64)).collect());
    all.push(("a dense row".to_string(), dense_row.clone()));
    all.push(("rows in no order".to_string(), shuffled(dense_row)));
    let empty: Vec<(usize, usize, f64)> = (0..70).filter(|i| i % 3 == 0).map(|i| (i, i, 2.0)).collect();
    all.push(("empty rows".to_string(), Csr::from_triplets(70, 70, &empty).unwrap()));
    all
}

/// A symmetric pattern with about `2 * half` entries in a row, all diagonals and values of both signs.
pub(in crate::gpu) fn random(n: usize, half: usize, seed: u64) -> Csr<f64> {
    let value = |e: usize| (hash(e, seed + 1) % 2001) as f64 / 1000.0 - 1.0;
    let mut triplets: Vec<(usize, usize, f64)> = (0..n).map(|i| (i, i, 4.0 + value(i))).collect();
    for e in 0..n * half {
        let (i, j) = (e / half, hash(e, seed) as usize % n);
        if i != j {
            triplets.extend([(i, j, value(e)), (j, i, value(e + n * half))]);
        }
    }
    Csr::from_triplets(n, n, &triplets).unwrap()
}

/// The matrix with another row in place of row `i`.
fn with_row(a: &Csr<f64>, i: usize, row: Vec<(usize, f64)>) -> Csr<f64> {
    let view = a.view();
    let others = (0..a.rows).filter(|r| *r != i).flat_map(|r| view.row(r).map(move |(j, v)| (r, j, v[0])));
    let triplets: Vec<_> = others.chain(row.into_iter().map(|(j, v)| (i, j, v))).collect();
    Csr::from_triplets(a.rows, a.cols, &triplets).unwrap()
}

/// The same matrix, the entries of each row in another order.
pub(in crate::gpu) fn shuffled(mut a: Csr<f64>) -> Csr<f64> {
    for i in 0..a.rows {
        let range = a.offsets[i] as usize..a.offsets[i + 1] as usize;
        let mut row: Vec<(i32, f64)> = range.clone().map(|k| (a.columns[k], a.values[k])).collect();
        row.sort_by_key(|(j, _)| hash(*j as usize, i as u64));
        for (k, (j, v)) in range.zip(row) {
            (a.columns[k], a.values[k]) = (j, v);
        }
    }
    a
}
