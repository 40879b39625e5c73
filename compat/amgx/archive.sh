#!/bin/sh
# Makes libamgx.a of the archive that Cargo builds: one object in which only the functions of AmgX's API can be seen from outside, so that neither
# Terrace's own C ABI nor Rust's library meets the same names in the program, or in another library in Rust.
#
#   compat/amgx/archive.sh LIBAMGXSH.A LIBAMGX.A
#
# LD, OBJCOPY and AR name GNU's linker, objcopy and ar, or others with their options.
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^\(AMGX_RC\|void\) \(AMGX_[a-z0-9_]*\)(.*/\2/p' "$here"/include/*.h >"$work/exports"
# Groups of C++'s inline functions would be left out in a program that has the same, and here nothing else has them.
"${LD:-ld}" -r --force-group-allocation --whole-archive "$1" -o "$work/amgx.o"
# Rust's library has bitcode beside its code, which no linker can use after this.
"${OBJCOPY:-objcopy}" --keep-global-symbols="$work/exports" --remove-section=.llvmbc --remove-section=.llvmcmd "$work/amgx.o"
rm -f "$2"
"${AR:-ar}" rcs "$2" "$work/amgx.o"
