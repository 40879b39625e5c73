// A cantilever beam of two materials, fixed at one end and pulled down at the other, on one of MFEM's meshes of a beam, with elements of any
// order. The stiffer half weakens from step to step: each step has new values in the old pattern, so that SetOperator is an update. CG of MFEM
// with Terrace, or with what MFEM has itself.
//
//   elasticity [-m mesh] [-o order] [-r refinement factor] [-by-vdim] [-t steps] [-s preconditioner[:tolerance][,...]] [-d device]
//
// Preconditioners: terrace, gauss_seidel, jacobi, chebyshev. CG of MFEM stops by (M r, r), whose meaning depends on M: hence a tolerance for
// each, and the residual that is printed. Times are processor seconds of set-up and solve.
#include <mfem.hpp>
#include <terrace_mfem.hpp>

#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace {

double processor_seconds() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

struct Choice {
    std::string kind, device;
    double tolerance;
    const mfem::FiniteElementSpace *space;
    const mfem::Array<int> *fixed;
    std::unique_ptr<mfem::Solver> made;

    void set_up(const mfem::SparseMatrix &a) {
        if (kind == "chebyshev") {
            mfem::Vector diagonal(a.Height());
            a.GetDiag(diagonal);
            made = std::make_unique<mfem::OperatorChebyshevSmoother>(a, diagonal, *fixed, 4);
            return;
        }
        if (!made && kind == "terrace") {
            auto amg = std::make_unique<terrace_mfem::AMG>(device);
            amg->SetElasticityOptions(space);
            made = std::move(amg);
        } else if (!made && kind == "gauss_seidel") {
            made = std::make_unique<mfem::GSSmoother>();
        } else if (!made && kind == "jacobi") {
            made = std::make_unique<mfem::DSmoother>();
        } else if (!made) {
            throw std::invalid_argument(kind + "; accepted: terrace, gauss_seidel, jacobi, chebyshev");
        }
        made->SetOperator(a);
    }
    const char *way() const {
        const auto *amg = dynamic_cast<const terrace_mfem::AMG *>(made.get());
        return amg && amg->IsUpdate() ? "updated" : "set up";
    }
};

int run(int argc, char **argv) {
    const char *mesh_file = "beam-hex.mesh", *preconditioners = "terrace", *device = "host";
    int order = 1, refine = 4, steps = 1;
    bool by_vdim = false, prints_levels = false;
    mfem::OptionsParser arguments(argc, argv);
    arguments.AddOption(&mesh_file, "-m", "--mesh", "Mesh file.");
    arguments.AddOption(&order, "-o", "--order", "Order of the elements.");
    arguments.AddOption(&refine, "-r", "--refine", "Parts of each edge.");
    arguments.AddOption(&by_vdim, "-by-vdim", "--by-vdim", "-by-nodes", "--by-nodes", "Numbering of the displacements.");
    arguments.AddOption(&steps, "-t", "--steps", "Steps.");
    arguments.AddOption(&preconditioners, "-s", "--solver", "Preconditioners, with commas.");
    arguments.AddOption(&device, "-d", "--device", "Device of Terrace.");
    arguments.AddOption(&prints_levels, "-l", "--levels", "-nl", "--no-levels", "Print the table of levels.");
    arguments.Parse();
    if (!arguments.Good()) {
        arguments.PrintUsage(mfem::out);
        return 1;
    }

    mfem::Mesh coarse(mesh_file, 1, 1);
    mfem::Mesh mesh = mfem::Mesh::MakeRefined(coarse, refine, mfem::BasisType::GaussLobatto);
    const int dim = mesh.Dimension();
    const mfem::H1_FECollection elements(order, dim);
    mfem::FiniteElementSpace space(&mesh, &elements, dim, by_vdim ? mfem::Ordering::byVDIM : mfem::Ordering::byNODES);
    mfem::Array<int> is_fixed(mesh.bdr_attributes.Max()), fixed;
    is_fixed = 0;
    is_fixed[0] = 1;
    space.GetEssentialTrueDofs(is_fixed, fixed);

    mfem::VectorArrayCoefficient force(dim);
    mfem::Vector pull(mesh.bdr_attributes.Max());
    pull = 0.0;
    pull(1) = -1.0e-2;
    force.Set(dim - 1, new mfem::PWConstCoefficient(pull));
    mfem::LinearForm load(&space);
    load.AddBoundaryIntegrator(new mfem::VectorBoundaryLFIntegrator(force));
    load.Assemble();

    mfem::Vector moduli(mesh.attributes.Max());
    moduli = 1.0;
    moduli(0) = 50.0;
    mfem::PWConstCoefficient lambda(moduli), mu(moduli);

    std::vector<Choice> choices;
    std::istringstream names(preconditioners);
    for (std::string name; std::getline(names, name, ',');) {
        const std::size_t colon = name.find(':');
        const double tolerance = colon == std::string::npos ? 1e-8 : std::stod(name.substr(colon + 1));
        choices.push_back({name.substr(0, colon), device, tolerance, &space, &fixed, nullptr});
    }

    for (int step = 0; step < steps; ++step) {
        lambda.UpdateConstants(moduli);
        mu.UpdateConstants(moduli);
        mfem::BilinearForm stiffness(&space);
        stiffness.AddDomainIntegrator(new mfem::ElasticityIntegrator(lambda, mu));
        stiffness.Assemble();
        mfem::GridFunction u(&space);
        u = 0.0;
        mfem::SparseMatrix a;
        mfem::Vector b, x;
        stiffness.FormLinearSystem(fixed, u, load, a, x, b);
        for (Choice &choice : choices) {
            x = 0.0;
            const double begin = processor_seconds();
            choice.set_up(a);
            const double middle = processor_seconds();
            mfem::CGSolver cg;
            cg.SetRelTol(choice.tolerance);
            cg.SetMaxIter(20000);
            // Not SetPreconditioner before SetOperator: that would set up a second time.
            cg.SetOperator(a);
            cg.SetPreconditioner(*choice.made);
            cg.Mult(b, x);
            const double end = processor_seconds();
            stiffness.RecoverFEMSolution(x, load, u);

            mfem::Vector residual(b);
            a.AddMult(x, residual, -1.0);
            std::printf("%s: order %d, %d unknowns, %d iterations, residual %.1e, deflection %.6e, %s, %.2f + %.2f s\n",
                        choice.kind.c_str(), order, a.Height(), cg.GetNumIterations(), residual.Norml2() / b.Norml2(), u.Normlinf(),
                        choice.way(), middle - begin, end - middle);
            std::fflush(stdout);
            const auto *amg = dynamic_cast<const terrace_mfem::AMG *>(choice.made.get());
            if (prints_levels && amg) std::printf("%s", amg->GetReport().to_text().c_str());
        }
        moduli(0) *= 0.8;
    }
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
