// terrace_mfem.hpp: Terrace for programs that use MFEM (4.7 or newer, serial): preconditioner and solver for an mfem::SparseMatrix. Header
// only, C++17; link with -lterrace.
//
//     terrace_mfem::AMG amg(A);                    // instead of GSSmoother M(A)
//     PCG(A, amg, B, X, 1, 200, 1e-12, 0.0);
//
// Displacements: amg.SetElasticityOptions(&fespace) before SetOperator. A second SetOperator with the same pattern is an update. Errors are
// thrown as terrace::error. docs/migrating.md has the rest.
#ifndef TERRACE_MFEM_HPP
#define TERRACE_MFEM_HPP

#include "terrace_client.hpp"

#include <mfem.hpp>

#include <cstdint>
#include <string>

namespace terrace_mfem {

/// Whether MFEM computes on the kind of GPU that a device of Terrace's is.
inline bool IsOnDevice(const std::string &device) {
    return (device.rfind("cuda", 0) == 0 && mfem::Device::Allows(mfem::Backend::CUDA_MASK)) ||
           (device.rfind("hip", 0) == 0 && mfem::Device::Allows(mfem::Backend::HIP_MASK));
}

/// What preconditioner and solver have in common; `Engine` is terrace::client::cycle or terrace::client::krylov.
template <class Engine>
class Base : public mfem::Solver {
public:
    /// On a device of Terrace's: "host", "host:4" for four threads, "cuda:0", "hip:0".
    explicit Base(const std::string &device = "host", bool is_iterative = false)
        : mfem::Solver(0, is_iterative), device_(device), system_(device) {
        // What MFEM has put on the default stream comes first.
        if (IsOnDevice(device)) system_.context().set_stream(reinterpret_cast<void *>(std::uintptr_t(1)));
    }

    /// Any option of docs/options.md, such as ("amg.smoother.type", "gauss_seidel"); for the next SetOperator, as are those below.
    void SetOption(const std::string &key, const std::string &value) { system_.set_option(key, value); }
    /// Options as a JSON object.
    void SetJSON(const std::string &json) { system_.load_json(json); }
    /// The options of a preset of docs/presets.md, such as "elasticity".
    void SetPreset(const std::string &name) { system_.load_preset(name); }

    /// For systems with `dim` unknowns at each node, as HypreBoomerAMG has it: numbered node by node, or all of a component first
    /// (`order_bynodes`, as mfem::Ordering::byNODES has it).
    void SetSystemsOptions(int dim, bool order_bynodes = false) {
        space_ = nullptr;
        dim_ = dim;
        by_nodes_ = order_bynodes;
        is_changed_ = true;
    }

    /// For displacements in a vector space of H1 elements of any order, in either ordering: rigid-body modes from the coordinates of its nodes,
    /// which are read at the next SetOperator, and at one for a matrix of another size. The space must live as long as this object.
    void SetElasticityOptions(const mfem::FiniteElementSpace *space) {
        space_ = space;
        is_changed_ = true;
    }

    /// Sets up for an mfem::SparseMatrix, or updates where the last one had the same pattern. The matrix is copied.
    void SetOperator(const mfem::Operator &op) override {
        const auto *a = dynamic_cast<const mfem::SparseMatrix *>(&op);
        if (!a) terrace::client::refuse(TERRACE_ERROR_UNSUPPORTED, "the operator is no mfem::SparseMatrix");
        if (!a->Finalized() || a->Height() != a->Width())
            terrace::client::refuse(TERRACE_ERROR_INVALID_ARGUMENT,
                                    "the matrix has " + std::to_string(a->Height()) + " rows and " + std::to_string(a->Width()) +
                                        " columns" + (a->Finalized() ? "" : ", and is not finalized"));
        if (is_changed_ || a->Height() != height) system_.set_nodes(Nodes(a->Height()));
        is_changed_ = false;
        const int *offsets = a->HostReadI(), *columns = a->HostReadJ();
        const mfem::real_t *values = a->HostReadData();
        system_.setup(a->Height(), offsets[a->Height()], [=](int row, auto &&each) {
            for (int k = offsets[row]; k < offsets[row + 1]; ++k) each(columns[k], values[k]);
        });
        height = width = a->Height();
        matrix_ = a;
    }

    /// The last SetOperator was an update.
    bool IsUpdate() const { return system_.is_update(); }
    /// Levels, sizes, times; of a solver also iterations and residuals. to_text() is a table.
    terrace::report GetReport() const { return system_.report(); }

protected:
    /// y = M x, or the solution of A y = x, or the same for the transposed matrix. On the device that both libraries have, unless unknowns must be
    /// brought into another order.
    void Apply(const mfem::Vector &x, mfem::Vector &y, terrace_guess guess, bool transposed = false) const {
        if (x.Size() != height || y.Size() != height)
            terrace::client::refuse(TERRACE_ERROR_SIZE_MISMATCH, "the vectors have " + std::to_string(x.Size()) + " and " +
                                                                     std::to_string(y.Size()) + " elements; " +
                                                                     std::to_string(height) + " are needed");
        const bool reads = guess != TERRACE_ZERO_GUESS;
        if (system_.is_in_order() && IsOnDevice(device_)) {
            const mfem::real_t *from = x.Read();
            system_.apply_on_device(from, reads ? y.ReadWrite() : y.Write(), guess, transposed);
        } else {
            const mfem::real_t *from = x.HostRead();
            system_.apply(from, reads ? y.HostReadWrite() : y.HostWrite(), guess, transposed);
        }
    }

