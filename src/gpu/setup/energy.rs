//! Energy-minimising prolongators: [`crate::host::energy`] on the device.

use super::smoothed;
use super::tentative::{self, Tentative};
use super::{DeviceAggregates, DeviceCsr, DeviceGraph, DeviceNearNullSpace, DevicePattern, diagonal, eigenvalue};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::parameters::{Estimate, energy_weights};
use crate::backend::spectrum::Largest;
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// The pattern of P: for each node its own aggregate and those of its strong neighbours. Waits for the device once.
fn pattern(gpu: &Gpu, aggregates: &DeviceAggregates, s: &DeviceGraph, block: Block) -> Result<DevicePattern> {
    let (offsets, columns) = (gpu.allocate::<i64>(s.rows + 1)?, gpu.allocate::<i32>(s.columns.len() + s.rows)?);
    let (from_offsets, from_columns) = (s.offsets.view(), s.columns.view());
    let arguments: [&dyn Argument; 5] =
        [&(s.rows as i64), &from_offsets, &from_columns, &offsets.view(), &columns.view()];
    gpu.launch(gpu.kernel("energy_neighbours")?, s.rows + 1, &arguments)?;
    let (offsets, columns) = (Arc::new(offsets), Arc::new(columns));
    let neighbours = DevicePattern { rows: s.rows, cols: s.rows, block: Block::SCALAR, offsets, columns };
    let smoothed::Pattern { offsets, columns, .. } = smoothed::pattern(gpu, &neighbours, aggregates, true, None)?;
    let (offsets, columns) = (Arc::new(offsets), Arc::new(columns));
    Ok(DevicePattern { rows: s.rows, cols: aggregates.count, block, offsets, columns })
}

/// For each row the inverse of the Gram matrix of the coarse near-null space on the aggregates of its pattern, or on those that
/// are `kept`.
pub(super) fn gram_inverse(
    gpu: &Gpu,
    p: &DevicePattern,
    kept: Option<&Slice<i32>>,
    space: &DeviceNearNullSpace,
) -> Result<Buffer<f64>> {
    let (k, kept) = (space.count, kept.map_or(View::NONE, Slice::view));
    let (offsets, columns) = (gpu.zeroed::<i64>(p.rows + 1)?, gpu.allocate::<i32>(p.rows)?);
    let values = gpu.allocate::<f64>(p.rows * k * k)?;
    let (of_p, columns_of_p, vectors) = (p.offsets.view(), p.columns.view(), space.vectors.view());
    let arguments: [&dyn Argument; 11] = [
        &(p.rows as i64),
        &(p.cols as i64),
        &(space.dofs_per_node as i32),
        &(k as i32),
        &vectors,
        &of_p,
        &columns_of_p,
        &kept,
        &offsets.view(),
        &columns.view(),
        &values.view(),
    ];
    gpu.launch(gpu.kernel("energy_gram")?, p.rows * k * k, &arguments)?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    let gram = DeviceCsr { rows: p.rows, cols: p.rows, block: Block::square(k), offsets, columns, values };
    diagonal::inverse(gpu, &gram, k, false, None)
}

/// The values of P_0 in the pattern of P.
fn start<T: Scalar>(
    gpu: &Gpu,
    aggregates: &DeviceAggregates,
    p0: &Tentative<T>,
    p: &DevicePattern,
) -> Result<Buffer<T>> {
    let values = gpu.zeroed::<T>(p.nnz() * p.block.len())?;
    let (of, tentative) = (aggregates.of.view(), p0.values.view());
    let entries = p0.entries.as_ref().map_or(View::NONE, |entries| entries.view());
    let (offsets, columns) = (p.offsets.view(), p.columns.view());
    let arguments: [&dyn Argument; 8] =
        [&(p.rows as i64), &(p.block.len() as i32), &of, &entries, &tentative, &offsets, &columns, &values.view()];
    gpu.launch(gpu.kernel(&format!("energy_start_{}", T::PRECISION.name()))?, p.rows * 32, &arguments)?;
    Ok(values)
}

/// The values of the prolongator after steps with these weights from P_0, whose values in its pattern are given, and which has the
/// coarse near-null space `space`.
pub(super) fn minimise<T: Scalar>(
    gpu: &Gpu,
    (a, inverse): (&DeviceCsr<T>, &Slice<T>),
    values: Buffer<T>,
    p: &DevicePattern,
    space: &DeviceNearNullSpace,
    weights: &[f64],
) -> Result<Buffer<T>> {
    let (n, m, k, name) = (p.block.rows, p.block.cols, space.count, T::PRECISION.name());
    let kernel = |step: &str| gpu.kernel(&format!("energy_{step}_{name}"));
    let (rows, count, n_, m_, k_) = (p.rows as i64, p.cols as i64, n as i32, m as i32, k as i32);
    let (offsets, columns, vectors) = (p.offsets.view(), p.columns.view(), space.vectors.view());
    let gram = gram_inverse(gpu, p, None, space)?;
    let (product, multipliers) = (gpu.allocate::<T>(values.len())?, gpu.allocate::<f64>(p.rows * n * k)?);
    let (a_offsets, a_columns, a_values) = (a.offsets.view(), a.columns.view(), a.values.view());
    let (gram, inverse) = (gram.view(), inverse.view());
    for weight in weights {
        let arguments: [&dyn Argument; 10] =
            [&rows, &n_, &m_, &a_offsets, &a_columns, &a_values, &offsets, &columns, &values.view(), &product.view()];
        gpu.launch(kernel("product")?, p.rows * 32, &arguments)?;
        let arguments: [&dyn Argument; 11] =
            [&rows, &n_, &count, &m_, &k_, &vectors, &gram, &offsets, &columns, &product.view(), &multipliers.view()];
        gpu.launch(kernel("multipliers")?, p.rows * n, &arguments)?;
        let arguments: [&dyn Argument; 13] = [
            &rows,
            &n_,
            &count,
            &m_,
            &k_,
            &vectors,
            weight,
            &inverse,
            &multipliers.view(),
            &offsets,
            &columns,
            &product.view(),
            &values.view(),
        ];
        gpu.launch(kernel("update")?, p.rows * 32, &arguments)?;
    }
    Ok(values)
}

