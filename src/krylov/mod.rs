pub const NAMES: &[&str] = &["cg", "fcg", "gmres"];