    std::string device_;
    /// The matrix of the last SetOperator; the program's.
    const mfem::SparseMatrix *matrix_ = nullptr;
    mutable terrace::client::system<Engine, mfem::real_t> system_;

private:
    terrace::client::nodes Nodes(int rows) const {
        if (!space_) {
            if (by_nodes_ && dim_ > 1) return terrace::client::nodes::by_component(dim_, rows);
            terrace::client::nodes made;
            made.components = dim_;
            return made;
        }
        const int dim = space_->GetMesh()->SpaceDimension();
        if (space_->GetVDim() != dim || dim < 2 || space_->GetTrueVSize() != rows || space_->GetNURBSext())
            terrace::client::refuse(TERRACE_ERROR_INVALID_ARGUMENT,
                                    "SetElasticityOptions: the space has " + std::to_string(space_->GetTrueVSize()) +
                                        " unknowns in " + std::to_string(space_->GetVDim()) + " components, the matrix " +
                                        std::to_string(rows) + " rows, the mesh " + std::to_string(dim) +
                                        " dimensions; accepted: as many components as dimensions, 2 or 3, and no NURBS");
        const bool by_nodes = space_->GetOrdering() == mfem::Ordering::byNODES;
        terrace::client::nodes made;
        if (by_nodes) made = terrace::client::nodes::by_component(dim, rows);
        made.components = dim;
        // The coordinates as a function in a space with the same elements: its coefficients belong to the same nodes.
        mfem::FiniteElementSpace same(space_->GetMesh(), space_->FEColl(), dim, mfem::Ordering::byVDIM);
        mfem::GridFunction coordinates(&same);
        space_->GetMesh()->GetNodes(coordinates);
        mfem::Vector at_nodes;
        coordinates.GetTrueDofs(at_nodes);
        const mfem::real_t *numbers = at_nodes.HostRead();
        made.coordinates.assign(numbers, numbers + at_nodes.Size());
        return made;
    }

    const mfem::FiniteElementSpace *space_ = nullptr;
    int dim_ = 1;
    bool by_nodes_ = false, is_changed_ = false;
};

/// One AMG cycle: a preconditioner for mfem::CGSolver and its siblings. ("solver.preconditioner", "fsai") makes it FSAI.
class AMG : public Base<terrace::client::cycle> {
public:
    explicit AMG(const std::string &device = "host") : Base(device) {}
    /// Sets up at once, on the host.
    explicit AMG(const mfem::SparseMatrix &a) : Base("host") { SetOperator(a); }

    /// y = M x; with iterative_mode y += M (x - A y).
    void Mult(const mfem::Vector &x, mfem::Vector &y) const override {
        if (!iterative_mode || !matrix_) return Apply(x, y, TERRACE_ZERO_GUESS);
        mfem::Vector residual(x), correction(height);
        matrix_->AddMult(y, residual, -1.0);
        Apply(residual, correction, TERRACE_ZERO_GUESS);
        y += correction;
    }
    /// The same with the preconditioner of the transposed matrix: where the matrix is not symmetric, the first call sets up a second hierarchy.
    void MultTranspose(const mfem::Vector &x, mfem::Vector &y) const override {
        if (!iterative_mode || !matrix_) return Apply(x, y, TERRACE_ZERO_GUESS, true);
        mfem::Vector residual(x), correction(height);
        matrix_->AddMultTranspose(y, residual, -1.0);
        Apply(residual, correction, TERRACE_ZERO_GUESS, true);
        y += correction;
    }
};

/// A Krylov method of Terrace with AMG, which solves A y = x: CG, or what the options solver.type, solver.tolerance,
/// solver.max_iterations and others say.
class Solver : public Base<terrace::client::krylov> {
public:
    explicit Solver(const std::string &device = "host") : Base(device) {}
    /// Sets up at once, on the host.
    explicit Solver(const mfem::SparseMatrix &a) : Base("host") { SetOperator(a); }

    /// Solves; from y with iterative_mode, else from zero. Without convergence y is the best so far, and GetConverged() false.
    void Mult(const mfem::Vector &x, mfem::Vector &y) const override {
        Apply(x, y, iterative_mode ? TERRACE_GIVEN_GUESS : TERRACE_ZERO_GUESS);
    }
    /// Solves A^T y = x, otherwise as Mult(): where the matrix is not symmetric, the first call sets up a second solver.
    void MultTranspose(const mfem::Vector &x, mfem::Vector &y) const override {
        Apply(x, y, iterative_mode ? TERRACE_GIVEN_GUESS : TERRACE_ZERO_GUESS, true);
    }
    /// Whether the last solve met its tolerance.
    bool GetConverged() const { return system_.engine().outcome().ok(); }
    /// The iterations of the last solve.
    int GetNumIterations() const { return static_cast<int>(GetReport().get_int("iterations")); }
};

} // namespace terrace_mfem

#endif
