"""Poisson's equation on the unit cube in tetrahedra, solved by PETSc's CG. The preconditioner is that of the command line.

    poisson.py [-n 12] [-order 1] [-pc_type hypre]
    poisson.py -dll_append libterrace_petsc.so -pc_type terrace
"""

import sys

import petsc4py

petsc4py.init(sys.argv)

import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc

import solve

options = PETSc.Options()
n = options.getInt("n", 12)
cube = mesh.create_unit_cube(MPI.COMM_WORLD, n, n, n)
space = fem.FunctionSpace(cube, ("CG", options.getInt("order", 1)))
u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
x = ufl.SpatialCoordinate(cube)
stiffness = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
load = ufl.sin(5 * x[0]) * x[1] * v * ufl.dx

# Zero where the first coordinate is.
held = mesh.locate_entities_boundary(cube, cube.topology.dim - 1, lambda at: at[0] < 1e-9)
dofs = fem.locate_dofs_topological(space, cube.topology.dim - 1, held)
boundary = fem.dirichletbc(PETSc.ScalarType(0), dofs, space)
solve.solve(stiffness, load, boundary)
