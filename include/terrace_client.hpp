// terrace_client.hpp: what terrace_mfem.hpp and terrace_dealii.hpp share, for finite-element libraries with matrices and numberings of their
// own. Programs include one of those. Header only, C++17, over terrace.hpp, with exceptions.
#ifndef TERRACE_CLIENT_HPP
#define TERRACE_CLIENT_HPP

#include "terrace.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#ifdef TERRACE_NO_EXCEPTIONS
#error "terrace_client.hpp needs exceptions"
#endif

namespace terrace {
namespace client {

/// Ends a call of the client's with an error of Terrace.
[[noreturn]] inline void refuse(terrace_status code, const std::string &sentence) {
    status outcome;
    detail::access::set(outcome, code, std::string(sentence));
    throw error(outcome);
}

/// Which unknowns belong to one node of the mesh, as the displacements of a point do.
struct nodes {
    /// Unknowns of a node.
    std::int32_t components = 1;
    /// The unknown of component c of node k is order[components * k + c]; empty where unknowns are numbered so.
    std::vector<std::int32_t> order;
    /// As many for each node as it has components, x0 y0 z0 x1 ...: rigid-body modes. Empty: the constant of each component.
    std::vector<double> coordinates;

    /// For `rows` unknowns of which all of a component come first.
    static nodes by_component(std::int32_t components, std::int64_t rows) {
        nodes made;
        made.components = components;
        if (components < 2) return made;
        const std::int64_t count = rows / components;
        made.order.resize(static_cast<std::size_t>(count * components));
        for (std::int64_t k = 0; k < count; ++k)
            for (std::int32_t c = 0; c < components; ++c)
                made.order[static_cast<std::size_t>(components * k + c)] = static_cast<std::int32_t>(c * count + k);
        return made;
    }

    /// Refuses nodes that do not have each of `rows` unknowns once.
    void check(std::int64_t rows) const {
        if (components < 1 || components > 8 || rows % components != 0)
            refuse(TERRACE_ERROR_SIZE_MISMATCH, std::to_string(rows) + " rows are no nodes with " + std::to_string(components) +
                                                    " unknowns each; accepted: 1 to 8 that divide the rows");
        if (!coordinates.empty() && coordinates.size() != static_cast<std::size_t>(rows))
            refuse(TERRACE_ERROR_SIZE_MISMATCH, detail::misfit("coordinates", static_cast<std::int64_t>(coordinates.size()), rows));
        if (order.empty()) return;
        if (order.size() != static_cast<std::size_t>(rows))
            refuse(TERRACE_ERROR_SIZE_MISMATCH, detail::misfit("order", static_cast<std::int64_t>(order.size()), rows));
        std::vector<bool> is_there(order.size(), false);
        for (const std::int32_t unknown : order) {
            if (unknown < 0 || unknown >= rows || is_there[static_cast<std::size_t>(unknown)])
                refuse(TERRACE_ERROR_INVALID_ARGUMENT, "the order of nodes has unknown " + std::to_string(unknown) +
                                                           " twice, or there is none of that number");
            is_there[static_cast<std::size_t>(unknown)] = true;
        }
    }
};

/// A client's matrix in compressed rows of blocks, one block for two coupled nodes, with ascending columns. Clients give their rows as
/// `visit(row, each)`, which calls each(column, value) for all entries of a row in any order.
template <class Value>
class block_rows {
public:
    std::int32_t block_size() const noexcept { return block_; }
    std::int64_t rows() const noexcept { return rows_; }
    const std::vector<std::int64_t> &offsets() const noexcept { return offsets_; }
    const std::vector<std::int32_t> &columns() const noexcept { return columns_; }
    const std::vector<Value> &values() const noexcept { return values_; }
    /// The order in which the rows are; empty where it is the client's.
    const std::vector<std::int32_t> &order() const noexcept { return order_; }

    /// Takes a matrix. Blocks that would be half full or less are not made: the rows are then scalar, in the order of the nodes where these
    /// have coordinates, and in the client's where not.
    template <class Visit>
    void build(std::int64_t rows, std::int64_t entries, const nodes &of, Visit &&visit) {
        of.check(rows);
        rows_ = rows;
        order_ = of.order;
        invert_order();
        find_pattern(of.components, entries, visit);
        const std::int64_t stored = static_cast<std::int64_t>(columns_.size()) * of.components * of.components;
        if (of.components > 1 && 2 * entries <= stored) {
            if (of.coordinates.empty()) order_.clear();
            invert_order();
            find_pattern(1, entries, visit);
        }
        fill(visit);
    }

