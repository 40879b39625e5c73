// terrace_dealii.hpp where programs use it in other ways than the examples: blocks of a BlockSparseMatrix, single precision, wrong sizes and
// elements, calls in the wrong order, a solve that does not converge. Prints nothing when all is well.
#include <deal.II/dofs/dof_handler.h>
#include <deal.II/dofs/dof_renumbering.h>
#include <deal.II/dofs/dof_tools.h>
#include <deal.II/fe/fe_dgq.h>
#include <deal.II/fe/fe_q.h>
#include <deal.II/fe/fe_system.h>
#include <deal.II/grid/grid_generator.h>
#include <deal.II/grid/tria.h>
#include <deal.II/lac/block_sparse_matrix.h>
#include <deal.II/lac/block_vector.h>
#include <deal.II/lac/dynamic_sparsity_pattern.h>
#include <deal.II/lac/precondition.h>
#include <deal.II/lac/solver_cg.h>
#include <deal.II/lac/solver_gmres.h>
#include <deal.II/lac/sparse_matrix.h>
#include <terrace_dealii.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace dealii;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

template <class Call>
void refuses(Call &&call, const std::string &part) {
    try {
        call();
    } catch (const terrace::error &error) {
        if (std::string(error.what()).find(part) == std::string::npos) std::printf("%s instead of %s\n", error.what(), part.c_str());
        return;
    }
    std::printf("not refused: %s\n", part.c_str());
}

// The 5-point Laplacian.
template <typename Matrix>
void fill(Matrix &a, unsigned int n) {
    for (unsigned int i = 0; i < n * n; ++i) {
        a.set(i, i, 4.0);
        if (i % n > 0) a.set(i, i - 1, -1.0);
        if (i % n < n - 1) a.set(i, i + 1, -1.0);
        if (i >= n) a.set(i, i - n, -1.0);
        if (i < n * (n - 1)) a.set(i, i + n, -1.0);
    }
}

void add_pattern(DynamicSparsityPattern &pattern, unsigned int n) {
    for (unsigned int i = 0; i < n * n; ++i) {
        pattern.add(i, i);
        if (i % n > 0) pattern.add(i, i - 1);
        if (i % n < n - 1) pattern.add(i, i + 1);
        if (i >= n) pattern.add(i, i - n);
        if (i < n * (n - 1)) pattern.add(i, i + n);
    }
}

constexpr unsigned int n = 40;

// A preconditioner of two blocks, one of them Terrace's.
struct BlockDiagonal {
    const terrace_dealii::PreconditionAMG &first;
    void vmult(BlockVector<double> &dst, const BlockVector<double> &src) const {
        first.vmult(dst.block(0), src.block(0));
        dst.block(1) = src.block(1);
        dst.block(1) *= 0.5;
    }
};

void a_block_of_a_block_matrix() {
    BlockDynamicSparsityPattern dynamic(2, 2);
    for (unsigned int r = 0; r < 2; ++r)
        for (unsigned int c = 0; c < 2; ++c) dynamic.block(r, c).reinit(r == 0 ? n * n : 3, c == 0 ? n * n : 3);
    dynamic.collect_sizes();
    add_pattern(dynamic.block(0, 0), n);
    for (unsigned int i = 0; i < 3; ++i) dynamic.block(1, 1).add(i, i);
    BlockSparsityPattern pattern;
    pattern.copy_from(dynamic);
    BlockSparseMatrix<double> a(pattern);
    fill(a.block(0, 0), n);
    for (unsigned int i = 0; i < 3; ++i) a.block(1, 1).set(i, i, 2.0);

    terrace_dealii::PreconditionAMG amg;
    amg.initialize(a.block(0, 0));
    CHECK(amg.m() == n * n && amg.n() == n * n);
    BlockVector<double> x(std::vector<types::global_dof_index>{n * n, 3}), b(std::vector<types::global_dof_index>{n * n, 3});
    b = 1.0;
    SolverControl control(100, 1e-8);
    SolverCG<BlockVector<double>>(control).solve(a, x, b, BlockDiagonal{amg});
    CHECK(control.last_step() <= 20);
}

// The transposed systems of a matrix that is not symmetric.
struct Transpose {
    const SparseMatrix<double> &a;
    const terrace_dealii::PreconditionAMG *amg;
    void vmult(Vector<double> &dst, const Vector<double> &src) const { amg ? amg->Tvmult(dst, src) : a.Tvmult(dst, src); }
};

