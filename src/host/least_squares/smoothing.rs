//! What smooths a least-squares interpolation with all couplings of the matrix, those between functions included: a Jacobi step P - w/λ
//! D⁻¹ A P, or steps to the least energy among interpolations that are as exact, by [`crate::host::energy`]. For these a row has what its
//! strong neighbours have, too; coarse unknowns keep their values.

use crate::backend::components::InterpolationInput;
use crate::backend::least_squares::Smoothing;
use crate::backend::parameters::{Estimate, energy_weights};
use crate::backend::spectrum::Largest;
use crate::error::{Result, try_extend};
use crate::host::energy::{Constraint, minimise};
use crate::host::smoothed::Step;
use crate::host::{Host, rows};
use crate::scalar::Scalar;
use crate::sparse::{Csr, Graph, NearNullSpace, SharedCsr, Structure};
use std::sync::Arc;

/// An interpolation that was smoothed.
pub struct Smoothed<T> {
    /// P.
    pub p: SharedCsr<T>,
    /// The largest eigenvalue of D^-1 A.
    pub largest: Largest,
    /// D^-1.
    pub inverse: Vec<T>,
}

/// Smooths the interpolation from the coarse unknowns that have this near-null space.
pub fn smooth<T: Scalar>(
    smoothing: Smoothing,
    input: &InterpolationInput<'_, Host, T>,
    (coarse, space): (&[bool], &NearNullSpace),
    fitted: &Csr<T>,
    earlier: Option<&Largest>,
) -> Result<Smoothed<T>> {
    let (a, estimate) = (input.whole.view(), Estimate::new(input.parameters));
    let how = (input.parameters.real("amg.interpolation.weight"), estimate);
    let step = Step::whole(input.setup, &a, how, earlier)?;
    let largest = step.largest().clone();
    if smoothing == Smoothing::Jacobi {
        let p = step.smooth(fitted)?.into_shared();
        return Ok(Smoothed { p, largest, inverse: step.into_inverse() });
    }
    let structure = match input.pattern() {
        Some(pattern) => Arc::clone(pattern.rows()),
        None => Arc::new(wider(fitted, input.graph, coarse)?),
    };
    let weights = energy_weights(input.parameters.int("amg.interpolation.energy.steps"), largest.value)?;
    let (constraint, inverse) = (Constraint::new(&structure, space)?, step.into_inverse());
    let values = minimise(&a, &inverse, fitted, &structure, &constraint, &weights)?;
    Ok(Smoothed { p: SharedCsr { structure, values: Arc::new(values) }, largest, inverse })
}

/// The columns of each fine row and of its strong neighbours.
pub fn wider<T: Scalar>(p: &Csr<T>, s: &Graph, coarse: &[bool]) -> Result<Structure> {
    let view = p.view();
    let (offsets, columns, _) = rows::build::<u32>(p.rows, 0, |range, out| {
        let mut row: Vec<i32> = Vec::new();
        for i in range {
            row.clear();
            let near = if coarse[i] { &[][..] } else { s.row(i) };
            for j in near.iter().map(|j| *j as usize).chain([i]) {
                try_extend(&mut row, view.row(j).map(|(c, _)| c as i32))?;
            }
            row.sort_unstable();
            row.dedup();
            out.reserve(row.len(), 0)?;
            out.columns.extend_from_slice(&row);
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Structure::new(p.rows, p.cols, p.block, offsets, columns))
}