    /// Takes the values of a matrix with the same pattern of blocks; false, and values of no use, where it has another.
    template <class Visit>
    bool update_values(std::int64_t rows, Visit &&visit) {
        return rows == rows_ && fill(visit);
    }

private:
    void invert_order() {
        position_.resize(order_.size());
        for (std::size_t k = 0; k < order_.size(); ++k) position_[static_cast<std::size_t>(order_[k])] = static_cast<std::int32_t>(k);
    }
    std::int32_t unknown(std::int64_t k) const {
        return order_.empty() ? static_cast<std::int32_t>(k) : order_[static_cast<std::size_t>(k)];
    }
    std::int32_t position(std::int32_t unknown) const {
        return position_.empty() ? unknown : position_[static_cast<std::size_t>(unknown)];
    }

    template <class Visit>
    void find_pattern(std::int32_t block, std::int64_t entries, Visit &&visit) {
        block_ = block;
        const std::int64_t count = rows_ / block;
        std::vector<std::int64_t> last(static_cast<std::size_t>(count), -1);
        offsets_.assign(1, 0);
        offsets_.reserve(static_cast<std::size_t>(count) + 1);
        columns_.clear();
        columns_.reserve(static_cast<std::size_t>(entries / (block * block)));
        for (std::int64_t row = 0; row < count; ++row) {
            const auto first = static_cast<std::ptrdiff_t>(columns_.size());
            for (std::int32_t c = 0; c < block; ++c)
                visit(unknown(row * block + c), [&](std::int32_t column, Value) {
                    const std::int32_t b = position(column) / block;
                    if (last[static_cast<std::size_t>(b)] == row) return;
                    last[static_cast<std::size_t>(b)] = row;
                    columns_.push_back(b);
                });
            std::sort(columns_.begin() + first, columns_.end());
            offsets_.push_back(static_cast<std::int64_t>(columns_.size()));
        }
    }

    /// False where an entry is outside of the pattern, or a block of it has no entry.
    template <class Visit>
    bool fill(Visit &&visit) {
        const std::int64_t count = rows_ / block_, area = block_ * block_;
        // The position of each column in the row at hand; positions of other rows are out of its range.
        std::vector<std::int64_t> at(static_cast<std::size_t>(count), -1);
        values_.assign(columns_.size() * static_cast<std::size_t>(area), Value(0));
        std::vector<std::int64_t> last(static_cast<std::size_t>(count), -1);
        std::int64_t outside = 0, filled = 0;
        for (std::int64_t row = 0; row < count && outside == 0; ++row) {
            const std::int64_t begin = offsets_[static_cast<std::size_t>(row)], end = offsets_[static_cast<std::size_t>(row) + 1];
            for (std::int64_t k = begin; k < end; ++k) at[static_cast<std::size_t>(columns_[static_cast<std::size_t>(k)])] = k;
            for (std::int32_t c = 0; c < block_; ++c)
                visit(unknown(row * block_ + c), [&](std::int32_t column, Value value) {
                    const std::int32_t p = position(column);
                    const auto b = static_cast<std::size_t>(p / block_);
                    const std::int64_t k = at[b];
                    if (k < begin || k >= end) {
                        ++outside;
                        return;
                    }
                    filled += last[b] != row;
                    last[b] = row;
                    values_[static_cast<std::size_t>(k * area + c * block_ + p % block_)] += value;
                });
        }
        return outside == 0 && filled == static_cast<std::int64_t>(columns_.size());
    }

    std::int64_t rows_ = 0;
    std::int32_t block_ = 1;
    std::vector<std::int32_t> order_, position_, columns_;
    std::vector<std::int64_t> offsets_;
    std::vector<Value> values_;
};

/// Whether A x and A^T x agree for one vector without structure.
template <class Value>
bool is_symmetric(const context &on, const matrix &a) {
    const auto rows = static_cast<std::size_t>(a.rows());
    std::vector<Value> x(rows), ax(rows), atx(rows);
    std::uint32_t state = 1;
    for (Value &element : x) {
        state = state * 1664525u + 1013904223u;
        element = static_cast<Value>(state >> 8) / static_cast<Value>(1 << 24) - Value(0.5);
    }
    a.apply(on, 1.0, x, 0.0, ax);
    a.apply_transposed(on, 1.0, x, 0.0, atx);
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < rows; ++i) {
        difference += std::pow(static_cast<double>(ax[i]) - static_cast<double>(atx[i]), 2);
        norm += std::pow(static_cast<double>(ax[i]), 2);
    }
    const double tolerance = sizeof(Value) == 8 ? 1e-10 : 1e-4;
    return std::sqrt(difference) <= tolerance * std::sqrt(norm);
}

/// One cycle of AMG, or FSAI where solver.preconditioner says so: a preconditioner for Krylov methods of the client's.
class cycle {
public:
    static constexpr bool has_krylov_method = false;

