// terrace_client.hpp: a client's matrix in any numbering becomes blocks of nodes, new values of its pattern an update, and bad nodes and keys
// are refused with sentences. Prints nothing when all is well.
#include <terrace_client.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

using terrace::client::nodes;
using Matrix = std::vector<std::map<int, double>>;

// A chain of nodes with two unknowns each: a tridiagonal matrix, in which the unknowns of a node and of its neighbours are coupled.
Matrix chain(int count, double coupling, const std::function<int(int, int)> &number) {
    Matrix a(static_cast<std::size_t>(2 * count));
    for (int k = 0; k < count; ++k)
        for (int c = 0; c < 2; ++c) {
            auto &row = a[static_cast<std::size_t>(number(k, c))];
            row[number(k, c)] = 4.0 + coupling;
            if (coupling != 0) row[number(k, 1 - c)] = coupling;
            for (const int other : {k - 1, k + 1}) {
                if (other < 0 || other >= count) continue;
                row[number(other, c)] = -1.0;
                if (coupling != 0) row[number(other, 1 - c)] = -0.1 * coupling;
            }
        }
    return a;
}

std::int64_t entries(const Matrix &a) {
    std::size_t count = 0;
    for (const auto &row : a) count += row.size();
    return static_cast<std::int64_t>(count);
}

template <class System>
void set_up(System &system, const Matrix &a) {
    system.setup(static_cast<std::int64_t>(a.size()), entries(a), [&](std::int32_t row, auto &&each) {
        // Not in the order of the columns.
        const auto &entries_of = a[static_cast<std::size_t>(row)];
        for (auto entry = entries_of.rbegin(); entry != entries_of.rend(); ++entry) each(entry->first, entry->second);
    });
}

// The residual of a solve.
double residual(const Matrix &a, const std::vector<double> &b, const std::vector<double> &x) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        double r = b[i];
        for (const auto &[column, value] : a[i]) r -= value * x[static_cast<std::size_t>(column)];
        sum += r * r;
    }
    return std::sqrt(sum);
}

template <class Call>
void refuses(Call &&call, terrace_status code, const std::string &part) {
    try {
        call();
    } catch (const terrace::error &error) {
        if (error.code() != code || std::string(error.what()).find(part) == std::string::npos) {
            std::printf("%s instead of %s\n", error.what(), part.c_str());
            std::exit(1);
        }
        return;
    }
    std::printf("not refused: %s\n", part.c_str());
    std::exit(1);
}

using Cycle = terrace::client::system<terrace::client::cycle, double>;
using Krylov = terrace::client::system<terrace::client::krylov, double>;

constexpr int count = 60;

int by_node(int k, int c) { return 2 * k + c; }
int by_component(int k, int c) { return c * count + k; }
int backwards(int k, int c) { return 2 * (count - 1 - k) + c; }

// Each numbering gives the same blocks, and the same solution of the same problem.
void numberings_become_blocks() {
    std::vector<double> first;
    for (const auto &number : {by_node, by_component, backwards}) {
        nodes of;
        of.components = 2;
        for (int k = 0; k < count; ++k)
            for (int c = 0; c < 2; ++c) of.order.push_back(number(k, c));
        const Matrix a = chain(count, 0.5, number);
        Krylov system("host:1");
        system.set_option("solver.tolerance", "1e-10");
        system.set_nodes(number == by_component ? nodes::by_component(2, 2 * count) : of);
        set_up(system, a);
        CHECK(system.block_size() == 2 && !system.is_update() && system.rows() == 2 * count);

        std::vector<double> b(2 * count), x(2 * count, 7.0), in_order(2 * count);
        for (int k = 0; k < count; ++k)
            for (int c = 0; c < 2; ++c) b[static_cast<std::size_t>(number(k, c))] = k + 10.0 * c;
        system.apply(b.data(), x.data());
        CHECK(system.engine().outcome().ok() && residual(a, b, x) < 1e-6);
        for (int k = 0; k < count; ++k)
            for (int c = 0; c < 2; ++c) in_order[static_cast<std::size_t>(by_node(k, c))] = x[static_cast<std::size_t>(number(k, c))];
        if (first.empty()) first = in_order;
        CHECK(in_order == first);
        // From the solution there is nothing left to do.
        system.apply(b.data(), x.data(), TERRACE_GIVEN_GUESS);
        CHECK(system.report().get_int("iterations") <= 1);
    }
}

