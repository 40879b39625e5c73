//! Problems on structured grids after those of Zong, Yu, Huang and Xue (ICPP 2024): generators of matrices of the same class in pattern, blocks,
//! symmetry, anisotropy and range of values.

use super::family::Parameter;
use super::stencil::{self, Step};
use crate::error::Result;
use crate::hash::hash;
use crate::sparse::{Block, Csr};

pub(super) const SCALED: &[Parameter] = &[Parameter::real("scale", 1.0, 1e-30, 1e30, "factor of all values")];
pub(super) const RADIATION: &[Parameter] =
    &[Parameter::real("decades", 14.0, 0.0, 24.0, "orders of magnitude that the coefficient spans")];

/// 27-point Laplacian with diagonal 26, times `scale`.
pub fn laplace27(n: [usize; 3], scale: f64) -> Result<Csr<f64>> {
    let mut a = super::poisson27(n[0], n[1], n[2])?;
    a.values.iter_mut().for_each(|v| *v *= scale);
    Ok(a)
}

/// A smooth field between -1 and 1: a few waves across the grid, whose phases depend on the seed.
fn smooth(n: [usize; 3], at: [usize; 3], seed: u64) -> f64 {
    const WAVES: [([f64; 3], f64); 4] =
        [([1.0, 0.0, 1.0], 0.35), ([0.0, 1.5, 0.5], 0.3), ([1.5, 1.0, 0.0], 0.2), ([0.5, 2.0, 1.5], 0.15)];
    let place: [f64; 3] = std::array::from_fn(|axis| (at[axis] as f64 + 0.5) / n[axis] as f64);
    let wave = |(k, (wave, size)): (usize, &([f64; 3], f64))| {
        let phase = uniform(k, seed) + (0..3).map(|axis| wave[axis] * place[axis]).sum::<f64>();
        size * (std::f64::consts::TAU * phase).cos()
    };
    WAVES.iter().enumerate().map(wave).sum()
}

