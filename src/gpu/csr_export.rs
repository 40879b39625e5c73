//! Export of the index arrays of a matrix to device memory of the caller.

use super::runtime::{Argument, BLOCK};
use super::setup::DeviceCsr;
use super::vector::ELEMENTS;
use super::{Gpu, Indices};
use crate::error::Result;
use crate::scalar::Number;

impl Gpu {
    /// Writes row offsets or columns, counted from `base`, in the caller's index type.
    pub(crate) fn export_indices<T: Number>(
        &self,
        a: &DeviceCsr<T>,
        offsets: bool,
        base: i32,
        to: &Indices<'_>,
    ) -> Result<()> {
        let (from_type, from) = if offsets { ("i64", a.offsets.view()) } else { ("i32", a.columns.view()) };
        let (to_type, to) = match to {
            Indices::I32(to) => ("i32", to.view()),
            Indices::I64(to) => ("i64", to.view()),
        };
        let n = from.len();
        assert_eq!(n, to.len());
        let threads = n.div_ceil(ELEMENTS * BLOCK) * BLOCK;
        let kernel = self.kernel(&format!("export_{from_type}_as_{to_type}"))?;
        self.launch(kernel, threads, &[&(n as i64) as &dyn Argument, &base, &from, &to])
    }
}