/// The component.
pub(crate) struct EnergyMinimisation;

/// What it keeps for updates: the largest eigenvalue of D^-1 A.
struct EnergySymbolic(Largest);

impl InterpolationSymbolic<Gpu> for EnergySymbolic {
    fn bytes(&self) -> usize {
        0
    }
}

impl<T: Scalar> Interpolation<Gpu, T> for EnergyMinimisation {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let gpu = input.setup;
        let a: &DeviceCsr<T> = input.a;
        let (aggregates, space) = input.aggregates("energy")?;
        let inverse = diagonal::inverse(gpu, a, a.block.rows, false, None)?;
        let (estimate, earlier) = (Estimate::new(input.parameters), input.symbolic::<EnergySymbolic>());
        let largest = eigenvalue::largest(gpu, &estimate, a, &inverse, earlier.map(|earlier| &earlier.0))?;
        let (p0, coarse_space) = tentative::prolongator(gpu, aggregates, space)?;
        let pattern = match input.pattern() {
            Some(pattern) => DevicePattern::clone(pattern),
            None => pattern(gpu, aggregates, input.graph, p0.block)?,
        };
        let weights = energy_weights(input.parameters.int("amg.interpolation.energy.steps"), largest.value)?;
        let values = start(gpu, aggregates, &p0, &pattern)?;
        let values = minimise(gpu, (a, &inverse), values, &pattern, &coarse_space, &weights)?;
        Ok(Interpolated {
            near_null_space: Some(Arc::new(coarse_space)),
            largest_eigenvalue: Some((largest.clone(), inverse)),
            symbolic: Some(Arc::new(EnergySymbolic(largest))),
            ..Interpolated::alone(pattern.with(values).into())
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::{irregular, mis2};
    use crate::gpu::tests::devices;
    use crate::host::{self, energy};
    use crate::sparse::{Csr, NearNullSpace};

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>, theta: f64, space: &NearNullSpace) {
        let s = host::strength::Symmetric::new(&a.view()).unwrap().graph(theta).unwrap();
        let (of, count) = host::mis2::aggregate(&s, 0).unwrap();
        let (p0, coarse) = host::tentative::prolongator::<T>(&of, count, space).unwrap();
        let structure = energy::pattern(&of, count, &s, p0.block).unwrap();
        let weights = energy_weights(3, 2.5).unwrap();
        let inverse: Vec<T> = host::diagonal::inverse(&a.view(), a.block.rows, host::diagonal::AS_IT_IS).unwrap();
        let constraint = energy::Constraint::new(&structure, &coarse).unwrap();
        let expected = energy::minimise(&a.view(), &inverse, &p0, &structure, &constraint, &weights).unwrap();

        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let (offsets, columns) = (gpu.upload(&s.offsets).unwrap(), gpu.upload(&s.columns).unwrap());
        let graph = DeviceGraph { rows: a.rows, offsets, columns };
        let aggregates = mis2::aggregate(gpu, &graph, 0).unwrap();
        let space = DeviceNearNullSpace::upload(gpu, space).unwrap();
        let (p0, coarse) = tentative::prolongator::<T>(gpu, &aggregates, &space).unwrap();
        let inverse = diagonal::inverse(gpu, &on_device, a.block.rows, false, None).unwrap();
        let p = pattern(gpu, &aggregates, &graph, p0.block).unwrap();
        let values = start(gpu, &aggregates, &p0, &p).unwrap();
        let found = minimise(gpu, (&on_device, &inverse), values, &p, &coarse, &weights).unwrap();
        let found = p.with(found).fetch(gpu).unwrap();
        assert_eq!((&found.offsets[..], &found.columns[..]), structure.own_arrays(), "{name}");
        assert!(found.values == expected, "{name}");
    }

    #[test]
    fn prolongators_are_those_of_the_host() {
        let problem = gallery::parse("elasticity_jittered:4x3x4:height=0.3").unwrap().into_matrix().unwrap();
        let space = problem.near_null_space().unwrap().clone();
        let a = problem.shared::<f64>().unwrap().view().to_owned_as::<f64>().unwrap();
        let scalar = gallery::poisson5(13, 13).unwrap();
        let vectors = (0..2 * 169).map(|i| if i < 169 { 1.0 } else { (i % 13) as f64 }).collect();
        let two = NearNullSpace { dofs_per_node: 1, count: 2, vectors };
        for gpu in devices() {
            compare(&gpu, "elasticity", &a, 0.04, &space);
            compare(&gpu, "elasticity in f32", &a.view().to_owned_as::<f32>().unwrap(), 0.04, &space);
            compare(&gpu, "two vectors", &scalar, 0.08, &two);
            // Blocks of a coarse level; long rows; nodes without strong couplings.
            let coarse = irregular::random(150, 12, 6).view().to_blocks(6).unwrap();
            compare(&gpu, "6x6", &coarse, 0.0, &NearNullSpace::constants(150, 6).unwrap());
            let long = irregular::random(400, 110, 3);
            compare(&gpu, "long rows", &long, 0.0, &NearNullSpace::constants(400, 1).unwrap());
            compare(&gpu, "weak couplings", &long, 0.2, &NearNullSpace::constants(400, 1).unwrap());
        }
    }
}