/// A number between 0 and 1.
fn uniform(i: usize, seed: u64) -> f64 {
    (hash(i, seed) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number of a normal distribution.
fn normal(i: usize, seed: u64) -> f64 {
    let radius = (-2.0 * uniform(i, seed).max(1e-300).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(i, seed + 1)).cos()
}

fn cell(n: [usize; 3], at: [usize; 3]) -> usize {
    at[0] + n[0] * (at[1] + n[1] * at[2])
}

fn harmonic(a: f64, b: f64) -> f64 {
    2.0 * a * b / (a + b)
}

/// Radiation hydrodynamics: 7-point finite volumes of -div(k grad T) + s T, where k is smooth and spans many orders of magnitude and s is 1e-7 of its
/// largest value, as a time step leaves it.
pub fn rhd(n: [usize; 3], decades: f64) -> Result<Csr<f64>> {
    let k = |at: [usize; 3]| 10_f64.powf(0.5 * decades * smooth(n, at, 11));
    let mass = 12.0 * 10_f64.powf(0.5 * decades) * 1e-8;
    let steps = stencil::steps(3, 1);
    let face = |at: [usize; 3], step: Step| stencil::neighbour(n, at, step).map(|to| harmonic(k(at), k(to)));
    stencil::matrix(n, &steps, |at, step| match step {
        [0, 0, 0] => mass + steps.iter().filter(|s| **s != [0; 3]).filter_map(|s| face(at, *s)).sum::<f64>(),
        _ => -face(at, step).unwrap_or(0.0),
    })
}

/// The same for the temperatures of radiation, electrons and ions, in 3x3 blocks: three diffusion operators, whose coefficients differ by orders of
/// magnitude and jump between materials, and the exchange of energy between electrons and the other two in each cell.
pub fn rhd3t(n: [usize; 3], decades: f64) -> Result<Csr<f64>> {
    let material = |at: [usize; 3]| (0..3).filter(|axis| at[*axis] * 5 / n[*axis] % 2 == 1).count() % 2;
    let k = |at: [usize; 3], c: usize| {
        let jump = if material(at) == 1 { [1e2, 1e-2, 1e-3][c] } else { 1.0 };
        [1e6, 1e2, 1.0][c] * jump * 10_f64.powf(0.5 * decades * smooth(n, at, 13))
    };
    let largest = 1e8 * 10_f64.powf(0.5 * decades);
    let exchange = |at: [usize; 3]| {
        let size = largest * 1e-12 * 10_f64.powf(0.25 * decades * smooth(n, at, 17));
        (size, 1e-2 * size)
    };
    blocks(n, 3, &stencil::steps(3, 1), |at, step, block| {
        if step != [0; 3] {
            let to = stencil::neighbour(n, at, step).unwrap_or(at);
            (0..3).for_each(|c| block[c * 4] = -harmonic(k(at, c), k(to, c)));
            return;
        }
        for c in 0..3 {
            let faces = stencil::steps(3, 1).into_iter().filter(|s| *s != [0; 3]);
            let faces = faces.filter_map(|s| stencil::neighbour(n, at, s)).map(|to| harmonic(k(at, c), k(to, c)));
            block[c * 4] = largest * 1e-14 + faces.sum::<f64>();
        }
        // Electrons are the second of the three.
        let (ions, radiation) = exchange(at);
        for (other, size) in [(2, ions), (0, radiation)] {
            block[4] += size;
            block[other * 4] += size;
            block[3 + other] -= size;
            block[other * 3 + 1] -= size;
        }
    })
}

/// Permeability of a reservoir: layers, channels in some of them, and a lognormal part in each cell.
fn permeability(n: [usize; 3], at: [usize; 3]) -> f64 {
    let layer = 1.5 * normal(at[2], 23);
    let (x, y) = ((at[0] as f64 + 0.5) / n[0] as f64, (at[1] as f64 + 0.5) / n[1] as f64);
    let middle = 0.5 + 0.3 * (std::f64::consts::TAU * (x + uniform(at[2], 29))).sin();
    let channel = if hash(at[2], 31).is_multiple_of(3) && (y - middle).abs() < 0.08 { 4.0 } else { 0.0 };
    (layer + channel + 0.7 * normal(cell(n, at), 37)).exp().clamp(1e-3, 3e2)
}

/// The transmissibility of a face: thin cells, and vertical permeability a tenth of the horizontal one.
fn transmissibility(n: [usize; 3], at: [usize; 3], step: Step) -> Option<f64> {
    let to = stencil::neighbour(n, at, step)?;
    // Width over height is 20, squared 400.
    let across = if step[2] != 0 { 0.1 * 400.0 } else { 1.0 };
    Some(across * harmonic(permeability(n, at), permeability(n, to)))
}

/// Flow from the left to the right, and a little to the back, in relation to the transmissibility.
fn flow(step: Step) -> f64 {
    0.3 * step[0] as f64 + 0.1 * step[1] as f64
}

/// Pressure of a reservoir: two-point fluxes through layered lognormal permeability, with an upwind part that makes the matrix nonsymmetric.
pub fn oil(n: [usize; 3]) -> Result<Csr<f64>> {
    let steps = stencil::steps(3, 1);
    let entry = |at: [usize; 3], step: Step| {
        let t = transmissibility(n, at, step)?;
        Some((t * (1.0 + (-flow(step)).max(0.0)), t * (1.0 + flow(step).max(0.0))))
    };
    stencil::matrix(n, &steps, |at, step| match step {
        [0, 0, 0] => {
            let out = steps.iter().filter(|s| **s != [0; 3]).filter_map(|s| entry(at, *s)).map(|(_, out)| out);
            0.01 * permeability(n, at).sqrt() + out.sum::<f64>()
        }
        _ => -entry(at, step).map_or(0.0, |(into, _)| into),
    })
}

/// The same with pressure and three components in dense 4x4 blocks, of which pressure has other units.
pub fn oil4c(n: [usize; 3]) -> Result<Csr<f64>> {
    const UNITS: [f64; 4] = [10.0, 1.0, 0.5, 0.1];
    // What a difference of each unknown moves of each component, and what it stores.
    const MOVED: [[f64; 4]; 4] =
        [[1.0, 0.05, 0.03, 0.02], [0.2, 0.6, 0.02, 0.01], [0.15, 0.02, 0.5, 0.02], [0.1, 0.01, 0.02, 0.4]];
    const STORED: [[f64; 4]; 4] =
        [[0.02, 0.0, 0.0, 0.0], [0.01, 0.3, 0.02, 0.01], [0.01, 0.02, 0.25, 0.02], [0.01, 0.01, 0.02, 0.2]];
    let steps = stencil::steps(3, 1);
    blocks(n, 4, &steps, |at, step, block| {
        let faces: f64 = match step {
            [0, 0, 0] => {
                let of = |s: &Step| transmissibility(n, at, *s).map_or(0.0, |t| t * (1.0 + flow(*s).max(0.0)));
                steps.iter().filter(|s| **s != [0; 3]).map(of).sum()
            }
            _ => -transmissibility(n, at, step).map_or(0.0, |t| t * (1.0 + (-flow(step)).max(0.0))),
        };
        for (e, to) in block.iter_mut().enumerate() {
            let (r, c) = (e / 4, e % 4);
            let stored = if step == [0; 3] { STORED[r][c] * permeability(n, at).sqrt() } else { 0.0 };
            *to = UNITS[r] * UNITS[c] * (faces * MOVED[r][c] + stored);
        }
    })
}

/// A Helmholtz equation of a regional weather model: flat cells, which are stretched upward and narrower to the north, terrain that couples the axes and
/// fills 19 points, and wind. Nonsymmetric.
pub fn weather(n: [usize; 3]) -> Result<Csr<f64>> {
    let steps = stencil::steps(3, 2);
    let part = |axis: usize, at: [usize; 3]| (at[axis] as f64 + 0.5) / n[axis] as f64;
    stencil::matrix(n, &steps, |at, step| {
        // Couplings along the axes, those of cells of a hundredth and less of their width in height.
        let latitude = (0.3 + 0.7 * part(1, at)).cos();
        let height = 1.0 + 9.0 * part(2, at);
        let a = [1.0 / (latitude * latitude), 1.0, 4e5 / (height * height)];
        let slope = 0.2 * smooth(n, [at[0], at[1], 0], 41) * (-3.0 * part(2, at)).exp();
        let wind = [0.1 * a[0], 0.05, 0.0];
        match step.iter().filter(|s| **s != 0).count() {
            0 => 0.02 * a[2].sqrt() + 2.0 * a.iter().sum::<f64>(),
            1 => {
                let axis = step.iter().position(|s| *s != 0).unwrap_or(0);
                -a[axis] + 0.5 * wind[axis] * step[axis] as f64
            }
            _ => {
                let [p, q] = match step {
                    [0, ..] => [1, 2],
                    [_, 0, _] => [0, 2],
                    _ => [0, 1],
                };
                -0.5 * slope * (a[p] * a[q]).sqrt() * (step[p] * step[q]) as f64
            }
        }
    })
}

/// The matrix of square blocks that `fill` writes for each cell and each of its neighbours in the grid.
fn blocks(
    n: [usize; 3],
    size: usize,
    steps: &[Step],
    fill: impl Fn([usize; 3], Step, &mut [f64]) + Sync,
) -> Result<Csr<f64>> {
    stencil::points(n, size)?;
    let (offsets, columns) = stencil::pattern(n, steps)?;
    let rows = offsets.len() - 1;
    let mut out = Csr::with_pattern(rows, rows, Block::square(size), offsets, columns)?;
    stencil::fill(n, steps, &out.offsets, size * size, &mut out.values, |row, s, _, block| {
        fill(stencil::point_of(n, row), steps[s], block);
    });
    Ok(out)
}

/// Linear elasticity of a steel body in tetrahedra, of which six make up a cube of the grid: 15 points in 3x3 blocks. One face is clamped.
pub fn solid3d(n: usize) -> Result<Csr<f64>> {
    let mut a = super::elasticity_tet(n, super::Layers::NONE, true)?.matrix;
    // Young's modulus of steel in the unit cube.
    a.values.iter_mut().for_each(|v| *v *= 2e11 / n as f64);
    Ok(a)
}

/// How many values have each order of magnitude, ascending.
pub fn magnitudes(values: &[f64]) -> Vec<(i32, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for v in values.iter().filter(|v| **v != 0.0) {
        *counts.entry(v.abs().log10().floor() as i32).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::testing::{is_m_matrix, symmetric};
    use crate::host::symmetry;
    use crate::sparse::{Grid, Stencil};

    /// Offsets, symmetry, and the mean over cells of the orders of magnitude between the strongest and the weakest coupling.
    fn check(a: &Csr<f64>, dims: [usize; 3], offsets: usize, is_symmetric: bool) -> f64 {
        let stencil = Stencil::of_rows(&a.view(), Grid::new(dims)).unwrap();
        assert_eq!(stencil.offsets.len(), offsets);
        assert_eq!(symmetry::symmetry(&a.view()).unwrap().is_symmetric::<f64>(), is_symmetric);
        let view = a.view();
        let spread = |i: usize| {
            let sizes = view.row(i).filter(|(j, _)| *j != i).map(|(_, v)| v[0].abs()).filter(|v| *v > 0.0);
            let (low, high) = sizes.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
            (high / low).log10()
        };
        (0..a.rows).map(spread).sum::<f64>() / a.rows as f64
    }

    fn range(a: &Csr<f64>) -> (i32, i32) {
        let all = magnitudes(&a.values);
        (all[0].0, all[all.len() - 1].0)
    }

    #[test]
    fn laplacians_are_in_range_of_f16_or_far_out_of_it() {
        let n = [6, 5, 4];
        assert_eq!(laplace27(n, 1.0).unwrap(), crate::gallery::poisson27(6, 5, 4).unwrap());
        assert_eq!(range(&laplace27(n, 1e8).unwrap()), (8, 9));
        assert_eq!(range(&laplace27(n, 1e-8).unwrap()), (-8, -7));
    }

    #[test]
    fn radiation_spans_many_orders_of_magnitude_while_neighbours_are_alike() {
        let n = [16, 16, 16];
        let a = rhd(n, 14.0).unwrap();
        assert!(symmetric(&a) && is_m_matrix(&a));
        let spread = check(&a, n, 7, true);
        let (low, high) = range(&a);
        assert!(low <= -5 && high >= 6 && spread < 1.5, "{low} {high} {spread}");

        let a = rhd3t(n, 14.0).unwrap();
        check(&a, n, 7, true);
        let (low, high) = range(&a);
        assert!(low <= -5 && high >= 11, "{low} {high}");
        // Energy is exchanged within a cell: rows of diagonal blocks lose what the others get.
        assert_eq!((a.values.len(), a.block.rows), (a.columns.len() * 9, 3));
    }

    #[test]
    fn reservoirs_are_anisotropic_nonsymmetric_and_in_range_or_near_it() {
        let n = [12, 10, 8];
        let a = oil(n).unwrap();
        let spread = check(&a, n, 7, false);
        let largest = a.values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        assert!(largest < 65504.0 && largest > 1e3 && spread > 1.5, "{largest} {spread}");
        let a = oil4c(n).unwrap();
        check(&a, n, 7, false);
        let largest = a.values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        assert!((65504.0..1e7).contains(&largest) && a.block.rows == 4, "{largest}");
    }

    #[test]
    fn the_weather_fills_19_points_and_is_strong_upward() {
        let n = [10, 9, 8];
        let a = weather(n).unwrap();
        let spread = check(&a, n, 19, false);
        let largest = a.values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        assert!((65504.0..1e6).contains(&largest) && spread > 2.0, "{largest} {spread}");
    }

    #[test]
    fn the_solid_has_15_points_in_blocks_far_out_of_range() {
        let a = solid3d(4).unwrap();
        check(&a, [4, 5, 5], 15, true);
        assert!(a.block.rows == 3 && range(&a).1 >= 10, "{:?}", range(&a));
    }
}
