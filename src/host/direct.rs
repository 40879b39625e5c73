//! Direct interpolation (Stüben, 1999): a fine unknown is interpolated from its strong coarse neighbours alone.
//!
//! With C_i the strong coarse neighbours of i, and the couplings split by sign relative to the diagonal (a⁻ has the
//! other sign),
//!
//! w_ij = -α a_ij / a_ii for a_ij⁻,   α = Σ_{k≠i} a⁻_ik / Σ_{k∈C_i} a⁻_ik,
//!
//! and likewise with β for a⁺. Where C_i has no coupling of a sign, all couplings of that sign are added to the
//! diagonal.

use super::interleaved_sum::InterleavedSum;
use super::truncate::Truncation;
use super::{Host, splitting};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::error::{Result, try_push};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph, Structure};

/// Interpolation from the coarse unknowns to all.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    splitting::interpolate(coarse, truncation, pattern, || {
        Ok(|i: usize, weights: &mut Vec<(i32, T)>| row(a, s, coarse, i, weights))
    })
}

/// Sums of the couplings of one sign: of all neighbours, and of those in C_i.
#[derive(Clone, Copy)]
pub struct Sums<T> {
    /// All neighbours.
    pub all: T,
    /// Those in C_i.
    pub coarse: T,
}

impl<T: Scalar> Sums<T> {
    /// Empty sums.
    pub const ZERO: Sums<T> = Sums { all: T::ZERO, coarse: T::ZERO };
}

/// Factors that turn negative and positive couplings to C_i into weights.
pub fn scales<T: Scalar>(mut diagonal: T, negative: Sums<T>, positive: Sums<T>) -> (T, T) {
    for sums in [negative, positive] {
        if sums.coarse == T::ZERO {
            diagonal += sums.all;
        }
    }
    let scale = |sums: Sums<T>| {
        if sums.coarse == T::ZERO || diagonal == T::ZERO { T::ZERO } else { -sums.all / sums.coarse / diagonal }
    };
    (scale(negative), scale(positive))
}

fn row<T: Scalar>(a: &CsrView<'_, T>, s: &Graph, coarse: &[bool], i: usize, weights: &mut Vec<(i32, T)>) -> Result<()> {
    let mut diagonal = T::ZERO;
    let [mut negative, mut negative_coarse, mut positive, mut positive_coarse] = [InterleavedSum::ZERO; 4];
    // The strong columns stand in the order of the matrix's row, so one pass over both tells which entries are strong.
    let mut strong = s.row(i).iter().peekable();
    for (at, k) in a.row_range(i).enumerate() {
        let (j, value) = (a.col(k), a.values[k]);
        let is_strong = strong.next_if(|next| **next as usize == j).is_some();
        if j == i {
            diagonal = value;
            continue;
        }
        let (all, to_coarse) = match value < T::ZERO {
            true => (&mut negative, &mut negative_coarse),
            false => (&mut positive, &mut positive_coarse),
        };
        all.add(at, value);
        if is_strong && coarse[j] {
            to_coarse.add(at, value);
            try_push(weights, (j as i32, value))?;
        }
    }
    let negative = Sums { all: negative.sum(), coarse: negative_coarse.sum() };
    let positive = Sums { all: positive.sum(), coarse: positive_coarse.sum() };
    if weights.is_empty() {
        return Ok(());
    }
    let (for_negative, for_positive) = scales(diagonal, negative, positive);
    for (_, w) in weights {
        *w *= if *w < T::ZERO { for_negative } else { for_positive };
    }
    Ok(())
}

/// The component.
pub struct Direct;

impl<T: Scalar> Interpolation<Host, T> for Direct {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let coarse = input.splitting("direct")?;
        let pattern = input.pattern().map(|pattern| &**pattern.rows());
        let p = interpolate(&input.a.view(), input.graph, coarse, input.truncation, pattern)?;
        Ok(Interpolated::alone(p.into_shared().into()))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::strength;

    const ALL: Truncation = Truncation::new(0, 0.0);

    fn row_of(p: &Csr<f64>, i: usize) -> Vec<(usize, f64)> {
        p.view().row(i).map(|(j, v)| (j, v[0])).collect()
    }

    #[test]
    fn couplings_to_other_neighbours_are_carried_by_the_coarse_ones() {
        // Row 0: coarse neighbours 1 and 2, a fine one, a weak one and a positive one.
        let t = [(0, 0, 8.0), (0, 1, -3.0), (0, 2, -1.0), (0, 3, -3.0), (0, 4, -1.0), (0, 5, 2.0)];
        let diagonal = (1..6).map(|i| (i, i, 1.0));
        let a = Csr::from_triplets(6, 6, &t.into_iter().chain(diagonal).collect::<Vec<_>>()).unwrap();
        let s = Graph { offsets: vec![0, 3, 3, 3, 3, 3, 3], columns: vec![1, 2, 3] };
        let coarse = [false, true, true, false, false, false];
        let p = interpolate(&a.view(), &s, &coarse, ALL, None).unwrap();
        // α = 8/4, and the positive coupling goes to the diagonal: 8 + 2.
        let row = row_of(&p, 0);
        assert!((row[0].1 - 0.6).abs() < 1e-15 && (row[1].1 - 0.2).abs() < 1e-15, "{row:?}");
        assert_eq!(row_of(&p, 1), [(0, 1.0)]);
        assert!(row_of(&p, 3).is_empty());
    }

    #[test]
    fn each_sign_has_a_scale_of_its_own_and_a_row_of_sum_zero_keeps_constants() {
        let t = [(0, 0, 3.0), (0, 1, -4.0), (0, 2, 1.0), (1, 1, 1.0), (2, 2, 1.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        let s = strength::absolute(&a.view(), 0.1).unwrap();
        let p = interpolate(&a.view(), &s, &[false, true, true], ALL, None).unwrap();
        let row = row_of(&p, 0);
        assert!((row[0].1 - 4.0 / 3.0).abs() < 1e-15 && (row[1].1 + 1.0 / 3.0).abs() < 1e-15, "{row:?}");
    }
}
