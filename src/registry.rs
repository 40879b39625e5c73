//! The one way to list the components of a family: name, and how to make it.

/// Declares `NAMES`, for the options table, and a function that makes the component of a name. A new component is one line.
macro_rules! registry {
    (
        $(#[$doc:meta])*
        fn $make:ident<$($generic:ident: $bound:path),*>($($argument:ident: $type:ty),*) -> $result:ty;
        $($name:literal => $component:expr;)*
    ) => {
        /// Names of the components, as the options spell them.
        pub const NAMES: &[&str] = &[$($name),*];

        $(#[$doc])*
        pub(crate) fn $make<$($generic: $bound),*>(name: &str, $($argument: $type),*) -> $result {
            match name {
                $($name => $component,)*
                _ => unreachable!("the options table accepts only names of the registry, not {name}"),
            }
        }
    };
}
pub(crate) use registry;
