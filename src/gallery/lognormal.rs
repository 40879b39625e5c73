//! Flow through rock whose permeability varies by orders of magnitude, like that of reservoir models.

use super::family::Parameter;
use super::stencil::{self, Step};
use crate::error::{Result, try_vec};
use crate::hash::hash;
use crate::par::{self, ROW_GRAIN};
use crate::sparse::Csr;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::real("sigma", 2.0, 0.0, 10.0, "standard deviation of the logarithm of the permeability"),
    Parameter::real("correlation", 4.0, 1.0, 1e6, "cells over which the permeability is alike along x and y"),
    Parameter::whole("seed", 0, 0, u32::MAX, "number of the realisation"),
];

/// Points of the grid that stands for the refined tenth model of the comparative solution project.
pub(super) const SIZES: &[usize] = &[61, 221, 253];

/// Trilinear elements of -div(k grad u) on cubes of width 1 around the points of a grid, with Dirichlet values outside.
/// ln k is normal with mean 0 and deviation `sigma` in each of the (nx + 1)(ny + 1)(nz + 1) elements, independent from
/// layer to layer of z, and over a distance of `correlation` elements within a layer: noise on a lattice of that width,
/// interpolated bilinearly, and scaled to the same variance everywhere. The noise is a hash of position and `seed`.
pub fn lognormal(n: [usize; 3], sigma: f64, correlation: f64, seed: u64) -> Result<Csr<f64>> {
    stencil::points(n, 1)?;
    let cells = n.map(|points| points + 1);
    let mut permeability = try_vec(cells.iter().product(), 0.0)?;
    par::for_each_mut(&mut permeability, ROW_GRAIN, |start, piece| {
        for (cell, k) in (start..).zip(piece) {
            *k = (sigma * correlated(stencil::point_of(cells, cell), correlation, seed)).exp();
        }
    });
    stencil::matrix(n, &stencil::box_steps(3), |at, step| {
        let mut sum = 0.0;
        // A point is the upper corner of the cell with its own number and the lower corner of the next, along each
        // axis.
        for cell in 0..8_usize {
            let upper: [usize; 3] = std::array::from_fn(|axis| cell >> axis & 1);
            let shared = (0..3).all(|axis| step[axis] != if upper[axis] == 1 { -1 } else { 1 });
            if shared {
                let [x, y, z]: [usize; 3] = std::array::from_fn(|axis| at[axis] + upper[axis]);
                sum += permeability[x + cells[0] * (y + cells[1] * z)];
            }
        }
        sum * coupling(step)
    })
}

/// Stiffness of the unit cube between two corners that differ by a step: a third for a corner with itself, none along
/// an edge, and -1/12 across a face or the cube.
fn coupling(step: Step) -> f64 {
    match step.iter().filter(|&&x| x != 0).count() {
        0 => 1.0 / 3.0,
        1 => 0.0,
        _ => -1.0 / 12.0,
    }
}

/// A normal number of variance 1 for a cell, alike for cells of a layer that are near each other.
fn correlated([x, y, z]: [usize; 3], width: f64, seed: u64) -> f64 {
    let along = |x: usize| {
        let place = x as f64 / width;
        (place.floor(), place - place.floor())
    };
    let ((x, u), (y, v)) = (along(x), along(y));
    let (mut sum, mut variance) = (0.0, 0.0);
    for (dx, wx) in [(0.0, 1.0 - u), (1.0, u)] {
        for (dy, wy) in [(0.0, 1.0 - v), (1.0, v)] {
            let weight = wx * wy;
            sum += weight * normal((x + dx) as usize, (y + dy) as usize, z, seed);
            variance += weight * weight;
        }
    }
    sum / variance.sqrt()
}

/// A normal number by the transformation of Box and Muller from two hashes of a lattice point.
fn normal(x: usize, y: usize, z: usize, seed: u64) -> f64 {
    let point = hash(x, hash(y, hash(z, seed)));
    let uniform = |stream: usize| ((hash(stream, point) >> 11) as f64 + 0.5) * (1.0 / (1_u64 << 53) as f64);
    (-2.0 * uniform(0).ln()).sqrt() * (std::f64::consts::TAU * uniform(1)).cos()
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::testing::{row_sum, symmetric};

    #[test]
    fn without_variation_it_is_the_trilinear_laplacian() {
        let a = lognormal([3; 3], 0.0, 4.0, 0).unwrap();
        assert_eq!((a.rows, a.columns.len()), (27, 343));
        for ((_, v), step) in a.view().row(13).zip(stencil::box_steps(3)) {
            let expected = match step.iter().filter(|&&x| x != 0).count() {
                0 => 8.0 / 3.0,
                1 => 0.0,
                2 => -2.0 / 12.0,
                _ => -1.0 / 12.0,
            };
            assert!((v[0] - expected).abs() < 1e-15, "{step:?}");
        }
    }

    #[test]
    fn the_matrix_is_symmetric_and_constants_cost_nothing_inside() {
        let a = lognormal([7, 6, 5], 2.0, 4.0, 3).unwrap();
        assert_eq!(a.columns.len(), 19 * 16 * 13);
        assert!(symmetric(&a));
        let inside = 3 + 7 * (3 + 6 * 2);
        assert!(row_sum(&a, inside).abs() < 1e-14 * a.values.iter().fold(0.0_f64, |m, v| m.max(v.abs())));
        assert!(row_sum(&a, 0) > 0.0);
        assert_ne!(a, lognormal([7, 6, 5], 2.0, 4.0, 4).unwrap());
    }

    #[test]
    fn the_logarithm_has_mean_zero_variance_one_and_the_correlation_asked_for() {
        let width = 5.0;
        let layers = 40;
        let value = |x, y, z| correlated([x, y, z], width, 7);
        let mut moments = [0.0; 5];
        let points = 60 * 60 * layers;
        for row in 0..points {
            let [x, y, z] = stencil::point_of([60, 60, layers], row);
            let g = value(x, y, z);
            let products = [g, g * g, g * value(x + 1, y, z), g * value(x + 15, y, z), g * value(x, y, z + 1)];
            moments.iter_mut().zip(products).for_each(|(m, p)| *m += p / points as f64);
        }
        let [mean, variance, near, far, above] = moments;
        assert!(mean.abs() < 0.04 && (variance - 1.0).abs() < 0.06, "{moments:?}");
        assert!(near > 0.8 && far.abs() < 0.06 && above.abs() < 0.06, "{moments:?}");
    }
}
