//! The factors of a matrix that is not symmetric: lower triangular G and H on one pattern with G A Hᵀ ≈ I.
//!
//! With J the columns of the pattern before i, g_J A_JJ = -A_iJ and A_JJ h_J = -A_Ji. Row i of G is (g_J, 1) and that of H is
//! (h_J, 1), scaled so that (G A Hᵀ)_ii = 1. A_JJ = L U grows by a row and a column for each column of J, with a unit diagonal
//! of L; y = -L⁻¹ A_Ji, z U = -A_iJ, and ψ = a_ii - z·y.

use super::is_usable;
use crate::backend::fsai::smallest_pivot;
use crate::error::{Result, try_push};
use crate::host::{diagonal, rows};
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView, Structure};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system of a row.
struct System<T> {
    /// The rows of L without the diagonal, and the columns of U, one behind the other; row m begins at m (m + 1)/2.
    l: Vec<T>,
    u: Vec<T>,
    y: Vec<T>,
    z: Vec<T>,
    g: Vec<T>,
    h: Vec<T>,
    psi: T,
}

fn begin_of(row: usize) -> usize {
    row * (row + 1) / 2
}

impl<T: Scalar> System<T> {
    fn new() -> System<T> {
        let [l, u, y, z, g, h] = [(); 6].map(|()| Vec::new());
        System { l, u, y, z, g, h, psi: T::ZERO }
    }

    fn begin(&mut self, diagonal: T) {
        for list in [&mut self.l, &mut self.u, &mut self.y, &mut self.z, &mut self.g, &mut self.h] {
            list.clear();
        }
        self.psi = diagonal;
    }

    /// Appends a column k with diagonal `own` and the couplings a_ik and a_ki. `couplings` writes a_kj and a_jk of the columns
    /// in J over zeros. False where there is no pivot.
    fn append(&mut self, own: T, (a_ik, a_ki): (T, T), couplings: impl FnOnce(&mut [T], &mut [T])) -> Result<bool> {
        let (m, begin) = (self.y.len(), self.l.len());
        for _ in 0..=m {
            try_push(&mut self.l, T::ZERO)?;
            try_push(&mut self.u, T::ZERO)?;
        }
        let ((l, row), (u, column)) = (self.l.split_at_mut(begin), self.u.split_at_mut(begin));
        couplings(&mut row[..m], &mut column[..m]);
        let (mut pivot, mut y, mut z) = (own, -a_ki, -a_ik);
        for t in 0..m {
            let at = begin_of(t);
            for s in 0..t {
                row[t] -= row[s] * u[at + s];
                column[t] -= l[at + s] * column[s];
            }
            row[t] = row[t] / u[at + t];
            pivot -= row[t] * column[t];
            y -= row[t] * self.y[t];
            z -= self.z[t] * column[t];
        }
        let is_large = |v: T, own: T| v.abs() > smallest_pivot::<T>() * own.abs() && v.is_finite();
        if !is_large(pivot, own) {
            return Ok(false);
        }
        (row[m], column[m]) = (T::ONE, pivot);
        let z = z / pivot;
        self.psi -= z * y;
        try_push(&mut self.y, y)?;
        try_push(&mut self.z, z)?;
        Ok(true)
    }

    /// U h = y and g L = z.
    fn solve(&mut self) -> Result<()> {
        for (y, z) in self.y.iter().zip(&self.z) {
            try_push(&mut self.h, *y)?;
            try_push(&mut self.g, *z)?;
        }
        for t in (0..self.h.len()).rev() {
            let at = begin_of(t);
            let (h, g) = (self.h[t] / self.u[at + t], self.g[t]);
            self.h[t] = h;
            for s in 0..t {
                self.h[s] -= self.u[at + s] * h;
                self.g[s] -= self.l[at + s] * g;
            }
        }
        Ok(())
    }
}

