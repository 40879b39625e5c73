//! Gives the shared library its SONAME, so that programs record `libterrace.so.0` and not the file name.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.0");
}
