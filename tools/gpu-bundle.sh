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
# An NVIDIA GPU needs no kernels for AMD's, and no simulated GPU. Newer architectures than these compile the PTX when they load it.
export TERRACE_HIP_CLANG=
export TERRACE_SIM_CXX=
export TERRACE_CUDA_ARCHITECTURES="${TERRACE_CUDA_ARCHITECTURES:-80,90}"

rm -rf "$folder"
mkdir -p "$folder"
# The executables of the tests, whose names have a hash, and not that of the program, which is built for them; their profile is optimised, too.
executable() { # executable NAME ARGUMENTS...
    name=$1
    shift
    built=$($cargo test --locked --no-run --message-format=json "$@" | sed -n 's|.*"executable":"\([^"]*/deps/[^"]*\)".*|\1|p' | tail -n 1)
    cp "$built" "$folder/$name"
}
$cargo build --release --locked --workspace
cp "$release/terrace" "$folder/terrace"
cp "$release/libterrace.so" "$folder/libterrace.so.0"
executable kernel-tests --test unit
executable suite-tests --test suite
executable memory-tests --test gpu_memory
# Programs that find the library beside them.
program() { # program NAME SOURCES...
    name=$1
    shift
    ${CC:-cc} -std=c99 -O2 -Iinclude "$@" -o "$folder/$name" "$folder/libterrace.so.0" -ldl -lm -lpthread -Wl,-rpath,'$ORIGIN'
}
program c-threads tests/c/gpu.c tests/c/check.c
program poisson_cuda c_examples/poisson_cuda.c
for file in terrace libterrace.so.0 kernel-tests suite-tests memory-tests; do
    strip "$folder/$file"
done

cat > "$folder/run" <<'SCRIPT'
#!/bin/sh
# Tests and benchmarks on the first NVIDIA GPU of this machine: one table at the end, and all that was said in results.txt. Ends with 1 if something failed.
#
#   ./run [PROBLEM...]     problems of the benchmarks, as `terrace gallery` lists them
set -eu
cd "$(dirname "$0")"
./terrace info
if ! ./terrace info --json | grep -q '"cuda:0"'; then
    echo "There is no NVIDIA GPU that this bundle can use; the line \"cuda\" above says why." >&2
    exit 1
