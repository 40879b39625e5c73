#!/bin/sh
# Builds the examples of terrace_dealii.hpp and a program that misuses it, and compares what they print.
#
#   compat/dealii/tests/run.sh LIBTERRACE FOLDER
#
# deal.II is where CMake finds it, or where DEAL_II_DIR says. Prints what is wrong and ends with 1. Ends with 77 where there is no deal.II or no
# CMake.
set -eu
here=$(dirname "$0")
mkdir -p "$2"
folder=$(realpath "$2")
if ! command -v cmake >/dev/null 2>&1 || ! cmake -S "$here/.." -B "$folder" -DTERRACE_LIBRARY="$(realpath "$1")" >"$folder/cmake.log" 2>&1; then
    echo "CMake does not find deal.II 9.4 (Debian: libdeal.ii-dev), or not where DEAL_II_DIR says"
    exit 77
fi
ln -sf "$(realpath "$1")" "$folder/libterrace.so.0"
cmake --build "$folder" >"$folder/build.log" 2>&1 || {
    cat "$folder/build.log"
    exit 1
}
# Open MPI, which this deal.II has, refuses root without; its processes are not used.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

fail() {
    echo "$1"
    cat "$folder"/*.txt
    exit 1
}
# run FILE PROGRAM ARGUMENTS: its lines
run() {
    file=$folder/$1.txt
    program=$folder/$2
    shift 2
    "$program" "$@" >"$file" 2>&1 || fail "$program $* fails"
}
after() { sed -n "$3s/.*[ ,]$2 \([^ ,]*\).*/\1/p" "$folder/$1.txt"; }
iterations() { sed -n "$2s/.* \([0-9]*\) iterations.*/\1/p" "$folder/$1.txt"; }
# converged FILE LINE ITERATIONS: at most so many
converged() { [ "$(iterations "$1" "$2")" -le "$3" ] || fail "more than $3 iterations"; }
# agree FILE FILE WORD LINE: to 7 digits
agree() {
    awk -v a="$(after "$1" "$3" "$4")" -v b="$(after "$2" "$3" "$4")" 'BEGIN { exit !((a - b) ^ 2 < 1e-13 * b ^ 2) }' || fail "$1 and $2 differ"
}

for case in "2 1 16" "2 2 8" "2 3 6" "3 1 6" "3 2 4"; do
    # shellcheck disable=SC2086 # dimension, order and cells
    for kind in terrace solver ssor; do run $kind poisson $case $kind; done
    for mesh in 1 2; do
        converged terrace $mesh 40
        converged solver $mesh 40
        agree terrace ssor energy $mesh
        agree solver ssor energy $mesh
    done
done
for kind in terrace ssor; do run $kind poisson 2 1 32 $kind 100; done
converged terrace 2 25
agree terrace ssor energy 2

for case in "2 1 8" "2 3 3" "3 1 3" "3 2 2"; do
    # shellcheck disable=SC2086
    run ssor elasticity $case ssor
    for numbering in default component_wise random; do
        # shellcheck disable=SC2086
        run terrace elasticity $case elasticity $numbering
        for step in 1 2 3; do
            converged terrace $step 40
            agree terrace ssor deflection $step
        done
        [ "$(grep -c 'set up' "$folder/terrace.txt") $(grep -c updated "$folder/terrace.txt")" = "1 2" ] || fail "steps 2 and 3 are no updates"
    done
    # Constant modes are not worth as much as rotations too, and more than nothing.
    # shellcheck disable=SC2086
    for numbering in default component_wise; do
        run constants elasticity $case constants $numbering
        agree constants ssor deflection 1
        [ "$(iterations constants 1)" -ge "$(iterations terrace 1)" ] || fail "constant modes do better than rigid-body modes"
    done
done
run misuse misuse
[ ! -s "$folder/misuse.txt" ] || fail "misuse"
