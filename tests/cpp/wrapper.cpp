// Attacks terrace.hpp: wrong sizes, objects that were moved from, callbacks that throw, destruction in every order. Prints nothing when all
// is well. Compiled as C++17 and as C++20.
#include <terrace.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#if __cplusplus >= 202002L
#include <span>
#endif

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

// The tridiagonal matrix (-1, 2, -1); its solution for b = (1, 0, 1) is all ones.
const std::vector<std::int32_t> offsets{0, 2, 5, 7}, columns{0, 1, 0, 1, 2, 1, 2};
const std::vector<double> values{2, -1, -1, 2, -1, -1, 2}, b{1, 0, 1};

template <class Container>
bool are_ones(const Container &x, double factor = 1.0) {
    return std::all_of(std::begin(x), std::end(x), [&](auto v) { return std::abs(v - factor) < 1e-6; });
}

// A call must throw this status, with this in its sentence, and the status form must say the same.
template <class Call>
void refused(int line, terrace_status code, const std::string &part, Call &&call) {
    std::string sentence;
    try {
        call(terrace::throws());
    } catch (const terrace::error &error) {
        sentence = error.outcome().sentence();
        if (error.code() != code || sentence.find(part) == std::string::npos ||
            error.what() != std::string(terrace_status_name(code)) + ": " + sentence) {
            std::printf("line %d: %s\n", line, error.what());
            std::exit(1);
        }
    }
    if (sentence.empty()) {
        std::printf("line %d: nothing was thrown\n", line);
        std::exit(1);
    }
    terrace::status result;
    call(result);
    if (result.code() != code || result.ok() || result.failed() != (code < 0) || result.sentence() != sentence) {
        std::printf("line %d: %s: %s\n", line, result.name(), result.sentence().c_str());
        std::exit(1);
    }
}
#define REFUSED(code, part, call) refused(__LINE__, code, part, [&](terrace::status &result) { call; })

terrace::matrix laplacian(const terrace::context &on) { return terrace::matrix::csr(on, offsets, columns, values); }

