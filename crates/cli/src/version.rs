//! What `--version` says.

/// Version, commit and the rules that the `torch` preset follows, without the program's name. The commit comes from `build.rs`.
pub const LINE: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("MILLPOND_COMMIT"), ", rules of PyTorch 2.15)");
