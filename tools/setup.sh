#!/bin/sh
# Makes sure that what `make run`, `make test`, `make deep-test` or `make setup` (gpu) needs is there. Missing Debian packages are installed by root;
# anyone else is told the command. Touches neither apt nor the network when nothing is missing.
#
#   tools/setup.sh run|test|deep-test|gpu
set -eu
cd "$(dirname "$0")/.."

purpose=${1:-}
case $purpose in
run | test | deep-test | gpu) ;;
*)
    echo "usage: tools/setup.sh run|test|deep-test|gpu" >&2
    exit 2
    ;;
esac

have() { command -v "$1" >/dev/null 2>&1; }

missing=""
need() { # need COMMAND PACKAGE
    have "$1" || missing="$missing $2"
}

need gcc gcc
# gcc only recommends the C headers, and the packages are installed without recommendations.
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
if [ "$purpose" = gpu ]; then
    need g++ g++
    need python3 python3
    python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
elif [ "$purpose" != run ]; then
    need g++ g++
    need gfortran gfortran
    need cmake cmake
    need pkg-config pkg-config
    need nm binutils
    # For the kernels of AMD GPUs, which nothing but their compilation can check here: 50 MB to load.
    need clang++-19 clang-19
    need ld.lld-19 lld-19
    # SciPy and PyAMG, the oracles of cli/tests/program/oracles.rs, go into a virtual environment.
    need python3 python3
    python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
fi
if [ "$purpose" = deep-test ]; then
    need valgrind valgrind
fi

if [ -n "$missing" ]; then
    if ! have apt-get; then
        echo "These packages (Debian names) are missing; install them and try again:$missing" >&2
        exit 1
    elif [ "$(id -u)" -eq 0 ]; then
        echo "Installing$missing"
        apt-get update
        # shellcheck disable=SC2086 # a list of package names
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
    else
        echo "Debian packages are missing. Install them and try again:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
        exit 1
    fi
fi

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! have cargo; then
    echo "cargo is missing; Rust $wanted or newer is needed, for example from https://rustup.rs" >&2
    exit 1
fi
found=$(rustc --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" != "$wanted" ]; then
    echo "rustc is $found; $wanted or newer is needed, for example from https://rustup.rs" >&2
    exit 1
fi

if [ "$purpose" = test ] || [ "$purpose" = deep-test ]; then
    for component in rustfmt clippy; do
        command="cargo-$([ $component = rustfmt ] && echo fmt || echo clippy)"
        if "$command" --version >/dev/null 2>&1; then
            continue
        elif have rustup; then
            rustup component add "$component"
        else
            echo "$component is missing; install the component of your Rust toolchain" >&2
            exit 1
        fi
    done
fi

# nvcc and what it needs, from the wheels of CUDA 13.0. Each is pinned: they do not pin each other, and what a newer one makes does not run on
# a driver for 13.0.
if [ "$purpose" = gpu ] && ! ls .tools/cu13/lib/python3*/site-packages/nvidia/cu13/bin/nvcc >/dev/null 2>&1; then
    echo "Installing CUDA 13.0 compilers into .tools/cu13"
    python3 -m venv .tools/cu13
    .tools/cu13/bin/pip install --quiet --disable-pip-version-check nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 \
        nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
    # The build script of the kernels looks for nvcc again.
    touch kernels/build/cuda.rs
fi

# Without a network the tests say that they do without the oracles.
if [ "$purpose" = test ]; then
    oracles=${CARGO_TARGET_DIR:-target}/oracles
    if ! "$oracles/bin/python" -c 'import scipy, pyamg' 2>/dev/null; then
        echo "Installing SciPy and PyAMG into $oracles"
        if ! { mkdir -p "$oracles" && python3 -m venv "$oracles" &&
            "$oracles/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 scipy==1.17.1 pyamg==5.3.0; }; then
            echo "SciPy and PyAMG could not be installed; cli/tests/program/oracles.rs will be skipped" >&2
        fi
    fi
fi
