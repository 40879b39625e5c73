// Solves a diffusion problem on a structured grid, given as a stencil: the C++ twin of stencil.c.
//
//   stencil [n [precision]]      n is 64 unless given, and the precision of the hierarchy "dp"; try "(sp,hp)"
#include <terrace.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

// The cell itself and its neighbours along x, y and z.
const std::vector<std::int32_t> offsets = {0, 0, 0, -1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 1};

// A coefficient that differs by three orders of magnitude between two halves of the grid.
double coefficient(std::int64_t n, std::int64_t x) { return 2 * x < n ? 1.0 : 1e3; }

// Finite volumes, zero on the boundary: one array over all cells for each offset.
std::vector<double> assemble(std::int64_t n) {
    const std::size_t cells = static_cast<std::size_t>(n * n * n);
    std::vector<double> values(7 * cells);
    std::size_t cell = 0;
    for (std::int64_t z = 0; z < n; ++z) {
        for (std::int64_t y = 0; y < n; ++y) {
            for (std::int64_t x = 0; x < n; ++x, ++cell) {
                const double own = coefficient(n, x);
                for (std::size_t k = 1; k < 7; ++k) {
                    const std::int64_t i = x + offsets[3 * k], j = y + offsets[3 * k + 1], l = z + offsets[3 * k + 2];
                    const bool inside = i >= 0 && i < n && j >= 0 && j < n && l >= 0 && l < n;
                    const double other = inside ? coefficient(n, i) : own;
                    const double face = inside ? 2.0 * own * other / (own + other) : 2.0 * own;
                    values[k * cells + cell] = inside ? -face : 0.0;
                    values[cell] += face;
                }
            }
        }
    }
    return values;
}

void run(std::int64_t n, const std::string &precision) {
    const std::vector<double> values = assemble(n);
    const terrace::context host("host");
    // Borrowed: products read the values where they are.
    const auto matrix =
        terrace::matrix::stencil(host, {{n, n, n}}, 1, offsets, values, TERRACE_BY_OFFSET, TERRACE_BORROW);
    terrace::config config(host);
    config.set("precision", precision);

    terrace::solver solver(host, config);
    solver.setup(matrix);
    const std::vector<double> b(static_cast<std::size_t>(matrix.rows()), 1.0);
    std::vector<double> x(b.size());
    solver.solve(b, x);

    const terrace::report report = solver.report();
    std::printf("%lld^3 cells, finest level %s: %lld iterations, residual below 1e-8: %s\n", static_cast<long long>(n),
                report.get_str("format", 0).c_str(), static_cast<long long>(report.get_int("iterations")),
                report.get_real("true_residual") <= 1e-8 ? "yes" : "no");
}

} // namespace

int main(int argc, char **argv) {
    const std::int64_t n = argc > 1 ? std::atoi(argv[1]) : 64;
    if (n < 1 || n > 500) {
        std::fprintf(stderr, "n must be from 1 to 500\n");
        return EXIT_FAILURE;
    }
    try {
        run(n, argc > 2 ? argv[2] : "dp");
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
