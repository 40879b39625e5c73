// terrace_dealii.hpp: Terrace for programs that use deal.II (9.4 or newer): preconditioner and solver for a dealii::SparseMatrix, which may be
// a block of a BlockSparseMatrix, and dealii::Vector. Header only, C++17; link with -lterrace.
//
//     terrace_dealii::PreconditionAMG amg;            // instead of PreconditionSSOR<SparseMatrix<double>>
//     amg.initialize(system_matrix);
//     SolverCG<Vector<double>>(control).solve(system_matrix, solution, system_rhs, amg);
//
// Displacements: set_elasticity() of the AdditionalData, or its constant_modes. reinit() with new values of the same pattern is an update. Errors
// are thrown as terrace::error. docs/migrating.md has the rest.
#ifndef TERRACE_DEALII_HPP
#define TERRACE_DEALII_HPP

#include "terrace_client.hpp"

#include <deal.II/base/point.h>
#include <deal.II/base/subscriptor.h>
#include <deal.II/dofs/dof_handler.h>
#include <deal.II/dofs/dof_tools.h>
#include <deal.II/fe/component_mask.h>
#include <deal.II/fe/mapping.h>
#include <deal.II/fe/mapping_q1.h>
#include <deal.II/lac/solver_control.h>
#include <deal.II/lac/sparse_matrix.h>
#include <deal.II/lac/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace terrace_dealii {

/// What is set up, and how.
struct AdditionalData {
    /// Device of Terrace: "host", "host:4" for four threads, "cuda:0", "hip:0".
    std::string device = "host";
    /// A preset of docs/presets.md; none when empty.
    std::string preset;
    /// Options of docs/options.md as a JSON object, such as {"amg.smoother.type": "gauss_seidel"}; none when empty.
    std::string options;
    /// For each component of a system the unknowns that belong to it, as DoFTools::extract_constant_modes gives them. The k-th unknown of each
    /// component belongs to node k, as deal.II numbers nodal elements, also after DoFRenumbering::component_wise; components whose
    /// numberings do not match in this way are coarsened by themselves.
    std::vector<std::vector<bool>> constant_modes;
    /// Made by set_elasticity(); takes the place of constant_modes.
    terrace::client::nodes nodes;

    /// For displacements with nodal elements such as FESystem(FE_Q(p), dim), in any numbering: rigid-body modes, from the support points.
    template <int dim>
    void set_elasticity(const dealii::Mapping<dim> &mapping, const dealii::DoFHandler<dim> &dof_handler) {
        if (dim < 2 || dof_handler.get_fe().n_components() != dim || !dof_handler.get_fe().has_support_points())
            terrace::client::refuse(TERRACE_ERROR_INVALID_ARGUMENT,
                                    "set_elasticity: the element has " + std::to_string(dof_handler.get_fe().n_components()) +
                                        " components in " + std::to_string(dim) + " dimensions" +
                                        (dof_handler.get_fe().has_support_points() ? "" : ", and no support points") +
                                        "; accepted: nodal elements with as many components as dimensions, 2 or 3");
        std::vector<dealii::Point<dim>> points(dof_handler.n_dofs());
        dealii::DoFTools::map_dofs_to_support_points(mapping, dof_handler, points);
        std::vector<std::vector<bool>> modes;
        dealii::DoFTools::extract_constant_modes(dof_handler, dealii::ComponentMask(), modes);
        nodes = group(points, modes);
    }
    /// With cells whose edges are straight.
    template <int dim>
    void set_elasticity(const dealii::DoFHandler<dim> &dof_handler) {
        set_elasticity(dealii::MappingQ1<dim>(), dof_handler);
    }

private:
    /// Unknowns at the same point are a node. Nodes are in the order of their first unknowns.
    template <int dim>
    static terrace::client::nodes group(const std::vector<dealii::Point<dim>> &points, const std::vector<std::vector<bool>> &modes) {
        const std::size_t rows = points.size();
        std::vector<std::int32_t> sorted(rows);
        for (std::size_t i = 0; i < rows; ++i) sorted[i] = static_cast<std::int32_t>(i);
        const auto at = [&](std::int32_t i) -> const dealii::Point<dim> & { return points[static_cast<std::size_t>(i)]; };
        std::sort(sorted.begin(), sorted.end(), [&](std::int32_t i, std::int32_t j) {
            for (unsigned int d = 0; d < dim; ++d)
                if (at(i)[d] != at(j)[d]) return at(i)[d] < at(j)[d];
            return i < j;
        });
        const auto refuse = [&](std::int32_t i, std::size_t count) {
            std::string place;
            for (unsigned int d = 0; d < dim; ++d) place += (d > 0 ? ", " : "") + std::to_string(at(i)[d]);
            terrace::client::refuse(TERRACE_ERROR_INVALID_ARGUMENT, "set_elasticity: at (" + place + ") there are " +
                                                                        std::to_string(count) + " unknowns; accepted: one of each component");
        };
        std::vector<std::size_t> firsts;
        for (std::size_t k = 0; k < rows;) {
            std::size_t end = k + 1;
            while (end < rows && at(sorted[end]) == at(sorted[k])) ++end;
            if (end - k != dim) refuse(sorted[k], end - k);
            firsts.push_back(k);
            k = end;
        }
        std::sort(firsts.begin(), firsts.end(), [&](std::size_t k, std::size_t l) { return sorted[k] < sorted[l]; });

        terrace::client::nodes made;
        made.components = dim;
        made.order.assign(rows, -1);
        made.coordinates.resize(rows);
        bool is_in_order = true;
        for (std::size_t node = 0; node < firsts.size(); ++node) {
            for (std::size_t k = firsts[node]; k < firsts[node] + dim; ++k) {
                std::size_t component = 0;
                while (component < dim && !modes[component][static_cast<std::size_t>(sorted[k])]) ++component;
                if (component == dim || made.order[node * dim + component] >= 0) refuse(sorted[k], dim);
                made.order[node * dim + component] = sorted[k];
                is_in_order = is_in_order && static_cast<std::size_t>(sorted[k]) == node * dim + component;
            }
            for (unsigned int d = 0; d < dim; ++d) made.coordinates[node * dim + d] = at(sorted[firsts[node]])[d];
        }
        if (is_in_order) made.order.clear();
        return made;
    }
};