/// The values of G and H on a pattern, interleaved, and the rows that broke down.
pub(super) fn values_on<T: Scalar>(
    a: &CsrView<'_, T>,
    transposed: &CsrView<'_, T>,
    pattern: &Structure,
) -> Result<(Vec<T>, usize)> {
    assert_eq!(a.block, Block::SCALAR);
    let (positions, diagonals) = (rows::PositionArrays::new(a.cols), diagonal::entries(a)?);
    let (offsets, columns) = pattern.own_arrays();
    let breakdowns = AtomicUsize::new(0);
    let (_, _, values) = rows::build(a.rows, 2, |range, out| {
        positions.with(|positions| {
            let (at, mut system, mut own) = (&mut positions.at, System::new(), Vec::new());
            for i in range {
                let columns = &columns[offsets[i] as usize..offsets[i + 1] as usize];
                let before = &columns[..columns.len() - 1];
                for (t, j) in before.iter().enumerate() {
                    at[*j as usize] = t as u32 + 1;
                }
                let is_complete = row_on([a, transposed], i, before, (&diagonals, &*at), &mut system, &mut own)?;
                before.iter().for_each(|j| at[*j as usize] = 0);
                let diagonal = T::from_f64(diagonals[i]);
                if !is_complete {
                    breakdowns.fetch_add(1, Ordering::Relaxed);
                    system.begin(diagonal);
                }
                let scale = scale(system.psi);
                for (t, j) in before.iter().enumerate() {
                    let of = |values: &[T], scale: T| values.get(t).map_or(T::ZERO, |v| *v * scale);
                    out.push(*j, of(&system.g, scale.0))?;
                    try_push(&mut out.values, of(&system.h, scale.1))?;
                }
                out.push(i as i32, scale.0)?;
                try_push(&mut out.values, scale.1)?;
                out.end_row();
            }
            Ok(())
        })
    })?;
    Ok((values, breakdowns.into_inner()))
}

/// 1 over the root of |ψ|, for G, and with the sign of ψ, for H.
fn scale<T: Scalar>(psi: T) -> (T, T) {
    if !is_usable(psi) {
        return (T::ZERO, T::ZERO);
    }
    let scale = T::ONE / super::system::root(psi.abs());
    (scale, if psi < T::ZERO { -scale } else { scale })
}

/// Solves row i for the columns before its diagonal, whose places, from 1 on, are given with the diagonals of A. False where
/// there is no pivot.
fn row_on<T: Scalar>(
    [a, transposed]: [&CsrView<'_, T>; 2],
    i: usize,
    before: &[i32],
    (diagonals, at): (&[f64], &[u32]),
    system: &mut System<T>,
    own: &mut Vec<(T, T)>,
) -> Result<bool> {
    let diagonal = T::from_f64(diagonals[i]);
    if !is_usable(diagonal) {
        return Ok(false);
    }
    system.begin(diagonal);
    own.clear();
    for _ in before {
        try_push(own, (T::ZERO, T::ZERO))?;
    }
    let each = |of: &CsrView<'_, T>, row: usize, put: &mut dyn FnMut(usize, T)| {
        for e in of.row_range(row) {
            if let Some(t) = (at[of.col(e)] as usize).checked_sub(1) {
                put(t, of.values[e]);
            }
        }
    };
    each(a, i, &mut |t, v| own[t].0 = v);
    each(transposed, i, &mut |t, v| own[t].1 = v);
    for (t, k) in before.iter().enumerate() {
        let k = *k as usize;
        let added = system.append(T::from_f64(diagonals[k]), own[t], |row, column| {
            each(a, k, &mut |u, v| row.get_mut(u).into_iter().for_each(|x| *x = v));
            each(transposed, k, &mut |u, v| column.get_mut(u).into_iter().for_each(|x| *x = v));
        })?;
        if !added {
            return Ok(false);
        }
    }
    let is_large = system.psi.abs() > smallest_pivot::<T>() * diagonal.abs() && system.psi.is_finite();
    if is_large {
        system.solve()?;
    }
    Ok(is_large)
}
