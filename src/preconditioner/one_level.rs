//! What inverses of one level share: the scaling of 16-bit parts, and wider formats where these lose precision.

use crate::amg::finest::InverseScaling;
use crate::amg::hierarchy::{Builder, SetupOn};
use crate::amg::plan::Plan;
use crate::backend::Backend;
use crate::error::{Result, Status};
use crate::scalar::Scalar;

/// S and S⁻¹; none where the plan has no 16-bit parts or the options say so.
type Scaling<S, B> = (Option<<S as crate::backend::setup::Setup>::Factors>, Option<InverseScaling<B>>);

/// The scaling of a matrix: powers of two near the root of the diagonal.
pub(super) fn scaling<S: SetupOn<B>, B: Backend, T: Scalar>(
    builder: &Builder<'_>,
    setup: &S,
    to: &B,
    a: &S::Matrix<T>,
    plan: &Plan,
) -> Result<Scaling<S, B>> {
    let scaling = builder.config.text("precision.scaling");
    if !plan.is_scaled(0) || scaling == "none" {
        return Ok((None, None));
    }
    let by = setup.scaling_factors(&[a], &scaling, false)?.pop().transpose()?.map(|found| found.factors);
    let inverse = match &by {
        Some(by) => {
            let (factor, inverse) = setup.inverse_scaling(by)?;
            Some(InverseScaling { factor, d: setup.array(to, inverse)?, unit: 1.0 })
        }
        None => None,
    };
    Ok((by, inverse))
}

/// The result of `store` for a plan, with wider formats as long as narrow ones lose precision and may be replaced.
pub(super) fn promoted<R>(plan: &mut Plan, mut store: impl FnMut(&Plan) -> Result<R>) -> Result<R> {
    loop {
        match store(plan) {
            Err(error) if error.status == Status::PrecisionLost && plan.promote(None, &error.message) => {}
            stored => return stored,
        }
    }
}
