// terrace_mfem.hpp where programs use it in other ways than the examples: wrong operators, sizes and spaces, meshes with hanging nodes, systems
// whose components do not couple, iterative mode, a device of MFEM. Prints nothing when all is well.
//
//   misuse FOLDER      the folder with MFEM's meshes
#include <mfem.hpp>
#include <terrace_mfem.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

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

// A vector problem on a mesh: elasticity, or the Laplacian of each component.
struct Problem {
    mfem::Mesh mesh;
    mfem::H1_FECollection elements;
    mfem::FiniteElementSpace space;
    mfem::Array<int> fixed;
    mfem::BilinearForm stiffness;
    mfem::SparseMatrix a;
    mfem::ConstantCoefficient one{1.0};

    Problem(const std::string &file, int order, bool is_elastic, bool hangs)
        : mesh(file.c_str(), 1, 1), elements(order, mesh.Dimension()), space(refined(mesh, hangs), &elements, mesh.Dimension()),
          stiffness(&space) {
        mfem::Array<int> is_fixed(mesh.bdr_attributes.Max());
        is_fixed = 0;
        is_fixed[0] = 1;
        space.GetEssentialTrueDofs(is_fixed, fixed);
        if (is_elastic)
            stiffness.AddDomainIntegrator(new mfem::ElasticityIntegrator(one, one));
        else
            stiffness.AddDomainIntegrator(new mfem::VectorDiffusionIntegrator(one));
        stiffness.Assemble();
        stiffness.FormSystemMatrix(fixed, a);
    }
    static mfem::Mesh *refined(mfem::Mesh &mesh, bool hangs) {
        mesh.UniformRefinement();
        if (hangs) {
            mesh.EnsureNCMesh();
            mesh.RandomRefinement(0.4);
        }
        mesh.UniformRefinement();
        return &mesh;
    }
    int iterations(mfem::Solver &preconditioner) {
        mfem::Vector b(a.Height()), x(a.Height());
        b = 1.0;
        x = 0.0;
        mfem::CGSolver cg;
        cg.SetRelTol(1e-8);
        cg.SetMaxIter(500);
        cg.SetPreconditioner(preconditioner);
        cg.SetOperator(a);
        cg.Mult(b, x);
        CHECK(cg.GetConverged());
        return cg.GetNumIterations();
    }
};

void wrong_operators_and_sizes(const std::string &folder) {
    Problem beam(folder + "/beam-tri.mesh", 1, true, false);
    terrace_mfem::AMG amg("host:1");
    mfem::Vector x(3), y(3);
    refuses([&] { amg.GetReport(); }, "there is no matrix");
    refuses([&] { amg.SetOperator(mfem::IdentityOperator(3)); }, "the operator is no mfem::SparseMatrix");
    refuses([&] { amg.SetOperator(mfem::SparseMatrix(3, 3)); }, "is not finalized");
    mfem::SparseMatrix wide(2, 3);
    wide.Finalize();
    refuses([&] { amg.SetOperator(wide); }, "2 rows and 3 columns");
    amg.SetOperator(beam.a);
    refuses([&] { amg.Mult(x, y); }, "the vectors have 3 and 3 elements; " + std::to_string(beam.a.Height()) + " are needed");
    refuses([&] { amg.SetOption("solver.tolerance", "1e-3"); }, "the Krylov method is the program's");
    refuses([&] { amg.SetPreset("elastic"); }, "elasticity");
    // Another matrix with the same object; then a space that is not its own.
    Problem other(folder + "/beam-tet.mesh", 1, true, false);
    amg.SetElasticityOptions(&other.space);
    amg.SetOperator(other.a);
    refuses([&] { amg.SetOperator(beam.a); }, "SetElasticityOptions: the space has");
    mfem::FiniteElementSpace scalar(&beam.mesh, &beam.elements);
    amg.SetElasticityOptions(&scalar);
    refuses([&] { amg.SetOperator(beam.a); }, "in 1 components");
}

void rigid_body_modes_pay(const std::string &folder) {
    for (const bool hangs : {false, true}) {
        Problem beam(folder + "/beam-quad.mesh", 2, true, hangs);
        CHECK(!hangs || beam.space.GetTrueVSize() < beam.space.GetVSize());
        terrace_mfem::AMG plain("host:1"), systems("host:1"), elastic("host:1");
        systems.SetSystemsOptions(2, true);
        elastic.SetElasticityOptions(&beam.space);
        const int without = beam.iterations(plain), constants = beam.iterations(systems), with = beam.iterations(elastic);
        CHECK(with <= 40 && with < constants && constants < without);
    }
}

