# Two commands are enough for a newcomer: `make run` and `make test`. `make help` lists the rest.

.DEFAULT_GOAL := help
.PHONY: help setup run test lint lint-bare install install-files compat-amgx install-amgx compat-petsc petsc-module install-petsc \
	compat-hypre install-hypre bless deep-test bench table-000 table-001 gpu-bundle clean

CC ?= cc
FC := $(if $(filter default,$(origin FC)),gfortran,$(FC))
CARGO ?= cargo
CFLAGS ?= -O2

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# Part of the file name that changes with the ABI; build.rs puts it into the SONAME.
ABI := 0

# PROFILE names Cargo's output folder: release, or debug for what `cargo test` has just built.
PROFILE ?= release
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# `cargo test` leaves the libraries in deps/ only, `cargo build` leaves them there too.
ARTIFACTS := $(abspath $(TARGET_DIR))/$(PROFILE)/deps
EXAMPLES := $(TARGET_DIR)/c_examples

# Lines of tests that cannot run here.
SKIPPED := $(TARGET_DIR)/skipped.txt

# Set-up and solve of the same problem, from the table in docs/performance/h200.md.
ON_A_GPU := On one NVIDIA H200 the same problem takes 9 ms: docs/gpu.md says how, docs/performance/h200.md what else was measured.

PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= lib

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## install what builds the kernels for NVIDIA GPUs: pinned CUDA 13.0 compilers, into .tools
	@tools/setup.sh gpu

# Without the command-line program and without kernels for GPUs, which the example does not need.
run: ## build the library and solve a 128^3 Poisson problem from C
	@echo "Building the library for the CPU, once: about three minutes on two cores. Then a C program solves a 7-point"
	@echo "Poisson problem with 128^3 unknowns."
	@tools/setup.sh run
	$(CARGO) build --release --locked --package terrace --lib --no-default-features
	@mkdir -p $(EXAMPLES)
	ln -sf libterrace.so $(ARTIFACTS)/libterrace.so.$(ABI)
	$(CC) -std=c99 $(CFLAGS) -Iinclude c_examples/poisson.c -o $(EXAMPLES)/poisson -L$(ARTIFACTS) -lterrace -lm -Wl,-rpath,$(ARTIFACTS)
	$(EXAMPLES)/poisson 128
	@echo
	@echo "$(ON_A_GPU)"

# Kernels for AMD GPUs pass the front end of clang for gfx942 and, with warps of 32 lanes, for gfx1100; gfx90a has the width of gfx942. Bitcode
# is enough for the stand-in of AMD's driver that tests have; `make deep-test` makes machine code.
test: export TERRACE_HIP_ARCHITECTURES ?= gfx942
test: export TERRACE_HIP_CHECKED ?= gfx1100
test: export TERRACE_HIP_FLAGS ?= -c -emit-llvm -Xclang -disable-llvm-passes
test: ## all tests: format, lints, documentation, unit and integration tests, examples, consumers
	@tools/setup.sh test
	$(CARGO) fetch --locked
	$(CARGO) fmt --all --check
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line lint lint-bare
	@rm -f $(SKIPPED)
	$(CARGO) test --locked --workspace
	@if [ -s $(SKIPPED) ]; then echo "Left out:"; sort -u $(SKIPPED); else echo "Nothing was left out."; fi

# Beside each other, in folders of their own: both are one thread for most of the time. MAKEFLAGS would share the two jobs among them.
lint:
	MAKEFLAGS= $(CARGO) clippy --locked --workspace --all-targets -- -D warnings
lint-bare: export CARGO_TARGET_DIR := $(TARGET_DIR)/bare
lint-bare:
	MAKEFLAGS= CXX=/nonexistent $(CARGO) clippy --locked --package terrace --lib --no-default-features -- -D warnings
	MAKEFLAGS= RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --package terrace --no-deps --no-default-features

