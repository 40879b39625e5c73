#!/bin/sh
# Builds all tests and runs them in two queues: the suite and the unit tests, which keep all processors busy, and beside them the others, of
# which some have one thread and some wait for compilers.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
folder=${CARGO_TARGET_DIR:-target}
mkdir -p "$folder"
built=$folder/built.txt
others=$folder/other-tests.txt

{ $cargo test --locked --workspace --no-run && echo "All tests are built."; } 2>&1 | tee "$built"
grep -q "^All tests are built.$" "$built"
names=$(sed -n 's|.*Executable tests/\([a-z0-9_]*\).*|\1|p' "$built" | grep -v -x -e suite -e unit | sed 's/^/--test /')
# No library has tests of its own: with --lib they would be compiled once more.
# shellcheck disable=SC2086
{ $cargo test --locked --workspace --bins $names && $cargo test --locked --workspace --doc; } > "$others" 2>&1 &
failed=0
$cargo test --locked --workspace --test suite --test unit || failed=1
wait $! || failed=1
cat "$others"
exit $failed
