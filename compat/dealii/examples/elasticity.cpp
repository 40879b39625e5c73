// Linear elasticity: a bar of two materials, fixed at one end, under its own weight, with elements of any order. One half of the bar
// weakens from step to step: each step has new values in the old pattern, so that reinit() is an update. CG of deal.II with Terrace,
// which is told the rigid-body modes (`elasticity`), the constant modes (`constants`) or nothing (`nothing`), or with deal.II's SSOR.
//
//   elasticity [dimension [order [cells across [elasticity | constants | nothing | ssor [numbering]]]]]
//
// Numbering: default, component_wise or random.
#include <deal.II/base/function.h>
#include <deal.II/base/quadrature_lib.h>
#include <deal.II/dofs/dof_handler.h>
#include <deal.II/dofs/dof_renumbering.h>
#include <deal.II/dofs/dof_tools.h>
#include <deal.II/fe/fe_q.h>
#include <deal.II/fe/fe_system.h>
#include <deal.II/fe/fe_values.h>
#include <deal.II/grid/grid_generator.h>
#include <deal.II/grid/tria.h>
#include <deal.II/lac/affine_constraints.h>
#include <deal.II/lac/dynamic_sparsity_pattern.h>
#include <deal.II/lac/full_matrix.h>
#include <deal.II/lac/precondition.h>
#include <deal.II/lac/solver_cg.h>
#include <deal.II/lac/sparse_matrix.h>
#include <deal.II/lac/vector.h>
#include <deal.II/numerics/vector_tools_boundary.h>
#include <terrace_dealii.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

using namespace dealii;

namespace {

template <int dim>
class Bar {
public:
    Bar(unsigned int order, unsigned int across) : elements_(FE_Q<dim>(order), dim), dofs_(mesh_) {
        std::vector<unsigned int> cells(dim, across);
        cells[0] = 4 * across;
        Point<dim> end;
        for (unsigned int d = 0; d < dim; ++d) end[d] = d == 0 ? 4.0 : 1.0;
        GridGenerator::subdivided_hyper_rectangle(mesh_, cells, Point<dim>(), end, true);
    }

    void run(const std::string &kind, const std::string &numbering) {
        dofs_.distribute_dofs(elements_);
        if (numbering == "component_wise")
            DoFRenumbering::component_wise(dofs_);
        else if (numbering == "random")
            DoFRenumbering::random(dofs_);
        else if (numbering != "default")
            throw std::invalid_argument(numbering + "; accepted: default, component_wise, random");
        VectorTools::interpolate_boundary_values(dofs_, 0, Functions::ZeroFunction<dim>(dim), constraints_);
        constraints_.close();
        DynamicSparsityPattern dynamic(dofs_.n_dofs());
        DoFTools::make_sparsity_pattern(dofs_, dynamic, constraints_, false);
        pattern_.copy_from(dynamic);
        matrix_.reinit(pattern_);
        rhs_.reinit(dofs_.n_dofs());
        solution_.reinit(dofs_.n_dofs());

        double modulus = 50.0;
        for (int step = 0; step < 3; ++step, modulus *= 0.8) {
            assemble(modulus);
            solve(kind);
        }
    }

private:
    void assemble(double modulus) {
        matrix_ = 0;
        rhs_ = 0;
        const QGauss<dim> quadrature(elements_.degree + 1);
        FEValues<dim> values(elements_, quadrature, update_values | update_gradients | update_JxW_values);
        const unsigned int n = elements_.n_dofs_per_cell();
        FullMatrix<double> cell_matrix(n, n);
        Vector<double> cell_rhs(n);
        std::vector<types::global_dof_index> indices(n);
        for (const auto &cell : dofs_.active_cell_iterators()) {
            values.reinit(cell);
            const double e = cell->center()[0] < 2.0 ? modulus : 1.0;
            cell_matrix = 0;
            cell_rhs = 0;
            for (unsigned int i = 0; i < n; ++i) {
                const unsigned int ci = elements_.system_to_component_index(i).first;
                for (unsigned int j = 0; j < n; ++j) {
                    const unsigned int cj = elements_.system_to_component_index(j).first;
                    for (const unsigned int q : values.quadrature_point_indices()) {
                        const Tensor<1, dim> &gi = values.shape_grad(i, q), &gj = values.shape_grad(j, q);
                        // lambda = mu = e: lambda div div + mu (grad : grad + grad : grad^T).
                        cell_matrix(i, j) += e * (gi[ci] * gj[cj] + gi[cj] * gj[ci] + (ci == cj ? gi * gj : 0.0)) * values.JxW(q);
                    }
                }
                for (const unsigned int q : values.quadrature_point_indices())
                    if (ci == dim - 1) cell_rhs(i) -= 1e-3 * values.shape_value(i, q) * values.JxW(q);
            }
            cell->get_dof_indices(indices);
            constraints_.distribute_local_to_global(cell_matrix, cell_rhs, indices, matrix_, rhs_);
        }
    }

