"""A beam that is held at one end and bends under its weight, in tetrahedra, solved by PETSc's CG. Rigid-body modes are the near-null space of the
matrix. The preconditioner is that of the command line.

    elasticity.py [-n 4] [-order 1] [-pc_type hypre]
    elasticity.py -dll_append libterrace_petsc.so -pc_type terrace
"""

import sys

import petsc4py

petsc4py.init(sys.argv)

import numpy
import ufl
from dolfinx import fem, la, mesh
from mpi4py import MPI
from petsc4py import PETSc

import solve


def rigid_body_modes(space):
    """Three translations and three rotations, orthonormal."""
    at = space.tabulate_dof_coordinates()
    vectors = []
    for mode in range(6):
        vector = la.create_petsc_vector(space.dofmap.index_map, space.dofmap.index_map_bs)
        with vector.localForm() as local:
            values = local.array_w.reshape(-1, 3)
            values[:] = 0
            if mode < 3:
                values[:, mode] = 1
            else:
                first, second = (mode - 2) % 3, (mode - 1) % 3
                values[:, first], values[:, second] = -at[:, second], at[:, first]
        for other in vectors:
            vector.axpy(-vector.dot(other), other)
        vector.normalize()
        vectors.append(vector)
    return PETSc.NullSpace().create(vectors=vectors)


options = PETSc.Options()
n = options.getInt("n", 4)
beam = mesh.create_box(MPI.COMM_WORLD, [numpy.zeros(3), numpy.array([4.0, 1.0, 1.0])], [4 * n, n, n])
space = fem.VectorFunctionSpace(beam, ("CG", options.getInt("order", 1)))
u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
# Young's modulus 1, Poisson's ratio 0.3.
strain = lambda w: ufl.sym(ufl.grad(w))
stress = 0.3 / (1.3 * 0.4) * ufl.tr(strain(u)) * ufl.Identity(3) + strain(u) / 1.3
stiffness = ufl.inner(stress, strain(v)) * ufl.dx
load = -1e-3 * v[2] * ufl.dx

held = mesh.locate_entities_boundary(beam, beam.topology.dim - 1, lambda at: at[0] < 1e-9)
dofs = fem.locate_dofs_topological(space, beam.topology.dim - 1, held)
boundary = fem.dirichletbc(numpy.zeros(3), dofs, space)
solve.solve(stiffness, load, boundary, rigid_body_modes(space))
