#!/bin/sh
# Builds libterrace_amgx_mpi.so, with which libamgxsh.so works on several ranks, for the MPI that is installed here.
#
#   compat/amgx/mpi/build.sh FOLDER
#
# FOLDER gets the library and is that of libamgxsh.so. MPICC names the compiler (mpicc). Ends with 77 when there is
# none.
set -eu
here=$(dirname "$0")
mpicc=${MPICC:-mpicc}

if ! command -v "$mpicc" >/dev/null 2>&1; then
    echo "there is no $mpicc (Debian: libopenmpi-dev): without libterrace_amgx_mpi.so libamgxsh.so works on one rank"
    exit 77
fi
mkdir -p "$1"
# shellcheck disable=SC2086 # a list of flags
"$mpicc" -std=c99 ${CFLAGS:--O2} -Wall -Wextra -fPIC -fvisibility=hidden -I"$here/../../../include" \
    "$here/terrace_amgx_mpi.c" -shared -Wl,--no-undefined -Wl,-soname,libterrace_amgx_mpi.so \
    -o "$1/libterrace_amgx_mpi.so"
