#!/bin/sh
# Builds the examples of terrace_mfem.hpp and a program that misuses it, and compares what they print.
#
#   compat/mfem/tests/run.sh LIBTERRACE FOLDER
#
# MFEM (serial) is where MFEM_DIR says, with include/, lib/ and data/, or in the Python package mfem. Prints what is wrong and ends with 1. Ends
# with 77 where there is no MFEM.
set -eu
here=$(dirname "$0")
mkdir -p "$2"
folder=$(realpath "$2")
# The package itself is not imported: that would load it, and what it needs.
mfem=${MFEM_DIR:-$(python3 -c 'import importlib.util as u; print(u.find_spec("mfem").submodule_search_locations[0] + "/external/ser")' 2>/dev/null || true)}
if [ ! -f "$mfem/include/mfem.hpp" ] || [ ! -f "$mfem/lib/libmfem.so" ] || [ ! -f "$mfem/data/beam-hex.mesh" ]; then
    echo "there is no MFEM (pip install mfem), or not where MFEM_DIR says"
    exit 77
fi
ln -sf "$(realpath "$1")" "$folder/libterrace.so.0"

for source in "$here"/../examples/*.cpp "$here"/*.cpp; do
    "${CXX:-c++}" -std=c++17 -O1 -Wall -Wextra -Werror -I"$here/../../../include" -isystem "$mfem/include" "$source" \
        -o "$folder/$(basename "$source" .cpp)" -L"$mfem/lib" -lmfem "$1" -Wl,-rpath,"$mfem/lib" -Wl,-rpath,"$folder"
done

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
# The word after another in a line of a file.
after() { sed -n "$3s/.*[ ,]$2 \([^ ,]*\).*/\1/p" "$folder/$1.txt"; }
iterations() { sed -n "$2s/.* \([0-9]*\) iterations.*/\1/p" "$folder/$1.txt"; }
# converged FILE LINE ITERATIONS RESIDUAL: at most so many
converged() {
    [ "$(iterations "$1" "$2")" -le "$3" ] || fail "more than $3 iterations"
    awk -v r="$(after "$1" residual "$2")" -v most="$4" 'BEGIN { exit !(r < most) }' || fail "the residual is over $4"
}

for order in 1 2 3; do
    for mesh in star fichera; do
        run terrace poisson -m "$mfem/data/$mesh.mesh" -o $order -r 4
        run solver poisson -m "$mfem/data/$mesh.mesh" -o $order -r 4 -s solver
        run gauss_seidel poisson -m "$mfem/data/$mesh.mesh" -o $order -r 4 -s gauss_seidel
        converged terrace 1 40 1e-7
        converged solver 1 45 1e-9
        for kind in terrace solver; do
            awk -v a="$(after $kind integral 1)" -v b="$(after gauss_seidel integral 1)" 'BEGIN { exit !((a - b) ^ 2 < 1e-14 * b ^ 2) }' ||
                fail "$kind and gauss_seidel have another integral"
        done
    done
    # The second step is an update. Both numberings give the same.
    run gauss_seidel elasticity -m "$mfem/data/beam-hex.mesh" -o $order -r 2 -t 2 -s gauss_seidel:1e-10
    for numbering in -by-nodes -by-vdim; do
        run terrace elasticity -m "$mfem/data/beam-hex.mesh" -o $order -r 2 -t 2 -s terrace:1e-10 $numbering
        for step in 1 2; do
            converged terrace $step 40 1e-7
            [ "$(after terrace deflection $step)" = "$(after gauss_seidel deflection $step)" ] || fail "terrace and gauss_seidel differ"
        done
        [ "$(grep -c 'set up' "$folder/terrace.txt") $(grep -c updated "$folder/terrace.txt")" = "1 1" ] || fail "step 2 is no update"
        [ $numbering = -by-nodes ] && same=$(iterations terrace 1)
        [ "$same" = "$(iterations terrace 1)" ] || fail "the numbering changes the iterations"
    done
done
for mesh in beam-tet beam-wedge beam-quad beam-tri; do
    run terrace elasticity -m "$mfem/data/$mesh.mesh" -o 2 -r 2
    converged terrace 1 40 1e-5
done
run misuse misuse "$mfem/data"
[ ! -s "$folder/misuse.txt" ] || fail "misuse"
