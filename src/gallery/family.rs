//! What a family of problems is, and how a problem of it is written: `name:sizes:parameter=value,parameter=value`.

use crate::edit_distance::edit_distance;
use crate::error::{Result, fail};
use crate::sparse::Csr;

/// A matrix and the coordinates of its nodes, if they matter.
pub(super) type Generated = (Csr<f64>, Option<Vec<f64>>);

/// Builds a problem from its sizes and the values of its parameters, which are complete and in range.
type Build = fn(&[usize], &[f64]) -> Result<Generated>;

/// A number that changes a problem.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name before the equals sign.
    pub name: &'static str,
    /// Value when it is not given.
    pub default: f64,
    /// Smallest accepted value.
    pub min: f64,
    /// Largest accepted value.
    pub max: f64,
    /// Whether only whole numbers are accepted.
    pub whole: bool,
    /// What it is.
    pub help: &'static str,
}

impl Parameter {
    /// A real number.
    pub(super) const fn real(name: &'static str, default: f64, min: f64, max: f64, help: &'static str) -> Parameter {
        Parameter { name, default, min, max, whole: false, help }
    }

    /// A whole number.
    pub(super) const fn whole(name: &'static str, default: u32, min: u32, max: u32, help: &'static str) -> Parameter {
        Parameter { name, default: default as f64, min: min as f64, max: max as f64, whole: true, help }
    }

    /// What it accepts, like `a number from 1e-12 to 1e12`.
    pub fn accepts(&self) -> String {
        let kind = if self.whole { "whole number" } else { "number" };
        format!("a {kind} from {} to {}", self.written(self.min), self.written(self.max))
    }

    /// The default as a user would write it.
    pub fn default_written(&self) -> String {
        self.written(self.default)
    }

    fn written(&self, value: f64) -> String {
        let size = value.abs();
        if !self.whole && size != 0.0 && !(1e-3..1e4).contains(&size) {
            format!("{value:e}")
        } else {
            value.to_string()
        }
    }

    fn parse(&self, description: &str, text: &str) -> Result<f64> {
        match text.trim().parse::<f64>() {
            Ok(v) if (self.min..=self.max).contains(&v) && (!self.whole || v.fract() == 0.0) => Ok(v),
            _ => {
                let (name, accepts) = (self.name, self.accepts());
                fail!(InvalidArgument, "problem \"{description}\": {name} is \"{text}\"; accepted: {accepts}")
            }
        }
    }
}

/// One row of the table of families.
pub struct Family {
    /// Name before the colon.
    pub name: &'static str,
    /// Names of the sizes after the colon, separated by `x`; one number alone stands for all of them.
    pub sizes: &'static [&'static str],
    /// Name of one more size that may be given, and with it one more dimension.
    pub more: Option<&'static str>,
    /// The sizes when none are given; empty where they must be.
    pub default_sizes: &'static [usize],
    /// Dimension of the space that the problem lives in.
    pub dimension: usize,
    /// What may be given after the sizes.
    pub parameters: &'static [Parameter],
    /// What it is.
    pub help: &'static str,
    /// Whether it is a problem for structured grids, whose matrix is a stencil.
    pub is_stencil: bool,
    build: Build,
}

/// Families whose unknowns are the points of a structured grid, beside those for structured grids.
const ON_GRIDS: &[&str] = &[
    "poisson5",
    "poisson9",
    "poisson7",
    "poisson27",
    "anisotropic",
    "rotated_anisotropic",
    "jumps",
    "convection_diffusion",
];

/// Families of elements with one face clamped: NX x NY x NZ of them have NX x (NY + 1) x (NZ + 1) nodes.
const CLAMPED: &[&str] = &["solid3d", "elasticity", "elasticity_tet"];

impl Family {
    /// The structured grid of a problem with these sizes, if there is one.
    pub(super) fn grid(&self, sizes: &[usize]) -> Option<[usize; 3]> {
        if CLAMPED.contains(&self.name) {
            let elements = |axis: usize| sizes.get(axis).copied().unwrap_or(sizes[0]);
            return Some([elements(0), elements(1) + 1, elements(2) + 1]);
        }
        let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
        (self.is_stencil || ON_GRIDS.contains(&self.name)).then(|| [size(0), size(1), size(2)])
    }

    pub(super) const fn stencil(mut self) -> Family {
        self.is_stencil = true;
        self
    }

