pub const NAMES: &[&str] = &["jacobi", "l1_jacobi"];
