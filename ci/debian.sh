#!/usr/bin/env bash
# `ci/debian.sh COMMAND PACKAGES…`: makes sure that a command is there. One that is missing is installed from Debian's packages where
# this is allowed to; elsewhere the status is 1 and a line says what is missing. For steps that need more than a Rust toolchain.
set -euo pipefail
command=$1
shift
if command -v "$command" >/dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null && apt-get install -qq -y --no-install-recommends "$@" >/dev/null
fi
command -v "$command" >/dev/null || { echo "left out: there is no $command (packages: $*)"; exit 1; }
