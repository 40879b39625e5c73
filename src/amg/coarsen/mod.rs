pub const NAMES: &[&str] = &["pmis", "mis2"];