void transposes_are_applied() {
    DynamicSparsityPattern dynamic(n * n);
    add_pattern(dynamic, n);
    SparsityPattern pattern;
    pattern.copy_from(dynamic);
    SparseMatrix<double> a(pattern);
    fill(a, n);
    for (unsigned int i = 0; i < n * n; ++i) {
        a.set(i, i, 4.5);
        if (i % n > 0) a.set(i, i - 1, -1.5);
    }
    Vector<double> x(n * n), b(n * n), r(n * n);
    b = 1.0;
    const auto residual = [&] {
        a.Tvmult(r, x);
        r -= b;
        return r.l2_norm() / b.l2_norm();
    };
    terrace_dealii::PreconditionAMG amg;
    amg.initialize(a);
    SolverControl control(60, 1e-8 * b.l2_norm());
    SolverGMRES<Vector<double>>(control).solve(Transpose{a, nullptr}, x, b, Transpose{a, &amg});
    CHECK(control.last_step() <= 25 && residual() < 1e-5);
    terrace_dealii::AdditionalData data;
    data.options = "{\"solver.tolerance\": 1e-10, \"solver.type\": \"gmres\"}";
    terrace_dealii::Solver solver;
    solver.initialize(a, data);
    solver.Tvmult(x, b);
    CHECK(residual() < 1e-9);
}

void single_precision_and_wrong_calls() {
    DynamicSparsityPattern dynamic(n * n);
    add_pattern(dynamic, n);
    SparsityPattern pattern;
    pattern.copy_from(dynamic);
    SparseMatrix<float> a(pattern);
    fill(a, n);

    terrace_dealii::PreconditionAMG amg;
    Vector<float> x(n * n), b(n * n);
    b = 1.0f;
    CHECK(amg.m() == 0 && !amg.is_update());
    refuses([&] { amg.vmult(x, b); }, "the vectors have 1600 and 1600 elements; 0 are needed");
    refuses([&] { amg.reinit(a); }, "initialize() was not called");
    amg.initialize(a);
    SolverControl control(100, 1e-3);
    SolverCG<Vector<float>>(control).solve(a, x, b, amg);
    CHECK(control.last_step() <= 20);
    a *= 2.0f;
    amg.reinit(a);
    CHECK(amg.is_update());
    Vector<float> few(3);
    refuses([&] { amg.vmult(few, b); }, "the vectors have 3 and 1600 elements; 1600 are needed");
    amg.clear();
    refuses([&] { amg.report(); }, "initialize() was not called");

    terrace_dealii::AdditionalData data;
    data.options = "{\"solver.tolerance\": 1e-3}";
    refuses([&] { amg.initialize(a, data); }, "the Krylov method is the program's");
    data.options = "{\"solver.tolerance\": 1e-12, \"solver.max_iterations\": 2}";
    data.device = "host:1";
    terrace_dealii::Solver solver;
    solver.initialize(a, data);
    Vector<double> y(n * n), c(n * n);
    c = 1.0;
    bool is_told = false;
    try {
        solver.solve(y, c);
    } catch (const SolverControl::NoConvergence &stopped) {
        is_told = stopped.last_step == 2 && stopped.last_residual > 1e-12;
    }
    CHECK(is_told);
    data.options = "";
    data.constant_modes = {std::vector<bool>(n * n, true), std::vector<bool>(n * n, true)};
    refuses([&] { amg.initialize(a, data); }, "constant mode 0 has more unknowns than a share of the 1600 rows");
}

void elements_without_nodes() {
    Triangulation<2> mesh;
    GridGenerator::subdivided_hyper_cube(mesh, 3);
    terrace_dealii::AdditionalData data;
    DoFHandler<2> scalar(mesh), discontinuous(mesh), nodal(mesh);
    scalar.distribute_dofs(FE_Q<2>(1));
    refuses([&] { data.set_elasticity(scalar); }, "the element has 1 components in 2 dimensions");
    discontinuous.distribute_dofs(FESystem<2>(FE_DGQ<2>(1), 2));
    refuses([&] { data.set_elasticity(discontinuous); }, "there are 4 unknowns; accepted: one of each component");
    nodal.distribute_dofs(FESystem<2>(FE_Q<2>(3), 2));
    data.set_elasticity(nodal);
    CHECK(data.nodes.components == 2 && data.nodes.order.size() == nodal.n_dofs() && data.nodes.coordinates.size() == nodal.n_dofs());
}

} // namespace

int main() {
    try {
        a_block_of_a_block_matrix();
        transposes_are_applied();
        single_precision_and_wrong_calls();
        elements_without_nodes();
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
        return 1;
    }
    return 0;
}
