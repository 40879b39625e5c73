//! What may help a right-hand side that was not solved to the tolerance.

use std::fmt;

/// What may help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing to be said.
    #[default]
    None,
    /// A sentence.
    Text(&'static str),
    /// Other options.
    Try(Remedies),
}

/// Options that set-up would take and the solve has not tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remedies {
    /// Whether more iterations may help.
    pub iterations: bool,
    /// A preset.
    pub preset: Option<&'static str>,
    /// Other Krylov methods, in words.
    pub method: Option<&'static str>,
    /// The factors of the matrix.
    pub factors: Factors,
}

/// What is to be said about a factorisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Factors {
    /// Nothing: it would be refused, or was tried.
    #[default]
    Unnamed,
    /// `solver.type` direct may help.
    Offered,
    /// It takes more than `solver.type` auto spends.
    TooLarge,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::None => Ok(()),
            Hint::Text(text) => f.write_str(text),
            Hint::Try(remedies) => remedies.fmt(f),
        }
    }
}

impl fmt::Display for Remedies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Remedies { iterations, preset, method, factors } = *self;
        let all = [
            iterations.then_some(("raise solver.max_iterations", "")),
            preset.map(|preset| ("try another preset, such as ", preset)),
            method.map(|method| ("set solver.type to ", method)),
            (factors == Factors::Offered).then_some(("set solver.type to direct", "")),
        ];
        let count = all.iter().flatten().count();
        for (i, (what, which)) in all.into_iter().flatten().enumerate() {
            let separator = match i {
                0 => "",
                i if i + 1 < count => ", ",
                _ => ", or ",
            };
            write!(f, "{separator}{what}{which}")?;
        }
        match (factors, count) {
            (Factors::TooLarge, count) => write!(
                f,
                "{}a factorisation takes more time or memory than auto spends unasked: set solver.type to direct to have it all \
                 the same",
                if count > 0 { "; " } else { "" }
            ),
            (_, 0) => f.write_str("use another preconditioner"),
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn remedies_are_listed_in_one_sentence() {
        let told = |iterations, preset, method, factors| {
            Hint::Try(Remedies { iterations, preset, method, factors }).to_string()
        };
        assert_eq!(told(false, None, None, Factors::Unnamed), "use another preconditioner");
        assert_eq!(told(true, None, None, Factors::Unnamed), "raise solver.max_iterations");
        assert_eq!(
            told(true, Some("difficult"), None, Factors::Offered),
            "raise solver.max_iterations, try another preset, such as difficult, or set solver.type to direct"
        );
        let large = told(false, None, Some("cg"), Factors::TooLarge);
        assert!(large.starts_with("set solver.type to cg; a factorisation takes more"), "{large}");
        assert!(told(false, None, None, Factors::TooLarge).starts_with("a factorisation"));
        assert_eq!(Hint::None.to_string(), "");
    }
}