    void solve(const std::string &kind) {
        SolverControl control(20000, 1e-8 * rhs_.l2_norm());
        SolverCG<Vector<double>> cg(control);
        solution_ = 0;
        if (kind == "ssor") {
            PreconditionSSOR<SparseMatrix<double>> ssor;
            ssor.initialize(matrix_, 1.2);
            cg.solve(matrix_, solution_, rhs_, ssor);
        } else {
            if (amg_.m() == 0) {
                terrace_dealii::AdditionalData data;
                if (kind == "elasticity")
                    data.set_elasticity(dofs_);
                else if (kind == "constants")
                    DoFTools::extract_constant_modes(dofs_, ComponentMask(), data.constant_modes);
                else if (kind != "nothing")
                    throw std::invalid_argument(kind + "; accepted: elasticity, constants, nothing, ssor");
                amg_.initialize(matrix_, data);
            } else {
                amg_.reinit(matrix_);
            }
            cg.solve(matrix_, solution_, rhs_, amg_);
        }
        Vector<double> residual(rhs_.size());
        matrix_.residual(residual, solution_, rhs_);
        constraints_.distribute(solution_);
        std::printf("%s: %ud, order %u, %u unknowns, %u iterations, residual %.1e, deflection %.6e, %s\n", kind.c_str(),
                    static_cast<unsigned>(dim), static_cast<unsigned>(elements_.degree), static_cast<unsigned>(dofs_.n_dofs()),
                    control.last_step(), residual.l2_norm() / rhs_.l2_norm(), solution_.linfty_norm(),
                    amg_.is_update() ? "updated" : "set up");
    }

    Triangulation<dim> mesh_;
    FESystem<dim> elements_;
    DoFHandler<dim> dofs_;
    AffineConstraints<double> constraints_;
    SparsityPattern pattern_;
    SparseMatrix<double> matrix_;
    Vector<double> solution_, rhs_;
    terrace_dealii::PreconditionAMG amg_;
};

} // namespace

int main(int argc, char **argv) {
    const int dimension = argc > 1 ? std::atoi(argv[1]) : 3, order = argc > 2 ? std::atoi(argv[2]) : 1;
    const int across = argc > 3 ? std::atoi(argv[3]) : 6;
    const std::string kind = argc > 4 ? argv[4] : "elasticity", numbering = argc > 5 ? argv[5] : "default";
    if ((dimension != 2 && dimension != 3) || order < 1 || order > 8 || across < 1) {
        std::fprintf(stderr, "dimension is 2 or 3, order 1 to 8, cells at least 1\n");
        return EXIT_FAILURE;
    }
    try {
        if (dimension == 2)
            Bar<2>(static_cast<unsigned>(order), static_cast<unsigned>(across)).run(kind, numbering);
        else
            Bar<3>(static_cast<unsigned>(order), static_cast<unsigned>(across)).run(kind, numbering);
        return EXIT_SUCCESS;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
