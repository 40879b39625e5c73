//! Number of lanes of a warp for a row.

/// A quarter of the average row length, 4 to 32: the loads of a lane's four entries overlap.
pub(super) fn lanes(entries: usize, rows: usize) -> usize {
    entries.div_ceil(4 * rows.max(1)).next_power_of_two().clamp(4, 32)
}
