"""SciPy and PyAMG as oracles for tests/program/oracles.rs, which writes the files and calls this:

    oracles.py products FOLDER              C{k} = A{k} B{k} and T{k} = A{k}^T, for all k
    oracles.py levels FOLDER [constants]    what `terrace solve --dump-levels` wrote; with constants, P keeps them where A maps them to zero
    oracles.py iterations MATRIX METHOD [COORDINATES]
                                            prints the iterations of CG with PyAMG to 1e-8 for a right-hand side of ones

A deviation ends the program with a sentence and exit code 1.
"""

import pathlib
import sys

import numpy as np
import scipy.io
import scipy.sparse as sparse
import scipy.sparse.linalg


def read(path):
    return sparse.csr_array(scipy.io.mmread(path, spmatrix=False))


def close(found, expected, name, tolerance=1e-12):
    """Entries agree to `tolerance` of the largest one."""
    if found.shape != expected.shape:
        sys.exit(f"{name}: shape {found.shape} instead of {expected.shape}")
    scale = abs(expected).max() if expected.nnz else 1.0
    deviation = abs(found - expected).max() if (found - expected).nnz else 0.0
    if not deviation <= tolerance * scale:
        sys.exit(f"{name}: entries deviate by {deviation:.3e} of {scale:.3e}")


def products(folder):
    cases = sorted(folder.glob("A*.mtx"))
    for path in cases:
        a, b, c, t = (read(folder / path.name.replace("A", letter)) for letter in "ABCT")
        close(c, a @ b, f"product {path.stem}")
        close(t, sparse.csr_array(a.T), f"transpose {path.stem}", tolerance=0.0)
        if t.nnz != a.nnz:
            sys.exit(f"transpose {path.stem}: {t.nnz} entries instead of {a.nnz}")
    print(len(cases))


def levels(folder, constants):
    steps = sorted(folder.glob("P*.mtx"))
    for level in range(len(steps)):
        a, p, r, coarse = (read(folder / f"{letter}{level + k}.mtx") for letter, k in (("A", 0), ("P", 0), ("R", 0), ("A", 1)))
        close(r, sparse.csr_array(p.T), f"R{level}", tolerance=0.0)
        expected = sparse.csr_array(p.T @ a @ p)
        # A coarse unknown that nothing is interpolated from has a unit row.
        empty = abs(p).sum(axis=0) == 0.0
        close(coarse, expected + sparse.diags_array(empty.astype(float)), f"A{level + 1}")
        if constants:
            ones = np.ones(a.shape[0])
            inner = abs(a @ ones) <= 1e-12 * a.diagonal()
            sums = p @ np.ones(p.shape[1])
            if not inner.any():
                sys.exit(f"A{level}: no row sums to zero")
            if abs(sums[inner] - 1.0).max() > 1e-12:
                sys.exit(f"P{level}: a row sum is {sums[inner][abs(sums[inner] - 1.0).argmax()]} where A has none")
    print(len(steps))


def rigid_body_modes(coordinates):
    x, y, z = (coordinates - coordinates.mean(axis=0)).T
    modes = np.zeros((3 * len(x), 6))
    for c in range(3):
        modes[c::3, c] = 1.0
    modes[0::3, 3], modes[1::3, 3] = -y, x
    modes[1::3, 4], modes[2::3, 4] = -z, y
    modes[0::3, 5], modes[2::3, 5] = z, -x
    return modes


def iterations(path, method, coordinates):
    import pyamg

    a = sparse.csr_matrix(read(path))
    if method == "ruge_stuben":
        sweeps = {"presmoother": ("gauss_seidel", {"sweep": "forward"}), "postsmoother": ("gauss_seidel", {"sweep": "backward"})}
        hierarchy = pyamg.ruge_stuben_solver(a, strength=("classical", {"theta": 0.25}), max_coarse=200, **sweeps)
    else:
        smoother = ("chebyshev", {"degree": 2, "lower_bound": 1.0 / 8.0, "upper_bound": 1.1})
        modes = None if coordinates is None else rigid_body_modes(scipy.io.mmread(coordinates))
        if modes is not None:
            a = a.tobsr((3, 3))
        hierarchy = pyamg.smoothed_aggregation_solver(a, B=modes, max_coarse=200, presmoother=smoother, postsmoother=smoother)
    count = 0

    def step(_):
        nonlocal count
        count += 1

    b = np.ones(a.shape[0])
    x, failed = scipy.sparse.linalg.cg(a, b, rtol=1e-8, maxiter=500, M=hierarchy.aspreconditioner(cycle="V"), callback=step)
    if failed or np.linalg.norm(b - a @ x) > 1.1e-8 * np.linalg.norm(b):
        sys.exit(f"PyAMG did not converge in {count} iterations")
    print(count)


def main():
    what, path, *rest = sys.argv[1:]
    path = pathlib.Path(path)
    if what == "products":
        products(path)
    elif what == "levels":
        levels(path, "constants" in rest)
    elif what == "iterations":
        iterations(path, rest[0], rest[1] if len(rest) > 1 else None)
    else:
        sys.exit(f"unknown command {what}")


main()
