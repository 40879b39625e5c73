#!/bin/sh
# Puts everything that is run on a machine with a GPU into one folder: the command-line program, the tests that run kernels and solves, C programs
# with the shared library, one script that runs them and prints one table, and one that runs the tests under compute-sanitizer. The machine needs a
# driver, and for the latter that tool.
#
#   tools/gpu-bundle.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
folder=${1:?usage: tools/gpu-bundle.sh FOLDER}
cargo=${CARGO:-cargo}
release=${CARGO_TARGET_DIR:-target}/release

rm -rf "$folder"
mkdir -p "$folder"
# The executables of the tests, whose names have a hash, and not that of the program, which is built for them; their profile is optimised, too.
executable() { # executable NAME ARGUMENTS...
    name=$1
    shift
    built=$($cargo test --locked --no-run --message-format=json "$@" | sed -n 's|.*"executable":"\([^"]*/deps/[^"]*\)".*|\1|p' | tail -n 1)
    cp "$built" "$folder/$name"
}
$cargo build --release --locked
cp "$release/terrace" "$folder/terrace"
cp "$release/libterrace.so" "$folder/libterrace.so.0"
executable kernel-tests --lib
executable solve-tests --test gpu
executable precision-tests --test gpu_precision
executable setup-tests --test gpu_setup
# Programs that find the library beside them.
program() { # program NAME SOURCES...
    name=$1
    shift
    ${CC:-cc} -std=c99 -O2 -Iinclude "$@" -o "$folder/$name" "$folder/libterrace.so.0" -ldl -lm -lpthread -Wl,-rpath,'$ORIGIN'
}
program c-threads tests/c/gpu.c tests/c/check.c
program poisson_cuda c_examples/poisson_cuda.c
for file in terrace libterrace.so.0 kernel-tests solve-tests precision-tests setup-tests; do
    strip "$folder/$file"
done

cat > "$folder/run" <<'SCRIPT'
#!/bin/sh
# Tests and benchmarks on the first NVIDIA GPU of this machine. Arguments go to `terrace bench gpu`.
set -eu
cd "$(dirname "$0")"
./terrace info
if ! ./terrace info --json | grep -q '"cuda:0"'; then
    echo "There is no NVIDIA GPU that this bundle can use; the line \"cuda\" above says why." >&2
    exit 1
fi
export TERRACE_TEST_CUDA=1
./kernel-tests gpu::
./solve-tests
./precision-tests
./setup-tests
echo "eight threads through the C ABI"
./c-threads cuda:0
./poisson_cuda 64 cuda:0
if [ $# -eq 0 ]; then
    set -- poisson7:64 poisson7:128
fi
./terrace bench gpu "$@"
SCRIPT

cat > "$folder/sanitize" <<'SCRIPT'
#!/bin/sh
# The tests of kernels and solves, each alone, under compute-sanitizer, which is on the PATH or named by COMPUTE_SANITIZER: a line for each, and all
# that it says where one is not clean. Ends with 1 if there was such a test, or one that took too long for a verdict.
#
#   ./sanitize TOOL [SECONDS [FILTER]]     memcheck or racecheck; seconds for a test (300); tests whose name contains the filter
set -eu
tool=${1:?usage: ./sanitize memcheck|racecheck [SECONDS [FILTER]]}
limit=${2:-300}
filter=${3:-}
cd "$(dirname "$0")"
export TERRACE_TEST_CUDA=1
said=$(mktemp)
trap 'rm -f "$said"' EXIT
clean=0
others=0
for program in kernel-tests solve-tests; do
    only=
    [ "$program" = solve-tests ] || only=gpu::
    for test in $(./$program --list | sed -n 's/: test$//p' | grep -F "$only" | grep -F "$filter"); do
        code=0
        timeout "$limit" "${COMPUTE_SANITIZER:-compute-sanitizer}" --tool "$tool" --error-exitcode 9 \
            ./$program "$test" --exact --test-threads 1 > "$said" 2>&1 || code=$?
        verdict="not clean, exit status $code"
        if [ "$code" -eq 0 ]; then
            verdict=clean
        elif [ "$code" -eq 124 ]; then
            verdict="no verdict in $limit s"
        elif grep -q "before first instrumented API call" "$said"; then
            verdict="runs no kernel"
        fi
        echo "$tool $test: $verdict"
        case $verdict in
        clean) clean=$((clean + 1)) ;;
        "runs no kernel") ;;
        *)
            others=$((others + 1))
            cat "$said"
            ;;
        esac
    done
done
echo "$tool: $clean tests clean, $others not"
[ "$others" -eq 0 ]
SCRIPT
chmod +x "$folder/run" "$folder/sanitize"
du -sh "$folder"