void components_that_do_not_couple(const std::string &folder) {
    Problem beam(folder + "/beam-hex.mesh", 1, false, false);
    terrace_mfem::AMG systems("host:1");
    systems.SetSystemsOptions(3, true);
    CHECK(beam.iterations(systems) <= 25);
}

void iterative_mode_starts_from_y(const std::string &folder) {
    Problem beam(folder + "/beam-quad.mesh", 1, true, false);
    mfem::Vector b(beam.a.Height()), x(beam.a.Height()), twice(beam.a.Height());
    b = 1.0;
    terrace_mfem::AMG amg("host:1");
    amg.SetElasticityOptions(&beam.space);
    amg.SetOperator(beam.a);
    const auto residual = [&](const mfem::Vector &at) {
        mfem::Vector r(b);
        beam.a.AddMult(at, r, -1.0);
        return r.Norml2();
    };
    amg.Mult(b, x);
    twice = x;
    amg.iterative_mode = true;
    for (int k = 0; k < 20; ++k) amg.Mult(b, twice);
    CHECK(residual(twice) < 0.1 * residual(x));

    terrace_mfem::Solver solver("host:1");
    solver.SetElasticityOptions(&beam.space);
    solver.SetJSON("{\"solver\": {\"tolerance\": 1e-9, \"max_iterations\": 3}}");
    solver.SetOperator(beam.a);
    x = 0.0;
    solver.Mult(b, x);
    CHECK(!solver.GetConverged() && solver.GetNumIterations() == 3);
    solver.iterative_mode = true;
    for (int k = 0; k < 100 && !solver.GetConverged(); ++k) solver.Mult(b, x);
    CHECK(solver.GetConverged() && residual(x) < 1e-8 * b.Norml2());
}

// The transpose of a matrix that is not symmetric.
void transposes_are_applied(const std::string &folder) {
    Problem beam(folder + "/beam-quad.mesh", 1, true, false);
    mfem::SparseMatrix a(beam.a);
    double *values = a.HostReadWriteData();
    for (int row = 0; row < a.Height(); ++row)
        for (int k = a.GetI()[row]; k < a.GetI()[row + 1]; ++k)
            if (a.GetJ()[k] > row) values[k] *= 0.9;
    mfem::Vector b(a.Height()), x(a.Height()), r(a.Height());
    b = 1.0;
    const auto residual = [&] {
        r = b;
        a.AddMultTranspose(x, r, -1.0);
        return r.Norml2() / b.Norml2();
    };
    terrace_mfem::Solver solver("host:1");
    solver.SetElasticityOptions(&beam.space);
    solver.SetJSON("{\"solver\": {\"tolerance\": 1e-10, \"type\": \"gmres\"}}");
    solver.SetOperator(a);
    x = 0.0;
    solver.MultTranspose(b, x);
    CHECK(solver.GetConverged() && residual() < 1e-9);
    terrace_mfem::AMG amg("host:1");
    amg.SetElasticityOptions(&beam.space);
    amg.SetOperator(a);
    x = 0.0;
    mfem::GMRESSolver gmres;
    mfem::TransposeOperator transpose(a);
    gmres.SetRelTol(1e-8);
    gmres.SetMaxIter(60);
    gmres.SetOperator(transpose);
    struct Preconditioner : mfem::Solver {
        const terrace_mfem::AMG &amg;
        explicit Preconditioner(const terrace_mfem::AMG &of) : mfem::Solver(of.Height()), amg(of) {}
        void SetOperator(const mfem::Operator &) override {}
        void Mult(const mfem::Vector &from, mfem::Vector &to) const override { amg.MultTranspose(from, to); }
    } by_transpose(amg);
    gmres.SetPreconditioner(by_transpose);
    gmres.Mult(b, x);
    CHECK(gmres.GetConverged() && residual() < 1e-5);
    // From y on in iterative mode.
    const double before = residual();
    amg.iterative_mode = true;
    for (int k = 0; k < 10; ++k) amg.MultTranspose(b, x);
    CHECK(residual() < before);
}

// Vectors in the memory of a device of MFEM's, which is only pretended: touching that memory as the host's is a fault.
void vectors_come_from_a_device(const std::string &folder) {
    mfem::Device device("debug");
    Problem beam(folder + "/beam-quad.mesh", 1, true, false);
    terrace_mfem::AMG amg("host:1");
    amg.SetElasticityOptions(&beam.space);
    CHECK(beam.iterations(amg) <= 40);
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const std::string folder = argv[1];
    try {
        wrong_operators_and_sizes(folder);
        rigid_body_modes_pay(folder);
        components_that_do_not_couple(folder);
        iterative_mode_starts_from_y(folder);
        transposes_are_applied(folder);
        vectors_come_from_a_device(folder);
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
        return 1;
    }
    return 0;
}