fi
if [ $# -eq 0 ]; then
    set -- poisson7:64 poisson7:128
fi
export TERRACE_TEST_CUDA=1
failed=0
: > results.txt
printf '\n| what | case | result |\n| --- | --- | --- |\n' > table.txt
step() { # step WHAT NAME COMMAND...: a row for the test or the benchmark, whose output is left in output.txt
    what=$1
    name=$2
    shift 2
    echo "$what: $name" >&2
    begin=$(date +%s)
    verdict=passed
    "$@" > output.txt 2>&1 || verdict=FAILED
    [ "$verdict" = passed ] || failed=1
    { echo "## $*"; cat output.txt; echo; } >> results.txt
    counts=$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]* passed; [0-9]* failed\).*/ (\1)/p' output.txt | tail -n 1)
    echo "| $what | $name | $verdict$counts, $(($(date +%s) - begin)) s |" >> table.txt
}
step test kernels ./kernel-tests gpu::
step test solves ./suite-tests gpu::
step test precisions ./suite-tests gpu_precision::
step test set-ups ./suite-tests gpu_setup::
step test memory ./memory-tests
step test updates ./suite-tests update::
step test "eight threads through the C ABI" ./c-threads cuda:0
step test "device pointers from C" ./poisson_cuda 64 cuda:0
# A problem has a line with its rows; lines of products end with seven words, those of solves begin with what they are, in 24 columns.
step benchmark "products and solves" ./terrace bench gpu "$@"
awk '/ rows, [0-9]* nonzeros/ { problem = $0; sub(/: .*/, "", problem); kind = "" }
    /^product / { kind = "product"; next }
    /^solve to/ { kind = "solve"; next }
    /^[{]/ || NF == 0 { kind = ""; next }
    kind == "product" {
        name = $1
        for (i = 2; i < NF - 6; ++i) name = name " " $i
        result = $(NF - 6) ", " $(NF - 5) " " $(NF - 4) ", " $(NF - 3) " " $(NF - 2) ", " $NF " of a copy"
    }
    kind == "solve" { name = substr($0, 1, 24); $0 = substr($0, 25); result = "set-up " $1 " " $2 ", " $3 " iterations, " $4 " " $5 }
    kind != "" { sub(/ *$/, "", name); print "| " problem " | " kind ": " name " | " result " |" }' output.txt > rows.txt
cat rows.txt >> table.txt
step benchmark "set-ups and updates" ./terrace bench setup "$@"
awk '/ rows, [0-9]* nonzeros/ { problem = $0; sub(/: .*/, "", problem) }
    /  set-up / { name = substr($0, 1, 12); sub(/ *$/, "", name); rest = substr($0, 14); gsub(/  +/, " ", rest); print "| " problem " | set-up, update and solve: " name " | " rest " |" }' output.txt > rows.txt
cat rows.txt >> table.txt
rm output.txt rows.txt
cat table.txt
exit "$failed"
SCRIPT

cat > "$folder/sanitize" <<'SCRIPT'
#!/bin/sh
# The tests of kernels and solves, each in a process of its own, under compute-sanitizer, which is on the PATH or named by COMPUTE_SANITIZER: a line
# for each with its verdict as soon as it is known, and at the end all that the tool says where one is not clean. Ends with 1 if there is such a test, or
# one that took too long for a verdict.
#
#   ./sanitize TOOL [SECONDS [PATTERN]]     memcheck or racecheck; seconds for a test (300); tests whose name the pattern of grep -E matches
#
# JOBS of them (4) run at once: the tool keeps a processor busier than the GPU.
set -eu
tool=${1:?usage: ./sanitize memcheck|racecheck [SECONDS [PATTERN]]}
limit=${2:-300}
pattern=${3:-}
cd "$(dirname "$0")"
export TERRACE_TEST_CUDA=1
if [ $# -eq 6 ]; then # One test: the last three arguments are the folder of verdicts, the program and the test.
    said=$4/said/$6
    code=0
    begin=$(date +%s)
    timeout "$limit" "${COMPUTE_SANITIZER:-compute-sanitizer}" --tool "$tool" --error-exitcode 9 \
        "./$5" "$6" --exact --test-threads 1 > "$said" 2>&1 || code=$?
    verdict="not clean, exit status $code"
    if [ "$code" -eq 0 ]; then
        verdict=clean
    elif [ "$code" -eq 124 ]; then
        verdict="no verdict in $limit s"
    elif grep -q "before first instrumented API call" "$said"; then
        verdict="runs no kernel"
    fi
    case $verdict in
    clean | "runs no kernel") rm "$said" ;;
    esac
    echo "$tool $6: $verdict, $(($(date +%s) - begin)) s" | tee -a "$4/verdicts"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/said"
touch "$folder/verdicts"
for program in kernel-tests suite-tests; do
    "./$program" --list | sed -n 's/: test$//p' | grep ^gpu:: | grep -E "$pattern" | sed "s/^/$program /" || true
done | xargs -r -L 1 -P "${JOBS:-4}" ./sanitize "$tool" "$limit" "$pattern" "$folder"
if [ ! -s "$folder/verdicts" ]; then
    echo "There is no test whose name matches \"$pattern\"." >&2
    exit 1
fi
others=0
for said in "$folder"/said/*; do
    [ -f "$said" ] || continue
    others=$((others + 1))
    echo "--- ${said##*/}"
    cat "$said"
done
echo "$tool: $(grep -c ': clean, ' "$folder/verdicts") tests clean, $others not"
[ "$others" -eq 0 ]
SCRIPT
chmod +x "$folder/run" "$folder/sanitize"
du -sh "$folder"
