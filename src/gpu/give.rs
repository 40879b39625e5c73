//! Arrays of a matrix for a caller who wants them in device memory.

use super::runtime::{Argument, BLOCK};
use super::setup::DeviceCsr;
use super::vector::ELEMENTS;
use super::{Gpu, Indices};
use crate::error::Result;
use crate::scalar::Number;

impl Gpu {
    /// Row offsets of a matrix, or columns, counted from `base`.
    pub(crate) fn give_indices<T: Number>(
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
        let kernel = self.kernel(&format!("give_{from_type}_as_{to_type}"))?;
        self.launch(kernel, threads, &[&(n as i64) as &dyn Argument, &base, &from, &to])
    }
}