/// The nodes of some constant modes.
inline terrace::client::nodes nodes_of(const std::vector<std::vector<bool>> &modes, std::size_t rows) {
    terrace::client::nodes made;
    if (modes.size() < 2) return made;
    made.components = static_cast<std::int32_t>(modes.size());
    made.order.assign(rows, -1);
    for (std::size_t component = 0; component < modes.size(); ++component) {
        std::size_t node = 0;
        for (std::size_t i = 0; i < modes[component].size(); ++i) {
            if (!modes[component][i]) continue;
            const std::size_t k = node++ * modes.size() + component;
            if (i >= rows || k >= rows)
                terrace::client::refuse(TERRACE_ERROR_SIZE_MISMATCH,
                                        "constant mode " + std::to_string(component) + " has more unknowns than a share of the " +
                                            std::to_string(rows) + " rows; accepted: components with as many unknowns each");
            made.order[k] = static_cast<std::int32_t>(i);
        }
    }
    bool is_in_order = true;
    for (std::size_t k = 0; k < rows; ++k) is_in_order = is_in_order && made.order[k] == static_cast<std::int32_t>(k);
    if (is_in_order) made.order.clear();
    return made;
}

/// What preconditioner and solver have in common; `Engine` is terrace::client::cycle or terrace::client::krylov.
template <class Engine>
class Base : public dealii::Subscriptor {
public:
    using AdditionalData = terrace_dealii::AdditionalData;
    using size_type = dealii::types::global_dof_index;

    /// Sets up for a square matrix, which is copied.
    template <typename number>
    void initialize(const dealii::SparseMatrix<number> &matrix, const AdditionalData &data = AdditionalData()) {
        auto made = std::make_unique<System>(data.device);
        if (!data.preset.empty()) made->load_preset(data.preset);
        if (!data.options.empty()) made->load_json(data.options);
        made->set_nodes(data.nodes.components > 1 ? data.nodes : nodes_of(data.constant_modes, matrix.m()));
        system_ = std::move(made);
        reinit(matrix);
    }

