//! How many lanes of a warp work on a row together.

/// For kernels in which a lane has one entry of a row at a time: as many as an average row has entries, 4 to 32.
pub(super) fn lanes(entries: usize, rows: usize) -> usize {
    entries.div_ceil(rows.max(1)).next_power_of_two().clamp(4, 32)
}
