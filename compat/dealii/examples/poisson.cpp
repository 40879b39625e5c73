// -div(k grad u) = 1 with u = 0 on the boundary of the unit square or cube, with elements of any order and meshes that are refined where the
// solution bends: CG of deal.II with a cycle of Terrace as preconditioner, Terrace's own solver, or CG with deal.II's SSOR. With a wind
// the matrix is not symmetric, and the method is GMRES.
//
//   poisson [dimension [order [cells along an edge [terrace | solver | ssor [wind]]]]]
#include <deal.II/base/function.h>
#include <deal.II/base/quadrature_lib.h>
#include <deal.II/dofs/dof_handler.h>
#include <deal.II/dofs/dof_tools.h>
#include <deal.II/fe/fe_q.h>
#include <deal.II/fe/fe_values.h>
#include <deal.II/grid/grid_generator.h>
#include <deal.II/grid/grid_refinement.h>
#include <deal.II/grid/tria.h>
#include <deal.II/lac/affine_constraints.h>
#include <deal.II/lac/dynamic_sparsity_pattern.h>
#include <deal.II/lac/full_matrix.h>
#include <deal.II/lac/precondition.h>
#include <deal.II/lac/solver_cg.h>
#include <deal.II/lac/solver_gmres.h>
#include <deal.II/lac/sparse_matrix.h>
#include <deal.II/lac/vector.h>
#include <deal.II/numerics/error_estimator.h>
#include <deal.II/numerics/vector_tools_boundary.h>
#include <terrace_dealii.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using namespace dealii;

namespace {

template <int dim>
class Poisson {
public:
    Poisson(unsigned int order, unsigned int cells, double wind) : elements_(order), dofs_(mesh_), wind_(wind) {
        GridGenerator::subdivided_hyper_cube(mesh_, cells);
    }
    void run(const std::string &kind) {
        for (int step = 0; step < 2; ++step) {
            if (step > 0) refine();
            assemble();
            solve(kind);
        }
    }

private:
    void refine() {
        Vector<float> indicator(mesh_.n_active_cells());
        KellyErrorEstimator<dim>::estimate(dofs_, QGauss<dim - 1>(elements_.degree + 1), std::map<types::boundary_id, const Function<dim> *>(),
                                           solution_, indicator);
        GridRefinement::refine_and_coarsen_fixed_number(mesh_, indicator, 0.3, 0.0);
        mesh_.execute_coarsening_and_refinement();
    }

    void assemble() {
        dofs_.distribute_dofs(elements_);
        constraints_.clear();
        DoFTools::make_hanging_node_constraints(dofs_, constraints_);
        VectorTools::interpolate_boundary_values(dofs_, 0, Functions::ZeroFunction<dim>(), constraints_);
        constraints_.close();
        DynamicSparsityPattern dynamic(dofs_.n_dofs());
        DoFTools::make_sparsity_pattern(dofs_, dynamic, constraints_, false);
        matrix_.clear();
        pattern_.copy_from(dynamic);
        matrix_.reinit(pattern_);
        rhs_.reinit(dofs_.n_dofs());
        solution_.reinit(dofs_.n_dofs());

        const QGauss<dim> quadrature(elements_.degree + 1);
        FEValues<dim> values(elements_, quadrature, update_values | update_gradients | update_quadrature_points | update_JxW_values);
        const unsigned int n = elements_.n_dofs_per_cell();
        FullMatrix<double> cell_matrix(n, n);
        Vector<double> cell_rhs(n);
        std::vector<types::global_dof_index> indices(n);
        Tensor<1, dim> wind;
        wind[0] = wind_;
        for (const auto &cell : dofs_.active_cell_iterators()) {
            values.reinit(cell);
            cell_matrix = 0;
            cell_rhs = 0;
            for (const unsigned int q : values.quadrature_point_indices()) {
                const double k = values.quadrature_point(q)[0] < 0.5 ? 1.0 : 100.0;
                for (unsigned int i = 0; i < n; ++i) {
                    for (unsigned int j = 0; j < n; ++j)
                        cell_matrix(i, j) += (k * values.shape_grad(i, q) * values.shape_grad(j, q) +
                                              values.shape_value(i, q) * (wind * values.shape_grad(j, q))) *
                                             values.JxW(q);
                    cell_rhs(i) += values.shape_value(i, q) * values.JxW(q);
                }
            }
            cell->get_dof_indices(indices);
            constraints_.distribute_local_to_global(cell_matrix, cell_rhs, indices, matrix_, rhs_);
        }
    }

    template <class Preconditioner>
    unsigned int iterate(const Preconditioner &preconditioner) {
        SolverControl control(10000, 1e-10 * rhs_.l2_norm());
        if (wind_ == 0)
            SolverCG<Vector<double>>(control).solve(matrix_, solution_, rhs_, preconditioner);
        else
            SolverGMRES<Vector<double>>(control, SolverGMRES<Vector<double>>::AdditionalData(50, true)).solve(matrix_, solution_, rhs_, preconditioner);
        return control.last_step();
    }

    void solve(const std::string &kind) {
        unsigned int iterations = 0;
        if (kind == "terrace") {
            terrace_dealii::PreconditionAMG amg;
            amg.initialize(matrix_);
            iterations = iterate(amg);
        } else if (kind == "solver") {
            terrace_dealii::AdditionalData data;
            data.options = "{\"solver.tolerance\": 1e-10}";
            terrace_dealii::Solver solver;
            solver.initialize(matrix_, data);
            solver.solve(solution_, rhs_);
            iterations = solver.last_step();
        } else if (kind == "ssor") {
            PreconditionSSOR<SparseMatrix<double>> ssor;
            ssor.initialize(matrix_, 1.2);
            iterations = iterate(ssor);
        } else {
            throw std::invalid_argument(kind + "; accepted: terrace, solver, ssor");
        }
        Vector<double> residual(rhs_.size());
        matrix_.residual(residual, solution_, rhs_);
        const double energy = solution_ * rhs_;
        constraints_.distribute(solution_);
        std::printf("%s: %ud, order %u, %u unknowns, %u iterations, residual %.1e, energy %.8e\n", kind.c_str(), static_cast<unsigned>(dim),
                    static_cast<unsigned>(elements_.degree), static_cast<unsigned>(dofs_.n_dofs()), iterations,
                    residual.l2_norm() / rhs_.l2_norm(), energy);
    }

    Triangulation<dim> mesh_;
    FE_Q<dim> elements_;
    DoFHandler<dim> dofs_;
    AffineConstraints<double> constraints_;
    SparsityPattern pattern_;
    SparseMatrix<double> matrix_;
    Vector<double> solution_, rhs_;
    double wind_;
};

} // namespace

int main(int argc, char **argv) {
    const int dimension = argc > 1 ? std::atoi(argv[1]) : 2, order = argc > 2 ? std::atoi(argv[2]) : 1;
    const int cells = argc > 3 ? std::atoi(argv[3]) : 16;
    const std::string kind = argc > 4 ? argv[4] : "terrace";
    const double wind = argc > 5 ? std::atof(argv[5]) : 0.0;
    if ((dimension != 2 && dimension != 3) || order < 1 || order > 8 || cells < 1) {
        std::fprintf(stderr, "dimension is 2 or 3, order 1 to 8, cells at least 1\n");
        return EXIT_FAILURE;
    }
    try {
        if (dimension == 2)
            Poisson<2>(static_cast<unsigned>(order), static_cast<unsigned>(cells), wind).run(kind);
        else
            Poisson<3>(static_cast<unsigned>(order), static_cast<unsigned>(cells), wind).run(kind);
        return EXIT_SUCCESS;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
