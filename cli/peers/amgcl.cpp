// Peer for `terrace bench peers`: AMG-preconditioned CG of AMGCL, OpenMP backend, on a system written by it (see hypre.c).
//
//   amgcl FILE sa-spai0|sa-chebyshev|rs-spai0 REPEAT
//
// With coordinates in the file (three for each node) the smoothed-aggregation variants get the six rigid-body modes.
#include <amgcl/adapter/crs_tuple.hpp>
#include <amgcl/amg.hpp>
#include <amgcl/backend/builtin.hpp>
#include <amgcl/coarsening/rigid_body_modes.hpp>
#include <amgcl/coarsening/ruge_stuben.hpp>
#include <amgcl/coarsening/smoothed_aggregation.hpp>
#include <amgcl/make_solver.hpp>
#include <amgcl/relaxation/chebyshev.hpp>
#include <amgcl/relaxation/spai0.hpp>
#include <amgcl/solver/cg.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <tuple>
#include <vector>

using Backend = amgcl::backend::builtin<double>;

template <class T> std::vector<T> read_array(std::FILE *file, std::size_t count) {
    std::vector<T> array(count);
    if (std::fread(array.data(), sizeof(T), count, file) != count) {
        std::fprintf(stderr, "the matrix file is short\n");
        std::exit(2);
    }
    return array;
}

static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Problem {
    std::vector<int> offsets, columns;
    std::vector<double> values, coordinates, rhs;
    int rows;
};

template <class P> void rigid_body_modes(const Problem &problem, P &params) {
    if (problem.coordinates.empty()) return;
    params.coarsening.aggr.block_size = 3;
    params.coarsening.aggr.eps_strong = 0;
    params.coarsening.nullspace.cols = amgcl::coarsening::rigid_body_modes(3, problem.coordinates, params.coarsening.nullspace.B);
}

// Ruge-Stueben knows no near-null space.
struct no_modes {
    template <class P> void operator()(const Problem &, P &) const {}
};
struct modes {
    template <class P> void operator()(const Problem &problem, P &params) const { rigid_body_modes(problem, params); }
};

template <class Amg, class Modes> int run(const Problem &problem, int repeat) {
    using Solver = amgcl::make_solver<Amg, amgcl::solver::cg<Backend>>;
    std::vector<double> setups, solves;
    std::size_t iterations = 0;
    double residual = 0, complexity = 0;
    for (int r = 0; r < repeat; ++r) {
        typename Solver::params params;
        params.solver.tol = 1e-8;
        params.solver.maxiter = 500;
        Modes()(problem, params.precond);
        std::vector<double> x(problem.rows, 0.0);
        double start = seconds();
        Solver solve(std::tie(problem.rows, problem.offsets, problem.columns, problem.values), params);
        setups.push_back(seconds() - start);
        start = seconds();
        std::tie(iterations, residual) = solve(problem.rhs, x);
        solves.push_back(seconds() - start);
        // The hierarchy tells its complexity in print only.
        std::ostringstream told;
        told << solve.precond();
        const std::string label = "Operator complexity:";
        const auto at = told.str().find(label);
        if (at != std::string::npos) complexity = std::atof(told.str().c_str() + at + label.size());
    }
    std::sort(setups.begin(), setups.end());
    std::sort(solves.begin(), solves.end());
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    std::printf("{\"setup_seconds\": %.6f, \"solve_seconds\": %.6f, \"iterations\": %zu, \"residual\": %.3e, "
                "\"operator_complexity\": %.4f, \"peak_bytes\": %.0f}\n",
                setups[repeat / 2], solves[repeat / 2], iterations, residual, complexity, 1024.0 * static_cast<double>(usage.ru_maxrss));
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    std::FILE *file = std::fopen(argv[1], "rb");
    if (file == nullptr) return 2;
    auto head = read_array<std::int64_t>(file, 3);
    Problem problem;
    problem.rows = static_cast<int>(head[0]);
    problem.offsets = read_array<int>(file, static_cast<std::size_t>(head[0]) + 1);
    problem.columns = read_array<int>(file, static_cast<std::size_t>(head[1]));
    problem.values = read_array<double>(file, static_cast<std::size_t>(head[1]));
    problem.coordinates = read_array<double>(file, static_cast<std::size_t>(head[2]));
    problem.rhs = read_array<double>(file, static_cast<std::size_t>(head[0]));
    std::fclose(file);
    const std::string name = argv[2];
    const int repeat = std::atoi(argv[3]);
    if (name == "sa-spai0")
        return run<amgcl::amg<Backend, amgcl::coarsening::smoothed_aggregation, amgcl::relaxation::spai0>, modes>(problem, repeat);
    if (name == "sa-chebyshev")
        return run<amgcl::amg<Backend, amgcl::coarsening::smoothed_aggregation, amgcl::relaxation::chebyshev>, modes>(problem, repeat);
    if (name == "rs-spai0")
        return run<amgcl::amg<Backend, amgcl::coarsening::ruge_stuben, amgcl::relaxation::spai0>, no_modes>(problem, repeat);
    return 2;
}
