#!/bin/sh
# Installs the pages for users and the examples: install-docs.sh FOLDER. A link to what stays in the repository becomes its text.
set -eu
cd "$(dirname "$0")/.."
into=$1
install -d "$into/docs" "$into/c_examples" "$into/fortran"
install -m 644 c_examples/* "$into/c_examples"
install -m 644 fortran/callback.f90 fortran/elasticity.f90 fortran/poisson.f90 fortran/stencil.f90 fortran/time_stepping.f90 fortran/terrace_mpi.f90 fortran/terrace_mpi.c \
    "$into/fortran"
for page in getting-started options presets report statuses precision gpu defaults glossary matrices migrating structured fsai mechanics distributed reordering; do
    sed -zE 's#\[([^]]*)\]\((\.\./(compat|include|src|tests|kernels)/|building|architecture|decisions/|performance|scaling)[^)]*\)#\1#g' \
        "docs/$page.md" > "$into/docs/$page.md"
    chmod 644 "$into/docs/$page.md"
done
