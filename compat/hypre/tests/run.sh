#!/bin/sh
# Builds libterrace_hypre.so and two programs for hypre, and runs them with and without the library.
#
#   compat/hypre/tests/run.sh LIBTERRACE FOLDER
#
# Prints what is wrong and ends with 1. Ends with 77 where hypre or MPI are not installed.
set -eu
here=$(dirname "$0")
folder=$2
mkdir -p "$folder"
ln -sf "$(realpath "$1")" "$folder/libterrace.so.0"
"$here/../build.sh" "$1" "$folder"
shim=$(realpath "$folder")/libterrace_hypre.so
program=$folder/program
if [ -n "${HYPRE_DIR:-}" ]; then
    hypre="-isystem $HYPRE_DIR/include -L$HYPRE_DIR/lib -Wl,-rpath,$HYPRE_DIR/lib"
else
    hypre="-isystem /usr/include/hypre"
fi
mpicc=${MPICC:-mpicc}
# shellcheck disable=SC2086 # a list of flags
"$mpicc" -std=gnu99 -O1 -Wall -Wextra $hypre "$here/program.c" -o "$program" -lHYPRE -lm
# shellcheck disable=SC2086
"$mpicc" -std=gnu99 -O1 $hypre "$here/program.c" -o "$program-linked" -L"$folder" -Wl,-rpath,"$(dirname "$shim")" -Wl,--no-as-needed -lterrace_hypre -lHYPRE -lm

# Open MPI refuses root, and more ranks than cores, unless told otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
unset TERRACE_HYPRE_CONFIG TERRACE_HYPRE_LOG TERRACE_HYPRE_STRICT

