//! What set-up found about the order of the unknowns, and did about it.

/// The locality of a matrix: bytes of x that a chunk of rows touches for each row. An element of x has 8.
#[derive(Clone, Debug)]
pub struct Reordering {
    /// Whether the unknowns were renumbered.
    pub is_renumbered: bool,
    /// In the caller's order.
    pub before: f64,
    /// In the order of a breadth-first search, where that was computed.
    pub after: Option<f64>,
    /// Seconds that this took in set-up, or in the last update.
    pub seconds: f64,
}

impl Reordering {
    /// One line for people.
    pub fn to_text(&self) -> String {
        let before = format!("{:.0} bytes of x for each row", self.before);
        match (self.is_renumbered, self.after) {
            (true, Some(after)) => {
                format!("unknowns renumbered by breadth-first search: {before} before, {after:.0} after")
            }
            (false, Some(after)) => format!("unknowns kept in order: {before}, {after:.0} by breadth-first search"),
            _ => format!("unknowns kept in order: {before}"),
        }
    }
}