    /// Takes new values over: an update where the pattern is that of the last matrix, else a set-up with the data of initialize().
    template <typename number>
    void reinit(const dealii::SparseMatrix<number> &matrix) {
        if (matrix.m() != matrix.n())
            terrace::client::refuse(TERRACE_ERROR_INVALID_ARGUMENT, "the matrix has " + std::to_string(matrix.m()) + " rows and " +
                                                                        std::to_string(matrix.n()) + " columns");
        system().setup(static_cast<std::int64_t>(matrix.m()), static_cast<std::int64_t>(matrix.n_nonzero_elements()),
                       [&](std::int32_t row, auto &&each) {
                           const auto end = matrix.end(static_cast<size_type>(row));
                           for (auto entry = matrix.begin(static_cast<size_type>(row)); entry != end; ++entry)
                               each(static_cast<std::int32_t>(entry->column()), static_cast<double>(entry->value()));
                       });
    }

    /// Frees what was set up.
    void clear() { system_.reset(); }
    /// Rows and columns; 0 before initialize().
    size_type m() const { return system_ ? static_cast<size_type>(system_->rows()) : 0; }
    size_type n() const { return m(); }
    /// The last initialize() or reinit() was an update.
    bool is_update() const { return system_ && system_->is_update(); }
    /// Levels, sizes, times; of a solver also iterations and residuals. to_text() is a table.
    terrace::report report() const { return system().report(); }

protected:
    using System = terrace::client::system<Engine, double>;

    System &system() const {
        if (!system_) terrace::client::refuse(TERRACE_ERROR_INVALID_ARGUMENT, "initialize() was not called");
        return *system_;
    }
    template <typename number>
    void apply(dealii::Vector<number> &dst, const dealii::Vector<number> &src, terrace_guess guess, bool transposed = false) const {
        if (dst.size() != m() || src.size() != m())
            terrace::client::refuse(TERRACE_ERROR_SIZE_MISMATCH, "the vectors have " + std::to_string(dst.size()) + " and " +
                                                                     std::to_string(src.size()) + " elements; " +
                                                                     std::to_string(m()) + " are needed");
        system().apply(src.begin(), dst.begin(), guess, transposed);
    }

private:
    std::unique_ptr<System> system_;
};

/// One AMG cycle: a preconditioner for SolverCG, SolverGMRES and their siblings. The option "solver.preconditioner": "fsai" makes it FSAI.
class PreconditionAMG : public Base<terrace::client::cycle> {
public:
    /// dst = M src; number is double or float.
    template <typename number>
    void vmult(dealii::Vector<number> &dst, const dealii::Vector<number> &src) const {
        apply(dst, src, TERRACE_ZERO_GUESS);
    }
    /// The same with the preconditioner of the transposed matrix: where the matrix is not symmetric, the first call sets up a second hierarchy.
    template <typename number>
    void Tvmult(dealii::Vector<number> &dst, const dealii::Vector<number> &src) const {
        apply(dst, src, TERRACE_ZERO_GUESS, true);
    }
};

/// A Krylov method of Terrace with AMG: CG, or what the options solver.type, solver.tolerance, solver.max_iterations and others say.
class Solver : public Base<terrace::client::krylov> {
public:
    /// Solves A x = b from x. Throws dealii::SolverControl::NoConvergence, as deal.II's solvers do.
    template <typename number>
    void solve(dealii::Vector<number> &x, const dealii::Vector<number> &b) const {
        solve_from(x, b, TERRACE_GIVEN_GUESS);
    }
    /// dst is the solution of A dst = src, from zero.
    template <typename number>
    void vmult(dealii::Vector<number> &dst, const dealii::Vector<number> &src) const {
        solve_from(dst, src, TERRACE_ZERO_GUESS);
    }
    /// dst is the solution of A^T dst = src, from zero: where the matrix is not symmetric, the first call sets up a second solver.
    template <typename number>
    void Tvmult(dealii::Vector<number> &dst, const dealii::Vector<number> &src) const {
        solve_from(dst, src, TERRACE_ZERO_GUESS, true);
    }
    /// The iterations of the last solve.
    unsigned int last_step() const { return static_cast<unsigned int>(report().get_int("iterations")); }

private:
    template <typename number>
    void solve_from(dealii::Vector<number> &x, const dealii::Vector<number> &b, terrace_guess guess, bool transposed = false) const {
        apply(x, b, guess, transposed);
        if (!system().engine().outcome().ok())
            throw dealii::SolverControl::NoConvergence(last_step(), report().get_real("true_residual"));
    }
};

} // namespace terrace_dealii

#endif
