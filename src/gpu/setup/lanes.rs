//! How many lanes of a warp work on a row together.

/// For kernels in which a lane has one entry of a row at a time: a quarter of what an average row has, 4 to 32, because loads of a lane's entries
/// are under way together.
pub(super) fn lanes(entries: usize, rows: usize) -> usize {
    entries.div_ceil(4 * rows.max(1)).next_power_of_two().clamp(4, 32)
}
