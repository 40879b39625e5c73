#!/bin/sh
# The slow checks of memory and threads:
#   Miri on the unit tests of the C ABI (undefined behaviour in the unsafe code),
#   ThreadSanitizer on the stress test (the thread rule),
#   valgrind on every C, C++ and Fortran example and test program, and on calls and solves of AmgX's API (reads, writes, leaks).
#   the tests with the checks of the standard library's unsafe functions, and with the cases that `make test` leaves out (TERRACE_DEEP);
#   kernels of set-up with multiplications and additions fused as nvcc fuses them (the bits of the host all the same);
#   machine code for AMD GPUs, and programs with the stand-in of their driver;
#   every allocation of 4 kB or more fails once, in turn (a status, nothing lost);
#   random sequences of calls of the C ABI, API_CALLS (200000) of them (statuses, residuals);
#   libFuzzer with AddressSanitizer on the readers of Matrix Market files and configurations, FUZZ_SECONDS (30) for each;
#   the programs for MFEM, deal.II and dolfinx, where these are installed.
# With names as arguments (miri, tsan, valgrind, assertions, contraction, amd, memory, api, fuzz, clients) only those run.
set -eu
cd "$(dirname "$0")/.."

checks=${*:-"miri tsan valgrind assertions contraction amd memory api fuzz clients"}
target=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}

fail() {
    echo "deep-test: $*" >&2
    exit 1
}

need_nightly() {
    rustc +nightly --version >/dev/null 2>&1 ||
        fail "Rust nightly is missing: rustup toolchain install nightly --profile minimal --component miri,rust-src"
    [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ] ||
        fail "the sources of the standard library are missing: rustup +nightly component add rust-src"
}

miri() {
    need_nightly
    cargo +nightly miri --version >/dev/null 2>&1 || fail "Miri is missing: rustup +nightly component add miri"
    # The time of day is read from the host; everything else stays interpreted.
    MIRIFLAGS="-Zmiri-disable-isolation" cargo +nightly miri test --locked --no-default-features --test unit capi
}

tsan() {
    need_nightly
    # The standard library is built with the sanitizer, too: otherwise its locks would look like races.
    RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="halt_on_error=1" CARGO_TARGET_DIR="$folder/tsan" \
        cargo +nightly test --locked --no-default-features -Zbuild-std --target "$target" --test suite stress::
}

# Arguments that keep an example small: valgrind is some thirty times slower.
arguments() {
    case $1 in
    poisson) echo 12 ;;
    poisson_cuda) echo 6 sim ;;
    elasticity) echo 4 ;;
    time_stepping) echo 24 3 ;;
    callback) echo 16 ;;
    esac
}

check() { # check EXECUTABLE [ARGUMENT...]
    echo "valgrind $*"
    valgrind --quiet --suppressions=tools/valgrind.supp --leak-check=full --errors-for-leak-kinds=definite,possible --error-exitcode=9 \
        "$@" >"$1.out" 2>"$1.err" || {
        cat "$1.out" "$1.err" >&2
        fail "valgrind found something in $1"
    }
}

