//! The house rules that a compiler does not know: the layer law, where `unsafe` may stand, one binary, one MSRV.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The layers from the ground up: a package uses only those of the lines before its own. Folders, not names.
const LAYERS: &[&[&str]] = &[
    &["crates/driver"],
    &["crates/snapshot", "crates/sim", "crates/cuda"],
    &["crates/alloc"],
    &["crates/elastic"],
    &["crates/replay"],
    &["crates/bench", "crates/doctor"],
    &["crates/report", "crates/viewer"],
    &["crates/cli"],
    &["shim/common"],
    &["shim/libcuda"],
    &["shim/libcudart", "shim/libnvml", "bindings/c", "bindings/python"],
    &["benches", "fuzz", "gpu"],
];

/// Leaves: they use no package of the workspace at all.
const LEAVES: &[&str] = &["crates/snapshot", "crates/driver"];

/// The allocator stands on the traits of a device and not on a device.
const NEVER: &[(&str, &[&str])] = &[("crates/alloc", &["crates/sim", "crates/cuda"])];

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &["benches", "crates/cuda", "bindings/", "shim/", "fuzz", "gpu"];

struct Package {
    folder: String,
    rust_version: String,
    /// Folders of the workspace's packages that it is built with; not those that its tests use.
    uses: Vec<String>,
    /// Kind and source of each target.
    targets: Vec<(String, String)>,
}

fn packages() -> Vec<Package> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let root = text(&metadata["workspace_root"]);
    let inside = |path: &str| Path::new(path).strip_prefix(&root).ok().map(|path| path.display().to_string());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let package = |package: &Value| Package {
        folder: inside(text(&package["manifest_path"]).trim_end_matches("/Cargo.toml")).expect("inside"),
        rust_version: text(&package["rust_version"]),
        uses: list(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
            .filter_map(|dependency| inside(dependency["path"].as_str()?))
            .collect(),
        targets: list(&package["targets"])
            .iter()
            .map(|target| (text(&target["kind"][0]), text(&target["src_path"])))
            .collect(),
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

#[test]
fn a_crate_uses_only_those_below_it() {
    let layer_of: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, folders)| folders.iter().map(move |&folder| (folder, layer)))
        .collect();
    for Package { folder, uses, .. } in packages() {
        let Some(layer) = layer_of.get(folder.as_str()) else { panic!("{folder} needs a place in LAYERS") };
        for used in uses {
            let Some(below) = layer_of.get(used.as_str()) else { panic!("{used} needs a place in LAYERS") };
            assert!(below < layer, "{folder} uses {used}, which is not below it");
            assert!(!LEAVES.contains(&folder.as_str()), "{folder} is a leaf and uses {used}");
            let is_forbidden = NEVER.iter().any(|&(user, never)| user == folder && never.contains(&used.as_str()));
            assert!(!is_forbidden, "{folder} must not use {used}");
        }
    }
}

#[test]
fn unsafe_is_forbidden_outside_of_its_places() {
    for Package { folder, targets, .. } in packages() {
        if UNSAFE.iter().any(|place| folder.starts_with(place)) {
            continue;
        }
        for (kind, source) in targets {
            if kind == "lib" || kind == "bin" {
                let text = std::fs::read_to_string(&source).expect("a target's source");
                assert!(text.contains("#![forbid(unsafe_code)]"), "{source} does not forbid unsafe code");
            }
        }
    }
}

#[test]
fn there_is_one_binary_so_that_cargo_run_works() {
    let packages = packages();
    let targets = packages.iter().flat_map(|package| &package.targets);
    let binaries: Vec<_> = targets.filter(|(kind, _)| kind == "bin").collect();
    assert_eq!(binaries.len(), 1, "{binaries:?}");
}

#[test]
fn every_manifest_names_the_same_oldest_rust() {
    for Package { folder, rust_version, .. } in packages() {
        assert_eq!(rust_version, env!("CARGO_PKG_RUST_VERSION"), "{folder}");
    }
}
