//! Whether a matrix is symmetric, and the signs of its diagonal, in one pass.
//!
//! For random vectors x and y, x·A y - y·A x is the sum of a_ij (x_i y_j - y_i x_j). It is zero for a symmetric
//! matrix, and otherwise of the size of A - Aᵀ. Random numbers are hashes of the index, so every backend finds the same.

use crate::backend::common::{SYMMETRY_SEED, Symmetry};
use crate::error::Result;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{CsrView, SharedStencil};

/// Elements of x and y, between -2^15 and 2^15: the halves of a hash, the finaliser of MurmurHash3. It is computed for every entry, so it is a
/// short one.
fn random(i: usize) -> (f64, f64) {
    let mut h = i as u32 ^ SYMMETRY_SEED;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^= h >> 16;
    (f64::from((h >> 16) as i16), f64::from(h as i16))
}

/// x_i y_j - y_i x_j, of size 1.
fn weight((x_i, y_i): (f64, f64), (x_j, y_j): (f64, f64)) -> f64 {
    (x_i * y_j - y_i * x_j) * (-30_f64).exp2()
}

/// The sums over a square matrix.
pub fn symmetry<T: Scalar>(a: &CsrView<'_, T>) -> Result<Symmetry> {
    at(a, |i| i, |j| j)
}

/// The sums over rows of a square matrix, with the numbers of its rows and columns there.
pub fn at<T: Scalar>(
    a: &CsrView<'_, T>,
    row: impl Fn(usize) -> usize + Sync,
    column: impl Fn(usize) -> usize + Sync,
) -> Result<Symmetry> {
    let (rows, cols) = (a.block.rows, a.block.cols);
    let parts = par::map_ranges(a.rows, par::ROW_GRAIN, |range| {
        let mut sum = Symmetry::default();
        for i in range {
            for k in a.row_range(i) {
                let j = a.col(k);
                for (e, v) in a.block_at(k).iter().enumerate() {
                    add(&mut sum, row(i) * rows + e / cols, column(j) * cols + e % cols, v.to_f64());
                }
            }
        }
        Ok(sum)
    })?;
    Ok(parts.into_iter().fold(Symmetry::default(), Symmetry::plus))
}

/// Adds an entry.
#[inline(always)]
fn add(sum: &mut Symmetry, row: usize, col: usize, v: f64) {
    if row == col {
        sum.positive += u64::from(v > 0.0);
        sum.negative += u64::from(v < 0.0);
        return;
    }
    let term = v * weight(random(row), random(col));
    sum.difference += term;
    sum.squares += term * term;
}

/// The same for a matrix on a grid, where each entry is beside its mirror image: the difference is the norm of A - Aᵀ.
pub fn of_stencil<T: Scalar>(a: &SharedStencil<T>) -> Result<Symmetry> {
    let (stencil, b) = (&*a.pattern, a.pattern.block);
    let [nx, ny, _] = stencil.grid.dims;
    let parts = par::map_ranges(stencil.grid.lines(), par::ROW_GRAIN.div_ceil(nx), |lines| {
        let mut sum = Symmetry::default();
        for line in lines {
            let (y, z) = (line % ny, line / ny);
            for (k, offset) in stencil.offsets.iter().enumerate() {
                let (Some(y), Some(z)) = (stencil.grid.step(1, y, offset[1]), stencil.grid.step(2, z, offset[2]))
                else {
                    continue;
                };
                let opposite = stencil.find(offset.map(|step| -step));
                for (r, c) in (0..b * b).map(|e| (e / b, e % b)) {
                    let own = &a.array(k, r, c)[line * nx..][..nx];
                    if *offset == [0; 3] && r == c {
                        sum.positive += own.iter().filter(|v| **v > T::ZERO).count() as u64;
                        sum.negative += own.iter().filter(|v| **v < T::ZERO).count() as u64;
                        continue;
                    }
                    let mirrored = opposite.map(|k| &a.array(k, c, r)[nx * (y + ny * z)..][..nx]);
                    add_line(&mut sum, own, mirrored, |x| stencil.grid.step(0, x, offset[0]), offset[0]);
                }
            }
        }
        Ok(sum)
    })?;
    let total = parts.into_iter().fold(Symmetry::default(), Symmetry::plus);
    Ok(Symmetry { difference: total.difference.sqrt(), ..total })
}

