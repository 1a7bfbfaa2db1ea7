//! `millpond sim` and `millpond device`.
#![cfg(unix)]

mod common;

use common::{Run, json, program, run_with};
use serde_json::Value;

/// Whether this machine has a driver of its own, beside which there is no simulation.
fn is_real() -> bool {
    millpond_cuda::trace_of_driver(std::path::Path::new("/")).is_some()
}

/// `millpond sim ARGUMENTS`, with the libraries that were built with these tests.
fn sim(arguments: &[&str]) -> Run {
    let mut command = program();
    run_with(command.env("MILLPOND_LIB", common::libraries()).arg("sim").args(arguments))
}

/// That it ended with an error of its own, which says these words.
fn refused(run: &Run, words: &str) {
    assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.starts_with("error[MP00") && run.stderr.contains(words), "{}", run.stderr);
}

fn millpond() -> &'static str {
    env!("CARGO_BIN_EXE_millpond")
}

#[test]
fn the_simulated_device_is_as_asked_for() {
    if is_real() {
        return;
    }
    let options = ["--capacity", "24G", "--devices", "2", "--compute", "8.6", "--others", "4G"];
    let run = sim(&[&options[..], &["--", millpond(), "device", "--json"]].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    let found = json(&run);
    let device = &found["devices"][1];
    assert_eq!(found["devices"].as_array().map(Vec::len), Some(2));
    assert_eq!((&device["total"], &device["free"]), (&(24u64 << 30).into(), &(20u64 << 30).into()));
    assert_eq!((&device["compute"], &device["vmm"], &device["fabric"]), (&"8.6".into(), &true.into(), &false.into()));
    assert!(device["name"].as_str().is_some_and(|name| name.contains("Millpond simulated")), "{device}");
    let text = sim(&["--", millpond(), "device"]).stdout;
    assert!(text.contains("pages of 2MiB") && text.contains("80GiB free"), "{text}");
}

#[test]
fn the_status_of_the_program_is_passed_on() {
    if is_real() {
        return;
    }
    assert_eq!(sim(&["--", "sh", "-c", "exit 7"]).status, 7);
    assert_eq!(sim(&["--", "sh", "-c", "kill -9 $$"]).status, 128 + 9);
    let run = sim(&["--", "/nowhere/program"]);
    refused(&run, "/nowhere/program");
}

#[test]
fn the_program_alone_gets_the_libraries_and_their_folder_goes_with_it() {
    if is_real() {
        return;
    }
    let run = sim(&["--", "sh", "-c", "echo $LD_PRELOAD; ls -l ${LD_LIBRARY_PATH%%:*}"]);
    let preload = run.stdout.lines().next().unwrap_or_default();
    let names = ["libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1"];
    assert!(
        names.iter().all(|name| preload.contains(name) && run.stdout.contains(&format!("{name} -> "))),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("libcudart.so.12 -> ") && !preload.contains("libcudart.so.12"), "{}", run.stdout);
    let first = std::path::Path::new(preload.split(':').next().unwrap_or_default());
    assert!(first.is_absolute() && !first.exists(), "{}", first.display());
}

#[test]
fn the_log_has_every_call_and_what_it_changed() {
    if is_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("calls.jsonl").display().to_string();
    let run = sim(&["--log", &log, "--faults", "cuMemGetInfo:1:OUT_OF_MEMORY", "--", millpond(), "device"]);
    refused(&run, "cuMemGetInfo");
    let text = std::fs::read_to_string(&log).expect("the log");
    let calls: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(calls.iter().enumerate().all(|(n, call)| call["n"] == n), "{text}");
    assert!(calls.iter().any(|call| call["call"] == "cuInit" && call["code"] == 0), "{text}");
    assert!(calls.iter().any(|call| call["call"] == "cuMemGetInfo_v2" && call["code"] == 2), "{text}");
}

#[test]
fn a_machine_that_makes_no_sense_is_refused_before_anything_runs() {
    if is_real() {
        return;
    }
    refused(&sim(&["--devices", "65", "--", "true"]), "0 to 64");
    refused(&sim(&["--faults", "cuMemMop:1:2", "--", "true"]), "cuMemMop");
    refused(&sim(&["--capacity", "1G", "--others", "2G", "--", "true"]), "nothing is left");
    let run = run_with(program().env("MILLPOND_LIB", "/nowhere").args(["sim", "--", "true"]));
    refused(&run, "/nowhere");
}

#[test]
fn without_a_driver_the_error_says_what_was_tried() {
    if is_real() {
        return;
    }
    let run = run_with(program().env_remove("LD_LIBRARY_PATH").env("MILLPOND_LIBCUDA", "libnowhere.so").arg("device"));
    refused(&run, "libnowhere.so");
}

/// Asks the runtime by the versions of its symbols, as the linker does for programs of CUDA 12 and 13.
const VERSIONS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*count_fn)(int *);
typedef int (*at_fn)(void *, unsigned long);
typedef int (*malloc_fn)(void **, size_t);

int main(void) {
    const char *names[] = {"libcudart.so.12", "libcudart.so.13"};
    const char *properties[] = {"cudaGetDeviceProperties_v2", "cudaGetDeviceProperties"};
    const size_t sizes[] = {1032, 1008}, pointers[] = {24, 88};
    for (int i = 0; i < 2; ++i) {
        unsigned char found[1100], pointer[100];
        void *library = dlopen(names[i], RTLD_NOW), *block = NULL;
        int version = 0;
        memset(found, 0x5a, sizeof found);
        memset(pointer, 0x5a, sizeof pointer);
        int failed = ((count_fn)dlvsym(library, "cudaRuntimeGetVersion", names[i]))(&version);
        failed |= ((at_fn)dlvsym(library, properties[i], names[i]))(found, 0);
        failed |= ((malloc_fn)dlvsym(library, "cudaMalloc", names[i]))(&block, 4096);
        failed |= ((at_fn)dlvsym(library, "cudaPointerGetAttributes", names[i]))(pointer, (unsigned long)block);
        int whole = found[sizes[i]] == 0x5a && found[sizes[i] - 1] == 0;
        whole &= pointer[pointers[i]] == 0x5a && pointer[pointers[i] - 1] == 0 && pointer[0] == 2;
        printf("%d: %d, %s, major %d, %s\n", version, failed, (char *)found, *(int *)(found + 360), whole ? "whole" : "not");
    }
    return 0;
}
"#;

#[test]
fn programs_of_cuda_12_and_13_get_their_own_forms_of_the_runtime() {
    if is_real() || std::process::Command::new("cc").arg("--version").output().is_err() {
        eprintln!("left out: there is a real driver, or no C compiler");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (source, built) = (folder.path().join("versions.c"), folder.path().join("versions"));
    std::fs::write(&source, VERSIONS).expect("the source is written");
    let cc = std::process::Command::new("cc").arg(&source).arg("-o").arg(&built).arg("-ldl").status();
    assert!(cc.is_ok_and(|status| status.success()));
    let run = sim(&["--", &built.display().to_string()]);
    let expected =
        "12090: 0, Millpond simulated device, major 9, whole\n13020: 0, Millpond simulated device, major 9, whole\n";
    assert_eq!((run.status, run.stdout.as_str()), (0, expected), "{}", run.stderr);
}
