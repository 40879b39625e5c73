// Solves the 7-point Poisson problem on an n x n x n grid: the C++ twin of poisson.c. A failure of any call is an exception with the
// library's sentence.
//
//   poisson [n]      n is 64 unless given
#include <terrace.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

namespace {

struct Csr {
    std::vector<std::int64_t> row_offsets{0};
    std::vector<std::int32_t> columns;
    std::vector<double> values;

    void add(std::int32_t column, double value) {
        columns.push_back(column);
        values.push_back(value);
    }
    void end_row() { row_offsets.push_back(static_cast<std::int64_t>(columns.size())); }
};

Csr poisson(std::int32_t n) {
    Csr a;
    std::int32_t row = 0;
    for (std::int32_t z = 0; z < n; ++z) {
        for (std::int32_t y = 0; y < n; ++y) {
            for (std::int32_t x = 0; x < n; ++x, ++row) {
                if (z > 0) a.add(row - n * n, -1.0);
                if (y > 0) a.add(row - n, -1.0);
                if (x > 0) a.add(row - 1, -1.0);
                a.add(row, 6.0);
                if (x < n - 1) a.add(row + 1, -1.0);
                if (y < n - 1) a.add(row + n, -1.0);
                if (z < n - 1) a.add(row + n * n, -1.0);
                a.end_row();
            }
        }
    }
    return a;
}

void run(std::int32_t n) {
    const Csr a = poisson(n);
    const terrace::context host("host");
    // Borrowed: the matrix reads the vectors of `a`, which live longer than it does.
    const auto matrix =
        terrace::matrix::csr(host, a.row_offsets, a.columns, a.values, {TERRACE_BORROW | TERRACE_SORTED});
    terrace::config config(host);
    config.load_json(R"({"solver": {"tolerance": 1e-8, "max_iterations": 200}})");

    terrace::solver solver(host, config);
    solver.setup(matrix);
    const std::vector<double> b(static_cast<std::size_t>(matrix.rows()), 1.0);
    std::vector<double> x(b.size());
    solver.solve(b, x);
    std::fputs(solver.report().to_text().c_str(), stdout);
}

} // namespace

int main(int argc, char **argv) {
    const int n = argc > 1 ? std::atoi(argv[1]) : 64;
    if (n < 1 || n > 600) {
        std::fprintf(stderr, "n must be from 1 to 600\n");
        return EXIT_FAILURE;
    }
    try {
        run(n);
        return EXIT_SUCCESS;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
