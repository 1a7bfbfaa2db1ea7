#!/usr/bin/env bash
# ThreadSanitizer over the tests in which threads meet on the allocator: the stress of crates/alloc/tests/threads.rs, and C77.
# 1.5 minutes on two cores, 20 seconds once built. Stable toolchains hold the runtime and, with RUSTC_BOOTSTRAP=1, the flag.
#
# std is not instrumented, and a std mutex that waits is invisible: under `cfg(tsan)` the allocator's locks spin
# (crates/alloc/src/sync.rs). What else std does out of sight is listed in tsan.supp, line by line. The simulated machine is
# not a subject: one std mutex guards all of it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg tsan"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"
cargo test --target "$target" -p millpond --test threads
cargo test --target "$target" -p millpond --test cases_streams -- c77
