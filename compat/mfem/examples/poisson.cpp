// -div(grad u) = 1 with u = 0 on the boundary, on one of MFEM's meshes, with elements of any order: CG of MFEM with a cycle of Terrace as
// preconditioner, Terrace's own solver, or CG with MFEM's Gauss-Seidel smoother.
//
//   poisson [-m mesh] [-o order] [-r refinement factor] [-s terrace | solver | gauss_seidel] [-p preset] [-d device]
#include <mfem.hpp>
#include <terrace_mfem.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace {

int run(int argc, char **argv) {
    const char *mesh_file = "star.mesh", *solver = "terrace", *device = "host", *preset = "";
    int order = 1, refine = 8;
    mfem::OptionsParser arguments(argc, argv);
    arguments.AddOption(&mesh_file, "-m", "--mesh", "Mesh file.");
    arguments.AddOption(&order, "-o", "--order", "Order of the elements.");
    arguments.AddOption(&refine, "-r", "--refine", "Parts of each edge.");
    arguments.AddOption(&solver, "-s", "--solver", "terrace, solver or gauss_seidel.");
    arguments.AddOption(&preset, "-p", "--preset", "Preset of Terrace.");
    arguments.AddOption(&device, "-d", "--device", "Device of Terrace.");
    arguments.Parse();
    if (!arguments.Good()) {
        arguments.PrintUsage(mfem::out);
        return 1;
    }

    mfem::Mesh coarse(mesh_file, 1, 1);
    mfem::Mesh mesh = mfem::Mesh::MakeRefined(coarse, refine, mfem::BasisType::GaussLobatto);
    const mfem::H1_FECollection elements(order, mesh.Dimension());
    mfem::FiniteElementSpace space(&mesh, &elements);
    mfem::Array<int> is_fixed(mesh.bdr_attributes.Max()), fixed;
    is_fixed = 1;
    space.GetEssentialTrueDofs(is_fixed, fixed);

    mfem::ConstantCoefficient one(1.0);
    mfem::LinearForm load(&space);
    load.AddDomainIntegrator(new mfem::DomainLFIntegrator(one));
    load.Assemble();
    mfem::BilinearForm stiffness(&space);
    stiffness.AddDomainIntegrator(new mfem::DiffusionIntegrator(one));
    stiffness.Assemble();
    mfem::GridFunction u(&space);
    u = 0.0;
    mfem::SparseMatrix a;
    mfem::Vector b, x;
    stiffness.FormLinearSystem(fixed, u, load, a, x, b);

    const std::string kind = solver;
    int iterations = 0;
    if (kind == "solver") {
        terrace_mfem::Solver direct(device);
        if (*preset) direct.SetPreset(preset);
        direct.SetOption("solver.tolerance", "1e-10");
        direct.SetOperator(a);
        direct.Mult(b, x);
        iterations = direct.GetNumIterations();
    } else {
        std::unique_ptr<mfem::Solver> preconditioner;
        if (kind == "terrace") {
            auto amg = std::make_unique<terrace_mfem::AMG>(device);
            if (*preset) amg->SetPreset(preset);
            preconditioner = std::move(amg);
        } else if (kind == "gauss_seidel") {
            preconditioner = std::make_unique<mfem::GSSmoother>();
        } else {
            return std::fprintf(stderr, "solver %s; accepted: terrace, solver, gauss_seidel\n", solver), 1;
        }
        mfem::CGSolver cg;
        cg.SetRelTol(1e-10);
        cg.SetMaxIter(10000);
        // CG hands the matrix on to its preconditioner.
        cg.SetPreconditioner(*preconditioner);
        cg.SetOperator(a);
        cg.Mult(b, x);
        iterations = cg.GetNumIterations();
    }
    stiffness.RecoverFEMSolution(x, load, u);

    mfem::Vector residual(b);
    a.AddMult(x, residual, -1.0);
    mfem::LinearForm integral(&space);
    integral.AddDomainIntegrator(new mfem::DomainLFIntegrator(one));
    integral.Assemble();
    std::printf("%s: order %d, %d unknowns, %d iterations, residual %.1e, integral %.8e\n", solver, order, a.Height(), iterations,
                residual.Norml2() / b.Norml2(), integral(u));
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
