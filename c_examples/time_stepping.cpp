// Implicit Euler for the heat equation with a conductivity that changes in time: the C++ twin of time_stepping.c. In every step the matrix
// has new values in the old pattern, the solver is updated, and its report says what the step took. A step that does not converge is told
// by a status and not by an exception, so that the program can go on with it.
//
//   time_stepping [n [steps]]      n x n grid, n is 64 and steps is 10 unless given
#include <terrace.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <vector>

namespace {

// A well-conducting spot circles around the middle of the unit square.
double conductivity(double x, double y, double angle) {
    const double cx = 0.5 + 0.3 * std::cos(angle), cy = 0.5 + 0.3 * std::sin(angle);
    const double r2 = (x - cx) * (x - cx) + (y - cy) * (y - cy);
    return 1.0 + 20.0 * std::exp(-40.0 * r2);
}

// h^2 (1 / dt - div(k grad)) on the n x n interior points of the unit square, zero on the boundary. The pattern is the same wherever the
// spot is.
struct Heat {
    int n;
    double dt;
    std::vector<std::int32_t> row_offsets, columns;
    std::vector<double> values;

    void add(int column, double value) {
        columns.push_back(column);
        values.push_back(value);
    }
    void assemble(double angle) {
        const double h = 1.0 / (n + 1);
        row_offsets.assign(1, 0);
        columns.clear();
        values.clear();
        for (int j = 0; j < n; ++j) {
            for (int i = 0; i < n; ++i) {
                const int row = j * n + i;
                const double x = (i + 1) * h, y = (j + 1) * h;
                const double south = conductivity(x, y - 0.5 * h, angle), north = conductivity(x, y + 0.5 * h, angle);
                const double west = conductivity(x - 0.5 * h, y, angle), east = conductivity(x + 0.5 * h, y, angle);
                if (j > 0) add(row - n, -south);
                if (i > 0) add(row - 1, -west);
                add(row, h * h / dt + south + north + west + east);
                if (i < n - 1) add(row + 1, -east);
                if (j < n - 1) add(row + n, -north);
                row_offsets.push_back(static_cast<std::int32_t>(columns.size()));
            }
        }
    }
};

void run(int n, int steps) {
    const double h2 = 1.0 / ((n + 1.0) * (n + 1.0));
    Heat heat{n, 0.005, {}, {}, {}};
    heat.assemble(0.0);

    const terrace::context host("host");
    // Copied, so that the vectors may be written while the matrix exists.
    auto matrix = terrace::matrix::csr(host, heat.row_offsets, heat.columns, heat.values, {TERRACE_SORTED});
    terrace::solver solver(host);
    solver.setup(matrix);

    std::vector<double> u(static_cast<std::size_t>(matrix.rows()), 1.0), b(u.size());
    std::int64_t first = 0, most = 0;
    for (int step = 1; step <= steps; ++step) {
        heat.assemble(0.3 * step);
        matrix.update_values(host, heat.values);
        solver.update();

        std::transform(u.begin(), u.end(), b.begin(), [&](double v) { return h2 / heat.dt * v; });
        // The old temperature is the first guess of the new one.
        terrace::status result;
        solver.solve(b, u, TERRACE_GIVEN_GUESS, result);
        if (result.failed()) throw terrace::error(result);
        if (!result.ok()) std::fprintf(stderr, "step %d: %s\n", step, result.sentence().c_str());

        const terrace::report report = solver.report();
        const std::int64_t iterations = report.get_int("iterations");
        std::printf("step %2d: %2d iterations, heat %.6f, update %.4f s\n", step, static_cast<int>(iterations),
                    h2 * std::accumulate(u.begin(), u.end(), 0.0), report.get_real("setup_seconds"));
        if (step == 1) first = iterations;
        most = std::max(most, iterations);
    }
    std::printf("iterations: %d in the first step, at most %d\n", static_cast<int>(first), static_cast<int>(most));
}

} // namespace

int main(int argc, char **argv) {
    const int n = argc > 1 ? std::atoi(argv[1]) : 64;
    const int steps = argc > 2 ? std::atoi(argv[2]) : 10;
    if (n < 2 || n > 10000 || steps < 1) {
        std::fprintf(stderr, "n must be from 2 to 10000, steps at least 1\n");
        return EXIT_FAILURE;
    }
    try {
        run(n, steps);
        return EXIT_SUCCESS;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
