#!/usr/bin/env bash
# The page that crates/viewer carries is what web/ builds. Needs Node and npm's registry; seconds once installed.
set -euo pipefail
cd "$(dirname "$0")"
./debian.sh npm nodejs npm || exit 0
cd ../web
[ -d node_modules ] || npm ci --ignore-scripts --no-audit --no-fund
npx tsc --noEmit
built=$(mktemp)
trap 'rm -f "$built"' EXIT
node build.mjs "$built"
cmp "$built" ../crates/viewer/assets/page.html || { echo "assets/page.html is out of date: npm run build in web/"; exit 1; }