    /// Where the matrix is not symmetric and no component is chosen, classical coarsening with Gauss-Seidel sweeps.
    template <class Value>
    void setup(const context &on, const matrix &a, const config &options) {
        config effective(on);
        const std::string given = options.to_json();
        effective.load_json(given);
        bool is_chosen = false;
        for (const char *component : {"\"amg.coarsening.", "\"amg.strength.", "\"amg.interpolation.", "\"amg.functions", "\"amg.smoother.", "\"amg.cycle."})
            is_chosen = is_chosen || given.find(component) != std::string::npos;
        looks_at_symmetry_ = !is_chosen;
        is_symmetric_ = is_chosen || is_symmetric<Value>(on, a);
        if (!is_symmetric_) {
            effective.set("solver.type", "gmres");
            effective.set("amg.coarsening.type", "pmis");
            effective.set("amg.smoother.type", "any_gauss_seidel");
        }
        const std::string method = effective.get_text("solver.preconditioner");
        if (method == "amg")
            amg_.emplace(on, a, effective);
        else if (method == "fsai")
            fsai_.emplace(on, a, effective);
        else
            refuse(TERRACE_ERROR_OPTION_VALUE, "solver.preconditioner is " + method + "; accepted here: amg, fsai");
    }
    /// Whether new values may be taken over by update(): the components that were chosen are for a matrix of this symmetry.
    template <class Value>
    bool fits(const context &on, const matrix &a) const {
        return !looks_at_symmetry_ || is_symmetric<Value>(on, a) == is_symmetric_;
    }
    void update() { amg_ ? amg_->update() : fsai_->update(); }
    void reset() {
        amg_.reset();
        fsai_.reset();
    }
    bool is_set() const { return amg_ || fsai_; }
    void apply(const value_array &b, const value_buffer &x, terrace_guess, bool transposed) {
        if (transposed)
            amg_ ? amg_->apply_transposed(b, x) : fsai_->apply_transposed(b, x);
        else
            amg_ ? amg_->apply(b, x) : fsai_->apply(b, x);
    }
    terrace::report report() const { return amg_ ? amg_->report() : fsai_->report(); }

private:
    std::optional<amg> amg_;
    std::optional<fsai> fsai_;
    bool looks_at_symmetry_ = false, is_symmetric_ = true;
};

/// A Krylov method of Terrace with its preconditioner.
class krylov {
public:
    static constexpr bool has_krylov_method = true;

    template <class Value>
    void setup(const context &on, const matrix &a, const config &options) {
        solver_.emplace(on, options);
        solver_->setup(a);
        is_set_ = true;
    }
    template <class Value>
    bool fits(const context &, const matrix &) const {
        return true;
    }
    void update() { solver_->update(); }
    void reset() {
        solver_.reset();
        is_set_ = false;
    }
    bool is_set() const { return is_set_; }
    /// Conditions such as TERRACE_NOT_CONVERGED are left to outcome(); errors are thrown.
    void apply(const value_array &b, const value_buffer &x, terrace_guess guess, bool transposed) {
        transposed ? solver_->solve_transposed(b, x, guess, outcome_) : solver_->solve(b, x, guess, outcome_);
        if (outcome_.failed()) throw error(outcome_);
    }
    const status &outcome() const { return outcome_; }
    terrace::report report() const { return solver_->report(); }

private:
    std::optional<solver> solver_;
    status outcome_;
    bool is_set_ = false;
};

/// A device, options, the client's matrix and what is set up for it. `Engine` is `cycle` or `krylov`.
template <class Engine, class Value>
class system {
public:
    explicit system(const std::string &device) : context_(device), config_(context_) {}

    /// For the next set-up, which is then not an update.
    void set_option(const std::string &key, const std::string &value) {
        check_key(key);
        config_.set(key, value);
        is_stale_ = true;
    }
    void load_json(const std::string &json) {
        config tried(context_);
        tried.load_json(json);
        const std::string keys = tried.to_json();
        for (std::size_t at = keys.find("\"solver."); at != std::string::npos; at = keys.find("\"solver.", at + 1))
            check_key(keys.substr(at + 1, keys.find('"', at + 1) - at - 1));
        config_.load_json(json);
        is_stale_ = true;
    }
    void load_preset(const std::string &name) {
        config_.load_preset(name);
        is_stale_ = true;
    }
    void set_nodes(nodes of) {
        nodes_ = std::move(of);
        is_stale_ = true;
    }

    /// Sets up, or updates where the pattern is that of the last matrix and nothing else has changed.
    template <class Visit>
    void setup(std::int64_t rows, std::int64_t entries, Visit &&visit) {
        is_update_ = engine_.is_set() && !is_stale_ && rows_.update_values(rows, visit);
        try {
            if (is_update_) {
                matrix_->update_values(context_, rows_.values());
                is_update_ = engine_.template fits<Value>(context_, *matrix_);
            }
            is_update_ ? engine_.update() : begin(rows, entries, visit);
        } catch (...) {
            engine_.reset();
            throw;
        }
        is_stale_ = false;
    }