valgrind_all() {
    command -v valgrind >/dev/null 2>&1 || fail "valgrind is missing: apt-get install valgrind"
    command -v "${FC:-gfortran}" >/dev/null 2>&1 || fail "${FC:-gfortran} is missing: apt-get install gfortran"
    cargo build --locked --package terrace --no-default-features --features sim --lib
    library=$(cd "$folder/debug" && pwd)
    programs=$folder/valgrind
    mkdir -p "$programs/c" "$programs/cpp" "$programs/fortran" "$programs/tests"
    ln -sf "$library/libterrace.so" "$programs/libterrace.so.0"
    link="-Iinclude $library/libterrace.so -lm -lpthread -Wl,-rpath,$(cd "$programs" && pwd)"

    for source in c_examples/*.c; do
        name=$(basename "$source" .c)
        # It needs MPI; poisson_ranks is the same over threads.
        [ "$name" != poisson_mpi ] || continue
        # shellcheck disable=SC2086 # a list of options
        "${CC:-cc}" -std=c99 -g -O1 "$source" -o "$programs/c/$name" $link
        # shellcheck disable=SC2046 # a list of arguments
        check "$programs/c/$name" $(arguments "$name")
    done
    for source in c_examples/*.cpp; do
        name=$(basename "$source" .cpp)
        # shellcheck disable=SC2086
        "${CXX:-c++}" -std=c++17 -g -O1 "$source" -o "$programs/cpp/$name" $link
        # shellcheck disable=SC2046
        check "$programs/cpp/$name" $(arguments "$name")
    done
    for source in fortran/*.f90; do
        name=$(basename "$source" .f90)
        case $name in terrace | terrace_mpi) continue ;; esac
        # shellcheck disable=SC2086
        "${FC:-gfortran}" -g -O1 -J "$programs/fortran" fortran/terrace.f90 "$source" -o "$programs/fortran/$name" $link
        # shellcheck disable=SC2046
        check "$programs/fortran/$name" $(arguments "$name")
    done
    for source in tests/c/*.c; do
        name=$(basename "$source" .c)
        # no_memory limits the address space, in which valgrind has its own share; valgrind traps no floating-point exceptions; a child of
        # fork does not free the threads that its parent has; mpi_ranks needs MPI.
        case $name in check | no_memory | traps | forked | mpi_ranks) continue ;; esac
        # shellcheck disable=SC2086
        "${CC:-cc}" -std=c99 -g -O1 "$source" tests/c/check.c -o "$programs/tests/$name" $link
        check "$programs/tests/$name"
    done

    # The drop-in for AmgX, in a mode of the host and in one of the simulated GPU.
    cargo build --locked --package terrace-amgx --no-default-features --features terrace/sim
    for name in calls solve; do
        "${CC:-cc}" -std=c99 -g -O1 -Icompat/amgx/include "compat/amgx/tests/c/$name.c" -o "$programs/tests/$name" \
            "$library/libamgxsh.so" -lm -rdynamic "-Wl,-rpath,$library"
    done
    # A 5-point Laplacian of as many rows as make two levels.
    awk 'BEGIN {
        n = 14
        print "%%MatrixMarket matrix coordinate real general"
        print n * n, n * n, 5 * n * n - 4 * n
        for (i = 1; i <= n * n; ++i) {
            print i, i, 4
            if (i % n != 1) print i, i - 1, -1
            if (i % n != 0) print i, i + 1, -1
            if (i > n) print i, i - n, -1
            if (i <= n * n - n) print i, i + n, -1
        }
    }' >"$programs/laplacian.mtx"
    stop="main:monitor_residual=1, main:convergence=RELATIVE_INI, main:tolerance=1e-4, amg:max_iters=1"
    for mode in 8192 8193; do
        mkdir -p "$programs/amgx-$mode"
        TERRACE_AMGX_DEVICE=sim check "$programs/tests/calls" "$mode" "$programs/amgx-$mode"
        for family in "solver(main)=PCG, main:preconditioner(amg)=AMG, amg:interpolator=D2" \
            "solver(main)=FGMRES, main:preconditioner(amg)=AMG, amg:algorithm=AGGREGATION, amg:smoother=MULTICOLOR_DILU"; do
            TERRACE_AMGX_DEVICE=sim check "$programs/tests/solve" "$mode" "config_version=2, $family, $stop" "$programs/laplacian.mtx" again
            [ "$(grep -c '^RESULT .* 0 ' "$programs/tests/solve.out")" -eq 2 ] || fail "$programs/tests/solve does not converge: $family"
        done
    done
}

assertions() {
    TERRACE_DEEP=1 CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=true CARGO_TARGET_DIR="$folder/assertions" \
        cargo test --locked --test unit --test suite
}

# A sweep on a stencil is of the solve phase, where products are fused on GPUs; its test wants the bits of the host without it.
contraction() {
    TERRACE_SIM_FLAGS="-ffp-contract=fast -mfma -fexpensive-optimizations" \
        cargo test --locked --test unit -- gpu:: --skip sweeps_on_stencils_are_those_of_the_host
}

# All architectures, optimised as they are installed.
amd() {
    cargo test --locked --package terrace-cli --test program hip::
}

memory() {
    TERRACE_DEEP=1 cargo test --locked --test failed_allocations --test allocations
    TERRACE_DEEP=1 cargo test --locked --test suite -- harness:: determinism:: gpu_setup::
}

api() {
    TERRACE_API_CALLS=${API_CALLS:-200000} cargo test --locked --test suite api_calls:: -- --nocapture
}

# The flags are those that cargo-fuzz sets, so that it need not be installed.
fuzz() {
    need_nightly
    seconds=${FUZZ_SECONDS:-30}
    work=$folder/fuzz
    coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    coverage="$coverage -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
    RUSTFLAGS="-Zsanitizer=address --cfg fuzzing $coverage" CARGO_TARGET_DIR="$work" \
        cargo +nightly build --locked --release --manifest-path fuzz/Cargo.toml --target "$target"
    for name in matrix_market config_json; do
        mkdir -p "$work/corpus/$name" "$work/found"
        echo "fuzzing $name for $seconds s"
        "$work/$target/release/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
            -artifact_prefix="$work/found/$name-" "$work/corpus/$name" "fuzz/seeds/$name" >"$work/$name.log" 2>&1 || {
            tail -n 40 "$work/$name.log" >&2
            fail "the fuzzer broke $name; see $work/$name.log"
        }
        sed -n 's/^stat::number_of_executed_units: */    executions: /p' "$work/$name.log"
    done
}

left_out=""
clients() {
    cargo build --release --locked --package terrace --lib --no-default-features
    for client in mfem dealii dolfinx; do
        echo "programs for $client"
        # 77: not installed.
        told=$("compat/$client/tests/run.sh" "$folder/release/libterrace.so" "$folder/clients/$client" 2>&1) && continue
        [ $? -eq 77 ] || fail "programs for $client: $told"
        left_out="$left_out
    programs for $client: $told"
    done
}

for name in $checks; do
    case $name in
    miri) miri ;;
    tsan) tsan ;;
    valgrind) valgrind_all ;;
    assertions) assertions ;;
    contraction) contraction ;;
    amd) amd ;;
    memory) memory ;;
    api) api ;;
    fuzz) fuzz ;;
    clients) clients ;;
    *) fail "unknown check $name; accepted: miri, tsan, valgrind, assertions, contraction, amd, memory, api, fuzz, clients" ;;
    esac
done
[ -z "$left_out" ] || echo "Left out:$left_out"
echo "deep-test: $checks passed"
