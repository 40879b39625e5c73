//! Gives the shared library the name that programs for AmgX look for, and hides the symbols of Terrace's own C ABI.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libamgxsh.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