    /// x = M b for arrays on the host, in the client's order, or that of the transposed matrix. With a Krylov method and TERRACE_GIVEN_GUESS x
    /// is read, too.
    template <class T>
    void apply(const T *b, T *x, terrace_guess guess = TERRACE_ZERO_GUESS, bool transposed = false) {
        check_set();
        const auto rows = static_cast<std::size_t>(rows_.rows());
        const std::vector<std::int32_t> &order = rows_.order();
        if (order.empty()) return engine_.apply(span<const T>(b, rows), span<T>(x, rows), guess, transposed);
        std::vector<T> &from = std::get<std::vector<T>>(from_), &to = std::get<std::vector<T>>(to_);
        from.resize(rows);
        to.resize(rows);
        for (std::size_t k = 0; k < rows; ++k) from[k] = b[order[k]];
        if (guess != TERRACE_ZERO_GUESS)
            for (std::size_t k = 0; k < rows; ++k) to[k] = x[order[k]];
        engine_.apply(from, to, guess, transposed);
        for (std::size_t k = 0; k < rows; ++k) x[order[k]] = to[k];
    }
    /// The same for arrays in the memory of the context's GPU; needs is_in_order().
    template <class T>
    void apply_on_device(const T *b, T *x, terrace_guess guess, bool transposed) {
        check_set();
        const auto rows = static_cast<std::size_t>(rows_.rows());
        engine_.apply(device(b, rows), device(x, rows), guess, transposed);
    }

    /// The rows are in the client's order.
    bool is_in_order() const { return rows_.order().empty(); }
    /// The last set-up was an update.
    bool is_update() const { return is_update_; }
    /// What set-up did, and the last solve if there is a Krylov method.
    terrace::report report() const {
        check_set();
        return engine_.report();
    }
    const Engine &engine() const { return engine_; }
    terrace::context &context() { return context_; }
    std::int64_t rows() const { return rows_.rows(); }
    /// Unknowns of a block that the matrix was brought into; 1 for scalar rows.
    std::int32_t block_size() const { return rows_.block_size(); }

private:
    void check_key(const std::string &key) const {
        if (!Engine::has_krylov_method && key.rfind("solver.", 0) == 0 && key != "solver.preconditioner")
            refuse(TERRACE_ERROR_OPTION_VALUE, key + ": the Krylov method is the program's, and this is its preconditioner");
    }
    void check_set() const {
        if (!engine_.is_set()) refuse(TERRACE_ERROR_INVALID_ARGUMENT, "there is no matrix: nothing was set up, or set-up failed");
    }

    template <class Visit>
    void begin(std::int64_t rows, std::int64_t entries, Visit &&visit) {
        engine_.reset();
        matrix_.reset();
        rows_.build(rows, entries, nodes_, visit);
        const layout borrowed{TERRACE_BORROW | TERRACE_SORTED};
        matrix_ = rows_.block_size() == 1
                      ? matrix::csr(context_, rows_.offsets(), rows_.columns(), rows_.values(), borrowed)
                      : matrix::bsr(context_, rows_.block_size(), rows_.offsets(), rows_.columns(), rows_.values(), borrowed);
        give_nodes();
        engine_.template setup<Value>(context_, *matrix_, config_);
    }

    void give_nodes() {
        const std::int32_t components = nodes_.components;
        if (components == 1) return;
        const auto rows = static_cast<std::size_t>(rows_.rows());
        if (!nodes_.coordinates.empty()) {
            matrix_->set_coordinates(context_, components, nodes_.coordinates);
        } else if (rows_.block_size() == 1) {
            // Components that hardly couple are coarsened by themselves, whatever their numbering.
            std::vector<std::int32_t> functions(rows);
            for (std::size_t k = 0; k < rows; ++k)
                functions[nodes_.order.empty() ? k : static_cast<std::size_t>(nodes_.order[k])] = static_cast<std::int32_t>(k) % components;
            matrix_->set_functions(context_, components, functions);
        } else {
            std::vector<double> constants(rows * static_cast<std::size_t>(components), 0.0);
            for (std::size_t k = 0; k < rows; ++k) constants[k % static_cast<std::size_t>(components) * rows + k] = 1.0;
            matrix_->set_near_null_space(context_, components, constants);
        }
    }

    terrace::context context_;
    config config_;
    nodes nodes_;
    block_rows<Value> rows_;
    std::optional<matrix> matrix_;
    Engine engine_;
    std::tuple<std::vector<double>, std::vector<float>> from_, to_;
    bool is_stale_ = true, is_update_ = false;
};

} // namespace client
} // namespace terrace

#endif