    pub(super) const fn new(
        name: &'static str,
        sizes: &'static [&'static str],
        dimension: usize,
        help: &'static str,
        build: Build,
    ) -> Family {
        let (more, default_sizes, parameters) = (None, &[], &[]);
        Family { name, sizes, more, default_sizes, dimension, parameters, help, is_stencil: false, build }
    }

    pub(super) const fn or_with(mut self, size: &'static str) -> Family {
        self.more = Some(size);
        self
    }

    pub(super) const fn default_sizes(mut self, sizes: &'static [usize]) -> Family {
        self.default_sizes = sizes;
        self
    }

    pub(super) const fn parameters(mut self, parameters: &'static [Parameter]) -> Family {
        self.parameters = parameters;
        self
    }

    /// How a problem of this family is written, like `poisson5:N or poisson5:NXxNY`.
    pub fn usage(&self) -> String {
        let (name, all) = (self.name, self.sizes.join("x"));
        let mut forms = Vec::new();
        if !self.default_sizes.is_empty() {
            forms.push(name.to_string());
        }
        if self.sizes.len() > 1 {
            forms.push(format!("{name}:N"));
        }
        forms.push(format!("{name}:{all}"));
        forms.extend(self.more.map(|more| format!("{name}:{all}x{more}")));
        let last = forms.pop().unwrap_or_default();
        if forms.is_empty() { last } else { format!("{} or {last}", forms.join(", ")) }
    }

    /// Sizes, matrix, coordinates and dimension of what follows the name in a description.
    pub(super) fn generate(&self, description: &str, text: &str) -> Result<(Vec<usize>, Generated, usize)> {
        let (sizes, parameters) = text.split_once(':').unwrap_or((text, ""));
        let sizes = self.parse_sizes(description, sizes)?;
        let parameters = self.parse_parameters(description, parameters)?;
        let dimension = self.dimension + sizes.len() - self.sizes.len();
        let generated = (self.build)(&sizes, &parameters)?;
        Ok((sizes, generated, dimension))
    }

    fn parse_sizes(&self, description: &str, text: &str) -> Result<Vec<usize>> {
        let expected = self.usage();
        let mut sizes = Vec::new();
        for part in text.split('x').filter(|_| !text.is_empty()) {
            match part.trim().parse() {
                Ok(size) if size > 0 => sizes.push(size),
                _ => {
                    return fail!(
                        InvalidArgument,
                        "problem \"{description}\": size \"{part}\" is not a positive whole number; expected {expected}"
                    );
                }
            }
        }
        let most = self.sizes.len() + usize::from(self.more.is_some());
        match sizes.len() {
            0 if !self.default_sizes.is_empty() => Ok(self.default_sizes.to_vec()),
            1 => Ok(vec![sizes[0]; self.sizes.len()]),
            count if (self.sizes.len()..=most).contains(&count) => Ok(sizes),
            count => fail!(InvalidArgument, "problem \"{description}\" has {count} sizes; expected {expected}"),
        }
    }

    /// The values of all parameters in the order of the table.
    fn parse_parameters(&self, description: &str, text: &str) -> Result<Vec<f64>> {
        let mut given = vec![None; self.parameters.len()];
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return fail!(InvalidArgument, "problem \"{description}\": \"{part}\" is not of the form name=value");
            };
            let name = name.trim();
            let Some(number) = self.parameters.iter().position(|p| p.name == name) else {
                return fail!(InvalidArgument, "problem \"{description}\": {}", self.unknown(name));
            };
            if given[number].replace(self.parameters[number].parse(description, value)?).is_some() {
                return fail!(InvalidArgument, "problem \"{description}\" gives {name} twice");
            }
        }
        Ok(given.into_iter().zip(self.parameters).map(|(v, p)| v.unwrap_or(p.default)).collect())
    }

    fn unknown(&self, name: &str) -> String {
        let family = self.name;
        let all: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
        match all.iter().min_by_key(|p| edit_distance(p, name)) {
            None => format!("{family} has no parameters, \"{name}\" was given"),
            Some(nearest) => format!(
                "{family} has no parameter \"{name}\"; the nearest is \"{nearest}\"; accepted: {}",
                all.join(", ")
            ),
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use crate::gallery::FAMILIES;

    #[test]
    fn what_is_not_given_has_its_default() {
        let lognormal = FAMILIES.iter().find(|family| family.name == "lognormal").unwrap();
        assert_eq!(lognormal.parse_sizes("lognormal", "").unwrap(), [61, 221, 253]);
        assert_eq!(lognormal.parse_parameters("lognormal", "seed=9").unwrap(), [2.0, 4.0, 9.0]);
        assert!(FAMILIES[0].parse_sizes("poisson5", "").is_err());
    }

    #[test]
    fn defaults_are_accepted_and_written_as_they_are_read() {
        for parameter in FAMILIES.iter().flat_map(|family| family.parameters) {
            let written = parameter.default_written();
            assert_eq!(parameter.parse("", &written).unwrap(), parameter.default, "{}", parameter.name);
        }
    }
}
