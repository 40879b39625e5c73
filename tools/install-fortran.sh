#!/bin/sh
# Compiles the Fortran module and installs it; a module file only fits the compiler that made it. Without a Fortran compiler it
# installs nothing: share/terrace/terrace.f90 can be compiled with the program that uses it.
#
#   FC=gfortran tools/install-fortran.sh LIBRARY_FOLDER MODULE_FOLDER
set -eu
cd "$(dirname "$0")/.."
libraries=$1 modules=$2

if ! command -v "${FC:-gfortran}" >/dev/null 2>&1; then
    echo "no Fortran compiler found: the Fortran module is installed as source only"
    exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$modules"
"${FC:-gfortran}" -O2 -fPIC -J "$scratch" -c fortran/terrace.f90 -o "$scratch/terrace.o"
rm -f "$libraries/libterrace_fortran.a"
ar rcs "$libraries/libterrace_fortran.a" "$scratch/terrace.o"
install -m 644 "$scratch/terrace.mod" "$modules/terrace.mod"