// Components that do not couple stay scalar, in the client's numbering, as functions; with coordinates they stay nodes.
void empty_blocks_are_not_made() {
    for (const bool has_coordinates : {false, true}) {
        nodes of = nodes::by_component(2, 2 * count);
        if (has_coordinates)
            for (int k = 0; k < count; ++k) of.coordinates.insert(of.coordinates.end(), {static_cast<double>(k), 0.5 * (k % 3)});
        Krylov system("host:1");
        system.set_nodes(of);
        const Matrix a = chain(count, 0.0, by_component);
        set_up(system, a);
        CHECK(system.block_size() == 1 && system.is_in_order() == !has_coordinates);
        std::vector<double> b(2 * count, 1.0), x(2 * count);
        system.apply(b.data(), x.data());
        CHECK(residual(a, b, x) < 1e-6);
    }
}

void the_same_pattern_is_an_update() {
    Cycle system("host:1");
    system.set_nodes(nodes::by_component(2, 2 * count));
    Matrix a = chain(count, 0.5, by_component);
    set_up(system, a);
    std::vector<double> b(2 * count, 1.0), x(2 * count), y(2 * count), z(2 * count);
    system.apply(b.data(), x.data());
    set_up(system, chain(count, 0.8, by_component));
    CHECK(system.is_update());
    system.apply(b.data(), y.data());
    CHECK(x != y);
    // An entry less in a block that has others, as assembly leaves out zeros.
    Matrix thinner = a;
    thinner[0].erase(by_component(1, 1));
    thinner[by_component(1, 1)].erase(0);
    set_up(system, thinner);
    CHECK(system.is_update());
    // Back to the first values: as a new set-up.
    set_up(system, a);
    CHECK(system.is_update());
    system.apply(b.data(), z.data());
    CHECK(x == z);
    // A coupling more, one less, another size, another option.
    Matrix other = a;
    other[0][5] = other[5][0] = -0.1;
    set_up(system, other);
    CHECK(!system.is_update());
    set_up(system, a);
    CHECK(!system.is_update());
    system.set_option("amg.max_levels", "2");
    set_up(system, a);
    CHECK(!system.is_update());
    // Values that are refused leave nothing behind, and the next matrix is set up.
    Matrix bad = a;
    bad[3][3] = std::numeric_limits<double>::quiet_NaN();
    refuses([&] { set_up(system, bad); }, TERRACE_ERROR_MATRIX_VALUES, "");
    refuses([&] { system.apply(b.data(), x.data()); }, TERRACE_ERROR_INVALID_ARGUMENT, "there is no matrix");
    set_up(system, a);
    CHECK(!system.is_update());
}

// Gauss-Seidel where nobody chose a smoother and the matrix is not symmetric.
void nonsymmetric_matrices_are_found() {
    Matrix a = chain(count, 0.5, by_node);
    for (int i = 1; i < 2 * count; ++i) a[static_cast<std::size_t>(i)][i - 1] -= 0.7;
    Cycle system("host:1");
    system.load_json("{\"amg.coarsest.max_rows\": 20}");
    set_up(system, a);
    CHECK(system.report().to_text().find("gauss_seidel") != std::string::npos);
    // Another symmetry in the same pattern needs other components.
    set_up(system, chain(count, 0.5, by_node));
    CHECK(!system.is_update() && system.report().to_text().find("gauss_seidel") == std::string::npos);
    system.set_option("solver.preconditioner", "fsai");
    set_up(system, chain(count, 0.5, by_node));
    std::vector<float> b(2 * count, 1.0f), x(2 * count);
    system.apply(b.data(), x.data());
    CHECK(x[0] > 0);
}

