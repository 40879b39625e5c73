//! `AMGX_solver_calculate_residual_norm`.

use super::Solver;
use crate::boundary::{Result, call, fail, required};
use crate::config::Norm;
use crate::handles::{self, lock};
use crate::matrix::Matrix;
use crate::ranks::agree;
use crate::vector::{Vector, to_host};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use terrace::capi::{ContextVector, TERRACE_F32};

/// The norm of b - A x, or one for each component of a block; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_solver_calculate_residual_norm(
    solver: *mut c_void,
    mtx: *mut c_void,
    rhs: *mut c_void,
    x: *mut c_void,
    norm_vector: *mut c_void,
) -> c_int {
    call(|| {
        required(norm_vector, "norm_vector")?;
        let (solver, matrix) = (handles::get::<Solver>(solver, "solver")?, handles::get::<Matrix>(mtx, "mtx")?);
        let (rhs, x) = (handles::get::<Vector>(rhs, "rhs")?, handles::get::<Vector>(x, "x")?);
        let objects = [(matrix.mode, "solver and mtx"), (rhs.mode, "solver and rhs"), (x.mode, "solver and x")];
        let modes = objects.into_iter().try_for_each(|(mode, objects)| solver.mode.must_be(mode, objects));
        let own = match matrix.uploaded("mtx") {
            Ok(own) => own,
            Err(failure) => return Err(modes.err().unwrap_or(failure)),
        };
        agree(own.ranks(), modes)?;
        let (norm, is_scalar) = {
            let state = lock(&solver.state);
            (state.plan.norm, state.plan.scalar_norm)
        };
        let residual = agree(own.ranks(), residual(&own, &rhs, &x))?;
        let components = if is_scalar { 1 } else { own.block };
        let norms = (0..components).map(|first| norm_of(norm, residual.iter().skip(first).step_by(components)));
        let mut norms: Vec<f64> = norms.collect();
        if let Some(ranks) = own.ranks() {
            let (all, starts) = ranks.gather(&norms)?;
            if all.len() != components * ranks.size || starts[1] != components {
                return fail!(BadParameters, "use_scalar_norm is not the same on all ranks");
            }
            for (component, norm_here) in norms.iter_mut().enumerate() {
                *norm_here = norm_of(norm, all.iter().skip(component).step_by(components));
            }
        }
        for (component, norm) in norms.into_iter().enumerate() {
            // SAFETY: as many numbers in the format of vectors, as the header asks.
            unsafe {
                match solver.mode.vector {
                    TERRACE_F32 => norm_vector.cast::<f32>().add(component).write(norm as f32),
                    _ => norm_vector.cast::<f64>().add(component).write(norm),
                }
            }
        }
        Ok(())
    })
}

/// b - A x on the host.
fn residual(own: &crate::matrix::Uploaded, rhs: &Arc<Vector>, x: &Arc<Vector>) -> Result<Vec<f64>> {
    let rows = own.scalar_rows();
    if let Some(over) = &own.over {
        let ready = || {
            if Arc::ptr_eq(rhs, x) {
                return fail!(BadParameters, "rhs and x are the same vector; a residual needs two");
            }
            Ok((to_host(rhs.state().of_length(rows, "rhs")?)?, to_host(x.state().of_length(rows, "x")?)?))
        };
        let (mut r, x) = over.ranks.agree(ready())?;
        let product = over.product(Ok(x))?;
        r.iter_mut().zip(product).for_each(|(r, product)| *r -= product);
        return Ok(r);
    }
    let mut r = {
        let mut state = rhs.state();
        let b = state.of_length(rows, "rhs")?;
        let mut r = ContextVector::zeros(own.native.context.state(), b.vector_type(), rows)?;
        // SAFETY: both have this length and format.
        unsafe { r.copy_from(b.as_ptr()) }?;
        r
    };
    if Arc::ptr_eq(rhs, x) {
        return fail!(BadParameters, "rhs and x are the same vector; a residual needs two");
    }
    own.native.apply(-1.0, x.state().of_length(rows, "x")?, 1.0, &mut r)?;
    to_host(&r)
}

fn norm_of<'a>(norm: Norm, values: impl Iterator<Item = &'a f64>) -> f64 {
    match norm {
        Norm::L1 => values.map(|v| v.abs()).sum(),
        Norm::L2 => values.map(|v| v * v).sum::<f64>().sqrt(),
        Norm::Max => values.fold(0.0, |most, v| most.max(v.abs())),
    }
}
