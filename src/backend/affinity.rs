//! Parameters of affinity on which the backends must agree.

use super::parameters::Threshold;

/// Distances below this are rounding. As in `kernels/affinity.cu`.
pub const NEAREST: f64 = 1e-12;

/// The threshold where the options name none.
pub const USUAL: Threshold = Threshold::Given(0.25);
