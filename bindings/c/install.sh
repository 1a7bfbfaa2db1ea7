#!/usr/bin/env bash
# install.sh PREFIX [LIBRARY]: puts the library, its header and its pkg-config file under PREFIX. Builds it first, in a minute or
# two, unless LIBRARY names a libmillpond_c.so that was built before.
set -euo pipefail
prefix=${1:?usage: install.sh PREFIX [LIBRARY]}
built=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
if [ -z "$built" ]; then
    (cd "$root" && cargo build --release --quiet -p millpond-c)
    built=${CARGO_TARGET_DIR:-$root/target}/release/libmillpond_c.so
fi
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")

install -d "$prefix/lib/pkgconfig" "$prefix/include"
install -m 755 "$built" "$prefix/lib/libmillpond.so.$version"
ln -sf "libmillpond.so.$version" "$prefix/lib/libmillpond.so.0"
ln -sf libmillpond.so.0 "$prefix/lib/libmillpond.so"
install -m 644 "$here/include/millpond.h" "$prefix/include/millpond.h"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/millpond.pc.in" >"$prefix/lib/pkgconfig/millpond.pc"
