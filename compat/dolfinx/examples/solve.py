"""Assembly and solution that the programs have in common."""

from dolfinx import fem
from petsc4py import PETSc


def solve(stiffness, load, boundary, near_null_space=None):
    """Prints iterations, the share of the residual that is left, and the energy of the solution."""
    stiffness, load = fem.form(stiffness), fem.form(load)
    matrix = fem.petsc.assemble_matrix(stiffness, [boundary])
    matrix.assemble()
    if near_null_space is not None:
        matrix.setNearNullSpace(near_null_space)
    b = fem.petsc.assemble_vector(load)
    fem.petsc.apply_lifting(b, [stiffness], [[boundary]])
    b.ghostUpdate(addv=PETSc.InsertMode.ADD, mode=PETSc.ScatterMode.REVERSE)
    fem.petsc.set_bc(b, [boundary])

    ksp = PETSc.KSP().create(matrix.comm)
    ksp.setOperators(matrix)
    ksp.setType("cg")
    ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
    ksp.setTolerances(rtol=1e-9)
    ksp.setFromOptions()
    x = b.duplicate()
    ksp.solve(b, x)
    residual = b - matrix * x
    PETSc.Sys.Print(
        f"{ksp.getPC().getType()}: {ksp.getIterationNumber()} iterations, residual {residual.norm() / b.norm():.1e}, "
        f"energy {b.dot(x):.9e}"
    )
    # The log of a library that serves the solver ends with it.
    ksp.destroy()
