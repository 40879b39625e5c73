// Solves the 7-point Poisson problem on an n x n x n grid: the C++ twin of poisson.c. Handles are unique_ptrs, failures exceptions.
//
//   poisson [n]      n is 64 unless given
#include "terrace.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <auto destroy>
struct Destroy {
    template <class T>
    void operator()(T *handle) const { destroy(handle); }
};

using Context = std::unique_ptr<terrace_context, Destroy<terrace_context_destroy>>;
using Matrix = std::unique_ptr<terrace_matrix, Destroy<terrace_matrix_destroy>>;
using Config = std::unique_ptr<terrace_config, Destroy<terrace_config_destroy>>;
using Solver = std::unique_ptr<terrace_solver, Destroy<terrace_solver_destroy>>;
using Report = std::unique_ptr<terrace_report, Destroy<terrace_report_destroy>>;

// Turns an error into an exception that carries the library's sentence; conditions (positive) are returned.
terrace_status check(const Context &context, terrace_status status) {
    if (status < 0) {
        std::size_t needed = 0;
        terrace_last_error(context.get(), nullptr, 0, &needed);
        std::string sentence(needed, '\0');
        terrace_last_error(context.get(), sentence.data(), needed, nullptr);
        throw std::runtime_error(std::string(terrace_status_name(status)) + ": " + sentence.c_str());
    }
    return status;
}

struct Csr {
    std::vector<std::int64_t> row_offsets{0};
    std::vector<std::int32_t> columns;
    std::vector<double> values;

    void add(std::int32_t column, double value) {
        columns.push_back(column);
        values.push_back(value);
    }
    void end_row() { row_offsets.push_back(static_cast<std::int64_t>(columns.size())); }
    std::int64_t rows() const { return static_cast<std::int64_t>(row_offsets.size()) - 1; }
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

terrace_status run(std::int32_t n) {
    const Csr a = poisson(n);

    terrace_context *context_handle = nullptr;
    if (terrace_status status = terrace_context_create("host", &context_handle); status < 0) {
        throw std::runtime_error(terrace_status_sentence(status));
    }
    const Context context(context_handle);

    // Borrowed: the matrix reads the vectors of `a`, which live longer than it does.
    terrace_matrix *matrix_handle = nullptr;
    check(context, terrace_matrix_create_csr(context.get(), a.rows(), a.rows(), TERRACE_I64, a.row_offsets.data(),
                                             TERRACE_I32, a.columns.data(), TERRACE_F64, a.values.data(), 0,
                                             TERRACE_BORROW | TERRACE_SORTED, &matrix_handle));
    const Matrix matrix(matrix_handle);

    terrace_config *config_handle = nullptr;
    check(context, terrace_config_create(context.get(), &config_handle));
    const Config config(config_handle);
    check(context, terrace_config_load_json(config.get(), R"({"solver": {"tolerance": 1e-8, "max_iterations": 200}})"));

    terrace_solver *solver_handle = nullptr;
    check(context, terrace_solver_create(context.get(), config.get(), &solver_handle));
    const Solver solver(solver_handle);
    check(context, terrace_solver_setup(solver.get(), matrix.get()));

    const std::vector<double> b(static_cast<std::size_t>(a.rows()), 1.0);
    std::vector<double> x(b.size());
    const terrace_status status =
        check(context, terrace_solver_solve(solver.get(), TERRACE_F64, 1, b.data(), x.data(), TERRACE_ZERO_GUESS));

    terrace_report *report_handle = nullptr;
    check(context, terrace_solver_report(solver.get(), &report_handle));
    const Report report(report_handle);
    std::size_t needed = 0;
    check(context, terrace_report_to_text(report.get(), nullptr, 0, &needed));
    std::string text(needed, '\0');
    check(context, terrace_report_to_text(report.get(), text.data(), needed, nullptr));
    std::fputs(text.c_str(), stdout);
    return status;
}

} // namespace

int main(int argc, char **argv) {
    const int n = argc > 1 ? std::atoi(argv[1]) : 64;
    if (n < 1 || n > 600) {
        std::fprintf(stderr, "n must be from 1 to 600\n");
        return EXIT_FAILURE;
    }
    try {
        return run(n) == TERRACE_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
