#!/bin/sh
# Runs the programs for dolfinx with hypre, with hypre and libterrace_hypre.so preloaded, and with the module for PETSc, and compares what they print.
#
#   compat/dolfinx/tests/run.sh LIBTERRACE FOLDER
#
# PYTHON names an interpreter with dolfinx 0.5 (/usr/bin/python3). Prints the iterations of each case, or what is wrong, and ends with 1. Ends with 77
# where dolfinx, or what the libraries for hypre and PETSc are compiled against, is not installed.
set -eu
here=$(dirname "$0")
python=${PYTHON:-/usr/bin/python3}
mpicc=${MPICC:-mpicc}
mkdir -p "$2"
folder=$(realpath "$2")
if ! "$python" -c 'from dolfinx import __version__ as v; from petsc4py import PETSc; assert v[:4] == "0.5." and PETSc.ScalarType(0).dtype == float' 2>/dev/null; then
    echo "$python has no dolfinx 0.5 with real numbers (Debian: python3-dolfinx), or PYTHON names another interpreter"
    exit 77
fi
petsc=$(for package in PETSc petsc; do ! pkg-config --exists $package || { echo $package && break; }; done)
if [ -z "$petsc" ]; then
    echo "pkg-config finds no PETSc (Debian: petsc-dev)"
    exit 77
fi
ln -sf "$(realpath "$1")" "$folder/libterrace.so.0"
"$here/../../hypre/build.sh" "$1" "$folder"
# shellcheck disable=SC2046 # a list of flags
"$mpicc" -std=c99 -O1 -fPIC -shared -I"$here/../../../include" "$here/../../petsc/terrace_petsc.c" -o "$folder/libterrace_petsc.so" \
    $(pkg-config --cflags --libs "$petsc") "$1" -Wl,-rpath,"$folder"

# Open MPI refuses root, and more ranks than cores, unless told otherwise. What dolfinx compiles stays in the folder.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export XDG_CACHE_HOME="$folder/cache" PYTHONDONTWRITEBYTECODE=1
unset TERRACE_HYPRE_CONFIG TERRACE_HYPRE_LOG TERRACE_HYPRE_STRICT

fail() {
    echo "$1"
    cat "$folder"/*.txt
    exit 1
}
# run NAME RANKS PROGRAM ARGUMENTS: its line
run() {
    name=$1
    ranks=$2
    program=$here/../examples/$3.py
    shift 3
    # Set for the program alone: mpirun is no program for hypre.
    set -- "$python" "$program" "$@"
    if [ "$name" = preloaded ]; then
        rm -f "$folder/log.txt"
        set -- env LD_PRELOAD="$folder/libterrace_hypre.so" TERRACE_HYPRE_LOG="$folder/log.txt" "$@"
    fi
    [ "$ranks" -eq 1 ] || set -- mpirun -n "$ranks" "$@"
    "$@" >"$folder/$name.txt" 2>"$folder/$name-errors.txt" || fail "$* fails"
}
logged() { [ "$(grep -c "$1" "$folder/log.txt")" -eq "$2" ] || fail "the log has not $2 lines like: $1"; }
iterations() { sed -n 's/.* \([0-9]*\) iterations.*/\1/p' "$folder/$1.txt"; }
# as_hypre NAME ITERATIONS: the same energy, in at most so many iterations
as_hypre() {
    [ "$(sed 's/.*energy//' "$folder/$1.txt")" = "$(sed 's/.*energy//' "$folder/hypre.txt")" ] || fail "$1 has another energy than hypre"
    [ "$(iterations "$1")" -le "$2" ] || fail "$1 takes more than $2 iterations"
}

for ranks in 1 2; do
    for case in "poisson -n 12" "poisson -n 6 -order 2" "elasticity -n 4" "elasticity -n 2 -order 2"; do
        # shellcheck disable=SC2086 # a program and its arguments
        {
            run hypre $ranks $case -pc_type hypre
            run preloaded $ranks $case -pc_type hypre
            run terrace $ranks $case -pc_type terrace -dll_append "$folder/libterrace_petsc.so"
        }
        logged 'set-up by Terrace' $ranks
        logged "and [1-9][0-9]* solves with $(iterations preloaded) iterations.* 0 calls served by hypre" $ranks
        grep -q '^terrace: ' "$folder/terrace.txt" || fail "the preconditioner is not Terrace's"
        # As many as hypre's own, or a third and 2 more; over ranks, with l1-Jacobi in place of Gauss-Seidel, three times as many and 4.
        own=$(iterations hypre)
        if [ $ranks -eq 1 ]; then as_hypre preloaded $((own * 4 / 3 + 2)); else as_hypre preloaded $((own * 3 + 4)); fi
        as_hypre terrace 40
        echo "$case, $ranks ranks: $own iterations with hypre, $(iterations preloaded) preloaded, $(iterations terrace) with -pc_type terrace"
    done
done
