//! The name under which programs look for the library.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmillpond.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