/// Adds the squares of the entries of a line, and of their differences from the mirrored ones, which are `step` along x.
fn add_line<T: Scalar>(
    sum: &mut Symmetry,
    own: &[T],
    mirrored: Option<&[T]>,
    to: impl Fn(usize) -> Option<usize>,
    step: i8,
) {
    let n = own.len();
    let mut add = |v: T, mirror: T| {
        let (v, difference) = (v.to_f64(), v.to_f64() - mirror.to_f64());
        sum.squares += v * v;
        sum.difference += difference * difference;
    };
    // All but the ends, of which one may lie outside of the grid or on its other side.
    let (first, last) = (usize::from(step < 0).min(n), n - usize::from(step > 0).min(n));
    match mirrored {
        Some(mirrored) => {
            let shifted = &mirrored[first.wrapping_add_signed(isize::from(step)).min(n)..];
            own[first..last.max(first)].iter().zip(shifted).for_each(|(v, mirror)| add(*v, *mirror));
        }
        None => own[first..last.max(first)].iter().for_each(|v| add(*v, T::ZERO)),
    }
    for x in (0..first).chain(last..n) {
        if let Some(there) = to(x) {
            add(own[x], mirrored.map_or(T::ZERO, |mirrored| mirrored[there]));
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;

    fn of(name: &str) -> Symmetry {
        symmetry(&gallery::parse(name).unwrap().matrix.view()).unwrap()
    }

    #[test]
    fn symmetric_matrices_are_told_from_others() {
        for name in
            ["poisson7:12", "jumps:8", "elasticity:4", "rotated_anisotropic:20", "random_m_matrix:500", "hubs:300"]
        {
            let found = of(name);
            assert!(found.is_symmetric::<f64>(), "{name}: {found:?}");
            assert_eq!((found.negative, found.is_negative()), (0, false), "{name}");
        }
        for name in ["convection_diffusion:20", "convection_diffusion:30:epsilon=10", "convection_diffusion:3"] {
            assert!(!of(name).is_symmetric::<f64>(), "{name}: {:?}", of(name));
        }
    }

    #[test]
    fn stencils_are_told_apart_like_rows() {
        for (name, dims) in [
            ("poisson7:7x5x4", [7, 5, 4]),
            ("elasticity:3", [3, 4, 4]),
            ("convection_diffusion:7x5", [7, 5, 1]),
            ("convection_diffusion:1x5", [1, 5, 1]),
        ] {
            let a = gallery::parse(name).unwrap().matrix;
            let expected = symmetry(&a.view()).unwrap();
            let found = of_stencil(&SharedStencil::from_rows(&a, crate::sparse::Grid::new(dims)).unwrap()).unwrap();
            assert_eq!(found.is_symmetric::<f64>(), expected.is_symmetric::<f64>(), "{name}: {found:?}");
            assert_eq!((found.positive, found.negative), (expected.positive, expected.negative), "{name}");
        }
        let mut a = gallery::poisson7(6, 5, 4).unwrap();
        a.values[100] *= 1.001;
        let found = of_stencil(&SharedStencil::from_rows(&a, crate::sparse::Grid::new([6, 5, 4])).unwrap()).unwrap();
        assert!(!found.is_symmetric::<f64>(), "{found:?}");
    }

    #[test]
    fn one_entry_is_enough_and_rounding_is_not() {
        let mut a = gallery::parse("poisson5:100").unwrap().matrix;
        let entry = a.offsets[5000] as usize;
        a.values[entry] *= 1.0 + 1e-14;
        assert!(symmetry(&a.view()).unwrap().is_symmetric::<f64>());
        a.values[entry] *= 1.0 + 1e-3;
        assert!(!symmetry(&a.view()).unwrap().is_symmetric::<f64>());
        a.values.iter_mut().for_each(|v| *v = -*v);
        assert!(symmetry(&a.view()).unwrap().is_negative());
    }
}
