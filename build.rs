//! Gives the shared library its SONAME, whose number changes with the ABI.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.0");
}
