//! The numbering of unknowns: where the caller's has bad locality, a solver works with a copy of the matrix in another order. Right-hand
//! sides and solutions are permuted on their way in and out, so that the caller does not see it.

use super::{Solver, State};
use crate::backend::reorder::FEWEST_ROWS;
use crate::context::LogLevel;
use crate::error::Result;
use crate::matrix::{Matrix, Permutation, Reordered};
use crate::preconditioner::Method;
use crate::report::Reordering;
use std::sync::Arc;
use std::time::Instant;

/// What set-up found about the order of the unknowns, and the copy of the matrix in another one.
pub(super) struct Order {
    pub report: Reordering,
    pub copy: Option<(Arc<Matrix>, Permutation)>,
}

impl Order {
    /// Bytes of the permutation, and of a copy of the matrix in device memory.
    pub fn bytes(&self) -> usize {
        self.copy.as_ref().map_or(0, |(copy, permutation)| permutation.bytes() + copy.device_bytes())
    }
}

impl Solver {
    /// Looks at the order of the unknowns of a matrix, and renumbers them where that pays. None where the options or the parts of the solver do
    /// not allow it.
    pub(super) fn order(&self, matrix: Option<&Arc<Matrix>>) -> Result<Option<Order>> {
        let Some(matrix) = matrix.filter(|matrix| self.may_reorder(matrix)) else { return Ok(None) };
        let start = Instant::now();
        let always = self.config.text("amg.reorder") == "on";
        let functions = self.interleaved_functions(matrix);
        let Some(reordered) = matrix.reordered(&self.context, functions, always)? else { return Ok(None) };
        let Reordered { shape, before, after, copy } = reordered;
        let after = after.map(|after| after.bytes_of_x(shape));
        let (before, is_renumbered) = (before.bytes_of_x(shape), copy.is_some());
        let report = Reordering { is_renumbered, before, after, seconds: start.elapsed().as_secs_f64() };
        self.context.log(LogLevel::Info, || report.to_text());
        Ok(Some(Order { report, copy }))
    }

    /// Whether the options and the parts of the solver allow to renumber the unknowns of this matrix. What callbacks get is in the caller's order,
    /// and a grid is a numbering.
    fn may_reorder(&self, matrix: &Matrix) -> bool {
        let wanted = self.config.text("amg.reorder");
        let fewest = if wanted == "on" { 1 } else { FEWEST_ROWS };
        wanted != "off"
            && matrix.rows() >= fewest
            && self.method() == Some(Method::Amg)
            && self.operator.is_none()
            && self.preconditioner_matrix.is_none()
            && matrix.stencil().is_none()
    }

    /// Bytes of a copy of the matrix in another order, where set-up may make one and samples of the matrix do not.
    pub(super) fn copy_bytes(&self, matrix: &Matrix) -> Result<usize> {
        let is_open = self.config.text("amg.reorder") == "auto" && self.may_reorder(matrix);
        if !is_open || !matrix.is_badly_ordered(&self.context, self.interleaved_functions(matrix))? {
            return Ok(0);
        }
        let (rows, block) = (matrix.rows(), matrix.block());
        let pattern = matrix.entries() / block.len() * size_of::<i32>() + rows / block.rows * size_of::<i64>();
        // Two maps, and a right-hand side with its solution.
        let vectors = rows * 2 * (size_of::<i32>() + self.precision().bytes());
        Ok(pattern + matrix.entries() * matrix.precision().bytes() + vectors)
    }

    /// Functions that are numbered point by point.
    fn interleaved_functions(&self, matrix: &Matrix) -> usize {
        if matrix.functions().is_some() { 0 } else { self.config.int("amg.functions") }
    }

    /// Takes over new values of the caller's matrix, which were checked, in the copy in another order.
    pub(super) fn update_order(&self, state: &mut State) -> Result<()> {
        let (Some(callers), Some(order)) = (&state.matrix, &mut state.order) else { return Ok(()) };
        let Some((copy, permutation)) = &order.copy else { return Ok(()) };
        let start = Instant::now();
        copy.update_reordered(callers, &self.context, permutation)?;
        order.report.seconds = start.elapsed().as_secs_f64();
        Ok(())
    }
}
