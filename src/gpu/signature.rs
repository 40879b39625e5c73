//! The parameters of a kernel as `kernels/` declares them, against which the simulation compares the arguments of every
//! launch.

use crate::error::{Result, fail};
use crate::scalar::ElementType;
use std::fmt::{Display, Formatter};

/// The type of an argument that a launch gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A number or a struct, by its name in kernels.
    Value(&'static str),
    /// An array of this type; none if the kernel does not read it, or if another argument or its name determines the
    /// type.
    Array(Option<ElementType>),
}

impl Type {
    /// Whether a parameter of this type takes it: `i32`, `In<f64>`, `Out<f64>`, `Any`.
    fn suits(self, parameter: &str) -> bool {
        let element = |start: &str| parameter.strip_prefix(start).and_then(|rest| rest.strip_suffix('>'));
        match (self, element("In<").or(element("Out<"))) {
            (Type::Value(name), _) => parameter == name,
            (Type::Array(Some(given)), Some(declared)) => given.name() == declared,
            (Type::Array(None), Some(_)) => true,
            (Type::Array(_), None) => parameter == "Any",
        }
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Value(name) => f.write_str(name),
            Type::Array(Some(element)) => write!(f, "an array of {}", element.name()),
            Type::Array(None) => f.write_str("an array"),
        }
    }
}

/// Compares arguments with the parameters of a kernel, whose types are separated by commas.
pub(super) fn check(kernel: &str, parameters: &str, arguments: &[Type]) -> Result<()> {
    let count = parameters.split_terminator(',').count();
    if count != arguments.len() {
        return fail!(Internal, "kernel {kernel} has {count} parameters, and {} arguments are given", arguments.len());
    }
    for (i, (parameter, given)) in parameters.split_terminator(',').zip(arguments).enumerate() {
        if !given.suits(parameter) {
            return fail!(Internal, "parameter {} of kernel {kernel} is {parameter}, and {given} is given", i + 1);
        }
    }
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn arguments_suit_parameters_of_their_type_alone() {
        let f64s = Type::Array(Some(ElementType::F64));
        let cases = [
            (f64s, "In<f64>", true),
            (f64s, "Out<f64>", true),
            (f64s, "Any", true),
            (f64s, "In<f32>", false),
            (f64s, "In<bf16>", false),
            (f64s, "f64", false),
            (f64s, "Epilogue", false),
            (Type::Array(None), "Out<u64>", true),
            (Type::Array(None), "i64", false),
            (Type::Value("f64"), "f64", true),
            (Type::Value("f64"), "i64", false),
            (Type::Value("i64"), "In<i64>", false),
            (Type::Value("Epilogue"), "Any", false),
        ];
        for (given, parameter, suits) in cases {
            assert_eq!(given.suits(parameter), suits, "{given} for {parameter}");
        }
    }
}
