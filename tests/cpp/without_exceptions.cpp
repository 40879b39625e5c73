// The form of terrace.hpp for builds without exceptions; compiled with -fno-exceptions and linked with wrapper.cpp.
#include <terrace.hpp>

#include <type_traits>
#include <vector>

#ifdef __cpp_exceptions
#error "compile with -fno-exceptions"
#endif

bool other_form_works();

bool other_form_works() {
    const std::vector<int> offsets{0, 2, 5, 7}, columns{0, 1, 0, 1, 2, 1, 2};
    const std::vector<double> values{2, -1, -1, 2, -1, -1, 2}, b{1, 0, 1};
    std::vector<double> x(3);
    terrace::status result;

    const terrace::context none("nowhere", result);
    if (none || result.code() != TERRACE_ERROR_DEVICE || result.sentence().empty()) return false;
    const terrace::context host("host:1", result);
    if (!result.ok() || !result.sentence().empty()) return false;
    const terrace::matrix wrong = terrace::matrix::csr(host, offsets, columns, b, result);
    if (wrong || result.code() != TERRACE_ERROR_SIZE_MISMATCH) return false;
    const terrace::matrix a = terrace::matrix::csr(host, offsets, columns, values, {TERRACE_BORROW}, result);
    terrace::config options(host, result);
    options.set("solver.tolerance", 1e-10, result);
    options.set("solver.type", "nonsense", result);
    if (result.code() != TERRACE_ERROR_OPTION_VALUE) return false;
    terrace::solver solver(host, options, result);
    solver.set_preconditioner(
        [](terrace::span<const double> r, terrace::span<double> z) {
            for (std::size_t i = 0; i < r.size(); ++i) z[i] = r[i] / 2;
        },
        result);
    solver.setup(a, result);
    solver.solve(b, x, result);
    if (!result.ok() || x[0] < 0.999 || x[0] > 1.001) return false;
    solver.solve(b, terrace::span<double>(x.data(), 2), result);
    if (result.code() != TERRACE_ERROR_SIZE_MISMATCH) return false;
    const terrace::report report = solver.report(result);
    if (report.get_int("iterations", result) < 1 || !result.ok()) return false;
    const terrace::amg hierarchy(host, a, result);
    // Without a status nothing compiles, because nothing could be thrown.
    static_assert(std::is_constructible_v<terrace::context, const char *, terrace::status &>);
    static_assert(!std::is_constructible_v<terrace::context, const char *>);
    return result.ok() && hierarchy.rows(result) == 3;
}
