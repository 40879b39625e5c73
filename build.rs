//! Gives the shared library its SONAME, whose number changes with the ABI.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Cargo hands an argument for cdylibs alone on to the shared libraries of dependents, such as that of compat/amgx; one for all targets it does not.
    // A program does not look at its own SONAME.
    println!("cargo:rustc-link-arg=-Wl,-soname,libterrace.so.0");
}