install: ## build and install to PREFIX (default /usr/local), below DESTDIR if given
	@tools/setup.sh run
	$(CARGO) build --release --locked --workspace
	$(MAKE) --no-print-directory install-files install-amgx PROFILE=release

# Depth of the package files below the prefix, so that the installed tree can be moved.
up = $(shell realpath -m --relative-to=/prefix/$(LIBDIR)/$(1) /prefix)
fill = sed -e 's|@VERSION@|$(VERSION)|g' -e 's|@ABI@|$(ABI)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@UP@|$(call up,$(3))|g' $(1) > $(2)
ROOT = $(DESTDIR)$(PREFIX)
INTO = $(ROOT)/$(LIBDIR)

install-files: ## install what is already built (PROFILE=release or debug)
	install -d $(INTO)/pkgconfig $(INTO)/cmake/terrace $(ROOT)/include $(ROOT)/bin $(ROOT)/share/terrace
	install -m 755 $(ARTIFACTS)/libterrace.so $(INTO)/libterrace.so.$(VERSION)
	ln -sf libterrace.so.$(VERSION) $(INTO)/libterrace.so.$(ABI)
	ln -sf libterrace.so.$(ABI) $(INTO)/libterrace.so
	install -m 644 $(ARTIFACTS)/libterrace.a $(INTO)/libterrace.a
	install -m 755 $(ARTIFACTS)/../terrace $(ROOT)/bin/terrace
	install -m 644 include/*.h include/*.hpp $(ROOT)/include
	install -m 644 fortran/terrace.f90 fortran/terrace_mpi.f90 fortran/terrace_mpi.c $(ROOT)/share/terrace
	tools/install-docs.sh $(ROOT)/share/doc/terrace
	$(call fill,cmake/terraceConfig.cmake.in,$(INTO)/cmake/terrace/terraceConfig.cmake,cmake/terrace)
	$(call fill,cmake/terraceConfigVersion.cmake.in,$(INTO)/cmake/terrace/terraceConfigVersion.cmake,cmake/terrace)
	$(call fill,cmake/terrace.pc.in,$(INTO)/pkgconfig/terrace.pc,pkgconfig)
	FC="$(FC)" tools/install-fortran.sh $(INTO) $(ROOT)/include/terrace
	if [ -f $(INTO)/libterrace_fortran.a ]; then $(call fill,cmake/terrace_fortran.pc.in,$(INTO)/pkgconfig/terrace_fortran.pc,pkgconfig); fi

compat-amgx: ## build the drop-in library for programs that were written for AmgX
	@tools/setup.sh run
	$(CARGO) build --release --locked --package terrace-amgx
	@MPICC="$(MPICC)" compat/amgx/mpi/build.sh $(ARTIFACTS) || [ $$? -eq 77 ]
	compat/amgx/archive.sh $(ARTIFACTS)/libamgxsh.a $(ARTIFACTS)/libamgx.a
	@echo "libamgxsh.so and libamgx.a are in $(ARTIFACTS), the headers in compat/amgx/include"

# In folders of their own: an installed AmgX has files of the same names.
install-amgx: ## install the drop-in library for AmgX that is already built (PROFILE=release or debug)
	install -d $(INTO)/terrace-amgx $(ROOT)/include/terrace-amgx
	install -m 755 $(ARTIFACTS)/libamgxsh.so $(INTO)/terrace-amgx/libamgxsh.so
	compat/amgx/archive.sh $(ARTIFACTS)/libamgxsh.a $(INTO)/terrace-amgx/libamgx.a
	chmod 644 $(INTO)/terrace-amgx/libamgx.a
	install -m 644 compat/amgx/include/*.h $(ROOT)/include/terrace-amgx
	@MPICC="$(MPICC)" compat/amgx/mpi/build.sh $(INTO)/terrace-amgx || [ $$? -eq 77 ]

MPICC ?= mpicc
PETSC_PACKAGE ?= $(shell pkg-config --exists PETSc && echo PETSc || echo petsc)
PETSC_MODULE := $(TARGET_DIR)/petsc/libterrace_petsc.so
# $(1): the module, $(2): the folder of libterrace, $(3): where the module looks for it.
build_petsc = $(MPICC) -std=c99 $(CFLAGS) -fPIC -shared -Iinclude compat/petsc/terrace_petsc.c -o $(1) \
	$$(pkg-config --cflags --libs $(PETSC_PACKAGE)) -L$(2) -lterrace -Wl,-rpath,$(3)

compat-petsc: ## build the module for PETSc: -dll_append libterrace_petsc.so -pc_type terrace
	@tools/setup.sh run
	$(CARGO) build --release --locked --package terrace --lib
	$(MAKE) --no-print-directory petsc-module PROFILE=release

petsc-module: ## build the module for PETSc with the library that is already built (PROFILE=release or debug)
	@pkg-config --exists $(PETSC_PACKAGE) && command -v $(MPICC) > /dev/null || { echo "PETSc is not found by pkg-config, or there is no $(MPICC). On Debian: apt-get install petsc-dev libopenmpi-dev pkg-config" >&2; exit 1; }
	@mkdir -p $(dir $(PETSC_MODULE))
	ln -sf libterrace.so $(ARTIFACTS)/libterrace.so.$(ABI)
	$(call build_petsc,$(PETSC_MODULE),$(ARTIFACTS),$(ARTIFACTS))
	@echo "$(PETSC_MODULE) is for -dll_append; programs that include terrace_petsc.h need it not"

install-petsc: ## install the module for PETSc, beside the library that is already installed
	install -d $(INTO)
	$(call build_petsc,$(INTO)/libterrace_petsc.so,$(INTO),'$$ORIGIN')

# Against the hypre and MPI of this machine: layouts of hypre's objects differ from build to build. MPICC and HYPRE_DIR name others.
compat-hypre: ## build the library that is preloaded to programs for hypre, against the hypre installed here
	@tools/setup.sh run
	$(CARGO) build --release --locked --package terrace --lib
	ln -sf libterrace.so $(ARTIFACTS)/libterrace.so.$(ABI)
	compat/hypre/build.sh $(ARTIFACTS)/libterrace.so $(ARTIFACTS)
	@echo "LD_PRELOAD=$(ARTIFACTS)/libterrace_hypre.so runs a program for hypre on Terrace: docs/migrating.md"

install-hypre: ## build that library beside the Terrace that is already installed
	compat/hypre/build.sh $(INTO)/libterrace.so $(INTO)

# The Fortran module is made from the header.
bless: ## regenerate the committed files that tests compare: header, Fortran module, references, expected outputs
	TERRACE_BLESS=1 $(CARGO) test --locked --test contracts header::
	TERRACE_BLESS=1 $(CARGO) test --locked --workspace

deep-test: ## the slow checks: valgrind, Miri, ThreadSanitizer, fuzzing, programs for MFEM, deal.II and dolfinx
	@tools/setup.sh deep-test
	tools/deep-test.sh

bench: ## benchmarks
	@tools/setup.sh run
	$(CARGO) bench --locked

table-000: ## iterations in the number formats of a published table of mixed-precision AMG, beside the published ones
	@tools/setup.sh run
	$(CARGO) run --release --locked --package terrace-cli -- bench table

SIZE ?= 128

table-001: ## multigrid on structured grids in the number formats of a published table (SIZE=128 cells along each axis)
	@tools/setup.sh run
	$(CARGO) run --release --locked --package terrace-cli -- bench structured --size $(SIZE)

GPU_BUNDLE ?= $(TARGET_DIR)/gpu-bundle

gpu-bundle: setup ## tests and benchmarks for a machine with a GPU and no Rust, in one folder with one script
	CARGO="$(CARGO)" tools/gpu-bundle.sh $(GPU_BUNDLE)

clean: ## remove everything that was built
	$(CARGO) clean