fail() {
    echo "$1"
    cat "$folder"/*.txt
    exit 1
}
# with CASE: runs a case with the library; output in out.txt, lines of the library in log.txt
with() {
    rm -f "$folder/log.txt"
    TERRACE_HYPRE_LOG="$folder/log.txt" LD_PRELOAD="$shim" "$program" "$@" >"$folder/out.txt" 2>&1
}
logged() { grep -q "$1" "$folder/log.txt" || fail "the log has no line like: $1"; }
# refused CASE VARIABLE=VALUE: what is wrong on the second of two ranks, which the variable is for, is an error on both, and neither waits for it
refused() {
    timeout 120 mpirun -n 1 env LD_PRELOAD="$shim" "$program" "$1" : -n 1 env "$2" LD_PRELOAD="$shim" "$program" "$1" >"$folder/out.txt" 2>&1 ||
        fail "$1 with $2 on one of two ranks"
    for rank in 0 1; do grep -q "refused on rank $rank of 2" "$folder/out.txt" || fail "rank $rank says nothing of $1 with $2"; done
}
told() { grep -q "$1" "$folder/log.txt" "$folder/out.txt" || fail "there is no line like: $1"; }

"$program" >"$folder/without.txt" 2>&1 || fail "the program fails without the library"
with all || fail "the program fails with the library"
[ "$(grep -c 'BoomerAMG.*set-up by Terrace' "$folder/log.txt")" -eq 8 ] || fail "not every BoomerAMG is served by Terrace"
logged 'FSAI 8: set-up by Terrace'
logged 'BoomerAMG 5: update by Terrace'
logged 'BoomerAMG 5: destroyed after 2 set-ups by Terrace (1 of them updates)'
logged 'Terrace replaces CoarsenType 6'
logged 'BoomerAMG is served by hypre: an additive cycle'
logged 'BoomerAMG 9: set-up by hypre'
logged 'BoomerAMG 10: update by Terrace'
# hypre's own does not converge there.
awk '/^transpose/ && ($3 > 30 || $5 > 1e-6) { print; bad = 1 } END { exit bad }' "$folder/out.txt" || fail "the transpose takes too many iterations"
# As many iterations as hypre's own, or at most a third and 2 more.
paste -d ' ' "$folder/without.txt" "$folder/out.txt" | awk '$1 != $10 || $12 > $3 * 4 / 3 + 2 { print; bad = 1 } END { exit bad || NR != 12 }' || fail "iterations without and with"

rm -f "$folder/log.txt"
TERRACE_HYPRE_LOG="$folder/log.txt" "$program-linked" pcg >"$folder/out.txt" 2>&1 || fail "the program that is linked with the library fails"
logged 'set-up by Terrace'

TERRACE_HYPRE_CONFIG='device=host:1 precision.matrix=f64,f32,amg.smoother.type=l1_jacobi' with pcg || fail "a list of options fails"
logged '"amg.smoother.type":"l1_jacobi"'
logged '"precision.matrix":"f64,f32"'
echo '{"device": "host:1", "amg": {"cycle": {"type": "w"}}}' >"$folder/config.json"
TERRACE_HYPRE_CONFIG="$folder/config.json" with pcg || fail "a file of options fails"
logged '"amg.cycle.type":"w"'
TERRACE_HYPRE_CONFIG='program_options=ignore' with pcg || fail "Terrace's own options fail"
if TERRACE_HYPRE_CONFIG='amg.cicle.type=w' with pcg; then fail "an unknown option is accepted"; fi
told 'TERRACE_HYPRE_CONFIG: .*amg.cycle.type'
if TERRACE_HYPRE_CONFIG='solver.type=cg' with pcg; then fail "an option of the Krylov method is accepted"; fi
if TERRACE_HYPRE_CONFIG='device=abacus' with pcg; then fail "an unknown device is accepted"; fi
if TERRACE_HYPRE_STRICT=1 with additive; then fail "TERRACE_HYPRE_STRICT lets hypre serve"; fi
told 'an additive cycle: hypre would serve it'
if TERRACE_HYPRE_STRICT=1 with old; then fail "TERRACE_HYPRE_STRICT lets Terrace replace"; fi
TERRACE_HYPRE_STRICT=1 with pcg || fail "defaults are not served strictly"

# Structured grids, which the library takes over from hypre 2.20 to 2.33.
# shellcheck disable=SC2086
release=$(printf '#include "HYPRE_config.h"\nHYPRE_RELEASE_NUMBER\n' | "$mpicc" $hypre -E -P - | tail -n 1)
if [ "$release" -ge 22000 ] && [ "$release" -lt 30000 ]; then
    grids=$folder/structured
    # shellcheck disable=SC2086
    "$mpicc" -std=c99 -D_POSIX_C_SOURCE=200809L -O1 -Wall -Wextra $hypre "$here/structured.c" -o "$grids" -lHYPRE -lm
    "$grids" >"$folder/without.txt" 2>&1 || fail "the program for grids fails without the library"
    program=$grids
    with all || fail "the program for grids fails with the library"
    [ "$(grep -c 'MG.*set-up by Terrace' "$folder/log.txt")" -eq 17 ] || fail "not every PFMG and SMG is served by Terrace"
    logged 'PFMG 1: set-up by Terrace, 16 x 17 x 17 cells, 7 points'
    logged 'PFMG 2: set-up by Terrace, 12 x 13 x 13 cells, 27 points'
    logged 'PFMG 12: update by Terrace, 30 x 31 x 1 cells, 5 points'
    logged 'PFMG 15: set-up by hypre'
    logged 'PFMG is served by hypre: a grid of several boxes'
    logged 'Terrace replaces the planes of SMG'
    logged '"amg.smoother.type":"gauss_seidel"'
    # A third more than hypre's own and 3; SMG takes fewer, of more work each.
    paste -d ' ' "$folder/without.txt" "$folder/out.txt" |
        awk '$1 != $10 || $12 > ($1 ~ /smg/ ? 4 : 4 / 3) * $3 + 3 { print; bad = 1 } END { exit bad || NR != 18 }' || fail "iterations on grids without and with"
    # hypre's own does not find the axes anew.
    with turned || fail "an update with other strong axes fails"
    logged 'PFMG 1: update by Terrace'
    TERRACE_HYPRE_CONFIG='amg.smoother.type=chebyshev' with pcg7 || fail "options for grids fail"
    logged '"amg.smoother.type":"chebyshev"'
    TERRACE_HYPRE_STRICT=1 with pcg7 || fail "the defaults of PFMG are not served strictly"
    if TERRACE_HYPRE_STRICT=1 with boxes; then fail "TERRACE_HYPRE_STRICT lets hypre serve a grid"; fi
    if TERRACE_HYPRE_STRICT=1 with smg7; then fail "TERRACE_HYPRE_STRICT lets Terrace replace planes"; fi
    program=$folder/program
fi

# What a program sets is mapped or named.
with all && logged 'Terrace replaces .*InterpVecVariant 2 by 0; InterpVecQMax 4 by 0; .*NodalDiag 1 by 0; StrongThreshold 0.5 by 0.25' || fail "parameters of modes are not named"
with seldom || fail "the program with parameters that are seldom set fails"
logged '"amg.smoother.gauss_seidel.weight":1.2'
logged 'Terrace replaces MeasureType 1 by 0$'
logged 'no result depends on these in Terrace: KeepTranspose$'
logged '"amg.eigenvalue.steps":20'
logged 'Terrace replaces ChebyScale 0 by 1'
if grep -q AggP12MaxElmts "$folder/log.txt"; then fail "a parameter of aggressive coarsening is named without that"; fi

# Over ranks: Terrace serves all but the transpose and the additive cycle, with at most twice hypre's iterations (l1-Jacobi in place of Gauss-Seidel) and 4 more.
if command -v mpirun >/dev/null 2>&1; then
    for ranks in 2 3; do
        rm -f "$folder/log.txt"
        mpirun -n $ranks "$program" all >"$folder/without.txt" 2>&1 || fail "the program fails without the library on $ranks ranks"
        TERRACE_HYPRE_LOG="$folder/log.txt" mpirun -n $ranks env LD_PRELOAD="$shim" "$program" all >"$folder/out.txt" 2>&1 || fail "the program fails on $ranks ranks"
        [ "$(grep -c 'BoomerAMG.*set-up by Terrace' "$folder/log.txt")" -eq $((8 * ranks)) ] || fail "not every BoomerAMG is served by Terrace on $ranks ranks"
        logged "rank $((ranks - 1)): FSAI 8: set-up by Terrace"
        logged 'rank 0: BoomerAMG 5: update by Terrace'
        logged 'rank 0: Terrace replaces CoarsenType 10 by pmis over ranks'
        logged 'rank 0: BoomerAMG is served by hypre: the transpose of a matrix over several ranks'
        if grep -q "rank 1: Terrace replaces" "$folder/log.txt"; then fail "a line that is told once comes from every rank"; fi
        paste -d ' ' "$folder/without.txt" "$folder/out.txt" | awk '$1 != $10 || $12 > $3 * 2 + 4 { print; bad = 1 } END { exit bad || NR != 12 }' || fail "iterations without and with on $ranks ranks"
    done
    # An option, a device, what hypre would serve, and memory for the set-up, which the last case takes from the second rank.
    refused refused TERRACE_HYPRE_CONFIG=amg.cicle.type=w
    refused refused TERRACE_HYPRE_CONFIG=device=abacus
    refused refused_additive TERRACE_HYPRE_STRICT=1
    TERRACE_HYPRE_STRICT=1 refused narrow TERRACE_HYPRE_LOG=1
    TERRACE_HYPRE_CONFIG='amg.smoother.type=l1_gauss_seidel' mpirun -n 2 env LD_PRELOAD="$shim" "$program" pcg >"$folder/out.txt" 2>&1 || fail "hypre does not serve what ranks do not have"
    grep -q 'served by hypre: .*"l1_gauss_seidel" is not available over ranks; use "l1_jacobi"' "$folder/out.txt" || fail "nothing is told about a smoother that ranks do not have"
fi
