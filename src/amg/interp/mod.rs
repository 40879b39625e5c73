pub const NAMES: &[&str] = &["extended_i", "smoothed", "tentative"];