// A matrix that is not symmetric, in a numbering that is brought into the order of nodes and back.
void transposes_are_applied() {
    Matrix a = chain(count, 0.5, by_component), transpose(a.size());
    for (int i = 1; i < 2 * count; ++i) a[static_cast<std::size_t>(i)][i - 1] -= 0.7;
    for (std::size_t i = 0; i < a.size(); ++i)
        for (const auto &[column, value] : a[i]) transpose[static_cast<std::size_t>(column)][static_cast<int>(i)] = value;
    std::vector<double> b(2 * count), x(2 * count, 7.0), r(2 * count);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = 1.0 + static_cast<double>(i % 5);
    Krylov solver("host:1");
    solver.set_option("solver.tolerance", "1e-10");
    solver.set_nodes(nodes::by_component(2, 2 * count));
    set_up(solver, a);
    solver.apply(b.data(), x.data(), TERRACE_ZERO_GUESS, true);
    CHECK(solver.engine().outcome().ok() && residual(transpose, b, x) < 1e-6 && residual(a, b, x) > 1e-2);
    for (const char *preconditioner : {"amg", "fsai"}) {
        Cycle system("host:1");
        system.set_option("solver.preconditioner", preconditioner);
        system.set_option("amg.coarsest.max_rows", "20");
        system.set_nodes(nodes::by_component(2, 2 * count));
        set_up(system, a);
        x.assign(x.size(), 0.0);
        const double before = residual(transpose, b, x);
        for (int k = 0; k < 20; ++k) {
            r = b;
            for (std::size_t i = 0; i < a.size(); ++i)
                for (const auto &[column, value] : transpose[i]) r[i] -= value * x[static_cast<std::size_t>(column)];
            std::vector<double> correction(x.size());
            system.apply(r.data(), correction.data(), TERRACE_ZERO_GUESS, true);
            for (std::size_t i = 0; i < x.size(); ++i) x[i] += correction[i];
        }
        CHECK(residual(transpose, b, x) < 1e-3 * before);
    }
}

void bad_input_is_refused() {
    Cycle system("host:1");
    const Matrix a = chain(count, 0.5, by_node);
    const auto with = [&](nodes of) {
        system.set_nodes(std::move(of));
        set_up(system, a);
    };
    nodes of;
    of.components = 7;
    refuses([&] { with(of); }, TERRACE_ERROR_SIZE_MISMATCH, "120 rows are no nodes with 7 unknowns each");
    refuses([&] { with(nodes::by_component(2, 100)); }, TERRACE_ERROR_SIZE_MISMATCH, "order has 100 elements; 120 are needed");
    of = nodes::by_component(2, 2 * count);
    of.order[0] = 3;
    refuses([&] { with(of); }, TERRACE_ERROR_INVALID_ARGUMENT, "unknown 3 twice");
    of = nodes::by_component(2, 2 * count);
    of.coordinates = {1, 2};
    refuses([&] { with(of); }, TERRACE_ERROR_SIZE_MISMATCH, "coordinates has 2 elements");
    refuses([&] { system.set_option("solver.tolerance", "0.1"); }, TERRACE_ERROR_OPTION_VALUE, "the Krylov method is the program's");
    refuses([&] { system.load_json("{\"solver\": {\"type\": \"cg\"}}"); }, TERRACE_ERROR_OPTION_VALUE, "solver.type");
    refuses([&] { system.set_option("amg.smother.type", "jacobi"); }, TERRACE_ERROR_UNKNOWN_OPTION, "amg.smoother.type");
    system.set_option("solver.preconditioner", "jacobi");
    refuses([&] { with(nodes()); }, TERRACE_ERROR_OPTION_VALUE, "accepted here: amg, fsai");
}

} // namespace

int main() {
    numberings_become_blocks();
    empty_blocks_are_not_made();
    the_same_pattern_is_an_update();
    nonsymmetric_matrices_are_found();
    transposes_are_applied();
    bad_input_is_refused();
    return 0;
}
