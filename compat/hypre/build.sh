#!/bin/sh
# Builds libterrace_hypre.so against the hypre and the MPI that are installed here.
#
#   compat/hypre/build.sh LIBTERRACE FOLDER
#
# LIBTERRACE is the path of libterrace.so, FOLDER gets the library. MPICC names the compiler (mpicc), HYPRE_DIR where hypre is installed if that is not
# where the system looks. Ends with 77 when there is no compiler for MPI or no hypre.
set -eu
here=$(dirname "$0")
terrace=$1
folder=$2
mpicc=${MPICC:-mpicc}

if ! command -v "$mpicc" >/dev/null 2>&1; then
    echo "there is no $mpicc (Debian: libopenmpi-dev)"
    exit 77
fi
if [ -n "${HYPRE_DIR:-}" ]; then
    set -- -isystem "$HYPRE_DIR/include" "-L$HYPRE_DIR/lib" "-Wl,-rpath,$HYPRE_DIR/lib"
else
    set -- -isystem /usr/include/hypre
fi
if ! echo '#include "_hypre_parcsr_ls.h"' | "$mpicc" "$@" -E - >/dev/null 2>&1; then
    echo "the headers of hypre are not installed (Debian: libhypre-dev), or not where HYPRE_DIR says"
    exit 77
fi

mkdir -p "$folder"
# A library in the same folder is found wherever that is moved.
if [ "$(dirname "$(realpath "$terrace")")" != "$(realpath "$folder")" ]; then
    set -- "$@" "-Wl,-rpath,$(dirname "$(realpath "$terrace")")"
fi
# shellcheck disable=SC2086 # a list of flags
"$mpicc" -std=gnu99 ${CFLAGS:--O2} -Wall -Wextra -fPIC -fvisibility=hidden -I"$here/../../include" "$@" "$here"/src/*.c \
    -shared -Wl,-soname,libterrace_hypre.so -o "$folder/libterrace_hypre.so" "$terrace" -lHYPRE -lm -ldl -lpthread \
    -Wl,-rpath,"\$ORIGIN"
