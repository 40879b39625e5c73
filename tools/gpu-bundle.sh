#!/bin/sh
# Puts everything that is run on a machine with a GPU into one folder: the command-line program, the tests that run kernels and solves, and
# one script that runs them and prints one table. The machine needs a driver and nothing else.
#
#   tools/gpu-bundle.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
folder=${1:?usage: tools/gpu-bundle.sh FOLDER}
cargo=${CARGO:-cargo}

rm -rf "$folder"
mkdir -p "$folder"
# The executables of the tests, whose names have a hash; their profile is optimised, too.
executable() { # executable NAME ARGUMENTS...
    name=$1
    shift
    $cargo test --locked --no-run --message-format=json "$@" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1 | xargs -I{} cp {} "$folder/$name"
}
$cargo build --release --locked
cp "${CARGO_TARGET_DIR:-target}/release/terrace" "$folder/terrace"
executable kernel-tests --lib
executable solve-tests --test gpu
executable precision-tests --test gpu_precision
strip "$folder/terrace" "$folder/kernel-tests" "$folder/solve-tests" "$folder/precision-tests"

cat > "$folder/run" <<'SCRIPT'
#!/bin/sh
# Tests and benchmarks on the first NVIDIA GPU of this machine. Arguments go to `terrace bench gpu`.
set -eu
cd "$(dirname "$0")"
./terrace info
export TERRACE_TEST_CUDA=1
./kernel-tests gpu::
./solve-tests
./precision-tests
if [ $# -eq 0 ]; then
    set -- poisson7:64 poisson7:128
fi
./terrace bench gpu "$@"
SCRIPT
chmod +x "$folder/run"
du -sh "$folder"
