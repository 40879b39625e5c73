pub const NAMES: &[&str] = &["classical", "symmetric"];
