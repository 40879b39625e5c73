//! Smoothed prolongators of scalars where set-up is divided. The rank that has a coarse unknown orthonormalises its aggregate: it brings the vectors of
//! the members, and sends their entries of the tentative prolongator back.

use super::super::smoothed::Step;
use super::super::tentative::{self, Tentative};
use super::super::{DeviceAggregates, DeviceGraph, DeviceNearNullSpace};
use super::transposition::transposed;
use super::{DeviceDivided, Ghosts, OwnRows, copied, copy_at, numbered, own_rows};
use crate::backend::components::{Interpolated, InterpolationSymbolic};
use crate::backend::parameters::Estimate;
use crate::backend::spectrum::Largest;
use crate::comm::Distribution;
use crate::error::{Result, try_extend};
use crate::gpu::Gpu;
use crate::gpu::setup::grid::GpuMatrix;
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// What is kept for updates: the largest eigenvalue of the matrix without its weak couplings. Patterns follow from the aggregates.
pub(crate) struct DividedSmoothed(pub Largest);

impl InterpolationSymbolic<Gpu> for DividedSmoothed {
    fn bytes(&self) -> usize {
        0
    }
}

/// The prolongator of own rows, and the near-null space of the coarse level. Collective.
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    (over, a): (&Arc<Distribution>, &DeviceDivided<T>),
    s: &DeviceGraph,
    (aggregates, space): (&DeviceAggregates, &DeviceNearNullSpace),
    how: (f64, Estimate),
    earlier: Option<&Largest>,
) -> Result<Interpolated<Gpu, T>> {
    let step = Step::divided(gpu, (over, a), s, how, earlier)?;
    let (p0, coarse) = tentative::<T>(gpu, (over, a), aggregates, space)?;
    let p = step.smooth(gpu, aggregates, &p0)?;
    drop(p0);
    let own = own_rows(gpu, &a.rows, &p)?;
    let (numbering, columns) = numbered(gpu, over, &over.block_starts(aggregates.count, space.count)?, &own.columns)?;
    let p = DeviceDivided::of_own_rows(gpu, &a.rows, numbering, OwnRows { columns, ..own })?;
    let largest = step.largest().clone();
    let inverse = match step.is_of_a() {
        true => {
            let (inside, width, inverse) = (a.rows.inside(), a.matrix.block.len(), step.into_inverse());
            Some(copied(gpu, inverse.subslice(inside.start * width, inside.len() * width))?)
        }
        false => None,
    };
    let symbolic: Arc<dyn InterpolationSymbolic<Gpu>> = Arc::new(DividedSmoothed(largest.clone()));
    Ok(Interpolated {
        near_null_space: Some(Arc::new(coarse)),
        largest_eigenvalue: inverse.map(|inverse| (largest, inverse)),
        symbolic: Some(symbolic),
        ..Interpolated::alone(GpuMatrix::Divided(p))
    })
}

/// The tentative prolongator of own nodes and ghosts, and the near-null space of own coarse unknowns, or of all where the next level is complete on
/// every rank. Collective.
fn tentative<T: Scalar>(
    gpu: &Gpu,
    (over, a): (&Arc<Distribution>, &DeviceDivided<T>),
    aggregates: &DeviceAggregates,
    space: &DeviceNearNullSpace,
) -> Result<(Tentative<T>, DeviceNearNullSpace)> {
    let (numbers, inside) = (&a.rows, a.rows.inside());
    // One entry for each own node that belongs to an aggregate.
    let of = aggregates.of.subslice(inside.start, inside.len());
    let flags = gpu.allocate::<i32>(of.len())?;
    gpu.launch(gpu.kernel("aggregate_flags")?, of.len(), &[&(of.len() as i64), &of.view(), &flags.view()])?;
    let (offsets, members) = gpu.offsets(&flags)?;
    drop(flags);
    let columns = gpu.allocate::<i32>(members)?;
    let views = [of.view(), offsets.view(), columns.view()];
    let [of_view, starts, to] = &views;
    gpu.launch(gpu.kernel("tentative_columns")?, of.len(), &[&(of.len() as i64), of_view, starts, to])?;
    let (dofs, k) = (space.dofs_per_node, space.count);
    let block = Block { rows: dofs, cols: k };
    let starts = over.block_starts(aggregates.count, k)?;
    let (numbering, columns) = numbered(gpu, over, &starts, &columns)?;
    let values = Arc::new(gpu.zeroed::<T>(members)?);
    let own = OwnRows { block: Block::SCALAR, offsets, columns, values };
    let nodes = DeviceDivided::of_own_rows(gpu, numbers, numbering, own)?;
    // The members of own aggregates, ascending, by the numbers of the columns.
    let of_aggregates = transposed(gpu, over, (&nodes, dofs))?;
    drop(nodes);
    let near = &of_aggregates.columns;
    let ghosts = Ghosts::new(gpu, over, near)?;
    let (own_rows, rows) = (inside.len() * dofs, near.count() * dofs);
    let mut vectors = gpu.zeroed::<f64>(rows * k)?;
    for vector in 0..k {
        let own = space.vectors.subslice(vector * own_rows, own_rows);
        copy_at(gpu, own, vector * rows + near.inside().start * dofs, &vectors)?;
        ghosts.bring(dofs, vectors.subslice_mut(vector * rows, rows))?;
    }
    let own = of_aggregates.rows.own.len();
    let members = (of_aggregates.own_offsets(), &**of_aggregates.matrix.columns, own);
    let found = DeviceNearNullSpace { dofs_per_node: dofs, count: k, vectors };
    let (values, coarse) = tentative::orthonormalised::<T>(gpu, members, near.count(), &found, None)?;

    // Own nodes that other ranks have here are members of their aggregates.
    let width = block.len();
    let of_others = ghosts.back(width, &values)?;
    let kernel = format!("divided_take_{}", T::TYPE.bits().name());
    let views = [ghosts.sent.view(), of_others.view().bits(), values.view().bits()];
    ghosts.each_element(&kernel, width, &views)?;
    let mut all = gpu.zeroed::<T>(numbers.count() * width)?;
    let own = values.subslice(near.inside().start * width, inside.len() * width);
    copy_at(gpu, own, inside.start * width, &all)?;
    Ghosts::new(gpu, over, numbers)?.bring(width, &mut all)?;
    let p0 = Tentative { block, entries: None, values: all };
    let coarse = match over.is_divided(aggregates.count * k) {
        true => coarse,
        false => complete(gpu, over, &coarse)?,
    };
    Ok((p0, coarse))
}

/// Vectors of which each rank has its elements, on every rank. Collective.
fn complete(gpu: &Gpu, over: &Distribution, own: &DeviceNearNullSpace) -> Result<DeviceNearNullSpace> {
    let (of_own, mut vectors) = (gpu.fetch(&own.vectors)?, Vec::new());
    let rows = of_own.len() / own.count;
    for vector in 0..own.count {
        let (all, _) = over.ranks.gather(&of_own[vector * rows..(vector + 1) * rows])?;
        try_extend(&mut vectors, all)?;
    }
    Ok(DeviceNearNullSpace { vectors: gpu.upload(&vectors)?, ..*own })
}