void reading() {
    const terrace::version loaded = terrace::version::of_library();
    CHECK(loaded.major == TERRACE_VERSION_MAJOR && loaded.minor == TERRACE_VERSION_MINOR &&
          loaded.patch == TERRACE_VERSION_PATCH);
    const terrace::status fine;
    CHECK(fine.ok() && !fine.failed() && fine.code() == 0 && std::string(fine.name()) == "TERRACE_SUCCESS");
    CHECK(std::string(fine.meaning()) == "the call succeeded" && fine.sentence().empty());

    REFUSED(TERRACE_ERROR_DEVICE, "nowhere", terrace::context("nowhere", result));
    REFUSED(TERRACE_ERROR_DEVICE, "nowhere", terrace::context(std::string("nowhere"), result));
    terrace::context host("host:2");
    host.set_threads(3);
    CHECK(host && host.get() && host.threads() == 3 && host.info().front() == '{');
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "threads is -3", host.set_threads(-3, result));
    CHECK(host.last_error().find("threads is -3") == 0);
    REFUSED(TERRACE_ERROR_INTERNAL, "raise_panic", host.raise_panic(result));
    REFUSED(TERRACE_ERROR_UNSUPPORTED, "", host.set_stream(nullptr, result));
    REFUSED(TERRACE_ERROR_UNSUPPORTED, "", host.set_memory_limit(1000, result));
    REFUSED(TERRACE_ERROR_BREAKDOWN, "mine", host.set_error(TERRACE_ERROR_BREAKDOWN, "mine", result));
    host.synchronize();
    CHECK(host.memory().used == 0 && host.memory().peak == 0 && host.memory().limit == 0);

    terrace::config options(host);
    options.set("solver.type", "fcg");
    options.set(std::string("amg.smoother.type"), std::string("jacobi"));
    options.set("solver.max_iterations", 50);
    options.set("solver.restart", std::int64_t{20});
    options.set("solver.tolerance", 1e-8);
    options.set("solver.absolute_tolerance", 0.5f);
    options.set_level(0, TERRACE_LEVEL_MATRIX, TERRACE_F64);
    options.set_level_sweeps(TERRACE_LAST, 2, 2);
    options.load_preset("singular");
    options.load_json(R"({"solver": {"null_space": "none"}})");
    CHECK(options.to_json().find("\"solver.max_iterations\":50") != std::string::npos);
    CHECK(options.to_json().find("\"amg.smoother.type\":\"jacobi\"") != std::string::npos);
    REFUSED(TERRACE_ERROR_UNKNOWN_OPTION, "the nearest is \"solver.type\"", options.set("solver.typ", "cg", result));
    REFUSED(TERRACE_ERROR_OPTION_VALUE, "", options.set("solver.tolerance", -1.0, result));
    REFUSED(TERRACE_ERROR_OPTION_VALUE, "", options.load_preset("no such preset", result));
    REFUSED(TERRACE_ERROR_PARSE, "", options.load_json("{", result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "", options.set_level(99, TERRACE_LEVEL_MATRIX, TERRACE_F64, result));
    REFUSED(TERRACE_ERROR_OPTION_VALUE, "", options.set_level_sweeps(0, -1, 0, result));

    const terrace::matrix a = laplacian(host);
    CHECK(a.rows() == 3 && a.cols() == 3 && a.nonzeros() == 7 && a.block_size() == 1);
    std::vector<double> x(3);
    terrace::amg hierarchy(host, a, options);
    hierarchy.update();
    hierarchy.apply(b, x);
    CHECK(hierarchy.rows() == 3 && are_ones(x) && hierarchy.report().get_int("levels") == 1);
    x.assign(3, 0.0);
    hierarchy.apply_transposed(b, x);
    CHECK(are_ones(x));
    CHECK(terrace::amg::memory_estimate(host, a) > 0 && terrace::amg::memory_estimate(host, a, options) > 0);
    terrace::fsai factor(host, a, options);
    factor.update();
    std::fill(x.begin(), x.end(), 0.0);
    factor.apply(b, x);
    CHECK(factor.rows() == 3 && are_ones(x) && factor.report().get_int("fsai_nonzeros") == 6);
    CHECK(terrace::fsai::memory_estimate(host, a) > 0 && terrace::fsai::memory_estimate(host, a, options) > 0);
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "", factor.apply(std::vector<double>(2), x, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "", factor.apply_transposed(std::vector<double>(2), x, result));
    x.assign(3, 0.0);
    factor.apply_transposed(b, x);
    CHECK(are_ones(x));
    REFUSED(TERRACE_ERROR_BREAKDOWN, "mine", factor.set_error(TERRACE_ERROR_BREAKDOWN, "mine", result));
    CHECK(terrace::solver::memory_estimate(host, a, true) > terrace::amg::memory_estimate(host, a));
    CHECK(terrace::solver::memory_estimate(host, a, options, false) > 0);
    REFUSED(TERRACE_ERROR_BREAKDOWN, "mine", hierarchy.set_error(TERRACE_ERROR_BREAKDOWN, "mine", result));

    options.set("solver.absolute_tolerance", 0.0);
    terrace::solver solver(host, options);
    REFUSED(TERRACE_ERROR_NOT_SET_UP, "", solver.rows(result));
    REFUSED(TERRACE_ERROR_NOT_SET_UP, "", solver.solve(b, x, result));
    REFUSED(TERRACE_ERROR_NOT_SET_UP, "", solver.setup(result));
    solver.setup(a);
    solver.update();
    solver.solve(b, x);
    CHECK(solver.rows() == 3 && are_ones(x));
    x.assign(3, 0.0);
    solver.solve_transposed(b, x);
    CHECK(are_ones(x));
    REFUSED(TERRACE_ERROR_BREAKDOWN, "mine", solver.set_error(TERRACE_ERROR_BREAKDOWN, "mine", result));
    const terrace::report report = solver.report();
    CHECK(report.get_int("iterations", 0) >= 1 && report.get_real("true_residual") < 1e-6);
    CHECK(report.get_str("format") == "csr" && report.get_str("format", 0) == "csr");
    CHECK(report.history().size() == static_cast<std::size_t>(report.get_int("iterations")) + 1);
    CHECK(report.history(0) == report.history() && std::abs(report.history()[0] - 1.0) < 1e-12);
    CHECK(report.get_real("setup_seconds", 0) >= 0.0 && report.to_json().front() == '{');
    CHECK(report.to_text().find("operator complexity") != std::string::npos);
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "key is \"levls\"", report.get_int("levls", result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "", report.get_real("format", result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "index is 5", report.get_str("format", 5, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "", report.history(7, result));
}

// A solve that does not converge throws, and is accepted with a status.
void conditions() {
    const terrace::context host("host:1");
    const std::vector<double> other{1, 2, 4};
    std::vector<double> x(3);
    terrace::config options(host);
    options.load_json(R"({"solver": {"type": "cg", "preconditioner": "none", "max_iterations": 1, "tolerance": 1e-12}})");
    terrace::solver solver(host, options);
    solver.setup(laplacian(host));
    REFUSED(TERRACE_NOT_CONVERGED, "iterations", solver.solve(other, x, result));
    terrace::status result;
    solver.solve(other, x, result);
    CHECK(result.code() == TERRACE_NOT_CONVERGED && !result.failed() && !result.ok());
    solver.rows(result);
    CHECK(result.ok() && result.sentence().empty());
}

// Every kind of array, in every format.
void arrays() {
    const terrace::context host("host:1");
    std::array<double, 3> x{};
    double c_array[3] = {1, 0, 1};
    const std::vector<std::int64_t> wide_offsets(offsets.begin(), offsets.end());
    const std::vector<std::size_t> sizes(columns.begin(), columns.end());
    const std::vector<float> narrow(values.begin(), values.end()), narrow_b{1, 0, 1};
    std::vector<float> narrow_x(3);

    terrace::solver solver(host);
    solver.setup(terrace::matrix::csr(host, wide_offsets, sizes, values));
    solver.solve(c_array, x);
    CHECK(are_ones(x));
    solver.solve(terrace::span<const double>(b.data(), b.size()), terrace::span<double>(x.data(), x.size()),
                 TERRACE_GIVEN_GUESS);
    CHECK(are_ones(x));
    solver.solve(terrace::span<const double>(c_array), terrace::span<double>(x));
#if __cplusplus >= 202002L
    std::fill(x.begin(), x.end(), 0.0);
    solver.solve(std::span(c_array), std::span(x));
    CHECK(are_ones(x));
    solver.setup(terrace::matrix::csr(host, std::span(offsets), std::span(columns), std::span(values), {.flags = TERRACE_BORROW}));
    solver.solve(b, x);
    CHECK(are_ones(x));
#endif
    terrace::solver in_floats(host);
    in_floats.setup(terrace::matrix::csr(host, offsets, columns, narrow));
    terrace::status result;
    in_floats.solve(narrow_b, narrow_x, result);
    CHECK(!result.failed() && std::abs(narrow_x[1] - 1) < 1e-4f);

    std::vector<double> two{1, 0, 1, 2, 0, 2}, solutions(6);
    solver.solve(two, solutions);
    CHECK(are_ones(terrace::span<double>(solutions.data(), 3)) && are_ones(terrace::span<double>(solutions.data() + 3, 3), 2.0));
    CHECK(solver.report().get_int("right_hand_sides") == 2);

    const std::vector<int> from_one{1, 3, 6, 8}, columns_from_one{1, 2, 1, 2, 3, 2, 3};
    solver.setup(terrace::matrix::csr(host, from_one, columns_from_one, values, {TERRACE_BORROW | TERRACE_SORTED, 1}));
    solver.solve(b, x);
    CHECK(are_ones(x));

    const terrace::matrix wide = terrace::matrix::csr(host, std::vector<int>{0, 1}, std::vector<int>{2},
                                                      std::vector<double>{5}, {TERRACE_COPY, 0, 4});
    CHECK(wide.rows() == 1 && wide.cols() == 4);
    const terrace::matrix tall = wide.transpose(host);
    CHECK(tall.rows() == 4 && tall.cols() == 1 && terrace::matrix::multiply(host, wide, tall).rows() == 1);
    std::vector<double> y{1};
    wide.apply(host, 2.0, std::vector<double>{0, 0, 1, 0}, 3.0, y);
    CHECK(y[0] == 13.0);
    std::vector<double> back(4, 1);
    wide.apply_transposed(host, 2.0, y, 1.0, back);
    CHECK((back == std::vector<double>{1, 1, 131, 1}));
    std::vector<std::int64_t> row_offsets(5);
    std::vector<int> cols(1);
    std::vector<float> stored(1);
    tall.get_arrays(host, row_offsets, cols, stored, 1);
    CHECK((row_offsets == std::vector<std::int64_t>{1, 1, 1, 2, 2}) && cols[0] == 1 && stored[0] == 5.0f);
    tall.get_arrays(host, nullptr, nullptr, stored, 0);

    terrace::matrix blocks = terrace::matrix::bsr(host, 2, std::vector<int>{0, 1}, std::vector<int>{0},
                                                  std::vector<double>{2, 0, 0, 2});
    CHECK(blocks.rows() == 2 && blocks.block_size() == 2 && blocks.nonzeros() == 4);
    blocks.set_coordinates(host, 2, std::vector<double>{0, 0});
    blocks.set_near_null_space(host, 2, std::vector<double>{1, 0, 0, 1});
    blocks.update_values(host, std::vector<double>{4, 0, 0, 4});
    terrace::matrix lent = terrace::matrix::bsr(host, 1, offsets, columns, values, {TERRACE_BORROW});
    lent.update_values(host, values);
    CHECK(lent.nonzeros() == 7);
}

void wrong_sizes() {
    const terrace::context host("host:1");
    std::vector<double> x(3), longer(4), none;
    const std::vector<double> short_values{2, -1}, four{1, 2, 3, 4};
    const std::vector<int> short_columns{0, 1}, no_offsets, no_columns, two_offsets{0, 1}, far_offsets{0, 2147483647};
    const std::vector<std::int64_t> endless{0, INT64_MAX}, negative{0, INT64_MIN};
    using terrace::matrix;
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "columns has 2 elements; 7 are needed", matrix::csr(host, offsets, short_columns, values, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "values has 2 elements; 7 are needed", matrix::csr(host, offsets, columns, short_values, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "row_offsets has 0", matrix::csr(host, no_offsets, columns, values, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "row_offsets has 0", matrix::csr(host, nullptr, nullptr, nullptr, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "columns has 7", matrix::csr(host, far_offsets, columns, values, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "columns has 7", matrix::csr(host, endless, columns, values, result));
    REFUSED(TERRACE_ERROR_MATRIX_STRUCTURE, "", matrix::csr(host, negative, columns, values, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "base", matrix::csr(host, offsets, columns, values, {TERRACE_COPY, INT32_MIN}, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "values has 7 elements; 28 are needed", matrix::bsr(host, 2, offsets, columns, values, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "block_size", matrix::bsr(host, INT32_MAX, offsets, columns, values, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "block_size", matrix::bsr(host, -1, offsets, columns, values, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "values is a temporary",
            matrix::csr(host, offsets, columns, std::vector<double>(values), {TERRACE_BORROW}, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "row_offsets is a temporary",
            matrix::csr(host, std::array<int, 4>{0, 2, 5, 7}, columns, values, {TERRACE_BORROW}, result));

    matrix a = laplacian(host), lent = matrix::csr(host, offsets, columns, values, {TERRACE_BORROW});
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "", a.update_values(host, short_values, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "values is a temporary", lent.update_values(host, std::vector<double>(values), result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "vectors has 2", a.set_near_null_space(host, 1, short_values, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "vectors has 4 elements; 6", a.set_near_null_space(host, 1, four, result));
    a.set_near_null_space(host, 1, none); // removes them
    a.set_functions(host, 2, std::vector<int>{0, 1, 0});
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "functions has 2", a.set_functions(host, 2, std::vector<int>{0, 1}, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "functions[1] is 2", a.set_functions(host, 2, std::vector<int>{0, 2, 0}, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "32 bits", a.set_functions(host, 2, std::vector<std::int64_t>(3), result));
    a.set_functions(host, 0, nullptr);
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "coordinates has 2", a.set_coordinates(host, 2, short_values, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "dimension", a.set_coordinates(host, 0, b, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "vectors is float", a.set_near_null_space(host, 1, std::vector<float>(3), result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "x has 4", a.apply(host, 1, longer, 0, x, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "y has 4", a.apply(host, 1, b, 0, longer, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "x has 4", a.apply_transposed(host, 1, longer, 0, x, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "number format", a.apply(host, 1, std::vector<float>(3), 0, x, result));
    std::vector<int> indices(4), entries(7);
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "row_offsets has 7", a.get_arrays(host, entries, entries, nullptr, 0, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "columns has 4", a.get_arrays(host, indices, indices, nullptr, 0, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "values has 3", a.get_arrays(host, indices, entries, x, 0, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "base", a.get_arrays(host, indices, entries, nullptr, 7, result));

    terrace::amg hierarchy(host, a);
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "b has 4", hierarchy.apply(longer, x, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "b has 4", hierarchy.apply_transposed(longer, x, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "x has 4", hierarchy.apply(b, longer, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "number format", hierarchy.apply(std::vector<float>(3), x, result));
    terrace::solver solver(host);
    solver.setup(a);
    x.assign(3, 7.0);
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "b has 4 elements; 3 are needed", solver.solve(longer, longer, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "b has 4 elements; 3 are needed", solver.solve_transposed(longer, longer, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "b has 1", solver.solve(std::vector<double>(1), terrace::span<double>(x.data(), 1), result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "b has 0", solver.solve(none, none, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "x has 0", solver.solve(b, nullptr, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "x has 4", solver.solve(b, longer, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "number format", solver.solve(std::vector<float>(3), x, result));
    REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "guess", solver.solve(b, x, 99, result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "", solver.setup(matrix::csr(host, two_offsets, std::vector<int>{1}, std::vector<double>{1}, {0, 0, 2}), result));
    CHECK(x == std::vector<double>(3, 7.0));
}

// Objects that were moved from are empty: an error in every call, nothing worse.
void moved_from() {
    terrace::context host("host:1");
    terrace::config options(host);
    terrace::matrix a = laplacian(host);
    terrace::amg hierarchy(host, a);
    terrace::solver solver(host);
    solver.setup(a);
    terrace::report report = solver.report();
    std::vector<double> x(3);

    const terrace::context host_too = std::move(host);
    const terrace::config options_too = std::move(options);
    const terrace::matrix a_too = std::move(a);
    terrace::amg hierarchy_too = std::move(hierarchy);
    terrace::solver solver_too = std::move(solver);
    const terrace::report report_too = std::move(report);
    solver_too.solve(b, x);
    hierarchy_too.apply(b, x);
    CHECK(are_ones(x) && a_too.rows() == 3 && report_too.get_int("levels") == 1);
    // NOLINTBEGIN(bugprone-use-after-move)
    CHECK(!host && !options && !a && !hierarchy && !solver && !report && !host.get());
    CHECK(a.rows() == 0 && a.cols() == 0 && a.nonzeros() == 0 && a.block_size() == 0);
    const terrace_status null = TERRACE_ERROR_NULL_ARGUMENT;
    REFUSED(null, "context is null", host.set_threads(2, result));
    REFUSED(null, "context is null", host.threads(result));
    REFUSED(null, "context is null", host.info(result));
    REFUSED(null, "context is null", host.set_log(TERRACE_LOG_DEBUG, [](auto, auto) {}, result));
    REFUSED(null, "context is null", host.set_error(TERRACE_ERROR_BREAKDOWN, "mine", result));
    REFUSED(null, "context is null", host.memory(result));
    REFUSED(null, "context is null", host.synchronize(result));
    REFUSED(null, "context is null", host.set_stream(nullptr, result));
    REFUSED(null, "context is null", host.raise_panic(result));
    REFUSED(null, "context is null", terrace::matrix::csr(host, offsets, columns, values, result));
    REFUSED(null, "context is null", terrace::matrix::csr(host, offsets, columns, std::vector<double>(1), result));
    REFUSED(null, "context is null", terrace::config(host, result));
    REFUSED(null, "context is null", terrace::solver(host, result));
    REFUSED(null, "context is null", terrace::solver(host, options, result));
    REFUSED(null, "context is null", terrace::amg(host, a_too, result));
    REFUSED(null, "matrix is null", terrace::amg(host_too, a, result));
    REFUSED(null, "config is empty", terrace::amg(host_too, a_too, options, result));
    REFUSED(null, "config is empty", terrace::solver(host_too, options, result));
    REFUSED(null, "config is empty", terrace::amg::memory_estimate(host_too, a_too, options, result));
    REFUSED(null, "config is empty", terrace::solver::memory_estimate(host_too, a_too, options, true, result));
    REFUSED(null, "config is null", options.set("solver.type", "cg", result));
    REFUSED(null, "config is null", options.to_json(result));
    REFUSED(null, "matrix is null", a.update_values(host_too, values, result));
    REFUSED(null, "matrix is null", a.set_near_null_space(host_too, 1, b, result));
    REFUSED(null, "matrix is null", a.set_coordinates(host_too, 3, b, result));
    REFUSED(null, "matrix is null", a.apply(host_too, 1, b, 0, x, result));
    REFUSED(null, "matrix is null", a.get_arrays(host_too, nullptr, nullptr, x, 0, result));
    REFUSED(null, "matrix is null", a.transpose(host_too, result));
    REFUSED(null, "left is null", terrace::matrix::multiply(host_too, a, a_too, result));
    REFUSED(null, "amg is null", hierarchy.apply(b, x, result));
    REFUSED(null, "amg is null", hierarchy.update(result));
    REFUSED(null, "amg is null", hierarchy.rows(result));
    REFUSED(null, "amg is null", hierarchy.option("amg.cycle.type", result));
    REFUSED(null, "amg is null", hierarchy.report(result));
    REFUSED(null, "solver is null", solver.solve(b, x, result));
    REFUSED(null, "solver is null", solver.setup(a_too, result));
    REFUSED(null, "matrix is empty", solver_too.setup(a, result));
    REFUSED(null, "solver is null", solver.update(result));
    REFUSED(null, "solver is null", solver.rows(result));
    REFUSED(null, "solver is null", solver.report(result));
    REFUSED(null, "solver is null", solver.set_operator(3, [](auto, auto) {}, result));
    REFUSED(null, "report is null", report.get_int("levels", result));
    REFUSED(null, "report is null", report.get_str("format", result));
    REFUSED(null, "report is null", report.history(result));
    REFUSED(null, "report is null", report.to_text(result));

    // And they can be given something new.
    host = terrace::context("host:1");
    a = laplacian(host);
    solver = terrace::solver(host);
    solver.setup(a);
    solver.solve(b, x);
    // NOLINTEND(bugprone-use-after-move)
    CHECK(are_ones(x) && a.rows() == 3);
    solver = std::move(solver_too);
    solver.solve(b, x);
    CHECK(are_ones(x));
}

struct mine {
    int number;
};

// y = A x of the tridiagonal matrix.
struct tridiagonal {
    std::shared_ptr<int> calls;
    int throws_at = 0, fails_at = 0;

    template <class T>
    int operator()(terrace::span<const T> x, terrace::span<T> y) const {
        ++*calls;
        if (*calls == throws_at) throw mine{*calls};
        if (*calls == fails_at) return 9;
        for (std::size_t i = 0; i < x.size(); ++i)
            y[i] = 2 * x[i] - (i > 0 ? x[i - 1] : T(0)) - (i + 1 < x.size() ? x[i + 1] : T(0));
        return 0;
    }
};

void monitors_and_options() {
    const terrace::context host("host:1");
    // Twice the entries, half at a time.
    std::vector<std::int64_t> rows{0, 0, 1, 1, 1, 2, 2}, cols{0, 1, 0, 1, 2, 1, 2};
    std::vector<double> halves;
    for (int k = 0; k < 2; ++k)
        for (std::size_t i = 0; i < values.size(); ++i) halves.push_back(values[i] / 2);
    const std::vector<std::int64_t> once = rows, at = cols;
    rows.insert(rows.end(), once.begin(), once.end());
    cols.insert(cols.end(), at.begin(), at.end());
    const terrace::matrix a = terrace::matrix::coo(host, 3, 3, rows, cols, halves, 0);
    CHECK(a.nonzeros() == 7);
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "values", terrace::matrix::coo(host, 3, 3, rows, cols, values, 0, result));
    REFUSED(TERRACE_ERROR_MATRIX_STRUCTURE, "row_indices[0] is 0", terrace::matrix::coo(host, 3, 3, rows, cols, halves, 1, result));

    terrace::config options(host);
    options.load_json(R"({"preset": "poisson", "solver": {"type": "cg"}, "amg.smoother.pre_sweeps": [1, 2]})");
    CHECK(options.get_text("amg.smoother.pre_sweeps") == "1,2" && options.get_text("amg.smoother.type") == "any_gauss_seidel");
    CHECK(options.get_int("solver.restart") == 30 && options.get_real("solver.divergence_tolerance") == 1e8);
    REFUSED(TERRACE_ERROR_OPTION_VALUE, "auto", options.get_real("solver.tolerance", result));
    REFUSED(TERRACE_ERROR_OPTION_VALUE, "twice", options.load_json(R"({"solver.type": "cg", "solver": {"type": "cg"}})", result));
    REFUSED(TERRACE_ERROR_OPTION_VALUE, "no preset", options.load_json(R"({"preset": "fast"})", result));

    terrace::solver solver(host, options);
    REFUSED(TERRACE_ERROR_NOT_SET_UP, "", solver.option("solver.type", result));
    const terrace::matrix half = terrace::matrix::csr(host, offsets, columns, values);
    solver.set_preconditioner_matrix(half);
    solver.setup(a);
    CHECK(solver.option("solver.type") == "cg" && solver.option("amg.smoother.type") == "l1_gauss_seidel");
    const terrace::amg hierarchy(host, a, options);
    CHECK(hierarchy.option("amg.smoother.type") == "l1_gauss_seidel" && hierarchy.option("amg.smoother.pre_sweeps") == "1,2");
    CHECK(terrace::fsai(host, a).option("fsai.steps") == "15");
    std::vector<double> x(3), norms;
    solver.set_monitor([&](std::int64_t, std::int64_t iteration, double residual) {
        CHECK(iteration == static_cast<std::int64_t>(norms.size()));
        norms.push_back(residual);
    });
    solver.solve(b, x);
    CHECK(are_ones(x) && norms.size() > 1 && norms.front() == 1.0);
    solver.set_monitor([](std::int64_t, std::int64_t, double) { return true; });
    terrace::status result;
    solver.solve(b, x, result);
    CHECK(result.code() == TERRACE_STOPPED && x == std::vector<double>(3));
    solver.set_monitor([](std::int64_t, std::int64_t, double) { throw std::runtime_error("enough"); });
    try {
        solver.solve(b, x);
        CHECK(false);
    } catch (const std::runtime_error &error) {
        CHECK(error.what() == std::string("enough"));
    }
    solver.set_monitor(nullptr);
    solver.set_monitor(std::function<void(std::int64_t, std::int64_t, double)>());
    solver.solve(b, x);
    CHECK(are_ones(x));
}

void callbacks() {
    std::vector<double> x(3);
    auto calls = std::make_shared<int>(0);
    {
        const terrace::context host("host:1");
        terrace::solver solver(host);
        solver.set_operator(3, tridiagonal{calls});
        CHECK(calls.use_count() == 2);
        REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "rows is -1", solver.set_operator(-1, tridiagonal{calls}, result));
        // An empty function, and nullptr, remove the operator.
        solver.set_operator(3, std::function<void(terrace::span<const double>, terrace::span<double>)>());
        CHECK(calls.use_count() == 1);
        solver.set_operator(3, tridiagonal{calls});
        solver.set_preconditioner(tridiagonal{calls});
        CHECK(calls.use_count() == 3);
        solver.set_operator(nullptr);
        solver.set_preconditioner(nullptr);
        CHECK(calls.use_count() == 1);
        solver.set_operator(3, tridiagonal{calls});
        CHECK(calls.use_count() == 2);
        int preconditioned = 0;
        solver.set_preconditioner([&](terrace::span<const double> r, terrace::span<double> z) {
            ++preconditioned;
            std::transform(r.begin(), r.end(), z.begin(), [](double v) { return v / 2; });
        });
        solver.setup();
        // The callbacks do not move with the solver.
        terrace::solver elsewhere = std::move(solver);
        elsewhere.solve(b, x);
        CHECK(are_ones(x) && *calls > 0 && preconditioned > 0);
        std::vector<float> narrow_b{1, 0, 1}, narrow_x(3);
        REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "", elsewhere.solve(narrow_b, narrow_x, result));

        // An exception comes out of solve, whichever form, and the solver works afterwards.
        for (int form = 0; form < 2; ++form) {
            *calls = 0;
            elsewhere.set_operator(3, tridiagonal{calls, 2});
            elsewhere.setup();
            int caught = 0;
            terrace::status result;
            try {
                if (form == 0)
                    elsewhere.solve(b, x);
                else
                    elsewhere.solve(b, x, result);
            } catch (const mine &thrown) {
                caught = thrown.number;
            }
            CHECK(caught == 2 && result.ok());
            elsewhere.solve(b, x);
            CHECK(are_ones(x) && elsewhere.report().get_int("converged") == 1);
        }
        elsewhere.set_preconditioner([](terrace::span<const double>, terrace::span<double>) { throw std::runtime_error("no"); });
        elsewhere.setup();
        std::string said;
        try {
            elsewhere.solve(b, x);
        } catch (const terrace::error &) {
            said = "wrong";
        } catch (const std::runtime_error &error) {
            said = error.what();
        }
        CHECK(said == "no");

        // A number other than 0 ends the solve as in C. A callback that comes back to its solver is refused by the library.
        *calls = 0;
        terrace::solver failing(host);
        failing.set_operator(3, tridiagonal{calls, 0, 1});
        failing.set_preconditioner([](auto r, auto z) { std::copy(r.begin(), r.end(), z.begin()); });
        failing.setup();
        terrace::status result;
        failing.solve(b, x, result);
        CHECK(result.code() == TERRACE_ERROR_CALLBACK && result.sentence().find("9") != std::string::npos);
        failing.set_operator(3, [&failing](terrace::span<const double>, terrace::span<double> y) { failing.solve(y, y); });
        failing.setup();
        try {
            failing.solve(b, x);
        } catch (const terrace::error &error) {
            said = error.what();
        }
        CHECK(said.find("in use") != std::string::npos);

        terrace::config options(host);
        options.set("solver.precision", "f32");
        terrace::solver in_floats(host, options);
        *calls = 0;
        in_floats.set_operator<float>(3, tridiagonal{calls});
        in_floats.set_preconditioner<float>([](auto r, auto z) { std::copy(r.begin(), r.end(), z.begin()); });
        in_floats.setup();
        in_floats.solve(narrow_b, narrow_x, result);
        CHECK(!result.failed() && *calls > 0 && std::abs(narrow_x[0] - 1) < 1e-4f);
        REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "", in_floats.solve(b, x, result));
        // A callback gets vectors of the solver, which need not be those of solve.
        const std::vector<float> narrow(values.begin(), values.end());
        const auto in_f32 = terrace::matrix::csr(host, offsets, columns, narrow);
        in_floats.set_preconditioner<double>([](auto r, auto z) { std::copy(r.begin(), r.end(), z.begin()); });
        in_floats.setup();
        REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "a callback is for double, the solver works in f32", in_floats.solve(narrow_b, narrow_x, result));
        terrace::solver mixed(host);
        mixed.set_preconditioner<float>([](auto r, auto z) { std::copy(r.begin(), r.end(), z.begin()); });
        mixed.setup(in_f32);
        REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "a callback is for float, the solver works in f64", mixed.solve(narrow_b, narrow_x, result));
        mixed.set_preconditioner([](auto r, auto z) { std::copy(r.begin(), r.end(), z.begin()); });
        mixed.setup(in_f32);
        mixed.solve(narrow_b, narrow_x);
        CHECK(are_ones(narrow_x));
    }
    CHECK(calls.use_count() == 1);
}

// The log outlives its context as long as something logs, and what it throws comes out of the call that logged.
void logs() {
    auto lines = std::make_shared<int>(0);
    std::vector<double> x(3);
    {
        std::optional<terrace::context> host(std::in_place, "host:1");
        terrace::matrix a = laplacian(*host);
        terrace::solver solver(*host);
        host->set_log(TERRACE_LOG_DEBUG, [lines](terrace_log_level level, std::string_view line) {
            CHECK(level > TERRACE_LOG_OFF && !line.empty());
            ++*lines;
        });
        CHECK(lines.use_count() == 2);
        REFUSED(TERRACE_ERROR_INVALID_ARGUMENT, "level", host->set_log(9, [](auto, auto) {}, result));
        solver.setup(a);
        CHECK(*lines > 0);
        host->set_log(TERRACE_LOG_DEBUG, [lines](terrace_log_level, std::string_view) {
            ++*lines;
            throw mine{*lines};
        });
        CHECK(lines.use_count() == 2);
        host.reset();
        *lines = 0;
        int caught = 0;
        try {
            solver.solve(b, x);
        } catch (const mine &thrown) {
            caught = thrown.number;
        }
        CHECK(caught == 1 && *lines >= 1 && are_ones(x));
    }
    CHECK(lines.use_count() == 1);
    terrace::context host("host:1");
    host.set_log(TERRACE_LOG_DEBUG, [lines](terrace_log_level, std::string_view) { throw mine{1}; });
    int caught = 0;
    try {
        const terrace::matrix a = laplacian(host);
        const terrace::amg hierarchy(host, a);
    } catch (const mine &) {
        caught = 1;
    }
    CHECK(caught == 1);
    host.set_log(TERRACE_LOG_DEBUG, nullptr);
    CHECK(lines.use_count() == 1);
}

// Device pointers and streams go through to the library. The memory of a simulated GPU is that of the host.
void gpus() {
    using terrace::device;
    terrace::context gpu("sim");
    std::vector<double> x(3);
    int name_of_a_stream = 0;
    gpu.set_stream(&name_of_a_stream);
    terrace::matrix a = terrace::matrix::csr(gpu, device(offsets.data(), 4), device(columns.data(), 7), device(values.data(), 7));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "columns has 2 elements; 7 are needed",
            terrace::matrix::csr(gpu, device(offsets.data(), 4), device(columns.data(), 2), device(values.data(), 7), result));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "values has 6 elements; 7 are needed",
            terrace::matrix::csr(gpu, device(offsets.data(), 4), device(columns.data(), 7), device(values.data(), 6), result));
    a.update_values(gpu, device(values.data(), 7));
    terrace::solver solver(gpu);
    solver.setup(a);
    solver.solve(device(b.data(), 3), device(x.data(), 3));
    gpu.synchronize();
    CHECK(are_ones(x));
    REFUSED(TERRACE_ERROR_SIZE_MISMATCH, "b has 2", solver.solve(device(b.data(), 2), device(x.data(), 3), result));
    a.apply(gpu, 1.0, device(b.data(), 3), 0.0, device(x.data(), 3));
    gpu.synchronize();
    CHECK(x == (std::vector<double>{2, -2, 2}));
    gpu.set_stream(nullptr);
    CHECK(gpu.memory().used > 0 && gpu.memory().limit == 0);
    gpu.set_memory_limit(1);
    CHECK(gpu.memory().limit == 1);
    REFUSED(TERRACE_ERROR_OUT_OF_MEMORY, "", terrace::amg(gpu, a, result));
}

void any_order() {
    std::array<int, 6> order{0, 1, 2, 3, 4, 5};
    do {
        std::optional<terrace::context> host(std::in_place, "host:1");
        host->set_log(TERRACE_LOG_DEBUG, [](terrace_log_level, std::string_view) {});
        std::optional<terrace::matrix> a(laplacian(*host));
        std::optional<terrace::config> options(std::in_place, *host);
        std::optional<terrace::amg> hierarchy(std::in_place, *host, *a, *options);
        std::optional<terrace::solver> solver(std::in_place, *host, *options);
        solver->setup(*a);
        std::optional<terrace::report> report(solver->report());
        for (const int which : order) {
            if (which == 0) host.reset();
            if (which == 1) a.reset();
            if (which == 2) options.reset();
            if (which == 3) hierarchy.reset();
            if (which == 4) solver.reset();
            if (which == 5) report.reset();
            std::vector<double> x(3);
            if (solver) solver->solve(b, x);
            if (hierarchy) hierarchy->apply(b, x);
            CHECK((!solver && !hierarchy) || are_ones(x));
            if (solver) solver->update();
            if (report) CHECK(report->get_int("levels") == 1);
            if (options) options->set("solver.max_iterations", 9);
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

} // namespace

// Compiled without exceptions.
bool other_form_works();

int main() {
    reading();
    conditions();
    arrays();
    wrong_sizes();
    moved_from();
    callbacks();
    monitors_and_options();
    logs();
    gpus();
    any_order();
    CHECK(other_form_works());
}
